/* SPDX-License-Identifier: Apache-2.0
 *
 * lr: logistic regression by FTRL-Proximal, exactly row by row. One sparse table a feature table, so that small fields
 * stay in cache and a row's table name costs nothing; a table row is hash, z, n. The bias is a coordinate of its own.
 *
 * A block of rows reserves room in the tables first; then nothing in them moves, and the rows' slots are prefetched
 * AHEAD rows before they are used. */
#include "common/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/feature/op.h"
#include "common/model/ftrl.h"
#include "common/model/sparse.h"

enum {
    AHEAD = 8,            /* rows between prefetch and use */
    BLOCK_ROWS = 64,      /* rows between two growths */
    BLOCK_ENTRIES = 8192, /* or so many entries, if there are more */
};

struct lr {
    struct ctr_ftrl ftrl;
    const struct ctr_ftrl_kernel *kernel;
    int state; /* CTR_F64_STATE or CTR_F32_STATE */
    uint32_t stride;
    bool no_bias;
    struct ctr_sparse *table;
    uint64_t *extra; /* by table: entries of the block */
    int tables;
    struct ctr_buf home, row;        /* pointers, of the block and of the row */
    struct ctr_buf z, n, w, root, x; /* scratch of a row */
    int64_t filled;                  /* x holds this many ones less 1, the bias and zeros; 0: something else */
    _Alignas(16) uint8_t bias[CTR_SPARSE_MAX_STRIDE];
};

static int lr_new(void **out, const struct ctr_params *p, struct ctr_err *err)
{
    struct lr *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->ftrl = (struct ctr_ftrl){ 1 / p->alpha, p->beta, p->l1, p->l2 };
    m->kernel = ctr_ftrl_kernel_best();
    m->state = strcmp(p->precision, "f32") ? CTR_F64_STATE : CTR_F32_STATE;
    m->stride = m->state == CTR_F64_STATE ? 24 : 16;
    m->no_bias = p->no_bias;
    *out = m;
    return 0;
}

static void lr_free(void *learner)
{
    struct lr *m = learner;
    if (!m)
        return;
    for (int i = 0; i < m->tables; i++)
        ctr_sparse_free(&m->table[i]);
    struct ctr_buf *bufs[] = { &m->home, &m->row, &m->z, &m->n, &m->w, &m->root, &m->x };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    free(m->table);
    free(m->extra);
    free(m);
}

static int lr_bind(void *learner, const struct ctr_strs *names, struct ctr_err *err)
{
    struct lr *m = learner;
    size_t n = (size_t)names->n;
    if (names->n <= m->tables)
        return 0;
    struct ctr_sparse *table = realloc(m->table, n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, n * sizeof *table);
    m->table = table;
    uint64_t *extra = realloc(m->extra, n * sizeof *extra);
    if (!extra)
        return ctr_fail_nomem(err, n * sizeof *extra);
    m->extra = extra;
    for (; m->tables < names->n; m->tables++)
        ctr_sparse_init(&m->table[m->tables], m->stride);
    return 0;
}

static int64_t lr_keys(const void *learner)
{
    const struct lr *m = learner;
    uint64_t n = !m->no_bias;
    for (int i = 0; i < m->tables; i++)
        n += m->table[i].used;
    return (int64_t)n;
}

static int64_t lr_memory(const void *learner)
{
    const struct lr *m = learner;
    uint64_t bytes = 0;
    for (int i = 0; i < m->tables; i++)
        bytes += ctr_sparse_bytes(&m->table[i]);
    return (int64_t)bytes;
}

/* ---- training
 * --------------------------------------------------------------------------------------------------------- */

/* Rows [from, return) of the next block. */
static int64_t block_end(const struct ctr_rows *r, int64_t from)
{
    int64_t end = CTR_MIN(from + BLOCK_ROWS, r->rows);
    while (end > from + 1 && r->start[end] - r->start[from] > BLOCK_ENTRIES)
        end--;
    return end;
}

