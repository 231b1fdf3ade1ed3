/* SPDX-License-Identifier: Apache-2.0
 *
 * mathbody: exp, log and sigmoid as bodies, and the subset of C for all bodies: freestanding C that is also C++ (no
 * libc, no allocation, no static state except constants, no loads through cast pointers, no VLA), so that gcc and NVRTC
 * compile the same text. The bits of a result depend neither on a libm nor on the processor.
 */
#ifndef CTR_MATHBODY_H
#define CTR_MATHBODY_H

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define OPV_FN    static __device__ inline
#define OPV_CORE  static __device__ inline
#define OPV_CONST static __device__ const
#else
#include <stdint.h>
#define OPV_FN static inline __attribute__((unused))
#define OPV_CORE                                                                                                       \
    static inline __attribute__((unused, always_inline)) /* also in loops compiled for more than OPV_FN                \
                                                          */
#define OPV_CONST static const __attribute__((unused))
#endif

#define OPV_I64_MAX 0x7fffffffffffffffLL
#define OPV_I64_MIN (-OPV_I64_MAX - 1)
#ifdef __CUDACC_RTC__ /* its compiler does not fold an overflow to a constant */
#define OPV_INF __builtin_bit_cast(double, 0x7ff0000000000000ull)
#else
#define OPV_INF (1e308 * 10)
#endif
/* The NaN of every result that arithmetic makes or passes on. Processors differ in the sign of a new NaN and in which
 * operand's they pass on; values that are only chosen or moved keep their bits. */
#define OPV_NAN opv_bits_f64(0x7ff8000000000000u)

union opv_bits {
    double d;
    uint64_t u;
};
OPV_CORE uint64_t opv_f64_bits(double d)
{
    union opv_bits b;
    b.d = d;
    return b.u;
}
OPV_CORE double opv_bits_f64(uint64_t u)
{
    union opv_bits b;
    b.u = u;
    return b.d;
}

/* A result of arithmetic. */
OPV_CORE double opv_number(double x)
{
    return x == x ? x : OPV_NAN;
}
/* The same narrowed. */
OPV_CORE float opv_number_f32(double x)
{
    union {
        uint32_t u;
        float f;
    } nan;
    nan.u = 0x7fc00000u;
    return x == x ? (float)x : nan.f;
}

/* Rounded correctly, as IEEE 754 demands. */
OPV_FN double opv_sqrt(double x)
{
    if (!(x >= 0))
        return OPV_NAN;
#ifdef __CUDACC_RTC__
    return __dsqrt_rn(x);
#else
    return __builtin_sqrt(x);
#endif
}
OPV_FN double opv_floor(double x)
{
    double t;
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0))
        return x; /* already integral, or NaN */
    t = (double)(int64_t)x;
    return t > x ? t - 1 : t;
}

/* ---- exp, log, sigmoid: a fixed order of operations, no fused multiply-add, within 2 ulp ---- */

#define OPV_LN2_HI 0x1.62e42fee00000p-1 /* 33 bits: products with exponents are exact */
#define OPV_LN2_LO 0x1.a39ef35793c76p-33

/* exp(hi - lo) near 0, at most ln(2)/2 away: the series to its 13th power. */
OPV_CORE double opv_exp_near(double hi, double lo)
{
    double r = hi - lo, q = 1.0 / 6227020800.0;
    q = q * r + 1.0 / 479001600.0;
    q = q * r + 1.0 / 39916800.0;
    q = q * r + 1.0 / 3628800.0;
    q = q * r + 1.0 / 362880.0;
    q = q * r + 1.0 / 40320.0;
    q = q * r + 1.0 / 5040.0;
    q = q * r + 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    return 1.0 + (hi + (q * r * r - lo));
}
/* exp(x) = 2^k exp(r), |r| <= ln(2)/2. */
OPV_FN double opv_exp(double x)
{
    double k, q;
    int64_t e;
    if (x != x)
        return OPV_NAN;
    if (x > 709.782712893384)
        return OPV_INF;
    if (x < -745.1332191019412)
        return 0;
    k = opv_floor(x * 1.4426950408889634 + 0.5);
    q = opv_exp_near(x - k * OPV_LN2_HI, k * OPV_LN2_LO);
    e = (int64_t)k;
    if (e > 1023) /* 2^1024 is not a double */
        return q * 2.0 * opv_bits_f64((uint64_t)(e - 1 + 1023) << 52);
    if (e >= -1022)
        return q * opv_bits_f64((uint64_t)(e + 1023) << 52);
    return q * opv_bits_f64((uint64_t)(e + 54 + 1023) << 52) * 0x1p-54;
}
/* log(x) = k ln 2 + log(1+f), sqrt(1/2) <= 1+f < sqrt(2); log(1+f) = 2 atanh(s), s = f/(2+f). x must be normal and
 * positive; k is converted to a double through its bits, and nothing branches, so that loops over it vectorise. */
OPV_CORE double opv_log_normal(double x, double shift)
{
    uint64_t u = opv_f64_bits(x), m = (u & 0xfffffffffffffu) | 0x3ff0000000000000u,
             over = m >= 0x3ff6a09e667f3bcdu; /* sqrt(2) */
    double k = opv_bits_f64(0x4330000000000000u | ((u >> 52) + over)) - (0x1p52 + 1023.0) + shift, f, s, z, q, half;
    f = opv_bits_f64(m - (over << 52)) - 1.0;
    s = f / (2.0 + f);
    z = s * s;
    q = 2.0 / 23.0;
    q = q * z + 2.0 / 21.0;
    q = q * z + 2.0 / 19.0;
    q = q * z + 2.0 / 17.0;
    q = q * z + 2.0 / 15.0;
    q = q * z + 2.0 / 13.0;
    q = q * z + 2.0 / 11.0;
    q = q * z + 2.0 / 9.0;
    q = q * z + 2.0 / 7.0;
    q = q * z + 2.0 / 5.0;
    q = q * z + 2.0 / 3.0;
    q = q * z;
    half = 0.5 * f * f; /* 2s = f - s f, and s f = half - s half: the largest term is added last */
    return k * OPV_LN2_HI - ((half - (s * (half + q) + k * OPV_LN2_LO)) - f);
}
OPV_FN double opv_log(double x)
{
    if (x != x || x < 0)
        return OPV_NAN;
    if (x == OPV_INF)
        return x;
    if (x == 0)
        return -OPV_INF;
    return opv_f64_bits(x) >> 52 == 0 ? opv_log_normal(x * 0x1p54, -54.0) : opv_log_normal(x, 0.0); /* subnormal */
}
OPV_FN double opv_log1p(double x)
{
    double u = 1.0 + x;
    if (!(u > 0) || u == OPV_INF || u == 1.0)
        return u == 1.0 ? x : opv_log(u);
    /* the rounding error of 1 + x, to first order */
    return opv_log(u) + (x < 1 ? x - (u - 1.0) : 1.0 - (u - x)) / u;
}
OPV_FN double opv_sigmoid(double x)
{
    double e;
    if (x >= 0)
        return 1.0 / (1.0 + opv_exp(-x));
    e = opv_exp(x);
    return e / (1.0 + e);
}

#endif
