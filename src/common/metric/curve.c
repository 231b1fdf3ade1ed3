/* SPDX-License-Identifier: Apache-2.0
 *
 * curve: what lies above each score: the points of ROC, precision-recall and lift. */
#include "common/metric/evalstate.h"

int ctr_eval_curve(const struct ctr_eval *e, ctr_curve_point *point, void *ctx, struct ctr_err *err)
{
    const struct ctr_sample *s;
    double weight[2] = { 0, 0 }; /* of negatives and positives */

    if (!e->o.keep)
        return ctr_fail(err, CTR_EUSAGE, "no rows were kept for a curve");
    s = ctr_eval_total(e);
    for (int64_t i = s->n; i > 0;) {
        const uint64_t tie = ctr_sample_key(s, i - 1) >> 1;
        const double before = weight[0] + weight[1];
        uint64_t key;
        for (; i > 0 && (key = ctr_sample_key(s, i - 1)) >> 1 == tie; i--)
            weight[key & 1] += ctr_sample_weight(s, i - 1);
        if (weight[0] + weight[1] > before)
            point(ctx, ctr_sample_score(s, tie << 1), weight[1], weight[0]);
    }
    return 0;
}
