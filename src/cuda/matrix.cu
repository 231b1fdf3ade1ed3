/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix: matrix product, activations, elementwise operations, batch normalization. Sums over rows: one thread per
 * column of a tile of CTR_RUN_ROWS rows sums in double, then one thread per column adds the tiles in order. */
#include "cuda/kernel.h"

enum { TILE = CTR_RUN_ROWS, SUMS = 4 };

/* ---- activations ---- */

/* Parameters of an activation; NULL: none. */
struct act_args {
    enum ctr_act_kind kind;
    float eps;
    const float *bias, *alpha, *mean, *var;
};

static struct act_args act_args(const struct ctr_act *act, struct ctr_vec bias)
{
    struct act_args k = {
        act->kind, act->eps, ctr_vec_f32(bias), ctr_vec_f32(act->alpha), ctr_vec_f32(act->mean), ctr_vec_f32(act->var)
    };
    return k;
}

static __device__ __forceinline__ float activate(const struct act_args &k, float z, int64_t j)
{
    switch (k.kind) {
    case CTR_ACT_RELU: return ctr_e_relu(z);
    case CTR_ACT_PRELU: return ctr_e_prelu(z, k.alpha[j]);
    case CTR_ACT_SIGMOID: return ctr_e_sigmoid(z);
    case CTR_ACT_DICE: return ctr_e_dice(z, k.alpha[j], k.mean[j], ctr_e_rstd(k.var[j], k.eps));
    default: return z;
    }
}

/* y = act(z + bias); pre, if present: z + bias. */
KERNEL act_kernel(struct act_args k, struct view z, struct view pre, struct view y, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    {
        const int64_t i = e / cols, j = e % cols;
        const float s = k.bias ? *at(z, i, j) + k.bias[j] : *at(z, i, j);
        if (pre.p)
            *at(pre, i, j) = s;
        *at(y, i, j) = activate(k, s, j);
    }
}

int cuda_act(struct ctr_dev *dev, const struct ctr_dev_act *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct view none = { NULL, 0 };
    LAUNCH(c, act_kernel, a->z.rows * a->z.cols, act_args(&a->act, a->bias), view_of(a->z), none, view_of(a->y),
           a->z.rows, a->z.cols);
    return cuda_started(c, "act", err);
}

/* ---- gemm: cuBLAS, whose matrices are column-major: C' = B' A' ---- */

KERNEL copy_kernel(struct view from, struct view to, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    *at(to, e / cols, e % cols) = *at(from, e / cols, e % cols);
}

KERNEL fill_kernel(struct view x, float value, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    *at(x, e / cols, e % cols) = value;
}

struct product {
    struct cuda_work w;
    const float *a, *b;
    float *c, beta;
    int ta, tb, m, n, k, a_stride, b_stride, c_stride;
};

static cudaError_t start_product(struct cuda_dev *c, const struct cuda_work *w)
{
    const struct product *p = (const struct product *)w;
    const float one = 1;
    if (cublasSgemm(c->blas, p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, p->n, p->m, p->k,
                    &one, p->b, p->b_stride, p->a, p->a_stride, &p->beta, p->c, p->c_stride) == CUBLAS_STATUS_SUCCESS)
        return cudaSuccess;
    const cudaError_t e = cudaGetLastError(); /* of a kernel before it */
    c->product[0] = p->m;
    c->product[1] = p->n;
    c->product[2] = p->k;
    return e == cudaSuccess ? cudaErrorUnknown : e;
}

static void multiply(struct cuda_dev *c, const struct ctr_dev_gemm *a, int64_t k)
{
    struct product p;
    memset(&p, 0, sizeof p);
    p.w.start = start_product;
    p.w.bytes = sizeof p;
    p.a = ctr_mat_f32(a->a);
    p.b = ctr_mat_f32(a->b);
    p.c = ctr_mat_f32(a->c);
    p.beta = a->add ? 1 : 0;
    p.ta = a->ta;
    p.tb = a->tb;
    p.m = (int)a->c.rows;
    p.n = (int)a->c.cols;
    p.k = (int)k;
    p.a_stride = (int)CTR_MAX(a->a.stride, 1);
    p.b_stride = (int)CTR_MAX(a->b.stride, 1);
    p.c_stride = (int)CTR_MAX(a->c.stride, 1);
    cuda_do(c, &p.w);
}

