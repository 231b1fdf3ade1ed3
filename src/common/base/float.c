/* SPDX-License-Identifier: Apache-2.0
 *
 * float: converts floating point numbers to the shortest text that reads back to the same bits, and text to the nearest
 * number.
 *
 * Writing follows R. Giulietti, "The Schubfach way to render doubles" (2020): one 128-bit power of ten scales the
 * rounding interval of the number so that it contains at most two candidates of each length. Reading multiplies the
 * first 19 digits by a power of the same table and bounds the true value by an interval; if both ends round to one
 * number, that is the result, else (about once in 10^15 for short texts) big integers decide exactly. Neither depends
 * on the locale.
 */
#include "common/base/base.h"
#include "common/base/pow10.h"

#include <strings.h>

typedef unsigned __int128 u128;

/* The double nearest to 0.3 is 5404319552844595 * 2^-54. Numbers that round to it lie in the interval around it, in
 * units of 10^-17:
 *
 *     29999999999999996.1   29999999999999998.9   30000000000000001.7        lower, value, upper (times 4, in shortest)
 *
 * Of the candidates with one digit less, 2999999999999999 and 3000000000000000 times 10^-16, one lies within: so the
 * text is 0.3, after write_decimal has taken the zeros away.
 *
 * Reading 0.3 divides 3 by 10, both exact doubles. Reading 3e-30 multiplies w = 3 by the table's power of ten, which is
 * rounded down: the product and the product with its largest error (`top`) round to the same 53 bits, which are the
 * result. For a text near the middle of two doubles they may not, and compare_exact decides. */

/* ---- writing ---- */

struct decimal {
    uint64_t digits;
    int exponent; /* value = digits * 10^exponent */
};

/* The 64 bits above g * cp * 2^-128, with a sticky last bit. g overestimates its power by less than one unit, which the
 * comparison with 1 absorbs. */
static uint64_t scale_to_odd(u128 g, uint64_t cp)
{
    uint64_t low_high = (uint64_t)((u128)(uint64_t)g * cp >> 64);
    u128 high = (u128)(uint64_t)(g >> 64) * cp + low_high;
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* c * 2^q with the midpoints to its neighbours: `closer` means that the lower neighbour is nearer (c is a power of
 * two). */
static struct decimal shortest(uint64_t c, int q, bool closer)
{
    int k = (int)(((int64_t)q * 1262611 - (closer ? 524031 : 0)) >> 22); /* floor(log10(2^q or 3/4 2^q)) */
    int h = q + ctr_log2_pow10(-k) + 1;
    const uint64_t *row = ctr_pow10[-k - CTR_POW10_MIN];
    u128 g = (u128)row[0] << 64 | row[1];
    if (-k < 0 || -k > 55)
        g++; /* the table rounds down, this method needs rounding up */
    uint64_t odd = c & 1;
    uint64_t lower = scale_to_odd(g, (4 * c - 2 + closer) << h) + odd;
    uint64_t value = scale_to_odd(g, 4 * c << h);
    uint64_t upper = scale_to_odd(g, (4 * c + 2) << h) - odd;
    uint64_t s = value / 4;
    if (s >= 10) {
        uint64_t tens = s / 10;
        bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;
        if (down != up)
            return (struct decimal){ tens + up, k + 1 };
    }
    bool down = lower <= 4 * s, up = 4 * s + 4 <= upper;
    if (down != up)
        return (struct decimal){ s + up, k };
    bool round_up = value > 4 * s + 2 || (value == 4 * s + 2 && (s & 1));
    return (struct decimal){ s + round_up, k };
}

/* Like C's %g with as many digits as needed: plain for 1e-4 <= v < 1e16, else with an exponent of at least two
 * digits. */
static size_t write_decimal(char *out, struct decimal d)
{
    while (d.digits % 10 == 0)
        d.digits /= 10, d.exponent++;
    char text[CTR_NUM_MAX];
    int n = (int)ctr_fmt_u64(text, d.digits), point = n + d.exponent; /* the decimal point precedes digit `point` */
    char *o = out;
    if (point > 16 || point < -3) {
        *o++ = text[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, text + 1, (size_t)n - 1);
            o += n - 1;
        }
        int e = point - 1;
        *o++ = 'e';
        *o++ = e < 0 ? '-' : '+';
        e = e < 0 ? -e : e;
        if (e < 10)
            *o++ = '0';
        return (size_t)(o - out) + ctr_fmt_u64(o, (uint64_t)e);
    }
    if (point <= 0) {
        memcpy(o, "0.000", 5);
        o += 2 - point;
        memcpy(o, text, (size_t)n);
        return (size_t)(o - out) + (size_t)n;
    }
    if (point >= n) {
        memcpy(o, text, (size_t)n);
        memset(o + n, '0', (size_t)(point - n));
        return (size_t)point;
    }
    memcpy(o, text, (size_t)point);
    o[point] = '.';
    memcpy(o + point + 1, text + point, (size_t)(n - point));
    return (size_t)n + 1;
}

