/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of FTRL-Proximal for eight models at once: one body, compiled for the instruction sets that help, chosen
 * at run time. See ftrl_x8.h, and optimizer_ftrl.h for the formulas: every lane does what the kernels there do, in
 * their order. */
#include "common/base/isa.h"
#include "common/lr/ftrl_x8.h"
#include "common/lr/root_x8.h"

#define LANES CTR_X8

/* Vectors of `width` numbers, as wide as the processor's: those that the compiler has to take apart it compares and
 * shuffles one number at a time. */
#define DEFINE_TYPES(width)                                                                                            \
    typedef double lanes_f64_##width __attribute__((vector_size(width * sizeof(double))));                             \
    typedef float lanes_f32_##width __attribute__((vector_size(width * sizeof(float))));                               \
    typedef int64_t bits_f64_##width __attribute__((vector_size(width * sizeof(int64_t))));                            \
    typedef int32_t bits_f32_##width __attribute__((vector_size(width * sizeof(int32_t))));                            \
    typedef uint64_t words_##width __attribute__((vector_size(width * sizeof(uint64_t))));                             \
    /* x in all lanes from h on: by memory, for of `x - (lanes){ 0 }` gcc 12 makes eight instructions in a row. */     \
    CTR_BODY void load_x_##width(const double *xs, const uint64_t *const *masks, int64_t i, int h, const bool masked,  \
                                 lanes_f64_##width *to)                                                                \
    {                                                                                                                  \
        double all[width];                                                                                             \
        bits_f64_##width mask;                                                                                         \
        for (int v = 0; v < width; v++)                                                                                \
            all[v] = xs[i];                                                                                            \
        memcpy(to, all, sizeof all);                                                                                   \
        if (masked) {                                                                                                  \
            memcpy(&mask, masks[i] + h, sizeof mask);                                                                  \
            *to = (lanes_f64_##width)((bits_f64_##width) * to & mask);                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    /* ctr_mix64 of each lane. */                                                                                      \
    CTR_BODY void mix_##width(words_##width *x)                                                                        \
    {                                                                                                                  \
        words_##width h = *x;                                                                                          \
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;                                                                       \
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;                                                                       \
        *x = h ^ h >> 32;                                                                                              \
    }
DEFINE_TYPES(4)
DEFINE_TYPES(8)

/* One by one between other work, so that memory and arithmetic go on together. */
CTR_BODY void ask_for(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += CTR_LINE)
        __builtin_prefetch(at + i, 1);
}

/* The body for one type of z and n, and `width` lanes at a time. */
#define DEFINE_BODY(real, suffix, squareroot, top, width)                                                              \
    struct params_##suffix##_##width {                                                                                 \
        lanes_##suffix##_##width inv_alpha, beta, l1, l2;                                                              \
    };                                                                                                                 \
    CTR_BODY void load_##suffix##_##width(const double *from, lanes_##suffix##_##width *to)                            \
    {                                                                                                                  \
        lanes_f64_##width all;                                                                                         \
        memcpy(&all, from, sizeof all);                                                                                \
        *to = __builtin_convertvector(all, lanes_##suffix##_##width);                                                  \
    }                                                                                                                  \
    CTR_BODY void load_params_##suffix##_##width(const struct ctr_x8_params *from,                                     \
                                                 struct params_##suffix##_##width *to)                                 \
    {                                                                                                                  \
        for (int h = 0; h < LANES; h += width, to++) {                                                                 \
            load_##suffix##_##width(from->inv_alpha + h, &to->inv_alpha);                                              \
            load_##suffix##_##width(from->beta + h, &to->beta);                                                        \
            load_##suffix##_##width(from->l1 + h, &to->l1);                                                            \
            load_##suffix##_##width(from->l2 + h, &to->l2);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    CTR_BODY void roots_##suffix##_##width(lanes_##suffix##_##width *n)                                                \
    {                                                                                                                  \
        for (int v = 0; v < width; v++)                                                                                \
            (*n)[v] = squareroot((*n)[v]);                                                                             \
    }                                                                                                                  \
    CTR_BODY void weigh_##suffix##_##width(const struct params_##suffix##_##width *p,                                  \
                                           const lanes_##suffix##_##width *z, const lanes_##suffix##_##width *root,    \
                                           lanes_##suffix##_##width *to)                                               \
    {                                                                                                                  \
        const lanes_##suffix##_##width size =                                                                          \
            (lanes_##suffix##_##width)((bits_##suffix##_##width) * z & ~(top)) - p->l1;                                \
        const lanes_##suffix##_##width weight = size / ((p->beta + *root) * p->inv_alpha + p->l2);                     \
        const bits_##suffix##_##width minus = (*z > 0) & (top), zero = size <= 0;                                      \
        *to = (lanes_##suffix##_##width)(((bits_##suffix##_##width)weight ^ minus) & ~zero);                           \
    }                                                                                                                  \
    CTR_BODY void weights_##suffix##_##width(const struct ctr_x8_params *from, const void *from_z, const void *from_n, \
                                             void *to_w, int64_t k)                                                    \
    {                                                                                                                  \
        const real *restrict zs = from_z, *restrict ns = from_n;                                                       \
        real *restrict ws = to_w;                                                                                      \
        struct params_##suffix##_##width p[LANES / width] = { 0 };                                                     \
        load_params_##suffix##_##width(from, p);                                                                       \
        for (int64_t i = 0; i < k * LANES; i += LANES)                                                                 \
            for (int h = 0; h < LANES; h += width) {                                                                   \
                lanes_##suffix##_##width z, root, to = { 0 };                                                          \
                memcpy(&z, zs + i + h, sizeof z);                                                                      \
                memcpy(&root, ns + i + h, sizeof root);                                                                \
                roots_##suffix##_##width(&root);                                                                       \
                weigh_##suffix##_##width(&p[h / width], &z, &root, &to);                                               \
                memcpy(ws + i + h, &to, sizeof to);                                                                    \
            }                                                                                                          \
    }                                                                                                                  \
    CTR_BODY void digest_##suffix##_##width(const uint64_t *mixed, const void *from_z, const void *from_n,             \
                                            const void *from_w, int64_t k, uint64_t *sum, double *wrong)               \
    {                                                                                                                  \
        const real *restrict zs = from_z, *restrict ns = from_n, *restrict ws = from_w;                                \
        lanes_##suffix##_##width off[LANES / width] = { 0 };                                                           \
        words_##width all[LANES / width];                                                                              \
        memcpy(all, sum, sizeof all);                                                                                  \
        for (int64_t i = 0; i < k; i++)                                                                                \
            for (int h = 0; h < LANES; h += width) {                                                                   \
                lanes_##suffix##_##width z, n, own;                                                                    \
                memcpy(&z, zs + i * LANES + h, sizeof z);                                                              \
                memcpy(&n, ns + i * LANES + h, sizeof n);                                                              \
                memcpy(&own, ws + i * LANES + h, sizeof own);                                                          \
                const lanes_f64_##width weight = __builtin_convertvector(own, lanes_f64_##width);                      \
                const words_##width some = (words_##width)(weight != 0);                                               \
                words_##width mixed_in = (words_##width)weight + mixed[i];                                             \
                mix_##width(&mixed_in);                                                                                \
                all[h / width] += mixed_in & some;                                                                     \
                off[h / width] += z * 0 + n * 0;                                                                       \
            }                                                                                                          \
        memcpy(sum, all, sizeof all);                                                                                  \
        for (int v = 0; v < LANES; v++)                                                                                \
            wrong[v] += (double)off[v / width][v % width];                                                             \
    }
DEFINE_BODY(double, f64, sqrt, INT64_MIN, 4)
DEFINE_BODY(float, f32, sqrtf, INT32_MIN, 4)
DEFINE_BODY(double, f64, sqrt, INT64_MIN, 8)
DEFINE_BODY(float, f32, sqrtf, INT32_MIN, 8)

/* What goes over the coordinates of a row. */
#define DEFINE_ROW(isa, attributes, real, suffix, width, half_of_roots)                                                \
    attributes CTR_BODY void forward_any_##suffix##_##isa(const struct ctr_x8_params *from,                            \
                                                          const struct ctr_x8_row *r, double *dot, const bool masked)  \
    {                                                                                                                  \
        real *restrict to_w = r->w, *restrict to_root = r->root;                                                       \
        uint8_t *const *restrict state = r->state, *const *restrict next = r->next;                                    \
        const uint64_t *const *restrict masks = r->mask;                                                               \
        const double *restrict xs = r->x;                                                                              \
        const int64_t k = r->k, nexts = r->nexts;                                                                      \
        lanes_f64_##width sum[CTR_LANES][LANES / width] = { 0 };                                                       \
        struct params_##suffix##_##width p[LANES / width] = { 0 };                                                     \
        load_params_##suffix##_##width(from, p);                                                                       \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            for (int h = 0; h < LANES; h += width) {                                                                   \
                lanes_##suffix##_##width z, root, to = { 0 };                                                          \
                lanes_f64_##width x;                                                                                   \
                memcpy(&z, (const real *)(const void *)state[i] + h, sizeof z);                                        \
                memcpy(&root, (const real *)(const void *)state[i] + LANES + h, sizeof root);                          \
                if (i & 1)                                                                                             \
                    half_of_roots(&root);                                                                              \
                else                                                                                                   \
                    roots_##suffix##_##width(&root);                                                                   \
                weigh_##suffix##_##width(&p[h / width], &z, &root, &to);                                               \
                memcpy(to_w + i * LANES + h, &to, sizeof to);                                                          \
                memcpy(to_root + i * LANES + h, &root, sizeof root);                                                   \
                load_x_##width(xs, masks, i, h, masked, &x);                                                           \
                sum[i % CTR_LANES][h / width] += __builtin_convertvector(to, lanes_f64_##width) * x;                   \
            }                                                                                                          \
            if (i < nexts)                                                                                             \
                ask_for(next[i], 2 * LANES * sizeof(real));                                                            \
        }                                                                                                              \
        for (int64_t i = k; i < nexts; i++)                                                                            \
            ask_for(next[i], 2 * LANES * sizeof(real));                                                                \
        for (int h = 0; h < LANES && dot; h += width) {                                                                \
            const lanes_f64_##width all =                                                                              \
                ((sum[0][h / width] + sum[4][h / width]) + (sum[2][h / width] + sum[6][h / width])) +                  \
                ((sum[1][h / width] + sum[5][h / width]) + (sum[3][h / width] + sum[7][h / width]));                   \
            memcpy(dot + h, &all, sizeof all);                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    attributes CTR_BODY void update_any_##suffix##_##isa(const struct ctr_x8_params *p, const struct ctr_x8_row *r,    \
                                                         const double *g, const bool masked)                           \
    {                                                                                                                  \
        const real *restrict from_w = r->w, *restrict from_root = r->root;                                             \
        uint8_t *const *restrict state = r->state;                                                                     \
        const uint64_t *const *restrict masks = r->mask;                                                               \
        const double *restrict xs = r->x;                                                                              \
        const int64_t k = r->k;                                                                                        \
        lanes_##suffix##_##width inv_alpha[LANES / width] = { 0 };                                                     \
        lanes_f64_##width all_g[LANES / width];                                                                        \
        for (int h = 0; h < LANES; h += width)                                                                         \
            load_##suffix##_##width(p->inv_alpha + h, &inv_alpha[h / width]);                                          \
        memcpy(all_g, g, sizeof all_g);                                                                                \
        for (int64_t i = 0; i < k; i++)                                                                                \
            for (int h = 0; h < LANES; h += width) {                                                                   \
                real *const at = (real *)(void *)state[i] + h;                                                         \
                lanes_##suffix##_##width z, n, own, root;                                                              \
                lanes_f64_##width x;                                                                                   \
                memcpy(&z, at, sizeof z);                                                                              \
                memcpy(&n, at + LANES, sizeof n);                                                                      \
                memcpy(&own, from_w + i * LANES + h, sizeof own);                                                      \
                memcpy(&root, from_root + i * LANES + h, sizeof root);                                                 \
                load_x_##width(xs, masks, i, h, masked, &x);                                                           \
                const lanes_##suffix##_##width gi =                                                                    \
                    __builtin_convertvector(all_g[h / width] * x, lanes_##suffix##_##width);                           \
                const lanes_##suffix##_##width next = n + gi * gi;                                                     \
                lanes_##suffix##_##width next_root = next;                                                             \
                if (i & 1)                                                                                             \
                    half_of_roots(&next_root);                                                                         \
                else                                                                                                   \
                    roots_##suffix##_##width(&next_root);                                                              \
                z += gi - (next_root - root) * inv_alpha[h / width] * own;                                             \
                memcpy(at, &z, sizeof z);                                                                              \
                memcpy(at + LANES, &next, sizeof next);                                                                \
            }                                                                                                          \
    }                                                                                                                  \
    attributes static void forward_##suffix##_##isa(const struct ctr_x8_params *p, const struct ctr_x8_row *r,         \
                                                    double *dot)                                                       \
    {                                                                                                                  \
        if (r->mask)                                                                                                   \
            forward_any_##suffix##_##isa(p, r, dot, true);                                                             \
        else                                                                                                           \
            forward_any_##suffix##_##isa(p, r, dot, false);                                                            \
    }                                                                                                                  \
    attributes static void update_##suffix##_##isa(const struct ctr_x8_params *p, const struct ctr_x8_row *r,          \
                                                   const double *g)                                                    \
    {                                                                                                                  \
        if (r->mask)                                                                                                   \
            update_any_##suffix##_##isa(p, r, g, true);                                                                \
        else                                                                                                           \
            update_any_##suffix##_##isa(p, r, g, false);                                                               \
    }                                                                                                                  \
    attributes static void weights_##suffix##_##isa(const struct ctr_x8_params *p, const void *z, const void *n,       \
                                                    void *to_w, int64_t k)                                             \
    {                                                                                                                  \
        weights_##suffix##_##width(p, z, n, to_w, k);                                                                  \
    }                                                                                                                  \
    attributes static void digest_##suffix##_##isa(const uint64_t *mixed, const void *z, const void *n,                \
                                                   const void *from_w, int64_t k, uint64_t *sum, double *wrong)        \
    {                                                                                                                  \
        digest_##suffix##_##width(mixed, z, n, from_w, k, sum, wrong);                                                 \
    }

