/* SPDX-License-Identifier: Apache-2.0
 *
 * body_text: bodies of the operators on text and lists, in the subset of body.h. A variable-size operator has two
 * bodies: `max` bounds what a row can write, `write` writes it into a sink. `write` also computes the exact size, with
 * a sink that only counts (p == NULL), so that the two cannot disagree.
 */
#ifndef CTR_BODY_TEXT_H
#define CTR_BODY_TEXT_H

#include "common/op/body.h"

/* The destination of a row's bytes, or of the items of a list. n and items count from the start of the column. */
struct opv_sink {
    uint8_t *p;    /* bytes of the text column; NULL: count only */
    int64_t n;     /* bytes written */
    int32_t *end;  /* lists: end of each item */
    uint64_t *key; /* lists of keys */
    int64_t items;
};

/* split("a,,b", ",") of a row, behind a row that wrote the item "xy":
 *
 *     count    { p NULL, n 0, items 0 }                            n 2, items 3: the size of the row
 *     write    { p …, n 2, end …, items 1 }, end = 2, bytes "xy"   n 4, items 4, end = 2 3 3 4, bytes "xyab"
 *
 * The bodies are in the order: UTF-8, finding and splitting, lists; each is a loop over bytes, code points or items. */

OPV_FN void opv_put(struct opv_sink *s, const uint8_t *p, int64_t n)
{
    if (s->p)
#ifdef __CUDACC_RTC__
        for (int64_t i = 0; i < n; i++)
            s->p[s->n + i] = p[i];
#else
        __builtin_memcpy(s->p + s->n, p, (unsigned long)n);
#endif
    s->n += n;
}
OPV_FN void opv_put_byte(struct opv_sink *s, uint8_t c)
{
    if (s->p)
        s->p[s->n] = c;
    s->n++;
}
OPV_FN void opv_end_item(struct opv_sink *s)
{
    if (s->end)
        s->end[s->items] = (int32_t)s->n;
    s->items++;
}

/* ---- UTF-8: the input is well-formed ---- */

OPV_FN int64_t opv_utf8_step(uint8_t c) /* bytes of the code point that starts with c */
{
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}
OPV_FN int64_t opv_utf8_length(struct opv_str a)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a.n; i++)
        n += (a.p[i] & 0xc0) != 0x80;
    return n;
}
/* Byte offset of code point `at`, or a.n. */
OPV_FN int64_t opv_utf8_offset(struct opv_str a, int64_t at)
{
    int64_t i = 0;
    for (; at > 0 && i < a.n; at--)
        i += opv_utf8_step(a.p[i]);
    return i < a.n ? i : a.n;
}

/* Lower case of code points of the Latin, Greek, Cyrillic and Armenian scripts, where it has as many bytes of UTF-8:
 * ranges of Unicode 14 (simple lower case), of which each step-th code point gets `add`. */
