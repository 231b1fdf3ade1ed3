/* SPDX-License-Identifier: Apache-2.0
 *
 * dot: scores of pairs from the vectors of their users and ads. Two joins add the vectors to each pair; one operation
 * of the compute table computes the inner products. See retrieval.h. */
#include "tools/ctr-predict/retrieval.h"

#include <math.h>
#include <stdlib.h>

#include "common/compute/compute.h"
#include "common/model/model.h"
#include "common/rows/relation.h"

enum { USER, AD, SIDES };
static const char *const sides[SIDES] = { "user", "ad" };
/* Prefixes of the columns added by the joins; no name in a plan or text can have them. */
static const char *const prefixes[SIDES] = { "\x01user.", "\x01"
                                                          "ad." };

struct dot {
    struct ctr_batch_source below; /* pairs, joined with both sides */
    struct ctr_schema schema;
    int *column; /* of `below`; -1: the score */
    int key[SIDES], vector[SIDES];
    int32_t width;
    float bias;
    const char *name[SIDES];
    struct ctr_dev *dev;
    struct ctr_mem *values[SIDES], *product, *bias_mem;
    struct ctr_buf score, room;
    struct ctr_col *col;
    struct ctr_batch out;
};

static void dot_close(void *source)
{
    struct dot *d = source;
    struct ctr_mem *mems[] = { d->values[USER], d->values[AD], d->product, d->bias_mem };
    ctr_batch_source_close(&d->below);
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_dev_free(d->dev);
    ctr_schema_free(&d->schema);
    ctr_buf_free(&d->score);
    ctr_buf_free(&d->room);
    free(d->column);
    free(d->col);
    free(d);
}

static const struct ctr_schema *dot_schema(const void *source)
{
    return &((const struct dot *)source)->schema;
}

/* ---- rows ---- */

/* Row i has no vector of this side, or one that is not finite. */
static int bad_vector(const struct dot *d, const struct ctr_batch *b, int64_t i, int side, bool there,
                      struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = ctr_col_missing(&b->col[d->key[side]], i) ? ctr_buf_printf(&text, err, "null")
                                                       : ctr_col_text(&b->col[d->key[side]], i, &text, err);
    const long long row = b->first_row + i + 1;
    const char *key = b->schema->f[d->key[side]].name;
    const int shown = (int)CTR_MIN(text.len, 80);
    if (!rc && there)
        rc = ctr_fail(err, CTR_EDATA,
                      "row %lld: a number of the vector that %s has of '%s' %.*s is null or not finite: make it anew "
                      "with ctr-predict --tower %s",
                      row, d->name[side], key, shown, (const char *)text.data, sides[side]);
    else if (!rc)
        rc = ctr_fail(err, CTR_EDATA,
                      "row %lld: %s has no vector of '%s' %.*s: make it with ctr-predict --tower %s, or leave such "
                      "pairs out with ctr-join --inner",
                      row, d->name[side], key, shown, (const char *)text.data, sides[side]);
    ctr_buf_free(&text);
    return rc;
}

/* Copy the vectors of one side, row after row, to the device. */
static int send_vectors(struct dot *d, const struct ctr_batch *b, int side, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[d->vector[side]];
    const size_t bytes = (size_t)d->width * sizeof(float);
    int rc = 0;
    d->room.len = 0;
    float *to = ctr_buf_extend(&d->room, b->rows * d->width, sizeof *to, &rc, err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        int64_t from = 0, end = 0;
        const struct ctr_col *item = ctr_col_items(c, d->width, i, &from, &end);
        if (!item)
            return bad_vector(d, b, i, side, false, err);
        const float *x = (const float *)item->data + from;
        bool finite = true;
        for (int32_t k = 0; k < d->width; k++)
            finite &= !ctr_col_null(item, from + k) && fabsf(x[k]) < INFINITY;
        if (!finite)
            return bad_vector(d, b, i, side, true, err);
        memcpy(to + i * d->width, x, bytes);
    }
    if (!rc)
        rc = ctr_mem_grow(&d->values[side], d->dev, CTR_MAX((size_t)b->rows * bytes, 1), err);
    return rc ? rc : ctr_mem_write(d->values[side], 0, to, (size_t)b->rows * bytes, err);
}

