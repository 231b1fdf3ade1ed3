/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_order: one request: values, exploration, order and propensities. The plain version is tests/rank_reference.py.
 *
 * Candidates are sorted by (value, id, row) in references of 16 bytes: values are numbers in memory, some thousands at
 * most, so ctr_sort with its rows and runs is no match here. What is random is a hash of seed, request and id. */
#include "common/rows/rank_impl.h"

#include <stdlib.h>

struct item {
    uint64_t key;
    int64_t i; /* of the candidates */
};

struct by {
    const struct ctr_rank_candidate *c;
    const struct ctr_col *id;
};

static int by_id(const struct by *by, int64_t i, int64_t j)
{
    const int64_t a = by->c[i].row, b = by->c[j].row;
    const int ids = by->id ? ctr_col_compare(by->id, a, by->id, b) : 0;
    return ids ? ids : (a > b) - (a < b);
}

static int descending(const void *x, const void *y, void *ctx)
{
    const struct item *a = x, *b = y;
    return a->key != b->key ? (a->key < b->key ? 1 : -1) : by_id(ctx, a->i, b->i);
}

static int ascending(const void *x, const void *y, void *ctx)
{
    const struct item *a = x, *b = y;
    const struct ctr_rank_candidate *c = ctx; /* of equal draws the better one comes first */
    return a->key != b->key ? (a->key > b->key ? 1 : -1)
                            : (c[a->i].greedy > c[b->i].greedy) - (c[a->i].greedy < c[b->i].greedy);
}

/* ---- values ---- */

/* Candidates of one id, among them those of none, differ by their order: else they would always move together. */
static void draw(struct ctr_rank_order *o, const struct ctr_col *id, uint64_t request)
{
    struct item *item = (struct item *)(void *)o->item.data;
    struct ctr_rank_candidate *c = o->c;
    struct by rows = { c, NULL };
    uint64_t same = 0;

    for (int64_t i = 0; i < o->n; i++) {
        c[i].draw = id ? ctr_col_hash(id, c[i].row, request) : ctr_mix64(request ^ ctr_mix64((uint64_t)i + 1));
        item[i] = (struct item){ c[i].draw, i };
    }
    if (!id) /* they differ by their order alone */
        return;
    qsort_r(item, (size_t)o->n, sizeof *item, descending, &rows);
    for (int64_t k = 1; k < o->n; k++) {
        same = item[k].key == item[k - 1].key ? same + 1 : 0;
        if (same)
            c[item[k].i].draw = ctr_mix64(item[k].key + same);
    }
}

static void set_values(const struct ctr_rank_how *how, struct ctr_rank_candidate *c, int64_t n, uint64_t request)
{
    for (int64_t i = 0; i < n; i++) {
        if (how->explore == CTR_EXPLORE_THOMPSON)
            c[i].explored = ctr_rank_explored(c[i].score, c[i].uncertainty * ctr_normal_draw(request, c[i].draw));
        if (how->made)
            continue;
        c[i].value = (how->bids ? c[i].bid * c[i].explored : c[i].explored) + 0.0;
        c[i].key = ctr_rank_key(c[i].value);
    }
}

/* ---- order ---- */

static int make_room(struct ctr_rank_order *o, int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_room(&o->item, n, sizeof(struct item), err);
    if (!rc)
        rc = ctr_buf_room(&o->places, n, sizeof *o->place, err);
    if (!rc)
        rc = ctr_buf_room(&o->chances, n, sizeof *o->propensity, err);
    o->place = (int64_t *)(void *)o->places.data;
    o->propensity = (double *)(void *)o->chances.data;
    return rc;
}

/* Sort those above the floor; `greedy` becomes their place, of the others -1. */
static void sort_values(struct ctr_rank_order *o, const struct ctr_rank_how *how, const struct ctr_col *id)
{
    struct item *item = (struct item *)(void *)o->item.data;
    struct by by = { o->c, id };

    o->above = 0;
    for (int64_t i = 0; i < o->n; i++) {
        o->c[i].greedy = -1;
        if (!how->floors || !(o->c[i].value < o->c[i].floor))
            item[o->above++] = (struct item){ o->c[i].key, i };
    }
    qsort_r(item, (size_t)o->above, sizeof *item, descending, &by);
    for (int64_t k = 0; k < o->above; k++)
        o->c[item[k].i].greedy = k;
}

