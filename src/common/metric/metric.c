/* SPDX-License-Identifier: Apache-2.0
 *
 * metric: the table of metrics. A metric is one row: its name, its requirements, and its value from the sums of a
 * slice. No other file names a metric. */
#include "common/base/isa.h"
#include "common/metric/metric.h"

#include "common/base/mathbody.h"

#include <math.h>
#include <stdlib.h>

#define CLIP 0x1p-52 /* minimum distance of scores from 0 and 1 in the log loss */

double ctr_log_loss(double score, double label)
{
    double q = score < CLIP ? CLIP : score > 1 - CLIP ? 1 - CLIP : score;

    if (label == 0)
        return -ctr_log(1 - q);
    if (label == 1)
        return -ctr_log(q);
    return -(label * ctr_log(q) + (1 - label) * ctr_log(1 - q));
}

/* The loop of ctr_log_losses: expects labels 0 or 1; returns whether one was not. The choice of 1 - q or q has no
 * condition: gcc vectorises conditions only for AVX-512. */
CTR_BODY bool losses_body(const double *restrict score, const double *restrict label, int64_t n, double *restrict out)
{
    uint64_t fractional = 0;

    for (int64_t i = 0; i < n; i++) {
        double q = score[i] < CLIP ? CLIP : score[i], y = label[i];
        q = q > 1 - CLIP ? 1 - CLIP : q;
        out[i] = -opv_log_normal(fabs((y == 0) - q), 0.0);
        fractional |= (uint64_t)((y != 0) & (y != 1));
    }
    return fractional;
}

#define LOSSES(isa, attributes)                                                                                        \
    attributes static bool losses_##isa(const double *score, const double *label, int64_t n, double *out)              \
    {                                                                                                                  \
        return losses_body(score, label, n, out);                                                                      \
    }
CTR_EACH_ISA(LOSSES)

#define LOSSES_ROW(isa) losses_##isa
static bool (*const losses[])(const double *score, const double *label, int64_t n,
                              double *out) = CTR_ISA_TABLE(LOSSES_ROW);

void ctr_log_losses(const double *score, const double *label, int64_t n, double *out)
{
    if (losses[ctr_cpu_best()](score, label, n, out))
        for (int64_t i = 0; i < n; i++)
            out[i] = ctr_log_loss(score[i], label[i]);
}

/* Overflowed sums give no mean: a finite sum over an infinite weight would be 0. */
static double ratio(double a, double b)
{
    return b > 0 && b < INFINITY ? a / b : NAN;
}

static double value_auc(const struct ctr_metric_sums *s)
{
    return s->auc;
}
static double value_auc_loss(const struct ctr_metric_sums *s)
{
    return 1 - s->auc;
}
static double value_gauc(const struct ctr_metric_sums *s)
{
    return s->gauc;
}
static double value_log_loss(const struct ctr_metric_sums *s)
{
    return ratio(s->log_loss, s->weight);
}
static double value_squared_error(const struct ctr_metric_sums *s)
{
    return ratio(s->squared, s->weight);
}
static double value_calibration(const struct ctr_metric_sums *s)
{
    return ratio(s->score, s->label);
}
static double value_ece(const struct ctr_metric_sums *s)
{
    return s->ece;
}
static double value_field_ece(const struct ctr_metric_sums *s)
{
    return s->field_ece;
}
static double value_mean_score(const struct ctr_metric_sums *s)
{
    return ratio(s->score, s->weight);
}
static double value_mean_label(const struct ctr_metric_sums *s)
{
    return ratio(s->label, s->weight);
}
static double value_normalized_entropy(const struct ctr_metric_sums *s)
{
    double base = value_mean_label(s);

    if (!(base > 0 && base < 1))
        return NAN;
    return value_log_loss(s) / -(base * ctr_log(base) + (1 - base) * ctr_log(1 - base));
}

