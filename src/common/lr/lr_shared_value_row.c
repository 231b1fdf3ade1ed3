/* SPDX-License-Identifier: Apache-2.0
 *
 * Learns a row for variants that share one value per coordinate: each predicts with the weights of its coordinates, and
 * the mean gradient of the variants that have a coordinate updates it. See lr_shared_value.c.
 *
 * Sums over coordinates run in their order, sums over variants in eight lanes: the bits depend on nothing else. */
#include <stdlib.h>

#include "common/lr/lanes.h"
#include "common/lr/lr_shared_value.h"

typedef ctr_lanes lanes;

/* ---- sums ---- */

#define NAME(name) name##_plain
#define ATTRIBUTES CTR_FAST
#define WIDTH      4
#include "common/lr/lr_shared_value_body.h"
#if defined(__x86_64__)
#define NAME(name) name##_avx2
#define ATTRIBUTES CTR_FAST_AVX2
#define WIDTH      4
#include "common/lr/lr_shared_value_body.h"
#define NAME(name) name##_avx512
#define ATTRIBUTES CTR_FAST_AVX512
#define WIDTH      8
#include "common/lr/lr_shared_value_body.h"
#endif

struct ctr_shared_value_kernel {
    void (*sums)(const struct ctr_shared_value_step *q, const double *product, const uint16_t *class, int64_t k);
    void (*means)(const struct ctr_shared_value_step *q, const uint16_t *class, int64_t k, double *x);
};
#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        sums_##isa, means_##isa                                                                                        \
    }
static const struct ctr_shared_value_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

/* ---- which variants have which tables ---- */

static lanes *lanes_new(size_t n, struct ctr_err *err)
{
    const size_t bytes = (n + 1) * sizeof(lanes);
    lanes *p = aligned_alloc(sizeof(lanes), bytes);
    if (!p)
        (void)ctr_fail_nomem(err, bytes);
    else
        memset(p, 0, bytes);
    return p;
}

int ctr_shared_value_init(struct ctr_shared_value_step *q, int variants, struct ctr_err *err)
{
    enum { PAIR = 2 * CTR_LANES };
    *q = (struct ctr_shared_value_step){ .n = variants, .groups = (variants + PAIR - 1) / PAIR * 2 };
    q->words = ((size_t)variants + 63) / 64;
    q->sigmoids = ctr_sigmoids_at(ctr_cpu_best());
    q->kernel = &kernels[ctr_cpu_best()];
    q->sum = lanes_new((size_t)q->groups, err);
    q->gradient = lanes_new((size_t)q->groups, err);
    return q->sum && q->gradient ? 0 : err->code;
}

static void free_tables(struct ctr_shared_value_step *q)
{
    free(q->class_of);
    free(q->has);
    free(q->mask);
    free(q->share);
    free(q->mean);
    free(q->mean_of);
}

void ctr_shared_value_free(struct ctr_shared_value_step *q)
{
    free_tables(q);
    free(q->sum);
    free(q->gradient);
    ctr_buf_free(&q->product);
    ctr_buf_free(&q->class);
}

static int make_room(struct ctr_shared_value_step *q, int tables, struct ctr_err *err)
{
    const size_t n = (size_t)tables + 1;
    free_tables(q);
    q->tables = tables;
    q->classes = 0;
    q->class_of = calloc(n, sizeof *q->class_of);
    q->has = calloc(n * q->words, sizeof *q->has);
    q->share = calloc(n, sizeof *q->share);
    q->mean = calloc(n, sizeof *q->mean);
    q->mean_of = calloc(n, sizeof *q->mean_of);
    q->mask = lanes_new(n * (size_t)q->groups, err);
    if (!q->class_of || !q->has || !q->share || !q->mean || !q->mean_of || !q->mask)
        return ctr_fail_nomem(err, n * q->words * sizeof *q->has);
    return 0;
}

