/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving lr, in the format of lr_file.c's section: first the digest of all weights, which goes into the schema; then
 * the rows, gathered and sorted table by table, a page at a time. For large tables, a thread writes one page while the
 * next is filled. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/lr/lr.h"
#include "common/lr/lr_spill.h"

enum { WEIGHT = CTR_LR_WEIGHT, Z, N, NEGATIVES, POSITIVES, LAST, NUMBERS };

static enum ctr_type number_type(const struct ctr_learning *l, int i)
{
    return i == LAST ? CTR_F64 : i >= NEGATIVES ? CTR_U64 : l->precision == CTR_F64_STATE ? CTR_F64 : CTR_F32;
}

/* State and weight of a table row. */
static double read_row(const struct lr *m, const struct ctr_learning *l, const uint8_t *row, struct ctr_state *s)
{
    ctr_state_read(l, &m->more.event, row, s);
    return ctr_state_weight(l, &m->more.event, s);
}

/* The row of a variant, which is stored among those of others; prefetches a later one. */
static inline const uint8_t *sorted_row(const struct ctr_lr_sorted *t, uint64_t i)
{
    enum { AHEAD = 16 };
    if (i + AHEAD < t->n)
        __builtin_prefetch(t->base + t->place[i + AHEAD].number * t->bytes + 8);
    return t->base + t->place[i].number * t->bytes;
}

static bool small_enough(double v)
{
    return fabs(v) < INFINITY;
}

static inline bool digest_row(const struct lr *m, const struct ctr_learning *l, uint64_t key, const uint8_t *row,
                              uint64_t *digest)
{
    struct ctr_state s;
    const double w = read_row(m, l, row, &s), saved = l->precision == CTR_F64_STATE ? w : (double)(float)w;
    *digest += ctr_lr_digest(key, w);
    return small_enough(s.value) & small_enough(s.n) & small_enough(saved);
}

enum { GROUP = 256 };

/* digest_row for prefetched rows, for a learner that has columns. */
static bool digest_group(const struct ctr_learning *l, const uint64_t *key, uint8_t *const *row, int64_t n,
                         uint64_t *digest)
{
    const bool f64 = l->precision == CTR_F64_STATE;
    double z[GROUP], squares[GROUP] = { 0 }, w[GROUP];
    uint64_t negatives[GROUP], positives[GROUP];
    const float *z32 = (const float *)z, *squares32 = (const float *)squares, *w32 = (const float *)w;
    bool finite = true;
    ctr_state_columns(l, (const uint8_t *const *)row, n,
                      &(struct ctr_state_columns){ w, z, squares, negatives, positives });
    for (int64_t i = 0; i < n; i++) {
        *digest += ctr_lr_digest(key[i], f64 ? w[i] : (double)w32[i]);
        finite &= small_enough(f64 ? z[i] : (double)z32[i]) & small_enough(f64 ? squares[i] : (double)squares32[i]) &
                  small_enough(f64 ? w[i] : (double)w32[i]);
    }
    return finite;
}

static bool digest_rows(const struct lr *m, const struct ctr_learning *l, const uint64_t *key, uint8_t *const *row,
                        int64_t n, uint64_t *digest)
{
    bool finite = true;
    if (ctr_state_has_columns(l))
        return digest_group(l, key, row, n, digest);
    for (int64_t i = 0; i < n; i++)
        finite &= digest_row(m, l, key[i], row[i], digest);
    return finite;
}

struct ctr_lr_digested ctr_lr_digest_sorted(const struct lr *m, const struct ctr_learning *as,
                                            const struct ctr_lr_sorted *t)
{
    struct ctr_lr_digested all = { 0, true };
    uint64_t key[GROUP];
    uint8_t *row[GROUP];
    for (uint64_t from = 0, n; from < t->n; from += n) {
        n = CTR_MIN(t->n - from, GROUP);
        for (uint64_t i = 0; i < n; i++) {
            const struct ctr_numbered *place = &t->place[from + i];
            row[i] = (uint8_t *)(uintptr_t)t->base + place->number * t->bytes;
            __builtin_prefetch(row[i] + CTR_STATE_AT);
            key[i] = place->key;
        }
        all.finite &= digest_rows(m, as, key, row, (int64_t)n, &all.digest);
    }
    return all;
}

