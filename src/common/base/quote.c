/* SPDX-License-Identifier: Apache-2.0
 *
 * quote: how text from files, command lines and streams is printed for people. Invariant: the output has no control
 * characters (C0, DEL, C1), no bidirectional controls, no line ends and no invalid UTF-8, so that it cannot control a
 * terminal or imitate other text; and different texts are printed differently. Nothing here allocates, except
 * ctr_buf_*, and signal handlers may call the other functions. */
#include "common/base/base.h"

#include <stdio.h>

/* ---- which characters ---- */

/* Length of the character at p, 1 if the bytes are not UTF-8; *plain: it needs no escape. */
static size_t next_char(const uint8_t *p, const uint8_t *end, bool *plain)
{
    const size_t n = ctr_utf8_length(p, end);
    if (n <= 1) {
        *plain = n && *p >= ' ' && *p != 127;
        return 1;
    }
    const unsigned c =
        n == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu) : (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    *plain = n == 4 || !(c < 0xa0 ||                     /* C1 */
                         c == 0x61c ||                   /* Arabic letter mark */
                         c == 0x200e || c == 0x200f ||   /* direction marks */
                         (c >= 0x2028 && c <= 0x202e) || /* line separators; embeddings and overrides */
                         (c >= 0x2066 && c <= 0x206f));  /* isolates */
    return n;
}

bool ctr_text_is_plain(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s, *end = p + n;
    for (bool plain; p < end;) {
        p += next_char(p, end, &plain);
        if (!plain)
            return false;
    }
    return true;
}

/* The next character as printed between two `quote`: itself or escaped, at most 16 bytes. Returns its length. */
static size_t escape_char(char out[17], const uint8_t **p, const uint8_t *end, char quote)
{
    const uint8_t *s = *p;
    bool plain;
    const size_t n = next_char(s, end, &plain);
    size_t at = 0;
    *p += n;
    if (plain) {
        if (*s == (uint8_t)quote || *s == '\\')
            out[at++] = '\\';
        memcpy(out + at, s, n);
        return at + n;
    }
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, 17 - at, "\\x%02x", s[i]);
    return at;
}

/* ---- a piece after the other, whole or not at all ---- */

struct sink {
    char *out;
    size_t size, at; /* at < size, so there is always room for the terminator */
    size_t need;     /* length without truncation */
    int columns;     /* its characters */
    bool full;
};

static void put(struct sink *k, const char *p, size_t n)
{
    k->need += n;
    for (size_t i = 0; i < n; i++)
        k->columns += (p[i] & 0xc0) != 0x80;
    k->full |= k->at + n >= k->size;
    if (k->full)
        return;
    memcpy(k->out + k->at, p, n);
    k->at += n;
}

/* Write text that is plain: truncated between characters. */
static void put_plain(struct sink *k, const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s, *end = p + n;
    for (bool plain; p < end;) {
        const size_t c = next_char(p, end, &plain);
        put(k, (const char *)p, c);
        p += c;
    }
}

static void put_escaped(struct sink *k, const char *s, size_t n, char quote)
{
    const uint8_t *p = (const uint8_t *)s, *end = p + n;
    char c[17];
    while (p < end) {
        const size_t length = escape_char(c, &p, end, quote);
        put(k, c, length);
    }
}

static void put_shown(struct sink *k, const char *s, size_t n, bool plain)
{
    if (plain) {
        put_plain(k, s, n);
        return;
    }
    put(k, "$'", 2);
    put_escaped(k, s, n, '\'');
    put(k, "'", 1);
}

static size_t finish(struct sink *k)
{
    if (k->size)
        k->out[k->at] = 0;
    return k->need;
}

size_t ctr_quote(char *out, size_t size, const char *s, size_t n)
{
    struct sink k = { .out = out, .size = size, .full = size == 0 };
    put_shown(&k, s, n, ctr_text_is_plain(s, n) && !(n >= 2 && s[0] == '$' && s[1] == '\''));
    return finish(&k);
}

size_t ctr_quote_value(char *out, size_t size, const char *s, size_t n)
{
    struct sink k = { .out = out, .size = size, .full = size == 0 };
    const bool plain = ctr_text_is_plain(s, n) && !(n && memchr(s, '\'', n));
    if (plain)
        put(&k, "'", 1);
    put_shown(&k, s, n, plain);
    if (plain)
        put(&k, "'", 1);
    return finish(&k);
}

int ctr_buf_quote(struct ctr_buf *b, const char *s, size_t n, struct ctr_err *err)
{
    const size_t need = ctr_quote(NULL, 0, s, n);
    int rc = ctr_buf_reserve(b, need + 1, err);
    if (rc)
        return rc;
    ctr_quote((char *)b->data + b->len, need + 1, s, n);
    b->len += need;
    return 0;
}

