/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet: files, row groups and batches: which columns are wanted, as which types, and their rows side by side. A
 * batch ends with its file; where a column comes as a dictionary column, which the row group's dictionary belongs to,
 * also with the row group. */
#include "common/parquet/parquet_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_COLUMNS = 10000 }; /* that are read; a file may have more */

struct ctr_parquet {
    struct ctr_text_opts o;
    struct ctr_strs paths;
    struct ctr_schema schema;
    struct ctr_text_columns columns; /* as they were asked for */
    const char **leaf_name;          /* of each of these, in the file */
    /* the current file */
    int file; /* the next one to open */
    int fd;
    struct ctr_file_state state;
    int64_t size;
    struct pq_footer footer;
    struct pq_leaves leaves;
    int group;          /* the next one */
    int64_t group_left; /* rows of the current one */
    bool in_group, dicts;
    struct pq_column *column; /* one per column of the schema */
    struct ctr_col *view;
    struct ctr_batch batch;
    struct ctr_pool *pool;
    int64_t want, part; /* rows of a batch; those that a run reads */
    struct ctr_parquet_stats stats;
};

/* ---- files ---- */

static bool is_stdin(const char *path)
{
    return !strcmp(path, "-");
}

bool ctr_parquet_is(const char *path)
{
    struct ctr_err none = { 0 };
    struct stat st;
    char magic[4];
    const bool in = is_stdin(path);
    if ((in ? fstat(STDIN_FILENO, &st) : stat(path, &st)) || !S_ISREG(st.st_mode))
        return false;
    const int fd = in ? STDIN_FILENO : ctr_open_input(path, O_RDONLY, &none);
    const bool is = fd >= 0 && pread(fd, magic, sizeof magic, 0) == sizeof magic &&
                    (!memcmp(magic, "PAR1", 4) || !memcmp(magic, "PARE", 4));
    if (!in && fd >= 0)
        close(fd);
    return is;
}

static void close_file(struct ctr_parquet *p)
{
    for (int i = 0; p->column && i < p->schema.n; i++) {
        p->stats.bytes_read += p->column[i].bytes_read;
        p->column[i].bytes_read = 0;
    }
    ctr_pq_leaves_free(&p->leaves);
    ctr_pq_footer_free(&p->footer);
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static const char *file_name(const struct ctr_parquet *p)
{
    const char *path = p->paths.s[CTR_MAX(p->file - 1, 0)];
    return is_stdin(path) ? "stdin" : path;
}

static int open_fd(struct ctr_parquet *p, const char *path, struct ctr_err *err)
{
    struct stat st;
    p->fd = is_stdin(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : ctr_open_input(path, O_RDONLY, err);
    if (p->fd < 0)
        return err->code ? err->code : ctr_fail_sys(err, "cannot open it");
    if (fstat(p->fd, &st))
        return ctr_fail_sys(err, "fstat");
    if (!S_ISREG(st.st_mode))
        return ctr_fail(err, CTR_EDATA,
                        "is a pipe or a device, and Parquet is read from its end: write it to a file first, and give "
                        "ctr-import its name");
    return ctr_file_look(p->fd, path, &p->state, err);
}

/* The next file with its footer. */
static int open_file(struct ctr_parquet *p, struct ctr_err *err)
{
    const char *path = p->paths.s[p->file++];
    int rc = open_fd(p, path, err);
    p->size = p->state.size;
    if (!rc)
        rc = ctr_pq_footer_read(&p->footer, p->fd, p->size, err);
    if (!rc)
        rc = ctr_pq_leaves(&p->leaves, &p->footer, err);
    if (rc)
        return rc;
    p->group = 0;
    p->group_left = 0;
    p->stats.bytes += p->size;
    p->stats.bytes_read += 12 + (int64_t)p->footer.bytes.len;
    p->stats.total_rows += p->footer.rows;
    return 0;
}

static int find_leaf(const struct pq_leaves *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->leaf[i].name, name))
            return i;
    return -1;
}

