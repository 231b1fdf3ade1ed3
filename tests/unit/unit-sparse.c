/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse table: every key keeps its row through growth, rows do not move between reserves, memory stays within the
 * bound that the manual states, visits come in the order of keys. */
#include "common/table/table.h"

#include <stdlib.h>

#include "tap.h"

struct order {
    uint64_t last, n;
    bool ascending, right;
};

static int each(void *ctx, uint64_t key, const uint8_t *row, struct ctr_err *err)
{
    struct order *o = ctx;
    (void)err;
    uint64_t value;
    memcpy(&value, row + 8, 8);
    o->ascending &= o->n == 0 || key > o->last;
    o->right &= value == (key ^ 77);
    o->last = key;
    o->n++;
    return 0;
}

/* Add n keys made by step and shift (dense small integers, or spread ones), in blocks of `block`, checking the bound.
 */
static void test_growth(uint32_t stride, uint64_t n, uint64_t block, uint64_t factor, const char *name)
{
    struct ctr_sparse t;
    struct ctr_err err = { 0 };
    ctr_sparse_init(&t, stride);
    double worst = 0;
    bool stable = true, fresh = true, fits = true;
    for (uint64_t k = 0; k < n; k += block) {
        fits &= ctr_sparse_reserve(&t, block, &err) == 0;
        uint8_t *first = NULL;
        for (uint64_t i = k; i < k + block && i < n; i++) {
            uint64_t key = i * factor, h = ctr_sparse_hash(key), value;
            uint8_t *row = ctr_sparse_get(&t, h);
            memcpy(&value, row + 8, 8);
            fresh &= value == 0;
            value = key ^ 77;
            memcpy(row + 8, &value, 8);
            first = i == k ? row : first;
        }
        stable &= first == ctr_sparse_get(&t, ctr_sparse_hash(k * factor));
        if (t.used > 20000)
            worst =
                CTR_MAX(worst, (double)ctr_sparse_bytes(&t) / (double)(t.used + block)); /* room was made for a block */
    }
    ok(fits && fresh && stable, "%s: keys are added once, rows stay put within a block", name);
    ok(t.used == n, "%s: %llu keys", name, (unsigned long long)t.used);
    bool found = true, absent = true;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = 0;
        const uint8_t *row = ctr_sparse_find(&t, ctr_sparse_hash(i * factor));
        if (row)
            memcpy(&value, row + 8, 8);
        found &= row && value == (i * factor ^ 77);
        absent &= !ctr_sparse_find(&t, ctr_sparse_hash((n + i) * factor));
    }
    ok(found && absent, "%s: all are found again, others are not", name);
    uint64_t at = 0, seen = 0;
    while (ctr_sparse_next(&t, &at))
        seen++;
    ok(seen == n, "%s: a visit sees each once", name);
    struct order o = { .ascending = true, .right = true };
    ok(ctr_sparse_sorted(&t, each, &o, &err) == 0 && o.n == n && o.ascending && o.right, "%s: sorted by key", name);
    ok(worst < stride * CTR_SPARSE_SLACK * 1.03, "%s: at most %.1f bytes a key at any moment (bound %.1f)", name, worst,
       stride * CTR_SPARSE_SLACK);
    ctr_sparse_free(&t);
}

/* Keys that agree in the digits that tell others apart: a cluster, and one far away; and clusters at several places. */
static void test_order(void)
{
    const uint64_t apart[] = { UINT64_C(1) << 63, UINT64_C(1) << 55, UINT64_C(1) << 30 };
    struct ctr_err err = { 0 };
    for (size_t a = 0; a < CTR_COUNT(apart); a++) {
        struct order o = { .ascending = true, .right = true };
        struct ctr_sparse t;
        uint64_t n = 0;
        ctr_sparse_init(&t, 16);
        for (uint64_t k = 0; k < 50000 && !ctr_sparse_reserve(&t, 1, &err); k++, n++) {
            const uint64_t key = (k % 40 == 39) * apart[a] + ctr_random64(2, a, k % 3) + k * (k % 40 ? 1 : 7919),
                           value = key ^ 77;
            memcpy(ctr_sparse_get(&t, ctr_sparse_hash(key)) + 8, &value, 8);
        }
        ok(n == 50000 && !ctr_sparse_sorted(&t, each, &o, &err) && o.n == t.used && o.ascending && o.right,
           "clusters of keys, and some %#llx apart, are sorted", (unsigned long long)apart[a]);
        ctr_sparse_free(&t);
    }
}

