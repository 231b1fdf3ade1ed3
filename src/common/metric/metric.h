/* SPDX-License-Identifier: Apache-2.0
 *
 * metric: quality of predicted probabilities.
 *
 *     struct ctr_eval_opts o = { .columns = …, .needs = … };
 *     ctr_eval_new(&e, reader's schema, &o, err);
 *     while ((rc = ctr_reader_next(r, &b, err)) > 0)
 *         ctr_eval_batch(e, b, NULL, err);
 *     ctr_eval_finish(e, pool, err);
 *     ctr_metric_find("auc")->value(&ctr_eval_slice(e, 0)->sums[0])      over all rows; NaN: undefined
 *     ctr_eval_free(e);
 *
 * Definitions, with w a weight (1 by default), y a label in [0, 1], p a score in [0, 1]; all means are weighted:
 *
 * - auc: the sum over pairs (positive i, negative j) of w_i w_j ([p_i > p_j] + [p_i = p_j] / 2), over the sum of w_i
 * w_j. A row with fractional y is a positive of weight w y and a negative of weight w (1 - y).
 * - gauc: the mean of the users' own AUC, weighted by the sum of their weights; users of one class are left out, and so
 * are rows whose user is null, unless null_user says that they are those of one user.
 * - log_loss: the mean of -(y ln q + (1 - y) ln(1 - q)), where q is p clipped to [2^-52, 1 - 2^-52].
 * - normalized_entropy: log_loss over the log loss of the mean label.
 * - squared_error: the mean of (p - y)^2.
 * - calibration: mean p over mean y.
 * - ece: rows sorted by score in CTR_ECE_BINS bins (of ctr_reliability_bin): the mean over bins, by weight, of |mean p
 * - mean y|.
 * - field_ece: of a slice |mean p - mean y|; of all rows, the mean of that over the slices of a column, by weight; of
 * several columns the mean. Source: Pan et al., "Field-aware Calibration", WWW 2020.
 *
 * Results depend neither on batch boundaries nor on the number of threads.
 */
#ifndef CTR_METRIC_H
#define CTR_METRIC_H

#include "common/stream/stream.h"

/* ---- the table of metrics: metric.c ---- */

enum {                     /* requirements of a metric beyond sums */
       CTR_NEED_RANKS = 1, /* all rows sorted by score: memory grows with the input */
       CTR_NEED_USERS = 2, /* all rows sorted by user and score */
       CTR_NEED_LOSS = 4,  /* logarithms */
       CTR_NEED_BINS = 8,  /* bins of the rows sorted by score */
       CTR_NEED_GAPS = 16, /* the slices of each column */
};

/* The totals of a slice after all its rows. */
struct ctr_metric_sums {
    int64_t rows;          /* impressions, unweighted */
    double weight;         /* sum of w */
    double label;          /* sum of w y */
    double score;          /* sum of w p */
    double log_loss;       /* sum of w times the log loss of a row */
    double squared;        /* sum of w (p - y)^2 */
    double auc, gauc;      /* NaN where undefined or not computed */
    double ece, field_ece; /* the same */
    int64_t users, left_out_users,
        left_out_rows; /* gauc: users of both classes; users of one class, which are left out, and their rows */
};

enum { CTR_ECE_BINS = 10 };

/* Which value is better: higher, lower, nearer to 1, or undefined. */
enum ctr_goal { CTR_GOAL_NONE, CTR_GOAL_HIGH, CTR_GOAL_LOW, CTR_GOAL_ONE };

struct ctr_metric {
    const char *name; /* in streams and --metrics */
    const char *help;
    enum ctr_goal goal;
    unsigned needs;
    bool standard;                                    /* computed by default, without --metrics */
    double (*value)(const struct ctr_metric_sums *s); /* NaN: undefined */
};
extern const struct ctr_metric ctr_metrics[];
extern const int ctr_metrics_count;
const struct ctr_metric *ctr_metric_find(const char *name); /* or NULL */
/* Indices of the metrics in a list "auc,log_loss" (NULL: the standard ones; gauc only with users); sets *n. */
int ctr_metric_list(const char *list, bool users, int **which, int *n, struct ctr_err *err) CTR_MUST;

