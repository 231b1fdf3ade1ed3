/* SPDX-License-Identifier: Apache-2.0
 *
 * num: converts integers, sizes, durations and half floats to and from text and bits. Floats as text are in float.c.
 */
#include "common/base/base.h"

#include <math.h>
#include <stdio.h>

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

static const uint64_t pow10_u64[20] = { 1u,
                                        10u,
                                        100u,
                                        1000u,
                                        10000u,
                                        100000u,
                                        1000000u,
                                        10000000u,
                                        100000000u,
                                        1000000000u,
                                        10000000000u,
                                        100000000000u,
                                        1000000000000u,
                                        10000000000000u,
                                        100000000000000u,
                                        1000000000000000u,
                                        10000000000000000u,
                                        100000000000000000u,
                                        1000000000000000000u,
                                        10000000000000000000u };

static int count_digits(uint64_t v)
{
    int guess = ((64 - __builtin_clzll(v | 1)) * 1233) >> 12; /* log10(2) is 1233/4096; too high by at most one */
    return guess + (v >= pow10_u64[guess]) + (v == 0);
}

size_t ctr_fmt_u64(char *out, uint64_t v)
{
    int n = count_digits(v);
    char *p = out + n;
    while (v >= 100) {
        p -= 2;
        memcpy(p, digit_pairs + v % 100 * 2, 2);
        v /= 100;
    }
    if (v >= 10)
        memcpy(p - 2, digit_pairs + v * 2, 2);
    else
        p[-1] = (char)('0' + v);
    return (size_t)n;
}

size_t ctr_fmt_i64(char *out, int64_t v)
{
    if (v >= 0)
        return ctr_fmt_u64(out, (uint64_t)v);
    *out = '-';
    return 1 + ctr_fmt_u64(out + 1, 0 - (uint64_t)v);
}

/* Eight ASCII digits at once: bytes to pairs to fours to eight. */
static bool eight_digits(const char *p, uint64_t *v)
{
    uint64_t x;
    memcpy(&x, p, 8);
    uint64_t low = x - 0x3030303030303030u;
    if (((x + 0x4646464646464646u) | low) & 0x8080808080808080u)
        return false;
    x = low * 10 + (low >> 8);
    x = ((x & 0x000000ff000000ffu) * 0x000f424000000064u + ((x >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u) >>
        32;
    *v = x;
    return true;
}

/* Unsigned decimal digits, the whole of [p, p+n), n >= 1. */
static bool parse_digits(const char *p, size_t n, uint64_t *v)
{
    while (n > 19 && *p == '0')
        p++, n--;
    if (n > 20)
        return false;
    uint64_t x = 0, eight;
    const char *end = p + n;
    while (end - p >= 8 && (size_t)(end - p) != n - 16) { /* at most two steps: 16 digits cannot overflow */
        if (!eight_digits(p, &eight))
            return false;
        x = x * 100000000u + eight;
        p += 8;
    }
    for (; p < end; p++) {
        unsigned d = (unsigned char)*p - (unsigned)'0';
        if (d > 9 || __builtin_mul_overflow(x, (uint64_t)10, &x) || __builtin_add_overflow(x, (uint64_t)d, &x))
            return false;
    }
    *v = x;
    return true;
}

bool ctr_parse_u64(const char *p, size_t n, uint64_t *v)
{
    if (n && *p == '+')
        p++, n--;
    return n && parse_digits(p, n, v);
}

bool ctr_parse_i64(const char *p, size_t n, int64_t *v)
{
    bool neg = n && *p == '-';
    if (n && (*p == '-' || *p == '+'))
        p++, n--;
    uint64_t u;
    if (!n || !parse_digits(p, n, &u) || u > (uint64_t)INT64_MAX + neg)
        return false;
    *v = neg ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

/* ---- half floats ---- */

uint16_t ctr_f32_to_f16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) /* NaN stays a quiet NaN, with the part of its payload that fits */
        return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x477ff000u) /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x33000000u) /* less than half of the smallest subnormal */
        return (uint16_t)sign;
    int shift = 13;
    uint32_t man = a;
    if (a < 0x38800000u) { /* subnormal result: shift the full significand to units of 2^-24 */
        shift = 126 - (int)(a >> 23);
        man = (a & 0x7fffffu) | 0x800000u;
    } else {
        man = a - (112u << 23);
    }
    uint32_t half = 1u << (shift - 1), rest = man & ((1u << shift) - 1);
    man >>= shift;
    man += rest > half || (rest == half && (man & 1)); /* a carry into the exponent is correct */
    return (uint16_t)(sign | man);
}

