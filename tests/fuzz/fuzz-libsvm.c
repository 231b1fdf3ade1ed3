/* SPDX-License-Identifier: Apache-2.0
 *
 * libsvm and libffm. The first byte picks the options. */
#include "harness.h"

#include "common/text/text.h"

static const struct ctr_text_opts options[] = {
    { .format = &ctr_text_libsvm, .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_libsvm, .keys = "key", .binary = true, .jobs = 1 },
    { .format = &ctr_text_libsvm, .keys = "text", .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_libffm, .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_libffm, .keys = "text", .binary = true, .jobs = 1 },
    { .format = &ctr_text_libffm, .keys = "key", .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_libffm, .columns = "a=1,b=2", .jobs = 1, .bad_rows = "skip=1000000" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && !fuzz_packed(data + 1, size - 1))
        fuzz_import(&options[data[0] % CTR_COUNT(options)], data + 1, size - 1);
    return 0;
}
