/* SPDX-License-Identifier: Apache-2.0
 *
 * values_foreign: values of Arrow types that have none of ours: decimals, times of day, durations, UUIDs. A value that
 * ours does not hold is an error with its row, never another value.
 *
 * A decimal of scale 0 is an int64. One with a fraction is a float64, if that gives back all of its digits: a
 * float64 does so for up to 15, and for more of them where printing it with as many digits gives the same ones. The
 * caller may want another type (struct ctr_decimal).
 */
#include "common/stream/arrow.h"

#include <stdio.h>

enum { LIMBS = 8, DIGITS = 80 };

/* The magnitude of a decimal in digits without leading zeros. */
struct digits {
    char text[DIGITS];
    int n;
    bool negative;
};

static void read_limbs(const uint8_t *p, int bits, uint32_t limb[LIMBS], bool *negative)
{
    const int n = bits / 32;
    memcpy(limb, p, (size_t)bits / 8);
    *negative = limb[n - 1] >> 31;
    uint64_t carry = *negative;
    for (int i = 0; i < n; i++) {
        carry += *negative ? ~limb[i] : limb[i];
        limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    for (int i = n; i < LIMBS; i++)
        limb[i] = 0;
}

static void get_digits(const uint8_t *p, int bits, struct digits *d)
{
    uint32_t limb[LIMBS];
    char back[DIGITS + 9];
    int n = 0, top = LIMBS;
    read_limbs(p, bits, limb, &d->negative);
    while (top > 0) {
        uint64_t rest = 0;
        for (int i = top; i-- > 0;) {
            rest = rest << 32 | limb[i];
            limb[i] = (uint32_t)(rest / 1000000000);
            rest %= 1000000000;
        }
        for (int k = 0; k < 9; k++, rest /= 10)
            back[n++] = (char)('0' + rest % 10);
        while (top > 0 && !limb[top - 1])
            top--;
    }
    while (n && back[n - 1] == '0')
        n--;
    d->n = n;
    for (int i = 0; i < n; i++)
        d->text[i] = back[n - 1 - i];
}

/* d * 10^-scale as an int64, if it has no fraction. */
static bool to_int(const struct digits *d, int scale, int64_t *v)
{
    const int whole = d->n - CTR_MAX(scale, 0);
    char text[DIGITS];
    int n = snprintf(text, sizeof text, "%s", d->negative ? "-" : "");
    *v = 0;
    if (!d->n)
        return true;
    if (whole <= 0 || d->n - scale > 19)
        return false;
    for (int i = whole; i < d->n; i++)
        if (d->text[i] != '0')
            return false;
    memcpy(text + n, d->text, (size_t)whole);
    n += whole;
    for (int i = 0; i < -scale; i++)
        text[n++] = '0';
    return ctr_parse_i64(text, (size_t)n, v);
}

/* False: *v is not exactly d * 10^-scale. */
static bool to_float(const struct digits *d, int scale, double *v)
{
    char text[2 * DIGITS + 16], back[2 * DIGITS + 16];
    int n = d->n, at = 0;
    while (n && d->text[n - 1] == '0')
        n--;
    *v = 0;
    if (!n)
        return true;
    const int exponent = d->n - 1 - scale; /* of the first digit */
    at += snprintf(text, sizeof text, "%s%c%s%.*s", d->negative ? "-" : "", d->text[0], n > 1 ? "." : "", n - 1,
                   d->text + 1);
    const int mantissa = at;
    at += snprintf(text + at, sizeof text - (size_t)at, "e%d", exponent);
    if (!ctr_parse_f64(text, (size_t)at, v))
        return false;
    if (n <= 15)
        return exponent > -300 && exponent < 300;
    snprintf(back, sizeof back, "%.*e", n - 1, *v);
    return !strncmp(text, back, (size_t)mantissa) && back[mantissa] == 'e';
}

/* Nearly all: an int64 of at most 15 digits, whose quotient by an exact power of ten is rounded once. */
static bool small(const uint8_t *p, int bits, int64_t *v)
{
    int64_t word[4] = { 0 };
    int32_t half;
    memcpy(&half, p, sizeof half);
    memcpy(word, p, (size_t)bits / 8);
    *v = bits == 32 ? half : word[0];
    for (int i = 1; i < bits / 64; i++)
        if (word[i] != (*v < 0 ? -1 : 0))
            return false;
    return *v > -INT64_C(1000000000000000) && *v < INT64_C(1000000000000000);
}

static bool quick(const struct ctr_col *c, const uint8_t *p, int bits, int scale, void *to)
{
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    int64_t v;
    if (scale < 0 || scale >= (int)CTR_COUNT(power) || (c->type == CTR_I64 && scale) || !small(p, bits, &v))
        return false;
    if (c->type == CTR_F64)
        *(double *)to = (double)v / power[scale];
    else
        *(int64_t *)to = v;
    return true;
}

static int refuse(int64_t row, const char *why, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EKIND, "row %lld of the batch: %s", (long long)row + 1, why);
}

