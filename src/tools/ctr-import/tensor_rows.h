/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_rows: tensors as rows: every tensor whose first dimension is the number of rows is a column.
 *
 *     struct ctr_tensor_rows *r;  const struct ctr_batch *b;
 *     ctr_tensor_rows_open(&r, path, names, batch_rows, err)
 *     while ((rc = ctr_tensor_rows_next(r, &b, err)) > 0)  … b is borrowed until the next call …
 */
#ifndef CTR_TENSOR_ROWS_H
#define CTR_TENSOR_ROWS_H

#include "common/stream/batch.h"

/* The rows of the tensors `names` (owned by the caller; "NAME" or "NAME=TENSOR"), or, if NULL, of all. Their first
 * dimensions must be equal; the other dimensions form a fixed_size_list; shape [n] gives numbers. */
struct ctr_tensor_rows;
int ctr_tensor_rows_open(struct ctr_tensor_rows **r, const char *path, const struct ctr_strs *names, int64_t batch_rows,
                         struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_tensor_rows_schema(const struct ctr_tensor_rows *r);
/* "images [100, 3, 7, 7]": the first column with more than two dimensions, flattened to one list per row; or NULL. */
const char *ctr_tensor_rows_flattened(const struct ctr_tensor_rows *r);
/* Before the first next: give the column of that name a role. */
int ctr_tensor_rows_role(struct ctr_tensor_rows *r, const char *name, enum ctr_role role, struct ctr_err *err) CTR_MUST;
int ctr_tensor_rows_next(struct ctr_tensor_rows *r, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
void ctr_tensor_rows_free(struct ctr_tensor_rows *r);

#endif
