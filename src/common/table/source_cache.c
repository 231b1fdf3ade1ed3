/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of rows on a device. See source.h.
 *
 * On the device a key is one 64-bit number, its hash mixed with its table (ctr_source_number); ctr_dev_slots finds
 * which keys of a minibatch have a slot (hits), which do not (misses, requested from below), and which must go
 * (evictions, first written back below). The host stores the table and hash of each slot and never reads hits. All
 * transfers to and from below use `stage`, STAGE_ROWS rows at a time. */
#include "common/table/source.h"

#include <inttypes.h>
#include <stdlib.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { WAYS = 8, STAGE_ROWS = 16384, LEAST_EXPECTED = 256 };
/* Slots a key when they grow, as far as memory allows; they grow when there are half as many. With fewer slots, more
 * sets of WAYS overflow: with four thirds to two a key, every minibatch of a table of 3,000 keys had evictions, for
 * which the host waits. */
enum { SLOTS_A_KEY = 4 };
/* What lists of entries that the device numbers take, at most: by cache_entries, its operation and its caller, in both
 * buffers. */
enum { BYTES_AN_ENTRY = 200 };
/* Minibatches after which the device tries again, at most, where each has keys without a slot. */
enum { MOST_PAUSE = 63 };

struct held {
    uint64_t hash;
    int32_t table;
};

struct cache {
    struct ctr_source base;
    int64_t slots;         /* 0: none */
    bool begun;            /* the first minibatch has been seen */
    bool bounded;          /* it has reached its limit */
    bool crowded;          /* there is no memory for lists of entries */
    bool newer;            /* it has changes not yet written below */
    uint32_t now;          /* number of minibatches */
    struct ctr_mem *rows;  /* [slots x floats] */
    struct ctr_mem *key;   /* u64 [slots] */
    struct ctr_mem *stamp; /* u32 [slots] */
    struct held *held;     /* [slots]: valid if stamped */
    struct ctr_mem *stage; /* [stage_rows x floats] */
    float *stage_host;     /* its copy on the host */
    int64_t stage_rows;
    struct ctr_mem *want, *missed, *missed_slot, *missed_want, *evicted_slot, *index, *salt, *part_mem;
    struct ctr_buf scratch, put, hashes, parts; /* i32 or u64; struct held or u64; u64; i32 */
    int64_t hits, misses, evictions;
    int64_t expected;      /* misses of a minibatch at most, by the one before it */
    int64_t distinct;      /* keys of the last minibatch */
    int64_t entries;       /* there are lists of so many */
    uint32_t again, pause; /* the device numbers keys from minibatch `again` on */
    struct {
        bool in_set;            /* its rows use the slots */
        struct ctr_mem *slot;   /* i32 [n]: the slot of each row, or of each distinct key; -1: none */
        struct ctr_buf key;     /* struct held: per row */
        struct ctr_buf slotted; /* i32: copy of slot on the host */
        int64_t unslotted;
    } part[2];
};

static struct ctr_mat rows_of(const struct cache *c)
{
    return ctr_mat(c->rows, c->slots, c->base.floats);
}

static void free_rows(struct cache *c)
{
    struct ctr_mem **mems[] = { &c->rows, &c->key, &c->stamp, &c->stage };
    for (size_t i = 0; i < CTR_COUNT(mems); i++) {
        ctr_mem_free(*mems[i]);
        *mems[i] = NULL;
    }
    ctr_host_free(c->stage_host, c->base.dev);
    free(c->held);
    c->held = NULL;
    c->stage_host = NULL;
    c->slots = 0;
    c->newer = false;
}

static void cache_free(struct ctr_source *s)
{
    struct cache *c = (struct cache *)s;
    struct ctr_mem *mems[] = { c->want,  c->missed, c->missed_slot, c->missed_want,  c->evicted_slot,
                               c->index, c->salt,   c->part_mem,    c->part[0].slot, c->part[1].slot };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    free_rows(c);
    for (int i = 0; i < 2; i++) {
        ctr_buf_free(&c->part[i].key);
        ctr_buf_free(&c->part[i].slotted);
    }
    ctr_buf_free(&c->scratch);
    ctr_buf_free(&c->put);
    ctr_buf_free(&c->hashes);
    ctr_buf_free(&c->parts);
    ctr_source_free(c->base.below);
    free(c);
}

