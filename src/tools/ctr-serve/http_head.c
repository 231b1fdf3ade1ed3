/* SPDX-License-Identifier: Apache-2.0
 *
 * http_head: the request line and header lines of RFC 9112. Strict where leniency lets two programs in a row read one
 * text as different requests: lines end with CR LF, names have no blanks, a length is given once, in digits, and bodies
 * of unknown length (Transfer-Encoding) are refused.
 */
#include "tools/ctr-serve/http.h"

#include <ctype.h>
#include <strings.h>

size_t ctr_http_head_end(const uint8_t *p, size_t n, size_t from)
{
    from = from < 3 ? 0 : from - 3;
    const uint8_t *end = n > from ? memmem(p + from, n - from, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - p) + 4 : 0;
}

static bool is_token(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)p[i]) && (!p[i] || !strchr("!#$%&'*+-.^_`|~", p[i])))
            return false;
    return n > 0;
}

static bool is_text(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
            return false;
    return true;
}

static int bad(const char **why, int status, const char *text)
{
    *why = text;
    return status;
}

/* "POST /v1/score HTTP/1.1" */
static int request_line(const char *p, size_t n, struct ctr_http_head *h, const char **why)
{
    static const char *const methods[] = { "GET", "HEAD", "POST", "PUT" };
    const char *blank = memchr(p, ' ', n), *path = blank ? blank + 1 : p, *end = p + n;
    const char *second = blank ? memchr(path, ' ', (size_t)(end - path)) : NULL;
    if (!second || !is_token(p, (size_t)(blank - p)) || *path != '/' || !is_text(path, (size_t)(second - path)))
        return bad(why, 400, "the first line is not METHOD /PATH HTTP/1.1");
    const char *version = second + 1;
    h->old = end - version == 8 && !memcmp(version, "HTTP/1.0", 8);
    if (!h->old && (end - version != 8 || memcmp(version, "HTTP/1.1", 8) != 0))
        return bad(why, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    h->method = CTR_HTTP_OTHER;
    for (unsigned i = 0; i < CTR_COUNT(methods); i++)
        if (strlen(methods[i]) == (size_t)(blank - p) && !memcmp(p, methods[i], (size_t)(blank - p)))
            h->method = (enum ctr_http_method)i;
    const char *query = memchr(path, '?', (size_t)(second - path));
    const size_t length = (size_t)((query ? query : second) - path);
    if (length >= sizeof h->path)
        return bad(why, 414, "the path is longer than 255 bytes");
    memcpy(h->path, path, length);
    h->path[length] = 0;
    h->close = h->old;
    return 0;
}

/* Copy a value, in lower case and up to a ';'. False: it has no room, and is left out. */
static bool copy(char *to, size_t size, const char *p, size_t n)
{
    const char *end = memchr(p, ';', n);
    n = end ? (size_t)(end - p) : n;
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    for (size_t i = 0; n < size && i < n; i++)
        to[i] = (char)tolower((unsigned char)p[i]);
    to[n < size ? n : 0] = 0;
    return n < size;
}

/* Is `word` in a list with commas? */
static bool lists(const char *p, size_t n, const char *word)
{
    const size_t m = strlen(word);
    for (size_t i = 0; i + m <= n; i++)
        if (!strncasecmp(p + i, word, m) && (!i || strchr(", \t", p[i - 1])) &&
            (i + m == n || strchr(", \t", p[i + m])))
            return true;
    return false;
}

/* Digits only. */
static bool number(const char *p, size_t n, int64_t *v)
{
    int64_t x = 0;
    if (!n || n > 18)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        x = x * 10 + (p[i] - '0');
    }
    *v = x;
    return true;
}

struct seen {
    bool length, host;
};

static int field(const char *name, size_t n, const char *v, size_t vn, struct ctr_http_head *h, struct seen *seen,
                 const char **why)
{
#define IS(text) (n == sizeof(text) - 1 && !strncasecmp(name, text, n))
    if (IS("content-length")) {
        if (seen->length || !number(v, vn, &h->body_bytes))
            return bad(why, 400, "Content-Length is not one number");
        seen->length = true;
    } else if (IS("transfer-encoding")) {
        return bad(why, 411, "bodies in chunks are not taken: send Content-Length");
    } else if (IS("host")) {
        if (seen->host)
            return bad(why, 400, "Host is there twice");
        seen->host = true;
    } else if (IS("connection")) {
        h->close = (h->close && !lists(v, vn, "keep-alive")) || lists(v, vn, "close");
    } else if (IS("expect")) {
        h->expects = !h->old && vn == 12 && !strncasecmp(v, "100-continue", 12);
    } else if (IS("content-type")) {
        (void)copy(h->type, sizeof h->type, v, vn);
    } else if (IS("content-encoding") && !(vn == 8 && !strncasecmp(v, "identity", 8))) {
        return bad(why, 415, "compressed bodies are not taken: leave Content-Encoding out");
    } else if (IS("x-deadline-ms")) {
        if (!number(v, vn, &h->deadline_ms))
            return bad(why, 400, "X-Deadline-Ms is not a number of milliseconds");
    } else if (IS("x-request-id") && vn < sizeof h->request_id && is_token(v, vn)) {
        memcpy(h->request_id, v, vn);
        h->request_id[vn] = 0;
    }
#undef IS
    return 0;
}

int ctr_http_head_parse(const uint8_t *head, size_t n, struct ctr_http_head *h, const char **why)
{
    const char *p = (const char *)head, *end = p + n - 2; /* the empty line is left */
    struct seen seen = { 0 };
    *h = (struct ctr_http_head){ .deadline_ms = -1 };
    for (bool first = true; p < end; first = false) {
        const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);
        const size_t length = (size_t)(eol - p);
        const char *colon = first ? NULL : memchr(p, ':', length);
        int rc;
        if (first) {
            rc = request_line(p, length, h, why);
        } else if (!colon || !is_token(p, (size_t)(colon - p)) || !is_text(p, length)) {
            rc = bad(why, 400, "a header line is not NAME: VALUE");
        } else {
            const char *v = colon + 1, *v_end = eol;
            while (v < v_end && (*v == ' ' || *v == '\t'))
                v++;
            while (v_end > v && (v_end[-1] == ' ' || v_end[-1] == '\t'))
                v_end--;
            rc = field(p, (size_t)(colon - p), v, (size_t)(v_end - v), h, &seen, why);
        }
        if (rc)
            return rc;
        p = eol + 2;
    }
    if (!h->old && !seen.host)
        return bad(why, 400, "Host is missing");
    if (!seen.length && (h->method == CTR_HTTP_POST || h->method == CTR_HTTP_PUT))
        return bad(why, 411, "Content-Length is missing");
    return 0;
}
