/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading deep models: the main section is checked against the model's options, and every other section against the
 * main section. See deep_file.c for the format. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/deep/deep.h"

/* A table or a parameter listed in the main section. */
struct part {
    char *name;
    bool table;
    int64_t rows, cols;
    int64_t seen; /* rows read */
    bool found;
    const char *skip; /* a partial start: the reason for not taking it, or NULL */
};

struct load {
    struct ctr_deep *d;
    struct ctr_deep_tables *all;
    struct part *part;
    int parts;
    bool state;   /* read optimizer state, too */
    bool partial; /* into a shaped network: take only what fits */
    float *arena; /* values; with state, followed by m and v */
};

/* The main section lists parts in the order of their sections; reading goes by name, in the order of the file:
 *
 *     mlp             name, kind, rows, cols: table "site", "0.weight" of 16 x 17, …    read_main, check_parts
 *     emb.site        key, value [, m, v]                                               read_keys
 *     mlp.0.weight    row, value [, m, v]                                               read_rows
 *
 * Prediction leaves out m and v (project). A partial start reads into a network that is shaped already: of each part
 * choose_parts says why it is not taken ("another --embedding here"), and tell lists both kinds. */

/* ---- columns ---- */

static int damaged(struct ctr_err *err, const char *section, const char *what)
{
    return ctr_fail(err, CTR_EDATA, "section %.80s of the model: %s", section, what);
}

static const struct ctr_col *column(const struct ctr_batch *b, const char *name, enum ctr_type type)
{
    int at = ctr_schema_find(b->schema, name);
    const struct ctr_col *c = at < 0 ? NULL : &b->col[at];
    return c && c->type == type && !c->dict && !c->nulls ? c : NULL;
}

/* The floats of a column of fixed lists, or NULL. */
static const float *floats(const struct ctr_batch *b, const char *name, int64_t width)
{
    const struct ctr_col *c = column(b, name, CTR_FIXED);
    int at = ctr_schema_find(b->schema, name);
    return c && c->item->type == CTR_F32 && !c->item->nulls && b->schema->f[at].width == width ? c->item->data : NULL;
}

/* ---- the main section ---- */

static int add_part(struct load *l, struct ctr_str name, bool table, int64_t rows, int64_t cols, struct ctr_err *err)
{
    struct part *list = realloc(l->part, ((size_t)l->parts + 1) * sizeof *list);
    if (!list)
        return ctr_fail_nomem(err, ((size_t)l->parts + 1) * sizeof *list);
    l->part = list;
    list[l->parts] = (struct part){ .name = strndup(name.p, name.n), .table = table, .rows = rows, .cols = cols };
    if (!list[l->parts++].name)
        return ctr_fail_nomem(err, name.n);
    return 0;
}

static bool is(struct ctr_str s, const char *word)
{
    return s.n == strlen(word) && !memcmp(s.p, word, s.n);
}

/* The metadata columns, which files may lack: stored in the last input of the list. */
static int read_relations(struct ctr_deep_input *in, const struct ctr_batch *b, int64_t row, struct ctr_err *err)
{
    char **const to[CTR_DEEP_RELATIONS] = { &in->history_of, &in->group, &in->side };
    for (int i = 0; i < CTR_DEEP_RELATIONS; i++) {
        const int at = ctr_schema_find(b->schema, ctr_deep_relations[i]);
        if (at < 0)
            continue;
        if (b->col[at].type != CTR_UTF8 || b->col[at].dict)
            return damaged(err, "main", "a column is not as ctr-train wrote it");
        if (ctr_col_null(&b->col[at], row))
            continue;
        struct ctr_str s = ctr_col_str(&b->col[at], row);
        if (memchr(s.p, 0, s.n))
            return damaged(err, "main", "a name or a size is damaged");
        if (!(*to[i] = strndup(s.p, s.n)))
            return ctr_fail_nomem(err, s.n);
    }
    return 0;
}

