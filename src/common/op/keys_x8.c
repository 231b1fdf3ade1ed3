/* SPDX-License-Identifier: Apache-2.0
 *
 * keys_x8: keys of texts of eight bytes, such as hexadecimal categories, eight at a time (AVX-512) or four (AVX2).
 * Invariant: the key equals that of opv_hash_4_8; not available without AVX2. */
#include "common/base/isa.h"
#include "common/op/opint.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define EIGHT __attribute__((target("avx512f,avx512dq,avx512vl")))

/* opv_hash_4_8 of eight words in memory order. */
static inline EIGHT __m512i hash_eight(__m512i word, __m512i secret)
{
    const __m512i prime = _mm512_set1_epi64((long long)0x9fb21c651e98df25u);
    __m512i x = _mm512_xor_si512(_mm512_rol_epi64(word, 32), secret);
    x = _mm512_ternarylogic_epi64(x, _mm512_rol_epi64(x, 49), _mm512_rol_epi64(x, 24),
                                  0x96); /* exclusive or of all three */
    x = _mm512_mullo_epi64(x, prime);
    x = _mm512_xor_si512(x, _mm512_add_epi64(_mm512_srli_epi64(x, 35), _mm512_set1_epi64(8)));
    x = _mm512_mullo_epi64(x, prime);
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 28));
}

static EIGHT int64_t keys_x8(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed,
                             uint64_t missing, uint64_t *out)
{
    const uint64_t high = (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
    const __m512i secret = _mm512_set1_epi64((long long)(0xc73ab174c5ecd5a2u - (seed ^ high)));
    const __m512i null = _mm512_set1_epi64((long long)missing);
    const __m256i eight = _mm256_set1_epi32(8);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i from = _mm256_loadu_si256((const void *)(off + i)),
                      to = _mm256_loadu_si256((const void *)(off + i + 1));
        uint64_t bytes = 0x0101010101010101u;
        if (ok)
            memcpy(&bytes, ok + i, 8);
        const __mmask8 there = (__mmask8)ctr_bool_bits(bytes);
        /* Every present text has eight bytes, every null none, and they are adjacent. */
        if (_mm256_cmpneq_epi32_mask(_mm256_sub_epi32(to, from), _mm256_maskz_mov_epi32(there, eight)))
            break;
        const __m512i word = _mm512_maskz_expandloadu_epi64(there, p + off[i]);
        _mm512_storeu_si512(out + i, _mm512_mask_mov_epi64(null, there, hash_eight(word, secret)));
    }
    return i;
}

#define FOUR __attribute__((target("avx2")))

/* x times 0x9fb21c651e98df25. */
static inline FOUR __m256i times_prime(__m256i x)
{
    const __m256i low = _mm256_set1_epi64x(0x1e98df25), high = _mm256_set1_epi64x(0x9fb21c65);
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), low), _mm256_mul_epu32(x, high));
    return _mm256_add_epi64(_mm256_mul_epu32(x, low), _mm256_slli_epi64(cross, 32));
}

static inline FOUR __m256i rotated(__m256i x, int n)
{
    return _mm256_or_si256(_mm256_slli_epi64(x, n), _mm256_srli_epi64(x, 64 - n));
}

/* opv_hash_4_8 of four words in memory order. */
static inline FOUR __m256i hash_four(__m256i word, __m256i secret)
{
    __m256i x = _mm256_xor_si256(_mm256_shuffle_epi32(word, 0xb1), secret); /* swap halves */
    x = times_prime(_mm256_xor_si256(x, _mm256_xor_si256(rotated(x, 49), rotated(x, 24))));
    x = times_prime(_mm256_xor_si256(x, _mm256_add_epi64(_mm256_srli_epi64(x, 35), _mm256_set1_epi64x(8))));
    return _mm256_xor_si256(x, _mm256_srli_epi64(x, 28));
}

/* Words are adjacent, and m has a bit for each place with a word: selects the halves for the four places. */
#define HALVES(k) 2 * __builtin_popcount(k), 2 * __builtin_popcount(k) + 1
#define PLACES(m)                                                                                                      \
    {                                                                                                                  \
        HALVES(0), HALVES((m)&1), HALVES((m)&3), HALVES((m)&7)                                                         \
    }
static const int32_t places[16][8] = { PLACES(0),  PLACES(1),  PLACES(2),  PLACES(3), PLACES(4),  PLACES(5),
                                       PLACES(6),  PLACES(7),  PLACES(8),  PLACES(9), PLACES(10), PLACES(11),
                                       PLACES(12), PLACES(13), PLACES(14), PLACES(15) };

static FOUR int64_t keys_four(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed,
                              uint64_t missing, uint64_t *out)
{
    const uint64_t high = (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
    const __m256i secret = _mm256_set1_epi64x((long long)(0xc73ab174c5ecd5a2u - (seed ^ high)));
    const __m256i null = _mm256_set1_epi64x((long long)missing), order = _mm256_setr_epi64x(0, 1, 2, 3);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128i from = _mm_loadu_si128((const void *)(off + i)),
                      to = _mm_loadu_si128((const void *)(off + i + 1));
        uint32_t bytes = 0x01010101;
        if (ok)
            memcpy(&bytes, ok + i, 4);
        const __m128i there = _mm_cvtepu8_epi32(_mm_cvtsi32_si128((int)bytes));
        if (_mm_movemask_epi8(_mm_cmpeq_epi32(_mm_sub_epi32(to, from), _mm_slli_epi32(there, 3))) != 0xffff)
            break;
        const __m256i absent = _mm256_cmpeq_epi64(_mm256_cvtepu32_epi64(there), _mm256_setzero_si256());
        const __m256i words = _mm256_set1_epi64x((off[i + 4] - off[i]) / 8);
        const __m256i word = _mm256_maskload_epi64((const void *)(p + off[i]), _mm256_cmpgt_epi64(words, order));
        const int32_t *place = places[bytes * 0x10204080u >> 28];
        const __m256i spread = _mm256_permutevar8x32_epi32(word, _mm256_loadu_si256((const void *)place));
        _mm256_storeu_si256((void *)(out + i), _mm256_blendv_epi8(hash_four(spread, secret), null, absent));
    }
    return i;
}
#endif

int64_t ctr_keys_x8(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed, uint64_t missing,
                    uint64_t *out)
{
#if defined(__x86_64__)
    return (ctr_cpu_has(CTR_CPU_AVX512) ? keys_x8 : keys_four)(p, off, ok, n, seed, missing, out);
#else
    (void)p, (void)off, (void)ok, (void)n, (void)seed, (void)missing, (void)out;
    return 0;
#endif
}
