/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse table: growth in place, and iteration in key order. See sparse.h.
 *
 * Invariant: there is no empty slot between a row's home and the row, where the home is computed with `size` or, for
 * rows whose home by `old_size` is below `frontier`, with `old_size`. Homes by `size` are never below those by
 * `old_size`, so a moved run (bounded by empty slots on both sides) ends up at or above its old position.
 *
 * Iteration has its own radix sort: keys are hashes, so that two passes and an insertion sort suffice for a range.
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
    RANGES = 8,           /* number of key ranges sorted one after another */
    RANGE_KEYS = 1 << 15, /* unless there are few keys: an eighth of a large table's keys, twice 16 bytes each */
};

/* Maximum load, and growth as a fraction of the slots; in the order of enum ctr_sparse_kind. */
static const struct {
    double load;
    uint64_t part;
} kinds[] = { { CTR_SPARSE_MAX_LOAD, 5 }, { CTR_SPARSE_DENSE_LOAD, 8 }, { CTR_SPARSE_INDEX_LOAD, 3 } };

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

void ctr_sparse_init_index(struct ctr_sparse *t)
{
    init(t, CTR_SPARSE_NUMBERED, CTR_SPARSE_INDEX);
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
    return make_slots(t, CTR_MAX(t->size, t->end) + rows + 2, err); /* two slots are read after a home */
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
    } else {
        ctr_area_settle(&t->area);
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

int ctr_sparse_shrink(struct ctr_sparse *t, struct ctr_err *err)
{
    struct ctr_sparse small;
    uint64_t at = 0;
    init(&small, t->stride, t->kind);
    int rc = ctr_sparse_reserve(&small, t->used, err);
    for (const uint8_t *row; !rc && (row = ctr_sparse_next(t, &at));)
        memcpy(ctr_sparse_get(&small, row == t->zero ? 0 : ctr_sparse_row_hash(row)) + 8, row + 8, t->stride - 8);
    ctr_sparse_free(rc ? &small : t);
    if (!rc)
        *t = small;
    return rc;
}

/* ---- in the order of keys ---- */

/* Sort by the digit of `bits` bits at `shift` of the distance from `low`; false: all digits are equal, and b is
 * unchanged. */
CTR_BODY bool sort_digit(const struct ctr_sparse_numbered *a, struct ctr_sparse_numbered *b, size_t n, uint64_t low,
                         int shift, int bits)
{
    enum { MOST_BITS = 11 };
    uint32_t count[1 << MOST_BITS] = { 0 }, sum = 0;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (size_t i = 0; i < n; i++)
        count[(a[i].key - low) >> shift & mask]++;
    if (count[(a[0].key - low) >> shift & mask] == n)
        return false;
    for (uint64_t d = 0; d <= mask; d++) {
        const uint32_t c = count[d];
        count[d] = sum;
        sum += c;
    }
    for (size_t i = 0; i < n; i++)
        b[count[(a[i].key - low) >> shift & mask]++] = a[i];
    return true;
}

/* For few misplaced elements at short distances; false if it would take more than n steps. */
static bool insertion_sort(struct ctr_sparse_numbered *a, size_t n)
{
    size_t steps = 0;
    for (size_t i = 1; i < n && steps <= n; i++) {
        const struct ctr_sparse_numbered own = a[i];
        size_t to = i;
        for (; to && a[to - 1].key > own.key && steps <= n; to--, steps++)
            a[to] = a[to - 1];
        a[to] = own;
    }
    return steps <= n;
}

/* Keys are usually hashes: most differ within 22 bits from the first differing bit. Otherwise all digits are sorted,
 * least significant first. */
struct ctr_sparse_numbered *ctr_sparse_sort(struct ctr_sparse_numbered *a, struct ctr_sparse_numbered *b, size_t n)
{
    enum { BITS = 11 };
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < n; i++) {
        low = CTR_MIN(low, a[i].key);
        high = CTR_MAX(high, a[i].key);
    }
    const int differ = low < high ? 64 - __builtin_clzll(high - low) : 0, first = CTR_MAX(differ - 2 * BITS, 0);
    for (int round = 0; round < 2; round++) {
        for (int shift = round ? 0 : first; shift < differ; shift += BITS)
            if (sort_digit(a, b, n, low, shift, BITS)) {
                struct ctr_sparse_numbered *swap = a;
                a = b;
                b = swap;
            }
        if (insertion_sort(a, n))
            break;
    }
    return a;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The upper bounds (inclusive) of RANGES ranges, or fewer if RANGE_KEYS keys suffice for each, from an evenly spaced
 * sample. */
static int make_bounds(const struct ctr_sparse *t, uint64_t **bounds, size_t *n, struct ctr_err *err)
{
    size_t ranges = CTR_MIN(t->used / RANGE_KEYS + 1, RANGES), want = ranges * 64, got = 0;
    uint64_t *sample = malloc((want + 1) * sizeof *sample);
    if (!sample)
        return ctr_fail_nomem(err, (want + 1) * sizeof *sample);
    for (uint64_t i = 0; i < t->end && ranges > 1 && got < want; i = CTR_MAX(i + 1, t->end / want * got)) {
        while (i < t->end && !occupied(t, i))
            i++;
        if (i < t->end)
            sample[got++] = ctr_sparse_key(ctr_sparse_row_hash(slot(t, i)));
    }
    qsort(sample, got, sizeof *sample, compare_keys);
    *n = 0;
    for (size_t r = 1; r < ranges && got; r++)
        sample[(*n)++] = sample[r * got / ranges]; /* n < r * got / ranges: reads stay ahead of writes */
    sample[(*n)++] = UINT64_MAX;
    *bounds = sample;
    return 0;
}

/* Collect the rows with keys in [low, high]. */
static int collect(const struct ctr_sparse *t, uint64_t low, uint64_t high, struct ctr_buf *into, struct ctr_err *err)
{
    enum { SLOTS = 1024 };
    const bool numbers = t->kind == CTR_SPARSE_INDEX;
    const uint64_t keys = t->used <= RANGE_KEYS ? t->used : t->used / RANGES + t->used / 64 + RANGE_KEYS / 4;
    ctr_buf_clear(into);
    int rc = ctr_buf_reserve(into, (CTR_MIN(keys, t->used) + SLOTS + 1) * sizeof(struct ctr_sparse_numbered), err);
    const struct ctr_sparse_numbered zero = { ctr_sparse_key(0),
                                              numbers ? ctr_sparse_row_number(t->zero) : (uintptr_t)t->zero };
    if (!rc && t->has_zero && zero.key - low <= high - low)
        rc = ctr_buf_append(into, &zero, sizeof zero, err);
    for (uint64_t i = 0; i < t->end && !rc; i += SLOTS) {
        if ((rc = ctr_buf_reserve(into, SLOTS * sizeof zero, err)))
            break;
        struct ctr_sparse_numbered *e = (struct ctr_sparse_numbered *)(void *)(into->data + into->len);
        into->len +=
            (size_t)ctr_sparse_kernel_best()->collect(t, i, CTR_MIN(t->end - i, SLOTS), low, high - low, e) * sizeof *e;
    }
    return rc;
}

/* Calls `range` for each range: with keys and their numbers for an index, else with row addresses. */
static int sorted(const struct ctr_sparse *t, ctr_sparse_range *range, void *ctx, struct ctr_err *err)
{
    struct ctr_buf a = { 0 }, b = { 0 };
    uint64_t *bounds = NULL;
    size_t n = 0;
    int rc = make_bounds(t, &bounds, &n, err);
    if (rc)
        return rc;
    for (size_t r = 0; r < n && !rc; r++) {
        if (r && bounds[r] == bounds[r - 1])
            continue;
        if ((rc = collect(t, r ? bounds[r - 1] + 1 : 0, bounds[r], &a, err)))
            break;
        ctr_buf_clear(&b);
        if ((rc = ctr_buf_reserve(&b, a.len, err)))
            break;
        size_t entries = a.len / sizeof(struct ctr_sparse_numbered);
        rc = range(ctx,
                   ctr_sparse_sort((struct ctr_sparse_numbered *)(void *)a.data,
                                   (struct ctr_sparse_numbered *)(void *)b.data, entries),
                   entries, err);
    }
    free(bounds);
    ctr_buf_free(&a);
    ctr_buf_free(&b);
    return rc;
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
    struct rows_of v = { each, ctx };
    return sorted(t, visit_rows, &v, err);
}

int ctr_sparse_sorted_numbers(const struct ctr_sparse *t, ctr_sparse_range *range, void *ctx, struct ctr_err *err)
{
    return sorted(t, range, ctx, err);
}
