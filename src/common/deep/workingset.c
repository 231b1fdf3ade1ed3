/* SPDX-License-Identifier: Apache-2.0
 *
 * See workingset.h. All traffic between tables and device goes through `stage`, STAGE_ROWS rows at a time. */
#include "common/deep/workingset.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WAYS = 8, STAGE_ROWS = 16384 };

struct ctr_workset {
    int64_t slots;         /* 0: there is none */
    bool bounded;          /* it has what it may have */
    bool newer;            /* than the tables */
    uint32_t now;          /* minibatches */
    struct ctr_mem *rows;  /* [slots x u_cols] */
    struct ctr_mem *key;   /* u64 [slots]: table << 32 | row */
    struct ctr_mem *stamp; /* u32 [slots] */
    struct ctr_mem *stage; /* [stage_rows x u_cols] */
    float *stage_host;     /* the same on the host */
    int64_t stage_rows;
    struct ctr_mem *want, *slot, *missed, *evicted_key, *evicted_slot, *index;
    struct ctr_buf slot_host; /* i32: the slot of each row of the minibatch, -1: none */
    struct ctr_buf id;        /* u64: its number */
    struct ctr_buf scratch;   /* i32 or u64 */
    int64_t unslotted;        /* rows of the minibatch without a slot */
    int64_t hits, misses, evictions;
};

#define AS(type, buf) ((type *)(void *)(buf).data)

static struct ctr_mat rows_of(const struct ctr_deep *d, const struct ctr_workset *w)
{
    return ctr_mat(w->rows, w->slots, d->u_cols);
}

static void free_rows(struct ctr_deep *d, struct ctr_workset *w)
{
    struct ctr_mem **mems[] = { &w->rows, &w->key, &w->stamp, &w->stage };
    for (size_t i = 0; i < CTR_COUNT(mems); i++) {
        ctr_mem_free(*mems[i]);
        *mems[i] = NULL;
    }
    ctr_host_free(w->stage_host, d->dev);
    w->stage_host = NULL;
    w->slots = 0;
    w->newer = false;
}

void ctr_workset_free(struct ctr_deep *d)
{
    struct ctr_workset *w = d->workset;
    if (!w)
        return;
    struct ctr_mem *mems[] = { w->want, w->slot, w->missed, w->evicted_key, w->evicted_slot, w->index };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    free_rows(d, w);
    ctr_buf_free(&w->slot_host);
    ctr_buf_free(&w->id);
    ctr_buf_free(&w->scratch);
    free(w);
    d->workset = NULL;
}

/* ---- size ---- */

/* Slots that may be had, WAYS at a time: half of what would be free without the set. */
static int64_t affordable(const struct ctr_deep *d, const struct ctr_workset *w)
{
    const char *most = getenv("CTR_WORKING_SET");
    const int64_t row = d->u_cols * (int64_t)sizeof(float), slot = row + 8 + 4;
    const int64_t held = w->slots ? w->slots * slot + w->stage_rows * row : 0;
    const int64_t bytes = (ctr_dev_memory_free(d->dev) / 2 + held / 2);
    int64_t slots = CTR_MIN(bytes / (slot + row), STAGE_ROWS); /* the stage is no larger than the set */
    if (slots == STAGE_ROWS)
        slots = (bytes - STAGE_ROWS * row) / slot;
    if (most && *most)
        slots = CTR_MIN(slots, strtoll(most, NULL, 10));
    return CTR_MIN(slots, INT32_MAX) / WAYS * WAYS;
}

