/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of optimizer_fused.h on eight coordinates, with intrinsics where the compiler finds no single instruction
 * for its own vectors. Eight floats or counts fit a vector of AVX2, eight doubles one of AVX-512. optimizer_kernel.c
 * includes it. */
#include <immintrin.h>

/* Inlined into functions of the same or a larger instruction set. */
#define FOR_avx2   CTR_BODY __attribute__((target("avx2")))
#define FOR_avx512 CTR_BODY __attribute__((target("avx512f,avx512dq,avx512vl")))

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

#define EIGHT(call) call(0), call(1), call(2), call(3), call(4), call(5), call(6), call(7)

/* Eight words: their lower and upper halves to vectors, and back. */
typedef uint64_t quad __attribute__((vector_size(CTR_LANES * sizeof(uint64_t) / 2)));
#define WORD_AT(j) load_word(row[j] + 8)
FOR_avx2 void load_words_avx2(uint8_t *const *row, halves *lower, halves *upper)
{
    const __m256 a = (__m256)(quad){ WORD_AT(0), WORD_AT(1), WORD_AT(4), WORD_AT(5) },
                 b = (__m256)(quad){ WORD_AT(2), WORD_AT(3), WORD_AT(6), WORD_AT(7) };
    *lower = (halves)_mm256_shuffle_ps(a, b, 0x88);
    *upper = (halves)_mm256_shuffle_ps(a, b, 0xdd);
}
FOR_avx2 void store_words_avx2(uint8_t *const *row, halves lower, halves upper)
{
    static const int from[] = { 0, 1, 4, 5, 2, 3, 6, 7 };
    const quad both[] = { (quad)_mm256_unpacklo_epi32((__m256i)lower, (__m256i)upper),
                          (quad)_mm256_unpackhi_epi32((__m256i)lower, (__m256i)upper) };
    for (int j = 0; j < CTR_LANES; j++) {
        const uint64_t word = both[j / 4][j % 4];
        memcpy(row[from[j]] + 8, &word, sizeof word);
    }
}
FOR_avx512 void load_words_avx512(uint8_t *const *row, halves *lower, halves *upper)
{
    const halves a = (halves)(quad){ WORD_AT(0), WORD_AT(1), WORD_AT(2), WORD_AT(3) },
                 b = (halves)(quad){ WORD_AT(4), WORD_AT(5), WORD_AT(6), WORD_AT(7) };
    *lower = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    *upper = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}
FOR_avx512 void store_words_avx512(uint8_t *const *row, halves lower, halves upper)
{
    const quad both[] = { (quad)__builtin_shufflevector(lower, upper, 0, 8, 1, 9, 2, 10, 3, 11),
                          (quad)__builtin_shufflevector(lower, upper, 4, 12, 5, 13, 6, 14, 7, 15) };
    for (int j = 0; j < CTR_LANES; j++) {
        const uint64_t word = both[j / 4][j % 4];
        memcpy(row[j] + 8, &word, sizeof word);
    }
}
#undef WORD_AT

/* ---- numbers of either type, in vectors of either instruction set ---- */

typedef double four __attribute__((vector_size(4 * sizeof(double))));
typedef int64_t four_bits __attribute__((vector_size(4 * sizeof(int64_t))));
typedef lanes_f32 reals_f32_avx2, reals_f32_avx512;
typedef bits_f32 bits_f32_avx2, bits_f32_avx512;
typedef four reals_f64_avx2, doubles_avx2;
typedef four_bits bits_f64_avx2;
typedef lanes reals_f64_avx512, doubles_avx512;
typedef bits_f64 bits_f64_avx512;

FOR_avx2 four first_four(lanes_f32 v)
{
    return (four)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
}
FOR_avx2 four last_four(lanes_f32 v)
{
    return (four)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
}
FOR_avx2 lanes_f32 roots_f32(lanes_f32 v)
{
    return (lanes_f32)_mm256_sqrt_ps((__m256)v);
}

/* Eight doubles after the counts. */
#define REAL_AT(j) load_real(row[j] + 12)
FOR_avx2 void load_reals_avx2(uint8_t *const *row, four *to)
{
    to[0] = (four){ REAL_AT(0), REAL_AT(1), REAL_AT(2), REAL_AT(3) };
    to[1] = (four){ REAL_AT(4), REAL_AT(5), REAL_AT(6), REAL_AT(7) };
}
FOR_avx512 void load_reals_avx512(uint8_t *const *row, lanes *to)
{
    *to = (lanes){ EIGHT(REAL_AT) };
}
#undef REAL_AT