int ctr_parquet_columns(const char *path, struct ctr_strs *names, struct ctr_err *err)
{
    struct ctr_parquet p = { .fd = -1 };
    int rc = ctr_strs_add(&p.paths, path, strlen(path), err);
    if (!rc)
        rc = open_file(&p, err);
    for (int i = 0; !rc && i < p.leaves.n; i++) {
        const struct pq_leaf *l = &p.leaves.leaf[i];
        if (!l->refusal && l->kind != PQ_K_DECIMAL)
            rc = ctr_strs_add(names, l->name, strlen(l->name), err);
    }
    if (rc)
        ctr_err_file(err, path);
    close_file(&p);
    ctr_strs_free(&p.paths);
    return rc;
}

/* Values of one type that differ in what they mean: numbers and times of day, texts and decimals. */
static const char *const meanings[] = { "plain value", "time of day", "decimal" };
static int meaning(enum pq_kind k)
{
    return k == PQ_K_US || k == PQ_K_NS || k == PQ_K_MS32 ? 1 : k == PQ_K_DECIMAL ? 2 : 0;
}

/* A file after the first: its columns in the place of those of the file before. */
static int match_file(struct ctr_parquet *p, struct ctr_err *err)
{
    for (int i = 0; i < p->schema.n; i++) {
        struct pq_column *c = &p->column[i];
        char there[64], here[64];
        const int k = find_leaf(&p->leaves, p->leaf_name[i]);
        if (k < 0)
            return ctr_fail(err, CTR_EDATA, "there is no column %s, which %s has: give %s that all files have",
                            p->leaf_name[i], p->paths.s[0], ctr_text_option(&p->o, "columns").s);
        const struct pq_leaf *l = &p->leaves.leaf[k];
        const struct ctr_field had = { .type = c->out.type, .item = c->out.item ? c->out.item->type : CTR_BOOL };
        if (l->refusal)
            return ctr_fail(err, CTR_EDATA, "column %s %s", l->name, l->refusal);
        if (l->native.type != had.type || (l->max_rep && l->native.item != had.item))
            return ctr_fail(err, CTR_EDATA, "column %s is %s here, and %s in %s: import the files one by one", l->name,
                            ctr_field_type_name(&l->native, here, sizeof here),
                            ctr_field_type_name(&had, there, sizeof there), p->paths.s[0]);
        if (meaning(l->kind) != c->meaning)
            return ctr_fail(err, CTR_EDATA, "column %s is a %s here, and a %s in %s: import the files one by one",
                            l->name, meanings[meaning(l->kind)], meanings[c->meaning], p->paths.s[0]);
        c->leaf = l;
        c->row = 0;
    }
    return 0;
}

/* ---- the schema ---- */

static int add_column(struct ctr_text_columns *l, const struct pq_leaf *leaf, struct ctr_err *err)
{
    return ctr_text_columns_add(l, leaf->name, strlen(leaf->name), err);
}

/* The columns that --columns names, else all of them. */
static int choose_columns(struct ctr_parquet *p, struct ctr_err *err)
{
    struct ctr_text_columns all = { 0 };
    int rc = p->o.columns ? ctr_text_columns_parse(&p->columns, &p->o, err) : 0;
    for (int i = 0; !rc && i < p->leaves.n; i++)
        rc = add_column(p->o.columns ? &all : &p->columns, &p->leaves.leaf[i], err);
    for (int i = 0; !rc && p->o.columns && i < p->columns.n; i++) {
        const struct ctr_text_column *c = &p->columns.c[i];
        const int k =
            ctr_text_columns_need(&all, ctr_text_option(&p->o, "columns").s, c->source ? c->source : c->name, err);
        rc = CTR_MIN(k, 0);
    }
    ctr_text_columns_free(&all);
    if (!rc && p->columns.n > MAX_COLUMNS)
        rc = ctr_fail(err, CTR_EDATA, "has %d columns, more than %d: --columns names those to read", p->columns.n,
                      MAX_COLUMNS);
    return rc;
}

