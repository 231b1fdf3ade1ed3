/* SPDX-License-Identifier: Apache-2.0
 *
 * show: a profile as rows of a stream and as a table. */
#include "tools/ctr-stats/show.h"

#include <math.h>
#include <stdio.h>

#include "common/metric/metric.h"
#include "tools/ctr-stats/summary.h"

/* ---- the stream ---- */

static const struct {
    const char *name;
    enum ctr_type type, item;
    bool labelled; /* only with a label */
} columns[] = {
    { "rows", CTR_I64, 0, false },
    { "nulls", CTR_I64, 0, false },
    { "values", CTR_I64, 0, false },
    { "nan", CTR_I64, 0, false },
    { "zeros", CTR_I64, 0, false },
    { "distinct", CTR_I64, 0, false },
    { "distinct_error", CTR_F64, 0, false },
    { "min", CTR_UTF8, 0, false },
    { "max", CTR_UTF8, 0, false },
    { "mean", CTR_F64, 0, false },
    { "sd", CTR_F64, 0, false },
    { "q01", CTR_F64, 0, false },
    { "q05", CTR_F64, 0, false },
    { "q25", CTR_F64, 0, false },
    { "median", CTR_F64, 0, false },
    { "q75", CTR_F64, 0, false },
    { "q95", CTR_F64, 0, false },
    { "q99", CTR_F64, 0, false },
    { "quantile_error", CTR_F64, 0, false },
    { "shortest", CTR_I64, 0, false },
    { "mean_length", CTR_F64, 0, false },
    { "longest", CTR_I64, 0, false },
    { "top", CTR_LIST, CTR_UTF8, false },
    { "top_rows", CTR_LIST, CTR_I64, false },
    { "top_share", CTR_LIST, CTR_F64, false },
    { "top_error", CTR_F64, 0, false },
    { "rate", CTR_F64, 0, true },
    { "null_rate", CTR_F64, 0, true },
    { "top_rate", CTR_LIST, CTR_F64, true },
    { "top_rate_low", CTR_LIST, CTR_F64, true },
    { "top_rate_high", CTR_LIST, CTR_F64, true },
    { "information", CTR_F64, 0, true },
    { "auc", CTR_F64, 0, true },
};

int ctr_put_names_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err)
{
    int rc = p->by ? ctr_schema_add(s, "by", CTR_UTF8, err) : 0;
    if (rc >= 0 && p->window_ms)
        rc = ctr_schema_add(s, "window", CTR_TIME, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "name", CTR_UTF8, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "type", CTR_UTF8, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "role", CTR_UTF8, err);
    return CTR_MIN(rc, 0);
}

int ctr_show_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_put_names_schema(p, s, err);
    for (size_t i = 0; rc >= 0 && i < CTR_COUNT(columns); i++) {
        if (columns[i].labelled && !p->label)
            continue;
        rc = ctr_schema_add(s, columns[i].name, columns[i].type, err);
        if (rc >= 0)
            s->f[s->n - 1].item = columns[i].item;
    }
    return CTR_MIN(rc, 0);
}

void ctr_put_f64(struct ctr_append *a, double x)
{
    ctr_append_f64(a, !isnan(x), x);
}

void ctr_put_names(const struct ctr_profiles *p, const struct ctr_slice *slice, const struct ctr_profile *column,
                   struct ctr_append *a)
{
    if (p->by)
        ctr_append_str(a, slice->by, (size_t)slice->by_n);
    if (p->window_ms)
        ctr_append_i64(a, !slice->absent, slice->window_ms);
    ctr_append_text(a, column->name);
    ctr_append_text(a, column->type);
    ctr_append_text(a, column->role);
}

static int write_end(const struct ctr_profile *p, const struct ctr_end *e, struct ctr_buf *text, struct ctr_err *err)
{
    ctr_buf_clear(text);
    const int rc = ctr_buf_reserve(text, 1, err);
    return rc ? rc : ctr_value_write(p, ctr_kind_unorder(p->kind, e->order), e->text, e->n, e->cut, text, err);
}

static void put_end(struct ctr_append *a, const struct ctr_profile *p, bool there, const struct ctr_end *e,
                    struct ctr_buf *text)
{
    if (there && !a->rc)
        a->rc = write_end(p, e, text, a->err);
    ctr_append_str(a, there ? (const char *)text->data : NULL, text->len);
}

