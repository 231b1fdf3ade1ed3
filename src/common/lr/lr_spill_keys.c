/* SPDX-License-Identifier: Apache-2.0
 *
 * lr with rows on disk: which keys are in memory. Before a block of rows is learned from:
 *
 *     make room: where --memory may not suffice for its keys, evict at least a third of the keys to the store
 *     find the numbers of its keys; a key that has none gets one, and its state from the store, or zeros
 *
 * The keys that were used least are evicted (LFU). A use adds to a count of the key, and each eviction lowers all
 * counts, so that old uses count less. Keys of the minibatch in progress stay: it refers to them by number.
 *
 * A byte per number has the count of its key, or tells that it has none. A table takes free numbers, whichever table
 * had them before, so that there are as many states as there were keys in memory at once. Indexes that are larger than
 * their keys need are built anew when room is missing. */
#include <inttypes.h>
#include <time.h>

#include "common/lr/lr_spill.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { SOME = 256, EVICTED_PART = 3 }; /* SOME: rows read or written at once */
/* Of a number's byte; 0: it has no key. NEWER: than in the store. PINNED, while keys are evicted: above any count. */
enum { NEWER = 128, PINNED = 64, COUNT = 63, FIRST_USE = 3, A_USE = 8 };

int ctr_lr_spill_keys_init(struct ctr_lr_spill *l, struct ctr_err *err)
{
    int rc = ctr_buf_room(&l->row, (int64_t)SOME * l->floats, sizeof(float), err);
    if (!rc)
        memset(l->row.data, 0, (size_t)SOME * (size_t)l->floats * sizeof(float)); /* a state may end within a float */
    l->first = l->free = l->own->states.given;
    return rc;
}

void ctr_lr_spill_keys_free(struct ctr_lr_spill *l)
{
    struct ctr_buf *bufs[] = { &l->use, &l->number, &l->pinned, &l->key, &l->of, &l->row };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
}

/* ---- states from the store, and to it ---- */

static uint64_t keys_here(const struct ctr_lr_spill *l)
{
    uint64_t n = 0;
    for (int t = 0; t < l->tables; t++)
        n += l->own->table[t].index.used;
    return n;
}

/* Free numbers that wait in a table. */
static uint64_t waiting(const struct ctr_keys *t)
{
    return t->dropped.len / sizeof(uint32_t);
}

static uint8_t *state_of(const struct ctr_lr_spill *l, uint64_t number)
{
    return ctr_states_row(&l->own->states, number) + CTR_STATE_AT;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int name_key(struct ctr_lr_spill *l, int table, uint64_t hash, uint32_t number, struct ctr_err *err)
{
    const struct ctr_rowkey key = { .table = (uint32_t)table, .key = ctr_sparse_key(hash) };
    int rc = ctr_buf_append(&l->key, &key, sizeof key, err);
    return rc ? rc : ctr_buf_append(&l->of, &number, sizeof number, err);
}

/* The states of the named keys, which have zeros. */
static int get_states(struct ctr_lr_spill *l, struct ctr_err *err)
{
    const int64_t n = (int64_t)(l->key.len / sizeof(struct ctr_rowkey));
    struct ctr_rowkey *key = AS(struct ctr_rowkey, l->key);
    const uint32_t *number = AS(uint32_t, l->of);
    float *to[SOME];
    int rc = 0;
    const double start = now();
    for (int64_t i = 0; i < SOME; i++)
        to[i] = AS(float, l->row) + i * l->floats;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, SOME);
        rc = ctr_rowstore_get(l->store, key + at, k, to, err);
        for (int64_t i = 0; i < k && !rc; i++)
            if (key[at + i].place)
                memcpy(state_of(l, number[at + i]), to[i], l->own->states.bytes);
            else
                l->keys[key[at + i].table]++;
    }
    l->told.waited += now() - start;
    l->told.read += n;
    ctr_buf_clear(&l->key);
    ctr_buf_clear(&l->of);
    return rc;
}

/* Write the states of the named keys. */
static int put_states(struct ctr_lr_spill *l, struct ctr_err *err)
{
    const int64_t n = (int64_t)(l->key.len / sizeof(struct ctr_rowkey));
    const uint32_t *number = AS(uint32_t, l->of);
    float *row = AS(float, l->row);
    int rc = 0;
    const double start = now();
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, SOME);
        for (int64_t i = 0; i < k; i++)
            memcpy(row + i * l->floats, state_of(l, number[at + i]), l->own->states.bytes);
        rc = ctr_rowstore_put(l->store, AS(struct ctr_rowkey, l->key) + at, k, row, err);
    }
    l->told.waited += now() - start;
    l->told.written += n;
    ctr_buf_clear(&l->key);
    ctr_buf_clear(&l->of);
    return rc;
}

