/* SPDX-License-Identifier: Apache-2.0
 *
 * image_embed: the pipeline: reads and decodes the images of one minibatch while the network processes another.
 * Invariant: from ctr_background_run until ctr_background_wait a slot belongs to the thread that fills it, then to the
 * caller. */
#include "tools/ctr-embed-images/embed.h"

#include <math.h>
#include <stdlib.h>

struct item {
    char *key, *name;
    struct ctr_buf bytes;
    int rc;
    struct ctr_err err;
};

struct slot {
    struct item item[CTR_TOWER_IMAGES];
    int n;
    float *pixels; /* those of item i at index i */
    bool end;
    int rc;
    struct ctr_err err;
};

struct ctr_embedder {
    struct ctr_embedder_opts opts;
    struct ctr_pool *pool;
    struct ctr_background *background;
    struct slot slot[2];
    int filling; /* the slot being filled, or -1 */
    struct ctr_strs seen;
    int64_t image; /* floats per image */
    float *vectors;
    const char *keys[CTR_TOWER_IMAGES];
    struct ctr_bad_image bad[CTR_TOWER_IMAGES];
    struct ctr_embedded out;
};

/* ---- one slot: read in order, decoded by all threads ---- */

static void clear_slot(struct slot *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->item[i].key);
        free(s->item[i].name);
        s->item[i].key = s->item[i].name = NULL;
    }
    s->n = 0;
}

/* Add an item and its bytes to the slot. */
static int keep(struct ctr_embedder *e, struct slot *s, const struct ctr_image_item *from, struct ctr_err *err)
{
    struct item *i = &s->item[s->n];
    if (ctr_strs_find(&e->seen, from->key) >= 0)
        return ctr_fail(err, CTR_EDATA, "%s: the key %s came before: a table of images has one vector a key",
                        from->name, from->key);
    int rc = ctr_strs_add(&e->seen, from->key, strlen(from->key), err);
    if (!rc)
        rc = ctr_strdup(&i->key, from->key, err);
    if (!rc)
        rc = ctr_strdup(&i->name, from->name, err);
    s->n++;
    ctr_buf_clear(&i->bytes);
    i->rc = 0;
    if (!rc && from->bytes)
        rc = ctr_buf_append(&i->bytes, from->bytes, from->n, err);
    else if (!rc)
        i->rc = ctr_fail(&i->err, CTR_EDATA, "%s", from->why);
    return rc;
}

static void decode_item(void *ctx, int64_t task, int worker)
{
    struct ctr_embedder *e = ((void **)ctx)[0];
    struct slot *s = ((void **)ctx)[1];
    struct item *i = &s->item[task];
    struct ctr_image image;

    (void)worker;
    if (i->rc)
        return;
    i->err = (struct ctr_err){ 0 };
    i->rc = ctr_image_decode(&image, i->bytes.data ? i->bytes.data : (const uint8_t *)"", i->bytes.len,
                             e->opts.max_pixels, &i->err);
    if (!i->rc)
        i->rc = ctr_image_prepare(&image, ctr_tower_side(e->opts.tower), e->opts.preprocess,
                                  s->pixels + task * e->image, &i->err);
    ctr_image_free(&image);
}

static void fill(struct ctr_embedder *e, struct slot *s)
{
    struct ctr_image_item item;
    void *ctx[] = { e, s };

    s->rc = 0;
    s->err = (struct ctr_err){ 0 };
    while (!s->rc && s->n < CTR_TOWER_IMAGES) {
        int rc = ctr_image_source_next(e->opts.source, &item, &s->err);
        s->end = !rc;
        if (rc <= 0) {
            s->rc = rc;
            break;
        }
        if (!e->opts.known || ctr_strs_find(e->opts.known, item.key) < 0)
            s->rc = keep(e, s, &item, &s->err);
    }
    if (!s->rc)
        ctr_pool_run(e->pool, s->n, decode_item, ctx);
}

static void fill_next(void *ctx)
{
    struct ctr_embedder *e = ctx;
    fill(e, &e->slot[e->filling]);
}

static void start(struct ctr_embedder *e, int slot)
{
    clear_slot(&e->slot[slot]);
    e->filling = slot;
    if (e->background)
        ctr_background_run(e->background, fill_next, e);
    else
        fill_next(e);
}

