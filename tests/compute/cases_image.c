/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_image: trials of convolution and of pooling of images. Tolerances are those of cases_matrix.c: a chain of as
 * many products as a window has numbers. */
#include "trial.h"

#include <math.h>

#define U 0x1p-24

struct images {
    int64_t images, height, width, channels, out, size, stride, pad;
    int64_t x_stride, y_stride, w_stride, rows; /* rows of y */
    struct array *x, *w, *bias, *alpha, *y;
    enum ctr_act_kind act;
};

static int run_conv(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct images *i = ctx;
    const struct ctr_dev_conv a = {
        .images = i->images,
        .height = i->height,
        .width = i->width,
        .size = i->size,
        .stride = i->stride,
        .pad = i->pad,
        .x = trial_mat(i->x, d, i->images * i->height * i->width, i->channels, i->x_stride),
        .w = trial_mat(i->w, d, i->size * i->size * i->channels, i->out, i->w_stride),
        .bias = trial_vec(i->bias, d),
        .act = { .kind = i->act, .alpha = trial_vec(i->alpha, d) },
        .y = trial_mat(i->y, d, i->rows, i->out, i->y_stride),
    };
    return ctr_dev_conv(t->dev[d], &a, err);
}

static int run_max_pool(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct images *i = ctx;
    const struct ctr_dev_max_pool a = {
        .images = i->images,
        .height = i->height,
        .width = i->width,
        .size = i->size,
        .stride = i->stride,
        .x = trial_mat(i->x, d, i->images * i->height * i->width, i->channels, i->x_stride),
        .y = trial_mat(i->y, d, i->rows, i->channels, i->y_stride),
    };
    return ctr_dev_max_pool(t->dev[d], &a, err);
}

/* Arrays of a trial; out 0: pooling. */
static void arrays(struct trial *t, struct images *i)
{
    const int64_t chain = i->size * i->size * i->channels;
    trial_start(t, i->out ? U * (4 * sqrt((double)chain + 16) + (double)chain / 2) : 0,
                "%s %lld of %lldx%lldx%lld, %lld out, window %lld, stride %lld, pad %lld, act %d",
                i->out ? "conv" : "max_pool", (long long)i->images, (long long)i->height, (long long)i->width,
                (long long)i->channels, (long long)i->out, (long long)i->size, (long long)i->stride, (long long)i->pad,
                i->act);
    i->rows = i->images * ctr_conv_side(i->height, i->size, i->stride, i->pad) *
              ctr_conv_side(i->width, i->size, i->stride, i->pad);
    i->x_stride = i->channels + trial_below(t, 2) * 3;
    i->w_stride = i->out + trial_below(t, 2) * 3;
    i->y_stride = (i->out ? i->out : i->channels) + trial_below(t, 2) * 3;
    i->x = trial_uniform(t, "x", false, i->images * i->height * i->width * i->x_stride, -1, 1);
    i->y = trial_uniform(t, "y", true, i->rows * i->y_stride, -1, 1);
    i->w = i->out ? trial_uniform(t, "w", false, chain * i->w_stride, -1, 1) : NULL;
    i->bias = i->out && trial_below(t, 2) ? trial_uniform(t, "bias", false, i->out, -1, 1) : NULL;
    i->alpha = i->act == CTR_ACT_PRELU ? trial_uniform(t, "alpha", false, i->out, -1, 1) : NULL;
}

static void try_conv(struct trial *t)
{
    static const struct images shapes[] = {
        { 0, 4, 4, 3, 8, 3, 1, 1 },   { 1, 1, 1, 1, 1, 1, 1, 0 },      { 2, 14, 14, 20, 85, 3, 1, 1 },
        { 3, 7, 9, 5, 16, 3, 1, 1 },  { 1, 33, 31, 3, 64, 3, 1, 1 },   { 2, 12, 11, 4, 130, 5, 2, 2 },
        { 1, 8, 6, 17, 24, 2, 2, 0 }, { 2, 5, 5, 300, 7, 3, 1, 1 },    { 1, 6, 7, 3, 0, 3, 1, 1 },
        { 1, 3, 40, 2, 9, 3, 3, 2 },  { 1, 56, 56, 16, 100, 3, 1, 1 }, { 2, 4, 4, 0, 5, 3, 1, 1 },
    };
    static const enum ctr_act_kind acts[] = { CTR_ACT_RELU, CTR_ACT_NONE, CTR_ACT_PRELU };

    for (size_t s = 0; s < CTR_COUNT(shapes); s++) {
        struct images i = shapes[s];
        i.act = acts[s % CTR_COUNT(acts)];
        if (!i.out)
            i.act = CTR_ACT_NONE;
        arrays(t, &i);
        if (!i.out)
            i.w = trial_uniform(t, "w", false, 0, -1, 1);
        trial_go(t, run_conv, &i);
    }
}

static void try_max_pool(struct trial *t)
{
    static const struct images shapes[] = {
        { 0, 4, 4, 3, 0, 2, 2 },  { 1, 1, 1, 1, 0, 1, 1 },    { 2, 14, 14, 20, 0, 2, 2 }, { 3, 7, 9, 5, 0, 2, 2 },
        { 1, 9, 8, 33, 0, 3, 2 }, { 1, 28, 28, 64, 0, 2, 2 }, { 2, 5, 6, 0, 0, 2, 2 },
    };
    for (size_t s = 0; s < CTR_COUNT(shapes); s++) {
        struct images i = shapes[s];
        arrays(t, &i);
        trial_go(t, run_max_pool, &i);
    }
}

const struct trial_case trial_image_cases[] = {
    { "conv", try_conv },
    { "max_pool", try_max_pool },
    { 0 },
};
