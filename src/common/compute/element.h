/* SPDX-License-Identifier: Apache-2.0
 *
 * element: each operation on one element, as one text for gcc and nvcc: C that is also C++, floats only, each operation
 * rounded once in the order written (no contraction), no libm except sqrt. So a vector loop on a CPU, a scalar loop and
 * a CUDA thread give the same bits. */
#ifndef CTR_ELEMENT_H
#define CTR_ELEMENT_H

#include "common/compute/compute.h"

#include <math.h>

#ifdef __CUDACC__
#define CTR_ELEMENT static __host__ __device__ __forceinline__
#else
#define CTR_ELEMENT static inline __attribute__((always_inline))
#endif

CTR_ELEMENT float ctr_e_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

CTR_ELEMENT uint32_t ctr_e_to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* c ? a : b by masks, so that gcc cannot make a branch: with alternating signs a branch costs 8 ns an element. */
CTR_ELEMENT float ctr_e_choose(bool c, float a, float b)
{
    const uint32_t mask = -(uint32_t)c;
    return ctr_e_from_bits((ctr_e_to_bits(a) & mask) | (ctr_e_to_bits(b) & ~mask));
}

/* exp(x) within 2 ulp for x in [-87, 88], clamped outside; NaN stays. 2^n · e^r with |r| <= ln 2 / 2; n is rounded by
 * adding 1.5 · 2^23, so that its integer lies in the low bits. */
CTR_ELEMENT float ctr_e_exp(float x)
{
    x = ctr_e_choose(x < -87.0f, -87.0f,
                     x); /* as plain conditions these would split the loops that inline this function */
    x = ctr_e_choose(x > 88.0f, 88.0f, x);
    const float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * ctr_e_from_bits((ctr_e_to_bits(shifted) + 127u) << 23);
}

CTR_ELEMENT float ctr_e_sigmoid(float z)
{
    return 1.0f / (1.0f + ctr_e_exp(-z));
}

/* log(1 + exp(z)) = max(z, 0) + log1p(u), u = exp(-|z|); log1p(u) = 2 atanh(s), s = u / (2 + u) <= 1/3, as a series. */
CTR_ELEMENT float ctr_e_softplus(float z)
{
    const float u = ctr_e_exp(-fabsf(z)), s = u / (2.0f + u), q = s * s;
    float p = 1.0f / 17.0f;
    p = p * q + 1.0f / 15.0f;
    p = p * q + 1.0f / 13.0f;
    p = p * q + 1.0f / 11.0f;
    p = p * q + 1.0f / 9.0f;
    p = p * q + 1.0f / 7.0f;
    p = p * q + 1.0f / 5.0f;
    p = p * q + 1.0f / 3.0f;
    p = p * q + 1.0f;
    return (z < 0.0f ? 0.0f : z) + 2.0f * s * p;
}

/* 1 / sqrt(var + eps), computed the same way everywhere. */
CTR_ELEMENT float ctr_e_rstd(float var, float eps)
{
    return 1.0f / sqrtf(var + eps);
}

/* y = act(z) by kind; a column's alpha, mean and rstd. */
/* The larger value; NaN wins, that of `best` first. */
CTR_ELEMENT float ctr_e_most(float best, float x)
{
    return ctr_e_choose(x > best || x != x, x, best);
}

CTR_ELEMENT float ctr_e_relu(float z)
{
    return ctr_e_choose(z <= 0.0f, 0.0f, z);
}

CTR_ELEMENT float ctr_e_prelu(float z, float alpha)
{
    return ctr_e_choose(z > 0.0f, z, alpha * z);
}

CTR_ELEMENT float ctr_e_dice(float z, float alpha, float mean, float rstd)
{
    const float p = ctr_e_sigmoid((z - mean) * rstd);
    return p * z + (1.0f - p) * alpha * z;
}

/* dy/dz with constant statistics, dy/dxhat and dy/dalpha of DICE. */
struct ctr_dice_slope {
    float dz, dxhat, dalpha, xhat;
};
CTR_ELEMENT struct ctr_dice_slope ctr_e_dice_slope(float z, float alpha, float mean, float rstd)
{
    struct ctr_dice_slope s;
    s.xhat = (z - mean) * rstd;
    const float p = ctr_e_sigmoid(s.xhat);
    s.dz = p + (1.0f - p) * alpha;
    s.dxhat = z * (1.0f - alpha) * (p * (1.0f - p));
    s.dalpha = (1.0f - p) * z;
    return s;
}

/* The gradient of an entry of a list pooled with FM, for d >= 1: for its vector's element `row`, with the list's dout
 * at 0 and at d and its sum at d. */
CTR_ELEMENT float ctr_e_fm_grad(float x, float row, float dout0, float dout, float sum)
{
    return x * (dout + dout0 * (sum - x * row));
}

CTR_ELEMENT float ctr_e_cross(float x0, float z, float x)
{
    return x0 * z + x;
}

