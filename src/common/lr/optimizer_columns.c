/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts table rows to file columns, many at a time, with loops that vectorise; the numbers have the bits of
 * ctr_state_read. Row by row, saving a learner by counts takes twice as long. */
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

#define NAME(name) name##_f64
#define REAL       double
#define ABSOLUTE   fabs
#define SQRT       sqrt
#include "common/lr/optimizer_columns_body.h"
#define NAME(name) name##_f32
#define REAL       float
#define ABSOLUTE   fabsf
#define SQRT       sqrtf
#include "common/lr/optimizer_columns_body.h"

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