static void put_lengths(struct ctr_append *a, const struct ctr_profile *p, const struct ctr_totals *t)
{
    const bool text = p->kind == CTR_KIND_TEXT && !p->list;
    const bool any = p->list ? p->lists > 0 : text && t->ordered > 0;
    const double mean = !any      ? NAN
                        : p->list ? (double)p->items / (double)p->lists
                                  : (double)t->length / (double)t->ordered;
    ctr_append_i64(a, any, p->list ? p->shortest : t->shortest);
    ctr_put_f64(a, mean);
    ctr_append_i64(a, any, p->list ? p->longest : t->longest);
}

static int put_top(struct ctr_colbuf *list, const struct ctr_profile *p, const struct ctr_summary *s,
                   struct ctr_buf *text, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < s->ntop; i++) {
        const struct ctr_frequent *f = &s->top[i];
        ctr_buf_clear(text);
        rc = ctr_buf_reserve(text, 1, err);
        if (!rc)
            rc = ctr_value_write(p, f->key, f->text, f->kept, f->cut, text, err);
        if (!rc)
            rc = ctr_colbuf_str(list[0].item, (const char *)text->data, text->len, err);
        if (!rc)
            rc = ctr_colbuf_i64(list[1].item, f->n, err);
        if (!rc)
            rc = ctr_colbuf_f64(list[2].item, (double)f->n / (double)p->values, err);
    }
    for (int i = 0; !rc && i < 3; i++)
        rc = ctr_colbuf_close(&list[i], err);
    return rc;
}

static void put_clicks(struct ctr_append *a, const struct ctr_profile *p, const struct ctr_summary *s)
{
    ctr_put_f64(a, s->rate);
    ctr_put_f64(a, s->null_rate);
    for (int k = 0; k < 3; k++, a->next++) {
        for (int i = 0; !a->rc && p->labelled && i < s->ntop; i++) {
            const double n = (double)s->top[i].n;
            double value[3] = { s->top[i].clicks / n };
            ctr_rate_interval(value[0], n, &value[1], &value[2]);
            a->rc = ctr_colbuf_f64(a->next->item, value[k], a->err);
        }
        if (!a->rc)
            a->rc = ctr_colbuf_close(a->next, a->err);
    }
    ctr_put_f64(a, s->iv);
    ctr_put_f64(a, s->auc);
}

static int put_column(const struct ctr_profiles *all, const struct ctr_slice *slice, const struct ctr_profile *p,
                      struct ctr_colbuf *c, struct ctr_buf *text, struct ctr_err *err)
{
    struct ctr_summary s;
    const struct ctr_totals *t = &s.totals;
    const int rc = ctr_summarize(p, &s, err);
    if (rc)
        return rc;
    struct ctr_append a = { c, err, 0 };
    ctr_put_names(all, slice, p, &a);
    const bool number = p->kind != CTR_KIND_TEXT;
    const int64_t counts[] = { p->rows, p->nulls, p->values, t->nan, t->zeros, s.distinct };
    for (size_t i = 0; i < CTR_COUNT(counts); i++)
        ctr_append_i64(&a, i != 3 || p->kind == CTR_KIND_FLOAT, counts[i]);
    ctr_put_f64(&a, s.distinct_error);
    put_end(&a, p, t->ordered, &t->min, text);
    put_end(&a, p, t->ordered, &t->max, text);
    ctr_put_f64(&a, number ? s.mean : NAN);
    ctr_put_f64(&a, number ? s.sd : NAN);
    for (int i = 0; i < CTR_QUANTILES; i++)
        ctr_put_f64(&a, s.quantile[i]);
    ctr_put_f64(&a, s.quantile_error);
    put_lengths(&a, p, t);
    if (!a.rc)
        a.rc = put_top(a.next, p, &s, text, err);
    a.next += 3;
    ctr_put_f64(&a, s.top_error);
    if (all->label)
        put_clicks(&a, p, &s);
    return a.rc;
}

int ctr_show_rows(const struct ctr_profiles *p, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++)
        for (int k = 0; !rc && k < p->schema.n; k++)
            rc = put_column(p, &p->slice[i], &p->slice[i].column[k], rows->col, &text, err);
    ctr_buf_free(&text);
    return rc;
}

