/* SPDX-License-Identifier: Apache-2.0
 *
 * reportstats: what ctr-stats says: profiles of columns, and drift.
 *
 * Frequent values and extremes are values of the data. What names somebody is no statistic: a value is shown where at
 * least FEW rows have it, extremes only of numbers and times, and no value of a column that is a user, a query or an
 * id. */
#include "tools/ctr-report/report.h"

#include <math.h>
#include <stdlib.h>

enum { FEW = 5, TOP = 3, RATES = 5 };

/* ---- profiles ---- */

enum {
    BY,
    WINDOW,
    NAME,
    TYPE,
    ROLE,
    ROWS,
    NULLS,
    VALUES,
    DISTINCT,
    DISTINCT_ERROR,
    MIN,
    MAX,
    MEAN,
    MEDIAN,
    TOP_VALUE,
    TOP_ROWS,
    TOP_SHARE,
    TOP_RATE,
    TOP_LOW,
    TOP_HIGH,
    INFORMATION,
    AUC,
    COLUMNS
};
static const struct ctr_report_column columns[COLUMNS] = {
    { "by", CTR_CLASS_TEXT, false },
    { "window", CTR_CLASS_TIME, false },
    { "name", CTR_CLASS_TEXT, true },
    { "type", CTR_CLASS_TEXT, true },
    { "role", CTR_CLASS_TEXT, false },
    { "rows", CTR_CLASS_NUMBER, true },
    { "nulls", CTR_CLASS_NUMBER, true },
    { "values", CTR_CLASS_NUMBER, true },
    { "distinct", CTR_CLASS_NUMBER, true },
    { "distinct_error", CTR_CLASS_NUMBER, true },
    { "min", CTR_CLASS_TEXT, true },
    { "max", CTR_CLASS_TEXT, true },
    { "mean", CTR_CLASS_NUMBER, true },
    { "median", CTR_CLASS_NUMBER, true },
    { "top", CTR_CLASS_TEXTS, true },
    { "top_rows", CTR_CLASS_NUMBERS, true },
    { "top_share", CTR_CLASS_NUMBERS, true },
    { "top_rate", CTR_CLASS_NUMBERS, false },
    { "top_rate_low", CTR_CLASS_NUMBERS, false },
    { "top_rate_high", CTR_CLASS_NUMBERS, false },
    { "information", CTR_CLASS_NUMBER, false },
    { "auc", CTR_CLASS_NUMBER, false },
};

/* A row of ctr-stats and its cells:
 *
 *     site, utf8, rows 60, nulls 0, distinct 3, top [a b c], top_rows [48 9 3], top_share [.8 .15 .05]
 *     site | utf8 | | 0% | 3 | a 80%, b 15% | - | - | - | -
 *
 * c is left out, as three rows are fewer than FEW; extremes of texts are "-". Had site the role user, the frequent
 * values would be empty as well. With labels, put_rates adds a line for each of its first five values to a second table
 * (x->rates), which has two fifths of the page's room and is appended behind the first one at the end. */

static const char *const head[] = { "column", "type",    "role", ">nulls", ">distinct", "frequent values",
                                    ">min",   ">median", ">max", ">mean",  NULL };
static const char *const labelled_head[] = { "column",    "type",         "role", ">nulls",
                                             ">distinct", ">information", ">auc", "frequent values",
                                             ">min",      ">median",      ">max", ">mean",
                                             NULL };
static const char *const rate_head[] = { "column", "value", ">rows", ">click rate", ">low", ">high", NULL };

struct stats {
    int at[COLUMNS];
    bool labelled;
    struct ctr_html_table t, rate;
    struct ctr_html rates; /* the table of click rates, which follows that of columns */
    struct ctr_buf slice, value;
    double rows; /* of the log, of the first column */
};

static int begin_profile(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    struct stats *x = f->state;
    (void)s;
    x->labelled = x->at[INFORMATION] >= 0 && x->at[TOP_RATE] >= 0 && x->at[TOP_LOW] >= 0 && x->at[TOP_HIGH] >= 0;
    x->rows = NAN;
    x->rates = (struct ctr_html){ .most = f->html.most * 2 / 5, .err = err };
    f->html.most -= x->labelled ? x->rates.most : 0;
    x->t = ctr_html_table(&f->html, "Columns", x->labelled ? labelled_head : head);
    if (x->labelled)
        x->rate = ctr_html_table(&x->rates, "Click rates of frequent values", rate_head);
    return 0;
}

/* May values of this column stand on a page that is handed around? */
static bool shows_values(const struct stats *x, const struct ctr_batch *b, int64_t i)
{
    static const char *const hidden[] = { "user", "query", "id" };
    const struct ctr_str role = ctr_report_str(b, x->at[ROLE], i);

    for (size_t k = 0; k < CTR_COUNT(hidden); k++)
        if (role.p && role.n == strlen(hidden[k]) && !memcmp(role.p, hidden[k], role.n))
            return false;
    return true;
}