int ctr_decimal_values(const struct ctr_col *c, const uint8_t *p, int bits, int scale, void *to, int64_t *rounded,
                       struct ctr_err *err)
{
    for (int64_t i = 0; i < c->rows; i++, p += bits / 8) {
        struct digits d;
        if (ctr_col_null(c, i)) {
            ((int64_t *)to)[i] = 0;
            continue;
        }
        if (quick(c, p, bits, scale, (int64_t *)to + i))
            continue;
        get_digits(p, bits, &d);
        if (c->type == CTR_I64 && !to_int(&d, scale, (int64_t *)to + i))
            return refuse(i, "the decimal is no int64", err);
        if (c->type != CTR_F64 || to_float(&d, scale, (double *)to + i))
            continue;
        if (!rounded)
            return refuse(i, "a float64 would round the decimal", err);
        ++*rounded;
    }
    return 0;
}

/* "-12.50"; with a negative scale zeros behind the digits. Returns its length. */
static int decimal_text(const struct digits *d, int scale, char *out)
{
    const int behind = CTR_MAX(scale, 0), whole = CTR_MAX(d->n - behind, 0);
    int n = 0;
    if (d->negative)
        out[n++] = '-';
    if (!whole)
        out[n++] = '0';
    memcpy(out + n, d->text, (size_t)whole);
    n += whole;
    for (int i = 0; d->n && i < -scale; i++)
        out[n++] = '0';
    if (behind)
        out[n++] = '.';
    for (int i = d->n; i < behind; i++)
        out[n++] = '0';
    memcpy(out + n, d->text + whole, (size_t)(d->n - whole));
    return n + d->n - whole;
}

int ctr_decimal_texts(const struct ctr_col *c, const uint8_t *p, int bits, int scale, struct arrow_level *lv,
                      struct ctr_err *err)
{
    char text[3 * DIGITS];
    int rc = ctr_buf_reserve(&lv->offsets, ((size_t)c->rows + 1) * 4, err);
    int32_t *offset = (int32_t *)(void *)lv->offsets.data;
    ctr_buf_clear(&lv->data);
    for (int64_t i = 0; !rc && i < c->rows; i++, p += bits / 8) {
        struct digits d;
        offset[i] = (int32_t)lv->data.len;
        if (ctr_col_null(c, i))
            continue;
        get_digits(p, bits, &d);
        rc = ctr_buf_append(&lv->data, text, (size_t)decimal_text(&d, scale, text), err);
        if (!rc && lv->data.len > INT32_MAX)
            rc = ctr_fail(err, CTR_EKIND, "a batch holds more than 2^31-1 bytes of text: write smaller batches");
    }
    if (!rc)
        offset[c->rows] = (int32_t)lv->data.len;
    return rc ? rc : ctr_buf_reserve(&lv->data, 1, err);
}

int ctr_span_values(const struct ctr_col *c, const uint8_t *p, int bits, int unit, int64_t *to, struct ctr_err *err)
{
    static const int64_t mul[] = { 1000, 1, 1, 1 }, div[] = { 1, 1, 1000, 1000000 };
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t v = bits == 32 ? ((const int32_t *)(const void *)p)[i] : ((const int64_t *)(const void *)p)[i];
        if (ctr_col_null(c, i))
            v = 0;
        if (v % div[unit])
            return refuse(i, "it is finer than a millisecond: cast the column to int64", err);
        if (__builtin_mul_overflow(v / div[unit], mul[unit], &to[i]))
            return refuse(i, "it is too long for milliseconds in an int64: cast the column to int64", err);
    }
    return 0;
}

/* 6ba7b810-9dad-11d1-80b4-00c04fd430c8 */
int ctr_uuid_values(const struct ctr_col *c, const uint8_t *p, struct arrow_level *lv, struct ctr_err *err)
{
    static const char hex[] = "0123456789abcdef";
    enum { UUID = 16, TEXT = 36 };
    if (c->rows > INT32_MAX / TEXT)
        return ctr_fail(err, CTR_EKIND, "a batch holds more than 2^31-1 bytes of text: write smaller batches");
    int rc = ctr_buf_reserve(&lv->offsets, ((size_t)c->rows + 1) * 4, err);
    if (!rc)
        rc = ctr_buf_reserve(&lv->data, (size_t)c->rows * TEXT + 1, err);
    if (rc)
        return rc;
    int32_t *offset = (int32_t *)(void *)lv->offsets.data;
    char *to = (char *)lv->data.data, *const start = to;
    offset[0] = 0;
    for (int64_t i = 0; i < c->rows; i++, p += UUID) {
        for (int k = 0; k < UUID && !ctr_col_null(c, i); k++) {
            if (k == 4 || k == 6 || k == 8 || k == 10)
                *to++ = '-';
            *to++ = hex[p[k] >> 4];
            *to++ = hex[p[k] & 15];
        }
        offset[i + 1] = (int32_t)(to - start);
    }
    return 0;
}
