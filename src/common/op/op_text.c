/* SPDX-License-Identifier: Apache-2.0
 *
 * op_text: operators on text and lists. The loops are made from the bodies of opbody_text.h. */
#include "common/op/opint.h"

#include <stdlib.h>

#define STR(t, k, i)  (((const struct opv_str *)(t)->in[k].v)[i])
#define INT(t, k, i)  (((const int64_t *)(t)->in[k].v)[i])
#define SPAN(t, k, i) ((t)->in[k].span[i])
#define LENGTH(t, i)  STR(t, 0, i).n

/* ---- text to text ---- */

#define LOWER(t, i, s) opv_lower_write(STR(t, 0, i), s)
CTR_LOOP_TEXT(loop_lower, LENGTH, LOWER)
#define BEFORE(t, i, s) opv_before_write(STR(t, 0, i), STR(t, 1, i), s)
CTR_LOOP_TEXT(loop_before, LENGTH, BEFORE)
#define AFTER(t, i, s) opv_after_write(STR(t, 0, i), STR(t, 1, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_after, LENGTH, AFTER)
#define SUBSTR(t, i, s) opv_substr_write(STR(t, 0, i), INT(t, 1, i), INT(t, 2, i), s)
CTR_LOOP_TEXT(loop_substr, LENGTH, SUBSTR)

static inline int64_t concat_max(const struct ctr_op_tile *t, int i)
{
    int64_t n = 0;

    for (int k = 0; k < t->nargs; k++)
        n += STR(t, k, i).n;
    return n;
}
static inline void concat_write(const struct ctr_op_tile *t, int i, struct opv_sink *s)
{
    for (int k = 0; k < t->nargs; k++)
        opv_put(s, STR(t, k, i).p, STR(t, k, i).n);
}
CTR_LOOP_TEXT(loop_concat, concat_max, concat_write)

CTR_LOOP2(loop_like, struct opv_str, struct opv_str, uint8_t, opv_like(a0[i], a1[i]))
CTR_LOOP1(loop_length, struct opv_str, int64_t, opv_utf8_length(a0[i]))

/* ---- text to lists ---- */

#define SPLIT_ITEMS(t, i)    opv_split_items(STR(t, 0, i), STR(t, 1, i))
#define SPLIT_WRITE(t, i, s) opv_split_write(STR(t, 0, i), STR(t, 1, i), s)
CTR_LOOP_TEXTS(loop_split, LENGTH, SPLIT_ITEMS, SPLIT_WRITE)

#define WORDS_ITEMS(t, i)    ((LENGTH(t, i) + 1) / 2)
#define WORDS_WRITE(t, i, s) opv_words_write(STR(t, 0, i), s)
CTR_LOOP_TEXTS(loop_words, LENGTH, WORDS_ITEMS, WORDS_WRITE)

struct ngrams {
    int64_t size;
    struct opv_str sep;
};
#define NGRAM                ((const struct ngrams *)(t)->param)
#define CHARS_MAX(t, i)      (LENGTH(t, i) * NGRAM->size)
#define CHARS_WRITE(t, i, s) opv_ngrams_text_write(STR(t, 0, i), NGRAM->size, s)
#define GRAMS_MAX(t, i)      (opv_join_max(SPAN(t, 0, i), (t)->in[0].item, NGRAM->sep) * NGRAM->size)
#define GRAMS_ITEMS(t, i)    (SPAN(t, 0, i).to - SPAN(t, 0, i).from)
#define GRAMS_WRITE(t, i, s)                                                                                           \
    opv_ngrams_list_write(SPAN(t, 0, i), (t)->in[0].item, (t)->in[0].item_ok, NGRAM->size, NGRAM->sep, s)
CTR_LOOP_TEXTS(loop_ngrams_text, CHARS_MAX, LENGTH, CHARS_WRITE)
CTR_LOOP_TEXTS(loop_ngrams_list, GRAMS_MAX, GRAMS_ITEMS, GRAMS_WRITE)

