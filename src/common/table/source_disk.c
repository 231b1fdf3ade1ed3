/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk and in memory. See source.h; rowfile.h for the disk.
 *
 *     index of a table   key -> number: a slot, or ON_DISK and a place     keyindex.h, all keys, in memory
 *     slots              rows in memory, all tables together               a row and a byte of state each
 *     file               the other rows, by place                          rowfile.h
 *
 * A row is in a slot or on disk, never in both: a row that is read gives its place back, and a row that is evicted is
 * written anew, at the end of the file. So the disk is written in sequence, and nothing is read or written while all
 * rows fit. A key without a row gets its first values without I/O, because the index has all keys.
 *
 * A slot is pinned by each current minibatch that has its key. When slots are short, a hand goes around the indexes
 * (the clock algorithm, with counts): it lowers the use count of each slot that it meets, and evicts those that have
 * none, at least an eighth of all slots at a time. What it evicts is sorted by key, so that rows saved in the order of
 * keys are found in runs. Slots need no link to their keys, and no lists.
 *
 * --memory holds the buffers of the device and of the file, the indexes, and with what they leave slots. As indexes
 * grow, slots are given up, but not more than half of them.
 *
 * One background job at a time reads the rows of a minibatch into its pinned slots. While it may run, only a fetch or
 * put of a minibatch that has its values may use its slots, which no job touches; all else waits for it first
 * (finish). So reading for more than one minibatch ahead gains nothing: tests/bench/NOTES.md. Results do not depend on
 * the number of slots. */
#include "common/table/keyindex.h"
#include "common/table/rowfile.h"
#include "common/table/source.h"

#include <inttypes.h>
#include <stdlib.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { LEAST_SLOTS = 64, SOME_ROWS = 1024, GROUP = 64, AHEAD = 8 };
enum { EVICT_PART = 8, SPARE_PART = 32 }; /* of slots: evicted at once; of memory: for lists and rows on their way */
/* The state of a slot: pins, 2 bits; changed since the last checkpoint; use count. */
enum { PINS = 3, CHANGED = 4, USE = 8, MOST_USE = 31 * USE, FIRST_USE = 0, SECOND_USE = 2 * USE, A_USE = 4 * USE };
#define NONE    UINT32_MAX /* no slot yet, or no row */
#define ON_DISK (UINT32_C(1) << 31)

struct table {
    struct ctr_embedding first;
    struct ctr_keyindex index;
};

struct disk {
    struct ctr_source base;
    struct ctr_rowfile *file;
    struct ctr_background *thread; /* NULL: the caller runs it */
    int32_t row_floats;
    int64_t memory;
    struct table *table;
    int tables;
    struct ctr_area rows, state; /* of slots */
    uint32_t slots, cap;         /* used at least once; may be used: the rest of memory */
    uint32_t free, frees;        /* slots without a row: the first, each names the next in its row; how many */
    uint32_t pinned, most;       /* slots: pinned now; at once so far */
    int hand;                    /* of the clock: table, */
    uint64_t at;                 /* place in its index */
    struct ctr_changed changed;  /* by place */
    struct ctr_buf list, moving; /* of rows to write, twice; rows on their way from disk */
    struct job {
        struct ctr_buf get; /* struct ctr_numbered: place, slot */
        bool running;
        int rc;
        struct ctr_err err;
    } job;
    int64_t hits, misses, evictions;
    int64_t read, written; /* rows, without those that saving reads */
    double waited;         /* s */
};

/* ---- slots ---- */

static float *row_at(const struct disk *d, uint32_t slot)
{
    return (float *)(void *)d->rows.base + (int64_t)slot * d->row_floats;
}

static uint8_t *state_at(const struct disk *d, uint32_t slot)
{
    return d->state.base + slot;
}

static size_t row_bytes(const struct disk *d)
{
    return (size_t)d->row_floats * sizeof(float);
}

static void pin(struct disk *d, uint32_t slot)
{
    uint8_t *s = state_at(d, slot);
    d->pinned += !(*s & PINS);
    *s = (uint8_t)(*s + 1 + CTR_MIN(A_USE, MOST_USE - (*s & MOST_USE)));
}

static void unpin(struct disk *d, uint32_t slot)
{
    d->pinned -= !(--*state_at(d, slot) & PINS);
}

static void note(const struct disk *d, uint32_t slot)
{
    *state_at(d, slot) |= CHANGED;
}