struct opv_lower_range {
    uint16_t from, to, step;
    int32_t add;
};
enum { OPV_LOWER_RANGES = 131 };
OPV_CONST struct opv_lower_range opv_lower[OPV_LOWER_RANGES] = {
    { 0x100, 0x12e, 2, 1 },        { 0x132, 0x136, 2, 1 },        { 0x139, 0x147, 2, 1 },
    { 0x14a, 0x176, 2, 1 },        { 0x178, 0x178, 1, -121 },     { 0x179, 0x17d, 2, 1 },
    { 0x181, 0x181, 1, 210 },      { 0x182, 0x184, 2, 1 },        { 0x186, 0x186, 1, 206 },
    { 0x187, 0x187, 1, 1 },        { 0x189, 0x18a, 1, 205 },      { 0x18b, 0x18b, 1, 1 },
    { 0x18e, 0x18e, 1, 79 },       { 0x18f, 0x18f, 1, 202 },      { 0x190, 0x190, 1, 203 },
    { 0x191, 0x191, 1, 1 },        { 0x193, 0x193, 1, 205 },      { 0x194, 0x194, 1, 207 },
    { 0x196, 0x196, 1, 211 },      { 0x197, 0x197, 1, 209 },      { 0x198, 0x198, 1, 1 },
    { 0x19c, 0x19c, 1, 211 },      { 0x19d, 0x19d, 1, 213 },      { 0x19f, 0x19f, 1, 214 },
    { 0x1a0, 0x1a4, 2, 1 },        { 0x1a6, 0x1a6, 1, 218 },      { 0x1a7, 0x1a7, 1, 1 },
    { 0x1a9, 0x1a9, 1, 218 },      { 0x1ac, 0x1ac, 1, 1 },        { 0x1ae, 0x1ae, 1, 218 },
    { 0x1af, 0x1af, 1, 1 },        { 0x1b1, 0x1b2, 1, 217 },      { 0x1b3, 0x1b5, 2, 1 },
    { 0x1b7, 0x1b7, 1, 219 },      { 0x1b8, 0x1b8, 1, 1 },        { 0x1bc, 0x1bc, 1, 1 },
    { 0x1c4, 0x1c4, 1, 2 },        { 0x1c5, 0x1c5, 1, 1 },        { 0x1c7, 0x1c7, 1, 2 },
    { 0x1c8, 0x1c8, 1, 1 },        { 0x1ca, 0x1ca, 1, 2 },        { 0x1cb, 0x1db, 2, 1 },
    { 0x1de, 0x1ee, 2, 1 },        { 0x1f1, 0x1f1, 1, 2 },        { 0x1f2, 0x1f4, 2, 1 },
    { 0x1f6, 0x1f6, 1, -97 },      { 0x1f7, 0x1f7, 1, -56 },      { 0x1f8, 0x21e, 2, 1 },
    { 0x220, 0x220, 1, -130 },     { 0x222, 0x232, 2, 1 },        { 0x23b, 0x23b, 1, 1 },
    { 0x23d, 0x23d, 1, -163 },     { 0x241, 0x241, 1, 1 },        { 0x243, 0x243, 1, -195 },
    { 0x244, 0x244, 1, 69 },       { 0x245, 0x245, 1, 71 },       { 0x246, 0x24e, 2, 1 },
    { 0x370, 0x372, 2, 1 },        { 0x376, 0x376, 1, 1 },        { 0x37f, 0x37f, 1, 116 },
    { 0x386, 0x386, 1, 38 },       { 0x388, 0x38a, 1, 37 },       { 0x38c, 0x38c, 1, 64 },
    { 0x38e, 0x38f, 1, 63 },       { 0x391, 0x3a1, 1, 32 },       { 0x3a3, 0x3ab, 1, 32 },
    { 0x3cf, 0x3cf, 1, 8 },        { 0x3d8, 0x3e0, 2, 1 },        { 0x3f4, 0x3f4, 1, -60 },
    { 0x3f7, 0x3f7, 1, 1 },        { 0x3f9, 0x3f9, 1, -7 },       { 0x3fa, 0x3fa, 1, 1 },
    { 0x3fd, 0x3ff, 1, -130 },     { 0x400, 0x40f, 1, 80 },       { 0x410, 0x42f, 1, 32 },
    { 0x460, 0x480, 2, 1 },        { 0x48a, 0x4be, 2, 1 },        { 0x4c0, 0x4c0, 1, 15 },
    { 0x4c1, 0x4cd, 2, 1 },        { 0x4d0, 0x52e, 2, 1 },        { 0x531, 0x556, 1, 48 },
    { 0x1e00, 0x1e94, 2, 1 },      { 0x1ea0, 0x1efe, 2, 1 },      { 0x1f08, 0x1f0f, 1, -8 },
    { 0x1f18, 0x1f1d, 1, -8 },     { 0x1f28, 0x1f2f, 1, -8 },     { 0x1f38, 0x1f3f, 1, -8 },
    { 0x1f48, 0x1f4d, 1, -8 },     { 0x1f59, 0x1f5f, 2, -8 },     { 0x1f68, 0x1f6f, 1, -8 },
    { 0x1f88, 0x1f8f, 1, -8 },     { 0x1f98, 0x1f9f, 1, -8 },     { 0x1fa8, 0x1faf, 1, -8 },
    { 0x1fb8, 0x1fb9, 1, -8 },     { 0x1fba, 0x1fbb, 1, -74 },    { 0x1fbc, 0x1fbc, 1, -9 },
    { 0x1fc8, 0x1fcb, 1, -86 },    { 0x1fcc, 0x1fcc, 1, -9 },     { 0x1fd8, 0x1fd9, 1, -8 },
    { 0x1fda, 0x1fdb, 1, -100 },   { 0x1fe8, 0x1fe9, 1, -8 },     { 0x1fea, 0x1feb, 1, -112 },
    { 0x1fec, 0x1fec, 1, -7 },     { 0x1ff8, 0x1ff9, 1, -128 },   { 0x1ffa, 0x1ffb, 1, -126 },
    { 0x1ffc, 0x1ffc, 1, -9 },     { 0x2132, 0x2132, 1, 28 },     { 0x2183, 0x2183, 1, 1 },
    { 0x2c60, 0x2c60, 1, 1 },      { 0x2c63, 0x2c63, 1, -3814 },  { 0x2c67, 0x2c6b, 2, 1 },
    { 0x2c72, 0x2c72, 1, 1 },      { 0x2c75, 0x2c75, 1, 1 },      { 0xa640, 0xa66c, 2, 1 },
    { 0xa680, 0xa69a, 2, 1 },      { 0xa722, 0xa72e, 2, 1 },      { 0xa732, 0xa76e, 2, 1 },
    { 0xa779, 0xa77b, 2, 1 },      { 0xa77d, 0xa77d, 1, -35332 }, { 0xa77e, 0xa786, 2, 1 },
    { 0xa78b, 0xa78b, 1, 1 },      { 0xa790, 0xa792, 2, 1 },      { 0xa796, 0xa7a8, 2, 1 },
    { 0xa7b3, 0xa7b3, 1, 928 },    { 0xa7b4, 0xa7c2, 2, 1 },      { 0xa7c4, 0xa7c4, 1, -48 },
    { 0xa7c6, 0xa7c6, 1, -35384 }, { 0xa7c7, 0xa7c9, 2, 1 },      { 0xa7d0, 0xa7d0, 1, 1 },
    { 0xa7d6, 0xa7d8, 2, 1 },      { 0xa7f5, 0xa7f5, 1, 1 },
};
OPV_FN uint32_t opv_lower_table(uint32_t c)
{
    int from = 0, to = OPV_LOWER_RANGES;
    while (from < to) { /* the first range that ends at c or behind it */
        const int half = (from + to) / 2;
        if (opv_lower[half].to < c)
            from = half + 1;
        else
            to = half;
    }
    if (from == OPV_LOWER_RANGES || c < opv_lower[from].from || (c - opv_lower[from].from) % opv_lower[from].step)
        return c;
    return (uint32_t)((int32_t)c + opv_lower[from].add);
}
OPV_FN uint32_t opv_lower_cp(uint32_t c)
{
    if (c < 0x100)
        return c >= 0xc0 && c <= 0xde && c != 0xd7 ? c + 32 : c;
    if (c >= 0x410 && c < 0x460) /* most of Cyrillic */
        return c < 0x430 ? c + 32 : c;
    return opv_lower_table(c);
}

