/* SPDX-License-Identifier: Apache-2.0
 *
 * Explaining predictions: what each feature of a row contributes to its log odds, by the weights of a linear model or
 * by the parts that a deep model tells; or what attention gives the items of histories. Rows become entries exactly as
 * for prediction; besides, the program that makes the keys of raw rows tells their names, or a stream of names those of
 * features, which find their entries by hash. */
#include "common/plan/plan.h"
#include "tools/ctr-model/keynames.h"
#include "common/model/row_transform.h"
#include "tools/ctr-model/insight.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A deep model visits some dozens of points with all rows of a tile, and keeps doubles for all that it sees of them. */
enum { TILE_ROWS = 512, DEEP_ROWS = 64, DEEP_ENTRIES = 1 << 14 };

/* A name that may belong to an entry of the row. */
struct named {
    uint64_t hash;
    int table;
    size_t at, n; /* in texts */
};

enum { BIAS = -1, NUMBER = -2, RESIDUAL = -3 };
struct part {
    int64_t entry;                  /* of the rows, or one of the above */
    int group;                      /* its table, or, of a deep model, its input; BIAS */
    int64_t position;               /* of a NUMBER in its list; -1: it is none */
    bool whole;                     /* the sum of a group */
    double x, weight, contribution; /* NaN: null */
};

/* A unit of the rows; its weights and starts are elements of the buffers. */
struct unit {
    struct ctr_attended attended; /* start and weight: NULL */
    int64_t start_at, weight_at;
};

struct item {
    int64_t place;
    double weight;
};

struct ctr_explain {
    struct ctr_model_info info;
    struct ctr_row_transform change;
    char *path;
    char warning[512];
    int64_t n;
    bool by_table;
    void *scorer, *session; /* session: after bind */
    void *deep;             /* in place of a session: the explainer of a deep model */
    struct ctr_parts told;  /* by it, of the rows at hand */
    struct ctr_buf keys;    /* int: of a deep model, the inputs that have keys */
    struct ctr_explained explained;
    struct ctr_strs tables;
    struct ctr_plan *plan;       /* NULL: rows are features */
    struct ctr_program *program; /* NULL: the same */
    struct ctr_keynames *known;  /* NULL: names of features are unknown, too */
    struct ctr_schema features, schema;
    struct ctr_inputs *in;
    int *table; /* per column of `features`; -1: not an input */
    int column; /* the column whose names are being collected */
    struct ctr_buf names, texts, parts, weights, scores, text;
    bool attends;
    struct ctr_buf units, starts, items, candidate;
};

struct column {
    const char *name;
    enum ctr_type type;
};
static const struct column columns[] = {
    { "row", CTR_I64 },   { "score", CTR_F64 }, { "table", CTR_UTF8 }, { "key", CTR_U64 },
    { "name", CTR_UTF8 }, { "x", CTR_F64 },     { "weight", CTR_F64 }, { "contribution", CTR_F64 },
};
static const struct column item_columns[] = {
    { "row", CTR_I64 },        { "score", CTR_F64 }, { "unit", CTR_I64 }, { "list", CTR_UTF8 }, { "of", CTR_UTF8 },
    { "candidate", CTR_UTF8 }, { "place", CTR_I64 }, { "key", CTR_U64 },  { "name", CTR_UTF8 }, { "weight", CTR_F64 },
};

/* A raw row with site a and price .5, explained by an lr model with tables site and price:
 *
 *     program      one row of features: the key of a, the number .5; ctr_inputs makes entries (hash, table, x) of it
 *     row_names    names of the row: {hash of site's key, "a"}, {hash of price's key, ""}, sorted by hash
 *     add_parts    bias, 1 x .003; site, 1 x .033; price, .5 x -.030; sorted by the size of the contribution
 *     put_row      a line for each part; find_name looks its hash up among the names:
 *                  row 1, score .505, table site, key …, name a, x 1, weight .033, contribution .033
 *
 * The contributions add up to the log odds, .021. A deep model's explainer gives contributions without weights, and
 * what they leave of the log odds is a line (residual). Features that come without their raw row have names only from
 * --names. With --attention units and their items take the place of parts. */

static int add_columns(struct ctr_schema *s, const struct column *c, size_t n, struct ctr_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = ctr_schema_add(s, c[i].name, c[i].type, err);
    return rc;
}