static void give_back(struct disk *d, uint32_t slot)
{
    memcpy(row_at(d, slot), &d->free, sizeof d->free);
    d->free = slot;
    d->frees++;
}

static int64_t index_bytes(const struct disk *d)
{
    uint64_t n = 0;
    for (int t = 0; t < d->tables; t++)
        n += ctr_keyindex_bytes(&d->table[t].index);
    return (int64_t)n;
}

/* Other uses of memory; the host buffers of a device are among them. Indexes take at most half of the rest. */
static int64_t other_bytes(const struct disk *d)
{
    const int64_t device = ctr_dev_is_host(d->base.dev) ? ctr_dev_memory(d->base.dev) : 0;
    const int64_t other = device + ctr_rowfile_memory(d->file) + d->memory / SPARE_PART;
    return other + CTR_MIN(index_bytes(d), CTR_MAX(d->memory - other, 0) / 2);
}

static int64_t allowed(const struct disk *d)
{
    const int64_t n = (d->memory - other_bytes(d)) / (int64_t)(row_bytes(d) + 1);
    return CTR_MIN(CTR_MAX(n, LEAST_SLOTS), INT32_MAX / 2);
}

/* Memory for so many slots, and some more. */
static int make_slots(struct disk *d, uint64_t slots, struct ctr_err *err)
{
    if (slots * row_bytes(d) <= d->rows.bytes && slots <= d->state.bytes)
        return 0;
    slots = CTR_MIN(slots + slots / 16, CTR_MAX(d->cap, slots));
    int rc = ctr_area_grow(&d->rows, slots * row_bytes(d), err);
    return rc ? rc : ctr_area_grow(&d->state, slots, err);
}

/* A slot without a row, pinned; there must be one. */
static int take_slot(struct disk *d, unsigned use, uint32_t *slot, struct ctr_err *err)
{
    int rc = d->frees ? 0 : make_slots(d, d->slots + 1, err);
    if (rc)
        return rc;
    *slot = d->frees ? d->free : d->slots;
    if (d->frees) {
        memcpy(&d->free, row_at(d, *slot), sizeof d->free);
        d->frees--;
    } else {
        d->slots++;
    }
    d->most = CTR_MAX(d->most, d->slots - d->frees);
    *state_at(d, *slot) = (uint8_t)(use + 1);
    d->pinned++;
    return 0;
}

/* ---- the job ---- */

static void run_job(void *ctx)
{
    struct disk *d = ctx;
    struct job *j = &d->job;
    j->rc = ctr_rowfile_get(d->file, AS(struct ctr_numbered, j->get),
                            (int64_t)(j->get.len / sizeof(struct ctr_numbered)), row_at(d, 0), &j->err);
}

static int start_job(struct disk *d, struct ctr_err *err)
{
    struct job *j = &d->job;
    int rc = j->get.len ? ctr_buf_reserve(&j->get, j->get.len, err) : 0; /* to sort it */
    if (rc || !j->get.len)
        return rc;
    d->read += (int64_t)(j->get.len / sizeof(struct ctr_numbered));
    j->running = true;
    if (d->thread)
        ctr_background_run(d->thread, run_job, d);
    else
        run_job(d);
    return 0;
}

/* Wait for the job; the rows that it read are then valid. If it failed, so does all that follows: rows are lost. */
static int finish(struct disk *d, struct ctr_err *err)
{
    struct job *j = &d->job;
    if (j->running) {
        const int64_t start_ns = ctr_clock_ns();
        if (d->thread)
            (void)ctr_background_wait(d->thread, -1);
        d->waited += 1e-9 * (double)(ctr_clock_ns() - start_ns);
        j->running = false;
        ctr_buf_clear(&j->get);
    }
    if (j->rc)
        *err = j->err;
    return j->rc;
}

/* ---- eviction ---- */

/* Write a row to a new place, which the index learns. */
static int write_row(struct disk *d, int table, uint64_t key, const float *row, bool changed, struct ctr_err *err)
{
    uint32_t place;
    int rc = ctr_rowfile_add(d->file, row, &place, err);
    if (!rc)
        rc = ctr_changed_room(&d->changed, ctr_rowfile_places(d->file), err);
    if (rc)
        return rc;
    if (d->changed.on)
        ctr_changed_put(&d->changed, place, changed);
    *ctr_keyindex_find(&d->table[table].index, ctr_key_hash(key)) = ON_DISK | place;
    d->written++;
    return 0;
}

