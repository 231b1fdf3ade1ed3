/* SPDX-License-Identifier: Apache-2.0
 *
 * mlp: Embedding&MLP, the base model of Zhou et al., "Deep Interest Network" (KDD 2018), section 4.1, and of Ge et al.,
 * "Image Matters" (CIKM 2018), section 3: the values of a row's keys, pooled a field, and its numbers go through fully
 * connected layers (deep_stack.h) to one logit.
 *
 *     x = [v_1 … v_F | numbers]        v_f = sum, mean or largest, over the field's keys, of (weight · value)
 *     logit = stack(x) */
#include <stdlib.h>

#include "common/deep/deep_options.h"
#include "common/deep/deep_stack.h"

static const struct ctr_param mlp_options[] = {
    CTR_DEEP_OPTIONS, CTR_DEEP_POOLING_OPTION, CTR_DEEP_STACK_OPTIONS("200,80"), CTR_DEEP_USER_OPTION, { 0 },
};

/* x is d->x. */
static int user_first(struct ctr_deep *d, struct ctr_stack *s, struct ctr_err *err)
{
    int64_t *at = calloc((size_t)d->inputs + 1, sizeof *at);
    if (!at)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *at);
    for (int i = 0; i < d->inputs; i++)
        at[i] = ctr_deep_column_of(d, i);
    const int rc = ctr_stack_user_first(d, s, at, err);
    free(at);
    return rc;
}

static int mlp_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_stack *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    d->state = s;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = ctr_deep_pooling_of(d->p.deep.pooling);
    const struct ctr_stack_shape shape = ctr_stack_hidden(d, "", d->x_cols, 1);
    int rc = ctr_stack_declare(d, s, &shape, err);
    s->same_input = true;
    if (!rc)
        rc = user_first(d, s, err);
    return rc ? rc : ctr_stack_declare_running(d, s, err);
}

static int mlp_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    return ctr_stack_room(d, d->state, room, err);
}

static int mlp_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    return ctr_stack_forward(d, d->state, ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols), from, training,
                             ctr_mat_at(d->logit, from, n, 1), err);
}

static int mlp_backward(struct ctr_deep *d, struct ctr_err *err)
{
    return ctr_stack_backward(d, d->state, ctr_mat(d->x, d->rows, d->x_cols), ctr_mat(d->dlogit, d->rows, 1),
                              ctr_mat(d->dx, d->rows, ctr_deep_dx_cols(d)), err);
}

static void mlp_free(struct ctr_deep *d)
{
    ctr_stack_free(d->state);
    free(d->state);
}

static const struct ctr_deep_spec mlp_deep = {
    .declare = mlp_declare,
    .make_room = mlp_make_room,
    .forward = mlp_forward,
    .backward = mlp_backward,
    .free = mlp_free,
    .takes_sides = true,
};

const struct ctr_model ctr_model_mlp = {
    .name = "mlp",
    .summary = "embeddings and fully connected layers, by Adam",
    .options = mlp_options,
    .deep = &mlp_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
