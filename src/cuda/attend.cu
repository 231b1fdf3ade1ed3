/* SPDX-License-Identifier: Apache-2.0
 *
 * attend: target attention over ragged sequences. One thread per element of an entry; for sums over the entries of a
 * row, one thread per element of the row, in entry order: sums depend only on the input.
 */
#include "cuda/kernel.h"

struct segments {
    const int32_t *start, *segment;
    int64_t rows, entries, row0, entry0, width;
};

static struct segments segments_of(const struct ctr_segments *s, int64_t width)
{
    const struct segments of = {
        ctr_vec_i32(s->start), ctr_vec_i32(s->segment), s->start.n - 1, s->segment.n, s->row0, s->entry0, width
    };
    return of;
}

static __device__ __forceinline__ int64_t row_of(const struct segments &s, int64_t e)
{
    return s.segment[e] - s.row0;
}

static __device__ __forceinline__ int64_t first_of(const struct segments &s, int64_t r)
{
    return s.start[r] - s.entry0;
}

KERNEL attend_input_kernel(struct segments s, struct view query, struct view key, struct view out)
{
    EACH(i, s.entries * s.width)
    {
        const int64_t e = i / s.width, d = i % s.width;
        const float k = *at(key, e, d);
        *at(out, e, d) = k;
        *at(out, e, s.width + d) = *at(query, row_of(s, e), d) * k;
    }
}

int cuda_attend_input(struct ctr_dev *dev, const struct ctr_dev_attend_input *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct segments s = segments_of(&a->segments, a->key.cols);
    LAUNCH(c, attend_input_kernel, s.entries * s.width, s, view_of(a->query), view_of(a->key), view_of(a->out));
    return cuda_started(c, "attend_input", err);
}

KERNEL attend_query_grad_kernel(struct segments s, struct view key, struct view dout, struct view dquery)
{
    EACH(i, s.rows * s.width)
    {
        const int64_t r = i / s.width, d = i % s.width, end = first_of(s, r + 1);
        float sum = 0;
        for (int64_t e = first_of(s, r); e < end; e++)
            sum += *at(key, e, d) * *at(dout, e, s.width + d);
        *at(dquery, r, d) = sum;
    }
}

KERNEL attend_key_grad_kernel(struct segments s, struct view query, struct view dout, struct view dkey)
{
    EACH(i, s.entries * s.width)
    {
        const int64_t e = i / s.width, d = i % s.width;
        *at(dkey, e, d) += *at(dout, e, d) + *at(query, row_of(s, e), d) * *at(dout, e, s.width + d);
    }
}

int cuda_attend_input_grad(struct ctr_dev *dev, const struct ctr_dev_attend_input_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct segments s = segments_of(&a->segments, a->key.cols);
    LAUNCH(c, attend_query_grad_kernel, s.rows * s.width, s, view_of(a->key), view_of(a->dout), view_of(a->dquery));
    LAUNCH(c, attend_key_grad_kernel, s.entries * s.width, s, view_of(a->query), view_of(a->dout), view_of(a->dkey));
    return cuda_started(c, "attend_input_grad", err);
}

KERNEL softmax_kernel(struct segments s, const float *score, float scale, float *share)
{
    EACH(r, s.rows)
    {
        const int64_t first = first_of(s, r), end = first_of(s, r + 1);
        float largest = first < end ? score[first] : 0.0f, sum = 0;
        for (int64_t e = first + 1; e < end; e++)
            largest = score[e] > largest || score[e] != score[e] ? score[e] : largest;
        for (int64_t e = first; e < end; e++) {
            share[e] = ctr_e_exp(scale * (score[e] - largest));
            sum += share[e];
        }
        for (int64_t e = first; e < end; e++)
            share[e] = share[e] / sum;
    }
}

KERNEL attend_kernel(struct segments s, const float *weight, struct view value, struct view out)
{
    EACH(i, s.rows * s.width)
    {
        const int64_t r = i / s.width, d = i % s.width, end = first_of(s, r + 1);
        float sum = 0;
        for (int64_t e = first_of(s, r); e < end; e++)
            sum += (weight ? weight[e] : 1.0f) * *at(value, e, d);
        *at(out, r, d) = sum;
    }
}

int cuda_attend(struct ctr_dev *dev, const struct ctr_dev_attend *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct segments s = segments_of(&a->segments, a->value.cols);
    if (a->softmax)
        LAUNCH(c, softmax_kernel, s.rows, s, (const float *)ctr_vec_f32(a->score), a->scale, ctr_vec_f32(a->share));
    LAUNCH(c, attend_kernel, s.rows * s.width, s, (const float *)ctr_vec_f32(a->softmax ? a->share : a->score),
           view_of(a->value), view_of(a->out));
    return cuda_started(c, "attend", err);
}

KERNEL score_grad_kernel(struct segments s, struct view value, struct view dout, float *dscore)
{
    EACH(e, s.entries)
    {
        dscore[e] = ctr_e_inner_product(at(dout, row_of(s, e), 0), at(value, e, 0), s.width);
    }
}

KERNEL value_grad_kernel(struct segments s, const float *share, struct view dout, struct view dvalue)
{
    EACH(i, s.entries * s.width)
    {
        const int64_t e = i / s.width, d = i % s.width;
        *at(dvalue, e, d) = share[e] * *at(dout, row_of(s, e), d);
    }
}

KERNEL softmax_grad_kernel(struct segments s, const float *share, float scale, float *dscore)
{
    EACH(r, s.rows)
    {
        const int64_t first = first_of(s, r), end = first_of(s, r + 1);
        float mean = 0;
        for (int64_t e = first; e < end; e++)
            mean += share[e] * dscore[e];
        for (int64_t e = first; e < end; e++)
            dscore[e] = scale * (share[e] * (dscore[e] - mean));
    }
}

int cuda_attend_grad(struct ctr_dev *dev, const struct ctr_dev_attend_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct segments s = segments_of(&a->segments, a->value.cols);
    const float *share = ctr_vec_f32(a->share);
    LAUNCH(c, score_grad_kernel, s.entries, s, view_of(a->value), view_of(a->dout), ctr_vec_f32(a->dscore));
    if (a->softmax)
        LAUNCH(c, softmax_grad_kernel, s.rows, s, share, a->scale, ctr_vec_f32(a->dscore));
    if (a->dvalue.mem)
        LAUNCH(c, value_grad_kernel, s.entries * s.width, s, share, view_of(a->dout), view_of(a->dvalue));
    return cuda_started(c, "attend_grad", err);
}
