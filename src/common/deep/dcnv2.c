/* SPDX-License-Identifier: Apache-2.0
 *
 * dcnv2: the improved Deep & Cross Network (Wang et al., "DCN V2", WWW 2021), equations 1 and 2, figure 1:
 *
 *     x_0 = [v_1 … v_F | numbers]                    as in mlp
 *     x_(l+1) = x_0 ∘ (W_l x_l + b_l) + x_l          l = 0 … L-1; of low rank: W_l = U_l V_l'
 *     stacked:  logit = stack(x_L)
 *     parallel: logit = w · [x_L | hidden layers over x_0] + b */
#include <stdlib.h>

#include "common/deep/deep_options.h"
#include "common/deep/deep_stack.h"

static const char *const structures[] = { "parallel", "stacked", NULL };

static const struct ctr_param dcnv2_options[] = {
    CTR_DEEP_OPTIONS,
    CTR_DEEP_POOLING_OPTION,
    CTR_DEEP_STACK_OPTIONS("200,80"),
    { "cross-layers", CTR_PARAM_INT, CTR_PARAM_AT(deep.cross_layers), "3", 1, CTR_MAX_LAYERS, "1 to 8", "N",
      CTR_GROUP_MODEL, "number of cross layers", .flags = CTR_PARAM_BASIC },
    { "cross-rank", CTR_PARAM_INT, CTR_PARAM_AT(deep.cross_rank), "0", 0, CTR_MAX_UNITS,
      "1 to 65536, or 0 for full matrices", "R", CTR_GROUP_MODEL, "rank of the cross layers' matrices",
      .unsaved = "0" },
    { "structure", CTR_PARAM_WORD, CTR_PARAM_AT(deep.structure), "parallel", .range = "parallel or stacked",
      .group = CTR_GROUP_MODEL, .help = "hidden layers beside the cross network, or on top of it",
      .words = structures },
    { 0 },
};

struct layer {
    int weight, down, bias;    /* parameters: W, or U and V'; down -1: none */
    struct ctr_mem *z, *t, *y; /* [room x cols]: W x + b, x_(l+1); t [room x rank]: V' x */
};

struct dcnv2 {
    struct ctr_stack deep;
    struct layer layer[CTR_MAX_LAYERS];
    int layers;
    bool parallel;
    int weight, bias; /* parallel: of the last layer, on [x_L | hidden] */
    struct ctr_mem *dy, *dz, *dx0, *dt, *dhidden;
};

static int declare_layer(struct ctr_deep *d, struct layer *y, int l, struct ctr_err *err)
{
    const int64_t n = d->x_cols, rank = d->p.deep.cross_rank;
    y->down = -1;
    y->weight = ctr_deep_param(d, CTR_INIT_GLOROT, false, n, rank ? rank : n, err, "cross.%d.weight", l);
    if (y->weight >= 0 && rank)
        y->down = ctr_deep_param(d, CTR_INIT_GLOROT, false, rank, n, err, "cross.%d.down", l);
    if (y->weight < 0 || (rank && y->down < 0))
        return CTR_MIN(y->weight, y->down);
    y->bias = ctr_deep_param(d, CTR_INIT_ZERO, false, 0, n, err, "cross.%d.bias", l);
    return CTR_MIN(y->bias, 0);
}

static int declare_last(struct ctr_deep *d, struct dcnv2 *m, struct ctr_err *err)
{
    const int64_t n = d->x_cols + m->deep.layer[m->deep.layers - 1].out;
    m->weight = ctr_deep_param(d, CTR_INIT_GLOROT, false, 1, n, err, "last.weight");
    if (m->weight < 0)
        return m->weight;
    m->bias = ctr_deep_param(d, CTR_INIT_ZERO, false, 0, 1, err, "last.bias");
    return CTR_MIN(m->bias, 0);
}

static int dcnv2_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct dcnv2 *m = calloc(1, sizeof *m);
    int rc = 0;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = ctr_deep_pooling_of(d->p.deep.pooling);
    m->layers = (int)d->p.deep.cross_layers;
    m->parallel =
        !strcmp(d->p.deep.structure, "parallel") && d->p.deep.hidden.n; /* without hidden layers both are the same */
    for (int l = 0; l < m->layers && !rc; l++)
        rc = declare_layer(d, &m->layer[l], l, err);
    const struct ctr_stack_shape shape = ctr_stack_hidden(d, "", d->x_cols, m->parallel ? 0 : 1);
    if (!rc)
        rc = ctr_stack_declare(d, &m->deep, &shape, err);
    if (!rc && m->parallel)
        rc = declare_last(d, m, err);
    return rc ? rc : ctr_stack_declare_running(d, &m->deep, err);
}

