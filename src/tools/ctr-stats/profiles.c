/* SPDX-License-Identifier: Apache-2.0
 *
 * profiles: rows to profiles: values of columns as 64 bits, rows to slices. Threads share the columns. */
#include "tools/ctr-stats/profiles.h"

#include "common/metric/metric.h"

#include <math.h>
#include <stdlib.h>

/* ---- columns ---- */

enum { BLOCK = CTR_EXACT_BLOCK };

struct ctr_feed {
    uint64_t key[BLOCK], clicks[BLOCK];
    struct ctr_str text[BLOCK];
    int64_t rows[BLOCK];
    struct ctr_scratch scratch;
    struct ctr_buf entry_rows, entry_clicks;
    int column; /* that failed */
    int rc;
    struct ctr_err err;
};

static inline uint64_t float_key(double x)
{
    uint64_t u;
    x = isnan(x) ? NAN : x + 0.0; /* -0 + 0 is 0 */
    memcpy(&u, &x, sizeof u);
    return isnan(x) ? UINT64_C(0x7ff8) << 48 : u;
}

/* The values of rows [from, from + n) of a column that is not encoded; of nulls anything. */
static void take_keys(const struct ctr_col *c, int64_t from, int64_t n, uint64_t *key)
{
#define TAKE(type, expression)                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const type v = ((const type *)c->data)[from + i];                                                              \
        key[i] = (expression);                                                                                         \
    }                                                                                                                  \
    break
    switch (c->type) {
    case CTR_F64: TAKE(double, float_key(v));
    case CTR_F32: TAKE(float, float_key((double)v));
    case CTR_F16: TAKE(uint16_t, float_key((double)ctr_f16_to_f32(v)));
    case CTR_I8: TAKE(int8_t, (uint64_t)(int64_t)v);
    case CTR_I16: TAKE(int16_t, (uint64_t)(int64_t)v);
    case CTR_I32: TAKE(int32_t, (uint64_t)(int64_t)v);
    case CTR_TIME:
    case CTR_I64: TAKE(int64_t, (uint64_t)v);
    case CTR_U8: TAKE(uint8_t, v);
    case CTR_U16: TAKE(uint16_t, v);
    case CTR_U32: TAKE(uint32_t, v);
    case CTR_WKEY:
    case CTR_U64: TAKE(uint64_t, v);
    default: /* bool */
        for (int64_t i = 0; i < n; i++)
            key[i] = ctr_bit(c->data, from + i);
    }
#undef TAKE
}

/* Put the value of a row that is not null at [k] of the block. */
static void take_text(struct ctr_feed *f, const struct ctr_col *c, int64_t i, int64_t k)
{
    struct ctr_str s = ctr_col_str(c, i);
    s.p = s.n ? s.p : "";
    f->text[k] = s;
    f->key[k] = ctr_text_key(s.p, s.n);
}

/* Rows [from, from + n) of a column that is neither encoded nor a list, at most BLOCK. clicks: of the first of them;
 * step 0: all have this one. */
static int add_plain(struct ctr_profile *p, struct ctr_feed *f, const struct ctr_col *c, int64_t from, int64_t n,
                     const uint64_t *clicks, int step, int64_t *nulls, struct ctr_err *err)
{
    const bool text = c->type == CTR_UTF8;
    int64_t k = 0;
    if (!text)
        take_keys(c, from, n, f->key);
    if (!text && !c->valid && (step || !clicks)) {
        const struct ctr_block b = { .n = n, .key = f->key, .clicks = clicks };
        return ctr_profile_add(p, &b, &f->scratch, err);
    }
    for (int64_t i = 0; i < n; i++) {
        if (ctr_col_null(c, from + i))
            continue;
        if (text)
            take_text(f, c, from + i, k);
        else
            f->key[k] = f->key[i];
        f->clicks[k++] = clicks ? clicks[i * step] : 0;
    }
    *nulls += n - k;
    const struct ctr_block b = { k, f->key, text ? f->text : NULL, NULL, clicks ? f->clicks : NULL };
    return ctr_profile_add(p, &b, &f->scratch, err);
}

