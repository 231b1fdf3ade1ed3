/* SPDX-License-Identifier: Apache-2.0
 *
 * op_text: operators on text and lists. The loops are built from the bodies of body_text.h. */
#include "common/op/loop_text.h"

#include <stdlib.h>

/* For a device, which has its own memory. */
static struct opv_str *ngrams_texts(void *param, int k)
{
    return k == 0 ? &((struct op_ngrams *)param)->sep : NULL;
}

static int prepare_ngrams(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *size = call->arg[1].literal, *sep = s->named[0];
    struct op_ngrams *p;

    if (size->i < 1 || size->i > 16)
        return ctr_fail(err, CTR_EUSAGE, "ngrams wants a size from 1 to 16");
    if (sep && sep->kind != CTR_V_STR)
        return ctr_fail(err, CTR_EUSAGE, "ngrams: sep must be a text");
    s->param = p = malloc(sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    s->param_free = free;
    s->param_bytes = sizeof *p;
    s->param_texts = ngrams_texts;
    p->size = size->i;
    p->sep = (struct opv_str){ (const uint8_t *)(sep ? sep->s.p : " "), sep ? (int64_t)sep->s.n : 1 };
    return 0;
}

const struct ctr_op ctr_ops_text[] = {
    { "concat", "concat(scalar, ...) -> text",
      "the texts of the arguments one after another: concat(\"a\", 1, \"b\") is a1b", CTR_OP_LIFT,
      CTR_VARIANTS({ "x*>t", loop_concat }) },
    { "lower", "lower(text) -> text",
      "in lower case, letters of Latin, Greek, Cyrillic and Armenian whose lower case has as many bytes: lower(\"Red "
      "Box\") is red box",
      CTR_OP_LIFT, CTR_VARIANTS({ "t>t", loop_lower }) },
    { "split", "split(text, separator: text) -> list of text",
      "the pieces between separators, empty ones too: split(\"a,,b\", \",\") is [a,,b]; an empty text has none", 0,
      CTR_VARIANTS({ "tt>[t", loop_split }) },
    { "words", "words(text) -> list of text",
      "runs of letters and digits: words(\"Red, 42!\") is [Red,42]; whatever is not ASCII is a letter", 0,
      CTR_VARIANTS({ "t>[t", loop_words }) },
    { "ngrams", "ngrams(list of text or text, size: int, sep=\" \") -> list of text",
      "runs of `size` items joined by sep, or of `size` characters of a text: ngrams(split(\"a b c\", \" \"), 2) is [a "
      "b,b c]",
      0, CTR_VARIANTS({ "[ti!>[t", loop_ngrams_list }, { "ti!>[t", loop_ngrams_text }), "sep", prepare_ngrams },
    { "join", "join(list of scalars, separator: text) -> text",
      "the texts of the items with separators between: join([1,2], \"-\") is 1-2", 0,
      CTR_VARIANTS({ "[xt>t", loop_join }) },
    { "before", "before(text, mark: text) -> text",
      "what lies before the first mark: before(\"k=v=w\", \"=\") is k; all of it where there is none", CTR_OP_LIFT,
      CTR_VARIANTS({ "tt>t", loop_before }) },
    { "after", "after(text, mark: text) -> text",
      "what lies after the first mark: after(\"k=v=w\", \"=\") is v=w; null where there is none", CTR_OP_LIFT,
      CTR_VARIANTS({ "tt>t", loop_after }) },
    { "substr", "substr(text, start: int, length: int) -> text",
      "`length` characters from character `start`, 0 the first, -1 the last: substr(\"abcd\", 1, 2) is bc", CTR_OP_LIFT,
      CTR_VARIANTS({ "tii>t", loop_substr }) },
    { "like", "like(text, pattern: text) -> bool",
      "does all of it match? % is any text, _ one character, \\ escapes: like(\"shoes\", \"sh_e%\") is true",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt>b", loop_like }) },
    { "length", "length(text or list) -> int",
      "number of characters of a text: length(\"word\") is 4; or of items: length([5,6]) is 2", 0,
      CTR_VARIANTS({ "t>i", loop_length }, { "[v>i", loop_items }) },
    { "at", "at(list, index: int) -> type of the items",
      "one item, 0 the first, -1 the last: at([5,6], -1) is 6; null where there is none", 0,
      CTR_VARIANTS({ "[ui>u", loop_at_8 }, { "[ii>i", loop_at_8 }, { "[fi>0", loop_at_8 }, { "[ti>t", loop_at_t },
                   { "[Ti>T", loop_at_8 }, { "[di>d", loop_at_8 }, { "[ki>k", loop_at_8 }, { "[bi>b", loop_at_b }) },
    { "dot", "dot(list of numbers, list of numbers) -> float",
      "sum of the products, in order: dot([1,2], [3,4]) is 11; null where the lengths differ or an item is null", 0,
      CTR_VARIANTS({ "[f[f>f", loop_dot }) },
    { "cosine", "cosine(list of numbers, list of numbers) -> float",
      "dot(x, y) / sqrt(dot(x, x)) / sqrt(dot(y, y)), from -1 to 1: cosine([3,4], [3,4]) is 1; null where dot is or "
      "one "
      "of them has only zeros",
      0, CTR_VARIANTS({ "[f[f>f", loop_cosine }) },
    { NULL },
};
