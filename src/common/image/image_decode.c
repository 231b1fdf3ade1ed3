/* SPDX-License-Identifier: Apache-2.0
 *
 * image_decode: JPEG by libjpeg-turbo, PNG by libpng, from memory. Both libraries report errors by longjmp: each
 * decoder is one function that sets the return point, and after a jump uses only its struct, not local variables
 * changed since. Their messages are stored in err. */
#include "common/image/image.h"

#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <jerror.h>
#include <png.h>

enum { MOST_SCANS = 200 }; /* of a progressive JPEG: each scan costs as much as an image, but only a few bytes */

void ctr_image_free(struct ctr_image *image)
{
    free(image->rgb);
    *image = (struct ctr_image){ 0 };
}

static int bad(struct ctr_err *err, const char *kind, const char *why)
{
    return ctr_fail(err, CTR_EDATA, "%s: %s", kind, why);
}

/* Allocate the pixels, after checking their number. */
static int make_room(struct ctr_image *image, int64_t width, int64_t height, int64_t max_pixels, struct ctr_err *err)
{
    if (width < 1 || height < 1)
        return ctr_fail(err, CTR_EDATA, "has no pixels: %lld x %lld", (long long)width, (long long)height);
    if (width > max_pixels / height)
        return ctr_fail(err, CTR_EDATA, "has %lld x %lld pixels, more than --max-pixels %lld", (long long)width,
                        (long long)height, (long long)max_pixels);
    image->width = width;
    image->height = height;
    image->rgb = malloc((size_t)(width * height) * 3);
    return image->rgb ? 0 : ctr_fail_nomem(err, (size_t)(width * height) * 3);
}

/* ---- JPEG ---- */

struct jpeg {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct ctr_image *image;
    uint8_t *line; /* CMYK */
    char why[JMSG_LENGTH_MAX];
    bool no_memory;
    int rc;
};

static void jpeg_fails(j_common_ptr d)
{
    struct jpeg *j = d->client_data;
    d->err->format_message(d, j->why);
    j->no_memory = d->err->msg_code == JERR_OUT_OF_MEMORY;
    longjmp(j->jump, 1);
}

/* A warning means damaged data, which libjpeg would replace by invented pixels: an error. Warnings about irrelevant
 * bytes are ignored. */
static void jpeg_warns(j_common_ptr d, int level)
{
    if (level >= 0 || d->err->msg_code == JWRN_EXTRANEOUS_DATA || d->err->msg_code == JWRN_ADOBE_XFORM ||
        d->err->msg_code == JWRN_JFIF_MAJOR)
        return;
    jpeg_fails(d);
}

static void jpeg_scans(j_common_ptr d)
{
    struct jpeg *j = d->client_data;
    if (d->is_decompressor && ((j_decompress_ptr)d)->input_scan_number > MOST_SCANS) {
        snprintf(j->why, sizeof j->why, "it has more than %d scans", MOST_SCANS);
        longjmp(j->jump, 1);
    }
}

/* Adobe's CMYK is inverted; Pillow treats all CMYK as Adobe's. x: 255 - cyan, …, 255 - black. */
static void cmyk_line(const uint8_t *x, uint8_t *rgb, int64_t n)
{
    for (int64_t i = 0; i < n; i++, x += 4, rgb += 3)
        for (int c = 0; c < 3; c++) {
            const int t = (255 - x[c]) * x[3] + 128;
            const int v = x[3] - ((t + (t >> 8)) >> 8);
            rgb[c] = (uint8_t)CTR_MAX(v, 0);
        }
}

static void read_lines(struct jpeg *j)
{
    struct ctr_image *image = j->image;
    while (j->d.output_scanline < j->d.output_height) {
        uint8_t *to = image->rgb + (size_t)j->d.output_scanline * (size_t)image->width * 3;
        JSAMPROW row = j->line ? j->line : to;
        jpeg_read_scanlines(&j->d, &row, 1);
        if (j->line)
            cmyk_line(j->line, to, image->width);
    }
}

static int decode_jpeg(struct ctr_image *image, const void *bytes, size_t n, int64_t max_pixels, struct ctr_err *err)
{
    struct jpeg *j = calloc(1, sizeof *j);

    if (!j)
        return ctr_fail_nomem(err, sizeof *j);
    j->image = image;
    j->d.client_data = j;
    j->d.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = jpeg_fails;
    j->errors.emit_message = jpeg_warns;
    if (setjmp(j->jump)) {
        j->rc = j->rc ? j->rc : j->no_memory ? ctr_fail(err, CTR_ENOMEM, "JPEG: %s", j->why) : bad(err, "JPEG", j->why);
    } else {
        jpeg_create_decompress(&j->d);
        j->d.client_data = j;
        j->progress.progress_monitor = jpeg_scans;
        j->d.progress = &j->progress;
        jpeg_mem_src(&j->d, bytes, n);
        jpeg_read_header(&j->d, TRUE);
        const bool four = j->d.num_components == 4;
        j->d.out_color_space = four ? JCS_CMYK : JCS_RGB;
        j->rc = make_room(image, j->d.image_width, j->d.image_height, max_pixels, err);
        if (!j->rc && four && !(j->line = malloc((size_t)image->width * 4)))
            j->rc = ctr_fail_nomem(err, (size_t)image->width * 4);
        if (!j->rc) {
            jpeg_start_decompress(&j->d);
            read_lines(j);
            jpeg_finish_decompress(&j->d);
        }
    }
    const int rc = j->rc;
    jpeg_destroy_decompress(&j->d);
    free(j->line);
    free(j);
    return rc;
}

/* ---- PNG ---- */

struct png {
    png_structp p;
    png_infop info;
    const uint8_t *at, *end;
    png_bytep *row;
    char why[200];
    bool no_memory;
    int rc;
};

