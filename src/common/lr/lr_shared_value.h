/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_shared_value.h: the learning step of variants that share one value per coordinate. See lr_shared_value.c. */
#ifndef CTR_LR_SHARED_VALUE_H
#define CTR_LR_SHARED_VALUE_H

#include "common/lr/lr.h"
#include "common/lr/variants.h"

typedef double ctr_shared_value_lanes __attribute__((vector_size(CTR_LANES * sizeof(double)))); /* of variants */

/* Consecutive tables with the same variants form a class. */
struct ctr_shared_value_step {
    int n;              /* variants */
    int groups;         /* vectors of variants, an even number */
    int tables;         /* the bias follows the last */
    uint16_t *class_of; /* by table */
    int classes;
    uint64_t *has; /* by class: bit set of variants, `words` long */
    size_t words;
    ctr_shared_value_lanes *mask; /* the same as 0 and 1: by class, then by groups */
    double *share;                /* by class: 1 / variants that have it, or 0 */
    /* For the current row: */
    struct ctr_buf product, class;          /* by coordinate: w x */
    ctr_shared_value_lanes *sum, *gradient; /* by variant; 0 past the last one */
    double *mean;                           /* by class: mean of the gradients */
    int64_t *mean_of;                       /* by class: the row of that mean */
    int64_t rows;
    ctr_sigmoids *sigmoids;
    const struct ctr_shared_value_kernel *kernel;
};
int ctr_shared_value_init(struct ctr_shared_value_step *q, int variants, struct ctr_err *err) CTR_MUST;
void ctr_shared_value_free(struct ctr_shared_value_step *q);

/* Sets which variants have which tables: has[v * tables + t]. */
int ctr_shared_value_bind(struct ctr_shared_value_step *q, const struct ctr_variants *vs, const bool *has, int tables,
                          struct ctr_err *err) CTR_MUST;
static inline bool ctr_shared_value_has(const struct ctr_shared_value_step *q, int table, int variant)
{
    return q->has[q->class_of[table] * q->words + (size_t)variant / 64] >> variant % 64 & 1;
}

/* The `each` of a struct lr, whose ctx is a struct ctr_shared_value_step. */
int ctr_shared_value_learn(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s,
                           uint8_t *const *row, int64_t k, double *score, struct ctr_err *err) CTR_MUST;

#endif
