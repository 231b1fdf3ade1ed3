/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_text: the loops of op_text.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_TEXT_H
#define CTR_LOOP_TEXT_H

#include "common/op/loop.h"

#define OP_STR(t, k, i)  (((const struct opv_str *)(t)->in[k].v)[i])
#define OP_INT(t, k, i)  (((const int64_t *)(t)->in[k].v)[i])
#define OP_SPAN(t, k, i) ((t)->in[k].span[i])
#define OP_TEXTS(t, k)   ((const struct opv_str *)(t)->in[k].item)
#define OP_BYTES(t, i)   OP_STR(t, 0, i).n

/* ---- text to text ---- */

#define LOWER(t, i, s) opv_lower_write(OP_STR(t, 0, i), s)
CTR_LOOP_TEXT(loop_lower, OP_BYTES, LOWER)
#define BEFORE(t, i, s) opv_before_write(OP_STR(t, 0, i), OP_STR(t, 1, i), s)
CTR_LOOP_TEXT(loop_before, OP_BYTES, BEFORE)
#define AFTER(t, i, s) opv_after_write(OP_STR(t, 0, i), OP_STR(t, 1, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_after, OP_BYTES, AFTER)
#define SUBSTR(t, i, s) opv_substr_write(OP_STR(t, 0, i), OP_INT(t, 1, i), OP_INT(t, 2, i), s)
CTR_LOOP_TEXT(loop_substr, OP_BYTES, SUBSTR)

OPV_FN int64_t op_concat_max(const struct ctr_op_tile *t, int i)
{
    int64_t n = 0;
    for (int k = 0; k < t->nargs; k++)
        n += OP_STR(t, k, i).n;
    return n;
}
OPV_FN void op_concat_write(const struct ctr_op_tile *t, int i, struct opv_sink *s)
{
    for (int k = 0; k < t->nargs; k++)
        opv_put(s, OP_STR(t, k, i).p, OP_STR(t, k, i).n);
}
CTR_LOOP_TEXT(loop_concat, op_concat_max, op_concat_write)

CTR_LOOP2(loop_like, struct opv_str, struct opv_str, uint8_t, opv_like(a0[i], a1[i]))
CTR_LOOP1(loop_length, struct opv_str, int64_t, opv_utf8_length(a0[i]))

/* ---- text to lists ---- */

#define SPLIT_ITEMS(t, i)    opv_split_items(OP_STR(t, 0, i), OP_STR(t, 1, i))
#define SPLIT_WRITE(t, i, s) opv_split_write(OP_STR(t, 0, i), OP_STR(t, 1, i), s)
CTR_LOOP_TEXTS(loop_split, OP_BYTES, SPLIT_ITEMS, SPLIT_WRITE)

#define WORDS_ITEMS(t, i)    ((OP_BYTES(t, i) + 1) / 2)
#define WORDS_WRITE(t, i, s) opv_words_write(OP_STR(t, 0, i), s)
CTR_LOOP_TEXTS(loop_words, OP_BYTES, WORDS_ITEMS, WORDS_WRITE)

struct op_ngrams {
    int64_t size;
    struct opv_str sep;
};
#define NGRAM                ((const struct op_ngrams *)(t)->param)
#define CHARS_MAX(t, i)      (OP_BYTES(t, i) * NGRAM->size)
#define CHARS_WRITE(t, i, s) opv_ngrams_text_write(OP_STR(t, 0, i), NGRAM->size, s)
#define GRAMS_MAX(t, i)      (opv_join_max(OP_SPAN(t, 0, i), OP_TEXTS(t, 0), NGRAM->sep) * NGRAM->size)
#define GRAMS_ITEMS(t, i)    (OP_SPAN(t, 0, i).to - OP_SPAN(t, 0, i).from)
#define GRAMS_WRITE(t, i, s)                                                                                           \
    opv_ngrams_list_write(OP_SPAN(t, 0, i), OP_TEXTS(t, 0), (t)->in[0].item_ok, NGRAM->size, NGRAM->sep, s)
CTR_LOOP_TEXTS(loop_ngrams_text, CHARS_MAX, OP_BYTES, CHARS_WRITE)
CTR_LOOP_TEXTS(loop_ngrams_list, GRAMS_MAX, GRAMS_ITEMS, GRAMS_WRITE)

/* ---- lists ---- */

#define JOIN_MAX(t, i)      opv_join_max(OP_SPAN(t, 0, i), OP_TEXTS(t, 0), OP_STR(t, 1, i))
#define JOIN_WRITE(t, i, s) opv_join_write(OP_SPAN(t, 0, i), OP_TEXTS(t, 0), (t)->in[0].item_ok, OP_STR(t, 1, i), s)
CTR_LOOP_TEXT(loop_join, JOIN_MAX, JOIN_WRITE)

CTR_LOOP0(loop_items, int64_t, in[0].span[i].to - in[0].span[i].from)

OPV_FN int64_t op_at(struct ctr_op_tile *t, int i)
{
    return t->ok[i] ? opv_at(OP_SPAN(t, 0, i), OP_INT(t, 1, i), t->in[0].item_ok, &t->ok[i]) : -1;
}
OPV_FN uint64_t op_at_8(struct ctr_op_tile *t, int i)
{
    const int64_t at = op_at(t, i);
    return at < 0 ? 0 : ((const uint64_t *)t->in[0].item)[at];
}
OPV_FN uint8_t op_at_b(struct ctr_op_tile *t, int i)
{
    const int64_t at = op_at(t, i);
    return (uint8_t)(at < 0 ? 0 : ((const uint8_t *)t->in[0].item)[at]);
}
CTR_LOOP0(loop_at_8, uint64_t, op_at_8(t, i))
CTR_LOOP0(loop_at_b, uint8_t, op_at_b(t, i))

OPV_FN void op_at_write(struct ctr_op_tile *t, int i, struct opv_sink *s)
{
    const int64_t at = op_at(t, i);
    if (at >= 0)
        opv_put(s, OP_TEXTS(t, 0)[at].p, OP_TEXTS(t, 0)[at].n);
}
OPV_FN int64_t op_at_max(const struct ctr_op_tile *t, int i)
{
    uint8_t ok = 1;
    const int64_t at = opv_at(OP_SPAN(t, 0, i), OP_INT(t, 1, i), t->in[0].item_ok, &ok);
    return at < 0 ? 0 : OP_TEXTS(t, 0)[at].n;
}
CTR_LOOP_TEXT(loop_at_t, op_at_max, op_at_write)

OPV_FN double op_dot(struct ctr_op_tile *t, int i)
{
    const struct ctr_op_in *a = &t->in[0], *b = &t->in[1];
    return t->ok[i] ? opv_dot(a->span[i], (const double *)a->item, a->item_ok, b->span[i], (const double *)b->item,
                              b->item_ok, &t->ok[i])
                    : 0;
}
CTR_LOOP0(loop_dot, double, op_dot(t, i))
OPV_FN double op_cosine(struct ctr_op_tile *t, int i)
{
    const struct ctr_op_in *a = &t->in[0], *b = &t->in[1];
    return t->ok[i] ? opv_cosine(a->span[i], (const double *)a->item, a->item_ok, b->span[i], (const double *)b->item,
                                 b->item_ok, &t->ok[i])
                    : 0;
}
CTR_LOOP0(loop_cosine, double, op_cosine(t, i))

#endif
