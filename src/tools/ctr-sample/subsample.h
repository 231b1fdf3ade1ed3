/* SPDX-License-Identifier: Apache-2.0
 *
 * subsample: a share of the queries without a click. */
#ifndef CTR_SUBSAMPLE_H
#define CTR_SUBSAMPLE_H

#include "common/stream/batch.h"

struct ctr_subsample_opts {
    int query, label, weight; /* columns; weight -1: none, a new one with that name is added */
    double share;             /* of the queries without a click to keep, in (0, 1] */
    uint64_t seed;            /* queries are selected by their hash: the same in every shard and order of rows */
    int64_t memory_bytes;     /* 0: no bound; 16 to 32 bytes per query with a click */
};
struct ctr_subsample_stats {
    int64_t rows, kept, clicked_rows; /* read; kept; kept because their query has a click */
    int64_t clicked_queries;
};
/* Keeps every row of a query with a click unchanged, and a share of the other queries, all rows of each, with weights
 * divided by the share ("Ad Click Prediction", 4.5). Rows keep their order; rows of a query need not be adjacent. */
struct ctr_subsample;
int ctr_subsample_new(struct ctr_subsample **s, const struct ctr_schema *in, const struct ctr_subsample_opts *o,
                      struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_subsample_schema(const struct ctr_subsample *s);
int ctr_subsample_batch(struct ctr_subsample *s, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_subsample_finish(struct ctr_subsample *s, struct ctr_err *err) CTR_MUST;
int ctr_subsample_next(struct ctr_subsample *s, const struct ctr_batch **b,
                       struct ctr_err *err) CTR_MUST; /* 1, 0, < 0 */
void ctr_subsample_get_stats(const struct ctr_subsample *s, struct ctr_subsample_stats *st);
void ctr_subsample_free(struct ctr_subsample *s);

#endif
