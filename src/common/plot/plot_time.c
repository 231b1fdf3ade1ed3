/* SPDX-License-Identifier: Apache-2.0
 *
 * What changes with time: a metric by window, the loss of a progressive file by rows, the click rate by hour. */
#include "common/plot/plot_draw.h"

#include <math.h>
#include <stdlib.h>

/* ---- a metric by window ---- */

enum { MOST_WINDOWS = 4096 };

struct window {
    double time, value, low, high, control;
};
struct windows {
    struct ctr_buf w; /* struct window */
    bool intervals, control;
};

static bool all_have(const struct ctr_plot *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (ctr_schema_find(ctr_batch_source_schema(&p->in[i].rows), name) < 0)
            return false;
    return true;
}

static int choose_metric(const struct ctr_plot *p, const char **metric, struct ctr_err *err)
{
    *metric = p->o->metric;
    for (int i = 0; !*metric && i < ctr_metrics_count; i++)
        if (all_have(p, ctr_metrics[i].name))
            *metric = ctr_metrics[i].name;
    if (!*metric)
        return ctr_fail(err, CTR_EUSAGE, "the inputs have no metric in common: %s writes them", p->kind->from);
    return 0;
}

/* Columns of a table of windows. */
struct window_columns {
    int by, time, value, low, high, control;
};

static int add_windows(struct windows *w, const struct window_columns *c, const struct ctr_batch *b,
                       struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        if (ctr_col_missing(&b->col[c->time], i) || (c->by >= 0 && !ctr_col_missing(&b->col[c->by], i)))
            continue; /* the whole time, or a slice */
        struct window *new = ctr_buf_extend(&w->w, 1, sizeof *new, &rc, err);
        if (!rc)
            *new = (struct window){ (double)ctr_col_i64(&b->col[c->time], i), ctr_plot_value(b, c->value, i),
                                    ctr_plot_value(b, c->low, i), ctr_plot_value(b, c->high, i),
                                    ctr_plot_value(b, c->control, i) };
    }
    if (!rc && w->w.len / sizeof(struct window) > MOST_WINDOWS)
        rc = ctr_fail(err, CTR_EDATA, "more than %d windows cannot be told apart in a figure: make longer ones",
                      MOST_WINDOWS);
    return rc;
}

static int check_windows(const struct ctr_plot *p, int i, const struct window_columns *c, struct ctr_err *err)
{
    const int number[] = { c->value, c->low, c->high, c->control };
    int rc = 0;
    if (ctr_batch_source_schema(&p->in[i].rows)->f[c->time].type != CTR_TIME)
        return ctr_fail(err, CTR_EUSAGE, "column window is no time: ctr-eval --window 1h --format stream writes one");
    for (size_t k = 0; !rc && k < CTR_COUNT(number); k++)
        rc = ctr_plot_check_number(p, i, number[k], "a metric", err);
    return rc;
}

static int read_windows(struct ctr_plot *p, int i, const char *metric, struct windows *w, struct ctr_err *err)
{
    struct window_columns c;
    const struct ctr_plot_text low = ctr_plot_text("%s_low", metric), high = ctr_plot_text("%s_high", metric),
                               control = ctr_plot_text("%s_control", metric);
    const struct ctr_plot_want want[] = {
        { CTR_ROLE_TIME, "window", true, &c.time }, { CTR_ROLE_SCORE, metric, true, &c.value },
        { CTR_ROLE_SCORE, "by", false, &c.by },     { CTR_ROLE_SCORE, low.s, false, &c.low },
        { CTR_ROLE_SCORE, high.s, false, &c.high }, { CTR_ROLE_SCORE, control.s, false, &c.control }
    };
    const struct ctr_batch *b;
    int rc = ctr_plot_columns(p, i, want, CTR_COUNT(want), err);
    if (!rc)
        rc = check_windows(p, i, &c, err);
    w->intervals = !rc && c.low >= 0 && c.high >= 0;
    w->control = !rc && c.control >= 0;
    while (!rc && (rc = ctr_plot_next(p, i, &b, err)) > 0)
        rc = add_windows(w, &c, b, err);
    if (w->w.len)
        qsort(w->w.data, w->w.len / sizeof(struct window), sizeof(struct window), ctr_by_f64);
    return ctr_plot_fail(p, i, rc, err);
}