/* A minibatch with keys A B C D, of which A and C have slots, where one slot of D's set is free and B's set is full:
 *
 *     slots      ctr_dev_slots, on the device: A 3, C 8 hits; B takes slot 5 of key Z, D takes slot 9
 *     evict      row 5 (Z) is copied to `stage`, then to the host, and written below
 *     bring      B and D are read from below into `stage`, and copied into slots 5 and 9
 *     values     u, one row a key in the order of the minibatch: copied from their slots
 *     push       the step changes u and the slots; a key that got no slot (its set was full of keys of this minibatch)
 *                goes below at once (step_unslotted)
 *
 * Hits never leave the device; `below` sees misses, evictions and, when the cache settles, all that is newer.
 *
 * Where the device numbers the keys (cache_entries), the slots are the rows of values: nothing is copied to u. A
 * minibatch with a key that got no slot begins anew, as above; where one after another does, as when each has all keys
 * of the table, the device tries less and less often. */

/* ---- below ---- */

static void runs(const struct held *h, int64_t at, int64_t n, int64_t *end)
{
    *end = at + 1;
    while (*end < n && h[*end].table == h[at].table)
        ++*end;
}

/* Read rows h[0 … n) from below or write them back: runs of keys of one table at a time. */
static int move_below(struct cache *c, const struct held *h, int64_t n, bool back, bool make, float *rows,
                      struct ctr_err *err)
{
    enum { AT_ONCE = 1024 };
    uint64_t hash[AT_ONCE];
    int rc = 0;
    for (int64_t at = 0, end; at < n && !rc; at = end) {
        runs(h, at, CTR_MIN(n, at + AT_ONCE), &end);
        for (int64_t i = at; i < end; i++)
            hash[i - at] = h[i].hash;
        const struct ctr_source_keys keys = { .table = h[at].table, .hash = hash, .n = end - at };
        float *to = rows + at * c->base.floats;
        rc = back ? c->base.below->ops->put(c->base.below, &keys, to, err)
                  : c->base.below->ops->fetch(c->base.below, &keys, make, to, err);
    }
    return rc;
}

/* Write rows index[i], i < n, of `from`, which have keys h[i], below. */
static int save_rows(struct cache *c, struct ctr_mat from, struct ctr_vec index, const struct held *h, int64_t n,
                     struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, c->stage_rows);
        const struct ctr_dev_move_rows move = { .n = k,
                                                .from = from,
                                                .to = ctr_mat(c->stage, k, c->base.floats),
                                                .from_index = { index.mem, index.at + at, k } };
        rc = ctr_dev_move_rows(c->base.dev, &move, err);
        if (!rc)
            rc = ctr_mem_read(c->stage, 0, c->stage_host, (size_t)(k * c->base.floats) * sizeof(float), err);
        if (!rc)
            rc = move_below(c, h + at, k, true, true, c->stage_host, err);
    }
    return rc;
}

static int cache_settle(struct ctr_source *s, struct ctr_err *err)
{
    struct cache *c = (struct cache *)s;
    const size_t slots = (size_t)c->slots, row = (size_t)s->floats * sizeof(float);
    if (!c->newer)
        return ctr_source_settle(c->base.below, err);
    uint32_t *stamp = malloc(slots * sizeof *stamp);
    int rc = stamp ? ctr_mem_read(c->stamp, 0, stamp, slots * sizeof *stamp, err)
                   : ctr_fail_nomem(err, slots * sizeof *stamp);
    for (int64_t at = 0, k; at < c->slots && !rc; at += k) {
        k = CTR_MIN(c->slots - at, c->stage_rows);
        rc = ctr_mem_read(c->rows, (size_t)at * row, c->stage_host, (size_t)k * row, err);
        for (int64_t i = 0, end; i < k && !rc; i = end) { /* runs of slots in use */
            for (end = i; end < k && stamp[at + end];)
                end++;
            if (end > i)
                rc = move_below(c, c->held + at + i, end - i, true, true, c->stage_host + i * s->floats, err);
            end = CTR_MAX(end, i + 1);
        }
    }
    free(stamp);
    c->newer = rc != 0;
    return rc ? rc : ctr_source_settle(c->base.below, err);
}

