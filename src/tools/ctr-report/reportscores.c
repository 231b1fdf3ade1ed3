/* SPDX-License-Identifier: Apache-2.0
 *
 * reportscores: how good scores are: of rows with label and score, by the metrics of the library; and the tables that
 * ctr-eval made by slice. */
#include "tools/ctr-report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metric/metric.h"

enum { BINS = 10 };

/* ---- scores ---- */

struct scores {
    struct ctr_eval *e;
    int *metric, n;
    bool users;
};

static int score_columns(const struct ctr_schema *s, struct ctr_metric_columns *c)
{
    c->label = ctr_schema_role(s, CTR_ROLE_LABEL);
    c->score = ctr_schema_role(s, CTR_ROLE_SCORE);
    c->weight = ctr_schema_role(s, CTR_ROLE_WEIGHT);
    c->user = ctr_schema_role(s, CTR_ROLE_USER);
    c->time = -1;
    return c->label >= 0 && c->score >= 0;
}

static bool is_scores(const struct ctr_schema *s)
{
    struct ctr_metric_columns c;
    return score_columns(s, &c);
}

/* Scores that ctr-train wrote before it learned from their rows. */
static bool is_progressive(const struct ctr_schema *s)
{
    const char *pg = ctr_meta_get(&s->meta, CTR_META_PG), *last = pg ? strrchr(pg, '\n') : NULL;
    return is_scores(s) && pg && !strncmp(last ? last + 1 : pg, "ctr-train\t", strlen("ctr-train\t"));
}

static int begin_scores(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_eval_opts o = { .keep = true, .memory_bytes = f->report->memory_bytes };
    struct scores *x = f->state;

    score_columns(s, &o.columns);
    x->users = o.columns.user >= 0;
    int rc = ctr_metric_columns_check(&o.columns, s, err);
    if (!rc)
        rc = ctr_metric_list(NULL, x->users, &x->metric, &x->n, err);
    for (int i = 0; !rc && i < x->n; i++)
        o.needs |= ctr_metrics[x->metric[i]].needs;
    return rc ? rc : ctr_eval_new(&x->e, s, &o, err);
}

static int batch_scores(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_eval_batch(((struct scores *)f->state)->e, b, NULL, err);
}

static const char *const metric_head[] = { "metric", ">value", "what it is", NULL };
static const char *const bin_head[] = { "scores from", ">to", ">weight", ">mean score", ">click rate", NULL };

static void put_metrics(struct ctr_report_file *f, const struct scores *x, const struct ctr_metric_sums *sums)
{
    struct ctr_html_table t = ctr_html_table(&f->html, "Metrics", metric_head);
    const double count[] = { (double)sums->rows, sums->label, sums->label / sums->weight };
    static const char *const name[] = { "rows", "positives", "click rate" };
    static const char *const help[] = { "impressions", "sum of weight times label", "mean label" };

    for (size_t i = 0; i < CTR_COUNT(count); i++)
        if (ctr_html_row(&t)) {
            ctr_html_cell(&t, "%s", name[i]);
            ctr_html_cell(&t, "%s", i < 2 ? ctr_report_number(count[i]).s : ctr_report_metric(count[i]).s);
            ctr_html_cell(&t, "%s", help[i]);
        }
    for (int i = 0; i < x->n; i++)
        if (ctr_html_row(&t)) {
            const struct ctr_metric *m = &ctr_metrics[x->metric[i]];
            ctr_html_cell(&t, "%s", m->name);
            ctr_html_cell(&t, "%s", ctr_report_metric(m->value(sums)).s);
            ctr_html_cell(&t, "%s", m->help);
        }
    ctr_html_table_end(&t);
}

static int put_bins(struct ctr_report_file *f, const struct scores *x, struct ctr_err *err)
{
    struct ctr_reliability_bin bin[BINS];
    const int n = ctr_eval_reliability(x->e, bin, BINS, err);

    if (n <= 0)
        return n;
    struct ctr_html_table t = ctr_html_table(&f->html, "Reliability: bins of equal weight by score", bin_head);
    for (int i = 0; i < n; i++)
        if (ctr_html_row(&t)) {
            ctr_html_cell(&t, "%s", ctr_report_metric(bin[i].low).s);
            ctr_html_cell(&t, "%s", ctr_report_metric(bin[i].high).s);
            ctr_html_cell(&t, "%s", ctr_report_number(bin[i].weight).s);
            ctr_html_cell(&t, "%s", ctr_report_metric(bin[i].score).s);
            ctr_html_cell(&t, "%s", ctr_report_metric(bin[i].label).s);
        }
    ctr_html_table_end(&t);
    return 0;
}