static size_t write_special(char *out, bool neg, bool nan)
{
    if (nan)
        return memcpy(out, "nan", 3), 3;
    if (neg)
        *out++ = '-';
    memcpy(out, "inf", 3);
    return 3 + (size_t)neg;
}

size_t ctr_fmt_f64(char *out, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    bool neg = bits >> 63;
    int exp = (int)(bits >> 52 & 0x7ff);
    uint64_t man = bits & 0xfffffffffffffu;
    if (exp == 0x7ff)
        return write_special(out, neg, man != 0);
    if (neg)
        *out = '-';
    double a = neg ? -v : v;
    if (a < 0x1p53 && a == (double)(uint64_t)a)
        return neg + ctr_fmt_u64(out + neg, (uint64_t)a);
    struct decimal d = exp ? shortest(man | 1ull << 52, exp - 1075, man == 0 && exp > 1) : shortest(man, -1074, false);
    return neg + write_decimal(out + neg, d);
}

size_t ctr_fmt_f32(char *out, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    bool neg = bits >> 31;
    int exp = (int)(bits >> 23 & 0xff);
    uint32_t man = bits & 0x7fffffu;
    if (exp == 0xff)
        return write_special(out, neg, man != 0);
    if (neg)
        *out = '-';
    float a = neg ? -v : v;
    if (a < 0x1p24f && a == (float)(uint32_t)a)
        return neg + ctr_fmt_u64(out + neg, (uint32_t)a);
    struct decimal d = exp ? shortest(man | 1u << 23, exp - 150, man == 0 && exp > 1) : shortest(man, -149, false);
    return neg + write_decimal(out + neg, d);
}

/* ---- reading ---- */

/* A binary float format: bits of the significand with the hidden one, exponent of the smallest subnormal's unit, and of
 * the unit of the largest numbers. */
struct binary {
    int bits, min_exp, max_exp;
};
static const struct binary binary64 = { 53, -1074, 971 }, binary32 = { 24, -149, 104 };

/* The parsed text: 0.d1d2d3… as digits and an exponent. */
struct number {
    bool neg;
    bool more;             /* there are nonzero digits after the first 19: w < value < w + 1 */
    uint64_t w;            /* the first 19 significant digits */
    int64_t exponent;      /* value = w * 10^exponent */
    const char *from, *to; /* the text from the first significant digit to the last digit; may contain a point */
    int64_t last;          /* power of ten of the last digit of the text */
};

static bool scan_exponent(const char *p, const char *end, int64_t *e)
{
    bool neg = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p == end)
        return false;
    int64_t x = 0;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        if (x < 100000000)
            x = x * 10 + (*p - '0');
    }
    *e = neg ? -x : x;
    return true;
}

