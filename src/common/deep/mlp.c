/* SPDX-License-Identifier: Apache-2.0
 *
 * mlp: Embedding&MLP, the base model of Zhou et al., "Deep Interest Network" (KDD 2018), section 4.1, and of Ge et al.,
 * "Image Matters" (CIKM 2018), section 3: the values of a row's keys, summed a field, and its numbers go through fully
 * connected layers to one logit.
 *
 *     x_0 = [v_1 … v_F | numbers]        v_f = sum over the field's keys of (weight · value)
 *     z_l = x_(l-1) W_l' + b_l           l = 1 … L; without b_l where there is batch normalization:
 *     n_l = gamma (z_l - mean) / sd + beta
 *     x_l = dropout(act(z_l))            of n_l with batch normalization
 *     logit = x_L w' + b */
#include <stdlib.h>

#include "common/deep/deep.h"

static const float BN_EPS = 1e-5F, DICE_EPS = 1e-8F, MOMENTUM = 0.1F;

struct layer {
    int32_t in, out;
    int weight, bias, alpha, gamma, beta;       /* parameters; -1: none */
    int norm_mean, norm_var, act_mean, act_var; /* running ones; -1: none */
    struct ctr_mem *z, *n, *y;                  /* [room x out]; n where there is batch normalization */
    struct ctr_mem *norm_stats, *act_stats;     /* of the minibatch: mean, var */
};

struct mlp {
    struct layer layer[CTR_MAX_LAYERS];
    int layers, weight, bias; /* of the logit */
    enum ctr_act_kind act;
    struct ctr_mem *down[2]; /* gradients on their way down: [room x widest] */
};

static enum ctr_act_kind kind_of(const char *name)
{
    return !strcmp(name, "relu") ? CTR_ACT_RELU : !strcmp(name, "dice") ? CTR_ACT_DICE : CTR_ACT_PRELU;
}

/* ---- shape ---- */

static int add(struct ctr_deep *d, int *param, enum ctr_deep_init init, bool state, int64_t rows, int64_t cols,
               int layer, const char *what, struct ctr_err *err)
{
    *param = ctr_deep_param(d, init, state, rows, cols, err, "%d.%s", layer, what);
    return CTR_MIN(*param, 0);
}

static int declare_layer(struct ctr_deep *d, struct mlp *m, int l, int32_t in, int32_t out, struct ctr_err *err)
{
    struct layer *y = &m->layer[l];
    *y = (struct layer){ in, out, -1, -1, -1, -1, -1, -1, -1, -1, -1, NULL, NULL, NULL, NULL, NULL };
    int rc = add(d, &y->weight, CTR_INIT_GLOROT, false, out, in, l, "weight", err);
    if (!rc && !d->p.batch_norm)
        rc = add(d, &y->bias, CTR_INIT_ZERO, false, 0, out, l, "bias", err);
    if (!rc && d->p.batch_norm)
        rc = add(d, &y->gamma, CTR_INIT_ONE, false, 0, out, l, "norm.weight", err);
    if (!rc && d->p.batch_norm)
        rc = add(d, &y->beta, CTR_INIT_ZERO, false, 0, out, l, "norm.bias", err);
    if (!rc && m->act != CTR_ACT_RELU)
        rc =
            add(d, &y->alpha, m->act == CTR_ACT_PRELU ? CTR_INIT_PRELU : CTR_INIT_ZERO, false, 0, out, l, "alpha", err);
    return rc;
}

static int declare_running(struct ctr_deep *d, struct mlp *m, int l, struct ctr_err *err)
{
    struct layer *y = &m->layer[l];
    int rc = 0;
    if (d->p.batch_norm)
        rc = add(d, &y->norm_mean, CTR_INIT_ZERO, true, 0, y->out, l, "norm.mean", err);
    if (!rc && d->p.batch_norm)
        rc = add(d, &y->norm_var, CTR_INIT_ONE, true, 0, y->out, l, "norm.var", err);
    if (!rc && m->act == CTR_ACT_DICE)
        rc = add(d, &y->act_mean, CTR_INIT_ZERO, true, 0, y->out, l, "dice.mean", err);
    if (!rc && m->act == CTR_ACT_DICE)
        rc = add(d, &y->act_var, CTR_INIT_ONE, true, 0, y->out, l, "dice.var", err);
    return rc;
}

