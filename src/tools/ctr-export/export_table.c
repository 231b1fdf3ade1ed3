/* SPDX-License-Identifier: Apache-2.0
 *
 * export_table: a table for people. Numbers stand right and are never cut; texts and lists are cut with … where the
 * line is too narrow, the widest first; columns for which there is still no room are left out, with a sign at the end
 * of each line. Texts are
 * those of ctr_quote, so that none moves the terminal's cursor.
 *
 * The first rows are kept as cells (text, zero-terminated) until they have decided the widths. */
#include "tools/ctr-export/export_table.h"
#include "tools/ctr-export/export_format.h"

#include <stdlib.h>

enum { GAP = 2, LEAST = 8, WIDEST = 1000 };

struct column {
    bool right;
    int natural; /* of the name and the cells of the sample */
    int numbers; /* of its numbers: these are not cut */
    int wide;    /* in the table */
};
struct ctr_table {
    struct ctr_schema schema;
    struct ctr_table_opts o;
    struct ctr_out *out;
    struct column *column;
    int shown;           /* columns that have room */
    bool laid_out;       /* the widths are decided */
    struct ctr_buf cell; /* of the sample */
    struct ctr_buf one, line;
    int64_t rows;
};

/* ---- values ---- */

/* As ctr_quote writes it, up to about `most` columns. */
static int put_text(const char *p, size_t n, int most, struct ctr_buf *to, struct ctr_err *err)
{
    if (n > (size_t)most * 4) { /* between characters */
        n = (size_t)most * 4;
        while (n && ((uint8_t)p[n] & 0xc0) == 0x80)
            n--;
    }
    if (ctr_text_is_plain(p, n))
        return ctr_put(to, p, n, err);
    const size_t room = 4 * n + 8;
    char *at = ctr_put_room(to, room, err);
    if (!at)
        return CTR_ENOMEM;
    to->len += ctr_quote(at, room, p, n);
    return 0;
}

static int put_value(const struct ctr_table *t, const struct ctr_col *c, int64_t i, int most, struct ctr_buf *to,
                     struct ctr_err *err);

/* [a, b, c], up to about `most` columns. */
static int put_list(const struct ctr_table *t, const struct ctr_col *c, int64_t i, int most, struct ctr_buf *to,
                    struct ctr_err *err)
{
    const size_t start = to->len;
    int64_t from = 0, end = 0;
    const struct ctr_col *item = ctr_col_items(c, ctr_col_width(c), i, &from, &end);
    int rc = ctr_put(to, "[", 1, err);
    for (int64_t k = from; rc >= 0 && k < end && to->len - start < (size_t)most * 4; k++) {
        if (k > from)
            rc = ctr_put(to, ", ", 2, err);
        if (rc >= 0)
            rc = put_value(t, item, k, most, to, err);
    }
    return rc < 0 ? rc : ctr_put(to, "]", 1, err);
}

/* At most about `most` columns of it: what is longer is cut in any case. */
static int put_value(const struct ctr_table *t, const struct ctr_col *c, int64_t i, int most, struct ctr_buf *to,
                     struct ctr_err *err)
{
    if (ctr_col_missing(c, i))
        return ctr_put(to, t->o.null_text, strlen(t->o.null_text), err);
    if (c->type == CTR_UTF8) {
        const struct ctr_str s = ctr_col_str(c, i);
        return put_text(s.p, s.n, most, to, err);
    }
    if (c->type == CTR_WKEY) {
        const struct ctr_col weight = { .type = CTR_F32, .rows = c->rows, .data = c->weight };
        const struct ctr_col key = { .type = CTR_U64, .rows = c->rows, .data = c->data };
        int rc = ctr_put_scalar(to, &key, i, err);
        if (!rc)
            rc = ctr_put(to, ":", 1, err);
        return rc ? rc : ctr_put_scalar(to, &weight, i, err);
    }
    return ctr_type_list(c->type) ? put_list(t, c, i, most, to, err) : ctr_put_scalar(to, c, i, err);
}

/* ---- widths ---- */

static int total(const struct ctr_table *t, int shown)
{
    int64_t n = shown < t->schema.n ? GAP + 1 : 0; /* the sign of what is left out */
    for (int k = 0; k < shown; k++)
        n += t->column[k].wide + (k ? GAP : 0);
    return (int)CTR_MIN(n, (int64_t)INT32_MAX);
}

