/* SPDX-License-Identifier: Apache-2.0
 *
 * csvdialect: what a cell means: quotes, escapes (--escape), blanks around it (--trim), numbers as other countries
 * write them (--decimal, --thousands), and texts of the sample that may stand for a missing value.
 *
 * The byte behind an escape is itself if it is the escape, the delimiter, a line end, or in csv a quote; in tsv the
 * letters n, t, r, b, f, v and 0 are the control characters that Hive, MySQL, PostgreSQL and ClickHouse write so.
 * Before anything else an escape is a byte like others, so that \N stays what --null names; a null is compared before
 * escapes are undone, so that \\N is the text \N.
 */
#include "common/text/csv.h"

#include <stdio.h>

/* The byte for which c stands behind an escape, or -1. */
static int escaped_byte(const struct csv_dialect *d, char c)
{
    static const char from[] = "ntrbfv0", to[] = "\n\t\r\b\f\v";
    if (c == d->escape || c == '\n' || c == '\r' || c == *d->delimiter || (d->quoted && c == '"'))
        return (unsigned char)c;
    const char *letter = d->letters && c ? strchr(from, c) : NULL;
    return letter ? to[letter - from] : -1;
}

static int undo(struct csv_tile *t, const struct csv_dialect *d, struct ctr_str *s, bool quoted, struct ctr_err *err)
{
    t->unquoted->len = 0;
    int rc = ctr_buf_reserve(t->unquoted, s->n, err);
    if (rc)
        return rc;
    char *to = (char *)t->unquoted->data;
    for (const char *p = s->p, *end = p + s->n; p < end; p++) {
        const int byte = d->escape && *p == d->escape && p + 1 < end ? escaped_byte(d, p[1]) : -1;
        *to++ = byte < 0 ? *p : (char)byte;
        p += byte >= 0 || (quoted && *p == '"'); /* skip the second of a pair */
    }
    *s = (struct ctr_str){ (char *)t->unquoted->data, (size_t)(to - (char *)t->unquoted->data) };
    return 0;
}

/* The cell without blanks and quotes around it. */
static bool strip(const struct csv_dialect *d, struct ctr_str *s)
{
    while (d->trim && s->n && ctr_csv_blank(d, *s->p))
        s->p++, s->n--;
    while (d->trim && s->n && ctr_csv_blank(d, s->p[s->n - 1]))
        s->n--;
    if (!d->quoted || s->n < 2 || *s->p != '"')
        return false;
    s->p++;
    s->n -= 2;
    return true;
}

int ctr_csv_unquote(struct csv_tile *t, const struct csv_dialect *d, struct ctr_str *s, bool *quoted,
                    struct ctr_err *err)
{
    *quoted = strip(d, s);
    if ((*quoted && memchr(s->p, '"', s->n)) || (d->escape && memchr(s->p, d->escape, s->n)))
        return undo(t, d, s, *quoted, err);
    return 0;
}

int ctr_csv_cell(struct csv_tile *t, const struct csv_dialect *d, struct ctr_str *s, bool *quoted, bool *null,
                 struct ctr_err *err)
{
    struct ctr_str raw = *s;
    strip(d, &raw);
    int rc = ctr_csv_unquote(t, d, s, quoted, err);
    *null = ctr_csv_null(d, d->escape ? raw : *s);
    return rc;
}

/* ---- numbers ---- */

