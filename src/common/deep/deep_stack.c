/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of fully connected layers. See deep_stack.h. */
#include "common/deep/deep_stack.h"

#include <stdlib.h>

static const float BN_EPS = 1e-5F, DICE_EPS = 1e-8F, MOMENTUM = 0.1F;

static enum ctr_act_kind kind_of(const char *name)
{
    return !strcmp(name, "relu") ? CTR_ACT_RELU : !strcmp(name, "dice") ? CTR_ACT_DICE : CTR_ACT_PRELU;
}

/* For example, a stack with hidden layers of 8 and 4 units on 5 inputs, out 1, prelu, and its parameters, which are
 * named PREFIX, layer, name:
 *
 *     plain         x5 -> gemm with bias and prelu -> y8 -> the same -> y4 -> gemm with bias -> y1
 *                   0.weight 0.bias 0.alpha   1.weight 1.bias 1.alpha   2.weight 2.bias
 *     batch norm    x5 -> gemm -> z8 -> norm -> n8 -> prelu -> y8 -> …    (after_product)
 *                   0.norm.weight and 0.norm.bias replace 0.bias; 0.norm.mean and 0.norm.var are running statistics
 *
 * Backward of the plain stack is two gemm a layer: dW = dz' x, and dz W with the gradient of the activation below as
 * its epilogue (plain_back). With dropout, batch norm or dice that gradient is an operation of its own (through_layer).
 */

/* ---- shape ---- */

static int add(struct ctr_deep *d, const struct ctr_stack *s, int *param, enum ctr_deep_init init, bool state,
               int64_t rows, int64_t cols, int layer, const char *what, struct ctr_err *err)
{
    *param = ctr_deep_param(d, init, state, rows, cols, err, "%s%d.%s", s->shape.prefix, layer, what);
    return CTR_MIN(*param, 0);
}

static int declare_layer(struct ctr_deep *d, struct ctr_stack *s, int l, int32_t in, int32_t out, struct ctr_err *err)
{
    struct ctr_stack_layer *y = &s->layer[l];
    const enum ctr_deep_init alpha = s->act == CTR_ACT_PRELU ? CTR_INIT_PRELU : CTR_INIT_ZERO;
    *y = (struct ctr_stack_layer){ in, out, -1, -1, -1, -1, -1, -1, -1, -1, -1, NULL, NULL, NULL, NULL, NULL };
    int rc = add(d, s, &y->weight, CTR_INIT_GLOROT, false, out, in, l, "weight", err);
    if (!rc && !s->shape.batch_norm)
        rc = add(d, s, &y->bias, CTR_INIT_ZERO, false, 0, out, l, "bias", err);
    if (!rc && s->shape.batch_norm)
        rc = add(d, s, &y->gamma, CTR_INIT_ONE, false, 0, out, l, "norm.weight", err);
    if (!rc && s->shape.batch_norm)
        rc = add(d, s, &y->beta, CTR_INIT_ZERO, false, 0, out, l, "norm.bias", err);
    if (!rc && s->act != CTR_ACT_RELU)
        rc = add(d, s, &y->alpha, alpha, false, 0, out, l, "alpha", err);
    return rc;
}

struct ctr_stack_shape ctr_stack_hidden(const struct ctr_deep *d, const char *prefix, int32_t in, int32_t out)
{
    return (struct ctr_stack_shape){ prefix,      d->p.deep.hidden, in, out, d->p.deep.activation, d->p.deep.batch_norm,
                                     d->p.dropout };
}

int ctr_stack_declare(struct ctr_deep *d, struct ctr_stack *s, const struct ctr_stack_shape *shape, struct ctr_err *err)
{
    int32_t in = shape->in;
    int rc = 0;
    s->shape = *shape;
    s->layers = shape->hidden.n;
    s->weight = s->bias = -1;
    s->act = kind_of(shape->activation);
    s->separate_training_forward = s->layers && (shape->dropout > 0 || shape->batch_norm || s->act == CTR_ACT_DICE);
    d->separate_training_forward |= s->separate_training_forward;
    for (int l = 0; l < s->layers && !rc; l++) {
        rc = declare_layer(d, s, l, in, shape->hidden.size[l], err);
        in = shape->hidden.size[l];
    }
    if (!rc && shape->out)
        rc = add(d, s, &s->weight, CTR_INIT_GLOROT, false, shape->out, in, s->layers, "weight", err);
    if (!rc && shape->out)
        rc = add(d, s, &s->bias, CTR_INIT_ZERO, false, 0, shape->out, s->layers, "bias", err);
    return rc;
}

