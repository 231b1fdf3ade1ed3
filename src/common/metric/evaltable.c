/* SPDX-License-Identifier: Apache-2.0
 *
 * evaltable: prints an evaluation as a table for people, and as a stream for tools.
 *
 * Both are made from one list of cells per slice, so they agree: the stream has one column per cell, and so has the
 * table, except with a control or intervals, where it has one line per slice and metric. */
#include "common/metric/metric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* For example, --by ad --metrics auc gives, without and with --bootstrap, and as a stream:
 *
 *     slice  rows  positives       auc     slice  metric     value       low      high
 *     total     3          2  1.000000     total  auc     1.000000  1.000000  1.000000
 *     ad=x      2          1  1.000000     ad=x   auc     1.000000  1.000000  1.000000
 *
 *     by    slice  rows  weight  positives  auc           the total has null in by and slice; with --bootstrap
 *                     3       3          2    1           auc_low and auc_high follow
 *     ad    x         2       2          1    1
 *
 * The table is a grid of texts, cell by cell (wide_row, long_rows); `print` then measures columns and aligns them. */

/* ---- a metric of a slice ---- */

/* The parts of a metric, the value and others: name in a stream, heading and digits in a table. */
enum { PARTS = CTR_EVAL_PARTS };
static const struct part {
    const char *suffix, *head;
    int digits;
    bool control, bootstrap;
} parts[PARTS] = {
    { "", "value", 6, false, false },
    { "_low", "low", 6, false, true },
    { "_high", "high", 6, false, true },
    { "_control", "control", 6, true, false },
    { "_change", "change_%", 3, true, false },
    { "_change_low", "change_low", 3, true, true },
    { "_change_high", "change_high", 3, true, true },
};

const char *ctr_eval_part(int i)
{
    return parts[i].suffix;
}

static bool has(const struct part *p, const struct ctr_eval_view *v)
{
    return (!p->control || v->control) && (!p->bootstrap || v->bootstrap);
}

/* The parts of a slice's metric, in order; absent ones are NaN. */
static int part_values(const struct ctr_eval *e, int64_t slice, const struct ctr_eval_view *v, int metric,
                       double value[PARTS], struct ctr_err *err)
{
    const struct ctr_metric_sums *sums = ctr_eval_slice(e, slice)->sums;
    double own = ctr_metrics[metric].value(&sums[0]);
    double control = v->control ? ctr_metrics[metric].value(&sums[1]) : NAN;
    struct ctr_interval in = { NAN, NAN }, change = { NAN, NAN };
    int rc = v->bootstrap ? ctr_eval_interval(e, slice, metric, false, &in, err) : 0;

    if (!rc && v->bootstrap && v->control)
        rc = ctr_eval_interval(e, slice, metric, true, &change, err);
    const double all[PARTS] = {
        own, in.low, in.high, control, ctr_metric_change(own, control), change.low, change.high
    };
    memcpy(value, all, sizeof all);
    return rc;
}

static int add_metric(const struct ctr_eval_view *v, int metric, struct ctr_schema *s, struct ctr_err *err)
{
    char name[96];
    int rc = 0;

    for (int i = 0; rc >= 0 && i < PARTS; i++) {
        if (!has(&parts[i], v))
            continue;
        snprintf(name, sizeof name, "%s%s", ctr_metrics[metric].name, parts[i].suffix);
        rc = ctr_schema_add(s, name, CTR_F64, err);
    }
    return CTR_MIN(rc, 0);
}

/* The window of a slice, or NULL: the whole time. */
static const int64_t *window_of(const struct ctr_eval_slice *s, const struct ctr_eval_view *v)
{
    return v->window ? v->window : s->windowed ? &s->window_ms : NULL;
}

/* ---- the stream ---- */

