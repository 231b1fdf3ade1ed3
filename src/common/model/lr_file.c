/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of a model file that holds lr: columns table (dictionary), key, weight, z, n, typed as the learner keeps
 * them; rows sorted by table and key, so that the file depends on what was learned and not on the order of its keys. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/model/lr.h"

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

/* The digest of all weights; false when some state is infinite or not a number. An update that overflows shows in the
 * next prediction, but the last row has none after it. */
static bool digest_all(const struct lr *m, uint64_t *digest)
{
    bool finite = true;
    double z, n, w;
    *digest = 0;
    for (int i = 0; i < m->tables; i++) {
        uint64_t at = 0;
        for (const uint8_t *row; (row = ctr_sparse_next(&m->table[i], &at));) {
            read_row(m, row, &z, &n, &w);
            finite &= fabs(z) < INFINITY && n < INFINITY;
            *digest += ctr_lr_digest(ctr_sparse_key(ctr_sparse_row_hash(row)), w);
        }
    }
    read_row(m, m->bias, &z, &n, &w);
    if (!m->no_bias)
        *digest += ctr_lr_digest(ctr_bias_key(), w);
    return finite && fabs(z) < INFINITY && n < INFINITY;
}

int ctr_lr_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    static const char *const names[] = { "weight", "z", "n" };
    const struct lr *m = learner;
    uint64_t digest;
    char hex[17];
    if (!digest_all(m, &digest))
        return ctr_fail(err, CTR_EDATA, "the model's state is infinite or not a number" CTR_LR_TOO_LARGE);
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

int ctr_lr_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
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

int ctr_lr_find_columns(const struct ctr_batch *b, struct ctr_lr_columns *c, struct ctr_err *err)
{
    static const struct {
        const char *name;
        bool text, key;
        size_t at;
    } want[] = {
        { "table", true, false, offsetof(struct ctr_lr_columns, table) },
        { "key", false, true, offsetof(struct ctr_lr_columns, key) },
        { "weight", false, false, offsetof(struct ctr_lr_columns, weight) },
        { "z", false, false, offsetof(struct ctr_lr_columns, z) },
        { "n", false, false, offsetof(struct ctr_lr_columns, n) },
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

int ctr_lr_load(void *learner, struct ctr_strs *tables, const struct ctr_batch *b, struct ctr_err *err)
{
    struct lr *m = learner;
    struct ctr_lr_columns c;
    struct ctr_lr_table cache = { .table = 0 };
    int rc = ctr_lr_find_columns(b, &c, err);
    if (!rc && (!c.z || !c.n))
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s': it can predict but not learn on", c.z ? "n" : "z");
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        double z = ctr_col_f64(c.z, i), n = ctr_col_f64(c.n, i);
        uint64_t h = ctr_sparse_hash(((const uint64_t *)c.key->data)[i]);
        if (!(fabs(z) < INFINITY && n >= 0 && n < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: z or n is damaged",
                            (long long)(b->first_row + i + 1));
        if ((rc = ctr_lr_find_table(&cache, ctr_col_str(c.table, i), tables, err)) ||
            (rc = ctr_lr_bind(m, tables, err)))
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
