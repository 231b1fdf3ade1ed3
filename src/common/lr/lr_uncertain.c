/* SPDX-License-Identifier: Apache-2.0
 *
 * The uncertainty of a prediction: u(x) = sum of |x_i| alpha / (beta + n_i^power), the largest change of the log-odds
 * by one more such row ("Ad Click Prediction: a View from the Trenches", KDD 2013, section 6). A rate is rounded to
 * float, so that prediction can store it in the cache line of the weight; terms are summed like the dot product. So
 * training and prediction give the same bits. */
#include <math.h>

#include "common/base/isa.h"
#include "common/lr/lr.h"

int ctr_lr_unseen_rate(const struct ctr_learning *l, const struct ctr_event *e, double *rate, struct ctr_err *err)
{
    *rate = l->rate == CTR_RATE_GLOBAL ? ctr_state_rate(l, e, &(struct ctr_state){ 0 }) : l->alpha / l->beta;
    *rate = (double)(float)*rate;
    if (*rate < INFINITY)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "with --beta 0 the uncertainty of an unseen key has no bound");
}

CTR_BODY void rates_body(const struct ctr_learning *l, const void *root, int64_t k, double *restrict rate)
{
    const double *root64 = root, alpha = l->alpha, beta = l->beta;
    const float *root32 = root;
    if (l->precision == CTR_F64_STATE)
        for (int64_t i = 0; i < k; i++)
            rate[i] = (double)(float)(alpha / (beta + root64[i]));
    else
        for (int64_t i = 0; i < k; i++)
            rate[i] = (double)(float)(alpha / (beta + (double)root32[i]));
}

#define DEFINE_RATES(isa, attributes)                                                                                  \
    attributes static void rates_##isa(const struct ctr_learning *l, const void *root, int64_t k, double *rate)        \
    {                                                                                                                  \
        rates_body(l, root, k, rate);                                                                                  \
    }
CTR_EACH_ISA(DEFINE_RATES)
#define RATES_ROW(isa) rates_##isa
static void (*const rates[])(const struct ctr_learning *l, const void *root, int64_t k,
                             double *rate) = CTR_ISA_TABLE(RATES_ROW);

/* If weights are computed from z and n, forward has computed the roots; otherwise they are computed here. */
void ctr_lr_uncertain_terms(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_coords *s,
                            uint8_t *const *row, const double *x, int64_t k, double *restrict term)
{
    struct ctr_state state;
    if (l->rooted)
        rates[ctr_cpu_best()](l, s->root, k, term);
    for (int64_t i = 0; i < k && !l->rooted; i++) {
        ctr_state_read(l, e, row[i], &state);
        term[i] = (double)(float)ctr_state_rate(l, e, &state);
    }
    for (int64_t i = 0; x && i < k; i++)
        term[i] *= fabs(x[i]);
}

int ctr_lr_learn_uncertain(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s,
                           uint8_t *const *row, int64_t k, double *score, struct ctr_err *err)
{
    const struct ctr_learning *l = &m->learning;
    const double weight = r->weight ? r->weight[i] : 1, p = ctr_sigmoid(l->forward(l, s, row, k));
    int rc = p >= 0 ? ctr_buf_reserve(&m->scratch.terms, (size_t)k * sizeof(double), err)
                    : ctr_lr_diverged(r->first_row + i + 1, err);
    if (rc)
        return rc;
    double *term = (double *)(void *)m->scratch.terms.data;
    ctr_lr_uncertain_terms(l, &m->more.event, s, row, r->x ? s->x : NULL, k, term);
    score[i] = p;
    score[r->rows + i] = ctr_lanes_dot(term, NULL, k);
    if (!l->events || ctr_event_set(&m->more.event, r->label[i], weight))
        l->update(l, s, row, k, weight * (p - r->label[i]));
    return 0;
}