/* Different values have different names:
 *
 *     null            (missing)
 *     (missing)       '(missing)'
 *     '(missing)'     ''(missing)''
 *     'x'             'x' */
int ctr_buf_value_name(struct ctr_buf *b, const char *s, size_t n, struct ctr_err *err)
{
    static const char *const names[] = { "(missing)", "(rest)", "(others)", "(empty)" };
    const char *in = s;
    size_t m = n;
    bool quoted = false;
    if (!s)
        return ctr_buf_append(b, names[0], strlen(names[0]), err);
    for (; m > 2 && in[0] == '\'' && in[m - 1] == '\''; m -= 2)
        in++;
    for (size_t i = 0; i < CTR_COUNT(names); i++)
        quoted |= m == strlen(names[i]) && !memcmp(in, names[i], m);
    int rc = ctr_buf_append(b, "'", quoted, err);
    if (!rc)
        rc = ctr_buf_append(b, s, n, err);
    return rc ? rc : ctr_buf_append(b, "'", quoted, err);
}

int ctr_quote_in(struct ctr_buf *b, char quote, const char *s, size_t n, struct ctr_err *err)
{
    struct sink k = { .full = true };
    put_escaped(&k, s, n, quote);
    const size_t size = k.need + 3;
    int rc = ctr_buf_reserve(b, size, err);
    if (rc)
        return rc;
    k = (struct sink){ .out = (char *)b->data + b->len, .size = size };
    put(&k, &quote, 1);
    put_escaped(&k, s, n, quote);
    put(&k, &quote, 1);
    b->len += finish(&k);
    return 0;
}

bool ctr_name_is_reserved(const char *name)
{
    static const char *const words[] = { "or", "and", "not", "true", "false", "null", "in" };
    for (size_t i = 0; i < CTR_COUNT(words); i++)
        if (!strcmp(name, words[i]))
            return true;
    return false;
}

