/* SPDX-License-Identifier: Apache-2.0
 *
 * eval: assigns rows to slices (evalslices.c), and finishes each slice.
 *
 * A slice keeps running sums. If a metric ranks, the total has all rows as compact entries (sample.h), and for every
 * slicing column an array gives the slice of each entry; at the end each slice's sample is made from it. Rows enter a
 * slice in input order, so its sums do not depend on batches. */
#include "common/metric/evalstate.h"

#include <math.h>
#include <stdlib.h>

/* ---- life ---- */

static bool is_narrow(const struct ctr_field *f)
{
    return f->type != CTR_F64; /* every other number type in [0, 1] fits float32 */
}

int ctr_eval_new(struct ctr_eval **out, const struct ctr_schema *s, const struct ctr_eval_opts *o, struct ctr_err *err)
{
    struct ctr_eval *e;
    int rc = ctr_metric_columns_check(&o->columns, s, err);

    *out = NULL;
    if (rc)
        return rc;
    e = calloc(1, sizeof *e);
    if (!e)
        return ctr_fail_nomem(err, sizeof *e);
    e->o = *o;
    e->sides = o->control ? 2 : 1;
    e->units = o->bootstrap > 0 || (o->needs & CTR_NEED_USERS && o->columns.user >= 0);
    e->losses = o->needs & CTR_NEED_LOSS;
    e->samples = o->needs & ~(unsigned)(CTR_NEED_LOSS | CTR_NEED_GAPS) || e->units || o->keep;
    e->narrow[0] = is_narrow(&s->f[o->columns.score]);
    e->narrow[1] = o->narrow_control;
    e->by = malloc((size_t)(o->nby + 1) * sizeof *e->by);
    e->values = calloc((size_t)(o->nby + 1), sizeof *e->values);
    e->rows_of = calloc(2 * (size_t)(o->nby + 1), sizeof *e->rows_of);
    if (!e->by || !e->values || !e->rows_of) {
        free(e->by);
        free(e->values);
        free(e->rows_of);
        free(e);
        return ctr_fail_nomem(err, (size_t)o->nby * sizeof *e->by);
    }
    if (o->nby)
        memcpy(e->by, o->by, (size_t)o->nby * sizeof *e->by);
    *out = e;
    return 0;
}

/* In value order slices are scattered in memory: prefetch the one after slice i. */
static void ask_for_next(const struct ctr_eval *e, int64_t i)
{
    enum { AHEAD = 8 };
    const char *s = i + AHEAD < e->n ? (const char *)e->slice[i + AHEAD] : NULL;

    for (size_t at = 0; s && at < sizeof(struct ctr_slice); at += CTR_LINE)
        __builtin_prefetch(s + at);
}

void ctr_eval_free(struct ctr_eval *e)
{
    if (!e)
        return;
    for (int64_t i = 0; i < e->n; i++) {
        ask_for_next(e, i);
        ctr_slice_free(e->slice[i]);
    }
    free(e->slice);
    for (int by = 0; by < e->o.nby; by++) {
        ctr_memo_free(&e->values[by].memo);
        ctr_buf_free(&e->values[by].value);
    }
    free(e->values);
    free(e->by);
    for (int i = 0; i < 2 * (e->o.nby + 1); i++) {
        ctr_buf_free(&e->rows_of[i].token);
        ctr_buf_free(&e->rows_of[i].entry);
    }
    free(e->rows_of);
    ctr_buf_free(&e->forward);
    ctr_buf_free(&e->entry);
    ctr_idmap_free(&e->slices);
    ctr_idmap_free(&e->users);
    ctr_idtexts_free(&e->user_texts);
    ctr_metric_rows_free(&e->rows);
    ctr_buf_free(&e->loss[0]);
    ctr_buf_free(&e->loss[1]);
    ctr_buf_free(&e->unit);
    ctr_buf_free(&e->text);
    ctr_buf_free(&e->no_user);
    ctr_buf_free(&e->run[0]);
    ctr_buf_free(&e->run[1]);
    ctr_memo_free(&e->memo);
    free(e);
}

