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
FUSED_BODY lanes of_floats_f64(lanes_f32 v)
{
    return widen_f32(v);
}

/* ---- draws ---- */

/* Of keys in one event, see struct ctr_event. */
FUSED_BODY halves draw_eight(const uint32_t *hash, uint32_t draw)
{
    halves x;
    memcpy(&x, hash, sizeof x);
    return x + draw;
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

/* Roots of PN/(N+P), as count_mean has it. */
FUSED_BODY lanes_f32 roots_of_counts(halves count)
{
    const halves codes[2] = { count & 0xffff, count >> 16 };
    lanes_f32 seen[2];
    for (int i = 0; i < 2; i++) {
        const halves bits = (codes[i] << (23 - CTR_COUNT_BITS)) + ((uint32_t)(127 + CTR_COUNT_BITS) << 23);
        seen[i] = (lanes_f32)bits - (float)(1 << CTR_COUNT_BITS);
    }
    const lanes_f32 sum = seen[0] + seen[1];
    return roots_f32(seen[0] * seen[1] / (lanes_f32)_mm256_max_ps((__m256)sum, _mm256_set1_ps(1)));
}

/* round_any; clips gets -1 for each that is cut off. What returns has q in its upper half. */
FUSED_BODY halves round_eight(lanes_f32 z, halves draw, shorts *clips)
{
    const __m256 least = _mm256_set1_ps(-0x1p31f), most = _mm256_set1_ps(0x7fffp16f);
    const lanes_f32 t = z * 0x1p29f, in = (lanes_f32)_mm256_min_ps(_mm256_max_ps((__m256)t, least), most);
    *clips += in != t;
    return (halves)_mm256_cvttps_epi32((__m256)in) + (draw >> 16);
}
