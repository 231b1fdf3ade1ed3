/* SPDX-License-Identifier: Apache-2.0
 *
 * row_transform: changes to a row between its columns and the learner or scorer ("Ad Click Prediction: a View from the
 * Trenches", section 9): hashing keys into fewer bits, scaling x to a norm, dropping features at random. The settings
 * are model options, so prediction does the same.
 *
 * The change depends only on the row, the seed and the number of the pass, so batches, threads and resumed runs repeat
 * it. */
#ifndef CTR_ROW_TRANSFORM_H
#define CTR_ROW_TRANSFORM_H

#include "common/model/model.h"
#include "common/table/table.h"

#define CTR_HASHED_TABLE "(hashed)" /* the single table of hashed keys */

struct ctr_row_transform {
    int hash_bits; /* 0: unchanged keys, one table per feature table */
    enum { CTR_NORM_NONE, CTR_NORM_L1, CTR_NORM_L2, CTR_NORM_MAX } norm;
    double drop;   /* training: the share of features left out */
    double scale;  /* of x; prediction: the share that training kept */
    uint64_t seed; /* of the pass */
    bool images;   /* image columns are inputs, like features */
};

/* `p` must have been checked. `pass`: number of the training pass, from 0; -1: prediction. */
struct ctr_row_transform ctr_row_transform_make(const struct ctr_params *p, int64_t pass);
/* Does it change x or remove entries? */
bool ctr_row_transform_scales(const struct ctr_row_transform *c);

/* The hash (ctr_key_hash) of a shortened key: the first bits of the whole key's hash. */
static inline uint64_t ctr_row_transform_fold(uint64_t hash, int bits)
{
    return ctr_key_hash(hash >> (64 - bits));
}

/* Change rows in place. Norms are computed over all features of a row, then features are dropped. x must not be
 * NULL. */
void ctr_row_transform_apply(const struct ctr_row_transform *c, int64_t rows, int64_t first_row, int64_t *start,
                             uint64_t *hash, uint16_t *table, double *x);

#endif
