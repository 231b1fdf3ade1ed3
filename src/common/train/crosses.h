/* SPDX-License-Identifier: Apache-2.0
 *
 * crosses: which two features tell more together than the model knows from each alone? Measured on progressive
 * predictions of the last rows of the first pass, in bounded memory and time. */
#ifndef CTR_CROSSES_H
#define CTR_CROSSES_H

#include "common/model/model.h"

struct ctr_crosses;
/* Of the columns of `in` that have one key in each row; at most CTR_CROSSES_COLUMNS of them, by name. memory: --memory,
 * or 0; a sample of many columns does not go with a small one, and then no cross is found. */
enum { CTR_CROSSES_COLUMNS = 128 };
int ctr_crosses_new(struct ctr_crosses **c, const struct ctr_inputs *in, int64_t memory, struct ctr_err *err) CTR_MUST;
void ctr_crosses_free(struct ctr_crosses *c);
/* Rows with their predictions before the update, that of row i at score[i * stride]. */
void ctr_crosses_add(struct ctr_crosses *c, const struct ctr_rows *r, const double *score, int64_t stride);

struct ctr_cross {
    const char *name[2]; /* of the columns; borrowed */
    double gain;         /* share of the log loss that a weight for each frequent pair of values saves, on rows that it
                            was not learned from */
    double errors;       /* the gain in standard errors */
    int64_t rows;
};
/* 1: *found is the pair with the largest gain beyond chance; 0: there is none. */
int ctr_crosses_find(const struct ctr_crosses *c, struct ctr_cross *found, struct ctr_err *err) CTR_MUST;

#endif