static void widen(struct ctr_axis *a, double v)
{
    if (isfinite(v)) {
        a->low = fmin(a->low, v);
        a->high = fmax(a->high, v);
    }
}

static int put_windows(struct ctr_svg *g, int series, const char *name, const struct windows *w, bool of_control,
                       struct ctr_err *err)
{
    const struct window *v = (const struct window *)(const void *)w->w.data;
    const int64_t n = (int64_t)(w->w.len / sizeof *v);
    struct ctr_buf buf = { 0 };
    int rc = 0;
    double *x = ctr_buf_extend(&buf, 4 * n, sizeof *x, &rc, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        x[i] = v[i].time;
        x[n + i] = of_control ? v[i].control : v[i].value;
        x[2 * n + i] = v[i].low;
        x[3 * n + i] = v[i].high;
    }
    if (!rc && w->intervals && !of_control)
        ctr_svg_band(g, series, x, x + 2 * n, x + 3 * n, n);
    if (!rc)
        ctr_svg_line(g, series, x, x + n, n);
    for (int64_t i = 0; !rc && i < n; i++) {
        char time[CTR_NUM_MAX + 8] = "";
        struct ctr_plot_text interval = { "" };
        if (n > 200 && (i == 0 || !isnan(x[n + i - 1])) && (i == n - 1 || !isnan(x[n + i + 1])))
            continue; /* dots would be a line of their own; those between gaps have no other mark */
        ctr_time_iso(time, (int64_t)v[i].time);
        if (w->intervals && !of_control && !isnan(v[i].low))
            interval = ctr_plot_text(" (%.6g to %.6g)", v[i].low, v[i].high);
        ctr_svg_dot(g, series, x[i], x[n + i], NAN, NAN,
                    ctr_plot_text("%s%s%s: %.6g%s", name, *name ? ", " : "", time, x[n + i], interval.s).s);
    }
    ctr_buf_free(&buf);
    return rc;
}

static int draw_windows(struct ctr_plot *p, const char *metric, const struct windows *w, struct ctr_err *err)
{
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_axis x = { .low = INFINITY, .high = -INFINITY, .kind = CTR_AXIS_TIME, .exact = true };
    struct ctr_axis y = { .low = INFINITY, .high = -INFINITY };
    struct ctr_svg g;
    int64_t n = 0;
    for (int i = 0; i < p->n; i++) {
        const struct window *v = (const struct window *)(const void *)w[i].w.data;
        for (size_t k = 0; k < w[i].w.len / sizeof *v; k++, n++) {
            const double values[] = { v[k].value, v[k].low, v[k].high, v[k].control };
            widen(&x, v[k].time);
            for (size_t c = 0; c < CTR_COUNT(values); c++)
                widen(&y, values[c]);
        }
    }
    if (!n)
        return ctr_plot_empty(p, "no windows", err);
    if (y.low > y.high)
        return ctr_plot_empty(p, ctr_plot_text("%s is undefined in all windows", metric).s, err);
    const struct ctr_metric *known = ctr_metric_find(metric);
    const bool ideal = known && known->goal == CTR_GOAL_ONE, control = p->n == 1 && w->control;
    if (ideal)
        widen(&y, 1);
    if (control)
        p->legend[1] = "control";
    f.nlegend = p->n > 1 ? p->n : control ? 2 : 0;
    const struct ctr_plot_text title = ctr_plot_text("%s by time", metric);
    const struct ctr_plot_text label = ctr_plot_text("%s%s", metric, w->intervals ? ", with 95% intervals" : "");
    f.title = p->o->title ? p->o->title : title.s;
    f.x = x;
    f.x.label = "start of the window, UTC";
    f.y = y;
    f.y.label = label.s;
    ctr_svg_begin(&g, &f, p->svg, err);
    if (ideal)
        ctr_svg_rule(&g, g.x.low, 1, g.x.high, 1);
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++)
        rc = put_windows(&g, i, f.nlegend ? p->legend[i] : "", &w[i], false, err);
    if (!rc && control)
        rc = put_windows(&g, 1, "control", w, true, err);
    const int end = ctr_svg_end(&g);
    return rc ? rc : end;
}

