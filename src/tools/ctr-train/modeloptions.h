/* SPDX-License-Identifier: Apache-2.0
 *
 * modeloptions: models' options as part of a tool's options. */
#ifndef CTR_MODELOPTIONS_H
#define CTR_MODELOPTIONS_H

#include "common/cli/cli.h"
#include "common/model/models.h"

/* An option table composed of the models' options and a tool's own rows. Zero-initialise to start; make it static,
 * because it is large and contains pointers into itself. */
enum { CTR_MODEL_OPTS_MAX = 128 };
struct ctr_model_opts {
    struct ctr_opt opt[CTR_MODEL_OPTS_MAX + 1];
    char help[CTR_MODEL_OPTS_MAX][256], arg[CTR_MODEL_OPTS_MAX][96];
    int n;
};
/* Add the options of a model, whose values go into *p; existing names are skipped, so that models share them. */
void ctr_model_opts_take(struct ctr_model_opts *t, const struct ctr_model *m, struct ctr_params *p);
void ctr_model_opts_add(struct ctr_model_opts *t, const struct ctr_opt *o);
const struct ctr_opt *ctr_model_opts_done(struct ctr_model_opts *t); /* by group: model first, many models last */
/* The input files that options of the model name are files that the tool reads: no output may be one of them. */
int ctr_model_opts_read(const struct ctr_model *m, struct ctr_cli *cli, const struct ctr_params *p,
                        struct ctr_err *err) CTR_MUST;
/* Apply a device learner's own defaults to *p; a given option that it does not support is an error. */
int ctr_model_opts_fit(const struct ctr_model *m, const struct ctr_cli *cli, struct ctr_params *p,
                       struct ctr_err *err) CTR_MUST;

#endif
