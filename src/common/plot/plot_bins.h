/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_bins: a histogram of numbers whose range is not known before, in bounded memory. Internal to plot/.
 *
 * Bins are as wide as a power of two, and start at multiples of it; when values do not fit, neighbours become one. So
 * no value is counted in a wrong bin, and bins of two histograms can be compared. Whole numbers have bins of at
 * least 1. */
#ifndef CTR_PLOT_BINS_H
#define CTR_PLOT_BINS_H

#include "common/base/base.h"

enum { CTR_PLOT_BINS = 8192 };
struct ctr_plot_bins { /* zero-initialise, then set `series` and `whole` */
    int series;        /* counted side by side */
    bool whole;
    double *weight; /* [series][CTR_PLOT_BINS] */
    double *total;  /* by series, of finite values */
    double low, high;
    int power;     /* bins are 2^power wide */
    int64_t first; /* number of the first: it starts at first * 2^power */
    int64_t n;     /* values */
    int64_t nans, infinities;
};
int ctr_plot_bins_add(struct ctr_plot_bins *b, int series, double value, double weight, struct ctr_err *err) CTR_MUST;
void ctr_plot_bins_free(struct ctr_plot_bins *b);

/* The bins to draw: at most `want`, or 2 where values lie on both sides of 0, and more than half as many, if values
 * allow it. Where a hundredth of the weight takes more than two thirds of the range, half of it on either side is left
 * out. */
struct ctr_plot_range {
    int power, n;
    int64_t first;
    double beyond; /* share of the weight that is left out, the mean over the series */
};
struct ctr_plot_range ctr_plot_bins_range(const struct ctr_plot_bins *b, int64_t want);
/* The weight of a series in bin i of the range, and where that starts. */
double ctr_plot_bins_weight(const struct ctr_plot_bins *b, const struct ctr_plot_range *r, int series, int i);
double ctr_plot_bins_start(const struct ctr_plot_range *r, int i);

#endif
