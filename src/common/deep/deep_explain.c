/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes up the log odds of a row: integrated gradients (Sundararajan, Taly and Yan, "Axiomatic Attribution for
 * Deep Networks", ICML 2017, eq. 1) along the straight line from 0 to what the network sees of the row:
 *
 *     part of x_j = x_j · integral over a from 0 to 1 of d logit / d x_j, at a x
 *
 * x are the pooled vectors, the numbers, and the vectors of the items of sequences; the vector of an image is what its
 * tower gives. At 0 the logit is that of a row whose vectors and numbers are all 0: the base. Statistics are those of
 * prediction. The integral is a trapezoidal sum over the points 0, 1/n, …, 1; n doubles from FIRST_POINTS, which uses
 * all earlier points, until base and parts add up to the logit within CTR_PARTS_ERROR, at most to MOST_POINTS. Each row
 * stops by itself, so that its parts depend on no other row.
 *
 * The part of a pooled vector is divided among the entries of its list, as their share of each of its columns: their
 * term of a sum or mean, all of a largest value, and of a factorization machine's pairs one half each. */
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { FIRST_POINTS = 64, MOST_POINTS = 1024 };

struct explainer {
    const void *scorer;
    struct ctr_deep net;
    struct ctr_mem **kept;      /* [1 + sequences]: x and the values of sequences, which the network sees scaled */
    struct ctr_buf at;          /* f32: the same on the host, one after another */
    struct ctr_buf slope;       /* f32: gradients at a point, in this order */
    struct ctr_buf sum;         /* f64: the trapezoidal sum of them */
    struct ctr_buf ids, images; /* f32: the vectors of the minibatch's keys, of its images */
    struct ctr_buf logits;      /* f32, at a point */
    struct ctr_buf entry, number, base, logit; /* f64: the answer */
    struct ctr_buf points;                     /* i32: of each row; 0: not yet */
};

/* Space i of what the network sees: 0 is x, the others are sequences. */
struct space {
    struct ctr_mat value, grad;
    int64_t at; /* in the buffers */
};

static struct space space_of(const struct ctr_deep *d, int i)
{
    const int64_t x = d->rows * d->x_cols;
    if (!i)
        return (struct space){ ctr_mat(d->x, d->rows, d->x_cols), ctr_mat(d->dx, d->rows, d->x_cols), 0 };
    const struct ctr_deep_sequence *s = &d->sequence[i - 1];
    struct space p = { ctr_mat(s->value, s->entries, s->cols), ctr_mat(s->grad, s->entries, s->cols), x };
    for (const struct ctr_deep_sequence *before = d->sequence; before < s; before++)
        p.at += before->entries * before->cols;
    return p;
}

static int64_t floats_of(const struct ctr_deep *d)
{
    const struct space last = space_of(d, d->sequences);
    return last.at + last.value.rows * last.value.cols;
}

static void explainer_free(void *explainer)
{
    struct explainer *e = explainer;
    if (!e)
        return;
    struct ctr_buf *bufs[] = { &e->at,    &e->slope,  &e->sum,  &e->ids,   &e->images, &e->logits,
                               &e->entry, &e->number, &e->base, &e->logit, &e->points };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (int i = 0; e->kept && i <= e->net.sequences; i++)
        ctr_mem_free(e->kept[i]);
    free(e->kept);
    ctr_deep_free(&e->net);
    free(e);
}

static int explainer_open(void **out, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                          struct ctr_err *err)
{
    struct explainer *e = calloc(1, sizeof *e);
    if (!e)
        return ctr_fail_nomem(err, sizeof *e);
    e->scorer = scorer;
    int rc = ctr_deep_scorer_net(scorer, &e->net, in, tables, NULL, true, err);
    if (!rc && !(e->kept = calloc((size_t)e->net.sequences + 1, sizeof(struct ctr_mem *))))
        rc = ctr_fail_nomem(err, ((size_t)e->net.sequences + 1) * sizeof(struct ctr_mem *));
    if (rc)
        explainer_free(e);
    else
        *out = e;
    return rc;
}

/* ---- the integral ---- */

/* n elements of a buffer that is filled anew. */
static void *fresh(struct ctr_buf *b, int64_t n, size_t each, int *rc, struct ctr_err *err)
{
    ctr_buf_clear(b);
    return *rc ? NULL : ctr_buf_extend(b, n, each, rc, err);
}

static int read_rows(struct ctr_mat m, struct ctr_buf *to, struct ctr_err *err)
{
    int rc = 0;
    float *v = fresh(to, m.mem ? m.rows * m.stride : 0, sizeof *v, &rc, err);
    const int64_t used = m.rows ? (m.rows - 1) * m.stride + m.cols : 0;
    return rc || !m.mem ? rc : ctr_mem_read(m.mem, (size_t)m.at * sizeof *v, v, (size_t)used * sizeof *v, err);
}

/* Memory for the answer, and what the network sees of the rows, kept aside. */
static int begin(struct explainer *e, const struct ctr_rows *r, struct ctr_err *err)
{
    struct ctr_deep *d = &e->net;
    const int64_t floats = floats_of(d), entries = r->start[r->rows] - r->start[0];
    int rc = 0;
    float *at = fresh(&e->at, floats, sizeof *at, &rc, err);
    double *sum = fresh(&e->sum, floats, sizeof *sum, &rc, err);
    double *entry = fresh(&e->entry, entries, sizeof *entry, &rc, err);
    int32_t *points = fresh(&e->points, r->rows, sizeof *points, &rc, err);
    (void)fresh(&e->slope, floats, sizeof(float), &rc, err);
    (void)fresh(&e->logits, r->rows, sizeof(float), &rc, err);
    (void)fresh(&e->number, r->rows * d->dense, sizeof(double), &rc, err);
    (void)fresh(&e->base, r->rows, sizeof(double), &rc, err);
    (void)fresh(&e->logit, r->rows, sizeof(double), &rc, err);
    for (int i = 0; i <= d->sequences && !rc; i++) {
        const struct space p = space_of(d, i);
        const size_t bytes = (size_t)(p.value.rows * p.value.cols) * sizeof *at;
        if (!bytes)
            continue;
        rc = ctr_mem_grow(&e->kept[i], d->dev, bytes, err);
        const struct ctr_dev_copy keep = { p.value, ctr_mat(e->kept[i], p.value.rows, p.value.cols) };
        if (!rc)
            rc = ctr_dev_copy(d->dev, &keep, err);
        if (!rc)
            rc = ctr_mem_read(e->kept[i], 0, at + p.at, bytes, err);
    }
    if (!rc)
        rc = read_rows(d->vectors.source ? d->vectors.value : (struct ctr_mat){ 0 }, &e->ids, err);
    if (!rc)
        rc = read_rows(d->images ? ctr_deep_images_value(d) : (struct ctr_mat){ 0 }, &e->images, err);
    if (rc)
        return rc;
    memset(sum, 0, (size_t)floats * sizeof *sum);
    memset(entry, 0, (size_t)entries * sizeof *entry);
    memset(points, 0, (size_t)r->rows * sizeof *points);
    return 0;
}

/* Logits at the point a of the line, into e->logits, and gradients of them, into e->slope. */
static int differentiate(struct explainer *e, double a, struct ctr_err *err)
{
    struct ctr_deep *d = &e->net;
    float *slope = AS(float, e->slope);
    int rc = 0;
    for (int i = 0; i <= d->sequences && !rc; i++) {
        const struct ctr_mat to = space_of(d, i).value;
        if (!to.rows || !to.cols)
            continue;
        const struct ctr_dev_axpby scale = { (float)a, 0, ctr_mat(e->kept[i], to.rows, to.cols), to };
        rc = ctr_dev_axpby(d->dev, &scale, err);
    }
    if (!rc)
        rc = d->spec->forward(d, 0, d->rows, false, err);
    const struct ctr_dev_fill one = { ctr_mat(d->dlogit, d->rows, 1), 1 };
    if (!rc)
        rc = ctr_dev_fill(d->dev, &one, err);
    if (!rc)
        rc = d->spec->backward(d, err);
    if (!rc)
        rc = ctr_mem_read(d->logit, 0, e->logits.data, (size_t)d->rows * sizeof(float), err);
    for (int i = 0; i <= d->sequences && !rc; i++) {
        const struct space p = space_of(d, i);
        const size_t bytes = (size_t)(p.grad.rows * p.grad.cols) * sizeof *slope;
        rc = bytes ? ctr_mem_read(p.grad.mem, 0, slope + p.at, bytes, err) : 0;
    }
    return rc;
}

/* Add the gradients at a point to the sums. logit: NULL, or gets the logits there. */
static int visit(struct explainer *e, double a, double weight, double *logit, struct ctr_err *err)
{
    const int64_t floats = (int64_t)(e->slope.len / sizeof(float));
    int rc = differentiate(e, a, err);
    for (int64_t i = 0; i < e->net.rows && !rc && logit; i++)
        logit[i] = (double)AS(float, e->logits)[i];
    for (int64_t k = 0; k < floats && !rc; k++)
        AS(double, e->sum)[k] += weight * (double)AS(float, e->slope)[k];
    return rc;
}

/* ---- the parts of a row ---- */

/* Entries of a list, and what they were pooled to: elements x[j], whose average gradients are sum[j] / points. */
struct list {
    const float *vector;  /* of all keys of the minibatch */
    const int32_t *index; /* of each entry, its vector */
    const float *weight;  /* of each entry, or NULL: 1 */
    int64_t n, stride;
    int32_t width;
    const float *x;
    const double *sum;
    double points;
};

static double value_of(const struct list *l, int64_t e, int32_t j)
{
    return (double)(l->weight ? l->weight[e] : 1) * (double)l->vector[l->index[e] * l->stride + j];
}

static void split_largest(const struct list *l, double *part)
{
    for (int32_t j = 0; j < l->width && l->n; j++) {
        int64_t best = 0;
        for (int64_t e = 1; e < l->n; e++)
            if (value_of(l, e, j) > value_of(l, best, j))
                best = e;
        part[best] += (double)l->x[j] * l->sum[j] / l->points;
    }
}

static void split_sum(const struct list *l, int32_t first, double scale, double *part)
{
    for (int64_t e = 0; e < l->n; e++)
        for (int32_t j = first; j < l->width; j++)
            part[e] += scale * value_of(l, e, j) * l->sum[j] / l->points;
}

/* Column 0 is the sum of x w and of the pairs of entries: each entry has its own term and half of each of its pairs. */
static void split_pairs(const struct list *l, double *part)
{
    const double slope = l->sum[0] / l->points;
    for (int64_t e = 0; e < l->n; e++) {
        double pairs = 0;
        for (int32_t j = 1; j < l->width; j++)
            pairs += value_of(l, e, j) * ((double)l->x[j] - value_of(l, e, j));
        part[e] += slope * (value_of(l, e, 0) + pairs / 2);
    }
    split_sum(l, 1, 1, part);
}

static void split_list(const struct list *l, enum ctr_pooling how, double *part)
{
    switch (how) {
    case CTR_POOL_SUM: split_sum(l, 0, 1, part); break;
    case CTR_POOL_MEAN: split_sum(l, 0, l->n ? 1 / (double)l->n : 0, part); break;
    case CTR_POOL_MAX: split_largest(l, part); break;
    case CTR_POOL_FM: split_pairs(l, part); break;
    }
}

/* The first entry of a list of a group, and their number. */
static int64_t list_at(const struct ctr_deep_group *g, int64_t list, int64_t *n)
{
    const int32_t *start = AS(int32_t, g->start);
    *n = g->ragged ? start[list + 1] - start[list] : 1;
    return g->ragged ? start[list] : list;
}

/* A list of group g that was pooled into the columns of x from `x` on. */
static struct list list_of(const struct explainer *e, const struct ctr_deep_group *g, int64_t list, int64_t x,
                           double points)
{
    const struct ctr_mat m = g->images ? ctr_deep_images_value(&e->net) : e->net.vectors.value;
    struct list l = { .vector = AS(float, g->images ? e->images : e->ids),
                      .stride = m.stride,
                      .width = g->width,
                      .x = AS(float, e->at) + x,
                      .sum = AS(double, e->sum) + x,
                      .points = points };
    const int64_t first = list_at(g, list, &l.n);
    l.index = AS(int32_t, g->index) + first;
    l.weight = g->ragged ? AS(float, g->x) + first : NULL;
    return l;
}

static void split_items(const struct explainer *e, const struct ctr_deep_group *g, int64_t row, double points,
                        double *part)
{
    const struct ctr_deep *d = &e->net;
    const int64_t cols = d->sequence[g->sequence - 1].cols;
    int64_t n, at = list_at(g, row, &n) * cols + (int64_t)g->field * g->width + space_of(d, g->sequence).at;
    for (int64_t k = 0; k < n; k++, at += cols)
        for (int32_t j = 0; j < g->width; j++)
            part[k] += (double)AS(float, e->at)[at + j] * AS(double, e->sum)[at + j] / points;
}

/* The n entries of key input k in a row: their parts. Of a list that is cut, each place has an entry of its own, and
 * the entries beyond have none. */
static void split_input(const struct explainer *e, int k, int64_t row, int64_t n, double points, double *part)
{
    const struct ctr_deep *d = &e->net;
    const struct ctr_deep_group *g = d->group;
    while (k >= g->first + g->inputs)
        g++;
    const int64_t x = row * d->x_cols + g->x_at;
    if (g->sequence) {
        split_items(e, g, row, points, part);
    } else if (g->split) {
        const bool from_end = g->split == CTR_SPLIT_END || d->input[d->key_input[k]].oldest_first;
        for (int64_t s = 0; s < g->fields && s < n; s++) {
            const struct list l = list_of(e, g, row * g->fields + s, x + s * g->width, points);
            split_list(&l, g->pooling, part + (from_end ? n - 1 - s : s));
        }
    } else {
        const int field = k - g->first;
        const int64_t list = g->common ? AS(int32_t, g->equal.number)[row] : row * g->fields + field;
        const struct list l = list_of(e, g, list, x + (int64_t)field * g->width, points);
        split_list(&l, g->pooling, part);
    }
}

/* What the parts of row i leave of its logit, by the sums over n points. */
static double residual(const struct explainer *e, int64_t i, double points)
{
    const struct ctr_deep *d = &e->net;
    const float *at = AS(float, e->at);
    const double *sum = AS(double, e->sum);
    double all = 0;
    for (int64_t k = i * d->x_cols; k < (i + 1) * d->x_cols; k++)
        all += (double)at[k] * sum[k];
    for (int s = 1; s <= d->sequences; s++) {
        int64_t n, cols = d->sequence[s - 1].cols;
        const int64_t first = list_at(&d->group[d->sequence[s - 1].group[0]], i, &n) * cols + space_of(d, s).at;
        for (int64_t k = first; k < first + n * cols; k++)
            all += (double)at[k] * sum[k];
    }
    return AS(double, e->logit)[i] - AS(double, e->base)[i] - all / points;
}

/* Give row i its parts. */
static void finish_row(struct explainer *e, const struct ctr_rows *r, int64_t i, int points)
{
    const struct ctr_deep *d = &e->net;
    int64_t from = r->start[i];
    for (int k = 0; k < d->keys; k++) {
        int64_t to = from;
        while (to < r->start[i + 1] && ctr_deep_input_of(d, r, i, to) == d->key_input[k])
            to++;
        split_input(e, k, i, to - from, points, AS(double, e->entry) + (from - r->start[0]));
        from = to;
    }
    const int64_t x = i * d->x_cols + d->pooled_cols;
    for (int64_t c = 0; c < d->dense; c++)
        AS(double, e->number)[i * d->dense + c] = (double)AS(float, e->at)[x + c] * AS(double, e->sum)[x + c] / points;
    AS(int32_t, e->points)[i] = points;
}

static int integrate(struct explainer *e, const struct ctr_rows *r, struct ctr_err *err)
{
    int64_t left = r->rows;
    int rc = 0;
    for (int n = FIRST_POINTS; !rc && left; n *= 2) {
        const int step = n == FIRST_POINTS ? 1 : 2; /* the other points were visited */
        for (int k = 1; k < n && !rc; k += step)
            rc = visit(e, (double)k / n, 1, NULL, err);
        for (int64_t i = 0; i < r->rows && !rc; i++) {
            if (AS(int32_t, e->points)[i] || (n < MOST_POINTS && !(fabs(residual(e, i, n)) <= CTR_PARTS_ERROR)))
                continue;
            finish_row(e, r, i, n);
            left--;
        }
    }
    return rc;
}

static int explain_rows(void *explainer, const struct ctr_rows *r, double *score, struct ctr_parts *parts,
                        struct ctr_err *err)
{
    struct explainer *e = explainer;
    struct ctr_deep *d = &e->net;
    int rc = ctr_deep_scorer_add(e->scorer, d, r, err);
    if (!rc)
        rc = begin(e, r, err);
    if (!rc)
        rc = visit(e, 0, 0.5, AS(double, e->base), err);
    if (!rc)
        rc = visit(e, 1, 0.5, AS(double, e->logit), err);
    if (!rc)
        rc = ctr_deep_scores(d, 0, r->rows, r->first_row, score, err);
    if (!rc)
        rc = integrate(e, r, err);
    *parts = (struct ctr_parts){ .entry = AS(double, e->entry),
                                 .number = AS(double, e->number),
                                 .base = AS(double, e->base),
                                 .logit = AS(double, e->logit),
                                 .points = AS(int32_t, e->points) };
    ctr_deep_clear(d);
    return rc;
}

const struct ctr_explain_ops ctr_deep_explain = {
    .open = explainer_open,
    .free = explainer_free,
    .rows = explain_rows,
    .attends = ctr_deep_attends,
    .attended_rows = ctr_deep_attended_rows,
};
