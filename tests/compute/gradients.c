/* SPDX-License-Identifier: Apache-2.0
 *
 * gradients: each operation's gradient, as the tried back end computes it, against central differences of its forward
 * pass on the reference. The loss is a fixed random combination of the outputs, summed in double. An input moves by
 * h = 2^-6: h² times a third derivative of about 1 and u / h from outputs that are floats both stay below 5e-4 of the
 * largest derivative. Inputs lie further than h from the kinks of ReLU and PReLU. */
#include "trial.h"

#include <math.h>
#include <stdlib.h>

#define H 0x1p-6

enum { MOST = 4096 };

/* A function of one input array x (others fixed): out = f(x), and its gradient from dout. */
struct function {
    const char *name;
    int64_t inputs, outputs;
    float x[MOST], fixed[MOST], dout[MOST], grad[MOST];
    int kind;
    int (*forward)(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err);
    int (*backward)(struct function *f, struct ctr_dev *dev, struct ctr_err *err);
    const int32_t *lists; /* pooling */
};

/* Arrays on a device for the time of one call; freed together. */
struct desk {
    struct ctr_dev *dev;
    struct ctr_mem *mem[16];
    int count, rc;
    struct ctr_err *err;
};

static struct ctr_mem *put(struct desk *k, const void *data, int64_t n)
{
    struct ctr_mem **m = &k->mem[k->count++];
    *m = NULL;
    if (k->rc == 0)
        k->rc = ctr_mem_new(m, k->dev, (size_t)n * 4, k->err);
    if (k->rc == 0 && data)
        k->rc = ctr_mem_write(*m, 0, data, (size_t)n * 4, k->err);
    return *m;
}

static int clear_desk(struct desk *k, struct ctr_mem *from, float *to, int64_t n)
{
    if (k->rc == 0)
        k->rc = ctr_mem_read(from, 0, to, (size_t)n * 4, k->err);
    for (int i = 0; i < k->count; i++)
        ctr_mem_free(k->mem[i]);
    return k->rc;
}

enum { ROWS = 9, COLS = 7, INNER = 5 };

/* ---- gemm: by A (kind 0) or by B (kind 1), Y[ROWS x COLS] = A[ROWS x INNER] B[COLS x INNER]' ---- */

static int gemm_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *a = put(&k, f->kind ? f->fixed : x, ROWS * INNER),
                   *b = put(&k, f->kind ? x : f->fixed, COLS * INNER);
    struct ctr_mem *y = put(&k, NULL, ROWS * COLS);

    if (k.rc == 0)
        k.rc = ctr_dev_gemm(
            dev,
            &(struct ctr_dev_gemm){
                .a = ctr_mat(a, ROWS, INNER), .b = ctr_mat(b, COLS, INNER), .tb = true, .c = ctr_mat(y, ROWS, COLS) },
            err);
    return clear_desk(&k, y, out, ROWS * COLS);
}

static int gemm_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *other = put(&k, f->fixed, f->kind ? ROWS * INNER : COLS * INNER);
    struct ctr_mem *dy = put(&k, f->dout, ROWS * COLS), *g = put(&k, NULL, f->inputs);
    struct ctr_dev_gemm by_a = { .a = ctr_mat(dy, ROWS, COLS),
                                 .b = ctr_mat(other, COLS, INNER),
                                 .c = ctr_mat(g, ROWS, INNER) };
    struct ctr_dev_gemm by_b = {
        .a = ctr_mat(dy, ROWS, COLS), .ta = true, .b = ctr_mat(other, ROWS, INNER), .c = ctr_mat(g, COLS, INNER)
    };

    if (k.rc == 0)
        k.rc = ctr_dev_gemm(dev, f->kind ? &by_b : &by_a, err);
    return clear_desk(&k, g, f->grad, f->inputs);
}

/* ---- activations, by z or by alpha (kind / 8); bit 3 of kind: the statistics are the batch's ---- */