#define DEFINE_KERNEL_plain(attributes)                                                                                \
    DEFINE_ROW(plain, attributes, double, f64, 4, roots_f64_4)                                                         \
    DEFINE_ROW(plain, attributes, float, f32, 4, roots_f32_4)
#define DEFINE_KERNEL_avx2(attributes)                                                                                 \
    DEFINE_ROW(avx2, attributes, double, f64, 4, roots_f64_4)                                                          \
    DEFINE_ROW(avx2, attributes, float, f32, 4, roots_f32_4)
#define DEFINE_KERNEL_avx512(attributes)                                                                               \
    DEFINE_ROW(avx512, attributes, double, f64, 8, ctr_root_x8)                                                        \
    DEFINE_ROW(avx512, attributes, float, f32, 8, roots_f32_8)
#define DEFINE_KERNEL(isa, attributes) DEFINE_KERNEL_##isa(attributes)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        .name = #isa, .forward = { forward_f64_##isa, forward_f32_##isa },                                             \
        .update = { update_f64_##isa, update_f32_##isa }, .weights = { weights_f64_##isa, weights_f32_##isa },         \
        .digest = { digest_f64_##isa, digest_f32_##isa },                                                              \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

static const struct ctr_x8_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_x8_kernel *ctr_x8_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}

const struct ctr_x8_kernel *ctr_x8_kernel_best(void)
{
    return &kernels[ctr_cpu_best()];
}

double ctr_x8_dot(enum ctr_precision precision, const struct ctr_x8_row *r, int lane, const int32_t *at, int64_t n)
{
    const double *w = r->w;
    const float *narrow = r->w;
    double sum[CTR_LANES] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = (int64_t)at[i] * LANES + lane;
        sum[i % CTR_LANES] += (precision == CTR_F64_STATE ? w[from] : (double)narrow[from]) * r->x[at[i]];
    }
    return ctr_lanes_join(sum);
}