static bool take_text(const char **p, const char *end, const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    if (!n || (size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
        return false;
    *p += n;
    return true;
}

static size_t digits(const char *p, const char *end)
{
    const char *from = p;
    while (p < end && (unsigned char)(*p - '0') <= 9)
        p++;
    return (size_t)(p - from);
}

bool ctr_csv_number(const struct csv_dialect *d, struct ctr_str s, struct csv_number *x)
{
    const char *p = s.p, *end = p + s.n;
    size_t n = 0, k;
    bool digit = false;
    for (size_t i = 0; i < s.n; i++)
        digit |= (unsigned char)(s.p[i] - '0') <= 9;
    if (s.n > sizeof x->text)
        return false;
    if (!digit) { /* a word, such as NaN */
        memcpy(x->text, s.p, s.n);
        x->n = s.n;
        return true;
    }
    if (*p == '-' || *p == '+')
        x->text[n++] = *p++;
    for (bool more = true, group = false; more;
         group = true) { /* 1.234.567: groups of three, the first may be shorter */
        k = digits(p, end);
        if (group && k != 3)
            return false;
        memcpy(x->text + n, p, k);
        n += k;
        p += k;
        more = k && (group || k <= 3) && take_text(&p, end, d->thousands);
    }
    if (take_text(&p, end, d->decimal ? d->decimal : ".")) {
        k = digits(p, end);
        x->text[n++] = '.';
        memcpy(x->text + n, p, k);
        n += k;
        p += k;
    }
    if (p < end && *p != 'e' && *p != 'E')
        return false;
    memcpy(x->text + n, p, (size_t)(end - p)); /* an exponent: the reader of the number checks it */
    x->n = n + (size_t)(end - p);
    return true;
}

void ctr_csv_see(const struct csv_dialect *d, struct ctr_infer *infer, struct ctr_str cell)
{
    struct csv_number x;
    if (!d->decimal && !d->thousands) {
        ctr_infer_see(infer, cell.p, cell.n);
    } else if (ctr_csv_number(d, cell, &x)) {
        ctr_infer_see(infer, x.text, x.n);
    } else { /* 1.5 where a comma is the decimal sign is no number */
        struct ctr_infer alone = { 0 };
        ctr_infer_see(&alone, cell.p, cell.n);
        const enum ctr_type type = ctr_infer_type(&alone);
        const bool same = type == CTR_BOOL || type == CTR_TIME; /* with either sign */
        ctr_infer_see(infer, same ? cell.p : "text", same ? cell.n : 4);
    }
}

/* ---- texts among numbers ---- */

/* A time as spreadsheets write it, year, month and day first: its format in `format`, of 20 bytes. */
static bool is_loose_time(struct ctr_str s, char *format)
{
    const char *p = s.p, *end = p + s.n;
    const size_t year = digits(p, end);
    const char sep = year == 4 && p + 4 < end ? p[4] : 0;
    size_t n = 0;
    if (sep != '-' && sep != '/')
        return false;
    p += 5;
    for (int part = 0; part < 5; part++, p += n) { /* month, day, hour, minute, second */
        n = digits(p, end);
        if (n < 1 || n > 2)
            return false;
        if (p + n == end) {
            static const char *const of[] = { NULL, "", NULL, " %H:%M", " %H:%M:%S" };
            if (of[part])
                snprintf(format, 20, "%%Y%c%%m%c%%d%s", sep, sep, of[part]);
            return of[part];
        }
        if (part < 4 && p[n] != (part < 1 ? sep : part < 2 ? ' ' : ':'))
            return false;
        n++;
    }
    return false;
}

static void see_time(struct csv_words *w, struct ctr_str cell)
{
    char format[20];
    w->cells++;
    if (!cell.n || cell.n >= sizeof w->time || w->times + 1 < w->cells || !is_loose_time(cell, format) ||
        (w->times && strcmp(format, w->time_format) != 0))
        return;
    if (!w->times++) {
        snprintf(w->time, sizeof w->time, "%.*s", (int)cell.n, cell.p);
        memcpy(w->time_format, format, sizeof format);
    }
}

void ctr_csv_words_see(struct csv_words *w, const struct csv_dialect *d, struct ctr_str cell)
{
    struct ctr_infer alone = { 0 };
    int k = 0;
    see_time(w, cell);
    ctr_csv_see(d, &alone, cell);
    if (ctr_type_number(ctr_infer_type(&alone))) {
        w->numbers++;
        return;
    }
    while (k < w->n && (w->word[k].n != cell.n || memcmp(w->word[k].text, cell.p, cell.n) != 0))
        k++;
    bool digit = false;
    for (size_t i = 0; i < cell.n; i++)
        digit |= (unsigned char)(cell.p[i] - '0') <= 9 || (unsigned char)cell.p[i] < ' ';
    if (k == w->n && (w->n == CSV_WORDS || digit || cell.n > sizeof w->word->text)) { /* no few words */
        w->other = true;
        return;
    }
    if (k == w->n) {
        w->word[w->n] = (struct csv_word){ .n = cell.n };
        memcpy(w->word[w->n++].text, cell.p, cell.n);
    }
    w->word[k].times++;
}

void ctr_csv_words_note(const struct csv_words *w, const struct ctr_text_opts *o, const char *column)
{
    char list[512] = "", remedy[768] = "";
    size_t n = 0, m = 0;
    int64_t others = 0;
    for (int k = 0; k < w->n; k++)
        others += w->word[k].times;
    if (w->times && w->times == w->cells)
        ctr_text_note(o, "column %s is text, as times such as '%s' lack zeros: %s reads them", column, w->time,
                      ctr_text_setting(o, "time", "%s:%s", column, w->time_format).s);
    if (w->other || !others || w->numbers < 9 * others)
        return;
    for (int k = 0; k < w->n; k++) {
        const struct csv_word *x = &w->word[k];
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%lld %s %s", k ? ", " : "", (long long)x->times,
                              x->times == 1 ? "is" : "are", ctr_text_show(x->text, x->n).s);
        m += (size_t)snprintf(remedy + m, sizeof remedy - m, "%s%s", k ? " " : "",
                              ctr_text_setting(o, "null", "%s:%.*s", column, (int)x->n, x->text).s);
        if (n >= sizeof list || m >= sizeof remedy)
            return;
    }
    ctr_text_note(o, "column %s is text: of the first rows %lld are numbers, %s; %s makes it one of numbers", column,
                  (long long)w->numbers, list, remedy);
}
