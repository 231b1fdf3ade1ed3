/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that store rows, and the one with tables in this process. See source.h.
 *
 * The rows of a minibatch are in `u`, value | state, in order of announcement: piece by piece, and within a piece table
 * by table. Tables are distributed over threads, so that results do not depend on threads. */
#include "common/table/source.h"

#include <stdlib.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

/* A minibatch whose two tables have the distinct keys a b and x, and then, as images come later, y more in the second:
 *
 *     begin   announces a b | x       places 0 1 | 2       numbers: rows of the tables, found by threads, a table each
 *     begin   announces y (grown)     places 0 1 | 2 3     `old` is the end of what was announced before
 *     values  copies the rows at places [here, n) into u: those asked for since the last call
 *     push    the optimizer changes u, then all rows go back to their tables
 *     drop    forgets the minibatch; its buffers keep their memory
 *
 * Two minibatches (`buffer`) may be under way. A source that stores rows gives find, fetch and put for the keys of one
 * table; sources that sit above others (cache, ranks) take begin, values and push whole. */

/* ---- begin ---- */

/* The keys of table t of a minibatch, from number `from` on. */
static struct ctr_source_keys keys_of(const struct ctr_source_batch *b, int t, int64_t from)
{
    const struct ctr_source_table *k = &b->table[t];
    return (struct ctr_source_keys){
        .table = t, .hash = k->hash + from, .number = AS(uint32_t, k->number) + from, .n = k->n - from
    };
}

struct task {
    struct ctr_source *s;
    struct ctr_source_batch *b;
    float *rows;
};

static int run_tables(struct task *t, struct ctr_pool *pool, void (*fn)(void *, int64_t, int), struct ctr_err *err)
{
    ctr_pool_run(t->s->ops->one_at_a_time ? NULL : pool, t->b->tables, fn, t);
    for (int i = 0; i < t->b->tables; i++)
        if (t->b->table[i].err.code) {
            *err = t->b->table[i].err;
            return err->code;
        }
    return 0;
}

static void find_table(void *ctx, int64_t t, int worker)
{
    const struct task *k = ctx;
    struct ctr_source_table *table = &k->b->table[t];
    const struct ctr_source_keys keys = keys_of(k->b, (int)t, table->old);
    (void)worker;
    if (keys.n && k->s->ops->find(k->s, &keys, k->b->make, &table->err))
        table->err.code = table->err.code ? table->err.code : CTR_ESYS;
}

int ctr_source_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    struct ctr_source_batch *b = &s->batch[buffer];
    int rc = ctr_array_extend(&b->table, &b->tables, want->tables, sizeof *b->table, err);
    b->make = want->make;
    b->pool = want->pool;
    for (int t = 0; t < want->tables && !rc; t++) {
        struct ctr_source_table *k = &b->table[t];
        k->hash = want->keys[t].hash;
        k->old = k->n;
        k->n = want->keys[t].n;
        const int64_t fresh = k->n - k->old;
        (void)ctr_buf_extend(&k->number, fresh, sizeof(uint32_t), &rc, err);
        int32_t *place = ctr_buf_extend(&k->places, fresh, sizeof *place, &rc, err);
        for (int64_t i = 0; i < fresh && !rc; i++)
            place[i] = (int32_t)b->n++;
    }
    struct task task = { s, b, NULL };
    if (!rc && s->ops->begin)
        rc = s->ops->begin(s, want, buffer, err);
    return rc || !s->ops->find ? rc : run_tables(&task, want->pool, find_table, err);
}

const int32_t *ctr_source_places(const struct ctr_source *s, int buffer, int t)
{
    return AS(int32_t, s->batch[buffer].table[t].places);
}

int ctr_source_count(struct ctr_source *s, int buffer, int t, const int32_t *uses, uint32_t *total, struct ctr_err *err)
{
    const struct ctr_source_keys keys = keys_of(&s->batch[buffer], t, 0);
    return s->ops->count(s, buffer, &keys, uses, total, err);
}

/* ---- values and push of a store ---- */

/* Fetch table t's keys since `here`, from the last begin. */
static void fetch_table(void *ctx, int64_t t, int worker)
{
    const struct task *k = ctx;
    struct ctr_source_table *table = &k->b->table[t];
    const int32_t *places = AS(int32_t, table->places);
    (void)worker;
    for (int64_t at = table->n, end = at; at > 0 && !table->err.code; end = at) { /* runs, from the last one */
        while (at > 0 && places[at - 1] >= k->b->here && (at == end || places[at - 1] == places[at] - 1))
            at--;
        if (at == end)
            break;
        struct ctr_source_keys keys = keys_of(k->b, (int)t, at);
        keys.n = end - at;
        if (k->s->ops->fetch(k->s, &keys, k->b->make, k->rows + (int64_t)places[at] * k->s->floats, &table->err))
            table->err.code = table->err.code ? table->err.code : CTR_ESYS;
    }
}