static bool is_text(const struct ctr_str type)
{
    return type.p && memmem(type.p, type.n, "utf8", 4);
}
static bool is_time(const struct ctr_str type)
{
    return type.p && memmem(type.p, type.n, "timestamp", 9);
}

/* Item k of row i's list, or NaN. */
static double item(const struct ctr_batch *b, int column, int64_t i, int64_t k)
{
    int64_t from = 0, to = 0;
    const struct ctr_col *c = column < 0 ? NULL : ctr_col_items(&b->col[column], 0, i, &from, &to);
    return c && k < to - from && !ctr_col_missing(c, from + k) ? ctr_col_f64(c, from + k) : NAN;
}

/* Frequent value k of row i, p NULL: there is none, or too few have it. */
static struct ctr_str frequent(struct stats *x, const struct ctr_batch *b, int64_t i, int64_t k)
{
    static const struct ctr_str none = { NULL, 0 };
    int64_t from = 0, to = 0;
    const struct ctr_col *c = ctr_col_items(&b->col[x->at[TOP_VALUE]], 0, i, &from, &to);

    if (!c || k >= to - from || ctr_col_missing(c, from + k) || !(item(b, x->at[TOP_ROWS], i, k) >= FEW))
        return none;
    const struct ctr_str value = ctr_col_str(c, from + k);
    ctr_buf_clear(&x->value);
    const int rc = value.n ? ctr_buf_value_name(&x->value, value.p, value.n, x->rates.err)
                           : ctr_buf_append(&x->value, "(empty)", 7, x->rates.err);
    if (rc)
        x->rates.rc = rc;
    return rc ? none : (struct ctr_str){ (const char *)x->value.data, x->value.len };
}

/* The name of a column, and of what slice its row is. */
static void put_name(struct ctr_html_table *t, struct ctr_str name, const struct ctr_buf *slice)
{
    ctr_html_cell_begin(t);
    ctr_html_cut(t->h, name.p ? name.p : "", name.n, 40);
    if (slice->len) {
        ctr_html_markup(t->h, " <small>");
        ctr_html_cut(t->h, (const char *)slice->data, slice->len, 60);
        ctr_html_markup(t->h, "</small>");
    }
    ctr_html_cell_end(t);
}

static void put_end(struct ctr_html_table *t, const struct stats *x, const struct ctr_batch *b, int column, int64_t i,
                    bool shows)
{
    const struct ctr_str type = ctr_report_str(b, x->at[TYPE], i), value = ctr_report_str(b, x->at[column], i);
    double number;
    int64_t ms;

    if (!value.p || !shows || is_text(type))
        ctr_html_cell(t, "-");
    else if (is_time(type) && ctr_time_parse(NULL, value.p, value.n, &ms))
        ctr_html_cell(t, "%s", ctr_report_time((double)ms).s);
    else if (ctr_parse_f64(value.p, value.n, &number))
        ctr_html_cell(t, "%s", ctr_report_number(number).s);
    else
        ctr_html_text_cell(t, value.p, value.n, 32);
}

static void put_top(struct ctr_html_table *t, struct stats *x, const struct ctr_batch *b, int64_t i, bool shows)
{
    ctr_html_cell_begin(t);
    ctr_html_markup(t->h, "<span>");
    for (int64_t k = 0; k < TOP && shows; k++) {
        const struct ctr_str value = frequent(x, b, i, k);
        if (!value.p)
            break;
        ctr_html_markup(t->h, k ? ", " : "");
        ctr_html_cut(t->h, value.p, value.n, 24);
        ctr_html_format(t->h, " %s", ctr_report_percent(item(b, x->at[TOP_SHARE], i, k)).s);
    }
    ctr_html_markup(t->h, "</span>");
    ctr_html_cell_end(t);
}