static int check_memory(const struct lr *m, int64_t bound, struct ctr_err *err)
{
    uint64_t need = 0;
    for (int i = 0; i < m->tables; i++)
        need += m->extra[i] ? ctr_sparse_bytes_after(&m->table[i], m->extra[i]) : ctr_sparse_bytes(&m->table[i]);
    if (need <= (uint64_t)bound)
        return 0;
    return ctr_fail(
        err, CTR_ENOMEM,
        "the table of %lld keys needs %.1f MiB to go on, --memory allows %.1f MiB: raise it, drop rare values "
        "(vocab with min=…) or use --precision f32",
        (long long)lr_keys(m), (double)need / 0x1p20, (double)bound / 0x1p20);
}

static int reserve_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t bound,
                         struct ctr_err *err)
{
    int64_t first = r->start[from], last = r->one_a_table ? r->start[from + 1] : r->start[end];
    int64_t each = r->one_a_table ? end - from : 1;
    memset(m->extra, 0, (size_t)m->tables * sizeof *m->extra);
    for (int64_t e = first; e < last; e++)
        m->extra[r->table[e]] += (uint64_t)each;
    int rc = bound ? check_memory(m, bound, err) : 0;
    for (int i = 0; i < m->tables && !rc; i++)
        if (m->extra[i])
            rc = ctr_sparse_reserve(&m->table[i], m->extra[i], err);
    return rc;
}

static int scratch(struct ctr_buf *b, int64_t n, size_t size, struct ctr_err *err)
{
    b->len = 0;
    return ctr_buf_reserve(b, (size_t)n * size, err);
}

/* Room for the longest row of the block, and for the homes of all its entries. */
static int make_scratch(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    int64_t longest = 0;
    for (int64_t i = from; i < end; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    longest = (longest + 2 * CTR_FTRL_LANES) / CTR_FTRL_LANES * CTR_FTRL_LANES; /* the bias too */
    struct ctr_buf *bufs[] = { &m->z, &m->n, &m->w, &m->root, &m->row };
    int rc = scratch(&m->home, r->start[end] - r->start[from], sizeof(void *), err);
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = scratch(bufs[i], longest, sizeof(double), err);
    if (!rc && m->x.cap < (size_t)longest * sizeof(double)) {
        m->filled = 0;
        rc = scratch(&m->x, longest, sizeof(double), err);
    }
    return rc;
}

static void prefetch_row(const struct lr *m, const struct ctr_rows *r, int64_t row, uint8_t **home)
{
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
        *home = ctr_sparse_home(&m->table[r->table[e]], r->hash[e]);
        __builtin_prefetch(*home++, 1);
    }
}

/* x of a row, then the bias, then zeros to the end of the lanes. */
static void fill_x(struct lr *m, const double *x, int64_t k, int64_t all)
{
    double *to = (double *)(void *)m->x.data;
    if (x)
        memcpy(to, x, (size_t)k * sizeof *to);
    else if (m->filled == k + 1)
        return; /* as the last row left it */
    else
        for (int64_t i = 0; i < k; i++)
            to[i] = 1;
    m->filled = x ? 0 : k + 1;
    for (int64_t i = k; i < (all + CTR_FTRL_LANES - 1) / CTR_FTRL_LANES * CTR_FTRL_LANES; i++)
        to[i] = i < all;
}

static int diverged(int64_t row, struct ctr_err *err)
{
    err->row = row;
    return ctr_fail(err, CTR_EDATA,
                    "row %lld: the prediction is not a number: weights or values of features are too large; scale them "
                    "down, or lower --alpha",
                    (long long)row);
}

static int train_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, double *score,
                       struct ctr_err *err)
{
    const struct ctr_ftrl_row s = { m->z.data, m->n.data, m->w.data, m->root.data, (double *)(void *)m->x.data };
    uint8_t **home = (uint8_t **)(void *)m->home.data, **row = (uint8_t **)(void *)m->row.data;
    int64_t first = r->start[from];
    for (int64_t i = from; i < CTR_MIN(from + AHEAD, end); i++)
        prefetch_row(m, r, i, home + (r->start[i] - first));
    for (int64_t i = from; i < end; i++) {
        int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !m->no_bias;
        if (i + AHEAD < end)
            prefetch_row(m, r, i + AHEAD, home + (r->start[i + AHEAD] - first));
        for (int64_t j = 0; j < k; j++)
            row[j] = ctr_sparse_get_from(&m->table[r->table[at + j]], home[at - first + j], r->hash[at + j]);
        row[k] = m->bias;
        fill_x(m, r->x ? r->x + at : NULL, k, all);
        double p = ctr_sigmoid(m->kernel->forward[m->state](&m->ftrl, &s, row, all));
        if (!(p >= 0))
            return diverged(r->first_row + i + 1, err);
        score[i] = p;
        m->kernel->update[m->state](&m->ftrl, &s, row, all, (r->weight ? r->weight[i] : 1) * (p - r->label[i]));
    }
    return 0;
}