const struct ctr_metric ctr_metrics[] = {
    { "auc", "area under the ROC curve, ties count one half", CTR_GOAL_HIGH, CTR_NEED_RANKS, true, value_auc },
    { "auc_loss", "1 - auc", CTR_GOAL_LOW, CTR_NEED_RANKS, true, value_auc_loss },
    { "gauc", "mean of the users' AUC, weighted by impressions", CTR_GOAL_HIGH, CTR_NEED_USERS, true, value_gauc },
    { "log_loss", "mean log loss", CTR_GOAL_LOW, CTR_NEED_LOSS, true, value_log_loss },
    { "normalized_entropy", "log loss over the log loss of the mean label", CTR_GOAL_LOW, CTR_NEED_LOSS, true,
      value_normalized_entropy },
    { "squared_error", "mean squared error", CTR_GOAL_LOW, 0, true, value_squared_error },
    { "calibration", "mean score over mean label", CTR_GOAL_ONE, 0, true, value_calibration },
    { "ece", "expected calibration error, over 10 bins of equal weight", CTR_GOAL_LOW, CTR_NEED_BINS, false,
      value_ece },
    { "field_ece", "mean over the slices of |mean score - mean label|", CTR_GOAL_LOW, CTR_NEED_GAPS, false,
      value_field_ece },
    { "mean_score", "mean score", CTR_GOAL_NONE, 0, false, value_mean_score },
    { "mean_label", "mean label, the click rate", CTR_GOAL_NONE, 0, false, value_mean_label },
};
const int ctr_metrics_count = CTR_COUNT(ctr_metrics);

const struct ctr_metric *ctr_metric_find(const char *name)
{
    for (int i = 0; i < ctr_metrics_count; i++)
        if (!strcmp(name, ctr_metrics[i].name))
            return &ctr_metrics[i];
    return NULL;
}

static int unknown(const char *name, struct ctr_err *err)
{
    const char *names[CTR_COUNT(ctr_metrics)];
    char hint[200];

    for (int i = 0; i < ctr_metrics_count; i++)
        names[i] = ctr_metrics[i].name;
    return ctr_fail(err, CTR_EUSAGE, "no metric is called '%s'%s", name,
                    ctr_name_hint(hint, sizeof hint, name, names, ctr_metrics_count));
}

/* Counts are always shown, and may be requested. */
static bool is_count(const char *name)
{
    static const char *const counts[] = { "rows", "weight", "positives", "users", "left_out_users", "left_out_rows" };

    for (size_t i = 0; i < CTR_COUNT(counts); i++)
        if (!strcmp(name, counts[i]))
            return true;
    return false;
}

int ctr_metric_list(const char *list, bool users, int **which, int *n, struct ctr_err *err)
{
    struct ctr_strs names = { 0 };
    int rc = 0;

    *n = 0;
    if (list && (rc = ctr_strs_split(&names, list, ',', err)))
        goto out;
    *which = calloc((size_t)CTR_MAX(names.n, ctr_metrics_count), sizeof **which);
    if (!*which) {
        rc = ctr_fail_nomem(err, sizeof **which * (size_t)names.n);
        goto out;
    }
    for (int i = 0; !list && i < ctr_metrics_count; i++)
        if (ctr_metrics[i].standard && (users || !(ctr_metrics[i].needs & CTR_NEED_USERS)))
            (*which)[(*n)++] = i;
    for (int i = 0; !rc && i < names.n; i++) {
        const struct ctr_metric *m = ctr_metric_find(names.s[i]);
        if (is_count(names.s[i]))
            continue;
        if (!m)
            rc = unknown(names.s[i], err);
        else if (m->needs & CTR_NEED_USERS && !users)
            rc = ctr_fail(err, CTR_EUSAGE, "%s needs the users: no column has the role user, name one with --user NAME",
                          m->name);
        else if (ctr_strs_find(&names, m->name) < i)
            rc = ctr_fail(err, CTR_EUSAGE, "'%s' stands twice in the list of metrics", m->name);
        else
            (*which)[(*n)++] = (int)(m - ctr_metrics);
    }
out:
    ctr_strs_free(&names);
    return rc;
}
