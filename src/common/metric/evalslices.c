/* SPDX-License-Identifier: Apache-2.0
 *
 * evalslices: finds the slices of an evaluation by hash, and limits them: with opts.slices only the values with the
 * most rows are kept, and the others are summed in "(rest)".
 *
 * While rows arrive, a column keeps a few times more values than will be shown. When there are more, the half with the
 * fewest rows is merged into the rest, between two input rows, so that it does not depend on batches. A value that
 * returns starts anew: it may lack at most the size of the largest value merged at each time, summed over those times
 * (as in lossy counting: Manku and Motwani, "Approximate Frequency Counts over Data Streams", VLDB 2002).
 */
#include "common/metric/evalstate.h"

#include <math.h>
#include <stdlib.h>

enum { MANY = 4096 };                      /* slices whose sums exceed the inner caches */
enum { HELD_TIMES = 8, HELD_MORE = 1024 }; /* values of a column kept at once: 8 N + 1024 */

int ctr_slice_open_parts(const struct ctr_eval *e, struct ctr_slice *s, struct ctr_err *err)
{
    if (!(s->parts = calloc(1, sizeof *s->parts)))
        return ctr_fail_nomem(err, sizeof *s->parts);
    for (int side = 0; side < 2; side++) {
        s->parts->sample[side].wide = !e->narrow[side];
        s->parts->sample[side].units = e->units;
    }
    return 0;
}

void ctr_slice_close_parts(struct ctr_slice *s)
{
    if (!s->parts)
        return;
    for (int side = 0; side < 2; side++) {
        ctr_sample_free(&s->parts->sample[side]);
        ctr_buf_free(&s->parts->users[side]);
    }
    ctr_buf_free(&s->parts->fractions);
    free(s->parts->replicate);
    free(s->parts);
    s->parts = NULL;
}

void ctr_slice_free(struct ctr_slice *s)
{
    if (!s)
        return;
    ctr_slice_close_parts(s);
    free(s);
}

/* With --slices 2 by column `site`, where more than HELD values are held when row 9,000 has come (here: 4 of 3):
 *
 *     held    a 5000 rows   b 3000   c 700   d 300
 *     merged  a 5000        b 3000   (rest): c and d, 1000 rows, of which 2 values; the most that one had: 700
 *     later   c comes again, 600 rows more: shown as c with 600 rows, "up to 700 more"; its sums lack those
 *
 * At the end the two values with the most rows stay, and all others are added to (rest). Sums are added in the order of
 * merging, which depends on rows alone. */

/* ---- finding ---- */

static int value_text(struct ctr_eval *e, const struct ctr_slice_value *v, struct ctr_err *err)
{
    int rc = 0;

    ctr_buf_clear(&e->text);
    if (!v->col && v->by >= 0)
        rc = ctr_buf_append(&e->text, "(rest)", 6, err);
    else if (v->col && ctr_col_missing(v->col, v->i))
        rc = ctr_buf_append(&e->text, "(missing)", 9, err);
    else if (v->col)
        rc = ctr_col_text(v->col, v->i, &e->text, err);
    return rc ? rc : ctr_buf_append(&e->text, "", 1, err);
}

/* The next token. Without ranking there are none: merged values must leave nothing behind. */
static int take_token(struct ctr_eval *e, struct ctr_slice *s, struct ctr_err *err)
{
    if (!e->samples)
        return 0;
    s->token = (uint32_t)(e->forward.len / sizeof s->token);
    if (s->token == UINT32_MAX)
        return ctr_fail(err, CTR_ENOMEM, "more than 4,294,967,294 slices came and went");
    return ctr_buf_append(&e->forward, &s->token, sizeof s->token, err);
}

/* Most pairs differ in these members, and millions of slices are scattered in memory. */
struct ordered {
    double number;
    uint64_t start; /* the first bytes of the text, as a number */
    struct ctr_slice *s;
    int by;
    bool rest;
};

/* Memory of a slice, including that for sorting. */
static int64_t slice_bytes(const struct ctr_slice *s)
{
    return (int64_t)(sizeof *s + s->pub.text_n + 1 + sizeof(struct ordered));
}