static void lay_out(struct ctr_table *t)
{
    for (int k = 0; k < t->schema.n; k++) {
        struct column *c = &t->column[k];
        c->wide = CTR_MAX(c->numbers, CTR_MIN(c->natural, (int)LEAST));
    }
    for (t->shown = t->schema.n; t->shown > 1 && total(t, t->shown) > t->o.width;)
        t->shown--;
    int left = t->o.width - total(t, t->shown);
    for (int step = 1; left > 0 && step;) { /* to the narrowest that wants more */
        struct column *least = NULL;
        for (int k = 0; k < t->shown; k++) {
            struct column *c = &t->column[k];
            if (c->wide < c->natural && (!least || c->wide < least->wide))
                least = c;
        }
        step = least ? 1 : 0;
        if (least)
            least->wide++;
        left--;
    }
    t->laid_out = true;
}

/* ---- lines ---- */

static int put_spaces(struct ctr_buf *b, int n, struct ctr_err *err)
{
    char *to = n > 0 ? ctr_put_room(b, (size_t)n, err) : NULL;
    if (n <= 0)
        return 0;
    if (!to)
        return CTR_ENOMEM;
    memset(to, ' ', (size_t)n);
    b->len += (size_t)n;
    return 0;
}

/* A cell of column k, n bytes; no blanks behind the last. */
static int put_cell(struct ctr_table *t, int k, const char *p, size_t n, bool cuts, struct ctr_err *err)
{
    const struct column *c = &t->column[k];
    const bool last = k == t->schema.n - 1;
    int wide = ctr_columns(p, n);
    const bool cut = cuts && wide > c->wide;
    if (cut) {
        n = ctr_columns_cut(p, n, c->wide - 1);
        wide = ctr_columns(p, n) + 1;
    }
    int rc = put_spaces(&t->line, k ? GAP : 0, err);
    if (!rc && c->right)
        rc = put_spaces(&t->line, c->wide - wide, err);
    if (!rc)
        rc = ctr_put(&t->line, p, n, err);
    if (!rc && cut)
        rc = ctr_put(&t->line, CTR_CUT, strlen(CTR_CUT), err);
    return rc || c->right || last ? rc : put_spaces(&t->line, c->wide - wide, err);
}

static int end_line(struct ctr_table *t, struct ctr_err *err)
{
    int rc = 0;
    if (t->shown < t->schema.n) {
        if (!(rc = put_spaces(&t->line, GAP, err)))
            rc = ctr_put(&t->line, CTR_CUT, strlen(CTR_CUT), err);
    }
    if (!rc)
        rc = ctr_put(&t->line, "\n", 1, err);
    if (!rc)
        rc = ctr_out_write(t->out, t->line.data, t->line.len, err);
    ctr_buf_clear(&t->line);
    return rc;
}

/* The next cell of column k is in t->one. */
static int put_row(struct ctr_table *t, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < t->shown; k++) {
        ctr_buf_clear(&t->one);
        rc = put_value(t, &b->col[k], i, WIDEST, &t->one, err);
        if (!rc)
            rc = put_cell(t, k, (const char *)t->one.data, t->one.len, !t->column[k].right, err);
    }
    return rc ? rc : end_line(t, err);
}

/* The widths are known: the names, and the rows of the sample. */
static int begin(struct ctr_table *t, struct ctr_err *err)
{
    const char *p = (const char *)t->cell.data, *end = p + t->cell.len;
    int rc = 0;
    lay_out(t);
    for (int k = 0; !rc && !t->o.no_header && k < t->shown; k++) {
        ctr_buf_clear(&t->one);
        rc = put_text(t->schema.f[k].name, strlen(t->schema.f[k].name), WIDEST, &t->one, err);
        if (!rc)
            rc = put_cell(t, k, (const char *)t->one.data, t->one.len, true, err);
    }
    if (!rc && !t->o.no_header)
        rc = end_line(t, err);
    while (!rc && p < end) {
        for (int k = 0; !rc && k < t->schema.n; k++, p += strlen(p) + 1)
            if (k < t->shown)
                rc = put_cell(t, k, p, strlen(p), !t->column[k].right, err);
        if (!rc)
            rc = end_line(t, err);
    }
    ctr_buf_free(&t->cell);
    return rc;
}