int ctr_eval_stream_schema(const struct ctr_eval_view *v, struct ctr_schema *s, struct ctr_err *err)
{
    const struct {
        const char *name;
        enum ctr_type type;
        bool there;
    } column[] = {
        { "by", CTR_UTF8, true },
        { "slice", CTR_UTF8, true },
        { "window", CTR_TIME, v->windows },
        { "rows", CTR_I64, true },
        { "weight", CTR_F64, true },
        { "positives", CTR_F64, true },
        { "users", CTR_I64, v->users },
        { "left_out_users", CTR_I64, v->users },
        { "left_out_rows", CTR_I64, v->users },
    };
    int rc;

    for (size_t i = 0; i < CTR_COUNT(column); i++)
        if (column[i].there && (rc = ctr_schema_add(s, column[i].name, column[i].type, err)) < 0)
            return rc;
    for (int i = 0; i < v->n; i++)
        if ((rc = add_metric(v, v->metrics[i], s, err)))
            return rc;
    return 0;
}

static void put_metric(const struct ctr_eval *e, int64_t slice, const struct ctr_eval_view *v, int metric,
                       struct ctr_append *a)
{
    double value[PARTS];
    if (!a->rc)
        a->rc = part_values(e, slice, v, metric, value, a->err);
    for (int i = 0; !a->rc && i < PARTS; i++)
        if (has(&parts[i], v))
            ctr_append_f64(a, isfinite(value[i]), value[i]);
}

static int slice_name(const struct ctr_eval_slice *s, struct ctr_buf *out, struct ctr_err *err)
{
    out->len = 0;
    return s->none || s->by < 0 ? ctr_buf_append(out, s->text, s->text_n, err)
                                : ctr_buf_value_name(out, s->text, s->text_n, err);
}

int ctr_eval_stream_rows(const struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_batchbuf *rows,
                         struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = 0;

    for (int64_t i = 0; !rc && i < ctr_eval_slices(e); i++) {
        const struct ctr_eval_slice *s = ctr_eval_slice(e, i);
        const struct ctr_metric_sums *t = &s->sums[0];
        const int64_t *window = window_of(s, v);
        struct ctr_append a = { rows->col, err, slice_name(s, &name, err) };
        ctr_append_text(&a, s->by < 0 ? NULL : v->by_names[s->by]);
        ctr_append_str(&a, s->by < 0 ? NULL : name.len ? (const char *)name.data : "", name.len);
        if (v->windows)
            ctr_append_i64(&a, window, window ? *window : 0);
        ctr_append_i64(&a, true, t->rows);
        ctr_append_f64(&a, isfinite(t->weight), t->weight);
        ctr_append_f64(&a, isfinite(t->label), t->label);
        if (v->users) {
            ctr_append_i64(&a, true, t->users);
            ctr_append_i64(&a, true, t->left_out_users);
            ctr_append_i64(&a, true, t->left_out_rows);
        }
        for (int m = 0; m < v->n; m++)
            put_metric(e, i, v, v->metrics[m], &a);
        rc = a.rc;
    }
    ctr_buf_free(&name);
    return rc;
}

/* ---- the table: cells of text, then aligned ---- */

struct grid {
    struct ctr_buf cells; /* zero-terminated each; there may be millions */
    int64_t n;            /* number of cells */
    int columns, left;    /* the first `left` columns are left-aligned */
};

