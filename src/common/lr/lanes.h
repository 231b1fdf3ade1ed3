/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes: sums in eight lanes, added in the same order on any processor, with vectors of the processor's width
 * (isa.h). */
#ifndef CTR_LANES_H
#define CTR_LANES_H

#include "common/base/isa.h"
#include "common/lr/optimizer.h"

typedef double ctr_lanes __attribute__((vector_size(CTR_LANES * sizeof(double))));

/* ctr_lanes_join, inlined. */
CTR_BODY double ctr_lanes_total(const ctr_lanes *sum)
{
    const ctr_lanes a = *sum;
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* double name(const real *w, const double *x, int64_t room): the sum of w x, `width` numbers per vector. */
#define CTR_LANES_DOT(name, real, width)                                                                               \
    CTR_BODY double name(const real *restrict w, const double *restrict x, int64_t room)                               \
    {                                                                                                                  \
        typedef double wide __attribute__((vector_size(width * sizeof(double))));                                      \
        typedef real own __attribute__((vector_size(width * sizeof(real))));                                           \
        wide sum[CTR_LANES / width] = { 0 };                                                                           \
        ctr_lanes all;                                                                                                 \
        for (int64_t i = 0; i < room; i += CTR_LANES)                                                                  \
            for (int h = 0; h < CTR_LANES; h += width) {                                                               \
                wide some_x;                                                                                           \
                own some_w;                                                                                            \
                memcpy(&some_w, w + i + h, sizeof some_w);                                                             \
                memcpy(&some_x, x + i + h, sizeof some_x);                                                             \
                sum[h / width] += __builtin_convertvector(some_w, wide) * some_x;                                      \
            }                                                                                                          \
        memcpy(&all, sum, sizeof all);                                                                                 \
        return ctr_lanes_total(&all);                                                                                  \
    }

#endif