/* Keys with numbers, collected until they are sorted and moved; memory for twice as many. */
static int64_t list_room(const struct disk *d, size_t each)
{
    return CTR_MAX(d->memory / SPARE_PART / (int64_t)each, LEAST_SLOTS);
}

static int list_add(struct disk *d, uint64_t hash, uint32_t number, struct ctr_err *err)
{
    const struct ctr_numbered e = { ctr_key_unhash(hash), number };
    return ctr_buf_append(&d->list, &e, sizeof e, err);
}

static int64_t listed(const struct disk *d)
{
    return (int64_t)(d->list.len / sizeof(struct ctr_numbered));
}

static int sort_list(struct disk *d, struct ctr_numbered **sorted, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(&d->list, d->list.len, err);
    struct ctr_numbered *list = AS(struct ctr_numbered, d->list);
    if (!rc)
        *sorted = ctr_numbered_sort(list, list + listed(d), (size_t)listed(d));
    return rc;
}

/* Write the listed slots of a table. */
static int write_slots(struct disk *d, int table, struct ctr_err *err)
{
    struct ctr_numbered *e = NULL;
    int rc = listed(d) ? sort_list(d, &e, err) : 0;
    for (int64_t i = 0; i < listed(d) && !rc; i++) {
        const uint32_t slot = (uint32_t)e[i].number;
        if (i + AHEAD < listed(d)) {
            __builtin_prefetch(ctr_keyindex_home(&d->table[table].index, ctr_key_hash(e[i + AHEAD].key)));
            __builtin_prefetch(row_at(d, (uint32_t)e[i + AHEAD].number));
        }
        rc = write_row(d, table, e[i].key, row_at(d, slot), *state_at(d, slot) & CHANGED, err);
        give_back(d, slot);
        d->evictions++;
    }
    ctr_buf_clear(&d->list);
    return rc;
}

static uint32_t *next_number(struct disk *d, int table, uint64_t *at, uint64_t *hash)
{
    return (uint32_t *)(uintptr_t)ctr_keyindex_next(&d->table[table].index, at, hash);
}

/* Move the hand until so many slots are listed, or the table ends. */
static int turn_hand(struct disk *d, int64_t want, struct ctr_err *err)
{
    uint64_t hash;
    int rc = 0;
    while (listed(d) < want && !rc) {
        const uint32_t *number = next_number(d, d->hand, &d->at, &hash);
        if (!number)
            break;
        uint8_t *state = *number & ON_DISK ? NULL : state_at(d, *number);
        if (!state || *state & PINS)
            continue;
        if (*state & MOST_USE)
            *state = (uint8_t)(*state - USE);
        else
            rc = list_add(d, hash, *number, err);
    }
    return rc;
}

/* Free at least `want` slots, if so many are not pinned. */
static int evict(struct disk *d, int64_t want, struct ctr_err *err)
{
    const int64_t most = list_room(d, 2 * sizeof(struct ctr_numbered));
    int rc = 0;
    want = CTR_MIN(want, (int64_t)d->slots - d->frees - d->pinned);
    for (int64_t turns = (MOST_USE / USE + 2) * (int64_t)d->tables; want > 0 && turns && !rc;) {
        const int64_t some = CTR_MIN(want, most), before = d->evictions;
        rc = turn_hand(d, some, err);
        const bool end = listed(d) < some;
        if (!rc)
            rc = write_slots(d, d->hand, err);
        want -= d->evictions - before;
        if (end) {
            d->hand = (d->hand + 1) % d->tables;
            d->at = 0;
            turns--;
        }
    }
    return rc;
}

/* Move the listed rows on disk to new places. */
static int move_places(struct disk *d, int table, struct ctr_err *err)
{
    struct ctr_numbered *e = NULL;
    const int64_t n = listed(d);
    int rc = n ? sort_list(d, &e, err) : 0;
    if (!rc && n)
        rc = ctr_buf_room(&d->moving, n, row_bytes(d), err);
    struct ctr_buf get = { 0 };
    struct ctr_numbered *g = ctr_buf_extend(&get, 2 * n, sizeof *g, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++)
        g[i] = (struct ctr_numbered){ e[i].number, (uint64_t)i };
    if (!rc && n)
        rc = ctr_rowfile_get(d->file, g, n, AS(float, d->moving), err);
    for (int64_t i = 0; i < n && !rc; i++) {
        const uint32_t old = (uint32_t)e[i].number;
        rc = write_row(d, table, e[i].key, AS(float, d->moving) + i * d->row_floats, ctr_changed_has(&d->changed, old),
                       err);
        ctr_rowfile_drop(d->file, old);
    }
    ctr_buf_free(&get);
    ctr_buf_clear(&d->list);
    return rc;
}

