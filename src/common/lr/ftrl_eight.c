/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of FTRL-Proximal for eight models at once: one body, compiled for the instruction sets that help, chosen
 * at run time. See ftrl_eight.h, and ftrl.h for the formulas: every lane does what the kernels of ftrl.c do, in their
 * order. */
#include "common/base/isa.h"
#include "common/lr/ftrl_eight.h"
#include "common/lr/root_eight.h"

#define LANES CTR_EIGHT

typedef double lanes_f64 __attribute__((vector_size(LANES * sizeof(double))));
typedef float lanes_f32 __attribute__((vector_size(LANES * sizeof(float))));
typedef int64_t bits_f64 __attribute__((vector_size(LANES * sizeof(int64_t))));
typedef int32_t bits_f32 __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint64_t words __attribute__((vector_size(LANES * sizeof(uint64_t))));

/* x in all lanes: by memory, for of `x - (lanes_f64){ 0 }` gcc 12 makes eight instructions, one after the other. */
CTR_BODY void load_x(const double *xs, const uint64_t *const *masks, int64_t i, const bool masked, lanes_f64 *to)
{
    double all[LANES];
    bits_f64 mask;
    for (int v = 0; v < LANES; v++)
        all[v] = xs[i];
    memcpy(to, all, sizeof all);
    if (masked) {
        memcpy(&mask, masks[i], sizeof mask);
        *to = (lanes_f64)((bits_f64)*to & mask);
    }
}

/* ctr_mix64 of each lane. */
CTR_BODY void mix(words *x)
{
    words h = *x;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    *x = h ^ h >> 32;
}

/* One by one between other work, so that memory and arithmetic go on together. */
CTR_BODY void ask_for(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += CTR_LINE)
        __builtin_prefetch(at + i, 1);
}