/* Are the tables large enough for a second thread, and is one allowed? */
static bool worth_a_thread(const struct lr *m)
{
    enum { KEYS = 1 << 16 };
    uint64_t keys = 0;
    for (int i = 0; i < m->tables; i++)
        keys += m->table[i].learned;
    return keys >= KEYS && ctr_cpu_count() > 1;
}

/* Tables for two threads: each takes the last remaining one. */
struct digesting {
    const struct lr *m;
    int *left;
    struct ctr_lr_digested sum;
};

static void digest_some(void *ctx, const struct ctr_numbered *e, uint64_t n)
{
    struct digesting *d = ctx;
    const struct ctr_states *s = &d->m->states;
    const struct ctr_lr_sorted t = { e, n, ctr_states_rows(s), s->bytes, NULL };
    const struct ctr_lr_digested own = ctr_lr_digest_sorted(d->m, &d->m->learning, &t);
    d->sum.digest += own.digest;
    d->sum.finite &= own.finite;
}

static void *digest_tables(void *arg)
{
    struct digesting *d = arg;
    for (int i; (i = __atomic_sub_fetch(d->left, 1, __ATOMIC_RELAXED)) >= 0;)
        ctr_keys_each(&d->m->table[i], digest_some, d);
    return NULL;
}

/* Of the rows of all tables, without the bias. */
static struct ctr_lr_digested digest_keys(const struct lr *m)
{
    int left = m->tables;
    struct digesting d[2] = { { m, &left, { 0, true } }, { m, &left, { 0, true } } };
    pthread_t thread;
    const bool two = worth_a_thread(m) && !ctr_thread_start(&thread, digest_tables, &d[1]);
    digest_tables(&d[0]);
    if (two)
        pthread_join(thread, NULL);
    return (struct ctr_lr_digested){ d[0].sum.digest + d[1].sum.digest, d[0].sum.finite & d[1].sum.finite };
}

/* The digest of all weights; false if some state or weight is not finite. The next prediction shows an update that
 * overflows, but the last row has no next. */
static bool digest_all(const struct lr *m, uint64_t *digest)
{
    struct ctr_lr_digested all = { 0, true };
    *digest = 0;
    bool finite = digest_row(m, &m->learning, ctr_bias_key(), m->bias, digest);
    if (m->no_bias)
        *digest = 0;
    if (m->saved.elsewhere)
        all = m->saved.elsewhere->digested;
    else if (!m->saved.sorted)
        all = digest_keys(m);
    for (int i = 0; i < m->tables && m->saved.sorted; i++) {
        const struct ctr_lr_sorted *t = &m->saved.sorted[i];
        const struct ctr_lr_digested own = t->digested ? *t->digested : ctr_lr_digest_sorted(m, m->saved.sorted_as, t);
        all.digest += own.digest;
        all.finite &= own.finite;
    }
    *digest += all.digest;
    return finite & all.finite;
}

/* Does the file tell of keys that were dropped: a delta? */
static bool drops(const struct lr *m)
{
    return m->expiry.days && m->delta.changed.only;
}

static int set_whole(struct ctr_meta *meta, const char *key, int64_t v, struct ctr_err *err)
{
    char text[CTR_NUM_MAX + 1];
    text[ctr_fmt_i64(text, v)] = 0;
    return ctr_meta_set(meta, key, text, err);
}

int ctr_lr_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct lr *m = (struct lr *)(uintptr_t)learner;
    uint64_t digest;
    char hex[17];
    int rc = m->spill ? ctr_lr_spill_settle(m, err) : 0;
    if (rc)
        return rc;
    ctr_lr_hold_finders(m);
    const bool finite = digest_all(m, &digest);
    ctr_lr_release_finders(m);
    if (!finite)
        return ctr_fail(err, CTR_EDATA, "the model's state is infinite or not a number" CTR_LR_TOO_LARGE);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    rc = ctr_schema_add(s, "table", CTR_UTF8, err);
    if (!rc) {
        s->f[s->n - 1].dict = true;
        rc = ctr_schema_add(s, "key", CTR_U64, err);
    }
    for (int i = 0; i < NUMBERS && !rc; i++)
        if (ctr_lr_has_number(&m->learning, i))
            rc = ctr_schema_add(s, ctr_lr_number_names[i], number_type(&m->learning, i), err);
    if (!rc && m->expiry.days)
        rc = ctr_schema_add(s, "day", CTR_I32, err);
    if (!rc && drops(m))
        rc = ctr_schema_add(s, CTR_COLUMN_DROPPED, CTR_BOOL, err);
    if (!rc && m->learning.events)
        rc = set_whole(&s->meta, CTR_META_MODEL_STEPS, (int64_t)m->more.event.step, err);
    if (!rc && m->learning.shrinking && m->learning.rate == CTR_RATE_GLOBAL) {
        char text[CTR_NUM_MAX + 1];
        text[ctr_fmt_f64(text, m->more.event.clock)] = 0;
        rc = ctr_meta_set(&s->meta, CTR_META_MODEL_CLOCK, text, err);
    }
    if (!rc && m->learning.precision == CTR_Q13_STATE)
        rc = set_whole(&s->meta, CTR_META_MODEL_CLIPS, m->more.event.clips, err);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_MODEL_WEIGHTS, hex, err);
}

