/* SPDX-License-Identifier: Apache-2.0
 *
 * image_prepare: resize, crop and normalise. The filter equals Pillow's to the bit (src/libImaging/Resample.c,
 * ImagingResample with BILINEAR for 8 bits per channel): weights in double, normalised, then rounded to 22 bits of
 * fixed point; first along lines, rounded to bytes, then along columns. Only the cropped part is computed, so that a
 * line of 60,000 pixels takes no more memory than a square. */
#include "common/image/image.h"

#include <math.h>
#include <stdlib.h>

enum { FIXED_BITS = 32 - 8 - 2 };

/* Output positions [0, n): pixel i is the sum of weight[i * size + k] · in[first[i] + k], k < count[i]. */
struct filter {
    int32_t *first, *count, *weight;
    int64_t size, n;
    int64_t from, to; /* range of input positions used */
};

static void filter_free(struct filter *f)
{
    free(f->first);
    free(f->count);
    free(f->weight);
}

/* Compute the weights of output position `at`. */
static void weigh(struct filter *f, int64_t i, int64_t at, double scale, int64_t in, double *w)
{
    const double filter_scale = CTR_MAX(scale, 1.0), support = filter_scale, center = ((double)at + 0.5) * scale;
    const double inverse = 1.0 / filter_scale;
    const int64_t low = CTR_MAX((int64_t)(center - support + 0.5), 0);
    const int64_t n = CTR_MIN((int64_t)(center + support + 0.5), in) - low;
    double sum = 0;

    for (int64_t k = 0; k < n; k++) {
        const double x = fabs(((double)(k + low) - center + 0.5) * inverse);
        w[k] = x < 1.0 ? 1.0 - x : 0.0;
        sum += w[k];
    }
    for (int64_t k = 0; k < n; k++) {
        const double share = sum != 0.0 ? w[k] / sum : w[k];
        f->weight[i * f->size + k] = (int32_t)(0.5 + share * (double)(1 << FIXED_BITS));
    }
    f->first[i] = (int32_t)low;
    f->count[i] = (int32_t)n;
}

/* A filter from `in` to `out` pixels, for output positions [crop, crop + n). */
static int filter_new(struct filter *f, int64_t in, int64_t out, int64_t crop, int64_t n, struct ctr_err *err)
{
    const double scale = (double)in / (double)out;
    *f = (struct filter){ .n = n, .size = (int64_t)ceil(CTR_MAX(scale, 1.0)) * 2 + 1, .from = in };
    f->first = malloc((size_t)n * sizeof *f->first);
    f->count = malloc((size_t)n * sizeof *f->count);
    f->weight = malloc((size_t)(n * f->size) * sizeof *f->weight);
    double *w = malloc((size_t)f->size * sizeof *w);
    if (!f->first || !f->count || !f->weight || !w) {
        free(w);
        return ctr_fail_nomem(err, (size_t)(n * f->size) * sizeof *f->weight);
    }
    for (int64_t i = 0; i < n; i++) {
        weigh(f, i, crop + i, scale, in, w);
        f->from = CTR_MIN(f->from, f->first[i]);
        f->to = CTR_MAX(f->to, f->first[i] + f->count[i]);
    }
    free(w);
    return 0;
}

static uint8_t to_byte(int32_t sum)
{
    const int32_t v = sum >> FIXED_BITS;
    return (uint8_t)CTR_MAX(CTR_MIN(v, 255), 0);
}

/* Filter one line of pixels horizontally. */
static void along_line(const struct filter *f, const uint8_t *in, uint8_t *out)
{
    for (int64_t i = 0; i < f->n; i++) {
        const uint8_t *p = in + (size_t)f->first[i] * 3;
        const int32_t *w = f->weight + i * f->size;
        int32_t sum[3] = { 1 << (FIXED_BITS - 1), 1 << (FIXED_BITS - 1), 1 << (FIXED_BITS - 1) };
        for (int32_t k = 0; k < f->count[i]; k++, p += 3)
            for (int c = 0; c < 3; c++)
                sum[c] += p[c] * w[k];
        for (int c = 0; c < 3; c++)
            out[i * 3 + c] = to_byte(sum[c]);
    }
}

