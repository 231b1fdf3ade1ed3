/* SPDX-License-Identifier: Apache-2.0
 *
 * image_tower: VGG16 to FC6 with operations of the compute table. Pixels are rows of channels (compute.h); the weights
 * of safetensors, [out, in, line, column], are transposed accordingly when read, and those of FC6, whose inputs
 * torchvision orders [channel, line, column], to [line, column, channel]. */
#include "common/image/image.h"
#include "common/text/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONVS = 13, AT_ONCE = 4, READ_ROWS = 16 };

/* Number of the layer in torchvision's "features", and whether pooling follows. */
static const struct {
    int number;
    bool pool;
} convs[CONVS] = {
    { 0, false },  { 2, true },   { 5, false }, { 7, true },   { 10, false }, { 12, false }, { 14, true },
    { 17, false }, { 19, false }, { 21, true }, { 24, false }, { 26, false }, { 28, true },
};

struct layer {
    int64_t in, out;
    struct ctr_mem *w, *bias;
};

struct ctr_tower {
    struct ctr_dev *dev;
    struct ctr_tensors *file;
    const char *path;
    struct layer conv[CONVS], fc;
    int side, last; /* side of the image, and of the last pooling's output */
    struct ctr_mem *pixels, *a, *b, *flat, *vectors;
    char digest[33];
    struct ctr_buf hashes;
};

/* ---- weights ---- */

static int wrong(const struct ctr_tower *t, const struct ctr_tensor *w, const char *what, struct ctr_err *err)
{
    char text[200];
    ctr_fail(err, CTR_EDATA, "tensor %s is %s: %s", w->name, ctr_tensor_text(w, text, sizeof text), what);
    ctr_err_file(err, t->path);
    return CTR_EDATA;
}

static const struct ctr_tensor *need(const struct ctr_tower *t, const char *name, const char *other,
                                     struct ctr_err *err)
{
    const struct ctr_tensor *w = ctr_tensors_find(t->file, name);
    if (!w && other)
        w = ctr_tensors_find(t->file, other);
    if (!w) {
        ctr_fail(err, CTR_EDATA, "there is no tensor %s%s%s: VGG16's weights have torchvision's or timm's names", name,
                 other ? " or " : "", other ? other : "");
        ctr_err_file(err, t->path);
    }
    return w;
}

/* A NaN or infinite weight would give NaN or infinity in every vector. */
static int check_finite(const struct ctr_tower *t, const struct ctr_tensor *w, const float *v, int64_t n,
                        struct ctr_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return wrong(t, w, isnan(v[i]) ? "it holds a NaN" : "it holds an infinity", err);
    return 0;
}

static int add_hash(struct ctr_tower *t, const struct ctr_tensor *w, const float *v, int64_t n, struct ctr_err *err)
{
    const struct ctr_hash128 h = ctr_hash128(v, (size_t)n * sizeof *v);
    (void)w;
    return ctr_buf_append(&t->hashes, &h, sizeof h, err);
}