/* For example, the file of a learner with tables site (key 3) and ad (keys 12, 7, 5), and, of one with --expire, a
 * delta for which ad 12 changed and ad 5 was dropped:
 *
 *     table    key    weight  z  n            table    key    weight  z  n  day  dropped
 *     (bias)   …      -2.1    …  …            (bias)   …      -2.2    …  …  …    false
 *     ad       5       .2     …  …            ad       5       0      0  0  0    true
 *     ad       7       .3     …  …            ad       12      .2     …  …  …    false
 *     ad       12      .1     …  …
 *     site     3       .4     …  …
 *
 * Tables come by name (save_tables), the keys of each in ascending order: ctr_keys_sorted gives them range by range,
 * and save_range merges dropped keys between them. Learners with the same keys (--variants) are walked together: a page
 * has one column of keys and, for each model, its numbers, which go to its own writer. */

/* ---- pages of rows ---- */

enum { PAGE_ROWS = CTR_BATCH_ROWS };

/* A model's columns of a page. */
struct part {
    const struct lr *m;
    struct ctr_writer *w;
    struct ctr_col col[2 + NUMBERS + 2];
    int cols;
    uint8_t *number[NUMBERS]; /* with the type in the file */
};

/* Rows of models with the same keys. */
struct page {
    struct part model[CTR_SAVE_TOGETHER];
    int n;
    int32_t *table;
    uint64_t *key;
    int32_t *day;
    uint8_t *dropped; /* bits */
    int64_t rows;
};

static int make_part(struct page *p, struct lr *m, struct ctr_writer *w, const struct ctr_col *names,
                     struct ctr_err *err)
{
    struct part *o = &p->model[p->n++];
    o->m = m;
    o->w = w;
    o->col[0] = (struct ctr_col){ .type = CTR_UTF8, .data = p->table, .dict = names };
    o->col[1] = (struct ctr_col){ .type = CTR_U64, .data = p->key };
    o->cols = 2;
    for (int i = 0; i < NUMBERS; i++) {
        if (!(o->number[i] = malloc(PAGE_ROWS * sizeof(double))))
            return ctr_fail_nomem(err, PAGE_ROWS * sizeof(double));
        if (ctr_lr_has_number(&m->learning, i))
            o->col[o->cols++] = (struct ctr_col){ .type = number_type(&m->learning, i), .data = o->number[i] };
    }
    if (m->expiry.days)
        o->col[o->cols++] = (struct ctr_col){ .type = CTR_I32, .data = p->day };
    if (drops(m))
        o->col[o->cols++] = (struct ctr_col){ .type = CTR_BOOL, .data = p->dropped };
    return 0;
}

static int make_page(struct page *p, void *const *learner, int n, struct ctr_writer *const *w,
                     const struct ctr_col *names, struct ctr_err *err)
{
    p->table = malloc(PAGE_ROWS * sizeof *p->table);
    p->key = malloc(PAGE_ROWS * sizeof *p->key);
    p->day = malloc(PAGE_ROWS * sizeof *p->day);
    p->dropped = calloc(PAGE_ROWS / 8, sizeof *p->dropped);
    int rc = p->table && p->key && p->day && p->dropped ? 0 : ctr_fail_nomem(err, PAGE_ROWS * sizeof *p->key);
    for (int v = 0; v < n && !rc; v++)
        rc = make_part(p, learner[v], w[v], names, err);
    return rc;
}

static void free_page(struct page *p)
{
    for (int v = 0; v < p->n; v++)
        for (int i = 0; i < NUMBERS; i++)
            free(p->model[v].number[i]);
    free(p->table);
    free(p->key);
    free(p->day);
    free(p->dropped);
}