/* Log loss of one row, clipped as above. */
double ctr_log_loss(double score, double label);
void ctr_log_losses(const double *score, const double *label, int64_t n, double *out); /* the same, of n rows */

/* stability.c: the population stability index of the rows of two streams, counted in the same cells. Half a row is
 * added to each count, so that a cell that is empty on one side does not make it infinite. */
struct ctr_stability_cell {
    double now, ref;
};
struct ctr_stability_cell ctr_stability_total(const struct ctr_stability_cell *cell, int64_t n);
double ctr_stability(const struct ctr_stability_cell *cell, int64_t n);

/* ---- where the numbers are: metricrows.c ---- */

/* Column indices, -1: none. label and score are required. */
struct ctr_metric_columns {
    int label, weight, score, user, time;
};
/* Do the columns have suitable types? The error names suitable types. */
int ctr_metric_columns_check(const struct ctr_metric_columns *c, const struct ctr_schema *s,
                             struct ctr_err *err) CTR_MUST;

/* The numbers of a batch, checked like ctr_col_checked. The arrays are valid as long as the batch, until the next load.
 * weight is NULL if all weights are 1. */
struct ctr_metric_rows {
    const double *score, *label, *weight;
    bool whole; /* labels are 0 or 1 */
    int64_t n;
    struct ctr_buf buf[3];
};
int ctr_metric_rows_load(struct ctr_metric_rows *r, const struct ctr_metric_columns *c, const struct ctr_batch *b,
                         struct ctr_err *err) CTR_MUST;
void ctr_metric_rows_free(struct ctr_metric_rows *r);

/* ---- evaluation: eval.c ---- */

struct ctr_eval_opts {
    struct ctr_metric_columns columns;
    const int *by; /* columns whose values define slices; a row counts once in the slice of each item of a list */
    int nby;
    int64_t
        slices; /* > 0: only so many values per column, those with the most rows; all others form the slice "(rest)" */
    int64_t window_ms;   /* > 0: also every slice in every window of columns.time */
    unsigned needs;      /* CTR_NEED_* of the metrics to be read */
    bool control;        /* every row has a second score */
    bool narrow_control; /* the control's type has at most float32 precision */
    bool keep;           /* keep the rows of the total, for ctr_eval_reliability */
    bool null_user;      /* treat rows whose user is null as one user; else gauc leaves them out */
    int bootstrap;       /* > 0: number of replicates for intervals */
    uint64_t seed;
    int64_t memory_bytes; /* > 0: fail, naming the memory needed, instead of using more */
};

struct ctr_eval;
int ctr_eval_new(struct ctr_eval **e, const struct ctr_schema *s, const struct ctr_eval_opts *o,
                 struct ctr_err *err) CTR_MUST;
