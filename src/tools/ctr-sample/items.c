/* SPDX-License-Identifier: Apache-2.0
 *
 * items: a draw is rejected while the user took the item or the row has it already; after TRIES rejections the items
 * that remain are listed and one of these is drawn. Both give an item the same probability: its weight among those that
 * remain. Weights are integers, so that sums are exact in any order. Number t of a row is
 * random64(seed, DRAW, row << 20 | t); times the sum of weights, its upper 64 bits are a place among them. */
#include "tools/ctr-sample/items.h"
#include "common/rows/relation.h"

#include <stdlib.h>

enum { DRAW = 0x6e6567, TRIES = 64, UNIT = 1 << 16 };

/* ---- reading ---- */

struct order {
    int64_t time, row;
};

static int compare_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time ? -1 : 1) : x->row < y->row ? -1 : x->row > y->row;
}

static int fail_key(const struct ctr_items *s, const char *name, int key, int64_t row, int64_t other,
                    struct ctr_err *err)
{
    ctr_err_file(err, name);
    if (other < 0)
        return ctr_fail(err, CTR_EDATA, "row %lld: the item %s is null; leave such rows out (ctr-select --where)",
                        (long long)row + 1, s->schema.f[key].name);
    return ctr_fail(err, CTR_EDATA, "rows %lld and %lld are one item, by %s: ctr-sort --unique keeps the first",
                    (long long)other + 1, (long long)row + 1, s->schema.f[key].name);
}

static int read_batch(struct ctr_items *s, const struct ctr_batch *b, const char *name, int key,
                      struct ctr_keyvalue_rows *keys, struct ctr_err *err)
{
    const int64_t first = ctr_batchbuf_rows(&s->rows);
    int rc = ctr_keyvalue_read(keys, b, &key, 1, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        uint32_t number;
        if (keys->row[i].null)
            return fail_key(s, name, key, first + i, -1, err);
        rc = ctr_keyvalue_set_add(&s->set, &keys->row[i], &number, err);
        if (!rc && number != first + i)
            return fail_key(s, name, key, first + i, number, err);
    }
    return rc ? rc : ctr_batchbuf_range(&s->rows, b, 0, b->rows, err);
}

/* Items by the time from which on they are known, those without one first. */
static int order_items(struct ctr_items *s, int time, struct ctr_err *err)
{
    struct order *o = malloc(((size_t)s->n + 1) * sizeof *o);
    int64_t *row = malloc(((size_t)s->n + 1) * sizeof *row);
    const struct ctr_batch *b = ctr_batchbuf_view(&s->rows);
    struct ctr_batchbuf sorted = { 0 };
    int rc = o && row ? ctr_buf_room(&s->known, s->n + 1, sizeof(int64_t), err)
                      : ctr_fail_nomem(err, (size_t)s->n * sizeof *o);
    if (!rc && !(s->by_key = malloc(((size_t)s->n + 1) * sizeof *s->by_key)))
        rc = ctr_fail_nomem(err, (size_t)s->n * sizeof *s->by_key);
    for (int64_t i = 0; !rc && i < s->n; i++) {
        const bool there = time >= 0 && !ctr_col_missing(&b->col[time], i);
        o[i] = (struct order){ there ? ctr_col_i64(&b->col[time], i) : INT64_MIN, i };
    }
    if (!rc)
        qsort(o, (size_t)s->n, sizeof *o, compare_order);
    for (int64_t i = 0; !rc && i < s->n; i++) {
        ((int64_t *)(void *)s->known.data)[i] = o[i].time;
        row[i] = o[i].row;
        s->by_key[o[i].row] = (uint32_t)i;
    }
    if (!rc)
        rc = ctr_batchbuf_init(&sorted, &s->schema, err);
    if (!rc)
        rc = ctr_batchbuf_gather(&sorted, b, row, s->n, err);
    free(o);
    free(row);
    if (sorted.col) {
        ctr_batchbuf_free(&s->rows);
        s->rows = sorted;
    }
    return rc;
}