static void put_table(void *ctx, int64_t t, int worker)
{
    const struct task *k = ctx;
    struct ctr_source_table *table = &k->b->table[t];
    const int32_t *places = AS(int32_t, table->places);
    (void)worker;
    for (int64_t at = 0, end; at < table->n && !table->err.code; at = end) { /* one run per piece */
        for (end = at + 1; end < table->n && places[end] == places[end - 1] + 1;)
            end++;
        struct ctr_source_keys keys = keys_of(k->b, (int)t, at);
        keys.n = end - at;
        if (k->s->ops->put(k->s, &keys, k->rows + (int64_t)places[at] * k->s->floats, &table->err))
            table->err.code = table->err.code ? table->err.code : CTR_ESYS;
    }
}

static int store_values(struct ctr_source *s, int buffer, struct ctr_pool *pool, struct ctr_err *err)
{
    struct ctr_source_batch *b = &s->batch[buffer];
    const size_t row = (size_t)s->floats * sizeof(float), sent = (size_t)b->here * row, all = (size_t)b->n * row;
    const bool host = ctr_dev_is_host(s->dev);
    int rc = ctr_mem_keep(&b->u, s->dev, sent, all, err);
    if (!rc && !host) {
        b->host.len = 0;
        rc = ctr_buf_reserve(&b->host, all, err);
    }
    if (rc)
        return rc;
    struct task task = { s, b, host ? ctr_mem_host(b->u) : AS(float, b->host) };
    rc = run_tables(&task, pool, fetch_table, err);
    return rc || host || all == sent ? rc : ctr_mem_write(b->u, sent, b->host.data + sent, all - sent, err);
}

int ctr_source_values(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct ctr_source_batch *b = &s->batch[buffer];
    const struct ctr_source_batch *other = &s->batch[!buffer];
    if (b->make && other->make && other->here)
        return ctr_fail(err, CTR_EUSAGE, "a source: values while the other minibatch is not pushed");
    int rc = s->ops->ready ? s->ops->ready(s, buffer, err) : 0;
    if (!rc)
        rc = s->ops->values ? s->ops->values(s, buffer, values, err) : store_values(s, buffer, b->pool, err);
    if (!rc && !s->ops->values)
        *values = (struct ctr_mat){ b->u, 0, b->n, s->width, s->floats };
    b->here = b->n;
    return rc;
}

static int store_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    struct ctr_source_batch *b = &s->batch[buffer];
    const struct ctr_dev_opt_rows opt = { .opt = step->opt,
                                          .rows = ctr_mat(b->u, b->n, s->floats),
                                          .g = step->grad,
                                          .l2_row = step->l2_row,
                                          .squares = step->squares };
    struct task task = { s, b, ctr_dev_is_host(s->dev) ? NULL : AS(float, b->host) };
    if (!s->ops->put)
        return 0;
    int rc = ctr_dev_opt_rows(s->dev, &opt, err);
    if (!rc && task.rows)
        rc = ctr_mem_read(b->u, 0, task.rows, (size_t)(b->n * s->floats) * sizeof(float), err);
    if (!task.rows)
        task.rows = ctr_mem_host(b->u);
    return rc ? rc : run_tables(&task, step->pool, put_table, err);
}

bool ctr_source_takes_entries(struct ctr_source *s, int64_t n)
{
    return s->ops->takes_entries && s->ops->takes_entries(s, n);
}

int ctr_source_entries(struct ctr_source *s, int buffer, struct ctr_source_entries *e, struct ctr_mat *values,
                       struct ctr_err *err)
{
    struct ctr_source_batch *b = &s->batch[buffer];
    const int rc = s->ops->entries(s, buffer, e, values, err);
    b->n = b->here = rc > 0 ? e->distinct : 0;
    b->make = rc > 0;
    return rc;
}

int ctr_source_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    int rc = s->ops->push ? s->ops->push(s, buffer, step, err) : store_push(s, buffer, step, err);
    s->batch[buffer].here = 0; /* the values are outdated */
    return rc;
}

