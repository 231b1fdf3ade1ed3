/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys in ascending order (sorted.h). Keys are hashes, so that two passes of a radix sort and an insertion sort suffice
 * for a range. */
#include "common/base/isa.h"
#include "common/table/sorted.h"

#include <stdlib.h>

/* Keys sorted at a time, at least: twice 16 bytes each. */
enum { RANGE_KEYS = 1 << 16 };

/* Ranges of keys that are collected and sorted one after another: of a table that is all that there is an eighth of its
 * keys each, which is little beside the table; where it is one of many, more, since each range is a pass over it. */
static uint64_t ranges_of(const struct ctr_sorted_of *of)
{
    enum { OF_TABLE = 8, OF_ALL = 16 };
    const uint64_t some = CTR_MAX(RANGE_KEYS, CTR_MAX(of->keys / OF_TABLE, of->all / OF_ALL));
    return CTR_MAX((of->keys + some - 1) / some, 1);
}

/* Sort by the digit of `bits` bits at `shift` of the distance from `low`; false: all digits are equal, and b is
 * unchanged. */
CTR_BODY bool sort_digit(const struct ctr_numbered *a, struct ctr_numbered *b, size_t n, uint64_t low, int shift,
                         int bits)
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
static bool insertion_sort(struct ctr_numbered *a, size_t n)
{
    size_t steps = 0;
    for (size_t i = 1; i < n && steps <= n; i++) {
        const struct ctr_numbered own = a[i];
        size_t to = i;
        for (; to && a[to - 1].key > own.key && steps <= n; to--, steps++)
            a[to] = a[to - 1];
        a[to] = own;
    }
    return steps <= n;
}

/* Keys are usually hashes: most differ within 22 bits from the first differing bit. Otherwise all digits are sorted,
 * least significant first. */
struct ctr_numbered *ctr_numbered_sort(struct ctr_numbered *a, struct ctr_numbered *b, size_t n)
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
                struct ctr_numbered *swap = a;
                a = b;
                b = swap;
            }
        if (insertion_sort(a, n))
            break;
    }
    return a;
}

/* The upper bounds (inclusive) of the ranges, from an evenly spaced sample. */
static int make_bounds(const struct ctr_sorted_of *of, uint64_t **bounds, size_t *n, struct ctr_err *err)
{
    size_t ranges = ranges_of(of), want = ranges * 64, got = 0;
    uint64_t *sample = malloc((want + 1) * sizeof *sample);
    if (!sample)
        return ctr_fail_nomem(err, (want + 1) * sizeof *sample);
    for (uint64_t i = 0; i < of->places && ranges > 1 && got < want; i = CTR_MAX(i + 1, of->places / want * got)) {
        while (i < of->places && !of->first(of->table, i, &sample[got]))
            i++;
        got += i < of->places;
    }
    qsort(sample, got, sizeof *sample, ctr_by_u64);
    *n = 0;
    for (size_t r = 1; r < ranges && got; r++)
        sample[(*n)++] = sample[r * got / ranges]; /* n < r * got / ranges: reads stay ahead of writes */
    sample[(*n)++] = UINT64_MAX;
    *bounds = sample;
    return 0;
}

/* Collect the keys in [low, high]. */
static int collect(const struct ctr_sorted_of *of, uint64_t low, uint64_t high, struct ctr_buf *into,
                   struct ctr_err *err)
{
    enum { PART = 1024 }; /* keys */
    const uint64_t ranges = ranges_of(of), keys = of->keys / ranges + (ranges > 1 ? of->keys / 64 + RANGE_KEYS / 4 : 0),
                   some = PART / of->each;
    const size_t size = sizeof(struct ctr_numbered), room = (size_t)(some * of->each + CTR_SORTED_SPARE) * size;
    ctr_buf_clear(into);
    int rc = ctr_buf_reserve(into, CTR_MIN(keys, of->keys) * size + room, err);
    if (!rc && of->outside && of->outside->key - low <= high - low)
        rc = ctr_buf_append(into, of->outside, size, err);
    for (uint64_t i = 0; i < of->places && !rc; i += some) {
        if ((rc = ctr_buf_reserve(into, room, err)))
            break;
        struct ctr_numbered *e = (struct ctr_numbered *)(void *)(into->data + into->len);
        into->len += (size_t)of->collect(of->table, i, CTR_MIN(of->places - i, some), low, high - low, e) * size;
    }
    return rc;
}

int ctr_sorted_ranges(const struct ctr_sorted_of *of, ctr_sorted_range *range, void *ctx, struct ctr_err *err)
{
    struct ctr_buf a = { 0 }, b = { 0 };
    uint64_t *bounds = NULL;
    size_t n = 0;
    int rc = make_bounds(of, &bounds, &n, err);
    if (rc)
        return rc;
    for (size_t r = 0; r < n && !rc; r++) {
        if (r && bounds[r] == bounds[r - 1])
            continue;
        if ((rc = collect(of, r ? bounds[r - 1] + 1 : 0, bounds[r], &a, err)))
            break;
        ctr_buf_clear(&b);
        if ((rc = ctr_buf_reserve(&b, a.len, err)))
            break;
        size_t entries = a.len / sizeof(struct ctr_numbered);
        rc = range(
            ctx,
            ctr_numbered_sort((struct ctr_numbered *)(void *)a.data, (struct ctr_numbered *)(void *)b.data, entries),
            entries, err);
    }
    free(bounds);
    ctr_buf_free(&a);
    ctr_buf_free(&b);
    return rc;
}