OPV_FN void opv_lower_write(struct opv_str a, struct opv_sink *s)
{
    int64_t i = 0;
    if (!s->p) {
        s->n += a.n;
        return;
    }
    for (; i < a.n; i++) {
        uint8_t c = a.p[i], *to = s->p + s->n + i;
        if (c < 0x80) {
            *to = (uint8_t)(c + ((uint8_t)(c - 'A') < 26 ? 32 : 0));
        } else if (c >= 0xc3 && c < 0xe0 && i + 1 < a.n) {
            const uint32_t l = opv_lower_cp((uint32_t)(c & 31) << 6 | (a.p[i + 1] & 63));
            to[0] = (uint8_t)(0xc0 | l >> 6);
            to[1] = (uint8_t)(0x80 | (l & 63));
            i++;
        } else if ((c == 0xe1 || c == 0xe2 || c == 0xea) && i + 2 < a.n) {
            const uint32_t l =
                opv_lower_table((uint32_t)(c & 15) << 12 | (uint32_t)(a.p[i + 1] & 63) << 6 | (a.p[i + 2] & 63));
            to[0] = (uint8_t)(0xe0 | l >> 12);
            to[1] = (uint8_t)(0x80 | (l >> 6 & 63));
            to[2] = (uint8_t)(0x80 | (l & 63));
            i += 2;
        } else {
            *to = c;
        }
    }
    s->n += a.n;
}