int ctr_stack_declare_running(struct ctr_deep *d, struct ctr_stack *s, struct ctr_err *err)
{
    const bool dice = s->act == CTR_ACT_DICE, norm = s->shape.batch_norm;
    int rc = 0;
    for (int l = 0; l < s->layers && !rc; l++) {
        struct ctr_stack_layer *y = &s->layer[l];
        if (norm)
            rc = add(d, s, &y->norm_mean, CTR_INIT_ZERO, true, 0, y->out, l, "norm.mean", err);
        if (!rc && norm)
            rc = add(d, s, &y->norm_var, CTR_INIT_ONE, true, 0, y->out, l, "norm.var", err);
        if (!rc && dice)
            rc = add(d, s, &y->act_mean, CTR_INIT_ZERO, true, 0, y->out, l, "dice.mean", err);
        if (!rc && dice)
            rc = add(d, s, &y->act_var, CTR_INIT_ONE, true, 0, y->out, l, "dice.var", err);
    }
    return rc;
}

/* ---- the user's columns first ---- */

/* Which inputs and which columns are the user's? Inputs that cannot be compared are none of them. */
static void mark_user(const struct ctr_deep *d, const int64_t *at, bool *input, bool *column)
{
    for (int i = 0; i < d->inputs; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        input[i] = at[i] >= 0 && in->side && !strcmp(in->side, "user") && ctr_deep_can_be_distinct(in);
        if (input[i])
            memset(column + at[i], 1, (size_t)(in->table ? in->cols : in->dense) * sizeof *column);
    }
}

static void add_runs(struct ctr_stack *s, const bool *column, bool user)
{
    for (int64_t c = 0, end; c < s->shape.in; c = end) {
        for (end = c + 1; end < s->shape.in && column[end] == column[c];)
            end++;
        if (column[c] == user)
            s->run[s->runs++] = (struct ctr_stack_run){ c, end - c };
    }
}

int ctr_stack_user_first(struct ctr_deep *d, struct ctr_stack *s, const int64_t *at, struct ctr_err *err)
{
    const size_t n = (size_t)d->inputs + (size_t)s->shape.in + 1;
    bool *input = calloc(n, sizeof *input), *column = input + d->inputs;
    int rc = input ? 0 : ctr_fail_nomem(err, n);
    s->run = rc ? NULL : calloc(2 * (size_t)d->inputs + 2, sizeof *s->run);
    if (!rc && !s->run)
        rc = ctr_fail_nomem(err, 2 * (size_t)d->inputs * sizeof *s->run);
    if (!rc && s->layers) {
        mark_user(d, at, input, column);
        add_runs(s, column, true);
        s->user_runs = s->runs;
        add_runs(s, column, false);
    }
    if (s->runs == s->user_runs || !s->user_runs) /* all columns are of one side */
        s->runs = s->user_runs = 0;
    if (!rc && s->runs && !d->learns)
        rc = CTR_MIN(s->distinct = ctr_deep_distinct(d, input, err), 0);
    free(input);
    return rc;
}

/* Room for so many rows of `row` bytes; keeps the used ones. */
static int rows_room(struct ctr_deep *d, struct ctr_mem **m, int64_t used, int64_t room, size_t row,
                     struct ctr_err *err)
{
    return used ? ctr_deep_keep(d, m, (size_t)used * row, (size_t)room * row, err)
                : ctr_mem_grow(m, d->dev, (size_t)room * row, err);
}

