/* SPDX-License-Identifier: Apache-2.0
 *
 * export_csv: csv and tsv. A csv cell is quoted only if necessary: if it contains a quote, a line end or the first byte
 * of the delimiter, begins or ends with a blank, or would be read as null. A tsv cell, or a cell before a delimiter of
 * several bytes, is raw, as ctr-import reads it: a delimiter or line end in it is an error. Lists are JSON text.
 */
#include "tools/ctr-export/export_format.h"
#include <stdlib.h>

struct csv {
    const char *delimiter, *null_text;
    size_t delimiter_n, null_n;
    enum { KEEP, ESCAPE, FAIL } formulas;
    bool quotes;       /* csv, with a delimiter of one byte */
    bool special[256]; /* bytes that cause quoting, a check, or an error */
    uint64_t word[4];  /* the same bytes, repeated eight times each */
};

enum { NOT_RAW = 1, FORMULA = 2 }; /* reasons for not writing a text */

#define ONES 0x0101010101010101u
#define HIGH 0x8080808080808080u

static inline bool has_special(const struct csv *c, uint64_t w)
{
    uint64_t hit = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t x = w ^ c->word[k];
        hit |= (x - ONES) & ~x & HIGH;
    }
    return hit != 0;
}

static int quote(struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err)
{
    char *to = ctr_put_room(b, 2 * n + 2, err), *q = to;

    if (!to)
        return CTR_ENOMEM;
    *q++ = '"';
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '"')
            *q++ = '"';
        *q++ = p[i];
    }
    *q++ = '"';
    b->len += (size_t)(q - to);
    return 0;
}

/* Would a raw cell be read back unchanged, followed by a delimiter or a line end? */
static bool raw_holds(const struct csv *c, const char *p, size_t n)
{
    const size_t width = c->delimiter_n;
    if (width == 1 || memchr(p, '\n', n) || memchr(p, '\r', n) || memmem(p, n, c->delimiter, width))
        return false;
    for (size_t k = 1; k < width && k <= n; k++) /* a delimiter that starts in the last k bytes of the cell */
        if (!memcmp(p + n - k, c->delimiter, k) && !memcmp(c->delimiter, c->delimiter + k, width - k))
            return false;
    return true;
}

/* 0: written; NOT_RAW: the format cannot represent it; < 0: error. Copies first and checks the copy, whose padding is
 * readable. */
static int put_text(const struct csv *c, struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err)
{
    char *to = ctr_put_room(b, n, err);
    bool hit = false;

    if (!to)
        return CTR_ENOMEM;
    memcpy(to, p, n);
    memset(to + n, 0, 8);
    for (size_t i = 0; i < n && !hit; i += 8) {
        uint64_t w;
        memcpy(&w, to + i, 8);
        if (has_special(c, w)) /* maybe past the end: check again */
            for (size_t k = i; k < CTR_MIN(i + 8, n); k++)
                hit |= c->special[(unsigned char)to[k]];
    }
    if (!c->quotes) {
        hit = hit && !raw_holds(c, to, n);
        b->len += hit ? 0 : n;
        return hit;
    }
    if (hit || (n && (p[0] == ' ' || p[n - 1] == ' ')) || (n == c->null_n && !memcmp(p, c->null_text, n)))
        return quote(b, p, n, err);
    b->len += n;
    return 0;
}

/* ---- what a spreadsheet would run ---- */

/* Does it start like a formula, possibly after quotes ' that escape one? Also in the full-width forms. */
static bool is_formula(const char *p, size_t n)
{
    static const char *const begins[] = { "=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠" };
    for (; n && *p == '\''; p++)
        n--;
    for (size_t i = 0; n && i < CTR_COUNT(begins); i++)
        if (n >= strlen(begins[i]) && !memcmp(p, begins[i], strlen(begins[i])))
            return true;
    return false;
}

/* Like put_text, with a ' before formulas, so that different texts stay different. */
static int put_safe(const struct csv *c, struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err)
{
    struct ctr_buf longer = { 0 };
    if (c->formulas == KEEP || !is_formula(p, n))
        return put_text(c, b, p, n, err);
    if (c->formulas == FAIL)
        return FORMULA;
    int rc = ctr_buf_append(&longer, "'", 1, err);
    if (!rc)
        rc = ctr_buf_append(&longer, p, n, err);
    if (!rc)
        rc = put_text(c, b, (const char *)longer.data, longer.len, err);
    ctr_buf_free(&longer);
    return rc;
}

static int put_cell(const struct csv *c, struct ctr_export_tile *t, const struct ctr_col *col, int64_t i,
                    struct ctr_err *err)
{
    int rc;

