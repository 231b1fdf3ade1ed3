/* SPDX-License-Identifier: Apache-2.0
 *
 * bootstrap: confidence intervals by resampling. In each replicate every unit (a user if there are users, else a row)
 * has a Poisson(1) weight drawn from (seed, replicate, unit), so that neither threads nor batches matter, and both
 * models of a comparison are resampled alike. The rows are sorted once.
 *
 * Source: Chamandy et al., "Estimating Uncertainty for Massive Data Streams", Google 2012. */
#include "common/metric/evalstate.h"

#include <math.h>
#include <stdlib.h>

/* P(Poisson(1) <= k) * 2^32, rounded down. */
static const uint32_t poisson[] = { 0x5e2d58d8, 0xbc5ab1b1, 0xeb715e1d, 0xfb239797, 0xff1025f5, 0xffd90f3b,
                                    0xfffa8b71, 0xffff540c, 0xffffed1f, 0xfffffe21, 0xffffffd4, 0xfffffffc };

static uint8_t draw(uint64_t seed, uint64_t replicate, uint64_t unit)
{
    uint32_t x = (uint32_t)(ctr_random64(seed, replicate, unit) >> 32);
    uint8_t k = 0;

    while (k < CTR_COUNT(poisson) && x >= poisson[k])
        k++;
    return k;
}

struct job {
    struct ctr_eval *e;
    double **loss[2]; /* [side][slice][entry] */
    uint8_t *count;   /* per worker: weights of units */
    size_t units;
};

/* Sums of a replicate for one slice, in score order. */
static void resample(const struct ctr_slice *s, int side, const double *loss, const uint8_t *count,
                     struct ctr_metric_sums *to)
{
    const struct ctr_sample *m = &s->parts->sample[side];
    const uint32_t *unit = (const uint32_t *)m->unit.data;
    double seen = 0, pos = 0, wins = 0, tie_neg = 0, tie_pos = 0, users = 0, gauc = 0;
    uint64_t tie = UINT64_MAX;

    *to = (struct ctr_metric_sums){ .auc = NAN, .gauc = NAN, .ece = NAN, .field_ece = NAN };
    for (int64_t i = 0; i < m->n; i++) {
        uint64_t key = ctr_sample_key(m, i);
        double w = ctr_sample_weight(m, i) * count[unit[i]], p, y = (double)(key & 1);
        if (w == 0)
            continue;
        if (key >> 1 != tie) {
            wins += tie_pos * (2 * seen + tie_neg);
            seen += tie_neg;
            pos += tie_pos;
            tie_neg = tie_pos = 0;
            tie = key >> 1;
        }
        *(key & 1 ? &tie_pos : &tie_neg) += w;
        p = ctr_sample_score(m, key);
        to->weight += w;
        to->label += w * y;
        to->score += w * p;
        to->log_loss += w * loss[i];
        to->squared += w * (p - y) * (p - y);
    }
    wins += tie_pos * (2 * seen + tie_neg);
    seen += tie_neg;
    pos += tie_pos;
    if (seen > 0 && pos > 0)
        to->auc = wins / 2 / (seen * pos);
    for (size_t i = 0; i < s->parts->fractions.len / sizeof(struct ctr_fraction); i++) {
        const struct ctr_fraction *f = &((const struct ctr_fraction *)s->parts->fractions.data)[i];
        to->squared -= f->squared * count[f->unit];
    }
    for (size_t i = 0; i < s->parts->users[side].len / sizeof(struct ctr_user_auc); i++) {
        const struct ctr_user_auc *u = &((const struct ctr_user_auc *)s->parts->users[side].data)[i];
        users += u->weight * count[u->user];
        gauc += u->weight * count[u->user] * u->auc;
    }
    if (users > 0)
        to->gauc = gauc / users;
}

