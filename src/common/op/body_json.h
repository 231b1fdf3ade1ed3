/* SPDX-License-Identifier: Apache-2.0
 *
 * body_json: bodies of json_get and json_list, in the subset of body.h: follows a path through a JSON text without
 * building a tree. Invariant: it never reads outside the text, keeps no stack (brackets are counted), and reads only up
 * to the value. */
#ifndef CTR_BODY_JSON_H
#define CTR_BODY_JSON_H

#include "common/op/body_text.h"

/* One step of a path: the member of an object, and if `index` >= 0 also that element of an array. */
struct opv_step {
    struct opv_str name;
    int64_t index;
    int only_index; /* [3]: not the member "3" */
};

OPV_FN int64_t opv_json_blank(struct opv_str a, int64_t i)
{
    while (i < a.n && (a.p[i] == ' ' || a.p[i] == '\t' || a.p[i] == '\n' || a.p[i] == '\r'))
        i++;
    return i;
}
/* End of the string whose opening quote is at i (after its closing quote), or -1. */
OPV_FN int64_t opv_json_string_end(struct opv_str a, int64_t i)
{
    for (i++; i < a.n; i++) {
        if (a.p[i] == '\\')
            i++;
        else if (a.p[i] == '"')
            return i + 1;
    }
    return -1;
}
/* End of the value that starts at i, or -1 if the text ends before. */
OPV_FN int64_t opv_json_value_end(struct opv_str a, int64_t i)
{
    int64_t depth = 0;
    while (i < a.n) {
        uint8_t c = a.p[i];
        if (c == '"') {
            i = opv_json_string_end(a, i);
            if (i < 0)
                return -1;
        } else if (c == '{' || c == '[') {
            depth++;
            i++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return i; /* end of the enclosing container */
            depth--;
            i++;
        } else if (depth > 0) {
            i++;
            continue;
        } else { /* a number or a word */
            while (i < a.n && a.p[i] != ',' && a.p[i] != '}' && a.p[i] != ']' && a.p[i] > ' ')
                i++;
            return i;
        }
        if (depth == 0)
            return i;
    }
    return -1;
}

