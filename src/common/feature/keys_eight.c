/* SPDX-License-Identifier: Apache-2.0
 *
 * keys_eight: keys of texts of eight bytes, such as hexadecimal categories, eight at a time. Invariant: the key is that
 * of opv_hash_4_8; without AVX-512 there are none. */
#include "common/feature/opint.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define EIGHT __attribute__((target("avx512f,avx512dq,avx512vl")))

/* opv_hash_4_8 of eight words in memory order. */
static inline EIGHT __m512i hash_eight(__m512i word, __m512i secret)
{
    const __m512i prime = _mm512_set1_epi64((long long)0x9fb21c651e98df25u);
    __m512i x = _mm512_xor_si512(_mm512_rol_epi64(word, 32), secret);
    x = _mm512_ternarylogic_epi64(x, _mm512_rol_epi64(x, 49), _mm512_rol_epi64(x, 24),
                                  0x96); /* exclusive or of three */
    x = _mm512_mullo_epi64(x, prime);
    x = _mm512_xor_si512(x, _mm512_add_epi64(_mm512_srli_epi64(x, 35), _mm512_set1_epi64(8)));
    x = _mm512_mullo_epi64(x, prime);
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 28));
}

static EIGHT int64_t keys_eight(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed,
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
        const __mmask8 there = (__mmask8)(bytes * 0x0102040810204080u >> 56);
        /* Eight bytes where there is a text, none where there is not: they lie one behind the other. */
        if (_mm256_cmpneq_epi32_mask(_mm256_sub_epi32(to, from), _mm256_maskz_mov_epi32(there, eight)))
            break;
        const __m512i word = _mm512_maskz_expandloadu_epi64(there, p + off[i]);
        _mm512_storeu_si512(out + i, _mm512_mask_mov_epi64(null, there, hash_eight(word, secret)));
    }
    return i;
}
#endif

int64_t ctr_keys_eight(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed,
                       uint64_t missing, uint64_t *out)
{
#if defined(__x86_64__)
    return keys_eight(p, off, ok, n, seed, missing, out);
#else
    (void)p, (void)off, (void)ok, (void)n, (void)seed, (void)missing, (void)out;
    return 0;
#endif
}