struct act_arrays {
    struct ctr_mem *z, *y, *alpha, *mean, *var;
    struct ctr_act act;
};

enum { BY_ALPHA = 16, BATCH = 8 };

static struct act_arrays put_act(struct desk *k, struct function *f, const float *x)
{
    struct act_arrays s;
    s.z = put(k, f->kind & BY_ALPHA ? f->fixed : x, ROWS * COLS);
    s.alpha = put(k, f->kind & BY_ALPHA ? x : f->fixed + 100, COLS);
    s.mean = put(k, f->fixed + 200, COLS);
    s.var = put(k, f->fixed + 300, COLS);
    s.y = put(k, NULL, ROWS * COLS);
    s.act = (struct ctr_act){ f->kind & 7, ctr_vec(s.alpha, COLS), ctr_vec(s.mean, COLS), ctr_vec(s.var, COLS), 0.01f };
    if (k->rc == 0 && f->kind & BATCH)
        k->rc =
            ctr_dev_stats(k->dev, &(struct ctr_dev_stats){ ctr_mat(s.z, ROWS, COLS), s.act.mean, s.act.var }, k->err);
    return s;
}

static int act_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    const struct act_arrays s = put_act(&k, f, x);

    if (k.rc == 0)
        k.rc = ctr_dev_act(
            dev, &(struct ctr_dev_act){ .z = ctr_mat(s.z, ROWS, COLS), .y = ctr_mat(s.y, ROWS, COLS), .act = s.act },
            err);
    return clear_desk(&k, s.y, out, ROWS * COLS);
}

static int act_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    const struct act_arrays s = put_act(&k, f, f->x);
    struct ctr_mem *dy = put(&k, f->dout, ROWS * COLS), *dalpha = put(&k, NULL, COLS);

    if (k.rc == 0)
        k.rc = ctr_dev_act_grad(dev,
                                &(struct ctr_dev_act_grad){ .z = ctr_mat(s.z, ROWS, COLS),
                                                            .dy = ctr_mat(dy, ROWS, COLS),
                                                            .dz = ctr_mat(s.y, ROWS, COLS),
                                                            .act = s.act,
                                                            .dalpha = ctr_vec(dalpha, COLS),
                                                            .batch = f->kind & BATCH },
                                err);
    return clear_desk(&k, f->kind & BY_ALPHA ? dalpha : s.y, f->grad, f->inputs);
}

/* ---- batch normalization, by x, gamma or beta ---- */

static int norm_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back,
                     struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *mx = put(&k, f->kind == 0 ? x : f->fixed, ROWS * COLS);
    struct ctr_mem *gamma = put(&k, f->kind == 1 ? x : f->fixed + 100, COLS);
    struct ctr_mem *beta = put(&k, f->kind == 2 ? x : f->fixed + 200, COLS);
    struct ctr_mem *mean = put(&k, NULL, COLS), *var = put(&k, NULL, COLS), *y = put(&k, NULL, ROWS * COLS);
    struct ctr_mem *dy = put(&k, f->dout, ROWS * COLS), *dgamma = put(&k, NULL, COLS), *dbeta = put(&k, NULL, COLS);
    const struct ctr_mat mat = ctr_mat(mx, ROWS, COLS);
    struct ctr_dev_norm a = { mat,
                              ctr_mat(y, ROWS, COLS),
                              ctr_vec(mean, COLS),
                              ctr_vec(var, COLS),
                              ctr_vec(gamma, COLS),
                              ctr_vec(beta, COLS),
                              0.01f };
    struct ctr_dev_norm_grad g = { mat,     ctr_mat(dy, ROWS, COLS), ctr_mat(y, ROWS, COLS), a.mean, a.var,
                                   a.gamma, ctr_vec(dgamma, COLS),   ctr_vec(dbeta, COLS),   0.01f };

    if (k.rc == 0)
        k.rc = ctr_dev_stats(dev, &(struct ctr_dev_stats){ mat, a.mean, a.var }, err);
    if (k.rc == 0)
        k.rc = back ? ctr_dev_norm_grad(dev, &g, err) : ctr_dev_norm(dev, &a, err);
    return clear_desk(&k,
                      !back || f->kind == 0 ? y
                      : f->kind == 1        ? dgamma
                                            : dbeta,
                      out, back ? f->inputs : ROWS * COLS);
}