/* ---- finding ---- */

/* Offset of the first occurrence of b in a at or after `from`, or -1. An empty b never occurs. */
OPV_FN int64_t opv_find(struct opv_str a, struct opv_str b, int64_t from)
{
    if (b.n == 0)
        return -1;
    for (int64_t i = from; i + b.n <= a.n; i++) {
        int64_t k = 0;
        while (k < b.n && a.p[i + k] == b.p[k])
            k++;
        if (k == b.n)
            return i;
    }
    return -1;
}

/* The number of pieces between separators, including empty ones; an empty text has none. */
OPV_FN int64_t opv_split_items(struct opv_str a, struct opv_str sep)
{
    return a.n == 0 ? 0 : sep.n == 0 ? 1 : a.n / sep.n + 1;
}
OPV_FN void opv_split_write(struct opv_str a, struct opv_str sep, struct opv_sink *s)
{
    int64_t at = 0;
    if (a.n == 0)
        return;
    for (;;) {
        int64_t end = opv_find(a, sep, at);
        opv_put(s, a.p + at, (end < 0 ? a.n : end) - at);
        opv_end_item(s);
        if (end < 0)
            return;
        at = end + sep.n;
    }
}

OPV_FN int opv_word_byte(uint8_t c)
{
    return (uint8_t)((c | 32) - 'a') < 26 || (uint8_t)(c - '0') < 10 || c >= 0x80;
}
/* Maximal runs of ASCII letters, digits and non-ASCII bytes. */
OPV_FN void opv_words_write(struct opv_str a, struct opv_sink *s)
{
    for (int64_t i = 0; i < a.n;) {
        int64_t from;
        while (i < a.n && !opv_word_byte(a.p[i]))
            i++;
        from = i;
        while (i < a.n && opv_word_byte(a.p[i]))
            i++;
        if (i > from) {
            opv_put(s, a.p + from, i - from);
            opv_end_item(s);
        }
    }
}

OPV_FN void opv_before_write(struct opv_str a, struct opv_str b, struct opv_sink *s) /* all of a if b does not occur */
{
    int64_t at = opv_find(a, b, 0);
    opv_put(s, a.p, at < 0 ? a.n : at);
}
OPV_FN void opv_after_write(struct opv_str a, struct opv_str b, struct opv_sink *s,
                            uint8_t *ok) /* null if b does not occur */
{
    int64_t at = opv_find(a, b, 0);
    *ok &= at >= 0;
    if (at >= 0)
        opv_put(s, a.p + at + b.n, a.n - at - b.n);
}

/* Up to `count` code points from code point `start` (0 is the first, -1 the last). */
OPV_FN void opv_substr_write(struct opv_str a, int64_t start, int64_t count, struct opv_sink *s)
{
    int64_t from, to;
    struct opv_str rest;
    if (start < 0) {
        int64_t n = opv_utf8_length(a);
        if (start < -n) { /* it starts before the text: that part is empty */
            count = count > OPV_I64_MIN - start - n ? count + (start + n) : 0;
            start = -n;
        }
        start += n;
    }
    if (count <= 0)
        return;
    from = opv_utf8_offset(a, start);
    rest.p = a.p + from;
    rest.n = a.n - from;
    to = opv_utf8_offset(rest, count);
    opv_put(s, rest.p, to);
}

/* SQL's like: % is any text, _ one code point, \ takes the next byte as it is. Matching resumes at the last %. */
OPV_FN uint8_t opv_like(struct opv_str a, struct opv_str b)
{
    int64_t i = 0, k = 0, star = -1, resume = 0;
    while (i < a.n) {
        if (k < b.n && b.p[k] == '%') {
            star = ++k;
            resume = i;
            continue;
        }
        if (k < b.n && b.p[k] == '_') {
            i += opv_utf8_step(a.p[i]);
            k++;
            continue;
        }
        if (k < b.n) {
            int escaped = b.p[k] == '\\' && k + 1 < b.n;
            if (b.p[k + escaped] == a.p[i]) {
                k += 1 + escaped;
                i++;
                continue;
            }
        }
        if (star < 0)
            return 0;
        resume += opv_utf8_step(a.p[resume]);
        i = resume;
        k = star;
    }
    while (k < b.n && b.p[k] == '%')
        k++;
    return k == b.n;
}

