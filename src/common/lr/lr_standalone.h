/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_standalone.h: saves models that were trained together as if each had been trained alone. Their keys are in the
 * tables of one lr; all files share the sorted order of the keys, computed once. It is valid until keys are added, and
 * takes memory. */
#ifndef CTR_LR_STANDALONE_H
#define CTR_LR_STANDALONE_H

#include "common/lr/lr.h"
#include "common/lr/variants.h"

struct ctr_lr_order {
    struct ctr_buf place; /* struct ctr_numbered, sorted by key */
    bool made;
};
struct ctr_lr_orders {
    struct ctr_lr_order *of; /* by table */
    int tables;
};
/* Prepare for so many tables; discards existing orders. */
int ctr_lr_orders_init(struct ctr_lr_orders *o, int tables, struct ctr_err *err) CTR_MUST;
void ctr_lr_orders_free(struct ctr_lr_orders *o);
void ctr_lr_orders_forget(struct ctr_lr_orders *o);
static inline struct ctr_numbered *ctr_lr_order_of(const struct ctr_lr_orders *o, int table, uint64_t *n)
{
    const struct ctr_buf *place = &o->of[table].place;
    *n = place->len / sizeof(struct ctr_numbered);
    return (struct ctr_numbered *)(void *)place->data;
}

/* Callback that computes other shared data of a table along with its order; runs for several tables at once. It may
 * change the numbers. */
typedef int ctr_lr_ordered(void *ctx, int table, struct ctr_numbered *place, uint64_t n, struct ctr_err *err);
/* Compute missing orders for the tables of `keys`, with the threads of a pool (NULL: one). */
int ctr_lr_orders_make(struct ctr_lr_orders *o, struct lr *keys, struct ctr_pool *pool, ctr_lr_ordered *ordered,
                       void *ctx, struct ctr_err *err) CTR_MUST;

/* Create the learner of variant i without the shared parts; then make it ready to be saved: the caller fills in
 * `sorted` for the first `tables` tables, whose rows have the layout of `as`. */
int ctr_lr_standalone_new(const struct ctr_variants *vs, int i, struct lr **one, struct ctr_err *err) CTR_MUST;
int ctr_lr_standalone_file(const struct ctr_variants *vs, int i, const struct ctr_strs *names,
                           const struct ctr_learning *as, struct lr **one, struct ctr_err *err) CTR_MUST;

#endif