static int by_key(const void *a, const void *b)
{
    const struct ctr_sparse_numbered *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Hashes, numbers from 1 on, few bits that differ, equal keys but one, both ends: any number of them. */
static void test_sort(void)
{
    enum { MOST = 40000, KINDS = 6 };
    struct ctr_sparse_numbered *a = calloc(3 * MOST, sizeof *a), *b = a + MOST, *right = b + MOST;
    const size_t sizes[] = { 0, 1, 2, 3, 1023, 1024, 5000, MOST };
    bool same = a;
    for (size_t kind = 0; a && kind < KINDS; kind++)
        for (size_t s = 0; s < CTR_COUNT(sizes); s++) {
            const size_t n = sizes[s];
            for (size_t i = 0; i < n; i++) {
                const uint64_t hash = ctr_random64(11, kind, i), key[KINDS] = {
                    hash, n - i, hash & UINT64_C(0x8000000000000007), i != n / 2, i % 2 ? UINT64_MAX - i : i, hash >> 30
                };
                a[i] = right[i] = (struct ctr_sparse_numbered){ key[kind], 1000000 + key[kind] % 1000 };
            }
            qsort(right, n, sizeof *right, by_key);
            same &= !memcmp(ctr_sparse_sort(a, b, n), right, n * sizeof *a);
        }
    ok(same, "keys of %d kinds are sorted, however many", KINDS);
    free(a);
}

/* Rows that run over the end when the table grows stay within its memory, however little room is asked for: here 40
 * rows whose home is always the last one. */
static void test_end(void)
{
    struct ctr_sparse t;
    struct ctr_err err = { 0 };
    bool within = true, fits = true;
    ctr_sparse_init(&t, 16);
    for (uint64_t k = 0; k < 40000 && fits; k++) {
        fits = ctr_sparse_reserve(&t, 1, &err) == 0;
        if (fits)
            ctr_sparse_get(&t, k < 40 ? UINT64_MAX - k : ctr_random64(1, 9, k));
        within &= t.end < t.slots;
    }
    ok(fits && within, "rows that run over the end have room there");
    ctr_sparse_free(&t);
}

static bool third(const void *ctx, const uint8_t *row)
{
    (void)ctx;
    return ctr_sparse_key(ctr_sparse_row_hash(row)) % 3 == 0;
}

/* What a filter keeps is found, the rest is not, at any moment of the growth; the table goes on growing. */
static void test_filter(void)
{
    struct ctr_err err = { 0 };
    bool right = true;
    int rc = 0;
    for (uint64_t n = 1; n < 30000; n = n * 5 / 4 + 1) {
        struct ctr_sparse t;
        ctr_sparse_init(&t, 20);
        for (uint64_t k = 0; k < n && !rc; k++) {
            rc = ctr_sparse_reserve(&t, 1, &err);
            if (!rc)
                memcpy(ctr_sparse_get(&t, ctr_sparse_hash(k)) + 8, &k, 8);
        }
        ctr_sparse_get(&t, 0); /* the key with a row of its own */
        rc = rc ? rc : ctr_sparse_filter(&t, third, NULL, &err);
        right &= t.used == (n + 2) / 3 + (ctr_sparse_key(0) % 3 == 0);
        for (uint64_t k = 0; k < n && !rc; k++) {
            const uint8_t *row = ctr_sparse_find(&t, ctr_sparse_hash(k));
            right &= k % 3 == 0 ? row && !memcmp(row + 8, &k, 8) : !row;
        }
        for (uint64_t k = 0; k < n && !rc; k++) {
            rc = ctr_sparse_reserve(&t, 1, &err);
            if (!rc)
                ctr_sparse_get(&t, ctr_sparse_hash(k));
        }
        right &= t.used == n + (ctr_sparse_key(0) % 3 == 0);
        ctr_sparse_free(&t);
    }
    ok(!rc && right, "a filter drops rows, and the table grows again");
}

/* However many keys come at once, no search is long: blocks of every share of a dense table's size. */
static void test_crowd(void)
{
    struct ctr_sparse t;
    struct ctr_err err = { 0 };
    uint64_t k = 0, longest = 0;
    bool fits = true;
    ctr_sparse_init_dense(&t, 12);
    for (uint64_t block = 1000; block < 100000; block += block / 3) {
        fits &= ctr_sparse_reserve(&t, block, &err) == 0;
        for (uint64_t i = 0; i < block; i++, k++) {
            const uint64_t h = ctr_sparse_hash(k);
            const uint64_t steps = (uint64_t)(ctr_sparse_get(&t, h) - ctr_sparse_home(&t, h)) / t.stride;
            longest = CTR_MAX(longest, steps);
        }
    }
    ok(fits && t.used == k, "blocks that grow: %llu keys", (unsigned long long)k);
    ok(longest < 2000, "the longest search took %llu steps", (unsigned long long)longest);
    ctr_sparse_free(&t);
}

/* Memory that is made ahead comes where the other lies, as zeros, or not at all. */
static void test_ahead(void)
{
    struct ctr_area a = { 0 };
    struct ctr_err err = { 0 };
    bool right = true;
    size_t ahead = 0;
    ctr_area_ahead(&a, 1000);
    ok(!a.base && !a.bytes, "nothing is made ahead of nothing");
    for (size_t n = 1000; n < 40 << 20 && right; n += n / 3) {
        right = !ctr_area_reserve(&a, n, &err);
        const uint8_t *base = a.base;
        const size_t before = a.bytes;
        memset(a.base, 1, n);
        ctr_area_ahead(&a, n + (3 << 20));
        right = right && a.base == base && a.bytes >= before && a.bytes <= a.reserved;
        for (size_t i = before; i < a.bytes; i++)
            right &= !a.base[i];
        ahead += a.bytes > before;
    }
    ok(right && ahead > 5, "memory made ahead %zu times: in its place, and 0", ahead);
    ctr_area_free(&a);
}

static void test_hashes(void)
{
    enum { KEYS = 101 };
    uint64_t key[KEYS], h[KEYS];
    const struct ctr_sparse_kernel *k;
    for (int j = 0; (k = ctr_sparse_kernel_at(j)); j++) {
        bool same = ctr_cpu_has((enum ctr_cpu)j);
        for (int i = 0; i < KEYS; i++)
            key[i] = ctr_random64(5, 0, (uint64_t)i);
        if (same)
            k->hash(key, KEYS, h);
        for (int i = 0; i < KEYS && same; i++)
            same = h[i] == ctr_sparse_hash(key[i]);
        if (ctr_cpu_has((enum ctr_cpu)j))
            ok(same, "kernel %s: hashes", k->name);
    }
}

int main(void)
{
    bool inverse = true;
    for (uint64_t i = 0; i < 1000; i++)
        inverse &= ctr_sparse_key(ctr_sparse_hash(ctr_random64(1, 2, i))) == ctr_random64(1, 2, i);
    ok(inverse, "the hash of a key can be undone");

    test_hashes();
    struct ctr_sparse t;
    struct ctr_err err = { 0 };
    ctr_sparse_init(&t, 16);
    ok(!ctr_sparse_find(&t, 5) && !ctr_sparse_find(&t, 0), "an empty table holds nothing");
    ok(ctr_sparse_reserve(&t, 4, &err) == 0, "room in an empty table");
    ok(!ctr_sparse_find(&t, 0), "the key whose hash is 0 is absent at first");
    uint8_t *zero = ctr_sparse_get(&t, 0);
    zero[8] = 9;
    ok(ctr_sparse_find(&t, 0) == zero && t.used == 1 && ctr_sparse_get(&t, 0)[8] == 9, "and has a row of its own");
    uint64_t at = 0;
    ok(ctr_sparse_next(&t, &at) == zero && !ctr_sparse_next(&t, &at), "which a visit sees");
    ctr_sparse_free(&t);

    test_growth(24, 300000, 64, 1, "small integers, 24 bytes");
    test_growth(16, 300000, 1000, 0x9e3779b97f4a7c15u, "spread keys, 16 bytes");
    test_growth(20, 100000, 64, 5, "rows of 20 bytes");
    test_growth(24, 5000, 5000, UINT64_C(1) << 40, "one block");
    test_growth(16, 2500000, 4096, 3, "several ranges in order");
    test_order();
    test_sort();
    test_crowd();
    test_end();
    test_ahead();
    test_filter();
    return done_testing();
}
