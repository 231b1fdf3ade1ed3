/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of a deep model (Ge et al., "Image Matters", CIKM 2018, sections 4 and 5): fixed vectors by key from a table
 * (image_table.h), and a tower of dense layers that learns. Each distinct image of a minibatch goes through the tower
 * once, forward and backward, in order of first occurrence in the rows, so sums over images do not depend on how rows
 * arrive.
 *
 *     hash of a key in a row -> row of the table -> number in the minibatch -> its value, from a source
 *
 * The source is a stack (deep_images.h) of the table, the tower and, over ranks, the owners of images. Prediction
 * caches the tower's outputs for later minibatches, up to a limit; then it clears the cache. A value depends only on
 * its image, so caching changes no bit. A table of tower outputs needs no tower. */
#include "common/deep/deep_images.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Limit of cached values, in bytes, in prediction. */
enum { KEPT_BYTES = 64 << 20 };
/* Limit of what is read ahead of a minibatch. */
enum { AHEAD_BYTES = 256 << 20 };

struct ctr_deep_images {
    const struct ctr_image_table *table;
    struct ctr_image_table *own; /* or NULL: the table is borrowed */
    bool embedded;               /* the table holds values, not the tower's inputs */
    struct ctr_buf number; /* i32, by row of the table: 1 + its number in the minibatch; 0: it is not there, -1: and
                              was announced */
    struct ctr_buf row;    /* u64, by number: keys for the source; a tower alone: f32, its inputs */
    int64_t n;             /* images of the minibatch */
    int64_t then;          /* what its rows see of the table */
    struct ctr_buf seen;   /* bits, by row of the table, over ranks: it was named */
    struct ctr_deep_images_counts counts; /* of minibatches learned from, */
    struct {
        int64_t named, absent;
    } batch;                              /* and of the one that is being added */
    struct ctr_source *source, *embedder; /* of that stack, the tower; NULL: the network is there for its tower */
    struct ctr_mat value;
    struct ctr_mem *grad;
    struct ctr_mem *x, *y; /* of a tower alone */
    bool scaled;           /* --images-scale standard: */
    int mean, scale;       /* parameters */
    struct ctr_buf shift;  /* f32: both, off the device when they were first needed */
    struct ctr_stack tower;
};

/* A minibatch whose four rows name the images a, c, x and a; the table has a in row 0 and c in row 2 of 3, and no x:
 *
 *     add      row of the table      0  2  3  0      3, the row of null, stands for what is not in the table
 *              number                a: 0, c: 1, x: 2; number[] has 1, 0, 2, 3 by row of the table
 *              index of the group    0  1  2  0      as for keys: the group pools rows of `value`
 *              row                   [0 2 3]         the keys that the source is asked for
 *     pull     value                 3 rows: the tower's outputs for a, c and zeros
 *     push     grad                  3 rows: the gradient of a is the sum over both rows that name it
 *     clear    number[0, 2, 3] = 0; in prediction row, number and value stay, and the next minibatch extends them
 *
 * Over ranks each rank has numbers of its own, while rows of the table mean the same on all (same_table). */

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
    if (!d->p.images.file)
        rc = ctr_fail(err, CTR_EUSAGE, "the model learns from images: --images FILE has their vectors");
    if (!rc)
        rc = ctr_image_table_open(&m->own, d->p.images.file, tables, n, err);
    free(tables);
    m->table = m->own;
    return rc;
}

