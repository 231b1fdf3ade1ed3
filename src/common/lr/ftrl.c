/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of FTRL-Proximal: one body, compiled for the instruction sets that help, chosen at run time. See ftrl.h
 * for the formulas. Loops run over padded arrays, so that the compiler turns them into whole vectors. */
#include "common/lr/ftrl.h"
#include "common/lr/lanes.h"

#include <math.h>

#define LANES CTR_LANES

typedef ctr_lanes lanes_f64;
typedef float lanes_f32 __attribute__((vector_size(LANES * sizeof(float))));
typedef double pair_f64 __attribute__((vector_size(2 * sizeof(double)))); /* z, n as they lie in a table row */
typedef float pair_f32 __attribute__((vector_size(2 * sizeof(float))));

/* The rows' pairs to vectors of z and of n and back, for one type. */
#define DEFINE_PAIRS(real, suffix)                                                                                     \
    /* Eight rows' pairs to vectors of z and of n, without a way through memory, and back. */                          \
    CTR_BODY void gather_##suffix(uint8_t *const *row, real *z, real *n)                                               \
    {                                                                                                                  \
        pair_##suffix p[LANES];                                                                                        \
        for (int i = 0; i < LANES; i++)                                                                                \
            memcpy(&p[i], row[i] + 8, sizeof p[i]);                                                                    \
        const lanes_##suffix a =                                                                                       \
            __builtin_shufflevector(__builtin_shufflevector(p[0], p[1], 0, 1, 2, 3),                                   \
                                    __builtin_shufflevector(p[2], p[3], 0, 1, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7);          \
        const lanes_##suffix b =                                                                                       \
            __builtin_shufflevector(__builtin_shufflevector(p[4], p[5], 0, 1, 2, 3),                                   \
                                    __builtin_shufflevector(p[6], p[7], 0, 1, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7);          \
        const lanes_##suffix z8 = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);                            \
        const lanes_##suffix n8 = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);                            \
        memcpy(z, &z8, sizeof z8);                                                                                     \
        memcpy(n, &n8, sizeof n8);                                                                                     \
    }                                                                                                                  \
    CTR_BODY void scatter_##suffix(uint8_t *const *row, const real *z, const real *n)                                  \
    {                                                                                                                  \
        lanes_##suffix z8, n8;                                                                                         \
        memcpy(&z8, z, sizeof z8);                                                                                     \
        memcpy(&n8, n, sizeof n8);                                                                                     \
        const lanes_##suffix a = __builtin_shufflevector(z8, n8, 0, 8, 1, 9, 2, 10, 3, 11);                            \
        const lanes_##suffix b = __builtin_shufflevector(z8, n8, 4, 12, 5, 13, 6, 14, 7, 15);                          \
        const pair_##suffix p[LANES] = {                                                                               \
            __builtin_shufflevector(a, a, 0, 1), __builtin_shufflevector(a, a, 2, 3),                                  \
            __builtin_shufflevector(a, a, 4, 5), __builtin_shufflevector(a, a, 6, 7),                                  \
            __builtin_shufflevector(b, b, 0, 1), __builtin_shufflevector(b, b, 2, 3),                                  \
            __builtin_shufflevector(b, b, 4, 5), __builtin_shufflevector(b, b, 6, 7),                                  \
        };                                                                                                             \
        for (int i = 0; i < LANES; i++)                                                                                \
            memcpy(row[i] + 8, &p[i], sizeof p[i]);                                                                    \
    }
DEFINE_PAIRS(double, f64)
DEFINE_PAIRS(float, f32)

/* The same for processors whose vectors hold four doubles: of wider ones the compiler makes a number at a time. */
typedef double four __attribute__((vector_size(4 * sizeof(double))));
CTR_BODY void gather_f64_by_four(uint8_t *const *row, double *z, double *n)
{
    for (int i = 0; i < LANES; i += 4) {
        pair_f64 p[4];
        for (int j = 0; j < 4; j++)
            memcpy(&p[j], row[i + j] + 8, sizeof p[j]);
        const four a = __builtin_shufflevector(p[0], p[2], 0, 1, 2, 3),
                   b = __builtin_shufflevector(p[1], p[3], 0, 1, 2, 3);
        const four z4 = __builtin_shufflevector(a, b, 0, 4, 2, 6), n4 = __builtin_shufflevector(a, b, 1, 5, 3, 7);
        memcpy(z + i, &z4, sizeof z4);
        memcpy(n + i, &n4, sizeof n4);
    }
}
CTR_BODY void scatter_f64_by_four(uint8_t *const *row, const double *z, const double *n)
{
    for (int i = 0; i < LANES; i += 4) {
        four z4, n4;
        memcpy(&z4, z + i, sizeof z4);
        memcpy(&n4, n + i, sizeof n4);
        const four a = __builtin_shufflevector(z4, n4, 0, 4, 2, 6), b = __builtin_shufflevector(z4, n4, 1, 5, 3, 7);
        const pair_f64 p[] = { __builtin_shufflevector(a, a, 0, 1), __builtin_shufflevector(b, b, 0, 1),
                               __builtin_shufflevector(a, a, 2, 3), __builtin_shufflevector(b, b, 2, 3) };
        for (int j = 0; j < 4; j++)
            memcpy(row[i + j] + 8, &p[j], sizeof p[j]);
    }
}

CTR_LANES_DOT(dot_f64, double, 8)
CTR_LANES_DOT(dot_f32, float, 8)
CTR_LANES_DOT(dot_f64_by_four, double, 4)
CTR_LANES_DOT(dot_f32_by_four, float, 4)

/* The body for one type of z and n, with such a pair of gather and scatter. */
#define DEFINE_BODY(real, suffix, pairs, dot, squareroot, absolute)                                                    \
    CTR_BODY real weight_##suffix(real z, real root, real inv_alpha, real beta, real l1, real l2)                      \
    {                                                                                                                  \
        real size = absolute(z) - l1;                                                                                  \
        real w = size / ((beta + root) * inv_alpha + l2);                                                              \
        w = z > 0 ? -w : w;                                                                                            \
        return size <= 0 ? 0 : w;                                                                                      \
    }                                                                                                                  \
    CTR_BODY void weights_##suffix(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,      \
                                   int64_t room)                                                                       \
    {                                                                                                                  \
        real *restrict z = s->z, *restrict n = s->n, *restrict w = s->w, *restrict root = s->root;                     \
        const real inv_alpha = (real)p->inv_alpha, beta = (real)p->beta, l1 = (real)p->l1, l2 = (real)p->l2;           \
        for (int64_t i = 0; i < room; i += LANES)                                                                      \
            gather_##pairs(row + i, z + i, n + i);                                                                     \
        for (int64_t i = 0; i < room; i++) {                                                                           \
            root[i] = squareroot(n[i]);                                                                                \
            w[i] = weight_##suffix(z[i], root[i], inv_alpha, beta, l1, l2);                                            \
        }                                                                                                              \
    }                                                                                                                  \
    CTR_BODY double forward_##suffix(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,    \
                                     int64_t k)                                                                        \
    {                                                                                                                  \
        const int64_t room = ctr_lanes_padded(k);                                                                      \
        weights_##suffix(p, s, row, room);                                                                             \
        return dot_##dot(s->w, s->x, room);                                                                            \
    }                                                                                                                  \
    /* A gradient moves z and n; the new root of n. */                                                                 \
    CTR_BODY real step_##suffix(real gi, real w, real root, real inv_alpha, real *z, real *n)                          \
    {                                                                                                                  \
        const real next = *n + gi * gi, rooted = squareroot(next);                                                     \
        *z += gi - (rooted - root) * inv_alpha * w;                                                                    \
        *n = next;                                                                                                     \
        return rooted;                                                                                                 \
    }                                                                                                                  \
    CTR_BODY void update_##suffix(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,       \
                                  int64_t k, double g)                                                                 \
    {                                                                                                                  \
        real *restrict z = s->z, *restrict n = s->n, *restrict w = s->w, *restrict root = s->root;                     \
        const double *restrict x = s->x;                                                                               \
        const real inv_alpha = (real)p->inv_alpha;                                                                     \
        const int64_t room = ctr_lanes_padded(k);                                                                      \
        for (int64_t i = 0; i < room; i++) {                                                                           \
            (void)step_##suffix((real)(g * x[i]), w[i], root[i], inv_alpha, &z[i], &n[i]);                             \
        }                                                                                                              \
        for (int64_t i = 0; i < room; i += LANES)                                                                      \
            scatter_##pairs(row + i, z + i, n + i);                                                                    \
    }                                                                                                                  \
    /* The same when rows may have changed since forward: only w is of then. */                                        \
    CTR_BODY void update_late_##suffix(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row,  \
                                       int64_t k, double g)                                                            \
    {                                                                                                                  \
        real *restrict z = s->z, *restrict n = s->n, *restrict root = s->root;                                         \
        const int64_t room = ctr_lanes_padded(k);                                                                      \
        for (int64_t i = 0; i < room; i += LANES)                                                                      \
            gather_##pairs(row + i, z + i, n + i);                                                                     \
        for (int64_t i = 0; i < room; i++)                                                                             \
            root[i] = squareroot(n[i]);                                                                                \
        update_##suffix(p, s, row, k, g);                                                                              \
    }