static void put_column(struct stats *x, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_str type = ctr_report_str(b, x->at[TYPE], i), role = ctr_report_str(b, x->at[ROLE], i);
    const double rows = ctr_report_value(b, x->at[ROWS], i), nulls = ctr_report_value(b, x->at[NULLS], i);
    const double median = ctr_report_value(b, x->at[MEDIAN], i), mean = ctr_report_value(b, x->at[MEAN], i);
    const bool shows = shows_values(x, b, i);
    struct ctr_html_table *t = &x->t;

    if (!ctr_html_row(t))
        return;
    put_name(t, ctr_report_str(b, x->at[NAME], i), &x->slice);
    ctr_html_text_cell(t, type.p ? type.p : "", type.n, 40);
    ctr_html_text_cell(t, role.p ? role.p : "", role.n, 20);
    ctr_html_cell(t, "%s", ctr_report_percent(rows > 0 ? nulls / rows : 0).s);
    ctr_html_cell(t, "%s%s", ctr_report_value(b, x->at[DISTINCT_ERROR], i) > 0 ? "~" : "",
                  ctr_report_number(ctr_report_value(b, x->at[DISTINCT], i)).s);
    if (x->labelled) {
        ctr_html_cell(t, "%s", ctr_report_number(round(ctr_report_value(b, x->at[INFORMATION], i) * 1e4) / 1e4).s);
        ctr_html_cell(t, "%s", ctr_report_number(round(ctr_report_value(b, x->at[AUC], i) * 1e4) / 1e4).s);
    }
    put_top(t, x, b, i, shows);
    put_end(t, x, b, MIN, i, shows);
    ctr_html_cell(t, "%s", shows ? (is_time(type) ? ctr_report_time(median) : ctr_report_number(median)).s : "-");
    put_end(t, x, b, MAX, i, shows);
    ctr_html_cell(t, "%s", shows ? (is_time(type) ? ctr_report_time(mean) : ctr_report_number(mean)).s : "-");
}

static void put_rates(struct stats *x, const struct ctr_batch *b, int64_t i)
{
    for (int64_t k = 0; k < RATES && shows_values(x, b, i); k++) {
        const struct ctr_str value = frequent(x, b, i, k);
        const double rate = item(b, x->at[TOP_RATE], i, k);
        if (!value.p || isnan(rate) || !ctr_html_row(&x->rate))
            continue;
        put_name(&x->rate, ctr_report_str(b, x->at[NAME], i), &x->slice);
        ctr_html_text_cell(&x->rate, value.p, value.n, 40);
        ctr_html_cell(&x->rate, "%s", ctr_report_number(item(b, x->at[TOP_ROWS], i, k)).s);
        ctr_html_cell(&x->rate, "%s", ctr_report_metric(rate).s);
        ctr_html_cell(&x->rate, "%s", ctr_report_metric(item(b, x->at[TOP_LOW], i, k)).s);
        ctr_html_cell(&x->rate, "%s", ctr_report_metric(item(b, x->at[TOP_HIGH], i, k)).s);
    }
}

static int batch_profile(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err)
{
    struct stats *x = f->state;

    for (int64_t i = 0; i < b->rows; i++) {
        const int rc = ctr_report_slice(b, x->at[BY], x->at[WINDOW], i, &x->slice, err);
        if (rc)
            return rc;
        if (isnan(x->rows))
            x->rows = ctr_report_value(b, x->at[ROWS], i);
        put_column(x, b, i);
        if (x->labelled)
            put_rates(x, b, i);
    }
    return f->html.rc ? f->html.rc : x->rates.rc;
}

static int end_profile(struct ctr_report_file *f, struct ctr_err *err)
{
    struct stats *x = f->state;
    struct ctr_html *h = &f->html;

    ctr_html_table_end(&x->t);
    ctr_html_markup(h, "<p>");
    if (!isnan(x->rows) && x->at[BY] < 0 && x->at[WINDOW] < 0)
        ctr_html_format(h, "%s row%s. ", ctr_report_number(x->rows).s, x->rows == 1 ? "" : "s");
    ctr_html_format(h,
                    "A tilde marks an estimate. Values that fewer than %d rows have are not shown, nor those of users, "
                    "queries and ids.",
                    FEW);
    ctr_html_markup(h, "</p>\n");
    if (x->labelled) {
        ctr_html_element(
            h, "p", "Information is the information value of the column for clicks, auc that of the column alone.");
        h->most += x->rates.most;
        ctr_html_table_end(&x->rate);
        if (!h->rc && !x->rates.rc)
            h->rc = ctr_buf_append(&h->buf, x->rates.buf.data, x->rates.buf.len, err);
    }
    return x->rates.rc;
}

static void free_profile(void *state)
{
    struct stats *x = state;

    if (!x)
        return;
    ctr_buf_free(&x->rates.buf);
    ctr_buf_free(&x->slice);
    ctr_buf_free(&x->value);
    free(x);
}

const struct ctr_report_kind ctr_report_profile = {
    .name = "profile",
    .part = CTR_PART_STATISTICS,
    .columns = columns,
    .ncolumns = COLUMNS,
    .state = sizeof(struct stats),
    .begin = begin_profile,
    .batch = batch_profile,
    .end = end_profile,
    .free = free_profile,
};

/* ---- drift ---- */

