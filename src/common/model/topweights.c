/* SPDX-License-Identifier: Apache-2.0
 *
 * The strongest weights of a linear model, with the names of their keys: from a stream of ctr-extract --names, or from
 * the fitted vocabularies that the model carries. Memory holds what is shown and a few times more, not the model. */
#include "common/model/model.h"

#include <math.h>
#include <stdlib.h>

struct weight {
    uint64_t key, count;
    double w;
    char *name; /* NULL: not known */
    int table;
    bool counted;
};

/* The strongest of one table, or of all. */
struct top {
    struct weight *e;
    size_t n, cap;
};

struct tops {
    const struct ctr_top_opts *o;
    struct ctr_strs tables;
    struct top *top; /* one, or one a table */
    int n;
    struct weight **shown; /* all that are shown, by key and table: most names are of none of them */
    size_t nshown;
    uint64_t *seed; /* of the keys of each table */
};

/* Strongest first; ties by table and key, so that the order is one. */
static int by_strength(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    double p = fabs(x->w), q = fabs(y->w);
    if (p != q)
        return p > q ? -1 : 1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static void cut(struct top *t, int64_t n)
{
    qsort(t->e, t->n, sizeof *t->e, by_strength);
    if (n && t->n > (size_t)n)
        t->n = (size_t)n;
}

static int keep(struct tops *s, const struct weight *w, struct ctr_err *err)
{
    int at = s->o->by_table ? w->table : 0;
    if (at >= s->n) {
        struct top *more = realloc(s->top, (size_t)(at + 1) * sizeof *more);
        if (!more)
            return ctr_fail_nomem(err, (size_t)(at + 1) * sizeof *more);
        s->top = more;
        for (; s->n <= at; s->n++)
            s->top[s->n] = (struct top){ 0 };
    }
    struct top *t = &s->top[at];
    if (t->n == t->cap) {
        if (s->o->n && t->n >= 4 * (size_t)s->o->n && t->n >= 1024) {
            cut(t, s->o->n);
        } else {
            size_t cap = t->cap ? 2 * t->cap : 64;
            struct weight *e = realloc(t->e, cap * sizeof *e);
            if (!e)
                return ctr_fail_nomem(err, cap * sizeof *e);
            t->e = e;
            t->cap = cap;
        }
    }
    t->e[t->n++] = *w;
    return 0;
}

/* The number of the table named so, appended when it is new (add) or -1. */
static int table_number(struct tops *s, struct ctr_str name, int last, bool add, struct ctr_err *err)
{
    if (last >= 0 && strlen(s->tables.s[last]) == name.n && !memcmp(s->tables.s[last], name.p, name.n))
        return last;
    for (int i = 0; i < s->tables.n; i++)
        if (strlen(s->tables.s[i]) == name.n && !memcmp(s->tables.s[i], name.p, name.n))
            return i;
    if (!add)
        return -1;
    int rc = ctr_strs_add(&s->tables, name.p, name.n, err);
    return rc ? rc : s->tables.n - 1;
}

static int take_batch(struct tops *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0, table = -1;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        struct weight w = { .key = ((const uint64_t *)b->col[1].data)[i], .w = ctr_col_f64(&b->col[2], i) };
        if (w.w == 0)
            continue;
        if (!(fabs(w.w) < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: its weight is not a number",
                            (long long)(b->first_row + i + 1));
        table = table_number(s, ctr_col_str(&b->col[0], i), table, true, err);
        if (table < 0)
            return table;
        w.table = table;
        rc = keep(s, &w, err);
    }
    return rc;
}

/* Columns of a table of weights or names by name and type, in the given order. */
static int project(struct ctr_reader *r, const char *const *names, const enum ctr_type *types, int n,
                   struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r);
    int at[8];
    for (int i = 0; i < n; i++) {
        at[i] = ctr_schema_need(s, names[i], err);
        if (at[i] < 0)
            return at[i];
        bool right = s->f[at[i]].type == types[i] || (types[i] == CTR_F64 && s->f[at[i]].type == CTR_F32);
        if (!right || (types[i] == CTR_U64 && s->f[at[i]].dict))
            return ctr_fail(err, CTR_EDATA, "column '%s' is not of type %s", names[i], ctr_types[types[i]].name);
    }
    return ctr_reader_project(r, at, n, err);
}

static bool any_null(const struct ctr_col *c)
{
    return c->nulls || (c->dict && c->dict->nulls);
}

