/* SPDX-License-Identifier: Apache-2.0
 *
 * stability: the population stability index, sum of (p - q) ln(p / q) over cells with the shares p and q of two
 * streams. */
#include "common/metric/metric.h"

struct ctr_stability_cell ctr_stability_total(const struct ctr_stability_cell *cell, int64_t n)
{
    struct ctr_stability_cell all = { 0, 0 };
    for (int64_t i = 0; i < n; i++) {
        all.now += cell[i].now;
        all.ref += cell[i].ref;
    }
    return all;
}

double ctr_stability(const struct ctr_stability_cell *cell, int64_t n)
{
    const struct ctr_stability_cell all = ctr_stability_total(cell, n);
    double psi = 0;
    for (int64_t i = 0; i < n; i++) {
        const double p = (cell[i].now + .5) / (all.now + .5 * (double)n);
        const double q = (cell[i].ref + .5) / (all.ref + .5 * (double)n);
        psi += (p - q) * ctr_log(p / q);
    }
    return psi;
}
