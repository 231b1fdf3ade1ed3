/* SPDX-License-Identifier: Apache-2.0
 *
 * num and float against the C library: random round trips, shortest output, edge cases. */
#include "common/base/base.h"
#include "common/base/pow10.h"
#include "tap.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* A sanitizer looks at the code, of which some of the numbers take every path: there one of so many. */
#ifdef __SANITIZE_ADDRESS__
enum { PART = 16 };
#else
enum { PART = 1 };
#endif

static uint64_t bits_of(double v)
{
    uint64_t b;
    memcpy(&b, &v, 8);
    return b;
}

static bool shows_f64(double v, const char *want)
{
    char out[CTR_NUM_MAX + 1];
    size_t n = ctr_fmt_f64(out, v);
    out[n] = 0;
    if (strcmp(out, want))
        printf("# got %s, want %s\n", out, want);
    return !strcmp(out, want);
}

static bool shows_f32(float v, const char *want)
{
    char out[CTR_NUM_MAX + 1];
    out[ctr_fmt_f32(out, v)] = 0;
    if (strcmp(out, want))
        printf("# got %s, want %s\n", out, want);
    return !strcmp(out, want);
}

/* Significant digits, without zeros at the end. */
static int digits_of(const char *shown)
{
    int digits = 0, zeros = 0;
    for (const char *p = shown; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9' && (digits || *p != '0')) {
            digits++;
            zeros = *p == '0' ? zeros + 1 : 0;
        }
    return digits - zeros;
}

/* Reads back to the same bits, with no more digits than the fewest that %.*e needs for it: of those from two fewer on,
 * as what fewer would do for, these do for too. */
static bool good_f64(double v)
{
    char out[CTR_NUM_MAX + 1], ref[64];
    size_t n = ctr_fmt_f64(out, v);
    out[n] = 0;
    double back;
    if (n > CTR_NUM_MAX || bits_of(strtod(out, NULL)) != bits_of(v) || !ctr_parse_f64(out, n, &back) ||
        bits_of(back) != bits_of(v))
        return printf("# %a is shown as %s\n", v, out), false;
    const int digits = digits_of(out);
    int fewest = digits > 3 ? digits - 2 : 1;
    for (; fewest < 17; fewest++) {
        snprintf(ref, sizeof ref, "%.*e", fewest - 1, v);
        if (bits_of(strtod(ref, NULL)) == bits_of(v))
            break;
    }
    if (digits > fewest)
        return printf("# %a is shown as %s, %s is enough\n", v, out, ref), false;
    return true;
}

static bool good_f32(float v)
{
    char out[CTR_NUM_MAX + 1], ref[64];
    size_t n = ctr_fmt_f32(out, v);
    out[n] = 0;
    float back, back2 = strtof(out, NULL);
    if (memcmp(&back2, &v, 4) || !ctr_parse_f32(out, n, &back) || memcmp(&back, &v, 4))
        return printf("# %a is shown as %s\n", (double)v, out), false;
    const int digits = digits_of(out);
    int fewest = digits > 3 ? digits - 2 : 1;
    for (; fewest < 9; fewest++) {
        snprintf(ref, sizeof ref, "%.*e", fewest - 1, (double)v);
        back2 = strtof(ref, NULL);
        if (!memcmp(&back2, &v, 4))
            break;
    }
    if (digits > fewest)
        return printf("# %a is shown as %s, %s is enough\n", (double)v, out, ref), false;
    return true;
}

/* Our reader and strtod agree, also on what is out of range. */
static bool reads_like_strtod(const char *s)
{
    double want = strtod(s, NULL), got;
    bool in_range = !isinf(want), read = ctr_parse_f64(s, strlen(s), &got);
    if (read != in_range || (read && bits_of(got) != bits_of(want)))
        return printf("# %s: %s %a, want %a\n", s, read ? "read" : "refused", read ? got : 0, want), false;
    float wantf = strtof(s, NULL), gotf;
    in_range = !isinf(wantf), read = ctr_parse_f32(s, strlen(s), &gotf);
    if (read != in_range || (read && memcmp(&gotf, &wantf, 4)))
        return printf("# %s: float32 %s %a, want %a\n", s, read ? "read" : "refused", read ? (double)gotf : 0.0,
                      (double)wantf),
               false;
    return true;
}

