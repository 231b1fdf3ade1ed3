/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_spill.h: internal to lr with rows on disk. lr_spill.c is the learner, and its files; lr_spill_keys.c decides which
 * keys are in memory. */
#ifndef CTR_LR_SPILL_H
#define CTR_LR_SPILL_H

#include "common/lr/lr.h"

struct ctr_lr_spill {
    struct lr *own; /* the keys in memory, and the bias */
    struct ctr_rowstore *store;
    int32_t floats; /* of a row: a state */
    int64_t minibatch;
    uint64_t *keys; /* by table: in memory or in the store */
    int tables;     /* of keys */
    /* Of lr_spill_keys.c: */
    uint64_t first, free;   /* the first number; the numbers below `free` have keys, or wait in a table */
    struct ctr_buf use;     /* u8, by number */
    struct ctr_buf number;  /* u32, by entry of the block */
    struct ctr_buf pinned;  /* u32: numbers of the minibatch in progress */
    struct ctr_buf key, of; /* struct ctr_rowkey, u32: keys to read or to write, and their numbers */
    struct ctr_buf row;     /* f32: some rows */
    struct ctr_rowstore_told told;
    /* While it is saved. */
    enum ctr_changes what;
    struct ctr_lr_elsewhere elsewhere;
};

/* lr_spill_keys.c */
int ctr_lr_spill_keys_init(struct ctr_lr_spill *l, struct ctr_err *err) CTR_MUST;
void ctr_lr_spill_keys_free(struct ctr_lr_spill *l);
/* Find the keys of rows [from, *end), a block, for l->number, with their states; of fewer rows where room is scarce.
 * They stay in memory until l->pinned is emptied. */
int ctr_lr_spill_bring(struct ctr_lr_spill *l, const struct ctr_rows *r, int64_t from, int64_t *end,
                       struct ctr_err *err) CTR_MUST;
/* Write to the store what is newer in memory. */
int ctr_lr_spill_settle(struct ctr_lr_spill *l, struct ctr_err *err) CTR_MUST;
/* Move all rows of `own` to the store, which lacks them. */
int ctr_lr_spill_move(struct ctr_lr_spill *l, struct ctr_err *err) CTR_MUST;
uint64_t ctr_lr_spill_bytes(const struct ctr_lr_spill *l); /* that count for --memory */

#endif