static int lr_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct lr *m = learner;
    for (int64_t from = 0, end; from < r->rows; from = end) {
        end = block_end(r, from);
        int rc = reserve_block(m, r, from, end, bound, err);
        if (!rc)
            rc = make_scratch(m, r, from, end, err);
        if (!rc)
            rc = train_block(m, r, from, end, score, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the model's rows in a file
 * ----------------------------------------------------------------------------------------- */

/* z, n and weight of a table row, as doubles (exact for f32). */
static void read_row(const struct lr *m, const uint8_t *row, double *z, double *n, double *w)
{
    if (m->state == CTR_F64_STATE) {
        memcpy(z, row + 8, sizeof *z);
        memcpy(n, row + 16, sizeof *n);
        *w = ctr_ftrl_weight64(&m->ftrl, *z, *n);
    } else {
        float zn[2];
        memcpy(zn, row + 8, sizeof zn);
        *z = (double)zn[0];
        *n = (double)zn[1];
        *w = (double)ctr_ftrl_weight32(&m->ftrl, zn[0], zn[1]);
    }
}

/* Part of the digest of weights: a sum, so that order does not matter, and weights of 0 do not count. */
static uint64_t digest_one(uint64_t key, double w)
{
    uint64_t bits;
    memcpy(&bits, &w, 8);
    return w == 0 ? 0 : ctr_mix64(ctr_mix64(key) + bits);
}

static int lr_save_schema(void *learner, const struct ctr_strs *tables, struct ctr_schema *s, struct ctr_err *err)
{
    static const char *const names[] = { "weight", "z", "n" };
    const struct lr *m = learner;
    uint64_t digest = 0;
    double z, n, w;
    char hex[17];
    (void)tables;
    for (int i = 0; i < m->tables; i++) {
        uint64_t at = 0;
        for (const uint8_t *row; (row = ctr_sparse_next(&m->table[i], &at));) {
            read_row(m, row, &z, &n, &w);
            digest += digest_one(ctr_sparse_key(ctr_sparse_row_hash(row)), w);
        }
    }
    read_row(m, m->bias, &z, &n, &w);
    if (!m->no_bias)
        digest += digest_one(ctr_bias_key(), w);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    int rc = ctr_schema_add(s, "table", CTR_UTF8, err);
    if (!rc) {
        s->f[s->n - 1].dict = true;
        rc = ctr_schema_add(s, "key", CTR_U64, err);
    }
    for (size_t i = 0; i < CTR_COUNT(names) && !rc; i++)
        rc = ctr_schema_add(s, names[i], m->state == CTR_F64_STATE ? CTR_F64 : CTR_F32, err);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_MODEL_WEIGHTS, hex, err);
}

enum { SAVE_ROWS = CTR_BATCH_ROWS };
struct saver {
    const struct lr *m;
    struct ctr_writer *w;
    struct ctr_col names; /* the dictionary */
    struct ctr_col col[5];
    int32_t *table;
    uint64_t *key;
    uint8_t *value[3]; /* weight, z, n in the type of the file */
    int32_t current;   /* table */
    int64_t rows;
};

static int save_flush(struct saver *s, struct ctr_err *err)
{
    struct ctr_batch b = { ctr_writer_schema(s->w), s->rows, 0, s->col };
    if (!s->rows)
        return 0;
    for (int i = 0; i < 5; i++)
        s->col[i].rows = s->rows;
    s->rows = 0;
    return ctr_writer_batch(s->w, &b, err);
}

static int save_row(void *ctx, uint64_t key, const uint8_t *row, struct ctr_err *err)
{
    struct saver *s = ctx;
    double v[3];
    read_row(s->m, row, &v[1], &v[2], &v[0]);
    s->table[s->rows] = s->current;
    s->key[s->rows] = key;
    for (int i = 0; i < 3; i++)
        if (s->m->state == CTR_F64_STATE)
            ((double *)(void *)s->value[i])[s->rows] = v[i];
        else
            ((float *)(void *)s->value[i])[s->rows] = (float)v[i];
    return ++s->rows == SAVE_ROWS ? save_flush(s, err) : 0;
}

struct named {
    const char *name;
    int table; /* -1: the bias */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void saver_columns(struct saver *s)
{
    enum ctr_type value = s->m->state == CTR_F64_STATE ? CTR_F64 : CTR_F32;
    s->col[0] = (struct ctr_col){ .type = CTR_UTF8, .data = s->table, .dict = &s->names };
    s->col[1] = (struct ctr_col){ .type = CTR_U64, .data = s->key };
    for (int i = 0; i < 3; i++)
        s->col[2 + i] = (struct ctr_col){ .type = value, .data = s->value[i] };
}

static int save_tables(struct saver *s, const struct named *order, int n, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        s->current = i;
        if (order[i].table >= 0)
            rc = ctr_sparse_sorted(&s->m->table[order[i].table], save_row, s, err);
        else
            rc = save_row(s, ctr_bias_key(), s->m->bias, err);
    }
    return rc ? rc : save_flush(s, err);
}

static int lr_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    const struct lr *m = learner;
    struct saver s = { .m = m, .w = w };
    struct named *order = calloc((size_t)m->tables + 1, sizeof *order);
    struct ctr_colbuf names = { 0 };
    struct ctr_field text = { .type = CTR_UTF8 };
    int n = 0;
    for (int i = 0; order && i < m->tables; i++)
        if (m->table[i].used)
            order[n++] = (struct named){ tables->s[i], i };
    if (order && !m->no_bias)
        order[n++] = (struct named){ CTR_BIAS_TABLE, -1 };
    int rc = order ? ctr_colbuf_init(&names, &text, err) : ctr_fail_nomem(err, (size_t)n * sizeof *order);
    if (!rc)
        qsort(order, (size_t)n, sizeof *order, by_name);
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_colbuf_str(&names, order[i].name, strlen(order[i].name), err);
    s.table = malloc(SAVE_ROWS * sizeof *s.table);
    s.key = malloc(SAVE_ROWS * sizeof *s.key);
    bool whole = s.table && s.key;
    for (int i = 0; i < 3; i++)
        whole &= (s.value[i] = malloc(SAVE_ROWS * sizeof(double))) != NULL;
    if (!rc && !whole)
        rc = ctr_fail_nomem(err, SAVE_ROWS * 5 * sizeof(double));
    if (!rc) {
        s.names = *ctr_colbuf_view(&names);
        saver_columns(&s);
        rc = save_tables(&s, order, n, err);
    }
    free(order);
    free(s.table);
    free(s.key);
    for (int i = 0; i < 3; i++)
        free(s.value[i]);
    ctr_colbuf_free(&names);
    return rc;
}

