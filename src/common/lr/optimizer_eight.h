/* SPDX-License-Identifier: Apache-2.0
 *
 * What optimizer_fused.h does with vectors of eight, by instructions of AVX-512 where the compiler finds no single ones
 * for its own vectors. optimizer_kernel.c includes it. */
#include <immintrin.h>

#define FUSED_BODY CTR_BODY __attribute__((target("avx512f,avx512dq,avx512vl")))

/* ---- memory ---- */

#define DEFINE_LOAD(name, type)                                                                                        \
    CTR_BODY type name(const uint8_t *from)                                                                            \
    {                                                                                                                  \
        type v;                                                                                                        \
        memcpy(&v, from, sizeof v);                                                                                    \
        return v;                                                                                                      \
    }
DEFINE_LOAD(load_word, uint64_t)
DEFINE_LOAD(load_half, uint32_t)
DEFINE_LOAD(load_quarter, int16_t)
DEFINE_LOAD(load_real, double)

/* Eight words as two vectors: their lower and upper halves, and back. */
typedef uint64_t quad __attribute__((vector_size(CTR_LANES * sizeof(uint64_t) / 2)));
struct eight_words {
    halves in[2];
};
#define LOWER(w) __builtin_shufflevector((w).in[0], (w).in[1], 0, 2, 4, 6, 8, 10, 12, 14)
#define UPPER(w) __builtin_shufflevector((w).in[0], (w).in[1], 1, 3, 5, 7, 9, 11, 13, 15)
#define JOIN(lo, up)                                                                                                   \
    {                                                                                                                  \
        {                                                                                                              \
            __builtin_shufflevector(lo, up, 0, 8, 1, 9, 2, 10, 3, 11),                                                 \
                __builtin_shufflevector(lo, up, 4, 12, 5, 13, 6, 14, 7, 15)                                            \
        }                                                                                                              \
    }
#define WORDS(call)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            (halves)(quad){ call(0), call(1), call(2), call(3) }, (halves)(quad)                                       \
            {                                                                                                          \
                call(4), call(5), call(6), call(7)                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }
#define EIGHT(call) call(0), call(1), call(2), call(3), call(4), call(5), call(6), call(7)

/* ---- numbers of either type ---- */

FUSED_BODY lanes widen_f32(lanes_f32 v)
{
    return (lanes)_mm512_cvtps_pd((__m256)v);
}
FUSED_BODY lanes_f32 narrow_f32(lanes v)
{
    return (lanes_f32)_mm512_cvtpd_ps((__m512d)v);
}
FUSED_BODY lanes_f32 roots_f32(lanes_f32 v)
{
    return (lanes_f32)_mm256_sqrt_ps((__m256)v);
}
FUSED_BODY lanes_f32 at_least_one_f32(lanes_f32 v)
{
    return (lanes_f32)_mm256_max_ps((__m256)v, _mm256_set1_ps(1));
}
FUSED_BODY lanes_f32 of_floats_f32(lanes_f32 v)
{
    return v;
}
FUSED_BODY lanes widen_f64(lanes v)
{
    return v;
}
FUSED_BODY lanes narrow_f64(lanes v)
{
    return v;
}
FUSED_BODY lanes roots_f64(lanes v)
{
    return (lanes)_mm512_sqrt_pd((__m512d)v);
}
FUSED_BODY lanes at_least_one_f64(lanes v)
{
    return (lanes)_mm512_max_pd((__m512d)v, _mm512_set1_pd(1));
}
FUSED_BODY lanes of_floats_f64(lanes_f32 v)
{
    return widen_f32(v);
}

/* ---- draws ---- */

/* scatter_bits of hashes and a draw. */
FUSED_BODY halves draw_eight(const uint32_t *hash, uint32_t draw)
{
    halves x;
    memcpy(&x, hash, sizeof x);
    x += draw;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Counts of one event more where x is not 0, as advance_counts has them. */
FUSED_BODY halves count_eight(halves count, halves draw, uint32_t shift, lanes x)
{
    const halves own = count >> shift & 0xffff, below = ~(~(halves){ 0 } << (own >> CTR_COUNT_BITS));
    const __mmask8 used = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    const __mmask8 more = _mm256_mask_cmpneq_epi32_mask(used, (__m256i)own, _mm256_set1_epi32(0xffff));
    const __mmask8 hit = _mm256_mask_testn_epi32_mask(more, (__m256i)draw, (__m256i)below);
    return (halves)_mm256_mask_add_epi32((__m256i)count, hit, (__m256i)count, _mm256_set1_epi32(1 << shift));
}

/* round_any, given u; clips gets -1 for each that is cut off. */
FUSED_BODY shorts round_eight(lanes_f32 z, lanes_f32 u, shorts *clips)
{
    const __m256 t = _mm256_mul_ps((__m256)z, _mm256_set1_ps(8192));
    const __m256 in = _mm256_min_ps(_mm256_max_ps(t, _mm256_set1_ps(-32768)), _mm256_set1_ps(32767));
    const __m256 down = _mm256_roundscale_ps(in, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    *clips += (lanes_f32)in != (lanes_f32)t;
    return (shorts)_mm256_cvttps_epi32(down) - ((lanes_f32)in - (lanes_f32)down > u);
}