static int make_rows(struct ctr_deep *d, struct ctr_workset *w, int64_t slots, struct ctr_err *err)
{
    const size_t row = (size_t)d->u_cols * sizeof(float);
    void *host = NULL;
    w->stage_rows = CTR_MIN(slots, STAGE_ROWS);
    int rc = ctr_mem_new(&w->rows, d->dev, (size_t)slots * row, err);
    if (!rc)
        rc = ctr_mem_new(&w->key, d->dev, (size_t)slots * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_mem_new(&w->stamp, d->dev, (size_t)slots * sizeof(uint32_t), err);
    if (!rc)
        rc = ctr_mem_new(&w->stage, d->dev, (size_t)w->stage_rows * row, err);
    if (!rc)
        rc = ctr_host_new(&host, d->dev, (size_t)w->stage_rows * row, err);
    w->stage_host = host;
    w->slots = slots;
    return rc;
}

int ctr_workset_fit(struct ctr_deep *d, struct ctr_deep_tables *all, bool learned, struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    int64_t keys = 0;
    int rc = 0;
    d->in_set = false;
    if (!learned || ctr_dev_is_host(d->dev))
        return 0;
    if (!w) { /* the first minibatch does without: its buffers show what memory is left */
        d->workset = calloc(1, sizeof *w);
        return d->workset ? 0 : ctr_fail_nomem(err, sizeof *w);
    }
    for (int t = 0; t < all->n; t++)
        keys += all->t[t].rows.used;
    w->now++;
    if (!w->bounded && keys > w->slots / WAYS * 6) { /* sets of WAYS overflow where they are fuller */
        int64_t slots = affordable(d, w);
        w->bounded = slots <= keys * 2;
        slots = CTR_MIN(slots, (keys * 2 + WAYS - 1) / WAYS * WAYS);
        if (slots > w->slots) {
            rc = ctr_workset_save(d, all, err);
            free_rows(d, w);
            rc = rc ? rc : make_rows(d, w, slots, err);
        }
    }
    d->in_set = w->slots > 0;
    return rc;
}

/* ---- between the device and the tables ---- */

static struct ctr_vec part(struct ctr_vec v, int64_t at, int64_t n)
{
    return (struct ctr_vec){ v.mem, v.at + at, n };
}

static void put_rows(struct ctr_deep *d, struct ctr_deep_tables *all, const uint64_t *id, const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ctr_embedding_scatter(&all->t[id[i] >> 32].rows, &(uint32_t){ (uint32_t)id[i] }, 1, d->u_cols,
                              row + i * d->u_cols);
}

/* Rows from[index[i]], i < n, into the tables as rows id[i]. */
static int save_rows(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_mat from, struct ctr_vec index,
                     const uint64_t *id, int64_t n, struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    int rc = 0;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, w->stage_rows);
        const struct ctr_dev_move_rows move = {
            .n = k, .from = from, .to = ctr_mat(w->stage, k, d->u_cols), .from_index = part(index, at, k)
        };
        rc = ctr_dev_move_rows(d->dev, &move, err);
        if (!rc)
            rc = ctr_mem_read(w->stage, 0, w->stage_host, (size_t)(k * d->u_cols) * sizeof(float), err);
        if (!rc)
            put_rows(d, all, id + at, w->stage_host, k);
    }
    return rc;
}

/* Rows id[missed[j]], j < n, to u[missed[j]], and to their slots. missed is at missed_at, their slots at slot_at. */
static int load_rows(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_mat u, const uint64_t *id,
                     const int32_t *missed, struct ctr_vec missed_at, struct ctr_vec slot_at, int64_t n,
                     struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    int rc = 0;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, w->stage_rows);
        for (int64_t i = 0; i < k; i++) {
            const uint64_t row = id[missed[at + i]];
            ctr_embedding_gather(&all->t[row >> 32].rows, &(uint32_t){ (uint32_t)row }, NULL, 1, d->u_cols,
                                 w->stage_host + i * d->u_cols);
        }
        const struct ctr_mat stage = ctr_mat(w->stage, k, d->u_cols);
        const struct ctr_dev_move_rows to_u = { .n = k, .from = stage, .to = u, .to_index = part(missed_at, at, k) };
        const struct ctr_dev_move_rows to_set = {
            .n = k, .from = stage, .to = rows_of(d, w), .to_index = part(slot_at, at, k)
        };
        rc = ctr_mem_write(w->stage, 0, w->stage_host, (size_t)(k * d->u_cols) * sizeof(float), err);
        if (!rc)
            rc = ctr_dev_move_rows(d->dev, &to_u, err);
        if (!rc)
            rc = ctr_dev_move_rows(d->dev, &to_set, err);
    }
    return rc;
}