static int write_page(struct page *p, struct ctr_err *err)
{
    int rc = 0;
    for (int v = 0; v < p->n && !rc; v++) {
        struct part *o = &p->model[v];
        struct ctr_batch b = { ctr_writer_schema(o->w), p->rows, 0, o->col };
        for (int i = 0; i < o->cols; i++)
            o->col[i].rows = p->rows;
        rc = ctr_writer_batch(o->w, &b, err);
    }
    p->rows = 0;
    memset(p->dropped, 0, PAGE_ROWS / 8 * sizeof *p->dropped);
    return rc;
}

/* ---- pages to the streams, by a thread of its own ---- */

struct saver {
    struct page page[2], *at;                  /* `at` is being filled */
    struct ctr_col names;                      /* the dictionary of table names */
    int32_t current;                           /* of the current table */
    const struct ctr_expired *gone, *gone_end; /* keys of the table that were dropped, those to come */
    struct ctr_background *writer;             /* or NULL */
    /* Used by the writer until ctr_background_wait: */
    struct page *full;
    int rc; /* the first error */
    struct ctr_err err;
};

static void write_full(void *ctx)
{
    struct saver *s = ctx;
    if (!s->rc)
        s->rc = write_page(s->full, &s->err);
}

/* Without a thread, or memory for its page, the caller writes. */
static void start_writer(struct saver *s, void *const *learner, int n, struct ctr_writer *const *w)
{
    struct ctr_err ignored = { 0 };
    if (!make_page(&s->page[1], learner, n, w, &s->names, &ignored))
        s->writer = ctr_background_new();
}

/* Wait until the submitted page is written. */
static int wait_written(struct saver *s, struct ctr_err *err)
{
    if (!s->writer)
        return 0;
    ctr_background_wait(s->writer, -1);
    if (s->rc)
        *err = s->err;
    return s->rc;
}

static int flush(struct saver *s, struct ctr_err *err)
{
    if (!s->at->rows || !s->writer)
        return s->at->rows ? write_page(s->at, err) : 0;
    const int rc = wait_written(s, err);
    if (rc)
        return rc;
    s->full = s->at;
    ctr_background_run(s->writer, write_full, s);
    s->at = &s->page[s->at == s->page];
    return 0;
}

/* ---- rows to pages ---- */

static int end_rows(struct saver *s, int64_t n, struct ctr_err *err)
{
    s->at->rows += n;
    return s->at->rows == PAGE_ROWS ? flush(s, err) : 0;
}

/* As row `at` of a page. */
static void put_numbers(const struct part *o, const struct ctr_state *state, double weight, int64_t at)
{
    const struct lr *m = o->m;
    const double real[] = { weight, state->value, state->n }; /* in the order of columns */
    for (int i = WEIGHT; i < NEGATIVES; i++)
        if (m->learning.precision == CTR_F64_STATE)
            ((double *)(void *)o->number[i])[at] = real[i];
        else
            ((float *)(void *)o->number[i])[at] = (float)real[i];
    if (m->learning.layout.counts) {
        ((uint64_t *)(void *)o->number[NEGATIVES])[at] = state->negatives;
        ((uint64_t *)(void *)o->number[POSITIVES])[at] = state->positives;
    }
    if (m->learning.layout.last)
        ((double *)(void *)o->number[LAST])[at] = state->last;
}

/* Store a table row as row `at` of a page. */
static void put_state(const struct page *p, const struct part *o, const struct ctr_learning *layout, const uint8_t *row,
                      int64_t at)
{
    struct ctr_state state;
    const struct lr *m = o->m;
    const double weight = read_row(m, layout, row, &state);
    put_numbers(o, &state, weight, at);
    if (m->expiry.days)
        p->day[at] = row == m->bias ? m->expiry.today : ctr_expiry_day(&m->expiry, row);
}

/* As row `at` of a page, whose table and key it has: that the key is no more. */
static void put_dropped(struct page *p, int64_t at)
{
    const struct ctr_state none = { 0 };
    put_numbers(p->model, &none, 0, at);
    p->day[at] = 0;
    ctr_bits_set(p->dropped, at, 1);
}

static int save_bias(struct saver *s, struct ctr_err *err)
{
    struct page *p = s->at;
    p->table[p->rows] = s->current;
    p->key[p->rows] = ctr_bias_key();
    for (int v = 0; v < p->n; v++)
        put_state(p, &p->model[v], &p->model[v].m->learning, p->model[v].m->bias, p->rows);
    return end_rows(s, 1, err);
}

