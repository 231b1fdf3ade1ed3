/* SPDX-License-Identifier: Apache-2.0
 *
 * drift.h: how the columns of a stream differ from those of a reference, by their profiles. */
#ifndef CTR_DRIFT_H
#define CTR_DRIFT_H

#include "tools/ctr-stats/profiles.h"

enum { CTR_DRIFT_RANGES = 10, CTR_DRIFT_VALUES = 256, CTR_DRIFT_REPLICATES = 200 };

struct ctr_drift {
    int64_t rows, ref_rows;        /* ref_rows -1: the reference has no such column, or one of another type */
    double psi, psi_low, psi_high; /* NaN: undefined */
    double js, js_low, js_high;
    double wasserstein;
    double fresh, vanished; /* shares of rows with values that the other does not have */
    double nulls, ref_nulls, null_change;
};
/* `ref` NULL: there is none. */
int ctr_drift(const struct ctr_profile *now, const struct ctr_profile *ref, uint64_t seed, struct ctr_drift *d,
              struct ctr_err *err) CTR_MUST;
/* The first slice that one of the other side is compared with: of its value, if there is `by`, whatever its window;
 * NULL: none. */
const struct ctr_slice *ctr_drift_slice(const struct ctr_profiles *in, const char *by, const struct ctr_slice *slice);

/* What --fail-above knows. */
struct ctr_drift_measure {
    const char *name;
    size_t at; /* of the double in struct ctr_drift; NaN: undefined */
};
extern const struct ctr_drift_measure ctr_drift_measures[];
extern const int ctr_drift_measures_count;

int ctr_drift_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_drift_row(const struct ctr_profiles *p, const struct ctr_slice *slice, const struct ctr_profile *column,
                  const struct ctr_drift *d, struct ctr_colbuf *c, struct ctr_err *err) CTR_MUST;
int ctr_drift_head(struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
int ctr_drift_line(const struct ctr_profile *column, const struct ctr_drift *d, struct ctr_buf *out,
                   struct ctr_err *err) CTR_MUST;

#endif
