/* SPDX-License-Identifier: Apache-2.0
 *
 * models: the table of models, above all learners, and ctr_model_find of model.h; the options of models as a tool's. A
 * new model is a row of the table. */
#ifndef CTR_MODELS_H
#define CTR_MODELS_H

#include "common/cli/cli.h"
#include "common/model/model.h"

const struct ctr_model *ctr_model_at(int i); /* NULL past the end */
/* What learns the models of params.variants, with one value a coordinate for all of them or not; NULL: nothing. */
const struct ctr_model *ctr_model_of_variants(const struct ctr_model *m, bool single_value);

/* An option table made of those of models and of a tool's own rows. Zero-initialise to start; it is large, and what it
 * holds points into it: static. */
enum { CTR_MODEL_OPTS_MAX = 96 };
struct ctr_model_opts {
    struct ctr_opt opt[CTR_MODEL_OPTS_MAX + 1];
    char help[CTR_MODEL_OPTS_MAX][256], arg[CTR_MODEL_OPTS_MAX][96];
    int n;
};
/* The options of a model, whose values go into *p; names that are there already are left out, so that models share
 * them. */
void ctr_model_opts_take(struct ctr_model_opts *t, const struct ctr_model *m, struct ctr_params *p);
void ctr_model_opts_add(struct ctr_model_opts *t, const struct ctr_opt *o);
const struct ctr_opt *ctr_model_opts_done(struct ctr_model_opts *t); /* by group: model first, many models last */
/* The input files that options of the model name are files that the tool reads: no output may be one of them. */
int ctr_model_opts_read(const struct ctr_model *m, struct ctr_cli *cli, const struct ctr_params *p,
                        struct ctr_err *err) CTR_MUST;
/* What a learner on a device does otherwise: its own defaults in *p; an option that was given and that it does not take
 * is an error. */
int ctr_model_opts_of_device(const struct ctr_model *device, const struct ctr_cli *cli, struct ctr_params *p,
                             struct ctr_err *err) CTR_MUST;

#endif
