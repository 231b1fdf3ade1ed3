/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of keys: growth in place, dropping keys, visits. See keyindex.h.
 *
 * Invariant: all lines from a key's home up to its own are full, where the home is computed with `size` or, for keys
 * whose home by `old_size` is below `frontier`, with `old_size`. Homes by `size` are never below those by `old_size`,
 * so keys of a run that moves (it starts after a line that is not full, and ends with one) end up at or above the
 * run's start.
 */
#include "common/table/keyindex.h"

enum {
    FIRST_LINES = 24,    /* of an empty index */
    GROWTH_PART = 3,     /* growth as a fraction of the lines: CTR_KEYINDEX_GROWTH */
    MOVES_PER_KEY = 6,   /* lines by which growth advances per key reserved */
    MOVES_AT_LEAST = 64, /* and at least so many per call; all of them */
    CROWD_PART = 16,     /* if more keys are added than this fraction of the places */
    MOVE_LINES = 32,     /* moved at a time: they fit into the first-level cache */
};

void ctr_keyindex_free(struct ctr_keyindex *t)
{
    ctr_area_free(&t->area);
    ctr_buf_free(&t->run);
    *t = (struct ctr_keyindex){ .size = 0 };
}

static bool full(const struct ctr_keyindex *t, uint64_t line)
{
    return t->line[line].n == CTR_KEYLINE_KEYS;
}

/* ---- room ---- */

/* The size after `size`. Leaps towards the expected keys leave them some room, for other tables' keys that come here.
 */
static uint64_t next_size(const struct ctr_keyindex *t, uint64_t size)
{
    const uint64_t expected = (uint64_t)((double)t->expected / (0.94 * CTR_KEYINDEX_LOAD * CTR_KEYLINE_KEYS));
    return CTR_MAX(size + size / GROWTH_PART, CTR_MIN(size * CTR_KEYINDEX_LEAP, expected));
}

/* The next size, in lines, that holds so many keys. */
static uint64_t size_for(const struct ctr_keyindex *t, uint64_t keys)
{
    uint64_t size = t->size ? t->size : FIRST_LINES;
    while ((double)keys > CTR_KEYINDEX_LOAD * CTR_KEYLINE_KEYS * (double)size)
        size = next_size(t, size);
    return size;
}

/* Bytes of so many lines and, after growth, of the lines being moved. */
static uint64_t bytes_of(uint64_t lines)
{
    return (lines + (lines > FIRST_LINES ? MOVE_LINES : 0)) * sizeof(struct ctr_keyline);
}

uint64_t ctr_keyindex_bytes(const struct ctr_keyindex *t)
{
    return t->size ? bytes_of(t->size) : 0;
}

uint64_t ctr_keyindex_bytes_after(const struct ctr_keyindex *t, uint64_t extra)
{
    return bytes_of(size_for(t, t->used + extra));
}

static int make_lines(struct ctr_keyindex *t, uint64_t lines, struct ctr_err *err)
{
    if (lines > (UINT64_C(1) << 46) / sizeof *t->line)
        return ctr_fail_nomem(err, SIZE_MAX);
    if (lines > t->lines) {
        int rc = ctr_area_fill(&t->area, lines * sizeof *t->line, err);
        if (rc)
            return rc;
        t->line = (struct ctr_keyline *)(void *)t->area.base;
        t->lines = t->area.bytes / sizeof *t->line;
    }
    return 0;
}

/* Room for so many keys with any homes: they may extend past the last home. */
static int make_room(struct ctr_keyindex *t, uint64_t keys, struct ctr_err *err)
{
    return make_lines(t, CTR_MAX(t->size, t->end) + keys / CTR_KEYLINE_KEYS + 2, err);
}

uint32_t *ctr_keyindex_zero(struct ctr_keyindex *t)
{
    t->used += !t->has_zero;
    t->has_zero = true;
    return &t->zero;
}

/* ---- moving ---- */

/* Take the lines [first, last) out of the index, into t->run. */
static int take_lines(struct ctr_keyindex *t, uint64_t first, uint64_t last, struct ctr_err *err)
{
    const size_t bytes = (last - first) * sizeof *t->line;
    ctr_buf_clear(&t->run);
    int rc = ctr_buf_append(&t->run, t->line + first, bytes, err);
    if (!rc)
        memset(t->line + first, 0, bytes);
    return rc;
}

static void put_key(const struct ctr_keyindex *t, uint64_t h, uint32_t number, uint64_t *end)
{
    struct ctr_keyline *to = t->line + ctr_hash_scale(ctr_hash_keyed(h), t->size);
    while (to->n == CTR_KEYLINE_KEYS)
        to++;
    to->hash[to->n] = h;
    to->number[to->n++] = number;
    *end = CTR_MAX(*end, (uint64_t)(to - t->line) + 1);
}

/* Put the keys of t->run back, by their homes of `size`; keep NULL: all of them. */
static void put_back(struct ctr_keyindex *t, bool (*keep)(const void *ctx, uint32_t number), const void *ctx)
{
    const struct ctr_keyline *line = (const struct ctr_keyline *)(const void *)t->run.data;
    uint64_t end = t->end;
    for (size_t i = 0; i < t->run.len / sizeof *line; i++)
        for (uint32_t j = 0; j < line[i].n; j++)
            if (!keep || keep(ctx, line[i].number[j]))
                put_key(t, line[i].hash[j], line[i].number[j], &end);
    t->end = end;
}

/* Move the keys in the `lines` lines below the frontier, and the rest of runs that cross a boundary, and lower the
 * frontier accordingly. */
