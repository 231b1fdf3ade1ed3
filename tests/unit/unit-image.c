/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-image: crops of pictures, and archives as they come in pieces. `unit-image crop SIDE FILE` writes the bytes of a
 * crop, for comparisons with Pillow (images-peers.t). */
#include <stdlib.h>
#include <unistd.h>

#include "tools/ctr-embed-images/embed.h"
#include "tap.h"

static struct ctr_err err;

static int print_crop(int side, const char *path)
{
    char *const paths[] = { (char *)(uintptr_t)path };
    const struct ctr_image_source_opts o = { 0 };
    struct ctr_image_source *s = NULL;
    struct ctr_image_item item = { 0 };
    struct ctr_image image = { 0 };
    uint8_t *out = malloc((size_t)side * (size_t)side * 3);
    int rc = ctr_image_source_open(&s, paths, 1, &o, &err);
    if (!rc)
        rc = ctr_image_source_next(s, &item, &err) > 0 && item.bytes ? 0 : -1;
    if (!rc)
        rc = ctr_image_decode(&image, item.bytes, item.n, 64 << 20, &err);
    if (!rc)
        rc = ctr_image_crop(&image, side, out, &err);
    if (!rc)
        rc = ctr_write_full(1, out, (size_t)side * (size_t)side * 3, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.what);
    ctr_image_free(&image);
    ctr_image_source_free(s);
    free(out);
    return rc ? 1 : 0;
}

/* A picture whose pixels are f(x, y). */
static struct ctr_image picture(int64_t width, int64_t height, uint8_t (*f)(int64_t x, int64_t y))
{
    struct ctr_image i = { width, height, malloc((size_t)(width * height) * 3) };
    for (int64_t p = 0; i.rgb && p < width * height * 3; p++)
        i.rgb[p] = f(p / 3 % width, p / 3 / width);
    return i;
}

static uint8_t flat(int64_t x, int64_t y)
{
    (void)x, (void)y;
    return 77;
}

static uint8_t columns(int64_t x, int64_t y)
{
    (void)y;
    return (uint8_t)x;
}

static void test_crops(void)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 36, 36 }, { 7, 100 }, { 4000, 3 }, { 1, 100000 }, { 300, 299 } };
    uint8_t out[32 * 32 * 3];
    for (size_t i = 0; i < CTR_COUNT(sizes); i++) {
        struct ctr_image image = picture(sizes[i][0], sizes[i][1], flat);
        bool same = ctr_image_crop(&image, 32, out, &err) == 0;
        for (size_t p = 0; p < sizeof out; p++)
            same &= out[p] == 77;
        ok(same, "one colour stays one colour: %lld x %lld", (long long)sizes[i][0], (long long)sizes[i][1]);
        ctr_image_free(&image);
    }
    struct ctr_image image = picture(36, 36, columns);
    bool same = ctr_image_crop(&image, 32, out, &err) == 0;
    for (size_t p = 0; p < sizeof out; p++)
        same &= out[p] == p / 3 % 32 + 2;
    ok(same, "36 x 36 is not resized, and two columns go at each side");
    ctr_image_free(&image);
}

static void test_tar(void)
{
    uint8_t block[512] = { 0 };
    ok(!ctr_tar_is(block, sizeof block), "zeros are no archive");
    ok(!ctr_tar_is("x", 1), "nor is less than a block");
    memset(block, 0xff, sizeof block);
    ok(!ctr_tar_is(block, sizeof block), "nor are ones");
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "crop"))
        return print_crop(atoi(argv[2]), argv[3]);
    test_crops();
    test_tar();
    return done_testing();
}
