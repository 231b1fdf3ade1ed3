/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip, Zstandard and LZ4 of csv, whole and damaged, frames behind frames; and what only begins like them. One of 32
 * is imported, in blocks of both sizes; of the others the first records are read and no more, for what stands in them
 * is the other targets' and would take most of the time. */
#include "harness.h"

#include "common/text/text.h"

enum { SOME_BYTES = 64 << 10 }; /* a few bytes may unpack to megabytes */

static void read_lines(const uint8_t *data, size_t size, size_t block_bytes)
{
    const struct ctr_lines_opts o = { .delimiter = ",", .block_bytes = block_bytes, .no_sample = true };
    char *paths[] = { (char *)(uintptr_t)fuzz_file(0, data, size) };
    struct ctr_lines *l = NULL;
    struct ctr_err err = { 0 };
    struct ctr_text_block b;
    size_t n = 0;
    int rc = ctr_lines_open(&l, paths, 1, &o, &err);
    while (rc >= 0 && n < SOME_BYTES && (rc = ctr_lines_next(l, &b, &err)) > 0) {
        FUZZ_CHECK(b.n && (b.p[b.n - 1] == '\n' || b.part != CTR_TEXT_WHOLE));
        n += b.n;
    }
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    ctr_lines_free(l);
}

/* Rows that are bad are skipped, or errors, by the length of the input: what is damaged must not hide those before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ctr_text_opts lenient = { .format = &ctr_text_csv, .jobs = 1, .bad_rows = "skip=1000000" },
                                      strict = { .format = &ctr_text_libsvm, .binary = true, .jobs = 1 };
    const unsigned draw = ctr_hash64(data, size, 0) & 31;
    if (draw)
        read_lines(data, size, draw & 1 ? 16 << 10 : 64);
    else
        fuzz_import(size % 4 == 1 ? &strict : &lenient, data, size);
    return 0;
}
