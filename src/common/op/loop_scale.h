/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_scale: the loops of op_scale.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_SCALE_H
#define CTR_LOOP_SCALE_H

#include "common/op/loop.h"

/* (x - from) / by; 0 if by is 0. */
struct op_scale {
    double from, by;
};

/* NaN, infinities and what overflows give null. */
OPV_FN double op_scaled(double x, const struct op_scale *p, uint8_t *ok)
{
    const double y = p->by > 0 ? (x - p->from) / p->by : x - x;

    if (y - y == 0)
        return y;
    *ok = 0;
    return 0;
}

OPV_FN double op_signed_log(double x)
{
    return x < 0 ? -opv_log1p(-x) : opv_log1p(x);
}

CTR_LOOP_PARAM(loop_standardize, double, struct op_scale, double, op_scaled(a0[i], p, &ok[i]))
CTR_LOOP_PARAM(loop_minmax, double, struct op_scale, double, opv_clip_f(op_scaled(a0[i], p, &ok[i]), 0, 1))
CTR_LOOP_PARAM(loop_log_scale, double, struct op_scale, double, op_scaled(op_signed_log(a0[i]), p, &ok[i]))

#endif
