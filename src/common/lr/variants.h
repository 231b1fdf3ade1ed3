/* SPDX-License-Identifier: Apache-2.0
 *
 * variants: many models trained in one pass ("Ad Click Prediction: a View from the Trenches", KDD 2013, sections 4.3
 * and 4.4). A file defines them, one variant per line:
 *
 *     # name   its own options, features included or excluded
 *     base
 *     fast     alpha=0.2
 *     sparse   l1=2 l2=1
 *     no-users out=user*,age
 *     few      in=C[1-5],ad out=C3 alpha=0.05
 *     boot1    weight=w1
 *
 * Options that a line does not set are those of the command. `in` (default: all) and `out` are comma-separated patterns
 * of column names, as in glob(7); a column is included if a pattern of `in` matches its name and no pattern of `out`
 * does. `weight` names the column of row weights, such as those of a bootstrap sample.
 */
#ifndef CTR_VARIANTS_H
#define CTR_VARIANTS_H

#include "common/model/model.h"

extern const struct ctr_model ctr_model_lr_variants;     /* lr with params.variants; not in the table of models */
extern const struct ctr_model ctr_model_lr_shared_value; /* the same, with one value per coordinate */

/* `base`: the options of the command. Errors name path and line. */
int ctr_variants_read(struct ctr_variants *vs, const char *path, const struct ctr_params *base,
                      struct ctr_err *err) CTR_MUST;
int ctr_variants_parse(struct ctr_variants *vs, const char *path, const char *text, size_t n,
                       const struct ctr_params *base, struct ctr_err *err) CTR_MUST;
void ctr_variants_free(struct ctr_variants *vs);

/* Find the tables that each variant learns. has[v * tables + t]. Fails if a pattern matches no column, if a variant has
 * no feature, or if it has some but not all columns of a table. */
int ctr_variants_bind(const struct ctr_variants *vs, const struct ctr_inputs *in, const struct ctr_strs *tables,
                      bool *has, struct ctr_err *err) CTR_MUST;

#endif