/* Write the states that are newer than in the store, of the keys whose count is at most `most`. */
static int put_newer(struct ctr_lr_spill *l, unsigned most, struct ctr_err *err)
{
    uint8_t *use = l->use.data;
    int rc = 0;
    for (int t = 0; t < l->tables; t++) {
        uint64_t at = 0, hash;
        for (const uint32_t *own; !rc && (own = ctr_keyindex_next(&l->own->table[t].index, &at, &hash));) {
            const uint32_t number = *own;
            if (!(use[number] & NEWER) || (use[number] & ~NEWER) > most)
                continue;
            use[number] &= (uint8_t)~NEWER;
            rc = name_key(l, t, hash, number, err);
            if (!rc && l->of.len == SOME * sizeof number)
                rc = put_states(l, err);
        }
    }
    return rc ? rc : put_states(l, err);
}

int ctr_lr_spill_settle(struct ctr_lr_spill *l, struct ctr_err *err)
{
    int rc = put_newer(l, PINNED | COUNT, err);
    for (size_t i = 0; i < l->pinned.len / sizeof(uint32_t); i++) /* they have yet to be learned from */
        l->use.data[AS(uint32_t, l->pinned)[i]] |= NEWER;
    return rc;
}

/* ---- eviction ---- */

/* A byte after an eviction of the keys whose count was at most `most`, which are in the store. */
static uint8_t use_after(uint8_t use, unsigned most)
{
    const unsigned count = use & COUNT;
    return (use & ~NEWER) <= most ? 0 : (uint8_t)((use & NEWER) | CTR_MAX(count - count / 16 - 1, 1));
}

static bool is_here(const void *ctx, uint32_t number)
{
    return ((const struct ctr_lr_spill *)ctx)->use.data[number];
}

/* Evict the least used keys: at least `n`, where those of the minibatch in progress allow. */
static int evict(struct ctr_lr_spill *l, uint64_t n, struct ctr_err *err)
{
    uint8_t *use = l->use.data;
    uint64_t with[PINNED + COUNT + 1] = { 0 }, evicted = 0;
    unsigned most = 0;
    for (size_t i = 0; i < l->pinned.len / sizeof(uint32_t); i++)
        use[AS(uint32_t, l->pinned)[i]] |= PINNED;
    for (size_t i = 0; i < l->use.len; i++)
        with[use[i] & ~NEWER]++;
    while (evicted < n && most < COUNT)
        evicted += with[++most];
    int rc = put_newer(l, most, err);
    for (size_t i = 0; i < l->use.len; i++)
        use[i] = use_after(use[i], most);
    for (int t = 0; t < l->tables && !rc; t++) {
        rc = ctr_keyindex_filter(&l->own->table[t].index, is_here, l, err);
        ctr_buf_clear(&l->own->table[t].dropped); /* their numbers are free again */
    }
    l->free = l->first;
    l->told.evictions += (int64_t)evicted;
    return rc;
}

static int shrink(struct ctr_lr_spill *l, struct ctr_err *err)
{
    int rc = 0;
    for (int t = 0; t < l->tables && !rc; t++)
        rc = ctr_keyindex_shrink(&l->own->table[t].index, err);
    return rc;
}

/* ---- room ---- */

/* Numbers that a block needs beyond the free ones; `extra`: keys of the block, by table. */
static uint64_t numbers_after(const struct ctr_lr_spill *l, const uint64_t *extra)
{
    uint64_t n = l->first + keys_here(l);
    for (int t = 0; t < l->tables; t++)
        n += CTR_MAX(extra ? extra[t] : 0, waiting(&l->own->table[t]));
    return CTR_MAX(n, l->own->states.given);
}

/* Bytes of all tables with so many more keys. */
static uint64_t bytes_after(const struct ctr_lr_spill *l, const uint64_t *extra)
{
    const struct lr *m = l->own;
    uint64_t n = numbers_after(l, extra), bytes = n * m->states.bytes + CTR_MAX(l->use.cap, n + n / 2);
    for (int t = 0; t < l->tables; t++)
        bytes += ctr_keyindex_bytes_after(&m->table[t].index, extra ? extra[t] : 0) + m->table[t].dropped.cap;
    return bytes;
}

uint64_t ctr_lr_spill_bytes(const struct ctr_lr_spill *l)
{
    return bytes_after(l, NULL);
}

static int no_room(const struct ctr_lr_spill *l, struct ctr_err *err)
{
    const uint64_t have = (uint64_t)l->own->params.memory_bytes;
    return ctr_fail(err, CTR_ENOMEM,
                    "the rows of a minibatch need %s after %" PRId64
                    " of its rows, --memory allows %s: raise it, or lower --minibatch",
                    ctr_size_text_beyond(bytes_after(l, l->own->extra), have).s, l->own->deferred.n,
                    ctr_size_text(have).s);
}

/* Do the keys of rows [from, end) fit? As if each of their entries were a new one. */
static bool fits(const struct ctr_lr_spill *l, const struct ctr_rows *r, int64_t from, int64_t end)
{
    uint64_t *extra = l->own->extra;
    memset(extra, 0, (size_t)l->own->tables * sizeof *extra);
    for (int64_t e = r->start[from]; e < r->start[end]; e++)
        extra[r->table[e]]++;
    return bytes_after(l, extra) <= (uint64_t)l->own->params.memory_bytes;
}

