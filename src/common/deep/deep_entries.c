/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows by table, for a network with `by_table`: an entry of a row is a key of any table, as lr has them, and a row is
 * one list of the single group. Table 0 of the network has one key, that of the bias, which ends each list; table t of
 * the rows has the number t + 1.
 *
 *     rows      {a: 7, b: 3}  {a: 7, a: 9}
 *     lists     a7 b3 bias | a7 a9 bias
 *     numbers   0 0 0 | 0 1 0                   of the distinct keys of each table, in order of first occurrence
 *     places    1 3 0 | 1 2 0                   of their values: bias, a7, a9, b3 */
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

/* Where each row has one entry of each table: these, in order. */
static int set_tables(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    const int keys = n && r->one_a_table && !r->x ? (int)(r->start[from + 1] - r->start[from]) : 0;
    if (!keys) {
        d->batch.fields = 0;
        return 0;
    }
    const int rc = ctr_deep_set_fields(d, keys + !d->p.lr.no_bias, err);
    for (int k = 0; k < d->batch.fields && !rc; k++)
        d->batch.tables[k] = k < keys ? r->table[r->start[from] + k] + 1 : 0;
    return rc;
}

int ctr_deep_entries_add(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_deep_group *g = d->group;
    const uint64_t bias_hash = ctr_key_hash(ctr_bias_key());
    const int64_t bias = !d->p.lr.no_bias, all = r->start[from + n] - r->start[from] + n * bias;
    const bool left = r->left;
    int rc = ctr_deep_count_fits(g->entries + all, err);
    if (!rc && !g->start.len)
        rc = ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    if (!rc)
        rc = set_tables(d, r, from, n, err);
    if (!rc && left)
        rc = ctr_deep_add_left_keys(d, g, r->left, r->left_row + from, n,
                                    (struct ctr_left_keys){ 0, r->left->keys, bias ? bias_hash : 0 }, err);
    uint64_t *hash = ctr_buf_extend(&g->hash, left ? 0 : all, sizeof *hash, &rc, err);
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
            if (!left)
                hash[k] = r->hash[e];
            table[k] = (uint16_t)(r->table[e] + 1);
            segment[k] = row;
            x[k] = r->x ? (float)r->x[e] : 1;
        }
        if (bias) {
            if (!left)
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

/* The entries of the rows from `first` on. */
struct part {
    struct ctr_deep *d;
    int64_t from, tasks;
    const int32_t *const *place; /* by table */
};

static struct part part_from(struct ctr_deep *d, int64_t first, struct ctr_pool *pool)
{
    return (struct part){ d, first ? AS(int32_t, d->group->start)[first] : 0, ctr_pool_threads(pool), NULL };
}

/* A task has every tasks-th table. */
static bool has_table(int64_t task, int64_t tasks, int table)
{
    return tasks == 1 || table % tasks == task;
}

static int32_t number_of(struct ctr_deep_set *s, uint64_t hash, int *rc)
{
    const int32_t number = ctr_deep_set_add(s, hash, rc);
    if (*rc)
        s->err.code = *rc;
    return number;
}

static void number_tables(void *ctx, int64_t task, int worker)
{
    const struct part *p = ctx;
    const struct ctr_deep_group *g = p->d->group;
    struct ctr_deep_set *set = p->d->batch.set[p->d->batch.key_buffer];
    const uint16_t *table = AS(uint16_t, g->table);
    int rc = 0;
    (void)worker;
    for (int64_t e = p->from; e < g->entries && !rc; e++)
        if (has_table(task, p->tasks, table[e]))
            AS(int32_t, g->index)[e] = number_of(&set[table[e]], AS(uint64_t, g->hash)[e], &rc);
}

void ctr_deep_entries_number(struct ctr_deep *d, int64_t first, struct ctr_pool *pool)
{
    struct part p = part_from(d, first, pool);
    ctr_pool_run(pool, p.tasks, number_tables, &p);
}

static void place_part(void *ctx, int64_t task, int worker)
{
    const struct part *p = ctx;
    const struct ctr_deep_group *g = p->d->group;
    const uint16_t *table = AS(uint16_t, g->table);
    int32_t *index = AS(int32_t, g->index);
    const int64_t n = g->entries - p->from, end = p->from + n * (task + 1) / p->tasks;
    (void)worker;
    for (int64_t e = p->from + n * task / p->tasks; e < end; e++)
        index[e] = p->place[table[e]][index[e]];
}

int ctr_deep_entries_place(struct ctr_deep *d, int64_t first, struct ctr_pool *pool, struct ctr_err *err)
{
    struct part p = part_from(d, first, pool);
    const int32_t **place = malloc(((size_t)d->batch.sets + 1) * sizeof *place);
    if (!place)
        return ctr_fail_nomem(err, (size_t)d->batch.sets * sizeof *place);
    for (int t = 0; t < d->batch.sets; t++)
        place[t] = ctr_source_places(d->vectors.source, d->batch.key_buffer, t);
    p.place = place;
    ctr_pool_run(pool, p.tasks, place_part, &p);
    free(place);
    return 0;
}

struct coming {
    struct ctr_deep *d;
    const struct ctr_rows *r;
    int64_t from, n, tasks;
};

static void announce_tables(void *ctx, int64_t task, int worker)
{
    const struct coming *c = ctx;
    const struct ctr_rows *r = c->r;
    struct ctr_deep_set *set = c->d->batch.set[!c->d->batch.key_buffer];
    int rc = 0;
    (void)worker;
    if (!task && !c->d->p.lr.no_bias)
        (void)number_of(&set[0], ctr_key_hash(ctr_bias_key()), &rc);
    for (int64_t e = r->start[c->from]; e < r->start[c->from + c->n] && !rc; e++)
        if (has_table(task, c->tasks, r->table[e] + 1))
            (void)number_of(&set[r->table[e] + 1], r->hash[e], &rc);
}

void ctr_deep_entries_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n,
                               struct ctr_pool *pool)
{
    struct coming c = { d, r, from, n, ctr_pool_threads(pool) };
    ctr_pool_run(pool, c.tasks, announce_tables, &c);
}