/* Move the rows of segments that are mostly dropped, so that the file takes at most about twice its rows. */
static int compact(struct disk *d, struct ctr_err *err)
{
    const int64_t most = list_room(d, row_bytes(d) + 4 * sizeof(struct ctr_numbered));
    int rc = 0;
    for (int t = 0; t < d->tables && !rc; t++) {
        uint64_t at = 0, hash;
        for (const uint32_t *number; !rc && (number = next_number(d, t, &at, &hash));) {
            if (*number & ON_DISK && ctr_rowfile_stale(d->file, *number & ~ON_DISK))
                rc = list_add(d, hash, *number & ~ON_DISK, err);
            if (!rc && listed(d) == most)
                rc = move_places(d, t, err);
        }
        if (!rc)
            rc = move_places(d, t, err);
    }
    return rc;
}

/* Make room for so many more slots, as far as that is possible; no job may be in progress. */
static int make_room(struct disk *d, int64_t want, struct ctr_err *err)
{
    int64_t room = (int64_t)d->frees + CTR_MAX((int64_t)d->cap - d->slots, 0);
    int rc = 0;
    if (want <= room)
        return 0;
    rc = evict(d, CTR_MAX(want - room, d->slots / EVICT_PART), err);
    return rc || !ctr_rowfile_wasteful(d->file) ? rc : compact(d, err);
}

/* ---- the bound ---- */

/* The slots of the keys of minibatches, after slots moved. */
static void renumber(struct disk *d, uint32_t from)
{
    for (int b = 0; b < 2; b++)
        for (int t = 0; t < d->base.batch[b].tables; t++) {
            struct ctr_source_table *k = &d->base.batch[b].table[t];
            uint32_t *number = AS(uint32_t, k->number);
            for (int64_t i = 0; i < (int64_t)(k->number.len / sizeof *number); i++)
                if (number[i] != NONE && number[i] >= from)
                    number[i] = *ctr_keyindex_find(&d->table[t].index, k->hash[i]);
        }
}

/* The free slots below `to` alone. */
static void cut_free(struct disk *d, uint32_t to)
{
    uint32_t slot = d->free, n = d->frees;
    d->frees = 0;
    for (uint32_t next; n--; slot = next) {
        memcpy(&next, row_at(d, slot), sizeof next);
        if (slot < to)
            give_back(d, slot);
    }
}

/* Give up the slots from `to` on. */
static int shrink(struct disk *d, uint32_t to, struct ctr_err *err)
{
    int rc = evict(d, (int64_t)d->slots - d->frees - to, err);
    if (rc || d->slots - d->frees > to) /* pinned ones; the next minibatch tries again */
        return rc;
    cut_free(d, to);
    for (int t = 0; t < d->tables; t++) {
        uint64_t at = 0, hash;
        for (uint32_t *number; (number = next_number(d, t, &at, &hash));) {
            if (*number & ON_DISK || *number < to)
                continue;
            const uint32_t slot = d->free;
            memcpy(&d->free, row_at(d, slot), sizeof d->free);
            d->frees--;
            memcpy(row_at(d, slot), row_at(d, *number), row_bytes(d));
            *state_at(d, slot) = *state_at(d, *number);
            *number = slot;
        }
    }
    d->slots = to;
    ctr_area_shrink(&d->rows, (size_t)to * row_bytes(d));
    ctr_area_shrink(&d->state, to);
    renumber(d, to);
    return 0;
}

/* Memory may have been given to others. What is given up is some more, so that it does not come to that at once. */
static int keep_bound(struct disk *d, struct ctr_err *err)
{
    const int64_t most = allowed(d);
    if (most < d->cap)
        d->cap = (uint32_t)CTR_MAX(most - most / 16, LEAST_SLOTS);
    return d->slots > d->cap ? shrink(d, d->cap, err) : 0;
}

/* ---- a minibatch ---- */

struct look {
    struct disk *d;
    struct ctr_source_batch *b;
};

