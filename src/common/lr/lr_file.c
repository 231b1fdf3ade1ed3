/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of a model file that holds lr: columns table (dictionary), key, weight and the state of the optimizer (z;
 * n, or negatives and positives), typed as the learner keeps them; rows sorted by table and key, so that the file
 * depends on what was learned and not on the order of its keys. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/lr/ftrl.h"
#include "common/lr/lr.h"
#include "common/model/feed.h"

enum { WEIGHT = CTR_LR_WEIGHT, Z, N, NEGATIVES, POSITIVES, NUMBERS };
static const char *const number_names[NUMBERS] = { "weight", "z", "n", "negatives", "positives" };

static bool has_number(const struct ctr_learning *l, int i)
{
    switch (i) {
    case WEIGHT: return true;
    case Z: return l->optimizer->dual;
    case N: return l->layout.n;
    default: return l->layout.counts;
    }
}

static enum ctr_type number_type(const struct ctr_learning *l, int i)
{
    return i >= NEGATIVES ? CTR_U64 : l->precision == CTR_F64_STATE ? CTR_F64 : CTR_F32;
}

/* State and weight of a table row; here, not by ctr_state_row, for the learner that most files are of. */
CTR_BODY double read_row(const struct lr *m, const struct ctr_learning *l, const uint8_t *row, struct ctr_state *s)
{
    if (l->events)
        return ctr_state_row(l, &m->more.event, row, s);
    if (l->precision == CTR_F64_STATE) {
        memcpy(&s->value, row + l->layout.value, sizeof s->value);
        memcpy(&s->n, row + l->layout.n, sizeof s->n);
        return ctr_ftrl_weight64(l, s->value, sqrt(s->n));
    }
    float z, n;
    memcpy(&z, row + l->layout.value, sizeof z);
    memcpy(&n, row + l->layout.n, sizeof n);
    s->value = (double)z;
    s->n = (double)n;
    return (double)ctr_ftrl_weight32(l, z, sqrtf(n));
}

/* Where a row lies that a variant keeps among those of others; asks for one that comes soon. */
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
    *digest += ctr_lr_digest(key, read_row(m, l, row, &s));
    return small_enough(s.value) && small_enough(s.n);
}

enum { GROUP = 256 };

/* digest_row of rows that are on their way, of a learner that has columns. */
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
        finite &= small_enough(f64 ? z[i] : (double)z32[i]) & small_enough(f64 ? squares[i] : (double)squares32[i]);
    }
    return finite;
}

static bool digest_table(const struct lr *m, const struct ctr_keys *t, uint64_t *digest)
{
    uint64_t at = 0, hash, key[GROUP];
    uint8_t *row[GROUP];
    bool finite = true;
    for (int64_t n = GROUP; n == GROUP;) {
        for (n = 0; n < GROUP && (row[n] = ctr_keys_row(t, &m->states, &at, &hash)); n++) {
            __builtin_prefetch(row[n] + CTR_STATE_AT);
            key[n] = ctr_sparse_key(hash);
        }
        const bool columns = ctr_state_has_columns(&m->learning);
        if (columns)
            finite &= digest_group(&m->learning, key, row, n, digest);
        for (int64_t i = 0; !columns && i < n; i++)
            finite &= digest_row(m, &m->learning, key[i], row[i], digest);
    }
    return finite;
}

/* Are the tables so large that a second thread helps, and may there be one? */
static bool worth_a_thread(const struct lr *m)
{
    enum { KEYS = 1 << 16 };
    uint64_t keys = 0;
    for (int i = 0; i < m->tables; i++)
        keys += m->table[i].learned;
    return keys >= KEYS && ctr_feed_may_thread();
}

/* Tables for two threads: each takes the last one that is left. */
struct digesting {
    const struct lr *m;
    int *left;
    struct ctr_lr_digested sum;
};

static void *digest_tables(void *arg)
{
    struct digesting *d = arg;
    for (int i; (i = __atomic_sub_fetch(d->left, 1, __ATOMIC_RELAXED)) >= 0;)
        d->sum.finite &= digest_table(d->m, &d->m->table[i], &d->sum.digest);
    return NULL;
}

static struct ctr_lr_digested digest_threaded(const struct lr *m)
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

/* The digest of all weights; false when some state is infinite or not a number. An update that overflows shows in the
 * next prediction, but the last row has none after it. */