/* The value of a metric that was computed, by name. */
static double value_of(const struct scores *x, const struct ctr_metric_sums *sums, const char *name)
{
    for (int i = 0; i < x->n; i++)
        if (!strcmp(ctr_metrics[x->metric[i]].name, name))
            return ctr_metrics[x->metric[i]].value(sums);
    return NAN;
}

static int end_scores(struct ctr_report_file *f, struct ctr_err *err)
{
    struct scores *x = f->state;
    double brief[CTR_BRIEF];
    int rc = ctr_eval_finish(x->e, f->report->pool, err);

    if (rc)
        return rc;
    const struct ctr_metric_sums *sums = &ctr_eval_slice(x->e, 0)->sums[0];
    brief[0] = (double)sums->rows;
    brief[1] = sums->label / sums->weight;
    for (int i = 2; i < CTR_BRIEF; i++)
        brief[i] = value_of(x, sums, ctr_report_brief_head[i + 1] + 1);
    ctr_report_brief(f, brief);
    if (f->kind == &ctr_report_progressive)
        ctr_html_element(&f->html, "p", "Each row was scored before the model learned from it.");
    put_metrics(f, x, sums);
    if (!(sums->label > 0 && sums->label < sums->weight))
        ctr_html_element(&f->html, "p",
                         "It has no rows, or labels of one class: metrics that need both classes are not defined.");
    if (ctr_eval_without_user(x->e)) {
        ctr_html_markup(&f->html, "<p>");
        ctr_html_format(&f->html, "%lld rows have no user: gauc leaves them out.",
                        (long long)ctr_eval_without_user(x->e));
        ctr_html_markup(&f->html, "</p>\n");
    }
    return put_bins(f, x, err);
}

static void free_scores(void *state)
{
    struct scores *x = state;

    if (x) {
        ctr_eval_free(x->e);
        free(x->metric);
    }
    free(x);
}

static const char *const score_figures[] = { "reliability", "roc", "lift", "scores", NULL };
static const char *const progressive_figures[] = { "learning", "reliability", NULL };
#define SCORES                                                                                                         \
    .part = CTR_PART_EVALUATION, .state = sizeof(struct scores), .begin = begin_scores, .batch = batch_scores,         \
    .end = end_scores, .free = free_scores
const struct ctr_report_kind ctr_report_scores = {
    .name = "stream of scores", .is = is_scores, SCORES, .figures = score_figures
};
const struct ctr_report_kind ctr_report_progressive = {
    .name = "stream of progressive scores", .is = is_progressive, SCORES, .figures = progressive_figures
};

/* ---- tables of ctr-eval ---- */

enum { BY, SLICE, WINDOW, ROWS, WEIGHT, POSITIVES, COLUMNS };
static const struct ctr_report_column columns[COLUMNS] = {
    { "by", CTR_CLASS_TEXT, true },     { "slice", CTR_CLASS_TEXT, true },    { "window", CTR_CLASS_TIME, false },
    { "rows", CTR_CLASS_NUMBER, true }, { "weight", CTR_CLASS_NUMBER, true }, { "positives", CTR_CLASS_NUMBER, true },
};
enum { VALUE, LOW, HIGH, CONTROL, CHANGE, CHANGE_LOW, CHANGE_HIGH }; /* the order of ctr_eval_part */
enum { METRICS = 32 };

struct table {
    int at[COLUMNS];
    int metric[METRICS][CTR_EVAL_PARTS]; /* columns, -1: not there */
    int which[METRICS], n;               /* those that are there */
    char name[METRICS][64];              /* heads */
    const char *head[8 + 2 * METRICS];
    struct ctr_html_table t;
    bool begun;
};

static void find_metrics(struct table *x, const struct ctr_schema *s)
{
    for (int m = 0; m < ctr_metrics_count && m < METRICS; m++) {
        for (int p = 0; p < CTR_EVAL_PARTS; p++) {
            char name[96];
            snprintf(name, sizeof name, "%s%s", ctr_metrics[m].name, ctr_eval_part(p));
            x->metric[m][p] = ctr_schema_find(s, name);
            if (x->metric[m][p] >= 0 && !ctr_type_number(s->f[x->metric[m][p]].type))
                x->metric[m][p] = -1;
        }
        if (x->metric[m][VALUE] >= 0)
            x->which[x->n++] = m;
    }
}

static void make_head(struct table *x)
{
    int n = 0;

    x->head[n++] = "slice";
    if (x->at[WINDOW] >= 0)
        x->head[n++] = "window";
    x->head[n++] = ">rows";
    x->head[n++] = ">positives";
    for (int i = 0; i < x->n; i++) {
        snprintf(x->name[i], sizeof x->name[i], ">%s", ctr_metrics[x->which[i]].name);
        x->head[n++] = x->name[i];
        if (x->metric[x->which[i]][CHANGE] >= 0)
            x->head[n++] = ">change_%";
    }
    x->head[n] = NULL;
}

