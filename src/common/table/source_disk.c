/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk under a cache in this process. See source.h; rowstore.h for the disk.
 *
 * Each slot of the cache holds a row. Slots are found by table and hash in their own chained hash table, because
 * ctr_sparse cannot remove single rows. A slot is pinned by each current minibatch that has its key. Unpinned slots are
 * in a list, the most recently used at its end; when room is needed the first of the list is evicted. An evicted row is
 * written to the store if it is newer.
 *
 * One background job at a time writes evicted rows and reads the rows that begin did not find, into pinned slots. No
 * job runs while rows are loaded. While a job may run, slots are accessed only after finish(), which waits for it; only
 * a fetch or put of a minibatch that has its values may use its slots, which no job touches.
 *
 * Results do not depend on the number of slots. */
#include "common/table/rowstore.h"
#include "common/table/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { CHUNK = 64, NONE = -1, SOME_ROWS = 1024, HAS = 1, NEWER = 2 };

struct slot {
    uint64_t hash;
    int32_t before, after, chain; /* neighbours in the list; next in the bucket's chain */
    uint16_t table;
    uint8_t pins, state; /* HAS: the row exists; NEWER: than in the store */
};

struct chunk {
    struct slot slot[CHUNK];
    float *rows;
};

struct table {
    struct ctr_embedding first;
    int64_t rows;
    uint64_t loaded; /* the largest key loaded so far */
    bool any_loaded;
};

/* Rows to write, then rows to read. */
struct job {
    struct ctr_buf put, put_rows; /* struct ctr_rowkey; floats */
    struct ctr_buf get, to, slot; /* struct ctr_rowkey; float *; i32 */
    bool running;
    int rc;
    struct ctr_err err;
};

