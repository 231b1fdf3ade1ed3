/* SPDX-License-Identifier: Apache-2.0
 *
 * column: reads single values from borrowed columns: as numbers, text, hashes, and for comparison. For conversions at
 * the boundaries and for keys; hot loops read the buffers directly. */
#include "common/base/isa.h"
#include "common/stream/batch.h"

#include <math.h>

int64_t ctr_bits_count(const uint8_t *bits, int64_t from, int64_t n)
{
    const int64_t to = from + n;
    int64_t ones = 0;
    uint64_t w;

    for (; from < to && (from & 7); from++)
        ones += ctr_bit(bits, from);
    for (; to - from >= 64; from += 64) {
        memcpy(&w, bits + from / 8, 8);
        ones += __builtin_popcountll(w);
    }
    for (; from < to; from++)
        ones += ctr_bit(bits, from);
    return ones;
}

int64_t ctr_col_i64(const struct ctr_col *c, int64_t i)
{
    c = ctr_col_plain(c, &i);
    switch (c->type) {
    case CTR_BOOL: return ctr_bit(c->data, i);
    case CTR_I8: return ((const int8_t *)c->data)[i];
    case CTR_I16: return ((const int16_t *)c->data)[i];
    case CTR_I32: return ((const int32_t *)c->data)[i];
    case CTR_U8: return ((const uint8_t *)c->data)[i];
    case CTR_U16: return ((const uint16_t *)c->data)[i];
    case CTR_U32: return ((const uint32_t *)c->data)[i];
    case CTR_I64:
    case CTR_U64:
    case CTR_WKEY:
    case CTR_TIME: return ((const int64_t *)c->data)[i];
    case CTR_F16:
    case CTR_F32:
    case CTR_F64: {
        double d = ctr_col_f64(c, i);
        return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : 0;
    }
    default: return 0;
    }
}

double ctr_col_f64(const struct ctr_col *c, int64_t i)
{
    c = ctr_col_plain(c, &i);
    switch (c->type) {
    case CTR_F16: return (double)ctr_f16_to_f32(((const uint16_t *)c->data)[i]);
    case CTR_F32: return (double)((const float *)c->data)[i];
    case CTR_F64: return ((const double *)c->data)[i];
    case CTR_U64: return (double)((const uint64_t *)c->data)[i];
    default: return (double)ctr_col_i64(c, i);
    }
}

#define TO_F64(T)                                                                                                      \
    do {                                                                                                               \
        const T *v = (const T *)c->data + from;                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = (double)v[i];                                                                                     \
    } while (0)

void ctr_col_to_f64(const struct ctr_col *c, double null_value, double *out)
{
    ctr_col_range_f64(c, 0, c->rows, null_value, out);
}

CTR_FAST void ctr_col_range_f64(const struct ctr_col *c, int64_t from, int64_t n, double null_value, double *out)
{
    if (c->dict || c->type == CTR_BOOL || c->type == CTR_F16) {
        for (int64_t i = 0; i < n; i++)
            out[i] = ctr_col_missing(c, from + i) ? null_value : ctr_col_f64(c, from + i);
        return;
    }
    switch (c->type) {
    case CTR_I8: TO_F64(int8_t); break;
    case CTR_I16: TO_F64(int16_t); break;
    case CTR_I32: TO_F64(int32_t); break;
    case CTR_I64:
    case CTR_TIME: TO_F64(int64_t); break;
    case CTR_U8: TO_F64(uint8_t); break;
    case CTR_U16: TO_F64(uint16_t); break;
    case CTR_U32: TO_F64(uint32_t); break;
    case CTR_U64: TO_F64(uint64_t); break;
    case CTR_F32: TO_F64(float); break;
    case CTR_F64: TO_F64(double); break;
    default: break;
    }
    for (int64_t i = 0; c->valid && i < n; i++)
        if (!ctr_bit(c->valid, from + i))
            out[i] = null_value;
}

/* ---- text ---- */

static int list_text(const struct ctr_col *c, int64_t row, struct ctr_buf *out, struct ctr_err *err)
{
    int64_t from = 0, to = 0;
    const struct ctr_col *item = ctr_col_items(c, ctr_col_width(c), row, &from, &to);
    int rc = ctr_buf_append(out, "[", 1, err);

    for (int64_t i = from; !rc && i < to; i++) {
        if (i > from)
            rc = ctr_buf_append(out, ",", 1, err);
        if (!rc)
            rc = ctr_col_text(item, i, out, err);
    }
    return rc ? rc : ctr_buf_append(out, "]", 1, err);
}

static int wkey_text(const struct ctr_col *c, int64_t i, struct ctr_buf *out, struct ctr_err *err)
{
    char text[2 * CTR_NUM_MAX + 1];
    size_t n = ctr_fmt_u64(text, ((const uint64_t *)c->data)[i]);

    text[n++] = ':';
    n += ctr_fmt_f32(text + n, c->weight[i]);
    return ctr_buf_append(out, text, n, err);
}