/* The slots of keys; NONE: they have none. Reads only. */
static void find_slots(const struct disk *d, int table, const uint64_t *hash, int64_t n, uint32_t *number)
{
    const struct ctr_keyindex *index = &d->table[table].index;
    struct ctr_keyline *home[GROUP];
    for (int64_t at = 0, k; at < n; at += k) {
        k = CTR_MIN(n - at, GROUP);
        for (int64_t i = 0; i < k && index->size; i++)
            __builtin_prefetch(home[i] = ctr_keyindex_home(index, hash[at + i]));
        for (int64_t i = 0; i < k; i++) {
            const uint32_t *own = index->size ? ctr_keyindex_find_from(index, home[i], hash[at + i]) : NULL;
            number[at + i] = own && !(*own & ON_DISK) ? *own : NONE;
            if (own && !(*own & ON_DISK))
                __builtin_prefetch(state_at(d, *own));
        }
    }
}

static void find_table(void *ctx, int64_t t, int worker)
{
    const struct look *l = ctx;
    const struct ctr_source_table *k = &l->b->table[t];
    (void)worker;
    find_slots(l->d, (int)t, k->hash + k->old, k->n - k->old, AS(uint32_t, k->number) + k->old);
}

/* The row of a key without one. */
static void first_row(const struct disk *d, int table, uint64_t hash, int32_t floats, float *row)
{
    ctr_embedding_gather(&d->table[table].first, &(uint32_t){ CTR_EMBEDDING_NONE }, &hash, 1, floats, row);
}

/* Pin the slot of a key that has none yet: the next job reads its row, or it is made. NONE: there is no row, or no room
 * for it. */
static int bring(struct disk *d, int table, uint64_t hash, bool make, uint32_t *slot, struct ctr_err *err)
{
    struct ctr_keyindex *index = &d->table[table].index;
    uint32_t *own = ctr_keyindex_find(index, hash);
    int rc = 0;
    *slot = NONE;
    if (own && !(*own & ON_DISK)) {
        pin(d, *slot = *own);
        return 0;
    }
    if ((!own && !make) || (!d->frees && d->slots >= d->cap))
        return 0;
    rc = take_slot(d, own ? SECOND_USE : FIRST_USE, slot, err);
    if (!rc && own) {
        const uint32_t place = *own & ~ON_DISK;
        const struct ctr_numbered get = { place, *slot };
        rc = ctr_buf_append(&d->job.get, &get, sizeof get, err);
        ctr_rowfile_drop(d->file, place);
        if (ctr_changed_has(&d->changed, place))
            note(d, *slot);
    } else if (!rc) {
        own = ctr_keyindex_get(index, hash);
        first_row(d, table, hash, d->row_floats, row_at(d, *slot));
        note(d, *slot);
    }
    if (!rc)
        *own = *slot;
    return rc;
}

/* Keys whose numbers are NONE, from `from` on. */
static int64_t missing(const struct ctr_source_table *k, int64_t from)
{
    int64_t n = 0;
    for (int64_t i = from; i < k->n; i++)
        n += AS(uint32_t, k->number)[i] == NONE;
    return n;
}

/* Bring the missing rows of a minibatch, its keys from the last begin on or all. */
static int bring_batch(struct disk *d, struct ctr_source_batch *b, bool all, struct ctr_err *err)
{
    int64_t want = 0;
    int rc = 0;
    for (int t = 0; t < b->tables && !rc; t++) {
        const int64_t n = missing(&b->table[t], all ? 0 : b->table[t].old);
        want += n;
        if (b->make)
            rc = ctr_keyindex_reserve(&d->table[t].index, (uint64_t)n, err);
    }
    if (!rc)
        rc = keep_bound(d, err);
    if (!rc)
        rc = make_room(d, want, err);
    for (int t = 0; t < b->tables; t++) {
        struct ctr_source_table *k = &b->table[t];
        for (int64_t i = all ? 0 : k->old; i < k->n && !rc; i++)
            if (AS(uint32_t, k->number)[i] == NONE)
                rc = bring(d, t, k->hash[i], b->make, &AS(uint32_t, k->number)[i], err);
    }
    return rc ? rc : start_job(d, err);
}

/* Pin the rows in memory and bring the others. */
static int disk_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    struct ctr_source_batch *b = &s->batch[buffer];
    struct look look = { d, b };
    for (int t = 0; t < want->tables; t++) /* for drop after an error */
        for (int64_t i = b->table[t].old; i < b->table[t].n; i++)
            AS(uint32_t, b->table[t].number)[i] = NONE;
    int rc = finish(d, err);
    if (rc)
        return rc;
    ctr_pool_run(want->pool, want->tables, find_table, &look);
    for (int t = 0; t < want->tables; t++)
        for (int64_t i = b->table[t].old; i < b->table[t].n; i++) {
            const uint32_t slot = AS(uint32_t, b->table[t].number)[i];
            if (slot != NONE)
                pin(d, slot);
            if (b->make) /* of what is learned from */
                ++*(slot != NONE ? &d->hits : &d->misses);
        }
    return bring_batch(d, b, false, err);
}

