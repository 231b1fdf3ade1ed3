/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows whose keys are on the device, where a plan's extraction has left them (ctr_rows.left). The host has the lengths
 * of lists; of lists that rows may have in common it reads two numbers each, by which it tells equal ones. Invariant:
 * the minibatch is that of the same rows on the host, entry by entry, so the model is the same.
 *
 * Two rows of a key `site` and a list `tags`, as they lie on the device, capitals being hashes:
 *
 *     hashes     A D                      keys of the rows
 *     tags       B C B C                  items: two of the first row, from 0 on, and two of the second, from 2 on
 *     add        group site: A D; group tags: B C, starts 0 2, one list for both rows, whose digests are equal
 *
 * The first step of a minibatch decides where its keys are; rows of the other kind are brought to the host, and with
 * them those that it has. */
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

const char *ctr_deep_refuses_left(const void *learner)
{
    const struct ctr_deep_learner *l = learner;
    const struct ctr_deep *d = &l->net;
    for (const struct ctr_deep_group *g = d->group; g < d->group + d->groups && !d->spec->by_table; g++)
        if (g->ragged != d->input[d->key_input[g->first]].list)
            return "a key is a list";
    return ctr_dev_is_host(d->dev) ? "the model is on the CPU"
           : d->distincts          ? "rows are compared"
           : d->images             ? "some are images"
                                   : ctr_deep_host_numbers(d, &l->tables);
}

bool ctr_deep_keeps_left(const struct ctr_deep *d)
{
    return d->rows ? d->batch.left : ctr_source_takes_entries(d->vectors.source, 0);
}

/* ---- to the host ---- */

/* What is read together, so that the device is waited for once. */
struct reads {
    struct ctr_deep *d;
    struct ctr_mem **there; /* of each */
    int n;
};

static int read_there(struct reads *r, uint64_t address, int64_t n, size_t size, void *to, struct ctr_err *err)
{
    const size_t bytes = (size_t)n * size;
    int rc = bytes ? ctr_mem_at(&r->there[r->n], r->d->dev, address, bytes, err) : 0;
    return rc || !bytes ? rc : ctr_mem_read_later(r->there[r->n++], 0, to, bytes, err);
}

/* The items of a list's rows [from, from + n) are among [*first, *end). */
static void extent(const struct ctr_rows_list *l, int64_t from, int64_t n, int64_t *first, int64_t *end)
{
    *first = INT32_MAX;
    *end = 0;
    for (int64_t i = from; i < from + n; i++)
        if (l->item[i] >= 0 && l->count[i]) {
            *first = CTR_MIN(*first, l->item[i]);
            *end = CTR_MAX(*end, (int64_t)l->item[i] + l->count[i]);
        }
    *first = CTR_MIN(*first, *end);
}

/* Hashes of rows [from, from + n): of the keys, and behind them those of each list's extent. */
static int read_hashes(struct reads *r, const struct ctr_rows_left *left, int64_t from, int64_t n, struct ctr_buf *to,
                       struct ctr_err *err)
{
    int64_t all = n * left->keys, first, end;
    int rc = 0;
    for (int l = 0; l < left->lists; l++) {
        extent(&left->list[l], from, n, &first, &end);
        all += end - first;
    }
    uint64_t *hash = ctr_buf_extend(to, all, sizeof *hash, &rc, err);
    if (!rc)
        rc = read_there(r, left->hashes + (uint64_t)(from * left->keys) * 8, n * left->keys, 8, hash, err);
    hash += rc ? 0 : n * left->keys;
    for (const struct ctr_rows_list *l = left->list; l < left->list + left->lists && !rc; l++) {
        extent(l, from, n, &first, &end);
        rc = read_there(r, l->hash + (uint64_t)first * 8, end - first, 8, hash, err);
        hash += end - first;
    }
    return rc;
}

/* Where an entry goes: behind those that its row has. */
static void put(struct ctr_rowbuf *to, int64_t at, uint64_t hash, int input)
{
    AS(uint64_t, to->hash)[at] = hash;
    AS(uint16_t, to->table)[at] = (uint16_t)input;
    AS(double, to->x)[at] = 1;
}