int ctr_items_read(struct ctr_items *s, const struct ctr_batch_source *from, const char *name, int key, int time,
                   struct ctr_err *err)
{
    struct ctr_keyvalue_rows keys = { 0 };
    const struct ctr_batch *b;
    int rc = ctr_schema_copy(&s->schema, ctr_batch_source_schema(from), err);
    ctr_keyvalue_set_init(&s->set);
    ctr_keyvalue_set_init(&s->users);
    for (int i = 0; !rc && i < s->schema.n; i++)
        s->schema.f[i].dict = false; /* rows of many batches */
    if (!rc)
        rc = ctr_batchbuf_init(&s->rows, &s->schema, err);
    while (!rc && (rc = ctr_batch_source_next(from, &b, err)) > 0)
        rc = read_batch(s, b, name, key, &keys, err);
    ctr_keyvalue_rows_free(&keys);
    if (rc)
        return rc;
    s->n = ctr_batchbuf_rows(&s->rows);
    rc = order_items(s, time, err);
    if (!rc)
        rc = ctr_buf_room(&s->count, s->n + 1, sizeof(int64_t), err);
    if (!rc)
        memset(s->count.data, 0, (size_t)s->n * sizeof(int64_t));
    return rc;
}

void ctr_items_free(struct ctr_items *s)
{
    ctr_batchbuf_free(&s->rows);
    ctr_schema_free(&s->schema);
    ctr_buf_free(&s->known);
    ctr_keyvalue_set_free(&s->set);
    free(s->by_key);
    ctr_buf_free(&s->count);
    ctr_buf_free(&s->sum);
    ctr_keyvalue_set_free(&s->users);
    ctr_keyindex_free(&s->taken);
    *s = (struct ctr_items){ 0 };
}

int64_t ctr_items_find(const struct ctr_items *s, const struct ctr_keyvalue *item)
{
    const int64_t number = ctr_keyvalue_set_find(&s->set, item);
    return number < 0 ? -1 : (int64_t)s->by_key[number];
}