/* A random order in place of the sorted one. */
static void shuffle(struct ctr_rank_order *o, uint64_t request)
{
    struct item *item = (struct item *)(void *)o->item.data;

    for (int64_t k = 0; k < o->above; k++)
        item[k].key = ctr_random64(request, o->c[item[k].i].draw, 1);
    qsort_r(item, (size_t)o->above, sizeof *item, ascending, o->c);
}

/* ---- propensities ---- */

/* Thompson sampling looks at all candidates, as those below the floor might have been above. They are put into the
 * order of ties. */
static int thompson(struct ctr_rank_order *o, const struct ctr_rank_how *how, const struct ctr_col *id,
                    struct ctr_err *err)
{
    struct ctr_buf ordered = { 0 }, room = { 0 };
    struct item *item = (struct item *)(void *)o->item.data;
    struct by by = { o->c, id };
    int rc = ctr_buf_room(&ordered, o->n, sizeof *o->c, err);
    struct ctr_rank_candidate *c = (struct ctr_rank_candidate *)(void *)ordered.data;

    for (int64_t i = 0; !rc && i < o->n; i++)
        item[i] = (struct item){ 0, i };
    if (!rc)
        qsort_r(item, (size_t)o->n, sizeof *item, descending, &by);
    for (int64_t i = 0; !rc && i < o->n; i++)
        c[i] = o->c[item[i].i];
    if (!rc)
        ctr_rank_prepare(how, c, o->n);
    for (int64_t i = 0; !rc && i < o->n; i++)
        if (c[i].greedy >= 0 && c[i].greedy < o->kept)
            rc = ctr_rank_chance(how, c, o->n, i, c[i].greedy, &room, &o->propensity[c[i].greedy], err);
    ctr_buf_free(&ordered);
    ctr_buf_free(&room);
    return rc;
}

static int set_propensities(struct ctr_rank_order *o, const struct ctr_rank_how *how, const struct ctr_col *id,
                            struct ctr_err *err)
{
    if (how->explore == CTR_EXPLORE_THOMPSON)
        return thompson(o, how, id, err);
    for (int64_t k = 0; k < o->kept; k++) {
        const double greedy = o->c[o->place[k]].greedy == k;
        o->propensity[k] =
            how->explore == CTR_EXPLORE_EPSILON ? how->amount / (double)o->above + (1 - how->amount) * greedy : greedy;
    }
    return 0;
}

int ctr_rank_order(struct ctr_rank_order *o, const struct ctr_rank_how *how, struct ctr_rank_candidate *c, int64_t n,
                   const struct ctr_col *id, uint64_t request, struct ctr_err *err)
{
    int rc = make_room(o, n, err);

    if (rc)
        return rc;
    o->c = c;
    o->n = n;
    o->randomised = how->explore == CTR_EXPLORE_EPSILON && ctr_random01(request, 0, 0) < how->amount;
    if (how->explore == CTR_EXPLORE_THOMPSON || o->randomised)
        draw(o, id, request);
    set_values(how, c, n, request);
    sort_values(o, how, id);
    o->kept = how->top ? CTR_MIN(how->top, o->above) : o->above;

    if (o->randomised)
        shuffle(o, request);
    const struct item *item = (const struct item *)(const void *)o->item.data;
    for (int64_t k = 0; k < o->above; k++)
        o->place[k] = item[k].i;
    return how->explore ? set_propensities(o, how, id, err) : 0;
}

void ctr_rank_order_free(struct ctr_rank_order *o)
{
    ctr_buf_free(&o->item);
    ctr_buf_free(&o->places);
    ctr_buf_free(&o->chances);
}
