/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of FTRL-Proximal: one body, compiled for the instruction sets that help, chosen at run time. See ftrl.h
 * for the formulas. Loops run over padded arrays, so that the compiler turns them into whole vectors. */
#include "common/model/ftrl.h"

#include <math.h>

#define LANES CTR_FTRL_LANES
#define BODY  static inline __attribute__((always_inline))

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef lanes lanes_f64;
typedef float lanes_f32 __attribute__((vector_size(LANES * sizeof(float))));

BODY double join_lanes(const lanes *sum)
{
    const lanes a = *sum;
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

BODY int64_t padded(int64_t k)
{
    return (k + LANES - 1) / LANES * LANES;
}

/* The body for one type of z and n. */
#define DEFINE_BODY(real, suffix, squareroot, absolute)                                                                \
    BODY real weight_##suffix(real z, real root, real inv_alpha, real beta, real l1, real l2)                          \
    {                                                                                                                  \
        real size = absolute(z) - l1;                                                                                  \
        real w = size / ((beta + root) * inv_alpha + l2);                                                              \
        w = z > 0 ? -w : w;                                                                                            \
        return size <= 0 ? 0 : w;                                                                                      \
    }                                                                                                                  \
    BODY double forward_##suffix(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s, uint8_t *const *row,          \
                                 int64_t k)                                                                            \
    {                                                                                                                  \
        real *restrict z = s->z, *restrict n = s->n, *restrict w = s->w, *restrict root = s->root;                     \
        const double *restrict x = s->x;                                                                               \
        const real inv_alpha = (real)p->inv_alpha, beta = (real)p->beta, l1 = (real)p->l1, l2 = (real)p->l2;           \
        const int64_t room = padded(k);                                                                                \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            memcpy(&z[i], row[i] + 8, sizeof(real));                                                                   \
            memcpy(&n[i], row[i] + 8 + sizeof(real), sizeof(real));                                                    \
        }                                                                                                              \
        for (int64_t i = k; i < room; i++)                                                                             \
            z[i] = n[i] = 0;                                                                                           \
        for (int64_t i = 0; i < room; i++) {                                                                           \
            root[i] = squareroot(n[i]);                                                                                \
            w[i] = weight_##suffix(z[i], root[i], inv_alpha, beta, l1, l2);                                            \
        }                                                                                                              \
        lanes sum = { 0 };                                                                                             \
        for (int64_t i = 0; i < room; i += LANES) {                                                                    \
            lanes x8;                                                                                                  \
            lanes_##suffix w8;                                                                                         \
            memcpy(&w8, w + i, sizeof w8);                                                                             \
            memcpy(&x8, x + i, sizeof x8);                                                                             \
            sum += __builtin_convertvector(w8, lanes) * x8;                                                            \
        }                                                                                                              \
        return join_lanes(&sum);                                                                                       \
    }                                                                                                                  \
    BODY void update_##suffix(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s, uint8_t *const *row, int64_t k,  \
                              double g)                                                                                \
    {                                                                                                                  \
        real *restrict z = s->z, *restrict n = s->n, *restrict w = s->w, *restrict root = s->root;                     \
        const double *restrict x = s->x;                                                                               \
        const real inv_alpha = (real)p->inv_alpha;                                                                     \
        const int64_t room = padded(k);                                                                                \
        for (int64_t i = 0; i < room; i++) {                                                                           \
            real gi = (real)(g * x[i]);                                                                                \
            real next = n[i] + gi * gi;                                                                                \
            real sigma = (squareroot(next) - root[i]) * inv_alpha;                                                     \
            z[i] += gi - sigma * w[i];                                                                                 \
            n[i] = next;                                                                                               \
        }                                                                                                              \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            memcpy(row[i] + 8, &z[i], sizeof(real));                                                                   \
            memcpy(row[i] + 8 + sizeof(real), &n[i], sizeof(real));                                                    \
        }                                                                                                              \
    }
DEFINE_BODY(double, f64, sqrt, fabs)
DEFINE_BODY(float, f32, sqrtf, fabsf)

#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static double forward_f64_##isa(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s,                 \
                                               uint8_t *const *row, int64_t k)                                         \
    {                                                                                                                  \
        return forward_f64(p, s, row, k);                                                                              \
    }                                                                                                                  \
    attributes static double forward_f32_##isa(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s,                 \
                                               uint8_t *const *row, int64_t k)                                         \
    {                                                                                                                  \
        return forward_f32(p, s, row, k);                                                                              \
    }                                                                                                                  \
    attributes static void update_f64_##isa(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s,                    \
                                            uint8_t *const *row, int64_t k, double g)                                  \
    {                                                                                                                  \
        update_f64(p, s, row, k, g);                                                                                   \
    }                                                                                                                  \
    attributes static void update_f32_##isa(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s,                    \
                                            uint8_t *const *row, int64_t k, double g)                                  \
    {                                                                                                                  \
        update_f32(p, s, row, k, g);                                                                                   \
    }

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
#isa, usable_##isa, { forward_f64_##isa, forward_f32_##isa },                                                  \
        {                                                                                                              \
            update_f64_##isa, update_f32_##isa                                                                         \
        }                                                                                                              \
    }

#define FAST __attribute__((optimize("O3")))
DEFINE_KERNEL(plain, FAST)
static bool usable_plain(void)
{
    return true;
}

#if defined(__x86_64__)
DEFINE_KERNEL(avx2, FAST __attribute__((target("avx2"))))
static bool usable_avx2(void)
{
    return ctr_cpu_may(CTR_CPU_AVX2);
}
DEFINE_KERNEL(avx512, FAST __attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512"))))
static bool usable_avx512(void)
{
    return ctr_cpu_may(CTR_CPU_AVX512);
}
#endif

static const struct ctr_ftrl_kernel kernels[] = {
#if defined(__x86_64__)
    KERNEL_ROW(avx512),
    KERNEL_ROW(avx2),
#endif
    KERNEL_ROW(plain),
};

const struct ctr_ftrl_kernel *ctr_ftrl_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}

const struct ctr_ftrl_kernel *ctr_ftrl_kernel_best(void)
{
    int i = 0;
    while (!kernels[i].usable())
        i++;
    return &kernels[i];
}

double ctr_ftrl_weight64(const struct ctr_ftrl *p, double z, double n)
{
    return weight_f64(z, sqrt(n), p->inv_alpha, p->beta, p->l1, p->l2);
}

float ctr_ftrl_weight32(const struct ctr_ftrl *p, float z, float n)
{
    return weight_f32(z, sqrtf(n), (float)p->inv_alpha, (float)p->beta, (float)p->l1, (float)p->l2);
}

double ctr_ftrl_dot(const double *w, const double *x, int64_t k)
{
    lanes sum = { 0 };
    for (int64_t i = 0; i < k; i++)
        sum[i % LANES] += w[i] * (x ? x[i] : 1);
    return join_lanes(&sum);
}