int ctr_workset_save(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    if (!w || !w->newer)
        return 0;
    const size_t slots = (size_t)w->slots;
    uint64_t *key = malloc(slots * sizeof *key);
    uint32_t *stamp = malloc(slots * sizeof *stamp);
    int rc = key && stamp ? 0 : ctr_fail_nomem(err, slots * sizeof *key);
    if (!rc)
        rc = ctr_mem_read(w->key, 0, key, slots * sizeof *key, err);
    if (!rc)
        rc = ctr_mem_read(w->stamp, 0, stamp, slots * sizeof *stamp, err);
    const size_t row = (size_t)d->u_cols * sizeof(float);
    for (int64_t at = 0, k; at < w->slots && !rc; at += k) {
        k = CTR_MIN(w->slots - at, w->stage_rows);
        rc = ctr_mem_read(w->rows, (size_t)at * row, w->stage_host, (size_t)k * row, err);
        for (int64_t i = 0; i < k && !rc; i++)
            if (stamp[at + i])
                put_rows(d, all, key + at + i, w->stage_host + i * d->u_cols, 1);
    }
    free(key);
    free(stamp);
    w->newer = rc != 0;
    return rc;
}

/* ---- a minibatch ---- */

static int make_lists(struct ctr_deep *d, struct ctr_workset *w, int64_t n, struct ctr_err *err)
{
    const struct {
        struct ctr_mem **mem;
        size_t size;
    } lists[] = { { &w->want, 8 },  { &w->slot, 4 },        { &w->missed, 4 },
                  { &w->index, 4 }, { &w->evicted_key, 8 }, { &w->evicted_slot, 4 } };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(lists) && !rc; i++)
        rc = ctr_mem_grow(lists[i].mem, d->dev, (size_t)n * lists[i].size, err);
    return rc;
}

