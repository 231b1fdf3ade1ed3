/* SPDX-License-Identifier: Apache-2.0
 *
 * body: bodies of the operators on numbers and keys. They are in a freestanding subset of C that is also C++
 * (no libc, no allocation, no static state except constants, no loads through cast pointers, no VLA), so that gcc and
 * NVRTC compile the same text. A body handles the values of one row; the includer writes the loop over rows (opint.h on
 * the host).
 *
 * Invariants: a body is a total function: all bit patterns are valid inputs, also those of nulls. A body that may have
 * no result takes `uint8_t *ok` and clears it; it never sets it.
 */
#ifndef CTR_BODY_H
#define CTR_BODY_H

#include "common/base/mathbody.h"
#include "common/base/mix64.h"
#include "common/op/body_table.h"

/* One row of a text: bytes [p, p+n). */
struct opv_str {
    const uint8_t *p;
    int64_t n;
};
/* One row of a list: items [from, to) of the item lane. */
struct opv_span {
    int64_t from, to;
};

/* ---- integers: what does not fit int64 is no value ---- */

OPV_FN int64_t opv_add_i(int64_t a, int64_t b, uint8_t *ok)
{
    int64_t r = (int64_t)((uint64_t)a + (uint64_t)b);
    *ok &= ((a ^ r) & (b ^ r)) >= 0;
    return r;
}
OPV_FN int64_t opv_sub_i(int64_t a, int64_t b, uint8_t *ok)
{
    int64_t r = (int64_t)((uint64_t)a - (uint64_t)b);
    *ok &= ((a ^ b) & (a ^ r)) >= 0;
    return r;
}
OPV_FN int64_t opv_mul_i(int64_t a, int64_t b, uint8_t *ok)
{
    int64_t r = (int64_t)((uint64_t)a * (uint64_t)b);
    if (a == (int32_t)a && b == (int32_t)b)
        return r;
    if (a == -1 || b == -1)
        *ok &= (a == -1 ? b : a) != OPV_I64_MIN;
    else if (a != 0)
        *ok &= r / a == b;
    return r;
}
/* The quotient rounded down, and the remainder with the sign of the divisor: a == a / b * b + a % b. */
OPV_FN int64_t opv_div_i(int64_t a, int64_t b, uint8_t *ok)
{
    int64_t q;
    if (b == 0 || (a == OPV_I64_MIN && b == -1)) {
        *ok = 0;
        return 0;
    }
    q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
OPV_FN int64_t opv_mod_i(int64_t a, int64_t b, uint8_t *ok)
{
    int64_t r;
    if (b == 0) {
        *ok = 0;
        return 0;
    }
    if (b == -1)
        return 0;
    r = a % b;
    return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}
/* The same of a uint64, which may be 2^63 or more. */
OPV_FN int64_t opv_div_ui(uint64_t a, int64_t b, uint8_t *ok)
{
    const uint64_t m = b < 0 ? 0 - (uint64_t)b : (uint64_t)b, most = 0x7fffffffffffffffu + (b < 0);
    uint64_t q;
    if (a <= 0x7fffffffffffffffu || b == 0)
        return opv_div_i((int64_t)a, b, ok);
    q = a / m + (b < 0 && a % m != 0);
    *ok &= q <= most;
    return !*ok ? 0 : (int64_t)(b < 0 ? 0 - q : q);
}
OPV_FN int64_t opv_mod_ui(uint64_t a, int64_t b, uint8_t *ok)
{
    const uint64_t m = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    uint64_t r;
    if (a <= 0x7fffffffffffffffu || b == 0)
        return opv_mod_i((int64_t)a, b, ok);
    r = a % m;
    return (int64_t)r + (r != 0 && b < 0 ? b : 0);
}
OPV_FN int64_t opv_neg_i(int64_t a, uint8_t *ok)
{
    *ok &= a != OPV_I64_MIN;
    return (int64_t)(0 - (uint64_t)a);
}
OPV_FN int64_t opv_abs_i(int64_t a, uint8_t *ok)
{
    return a < 0 ? opv_neg_i(a, ok) : a;
}
OPV_FN int64_t opv_clip_i(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

OPV_FN uint64_t opv_clip_u(uint64_t x, uint64_t lo, uint64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* ---- floats: IEEE, and one NaN ---- */

OPV_FN double opv_add_f(double a, double b)
{
    return opv_number(a + b);
}
OPV_FN double opv_sub_f(double a, double b)
{
    return opv_number(a - b);
}
OPV_FN double opv_mul_f(double a, double b)
{
    return opv_number(a * b);
}
OPV_FN double opv_div_f(double a, double b)
{
    return opv_number(a / b);
}
/* A quotient of integers: division by 0 gives null. */
OPV_FN double opv_ratio(double a, double b, uint8_t *ok)
{
    *ok &= b != 0;
    return opv_number(a / (b != 0 ? b : 1));
}
OPV_FN double opv_neg_f(double a)
{
    return opv_number(-a);
}
OPV_FN double opv_abs_f(double a)
{
    return opv_bits_f64(opv_f64_bits(a) & 0x7fffffffffffffffu);
}
OPV_FN double opv_clip_f(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}
/* The exact remainder with the sign of the divisor, by long division of the mantissas. */
OPV_FN double opv_mod_f(double a, double b)
{
    double x = opv_abs_f(a), y = opv_abs_f(b), r = x;
    if (!(x < OPV_INF) || !(y > 0))
        return OPV_NAN;
    if (x >= y && y < OPV_INF) {
        double s = y;
        while (s <= x * 0.5)
            s += s;
        for (; s >= y; s *= 0.5)
            if (r >= s)
                r -= s;
    }
    r = a < 0 ? -r : r;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
OPV_FN int64_t opv_int_f(double x, uint8_t *ok) /* towards zero */
{
    if (!(x >= -9223372036854775808.0 && x < 9223372036854775808.0)) {
        *ok = 0;
        return 0;
    }
    return (int64_t)x;
}
OPV_FN int64_t opv_floor_f(double x, uint8_t *ok)
{
    return opv_int_f(opv_floor(x), ok);
}

OPV_FN int64_t opv_ceil_f(double x, uint8_t *ok)
{
    return opv_int_f(-opv_floor(-x), ok);
}
/* The nearest integer, halves away from 0. */
OPV_FN double opv_round(double x)
{
    const double m = opv_abs_f(x), below = opv_floor(m), r = below + (m - below >= 0.5);
    return x < 0 ? -r : r;
}
OPV_FN int64_t opv_round_f(double x, uint8_t *ok)
{
    return opv_int_f(opv_round(x), ok);
}
/* Rounded to a multiple of 1 / scale, a power of 10; unchanged where it has no digits to lose. */
OPV_FN double opv_round_to(double x, double scale)
{
    const double y = x * scale;
    if (!(opv_abs_f(y) < 4503599627370496.0))
        return opv_number(x);
    return opv_number(opv_round(y) / scale);
}

/* A quotient of floats, rounded down. */
OPV_FN int64_t opv_quotient_f(double a, double b, uint8_t *ok)
{
    return opv_floor_f(a / b, ok);
}

/* ---- comparison: -1, 0, 1, and 2 where one is NaN ---- */

enum { OPV_LT = 1, OPV_EQ = 2, OPV_GT = 4, OPV_UNORDERED = 8 }; /* 1 << (comparison + 1) */

OPV_FN int opv_cmp_i(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}
OPV_FN int opv_cmp_u(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}
OPV_FN int opv_cmp_f(double a, double b)
{
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}
OPV_FN int opv_cmp_ui(uint64_t a, int64_t b)
{
    return b < 0 ? 1 : opv_cmp_u(a, (uint64_t)b);
}
/* Exact, although neither type can represent all values of the other. */
OPV_FN int opv_cmp_if(int64_t a, double b)
{
    int64_t t;
    if (b != b)
        return 2;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    t = (int64_t)b;
    return a != t ? opv_cmp_i(a, t) : opv_cmp_f((double)t, b);
}
OPV_FN int opv_cmp_uf(uint64_t a, double b)
{
    uint64_t t;
    if (b != b)
        return 2;
    if (b >= 18446744073709551616.0)
        return -1;
    if (b < 0)
        return 1;
    t = (uint64_t)b;
    return a != t ? opv_cmp_u(a, t) : opv_cmp_f((double)t, b);
}
OPV_FN int opv_cmp_fi(double a, int64_t b)
{
    const int c = opv_cmp_if(b, a);
    return c == 2 ? 2 : -c;
}
OPV_FN int opv_cmp_s(struct opv_str a, struct opv_str b)
{
    int64_t n = a.n < b.n ? a.n : b.n;
    for (int64_t i = 0; i < n; i++)
        if (a.p[i] != b.p[i])
            return a.p[i] < b.p[i] ? -1 : 1;
    return opv_cmp_i(a.n, b.n);
}

/* ---- choices ---- */

OPV_FN uint8_t opv_not_below(int cmp)
{
    return cmp == 0 || cmp == 1;
}
OPV_FN uint8_t opv_not_above(int cmp)
{
    return cmp == 0 || cmp == -1;
}
/* Does b take the place of a as the least (sign -1) or the greatest (1)? NaN gives way to every number. */
OPV_FN int opv_beats_i(int64_t a, int64_t b, int sign)
{
    return sign < 0 ? b < a : b > a;
}
OPV_FN int opv_beats_u(uint64_t a, uint64_t b, int sign)
{
    return sign < 0 ? b < a : b > a;
}
OPV_FN int opv_beats_f(double a, double b, int sign)
{
    return (a != a && b == b) || (sign < 0 ? b < a : b > a);
}
OPV_FN int opv_beats_s(struct opv_str a, struct opv_str b, int sign)
{
    return opv_cmp_s(b, a) * sign > 0;
}

/* Is x among n ascending values? */
#define OPV_AMONG(name, T, at_most, equal)                                                                             \
    OPV_FN int name(T x, const T *at, int64_t n)                                                                       \
    {                                                                                                                  \
        int64_t from = 0;                                                                                              \
        while (n - from > 1) {                                                                                         \
            const int64_t half = (from + n) >> 1;                                                                      \
            if (at_most)                                                                                               \
                from = half;                                                                                           \
            else                                                                                                       \
                n = half;                                                                                              \
        }                                                                                                              \
        return n > 0 && (equal);                                                                                       \
    }
OPV_AMONG(opv_among_i, int64_t, at[half] <= x, at[from] == x)
OPV_AMONG(opv_among_u, uint64_t, at[half] <= x, at[from] == x)
OPV_AMONG(opv_among_f, double, at[half] <= x, at[from] == x)
OPV_AMONG(opv_among_s, struct opv_str, opv_cmp_s(at[half], x) <= 0, opv_cmp_s(at[from], x) == 0)

/* ---- buckets ---- */

/* The number of the n ascending thresholds that are <= x. */
OPV_FN int64_t opv_bucket(double x, const double *at, int64_t n, uint8_t *ok)
{
    const double *base = at;
    *ok &= x == x;
    if (n == 0)
        return 0;
    while (n > 1) {
        int64_t half = n >> 1;
        base += base[half - 1] <= x ? half : 0;
        n -= half;
    }
    return (int64_t)(base - at) + (*base <= x);
}
/* 0 for |x| < 1, else 1 + floor(ln |x|) with the sign of x; the last bucket starts at e^43. There is at most one power
 * of e between two powers of 2: the exponent gives the bucket or the one below. */
OPV_FN int64_t opv_log_bucket(double x, uint8_t *ok)
{
    double m = opv_abs_f(x);
    int64_t e, k;
    *ok &= x == x;
    if (!(m >= 1))
        return 0;
    if (!(m < 9223372036854775808.0))
        k = 43;
    else {
        e = (int64_t)(opv_f64_bits(m) >> 52) - 1023;
        k = (e * 45426) >> 16; /* floor(e ln 2) */
        k += opv_exp_at[k + 1] <= m;
    }
    return x < 0 ? -1 - k : 1 + k;
}
/* floor(ln(x)^2) for x > 2, else x rounded towards zero; the last bucket, 1906, extends beyond 2^63. `start` maps the
 * exponent and the first 6 bits of the mantissa to the bucket at the start of that range, which contains at most two
 * thresholds. */
#define OPV_SQUARE_LOG_STARTS (63 * 64)
OPV_FN int64_t opv_square_log_bucket(double x, const int16_t *start, uint8_t *ok)
{
    int64_t k;
    if (!(x > 2))
        return opv_int_f(x, ok);
    if (!(x < 9223372036854775808.0))
        return 1906;
    k = start[(opv_f64_bits(x) >> 46) - (1023u << 6)];
    k += opv_exp_sqrt_at[k + 1] <= x;
    k += opv_exp_sqrt_at[k + 1] <= x;
    return k;
}
OPV_FN void opv_square_log_starts(int16_t *start)
{
    int32_t k = 0;
    for (int32_t i = 0; i < OPV_SQUARE_LOG_STARTS; i++) {
        double x = opv_bits_f64((uint64_t)(i + (1023 << 6)) << 46);
        while (opv_exp_sqrt_at[k + 1] <= x)
            k++;
        start[i] = (int16_t)k;
    }
}

/* ---- keys ---- */

/* Add a value to a cross; the order matters, and for either argument fixed it is a bijection of the other. */
OPV_FN uint64_t opv_cross(uint64_t k, uint64_t h)
{
    return ctr_mix64(ctr_mix64(k + 0x9e3779b97f4a7c15u) ^ h);
}

/* ---- logic of three values: null decides nothing ---- */

OPV_FN uint8_t opv_and(uint8_t a, uint8_t a_ok, uint8_t b, uint8_t b_ok, uint8_t *ok)
{
    *ok = (uint8_t)((a_ok & b_ok) | (a_ok & !a) | (b_ok & !b));
    return a & a_ok & b & b_ok;
}
OPV_FN uint8_t opv_or(uint8_t a, uint8_t a_ok, uint8_t b, uint8_t b_ok, uint8_t *ok)
{
    uint8_t t = (uint8_t)((a & a_ok) | (b & b_ok));
    *ok = (uint8_t)((a_ok & b_ok) | t);
    return t;
}

#endif
