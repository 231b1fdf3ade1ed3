/* SPDX-License-Identifier: Apache-2.0
 *
 * historylists: the lists of what users did last. Rows go one by one, or a batch of them by several threads in three
 * steps: the past of each row's user is found, in order of rows, and new ones are made; pasts are shared among the
 * threads, each of which answers and learns the rows of its pasts, in their order; the items, which lie share by share,
 * are copied into order of rows, a list a task. Invariant: lists and pasts are the same either way, numbers of pasts
 * and texts too. */
#include "common/rows/historycore.h"

#include <stdlib.h>

enum { MOST_SHARES = 64, STEP = CTR_BEHAVIOURS_STEP };

/* The rows of some of the pasts. */
struct ctr_historyshare {
    struct ctr_buf row; /* int32_t, rows of them */
    int64_t rows;
    struct ctr_colbuf *list; /* their items; no rows */
    struct ctr_err err;
    int rc;
};

/* A batch of rows (A, a) (B, b) (A, c) (C, d), user and ad in the order of time, by two threads, all users new:
 *
 *     find_pasts    pasts of A B A C: 1 2 1 3. Past p is of share p % 2: share 1 has rows 0 2 3, share 0 has row 1
 *     share_rows    share 1: row 0 sees nothing, learns a; row 2 sees a, learns c; row 3 sees nothing: items [a],
 *                   start 0 0 1 and n 0 1 0 of its rows
 *     gather_lists  by start and n of rows 0 to 3: [] [] [a] []
 *
 * number_texts has numbered the texts before, in order of rows, because threads do not add to the set of them. */

/* ---- making and freeing ---- */

static int make_lists(struct ctr_colbuf **list, const struct ctr_field *f, int n, struct ctr_err *err)
{
    int rc = (*list = calloc((size_t)n + 1, sizeof **list)) ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof **list);
    for (int v = 0; v < n && !rc; v++)
        rc = ctr_colbuf_init(&(*list)[v], &f[v], err);
    return rc;
}

static void free_lists(struct ctr_colbuf *list, int n)
{
    for (int v = 0; list && v < n; v++)
        ctr_colbuf_free(&list[v]);
    free(list);
}

int ctr_historylists_init(struct ctr_historylists *l, const struct ctr_field *f, int threads, struct ctr_err *err)
{
    int rc = make_lists(&l->list, f, l->lists, err);
    for (int v = 0; v < l->columns && !rc; v++)
        l->any_text |= l->list[v].item->type == CTR_UTF8;
    if (rc || threads < 2 || !l->lists)
        return rc;
    if ((rc = ctr_pool_new(&l->pool, CTR_MIN(threads, MOST_SHARES), CTR_FLOAT_IEEE, err)))
        return rc;
    const int shares = ctr_pool_threads(l->pool);
    if (!(l->share = calloc((size_t)shares, sizeof *l->share)))
        return ctr_fail_nomem(err, (size_t)shares * sizeof *l->share);
    l->shares = shares;
    for (int k = 0; k < shares && !rc; k++)
        rc = make_lists(&l->share[k].list, f, l->lists, err);
    return rc;
}

void ctr_historylists_free(struct ctr_historylists *l)
{
    for (int k = 0; k < l->shares; k++) {
        free_lists(l->share[k].list, l->lists);
        ctr_buf_free(&l->share[k].row);
    }
    free(l->share);
    free_lists(l->list, l->lists);
    ctr_pool_free(l->pool);
    ctr_behaviours_free(&l->users);
    ctr_keyvalue_set_free(&l->texts);
    ctr_buf_free(&l->past);
    ctr_buf_free(&l->start);
    ctr_buf_free(&l->n);
    ctr_buf_free(&l->text);
}

void ctr_historylists_clear(struct ctr_historylists *l)
{
    for (int v = 0; v < l->lists; v++)
        ctr_colbuf_clear(&l->list[v]);
}

/* ---- what becomes known ---- */

/* The bits of a value, at most 8 bytes. */
static int value_bits(struct ctr_historylists *l, const struct ctr_col *c, int64_t i, uint64_t *bits,
                      struct ctr_err *err)
{
    *bits = 0;
    if (c->type == CTR_UTF8) {
        const struct ctr_keyvalue text = ctr_keyvalue_text(ctr_col_str(c, i));
        uint32_t number = 0;
        int rc = ctr_keyvalue_set_add(&l->texts, &text, &number, err);
        *bits = number;
        return rc;
    }
    c = ctr_col_plain(c, &i);
    if (c->type == CTR_BOOL)
        *bits = ctr_bit(c->data, i);
    else
        memcpy(bits, (const uint8_t *)c->data + i * ctr_types[c->type].width, (size_t)ctr_types[c->type].width);
    return 0;
}