static int begin_table(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    struct table *x = f->state;
    (void)err;
    find_metrics(x, s);
    make_head(x);
    x->t = ctr_html_table(&f->html, "By slice", x->head);
    return 0;
}

/* A value, and its interval where there is one. */
static void put_value(struct table *x, const struct ctr_batch *b, const int *column, int value, int low, int high,
                      int64_t i)
{
    const double v = ctr_report_value(b, column[value], i), from = ctr_report_value(b, column[low], i),
                 to = ctr_report_value(b, column[high], i);
    const bool percent = value == CHANGE;
    struct ctr_html_table *t = &x->t;

    ctr_html_cell_begin(t);
    if (percent && !isnan(v))
        ctr_html_format(t->h, "%+.3f", v);
    else
        ctr_html_format(t->h, "%s", ctr_report_metric(v).s);
    if (!isnan(from) && !isnan(to)) {
        ctr_html_markup(t->h, " <small>");
        if (percent)
            ctr_html_format(t->h, "[%+.3f, %+.3f]", from, to);
        else
            ctr_html_format(t->h, "[%s, %s]", ctr_report_metric(from).s, ctr_report_metric(to).s);
        ctr_html_markup(t->h, "</small>");
    }
    ctr_html_cell_end(t);
}

static void put_row(struct table *x, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_str by = ctr_report_str(b, x->at[BY], i), slice = ctr_report_str(b, x->at[SLICE], i);
    struct ctr_html_table *t = &x->t;

    if (!ctr_html_row(t))
        return;
    ctr_html_cell_begin(t);
    ctr_html_cut(t->h, by.p ? by.p : "total", by.p ? by.n : 5, 30);
    if (by.p) {
        ctr_html_markup(t->h, "=");
        ctr_html_cut(t->h, slice.p ? slice.p : "", slice.n, 40);
    }
    ctr_html_cell_end(t);
    if (x->at[WINDOW] >= 0) {
        const double window = ctr_report_value(b, x->at[WINDOW], i);
        ctr_html_cell(t, "%s", isnan(window) ? "all" : ctr_report_time(window).s);
    }
    ctr_html_cell(t, "%s", ctr_report_number(ctr_report_value(b, x->at[ROWS], i)).s);
    ctr_html_cell(t, "%s", ctr_report_number(ctr_report_value(b, x->at[POSITIVES], i)).s);
    for (int k = 0; k < x->n; k++) {
        const int *column = x->metric[x->which[k]];
        put_value(x, b, column, VALUE, LOW, HIGH, i);
        if (column[CHANGE] >= 0)
            put_value(x, b, column, CHANGE, CHANGE_LOW, CHANGE_HIGH, i);
    }
}

/* The line of all rows is also one of the first table. */
static void put_total(struct ctr_report_file *f, const struct table *x, const struct ctr_batch *b, int64_t i)
{
    double brief[CTR_BRIEF] = { ctr_report_value(b, x->at[ROWS], i),
                                ctr_report_value(b, x->at[POSITIVES], i) / ctr_report_value(b, x->at[WEIGHT], i) };

    for (int k = 2; k < CTR_BRIEF; k++) {
        const struct ctr_metric *m = ctr_metric_find(ctr_report_brief_head[k + 1] + 1);
        brief[k] = m && m - ctr_metrics < METRICS ? ctr_report_value(b, x->metric[m - ctr_metrics][VALUE], i) : NAN;
    }
    ctr_report_brief(f, brief);
}

static int batch_table(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err)
{
    struct table *x = f->state;
    (void)err;

    for (int64_t i = 0; i < b->rows; i++) {
        const bool total = !ctr_report_str(b, x->at[BY], i).p && isnan(ctr_report_value(b, x->at[WINDOW], i));
        put_row(x, b, i);
        if (total && !x->begun)
            put_total(f, x, b, i);
        x->begun |= total;
    }
    return f->html.rc;
}

static int end_table(struct ctr_report_file *f, struct ctr_err *err)
{
    struct table *x = f->state;
    (void)err;

    ctr_html_table_end(&x->t);
    for (int i = 0; i < x->n; i++)
        if (x->metric[x->which[i]][LOW] >= 0) {
            ctr_html_element(&f->html, "p", "In brackets: 95% intervals.");
            break;
        }
    return 0;
}

static const char *const table_figures[] = { "metric", NULL };
const struct ctr_report_kind ctr_report_eval = {
    .name = "table of ctr-eval",
    .part = CTR_PART_EVALUATION,
    .columns = columns,
    .ncolumns = COLUMNS,
    .state = sizeof(struct table),
    .begin = begin_table,
    .batch = batch_table,
    .end = end_table,
    .figures = table_figures,
};