/* Rows with lists, from what was read: next[i] is where the next entry of row i goes. */
static void weave(const struct ctr_deep *d, const struct ctr_rows_left *left, int64_t from, int64_t n,
                  const uint64_t *hash, int64_t *next, struct ctr_rowbuf *to)
{
    const uint64_t *item = hash + n * left->keys;
    const struct ctr_rows_list *l = left->list;
    int key = 0;
    for (int k = 0; k < d->keys; k++) {
        const int input = d->key_input[k];
        if (!d->input[input].list) {
            for (int64_t i = 0; i < n; i++)
                put(to, next[i]++, hash[i * left->keys + key], input);
            key++;
            continue;
        }
        int64_t first, end;
        extent(l, from, n, &first, &end);
        for (int64_t i = 0; i < n; i++)
            for (int32_t j = 0; j < l->count[from + i]; j++)
                put(to, next[i]++, l->item[from + i] < 0 ? l->none : item[l->item[from + i] - first + j], input);
        item += end - first;
        l++;
    }
}

static int bring_lists(struct ctr_deep *d, const struct ctr_rows_left *left, int64_t from, int64_t n,
                       const uint64_t *hash, struct ctr_rowbuf *to, struct ctr_err *err)
{
    const int64_t entries = AS(int64_t, to->start)[n];
    struct ctr_buf next = { 0 };
    int rc = ctr_buf_room(&to->table, entries, sizeof(uint16_t), err);
    if (!rc)
        rc = ctr_buf_room(&to->hash, entries, sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_buf_room(&to->x, entries, sizeof(double), err);
    if (!rc)
        rc = ctr_buf_append(&next, to->start.data, (size_t)n * sizeof(int64_t), err);
    if (!rc)
        weave(d, left, from, n, hash, AS(int64_t, next), to);
    ctr_buf_free(&next);
    return rc;
}

static int read_rows(struct ctr_deep *d, const struct ctr_rows_left *left, int64_t from, int64_t n,
                     struct ctr_buf *hash, struct ctr_buf *dense, struct ctr_err *err)
{
    struct reads r = { d, calloc((size_t)left->lists + 2, sizeof *r.there), 0 };
    char last;
    int rc = r.there ? read_hashes(&r, left, from, n, hash, err) : ctr_fail_nomem(err, sizeof *r.there);
    if (!rc && left->numbers)
        rc = ctr_buf_room(dense, n * d->dense, sizeof(float), err);
    if (!rc && left->numbers)
        rc = read_there(&r, left->numbers + (uint64_t)(from * d->dense) * sizeof(float), n * d->dense, sizeof(float),
                        dense->data, err);
    if (!rc && r.n) /* which waits for the others */
        rc = ctr_mem_read(r.there[0], 0, &last, 1, err);
    if (rc && r.n) /* what is queued still writes there */
        (void)!ctr_dev_sync(d->dev, &(struct ctr_err){ 0 });
    while (r.n > 0)
        ctr_mem_free(r.there[--r.n]);
    free(r.there);
    return rc;
}

int ctr_deep_left_rows(struct ctr_deep *d, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_rowbuf *to,
                       struct ctr_rows *host, struct ctr_err *err)
{
    const struct ctr_rows_left *left = r->left;
    const int64_t begin = r->start[from];
    struct ctr_buf hash = { 0 };
    int rc = ctr_buf_room(&to->start, n + 1, sizeof(int64_t), err);
    for (int64_t i = 0; i <= n && !rc; i++)
        AS(int64_t, to->start)[i] = r->start[from + i] - begin;
    ctr_buf_clear(&to->hash);
    if (!rc)
        rc = read_rows(d, left, r->left_row + from, n, left->lists ? &hash : &to->hash, &to->dense, err);
    if (!rc && left->lists)
        rc = bring_lists(d, left, r->left_row + from, n, AS(uint64_t, hash), to, err);
    ctr_buf_free(&hash);
    *host = *r;
    host->left = NULL;
    host->rows = n;
    host->first_row += from;
    host->start = AS(int64_t, to->start);
    host->hash = AS(uint64_t, to->hash);
    host->table = left->lists ? AS(uint16_t, to->table) : r->table ? r->table + begin : NULL;
    host->x = left->lists ? AS(double, to->x) : NULL;
    host->label = r->label ? r->label + from : NULL;
    host->weight = r->weight ? r->weight + from : NULL;
    host->dense = left->numbers ? AS(float, to->dense) : r->dense ? r->dense + from * d->dense : NULL;
    return rc;
}

int ctr_deep_bring_rows(void *learner, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_rowbuf *to,
                        struct ctr_rows *host, struct ctr_err *err)
{
    return ctr_deep_left_rows(&((struct ctr_deep_learner *)learner)->net, r, from, n, to, host, err);
}

/* Lists that the device made: their segments, and their x, which are 1. */
static int bring_list_group(struct ctr_deep_group *g, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&g->segment);
    ctr_buf_clear(&g->x);
    int32_t *segment = ctr_buf_extend(&g->segment, g->entries, sizeof *segment, &rc, err);
    float *x = ctr_buf_extend(&g->x, g->entries, sizeof *x, &rc, err);
    const int32_t *start = AS(int32_t, g->start);
    for (int32_t l = 0; l + 1 < (int32_t)(g->start.len / sizeof *start) && !rc; l++)
        for (int32_t e = start[l]; e < start[l + 1]; e++) {
            segment[e] = l;
            x[e] = 1;
        }
    g->sent_entries = 0;
    return rc || !g->common ? rc : ctr_deep_common_bring(g, err);
}