int64_t ctr_items_known(const struct ctr_items *s, int64_t time)
{
    const int64_t *known = (const int64_t *)(const void *)s->known.data;
    int64_t from = 0, to = s->n;
    while (from < to) {
        const int64_t middle = from + (to - from) / 2;
        if (known[middle] < time || known[middle] == INT64_MIN)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* ---- what users took ---- */

static uint64_t pair_of(uint32_t user, int64_t item)
{
    return ctr_mix64((uint64_t)user << 32 | (uint64_t)item);
}

int ctr_items_take(struct ctr_items *s, const struct ctr_keyvalue *user, int64_t item, struct ctr_err *err)
{
    const uint64_t bytes =
        (uint64_t)ctr_keyvalue_set_bytes_after(&s->users, user) + ctr_keyindex_bytes_after(&s->taken, 1);
    uint32_t number;
    if (bytes > (uint64_t)s->most_bytes)
        return ctr_fail(err, CTR_ENOMEM,
                        "what each user took needs %s and --memory allows %s; give more, or split the log by the user "
                        "first (ctr-split --by)",
                        ctr_size_text_beyond(bytes, (uint64_t)s->most_bytes).s,
                        ctr_size_text((uint64_t)s->most_bytes).s);
    int rc = ctr_keyvalue_set_add(&s->users, user, &number, err);
    if (!rc)
        rc = ctr_keyindex_reserve(&s->taken, 1, err);
    if (!rc)
        *ctr_keyindex_get(&s->taken, pair_of(number, item)) = 1;
    return rc;
}

/* ---- weights ---- */

static uint64_t *sums(const struct ctr_items *s)
{
    return (uint64_t *)(void *)s->sum.data;
}

static uint64_t weight(const struct ctr_items *s, int64_t item)
{
    const double n = (double)(1 + ((const int64_t *)(const void *)s->count.data)[item]);
    return !s->sum.len ? 1 : (uint64_t)(ctr_exp(s->popular * ctr_log(n)) * UNIT + 0.5);
}

static void add_weight(struct ctr_items *s, int64_t item, uint64_t more)
{
    for (int64_t i = item; i < s->n; i |= i + 1)
        sums(s)[i] += more;
}

/* Of the first n items. */
static uint64_t sum_of(const struct ctr_items *s, int64_t n)
{
    uint64_t sum = 0;
    if (!s->sum.len)
        return (uint64_t)n;
    for (int64_t i = n; i > 0; i &= i - 1)
        sum += sums(s)[i - 1];
    return sum;
}

/* The item at a place below the sum of all weights. */
static int64_t item_at(const struct ctr_items *s, uint64_t place)
{
    int64_t at = 0, step = 1;
    if (!s->sum.len)
        return (int64_t)place;
    while (2 * step <= s->n)
        step *= 2;
    for (; step; step /= 2)
        if (at + step <= s->n && sums(s)[at + step - 1] <= place) {
            place -= sums(s)[at + step - 1];
            at += step;
        }
    return at;
}

int ctr_items_weigh(struct ctr_items *s, struct ctr_err *err)
{
    int rc = 0;
    if (s->popular == 0 || !s->n)
        return 0;
    void *sum = ctr_buf_extend(&s->sum, s->n, sizeof(uint64_t), &rc, err);
    if (rc)
        return rc;
    memset(sum, 0, (size_t)s->n * sizeof(uint64_t));
    for (int64_t i = 0; i < s->n; i++)
        add_weight(s, i, weight(s, i));
    return 0;
}

void ctr_items_count(struct ctr_items *s, int64_t item)
{
    const uint64_t before = s->sum.len ? weight(s, item) : 0;
    ((int64_t *)(void *)s->count.data)[item]++;
    if (s->sum.len)
        add_weight(s, item, weight(s, item) - before);
}

/* ---- drawing ---- */

struct draw {
    const struct ctr_items *s;
    int64_t user; /* -1: took nothing */
    const int64_t *drawn;
    int64_t n;
};

static bool allowed(const struct draw *d, int64_t item)
{
    for (int64_t i = 0; i < d->n; i++)
        if (d->drawn[i] == item)
            return false;
    return d->user < 0 || !ctr_keyindex_find(&d->s->taken, pair_of((uint32_t)d->user, item));
}

static uint64_t place(const struct ctr_items *s, int64_t row, int64_t turn, uint64_t sum)
{
    const uint64_t r = ctr_random64(s->seed, DRAW, (uint64_t)row << 20 | (uint64_t)turn);
    return (uint64_t)((unsigned __int128)r * sum >> 64);
}

/* Of all that are allowed; -1: none is. */
static int64_t draw_listed(const struct draw *d, int64_t row, int64_t turn, int64_t among)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < among; i++)
        sum += allowed(d, i) ? weight(d->s, i) : 0;
    if (!sum)
        return -1;
    uint64_t at = place(d->s, row, turn, sum);
    for (int64_t i = 0; i < among; i++) {
        const uint64_t w = allowed(d, i) ? weight(d->s, i) : 0;
        if (at < w)
            return i;
        at -= w;
    }
    return -1;
}

int64_t ctr_items_draw(const struct ctr_items *s, const struct ctr_keyvalue *user, int64_t row, int64_t among,
                       int64_t *drawn, int64_t n)
{
    struct draw d = { s, ctr_keyvalue_set_find(&s->users, user), drawn, 0 };
    const uint64_t sum = sum_of(s, among);
    int64_t turn = 0;
    while (d.n < n && sum) {
        int64_t item = -1;
        for (int i = 0; item < 0 && i < TRIES; i++) {
            item = item_at(s, place(s, row, turn++, sum));
            item = allowed(&d, item) ? item : -1;
        }
        if (item < 0 && (item = draw_listed(&d, row, turn++, among)) < 0)
            break;
        drawn[d.n++] = item;
    }
    return d.n;
}
