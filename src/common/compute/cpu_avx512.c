/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_avx512: the loops of cpu_body.h for AVX-512. 5 x 80: 25 sums, 5 vectors of B and one of A fill the 32 registers.
 */
#include "common/compute/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))), apply_to = function)
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,fma,prefer-vector-width=512")
#endif

static bool usable(void)
{
    return ctr_cpu_has(CTR_CPU_AVX512) && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
}

#define ISA         avx512
#define LANES       16
#define ROWS        5
#define VECTORS     5
#define VEC         __m512
#define LOAD(p)     _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPLAT(x)    _mm512_set1_ps(x)
#define FMA         _mm512_fmadd_ps
#include "common/compute/cpu_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
