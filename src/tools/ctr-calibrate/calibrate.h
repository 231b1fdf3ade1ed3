/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate: fitting maps that correct predicted probabilities: one (calibrate.c), those of an endless stream
 * (calrolling.c). What a map is, and how it is applied: metric/calmap.h. */
#ifndef CTR_CALIBRATE_H
#define CTR_CALIBRATE_H

#include "common/metric/calmap.h"

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
    bool measured;         /* ctr_cal_fit_bias is to be called on these rows: they are sorted */
    struct ctr_pool *pool; /* whose threads sort; NULL: one */
};
struct ctr_cal_fit;
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

#endif
