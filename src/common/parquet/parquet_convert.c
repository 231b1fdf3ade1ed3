/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_convert: physical values to ours (LogicalTypes.md): times to milliseconds of UTC, narrow integers, and
 * texts of UUIDs and decimals. */
#include "common/parquet/parquet_impl.h"

enum { DAY_MS = 86400000, JULIAN_1970 = 2440588 };

static int64_t load_i64(const uint8_t *p)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static int32_t load_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void store_i64(uint8_t *p, int64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* ---- times ---- */

/* Rounded down; counts the values that have finer digits. */
static void divide(struct pq_column *c, const uint8_t *from, int64_t n, int64_t by, uint8_t *to)
{
    int64_t lost = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = load_i64(from + 8 * i), q = v / by, r = v % by;
        lost += r != 0;
        store_i64(to + 8 * i, q - (r < 0));
    }
    c->lost += lost;
}

static int from_seconds(const struct pq_column *c, const uint8_t *from, int64_t n, uint8_t *to, struct ctr_err *err)
{
    bool bad = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t ms;
        bad |= __builtin_mul_overflow(load_i64(from + 8 * i), (int64_t)1000, &ms);
        store_i64(to + 8 * i, ms);
    }
    return bad ? ctr_pq_damaged(c, err, "a duration is too long for milliseconds") : 0;
}

static void from_int96(struct pq_column *c, const uint8_t *from, int64_t n, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++, from += 12) {
        const int64_t ns = load_i64(from), day = (int64_t)(uint32_t)load_i32(from + 8);
        const int64_t q = ns / 1000000, r = ns % 1000000;
        c->lost += r != 0;
        store_i64(to + 8 * i, (day - JULIAN_1970) * DAY_MS + q - (r < 0));
    }
}

/* ---- narrow integers ---- */

static int narrow(struct pq_column *c, const uint8_t *from, int64_t n, uint8_t *to, struct ctr_err *err)
{
    const enum ctr_type t = c->leaf->max_rep ? c->leaf->native.item : c->leaf->native.type;
    const int bits = 8 * ctr_types[t].width;
    const bool is_signed = ctr_types[t].is_signed;
    bool bad = false;
    for (int64_t i = 0; i < n; i++) {
        const int32_t v = load_i32(from + 4 * i);
        const int32_t kept = is_signed ? (int32_t)((uint32_t)v << (32 - bits)) >> (32 - bits)
                                       : (int32_t)((uint32_t)v & ((1u << bits) - 1));
        bad |= kept != v;
        if (bits == 8)
            to[i] = (uint8_t)v;
        else
            memcpy(to + 2 * i, &v, 2);
    }
    return bad ? ctr_pq_damaged(c, err, "a value is out of the range of %s, which is its type", ctr_types[t].name) : 0;
}

int ctr_pq_convert(struct pq_column *c, const uint8_t *from, int64_t n, uint8_t *to, struct ctr_err *err)
{
    switch (c->leaf->kind) {
    case PQ_K_NARROW: return narrow(c, from, n, to, err);
    case PQ_K_DAY:
        for (int64_t i = 0; i < n; i++)
            store_i64(to + 8 * i, (int64_t)load_i32(from + 4 * i) * DAY_MS);
        return 0;
    case PQ_K_MS32:
        for (int64_t i = 0; i < n; i++)
            store_i64(to + 8 * i, load_i32(from + 4 * i));
        return 0;
    case PQ_K_US: divide(c, from, n, 1000, to); return 0;
    case PQ_K_NS: divide(c, from, n, 1000000, to); return 0;
    case PQ_K_S: return from_seconds(c, from, n, to, err);
    case PQ_K_INT96: from_int96(c, from, n, to); return 0;
    default: return 0;
    }
}

/* ---- texts ---- */

static void uuid_text(const uint8_t *p, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
}

enum { WORDS = 8, DIGITS = 80, DECIMAL_TEXT = DIGITS + 104 };

/* The magnitude of a two's complement number, of up to 32 bytes with the most significant first, as 32-bit words with
 * the least significant first. */
static bool magnitude(const uint8_t *p, size_t n, uint32_t *word)
{
    const bool negative = n && p[0] & 0x80;
    memset(word, 0, WORDS * sizeof *word);
    for (size_t i = 0; i < n; i++) {
        const size_t k = n - 1 - i;
        word[k / 4] |= (uint32_t)(negative ? (uint8_t)~p[i] : p[i]) << (8 * (k % 4));
    }
    uint64_t carry = negative;
    for (int i = 0; i < WORDS && carry; i++) {
        carry += word[i];
        word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return negative;
}

/* The decimal digits of a magnitude, the least significant first; at least scale + 1 of them. */
static size_t decimal_digits(uint32_t *word, int32_t scale, char *out)
{
    size_t n = 0;
    for (bool any = true; any;) {
        uint64_t rest = 0;
        any = false;
        for (int i = WORDS - 1; i >= 0; i--) {
            rest = rest << 32 | word[i];
            word[i] = (uint32_t)(rest / 1000000000);
            rest %= 1000000000;
            any |= word[i] != 0;
        }
        for (int k = 0; k < 9; k++, rest /= 10)
            out[n++] = (char)('0' + rest % 10);
    }
    while (n > (size_t)scale + 1 && out[n - 1] == '0')
        n--;
    while (n < (size_t)scale + 1)
        out[n++] = '0';
    return n;
}

/* "-12.50"; scale 0: "-12". Returns its length. */
static size_t decimal_text(const uint8_t *p, size_t n, int32_t scale, char *out)
{
    uint32_t word[WORDS];
    char digits[DECIMAL_TEXT];
    size_t at = 0;
    const bool negative = magnitude(p, n, word);
    const size_t k = decimal_digits(word, scale, digits);
    if (negative)
        out[at++] = '-';
    for (size_t i = k; i-- > 0;) {
        out[at++] = digits[i];
        if (scale && i == (size_t)scale)
            out[at++] = '.';
    }
    return at;
}

/* The number with the most significant byte first: INT32 and INT64 are little-endian. */
static bool decimal_bytes(const struct pq_leaf *l, struct ctr_str raw, uint8_t *out, size_t *n)
{
    *n = raw.n;
    if (raw.n > 32)
        return false;
    const bool little = l->type == PQ_INT32 || l->type == PQ_INT64;
    for (size_t i = 0; i < raw.n; i++)
        out[little ? raw.n - 1 - i : i] = (uint8_t)raw.p[i];
    return true;
}

int ctr_pq_texts(const struct pq_leaf *l, const struct ctr_str *raw, int64_t n, struct ctr_buf *texts,
                 struct ctr_str *views, struct ctr_err *err)
{
    const size_t room = l->kind == PQ_K_UUID ? 36 : DECIMAL_TEXT + 2, from = texts->len;
    int rc = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t bytes[32];
        size_t k;
        if ((rc = ctr_buf_reserve(texts, room, err)))
            return rc;
        char *to = (char *)texts->data + texts->len;
        if (l->kind == PQ_K_UUID) {
            uuid_text((const uint8_t *)raw[i].p, to);
            k = 36;
        } else if (decimal_bytes(l, raw[i], bytes, &k)) {
            k = decimal_text(bytes, k, l->scale, to);
        } else {
            return ctr_fail(err, CTR_EDATA, "column %s: a decimal has %zu bytes, which is more than 32", l->name,
                            raw[i].n);
        }
        views[i].n = k;
        texts->len += k;
    }
    const char *p = (const char *)texts->data + from;
    for (int64_t i = 0; i < n; i++) { /* texts moves no more */
        views[i].p = p;
        p += views[i].n;
    }
    return 0;
}
