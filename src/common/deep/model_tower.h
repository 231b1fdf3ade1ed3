/* SPDX-License-Identifier: Apache-2.0
 *
 * model_tower: a model's image tower by itself, for serving: maps image vectors to the values that represent them in
 * the model (Ge et al., "Image Matters", CIKM 2018, section 4: the embedding model). A value depends only on its vector
 * and the tower, and has the same bits as in the model. */
#ifndef CTR_MODEL_TOWER_H
#define CTR_MODEL_TOWER_H

#include "common/base/base.h"

struct ctr_model_tower;
struct ctr_model_tower_opts {
    const char *device; /* NULL, cpu, gpu, auto */
    int64_t device_memory;
    int threads;
};
/* A model without a tower is an error. Does not read the model's keys. */
int ctr_model_tower_open(struct ctr_model_tower **t, const char *path, const struct ctr_model_tower_opts *o,
                         struct ctr_err *err) CTR_MUST;
void ctr_model_tower_free(struct ctr_model_tower *t);
int32_t ctr_model_tower_inputs(const struct ctr_model_tower *t); /* floats of an input vector */
int32_t ctr_model_tower_width(const struct ctr_model_tower *t);  /* floats of a value */
/* "tower=…": the start of CTR_META_NETWORK in tables of values, by which a model recognises its own. */
const char *ctr_model_tower_text(const struct ctr_model_tower *t);
int ctr_model_tower_rows(struct ctr_model_tower *t, const float *vectors, int64_t n, float *values,
                         struct ctr_err *err) CTR_MUST;

#endif