/* The type of a column that no option types. */
static bool settle(void *ctx, const char *name, bool seen, struct ctr_field *type)
{
    struct ctr_parquet *p = ctx;
    const int i = ctr_text_columns_find(&p->columns, name, strlen(name));
    const char *source = p->columns.c[i].source;
    (void)seen;
    const struct pq_leaf *l = &p->leaves.leaf[find_leaf(&p->leaves, source ? source : name)];
    *type = (struct ctr_field){ .type = l->native.type, .item = l->native.item };
    return true;
}

static int make_schema(struct ctr_parquet *p, struct ctr_err *err)
{
    struct ctr_text_opts o = p->o;
    struct ctr_infer *infer = calloc((size_t)p->columns.n + 1, sizeof *infer);
    if (!infer)
        return ctr_fail_nomem(err, ((size_t)p->columns.n + 1) * sizeof *infer);
    for (int i = 0; i + 1 < p->columns.n; i++)
        for (int k = i + 1; k < p->columns.n; k++)
            if (!strcmp(p->columns.c[i].name, p->columns.c[k].name)) {
                free(infer);
                return ctr_fail(err, CTR_EUSAGE, "two columns are called '%s': %s renames one", p->columns.c[i].name,
                                ctr_text_setting(&p->o, "columns", "A,B=%s,…", p->columns.c[i].name).s);
            }
    o.settle = settle;
    o.ctx = p;
    o.note = NULL;
    int rc = ctr_text_schema(&p->columns, infer, &o, &p->schema, err);
    free(infer);
    return rc;
}

/* ---- metadata of ctr-export: "ctr.role click" of a column, "ctr.plan" of the schema ---- */

static bool known_meta(const char *key, bool of_column)
{
    static const char *const column[] = { CTR_META_ROLE,    CTR_META_TABLE,       CTR_META_HISTORY_OF,
                                          CTR_META_HISTORY, CTR_META_ORDER,       CTR_META_SIDE,
                                          CTR_META_TOWER,   CTR_META_TOWER_MODEL, CTR_META_TOWER_BIAS },
                             *const schema[] = { CTR_META_PG,       CTR_META_PLAN,          CTR_META_PLAN_ID,
                                                 CTR_META_KEY_SEED, CTR_META_PLAN_LANGUAGE, CTR_META_PLAN_INPUTS,
                                                 CTR_META_NETWORK };
    const char *const *const names = of_column ? column : schema;
    for (size_t i = 0; i < (of_column ? CTR_COUNT(column) : CTR_COUNT(schema)); i++)
        if (!strcmp(key, names[i]))
            return true;
    return false;
}

/* The column that has a name in the file, or -1. */
static int column_of(const struct ctr_parquet *p, const char *name)
{
    for (int i = 0; i < p->columns.n; i++) {
        const struct ctr_text_column *c = &p->columns.c[i];
        if (c->out >= 0 && !strcmp(c->source ? c->source : c->name, name))
            return c->out;
    }
    return -1;
}

/* A role that an option gives goes before that of the file: to this column, or to another one where only one may have
 * it. */
static bool has_role(const struct ctr_schema *s, const struct ctr_field *f, const char *role)
{
    if (ctr_field_role(f) >= 0)
        return true;
    for (int r = 0; r < CTR_ROLE_FEATURE; r++)
        if (!strcmp(role, ctr_roles[r]))
            return ctr_schema_role(s, (enum ctr_role)r) >= 0;
    return false;
}

static int take_meta(struct ctr_parquet *p, char *key, const char *value, struct ctr_err *err)
{
    char *space = strchr(key, ' ');
    if (space)
        *space = 0;
    const int k = space ? column_of(p, space + 1) : -1;
    if (!known_meta(key, space) || (space && k < 0))
        return 0;
    struct ctr_field *f = space ? &p->schema.f[k] : NULL;
    if (f && !strcmp(key, CTR_META_ROLE) && has_role(&p->schema, f, value))
        return 0;
    return ctr_meta_set(f ? &f->meta : &p->schema.meta, key, value, err);
}