/* For example, --by ad with the rows (score, label, ad) .2 0 x, .7 1 y, .4 1 x:
 *
 *     entry   .2 0   .7 1   .4 1      of the total, once for all slicing columns; only where a metric ranks
 *     token    x      y      x        4 bytes a row and slicing column: a number for "ad = x"
 *     sums    all, x, y               rows, label, score, losses: each row adds to the total and to its slice
 *
 * At the end, entries are sorted by token, and each run of them is the sample of a slice: x has .2 0 and .4 1, AUC 1.
 * So a row without weight and user takes 4 or 8 bytes for its entry and 4 for each token, whatever the number of
 * slices. The plain versions, all pairs of a click and a non-click and sums in loops, are in
 * tests/unit/unit-metric.c. */

/* ---- rows ---- */

/* A batch of input. */
struct incoming {
    const struct ctr_batch *b;
    const struct ctr_col *time; /* NULL: no windows */
    const double *control;      /* or NULL */
};

struct row {
    int64_t i; /* in its batch */
    double y, w;
    uint32_t unit;
    double p[2], loss[2];
};

static inline int slice_add(struct ctr_eval *e, uint32_t id, const struct row *r, struct ctr_err *err)
{
    for (int side = 0; side < e->sides; side++) {
        struct ctr_running *t = ctr_slice_run(e, side, id);
        double d = r->p[side] - r->y;
        t->rows++;
        t->weight += r->w;
        t->label += r->w * r->y;
        t->score += r->w * r->p[side];
        t->log_loss += r->w * r->loss[side];
        t->squared += r->w * (d * d);
    }
    if (e->o.bootstrap && r->y > 0 && r->y < 1) {
        struct ctr_fraction f = { r->unit, r->w * r->y * (1 - r->y) };
        return ctr_buf_append(&e->slice[id]->parts->fractions, &f, sizeof f, err);
    }
    return 0;
}

static inline void row_get(const struct ctr_eval *e, const double *control, int64_t i, struct row *r)
{
    r->i = i;
    r->y = e->rows.label[i];
    r->w = e->rows.weight ? e->rows.weight[i] : 1;
    r->unit = e->units ? ((const uint32_t *)e->unit.data)[i] : 0;
    r->p[0] = e->rows.score[i] + 0.0; /* -0 becomes 0 */
    r->loss[0] = e->losses ? ((const double *)e->loss[0].data)[i] : 0;
    if (control) {
        r->p[1] = control[i] + 0.0;
        r->loss[1] = e->losses ? ((const double *)e->loss[1].data)[i] : 0;
    }
}

int64_t ctr_eval_window(int64_t time, int64_t window_ms)
{
    int64_t into = time % window_ms;

    into += into < 0 ? window_ms : 0;
    return time < INT64_MIN + into ? INT64_MIN : time - into;
}

static int64_t window_of(const struct ctr_eval *e, const struct ctr_col *time, int64_t i)
{
    return ctr_eval_window(ctr_col_i64(time, i), e->o.window_ms);
}

/* ---- the entries of rows ---- */

/* Number of entries of a row in a sample: two for a fractional label. */
static inline int64_t entries_of(double label, double weight)
{
    return 1 + (label > 0 && label < 1 && weight != 0);
}

/* Position of the total's entries for each row of the batch, before they are added. */
static int find_entries(struct ctr_eval *e, struct ctr_err *err)
{
    const struct ctr_metric_rows *r = &e->rows;
    const bool whole = r->whole;
    int64_t *at, end;
    int rc = whole ? 0 : ctr_buf_reserve(&e->entry, (size_t)(r->n + 1) * sizeof *at, err);

    if (rc)
        return rc;
    at = (int64_t *)e->entry.data;
    end = e->first = e->slice[0]->parts->sample[0].n;
    for (int64_t i = 0; !whole && i < r->n; i++) {
        at[i] = end;
        end = at[i + 1] = end + entries_of(r->label[i], r->weight ? r->weight[i] : 1);
    }
    e->entry.len = whole ? 0 : (size_t)(r->n + 1) * sizeof *at;
    if (end + (whole ? r->n : 0) <= UINT32_MAX)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "slices take 4,294,967,295 rows at most in order of score: leave auc, auc_loss and gauc out with "
                    "--metrics");
}