static int norm_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    return norm_both(f, dev, x, out, false, err);
}

static int norm_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return norm_both(f, dev, f->x, f->grad, true, err);
}

/* ---- pooling over three rows of INNER, four lists ---- */

static const int32_t list_start[] = { 0, 2, 2, 3, 6 }, list_index[] = { 0, 2, 1, 2, 0, 1 };
static const int32_t list_segment[] = { 0, 0, 2, 3, 3, 3 }, list_group[] = { 0, 2, 4, 6 },
                     list_item[] = { 0, 4, 2, 5, 1, 3 };

static int pool_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back,
                     struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *rows = put(&k, x, 3 * INNER), *y = put(&k, back ? f->dout : NULL, 4 * INNER);
    struct ctr_mem *grad = put(&k, NULL, 3 * INNER);
    struct ctr_lists l = { .lists = 4, .per_row = 2 };
    struct ctr_mat out_mat = ctr_mat(y, 2, 2 * INNER), rows_mat = ctr_mat(rows, 3, INNER);

    l.start = ctr_vec(put(&k, list_start, 5), 5);
    l.index = ctr_vec(put(&k, list_index, 6), 6);
    l.segment = ctr_vec(put(&k, list_segment, 6), 6);
    l.x = ctr_vec(put(&k, f->fixed, 6), 6);
    struct ctr_vec group = ctr_vec(put(&k, list_group, 4), 4), item = ctr_vec(put(&k, list_item, 6), 6);
    if (k.rc == 0 && !back)
        k.rc = ctr_dev_pool(dev, &(struct ctr_dev_pool){ f->kind, l, rows_mat, out_mat }, err);
    struct ctr_mat pooled = ctr_mat(put(&k, NULL, 4 * INNER), 2, 2 * INNER);
    if (k.rc == 0 && back)
        k.rc = ctr_dev_pool(dev, &(struct ctr_dev_pool){ f->kind, l, rows_mat, pooled }, err);
    if (k.rc == 0 && back)
        k.rc = ctr_dev_pool_grad(dev,
                                 &(struct ctr_dev_pool_grad){ .how = f->kind,
                                                              .lists = l,
                                                              .group_start = group,
                                                              .group_item = item,
                                                              .rows = rows_mat,
                                                              .out = pooled,
                                                              .dout = out_mat,
                                                              .grad = ctr_mat(grad, 3, INNER) },
                                 err);
    return clear_desk(&k, back ? grad : y, out, back ? 3 * INNER : 4 * INNER);
}

static int pool_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    return pool_both(f, dev, x, out, false, err);
}

static int pool_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return pool_both(f, dev, f->x, f->grad, true, err);
}

/* ---- attention: four rows of 2, 0, 1 and 3 entries; by query, by key; by score, by value (kind / 2: softmax) ---- */

static const int32_t sequence_start[] = { 0, 2, 2, 3, 6 }, sequence_segment[] = { 0, 0, 2, 3, 3, 3 };

static struct ctr_segments put_segments(struct desk *k)
{
    struct ctr_segments s = { .start = ctr_vec(put(k, sequence_start, 5), 5) };
    s.segment = ctr_vec(put(k, sequence_segment, 6), 6);
    return s;
}

