/* SPDX-License-Identifier: Apache-2.0
 *
 * body_url: bodies of the operators on URLs (RFC 3986, appendix B) and replacement, in the subset of body.h.
 */
#ifndef CTR_BODY_URL_H
#define CTR_BODY_URL_H

#include "common/op/body_text.h"

/* Replaces every occurrence of b, from the left, by c; an empty b never occurs. */
OPV_FN void opv_replace_write(struct opv_str a, struct opv_str b, struct opv_str c, struct opv_sink *s)
{
    int64_t at = 0, end;
    while ((end = opv_find(a, b, at)) >= 0) {
        opv_put(s, a.p + at, end - at);
        opv_put(s, c.p, c.n);
        at = end + b.n;
    }
    opv_put(s, a.p + at, a.n - at);
}

enum opv_url_part { OPV_URL_SCHEME, OPV_URL_HOST, OPV_URL_PORT, OPV_URL_PATH, OPV_URL_QUERY, OPV_URL_FRAGMENT };

/* The first of the bytes c or d at or after `from`, before `to`; else `to`. */
OPV_FN int64_t opv_find_byte(struct opv_str a, uint8_t c, uint8_t d, int64_t from, int64_t to)
{
    while (from < to && a.p[from] != c && a.p[from] != d)
        from++;
    return from;
}
OPV_FN int opv_scheme_byte(uint8_t c, int first)
{
    return (uint8_t)((c | 32) - 'a') < 26 || (!first && ((uint8_t)(c - '0') < 10 || c == '+' || c == '-' || c == '.'));
}
/* The end of the scheme, at its ':'; 0: none. */
OPV_FN int64_t opv_url_scheme(struct opv_str a)
{
    int64_t i = 0;
    while (i < a.n && opv_scheme_byte(a.p[i], i == 0))
        i++;
    return i < a.n && a.p[i] == ':' ? i : 0;
}
/* Host or port of the authority [from, to), without user information; an IPv6 address is in brackets. */
OPV_FN int opv_url_authority(struct opv_str a, int64_t from, int64_t to, int port, struct opv_span *out)
{
    int64_t end, i;
    for (i = from; i < to; i++)
        if (a.p[i] == '@')
            from = i + 1;
    end = from < to && a.p[from] == '[' ? opv_find_byte(a, ']', ']', from, to) : from;
    end = opv_find_byte(a, ':', ':', end, to);
    out->from = port ? end + 1 : from;
    out->to = port ? to : end;
    return out->from < out->to;
}
/* The span of a part in the bytes of a; 0: absent. A path is always present, though it may be empty. */
OPV_FN int opv_url_span(struct opv_str a, int64_t part, struct opv_span *out)
{
    int64_t at = opv_url_scheme(a), query, end, path;
    out->from = 0;
    out->to = at;
    if (part == OPV_URL_SCHEME)
        return at > 0;
    at += at > 0;
    end = opv_find_byte(a, '#', '#', at, a.n);
    query = opv_find_byte(a, '?', '?', at, end);
    path = at;
    if (query - at >= 2 && a.p[at] == '/' && a.p[at + 1] == '/') {
        path = opv_find_byte(a, '/', '/', at + 2, query);
        if (part == OPV_URL_HOST || part == OPV_URL_PORT)
            return opv_url_authority(a, at + 2, path, part == OPV_URL_PORT, out);
    }
    out->from = part == OPV_URL_PATH ? path : part == OPV_URL_QUERY ? query + 1 : end + 1;
    out->to = part == OPV_URL_PATH ? query : part == OPV_URL_QUERY ? end : a.n;
    if (part == OPV_URL_PATH)
        return 1;
    if (part == OPV_URL_QUERY)
        return query < end;
    return part == OPV_URL_FRAGMENT && end < a.n;
}
OPV_FN void opv_url_part_write(struct opv_str a, int64_t part, struct opv_sink *s, uint8_t *ok)
{
    struct opv_span at;
    if (opv_url_span(a, part, &at))
        opv_put(s, a.p + at.from, at.to - at.from);
    else
        *ok = 0;
}

/* The value of the first NAME=VALUE, separated by '&' or ';', in a URL's query; a text without '?' is a query as a
 * whole. Not decoded: url_decode converts per cent signs. NAME alone has an empty value. */
OPV_FN void opv_query_value_write(struct opv_str a, struct opv_str name, struct opv_sink *s, uint8_t *ok)
{
    int64_t to = opv_find_byte(a, '#', '#', 0, a.n), at = opv_find_byte(a, '?', '?', 0, to);
    for (at = at < to ? at + 1 : 0; at < to;) {
        int64_t end = opv_find_byte(a, '&', ';', at, to), eq = opv_find_byte(a, '=', '=', at, end), k = 0;
        while (k < name.n && at + k < eq && a.p[at + k] == name.p[k])
            k++;
        if (k == name.n && at + k == eq) {
            opv_put(s, a.p + eq + (eq < end), end - eq - (eq < end));
            return;
        }
        at = end + 1;
    }
    *ok = 0;
}

OPV_FN int opv_hex(uint8_t c)
{
    if ((uint8_t)(c - '0') < 10)
        return c - '0';
    c |= 32;
    return (uint8_t)(c - 'a') < 6 ? c - 'a' + 10 : -1;
}
/* The byte at *i, which is advanced: %HH is the byte HH, + is a blank. */
OPV_FN uint8_t opv_url_byte(struct opv_str a, int64_t *i)
{
    const uint8_t c = a.p[(*i)++];
    if (c == '%' && *i + 1 < a.n && opv_hex(a.p[*i]) >= 0 && opv_hex(a.p[*i + 1]) >= 0) {
        const int v = opv_hex(a.p[*i]) * 16 + opv_hex(a.p[*i + 1]);
        *i += 2;
        return (uint8_t)v;
    }
    return c == '+' ? ' ' : c;
}
/* Is there a valid UTF-8 character at *i, which is advanced? 0: no (also for surrogates, overlong forms and zero
 * bytes). */
OPV_FN int opv_url_character(struct opv_str a, int64_t *i)
{
    const uint8_t c = opv_url_byte(a, i);
    int more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t low = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000, v = more ? c & (0x3fu >> more) : c;
    if (c == 0 || (c >= 0x80 && c < 0xc2) || c > 0xf4)
        return 0;
    for (int k = 0; k < more; k++) {
        uint8_t next = 0;
        if (*i < a.n)
            next = opv_url_byte(a, i);
        if ((next & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (next & 0x3f);
    }
    return !more || (v >= low && v < 0x110000 && (v < 0xd800 || v > 0xdfff));
}
/* No value if the bytes are not UTF-8, which texts must be. */
OPV_FN void opv_url_decode_write(struct opv_str a, struct opv_sink *s, uint8_t *ok)
{
    for (int64_t i = 0; i < a.n;)
        if (!opv_url_character(a, &i)) {
            *ok = 0;
            return;
        }
    for (int64_t i = 0; i < a.n;)
        opv_put_byte(s, opv_url_byte(a, &i));
}

#endif