/* What there is to explain. */
static int choose(struct ctr_explain *e, struct ctr_err *err)
{
    const struct ctr_model *m = e->info.model;
    if (e->attends && m->explain && m->explain->attends(e->scorer))
        return add_columns(&e->schema, item_columns, CTR_COUNT(item_columns), err);
    if (!e->attends && (m->row_weights || m->explain))
        return add_columns(&e->schema, columns, CTR_COUNT(columns), err);
    int rc = e->attends
                 ? ctr_fail(err, CTR_EUSAGE,
                            "a model of kind '%s' without attention units weighs no items: leave --attention "
                            "out; those of din have them, and those of dicm with --images-pool attentive",
                            m->name)
                 : ctr_fail(err, CTR_EUSAGE,
                            "a model of kind '%s' explains nothing: take the model that it was made of", m->name);
    ctr_err_file(err, e->path);
    return rc;
}

int ctr_explain_open(struct ctr_explain **out, const char *path, const struct ctr_explain_opts *o, struct ctr_err *err)
{
    struct ctr_explain *e = *out = calloc(1, sizeof *e);
    struct ctr_reader *r = NULL;
    if (!e)
        return ctr_fail_nomem(err, sizeof *e);
    e->n = o->n;
    e->by_table = o->by_table;
    e->attends = o->attention;
    int rc = ctr_strdup(&e->path, path, err);
    if (!rc)
        rc = ctr_input_identity_keep(path, err); /* with the plan in it: ctr_explain_bind */
    if (!rc)
        rc = ctr_model_open(path, &e->info, &r, err);
    ctr_reader_free(r);
    if (!rc)
        rc = ctr_model_images(&e->info, path, o->images, err);
    if (!rc)
        rc = e->info.model->scorer_open(&e->scorer, path, &e->info, &e->tables, e->warning, sizeof e->warning, err);
    if (!rc)
        rc = choose(e, err);
    if (!rc && o->names)
        rc = ctr_keynames_open(&e->known, o->names, err);
    if (!rc)
        e->change = ctr_row_transform_make(&e->info.params, -1);
    return rc;
}

void ctr_explain_free(struct ctr_explain *e)
{
    if (!e)
        return;
    struct ctr_buf *bufs[] = { &e->names, &e->texts,  &e->parts, &e->weights,   &e->scores, &e->text,
                               &e->units, &e->starts, &e->items, &e->candidate, &e->keys };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_inputs_free(e->in);
    ctr_program_free(e->program);
    ctr_plan_free(e->plan);
    ctr_keynames_free(e->known);
    if (e->session)
        e->info.model->session_free(e->session);
    if (e->deep)
        e->info.model->explain->free(e->deep);
    if (e->scorer)
        e->info.model->scorer_free(e->scorer);
    ctr_model_info_free(&e->info);
    ctr_strs_free(&e->tables);
    ctr_schema_free(&e->features);
    ctr_schema_free(&e->schema);
    free(e->table);
    if (e->path)
        ctr_input_identity_release(e->path);
    free(e->path);
    free(e);
}

struct ctr_explained ctr_explain_told(const struct ctr_explain *e)
{
    return e->explained;
}

const char *ctr_explain_warning(const struct ctr_explain *e)
{
    return e->warning;
}

bool ctr_explain_attends(const struct ctr_explain *e)
{
    return e->attends;
}

const struct ctr_schema *ctr_explain_schema(const struct ctr_explain *e)
{
    return &e->schema;
}

/* ---- binding ---- */

static const char *table_name(const struct ctr_field *f)
{
    const char *table = ctr_meta_get(&f->meta, CTR_META_TABLE);
    return table ? table : f->name;
}

static int find_tables(struct ctr_explain *e, struct ctr_err *err)
{
    if (!(e->table = calloc((size_t)e->features.n + 1, sizeof *e->table)))
        return ctr_fail_nomem(err, (size_t)e->features.n * sizeof *e->table);
    for (int i = 0; i < e->features.n; i++) {
        const struct ctr_field *f = &e->features.f[i];
        e->table[i] = !ctr_field_is_input(f) ? -1
                      : e->change.hash_bits  ? ctr_strs_find(&e->tables, CTR_HASHED_TABLE)
                                             : ctr_strs_find(&e->tables, table_name(f));
    }
    return 0;
}