/* Ranks name images by their row of the table, and step together: all have the same rows, and the same way. */
static int same_table(struct ctr_deep *d, struct ctr_err *err)
{
    const struct ctr_image_table *t = d->images->table;
    const int size = ctr_comm_size(d->p.comm);
    char text[256];
    snprintf(text, sizeof text, "%" PRId64 " images of %d numbers, keys %016" PRIx64 ", --images-at %s",
             ctr_image_table_images(t), ctr_image_table_width(t), ctr_image_table_keys(t), d->p.images.at);
    struct ctr_buf *in = NULL;
    int rc = ctr_comm_gather_new(d->p.comm, CTR_COMM_CONTROL, text, strlen(text) + 1, &in, err);
    for (int r = 1; r < size && !rc; r++)
        if (strcmp((const char *)in[r].data, (const char *)in[0].data) != 0) {
            rc = ctr_fail(err, CTR_EUSAGE,
                          "ranks differ: rank 0 has %.200s, rank %d has %.200s: give all of them one file of --images",
                          (const char *)in[0].data, r, (const char *)in[r].data);
            ctr_err_file(err, ctr_image_table_path(t));
        }
    ctr_comm_gather_free(d->p.comm, in);
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
    if (ctr_deep_trains(d) && ctr_image_table_tower(m->table))
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

/* ---- where values come from ---- */

/* Over ranks images have owners: ams, these run the tower; server, they give the vectors of the table; worker: there
 * are none, every rank reads the table for itself. */
static bool is_at(const struct ctr_deep *d, const char *where)
{
    return d->p.comm && d->learns && !strcmp(d->p.images.at, where);
}

static int own(struct ctr_deep *d, struct ctr_source **s, struct ctr_err *err)
{
    static const struct ctr_source_ranks_kinds kinds = { CTR_COMM_IMAGES, CTR_COMM_IMAGE_VECTORS,
                                                         CTR_COMM_IMAGE_GRADIENTS };
    return ctr_source_ranks(s, d->p.comm, *s, 0, &kinds, err);
}

static int make_source(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    struct ctr_source *s = NULL;
    int rc = ctr_deep_vectors_source(&s, d, m->table, err);
    if (!rc && is_at(d, "server"))
        rc = own(d, &s, err);
    if (!rc)
        rc = ctr_deep_tower_source(&s, d, &m->tower, s, m->embedded ? m->table : NULL, err);
    m->embedder = rc ? NULL : s;
    if (!rc && is_at(d, "ams"))
        rc = own(d, &s, err);
    if (rc) /* what is below is gone, too */
        s = m->embedder = NULL;
    m->source = s;
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
    if (!rc && d->p.comm && m->table)
        rc = same_table(d, err);
    m->embedded = !rc && m->table && !ctr_deep_trains(d) && ctr_image_table_tower(m->table);
    const int64_t images = rc || !m->table ? 0 : ctr_image_table_images(m->table);
    const int64_t rows = rc || !m->table ? 1 : ctr_image_table_rows(m->table);
    int32_t *number = rc ? NULL : ctr_buf_extend(&m->number, rows, sizeof *number, &rc, err);
    if (rc)
        return rc;
    memset(number, 0, (size_t)rows * sizeof *number);
    if (m->table && (rc = check_table(d, m, err)))
        return rc;
    const struct ctr_stack_shape shape = { .prefix = "image.",
                                           .hidden = d->p.images.tower,
                                           .in = tower_inputs(d),
                                           .out = d->image_width,
                                           .activation = "prelu" };
    const size_t bits = (size_t)images / 8 + 1;
    unsigned char *seen = d->p.comm ? ctr_buf_extend(&m->seen, (int64_t)bits, 1, &rc, err) : NULL;
    if (seen)
        memset(seen, 0, bits);
    if (!rc)
        rc = ctr_stack_declare(d, &m->tower, &shape, err);
    return rc || !m->table ? rc : make_source(d, err);
}

/* ---- scale ---- */

int ctr_deep_images_declare_running(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    if (!m || strcmp(d->p.images.scale, "standard") != 0)
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

int ctr_deep_images_scale(struct ctr_deep *d, float *v, int64_t n, struct ctr_err *err)
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
    struct ctr_buf *bufs[] = { &m->number, &m->row, &m->seen, &m->shift };
    struct ctr_mem *mems[] = { m->x, m->y, m->grad };
    ctr_source_free(m->source);
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
    int64_t at = ctr_image_table_find_then(m->table, hash, m->then);
    int rc = 0;
    m->batch.named++;
    m->batch.absent += at < 0;
    if (at < 0 && !strcmp(d->p.images.missing, "fail"))
        return ctr_fail(err, CTR_EDATA,
                        "row %" PRId64 ": image #%016" PRIx64 " of column '%.80s' is not in %s (ctr-extract --names "
                        "tells its name): add it (ctr-embed-images --update), or train with --missing-image zero",
                        row + 1, ctr_key_unhash(hash), d->input[input].name, ctr_image_table_path(m->table));
    if (at < 0)
        at = ctr_image_table_images(m->table); /* zeros, or the tower's output for zeros */
    int32_t *of = &AS(int32_t, m->number)[at];
    if (*of <= 0) {
        uint64_t *more = ctr_buf_extend(&m->row, 1, sizeof *more, &rc, err);
        if (rc)
            return rc;
        *more = (uint64_t)at;
        *of = (int32_t)++m->n;
        if (d->p.comm && at < ctr_image_table_images(m->table))
            m->seen.data[at / 8] |= (unsigned char)(1 << at % 8);
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
    d->images->then = ctr_image_table_now(d->images->table);
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

void ctr_deep_images_announce(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n)
{
    struct ctr_deep_images *m = d->images;
    int64_t asked = 0; /* bytes that are read need memory until they are used */
    for (int64_t i = from; i < from + n; i++)
        for (int64_t e = r->start[i]; e < r->start[i + 1] && asked < AHEAD_BYTES; e++) {
            if (!d->input[r->table ? r->table[e] : d->key_input[e - r->start[i]]].image)
                continue;
            const int64_t at = ctr_image_table_find(m->table, r->hash[e]);
            if (at < 0 || AS(int32_t, m->number)[at])
                continue;
            AS(int32_t, m->number)[at] = -1;
            asked += ctr_image_table_announce(m->table, at);
        }
}

int ctr_deep_images_pull(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const struct ctr_want_keys keys = { AS(uint64_t, m->row), m->n };
    const struct ctr_want want = { .tables = 1, .keys = &keys };
    int rc = ctr_source_begin(m->source, &want, 0, err);
    return rc ? rc : ctr_source_values(m->source, 0, &m->value, err);
}

struct ctr_mat ctr_deep_images_value(const struct ctr_deep *d)
{
    return d->images->value;
}

struct ctr_mat ctr_deep_images_grad(const struct ctr_deep *d)
{
    return ctr_mat(d->images->grad, d->images->n, d->image_width);
}

int ctr_deep_images_room(struct ctr_deep *d, struct ctr_err *err)
{
    return ctr_mem_grow(&d->images->grad, d->dev, (size_t)(d->images->n * d->image_width) * sizeof(float), err);
}

int ctr_deep_images_push(struct ctr_deep *d, const struct ctr_dev_opt *opt, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const struct ctr_source_step step = { .opt = *opt, .grad = ctr_deep_images_grad(d) };
    m->counts.asked += m->n;
    m->counts.named += m->batch.named;
    m->counts.absent += m->batch.absent;
    return ctr_source_push(m->source, 0, &step, err);
}

void ctr_deep_images_clear(struct ctr_deep *d)
{
    struct ctr_deep_images *m = d->images;
    m->batch.named = m->batch.absent = 0;
    if (!m->source)
        return;
    if (!ctr_deep_trains(d) && m->value.rows == m->n && m->n * d->image_width < (int64_t)(KEPT_BYTES / sizeof(float)))
        return;
    for (int64_t i = 0; i < m->n; i++)
        AS(int32_t, m->number)[AS(uint64_t, m->row)[i]] = 0;
    ctr_buf_clear(&m->row);
    m->n = 0;
    ctr_source_drop(m->source, 0);
}

/* ---- a tower alone ---- */

int ctr_deep_tower_rows(struct ctr_deep *d, const float *vectors, int64_t n, float *values, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const size_t in = (size_t)(n * d->image_inputs) * sizeof *vectors,
                 out = (size_t)(n * d->image_width) * sizeof *values;
    int rc = ctr_mem_grow(&m->x, d->dev, in, err);
    if (!rc)
        rc = ctr_mem_grow(&m->y, d->dev, out, err);
    ctr_buf_clear(&m->row);
    float *scaled = rc ? NULL : ctr_buf_extend(&m->row, n * d->image_inputs, sizeof *scaled, &rc, err);
    if (!rc) {
        memcpy(scaled, vectors, in);
        rc = ctr_deep_images_scale(d, scaled, n, err);
    }
    if (!rc)
        rc = ctr_mem_write(m->x, 0, scaled, in, err);
    if (!rc)
        rc = ctr_stack_keep(d, &m->tower, 0, n, err);
    if (!rc)
        rc = ctr_stack_forward(d, &m->tower, ctr_mat(m->x, n, d->image_inputs), 0, false,
                               ctr_mat(m->y, n, d->image_width), err);
    return rc ? rc : ctr_mem_read(m->y, 0, values, out, err);
}

/* ---- counts ---- */

void ctr_deep_images_counts(const struct ctr_deep *d, struct ctr_deep_images_counts *counts)
{
    const struct ctr_deep_images *m = d->images;
    *counts = m->counts;
    counts->forwards = m->embedder ? ctr_deep_tower_forwards(m->embedder) : 0;
    if (!counts->named_once) /* the first pass goes on */
        counts->named_once = counts->named;
}

const struct ctr_buf *ctr_deep_images_seen(const struct ctr_deep *d)
{
    return &d->images->seen;
}

void ctr_deep_images_pass(struct ctr_deep *d)
{
    struct ctr_deep_images_counts *c = &d->images->counts;
    if (!c->named_once)
        c->named_once = c->named;
}

void ctr_deep_images_summary(const struct ctr_deep *d, const struct ctr_deep_images_counts *all, struct ctr_say *text)
{
    ctr_say(text,
            "images in the file   %" PRId64 "\n"
            "images named         %" PRId64 "\n"
            "not in the file      %" PRId64 "\n",
            ctr_image_table_images(d->images->table), all->named, all->absent);
}