/* A range of any length of a column without lists, encoded or not. */
static int add_range(struct ctr_profile *p, struct ctr_feed *f, const struct ctr_col *c, int64_t from, int64_t to,
                     const uint64_t *clicks, int step, int64_t *nulls, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = from; !rc && !c->dict && i < to; i += BLOCK)
        rc =
            add_plain(p, f, c, i, CTR_MIN(BLOCK, to - i), clicks ? clicks + (i - from) * step : NULL, step, nulls, err);
    for (int64_t i = from; !rc && c->dict && i < to; i++) {
        int64_t at = i;
        if (ctr_col_missing(c, i)) {
            ++*nulls;
            continue;
        }
        const struct ctr_col *d = ctr_col_plain(c, &at);
        rc = add_plain(p, f, d, at, 1, clicks ? clicks + (i - from) * step : NULL, 0, nulls, err);
    }
    return rc;
}

/* Encoded rows: each entry is added once, with its rows. */
static int add_entries(struct ctr_profile *p, struct ctr_feed *f, const struct ctr_col *c, const uint64_t *clicks,
                       struct ctr_err *err)
{
    const struct ctr_col *d = c->dict;
    const int32_t *number = c->data;
    const bool text = d->type == CTR_UTF8;
    int rc = ctr_buf_room(&f->entry_rows, d->rows, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&f->entry_clicks, d->rows, sizeof(uint64_t), err);
    if (rc)
        return rc;
    int64_t *rows = (int64_t *)(void *)f->entry_rows.data, k = 0;
    uint64_t *sums = (uint64_t *)(void *)f->entry_clicks.data;
    memset(rows, 0, (size_t)d->rows * sizeof *rows);
    memset(sums, 0, (size_t)d->rows * sizeof *sums);
    for (int64_t i = 0; i < c->rows; i++) {
        if (ctr_col_missing(c, i))
            continue;
        rows[number[i]]++;
        sums[number[i]] += clicks ? clicks[i] : 0;
    }
    for (int64_t i = 0; !rc && i <= d->rows; i++) {
        if (k == BLOCK || (i == d->rows && k)) {
            const struct ctr_block b = { k, f->key, text ? f->text : NULL, f->rows, clicks ? f->clicks : NULL };
            rc = ctr_profile_add(p, &b, &f->scratch, err);
            k = 0;
        }
        if (i == d->rows || !rows[i])
            continue;
        if (text)
            take_text(f, d, i, k);
        else
            take_keys(d, i, 1, &f->key[k]);
        f->rows[k] = rows[i];
        f->clicks[k++] = sums[i];
    }
    return rc;
}

static int add_lists(struct ctr_profile *p, struct ctr_feed *f, const struct ctr_col *c, int32_t width,
                     const uint64_t *clicks, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < c->rows; i++) {
        int64_t from = 0, to = 0;
        const struct ctr_col *item = ctr_col_items(c, width, i, &from, &to);
        if (!item)
            continue;
        p->shortest = p->lists ? CTR_MIN(p->shortest, to - from) : to - from;
        p->longest = CTR_MAX(p->longest, to - from);
        p->lists++;
        p->items += to - from;
        if (to > from)
            rc = add_range(p, f, item, from, to, clicks ? clicks + i : NULL, 0, &p->null_items, err);
    }
    return rc;
}

/* The rows of a column: clicks NULL: none. */
static int add_column(struct ctr_profile *p, struct ctr_feed *f, const struct ctr_col *c, int32_t width,
                      const uint64_t *clicks, struct ctr_err *err)
{
    int64_t nulls = 0;
    p->rows += c->rows;
    for (int64_t i = 0; i < c->rows && (clicks || c->valid || c->dict); i++) {
        const bool null = ctr_col_missing(c, i);
        p->nulls += null;
        p->clicks += clicks ? clicks[i] : 0;
        p->null_clicks += clicks && null ? clicks[i] : 0;
    }
    if (p->list)
        return add_lists(p, f, c, width, clicks, err);
    if (c->dict && c->dict->rows <= 2 * c->rows)
        return add_entries(p, f, c, clicks, err);
    return add_range(p, f, c, 0, c->rows, clicks, 1, &nulls, err);
}

