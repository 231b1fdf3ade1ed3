/* SPDX-License-Identifier: Apache-2.0
 *
 * calpools: pooling adjacent violators (Ayer et al. 1955), in three ways that give the same pools: of any sorted
 * sample, with doubles; of one whose entries all weigh 1, with integers; and of many such entries, without sorting
 * them.
 *
 * The third counts the classes in bins of scores. Think of a path with a step to the right for each entry in the order
 * of scores, which also goes up for a positive. Pools are the edges of the greatest convex function below that path. A
 * bin's part of it begins and ends at known points, and lies above the corner between them: as many steps to the right
 * as the bin has negatives, then all its positives. If that corner lies above the convex function of the bins' ends, no
 * pool begins or ends within the bin, and the order within it does not matter. Only the entries of other bins are
 * copied and sorted or, if these are more than half, all are. For example, ends after 0/2, 1/4 and 3/6 positives of
 * entries have the convex function with edges of rates 0, 1/2 and 1; a bin with 10 entries amid a pool of thousands is
 * far above its edge, mostly. */
#include "tools/ctr-calibrate/calpools.h"

#include "common/base/isa.h"

#include <stdlib.h>

/* ---- sorted ---- */

static int pool_violators(const struct ctr_sample *s, struct ctr_buf *pools, struct ctr_err *err)
{
    struct ctr_ties t = { .s = s };
    int64_t n = 0;
    int rc;

    while (ctr_ties_next(&t)) {
        struct ctr_cal_pool x = { t.score, t.score, t.neg + t.pos, t.pos, 0, { t.entries[0], t.entries[1] } }, *b;
        if (x.weight == 0)
            continue;
        pools->len = (size_t)n * sizeof x;
        if ((rc = ctr_buf_reserve(pools, sizeof x, err)))
            return rc;
        b = (struct ctr_cal_pool *)pools->data;
        x.value = x.label / x.weight;
        while (n && b[n - 1].value >= x.value) {
            n--;
            x.low = b[n].low;
            x.weight += b[n].weight;
            x.label += b[n].label;
            x.value = x.label / x.weight;
            x.rows[0] += b[n].rows[0];
            x.rows[1] += b[n].rows[1];
        }
        b[n++] = x;
    }
    pools->len = (size_t)n * sizeof(struct ctr_cal_pool);
    return 0;
}

/* The same if every entry weighs 1, with integers. A block extends to the first entry of the next. Counts are below
 * 2^26, so that products compare exactly, like the rounded quotients, which differ whenever the fractions do.
 */
enum { MAX_WHOLE = 1 << 26 };
struct whole {
    uint32_t first, positive;
};

/* Push a block, which ends before `end`, onto the n existing ones; returns their new number. */
static inline int64_t pool_block(struct whole *b, int64_t n, struct whole x, uint32_t end)
{
    while (n && (uint64_t)b[n - 1].positive * (end - x.first) >= (uint64_t)x.positive * (x.first - b[n - 1].first)) {
        n--;
        x.positive += b[n].positive;
        x.first = b[n].first;
    }
    b[n] = x;
    return n + 1;
}

/* The entries of a score, negatives first, form one point. A point with only positives is pooled with the next, one
 * with only negatives with the previous; so blocks start only where a point with a negative precedes one with a
 * positive. */
static inline int64_t pool_points(const struct ctr_sample *s, bool wide, struct whole *b)
{
    const uint64_t *wides = (const uint64_t *)(const void *)s->key.data;
    const uint32_t *narrows = (const uint32_t *)(const void *)s->key.data;
    const uint32_t n = (uint32_t)s->n;
    struct whole x = { 0, 0 };
    uint64_t last = 1, mixed = UINT64_MAX, key; /* mixed: the last score with both classes */
    int64_t blocks = 0;

    for (uint32_t i = 0; i < n; i++, last = key) {
        key = wide ? wides[i] : narrows[i];
        if (~last & key & 1) {
            uint32_t from = i; /* start of its point */
            while (from > x.first && (wide ? wides[from - 1] : narrows[from - 1]) >> 1 == key >> 1)
                from--;
            mixed = from < i ? key >> 1 : mixed;
            if (from > x.first) {
                blocks = pool_block(b, blocks, x, from);
                x = (struct whole){ from, 0 };
            }
        } else if (last & key & 1 && last >> 1 == mixed && key >> 1 != mixed) {
            blocks = pool_block(b, blocks, x, i);
            x = (struct whole){ i, 0 };
        }
        x.positive += key & 1;
    }
    return pool_block(b, blocks, x, n);
}

