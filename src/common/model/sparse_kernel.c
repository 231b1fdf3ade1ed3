/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of sparse tables that vectorise: hashes of a column of keys, homes of a row of hashes. One body, compiled
 * for the instruction sets that help; integers, so that all agree. */
#include "common/model/sparse.h"

#define BODY static inline __attribute__((always_inline))

BODY void hash_body(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)
{
    for (int64_t i = 0; i < n; i++)
        h[i] = ctr_sparse_hash(key[i]);
}

BODY void home_body(const struct ctr_sparse_homes *t, uint64_t stride, const uint64_t *restrict h, int64_t k,
                    uint8_t **restrict home)
{
    uint8_t *const *restrict rows = t->rows;
    const uint64_t *restrict size = t->size, *restrict old_size = t->old_size, *restrict frontier = t->frontier;
    for (int64_t i = 0; i < k; i++) {
        uint64_t top = h[i] >> 32, at = top * size[i] >> 32, before = top * old_size[i] >> 32;
        home[i] = rows[i] + (before < frontier[i] ? before : at) * stride;
    }
}

#define FAST __attribute__((optimize("O3")))
#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static void hash_##isa(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)                   \
    {                                                                                                                  \
        hash_body(key, n, h);                                                                                          \
    }                                                                                                                  \
    attributes static void home_##isa(const struct ctr_sparse_homes *t, uint64_t stride, const uint64_t *restrict h,   \
                                      int64_t k, uint8_t **restrict home)                                              \
    {                                                                                                                  \
        home_body(t, stride, h, k, home);                                                                              \
    }

DEFINE_KERNEL(plain, FAST)
static bool usable_plain(void)
{
    return true;
}

#if defined(__x86_64__)
DEFINE_KERNEL(avx2, FAST __attribute__((target("avx2"))))
static bool usable_avx2(void)
{
    return ctr_cpu_may(CTR_CPU_AVX2);
}
DEFINE_KERNEL(avx512, FAST __attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512"))))
static bool usable_avx512(void)
{
    return ctr_cpu_may(CTR_CPU_AVX512);
}
#endif

static const struct ctr_sparse_kernel kernels[] = {
#if defined(__x86_64__)
    { "avx512", usable_avx512, hash_avx512, home_avx512 },
    { "avx2", usable_avx2, hash_avx2, home_avx2 },
#endif
    { "plain", usable_plain, hash_plain, home_plain },
};

const struct ctr_sparse_kernel *ctr_sparse_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}

const struct ctr_sparse_kernel *ctr_sparse_kernel_best(void)
{
    int i = 0;
    while (!kernels[i].usable())
        i++;
    return &kernels[i];
}
