/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration maps: loaded, written again, applied to scores and to a stream. */
#include "harness.h"

#include <math.h>

#include "common/metric/calmap.h"

FUZZ_STREAM_MUTATOR

/* What a map promises: never descending, and within [0, 1]. */
static void check_map(const struct ctr_cal_map *m, int slice)
{
    double last = 0;
    for (int i = 0; i <= 64; i++) {
        double v = ctr_cal_map_apply(m, slice, i / 64.0);
        FUZZ_CHECK(v >= last && v <= 1);
        last = v;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_cal_map *m = NULL;
    struct ctr_cal_apply *a = NULL;
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    struct ctr_err err = { 0 };
    const struct ctr_batch *b;
    if (ctr_cal_map_load(&m, fuzz_file(0, data, size), &err) < 0) {
        FUZZ_CHECK(err.what[0]);
        return 0;
    }
    check_map(m, 0);
    check_map(m, ctr_cal_map_slice(m, "a", 1));
    if (!ctr_cal_map_schema(&s, &err) && !ctr_batchbuf_init(&rows, &s, &err)) {
        const int rc = ctr_cal_map_rows(m, &rows, &err);
        FUZZ_CHECK(!rc);
        if (!rc) /* else the last row may lack columns */
            fuzz_look(ctr_batchbuf_view(&rows));
    }
    if (!ctr_cal_apply_new(&a, m, fuzz_features()->schema, 1, &err) &&
        !ctr_cal_apply_batch(a, fuzz_features(), &b, &err))
        fuzz_look(b);
    ctr_cal_apply_free(a);
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&s);
    ctr_cal_map_free(m);
    return 0;
}
