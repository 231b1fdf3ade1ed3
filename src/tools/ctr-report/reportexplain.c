/* SPDX-License-Identifier: Apache-2.0
 *
 * reportexplain: what moves the scores of many rows, from the rows that ctr-model explains. Of each table (of a deep
 * model, each column) the contributions within a row are added up; the page has their means, and no row. */
#include "tools/ctr-report/report.h"

#include <math.h>
#include <stdlib.h>

enum { ROW, TABLE, CONTRIBUTION, COLUMNS };
enum { MOST_TABLES = 4096 };
static const struct ctr_report_column columns[COLUMNS] = {
    { "row", CTR_CLASS_NUMBER, true },
    { "table", CTR_CLASS_TEXT, true },
    { "contribution", CTR_CLASS_NUMBER, true },
};
static const char *const head[] = { "table", ">mean magnitude", ">mean", ">rows", NULL };

struct sums {
    double now;       /* of the row at hand */
    double size, sum; /* of |contributions| of rows, and of contributions */
    int64_t rows;     /* that have the table */
    bool seen;        /* in the row at hand */
};

struct explained {
    int at[COLUMNS];
    struct ctr_strs name;
    struct sums *of;
    int cap;
    int64_t row, rows;
};

static void end_row(struct explained *x)
{
    for (int i = 0; i < x->name.n; i++) {
        struct sums *s = &x->of[i];
        s->size += fabs(s->now);
        s->sum += s->now;
        s->rows += s->seen;
        s->now = 0;
        s->seen = false;
    }
}

static int table_of(struct explained *x, struct ctr_str name, struct ctr_err *err)
{
    int i = ctr_strs_find_n(&x->name, name.p, name.n), rc;

    if (i >= 0)
        return i;
    if (x->name.n >= MOST_TABLES)
        return ctr_fail(err, CTR_EDATA, "it has more than %d tables", MOST_TABLES);
    if ((rc = ctr_array_grow(&x->of, x->name.n, &x->cap, sizeof *x->of, err)))
        return rc;
    x->of[x->name.n] = (struct sums){ 0 };
    return (rc = ctr_strs_add(&x->name, name.p, name.n, err)) ? rc : x->name.n - 1;
}

static int batch_explained(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err)
{
    struct explained *x = f->state;

    for (int64_t i = 0; i < b->rows; i++) {
        const struct ctr_str table = ctr_report_str(b, x->at[TABLE], i);
        const double row = ctr_report_value(b, x->at[ROW], i), value = ctr_report_value(b, x->at[CONTRIBUTION], i);
        if (!table.p || !isfinite(value) || isnan(row))
            return ctr_fail(err, CTR_EDATA, "row %lld has no table or no contribution: it is not of ctr-model explain",
                            (long long)(b->first_row + i + 1));
        if (!x->rows || (int64_t)row != x->row) {
            end_row(x);
            x->row = (int64_t)row;
            x->rows++;
        }
        const int t = table_of(x, table, err);
        if (t < 0)
            return t;
        x->of[t].now += value;
        x->of[t].seen = true;
    }
    return 0;
}

struct order {
    double size;
    int table;
};

static int by_size(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    return x->size != y->size ? (x->size < y->size) - (x->size > y->size)
                              : (x->table > y->table) - (x->table < y->table);
}

static int end_explained(struct ctr_report_file *f, struct ctr_err *err)
{
    struct explained *x = f->state;
    struct order *order = calloc((size_t)x->name.n + 1, sizeof *order);

    if (!order)
        return ctr_fail_nomem(err, (size_t)x->name.n * sizeof *order);
    end_row(x);
    for (int i = 0; i < x->name.n; i++)
        order[i] = (struct order){ x->of[i].size, i };
    qsort(order, (size_t)x->name.n, sizeof *order, by_size);
    struct ctr_html_table t = ctr_html_table(&f->html, "Contributions to the log odds", head);
    for (int i = 0; i < x->name.n; i++) {
        const struct sums *s = &x->of[order[i].table];
        const char *name = x->name.s[order[i].table];
        if (!ctr_html_row(&t))
            continue;
        ctr_html_text_cell(&t, name, strlen(name), 60);
        ctr_html_cell(&t, "%.6f", s->size / (double)x->rows);
        ctr_html_cell(&t, "%+.6f", s->sum / (double)x->rows);
        ctr_html_cell(&t, "%lld", (long long)s->rows);
    }
    ctr_html_table_end(&t);
    ctr_html_markup(&f->html, "<p>");
    ctr_html_format(
        &f->html,
        "Means over %lld explained row%s. A table that a row does not have contributes 0 to it; (rest) is what "
        "ctr-model left out, which -n 0 shows, and (residual) what the integral of a deep model does not account for.",
        (long long)x->rows, CTR_S(x->rows));
    ctr_html_markup(&f->html, "</p>\n");
    free(order);
    return 0;
}

static void free_explained(void *state)
{
    struct explained *x = state;

    if (x) {
        ctr_strs_free(&x->name);
        free(x->of);
    }
    free(x);
}

static const char *const figures[] = { "importance", NULL };
const struct ctr_report_kind ctr_report_explained = {
    .name = "stream of explained rows",
    .part = CTR_PART_WEIGHTS,
    .columns = columns,
    .ncolumns = COLUMNS,
    .state = sizeof(struct explained),
    .batch = batch_explained,
    .end = end_explained,
    .free = free_explained,
    .figures = figures,
};
