/* SPDX-License-Identifier: Apache-2.0
 *
 * keyset: the distinct keys of a minibatch, numbered from 0 in order of first occurrence. Unlike keyindex.h, which
 * keeps its keys for a whole run and grows in place, it is emptied after each minibatch and keeps its memory.
 * Zero-initialise to start. */
#ifndef CTR_KEYSET_H
#define CTR_KEYSET_H

#include "common/base/base.h"

struct ctr_keyset {
    uint64_t mask;
    struct ctr_buf slot; /* i32: number + 1, 0: empty */
    struct ctr_buf hash; /* u64 [n] */
    int64_t n;
};

/* The number of hash h, added if new; undefined after an error, which *rc holds. */
int32_t ctr_keyset_add(struct ctr_keyset *s, uint64_t h, int *rc, struct ctr_err *err);
void ctr_keyset_clear(struct ctr_keyset *s);
void ctr_keyset_free(struct ctr_keyset *s);
static inline const uint64_t *ctr_keyset_hashes(const struct ctr_keyset *s)
{
    return (const uint64_t *)(const void *)s->hash.data;
}

#endif