static int draw_metric(struct ctr_plot *p, struct ctr_err *err)
{
    struct windows w[CTR_SVG_COLOURS] = { { { 0 }, false, false } };
    const char *metric = NULL;
    int rc = choose_metric(p, &metric, err);
    for (int i = 0; !rc && i < p->n; i++)
        rc = read_windows(p, i, metric, &w[i], err);
    if (!rc)
        rc = draw_windows(p, metric, w, err);
    for (int i = 0; i < p->n; i++)
        ctr_buf_free(&w[i].w);
    return rc;
}

/* ---- the loss by rows ---- */

enum { BLOCKS = 100 };

struct block {
    int64_t rows;
    double weight, loss;
};
/* Blocks of equal numbers of rows; when there are twice as many as wanted, two become one. */
struct blocks {
    struct block *b;
    int64_t n, cap, size; /* rows of a block */
    int64_t rows;
};

/* For example, with --bins 2 there is room for four blocks (cap); the rows of each, as rows come:
 *
 *     row 4    1 1 1 1
 *     row 5    2 2 1        no room: neighbours are joined, and blocks have two rows from here on
 *     row 8    2 2 2 2
 *     row 9    4 4 1
 *
 * So a long curve has three or four points, and memory does not grow with the rows. block_points gives each block's
 * mean loss, at its last row, and that of all rows up to there. */

static void add_loss(struct blocks *k, double loss, double weight)
{
    if (!k->n || k->b[k->n - 1].rows == k->size) {
        if (k->n == k->cap) {
            for (int64_t i = 0; i < k->n / 2; i++) {
                const struct block a = k->b[2 * i], z = k->b[2 * i + 1];
                k->b[i] = (struct block){ a.rows + z.rows, a.weight + z.weight, a.loss + z.loss };
            }
            k->n /= 2;
            k->size *= 2;
        }
        k->b[k->n++] = (struct block){ 0 };
    }
    struct block *last = &k->b[k->n - 1];
    last->rows++;
    last->weight += weight;
    last->loss += weight * loss;
    k->rows++;
}

/* The model of ctr-predict may have learned from the rows already. */
static int check_progressive(const struct ctr_schema *s, struct ctr_err *err)
{
    const char *pg = ctr_meta_get(&s->meta, CTR_META_PG), *program = "ctr-predict\t";
    for (; pg; pg = strchr(pg, '\n'), pg += pg != NULL)
        if (!strncmp(pg, program, strlen(program)))
            return ctr_fail(err, CTR_EUSAGE,
                            "these are scores of ctr-predict: a learning curve is of scores that were made before each "
                            "row was learned from, ctr-train --progressive");
    return 0;
}