static int gemm_back(struct ctr_dev *dev, const struct ctr_dev_gemm *a, struct ctr_err *err)
{
    const struct ctr_dev_act_grad back = ctr_gemm_back(a);
    return back.z.mem ? cuda_act_grad(dev, &back, err) : cuda_started(cuda_of(dev), "gemm", err);
}

int cuda_gemm(struct ctr_dev *dev, const struct ctr_dev_gemm *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const int64_t m = a->c.rows, n = a->c.cols, k = a->ta ? a->a.rows : a->a.cols;
    const struct view none = { NULL, 0 }, out = view_of(a->c);

    if (m == 0 || n == 0)
        return gemm_back(dev, a, err);
    if (CTR_MAX(m, CTR_MAX(n, k)) > INT32_MAX || CTR_MAX(a->a.stride, CTR_MAX(a->b.stride, a->c.stride)) > INT32_MAX)
        return cuda_fail(err, CTR_EUSAGE, "gemm: more than 2^31 rows or columns");
    if (k == 0 && !a->add)
        LAUNCH(c, fill_kernel, m * n, out, 0.0f, m, n);
    if (k > 0)
        multiply(c, a, k);
    if (a->bias.mem || a->pre.mem || a->act.kind != CTR_ACT_NONE)
        LAUNCH(c, act_kernel, m * n, act_args(&a->act, a->bias), out, a->pre.mem ? view_of(a->pre) : none, out, m, n);
    return gemm_back(dev, a, err);
}

/* act_grad of 130 rows and 3 columns, whose sums over rows are dalpha and dbias:
 *
 *     new_sums          tiles 3: rows 0-63, 64-127, 128-129; p[4][3][3]: sum, tile, column
 *     act_grad_kernel   9 threads; that of tile 1 and column 2 goes through rows 64-127 of column 2, writes dz, and
 *                       stores its sums in p[0][1][2] and p[1][1][2]
 *     join_kernel       6 threads: p[s][0][j] + p[s][1][j] + p[s][2][j], rounded once, to dalpha and dbias
 *
 * The CPU sums runs of CTR_RUN_ROWS rows in the same order (ops_cpu.c). dice needs two of these rounds, as its second
 * kernel uses the joined sums 2 and 3 of the first. */

/* ---- sums over rows ---- */

/* Add sum[s][tile][col] to sum[s][0][col], tiles in order, and store the rounded result to `to`. */
KERNEL join_kernel(double *sum, int64_t tiles, int64_t cols, int sums, float *to0, float *to1)
{
    EACH(e, cols * sums)
    {
        const int64_t j = e % cols, which = e / cols;
        double *s = sum + which * tiles * cols;
        float *to = which ? to1 : to0;
        double total = s[j];
        for (int64_t t = 1; t < tiles; t++)
            total += s[t * cols + j];
        s[j] = total;
        if (to)
            to[j] = (float)total;
    }
}

struct sums {
    double *p; /* [SUMS][tiles][cols]; kernels set all that is summed */
    int64_t tiles, cols;
};

static int new_sums(struct cuda_dev *c, struct sums *s, int64_t rows, int64_t cols, struct ctr_err *err)
{
    int rc = 0;
    s->tiles = CTR_MAX((rows + TILE - 1) / TILE, 1);
    s->cols = cols;
    s->p = cuda_scratch<double>(c, 0, SUMS * s->tiles * cols, &rc, err);
    return rc;
}

static double *sum_of(const struct sums *s, int i)
{
    return s->p + i * s->tiles * s->cols;
}

static void join_and_store(struct cuda_dev *c, const struct sums *s, int first, int sums, struct ctr_vec to0,
                           struct ctr_vec to1)
{
    LAUNCH(c, join_kernel, s->cols * sums, sum_of(s, first), s->tiles, s->cols, sums, ctr_vec_f32(to0),
           ctr_vec_f32(to1));
}

/* ---- gradients of activations: sums 0 dalpha, 1 dbias, 2 dxhat, 3 dxhat · xhat ---- */

/* Rows that are read before the first of them is written, because dz may be dy: reads wait for nothing but themselves.
 */
enum { AT_ONCE = 8 };