/* Filter lines of `bytes` bytes vertically, starting with input line f->from, to output line i. */
static void along_columns(const struct filter *f, int64_t i, const uint8_t *lines, int64_t bytes, int32_t *sum,
                          uint8_t *out)
{
    const int32_t *w = f->weight + i * f->size;
    for (int64_t b = 0; b < bytes; b++)
        sum[b] = 1 << (FIXED_BITS - 1);
    for (int32_t k = 0; k < f->count[i]; k++) {
        const uint8_t *line = lines + (f->first[i] - f->from + k) * bytes;
        for (int64_t b = 0; b < bytes; b++)
            sum[b] += line[b] * w[k];
    }
    for (int64_t b = 0; b < bytes; b++)
        out[b] = to_byte(sum[b]);
}

/* Like Python's round((size - side) / 2.0): halves to even. */
static int64_t crop_at(int64_t size, int64_t side)
{
    const int64_t d = size - side, half = d / 2;
    return d % 2 && half % 2 ? half + 1 : half;
}

int ctr_image_crop(const struct ctr_image *image, int side, uint8_t *out, struct ctr_err *err)
{
    const int64_t resize = (int64_t)side * 8 / 7, shorter = CTR_MIN(image->width, image->height);
    const int64_t longer = CTR_MAX(image->width, image->height);
    const int64_t other = (int64_t)((double)(resize * longer) / (double)shorter);
    const int64_t width = image->width <= image->height ? resize : other;
    const int64_t height = image->width <= image->height ? other : resize;
    struct filter across = { 0 }, down = { 0 };
    uint8_t *lines = NULL;
    int32_t *sum = malloc((size_t)side * 3 * sizeof *sum);

    int rc = sum ? filter_new(&across, image->width, width, crop_at(width, side), side, err)
                 : ctr_fail_nomem(err, (size_t)side * 3 * sizeof *sum);
    if (!rc)
        rc = filter_new(&down, image->height, height, crop_at(height, side), side, err);
    const int64_t bytes = (int64_t)side * 3;
    if (!rc && !(lines = malloc((size_t)((down.to - down.from) * bytes))))
        rc = ctr_fail_nomem(err, (size_t)((down.to - down.from) * bytes));
    for (int64_t y = down.from; y < down.to && !rc; y++)
        along_line(&across, image->rgb + (size_t)y * (size_t)image->width * 3, lines + (y - down.from) * bytes);
    for (int64_t i = 0; i < side && !rc; i++)
        along_columns(&down, i, lines, bytes, sum, out + i * bytes);
    filter_free(&across);
    filter_free(&down);
    free(lines);
    free(sum);
    return rc;
}

int ctr_image_prepare(const struct ctr_image *image, int side, enum ctr_preprocess how, float *out, struct ctr_err *err)
{
    static const float mean[] = { .485f, .456f, .406f }, deviation[] = { .229f, .224f, .225f };
    static const float caffe[] = { 103.939f, 116.779f, 123.68f };
    const int64_t pixels = (int64_t)side * side;
    uint8_t *crop = malloc((size_t)pixels * 3);

    int rc = crop ? ctr_image_crop(image, side, crop, err) : ctr_fail_nomem(err, (size_t)pixels * 3);
    for (int64_t i = 0; i < pixels * 3 && !rc; i += 3)
        for (int c = 0; c < 3; c++)
            out[i + c] = how == CTR_PREPROCESS_CAFFE ? (float)crop[i + 2 - c] - caffe[c]
                                                     : ((float)crop[i + c] / 255.0f - mean[c]) / deviation[c];
    free(crop);
    return rc;
}
