/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of images, and what a tower makes of them, as sources. See deep_images.h. */
#include <stdlib.h>

#include "common/deep/deep_images.h"

/* ---- vectors of a table ---- */

struct vectors {
    struct ctr_source base;
    struct ctr_deep *d; /* whose pinned memory brings them to the device */
    const struct ctr_image_table *table;
    struct ctr_buf host; /* f32, of the minibatch, on its way to a device with memory of its own */
    struct ctr_mem *x;
};

/* Vectors that are read from disk while others are copied, at most so many bytes: before a block was verified, all of
 * it. */
enum { AHEAD = 64, AHEAD_BYTES = 64 << 20 };

static int fetch(struct vectors *v, int64_t row, float *to, struct ctr_err *err)
{
    int rc = ctr_image_table_fetch(v->table, row, to, err);
    return rc || row == ctr_image_table_images(v->table) ? rc : ctr_deep_images_scale(v->d, to, 1, err);
}

static int vectors_values(struct ctr_source *source, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct vectors *v = (struct vectors *)source;
    const struct ctr_source_batch *b = &source->batch[buffer];
    const size_t row = (size_t)source->width * sizeof(float);
    const bool host = ctr_dev_is_host(source->dev);
    float *to = NULL;
    int rc = ctr_image_table_unchanged(v->table, err);
    if (!rc && !b->here && !host) /* the minibatch before is still learned from */
        rc = ctr_dev_sync(source->dev, err);
    if (!b->here)
        ctr_buf_clear(&v->host);
    if (!rc && host)
        rc = ctr_mem_keep(&v->x, source->dev, (size_t)b->here * row, (size_t)b->n * row, err);
    else if (!rc)
        to = ctr_buf_extend(&v->host, (b->n - b->here) * source->width, sizeof *to, &rc, err);
    if (!rc && host && b->n)
        to = (float *)ctr_mem_host(v->x) + b->here * source->width;
    int64_t asked = 0;
    for (int64_t i = b->here, ahead = i; i < b->n && !rc; i++, to += source->width) {
        for (; ahead < b->n && ahead <= i + AHEAD && asked < AHEAD_BYTES; ahead++)
            asked += ctr_image_table_announce(v->table, (int64_t)b->table->hash[ahead]);
        rc = fetch(v, (int64_t)b->table->hash[i], to, err);
        if (ahead > i)
            asked -= asked / (ahead - i);
        else
            ahead = i + 1;
    }
    if (!rc && !host)
        rc = ctr_deep_send(v->d, &v->x, v->host.data, (size_t)b->here * row, (size_t)b->n * row, err);
    if (!rc && !host)
        rc = ctr_deep_sent(v->d, err);
    *values = ctr_mat(v->x, b->n, source->width);
    return rc;
}

static int64_t vectors_rows(const struct ctr_source *source, int table)
{
    (void)table;
    return ctr_image_table_images(((const struct vectors *)source)->table);
}

static void vectors_free(struct ctr_source *source)
{
    struct vectors *v = (struct vectors *)source;
    ctr_buf_free(&v->host);
    ctr_mem_free(v->x);
    free(v);
}

static const struct ctr_source_ops vectors_ops = {
    .name = "vectors", .one_at_a_time = true, .values = vectors_values, .rows = vectors_rows, .free = vectors_free
};

int ctr_deep_vectors_source(struct ctr_source **s, struct ctr_deep *d, const struct ctr_image_table *table,
                            struct ctr_err *err)
{
    const int32_t width = ctr_image_table_width(table);
    struct vectors *v = calloc(1, sizeof *v);
    if (!v)
        return ctr_fail_nomem(err, sizeof *v);
    *v = (struct vectors){ .base = { .ops = &vectors_ops, .dev = d->dev, .width = width, .floats = width },
                           .d = d,
                           .table = table };
    *s = &v->base;
    return 0;
}

/* ---- a tower over them ---- */

struct tower {
    struct ctr_source base;
    struct ctr_deep *d;
    struct ctr_stack *stack;
    struct ctr_source *below;
    const struct ctr_image_table *values_of; /* or NULL */
    struct ctr_mat x;                        /* of the minibatch so far, as below gave them */
    struct ctr_mem *value, *zeros;           /* zeros: a vector that the stack takes */
    int64_t forwards;
};

/* Prediction asks below for what is new alone: a value is all that it keeps of a vector. */
static int tower_begin(struct ctr_source *source, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    const struct tower *t = (const struct tower *)source;
    const int64_t old = ctr_deep_trains(t->d) ? 0 : source->batch[buffer].here;
    const struct ctr_want_keys keys = { want->keys->hash + old, want->keys->n - old };
    const struct ctr_want theirs = { .tables = 1, .keys = &keys, .make = want->make, .pool = want->pool };
    return ctr_source_begin(t->below, &theirs, buffer, err);
}

