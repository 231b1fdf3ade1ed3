/* SPDX-License-Identifier: Apache-2.0
 *
 * values: the distinct values of a column, numbered by first occurrence, as dictionaries are made of them. Invariant:
 * two rows have one number exactly if their values have the same bits; the hash only says where to look. */
#include "common/stream/batch.h"

static const void *at(const struct ctr_col *c, int64_t i)
{
    return (const uint8_t *)c->data + (size_t)i * (size_t)ctr_types[c->type].width;
}

/* The bits of a value of fixed width. */
static uint64_t bits_at(const struct ctr_col *c, int64_t i)
{
    uint64_t bits = 0;
    switch (ctr_types[c->type].width) { /* of constant size, a copy is a load */
    case 1: memcpy(&bits, at(c, i), 1); break;
    case 2: memcpy(&bits, at(c, i), 2); break;
    case 4: memcpy(&bits, at(c, i), 4); break;
    default: memcpy(&bits, at(c, i), 8); break;
    }
    return bits;
}

static bool same(const struct ctr_col *c, int64_t i, int64_t j, int32_t width)
{
    const bool null = ctr_col_null(c, i);
    if (null || ctr_col_null(c, j))
        return null && ctr_col_null(c, j);
    if (c->type == CTR_BOOL)
        return ctr_bit(c->data, i) == ctr_bit(c->data, j);
    if (c->type == CTR_WKEY && memcmp(&c->weight[i], &c->weight[j], sizeof *c->weight) != 0)
        return false;
    if (c->type == CTR_UTF8) {
        const struct ctr_str a = ctr_col_str(c, i), b = ctr_col_str(c, j);
        return a.n == b.n && !memcmp(a.p, b.p, a.n);
    }
    if (!ctr_type_list(c->type))
        return bits_at(c, i) == bits_at(c, j);
    int64_t a = 0, b = 0, a_end = 0, b_end = 0;
    const struct ctr_col *item = ctr_col_items(c, width, i, &a, &a_end);
    (void)!ctr_col_items(c, width, j, &b, &b_end);
    if (a_end - a != b_end - b)
        return false;
    for (; a < a_end; a++, b++)
        if (!same(item, a, b, 0))
            return false;
    return true;
}

/* Of the bits of the value, unlike ctr_col_hash, by which 4 equals 4.0 and NaN any other. */
static uint64_t hash_bits(const struct ctr_col *c, int64_t i, int32_t width, uint64_t seed)
{
    uint64_t bits = 0;
    if (ctr_col_null(c, i))
        return ctr_mix64(ctr_mix64(~seed));
    if (c->type == CTR_BOOL)
        return ctr_mix64(seed ^ (uint64_t)ctr_bit(c->data, i));
    if (c->type == CTR_UTF8) {
        const struct ctr_str s = ctr_col_str(c, i);
        return ctr_hash64(s.p, s.n, seed);
    }
    if (!ctr_type_list(c->type)) {
        bits = bits_at(c, i);
        if (c->type == CTR_WKEY) {
            uint32_t weight;
            memcpy(&weight, &c->weight[i], sizeof weight);
            seed = ctr_mix64(seed ^ weight);
        }
        return ctr_mix64(seed ^ bits);
    }
    int64_t from = 0, to = 0;
    const struct ctr_col *item = ctr_col_items(c, width, i, &from, &to);
    uint64_t h = ctr_mix64(seed ^ (uint64_t)(to - from));
    for (; from < to; from++)
        h = hash_bits(item, from, 0, h);
    return h;
}

/* The number of the value of row i, which is not null. */
static int number_of(struct ctr_values *v, const struct ctr_col *c, int32_t width, int64_t i, int32_t *number,
                     struct ctr_err *err)
{
    int64_t *first = (int64_t *)(void *)v->first.data;
    const uint64_t h = hash_bits(c, i, width, ctr_hash_secret);
    const struct ctr_index_slot *s = ctr_index_find(&v->index, h);
    while (s && !same(c, first[s->number], i, width))
        s = ctr_index_next(&v->index, s);
    *number = s ? (int32_t)s->number : (int32_t)v->n;
    if (s)
        return 0;
    first[v->n] = i;
    return ctr_index_add(&v->index, h, (uint32_t)v->n++, err);
}

int ctr_values_number(struct ctr_values *v, const struct ctr_col *c, int32_t width, struct ctr_err *err)
{
    int rc = ctr_buf_room(&v->first, c->rows, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&v->number, c->rows, sizeof(int32_t), err);
    int32_t *number = (int32_t *)(void *)v->number.data;
    v->n = v->nulls = 0;
    ctr_index_clear(&v->index);
    for (int64_t i = 0; !rc && i < c->rows; i++) {
        number[i] = -1;
        if (ctr_col_null(c, i))
            v->nulls++;
        else if (i && number[i - 1] >= 0 && same(c, i - 1, i, width)) /* likely if rows of a user are adjacent */
            number[i] = number[i - 1];
        else
            rc = number_of(v, c, width, i, &number[i], err);
    }
    return rc;
}

void ctr_values_free(struct ctr_values *v)
{
    ctr_index_free(&v->index);
    ctr_buf_free(&v->first);
    ctr_buf_free(&v->number);
    *v = (struct ctr_values){ 0 };
}
