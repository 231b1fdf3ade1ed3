/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of a deep model (Ge et al., "Image Matters", CIKM 2018, sections 4 and 5): fixed vectors by key from a table
 * (image_table.h), and a tower of dense layers that learns. Each distinct image of a minibatch goes through the tower
 * once, forward and backward, in order of first occurrence in the rows, so sums over images do not depend on how rows
 * arrive.
 *
 *     hash of a key in a row -> row of the table -> number in the minibatch -> its vector, scaled, on the device ->
 * tower -> value
 *
 * Prediction caches the tower's outputs for later minibatches, up to a limit; then it clears the cache. A value depends
 * only on its image, so caching changes no bit. A table of tower outputs needs no tower. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep_stack.h"
#include "common/deep/image_table.h"

/* Limit of cached values, in bytes, in prediction. */
enum { KEPT_BYTES = 64 << 20 };

struct ctr_deep_images {
    const struct ctr_image_table *table;
    struct ctr_image_table *own; /* or NULL: the table is borrowed */
    bool embedded;               /* the table holds values, not the tower's inputs */
    struct ctr_buf number;       /* i32, by row of the table: 1 + its number in the minibatch; 0: none */
    struct ctr_buf row;          /* i32, by number */
    struct ctr_buf host;         /* f32: the vectors of images first_host … */
    int64_t first_host;
    int64_t n, done;                          /* images of the minibatch; those that have passed the tower */
    int64_t named, absent;                    /* over all rows: entries; entries without a vector */
    struct ctr_mem *x, *value, *grad, *zeros; /* zeros: an input of the tower */
    bool scaled;                              /* --images-scale standard: */
    int mean, scale;                          /* parameters */
    struct ctr_buf shift;                     /* f32: both, off the device when they were first needed */
    struct ctr_stack tower;
};

#define AS(type, buf) ((type *)(void *)(buf).data)

const struct ctr_image_table *ctr_deep_images_table(const struct ctr_deep *d)
{
    return d->images ? d->images->table : NULL;
}

/* ---- shape ---- */

static int own_table(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const char **tables = calloc((size_t)d->inputs + 1, sizeof *tables);
    int n = 0, rc = 0;
    if (!tables)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *tables);
    for (int i = 0; i < d->inputs; i++)
        if (d->input[i].image)
            tables[n++] = d->input[i].table;
    if (!d->p.images)
        rc = ctr_fail(err, CTR_EUSAGE, "the model learns from images: --images FILE has their vectors");
    if (!rc)
        rc = ctr_image_table_open(&m->own, d->p.images, tables, n, err);
    free(tables);
    m->table = m->own;
    return rc;
}

/* The length of the tower's input: from the vectors in training, otherwise from the model's file. */
static int32_t tower_inputs(const struct ctr_deep *d)
{
    const struct ctr_deep_images *m = d->images;
    return m->table && !m->embedded ? ctr_image_table_width(m->table) : d->image_inputs;
}

/* Are the vectors such as the tower takes? Those of an image table that a tower made stand in place of its values. */
static int check_table(const struct ctr_deep *d, const struct ctr_deep_images *m, struct ctr_err *err)
{
    const int32_t width = ctr_image_table_width(m->table);
    int rc = 0;
    if (d->learns && ctr_image_table_tower(m->table))
        rc = ctr_fail(err, CTR_EUSAGE,
                      "its vectors are what the tower of a model made (%s), to predict with that model: learn from the "
                      "vectors that the tower took",
                      ctr_image_table_tower(m->table));
    else if (m->embedded && width != d->image_width)
        rc = ctr_fail(err, CTR_EDATA,
                      "its vectors have %d numbers, the model's tower gives %d: they are of another model", width,
                      d->image_width);
    else if (!m->embedded && d->image_inputs && width != d->image_inputs)
        rc = ctr_fail(err, CTR_EDATA,
                      "its vectors have %d numbers, the model learned from vectors of %d: they are of another network",
                      width, d->image_inputs);
    if (rc)
        ctr_err_file(err, ctr_image_table_path(m->table));
    return rc;
}