/* With --by site, a batch of the rows a b a c, of which a and b had rows before:
 *
 *     number_rows    number 0 1 0 2: slices, in order of first occurrence; c is new
 *     add_by_slice   start 0 2 3 4, order 0 2 1 3: rows of one slice side by side (a counting sort)
 *     add_rows       three batches, of rows 0 2, 1 and 3; columns of each are tasks for the threads
 *
 * A column of a batch becomes blocks of up to 2,048 values of 64 bits: numbers as they are (-0 as 0, one NaN), texts as
 * a hash beside the text. An encoded column adds each entry of its dictionary once, with its number of rows. */

/* ---- slices ---- */

int ctr_profiles_slice_init(struct ctr_slice *s, const struct ctr_schema *schema, const char *label,
                            struct ctr_err *err)
{
    int rc = 0;
    s->column = calloc((size_t)schema->n + 1, sizeof *s->column);
    if (!s->column)
        return ctr_fail_nomem(err, (size_t)schema->n * sizeof *s->column);
    for (int i = 0; !rc && i < schema->n; i++)
        rc = ctr_profile_init(&s->column[i], &schema->f[i], label && strcmp(label, schema->f[i].name), err);
    return rc;
}

void ctr_profiles_slice_free(struct ctr_slice *s, int columns)
{
    for (int i = 0; s->column && i < columns; i++)
        ctr_profile_free(&s->column[i]);
    free(s->column);
    free(s->by);
}

static uint64_t slice_hash(const char *by, int64_t by_n, int64_t window_ms)
{
    return ctr_hash64(by ? by : "", (size_t)by_n, ctr_mix64((uint64_t)window_ms ^ ctr_hash_secret) + !by);
}

int ctr_profiles_slice(struct ctr_profiles *p, const char *by, int64_t by_n, int64_t window_ms, int *number,
                       struct ctr_err *err)
{
    const uint64_t hash = slice_hash(by, by_n, window_ms);
    for (const struct ctr_index_slot *s = ctr_index_find(&p->index, hash); s; s = ctr_index_next(&p->index, s)) {
        const struct ctr_slice *at = &p->slice[s->number];
        if (at->window_ms == window_ms && at->by_n == by_n && !at->by == !by &&
            (!by || !memcmp(at->by, by, (size_t)by_n))) {
            *number = (int)s->number;
            return 0;
        }
    }
    if (p->n == CTR_PROFILES_SLICES)
        return ctr_fail(err, CTR_EUSAGE,
                        "more than %d slices, each with its profile: --by wants a column of fewer values, --window "
                        "longer windows (or choose rows first, with ctr-select --where)",
                        CTR_PROFILES_SLICES);
    int rc = ctr_array_grow(&p->slice, p->n, &p->cap, sizeof *p->slice, err);
    if (rc)
        return rc;
    struct ctr_slice *s = &p->slice[p->n];
    *s = (struct ctr_slice){ .by_n = by_n, .window_ms = window_ms };
    *number = p->n++;
    if (by)
        rc = ctr_memdup(&s->by, by, (size_t)by_n, err);
    if (!rc)
        rc = ctr_profiles_slice_init(s, &p->schema, p->label, err);
    return rc ? rc : ctr_index_add(&p->index, hash, (uint32_t)*number, err);
}

static int compare_slices(const void *x, const void *y)
{
    const struct ctr_slice *a = x, *b = y;
    int c = !a->by - !b->by;
    if (!c && a->by)
        c = memcmp(a->by, b->by, (size_t)CTR_MIN(a->by_n, b->by_n));
    if (!c)
        c = (a->by_n > b->by_n) - (a->by_n < b->by_n);
    return c ? c : (a->window_ms > b->window_ms) - (a->window_ms < b->window_ms);
}

void ctr_profiles_sort(struct ctr_profiles *p)
{
    if (p->n)
        qsort(p->slice, (size_t)p->n, sizeof *p->slice, compare_slices);
}

