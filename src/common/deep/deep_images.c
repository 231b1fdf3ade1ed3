/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of a deep model (Ge et al., "Image Matters", CIKM 2018, sections 4 and 5): vectors of a file by key, which
 * nothing changes, and a tower of dense layers that learns. Each distinct image of a minibatch goes through the tower
 * once, forward and backward, in the order in which rows name them, so that sums over images do not depend on how rows
 * arrive.
 *
 *     hash of a key in a row -> row of the table -> number in the minibatch -> its vector on the device -> tower ->
 * value
 *
 * The table is in memory, and shared by the threads of a prediction. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep_stack.h"
#include "common/stream/stream.h"

struct ctr_image_table {
    struct ctr_sparse place; /* hash -> row */
    struct ctr_buf vector;   /* f32 [images + 1][width]: the last one is 0 */
    int64_t images;
    int32_t width;
    const char *path; /* borrowed */
};

struct ctr_deep_images {
    const struct ctr_image_table *table;
    struct ctr_image_table *own; /* or NULL: it is borrowed */
    struct ctr_buf number;       /* i32, by row of the table: 1 + its number in the minibatch; 0: it is not there */
    struct ctr_buf row;          /* i32, by number */
    struct ctr_buf host;         /* f32 [n x width]: the vectors */
    int64_t n, done;             /* images of the minibatch; those that went through the tower */
    int64_t named, absent;       /* of all rows: entries, and those without a vector */
    struct ctr_mem *x, *value, *grad;
    struct ctr_stack tower;
};

#define AS(type, buf) ((type *)(void *)(buf).data)

/* ---- the table ---- */

static void table_free(struct ctr_image_table *t)
{
    if (!t)
        return;
    ctr_sparse_free(&t->place);
    ctr_buf_free(&t->vector);
    free(t);
}

/* The text that a plan makes keys of. */
static struct ctr_str key_text(const struct ctr_col *c, int64_t i, char number[CTR_NUM_MAX])
{
    if (c->type == CTR_UTF8)
        return ctr_col_str(c, i);
    const size_t n =
        c->type == CTR_U64 ? ctr_fmt_u64(number, (uint64_t)ctr_col_i64(c, i)) : ctr_fmt_i64(number, ctr_col_i64(c, i));
    return (struct ctr_str){ number, n };
}

static int put_place(struct ctr_image_table *t, uint64_t key, int64_t row, bool *duplicate, struct ctr_err *err)
{
    const uint32_t at = (uint32_t)row + 1;
    uint32_t there;
    int rc = ctr_sparse_reserve(&t->place, 1, err);
    if (rc)
        return rc;
    uint8_t *slot = ctr_sparse_get(&t->place, ctr_sparse_hash(key));
    memcpy(&there, slot + 8, sizeof there);
    *duplicate = there && there != at;
    memcpy(slot + 8, &at, sizeof at);
    return 0;
}

/* The keys of row i of the column, of each table that names images. */
static int put_keys(struct ctr_image_table *t, const struct ctr_deep *d, struct ctr_str text, int64_t row,
                    struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->inputs && !rc; i++) {
        bool duplicate = false;
        if (!d->input[i].image)
            continue;
        rc = put_place(t, ctr_feature_key(ctr_table_seed(d->input[i].table), text.p, text.n), row, &duplicate, err);
        if (!rc && duplicate)
            rc = ctr_fail(err, CTR_EDATA, "row %" PRId64 ": a second vector of '%.*s'", row + 1,
                          (int)CTR_MIN(text.n, 80), text.p);
    }
    return rc;
}

static int put_vector(struct ctr_image_table *t, const struct ctr_col *c, int64_t i, struct ctr_str text, int64_t row,
                      struct ctr_err *err)
{
    int64_t at = 0, end = 0;
    int rc = 0;
    const struct ctr_col *items = ctr_col_items(c, t->width, i, &at, &end);
    if (items && !t->width) /* of lists: that of the first */
        t->width = (int32_t)CTR_MIN(end - at, INT32_MAX);
    if (items && (!t->width || end - at != t->width))
        return ctr_fail(err, CTR_EDATA,
                        "row %" PRId64 ": the vector of '%.*s' has %" PRId64 " numbers, those before have %d", row + 1,
                        (int)CTR_MIN(text.n, 80), text.p, end - at, t->width);
    if (!items)
        return ctr_fail(err, CTR_EDATA, "row %" PRId64 ": the vector of '%.*s' is null", row + 1,
                        (int)CTR_MIN(text.n, 80), text.p);
    float *to = ctr_buf_extend(&t->vector, t->width, sizeof *to, &rc, err);
    for (int32_t k = 0; k < t->width && !rc; k++) {
        to[k] = items->type == CTR_F16 ? ctr_f16_to_f32(((const uint16_t *)items->data)[at + k])
                                       : (float)ctr_col_f64(items, at + k);
        if (ctr_col_null(items, at + k) || !(fabsf(to[k]) < INFINITY))
            rc = ctr_fail(err, CTR_EDATA, "row %" PRId64 ": number %d of the vector of '%.*s' is null, NaN or infinite",
                          row + 1, k + 1, (int)CTR_MIN(text.n, 80), text.p);
    }
    return rc;
}

