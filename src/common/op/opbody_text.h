/* SPDX-License-Identifier: Apache-2.0
 *
 * opbody_text: bodies of the operators on text and lists, in the subset of opbody.h. A variable-size operator has two
 * bodies: `max` bounds what a row can write, `write` writes it into a sink. `write` also computes the exact size, with
 * a sink that only counts (p == NULL), so that the two cannot disagree.
 */
#ifndef CTR_OPBODY_TEXT_H
#define CTR_OPBODY_TEXT_H

#include "common/op/opbody.h"

/* The destination of a row's bytes, or of the items of a list. n and items count from the start of the column. */
struct opv_sink {
    uint8_t *p;    /* bytes of the text column; NULL: count only */
    int64_t n;     /* bytes written */
    int32_t *end;  /* lists: end of each item */
    uint64_t *key; /* lists of keys */
    int64_t items;
};

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

/* Lower case of a code point below 0x800 whose lower case also has two bytes: Latin, Greek, Cyrillic, Armenian. */
OPV_FN uint32_t opv_lower_cp(uint32_t c)
{
    if (c < 0x100)
        return c >= 0xc0 && c <= 0xde && c != 0xd7 ? c + 32 : c;
    if (c < 0x180) { /* pairs; 0x130 and 0x149 have no single lower case of two bytes */
        if (c == 0x178)
            return 0xff;
        if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e))
            return c + (c & 1);
        return c == 0x130 || c == 0x138 || c == 0x149 || c == 0x17f ? c : c | 1;
    }
    if (c >= 0x391 && c <= 0x3ab && c != 0x3a2)
        return c + 32;
    if (c >= 0x386 && c <= 0x38f)
        return c == 0x386 ? 0x3ac : c == 0x38c ? 0x3cc : c >= 0x38e ? c + 63 : c >= 0x388 && c <= 0x38a ? c + 37 : c;
    if (c >= 0x400 && c <= 0x42f)
        return c < 0x410 ? c + 80 : c + 32;
    if (c >= 0x460 && c <= 0x481)
        return c | 1;
    if (c >= 0x531 && c <= 0x556)
        return c + 48;
    return c;
}

OPV_FN void opv_lower_write(struct opv_str a, struct opv_sink *s)
{
    int64_t i = 0;
    if (!s->p) {
        s->n += a.n;
        return;
    }
    for (; i < a.n; i++) {
        uint8_t c = a.p[i];
        if (c < 0x80) {
            s->p[s->n + i] = (uint8_t)(c + ((uint8_t)(c - 'A') < 26 ? 32 : 0));
        } else if (c >= 0xc3 && c < 0xe0 && i + 1 < a.n) {
            uint32_t l = opv_lower_cp((uint32_t)(c & 31) << 6 | (a.p[i + 1] & 63));
            s->p[s->n + i] = (uint8_t)(0xc0 | l >> 6);
            s->p[s->n + ++i] = (uint8_t)(0x80 | (l & 63));
        } else {
            s->p[s->n + i] = c;
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
    return sum;
}

#endif