static int read_losses(struct ctr_plot *p, int i, struct blocks *k, struct ctr_err *err)
{
    struct ctr_metric_columns c = { -1, -1, -1, -1, -1 };
    const struct ctr_plot_want want[] = { { CTR_ROLE_LABEL, NULL, true, &c.label },
                                          { CTR_ROLE_SCORE, NULL, true, &c.score },
                                          { CTR_ROLE_WEIGHT, NULL, false, &c.weight } };
    struct ctr_metric_rows rows = { 0 };
    struct ctr_buf buf = { 0 };
    const struct ctr_batch *b;
    int rc = ctr_plot_columns(p, i, want, CTR_COUNT(want), err);
    if (!rc)
        rc = ctr_metric_columns_check(&c, ctr_batch_source_schema(&p->in[i].rows), err);
    if (!rc && (rc = check_progressive(ctr_batch_source_schema(&p->in[i].rows), err)))
        rc = ctr_plot_fail(p, i, rc, err);
    k->cap = 2 * (p->o->bins ? p->o->bins : BLOCKS);
    k->size = 1;
    k->b = calloc((size_t)k->cap, sizeof *k->b);
    if (!rc && !k->b)
        rc = ctr_fail_nomem(err, (size_t)k->cap * sizeof *k->b);
    while (!rc && (rc = ctr_plot_next(p, i, &b, err)) > 0) {
        rc = ctr_metric_rows_load(&rows, &c, b, err);
        if (!rc)
            rc = ctr_buf_room(&buf, b->rows, sizeof(double), err);
        if (rc)
            break;
        double *loss = (double *)(void *)buf.data;
        ctr_log_losses(rows.score, rows.label, rows.n, loss);
        for (int64_t r = 0; r < rows.n; r++)
            add_loss(k, loss[r], rows.weight ? rows.weight[r] : 1);
    }
    ctr_buf_free(&buf);
    ctr_metric_rows_free(&rows);
    return ctr_plot_fail(p, i, rc, err);
}

/* The mean of each block at its last row, and of all rows up to there; one block is a line from its first row. */
static void block_points(const struct blocks *k, double *x, double *block, double *sofar)
{
    int64_t rows = 0;
    double weight = 0, loss = 0;
    for (int64_t i = 0; i < k->n; i++) {
        rows += k->b[i].rows;
        weight += k->b[i].weight;
        loss += k->b[i].loss;
        x[i] = (double)rows;
        block[i] = k->b[i].weight > 0 ? k->b[i].loss / k->b[i].weight : NAN;
        sofar[i] = weight > 0 ? loss / weight : NAN;
    }
}

static int draw_blocks(struct ctr_plot *p, const struct blocks *k, struct ctr_err *err)
{
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_plot_text subtitle = { "" };
    struct ctr_buf points[CTR_SVG_COLOURS] = { { 0 } };
    struct ctr_svg g;
    int rc = 0;
    f.x = (struct ctr_axis){ .label = "rows", .exact = true };
    f.y = (struct ctr_axis){ .label = "log loss of a block of rows", .low = INFINITY, .high = -INFINITY };
    for (int i = 0; !rc && i < p->n; i++) {
        const int64_t n = k[i].n;
        double *x = ctr_buf_extend(&points[i], 3 * n, sizeof *x, &rc, err);
        if (rc)
            break;
        block_points(&k[i], x, x + n, x + 2 * n);
        f.x.high = fmax(f.x.high, (double)k[i].rows);
        for (int64_t b = n; b < (p->n == 1 ? 3 : 2) * n; b++)
            widen(&f.y, x[b]);
    }
    if (!rc && f.y.low > f.y.high) {
        rc = ctr_plot_empty(p, f.x.high > 0 ? "all weights are 0" : "no rows", err);
    } else if (!rc) {
        if (p->n == 1) {
            p->legend[0] = "a block of rows";
            p->legend[1] = "all rows so far";
            f.nlegend = 2;
            f.y.label = "log loss";
            subtitle = ctr_plot_text("%s rows, blocks of %s", ctr_plot_count((double)k->rows).s,
                                     ctr_plot_count((double)k->size).s);
            f.subtitle = subtitle.s;
        }
        ctr_svg_begin(&g, &f, p->svg, err);
        for (int i = 0; i < p->n; i++) {
            const double *x = (const double *)(const void *)points[i].data;
            ctr_svg_line(&g, i, x, x + k[i].n, k[i].n);
            if (k[i].n == 1)
                ctr_svg_dot(&g, i, x[0], x[1], NAN, NAN, NULL);
            if (p->n == 1)
                ctr_svg_line(&g, 1, x, x + 2 * k[i].n, k[i].n);
        }
        rc = ctr_svg_end(&g);
    }
    for (int i = 0; i < p->n; i++)
        ctr_buf_free(&points[i]);
    return rc;
}