/* Convert eight floats to the type. */
FOR_avx2 void of_floats_f32(lanes_f32 v, lanes_f32 *to)
{
    *to = v;
}
FOR_avx2 void of_floats_f64_avx2(lanes_f32 v, four *to)
{
    to[0] = first_four(v);
    to[1] = last_four(v);
}
FOR_avx512 void of_floats_f64_avx512(lanes_f32 v, lanes *to)
{
    *to = (lanes)_mm512_cvtps_pd((__m256)v);
}
#define of_floats_f32_avx2   of_floats_f32
#define of_floats_f32_avx512 of_floats_f32

/* Products as doubles, added to the lanes of a dot product. */
FOR_avx2 void add_products_f32_avx2(four *sum, const lanes_f32 *w, const four *x)
{
    sum[0] += first_four(*w) * x[0];
    sum[1] += last_four(*w) * x[1];
}
FOR_avx2 void add_products_f64_avx2(four *sum, const four *w, const four *x)
{
    sum[0] += w[0] * x[0];
    sum[1] += w[1] * x[1];
}
FOR_avx512 void add_products_f32_avx512(lanes *sum, const lanes_f32 *w, const lanes *x)
{
    *sum += (lanes)_mm512_cvtps_pd((__m256)*w) * *x;
}
FOR_avx512 void add_products_f64_avx512(lanes *sum, const lanes *w, const lanes *x)
{
    *sum += *w * *x;
}

/* g x, in the type. */
FOR_avx2 void gradients_f32_avx2(double g, const four *x, lanes_f32 *to)
{
    const __m128 low = _mm256_cvtpd_ps((__m256d)(g * x[0])), high = _mm256_cvtpd_ps((__m256d)(g * x[1]));
    *to = (lanes_f32)_mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}
FOR_avx2 void gradients_f64_avx2(double g, const four *x, four *to)
{
    to[0] = g * x[0];
    to[1] = g * x[1];
}
FOR_avx512 void gradients_f32_avx512(double g, const lanes *x, lanes_f32 *to)
{
    *to = (lanes_f32)_mm512_cvtpd_ps((__m512d)(g * *x));
}
FOR_avx512 void gradients_f64_avx512(double g, const lanes *x, lanes *to)
{
    *to = g * *x;
}

/* ---- draws ---- */

/* For keys in one event, see struct ctr_event. */
FOR_avx2 halves draw_x8(const uint32_t *hash, uint32_t draw)
{
    halves x;
    memcpy(&x, hash, sizeof x);
    return x + draw;
}

/* Counts after one more event where x is not 0, as in advance_counts. */
FOR_avx2 halves count_x8_avx2(halves count, halves draw, uint32_t shift, const four *x)
{
    const halves own = count >> shift & 0xffff, below = ~(~(halves){ 0 } << (own >> CTR_COUNT_BITS));
    const __m256 used[] = { (__m256)(x[0] != 0), (__m256)(x[1] != 0) };
    const halves hit = (halves)_mm256_permute4x64_epi64((__m256i)_mm256_shuffle_ps(used[0], used[1], 0x88), 0xd8) &
                       (halves)(own != 0xffff) & (halves)((draw & below) == 0);
    return count + (hit & 1u << shift);
}
FOR_avx512 halves count_x8_avx512(halves count, halves draw, uint32_t shift, const lanes *x)
{
    const halves own = count >> shift & 0xffff, below = ~(~(halves){ 0 } << (own >> CTR_COUNT_BITS));
    const __mmask8 used = _mm512_cmp_pd_mask((__m512d)*x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    const __mmask8 more = _mm256_mask_cmpneq_epi32_mask(used, (__m256i)own, _mm256_set1_epi32(0xffff));
    const __mmask8 hit = _mm256_mask_testn_epi32_mask(more, (__m256i)draw, (__m256i)below);
    return (halves)_mm256_mask_add_epi32((__m256i)count, hit, (__m256i)count, _mm256_set1_epi32(1 << shift));
}

/* Roots of PN/(N+P), as in ctr_count_mean. */
FOR_avx2 lanes_f32 roots_of_counts(halves count)
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

/* round_any; clips gets -1 for each clipped value. The result has q in its upper half. */
FOR_avx2 halves round_x8(lanes_f32 z, halves draw, shorts *clips)
{
    const __m256 least = _mm256_set1_ps(-0x1p31f), most = _mm256_set1_ps(0x7fffp16f);
    const lanes_f32 t = z * 0x1p29f, in = (lanes_f32)_mm256_min_ps(_mm256_max_ps((__m256)t, least), most);
    *clips += in != t;
    return (halves)_mm256_cvttps_epi32((__m256)in) + (draw >> 16);
}