/* Those that go: the first n of evicted_key, evicted_slot. */
static int evict(struct ctr_deep *d, struct ctr_deep_tables *all, int64_t n, struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    if (!n)
        return 0;
    ctr_buf_clear(&w->scratch);
    int rc = ctr_buf_reserve(&w->scratch, (size_t)n * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_mem_read(w->evicted_key, 0, w->scratch.data, (size_t)n * sizeof(uint64_t), err);
    return rc ? rc : save_rows(d, all, rows_of(d, w), ctr_vec(w->evicted_slot, n), AS(uint64_t, w->scratch), n, err);
}

/* Those that come: the first n of missed. `slot`: of the rows of this pull. */
static int bring(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_mat u, const uint64_t *id,
                 const int32_t *slot, int64_t n, struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    if (!n)
        return 0;
    ctr_buf_clear(&w->scratch);
    int rc = ctr_buf_reserve(&w->scratch, (size_t)n * 2 * sizeof(int32_t), err);
    int32_t *missed = AS(int32_t, w->scratch), *to = missed + n;
    if (!rc)
        rc = ctr_mem_read(w->missed, 0, missed, (size_t)n * sizeof *missed, err);
    for (int64_t i = 0; i < n && !rc; i++)
        w->unslotted += (to[i] = slot[missed[i]]) < 0;
    if (!rc)
        rc = ctr_mem_write(w->index, 0, to, (size_t)n * sizeof *to, err);
    return rc ? rc : load_rows(d, all, u, id, missed, ctr_vec(w->missed, n), ctr_vec(w->index, n), n, err);
}

int ctr_workset_pull(struct ctr_deep *d, struct ctr_deep_tables *all, const uint64_t *id, int64_t before, int64_t n,
                     struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    int64_t misses = 0, evictions = 0, failures = 0;
    if (!before) {
        ctr_buf_clear(&w->slot_host);
        ctr_buf_clear(&w->id);
        w->unslotted = 0;
    }
    if (!n)
        return 0;
    int rc = make_lists(d, w, n, err);
    if (!rc)
        rc = ctr_mem_write(w->want, 0, id, (size_t)n * sizeof *id, err);
    const struct ctr_dev_slots slots = { .key = ctr_vec(w->key, w->slots),
                                         .stamp = ctr_vec(w->stamp, w->slots),
                                         .want = ctr_vec(w->want, n),
                                         .slot = ctr_vec(w->slot, n),
                                         .missed = ctr_vec(w->missed, n),
                                         .evicted_key = ctr_vec(w->evicted_key, n),
                                         .evicted_slot = ctr_vec(w->evicted_slot, n),
                                         .now = w->now,
                                         .misses = &misses,
                                         .evictions = &evictions,
                                         .failures = &failures };
    if (!rc)
        rc = ctr_dev_slots(d->dev, &slots, err);
    if (!rc)
        rc = evict(d, all, evictions, err);
    const struct ctr_mat u = ctr_mat_at(d->u, before * d->u_cols, n, d->u_cols);
    const struct ctr_dev_move_rows hits = { .n = n,
                                            .from = ctr_mat_cols(rows_of(d, w), 0, d->width),
                                            .to = ctr_mat_cols(u, 0, d->width),
                                            .from_index = ctr_vec(w->slot, n) };
    if (!rc && misses < n)
        rc = ctr_dev_move_rows(d->dev, &hits, err);
    if (!rc)
        rc = ctr_buf_append(&w->id, id, (size_t)n * sizeof *id, err);
    if (!rc)
        rc = ctr_buf_reserve(&w->slot_host, (size_t)n * sizeof(int32_t), err);
    if (rc)
        return rc;
    int32_t *slot = AS(int32_t, w->slot_host) + before;
    rc = ctr_mem_read(w->slot, 0, slot, (size_t)n * sizeof *slot, err);
    w->slot_host.len += (size_t)n * sizeof *slot;
    w->newer = true;
    w->hits += n - misses;
    w->misses += misses;
    w->evictions += evictions;
    return rc ? rc : bring(d, all, u, id, slot, misses, err);
}

/* The rows without a slot: where they are in d->u, and their numbers. */
static int step_unslotted(struct ctr_deep *d, struct ctr_deep_tables *all, const struct ctr_dev_opt_rows *step,
                          struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    const int64_t n = d->unique;
    ctr_buf_clear(&w->scratch);
    int rc = ctr_buf_reserve(&w->scratch, (size_t)n * sizeof(uint64_t) + (size_t)n * sizeof(int32_t), err);
    if (rc)
        return rc;
    uint64_t *id = AS(uint64_t, w->scratch);
    int32_t *place = (int32_t *)(void *)(id + n);
    for (int64_t i = 0; i < n; i++)
        place[i] = AS(int32_t, w->slot_host)[i] < 0 ? (int32_t)i : -1;
    rc = ctr_mem_write(w->index, 0, place, (size_t)n * sizeof *place, err);
    struct ctr_dev_opt_rows there = *step;
    there.index = ctr_vec(w->index, n);
    if (!rc)
        rc = ctr_dev_opt_rows(d->dev, &there, err);
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++)
        if (place[i] >= 0) {
            id[k] = AS(uint64_t, w->id)[i];
            place[k++] = (int32_t)i;
        }
    if (!rc)
        rc = ctr_mem_write(w->index, 0, place, (size_t)k * sizeof *place, err);
    return rc ? rc : save_rows(d, all, step->rows, ctr_vec(w->index, k), id, k, err);
}

int ctr_workset_step(struct ctr_deep *d, struct ctr_deep_tables *all, const struct ctr_dev_opt_rows *step,
                     struct ctr_err *err)
{
    struct ctr_workset *w = d->workset;
    const size_t bytes = (size_t)d->unique * sizeof(int32_t);
    struct ctr_dev_opt_rows in_place = *step;
    int rc = ctr_mem_grow(&w->index, d->dev, bytes, err); /* of all pulls */
    if (!rc)
        rc = ctr_deep_send(d, &w->slot, w->slot_host.data, 0, bytes, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    in_place.rows = rows_of(d, w);
    in_place.index = ctr_vec(w->slot, d->unique);
    if (!rc)
        rc = ctr_dev_opt_rows(d->dev, &in_place, err);
    return rc || !w->unslotted ? rc : step_unslotted(d, all, step, err);
}

int ctr_workset_words(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_workset *w = d->workset;
    if (!w || !w->slots)
        return 0;
    return ctr_buf_printf(text, err,
                          "device rows          %" PRId64 " (%s)\n"
                          "device hits          %" PRId64 "\n"
                          "device misses        %" PRId64 "\n"
                          "device evictions     %" PRId64 "\n",
                          w->slots, ctr_size_text((uint64_t)w->slots * (uint64_t)d->u_cols * sizeof(float)).s, w->hits,
                          w->misses, w->evictions);
}
