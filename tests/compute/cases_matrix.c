/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_matrix: trials of matrix product, activations, elementwise operations, batch normalization.
 *
 * Tolerances. u = 2^-24. A chain of k products of numbers in [-1, 1] has some sqrt(k) u from the products; and its
 * partial sums walk some sqrt(k) / 3 away from 0, so that the roundings of the additions come to k u / 7. Four times
 * that is allowed, and 16 u for what an activation adds. Sums over rows have accumulators of double: only terms'
 * roundings count, u each. */
#include "trial.h"

#include <math.h>

#define U 0x1p-24

static double chain(int64_t k)
{
    return U * (4 * sqrt((double)k + 16) + (double)k / 2);
}

struct matrix {
    struct array *a;
    int64_t rows, cols, stride;
};

static struct matrix matrix(struct trial *t, const char *name, bool out, int64_t rows, int64_t cols)
{
    const int64_t stride = cols + trial_below(t, 3) * 5;
    return (struct matrix){ trial_uniform(t, name, out, rows * stride, -1, 1), rows, cols, stride };
}

static struct ctr_mat view(struct matrix m, int d)
{
    return trial_mat(m.a, d, m.rows, m.cols, m.stride);
}

static struct array *maybe(struct trial *t, const char *name, bool out, int64_t n, bool there)
{
    return there ? trial_uniform(t, name, out, n, -1, 1) : NULL;
}

/* ---- gemm ---- */

struct gemm {
    struct matrix a, b, c, pre;
    bool ta, tb, add;
    struct array *bias, *alpha, *mean, *var, *dalpha, *dbias;
    enum ctr_act_kind act;
};

static struct ctr_act activation(const struct gemm *g, int d)
{
    return (struct ctr_act){
        g->act, trial_vec(g->alpha, d), trial_vec(g->mean, d), trial_vec(g->var, d), 1e-3f,
    };
}

static void activation_arrays(struct trial *t, struct gemm *g, int64_t cols)
{
    const bool dice = g->act == CTR_ACT_DICE;
    g->alpha = maybe(t, "alpha", false, cols, dice || g->act == CTR_ACT_PRELU);
    g->mean = maybe(t, "mean", false, cols, dice);
    g->var = dice ? trial_uniform(t, "var", false, cols, 0.5, 1.5) : NULL;
}

static int run_gemm(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct gemm *g = ctx;
    struct ctr_dev_gemm a = { .a = view(g->a, d),
                              .b = view(g->b, d),
                              .c = view(g->c, d),
                              .ta = g->ta,
                              .tb = g->tb,
                              .add = g->add,
                              .bias = trial_vec(g->bias, d),
                              .act = activation(g, d) };
    if (g->pre.a)
        a.pre = view(g->pre, d);
    return ctr_dev_gemm(t->dev[d], &a, err);
}

static void one_gemm(struct trial *t, int64_t m, int64_t n, int64_t k, int variant)
{
    struct gemm g = { .ta = variant & 1, .tb = variant & 2, .act = trial_below(t, 5), .add = trial_below(t, 2) };

    trial_start(t, chain(k), "gemm %lldx%lldx%lld%s%s act %d%s", (long long)m, (long long)n, (long long)k,
                g.ta ? " ta" : "", g.tb ? " tb" : "", g.act, g.add ? " add" : "");
    g.a = matrix(t, "a", false, g.ta ? k : m, g.ta ? m : k);
    g.b = matrix(t, "b", false, g.tb ? n : k, g.tb ? k : n);
    g.c = matrix(t, "c", true, m, n);
    if (trial_below(t, 2))
        g.pre = matrix(t, "pre", true, m, n);
    g.bias = maybe(t, "bias", false, n, trial_below(t, 2));
    activation_arrays(t, &g, n);
    trial_go(t, run_gemm, &g);
}

/* With the gradient of an activation behind it: its slopes are off as in act_grad, and its sums over m rows add up what
 * m products are off by. */
static int run_gemm_back(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct gemm *g = ctx;
    const struct ctr_dev_gemm a = { .a = view(g->a, d),
                                    .b = view(g->b, d),
                                    .c = view(g->c, d),
                                    .tb = g->tb,
                                    .add = g->add,
                                    .back = { .z = view(g->pre, d),
                                              .act = activation(g, d),
                                              .dalpha = trial_vec(g->dalpha, d),
                                              .dbias = trial_vec(g->dbias, d) } };
    return ctr_dev_gemm(t->dev[d], &a, err);
}