static bool scan_number(const char *p, size_t n, struct number *x)
{
    const char *end = p + n, *point = NULL, *seen = NULL;
    uint64_t w = 0;
    int taken = 0;
    int64_t dropped = 0;
    *x = (struct number){ 0 };
    if (p < end && (*p == '-' || *p == '+'))
        x->neg = *p++ == '-';
    for (; p < end; p++) {
        unsigned d = (unsigned char)*p - (unsigned)'0';
        if (d <= 9) {
            seen = p;
            if (taken < 19) {
                w = w * 10 + d;
                taken += w != 0;
                if (taken == 1 && !x->from)
                    x->from = p;
            } else {
                dropped++;
                x->more |= d != 0;
            }
        } else if (*p == '.' && !point) {
            point = p;
        } else {
            break;
        }
    }
    if (!seen)
        return false;
    int64_t e = 0;
    if (p < end && ((*p | 32) != 'e' || !scan_exponent(p + 1, end, &e)))
        return false;
    if (point && seen > point)
        e -= seen - point;
    x->w = w;
    x->to = seen + 1;
    x->last = e;
    x->exponent = e + dropped;
    return true;
}

/* Big integers, little-endian words; large enough for every comparison of compare_exact. */
#define BIG_WORDS 128
struct big {
    int n;
    uint64_t w[BIG_WORDS];
};

static void big_mul_add(struct big *b, uint64_t f, uint64_t add)
{
    for (int i = 0; i < b->n; i++) {
        u128 t = (u128)b->w[i] * f + add;
        b->w[i] = (uint64_t)t;
        add = (uint64_t)(t >> 64);
    }
    if (add && b->n < BIG_WORDS)
        b->w[b->n++] = add;
}

static void big_mul_pow5(struct big *b, int64_t e)
{
    for (; e >= 27; e -= 27)
        big_mul_add(b, 7450580596923828125u, 0);
    for (; e > 0; e--)
        big_mul_add(b, 5, 0);
}

static void big_shift(struct big *b, int64_t bits)
{
    for (; bits >= 32; bits -= 32)
        big_mul_add(b, 1ull << 32, 0);
    big_mul_add(b, 1ull << bits, 0);
}

static int big_compare(const struct big *a, const struct big *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int i = a->n; i-- > 0;)
        if (a->w[i] != b->w[i])
            return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}

/* The sign of |text| - m * 2^e. No midpoint between two doubles has more than 767 significant digits, so of the digits
 * after the 800th only matters whether one is nonzero. */
static int compare_exact(const struct number *x, uint64_t m, int e)
{
    struct big a = { 0 }, b = { 0 };
    int64_t q = x->last, taken = 0;
    bool more = false;
    for (const char *p = x->from; p < x->to; p++) {
        if (*p == '.')
            continue;
        if (taken++ < 800) {
            big_mul_add(&a, 10, (uint64_t)(*p - '0'));
        } else {
            more |= *p != '0';
            q++;
        }
    }
    if (more) {
        big_mul_add(&a, 10, 1);
        q--;
    }
    big_mul_add(&b, 0, m);
    big_mul_pow5(q >= 0 ? &a : &b, q >= 0 ? q : -q);
    big_shift(q >= e ? &a : &b, q >= e ? q - e : e - q);
    return big_compare(&a, &b);
}

/* Round hi (plus something smaller, if `low`), in units of 2^shift, to nearest even; 1 <= shift <= 63. */
static uint64_t round_even(uint64_t hi, bool low, int shift)
{
    uint64_t m = hi >> shift, rest = hi & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    return m + (rest > half || (rest == half && (low || (m & 1))));
}

