/* SPDX-License-Identifier: Apache-2.0
 *
 * index: elements of an array by hash. Invariant: at most 60% of the slots are taken, so that every search ends. */
#include "common/base/base.h"

#include <stdlib.h>

static void put(struct ctr_index *x, struct ctr_index_slot s)
{
    struct ctr_index_slot *to = ctr_index_home(x, s.hash);
    while (to->number != CTR_INDEX_FREE)
        to = ctr_index_after(x, to);
    *to = s;
}

static int grow(struct ctr_index *x, struct ctr_err *err)
{
    struct ctr_index to = { .taken = x->taken, .cap = x->cap ? x->cap * 2 : 64 };
    if (!(to.slot = malloc((size_t)to.cap * sizeof *to.slot)))
        return ctr_fail_nomem(err, (size_t)to.cap * sizeof *to.slot);
    memset(to.slot, 0xff, (size_t)to.cap * sizeof *to.slot);
    for (int64_t i = 0; i < x->cap; i++)
        if (x->slot[i].number != CTR_INDEX_FREE)
            put(&to, x->slot[i]);
    free(x->slot);
    *x = to;
    return 0;
}

int ctr_index_reserve(struct ctr_index *x, struct ctr_err *err)
{
    return x->taken * 10 >= x->cap * 6 ? grow(x, err) : 0;
}

int ctr_index_add(struct ctr_index *x, uint64_t hash, uint32_t number, struct ctr_err *err)
{
    int rc = ctr_index_reserve(x, err);
    if (rc)
        return rc;
    put(x, (struct ctr_index_slot){ hash, number });
    x->taken++;
    return 0;
}

void ctr_index_clear(struct ctr_index *x)
{
    if (x->taken)
        memset(x->slot, 0xff, (size_t)x->cap * sizeof *x->slot);
    x->taken = 0;
}

void ctr_index_free(struct ctr_index *x)
{
    free(x->slot);
    *x = (struct ctr_index){ 0 };
}
