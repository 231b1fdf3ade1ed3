/* SPDX-License-Identifier: Apache-2.0
 *
 * svg_axis: where the ticks of an axis are, and their texts. Internal to plot/. */
#ifndef CTR_SVG_AXIS_H
#define CTR_SVG_AXIS_H

#include "common/plot/svg.h"

enum { CTR_TICKS = 32 };
struct ctr_ticks {
    int n;
    double at[CTR_TICKS];
    char text[CTR_TICKS][32];
    char below[CTR_TICKS][16]; /* a second line: the date where it changes; "" */
    bool dated;                /* some tick has one */
};

/* Moves the ends of an axis apart if they are equal and, unless they are exact, outwards to the next tick; finds at
 * most `want` ticks, at multiples of 1, 2 or 5 times a power of ten, or of usual durations. */
void ctr_axis_settle(struct ctr_axis *a, int want, struct ctr_ticks *t);

#endif