static void one_gemm_back(struct trial *t, int64_t m, int64_t n, int64_t k)
{
    struct gemm g = { .tb = trial_below(t, 2), .act = trial_below(t, CTR_ACT_DICE), .add = trial_below(t, 2) };

    trial_start(t, 64 * U + chain(k) * sqrt((double)(m + 1)), "gemm %lldx%lldx%lld back through act %d%s", (long long)m,
                (long long)n, (long long)k, g.act, g.add ? " add" : "");
    g.a = matrix(t, "a", false, m, k);
    g.b = matrix(t, "b", false, g.tb ? n : k, g.tb ? k : n);
    g.c = matrix(t, "c", true, m, n);
    g.pre = matrix(t, "z", false, m, n);
    g.dalpha = maybe(t, "dalpha", true, n, g.act == CTR_ACT_PRELU);
    g.dbias = maybe(t, "dbias", true, n, trial_below(t, 4));
    activation_arrays(t, &g, n);
    trial_go(t, run_gemm_back, &g);
}

static void try_gemm(struct trial *t)
{
    static const struct {
        int64_t m, n, k;
    } more[] = { { 5, 80, 400 },    { 241, 200, 3 }, { 4, 24, 1025 },   { 7, 97, 2049 },  { 600, 5, 31 },
                 { 1000, 530, 20 }, { 1, 1, 5000 },  { 130, 90, 1300 }, { 560, 20, 1100 } };

    for (int m = 0; m < TRIAL_SIZES; m++)
        for (int n = 0; n < TRIAL_SIZES; n++)
            for (int k = 0; k < TRIAL_SIZES; k++) {
                one_gemm_back(t, trial_sizes[m], trial_sizes[n], trial_sizes[k]);
                one_gemm(t, trial_sizes[m], trial_sizes[n], trial_sizes[k], (m + n + k) % 4);
            }
    for (size_t i = 0; i < CTR_COUNT(more); i++)
        one_gemm_back(t, more[i].m, more[i].n, more[i].k);
    for (size_t i = 0; i < 4 * CTR_COUNT(more); i++)
        one_gemm(t, more[i / 4].m, more[i / 4].n, more[i / 4].k, i & 3);
}

/* ---- activations ---- */

struct acts {
    struct gemm g;
    struct matrix z, dy, y;
    struct array *dalpha, *dbias;
    bool in_place, batch;
};

static int run_act(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct acts *s = ctx;
    return ctr_dev_act(t->dev[d],
                       &(struct ctr_dev_act){ .z = view(s->z, d),
                                              .y = view(s->in_place ? s->z : s->y, d),
                                              .bias = trial_vec(s->g.bias, d),
                                              .act = activation(&s->g, d) },
                       err);
}

static void try_act(struct trial *t)
{
    for (int kind = 0; kind <= CTR_ACT_DICE; kind++)
        for (int i = 0; i < TRIAL_SIZES * TRIAL_SIZES * 2; i++) {
            const int64_t rows = trial_sizes[i % 5], cols = trial_sizes[i / 5 % 5];
            struct acts s = { .g.act = kind, .in_place = i >= 25 };
            trial_start(t, 32 * U, "act %d %lldx%lld", kind, (long long)rows, (long long)cols);
            s.z = matrix(t, "z", s.in_place, rows, cols);
            for (int64_t e = 0; e < s.z.a->n; e++) /* wide enough to saturate a sigmoid */
                ((float *)trial_data(s.z.a))[e] *= i % 2 ? 100 : 3;
            if (!s.in_place)
                s.y = matrix(t, "y", true, rows, cols);
            s.g.bias = maybe(t, "bias", false, cols, i % 2);
            activation_arrays(t, &s.g, cols);
            trial_go(t, run_act, &s);
        }
}

static int run_act_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct acts *s = ctx;
    struct ctr_dev_act_grad a = { .dy = view(s->dy, d),
                                  .dz = view(s->in_place ? s->dy : s->y, d),
                                  .z = view(s->z, d),
                                  .act = activation(&s->g, d),
                                  .batch = s->batch,
                                  .dalpha = trial_vec(s->dalpha, d),
                                  .dbias = trial_vec(s->dbias, d) };
    return ctr_dev_act_grad(t->dev[d], &a, err);
}

