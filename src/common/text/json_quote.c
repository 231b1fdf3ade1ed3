/* SPDX-License-Identifier: Apache-2.0
 *
 * json_quote: a text in quotes, as JSON. See json.h. */
#include "common/text/json.h"

#define ONES 0x0101010101010101u
#define HIGH 0x8080808080808080u

/* Bytes below 0x20, '"' and '\\' as set high bits; only the lowest set bit is reliable. */
static inline uint64_t json_special(uint64_t x)
{
    uint64_t q = x ^ ONES * '"', s = x ^ ONES * '\\';
    return ((x - ONES * 0x20) & ~x & HIGH) | ((q - ONES) & ~q & HIGH) | ((s - ONES) & ~s & HIGH);
}

static size_t json_escape(char *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[][2] = { { '"', '"' },  { '\\', '\\' }, { '\n', 'n' }, { '\r', 'r' },
                                      { '\t', 't' }, { '\b', 'b' },  { '\f', 'f' } };

    out[0] = '\\';
    for (size_t i = 0; i < CTR_COUNT(shorts); i++)
        if ((char)c == shorts[i][0]) {
            out[1] = shorts[i][1];
            return 2;
        }
    memcpy(out + 1, "u00", 3);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}

/* Copy first, then check the copy, whose padding is readable: the source may end at the end of a mapping. */
int ctr_json_quote(struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err)
{
    size_t i = 0, len = 0;
    int rc = ctr_buf_reserve(b, n + 2 + 2 * CTR_PAD, err);

    if (rc)
        return rc;
    char *to = (char *)b->data + b->len;
    to[0] = '"';
    memcpy(to + 1, p, n);
    memset(to + 1 + n, ' ', 8);
    for (; i < n; i += 8) {
        uint64_t w, hit;
        memcpy(&w, to + 1 + i, 8);
        hit = json_special(w);
        if (hit) {
            i += (size_t)__builtin_ctzll(hit) / 8;
            break;
        }
    }
    if (i >= n) {
        to[1 + n] = '"';
        b->len += n + 2;
        return 0;
    }
    rc = ctr_buf_reserve(b, 6 * n + 2 + 2 * CTR_PAD, err);
    if (rc)
        return rc;
    to = (char *)b->data + b->len;
    to[0] = '"'; /* growing may have moved the buffer without bytes not yet counted in its length */
    memcpy(to + 1, p, i);
    len = 1 + i;
    for (; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c < 0x20 || c == '"' || c == '\\')
            len += json_escape(to + len, c);
        else
            to[len++] = (char)c;
    }
    to[len++] = '"';
    b->len += len;
    return 0;
}

void ctr_say_json(struct ctr_say *s, const char *p, size_t n)
{
    if (!s->rc)
        s->rc = ctr_json_quote(s->to, p, n, s->err);
}

void ctr_say_json_text(struct ctr_say *s, const char *before, const char *text)
{
    ctr_say(s, "%s", before);
    ctr_say_json(s, text, strlen(text));
}
