/* SPDX-License-Identifier: Apache-2.0
 *
 * isa: compiles one body for several instruction sets, chosen at run time. All give the same bits.
 *
 *     CTR_BODY void scale_body(double *x, int64_t n) { … }
 *     #define SCALE(isa, attributes) attributes static void scale_##isa(double *x, int64_t n) { scale_body(x, n); }
 *     CTR_EACH_ISA(SCALE)
 *     #define ROW(isa) scale_##isa
 *     static void (*const scales[])(double *x, int64_t n) = CTR_ISA_TABLE(ROW);
 *     … scales[ctr_cpu_best()](x, n);
 *
 * Such a table has a row per level of enum ctr_cpu, as far as the compiler supports it.
 *
 * For vector types wider than the processor's, gcc splits arithmetic into the processor's vectors, but comparisons,
 * shuffles, conversions and broadcasts into scalar operations through memory: two to five times slower than necessary.
 * A body that uses those is written for four doubles (plain, avx2) and for eight (avx512): ftrl_x8.c.
 */
#ifndef CTR_ISA_H
#define CTR_ISA_H

#include "common/base/base.h"

/* Part of a loop whose callers pass constants: inlined and compiled for each caller's instruction set. */
#define CTR_BODY static inline __attribute__((always_inline))

/* One bit per byte, from eight bytes that are 0 or all ones: a vector of lanes, narrowed. */
CTR_BODY uint64_t ctr_byte_bits(uint64_t bytes)
{
    return (bytes & 0x8040201008040201u) * 0x0101010101010101u >> 56;
}

/* The same for bytes that are 0 or 1. */
CTR_BODY uint64_t ctr_bool_bits(uint64_t bytes)
{
    return bytes * 0x0102040810204080u >> 56;
}

#if defined(__clang__) || !defined(__OPTIMIZE__) /* clang (fuzzing) lacks the attribute; coverage counts branches */
#define CTR_FAST
#define CTR_WIDE
#else
#define CTR_FAST __attribute__((optimize("O3")))
#define CTR_WIDE ",prefer-vector-width=512"
#endif

#if defined(__x86_64__)
#define CTR_FAST_AVX2        CTR_FAST __attribute__((target("avx2")))
#define CTR_FAST_AVX512      CTR_FAST __attribute__((target("avx512f,avx512dq,avx512vl" CTR_WIDE)))
#define CTR_EACH_ISA(define) define(plain, CTR_FAST) define(avx2, CTR_FAST_AVX2) define(avx512, CTR_FAST_AVX512)
#define CTR_ISA_TABLE(row)                                                                                             \
    {                                                                                                                  \
        row(plain), row(avx2), row(avx512)                                                                             \
    }
#else
#define CTR_EACH_ISA(define) define(plain, CTR_FAST)
#define CTR_ISA_TABLE(row)                                                                                             \
    {                                                                                                                  \
        row(plain)                                                                                                     \
    }
#endif

#endif
