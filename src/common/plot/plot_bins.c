/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms of numbers in bounded memory. */
#include "common/plot/plot_bins.h"

#include <math.h>
#include <stdlib.h>

static double number_of(double value, int power)
{
    return floor(ldexp(value, -power));
}

/* The least width at which the range fits; a bin's number is exact as a double. */
static int power_for(const struct ctr_plot_bins *b, int power)
{
    const double most = 0x1p53;
    for (;; power++) {
        const double low = number_of(b->low, power), high = number_of(b->high, power);
        if (high - low < CTR_PLOT_BINS && fabs(low) < most && fabs(high) < most)
            return power;
    }
}

static int make(struct ctr_plot_bins *b, double value, struct ctr_err *err)
{
    int exponent = 0;
    b->weight = calloc((size_t)b->series * CTR_PLOT_BINS, sizeof *b->weight);
    b->total = calloc((size_t)b->series, sizeof *b->total);
    if (!b->weight || !b->total)
        return ctr_fail_nomem(err, (size_t)b->series * CTR_PLOT_BINS * sizeof *b->weight);
    frexp(value, &exponent);
    b->power = value == 0 ? -1000 : CTR_MAX(exponent - 52, -1000);
    if (b->whole)
        b->power = CTR_MAX(b->power, 0);
    b->low = b->high = value;
    b->power = power_for(b, b->power);
    b->first = (int64_t)number_of(value, b->power);
    return 0;
}

/* Numbers of bins start at `first` from now on, and are 2^power wide. */
static void move(struct ctr_plot_bins *b, int power, int64_t first)
{
    const int by = CTR_MIN(power - b->power, 63);
    for (int s = 0; s < b->series; s++) {
        double *w = b->weight + (size_t)s * CTR_PLOT_BINS, moved[CTR_PLOT_BINS] = { 0 };
        for (int64_t i = 0; i < CTR_PLOT_BINS; i++)
            if (w[i] != 0)
                moved[((b->first + i) >> by) - first] += w[i];
        memcpy(w, moved, sizeof moved);
    }
    b->power = power;
    b->first = first;
}

int ctr_plot_bins_add(struct ctr_plot_bins *b, int series, double value, double weight, struct ctr_err *err)
{
    if (isnan(value) || isinf(value)) {
        b->nans += isnan(value);
        b->infinities += isinf(value) != 0;
        return 0;
    }
    if (!b->weight) {
        const int rc = make(b, value, err);
        if (rc)
            return rc;
    }
    b->n++;
    double at = number_of(value, b->power) - (double)b->first;
    if (at < 0 || at >= CTR_PLOT_BINS) {
        b->low = CTR_MIN(b->low, value);
        b->high = CTR_MAX(b->high, value);
        const int power = power_for(b, b->power);
        const int64_t from = (int64_t)number_of(b->low, power), to = (int64_t)number_of(b->high, power);
        move(b, power,
             from - (CTR_PLOT_BINS - (to - from + 1)) / 2); /* room on both sides, so that few values move it */
        at = number_of(value, b->power) - (double)b->first;
    }
    b->low = CTR_MIN(b->low, value);
    b->high = CTR_MAX(b->high, value);
    b->weight[(size_t)series * CTR_PLOT_BINS + (size_t)at] += weight;
    b->total[series] += weight;
    return 0;
}

void ctr_plot_bins_free(struct ctr_plot_bins *b)
{
    free(b->weight);
    free(b->total);
    b->weight = b->total = NULL;
}

/* ---- the range to draw ---- */

/* Share of the weight in a bin, the mean over the series that have values. */
static double share(const struct ctr_plot_bins *b, int64_t i)
{
    double sum = 0;
    int n = 0;
    for (int s = 0; s < b->series; s++) {
        if (!(b->total[s] > 0))
            continue;
        sum += b->weight[(size_t)s * CTR_PLOT_BINS + (size_t)i] / b->total[s];
        n++;
    }
    return n ? sum / n : 0;
}

/* The bin of a single value is wide enough to be seen. */
static void widen(const struct ctr_plot_bins *b, struct ctr_plot_range *r)
{
    const double most = fmax(fabs(b->low), fabs(b->high)), least = most > 0 ? most / 32 : .0625;
    for (; ldexp(1, r->power) < least; r->power++)
        r->first >>= 1;
}

static double beyond(const struct ctr_plot_bins *b, const struct ctr_plot_range *r, int64_t first, int64_t last)
{
    const int by = CTR_MIN(r->power - b->power, 63);
    double sum = 0;
    for (int64_t i = first; i <= last; i++) {
        const int64_t bin = (b->first + i) >> by;
        if (bin < r->first || bin >= r->first + r->n)
            sum += share(b, i);
    }
    return sum;
}

struct ctr_plot_range ctr_plot_bins_range(const struct ctr_plot_bins *b, int64_t want)
{
    struct ctr_plot_range r = { 0 };
    const int64_t first = (int64_t)number_of(b->low, b->power) - b->first;
    const int64_t last = (int64_t)number_of(b->high, b->power) - b->first;
    int64_t from = first, to = last;
    double below = 0, above = 0;
    while (from < to && below + share(b, from) <= .005)
        below += share(b, from++);
    while (to > from && above + share(b, to) <= .005)
        above += share(b, to--);
    if (last - first + 1 <= 3 * (to - from + 1)) {
        from = first;
        to = last;
    }
    r.power = b->power;
    int64_t n = to - from + 1;
    from += b->first;
    to += b->first;
    if (from < 0 && to >= 0)
        want = CTR_MAX(want, 2); /* a bin starts at 0, so none is on both sides of it */
    for (; n > want; n = to - from + 1) {
        r.power++;
        from >>= 1;
        to >>= 1;
    }
    r.first = from;
    r.n = (int)n;
    if (n == 1 && !b->whole)
        widen(b, &r);
    r.beyond = beyond(b, &r, first, last);
    return r;
}

double ctr_plot_bins_weight(const struct ctr_plot_bins *b, const struct ctr_plot_range *r, int series, int i)
{
    const double *w = b->weight + (size_t)series * CTR_PLOT_BINS;
    const int by = CTR_MIN(r->power - b->power, 63);
    double sum = 0;
    for (int64_t k = 0; k < CTR_PLOT_BINS; k++)
        sum += (b->first + k) >> by == r->first + i ? w[k] : 0;
    return sum;
}

double ctr_plot_bins_start(const struct ctr_plot_range *r, int i)
{
    return ldexp((double)(r->first + i), r->power);
}