int ctr_stack_keep(struct ctr_deep *d, struct ctr_stack *s, int64_t used, int64_t room, struct ctr_err *err)
{
    const bool dice = s->act == CTR_ACT_DICE, norm = s->shape.batch_norm;
    int64_t widest = 1;
    int rc = 0;
    for (int l = 0; l < s->layers && !rc; l++) {
        struct ctr_stack_layer *y = &s->layer[l];
        const size_t row = (size_t)y->out * sizeof(float), stats = 2 * row;
        widest = CTR_MAX(widest, y->out);
        rc = rows_room(d, &y->y, used, room, row, err);
        if (!rc && (d->learns || norm || dice))
            rc = rows_room(d, &y->z, used, room, row, err);
        if (!rc && norm)
            rc = rows_room(d, &y->n, used, room, row, err);
        if (!rc && d->learns && norm)
            rc = ctr_mem_grow(&y->norm_stats, d->dev, stats, err);
        if (!rc && ctr_deep_trains(d) && dice)
            rc = ctr_mem_grow(&y->act_stats, d->dev, stats, err);
    }
    for (int i = 0; i < 2 && !rc && d->learns; i++)
        rc = ctr_mem_grow(&s->down[i], d->dev, (size_t)(room * widest) * sizeof(float), err);
    return rc;
}

int ctr_stack_room(struct ctr_deep *d, struct ctr_stack *s, int64_t room, struct ctr_err *err)
{
    return ctr_stack_keep(d, s, 0, room, err);
}