/* Room for the keys of rows [from, *end), or of fewer. */
static int make_room(struct ctr_lr_spill *l, const struct ctr_rows *r, int64_t from, int64_t *end, struct ctr_err *err)
{
    int rc = 0;
    for (int tried = 0; !rc && !fits(l, r, from, *end); tried++)
        switch (tried) {
        case 0: rc = evict(l, keys_here(l) / EVICTED_PART, err); break;
        case 2: rc = evict(l, keys_here(l), err); break;
        case 1:
        case 3: rc = shrink(l, err); break;
        default:
            if (*end == from + 1)
                return no_room(l, err);
            *end = from + (*end - from) / 2;
        }
    return rc;
}

/* Give free numbers to the tables: as many as the block may need. */
static int give_numbers(struct ctr_lr_spill *l, struct ctr_err *err)
{
    struct lr *m = l->own;
    const uint64_t before = m->states.given, given = numbers_after(l, m->extra);
    int rc = ctr_buf_reserve(&l->use, given - l->use.len, err);
    if (!rc)
        rc = ctr_states_make(&m->states, given - 1, err);
    if (rc)
        return rc;
    memset(l->use.data + l->use.len, 0, given - l->use.len);
    l->use.len = m->states.given = given;
    for (int t = 0; t < l->tables && !rc; t++) {
        m->table[t].known = (uint32_t)given - 1;
        for (uint64_t n = waiting(&m->table[t]); n < m->extra[t] && !rc; n++) {
            const uint8_t *found = memchr(l->use.data + l->free, 0, given - l->free);
            const uint32_t number = (uint32_t)(found - l->use.data);
            l->free = number + 1;
            if (number < before)
                memset(state_of(l, number), 0, m->states.bytes);
            rc = ctr_buf_append(&m->table[t].dropped, &number, sizeof number, err);
        }
    }
    return rc;
}

/* ---- a block ---- */

/* Count the uses of a block's keys, and name those that are new here. */
static int use_keys(struct ctr_lr_spill *l, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    const uint32_t *number = AS(uint32_t, l->number);
    uint8_t *use = l->use.data;
    int rc = 0;
    for (int64_t e = r->start[from]; e < r->start[end] && !rc; e++) {
        const uint8_t before = use[number[e]];
        use[number[e]] = (uint8_t)(NEWER | CTR_MIN((before & COUNT) + (before ? A_USE : FIRST_USE), COUNT));
        l->told.hits += before > 0;
        l->told.misses += !before;
        if (!before)
            rc = name_key(l, r->table[e], r->hash[e], number[e], err);
    }
    return rc;
}

int ctr_lr_spill_bring(struct ctr_lr_spill *l, const struct ctr_rows *r, int64_t from, int64_t *end,
                       struct ctr_err *err)
{
    struct lr *m = l->own;
    const int64_t first = r->start[from];
    int rc = make_room(l, r, from, end, err);
    if (!rc)
        rc = give_numbers(l, err);
    if (!rc)
        rc = ctr_buf_room(&l->number, r->start[*end], sizeof(uint32_t), err);
    uint32_t *number = AS(uint32_t, l->number);
    if (!rc)
        rc = ctr_lr_find_block(m, r, from, *end, 0, number, err);
    for (int t = 0; t < l->tables && !rc; t++)
        m->table[t].learned = m->table[t].index.used;
    if (!rc)
        rc = use_keys(l, r, from, *end, err);
    if (!rc)
        rc = ctr_buf_append(&l->pinned, number + first, (size_t)(r->start[*end] - first) * sizeof *number, err);
    l->told.rows = CTR_MAX(l->told.rows, (int64_t)keys_here(l));
    return rc ? rc : get_states(l, err);
}

/* ---- all rows to the store ---- */

struct moving {
    struct ctr_lr_spill *l;
    int table;
};

static int move_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct moving *to = ctx;
    struct ctr_lr_spill *l = to->l;
    const uint64_t before = l->keys[to->table];
    int rc = 0;
    for (int twice = 0; twice < 2 && !rc; twice++) { /* look them up, then write them */
        for (uint64_t i = 0; i < n && !rc; i++)
            rc = name_key(l, to->table, ctr_sparse_hash(e[i].key), (uint32_t)e[i].number, err);
        if (!rc)
            rc = twice ? put_states(l, err) : get_states(l, err);
    }
    return rc || l->keys[to->table] == before + n ? rc : ctr_fail(err, CTR_EDATA, "a key comes twice");
}

/* Empty the tables, whose rows are in the store. */
static void forget(struct ctr_lr_spill *l)
{
    struct lr *m = l->own;
    const uint32_t bytes = m->states.bytes;
    for (int t = 0; t < m->tables; t++)
        ctr_keys_free(&m->table[t]);
    ctr_states_free(&m->states);
    ctr_states_init(&m->states, bytes);
    ctr_buf_clear(&l->use);
    l->free = l->first;
}

int ctr_lr_spill_move(struct ctr_lr_spill *l, struct ctr_err *err)
{
    struct moving to = { l, 0 };
    int rc = 0;
    for (; to.table < l->own->tables && !rc; to.table++)
        rc = ctr_keys_sorted(&l->own->table[to.table], move_range, &to, err);
    if (!rc)
        forget(l);
    return rc;
}