KERNEL act_grad_kernel(struct act_args k, struct view z, struct view dy, struct view dz, struct sums s, int64_t rows)
{
    EACH(e, s.cols * s.tiles)
    {
        const int64_t j = e % s.cols, tile = e / s.cols, end = CTR_MIN((tile + 1) * TILE, rows);
        double dalpha = 0, dbias = 0;
        for (int64_t first = tile * TILE; first < end; first += AT_ONCE) {
            float all_g[AT_ONCE], all_v[AT_ONCE];
            for (int u = 0; u < AT_ONCE; u++) {
                const int64_t i = CTR_MIN(first + u, end - 1);
                all_g[u] = *at(dy, i, j);
                all_v[u] = k.kind == CTR_ACT_NONE ? 0 : *at(z, i, j);
            }
            for (int u = 0; u < AT_ONCE; u++) {
                const float g = all_g[u], v = all_v[u];
                float d = g;
                if (first + u >= end)
                    continue;
                if (k.kind == CTR_ACT_RELU)
                    d = v <= 0.0f ? 0.0f : g;
                if (k.kind == CTR_ACT_PRELU) {
                    d = v > 0.0f ? g : k.alpha[j] * g;
                    dalpha += (double)(v > 0.0f ? 0.0f : g * v);
                }
                if (k.kind == CTR_ACT_SIGMOID) {
                    const float p = ctr_e_sigmoid(v);
                    d = g * (p * (1.0f - p));
                }
                *at(dz, first + u, j) = d;
                dbias += (double)d;
            }
        }
        s.p[tile * s.cols + j] = dalpha;
        s.p[(s.tiles + tile) * s.cols + j] = dbias;
    }
}

KERNEL dice_sums_kernel(struct act_args k, struct view z, struct view dy, struct sums s, int64_t rows)
{
    EACH(e, s.cols * s.tiles)
    {
        const int64_t j = e % s.cols, tile = e / s.cols, end = CTR_MIN((tile + 1) * TILE, rows);
        const float rstd = ctr_e_rstd(k.var[j], k.eps);
        double dalpha = 0, sum = 0, sum_xhat = 0;
        for (int64_t i = tile * TILE; i < end; i++) {
            const float g = *at(dy, i, j);
            const struct ctr_dice_slope d = ctr_e_dice_slope(*at(z, i, j), k.alpha[j], k.mean[j], rstd);
            dalpha += (double)(g * d.dalpha);
            sum += (double)(g * d.dxhat);
            sum_xhat += (double)(g * d.dxhat * d.xhat);
        }
        s.p[tile * s.cols + j] = dalpha;
        s.p[(2 * s.tiles + tile) * s.cols + j] = sum;
        s.p[(3 * s.tiles + tile) * s.cols + j] = sum_xhat;
    }
}

KERNEL dice_grad_kernel(struct act_args k, struct view z, struct view dy, struct view dz, struct sums s, int64_t rows,
                        bool batch)
{
    EACH(e, s.cols * s.tiles)
    {
        const int64_t j = e % s.cols, tile = e / s.cols, end = CTR_MIN((tile + 1) * TILE, rows);
        const float rstd = ctr_e_rstd(k.var[j], k.eps);
        const float shift = batch ? (float)(s.p[2 * s.tiles * s.cols + j] / (double)rows) : 0;
        const float mean_dot = batch ? (float)(s.p[3 * s.tiles * s.cols + j] / (double)rows) : 0;
        double dbias = 0;
        for (int64_t i = tile * TILE; i < end; i++) {
            const float g = *at(dy, i, j);
            const struct ctr_dice_slope d = ctr_e_dice_slope(*at(z, i, j), k.alpha[j], k.mean[j], rstd);
            const float v = g * d.dz + (g * d.dxhat - (shift + d.xhat * mean_dot)) * rstd;
            *at(dz, i, j) = v;
            dbias += (double)v;
        }
        s.p[(s.tiles + tile) * s.cols + j] = dbias;
    }
}

int cuda_act_grad(struct ctr_dev *dev, const struct ctr_dev_act_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct ctr_vec none = { NULL, 0, 0 };
    const struct act_args k = act_args(&a->act, none);
    const struct view z = view_of(a->z), dy = view_of(a->dy), dz = view_of(a->dz);
    struct sums s;

    int rc = new_sums(c, &s, a->dy.rows, a->dy.cols, err);
    if (rc)
        return rc;
    if (k.kind == CTR_ACT_DICE) {
        LAUNCH(c, dice_sums_kernel, s.cols * s.tiles, k, z, dy, s, a->dy.rows);
        join_and_store(c, &s, 2, 2, none, none);
        LAUNCH(c, dice_grad_kernel, s.cols * s.tiles, k, z, dy, dz, s, a->dy.rows, a->batch);
    } else {
        LAUNCH(c, act_grad_kernel, s.cols * s.tiles, k, z, dy, dz, s, a->dy.rows);
    }
    join_and_store(c, &s, 0, 2, a->dalpha, a->dbias);
    return cuda_started(c, "act_grad", err);
}