/* ---- the table ---- */

struct ctr_cell ctr_cell(double x)
{
    struct ctr_cell c = { "-" };
    if (!isnan(x))
        snprintf(c.s, sizeof c.s, fabs(x) >= 1e6 || (x != 0 && fabs(x) < 1e-4) ? "%.3g" : "%.6g", x);
    return c;
}

int ctr_cell_text(struct ctr_buf *out, const char *text, size_t n, int width, struct ctr_err *err)
{
    size_t end = 0, last = 0;
    int rc, characters = 0;
    while (end < n && characters < width) {
        last = end;
        const size_t k = ctr_utf8_length((const uint8_t *)text + end, (const uint8_t *)text + n);
        end += k ? k : 1;
        characters++;
    }
    ctr_buf_clear(out);
    rc = ctr_buf_append(out, text, end < n ? last : end, err);
    if (!rc && end < n)
        rc = ctr_buf_append(out, "…", strlen("…"), err);
    return rc ? rc : ctr_buf_append(out, "", 1, err);
}

int ctr_slice_name(const struct ctr_profiles *p, const struct ctr_slice *slice, struct ctr_buf *out,
                   struct ctr_err *err)
{
    char window[CTR_NUM_MAX + 1] = { 0 };
    const bool in_window = p->window_ms && !slice->absent;
    struct ctr_buf value = { 0 };
    int rc = p->by ? ctr_buf_value_name(&value, slice->by, (size_t)slice->by_n, err) : 0;
    if (!rc && p->by)
        rc = ctr_buf_format(out, err, "%s = ", p->by);
    if (!rc && value.len)
        rc = ctr_buf_quote(out, (const char *)value.data, value.len, err);
    ctr_buf_free(&value);
    if (!rc && in_window) {
        window[ctr_time_iso(window, slice->window_ms)] = 0;
        rc = ctr_buf_format(out, err, p->by ? ", from %s" : "from %s", window);
    }
    return rc;
}

int ctr_slice_title(const struct ctr_profiles *p, const struct ctr_slice *slice, struct ctr_buf *out,
                    struct ctr_err *err)
{
    if (!p->by && !p->window_ms)
        return 0;
    int rc = out->len ? ctr_buf_append(out, "\n", 1, err) : 0;
    if (!rc)
        rc = ctr_slice_name(p, slice, out, err);
    return rc ? rc : ctr_buf_append(out, "\n", 1, err);
}

enum { NAME_WIDTH = 20, TYPE_WIDTH = 12, VALUE_WIDTH = 11 };

struct cells {
    struct ctr_buf name, type, min, middle, max, top, text;
};

static void cells_free(struct cells *c)
{
    struct ctr_buf *b[] = { &c->name, &c->type, &c->min, &c->middle, &c->max, &c->top, &c->text };
    for (size_t i = 0; i < CTR_COUNT(b); i++)
        ctr_buf_free(b[i]);
}

/* A value; the empty text as '', as a shell reads it. */
static int value_cell(struct ctr_buf *out, const struct ctr_buf *text, int width, struct ctr_err *err)
{
    if (!text->len)
        return ctr_cell_text(out, "''", 2, width, err);
    return ctr_cell_text(out, (const char *)text->data, text->len, width, err);
}

/* A value, or - if there is none. */
static int end_cell(struct ctr_buf *out, const struct ctr_profile *p, bool there, const struct ctr_end *e,
                    struct ctr_buf *text, struct ctr_err *err)
{
    if (!there)
        return ctr_cell_text(out, "-", 1, VALUE_WIDTH, err);
    if (p->kind == CTR_KIND_FLOAT) {
        const struct ctr_cell c = ctr_cell(ctr_kind_number(p->kind, ctr_kind_unorder(p->kind, e->order)));
        return ctr_cell_text(out, c.s, strlen(c.s), VALUE_WIDTH, err);
    }
    const int rc = write_end(p, e, text, err);
    return rc ? rc : value_cell(out, text, VALUE_WIDTH, err);
}

