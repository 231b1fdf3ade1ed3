/* SPDX-License-Identifier: Apache-2.0
 *
 * models: the table of all models, and ctr_model_find of model.h. To add a model, add a row to the table. */
#ifndef CTR_MODELS_H
#define CTR_MODELS_H

#include "common/model/model.h"

const struct ctr_model *ctr_model_at(int i); /* NULL past the end */
/* The model that trains all of params.variants at once, with one shared value per coordinate or without; NULL: none. */
const struct ctr_model *ctr_model_of_variants(const struct ctr_model *m, bool single_value);
/* What learns it by minibatches, in memory, on disk, on a GPU, over ranks: itself, or a model with the same files. */
const struct ctr_model *ctr_model_by_minibatches(const struct ctr_model *m);

#endif
