/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip, Zstandard and LZ4 of csv, whole and damaged, frames behind frames; and what only begins like them. */
#include "harness.h"

#include "common/text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ctr_text_opts o = { .format = &ctr_text_csv, .jobs = 1, .bad_rows = "skip=1000000" };
    fuzz_import(&o, data, size);
    return 0;
}