/* ---- size ---- */

/* The number of slots that fit, a multiple of WAYS: half of the memory that would be free without them. */
static int64_t affordable(const struct cache *c)
{
    const char *most = getenv("CTR_WORKING_SET");
    const int64_t row = c->base.floats * (int64_t)sizeof(float), slot = row + 8 + 4;
    const int64_t held = c->slots ? c->slots * slot + c->stage_rows * row : 0;
    const int64_t bytes = (ctr_dev_memory_free(c->base.dev) / 2 + held / 2);
    int64_t slots = CTR_MIN(bytes / (slot + row), STAGE_ROWS); /* the stage is not larger than the slots */
    if (slots == STAGE_ROWS)
        slots = (bytes - STAGE_ROWS * row) / slot;
    if (most && *most)
        slots = CTR_MIN(slots, strtoll(most, NULL, 10));
    return CTR_MIN(slots, INT32_MAX) / WAYS * WAYS;
}

static bool has_room(const struct cache *c, int64_t keys)
{
    return keys * SLOTS_A_KEY <= c->slots * 2;
}

static int make_rows(struct cache *c, int64_t slots, struct ctr_err *err)
{
    const size_t row = (size_t)c->base.floats * sizeof(float);
    void *host = NULL;
    c->stage_rows = CTR_MIN(slots, STAGE_ROWS);
    int rc = ctr_mem_new(&c->rows, c->base.dev, (size_t)slots * row, err);
    if (!rc)
        rc = ctr_mem_new(&c->key, c->base.dev, (size_t)slots * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_mem_new(&c->stamp, c->base.dev, (size_t)slots * sizeof(uint32_t), err);
    if (!rc)
        rc = ctr_mem_new(&c->stage, c->base.dev, (size_t)c->stage_rows * row, err);
    if (!rc)
        rc = ctr_host_new(&host, c->base.dev, (size_t)c->stage_rows * row, err);
    if (!rc && !(c->held = calloc((size_t)slots, sizeof *c->held)))
        rc = ctr_fail_nomem(err, (size_t)slots * sizeof *c->held);
    c->stage_host = host;
    c->slots = slots;
    return rc;
}

/* Adjust the slots for a minibatch: more if below has more keys. */
static int fit(struct cache *c, int buffer, struct ctr_err *err)
{
    const struct ctr_source_batch *b = &c->base.batch[buffer];
    int rc = 0;
    c->part[buffer].in_set = false;
    c->part[buffer].unslotted = 0;
    ctr_buf_clear(&c->part[buffer].key);
    ctr_buf_clear(&c->part[buffer].slotted);
    if (!b->make)
        return ctr_source_settle(&c->base, err);
    if (!c->begun) { /* the first minibatch uses no slots: its buffers show what memory is left */
        c->begun = true;
        return 0;
    }
    const int64_t keys = ctr_source_rows(c->base.below, -1) + b->n; /* all may be new */
    c->now++;
    if (!c->bounded && !has_room(c, keys)) {
        int64_t slots = affordable(c);
        c->bounded = slots <= keys * SLOTS_A_KEY;
        slots = CTR_MIN(slots, (keys * SLOTS_A_KEY + WAYS - 1) / WAYS * WAYS);
        if (slots > c->slots) {
            rc = cache_settle(&c->base, err);
            free_rows(c);
            rc = rc ? rc : make_rows(c, slots, err);
        }
    }
    c->part[buffer].in_set = c->slots > 0;
    return rc;
}

/* ---- values ---- */

/* Table and hash of the rows from `here` on, in order. */
static int list_keys(struct cache *c, int buffer, struct ctr_err *err)
{
    const struct ctr_source_batch *b = &c->base.batch[buffer];
    int rc = 0;
    (void)ctr_buf_extend(&c->part[buffer].key, b->n - b->here, sizeof(struct held), &rc, err);
    struct held *h = AS(struct held, c->part[buffer].key);
    for (int t = 0; t < b->tables && !rc; t++) {
        const struct ctr_source_table *k = &b->table[t];
        const int32_t *place = AS(int32_t, k->places);
        for (int64_t i = k->n - 1; i >= 0 && place[i] >= b->here; i--)
            h[place[i]] = (struct held){ k->hash[i], t };
    }
    return rc;
}

/* Fetch all rows, bypassing the slots. */
static int fetch_all(struct cache *c, int buffer, struct ctr_err *err)
{
    struct ctr_source_batch *b = &c->base.batch[buffer];
    const size_t row = (size_t)c->base.floats * sizeof(float), sent = (size_t)b->here * row;
    b->host.len = 0;
    int rc = ctr_buf_reserve(&b->host, (size_t)b->n * row, err);
    if (!rc)
        rc = move_below(c, AS(struct held, c->part[buffer].key) + b->here, b->n - b->here, false, b->make,
                        (float *)(void *)(b->host.data + sent), err);
    return rc || b->n == b->here ? rc : ctr_mem_write(b->u, sent, b->host.data + sent, (size_t)b->n * row - sent, err);
}

static int make_lists(struct cache *c, int64_t n, struct ctr_err *err)
{
    const struct {
        struct ctr_mem **mem;
        size_t size;
    } lists[] = { { &c->missed, 4 }, { &c->missed_slot, 4 }, { &c->evicted_slot, 4 } };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(lists) && !rc; i++)
        rc = ctr_mem_grow(lists[i].mem, c->base.dev, (size_t)n * lists[i].size, err);
    return rc;
}