/* Keep a row of the sample. */
static int sample_row(struct ctr_table *t, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < t->schema.n; k++) {
        struct column *c = &t->column[k];
        const size_t at = t->cell.len;
        rc = put_value(t, &b->col[k], i, WIDEST, &t->cell, err);
        if (rc)
            break;
        if (!c->right) /* it is cut in any case */
            t->cell.len = at + ctr_columns_cut((const char *)t->cell.data + at, t->cell.len - at, WIDEST + 1);
        const int wide = ctr_columns((const char *)t->cell.data + at, t->cell.len - at);
        c->natural = CTR_MAX(c->natural, CTR_MIN(wide, (int)WIDEST));
        c->numbers = c->right ? CTR_MAX(c->numbers, wide) : 0;
        rc = ctr_put(&t->cell, "", 1, err);
    }
    return rc;
}

/* A line a value, whole. */
static int put_vertical(struct ctr_table *t, const struct ctr_batch *b, int64_t i, int64_t row, struct ctr_err *err)
{
    int rc = ctr_buf_printf(&t->line, err, "%srow %lld\n", row > 1 ? "\n" : "", (long long)row);
    int wide = 0;
    for (int k = 0; k < t->schema.n; k++)
        wide = CTR_MAX(wide, CTR_MIN(t->column[k].natural, (int)WIDEST));
    rc = CTR_MIN(rc, 0);
    for (int k = 0; !rc && k < t->schema.n; k++) {
        const char *name = t->schema.f[k].name;
        rc = put_spaces(&t->line, GAP, err);
        if (!rc)
            rc = put_text(name, strlen(name), WIDEST, &t->line, err);
        if (!rc)
            rc = put_spaces(&t->line, wide - t->column[k].natural + GAP, err);
        if (!rc)
            rc = put_value(t, &b->col[k], i, INT32_MAX, &t->line, err);
        if (!rc)
            rc = ctr_put(&t->line, "\n", 1, err);
    }
    if (!rc)
        rc = ctr_out_write(t->out, t->line.data, t->line.len, err);
    ctr_buf_clear(&t->line);
    return rc;
}

/* ---- open to close ---- */

int ctr_table_open(struct ctr_table **to, const struct ctr_schema *s, const struct ctr_table_opts *o,
                   struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_table *t = *to = calloc(1, sizeof *t);
    int rc = t ? ctr_schema_copy(&t->schema, s, err) : ctr_fail_nomem(err, sizeof *t);
    if (rc)
        return rc;
    t->o = *o;
    t->o.null_text = o->null_text ? o->null_text : "null";
    t->out = out;
    t->column = calloc((size_t)s->n + 1, sizeof *t->column);
    if (!t->column)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *t->column);
    for (int k = 0; !rc && k < s->n; k++) {
        const enum ctr_type type = s->f[k].type;
        t->column[k].right = ctr_types[type].integer || ctr_types[type].floating;
        rc = put_text(s->f[k].name, strlen(s->f[k].name), WIDEST, &t->one, err);
        t->column[k].natural = ctr_columns((const char *)t->one.data, t->one.len);
        ctr_buf_clear(&t->one);
    }
    return rc;
}

int ctr_table_batch(struct ctr_table *t, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < b->rows; i++, t->rows++) {
        if (t->o.vertical)
            rc = put_vertical(t, b, i, t->rows + 1, err);
        else if (t->rows < CTR_TABLE_SAMPLE)
            rc = sample_row(t, b, i, err);
        else if (t->laid_out || !(rc = begin(t, err)))
            rc = put_row(t, b, i, err);
    }
    return rc;
}

int ctr_table_finish(struct ctr_table *t, struct ctr_err *err)
{
    return t->o.vertical || t->laid_out ? 0 : begin(t, err);
}

int ctr_table_left_out(const struct ctr_table *t)
{
    return t->laid_out ? t->schema.n - t->shown : 0;
}

void ctr_table_free(struct ctr_table *t)
{
    if (!t)
        return;
    ctr_schema_free(&t->schema);
    ctr_buf_free(&t->cell);
    ctr_buf_free(&t->one);
    ctr_buf_free(&t->line);
    free(t->column);
    free(t);
}