/* ---- elementwise ---- */

int cuda_copy(struct ctr_dev *dev, const struct ctr_dev_copy *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, copy_kernel, a->from.rows * a->from.cols, view_of(a->from), view_of(a->to), a->from.rows, a->from.cols);
    return cuda_started(c, "copy", err);
}

int cuda_fill(struct ctr_dev *dev, const struct ctr_dev_fill *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, fill_kernel, a->x.rows * a->x.cols, view_of(a->x), a->value, a->x.rows, a->x.cols);
    return cuda_started(c, "fill", err);
}

KERNEL axpby_kernel(float a, struct view x, float b, struct view y, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    {
        const int64_t i = e / cols, j = e % cols;
        *at(y, i, j) = b == 0.0f ? a * *at(x, i, j) : a * *at(x, i, j) + b * *at(y, i, j);
    }
}

int cuda_axpby(struct ctr_dev *dev, const struct ctr_dev_axpby *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, axpby_kernel, a->x.rows * a->x.cols, a->a, view_of(a->x), a->b, view_of(a->y), a->x.rows, a->x.cols);
    return cuda_started(c, "axpby", err);
}

KERNEL row_dot_kernel(struct view a, struct view b, const float *bias, float *y, int64_t rows, int64_t cols)
{
    EACH(i, rows)
    {
        float sum = 0;
        for (int64_t j = 0; j < cols; j++)
            sum = fmaf(*at(a, i, j), *at(b, i, j), sum);
        y[i] = bias ? sum + *bias : sum;
    }
}

int cuda_row_dot(struct ctr_dev *dev, const struct ctr_dev_row_dot *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, row_dot_kernel, a->a.rows, view_of(a->a), view_of(a->b), ctr_vec_f32(a->bias), ctr_vec_f32(a->y),
           a->a.rows, a->a.cols);
    return cuda_started(c, "row_dot", err);
}

KERNEL row_scale_kernel(const float *s, struct view x, struct view y, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    *at(y, e / cols, e % cols) = s[e / cols] * *at(x, e / cols, e % cols);
}

int cuda_row_scale(struct ctr_dev *dev, const struct ctr_dev_row_scale *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, row_scale_kernel, a->x.rows * a->x.cols, ctr_vec_f32(a->s), view_of(a->x), view_of(a->y), a->x.rows,
           a->x.cols);
    return cuda_started(c, "row_scale", err);
}

KERNEL dropout_kernel(struct view x, struct view y, uint64_t base, uint64_t first, uint32_t least, float scale,
                      int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    *at(y, e / cols, e % cols) = *at(x, e / cols, e % cols) * ctr_e_keep(base, first + (uint64_t)e, least, scale);
}

int cuda_dropout(struct ctr_dev *dev, const struct ctr_dev_dropout *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, dropout_kernel, a->x.rows * a->x.cols, view_of(a->x), view_of(a->y),
           ctr_e_random_base(a->seed, a->stream), (uint64_t)a->row0 * (uint64_t)a->x.cols,
           (uint32_t)ceil((double)a->rate * 0x1p24), (float)(1 / (1 - (double)a->rate)), a->x.rows, a->x.cols);
    return cuda_started(c, "dropout", err);
}

/* ---- batch normalization ---- */

/* Sum 0: x; if means (the combined sum 0) are given, sum 1: (x - mean)^2. */
KERNEL stats_kernel(struct view x, struct sums s, int64_t rows, bool squares)
{
    EACH(e, s.cols * s.tiles)
    {
        const int64_t j = e % s.cols, tile = e / s.cols, end = CTR_MIN((tile + 1) * TILE, rows);
        const double mean = squares ? s.p[j] / (double)rows : 0;
        double sum = 0;
        for (int64_t i = tile * TILE; i < end; i++) {
            const double d = (double)*at(x, i, j) - mean;
            sum += squares ? d * d : d;
        }
        s.p[((squares ? s.tiles : 0) + tile) * s.cols + j] = sum;
    }
}

KERNEL stats_store_kernel(struct sums s, int64_t rows, float *mean, float *var)
{
    EACH(j, s.cols)
    {
        const double n = rows ? (double)rows : 1;
        mean[j] = (float)(s.p[j] / n);
        var[j] = (float)(s.p[s.tiles * s.cols + j] / n);
    }
}