static bool digest_all(const struct lr *m, uint64_t *digest)
{
    struct ctr_lr_digested all = { 0, true };
    *digest = 0;
    bool finite = digest_row(m, &m->learning, ctr_bias_key(), m->bias, digest);
    if (m->no_bias)
        *digest = 0;
    if (m->digested)
        all = *m->digested;
    else if (!m->sorted)
        all = digest_threaded(m);
    for (int i = 0; i < m->tables && m->sorted && !m->digested; i++)
        for (uint64_t k = 0; k < m->sorted[i].n; k++)
            all.finite &=
                digest_row(m, m->sorted_as, m->sorted[i].place[k].key, sorted_row(&m->sorted[i], k), &all.digest);
    *digest += all.digest;
    return finite & all.finite;
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
    ctr_lr_hold_finders(m);
    const bool finite = digest_all(m, &digest);
    ctr_lr_release_finders(m);
    if (!finite)
        return ctr_fail(err, CTR_EDATA, "the model's state is infinite or not a number" CTR_LR_TOO_LARGE);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    int rc = ctr_schema_add(s, "table", CTR_UTF8, err);
    if (!rc) {
        s->f[s->n - 1].dict = true;
        rc = ctr_schema_add(s, "key", CTR_U64, err);
    }
    for (int i = 0; i < NUMBERS && !rc; i++)
        if (has_number(&m->learning, i))
            rc = ctr_schema_add(s, number_names[i], number_type(&m->learning, i), err);
    if (!rc && m->expiry.days)
        rc = ctr_schema_add(s, "day", CTR_I32, err);
    if (!rc && m->learning.events)
        rc = set_whole(&s->meta, CTR_META_MODEL_STEPS, (int64_t)m->more.event.step, err);
    if (!rc && m->learning.precision == CTR_Q13_STATE)
        rc = set_whole(&s->meta, CTR_META_MODEL_CLIPS, m->more.event.clips, err);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_MODEL_WEIGHTS, hex, err);
}

static int get_whole(const struct ctr_meta *meta, const char *key, int64_t *v, struct ctr_err *err)
{
    const char *text = ctr_meta_get(meta, key);
    *v = 0;
    if (text && (!ctr_parse_i64(text, strlen(text), v) || *v < 0))
        return ctr_fail(err, CTR_EDATA, "the model's %s, '%.40s', is damaged", key, text);
    return 0;
}

int ctr_lr_start(const struct ctr_learning *l, const struct ctr_meta *meta, struct ctr_event *e, struct ctr_err *err)
{
    int64_t steps, clips;
    int rc = get_whole(meta, CTR_META_MODEL_STEPS, &steps, err);
    if (!rc)
        rc = get_whole(meta, CTR_META_MODEL_CLIPS, &clips, err);
    if (rc)
        return rc;
    ctr_learning_start(l, e, (uint64_t)steps);
    e->clips = clips;
    return 0;
}

enum { SAVE_ROWS = CTR_BATCH_ROWS };

/* A model on its way to a file. */
struct saved {
    const struct lr *m;
    struct ctr_writer *w;
    struct ctr_col col[2 + NUMBERS + 1];
    int cols;
    uint8_t *number[NUMBERS]; /* in the type of the file */
};

/* Models that hold the same keys, row by row. */
struct saver {
    struct saved model[CTR_SAVE_TOGETHER];
    int n;
    struct ctr_col names; /* the dictionary */
    int32_t *table;
    uint64_t *key;
    int32_t *day;
    int32_t current; /* table */
    int64_t rows;
};

static int save_flush(struct saver *s, struct ctr_err *err)
{
    for (int v = 0; v < s->n && s->rows; v++) {
        struct saved *o = &s->model[v];
        struct ctr_batch b = { ctr_writer_schema(o->w), s->rows, 0, o->col };
        for (int i = 0; i < o->cols; i++)
            o->col[i].rows = s->rows;
        int rc = ctr_writer_batch(o->w, &b, err);
        if (rc)
            return rc;
    }
    s->rows = 0;
    return 0;
}

static int end_rows(struct saver *s, int64_t n, struct ctr_err *err)
{
    s->rows += n;
    return s->rows == SAVE_ROWS ? save_flush(s, err) : 0;
}