static int mlp_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct mlp *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    m->layers = d->p.hidden.n;
    m->act = kind_of(d->p.activation);
    d->twice = m->layers && (d->p.dropout > 0 || d->p.batch_norm || m->act == CTR_ACT_DICE);
    int32_t in = d->x_cols;
    int rc = 0;
    for (int l = 0; l < m->layers && !rc; l++) {
        rc = declare_layer(d, m, l, in, d->p.hidden.size[l], err);
        in = d->p.hidden.size[l];
    }
    if (!rc)
        rc = add(d, &m->weight, CTR_INIT_GLOROT, false, 1, in, m->layers, "weight", err);
    if (!rc)
        rc = add(d, &m->bias, CTR_INIT_ZERO, false, 0, 1, m->layers, "bias", err);
    for (int l = 0; l < m->layers && !rc; l++)
        rc = declare_running(d, m, l, err);
    return rc;
}

static int mlp_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct mlp *m = d->state;
    int64_t widest = 1;
    int rc = 0;
    for (int l = 0; l < m->layers && !rc; l++) {
        struct layer *y = &m->layer[l];
        const size_t bytes = (size_t)(room * y->out) * sizeof(float), stats = (size_t)y->out * 2 * sizeof(float);
        widest = CTR_MAX(widest, y->out);
        rc = ctr_mem_grow(&y->y, d->dev, bytes, err);
        if (!rc && (d->learns || d->p.batch_norm || m->act == CTR_ACT_DICE))
            rc = ctr_mem_grow(&y->z, d->dev, bytes, err);
        if (!rc && d->p.batch_norm)
            rc = ctr_mem_grow(&y->n, d->dev, bytes, err);
        if (!rc && d->learns && d->p.batch_norm)
            rc = ctr_mem_grow(&y->norm_stats, d->dev, stats, err);
        if (!rc && d->learns && m->act == CTR_ACT_DICE)
            rc = ctr_mem_grow(&y->act_stats, d->dev, stats, err);
    }
    for (int i = 0; i < 2 && !rc && d->learns; i++)
        rc = ctr_mem_grow(&m->down[i], d->dev, (size_t)(room * widest) * sizeof(float), err);
    return rc;
}

static void mlp_free(struct ctr_deep *d)
{
    struct mlp *m = d->state;
    for (int l = 0; l < m->layers; l++) {
        struct layer *y = &m->layer[l];
        struct ctr_mem *mems[] = { y->z, y->n, y->y, y->norm_stats, y->act_stats };
        for (size_t i = 0; i < CTR_COUNT(mems); i++)
            ctr_mem_free(mems[i]);
    }
    ctr_mem_free(m->down[0]);
    ctr_mem_free(m->down[1]);
    free(m);
}

/* ---- forward ---- */

static struct ctr_mat rows_of(struct ctr_mem *m, int64_t from, int64_t n, int64_t cols)
{
    return ctr_mat_at(m, from * cols, n, cols);
}

static struct ctr_vec vec(const struct ctr_deep *d, int param)
{
    return param < 0 ? (struct ctr_vec){ 0 } : ctr_deep_vec(d, param);
}

static struct ctr_vec grad(const struct ctr_deep *d, int param)
{
    return param < 0 ? (struct ctr_vec){ 0 } : ctr_deep_vec_grad(d, param);
}

/* The activation of a layer; its statistics are the running ones, or, in training, those of the minibatch. */
static struct ctr_act act_of(const struct ctr_deep *d, const struct layer *y, bool training)
{
    const struct mlp *m = d->state;
    return (struct ctr_act){ .kind = m->act,
                             .alpha = vec(d, y->alpha),
                             .mean = training && y->act_stats ? ctr_vec(y->act_stats, y->out) : vec(d, y->act_mean),
                             .var = training && y->act_stats ? ctr_vec_at(y->act_stats, y->out, y->out)
                                                             : vec(d, y->act_var),
                             .eps = DICE_EPS };
}

static int average(struct ctr_deep *d, int running, struct ctr_mem *stats, int64_t at, int64_t n, double scale,
                   struct ctr_err *err)
{
    struct ctr_mat x = ctr_mat_at(stats, at, 1, n), y = ctr_deep_mat(d, running);
    const struct ctr_dev_axpby step = { .a = (float)((double)MOMENTUM * scale), .b = 1 - MOMENTUM, .x = x, .y = y };
    return ctr_dev_axpby(d->dev, &step, err);
}

