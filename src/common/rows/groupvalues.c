/* SPDX-License-Identifier: Apache-2.0
 *
 * groupvalues: pairs of number and value are kept as they come. In the end numbers place their values side by side, as
 * in a counting sort, and the values of each group are sorted as unsigned integers: most groups are small, and no row
 * is compared with one of another group. Texts, and pairs beyond memory, go through ctr_sort instead. */
#include "common/rows/groupvalues.h"

#include <stdlib.h>

enum { SMALL = 32, DIGIT = 8 };

int ctr_groupvalues_init(struct ctr_groupvalues *v, const struct ctr_schema *schema, const struct ctr_sort_opts *o,
                         struct ctr_err *err)
{
    *v = (struct ctr_groupvalues){ .schema = schema, .sort_opts = *o };
    return ctr_batchbuf_init(&v->pairs, schema, err);
}

void ctr_groupvalues_free(struct ctr_groupvalues *v)
{
    ctr_batchbuf_free(&v->pairs);
    ctr_sort_free(v->sort);
    ctr_buf_free(&v->start);
    ctr_buf_free(&v->key);
    ctr_buf_free(&v->out);
    *v = (struct ctr_groupvalues){ 0 };
}

void ctr_groupvalues_clear(struct ctr_groupvalues *v, struct ctr_group_stats *st)
{
    struct ctr_sort_stats s = { 0 };
    if (v->sort)
        ctr_sort_get_stats(v->sort, &s);
    st->runs += s.runs;
    st->spilled_bytes += s.spilled_bytes;
    ctr_sort_free(v->sort);
    v->sort = NULL;
    ctr_batchbuf_clear(&v->pairs);
    ctr_buf_free(&v->key); /* as large as the column */
}

static int to_sort(struct ctr_groupvalues *v, struct ctr_err *err)
{
    int rc = v->sort ? 0 : ctr_sort_new(&v->sort, v->schema, &v->sort_opts, err);
    if (!rc)
        rc = ctr_sort_batch(v->sort, ctr_batchbuf_view(&v->pairs), err);
    ctr_batchbuf_clear(&v->pairs);
    return rc;
}

int ctr_groupvalues_add(struct ctr_groupvalues *v, const struct ctr_col *c, const int32_t *row, const int64_t *number,
                        int64_t n, struct ctr_err *err)
{
    int64_t *index = malloc(((size_t)n + 1) * sizeof *index), known = 0;
    int rc = index ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *index);
    for (int64_t i = 0; !rc && i < n; i++)
        if (number[i] >= 0 && !ctr_col_missing(c, row[i])) {
            index[known++] = row[i];
            rc = ctr_colbuf_i64(&v->pairs.col[0], number[i], err);
        }
    if (!rc)
        rc = ctr_colbuf_gather(&v->pairs.col[1], c, index, known, err);
    free(index);
    /* Pairs in memory take 8 bytes a number and the value; in the end 8 bytes more, and 8 a group. */
    const int64_t pairs = v->pairs.col[1].rows, width = ctr_types[v->schema->f[1].type].width;
    const bool fits = v->schema->f[1].type != CTR_UTF8 && pairs * (24 + width) < v->sort_opts.memory_bytes;
    return rc || (fits && !v->sort) ? rc : to_sort(v, err);
}

/* ---- in memory ---- */

/* Unsigned integers in the order of values; -0 and 0 are one, NaN the largest. */
static uint64_t key_of(const struct ctr_col *c, int64_t i)
{
    const uint64_t sign = (uint64_t)1 << 63;
    if (!ctr_types[c->type].floating)
        return (uint64_t)ctr_col_i64(c, i) ^ (c->type == CTR_U64 ? 0 : sign);
    const double d = ctr_col_f64(c, i);
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return d != d ? UINT64_MAX : d == 0 ? sign : bits & sign ? ~bits : bits | sign;
}

/* The inverse, as int64, uint64 or float64. */
static uint64_t bits_of(enum ctr_type t, uint64_t key)
{
    const uint64_t sign = (uint64_t)1 << 63, nan = 0x7ff8000000000000;
    if (!ctr_types[t].floating)
        return key ^ (t == CTR_U64 ? 0 : sign);
    return key == UINT64_MAX ? nan : key & sign ? key & ~sign : ~key;
}

