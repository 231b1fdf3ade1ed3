/* SPDX-License-Identifier: Apache-2.0
 *
 * lr beyond memory, exactly row by row. Keys and states of the rows that are being learned are in the learner's tables,
 * as always; those that do not fit are on disk (keypages.h), with their keys, so that no index of all keys is in
 * memory.
 *
 *     bring    before some rows are learned: the states of their keys that memory lacks, in one sweep of the disk
 *     learn    as in memory: the learner, its optimizers and its inclusion filter know nothing of the disk
 *     empty    when memory is full: all of its states go to disk, in one sweep, and the tables start anew
 *
 * So a key's state is what it would be in memory, whatever --memory is. Nothing is read or written while all keys fit.
 */
#ifndef CTR_LR_SPILL_H
#define CTR_LR_SPILL_H

#include "common/model/model.h"

struct lr;
struct ctr_lr_spill;

/* *spill stays NULL without --spill. Fails if an option does not go with it. */
int ctr_lr_spill_new(struct ctr_lr_spill **spill, const struct lr *m, struct ctr_err *err) CTR_MUST;
void ctr_lr_spill_free(struct ctr_lr_spill *s);
int ctr_lr_spill_bind(struct lr *m, struct ctr_err *err) CTR_MUST;

/* Bring the keys of rows from `from` on into memory, of as many as it holds: *end. `train`: they are learned from next,
 * and the keys of the rows ahead, which train_rows gets then, are brought with them. */
int ctr_lr_spill_bring(struct lr *m, const struct ctr_rows *r, int64_t from, bool train, int64_t *end,
                       struct ctr_err *err) CTR_MUST;
void ctr_lr_spill_set_ahead(void *learner, const struct ctr_ahead *ahead); /* of struct ctr_model */
/* While a model is read: make room for a key that is not on disk. */
int ctr_lr_spill_room(struct lr *m, struct ctr_err *err) CTR_MUST;
/* Before a model is saved: if keys are on disk, all of them are, and m->saved.elsewhere has them. */
int ctr_lr_spill_settle(struct lr *m, struct ctr_err *err) CTR_MUST;

/* Keys that are on disk alone, and bytes beside the tables; 0 for NULL. */
int64_t ctr_lr_spill_keys(const struct ctr_lr_spill *s);
int64_t ctr_lr_spill_memory(const struct ctr_lr_spill *s);
void ctr_lr_spill_summary(const struct lr *m, struct ctr_say *text);

#endif
