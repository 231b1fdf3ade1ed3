/* SPDX-License-Identifier: Apache-2.0
 *
 * image: JPEG and PNG, decoded with a small cap on pixels, resized and cropped. */
#include "harness.h"

#include "common/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_image image;
    struct ctr_err err = { 0 };
    uint8_t out[32 * 32 * 3];
    int rc = ctr_image_decode(&image, data, size, 4096, &err);
    FUZZ_CHECK(rc || image.width * image.height <= 4096);
    if (!rc)
        rc = ctr_image_crop(&image, 32, out, &err);
    FUZZ_CHECK(!rc || err.what[0]);
    ctr_image_free(&image);
    return 0;
}