int ctr_profiles_merge(struct ctr_profiles *p, const struct ctr_profiles *other, struct ctr_err *err)
{
    int rc = 0, number;
    for (int i = 0; !rc && i < other->n; i++) {
        const struct ctr_slice *s = &other->slice[i];
        rc = ctr_profiles_slice(p, s->by, s->by_n, s->window_ms, &number, err);
        for (int k = 0; !rc && k < p->schema.n; k++)
            rc = ctr_profile_merge(&p->slice[number].column[k], &s->column[k], err);
    }
    return rc;
}

/* ---- batches ---- */

struct task {
    struct ctr_profiles *p;
    struct ctr_slice *slice;
    const struct ctr_batch *b;
    const uint64_t *clicks;
};

static void add_task(void *ctx, int64_t task, int worker)
{
    const struct task *t = ctx;
    struct ctr_feed *f = t->p->feed[worker];
    const int column = (int)task;
    struct ctr_profile *p = &t->slice->column[column];
    struct ctr_err err = { 0 };
    const int rc =
        add_column(p, f, &t->b->col[column], t->p->schema.f[column].width, p->labelled ? t->clicks : NULL, &err);
    if (rc && (!f->rc || column < f->column)) {
        f->rc = rc;
        f->err = err;
        f->column = column;
    }
}

static int add_rows(struct ctr_profiles *p, int slice, const struct ctr_batch *b, const uint64_t *clicks,
                    struct ctr_err *err)
{
    struct task t = { p, &p->slice[slice], b, clicks };
    const struct ctr_feed *failed = NULL;
    ctr_pool_run(p->pool, p->schema.n, add_task, &t);
    for (int i = 0; i < CTR_MAX(1, ctr_pool_threads(p->pool)); i++)
        if (p->feed[i]->rc && (!failed || p->feed[i]->column < failed->column))
            failed = p->feed[i];
    if (!failed)
        return 0;
    *err = failed->err;
    return failed->rc;
}

static int take_labels(struct ctr_profiles *p, const struct ctr_batch *b, struct ctr_err *err)
{
    const double *label;
    int rc = ctr_col_checked(&b->col[p->label_column], CTR_ROLE_LABEL, p->label, b->first_row, &p->labels, &label, err);
    if (!rc)
        rc = ctr_buf_room(&p->clicks, b->rows, sizeof(uint64_t), err);
    for (int64_t i = 0; !rc && i < b->rows; i++)
        ((uint64_t *)(void *)p->clicks.data)[i] = (uint64_t)(label[i] * (double)CTR_CLICK + .5);
    return rc;
}

/* The slice of each row. */
static int number_rows(struct ctr_profiles *p, const struct ctr_batch *b, int32_t *number, struct ctr_err *err)
{
    int rc = p->window_ms ? ctr_eval_check_time(b, p->time_column, err) : 0, slice;
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        int64_t window = 0;
        ctr_buf_clear(&p->text);
        const bool null = p->by_column < 0 || ctr_col_missing(&b->col[p->by_column], i);
        if (!null)
            rc = ctr_buf_reserve(&p->text, 1, err);
        if (!rc && !null)
            rc = ctr_col_text(&b->col[p->by_column], i, &p->text, err);
        if (p->window_ms)
            window = ctr_eval_window(ctr_col_i64(&b->col[p->time_column], i), p->window_ms);
        if (!rc)
            rc = ctr_profiles_slice(p, null ? NULL : (const char *)p->text.data, (int64_t)p->text.len, window, &slice,
                                    err);
        if (!rc)
            number[i] = slice;
    }
    return rc;
}

