/* SPDX-License-Identifier: Apache-2.0 */
#include "common/model/row_transform.h"

#include <math.h>

struct ctr_row_transform ctr_row_transform_make(const struct ctr_params *p, int64_t pass)
{
    struct ctr_row_transform c = {
        .hash_bits = (int)p->hash_bits, .scale = 1, .seed = (uint64_t)p->seed, .images = p->images.missing != NULL
    };
    static const char *const norms[] = { [CTR_NORM_L1] = "l1", [CTR_NORM_L2] = "l2", [CTR_NORM_MAX] = "max" };
    for (int i = 1; i < (int)CTR_COUNT(norms); i++)
        if (p->normalize && !strcmp(p->normalize, norms[i]))
            c.norm = i;
    if (pass < 0)
        c.scale = 1 - p->dropout;
    else
        c.drop = p->dropout;
    if (pass > 0)
        c.seed = ctr_random64(c.seed, 0, (uint64_t)pass);
    return c;
}

bool ctr_row_transform_scales(const struct ctr_row_transform *c)
{
    return c->norm || c->drop > 0 || c->scale < 1;
}

/* Divide by the norm. Divide by the largest first, so that no square overflows. */
static void normalize(int norm, int64_t k, double *x)
{
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < k; i++)
        largest = CTR_MAX(largest, fabs(x[i]));
    if (!(largest > 0))
        return;
    for (int64_t i = 0; i < k; i++) {
        x[i] /= largest;
        sum += norm == CTR_NORM_L1 ? fabs(x[i]) : x[i] * x[i];
    }
    double by = norm == CTR_NORM_L1 ? sum : norm == CTR_NORM_L2 ? sqrt(sum) : 1;
    for (int64_t i = 0; i < k; i++)
        x[i] /= by;
}

void ctr_row_transform_apply(const struct ctr_row_transform *c, int64_t rows, int64_t first_row, int64_t *start,
                             uint64_t *hash, uint16_t *table, double *x)
{
    int64_t to = 0, begin = start[0];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t end = start[i + 1];
        if (c->norm)
            normalize(c->norm, end - begin, x + begin);
        start[i] = to;
        for (int64_t e = begin; e < end; e++) {
            if (c->drop > 0 && ctr_random01(c->seed, (uint64_t)(first_row + i), hash[e]) < c->drop)
                continue;
            hash[to] = hash[e];
            table[to] = table[e];
            x[to++] = x[e] * c->scale;
        }
        begin = end;
    }
    start[rows] = to;
}