/* text: numbers of this row's texts, one a column, `step` apart; NULL: not known yet. */
static int learn(struct ctr_historylists *l, struct ctr_past *past, const struct ctr_batch *b, int64_t i, int64_t t,
                 const uint32_t *text, int64_t step, struct ctr_err *err)
{
    int rc = 0;
    uint64_t *word = ctr_behaviours_add(&l->users, past, t, &rc, err);
    for (int v = 0; v < l->columns && !rc; v++) {
        const struct ctr_col *c = &b->col[l->column[v]];
        if (ctr_col_missing(c, i)) {
            word[2 + v] = 0;
            word[1] |= (uint64_t)1 << v;
            if (!l->any_null) /* set before threads share the rows */
                l->any_null = true;
        } else if (text && c->type == CTR_UTF8)
            word[2 + v] = text[v * step];
        else
            rc = value_bits(l, c, i, &word[2 + v], err);
    }
    return rc;
}

int ctr_historylists_learn(struct ctr_historylists *l, struct ctr_past *past, const struct ctr_batch *b, int64_t i,
                           int64_t t, struct ctr_err *err)
{
    return learn(l, past, b, i, t, NULL, 0, err);
}

/* ---- answers ---- */

static uint32_t nth(const struct ctr_historylists *l, const struct ctr_seen *seen, uint32_t i)
{
    return seen->from + (l->oldest_first ? i : seen->n - 1 - i);
}

static int append_value(const struct ctr_historylists *l, struct ctr_colbuf *item, uint64_t bits, struct ctr_err *err)
{
    double d;
    float f;
    switch (item->type) {
    case CTR_UTF8: {
        const struct ctr_str s = ctr_keyvalue_set_text(&l->texts, bits);
        return ctr_colbuf_str(item, s.p, s.n, err);
    }
    case CTR_F64: memcpy(&d, &bits, sizeof d); return ctr_colbuf_f64(item, d, err);
    case CTR_F32: memcpy(&f, &bits, sizeof f); return ctr_colbuf_f64(item, (double)f, err);
    case CTR_F16: return ctr_colbuf_f64(item, (double)ctr_f16_to_f32((uint16_t)bits), err);
    default: return ctr_colbuf_i64(item, (int64_t)bits, err);
    }
}

#define COPY(type)                                                                                                     \
    for (uint32_t i = 0; i < seen->n; i++)                                                                             \
    ((type *)to)[i] = (type)ctr_behaviour(&l->users, seen->past, nth(l, seen, i))[word]

/* Copy one word of each behaviour, narrowed to a width. */
static void copy_words(const struct ctr_historylists *l, const struct ctr_seen *seen, int word, size_t width, void *to)
{
    switch (width) {
    case 1: COPY(uint8_t); break;
    case 2: COPY(uint16_t); break;
    case 4: COPY(uint32_t); break;
    default: COPY(uint64_t);
    }
}

/* Values of fixed width without nulls are appended at once. */
static int append_values(const struct ctr_historylists *l, const struct ctr_seen *seen, int v, struct ctr_colbuf *item,
                         struct ctr_err *err)
{
    const size_t width = (size_t)ctr_types[item->type].width;
    const uint64_t null = (uint64_t)1 << v;
    uint64_t nulls = 0;
    int rc = 0;

    for (uint32_t i = 0; i < seen->n && l->any_null; i++)
        nulls |= ctr_behaviour(&l->users, seen->past, seen->from + i)[1];
    if (width && !(nulls & null) && !item->valid.len) {
        uint8_t *to = ctr_buf_extend(&item->data, seen->n, width, &rc, err);
        if (!rc)
            copy_words(l, seen, 2 + v, width, to);
        item->rows += rc ? 0 : seen->n;
        return rc;
    }
    for (uint32_t i = 0; i < seen->n && !rc; i++) {
        const uint64_t *word = ctr_behaviour(&l->users, seen->past, nth(l, seen, i));
        rc = word[1] & null ? ctr_colbuf_null(item, err) : append_value(l, item, word[2 + v], err);
    }
    return rc;
}

static int append_ages(const struct ctr_historylists *l, const struct ctr_seen *seen, int64_t t,
                       struct ctr_colbuf *item, struct ctr_err *err)
{
    int rc = 0;
    int64_t *to = ctr_buf_extend(&item->data, seen->n, sizeof *to, &rc, err);
    for (uint32_t i = 0; i < seen->n && !rc; i++)
        to[i] = (int64_t)ctr_time_age(t, (int64_t)*ctr_behaviour(&l->users, seen->past, nth(l, seen, i)));
    item->rows += rc ? 0 : seen->n;
    return rc;
}

