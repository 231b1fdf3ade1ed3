/* SPDX-License-Identifier: Apache-2.0
 *
 * calpools: the pools of isotonic regression, which are runs of scores with rising click rates. */
#ifndef CTR_CALPOOLS_H
#define CTR_CALPOOLS_H

#include "common/metric/evalstate.h"

struct ctr_cal_pool {
    double low, high; /* scores */
    double weight, label, value;
    int64_t rows[2]; /* with a label below 1; with one above 0 */
};

/* Append the pools of a sorted sample to `pools`. */
int ctr_cal_pool_sorted(const struct ctr_sample *s, struct ctr_buf *pools, struct ctr_err *err) CTR_MUST;

/* Has a sample so many rows, all of weight 1, that its pools are found faster without sorting it? */
bool ctr_cal_pool_bins(const struct ctr_sample *s);
/* Append the same pools, of such a sample. auc: bounds of its AUC. Sorts it, by `threads`, where the bins say too
 * little. */
int ctr_cal_pool_unsorted(struct ctr_sample *s, struct ctr_pool *threads, struct ctr_buf *pools, double auc[2],
                          struct ctr_err *err) CTR_MUST;

#endif