/* The rows of each slice together, as a batch of their own. */
static int add_by_slice(struct ctr_profiles *p, const struct ctr_batch *b, const uint64_t *clicks, struct ctr_err *err)
{
    int rc = ctr_buf_room(&p->number, b->rows, sizeof(int32_t), err);
    if (!rc)
        rc = number_rows(p, b, (int32_t *)(void *)p->number.data, err);
    if (!rc)
        rc = ctr_buf_room(&p->order, b->rows + 2 * (p->n + 1), sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&p->some, b->rows, sizeof(uint64_t), err);
    if (rc)
        return rc;
    const int32_t *number = (const int32_t *)(const void *)p->number.data;
    int64_t *order = (int64_t *)(void *)p->order.data, *start = order + b->rows, *at = start + p->n + 1;
    uint64_t *some = (uint64_t *)(void *)p->some.data;
    memset(start, 0, (size_t)(p->n + 1) * sizeof *start);
    for (int64_t i = 0; i < b->rows; i++)
        start[number[i] + 1]++;
    for (int i = 0; i < p->n; i++) {
        start[i + 1] += start[i];
        at[i] = start[i];
    }
    for (int64_t i = 0; i < b->rows; i++)
        order[at[number[i]]++] = i;
    for (int i = 0; !rc && i < p->n; i++) {
        const int64_t n = start[i + 1] - start[i];
        if (!n)
            continue;
        for (int64_t k = 0; clicks && k < n; k++)
            some[k] = clicks[order[start[i] + k]];
        ctr_batchbuf_clear(&p->gathered);
        rc = ctr_batchbuf_gather(&p->gathered, b, order + start[i], n, err);
        if (!rc)
            rc = add_rows(p, i, ctr_batchbuf_view(&p->gathered), clicks ? some : NULL, err);
    }
    return rc;
}

int ctr_profiles_batch(struct ctr_profiles *p, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = p->label_column >= 0 ? take_labels(p, b, err) : 0;
    const uint64_t *clicks = p->label_column >= 0 ? (const uint64_t *)(const void *)p->clicks.data : NULL;
    if (rc || !b->rows)
        return rc;
    return p->by || p->window_ms ? add_by_slice(p, b, clicks, err) : add_rows(p, 0, b, clicks, err);
}

/* ---- all ---- */

int ctr_profiles_new(struct ctr_profiles **out, const struct ctr_schema *s, int label, int by, int time,
                     int64_t window_ms, struct ctr_pool *pool, struct ctr_err *err)
{
    const int threads = CTR_MAX(1, ctr_pool_threads(pool));
    struct ctr_profiles *p = calloc(1, sizeof *p);
    int slice;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->by_column = by;
    p->label_column = label;
    p->time_column = time;
    p->window_ms = window_ms;
    p->pool = pool;
    p->feed = calloc((size_t)threads + 1, sizeof(*p->feed));
    int rc = p->feed ? 0 : ctr_fail_nomem(err, sizeof *p->feed);
    for (int i = 0; !rc && i < threads; i++)
        if (!(p->feed[i] = calloc(1, sizeof **p->feed)))
            rc = ctr_fail_nomem(err, sizeof **p->feed);
    if (!rc)
        rc = ctr_schema_copy(&p->schema, s, err);
    if (!rc && by >= 0)
        rc = ctr_strdup(&p->by, s->f[by].name, err);
    if (!rc && label >= 0)
        rc = ctr_strdup(&p->label, s->f[label].name, err);
    if (!rc)
        rc = ctr_batchbuf_init(&p->gathered, &p->schema, err);
    if (!rc && by < 0 && !window_ms)
        rc = ctr_profiles_slice(p, NULL, 0, 0, &slice, err);
    if (rc)
        ctr_profiles_free(p);
    else
        *out = p;
    return rc;
}

void ctr_profiles_free(struct ctr_profiles *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n; i++)
        ctr_profiles_slice_free(&p->slice[i], p->schema.n);
    for (int i = 0; p->feed && p->feed[i]; i++) {
        ctr_buf_free(&p->feed[i]->entry_rows);
        ctr_buf_free(&p->feed[i]->entry_clicks);
        free(p->feed[i]);
    }
    free(p->feed);
    free(p->slice);
    free(p->by);
    free(p->label);
    ctr_index_free(&p->index);
    ctr_batchbuf_free(&p->gathered);
    struct ctr_buf *buf[] = { &p->number, &p->order, &p->text, &p->labels, &p->clicks, &p->some };
    for (size_t i = 0; i < CTR_COUNT(buf); i++)
        ctr_buf_free(buf[i]);
    ctr_schema_free(&p->schema);
    free(p);
}