static void test_integers(void)
{
    char out[CTR_NUM_MAX + 1], ref[64];
    bool same = true;
    for (uint64_t i = 0; i < 200000 / PART; i++) {
        uint64_t v = ctr_random64(1, 0, i) >> (i % 64), back;
        int64_t s = (int64_t)v, sback;
        size_t n = ctr_fmt_u64(out, v);
        snprintf(ref, sizeof ref, "%llu", (unsigned long long)v);
        same &= n == strlen(ref) && !memcmp(out, ref, n) && ctr_parse_u64(out, n, &back) && back == v;
        s = i & 1 ? s : -s;
        n = ctr_fmt_i64(out, s);
        snprintf(ref, sizeof ref, "%lld", (long long)s);
        same &= n == strlen(ref) && !memcmp(out, ref, n) && ctr_parse_i64(out, n, &sback) && sback == s;
    }
    ok(same, "%d integers of every length are written and read back", 200000 / PART);
    uint64_t p10 = 1;
    for (same = true; p10 < UINT64_MAX / 10; p10 *= 10)
        for (int d = -1; d <= 1; d++) {
            size_t n = ctr_fmt_u64(out, p10 + (uint64_t)d);
            snprintf(ref, sizeof ref, "%llu", (unsigned long long)(p10 + (uint64_t)d));
            same &= n == strlen(ref) && !memcmp(out, ref, n);
        }
    ok(same, "integers around the powers of ten");
    int64_t i;
    uint64_t u;
    ok(ctr_parse_i64("-9223372036854775808", 20, &i) && i == INT64_MIN, "least int64");
    ok(ctr_parse_i64("+9223372036854775807", 20, &i) && i == INT64_MAX, "greatest int64, with a plus");
    ok(!ctr_parse_i64("9223372036854775808", 19, &i) && !ctr_parse_i64("-9223372036854775809", 20, &i), "int64 range");
    ok(ctr_parse_u64("18446744073709551615", 20, &u) && u == UINT64_MAX, "greatest uint64");
    ok(!ctr_parse_u64("18446744073709551616", 20, &u) && !ctr_parse_u64("99999999999999999999", 20, &u),
       "uint64 range");
    ok(ctr_parse_u64("000000000000000000000000000012", 30, &u) && u == 12, "leading zeros");
    static const char *const bad[] = { "",         "-",    "+",   "1 ",  " 1", "1a", "a1234567",
                                       "1234567:", "0x10", "1.0", "--1", "/",  ":" };
    bool refused = true;
    for (size_t k = 0; k < CTR_COUNT(bad); k++)
        refused &= !ctr_parse_i64(bad[k], strlen(bad[k]), &i);
    ok(refused && !ctr_parse_u64("-1", 2, &u), "what is no integer is refused");
    refused = true;
    for (int c = 0; c < 256; c++)
        for (int at = 0; at < 16; at++) {
            char s[16];
            memset(s, '7', 16);
            s[at] = (char)c;
            refused &= ctr_parse_u64(s, 16, &u) == ((c >= '0' && c <= '9') || (c == '+' && at == 0));
        }
    ok(refused, "every other byte at every place of sixteen digits is refused");
}

