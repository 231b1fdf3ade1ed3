/* SPDX-License-Identifier: Apache-2.0
 *
 * knownkeys: see knownkeys.h. Invariant: a third of the slots is empty, so that every search ends. */
#include "common/table/knownkeys.h"

#include <stdlib.h>

int ctr_known_make(struct ctr_known *k, struct ctr_err *err)
{
    k->slots = k->room ? k->room + k->room / 2 + 1 : 0;
    k->slot = k->slots ? calloc(k->slots, sizeof *k->slot) : NULL;
    return k->slot || !k->slots ? 0 : ctr_fail_nomem(err, k->slots * sizeof *k->slot);
}

void ctr_known_free(struct ctr_known *k)
{
    free(k->slot);
    *k = (struct ctr_known){ 0 };
}

int ctr_known_add(struct ctr_known *k, uint64_t h, struct ctr_err *err)
{
    if (k->used == k->room)
        return ctr_fail(err, CTR_EDATA, "the model changed while it was read");
    k->used++;
    k->slot[ctr_known_slot(k, h)] = ctr_known_print(h);
    return 0;
}