static void try_act_grad(struct trial *t)
{
    for (int kind = 0; kind <= CTR_ACT_DICE; kind++)
        for (int i = 0; i < TRIAL_SIZES * TRIAL_SIZES * 2; i++) {
            const int64_t rows = trial_sizes[i % 5], cols = trial_sizes[i / 5 % 5];
            struct acts s = { .g.act = kind, .in_place = i % 2, .batch = i >= 25 };
            trial_start(t, 64 * U, "act_grad %d %lldx%lld%s", kind, (long long)rows, (long long)cols,
                        s.batch ? " batch" : "");
            s.z = matrix(t, "z", false, rows, cols);
            s.dy = matrix(t, "dy", s.in_place, rows, cols);
            if (!s.in_place)
                s.y = matrix(t, "dz", true, rows, cols);
            s.dalpha = maybe(t, "dalpha", true, cols, kind == CTR_ACT_PRELU || kind == CTR_ACT_DICE);
            s.dbias = maybe(t, "dbias", true, cols, i % 3);
            activation_arrays(t, &s.g, cols);
            trial_go(t, run_act_grad, &s);
        }
}

/* ---- copy, axpby, fill, dropout ---- */

struct pair {
    struct matrix x, y;
    float a, b;
    int64_t row0;
    bool in_place;
};

static int run_copy(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct pair *p = ctx;
    return ctr_dev_copy(t->dev[d], &(struct ctr_dev_copy){ view(p->x, d), view(p->y, d) }, err);
}

static int run_axpby(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct pair *p = ctx;
    return ctr_dev_axpby(t->dev[d], &(struct ctr_dev_axpby){ p->a, p->b, view(p->x, d), view(p->y, d) }, err);
}

static int run_fill(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct pair *p = ctx;
    return ctr_dev_fill(t->dev[d], &(struct ctr_dev_fill){ view(p->y, d), p->a }, err);
}

static int run_dropout(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct pair *p = ctx;
    return ctr_dev_dropout(t->dev[d],
                           &(struct ctr_dev_dropout){ .x = view(p->in_place ? p->y : p->x, d),
                                                      .y = view(p->y, d),
                                                      .rate = p->a,
                                                      .seed = t->seed,
                                                      .stream = 7,
                                                      .row0 = p->row0 },
                           err);
}

static void try_pairs(struct trial *t, const char *name,
                      int (*run)(struct trial *t, int d, void *ctx, struct ctr_err *err), bool reads_y)
{
    static const float rates[] = { 0, 0.5f, 0.1f, 0.999f };
    for (int i = 0; i < 2 * TRIAL_SIZES * TRIAL_SIZES; i++) {
        struct pair p = { .b = i % 3 ? -0.75f : 0, .row0 = i * 1000, .in_place = !reads_y && i % 2 };
        p.a = run == run_dropout ? rates[i % 4] : 1.5f;
        trial_start(t, 4 * U, "%s %lldx%lld", name, (long long)trial_sizes[i % 5], (long long)trial_sizes[i / 5 % 5]);
        p.x = matrix(t, "x", false, trial_sizes[i % 5], trial_sizes[i / 5 % 5]);
        p.y = matrix(t, "y", true, p.x.rows, p.x.cols);
        trial_go(t, run, &p);
    }
}

static void try_copy(struct trial *t)
{
    try_pairs(t, "copy", run_copy, true);
}
static void try_axpby(struct trial *t)
{
    try_pairs(t, "axpby", run_axpby, true);
}
static void try_fill(struct trial *t)
{
    try_pairs(t, "fill", run_fill, true);
}
static void try_dropout(struct trial *t)
{
    try_pairs(t, "dropout", run_dropout, false);
}

/* ---- inner products of rows, and their gradient ---- */

struct dots {
    struct matrix a, b, out;
    struct array *s, *bias;
    bool in_place;
};

static int run_row_dot(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct dots *s = ctx;
    return ctr_dev_row_dot(
        t->dev[d], &(struct ctr_dev_row_dot){ view(s->a, d), view(s->b, d), trial_vec(s->bias, d), trial_vec(s->s, d) },
        err);
}

static int run_row_scale(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct dots *s = ctx;
    return ctr_dev_row_scale(
        t->dev[d],
        &(struct ctr_dev_row_scale){ trial_vec(s->s, d), view(s->in_place ? s->out : s->a, d), view(s->out, d) }, err);
}

static void try_row_dot(struct trial *t)
{
    for (int i = 0; i < TRIAL_SIZES * TRIAL_SIZES; i++) {
        const int64_t rows = trial_sizes[i % 5], cols = trial_sizes[i / 5];
        struct dots s = { 0 };
        trial_start(t, chain(cols), "row_dot %lldx%lld", (long long)rows, (long long)cols);
        s.a = matrix(t, "a", false, rows, cols);
        s.b = matrix(t, "b", false, rows, cols);
        s.bias = maybe(t, "bias", false, 1, i % 2);
        s.s = trial_uniform(t, "y", true, rows, -1, 1);
        trial_go(t, run_row_dot, &s);
    }
}