static int prepare_ngrams(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *size = call->arg[1].literal, *sep = s->named[0];
    struct ngrams *p;

    if (size->i < 1 || size->i > 16)
        return ctr_fail(err, CTR_EUSAGE, "ngrams wants a size from 1 to 16");
    if (sep && sep->kind != CTR_V_STR)
        return ctr_fail(err, CTR_EUSAGE, "ngrams: sep must be a text");
    s->param = p = malloc(sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    s->param_free = free;
    p->size = size->i;
    p->sep = (struct opv_str){ (const uint8_t *)(sep ? sep->s.p : " "), sep ? (int64_t)sep->s.n : 1 };
    return 0;
}

/* ---- lists ---- */

#define JOIN_MAX(t, i)      opv_join_max(SPAN(t, 0, i), (t)->in[0].item, STR(t, 1, i))
#define JOIN_WRITE(t, i, s) opv_join_write(SPAN(t, 0, i), (t)->in[0].item, (t)->in[0].item_ok, STR(t, 1, i), s)
CTR_LOOP_TEXT(loop_join, JOIN_MAX, JOIN_WRITE)

static int loop_items(struct ctr_op_tile *t, struct ctr_err *err)
{
    int64_t *r = t->out;

    (void)err;
    for (int i = 0; i < t->n; i++)
        r[i] = SPAN(t, 0, i).to - SPAN(t, 0, i).from;
    return 0;
}

#define AT(name, T)                                                                                                    \
    static int name(struct ctr_op_tile *t, struct ctr_err *err)                                                        \
    {                                                                                                                  \
        const T *item = t->in[0].item;                                                                                 \
        T *r = t->out;                                                                                                 \
        (void)err;                                                                                                     \
        for (int i = 0; i < t->n; i++) {                                                                               \
            int64_t at = t->ok[i] ? opv_at(SPAN(t, 0, i), INT(t, 1, i), t->in[0].item_ok, &t->ok[i]) : -1;             \
            r[i] = at < 0 ? 0 : item[at];                                                                              \
        }                                                                                                              \
        return 0;                                                                                                      \
    }
AT(loop_at_8, uint64_t)
AT(loop_at_b, uint8_t)

static inline void at_write(struct ctr_op_tile *t, int i, struct opv_sink *s)
{
    const struct opv_str *item = t->in[0].item;
    int64_t at = opv_at(SPAN(t, 0, i), INT(t, 1, i), t->in[0].item_ok, &t->ok[i]);

    if (at >= 0)
        opv_put(s, item[at].p, item[at].n);
}
static inline int64_t at_max(const struct ctr_op_tile *t, int i)
{
    const struct opv_str *item = t->in[0].item;
    uint8_t ok = 1;
    int64_t at = opv_at(SPAN(t, 0, i), INT(t, 1, i), t->in[0].item_ok, &ok);

    return at < 0 ? 0 : item[at].n;
}
CTR_LOOP_TEXT(loop_at_t, at_max, at_write)

static int loop_dot(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct ctr_op_in *a = &t->in[0], *b = &t->in[1];
    double *r = t->out;

    (void)err;
    for (int i = 0; i < t->n; i++)
        r[i] = t->ok[i] ? opv_dot(a->span[i], a->item, a->item_ok, b->span[i], b->item, b->item_ok, &t->ok[i]) : 0;
    return 0;
}

const struct ctr_op ctr_ops_text[] = {
    { "concat", "concat(scalar, ...) -> text", "the texts of the arguments one after another", CTR_OP_LIFT,
      CTR_VARIANTS({ "x*>t", loop_concat }) },
    { "lower", "lower(text) -> text", "in lower case: Latin, Greek, Cyrillic and Armenian letters", CTR_OP_LIFT,
      CTR_VARIANTS({ "t>t", loop_lower }) },
    { "split", "split(text, separator: text) -> list of text",
      "the pieces between separators, empty ones too; an empty text has none", 0,
      CTR_VARIANTS({ "tt>[t", loop_split }) },
    { "words", "words(text) -> list of text", "runs of letters and digits; whatever is not ASCII is a letter", 0,
      CTR_VARIANTS({ "t>[t", loop_words }) },
    { "ngrams", "ngrams(list of text or text, size: int, sep=\" \") -> list of text",
      "runs of `size` items joined by sep, or of `size` characters of a text", 0,
      CTR_VARIANTS({ "[ti!>[t", loop_ngrams_list }, { "ti!>[t", loop_ngrams_text }), "sep", prepare_ngrams },
    { "join", "join(list, separator: text) -> text", "the texts of the items with separators between", 0,
      CTR_VARIANTS({ "[xt>t", loop_join }) },
    { "before", "before(text, mark: text) -> text", "what lies before the first mark; all of it where there is none",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt>t", loop_before }) },
    { "after", "after(text, mark: text) -> text", "what lies after the first mark; null where there is none",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt>t", loop_after }) },
    { "substr", "substr(text, start: int, length: int) -> text",
      "`length` characters from character `start`: 0 is the first, -1 the last", CTR_OP_LIFT,
      CTR_VARIANTS({ "tii>t", loop_substr }) },
    { "like", "like(text, pattern: text) -> bool", "does all of it match? % is any text, _ one character, \\ escapes",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt>b", loop_like }) },
    { "length", "length(text or list) -> int", "number of characters of a text, or of items", 0,
      CTR_VARIANTS({ "t>i", loop_length }, { "[v>i", loop_items }) },
    { "at", "at(list, index: int) -> type of the items",
      "one item: 0 is the first, -1 the last; null where there is none", 0,
      CTR_VARIANTS({ "[ii>i", loop_at_8 }, { "[fi>0", loop_at_8 }, { "[ti>t", loop_at_t }, { "[Ti>T", loop_at_8 },
                   { "[di>d", loop_at_8 }, { "[ki>k", loop_at_8 }, { "[bi>b", loop_at_b }) },
    { "dot", "dot(list of numbers, list of numbers) -> float",
      "sum of the products, in order; null where the lengths differ or an item is null", 0,
      CTR_VARIANTS({ "[f[f>f", loop_dot }) },
    { NULL },
};
