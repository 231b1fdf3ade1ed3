/* SPDX-License-Identifier: Apache-2.0
 *
 * reliability: predicted and observed click rate, in bins of equal weight, as numbers and as a drawing. */
#include "common/metric/evalstate.h"

#include <math.h>

/* A bin ends with the tie that reaches its share of the weight left at its start, so that equal scores stay together,
 * and one large tie does not starve the following bins. */
int ctr_sample_bins(const struct ctr_sample *s, double weight, struct ctr_reliability_bin *bin, int bins)
{
    double left = weight, share = 0;
    struct ctr_ties t = { .s = s };
    bool open = false;
    int n = 0; /* completed bins */

    while (ctr_ties_next(&t)) {
        double w = t.pos + t.neg;
        if (w == 0)
            continue;
        if (!open) {
            bin[n] = (struct ctr_reliability_bin){ .low = t.score };
            share = left / (bins - n);
        }
        bin[n].high = t.score;
        bin[n].weight += w;
        bin[n].score += w * t.score;
        bin[n].label += t.pos;
        left -= w;
        open = n == bins - 1 || bin[n].weight < share;
        n += !open;
    }
    n += open;
    for (int i = 0; i < n; i++) {
        bin[i].score /= bin[i].weight;
        bin[i].label /= bin[i].weight;
    }
    return n;
}

double ctr_sample_ece(const struct ctr_sample *s, double weight)
{
    struct ctr_reliability_bin bin[CTR_ECE_BINS];
    const int n = ctr_sample_bins(s, weight, bin, CTR_ECE_BINS);
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += bin[i].weight * fabs(bin[i].score - bin[i].label);
    return weight > 0 ? sum / weight : NAN;
}

void ctr_rate_interval(double rate, double n, double *low, double *high)
{
    const double z = 1.959963984540054, scale = 1 / (1 + z * z / n);
    const double middle = scale * (rate + z * z / (2 * n));
    const double half = scale * z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n));
    *low = rate > 0 ? CTR_MAX(0, middle - half) : 0; /* exactly: rounding would leave some 1e-18 */
    *high = rate < 1 ? CTR_MIN(1, middle + half) : 1;
}

static void add_squares(const struct ctr_sample *s, struct ctr_reliability_bin *bin, int n)
{
    int b = 0;

    for (int64_t i = 0; i < s->n && n; i++) {
        const double score = ctr_sample_score(s, ctr_sample_key(s, i)), w = ctr_sample_weight(s, i);
        while (b < n - 1 && score > bin[b].high)
            b++;
        bin[b].squares += w * w;
    }
}

int ctr_eval_reliability(const struct ctr_eval *e, struct ctr_reliability_bin *bin, int bins, struct ctr_err *err)
{
    int n;

    if (!e->o.keep)
        return ctr_fail(err, CTR_EUSAGE, "no rows were kept for a reliability diagram");
    n = ctr_sample_bins(ctr_eval_total(e), ctr_eval_slice(e, 0)->sums[0].weight, bin, bins);
    add_squares(ctr_eval_total(e), bin, n);
    return n;
}

enum { BAR = 40 };

/* A bar of `rate` in cells of 1/8 with a mark at `mean`, both of `full`. */
static int bar(double rate, double mean, double full, bool ascii, struct ctr_buf *out, struct ctr_err *err)
{
    static const char *const eighth[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
    int units = full > 0 ? (int)lround(rate / full * BAR * 8) : 0;
    int mark = full > 0 ? CTR_MIN((int)(mean / full * BAR), BAR - 1) : 0, rc = 0;

    for (int i = 0, end = CTR_MAX(mark + 1, (units + 7) / 8); !rc && i < CTR_MIN(BAR, end); i++) {
        int part = CTR_MAX(0, CTR_MIN(8, units - 8 * i));
        const char *c = ascii ? (part >= 4 ? "#" : " ") : eighth[part];
        if (i == mark)
            c = ascii ? "|" : "┃";
        rc = ctr_buf_append(out, c, strlen(c), err);
    }
    return rc ? rc : ctr_buf_append(out, "\n", 1, err);
}

int ctr_reliability_draw(const struct ctr_reliability_bin *bin, int n, bool ascii, struct ctr_buf *out,
                         struct ctr_err *err)
{
    double full = 0;
    int wide = 8, rc;

    for (int i = 0; i < n; i++)
        full = CTR_MAX(full, CTR_MAX(bin[i].score, bin[i].label));
    for (int i = 0; i < n; i++)
        wide = CTR_MAX(wide, (int)CTR_MAX(strlen(ctr_mean_text(bin[i].low).s), strlen(ctr_mean_text(bin[i].high).s)));
    if ((rc = ctr_buf_printf(out, err, "%-*s  %10s  %10s  %10s  %s\n", 2 * wide + 3, "scores", "weight", "mean_score",
                             "click_rate", ascii ? "# click rate, | mean score" : "█ click rate, ┃ mean score")))
        return rc;
    for (int i = 0; i < n; i++) {
        if ((rc = ctr_buf_printf(out, err, "%*s - %*s  %10.*f  %10s  %10s  ", wide, ctr_mean_text(bin[i].low).s, wide,
                                 ctr_mean_text(bin[i].high).s, bin[i].weight == floor(bin[i].weight) ? 0 : 2,
                                 bin[i].weight, ctr_mean_text(bin[i].score).s, ctr_mean_text(bin[i].label).s)) ||
            (rc = bar(bin[i].label, bin[i].score, full, ascii, out, err)))
            return rc;
    }
    return 0;
}
