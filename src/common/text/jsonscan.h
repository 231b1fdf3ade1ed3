/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonscan: the inlined parts of the scanner, used for every value. Private to json.c and jsontree.c.
 */
#ifndef CTR_JSONSCAN_H
#define CTR_JSONSCAN_H

#include "common/base/isa.h"
#include "common/text/json.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ONES 0x0101010101010101u
#define HIGH 0x8080808080808080u

/* Eight bytes, the first lowest. */
static inline uint64_t load(const char *p)
{
    uint64_t x;

    memcpy(&x, p, 8);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap64(x);
}

/* ---- sixteen bytes at a time: masks with a bit (SSE2), or a byte's high bit, for each wanted byte ---- */

#ifdef __SSE2__
enum { STEP = 16 };
typedef unsigned mask_t;

static inline mask_t mask_string(const char *p) /* " and \ */
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (mask_t)_mm_movemask_epi8(
        _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'))));
}

static inline mask_t mask_structure(const char *p) /* " [ ] { } */
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p), y = _mm_or_si128(x, _mm_set1_epi8(0x20));
    __m128i m = _mm_or_si128(_mm_cmpeq_epi8(y, _mm_set1_epi8('{')), _mm_cmpeq_epi8(y, _mm_set1_epi8('}')));
    return (mask_t)_mm_movemask_epi8(_mm_or_si128(m, _mm_cmpeq_epi8(x, _mm_set1_epi8('"'))));
}
static inline int mask_first(mask_t m)
{
    return __builtin_ctz(m);
}
#else
enum { STEP = 8 };
typedef uint64_t mask_t;
static inline uint64_t equal(uint64_t x, unsigned char c) /* reliable up to and including the first match */
{
    x ^= ONES * c;
    return (x - ONES) & ~x & HIGH;
}
static inline mask_t mask_string(const char *p)
{
    uint64_t x = load(p);
    return equal(x, '"') | equal(x, '\\');
}
static inline mask_t mask_structure(const char *p)
{
    uint64_t x = load(p), y = x | ONES * 0x20;
    return equal(x, '"') | equal(y, '{') | equal(y, '}');
}
static inline int mask_first(mask_t m)
{
    return __builtin_ctzll(m) / 8;
}
#endif

/* p is after the opening quote: returns the closing one. Inlined: a member has a key, and often a text as its value. */
CTR_BODY const char *ctr_json_string_end(const char *p, const char *end, bool *escaped, const char **why)
{
    *escaped = false;
    while (p < end) {
        mask_t m = mask_string(p);
        if (!m) {
            p += STEP;
            continue;
        }
        p += mask_first(m);
        if (p >= end)
            break;
        if (*p == '"')
            return p;
        *escaped = true;
        p += 2;
    }
    *why = "a string without its closing quote";
    return NULL;
}

/* How many digits there are at p, at most eight. */
static inline int digit_run(const char *p)
{
    const uint64_t y = load(p) ^ ONES * '0';
    const uint64_t other = (((y & ~HIGH) + ONES * (0x80 - 10)) | y) & HIGH; /* the bytes that are not digits */
    return other ? __builtin_ctzll(other) / 8 : 8;
}

static inline const char *digits_end(const char *p)
{
    int k;
    while ((k = digit_run(p)) == 8)
        p += 8;
    return p + k;
}

/* The end of the number at p, which has no exponent, or NULL. Apart: the caller reads what has few digits. */
static __attribute__((noinline, unused)) const char *ctr_json_number_end(const char *p)
{
    const char *first = p + (*p == '-'), *q = digits_end(first), *point = q;
    if (*q == '.')
        q = digits_end(q + 1);
    return point > first && q != point + 1 && (*first != '0' || point == first + 1) ? q : NULL;
}

/* Parse the value at p if it is of a frequent kind: a string without escapes, a number without an exponent, null; the
 * latter two directly before a comma or '}'. NULL: anything else, for ctr_json_value. There must be a newline at or
 * after `end`. */
CTR_BODY const char *ctr_json_short_value(const char *p, const char *end, struct ctr_json *v)
{
    if (*p == '"') {
        const char *q = p + 1;
        mask_t m;
        while (!(m = mask_string(q)) && q < end)
            q += STEP;
        q += m ? mask_first(m) : 0;
        if (q >= end || *q != '"')
            return NULL;
        *v = (struct ctr_json){ .p = p + 1, .n = (size_t)(q - p - 1), .kind = CTR_JSON_STRING };
        return q + 1;
    }
    const int k = digit_run(p);
    if ((k && ((k == 1) | (*p != '0'))) & ((p[k] == ',') | (p[k] == '}'))) {
        *v = (struct ctr_json){ .p = p, .n = (size_t)k, .kind = CTR_JSON_PLAIN };
        return p + k;
    }
    if (!memcmp(p, "null", 4) && (p[4] == ',' || p[4] == '}')) {
        *v = (struct ctr_json){ .p = p, .n = 4, .kind = CTR_JSON_NULL };
        return p + 4;
    }
    const char *q = ctr_json_number_end(p);
    if (!q || (*q != ',' && *q != '}'))
        return NULL;
    *v = (struct ctr_json){ .p = p, .n = (size_t)(q - p), .kind = CTR_JSON_PLAIN };
    return q;
}

#endif
