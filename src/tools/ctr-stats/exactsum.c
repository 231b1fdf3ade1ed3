/* SPDX-License-Identifier: Apache-2.0
 *
 * exactsum: sums without rounding, and the mean and standard deviation of them. */
#include "tools/ctr-stats/exactsum.h"

#include <math.h>
#include <string.h>

typedef unsigned __int128 u128;

enum { LIMBS = CTR_EXACT_LIMBS, WIDE = 2 * LIMBS + 4 };

/* ---- sums ---- */

void ctr_exact_add(struct ctr_exact *e, const struct ctr_exact *other)
{
    u128 carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (u128)e->limb[i] + other->limb[i];
        e->limb[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

void ctr_exact_put(struct ctr_exact *e, u128 m, int shift, bool negative)
{
    const int at = shift >> 6, bits = shift & 63;
    const uint64_t low = (uint64_t)m, high = (uint64_t)(m >> 64);
    const uint64_t part[3] = { low << bits, bits ? high << bits | low >> (64 - bits) : high,
                               bits ? high >> (64 - bits) : 0 };
    uint64_t carry = 0;
    for (int i = at; i < LIMBS && (i < at + 3 || carry); i++) {
        const uint64_t add = i < at + 3 ? part[i - at] : 0, was = e->limb[i];
        if (negative) {
            const u128 less = (u128)add + carry;
            e->limb[i] = was - (uint64_t)less;
            carry = less > was;
        } else {
            const u128 sum = (u128)was + add + carry;
            e->limb[i] = (uint64_t)sum;
            carry = (uint64_t)(sum >> 64);
        }
    }
}

void ctr_exact_put_f64(struct ctr_exact *e, double x, int64_t n)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    const int exponent = (int)(u >> 52 & 2047);
    const uint64_t m = (u & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(exponent != 0) << 52;
    ctr_exact_put(e, (u128)m * (uint64_t)n, exponent ? exponent - 1 : 0, u >> 63);
}

void ctr_exact_put_square(struct ctr_exact *e, double x, int64_t n)
{
    const double square = x * x;
    ctr_exact_put_f64(e, square, n);
    ctr_exact_put_f64(e, fma(x, x, -square), n);
}

void ctr_exact_put_int(struct ctr_exact *e, uint64_t magnitude, bool negative, int64_t n)
{
    ctr_exact_put(e, (u128)magnitude * (uint64_t)n, CTR_EXACT_POINT, negative);
}

void ctr_exact_put_int_square(struct ctr_exact *e, uint64_t magnitude, int64_t n)
{
    const u128 square = (u128)magnitude * magnitude;
    ctr_exact_put(e, (u128)(uint64_t)square * (uint64_t)n, CTR_EXACT_POINT, false);
    ctr_exact_put(e, (u128)(uint64_t)(square >> 64) * (uint64_t)n, CTR_EXACT_POINT + 64, false);
}

void ctr_exact_block_flush(struct ctr_exact_block *b, struct ctr_exact *e)
{
    for (int w = 0; w < CTR_EXACT_BINS / 64; w++) {
        for (uint64_t left = b->used[w]; left; left &= left - 1) {
            const int i = w * 64 + __builtin_ctzll(left), exponent = i & 2047;
            ctr_exact_put(e, b->mantissas[i], exponent ? exponent - 1 : 0, i >> 11);
            b->mantissas[i] = 0;
        }
        b->used[w] = 0;
    }
}

/* ---- what they give ---- */

/* The value of a non-negative number of n limbs is *m * 2^result, *m in [2^63, 2^64) and rounded to a double; 0: *m is
 * 0. */
static int leading(const uint64_t *limb, int n, double *m)
{
    int top = n - 1;
    while (top >= 0 && !limb[top])
        top--;
    *m = 0;
    if (top < 0)
        return 0;
    const int zeros = __builtin_clzll(limb[top]);
    uint64_t bits = limb[top] << zeros;
    bool rest = false;
    if (zeros && top > 0)
        bits |= limb[top - 1] >> (64 - zeros);
    if (top > 0)
        rest = zeros ? (limb[top - 1] << zeros) != 0 : limb[top - 1] != 0;
    for (int i = top - 2; i >= 0 && !rest; i--)
        rest = limb[i] != 0;
    *m = (double)(bits | rest);
    return top * 64 - zeros;
}

/* The absolute value; returns the sign. */
static bool magnitude(const struct ctr_exact *e, struct ctr_exact *out)
{
    const bool negative = e->limb[LIMBS - 1] >> 63;
    uint64_t carry = negative;
    for (int i = 0; i < LIMBS; i++) {
        const uint64_t v = negative ? ~e->limb[i] : e->limb[i];
        out->limb[i] = v + carry;
        carry = carry && !out->limb[i];
    }
    return negative;
}

double ctr_exact_mean(const struct ctr_exact *sum, int64_t n)
{
    struct ctr_exact a;
    double m;
    const bool negative = magnitude(sum, &a);
    const int exponent = leading(a.limb, LIMBS, &m);
    const double mean = ldexp(m / (double)n, exponent - CTR_EXACT_POINT);
    return negative ? -mean : mean;
}

double ctr_exact_sd(const struct ctr_exact *sum, const struct ctr_exact *squares, int64_t n)
{
    /* n * squares - sum^2, in units of 2^-2148, is n (n - 1) times the variance. */
    enum { WHOLE = CTR_EXACT_POINT / 64, BITS = CTR_EXACT_POINT % 64 };
    uint64_t wide[WIDE] = { 0 };
    u128 carry = 0;
    uint64_t below = 0;
    for (int i = 0; i <= LIMBS + 1; i++) {
        carry += i < LIMBS ? (u128)squares->limb[i] * (uint64_t)n : 0;
        const uint64_t limb = (uint64_t)carry;
        wide[WHOLE + i] = limb << BITS | below >> (64 - BITS);
        below = limb;
        carry >>= 64;
    }
    struct ctr_exact a;
    (void)magnitude(sum, &a);
    uint64_t product[WIDE] = { 0 };
    for (int i = 0; i < LIMBS; i++) {
        carry = 0;
        for (int k = 0; k < LIMBS; k++) {
            carry += (u128)a.limb[i] * a.limb[k] + product[i + k];
            product[i + k] = (uint64_t)carry;
            carry >>= 64;
        }
        product[i + LIMBS] = (uint64_t)carry;
    }
    uint64_t borrow = 0;
    for (int i = 0; i < WIDE; i++) {
        const u128 less = (u128)product[i] + borrow;
        borrow = less > wide[i];
        wide[i] -= (uint64_t)less;
    }
    double m;
    int exponent = leading(wide, WIDE, &m) - 2 * CTR_EXACT_POINT;
    if (borrow || m == 0) /* the square of a tiny double was rounded */
        return 0;
    if (exponent & 1) {
        m *= 2;
        exponent--;
    }
    return ldexp(sqrt(m / (double)n / (double)(n - 1)), exponent / 2);
}
