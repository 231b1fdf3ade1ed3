/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of optimizers, compiled for several instruction sets and for double and float; they use only integer and
 * element-wise IEEE operations, so all give the same bits. */
#include <tgmath.h> /* sqrt, fabs and copysign of either type */

#include "common/lr/lanes.h"

typedef ctr_lanes lanes;
typedef lanes lanes_f64;
typedef double real_f64;
typedef float real_f32;
typedef float lanes_f32 __attribute__((vector_size(CTR_LANES * sizeof(float))));
typedef uint32_t halves __attribute__((vector_size(CTR_LANES * sizeof(uint32_t))));
typedef int64_t bits_f64 __attribute__((vector_size(CTR_LANES * sizeof(int64_t))));
typedef int32_t shorts __attribute__((vector_size(CTR_LANES * sizeof(int32_t))));
typedef shorts bits_f32;

/* ---- counts ---- */

/* Count the event of a row with a weight other than 1; kernels count the others. */
static bool count_weighted(const struct ctr_coords *s, int64_t k)
{
    const struct ctr_event *e = &s->more->event;
    const uint32_t draw = (uint32_t)(e->draw >> 32), shift = e->positive ? 16 : 0;
    if (__builtin_expect(e->weight == 1, 1))
        return false;
    for (int64_t i = 0; i < k; i++) {
        uint32_t *c = &s->more->count[i];
        const uint16_t own = (uint16_t)(*c >> shift);
        if (s->x[i] != 0)
            *c = (*c & ~(0xffffu << shift)) | (uint32_t)ctr_count_add(own, e->weight, s->more->high[i] + draw) << shift;
    }
    return true;
}

uint16_t ctr_count_add(uint16_t c, double weight, uint32_t bits)
{
    const double one = 1 << CTR_COUNT_BITS, most = (double)ctr_count_value(UINT16_MAX);
    const double sum = (double)ctr_count_value(c) + weight + one;
    int exponent;
    if (!(sum < most + one))
        return UINT16_MAX;
    const uint32_t part = (uint32_t)(frexp(sum, &exponent) * 2 * one);
    exponent -= CTR_COUNT_BITS + 1;
    const double unit = ldexp(1, exponent), over = sum - part * unit;
    const uint32_t whole = bits & ((1u << exponent) - 1);
    const double draw = whole + ldexp(bits >> exponent, exponent - 32); /* uniform in [0, unit) */
    return (uint16_t)(((uint32_t)exponent << CTR_COUNT_BITS) + (part - (1u << CTR_COUNT_BITS)) + (draw < over));
}

/* ---- q2.13 ---- */

CTR_BODY void expand_any(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    float *restrict z = s->z;
    const float *restrict root = s->root;
    const float inv_alpha = (float)p->inv_alpha, beta = (float)p->beta;
    for (int64_t i = 0; i < room; i++)
        z[i] *= (beta + root[i]) * inv_alpha;
}

CTR_BODY void shrink_any(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    float *restrict z = s->z;
    const float *restrict next = s->more->next;
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    for (int64_t i = 0; i < room; i++) {
        float by = beta + next[i];
        z[i] *= alpha / (by + (float)(by == 0));
    }
}

/* n of 16 bits including the row's gradient, and its root. The draw's lower 15 bits round n, its upper 16 round z. */
CTR_BODY void advance_codes_any(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g)
{
    float *restrict n = s->n, *restrict next = s->more->next;
    const double *restrict x = s->x;
    const uint32_t *restrict bits = s->more->low, draw = (uint32_t)s->more->event.draw;
    (void)p;
    for (int64_t i = 0; i < room; i++) {
        const float gi = (float)(g * x[i]);
        const uint32_t up = (bits[i] + draw) & ((1u << CTR_SQUARES_SHIFT) - 1);
        n[i] = ctr_squares_value(ctr_squares_code(n[i] + gi * gi, up));
        next[i] = sqrtf(n[i]);
    }
}

/* floor(2^13 z + u) with u in [0, 1), from 16 random bits: unbiased, because z is in units of 2^-29. */
CTR_BODY void round_any(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    const float *restrict z = s->z;
    float *restrict low = s->root;
    const uint32_t *restrict bits = s->more->low;
    int32_t *restrict q = s->more->q, clips = 0;
    const uint32_t draw = (uint32_t)s->more->event.draw;
    (void)p;
    for (int64_t i = 0; i < room; i++) {
        float t = z[i] * 0x1p29f;
        low[i] = t > -0x1p31f ? t : -0x1p31f;
    }
    for (int64_t i = 0; i < room; i++) /* separate loops: gcc compiles bounds within one loop to branches */
        low[i] = low[i] < 0x7fffp16f ? low[i] : 0x7fffp16f;
    for (int64_t i = 0; i < room; i++) {
        q[i] = ((int32_t)low[i] + (int32_t)((bits[i] + draw) >> 16)) >> 16;
        clips += low[i] != z[i] * 0x1p29f;
    }
    s->more->event.clips += clips;
}

/* ---- both types, every instruction set ---- */

#define GLUE_(name, type, isa) name##_##type##_##isa
#define GLUE(name, type, isa)  GLUE_(name, type, isa)
#define NAME(name)             GLUE(name, TYPE, ISA)
#define TYPED_(name, type)     name##_##type
#define TYPED(name, type)      TYPED_(name, type)
#define REAL                   TYPED(real, TYPE)

#define PAIR(name, isa)                                                                                                \
    {                                                                                                                  \
        name##_f64_##isa, name##_f32_##isa                                                                             \
    }
