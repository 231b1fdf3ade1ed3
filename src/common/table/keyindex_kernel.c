/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of the index of keys that vectorise: homes of hashes, numbers of keys in their home lines, keys of a range.
 * Integer operations, so all instruction sets give the same result. */
#include "common/base/isa.h"
#include "common/table/keyindex.h"

CTR_BODY void homes_body(const struct ctr_keyindex *t, const uint64_t *restrict h, int64_t n,
                         struct ctr_keyline **restrict home)
{
    const uint64_t size = t->size, old_size = t->old_size, frontier = t->frontier, secret = ctr_hash_secret;
    struct ctr_keyline *const line = t->line;
    for (int64_t i = 0; i < n && size <= UINT32_MAX; i++) {
        const uint64_t top = h[i] * secret >> 32, at = top * size >> 32, before = top * old_size >> 32;
        home[i] = line + (before < frontier ? before : at);
    }
    for (int64_t i = 0; i < n && size > UINT32_MAX; i++)
        home[i] = ctr_keyindex_home(t, h[i]);
}

/* ---- numbers in home lines ---- */

/* A bit for each place of a line that has hash h. */
typedef unsigned match_line(const struct ctr_keyline *l, uint64_t h);

CTR_BODY uint64_t find_body(const uint64_t *restrict h, struct ctr_keyline *const *restrict home, int64_t k,
                            uint32_t *restrict number, match_line *match)
{
    uint64_t others = 0;
    for (int64_t i = 0; i < k; i++) {
        const unsigned bits = match(home[i], h[i]);
        const uint32_t *words = (const uint32_t *)(const void *)home[i] + 2 * CTR_KEYLINE_KEYS;
        number[i] = words[__builtin_ctz(bits | 1u << CTR_KEYLINE_KEYS)]; /* of those not found: n */
        others |= (uint64_t)(!bits | !h[i]) << i;
    }
    return others;
}

CTR_BODY unsigned match_plain(const struct ctr_keyline *l, uint64_t h)
{
    return ctr_keyline_match(l, h);
}

#if defined(__x86_64__)
#include <immintrin.h>

CTR_BODY __attribute__((target("avx2"))) unsigned match_avx2(const struct ctr_keyline *l, uint64_t h)
{
    const __m256i four = _mm256_cmpeq_epi64(_mm256_loadu_si256((const void *)l->hash), _mm256_set1_epi64x((int64_t)h));
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(four)) | (unsigned)(l->hash[4] == h) << 4;
}

CTR_BODY __attribute__((target("avx512f,avx512dq"))) unsigned match_avx512(const struct ctr_keyline *l, uint64_t h)
{
    return _mm512_cmpeq_epi64_mask(_mm512_loadu_si512(l), _mm512_set1_epi64((int64_t)h)) & 0x1f;
}
#endif

/* ---- keys of a range ---- */

/* Every place is written and few are kept: a branch would be mispredicted too often. */
CTR_BODY uint64_t collect_each(const struct ctr_keyline *line, uint64_t n, uint64_t low, uint64_t span,
                               struct ctr_numbered *e)
{
    uint64_t got = 0;
    for (uint64_t i = 0; i < n; i++, line++)
        for (int j = 0; j < CTR_KEYLINE_KEYS; j++) {
            const uint64_t h = line->hash[j], key = ctr_key_unhash(h);
            e[got] = (struct ctr_numbered){ key, line->number[j] };
            got += (key - low <= span) & (h != 0);
        }
    return got;
}

#if defined(__x86_64__)
typedef uint64_t lanes __attribute__((vector_size(64)));

/* The same for a line at a time. */
CTR_BODY __attribute__((target("avx512f,avx512dq"))) uint64_t
collect_lines(const struct ctr_keyline *line, uint64_t n, uint64_t low, uint64_t span, struct ctr_numbered *e)
{
    const struct ctr_numbered *const from = e;
    const __m512i spread = _mm512_setr_epi32(10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 0, 0, 0, 0, 0, 0);
    for (uint64_t i = 0; i < n; i++, line++) {
        const __m512i all = _mm512_loadu_si512(line), number = _mm512_maskz_permutexvar_epi32(0x155, spread, all);
        const lanes h = (lanes)all;
        lanes key;
        for (int j = 0; j < 8; j++)
            key[j] = ctr_key_unhash(h[j]);
        const __mmask8 in = _mm512_mask_cmple_epu64_mask(_mm512_test_epi64_mask(all, all) & 0x1f, (__m512i)(key - low),
                                                         _mm512_set1_epi64((int64_t)span));
        const lanes keys = (lanes)_mm512_maskz_compress_epi64(in, (__m512i)key);
        const lanes numbers = (lanes)_mm512_maskz_compress_epi64(in, number);
        const lanes first = __builtin_shufflevector(keys, numbers, 0, 8, 1, 9, 2, 10, 3, 11),
                    last = __builtin_shufflevector(keys, numbers, 4, 12, 5, 13, 6, 14, 7, 15);
        memcpy(e, &first, sizeof first);
        memcpy(e + 4, &last, sizeof last);
        e += __builtin_popcount(in);
    }
    return (uint64_t)(e - from);
}
#endif

#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static void homes_##isa(const struct ctr_keyindex *t, const uint64_t *restrict h, int64_t n,            \
                                       struct ctr_keyline **restrict home)                                             \
    {                                                                                                                  \
        homes_body(t, h, n, home);                                                                                     \
    }                                                                                                                  \
    attributes static uint64_t find_##isa(const uint64_t *restrict h, struct ctr_keyline *const *restrict home,        \
                                          int64_t k, uint32_t *restrict number)                                        \
    {                                                                                                                  \
        return find_body(h, home, k, number, match_##isa);                                                             \
    }                                                                                                                  \
    attributes static uint64_t collect_##isa(const struct ctr_keyindex *t, uint64_t first, uint64_t n, uint64_t low,   \
                                             uint64_t span, struct ctr_numbered *e)                                    \
    {                                                                                                                  \
        return COLLECT_##isa(t->line + first, n, low, span, e);                                                        \
    }
#define COLLECT_plain  collect_each
#define COLLECT_avx2   collect_each
#define COLLECT_avx512 collect_lines

CTR_EACH_ISA(DEFINE_KERNEL)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
#isa, homes_##isa, find_##isa, collect_##isa                                                                   \
    }
static const struct ctr_keyindex_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_keyindex_kernel *ctr_keyindex_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}