static int slice_append(struct ctr_eval *e, struct ctr_slice *s, struct ctr_err *err)
{
    int64_t cap = e->cap ? e->cap * 2 : 16;
    struct ctr_slice **grown = e->n < e->cap ? e->slice : realloc(e->slice, (size_t)cap * sizeof *grown);
    int rc;

    if (!grown)
        return ctr_fail_nomem(err, (size_t)cap * sizeof *grown);
    e->cap = e->n < e->cap ? e->cap : cap;
    e->slice = grown;
    if ((rc = take_token(e, s, err)))
        return rc;
    for (int side = 0; side < e->sides; side++) {
        const struct ctr_running run = { .last_row = -1, .token = s->token };
        if ((rc = ctr_buf_append(&e->run[side], &run, sizeof run, err)))
            return rc;
    }
    s->id = (uint32_t)e->n;
    e->slice[e->n++] = s;
    e->held += slice_bytes(s);
    return 0;
}

static int slice_new(struct ctr_eval *e, const struct ctr_slice_value *v, uint64_t value, bool windowed, int64_t window,
                     struct ctr_err *err)
{
    const bool total = v->by < 0 && !windowed;
    int rc = value_text(e, v, err);
    const size_t bytes = sizeof(struct ctr_slice) + e->text.len;
    struct ctr_slice *s = rc ? NULL : calloc(1, bytes);

    if (rc || !s)
        return rc ? rc : ctr_fail_nomem(err, bytes);
    memcpy(s->text, e->text.data, e->text.len);
    s->pub.text_n = (uint32_t)e->text.len - 1;
    if (total || e->o.bootstrap)
        rc = ctr_slice_open_parts(e, s, err);
    if (rc || (rc = slice_append(e, s, err))) {
        ctr_slice_free(s);
        return rc;
    }
    s->missing = v->col && ctr_col_missing(v->col, v->i);
    if (v->col && (v->col->type <= CTR_F64 || v->col->type == CTR_TIME))
        s->number = s->missing ? INFINITY : ctr_col_f64(v->col, v->i);
    if (isnan(s->number))
        s->number = INFINITY;
    s->pub = (struct ctr_eval_slice){
        .by = v->by,
        .text_n = s->pub.text_n,
        .text = s->text,
        .none = v->col ? s->missing : v->by >= 0,
        .windowed = windowed,
        .window_ms = window,
    };
    s->value = value;
    s->bits = v->col && !s->missing && v->col->type != CTR_UTF8 ? ctr_keyvalue_bits(v->col, v->i) : 0;
    s->text_bytes = (uint32_t)(e->text.len - 1);
    s->rest = !v->col && v->by >= 0;
    if (v->col && windowed) {
        struct ctr_slice *of = e->slice[ctr_idmap_slot(&e->slices, value)->number];
        s->before = of->windows;
        of->windows = s;
    } else if (v->col) {
        e->values[v->by].live++;
        s->lacks = e->values[v->by].went;
        if ((rc = ctr_buf_append(&e->values[v->by].value, &s, sizeof s, err)))
            return rc; /* e owns the slice */
    }
    for (int side = 0; side < 2; side++)
        s->pub.sums[side].auc = s->pub.sums[side].gauc = s->pub.sums[side].ece = s->pub.sums[side].field_ece = NAN;
    return 0;
}

/* The hash of a value, and that of its slice in a window. A slice without value, the rest, hashes like no small
 * number. */
uint64_t ctr_slice_hash(const struct ctr_slice_value *v)
{
    uint64_t h = v->col ? ctr_value_hash(v->col, v->i) : 0xa0761d6478bd642fu;

    return ctr_mix64(h + 0x9e3779b97f4a7c15u * (uint64_t)(v->by + 2));
}
static uint64_t window_hash(uint64_t value, bool windowed, int64_t window)
{
    return windowed ? ctr_mix64(value ^ 0x77696e646f77u) + ctr_mix64((uint64_t)window) : value;
}

/* Is the slice with this hash the one of the value? */
static int check_value(const struct ctr_slice *s, const struct ctr_slice_value *v, bool windowed, int64_t window,
                       struct ctr_err *err)
{
    const struct ctr_col *c = v->col;
    const bool missing = c && ctr_col_missing(c, v->i);
    bool same = s->pub.by == v->by && s->rest == (!c && v->by >= 0) && s->missing == missing &&
                s->pub.windowed == windowed && (!windowed || s->pub.window_ms == window);
    if (same && c && !missing && c->type == CTR_UTF8) {
        const struct ctr_str text = ctr_col_str(c, v->i);
        same = s->text_bytes == text.n && !memcmp(s->text, text.p, text.n);
    } else if (same && c && !missing) {
        same = s->bits == ctr_keyvalue_bits(c, v->i);
    }
    return same ? 0 : ctr_fail(err, CTR_EDATA, CTR_SAME_HASH);
}