static int middle_cell(struct ctr_buf *out, const struct ctr_profile *p, double x, struct ctr_buf *text,
                       struct ctr_err *err)
{
    struct ctr_cell c = ctr_cell(x);
    if (isnan(x) || p->kind != CTR_KIND_TIME)
        return ctr_cell_text(out, c.s, strlen(c.s), VALUE_WIDTH, err);
    ctr_buf_clear(text);
    const int rc = ctr_value_write(p, (uint64_t)(int64_t)x, NULL, 0, false, text, err);
    return rc ? rc : ctr_cell_text(out, (const char *)text->data, text->len, VALUE_WIDTH, err);
}

/* The first frequent values with their shares. */
static int top_cell(struct ctr_buf *out, const struct ctr_profile *p, const struct ctr_summary *s, struct cells *c,
                    struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(out);
    for (int i = 0; !rc && i < CTR_MIN(s->ntop, 2); i++) {
        ctr_buf_clear(&c->text);
        rc = ctr_buf_reserve(&c->text, 1, err);
        if (!rc)
            rc = ctr_value_write(p, s->top[i].key, s->top[i].text, s->top[i].kept, s->top[i].cut, &c->text, err);
        if (!rc)
            rc = value_cell(&c->middle, &c->text, 12, err);
        if (!rc)
            rc = ctr_buf_format(out, err, "%s%s %.3g%%", i ? ", " : "", (const char *)c->middle.data,
                                100 * (double)s->top[i].n / (double)p->values);
    }
    return rc ? rc : ctr_buf_append(out, "", 1, err);
}

static int table_line(const struct ctr_profiles *all, const struct ctr_profile *p, struct cells *c, struct ctr_buf *out,
                      struct ctr_err *err)
{
    struct ctr_summary s;
    struct ctr_totals *t = &s.totals;
    char distinct[32];
    int rc = ctr_summarize(p, &s, err);
    if (!rc)
        rc = ctr_cell_text(&c->name, p->name, strlen(p->name), NAME_WIDTH, err);
    if (!rc)
        rc = ctr_cell_text(&c->type, p->type, strlen(p->type), TYPE_WIDTH, err);
    if (!rc)
        rc = end_cell(&c->min, p, t->ordered, &t->min, &c->text, err);
    if (!rc)
        rc = end_cell(&c->max, p, t->ordered, &t->max, &c->text, err);
    if (!rc)
        rc = top_cell(&c->top, p, &s, c, err);
    if (!rc)
        rc = middle_cell(&c->middle, p, s.quantile[3], &c->text, err);
    if (rc)
        return rc;
    snprintf(distinct, sizeof distinct, "%s%lld", s.distinct_error > 0 ? "~" : "", (long long)s.distinct);
    rc = ctr_buf_format(out, err, "%-20s %-12s %7.4g %9s %11s %11s %11s %9s", (const char *)c->name.data,
                        (const char *)c->type.data, p->rows ? 100 * (double)p->nulls / (double)p->rows : 0, distinct,
                        (const char *)c->min.data, (const char *)c->middle.data, (const char *)c->max.data,
                        ctr_cell(p->kind == CTR_KIND_TIME ? NAN : s.mean).s);
    if (!rc && all->label)
        rc = ctr_buf_format(out, err, " %7s %6s", ctr_cell(round(s.iv * 1e4) / 1e4).s,
                            ctr_cell(round(s.auc * 1e4) / 1e4).s);
    return rc ? rc : ctr_buf_format(out, err, "  %s\n", (const char *)c->top.data);
}

int ctr_show_table(const struct ctr_profiles *p, struct ctr_buf *out, struct ctr_err *err)
{
    struct cells c = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++) {
        rc = ctr_slice_title(p, &p->slice[i], out, err);
        if (!rc && p->schema.n)
            rc = ctr_buf_format(out, err, "%lld row%s\n", (long long)p->slice[i].column[0].rows,
                                CTR_S(p->slice[i].column[0].rows));
        if (!rc)
            rc = ctr_buf_format(out, err, "%-20s %-12s %7s %9s %11s %11s %11s %9s%s  %s\n", "column", "type", "nulls_%",
                                "distinct", "min", "median", "max", "mean", p->label ? "    info    auc" : "", "top");
        for (int k = 0; !rc && k < p->schema.n; k++)
            rc = table_line(p, &p->slice[i].column[k], &c, out, err);
    }
    cells_free(&c);
    return rc;
}