static int move_lines(struct ctr_keyindex *t, uint64_t lines, struct ctr_err *err)
{
    uint64_t first = t->frontier - CTR_MIN(t->frontier, lines), last = t->frontier;
    while (first > 0 && full(t, first - 1))
        first--;
    while (full(t, last - 1))
        last++;
    int rc = make_room(t, (last - first) * CTR_KEYLINE_KEYS, err);
    if (!rc)
        rc = take_lines(t, first, last, err);
    if (rc)
        return rc;
    t->frontier = first;
    put_back(t, NULL, NULL);
    return 0;
}

static int advance(struct ctr_keyindex *t, uint64_t lines, struct ctr_err *err)
{
    const uint64_t goal = t->frontier > lines ? t->frontier - lines : 0;
    int rc = 0;
    while (t->frontier > goal && !rc)
        rc = move_lines(t, MOVE_LINES, err);
    return rc;
}

int ctr_keyindex_reserve(struct ctr_keyindex *t, uint64_t extra, struct ctr_err *err)
{
    int rc;
    if (t->frontier) {
        const uint64_t moves = extra > (UINT64_C(1) << 40) ? extra : extra * MOVES_PER_KEY;
        if ((rc = advance(t, CTR_MAX(moves, MOVES_AT_LEAST), err)))
            return rc;
    }
    const uint64_t size = size_for(t, t->used + extra);
    if (size > t->size) {
        if ((t->frontier && (rc = advance(t, UINT64_MAX, err))) || (rc = make_lines(t, size + 1, err)))
            return rc;
        t->old_size = t->size;
        t->frontier = t->size;
        t->size = size;
        /* Many new keys at once would collide with unmoved ones. */
        const bool crowd = extra > t->old_size * CTR_KEYLINE_KEYS / CROWD_PART;
        if ((rc = advance(t, crowd ? UINT64_MAX : MOVES_AT_LEAST, err)))
            return rc;
    }
    return make_room(t, extra, err);
}

/* ---- dropping keys ---- */

static uint64_t count_dropped(const struct ctr_keyindex *t, uint64_t first, uint64_t last,
                              bool (*keep)(const void *ctx, uint32_t number), const void *ctx)
{
    uint64_t dropped = 0;
    for (const struct ctr_keyline *l = t->line + first; l < t->line + last; l++)
        for (uint32_t j = 0; j < l->n; j++)
            dropped += !keep(ctx, l->number[j]);
    return dropped;
}

int ctr_keyindex_filter(struct ctr_keyindex *t, bool (*keep)(const void *ctx, uint32_t number), const void *ctx,
                        struct ctr_err *err)
{
    int rc = t->frontier ? advance(t, UINT64_MAX, err) : 0;
    if (!rc && t->has_zero && !keep(ctx, t->zero)) {
        t->has_zero = false;
        t->zero = 0;
        t->used--;
    }
    for (uint64_t first = 0, last; first < t->end && !rc; first = last) { /* [first, last): a run, see above */
        for (last = first + 1; full(t, last - 1); last++)
            ;
        const uint64_t dropped = count_dropped(t, first, last, keep, ctx);
        if (dropped && !(rc = take_lines(t, first, last, err))) {
            put_back(t, keep, ctx);
            t->used -= dropped;
        }
    }
    while (t->end && !t->line[t->end - 1].n)
        t->end--;
    return rc;
}

/* ---- visits ---- */

/* *at: 0, then 1 + the place of the next key to look at. */
const uint32_t *ctr_keyindex_next(const struct ctr_keyindex *t, uint64_t *at, uint64_t *hash)
{
    if (!*at) {
        *at = 1;
        *hash = 0;
        if (t->has_zero)
            return &t->zero;
    }
    uint64_t line = (*at - 1) / CTR_KEYLINE_KEYS, place = (*at - 1) % CTR_KEYLINE_KEYS;
    while (line < t->end && place >= t->line[line].n) {
        line++;
        place = 0;
    }
    *at = 1 + line * CTR_KEYLINE_KEYS + place;
    if (line == t->end)
        return NULL;
    ++*at;
    *hash = t->line[line].hash[place];
    return &t->line[line].number[place];
}

uint64_t ctr_keyindex_some(const struct ctr_keyindex *t, uint64_t *first, struct ctr_numbered *e)
{
    const uint64_t lines = CTR_MIN(t->end - *first, CTR_KEYINDEX_SOME_LINES);
    uint64_t n = ctr_keyindex_kernel_at((int)ctr_cpu_best())->collect(t, *first, lines, 0, UINT64_MAX, e);
    *first = lines == CTR_KEYINDEX_SOME_LINES ? *first + lines : UINT64_MAX;
    if (*first == UINT64_MAX && t->has_zero)
        e[n++] = (struct ctr_numbered){ ctr_key_unhash(0), t->zero };
    return n;
}

static bool first_key(const void *table, uint64_t place, uint64_t *key)
{
    const struct ctr_keyindex *t = table;
    *key = ctr_key_unhash(t->line[place].hash[0]);
    return t->line[place].n;
}

static uint64_t collect(const void *table, uint64_t place, uint64_t n, uint64_t low, uint64_t span,
                        struct ctr_numbered *e)
{
    return ctr_keyindex_kernel_at((int)ctr_cpu_best())->collect(table, place, n, low, span, e);
}

int ctr_keyindex_sorted(const struct ctr_keyindex *t, uint64_t all, ctr_sorted_range *range, void *ctx,
                        struct ctr_err *err)
{
    const struct ctr_numbered zero = { ctr_key_unhash(0), t->zero };
    const struct ctr_sorted_of of = { t,   t->used,   t->end,  CTR_KEYLINE_KEYS,
                                      all, first_key, collect, t->has_zero ? &zero : NULL };
    return ctr_sorted_ranges(&of, range, ctx, err);
}
