/* SPDX-License-Identifier: Apache-2.0
 *
 * source_shard: a source whose keys are owned by ranks; see source.h. */
#ifndef CTR_SOURCE_SHARD_H
#define CTR_SOURCE_SHARD_H

#include "common/comm/comm.h"
#include "common/table/source.h"

/* What its bytes are counted as. */
struct ctr_shard_kinds {
    enum ctr_comm_kind keys, values, gradients;
};

/* Does this rank own the key? */
static inline bool ctr_shard_owns(const struct ctr_comm *comm, uint64_t hash)
{
    return (int)(hash % (uint64_t)ctr_comm_size(comm)) == ctr_comm_rank(comm);
}

/* Rank hash % ranks owns a key: its row is in `below` of that rank, which is taken over, also where this fails. Every
 * call but load, summary and free is made by all ranks, in the same order, with the same tables and the same members of
 * an optimizer's step; keys differ. What is learned is what one rank would learn whose minibatch is those of all: the
 * gradients of a key are summed in the order of ranks. `saved`: floats of a row that ctr_source_save gives.
 *
 *     save   rank 0 gets the rows of all ranks in ascending order of keys, the others get none
 *     load   takes rows of any key, keeps those that this rank owns
 *     keys   of this rank */
int ctr_source_shard(struct ctr_source **s, struct ctr_comm *comm, struct ctr_source *below, int32_t saved,
                     const struct ctr_shard_kinds *kinds, struct ctr_err *err) CTR_MUST;

#endif
