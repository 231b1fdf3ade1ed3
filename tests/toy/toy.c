/* SPDX-License-Identifier: Apache-2.0
 *
 * toy: the smallest deep model, which tests/toy.t adds to the toolkit: the file of CONTRIBUTING.md, "A deep model".
 *
 *     logit = W x + b        x = [pooled vectors | numbers] */
#include <stdlib.h>

#include "common/deep/deep_options.h"

static const struct ctr_param toy_options[] = { CTR_DEEP_OPTIONS, CTR_DEEP_POOLING_OPTION, { 0 } };

struct toy {
    int w, b; /* parameters */
};

static int toy_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct toy *t = d->state = calloc(1, sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = ctr_deep_pooling_of(d->p.deep.pooling);
    t->w = ctr_deep_param(d, CTR_INIT_GLOROT, false, 1, d->x_cols, err, "0.weight");
    t->b = t->w < 0 ? -1 : ctr_deep_param(d, CTR_INIT_ZERO, false, 0, 1, err, "0.bias");
    return t->b < 0 ? err->code : 0;
}

static int toy_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    (void)d, (void)room, (void)err; /* it keeps no activations */
    return 0;
}

static int toy_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    const struct toy *t = d->state;
    const struct ctr_dev_gemm product = { .a = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols),
                                          .b = ctr_deep_mat(d, t->w),
                                          .tb = true,
                                          .bias = ctr_deep_vec(d, t->b),
                                          .c = ctr_mat_at(d->logit, from, n, 1) };
    (void)training;
    return ctr_dev_gemm(d->dev, &product, err);
}

static int toy_backward(struct ctr_deep *d, struct ctr_err *err)
{
    const struct toy *t = d->state;
    const struct ctr_mat dlogit = ctr_mat(d->dlogit, d->rows, 1), x = ctr_mat(d->x, d->rows, d->x_cols);
    const int64_t cols = (int64_t)d->pooled * d->width;
    const struct ctr_dev_act_grad bias = {
        .z = dlogit, .dy = dlogit, .dz = dlogit, .dbias = ctr_deep_vec_grad(d, t->b)
    };
    const struct ctr_dev_gemm weight = { .a = dlogit, .ta = true, .b = x, .c = ctr_deep_mat_grad(d, t->w) };
    const struct ctr_dev_gemm down = { .a = dlogit,
                                       .b = ctr_mat_cols(ctr_deep_mat(d, t->w), 0, cols),
                                       .c = ctr_mat(d->dx, d->rows, cols) };
    int rc = ctr_dev_act_grad(d->dev, &bias, err);
    if (!rc)
        rc = ctr_dev_gemm(d->dev, &weight, err);
    return rc ? rc : ctr_dev_gemm(d->dev, &down, err);
}

static void toy_free(struct ctr_deep *d)
{
    free(d->state);
}

static const struct ctr_deep_spec toy_deep = { .declare = toy_declare,
                                               .make_room = toy_make_room,
                                               .forward = toy_forward,
                                               .backward = toy_backward,
                                               .free = toy_free };

const struct ctr_model ctr_model_toy = { .name = "toy",
                                         .summary = "one linear layer over embeddings, by Adam",
                                         .options = toy_options,
                                         .deep = &toy_deep,
                                         .gpu = true,
                                         CTR_DEEP_FUNCTIONS };
