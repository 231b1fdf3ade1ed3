/* SPDX-License-Identifier: Apache-2.0
 *
 * Progressive validation: sums over predictions that were made before the learner saw the row. All sums depend on the
 * sequence of rows alone. */
#include "common/model/trainer.h"

#include <math.h>

#include "common/feature/op.h"

static const double P_MIN = 1e-15; /* keeps a wrong and certain prediction from an infinite loss */

void ctr_validation_start(struct ctr_validation *v)
{
    memset(v, 0, sizeof *v);
    v->product = 1;
    v->next_report = 1;
}

void ctr_validation_settle(struct ctr_validation *v)
{
    double loss = -ctr_log(v->product);
    v->product = 1;
    v->s.loss += loss;
    v->s.since_loss += loss;
}

static const double LEAST = 1e-280; /* of a product, before its logarithm is taken */

static double clip(double p)
{
    return p < P_MIN ? P_MIN : p > 1 - P_MIN ? 1 - P_MIN : p;
}

/* A bin is a 128th of a doubling of the odds: the leading bits of the double, from 2^-32 to 2^32. */
static int bin_of(double p)
{
    enum {
        PER_DOUBLING = 128,
        MANTISSA_BITS = 52 - 7,
        LOWEST = (1023 - CTR_AUC_BINS / PER_DOUBLING / 2) * PER_DOUBLING
    };
    double odds = p / (1 - p);
    uint64_t bits;
    memcpy(&bits, &odds, sizeof bits);
    int bin = (int)(bits >> MANTISSA_BITS) - LOWEST;
    return bin < 0 ? 0 : bin >= CTR_AUC_BINS ? CTR_AUC_BINS - 1 : bin;
}

void ctr_validation_row(struct ctr_validation *v, double score, double label, double weight)
{
    double p = clip(score);
    int bin = bin_of(p);
    v->s.weight += weight;
    v->s.since_weight += weight;
    v->s.positives += weight * label;
    if (weight == 1 && (label == 0 || label == 1)) {
        double *of = label == 1 ? v->positive : v->negative;
        of[bin] += 1;
        v->product *= label == 1 ? p : 1 - p;
        if (v->product < LEAST)
            ctr_validation_settle(v);
    } else {
        double loss = 0;
        v->positive[bin] += weight * label;
        v->negative[bin] += weight * (1 - label);
        if (label > 0)
            loss -= label * ctr_log(p);
        if (label < 1)
            loss -= (1 - label) * ctr_log(1 - p);
        v->s.loss += weight * loss;
        v->s.since_loss += weight * loss;
    }
}

/* Plain rows: the sums of a run of them stay in registers. */
void ctr_validation_rows(struct ctr_validation *v, const double *score, int64_t stride, const struct ctr_rows *r)
{
    struct ctr_train_stats s = v->s;
    double product = v->product;
    for (int64_t i = 0; i < r->rows; i++, score += stride) {
        const double label = r->label[i];
        if ((r->weight && r->weight[i] != 1) || (label != 0 && label != 1)) {
            v->s = s;
            v->product = product;
            ctr_validation_row(v, *score, label, r->weight ? r->weight[i] : 1);
            s = v->s;
            product = v->product;
            continue;
        }
        const double p = clip(*score);
        double *of = label == 1 ? v->positive : v->negative;
        of[bin_of(p)] += 1;
        s.weight += 1;
        s.since_weight += 1;
        s.positives += label;
        product *= label == 1 ? p : 1 - p;
        if (product < LEAST) {
            v->s = s;
            v->product = product;
            ctr_validation_settle(v);
            s = v->s;
            product = v->product;
        }
    }
    v->s = s;
    v->product = product;
}

double ctr_trainer_auc(const struct ctr_trainer *t, int model)
{
    const struct ctr_validation *v = &t->v[model];
    double below = 0, pairs = 0, positive = 0;
    for (int i = 0; i < CTR_AUC_BINS; i++) {
        pairs += v->positive[i] * (below + v->negative[i] / 2);
        below += v->negative[i];
        positive += v->positive[i];
    }
    return positive > 0 && below > 0 ? pairs / (positive * below) : NAN;
}