/* The body for one type of z and n. */
#define DEFINE_BODY(real, suffix, squareroot, top)                                                                     \
    CTR_BODY void load_##suffix(const double *from, lanes_##suffix *to)                                                \
    {                                                                                                                  \
        lanes_f64 all;                                                                                                 \
        memcpy(&all, from, sizeof all);                                                                                \
        *to = __builtin_convertvector(all, lanes_##suffix);                                                            \
    }                                                                                                                  \
    CTR_BODY void roots_##suffix(lanes_##suffix *n)                                                                    \
    {                                                                                                                  \
        for (int v = 0; v < LANES; v++)                                                                                \
            (*n)[v] = squareroot((*n)[v]);                                                                             \
    }                                                                                                                  \
    CTR_BODY void weigh_##suffix(const lanes_##suffix *inv_alpha, const lanes_##suffix *beta,                          \
                                 const lanes_##suffix *l1, const lanes_##suffix *l2, const lanes_##suffix *z,          \
                                 const lanes_##suffix *root, lanes_##suffix *to)                                       \
    {                                                                                                                  \
        const lanes_##suffix size = (lanes_##suffix)((bits_##suffix) * z & ~(top)) - *l1;                              \
        const lanes_##suffix w = size / ((*beta + *root) * *inv_alpha + *l2);                                          \
        const bits_##suffix minus = (*z > 0) & (top), zero = size <= 0;                                                \
        *to = (lanes_##suffix)(((bits_##suffix)w ^ minus) & ~zero);                                                    \
    }                                                                                                                  \
    CTR_BODY void weights_##suffix(const struct ctr_eight_params *p, const void *from_z, const void *from_n,           \
                                   void *to_w, int64_t k)                                                              \
    {                                                                                                                  \
        const real *restrict zs = from_z, *restrict ns = from_n;                                                       \
        real *restrict ws = to_w;                                                                                      \
        lanes_##suffix inv_alpha = { 0 }, beta = { 0 }, l1 = { 0 }, l2 = { 0 };                                        \
        load_##suffix(p->inv_alpha, &inv_alpha);                                                                       \
        load_##suffix(p->beta, &beta);                                                                                 \
        load_##suffix(p->l1, &l1);                                                                                     \
        load_##suffix(p->l2, &l2);                                                                                     \
        for (int64_t i = 0; i < k * LANES; i += LANES) {                                                               \
            lanes_##suffix z, root, to = { 0 };                                                                        \
            memcpy(&z, zs + i, sizeof z);                                                                              \
            memcpy(&root, ns + i, sizeof root);                                                                        \
            roots_##suffix(&root);                                                                                     \
            weigh_##suffix(&inv_alpha, &beta, &l1, &l2, &z, &root, &to);                                               \
            memcpy(ws + i, &to, sizeof to);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    CTR_BODY void digest_##suffix(const uint64_t *mixed, const void *from_z, const void *from_n, const void *from_w,   \
                                  int64_t k, uint64_t *sum, double *wrong)                                             \
    {                                                                                                                  \
        const real *restrict zs = from_z, *restrict ns = from_n, *restrict ws = from_w;                                \
        lanes_##suffix off = { 0 };                                                                                    \
        words all;                                                                                                     \
        memcpy(&all, sum, sizeof all);                                                                                 \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            lanes_##suffix z, n, w;                                                                                    \
            memcpy(&z, zs + i * LANES, sizeof z);                                                                      \
            memcpy(&n, ns + i * LANES, sizeof n);                                                                      \
            memcpy(&w, ws + i * LANES, sizeof w);                                                                      \
            const lanes_f64 weight = __builtin_convertvector(w, lanes_f64);                                            \
            const words some = (words)(weight != 0);                                                                   \
            words h = (words)weight + mixed[i];                                                                        \
            mix(&h);                                                                                                   \
            all += h & some;                                                                                           \
            off += z * 0 + n * 0;                                                                                      \
        }                                                                                                              \
        memcpy(sum, &all, sizeof all);                                                                                 \
        const lanes_f64 wide = __builtin_convertvector(off, lanes_f64);                                                \
        for (int v = 0; v < LANES; v++)                                                                                \
            wrong[v] += wide[v];                                                                                       \
    }
DEFINE_BODY(double, f64, sqrt, INT64_MIN)
DEFINE_BODY(float, f32, sqrtf, INT32_MIN)

/* What goes over the coordinates of a row. */
#define DEFINE_ROW(isa, attributes, real, suffix, half_of_roots)                                                       \
    attributes CTR_BODY void forward_any_##suffix##_##isa(                                                             \
        const struct ctr_eight_params *p, const struct ctr_eight_row *r, double *dot, const bool masked)               \
    {                                                                                                                  \
        real *restrict to_w = r->w, *restrict to_root = r->root;                                                       \
        uint8_t *const *restrict state = r->state, *const *restrict next = r->next;                                    \
        const uint64_t *const *restrict masks = r->mask;                                                               \
        const double *restrict xs = r->x;                                                                              \
        const int64_t k = r->k, nexts = r->nexts;                                                                      \
        lanes_f64 sum[CTR_LANES] = { 0 };                                                                              \
        lanes_##suffix inv_alpha = { 0 }, beta = { 0 }, l1 = { 0 }, l2 = { 0 };                                        \
        load_##suffix(p->inv_alpha, &inv_alpha);                                                                       \
        load_##suffix(p->beta, &beta);                                                                                 \
        load_##suffix(p->l1, &l1);                                                                                     \
        load_##suffix(p->l2, &l2);                                                                                     \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            lanes_##suffix z, root, to = { 0 };                                                                        \
            lanes_f64 x;                                                                                               \
            memcpy(&z, state[i], sizeof z);                                                                            \
            memcpy(&root, state[i] + sizeof z, sizeof root);                                                           \
            if (i & 1)                                                                                                 \
                half_of_roots(&root);                                                                                  \
            else                                                                                                       \
                roots_##suffix(&root);                                                                                 \
            weigh_##suffix(&inv_alpha, &beta, &l1, &l2, &z, &root, &to);                                               \
            memcpy(to_w + i * LANES, &to, sizeof to);                                                                  \
            memcpy(to_root + i * LANES, &root, sizeof root);                                                           \
            load_x(xs, masks, i, masked, &x);                                                                          \
            if (i < nexts)                                                                                             \
                ask_for(next[i], 2 * sizeof z);                                                                        \
            sum[i % CTR_LANES] += __builtin_convertvector(to, lanes_f64) * x;                                          \
        }                                                                                                              \
        for (int64_t i = k; i < nexts; i++)                                                                            \
            ask_for(next[i], 2 * sizeof(lanes_##suffix));                                                              \
        const lanes_f64 all = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));       \
        if (dot)                                                                                                       \
            memcpy(dot, &all, sizeof all);                                                                             \
    }                                                                                                                  \
    attributes CTR_BODY void update_any_##suffix##_##isa(                                                              \
        const struct ctr_eight_params *p, const struct ctr_eight_row *r, const double *g, const bool masked)           \
    {                                                                                                                  \
        const real *restrict from_w = r->w, *restrict from_root = r->root;                                             \
        uint8_t *const *restrict state = r->state;                                                                     \
        const uint64_t *const *restrict masks = r->mask;                                                               \
        const double *restrict xs = r->x;                                                                              \
        const int64_t k = r->k;                                                                                        \
        lanes_##suffix inv_alpha = { 0 };                                                                              \
        lanes_f64 all_g;                                                                                               \
        load_##suffix(p->inv_alpha, &inv_alpha);                                                                       \
        memcpy(&all_g, g, sizeof all_g);                                                                               \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            lanes_##suffix z, n, w, root;                                                                              \
            lanes_f64 x;                                                                                               \
            memcpy(&z, state[i], sizeof z);                                                                            \
            memcpy(&n, state[i] + sizeof z, sizeof n);                                                                 \
            memcpy(&w, from_w + i * LANES, sizeof w);                                                                  \
            memcpy(&root, from_root + i * LANES, sizeof root);                                                         \
            load_x(xs, masks, i, masked, &x);                                                                          \
            const lanes_##suffix gi = __builtin_convertvector(all_g * x, lanes_##suffix), next = n + gi * gi;          \
            lanes_##suffix next_root = next;                                                                           \
            if (i & 1)                                                                                                 \
                half_of_roots(&next_root);                                                                             \
            else                                                                                                       \
                roots_##suffix(&next_root);                                                                            \
            z += gi - (next_root - root) * inv_alpha * w;                                                              \
            memcpy(state[i], &z, sizeof z);                                                                            \
            memcpy(state[i] + sizeof z, &next, sizeof next);                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    attributes static void forward_##suffix##_##isa(const struct ctr_eight_params *p, const struct ctr_eight_row *r,   \
                                                    double *dot)                                                       \
    {                                                                                                                  \
        if (r->mask)                                                                                                   \
            forward_any_##suffix##_##isa(p, r, dot, true);                                                             \
        else                                                                                                           \
            forward_any_##suffix##_##isa(p, r, dot, false);                                                            \
    }                                                                                                                  \
    attributes static void update_##suffix##_##isa(const struct ctr_eight_params *p, const struct ctr_eight_row *r,    \
                                                   const double *g)                                                    \
    {                                                                                                                  \
        if (r->mask)                                                                                                   \
            update_any_##suffix##_##isa(p, r, g, true);                                                                \
        else                                                                                                           \
            update_any_##suffix##_##isa(p, r, g, false);                                                               \
    }

