/* SPDX-License-Identifier: Apache-2.0
 *
 * What tables of keys stand on: hashes that can be undone, sorting by key, memory that grows where it is. */
#include "common/table/table.h"

#include <stdlib.h>

#include "tap.h"

static void test_hashes(void)
{
    enum { KEYS = 101 };
    uint64_t key[KEYS], h[KEYS];
    const struct ctr_keyhash_kernel *k;
    for (int j = 0; (k = ctr_keyhash_kernel_at(j)); j++) {
        bool same = ctr_cpu_has((enum ctr_cpu)j);
        for (int i = 0; i < KEYS; i++)
            key[i] = ctr_random64(5, 0, (uint64_t)i);
        if (same)
            k->hash(key, KEYS, h);
        for (int i = 0; i < KEYS && same; i++)
            same = h[i] == ctr_key_hash(key[i]);
        if (ctr_cpu_has((enum ctr_cpu)j))
            ok(same, "kernel %s: hashes", k->name);
    }
}

static int by_key(const void *a, const void *b)
{
    const struct ctr_numbered *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Hashes, numbers from 1 on, few bits that differ, equal keys but one, both ends: any number of them. */
static void test_sort(void)
{
    enum { MOST = 40000, KINDS = 6 };
    struct ctr_numbered *a = calloc(3 * MOST, sizeof *a), *b = a + MOST, *right = b + MOST;
    const size_t sizes[] = { 0, 1, 2, 3, 1023, 1024, 5000, MOST };
    bool same = a;
    for (size_t kind = 0; a && kind < KINDS; kind++)
        for (size_t s = 0; s < CTR_COUNT(sizes); s++) {
            const size_t n = sizes[s];
            for (size_t i = 0; i < n; i++) {
                const uint64_t hash = ctr_random64(11, kind, i), key[KINDS] = {
                    hash, n - i, hash & UINT64_C(0x8000000000000007), i != n / 2, i % 2 ? UINT64_MAX - i : i, hash >> 30
                };
                a[i] = right[i] = (struct ctr_numbered){ key[kind], 1000000 + key[kind] % 1000 };
            }
            qsort(right, n, sizeof *right, by_key);
            same &= !memcmp(ctr_numbered_sort(a, b, n), right, n * sizeof *a);
        }
    ok(same, "keys of %d kinds are sorted, however many", KINDS);
    free(a);
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

int main(void)
{
    bool inverse = true;
    for (uint64_t i = 0; i < 1000; i++)
        inverse &= ctr_key_unhash(ctr_key_hash(ctr_random64(1, 2, i))) == ctr_random64(1, 2, i);
    ok(inverse, "the hash of a key can be undone");
    test_hashes();
    test_sort();
    test_ahead();
    return done_testing();
}