static int open_session(struct ctr_explain *e, struct ctr_err *err)
{
    const struct ctr_model *m = e->info.model;
    int rc = 0;
    if (e->attends || m->row_weights)
        return m->session_new(&e->session, e->scorer, e->in, &e->tables, NULL, err);
    e->explained.deep = true;
    for (int i = 0; i < ctr_inputs_count(e->in) && !rc; i++)
        if (!ctr_inputs_info(e->in, i).dense)
            rc = ctr_buf_append(&e->keys, &i, sizeof i, err);
    return rc ? rc : m->explain->open(&e->deep, e->scorer, e->in, &e->tables, err);
}

/* Rows that the plan's statements have not seen would be explained as if they had. */
static int no_statements(const struct ctr_explain *e, struct ctr_err *err)
{
    return !ctr_plan_statement(e->plan, 0)
               ? 0
               : ctr_fail(err, CTR_EUSAGE,
                          "the plan in %s has statements, which are run for views alone: VIEW=FILE; of a table that "
                          "they made already: ctr-extract --table %s FILE | ctr-model explain %s",
                          e->path, e->path, e->path);
}

int ctr_explain_bind(struct ctr_explain *e, const struct ctr_schema *s, bool of_views, struct ctr_err *err)
{
    bool raw = ctr_meta_get(&e->info.schema.meta, CTR_META_PLAN) && !ctr_meta_get(&s->meta, CTR_META_PLAN_ID);
    int rc = raw ? ctr_plan_open(&e->plan, e->path, err) : ctr_model_same_plan(&e->info, e->path, s, err);
    if (!rc && raw && !of_views)
        rc = no_statements(e, err);
    if (!rc && raw && !(rc = ctr_program_bind(&e->program, e->plan, s, err)))
        ctr_program_keep_names(e->program);
    if (!rc)
        rc = ctr_schema_copy(&e->features, raw ? ctr_program_output(e->program) : s, err);
    if (!rc)
        rc = ctr_inputs_new(&e->in, &e->features, -1, -1, &e->change, &e->tables, err);
    if (!rc && e->info.model->by_column)
        rc = ctr_inputs_by_column(e->in, err);
    if (!rc)
        rc = open_session(e, err);
    return rc ? rc : find_tables(e, err);
}

/* ---- the names of a row ---- */

static int take_name(void *ctx, uint64_t key, struct ctr_str name, struct ctr_err *err)
{
    struct ctr_explain *e = ctx;
    struct named n = { .hash = ctr_key_hash(key), .table = e->table[e->column], .at = e->texts.len };
    int rc = 0;
    if (e->change.hash_bits) { /* many tables in one: the name includes the original table */
        n.hash = ctr_row_transform_fold(n.hash, e->change.hash_bits);
        rc = ctr_buf_printf(&e->texts, err, "%s%s", table_name(&e->features.f[e->column]), name.n ? "=" : "");
    }
    if (!rc)
        rc = ctr_buf_append(&e->texts, name.p, name.n, err);
    n.n = e->texts.len - n.at;
    return rc ? rc : ctr_buf_append(&e->names, &n, sizeof n, err);
}

/* For numbers, whose keys have positions as names. */
static int number_names(struct ctr_explain *e, const struct ctr_field *f, const struct ctr_col *c, int64_t row,
                        struct ctr_err *err)
{
    uint64_t seed = ctr_table_seed(table_name(f));
    int64_t from = 0, to = 0;
    int rc = 0;
    if (!ctr_type_list(f->type))
        return take_name(e, ctr_dense_key(seed, -1), (struct ctr_str){ "", 0 }, err);
    if (!ctr_col_items(c, f->width, row, &from, &to))
        return 0;
    for (int64_t i = 0; i < to - from && !rc; i++) {
        char text[CTR_NUM_MAX];
        rc = take_name(e, ctr_dense_key(seed, i), (struct ctr_str){ text, ctr_fmt_i64(text, i) }, err);
    }
    return rc;
}

