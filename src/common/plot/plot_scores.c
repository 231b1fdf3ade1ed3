/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds that need the rows sorted by score: reliability, and the curves ROC, precision-recall and lift. One input is in
 * memory at a time; of a curve the points that lie apart in the figure are kept. */
#include "common/plot/plot_draw.h"

#include <math.h>
#include <stdlib.h>

/* The rows of input i, sorted by score. */
static int evaluate(struct ctr_plot *p, int i, struct ctr_eval **e, struct ctr_err *err)
{
    struct ctr_eval_opts o = {
        .columns = { -1, -1, -1, -1, -1 }, .needs = CTR_NEED_RANKS, .keep = true, .memory_bytes = p->o->memory_bytes
    };
    const struct ctr_plot_want want[] = { { CTR_ROLE_LABEL, NULL, true, &o.columns.label },
                                          { CTR_ROLE_SCORE, NULL, true, &o.columns.score },
                                          { CTR_ROLE_WEIGHT, NULL, false, &o.columns.weight } };
    const struct ctr_batch *b;
    int rc = ctr_plot_columns(p, i, want, CTR_COUNT(want), err);
    if (!rc)
        rc = ctr_metric_columns_check(&o.columns, ctr_batch_source_schema(&p->in[i].rows), err);
    if (!rc)
        rc = ctr_eval_new(e, ctr_batch_source_schema(&p->in[i].rows), &o, err);
    while (!rc && (rc = ctr_plot_next(p, i, &b, err)) > 0)
        rc = ctr_eval_batch(*e, b, NULL, err);
    if (!rc)
        rc = ctr_eval_finish(*e, p->o->pool, err);
    if (!rc && !isfinite(ctr_eval_slice(*e, 0)->sums[0].weight))
        rc = ctr_fail(err, CTR_EDATA, "the weights add up to more than a double holds: divide them by a constant");
    return ctr_plot_fail(p, i, rc, err);
}

static const struct ctr_metric_sums *sums_of(const struct ctr_eval *e)
{
    return ctr_eval_slice(e, 0)->sums;
}

static struct ctr_plot_text rows_text(const struct ctr_metric_sums *s)
{
    const double rate = s->label / s->weight;
    return ctr_plot_text("%s row%s, click rate %s", ctr_plot_count((double)s->rows).s, CTR_S(s->rows),
                         isnan(rate) ? "undefined" : ctr_mean_text(rate).s);
}

/* ---- reliability ---- */

struct bins {
    struct ctr_reliability_bin *bin;
    int n;
    struct ctr_metric_sums sums;
};

static int read_bins(struct ctr_plot *p, int i, int64_t want, struct bins *b, struct ctr_err *err)
{
    struct ctr_eval *e = NULL;
    int rc = evaluate(p, i, &e, err);
    b->bin = calloc((size_t)want, sizeof *b->bin);
    if (!rc && !b->bin)
        rc = ctr_fail_nomem(err, (size_t)want * sizeof *b->bin);
    if (!rc && (rc = ctr_eval_reliability(e, b->bin, (int)want, err)) > 0) {
        b->n = rc;
        rc = 0;
    }
    if (!rc)
        b->sums = *sums_of(e);
    ctr_eval_free(e);
    return rc;
}

static void bin_interval(const struct ctr_reliability_bin *b, double *low, double *high)
{
    ctr_rate_interval(b->label, b->weight * b->weight / b->squares, low, high);
}

static int put_bins(struct ctr_svg *g, int series, const struct bins *b, struct ctr_err *err)
{
    struct ctr_buf line = { 0 };
    int rc = 0;
    double *x = ctr_buf_extend(&line, b->n, sizeof *x, &rc, err);
    double *y = ctr_buf_extend(&line, b->n, sizeof *y, &rc, err);
    x = (double *)(void *)line.data;
    for (int i = 0; !rc && i < b->n; i++) {
        x[i] = b->bin[i].score;
        y[i] = b->bin[i].label;
    }
    if (!rc)
        ctr_svg_line(g, series, x, y, b->n);
    for (int i = 0; !rc && i < b->n; i++) {
        const struct ctr_reliability_bin *bin = &b->bin[i];
        double low, high;
        bin_interval(bin, &low, &high);
        ctr_svg_dot(g, series, bin->score, bin->label, low, high,
                    ctr_plot_text("scores %s to %s: mean score %s, click rate %s (%s to %s), weight %s",
                                  ctr_mean_text(bin->low).s, ctr_mean_text(bin->high).s, ctr_mean_text(bin->score).s,
                                  ctr_mean_text(bin->label).s, ctr_mean_text(low).s, ctr_mean_text(high).s,
                                  ctr_plot_count(bin->weight).s)
                        .s);
    }
    ctr_buf_free(&line);
    return rc;
}

