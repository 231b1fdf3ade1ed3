/* SPDX-License-Identifier: Apache-2.0
 *
 * image: a photograph to a vector: VGG16 from Conv1 to FC6, the inputs of the image models in "Image Matters" (Ge et
 * al., CIKM 2018, section 4.1).
 *
 *   decode   JPEG and PNG to 8 bit RGB, detected by content                                    image_decode.c
 *   prepare  resize, crop, normalise, with the bits of Pillow and torchvision                   image_prepare.c
 *   tower    the network (Simonyan & Zisserman 2015, configuration D, to the first fully connected layer)
 *                                                                                              image_tower.c
 * On a CPU a vector depends only on its image and the weights; on a GPU also on the device, where all minibatches have
 * one shape. Left out of a build without libjpeg and libpng. */
#ifndef CTR_IMAGE_H
#define CTR_IMAGE_H

#include "common/compute/compute.h"
#include "common/stream/stream.h"

/* ---- decode ---- */

/* height lines of width pixels of 3 bytes; owned, see ctr_image_free. */
struct ctr_image {
    int64_t width, height;
    uint8_t *rgb;
};
/* JPEG: baseline and progressive, grey, YCbCr, RGB, CMYK and YCCK (inverted, as Adobe and Pillow have it). PNG: grey,
 * palette, RGB, of 1 to 16 bits (the high byte is used), interlaced or not; alpha is ignored, as in Pillow's
 * convert("RGB"). Orientation and colour profiles are ignored. CTR_EDATA: this image is bad (another format, damaged,
 * truncated, or more than max_pixels, in which case it is not decoded); the message has the reason. CTR_ENOMEM. */
int ctr_image_decode(struct ctr_image *image, const void *bytes, size_t n, int64_t max_pixels,
                     struct ctr_err *err) CTR_MUST;
void ctr_image_free(struct ctr_image *image);

/* ---- prepare ---- */

enum ctr_preprocess {
    CTR_PREPROCESS_TORCHVISION, /* (x / 255 - mean) / std, RGB: mean .485 .456 .406, std .229 .224 .225 */
    CTR_PREPROCESS_CAFFE,       /* x - mean, BGR: mean 103.939 116.779 123.68 */
};
/* Resizes the shorter side to side · 8 / 7 (256 for 224) with Pillow's antialiased bilinear filter and cuts out the
 * middle side x side, like torchvision's Resize and CenterCrop on a Pillow image. out: side x side x 3 floats, pixel by
 * pixel. Computes only what the crop needs. */
int ctr_image_prepare(const struct ctr_image *image, int side, enum ctr_preprocess how, float *out,
                      struct ctr_err *err) CTR_MUST;
/* The same without normalisation: side x side x 3 bytes. */
int ctr_image_crop(const struct ctr_image *image, int side, uint8_t *out, struct ctr_err *err) CTR_MUST;

/* ---- tower ---- */

struct ctr_tower;
/* VGG16's weights under torchvision's names (features.0.weight …, classifier.0.weight) or timm's
 * (pre_logits.fc1.weight), as F32, F16 or BF16; other tensors are ignored. Layer widths come from the file: the
 * thirteen convolutions must fit each other, and FC6's inputs must be the last width times s², for images of side 32 s.
 * Every weight must be finite. The device is borrowed. */
int ctr_tower_open(struct ctr_tower **t, const char *path, struct ctr_dev *dev, struct ctr_err *err) CTR_MUST;
int ctr_tower_side(const struct ctr_tower *t);      /* pixels per side of an image: 224 */
int64_t ctr_tower_width(const struct ctr_tower *t); /* floats of a vector: 4096 */
enum { CTR_TOWER_IMAGES = 32 };
/* n <= CTR_TOWER_IMAGES images from ctr_image_prepare to vectors, after ReLU. */
int ctr_tower_forward(struct ctr_tower *t, const float *pixels, int n, float *vectors, struct ctr_err *err) CTR_MUST;
void ctr_tower_free(struct ctr_tower *t);

/* The text of CTR_META_NETWORK in tables of these vectors; only tables of one network can be combined. */
int ctr_tower_text(const struct ctr_tower *t, enum ctr_preprocess how, struct ctr_buf *text,
                   struct ctr_err *err) CTR_MUST;

/* ---- rows of a table: image_store.c ---- */

/* How far stored vectors are from those computed: |x - stored| / |x|, 0 for a vector of zeros. */
struct ctr_image_loss {
    double sum, most;
    int64_t n;
};
/* Append a row (key, vector), or (key, vector, scale) of int8, to rows of that schema. A number beyond float16 is an
 * error. */
int ctr_image_put(struct ctr_batchbuf *rows, const char *key, const float *vector, int64_t width,
                  struct ctr_image_loss *loss, struct ctr_err *err) CTR_MUST;

#endif