/* Assign row i's entries to a slice. There is room for two. */
static inline void give_row(const struct ctr_eval *e, struct ctr_slice_rows *to, uint32_t token, bool list, int64_t i)
{
    const int64_t *at = (const int64_t *)(const void *)e->entry.data;
    int64_t from = e->entry.len ? at[i] : e->first + i, end = e->entry.len ? at[i + 1] : from + 1;

    for (int64_t k = from; k < end; k++) {
        uint32_t entry = (uint32_t)k;
        memcpy(to->token.data + to->token.len, &token, sizeof token);
        to->token.len += sizeof token;
        if (!list)
            continue;
        memcpy(to->entry.data + to->entry.len, &entry, sizeof entry);
        to->entry.len += sizeof entry;
    }
}

static int give_room(const struct ctr_eval *e, struct ctr_slice_rows *to, bool list, int64_t rows, struct ctr_err *err)
{
    size_t bytes = 2 * (size_t)rows * sizeof(uint32_t);
    int rc = e->samples ? ctr_buf_reserve(&to->token, bytes, err) : 0;

    return rc || !list || !e->samples ? rc : ctr_buf_reserve(&to->entry, bytes, err);
}

/* Add a row to the slice of a value, and to its window. `list`: the value is an item of a list. */
static inline int add_to(struct ctr_eval *e, const struct incoming *in, const struct ctr_slice_value *v,
                         const struct row *r, bool list, struct ctr_err *err)
{
    const uint64_t hash = ctr_slice_hash(v);
    const int64_t number = in->b->first_row + r->i;
    struct ctr_slice_rows *to = &e->rows_of[2 * (v->by + 1)]; /* of the values, then of their windows */
    struct ctr_running *t;
    uint32_t id;
    int rc;

    if ((rc = ctr_slice_find(e, v, hash, false, 0, &id, err)))
        return rc;
    t = ctr_slice_run(e, 0, id);
    if (t->last_row == number)
        return 0; /* an item repeated within its list */
    t->last_row = number;
    if ((rc = slice_add(e, id, r, err)))
        return rc;
    if (e->samples)
        give_row(e, &to[0], t->token, list, r->i);
    if (!in->time)
        return 0;
    if ((rc = ctr_slice_find(e, v, hash, true, window_of(e, in->time, r->i), &id, err)) ||
        (rc = slice_add(e, id, r, err)))
        return rc;
    if (e->samples)
        give_row(e, &to[1], ctr_slice_run(e, 0, id)->token, list, r->i);
    return 0;
}

/* Like slice_add for rows of weight 1, with the sums in registers. */
static void sum_rows(struct ctr_running *to, const struct ctr_metric_rows *r, const double *loss)
{
    struct ctr_running t = *to;

    for (int64_t i = 0; i < r->n; i++) {
        double y = r->label[i], p = r->score[i], d = p - y;
        t.label += y;
        t.score += p;
        t.squared += d * d;
        t.log_loss += loss ? loss[i] : 0;
    }
    t.rows += r->n;
    *to = t;
}

/* No weights, control or intervals: the common case. */
static bool is_plain(const struct ctr_eval *e)
{
    return e->sides == 1 && !e->rows.weight && !e->o.bootstrap;
}
static const double *plain_losses(const struct ctr_eval *e)
{
    return e->losses ? (const double *)(const void *)e->loss[0].data : NULL;
}