static int add_input(struct ctr_deep_input **list, int *n, struct ctr_str name, struct ctr_str kind,
                     const struct ctr_col *table, const struct ctr_batch *b, int64_t row, int64_t cols,
                     struct ctr_err *err)
{
    const size_t room = 2 * (size_t)*n + 1; /* doubles whenever *n is 1, 3, 7, … */
    struct ctr_deep_input *more = *n & (*n + 1) ? *list : realloc(*list, room * sizeof *more), *p;
    if (!more)
        return ctr_fail_nomem(err, room * sizeof *more);
    *list = more;
    p = &more[*n];
    *p = (struct ctr_deep_input){ .list = is(kind, "keys") || is(kind, "images"),
                                  .image = is(kind, "image") || is(kind, "images"),
                                  .table_at = -1 };
    if ((*n)++)
        p->dense_at = p[-1].dense_at + p[-1].dense;
    if (!(p->name = strndup(name.p, name.n)))
        return ctr_fail_nomem(err, name.n);
    if (read_relations(p, b, row, err))
        return err->code;
    if (is(kind, "numbers")) {
        p->dense = (int32_t)cols;
        return p->dense_at + cols <= CTR_MAX_TABLES ? 0 : damaged(err, "main", "more numbers than a row can have");
    }
    if (ctr_col_null(table, row))
        return damaged(err, "main", "an input of keys has no table");
    struct ctr_str t = ctr_col_str(table, row);
    return (p->table = strndup(t.p, t.n)) ? 0 : ctr_fail_nomem(err, t.n);
}

static int read_parts(struct load *l, const struct ctr_batch *b, struct ctr_deep_input **list, int *n,
                      struct ctr_err *err)
{
    const struct ctr_col *name = column(b, "name", CTR_UTF8), *kind = column(b, "kind", CTR_UTF8);
    const struct ctr_col *rows = column(b, "rows", CTR_I64), *cols = column(b, "cols", CTR_I32);
    int at = ctr_schema_find(b->schema, "table"), rc = 0;
    const struct ctr_col *table = at < 0 || b->col[at].type != CTR_UTF8 || b->col[at].dict ? NULL : &b->col[at];
    if (!name || !kind || !table || !rows || !cols)
        return damaged(err, "main", "a column is missing, or not as ctr-train wrote it");
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        struct ctr_str k = ctr_col_str(kind, i), s = ctr_col_str(name, i);
        int64_t r = ((const int64_t *)rows->data)[i], c = ((const int32_t *)cols->data)[i];
        if (memchr(s.p, 0, s.n) || r < 0 || c < 0)
            rc = damaged(err, "main", "a name or a size is damaged");
        else if (is(k, "table") || is(k, "parameter"))
            rc = add_part(l, s, is(k, "table"), r, c, err);
        else if (*n < CTR_MAX_TABLES &&
                 (is(k, "key") || is(k, "keys") || is(k, "image") || is(k, "images") || is(k, "numbers")))
            rc = add_input(list, n, s, k, table, b, i, c, err);
        else
            rc = damaged(err, "main", "a kind is none of key, keys, image, images, numbers, table, parameter");
    }
    return rc;
}

/* Compare the parts made from the options with the parts listed in the file. */
static int check_parts(const struct load *l, struct ctr_err *err)
{
    const struct ctr_deep *d = l->d;
    const char *remedy = l->state ? "; --init-partial takes what fits" : "";
    int n = 0;
    for (int i = 0; i < l->parts; i++) {
        const struct part *p = &l->part[i];
        if (p->table) {
            if (p->cols != d->width)
                return ctr_fail(err, CTR_EDATA,
                                "table %.80s of the model has %" PRId64 " floats a key, its options say %d%s", p->name,
                                p->cols, d->width, remedy);
            continue;
        }
        const struct ctr_deep_param *want = n < d->params ? &d->param[n++] : NULL;
        if (!want || strcmp(want->name, p->name) != 0 || want->rows != p->rows || want->cols != p->cols)
            return ctr_fail(err, CTR_EDATA,
                            "the model has the parameter %.40s of %" PRId64 " x %" PRId64
                            ", with these options it is %s of %" PRId64 " x %" PRId64 "%s",
                            p->name, p->rows, p->cols, want ? want->name : "none", want ? want->rows : 0,
                            want ? want->cols : 0, remedy);
    }
    return n == d->params ? 0 : damaged(err, "main", "the model lacks parameters that its options ask for");
}