static int draw_learning(struct ctr_plot *p, struct ctr_err *err)
{
    struct blocks k[CTR_SVG_COLOURS] = { { 0 } };
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++)
        rc = read_losses(p, i, &k[i], err);
    if (!rc)
        rc = draw_blocks(p, k, err);
    for (int i = 0; i < p->n; i++)
        free(k[i].b);
    return rc;
}

/* ---- the click rate by hour ---- */

enum { HOURS = 24 };
struct hours {
    double weight[HOURS], squares[HOURS], clicks[HOURS], scores[HOURS];
    int64_t rows[HOURS], all;
    bool scored;
};

static int add_hours(struct hours *h, const struct ctr_metric_columns *c, const struct ctr_batch *b,
                     struct ctr_buf buf[3], struct ctr_err *err)
{
    const double *label, *weight = NULL, *score = NULL;
    const struct ctr_field *f = b->schema->f;
    int rc = ctr_eval_check_time(b, c->time, err);
    if (!rc)
        rc = ctr_col_checked(&b->col[c->label], CTR_ROLE_LABEL, f[c->label].name, b->first_row, &buf[0], &label, err);
    if (!rc && c->weight >= 0)
        rc = ctr_col_checked(&b->col[c->weight], CTR_ROLE_WEIGHT, f[c->weight].name, b->first_row, &buf[1], &weight,
                             err);
    if (!rc && c->score >= 0)
        rc = ctr_col_checked(&b->col[c->score], CTR_ROLE_SCORE, f[c->score].name, b->first_row, &buf[2], &score, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const int64_t ms = ctr_col_i64(&b->col[c->time], i), day = 24 * 3600 * 1000;
        const int hour = (int)((ms % day + day) % day / (3600 * 1000));
        const double w = weight ? weight[i] : 1;
        h->rows[hour]++;
        h->all++;
        h->weight[hour] += w;
        h->squares[hour] += w * w;
        h->clicks[hour] += w * label[i];
        h->scores[hour] += score ? w * score[i] : 0;
    }
    return rc;
}

static int read_hours(struct ctr_plot *p, struct hours *h, struct ctr_err *err)
{
    struct ctr_metric_columns c = { -1, -1, -1, -1, -1 };
    const struct ctr_plot_want want[] = { { CTR_ROLE_LABEL, NULL, true, &c.label },
                                          { CTR_ROLE_TIME, NULL, true, &c.time },
                                          { CTR_ROLE_WEIGHT, NULL, false, &c.weight },
                                          { CTR_ROLE_SCORE, NULL, false, &c.score } };
    struct ctr_buf buf[3] = { { 0 } };
    const struct ctr_batch *b;
    int rc = ctr_plot_columns(p, 0, want, CTR_COUNT(want), err);
    if (!rc)
        rc = ctr_metric_columns_check(&c, ctr_batch_source_schema(&p->in[0].rows), err);
    h->scored = c.score >= 0;
    while (!rc && (rc = ctr_plot_next(p, 0, &b, err)) > 0)
        rc = add_hours(h, &c, b, buf, err);
    for (size_t i = 0; i < CTR_COUNT(buf); i++)
        ctr_buf_free(&buf[i]);
    return ctr_plot_fail(p, 0, rc, err);
}

static void put_hour(struct ctr_svg *g, const struct hours *h, int hour, double low, double high)
{
    const double rate = h->clicks[hour] / h->weight[hour], score = h->scores[hour] / h->weight[hour];
    struct ctr_plot_text scored = { "" };
    if (h->scored)
        scored = ctr_plot_text(", mean score %s", ctr_mean_text(score).s);
    const struct ctr_plot_text tip = ctr_plot_text(
        "%02d:00: click rate %s (%s to %s)%s, %s row%s", hour, ctr_mean_text(rate).s, ctr_mean_text(low).s,
        ctr_mean_text(high).s, scored.s, ctr_plot_count((double)h->rows[hour]).s, CTR_S(h->rows[hour]));
    ctr_svg_bar(g, 0, hour + .1, hour + .9, 0, rate, false, tip.s);
    ctr_svg_whisker(g, hour + .5, hour + .5, low, high);
    if (h->scored)
        ctr_svg_dot(g, 1, hour + .5, score, NAN, NAN, tip.s);
}