/* A table row as row `at` of the batch. */
static void put_state(const struct saver *s, const struct saved *o, const struct ctr_learning *layout,
                      const uint8_t *row, int64_t at)
{
    struct ctr_state state;
    const struct lr *m = o->m;
    double weight = read_row(m, layout, row, &state);
    const double real[] = { weight, state.value, state.n }; /* in the order of columns */
    for (int i = WEIGHT; i < NEGATIVES; i++)
        if (m->learning.precision == CTR_F64_STATE)
            ((double *)(void *)o->number[i])[at] = real[i];
        else
            ((float *)(void *)o->number[i])[at] = (float)real[i];
    if (m->learning.layout.counts) {
        ((uint64_t *)(void *)o->number[NEGATIVES])[at] = state.negatives;
        ((uint64_t *)(void *)o->number[POSITIVES])[at] = state.positives;
    }
    if (m->expiry.days)
        s->day[at] = row == m->bias ? m->expiry.today : ctr_expiry_day(&m->expiry, row);
}

static int save_bias(struct saver *s, struct ctr_err *err)
{
    s->table[s->rows] = s->current;
    s->key[s->rows] = ctr_bias_key();
    for (int v = 0; v < s->n; v++)
        put_state(s, &s->model[v], &s->model[v].m->learning, s->model[v].m->bias, s->rows);
    return end_rows(s, 1, err);
}

struct named {
    const char *name;
    int table; /* -1: the bias */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static const struct ctr_learning *layout_of(const struct lr *m)
{
    return m->sorted ? m->sorted_as : &m->learning;
}

/* n <= GROUP rows of model o, of a learner that has columns, from row `from` of t on. */
static void put_columns(const struct saver *s, const struct saved *o, const struct ctr_lr_sorted *t, uint64_t from,
                        int64_t n)
{
    const struct ctr_learning *l = layout_of(o->m);
    const struct ctr_layout *lay = &l->layout;
    const size_t at = (size_t)s->rows, bytes = l->precision == CTR_F64_STATE ? sizeof(double) : sizeof(float);
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

/* The rows of a table, of all models: t[v] says where those of model v lie. */
static int save_sorted(struct saver *s, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    const bool columns = ctr_state_has_columns(layout_of(s->model->m)) && !s->model->m->expiry.days;
    int rc = 0;
    int64_t n;
    for (uint64_t from = 0; from < t->n && !rc; from += (uint64_t)n) {
        n = CTR_MIN((int64_t)(t->n - from), CTR_MIN(GROUP, SAVE_ROWS - s->rows));
        for (int64_t i = 0; i < n; i++) {
            s->table[s->rows + i] = s->current;
            s->key[s->rows + i] = t->place[from + (uint64_t)i].key;
        }
        for (int v = 0; columns && v < s->n; v++)
            put_columns(s, &s->model[v], &t[v], from, n);
        for (int v = 0; !columns && v < s->n; v++)
            for (int64_t i = 0; i < n; i++)
                put_state(s, &s->model[v], layout_of(s->model[v].m), sorted_row(&t[v], from + (uint64_t)i),
                          s->rows + i);
        rc = end_rows(s, n, err);
    }
    return rc;
}

static int save_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct saver *s = ctx;
    const struct ctr_states *states = &s->model->m->states;
    const struct ctr_lr_sorted t = { e, n, ctr_states_rows(states), states->bytes };
    return save_sorted(s, &t, err);
}

/* A thread that sorts ahead, or NULL: the tables are too small for one, or there can be none. */
static struct ctr_lr_sorter *sorter_of(const struct lr *m, const struct named *order, int n,
                                       const struct ctr_keys **table)
{
    int tables = 0;
    for (int i = 0; i < n; i++)
        if (order[i].table >= 0)
            table[tables++] = &m->table[order[i].table];
    return !m->sorted && worth_a_thread(m) ? ctr_lr_sorter_new(table, tables) : NULL;
}

static int save_table(struct saver *s, int table, struct ctr_lr_sorter *sorter, struct ctr_err *err)
{
    const struct lr *m = s->model->m;
    struct ctr_lr_sorted t[CTR_SAVE_TOGETHER];
    if (!m->sorted)
        return sorter ? ctr_lr_sorter_table(sorter, save_range, s, err)
                      : ctr_keys_sorted(&m->table[table], save_range, s, err);
    for (int v = 0; v < s->n; v++)
        t[v] = s->model[v].m->sorted[table];
    return save_sorted(s, t, err);
}

static int save_tables(struct saver *s, const struct named *order, int n, struct ctr_err *err)
{
    const struct ctr_keys **table = calloc((size_t)n + 1, sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, (size_t)n * sizeof *table);
    struct ctr_lr_sorter *sorter = sorter_of(s->model->m, order, n, table);
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        s->current = i;
        rc = order[i].table >= 0 ? save_table(s, order[i].table, sorter, err) : save_bias(s, err);
    }
    ctr_lr_sorter_free(sorter);
    free(table);
    return rc ? rc : save_flush(s, err);
}

