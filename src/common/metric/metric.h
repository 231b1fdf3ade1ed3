/* SPDX-License-Identifier: Apache-2.0
 *
 * metric: quality of predicted probabilities (evaluation), and their correction (calibration).
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
};

/* The totals of a slice after all its rows. */
struct ctr_metric_sums {
    int64_t rows;     /* impressions, unweighted */
    double weight;    /* sum of w */
    double label;     /* sum of w y */
    double score;     /* sum of w p */
    double log_loss;  /* sum of w times the log loss of a row */
    double squared;   /* sum of w (p - y)^2 */
    double auc, gauc; /* NaN where undefined or not computed */
    int64_t users, left_out_users,
        left_out_rows; /* gauc: users of both classes; users of one class, which are left out, and their rows */
};

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

/* ---- evaluation: eval.c, evallive.c ---- */

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

/* Windows of an endless stream, in bounded memory: evallive.c. A window closes when a row is later than its end by
 * lateness_ms; `over` then receives it, finished, in window order. Open windows share the memory. */
struct ctr_eval_live;
struct ctr_eval_live_opts {
    struct ctr_eval_opts eval; /* window_ms > 0; no `keep` */
    int64_t lateness_ms;
    struct ctr_pool *pool; /* or NULL */
    int (*over)(void *ctx, struct ctr_eval *e, int64_t window, struct ctr_err *err);
    void *ctx;
};
int ctr_eval_live_new(struct ctr_eval_live **l, const struct ctr_schema *s, const struct ctr_eval_live_opts *o,
                      struct ctr_err *err) CTR_MUST;
void ctr_eval_live_free(struct ctr_eval_live *l);
int ctr_eval_live_batch(struct ctr_eval_live *l, const struct ctr_batch *b, const double *control,
                        struct ctr_err *err) CTR_MUST;
int ctr_eval_live_finish(struct ctr_eval_live *l, struct ctr_err *err) CTR_MUST; /* closes the open windows */
int64_t
ctr_eval_live_late(const struct ctr_eval_live *l); /* rows that arrived after their window closed, and were left out */

/* Scores of another model for the same rows, read in parallel with the main stream: evalcontrol.c. `names`: column
 * names from the options, by role, or NULL. */
struct ctr_eval_control;
int ctr_eval_control_open(struct ctr_eval_control **c, const char *path, const char *const *names,
                          struct ctr_err *err) CTR_MUST;
void ctr_eval_control_free(struct ctr_eval_control *c);
bool ctr_eval_control_narrow(const struct ctr_eval_control *c); /* for opts.narrow_control */
/* The control's scores for the rows of b, the next batch; labels, weights, ids, users and times that both streams have
 * must be equal, row by row. Borrowed until the next call. */
int ctr_eval_control_scores(struct ctr_eval_control *c, const struct ctr_metric_columns *columns, int id,
                            const struct ctr_batch *b, const double **scores, struct ctr_err *err) CTR_MUST;
int ctr_eval_control_end(struct ctr_eval_control *c, int64_t rows,
                         struct ctr_err *err) CTR_MUST; /* fails if it has more rows */

/* The 95% percentile interval over the bootstrap replicates of a metric (index into ctr_metrics) or, with `change`, of
 * its change in per cent against the control. NaN if no replicate is defined. */
struct ctr_interval {
    double low, high;
};
int ctr_eval_interval(const struct ctr_eval *e, int64_t slice, int metric, bool change, struct ctr_interval *out,
                      struct ctr_err *err) CTR_MUST;
double ctr_metric_change(double value, double control); /* per cent; NaN if undefined */

/* ---- showing it: evaltable.c, reliability.c ---- */

struct ctr_eval_view {
    const int *metrics; /* indices into ctr_metrics */
    int n;
    const char *const *by_names;
    bool windows, control, bootstrap, users, weighted;
    const int64_t *window; /* the window of all slices; NULL: each slice's own */
};
/* Text with aligned columns; undefined values are "-". With a control or intervals, one line per slice and metric. */
int ctr_eval_table(const struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_buf *out,
                   struct ctr_err *err) CTR_MUST;