static int attend_input_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back,
                             struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    const struct ctr_segments s = put_segments(&k);
    struct ctr_mem *q = put(&k, f->kind ? f->fixed : x, 4 * INNER), *key = put(&k, f->kind ? x : f->fixed, 6 * INNER);
    struct ctr_mem *y = put(&k, back ? f->dout : NULL, 12 * INNER);
    struct ctr_mem *dq = put(&k, NULL, 4 * INNER), *dkey = put(&k, NULL, 6 * INNER);
    const struct ctr_dev_attend_input forward = { s, ctr_mat(q, 4, INNER), ctr_mat(key, 6, INNER),
                                                  ctr_mat(y, 6, 2 * INNER) };
    const struct ctr_dev_attend_input_grad gradient = { s,           forward.query,         forward.key,
                                                        forward.out, ctr_mat(dq, 4, INNER), ctr_mat(dkey, 6, INNER) };

    if (k.rc == 0)
        k.rc = back ? ctr_dev_attend_input_grad(dev, &gradient, err) : ctr_dev_attend_input(dev, &forward, err);
    return clear_desk(&k, !back ? y : f->kind ? dkey : dq, out, back ? f->inputs : f->outputs);
}

static int attend_input_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out,
                                struct ctr_err *err)
{
    return attend_input_both(f, dev, x, out, false, err);
}

static int attend_input_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return attend_input_both(f, dev, f->x, f->grad, true, err);
}

enum { BY_VALUE = 1, SOFTMAX = 2 };

static int attend_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back,
                       struct ctr_err *err)
{
    const bool softmax = f->kind & SOFTMAX;
    struct desk k = { .dev = dev, .err = err };
    const struct ctr_segments s = put_segments(&k);
    struct ctr_mem *score = put(&k, f->kind & BY_VALUE ? f->fixed : x, 6);
    struct ctr_mem *value = put(&k, f->kind & BY_VALUE ? x : f->fixed, 6 * INNER);
    struct ctr_mem *share = put(&k, NULL, 6), *y = put(&k, NULL, 4 * INNER), *dout = put(&k, f->dout, 4 * INNER);
    struct ctr_mem *dscore = put(&k, NULL, 6), *dvalue = put(&k, NULL, 6 * INNER);
    const struct ctr_dev_attend forward = { .segments = s,
                                            .softmax = softmax,
                                            .scale = 0.7f,
                                            .score = ctr_vec(score, 6),
                                            .share = ctr_vec(softmax ? share : NULL, 6),
                                            .value = ctr_mat(value, 6, INNER),
                                            .out = ctr_mat(y, 4, INNER) };
    const struct ctr_dev_attend_grad gradient = { .segments = s,
                                                  .softmax = softmax,
                                                  .scale = 0.7f,
                                                  .share = ctr_vec(softmax ? share : score, 6),
                                                  .value = forward.value,
                                                  .dout = ctr_mat(dout, 4, INNER),
                                                  .dscore = ctr_vec(dscore, 6),
                                                  .dvalue = ctr_mat(dvalue, 6, INNER) };

    if (k.rc == 0)
        k.rc = ctr_dev_attend(dev, &forward, err);
    if (k.rc == 0 && back)
        k.rc = ctr_dev_attend_grad(dev, &gradient, err);
    return clear_desk(&k, !back ? y : f->kind & BY_VALUE ? dvalue : dscore, out, back ? f->inputs : f->outputs);
}

static int attend_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    return attend_both(f, dev, x, out, false, err);
}

static int attend_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return attend_both(f, dev, f->x, f->grad, true, err);
}

/* ---- crosses: by x0 (kind 0), by z (1); x stays ---- */

