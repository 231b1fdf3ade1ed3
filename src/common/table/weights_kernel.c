/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectorised look-ups for prediction: homes of a run of keys, and their contributions to sums. A key's home is one
 * cache line, so a vector of four compares its four keys at once; keys elsewhere or absent are few and are looked up
 * one by one. Every sum gets one term, so all instruction sets give the same result. */
#include "common/table/weights.h"

CTR_BODY void homes_body(const struct ctr_weights *t, const uint64_t *restrict h, int64_t n,
                         const uint64_t **restrict home)
{
    const uint64_t *const bucket = t->bucket, buckets = t->buckets, secret = ctr_hash_secret;
    for (int64_t i = 0; i < n && buckets <= UINT32_MAX; i++)
        home[i] = bucket + ((h[i] * secret >> 32) * (uint32_t)buckets >> 32) * CTR_BUCKET_WORDS;
    for (int64_t i = 0; i < n && buckets > UINT32_MAX; i++)
        home[i] = ctr_weights_home(t, h[i]);
}

CTR_BODY bool add_one(const struct ctr_weights_terms *s, int64_t i, const bool rates)
{
    int place;
    const uint64_t *b = ctr_weights_find(s->t, s->home[i], s->h[i], rates, &place);
    if (b)
        s->weight[i] += ctr_weights_weight(b, place, rates);
    if (rates)
        s->rate[i] += b ? ctr_weights_rate(b, place) : s->unseen_rate;
    return b;
}

CTR_BODY uint64_t add_ones(const struct ctr_weights_terms *s, const bool rates)
{
    const struct ctr_weights_terms of = *s; /* a copy: the compiler must assume that the sums alias it */
    uint64_t absent = 0;
    for (int64_t i = 0; i < of.n; i++) {
        __builtin_prefetch(of.ahead[i]);
        absent |= (uint64_t)!add_one(&of, i, rates) << i;
    }
    return absent;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Combine four vectors, each with at most one nonzero number, into a vector of these numbers. */
CTR_BODY __attribute__((target("avx2"))) __m256d join_fours(const __m256d v[4])
{
    const __m256d low = _mm256_or_pd(_mm256_unpacklo_pd(v[0], v[1]), _mm256_unpackhi_pd(v[0], v[1])),
                  high = _mm256_or_pd(_mm256_unpacklo_pd(v[2], v[3]), _mm256_unpackhi_pd(v[2], v[3]));
    return _mm256_or_pd(_mm256_permute2f128_pd(low, high, 0x20), _mm256_permute2f128_pd(low, high, 0x31));
}

CTR_BODY __attribute__((target("avx2"))) void add_to(double *sum, __m256d term)
{
    _mm256_storeu_pd(sum, _mm256_add_pd(_mm256_loadu_pd(sum), term));
}

/* Add keys [i, i + 4) that are in their home bucket; returns bits of those that contributed nothing: elsewhere, without
 * weight, or absent. An empty place has weight 0, so a hash of 0 gets nothing from it. */
CTR_BODY __attribute__((target("avx2"))) uint64_t add_four(const struct ctr_weights_terms *s, int64_t i,
                                                           const bool rates)
{
    const int places = ctr_weights_places(rates);
    __m256d weight[4], rate[4];
    for (int j = 0; j < 4; j++) {
        const uint64_t *b = s->home[i + j];
        const __m256i hash = _mm256_set1_epi64x((int64_t)s->h[i + j]);
        __m256d here = _mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_loadu_si256((const void *)b), hash));
        if (rates) { /* the fourth word is not a hash */
            here = _mm256_blend_pd(here, _mm256_setzero_pd(), 8);
            rate[j] = _mm256_and_pd(here, _mm256_cvtps_pd(_mm_loadu_ps((const float *)(const void *)(b + 6))));
        }
        weight[j] = _mm256_and_pd(here, _mm256_loadu_pd((const double *)(const void *)(b + places)));
    }
    __m256d any = join_fours(weight);
    add_to(s->weight + i, any);
    if (rates) {
        const __m256d joined = join_fours(rate);
        add_to(s->rate + i, joined);
        any = _mm256_or_pd(any, joined);
    }
    const __m256i none = _mm256_cmpeq_epi64(_mm256_castpd_si256(any), _mm256_setzero_si256());
    return (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(none));
}

CTR_BODY __attribute__((target("avx2"))) uint64_t add_fours(const struct ctr_weights_terms *s, const bool rates)
{
    const struct ctr_weights_terms of = *s;
    uint64_t left = 0, absent = 0;
    int64_t i = 0;
    for (; i + 4 <= of.n; i += 4) {
        for (int j = 0; j < 4; j++)
            __builtin_prefetch(of.ahead[i + j]);
        left |= add_four(&of, i, rates) << i;
    }
    for (; i < of.n; i++)
        left |= (uint64_t)1 << i;
    for (; left; left &= left - 1)
        absent |= add_one(&of, __builtin_ctzll(left), rates) ? 0 : left & -left;
    return absent;
}
#endif

#define DEFINE_KERNEL(isa, attributes, add)                                                                            \
    attributes static void homes_##isa(const struct ctr_weights *t, const uint64_t *restrict h, int64_t n,             \
                                       const uint64_t **restrict home)                                                 \
    {                                                                                                                  \
        homes_body(t, h, n, home);                                                                                     \
    }                                                                                                                  \
    attributes static uint64_t add_##isa(const struct ctr_weights_terms *s)                                            \
    {                                                                                                                  \
        return add(s, false);                                                                                          \
    }                                                                                                                  \
    attributes static uint64_t add_rated_##isa(const struct ctr_weights_terms *s)                                      \
    {                                                                                                                  \
        return add(s, true);                                                                                           \
    }

DEFINE_KERNEL(plain, CTR_FAST, add_ones)
#if defined(__x86_64__)
DEFINE_KERNEL(avx2, CTR_FAST_AVX2, add_fours)
/* A line has four places: wider vectors would gain nothing. */
#define homes_avx512     homes_avx2
#define add_avx512       add_avx2
#define add_rated_avx512 add_rated_avx2
#endif

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        homes_##isa, add_##isa, add_rated_##isa                                                                        \
    }
static const struct ctr_weights_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_weights_kernel *ctr_weights_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}
