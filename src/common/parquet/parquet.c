/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet: files and row groups: which columns are wanted, as which types, and the spans of row groups that are read
 * (parquet_ahead.c). A batch ends with its span, which ends with its file; where a column comes as a dictionary column,
 * which the row group's dictionary belongs to, also with the row group. */
#include "common/parquet/parquet_ahead.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_COLUMNS = 10000, /* that are read; a file may have more */
    SPAN_BATCHES = 16    /* row groups that are smaller than so many batches are read as one, and share batches */
};

struct ctr_parquet {
    struct ctr_text_opts o;
    struct ctr_strs paths;
    struct ctr_schema schema;
    struct ctr_text_columns columns; /* as they were asked for */
    struct ctr_text_column **as;     /* of each column of the schema */
    struct pq_leaves all;            /* the columns of all files */
    /* the file that was opened last */
    int file, step; /* the next one to open, and how far the one after it is */
    int at;         /* the one that was opened last */
    struct pq_file *in;
    int group;   /* the next one */
    int held;    /* 1 + the one that is known to have rows that are wanted */
    int64_t row; /* of the file, at the start of the next row group */
    bool dicts;
    struct pq_column *column; /* one per column of the schema: what it is in this file */
    struct pq_ahead *ahead;   /* the row groups that are read */
    bool end;                 /* no file or row group is left, or one of them cannot be opened: */
    int rc;
    struct ctr_err err;
    struct ctr_batch batch;
    int64_t want; /* rows of a batch */
    struct ctr_parquet_stats stats;
    struct ctr_strs extra; /* columns that the first file lacks, and are not read */
    int extra_files;
    const char *extra_in;
    int *lack; /* one per column of the schema: files that lack it, and the first of them */
    int *lack_file;
};

/* Day 1 has the integers user and click, and row groups of 100 and 40 rows; day 2 has user and ad, and one of 70 rows.
 * With the schema "union":
 *
 *     open_all      opens both for their footers: all = user, click, ad; then day 1 again
 *     make_schema   user, click, ad; open_column: a reader for each, of this type in all files
 *     match_file    day 1: ad is PQ_FROM_NOWHERE, nulls; day 2, once it is opened: click is
 *     next_span     (day 1, groups 0 and 1: 140 rows), then (day 2, group 0: 70 rows), as threads have room for them
 *     ctr_parquet_next   takes the batches of the first span; with the last of a file leave_file closes it
 *
 * skip_groups leaves out a group whose statistics say that `where` holds for none of its rows, and ends the span. */

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

static void free_file(struct pq_file *f)
{
    if (!f)
        return;
    ctr_pq_leaves_free(&f->leaves);
    ctr_pq_footer_free(&f->footer);
    ctr_strs_free(&f->names);
    ctr_strs_free(&f->values);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}

static void close_file(struct ctr_parquet *p)
{
    free_file(p->in);
    p->in = NULL;
}

static const char *shown_name(const struct ctr_parquet *p, int number)
{
    const char *path = p->paths.s[number];
    return is_stdin(path) ? "stdin" : path;
}

/* Of the row group that is read, or the file that is opened. */
static const char *file_name(const struct ctr_parquet *p)
{
    const struct pq_file *f = p->ahead ? ctr_pq_ahead_file(p->ahead) : NULL;
    return shown_name(p, f ? f->number : p->at);
}