static int no_room(const struct disk *d, int64_t keys, struct ctr_err *err)
{
    const uint64_t need = (uint64_t)(keys * (int64_t)(row_bytes(d) + 1) + other_bytes(d));
    ctr_err_file(err, "--spill");
    return ctr_fail(err, CTR_ENOMEM,
                    "the rows of a minibatch, of %" PRId64
                    " keys, need %s with all else, --memory allows %s: raise it, "
                    "or lower --minibatch%s",
                    keys, ctr_size_text_beyond(need, (uint64_t)d->memory).s, ctr_size_text((uint64_t)d->memory).s,
                    d->base.width > 1 ? " or --embedding" : "");
}

/* Give slots to keys that got none in begin, now that the other minibatch is dropped. */
static int disk_ready(struct ctr_source *s, int buffer, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    struct ctr_source_batch *b = &s->batch[buffer];
    int64_t more = 0, none = 0;
    int rc = finish(d, err);
    for (int t = 0; t < b->tables; t++)
        more += missing(&b->table[t], 0);
    if (rc || !more)
        return rc;
    rc = bring_batch(d, b, true, err);
    for (int t = 0; t < b->tables && !rc; t++)
        for (int64_t i = 0; i < b->table[t].n; i++)
            none += AS(uint32_t, b->table[t].number)[i] == NONE &&
                    (b->make || ctr_keyindex_find(&d->table[t].index, b->table[t].hash[i]));
    if (!rc && none)
        rc = no_room(d, b->n, err);
    return rc ? rc : finish(d, err);
}

static void disk_drop(struct ctr_source *s, int buffer)
{
    struct disk *d = (struct disk *)s;
    const struct ctr_source_batch *b = &s->batch[buffer];
    for (int t = 0; t < b->tables; t++)
        for (int64_t i = 0; i < b->table[t].n && (size_t)i < b->table[t].number.len / sizeof(uint32_t); i++)
            if (AS(uint32_t, b->table[t].number)[i] != NONE)
                unpin(d, AS(uint32_t, b->table[t].number)[i]);
}

/* ---- rows ---- */

/* A function of keys and slots, called for several keys at a time while their slots are unknown. */
typedef void with_slots(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx);

/* Pin the rows of at most SOME_ROWS keys, and unpin them after fn. */
static int with_some(struct disk *d, const struct ctr_source_keys *some, int64_t at, bool make, with_slots *fn,
                     void *ctx, struct ctr_err *err)
{
    int64_t pinned = 0, found = 0;
    int rc = finish(d, err);
    if (!rc && make)
        rc = ctr_keyindex_reserve(&d->table[some->table].index, (uint64_t)some->n, err);
    if (!rc)
        rc = keep_bound(d, err);
    if (!rc)
        rc = make_room(d, some->n, err);
    for (; pinned < some->n && !rc; pinned++) {
        const size_t asked = d->job.get.len;
        uint32_t *slot = &some->number[pinned];
        rc = bring(d, some->table, some->hash[pinned], make, slot, err);
        if (!rc && *slot == NONE && (make || ctr_keyindex_find(&d->table[some->table].index, some->hash[pinned])))
            rc = no_room(d, some->n, err);
        found += *slot != NONE && d->job.get.len == asked;
        if (rc)
            break;
    }
    d->hits += found;
    d->misses += pinned - found;
    if (!rc)
        rc = start_job(d, err);
    if (!rc)
        rc = finish(d, err);
    if (!rc)
        fn(d, some, at, ctx);
    for (int64_t i = 0; i < pinned; i++)
        if (some->number[i] != NONE)
            unpin(d, some->number[i]);
    return rc;
}

static int each_slot(struct disk *d, const struct ctr_source_keys *keys, bool make, with_slots *fn, void *ctx,
                     struct ctr_err *err)
{
    uint32_t number[SOME_ROWS];
    int rc = 0;
    if (keys->number)
        fn(d, keys, 0, ctx);
    for (int64_t at = 0, n; at < keys->n && !keys->number && !rc; at += n) {
        n = CTR_MIN(keys->n - at, CTR_MIN(SOME_ROWS, (int64_t)d->cap / 2));
        const struct ctr_source_keys some = { keys->table, keys->hash + at, number, n };
        rc = with_some(d, &some, at, make, fn, ctx, err);
    }
    return rc;
}