static int add_all(struct ctr_eval *e, const struct incoming *in, struct ctr_err *err)
{
    const double *const scores[] = { e->rows.score, in->control };
    struct ctr_slice_value all = { -1, NULL, 0 };
    struct row r = { 0 };
    uint32_t id;
    int rc = ctr_slice_get(e, &all, false, 0, &id, err);

    if (!rc && e->samples && (e->o.nby || e->o.window_ms > 0))
        rc = find_entries(e, err);
    for (int side = 0; !rc && e->samples && side < e->sides; side++)
        rc = ctr_sample_push_rows(&e->slice[id]->parts->sample[side], scores[side], &e->rows,
                                  (const uint32_t *)(const void *)e->unit.data, err);
    if (!rc && is_plain(e)) {
        sum_rows(ctr_slice_run(e, 0, id), &e->rows, plain_losses(e));
        return 0;
    }
    for (int64_t i = 0; !rc && i < in->b->rows; i++) {
        row_get(e, in->control, i, &r);
        rc = slice_add(e, id, &r, err);
    }
    return rc;
}

/* The windows of all rows: like add_to without the total slice. */
static int add_windows(struct ctr_eval *e, const struct incoming *in, struct ctr_err *err)
{
    struct ctr_slice_value all = { -1, NULL, 0 };
    struct ctr_slice_rows *to = &e->rows_of[1];
    struct row r = { 0 };
    uint32_t id;
    int rc = give_room(e, to, false, in->b->rows, err);

    for (int64_t i = 0; !rc && i < in->b->rows; i++) {
        row_get(e, in->control, i, &r);
        if (!(rc = ctr_slice_get(e, &all, true, window_of(e, in->time, i), &id, err)) &&
            !(rc = slice_add(e, id, &r, err)) && e->samples)
            give_row(e, to, ctr_slice_run(e, 0, id)->token, false, i);
    }
    return rc;
}

/* Add rows from `from` on, one by one: their slices may be new, and others may be merged into the rest. */
static int add_tile(struct ctr_eval *e, int by, const struct incoming *in, int64_t from, int64_t n, struct ctr_err *err)
{
    struct row r = { 0 };
    int rc = 0;

    for (int64_t i = from; !rc && i < from + n; i++) {
        struct ctr_slice_value v = { by, &in->b->col[e->by[by]], i };
        if ((rc = ctr_slices_bound(e, by, err)))
            break;
        row_get(e, in->control, i, &r);
        rc = add_to(e, in, &v, &r, false, err);
    }
    return rc;
}