/* A value of the null image: what the stack makes of zeros. */
static int forward_zeros(struct tower *t, struct ctr_mat value, struct ctr_err *err)
{
    const size_t bytes = (size_t)t->stack->shape.in * sizeof(float);
    float *zeros = calloc(1, CTR_MAX(bytes, 1));
    int rc = zeros ? ctr_mem_grow(&t->zeros, t->base.dev, bytes, err) : ctr_fail_nomem(err, bytes);
    if (!rc)
        rc = ctr_mem_write(t->zeros, 0, zeros, bytes, err);
    free(zeros);
    if (!rc)
        rc = ctr_stack_keep(t->d, t->stack, 0, 1, err);
    return rc ? rc : ctr_stack_forward(t->d, t->stack, ctr_mat(t->zeros, 1, t->stack->shape.in), 0, false, value, err);
}

/* Values of a table that has them. key[]: of the n rows. */
static int pass_on(struct tower *t, const uint64_t *key, struct ctr_mat x, struct ctr_mat value, struct ctr_err *err)
{
    const uint64_t null = (uint64_t)ctr_image_table_images(t->values_of);
    int rc = ctr_dev_copy(t->base.dev, &(struct ctr_dev_copy){ x, value }, err);
    for (int64_t i = 0; i < x.rows && !rc; i++)
        if (key[i] == null)
            rc = forward_zeros(t, ctr_mat_rows(value, i, 1), err);
    return rc;
}

static int tower_values(struct ctr_source *source, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct tower *t = (struct tower *)source;
    const struct ctr_source_batch *b = &source->batch[buffer];
    const size_t row = (size_t)source->width * sizeof(float);
    const int64_t here = b->here, fresh = b->n - here;
    int rc = ctr_source_values(t->below, buffer, &t->x, err);
    if (!rc)
        rc = ctr_deep_keep(t->d, &t->value, (size_t)here * row, (size_t)b->n * row, err);
    *values = ctr_mat(t->value, b->n, source->width);
    if (!rc && fresh) {
        const int64_t from = ctr_deep_trains(t->d) ? here : 0; /* backward reads what was before */
        const struct ctr_mat x = ctr_mat_rows(t->x, from, fresh), value = ctr_mat_rows(*values, here, fresh);
        if (t->values_of)
            rc = pass_on(t, b->table->hash + here, x, value, err);
        else if (!(rc = ctr_stack_keep(t->d, t->stack, from, from + fresh, err)))
            rc = ctr_stack_forward(t->d, t->stack, x, from, ctr_deep_trains(t->d), value, err);
    }
    if (!ctr_deep_trains(t->d))
        ctr_source_drop(t->below, buffer);
    return rc;
}

/* No images: no gradients. */
static int clear_gradients(struct tower *t, struct ctr_err *err)
{
    struct ctr_deep *d = t->d;
    int rc = 0;
    for (int i = 0; i < d->params && !rc; i++) {
        const struct ctr_deep_param *p = &d->param[i];
        const size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
        if (p->state || strncmp(p->name, t->stack->shape.prefix, strlen(t->stack->shape.prefix)) != 0)
            continue;
        float *zeros = calloc(1, CTR_MAX(bytes, 1));
        rc = zeros ? ctr_mem_write(d->g, (size_t)p->at * sizeof *zeros, zeros, bytes, err) : ctr_fail_nomem(err, bytes);
        free(zeros);
    }
    return rc;
}

static int tower_push(struct ctr_source *source, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    struct tower *t = (struct tower *)source;
    const int64_t n = source->batch[buffer].n;
    t->forwards += n;
    return n ? ctr_stack_backward(t->d, t->stack, ctr_mat_rows(t->x, 0, n), ctr_mat_rows(step->grad, 0, n),
                                  (struct ctr_mat){ 0 }, err)
             : clear_gradients(t, err);
}

static void tower_drop(struct ctr_source *source, int buffer)
{
    ctr_source_drop(((struct tower *)source)->below, buffer);
}

static int64_t tower_rows(const struct ctr_source *source, int table)
{
    return ctr_source_rows(((const struct tower *)source)->below, table);
}

static void tower_free(struct ctr_source *source)
{
    struct tower *t = (struct tower *)source;
    ctr_source_free(t->below);
    ctr_mem_free(t->value);
    ctr_mem_free(t->zeros);
    free(t);
}

static const struct ctr_source_ops tower_ops = { .name = "tower",
                                                 .one_at_a_time = true,
                                                 .begin = tower_begin,
                                                 .values = tower_values,
                                                 .push = tower_push,
                                                 .drop = tower_drop,
                                                 .rows = tower_rows,
                                                 .free = tower_free };

int ctr_deep_tower_source(struct ctr_source **s, struct ctr_deep *d, struct ctr_stack *tower, struct ctr_source *below,
                          const struct ctr_image_table *values_of, struct ctr_err *err)
{
    struct tower *t = calloc(1, sizeof *t);
    if (!t) {
        ctr_source_free(below);
        return ctr_fail_nomem(err, sizeof *t);
    }
    *t =
        (struct tower){ .base = { .ops = &tower_ops, .dev = d->dev, .width = d->image_width, .floats = d->image_width },
                        .d = d,
                        .stack = tower,
                        .below = below,
                        .values_of = values_of };
    *s = &t->base;
    return 0;
}

int64_t ctr_deep_tower_forwards(const struct ctr_source *tower)
{
    return ((const struct tower *)tower)->forwards;
}
