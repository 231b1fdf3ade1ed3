/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: read in full and written again, sections and all; then the last columns first, of what can be rescued, less
 * those of types that are not read. */
#include "harness.h"

static void read_whole(const char *path)
{
    struct ctr_reader_opts o = { .sections = true };
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    char *paths[] = { (char *)(uintptr_t)path };
    int rc = ctr_reader_open(&r, paths, 1, &o, &err);
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    for (int more = rc >= 0; more > 0; more = ctr_reader_section(r, &err)) {
        struct ctr_out *out = NULL;
        struct ctr_writer *w = NULL;
        if (ctr_out_open(&out, fuzz_out(2), 0, &err) >= 0 &&
            ctr_writer_open(&w, out, ctr_reader_schema(r), &(struct ctr_writer_opts){ .batch_rows = 100 }, &err) >= 0)
            fuzz_drain(r, w);
        ctr_writer_free(w);
        ctr_out_free(out);
    }
    ctr_reader_free(r);
}

static void read_some(const char *path)
{
    struct ctr_reader_opts o = { .lenient = true, .foreign = true };
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    char *paths[] = { (char *)(uintptr_t)path, (char *)(uintptr_t)path };
    int column[16], n = 0;
    if (ctr_reader_open(&r, paths, 2, &o, &err) < 0)
        return;
    for (int i = ctr_reader_schema(r)->n - 1; i >= 0 && n < 16; i -= 2)
        if (ctr_reader_schema(r)->f[i].type != CTR_FOREIGN)
            column[n++] = i;
    if (ctr_reader_project(r, column, n, &err) >= 0)
        fuzz_drain(r, NULL);
    ctr_reader_free(r);
}

FUZZ_STREAM_MUTATOR

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    read_whole(path);
    read_some(path);
    return 0;
}
