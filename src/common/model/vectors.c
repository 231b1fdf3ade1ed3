/* SPDX-License-Identifier: Apache-2.0
 *
 * vectors: see vectors.h. */
#include "common/model/vectors.h"

#include <math.h>
#include <stdio.h>

static bool is_vector(const struct ctr_field *f)
{
    return f->type == CTR_FIXED && f->item == CTR_F32 && ctr_meta_get(&f->meta, CTR_META_TOWER);
}

int ctr_vectors_find(struct ctr_vectors *v, const struct ctr_schema *s, const char *side, const char *name,
                     struct ctr_err *err)
{
    double bias;
    *v = (struct ctr_vectors){ .column = -1 };
    for (int i = 0; i < s->n; i++) {
        if (!is_vector(&s->f[i]))
            continue;
        if (v->column >= 0)
            return ctr_fail(err, CTR_EUSAGE, "%.200s: columns '%s' and '%s' both hold vectors: leave one out", name,
                            s->f[v->column].name, s->f[i].name);
        v->column = i;
    }
    if (v->column < 0)
        return ctr_fail(err, CTR_EUSAGE, "%.200s: no column holds vectors: ctr-predict --tower %s makes them", name,
                        side);
    const struct ctr_field *f = &s->f[v->column];
    const char *tower = ctr_meta_get(&f->meta, CTR_META_TOWER), *text = ctr_meta_get(&f->meta, CTR_META_TOWER_BIAS);
    const char *model = ctr_meta_get(&f->meta, CTR_META_TOWER_MODEL);
    if (strcmp(tower, side) != 0)
        return ctr_fail(err, CTR_EUSAGE, "%.200s: these are vectors of the %.20s, those of the %s are wanted here",
                        name, tower, side);
    if (!model || !text || !ctr_parse_f64(text, strlen(text), &bias) || !(fabs(bias) < 1e38))
        return ctr_fail(err, CTR_EDATA,
                        "%.200s: column '%s' does not say which model made it: make it anew with "
                        "ctr-predict --tower %s",
                        name, f->name, side);
    v->width = f->width;
    v->bias = (float)bias;
    snprintf(v->model, sizeof v->model, "%s", model);
    return 0;
}

int ctr_vectors_fit(const struct ctr_vectors *user, const struct ctr_vectors *ad, struct ctr_err *err)
{
    if (!strcmp(user->model, ad->model) && user->width == ad->width)
        return 0;
    return ctr_fail(err, CTR_EDATA,
                    "the vectors of the users are of model %s, those of the ads of model %s: make both with one model",
                    user->model, ad->model);
}

/* ---- products ---- */

/* Four chains at a time, in registers of their own: one alone would wait for each sum. */
enum { CHAINS = 4 };

static inline __attribute__((always_inline)) void dot_body(const float *restrict user, const float *restrict ads,
                                                           int64_t n, int32_t width, float bias,
                                                           float *restrict product)
{
    int64_t i = 0;
    for (; i + CHAINS <= n; i += CHAINS) {
        const float *restrict a = ads + i * width, *restrict b = a + width, *restrict c = b + width,
                              *restrict d = c + width;
        float s = 0, t = 0, u = 0, v = 0;
        for (int32_t k = 0; k < width; k++) {
            s = fmaf(user[k], a[k], s);
            t = fmaf(user[k], b[k], t);
            u = fmaf(user[k], c[k], u);
            v = fmaf(user[k], d[k], v);
        }
        product[i] = s + bias;
        product[i + 1] = t + bias;
        product[i + 2] = u + bias;
        product[i + 3] = v + bias;
    }
    for (; i < n; i++) {
        float s = 0;
        for (int32_t k = 0; k < width; k++)
            s = fmaf(user[k], ads[i * width + k], s);
        product[i] = s + bias;
    }
}

static void dot_plain(const float *user, const float *ads, int64_t n, int32_t width, float bias, float *product)
{
    dot_body(user, ads, n, width, bias, product);
}

#if defined(__x86_64__)
/* fmaf of the C library is a call. */
static __attribute__((target("avx2,fma"))) void dot_fma(const float *user, const float *ads, int64_t n, int32_t width,
                                                        float bias, float *product)
{
    dot_body(user, ads, n, width, bias, product);
}
#else
#define dot_fma dot_plain
#endif

void ctr_vectors_dot(const struct ctr_vectors *v, const float *user, const float *ads, int64_t n, float *product)
{
    const enum ctr_float_mode before = ctr_float_mode(CTR_FLOAT_FLUSH); /* as gemm */
    (ctr_cpu_has(CTR_CPU_AVX2) ? dot_fma : dot_plain)(user, ads, n, v->width, v->bias, product);
    ctr_float_mode(before);
}

const float *ctr_vectors_values(const struct ctr_vectors *v, const struct ctr_batch *b, int64_t i)
{
    int64_t from = 0, end = 0;
    const struct ctr_col *item = ctr_col_items(&b->col[v->column], v->width, i, &from, &end);
    const float *x = item ? (const float *)item->data + from : NULL;
    for (int c = 0; x && c < v->width; c++)
        if (ctr_col_null(item, from + c) || !(fabsf(x[c]) < INFINITY))
            return NULL;
    return x;
}

/* ---- the best of a user ---- */

/* Is a worse than b? Among equals the later ad is worse. */
static inline bool worse(const struct ctr_best *a, const struct ctr_best *b)
{
    return a->logit < b->logit || (a->logit == b->logit && a->ad > b->ad);
}

/* Sift down from index i in a heap of n whose parents are worse than their children. */
static void sink(struct ctr_best *heap, int64_t n, int64_t i)
{
    const struct ctr_best x = heap[i];
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        c += c + 1 < n && worse(&heap[c + 1], &heap[c]);
        if (!worse(&heap[c], &x))
            break;
        heap[i] = heap[c];
    }
    heap[i] = x;
}

static void put(struct ctr_best *heap, int64_t *n, int64_t k, struct ctr_best x)
{
    if (*n == k) {
        if (!worse(&heap[0], &x))
            return;
        heap[0] = x;
        sink(heap, k, 0);
        return;
    }
    int64_t i = (*n)++;
    for (; i > 0 && worse(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

enum { SCAN = 16 }; /* products compared at a time */

void ctr_best_scan(struct ctr_best *heap, int64_t *n, int64_t k, const float *product, int64_t ads, int64_t first)
{
    for (int64_t i = 0; i < ads; i += SCAN) {
        const int64_t end = CTR_MIN(i + SCAN, ads);
        if (*n == k && end == i + SCAN) { /* rarely is any of them better */
            const float least = heap[0].logit;
            int better = 0;
            for (int j = 0; j < SCAN; j++)
                better |= !(product[i + j] <= least);
            if (!better)
                continue;
        }
        for (int64_t j = i; j < end; j++)
            put(heap, n, k, (struct ctr_best){ product[j], (int32_t)(first + j) });
    }
}

void ctr_best_order(struct ctr_best *heap, int64_t n)
{
    for (; n > 1; n--) { /* move the worst to the end */
        const struct ctr_best worst = heap[0];
        heap[0] = heap[n - 1];
        sink(heap, n - 1, 0);
        heap[n - 1] = worst;
    }
}