#define DEFINE_TYPED(isa, attributes, suffix)                                                                          \
    attributes static void weights_##suffix##_##isa(const struct ctr_eight_params *p, const void *z, const void *n,    \
                                                    void *w, int64_t k)                                                \
    {                                                                                                                  \
        weights_##suffix(p, z, n, w, k);                                                                               \
    }                                                                                                                  \
    attributes static void digest_##suffix##_##isa(const uint64_t *mixed, const void *z, const void *n, const void *w, \
                                                   int64_t k, uint64_t *sum, double *wrong)                            \
    {                                                                                                                  \
        digest_##suffix(mixed, z, n, w, k, sum, wrong);                                                                \
    }
#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    DEFINE_ROW(isa, attributes, double, f64, ctr_root_eight_##isa)                                                     \
    DEFINE_ROW(isa, attributes, float, f32, roots_f32)                                                                 \
    DEFINE_TYPED(isa, attributes, f64)                                                                                 \
    DEFINE_TYPED(isa, attributes, f32)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        .name = #isa, .forward = { forward_f64_##isa, forward_f32_##isa },                                             \
        .update = { update_f64_##isa, update_f32_##isa }, .weights = { weights_f64_##isa, weights_f32_##isa },         \
        .digest = { digest_f64_##isa, digest_f32_##isa },                                                              \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

static const struct ctr_eight_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_eight_kernel *ctr_eight_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}

const struct ctr_eight_kernel *ctr_eight_kernel_best(void)
{
    return &kernels[ctr_cpu_best()];
}

double ctr_eight_dot(enum ctr_precision precision, const struct ctr_eight_row *r, int lane, const int32_t *at,
                     int64_t n)
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