struct disk {
    struct ctr_source base;
    struct ctr_rowstore *store;
    struct ctr_background *thread; /* NULL: the caller runs it */
    int32_t row_floats;
    int64_t memory;
    struct table *table;
    int tables;
    struct chunk **chunk;
    int64_t slots, used; /* allocated; used so far */
    int32_t first, last; /* ends of the list */
    int32_t *bucket;
    int64_t buckets; /* a power of two */
    struct job job;
    struct ctr_buf load_keys, load_rows; /* rows waiting to be loaded */
    struct ctr_rowstore_told told;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- slots ---- */

static struct slot *slot_at(const struct disk *d, int32_t i)
{
    return &d->chunk[i / CHUNK]->slot[i % CHUNK];
}

static float *row_at(const struct disk *d, int32_t i)
{
    return d->chunk[i / CHUNK]->rows + (int64_t)(i % CHUNK) * d->row_floats;
}

static int64_t bucket_of(const struct disk *d, int table, uint64_t hash)
{
    return (int64_t)(ctr_mix64(ctr_sparse_secret(hash) ^ (uint64_t)table) & (uint64_t)(d->buckets - 1));
}

static int32_t find(const struct disk *d, int table, uint64_t hash)
{
    int32_t i = d->buckets ? d->bucket[bucket_of(d, table, hash)] : NONE;
    while (i != NONE && (slot_at(d, i)->hash != hash || slot_at(d, i)->table != table))
        i = slot_at(d, i)->chain;
    return i;
}

static void chain_in(struct disk *d, int32_t i)
{
    struct slot *s = slot_at(d, i);
    int32_t *bucket = &d->bucket[bucket_of(d, s->table, s->hash)];
    s->chain = *bucket;
    *bucket = i;
}

static void chain_out(struct disk *d, int32_t i)
{
    const struct slot *s = slot_at(d, i);
    int32_t *at = &d->bucket[bucket_of(d, s->table, s->hash)];
    while (*at != i)
        at = &slot_at(d, *at)->chain;
    *at = s->chain;
}

static void list_out(struct disk *d, struct slot *s)
{
    *(s->before == NONE ? &d->first : &slot_at(d, s->before)->after) = s->after;
    *(s->after == NONE ? &d->last : &slot_at(d, s->after)->before) = s->before;
}

static void list_in(struct disk *d, int32_t i)
{
    struct slot *s = slot_at(d, i);
    s->before = d->last;
    s->after = NONE;
    *(d->last == NONE ? &d->first : &slot_at(d, d->last)->after) = i;
    d->last = i;
}

static void pin(struct disk *d, int32_t i)
{
    struct slot *s = slot_at(d, i);
    if (!s->pins++)
        list_out(d, s);
}

static void unpin(struct disk *d, int32_t i)
{
    if (!--slot_at(d, i)->pins)
        list_in(d, i);
}

static int64_t slot_bytes(const struct disk *d)
{
    return (int64_t)d->row_floats * (int64_t)sizeof(float) + (int64_t)sizeof(struct slot) +
           2 * (int64_t)sizeof(int32_t);
}

/* Other uses of the memory: the host buffers of a device. */
static int64_t other_bytes(const struct disk *d)
{
    return ctr_dev_is_host(d->base.dev) ? ctr_dev_memory(d->base.dev) : 0;
}

static int grow_buckets(struct disk *d, struct ctr_err *err)
{
    const int64_t n = d->buckets ? 2 * d->buckets : CHUNK;
    int32_t *bucket = malloc((size_t)n * sizeof *bucket);
    if (!bucket)
        return ctr_fail_nomem(err, (size_t)n * sizeof *bucket);
    free(d->bucket);
    d->bucket = bucket;
    d->buckets = n;
    for (int64_t i = 0; i < n; i++)
        bucket[i] = NONE;
    for (int32_t i = 0; i < d->used; i++)
        chain_in(d, i);
    return 0;
}

/* Add slots if memory allows: *grown. Rows do not move. */
static int grow(struct disk *d, bool *grown, struct ctr_err *err)
{
    const int64_t chunks = d->slots / CHUNK, bytes = (d->slots + CHUNK) * slot_bytes(d) + other_bytes(d);
    *grown = false;
    if ((bytes > d->memory && d->slots) || d->slots > INT32_MAX - CHUNK)
        return 0;
    struct chunk **list = realloc(d->chunk, ((size_t)chunks + 1) * sizeof *list);
    if (!list)
        return ctr_fail_nomem(err, ((size_t)chunks + 1) * sizeof *list);
    d->chunk = list;
    struct chunk *c = list[chunks] = calloc(1, sizeof *c);
    if (c)
        c->rows = malloc((size_t)CHUNK * (size_t)d->row_floats * sizeof(float));
    if (!c || !c->rows) {
        free(c);
        return ctr_fail_nomem(err, (size_t)CHUNK * (size_t)slot_bytes(d));
    }
    d->slots += CHUNK;
    *grown = true;
    return d->slots > d->buckets ? grow_buckets(d, err) : 0;
}

/* ---- the job ---- */

static void run_job(void *ctx)
{
    struct disk *d = ctx;
    struct job *j = &d->job;
    const int64_t puts = (int64_t)(j->put.len / sizeof(struct ctr_rowkey));
    const int64_t gets = (int64_t)(j->get.len / sizeof(struct ctr_rowkey));
    struct ctr_rowkey *get = AS(struct ctr_rowkey, j->get);
    j->rc = ctr_rowstore_put(d->store, AS(struct ctr_rowkey, j->put), puts, AS(float, j->put_rows), &j->err);
    if (!j->rc)
        j->rc = ctr_rowstore_get(d->store, get, gets, AS(float *, j->to), &j->err);
    for (int64_t i = 0; i < gets && !j->rc; i++) {
        if (get[i].place)
            continue;
        const uint64_t hash = ctr_sparse_hash(get[i].key);
        float *row = AS(float *, j->to)[i];
        ctr_embedding_gather(&d->table[get[i].table].first, &(uint32_t){ CTR_EMBEDDING_NONE }, &hash, 1, d->row_floats,
                             row);
    }
}

static void start_job(struct disk *d)
{
    struct job *j = &d->job;
    if (!j->put.len && !j->get.len)
        return;
    d->told.read += (int64_t)(j->get.len / sizeof(struct ctr_rowkey));
    d->told.written += (int64_t)(j->put.len / sizeof(struct ctr_rowkey));
    j->running = true;
    if (d->thread)
        ctr_background_run(d->thread, run_job, d);
    else
        run_job(d);
}

/* Write the loaded rows to the store. */
static int put_loaded(struct disk *d, struct ctr_err *err)
{
    const int64_t n = (int64_t)(d->load_keys.len / sizeof(struct ctr_rowkey));
    int rc = ctr_rowstore_put(d->store, AS(struct ctr_rowkey, d->load_keys), n, AS(float, d->load_rows), err);
    ctr_buf_clear(&d->load_keys);
    ctr_buf_clear(&d->load_rows);
    d->told.written += n;
    return rc;
}

/* Wait for the job; the rows that it read are then valid. */
static int finish(struct disk *d, struct ctr_err *err)
{
    struct job *j = &d->job;
    if (!j->running)
        return d->load_keys.len ? put_loaded(d, err) : 0;
    const double start = now();
    if (d->thread)
        (void)ctr_background_wait(d->thread, -1);
    d->told.waited += now() - start;
    j->running = false;
    for (size_t i = 0; i < j->slot.len / sizeof(int32_t) && !j->rc; i++) {
        struct slot *s = slot_at(d, AS(int32_t, j->slot)[i]);
        s->state |= AS(struct ctr_rowkey, j->get)[i].place ? HAS : 0;
    }
    struct ctr_buf *bufs[] = { &j->put, &j->put_rows, &j->get, &j->to, &j->slot };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_clear(bufs[i]);
    if (j->rc)
        *err = j->err;
    return j->rc;
}

static int put_later(struct disk *d, int32_t i, struct ctr_err *err)
{
    struct slot *s = slot_at(d, i);
    const struct ctr_rowkey key = { s->table, 0, ctr_sparse_key(s->hash) };
    int rc = ctr_buf_append(&d->job.put, &key, sizeof key, err);
    if (!rc)
        rc = ctr_buf_append(&d->job.put_rows, row_at(d, i), (size_t)d->row_floats * sizeof(float), err);
    s->state &= (uint8_t)~NEWER;
    return rc;
}

/* Take a slot for a key that has none, pinned; the next job reads its row. NONE: all slots are pinned. */
static int take(struct disk *d, int table, uint64_t hash, int32_t *at, struct ctr_err *err)
{
    bool grown = true;
    int rc = d->used == d->slots ? grow(d, &grown, err) : 0;
    *at = NONE;
    if (rc)
        return rc;
    int32_t i = d->first;
    if (grown) {
        i = (int32_t)d->used++;
    } else if (i == NONE) {
        return 0;
    } else {
        list_out(d, slot_at(d, i));
        chain_out(d, i);
        if (slot_at(d, i)->state & NEWER)
            rc = put_later(d, i, err);
        d->told.evictions++;
    }
    *slot_at(d, i) = (struct slot){ .hash = hash, .table = (uint16_t)table, .pins = 1 };
    chain_in(d, i);
    const struct ctr_rowkey key = { (uint32_t)table, 0, ctr_sparse_key(hash) };
    float *row = row_at(d, i);
    if (!rc)
        rc = ctr_buf_append(&d->job.get, &key, sizeof key, err);
    if (!rc)
        rc = ctr_buf_append(&d->job.to, (const void *)&row, sizeof row, err);
    if (!rc)
        rc = ctr_buf_append(&d->job.slot, &i, sizeof i, err);
    *at = i;
    return rc;
}

/* ---- a minibatch ---- */

struct look {
    struct disk *d;
    struct ctr_source_batch *b;
};

static void find_table(void *ctx, int64_t t, int worker)
{
    const struct look *l = ctx;
    const struct ctr_source_table *k = &l->b->table[t];
    int32_t *number = AS(int32_t, k->number);
    (void)worker;
    for (int64_t i = k->old; i < k->n; i++)
        number[i] = find(l->d, (int)t, k->hash[i]);
}

/* Pin the existing rows and read the missing ones. */
static int disk_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    struct ctr_source_batch *b = &s->batch[buffer];
    struct look look = { d, b };
    for (int t = 0; t < want->tables; t++) /* for drop after an error */
        for (int64_t i = b->table[t].old; i < b->table[t].n; i++)
            AS(int32_t, b->table[t].number)[i] = NONE;
    int rc = finish(d, err);
    if (rc)
        return rc;
    ctr_pool_run(want->pool, want->tables, find_table, &look);
    for (int t = 0; t < want->tables; t++)
        for (int64_t i = b->table[t].old; i < b->table[t].n; i++)
            if (AS(int32_t, b->table[t].number)[i] != NONE) {
                pin(d, AS(int32_t, b->table[t].number)[i]);
                d->told.hits += b->make; /* of what is learned from */
            }
    for (int t = 0; t < want->tables && !rc; t++)
        for (int64_t i = b->table[t].old; i < b->table[t].n && !rc; i++)
            if (AS(int32_t, b->table[t].number)[i] == NONE) {
                rc = take(d, t, b->table[t].hash[i], &AS(int32_t, b->table[t].number)[i], err);
                d->told.misses += b->make;
            }
    if (!rc)
        start_job(d);
    return rc;
}