/* ---- lists ---- */

OPV_FN int64_t opv_join_max(struct opv_span a, const struct opv_str *item, struct opv_str sep)
{
    int64_t n = 0;
    for (int64_t i = a.from; i < a.to; i++)
        n += item[i].n + sep.n;
    return n;
}
OPV_FN void opv_join_write(struct opv_span a, const struct opv_str *item, const uint8_t *item_ok, struct opv_str sep,
                           struct opv_sink *s)
{
    int first = 1;
    for (int64_t i = a.from; i < a.to; i++) {
        if (!item_ok[i])
            continue;
        if (!first)
            opv_put(s, sep.p, sep.n);
        first = 0;
        opv_put(s, item[i].p, item[i].n);
    }
}
/* Each run of `size` items of a list, joined; runs with a null item are skipped. */
OPV_FN void opv_ngrams_list_write(struct opv_span a, const struct opv_str *item, const uint8_t *item_ok, int64_t size,
                                  struct opv_str sep, struct opv_sink *s)
{
    for (int64_t i = a.from; i + size <= a.to; i++) {
        int64_t whole = 1;
        for (int64_t k = 0; k < size; k++)
            whole &= item_ok[i + k];
        if (!whole)
            continue;
        for (int64_t k = 0; k < size; k++) {
            if (k)
                opv_put(s, sep.p, sep.n);
            opv_put(s, item[i + k].p, item[i + k].n);
        }
        opv_end_item(s);
    }
}
/* Each run of `size` code points of a text. */
OPV_FN void opv_ngrams_text_write(struct opv_str a, int64_t size, struct opv_sink *s)
{
    int64_t from = 0, to = 0, have = 0;
    while (to < a.n) {
        to += opv_utf8_step(a.p[to]);
        if (++have < size)
            continue;
        opv_put(s, a.p + from, to - from);
        opv_end_item(s);
        from += opv_utf8_step(a.p[from]);
    }
}
/* Position of item `at` (0 the first, -1 the last) in the item lane. */
OPV_FN int64_t opv_at(struct opv_span a, int64_t at, const uint8_t *item_ok, uint8_t *ok)
{
    int64_t n = a.to - a.from;
    if (at < 0)
        at = at >= -n ? at + n : n;
    if (at >= n || !item_ok[a.from + at]) {
        *ok = 0;
        return -1;
    }
    return a.from + at;
}
/* Summed in order; no value if the lengths differ or an item is null. */
OPV_FN double opv_dot(struct opv_span a, const double *x, const uint8_t *x_ok, struct opv_span b, const double *y,
                      const uint8_t *y_ok, uint8_t *ok)
{
    double sum = 0;
    int64_t n = a.to - a.from;
    if (n != b.to - b.from) {
        *ok = 0;
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        *ok &= x_ok[a.from + i] & y_ok[b.from + i];
        sum += x[a.from + i] * y[b.from + i];
    }
    return opv_number(sum);
}
/* dot(a, b) / (sqrt(dot(a, a)) * sqrt(dot(b, b))), within [-1, 1]; no value if one has no length, either. */
OPV_FN double opv_cosine(struct opv_span a, const double *x, const uint8_t *x_ok, struct opv_span b, const double *y,
                         const uint8_t *y_ok, uint8_t *ok)
{
    const double xy = opv_dot(a, x, x_ok, b, y, y_ok, ok);
    double xx, yy, r;
    if (!*ok)
        return 0;
    xx = opv_dot(a, x, x_ok, a, x, x_ok, ok);
    yy = opv_dot(b, y, y_ok, b, y, y_ok, ok);
    if (xx == 0 || yy == 0) {
        *ok = 0;
        return 0;
    }
    r = xy / (opv_sqrt(xx) * opv_sqrt(yy));
    return opv_number(r > 1 ? 1 : r < -1 ? -1 : r);
}

#endif