/* Add rows whose slices all exist, in the common case: like add_tile, without its look-ups. */
static void add_known(struct ctr_eval *e, int by, int64_t from, const uint32_t *id, int64_t n)
{
    typedef double pair __attribute__((vector_size(2 * sizeof(double))));
    static const double none[CTR_MEMO_TILE];
    const double *score = e->rows.score + from, *label = e->rows.label + from;
    const double *loss = plain_losses(e) ? plain_losses(e) + from : none;
    struct ctr_running *run = ctr_slice_run(e, 0, 0);
    struct ctr_slice_rows *to = &e->rows_of[2 * (by + 1)];
    uint32_t *token = (uint32_t *)(void *)(to->token.data + to->token.len);

    for (int64_t k = 0; k < n; k++) {
        struct ctr_running *t = &run[id[k]];
        pair *sums = (pair *)(void *)&t->label; /* and score; log_loss and squared */
        double p = score[k] + 0.0, y = label[k], d = p - y;
        t->rows++;
        sums[0] += (pair){ y, p };
        sums[1] += (pair){ loss[k], d * d };
    }
    if (!e->samples)
        return;
    if (e->entry.len) { /* rows have one entry or two */
        for (int64_t k = 0; k < n; k++)
            give_row(e, to, run[id[k]].token, false, from + k);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        token[k] = run[id[k]].token;
    to->token.len += (size_t)n * sizeof *token;
}

/* One value per row. */
static int add_scalars(struct ctr_eval *e, int by, const struct incoming *in, struct ctr_err *err)
{
    const int64_t rows = in->b->rows;
    const struct ctr_col *col = &in->b->col[e->by[by]];
    struct ctr_slice_rows *to = &e->rows_of[2 * (by + 1)];
    uint32_t id[CTR_MEMO_TILE];
    bool plain = is_plain(e) && !in->time, all;
    int rc = ctr_memo_batch(&e->values[by].memo, col, err);

    if (rc || (rc = give_room(e, &to[0], false, rows, err)) ||
        (in->time && (rc = give_room(e, &to[1], false, rows, err))))
        return rc;
    for (int64_t from = 0; from < rows; from += CTR_MEMO_TILE) {
        int64_t n = CTR_MIN(CTR_MEMO_TILE, rows - from);
        if ((rc = ctr_slices_bound(e, by, err)) || (rc = ctr_slices_known(e, by, col, from, n, id, &all, err)))
            return rc;
        if (all && plain)
            add_known(e, by, from, id, n);
        else if ((rc = add_tile(e, by, in, from, n, err)))
            return rc;
    }
    return 0;
}

static int add_lists(struct ctr_eval *e, int by, const struct incoming *in, struct ctr_err *err)
{
    const struct ctr_field *f = &in->b->schema->f[e->by[by]];
    const struct ctr_col *col = &in->b->col[e->by[by]];
    struct ctr_slice_rows *to = &e->rows_of[2 * (by + 1)];
    struct row r = { 0 };
    int rc = 0;

    for (int64_t i = 0; !rc && i < in->b->rows; i++) {
        struct ctr_slice_value v = { by, col, i };
        int64_t from = i, end = i + 1;
        if ((rc = ctr_slices_bound(e, by, err))) /* between rows, because a list may contain a value twice */
            break;
        row_get(e, in->control, i, &r);
        v.col = ctr_col_items(col, f->width, i, &from, &end);
        v.col = v.col ? v.col : col; /* null is a slice */
        if ((rc = give_room(e, &to[0], true, end - from, err)) ||
            (in->time && (rc = give_room(e, &to[1], true, end - from, err))))
            break;
        for (v.i = from; !rc && v.i < end; v.i++)
            rc = add_to(e, in, &v, &r, true, err);
    }
    return rc;
}

/* ---- batches ---- */

static int losses(struct ctr_buf *buf, const double *score, const double *label, int64_t n, struct ctr_err *err)
{
    int rc;

    ctr_buf_clear(buf);
    if ((rc = ctr_buf_reserve(buf, (size_t)n * sizeof(double), err)))
        return rc;
    ctr_log_losses(score, label, n, (double *)(void *)buf->data);
    return 0;
}

/* The id of rows without a user: one for all of them or, if resampled by user, one each. */
static int no_user_id(struct ctr_eval *e, uint32_t *id, struct ctr_err *err)
{
    size_t bytes;
    int rc;

    *id = e->last_no_user;
    if (e->without_user++ && !e->o.bootstrap)
        return 0;
    if ((rc = ctr_idmap_next(&e->users, id, err)))
        return rc;
    bytes = *id / 8 + 1;
    if (bytes > e->no_user.len) {
        if ((rc = ctr_buf_reserve(&e->no_user, bytes - e->no_user.len, err)))
            return rc;
        memset(e->no_user.data + e->no_user.len, 0, bytes - e->no_user.len);
        e->no_user.len = bytes;
    }
    ctr_bits_set(e->no_user.data, *id, 1);
    e->last_no_user = *id;
    return 0;
}

/* The id of a user that is not in the memo. A small number has no slot in the map, which would outgrow the cache.
 */
static int user_id(struct ctr_eval *e, const struct ctr_col *user, int64_t i, uint64_t hash, uint32_t *id,
                   struct ctr_err *err)
{
    struct ctr_idmap *m = &e->users;
    const bool text = user->type == CTR_UTF8 && !ctr_col_missing(user, i);
    bool learnt;
    int rc;

    if (!e->o.null_user && ctr_col_missing(user, i))
        return no_user_id(e, id, err);
    if (ctr_memo_find(&e->memo, user, i, 1, id)) /* added meanwhile */
        return 0;
    *id = m->index.taken ? ctr_idmap_slot(m, hash)->number : UINT32_MAX;
    if (*id != UINT32_MAX && text && !ctr_idtexts_same(&e->user_texts, *id, ctr_col_str(user, i)))
        return ctr_fail(err, CTR_EDATA, CTR_SAME_HASH);
    if (*id != UINT32_MAX)
        return ctr_memo_learn(&e->memo, user, i, *id, m->n, &learnt, err);
    if ((rc = ctr_memo_learn(&e->memo, user, i, (uint32_t)m->n, m->n, &learnt, err)))
        return rc;
    rc = learnt ? ctr_idmap_next(m, id, err) : ctr_idmap_get(m, hash, id, err);
    return rc || !text ? rc : ctr_idtexts_add(&e->user_texts, *id, ctr_col_str(user, i), err);
}

static int user_ids(struct ctr_eval *e, const struct ctr_col *user, uint32_t *unit, struct ctr_err *err)
{
    uint64_t hash[CTR_MEMO_TILE];
    int rc = ctr_memo_batch(&e->memo, user, err);

    for (int64_t from = 0; !rc && from < user->rows; from += CTR_MEMO_TILE) {
        int64_t n = CTR_MIN(CTR_MEMO_TILE, user->rows - from);
        uint32_t *id = unit + from;
        if (ctr_memo_find(&e->memo, user, from, n, id))
            continue;
        for (int64_t k = 0; k < n; k++)
            if (id[k] == UINT32_MAX)
                ctr_idmap_prefetch(&e->users, hash[k] = ctr_value_hash(user, from + k));
        for (int64_t k = 0; !rc && k < n; k++)
            if (id[k] == UINT32_MAX)
                rc = user_id(e, user, from + k, hash[k], &id[k], err);
    }
    return rc;
}

static int units(struct ctr_eval *e, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *user = e->o.columns.user >= 0 ? &b->col[e->o.columns.user] : NULL;
    uint32_t *unit;
    int rc;

    if (!user && e->seen + b->rows > UINT32_MAX)
        return ctr_fail(err, CTR_ENOMEM, "--bootstrap takes 4,294,967,295 rows at most");
    ctr_buf_clear(&e->unit);
    if ((rc = ctr_buf_reserve(&e->unit, (size_t)b->rows * sizeof *unit, err)))
        return rc;
    unit = (uint32_t *)e->unit.data;
    for (int64_t i = 0; !user && i < b->rows; i++)
        unit[i] = (uint32_t)(e->seen + i);
    return user ? user_ids(e, user, unit, err) : 0;
}

int ctr_eval_check_time(const struct ctr_batch *b, int column, struct ctr_err *err)
{
    for (int64_t i = 0; i < b->rows; i++)
        if (ctr_col_missing(&b->col[column], i))
            return ctr_fail(err, CTR_EDATA, "row %lld: the time (column %s) is null, so it is in no window",
                            (long long)(b->first_row + i + 1), b->schema->f[column].name);
    return 0;
}

/* Check that memory suffices for the data, and for sorting it at the end. */
static int check_memory(const struct ctr_eval *e, struct ctr_err *err)
{
    int64_t need = e->held + (e->users.index.cap + e->slices.index.cap) * (int64_t)sizeof *e->users.index.slot +
                   ctr_memo_bytes(&e->memo) + (int64_t)(e->user_texts.bytes.cap + e->user_texts.end.cap) +
                   (int64_t)(e->no_user.cap + e->run[0].cap + e->run[1].cap),
            sorting = 0;

    if (!e->o.memory_bytes || !e->n)
        return 0;
    for (int i = 0; i < 2 * (e->o.nby + 1); i++)
        need += (int64_t)(e->rows_of[i].token.cap + e->rows_of[i].entry.cap);
    for (int by = 0; by < e->o.nby; by++)
        need += ctr_memo_bytes(&e->values[by].memo) + (int64_t)e->values[by].value.cap;
    for (int side = 0; side < e->sides; side++) { /* the total is the longest slice */
        const struct ctr_sample *m = &e->slice[0]->parts->sample[side];
        need += ctr_sample_bytes(m);
        sorting = CTR_MAX(sorting, ctr_sample_sort_bytes(m));
    }
    if (e->o.nby || e->o.window_ms > 0) { /* the entries by slice and a copy per slice */
        int64_t n = e->slice[0]->parts->sample[0].n;
        sorting = CTR_MAX(sorting + n * (int64_t)sizeof(uint32_t), 2 * n * (int64_t)sizeof(uint64_t));
    }
    if (need + sorting <= e->o.memory_bytes)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "--memory does not hold the %lld rows so far in order of score: %s are needed for them; give "
                    "more, or leave auc, auc_loss and gauc out with --metrics%s",
                    (long long)e->seen, ctr_size_text_beyond((uint64_t)(need + sorting), (uint64_t)e->o.memory_bytes).s,
                    e->o.nby ? ", or show fewer slices with --slices" : "");
}