static int no_room(const struct disk *d, int64_t keys, struct ctr_err *err)
{
    const uint64_t need = (uint64_t)(keys * slot_bytes(d) + other_bytes(d));
    return ctr_fail(err, CTR_ENOMEM,
                    "the rows of a minibatch, of %" PRId64
                    " keys, need %s with all else, --memory allows %s: raise it, "
                    "or lower --minibatch or --embedding",
                    keys, ctr_size_text_beyond(need, (uint64_t)d->memory).s, ctr_size_text((uint64_t)d->memory).s);
}

/* Give slots to keys that got none in begin, now that the other minibatch is dropped. */
static int disk_ready(struct ctr_source *s, int buffer, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    struct ctr_source_batch *b = &s->batch[buffer];
    bool more = false;
    int rc = finish(d, err);
    for (int t = 0; t < b->tables && !rc; t++)
        for (int64_t i = 0; i < b->table[t].n && !rc; i++) {
            int32_t *number = &AS(int32_t, b->table[t].number)[i];
            if (*number != NONE)
                continue;
            more = true;
            if ((*number = find(d, t, b->table[t].hash[i])) != NONE)
                pin(d, *number);
            else
                rc = take(d, t, b->table[t].hash[i], number, err);
            if (!rc && *number == NONE)
                rc = no_room(d, b->n, err);
        }
    if (!rc && more)
        start_job(d);
    return rc ? rc : finish(d, err);
}