void ctr_eval_free(struct ctr_eval *e);
/* `control`: b->rows checked scores of the other model, or NULL. */
int ctr_eval_batch(struct ctr_eval *e, const struct ctr_batch *b, const double *control, struct ctr_err *err) CTR_MUST;
/* `pool` may be NULL. Required before the calls below. */
int ctr_eval_finish(struct ctr_eval *e, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;

/* Slices in order: the total, its windows, then the values of each column (numbers by value, others by bytes, "(rest)"
 * last), each followed by its windows. */
struct ctr_eval_slice {
    int by;           /* index into opts.by, or -1: all rows */
    uint32_t text_n;  /* the value may contain a zero byte */
    const char *text; /* the value; "(missing)" for null; "" for all rows */
    bool none;        /* of null or of the rest: the text is no value */
    bool windowed;
    int64_t window_ms;              /* start */
    struct ctr_metric_sums sums[2]; /* [1]: of the control */
};
int64_t ctr_eval_slices(const struct ctr_eval *e);
int64_t ctr_eval_without_user(const struct ctr_eval *e); /* rows whose user is null, left out by gauc */
const struct ctr_eval_slice *ctr_eval_slice(const struct ctr_eval *e, int64_t i);
/* With opts.slices: the number of shown slices that may lack rows, which went to the rest, and the maximum of such
 * rows: 0 unless a column has more than 8 slices + 1024 values. */
int64_t ctr_eval_lacking(const struct ctr_eval *e, int64_t *rows);

/* The start of a time's window; the earliest possible window starts at the minimum time. Times must not be null. */
int64_t ctr_eval_window(int64_t time, int64_t window_ms);
int ctr_eval_check_time(const struct ctr_batch *b, int column, struct ctr_err *err) CTR_MUST;

/* The 95% percentile interval over the bootstrap replicates of a metric (index into ctr_metrics) or, with `change`, of
 * its change in per cent against the control. NaN if no replicate is defined. */
struct ctr_interval {
    double low, high;
};
int ctr_eval_interval(const struct ctr_eval *e, int64_t slice, int metric, bool change, struct ctr_interval *out,
                      struct ctr_err *err) CTR_MUST;
double ctr_metric_change(double value, double control); /* per cent; NaN if undefined */

/* After ctr_eval_finish with opts.keep: calls `point` for each different score, the highest first, with the weight of
 * the positives and of the negatives that have at least this score. */
typedef void ctr_curve_point(void *ctx, double score, double positives, double negatives);
int ctr_eval_curve(const struct ctr_eval *e, ctr_curve_point *point, void *ctx, struct ctr_err *err) CTR_MUST;

/* ---- showing it: evaltable.c, reliability.c ---- */

struct ctr_eval_view {
    const int *metrics; /* indices into ctr_metrics */
    int n;
    const char *const *by_names;
    bool windows, control, bootstrap, users, weighted;
    const int64_t *window; /* the window of all slices; NULL: each slice's own */
    int columns;           /* of the terminal that the table is for; 0: no limit */
};
/* Text with aligned columns; undefined values are "-". With a control or intervals, one line per slice and metric. What
 * is wider than v->columns is cut (names of slices) or continued below (metrics). */
int ctr_eval_table(const struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_buf *out,
                   struct ctr_err *err) CTR_MUST;
/* The same as rows of a stream; undefined values are null. Call the schema first. */
int ctr_eval_stream_schema(const struct ctr_eval_view *v, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_eval_stream_rows(const struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_batchbuf *rows,
                         struct ctr_err *err) CTR_MUST;

/* A stream has, for each metric, columns of its name with these suffixes ("", "_low", …), as applicable. */
enum { CTR_EVAL_PARTS = 7 };
const char *ctr_eval_part(int i);

/* The 95% interval of a click rate of n rows, or of weights that tell as much as n rows. Wilson 1927. */
void ctr_rate_interval(double rate, double n, double *low, double *high);

/* A reliability diagram: rows sorted by score, in bins of equal weight (equal scores share a bin). */
struct ctr_reliability_bin {
    double low, high; /* scores in it */
    double weight;
    double score, label; /* weighted means */
    double squares;      /* of ctr_eval_reliability: weight^2 / squares rows of one weight would tell as much */
};
/* After ctr_eval_finish with opts.keep: fills at most `bins` and returns how many, or < 0. */
int ctr_eval_reliability(const struct ctr_eval *e, struct ctr_reliability_bin *bin, int bins,
                         struct ctr_err *err) CTR_MUST;
/* Draw them: a bar for the click rate and a mark at the mean score. */
int ctr_reliability_draw(const struct ctr_reliability_bin *bin, int n, bool ascii, struct ctr_buf *out,
                         struct ctr_err *err) CTR_MUST;

#endif