static const struct ctr_deep_param *find_param(const struct ctr_deep *d, const char *name)
{
    for (int i = 0; i < d->params; i++)
        if (!strcmp(d->param[i].name, name))
            return &d->param[i];
    return NULL;
}

/* A partial start: choose tables and parameters with equal name and shape. */
static void choose_parts(struct load *l)
{
    for (int i = 0; i < l->parts; i++) {
        struct part *p = &l->part[i];
        const struct ctr_deep_param *want = p->table ? NULL : find_param(l->d, p->name);
        if (p->table && ctr_deep_tables_find(l->all, p->name) < 0)
            p->skip = "no such table here";
        else if (p->table && p->cols != l->d->width)
            p->skip = "another --embedding here";
        else if (!p->table && !want)
            p->skip = "no such parameter here";
        else if (!p->table && (want->rows != p->rows || want->cols != p->cols))
            p->skip = "of another shape here";
    }
}

/* Tower outputs, used instead of its inputs, do not give the inputs' width. */
static void take_tower(struct load *l)
{
    for (int i = 0; i < l->parts; i++) {
        struct part *p = &l->part[i];
        if (!p->table && !strcmp(p->name, "image.0.weight"))
            l->d->image_inputs = (int32_t)p->cols;
        if (p->table && l->d->tower_alone)
            p->skip = "the tower has no keys";
    }
}

static int read_main(struct load *l, struct ctr_strs *names, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_deep_input *list = NULL;
    const struct ctr_batch *b;
    int n = 0, at, rc;
    while ((rc = ctr_reader_next(r, &b, err)) > 0 && !(rc = read_parts(l, b, &list, &n, err)))
        ;
    if (!rc)
        take_tower(l);
    if (rc || l->partial)
        ctr_deep_inputs_free(list, n);
    else
        rc = ctr_deep_shape(l->d, list, n, err); /* takes ownership of the list */
    if (!rc && l->partial) {
        choose_parts(l);
        return 0;
    }
    if (!rc)
        rc = check_parts(l, err);
    for (int i = 0; i < l->d->inputs && !rc; i++) {
        const char *table = l->d->input[i].table;
        if (table && !l->d->input[i].image)
            rc = ctr_deep_tables_add(l->all, table, &l->d->p, &at, err);
        if (table && !rc && ctr_strs_find(names, table) < 0)
            rc = ctr_strs_add(names, table, strlen(table), err);
    }
    return rc ? rc : ctr_deep_source_bind(l->all, l->d, err);
}

/* ---- sections ---- */

static struct part *find_part(struct load *l, const char *name, bool table)
{
    for (int i = 0; i < l->parts; i++)
        if (l->part[i].table == table && !strcmp(l->part[i].name, name))
            return &l->part[i];
    return NULL;
}

/* Values and state of row i of a batch, stored consecutively. */
struct lists {
    const float *value[1 + CTR_DEEP_STATES];
    int n;
    int64_t width;
};

static int fail_number(const struct ctr_batch *b, const char *section, const char *column_name, int64_t row,
                       struct ctr_err *err)
{
    const struct ctr_col *key = column(b, "key", CTR_U64);
    int rc = ctr_fail(err, CTR_EDATA, "section %.80s of the model: a number of column %s is infinite or not a number",
                      section, column_name);
    if (key)
        ctr_err_add(err, ", of key %" PRIu64, ((const uint64_t *)key->data)[row]);
    return rc;
}

static int find_lists(const struct ctr_batch *b, const char *section, int64_t width, int n, struct lists *to,
                      struct ctr_err *err)
{
    to->n = n;
    to->width = width;
    for (int i = 0; i < n; i++)
        if (!(to->value[i] = floats(b, i ? ctr_deep_states[i - 1] : "value", width)))
            return ctr_fail(
                err, CTR_EDATA,
                "section %.80s of the model: column %s is missing or is not fixed_size_list<float32>[%" PRId64 "]%s",
                section, i ? ctr_deep_states[i - 1] : "value", width, i ? ": it can predict but not learn on" : "");
    for (int i = 0; i < n; i++)
        for (int64_t j = 0; j < b->rows * width; j++)
            if (!(fabsf(to->value[i][j]) < INFINITY))
                return fail_number(b, section, i ? ctr_deep_states[i - 1] : "value", j / width, err);
    return 0;
}