/* *significand * 2^*unit is the format's number nearest to |x|; false: out of range. */
static bool nearest(const struct number *x, const struct binary *f, uint64_t *significand, int *unit)
{
    *significand = 0;
    *unit = f->min_exp;
    if (x->w == 0 || x->exponent < CTR_POW10_MIN)
        return true;
    if (x->exponent > 308)
        return false;
    int q = (int)x->exponent, lz = __builtin_clzll(x->w);
    uint64_t w = x->w << lz;
    const uint64_t *row = ctr_pow10[q - CTR_POW10_MIN];
    /* The product of w and the power has 192 bits, hi:mid:low; one unit of hi is worth 2^e. */
    u128 high = (u128)w * row[0], low = (u128)w * row[1];
    u128 rest = (high << 64) + low;
    uint64_t hi = (uint64_t)(high >> 64) + (rest < low);
    int e = ctr_log2_pow10(q) + 1 - lz;
    int shift = 63 + (int)(hi >> 63) - f->bits;
    if (e + shift < f->min_exp)
        shift = f->min_exp - e;
    if (shift > 63) { /* below the smallest subnormal */
        *significand = shift <= 70 && compare_exact(x, 1, f->min_exp - 1) > 0;
        return true;
    }
    uint64_t m = round_even(hi, rest != 0, shift);
    if (x->more || q < 0 || q > 55) {
        /* The true value exceeds the product by less than w (the power was rounded down), and by less than another
         * power if digits were omitted. */
        u128 top_rest = rest + w;
        uint64_t top = hi + (top_rest < rest) + (x->more ? 1ull << lz : 0);
        if (top < hi || round_even(top, true, shift) != m) {
            uint64_t floor_m = hi >> shift;
            int c = compare_exact(x, 2 * floor_m + 1, e + shift - 1);
            m = floor_m + (c > 0 || (c == 0 && (floor_m & 1)));
        }
    }
    *significand = m;
    *unit = e + shift;
    if (m >> f->bits) {
        *significand = m >> 1;
        ++*unit;
    }
    return *unit <= f->max_exp;
}

/* nan, inf, infinity in any case, with an optional sign. */
static bool parse_special(const char *p, size_t n, double *v)
{
    bool neg = n && *p == '-';
    if (n && (*p == '-' || *p == '+'))
        p++, n--;
    if (n == 3 && !strncasecmp(p, "nan", 3))
        *v = __builtin_nan("");
    else if ((n == 3 && !strncasecmp(p, "inf", 3)) || (n == 8 && !strncasecmp(p, "infinity", 8)))
        *v = neg ? -__builtin_inf() : __builtin_inf();
    else
        return false;
    return true;
}

static const double small_pow10[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

bool ctr_parse_f64(const char *p, size_t n, double *v)
{
    struct number x;
    if (!scan_number(p, n, &x))
        return parse_special(p, n, v);
    if (x.w < 1ull << 53 && !x.more && x.exponent >= -22 && x.exponent <= 22) { /* both factors exact: one rounding */
        double d = (double)x.w;
        d = x.exponent < 0 ? d / small_pow10[-x.exponent] : d * small_pow10[x.exponent];
        *v = x.neg ? -d : d;
        return true;
    }
    uint64_t m;
    int unit;
    if (!nearest(&x, &binary64, &m, &unit))
        return false;
    uint64_t bits = m >> 52 ? (m & 0xfffffffffffffu) | (uint64_t)(unit + 1075) << 52 : m;
    bits |= (uint64_t)x.neg << 63;
    memcpy(v, &bits, 8);
    return true;
}

bool ctr_parse_f32(const char *p, size_t n, float *v)
{
    struct number x;
    if (!scan_number(p, n, &x)) {
        double special;
        if (!parse_special(p, n, &special))
            return false;
        *v = (float)special;
        return true;
    }
    if (x.w < 1u << 24 && !x.more && x.exponent >= -10 && x.exponent <= 10) {
        float d = (float)x.w, s = (float)small_pow10[x.exponent < 0 ? -x.exponent : x.exponent];
        d = x.exponent < 0 ? d / s : d * s;
        *v = x.neg ? -d : d;
        return true;
    }
    uint64_t m;
    int unit;
    if (!nearest(&x, &binary32, &m, &unit))
        return false;
    uint32_t bits = m >> 23 ? ((uint32_t)m & 0x7fffffu) | (uint32_t)(unit + 150) << 23 : (uint32_t)m;
    bits |= (uint32_t)x.neg << 31;
    memcpy(v, &bits, 4);
    return true;
}
