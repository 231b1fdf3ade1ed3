/* SPDX-License-Identifier: Apache-2.0
 *
 * npy: the header, then the array as rows. */
#include "harness.h"

#include "tools/ctr-import/tensor_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_err err = { 0 };
    struct ctr_tensor_rows *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_tensor_rows_open(&r, fuzz_file(0, data, size), NULL, 3, &err);
    int64_t rows = 0;
    while (!rc && (rc = ctr_tensor_rows_next(r, &b, &err)) > 0 && (rows += b->rows) < 10000) {
        fuzz_look(b);
        rc = 0;
    }
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    ctr_tensor_rows_free(r);
    return 0;
}