static int make_model(struct saver *s, struct lr *m, struct ctr_writer *w, struct ctr_err *err)
{
    struct saved *o = &s->model[s->n++];
    o->m = m;
    o->w = w;
    o->col[0] = (struct ctr_col){ .type = CTR_UTF8, .data = s->table, .dict = &s->names };
    o->col[1] = (struct ctr_col){ .type = CTR_U64, .data = s->key };
    o->cols = 2;
    for (int i = 0; i < NUMBERS; i++) {
        if (!(o->number[i] = malloc(SAVE_ROWS * sizeof(double))))
            return ctr_fail_nomem(err, SAVE_ROWS * sizeof(double));
        if (has_number(&m->learning, i))
            o->col[o->cols++] = (struct ctr_col){ .type = number_type(&m->learning, i), .data = o->number[i] };
    }
    if (m->expiry.days)
        o->col[o->cols++] = (struct ctr_col){ .type = CTR_I32, .data = s->day };
    return 0;
}

static int make_saver(struct saver *s, struct lr *const *m, int n, struct ctr_writer *const *w, struct ctr_err *err)
{
    s->table = malloc(SAVE_ROWS * sizeof *s->table);
    s->key = malloc(SAVE_ROWS * sizeof *s->key);
    s->day = malloc(SAVE_ROWS * sizeof *s->day);
    int rc = s->table && s->key && s->day ? 0 : ctr_fail_nomem(err, SAVE_ROWS * sizeof *s->key);
    for (int v = 0; v < n && !rc; v++)
        rc = make_model(s, m[v], w[v], err);
    return rc;
}

static void free_saver(struct saver *s)
{
    for (int v = 0; v < s->n; v++)
        for (int i = 0; i < NUMBERS; i++)
            free(s->model[v].number[i]);
    free(s->table);
    free(s->key);
    free(s->day);
}

int ctr_lr_save_some(void *const *learner, int models, const struct ctr_strs *tables, struct ctr_writer *const *w,
                     struct ctr_err *err)
{
    struct lr *m = learner[0];
    struct saver s = { .n = 0 };
    struct named *order = calloc((size_t)m->tables + 1, sizeof *order);
    struct ctr_colbuf names = { 0 };
    struct ctr_field text = { .type = CTR_UTF8 };
    int n = 0;
    for (int i = 0; order && i < m->tables; i++)
        if (m->sorted ? m->sorted[i].n : m->table[i].learned)
            order[n++] = (struct named){ tables->s[i], i };
    if (order && !m->no_bias)
        order[n++] = (struct named){ CTR_BIAS_TABLE, -1 };
    int rc = order ? ctr_colbuf_init(&names, &text, err) : ctr_fail_nomem(err, (size_t)n * sizeof *order);
    if (!rc)
        qsort(order, (size_t)n, sizeof *order, by_name);
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_colbuf_str(&names, order[i].name, strlen(order[i].name), err);
    if (!rc)
        rc = make_saver(&s, (struct lr *const *)learner, models, w, err);
    if (!rc) {
        s.names = *ctr_colbuf_view(&names);
        ctr_lr_hold_finders(m);
        rc = save_tables(&s, order, n, err);
        ctr_lr_release_finders(m);
    }
    free(order);
    free_saver(&s);
    ctr_colbuf_free(&names);
    return rc;
}

int ctr_lr_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    return ctr_lr_save_some(&learner, 1, tables, &w, err);
}

