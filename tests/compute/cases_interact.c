/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_interact: trials of crosses of features. An element of cross is off by two roundings; a chain of k products of
 * numbers in [-1, 1] by what cases_matrix.c says. */
#include "trial.h"

#include <math.h>

#define U 0x1p-24

struct interact {
    struct array *x0, *z, *x, *y, *dx0;
    int64_t rows, cols, stride, fields, pairs;
    bool add, in_place;
};

static struct ctr_mat view(const struct interact *s, struct array *a, int d)
{
    return trial_mat(a, d, s->rows, s->cols, s->stride);
}

static int run_cross(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct interact *s = ctx;
    const struct ctr_dev_cross a = { view(s, s->x0, d), view(s, s->z, d), view(s, s->in_place ? s->y : s->x, d),
                                     view(s, s->y, d) };
    return ctr_dev_cross(t->dev[d], &a, err);
}

static int run_cross_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct interact *s = ctx;
    const struct ctr_dev_cross_grad a = { view(s, s->x0, d), view(s, s->z, d),   view(s, s->in_place ? s->y : s->x, d),
                                          view(s, s->y, d),  view(s, s->dx0, d), s->add };
    return ctr_dev_cross_grad(t->dev[d], &a, err);
}

static void try_crosses(struct trial *t, const char *name,
                        int (*run)(struct trial *t, int d, void *ctx, struct ctr_err *err))
{
    for (int i = 0; i < 2 * TRIAL_SIZES * TRIAL_SIZES; i++) {
        struct interact s = {
            .rows = trial_sizes[i % 5], .cols = trial_sizes[i / 5 % 5], .in_place = i % 2, .add = i % 3
        };
        s.stride = s.cols + i % 4;
        trial_start(t, 4 * U, "%s %lldx%lld", name, (long long)s.rows, (long long)s.cols);
        s.x0 = trial_uniform(t, "x0", false, s.rows * s.stride, -1, 1);
        s.z = trial_uniform(t, "z", false, s.rows * s.stride, -1, 1);
        s.x = s.in_place ? NULL : trial_uniform(t, "x", false, s.rows * s.stride, -1, 1);
        s.y = trial_uniform(t, "y", true, s.rows * s.stride, -1, 1);
        s.dx0 = run == run_cross_grad ? trial_uniform(t, "dx0", true, s.rows * s.stride, -1, 1) : NULL;
        trial_go(t, run, &s);
    }
}

static void try_cross(struct trial *t)
{
    try_crosses(t, "cross", run_cross);
}

static void try_cross_grad(struct trial *t)
{
    try_crosses(t, "cross_grad", run_cross_grad);
}

static int run_dots(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct interact *s = ctx;
    const struct ctr_dev_dots a = { s->fields, view(s, s->x, d), trial_mat(s->y, d, s->rows, s->pairs, s->pairs + 3) };
    return ctr_dev_dots(t->dev[d], &a, err);
}

static int run_dots_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct interact *s = ctx;
    const struct ctr_dev_dots_grad a = { s->fields, view(s, s->x, d),
                                         trial_mat(s->z, d, s->rows, s->pairs, s->pairs + 3), view(s, s->y, d) };
    return ctr_dev_dots_grad(t->dev[d], &a, err);
}

static void try_pairs(struct trial *t, bool gradient)
{
    static const int64_t fields[] = { 1, 2, 3, 17, 40 }, widths[] = { 0, 1, 10, 16, 33 };
    for (int i = 0; i < 75; i++) {
        struct interact s = { .rows = trial_sizes[i % 3 + (i > 60)], .fields = fields[i / 3 % 5] };
        const int64_t width = widths[i / 15];
        s.cols = s.fields * width;
        s.stride = s.cols + i % 4;
        s.pairs = s.fields * (s.fields - 1) / 2;
        trial_start(t, U * (8 + 4 * sqrt((double)CTR_MAX(width, s.fields)) + (double)CTR_MAX(width, s.fields) / 2),
                    "dots%s %lld rows of %lld vectors of %lld", gradient ? "_grad" : "", (long long)s.rows,
                    (long long)s.fields, (long long)width);
        s.x = trial_uniform(t, "x", false, s.rows * s.stride, -1, 1);
        s.z = gradient ? trial_uniform(t, "dout", false, s.rows * (s.pairs + 3), -1, 1) : NULL;
        s.y = gradient ? trial_uniform(t, "dx", true, s.rows * s.stride, -1, 1)
                       : trial_uniform(t, "out", true, s.rows * (s.pairs + 3), -1, 1);
        trial_go(t, gradient ? run_dots_grad : run_dots, &s);
    }
}

static void try_dots(struct trial *t)
{
    try_pairs(t, false);
}

static void try_dots_grad(struct trial *t)
{
    try_pairs(t, true);
}

const struct trial_case trial_interact_cases[] = {
    { "cross", try_cross },
    { "cross_grad", try_cross_grad },
    { "dots", try_dots },
    { "dots_grad", try_dots_grad },
    { 0 },
};
