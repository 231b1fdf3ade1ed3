/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_standalone.h: models that learned together are saved as if each had learned alone. They have their keys in the
 * tables of one lr, and share the order of these, which is made once for all files; it is good until more keys come,
 * and costs memory. */
#ifndef CTR_LR_STANDALONE_H
#define CTR_LR_STANDALONE_H

#include "common/lr/lr.h"
#include "common/variants/variants.h"

struct ctr_lr_order {
    struct ctr_buf place; /* struct ctr_sparse_numbered, sorted by key */
    bool made;
};
struct ctr_lr_orders {
    struct ctr_lr_order *of; /* by table */
    int tables;
};
/* For so many tables from now on; forgets all. */
int ctr_lr_orders_init(struct ctr_lr_orders *o, int tables, struct ctr_err *err) CTR_MUST;
void ctr_lr_orders_free(struct ctr_lr_orders *o);
void ctr_lr_orders_forget(struct ctr_lr_orders *o);
static inline struct ctr_sparse_numbered *ctr_lr_order_of(const struct ctr_lr_orders *o, int table, uint64_t *n)
{
    const struct ctr_buf *place = &o->of[table].place;
    *n = place->len / sizeof(struct ctr_sparse_numbered);
    return (struct ctr_sparse_numbered *)(void *)place->data;
}

/* What else files share of a table, made when its order is; several tables at once. Numbers may be changed. */
typedef int ctr_lr_ordered(void *ctx, int table, struct ctr_sparse_numbered *place, uint64_t n, struct ctr_err *err);
/* The orders that are not there yet, of the tables of `keys`, by the threads of a pool (NULL: one). */
int ctr_lr_orders_make(struct ctr_lr_orders *o, struct lr *keys, struct ctr_pool *pool, ctr_lr_ordered *ordered,
                       void *ctx, struct ctr_err *err) CTR_MUST;

/* The learner of variant i alone, without what all share; and ready to be saved: `sorted` is its caller's to fill in
 * for the first `tables` tables, whose rows are as those of `as`. */
int ctr_lr_standalone_new(const struct ctr_variants *vs, int i, struct lr **one, struct ctr_err *err) CTR_MUST;
int ctr_lr_standalone_file(const struct ctr_variants *vs, int i, const struct ctr_strs *names,
                           const struct ctr_learning *as, struct lr **one, struct ctr_err *err) CTR_MUST;

#endif