static void disk_drop(struct ctr_source *s, int buffer)
{
    struct disk *d = (struct disk *)s;
    const struct ctr_source_batch *b = &s->batch[buffer];
    for (int t = 0; t < b->tables; t++)
        for (int64_t i = 0; i < b->table[t].n && (size_t)i < b->table[t].number.len / sizeof(int32_t); i++)
            if (AS(int32_t, b->table[t].number)[i] != NONE)
                unpin(d, AS(int32_t, b->table[t].number)[i]);
}

/* ---- rows ---- */

/* A function of keys and slot numbers, called for several keys at a time while their slots are unknown. */
typedef void with_slots(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx);
static int each_slot(struct disk *d, const struct ctr_source_keys *keys, with_slots *fn, void *ctx, struct ctr_err *err)
{
    int32_t number[SOME_ROWS];
    int rc = 0;
    if (keys->number)
        fn(d, keys, 0, ctx);
    for (int64_t at = 0, n; at < keys->n && !keys->number && !rc; at += n) {
        n = CTR_MIN(keys->n - at, SOME_ROWS);
        const struct ctr_source_keys some = { keys->table, keys->hash + at, (uint32_t *)number, n };
        int64_t pinned = 0;
        rc = finish(d, err);
        for (; pinned < n && !rc; pinned++) {
            int32_t *i = &number[pinned];
            if ((*i = find(d, keys->table, some.hash[pinned])) != NONE) {
                pin(d, *i);
                d->told.hits++;
                continue;
            }
            rc = take(d, keys->table, some.hash[pinned], i, err);
            if (!rc && *i == NONE)
                rc = no_room(d, n, err);
            if (rc)
                break;
            d->told.misses++;
        }
        if (!rc) {
            start_job(d);
            rc = finish(d, err);
        }
        if (!rc)
            fn(d, &some, at, ctx);
        for (int64_t i = 0; i < pinned; i++)
            unpin(d, number[i]);
    }
    return rc;
}