static int open_fd(struct pq_file *f, const char *path, struct ctr_err *err)
{
    struct stat st;
    f->fd = is_stdin(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : ctr_open_input(path, O_RDONLY, err);
    if (f->fd < 0)
        return err->code ? err->code : ctr_fail_sys(err, "cannot open it");
    if (fstat(f->fd, &st))
        return ctr_fail_sys(err, "fstat");
    if (!S_ISREG(st.st_mode))
        return ctr_fail(err, CTR_EDATA,
                        "is a pipe or a device, and Parquet is read from its end: write it to a file first, and give "
                        "ctr-import its name");
    return ctr_file_look(f->fd, path, &f->state, err);
}

/* The next file with its footer. */
static int open_file(struct ctr_parquet *p, struct ctr_err *err)
{
    const char *path = p->paths.s[p->file];
    struct pq_file *f = calloc(1, sizeof *f);
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    p->in = f;
    f->number = p->at = p->file;
    p->file += CTR_MAX(p->step, 1);
    int rc = open_fd(f, path, err);
    f->size = f->state.size;
    if (!rc)
        rc = ctr_pq_footer_read(&f->footer, f->fd, f->size, err);
    if (!rc)
        rc = ctr_pq_leaves(&f->leaves, &f->footer, err);
    if (!rc)
        rc = ctr_pq_durations(&f->footer, &f->leaves, err);
    if (!rc && p->o.partitions)
        rc = ctr_pq_partitions(path, &f->names, &f->values, err);
    if (rc)
        return rc;
    p->group = p->held = 0;
    p->row = 0;
    p->stats.bytes += f->size;
    p->stats.bytes_read += 12 + (int64_t)f->footer.bytes.len;
    p->stats.total_rows += f->footer.rows;
    return 0;
}

static const char *source_name(const struct ctr_text_column *c)
{
    return c->source ? c->source : c->name;
}

enum match { MATCH_UNION, MATCH_FIRST, MATCH_STRICT };
static enum match match_of(const struct ctr_parquet *p)
{
    const char *s = p->o.schema ? p->o.schema : "union";
    return !strcmp(s, "first") ? MATCH_FIRST : !strcmp(s, "strict") ? MATCH_STRICT : MATCH_UNION;
}

/* Of several files whose columns unite, all are opened, one after another, before the first is read. */
static int open_all(struct ctr_parquet *p, struct ctr_err *err)
{
    const bool all = p->paths.n > 1 && match_of(p) == MATCH_UNION;
    int rc = 0;
    do {
        close_file(p);
        rc = open_file(p, err);
        if (!rc)
            rc = ctr_pq_set_add(&p->all, &p->in->footer, &p->in->leaves, p->in->fd, p->paths.s, p->at, err);
    } while (!rc && all && p->file < p->paths.n);
    if (rc || !all)
        return rc;
    close_file(p);
    p->file = 0;
    p->stats = (struct ctr_parquet_stats){ 0 };
    return open_file(p, err);
}

/* The files and what columns they have. The first one stays open. */
static int open_set(struct ctr_parquet *p, char *const *paths, int n, struct ctr_err *err)
{
    int rc = n ? 0 : ctr_strs_add(&p->paths, "-", 1, err);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_parquet_files(&p->paths, paths[i], err);
    if (!rc)
        rc = open_all(p, err);
    if (!rc)
        rc = ctr_pq_shapes(&p->in->footer, &p->all, err);
    return rc || !p->o.partitions ? rc : ctr_pq_set_partitions(&p->all, &p->paths, err);
}

int ctr_parquet_columns(const struct ctr_text_opts *o, char *const *paths, int n, struct ctr_strs *names,
                        struct ctr_err *err)
{
    struct ctr_parquet p = { .o = *o };
    int rc = open_set(&p, paths, n, err);
    for (int i = 0; !rc && i < p.all.n; i++) {
        const struct pq_leaf *l = &p.all.leaf[i];
        if ((o->only && ctr_strs_find(o->only, l->name) >= 0) ||
            (!l->refusal && !l->conflict && !l->ambiguous && l->kind != PQ_K_DECIMAL))
            rc = ctr_strs_add(names, l->name, strlen(l->name), err);
    }
    if (rc && p.paths.n)
        ctr_err_file(err, file_name(&p));
    close_file(&p);
    ctr_pq_leaves_free(&p.all);
    ctr_strs_free(&p.paths);
    return rc;
}

static int two_of(const struct ctr_parquet *p, const char *name, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA,
                    "has two columns called %s, such as a column of that name and a member of a struct: neither can be "
                    "named; write the file with another name for one, or leave both out, %s names the columns to read",
                    name, ctr_text_option(&p->o, "columns").s);
}

/* A column of the schema that the file has not. */
static int match_none(struct ctr_parquet *p, int i, struct ctr_err *err)
{
    if (match_of(p) == MATCH_STRICT)
        return ctr_fail(err, CTR_EDATA, "there is no column %s, which %s has: give %s that all files have",
                        source_name(p->as[i]), p->paths.s[0], ctr_text_option(&p->o, "columns").s);
    if (!p->lack[i]++)
        p->lack_file[i] = p->at;
    return ctr_pq_column_file(&p->column[i], NULL, err);
}

