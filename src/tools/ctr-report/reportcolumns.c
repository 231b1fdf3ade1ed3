/* SPDX-License-Identifier: Apache-2.0
 *
 * reportcolumns: what all kinds of files need: columns by name and class, and numbers as text. */
#include "tools/ctr-report/report.h"

#include <math.h>
#include <stdio.h>

static bool fits(const struct ctr_field *f, enum ctr_report_class class)
{
    switch (class) {
    case CTR_CLASS_TEXT: return f->type == CTR_UTF8;
    case CTR_CLASS_NUMBER: return ctr_type_number(f->type);
    case CTR_CLASS_TIME: return f->type == CTR_TIME;
    case CTR_CLASS_TEXTS: return f->type == CTR_LIST && f->item == CTR_UTF8;
    case CTR_CLASS_NUMBERS: return f->type == CTR_LIST && ctr_type_number(f->item);
    }
    return false;
}

bool ctr_report_find(const struct ctr_schema *s, const struct ctr_report_column *want, int n, int *at)
{
    for (int i = 0; i < n; i++) {
        at[i] = ctr_schema_find(s, want[i].name);
        if (at[i] < 0 ? want[i].must : !fits(&s->f[at[i]], want[i].class))
            return false;
    }
    return true;
}

double ctr_report_value(const struct ctr_batch *b, int column, int64_t row)
{
    return column < 0 || ctr_col_missing(&b->col[column], row) ? NAN : ctr_col_f64(&b->col[column], row);
}

struct ctr_str ctr_report_str(const struct ctr_batch *b, int column, int64_t row)
{
    return column < 0 || ctr_col_missing(&b->col[column], row) ? (struct ctr_str){ NULL, 0 }
                                                               : ctr_col_str(&b->col[column], row);
}

struct ctr_report_number ctr_report_number(double x)
{
    struct ctr_report_number n = { "-" };
    if (!isnan(x))
        snprintf(n.s, sizeof n.s,
                 x == floor(x) && fabs(x) < 0x1p53              ? "%.0f"
                 : fabs(x) >= 1e6 || (x != 0 && fabs(x) < 1e-4) ? "%.3g"
                                                                : "%.6g",
                 x);
    return n;
}

struct ctr_report_number ctr_report_percent(double x)
{
    struct ctr_report_number n = { "-" };
    if (!isnan(x))
        snprintf(n.s, sizeof n.s, "%.4g%%", 100 * x);
    return n;
}

struct ctr_report_number ctr_report_metric(double x)
{
    struct ctr_report_number n = { "-" };
    if (isfinite(x))
        snprintf(n.s, sizeof n.s, "%.30s", ctr_mean_text(x).s);
    return n;
}

struct ctr_report_number ctr_report_decimals(double x)
{
    struct ctr_report_number n = { "-" };
    if (!isnan(x))
        snprintf(n.s, sizeof n.s, fabs(x) < 1e6 ? "%.4f" : "%.4g", x);
    return n;
}

struct ctr_report_number ctr_report_time(double ms)
{
    struct ctr_report_number n = { "-" };
    if (ms >= -0x1p62 && ms <= 0x1p62)
        n.s[ctr_time_iso(n.s, (int64_t)floor(ms / 1000) * 1000)] = 0;
    return n;
}

int ctr_report_slice(const struct ctr_batch *b, int by, int window, int64_t row, struct ctr_buf *out,
                     struct ctr_err *err)
{
    const struct ctr_str value = ctr_report_str(b, by, row);
    int rc = 0;

    ctr_buf_clear(out);
    if (by >= 0)
        rc = ctr_buf_value_name(out, value.p, value.n, err);
    if (!rc && window >= 0 && !ctr_col_missing(&b->col[window], row))
        rc = ctr_buf_printf(out, err, "%sfrom %s", out->len ? ", " : "",
                            ctr_report_time(ctr_report_value(b, window, row)).s);
    return rc;
}

const char *const ctr_report_brief_head[] = { "scores",       ">rows",     ">click rate",
                                              ">auc",         ">log_loss", ">normalized_entropy",
                                              ">calibration", NULL };

void ctr_report_brief(struct ctr_report_file *f, const double value[CTR_BRIEF])
{
    struct ctr_html *h = &f->report->brief;
    struct ctr_html_table t = { .h = h, .head = ctr_report_brief_head };

    if (!ctr_html_row(&t))
        return;
    ctr_html_text_cell(&t, f->name, strlen(f->name), 40);
    ctr_html_cell(&t, "%s", ctr_report_number(value[0]).s);
    for (int i = 1; i < CTR_BRIEF; i++)
        ctr_html_cell(&t, "%s", ctr_report_metric(value[i]).s);
    ctr_html_markup(h, "</tr>\n");
}