/* ---- sizes and durations ---- */

/* Parses "number suffix": digits with an optional fraction, then one of the units; the result is an integer, either
 * exact or, if `up`, rounded up. */
struct unit {
    const char *suffix;
    int64_t factor;
};

static bool parse_with_unit(const char *p, size_t n, const struct unit *units, int count, bool up, int64_t *out)
{
    size_t digits = 0;
    while (digits < n && ((p[digits] >= '0' && p[digits] <= '9') || p[digits] == '.'))
        digits++;
    int64_t factor = 0;
    for (int i = 0; i < count; i++)
        if (strlen(units[i].suffix) == n - digits && !memcmp(units[i].suffix, p + digits, n - digits))
            factor = units[i].factor;
    uint64_t whole;
    double frac;
    if (!digits || !factor)
        return false;
    if (ctr_parse_u64(p, digits, &whole))
        return whole <= INT64_MAX && !__builtin_mul_overflow((int64_t)whole, factor, out);
    if (!ctr_parse_f64(p, digits, &frac) || frac * (double)factor >= 0x1p62)
        return false;
    *out = (int64_t)(frac * (double)factor);
    const bool whole_count = (double)*out == frac * (double)factor;
    *out += !whole_count;
    return whole_count || (up && factor > 1);
}

bool ctr_parse_size(const char *s, int64_t *bytes)
{
    static const struct unit units[] = {
        { "", 1 },
        { "B", 1 },
        { "K", 1LL << 10 },
        { "M", 1LL << 20 },
        { "G", 1LL << 30 },
        { "T", 1LL << 40 },
        { "k", 1LL << 10 },
        { "m", 1LL << 20 },
        { "g", 1LL << 30 },
        { "t", 1LL << 40 },
        { "KiB", 1LL << 10 },
        { "MiB", 1LL << 20 },
        { "GiB", 1LL << 30 },
        { "TiB", 1LL << 40 },
        { " B", 1 }, /* as printed */
        { " KiB", 1LL << 10 },
        { " MiB", 1LL << 20 },
        { " GiB", 1LL << 30 },
        { " TiB", 1LL << 40 },
    };
    return parse_with_unit(s, strlen(s), units, (int)CTR_COUNT(units), true, bytes);
}

struct ctr_size_text ctr_size_text(uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    struct ctr_size_text t;
    double x = (double)bytes;
    size_t i = 0, n;

    for (; x >= (i ? 1023.95 : 1023.5) && i + 1 < CTR_COUNT(units); i++)
        x /= 1024;
    n = (size_t)snprintf(t.s, sizeof t.s, i ? "%.1f" : "%.0f", x);
    if (i && t.s[n - 1] == '0')
        n -= 2;
    snprintf(t.s + n, sizeof t.s - n, " %s", units[i]);
    return t;
}

struct ctr_size_text ctr_size_text_beyond(uint64_t bytes, uint64_t bound)
{
    struct ctr_size_text t = ctr_size_text(bytes);
    int64_t read;

    while (ctr_parse_size(t.s, &read) && ((uint64_t)read < bytes || !strcmp(t.s, ctr_size_text(bound).s))) {
        uint64_t unit = 1;
        while ((uint64_t)read / unit >= 1024)
            unit *= 1024;
        t = ctr_size_text((uint64_t)read + (unit + 9) / 10); /* the next size whose text differs */
    }
    return t;
}

struct ctr_mean_text ctr_mean_text(double v)
{
    const double size = fabs(v);
    struct ctr_mean_text t;

    if ((size > 0 && size < 1e-5) || size >= 1e15)
        snprintf(t.s, sizeof t.s, "%.3e", v);
    else
        snprintf(t.s, sizeof t.s, "%.*f", size > 0 && size < 1e-4 ? 8 : size > 0 && size < 1e-3 ? 7 : 6, v);
    return t;
}

bool ctr_parse_duration(const char *p, size_t n, int64_t *ms)
{
    static const struct unit units[] = {
        { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }, { "w", 604800000 },
    };
    return parse_with_unit(p, n, units, (int)CTR_COUNT(units), false, ms);
}