static struct slot *finished(struct ctr_embedder *e)
{
    struct slot *s = &e->slot[e->filling];
    if (e->background)
        while (!ctr_background_wait(e->background, -1))
            ;
    e->filling = -1;
    return s;
}

/* ---- minibatches ---- */

int ctr_embedder_open(struct ctr_embedder **out, const struct ctr_embedder_opts *opts, struct ctr_err *err)
{
    struct ctr_embedder *e = calloc(1, sizeof *e);
    const int64_t side = ctr_tower_side(opts->tower);
    *out = NULL;
    if (!e)
        return ctr_fail_nomem(err, sizeof *e);
    e->opts = *opts;
    e->filling = -1;
    e->image = side * side * 3;
    const size_t pixels = (size_t)(e->image * CTR_TOWER_IMAGES) * sizeof(float);
    const size_t vectors = (size_t)(ctr_tower_width(opts->tower) * CTR_TOWER_IMAGES) * sizeof(float);
    e->slot[0].pixels = malloc(pixels);
    e->slot[1].pixels = malloc(pixels);
    e->vectors = malloc(vectors);
    int rc = e->slot[0].pixels && e->slot[1].pixels && e->vectors ? 0 : ctr_fail_nomem(err, 2 * pixels + vectors);
    if (!rc)
        rc = ctr_pool_new(&e->pool, CTR_MAX(opts->threads, 1), CTR_FLOAT_IEEE, err);
    if (rc) {
        ctr_embedder_free(e);
        return rc;
    }
    e->background = ctr_background_new();
    *out = e;
    return 0;
}

/* Move the good images together, and collect the errors of the others. */
static int sort_out(struct ctr_embedder *e, struct slot *s, struct ctr_err *err)
{
    e->out = (struct ctr_embedded){ .key = e->keys, .vector = e->vectors, .bad = e->bad };
    for (int i = 0; i < s->n; i++) {
        struct item *item = &s->item[i];
        if (item->rc && (item->rc != CTR_EDATA || !e->opts.skip_bad)) {
            *err = item->err;
            ctr_err_file(err, item->name);
            return item->rc;
        }
        if (item->rc) {
            e->bad[e->out.n_bad++] = (struct ctr_bad_image){ item->name, item->err.what };
            continue;
        }
        if (e->out.n != i)
            memcpy(s->pixels + e->out.n * e->image, s->pixels + i * e->image, (size_t)e->image * sizeof *s->pixels);
        e->keys[e->out.n++] = item->key;
    }
    return 0;
}

/* Weights are finite, but their sums can overflow. */
static int check_vectors(const struct ctr_embedder *e, struct ctr_err *err)
{
    const int64_t width = ctr_tower_width(e->opts.tower);
    for (int64_t i = 0; i < e->out.n * width; i++)
        if (!isfinite(e->vectors[i]))
            return ctr_fail(err, CTR_EDATA, "the vector of %s is not finite: the weights are too large",
                            e->keys[i / width]);
    return 0;
}

int ctr_embedder_next(struct ctr_embedder *e, const struct ctr_embedded **out, struct ctr_err *err)
{
    if (e->filling < 0 && e->slot[0].end)
        return 0;
    if (e->filling < 0)
        start(e, 0);
    const int at = e->filling;
    struct slot *s = finished(e);
    const bool end = s->end;
    if (s->rc) {
        *err = s->err;
        return s->rc;
    }
    if (end)
        e->slot[0].end = true;
    else
        start(e, 1 - at);
    int rc = sort_out(e, s, err);
    if (!rc && e->out.n)
        rc = ctr_tower_forward(e->opts.tower, s->pixels, e->out.n, e->vectors, err);
    if (!rc)
        rc = check_vectors(e, err);
    *out = &e->out;
    return rc ? rc : e->out.n || e->out.n_bad || !end;
}

void ctr_embedder_free(struct ctr_embedder *e)
{
    if (!e)
        return;
    if (e->filling >= 0)
        finished(e);
    ctr_background_free(e->background);
    ctr_pool_free(e->pool);
    for (int i = 0; i < 2; i++) {
        clear_slot(&e->slot[i]);
        free(e->slot[i].pixels);
        for (int k = 0; k < CTR_TOWER_IMAGES; k++)
            ctr_buf_free(&e->slot[i].item[k].bytes);
    }
    free(e->vectors);
    ctr_strs_free(&e->seen);
    free(e);
}