static void replicate(void *ctx, int64_t r, int worker)
{
    struct job *j = ctx;
    struct ctr_eval *e = j->e;
    uint8_t *count = j->count + (size_t)worker * j->units;
    struct ctr_metric_sums sums;

    for (size_t u = 0; u < j->units; u++)
        count[u] = draw(e->o.seed, (uint64_t)r, u);
    for (int64_t i = 0; i < e->n; i++)
        for (int side = 0; side < e->sides; side++) {
            resample(e->slice[i], side, j->loss[side][i], count, &sums);
            for (int m = 0; m < ctr_metrics_count; m++)
                e->slice[i]->parts->replicate[((int64_t)side * ctr_metrics_count + m) * e->o.bootstrap + r] =
                    ctr_metrics[m].value(&sums);
        }
}

/* Sort every slice and compute the log loss of its entries. */
static int prepare(struct job *j, struct ctr_pool *pool, struct ctr_err *err)
{
    struct ctr_eval *e = j->e;
    int rc;

    for (int64_t i = 0; i < e->n; i++) {
        struct ctr_slice *s = e->slice[i];
        size_t values = (size_t)e->sides * (size_t)ctr_metrics_count * (size_t)e->o.bootstrap;
        s->parts->replicate = calloc(values, sizeof(double));
        if (!s->parts->replicate)
            return ctr_fail_nomem(err, values * sizeof(double));
        for (int side = 0; side < e->sides; side++) {
            struct ctr_sample *m = &s->parts->sample[side];
            double *loss = j->loss[side][i] = malloc((size_t)(m->n + 1) * sizeof(double));
            if (!loss)
                return ctr_fail_nomem(err, (size_t)m->n * sizeof(double));
            if ((rc = ctr_sample_sort(m, pool, err)))
                return rc;
            for (int64_t k = 0; k < m->n; k++) {
                uint64_t key = ctr_sample_key(m, k);
                loss[k] = ctr_log_loss(ctr_sample_score(m, key), (double)(key & 1));
            }
        }
    }
    return 0;
}

int ctr_bootstrap(struct ctr_eval *e, struct ctr_pool *pool, struct ctr_err *err)
{
    struct job j = { .e = e, .units = (size_t)(e->o.columns.user >= 0 ? e->users.n : e->seen) };
    int threads = pool ? ctr_pool_threads(pool) : 1, rc = 0;

    j.count = malloc(j.units * (size_t)threads + 1);
    for (int side = 0; side < 2; side++)
        j.loss[side] = calloc((size_t)e->n + 1, sizeof(double *));
    if (!j.count || !j.loss[0] || !j.loss[1])
        rc = ctr_fail_nomem(err, j.units * (size_t)threads);
    if (!rc && !(rc = prepare(&j, pool, err)))
        ctr_pool_run(pool, e->o.bootstrap, replicate, &j);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; j.loss[side] && i < e->n; i++)
            free(j.loss[side][i]);
        free(j.loss[side]);
    }
    free(j.count);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Linear between order statistics, like R's type 7. */
static double quantile(const double *v, int64_t n, double q)
{
    double at = q * (double)(n - 1);
    int64_t i = (int64_t)at;

    return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[n - 1];
}

int ctr_eval_interval(const struct ctr_eval *e, int64_t slice, int metric, bool change, struct ctr_interval *out,
                      struct ctr_err *err)
{
    const double *a = e->slice[slice]->parts->replicate + (int64_t)metric * e->o.bootstrap;
    const double *b = a + (int64_t)ctr_metrics_count * e->o.bootstrap;
    double *v;
    int64_t n = 0;

    *out = (struct ctr_interval){ NAN, NAN };
    v = malloc((size_t)e->o.bootstrap * sizeof *v);
    if (!v)
        return ctr_fail_nomem(err, (size_t)e->o.bootstrap * sizeof *v);
    for (int r = 0; r < e->o.bootstrap; r++) {
        v[n] = change ? ctr_metric_change(a[r], b[r]) : a[r];
        n += !isnan(v[n]);
    }
    qsort(v, (size_t)n, sizeof *v, by_value);
    if (n)
        *out = (struct ctr_interval){ quantile(v, n, .025), quantile(v, n, .975) };
    free(v);
    return 0;
}

double ctr_metric_change(double value, double control)
{
    return control != 0 ? 100 * (value - control) / fabs(control) : NAN;
}
