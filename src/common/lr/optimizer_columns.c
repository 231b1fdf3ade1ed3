/* SPDX-License-Identifier: Apache-2.0
 *
 * Table rows to columns of a file, many at a time, by loops that vectorise: numbers with the bits of ctr_state_read. */
#include <math.h>

#include "common/base/isa.h"
#include "common/lr/optimizer.h"

enum { GROUP = 128 };

bool ctr_state_has_columns(const struct ctr_learning *l)
{
    return l->step == CTR_STEP_FTRL && l->power == 0.5 && l->rate != CTR_RATE_GLOBAL &&
           !(l->precision == CTR_Q13_STATE && !l->rooted);
}

/* Both counts as numbers, and the root of PN/(N+P). */
CTR_BODY void roots_of_counts(const uint32_t *restrict count, int64_t n, uint64_t *restrict negatives,
                              uint64_t *restrict positives, float *restrict root)
{
    for (int64_t i = 0; i < n; i++) {
        negatives[i] = ctr_count_value((uint16_t)count[i]);
        positives[i] = ctr_count_value((uint16_t)(count[i] >> 16));
    }
    for (int64_t i = 0; i < n; i++) {
        float seen;
        root[i] = sqrtf(ctr_count_mean(count[i], &seen));
    }
}

/* Of `real` double or float: n <= GROUP rows, to columns from `at` on. */
#define DEFINE_BODY(real, suffix, absolute, squareroot)                                                                \
    CTR_BODY void group_##suffix(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,                   \
                                 const struct ctr_state_columns *to, int64_t at)                                       \
    {                                                                                                                  \
        const struct ctr_layout lay = l->layout;                                                                       \
        const bool q13 = l->precision == CTR_Q13_STATE;                                                                \
        const real inv_alpha = (real)l->inv_alpha, beta = (real)l->beta, l1 = (real)l->l1, l2 = (real)l->l2;           \
        real z[GROUP], root[GROUP], w[GROUP];                                                                          \
        float of_counts[GROUP] = { 0 };                                                                                \
        uint32_t count[GROUP];                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int16_t q;                                                                                                 \
            uint16_t code;                                                                                             \
            if (q13) {                                                                                                 \
                memcpy(&q, row[i] + lay.value, sizeof q);                                                              \
                z[i] = (real)q * (real)0x1p-13;                                                                        \
            } else                                                                                                     \
                memcpy(&z[i], row[i] + lay.value, sizeof *z);                                                          \
            if (lay.counts)                                                                                            \
                memcpy(&count[i], row[i] + lay.counts, sizeof *count);                                                 \
            else if (q13) {                                                                                            \
                memcpy(&code, row[i] + lay.n, sizeof code);                                                            \
                root[i] = (real)ctr_squares_value(code);                                                               \
            } else                                                                                                     \
                memcpy(&root[i], row[i] + lay.n, sizeof *root);                                                        \
        }                                                                                                              \
        if (lay.counts)                                                                                                \
            roots_of_counts(count, n, to->negatives + at, to->positives + at, of_counts);                              \
        else                                                                                                           \
            memcpy((real *)to->n + at, root, (size_t)n * sizeof *root);                                                \
        for (int64_t i = 0; i < n; i++)                                                                                \
            root[i] = lay.counts ? (real)of_counts[i] : squareroot(root[i]);                                           \
        for (int64_t i = 0; i < n && q13; i++)                                                                         \
            z[i] *= (beta + root[i]) * inv_alpha;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const real size = absolute(z[i]) - l1, v = size / ((beta + root[i]) * inv_alpha + l2);                     \
            const real turned = z[i] > 0 ? -v : v;                                                                     \
            w[i] = size <= 0 ? 0 : turned;                                                                             \
        }                                                                                                              \
        memcpy((real *)to->value + at, z, (size_t)n * sizeof *z);                                                      \
        memcpy((real *)to->weight + at, w, (size_t)n * sizeof *w);                                                     \
    }
DEFINE_BODY(double, f64, fabs, sqrt)
DEFINE_BODY(float, f32, fabsf, sqrtf)

typedef void group_of(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,
                      const struct ctr_state_columns *to, int64_t at);
#define DEFINE_GROUP(isa, attributes)                                                                                  \
    attributes static void group_##isa(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,             \
                                       const struct ctr_state_columns *to, int64_t at)                                 \
    {                                                                                                                  \
        if (l->precision == CTR_F64_STATE)                                                                             \
            group_f64(l, row, n, to, at);                                                                              \
        else                                                                                                           \
            group_f32(l, row, n, to, at);                                                                              \
    }
CTR_EACH_ISA(DEFINE_GROUP)
#define GROUP_ROW(isa) group_##isa
static group_of *const groups[] = CTR_ISA_TABLE(GROUP_ROW);

void ctr_state_columns(const struct ctr_learning *l, const uint8_t *const *row, int64_t n,
                       const struct ctr_state_columns *to)
{
    for (int64_t at = 0; at < n; at += GROUP)
        groups[ctr_cpu_best()](l, row + at, CTR_MIN(n - at, GROUP), to, at);
}