int ctr_eval_batch(struct ctr_eval *e, const struct ctr_batch *b, const double *control, struct ctr_err *err)
{
    const struct ctr_col *time = e->o.window_ms > 0 ? &b->col[e->o.columns.time] : NULL;
    int rc;

    if ((rc = ctr_metric_rows_load(&e->rows, &e->o.columns, b, err)) ||
        (time && (rc = ctr_eval_check_time(b, e->o.columns.time, err))))
        return rc;
    if (e->losses && (rc = losses(&e->loss[0], e->rows.score, e->rows.label, b->rows, err)))
        return rc;
    if (e->losses && control && (rc = losses(&e->loss[1], control, e->rows.label, b->rows, err)))
        return rc;
    if (e->units && (rc = units(e, b, err)))
        return rc;
    const struct incoming in = { b, time, control };
    if ((rc = add_all(e, &in, err)) || (time && (rc = add_windows(e, &in, err))))
        return rc;
    for (int k = 0; k < e->o.nby; k++)
        if ((rc = (ctr_type_list(b->schema->f[e->by[k]].type) ? add_lists : add_scalars)(e, k, &in, err)))
            return rc;
    e->seen += b->rows;
    return check_memory(e, err);
}

/* ---- the end ---- */

/* Compute the results of a slice's sample, which is sorted and, unless needed again, freed. */
static int finish_slice(struct ctr_eval *e, struct ctr_slice *s, uint32_t *local, struct ctr_pool *pool,
                        struct ctr_err *err)
{
    int rc = 0;