void ctr_source_drop(struct ctr_source *s, int buffer)
{
    struct ctr_source_batch *b = &s->batch[buffer];
    if (s->ops->drop)
        s->ops->drop(s, buffer);
    for (int t = 0; t < b->tables; t++) {
        struct ctr_source_table *k = &b->table[t];
        k->hash = NULL;
        k->n = k->old = 0;
        ctr_buf_clear(&k->number);
        ctr_buf_clear(&k->places);
    }
    b->n = b->here = 0;
    b->make = false;
}

/* ---- what is below ---- */

int ctr_source_settle(struct ctr_source *s, struct ctr_err *err)
{
    return s->ops->settle ? s->ops->settle(s, err) : 0;
}

int ctr_source_changes(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err)
{
    int rc = ctr_source_settle(s, err);
    if (!rc && s->ops->changes)
        rc = s->ops->changes(s, what, err);
    return rc || !s->below ? rc : ctr_source_changes(s->below, what, err);
}

int ctr_source_save(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err)
{
    int rc = ctr_source_settle(s, err);
    return rc             ? rc
           : s->ops->save ? s->ops->save(s, table, each, ctx, err)
                          : ctr_source_save(s->below, table, each, ctx, err);
}

int ctr_source_load(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err)
{
    return s->ops->load ? s->ops->load(s, table, key, row, err) : ctr_source_load(s->below, table, key, row, err);
}

bool ctr_source_looks_ahead(const struct ctr_source *s)
{
    return s->ops->looks_ahead;
}

int64_t ctr_source_rows(const struct ctr_source *s, int table)
{
    return s->ops->rows ? s->ops->rows(s, table) : ctr_source_rows(s->below, table);
}

int64_t ctr_source_memory(const struct ctr_source *s)
{
    return s->ops->memory ? s->ops->memory(s) : s->below ? ctr_source_memory(s->below) : 0;
}

void ctr_source_summary(const struct ctr_source *s, struct ctr_say *text)
{
    if (s->ops->summary)
        s->ops->summary(s, text);
}

void ctr_source_free(struct ctr_source *s)
{
    if (!s)
        return;
    for (int i = 0; i < 2; i++) {
        struct ctr_source_batch *b = &s->batch[i];
        for (int t = 0; t < b->tables; t++) {
            ctr_buf_free(&b->table[t].number);
            ctr_buf_free(&b->table[t].places);
        }
        free(b->table);
        ctr_mem_free(b->u);
        ctr_buf_free(&b->host);
    }
    s->ops->free(s);
}

/* ---- tables in this process ---- */

struct ram {
    struct ctr_source base;
    struct ctr_embedding **table;
    int tables;
    bool notes; /* changes: of tables that are bound later, too */
};

static struct ctr_embedding *table_of(struct ctr_source *s, int t)
{
    return ((struct ram *)s)->table[t];
}

static int ram_find(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, struct ctr_err *err)
{
    struct ctr_embedding *t = table_of(s, keys->table);
    int rc = make ? ctr_embedding_reserve(t, (uint64_t)keys->n, err) : 0;
    if (!rc && make)
        ctr_embedding_get(t, keys->hash, keys->n, keys->number);
    else if (!rc)
        ctr_embedding_find(t, keys->hash, keys->n, keys->number);
    return rc;
}

/* A function of keys and row numbers, called for several keys at a time while their numbers are unknown. */
typedef void with_numbers(void *ctx, const struct ctr_source_keys *keys, int64_t at);
static int each_numbered(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, with_numbers *fn,
                         void *ctx, struct ctr_err *err)
{
    enum { AT_ONCE = 256 };
    uint32_t number[AT_ONCE];
    int rc = 0;
    if (keys->number)
        fn(ctx, keys, 0);
    for (int64_t at = 0, n; at < keys->n && !keys->number && !rc; at += n) {
        n = CTR_MIN(keys->n - at, AT_ONCE);
        const struct ctr_source_keys some = { keys->table, keys->hash + at, number, n };
        if (!(rc = ram_find(s, &some, make, err)))
            fn(ctx, &some, at);
    }
    return rc;
}

struct rows {
    struct ctr_source *s;
    float *to;
    const float *from;
    const int32_t *uses;
    uint32_t *total;
};

static void gather(void *ctx, const struct ctr_source_keys *keys, int64_t at)
{
    const struct rows *r = ctx;
    ctr_embedding_gather(table_of(r->s, keys->table), keys->number, keys->hash, keys->n, r->s->floats,
                         r->to + at * r->s->floats);
}

static void scatter(void *ctx, const struct ctr_source_keys *keys, int64_t at)
{
    const struct rows *r = ctx;
    ctr_embedding_scatter(table_of(r->s, keys->table), keys->number, keys->n, r->s->floats,
                          r->from + at * r->s->floats);
}

