/* SPDX-License-Identifier: Apache-2.0
 *
 * groupsave: groups as rows of a stream, which a later run takes up: the keys, the words of the state (groupstate.h),
 * and a column for each aggregate that keeps values beside its words. The schema says what was asked for. The values
 * of a column that are needed in order are a section each: the keys, the value, and how many times it came. */
#ifndef CTR_GROUPSAVE_H
#define CTR_GROUPSAVE_H

#include "common/rows/groupstate.h"

#define CTR_META_STATE "ctr.state" /* schema: what a state is of */

struct ctr_groupsave { /* zero-initialise */
    struct ctr_schema schema;
    const struct ctr_aggregate *agg; /* borrowed */
    int n, keys, stride, nvalues;
    struct ctr_batchbuf rows;
    struct ctr_schema *valued; /* of each column of values */
    struct ctr_sort **sort;
    struct ctr_batchbuf times; /* rows of values */
};
/* keys: their fields. valued: "number" and "value", nvalues of them (groupvalues.h). o: of sorts of values. */
int ctr_groupsave_init(struct ctr_groupsave *s, const struct ctr_schema *keys, const struct ctr_aggregate *agg, int n,
                       int stride, const struct ctr_schema *valued, int nvalues, const struct ctr_sort_opts *o,
                       struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_groupsave_schema(const struct ctr_groupsave *s, int section); /* 0, then those of values */
/* A batch of numbers and values of column k, sorted by both, of groups whose keys are key[0..keys) by number. */
int ctr_groupsave_values(struct ctr_groupsave *s, int k, const struct ctr_col *key, const struct ctr_batch *b,
                         struct ctr_err *err) CTR_MUST;
/* After all of them: rows of section 1 + k, sorted by keys and value; 1, 0: no more, < 0. Borrowed. */
int ctr_groupsave_next(struct ctr_groupsave *s, int k, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
void ctr_groupsave_free(struct ctr_groupsave *s);
/* Rows for the groups number[i] of of[i], whose keys are rows [at, at + n) of key; borrowed until the next call. */
int ctr_groupsave_rows(struct ctr_groupsave *s, const struct ctr_col *key, int64_t at, struct ctr_groupstate *const *of,
                       const int64_t *number, int64_t n, const struct ctr_batch **out, struct ctr_err *err) CTR_MUST;
/* Is a stream of this schema a section of a state of the same? */
int ctr_groupsave_check(const struct ctr_groupsave *s, int section, const struct ctr_schema *of,
                        struct ctr_err *err) CTR_MUST;
/* Rows row[0..n) of such a stream become the states number[0..n), which are new. */
int ctr_groupsave_restore(const struct ctr_groupsave *s, struct ctr_groupstate *state, const struct ctr_batch *b,
                          const int32_t *row, const int64_t *number, int64_t n, struct ctr_err *err) CTR_MUST;

#endif
