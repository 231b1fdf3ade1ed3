/* SPDX-License-Identifier: Apache-2.0
 *
 * IPC files: in full, in parts, and what can be rescued. */
#include "harness.h"

static void read_file(const char *path, const struct ctr_reader_opts *o)
{
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    char *paths[] = { (char *)(uintptr_t)path };
    if (ctr_reader_open(&r, paths, 1, o, &err) >= 0)
        fuzz_drain(r, NULL);
    ctr_reader_free(r);
}

FUZZ_STREAM_MUTATOR

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    read_file(path, NULL);
    read_file(path, &(struct ctr_reader_opts){ .lenient = true, .part = 1, .parts = 2 });
    return 0;
}
