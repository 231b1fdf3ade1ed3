/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists shared by rows: a user's history occurs in the rows of all ads shown to that user. Equal lists of a minibatch,
 * compared by content, become one list: its keys are looked up and its vectors pooled once, and the rows get copies
 * ("Image Matters", Ge et al. 2018, section 7.2). Backward first sums the gradients of the list's rows, in row order;
 * the tables' rows learn from that sum.
 *
 * Neither dictionary encoding nor batch boundaries matter: lists are compared, and the sums of a minibatch depend only
 * on its rows. */
#include <string.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

/* ---- which lists are equal ---- */

struct list {
    const uint64_t *hash;
    const double *x; /* NULL: all 1 */
    int64_t n;
};

/* Keyed, so that no lists can be made of which many have one hash. */
static uint64_t hash_of(const struct list *l)
{
    const uint64_t h = ctr_hash64(l->hash, (size_t)l->n * sizeof *l->hash, ctr_hash_secret + (uint64_t)l->n);
    return l->x ? ctr_hash64(l->x, (size_t)l->n * sizeof *l->x, h) : h;
}

/* Is list k of the group equal to this one? */
static bool is_same(const struct ctr_deep_group *g, int32_t k, const struct list *l)
{
    const int32_t from = AS(int32_t, g->start)[k], end = AS(int32_t, g->start)[k + 1];
    bool same = end - from == l->n && !memcmp(AS(uint64_t, g->hash) + from, l->hash, (size_t)l->n * sizeof *l->hash);
    for (int64_t i = 0; i < l->n && same; i++) {
        const float x = l->x ? (float)l->x[i] : 1;
        same = !memcmp(AS(float, g->x) + from + i, &x, sizeof x);
    }
    return same;
}

