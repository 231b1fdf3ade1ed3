/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the variants that have a coordinate. lr_shared_value_row.c includes this text once per instruction set,
 * with NAME, ATTRIBUTES and WIDTH (doubles per vector) defined. */
typedef double NAME(vector) __attribute__((vector_size(WIDTH * sizeof(double))));

/* Two independent vectors of eight variants at a time stay in registers. */
ATTRIBUTES static void NAME(sums)(const struct ctr_shared_value_step *q, const double *product, const uint16_t *class,
                                  int64_t k)
{
    enum { PARTS = 2 * CTR_LANES / WIDTH };
    for (int g = 0; g < q->groups; g += 2) {
        NAME(vector) sum[PARTS] = { 0 };
        for (int64_t j = 0; j < k; j++) {
            const NAME(vector) *mask = (const NAME(vector) *)(q->mask + class[j] * q -> groups + g);
            for (int i = 0; i < PARTS; i++)
                sum[i] += mask[i] * product[j];
        }
        memcpy(q->sum + g, sum, sizeof sum);
    }
}

/* Compute each mean of a row once per class. */
ATTRIBUTES static void NAME(means)(const struct ctr_shared_value_step *q, const uint16_t *class, int64_t k, double *x)
{
    enum { PARTS = CTR_LANES / WIDTH };
    const NAME(vector) *gradient = (const NAME(vector) *)q->gradient;
    for (int64_t j = 0; j < k; j++) {
        const size_t c = class[j];
        if (q->mean_of[c] != q->rows) {
            const NAME(vector) *mask = (const NAME(vector) *)(q->mask + c * (size_t)q->groups);
            NAME(vector) sum[PARTS] = { 0 };
            lanes all;
            for (int g = 0; g < q->groups; g++)
                for (int i = 0; i < PARTS; i++)
                    sum[i] += mask[g * PARTS + i] * gradient[g * PARTS + i];
            memcpy(&all, sum, sizeof all);
            q->mean_of[c] = q->rows;
            q->mean[c] = ctr_lanes_total(&all) * q->share[c];
        }
        x[j] *= q->mean[c];
    }
}

#undef NAME
#undef ATTRIBUTES
#undef WIDTH