#define FUSED_ROW(name, type, isa)                                                                                     \
    {                                                                                                                  \
        forward_##name##_##type##_##isa, update_##name##_##type##_##isa                                                \
    }
#define ISA_ROW(isa)                                                                                                   \
    {                                                                                                                  \
        .name = #isa,                                                                                                  \
        .root = { [CTR_RATE_SQUARES] = PAIR(root_squares, isa),                                                        \
                  [CTR_RATE_COUNTS] = PAIR(root_counts, isa),                                                          \
                  [CTR_RATE_GLOBAL] = PAIR(root_global, isa) },                                                        \
        .advance = { [CTR_RATE_SQUARES] = { PAIR(advance_squares, isa), PAIR(advance_squares_hold, isa) },             \
                     [CTR_RATE_COUNTS] = { PAIR(advance_counts, isa), PAIR(advance_counts_hold, isa) },                \
                     [CTR_RATE_GLOBAL] = { PAIR(advance_global, isa), PAIR(advance_global_hold, isa) } },              \
        .weights = { [CTR_STEP_FTRL] = PAIR(weights_dual, isa),                                                        \
                     [CTR_STEP_FTRL_GLOBAL] = PAIR(weights_ftrl_global, isa),                                          \
                     [CTR_STEP_RDA] = PAIR(weights_dual, isa),                                                         \
                     [CTR_STEP_OGD] = PAIR(weights_primal, isa),                                                       \
                     [CTR_STEP_FOBOS] = PAIR(weights_primal, isa) },                                                   \
        .step = { [CTR_STEP_FTRL] = PAIR(step_ftrl, isa),                                                              \
                  [CTR_STEP_FTRL_GLOBAL] = PAIR(step_ftrl_global, isa),                                                \
                  [CTR_STEP_RDA] = PAIR(step_rda, isa),                                                                \
                  [CTR_STEP_OGD] = PAIR(step_ogd, isa),                                                                \
                  [CTR_STEP_FOBOS] = PAIR(step_fobos, isa) },                                                          \
        .expand = expand_##isa, .shrink = shrink_##isa, .round = round_##isa, .advance_codes = advance_codes_##isa,    \
        FUSED_##isa                                                                                                    \
    }
#define SQUARES_ROWS(isa) [CTR_F64_STATE] = FUSED_ROW(squares, f64, isa), [CTR_F32_STATE] = FUSED_ROW(squares, f32, isa)
#define FUSED_plain       .fused = { [CTR_RATE_SQUARES] = { SQUARES_ROWS(plain) } },
#define FUSED_avx2        FUSED_ROWS(avx2)
#define FUSED_avx512      FUSED_ROWS(avx512)
#define FUSED_ROWS(isa)                                                                                                \
    .fused = { [CTR_RATE_SQUARES] = { SQUARES_ROWS(isa), [CTR_Q13_STATE] = FUSED_ROW(q13_squares, f32, isa) },         \
               [CTR_RATE_COUNTS] = { FUSED_ROW(counts, f64, isa), FUSED_ROW(counts, f32, isa),                         \
                                     FUSED_ROW(q13_counts, f32, isa) } },

#define Q13_LOOP(name, isa, attributes)                                                                                \
    attributes static void name##_##isa(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)        \
    {                                                                                                                  \
        name##_any(p, s, room);                                                                                        \
    }
#define Q13_LOOPS(isa, attributes)                                                                                     \
    Q13_LOOP(expand, isa, attributes)                                                                                  \
    Q13_LOOP(shrink, isa, attributes)                                                                                  \
    Q13_LOOP(round, isa, attributes)                                                                                   \
    attributes static void advance_codes_##isa(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, \
                                               double g)                                                               \
    {                                                                                                                  \
        advance_codes_any(p, s, room, g);                                                                              \
    }

#define WIDTH      4 /* doubles per vector */
#define ISA        plain
#define ATTRIBUTES CTR_FAST
#include "common/lr/optimizer_types.h"

#if defined(__x86_64__)
#undef ISA
#undef ATTRIBUTES
#define ISA        avx2
#define ATTRIBUTES CTR_FAST_AVX2
#define FUSE
#include "common/lr/optimizer_x8.h"
#include "common/lr/optimizer_types.h"

#undef ISA
#undef ATTRIBUTES
#undef WIDTH
#define WIDTH      8
#define ISA        avx512
#define ATTRIBUTES CTR_FAST_AVX512
#include "common/lr/optimizer_types.h"
#endif

CTR_EACH_ISA(Q13_LOOPS)
static const struct ctr_isa isas[] = CTR_ISA_TABLE(ISA_ROW);

const struct ctr_isa *ctr_isa_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(isas) ? &isas[i] : NULL;
}

uint16_t ctr_count_code(uint64_t value)
{
    uint32_t low = 0, high = UINT16_MAX;
    while (low < high) { /* the value rises with the code */
        uint32_t mid = (low + high + 1) / 2;
        if (ctr_count_value((uint16_t)mid) <= value)
            low = mid;
        else
            high = mid - 1;
    }
    return (uint16_t)low;
}

/* ---- the dot product ---- */

/* Whole lanes, then the rest. */
CTR_BODY double dot_body(const double *w, const double *x, int64_t k, const bool ones)
{
    double sum[CTR_LANES] = { 0 };
    int64_t i = 0;
    for (; i + CTR_LANES <= k; i += CTR_LANES)
        for (int64_t j = 0; j < CTR_LANES; j++)
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
