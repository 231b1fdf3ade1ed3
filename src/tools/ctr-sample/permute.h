/* SPDX-License-Identifier: Apache-2.0
 *
 * permute: the values of some columns move to other rows. */
#ifndef CTR_PERMUTE_H
#define CTR_PERMUTE_H

#include "common/stream/stream.h"

struct ctr_permute_opts {
    const char *columns; /* as of --columns; all of a row move to the same row */
    uint64_t seed;
    int64_t memory_bytes, batch_rows; /* of the shuffle */
    int threads;
};
struct ctr_permute;
/* Read all of `rows`. Then *s gives the same rows, but for the values of the columns: row i has those of row pi(i),
 * where pi is a permutation that depends on the seed, the columns' names and the number of rows. *p lives as long as
 * *s; rows lie in an unnamed file in $TMPDIR, and the columns in memory or there. */
int ctr_permute_source(struct ctr_permute **p, struct ctr_batch_source *s, const struct ctr_batch_source *rows,
                       const struct ctr_permute_opts *o, struct ctr_err *err) CTR_MUST;
void ctr_permute_free(struct ctr_permute *p); /* after *s is closed */

#endif
