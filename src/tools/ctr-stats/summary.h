/* SPDX-License-Identifier: Apache-2.0
 *
 * summary.h: what a profile says: numbers of values, quantiles, frequent values, what the column tells of clicks. */
#ifndef CTR_SUMMARY_H
#define CTR_SUMMARY_H

#include "tools/ctr-stats/profile.h"

/* The values of numbers and times in order, without NaN: one each, or those of a bin, in [low, high). */
struct ctr_point {
    uint64_t at; /* order, or position >> shift */
    double low, high;
    int64_t n;
    uint64_t clicks;
};
/* shift -1: single values, of a profile that has them; else bins as wide, at least those of the profile. Appends
 * nothing of texts. */
int ctr_points(const struct ctr_profile *p, int shift, struct ctr_buf *points, struct ctr_err *err) CTR_MUST;
int ctr_points_shift(const struct ctr_profile *p); /* the least: -1 or that of the bins */
/* The r-th value (from 0, fractions between two); *width: of its bin. */
double ctr_points_rank(const struct ctr_point *point, int64_t n, double r, double *width);

/* The most frequent values: by rows, then by value. */
struct ctr_frequent {
    uint64_t key;
    char text[CTR_PROFILE_TEXT]; /* of texts; the other bytes are 0 */
    uint8_t kept;
    bool cut;          /* the text is longer */
    int64_t n, others; /* others: 0 where n is exact; else eight standard errors of it, at most */
    double clicks;     /* 0 to n */
};
/* Fills out[0..most) with those of at least `least` rows; returns how many. */
int ctr_frequent(const struct ctr_profile *p, int most, int64_t least, struct ctr_frequent *out);
/* Rows of the same value in another profile, as exactly as it knows. */
int64_t ctr_frequent_rows(const struct ctr_profile *p, const struct ctr_frequent *f);
/* Append the value as text: that of ctr-export, cut texts with … */
int ctr_value_write(const struct ctr_profile *p, uint64_t key, const char *text, size_t n, bool cut,
                    struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

enum { CTR_QUANTILES = 7, CTR_TOP = 10, CTR_GROUPS = 256, CTR_GROUP_ROWS = 100, CTR_RANGES = 20, CTR_FEW = 64 };
extern const double ctr_quantiles[CTR_QUANTILES];
extern const char *const ctr_quantile_names[CTR_QUANTILES];

struct ctr_summary {
    int64_t distinct;
    double distinct_error;                                    /* relative standard error; 0: exact */
    double mean, sd, quantile[CTR_QUANTILES], quantile_error; /* NaN: undefined */
    struct ctr_frequent top[CTR_TOP];
    int ntop;
    double top_error;                /* of a share: standard error, at most */
    double rate, null_rate, iv, auc; /* NaN: no label, or undefined */
    struct ctr_totals totals;
};
int ctr_summarize(const struct ctr_profile *p, struct ctr_summary *s, struct ctr_err *err) CTR_MUST;

#endif