/* A column of the schema that is leaf l here. */
static int match_leaf(struct ctr_parquet *p, int i, const struct pq_leaf *l, struct ctr_err *err)
{
    const struct ctr_text_column *as = p->as[i];
    const struct pq_leaf *all = &p->all.leaf[ctr_pq_leaf(&p->all, l->name, i)];
    char there[64], here[64];
    for (int k = l->column + 1; k < p->in->leaves.n; k++)
        if (!strcmp(p->in->leaves.leaf[k].name, l->name))
            return two_of(p, l->name, err);
    if (l->refusal)
        return ctr_fail(err, CTR_EDATA, "column %s %s", l->name, l->refusal);
    const bool list = l->native.type == CTR_LIST, lists = ctr_type_list(as->type.type);
    const bool same = ctr_pq_same_type(&l->native, &as->type) || (ctr_pq_no_values(l) && (!list || lists));
    if (!same && (list || lists || (!as->typed && !ctr_pq_widens(&l->native, &as->type))))
        return ctr_fail(err, CTR_EDATA, "column %s is %s here, and %s in %s: %s%s", l->name,
                        ctr_field_type_name(&l->native, here, sizeof here),
                        ctr_field_type_name(&all->native, there, sizeof there), p->paths.s[all->file],
                        list || lists ? "import the files one by one"
                                      : ctr_text_setting(&p->o, "columns", "%s:TYPE", l->name).s,
                        list || lists ? "" : " names one for all");
    if (!ctr_pq_no_values(l) && !ctr_pq_no_values(all) && ctr_pq_meaning(l) != ctr_pq_meaning(all))
        return ctr_fail(err, CTR_EDATA, "column %s is a %s here, and a %s in %s: import the files one by one", l->name,
                        ctr_pq_meaning_name(ctr_pq_meaning(l)), ctr_pq_meaning_name(ctr_pq_meaning(all)),
                        p->paths.s[all->file]);
    return ctr_pq_column_file(&p->column[i], l, err);
}

/* Weighted keys: two leaves, NAME.key and NAME.weight. */
static int match_pairs(struct ctr_parquet *p, int i, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    const struct pq_leaf *half[2] = { NULL };
    int rc = 0;
    for (int h = 0; !rc && h < 2; h++) {
        name.len = 0;
        rc = ctr_buf_printf(&name, err, "%s%s", source_name(p->as[i]), h ? ".weight" : ".key");
        if (!rc)
            rc = ctr_buf_append(&name, "", 1, err);
        const int k = rc ? -1 : ctr_pq_leaf(&p->in->leaves, (const char *)name.data, 0);
        half[h] = k < 0 ? NULL : &p->in->leaves.leaf[k];
    }
    ctr_buf_free(&name);
    if (!rc && !half[0] && !half[1]) {
        rc = match_none(p, i, err);
    } else if (!rc && (!half[0] || !half[1] || half[0]->native.item != CTR_U64 || half[0]->max_rep != 1 ||
                       half[1]->native.item != CTR_F32 || half[1]->max_rep != 1)) {
        rc = ctr_fail(err, CTR_EDATA,
                      "column %s is no list of weighted keys here, as it is in %s: import the files one by one",
                      source_name(p->as[i]), p->paths.s[0]);
    }
    if (!rc)
        rc = ctr_pq_column_file(&p->column[i], half[0], err);
    return rc ? rc : ctr_pq_column_file(p->column[i].weights, half[1], err);
}

/* Columns that the first file lacks and that are not read: said. */
static int see_extra(struct ctr_parquet *p, struct ctr_err *err)
{
    const int before = p->extra.n;
    int rc = 0, n = 0, guess = 0;
    for (int i = 0; !rc && i < p->in->leaves.n; i++) {
        const char *name = p->in->leaves.leaf[i].name;
        const int k = ctr_pq_leaf(&p->all, name, guess);
        guess = k < 0 ? guess : k + 1;
        n += k < 0;
        if (k < 0 && p->extra.n < 20 && ctr_strs_find(&p->extra, name) < 0)
            rc = ctr_strs_add(&p->extra, name, strlen(name), err);
    }
    if (!before && n)
        p->extra_in = p->paths.s[p->at];
    p->extra_files += n > 0;
    return rc;
}

