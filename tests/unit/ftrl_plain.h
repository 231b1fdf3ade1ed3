/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl_plain: FTRL-Proximal exactly as in Algorithm 1 of "Ad Click Prediction: a View from the Trenches" (KDD 2013),
 * for readers. optimizer_ftrl.h and ftrl_x8.c compute the same with vectors; tests compare them with this loop. */
#ifndef CTR_FTRL_PLAIN_H
#define CTR_FTRL_PLAIN_H

#include <math.h>

struct ctr_ftrl_plain {
    double alpha, beta, l1, l2;
    double *z, *n; /* by coordinate; both start at 0 */
};

static inline double ctr_ftrl_plain_weight(const struct ctr_ftrl_plain *f, int64_t i)
{
    if (fabs(f->z[i]) <= f->l1)
        return 0;
    return -(f->z[i] - copysign(f->l1, f->z[i])) / ((f->beta + sqrt(f->n[i])) / f->alpha + f->l2);
}

/* A row has k distinct coordinates i[0] … i[k-1] with values x (NULL: all 1), a label y and a weight. Learns from the
 * row; returns the probability of a click predicted before. */
static inline double ctr_ftrl_plain_row(struct ctr_ftrl_plain *f, const int64_t *i, const double *x, int64_t k,
                                        double y, double weight)
{
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
        sum += ctr_ftrl_plain_weight(f, i[j]) * (x ? x[j] : 1);
    const double p = 1 / (1 + exp(-sum));
    for (int64_t j = 0; j < k; j++) {
        const double w = ctr_ftrl_plain_weight(f, i[j]), g = weight * (p - y) * (x ? x[j] : 1);
        const double sigma = (sqrt(f->n[i[j]] + g * g) - sqrt(f->n[i[j]])) / f->alpha;
        f->z[i[j]] += g - sigma * w;
        f->n[i[j]] += g * g;
    }
    return p;
}

#endif