/* Append the pool of entries [first, end), whose keys go from `low` to `high`. */
static int put_pool(struct ctr_buf *pools, const struct ctr_sample *s, struct whole b, uint32_t end, uint64_t low,
                    uint64_t high, struct ctr_err *err)
{
    struct ctr_cal_pool x = { ctr_sample_score(s, low),
                              ctr_sample_score(s, high),
                              end - b.first,
                              b.positive,
                              0,
                              { end - b.first - b.positive, b.positive } };
    x.value = x.label / x.weight;
    return ctr_buf_append(pools, &x, sizeof x, err);
}

static int pool_whole(const struct ctr_sample *s, struct ctr_buf *pools, struct ctr_err *err)
{
    struct ctr_buf buf = { 0 };
    int rc = ctr_buf_reserve(&buf, ((size_t)s->n / 2 + 2) * sizeof(struct whole), err);
    const struct whole *b = (const struct whole *)(const void *)buf.data;

    if (rc)
        return rc;
    int64_t n =
        s->wide ? pool_points(s, true, (struct whole *)buf.data) : pool_points(s, false, (struct whole *)buf.data);
    for (int64_t i = 0; !rc && i < n; i++) {
        const uint32_t end = i + 1 < n ? b[i + 1].first : (uint32_t)s->n;
        rc = put_pool(pools, s, b[i], end, ctr_sample_key(s, b[i].first), ctr_sample_key(s, end - 1), err);
    }
    ctr_buf_free(&buf);
    return rc;
}

static bool is_whole(const struct ctr_sample *s)
{
    return s->n && s->n < MAX_WHOLE && !s->weight.len;
}

int ctr_cal_pool_sorted(const struct ctr_sample *s, struct ctr_buf *pools, struct ctr_err *err)
{
    return is_whole(s) ? pool_whole(s, pools, err) : pool_violators(s, pools, err);
}

/* ---- unsorted ---- */

enum { BIN_BITS = 18, BINS = 1 << BIN_BITS, MANY = 1 << 18 };
struct bins {
    uint64_t least; /* key */
    int low, n;     /* bit of a key from which it is a bin's number; bins */
    uint32_t count[BINS][2];
    uint8_t sorts[BINS / 8]; /* a bit per bin: its entries are sorted */
    uint32_t sorted;         /* entries of these bins */
};

bool ctr_cal_pool_bins(const struct ctr_sample *s)
{
    return is_whole(s) && !s->sorted && s->n >= MANY;
}

CTR_BODY uint64_t key_at(const struct ctr_sample *s, int64_t i, bool wide)
{
    return wide ? ((const uint64_t *)(const void *)s->key.data)[i] : ((const uint32_t *)(const void *)s->key.data)[i];
}

CTR_BODY void fill(struct bins *b, const struct ctr_sample *s, bool wide)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (int64_t i = 0; i < s->n; i++) {
        least = CTR_MIN(least, key_at(s, i, wide));
        most = CTR_MAX(most, key_at(s, i, wide));
    }
    b->least = least & ~(uint64_t)1; /* the lowest bit is the class */
    b->low = CTR_MAX(1, 64 - __builtin_clzll((most - b->least) | 1) - BIN_BITS);
    b->n = (int)((most - b->least) >> b->low) + 1;
    for (int64_t i = 0; i < s->n; i++) {
        const uint64_t key = key_at(s, i, wide);
        b->count[(key - b->least) >> b->low][key & 1]++;
    }
}

static inline uint32_t rows_of(const struct bins *b, int k)
{
    return b->count[k][0] + b->count[k][1];
}

static inline bool sorts(const struct bins *b, int k)
{
    return b->sorts[k >> 3] >> (k & 7) & 1;
}

/* Pool the bins, and find those whose corners lie on or below the edges. */
static void choose(struct bins *b, struct whole *pool, uint32_t rows)
{
    uint32_t at = 0, y = 0;
    int64_t n = 0;

    for (int k = 0; k < b->n; k++)
        if (rows_of(b, k)) {
            n = pool_block(pool, n, (struct whole){ at, b->count[k][1] }, at + rows_of(b, k));
            at += rows_of(b, k);
        }
    at = 0;
    for (int k = 0, i = -1; k < b->n; k++) {
        if (!rows_of(b, k))
            continue;
        if (i + 1 < n && at == pool[i + 1].first) {
            i++;
            y = 0; /* height above the start of the pool */
        }
        const uint32_t end = i + 1 < n ? pool[i + 1].first : rows;
        const uint64_t x = at + b->count[k][0] - pool[i].first;
        if ((uint64_t)y * (end - pool[i].first) <= x * pool[i].positive) {
            b->sorts[k >> 3] |= (uint8_t)(1 << (k & 7));
            b->sorted += rows_of(b, k);
        }
        at += rows_of(b, k);
        y += b->count[k][1];
    }
}

