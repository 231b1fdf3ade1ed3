/* SPDX-License-Identifier: Apache-2.0
 *
 * json: a scanner that skips strings and containers sixteen bytes at a time. Nesting uses a counter instead of
 * recursion.
 */
#include "common/text/json.h"
#include "common/text/jsonscan.h"

/* The end of the container at p. `kinds` has a bit for the bracket of each level. */
static const char *skip_container(const char *p, const char *end, const char **why)
{
    uint64_t kinds[CTR_JSON_DEPTH / 64];
    int depth = 0;
    bool escaped;

    while (p < end) {
        mask_t m = mask_structure(p);
        if (!m) {
            p += STEP;
            continue;
        }
        p += mask_first(m);
        if (p >= end)
            break;
        if (*p == '"') {
            if (!(p = ctr_json_string_end(p + 1, end, &escaped, why)))
                return NULL;
        } else if (*p == '{' || *p == '[') {
            if (depth == CTR_JSON_DEPTH) {
                *why = "nested too deeply";
                return NULL;
            }
            kinds[depth / 64] &= ~((uint64_t)1 << depth % 64);
            kinds[depth / 64] |= (uint64_t)(*p == '{') << depth % 64;
            depth++;
        } else { /* a closing bracket */
            depth--;
            if ((kinds[depth / 64] >> depth % 64 & 1) != (*p == '}')) {
                *why = "a bracket that closes another kind";
                return NULL;
            }
            if (!depth)
                return p + 1;
        }
        p++;
    }
    *why = "an object or array without its closing bracket";
    return NULL;
}

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

/* Is [p, e) a JSON number? */
static bool is_number(const char *p, const char *e)
{
    p += p < e && *p == '-';
    const char *from = p;
    while (p < e && is_digit(*p))
        p++;
    if (p == from || (*from == '0' && p - from > 1))
        return false;
    if (p < e && *p == '.') {
        for (from = ++p; p < e && is_digit(*p);)
            p++;
        if (p == from)
            return false;
    }
    if (p < e && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < e && (*p == '+' || *p == '-');
        for (from = p; p < e && is_digit(*p);)
            p++;
        if (p == from)
            return false;
    }
    return p == e;
}

/* As Python's json and others write what JSON has no number for. */
static bool is_nonfinite(const char *p, size_t n)
{
    return (n == 3 && !memcmp(p, "NaN", 3)) || (n == 8 && !memcmp(p, "Infinity", 8)) ||
           (n == 9 && !memcmp(p, "-Infinity", 9));
}

static const char *plain_value(const char *p, const char *end, struct ctr_json *v, const char **why)
{
    const char *e = p;

    v->p = p;
    v->kind = CTR_JSON_PLAIN;
    while (e < end && is_digit(*e))
        e++;
    if (e > p && e < end && (*e == ',' || *e == '}') && (*p != '0' || e - p == 1)) { /* the common case in logs */
        v->n = (size_t)(e - p);
        return e;
    }
    while (e < end && (unsigned char)*e > ' ' && *e != ',' && *e != '}' && *e != ']')
        e++;
    v->n = (size_t)(e - p);
    if (v->n == 4 && !memcmp(p, "null", 4)) {
        v->kind = CTR_JSON_NULL;
        return e;
    }
    if (is_number(p, e) || (v->n == 4 && !memcmp(p, "true", 4)) || (v->n == 5 && !memcmp(p, "false", 5)) ||
        is_nonfinite(p, v->n))
        return e;
    *why = "neither a number nor true, false or null where a value is wanted";
    return NULL;
}

const char *ctr_json_value(const char *p, const char *end, struct ctr_json *v, const char **why)
{
    const char *e;

    v->escaped = false;
    if (p >= end) {
        *why = "the line ends where a value is wanted";
        return NULL;
    }
    switch (*p) {
    case '"':
        if (!(e = ctr_json_string_end(p + 1, end, &v->escaped, why)))
            return NULL;
        v->kind = CTR_JSON_STRING;
        v->p = p + 1;
        v->n = (size_t)(e - p - 1);
        return e + 1;
    case '{':
    case '[':
        v->kind = *p == '{' ? CTR_JSON_OBJECT : CTR_JSON_ARRAY;
        if (!(e = skip_container(p, end, why)))
            return NULL;
        v->p = p;
        v->n = (size_t)(e - p);
        return e;
    default: return plain_value(p, end, v, why);
    }
}

int ctr_json_element(const char **at, const char *end, char close, bool *first, const char **why)
{
    const char *p = ctr_json_space(*at, end);

    if (p < end && *p == close) {
        *at = p + 1;
        return 0;
    }
    if (!*first) {
        if (p >= end || *p != ',') {
            *why = p >= end ? "the line ends inside an object or array" : "no comma between two values";
            return -1;
        }
        p = ctr_json_space(p + 1, end);
    }
    *first = false;
    *at = p;
    if (p < end)
        return 1;
    *why = "the line ends inside an object or array";
    return -1;
}

