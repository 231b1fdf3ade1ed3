/* SPDX-License-Identifier: Apache-2.0
 *
 * Distinct keys of a minibatch: open addressing, at least half empty. A table of its own since a slot is the number of
 * a key, 4 bytes, beside the array of hashes that a source takes as it is: ctr_keyindex would keep each key a second
 * time, and is not emptied for each minibatch. See keyset.h. */
#include "common/table/keyset.h"

enum { FIRST_SLOTS = 1024 };

static int grow(struct ctr_keyset *s, struct ctr_err *err)
{
    const uint64_t slots = s->mask ? (s->mask + 1) * 2 : FIRST_SLOTS;
    s->slot.len = 0;
    int rc = ctr_buf_reserve(&s->slot, slots * sizeof(int32_t), err);
    if (rc)
        return rc;
    int32_t *slot = (int32_t *)(void *)s->slot.data;
    memset(slot, 0, slots * sizeof *slot);
    s->mask = slots - 1;
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t at = ctr_hash_place(ctr_keyset_hashes(s)[i], s->mask);
        while (slot[at])
            at = (at + 1) & s->mask;
        slot[at] = (int32_t)i + 1;
    }
    return 0;
}

int32_t ctr_keyset_add(struct ctr_keyset *s, uint64_t h, int *rc, struct ctr_err *err)
{
    if ((uint64_t)(s->n + 1) * 2 > s->mask && (*rc = grow(s, err)))
        return 0;
    int32_t *slot = (int32_t *)(void *)s->slot.data;
    uint64_t at = ctr_hash_place(h, s->mask);
    for (int32_t i; (i = slot[at]); at = (at + 1) & s->mask)
        if (ctr_keyset_hashes(s)[i - 1] == h)
            return i - 1;
    if ((*rc = ctr_buf_append(&s->hash, &h, sizeof h, err)))
        return 0;
    slot[at] = (int32_t)++s->n;
    return (int32_t)s->n - 1;
}

void ctr_keyset_clear(struct ctr_keyset *s)
{
    if (s->n)
        memset(s->slot.data, 0, (s->mask + 1) * sizeof(int32_t));
    ctr_buf_clear(&s->hash);
    s->n = 0;
}

void ctr_keyset_free(struct ctr_keyset *s)
{
    ctr_buf_free(&s->slot);
    ctr_buf_free(&s->hash);
}
