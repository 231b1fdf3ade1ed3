/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows by table, for a network with `by_table`: an entry of a row is a key of any table, as lr has them, and a row is
 * one list of the single group. Table 0 of the network has one key, that of the bias, which ends each list; table t of
 * the rows has the number t + 1.
 *
 *     rows     {a: 7, b: 3}  {a: 7, a: 9}
 *     lists    a7 b3 bias | a7 a9 bias
 *     sorted   bias bias | a7 a7 a9 | b3        each table finds its distinct keys in its own entries, in their order
 */
#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

int ctr_deep_entries_add(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_deep_group *g = d->group;
    const uint64_t bias_hash = ctr_sparse_hash(ctr_bias_key());
    const int64_t bias = !d->p.no_bias, all = r->start[from + n] - r->start[from] + n * bias;
    if (g->entries + all > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "a minibatch has more than 2^31 keys: lower --minibatch");
    int rc = g->start.len ? 0 : ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    uint64_t *hash = ctr_buf_extend(&g->hash, all, sizeof *hash, &rc, err);
    uint16_t *table = ctr_buf_extend(&g->table, all, sizeof *table, &rc, err);
    int32_t *segment = ctr_buf_extend(&g->segment, all, sizeof *segment, &rc, err);
    float *x = ctr_buf_extend(&g->x, all, sizeof *x, &rc, err);
    int32_t *start = ctr_buf_extend(&g->start, n, sizeof *start, &rc, err);
    if (rc)
        return rc;
    int64_t k = 0;
    for (int64_t i = from; i < from + n; i++) {
        const int32_t row = (int32_t)(d->rows + i - from);
        for (int64_t e = r->start[i]; e < r->start[i + 1]; e++, k++) {
            hash[k] = r->hash[e];
            table[k] = (uint16_t)(r->table[e] + 1);
            segment[k] = row;
            x[k] = r->x ? (float)r->x[e] : 1;
        }
        if (bias) {
            hash[k] = bias_hash;
            table[k] = 0;
            segment[k] = row;
            x[k++] = 1;
        }
        *start++ = (int32_t)(g->entries + k);
    }
    g->entries += k;
    return 0;
}

int ctr_deep_entries_sort(struct ctr_deep *d, int64_t first, struct ctr_err *err)
{
    struct ctr_deep_group *g = d->group;
    const int64_t from = first ? AS(int32_t, g->start)[first] : 0;
    const uint16_t *table = AS(uint16_t, g->table);
    int rc = 0;
    ctr_buf_clear(&g->table_start);
    ctr_buf_clear(&g->by_table);
    int32_t *start = ctr_buf_extend(&g->table_start, d->batch.sets + 2, sizeof *start, &rc, err);
    int32_t *entry = ctr_buf_extend(&g->by_table, g->entries - from, sizeof *entry, &rc, err);
    if (rc)
        return rc;
    memset(start, 0, g->table_start.len);
    for (int64_t e = from; e < g->entries; e++)
        start[table[e] + 2]++;
    for (int t = 2; t < d->batch.sets + 2; t++)
        start[t] += start[t - 1];
    for (int64_t e = from; e < g->entries; e++) /* start[t + 1] becomes the end of t */
        entry[start[table[e] + 1]++] = (int32_t)e;
    return 0;
}

/* The sorted entries of a table. */
struct of_table {
    const int32_t *entry;
    int64_t n;
};

static struct of_table of_table(const struct ctr_deep_group *g, int64_t t)
{
    const int32_t *start = AS(int32_t, g->table_start);
    return (struct of_table){ AS(int32_t, g->by_table) + start[t], start[t + 1] - start[t] };
}

int ctr_deep_entries_number(const struct ctr_deep *d, int64_t t, struct ctr_deep_set *s)
{
    const struct ctr_deep_group *g = d->group;
    const struct of_table own = of_table(g, t);
    int rc = 0;
    for (int64_t i = 0; i < own.n && !rc; i++)
        AS(int32_t, g->index)[own.entry[i]] = ctr_deep_set_add(s, AS(uint64_t, g->hash)[own.entry[i]], &rc);
    return rc;
}

void ctr_deep_entries_place(const struct ctr_deep *d, int64_t t, const int32_t *place)
{
    const struct ctr_deep_group *g = d->group;
    const struct of_table own = of_table(g, t);
    int32_t *index = AS(int32_t, g->index);
    for (int64_t i = 0; i < own.n; i++)
        index[own.entry[i]] = place[index[own.entry[i]]];
}

int ctr_deep_entries_announce(const struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, int64_t t,
                              struct ctr_deep_set *s)
{
    int rc = 0;
    if (!t && n && !d->p.no_bias)
        (void)ctr_deep_set_add(s, ctr_sparse_hash(ctr_bias_key()), &rc);
    for (int64_t e = r->start[from]; t && e < r->start[from + n] && !rc; e++)
        if (r->table[e] == t - 1)
            (void)ctr_deep_set_add(s, r->hash[e], &rc);
    return rc;
}