/* Evict n slots. */
static int evict(struct cache *c, const int32_t *slot, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    if (!n)
        return 0;
    ctr_buf_clear(&c->put);
    struct held *h = ctr_buf_extend(&c->put, n, sizeof *h, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++)
        h[i] = c->held[slot[i]];
    return rc ? rc : save_rows(c, rows_of(c), ctr_vec(c->evicted_slot, n), h, n, err);
}

/* Load n missed rows, which have keys come[i] (in c->put), into their slots and, where some have none (`all`), all of
 * them into u. */
static int bring(struct cache *c, struct ctr_mat u, const struct held *come, const int32_t *slot, int64_t n, bool all,
                 struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; i < n; i++)
        if (slot[i] >= 0)
            c->held[slot[i]] = come[i];
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, c->stage_rows);
        rc = move_below(c, come + at, k, false, true, c->stage_host, err);
        const struct ctr_mat stage = ctr_mat(c->stage, k, c->base.floats);
        const struct ctr_dev_move_rows to_u = { .n = k, .from = stage, .to = u, .to_index = { c->missed, at, k } };
        const struct ctr_dev_move_rows to_set = {
            .n = k, .from = stage, .to = rows_of(c), .to_index = { c->missed_slot, at, k }
        };
        if (!rc)
            rc = ctr_mem_write(c->stage, 0, c->stage_host, (size_t)(k * c->base.floats) * sizeof(float), err);
        if (!rc && all)
            rc = ctr_dev_move_rows(c->base.dev, &to_u, err);
        if (!rc)
            rc = ctr_dev_move_rows(c->base.dev, &to_set, err);
    }
    return rc;
}

/* What ctr_dev_slots says of n keys, on the host: as much of the lists as is expected comes with the counts, so that
 * the device is waited for once. */
struct found {
    int64_t misses, evictions, failures;
    int32_t *missed, *missed_slot, *evicted_slot; /* [n] */
    uint64_t *missed_want;                        /* [n], or NULL */
};

static int read_found(struct cache *c, struct found *f, int64_t n, struct ctr_err *err)
{
    const struct list {
        struct ctr_mem *mem;
        void *to; /* NULL: it is not wanted */
        size_t size;
    } lists[] = { { c->missed_want, f->missed_want, 8 },
                  { c->evicted_slot, f->evicted_slot, 4 },
                  { c->missed_slot, f->missed_slot, 4 },
                  { c->missed, f->missed, 4 } };
    int64_t from = 0, end = CTR_MIN(c->expected, n);
    int rc = 0;
    for (; !rc && from < end; from = end, end = f->misses) /* the rest, of which evictions are a part */
        for (size_t i = 0; i < CTR_COUNT(lists) && !rc; i++) {
            const size_t at = (size_t)from * lists[i].size, bytes = (size_t)(end - from) * lists[i].size;
            if (lists[i].to)
                rc = (i + 1 < CTR_COUNT(lists) ? ctr_mem_read_later
                                               : ctr_mem_read)(lists[i].mem, at, (char *)lists[i].to + at, bytes, err);
        }
    c->expected = f->misses + f->misses / 2 + LEAST_EXPECTED;
    return rc;
}