static const struct ctr_learning *layout_of(const struct lr *m)
{
    return m->saved.sorted ? m->saved.sorted_as : &m->learning;
}

/* Store n <= GROUP rows of model o, a learner that has columns, from row `from` of t on. */
static void put_columns(const struct page *p, const struct part *o, const struct ctr_lr_sorted *t, uint64_t from,
                        int64_t n)
{
    const struct ctr_learning *l = layout_of(o->m);
    const struct ctr_layout *lay = &l->layout;
    const size_t at = (size_t)p->rows, bytes = l->precision == CTR_F64_STATE ? sizeof(double) : sizeof(float);
    const struct ctr_state_columns to = { o->number[WEIGHT] + at * bytes, o->number[Z] + at * bytes,
                                          o->number[N] + at * bytes, (uint64_t *)(void *)o->number[NEGATIVES] + at,
                                          (uint64_t *)(void *)o->number[POSITIVES] + at };
    const uint8_t *row[GROUP];
    for (int64_t i = 0; i < n; i++) {
        row[i] = t->base + t->place[from + (uint64_t)i].number * t->bytes;
        __builtin_prefetch(row[i] + lay->value);
        __builtin_prefetch(row[i] + lay->n);
    }
    ctr_state_columns(l, row, n, &to);
}

/* Write the rows of a table for all models; t[v] locates those of model v. */
static int save_sorted(struct saver *s, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    const struct lr *m = s->at->model->m;
    const bool columns = ctr_state_has_columns(layout_of(m)) && !m->expiry.days;
    int rc = 0;
    int64_t n;
    for (uint64_t from = 0; from < t->n && !rc; from += (uint64_t)n) {
        struct page *p = s->at;
        n = CTR_MIN((int64_t)(t->n - from), CTR_MIN(GROUP, PAGE_ROWS - p->rows));
        for (int64_t i = 0; i < n; i++) {
            p->table[p->rows + i] = s->current;
            p->key[p->rows + i] = t->place[from + (uint64_t)i].key;
        }
        for (int v = 0; columns && v < p->n; v++)
            put_columns(p, &p->model[v], &t[v], from, n);
        for (int v = 0; !columns && v < p->n; v++)
            for (int64_t i = 0; i < n; i++)
                put_state(p, &p->model[v], layout_of(p->model[v].m), sorted_row(&t[v], from + (uint64_t)i),
                          p->rows + i);
        rc = end_rows(s, n, err);
    }
    return rc;
}

/* A key that is no more. */
static int save_dropped(struct saver *s, uint64_t key, struct ctr_err *err)
{
    struct page *p = s->at;
    p->table[p->rows] = s->current;
    p->key[p->rows] = key;
    put_dropped(p, p->rows);
    return end_rows(s, 1, err);
}

/* Dropped keys below `key`; of `last` all others. A key that came again has a row. */
static int save_dropped_below(struct saver *s, uint64_t key, bool last, struct ctr_err *err)
{
    int rc = 0;
    for (; s->gone < s->gone_end && (last || s->gone->key < key) && !rc; s->gone++)
        if (s->gone + 1 == s->gone_end || s->gone[1].key != s->gone->key)
            rc = save_dropped(s, s->gone->key, err);
    while (!last && s->gone < s->gone_end && s->gone->key == key)
        s->gone++;
    return rc;
}

static int save_range(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct saver *s = ctx;
    const struct lr *m = s->at->model->m;
    const struct ctr_states *states = &m->states;
    struct ctr_lr_sorted t = { e, m->delta.changed.only ? 0 : n, ctr_states_rows(states), states->bytes, NULL };
    int rc = 0;
    for (uint64_t i = 0; i < n && m->delta.changed.only && !rc; i++) { /* a delta */
        if (!ctr_lr_saves(m, e[i].number))
            continue;
        if (s->gone < s->gone_end && s->gone->key <= e[i].key) { /* the rows before go first */
            rc = save_sorted(s, &t, err);
            t.place += t.n;
            t.n = 0;
            if (!rc)
                rc = save_dropped_below(s, e[i].key, false, err);
        }
        e[t.place - e + (ptrdiff_t)t.n++] = e[i];
    }
    return rc ? rc : save_sorted(s, &t, err);
}