struct move {
    float *to;
    const float *from;
    const int32_t *uses;
    uint32_t *total;
};

static void copy_out(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx)
{
    const struct move *m = ctx;
    float *to = m->to + at * d->base.floats;
    for (int64_t i = 0; i < keys->n; i++, to += d->base.floats)
        if (keys->number[i] == NONE)
            first_row(d, keys->table, keys->hash[i], d->base.floats, to);
        else
            memcpy(to, row_at(d, keys->number[i]), (size_t)d->base.floats * sizeof *to);
}

static void copy_in(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx)
{
    const struct move *m = ctx;
    const float *from = m->from + at * d->base.floats;
    for (int64_t i = 0; i < keys->n; i++, from += d->base.floats) {
        memcpy(row_at(d, keys->number[i]), from, (size_t)d->base.floats * sizeof *from);
        note(d, keys->number[i]);
    }
}

static void add_counts(struct disk *d, const struct ctr_source_keys *keys, int64_t at, void *ctx)
{
    const struct move *m = ctx;
    for (int64_t i = 0; i < keys->n; i++) {
        m->total[at + i] = ctr_embedding_count(row_at(d, keys->number[i]) + d->base.floats, m->uses[at + i]);
        note(d, keys->number[i]);
    }
}

static int disk_fetch(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to,
                      struct ctr_err *err)
{
    return each_slot((struct disk *)s, keys, make, copy_out, &(struct move){ .to = to }, err);
}

static int disk_put(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from, struct ctr_err *err)
{
    return each_slot((struct disk *)s, keys, true, copy_in, &(struct move){ .from = from }, err);
}

static int disk_count(struct ctr_source *s, int buffer, const struct ctr_source_keys *keys, const int32_t *uses,
                      uint32_t *total, struct ctr_err *err)
{
    (void)buffer;
    return each_slot((struct disk *)s, keys, true, add_counts, &(struct move){ .uses = uses, .total = total }, err);
}

/* ---- files ---- */

/* Rows are where save finds them, in memory or on disk. */
static int disk_settle(struct ctr_source *s, struct ctr_err *err)
{
    return finish((struct disk *)s, err);
}

static int disk_changes(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    for (uint32_t i = 0; i < d->slots && what == CTR_CHANGES_NOTE; i++)
        *state_at(d, i) &= (uint8_t)~CHANGED;
    return ctr_changed_set(&d->changed, what, ctr_rowfile_places(d->file), err);
}

struct save {
    struct disk *d;
    ctr_source_each *each;
    void *ctx;
    int64_t most; /* rows from disk at a time */
};

static bool skips(const struct disk *d, uint32_t number)
{
    if (number & ON_DISK)
        return ctr_changed_skips(&d->changed, number & ~ON_DISK);
    return d->changed.only && !(*state_at(d, number) & CHANGED);
}

/* Visit rows in the order of keys; those on disk are read together. */
static int save_some(const struct save *s, const struct ctr_numbered *e, int64_t n, struct ctr_err *err)
{
    struct disk *d = s->d;
    struct ctr_buf *get = &d->job.get;
    uint64_t at = 0;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++)
        if ((uint32_t)e[i].number & ON_DISK && !skips(d, (uint32_t)e[i].number)) {
            const struct ctr_numbered g = { (uint32_t)e[i].number & ~ON_DISK, at++ };
            rc = ctr_buf_append(get, &g, sizeof g, err);
        }
    if (!rc && at)
        rc = ctr_buf_reserve(get, get->len, err);
    if (!rc && at)
        rc = ctr_buf_room(&d->moving, (int64_t)at, row_bytes(d), err);
    if (!rc && at)
        rc = ctr_rowfile_get(d->file, AS(struct ctr_numbered, *get), (int64_t)at, AS(float, d->moving), err);
    const float *row = AS(float, d->moving);
    for (int64_t i = 0; i < n && !rc; i++) {
        const uint32_t number = (uint32_t)e[i].number;
        if (skips(d, number))
            continue;
        rc = s->each(s->ctx, e[i].key, number & ON_DISK ? row : row_at(d, number), err);
        row += number & ON_DISK ? d->row_floats : 0;
    }
    ctr_buf_clear(get);
    return rc;
}

