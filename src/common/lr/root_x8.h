/* SPDX-License-Identifier: Apache-2.0
 *
 * root_x8: square roots of eight doubles, correctly rounded, by multiplications: a processor with one slow unit for
 * roots and divisions uses both at once if every other root is computed this way. It saves 10% of the time with 16
 * variants.
 *
 * From the processor's estimate y = (1 + e) / sqrt(a) with |e| < 2^-14, a Newton step gives g and 2h, which are sqrt(a)
 * and its inverse up to factors of 1 - 1.5 e^2; the error of g + (a - g^2) h is then 3.4 e^4, less than .43 ulp. So the
 * rounded root is either t, that value rounded down, or the next number above: the latter if a > t * above (Tuckerman's
 * test), because a and t^2 are multiples of the square of t's ulp. One fused multiplication decides it for any
 * estimate, as long as nothing overflows or becomes subnormal; other numbers use the processor's roots. */
#ifndef CTR_ROOT_X8_H
#define CTR_ROOT_X8_H

#include "common/base/isa.h"

#include <math.h>

typedef double ctr_f64x8 __attribute__((vector_size(8 * sizeof(double))));

#if defined(__x86_64__)
#include <immintrin.h>

CTR_BODY __attribute__((target("avx512f"))) void ctr_root_x8(ctr_f64x8 *n)
{
    const __m512i least = _mm512_set1_epi64((int64_t)(1023 - 900) << 52),
                  range = _mm512_set1_epi64(INT64_C(1800) << 52);
    const __m512d a = (__m512d)*n, half = _mm512_set1_pd(0.5);
    if (__builtin_expect(_mm512_cmpgt_epu64_mask(_mm512_sub_epi64(_mm512_castpd_si512(a), least), range), 0)) {
        *n = (ctr_f64x8)_mm512_sqrt_pd(a);
        return;
    }
    const __m512d y = _mm512_rsqrt14_pd(a), g0 = _mm512_mul_pd(a, y), h0 = _mm512_mul_pd(half, y);
    const __m512d r = _mm512_fnmadd_pd(g0, h0, half);
    const __m512d g = _mm512_fmadd_pd(g0, r, g0), h = _mm512_fmadd_pd(h0, r, h0);
    const __m512d t = _mm512_fmadd_round_pd(_mm512_fnmadd_pd(g, g, a), h, g, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512i down = _mm512_castpd_si512(t), up = _mm512_add_epi64(down, _mm512_set1_epi64(1));
    const __m512d over = _mm512_fmsub_pd(t, _mm512_castsi512_pd(up), a); /* negative: up */
    *n = (ctr_f64x8)_mm512_add_epi64(down, _mm512_srli_epi64(_mm512_castpd_si512(over), 63));
}
#endif

#endif
