/* SPDX-License-Identifier: Apache-2.0
 *
 * items: what negatives are drawn from: items by number, in the order of the time from which on they are known; their
 * weights; and which user took which. */
#ifndef CTR_ITEMS_H
#define CTR_ITEMS_H

#include "common/stream/stream.h"
#include "common/table/table.h"

struct ctr_items {
    struct ctr_batchbuf rows;    /* of ITEMS, by number */
    struct ctr_schema schema;    /* theirs */
    struct ctr_buf known;        /* int64_t each: ms; without a time INT64_MIN */
    struct ctr_keyvalue_set set; /* their keys */
    uint32_t *by_key;            /* number in `set` -> number */
    int64_t n;
    double popular;
    struct ctr_buf count, sum; /* int64_t each; sums of weights: a Fenwick tree; empty: all weigh alike */
    struct ctr_keyvalue_set users;
    struct ctr_keyindex taken; /* user and item */
    int64_t most_bytes;
    uint64_t seed;
};

/* Read all of `from`, whose column `key` names the item and `time` (-1: none) says from when on it is known. */
int ctr_items_read(struct ctr_items *s, const struct ctr_batch_source *from, const char *name, int key, int time,
                   struct ctr_err *err) CTR_MUST;
void ctr_items_free(struct ctr_items *s);                                           /* also of one that is all zero */
int64_t ctr_items_find(const struct ctr_items *s, const struct ctr_keyvalue *item); /* -1: unknown */
int64_t ctr_items_known(const struct ctr_items *s, int64_t time); /* how many are known before it: the first ones */
/* A user took an item; *user gets the user's number. */
int ctr_items_take(struct ctr_items *s, const struct ctr_keyvalue *user, int64_t item, struct ctr_err *err) CTR_MUST;
int ctr_items_weigh(struct ctr_items *s, struct ctr_err *err) CTR_MUST; /* all items, as often as they were counted */
void ctr_items_count(struct ctr_items *s, int64_t item);                /* once more; after weigh: and its weight */
/* Draw up to n different ones of the first `among` items that the user did not take, for row `row`. Returns how many.
 */
int64_t ctr_items_draw(const struct ctr_items *s, const struct ctr_keyvalue *user, int64_t row, int64_t among,
                       int64_t *drawn, int64_t n);

#endif