/* Room for `all` entries and `lists` more lists. */
static int make_room(struct ctr_deep_group *g, int64_t all, int64_t lists, struct ctr_err *err)
{
    if (g->entries + all > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "a minibatch has more than 2^31 keys: lower --minibatch");
    int rc = g->start.len ? 0 : ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_reserve(&g->hash, (size_t)all * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_buf_reserve(&g->segment, (size_t)all * sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_reserve(&g->x, (size_t)all * sizeof(float), err);
    return rc ? rc : ctr_buf_reserve(&g->start, (size_t)lists * sizeof(int32_t), err);
}

static void append(struct ctr_deep_group *g, int32_t k, const struct list *l)
{
    const int64_t at = g->entries;
    for (int64_t i = 0; i < l->n; i++) {
        AS(uint64_t, g->hash)[at + i] = l->hash[i];
        AS(int32_t, g->segment)[at + i] = k;
        AS(float, g->x)[at + i] = l->x ? (float)l->x[i] : 1;
    }
    g->entries += l->n;
    g->hash.len += (size_t)l->n * sizeof(uint64_t);
    g->segment.len += (size_t)l->n * sizeof(int32_t);
    g->x.len += (size_t)l->n * sizeof(float);
    AS(int32_t, g->start)[k + 1] = (int32_t)g->entries;
    g->start.len += sizeof(int32_t);
}

/* The number of a list, appended if new. If another list has the same hash, the next hash is tried. */
static int number_list(struct ctr_deep_group *g, const struct list *l, int32_t *number, struct ctr_err *err)
{
    struct ctr_deep_set *s = &g->distinct;
    int rc = 0;
    for (uint64_t h = hash_of(l);; h = ctr_mix64(h + 1)) {
        const int64_t before = s->keys.n;
        *number = ctr_deep_set_add(s, h, &rc);
        if (rc) {
            *err = s->err;
            return rc;
        }
        if (s->keys.n == before && !is_same(g, *number, l))
            continue;
        if (s->keys.n > before)
            append(g, *number, l);
        return 0;
    }
}

static struct list list_of(const struct ctr_rows *r, int64_t i, int input)
{
    int64_t from = r->start[i], end = r->start[i + 1]; /* rows with lists always have r->table */
    while (from < end && r->table[from] < input)
        from++;
    for (end = from; end < r->start[i + 1] && r->table[end] == input;)
        end++;
    return (struct list){ r->hash + from, r->x ? r->x + from : NULL, end - from };
}

/* A shortcut, because rows of one user are often adjacent. */
static bool repeats(const struct list *a, const struct list *b)
{
    return a->n == b->n && !memcmp(a->hash, b->hash, (size_t)a->n * sizeof *a->hash) &&
           (!a->x || !memcmp(a->x, b->x, (size_t)a->n * sizeof *a->x));
}

int ctr_deep_common_add(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows *r, int64_t from, int64_t n,
                        struct ctr_err *err)
{
    const int input = d->key_input[g->first];
    int rc = make_room(g, r->start[from + n] - r->start[from], n, err);
    int32_t *list = ctr_buf_extend(&g->list, n, sizeof *list, &rc, err);
    struct list before = { 0 };
    for (int64_t i = 0; i < n && !rc; i++) {
        const struct list l = list_of(r, from + i, input);
        if (i && repeats(&l, &before))
            list[i] = list[i - 1];
        else
            rc = number_list(g, &l, &list[i], err);
        before = l;
    }
    return rc;
}

/* ---- on the device ---- */

struct ctr_lists ctr_deep_common_lists(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first)
{
    const struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    const int64_t lists = g->distinct.keys.n - first;
    return (struct ctr_lists){ .lists = lists,
                               .per_row = 1,
                               .start = ctr_vec_at(on->start, first, lists + 1),
                               .index = ctr_vec(on->index, g->entries),
                               .segment = ctr_vec(on->segment, g->entries),
                               .x = ctr_vec(on->x, g->entries) };
}

int ctr_deep_common_send(struct ctr_deep *d, struct ctr_deep_group *g, struct ctr_err *err)
{
    const size_t sent = (size_t)g->sent_rows * sizeof(int32_t);
    g->sent_rows = d->rows;
    return ctr_deep_send(d, &g->buffers[d->batch.buffer_index].list, g->list.data, sent, g->list.len, err);
}

static struct ctr_vec rows_lists(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first)
{
    return ctr_vec_at(g->buffers[d->batch.buffer_index].list, first, d->rows - first);
}

int ctr_deep_common_pool(struct ctr_deep *d, struct ctr_deep_group *g, int64_t first, struct ctr_mat x,
                         struct ctr_err *err)
{
    const size_t one = (size_t)g->width * sizeof(float);
    const int64_t lists = g->distinct.keys.n;
    int rc = ctr_deep_keep(d, &g->value, (size_t)g->pooled * one, (size_t)lists * one, err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&g->grad, d->dev, (size_t)lists * one, err);
    const struct ctr_dev_pool pool = { .how = g->pooling,
                                       .lists = ctr_deep_common_lists(d, g, g->pooled),
                                       .rows = d->vectors.value,
                                       .out = ctr_mat_at(g->value, g->pooled * g->width, lists - g->pooled, g->width) };
    if (!rc && lists > g->pooled)
        rc = ctr_dev_pool(d->dev, &pool, err);
    const struct ctr_dev_move_rows spread = {
        .n = d->rows - first, .from = ctr_mat(g->value, lists, g->width), .to = x, .from_index = rows_lists(d, g, first)
    };
    if (!rc && lists)
        rc = ctr_dev_move_rows(d->dev, &spread, err);
    g->pooled = lists;
    return rc;
}

int ctr_deep_common_grad(struct ctr_deep *d, struct ctr_deep_group *g, struct ctr_mat dx, struct ctr_err *err)
{
    const int64_t lists = g->distinct.keys.n;
    int rc = ctr_deep_send_groups(d, &g->list, lists, &g->row_start_mem, &g->row_item_mem, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    const struct ctr_dev_pool_grad sum = { .how = CTR_POOL_SUM,
                                           .lists = { .lists = d->rows, .per_row = 1, .index = rows_lists(d, g, 0) },
                                           .group_start = ctr_vec(g->row_start_mem, lists + 1),
                                           .group_item = ctr_vec(g->row_item_mem, d->rows),
                                           .dout = dx,
                                           .grad = ctr_mat(g->grad, lists, g->width) };
    return rc ? rc : ctr_dev_pool_grad(d->dev, &sum, err);
}