int ctr_deep_bring(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    if (!d->batch.left)
        return 0;
    d->batch.left = false;
    for (struct ctr_deep_group *g = d->group; g < d->group + d->groups && !rc; g++) {
        struct ctr_mem *there = g->buffers[d->batch.buffer_index].hash;
        ctr_buf_clear(&g->hash);
        uint64_t *to = ctr_buf_extend(&g->hash, g->entries, sizeof *to, &rc, err);
        if (!rc && g->entries)
            rc = ctr_mem_read(there, 0, to, (size_t)g->entries * sizeof *to, err);
        if (!rc && g->ragged && !d->spec->by_table)
            rc = bring_list_group(g, err);
    }
    return rc;
}

/* ---- keys of one a row ---- */

/* The same hash n times. */
static int make_bias(struct ctr_deep *d, int64_t n, uint64_t bias, struct ctr_err *err)
{
    struct ctr_buf all = { 0 };
    int rc = 0;
    if (ctr_mem_bytes(d->batch.bias) >= (size_t)n * sizeof bias)
        return 0;
    uint64_t *to = ctr_buf_extend(&all, n, sizeof *to, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++)
        to[i] = bias;
    if (!rc)
        rc = ctr_mem_grow(&d->batch.bias, d->dev, all.len, err);
    if (!rc)
        rc = ctr_mem_write(d->batch.bias, 0, to, all.len, err);
    ctr_buf_free(&all);
    return rc;
}

int ctr_deep_add_left_keys(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_left *left, int64_t from,
                           int64_t n, struct ctr_left_keys keys, struct ctr_err *err)
{
    struct ctr_mem **hash = &g->buffers[d->batch.buffer_index].hash, *there;
    const int64_t all = left->keys, width = keys.n + (keys.bias != 0);
    int rc = ctr_mem_keep(hash, d->dev, (size_t)g->entries * 8, (size_t)(g->entries + n * width) * 8, err);
    if (!rc && keys.bias)
        rc = make_bias(d, n, keys.bias, err);
    if (!rc)
        rc = ctr_mem_at(&there, d->dev, left->hashes + (uint64_t)(from * all) * 8, (size_t)(n * all) * 8, err);
    if (rc)
        return rc;
    /* a number is two floats */
    const struct ctr_mat to = ctr_mat_at(*hash, 2 * g->entries, n, 2 * width);
    const struct ctr_dev_copy copy[] = { { ctr_mat_cols(ctr_mat(there, n, 2 * all), 2 * keys.first, 2 * keys.n),
                                           ctr_mat_cols(to, 0, 2 * keys.n) },
                                         { ctr_mat(d->batch.bias, n, 2), ctr_mat_cols(to, 2 * keys.n, 2) } };
    for (int i = 0; i < 1 + (keys.bias != 0) && !rc; i++)
        rc = ctr_dev_copy(d->dev, &copy[i], err);
    ctr_mem_free(there);
    return rc;
}

