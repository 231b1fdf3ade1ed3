/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse table: growth in place. See sparse.h.
 *
 * Invariant: there is no empty slot between a row's home and the row, where the home is computed with `size` or, for
 * rows whose home by `old_size` is below `frontier`, with `old_size`. Homes by `size` are never below those by
 * `old_size`, so a moved run (bounded by empty slots on both sides) ends up at or above its old position.
 */
#include "common/base/isa.h"
#include "common/table/sparse.h"

#include <stdlib.h>

enum {
    FIRST_SLOTS = 128,    /* of an empty table */
    MOVES_PER_KEY = 32,   /* slots by which growth advances per key reserved */
    MOVES_AT_LEAST = 256, /* and at least so many per call; all of them */
    CROWD_PART = 16,      /* if more keys are added than this fraction of the slots */
    MOVE_SLOTS = 64,      /* moved at a time: they fit into the first-level cache */
    AHEAD = 16,           /* rows between prefetch and use */
};

/* Maximum load, and growth as a fraction of the slots; in the order of enum ctr_sparse_kind. */
static const struct {
    double load;
    uint64_t part;
} kinds[] = { { CTR_SPARSE_MAX_LOAD, 5 }, { CTR_SPARSE_DENSE_LOAD, 8 } };

static void init(struct ctr_sparse *t, uint32_t stride, enum ctr_sparse_kind kind)
{
    memset(t, 0, sizeof *t);
    t->stride = stride;
    t->kind = kind;
}

void ctr_sparse_init(struct ctr_sparse *t, uint32_t stride)
{
    init(t, stride, CTR_SPARSE_ROWS);
}

void ctr_sparse_init_dense(struct ctr_sparse *t, uint32_t stride)
{
    init(t, stride, CTR_SPARSE_DENSE);
}

void ctr_sparse_free(struct ctr_sparse *t)
{
    ctr_area_free(&t->area);
    ctr_buf_free(&t->run);
    init(t, t->stride, t->kind);
}

static uint8_t *slot(const struct ctr_sparse *t, uint64_t i)
{
    return t->rows + i * t->stride;
}

static bool occupied(const struct ctr_sparse *t, uint64_t i)
{
    return ctr_sparse_row_hash(slot(t, i)) != 0;
}

/* The next size, in slots, that holds `rows` rows. */
static uint64_t size_for(const struct ctr_sparse *t, uint64_t rows)
{
    uint64_t size = t->size ? t->size : FIRST_SLOTS;
    while ((double)rows > kinds[t->kind].load * (double)size)
        size += size / kinds[t->kind].part + 1;
    return size;
}

/* Bytes of so many slots and, after growth, of the rows being moved. */
static uint64_t bytes_of(const struct ctr_sparse *t, uint64_t slots)
{
    return (slots + (slots > FIRST_SLOTS ? 2 * MOVE_SLOTS : 0)) * t->stride;
}

uint64_t ctr_sparse_bytes(const struct ctr_sparse *t)
{
    return bytes_of(t, t->size);
}

uint64_t ctr_sparse_bytes_after(const struct ctr_sparse *t, uint64_t extra)
{
    return bytes_of(t, size_for(t, t->used + extra));
}

static int make_slots(struct ctr_sparse *t, uint64_t slots, struct ctr_err *err)
{
    if (slots > (UINT64_C(1) << 46) / t->stride)
        return ctr_fail_nomem(err, SIZE_MAX);
    if (slots > t->slots) {
        int rc = ctr_area_fill(&t->area, slots * t->stride, err);
        if (rc)
            return rc;
        t->rows = t->area.base;
        t->slots = t->area.bytes / t->stride;
    }
    return 0;
}

uint8_t *ctr_sparse_add(struct ctr_sparse *t, uint8_t *empty, uint64_t h)
{
    if (!h) {
        t->used += !t->has_zero;
        t->has_zero = true;
        return t->zero;
    }
    memcpy(empty, &h, 8);
    t->used++;
    uint64_t at = (uint64_t)(empty - t->rows) / t->stride;
    if (at >= t->end)
        t->end = at + 1;
    return empty;
}

/* Room for so many rows with any homes: they may extend past the last home. */
static int make_room(struct ctr_sparse *t, uint64_t rows, struct ctr_err *err)
{
    return make_slots(t, CTR_MAX(t->size, t->end) + rows + 1, err); /* a search ends at an empty slot */
}