/* ctr_random64 of base.h in two steps: the part fixed for a call, then the counter. */
CTR_ELEMENT uint64_t ctr_e_random_base(uint64_t seed, uint64_t stream)
{
    return ctr_mix64(ctr_mix64(seed + 0x9e3779b97f4a7c15u) ^ stream);
}

/* Factor of an element under dropout: 0 or `scale`; `least` = ceil(rate · 2^24). */
CTR_ELEMENT float ctr_e_keep(uint64_t base, uint64_t counter, uint32_t least, float scale)
{
    const uint32_t bits = (uint32_t)(ctr_mix64(base + counter * 0x9e3779b97f4a7c15u) >> 40);
    return bits >= least ? scale : 0.0f;
}

/* An optimizer step with precomputed constants (in double, on the host). */
struct ctr_opt_step {
    enum ctr_dev_opt_kind kind;
    float rate, eps, beta1, beta2, rest1, rest2; /* rest = 1 - beta; ADAM: the corrected rate, … */
    float root_scale;                            /* … and 1 / sqrt(1 - beta2^step) */
    float beta, inv_rate, l1, l2;
};
static inline struct ctr_opt_step ctr_opt_step_of(const struct ctr_dev_opt *o)
{
    struct ctr_opt_step s;
    s.kind = o->kind;
    s.rate = o->rate;
    s.eps = o->eps;
    s.beta1 = o->beta1;
    s.beta2 = o->beta2;
    s.rest1 = (float)(1 - (double)o->beta1);
    s.rest2 = (float)(1 - (double)o->beta2);
    s.root_scale = 1;
    s.beta = o->beta;
    s.inv_rate = (float)(1 / (double)o->rate);
    s.l1 = o->l1;
    s.l2 = o->l2;
    if (o->kind == CTR_OPT_ADAM) {
        s.rate = (float)((double)o->rate / (1 - pow((double)o->beta1, (double)o->step)));
        s.root_scale = (float)(1 / sqrt(1 - pow((double)o->beta2, (double)o->step)));
    }
    return s;
}

CTR_ELEMENT void ctr_e_sgd(const struct ctr_opt_step *o, float g, float l2, float *w)
{
    g = g + l2 * *w;
    *w = *w - o->rate * g;
}

CTR_ELEMENT void ctr_e_adagrad(const struct ctr_opt_step *o, float g, float l2, float *w, float *s1)
{
    g = g + l2 * *w;
    *s1 = *s1 + g * g;
    *w = *w - o->rate * g / (sqrtf(*s1) + o->eps);
}

CTR_ELEMENT void ctr_e_adam(const struct ctr_opt_step *o, float g, float l2, float *w, float *s1, float *s2)
{
    g = g + l2 * *w;
    *s1 = o->beta1 * *s1 + o->rest1 * g;
    *s2 = o->beta2 * *s2 + o->rest2 * (g * g);
    *w = *w - o->rate * *s1 / (sqrtf(*s2) * o->root_scale + o->eps);
}

/* The weight from z and sqrt(n). */
CTR_ELEMENT float ctr_e_ftrl_weight(const struct ctr_opt_step *o, float l2, float z, float root)
{
    const float size = fabsf(z) - o->l1, v = size / ((o->beta + root) * o->inv_rate + l2);
    return size <= 0.0f ? 0.0f : z > 0.0f ? -v : v;
}

/* squares: g * g, or the sum of squares of the gradients summed in g. */
CTR_ELEMENT void ctr_e_ftrl(const struct ctr_opt_step *o, float g, float squares, float l2, float *w, float *z,
                            float *n)
{
    const float next = *n + squares, root = sqrtf(next), sigma = (root - sqrtf(*n)) * o->inv_rate;
    *z = *z + (g - sigma * *w);
    *n = next;
    *w = ctr_e_ftrl_weight(o, l2, *z, root);
}

/* The product of two rows: sixteen interleaved sums, then added pairwise, which vectors of any length can do. */
CTR_ELEMENT float ctr_e_inner_product(const float *x, const float *y, int64_t n)
{
    float sum[16] = { 0 };
    int64_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++)
            sum[l] += x[i + l] * y[i + l];
    for (int l = 0; l < 16; l++) /* a fixed number, so that the sums stay in registers */
        if (l < n - i)
            sum[l] += x[i + l] * y[i + l];
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

/* The salt of wanted key e (ctr_dev_slots): part is NULL, or triples of end, first salt, salts. */
CTR_ELEMENT int64_t ctr_e_salt_of(const int32_t *part, int64_t salts, int64_t e)
{
    int64_t first = 0;
    if (!part)
        return e % salts;
    for (; e >= part[0]; part += 3)
        first = part[0];
    return part[1] + (e - first) % part[2];
}

/* A digest of n items. */
CTR_ELEMENT uint64_t ctr_e_digest(const uint64_t *item, int64_t n, uint64_t seed)
{
    uint64_t h = ctr_mix64(seed ^ (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        h = ctr_mix64(h ^ item[i]);
    return h;
}

#endif