/* A file after the first one has features of the same plan, as streams that are read as one have. */
static int check_identity(const struct ctr_parquet *p, struct ctr_err *err)
{
    struct ctr_schema here = { 0 };
    struct ctr_difference d;
    if (!p->at || p->o.like)
        return 0;
    int rc = ctr_schema_copy(&here, &p->schema, err);
    ctr_meta_free(&here.meta);
    here.meta = (struct ctr_meta){ 0 };
    if (!rc)
        rc = ctr_pq_metadata(&p->in->footer, &p->columns, &here, err);
    if (!rc && !ctr_streams_same(&p->schema, &here, &d))
        rc = ctr_fail(err, CTR_EDATA, "cannot be joined with %s: %s: %s", p->paths.s[0], d.what, d.remedy);
    ctr_schema_free(&here);
    return rc;
}

/* The columns of the schema in the current file. */
static int match_file(struct ctr_parquet *p, struct ctr_err *err)
{
    int rc = match_of(p) != MATCH_UNION && !p->o.columns && !p->o.only ? see_extra(p, err) : 0;
    for (int i = 0; !rc && i < p->schema.n; i++) {
        const char *name = source_name(p->as[i]);
        const int k = ctr_pq_leaf(&p->in->leaves, name, i);
        const int partition = k < 0 && p->o.partitions ? ctr_strs_find(&p->in->names, name) : -1;
        if (partition >= 0)
            rc = ctr_pq_column_constant(
                &p->column[i], ctr_pq_partition_null(p->in->values.s[partition]) ? NULL : p->in->values.s[partition],
                err);
        else if (p->column[i].weights)
            rc = match_pairs(p, i, err);
        else
            rc = k < 0 ? match_none(p, i, err) : match_leaf(p, i, &p->in->leaves.leaf[k], err);
    }
    p->stats.files++;
    return rc ? rc : check_identity(p, err);
}

/* ---- the schema ---- */

/* The columns that --columns names, else all of them. */
static int choose_columns(struct ctr_parquet *p, struct ctr_err *err)
{
    struct ctr_text_columns all = { 0 };
    int rc = p->o.columns ? ctr_text_columns_parse(&p->columns, &p->o, err) : 0;
    for (int i = 0; !rc && i < p->all.n; i++)
        rc = ctr_text_columns_add(p->o.columns ? &all : &p->columns, p->all.leaf[i].name, strlen(p->all.leaf[i].name),
                                  err);
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
    const struct pq_leaf *l = &p->all.leaf[ctr_pq_leaf(&p->all, source ? source : name, i)];
    *type =
        (struct ctr_field){ .type = l->fixed ? CTR_FIXED : l->native.type, .item = l->native.item, .width = l->fixed };
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

static int refuse(const struct ctr_parquet *p, const struct pq_leaf *l, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "column %s %s: leave it out, %s names the columns to read", l->name, l->refusal,
                    ctr_text_option(&p->o, "columns").s);
}

