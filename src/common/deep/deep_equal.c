/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows of a minibatch have in common is computed once ("Image Matters", Ge et al. 2018, section 7.2): the rows of
 * all ads shown to a user have the user's columns and history.
 *
 * - Lists of one input: equal lists become one list, its keys are looked up and its vectors pooled once, and the rows
 *   get copies. The tables' rows learn from the sum of the gradients of the list's rows.
 * - Rows with equal values in some inputs: what a network computes from these inputs alone, it computes for the
 * distinct rows. A record identifies a row: for each input the hash of its key, the number of its list, or its numbers.
 *
 * Lists and records are compared byte by byte and numbered in order of first occurrence, and sums run in the order of
 * rows. So neither dictionary encoding nor batch boundaries matter: only the minibatch's rows do. */
#include <stdlib.h>
#include <string.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

/* Three rows with a list `tags`, capitals being hashes of keys:
 *
 *     row   tags     its list
 *     0     [B C]    0, which is new: the group gets the entries B C
 *     1     []       1, which is new: no entry
 *     2     [B C]    0
 *
 * Two lists are pooled; rows 0 and 2 get copies of what list 0 gave, whose gradient is the sum of those of both rows.
 */

/* ---- numbers ---- */

/* The number of what has this hash, the next one if it is new. If another thing has the same hash, the next hash is
 * tried. Hashes are keyed, so that no lists or rows can be made of which many have one. */
static int number_of(struct ctr_deep_equal *e, uint64_t h,
                     bool (*same)(const void *owner, int32_t k, const void *thing), const void *owner,
                     const void *thing, int32_t *number, struct ctr_err *err)
{
    const int64_t known = e->set.keys.n;
    int rc = 0;
    for (;; h = ctr_mix64(h + 1)) {
        *number = ctr_deep_set_add(&e->set, h, &rc);
        if (rc) {
            *err = e->set.err;
            return rc;
        }
        if (e->set.keys.n > known || same(owner, *number, thing))
            return 0;
    }
}

void ctr_deep_equal_clear(struct ctr_deep_equal *e)
{
    ctr_keyset_clear(&e->set.keys);
    ctr_buf_clear(&e->number);
    e->sent = 0;
}

void ctr_deep_equal_free(struct ctr_deep_equal *e)
{
    struct ctr_mem *mems[] = { e->on_device[0], e->on_device[1], e->start, e->item };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_keyset_free(&e->set.keys);
    ctr_buf_free(&e->number);
}

int ctr_deep_equal_send(struct ctr_deep *d, struct ctr_deep_equal *e, struct ctr_err *err)
{
    const size_t sent = (size_t)e->sent * sizeof(int32_t);
    e->sent = (int64_t)(e->number.len / sizeof(int32_t));
    return ctr_deep_send(d, &e->on_device[d->batch.buffer_index], e->number.data, sent, e->number.len, err);
}

/* The numbers of n rows. */
static struct ctr_vec numbers_on_device(const struct ctr_deep *d, const struct ctr_deep_equal *e, int64_t from,
                                        int64_t n)
{
    return ctr_vec_at(e->on_device[d->batch.buffer_index], from, n);
}