/* The lists of n keys, on the host and on the device. *slots: of that operation, without its keys. */
static int start_lists(struct cache *c, int64_t n, struct found *f, struct ctr_dev_slots *slots, struct ctr_err *err)
{
    int rc = make_lists(c, n, err);
    ctr_buf_clear(&c->scratch);
    f->missed = ctr_buf_extend(&c->scratch, 3 * n, sizeof *f->missed, &rc, err);
    f->missed_slot = f->missed + n;
    f->evicted_slot = f->missed_slot + n;
    *slots = (struct ctr_dev_slots){ .key = ctr_vec(c->key, c->slots),
                                     .stamp = ctr_vec(c->stamp, c->slots),
                                     .missed = ctr_vec(c->missed, n),
                                     .missed_slot = ctr_vec(c->missed_slot, n),
                                     .evicted_slot = ctr_vec(c->evicted_slot, n),
                                     .now = c->now,
                                     .misses = &f->misses,
                                     .evictions = &f->evictions,
                                     .failures = &f->failures };
    return rc;
}

/* Run it, read what it says, and write below the rows of keys that go. */
static int find_slots(struct cache *c, int64_t n, struct found *f, const struct ctr_dev_slots *slots,
                      struct ctr_err *err)
{
    int rc = ctr_dev_slots(c->base.dev, slots, err);
    if (!rc)
        rc = read_found(c, f, n, err);
    c->newer = true;
    c->evictions += f->evictions;
    return rc ? rc : evict(c, f->evicted_slot, f->evictions, err);
}

/* Room for the keys of n missed rows. */
static struct held *room_for_missed(struct cache *c, int64_t n, int *rc, struct ctr_err *err)
{
    ctr_buf_clear(&c->put);
    return ctr_buf_extend(&c->put, n, sizeof(struct held), rc, err);
}

/* Fetch the rows from `here` on through the slots. */
static int values_in_set(struct cache *c, int buffer, struct ctr_err *err)
{
    struct ctr_source_batch *b = &c->base.batch[buffer];
    const int64_t before = b->here, n = b->n - before;
    struct found f = { 0 };
    struct ctr_dev_slots slots = { 0 };
    int rc = 0;
    if (!n)
        return 0;
    const struct held *h = AS(struct held, c->part[buffer].key) + before;
    ctr_buf_clear(&c->put);
    uint64_t *number = ctr_buf_extend(&c->put, n, sizeof *number, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++)
        number[i] = ctr_source_number(h[i].table, h[i].hash);
    if (!rc)
        rc = start_lists(c, n, &f, &slots, err);
    if (!rc)
        rc = ctr_mem_keep(&c->part[buffer].slot, c->base.dev, (size_t)before * 4, (size_t)b->n * 4, err);
    if (!rc)
        rc = ctr_mem_grow(&c->want, c->base.dev, (size_t)n * sizeof *number, err);
    if (!rc)
        rc = ctr_mem_write(c->want, 0, number, (size_t)n * sizeof *number, err);
    slots.want = ctr_vec(c->want, n);
    slots.slot = ctr_vec_at(c->part[buffer].slot, before, n);
    if (!rc)
        rc = find_slots(c, n, &f, &slots, err);
    const struct ctr_mat u = ctr_mat_at(b->u, before * c->base.floats, n, c->base.floats);
    const struct ctr_dev_move_rows slotted = { .n = n,
                                               .from = ctr_mat_cols(rows_of(c), 0, c->base.width),
                                               .to = ctr_mat_cols(u, 0, c->base.width),
                                               .from_index = slots.slot };
    int32_t *on_host = ctr_buf_extend(&c->part[buffer].slotted, n, sizeof *on_host, &rc, err);
    struct held *come = room_for_missed(c, f.misses, &rc, err);
    if (rc)
        return rc;
    memset(on_host, 0, (size_t)n * sizeof *on_host);
    for (int64_t i = 0; i < f.misses; i++) {
        come[i] = h[f.missed[i]];
        on_host[f.missed[i]] = f.missed_slot[i];
    }
    c->part[buffer].unslotted += f.failures;
    c->hits += b->make ? n - f.misses : 0; /* of what is learned from */
    c->misses += b->make ? f.misses : 0;
    rc = bring(c, u, come, f.missed_slot, f.misses, f.failures, err);
    return rc || f.failures == n ? rc : ctr_dev_move_rows(c->base.dev, &slotted, err);
}

