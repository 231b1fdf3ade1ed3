/* SPDX-License-Identifier: Apache-2.0
 *
 * row_transform: what happens to a row between its columns and the learner or scorer ("Ad Click
 * Prediction: a View from the Trenches", section 9): keys hashed into fewer bits, x scaled to a norm, features dropped
 * at random. All of it is part of the model's options, so that prediction does the same.
 *
 * A row's change depends on the row alone (and on seed and the number of the pass), so that batches, threads and
 * resumed runs repeat it. */
#ifndef CTR_ROW_TRANSFORM_H
#define CTR_ROW_TRANSFORM_H

#include "common/model/model.h"
#include "common/table/table.h"

#define CTR_HASHED_TABLE "(hashed)" /* the one table of all keys of fewer bits */

struct ctr_row_transform {
    int hash_bits; /* 0: keys as they are, a table of its own for each */
    enum { CTR_NORM_NONE, CTR_NORM_L1, CTR_NORM_L2, CTR_NORM_MAX } norm;
    double drop;   /* learning: the share of features left out */
    double scale;  /* of x; predicting: the share that learning kept */
    uint64_t seed; /* of the pass */
    bool images;   /* columns of images are inputs, as features are */
};

/* `p` was checked. `pass`: the rows are learned from, for the pass-th time from 0; -1: they are predicted. */
struct ctr_row_transform ctr_row_transform_make(const struct ctr_params *p, int64_t pass);
/* Do rows get other x, or fewer entries? */
bool ctr_row_transform_scales(const struct ctr_row_transform *c);

/* The hash (ctr_sparse_hash) of a key of fewer bits: the first bits of the hash of the whole key. */
static inline uint64_t ctr_row_transform_fold(uint64_t hash, int bits)
{
    return ctr_sparse_hash(hash >> (64 - bits));
}

/* Change rows in place. Norms are taken over all features of a row, then features are dropped. x is not NULL. */
void ctr_row_transform_apply(const struct ctr_row_transform *c, int64_t rows, int64_t first_row, int64_t *start,
                             uint64_t *hash, uint16_t *table, double *x);

#endif