/* Keys that every table may have get fixed names. */
static int key_name(struct ctr_explain *e, const char *table, uint64_t key, struct ctr_err *err)
{
    static const char *const special[] = { "(missing)", "(other)", "" };
    const uint64_t seed = ctr_table_seed(table);
    struct ctr_str name = { NULL, 0 };
    if (e->known)
        name = ctr_keynames_get(e->known, table, key);
    for (size_t i = 0; i < CTR_COUNT(special) && !name.p; i++)
        if (key == ctr_feature_key(seed, special[i], strlen(special[i])))
            name = (struct ctr_str){ special[i], strlen(special[i]) };
    return name.p ? take_name(e, key, name, err) : 0;
}

/* For features extracted earlier. */
static int key_names(struct ctr_explain *e, const struct ctr_field *f, const struct ctr_col *c, int64_t row,
                     struct ctr_err *err)
{
    const char *table = table_name(f);
    const uint64_t missing = ctr_feature_key(ctr_table_seed(table), "(missing)", 9);
    int64_t from = row, to = row + 1;
    const struct ctr_col *keys = c;
    int rc = 0;
    if (ctr_type_list(f->type) && !(keys = ctr_col_items(c, f->width, row, &from, &to)))
        return 0;
    for (int64_t i = from; i < to && !rc; i++) {
        int64_t at = i;
        const bool none = ctr_col_missing(keys, i);
        const struct ctr_col *plain = none ? keys : ctr_col_plain(keys, &at);
        rc = key_name(e, table, none ? missing : ((const uint64_t *)plain->data)[at], err);
    }
    return rc;
}

static int by_hash(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int row_names(struct ctr_explain *e, const struct ctr_batch *b, int64_t row, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&e->names);
    ctr_buf_clear(&e->texts);
    for (e->column = 0; e->column < e->features.n && !rc; e->column++) {
        const struct ctr_field *f = &e->features.f[e->column];
        if (e->table[e->column] < 0 || (e->info.model->by_column && ctr_field_role(f) == CTR_ROLE_DENSE))
            continue; /* numbers are no entries then */
        if (ctr_field_role(f) == CTR_ROLE_DENSE)
            rc = number_names(e, f, &b->col[e->column], row, err);
        else if (e->program)
            rc = ctr_program_row_names(e->program, e->column, row, take_name, e, err);
        else
            rc = key_names(e, f, &b->col[e->column], row, err);
    }
    if (e->names.len)
        qsort(e->names.data, e->names.len / sizeof(struct named), sizeof(struct named), by_hash);
    return rc;
}

/* All names of an entry, each once, in `text`; returns false if there are none. */
static int find_name(struct ctr_explain *e, uint64_t hash, int table, bool *found, struct ctr_err *err)
{
    const struct named *n = (const struct named *)(void *)e->names.data, *last = NULL;
    size_t low = 0, high = e->names.len / sizeof *n, end = high;
    int rc = 0;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (n[mid].hash < hash || (n[mid].hash == hash && n[mid].table < table))
            low = mid + 1;
        else
            high = mid;
    }
    ctr_buf_clear(&e->text);
    *found = low < end && n[low].hash == hash && n[low].table == table;
    for (; low < end && n[low].hash == hash && n[low].table == table && !rc; last = &n[low++]) {
        const uint8_t *text = e->texts.data + n[low].at;
        if (last && last->n == n[low].n && !memcmp(e->texts.data + last->at, text, last->n))
            continue;
        rc = last ? ctr_buf_printf(&e->text, err, " | ") : 0;
        if (!rc)
            rc = ctr_buf_append(&e->text, text, n[low].n, err);
    }
    return rc;
}

/* The name of an entry, in `text`; NULL: it is not known, or no text. */
static int name_entry(struct ctr_explain *e, uint64_t hash, int table, struct ctr_str *name, struct ctr_err *err)
{
    bool found = true;
    int rc = find_name(e, hash, table, &found, err);
    *name = (struct ctr_str){ found ? (const char *)e->text.data : NULL, e->text.len };
    if (found && (!name->p || !ctr_utf8_valid(e->text.data, e->text.len)))
        name->p = e->text.len ? NULL : "";
    return rc;
}

/* ---- features ---- */

static int by_strength(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    double p = fabs(x->contribution), q = fabs(y->contribution);
    if (p != q)
        return p > q ? -1 : 1;
    if (x->entry != y->entry)
        return x->entry > y->entry ? 1 : -1;
    if (x->group != y->group)
        return x->group > y->group ? 1 : -1;
    return (x->position > y->position) - (x->position < y->position);
}

