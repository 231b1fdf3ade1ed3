/* SPDX-License-Identifier: Apache-2.0
 *
 * The strongest weights of a linear model, or the strongest changes between two, with the names of their keys: from a
 * stream of ctr-extract --names, or from the fitted vocabularies in the model. Memory holds a few times the output, not
 * the models. */
#include "common/plan/plan.h"
#include "tools/ctr-model/insight.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* A name may contain a zero byte. */
struct name {
    uint32_t n;
    char p[];
};

struct weight {
    uint64_t key;
    union {
        uint64_t count;
        double old; /* for a change: the previous w */
    };
    double w;
    struct name *name; /* NULL: unknown */
    int table;
    bool counted;
};

/* The strongest of one table, or of all tables. */
struct top {
    struct weight *e;
    size_t n, cap;
};

/* A table made from a vocabulary. */
struct maker {
    int section, table;
};

struct tops {
    const struct ctr_top_opts *o;
    const char *from; /* the model that `old` comes from, or NULL */
    struct ctr_diff_counts counts;
    struct ctr_strs tables;
    struct ctr_strs *vocabs; /* by table: the sections that its keys come from; NULL: unknown */
    struct top *top;         /* one, or one per table */
    int n;
    struct weight **shown; /* all results, sorted by key and table: most names belong to none of them */
    size_t nshown;
    struct ctr_strs sections; /* vocabularies from which the plan makes tables */
    struct maker *maker;      /* sorted by section */
    int makers;
    int *nameless; /* tables with a result whose key has no name yet */
    int n_nameless;
    uint64_t *seed; /* seed of the keys of each table */
};

/* For example, diff -n 1 of two models, whose rows are sorted by table and key:
 *
 *     OLD              NEW              merge
 *     ad    7  .1      ad    7  .1      in both, equal: not kept
 *     ad    9  .4      site  3  .5      ad 9: only in OLD, .4 -> 0; kept
 *     site  3  .2                       site 3: .2 -> .5; kept
 *
 * `keep` collects weights, and cuts them to the N strongest when there are four times as many, at least 1,024; here ad
 * 9 is left, with the change -.4. Only then are names looked for: name_all goes through --names or the vocabularies,
 * and makes the key of each name, which index_shown finds among the few that are shown. A vocabulary `cities` names
 * keys of the tables that the plan makes from it first, then keys of any table that are still nameless. */