static int read_weights(struct tops *s, const char *path, struct ctr_err *err)
{
    static const char *const names[] = { "table", "key", "weight" };
    static const enum ctr_type types[] = { CTR_UTF8, CTR_U64, CTR_F64 };
    struct ctr_model_info info;
    struct ctr_reader *r;
    const struct ctr_batch *b;
    int rc = ctr_model_open(path, &info, &r, err);
    if (rc)
        return rc;
    rc = project(r, names, types, 3, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int i = 0; i < 3 && !rc; i++)
            if (any_null(&b->col[i]))
                rc = ctr_fail(err, CTR_EDATA, "column '%s' of the model has nulls", names[i]);
        if (!rc)
            rc = take_batch(s, b, err);
    }
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    for (int i = 0; i < s->n; i++)
        cut(&s->top[i], s->o->n);
    return rc;
}

/* ---- names ---- */

static int by_key(const void *a, const void *b)
{
    const struct weight *x = *(struct weight *const *)a, *y = *(struct weight *const *)b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->table > y->table) - (x->table < y->table);
}

static int index_shown(struct tops *s, struct ctr_err *err)
{
    size_t n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->top[i].n;
    if (!(s->shown = calloc(n + 1, sizeof *s->shown)))
        return ctr_fail_nomem(err, n * sizeof *s->shown);
    for (int i = 0; i < s->n; i++)
        for (size_t j = 0; j < s->top[i].n; j++)
            s->shown[s->nshown++] = &s->top[i].e[j];
    qsort(s->shown, s->nshown, sizeof *s->shown, by_key);
    return 0;
}

static bool same_key(const struct weight *a, const struct weight *b)
{
    return a->key == b->key && a->table == b->table;
}

/* The first name given to a key stays; so does the first count (NULL: none is known). */
static int set_name(struct tops *s, int table, uint64_t key, struct ctr_str name, const uint64_t *count,
                    struct ctr_err *err)
{
    struct weight w = { .key = key, .table = table };
    size_t low = 0, high = s->nshown;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct weight *at = &w;
        if (by_key(&s->shown[mid], &at) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < s->nshown && same_key(s->shown[low], &w); low++) { /* a model may have been joined of two */
        struct weight *at = s->shown[low];
        if (!at->name && !(at->name = strndup(name.p, name.n)))
            return ctr_fail_nomem(err, name.n);
        if (count && !at->counted) {
            at->count = *count;
            at->counted = true;
        }
    }
    return 0;
}

static int read_names(struct tops *s, struct ctr_err *err)
{
    static const char *const names[] = { "table", "key", "name", "count" };
    static const enum ctr_type types[] = { CTR_UTF8, CTR_U64, CTR_UTF8, CTR_U64 };
    char *paths[] = { (char *)(uintptr_t)s->o->names };
    struct ctr_reader *r;
    const struct ctr_batch *b;
    int rc = ctr_reader_open(&r, paths, 1, NULL, err), table = -1;
    if (rc)
        return rc;
    rc = project(r, names, types, 4, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; i < b->rows && !rc; i++) {
            uint64_t count = (uint64_t)ctr_col_i64(&b->col[3], i);
            if (ctr_col_missing(&b->col[0], i) || ctr_col_missing(&b->col[1], i) || ctr_col_missing(&b->col[2], i))
                continue;
            table = table_number(s, ctr_col_str(&b->col[0], i), table, false, err);
            if (table >= 0)
                rc = set_name(s, table, ((const uint64_t *)b->col[1].data)[i], ctr_col_str(&b->col[2], i),
                              ctr_col_missing(&b->col[3], i) ? NULL : &count, err);
        }
    }
    if (rc)
        ctr_err_file(err, s->o->names);
    ctr_reader_free(r);
    return rc;
}

/* A vocabulary holds values, and any table may be made of them: a value's key in each table is tried. Its counts are
 * those of the table of its own name: in another table the same value came as often as somebody else says. */
static int read_vocab(struct tops *s, struct ctr_reader *r, const char *of, struct ctr_err *err)
{
    static const char *const names[] = { "name", "count" };
    static const enum ctr_type types[] = { CTR_UTF8, CTR_U64 };
    const struct ctr_batch *b;
    int rc = project(r, names, types, 2, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; i < b->rows; i++)
            for (int t = 0; t < s->tables.n && !ctr_col_missing(&b->col[0], i) && !rc; t++) {
                struct ctr_str name = ctr_col_str(&b->col[0], i);
                uint64_t count = (uint64_t)ctr_col_i64(&b->col[1], i);
                bool own = !strcmp(s->tables.s[t], of) && !ctr_col_missing(&b->col[1], i);
                rc = set_name(s, t, ctr_feature_key(s->seed[t], name.p, name.n), name, own ? &count : NULL, err);
            }
    }
    return rc;
}