static int draw_hours(struct ctr_plot *p, struct ctr_err *err)
{
    struct hours h = { 0 };
    double low[HOURS], high[HOURS], most = 0, weight = 0, clicks = 0;
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_svg g;
    int rc = read_hours(p, &h, err);
    for (int i = 0; i < HOURS; i++) {
        low[i] = high[i] = NAN;
        if (!(h.weight[i] > 0))
            continue;
        ctr_rate_interval(h.clicks[i] / h.weight[i], h.weight[i] * h.weight[i] / h.squares[i], &low[i], &high[i]);
        most = fmax(most, fmax(high[i], h.scores[i] / h.weight[i]));
        weight += h.weight[i];
        clicks += h.clicks[i];
    }
    if (!rc && !(weight > 0))
        return ctr_plot_empty(p, h.all ? "all weights are 0" : "no rows", err);
    if (rc)
        return rc;
    const struct ctr_plot_text subtitle = ctr_plot_text("%s row%s, click rate %s", ctr_plot_count((double)h.all).s,
                                                        CTR_S(h.all), ctr_mean_text(clicks / weight).s);
    p->legend[0] = "click rate";
    p->legend[1] = "mean score";
    f.nlegend = h.scored ? 2 : 0;
    f.subtitle = subtitle.s;
    f.x = (struct ctr_axis){ .label = "hour of the day, UTC", .high = HOURS, .exact = true };
    f.y = (struct ctr_axis){ .label = "click rate, with 95% intervals", .high = most };
    ctr_svg_begin(&g, &f, p->svg, err);
    ctr_svg_rule(&g, 0, clicks / weight, HOURS, clicks / weight);
    for (int i = 0; i < HOURS; i++)
        if (h.weight[i] > 0)
            put_hour(&g, &h, i, low[i], high[i]);
    return ctr_svg_end(&g);
}

static const char *const metric_columns[] = { "window", NULL };
enum { SCORED = 1 << CTR_ROLE_LABEL | 1 << CTR_ROLE_SCORE };

static bool has_metric(const struct ctr_schema *s, const struct ctr_plot_opts *o)
{
    for (int i = 0; !o->metric && i < ctr_metrics_count; i++)
        if (ctr_schema_find(s, ctr_metrics[i].name) >= 0)
            return true;
    return o->metric && ctr_schema_find(s, o->metric) >= 0;
}

const struct ctr_plot_kind ctr_plot_metric = { .name = "metric",
                                               .summary = "a metric by window of time, by model, with intervals",
                                               .title = "Metric by time",
                                               .columns = metric_columns,
                                               .from = "ctr-eval --window 1h --format stream",
                                               .inputs = CTR_SVG_COLOURS,
                                               .fits = has_metric,
                                               .draw = draw_metric };
const struct ctr_plot_kind ctr_plot_learning = { .name = "learning",
                                                 .summary = "log loss by rows learned from, of progressive predictions",
                                                 .title = "Learning curve",
                                                 .roles = SCORED,
                                                 .also = 1 << CTR_ROLE_WEIGHT,
                                                 .inputs = CTR_SVG_COLOURS,
                                                 .draw = draw_learning };
const struct ctr_plot_kind ctr_plot_hours = { .name = "hours",
                                              .summary = "click rate by hour of the day, with intervals",
                                              .title = "Click rate by hour",
                                              .roles = 1 << CTR_ROLE_LABEL | 1 << CTR_ROLE_TIME,
                                              .also = 1 << CTR_ROLE_SCORE | 1 << CTR_ROLE_WEIGHT,
                                              .inputs = 1,
                                              .draw = draw_hours };
