/* SPDX-License-Identifier: Apache-2.0
 *
 * evalcontrol: scores of another model beside those of the main stream. */
#ifndef CTR_EVALCONTROL_H
#define CTR_EVALCONTROL_H

#include "common/metric/metric.h"

/* Scores of another model for the same rows, read in parallel with the main stream: evalcontrol.c. `names`: column
 * names from the options, by role, or NULL. */
struct ctr_eval_control;
int ctr_eval_control_open(struct ctr_eval_control **c, const char *path, const char *const *names,
                          struct ctr_err *err) CTR_MUST;
void ctr_eval_control_free(struct ctr_eval_control *c);
bool ctr_eval_control_narrow(const struct ctr_eval_control *c); /* for opts.narrow_control */
/* The control's scores for the rows of b, the next batch; labels, weights, ids, users and times that both streams have
 * must be equal, row by row. Borrowed until the next call. */
int ctr_eval_control_scores(struct ctr_eval_control *c, const struct ctr_metric_columns *columns, int id,
                            const struct ctr_batch *b, const double **scores, struct ctr_err *err) CTR_MUST;
int ctr_eval_control_end(struct ctr_eval_control *c, int64_t rows,
                         struct ctr_err *err) CTR_MUST; /* fails if it has more rows */

#endif