static void sort_small(uint64_t *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const uint64_t x = v[i];
        int64_t k = i;
        for (; k && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
}

/* In place, by the digit at `shift` and those below it (American flag sort). */
static void sort_keys(uint64_t *v, int64_t n, int shift)
{
    int64_t end[1 << DIGIT] = { 0 }, next[1 << DIGIT], at = 0;
    if (n <= SMALL) {
        sort_small(v, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        end[v[i] >> shift & 255]++;
    for (int d = 0; d < 1 << DIGIT; d++) {
        next[d] = at;
        at = end[d] += at;
    }
    for (int d = 0; d < 1 << DIGIT; d++)
        while (next[d] < end[d]) {
            uint64_t x = v[next[d]];
            for (int to = (int)(x >> shift & 255); to != d; to = (int)(x >> shift & 255)) {
                const uint64_t other = v[next[to]];
                v[next[to]++] = x;
                x = other;
            }
            v[next[d]++] = x;
        }
    for (int d = 0; shift && d < 1 << DIGIT; d++)
        sort_keys(v + (d ? end[d - 1] : 0), end[d] - (d ? end[d - 1] : 0), shift - DIGIT);
}

/* Values side by side by number, each group's in order. */
static int place(struct ctr_groupvalues *v, struct ctr_err *err)
{
    const struct ctr_batch *b = ctr_batchbuf_view(&v->pairs);
    const int64_t *number = b->col[0].data;
    int rc = ctr_buf_room(&v->start, v->groups + 1, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&v->key, b->rows, sizeof(uint64_t), err);
    if (rc)
        return rc;
    int64_t *start = (int64_t *)(void *)v->start.data;
    uint64_t *key = (uint64_t *)(void *)v->key.data;
    memset(start, 0, ((size_t)v->groups + 1) * sizeof *start);
    for (int64_t i = 0; i < b->rows; i++)
        start[number[i]]++;
    for (int64_t g = 0, at = 0; g <= v->groups; g++) {
        at += start[g];
        start[g] = at; /* its end; placing goes backwards */
    }
    for (int64_t i = b->rows - 1; i >= 0; i--)
        key[--start[number[i]]] = key_of(&b->col[1], i);
    for (int64_t g = 0; g < v->groups; g++)
        sort_keys(key + start[g], start[g + 1] - start[g], 64 - DIGIT);
    ctr_batchbuf_clear(&v->pairs);
    return 0;
}

static int next_placed(struct ctr_groupvalues *v, const struct ctr_batch **b, struct ctr_err *err)
{
    const enum ctr_type t = v->schema->f[1].type;
    const int64_t *start = (const int64_t *)(const void *)v->start.data,
                  n = CTR_MIN(start[v->groups] - v->at, (int64_t)CTR_BATCH_ROWS);
    const uint64_t *key = (const uint64_t *)(const void *)v->key.data;
    const int rc = ctr_buf_room(&v->out, 2 * n, sizeof(int64_t), err);
    if (rc || !n)
        return rc;
    int64_t *number = (int64_t *)(void *)v->out.data;
    uint64_t *value = (uint64_t *)(void *)(number + n);
    for (int64_t i = 0; i < n; i++, v->at++) {
        while (start[v->group + 1] <= v->at)
            v->group++;
        number[i] = v->group;
        value[i] = bits_of(t, key[v->at]);
    }
    v->col[0] = (struct ctr_col){ .type = CTR_I64, .rows = n, .data = number };
    v->col[1] = (struct ctr_col){ .type = ctr_types[t].floating ? CTR_F64
                                          : t == CTR_U64        ? CTR_U64
                                                                : CTR_I64,
                                  .rows = n,
                                  .data = value };
    v->batch = (struct ctr_batch){ .schema = v->schema, .rows = n, .col = v->col };
    *b = &v->batch;
    return 1;
}

int ctr_groupvalues_finish(struct ctr_groupvalues *v, int64_t groups, struct ctr_err *err)
{
    v->groups = groups;
    v->at = v->group = 0;
    if (!v->sort)
        return place(v, err);
    const int rc = to_sort(v, err);
    return rc ? rc : ctr_sort_finish(v->sort, err);
}

int ctr_groupvalues_next(struct ctr_groupvalues *v, const struct ctr_batch **b, struct ctr_err *err)
{
    return v->sort ? ctr_sort_next(v->sort, b, err) : next_placed(v, b, err);
}