static int by_group(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->group != y->group)
        return x->group > y->group ? 1 : -1;
    if (x->entry != y->entry)
        return x->entry > y->entry ? 1 : -1;
    return (x->position > y->position) - (x->position < y->position);
}

static struct part *parts_of(const struct ctr_explain *e, size_t *n)
{
    *n = e->parts.len / sizeof(struct part);
    return (struct part *)(void *)e->parts.data;
}

static int add_weights(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, struct ctr_err *err)
{
    int64_t n = r->start[i + 1] - r->start[i];
    int rc = ctr_buf_reserve(&e->weights, (size_t)(n + 1) * sizeof(double), err);
    const double *w = (const double *)(void *)e->weights.data;
    if (rc)
        return rc;
    struct part p = { .entry = BIAS, .group = BIAS, .x = 1 };
    p.weight = p.contribution = e->info.model->row_weights(e->session, r, i, (double *)(void *)e->weights.data);
    if (!e->info.params.lr.no_bias)
        rc = ctr_buf_append(&e->parts, &p, sizeof p, err);
    for (int64_t k = 0; k < n && !rc; k++) {
        p = (struct part){ .entry = r->start[i] + k, .x = r->x ? r->x[r->start[i] + k] : 1, .weight = w[k] };
        p.group = r->table[p.entry];
        p.contribution = p.weight * p.x;
        rc = ctr_buf_append(&e->parts, &p, sizeof p, err);
    }
    return rc;
}

/* Numbers other than 0, which contribute nothing. */
static int add_numbers(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, struct ctr_err *err)
{
    const int64_t all = ctr_inputs_dense(e->in);
    int rc = 0;
    for (int k = 0; k < ctr_inputs_count(e->in) && !rc; k++) {
        const struct ctr_input_info info = ctr_inputs_info(e->in, k);
        for (int c = 0; c < info.dense && !rc; c++) {
            const int64_t at = i * all + info.dense_at + c;
            struct part p = { .entry = NUMBER, .group = k, .position = info.dense > 1 ? c : -1, .weight = NAN };
            p.x = (double)r->dense[at];
            p.contribution = e->told.number[at];
            if (p.x != 0)
                rc = ctr_buf_append(&e->parts, &p, sizeof p, err);
        }
    }
    return rc;
}

static int add_told(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, struct ctr_err *err)
{
    const int *key = (const int *)(void *)e->keys.data;
    struct part p = { .entry = BIAS, .group = BIAS, .x = 1, .weight = NAN, .contribution = e->told.base[i] };
    int rc = ctr_buf_append(&e->parts, &p, sizeof p, err);
    for (int64_t k = r->start[i]; k < r->start[i + 1] && !rc; k++) {
        p = (struct part){ .entry = k, .x = r->x ? r->x[k] : 1, .weight = NAN };
        p.group = r->table ? r->table[k] : key[k - r->start[i]];
        p.contribution = e->told.entry[k - r->start[0]];
        rc = ctr_buf_append(&e->parts, &p, sizeof p, err);
    }
    return rc ? rc : add_numbers(e, r, i, err);
}

/* Make one part of those of a group. */
static void sum_groups(struct ctr_explain *e)
{
    size_t n, groups = 0;
    struct part *p = parts_of(e, &n);
    if (n)
        qsort(p, n, sizeof *p, by_group);
    for (size_t k = 0; k < n; k++) {
        if (groups && p[groups - 1].group == p[k].group) {
            p[groups - 1].contribution += p[k].contribution;
            continue;
        }
        p[groups] = p[k];
        p[groups].whole = p[groups].group != BIAS;
        if (p[groups].whole)
            p[groups].x = p[groups].weight = NAN;
        groups++;
    }
    e->parts.len = groups * sizeof *p;
}

/* What the parts of a row leave of its log odds. */
static double residual_of(struct ctr_explain *e, int64_t i)
{
    size_t n;
    const struct part *p = parts_of(e, &n);
    double left = e->told.logit[i];
    for (size_t k = 0; k < n; k++)
        left -= p[k].contribution;
    e->explained.rows++;
    e->explained.beyond += !(fabs(left) <= CTR_PARTS_ERROR);
    e->explained.worst = CTR_MAX(e->explained.worst, fabs(left));
    e->explained.points = CTR_MAX(e->explained.points, e->told.points[i]);
    return left;
}

