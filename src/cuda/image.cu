/* SPDX-License-Identifier: Apache-2.0
 *
 * image: convolution and pooling of images. A convolution builds the matrix of windows for some rows of y at a time
 * (one row per pixel of y, one column per element of its window) and multiplies it by w with gemm, which adds bias and
 * activation.
 */
#include "cuda/kernel.h"

static const int64_t WINDOW_BYTES = 256 << 20; /* of the matrix of windows */

/* The shapes that a kernel needs. */
struct window {
    int64_t height, width, lines, columns, size, stride, pad, channels;
};

/* Element e of the matrix of windows whose first row is pixel `first` of y. */
KERNEL window_kernel(struct window s, struct view x, float *to, int64_t first, int64_t n)
{
    EACH(e, n)
    {
        const int64_t k = s.size * s.size * s.channels, pixel = first + e / k, at_window = e % k;
        const int64_t c = at_window % s.channels, uv = at_window / s.channels;
        const int64_t line = pixel / s.columns % s.lines * s.stride + uv / s.size - s.pad;
        const int64_t column = pixel % s.columns * s.stride + uv % s.size - s.pad;
        const int64_t image = pixel / (s.columns * s.lines);
        const bool inside = line >= 0 && line < s.height && column >= 0 && column < s.width;
        to[e] = inside ? *at(x, (image * s.height + line) * s.width + column, c) : 0.0f;
    }
}

int cuda_conv(struct ctr_dev *dev, const struct ctr_dev_conv *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct window s = { a->height,
                              a->width,
                              ctr_conv_side(a->height, a->size, a->stride, a->pad),
                              ctr_conv_side(a->width, a->size, a->stride, a->pad),
                              a->size,
                              a->stride,
                              a->pad,
                              a->x.cols };
    const int64_t k = a->w.rows, most = CTR_MAX(WINDOW_BYTES / 4 / CTR_MAX(k, 1), 1);
    int rc = 0;

    if (!a->y.rows || !a->y.cols)
        return cuda_started(c, "conv", err);
    const int64_t step = CTR_MIN(most, a->y.rows);
    float *windows = cuda_scratch<float>(c, 15, CTR_MAX(step * k, 1), &rc, err);
    for (int64_t row = 0; row < a->y.rows && !rc; row += step) {
        const int64_t rows = CTR_MIN(step, a->y.rows - row);
        struct ctr_mem mem = { dev, windows, (size_t)(rows * k) * sizeof(float) };
        struct ctr_dev_gemm g = {};
        g.a = ctr_mat(&mem, rows, k);
        g.b = a->w;
        g.c = ctr_mat_rows(a->y, row, rows);
        g.bias = a->bias;
        g.act = a->act;
        LAUNCH(c, window_kernel, rows * k, s, view_of(a->x), windows, row, rows * k);
        rc = cuda_gemm(dev, &g, err);
    }
    return rc;
}

KERNEL max_pool_kernel(struct window s, struct view x, struct view y, int64_t n)
{
    EACH(e, n)
    {
        const int64_t pixel = e / s.channels, c = e % s.channels, image = pixel / (s.columns * s.lines);
        const int64_t line = pixel / s.columns % s.lines * s.stride, column = pixel % s.columns * s.stride;
        const int64_t first = (image * s.height + line) * s.width + column;
        float best = *at(x, first, c);
        for (int64_t w = 1; w < s.size * s.size; w++)
            best = ctr_e_most(best, *at(x, first + w / s.size * s.width + w % s.size, c));
        *at(y, pixel, c) = best;
    }
}

int cuda_max_pool(struct ctr_dev *dev, const struct ctr_dev_max_pool *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct window s = { a->height,
                              a->width,
                              ctr_conv_side(a->height, a->size, a->stride, 0),
                              ctr_conv_side(a->width, a->size, a->stride, 0),
                              a->size,
                              a->stride,
                              0,
                              a->x.cols };
    LAUNCH(c, max_pool_kernel, a->y.rows * a->y.cols, s, view_of(a->x), view_of(a->y), a->y.rows * a->y.cols);
    return cuda_started(c, "max_pool", err);
}