struct move {
    float *to;
    const float *from;
    const int32_t *uses;
    uint32_t *total;
    bool make;
};

/* Mark a row used for training as existing. */
static void own(struct disk *d, int table, struct slot *s)
{
    d->table[table].rows += !(s->state & HAS);
    s->state |= HAS | NEWER;
}

static void copy_out(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx)
{
    const struct move *m = ctx;
    float *to = m->to + at * d->base.floats;
    for (int64_t i = 0; i < keys->n; i++, to += d->base.floats) {
        struct slot *s = slot_at(d, (int32_t)keys->number[i]);
        memcpy(to, row_at(d, (int32_t)keys->number[i]), (size_t)d->base.floats * sizeof *to);
        if (m->make && !(s->state & HAS))
            own(d, keys->table, s);
    }
}

static void copy_in(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx)
{
    const struct move *m = ctx;
    const float *from = m->from + at * d->base.floats;
    for (int64_t i = 0; i < keys->n; i++, from += d->base.floats) {
        memcpy(row_at(d, (int32_t)keys->number[i]), from, (size_t)d->base.floats * sizeof *from);
        own(d, keys->table, slot_at(d, (int32_t)keys->number[i]));
    }
}

static void add_counts(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx)
{
    const struct move *m = ctx;
    for (int64_t i = 0; i < keys->n; i++) {
        float *row = row_at(d, (int32_t)keys->number[i]) + d->base.floats;
        m->total[at + i] = ctr_embedding_count(row, m->uses[at + i]);
        own(d, keys->table, slot_at(d, (int32_t)keys->number[i]));
    }
}

static int disk_fetch(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to,
                      struct ctr_err *err)
{
    return each_slot((struct disk *)s, keys, copy_out, &(struct move){ .to = to, .make = make }, err);
}

static int disk_put(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from, struct ctr_err *err)
{
    return each_slot((struct disk *)s, keys, copy_in, &(struct move){ .from = from }, err);
}

static int disk_count(struct ctr_source *s, int buffer, const struct ctr_source_keys *keys, const int32_t *uses,
                      uint32_t *total, struct ctr_err *err)
{
    (void)buffer;
    return each_slot((struct disk *)s, keys, add_counts, &(struct move){ .uses = uses, .total = total }, err);
}

/* ---- files ---- */

static int disk_settle(struct ctr_source *s, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    int rc = finish(d, err);
    for (int32_t i = 0; i < d->used && !rc; i++) {
        if (slot_at(d, i)->state & NEWER)
            rc = put_later(d, i, err);
        if (!rc && d->job.put.len >= SOME_ROWS * sizeof(struct ctr_rowkey)) {
            start_job(d);
            rc = finish(d, err);
        }
    }
    if (!rc)
        start_job(d);
    return rc ? rc : finish(d, err);
}

static int disk_changes(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err)
{
    return ctr_rowstore_changes(((struct disk *)s)->store, what, err);
}

static int disk_save(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err)
{
    return ctr_rowstore_each(((struct disk *)s)->store, (uint32_t)table, each, ctx, err);
}

/* Writes directly to the store. Keys come in ascending order, as in files; any other order needs a look-up. */
static int disk_load(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    struct table *t = &d->table[table];
    struct ctr_rowkey name = { (uint32_t)table, 0, key };
    const size_t bytes = (size_t)d->row_floats * sizeof *row;
    int rc = d->job.running ? finish(d, err) : 0;
    bool twice = t->any_loaded && key == t->loaded;
    if (!rc && t->any_loaded && key < t->loaded) {
        float *old = malloc(bytes);
        rc = old ? put_loaded(d, err) : ctr_fail_nomem(err, bytes);
        if (!rc)
            rc = ctr_rowstore_get(d->store, &name, 1, &old, err);
        twice = name.place;
        name.place = 0;
        free(old);
    }
    if (!rc && twice)
        rc = ctr_fail(err, CTR_EDATA, "a key comes twice");
    if (!rc)
        rc = ctr_buf_append(&d->load_keys, &name, sizeof name, err);
    if (!rc)
        rc = ctr_buf_append(&d->load_rows, row, bytes, err);
    t->loaded = t->any_loaded ? CTR_MAX(t->loaded, key) : key;
    t->any_loaded = true;
    t->rows += !rc;
    return rc || d->load_keys.len < SOME_ROWS * sizeof name ? rc : put_loaded(d, err);
}