/* The columns of a model section by name. */
struct columns {
    const struct ctr_col *table, *key, *weight, *z, *n; /* NULL: not there */
};

static int find_columns(const struct ctr_batch *b, struct columns *c, struct ctr_err *err)
{
    static const struct {
        const char *name;
        bool text, key;
        size_t at;
    } want[] = {
        { "table", true, false, offsetof(struct columns, table) },
        { "key", false, true, offsetof(struct columns, key) },
        { "weight", false, false, offsetof(struct columns, weight) },
        { "z", false, false, offsetof(struct columns, z) },
        { "n", false, false, offsetof(struct columns, n) },
    };
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < CTR_COUNT(want); i++) {
        int at = ctr_schema_find(b->schema, want[i].name);
        if (at < 0)
            continue;
        const struct ctr_col *col = &b->col[at];
        bool right = want[i].text  ? col->type == CTR_UTF8
                     : want[i].key ? col->type == CTR_U64 && !col->dict
                                   : col->type == CTR_F64 || col->type == CTR_F32;
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

/* The number of a row's table, found once a run of equal names; -1: the bias. */
struct table_cache {
    struct ctr_str name;
    int table;
    char copy[256];
};

static int table_of(struct table_cache *cache, struct ctr_str name, struct ctr_strs *tables, struct ctr_err *err)
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

static void write_state(const struct lr *m, uint8_t *row, double z, double n)
{
    float zn[2] = { (float)z, (float)n };
    if (m->state == CTR_F32_STATE) {
        memcpy(row + 8, zn, sizeof zn);
        return;
    }
    memcpy(row + 8, &z, sizeof z);
    memcpy(row + 16, &n, sizeof n);
}

static int lr_load(void *learner, struct ctr_strs *tables, const struct ctr_batch *b, struct ctr_err *err)
{
    struct lr *m = learner;
    struct columns c;
    struct table_cache cache = { .table = 0 };
    int rc = find_columns(b, &c, err);
    if (!rc && (!c.z || !c.n))
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s': it can predict but not learn on", c.z ? "n" : "z");
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        double z = ctr_col_f64(c.z, i), n = ctr_col_f64(c.n, i);
        uint64_t h = ctr_sparse_hash(((const uint64_t *)c.key->data)[i]);
        if (!(fabs(z) < INFINITY && n >= 0 && n < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: z or n is damaged",
                            (long long)(b->first_row + i + 1));
        if ((rc = table_of(&cache, ctr_col_str(c.table, i), tables, err)) || (rc = lr_bind(m, tables, err)))
            return rc;
        if (cache.table >= 0) {
            if ((rc = ctr_sparse_reserve(&m->table[cache.table], 1, err)))
                return rc;
            write_state(m, ctr_sparse_get(&m->table[cache.table], h), z, n);
        } else if (!m->no_bias) {
            write_state(m, m->bias, z, n);
        }
    }
    return rc;
}

/* ---- prediction
 * ------------------------------------------------------------------------------------------------------------ */

struct scorer {
    struct ctr_sparse *table; /* rows: hash, weight as double */
    int tables;
    bool no_bias;
    double bias;
    uint64_t digest;
};

static void scorer_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    for (int i = 0; i < s->tables; i++)
        ctr_sparse_free(&s->table[i]);
    free(s->table);
    free(s);
}