/* Items of all lists. */
static int append(const struct ctr_historylists *l, const struct ctr_seen *seen, int64_t t, struct ctr_colbuf *list,
                  struct ctr_err *err)
{
    int rc = 0;
    for (int v = 0; v < l->columns && !rc && seen->n; v++)
        rc = append_values(l, seen, v, list[v].item, err);
    return rc || !l->age || !seen->n ? rc : append_ages(l, seen, t, list[l->columns].item, err);
}

int ctr_historylists_answer(struct ctr_historylists *l, const struct ctr_seen *seen, int64_t t, struct ctr_err *err)
{
    int rc = append(l, seen, t, l->list, err);
    for (int v = 0; v < l->lists && !rc; v++)
        rc = ctr_colbuf_close(&l->list[v], err);
    return rc;
}

/* ---- a batch by several threads ---- */

struct work {
    struct ctr_historylists *l;
    const struct ctr_historyrows *r;
    uint32_t *past, *n; /* of each row */
    uint32_t *text;     /* of each column, of each row */
    int64_t *start;
};

static struct ctr_historyshare *share_of(const struct ctr_historylists *l, uint32_t past)
{
    return &l->share[past % (uint32_t)l->shares];
}

/* The past of each row's user: 0, none, unless the row or one before it makes one. */
static int find_pasts(const struct work *w, struct ctr_err *err)
{
    struct ctr_historylists *l = w->l;
    const struct ctr_keyvalue *user = w->r->user;
    const int64_t rows = w->r->b->rows;
    int rc = 0;
    for (int k = 0; k < l->shares && !rc; k++) {
        l->share[k].rows = 0;
        rc = ctr_buf_room(&l->share[k].row, rows, sizeof(int32_t), err);
    }
    for (int64_t i = 0; i < rows && !rc; i++) {
        if (i + 3 * STEP < rows)
            ctr_behaviours_ahead(&l->users, &user[i + 3 * STEP], 0);
        for (int step = 1; l->users.texts && step < 3; step++)
            if (i + (3 - step) * STEP < rows)
                ctr_behaviours_ahead(&l->users, &user[i + (3 - step) * STEP], step);
        w->n[i] = 0;
        w->past[i] = user[i].null ? 0 : ctr_behaviours_user(&l->users, &user[i], w->r->is[i], &rc, err);
        if (!w->past[i])
            continue;
        struct ctr_historyshare *s = share_of(l, w->past[i]);
        ((int32_t *)(void *)s->row.data)[s->rows++] = (int32_t)i;
    }
    return rc;
}

/* Texts are numbered in order of rows. */
static int number_texts(const struct work *w, struct ctr_err *err)
{
    struct ctr_historylists *l = w->l;
    const struct ctr_batch *b = w->r->b;
    int rc = 0;
    for (int64_t i = 0; l->any_text && i < b->rows && !rc; i++)
        for (int v = 0; v < l->columns && w->r->is[i] && !w->r->user[i].null && !rc; v++) {
            const struct ctr_col *c = &b->col[l->column[v]];
            uint64_t number = 0;
            if (c->type == CTR_UTF8 && !ctr_col_missing(c, i))
                rc = value_bits(l, c, i, &number, err);
            w->text[v * b->rows + i] = (uint32_t)number;
        }
    return rc;
}

/* Bytes of the longest text so far. */
static int64_t longest_text(struct ctr_historylists *l)
{
    for (; l->measured < l->texts.n; l->measured++)
        l->longest = CTR_MAX(l->longest, (int64_t)ctr_keyvalue_set_text(&l->texts, l->measured).n);
    return l->longest;
}

/* Does a row become a behaviour with a null? */
static bool learns_null(const struct work *w)
{
    const struct ctr_batch *b = w->r->b;
    for (int v = 0; v < w->l->columns; v++) {
        const struct ctr_col *c = &b->col[w->l->column[v]];
        const bool nulls = c->valid || (c->dict && c->dict->valid);
        for (int64_t i = 0; nulls && i < b->rows; i++)
            if (w->r->is[i] && w->past[i] && ctr_col_missing(c, i))
                return true;
    }
    return false;
}

static int share_row(const struct work *w, struct ctr_historyshare *s, int64_t i, struct ctr_err *err)
{
    struct ctr_historylists *l = w->l;
    struct ctr_past *const past = ctr_behaviours_past(&l->users, w->past[i]);
    const struct ctr_seen seen = ctr_behaviours_seen(&l->users, past, w->r->time[i]);
    w->start[i] = s->list[0].item->rows;
    w->n[i] = seen.n;
    const int rc = append(l, &seen, w->r->time[i], s->list, err);
    return rc || !w->r->is[i] ? rc : learn(l, past, w->r->b, i, w->r->time[i], w->text + i, w->r->b->rows, err);
}