static int cache_values(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct cache *c = (struct cache *)s;
    struct ctr_source_batch *b = &s->batch[buffer];
    const size_t row = (size_t)s->floats * sizeof(float);
    int rc = b->here ? 0 : fit(c, buffer, err);
    if (!rc)
        rc = list_keys(c, buffer, err);
    if (!rc)
        rc = ctr_mem_keep(&b->u, s->dev, (size_t)b->here * row, (size_t)b->n * row, err);
    if (!rc)
        rc = c->part[buffer].in_set ? values_in_set(c, buffer, err) : fetch_all(c, buffer, err);
    *values = (struct ctr_mat){ b->u, 0, b->n, s->width, s->floats };
    c->distinct = b->n;
    return rc;
}

/* ---- keys that the device numbers ---- */

/* What makes the hash of each field a number: ctr_source_number. */
static int send_salt(struct cache *c, const struct ctr_source_entries *e, struct ctr_err *err)
{
    int rc = 0;
    if (c->salt || !e->parts)
        return 0;
    ctr_buf_clear(&c->scratch);
    for (const struct ctr_source_part *p = e->part; p < e->part + e->parts; p++) {
        uint64_t *salt = ctr_buf_extend(&c->scratch, p->fields, sizeof *salt, &rc, err);
        for (int f = 0; f < p->fields && !rc; f++)
            salt[f] = (uint64_t)p->table[f] * CTR_SOURCE_SALT;
    }
    if (!rc)
        rc = ctr_mem_new(&c->salt, c->base.dev, c->scratch.len, err);
    return rc ? rc : ctr_mem_write(c->salt, 0, c->scratch.data, c->scratch.len, err);
}

/* Where each part ends, and its salts among all of them. */
static int send_parts(struct cache *c, const struct ctr_source_entries *e, struct ctr_dev_slots *slots,
                      struct ctr_err *err)
{
    int32_t salts = 0;
    int rc = 0;
    ctr_buf_clear(&c->parts);
    int32_t *to = ctr_buf_extend(&c->parts, 3 * e->parts, sizeof *to, &rc, err);
    for (const struct ctr_source_part *p = e->part; p < e->part + e->parts && !rc; p++) {
        *to++ = (int32_t)p->end;
        *to++ = salts;
        *to++ = p->fields;
        salts += p->fields;
    }
    if (!e->parts || rc)
        return rc;
    slots->salt = ctr_vec(c->salt, salts);
    if (e->parts == 1)
        return 0;
    rc = ctr_mem_grow(&c->part_mem, c->base.dev, c->parts.len, err);
    if (!rc)
        rc = ctr_mem_write(c->part_mem, 0, c->parts.data, c->parts.len, err);
    slots->part = ctr_vec(c->part_mem, 3 * e->parts);
    return rc;
}

/* While the slots have room for all keys, else some of a minibatch get none now and then; and while half of the memory
 * that is left has room for lists of entries: slots may take the other half first. */
static bool cache_takes_entries(struct ctr_source *s, int64_t n)
{
    struct cache *c = (struct cache *)s;
    const int64_t keys = ctr_source_rows(s->below, -1) + c->distinct;
    if (!c->begun || c->bounded || c->crowded || !(has_room(c, keys) || affordable(c) > keys * SLOTS_A_KEY))
        return false;
    if (n && c->now < c->again)
        return false;
    c->crowded = n > c->entries && ctr_dev_memory_free(s->dev) / 2 < n * BYTES_AN_ENTRY;
    return !c->crowded;
}