static int scorer_bind(void *scorer, const struct ctr_strs *tables, struct ctr_err *err)
{
    struct scorer *s = scorer;
    if (tables->n <= s->tables)
        return 0;
    struct ctr_sparse *table = realloc(s->table, (size_t)tables->n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, (size_t)tables->n * sizeof *table);
    s->table = table;
    for (; s->tables < tables->n; s->tables++)
        ctr_sparse_init(&s->table[s->tables], 16);
    return 0;
}

/* What loading counts. */
struct scorer_load {
    const struct lr *m; /* formulas and precision */
    bool derive;        /* z and n win over weight */
    int64_t differ;
};

static double weight_of(const struct scorer_load *l, const struct columns *c, int64_t i)
{
    double z = ctr_col_f64(c->z, i), n = ctr_col_f64(c->n, i);
    return l->m->state == CTR_F64_STATE ? ctr_ftrl_weight64(&l->m->ftrl, z, n)
                                        : (double)ctr_ftrl_weight32(&l->m->ftrl, (float)z, (float)n);
}

static int scorer_batch(struct scorer *s, struct scorer_load *l, struct ctr_strs *tables, const struct ctr_batch *b,
                        struct ctr_err *err)
{
    struct columns c;
    struct table_cache cache = { .table = 0 };
    int rc = find_columns(b, &c, err);
    bool derive = !rc && l->derive && c.z && c.n;
    if (!rc && !derive && !c.weight)
        rc = ctr_fail(err, CTR_EDATA, "the model has neither weight nor z and n");
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        uint64_t key = ((const uint64_t *)c.key->data)[i];
        double w = derive ? weight_of(l, &c, i) : ctr_col_f64(c.weight, i);
        if (derive && c.weight)
            l->differ += w != ctr_col_f64(c.weight, i);
        if (!(fabs(w) < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: its weight is not a number",
                            (long long)(b->first_row + i + 1));
        s->digest += digest_one(key, w);
        if ((rc = table_of(&cache, ctr_col_str(c.table, i), tables, err)) || (rc = scorer_bind(s, tables, err)))
            return rc;
        if (cache.table < 0)
            s->bias = w;
        else if (w != 0 && !(rc = ctr_sparse_reserve(&s->table[cache.table], 1, err)))
            memcpy(ctr_sparse_get(&s->table[cache.table], ctr_sparse_hash(key)) + 8, &w, sizeof w);
    }
    return rc;
}