int ctr_deep_images_declare(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    struct ctr_deep_images *m = d->images = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->table = d->table;
    if (!m->table && !d->tower_alone)
        rc = own_table(d, err);
    m->embedded = !rc && m->table && !d->learns && ctr_image_table_tower(m->table);
    const int64_t images = rc || !m->table ? 0 : ctr_image_table_images(m->table);
    int32_t *number = rc ? NULL : ctr_buf_extend(&m->number, images + 1, sizeof *number, &rc, err);
    if (rc)
        return rc;
    memset(number, 0, (size_t)(images + 1) * sizeof *number);
    if (m->table && (rc = check_table(d, m, err)))
        return rc;
    const struct ctr_stack_shape shape = { .prefix = "image.",
                                           .hidden = d->p.images_tower,
                                           .in = tower_inputs(d),
                                           .out = d->image_width,
                                           .activation = "prelu" };
    return ctr_stack_declare(d, &m->tower, &shape, err);
}

/* ---- scale ---- */

int ctr_deep_images_declare_running(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    if (!m || strcmp(d->p.images_scale, "standard") != 0)
        return 0;
    m->scaled = true;
    m->mean = ctr_deep_param(d, CTR_INIT_ZERO, true, 0, tower_inputs(d), err, "image.mean");
    m->scale = m->mean < 0 ? m->mean : ctr_deep_param(d, CTR_INIT_ONE, true, 0, tower_inputs(d), err, "image.scale");
    return CTR_MIN(m->scale, 0);
}

enum { SAMPLE_RUN = 16 }; /* neighbours, which share a block of the file */

/* The row of image i of a sample of n of `images`: runs of neighbours, evenly spread. */
static int64_t sample_row(int64_t i, int64_t n, int64_t images)
{
    return n == images ? i : i / SAMPLE_RUN * (images / (n / SAMPLE_RUN)) + i % SAMPLE_RUN;
}

/* Mean and 1 / standard deviation of each number, over the images of the sample; 0 where all are equal. */
static int measure(const struct ctr_image_table *t, float *mean, float *scale, struct ctr_err *err)
{
    const int64_t images = ctr_image_table_images(t), n = CTR_MIN(images, CTR_IMAGE_SAMPLE);
    const int32_t width = ctr_image_table_width(t);
    double *sum = calloc((size_t)width, 2 * sizeof *sum), *squares = sum + width;
    float *v = malloc((size_t)width * sizeof *v);
    int rc = sum && v ? 0 : ctr_fail_nomem(err, (size_t)width * 2 * sizeof *sum);
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = ctr_image_table_fetch(t, sample_row(i, n, images), v, err);
        for (int32_t k = 0; k < width && !rc; k++) {
            sum[k] += (double)v[k];
            squares[k] += (double)v[k] * (double)v[k];
        }
    }
    for (int32_t k = 0; k < width && !rc; k++) {
        const double m = sum[k] / (double)n, variance = squares[k] / (double)n - m * m;
        mean[k] = (float)m;
        scale[k] = variance > 1e-12 * m * m ? (float)(1 / sqrt(variance)) : 0;
        if (!(scale[k] < INFINITY))
            scale[k] = 0;
    }
    free(sum);
    free(v);
    return rc;
}

int ctr_deep_images_standardise(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    if (!m || !m->scaled)
        return 0;
    const int32_t width = tower_inputs(d);
    const size_t bytes = (size_t)width * sizeof(float);
    int rc = 0;
    float *mean = ctr_buf_extend(&m->shift, 2 * width, sizeof *mean, &rc, err);
    if (!rc)
        rc = measure(m->table, mean, mean + width, err);
    if (!rc)
        rc = ctr_mem_write(d->w, (size_t)d->param[m->mean].at * sizeof *mean, mean, bytes, err);
    if (!rc)
        rc = ctr_mem_write(d->w, (size_t)d->param[m->scale].at * sizeof *mean, mean + width, bytes, err);
    ctr_buf_clear(&m->shift); /* a model may be loaded */
    return rc;
}