DEFINE_BODY(double, f64, f64, f64, sqrt, fabs)
DEFINE_BODY(double, f64_by_four, f64_by_four, f64_by_four, sqrt, fabs)
DEFINE_BODY(float, f32, f32, f32, sqrtf, fabsf)
DEFINE_BODY(float, f32_by_four, f32, f32_by_four, sqrtf, fabsf)

#define DEFINE_TYPED(isa, attributes, suffix, body)                                                                    \
    attributes static double forward_##suffix##_##isa(const struct ctr_learning *p, const struct ctr_coords *s,        \
                                                      uint8_t *const *row, int64_t k)                                  \
    {                                                                                                                  \
        return forward_##body(p, s, row, k);                                                                           \
    }                                                                                                                  \
    attributes static void update_##suffix##_##isa(const struct ctr_learning *p, const struct ctr_coords *s,           \
                                                   uint8_t *const *row, int64_t k, double g)                           \
    {                                                                                                                  \
        update_##body(p, s, row, k, g);                                                                                \
    }                                                                                                                  \
    attributes static void update_late_##suffix##_##isa(const struct ctr_learning *p, const struct ctr_coords *s,      \
                                                        uint8_t *const *row, int64_t k, double g)                      \
    {                                                                                                                  \
        update_late_##body(p, s, row, k, g);                                                                           \
    }
