/* SPDX-License-Identifier: Apache-2.0
 *
 * image_cpu: convolution and pooling of images on the CPU.
 *
 * A convolution is the product of a matrix of windows with w; the matrix is not stored. A task computes some lines of y
 * of one image. It copies the needed lines of x, with zero padding, to memory of its worker; there the pixels of a
 * window's line are one run of size x channels floats, and neighbouring windows start stride x channels floats apart.
 * So each line of the window is a product that gemm's tiles compute in place: an element's chain has `size` pieces,
 * each starting with the value stored by the previous piece, as in gemm_cpu.c. */
#include "common/compute/cpu.h"

enum { PIXELS_A_TASK = 200, TASKS_A_THREAD = 4 };

struct conv {
    const struct ctr_dev_conv *a;
    const struct ctr_cpu_kernels *kernels;
    int64_t lines, columns;       /* of y */
    int64_t task_lines, blocks;   /* of y: lines per task, tasks per image */
    int64_t panel_cols, panels;   /* of w */
    int64_t groups, group_panels; /* the panels are divided among so many tasks */
    int64_t padded, line_floats;  /* columns of x with padding; floats of such a line */
    int64_t room_floats;          /* per worker */
    float *packed, *room;
};

/* Panel p of w: rows of panel_cols floats, zero past the last column. */
static void pack_panel(void *ctx, int64_t task, int worker)
{
    const struct conv *v = ctx;
    const struct ctr_mat w = v->a->w;
    const int64_t col = task * v->panel_cols, cols = CTR_MIN(v->panel_cols, w.cols - col);
    float *to = v->packed + task * v->panel_cols * w.rows;

    (void)worker;
    for (int64_t l = 0; l < w.rows; l++, to += v->panel_cols) {
        memcpy(to, ctr_mat_f32(w) + l * w.stride + col, (size_t)cols * sizeof *to);
        memset(to + cols, 0, (size_t)(v->panel_cols - cols) * sizeof *to);
    }
}

/* Copy the lines of x from `first` on that a task reads. */
static void copy_lines(const struct conv *v, int64_t image, int64_t first, int64_t n, float *to)
{
    const struct ctr_dev_conv *a = v->a;
    const int64_t channels = a->x.cols;
    const size_t side = (size_t)(a->pad * channels) * sizeof *to;

    for (int64_t line = first; line < first + n; line++, to += v->line_floats) {
        if (line < 0 || line >= a->height) {
            memset(to, 0, (size_t)v->line_floats * sizeof *to);
            continue;
        }
        const float *from = ctr_mat_f32(a->x) + (image * a->height + line) * a->width * a->x.stride;
        memset(to, 0, side);
        if (a->x.stride == channels)
            memcpy(to + a->pad * channels, from, (size_t)(a->width * channels) * sizeof *to);
        else
            for (int64_t j = 0; j < a->width; j++)
                memcpy(to + (a->pad + j) * channels, from + j * a->x.stride, (size_t)channels * sizeof *to);
        memset(to + (a->pad + a->width) * channels, 0, side);
    }
}

/* Multiply one panel by one line of the window, for all lines of y of the task. */
static void run_panel(const struct conv *v, int64_t panel, int64_t u, const float *x, float *y, int64_t lines)
{
    const struct ctr_dev_conv *a = v->a;
    const int64_t channels = a->x.cols, k = a->size * channels, col = panel * v->panel_cols;
    const int64_t cols = CTR_MIN(v->panel_cols, a->w.cols - col);
    const int64_t vectors = (cols + v->kernels->lanes - 1) / v->kernels->lanes;
    struct ctr_gemm_tile t = {
        .k = k,
        .a_row = a->stride * channels,
        .a_k = 1,
        .b_k = v->panel_cols,
        .ld = a->y.stride,
        .b = v->packed + panel * v->panel_cols * a->w.rows + u * k * v->panel_cols,
        .cols = (int)cols,
    };

    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < v->columns; j += v->kernels->rows) {
            const int64_t rows = CTR_MIN(v->kernels->rows, v->columns - j);
            t.a = x + (i * a->stride + u) * v->line_floats + j * t.a_row;
            t.to = y + (i * v->columns + j) * a->y.stride + col;
            t.from = u ? t.to : NULL;
            v->kernels->gemm[rows - 1][vectors - 1](&t);
        }
}