/* The same as rows of a stream; undefined values are null. Call the schema first. */
int ctr_eval_stream_schema(const struct ctr_eval_view *v, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_eval_stream_rows(const struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_batchbuf *rows,
                         struct ctr_err *err) CTR_MUST;

/* A stream has, for each metric, columns of its name with these suffixes ("", "_low", …), as applicable. */
enum { CTR_EVAL_PARTS = 7 };
const char *ctr_eval_part(int i);

/* A reliability diagram: rows sorted by score, in bins of equal weight (equal scores share a bin). */
struct ctr_reliability_bin {
    double low, high; /* scores in it */
    double weight;
    double score, label; /* weighted means */
};
/* After ctr_eval_finish with opts.keep: fills at most `bins` and returns how many, or < 0. */
int ctr_eval_reliability(const struct ctr_eval *e, struct ctr_reliability_bin *bin, int bins,
                         struct ctr_err *err) CTR_MUST;
/* Draw them: a bar for the click rate and a mark at the mean score. */
int ctr_reliability_draw(const struct ctr_reliability_bin *bin, int n, bool ascii, struct ctr_buf *out,
                         struct ctr_err *err) CTR_MUST;

/* ---- calibration: calibrate.c, calmap.c ---- */

enum ctr_cal_kind { CTR_CAL_ISOTONIC_LINEAR, CTR_CAL_ISOTONIC_CONSTANT, CTR_CAL_POWER, CTR_CAL_PLATT, CTR_CAL_KINDS };

/* Fitting: feed batches, finish. The global map is always fitted; a slice of `by` gets its own map if at least min_rows
 * of its rows have a positive label and as many have a label below 1. */
struct ctr_cal_fit_opts {
    struct ctr_metric_columns columns;
    enum ctr_cal_kind kind;
    int by; /* column, or -1 */
    int64_t min_rows;
    /* Isotonic: merge pools with fewer rows of positive label, or of label below 1; 0: never. A map whose pools then
     * lose most of the ranking becomes a platt map. Rolling, of any kind: a window with fewer replaces no map of more.
     */
    int64_t min_clicks;
    int64_t memory_bytes;
};
struct ctr_cal_fit;
struct ctr_cal_map;
int ctr_cal_fit_new(struct ctr_cal_fit **f, const struct ctr_schema *s, const struct ctr_cal_fit_opts *o,
                    struct ctr_err *err) CTR_MUST;
int ctr_cal_fit_batch(struct ctr_cal_fit *f, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* Returns the map, which may outlive the fit. No rows, or only one class: CTR_EDATA. */
int ctr_cal_fit_finish(struct ctr_cal_fit *f, struct ctr_cal_map **map, struct ctr_err *err) CTR_MUST;
/* Instead of finish: fit no map; the rows are only used by ctr_cal_fit_bias for another fit's map. */
int ctr_cal_fit_hold_out(struct ctr_cal_fit *f, struct ctr_err *err) CTR_MUST;
void ctr_cal_fit_free(struct ctr_cal_fit *f);
int64_t ctr_cal_fit_slices(const struct ctr_cal_fit *f); /* slices seen */
int64_t ctr_cal_fit_thin(const struct ctr_cal_fit *f);   /* of these, slices that use the global map */
/* For isotonic maps: pools found, pools left after merging thin ones, and distinct values. */
struct ctr_cal_pools {
    int64_t found, left;
    double low, high;
};
const struct ctr_cal_pools *ctr_cal_fit_pools(const struct ctr_cal_fit *f);
/* Is the global map, or how many of slices are, platt where isotonic was asked for? */
bool ctr_cal_fit_replaces(const struct ctr_cal_fit *f, const struct ctr_cal_map *m);
int64_t ctr_cal_fit_replaced(const struct ctr_cal_fit *f);
int64_t ctr_cal_fit_clicks(const struct ctr_cal_fit *f); /* rows with a positive label, or, if fewer, below 1 */
/* What the global map stands on: "isotonic-linear of 812 clicks and 9188 non-clicks in 12 pools". */
struct ctr_cal_text {
    char s[192];
} ctr_cal_fit_text(const struct ctr_cal_fit *f, const struct ctr_cal_map *m);
#define CTR_META_CALIBRATION "ctr.calibration"         /* schema of a map: that text */
bool ctr_cal_fit_floored(const struct ctr_cal_fit *f); /* a slope was not positive and was set to CTR_CAL_MIN_SLOPE */
#define CTR_CAL_MIN_SLOPE 1e-3
#define CTR_CAL_EDGE      0x1p-52 /* minimum distance of values from 0 and 1, unless knots are 0 or 1 */

/* Bias before and after, in bins of equal weight by the old score. */
struct ctr_cal_bias {
    double low, high, weight;
    double before, after; /* mean score over mean label; NaN without a positive label */
    double score, label;
};
/* Returns the number of bins, at most `bins`, or < 0. */
int ctr_cal_fit_bias(const struct ctr_cal_fit *f, const struct ctr_cal_map *m, struct ctr_cal_bias *b, int bins,
                     struct ctr_err *err) CTR_MUST;

/* Maps of an endless stream: calrolling.c. When a row starts a new latest pane of every_ms, a map is fitted to the rows
 * of the rolling_ms before that pane and passed to `fitted`; if those rows give no map, or a map of fewer than
 * fit.min_clicks where there is one of more, m is NULL and *err has the reason, which is not a failure. `until`: end of
 * those rows. Rows of the last rolling_ms are stored, about 20 bytes each. */
struct ctr_cal_rolling;
struct ctr_cal_rolling_opts {
    struct ctr_cal_fit_opts fit; /* with a time column */
    int64_t rolling_ms, every_ms;
    bool have; /* there is a map already */
    int (*fitted)(void *ctx, const struct ctr_cal_fit *f, const struct ctr_cal_map *m, int64_t until,
                  struct ctr_err *err);
    void *ctx;
};
int ctr_cal_rolling_new(struct ctr_cal_rolling **r, const struct ctr_schema *s, const struct ctr_cal_rolling_opts *o,
                        struct ctr_err *err) CTR_MUST;
void ctr_cal_rolling_free(struct ctr_cal_rolling *r);
int ctr_cal_rolling_batch(struct ctr_cal_rolling *r, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_cal_rolling_finish(struct ctr_cal_rolling *r,
                           struct ctr_err *err) CTR_MUST; /* fits a last map, up to the end */
int64_t
ctr_cal_rolling_old(const struct ctr_cal_rolling *r);  /* rows that arrived too late for any map, and were left out */
int64_t ctr_cal_fit_rows(const struct ctr_cal_fit *f); /* rows fed so far */

/* The map as a stream: by utf8, slice utf8 (both null: the global map), kind utf8, name utf8, score float64, value
 * float64. isotonic-*: rows "knot", scores ascending, values not descending; power: "gamma" and "kappa"; platt:
 * "intercept" and "slope" (value only). */
int ctr_cal_map_schema(struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_cal_map_rows(const struct ctr_cal_map *m, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;
/* Loading checks everything; a file that is not a map, or not monotone, is CTR_EDATA. */
int ctr_cal_map_load(struct ctr_cal_map **m, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_cal_map_free(struct ctr_cal_map *m);
const char *ctr_cal_map_by(const struct ctr_cal_map *m); /* column name, or NULL */
/* The slice of a value (canonical text; NULL for null) with its own map, else 0: the global map. */
int ctr_cal_map_slice(const struct ctr_cal_map *m, const char *text, size_t n);
double ctr_cal_map_apply(const struct ctr_cal_map *m, int slice, double score);

/* Applies a map (borrowed) to a stream: calapply.c. `score` is a column of s. The score column keeps its position, name
 * and role (float32 stays, other types become float64); a column NAME_raw with the old scores is appended. *out is
 * borrowed until the next batch. */
struct ctr_cal_apply;
int ctr_cal_apply_new(struct ctr_cal_apply **a, const struct ctr_cal_map *m, const struct ctr_schema *s, int score,
                      struct ctr_err *err) CTR_MUST;
void ctr_cal_apply_free(struct ctr_cal_apply *a);
/* Check the file of the map *m that *a applies to a stream of schema `s`; *seen: see ctr_file_changed. 1: it has a new
 * map, which replaces *m, and *a applies it; 0: unchanged; < 0: it changed, but is not usable: *a continues with *m
 * until the next change. */
int ctr_cal_apply_reload(struct ctr_cal_apply **a, struct ctr_cal_map **m, const char *path, struct ctr_file_seen *seen,
                         const struct ctr_schema *s, int score, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_cal_apply_schema(const struct ctr_cal_apply *a);
int ctr_cal_apply_batch(struct ctr_cal_apply *a, const struct ctr_batch *b, const struct ctr_batch **out,
                        struct ctr_err *err) CTR_MUST;

#endif