/* Read the model with table, key and either weight, or all columns. */
static int scorer_read(struct scorer *s, struct scorer_load *l, const char *path, struct ctr_strs *tables,
                       struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_model_open(path, &info, &r, err), keep[3];
    if (rc)
        return rc;
    if (!l->derive) {
        static const char *const names[] = { "table", "key", "weight" };
        for (int i = 0; i < 3; i++)
            keep[i] = ctr_schema_find(&info.schema, names[i]);
        if (keep[2] < 0)
            l->derive = true;
        else if (keep[0] >= 0 && keep[1] >= 0)
            rc = ctr_reader_project(r, keep, 3, err);
    }
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = scorer_batch(s, l, tables, b, err);
    if (rc < 0)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

static int scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err)
{
    const char *want = ctr_meta_get(&info->schema.meta, CTR_META_MODEL_WEIGHTS);
    struct scorer_load l = { 0 };
    struct scorer *s = NULL;
    void *formulas = NULL;
    char hex[17];
    int rc = lr_new(&formulas, &info->params, err);
    l.m = formulas;
    for (int attempt = 0; attempt < 2 && !rc; attempt++) {
        scorer_free(s);
        if (!(s = calloc(1, sizeof *s))) {
            rc = ctr_fail_nomem(err, sizeof *s);
            break;
        }
        s->no_bias = info->params.no_bias;
        rc = scorer_read(s, &l, path, tables, err);
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)s->digest);
        if (l.derive || (want && !strcmp(want, hex)))
            break;
        l.derive = true; /* edited since it was trained: z and n win */
    }
    lr_free(formulas);
    if (rc) {
        scorer_free(s);
        return rc;
    }
    if (l.differ)
        snprintf(warn, warn_size, "%s: %lld weights did not agree with z and n, which win", path, (long long)l.differ);
    *out = s;
    return scorer_bind(s, tables, err);
}

static int predict_rows(const void *scorer, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    const struct scorer *s = scorer;
    struct ctr_buf wb = { 0 }, xb = { 0 };
    int64_t longest = 0;
    for (int64_t i = 0; i < r->rows; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    int rc = ctr_buf_reserve(&wb, (size_t)(longest + 1) * sizeof(double), err);
    if (!rc)
        rc = ctr_buf_reserve(&xb, (size_t)(longest + 1) * sizeof(double), err);
    double *w = (double *)(void *)wb.data, *x = (double *)(void *)xb.data;
    for (int64_t i = 0; i < r->rows && !rc; i++) {
        int64_t at = r->start[i], k = r->start[i + 1] - at;
        if (i + AHEAD < r->rows)
            for (int64_t e = r->start[i + AHEAD]; e < r->start[i + AHEAD + 1]; e++)
                if (s->table[r->table[e]].size)
                    __builtin_prefetch(ctr_sparse_home(&s->table[r->table[e]], r->hash[e]));
        for (int64_t j = 0; j < k; j++) {
            const uint8_t *row = ctr_sparse_find(&s->table[r->table[at + j]], r->hash[at + j]);
            w[j] = 0;
            if (row)
                memcpy(&w[j], row + 8, sizeof *w);
        }
        w[k] = s->bias;
        if (r->x) {
            memcpy(x, r->x + at, (size_t)k * sizeof *x);
            x[k] = 1;
        }
        score[i] = ctr_sigmoid(ctr_ftrl_dot(w, r->x ? x : NULL, k + !s->no_bias));
        if (!(score[i] >= 0))
            rc = diverged(r->first_row + i + 1, err);
    }
    ctr_buf_free(&wb);
    ctr_buf_free(&xb);
    return rc;
}

static const char *const lr_options[] = { "alpha", "beta", "l1", "l2", "precision", "no-bias", NULL };

const struct ctr_model ctr_model_lr = {
    .name = "lr",
    .summary = "logistic regression by FTRL-Proximal",
    .options = lr_options,
    .learner_new = lr_new,
    .learner_free = lr_free,
    .bind = lr_bind,
    .train_rows = lr_train_rows,
    .keys = lr_keys,
    .memory = lr_memory,
    .save_schema = lr_save_schema,
    .save = lr_save,
    .load = lr_load,
    .scorer_open = scorer_open,
    .scorer_free = scorer_free,
    .scorer_bind = scorer_bind,
    .predict_rows = predict_rows,
};