static void run_lines(void *ctx, int64_t task, int worker)
{
    const struct conv *v = ctx;
    const struct ctr_dev_conv *a = v->a;
    const int64_t group = task % v->groups, block = task / v->groups % v->blocks, image = task / v->groups / v->blocks;
    const int64_t line = block * v->task_lines, lines = CTR_MIN(v->task_lines, v->lines - line);
    const int64_t panel0 = group * v->group_panels, panel1 = CTR_MIN(panel0 + v->group_panels, v->panels);
    float *x = v->room + worker * v->room_floats;
    float *y = ctr_mat_f32(a->y) + (image * v->lines + line) * v->columns * a->y.stride;

    copy_lines(v, image, line * a->stride - a->pad, (lines - 1) * a->stride + a->size, x);
    for (int64_t panel = panel0; panel < panel1; panel++)
        for (int64_t u = 0; u < a->size; u++)
            run_panel(v, panel, u, x, y, lines);
    const int64_t col = panel0 * v->panel_cols, cols = CTR_MIN(panel1 * v->panel_cols, a->w.cols) - col;
    const struct ctr_act_cols act = { a->act.kind,
                                      a->act.eps,
                                      a->bias.mem ? ctr_vec_f32(a->bias) + col : NULL,
                                      a->act.alpha.mem ? ctr_vec_f32(a->act.alpha) + col : NULL,
                                      a->act.mean.mem ? ctr_vec_f32(a->act.mean) + col : NULL,
                                      a->act.var.mem ? ctr_vec_f32(a->act.var) + col : NULL };
    const struct ctr_block out = { y + col, a->y.stride };
    if (act.bias || act.kind != CTR_ACT_NONE)
        v->kernels->act(&act, out, (struct ctr_block){ 0 }, out, lines * v->columns, cols);
}

/* Divide into panels of similar width, so that no tile is narrow, and enough tasks for the threads. */
static void cut(struct conv *v, int threads)
{
    const struct ctr_dev_conv *a = v->a;
    const int64_t lanes = v->kernels->lanes, vectors = (a->w.cols + lanes - 1) / lanes;
    const int64_t tiles = (vectors + v->kernels->vectors - 1) / v->kernels->vectors;

    v->lines = ctr_conv_side(a->height, a->size, a->stride, a->pad);
    v->columns = ctr_conv_side(a->width, a->size, a->stride, a->pad);
    v->panel_cols = (vectors + tiles - 1) / tiles * lanes;
    v->panels = (a->w.cols + v->panel_cols - 1) / v->panel_cols;
    v->task_lines = CTR_MIN((PIXELS_A_TASK + v->columns - 1) / v->columns, v->lines);
    v->blocks = (v->lines + v->task_lines - 1) / v->task_lines;
    v->groups = 1;
    while (threads > 1 && v->groups < v->panels && a->images * v->blocks * v->groups < threads * TASKS_A_THREAD)
        v->groups++;
    v->group_panels = (v->panels + v->groups - 1) / v->groups;
    v->groups = (v->panels + v->group_panels - 1) / v->group_panels;
    v->padded = a->width + 2 * a->pad;
    v->line_floats = v->padded * a->x.cols;
    v->room_floats = ((v->task_lines - 1) * a->stride + a->size) * v->line_floats;
}

int ctr_cpu_conv(struct ctr_dev *dev, const struct ctr_dev_conv *a, struct ctr_err *err)
{
    struct conv v = { .a = a, .kernels = ctr_cpu_kernels_of(dev) };
    const int threads = ctr_pool_threads(dev->pool);
    void *packed, *room;

    if (!a->y.rows || !a->y.cols)
        return 0;
    cut(&v, threads);
    int rc =
        ctr_dev_scratch(dev, 0, (size_t)(v.panels * v.panel_cols * a->w.rows) * sizeof(float) + CTR_PAD, &packed, err);
    if (!rc)
        rc = ctr_dev_scratch(dev, 1, (size_t)(v.room_floats * threads) * sizeof(float) + CTR_PAD, &room, err);
    if (rc)
        return rc;
    v.packed = packed;
    v.room = room;
    ctr_pool_run(dev->pool, v.panels, pack_panel, &v);
    ctr_pool_run(dev->pool, a->images * v.blocks * v.groups, run_lines, &v);
    return 0;
}

/* ---- pooling ---- */

struct max_pool {
    const struct ctr_dev_max_pool *a;
    const struct ctr_cpu_kernels *kernels;
    int64_t lines, columns;
};

/* One line of y. */
static void pool_line(void *ctx, int64_t task, int worker)
{
    const struct max_pool *p = ctx;
    const struct ctr_dev_max_pool *a = p->a;
    const int64_t image = task / p->lines, line = task % p->lines;

    (void)worker;
    for (int64_t j = 0; j < p->columns; j++) {
        const int64_t first = (image * a->height + line * a->stride) * a->width + j * a->stride;
        const float *x = ctr_mat_f32(a->x) + first * a->x.stride;
        float *y = ctr_mat_f32(a->y) + (task * p->columns + j) * a->y.stride;
        memcpy(y, x, (size_t)a->x.cols * sizeof *y);
        for (int64_t w = 1; w < a->size * a->size; w++)
            p->kernels->most(x + (w / a->size * a->width + w % a->size) * a->x.stride, y, a->x.cols);
    }
}

int ctr_cpu_max_pool(struct ctr_dev *dev, const struct ctr_dev_max_pool *a, struct ctr_err *err)
{
    struct max_pool p = { a, ctr_cpu_kernels_of(dev), ctr_conv_side(a->height, a->size, a->stride, 0),
                          ctr_conv_side(a->width, a->size, a->stride, 0) };
    (void)err;
    if (a->y.cols)
        ctr_pool_run(dev->pool, a->images * p.lines, pool_line, &p);
    return 0;
}
