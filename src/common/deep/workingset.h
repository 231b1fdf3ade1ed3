/* SPDX-License-Identifier: Apache-2.0
 *
 * workingset: rows of the tables that stay in the memory of a device from minibatch to minibatch, so that tables may be
 * larger than it.
 *
 * A row of a table is known to the device by its number: table << 32 | row. ctr_dev_slots says which rows of a
 * minibatch are there (hits) and which are not (misses: they are brought), and which had to go for them (evictions:
 * they are written back into their table first). The optimizer changes the rows where they lie. A row that finds no
 * slot, because the eight of its set are all in this minibatch, lives in the minibatch's own rows (d->u) and returns to
 * its table after the update.
 *
 * What the set holds is newer than what the tables hold: ctr_workset_save makes them equal, before a table is read by
 * anyone else. No bit of a model depends on the set nor on its size.
 *
 * The set takes at most half of the memory that is free when the buffers of a first minibatch are there, and grows with
 * the tables. $CTR_WORKING_SET bounds its rows (0: no set), for tests and measurements. */
#ifndef CTR_WORKINGSET_H
#define CTR_WORKINGSET_H

#include "common/deep/deep.h"

/* Where a minibatch begins: d->in_set says whether its rows go through the set. If it is `learned` from, on a device
 * with memory of its own, the set is made or made larger. */
int ctr_workset_fit(struct ctr_deep *d, struct ctr_deep_tables *all, bool learned, struct ctr_err *err) CTR_MUST;

/* Bring rows id[0 … n) to the places [before, before + n) of d->u: their values, and those without a slot whole. */
int ctr_workset_pull(struct ctr_deep *d, struct ctr_deep_tables *all, const uint64_t *id, int64_t before, int64_t n,
                     struct ctr_err *err) CTR_MUST;
/* The optimizer's step for the rows of the minibatch, given as if all were whole in d->u. */
int ctr_workset_step(struct ctr_deep *d, struct ctr_deep_tables *all, const struct ctr_dev_opt_rows *step,
                     struct ctr_err *err) CTR_MUST;
/* Write the rows of the set back into the tables; they stay in the set, too. */
int ctr_workset_save(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_err *err) CTR_MUST;
void ctr_workset_free(struct ctr_deep *d);

/* Lines for the summary; none without a set. */
int ctr_workset_words(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;

#endif