int ctr_slice_find(struct ctr_eval *e, const struct ctr_slice_value *v, uint64_t hash, bool windowed, int64_t window,
                   uint32_t *id, struct ctr_err *err)
{
    const uint64_t own = window_hash(hash, windowed, window);
    int64_t known = e->slices.n;
    int rc = ctr_idmap_get(&e->slices, own, id, err);

    if (!rc && *id < e->n && !e->slice[*id]) { /* it was merged into the rest, and returns */
        if (!(rc = ctr_idmap_next(&e->slices, id, err)))
            ctr_idmap_slot(&e->slices, own)->number = *id;
    }
    if (!rc && e->slices.n > known)
        return slice_new(e, v, hash, windowed, window, err);
    return rc ? rc : check_value(e->slice[*id], v, windowed, window, err);
}

int ctr_slice_get(struct ctr_eval *e, const struct ctr_slice_value *v, bool windowed, int64_t window, uint32_t *id,
                  struct ctr_err *err)
{
    return ctr_slice_find(e, v, ctr_slice_hash(v), windowed, window, id, err);
}

/* Slices are mostly outside the cache, several dependent accesses away: each access is made for all rows before the
 * next. */
int ctr_slices_known(struct ctr_eval *e, int by, const struct ctr_col *col, int64_t from, int64_t n, uint32_t *id,
                     bool *all, struct ctr_err *err)
{
    struct ctr_memo *memo = &e->values[by].memo;
    uint64_t hash[CTR_MEMO_TILE];
    int rc = 0;

    *all = true;
    if (!ctr_memo_find(memo, col, from, n, id)) {
        for (int64_t k = 0; k < n; k++)
            if (id[k] == UINT32_MAX)
                ctr_idmap_prefetch(&e->slices,
                                   hash[k] = ctr_slice_hash(&(struct ctr_slice_value){ by, col, from + k }));
        for (int64_t k = 0; !rc && k < n; k++) {
            bool learnt;
            if (id[k] != UINT32_MAX)
                continue;
            id[k] = ctr_idmap_slot(&e->slices, hash[k])->number;
            if (id[k] != UINT32_MAX && !e->slice[id[k]])
                id[k] = UINT32_MAX;
            if (id[k] == UINT32_MAX)
                *all = false;
            else if (!(rc =
                           check_value(e->slice[id[k]], &(struct ctr_slice_value){ by, col, from + k }, false, 0, err)))
                rc = ctr_memo_learn(memo, col, from + k, id[k], e->n, &learnt, err);
        }
    }
    for (int64_t k = 0; e->n > MANY && k < n; k++)
        if (id[k] != UINT32_MAX)
            __builtin_prefetch(ctr_slice_run(e, 0, id[k]), 1);
    return rc;
}

/* ---- the bound ---- */

static int add_slice(struct ctr_eval *e, uint32_t to, uint32_t from, struct ctr_err *err)
{
    const struct ctr_slice_parts *parts = e->slice[from]->parts;

    for (int side = 0; side < e->sides; side++) {
        struct ctr_running *t = ctr_slice_run(e, side, to);
        const struct ctr_running *f = ctr_slice_run(e, side, from);
        t->rows += f->rows;
        t->weight += f->weight;
        t->label += f->label;
        t->score += f->score;
        t->log_loss += f->log_loss;
        t->squared += f->squared;
    }
    if (e->samples)
        ((uint32_t *)(void *)e->forward.data)[e->slice[from]->token] = e->slice[to]->token;
    if (!parts || !parts->fractions.len)
        return 0;
    return ctr_buf_append(&e->slice[to]->parts->fractions, parts->fractions.data, parts->fractions.len, err);
}