static int score_rows(struct dot *d, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0;
    for (int s = 0; s < SIDES && !rc; s++)
        rc = send_vectors(d, b, s, err);
    d->score.len = d->room.len = 0;
    double *score = ctr_buf_extend(&d->score, b->rows, sizeof *score, &rc, err);
    float *logit = ctr_buf_extend(&d->room, b->rows, sizeof *logit, &rc, err);
    if (!rc)
        rc = ctr_mem_grow(&d->product, d->dev, CTR_MAX((size_t)b->rows * sizeof *logit, 1), err);
    const struct ctr_dev_row_dot dot = { .a = ctr_mat(d->values[USER], b->rows, d->width),
                                         .b = ctr_mat(d->values[AD], b->rows, d->width),
                                         .bias = ctr_vec(d->bias_mem, 1),
                                         .y = ctr_vec(d->product, b->rows) };
    if (!rc)
        rc = ctr_dev_row_dot(d->dev, &dot, err);
    if (!rc)
        rc = ctr_mem_read(d->product, 0, logit, (size_t)b->rows * sizeof *logit, err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        score[i] = ctr_sigmoid((double)logit[i]);
        if (!(fabsf(logit[i]) < INFINITY))
            rc = ctr_fail(err, CTR_EDATA, "row %lld: the product of the vectors is not a number",
                          (long long)(b->first_row + i + 1));
    }
    return rc;
}

static int dot_next(void *source, const struct ctr_batch **out, struct ctr_err *err)
{
    struct dot *d = source;
    const struct ctr_batch *b;
    int rc = ctr_batch_source_next(&d->below, &b, err);
    if (rc <= 0)
        return rc;
    rc = score_rows(d, b, err);
    for (int i = 0; i < d->schema.n && !rc; i++)
        d->col[i] = d->column[i] >= 0 ? b->col[d->column[i]]
                                      : (struct ctr_col){ .type = CTR_F64, .rows = b->rows, .data = d->score.data };
    d->out = (struct ctr_batch){ &d->schema, b->rows, b->first_row, d->col };
    *out = &d->out;
    return rc ? rc : 1;
}

static const struct ctr_batch_source_ops dot_ops = { dot_schema, dot_next, NULL, dot_close, NULL };

/* ---- binding ---- */

/* "a=b,c": split into the parts of each side. */
static int split_keys(const char *keys, struct ctr_buf part[SIDES], struct ctr_err *err)
{
    const char *comma = keys ? strchr(keys, ',') : NULL;
    if (!comma || strchr(comma + 1, ',') || comma == keys || !comma[1])
        return ctr_fail(err, CTR_EUSAGE,
                        "the keys are USER[=COLUMN],AD[=COLUMN]: which columns of the pairs say user and ad, not '%s'",
                        keys ? keys : "");
    int rc = ctr_buf_printf(&part[USER], err, "%.*s", (int)(comma - keys), keys);
    return rc ? rc : ctr_buf_printf(&part[AD], err, "%s", comma + 1);
}

/* Have the pairs the column of a key? Behind the joins they have more columns, which are not theirs. */
static int check_key(const char *key, const struct ctr_schema *pairs, struct ctr_err *err)
{
    char *name = strndup(key, strcspn(key, "="));
    if (!name)
        return ctr_fail_nomem(err, strlen(key));
    int rc = CTR_MIN(ctr_schema_need(pairs, name, err), 0);
    free(name);
    return rc;
}

/* Join the pairs with the vectors of a side. */
static int join_side(struct dot *d, struct ctr_batch_source *pairs, struct ctr_batch_source *right, int side,
                     const char *key, const struct ctr_dot_opts *o, struct ctr_vectors *v, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(right);
    struct ctr_join *j = NULL;
    int rc = ctr_vectors_find(v, s, sides[side], d->name[side], err);
    if (rc)
        return rc;
    char *column;
    if ((rc = ctr_strdup(&column, s->f[v->column].name, err)))
        return rc;
    const struct ctr_join_opts jo = { .keys = key,
                                      .prefix = prefixes[side],
                                      .columns = column,
                                      .within_ms = -1,
                                      .memory_bytes = o->memory_bytes,
                                      .threads = o->threads };
    rc = ctr_join_new(&j, ctr_batch_source_schema(pairs), right, d->name[side], &jo, err);
    if (!rc && (rc = ctr_join_source(pairs, j, err)))
        ctr_join_free(j);
    free(column);
    return rc;
}

