/* SPDX-License-Identifier: Apache-2.0
 *
 * knownkeys: the keys that a model holds with weight 0. Prediction needs them only to distinguish them from keys that
 * the model has never seen. So keys are stored as fingerprints: the slot encodes some bits of the hash, and 32 bits are
 * stored, six bytes a key; about one in 10^9 unknown keys is taken for a known one. ctr_keyindex is exact, but
 * takes three times the memory.
 *
 *     room++ for each key, ctr_known_make, ctr_known_add …; then ctr_known_has, by any number of threads
 */
#ifndef CTR_KNOWNKEYS_H
#define CTR_KNOWNKEYS_H

#include "common/table/keyhash.h"

struct ctr_known {  /* zero-initialise */
    uint32_t *slot; /* 0: empty */
    uint64_t slots, room, used;
};
int ctr_known_make(struct ctr_known *k, struct ctr_err *err) CTR_MUST;
void ctr_known_free(struct ctr_known *k);
int ctr_known_add(struct ctr_known *k, uint64_t h, struct ctr_err *err) CTR_MUST; /* fails if there is no room */

static inline uint32_t ctr_known_print(uint64_t h)
{
    return (uint32_t)h | !(uint32_t)h;
}
/* The slot that holds a hash, or the empty slot where it belongs. */
static inline uint64_t ctr_known_slot(const struct ctr_known *k, uint64_t h)
{
    const uint32_t print = ctr_known_print(h);
    uint64_t i = ctr_hash_scale(h, k->slots);
    while (k->slot[i] && k->slot[i] != print)
        i = i + 1 == k->slots ? 0 : i + 1;
    return i;
}
static inline bool ctr_known_has(const struct ctr_known *k, uint64_t h)
{
    return k->slots && k->slot[ctr_known_slot(k, h)];
}

#endif