static void test_write(void)
{
    static const struct {
        double v;
        const char *text;
    } table[] = {
        { 0, "0" },
        { -0.0, "-0" },
        { 4, "4" },
        { -4, "-4" },
        { 0.1, "0.1" },
        { 1e-5, "1e-05" },
        { 0.0001, "0.0001" },
        { 0.00012345, "0.00012345" },
        { 123.456, "123.456" },
        { 9007199254740991.0, "9007199254740991" },
        { 9007199254740992.0, "9007199254740992" },
        { 1e15, "1000000000000000" },
        { 1e16, "1e+16" },
        { 1e22, "1e+22" },
        { 1.5e300, "1.5e+300" },
        { 5e-324, "5e-324" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { 2.2250738585072011e-308, "2.225073858507201e-308" },
        { 1.0 / 3, "0.3333333333333333" },
        { 9.5367431640625e-07, "9.5367431640625e-07" },
        { 1e23, "1e+23" },
        { 9e15, "9000000000000000" },
        { 0.3, "0.3" },
        { 2e-3, "0.002" },
        { INFINITY, "inf" },
        { -INFINITY, "-inf" },
        { NAN, "nan" },
        { -1e-7, "-1e-07" },
        { 12345678.9, "12345678.9" },
    };
    for (size_t i = 0; i < CTR_COUNT(table); i++)
        ok(shows_f64(table[i].v, table[i].text), "%s", table[i].text);
    ok(shows_f32(0.1f, "0.1") && shows_f32(16777216.0f, "16777216") && shows_f32(3.4028235e38f, "3.4028235e+38") &&
           shows_f32(1e-45f, "1e-45") && shows_f32(1.1754944e-38f, "1.1754944e-38") && shows_f32(-2.5f, "-2.5") &&
           shows_f32(33554432.0f, "33554432"),
       "float32");
    bool good = true;
    for (uint64_t i = 0; good && i < 200000 / PART; i++) {
        uint64_t b = ctr_random64(2, 0, i);
        double v;
        memcpy(&v, &b, 8);
        good = isnan(v) || good_f64(v);
    }
    ok(good, "%d doubles of random bits: shortest, and the same bits back", 200000 / PART);
    for (int e = -1074; good && e < 1024; e++)
        for (int d = -1; good && d <= 1; d++) {
            double v = ldexp(1, e);
            uint64_t b = bits_of(v) + (uint64_t)(int64_t)d;
            memcpy(&v, &b, 8);
            good = good_f64(v);
        }
    ok(good, "powers of two and their neighbours");
    for (uint64_t i = 0; good && i < 100000 / PART; i++) {
        double v = (double)(int64_t)(ctr_random64(3, 0, i) % 100000000) / pow(10, (double)(i % 9));
        good = good_f64(v) && good_f64(v * 1e10);
    }
    ok(good, "short decimals");
    for (uint64_t i = 0; good && i < 200000 / PART; i++) {
        uint32_t b = (uint32_t)ctr_random64(4, 0, i);
        float v;
        memcpy(&v, &b, 4);
        good = isnan(v) || good_f32(v);
    }
    ok(good, "%d floats of random bits", 200000 / PART);
    for (uint32_t b = 0; good && b < 255u << 23; b += 1u << 23)
        for (uint32_t d = 0; good && d < 3; d++) {
            uint32_t x = b + d - (b != 0);
            float v;
            memcpy(&v, &x, 4);
            good = good_f32(v);
        }
    ok(good, "powers of two in float32");
}

static void test_read(void)
{
    static const char *const edges[] = {
        "0",
        "-0",
        "0.0",
        "1.",
        ".5",
        "1e0",
        "1E+5",
        "1e-5",
        "0e999999999999",
        "1e309",
        "1e400",
        "1e-400",
        "1e99999999999",
        "1e-99999999999",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.47e-324",
        "7.4109846876186981e-324",
        "7.4109846876186982e-324",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "9007199254740993",
        "9007199254740993.0000000000000000000000000000000000000001",
        "9007199254740992.9999999999999999999999999999",
        "9007199254740995",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "16777217",
        "16777217.000000000000000000001",
        "16777219",
        "1.1754943e-38",
        "7.006492321624085e-46",
        "7.006492321624086e-46",
        "7.0064923216240853546186479164495806564013097093825788587853e-46",
        "7.0064923216240853546186479164495806564013097093825788587854e-46",
        "123456789012345678901234567890",
        "0.000000000000000000000000000000000000000000000000000000000000000000001e69",
        "8.98846567431158e307",
        "17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028641"
        "6692"
        "88791094655554785194040263065748867150582068190890200070838367627385484581771153176447573027006985557136695962"
        "2842"
        "914819860834936475292719074168444365510704342711559699508093042880",
        "17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028641"
        "6692"
        "88791094655554785194040263065748867150582068190890200070838367627385484581771153176447573027006985557136695962"
        "2842"
        "914819860834936475292719074168444365510704342711559699508093042879.99",
    };
    for (size_t i = 0; i < CTR_COUNT(edges); i++)
        ok(reads_like_strtod(edges[i]), "%.40s reads as strtod reads it", edges[i]);
    double v;
    static const char *const bad[] = { "",     ".",     "-",     "+",  "e5",  "1e", "1e+",  "1 ",   " 1",
                                       "1..2", "1.2.3", "0x1p3", "1f", "--1", "na", "infi", "nan0", "1e5.5" };
    bool refused = true;
    for (size_t i = 0; i < CTR_COUNT(bad); i++)
        refused &= !ctr_parse_f64(bad[i], strlen(bad[i]), &v);
    ok(refused, "what is no number is refused");
    ok(ctr_parse_f64("-Infinity", 9, &v) && v < -1e308 && ctr_parse_f64("NaN", 3, &v) && v != v, "names in any case");
    bool good = true;
    char s[4096];
    for (uint64_t i = 0; good && i < 300000 / PART; i++) {
        uint64_t r = ctr_random64(5, 0, i);
        snprintf(s, sizeof s, "%s%llu.%llue%d", r & 1 ? "-" : "",
                 (unsigned long long)(ctr_random64(5, 1, i) >> (r >> 1 & 63)),
                 (unsigned long long)ctr_random64(5, 2, i), (int)(r >> 20 & 1023) - 512);
        good = reads_like_strtod(s);
    }
    ok(good, "%d random long decimals", 300000 / PART);
    for (uint64_t i = 0; good && i < 100000 / PART;
         i++) { /* the midpoint of two neighbours, exact, just below, just above */
        uint64_t b = ctr_random64(6, 0, i) & 0x7fffffffffffffffu;
        if (i % 3 == 0)
            b &= 0x003fffffffffffffu; /* subnormals and the least normals */
        memcpy(&v, &b, 8);
        if (!(fabs(v) < 1e308))
            continue;
        uint64_t m = (b & 0xfffffffffffffu) | (uint64_t)(b >> 52 != 0) << 52;
        int e = (int)(b >> 52) - 1075 + !(b >> 52) - 1; /* the midpoint is (2m + 1) 2^e */
        if (e < -60 && i % 16)
            continue; /* long to print: fewer of them */
        long double mid = ldexpl((long double)(2 * m + 1), e);
        int n = snprintf(s, sizeof s, "%.1100Lf", mid);
        if (e < -1060)
            n = snprintf(s, sizeof s, "%.1100Le", mid);
        good = n < (int)sizeof s - 8 && reads_like_strtod(s);
        if (good && e >= -1060) {
            strcat(s, "1");
            good = reads_like_strtod(s);
        }
    }
    ok(good, "midpoints of neighbours, exact and just above");
}

static void test_pow10(void)
{
    /* 10^q = g 2^r, g in [2^127, 2^128): long multiplication upwards, and for q < 0 the product of the two is one. */
    bool good = true;
    unsigned char big[256] = { 1 }; /* little-endian 10^q */
    for (int q = 0; q <= CTR_POW10_MAX; q++) {
        int top = 255;
        while (!big[top])
            top--;
        int bits = top * 8 + 32 - __builtin_clz(big[top]);
        unsigned char want[16] = { 0 };
        for (int i = 0; i < 128; i++) {
            int from = bits - 128 + i;
            if (from >= 0 && big[from >> 3] >> (from & 7) & 1)
                want[i >> 3] |= (unsigned char)(1 << (i & 7));
        }
        const uint64_t *row = ctr_pow10[q - CTR_POW10_MIN];
        uint64_t hi, lo;
        memcpy(&lo, want, 8);
        memcpy(&hi, want + 8, 8);
        good &= row[0] == hi && row[1] == lo && ctr_log2_pow10(q) == bits - 1;
        unsigned carry = 0;
        for (int i = 0; i < 256; i++) {
            carry += big[i] * 10u;
            big[i] = (unsigned char)carry;
            carry >>= 8;
        }
    }
    ok(good, "powers of ten from 10^0 up are what long multiplication gives");
}

static void test_half(void)
{
    bool good = true;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = ctr_f16_to_f32((uint16_t)h);
        int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        double want = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        want = h >> 15 ? -want : want;
        good &= isnan(want) ? isnan(f) : (double)f == want && !!signbit(f) == (int)(h >> 15);
        good &= isnan(want) ? isnan(ctr_f16_to_f32(ctr_f32_to_f16(f))) : ctr_f32_to_f16(f) == h;
    }
    ok(good, "all 65,536 half floats are exact and come back");
    for (uint32_t h = 0; h + 1 < 0x7c00; h++) { /* midpoints round to even, their neighbours to the near side */
        float mid = (float)(((double)ctr_f16_to_f32((uint16_t)h) + (double)ctr_f16_to_f32((uint16_t)(h + 1))) / 2);
        good &= ctr_f32_to_f16(mid) == h + (h & 1);
        good &= ctr_f32_to_f16(nextafterf(mid, 1e9f)) == h + 1 && ctr_f32_to_f16(nextafterf(mid, 0)) == h;
    }
    ok(good, "rounding to nearest even");
    ok(ctr_f32_to_f16(65519.996f) == 0x7bff && ctr_f32_to_f16(65520) == 0x7c00 && ctr_f32_to_f16(-1e30f) == 0xfc00,
       "overflow");
}