static int dcnv2_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct dcnv2 *m = d->state;
    const size_t cols = (size_t)(room * d->x_cols) * sizeof(float);
    const size_t rank = (size_t)(room * d->p.deep.cross_rank) * sizeof(float);
    int rc = ctr_stack_room(d, &m->deep, room, err);
    for (int l = 0; l < m->layers && !rc; l++) {
        struct layer *y = &m->layer[l];
        rc = ctr_mem_grow(&y->z, d->dev, cols, err);
        if (!rc)
            rc = ctr_mem_grow(&y->y, d->dev, cols, err);
        if (!rc && rank)
            rc = ctr_mem_grow(&y->t, d->dev, rank, err);
    }
    struct ctr_mem **const down[] = { &m->dy, &m->dz, &m->dx0 };
    for (size_t i = 0; i < CTR_COUNT(down) && !rc && d->learns; i++)
        rc = ctr_mem_grow(down[i], d->dev, cols, err);
    if (!rc && d->learns && rank)
        rc = ctr_mem_grow(&m->dt, d->dev, rank, err);
    if (!rc && d->learns && m->parallel)
        rc = ctr_mem_grow(&m->dhidden, d->dev, (size_t)(room * m->deep.layer[m->deep.layers - 1].out) * sizeof(float),
                          err);
    return rc;
}

static struct ctr_mat rows_of(struct ctr_mem *m, int64_t from, int64_t n, int64_t cols)
{
    return ctr_mat_at(m, from * cols, n, cols);
}

/* ---- forward ---- */

static int cross_layer(struct ctr_deep *d, const struct layer *y, struct ctr_mat x0, struct ctr_mat x, int64_t from,
                       struct ctr_err *err)
{
    const int64_t n = x.rows, rank = d->p.deep.cross_rank;
    const struct ctr_mat z = rows_of(y->z, from, n, d->x_cols), t = rows_of(y->t, from, n, rank);
    int rc = 0;
    if (rank) {
        const struct ctr_dev_gemm down = { .a = x, .b = ctr_deep_mat(d, y->down), .tb = true, .c = t };
        rc = ctr_dev_gemm(d->dev, &down, err);
    }
    const struct ctr_dev_gemm product = {
        .a = rank ? t : x, .b = ctr_deep_mat(d, y->weight), .tb = true, .c = z, .bias = ctr_deep_vec(d, y->bias)
    };
    if (!rc)
        rc = ctr_dev_gemm(d->dev, &product, err);
    const struct ctr_dev_cross cross = { .x0 = x0, .z = z, .x = x, .y = rows_of(y->y, from, n, d->x_cols) };
    return rc ? rc : ctr_dev_cross(d->dev, &cross, err);
}

static int dcnv2_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct dcnv2 *m = d->state;
    const struct ctr_mat x0 = rows_of(d->x, from, n, d->x_cols), logit = ctr_mat_at(d->logit, from, n, 1);
    struct ctr_mat x = x0;
    int rc = 0;
    for (int l = 0; l < m->layers && !rc; l++) {
        rc = cross_layer(d, &m->layer[l], x0, x, from, err);
        x = rows_of(m->layer[l].y, from, n, d->x_cols);
    }
    if (rc || !m->parallel)
        return rc ? rc : ctr_stack_forward(d, &m->deep, x, from, training, logit, err);
    rc = ctr_stack_forward(d, &m->deep, x0, from, training, (struct ctr_mat){ 0 }, err);
    const struct ctr_mat hidden = ctr_stack_out(&m->deep, from, n), w = ctr_deep_mat(d, m->weight);
    const struct ctr_dev_gemm left = { .a = x, .b = ctr_mat_cols(w, 0, x.cols), .tb = true, .c = logit };
    const struct ctr_dev_gemm right = { .a = hidden,
                                        .b = ctr_mat_cols(w, x.cols, hidden.cols),
                                        .tb = true,
                                        .c = logit,
                                        .add = true,
                                        .bias = ctr_deep_vec(d, m->bias) };
    if (!rc)
        rc = ctr_dev_gemm(d->dev, &left, err);
    return rc ? rc : ctr_dev_gemm(d->dev, &right, err);
}

/* ---- backward ---- */

static int sum_columns(struct ctr_deep *d, struct ctr_mat dz, int bias, struct ctr_err *err)
{
    const struct ctr_dev_act_grad sum = { .z = dz, .dy = dz, .dz = dz, .dbias = ctr_deep_vec_grad(d, bias) };
    return ctr_dev_act_grad(d->dev, &sum, err);
}

/* Gradients of y = x W': dW = dy' x into `dw`, and dy W into `dx`, accumulated if `add`. */
static int product_gradients(struct ctr_deep *d, struct ctr_mat dy, struct ctr_mat x, struct ctr_mat w,
                             struct ctr_mat dw, struct ctr_mat dx, bool add, struct ctr_err *err)
{
    const struct ctr_dev_gemm by_w = { .a = dy, .ta = true, .b = x, .c = dw };
    const struct ctr_dev_gemm by_x = { .a = dy, .b = w, .c = dx, .add = add };
    int rc = ctr_dev_gemm(d->dev, &by_w, err);
    return rc ? rc : ctr_dev_gemm(d->dev, &by_x, err);
}

