/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of FTRL-Proximal for eight models at once: one body, compiled for several instruction sets, chosen at run
 * time. See ftrl_x8.h, and optimizer_ftrl.h for the formulas: every lane performs the same operations in the same
 * order. */
#include "common/base/isa.h"
#include "common/lr/ftrl_x8.h"
#include "common/lr/root_x8.h"

#define LANES CTR_X8

/* Prefetch lines one by one between other work, so that memory and arithmetic overlap. */
CTR_BODY void ask_for(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += CTR_LINE)
        __builtin_prefetch(at + i, 1);
}

/* ---- both types, every instruction set ---- */

#define GLUE_(name, type, isa) name##_##type##_##isa
#define GLUE(name, type, isa)  GLUE_(name, type, isa)
#define NAME(name)             GLUE(name, TYPE, ISA)

#define ISA        plain
#define ATTRIBUTES CTR_FAST
#define WIDTH      4
#define F64_ROOTS  NAME(roots)
#include "common/lr/ftrl_x8_types.h"

#if defined(__x86_64__)
#undef ISA
#undef ATTRIBUTES
#define ISA        avx2
#define ATTRIBUTES CTR_FAST_AVX2
#include "common/lr/ftrl_x8_types.h"

#undef ISA
#undef ATTRIBUTES
#undef WIDTH
#undef F64_ROOTS
#define ISA        avx512
#define ATTRIBUTES CTR_FAST_AVX512
#define WIDTH      8
#define F64_ROOTS  ctr_root_x8
#include "common/lr/ftrl_x8_types.h"
#endif

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
        .name = #isa, .forward = { forward_f64_##isa, forward_f32_##isa },                                             \
        .update = { update_f64_##isa, update_f32_##isa }, .weights = { weights_f64_##isa, weights_f32_##isa },         \
        .digest = { digest_f64_##isa, digest_f32_##isa },                                                              \
    }

static const struct ctr_x8_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_x8_kernel *ctr_x8_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
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