static int draw_bins(struct ctr_plot *p, const struct bins *b, struct ctr_err *err)
{
    struct ctr_svg g;
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_plot_text subtitle = { "" };
    double most = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < b[i].n; k++) {
            double low, high;
            bin_interval(&b[i].bin[k], &low, &high);
            most = fmax(most, fmax(high, b[i].bin[k].score));
        }
    if (p->n == 1) {
        const struct ctr_metric_sums *s = &b->sums;
        struct ctr_plot_text calibration = { "undefined" };
        if (s->label > 0)
            calibration = ctr_plot_text("%.4f", s->score / s->label);
        subtitle = ctr_plot_text("%s, calibration %s, %d bins of equal weight", rows_text(s).s, calibration.s, b->n);
        f.subtitle = subtitle.s;
    }
    f.x = (struct ctr_axis){ .label = "mean score", .high = most };
    f.y = (struct ctr_axis){ .label = "click rate, with 95% intervals", .high = most };
    ctr_svg_begin(&g, &f, p->svg, err);
    const double end = fmin(g.x.high, g.y.high);
    ctr_svg_rule(&g, 0, 0, end, end);
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++)
        rc = put_bins(&g, i, &b[i], err);
    const int end_rc = ctr_svg_end(&g);
    return rc ? rc : end_rc;
}

static int draw_reliability(struct ctr_plot *p, struct ctr_err *err)
{
    struct bins b[CTR_SVG_COLOURS] = { { 0 } };
    const int64_t want = p->o->bins ? p->o->bins : 20;
    double weight = 0;
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++) {
        rc = read_bins(p, i, want, &b[i], err);
        weight += b[i].sums.weight;
    }
    if (!rc)
        rc = weight > 0 ? draw_bins(p, b, err) : ctr_plot_empty(p, "no rows", err);
    for (int i = 0; i < p->n; i++)
        free(b[i].bin);
    return rc;
}

/* For example, rows with the scores .9 .8 .7 .6 of which .9 and .7 have clicks. ctr_eval_curve calls with the clicks
 * and non-clicks so far, the best score first, and `at` of the kind makes a point of these:
 *
 *     so far                          1 0        1 1        2 1        2 2
 *     roc    (false, true positives)  0, .5      .5, .5     .5, 1      1, 1
 *     pr     (recall, precision)      .5, 1      .5, .5     1, .667    1, .5
 *     lift   (share of rows, lift)    .25, 2     .5, 1      .75, 1.33  1, 1
 *
 * An input is walked three times: `total` gets the last call's counts, `measure` the area (pr: .5 * 1 + .5 * .667) and
 * the largest y, and draw_point keeps a point where it is a thousandth of the figure away from the one before. */

/* ---- curves ---- */

/* What a curve shows of the rows above a score. */
struct curve_point {
    double x, y;
};
struct totals {
    double positives, negatives;
};
struct curve_kind {
    const char *x, *y;    /* labels */
    double from_x;        /* points before it say little, and are left out */
    bool needs_negatives; /* else clicks alone */
    struct curve_point (*at)(double positives, double negatives, const struct totals *t);
    double ends_y; /* > 0: the y axis ends there; 0: at its largest value */
};

/* A curve of one input. */
struct curve {
    const struct curve_kind *kind;
    struct totals totals;
    struct ctr_metric_sums sums;
    struct ctr_buf x, y; /* of the points kept */
    struct curve_point last, kept;
    double step_y, high; /* points nearer than that are one; the largest y */
    double area;         /* sum of y times the way along x: of precision-recall the average precision */
    double tenth;        /* y times x at x = .1, between points in proportion */
    int rc;
    struct ctr_err *err;
    char legend[300];
};

static void total(void *ctx, double score, double positives, double negatives)
{
    struct curve *c = ctx;
    (void)score;
    c->totals = (struct totals){ positives, negatives };
}

static void measure(void *ctx, double score, double positives, double negatives)
{
    struct curve *c = ctx;
    const struct curve_point at = c->kind->at(positives, negatives, &c->totals);
    (void)score;
    c->area += (at.x - c->last.x) * at.y;
    if (c->last.x < .1 && at.x >= .1) {
        const double before = c->last.x * c->last.y;
        c->tenth = before + (at.x * at.y - before) * (.1 - c->last.x) / (at.x - c->last.x);
    }
    if (at.x >= c->kind->from_x)
        c->high = fmax(c->high, at.y);
    c->last = at;
}

