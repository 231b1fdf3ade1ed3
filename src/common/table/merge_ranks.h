/* SPDX-License-Identifier: Apache-2.0
 *
 * merge_ranks: sends the rows of all ranks, each rank's in ascending order of keys, to rank 0 in that order.
 *
 *     ctr_merge_ranks(comm, row_bytes, own, own_ctx, each, ctx, err)
 *
 * All ranks call it. own(own_ctx, take, to, err) calls take(to, key, row, err) for each row of this rank; each(ctx,
 * key, row, err) is called on rank 0 only, for each row of all ranks. A key occurs on one rank only. A rank buffers a
 * piece of its rows, and rank 0 a piece of every other rank's: no rank holds a whole table. Rows are aligned as floats
 * and are borrowed during a call. */
#ifndef CTR_MERGE_RANKS_H
#define CTR_MERGE_RANKS_H

#include "common/compute/comm.h"

typedef int ctr_merge_row(void *ctx, uint64_t key, const void *row, struct ctr_err *err);
typedef int ctr_merge_own(void *ctx, ctr_merge_row *take, void *to, struct ctr_err *err);

int ctr_merge_ranks(struct ctr_comm *comm, size_t row_bytes, ctr_merge_own *own, void *own_ctx, ctr_merge_row *each,
                    void *ctx, struct ctr_err *err) CTR_MUST;

#endif