/* Most rows first; ties in order of appearance. */
struct ranked {
    struct ctr_slice *s;
    int64_t rows, order;
};
static int by_rows(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int append_slice(struct ctr_buf *to, struct ctr_slice *s, struct ctr_err *err)
{
    s->goes = true;
    return ctr_buf_append(to, &s, sizeof s, err);
}

static int by_id(const void *a, const void *b)
{
    const struct ctr_slice *x = *(struct ctr_slice *const *)a, *y = *(struct ctr_slice *const *)b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Choose the values of a column beyond the `keep` with the most rows, and their windows, in order of appearance. The
 * work is proportional to the column's values and the chosen ones, not to all windows of the others. */
static int choose(struct ctr_eval *e, int by, int64_t keep, struct ctr_buf *go, struct ctr_err *err)
{
    struct ctr_slice_values *v = &e->values[by];
    struct ctr_slice **value = (struct ctr_slice **)(void *)v->value.data;
    const int64_t n = (int64_t)(v->value.len / sizeof *value);
    struct ranked *r = malloc((size_t)(n + 1) * sizeof *r);
    int64_t stay = 0;
    int rc = 0;

    if (!r)
        return ctr_fail_nomem(err, (size_t)n * sizeof *r);
    for (int64_t i = 0; i < n; i++)
        r[i] = (struct ranked){ value[i], ctr_slice_run(e, 0, value[i]->id)->rows, i };
    qsort(r, (size_t)n, sizeof *r, by_rows);
    for (int64_t i = keep; !rc && i < n; i++) {
        rc = append_slice(go, r[i].s, err);
        for (struct ctr_slice *w = r[i].s->windows; !rc && w; w = w->before)
            rc = append_slice(go, w, err);
    }
    if (!rc && n > keep)
        v->went += r[keep].rows;
    free(r);
    for (int64_t i = 0; !rc && i < n; i++)
        if (!value[i]->goes)
            value[stay++] = value[i];
    if (!rc)
        v->value.len = (size_t)stay * sizeof *value;
    if (!rc && go->len)
        qsort(go->data, go->len / sizeof(struct ctr_slice *), sizeof(struct ctr_slice *), by_id);
    return rc;
}

/* Renumber the remaining slices, once as many have been merged, so that each is moved rarely. */
static int sweep(struct ctr_eval *e, struct ctr_err *err)
{
    int64_t n = 0;
    uint32_t id;
    int rc = 0;

    ctr_idmap_free(&e->slices);
    for (int64_t i = 0; i < e->n; i++) {
        struct ctr_slice *s = e->slice[i];
        if (!s)
            continue;
        for (int side = 0; side < e->sides; side++)
            *ctr_slice_run(e, side, (uint32_t)n) = *ctr_slice_run(e, side, (uint32_t)i);
        s->id = (uint32_t)n;
        e->slice[n++] = s;
    }
    e->n = n;
    e->gone = 0;
    for (int side = 0; side < e->sides; side++)
        e->run[side].len = (size_t)n * sizeof(struct ctr_running);
    for (int by = 0; by < e->o.nby; by++)
        ctr_memo_free(&e->values[by].memo);
    for (int64_t i = 0; !rc && i < n; i++)
        rc = ctr_idmap_get(&e->slices,
                           window_hash(e->slice[i]->value, e->slice[i]->pub.windowed, e->slice[i]->pub.window_ms), &id,
                           err);
    return rc;
}

static int cut(struct ctr_eval *e, int by, int64_t keep, struct ctr_err *err)
{
    const struct ctr_slice_value rest = { by, NULL, 0 };
    struct ctr_buf go = { 0 };
    int rc = choose(e, by, keep, &go, err);
    struct ctr_slice **s = (struct ctr_slice **)(void *)go.data;
    const int64_t n = rc ? 0 : (int64_t)(go.len / sizeof *s);

    for (int64_t i = 0; !rc && i < n; i++) {
        uint32_t to;
        if (!(rc = ctr_slice_get(e, &rest, s[i]->pub.windowed, s[i]->pub.window_ms, &to, err)))
            rc = add_slice(e, to, s[i]->id, err);
    }
    for (int64_t i = 0; !rc && i < n; i++) {
        e->values[by].live -= !s[i]->pub.windowed;
        e->held -= slice_bytes(s[i]);
        e->slice[s[i]->id] = NULL;
        e->gone++;
        ctr_slice_free(s[i]);
    }
    ctr_buf_free(&go);
    ctr_memo_free(&e->values[by].memo);
    return !rc && e->gone > e->n / 2 ? sweep(e, err) : rc;
}

int ctr_slices_bound(struct ctr_eval *e, int by, struct ctr_err *err)
{
    int64_t most = HELD_TIMES * e->o.slices + HELD_MORE;

    return e->o.slices && e->values[by].live >= most ? cut(e, by, most / 2, err) : 0;
}

/* ---- the end ---- */

static struct ordered ordered_of(struct ctr_slice *s)
{
    struct ordered o = { .number = s->number, .s = s, .by = s->pub.by, .rest = s->rest };
    for (uint32_t i = 0; i < CTR_MIN(s->pub.text_n, 8u); i++)
        o.start |= (uint64_t)(uint8_t)s->text[i] << (56 - 8 * i);
    return o;
}

static int slice_order(const void *a, const void *b)
{
    const struct ordered *o = a, *p = b;
    const struct ctr_slice *x = o->s, *y = p->s;
    int c;

    if (o->by != p->by)
        return o->by < p->by ? -1 : 1;
    if (o->rest != p->rest)
        return o->rest ? 1 : -1;
    if (o->number != p->number)
        return o->number < p->number ? -1 : 1;
    if (o->start != p->start)
        return o->start < p->start ? -1 : 1;
    if ((c = memcmp(x->text, y->text, CTR_MIN(x->pub.text_n, y->pub.text_n))))
        return c;
    if (x->pub.text_n != y->pub.text_n)
        return x->pub.text_n < y->pub.text_n ? -1 : 1;
    if (x->pub.windowed != y->pub.windowed)
        return x->pub.windowed ? 1 : -1;
    return (x->pub.window_ms > y->pub.window_ms) - (x->pub.window_ms < y->pub.window_ms);
}

/* Copy the sums to the public struct. */
static void publish(struct ctr_eval *e)
{
    for (int side = 0; side < e->sides; side++) {
        for (int64_t i = 0; i < e->n; i++) {
            const struct ctr_running *r = ctr_slice_run(e, side, (uint32_t)i);
            struct ctr_metric_sums *to = &e->slice[i]->pub.sums[side];
            to->rows = r->rows;
            to->weight = e->o.columns.weight < 0 ? (double)r->rows : r->weight;
            to->label = r->label;
            to->score = r->score;
            to->log_loss = r->log_loss;
            to->squared = r->squared;
        }
        ctr_buf_free(&e->run[side]);
    }
}

static int sort_slices(struct ctr_eval *e, struct ctr_err *err)
{
    struct ordered *o = malloc((size_t)e->n * sizeof *o);

    if (!o)
        return ctr_fail_nomem(err, (size_t)e->n * sizeof *o);
    for (int64_t i = 0; i < e->n; i++)
        o[i] = ordered_of(e->slice[i]);
    qsort(o, (size_t)e->n, sizeof *o, slice_order);
    for (int64_t i = 0; i < e->n; i++)
        e->slice[i] = o[i].s;
    free(o);
    return 0;
}

int ctr_slices_order(struct ctr_eval *e, struct ctr_err *err)
{
    int rc = 0;

    for (int by = 0; !rc && by < e->o.nby; by++)
        if (e->o.slices && e->values[by].live > e->o.slices)
            rc = cut(e, by, e->o.slices, err);
    if (!rc && e->gone)
        rc = sweep(e, err);
    if (rc)
        return rc;
    publish(e);
    return sort_slices(e, err);
}

/* ---- the entries of each ---- */

void ctr_slice_places(const struct ctr_eval *e, uint32_t *place)
{
    const uint32_t *forward = (const uint32_t *)(const void *)e->forward.data;
    size_t tokens = e->forward.len / sizeof *forward;

    for (int64_t i = 0; i < e->n; i++)
        place[e->slice[i]->token] = (uint32_t)i;
    for (size_t t = 0; t < tokens; t++)
        if (forward[t] != t)
            place[t] = place[forward[t]]; /* the rest keeps its place */
}

int ctr_slice_order_make(struct ctr_slice_order *o, const struct ctr_eval *e, const struct ctr_slice_rows *rows,
                         const uint32_t *place, struct ctr_err *err)
{
    const uint32_t *token = (const uint32_t *)(const void *)rows->token.data;
    const uint32_t *entry = (const uint32_t *)(const void *)rows->entry.data;
    size_t n = rows->token.len / sizeof *token;
    int64_t sum = 0;

    o->entry = malloc((n + 1) * sizeof *o->entry);
    o->end = calloc((size_t)e->n + 2, sizeof *o->end);
    if (!o->entry || !o->end)
        return ctr_fail_nomem(err, n * sizeof *o->entry + (size_t)e->n * sizeof *o->end);
    for (size_t i = 0; i < n; i++)
        o->end[place[token[i]] + 1]++;
    for (int64_t i = 0; i <= e->n; i++) { /* end[i + 1]: start of slice i and, after the next loop, its end */
        int64_t k = o->end[i + 1];
        o->end[i + 1] = sum;
        sum += k;
    }
    for (size_t i = 0; i < n; i++)
        o->entry[o->end[place[token[i]] + 1]++] = rows->entry.len ? entry[i] : (uint32_t)i;
    return 0;
}

void ctr_slice_order_free(struct ctr_slice_order *o)
{
    free(o->entry);
    free(o->end);
}

int64_t ctr_eval_lacking(const struct ctr_eval *e, int64_t *rows)
{
    int64_t n = 0;

    *rows = 0;
    for (int64_t i = 0; e->o.slices && i < e->n; i++) {
        const struct ctr_slice *s = e->slice[i];
        n += s->lacks > 0 && !s->pub.windowed;
        *rows = CTR_MAX(*rows, s->lacks);
    }
    return n;
}