/* Copy the entries of these bins to another sample, which has room for one more. */
CTR_BODY void copy_chosen(const struct bins *b, const struct ctr_sample *s, struct ctr_sample *to, bool wide)
{
    int64_t n = 0;

    for (int64_t i = 0; i < s->n; i++) {
        const uint64_t key = key_at(s, i, wide);
        if (wide)
            ((uint64_t *)(void *)to->key.data)[n] = key;
        else
            ((uint32_t *)(void *)to->key.data)[n] = (uint32_t)key;
        n += sorts(b, (int)((key - b->least) >> b->low));
    }
    to->n = n;
}

/* Pool again, the sorted entries by their scores; returns the number of pools. */
static int64_t pool_mixed(const struct bins *b, const struct ctr_sample *entries, struct whole *pool)
{
    int64_t n = 0, e = 0;
    uint32_t at = 0;

    for (int k = 0; k < b->n; k++) {
        const uint32_t end = at + rows_of(b, k);
        struct whole x = { at, b->count[k][1] };
        if (at < end && !sorts(b, k))
            n = pool_block(pool, n, x, at = end);
        while (at < end) { /* a point: the entries of one score */
            const uint64_t score = ctr_sample_key(entries, e) >> 1;
            for (x = (struct whole){ at, 0 }; at < end && ctr_sample_key(entries, e) >> 1 == score; at++, e++)
                x.positive += ctr_sample_key(entries, e) & 1;
            n = pool_block(pool, n, x, at);
        }
    }
    return n;
}

/* The first and the last entry of a pool are sorted ones. */
static int put_pools(const struct bins *b, const struct ctr_sample *entries, const struct whole *pool, int64_t n,
                     uint32_t rows, struct ctr_buf *pools, struct ctr_err *err)
{
    uint32_t at = 0; /* the first entry of the bin; */
    int64_t e = 0;   /* of the sorted ones */
    int64_t low = 0, i = 0;
    int rc = 0;

    for (int k = 0; !rc && k < b->n; at += rows_of(b, k++)) {
        for (; !rc && i < n && pool[i].first < at + rows_of(b, k); i++) {
            const int64_t first = e + pool[i].first - at;
            if (i)
                rc = put_pool(pools, entries, pool[i - 1], pool[i].first, ctr_sample_key(entries, low),
                              ctr_sample_key(entries, first - 1), err);
            low = first;
        }
        e += sorts(b, k) ? rows_of(b, k) : 0;
    }
    return rc ? rc
              : put_pool(pools, entries, pool[n - 1], rows, ctr_sample_key(entries, low),
                         ctr_sample_key(entries, entries->n - 1), err);
}

/* Pairs within a bin are all lost, or all won. */
static void bound_auc(const struct bins *b, double auc[2])
{
    uint64_t count[2] = { 0 }, wins = 0, within = 0; /* twice the pairs */

    for (int k = 0; k < b->n; k++) {
        const uint64_t negative = b->count[k][0], positive = b->count[k][1];
        wins += 2 * positive * count[0];
        within += 2 * positive * negative;
        count[0] += negative;
        count[1] += positive;
    }
    for (int i = 0; i < 2; i++)
        auc[i] = (double)(wins + (i ? within : 0)) / 2 / ((double)count[0] * (double)count[1]);
}

int ctr_cal_pool_unsorted(struct ctr_sample *s, struct ctr_pool *threads, struct ctr_buf *pools, double auc[2],
                          struct ctr_err *err)
{
    struct bins *b = calloc(1, sizeof *b);
    struct ctr_sample entries = { .wide = s->wide };
    struct whole *pool = NULL;
    int rc = 0;

    if (!b)
        return ctr_fail_nomem(err, sizeof *b);
    s->wide ? fill(b, s, true) : fill(b, s, false);
    bound_auc(b, auc);
    pool = malloc((size_t)BINS * sizeof *pool);
    if (pool) {
        choose(b, pool, (uint32_t)s->n);
        free(pool);
        if (b->sorted > s->n / 2) { /* a copy of so many would take more memory than to sort the sample */
            free(b);
            rc = ctr_sample_sort(s, threads, err);
            return rc ? rc : ctr_cal_pool_sorted(s, pools, err);
        }
        pool = malloc(((size_t)BINS + b->sorted) * sizeof *pool);
        rc = ctr_sample_reserve(&entries, (int64_t)b->sorted / 2 + 1, err);
    }
    if (!rc && !pool)
        rc = ctr_fail_nomem(err, (size_t)BINS * sizeof *pool);
    if (!rc) {
        s->wide ? copy_chosen(b, s, &entries, true) : copy_chosen(b, s, &entries, false);
        rc = ctr_sample_sort(&entries, NULL, err);
    }
    if (!rc)
        rc = put_pools(b, &entries, pool, pool_mixed(b, &entries, pool), (uint32_t)s->n, pools, err);
    ctr_sample_free(&entries);
    free(pool);
    free(b);
    return rc;
}