/* The reader of one column, the k-th that was asked for: as it is in the files, or converted. */
static int open_column(struct ctr_parquet *p, struct ctr_text_column *as, int k, struct ctr_err *err)
{
    struct ctr_field *f = &p->schema.f[as->out];
    const struct pq_leaf *l = &p->all.leaf[ctr_pq_leaf(&p->all, source_name(as), k)];
    p->as[as->out] = as;
    if (l->ambiguous)
        return two_of(p, l->name, err);
    if (l->refusal)
        return refuse(p, l, err);
    const bool alone = l->apart || l->max_rep;
    if (l->conflict && (!as->typed || alone))
        return ctr_fail(err, CTR_EDATA, "column %s %s: %s%s", l->name, l->conflict,
                        alone ? "import the files one by one"
                              : ctr_text_setting(&p->o, "columns", "%s:TYPE", l->name).s,
                        alone ? "" : " names one for all");
    if (l->kind == PQ_K_DECIMAL && !as->typed)
        return ctr_fail(err, CTR_EUSAGE,
                        "column %s is a decimal of %d digits, %d behind the point: name its type, %s "
                        "(which rounds), %s:utf8 or, without a fraction, %s:int64",
                        l->name, l->precision, l->scale, ctr_text_setting(&p->o, "columns", "%s:float64", l->name).s,
                        l->name, l->name);
    const bool same = !as->typed || ctr_pq_same_type(&l->native, &as->type);
    if (!same && l->max_rep)
        return ctr_fail(err, CTR_EUSAGE, "column %s is a list, whose items keep the type that they have in the file",
                        l->name);
    f->dict =
        same && !p->o.like && (p->paths.n == 1 || !as->typed) && (l->dict > 0 || (l->partition && f->type == CTR_UTF8));
    f->none = !as->typed && ctr_pq_no_values(l);
    p->dicts |= f->dict && !l->partition;
    return ctr_pq_column_open(&p->column[as->out], &p->schema, as->out, as, err);
}

static int open_columns(struct ctr_parquet *p, struct ctr_err *err)
{
    const size_t n = (size_t)p->schema.n;
    int rc = 0;
    p->column = calloc(n, sizeof *p->column);
    p->as = calloc(n, sizeof *p->as);
    p->lack = calloc(2 * n, sizeof *p->lack);
    p->lack_file = p->lack + n;
    if (!p->column || !p->as || !p->lack)
        return ctr_fail_nomem(err, n * sizeof *p->column);
    for (int i = 0; !rc && i < p->columns.n; i++)
        if (p->columns.c[i].out >= 0)
            rc = open_column(p, &p->columns.c[i], i, err);
    p->stats.columns = p->schema.n;
    p->stats.of_columns = p->all.n;
    return rc;
}

/* Roles of columns that the first file lacks: those that they have where they come first. */
static int take_roles(struct ctr_parquet *p, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->schema.n; i++) {
        const int k = ctr_pq_leaf(&p->all, source_name(p->as[i]), i);
        const int role = k < 0 ? 0 : p->all.leaf[k].role - 1;
        if (role >= 0 && ctr_field_role(&p->schema.f[i]) < 0 && ctr_schema_role(&p->schema, (enum ctr_role)role) < 0)
            rc = ctr_field_set_role(&p->schema.f[i], (enum ctr_role)role, err);
    }
    return rc;
}

/* The columns are those of all files; the rows are those of a part of them. */
static int take_part(struct ctr_parquet *p, struct ctr_err *err)
{
    if (p->o.parts < 2)
        return 0;
    close_file(p);
    p->file = p->o.part;
    p->step = p->o.parts;
    p->stats.bytes = p->stats.bytes_read = p->stats.total_rows = 0;
    return open_file(p, err);
}

static int open_parquet(struct ctr_parquet *p, char *const *paths, int n, struct ctr_err *err)
{
    int rc = open_set(p, paths, n, err);
    if (!rc)
        rc = choose_columns(p, err);
    if (!rc)
        rc = make_schema(p, err);
    if (!rc && !p->o.like)
        rc = ctr_pq_metadata(&p->in->footer, &p->columns, &p->schema, err);
    if (!rc)
        rc = open_columns(p, err);
    if (!rc && !p->o.like)
        rc = take_roles(p, err);
    if (!rc)
        rc = take_part(p, err);
    if (!rc)
        rc = match_file(p, err);
    if (rc)
        return rc;
    p->want = p->o.batch_rows > 0 ? p->o.batch_rows : ctr_schema_batch_rows(&p->schema);
    return ctr_pq_ahead_new(&p->ahead, &p->schema, p->as, p->o.jobs, p->want, err);
}