int ctr_deep_equal_sum(struct ctr_deep *d, struct ctr_deep_equal *e, struct ctr_mat rows, struct ctr_mat sums,
                       struct ctr_err *err)
{
    const int64_t n = e->set.keys.n;
    int rc = ctr_deep_send_groups(d, &e->number, n, &e->start, &e->item, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    const struct ctr_lists all = { .lists = d->rows, .per_row = 1, .index = numbers_on_device(d, e, 0, d->rows) };
    const struct ctr_dev_pool_grad sum = { .how = CTR_POOL_SUM,
                                           .lists = all,
                                           .group_start = ctr_vec(e->start, n + 1),
                                           .group_item = ctr_vec(e->item, d->rows),
                                           .dout = rows,
                                           .grad = sums };
    return rc ? rc : ctr_dev_pool_grad(d->dev, &sum, err);
}

/* ---- lists that rows have in common ---- */

struct list {
    const uint64_t *hash;
    const double *x; /* NULL: all 1 */
    int64_t n;
};

static uint64_t hash_of(const struct list *l)
{
    const uint64_t h = ctr_hash64(l->hash, (size_t)l->n * sizeof *l->hash, ctr_hash_secret + (uint64_t)l->n);
    return l->x ? ctr_hash64(l->x, (size_t)l->n * sizeof *l->x, h) : h;
}

/* Is list k of the group equal to this one? */
static bool is_list(const void *group, int32_t k, const void *list)
{
    const struct ctr_deep_group *g = group;
    const struct list *l = list;
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
    int rc = ctr_deep_count_fits(g->entries + all, err);
    if (!rc && !g->start.len)
        rc = ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
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

static int number_list(struct ctr_deep_group *g, const struct list *l, int32_t *number, struct ctr_err *err)
{
    const int64_t known = g->equal.set.keys.n;
    int rc = number_of(&g->equal, hash_of(l), is_list, g, l, number, err);
    if (!rc && g->equal.set.keys.n > known)
        append(g, *number, l);
    return rc;
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
    int32_t *list = ctr_buf_extend(&g->equal.number, n, sizeof *list, &rc, err);
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

static bool has_digest(const void *group, int32_t k, const void *digest)
{
    const struct ctr_deep_group *g = group;
    return !memcmp(AS(uint64_t, g->digest) + 2 * (ptrdiff_t)k, digest, 2 * sizeof(uint64_t));
}

/* A new list of `count` items from `item` on. */
static int append_left(struct ctr_deep_group *g, int32_t item, int32_t count, const uint64_t *digest,
                       struct ctr_err *err)
{
    const int64_t lists = (int64_t)(g->item.len / sizeof item);
    const int64_t end = (lists ? AS(int32_t, g->start)[lists] : 0) + (int64_t)count;
    int rc = ctr_deep_count_fits(end, err);
    if (!rc)
        rc = ctr_buf_append(&g->start, &(int32_t){ (int32_t)end }, sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_append(&g->item, &item, sizeof item, err);
    return rc ? rc : ctr_buf_append(&g->digest, digest, 2 * sizeof *digest, err);
}

int ctr_deep_common_add_left(struct ctr_deep *d, struct ctr_deep_group *g, const struct ctr_rows_list *l, int64_t from,
                             int64_t n, const uint64_t *digest, struct ctr_err *err)
{
    const int64_t before = g->equal.set.keys.n;
    int rc = g->start.len ? 0 : ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    int32_t *number = ctr_buf_extend(&g->equal.number, n, sizeof *number, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++, digest += 2) {
        const int64_t known = g->equal.set.keys.n;
        rc = number_of(&g->equal, digest[0], has_digest, g, digest, &number[i], err);
        if (!rc && g->equal.set.keys.n > known)
            rc = append_left(g, l->item[from + i], l->count[from + i], digest, err);
    }
    return rc ? rc : ctr_deep_take_left(d, g, l, before, err);
}

int ctr_deep_common_bring(struct ctr_deep_group *g, struct ctr_err *err)
{
    const int64_t lists = g->equal.set.keys.n;
    struct ctr_buf ones = { 0 };
    int32_t number;
    int rc = 0;
    double *x = ctr_buf_extend(&ones, g->entries, sizeof *x, &rc, err);
    for (int64_t e = 0; e < g->entries && !rc; e++)
        x[e] = 1;
    ctr_keyset_clear(&g->equal.set.keys);
    for (int64_t k = 0; k < lists && !rc; k++) {
        const int32_t from = AS(int32_t, g->start)[k];
        const struct list l = { AS(uint64_t, g->hash) + from, x, AS(int32_t, g->start)[k + 1] - from };
        rc = number_of(&g->equal, hash_of(&l), is_list, g, &l, &number, err);
    }
    ctr_buf_free(&ones);
    return rc;
}

struct ctr_lists ctr_deep_common_lists(const struct ctr_deep *d, const struct ctr_deep_group *g, int64_t first)
{
    const struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    const int64_t lists = g->equal.set.keys.n - first;
    return (struct ctr_lists){ .lists = lists,
                               .per_row = 1,
                               .start = ctr_vec_at(on->start, first, lists + 1),
                               .index = ctr_deep_index(d, g, 0, g->entries),
                               .segment = ctr_vec(on->segment, g->entries),
                               .x = ctr_deep_x(d, g, 0, g->entries) };
}

int ctr_deep_common_pool(struct ctr_deep *d, struct ctr_deep_group *g, int64_t first, struct ctr_mat x,
                         struct ctr_err *err)
{
    const size_t one = (size_t)g->width * sizeof(float);
    const int64_t lists = g->equal.set.keys.n;
    int rc = ctr_deep_keep(d, &g->value, (size_t)g->pooled * one, (size_t)lists * one, err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&g->grad, d->dev, (size_t)lists * one, err);
    const struct ctr_dev_pool pool = { .how = g->pooling,
                                       .lists = ctr_deep_common_lists(d, g, g->pooled),
                                       .rows = d->vectors.value,
                                       .out = ctr_mat_at(g->value, g->pooled * g->width, lists - g->pooled, g->width) };
    if (!rc && lists > g->pooled)
        rc = ctr_dev_pool(d->dev, &pool, err);
    const struct ctr_dev_move_rows spread = { .n = d->rows - first,
                                              .from = ctr_mat(g->value, lists, g->width),
                                              .to = x,
                                              .from_index = numbers_on_device(d, &g->equal, first, d->rows - first) };
    if (!rc && lists)
        rc = ctr_dev_move_rows(d->dev, &spread, err);
    g->pooled = lists;
    return rc;
}

/* ---- rows that are equal in some inputs ---- */

int ctr_deep_distinct(struct ctr_deep *d, const bool *has, struct ctr_err *err)
{
    struct ctr_deep_distinct *list = realloc(d->distinct, ((size_t)d->distincts + 1) * sizeof *list);
    if (!list)
        return ctr_fail_nomem(err, ((size_t)d->distincts + 1) * sizeof *list);
    d->distinct = list;
    struct ctr_deep_distinct *s = &list[d->distincts];
    *s = (struct ctr_deep_distinct){ .has = malloc((size_t)d->inputs + 1) };
    if (!s->has)
        return ctr_fail_nomem(err, (size_t)d->inputs);
    memcpy(s->has, has, (size_t)d->inputs);
    for (int i = 0; i < d->inputs; i++)
        if (has[i])
            s->bytes += d->input[i].table ? sizeof(uint64_t) : (size_t)d->input[i].dense * sizeof(float);
    return d->distincts++;
}

bool ctr_deep_can_be_distinct(const struct ctr_deep_input *in)
{
    return !in->list || (!in->image && !in->sequence && !in->split); /* its lists are numbered */
}

/* Make the record of row `at` of the minibatch. */
static void make_record(const struct ctr_deep *d, const struct ctr_deep_distinct *s, const struct ctr_rows *r,
                        int64_t row, int64_t at, unsigned char *to)
{
    int64_t e = r->start[row];
    for (const struct ctr_deep_group *g = d->group; g < d->group + d->groups; g++)
        for (int k = g->first; k < g->first + g->inputs; k++) {
            const int input = d->key_input[k];
            if (!s->has[input])
                continue;
            while (!g->common && r->table && r->table[e] < input)
                e++;
            const uint64_t value =
                g->common ? (uint64_t)AS(int32_t, g->equal.number)[at] : r->hash[r->table ? e : e + k];
            memcpy(to, &value, sizeof value);
            to += sizeof value;
        }
    for (int i = 0; i < d->inputs; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        if (in->table || !s->has[i])
            continue;
        memcpy(to, r->dense + row * d->dense + in->dense_at, (size_t)in->dense * sizeof *r->dense);
        to += (size_t)in->dense * sizeof *r->dense;
    }
}

static bool is_record(const void *distinct, int32_t k, const void *record)
{
    const struct ctr_deep_distinct *s = distinct;
    return !memcmp(record, s->record.data + (size_t)k * s->bytes, s->bytes);
}

/* The number of the record stored after the known ones; a new record is added. */
static int number_record(struct ctr_deep_distinct *s, int64_t at, int32_t *number, struct ctr_err *err)
{
    const int64_t known = s->equal.set.keys.n;
    const unsigned char *record = s->record.data + (size_t)known * s->bytes;
    int rc = number_of(&s->equal, ctr_hash64(record, s->bytes, ctr_hash_secret), is_record, s, record, number, err);
    if (!rc && s->equal.set.keys.n > known)
        rc = ctr_buf_append(&s->first, &(int32_t){ (int32_t)at }, sizeof(int32_t), err);
    return rc;
}

int ctr_deep_distinct_add(struct ctr_deep *d, struct ctr_deep_distinct *s, const struct ctr_rows *r, int64_t from,
                          int64_t n, struct ctr_err *err)
{
    int rc = 0;
    int32_t *number = ctr_buf_extend(&s->equal.number, n, sizeof *number, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        const size_t known = (size_t)s->equal.set.keys.n * s->bytes;
        s->record.len = known;
        if ((rc = ctr_buf_reserve(&s->record, s->bytes, err)))
            break;
        make_record(d, s, r, from + i, d->rows + i, s->record.data + known);
        /* rows of one user are often adjacent */
        if (i && !memcmp(s->record.data + known, s->record.data + (size_t)number[i - 1] * s->bytes, s->bytes))
            number[i] = number[i - 1];
        else
            rc = number_record(s, d->rows + i, &number[i], err);
    }
    s->record.len = (size_t)s->equal.set.keys.n * s->bytes;
    return rc;
}

void ctr_deep_distinct_clear(struct ctr_deep_distinct *s)
{
    ctr_deep_equal_clear(&s->equal);
    ctr_buf_clear(&s->record);
    ctr_buf_clear(&s->first);
    s->sent = 0;
}

void ctr_deep_distinct_free(struct ctr_deep_distinct *s)
{
    ctr_deep_equal_free(&s->equal);
    ctr_mem_free(s->first_on_device[0]);
    ctr_mem_free(s->first_on_device[1]);
    ctr_buf_free(&s->record);
    ctr_buf_free(&s->first);
    free(s->has);
}

int ctr_deep_distinct_send(struct ctr_deep *d, struct ctr_deep_distinct *s, struct ctr_err *err)
{
    const size_t sent = (size_t)s->sent * sizeof(int32_t);
    int rc = ctr_deep_equal_send(d, &s->equal, err);
    s->sent = s->equal.set.keys.n;
    return rc ? rc
              : ctr_deep_send(d, &s->first_on_device[d->batch.buffer_index], s->first.data, sent, s->first.len, err);
}

struct ctr_deep_distinct_view ctr_deep_distinct_of(const struct ctr_deep *d, int number, int64_t from, int64_t n)
{
    const struct ctr_deep_distinct *s = &d->distinct[number];
    const int64_t all = s->equal.set.keys.n;
    int64_t first = all;
    while (first && AS(int32_t, s->first)[first - 1] >= from)
        first--;
    return (struct ctr_deep_distinct_view){ .first = first,
                                            .count = all - first,
                                            .row = ctr_vec_at(s->first_on_device[d->batch.buffer_index], first,
                                                              all - first),
                                            .number = numbers_on_device(d, &s->equal, from, n) };
}
