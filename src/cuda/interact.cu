/* SPDX-License-Identifier: Apache-2.0
 *
 * interact: crosses of features: the cross layer's elementwise step, inner products of pairs of vectors. */
#include "cuda/kernel.h"

KERNEL cross_kernel(struct view x0, struct view z, struct view x, struct view y, int64_t rows, int64_t cols)
{
    EACH(e, rows * cols)
    {
        const int64_t i = e / cols, j = e % cols;
        *at(y, i, j) = ctr_e_cross(*at(x0, i, j), *at(z, i, j), *at(x, i, j));
    }
}

int cuda_cross(struct ctr_dev *dev, const struct ctr_dev_cross *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, cross_kernel, a->y.rows * a->y.cols, view_of(a->x0), view_of(a->z), view_of(a->x), view_of(a->y),
           a->y.rows, a->y.cols);
    return cuda_started(c, "cross", err);
}

KERNEL cross_grad_kernel(struct view x0, struct view z, struct view dy, struct view dz, struct view dx0, int64_t rows,
                         int64_t cols, bool add)
{
    EACH(e, rows * cols)
    {
        const int64_t i = e / cols, j = e % cols;
        const float g = *at(dy, i, j), v = g * *at(z, i, j);
        *at(dx0, i, j) = add ? *at(dx0, i, j) + v : v;
        *at(dz, i, j) = g * *at(x0, i, j);
    }
}

int cuda_cross_grad(struct ctr_dev *dev, const struct ctr_dev_cross_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, cross_grad_kernel, a->dy.rows * a->dy.cols, view_of(a->x0), view_of(a->z), view_of(a->dy), view_of(a->dz),
           view_of(a->dx0), a->dy.rows, a->dy.cols, a->add);
    return cuda_started(c, "cross_grad", err);
}

/* Pair number p is (f, g), g < f: the largest f with f (f - 1) / 2 <= p. */
static __device__ __forceinline__ int64_t first_of_pair(int64_t p)
{
    int64_t f = (int64_t)((1.0f + sqrtf(1.0f + 8.0f * (float)p)) / 2.0f);
    while (f * (f - 1) / 2 > p)
        f--;
    while ((f + 1) * f / 2 <= p)
        f++;
    return f;
}

KERNEL dots_kernel(struct view x, struct view out, int64_t rows, int64_t pairs, int64_t width)
{
    EACH(e, rows * pairs)
    {
        const int64_t i = e / pairs, p = e % pairs, f = first_of_pair(p), g = p - f * (f - 1) / 2;
        float sum = 0.0f;
        for (int64_t d = 0; d < width; d++)
            sum = sum + *at(x, i, f * width + d) * *at(x, i, g * width + d);
        *at(out, i, p) = sum;
    }
}

int cuda_dots(struct ctr_dev *dev, const struct ctr_dev_dots *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, dots_kernel, a->out.rows * a->out.cols, view_of(a->x), view_of(a->out), a->out.rows, a->out.cols,
           a->x.cols / a->fields);
    return cuda_started(c, "dots", err);
}

KERNEL dots_grad_kernel(struct view x, struct view dout, struct view dx, int64_t rows, int64_t fields, int64_t width)
{
    const int64_t cols = fields * width;
    EACH(e, rows * cols)
    {
        const int64_t i = e / cols, f = e % cols / width, d = e % width;
        float sum = 0.0f;
        for (int64_t g = 0; g < fields; g++)
            if (g != f)
                sum = sum + *at(dout, i, g < f ? f * (f - 1) / 2 + g : g * (g - 1) / 2 + f) * *at(x, i, g * width + d);
        *at(dx, i, f * width + d) = sum;
    }
}

int cuda_dots_grad(struct ctr_dev *dev, const struct ctr_dev_dots_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, dots_grad_kernel, a->x.rows * a->x.cols, view_of(a->x), view_of(a->dout), view_of(a->dx), a->x.rows,
           a->fields, a->x.cols / a->fields);
    return cuda_started(c, "dots_grad", err);
}
