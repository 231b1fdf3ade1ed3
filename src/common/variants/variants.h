/* SPDX-License-Identifier: Apache-2.0
 *
 * variants: many models learned in one pass ("Ad Click Prediction: a View from the Trenches", KDD 2013, sections 4.3
 * and 4.4). A file says which, a line a variant:
 *
 *     # name   options of its own, features left in or out
 *     base
 *     fast     alpha=0.2
 *     sparse   l1=2 l2=1
 *     no-users out=user*,age
 *     few      in=C[1-5],ad out=C3 alpha=0.05
 *     boot1    weight=w1
 *
 * Options that a line does not name are those of the command. `in` (default: all) and `out` are patterns of column
 * names as of glob(7), joined by commas; a column is in when some pattern of `in` and none of `out` matches its name.
 * `weight` is the column with the weights of rows, such as those of a bootstrap sample.
 */
#ifndef CTR_VARIANTS_H
#define CTR_VARIANTS_H

#include "common/model/model.h"

extern const struct ctr_model ctr_model_lr_variants;     /* lr with params.variants; no row of the table */
extern const struct ctr_model ctr_model_lr_shared_value; /* the same, with one value a coordinate */

/* `base`: the options of the command. Errors name path and line. */
int ctr_variants_read(struct ctr_variants *vs, const char *path, const struct ctr_params *base,
                      struct ctr_err *err) CTR_MUST;
int ctr_variants_parse(struct ctr_variants *vs, const char *path, const char *text, size_t n,
                       const struct ctr_params *base, struct ctr_err *err) CTR_MUST;
void ctr_variants_free(struct ctr_variants *vs);

/* Which tables does each variant learn? has[v * tables + t]. Fails when a pattern matches no column, when a variant has
 * no feature, or has some and not all columns of a table. */
int ctr_variants_bind(const struct ctr_variants *vs, const struct ctr_inputs *in, const struct ctr_strs *tables,
                      bool *has, struct ctr_err *err) CTR_MUST;

#endif