void ctr_stack_free(struct ctr_stack *s)
{
    for (int l = 0; l < s->layers; l++) {
        const struct ctr_stack_layer *y = &s->layer[l];
        struct ctr_mem *mems[] = { y->z, y->n, y->y, y->norm_stats, y->act_stats };
        for (size_t i = 0; i < CTR_COUNT(mems); i++)
            ctr_mem_free(mems[i]);
    }
    ctr_mem_free(s->down[0]);
    ctr_mem_free(s->down[1]);
    ctr_mem_free(s->user_x);
    ctr_mem_free(s->sum);
    free(s->run);
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

/* The activation of a layer; uses running statistics or, in training, those of the minibatch. */
static struct ctr_act act_of(const struct ctr_deep *d, const struct ctr_stack *s, const struct ctr_stack_layer *y,
                             bool training)
{
    return (struct ctr_act){ .kind = s->act,
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

/* Compute mean and variance of the minibatch and update the running ones, with the unbiased variance, as in PyTorch. A
 * minibatch without entries leaves them unchanged. */
static int take_stats(struct ctr_deep *d, struct ctr_mat x, struct ctr_mem *stats, int mean, int var,
                      struct ctr_err *err)
{
    const struct ctr_dev_stats take = { .x = x,
                                        .mean = ctr_vec(stats, x.cols),
                                        .var = ctr_vec_at(stats, x.cols, x.cols) };
    int rc = ctr_dev_stats(d->dev, &take, err);
    if (!x.rows)
        return rc;
    if (!rc)
        rc = average(d, mean, stats, 0, x.cols, 1, err);
    if (!rc)
        rc = average(d, var, stats, x.cols, x.cols, x.rows > 1 ? (double)x.rows / (double)(x.rows - 1) : 1, err);
    return rc;
}

/* Dropout of layer l: the seed and, if there is one, the stack's prefix determine the draws. */
static int drop(struct ctr_deep *d, const struct ctr_stack *s, int l, struct ctr_mat x, struct ctr_err *err)
{
    const char *prefix = s->shape.prefix;
    const uint64_t seed = (uint64_t)d->p.seed;
    const struct ctr_dev_dropout mask = { .x = x,
                                          .y = x,
                                          .rate = (float)s->shape.dropout,
                                          .seed = *prefix ? ctr_hash64(prefix, strlen(prefix), seed) : seed,
                                          .stream = (uint64_t)(d->step * CTR_MAX_LAYERS + l) };
    return s->shape.dropout > 0 ? ctr_dev_dropout(d->dev, &mask, err) : 0;
}

/* The steps between a layer's product and its output that gemm does not include. */
static int after_product(struct ctr_deep *d, const struct ctr_stack *s, struct ctr_stack_layer *y, struct ctr_mat z,
                         struct ctr_mat out, int64_t from, bool training, struct ctr_err *err)
{
    int rc = 0;
    if (s->shape.batch_norm) {
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
    const struct ctr_dev_act act = { .z = z, .y = out, .act = act_of(d, s, y, training) };
    return rc ? rc : ctr_dev_act(d->dev, &act, err);
}

struct ctr_mat ctr_stack_out(const struct ctr_stack *s, int64_t from, int64_t n)
{
    const struct ctr_stack_layer *top = &s->layer[s->layers - 1];
    return rows_of(top->y, from, n, top->out);
}

/* Only the activation follows the product: gemm includes it. */
static bool is_plain(const struct ctr_stack *s)
{
    return !s->shape.batch_norm && s->act != CTR_ACT_DICE;
}

int ctr_stack_first(const struct ctr_stack *s)
{
    return s->layers ? s->layer[0].weight : s->weight;
}

struct ctr_mat ctr_stack_first_sum(const struct ctr_stack *s, int64_t from, int64_t n, struct ctr_mat y)
{
    const struct ctr_stack_layer *first = &s->layer[0];
    return !s->layers ? y : rows_of(is_plain(s) ? first->y : first->z, from, n, first->out);
}

struct ctr_mat ctr_stack_first_dz(const struct ctr_stack *s, int64_t n, struct ctr_mat dy)
{
    return s->layers ? ctr_mat(s->down[1], n, s->layer[0].out) : dy;
}

/* The weights of layer l (the last layer: `layers`), whose parameter is `weight`. */
static struct ctr_mat weights_of(const struct ctr_deep *d, const struct ctr_stack *s, int l, int weight)
{
    return !l && s->first_weight.mem ? s->first_weight : ctr_deep_mat(d, weight);
}

/* Record that scored rows, from the first on, have their first sums in z with the current parameters. */
static void note_sums(const struct ctr_deep *d, struct ctr_stack *s, int64_t from, int64_t n)
{
    const bool follows = from == s->summed && s->summed_step == d->step;
    s->summed = !from || follows ? from + n : 0;
    s->summed_step = d->step;
}

bool ctr_stack_has_sums(const struct ctr_deep *d, const struct ctr_stack *s, int64_t n, bool training)
{
    return s->same_input && training && d->learns && s->layers && !is_plain(s) && s->summed_step == d->step &&
           s->summed == n && n;
}

/* A run of columns of the first layer's product. */
static struct ctr_dev_gemm part_of(const struct ctr_stack *s, const struct ctr_dev_gemm *whole, int i)
{
    struct ctr_dev_gemm part = *whole;
    part.a = ctr_mat_cols(whole->a, s->run[i].from, s->run[i].cols);
    part.b = ctr_mat_cols(whole->b, s->run[i].from, s->run[i].cols);
    part.add = i > 0;
    if (i + 1 == s->runs)
        return part;
    part.bias = (struct ctr_vec){ 0 };
    part.act = (struct ctr_act){ 0 };
    part.pre = (struct ctr_mat){ 0 };
    return part;
}

/* Prediction of all rows: the sums over the user's columns, once for equal rows, go to the rows of C. */
static int sum_user(struct ctr_deep *d, struct ctr_stack *s, const struct ctr_dev_gemm *whole,
                    const struct ctr_deep_distinct_view *v, struct ctr_err *err)
{
    const struct ctr_mat x = whole->a, c = whole->c;
    int rc = ctr_mem_grow(&s->user_x, d->dev, (size_t)(v->count * x.cols) * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_grow(&s->sum, d->dev, (size_t)(v->count * c.cols) * sizeof(float), err);
    if (rc)
        return rc;
    const struct ctr_mat once = ctr_mat(s->user_x, v->count, x.cols), sum = ctr_mat(s->sum, v->count, c.cols);
    const struct ctr_dev_move_rows take = { .n = v->count, .from = x, .to = once, .from_index = v->row };
    const struct ctr_dev_move_rows spread = { .n = x.rows, .from = sum, .to = c, .from_index = v->number };
    const struct ctr_dev_gemm of_users = { .a = once, .b = whole->b, .tb = true, .c = sum };
    rc = ctr_dev_move_rows(d->dev, &take, err);
    for (int i = 0; i < s->user_runs && !rc; i++) {
        const struct ctr_dev_gemm part = part_of(s, &of_users, i);
        rc = ctr_dev_gemm(d->dev, &part, err);
    }
    return rc ? rc : ctr_dev_move_rows(d->dev, &spread, err);
}

/* The first layer, run by run. */
static int first_product(struct ctr_deep *d, struct ctr_stack *s, const struct ctr_dev_gemm *whole, int64_t from,
                         struct ctr_err *err)
{
    struct ctr_deep_distinct_view v = { 0 };
    int rc = 0;
    if (!s->runs)
        return ctr_dev_gemm(d->dev, whole, err);
    if (!d->learns && !from && whole->a.rows == d->rows)
        v = ctr_deep_distinct_of(d, s->distinct, 0, d->rows);
    const bool shared = v.count && 2 * v.count <= whole->a.rows;
    if (shared)
        rc = sum_user(d, s, whole, &v, err);
    for (int i = shared ? s->user_runs : 0; i < s->runs && !rc; i++) {
        const struct ctr_dev_gemm part = part_of(s, whole, i);
        rc = ctr_dev_gemm(d->dev, &part, err);
    }
    return rc;
}

int ctr_stack_forward(struct ctr_deep *d, struct ctr_stack *s, struct ctr_mat x, int64_t from, bool training,
                      struct ctr_mat y, struct ctr_err *err)
{
    const bool plain = is_plain(s), summed = !from && ctr_stack_has_sums(d, s, x.rows, training);
    const int64_t n = x.rows;
    int rc = 0;
    for (int l = 0; l < s->layers && !rc; l++) {
        struct ctr_stack_layer *at = &s->layer[l];
        struct ctr_mat out = rows_of(at->y, from, n, at->out);
        struct ctr_mat z = at->z ? rows_of(at->z, from, n, at->out) : (struct ctr_mat){ 0 };
        const struct ctr_dev_gemm product = { .a = x,
                                              .b = weights_of(d, s, l, at->weight),
                                              .tb = true,
                                              .add = !l && s->first_weight.mem,
                                              .c = plain ? out : z,
                                              .bias = vec(d, at->bias),
                                              .act = plain ? act_of(d, s, at, training) : (struct ctr_act){ 0 },
                                              .pre = plain ? z : (struct ctr_mat){ 0 } };
        if (l)
            rc = ctr_dev_gemm(d->dev, &product, err);
        else if (!summed)
            rc = first_product(d, s, &product, from, err);
        if (!rc && !plain)
            rc = after_product(d, s, at, z, out, from, training, err);
        if (!rc && training)
            rc = drop(d, s, l, out, err);
        x = out;
    }
    if (!training)
        note_sums(d, s, from, n);
    if (rc || s->weight < 0)
        return rc;
    const struct ctr_dev_gemm last = { .a = x,
                                       .b = weights_of(d, s, s->layers, s->weight),
                                       .tb = true,
                                       .add = !s->layers && s->first_weight.mem,
                                       .c = y,
                                       .bias = vec(d, s->bias) };
    return ctr_dev_gemm(d->dev, &last, err);
}

/* ---- backward ---- */

/* Gradients of layer l: dW = dz' x; and, unless `down` is none, dz W, the gradient of (the first columns of) x,
 * converted further by `back`. */
static int product_gradients(struct ctr_deep *d, const struct ctr_stack *s, int l, int weight, struct ctr_mat dz,
                             struct ctr_mat x, struct ctr_mat down, struct ctr_dev_gemm_back back, struct ctr_err *err)
{
    const struct ctr_mat w = weights_of(d, s, l, weight);
    const struct ctr_mat to = !l && s->first_weight.mem ? s->first_grad : ctr_deep_mat_grad(d, weight);
    const struct ctr_dev_gemm dw = { .a = dz, .ta = true, .b = x, .c = to };
    const struct ctr_dev_gemm dx = { .a = dz, .b = ctr_mat_cols(w, 0, down.cols), .c = down, .back = back };
    int rc = ctr_dev_gemm(d->dev, &dw, err);
    return rc || !down.mem || !down.cols ? rc : ctr_dev_gemm(d->dev, &dx, err);
}

/* The gradient of a layer whose output is just its activation. */
static struct ctr_dev_gemm_back plain_back(struct ctr_deep *d, const struct ctr_stack *s,
                                           const struct ctr_stack_layer *y, int64_t rows)
{
    return (struct ctr_dev_gemm_back){ .z = ctr_mat(y->z, rows, y->out),
                                       .act = act_of(d, s, y, true),
                                       .dalpha = grad(d, y->alpha),
                                       .dbias = grad(d, y->bias) };
}

/* The gradient of a normalization by running statistics, which are constants: in place. Nothing writes norm_stats then,
 * which are 0. */
static int norm_backward(struct ctr_deep *d, const struct ctr_stack_layer *y, struct ctr_mat dy, struct ctr_err *err)
{
    const struct ctr_dev_norm scale = { .x = dy,
                                        .y = dy,
                                        .mean = ctr_vec(y->norm_stats, y->out),
                                        .var = vec(d, y->norm_var),
                                        .gamma = vec(d, y->gamma),
                                        .eps = BN_EPS };
    return ctr_dev_norm(d->dev, &scale, err);
}

/* Convert the gradient of another layer's output to that of its product, in place. */
static int before_product(struct ctr_deep *d, const struct ctr_stack *s, const struct ctr_stack_layer *y,
                          struct ctr_mat dy, struct ctr_err *err)
{
    struct ctr_mat z = ctr_mat(y->z, dy.rows, y->out);
    const struct ctr_dev_act_grad act = { .z = s->shape.batch_norm ? ctr_mat(y->n, dy.rows, y->out) : z,
                                          .dy = dy,
                                          .dz = dy,
                                          .act = act_of(d, s, y, true),
                                          .batch = y->act_stats,
                                          .dalpha = grad(d, y->alpha),
                                          .dbias = grad(d, y->bias) };
    int rc = ctr_dev_act_grad(d->dev, &act, err);
    if (rc || !s->shape.batch_norm)
        return rc;
    if (d->explains)
        return norm_backward(d, y, dy, err);
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

/* Convert the gradient of a layer's output, after dropout, to that of its product, in place. */
static int through_layer(struct ctr_deep *d, const struct ctr_stack *s, int l, struct ctr_mat dy, struct ctr_err *err)
{
    int rc = d->explains ? 0 : drop(d, s, l, dy, err);
    return rc ? rc : before_product(d, s, &s->layer[l], dy, err);
}

int ctr_stack_backward(struct ctr_deep *d, struct ctr_stack *s, struct ctr_mat x, struct ctr_mat dy, struct ctr_mat dx,
                       struct ctr_err *err)
{
    const int64_t n = x.rows;
    const bool last = s->weight >= 0;
    const struct ctr_dev_act_grad bias = { .z = dy, .dy = dy, .dz = dy, .dbias = grad(d, s->bias) };
    int rc = last ? ctr_dev_act_grad(d->dev, &bias, err) : through_layer(d, s, s->layers - 1, dy, err);
    int weight = last ? s->weight : s->layer[s->layers - 1].weight;
    for (int l = last ? s->layers : s->layers - 1; l >= 0 && !rc; l--) {
        const struct ctr_stack_layer *below = l ? &s->layer[l - 1] : NULL;
        struct ctr_mat input = below ? ctr_mat(below->y, n, below->out) : x;
        struct ctr_mat down = below ? ctr_mat(s->down[l % 2], n, below->out) : dx;
        const struct ctr_dev_gemm_back back =
            below && !s->separate_training_forward ? plain_back(d, s, below, n) : (struct ctr_dev_gemm_back){ 0 };
        rc = product_gradients(d, s, l, weight, dy, input, down, back, err);
        if (rc || !below)
            break;
        if (s->separate_training_forward)
            rc = through_layer(d, s, l - 1, down, err);
        dy = down;
        weight = below->weight;
    }
    return rc;
}