static int save_range(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct save *s = ctx;
    int rc = 0;
    for (int64_t at = 0, k; at < (int64_t)n && !rc; at += k) {
        k = CTR_MIN((int64_t)n - at, s->most);
        rc = save_some(s, e + at, k, err);
    }
    return rc;
}

static int disk_save(struct ctr_source *source, int table, ctr_source_each *each, void *ctx, struct ctr_err *err)
{
    struct disk *d = (struct disk *)source;
    struct save s = { d, each, ctx, 2 * list_room(d, row_bytes(d) + 2 * sizeof(struct ctr_numbered)) };
    return ctr_keyindex_sorted(&d->table[table].index, d->table[table].index.used, save_range, &s, err);
}

static int disk_load(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err)
{
    struct disk *d = (struct disk *)s;
    struct ctr_keyindex *index = &d->table[table].index;
    const uint64_t hash = ctr_key_hash(key), bytes = ctr_keyindex_bytes(index);
    uint32_t slot;
    int rc = ctr_keyindex_find(index, hash) ? ctr_fail(err, CTR_EDATA, "a key comes twice") : 0;
    if (!rc)
        rc = ctr_keyindex_reserve(index, 1, err);
    if (!rc && ctr_keyindex_bytes(index) > bytes)
        rc = keep_bound(d, err);
    if (!rc)
        rc = make_room(d, 1, err);
    if (!rc)
        rc = bring(d, table, hash, true, &slot, err);
    if (!rc && slot == NONE)
        rc = no_room(d, 1, err);
    if (rc)
        return rc;
    memcpy(row_at(d, slot), row, row_bytes(d));
    unpin(d, slot);
    return 0;
}

static int64_t disk_rows(const struct ctr_source *s, int table)
{
    const struct disk *d = (const struct disk *)s;
    uint64_t n = table < 0 ? 0 : d->table[table].index.used;
    for (int t = 0; t < d->tables && table < 0; t++)
        n += d->table[t].index.used;
    return (int64_t)n;
}

static int64_t disk_memory(const struct ctr_source *s)
{
    const struct disk *d = (const struct disk *)s;
    return (int64_t)(d->rows.bytes + d->state.bytes) + index_bytes(d) + ctr_rowfile_memory(d->file);
}

static void disk_summary(const struct ctr_source *s, struct ctr_say *text)
{
    const struct disk *d = (const struct disk *)s;
    const struct ctr_rowfile_moved m = ctr_rowfile_moved(d->file);
    ctr_say(text,
            "memory rows          %" PRIu32 " (%s with the index)\n"
            "memory hits          %" PRId64 " (%.1f%%)\n"
            "memory misses        %" PRId64 "\n"
            "memory evictions     %" PRId64 "\n"
            "disk rows read       %" PRId64 "\n"
            "disk rows written    %" PRId64 "\n"
            "disk bytes moved     %s in %" PRId64 " reads, %s in %" PRId64 " writes\n"
            "disk waited for      %.3f s\n",
            d->most, ctr_size_text((uint64_t)disk_memory(s)).s, d->hits,
            100 * (double)d->hits / (double)CTR_MAX(d->hits + d->misses, 1), d->misses, d->evictions, d->read,
            d->written, ctr_size_text((uint64_t)m.read_bytes).s, m.reads, ctr_size_text((uint64_t)m.written_bytes).s,
            m.writes, d->waited);
}

static void disk_free(struct ctr_source *s)
{
    struct disk *d = (struct disk *)s;
    if (d->job.running && d->thread)
        (void)ctr_background_wait(d->thread, -1);
    ctr_background_free(d->thread);
    for (int t = 0; t < d->tables; t++) {
        ctr_embedding_free(&d->table[t].first);
        ctr_keyindex_free(&d->table[t].index);
    }
    free(d->table);
    ctr_area_free(&d->rows);
    ctr_area_free(&d->state);
    ctr_changed_free(&d->changed);
    ctr_buf_free(&d->list);
    ctr_buf_free(&d->moving);
    ctr_buf_free(&d->job.get);
    ctr_rowfile_free(d->file);
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
    int rc = ctr_rowfile_open(&d->file, dir, row_floats, false, memory, err);
    if (rc) {
        ctr_source_free(&d->base);
        return rc;
    }
    d->cap = (uint32_t)allowed(d);
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