static bool is_key(const struct ctr_field *f)
{
    return f->type == CTR_UTF8 || (f->type >= CTR_I8 && f->type <= CTR_U64);
}

static bool is_vector(const struct ctr_field *f)
{
    return (f->type == CTR_FIXED || f->type == CTR_LIST) && ctr_types[f->item].floating;
}

/* The first column of keys, and the first of vectors. */
static int find_columns(struct ctr_image_table *t, const struct ctr_schema *s, int columns[2], struct ctr_err *err)
{
    columns[0] = columns[1] = 0;
    while (columns[0] < s->n && !is_key(&s->f[columns[0]]))
        columns[0]++;
    while (columns[1] < s->n && !is_vector(&s->f[columns[1]]))
        columns[1]++;
    if (columns[0] == s->n || columns[1] == s->n)
        return ctr_fail(err, CTR_EDATA,
                        "it has no column of keys (text or integers) and one of vectors (lists of floats): "
                        "ctr-embed-images writes such files");
    t->width = s->f[columns[1]].type == CTR_FIXED ? s->f[columns[1]].width : 0;
    return 0;
}

static int read_batch(struct ctr_image_table *t, const struct ctr_deep *d, const struct ctr_batch *b,
                      const int columns[2], struct ctr_err *err)
{
    const struct ctr_col *key = &b->col[columns[0]];
    char number[CTR_NUM_MAX];
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++, t->images++) {
        if (ctr_col_missing(key, i))
            return ctr_fail(err, CTR_EDATA, "row %" PRId64 ": the key is null", t->images + 1);
        if (t->images >= INT32_MAX - 1)
            return ctr_fail(err, CTR_EDATA, "more than 2^31 images");
        const struct ctr_str text = key_text(key, i, number);
        rc = put_vector(t, &b->col[columns[1]], i, text, t->images, err);
        if (!rc)
            rc = put_keys(t, d, text, t->images, err);
    }
    return rc;
}

/* A null is an image of zeros: behind the others. */
static int put_nulls(struct ctr_image_table *t, const struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    bool duplicate;
    float *zero = ctr_buf_extend(&t->vector, t->width, sizeof *zero, &rc, err);
    if (!rc)
        memset(zero, 0, (size_t)t->width * sizeof *zero);
    for (int i = 0; i < d->inputs && !rc; i++)
        if (d->input[i].image)
            rc = put_place(t, ctr_feature_key(ctr_table_seed(d->input[i].table), "(missing)", 9), t->images, &duplicate,
                           err);
    return rc;
}

static int read_table(struct ctr_image_table *t, const struct ctr_deep *d, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)d->p.images };
    const struct ctr_batch *b;
    struct ctr_reader *r = NULL;
    int columns[2], rc = ctr_reader_open(&r, paths, 1, NULL, err);
    if (!rc)
        rc = find_columns(t, ctr_reader_schema(r), columns, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = read_batch(t, d, b, columns, err);
    if (!rc && !t->width)
        rc = ctr_fail(err, CTR_EDATA, "it has no vectors, or vectors of no numbers");
    if (!rc)
        rc = put_nulls(t, d, err);
    if (rc)
        ctr_err_file(err, d->p.images);
    ctr_reader_free(r);
    return rc;
}

bool ctr_image_known(const struct ctr_image_table *t, uint64_t hash)
{
    return ctr_sparse_find(&t->place, hash);
}

const struct ctr_image_table *ctr_deep_images_table(const struct ctr_deep *d)
{
    return d->images ? d->images->table : NULL;
}

/* ---- shape ---- */

static int own_table(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    if (!d->p.images)
        return ctr_fail(err, CTR_EUSAGE, "the model learns from images: --images FILE has their vectors");
    m->own = calloc(1, sizeof *m->own);
    if (!m->own)
        return ctr_fail_nomem(err, sizeof *m->own);
    m->own->path = d->p.images;
    m->table = m->own;
    ctr_sparse_init_dense(&m->own->place, CTR_SPARSE_NUMBERED);
    return read_table(m->own, d, err);
}