static int entries_fit(struct cache *c, int buffer, int64_t n, struct ctr_err *err)
{
    struct ctr_source_batch *b = &c->base.batch[buffer];
    b->n = CTR_MIN(n, c->distinct); /* about so many */
    b->make = true;
    const int rc = fit(c, buffer, err);
    return rc ? rc : c->part[buffer].in_set && !c->bounded;
}

static int table_of(const struct ctr_source_entries *e, int64_t i)
{
    const struct ctr_source_part *p = e->part;
    int64_t first = 0;
    for (; e->parts && i >= p->end; p++)
        first = p->end;
    return e->parts ? p->table[(i - first) % p->fields] : e->tables[i];
}

/* The key that is missed number j. */
static struct held key_of(const struct ctr_source_entries *e, const struct found *f, int64_t j)
{
    const int32_t i = f->missed[j];
    return (struct held){ e->hash ? e->hash[i] : f->missed_want[j], table_of(e, i) };
}

/* The hashes of missed keys, which come with the lists of these. */
static int want_hashes(struct cache *c, int64_t n, struct found *f, struct ctr_dev_slots *slots, struct ctr_err *err)
{
    int rc = ctr_mem_grow(&c->missed_want, c->base.dev, (size_t)n * sizeof(uint64_t), err);
    ctr_buf_clear(&c->hashes);
    f->missed_want = ctr_buf_extend(&c->hashes, n, sizeof *f->missed_want, &rc, err);
    slots->missed_want = ctr_vec(c->missed_want, n);
    return rc;
}

static int cache_entries(struct ctr_source *s, int buffer, struct ctr_source_entries *e, struct ctr_mat *values,
                         struct ctr_err *err)
{
    struct cache *c = (struct cache *)s;
    const int64_t n = e->on_device.n;
    struct found f = { 0 };
    struct ctr_dev_slots slots = { 0 };
    int rc = entries_fit(c, buffer, n, err);
    if (rc <= 0)
        return rc;
    rc = send_salt(c, e, err);
    if (!rc)
        rc = start_lists(c, n, &f, &slots, err);
    if (!rc)
        rc = send_parts(c, e, &slots, err);
    if (!rc && !e->hash)
        rc = want_hashes(c, n, &f, &slots, err);
    if (!rc)
        rc = ctr_mem_grow(&c->part[buffer].slot, s->dev, (size_t)n * 4, err);
    slots.want = e->on_device;
    slots.slot = e->index;
    slots.group_start = e->group_start;
    slots.group_item = e->group_item;
    slots.group_slot = ctr_vec(c->part[buffer].slot, n);
    slots.groups = &e->distinct;
    if (!rc)
        rc = find_slots(c, n, &f, &slots, err);
    struct held *come = room_for_missed(c, f.misses, &rc, err);
    for (int64_t i = 0; i < f.misses && !rc; i++)
        come[i] = key_of(e, &f, i);
    if (!rc)
        rc = bring(c, (struct ctr_mat){ 0 }, come, f.missed_slot, f.misses, false, err);
    c->entries = CTR_MAX(c->entries, n);
    if (rc)
        return rc;
    c->pause = f.failures ? CTR_MIN(2 * c->pause + 1, MOST_PAUSE) : 0;
    c->again = c->now + c->pause;
    if (f.failures)
        return 0;
    c->distinct = e->distinct;
    c->hits += e->distinct - f.misses;
    c->misses += f.misses;
    *values = (struct ctr_mat){ c->rows, 0, c->slots, s->width, s->floats };
    return 1;
}

/* ---- push ---- */