CTR_BODY void copy_row(uint8_t *to, const uint8_t *from, uint32_t stride)
{
    uint32_t i = 0;
    for (; i + 8 <= stride; i += 8)
        memcpy(to + i, from + i, 8);
    if (i < stride) /* rows of 10, 12 or 14 bytes: copy exactly the row */
        memcpy(to + i, from + i, stride - i);
}

/* Store the row in the first empty slot at or after its home. Returns that slot. */
CTR_BODY uint8_t *put_row(const struct ctr_sparse *t, const uint8_t *row, uint32_t stride)
{
    uint8_t *to = t->rows + ctr_sparse_scale(ctr_sparse_secret(ctr_sparse_row_hash(row)), t->size) * stride;
    while (ctr_sparse_row_hash(to))
        to += stride;
    copy_row(to, row, stride);
    return to;
}

/* Reinsert the rows of t->run, which were at slot `first` and after. Frequent keys are inserted early and get their
 * homes; they keep them, because rows that were at home are reinserted first. */
CTR_BODY void put_back(struct ctr_sparse *t, uint64_t first, uint32_t stride)
{
    uint8_t *wait = t->run.data, *highest = t->rows;
    uint64_t at = first;
    for (const uint8_t *r = t->run.data; r < t->run.data + t->run.len; r += stride, at++) {
        uint64_t h = ctr_sparse_row_hash(r);
        if (h && ctr_sparse_scale(ctr_sparse_secret(h), t->old_size) == at) {
            uint8_t *to = put_row(t, r, stride);
            highest = CTR_MAX(highest, to);
        } else if (h) {
            copy_row(wait, r, stride); /* to the front, over rows already reinserted */
            wait += stride;
        }
    }
    for (const uint8_t *r = t->run.data; r < wait; r += stride) {
        uint8_t *to = put_row(t, r, stride);
        highest = CTR_MAX(highest, to);
    }
    t->end = CTR_MAX(t->end, (uint64_t)(highest - t->rows) / stride + 1);
}

/* Move the rows in the `slots` slots below the frontier, and the rest of a run that crosses the boundary, and lower the
 * frontier accordingly. */
static int move_rows(struct ctr_sparse *t, uint64_t slots, struct ctr_err *err)
{
    uint64_t first = t->frontier - CTR_MIN(t->frontier, slots), last = t->frontier;
    while (first > 0 && occupied(t, first - 1))
        first--;
    while (occupied(t, last))
        last++;
    t->frontier = first ? first - 1 : 0; /* the slot before is empty, so no home is there */
    if (first == last)
        return 0;
    ctr_buf_clear(&t->run);
    int rc = ctr_buf_append(&t->run, slot(t, first), (last - first) * t->stride, err);
    if (!rc)
        rc = make_room(t, last - first, err);
    if (rc)
        return rc;
    memset(slot(t, first), 0, (last - first) * t->stride);
    switch (t->stride) { /* a compile-time constant for the common strides */
    case CTR_SPARSE_NUMBERED: put_back(t, first, CTR_SPARSE_NUMBERED); break;
    case 16: put_back(t, first, 16); break;
    default: put_back(t, first, t->stride);
    }
    return 0;
}

static int advance(struct ctr_sparse *t, uint64_t slots, struct ctr_err *err)
{
    uint64_t goal = t->frontier > slots ? t->frontier - slots : 0;
    int rc = 0;
    while (t->frontier > goal && !rc)
        rc = move_rows(t, MOVE_SLOTS, err);
    return rc;
}

int ctr_sparse_reserve(struct ctr_sparse *t, uint64_t extra, struct ctr_err *err)
{
    int rc;
    if (t->frontier) {
        uint64_t moves = extra > (UINT64_C(1) << 40) ? extra : extra * MOVES_PER_KEY;
        if ((rc = advance(t, CTR_MAX(moves, MOVES_AT_LEAST), err)))
            return rc;
    }
    uint64_t size = size_for(t, t->used + extra);
    if (size > t->size) {
        if ((t->frontier && (rc = advance(t, UINT64_MAX, err))) || (rc = make_slots(t, size + 1, err)))
            return rc;
        t->old_size = t->size;
        t->frontier = t->size;
        t->size = size;
        /* Many new keys at once would collide with unmoved rows. */
        if ((rc = advance(t, extra > t->old_size / CROWD_PART ? UINT64_MAX : MOVES_AT_LEAST, err)))
            return rc;
    }
    return make_room(t, extra, err);
}