#define DEFINE_KERNEL_plain(attributes)                                                                                \
    DEFINE_TYPED(plain, attributes, f64, f64_by_four) DEFINE_TYPED(plain, attributes, f32, f32_by_four)
#define DEFINE_KERNEL_avx2(attributes)                                                                                 \
    DEFINE_TYPED(avx2, attributes, f64, f64_by_four) DEFINE_TYPED(avx2, attributes, f32, f32_by_four)
#define DEFINE_KERNEL_avx512(attributes)                                                                               \
    DEFINE_TYPED(avx512, attributes, f64, f64) DEFINE_TYPED(avx512, attributes, f32, f32)
#define DEFINE_KERNEL(isa, attributes) DEFINE_KERNEL_##isa(attributes)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        .name = #isa, .forward = { forward_f64_##isa, forward_f32_##isa },                                             \
        .update = { update_f64_##isa, update_f32_##isa },                                                              \
        .update_late = { update_late_f64_##isa, update_late_f32_##isa },                                               \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

static const struct ctr_ftrl_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_ftrl_kernel *ctr_ftrl_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}

const struct ctr_ftrl_kernel *ctr_ftrl_kernel_best(void)
{
    return &kernels[ctr_cpu_best()];
}

double ctr_ftrl_weight64(const struct ctr_learning *p, double z, double root)
{
    return weight_f64(z, root, p->inv_alpha, p->beta, p->l1, p->l2);
}

float ctr_ftrl_weight32(const struct ctr_learning *p, float z, float root)
{
    return weight_f32(z, root, (float)p->inv_alpha, (float)p->beta, (float)p->l1, (float)p->l2);
}

/* Whole lanes, then what is left. */
CTR_BODY double dot_body(const double *w, const double *x, int64_t k, const bool ones)
{
    double sum[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES)
        for (int64_t j = 0; j < LANES; j++)
            sum[j] += ones ? w[i + j] : w[i + j] * x[i + j];
    for (int64_t j = 0; i + j < k; j++)
        sum[j] += ones ? w[i + j] : w[i + j] * x[i + j];
    return ctr_lanes_join(sum);
}

#define DEFINE_DOT(isa, attributes)                                                                                    \
    attributes static double dot_##isa(const double *w, const double *x, int64_t k)                                    \
    {                                                                                                                  \
        return x ? dot_body(w, x, k, false) : dot_body(w, x, k, true);                                                 \
    }
CTR_EACH_ISA(DEFINE_DOT)
#define DOT_ROW(isa) dot_##isa
static double (*const dots[])(const double *w, const double *x, int64_t k) = CTR_ISA_TABLE(DOT_ROW);

double ctr_lanes_dot(const double *w, const double *x, int64_t k)
{
    return dots[ctr_cpu_best()](w, x, k);
}

double ctr_lanes_join(const double sum[CTR_LANES])
{
    ctr_lanes l;
    memcpy(&l, sum, sizeof l);
    return ctr_lanes_total(&l);
}