/* ---- lists ---- */

int ctr_deep_take_left(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_list *l, int64_t first,
                       struct ctr_err *err)
{
    struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    const int64_t lists = (int64_t)(g->item.len / sizeof(int32_t)) - first, before = g->entries;
    const int32_t *item = AS(int32_t, g->item) + first, *start = AS(int32_t, g->start) + first;
    struct ctr_mem *there = NULL;
    int64_t end = 0;
    g->entries = start[lists];
    for (int64_t k = 0; k < lists; k++)
        end = item[k] < 0 ? end : CTR_MAX(end, (int64_t)item[k] + start[k + 1] - start[k]);
    int rc = ctr_deep_send(d, &on->item, g->item.data, (size_t)first * 4, g->item.len, err);
    if (!rc)
        rc = ctr_deep_send(d, &on->start, g->start.data, (size_t)g->sent_lists * 4, g->start.len, err);
    g->sent_lists = (int64_t)(g->start.len / 4);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    if (!rc)
        rc = ctr_mem_keep(&on->hash, d->dev, (size_t)before * 8, (size_t)g->entries * 8, err);
    if (!rc && !g->field) /* fields of a sequence share these */
        rc = ctr_mem_keep(&on->segment, d->dev, (size_t)before * 4, (size_t)g->entries * 4, err);
    if (rc || g->entries == before)
        return rc;
    if (end && (rc = ctr_mem_at(&there, d->dev, l->hash, (size_t)end * 8, err)))
        return rc;
    const struct ctr_dev_take_items take = { .from = ctr_vec(end ? there : on->hash, end),
                                             .item = ctr_vec_at(on->item, first, lists),
                                             .start = ctr_vec_at(on->start, first, lists + 1),
                                             .none = l->none,
                                             .to = ctr_vec(on->hash, g->entries),
                                             .segment =
                                                 g->field ? (struct ctr_vec){ 0 } : ctr_vec(on->segment, g->entries),
                                             .first = first };
    rc = ctr_dev_take_items(d->dev, &take, err);
    ctr_mem_free(there);
    return rc;
}

/* Of a list of `count` items from `item` on (-1: one that is none), its slot-th list of one item, or of none. */
static int32_t slot_of(const struct ctr_deep_group *g, bool from_end, int32_t item, int32_t count, int slot,
                       int32_t *of)
{
    *of = item < 0 ? -1 : from_end ? item + count - 1 - slot : item + slot;
    return slot < count && (item >= 0 || !slot) && g->fields > slot;
}

/* Each list of a sequence, or its newest items as lists of their own. */
static int add_lists(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_list *l, int64_t from,
                     int64_t n, struct ctr_err *err)
{
    const bool from_end = g->split == CTR_SPLIT_END || d->input[d->key_input[g->first]].oldest_first;
    const int64_t before = (int64_t)(g->item.len / sizeof(int32_t));
    int rc = g->start.len ? 0 : ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    int32_t *start = ctr_buf_extend(&g->start, n * g->fields, sizeof *start, &rc, err);
    int32_t *item = ctr_buf_extend(&g->item, n * g->fields, sizeof *item, &rc, err);
    int64_t end = g->entries;
    for (int64_t i = from; i < from + n && !rc; i++)
        for (int s = 0; s < g->fields; s++, item++) {
            *item = l->item[i];
            end += g->split ? slot_of(g, from_end, l->item[i], l->count[i], s, item) : l->count[i];
            *start++ = (int32_t)end;
        }
    rc = rc ? rc : ctr_deep_count_fits(end, err);
    return rc ? rc : ctr_deep_take_left(d, g, l, before, err);
}

