/* SPDX-License-Identifier: Apache-2.0
 *
 * weights: see weights.h. Invariant: every table has an empty place, so that every search ends. */
#include "common/table/weights.h"

#include <stdlib.h>

static const uint64_t none[2 * CTR_BUCKET_WORDS];

void ctr_weights_free(struct ctr_weight_tables *w)
{
    ctr_area_free(&w->area);
    free(w->heat);
    free(w->t);
    *w = (struct ctr_weight_tables){ .rates = w->rates };
}

int ctr_weights_tables(struct ctr_weight_tables *w, int n, struct ctr_err *err)
{
    if (n <= w->n)
        return 0;
    struct ctr_weights *t = realloc(w->t, (size_t)n * sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, (size_t)n * sizeof *t);
    w->t = t;
    for (; w->n < n; w->n++)
        t[w->n] = (struct ctr_weights){ .bucket = none, .buckets = 1 };
    return 0;
}

int ctr_weights_make(struct ctr_weight_tables *w, struct ctr_err *err)
{
    const uint64_t places = (uint64_t)ctr_weights_places(w->rates);
    uint64_t buckets = 0;
    for (int i = 0; i < w->n; i++)
        if (w->t[i].room) {
            w->t[i].buckets = w->t[i].room * 4 / (places * 3) + 1; /* three quarters full */
            buckets += w->t[i].buckets + 1;
        }
    int rc = buckets ? ctr_area_grow(&w->area, buckets * CTR_BUCKET_WORDS * sizeof(uint64_t), err) : 0;
    if (!rc && buckets && !(w->heat = calloc(buckets, places)))
        rc = ctr_fail_nomem(err, buckets * places);
    const uint64_t *at = (const uint64_t *)(void *)w->area.base;
    for (int i = 0; i < w->n && !rc; i++)
        if (w->t[i].room) {
            w->t[i].bucket = at;
            at += (w->t[i].buckets + 1) * CTR_BUCKET_WORDS;
        }
    return rc;
}

static const uint64_t *end_of(const struct ctr_weights *t)
{
    return t->bucket + t->buckets * CTR_BUCKET_WORDS;
}

static const uint64_t *after(const struct ctr_weights *t, const uint64_t *b)
{
    return b + CTR_BUCKET_WORDS == end_of(t) ? t->bucket : b + CTR_BUCKET_WORDS;
}

const uint64_t *ctr_weights_far(const struct ctr_weights *t, const uint64_t *b, uint64_t h, bool rates, int *place)
{
    const int places = ctr_weights_places(rates);
    *place = 0;
    if (!h)
        return t->has_zero ? end_of(t) : NULL;
    while (b[places - 1]) {
        b = after(t, b);
        for (*place = 0; *place < places; ++*place)
            if (b[*place] == h)
                return b;
    }
    return NULL;
}

struct row {
    uint64_t hash;
    double weight;
    float rate;
    uint8_t heat;
};

static uint8_t *heat_at(const struct ctr_weight_tables *w, const uint64_t *bucket)
{
    const uint64_t number = (uint64_t)(bucket - (const uint64_t *)(void *)w->area.base) / CTR_BUCKET_WORDS;
    return w->heat + number * (uint64_t)ctr_weights_places(w->rates);
}

static void write_row(const struct ctr_weight_tables *w, const uint64_t *bucket, int place, const struct row *row)
{
    uint64_t *b = (uint64_t *)(uintptr_t)bucket;
    b[place] = row->hash;
    ((double *)(void *)b)[ctr_weights_places(w->rates) + place] = row->weight;
    if (w->rates)
        ((float *)(void *)(b + 6))[place] = row->rate;
    heat_at(w, bucket)[place] = row->heat;
}

static struct row read_row(const struct ctr_weight_tables *w, const uint64_t *b, int place)
{
    return (struct row){ b[place], ctr_weights_weight(b, place, w->rates),
                         w->rates ? (float)ctr_weights_rate(b, place) : 0, heat_at(w, b)[place] };
}

/* Insert a new key so that it can be found from its home. It replaces a less frequent key, which moves to where it
 * would be if inserted last. */
static void add_row(const struct ctr_weight_tables *w, const struct ctr_weights *t, struct row row)
{
    const int places = ctr_weights_places(w->rates);
    for (const uint64_t *b = ctr_weights_home(t, row.hash);; b = after(t, b))
        for (int i = 0; i < places; i++) {
            if (!b[i]) {
                write_row(w, b, i, &row);
                return;
            }
            if (heat_at(w, b)[i] < row.heat) {
                const struct row old = read_row(w, b, i);
                write_row(w, b, i, &row);
                row = old;
            }
        }
}

void ctr_weights_ahead(const struct ctr_weight_tables *w, int table, uint64_t h)
{
    const uint64_t *home = ctr_weights_home(&w->t[table], h);
    if (!w->t[table].room)
        return;
    __builtin_prefetch(home, 1);
    __builtin_prefetch(heat_at(w, home), 1);
}

int ctr_weights_put(struct ctr_weight_tables *w, int table, uint64_t h, double weight, float rate, uint8_t heat,
                    struct ctr_err *err)
{
    struct ctr_weights *t = &w->t[table];
    const struct row row = { h, weight, rate, heat };
    int place;
    const uint64_t *b = ctr_weights_find(t, ctr_weights_home(t, h), h, w->rates, &place);
    if (!b && t->keys == t->room)
        return ctr_fail(err, CTR_EDATA, "the model changed while it was read");
    t->keys += !b;
    t->has_zero |= !h;
    if (!b && h)
        add_row(w, t, row);
    else
        write_row(w, h ? b : end_of(t), place, &row);
    return 0;
}

void ctr_weights_made(struct ctr_weight_tables *w)
{
    free(w->heat);
    w->heat = NULL;
}
