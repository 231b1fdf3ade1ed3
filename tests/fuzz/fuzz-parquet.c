/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet: footer, pages and columns; what cannot be a column is left out by its name. */
#include "harness.h"

#include "common/parquet/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_err err = { 0 };
    struct ctr_parquet *p = NULL;
    const struct ctr_batch *b;
    const struct ctr_text_opts o = { .batch_rows = 5 };
    char *path = (char *)(uintptr_t)fuzz_file(0, data, size);
    int rc = ctr_parquet_open(&p, &o, &path, 1, &err);
    int64_t rows = 0;
    while (!rc && (rc = ctr_parquet_next(p, &b, &err)) > 0 && (rows += b->rows) < 1000) {
        fuzz_look(b);
        rc = 0;
    }
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    ctr_parquet_free(p);
    return 0;
}
