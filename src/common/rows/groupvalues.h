/* SPDX-License-Identifier: Apache-2.0
 *
 * groupvalues: the values of a column by group and, within a group, in order: what distinct and quantile need. */
#ifndef CTR_GROUPVALUES_H
#define CTR_GROUPVALUES_H

#include "common/rows/relation.h"

struct ctr_groupvalues {
    const struct ctr_schema *schema; /* borrowed: "number", int64, and "value", of any type that has an order */
    struct ctr_sort_opts sort_opts;  /* memory_bytes: also of pairs in memory */
    struct ctr_batchbuf pairs;       /* that the sort has not */
    struct ctr_sort *sort;           /* of texts, and of more pairs than memory holds; NULL: none */
    struct ctr_buf start, key;       /* in memory: of each group its first value; values as unsigned in their order */
    struct ctr_buf out;
    int64_t groups, at, group; /* at: the next value; group: its group */
    struct ctr_col col[2];
    struct ctr_batch batch;
};

/* o->keys: number and value; borrowed, as the schema. */
int ctr_groupvalues_init(struct ctr_groupvalues *v, const struct ctr_schema *schema, const struct ctr_sort_opts *o,
                         struct ctr_err *err) CTR_MUST;
void ctr_groupvalues_free(struct ctr_groupvalues *v); /* also of one that is all zero */
/* Values of rows row[0..n), of groups number[0..n); nulls and rows of number -1 are left out. */
int ctr_groupvalues_add(struct ctr_groupvalues *v, const struct ctr_col *c, const int32_t *row, const int64_t *number,
                        int64_t n, struct ctr_err *err) CTR_MUST;
int ctr_groupvalues_finish(struct ctr_groupvalues *v, int64_t groups, struct ctr_err *err) CTR_MUST;
/* Batches sorted by number and value, until 0; borrowed until the next call. A value may come as int64, uint64 or
 * float64 in place of its own type, NaN as any NaN, and -0 as 0. */
int ctr_groupvalues_next(struct ctr_groupvalues *v, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
/* Empty it; *st: what its sort did is added. */
void ctr_groupvalues_clear(struct ctr_groupvalues *v, struct ctr_group_stats *st);

#endif