/* n vectors as the tower takes them, in place. */
static int scale_vectors(struct ctr_deep *d, float *v, int64_t n, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const int32_t width = tower_inputs(d);
    const size_t bytes = (size_t)width * sizeof *v;
    int rc = 0;
    if (!m->scaled || m->embedded)
        return 0;
    if (!m->shift.len) {
        float *to = ctr_buf_extend(&m->shift, 2 * width, sizeof *to, &rc, err);
        if (!rc)
            rc = ctr_mem_read(d->w, (size_t)d->param[m->mean].at * sizeof *to, to, bytes, err);
        if (!rc)
            rc = ctr_mem_read(d->w, (size_t)d->param[m->scale].at * sizeof *to, to + width, bytes, err);
        if (rc)
            return rc;
    }
    const float *mean = AS(float, m->shift), *scale = mean + width;
    for (int64_t i = 0; i < n; i++, v += width)
        for (int32_t k = 0; k < width; k++)
            v[k] = (v[k] - mean[k]) * scale[k];
    return 0;
}

void ctr_deep_images_free(struct ctr_deep *d)
{
    struct ctr_deep_images *m = d->images;
    if (!m)
        return;
    struct ctr_buf *bufs[] = { &m->number, &m->row, &m->host, &m->shift };
    struct ctr_mem *mems[] = { m->x, m->value, m->grad, m->zeros };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_stack_free(&m->tower);
    ctr_image_table_free(m->own);
    free(m);
    d->images = NULL;
}

int64_t ctr_deep_images_bytes(const struct ctr_deep *d)
{
    return d->images && d->images->table ? ctr_image_table_bytes(d->images->table) : 0;
}

/* ---- the tower's name ---- */

/* A hash of its parameters: vectors of different towers are not comparable. */
int ctr_deep_tower_text(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err)
{
    uint64_t hash = 0;
    int rc = 0;
    for (int i = 0; i < d->params && !rc; i++) {
        const struct ctr_deep_param *p = &d->param[i];
        const size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
        if (strncmp(p->name, "image.", 6) != 0)
            continue;
        float *w = malloc(CTR_MAX(bytes, 1));
        rc = w ? ctr_mem_read(d->w, (size_t)p->at * sizeof *w, w, bytes, err) : ctr_fail_nomem(err, bytes);
        if (!rc)
            hash = ctr_hash64(w, bytes, ctr_hash64(p->name, strlen(p->name), hash));
        free(w);
    }
    return rc ? rc : ctr_buf_printf(text, err, CTR_TOWER_PREFIX "%016" PRIx64, hash);
}

int ctr_deep_images_check(const struct ctr_deep *d, struct ctr_err *err)
{
    const struct ctr_deep_images *m = d->images;
    struct ctr_buf text = { 0 };
    if (!m || !m->embedded)
        return 0;
    int rc = ctr_deep_tower_text(d, &text, err);
    if (!rc && strcmp((const char *)text.data, ctr_image_table_tower(m->table)) != 0) {
        rc = ctr_fail(err, CTR_EDATA,
                      "its vectors are of another tower (%s) than the model's (%s): make them with ctr-embed-images "
                      "--tower MODEL",
                      ctr_image_table_tower(m->table), (const char *)text.data);
        ctr_err_file(err, ctr_image_table_path(m->table));
    }
    ctr_buf_free(&text);
    return rc;
}

/* ---- the images of a minibatch ---- */

/* The number of the image of this hash. */
static int number_image(struct ctr_deep *d, uint64_t hash, int input, int64_t row, int32_t *number, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    int64_t at = ctr_image_table_find(m->table, hash);
    int rc = 0;
    m->named++;
    m->absent += at < 0;
    if (at < 0 && !strcmp(d->p.missing_image, "fail"))
        return ctr_fail(err, CTR_EDATA,
                        "row %" PRId64 ": image #%016" PRIx64 " of column '%.80s' is not in %s (ctr-extract --names "
                        "tells its name): add it (ctr-embed-images --update), or train with --missing-image zero",
                        row + 1, ctr_sparse_key(hash), d->input[input].name, ctr_image_table_path(m->table));
    if (at < 0)
        at = ctr_image_table_images(m->table); /* zeros, or the tower's output for zeros */
    int32_t *of = &AS(int32_t, m->number)[at];
    if (!*of) {
        float *vector = ctr_buf_extend(&m->host, ctr_image_table_width(m->table), sizeof *vector, &rc, err);
        if (!rc)
            rc = ctr_image_table_fetch(m->table, at, vector, err);
        if (!rc && at < ctr_image_table_images(m->table)) /* no image stays 0 */
            rc = scale_vectors(d, vector, 1, err);
        int32_t *more = rc ? NULL : ctr_buf_extend(&m->row, 1, sizeof *more, &rc, err);
        if (rc)
            return rc;
        *more = (int32_t)at;
        *of = (int32_t)++m->n;
    }
    *number = *of - 1;
    return 0;
}