    if (ctr_col_missing(col, i))
        return ctr_put(&t->text, c->null_text, c->null_n, err);
    if (col->type == CTR_UTF8) {
        struct ctr_str s = ctr_col_str(col, i);
        return put_safe(c, &t->text, s.p, s.n, err);
    }
    if (!ctr_type_list(col->type))
        return ctr_put_scalar(&t->text, col, i, err);
    ctr_buf_clear(&t->scratch);
    if ((rc = ctr_put_json(&t->scratch, col, i, err)) < 0)
        return rc;
    return put_text(c, &t->text, (const char *)t->scratch.data, t->scratch.len, err);
}

static int rows(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                struct ctr_export_tile *t, struct ctr_err *err)
{
    const struct csv *c = e->state;

    for (int64_t i = from; i < to; i++) {
        size_t start = t->text.len;
        for (int k = 0; k < e->schema.n; k++) {
            int rc = k ? ctr_put(&t->text, c->delimiter, c->delimiter_n, err) : 0;
            if (rc == 0)
                rc = put_cell(c, t, &b->col[k], i, err);
            if (rc < 0)
                return rc;
            if (rc == FORMULA)
                return ctr_export_bad(e, i, k,
                                      "begins with a character that makes it a formula in a spreadsheet; "
                                      "--formulas escape puts a ' before it",
                                      err);
            if (rc > 0)
                return ctr_export_bad(e, i, k,
                                      "a delimiter or a line end cannot be written without quotes; "
                                      "--format csv can, with a --delimiter of one byte (a tab, where it is wanted)",
                                      err);
        }
        const bool empty =
            t->text.len == start && c->quotes; /* a single empty cell: an empty line would not be a row */
        int rc = empty ? ctr_put(&t->text, "\"\"\n", 3, err) : ctr_put(&t->text, "\n", 1, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int put_header(struct ctr_export *e, const struct csv *c, struct ctr_buf *head, struct ctr_err *err)
{
    for (int k = 0; k < e->schema.n; k++) {
        const char *name = e->schema.f[k].name;
        int rc = k ? ctr_put(head, c->delimiter, c->delimiter_n, err) : 0;
        if (rc == 0)
            rc = put_safe(c, head, name, strlen(name), err);
        if (rc < 0)
            return rc;
        if (rc == FORMULA)
            return ctr_fail(err, CTR_EDATA,
                            "the name of column %d begins with a character that makes it a formula in a spreadsheet; "
                            "--formulas escape puts a ' before it",
                            k + 1);
        if (rc > 0)
            return ctr_fail(err, CTR_EUSAGE,
                            "the name of column %d holds a delimiter or a line end: rename it, or "
                            "use --format csv",
                            k + 1);
    }
    return ctr_put(head, "\n", 1, err);
}

static int start(struct ctr_export *e, struct ctr_buf *head, bool quotes, const char *delimiter, struct ctr_err *err)
{
    struct csv *c = calloc(1, sizeof(*c));
    unsigned char byte[4];

    if (!c)
        return ctr_fail_nomem(err, sizeof(*c));
    e->state = c;
    c->delimiter = e->opts.delimiter ? e->opts.delimiter : delimiter;
    c->null_text = e->opts.null_text ? e->opts.null_text : "";
    c->formulas = !e->opts.formulas || !strcmp(e->opts.formulas, "keep") ? KEEP
                  : !strcmp(e->opts.formulas, "escape")                  ? ESCAPE
                                                                         : FAIL;
    c->delimiter_n = strlen(c->delimiter);
    c->null_n = strlen(c->null_text);
    c->quotes = quotes && c->delimiter_n == 1;
    if (!c->delimiter_n || strpbrk(c->delimiter, "\"\r\n"))
        return ctr_fail(err, CTR_EUSAGE, "--delimiter: a text without quotes and line ends is wanted");
    if (strpbrk(c->null_text, "\"\r\n") || strstr(c->null_text, c->delimiter))
        return ctr_fail(err, CTR_EUSAGE, "--null: a text without quotes, line ends and the delimiter is wanted");
    byte[0] = '\n';
    byte[1] = '\r';
    byte[2] = c->quotes ? '"' : '\n';
    byte[3] = (unsigned char)c->delimiter[0];
    for (int k = 0; k < 4; k++) {
        c->special[byte[k]] = true;
        c->word[k] = ONES * byte[k];
    }
    return e->opts.no_header ? 0 : put_header(e, c, head, err);
}

static int start_csv(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    return start(e, head, true, ",", err);
}

static int start_tsv(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    return start(e, head, false, "\t", err);
}

static void stop(struct ctr_export *e)
{
    free(e->state);
}

const struct ctr_export_format ctr_export_csv = { "csv", CTR_EXPORT_CELLS, false, start_csv, rows, NULL, stop };
const struct ctr_export_format ctr_export_tsv = { "tsv", CTR_EXPORT_CELLS, false, start_tsv, rows, NULL, stop };