/* Strongest first; ties by table and key, so that the order is unique. */
static int compare(double p, double q, const struct weight *x, const struct weight *y)
{
    if (p != q)
        return p > q ? -1 : 1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static int by_strength(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    return compare(fabs(x->w), fabs(y->w), x, y);
}

static int by_change(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    return compare(fabs(x->w - x->old), fabs(y->w - y->old), x, y);
}

static void cut(const struct tops *s, struct top *t)
{
    qsort(t->e, t->n, sizeof *t->e, s->from ? by_change : by_strength);
    if (s->o->n && t->n > (size_t)s->o->n)
        t->n = (size_t)s->o->n;
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
            cut(s, t);
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

enum { NO_TABLE = INT_MIN }; /* not an error code */

/* The number of the table of that name; a new name is appended (add) or gives NO_TABLE. */
static int table_number(struct tops *s, struct ctr_str name, int last, bool add, struct ctr_err *err)
{
    if (last >= 0 && strlen(s->tables.s[last]) == name.n && !memcmp(s->tables.s[last], name.p, name.n))
        return last;
    const int i = ctr_strs_find_n(&s->tables, name.p, name.n);
    if (i >= 0 || !add)
        return i >= 0 ? i : NO_TABLE;
    int rc = ctr_strs_add(&s->tables, name.p, name.n, err);
    return rc ? rc : s->tables.n - 1;
}

/* The number of a weight's table, or NO_TABLE if the weight is not to be shown. */
static int shown_table(struct tops *s, struct ctr_str name, int last, struct ctr_err *err)
{
    int rc = table_number(s, name, last, true, err);
    return rc >= 0 && s->o->table && !ctr_glob(s->o->table, s->tables.s[rc]) ? NO_TABLE : rc;
}

static int not_finite(int64_t row, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld of the model: its weight is not a number", (long long)row);
}

static int take_batch(struct tops *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0, table = -1;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        struct weight w = { .key = ((const uint64_t *)b->col[1].data)[i], .w = ctr_col_f64(&b->col[2], i) };
        if (w.w == 0)
            continue;
        if (!(fabs(w.w) < INFINITY))
            return not_finite(b->first_row + i + 1, err);
        table = shown_table(s, ctr_col_str(&b->col[0], i), table, err);
        if (table < 0 && table != NO_TABLE)
            return table;
        w.table = table;
        rc = table == NO_TABLE ? 0 : keep(s, &w, err);
    }
    return rc;
}

/* Project a table of weights or names to these columns, checking names and types. */
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

/* A model's weights: columns table, key, weight. */
static int open_weights(const char *path, struct ctr_model_info *info, struct ctr_reader **r, struct ctr_err *err)
{
    static const char *const names[] = { "table", "key", "weight" };
    static const enum ctr_type types[] = { CTR_UTF8, CTR_U64, CTR_F64 };
    int rc = ctr_model_open(path, info, r, err);
    if (!rc && !info->model->row_weights)
        rc = ctr_fail(err, CTR_EUSAGE, "a model of kind '%s' shows no weights: those of ctr-train lr do",
                      info->model->name);
    if (!rc)
        rc = project(*r, names, types, 3, err);
    if (rc)
        ctr_err_file(err, path);
    return rc;
}

/* The next batch of weights: 1, or 0 at the end. */
static int next_weights(struct ctr_reader *r, const struct ctr_batch **b, struct ctr_err *err)
{
    int rc = ctr_reader_next(r, b, err);
    for (int i = 0; i < 3 && rc > 0; i++)
        if (any_null(&(*b)->col[i]))
            rc = ctr_fail(err, CTR_EDATA, "column '%s' of the model has nulls", (*b)->schema->f[i].name);
    return rc;
}

static int read_weights(struct tops *s, const char *path, struct ctr_err *err)
{
    struct ctr_model_info info = { 0 };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = open_weights(path, &info, &r, err);
    while (!rc && (rc = next_weights(r, &b, err)) > 0)
        rc = take_batch(s, b, err);
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

/* ---- two models: both are sorted by table and key, so that they are merged ---- */

struct side {
    const char *path;
    struct ctr_model_info info;
    struct ctr_reader *r;
    const struct ctr_batch *b;
    int64_t i;
    bool done;
    struct ctr_str table; /* of row i */
    uint64_t key;
    double w;
    struct ctr_buf last; /* table of the previous row, and its key */
    uint64_t last_key;
    bool any;
};

static int compare_text(struct ctr_str a, struct ctr_str b)
{
    int c = memcmp(a.p, b.p, CTR_MIN(a.n, b.n));
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int compare_sides(const struct side *a, const struct side *b)
{
    int c = a->done || b->done ? a->done - b->done : compare_text(a->table, b->table);
    return c ? c : (a->key > b->key) - (a->key < b->key);
}

/* Is the row in order? Stores it for the next call. */
static int check_order(struct side *d, struct ctr_err *err)
{
    struct ctr_str last = { (const char *)d->last.data, d->last.len };
    int c = d->any ? compare_text(last, d->table) : -1;
    if (c > 0 || (!c && d->last_key >= d->key))
        return ctr_fail(err, CTR_EDATA,
                        "row %lld of the model: its rows are not sorted by table and key, or a key comes twice "
                        "(ctr-sort -k table,key sorts)",
                        (long long)(d->b->first_row + d->i + 1));
    d->last_key = d->key;
    d->any = true;
    if (!c)
        return 0;
    ctr_buf_clear(&d->last);
    return ctr_buf_append(&d->last, d->table.p, d->table.n, err);
}

/* Advance to the next row. */
static int advance(struct side *d, struct ctr_err *err)
{
    int rc = 0;
    d->i++;
    while (!d->b || d->i >= d->b->rows) {
        rc = next_weights(d->r, &d->b, err);
        d->i = 0;
        d->done = rc == 0;
        if (rc <= 0)
            break;
    }
    if (rc >= 0 && !d->done) {
        d->table = ctr_col_str(&d->b->col[0], d->i);
        d->key = ((const uint64_t *)d->b->col[1].data)[d->i];
        d->w = ctr_col_f64(&d->b->col[2], d->i);
        rc = fabs(d->w) < INFINITY ? check_order(d, err) : not_finite(d->b->first_row + d->i + 1, err);
    }
    if (rc < 0)
        ctr_err_file(err, d->path);
    return CTR_MIN(rc, 0);
}

static int side_open(struct side *d, const char *path, struct ctr_err *err)
{
    *d = (struct side){ .path = path };
    int rc = open_weights(path, &d->info, &d->r, err);
    return rc ? rc : advance(d, err);
}

static void side_free(struct side *d)
{
    ctr_reader_free(d->r);
    ctr_model_info_free(&d->info);
    ctr_buf_free(&d->last);
}

static bool same_meta(const struct side *a, const struct side *b, const char *key)
{
    const char *x = ctr_meta_get(&a->info.schema.meta, key), *y = ctr_meta_get(&b->info.schema.meta, key);
    return !x == !y && (!x || !strcmp(x, y));
}

static int merge(struct tops *s, struct side *a, struct side *b, struct ctr_err *err)
{
    struct ctr_diff_counts *n = &s->counts;
    int rc = 0, table = -1;
    *n = (struct ctr_diff_counts){ .same_plan = same_meta(a, b, CTR_META_PLAN_ID),
                                   .same_options = same_meta(a, b, CTR_META_MODEL_OPTIONS) };
    while (!rc && !(a->done && b->done)) {
        int c = compare_sides(a, b);
        struct weight w = { .key = c > 0 ? b->key : a->key, .w = c >= 0 ? b->w : 0, .old = c <= 0 ? a->w : 0 };
        table = shown_table(s, c > 0 ? b->table : a->table, table, err);
        if (table < 0 && table != NO_TABLE)
            return table;
        if (table >= 0) {
            n->both += !c;
            n->only_a += c < 0;
            n->only_b += c > 0;
            n->differ += w.w != w.old;
            w.table = table;
            rc = w.w != w.old ? keep(s, &w, err) : 0;
        }
        if (!rc && c <= 0)
            rc = advance(a, err);
        if (!rc && c >= 0)
            rc = advance(b, err);
    }
    return rc;
}

static int read_changes(struct tops *s, const char *path, struct ctr_err *err)
{
    struct side a = { 0 }, b = { 0 };
    int rc = side_open(&a, s->from, err);
    if (!rc)
        rc = side_open(&b, path, err);
    if (!rc)
        rc = merge(s, &a, &b, err);
    side_free(&a);
    side_free(&b);
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

static struct name *name_new(struct ctr_str s)
{
    struct name *x = malloc(sizeof *x + s.n);
    if (x) {
        x->n = (uint32_t)s.n;
        memcpy(x->p, s.p, s.n);
    }
    return x;
}

/* A key keeps the first name that it is given. Counts (NULL: unknown) add up. */
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
    for (; low < s->nshown; low++) { /* a model may have been joined of two */
        struct weight *at = s->shown[low];
        if (at->key != key || at->table != table)
            break;
        if (!at->name && !(at->name = name_new(name)))
            return ctr_fail_nomem(err, sizeof *at->name + name.n);
        if (count) {
            at->count += *count;
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
                              s->from || ctr_col_missing(&b->col[3], i) ? NULL : &count, err);
        }
    }
    if (rc)
        ctr_err_file(err, s->o->names);
    ctr_reader_free(r);
    return rc;
}

static int by_section(const void *a, const void *b)
{
    const struct maker *x = a, *y = b;
    return x->section != y->section ? (x->section > y->section) - (x->section < y->section)
                                    : (x->table > y->table) - (x->table < y->table);
}

/* The inverse of s->vocabs: the tables made from each section. */
static int index_makers(struct tops *s, struct ctr_err *err)
{
    int cap = 0, rc = 0;
    for (int t = 0; t < s->tables.n && !rc; t++)
        for (int i = 0; i < s->vocabs[t].n && !rc; i++) {
            const char *name = s->vocabs[t].s[i];
            int section = ctr_strs_find(&s->sections, name);
            if (section < 0 && !(rc = ctr_strs_add(&s->sections, name, strlen(name), err)))
                section = s->sections.n - 1;
            if (!rc && !(rc = ctr_array_grow(&s->maker, s->makers, &cap, sizeof *s->maker, err)))
                s->maker[s->makers++] = (struct maker){ section, t };
        }
    if (s->makers)
        qsort(s->maker, (size_t)s->makers, sizeof *s->maker, by_section);
    return rc;
}

/* The tables made from a section: by the plan, or the table of its name ("vocab.site"). Returns the first, and their
 * number. */
static const struct maker *makers_of(const struct tops *s, const char *section, struct maker *by_name, int *n)
{
    const int table = s->vocabs ? -1 : ctr_strs_find(&s->tables, section + 6);
    const struct maker key = { s->vocabs ? ctr_strs_find(&s->sections, section) : -1, -1 };
    *by_name = (struct maker){ -1, table };
    *n = table >= 0;
    if (key.section < 0)
        return by_name;
    int low = 0, high = s->makers;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (by_section(&s->maker[mid], &key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (*n = 0; low + *n < s->makers && s->maker[low + *n].section == key.section;)
        ++*n;
    return s->maker + low;
}

/* A vocabulary holds values. They name keys of the tables that the plan makes from it, and count them (first). Other
 * tables may have the same values: each value's key is tried in every table that still has a key without a name. There
 * the same value came as often as another vocabulary says. */
static int read_vocab(struct tops *s, struct ctr_reader *r, const char *section, bool counts, bool first,
                      struct ctr_err *err)
{
    struct maker own;
    int n;
    const struct maker *m = makers_of(s, section, &own, &n);
    static const char *const names[] = { "name", "count" };
    static const enum ctr_type types[] = { CTR_UTF8, CTR_U64 };
    const struct ctr_batch *b;
    int rc = project(r, names, types, 2, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; i < b->rows; i++)
            for (int k = 0; k < (first ? n : s->n_nameless) && !ctr_col_missing(&b->col[0], i) && !rc; k++) {
                const struct ctr_str name = ctr_col_str(&b->col[0], i);
                const uint64_t count = (uint64_t)ctr_col_i64(&b->col[1], i);
                const int t = first ? m[k].table : s->nameless[k];
                rc = set_name(s, t, ctr_feature_key(s->seed[t], name.p, name.n), name,
                              first && counts && !ctr_col_missing(&b->col[1], i) ? &count : NULL, err);
            }
    }
    return rc;
}

/* The vocabularies of each table, from the plan in the model. */
static int read_plan(struct tops *s, const char *path, const struct ctr_model_info *info, struct ctr_err *err)
{
    struct ctr_plan *plan = NULL;
    int rc = ctr_meta_get(&info->schema.meta, CTR_META_PLAN) ? ctr_plan_open(&plan, path, err) : 0;
    if (plan && !(s->vocabs = calloc((size_t)s->tables.n + 1, sizeof *s->vocabs)))
        rc = ctr_fail_nomem(err, (size_t)s->tables.n * sizeof *s->vocabs);
    for (int t = 0; t < s->tables.n && plan && !rc; t++)
        rc = ctr_plan_vocabs(plan, s->tables.s[t], &s->vocabs[t], err);
    if (plan && !rc)
        rc = index_makers(s, err);
    ctr_plan_free(plan);
    return rc;
}

static int read_vocabs(struct tops *s, const char *path, bool counts, bool first, struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r;
    int rc = ctr_model_open(path, &info, &r, err), more = 0;
    if (rc)
        return rc;
    while (!rc && (more = ctr_reader_section(r, err)) > 0) {
        const char *name = ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_SECTION);
        char *section = NULL; /* a copy, because the schema changes below */
        if (!name || strncmp(name, "vocab.", 6))
            continue;
        if (first && !s->vocabs && !s->from &&
            (rc = read_plan(s, path, &info, err))) /* a model may lack sections that its plan fitted */
            break;
        if (!(rc = ctr_strdup(&section, name, err)))
            rc = read_vocab(s, r, section, counts, first, err);
        free(section);
    }
    rc = rc ? rc : more;
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

static int find_seeds(struct tops *s, struct ctr_err *err)
{
    if (!(s->seed = calloc((size_t)s->tables.n + 1, sizeof *s->seed)))
        return ctr_fail_nomem(err, (size_t)s->tables.n * sizeof *s->seed);
    for (int t = 0; t < s->tables.n; t++)
        s->seed[t] = ctr_table_seed(s->tables.s[t]);
    return 0;
}

/* Name keys that every table may have, and keys that represent the table itself. */
static int name_special(struct tops *s, struct ctr_err *err)
{
    static const char *const special[] = { "(missing)", "(other)", "" };
    int rc = 0;
    for (int t = 0; t < s->tables.n; t++)
        for (size_t i = 0; i < CTR_COUNT(special) && !rc; i++) {
            uint64_t key = ctr_feature_key(s->seed[t], special[i], strlen(special[i]));
            rc = set_name(s, t, key, (struct ctr_str){ special[i], strlen(special[i]) }, NULL, err);
        }
    return rc;
}

/* ---- the answer ---- */

static int add_row(const struct tops *s, const struct weight *w, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    struct ctr_append a = { rows->col, err, 0 };
    ctr_append_text(&a, s->tables.s[w->table]);
    ctr_append_i64(&a, true, (int64_t)w->key);
    ctr_append_str(&a, w->name ? w->name->p : NULL, w->name ? w->name->n : 0);
    if (s->from)
        ctr_append_f64(&a, true, w->old);
    else
        ctr_append_i64(&a, w->counted, (int64_t)w->count);
    ctr_append_f64(&a, true, w->w);
    if (s->from)
        ctr_append_f64(&a, true, w->w - w->old);
    return a.rc;
}

static int make_schema(struct ctr_schema *s, bool diff, struct ctr_err *err)
{
    static const struct {
        const char *name;
        enum ctr_type type;
        bool top, diff;
    } columns[] = {
        { "table", CTR_UTF8, true, true }, { "key", CTR_U64, true, true },     { "name", CTR_UTF8, true, true },
        { "count", CTR_U64, true, false }, { "weight", CTR_F64, true, false }, { "old", CTR_F64, false, true },
        { "new", CTR_F64, false, true },   { "change", CTR_F64, false, true },
    };
    int rc = 0;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < CTR_COUNT(columns) && !rc; i++)
        if (diff ? columns[i].diff : columns[i].top)
            rc = ctr_schema_add(s, columns[i].name, columns[i].type, err);
    return rc;
}

/* Output rows in batches: the result may be the whole model. */
static int give_rows(struct tops *s, ctr_top_each *each, void *ctx, struct ctr_err *err)
{
    struct ctr_schema schema;
    struct ctr_batchbuf rows = { 0 };
    int rc = make_schema(&schema, s->from, err);
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

static int find_nameless(struct tops *s, struct ctr_err *err)
{
    bool *is = calloc((size_t)s->tables.n + 1, sizeof *is);
    s->nameless = malloc(((size_t)s->tables.n + 1) * sizeof *s->nameless);
    if (!is || !s->nameless) {
        free(is);
        return ctr_fail_nomem(err, (size_t)s->tables.n * sizeof *s->nameless);
    }
    for (size_t i = 0; i < s->nshown; i++)
        is[s->shown[i]->table] |= !s->shown[i]->name;
    for (int t = 0; t < s->tables.n; t++)
        if (is[t])
            s->nameless[s->n_nameless++] = t;
    free(is);
    return 0;
}

static int name_all(struct tops *s, const char *path, struct ctr_err *err)
{
    int rc = index_shown(s, err);
    if (!rc)
        rc = find_seeds(s, err);
    if (!rc && s->o->names)
        rc = read_names(s, err);
    for (int pass = 0; pass < 2 && !s->o->names && !rc; pass++) {
        rc = read_vocabs(s, path, !s->from, !pass, err);
        if (!rc && s->from)
            rc = read_vocabs(s, s->from, false, !pass, err);
        if (!rc && !pass)
            rc = name_special(s, err);
        if (!rc && !pass)
            rc = find_nameless(s, err);
        if (!s->n_nameless)
            break;
    }
    return rc || !s->o->names ? rc : name_special(s, err);
}

static void tops_free(struct tops *s)
{
    for (int i = 0; i < s->n; i++) {
        for (size_t j = 0; j < s->top[i].n; j++)
            free(s->top[i].e[j].name);
        free(s->top[i].e);
    }
    for (int t = 0; s->vocabs && t < s->tables.n; t++)
        ctr_strs_free(&s->vocabs[t]);
    free(s->vocabs);
    ctr_strs_free(&s->sections);
    free(s->maker);
    free(s->nameless);
    free(s->top);
    free(s->shown);
    free(s->seed);
    ctr_strs_free(&s->tables);
}

static int answer(struct tops *s, const char *path, ctr_top_each *each, void *ctx, struct ctr_err *err)
{
    int rc = s->from ? read_changes(s, path, err) : read_weights(s, path, err);
    for (int i = 0; i < s->n && !rc; i++)
        cut(s, &s->top[i]);
    if (!rc)
        rc = name_all(s, path, err);
    if (!rc)
        rc = give_rows(s, each, ctx, err);
    tops_free(s);
    return rc;
}

int ctr_model_top(const char *path, const struct ctr_top_opts *o, ctr_top_each *each, void *ctx, struct ctr_err *err)
{
    struct tops s = { .o = o };
    struct ctr_model_whole m;
    int rc = ctr_model_whole(path, &m, err);
    if (!rc)
        rc = ctr_model_whole_end(&m, path, answer(&s, m.path, each, ctx, err), err);
    return rc;
}

int ctr_model_diff(const char *from, const char *to, const struct ctr_top_opts *o, struct ctr_diff_counts *counts,
                   ctr_top_each *each, void *ctx, struct ctr_err *err)
{
    struct tops s = { .o = o };
    struct ctr_model_whole a, b;
    int rc = ctr_model_whole(from, &a, err);
    if (rc)
        return rc;
    s.from = a.path;
    rc = ctr_model_whole(to, &b, err);
    if (!rc)
        rc = ctr_model_whole_end(&b, to, answer(&s, b.path, each, ctx, err), err);
    *counts = s.counts;
    return ctr_model_whole_end(&a, from, rc, err);
}
