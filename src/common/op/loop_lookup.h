/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_lookup: lookup() and embedding() as device calls: the same as in op_lookup.c. The keyed file is in the
 * device's memory, as op_lookup.c lays it out; its keys are in order, and the first of equal ones is found by halving.
 */
#ifndef CTR_LOOP_LOOKUP_H
#define CTR_LOOP_LOOKUP_H

#include "common/op/loop_device.h"

/* Positions in the table are bytes; texts of rows are bytes and, before them, where each begins. */
struct op_lookup {
    const uint8_t *table;
    int64_t rows, key, key_bytes, value, value_bytes, ok;
    int64_t text;                        /* keys are texts, else integers */
    int64_t keys_unsigned, arg_unsigned; /* of 64 bits */
    int64_t width, pool;                 /* of vectors */
};
enum { OP_POOL_MEAN, OP_POOL_SUM, OP_POOL_MAX };

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
OPV_FN int op_lookup_compare(const struct op_lookup *p, int64_t row, const void *asked)
{
    if (p->text) {
        const struct opv_str key = op_lookup_text(p, row), s = *(const struct opv_str *)asked;
        for (int64_t i = 0; i < key.n && i < s.n; i++)
            if (key.p[i] != s.p[i])
                return key.p[i] < s.p[i] ? -1 : 1;
        return key.n < s.n ? -1 : key.n > s.n;
    }
    const int64_t key = op_lookup_words(p, p->key)[row], v = *(const int64_t *)asked;
    if (p->keys_unsigned)
        return (uint64_t)key < (uint64_t)v ? -1 : (uint64_t)key > (uint64_t)v;
    return key < v ? -1 : key > v;
}

/* The row of the file that has this key and a value, or -1. An integer that one side cannot have is no key. */
OPV_FN int64_t op_lookup_find(const struct op_lookup *p, const void *asked)
{
    int64_t from = 0, to = p->rows;
    if (!p->text && p->keys_unsigned != p->arg_unsigned && *(const int64_t *)asked < 0)
        return -1;
    while (from < to) {
        const int64_t half = from + (to - from) / 2;
        if (op_lookup_compare(p, half, asked) < 0)
            from = half + 1;
        else
            to = half;
    }
    return from < p->rows && op_lookup_compare(p, from, asked) == 0 && p->table[p->ok + from] ? from : -1;
}
OPV_FN int64_t op_lookup_row(const struct ctr_op_tile *t)
{
    return t->in[1].ok[0] ? op_lookup_find((const struct op_lookup *)t->param, t->in[1].v) : -1;
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

/* Position d of the vectors of n rows, of which -1 has none: sums are double, in the order of the list. */
OPV_FN float op_embedding_at(const struct op_lookup *p, const int64_t *row, int64_t n, int64_t d)
{
    const float *v = (const float *)(const void *)(p->table + p->value);
    int64_t count = 0;
    double r = 0;
    for (int64_t k = 0; k < n; k++)
        if (row[k] >= 0) {
            const double x = (double)v[row[k] * p->width + d];
            r = p->pool != OP_POOL_MAX ? r + x : !count || x > r ? x : r;
            count++;
        }
    return opv_number_f32(p->pool == OP_POOL_MEAN && count ? r / (double)count : r);
}

CTR_LOOP_TILE(loop_embedding)
{
    const struct op_lookup *p = (const struct op_lookup *)t->param;
    const struct ctr_op_in *in = &t->in[1];
    const struct opv_span s = in->span[0];
    int64_t *row = t->at + s.from, n = in->ok[0] ? s.to - s.from : 0, found = 0;
    for (int64_t k = 0; k < n; k++) {
        const void *asked = p->text ? (const void *)((const struct opv_str *)in->item + s.from + k)
                                    : (const void *)((const int64_t *)in->item + s.from + k);
        row[k] = in->item_ok[s.from + k] ? op_lookup_find(p, asked) : -1;
        found += row[k] >= 0;
    }
    t->ok[0] &= found > 0;
    for (int64_t d = 0; d < p->width; d++)
        ((float *)t->out)[d] = op_embedding_at(p, row, n, d);
}

#endif