static void test_units(void)
{
    int64_t v;
    ok(ctr_parse_size("64", &v) && v == 64 && ctr_parse_size("10K", &v) && v == 10240 && ctr_parse_size("2G", &v) &&
           v == 2LL << 30 && ctr_parse_size("1.5M", &v) && v == 3 << 19 && ctr_parse_size("110.6K", &v) &&
           v == 113255 && ctr_parse_size("2.7 MiB", &v) && v == 2831156,
       "sizes");
    ok(!strcmp(ctr_size_text_beyond((1 << 20) + 9, 1 << 20).s, "1.1 MiB") &&
           !strcmp(ctr_size_text_beyond(2831155, 1 << 20).s, "2.7 MiB") &&
           !strcmp(ctr_size_text_beyond(2831155, 2831150).s, "2.8 MiB"),
       "a size beyond a bound never reads like the bound");
    bool enough = true;
    for (uint64_t n = 1, bound = 0; n < 1ull << 50; bound = n, n += 1 + n / 700)
        enough &=
            ctr_parse_size(ctr_size_text_beyond(n, bound).s, &v) && (uint64_t)v >= n && (double)v < 1.2 * (double)n;
    ok(enough, "and is enough when it is typed");
    static const struct {
        double v;
        const char *text;
    } means[] = { { 0, "0.000000" },       { .5, "0.500000" },        { 1, "1.000000" },
                  { .001, "0.001000" },    { .000395, "0.0003950" },  { .00001234, "0.00001234" },
                  { 9.9e-6, "9.900e-06" }, { -.0004, "-0.0004000" },  { 1234.5, "1234.500000" },
                  { 1e300, "1.000e+300" }, { .00099999, "0.0010000" } };
    for (size_t i = 0; i < CTR_COUNT(means); i++)
        ok(!strcmp(ctr_mean_text(means[i].v).s, means[i].text), "a mean for people: %s", ctr_mean_text(means[i].v).s);
    ok(!strcmp(ctr_size_text(0).s, "0 B") && !strcmp(ctr_size_text(1023).s, "1023 B") &&
           !strcmp(ctr_size_text(1024).s, "1 KiB") && !strcmp(ctr_size_text((1 << 20) - 1).s, "1 MiB") &&
           !strcmp(ctr_size_text(2831155).s, "2.7 MiB") && !strcmp(ctr_size_text(10 << 20).s, "10 MiB") &&
           !strcmp(ctr_size_text(UINT64_MAX).s, "16 EiB"),
       "sizes for people");
    ok(!ctr_parse_size("", &v) && !ctr_parse_size("K", &v) && !ctr_parse_size("-1", &v) &&
           !ctr_parse_size("9999999999G", &v) && !ctr_parse_size("1X", &v) && !ctr_parse_size("1.0001", &v),
       "what is no size");
    ok(ctr_parse_duration("14d", 3, &v) && v == 14LL * 86400000 && ctr_parse_duration("1h", 2, &v) && v == 3600000 &&
           ctr_parse_duration("30m", 3, &v) && v == 1800000 && ctr_parse_duration("15s", 3, &v) && v == 15000 &&
           ctr_parse_duration("250ms", 5, &v) && v == 250 && ctr_parse_duration("1.5h", 4, &v) && v == 5400000,
       "durations");
    ok(!ctr_parse_duration("14", 2, &v) && !ctr_parse_duration("d", 1, &v), "a duration needs number and unit");
}

int main(void)
{
    test_integers();
    test_write();
    test_read();
    test_pow10();
    test_half();
    test_units();
    return done_testing();
}
