/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted: the keys of a hash table in ascending order, with little memory: ranges of keys are collected and sorted one
 * after another. For keyindex.h. */
#ifndef CTR_SORTED_H
#define CTR_SORTED_H

#include "common/base/base.h"

struct ctr_numbered {
    uint64_t key, number;
};
/* Sorts a by key; returns the result: a, or b, which has as much room. */
struct ctr_numbered *ctr_numbered_sort(struct ctr_numbered *a, struct ctr_numbered *b, size_t n);

/* Gets a range of sorted keys, which it may change. */
typedef int ctr_sorted_range(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err);

/* A table as an array of `places`, each with at most `each` keys. */
struct ctr_sorted_of {
    const void *table;
    uint64_t keys, places, each;
    uint64_t all; /* keys, of this table and others that are in memory: more of them may be sorted at a time */
    bool (*first)(const void *table, uint64_t place, uint64_t *key); /* false: the place is empty */
    /* Collects, from `n` places, the keys in [low, low + span], with their numbers; e has room for CTR_SORTED_SPARE
     * more than all keys of these places; returns how many it filled. */
    uint64_t (*collect)(const void *table, uint64_t place, uint64_t n, uint64_t low, uint64_t span,
                        struct ctr_numbered *e);
    const struct ctr_numbered *outside; /* a key outside the array, or NULL */
};
enum { CTR_SORTED_SPARE = 8 };
int ctr_sorted_ranges(const struct ctr_sorted_of *of, ctr_sorted_range *range, void *ctx, struct ctr_err *err) CTR_MUST;

#endif