    for (int side = 0; !rc && side < e->sides; side++) {
        struct ctr_sample *m = &s->parts->sample[side];
        struct ctr_metric_sums *to = &s->pub.sums[side];
        if (e->o.needs & CTR_NEED_USERS && e->o.columns.user >= 0)
            rc = ctr_gauc(m, &(struct ctr_gauc_users){ e->users.n, &e->no_user, s == e->slice[0] ? NULL : local }, to,
                          e->o.bootstrap ? &s->parts->users[side] : NULL, err);
        const bool ranks = e->o.needs & CTR_NEED_RANKS, bins = e->o.needs & CTR_NEED_BINS,
                   once = !e->o.bootstrap && !e->o.keep;
        if (once) /* not needed any more: sort only keys */
            m->units = false;
        if (!rc && ranks && !bins && once) {
            rc = ctr_sample_take_auc(m, pool, &to->auc, err);
        } else if (!rc && (ranks || bins)) {
            rc = ctr_sample_sort(m, pool, err);
            if (!rc && ranks)
                to->auc = ctr_sample_auc(m);
            if (!rc && bins)
                to->ece = ctr_sample_ece(m, to->weight);
        }
        if (!e->o.bootstrap && !(e->o.keep && s == e->slice[0]))
            ctr_sample_free(m);
    }
    return rc;
}

/* Finish the slices that share a list of entries. */
static int finish_list(struct ctr_eval *e, struct ctr_slice_rows *rows, const uint32_t *place, uint32_t *local,
                       struct ctr_pool *pool, struct ctr_err *err)
{
    struct ctr_slice_order order = { 0 };
    int rc = ctr_slice_order_make(&order, e, rows, place, err);