static bool name_is_bare(const char *s)
{
    if (ctr_name_is_reserved(s) || !(*s == '_' || (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z')))
        return false;
    for (; *s; s++)
        if (!(*s == '_' || *s == '.' || (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') ||
              (*s >= '0' && *s <= '9')))
            return false;
    return true;
}

int ctr_quote_name(struct ctr_buf *b, const char *name, struct ctr_err *err)
{
    return name_is_bare(name) ? ctr_buf_append(b, name, strlen(name), err)
                              : ctr_quote_in(b, '`', name, strlen(name), err);
}

void ctr_say_name(struct ctr_say *s, const char *name)
{
    if (!s->rc)
        s->rc = ctr_quote_name(s->to, name, s->err);
}

/* ---- formats ---- */

struct spec { /* one conversion: "%-*.*lld" */
    char text[32];
    size_t n;
    int width, precision; /* -1: none */
    bool left, quoted;    /* quoted: the format has a ' on either side */
    char length, type;    /* length: h, H (hh), l, L (ll), z, j */
};

static int number(const char **f, va_list *ap)
{
    int n = 0;
    if (**f == '*') {
        ++*f;
        return va_arg(*ap, int);
    }
    for (; **f >= '0' && **f <= '9'; ++*f)
        n = n * 10 + (**f - '0');
    return n;
}

/* Parse the part after the %; the conversion is rewritten with its numbers filled in. */
static struct spec read_spec(const char **f, va_list *ap)
{
    struct spec s = { .width = -1, .precision = -1 };
    const char *from = *f;
    *f += strspn(*f, "-+ #0");
    const int flags = (int)(*f - from);
    s.left = memchr(from, '-', (size_t)flags) != NULL;
    if (strchr("123456789*", **f))
        s.width = number(f, ap);
    if (s.width < -1) {
        s.left = true;
        s.width = -s.width;
    }
    if (**f == '.') {
        ++*f;
        s.precision = number(f, ap);
    }
    for (; strchr("hlzj", **f); ++*f)
        s.length = s.length == 'l' ? 'L' : s.length == 'h' ? 'H' : **f;
    s.type = *(*f)++;
    char width[16] = "", precision[16] = "";
    if (s.width >= 0)
        snprintf(width, sizeof width, "%d", s.width);
    if (s.precision >= 0)
        snprintf(precision, sizeof precision, ".%d", s.precision);
    s.n = (size_t)snprintf(s.text, sizeof s.text, "%%%.*s%s%s", CTR_MIN(flags, 5), from, width, precision);
    return s;
}

static void put_spaces(struct sink *k, int n)
{
    for (; n > 0; n--)
        put(k, " ", 1);
}

/* For text that may continue after n: n without the bytes of a character cut there. */
static size_t cut_between(const char *text, size_t n)
{
    size_t at = n;
    while (at && n - at < 3 && ((uint8_t)text[at - 1] & 0xc0) == 0x80)
        at--;
    if (!at || (uint8_t)text[at - 1] < 0xc0)
        return n;
    const uint8_t first = (uint8_t)text[--at];
    return n - at < (first < 0xe0 ? 2u : first < 0xf0 ? 3u : 4u) ? at : n;
}

/* Between two ' of the format, text that contains ' is quoted, too, so that it can be pasted. */
static void put_text(struct sink *k, const struct spec *s, const char *text)
{
    if (!text)
        text = "(null)";
    size_t n = s->precision >= 0 ? strnlen(text, (size_t)s->precision) : strlen(text);
    if (s->precision >= 0 && n == (size_t)s->precision)
        n = cut_between(text, n);
    const bool plain = ctr_text_is_plain(text, n);
    if (s->quoted && (!plain || memchr(text, '\'', n))) {
        if (!k->full && k->at) {
            k->out[k->at - 1] = '$';
            put(k, "'", 1);
        } else
            k->need++;
        put_escaped(k, text, n, '\'');
        return;
    }
    struct sink measure = { .full = true };
    put_shown(&measure, text, n, plain);
    if (!s->left)
        put_spaces(k, s->width - measure.columns);
    put_shown(k, text, n, plain);
    if (s->left)
        put_spaces(k, s->width - measure.columns);
}

static void put_number(struct sink *k, struct spec *s, va_list *ap)
{
    char text[512];
    int n;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (strchr("aAeEfFgG", s->type)) {
        snprintf(s->text + s->n, sizeof s->text - s->n, "%c", s->type);
        n = snprintf(text, sizeof text, s->text, va_arg(*ap, double));
    } else if (s->type == 'c') {
        const char c = (char)va_arg(*ap, int);
        s->precision = 1;
        const char one[2] = { c, 0 };
        put_text(k, s, one);
        return;
    } else if (s->type == 'p') {
        n = snprintf(text, sizeof text, "%p", va_arg(*ap, void *));
    } else {
        const bool is_signed = s->type == 'd' || s->type == 'i';
        const uintmax_t v = s->length == 'L'   ? (uintmax_t)va_arg(*ap, long long)
                            : s->length == 'l' ? (uintmax_t)va_arg(*ap, long)
                            : s->length == 'z' ? (uintmax_t)va_arg(*ap, ssize_t)
                            : s->length == 'j' ? (uintmax_t)va_arg(*ap, intmax_t)
                                               : (uintmax_t)va_arg(*ap, int);
        const uintmax_t u = is_signed || (s->length && s->length != 'h' && s->length != 'H') ? v : (unsigned)v;
        snprintf(s->text + s->n, sizeof s->text - s->n, "j%c", s->type);
        n = snprintf(text, sizeof text, s->text, u);
    }
#pragma GCC diagnostic pop
    put_plain(k, text, (size_t)CTR_MIN(CTR_MAX(n, 0), (int)sizeof text - 1));
}

size_t ctr_vformat(char *out, size_t size, const char *fmt, va_list list)
{
    struct sink k = { .out = out, .size = size, .full = size == 0 };
    va_list ap;
    va_copy(ap, list);
    for (const char *f = fmt; *f;) {
        const size_t n = strcspn(f, "%");
        put_plain(&k, f, n);
        f += n;
        if (!*f)
            break;
        const bool quote = f > fmt && f[-1] == '\'';
        f++;
        struct spec s = read_spec(&f, &ap);
        s.quoted = quote && *f == '\'';
        if (s.type == '%')
            put(&k, "%", 1);
        else if (s.type == 's')
            put_text(&k, &s, va_arg(ap, const char *));
        else
            put_number(&k, &s, &ap);
    }
    va_end(ap);
    return finish(&k);
}

size_t ctr_format(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const size_t n = ctr_vformat(out, size, fmt, ap);
    va_end(ap);
    return n;
}

int ctr_buf_vformat(struct ctr_buf *b, struct ctr_err *err, const char *fmt, va_list ap)
{
    const size_t n = ctr_vformat(NULL, 0, fmt, ap);
    int rc = ctr_buf_reserve(b, n + 1, err);
    if (!rc) {
        ctr_vformat((char *)b->data + b->len, n + 1, fmt, ap);
        b->len += n;
    }
    return rc;
}

int ctr_buf_format(struct ctr_buf *b, struct ctr_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int rc = ctr_buf_vformat(b, err, fmt, ap);
    va_end(ap);
    return rc;
}

void ctr_say_format(struct ctr_say *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!s->rc)
        s->rc = ctr_buf_vformat(s->to, s->err, fmt, ap);
    va_end(ap);
}