static int read_bias(struct ctr_tower *t, const struct ctr_tensor *b, struct layer *l, struct ctr_err *err)
{
    struct ctr_buf v = { 0 };
    if (b->rank != 1 || b->shape[0] != l->out)
        return wrong(t, b, "a bias for each output is wanted", err);
    int rc = ctr_buf_reserve(&v, (size_t)l->out * sizeof(float), err);
    float *p = (float *)(void *)v.data;
    if (!rc)
        rc = ctr_tensors_floats(t->file, b, 0, l->out, p, err);
    if (!rc)
        rc = check_finite(t, b, p, l->out, err);
    if (!rc)
        rc = add_hash(t, b, p, l->out, err);
    if (!rc)
        rc = ctr_mem_new(&l->bias, t->dev, (size_t)l->out * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_write(l->bias, 0, p, (size_t)l->out * sizeof(float), err);
    ctr_buf_free(&v);
    return rc;
}

/* Transpose w [out, in, places] of the file to [places, in, out], several outputs at a time, so that whole cache lines
 * are written. */
static int read_weights(struct ctr_tower *t, const struct ctr_tensor *w, struct layer *l, int64_t places,
                        struct ctr_err *err)
{
    const int64_t row = l->in * places;
    const size_t bytes = (size_t)(row * l->out) * sizeof(float);
    struct ctr_buf rows = { 0 };
    int rc = ctr_mem_new(&l->w, t->dev, bytes, err);
    float *turned = rc ? NULL : ctr_mem_host(l->w);
    const bool staged = !turned;

    if (!rc && staged && !(turned = malloc(bytes)))
        rc = ctr_fail_nomem(err, bytes);
    if (!rc)
        rc = ctr_buf_reserve(&rows, (size_t)(row * READ_ROWS) * sizeof(float), err);
    float *v = (float *)(void *)rows.data;
    for (int64_t o = 0; o < l->out && !rc; o += READ_ROWS) {
        const int64_t n = CTR_MIN(READ_ROWS, l->out - o);
        rc = ctr_tensors_floats(t->file, w, o * row, n * row, v, err);
        if (!rc)
            rc = check_finite(t, w, v, n * row, err);
        if (!rc)
            rc = add_hash(t, w, v, n * row, err);
        for (int64_t i = 0; i < row && !rc; i++) {
            float *to = turned + (i % places * l->in + i / places) * l->out + o;
            for (int64_t k = 0; k < n; k++)
                to[k] = v[k * row + i];
        }
    }
    if (!rc && staged)
        rc = ctr_mem_write(l->w, 0, turned, bytes, err);
    if (staged)
        free(turned);
    ctr_buf_free(&rows);
    return rc;
}

static int read_conv(struct ctr_tower *t, int i, struct ctr_err *err)
{
    struct layer *l = &t->conv[i];
    char name[64], bias[64];
    snprintf(name, sizeof name, "features.%d.weight", convs[i].number);
    snprintf(bias, sizeof bias, "features.%d.bias", convs[i].number);
    const struct ctr_tensor *w = need(t, name, NULL, err), *b = w ? need(t, bias, NULL, err) : NULL;
    if (!b)
        return CTR_EDATA;
    l->in = i ? t->conv[i - 1].out : 3;
    if (w->rank != 4 || w->shape[0] < 1 || w->shape[1] != l->in || w->shape[2] != 3 || w->shape[3] != 3) {
        char want[80];
        snprintf(want, sizeof want, "[outputs, %lld, 3, 3] is wanted", (long long)l->in);
        return wrong(t, w, want, err);
    }
    l->out = w->shape[0];
    int rc = read_weights(t, w, l, 9, err);
    return rc ? rc : read_bias(t, b, l, err);
}

/* The number of inputs of FC6 determines the size of images. */
static int read_fc(struct ctr_tower *t, struct ctr_err *err)
{
    const struct ctr_tensor *w = need(t, "classifier.0.weight", "pre_logits.fc1.weight", err);
    const struct ctr_tensor *b = w ? need(t, "classifier.0.bias", "pre_logits.fc1.bias", err) : NULL;
    const int64_t channels = t->conv[CONVS - 1].out;
    if (!b)
        return CTR_EDATA;
    int64_t inputs = w->rank ? 1 : 0;
    for (int i = 1; i < w->rank; i++)
        inputs *= w->shape[i];
    const int64_t side = inputs > 0 ? (int64_t)sqrt((double)(inputs / channels)) : 0;
    if ((w->rank != 2 && w->rank != 4) || w->shape[0] < 1 || side < 1 || side > 32 ||
        side * side * channels != inputs) {
        char want[100];
        snprintf(want, sizeof want, "[outputs, %lld x a square up to 32 x 32] is wanted", (long long)channels);
        return wrong(t, w, want, err);
    }
    t->last = (int)side;
    t->side = (int)side * 32;
    t->fc.in = channels;
    t->fc.out = w->shape[0];
    int rc = read_weights(t, w, &t->fc, side * side, err);
    t->fc.in = inputs;
    return rc ? rc : read_bias(t, b, &t->fc, err);
}

static int make_room(struct ctr_tower *t, struct ctr_err *err)
{
    int64_t most = 0, side = t->side;
    for (int i = 0; i < CONVS; i++) {
        most = CTR_MAX(most, side * side * t->conv[i].out);
        side /= convs[i].pool ? 2 : 1;
    }
    const size_t image = (size_t)(t->side * t->side * 3) * sizeof(float);
    int rc = ctr_mem_new(&t->pixels, t->dev, image * AT_ONCE, err);
    if (!rc)
        rc = ctr_mem_new(&t->a, t->dev, (size_t)(most * AT_ONCE) * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_new(&t->b, t->dev, (size_t)(most * AT_ONCE) * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_new(&t->flat, t->dev, (size_t)(t->fc.in * CTR_TOWER_IMAGES) * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_new(&t->vectors, t->dev, (size_t)(t->fc.out * CTR_TOWER_IMAGES) * sizeof(float), err);
    return rc;
}

static int open_tower(struct ctr_tower *t, const char *path, struct ctr_err *err)
{
    int rc = ctr_tensors_open(&t->file, path, err);
    t->path = path;
    for (int i = 0; i < CONVS && !rc; i++)
        rc = read_conv(t, i, err);
    if (!rc)
        rc = read_fc(t, err);
    if (!rc)
        rc = make_room(t, err);
    if (rc)
        return rc;
    const struct ctr_hash128 h = ctr_hash128(t->hashes.data, t->hashes.len);
    snprintf(t->digest, sizeof t->digest, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    ctr_tensors_free(t->file);
    t->file = NULL;
    ctr_buf_free(&t->hashes);
    return 0;
}

int ctr_tower_open(struct ctr_tower **out, const char *path, struct ctr_dev *dev, struct ctr_err *err)
{
    struct ctr_tower *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    t->dev = dev;
    int rc = open_tower(t, path, err);
    if (rc) {
        ctr_tower_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void ctr_tower_free(struct ctr_tower *t)
{
    if (!t)
        return;
    for (int i = 0; i < CONVS; i++) {
        ctr_mem_free(t->conv[i].w);
        ctr_mem_free(t->conv[i].bias);
    }
    ctr_mem_free(t->fc.w);
    ctr_mem_free(t->fc.bias);
    ctr_mem_free(t->pixels);
    ctr_mem_free(t->a);
    ctr_mem_free(t->b);
    ctr_mem_free(t->flat);
    ctr_mem_free(t->vectors);
    ctr_tensors_free(t->file);
    ctr_buf_free(&t->hashes);
    free(t);
}

int ctr_tower_side(const struct ctr_tower *t)
{
    return t->side;
}

int64_t ctr_tower_width(const struct ctr_tower *t)
{
    return t->fc.out;
}

/* ---- forward ---- */

/* Turn AT_ONCE images, in t->pixels, into rows of t->flat from `first` on. */
static int convolve(struct ctr_tower *t, int images, int first, struct ctr_err *err)
{
    struct ctr_mem *from = t->pixels, *to = t->a;
    int64_t side = t->side;
    int rc = 0;

    for (int i = 0; i < CONVS && !rc; i++) {
        const struct layer *l = &t->conv[i];
        const bool last = i + 1 == CONVS;
        rc = ctr_dev_conv(t->dev,
                          &(struct ctr_dev_conv){ .images = images,
                                                  .height = side,
                                                  .width = side,
                                                  .size = 3,
                                                  .stride = 1,
                                                  .pad = 1,
                                                  .x = ctr_mat(from, images * side * side, l->in),
                                                  .w = ctr_mat(l->w, 9 * l->in, l->out),
                                                  .bias = ctr_vec(l->bias, l->out),
                                                  .act = { .kind = CTR_ACT_RELU },
                                                  .y = ctr_mat(to, images * side * side, l->out) },
                          err);
        from = to;
        to = from == t->a ? t->b : t->a;
        if (rc || !convs[i].pool)
            continue;
        const int64_t half = side / 2;
        rc = ctr_dev_max_pool(
            t->dev,
            &(struct ctr_dev_max_pool){ .images = images,
                                        .height = side,
                                        .width = side,
                                        .size = 2,
                                        .stride = 2,
                                        .x = ctr_mat(from, images * side * side, l->out),
                                        .y = last ? ctr_mat_at(t->flat, first * t->fc.in, images * half * half, l->out)
                                                  : ctr_mat(to, images * half * half, l->out) },
            err);
        side = half;
        from = to;
        to = from == t->a ? t->b : t->a;
    }
    return rc;
}

int ctr_tower_forward(struct ctr_tower *t, const float *pixels, int n, float *vectors, struct ctr_err *err)
{
    /* On a GPU a product's bits depend on its shape, so only one shape is used. */
    const bool whole = !ctr_dev_is_host(t->dev);
    const int64_t image = (int64_t)t->side * t->side * 3, rows = whole ? CTR_TOWER_IMAGES : n;
    int rc = 0;

    for (int i = 0; i < rows && !rc; i += AT_ONCE) {
        const int there = (int)CTR_MAX(CTR_MIN(AT_ONCE, n - i), 0);
        if (there)
            rc = ctr_mem_write(t->pixels, 0, pixels + i * image, (size_t)(there * image) * sizeof *pixels, err);
        if (!rc)
            rc = convolve(t, whole ? AT_ONCE : there, i, err);
    }
    if (!rc)
        rc = ctr_dev_gemm(t->dev,
                          &(struct ctr_dev_gemm){ .a = ctr_mat(t->flat, rows, t->fc.in),
                                                  .b = ctr_mat(t->fc.w, t->fc.in, t->fc.out),
                                                  .c = ctr_mat(t->vectors, rows, t->fc.out),
                                                  .bias = ctr_vec(t->fc.bias, t->fc.out),
                                                  .act = { .kind = CTR_ACT_RELU } },
                          err);
    if (!rc)
        rc = ctr_mem_read(t->vectors, 0, vectors, (size_t)(n * t->fc.out) * sizeof *vectors, err);
    return rc;
}

/* ---- tables of vectors ---- */

int ctr_tower_text(const struct ctr_tower *t, enum ctr_preprocess how, struct ctr_buf *text, struct ctr_err *err)
{
    return ctr_buf_printf(text, err, "vgg16-fc6 weights=%s side=%d preprocess=%s", t->digest, ctr_tower_side(t),
                          how == CTR_PREPROCESS_CAFFE ? "caffe" : "torchvision");
}