static int read_vocabs(struct tops *s, const char *path, struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r;
    int rc = ctr_model_open(path, &info, &r, err), more = 0;
    if (rc)
        return rc;
    if (!(s->seed = calloc((size_t)s->tables.n + 1, sizeof *s->seed)))
        rc = ctr_fail_nomem(err, (size_t)s->tables.n * sizeof *s->seed);
    for (int t = 0; !rc && t < s->tables.n; t++)
        s->seed[t] = ctr_table_seed(s->tables.s[t]);
    while (!rc && (more = ctr_reader_section(r, err)) > 0) {
        const char *name = ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_SECTION);
        char *of = NULL; /* the schema changes below */
        if (!name || strncmp(name, "vocab.", 6))
            continue;
        if (!(rc = ctr_strdup(&of, name + 6, err)))
            rc = read_vocab(s, r, of, err);
        free(of);
    }
    rc = rc ? rc : more;
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

/* Keys that every table may have, and those that stand for the table itself. */
static int name_special(struct tops *s, struct ctr_err *err)
{
    static const char *const special[] = { "(missing)", "(other)", "" };
    int rc = 0;
    for (int t = 0; t < s->tables.n; t++)
        for (size_t i = 0; i < CTR_COUNT(special) && !rc; i++) {
            uint64_t key = ctr_feature_key(ctr_table_seed(s->tables.s[t]), special[i], strlen(special[i]));
            rc = set_name(s, t, key, (struct ctr_str){ special[i], strlen(special[i]) }, NULL, err);
        }
    return rc;
}

/* ---- the answer ---- */

static int add_row(const struct tops *s, const struct weight *w, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    const char *table = s->tables.s[w->table];
    int rc = ctr_colbuf_str(&rows->col[0], table, strlen(table), err);
    if (!rc)
        rc = ctr_colbuf_i64(&rows->col[1], (int64_t)w->key, err);
    if (!rc)
        rc = w->name ? ctr_colbuf_str(&rows->col[2], w->name, strlen(w->name), err)
                     : ctr_colbuf_null(&rows->col[2], err);
    if (!rc)
        rc = w->counted ? ctr_colbuf_i64(&rows->col[3], (int64_t)w->count, err) : ctr_colbuf_null(&rows->col[3], err);
    return rc ? rc : ctr_colbuf_f64(&rows->col[4], w->w, err);
}

static int make_schema(struct ctr_schema *s, struct ctr_err *err)
{
    static const struct {
        const char *name;
        enum ctr_type type;
    } columns[] = {
        { "table", CTR_UTF8 }, { "key", CTR_U64 }, { "name", CTR_UTF8 }, { "count", CTR_U64 }, { "weight", CTR_F64 },
    };
    int rc = 0;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < CTR_COUNT(columns) && !rc; i++)
        rc = ctr_schema_add(s, columns[i].name, columns[i].type, err);
    return rc;
}

/* The rows, a batch at a time: the answer may be the whole model. */
static int give_rows(struct tops *s, ctr_top_each *each, void *ctx, struct ctr_err *err)
{
    struct ctr_schema schema;
    struct ctr_batchbuf rows = { 0 };
    int rc = make_schema(&schema, err);
    if (!rc)
        rc = ctr_batchbuf_init(&rows, &schema, err);
    for (int i = 0; i < s->n; i++)
        for (size_t j = 0; j < s->top[i].n && !rc; j++) {
            rc = add_row(s, &s->top[i].e[j], &rows, err);
            if (!rc && ctr_batchbuf_rows(&rows) == CTR_BATCH_ROWS) {
                rc = each(ctx, ctr_batchbuf_view(&rows), err);
                ctr_batchbuf_clear(&rows);
            }
        }
    if (!rc)
        rc = each(ctx, ctr_batchbuf_view(&rows), err);
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&schema);
    return rc;
}

int ctr_model_top(const char *path, const struct ctr_top_opts *o, ctr_top_each *each, void *ctx, struct ctr_err *err)
{
    struct tops s = { .o = o };
    int rc = read_weights(&s, path, err);
    if (!rc)
        rc = index_shown(&s, err);
    if (!rc)
        rc = o->names ? read_names(&s, err) : read_vocabs(&s, path, err);
    if (!rc)
        rc = name_special(&s, err);
    if (!rc)
        rc = give_rows(&s, each, ctx, err);
    for (int i = 0; i < s.n; i++) {
        for (size_t j = 0; j < s.top[i].n; j++)
            free(s.top[i].e[j].name);
        free(s.top[i].e);
    }
    free(s.top);
    free(s.shown);
    free(s.seed);
    ctr_strs_free(&s.tables);
    return rc;
}