/* Mean and variance of the minibatch, and into the running ones; the variance there is the
 * unbiased one, as in PyTorch. */
static int take_stats(struct ctr_deep *d, struct ctr_mat x, struct ctr_mem *stats, int mean, int var,
                      struct ctr_err *err)
{
    const struct ctr_dev_stats take = { .x = x,
                                        .mean = ctr_vec(stats, x.cols),
                                        .var = ctr_vec_at(stats, x.cols, x.cols) };
    int rc = ctr_dev_stats(d->dev, &take, err);
    if (!rc)
        rc = average(d, mean, stats, 0, x.cols, 1, err);
    if (!rc)
        rc = average(d, var, stats, x.cols, x.cols, x.rows > 1 ? (double)x.rows / (double)(x.rows - 1) : 1, err);
    return rc;
}

static int drop(struct ctr_deep *d, int l, struct ctr_mat x, struct ctr_err *err)
{
    const struct ctr_dev_dropout mask = { .x = x,
                                          .y = x,
                                          .rate = (float)d->p.dropout,
                                          .seed = (uint64_t)d->p.seed,
                                          .stream = (uint64_t)(d->step * CTR_MAX_LAYERS + l) };
    return d->p.dropout > 0 ? ctr_dev_dropout(d->dev, &mask, err) : 0;
}

/* What happens between the product of a layer and its output, where that is more than one call of gemm does. */
static int after_product(struct ctr_deep *d, struct layer *y, struct ctr_mat z, struct ctr_mat out, int64_t from,
                         bool training, struct ctr_err *err)
{
    int rc = 0;
    if (d->p.batch_norm) {
        if (training)
            rc = take_stats(d, z, y->norm_stats, y->norm_mean, y->norm_var, err);
        struct ctr_mat n = rows_of(y->n, from, z.rows, y->out);
        const struct ctr_dev_norm norm = {
            .x = z,
            .y = n,
            .mean = training ? ctr_vec(y->norm_stats, y->out) : vec(d, y->norm_mean),
            .var = training ? ctr_vec_at(y->norm_stats, y->out, y->out) : vec(d, y->norm_var),
            .gamma = vec(d, y->gamma),
            .beta = vec(d, y->beta),
            .eps = BN_EPS,
        };
        if (!rc)
            rc = ctr_dev_norm(d->dev, &norm, err);
        z = n;
    }
    if (!rc && training && y->act_stats)
        rc = take_stats(d, z, y->act_stats, y->act_mean, y->act_var, err);
    const struct ctr_dev_act act = { .z = z, .y = out, .act = act_of(d, y, training) };
    return rc ? rc : ctr_dev_act(d->dev, &act, err);
}

static int mlp_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct mlp *m = d->state;
    struct ctr_mat x = rows_of(d->x, from, n, d->x_cols);
    int rc = 0;
    for (int l = 0; l < m->layers && !rc; l++) {
        struct layer *y = &m->layer[l];
        const bool plain = !d->p.batch_norm && m->act != CTR_ACT_DICE;
        struct ctr_mat out = rows_of(y->y, from, n, y->out);
        struct ctr_mat z = y->z ? rows_of(y->z, from, n, y->out) : (struct ctr_mat){ 0 };
        const struct ctr_dev_gemm product = { .a = x,
                                              .b = ctr_deep_mat(d, y->weight),
                                              .tb = true,
                                              .c = plain ? out : z,
                                              .bias = vec(d, y->bias),
                                              .act = plain ? act_of(d, y, training) : (struct ctr_act){ 0 },
                                              .pre = plain ? z : (struct ctr_mat){ 0 } };
        rc = ctr_dev_gemm(d->dev, &product, err);
        if (!rc && !plain)
            rc = after_product(d, y, z, out, from, training, err);
        if (!rc && training)
            rc = drop(d, l, out, err);
        x = out;
    }
    const struct ctr_dev_gemm logit = {
        .a = x, .b = ctr_deep_mat(d, m->weight), .tb = true, .c = rows_of(d->logit, from, n, 1), .bias = vec(d, m->bias)
    };
    return rc ? rc : ctr_dev_gemm(d->dev, &logit, err);
}

/* ---- backward ---- */