static int64_t disk_rows(const struct ctr_source *s, int table)
{
    const struct disk *d = (const struct disk *)s;
    int64_t n = table < 0 ? 0 : d->table[table].rows;
    for (int t = 0; t < d->tables && table < 0; t++)
        n += d->table[t].rows;
    return n;
}

static int64_t disk_memory(const struct ctr_source *s)
{
    const struct disk *d = (const struct disk *)s;
    return d->slots * slot_bytes(d);
}

static int disk_summary(const struct ctr_source *s, struct ctr_buf *text, struct ctr_err *err)
{
    const struct disk *d = (const struct disk *)s;
    struct ctr_rowstore_told told = d->told;
    told.rows = d->slots;
    told.bytes = d->slots * slot_bytes(d);
    told.row_bytes = d->row_floats * (int64_t)sizeof(float);
    return ctr_rowstore_summary(&told, text, err);
}

static void disk_free(struct ctr_source *s)
{
    struct disk *d = (struct disk *)s;
    struct job *j = &d->job;
    if (j->running && d->thread)
        (void)ctr_background_wait(d->thread, -1);
    if (d->thread)
        ctr_background_free(d->thread);
    struct ctr_buf *bufs[] = { &j->put, &j->put_rows, &j->get, &j->to, &j->slot, &d->load_keys, &d->load_rows };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (int64_t i = 0; i < d->slots / CHUNK; i++) {
        free(d->chunk[i]->rows);
        free(d->chunk[i]);
    }
    for (int t = 0; t < d->tables; t++)
        ctr_embedding_free(&d->table[t].first);
    free((void *)d->chunk);
    free(d->table);
    free(d->bucket);
    if (d->store)
        ctr_rowstore_free(d->store);
    free(d);
}

static const struct ctr_source_ops disk_ops = { .name = "disk",
                                                .looks_ahead = true,
                                                .begin = disk_begin,
                                                .ready = disk_ready,
                                                .fetch = disk_fetch,
                                                .put = disk_put,
                                                .count = disk_count,
                                                .drop = disk_drop,
                                                .settle = disk_settle,
                                                .changes = disk_changes,
                                                .save = disk_save,
                                                .load = disk_load,
                                                .rows = disk_rows,
                                                .memory = disk_memory,
                                                .summary = disk_summary,
                                                .free = disk_free };

int ctr_source_disk(struct ctr_source **out, struct ctr_dev *dev, int32_t width, int32_t floats, int32_t row_floats,
                    const char *dir, int64_t memory, struct ctr_err *err)
{
    struct disk *d = calloc(1, sizeof *d);
    if (!d)
        return ctr_fail_nomem(err, sizeof *d);
    d->base = (struct ctr_source){ .ops = &disk_ops, .dev = dev, .width = width, .floats = floats };
    d->row_floats = row_floats;
    d->memory = memory;
    d->first = d->last = NONE;
    int rc = ctr_rowstore_open(&d->store, dir, row_floats, err);
    if (rc) {
        ctr_source_free(&d->base);
        return rc;
    }
    d->thread = ctr_background_new();
    *out = &d->base;
    return 0;
}

int ctr_source_disk_bind(struct ctr_source *s, int t, const struct ctr_embedding *first, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    if (t < d->tables)
        return 0;
    struct table *list = realloc(d->table, ((size_t)t + 1) * sizeof *list);
    if (!list)
        return ctr_fail_nomem(err, ((size_t)t + 1) * sizeof *list);
    d->table = list;
    for (; d->tables <= t; d->tables++)
        list[d->tables] = (struct table){ 0 };
    ctr_embedding_init(&list[t].first, first->width, first->floats, first->seed, first->scale);
    return 0;
}