static int read_keys(struct load *l, struct part *p, const struct ctr_batch *b, const char *section,
                     struct ctr_err *err)
{
    const int table = ctr_deep_tables_find(l->all, p->name);
    const struct ctr_col *key = column(b, "key", CTR_U64), *count = NULL;
    struct lists lists = { .n = 0 };
    float *row = calloc((size_t)l->all->floats, sizeof *row);
    int rc = key ? find_lists(b, section, l->d->width, l->state ? 1 + CTR_DEEP_STATES : 1, &lists, err)
                 : damaged(err, section, "column key is missing or not uint64");
    if (!rc && l->state && l->all->counts && !l->all->recounts && !(count = column(b, "count", CTR_U32)))
        rc = damaged(err, section, "column count is missing: the model was trained without --l2");
    if (!rc && !row)
        rc = ctr_fail_nomem(err, (size_t)l->all->floats * sizeof *row);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        for (int j = 0; j < lists.n; j++)
            memcpy(row + j * lists.width, lists.value[j] + i * lists.width, (size_t)lists.width * sizeof *row);
        if (count)
            memcpy(row + l->d->u_cols, (const uint32_t *)count->data + i, sizeof(uint32_t));
        rc = ctr_source_load(l->d->vectors.source, table, ((const uint64_t *)key->data)[i], row, err);
        if (rc == CTR_EDATA) {
            const struct ctr_err why = *err;
            rc = damaged(err, section, why.what);
        }
    }
    free(row);
    p->seen += b->rows;
    return rc;
}

static int read_rows(struct load *l, struct part *p, const struct ctr_batch *b, const char *section,
                     struct ctr_err *err)
{
    const struct ctr_deep_param *want = l->d->param;
    const struct ctr_col *row = column(b, "row", CTR_I32);
    struct lists lists = { .n = 0 };
    while (strcmp(want->name, p->name) != 0)
        want++;
    int rc = row ? find_lists(b, section, want->cols, l->state && !want->state ? 1 + CTR_DEEP_STATES : 1, &lists, err)
                 : damaged(err, section, "column row is missing or not int32");
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        int64_t at = ((const int32_t *)row->data)[i];
        if (at != p->seen + i || at >= want->rows)
            return damaged(err, section, "its rows are not all there, in order");
        for (int j = 0; j < lists.n; j++)
            memcpy(l->arena + j * l->d->floats + want->at + at * want->cols, lists.value[j] + i * lists.width,
                   (size_t)lists.width * sizeof(float));
    }
    p->seen += b->rows;
    return rc;
}

/* Project to number and value, if state is not wanted. */
static int project(struct load *l, struct ctr_reader *r, const char *number, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r);
    int keep[2] = { ctr_schema_find(s, number), ctr_schema_find(s, "value") };
    return l->state || keep[0] < 0 || keep[1] < 0 ? 0 : ctr_reader_project(r, keep, 2, err);
}

static int read_section(struct load *l, struct ctr_reader *r, struct ctr_err *err)
{
    const char *meta = ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_SECTION);
    const char *table = ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_TABLE);
    const size_t prefix = strlen(l->d->model->name);
    struct part *p = NULL;
    const struct ctr_batch *b;
    char name[96];
    int rc = 0;
    if (!meta)
        return 0;
    snprintf(name, sizeof name, "%s", meta);
    if (!strncmp(meta, "emb.", 4))
        p = find_part(l, table ? table : meta + 4, true);
    else if (!strncmp(meta, l->d->model->name, prefix) && meta[prefix] == '.')
        p = find_part(l, meta + prefix + 1, false);
    else
        return 0; /* a section of the plan */
    if (!p || (p->table && !p->skip && ctr_deep_tables_find(l->all, p->name) < 0))
        return damaged(err, name, "the main section does not list it");
    if (p->found)
        return damaged(err, name, "it comes twice");
    p->found = true;
    if (p->skip)
        return 0;
    rc = project(l, r, p->table ? "key" : "row", err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = p->table ? read_keys(l, p, b, name, err) : read_rows(l, p, b, name, err);
    return rc;
}