int ctr_lr_find_columns(const struct ctr_batch *b, struct ctr_lr_columns *c, struct ctr_err *err)
{
    static const struct {
        const char *name;
        enum ctr_type type; /* CTR_F64: or CTR_F32 */
        size_t at;
    } want[] = {
        { "table", CTR_UTF8, offsetof(struct ctr_lr_columns, table) },
        { "key", CTR_U64, offsetof(struct ctr_lr_columns, key) },
        { "weight", CTR_F64, offsetof(struct ctr_lr_columns, number[WEIGHT]) },
        { "z", CTR_F64, offsetof(struct ctr_lr_columns, number[Z]) },
        { "n", CTR_F64, offsetof(struct ctr_lr_columns, number[N]) },
        { "negatives", CTR_U64, offsetof(struct ctr_lr_columns, number[NEGATIVES]) },
        { "positives", CTR_U64, offsetof(struct ctr_lr_columns, number[POSITIVES]) },
        { "day", CTR_I32, offsetof(struct ctr_lr_columns, day) },
    };
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < CTR_COUNT(want); i++) {
        int at = ctr_schema_find(b->schema, want[i].name);
        if (at < 0)
            continue;
        const struct ctr_col *col = &b->col[at];
        bool real = want[i].type == CTR_F64, whole = !real && want[i].type != CTR_UTF8;
        bool right = (col->type == want[i].type || (real && col->type == CTR_F32)) && !(whole && col->dict);
        if (!right)
            return ctr_fail(err, CTR_EDATA, "column '%s' of the model has another type than ctr-train gave it",
                            want[i].name);
        if (col->nulls || (col->dict && col->dict->nulls))
            return ctr_fail(err, CTR_EDATA, "column '%s' of the model has nulls", want[i].name);
        *(const struct ctr_col **)(void *)((char *)c + want[i].at) = col;
    }
    return c->table && c->key ? 0
                              : ctr_fail(err, CTR_EDATA, "the model has no column '%s'", c->table ? "key" : "table");
}

int ctr_lr_find_table(struct ctr_lr_table *cache, struct ctr_str name, struct ctr_strs *tables, struct ctr_err *err)
{
    if (cache->name.n == name.n && cache->name.p && !memcmp(cache->copy, name.p, name.n))
        return 0;
    char *text = NULL;
    if (strlen(CTR_BIAS_TABLE) == name.n && !memcmp(name.p, CTR_BIAS_TABLE, name.n))
        cache->table = -1;
    else {
        if (!(text = strndup(name.p, name.n)))
            return ctr_fail_nomem(err, name.n);
        cache->table = strlen(text) == name.n ? ctr_strs_find(tables, text) : -1;
        int rc = strlen(text) != name.n ? ctr_fail(err, CTR_EDATA, "a table name of the model holds a zero byte") : 0;
        if (!rc && cache->table < 0) {
            if (tables->n >= CTR_MAX_TABLES)
                rc = ctr_fail(err, CTR_EDATA, "the model has more than %d tables", CTR_MAX_TABLES);
            else
                rc = ctr_strs_add(tables, text, name.n, err);
            cache->table = tables->n - 1;
        }
        free(text);
        if (rc)
            return rc;
    }
    cache->name = (struct ctr_str){ NULL, 0 };
    if (name.n <= sizeof cache->copy) {
        memcpy(cache->copy, name.p, name.n);
        cache->name = (struct ctr_str){ cache->copy, name.n };
    }
    return 0;
}

int ctr_lr_twice(const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA,
                    "row %lld of the model: its table and key came before; train it again, or keep the first of such "
                    "rows by ctr-sort --unique -k table,key",
                    (long long)(b->first_row + i + 1));
}

static const char *first_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l, int from)
{
    for (int i = from; i < NUMBERS; i++)
        if (has_number(l, i) && !c->number[i])
            return number_names[i];
    return NULL;
}

const char *ctr_lr_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l)
{
    return first_missing(c, l, l->optimizer->dual ? Z : WEIGHT);
}

const char *ctr_lr_rate_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l)
{
    return first_missing(c, l, N);
}

static uint64_t whole_at(const struct ctr_col *col, int64_t i)
{
    return col ? ((const uint64_t *)col->data)[i] : 0;
}

