/* SPDX-License-Identifier: Apache-2.0
 *
 * source_ranks: a source whose keys are distributed over ranks; see source.h. */
#ifndef CTR_SOURCE_RANKS_H
#define CTR_SOURCE_RANKS_H

#include "common/compute/comm.h"
#include "common/table/source.h"

/* The kinds under which the transferred bytes are counted. */
struct ctr_source_ranks_kinds {
    enum ctr_comm_kind keys, values, gradients;
};

/* The rank that owns a key, of ids by their hash and of images by the row of their table. It is hashed here: tables of
 * images are sorted by key, in which neighbours differ, such as the front and the back of an ad, whose uses are not
 * alike. By row % 2 one of two ranks would embed all of the fronts. */
static inline int ctr_rank_owner(uint64_t key, int ranks)
{
    return (int)(ctr_mix64(key) % (uint64_t)ranks);
}

/* The owner of a key (ctr_rank_owner) stores its row in its own `below`, which the source takes over even if this call
 * fails. All ranks make every call except load, summary and free, in the same order, with the same tables and the same
 * optimizer settings; keys differ. The result equals that of one rank trained on the union of all minibatches: the
 * gradients of a key are summed in the order of ranks. `saved`: floats per row that ctr_source_save returns.
 *
 *     save   rank 0 gets the rows of all ranks in ascending order of keys, the others get none
 *     load   ignores rows of keys that other ranks own
 *     keys   of this rank */
int ctr_source_ranks(struct ctr_source **s, struct ctr_comm *comm, struct ctr_source *below, int32_t saved,
                     const struct ctr_source_ranks_kinds *kinds, struct ctr_err *err) CTR_MUST;

#endif