static int take_metadata(struct ctr_parquet *p, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->footer.pairs; i++) {
        const struct pq_pair *pair = &p->footer.pair[i];
        char *key = NULL, *value = NULL;
        if (pair->key.n < 4 || memcmp(pair->key.p, "ctr.", 4) || memchr(pair->key.p, 0, pair->key.n) ||
            memchr(pair->value.p, 0, pair->value.n) || !ctr_utf8_valid((const uint8_t *)pair->value.p, pair->value.n))
            continue;
        rc = ctr_memdup(&key, pair->key.p, pair->key.n, err);
        if (!rc)
            rc = ctr_memdup(&value, pair->value.p, pair->value.n, err);
        if (!rc)
            rc = take_meta(p, key, value, err);
        free(key);
        free(value);
    }
    return rc;
}

static int refuse(const struct ctr_parquet *p, const struct pq_leaf *l, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "column %s %s: leave it out, %s names the columns to read", l->name, l->refusal,
                    ctr_text_option(&p->o, "columns").s);
}

/* Does every row group say that the column is dictionary-encoded, in groups of whole batches? */
static bool comes_as_dictionary(const struct ctr_parquet *p, const struct pq_leaf *l)
{
    if (l->native.type != CTR_UTF8 || !p->footer.groups || p->footer.rows / p->footer.groups < CTR_BATCH_ROWS)
        return false;
    for (int g = 0; g < p->footer.groups; g++)
        if (!p->footer.group[g].chunk[l->column].all_dict)
            return false;
    return true;
}

static bool same_type(const struct ctr_field *a, const struct ctr_field *b)
{
    return a->type == b->type && (a->type != CTR_LIST || a->item == b->item);
}

/* The reader of one column: as it is in the file, or converted. */
static int open_column(struct ctr_parquet *p, struct ctr_text_column *as, struct ctr_err *err)
{
    struct pq_column *c = &p->column[as->out];
    struct ctr_field *f = &p->schema.f[as->out];
    const char *name = as->source ? as->source : as->name;
    const struct pq_leaf *l = &p->leaves.leaf[find_leaf(&p->leaves, name)];
    p->leaf_name[as->out] = name;
    if (l->refusal)
        return refuse(p, l, err);
    if (l->kind == PQ_K_DECIMAL && !as->typed)
        return ctr_fail(err, CTR_EUSAGE,
                        "column %s is a decimal of %d digits, %d behind the point: name its type, %s "
                        "(which rounds), %s:utf8 or, without a fraction, %s:int64",
                        l->name, l->precision, l->scale, ctr_text_setting(&p->o, "columns", "%s:float64", l->name).s,
                        l->name, l->name);
    c->meaning = meaning(l->kind);
    const bool same = !as->typed || same_type(&as->type, &l->native);
    if (!same && l->max_rep)
        return ctr_fail(err, CTR_EUSAGE, "column %s is a list, whose items keep the type that they have in the file",
                        l->name);
    c->dict = f->dict = same && !p->o.like && comes_as_dictionary(p, l);
    p->dicts |= c->dict;
    int rc = ctr_pq_column_open(c, l, f->name, err);
    return rc || same ? rc : ctr_pq_column_as(c, as, &p->schema, err);
}

static int open_columns(struct ctr_parquet *p, struct ctr_err *err)
{
    const size_t n = (size_t)p->schema.n;
    int rc = 0;
    p->column = calloc(n, sizeof *p->column);
    p->view = calloc(n, sizeof *p->view);
    p->leaf_name = calloc(n, sizeof *p->leaf_name);
    if (!p->column || !p->view || !p->leaf_name)
        return ctr_fail_nomem(err, n * sizeof *p->column);
    for (int i = 0; !rc && i < p->columns.n; i++)
        if (p->columns.c[i].out >= 0)
            rc = open_column(p, &p->columns.c[i], err);
    p->stats.columns = p->schema.n;
    p->stats.of_columns = p->leaves.n;
    return rc;
}