int ctr_col_text(const struct ctr_col *c, int64_t i, struct ctr_buf *out, struct ctr_err *err)
{
    char text[CTR_NUM_MAX + 32];
    size_t n;

    if (ctr_col_missing(c, i))
        return 0;
    c = ctr_col_plain(c, &i);
    switch (c->type) {
    case CTR_UTF8: {
        struct ctr_str s = ctr_col_str(c, i);
        return ctr_buf_append(out, s.p, s.n, err);
    }
    case CTR_LIST:
    case CTR_FIXED: return list_text(c, i, out, err);
    case CTR_WKEY: return wkey_text(c, i, out, err);
    case CTR_BOOL: n = ctr_bit(c->data, i) ? (memcpy(text, "true", 4), 4) : (memcpy(text, "false", 5), 5); break;
    case CTR_TIME: n = ctr_time_iso(text, ctr_col_i64(c, i)); break;
    case CTR_F16: n = ctr_fmt_f32(text, ctr_f16_to_f32(((const uint16_t *)c->data)[i])); break;
    case CTR_F32: n = ctr_fmt_f32(text, ((const float *)c->data)[i]); break;
    case CTR_F64: n = ctr_fmt_f64(text, ((const double *)c->data)[i]); break;
    case CTR_U64: n = ctr_fmt_u64(text, ((const uint64_t *)c->data)[i]); break;
    default: n = ctr_fmt_i64(text, ctr_col_i64(c, i)); break;
    }
    return ctr_buf_append(out, text, n, err);
}

/* ---- order ---- */

static int compare_f64(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int compare_lists(const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    int64_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;

    a = ctr_col_items(a, ctr_col_width(a), i, &a0, &a1);
    b = ctr_col_items(b, ctr_col_width(b), j, &b0, &b1);
    for (; a0 < a1 && b0 < b1; a0++, b0++) {
        int c = ctr_col_compare(a, a0, b, b0);
        if (c)
            return c;
    }
    return (a0 < a1) - (b0 < b1);
}

int ctr_col_compare(const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    bool an = ctr_col_missing(a, i), bn = ctr_col_missing(b, j);

    if (an || bn)
        return an - bn;
    a = ctr_col_plain(a, &i);
    b = ctr_col_plain(b, &j);
    switch (a->type) {
    case CTR_UTF8: {
        struct ctr_str s = ctr_col_str(a, i), t = ctr_col_str(b, j);
        int c = memcmp(s.p, t.p, CTR_MIN(s.n, t.n));
        return c ? c : (s.n > t.n) - (s.n < t.n);
    }
    case CTR_LIST:
    case CTR_FIXED: return compare_lists(a, i, b, j);
    case CTR_F16:
    case CTR_F32:
    case CTR_F64: return compare_f64(ctr_col_f64(a, i), ctr_col_f64(b, j));
    case CTR_WKEY:
    case CTR_U64: {
        uint64_t u = ((const uint64_t *)a->data)[i], v = ((const uint64_t *)b->data)[j];
        if (u == v && a->type == CTR_WKEY)
            return compare_f64((double)a->weight[i], (double)b->weight[j]);
        return (u > v) - (u < v);
    }
    default: {
        int64_t u = ctr_col_i64(a, i), v = ctr_col_i64(b, j);
        return (u > v) - (u < v);
    }
    }
}

/* ---- hashes ---- */

/* A number with an integral value hashes like the integer, so that 4 and 4.0 are equal; others by the bits of the
 * double. */
static uint64_t hash_f64(double d, uint64_t seed)
{
    uint64_t bits;

    if (d >= -0x1p63 && d < 0x1p63 && d == (double)(int64_t)d)
        return ctr_mix64((uint64_t)(int64_t)d ^ seed);
    if (d >= 0x1p63 && d < 0x1p64)
        return ctr_mix64((uint64_t)d ^ seed);
    if (isnan(d))
        d = (double)NAN;
    memcpy(&bits, &d, 8);
    return ctr_mix64(ctr_mix64(bits + 1) ^ seed);
}

/* Hashes like an integer that no column can hold. */
static const uint64_t MISSING = 0xb49a1f7c83d652e9u;

uint64_t ctr_col_hash(const struct ctr_col *c, int64_t i, uint64_t seed)
{
    if (ctr_col_missing(c, i))
        return ctr_mix64(seed ^ MISSING);
    c = ctr_col_plain(c, &i);
    switch (c->type) {
    case CTR_UTF8: {
        struct ctr_str s = ctr_col_str(c, i);
        return ctr_hash64(s.p, s.n, seed);
    }
    case CTR_LIST:
    case CTR_FIXED: {
        int64_t from = 0, to = 0;
        uint64_t h;
        c = ctr_col_items(c, ctr_col_width(c), i, &from, &to);
        h = ctr_mix64(seed ^ (uint64_t)(to - from));
        for (; from < to; from++)
            h = ctr_col_hash(c, from, h);
        return h;
    }
    case CTR_F16:
    case CTR_F32:
    case CTR_F64: return hash_f64(ctr_col_f64(c, i), seed);
    case CTR_WKEY: return hash_f64((double)c->weight[i], ctr_mix64(((const uint64_t *)c->data)[i] ^ seed));
    default: return ctr_mix64((uint64_t)ctr_col_i64(c, i) ^ seed);
    }
}