OPV_FN int64_t opv_json_hex4(struct opv_str a, int64_t i) /* value of four hex digits, or -1 */
{
    int64_t v = 0;
    if (i + 4 > a.n)
        return -1;
    for (int64_t k = i; k < i + 4; k++) {
        uint8_t c = a.p[k];
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}
OPV_FN void opv_put_utf8(struct opv_sink *s, uint32_t c)
{
    if (c < 0x80) {
        opv_put_byte(s, (uint8_t)c);
        return;
    }
    if (c < 0x800) {
        opv_put_byte(s, (uint8_t)(0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            opv_put_byte(s, (uint8_t)(0xe0 | c >> 12));
        } else {
            opv_put_byte(s, (uint8_t)(0xf0 | c >> 18));
            opv_put_byte(s, (uint8_t)(0x80 | (c >> 12 & 63)));
        }
        opv_put_byte(s, (uint8_t)(0x80 | (c >> 6 & 63)));
    }
    opv_put_byte(s, (uint8_t)(0x80 | (c & 63)));
}
/* Convert the escape after the backslash at i; returns its end. An invalid escape gives U+FFFD; the result is never
 * longer than the input. */
OPV_FN int64_t opv_json_escape(struct opv_str a, int64_t i, struct opv_sink *s)
{
    uint8_t c = i + 1 < a.n ? a.p[i + 1] : 0;
    int64_t v, low;
    switch (c) {
    case '"':
    case '\\':
    case '/': opv_put_byte(s, c); return i + 2;
    case 'b': opv_put_byte(s, 8); return i + 2;
    case 'f': opv_put_byte(s, 12); return i + 2;
    case 'n': opv_put_byte(s, 10); return i + 2;
    case 'r': opv_put_byte(s, 13); return i + 2;
    case 't': opv_put_byte(s, 9); return i + 2;
    default: break;
    }
    v = c == 'u' ? opv_json_hex4(a, i + 2) : -1;
    if (v < 0) { /* keep the escaped byte, so that the result is well-formed */
        opv_put_byte(s, '\\');
        return i + 1;
    }
    if (v >= 0xd800 && v < 0xdc00 && i + 8 <= a.n && a.p[i + 6] == '\\' && a.p[i + 7] == 'u') {
        low = opv_json_hex4(a, i + 8);
        if (low >= 0xdc00 && low < 0xe000) {
            opv_put_utf8(s, (uint32_t)(0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00)));
            return i + 12;
        }
    }
    opv_put_utf8(s, v >= 0xd800 && v < 0xe000 ? 0xfffd : (uint32_t)v);
    return i + 6;
}
/* Convert the content of a string, without quotes. */
OPV_FN void opv_json_unescape(struct opv_str a, struct opv_sink *s)
{
    for (int64_t i = 0; i < a.n;) {
        int64_t from = i;
        while (i < a.n && a.p[i] != '\\')
            i++;
        opv_put(s, a.p + from, i - from);
        if (i < a.n)
            i = opv_json_escape(a, i, s);
    }
}
/* Does the string with content [from, to) equal this name? Escapes are read byte by byte through a small window. */
OPV_FN int opv_json_is(struct opv_str a, int64_t from, int64_t to, struct opv_str name)
{
    uint8_t window[8];
    int64_t k = 0;
    struct opv_str s;
    s.p = a.p;
    s.n = to;
    while (from < to) {
        struct opv_sink w;
        if (a.p[from] != '\\') {
            if (k >= name.n || name.p[k++] != a.p[from++])
                return 0;
            continue;
        }
        w.p = window;
        w.n = 0;
        w.end = 0;
        w.key = 0;
        w.items = 0;
        from = opv_json_escape(s, from, &w);
        for (int64_t i = 0; i < w.n; i++)
            if (k >= name.n || name.p[k++] != window[i])
                return 0;
    }
    return k == name.n;
}

/* Position of the value of member `name` of the object at i, or -1. The first of equal names is used. */
OPV_FN int64_t opv_json_member(struct opv_str a, int64_t i, struct opv_str name)
{
    i = opv_json_blank(a, i + 1);
    while (i < a.n && a.p[i] == '"') {
        int64_t from = i + 1, end = opv_json_string_end(a, i);
        if (end < 0)
            return -1;
        i = opv_json_blank(a, end);
        if (i >= a.n || a.p[i] != ':')
            return -1;
        i = opv_json_blank(a, i + 1);
        if (opv_json_is(a, from, end - 1, name))
            return i;
        i = opv_json_value_end(a, i);
        if (i < 0)
            return -1;
        i = opv_json_blank(a, i);
        if (i >= a.n || a.p[i] != ',')
            return -1;
        i = opv_json_blank(a, i + 1);
    }
    return -1;
}
OPV_FN int64_t opv_json_element(struct opv_str a, int64_t i, int64_t index)
{
    i = opv_json_blank(a, i + 1);
    for (; index > 0; index--) {
        int64_t at = i;
        i = opv_json_value_end(a, i);
        if (i < 0 || i == at)
            return -1;
        i = opv_json_blank(a, i);
        if (i >= a.n || a.p[i] != ',')
            return -1;
        i = opv_json_blank(a, i + 1);
    }
    return i;
}

/* Where the value at the end of the path begins, or -1. */
OPV_FN int64_t opv_json_find(struct opv_str a, const struct opv_step *step, int64_t steps)
{
    int64_t i = opv_json_blank(a, 0);
    for (int64_t k = 0; k < steps && i >= 0; k++) {
        if (i < a.n && a.p[i] == '{' && !step[k].only_index)
            i = opv_json_member(a, i, step[k].name);
        else if (i < a.n && a.p[i] == '[' && step[k].index >= 0)
            i = opv_json_element(a, i, step[k].index);
        else
            i = -1;
    }
    return i < a.n ? i : -1;
}
OPV_FN int opv_json_is_null(struct opv_str a, int64_t i, int64_t end)
{
    return end - i == 4 && a.p[i] == 'n';
}
/* The value from i to end: a string unescaped, anything else as written. */
OPV_FN void opv_json_put(struct opv_str a, int64_t i, int64_t end, struct opv_sink *s)
{
    struct opv_str v;
    v.p = a.p + i;
    v.n = end - i;
    if (v.p[0] == '"') {
        v.p++;
        v.n -= 2;
        opv_json_unescape(v, s);
    } else {
        opv_put(s, v.p, v.n);
    }
}

/* The value at the end of the path. A null, a missing value or invalid JSON on the way give no value. */
OPV_FN void opv_json_get_write(struct opv_str a, const struct opv_step *step, int64_t steps, struct opv_sink *s,
                               uint8_t *ok)
{
    const int64_t i = opv_json_find(a, step, steps), end = i < 0 ? -1 : opv_json_value_end(a, i);
    if (end <= i || opv_json_is_null(a, i, end))
        *ok = 0;
    else
        opv_json_put(a, i, end, s);
}

/* At most so many elements: each but the last is before a comma. */
OPV_FN int64_t opv_json_list_items(struct opv_str a)
{
    int64_t n = 1;
    for (int64_t i = 0; i < a.n; i++)
        n += a.p[i] == ',';
    return n;
}
/* The position behind the array that begins at i, or -1: it is none, or ends before its bracket. s: none, or gets its
 * elements but for nulls. */
OPV_FN int64_t opv_json_walk(struct opv_str a, int64_t i, struct opv_sink *s)
{
    if (i < 0 || a.p[i] != '[')
        return -1;
    i = opv_json_blank(a, i + 1);
    if (i < a.n && a.p[i] == ']')
        return i + 1;
    while (i < a.n) {
        const int64_t end = opv_json_value_end(a, i);
        if (end <= i)
            return -1;
        if (s && !opv_json_is_null(a, i, end)) {
            opv_json_put(a, i, end, s);
            opv_end_item(s);
        }
        i = opv_json_blank(a, end);
        if (i >= a.n || (a.p[i] != ',' && a.p[i] != ']'))
            return -1;
        if (a.p[i] == ']')
            return i + 1;
        i = opv_json_blank(a, i + 1);
    }
    return -1;
}
/* The elements of the array at the end of the path; anything else there is no list. */
OPV_FN void opv_json_list_write(struct opv_str a, const struct opv_step *step, int64_t steps, struct opv_sink *s,
                                uint8_t *ok)
{
    const int64_t i = opv_json_find(a, step, steps);
    if (opv_json_walk(a, i, 0) < 0)
        *ok = 0;
    else
        (void)opv_json_walk(a, i, s);
}

#endif
