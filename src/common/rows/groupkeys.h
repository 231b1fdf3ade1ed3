/* SPDX-License-Identifier: Apache-2.0
 *
 * groupkeys: numbers combinations of key values by first occurrence: 0, 1, … Values are compared as ctr_sort orders
 * them: null equals null, NaN equals NaN, -0 equals 0. A hash only says where to look. */
#ifndef CTR_GROUPKEYS_H
#define CTR_GROUPKEYS_H

#include "common/rows/relation.h"

struct ctr_groupkeys {
    struct ctr_batchbuf key; /* a row a number: the values of its first row */
    struct ctr_index index;
    int64_t n;
};

/* schema: of the keys alone; borrowed. */
int ctr_groupkeys_init(struct ctr_groupkeys *k, const struct ctr_schema *schema, struct ctr_err *err) CTR_MUST;
void ctr_groupkeys_free(struct ctr_groupkeys *k); /* also of one that is all zero */
void ctr_groupkeys_clear(struct ctr_groupkeys *k);
int64_t ctr_groupkeys_bytes(const struct ctr_groupkeys *k);

/* Numbers of rows row[0..n) of a batch whose first columns are the keys; hash: of its rows, by ctr_keys_hash. Keys that
 * have none get one if `add`, else -1. */
int ctr_groupkeys_find(struct ctr_groupkeys *k, const struct ctr_batch *b, const uint64_t *hash, const int32_t *row,
                       int64_t n, bool add, int64_t *number, struct ctr_err *err) CTR_MUST;

#endif
