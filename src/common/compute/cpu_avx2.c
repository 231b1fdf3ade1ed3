/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_avx2: the loops of cpu_body.h for AVX2 with FMA. 4 x 24: 12 sums, 3 vectors of B and one of A fill the 16
 * registers. */
#include "common/compute/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx2,fma")
#endif

static bool usable(void)
{
    return ctr_cpu_has(CTR_CPU_AVX2) && __builtin_cpu_supports("fma");
}

#define ISA         avx2
#define LANES       8
#define ROWS        4
#define VECTORS     3
#define VEC         __m256
#define LOAD(p)     _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPLAT(x)    _mm256_set1_ps(x)
#define FMA         _mm256_fmadd_ps
#include "common/compute/cpu_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