int ctr_parquet_open(struct ctr_parquet **out, const struct ctr_text_opts *o, char *const *paths, int n,
                     struct ctr_err *err)
{
    struct ctr_parquet *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->o = *o;
    int rc = o->schema && strcmp(o->schema, "union") && strcmp(o->schema, "first") && strcmp(o->schema, "strict")
                 ? ctr_fail(err, CTR_EUSAGE, "schema \"%s\" is none of union, first and strict", o->schema)
                 : open_parquet(p, paths, n, err);
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

/* ---- rows ---- */

/* Leave out the row groups that have no row that is wanted. */
static void skip_groups(struct ctr_parquet *p)
{
    struct pq_file *f = p->in;
    for (; p->group < f->footer.groups && p->held != p->group + 1; p->group++) {
        const struct pq_group *g = &f->footer.group[p->group];
        if (ctr_pq_may_hold(p->o.where, p->column, &p->schema, &f->footer, g, f->fd, f->size, &p->stats.bytes_read)) {
            p->held = p->group + 1;
            return;
        }
        p->row += g->rows;
        p->stats.groups_out++;
        p->stats.rows_out += g->rows;
    }
}

/* A file of which every row group was given: closed, once all are read. */
static int leave_file(struct ctr_parquet *p, struct pq_file *f, struct ctr_err *err)
{
    if (f->spans || !f->all)
        return 0;
    const int rc = ctr_file_unchanged(f->fd, &f->state, err);
    if (rc)
        ctr_err_file(err, shown_name(p, f->number));
    free_file(f);
    return rc;
}

/* The next file: 1; 0: there is none. */
static int next_file(struct ctr_parquet *p, struct ctr_err *err)
{
    struct pq_file *f = p->in;
    p->in = NULL;
    f->all = true;
    int rc = leave_file(p, f, err);
    if (rc || p->file >= p->paths.n)
        return rc;
    rc = open_file(p, err);
    if (!rc)
        rc = match_file(p, err);
    if (rc)
        ctr_err_file(err, shown_name(p, p->at));
    return rc ? rc : 1;
}

/* The next row groups: 1; 0: there are none. Where a column comes as a dictionary column, only one has rows: the
 * dictionary is that of a row group. */
static int next_span(struct ctr_parquet *p, struct pq_span *s, struct ctr_err *err)
{
    int rc = 1;
    for (; p->in; rc = next_file(p, err)) {
        if (rc <= 0)
            return rc;
        skip_groups(p);
        if (p->group < p->in->footer.groups)
            break;
    }
    if (!p->in)
        return rc;
    *s = (struct pq_span){ .file = p->in, .group = p->group, .row = p->row };
    do {
        const int64_t rows = p->in->footer.group[p->group++].rows;
        s->groups++;
        s->rows += rows;
        p->row += rows;
        p->stats.groups++;
        skip_groups(p);
    } while (p->group == s->group + s->groups && p->group < p->in->footer.groups &&
             (!s->rows || (!p->dicts && s->rows < SPAN_BATCHES * p->want)));
    return 1;
}

/* Give the threads as much as they take. What is wrong with a file is said once the rows before it are read. */
static int give_spans(struct ctr_parquet *p, struct ctr_err *err)
{
    struct pq_span span;
    int rc = 0;
    while (!rc && !p->end && ctr_pq_ahead_room(p->ahead)) {
        p->rc = next_span(p, &span, &p->err);
        p->end = p->rc <= 0;
        if (!p->end)
            rc = ctr_pq_ahead_give(p->ahead, &span, p->column, err);
    }
    return rc;
}

int ctr_parquet_next(struct ctr_parquet *p, const struct ctr_batch **b, struct ctr_err *err)
{
    for (;;) {
        int rc = give_spans(p, err);
        if (rc)
            return rc;
        if (!ctr_pq_ahead_spans(p->ahead)) {
            if (p->rc < 0)
                *err = p->err;
            return p->rc;
        }
        rc = ctr_pq_ahead_next(p->ahead, &p->batch, err);
        if (rc < 0)
            ctr_err_file(err, file_name(p));
        else if (!rc)
            rc = leave_file(p, ctr_pq_ahead_done(p->ahead, p->column), err);
        if (rc < 0)
            return rc;
        if (!rc || !p->batch.rows)
            continue;
        p->batch.first_row = p->stats.rows;
        p->stats.rows += p->batch.rows;
        *b = &p->batch;
        return 1;
    }
}
/* ---- as a source ---- */

static const struct ctr_schema *source_schema(const void *source)
{
    return ctr_parquet_schema(source);
}

static int source_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_parquet_next(source, b, err);
}

static const char *source_file(const void *source)
{
    return file_name(source);
}