/* dW = dz' x; and, unless `down` is none, the gradient of (the first columns of) x: dz W, and on through `back`. */
static int product_gradients(struct ctr_deep *d, int weight, struct ctr_mat dz, struct ctr_mat x, struct ctr_mat down,
                             struct ctr_dev_gemm_back back, struct ctr_err *err)
{
    const struct ctr_dev_gemm dw = { .a = dz, .ta = true, .b = x, .c = ctr_deep_mat_grad(d, weight) };
    const struct ctr_dev_gemm dx = {
        .a = dz, .b = ctr_mat_cols(ctr_deep_mat(d, weight), 0, down.cols), .c = down, .back = back
    };
    int rc = ctr_dev_gemm(d->dev, &dw, err);
    return rc || !down.mem || !down.cols ? rc : ctr_dev_gemm(d->dev, &dx, err);
}

/* The gradient of a layer whose output is its activation, nothing else. */
static struct ctr_dev_gemm_back plain_back(struct ctr_deep *d, const struct layer *y)
{
    return (struct ctr_dev_gemm_back){ .z = ctr_mat(y->z, d->rows, y->out),
                                       .act = act_of(d, y, true),
                                       .dalpha = grad(d, y->alpha),
                                       .dbias = grad(d, y->bias) };
}

/* From the gradient of another layer's output to that of its product, in place. */
static int before_product(struct ctr_deep *d, const struct layer *y, struct ctr_mat dy, struct ctr_err *err)
{
    struct ctr_mat z = ctr_mat(y->z, d->rows, y->out);
    const struct ctr_dev_act_grad act = { .z = d->p.batch_norm ? ctr_mat(y->n, d->rows, y->out) : z,
                                          .dy = dy,
                                          .dz = dy,
                                          .act = act_of(d, y, true),
                                          .batch = y->act_stats,
                                          .dalpha = grad(d, y->alpha),
                                          .dbias = grad(d, y->bias) };
    int rc = ctr_dev_act_grad(d->dev, &act, err);
    if (rc || !d->p.batch_norm)
        return rc;
    const struct ctr_dev_norm_grad norm = { .x = z,
                                            .dy = dy,
                                            .dx = dy,
                                            .mean = ctr_vec(y->norm_stats, y->out),
                                            .var = ctr_vec_at(y->norm_stats, y->out, y->out),
                                            .gamma = vec(d, y->gamma),
                                            .dgamma = grad(d, y->gamma),
                                            .dbeta = grad(d, y->beta),
                                            .eps = BN_EPS };
    return ctr_dev_norm_grad(d->dev, &norm, err);
}

static int mlp_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct mlp *m = d->state;
    const int64_t n = d->rows;
    const struct ctr_mat into = ctr_mat(d->dx, n, (int64_t)d->keys * d->width);
    struct ctr_mat dz = ctr_mat(d->dlogit, n, 1);
    const struct ctr_dev_act_grad bias = { .z = dz, .dy = dz, .dz = dz, .dbias = grad(d, m->bias) };
    int rc = ctr_dev_act_grad(d->dev, &bias, err);
    int weight = m->weight;
    for (int l = m->layers; l >= 0 && !rc; l--) {
        const struct layer *below = l ? &m->layer[l - 1] : NULL;
        struct ctr_mat x = below ? ctr_mat(below->y, n, below->out) : ctr_mat(d->x, n, d->x_cols);
        struct ctr_mat down = below ? ctr_mat(m->down[l % 2], n, below->out) : into;
        const struct ctr_dev_gemm_back back =
            below && !d->twice ? plain_back(d, below) : (struct ctr_dev_gemm_back){ 0 };
        rc = product_gradients(d, weight, dz, x, down, back, err);
        if (rc || !below)
            break;
        if (d->twice)
            rc = drop(d, l - 1, down, err);
        if (!rc && d->twice)
            rc = before_product(d, below, down, err);
        dz = down;
        weight = below->weight;
    }
    return rc;
}

static const struct ctr_deep_spec mlp_deep = {
    .declare = mlp_declare,
    .make_room = mlp_make_room,
    .forward = mlp_forward,
    .backward = mlp_backward,
    .free = mlp_free,
};

static const char *const mlp_options[] = { "embedding", "hidden",      "activation", "batch-norm", "dropout", "rate",
                                           "decay",     "decay-every", "l2",         "minibatch",  "seed",    NULL };

const struct ctr_model ctr_model_mlp = {
    .name = "mlp",
    .summary = "embeddings and fully connected layers, by Adam",
    .options = mlp_options,
    .deep = &mlp_deep,
    .device = &ctr_model_mlp,
    CTR_DEEP_FUNCTIONS,
};
