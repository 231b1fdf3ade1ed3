/* SPDX-License-Identifier: Apache-2.0
 *
 * model_tower: the tower of images of a model, alone: vectors of images to the values that stand for them in the model
 * (Ge et al., "Image Matters", CIKM 2018, section 4: the embedding model), for serving. A value depends on its vector
 * and the tower alone, and has the bits that the model computes. */
#ifndef CTR_MODEL_TOWER_H
#define CTR_MODEL_TOWER_H

#include "common/base/base.h"

struct ctr_model_tower;
struct ctr_model_tower_opts {
    const char *device; /* NULL, cpu, gpu, auto */
    int64_t device_memory;
    int threads;
};
/* A model without a tower is an error. Keys of the model are not read. */
int ctr_model_tower_open(struct ctr_model_tower **t, const char *path, const struct ctr_model_tower_opts *o,
                         struct ctr_err *err) CTR_MUST;
void ctr_model_tower_free(struct ctr_model_tower *t);
int32_t ctr_model_tower_inputs(const struct ctr_model_tower *t); /* numbers of a vector */
int32_t ctr_model_tower_width(const struct ctr_model_tower *t);  /* of a value */
/* "tower=…": what tables of values carry first in CTR_META_NETWORK, so that a model knows its own. */
const char *ctr_model_tower_text(const struct ctr_model_tower *t);
int ctr_model_tower_rows(struct ctr_model_tower *t, const float *vectors, int64_t n, float *values,
                         struct ctr_err *err) CTR_MUST;

#endif
