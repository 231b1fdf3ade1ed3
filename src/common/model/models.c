/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of models. */
#include "common/model/models.h"

/* ROW(model, what learns many of it in one pass with a value a model, the same with one value for all, what learns it
 * by minibatches); NULL: nothing does, or, of minibatches, the model itself. `ctr-train --help` has this order. */
#define MODELS(ROW)                                                                                                    \
    ROW(ctr_model_lr, &ctr_model_lr_variants, &ctr_model_lr_shared_value, &ctr_model_lr_minibatch)                     \
    ROW(ctr_model_mlp, NULL, NULL, NULL)                                                                               \
    ROW(ctr_model_din, NULL, NULL, NULL)                                                                               \
    ROW(ctr_model_two_tower, NULL, NULL, NULL)                                                                         \
    ROW(ctr_model_fm, NULL, NULL, NULL)                                                                                \
    ROW(ctr_model_dcnv2, NULL, NULL, NULL)                                                                             \
    ROW(ctr_model_dlrm, NULL, NULL, NULL)                                                                              \
    ROW(ctr_model_dicm, NULL, NULL, NULL)

extern const struct ctr_model ctr_model_lr_variants, ctr_model_lr_shared_value, ctr_model_lr_minibatch;
#define DECLARE(m, v, s, b) extern const struct ctr_model m;
MODELS(DECLARE)

#define ENTRY(m, v, s, b) { &(m), v, s, b },
static const struct {
    const struct ctr_model *model, *variants, *single_value, *by_minibatches;
} models[] = { MODELS(ENTRY) };

const struct ctr_model *ctr_model_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(models) ? models[i].model : NULL;
}

const struct ctr_model *ctr_model_find(const char *name)
{
    for (size_t i = 0; i < CTR_COUNT(models); i++)
        if (!strcmp(models[i].model->name, name))
            return models[i].model;
    return NULL;
}

const struct ctr_model *ctr_model_of_variants(const struct ctr_model *m, bool single_value)
{
    for (size_t i = 0; i < CTR_COUNT(models); i++)
        if (models[i].model == m)
            return single_value ? models[i].single_value : models[i].variants;
    return NULL;
}

const struct ctr_model *ctr_model_by_minibatches(const struct ctr_model *m)
{
    for (size_t i = 0; i < CTR_COUNT(models); i++)
        if (models[i].model == m && models[i].by_minibatches)
            return models[i].by_minibatches;
    return m;
}
