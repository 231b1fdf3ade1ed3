/* SPDX-License-Identifier: Apache-2.0
 *
 * shortnumber: numbers of few digits, read in registers; what is longer goes to the exact readers of base.h. Private to
 * csvcell.c and jsonl.c.
 */
#ifndef CTR_SHORTNUMBER_H
#define CTR_SHORTNUMBER_H

#include "common/base/base.h"

static inline uint64_t ctr_load8(const char *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

/* Parse one to eight digits, the first n bytes of x; for any other n the result is false or meaningless. */
static inline bool ctr_digits8(uint64_t x, size_t n, uint64_t *v)
{
    unsigned shift = (64 - 8 * (unsigned)n) & 63; /* replaces the missing leading digits by zeros */
    uint64_t low = x - 0x3030303030303030u, other = (x + 0x4646464646464646u) | low;
    low <<= shift;
    bool digits = !((other << shift) & 0x8080808080808080u);
    low = low * 10 + (low >> 8);
    *v = ((low & 0x000000ff000000ffu) * 0x000f424000000064u +
          ((low >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u) >>
         32;
    return digits & (n - 1 < 8);
}

/* One to 19 digits at p; eight bytes behind them are readable. */
static inline bool ctr_digits19(const char *p, size_t n, uint64_t *v)
{
    if (n <= 8)
        return ctr_digits8(ctr_load8(p), n, v);
    size_t k = (n - 1) % 8 + 1; /* the digits that are no whole eight come first */
    bool digits = n <= 19;
    for (*v = 0; digits && n; p += k, n -= k, k = 8) {
        uint64_t x;
        digits = ctr_digits8(ctr_load8(p), k, &x);
        *v = *v * 100000000u + x;
    }
    return digits;
}

static const double ctr_pow10_exact[] = { 1e0, 1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7, 1e8,
                                          1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16 };

/* [-]digits[.digits] with at most 15 digits: both factors are exact, so one division rounds correctly. */
static inline bool ctr_short_decimal(const char *p, size_t n, double *v)
{
    const char *end = p + n, *point = NULL;
    bool neg = *p == '-';
    uint64_t w = 0;
    p += neg;
    size_t k = (size_t)(end - p);
    if (k - 1 >= 16 || (k == 1 && *p == '.'))
        return false;
    for (; p < end; p++) {
        unsigned digit = (unsigned char)*p - (unsigned)'0';
        if (digit <= 9)
            w = w * 10 + digit;
        else if (*p == '.' && !point)
            point = p + 1;
        else
            return false;
    }
    double x = point ? (double)w / ctr_pow10_exact[end - point] : (double)w;
    *v = neg ? -x : x;
    return w < 1000000000000000u;
}

#endif