static void source_close(void *source)
{
    (void)source; /* its owner reports on it and frees it */
}

struct ctr_batch_source ctr_parquet_source(struct ctr_parquet *p)
{
    static const struct ctr_batch_source_ops ops = { source_schema, source_next, source_file, source_close, NULL };
    return (struct ctr_batch_source){ &ops, p };
}

/* ---- what there is to say ---- */

void ctr_parquet_get_stats(const struct ctr_parquet *p, struct ctr_parquet_stats *s)
{
    *s = p->stats;
    s->bytes_read += ctr_pq_ahead_bytes(p->ahead);
}

/* What files differ in, by name. */
static void note_files(const struct ctr_parquet *p, void (*note)(void *ctx, const char *text), void *ctx)
{
    char text[900];
    size_t n = 0;
    for (int i = 0; i < p->schema.n; i++)
        if (p->lack[i]) {
            ctr_format(text, sizeof text, "column %s: %d of %d files lack it, and are null there (the first: %s)",
                       source_name(p->as[i]), p->lack[i], p->stats.files, p->paths.s[p->lack_file[i]]);
            note(ctx, text);
        }
    if (!p->extra.n)
        return;
    n = ctr_format(text, sizeof text,
                   "%d file%s columns that %s lacks, which are left out (the first: %s): ", p->extra_files,
                   p->extra_files == 1 ? " has" : "s have", p->paths.s[0], p->extra_in);
    for (int i = 0; i < p->extra.n && n < sizeof text; i++)
        n += ctr_format(text + n, sizeof text - n, "%s%s", i ? ", " : "", p->extra.s[i]);
    note(ctx, text);
}

void ctr_parquet_notes(const struct ctr_parquet *p, void (*note)(void *ctx, const char *text), void *ctx)
{
    char text[900];
    note_files(p, note, ctx);
    for (int i = 0; i < p->schema.n; i++) {
        const struct pq_column *c = &p->column[i];
        const int k = ctr_pq_leaf(&p->all, source_name(p->as[i]), i);
        const struct ctr_text_losses *loss = c->job.loss ? &c->job.loss[i] : NULL;
        if (k >= 0 && p->all.leaf[k].padded && !p->as[i]->typed) {
            ctr_format(text, sizeof text,
                       "column %s: folders write its integers with and without zeros in front, which are one: %s keeps "
                       "them apart",
                       c->name, ctr_text_setting(&p->o, "columns", "%s:utf8", source_name(p->as[i])).s);
            note(ctx, text);
        }
        const int64_t lost = c->lost + (loss ? loss->n[CTR_LOSS_FINER] : 0);
        if (lost) {
            ctr_format(text, sizeof text, "column %s: %lld value%s had digits below a millisecond, which are cut off",
                       c->name, (long long)lost, CTR_S(lost));
            note(ctx, text);
        }
        if (loss && loss->n[CTR_LOSS_ROUNDED]) {
            ctr_format(text, sizeof text, "column %s: %lld integer%s rounded (the first: %s): %s keeps %s", c->name,
                       (long long)loss->n[CTR_LOSS_ROUNDED], loss->n[CTR_LOSS_ROUNDED] == 1 ? " was" : "s were",
                       loss->first[CTR_LOSS_ROUNDED].s,
                       ctr_text_setting(&p->o, "columns", "%s:utf8", source_name(p->as[i])).s,
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
    if (p->ahead)
        ctr_pq_ahead_stop(p->ahead);
    while (p->ahead && ctr_pq_ahead_spans(p->ahead)) {
        struct pq_file *f = ctr_pq_ahead_done(p->ahead, p->column);
        if (f != p->in && !f->spans)
            free_file(f);
    }
    ctr_pq_ahead_free(p->ahead);
    close_file(p);
    for (int i = 0; p->column && i < p->schema.n; i++)
        ctr_pq_column_free(&p->column[i]);
    free(p->column);
    free(p->as);
    free(p->lack);
    ctr_text_columns_free(&p->columns);
    ctr_pq_leaves_free(&p->all);
    ctr_strs_free(&p->extra);
    ctr_schema_free(&p->schema);
    ctr_strs_free(&p->paths);
    free(p);
}