static void try_row_scale(struct trial *t)
{
    for (int i = 0; i < 2 * TRIAL_SIZES * TRIAL_SIZES; i++) {
        const int64_t rows = trial_sizes[i % 5], cols = trial_sizes[i / 5 % 5];
        struct dots s = { .in_place = i % 2 };
        trial_start(t, 4 * U, "row_scale %lldx%lld", (long long)rows, (long long)cols);
        s.a = matrix(t, "x", false, rows, cols);
        s.s = trial_uniform(t, "s", false, rows, -1, 1);
        s.out = matrix(t, "y", true, rows, cols);
        trial_go(t, run_row_scale, &s);
    }
}

/* ---- batch normalization ---- */

struct norms {
    struct matrix x, dy, y;
    struct array *mean, *var, *gamma, *beta, *dgamma, *dbeta;
};

static int run_stats(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct norms *s = ctx;
    return ctr_dev_stats(t->dev[d],
                         &(struct ctr_dev_stats){ view(s->x, d), trial_vec(s->mean, d), trial_vec(s->var, d) }, err);
}

static int run_norm(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct norms *s = ctx;
    return ctr_dev_norm(t->dev[d],
                        &(struct ctr_dev_norm){ .x = view(s->x, d),
                                                .y = view(s->y, d),
                                                .mean = trial_vec(s->mean, d),
                                                .var = trial_vec(s->var, d),
                                                .gamma = trial_vec(s->gamma, d),
                                                .beta = trial_vec(s->beta, d),
                                                .eps = 1e-5f },
                        err);
}

static int run_norm_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct norms *s = ctx;
    return ctr_dev_norm_grad(t->dev[d],
                             &(struct ctr_dev_norm_grad){ .x = view(s->x, d),
                                                          .dy = view(s->dy, d),
                                                          .dx = view(s->y, d),
                                                          .mean = trial_vec(s->mean, d),
                                                          .var = trial_vec(s->var, d),
                                                          .gamma = trial_vec(s->gamma, d),
                                                          .dgamma = trial_vec(s->dgamma, d),
                                                          .dbeta = trial_vec(s->dbeta, d),
                                                          .eps = 1e-5f },
                             err);
}

static void try_norms(struct trial *t, const char *name,
                      int (*run)(struct trial *t, int d, void *ctx, struct ctr_err *err))
{
    for (int i = 0; i < TRIAL_SIZES * TRIAL_SIZES; i++) {
        const int64_t rows = trial_sizes[i % 5], cols = trial_sizes[i / 5];
        struct norms s = { 0 };
        trial_start(t, 64 * U, "%s %lldx%lld", name, (long long)rows, (long long)cols);
        s.x = matrix(t, "x", false, rows, cols);
        s.mean = trial_uniform(t, "mean", run == run_stats, cols, -0.1, 0.1);
        s.var = trial_uniform(t, "var", run == run_stats, cols, 0.2, 0.5);
        if (run != run_stats) {
            s.dy = matrix(t, "dy", false, rows, cols);
            s.y = matrix(t, "y", true, rows, cols);
            s.gamma = maybe(t, "gamma", false, cols, i % 2);
            s.beta = maybe(t, "beta", false, cols, i % 3);
            s.dgamma = maybe(t, "dgamma", run == run_norm_grad, cols, i % 2);
            s.dbeta = maybe(t, "dbeta", run == run_norm_grad, cols, i % 3);
        }
        trial_go(t, run, &s);
    }
}

static void try_stats(struct trial *t)
{
    try_norms(t, "stats", run_stats);
}
static void try_norm(struct trial *t)
{
    try_norms(t, "norm", run_norm);
}
static void try_norm_grad(struct trial *t)
{
    try_norms(t, "norm_grad", run_norm_grad);
}

const struct trial_case trial_matrix_cases[] = {
    { "gemm", try_gemm },
    { "act", try_act },
    { "act_grad", try_act_grad },
    { "copy", try_copy },
    { "axpby", try_axpby },
    { "fill", try_fill },
    { "row_dot", try_row_dot },
    { "row_scale", try_row_scale },
    { "dropout", try_dropout },
    { "stats", try_stats },
    { "norm", try_norm },
    { "norm_grad", try_norm_grad },
    { 0 },
};