/* The step for rows without a slot: their positions in u, and their keys. */
static int step_unslotted(struct cache *c, int buffer, const struct ctr_dev_opt_rows *step, struct ctr_err *err)
{
    const int64_t n = c->base.batch[buffer].n;
    const struct held *h = AS(struct held, c->part[buffer].key);
    const int32_t *slot = AS(int32_t, c->part[buffer].slotted);
    int rc = 0;
    ctr_buf_clear(&c->scratch);
    ctr_buf_clear(&c->put);
    int32_t *place = ctr_buf_extend(&c->scratch, n, sizeof *place, &rc, err);
    struct held *go = ctr_buf_extend(&c->put, n, sizeof *go, &rc, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++)
        place[i] = slot[i] < 0 ? (int32_t)i : -1;
    rc = ctr_mem_grow(&c->index, c->base.dev, (size_t)n * sizeof *place, err);
    if (!rc)
        rc = ctr_mem_write(c->index, 0, place, (size_t)n * sizeof *place, err);
    struct ctr_dev_opt_rows there = *step;
    there.index = ctr_vec(c->index, n);
    if (!rc)
        rc = ctr_dev_opt_rows(c->base.dev, &there, err);
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++)
        if (place[i] >= 0) {
            go[k] = h[i];
            place[k++] = (int32_t)i;
        }
    if (!rc)
        rc = ctr_mem_write(c->index, 0, place, (size_t)k * sizeof *place, err);
    return rc ? rc : save_rows(c, step->rows, ctr_vec(c->index, k), go, k, err);
}

static int cache_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    struct cache *c = (struct cache *)s;
    struct ctr_source_batch *b = &s->batch[buffer];
    const struct ctr_dev_opt_rows in_u = { .opt = step->opt,
                                           .rows = ctr_mat(b->u, b->n, s->floats),
                                           .g = step->grad,
                                           .l2_row = step->l2_row,
                                           .squares = step->squares };
    struct ctr_dev_opt_rows in_place = in_u;
    if (!c->part[buffer].in_set) {
        int rc = ctr_dev_opt_rows(s->dev, &in_u, err);
        if (!rc)
            rc = ctr_mem_read(b->u, 0, b->host.data, (size_t)(b->n * s->floats) * sizeof(float), err);
        return rc ? rc : move_below(c, AS(struct held, c->part[buffer].key), b->n, true, true, AS(float, b->host), err);
    }
    c->newer = true; /* a checkpoint may have settled the cache since the values */
    in_place.rows = rows_of(c);
    in_place.index = ctr_vec(c->part[buffer].slot, b->n);
    int rc = ctr_dev_opt_rows(s->dev, &in_place, err);
    return rc || !c->part[buffer].unslotted ? rc : step_unslotted(c, buffer, &in_u, err);
}

/* ---- what goes below ---- */

static int cache_count(struct ctr_source *s, int buffer, const struct ctr_source_keys *keys, const int32_t *uses,
                       uint32_t *total, struct ctr_err *err)
{
    struct ctr_source *below = s->below;
    const struct ctr_source_keys plain = { .table = keys->table, .hash = keys->hash, .n = keys->n };
    return below->ops->count(below, buffer, &plain, uses, total, err);
}

static void cache_summary(const struct ctr_source *s, struct ctr_say *text)
{
    const struct cache *c = (const struct cache *)s;
    if (c->slots)
        ctr_say(text,
                "device rows          %" PRId64 " (%s)\n"
                "device hits          %" PRId64 "\n"
                "device misses        %" PRId64 "\n"
                "device evictions     %" PRId64 "\n",
                c->slots, ctr_size_text((uint64_t)c->slots * (uint64_t)s->floats * sizeof(float)).s, c->hits, c->misses,
                c->evictions);
    ctr_source_summary(c->base.below, text);
}

static const struct ctr_source_ops cache_ops = { .name = "cache",
                                                 .values = cache_values,
                                                 .takes_entries = cache_takes_entries,
                                                 .entries = cache_entries,
                                                 .push = cache_push,
                                                 .count = cache_count,
                                                 .settle = cache_settle,
                                                 .summary = cache_summary,
                                                 .free = cache_free };

int ctr_source_cache(struct ctr_source **out, struct ctr_dev *dev, struct ctr_source *below, struct ctr_err *err)
{
    struct cache *c = calloc(1, sizeof *c);
    if (!c) {
        ctr_source_free(below);
        return ctr_fail_nomem(err, sizeof *c);
    }
    c->expected = LEAST_EXPECTED;
    c->base = (struct ctr_source){
        .ops = &cache_ops, .dev = dev, .below = below, .width = below->width, .floats = below->floats
    };
    *out = &c->base;
    return 0;
}
