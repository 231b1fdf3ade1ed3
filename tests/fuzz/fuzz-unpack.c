/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip, Zstandard and LZ4 of csv, whole and damaged, frames behind frames; and what only begins like them. */
#include "harness.h"

#include "common/text/text.h"

/* Rows that are bad are skipped, or errors, by the length of the input: what is damaged must not hide those before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ctr_text_opts lenient = { .format = &ctr_text_csv, .jobs = 1, .bad_rows = "skip=1000000" },
                                      strict = { .format = &ctr_text_libsvm, .binary = true, .jobs = 1 };
    fuzz_import(size % 4 == 1 ? &strict : &lenient, data, size);
    return 0;
}