static int cross_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back,
                      struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *x0 = put(&k, f->kind ? f->fixed : x, ROWS * COLS),
                   *z = put(&k, f->kind ? x : f->fixed, ROWS * COLS);
    struct ctr_mem *same = put(&k, f->fixed + 100, ROWS * COLS), *dy = put(&k, f->dout, ROWS * COLS);
    struct ctr_mem *y = put(&k, NULL, ROWS * COLS), *dx0 = put(&k, NULL, ROWS * COLS);
    const struct ctr_mat m0 = ctr_mat(x0, ROWS, COLS), mz = ctr_mat(z, ROWS, COLS), my = ctr_mat(y, ROWS, COLS);

    if (k.rc == 0 && !back)
        k.rc = ctr_dev_cross(dev, &(struct ctr_dev_cross){ m0, mz, ctr_mat(same, ROWS, COLS), my }, err);
    if (k.rc == 0 && back)
        k.rc = ctr_dev_cross_grad(
            dev, &(struct ctr_dev_cross_grad){ m0, mz, ctr_mat(dy, ROWS, COLS), my, ctr_mat(dx0, ROWS, COLS), false },
            err);
    return clear_desk(&k, back && !f->kind ? dx0 : y, out, ROWS * COLS);
}

static int cross_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    return cross_both(f, dev, x, out, false, err);
}

static int cross_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return cross_both(f, dev, f->x, f->grad, true, err);
}

/* ---- inner products of the pairs of 4 vectors of INNER ---- */

static int dots_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back,
                     struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *v = put(&k, x, ROWS * 4 * INNER), *y = put(&k, back ? f->dout : NULL, ROWS * 6);
    struct ctr_mem *dx = put(&k, NULL, ROWS * 4 * INNER);
    const struct ctr_mat mv = ctr_mat(v, ROWS, 4 * INNER), my = ctr_mat(y, ROWS, 6);

    if (k.rc == 0 && !back)
        k.rc = ctr_dev_dots(dev, &(struct ctr_dev_dots){ 4, mv, my }, err);
    if (k.rc == 0 && back)
        k.rc = ctr_dev_dots_grad(dev, &(struct ctr_dev_dots_grad){ 4, mv, my, ctr_mat(dx, ROWS, 4 * INNER) }, err);
    return clear_desk(&k, back ? dx : y, out, back ? f->inputs : f->outputs);
}

static int dots_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    return dots_both(f, dev, x, out, false, err);
}

static int dots_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return dots_both(f, dev, f->x, f->grad, true, err);
}

/* ---- inner products of rows ---- */

static int row_dot_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *a = put(&k, x, ROWS * COLS), *b = put(&k, f->fixed, ROWS * COLS), *y = put(&k, NULL, ROWS);

    if (k.rc == 0)
        k.rc = ctr_dev_row_dot(dev,
                               &(struct ctr_dev_row_dot){
                                   .a = ctr_mat(a, ROWS, COLS), .b = ctr_mat(b, ROWS, COLS), .y = ctr_vec(y, ROWS) },
                               err);
    return clear_desk(&k, y, out, ROWS);
}

static int row_dot_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *dy = put(&k, f->dout, ROWS), *b = put(&k, f->fixed, ROWS * COLS);
    struct ctr_mem *da = put(&k, NULL, ROWS * COLS);
    const struct ctr_dev_row_scale scale = { ctr_vec(dy, ROWS), ctr_mat(b, ROWS, COLS), ctr_mat(da, ROWS, COLS) };

    if (k.rc == 0)
        k.rc = ctr_dev_row_scale(dev, &scale, err);
    return clear_desk(&k, da, f->grad, f->inputs);
}

/* ---- dropout: its gradient is itself ---- */

static int dropout_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *m = put(&k, x, ROWS * COLS);

    (void)f;
    if (k.rc == 0)
        k.rc = ctr_dev_dropout(
            dev, &(struct ctr_dev_dropout){ ctr_mat(m, ROWS, COLS), ctr_mat(m, ROWS, COLS), 0.3f, 3, 4, 5 }, err);
    return clear_desk(&k, m, out, ROWS * COLS);
}

static int dropout_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return dropout_forward(f, dev, f->dout, f->grad, err);
}

/* ---- loss ---- */