static int open_parquet(struct ctr_parquet *p, char *const *paths, int n, struct ctr_err *err)
{
    int rc = n ? 0 : ctr_strs_add(&p->paths, "-", 1, err);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_strs_add(&p->paths, paths[i], strlen(paths[i]), err);
    if (!rc)
        rc = open_file(p, err);
    if (!rc)
        rc = choose_columns(p, err);
    if (!rc)
        rc = make_schema(p, err);
    if (!rc && !p->o.like)
        rc = take_metadata(p, err);
    if (!rc)
        rc = open_columns(p, err);
    if (rc)
        return rc;
    p->want = p->o.batch_rows > 0 ? p->o.batch_rows : ctr_schema_batch_rows(&p->schema);
    return p->o.jobs > 1 && p->schema.n > 1
               ? ctr_pool_new(&p->pool, CTR_MIN(p->o.jobs, p->schema.n), CTR_FLOAT_IEEE, err)
               : 0;
}

int ctr_parquet_open(struct ctr_parquet **out, const struct ctr_text_opts *o, char *const *paths, int n,
                     struct ctr_err *err)
{
    struct ctr_parquet *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->o = *o;
    p->fd = -1;
    int rc = open_parquet(p, paths, n, err);
    if (rc) {
        if (rc != CTR_EUSAGE && p->paths.n)
            ctr_err_file(err, file_name(p));
        ctr_parquet_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

const struct ctr_schema *ctr_parquet_schema(const struct ctr_parquet *p)
{
    return &p->schema;
}

const char *ctr_parquet_file(const struct ctr_parquet *p)
{
    return file_name(p);
}

/* ---- rows ---- */

static int end_group(struct ctr_parquet *p, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && p->in_group && i < p->schema.n; i++)
        rc = ctr_pq_column_finish(&p->column[i], err);
    p->in_group = false;
    return rc;
}

static int start_group(struct ctr_parquet *p, struct ctr_err *err)
{
    const struct pq_group *g = &p->footer.group[p->group++];
    int rc = 0;
    for (int i = 0; !rc && i < p->schema.n; i++)
        rc = ctr_pq_column_start(&p->column[i], p->fd, p->size, &g->chunk[p->column[i].leaf->column], err);
    p->group_left = g->rows;
    p->in_group = true;
    p->stats.groups++;
    return rc;
}

/* The next row group, of the next file perhaps: 1; 0: there is none. */
static int next_group(struct ctr_parquet *p, struct ctr_err *err)
{
    int rc = end_group(p, err);
    while (!rc && p->group == p->footer.groups) {
        if (p->fd >= 0)
            rc = ctr_file_unchanged(p->fd, &p->state, err);
        if (rc)
            return rc;
        if (p->file == p->paths.n)
            return 0;
        close_file(p);
        rc = open_file(p, err);
        if (!rc)
            rc = match_file(p, err);
    }
    if (!rc)
        rc = start_group(p, err);
    return rc ? rc : 1;
}

static void read_column(void *ctx, int64_t task, int worker)
{
    struct ctr_parquet *p = ctx;
    struct pq_column *c = &p->column[task];
    (void)worker;
    c->err = (struct ctr_err){ 0 };
    c->rc = ctr_pq_column_read(c, p->part, &c->err);
}

static void view_column(void *ctx, int64_t task, int worker)
{
    struct ctr_parquet *p = ctx;
    struct pq_column *c = &p->column[task];
    const struct ctr_col *view;
    (void)worker;
    c->err = (struct ctr_err){ 0 };
    c->rc = ctr_pq_column_view(c, &view, &c->err);
    if (!c->rc)
        p->view[task] = *view;
}

static int all_columns(struct ctr_parquet *p, void (*task)(void *ctx, int64_t task, int worker), struct ctr_err *err)
{
    ctr_pool_run(p->pool, p->schema.n, task, p);
    for (int i = 0; i < p->schema.n; i++)
        if (p->column[i].rc) {
            *err = p->column[i].err;
            return p->column[i].rc;
        }
    return 0;
}

/* Fill the batch: its rows, 0 at the end. */
static int64_t fill(struct ctr_parquet *p, struct ctr_err *err)
{
    int64_t rows = 0;
    while (rows < p->want) {
        if (!p->group_left) {
            const bool file_ends = p->group == p->footer.groups;
            if (rows && (p->dicts || file_ends))
                break;
            const int rc = next_group(p, err);
            if (rc <= 0)
                return rc;
            continue;
        }
        p->part = CTR_MIN(p->want - rows, p->group_left);
        const int rc = all_columns(p, read_column, err);
        if (rc)
            return rc;
        rows += p->part;
        p->group_left -= p->part;
    }
    return rows;
}

int ctr_parquet_next(struct ctr_parquet *p, const struct ctr_batch **b, struct ctr_err *err)
{
    for (int i = 0; i < p->schema.n; i++)
        ctr_pq_column_clear(&p->column[i]);
    const int64_t rows = fill(p, err);
    int rc = rows > 0 ? all_columns(p, view_column, err) : (int)rows;
    if (rc < 0)
        ctr_err_file(err, file_name(p));
    if (rc || !rows)
        return rc;
    p->batch = (struct ctr_batch){ .schema = &p->schema, .rows = rows, .first_row = p->stats.rows, .col = p->view };
    p->stats.rows += rows;
    *b = &p->batch;
    return 1;
}

/* ---- what there is to say ---- */

void ctr_parquet_get_stats(const struct ctr_parquet *p, struct ctr_parquet_stats *s)
{
    *s = p->stats;
    for (int i = 0; i < p->schema.n; i++)
        s->bytes_read += p->column[i].bytes_read;
}

void ctr_parquet_notes(const struct ctr_parquet *p, void (*note)(void *ctx, const char *text), void *ctx)
{
    char text[600];
    for (int i = 0; i < p->schema.n; i++) {
        const struct pq_column *c = &p->column[i];
        const struct ctr_text_losses *loss = c->converts ? &c->job.loss[i] : NULL;
        if (c->lost) {
            ctr_format(text, sizeof text, "column %s: %lld value%s had digits below a millisecond, which are cut off",
                       c->name, (long long)c->lost, CTR_S(c->lost));
            note(ctx, text);
        }
        if (loss && loss->n[CTR_LOSS_ROUNDED]) {
            ctr_format(text, sizeof text, "column %s: %lld integer%s rounded (the first: %s): %s keeps %s", c->name,
                       (long long)loss->n[CTR_LOSS_ROUNDED], loss->n[CTR_LOSS_ROUNDED] == 1 ? " was" : "s were",
                       loss->first[CTR_LOSS_ROUNDED].s,
                       ctr_text_setting(&p->o, "columns", "%s:utf8", p->leaf_name[i]).s,
                       loss->n[CTR_LOSS_ROUNDED] == 1 ? "it" : "them");
            note(ctx, text);
        }
        if (loss && loss->n[CTR_LOSS_PADDED]) {
            ctr_format(text, sizeof text,
                       "column %s: %lld value%s lost zeros or a plus in front with --like (the first: %s): in a utf8 "
                       "column they stay",
                       c->name, (long long)loss->n[CTR_LOSS_PADDED], CTR_S(loss->n[CTR_LOSS_PADDED]),
                       loss->first[CTR_LOSS_PADDED].s);
            note(ctx, text);
        }
    }
}

void ctr_parquet_free(struct ctr_parquet *p)
{
    if (!p)
        return;
    close_file(p);
    for (int i = 0; p->column && i < p->schema.n; i++)
        ctr_pq_column_free(&p->column[i]);
    free(p->column);
    free(p->view);
    free(p->leaf_name);
    ctr_pool_free(p->pool);
    ctr_text_columns_free(&p->columns);
    ctr_schema_free(&p->schema);
    ctr_strs_free(&p->paths);
    free(p);
}