    for (int64_t i = 0; !rc && i < e->n; i++) {
        struct ctr_slice *s = e->slice[i];
        int64_t from = order.end[i], n = order.end[i + 1] - from;
        if (n && !s->parts)
            rc = ctr_slice_open_parts(e, s, err);
        for (int side = 0; !rc && n && side < e->sides; side++)
            rc = ctr_sample_gather(&s->parts->sample[side], &e->slice[0]->parts->sample[side], order.entry + from, n,
                                   err);
        if (!rc && n)
            rc = finish_slice(e, s, local, pool, err);
        if (!e->o.bootstrap && s != e->slice[0])
            ctr_slice_close_parts(s);
    }
    ctr_slice_order_free(&order);
    ctr_buf_free(&rows->token);
    ctr_buf_free(&rows->entry);
    return rc;
}

static int finish_all(struct ctr_eval *e, uint32_t *place, uint32_t *local, struct ctr_pool *pool, struct ctr_err *err)
{
    int rc = 0;

    if (!e->samples)
        return 0;
    ctr_slice_places(e, place);
    memset(local, 0xff, (size_t)(e->users.n + 1) * sizeof *local);
    for (int i = 1; !rc && i < 2 * (e->o.nby + 1); i++)
        if (e->rows_of[i].token.len)
            rc = finish_list(e, &e->rows_of[i], place, local, pool, err);
    return rc ? rc : finish_slice(e, e->slice[0], local, pool, err); /* last: the others used its entries */
}

/* |mean score - mean label| of each slice, and their mean. */
static void set_gaps(struct ctr_eval *e)
{
    for (int side = 0; side < e->sides; side++) {
        double mean = 0;
        for (int by = 0; by < e->o.nby; by++) {
            double gap = 0, weight = 0;
            for (int64_t i = 1; i < e->n; i++) {
                struct ctr_metric_sums *s = &e->slice[i]->pub.sums[side];
                if (e->slice[i]->pub.by != by)
                    continue;
                s->field_ece = s->weight > 0 ? fabs(s->score - s->label) / s->weight : NAN;
                if (e->slice[i]->pub.windowed)
                    continue;
                gap += fabs(s->score - s->label);
                weight += s->weight;
            }
            mean += gap / weight;
        }
        e->slice[0]->pub.sums[side].field_ece = e->o.nby ? mean / e->o.nby : NAN;
    }
}

int ctr_eval_finish(struct ctr_eval *e, struct ctr_pool *pool, struct ctr_err *err)
{
    struct ctr_slice_value all = { -1, NULL, 0 };
    uint32_t *local = NULL, *place = NULL, total;
    int rc = ctr_slice_get(e, &all, false, 0, &total, err); /* also if there were no rows */

    if (rc || (rc = ctr_slices_order(e, err)))
        return rc;
    if (e->o.needs & CTR_NEED_GAPS)
        set_gaps(e);
    local = malloc((size_t)(e->users.n + 1) * sizeof *local);
    place = malloc(e->forward.len + sizeof *place);
    rc = local && place ? finish_all(e, place, local, pool, err)
                        : ctr_fail_nomem(err, (size_t)e->users.n * sizeof *local + e->forward.len);
    free(local);
    free(place);
    if (!rc && e->o.bootstrap)
        rc = ctr_bootstrap(e, pool, err);
    return rc;
}

int64_t ctr_eval_slices(const struct ctr_eval *e)
{
    return e->n;
}

int64_t ctr_eval_without_user(const struct ctr_eval *e)
{
    return e->o.null_user || !(e->o.needs & CTR_NEED_USERS) ? 0 : e->without_user;
}

const struct ctr_eval_slice *ctr_eval_slice(const struct ctr_eval *e, int64_t i)
{
    ask_for_next(e, i);
    return &e->slice[i]->pub;
}

const struct ctr_sample *ctr_eval_total(const struct ctr_eval *e)
{
    return &e->slice[0]->parts->sample[0];
}
