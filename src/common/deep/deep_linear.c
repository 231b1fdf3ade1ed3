/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: logistic regression on pooled inputs: a weight per id, and a linear function of the values of images and
 * numbers.
 *
 *     logit = b + sum over the keys of ids of (weight in the row · w_key) + <w, x>
 *
 * The value of an id's key is w_key, one number. x: vectors of images, pooled, then numbers. */
#include <stdlib.h>

#include "common/deep/deep_attention.h"
#include "common/deep/deep_linear.h"

struct linear {
    struct ctr_attention in;
    int weight, bias;      /* weight -1: only ids */
    struct ctr_mem *is_id; /* [1 x x_cols]: 1 in columns of d->x with values of ids */
};

static int declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct linear *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    m->weight = -1;
    const struct ctr_attention_shape shape = { .ask_ids = !strcmp(d->p.images.pool, "multi-query"), .no_ids = true };
    int rc = ctr_attention_declare(d, &m->in, &shape, err);
    if (!rc && m->in.cols)
        rc = CTR_MIN(m->weight = ctr_deep_param(d, CTR_INIT_GLOROT, false, 1, m->in.cols, err, "weight"), 0);
    if (!rc)
        rc = CTR_MIN(m->bias = ctr_deep_param(d, CTR_INIT_ZERO, false, 0, 1, err, "bias"), 0);
    return rc ? rc : ctr_attention_declare_running(d, &m->in, err);
}

static int mark_ids(struct ctr_deep *d, struct linear *m, struct ctr_err *err)
{
    struct ctr_buf marks = { 0 };
    int rc = 0, at = 0;
    float *is = ctr_buf_extend(&marks, d->x_cols, sizeof *is, &rc, err);
    if (!rc)
        memset(is, 0, (size_t)d->x_cols * sizeof *is);
    for (int i = 0; i < d->inputs && !rc; i++)
        for (int c = 0; c < d->input[i].cols && d->input[i].table && !d->input[i].sequence; c++)
            is[at++] = d->input[i].image ? 0 : 1;
    const size_t bytes = (size_t)d->x_cols * sizeof *is;
    if (!rc)
        rc = ctr_mem_grow(&m->is_id, d->dev, bytes, err);
    if (!rc)
        rc = ctr_mem_write(m->is_id, 0, is, bytes, err);
    ctr_buf_free(&marks);
    return rc;
}

static int make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct linear *m = d->state;
    int rc = m->is_id ? 0 : mark_ids(d, m, err);
    return rc ? rc : ctr_attention_make_room(d, &m->in, room, err);
}

static int forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct linear *m = d->state;
    struct ctr_mat x, logit = ctr_mat_at(d->logit, from, n, 1);
    int rc = ctr_attention_forward(d, &m->in, from, n, training, &x, err);
    const struct ctr_dev_gemm ids = { .a = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols),
                                      .b = ctr_mat(m->is_id, 1, d->x_cols),
                                      .tb = true,
                                      .c = logit,
                                      .bias = ctr_deep_vec(d, m->bias) };
    if (!rc)
        rc = ctr_dev_gemm(d->dev, &ids, err);
    if (rc || m->weight < 0)
        return rc;
    const struct ctr_dev_gemm rest = { .a = x, .b = ctr_deep_mat(d, m->weight), .tb = true, .c = logit, .add = true };
    return ctr_dev_gemm(d->dev, &rest, err);
}

static int backward_rest(struct ctr_deep *d, struct linear *m, struct ctr_mat dlogit, struct ctr_err *err)
{
    const struct ctr_mat w = ctr_deep_mat(d, m->weight);
    const struct ctr_dev_gemm dw = {
        .a = dlogit, .ta = true, .b = ctr_mat(m->in.x, d->rows, m->in.cols), .c = ctr_deep_mat_grad(d, m->weight)
    };
    const struct ctr_dev_gemm dx = { .a = dlogit,
                                     .b = ctr_mat_cols(w, 0, m->in.learned),
                                     .c = ctr_mat(m->in.dx, d->rows, m->in.learned) };
    int rc = ctr_dev_gemm(d->dev, &dw, err);
    if (!rc && m->in.learned)
        rc = ctr_dev_gemm(d->dev, &dx, err);
    return rc ? rc : ctr_attention_backward(d, &m->in, err);
}

static int backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct linear *m = d->state;
    const struct ctr_mat dlogit = ctr_mat(d->dlogit, d->rows, 1);
    const struct ctr_dev_act_grad bias = {
        .z = dlogit, .dy = dlogit, .dz = dlogit, .dbias = ctr_deep_vec_grad(d, m->bias)
    };
    const int64_t cols = ctr_deep_dx_cols(d);
    const struct ctr_dev_gemm ids = { .a = dlogit,
                                      .b = ctr_mat(m->is_id, 1, cols),
                                      .c = ctr_mat(d->dx, d->rows, cols) };
    int rc = ctr_dev_act_grad(d->dev, &bias, err);
    if (!rc && cols)
        rc = ctr_dev_gemm(d->dev, &ids, err);
    return rc || m->weight < 0 ? rc : backward_rest(d, m, dlogit, err);
}

static const struct ctr_attention *attention(const struct ctr_deep *d)
{
    return &((const struct linear *)d->state)->in;
}

static void free_linear(struct ctr_deep *d)
{
    struct linear *m = d->state;
    ctr_attention_free(&m->in);
    ctr_mem_free(m->is_id);
    free(m);
}

const struct ctr_deep_spec ctr_linear_network = {
    .declare = declare,
    .make_room = make_room,
    .forward = forward,
    .backward = backward,
    .free = free_linear,
    .attention = attention,
};