/* The first tasks are the shares, the last one goes beside them. */
static void share_rows(void *ctx, int64_t task, int worker)
{
    const struct work *w = ctx;
    (void)worker;
    if (task == w->l->shares) {
        w->r->beside(w->r->ctx);
        return;
    }
    struct ctr_historyshare *s = &w->l->share[task];
    const int32_t *row = (const int32_t *)(const void *)s->row.data;
    s->rc = 0;
    for (int v = 0; v < w->l->lists; v++)
        ctr_colbuf_clear(&s->list[v]);
    for (int64_t k = 0; k < s->rows && !s->rc; k++) {
        for (int step = 1; step < 3; step++)
            if (k + (3 - step) * STEP < s->rows)
                ctr_behaviours_ahead_past(&w->l->users, w->past[row[k + (3 - step) * STEP]], step);
        s->rc = share_row(w, s, row[k], &s->err);
    }
}

/* The items of a list in order of rows. Values of fixed width without nulls need no more than a copy. */
static int gather(const struct work *w, struct ctr_colbuf *list, int v, struct ctr_err *err)
{
    const struct ctr_historylists *l = w->l;
    const struct ctr_col *from[MOST_SHARES];
    const size_t width = (size_t)ctr_types[list->item->type].width;
    int64_t items = 0;
    bool plain = width;
    int rc = 0;
    for (int k = 0; k < l->shares; k++) {
        from[k] = ctr_colbuf_view(l->share[k].list[v].item);
        items += from[k]->rows;
        plain &= !from[k]->valid;
    }
    uint8_t *to = plain ? ctr_buf_extend(&list->item->data, items, width, &rc, err) : NULL;
    for (int64_t i = 0; i < w->r->b->rows && !rc; i++) {
        const struct ctr_col *c = from[w->past[i] % (uint32_t)l->shares];
        if (plain && w->n[i]) {
            memcpy(to, (const uint8_t *)c->data + (size_t)w->start[i] * width, w->n[i] * width);
            to += w->n[i] * width;
            list->item->rows += w->n[i];
        } else if (w->n[i])
            rc = ctr_colbuf_range(list->item, c, w->start[i], w->n[i], err);
        if (!rc)
            rc = ctr_colbuf_close(list, err);
    }
    return rc;
}

/* One task a list. */
struct gathering {
    const struct work *w;
    int *rc;
    struct ctr_err *err;
};

static void gather_list(void *ctx, int64_t list, int worker)
{
    const struct gathering *g = ctx;
    (void)worker;
    g->rc[list] = gather(g->w, &g->w->l->list[list], (int)list, &g->err[list]);
}

static int gather_lists(const struct work *w, struct ctr_err *err)
{
    const int n = w->l->lists;
    struct gathering g = { w, calloc((size_t)n, sizeof *g.rc), calloc((size_t)n, sizeof *g.err) };
    int rc = g.rc && g.err ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *g.err);
    if (!rc)
        ctr_pool_run(w->l->pool, n, gather_list, &g);
    for (int v = 0; v < n && !rc; v++)
        if ((rc = g.rc[v]))
            *err = g.err[v];
    free(g.rc);
    free(g.err);
    return rc;
}

int ctr_historylists_rows(struct ctr_historylists *l, const struct ctr_historyrows *r, int64_t most_bytes,
                          int64_t *empty, struct ctr_err *err)
{
    const int64_t rows = r->b->rows;
    int rc = ctr_buf_room(&l->past, rows, sizeof(uint32_t), err);
    if (!rc)
        rc = ctr_buf_room(&l->n, rows, sizeof(uint32_t), err);
    if (!rc)
        rc = ctr_buf_room(&l->start, rows, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&l->text, rows * l->columns, sizeof(uint32_t), err);
    const struct work w = { l,
                            r,
                            (uint32_t *)(void *)l->past.data,
                            (uint32_t *)(void *)l->n.data,
                            (uint32_t *)(void *)l->text.data,
                            (int64_t *)(void *)l->start.data };
    if (!rc)
        rc = number_texts(&w, err);
    if (!rc && l->users.last > most_bytes / rows / CTR_MAX(longest_text(l), 1))
        return 0;
    if (!rc)
        rc = find_pasts(&w, err);
    if (rc)
        return rc;
    l->any_null |= learns_null(&w);
    ctr_pool_run(l->pool, l->shares + (r->beside != NULL), share_rows, (void *)(uintptr_t)&w);
    for (int k = 0; k < l->shares && !rc; k++)
        if ((rc = l->share[k].rc))
            *err = l->share[k].err;
    for (int64_t i = 0; i < rows; i++)
        *empty += !w.n[i];
    if (!rc)
        rc = gather_lists(&w, err);
    return rc ? rc : 1;
}