static int cell(struct grid *g, struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(3, 4);
static int cell(struct grid *g, struct ctr_err *err, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    ctr_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    g->n++;
    return ctr_buf_append(&g->cells, text, strlen(text) + 1, err);
}

/* Like ctr_mean_text, which is slow, except for values that are small or near a rounding boundary. */
static int cell_share(struct grid *g, double v, struct ctr_err *err)
{
    const double millionths = v * 1e6, below = floor(millionths), part = millionths - below;
    char text[] = "0.000000";

    if (!(v >= 0.001 && v < 0.999) || fabs(part - 0.5) < 1e-6)
        return cell(g, err, "%s", ctr_mean_text(v).s);
    char *p = text + 7;
    for (int n = (int)below + (part > 0.5); n; n /= 10)
        *p-- = (char)('0' + n % 10);
    g->n++;
    return ctr_buf_append(&g->cells, text, sizeof text, err);
}

static int cell_number(struct grid *g, double v, int digits, struct ctr_err *err)
{
    if (digits == 6)
        return isfinite(v) ? cell_share(g, v, err) : cell(g, err, "-");
    return isfinite(v) ? cell(g, err, "%.*f", digits, v) : cell(g, err, "-");
}

/* A weight or a sum of labels: as an integer if it is one. */
static int cell_sum(struct grid *g, double v, struct ctr_err *err)
{
    return cell_number(g, v, v == floor(v) && v < 0x1p53 ? 0 : 3, err);
}

static int spaces(struct ctr_buf *out, int n, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(out, (size_t)n, err);

    if (rc)
        return rc;
    memset(out->data + out->len, ' ', (size_t)n);
    out->len += (size_t)n;
    return 0;
}

static int cell_width(const char *p)
{
    return ctr_columns(p, strlen(p));
}

/* A cell in a column of `wide` columns of the terminal; what is wider is cut, which happens to names of slices only. */
static int print_cell(const char *p, int wide, bool left, const char *end, struct ctr_buf *out, struct ctr_err *err)
{
    const bool cut = cell_width(p) > wide;
    const size_t n = cut ? ctr_columns_cut(p, strlen(p), wide - 1) : strlen(p);
    const int pad = wide - ctr_columns(p, n) - cut;
    int rc = left ? 0 : spaces(out, pad, err);

    if (!rc)
        rc = ctr_buf_append(out, p, n, err);
    if (!rc && cut)
        rc = ctr_buf_append(out, CTR_CUT, strlen(CTR_CUT), err);
    if (!rc && left && *end != '\n')
        rc = spaces(out, pad, err);
    return rc ? rc : ctr_buf_append(out, end, strlen(end), err);
}

/* The left columns, and columns [from, to). */
static int print_block(const struct grid *g, const int *wide, int from, int to, struct ctr_buf *out,
                       struct ctr_err *err)
{
    const char *const end = (const char *)g->cells.data + g->cells.len, *p = (const char *)g->cells.data;
    int rc = 0;

    for (int c = 0; !rc && p < end; p += strlen(p) + 1, c = (c + 1) % g->columns)
        if (c < g->left || (c >= from && c < to))
            rc = print_cell(p, wide[c], c < g->left, c == to - 1 ? "\n" : "  ", out, err);
    return rc;
}

static int64_t sum_of(const int *wide, int from, int to)
{
    int64_t n = 0;
    for (int c = from; c < to; c++)
        n += wide[c] + 2;
    return n;
}

/* Within `most` columns of a terminal (0: no limit): long names of slices are cut, and what still has no room stands in
 * blocks of columns one below the other. */
static int print(const struct grid *g, int most, struct ctr_buf *out, struct ctr_err *err)
{
    enum { NAME = 16 };
    const char *const end = (const char *)g->cells.data + g->cells.len;
    int *wide = calloc((size_t)g->columns, sizeof *wide), c = 0, rc = 0;

    if (!wide)
        return ctr_fail_nomem(err, (size_t)g->columns * sizeof *wide);
    for (const char *p = (const char *)g->cells.data; p < end; p += strlen(p) + 1, c = (c + 1) % g->columns)
        wide[c] = CTR_MAX(wide[c], cell_width(p));
    const int64_t excess = most ? sum_of(wide, 0, g->columns) - 2 - most : 0;
    if (excess > 0)
        wide[0] = (int)CTR_MAX(wide[0] - excess, (int64_t)CTR_MIN(wide[0], (int)NAME));
    for (int from = g->left, to; !rc && from < g->columns; from = to) {
        for (to = from + 1; to < g->columns; to++)
            if (most && sum_of(wide, 0, g->left) + sum_of(wide, from, to + 1) - 2 > most)
                break;
        if (from > g->left)
            rc = ctr_buf_append(out, "\n", 1, err);
        if (!rc)
            rc = print_block(g, wide, from, to, out, err);
    }
    free(wide);
    return rc;
}

static int slice_cells(struct grid *g, const struct ctr_eval_slice *s, const struct ctr_eval_view *v,
                       struct ctr_err *err)
{
    const int64_t *window = window_of(s, v);
    struct ctr_buf name = { 0 };
    char text[500];
    int rc = slice_name(s, &name, err);
    if (!rc)
        ctr_quote(text, sizeof text, name.len ? (const char *)name.data : "", name.len);
    ctr_buf_free(&name);
    if (!rc)
        rc = s->by < 0 ? cell(g, err, "total") : cell(g, err, "%s=%.400s", v->by_names[s->by], text);

    if (rc || !v->windows)
        return rc;
    if (!window)
        return cell(g, err, "all");
    text[ctr_time_iso(text, *window)] = 0;
    return cell(g, err, "%s", text);
}

static int head_cells(struct grid *g, const struct ctr_eval_view *v, struct ctr_err *err)
{
    int rc = cell(g, err, "slice");

    if (!rc && v->windows)
        rc = cell(g, err, "window");
    g->left = (int)g->n;
    return rc;
}

static int wide_head(struct grid *g, const struct ctr_eval_view *v, struct ctr_err *err)
{
    int rc = cell(g, err, "rows");

    if (!rc && v->weighted)
        rc = cell(g, err, "weight");
    if (!rc)
        rc = cell(g, err, "positives");
    for (int i = 0; !rc && i < v->n; i++)
        rc = cell(g, err, "%s", ctr_metrics[v->metrics[i]].name);
    if (!rc && v->users && !(rc = cell(g, err, "users")) && !(rc = cell(g, err, "left_out_users")))
        rc = cell(g, err, "left_out_rows");
    g->columns = (int)g->n;
    return rc;
}

static int wide_row(struct grid *g, const struct ctr_eval_slice *s, const struct ctr_eval_view *v, struct ctr_err *err)
{
    const struct ctr_metric_sums *t = &s->sums[0];
    int rc = cell(g, err, "%lld", (long long)t->rows);

    if (!rc && v->weighted)
        rc = cell_sum(g, t->weight, err);
    if (!rc)
        rc = cell_sum(g, t->label, err);
    for (int i = 0; !rc && i < v->n; i++)
        rc = cell_number(g, ctr_metrics[v->metrics[i]].value(t), 6, err);
    if (!rc && v->users && !(rc = cell(g, err, "%lld", (long long)t->users)) &&
        !(rc = cell(g, err, "%lld", (long long)t->left_out_users)))
        rc = cell(g, err, "%lld", (long long)t->left_out_rows);
    return rc;
}

static int long_head(struct grid *g, const struct ctr_eval_view *v, struct ctr_err *err)
{
    int rc = cell(g, err, "metric");

    g->left = (int)g->n;
    for (int i = 0; !rc && i < PARTS; i++)
        if (has(&parts[i], v))
            rc = cell(g, err, "%s", parts[i].head);
    g->columns = (int)g->n;
    return rc;
}

static int long_cells(struct grid *g, const struct ctr_eval *e, int64_t slice, int metric,
                      const struct ctr_eval_view *v, struct ctr_err *err)
{
    double value[PARTS];
    int rc = part_values(e, slice, v, metric, value, err);

    if (!rc)
        rc = cell(g, err, "%s", ctr_metrics[metric].name);
    for (int i = 0; !rc && i < PARTS; i++)
        if (has(&parts[i], v))
            rc = cell_number(g, value[i], parts[i].digits, err);
    return rc;
}

static int long_rows(struct grid *g, const struct ctr_eval *e, int64_t i, const struct ctr_eval_view *v,
                     struct ctr_err *err)
{
    int rc = 0;

    for (int m = 0; !rc && m < v->n; m++) {
        rc = slice_cells(g, ctr_eval_slice(e, i), v, err);
        if (!rc)
            rc = long_cells(g, e, i, v->metrics[m], v, err);
    }
    return rc;
}

int ctr_eval_table(const struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_buf *out, struct ctr_err *err)
{
    struct grid g = { 0 };
    bool by_metric = v->control || v->bootstrap;
    int rc = head_cells(&g, v, err);

    if (!rc)
        rc = by_metric ? long_head(&g, v, err) : wide_head(&g, v, err);
    for (int64_t i = 0; !rc && i < ctr_eval_slices(e); i++) {
        if (by_metric)
            rc = long_rows(&g, e, i, v, err);
        else if (!(rc = slice_cells(&g, ctr_eval_slice(e, i), v, err)))
            rc = wide_row(&g, ctr_eval_slice(e, i), v, err);
    }
    if (!rc)
        rc = print(&g, v->columns, out, err);
    ctr_buf_free(&g.cells);
    return rc;
}