enum {
    D_BY,
    D_WINDOW,
    D_NAME,
    D_TYPE,
    D_ROWS,
    D_REF_ROWS,
    D_PSI,
    D_PSI_LOW,
    D_PSI_HIGH,
    D_JS,
    D_WASSERSTEIN,
    D_NEW,
    D_VANISHED,
    D_NULLS,
    D_REF_NULLS,
    D_COLUMNS
};
static const struct ctr_report_column drift_columns[D_COLUMNS] = {
    { "by", CTR_CLASS_TEXT, false },           { "window", CTR_CLASS_TIME, false },
    { "name", CTR_CLASS_TEXT, true },          { "type", CTR_CLASS_TEXT, true },
    { "rows", CTR_CLASS_NUMBER, true },        { "ref_rows", CTR_CLASS_NUMBER, true },
    { "psi", CTR_CLASS_NUMBER, true },         { "psi_low", CTR_CLASS_NUMBER, true },
    { "psi_high", CTR_CLASS_NUMBER, true },    { "js", CTR_CLASS_NUMBER, true },
    { "wasserstein", CTR_CLASS_NUMBER, true }, { "new", CTR_CLASS_NUMBER, true },
    { "vanished", CTR_CLASS_NUMBER, true },    { "nulls", CTR_CLASS_NUMBER, true },
    { "ref_nulls", CTR_CLASS_NUMBER, true },
};
static const char *const drift_head[] = { "column",
                                          "shift",
                                          ">psi",
                                          ">low",
                                          ">high",
                                          ">js",
                                          ">wasserstein",
                                          ">new",
                                          ">vanished",
                                          ">nulls",
                                          ">reference nulls",
                                          ">rows",
                                          ">reference rows",
                                          "type",
                                          NULL };

struct drift {
    int at[D_COLUMNS];
    struct ctr_html_table t;
    struct ctr_buf slice;
};

static int begin_drift(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    struct drift *x = f->state;
    (void)s, (void)err;
    x->t = ctr_html_table(&f->html, "Columns beside those of the reference", drift_head);
    return 0;
}

/* The usual reading of a population stability index. */
static const char *shift_of(double psi)
{
    return isnan(psi) ? "not known" : psi < 0.1 ? "none" : psi < 0.25 ? "moderate" : "large";
}

static void put_drift(struct drift *x, const struct ctr_batch *b, int64_t i)
{
    static const int numbers[] = { D_PSI, D_PSI_LOW, D_PSI_HIGH, D_JS, D_WASSERSTEIN };
    static const int shares[] = { D_NEW, D_VANISHED, D_NULLS, D_REF_NULLS };
    const struct ctr_str type = ctr_report_str(b, x->at[D_TYPE], i);
    struct ctr_html_table *t = &x->t;

    if (!ctr_html_row(t))
        return;
    put_name(t, ctr_report_str(b, x->at[D_NAME], i), &x->slice);
    ctr_html_cell(t, "%s", shift_of(ctr_report_value(b, x->at[D_PSI], i)));
    for (size_t k = 0; k < CTR_COUNT(numbers); k++)
        ctr_html_cell(t, "%s", ctr_report_decimals(ctr_report_value(b, x->at[numbers[k]], i)).s);
    for (size_t k = 0; k < CTR_COUNT(shares); k++)
        ctr_html_cell(t, "%s", ctr_report_percent(ctr_report_value(b, x->at[shares[k]], i)).s);
    ctr_html_cell(t, "%s", ctr_report_number(ctr_report_value(b, x->at[D_ROWS], i)).s);
    ctr_html_cell(t, "%s", ctr_report_number(ctr_report_value(b, x->at[D_REF_ROWS], i)).s);
    ctr_html_text_cell(t, type.p ? type.p : "", type.n, 40);
}

static int batch_drift(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err)
{
    struct drift *x = f->state;

    for (int64_t i = 0; i < b->rows; i++) {
        const int rc = ctr_report_slice(b, x->at[D_BY], x->at[D_WINDOW], i, &x->slice, err);
        if (rc)
            return rc;
        put_drift(x, b, i);
    }
    return f->html.rc;
}

static int end_drift(struct ctr_report_file *f, struct ctr_err *err)
{
    struct drift *x = f->state;
    (void)err;

    ctr_html_table_end(&x->t);
    ctr_html_element(
        &f->html, "p",
        "psi is the population stability index with its 95% interval; below 0.1 a shift is usually taken for "
        "none, from 0.25 for large. js is the Jensen-Shannon divergence in bits.");
    return 0;
}

static void free_drift(void *state)
{
    struct drift *x = state;

    if (x)
        ctr_buf_free(&x->slice);
    free(x);
}

static const char *const drift_figures[] = { "drift", NULL };
const struct ctr_report_kind ctr_report_drift = {
    .name = "table of drift",
    .part = CTR_PART_DRIFT,
    .columns = drift_columns,
    .ncolumns = D_COLUMNS,
    .state = sizeof(struct drift),
    .begin = begin_drift,
    .batch = batch_drift,
    .end = end_drift,
    .free = free_drift,
    .figures = drift_figures,
};