static int bce_both(struct function *f, struct ctr_dev *dev, const float *x, float *out, bool back, struct ctr_err *err)
{
    struct desk k = { .dev = dev, .err = err };
    struct ctr_mem *z = put(&k, x, ROWS), *label = put(&k, f->fixed, ROWS), *weight = put(&k, f->fixed + ROWS, ROWS);
    struct ctr_mem *loss = put(&k, NULL, ROWS), *dz = put(&k, NULL, ROWS);

    if (k.rc == 0)
        k.rc = ctr_dev_bce(dev,
                           &(struct ctr_dev_bce){ .z = ctr_vec(z, ROWS),
                                                  .label = ctr_vec(label, ROWS),
                                                  .weight = ctr_vec(weight, ROWS),
                                                  .loss = ctr_vec(loss, ROWS),
                                                  .dz = ctr_vec(dz, ROWS),
                                                  .scale = 1 },
                           err);
    int rc = clear_desk(&k, back ? dz : loss, out, ROWS);
    for (int i = 0; i < ROWS && back; i++)
        out[i] *= f->dout[i];
    return rc;
}

static int bce_forward(struct function *f, struct ctr_dev *dev, const float *x, float *out, struct ctr_err *err)
{
    return bce_both(f, dev, x, out, false, err);
}

static int bce_backward(struct function *f, struct ctr_dev *dev, struct ctr_err *err)
{
    return bce_both(f, dev, f->x, f->grad, true, err);
}

/* ---- the judge ---- */

static double loss_at(struct trial *t, struct function *f, const float *x)
{
    static float out[MOST];
    struct ctr_err err = { 0 };
    double sum = 0;

    if (f->forward(f, t->dev[REFERENCE], x, out, &err))
        trial_wrong(t, "%s", err.what);
    for (int64_t i = 0; i < f->outputs; i++)
        sum += (double)out[i] * (double)f->dout[i];
    return sum;
}

static void judge(struct trial *t, struct function *f)
{
    double largest = 1;
    struct ctr_err err = { 0 };

    if (f->backward(f, t->dev[TRIED], &err))
        trial_wrong(t, "%s", err.what);
    for (int64_t i = 0; i < f->inputs; i++)
        largest = fmax(largest, fabs((double)f->grad[i]));
    for (int64_t i = 0; i < f->inputs; i++) {
        const float x = f->x[i];
        f->x[i] = x + (float)H;
        const double up = loss_at(t, f, f->x);
        f->x[i] = x - (float)H;
        const double down = loss_at(t, f, f->x);
        f->x[i] = x;
        const double want = (up - down) / (2 * H);
        if (!(fabs(want - (double)f->grad[i]) <= 5e-4 * largest))
            trial_wrong(t, "derivative %lld is %.6g, differences give %.6g", (long long)i, (double)f->grad[i], want);
    }
}

static void fill_random(struct trial *t, float *x, double low, double high)
{
    for (int i = 0; i < MOST; i++)
        x[i] = (float)(low + (high - low) * trial_random(t));
}