/* All parts that prediction needs must be present; missing keys are only reported. */
static int check_whole(const struct load *l, char *warn, size_t warn_size, struct ctr_err *err)
{
    for (int i = 0; i < l->parts; i++) {
        const struct part *p = &l->part[i];
        if (!p->found && l->partial)
            continue;
        if (!p->found)
            return ctr_fail(err, CTR_EDATA, "the model lacks its section %s%.80s: was it filtered with --section?",
                            p->table ? "emb." : "", p->name);
        if (!p->table && !p->skip && p->seen != p->rows)
            return damaged(err, p->name, "its rows are not all there");
        if (p->table && p->seen < p->rows && warn && !*warn)
            snprintf(warn, warn_size,
                     "table %.80s of the model has %" PRId64 " of its %" PRId64 " keys: the others count as unknown",
                     p->name, p->seen, p->rows);
    }
    return 0;
}

/* ---- what was taken, for people: a line each ---- */

/* "a, b, c" */
static int list_name(struct ctr_buf *to, struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(3, 4);
static int list_name(struct ctr_buf *to, struct ctr_err *err, const char *fmt, ...)
{
    char name[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return ctr_buf_printf(to, err, "%s%s", to->len ? ", " : "", name);
}

static const char *kind_of(const struct part *p)
{
    return p->table ? "table" : "parameter";
}

static bool taken(const struct load *l, const char *name, bool table)
{
    for (int i = 0; i < l->parts; i++)
        if (l->part[i].table == table && !strcmp(l->part[i].name, name))
            return l->part[i].found && !l->part[i].skip;
    return false;
}

static int list_missing(const struct load *l, struct ctr_buf *to, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < l->parts && !rc; i++) {
        const struct part *p = &l->part[i];
        if (p->table && p->found && !p->skip && p->seen < p->rows)
            rc = list_name(to, err, "%" PRId64 " of the %" PRId64 " keys of table %.80s", p->rows - p->seen, p->rows,
                           p->name);
    }
    for (int i = 0; i < l->all->n && !rc; i++)
        if (!taken(l, l->all->t[i].name, true))
            rc = list_name(to, err, "table %.80s", l->all->t[i].name);
    for (int i = 0; i < l->d->params && !rc; i++)
        if (!taken(l, l->d->param[i].name, false))
            rc = list_name(to, err, "parameter %.80s", l->d->param[i].name);
    return rc;
}

static int tell(const struct load *l, struct ctr_buf *told, struct ctr_err *err)
{
    struct ctr_buf skipped = { 0 }, missing = { 0 };
    int64_t keys = 0;
    int tables = 0, params = 0, rc = 0;
    for (int i = 0; i < l->parts && !rc; i++) {
        const struct part *p = &l->part[i];
        if (p->found && p->skip)
            rc = list_name(&skipped, err, "%s %.80s (%s)", kind_of(p), p->name, p->skip);
        else if (p->found) {
            keys += p->table ? p->seen : 0;
            tables += p->table;
            params += !p->table;
        }
    }
    if (!rc)
        rc = list_missing(l, &missing, err);
    if (!rc)
        rc = ctr_buf_printf(told, err, "taken: %" PRId64 " key%s of %d table%s, %d parameter%s\n", keys, CTR_S(keys),
                            tables, CTR_S(tables), params, CTR_S(params));
    if (!rc && skipped.len)
        rc = ctr_buf_printf(told, err, "skipped: %s\n", (const char *)skipped.data);
    if (!rc && missing.len)
        rc = ctr_buf_printf(told, err, "missing, and start at first values: %s\n", (const char *)missing.data);
    ctr_buf_free(&skipped);
    ctr_buf_free(&missing);
    return rc;
}

/* ---- all of it ---- */

static int get_arena(struct load *l, struct ctr_err *err)
{
    const struct ctr_deep *d = l->d;
    const size_t all = (size_t)d->floats * sizeof(float), learned = (size_t)d->learned * sizeof(float);
    int rc = ctr_mem_read(d->w, 0, l->arena, all, err);
    if (!rc)
        rc = ctr_mem_read(d->s1, 0, l->arena + d->floats, learned, err);
    return rc ? rc : ctr_mem_read(d->s2, 0, l->arena + 2 * d->floats, learned, err);
}

static int put_arena(const struct load *l, struct ctr_err *err)
{
    const struct ctr_deep *d = l->d;
    const size_t all = (size_t)d->floats * sizeof(float), learned = (size_t)d->learned * sizeof(float);
    int rc = ctr_mem_write(d->w, 0, l->arena, all, err);
    if (!rc && l->state) /* LCOV_EXCL_BR_LINE only writing to a GPU's memory can fail */
        rc = ctr_mem_write(d->s1, 0, l->arena + d->floats, learned, err);
    if (!rc && l->state) /* LCOV_EXCL_BR_LINE */
        rc = ctr_mem_write(d->s2, 0, l->arena + 2 * d->floats, learned, err);
    return rc;
}

/* Read everything; the caller sets d, all, state and partial. */
static int read_all(struct load *l, struct ctr_strs *names, struct ctr_reader *r, char *warn, size_t warn_size,
                    struct ctr_buf *told, struct ctr_err *err)
{
    struct ctr_deep *d = l->d;
    int rc = read_main(l, names, r, err), more = 0;
    if (!rc && !(l->arena = calloc((size_t)d->floats * (l->state ? 1 + CTR_DEEP_STATES : 1) + 1, sizeof *l->arena)))
        rc = ctr_fail_nomem(err, (size_t)d->floats * sizeof *l->arena);
    if (!rc && l->partial) /* parts that are not taken stay unchanged */
        rc = get_arena(l, err);
    while (!rc && (more = ctr_reader_section(r, err)) > 0)
        rc = read_section(l, r, err);
    if (!rc && more < 0)
        rc = more;
    if (!rc)
        rc = check_whole(l, warn, warn_size, err);
    if (!rc)
        rc = put_arena(l, err);
    if (!rc && told)
        rc = tell(l, told, err);
    for (int i = 0; i < l->parts; i++)
        free(l->part[i].name);
    free(l->part);
    free(l->arena);
    return rc;
}

int ctr_deep_read(struct ctr_deep *d, struct ctr_deep_tables *all, struct ctr_strs *names, struct ctr_reader *r,
                  char *warn, size_t warn_size, struct ctr_err *err)
{
    return read_all(&(struct load){ .d = d, .all = all }, names, r, warn, warn_size, NULL, err);
}

struct clock {
    int64_t step, rows; /* minibatches and rows learned */
    int counted;        /* the counts of keys are those of all rows */
};

static int read_clock(const struct ctr_reader *r, struct clock *c, struct ctr_err *err)
{
    const char *clock = ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_MODEL_CLOCK);
    *c = (struct clock){ 0 };
    if (!clock || sscanf(clock, "%" SCNd64 " %" SCNd64 " %d", &c->step, &c->rows, &c->counted) < 2 || c->step < 0 ||
        c->rows < 0)
        return damaged(err, "main", "it does not say how many minibatches were learned");
    return 0;
}

/* *c: the model's. */
static int take_model(struct ctr_deep_learner *l, struct load *load, struct ctr_strs *tables, struct ctr_reader *r,
                      struct clock *c, struct ctr_buf *told, struct ctr_err *err)
{
    int rc = read_clock(r, c, err);
    if (!rc)
        rc = read_all(load, tables, r, NULL, 0, told, err);
    l->net.step = c->step;
    l->learned_rows = c->rows;
    return rc;
}

int ctr_deep_warm(void *learner, struct ctr_strs *tables, struct ctr_reader *r, bool partial, struct ctr_buf *told,
                  struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct load load = { .d = &l->net, .all = &l->tables, .state = true, .partial = partial };
    struct clock clock; /* of other rows: those of this run are still to be counted */
    return take_model(l, &load, tables, r, &clock, told, err);
}

int ctr_deep_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct load load = { .d = &l->net, .all = &l->tables, .state = true };
    struct clock clock;
    l->tables.recounts = false; /* a checkpoint of this run has them */
    int rc = take_model(l, &load, tables, r, &clock, NULL, err);
    l->tables.counted = !rc && clock.counted && l->tables.counts;
    return rc;
}