/* Number the images of field f of group g in one row. */
static int add_list(struct ctr_deep *d, struct ctr_deep_group *g, int f, int64_t row, int64_t in_stream,
                    struct ctr_err *err)
{
    const int64_t list = row * g->fields + f;
    const int64_t from = g->ragged ? AS(int32_t, g->start)[list] : list;
    const int64_t end = g->ragged ? AS(int32_t, g->start)[list + 1] : list + 1;
    int rc = 0;
    for (int64_t e = from; e < end && !rc; e++)
        rc = number_image(d, AS(uint64_t, g->hash)[e], d->key_input[g->first + CTR_MIN(f, g->inputs - 1)], in_stream,
                          &AS(int32_t, g->index)[e], err);
    return rc;
}

int ctr_deep_images_add(struct ctr_deep *d, int64_t n, int64_t first_row, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->groups && !rc; i++) {
        struct ctr_deep_group *g = &d->group[i];
        const int64_t known = (int64_t)(g->index.len / sizeof(int32_t));
        if (g->images)
            (void)ctr_buf_extend(&g->index, g->entries - known, sizeof(int32_t), &rc, err);
    }
    for (int64_t r = 0; r < n && !rc; r++)
        for (int i = 0; i < d->groups && !rc; i++)
            for (int f = 0; f < d->group[i].fields && !rc && d->group[i].images; f++)
                rc = add_list(d, &d->group[i], f, d->rows + r, first_row + r, err);
    return rc;
}

/* For a table of values: the value of an image without a vector, which is the tower's output for zeros. */
static int forward_zeros(struct ctr_deep *d, struct ctr_deep_images *m, struct ctr_err *err)
{
    const int64_t number = AS(int32_t, m->number)[ctr_image_table_images(m->table)] - 1;
    const size_t bytes = (size_t)d->image_inputs * sizeof(float);
    if (number < m->done)
        return 0;
    float *zeros = calloc(1, CTR_MAX(bytes, 1));
    int rc = zeros ? ctr_mem_grow(&m->zeros, d->dev, bytes, err) : ctr_fail_nomem(err, bytes);
    if (!rc)
        rc = ctr_mem_write(m->zeros, 0, zeros, bytes, err);
    free(zeros);
    if (!rc)
        rc = ctr_stack_keep(d, &m->tower, 0, 1, err);
    return rc ? rc
              : ctr_stack_forward(d, &m->tower, ctr_mat(m->zeros, 1, d->image_inputs), 0, false,
                                  ctr_mat_at(m->value, number * d->image_width, 1, d->image_width), err);
}

/* Turn vectors on the device into values: those from number `done` on, starting at row x_at of m->x. */
static int forward(struct ctr_deep *d, struct ctr_deep_images *m, int64_t x_at, struct ctr_err *err)
{
    const int64_t fresh = m->n - m->done, in = ctr_image_table_width(m->table);
    const struct ctr_mat x = ctr_mat_at(m->x, x_at * in, fresh, in);
    const struct ctr_mat value = ctr_mat_at(m->value, m->done * d->image_width, fresh, d->image_width);
    int rc = m->embedded ? ctr_dev_copy(d->dev, &(struct ctr_dev_copy){ x, value }, err) : 0;
    if (rc || m->embedded)
        return rc ? rc : forward_zeros(d, m, err);
    rc = ctr_stack_keep(d, &m->tower, x_at, x_at + fresh, err);
    return rc ? rc : ctr_stack_forward(d, &m->tower, x, x_at, d->learns, value, err);
}