static void keep_point(struct curve *c, struct curve_point at)
{
    double *x = ctr_buf_extend(&c->x, 1, sizeof *x, &c->rc, c->err);
    double *y = ctr_buf_extend(&c->y, 1, sizeof *y, &c->rc, c->err);
    if (c->rc)
        return;
    *x = at.x;
    *y = at.y;
    c->kept = at;
}

static void draw_point(void *ctx, double score, double positives, double negatives)
{
    struct curve *c = ctx;
    const struct curve_point at = c->kind->at(positives, negatives, &c->totals);
    (void)score;
    if (at.x >= c->kind->from_x) {
        if (!c->x.len) /* it holds for the rows since the point before */
            keep_point(c, c->kind->from_x < 0 ? c->last : (struct curve_point){ c->last.x, at.y });
        const bool end = positives == c->totals.positives && negatives == c->totals.negatives;
        if (at.x - c->kept.x >= .001 || fabs(at.y - c->kept.y) >= c->step_y || end)
            keep_point(c, at);
    }
    c->last = at;
}

static bool is_defined(const struct curve *c)
{
    return c->totals.positives > 0 && (!c->kind->needs_negatives || c->totals.negatives > 0);
}

static const char *why_undefined(const struct curve *c)
{
    return !c->sums.rows                ? "no rows"
           : !(c->sums.weight > 0)      ? "undefined, as all weights are 0"
           : !(c->totals.positives > 0) ? "undefined, as no row has a click"
                                        : "undefined, as all rows have clicks";
}

static int read_curve(struct ctr_plot *p, int i, struct curve *c, struct ctr_err *err)
{
    struct ctr_eval *e = NULL;
    c->err = err;
    int rc = evaluate(p, i, &e, err);
    if (!rc)
        rc = ctr_eval_curve(e, total, c, err);
    if (!rc)
        c->sums = *sums_of(e);
    if (!rc && is_defined(c)) {
        rc = ctr_eval_curve(e, measure, c, err);
        c->last = c->kept = (struct curve_point){ 0, 0 };
        c->step_y = .001 * (c->kind->ends_y > 0 ? c->kind->ends_y : c->high);
        if (!rc)
            rc = ctr_eval_curve(e, draw_point, c, err);
    }
    ctr_eval_free(e);
    return rc ? rc : c->rc;
}

typedef void curve_text(struct curve *c, const char *name, bool named);
typedef void curve_rule(struct ctr_svg *g, const struct curve *c, int n);

static int draw_curves(struct ctr_plot *p, const struct curve_kind *kind, curve_text *text, curve_rule *rule,
                       bool steps, struct ctr_err *err)
{
    struct curve c[CTR_SVG_COLOURS] = { { 0 } };
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_plot_text subtitle = { "" };
    struct ctr_svg g;
    int rc = 0, defined = 0;
    double high = 0;
    for (int i = 0; !rc && i < p->n; i++) {
        c[i].kind = kind;
        rc = read_curve(p, i, &c[i], err);
        high = fmax(high, c[i].high);
        text(&c[i], p->in[i].name, p->n > 1);
        p->legend[i] = c[i].legend;
        defined += is_defined(&c[i]);
    }
    if (!rc && !defined) {
        rc = ctr_plot_empty(p, why_undefined(&c[0]), err);
    } else if (!rc) {
        if (p->n == 1) {
            subtitle = ctr_plot_text("%s, %s", rows_text(&c->sums).s, c->legend);
            f.subtitle = subtitle.s;
        }
        f.x = (struct ctr_axis){ kind->x, 0, 1, CTR_AXIS_PERCENT, true, NULL };
        f.y = (struct ctr_axis){ .label = kind->y,
                                 .high = kind->ends_y > 0 ? kind->ends_y : high,
                                 .kind = kind->ends_y > 0 ? CTR_AXIS_PERCENT : CTR_AXIS_NUMBER,
                                 .exact = kind->ends_y > 0 };
        ctr_svg_begin(&g, &f, p->svg, err);
        rule(&g, c, p->n);
        for (int i = 0; i < p->n; i++)
            (steps ? ctr_svg_steps : ctr_svg_line)(&g, i, (const double *)(const void *)c[i].x.data,
                                                   (const double *)(const void *)c[i].y.data,
                                                   (int64_t)(c[i].x.len / sizeof(double)));
        rc = ctr_svg_end(&g);
    }
    for (int i = 0; i < p->n; i++) {
        ctr_buf_free(&c[i].x);
        ctr_buf_free(&c[i].y);
    }
    return rc;
}