static int add_parts(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, double *residual, struct ctr_err *err)
{
    ctr_buf_clear(&e->parts);
    int rc = (e->deep ? add_told : add_weights)(e, r, i, err);
    *residual = rc || !e->deep ? 0 : residual_of(e, i);
    if (!rc && e->by_table)
        sum_groups(e);
    if (!rc && e->parts.len)
        qsort(e->parts.data, e->parts.len / sizeof(struct part), sizeof(struct part), by_strength);
    return rc;
}

/* What stands in a line: NULL or NaN is null. */
struct line {
    const char *table, *name;
    size_t name_n;
    const uint64_t *key;
    double x, weight, contribution;
};

static int put_line(struct ctr_batchbuf *out, int64_t row, double score, const struct line *l, struct ctr_err *err)
{
    struct ctr_append a = { out->col, err, 0 };
    ctr_append_i64(&a, true, row);
    ctr_append_f64(&a, true, score);
    ctr_append_text(&a, l->table);
    ctr_append_i64(&a, l->key, l->key ? (int64_t)*l->key : 0);
    ctr_append_str(&a, l->name, l->name_n);
    ctr_append_f64(&a, !isnan(l->x), l->x);
    ctr_append_f64(&a, !isnan(l->weight), l->weight);
    ctr_append_f64(&a, !isnan(l->contribution), l->contribution);
    return a.rc;
}

static int put_part(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, const struct part *p, double score,
                    struct ctr_batchbuf *out, struct ctr_err *err)
{
    const bool keyed = p->entry >= 0 && !p->whole;
    const uint64_t key = keyed ? ctr_key_unhash(r->hash[p->entry]) : ctr_bias_key();
    char position[CTR_NUM_MAX];
    struct line l = { .table = CTR_BIAS_TABLE,
                      .name = "",
                      .key = keyed || p->entry == BIAS ? &key : NULL,
                      .x = p->x,
                      .weight = p->weight,
                      .contribution = p->contribution };
    int rc = 0;
    if (p->entry != BIAS)
        l.table = e->deep ? ctr_inputs_info(e->in, p->group).name : e->tables.s[p->group];
    if (keyed) {
        struct ctr_str name;
        rc = name_entry(e, r->hash[p->entry], e->deep ? ctr_inputs_info(e->in, p->group).table : p->group, &name, err);
        l.name = name.p;
        l.name_n = name.n;
    } else if (p->entry == NUMBER && p->position >= 0 && !p->whole) {
        l.name = position;
        l.name_n = ctr_fmt_i64(position, p->position);
    }
    return rc ? rc : put_line(out, r->first_row + i + 1, score, &l, err);
}

static int put_row(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, double score, struct ctr_batchbuf *out,
                   struct ctr_err *err)
{
    char name[64];
    double residual;
    int rc = add_parts(e, r, i, &residual, err);
    const struct line left = { .table = "(residual)", .name = "", .x = NAN, .weight = NAN, .contribution = residual };
    const struct part *p = (const struct part *)(void *)e->parts.data;
    int64_t n = (int64_t)(e->parts.len / sizeof *p), shown = e->n && e->n < n ? e->n : n;
    for (int64_t k = 0; k < shown && !rc; k++)
        rc = put_part(e, r, i, &p[k], score, out, err);
    if (!rc && shown == n && e->deep)
        rc = put_line(out, r->first_row + i + 1, score, &left, err);
    if (rc || shown == n)
        return rc;
    struct line rest = { .table = "(rest)", .name = name, .x = NAN, .weight = NAN };
    rest.name_n = (size_t)snprintf(name, sizeof name, "%lld more", (long long)(n - shown));
    for (int64_t k = shown; k < n; k++)
        rest.contribution += p[k].contribution;
    rc = put_line(out, r->first_row + i + 1, score, &rest, err);
    return rc || !e->deep ? rc : put_line(out, r->first_row + i + 1, score, &left, err);
}

/* ---- items of histories ---- */