static int by_table_and_key(const void *a, const void *b)
{
    const struct ctr_expired *x = a, *y = b;
    return x->table != y->table ? x->table - y->table : (x->key > y->key) - (x->key < y->key);
}

/* Of a delta: the keys that were dropped, by table and key. */
static void sort_gone(struct lr *m)
{
    if (drops(m) && m->delta.gone.len)
        qsort(m->delta.gone.data, m->delta.gone.len / sizeof(struct ctr_expired), sizeof(struct ctr_expired),
              by_table_and_key);
}

/* The keys of a table that were dropped, which are sorted. */
static void find_gone(struct saver *s, const struct lr *m, int table)
{
    const struct ctr_expired *all = (const struct ctr_expired *)(const void *)m->delta.gone.data;
    const size_t n = drops(m) ? m->delta.gone.len / sizeof *all : 0;
    size_t from = 0, to;
    while (from < n && all[from].table < table)
        from++;
    for (to = from; to < n && all[to].table == table;)
        to++;
    s->gone = all + from;
    s->gone_end = all + to;
}

static int take_sorted(void *ctx, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    return save_sorted(ctx, t, err);
}

static int save_table(struct saver *s, int table, struct ctr_err *err)
{
    const struct page *p = s->at;
    const struct lr *m = p->model->m;
    struct ctr_lr_sorted t[CTR_SAVE_TOGETHER];
    if (m->saved.elsewhere)
        return m->saved.elsewhere->each(m->saved.elsewhere->ctx, table, take_sorted, s, err);
    if (!m->saved.sorted) {
        find_gone(s, m, table);
        int rc = ctr_keys_sorted(&m->table[table], save_range, s, err);
        return rc ? rc : save_dropped_below(s, 0, true, err);
    }
    for (int v = 0; v < p->n; v++)
        t[v] = p->model[v].m->saved.sorted[table];
    return save_sorted(s, t, err);
}

struct named {
    const char *name;
    int table; /* -1: the bias */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int save_tables(struct saver *s, const struct named *order, int n, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        s->current = i;
        rc = order[i].table >= 0 ? save_table(s, order[i].table, err) : save_bias(s, err);
    }
    if (!rc)
        rc = flush(s, err);
    return rc ? rc : wait_written(s, err);
}

/* Keys that the file has rows of: those of the table, or, of a delta, perhaps some that it had. */
static uint64_t keys_of(const struct lr *m, int table)
{
    struct saver s = { .current = 0 };
    find_gone(&s, m, table);
    return m->saved.elsewhere ? m->saved.elsewhere->keys[table]
           : m->saved.sorted  ? m->saved.sorted[table].n
                              : m->table[table].learned + (uint64_t)(s.gone_end - s.gone);
}

int ctr_lr_save_some(void *const *learner, int models, const struct ctr_strs *tables, struct ctr_writer *const *w,
                     struct ctr_err *err)
{
    struct lr *m = learner[0];
    struct saver s = { .at = s.page };
    struct named *order = calloc((size_t)m->tables + 1, sizeof *order);
    struct ctr_colbuf names = { 0 };
    struct ctr_field text = { .type = CTR_UTF8 };
    int n = 0;
    sort_gone(m);
    for (int i = 0; order && i < m->tables; i++)
        if (keys_of(m, i))
            order[n++] = (struct named){ tables->s[i], i };
    if (order && !m->no_bias)
        order[n++] = (struct named){ CTR_BIAS_TABLE, -1 };
    int rc = order ? ctr_colbuf_init(&names, &text, err) : ctr_fail_nomem(err, (size_t)n * sizeof *order);
    if (!rc)
        qsort(order, (size_t)n, sizeof *order, by_name);
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_colbuf_str(&names, order[i].name, strlen(order[i].name), err);
    if (!rc)
        rc = make_page(&s.page[0], learner, models, w, &s.names, err);
    if (!rc) {
        s.names = *ctr_colbuf_view(&names);
        if (!m->saved.sorted && worth_a_thread(m))
            start_writer(&s, learner, models, w);
        ctr_lr_hold_finders(m);
        rc = save_tables(&s, order, n, err);
        ctr_lr_release_finders(m);
        ctr_background_free(s.writer);
    }
    free(order);
    free_page(&s.page[0]);
    free_page(&s.page[1]);
    ctr_colbuf_free(&names);
    return rc;
}

int ctr_lr_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    return ctr_lr_save_some(&learner, 1, tables, &w, err);
}
