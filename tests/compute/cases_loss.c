/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_loss: trials of loss, dense optimizers, reductions, AUC. Elementwise results differ from libm's by a few units
 * in the last place; sums have accumulators of double. */
#include "trial.h"

#define U 0x1p-24

struct vectors {
    struct array *z, *label, *weight, *p, *loss, *dz, *total;
    struct array *w, *g, *s1, *s2;
    struct ctr_dev_opt opt;
    enum ctr_reduction kind;
    int64_t rows, cols, stride;
};

static int run_bce(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct vectors *v = ctx;
    return ctr_dev_bce(t->dev[d],
                       &(struct ctr_dev_bce){ .z = trial_vec(v->z, d),
                                              .label = trial_vec(v->label, d),
                                              .weight = trial_vec(v->weight, d),
                                              .p = trial_vec(v->p, d),
                                              .loss = trial_vec(v->loss, d),
                                              .dz = trial_vec(v->dz, d),
                                              .total = trial_vec(v->total, d),
                                              .scale = 0.25f },
                       err);
}

static void try_bce(struct trial *t)
{
    for (int i = 0; i < 40; i++) {
        const int64_t n = i == 0 ? 5000 : trial_sizes[i % 5];
        struct vectors v = { 0 };
        trial_start(t, 16 * U, "bce %lld", (long long)n);
        v.z = trial_uniform(t, "z", false, n, i % 2 ? -100 : -3, i % 2 ? 100 : 3);
        v.label = trial_uniform(t, "label", false, n, 0, 1);
        for (int64_t e = 0; e < n && i % 4; e++)
            ((float *)trial_data(v.label))[e] = (float)trial_below(t, 2);
        v.weight = i % 3 ? trial_uniform(t, "weight", false, n, 0, 2) : NULL;
        v.p = i & 4 ? trial_uniform(t, "p", true, n, 0, 1) : NULL;
        v.loss = i & 8 ? trial_uniform(t, "loss", true, n, 0, 1) : NULL;
        v.dz = i & 16 ? NULL : trial_uniform(t, "dz", true, n, 0, 1);
        v.total = i & 1 ? trial_array(t, "total", 'd', true, 1) : NULL;
        trial_go(t, run_bce, &v);
    }
}

static int run_opt_dense(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct vectors *v = ctx;
    return ctr_dev_opt_dense(t->dev[d],
                             &(struct ctr_dev_opt_dense){ v->opt, trial_vec(v->w, d), trial_vec(v->g, d),
                                                          trial_vec(v->s1, d), trial_vec(v->s2, d) },
                             err);
}

static void try_opt_dense(struct trial *t)
{
    for (int kind = 0; kind <= CTR_OPT_FTRL; kind++)
        for (int i = 0; i < 12; i++) {
            const int64_t n = i == 11 ? 70000 : trial_sizes[i % 5];
            const int states = ctr_opt_states(kind);
            struct vectors v = { .opt = { .kind = kind,
                                          .rate = 0.01f,
                                          .eps = 1e-8f,
                                          .beta1 = 0.9f,
                                          .beta2 = 0.999f,
                                          .beta = 1,
                                          .l1 = 0.1f,
                                          .l2 = i % 2 ? 0.01f : 0,
                                          .step = 1 + 10 * i } };
            trial_start(t, 64 * U, "opt_dense %d: %lld", kind, (long long)n);
            v.w = trial_uniform(t, "w", true, n, -1, 1);
            v.g = trial_uniform(t, "g", false, n, -1, 1);
            v.s1 = states > 0 ? trial_uniform(t, "s1", true, n, 0.01, 1) : NULL;
            v.s2 = states > 1 ? trial_uniform(t, "s2", true, n, 0.01, 1) : NULL;
            trial_go(t, run_opt_dense, &v);
        }
}

static int run_reduce(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct vectors *v = ctx;
    return ctr_dev_reduce(
        t->dev[d],
        &(struct ctr_dev_reduce){ v->kind, trial_mat(v->z, d, v->rows, v->cols, v->stride), trial_vec(v->total, d) },
        err);
}

static void try_reduce(struct trial *t)
{
    for (int kind = 0; kind <= CTR_REDUCE_NONFINITE; kind++)
        for (int i = 0; i < 27; i++) {
            struct vectors v = { .kind = kind,
                                 .rows = i >= 25 ? 3000 : trial_sizes[i % 5],
                                 .cols = i >= 25 ? 50 : trial_sizes[i / 5] };
            v.stride = v.cols + i % 2;
            trial_start(t, 1e-9, "reduce %d %lldx%lld", kind, (long long)v.rows, (long long)v.cols);
            v.z = trial_uniform(t, "x", false, v.rows * v.stride, -1, 1);
            if (i % 3 == 0 && v.z->n > 0) /* one that is not finite, in some row */
                ((float *)trial_data(v.z))[trial_below(t, v.z->n)] = i % 2 ? -1.0f / 0.0f : 0.0f / 0.0f;
            v.total = trial_array(t, "out", 'd', true, 1);
            trial_go(t, run_reduce, &v);
        }
}

const struct trial_case trial_loss_cases[] = {
    { "bce", try_bce },
    { "opt_dense", try_opt_dense },
    { "reduce", try_reduce },
    { 0 },
};
