/* SPDX-License-Identifier: Apache-2.0
 *
 * tar: an archive of files: names, lengths and contents. */
#include "harness.h"

#include "tools/ctr-embed-images/embed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const paths[] = { (char *)(uintptr_t)fuzz_file(0, data, size) };
    const struct ctr_image_source_opts o = { .integer_keys = size & 1 };
    struct ctr_image_source *s = NULL;
    struct ctr_image_item item;
    struct ctr_err err = { 0 };
    size_t total = 0;
    int rc = ctr_image_source_open(&s, paths, 1, &o, &err);
    while (!rc && (rc = ctr_image_source_next(s, &item, &err)) > 0) {
        FUZZ_CHECK(item.key && item.name && (item.bytes || item.why));
        FUZZ_CHECK(ctr_utf8_valid((const uint8_t *)item.key, strlen(item.key)));
        FUZZ_CHECK((total += item.n) <= size);
        rc = 0;
    }
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    ctr_image_source_free(s);
    return 0;
}