static int find_columns(struct dot *d, struct ctr_buf key[SIDES], const struct ctr_schema *s, struct ctr_err *err)
{
    for (int side = 0; side < SIDES; side++) {
        char *name = (char *)key[side].data, *equals = strchr(name, '=');
        if (equals)
            *equals = 0;
        d->key[side] = ctr_schema_need(s, name, err);
        if (d->key[side] < 0)
            return d->key[side];
        for (int i = 0; i < s->n; i++)
            if (!strncmp(s->f[i].name, prefixes[side], strlen(prefixes[side])))
                d->vector[side] = i;
    }
    return 0;
}

/* The columns of the pairs, and the score. */
static int make_schema(struct dot *d, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_scored_schema(s, NULL, 1, &d->schema, &d->column, err), kept = 0;
    for (int i = 0; i < d->schema.n && !rc; i++) {
        if (d->column[i] == d->vector[USER] || d->column[i] == d->vector[AD]) {
            free(d->schema.f[i].name);
            ctr_meta_free(&d->schema.f[i].meta);
            continue;
        }
        d->schema.f[kept] = d->schema.f[i];
        d->column[kept++] = d->column[i];
    }
    if (!rc)
        d->schema.n = kept;
    if (!rc && !(d->col = calloc((size_t)kept + 1, sizeof *d->col)))
        rc = ctr_fail_nomem(err, (size_t)kept * sizeof *d->col);
    return rc;
}

static int open_device(struct dot *d, int threads, struct ctr_err *err)
{
    int rc = ctr_dev_open(&d->dev, &(struct ctr_dev_want){ .threads = CTR_MAX(threads, 1) }, err);
    if (!rc)
        rc = ctr_mem_new(&d->bias_mem, d->dev, sizeof d->bias, err);
    return rc ? rc : ctr_mem_write(d->bias_mem, 0, &d->bias, sizeof d->bias, err);
}

int ctr_dot_source(struct ctr_batch_source *pairs, struct ctr_batch_source *users, struct ctr_batch_source *ads,
                   const struct ctr_dot_opts *o, struct ctr_err *err)
{
    struct dot *d = calloc(1, sizeof *d);
    struct ctr_buf key[SIDES] = { 0 };
    struct ctr_vectors v[SIDES];
    int rc = d ? split_keys(o->keys, key, err) : ctr_fail_nomem(err, sizeof *d);
    for (int side = 0; side < SIDES && !rc; side++)
        rc = check_key((const char *)key[side].data, ctr_batch_source_schema(pairs), err);
    if (!rc) {
        d->name[USER] = o->users;
        d->name[AD] = o->ads;
        rc = join_side(d, pairs, users, USER, (const char *)key[USER].data, o, &v[USER], err);
    }
    if (!rc)
        rc = join_side(d, pairs, ads, AD, (const char *)key[AD].data, o, &v[AD], err);
    if (!rc)
        rc = ctr_vectors_fit(&v[USER], &v[AD], err);
    if (d) {
        d->below = *pairs;
        pairs->ops = NULL;
    }
    if (!rc) {
        d->width = v[USER].width;
        d->bias = v[USER].bias;
        rc = find_columns(d, key, ctr_batch_source_schema(&d->below), err);
    }
    if (!rc)
        rc = make_schema(d, ctr_batch_source_schema(&d->below), err);
    if (!rc)
        rc = open_device(d, o->threads, err);
    ctr_buf_free(&key[USER]);
    ctr_buf_free(&key[AD]);
    ctr_batch_source_close(users);
    ctr_batch_source_close(ads);
    if (rc) {
        if (d)
            dot_close(d);
        return rc;
    }
    *pairs = (struct ctr_batch_source){ &dot_ops, d };
    return 0;
}
