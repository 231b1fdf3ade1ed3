/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_key: the loops of op_key.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_KEY_H
#define CTR_LOOP_KEY_H

#include "common/op/loop.h"

CTR_LOOP1(loop_hash, uint64_t, uint64_t, a0[i])
CTR_LOOP2(loop_hash_bits, uint64_t, int64_t, uint64_t, a0[i] >> (64 - a1[i]))

/* r = body(r, a) over the arguments, starting with 0. */
CTR_LOOP_FOLD(loop_cross, uint64_t, opv_cross)

/* Number of combinations of row i; exact only below 2^53, which is more than any column holds. */
OPV_FN int64_t op_combinations(const struct ctr_op_tile *t, int i)
{
    int64_t n = t->ok[i];
    for (int k = 0; k < t->nargs && n < (1LL << 31); k++)
        if (t->in[k].span)
            n *= t->in[k].span[i].to - t->in[k].span[i].from;
    return n;
}
/* All combinations of row i, the last list fastest. Null items are left out. `to` has room for op_combinations. */
OPV_FN int64_t op_cross_row(const struct ctr_op_tile *t, int i, uint64_t *to)
{
    int64_t n = 1;
    to[0] = 0;
    for (int k = 0; k < t->nargs; k++) {
        const struct ctr_op_in *in = &t->in[k];
        const uint64_t *h = (const uint64_t *)(in->span ? in->item : in->v);
        int64_t from = in->span ? in->span[i].from : i, stop = in->span ? in->span[i].to : i + 1, live = 0, at;
        for (int64_t j = from; j < stop; j++)
            live += !in->span || in->item_ok[j];
        /* from the end, so that prefixes are read before they are overwritten */
        at = n * live;
        for (int64_t p = n - 1; p >= 0; p--) {
            const uint64_t prefix = to[p];
            for (int64_t j = stop - 1; j >= from; j--)
                if (!in->span || in->item_ok[j])
                    to[--at] = opv_cross(prefix, h[j]);
        }
        n *= live;
    }
    return n;
}
CTR_LOOP_KEYS(loop_cross_lists, op_combinations, op_cross_row)

#endif