/* Drop some rows of the run [first, last) and close the gaps. */
static int filter_run(struct ctr_sparse *t, uint64_t first, uint64_t last,
                      bool (*keep)(const void *ctx, const uint8_t *row), const void *ctx, struct ctr_err *err)
{
    uint64_t dropped = 0;
    for (uint64_t i = first; i < last; i++)
        dropped += !keep(ctx, slot(t, i));
    if (!dropped)
        return 0;
    ctr_buf_clear(&t->run);
    int rc = ctr_buf_append(&t->run, slot(t, first), (last - first) * t->stride, err);
    if (rc)
        return rc;
    memset(slot(t, first), 0, (last - first) * t->stride);
    for (const uint8_t *r = t->run.data; r < t->run.data + t->run.len; r += t->stride) {
        uint8_t *to = ctr_sparse_home(t, ctr_sparse_row_hash(r));
        if (!keep(ctx, r))
            continue;
        while (ctr_sparse_row_hash(to))
            to += t->stride;
        memcpy(to, r, t->stride);
    }
    t->used -= dropped;
    return 0;
}

int ctr_sparse_filter(struct ctr_sparse *t, bool (*keep)(const void *ctx, const uint8_t *row), const void *ctx,
                      struct ctr_err *err)
{
    int rc = t->frontier ? advance(t, UINT64_MAX, err) : 0;
    if (!rc && t->has_zero && !keep(ctx, t->zero)) {
        memset(t->zero, 0, sizeof t->zero);
        t->has_zero = false;
        t->used--;
    }
    for (uint64_t first = 0, last; first < t->end && !rc; first = last + 1) {
        for (last = first; occupied(t, last); last++)
            ;
        rc = last > first ? filter_run(t, first, last, keep, ctx, err) : 0;
    }
    while (t->end && !occupied(t, t->end - 1))
        t->end--;
    return rc;
}

uint8_t *ctr_sparse_next(const struct ctr_sparse *t, uint64_t *at)
{
    uint64_t i = *at;
    if (i == 0 && t->has_zero) {
        *at = 1;
        return (uint8_t *)t->zero;
    }
    for (i = i ? i - 1 : 0; i < t->end; i++)
        if (occupied(t, i)) {
            *at = i + 2;
            return slot(t, i);
        }
    *at = t->end + 1;
    return NULL;
}

/* ---- in the order of keys ---- */

static bool first_key(const void *table, uint64_t place, uint64_t *key)
{
    const struct ctr_sparse *t = table;
    const uint64_t h = ctr_sparse_row_hash(slot(t, place));
    *key = ctr_sparse_key(h);
    return h;
}

/* Every slot is written and few are kept: a branch would be mispredicted too often. */
static uint64_t collect(const void *table, uint64_t place, uint64_t n, uint64_t low, uint64_t span,
                        struct ctr_sparse_numbered *e)
{
    const struct ctr_sparse *t = table;
    const uint8_t *row = slot(t, place);
    uint64_t got = 0;
    for (uint64_t i = 0; i < n; i++, row += t->stride) {
        const uint64_t h = ctr_sparse_row_hash(row), key = ctr_sparse_key(h);
        e[got] = (struct ctr_sparse_numbered){ key, (uintptr_t)row };
        got += (key - low <= span) & (h != 0);
    }
    return got;
}

struct rows_of {
    ctr_sparse_each *each;
    void *ctx;
};

static int visit_rows(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct rows_of *v = ctx;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        __builtin_prefetch((const void *)(uintptr_t)e[CTR_MIN(i + AHEAD, n - 1)].number); /* rows are scattered */
        rc = v->each(v->ctx, e[i].key, (const uint8_t *)(uintptr_t)e[i].number, err);
    }
    return rc;
}

int ctr_sparse_sorted(const struct ctr_sparse *t, ctr_sparse_each *each, void *ctx, struct ctr_err *err)
{
    const struct ctr_sparse_numbered zero = { ctr_sparse_key(0), (uintptr_t)t->zero };
    const struct ctr_sorted_of of = { t, t->used, t->end, 1, t->used, first_key, collect, t->has_zero ? &zero : NULL };
    struct rows_of v = { each, ctx };
    return ctr_sorted_ranges(&of, visit_rows, &v, err);
}