/* Queue those of rows [from, from + n) of a group's list; they go to place `at`. */
static int start_digests(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_list *l, int64_t from,
                         int64_t n, int64_t at, struct ctr_err *err)
{
    struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    const size_t before = g->row_item.len;
    struct ctr_mem *there = NULL;
    int64_t first, end;
    extent(l, from, n, &first, &end);
    int rc = ctr_buf_append(&g->row_item, l->item + from, (size_t)n * 4, err);
    if (!rc)
        rc = ctr_buf_append(&g->row_count, l->count + from, (size_t)n * 4, err);
    if (!rc)
        rc = ctr_deep_send(d, &on->row_item, g->row_item.data, before, g->row_item.len, err);
    if (!rc)
        rc = ctr_deep_send(d, &on->row_count, g->row_count.data, before, g->row_count.len, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    if (!rc && end)
        rc = ctr_mem_at(&there, d->dev, l->hash, (size_t)end * 8, err);
    const int64_t row = (int64_t)before / 4;
    const struct ctr_dev_item_digests digests = { .from = ctr_vec(end ? there : d->batch.digest, end),
                                                  .item = ctr_vec_at(on->row_item, row, n),
                                                  .count = ctr_vec_at(on->row_count, row, n),
                                                  .none = l->none,
                                                  .seed = { ctr_hash_secret, ctr_mix64(ctr_hash_secret) },
                                                  .out = ctr_vec_at(d->batch.digest, 2 * at, 2 * n) };
    if (!rc)
        rc = ctr_dev_item_digests(d->dev, &digests, err);
    ctr_mem_free(there);
    return rc;
}

/* Digests of the lists of rows [from, from + n) of all groups that have lists in common, group by group, in
 * d->batch.digests. The device is waited for. */
static int read_digests(struct ctr_deep *d, const struct ctr_rows_left *left, int64_t from, int64_t n,
                        struct ctr_err *err)
{
    const struct ctr_rows_list *l = left->list;
    int64_t groups = 0, at = 0;
    int rc = 0;
    for (int i = 0; i < d->groups; i++)
        groups += d->group[i].common;
    ctr_buf_clear(&d->batch.digests);
    uint64_t *to = ctr_buf_extend(&d->batch.digests, 2 * n * groups, sizeof *to, &rc, err);
    if (rc || !groups || !n)
        return rc;
    rc = ctr_mem_grow(&d->batch.digest, d->dev, d->batch.digests.len, err);
    for (struct ctr_deep_group *g = d->group; g < d->group + d->groups && !rc; g++) {
        if (g->common)
            rc = start_digests(d, g, l, from, n, n * at++, err);
        l += g->ragged;
    }
    return rc ? rc : ctr_mem_read(d->batch.digest, 0, to, d->batch.digests.len, err);
}

int ctr_deep_add_left(struct ctr_deep *d, const struct ctr_rows_left *left, int64_t from, int64_t n,
                      struct ctr_err *err)
{
    const struct ctr_rows_list *l = left->list;
    int rc = read_digests(d, left, from, n, err), keys = 0;
    const uint64_t *digest = AS(uint64_t, d->batch.digests);
    for (struct ctr_deep_group *g = d->group; g < d->group + d->groups && !rc && n; g++) {
        if (!g->ragged) {
            rc = ctr_deep_add_left_keys(d, g, left, from, n, (struct ctr_left_keys){ keys, g->inputs, 0 }, err);
            keys += g->inputs;
            g->entries += n * g->inputs;
            continue;
        }
        rc = g->common ? ctr_deep_common_add_left(d, g, l, from, n, digest, err) : add_lists(d, g, l, from, n, err);
        digest += g->common ? 2 * n : 0;
        l++;
    }
    return rc;
}
