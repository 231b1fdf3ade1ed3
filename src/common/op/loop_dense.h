/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_dense: numbers as float32 for another's kernels, those of a row side by side: the bits of the host's run_dense
 * (plan_run.c), 0 for a null. */
#ifndef CTR_LOOP_DENSE_H
#define CTR_LOOP_DENSE_H

#include "common/op/loop_device.h"

struct op_dense {
    int64_t step;  /* numbers of a row */
    int64_t every; /* the range is that of rows 0, every, 2 * every, … */
};
OPV_FN uint32_t op_dense_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } b;
    b.f = x;
    return b.u;
}
/* In the order of the numbers; that of a finite one is neither 0 nor ~0. */
OPV_FN uint32_t op_dense_rank(uint32_t bits)
{
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
CTR_LOOP_FIXED(loop_dense)
{
    const struct op_dense *p = (const struct op_dense *)u->param;
    const struct opd_source in = opd_source_of(&u->call->arg[0], u->plain);
    float *const x = (float *)u->out;
    const int64_t step = p->step, every = p->every, from = row - threadIdx.x;
    struct opd_found *const found = u->call->found;
    double v;
    OPD_ROWS(row, to)
    {
        v = 0;
        if (u->plain == OPD_BY_TYPE)
            (void)opd_get(in.arg, row, &v, w->text[0]);
        else if (!OPD_NULL(u, row))
            (void)opd_value(&in, row, &v, 0);
        x[row * step] = (float)v;
        if (OPD_SELDOM((op_dense_bits((float)v) & 0x7f800000u) == 0x7f800000u))
            atomicMax(&found->unfit, 1u);
    }
    for (row = ((from + every - 1) / every + threadIdx.x) * every; row < to; row += blockDim.x * every)
        if (opd_get(in.arg, row, &v, w->text[0])) {
            const uint32_t rank = op_dense_rank(op_dense_bits((float)v));
            atomicMax(&found->high, rank);
            atomicMax(&found->low, ~rank);
        }
}

#endif
