/* SPDX-License-Identifier: Apache-2.0
 *
 * oploop_lookup: lookup() as a device call: the same as column_lookup of op_lookup.c. The keyed file is in the device's
 * memory, as op_lookup.c lays it out; its keys are in order, and the first of equal ones is found by halving. */
#ifndef CTR_OPLOOP_LOOKUP_H
#define CTR_OPLOOP_LOOKUP_H

#include "common/op/oploop_device.h"

/* Positions in the table are bytes; texts of rows are bytes and, before them, where each begins. */
struct op_lookup {
    const uint8_t *table;
    int64_t rows, key, key_bytes, value, value_bytes, ok;
    int64_t text;                        /* keys are texts, else integers */
    int64_t keys_unsigned, arg_unsigned; /* of 64 bits */
};

OPV_FN const int64_t *op_lookup_words(const struct op_lookup *p, int64_t at)
{
    return (const int64_t *)(const void *)(p->table + at);
}

OPV_FN struct opv_str op_lookup_text(const struct op_lookup *p, int64_t row)
{
    const int64_t *begin = op_lookup_words(p, p->key);
    struct opv_str s;
    s.p = p->table + p->key_bytes + begin[row];
    s.n = begin[row + 1] - begin[row];
    return s;
}

/* Below 0, 0 or above 0: the key of a row is less than the argument, equal to it, or greater. */
OPV_FN int op_lookup_compare(const struct op_lookup *p, int64_t row, const struct ctr_op_in *in)
{
    if (p->text) {
        const struct opv_str key = op_lookup_text(p, row), s = *(const struct opv_str *)in->v;
        for (int64_t i = 0; i < key.n && i < s.n; i++)
            if (key.p[i] != s.p[i])
                return key.p[i] < s.p[i] ? -1 : 1;
        return key.n < s.n ? -1 : key.n > s.n;
    }
    const int64_t key = op_lookup_words(p, p->key)[row], v = *(const int64_t *)in->v;
    if (p->keys_unsigned)
        return (uint64_t)key < (uint64_t)v ? -1 : (uint64_t)key > (uint64_t)v;
    return key < v ? -1 : key > v;
}

/* The row of the file that has the key and a value, or -1. An integer that one side cannot have is no key. */
OPV_FN int64_t op_lookup_row(const struct ctr_op_tile *t)
{
    const struct op_lookup *p = (const struct op_lookup *)t->param;
    const struct ctr_op_in *in = &t->in[1];
    int64_t from = 0, to = p->rows;
    if (!in->ok[0] || (!p->text && p->keys_unsigned != p->arg_unsigned && *(const int64_t *)in->v < 0))
        return -1;
    while (from < to) {
        const int64_t half = from + (to - from) / 2;
        if (op_lookup_compare(p, half, in) < 0)
            from = half + 1;
        else
            to = half;
    }
    return from < p->rows && op_lookup_compare(p, from, in) == 0 && p->table[p->ok + from] ? from : -1;
}

OPV_FN int64_t op_lookup_value(const struct ctr_op_tile *t, uint8_t *ok)
{
    const struct op_lookup *p = (const struct op_lookup *)t->param;
    const int64_t row = op_lookup_row(t);
    *ok &= row >= 0;
    return row >= 0 ? op_lookup_words(p, p->value)[row] : 0;
}
CTR_LOOP0(loop_lookup, int64_t, op_lookup_value(t, &ok[i]))

OPV_FN void op_lookup_write(struct ctr_op_tile *t, struct opv_sink *s)
{
    const struct op_lookup *p = (const struct op_lookup *)t->param;
    const int64_t row = op_lookup_row(t), *begin = op_lookup_words(p, p->value);
    t->ok[0] &= row >= 0;
    if (row >= 0)
        opv_put(s, p->table + p->value_bytes + begin[row], begin[row + 1] - begin[row]);
}
#define LOOKUP_TEXT(t, i, s) op_lookup_write(t, s)
CTR_LOOP_TEXT(loop_lookup_text, 0, LOOKUP_TEXT)

#endif