bool ctr_json_key(const char **at, const char *end, struct ctr_json *key, const char **why)
{
    const char *p = *at, *e;

    if (p >= end || *p != '"') {
        *why = "no key in quotes";
        return false;
    }
    if (!(e = ctr_json_string_end(p + 1, end, &key->escaped, why)))
        return false;
    key->kind = CTR_JSON_STRING;
    key->p = p + 1;
    key->n = (size_t)(e - p - 1);
    p = ctr_json_space(e + 1, end);
    if (p >= end || *p != ':') {
        *why = "no colon behind a key";
        return false;
    }
    *at = ctr_json_space(p + 1, end);
    return true;
}

/* ---- escapes ---- */

static bool hex4(const char *p, const char *end, uint32_t *v)
{
    *v = 0;
    if (end - p < 4)
        return false;
    for (int k = 0; k < 4; k++) {
        char c = (char)(p[k] | 0x20);
        uint32_t d = is_digit(p[k]) ? (uint32_t)(p[k] - '0') : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10) : 16;
        if (d > 15)
            return false;
        *v = *v * 16 + d;
    }
    return true;
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The character of the escape after a backslash at *p, or -1. */
static int64_t escape(const char **p, const char *end)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *hit;
    uint32_t c, low;

    if (*p >= end)
        return -1;
    if (**p != 'u') {
        hit = **p ? strchr(from, **p) : NULL;
        (*p)++;
        return hit ? (unsigned char)to[hit - from] : -1;
    }
    if (!hex4(*p + 1, end, &c))
        return -1;
    *p += 5;
    if (c < 0xd800 || c > 0xdfff)
        return c;
    if (c > 0xdbff || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u' || !hex4(*p + 2, end, &low) || low < 0xdc00 ||
        low > 0xdfff)
        return -1;
    *p += 6;
    return 0x10000 + ((int64_t)(c - 0xd800) << 10) + (low - 0xdc00);
}

/* The syntax error of the text between two quotes; half a surrogate pair is not one. */
static const char *string_unsound(const struct ctr_json *v)
{
    static const char control[] = "a control character that is not escaped in a string", broken[] = "a broken escape";
    const char *p = v->p, *end = p + v->n;
    uint32_t c;

    for (; p < end; p++)
        if ((unsigned char)*p < ' ')
            return control;
    for (p = v->p; v->escaped && (p = memchr(p, '\\', (size_t)(end - p))) != NULL;) {
        if (p[1] != 'u' && !(p[1] && strchr("\"\\/bfnrt", p[1])))
            return broken;
        if (p[1] == 'u' && !hex4(p + 2, end, &c))
            return broken;
        p += p[1] == 'u' ? 6 : 2;
    }
    return NULL;
}

/* ctr_json_value has checked that brackets match, that strings end, and the depth. */
const char *ctr_json_unsound(const struct ctr_json *v)
{
    uint64_t kinds[CTR_JSON_DEPTH / 64] = { 0 };
    const char *p = v->p, *end = p + v->n, *why = NULL;
    struct ctr_json x;
    bool first = true;
    int depth = 0;

    do {
        if (p < end && (*p == '{' || *p == '[')) {
            const uint64_t bit = (uint64_t)1 << depth % 64;
            kinds[depth / 64] = (kinds[depth / 64] & ~bit) | (*p == '{' ? bit : 0);
            depth++;
            p++;
            first = true;
        } else if (!(p = ctr_json_value(p, end, &x, &why)) ||
                   (x.kind == CTR_JSON_STRING && (why = string_unsound(&x))) ||
                   (x.kind == CTR_JSON_PLAIN && is_nonfinite(x.p, x.n) &&
                    (why = "NaN or Infinity, which is no JSON"))) {
            return why;
        }
        for (int more = 0; depth && !more; depth -= !more) {
            const bool object = kinds[(depth - 1) / 64] >> (depth - 1) % 64 & 1;
            if ((more = ctr_json_element(&p, end, object ? '}' : ']', &first, &why)) < 0)
                return why;
            first &= more > 0;
            if (more && object && (!ctr_json_key(&p, end, &x, &why) || (why = string_unsound(&x))))
                return why;
        }
    } while (depth);
    return NULL;
}

/* An escape is never shorter than its character. */
int ctr_json_unescape(const char *p, size_t n, struct ctr_buf *out, struct ctr_err *err)
{
    const char *end = p + n;
    int rc = ctr_buf_reserve(out, n, err);

    if (rc < 0)
        return rc;
    char *to = (char *)out->data + out->len;
    while (p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        size_t k = (size_t)((slash ? slash : end) - p);
        int64_t c;
        memcpy(to, p, k);
        to += k;
        p += k;
        if (!slash)
            break;
        p++;
        if ((c = escape(&p, end)) < 0)
            return 0;
        to += put_utf8(to, (uint32_t)c);
    }
    out->len = (size_t)(to - (char *)out->data);
    return 1;
}