static void png_fails(png_structp p, png_const_charp why)
{
    struct png *g = png_get_error_ptr(p);
    snprintf(g->why, sizeof g->why, "%s", why);
    png_longjmp(p, 1);
}

static void png_warns(png_structp p, png_const_charp why)
{
    (void)p, (void)why; /* about irrelevant chunks */
}

static void png_reads(png_structp p, png_bytep to, size_t n)
{
    struct png *g = png_get_io_ptr(p);
    if (n > (size_t)(g->end - g->at))
        png_error(p, "it ends early");
    memcpy(to, g->at, n);
    g->at += n;
}

/* libpng does not report lack of memory, which is not the image's fault. */
static png_voidp png_takes(png_structp p, png_alloc_size_t n)
{
    struct png *g = png_get_mem_ptr(p);
    void *to = malloc(n);
    g->no_memory |= !to;
    return to;
}

static void png_gives(png_structp p, png_voidp to)
{
    (void)p;
    free(to);
}

/* The output is 8 bit RGB, like Pillow's convert("RGB"). */
static void png_transforms(struct png *g)
{
    const int colour = png_get_color_type(g->p, g->info);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(g->p);
    if (!(colour & PNG_COLOR_MASK_COLOR) && png_get_bit_depth(g->p, g->info) < 8)
        png_set_expand_gray_1_2_4_to_8(g->p);
    png_set_strip_16(g->p);
    png_set_strip_alpha(g->p);
    if (!(colour & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(g->p);
    png_set_interlace_handling(g->p);
    png_read_update_info(g->p, g->info);
}

static int png_room(struct png *g, struct ctr_image *image, int64_t max_pixels, struct ctr_err *err)
{
    const int64_t width = png_get_image_width(g->p, g->info), height = png_get_image_height(g->p, g->info);
    int rc = make_room(image, width, height, max_pixels, err);
    if (!rc && !(g->row = malloc((size_t)height * sizeof *g->row)))
        rc = ctr_fail_nomem(err, (size_t)height * sizeof *g->row);
    for (int64_t i = 0; i < height && !rc; i++)
        g->row[i] = image->rgb + i * width * 3;
    return rc;
}

static int decode_png(struct ctr_image *image, const void *bytes, size_t n, int64_t max_pixels, struct ctr_err *err)
{
    struct png *g = calloc(1, sizeof *g);

    if (!g)
        return ctr_fail_nomem(err, sizeof *g);
    g->at = bytes;
    g->end = g->at + n;
    g->p = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, g, png_fails, png_warns, g, png_takes, png_gives);
    g->info = g->p ? png_create_info_struct(g->p) : NULL;
    if (!g->info) {
        g->rc = ctr_fail_nomem(err, sizeof *g);
    } else if (setjmp(png_jmpbuf(g->p))) {
        g->rc = g->rc ? g->rc : g->no_memory ? ctr_fail(err, CTR_ENOMEM, "PNG: %s", g->why) : bad(err, "PNG", g->why);
    } else {
        png_set_read_fn(g->p, g, png_reads);
        png_set_user_limits(g->p, INT_MAX, INT_MAX); /* make_room checks the limit */
        png_set_chunk_malloc_max(g->p, 8 << 20);
        png_set_keep_unknown_chunks(g->p, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
        png_read_info(g->p, g->info);
        g->rc = png_room(g, image, max_pixels, err);
        if (!g->rc) {
            png_transforms(g);
            if (png_get_rowbytes(g->p, g->info) != (size_t)image->width * 3)
                png_error(g->p, "its lines have another length than RGB has");
            png_read_image(g->p, g->row);
            png_read_end(g->p, NULL);
        }
    }
    const int rc = g->rc;
    png_destroy_read_struct(&g->p, &g->info, NULL);
    free(g->row);
    free(g);
    return rc;
}

/* ---- by content ---- */

static const struct {
    const char *magic;
    size_t n;
    int (*decode)(struct ctr_image *image, const void *bytes, size_t n, int64_t max_pixels, struct ctr_err *err);
    const char *other; /* its format, if not supported */
} kinds[] = {
    { "\xff\xd8\xff", 3, decode_jpeg, NULL },
    { "\x89PNG\r\n\x1a\n", 8, decode_png, NULL },
    { "GIF8", 4, NULL, "GIF" },
    { "RIFF", 4, NULL, "RIFF (WebP)" },
    { "BM", 2, NULL, "BMP" },
    { "II*\0", 4, NULL, "TIFF" },
    { "MM\0*", 4, NULL, "TIFF" },
    { "\0\0\0\x0cjP  ", 8, NULL, "JPEG 2000" },
    { "<?xml", 5, NULL, "XML" },
    { "<!DOCTYPE", 9, NULL, "HTML" },
    { "<html", 5, NULL, "HTML" },
    { "<svg", 4, NULL, "SVG" },
};

int ctr_image_decode(struct ctr_image *image, const void *bytes, size_t n, int64_t max_pixels, struct ctr_err *err)
{
    const char *other = NULL;
    *image = (struct ctr_image){ 0 };
    for (size_t i = 0; i < CTR_COUNT(kinds); i++) {
        if (n < kinds[i].n || memcmp(bytes, kinds[i].magic, kinds[i].n) != 0)
            continue;
        if (kinds[i].decode) {
            int rc = kinds[i].decode(image, bytes, n, max_pixels, err);
            if (rc)
                ctr_image_free(image);
            return rc;
        }
        other = kinds[i].other;
    }
    return ctr_fail(err, CTR_EDATA, "is neither JPEG nor PNG%s%s", n ? other ? ", but " : "" : ", but empty",
                    other ? other : "");
}
