/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_draw: what the kinds of plot.h share. Internal to plot/. */
#ifndef CTR_PLOT_DRAW_H
#define CTR_PLOT_DRAW_H

#include "common/metric/metric.h"
#include "common/plot/plot.h"

struct ctr_plot {
    const struct ctr_plot_kind *kind;
    struct ctr_plot_input *in;
    int n;
    const struct ctr_plot_opts *o;
    struct ctr_buf *svg;
    const char *legend[CTR_SVG_COLOURS]; /* names of the inputs, or what a kind puts there */
};

/* A column that a kind reads, by role, or by name where the name is not NULL. */
struct ctr_plot_want {
    enum ctr_role role;
    const char *name;
    bool need;
    int *to; /* its place in the batches; -1: there is none */
};
/* Find the columns of input i, and read no others. */
int ctr_plot_columns(struct ctr_plot *p, int i, const struct ctr_plot_want *want, int n, struct ctr_err *err) CTR_MUST;
/* The next batch of input i, as ctr_batch_source_next gives it. */
int ctr_plot_next(struct ctr_plot *p, int i, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
/* NaN: null, or column -1. */
double ctr_plot_value(const struct ctr_batch *b, int column, int64_t row);
/* Is the column of input i, if there is one, of numbers? `what` it is for: "a bar". */
int ctr_plot_check_number(const struct ctr_plot *p, int i, int column, const char *what, struct ctr_err *err) CTR_MUST;
/* An error of input i: names its file; returns rc. */
int ctr_plot_fail(struct ctr_plot *p, int i, int rc, struct ctr_err *err);

/* A figure with this title and legend, which has an entry for each input if there is more than one. */
struct ctr_figure ctr_plot_figure(struct ctr_plot *p);
/* The figure that says why it is empty. */
int ctr_plot_empty(struct ctr_plot *p, const char *message, struct ctr_err *err) CTR_MUST;

struct ctr_plot_text {
    char s[300];
};
struct ctr_plot_text ctr_plot_text(const char *fmt, ...) CTR_PRINTF(1, 2);
/* "1,234,567", and of weights "12.5". */
struct ctr_plot_text ctr_plot_count(double n);

extern const struct ctr_plot_kind ctr_plot_reliability, ctr_plot_roc, ctr_plot_pr, ctr_plot_lift, ctr_plot_scores,
    ctr_plot_metric, ctr_plot_learning, ctr_plot_importance, ctr_plot_hours, ctr_plot_drift, ctr_plot_histogram;

#endif