static int take_unit(void *ctx, const struct ctr_attended *a, struct ctr_err *err)
{
    struct ctr_explain *e = ctx;
    struct unit u = { .attended = *a,
                      .start_at = (int64_t)(e->starts.len / sizeof *a->start),
                      .weight_at = (int64_t)(e->weights.len / sizeof *a->weight) };
    u.attended.start = NULL;
    u.attended.weight = NULL;
    int rc = ctr_buf_append(&e->starts, a->start, (size_t)(a->rows + 1) * sizeof *a->start, err);
    if (!rc)
        rc = ctr_buf_append(&e->weights, a->weight, (size_t)a->start[a->rows] * sizeof *a->weight, err);
    return rc ? rc : ctr_buf_append(&e->units, &u, sizeof u, err);
}

static int by_weight(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const double p = fabs(x->weight), q = fabs(y->weight);
    if (p != q)
        return p > q ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* The entry of the first key of an input in row i; a row without one: -1. */
static int64_t first_entry(const struct ctr_rows *r, int64_t i, int input)
{
    for (int64_t k = r->start[i]; k < r->start[i + 1]; k++)
        if (r->table[k] == input)
            return k;
    return -1;
}

static int find_input(const struct ctr_inputs *in, const char *name)
{
    for (int i = 0; name && i < ctr_inputs_count(in); i++)
        if (!strcmp(ctr_inputs_info(in, i).name, name))
            return i;
    return -1;
}

/* What the items of an input are weighed beside: its name, and in e->candidate that of the row's key. */
static int find_candidate(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, const struct ctr_attended *a,
                          int input, struct ctr_str *of, struct ctr_str *candidate, struct ctr_err *err)
{
    const char *name = a->by_ids ? "(ids)" : ctr_inputs_info(e->in, input).history_of;
    const int found = a->by_ids ? -1 : find_input(e->in, name);
    const int64_t entry = found < 0 ? -1 : first_entry(r, i, found);
    *of = (struct ctr_str){ name, name ? strlen(name) : 0 };
    *candidate = (struct ctr_str){ 0 };
    if (entry < 0)
        return 0;
    int rc = name_entry(e, r->hash[entry], ctr_inputs_info(e->in, found).table, candidate, err);
    if (rc || !candidate->p)
        return rc;
    ctr_buf_clear(&e->candidate);
    rc = ctr_buf_append(&e->candidate, candidate->p, candidate->n, err);
    candidate->p = candidate->n ? (const char *)e->candidate.data : "";
    return rc;
}

/* A line: texts whose p is NULL, place 0 and key NULL are null. */
struct item_line {
    int64_t row, unit, place;
    double score, weight;
    struct ctr_str list, of, candidate, name;
    const uint64_t *key;
};

static int put_item_line(struct ctr_batchbuf *out, const struct item_line *l, struct ctr_err *err)
{
    struct ctr_append a = { out->col, err, 0 };
    ctr_append_i64(&a, true, l->row);
    ctr_append_f64(&a, true, l->score);
    ctr_append_i64(&a, true, l->unit);
    ctr_append_str(&a, l->list.p, l->list.n);
    ctr_append_str(&a, l->of.p, l->of.n);
    ctr_append_str(&a, l->candidate.p, l->candidate.n);
    ctr_append_i64(&a, l->place, l->place);
    ctr_append_i64(&a, l->key, l->key ? (int64_t)*l->key : 0);
    ctr_append_str(&a, l->name.p, l->name.n);
    ctr_append_f64(&a, true, l->weight);
    return a.rc;
}

/* The lines of an item: one of each list. */
static int put_item(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, const struct ctr_attended *a,
                    const struct item *item, struct item_line *l, struct ctr_batchbuf *out, struct ctr_err *err)
{
    int rc = 0;
    for (int f = 0; f < a->n && !rc; f++) {
        const struct ctr_input_info info = ctr_inputs_info(e->in, a->inputs[f]);
        const int64_t entry = first_entry(r, i, a->inputs[f]) + item->place;
        const uint64_t key = ctr_key_unhash(r->hash[entry]);
        l->list = (struct ctr_str){ info.name, strlen(info.name) };
        l->place = item->place + 1;
        l->weight = item->weight;
        l->key = &key;
        rc = find_candidate(e, r, i, a, a->inputs[f], &l->of, &l->candidate, err);
        if (!rc)
            rc = name_entry(e, r->hash[entry], info.table, &l->name, err);
        if (!rc)
            rc = put_item_line(out, l, err);
    }
    return rc;
}

static int put_unit(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, int number, double score,
                    struct ctr_batchbuf *out, struct ctr_err *err)
{
    const struct unit *u = (const struct unit *)(void *)e->units.data + number;
    const int32_t *start = (const int32_t *)(void *)e->starts.data + u->start_at;
    const float *weight = (const float *)(void *)e->weights.data + u->weight_at + start[i];
    const int64_t n = start[i + 1] - start[i], shown = e->n && e->n < n ? e->n : n;
    struct item_line l = { .row = r->first_row + i + 1, .unit = number + 1, .score = score };
    char rest[64];
    int rc = 0;
    ctr_buf_clear(&e->items);
    struct item *item = ctr_buf_extend(&e->items, n, sizeof *item, &rc, err);
    for (int64_t k = 0; k < n && !rc; k++)
        item[k] = (struct item){ k, (double)weight[k] };
    if (!rc && n)
        qsort(item, (size_t)n, sizeof *item, by_weight);
    for (int64_t k = 0; k < shown && !rc; k++)
        rc = put_item(e, r, i, &u->attended, &item[k], &l, out, err);
    if (rc || shown == n)
        return rc;
    l.list = (struct ctr_str){ "(rest)", 6 };
    l.name = (struct ctr_str){ rest, (size_t)snprintf(rest, sizeof rest, "%lld more", (long long)(n - shown)) };
    l.of = l.candidate = (struct ctr_str){ 0 };
    l.key = NULL;
    l.place = 0;
    l.weight = 0;
    for (int64_t k = shown; k < n; k++)
        l.weight += item[k].weight;
    return put_item_line(out, &l, err);
}

static int put_units(struct ctr_explain *e, const struct ctr_rows *r, int64_t i, double score, struct ctr_batchbuf *out,
                     struct ctr_err *err)
{
    const int n = (int)(e->units.len / sizeof(struct unit));
    int rc = 0;
    for (int u = 0; u < n && !rc; u++)
        rc = put_unit(e, r, i, u, score, out, err);
    return rc;
}

/* ---- the answer ---- */

static int predict(struct ctr_explain *e, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    const struct ctr_model *m = e->info.model;
    if (e->deep)
        return m->explain->rows(e->deep, r, score, &e->told, err);
    if (!e->attends)
        return m->predict_rows(e->session, r, score, NULL, err);
    ctr_buf_clear(&e->units);
    ctr_buf_clear(&e->starts);
    ctr_buf_clear(&e->weights);
    return m->explain->attended_rows(e->session, r, score, take_unit, e, err);
}

static int explain_rows(struct ctr_explain *e, const struct ctr_batch *features, struct ctr_batchbuf *out,
                        struct ctr_err *err)
{
    struct ctr_rows r;
    int rc = ctr_inputs_batch(e->in, features, err);
    if (!rc)
        rc = ctr_buf_reserve(&e->scores, TILE_ROWS * sizeof(double), err);
    double *score = (double *)(void *)e->scores.data;
    for (int64_t from = 0, n; !rc && from < features->rows; from += n) {
        n = CTR_MIN(e->deep ? DEEP_ROWS : TILE_ROWS, features->rows - from);
        n = ctr_inputs_fit(e->in, from, n, e->deep ? DEEP_ENTRIES : CTR_TILE_ENTRIES);
        rc = ctr_inputs_rows(e->in, NULL, from, n, &r, err);
        if (!rc)
            rc = predict(e, &r, score, err);
        for (int64_t i = 0; i < n && !rc; i++) {
            rc = row_names(e, features, from + i, err);
            if (!rc)
                rc = e->attends ? put_units(e, &r, i, score[i], out, err) : put_row(e, &r, i, score[i], out, err);
        }
    }
    return rc;
}

int ctr_explain_batch(struct ctr_explain *e, const struct ctr_batch *b, struct ctr_batchbuf *out, struct ctr_err *err)
{
    const struct ctr_batch *features = b;
    int more = e->program ? 1 : 0, rc = e->program ? ctr_program_run(e->program, b, &features, err) : 0;
    do {
        if (!rc)
            rc = explain_rows(e, features, out, err);
        if (!rc && more)
            rc = CTR_MIN(more = ctr_program_more(e->program, &features, err), 0);
    } while (!rc && more > 0);
    return rc;
}