/* From dy, the gradient of x_(l+1), compute that of x_l, in place, and add this layer's contribution for x_0 to dx0. */
static int layer_gradients(struct ctr_deep *d, struct dcnv2 *m, int l, struct ctr_mat dy, struct ctr_err *err)
{
    const struct layer *y = &m->layer[l];
    const int64_t n = d->rows, cols = d->x_cols, rank = d->p.deep.cross_rank;
    const struct ctr_mat x0 = ctr_mat(d->x, n, cols), x = l ? ctr_mat(m->layer[l - 1].y, n, cols) : x0;
    const struct ctr_mat dz = ctr_mat(m->dz, n, cols), dt = ctr_mat(m->dt, n, rank);
    const struct ctr_dev_cross_grad cross = { .x0 = x0,
                                              .z = ctr_mat(y->z, n, cols),
                                              .dy = dy,
                                              .dz = dz,
                                              .dx0 = ctr_mat(m->dx0, n, cols),
                                              .add = l + 1 < m->layers };
    int rc = ctr_dev_cross_grad(d->dev, &cross, err);
    if (!rc)
        rc = sum_columns(d, dz, y->bias, err);
    if (!rc && !rank)
        return product_gradients(d, dz, x, ctr_deep_mat(d, y->weight), ctr_deep_mat_grad(d, y->weight), dy, true, err);
    if (!rc)
        rc = product_gradients(d, dz, ctr_mat(y->t, n, rank), ctr_deep_mat(d, y->weight),
                               ctr_deep_mat_grad(d, y->weight), dt, false, err);
    return rc ? rc
              : product_gradients(d, dt, x, ctr_deep_mat(d, y->down), ctr_deep_mat_grad(d, y->down), dy, true, err);
}

/* From dlogit compute dy, the gradient of x_L; and, for parallel, the hidden layers' contribution for x_0, into
 * d->dx. */
static int last_gradients(struct ctr_deep *d, struct dcnv2 *m, struct ctr_mat top, struct ctr_mat dy,
                          struct ctr_err *err)
{
    const struct ctr_mat x0 = ctr_mat(d->x, d->rows, d->x_cols), dlogit = ctr_mat(d->dlogit, d->rows, 1);
    if (!m->parallel)
        return ctr_stack_backward(d, &m->deep, top, dlogit, dy, err);
    const struct ctr_mat hidden = ctr_stack_out(&m->deep, 0, d->rows);
    const struct ctr_mat w = ctr_deep_mat(d, m->weight), dw = ctr_deep_mat_grad(d, m->weight);
    const struct ctr_mat dhidden = ctr_mat(m->dhidden, d->rows, hidden.cols);
    int rc = sum_columns(d, dlogit, m->bias, err);
    if (!rc)
        rc = product_gradients(d, dlogit, top, ctr_mat_cols(w, 0, d->x_cols), ctr_mat_cols(dw, 0, d->x_cols), dy, false,
                               err);
    if (!rc)
        rc = product_gradients(d, dlogit, hidden, ctr_mat_cols(w, d->x_cols, hidden.cols),
                               ctr_mat_cols(dw, d->x_cols, hidden.cols), dhidden, false, err);
    return rc ? rc : ctr_stack_backward(d, &m->deep, x0, dhidden, ctr_mat(d->dx, d->rows, ctr_deep_dx_cols(d)), err);
}

static int dcnv2_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct dcnv2 *m = d->state;
    const int64_t cols = d->x_cols, wanted = ctr_deep_dx_cols(d);
    const struct ctr_mat dy = ctr_mat(m->dy, d->rows, cols), dx = ctr_mat(d->dx, d->rows, wanted);
    int rc = last_gradients(d, m, ctr_mat(m->layer[m->layers - 1].y, d->rows, cols), dy, err);
    for (int l = m->layers - 1; l >= 0 && !rc; l--)
        rc = layer_gradients(d, m, l, dy, err);
    const struct ctr_dev_axpby chain = { 1, m->parallel ? 1 : 0, ctr_mat_cols(dy, 0, wanted), dx };
    const struct ctr_dev_axpby crosses = { 1, 1, ctr_mat_cols(ctr_mat(m->dx0, d->rows, cols), 0, wanted), dx };
    if (!rc)
        rc = ctr_dev_axpby(d->dev, &chain, err);
    return rc ? rc : ctr_dev_axpby(d->dev, &crosses, err);
}

static void dcnv2_free(struct ctr_deep *d)
{
    struct dcnv2 *m = d->state;
    struct ctr_mem *mems[] = { m->dy, m->dz, m->dx0, m->dt, m->dhidden };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    for (int l = 0; l < m->layers; l++) {
        ctr_mem_free(m->layer[l].z);
        ctr_mem_free(m->layer[l].t);
        ctr_mem_free(m->layer[l].y);
    }
    ctr_stack_free(&m->deep);
    free(m);
}

static const struct ctr_deep_spec dcnv2_deep = {
    .declare = dcnv2_declare,
    .make_room = dcnv2_make_room,
    .forward = dcnv2_forward,
    .backward = dcnv2_backward,
    .free = dcnv2_free,
};

const struct ctr_model ctr_model_dcnv2 = {
    .name = "dcnv2",
    .summary = "cross layers beside or below fully connected ones, by Adam",
    .options = dcnv2_options,
    .deep = &dcnv2_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