static void add_counts(void *ctx, const struct ctr_source_keys *keys, int64_t at)
{
    const struct rows *r = ctx;
    const struct ctr_embedding *t = table_of(r->s, keys->table);
    for (int64_t i = 0; i < keys->n; i++)
        r->total[at + i] = ctr_embedding_count(ctr_embedding_row(t, keys->number[i]) + r->s->floats, r->uses[at + i]);
}

static int ram_fetch(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to,
                     struct ctr_err *err)
{
    return each_numbered(s, keys, make, gather, &(struct rows){ .s = s, .to = to }, err);
}

static int ram_put(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from, struct ctr_err *err)
{
    return each_numbered(s, keys, true, scatter, &(struct rows){ .s = s, .from = from }, err);
}

static int ram_count(struct ctr_source *s, int buffer, const struct ctr_source_keys *keys, const int32_t *uses,
                     uint32_t *total, struct ctr_err *err)
{
    (void)buffer;
    return each_numbered(s, keys, true, add_counts, &(struct rows){ .s = s, .uses = uses, .total = total }, err);
}

static int ram_changes(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err)
{
    struct ram *r = (struct ram *)s;
    int rc = 0;
    r->notes |= what == CTR_CHANGES_NOTE;
    for (int t = 0; t < r->tables && !rc; t++)
        rc = ctr_changed_set(&r->table[t]->changed, what, r->table[t]->used, err);
    return rc;
}

static int ram_save(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err)
{
    return ctr_embedding_sorted(table_of(s, table), each, ctx, err);
}

static int ram_load(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err)
{
    struct ctr_embedding *t = table_of(s, table);
    const uint64_t hash = ctr_key_hash(key);
    const float scale = t->scale;
    uint32_t number, before = t->used;
    int rc = ctr_embedding_reserve(t, 1, err);
    if (rc)
        return rc;
    t->scale = 0; /* the value is present */
    ctr_embedding_get(t, &hash, 1, &number);
    t->scale = scale;
    if (t->used == before)
        return ctr_fail(err, CTR_EDATA, "a key comes twice");
    memcpy(ctr_embedding_row(t, number), row, (size_t)t->floats * sizeof *row);
    return 0;
}

static int64_t ram_rows(const struct ctr_source *s, int table)
{
    const struct ram *r = (const struct ram *)s;
    int64_t n = table < 0 ? 0 : r->table[table]->used;
    for (int t = 0; t < r->tables && table < 0; t++)
        n += r->table[t]->used;
    return n;
}

static int64_t ram_memory(const struct ctr_source *s)
{
    const struct ram *r = (const struct ram *)s;
    int64_t bytes = 0;
    for (int t = 0; t < r->tables; t++)
        bytes += (int64_t)ctr_embedding_bytes(r->table[t]);
    return bytes;
}

static void ram_free(struct ctr_source *s)
{
    free((void *)((struct ram *)s)->table);
    free(s);
}

static const struct ctr_source_ops ram_ops = { .name = "ram",
                                               .find = ram_find,
                                               .fetch = ram_fetch,
                                               .put = ram_put,
                                               .count = ram_count,
                                               .changes = ram_changes,
                                               .save = ram_save,
                                               .load = ram_load,
                                               .rows = ram_rows,
                                               .memory = ram_memory,
                                               .free = ram_free };

const uint32_t *ctr_source_numbers(const struct ctr_source *s, int buffer, int t)
{
    return s->ops == &ram_ops ? AS(uint32_t, s->batch[buffer].table[t].number) : NULL;
}

int ctr_source_ram(struct ctr_source **out, struct ctr_dev *dev, int32_t width, int32_t floats, struct ctr_err *err)
{
    struct ram *r = calloc(1, sizeof *r);
    if (!r)
        return ctr_fail_nomem(err, sizeof *r);
    r->base = (struct ctr_source){ .ops = &ram_ops, .dev = dev, .width = width, .floats = floats };
    *out = &r->base;
    return 0;
}

int ctr_source_ram_bind(struct ctr_source *s, int t, struct ctr_embedding *table, struct ctr_err *err)
{
    struct ram *r = (struct ram *)s;
    if (t >= r->tables) {
        struct ctr_embedding **more = realloc((void *)r->table, ((size_t)t + 1) * sizeof *more);
        if (!more)
            return ctr_fail_nomem(err, ((size_t)t + 1) * sizeof *more);
        r->table = more;
        r->tables = t + 1;
    }
    r->table[t] = table;
    return r->notes && !table->changed.on ? ctr_changed_start(&table->changed, table->used, err) : 0;
}