int cuda_stats(struct ctr_dev *dev, const struct ctr_dev_stats *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct ctr_vec none = { NULL, 0, 0 };
    struct sums s;

    int rc = new_sums(c, &s, a->x.rows, a->x.cols, err);
    if (rc)
        return rc;
    LAUNCH(c, stats_kernel, s.cols * s.tiles, view_of(a->x), s, a->x.rows, false);
    join_and_store(c, &s, 0, 1, none, none);
    LAUNCH(c, stats_kernel, s.cols * s.tiles, view_of(a->x), s, a->x.rows, true);
    join_and_store(c, &s, 1, 1, none, none);
    LAUNCH(c, stats_store_kernel, s.cols, s, a->x.rows, ctr_vec_f32(a->mean), ctr_vec_f32(a->var));
    return cuda_started(c, "stats", err);
}

struct norm_args {
    const float *mean, *var, *gamma, *beta;
    float eps, unused; /* 0, in the place of padding: works are compared as bytes */
};

KERNEL norm_kernel(struct norm_args k, struct view x, struct view y, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    {
        const int64_t i = e / cols, j = e % cols;
        const float xhat = (*at(x, i, j) - k.mean[j]) * ctr_e_rstd(k.var[j], k.eps);
        *at(y, i, j) = (k.gamma ? k.gamma[j] : 1.0f) * xhat + (k.beta ? k.beta[j] : 0.0f);
    }
}

int cuda_norm(struct ctr_dev *dev, const struct ctr_dev_norm *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct norm_args k = {
        ctr_vec_f32(a->mean), ctr_vec_f32(a->var), ctr_vec_f32(a->gamma), ctr_vec_f32(a->beta), a->eps, 0
    };
    LAUNCH(c, norm_kernel, a->x.rows * a->x.cols, k, view_of(a->x), view_of(a->y), a->x.rows, a->x.cols);
    return cuda_started(c, "norm", err);
}

KERNEL norm_sums_kernel(struct norm_args k, struct view x, struct view dy, struct sums s, int64_t rows)
{
    EACH(e, s.cols * s.tiles)
    {
        const int64_t j = e % s.cols, tile = e / s.cols, end = CTR_MIN((tile + 1) * TILE, rows);
        const float rstd = ctr_e_rstd(k.var[j], k.eps);
        double dgamma = 0, dbeta = 0;
        for (int64_t i = tile * TILE; i < end; i++) {
            dgamma += (double)(*at(dy, i, j) * ((*at(x, i, j) - k.mean[j]) * rstd));
            dbeta += (double)*at(dy, i, j);
        }
        s.p[tile * s.cols + j] = dgamma;
        s.p[(s.tiles + tile) * s.cols + j] = dbeta;
    }
}

KERNEL norm_grad_kernel(struct norm_args k, struct view x, struct view dy, struct view dx, struct sums s, int64_t rows)
{
    EACH(e, rows * s.cols)
    {
        const int64_t i = e / s.cols, j = e % s.cols;
        const float rstd = ctr_e_rstd(k.var[j], k.eps), slope = (k.gamma ? k.gamma[j] : 1.0f) * rstd;
        const float mean_dot = (float)(s.p[j] / (double)rows),
                    shift = (float)(s.p[s.tiles * s.cols + j] / (double)rows);
        *at(dx, i, j) = slope * (*at(dy, i, j) - (shift + (*at(x, i, j) - k.mean[j]) * rstd * mean_dot));
    }
}

int cuda_norm_grad(struct ctr_dev *dev, const struct ctr_dev_norm_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct norm_args k = { ctr_vec_f32(a->mean), ctr_vec_f32(a->var), ctr_vec_f32(a->gamma), NULL, a->eps, 0 };
    struct sums s;

    int rc = new_sums(c, &s, a->x.rows, a->x.cols, err);
    if (rc)
        return rc;
    LAUNCH(c, norm_sums_kernel, s.cols * s.tiles, k, view_of(a->x), view_of(a->dy), s, a->x.rows);
    join_and_store(c, &s, 0, 2, a->dgamma, a->dbeta);
    LAUNCH(c, norm_grad_kernel, a->x.rows * a->x.cols, k, view_of(a->x), view_of(a->dy), view_of(a->dx), s, a->x.rows);
    return cuda_started(c, "norm_grad", err);
}