/* "name: AUC 0.7", for the legend, or without the name, for the subtitle. */
static void name_value(struct curve *c, const char *name, bool named, const char *what, double value)
{
    if (!is_defined(c))
        ctr_format(c->legend, sizeof c->legend, "%s%s%s", named ? name : "", named ? ": " : "", why_undefined(c));
    else
        ctr_format(c->legend, sizeof c->legend, "%s%s%s %.4f", named ? name : "", named ? ": " : "", what, value);
}

static struct curve_point roc_at(double positives, double negatives, const struct totals *t)
{
    return (struct curve_point){ negatives / t->negatives, positives / t->positives };
}

static void roc_text(struct curve *c, const char *name, bool named)
{
    name_value(c, name, named, "AUC", c->sums.auc);
}

static void diagonal(struct ctr_svg *g, const struct curve *c, int n)
{
    (void)c;
    (void)n;
    ctr_svg_rule(g, 0, 0, 1, 1);
}

static int draw_roc(struct ctr_plot *p, struct ctr_err *err)
{
    static const struct curve_kind kind = { "false positive rate: share of the rows without click above the score",
                                            "true positive rate: share of the clicks above the score",
                                            -1,
                                            true,
                                            roc_at,
                                            1 };
    return draw_curves(p, &kind, roc_text, diagonal, false, err);
}

static struct curve_point pr_at(double positives, double negatives, const struct totals *t)
{
    return (struct curve_point){ positives / t->positives, positives / (positives + negatives) };
}

static void pr_text(struct curve *c, const char *name, bool named)
{
    name_value(c, name, named, "average precision", c->area);
}

/* Of rows in any order precision is the click rate. */
static void base_rate(struct ctr_svg *g, const struct curve *c, int n)
{
    for (int i = 0; i < n; i++) {
        const double rate = c[i].sums.label / c[i].sums.weight;
        if (i == 0 || rate != c[0].sums.label / c[0].sums.weight)
            ctr_svg_rule(g, 0, rate, 1, rate);
    }
}

static int draw_pr(struct ctr_plot *p, struct ctr_err *err)
{
    static const struct curve_kind kind = {
        "recall: share of the clicks above the score", "precision: click rate above the score", .01, false, pr_at, 1
    };
    return draw_curves(p, &kind, pr_text, base_rate, true, err);
}

static struct curve_point lift_at(double positives, double negatives, const struct totals *t)
{
    const double share = (positives + negatives) / (t->positives + t->negatives);
    return (struct curve_point){ share, positives / t->positives / share };
}

static void lift_text(struct curve *c, const char *name, bool named)
{
    name_value(c, name, named, "lift of the best 10%", c->tenth / .1);
}

static void lift_one(struct ctr_svg *g, const struct curve *c, int n)
{
    (void)c;
    (void)n;
    ctr_svg_rule(g, 0, 1, 1, 1);
}

static int draw_lift(struct ctr_plot *p, struct ctr_err *err)
{
    static const struct curve_kind kind = { "share of the rows, best scores first",
                                            "lift: click rate of these rows over that of all rows",
                                            .01,
                                            false,
                                            lift_at,
                                            0 };
    return draw_curves(p, &kind, lift_text, lift_one, false, err);
}

enum {
    SCORED = 1 << CTR_ROLE_LABEL | 1 << CTR_ROLE_SCORE,
    WEIGHTED = 1 << CTR_ROLE_WEIGHT,
};
const struct ctr_plot_kind ctr_plot_reliability = { .name = "reliability",
                                                    .summary =
                                                        "click rate by score, in bins of equal weight, with intervals",
                                                    .title = "Reliability",
                                                    .roles = SCORED,
                                                    .also = WEIGHTED,
                                                    .inputs = CTR_SVG_COLOURS,
                                                    .draw = draw_reliability };
const struct ctr_plot_kind ctr_plot_roc = { .name = "roc",
                                            .summary = "true against false positive rate",
                                            .title = "ROC",
                                            .roles = SCORED,
                                            .also = WEIGHTED,
                                            .inputs = CTR_SVG_COLOURS,
                                            .draw = draw_roc };
const struct ctr_plot_kind ctr_plot_pr = { .name = "pr",
                                           .summary = "precision against recall",
                                           .title = "Precision and recall",
                                           .roles = SCORED,
                                           .also = WEIGHTED,
                                           .inputs = CTR_SVG_COLOURS,
                                           .draw = draw_pr };
const struct ctr_plot_kind ctr_plot_lift = { .name = "lift",
                                             .summary = "click rate of the best rows over that of all",
                                             .title = "Lift",
                                             .roles = SCORED,
                                             .also = WEIGHTED,
                                             .inputs = CTR_SVG_COLOURS,
                                             .draw = draw_lift };