int ctr_deep_images_pull(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const size_t in = (size_t)ctr_image_table_width(m->table) * sizeof(float);
    const size_t out = (size_t)d->image_width * sizeof(float);
    const int64_t x_at = m->done - m->first_host; /* keep what backward reads */
    int rc = ctr_image_table_unchanged(m->table, err);
    if (!rc && !x_at && !ctr_dev_is_host(d->dev)) /* the previous minibatch is still being learned */
        rc = ctr_dev_sync(d->dev, err);
    if (!rc)
        rc = ctr_deep_send(d, &m->x, m->host.data, (size_t)x_at * in, (size_t)(m->n - m->first_host) * in, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    if (!rc)
        rc = ctr_deep_keep(d, &m->value, (size_t)m->done * out, (size_t)m->n * out, err);
    if (!rc && m->n > m->done)
        rc = forward(d, m, x_at, err);
    if (!rc)
        m->done = m->n;
    return rc;
}

struct ctr_mat ctr_deep_images_value(const struct ctr_deep *d)
{
    return ctr_mat(d->images->value, d->images->n, d->image_width);
}

struct ctr_mat ctr_deep_images_grad(const struct ctr_deep *d)
{
    return ctr_mat(d->images->grad, d->images->n, d->image_width);
}

int ctr_deep_images_room(struct ctr_deep *d, struct ctr_err *err)
{
    return ctr_mem_grow(&d->images->grad, d->dev, (size_t)(d->images->n * d->image_width) * sizeof(float), err);
}

int ctr_deep_images_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    return ctr_stack_backward(d, &m->tower, ctr_mat(m->x, m->n, ctr_image_table_width(m->table)),
                              ctr_deep_images_grad(d), (struct ctr_mat){ 0 }, err);
}

void ctr_deep_images_clear(struct ctr_deep *d)
{
    struct ctr_deep_images *m = d->images;
    ctr_buf_clear(&m->host);
    if (!d->learns && m->done == m->n && m->n * d->image_width < (int64_t)(KEPT_BYTES / sizeof(float))) {
        m->first_host = m->n;
        return;
    }
    for (int64_t i = 0; i < m->n; i++)
        AS(int32_t, m->number)[AS(int32_t, m->row)[i]] = 0;
    ctr_buf_clear(&m->row);
    m->n = m->done = m->first_host = 0;
}

/* ---- a tower alone ---- */

int ctr_deep_tower_rows(struct ctr_deep *d, const float *vectors, int64_t n, float *values, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const size_t in = (size_t)(n * d->image_inputs) * sizeof *vectors,
                 out = (size_t)(n * d->image_width) * sizeof *values;
    int rc = ctr_mem_grow(&m->x, d->dev, in, err);
    if (!rc)
        rc = ctr_mem_grow(&m->value, d->dev, out, err);
    ctr_buf_clear(&m->host);
    float *scaled = rc ? NULL : ctr_buf_extend(&m->host, n * d->image_inputs, sizeof *scaled, &rc, err);
    if (!rc) {
        memcpy(scaled, vectors, in);
        rc = scale_vectors(d, scaled, n, err);
    }
    if (!rc)
        rc = ctr_mem_write(m->x, 0, scaled, in, err);
    if (!rc)
        rc = ctr_stack_keep(d, &m->tower, 0, n, err);
    if (!rc)
        rc = ctr_stack_forward(d, &m->tower, ctr_mat(m->x, n, d->image_inputs), 0, false,
                               ctr_mat(m->value, n, d->image_width), err);
    return rc ? rc : ctr_mem_read(m->value, 0, values, out, err);
}

int ctr_deep_images_summary(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_deep_images *m = d->images;
    return ctr_buf_printf(text, err,
                          "images in the file   %" PRId64 "\n"
                          "images named         %" PRId64 "\n"
                          "not in the file      %" PRId64 "\n",
                          ctr_image_table_images(m->table), m->named, m->absent);
}