int ctr_deep_images_declare(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    struct ctr_deep_images *m = d->images = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->table = d->table;
    if (!m->table)
        rc = own_table(d, err);
    int32_t *number = rc ? NULL : ctr_buf_extend(&m->number, m->table->images + 1, sizeof *number, &rc, err);
    if (rc)
        return rc;
    memset(number, 0, (size_t)(m->table->images + 1) * sizeof *number);
    const struct ctr_stack_shape shape = { .prefix = "image.",
                                           .hidden = d->p.images_tower,
                                           .in = m->table->width,
                                           .out = d->image_width,
                                           .activation = "prelu" };
    return ctr_stack_declare(d, &m->tower, &shape, err);
}

void ctr_deep_images_free(struct ctr_deep *d)
{
    struct ctr_deep_images *m = d->images;
    if (!m)
        return;
    struct ctr_buf *bufs[] = { &m->number, &m->row, &m->host };
    struct ctr_mem *mems[] = { m->x, m->value, m->grad };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_stack_free(&m->tower);
    table_free(m->own);
    free(m);
    d->images = NULL;
}

/* ---- the images of a minibatch ---- */

/* The number of the image of this hash. */
static int number_image(struct ctr_deep *d, uint64_t hash, int input, int64_t row, int32_t *number, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const uint8_t *slot = ctr_sparse_find(&m->table->place, hash);
    int64_t at = m->table->images; /* zeros */
    int rc = 0;
    m->named++;
    m->absent += !slot;
    if (slot)
        at = (int64_t)ctr_sparse_row_number(slot) - 1;
    else if (!strcmp(d->p.missing_image, "fail"))
        return ctr_fail(err, CTR_EDATA,
                        "row %" PRId64 ": an image of column '%.80s' is not in %s: add it (ctr-embed-images --update), "
                        "or train with --missing-image zero",
                        row + 1, d->input[input].name, m->table->path);
    int32_t *of = &AS(int32_t, m->number)[at];
    if (!*of) {
        int32_t *more = ctr_buf_extend(&m->row, 1, sizeof *more, &rc, err);
        float *vector = ctr_buf_extend(&m->host, m->table->width, sizeof *vector, &rc, err);
        if (rc)
            return rc;
        *more = (int32_t)at;
        memcpy(vector, AS(float, m->table->vector) + at * m->table->width, (size_t)m->table->width * sizeof *vector);
        *of = (int32_t)++m->n;
    }
    *number = *of - 1;
    return 0;
}

/* The images of field f of group g in one row. */
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

int ctr_deep_images_pull(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_images *m = d->images;
    const size_t in = (size_t)m->table->width * sizeof(float), out = (size_t)d->image_width * sizeof(float);
    int rc = 0;
    if (!m->done && !ctr_dev_is_host(d->dev)) /* the minibatch before is still learned from */
        rc = ctr_dev_sync(d->dev, err);
    if (!rc)
        rc = ctr_deep_send(d, &m->x, m->host.data, (size_t)m->done * in, (size_t)m->n * in, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    if (!rc)
        rc = ctr_deep_keep(d, &m->value, (size_t)m->done * out, (size_t)m->n * out, err);
    if (!rc)
        rc = ctr_stack_keep(d, &m->tower, m->done, m->n, err);
    const int64_t fresh = m->n - m->done;
    if (!rc && fresh)
        rc = ctr_stack_forward(d, &m->tower, ctr_mat_at(m->x, m->done * m->table->width, fresh, m->table->width),
                               m->done, d->learns,
                               ctr_mat_at(m->value, m->done * d->image_width, fresh, d->image_width), err);
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
    return ctr_stack_backward(d, &m->tower, ctr_mat(m->x, m->n, m->table->width), ctr_deep_images_grad(d),
                              (struct ctr_mat){ 0 }, err);
}

void ctr_deep_images_clear(struct ctr_deep *d)
{
    struct ctr_deep_images *m = d->images;
    for (int64_t i = 0; i < m->n; i++)
        AS(int32_t, m->number)[AS(int32_t, m->row)[i]] = 0;
    ctr_buf_clear(&m->row);
    ctr_buf_clear(&m->host);
    m->n = m->done = 0;
}

int ctr_deep_images_summary(const struct ctr_deep *d, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_deep_images *m = d->images;
    return ctr_buf_printf(text, err,
                          "images in the file   %" PRId64 "\n"
                          "images named         %" PRId64 "\n"
                          "not in the file      %" PRId64 "\n",
                          m->table->images, m->named, m->absent);
}
