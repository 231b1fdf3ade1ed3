/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_regex: the loops of op_regex.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_REGEX_H
#define CTR_LOOP_REGEX_H

#include "common/op/body_regex.h"
#include "common/op/loop_text.h"

/* A piece of a replacement: a group, or (-1) bytes [from, to) of it. */
struct op_piece {
    int64_t group, from, to;
};
enum { OP_PIECES = 32 };
/* The parameters of a call; the table of states follows. */
struct op_regex {
    int64_t group; /* that extract gives */
    struct opv_str by;
    int64_t npieces, plain_bytes, groups; /* plain_bytes and how many groups of a replacement */
    struct op_piece piece[OP_PIECES];
    struct opv_regex re;
};
#define OP_REGEX(t) ((const struct op_regex *)(t)->param)

CTR_LOOP_PARAM(loop_matches, struct opv_str, struct op_regex, uint8_t, opv_re_test(&p->re, a0[i]))

OPV_FN void op_extract_write(const struct op_regex *p, struct opv_str a, struct opv_sink *s, uint8_t *ok)
{
    struct opv_span found;
    if (opv_re_test(&p->re, a) && opv_re_search(&p->re, a, 0, p->group, 0, &found) && found.from >= 0)
        opv_put(s, a.p + found.from, found.to - found.from);
    else
        *ok = 0;
}
#define EXTRACT(t, i, s) op_extract_write(OP_REGEX(t), OP_STR(t, 0, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_extract, OP_BYTES, EXTRACT)

OPV_FN void op_put_replacement(const struct op_regex *p, struct opv_str a, int64_t from, int advance,
                               struct opv_sink *s)
{
    for (int64_t k = 0; k < p->npieces; k++) {
        struct opv_span group;
        if (p->piece[k].group < 0)
            opv_put(s, p->by.p + p->piece[k].from, p->piece[k].to - p->piece[k].from);
        else if (opv_re_search(&p->re, a, from, p->piece[k].group, advance, &group) && group.from >= 0)
            opv_put(s, a.p + group.from, group.to - group.from);
    }
}
/* Each match from the left; behind an empty one the next is longer or further on. */
OPV_FN void op_replace_matches_write(const struct op_regex *p, struct opv_str a, struct opv_sink *s)
{
    struct opv_span found;
    int64_t at = 0, advance = 0;
    if (!opv_re_test(&p->re, a)) {
        opv_put(s, a.p, a.n);
        return;
    }
    while (at <= a.n && opv_re_search(&p->re, a, at, 0, (int)advance, &found)) {
        opv_put(s, a.p + at, found.from - at);
        op_put_replacement(p, a, at, (int)advance, s);
        advance = found.to == found.from;
        at = found.to;
    }
    opv_put(s, a.p + at, a.n - at);
}
/* At most an empty match before each byte and at the end, and n that are longer, as a place may have one of each; what
 * groups hold is in disjoint matches. */
OPV_FN int64_t op_replace_matches_max(const struct op_regex *p, int64_t n)
{
    return n + (2 * n + 1) * p->plain_bytes + n * p->groups;
}
#define REPLACE_MATCHES_MAX(t, i) op_replace_matches_max(OP_REGEX(t), OP_BYTES(t, i))
#define REPLACE_MATCHES(t, i, s)  op_replace_matches_write(OP_REGEX(t), OP_STR(t, 0, i), s)
CTR_LOOP_TEXT(loop_replace_matches, REPLACE_MATCHES_MAX, REPLACE_MATCHES)

#endif