/* The next table is of class `classes`, or of the previous class if the same variants have it. */
static void end_class(struct ctr_shared_value_step *q, int table, int count)
{
    const size_t c = (size_t)q->classes;
    uint64_t *has = q->has + c * q->words;
    const bool again = c && !memcmp(has - q->words, has, q->words * sizeof *has);
    q->class_of[table] = (uint16_t)(again ? c - 1 : c);
    if (again)
        memset(has, 0, q->words * sizeof *has);
    else {
        for (int v = 0; v < q->n; v++)
            q->mask[c * (size_t)q->groups + (size_t)(v / CTR_LANES)][v % CTR_LANES] =
                (double)(has[v / 64] >> v % 64 & 1);
        q->share[c] = count ? 1.0 / count : 0;
        q->classes++;
    }
}

int ctr_shared_value_bind(struct ctr_shared_value_step *q, const struct ctr_variants *vs, const bool *has, int tables,
                          struct ctr_err *err)
{
    int rc = make_room(q, tables, err);
    for (int t = 0; t <= tables && !rc; t++) {
        int count = 0;
        for (size_t v = 0; v < (size_t)q->n; v++) {
            const bool takes = t < tables ? has[v * (size_t)tables + (size_t)t] : !vs->v[v].params.lr.no_bias;
            q->has[(size_t)q->classes * q->words + v / 64] |= (uint64_t)takes << v % 64;
            count += takes;
        }
        end_class(q, t, count);
    }
    return rc;
}

/* ---- a row ---- */

/* The contribution of each coordinate to the sum of a variant that has it, and its class. */
static int make_products(struct ctr_shared_value_step *q, const struct ctr_learning *l, const struct ctr_coords *s,
                         const uint16_t *table, int64_t k, struct ctr_err *err)
{
    int rc = ctr_buf_room(&q->product, k, sizeof(double), err);
    if (!rc)
        rc = ctr_buf_room(&q->class, k, sizeof *q->class_of, err);
    if (rc)
        return rc;
    double *product = (double *)(void *)q->product.data;
    uint16_t *class = (uint16_t *)(void *)q->class.data;
    for (int64_t j = 0; j < k; j++)
        product[j] =
            s->x[j] * (l->precision == CTR_F64_STATE ? ((const double *)s->w)[j] : (double)((const float *)s->w)[j]);
    for (int64_t j = 0; j < k - 1; j++)
        class[j] = q->class_of[table[j]];
    class[k - 1] = q->class_of[q->tables];
    return 0;
}

static int predict(const struct ctr_shared_value_step *q, const struct ctr_rows *r, int64_t i, double *score,
                   struct ctr_err *err)
{
    const double weight = r->weight ? r->weight[i] : 1, label = r->label[i];
    double *gradient = (double *)q->gradient;
    q->sigmoids((const double *)q->sum, score, q->n);
    for (int v = 0; v < q->n; v++) {
        if (!(score[v] >= 0))
            return ctr_lr_diverged(r->first_row + i + 1, err);
        gradient[v] = weight * (score[v] - label);
    }
    return 0;
}

int ctr_shared_value_learn(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s,
                           uint8_t *const *row, int64_t k, double *score, struct ctr_err *err)
{
    struct ctr_shared_value_step *q = m->each.ctx;
    const struct ctr_learning *l = &m->learning;
    (void)l->forward(l, s, row, k); /* to compute the weights */
    int rc = make_products(q, l, s, r->table + r->start[i], k, err);
    if (rc)
        return rc;
    const uint16_t *class = (const uint16_t *)(const void *)q->class.data;
    q->kernel->sums(q, (const double *)(const void *)q->product.data, class, k);
    rc = predict(q, r, i, score + i * q->n, err);
    if (rc || (l->events && !ctr_event_set(&m->more.event, r->label[i], r->weight ? r->weight[i] : 1)))
        return rc;
    q->rows++;
    q->kernel->means(q, class, k, s->x);
    m->scratch.filled = 0;
    l->update(l, s, row, k, 1);
    return 0;
}