void ctr_lr_state(const struct ctr_lr_columns *c, const struct ctr_learning *l, int64_t i, struct ctr_state *s)
{
    const struct ctr_col *value = c->number[l->optimizer->dual ? Z : WEIGHT];
    *s = (struct ctr_state){ value ? ctr_col_f64(value, i) : 0, c->number[N] ? ctr_col_f64(c->number[N], i) : 0,
                             whole_at(c->number[NEGATIVES], i), whole_at(c->number[POSITIVES], i) };
}

/* Is it the state of such a learner? */
static int check_frame(const struct lr *m, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *text = ctr_meta_get(&s->meta, CTR_META_MODEL_OPTIONS);
    struct ctr_params p;
    int rc = ctr_params_parse(&p, text ? text : "", err);
    if (rc)        /* LCOV_EXCL_BR_LINE ctr_model_open has read them */
        return rc; /* LCOV_EXCL_LINE */
    if (strcmp(p.optimizer, m->params.optimizer) || strcmp(p.learning_rate, m->params.learning_rate))
        return ctr_fail(err, CTR_EUSAGE,
                        "the model was learned with --optimizer %s --learning-rate %s, whose state is not that of "
                        "--optimizer %s --learning-rate %s",
                        p.optimizer, p.learning_rate, m->params.optimizer, m->params.learning_rate);
    if (m->learning.step == CTR_STEP_FTRL_GLOBAL && (p.alpha != m->params.alpha || p.l1 != m->params.l1))
        return ctr_fail(err, CTR_EUSAGE, "the model's z goes with its --alpha %g and --l1 %g: give the same", p.alpha,
                        p.l1);
    return 0;
}

/* The latest day is that of the last row learned. */
static void load_day(struct lr *m, const struct ctr_lr_columns *c, int64_t i, uint8_t *row)
{
    int32_t day = c->day ? (int32_t)ctr_col_i64(c->day, i) : CTR_NO_DAY;
    if (!m->expiry.days)
        return;
    if (row != m->bias)
        ctr_expiry_stamp(&m->expiry, row, day);
    m->expiry.today = CTR_MAX(m->expiry.today, day);
}

static int load_batch(struct lr *m, struct ctr_strs *tables, struct ctr_lr_table *cache, const struct ctr_batch *b,
                      struct ctr_err *err)
{
    const struct ctr_learning *l = &m->learning;
    struct ctr_lr_columns c;
    int rc = ctr_lr_find_columns(b, &c, err);
    const char *missing = rc ? NULL : ctr_lr_missing(&c, l);
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s': it can predict but not learn on", missing);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        struct ctr_state s;
        uint64_t h = ctr_sparse_hash(((const uint64_t *)c.key->data)[i]);
        ctr_lr_state(&c, l, i, &s);
        if (!(fabs(s.value) < INFINITY && s.n >= (l->optimizer->holds ? -CTR_MAX_THRESHOLD : 0) && s.n < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: %s or n is damaged",
                            (long long)(b->first_row + i + 1), l->optimizer->dual ? "z" : "weight");
        if ((rc = ctr_lr_find_table(cache, ctr_col_str(c.table, i), tables, err)) || (rc = ctr_lr_bind(m, tables, err)))
            return rc;
        if (cache->table >= 0) {
            struct ctr_keys *keys = &m->table[cache->table];
            const uint64_t before = keys->index.used;
            uint8_t *row;
            if ((rc = ctr_keys_get(keys, &m->states, h, &row, err)))
                return rc;
            if (keys->index.used == before)
                return ctr_lr_twice(b, i, err);
            ctr_state_write(l, &m->more.event, &s, row);
            load_day(m, &c, i, row);
        } else if (cache->bias) {
            return ctr_lr_twice(b, i, err);
        } else if (!m->no_bias) {
            ctr_state_write(l, &m->more.event, &s, m->bias);
            load_day(m, &c, i, m->bias);
        }
        cache->bias |= cache->table < 0;
    }
    return rc;
}

int ctr_lr_resume(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct lr *m = learner;
    struct ctr_lr_table cache = { .table = 0 };
    const struct ctr_batch *b;
    int rc = ctr_lr_start(&m->learning, &ctr_reader_schema(r)->meta, &m->more.event, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = load_batch(m, tables, &cache, b, err);
    return rc;
}

int ctr_lr_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    int rc = check_frame(learner, ctr_reader_schema(r), err);
    return rc ? rc : ctr_lr_resume(learner, tables, r, err);
}