void trial_gradients(struct trial *t)
{
    static struct function functions[] = {
        { "gemm by A", ROWS * INNER, ROWS * COLS, .forward = gemm_forward, .backward = gemm_backward },
        { "gemm by B", COLS * INNER, ROWS * COLS, .kind = 1, .forward = gemm_forward, .backward = gemm_backward },
        { "relu", ROWS * COLS, ROWS * COLS, .kind = CTR_ACT_RELU, .forward = act_forward, .backward = act_backward },
        { "prelu", ROWS * COLS, ROWS * COLS, .kind = CTR_ACT_PRELU, .forward = act_forward, .backward = act_backward },
        { "prelu by alpha", COLS, ROWS * COLS, .kind = CTR_ACT_PRELU | BY_ALPHA, .forward = act_forward,
          .backward = act_backward },
        { "sigmoid", ROWS * COLS, ROWS * COLS, .kind = CTR_ACT_SIGMOID, .forward = act_forward,
          .backward = act_backward },
        { "dice", ROWS * COLS, ROWS * COLS, .kind = CTR_ACT_DICE, .forward = act_forward, .backward = act_backward },
        { "dice through the batch", ROWS * COLS, ROWS * COLS, .kind = CTR_ACT_DICE | BATCH, .forward = act_forward,
          .backward = act_backward },
        { "dice by alpha", COLS, ROWS * COLS, .kind = CTR_ACT_DICE | BATCH | BY_ALPHA, .forward = act_forward,
          .backward = act_backward },
        { "norm", ROWS * COLS, ROWS * COLS, .kind = 0, .forward = norm_forward, .backward = norm_backward },
        { "norm by gamma", COLS, ROWS * COLS, .kind = 1, .forward = norm_forward, .backward = norm_backward },
        { "norm by beta", COLS, ROWS * COLS, .kind = 2, .forward = norm_forward, .backward = norm_backward },
        { "pool sum", 3 * INNER, 4 * INNER, .kind = CTR_POOL_SUM, .forward = pool_forward, .backward = pool_backward },
        { "pool mean", 3 * INNER, 4 * INNER, .kind = CTR_POOL_MEAN, .forward = pool_forward,
          .backward = pool_backward },
        { "pool max", 3 * INNER, 4 * INNER, .kind = CTR_POOL_MAX, .forward = pool_forward, .backward = pool_backward },
        { "attend_input by query", 4 * INNER, 12 * INNER, .forward = attend_input_forward,
          .backward = attend_input_backward },
        { "attend_input by key", 6 * INNER, 12 * INNER, .kind = 1, .forward = attend_input_forward,
          .backward = attend_input_backward },
        { "attend by score", 6, 4 * INNER, .forward = attend_forward, .backward = attend_backward },
        { "attend by value", 6 * INNER, 4 * INNER, .kind = BY_VALUE, .forward = attend_forward,
          .backward = attend_backward },
        { "attend by score, softmax", 6, 4 * INNER, .kind = SOFTMAX, .forward = attend_forward,
          .backward = attend_backward },
        { "attend by value, softmax", 6 * INNER, 4 * INNER, .kind = BY_VALUE | SOFTMAX, .forward = attend_forward,
          .backward = attend_backward },
        { "pool fm", 3 * INNER, 4 * INNER, .kind = CTR_POOL_FM, .forward = pool_forward, .backward = pool_backward },
        { "cross by x0", ROWS * COLS, ROWS * COLS, .kind = 0, .forward = cross_forward, .backward = cross_backward },
        { "cross by z", ROWS * COLS, ROWS * COLS, .kind = 1, .forward = cross_forward, .backward = cross_backward },
        { "dots", ROWS * 4 * INNER, ROWS * 6, .forward = dots_forward, .backward = dots_backward },
        { "row_dot", ROWS * COLS, ROWS, .forward = row_dot_forward, .backward = row_dot_backward },
        { "dropout", ROWS * COLS, ROWS * COLS, .forward = dropout_forward, .backward = dropout_backward },
        { "bce", ROWS, ROWS, .forward = bce_forward, .backward = bce_backward },
    };

    for (size_t n = 0; n < CTR_COUNT(functions); n++) {
        struct function *f = &functions[n];
        trial_start(t, 0, "%s", f->name);
        fill_random(t, f->fixed, 0.2, 1);
        fill_random(t, f->x, 0.1, 1);
        fill_random(t, f->dout, -1, 1);
        for (int i = 0; i < MOST; i++) /* both sides of 0; where MAX chooses, rows further apart than 2 h */
            f->x[i] = f->forward == pool_forward ? (float)((i * 5 % 19) - 9) / 4
                      : trial_below(t, 2)        ? f->x[i]
                                                 : -f->x[i];
        for (int i = 0; i < MOST && f->forward == pool_forward && f->kind == CTR_POOL_MAX; i++)
            f->fixed[i] = 0.75f; /* other weights could bring two rows together again */
        judge(t, f);
        char name[80];
        snprintf(name, sizeof name, "gradient of %s", f->name);
        trial_report(t, name);
    }
}
