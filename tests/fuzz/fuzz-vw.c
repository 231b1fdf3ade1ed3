/* SPDX-License-Identifier: Apache-2.0
 *
 * vw lines: labels, weights, tags, namespaces with scales, features with values. The first byte picks the options. */
#include "harness.h"

#include "common/text/text.h"

static const struct ctr_text_opts options[] = {
    { .format = &ctr_text_vw, .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_vw, .keys = "key", .binary = true, .jobs = 1 },
    { .format = &ctr_text_vw, .keys = "text", .jobs = 1, .bad_rows = "skip=1000000" },
    { .format = &ctr_text_vw, .columns = "user,ad=a", .jobs = 1, .bad_rows = "skip=1000000" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && !fuzz_packed(data + 1, size - 1))
        fuzz_import(&options[data[0] % CTR_COUNT(options)], data + 1, size - 1);
    return 0;
}
