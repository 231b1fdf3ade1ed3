/* SPDX-License-Identifier: Apache-2.0
 *
 * Deltas of a checkpoint: see model.h. All files have the same sections in the same order, those of an older one
 * perhaps fewer. A section with a column `key` is merged: its rows stand in ascending order of table and key in each
 * file, and of a key that several files have the newest counts. The other sections are those of the newest file. */
#include "common/model/model.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ctr_model_state(const struct ctr_meta *meta, char out[CTR_STATE_TEXT])
{
    uint64_t h[2] = { 0, 1 };
    for (int i = 0; i < meta->n; i++) {
        const char *const *kv = (const char *const *)&meta->kv[2 * (size_t)i];
        if (!strcmp(kv[0], CTR_META_DELTA) || !strcmp(kv[0], CTR_META_REPLACES) || !strcmp(kv[0], CTR_META_SECTIONS))
            continue;
        for (int k = 0; k < 2; k++)
            h[k] = ctr_hash64(kv[1], strlen(kv[1]), ctr_hash64(kv[0], strlen(kv[0]), h[k]));
    }
    snprintf(out, CTR_STATE_TEXT, "%016" PRIx64 "%016" PRIx64, h[0], h[1]);
}

/* For example, section "weights" of a checkpoint and its two deltas, each sorted by table and key:
 *
 *     FILE            FILE.delta.1     FILE.delta.2      merged
 *     site  A  .1     site  B  .5      site  C  gone     site  A  .1
 *     site  B  .2     site  C  .6                        site  B  .5
 *     site  C  .3     tag   X  .7                        tag   X  .7
 *
 * All files advance together: the least (table, key) of their rows is next, the newest file that has it gives the row,
 * and the others' rows of it are passed over. A row that is gone (deltas have a column for it) is written nowhere. */

/* ---- files ---- */

/* A file, and where it stands in a section that is merged. */
struct file {
    char *path;
    struct ctr_reader *r;
    bool more;            /* there is a section that was not merged yet */
    bool in;              /* it takes part in this one: */
    int *column;          /* by column of the result */
    int table, key, gone; /* columns; -1: none */
    const struct ctr_batch *b;
    int64_t at; /* row of b */
    bool any;   /* a row came; the last one: */
    struct ctr_buf last_table;
    uint64_t last_key;
};

struct merge {
    struct file *file; /* the oldest first */
    int n;
    struct ctr_schema schema; /* of the section that is written */
    int dict;                 /* its column of names of tables; -1: none */
    /* The names that the result has, in their order, and as a dictionary. */
    struct ctr_strs names;
    struct ctr_colbuf values;
    struct ctr_col dictionary;
    struct ctr_buf index; /* i32, of rows */
    struct ctr_batchbuf rows;
    struct ctr_writer *w; /* NULL: names are counted */
};

static int damaged(const struct file *f, const char *what, struct ctr_err *err)
{
    (void)ctr_fail(err, CTR_EDATA, "%s: it was changed since ctr-train wrote it", what);
    ctr_err_file(err, f->path);
    return err->code;
}

static int open_file(struct file *f, const char *path, struct ctr_err *err)
{
    const struct ctr_reader_opts o = { .sections = true };
    char *paths[] = { (char *)(uintptr_t)path };
    f->path = paths[0];
    f->more = true;
    return ctr_reader_open(&f->r, paths, 1, &o, err);
}

static void close_file(struct file *f)
{
    ctr_reader_free(f->r);
    ctr_buf_free(&f->last_table);
    free(f->column);
    f->r = NULL;
    f->column = NULL;
}

static const char *section_of(const struct file *f)
{
    const char *name = ctr_meta_get(&ctr_reader_schema(f->r)->meta, CTR_META_SECTION);
    return name ? name : "";
}

/* The first file is whole, each other one follows the one before. */
static int check_chain(const struct merge *m, struct ctr_err *err)
{
    char state[CTR_STATE_TEXT] = "";
    for (int i = 0; i < m->n; i++) {
        const struct file *f = &m->file[i];
        const struct ctr_meta *meta = &ctr_reader_schema(f->r)->meta;
        const char *delta = ctr_meta_get(meta, CTR_META_DELTA);
        int rc =
            !ctr_meta_get(meta, CTR_META_MODEL) ? ctr_fail(err, CTR_EDATA, "not a model: ctr-train writes models")
            : !i && delta ? ctr_fail(err, CTR_EUSAGE, "a delta: the checkpoint that it follows comes first")
            : i && !delta ? ctr_fail(err, CTR_EUSAGE, "no delta: --checkpoint-deltas of ctr-train writes them")
            : i && strcmp(delta, state) != 0
                ? ctr_fail(err, CTR_EUSAGE, "does not follow %s: give the deltas of one checkpoint, in their order",
                           m->file[i - 1].path)
                : 0;
        if (rc) {
            ctr_err_file(err, f->path);
            return rc;
        }
        ctr_model_state(meta, state);
    }
    return 0;
}

/* ---- a place in a file ---- */

static struct ctr_str table_at(const struct file *f, int64_t i)
{
    return f->table < 0 ? (struct ctr_str){ "", 0 } : ctr_col_str(&f->b->col[f->table], i);
}

static uint64_t key_at(const struct file *f, int64_t i)
{
    return ((const uint64_t *)f->b->col[f->key].data)[i];
}

static int compare_text(struct ctr_str a, struct ctr_str b)
{
    const int c = memcmp(a.p, b.p, CTR_MIN(a.n, b.n));
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static bool same_table(const struct file *f, int64_t i, int64_t j)
{
    if (f->table < 0)
        return true;
    const struct ctr_col *c = &f->b->col[f->table];
    return c->dict ? ((const int32_t *)c->data)[i] == ((const int32_t *)c->data)[j]
                   : !compare_text(ctr_col_str(c, i), ctr_col_str(c, j));
}

static int compare_rows(const struct file *a, const struct file *b)
{
    const int c = a->table < 0 ? 0 : compare_text(table_at(a, a->at), table_at(b, b->at));
    const uint64_t x = key_at(a, a->at), y = key_at(b, b->at);
    return c ? c : (x > y) - (x < y);
}

/* A batch came: its rows follow those before. */
static int check_order(struct file *f, struct ctr_err *err)
{
    const struct ctr_batch *b = f->b;
    for (int c = 0; c < b->schema->n; c++)
        if (b->col[c].nulls || (b->col[c].dict && b->col[c].dict->nulls))
            return damaged(f, "a section has nulls", err);
    for (int64_t i = 0; i < b->rows; i++) {
        const bool same = i ? same_table(f, i, i - 1)
                            : f->any && f->last_table.len == table_at(f, 0).n &&
                                  !memcmp(f->last_table.data, table_at(f, 0).p, f->last_table.len);
        const bool later = same || !f->any
                               ? !f->any || key_at(f, i) > f->last_key
                               : compare_text(table_at(f, i), i ? table_at(f, i - 1)
                                                                : (struct ctr_str){ (const char *)f->last_table.data,
                                                                                    f->last_table.len }) > 0;
        if (!later)
            return damaged(f, "its keys are not in order, as ctr-train writes them", err);
        f->any = true;
        f->last_key = key_at(f, i);
    }
    ctr_buf_clear(&f->last_table);
    const struct ctr_str last = b->rows ? table_at(f, b->rows - 1) : (struct ctr_str){ "", 0 };
    return ctr_buf_append(&f->last_table, last.p, last.n, err);
}

/* The next batch with rows; the file takes no part any more at the end of its section. */
static int next_batch(struct file *f, struct ctr_err *err)
{
    int rc;
    while ((rc = ctr_reader_next(f->r, &f->b, err)) > 0) {
        f->at = 0;
        if ((rc = check_order(f, err)))
            return rc;
        if (f->b->rows)
            return 0;
    }
    f->in = false;
    f->b = NULL;
    return rc;
}

static int pass(struct file *f, int64_t to, struct ctr_err *err)
{
    f->at = to;
    return to < f->b->rows ? 0 : next_batch(f, err);
}

/* ---- rows out ---- */

/* Rows are counted: the table has some. They come in the order of tables. */
static int count_name(struct merge *m, const struct file *f, int64_t i, struct ctr_err *err)
{
    const struct ctr_str s = table_at(f, i);
    const char *last = m->names.n ? m->names.s[m->names.n - 1] : NULL;
    if (memchr(s.p, 0, s.n))
        return damaged(f, "a name of a table holds a zero byte", err);
    if (last && strlen(last) == s.n && !memcmp(last, s.p, s.n))
        return 0;
    return ctr_strs_add(&m->names, s.p, s.n, err);
}

static int write_rows(struct merge *m, struct ctr_err *err)
{
    int rc = ctr_batchbuf_rows(&m->rows) ? ctr_writer_batch(m->w, ctr_batchbuf_view(&m->rows), err) : 0;
    ctr_batchbuf_clear(&m->rows);
    return rc;
}

/* The column of names, by the dictionary of the result. */
static int add_names(struct merge *m, struct ctr_colbuf *to, const struct file *f, int64_t from, int64_t n,
                     struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&m->index);
    int32_t *index = ctr_buf_extend(&m->index, n, sizeof *index, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        const struct ctr_str s = table_at(f, from + i);
        index[i] = i && same_table(f, from + i, from + i - 1) ? index[i - 1] : ctr_strs_find_n(&m->names, s.p, s.n);
    }
    const struct ctr_col c = { .type = CTR_UTF8, .rows = n, .data = index, .dict = &m->dictionary };
    return rc ? rc : ctr_colbuf_range(to, &c, 0, n, err);
}

/* Rows [from, from + n) of a file's batch. */
static int take_rows(struct merge *m, const struct file *f, int64_t from, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    if (!m->w) {
        for (int64_t i = from; i < from + n && !rc; i++)
            if (i == from || !same_table(f, i, i - 1))
                rc = count_name(m, f, i, err);
        return rc;
    }
    for (int c = 0; c < m->schema.n && !rc; c++)
        rc = c == m->dict ? add_names(m, &m->rows.col[c], f, from, n, err)
                          : ctr_colbuf_range(&m->rows.col[c], &f->b->col[f->column[c]], from, n, err);
    return rc || ctr_batchbuf_rows(&m->rows) < CTR_BATCH_ROWS ? rc : write_rows(m, err);
}

/* ---- a section ---- */

/* Behind row `at` of f, how many rows come before the next row of `limit` (NULL: there is none)? At least one. */
static int64_t run_of(const struct file *f, const struct file *limit)
{
    int64_t end = f->at + 1;
    if (!limit)
        return f->b->rows - f->at;
    const int c = f->table < 0 ? 0 : compare_text(table_at(f, f->at), table_at(limit, limit->at));
    const uint64_t key = key_at(limit, limit->at);
    while (end < f->b->rows && same_table(f, end, f->at) && (c < 0 || key_at(f, end) < key))
        end++;
    return end - f->at;
}

static bool is_gone(const struct file *f)
{
    return f->gone >= 0 && ctr_bit(f->b->col[f->gone].data, f->at);
}

/* The first rows of all files: those of the oldest file run up to the next key of another one. */
static int merge_next(struct merge *m, struct ctr_err *err)
{
    struct file *first = NULL, *second = NULL;
    int rc = 0;
    for (int i = m->n - 1; i >= 0; i--) { /* of equal keys the newest is first */
        struct file *f = &m->file[i];
        const int c = !f->in ? 1 : first ? compare_rows(f, first) : -1;
        if (c < 0) {
            second = first;
            first = f;
        } else if (f->in && (!second || compare_rows(f, second) < 0)) {
            second = f;
        }
    }
    if (!first)
        return 0;
    const bool twice = second && !compare_rows(first, second);
    for (struct file *f = m->file; twice && f < first && !rc; f++) /* older ones of the same key */
        if (f->in && !compare_rows(f, first))
            rc = pass(f, f->at + 1, err);
    const int64_t n = twice || first->gone >= 0 ? 1 : run_of(first, second), from = first->at;
    if (!rc && !is_gone(first))
        rc = take_rows(m, first, from, n, err);
    if (!rc)
        rc = pass(first, from + n, err);
    return rc ? rc : 1;
}

/* Find the columns of the result in a file. */
static int bind_file(const struct merge *m, struct file *f, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(f->r);
    int *column = realloc(f->column, ((size_t)m->schema.n + 1) * sizeof *column);
    if (!column)
        return ctr_fail_nomem(err, ((size_t)m->schema.n + 1) * sizeof *column);
    f->column = column;
    for (int c = 0; c < m->schema.n; c++) {
        const struct ctr_field *want = &m->schema.f[c];
        column[c] = ctr_schema_find(s, want->name);
        const struct ctr_field *have = column[c] < 0 ? NULL : &s->f[column[c]];
        if (!have || have->type != want->type || have->item != want->item || have->width != want->width ||
            (have->dict && c != m->dict))
            return damaged(f, "a section has other columns than the delta", err);
    }
    f->table = m->dict < 0 ? -1 : column[m->dict];
    f->key = ctr_schema_find(s, "key");
    f->gone = ctr_schema_find(s, CTR_COLUMN_DROPPED);
    if (f->gone >= 0 && (s->f[f->gone].type != CTR_BOOL || s->f[f->gone].dict))
        return damaged(f, "a section has other columns than the delta", err);
    f->in = true;
    f->any = false;
    ctr_buf_clear(&f->last_table);
    return next_batch(f, err);
}

static bool is_keyed(const struct ctr_schema *s)
{
    const int key = ctr_schema_find(s, "key");
    return key >= 0 && s->f[key].type == CTR_U64 && !s->f[key].dict;
}

/* The schema of the newest file's section, as that of a whole one. */
static int make_schema(struct merge *m, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(m->file[m->n - 1].r);
    ctr_schema_free(&m->schema);
    m->dict = -1;
    int rc = ctr_meta_copy(&m->schema.meta, &s->meta, err);
    if (!rc)
        rc = ctr_meta_set(&m->schema.meta, CTR_META_DELTA, NULL, err);
    for (int i = 0; i < s->n && !rc; i++)
        if (strcmp(s->f[i].name, CTR_COLUMN_DROPPED) != 0)
            rc = ctr_schema_add_field(&m->schema, &s->f[i], NULL, err);
    const int table = ctr_schema_find(&m->schema, "table");
    if (table >= 0 && m->schema.f[table].type == CTR_UTF8 && m->schema.f[table].dict)
        m->dict = table;
    return rc;
}

static int make_dictionary(struct merge *m, struct ctr_err *err)
{
    const struct ctr_field text = { .type = CTR_UTF8 };
    ctr_colbuf_free(&m->values);
    int rc = ctr_colbuf_init(&m->values, &text, err);
    for (int i = 0; i < m->names.n && !rc; i++)
        rc = ctr_colbuf_str(&m->values, m->names.s[i], strlen(m->names.s[i]), err);
    if (!rc)
        m->dictionary = *ctr_colbuf_view(&m->values);
    return rc;
}

/* The rows of the files that stand in the section of that name. */
static int merge_rows(struct merge *m, const char *section, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < m->n && !rc; i++) {
        struct file *f = &m->file[i];
        f->in = false;
        if (f->more && !strcmp(section_of(f), section))
            rc = bind_file(m, f, err);
    }
    while (!rc && (rc = merge_next(m, err)) > 0)
        rc = 0;
    return rc;
}

static int copy_rows(struct merge *m, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;
    while ((rc = ctr_reader_next(m->file[m->n - 1].r, &b, err)) > 0 && !(rc = ctr_writer_batch(m->w, b, err)))
        ;
    return rc;
}

/* The names of tables that the result has: of the first section, which is read once more for it. */
static int find_names(struct merge *m, struct ctr_err *err)
{
    struct merge names = { .file = calloc((size_t)m->n, sizeof *names.file), .n = m->n, .dict = -1 };
    int rc = names.file ? 0 : ctr_fail_nomem(err, (size_t)m->n * sizeof *names.file);
    for (int i = 0; i < m->n && !rc; i++) {
        static const char *const want[] = { "table", "key", CTR_COLUMN_DROPPED };
        int column[CTR_COUNT(want)], n = 0;
        rc = open_file(&names.file[i], m->file[i].path, err);
        for (size_t c = 0; c < CTR_COUNT(want) && !rc; c++)
            if ((column[n] = ctr_schema_find(ctr_reader_schema(names.file[i].r), want[c])) >= 0)
                n++;
        if (!rc)
            rc = ctr_reader_project(names.file[i].r, column, n, err);
    }
    if (!rc)
        rc = make_schema(&names, err);
    if (!rc)
        rc = merge_rows(&names, section_of(&names.file[0]), err);
    for (int i = 0; names.file && i < m->n; i++)
        close_file(&names.file[i]);
    free(names.file);
    ctr_schema_free(&names.schema);
    m->names = names.names;
    return rc ? rc : make_dictionary(m, err);
}

/* To the next section, of the files that stood in this one. */
static int leave_section(struct merge *m, const char *section, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < m->n && rc >= 0; i++) {
        struct file *f = &m->file[i];
        if (!f->more || strcmp(section_of(f), section) != 0)
            continue;
        rc = ctr_reader_section(f->r, err);
        f->more = rc > 0;
    }
    return CTR_MIN(rc, 0);
}

static int merge_section(struct merge *m, bool first, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf section = { 0 };
    int rc = ctr_buf_printf(&section, err, "%s", section_of(&m->file[m->n - 1]));
    if (!rc)
        rc = make_schema(m, err);
    const bool keyed = !rc && m->n > 1 && is_keyed(&m->schema);
    if (!rc && keyed && m->dict >= 0)
        rc = first ? find_names(m, err) : damaged(&m->file[m->n - 1], "a section is not known", err);
    if (!rc)
        rc = ctr_writer_open(&m->w, out, &m->schema, NULL, err);
    if (!rc && keyed)
        rc = ctr_batchbuf_init(&m->rows, &m->schema, err);
    if (!rc)
        rc = keyed ? merge_rows(m, (const char *)section.data, err) : copy_rows(m, err);
    if (!rc && keyed)
        rc = write_rows(m, err);
    if (!rc)
        rc = ctr_writer_finish(m->w, err);
    ctr_batchbuf_free(&m->rows);
    ctr_writer_free(m->w);
    m->w = NULL;
    if (!rc)
        rc = leave_section(m, (const char *)section.data, err);
    ctr_buf_free(&section);
    return rc;
}

int ctr_model_merge(char *const *path, int n, struct ctr_out *out, struct ctr_err *err)
{
    struct merge m = { .file = calloc((size_t)n, sizeof *m.file), .n = n, .dict = -1 };
    int rc = m.file ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *m.file);
    for (int i = 0; i < n && !rc; i++)
        rc = open_file(&m.file[i], path[i], err);
    if (!rc)
        rc = check_chain(&m, err);
    for (bool first = true; !rc && m.file[n - 1].more; first = false)
        rc = merge_section(&m, first, out, err);
    for (int i = 0; i < n && !rc; i++)
        if (m.file[i].more)
            rc = damaged(&m.file[i], "has a section that the deltas lack", err);
    for (int i = 0; m.file && i < n; i++)
        close_file(&m.file[i]);
    free(m.file);
    ctr_schema_free(&m.schema);
    ctr_strs_free(&m.names);
    ctr_colbuf_free(&m.values);
    ctr_buf_free(&m.index);
    return rc;
}

/* ---- a checkpoint with its deltas ---- */

int ctr_delta_path(const char *checkpoint, int64_t n, struct ctr_buf *path, struct ctr_err *err)
{
    ctr_buf_clear(path);
    return ctr_buf_printf(path, err, "%s.delta.%" PRId64, checkpoint, n);
}

/* What a file says of itself: its state, and its position. */
static int read_frame(const struct file *f, char state[CTR_STATE_TEXT], struct ctr_buf *position, struct ctr_err *err)
{
    const struct ctr_meta *meta = &ctr_reader_schema(f->r)->meta;
    const char *line = ctr_meta_get(meta, CTR_META_CHECKPOINT);
    ctr_model_state(meta, state);
    ctr_buf_clear(position);
    return line ? ctr_buf_printf(position, err, "%s", line) : 0;
}

/* 1: the file is a delta that follows `state`, which becomes its own, as its position does (NULL: nothing is asked); 0:
 * it is not, or it is not there. */
static int follows(const char *path, char state[CTR_STATE_TEXT], struct ctr_buf *position, struct ctr_err *err)
{
    struct file f = { 0 };
    int rc = ctr_is_file(path, err);
    if (rc <= 0)
        return rc;
    rc = open_file(&f, path, err);
    if (rc && access(path, F_OK)) { /* the learner has just removed it */
        rc = 0;
    } else if (!rc) {
        const char *delta = ctr_meta_get(&ctr_reader_schema(f.r)->meta, CTR_META_DELTA);
        if (delta && !strcmp(delta, state))
            rc = !position ? 1 : read_frame(&f, state, position, err) ? err->code : 1;
    }
    close_file(&f);
    return rc;
}

bool ctr_model_is_delta(const char *path)
{
    struct file f = { 0 };
    struct ctr_err err = { 0 };
    const bool is = !open_file(&f, path, &err) && ctr_meta_get(&ctr_reader_schema(f.r)->meta, CTR_META_DELTA);
    close_file(&f);
    return is;
}

/* The number of the first delta of a checkpoint from the n-th on that is there; INT64_MAX: there is none. */
static int64_t delta_from(const char *checkpoint, int64_t n, struct ctr_err *err)
{
    const char *slash = strrchr(checkpoint, '/'), *name = slash ? slash + 1 : checkpoint;
    struct ctr_buf path = { 0 };
    int64_t least = INT64_MAX, number;
    if (ctr_buf_printf(&path, err, "%.*s", slash ? (int)(name - checkpoint) : 1, slash ? checkpoint : ".") < 0)
        return least;
    DIR *dir = opendir((const char *)path.data);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        const char *end = e->d_name + strlen(name);
        if (strncmp(e->d_name, name, strlen(name)) != 0 || strncmp(end, ".delta.", 7) != 0 ||
            !ctr_parse_i64(end + 7, strlen(end + 7), &number) || number < n || number >= least ||
            ctr_delta_path(checkpoint, number, &path, err) || !ctr_model_is_delta((const char *)path.data))
            continue;
        least = number;
    }
    if (dir)
        closedir(dir);
    ctr_buf_free(&path);
    return least;
}

/* 1: a delta that follows the files of `all`, whose last one has this state, is among them now; 0: none follows. Deltas
 * that follow another checkpoint, or behind a gap, are an error, because what is missing was learned; those of the
 * state `replaced` are void. */
static int add_delta(const char *path, struct ctr_strs *all, char state[CTR_STATE_TEXT], char replaced[CTR_STATE_TEXT],
                     struct ctr_buf *position, struct ctr_err *err)
{
    struct ctr_buf next = { 0 };
    int rc = ctr_delta_path(path, all->n, &next, err);
    const char *its = (const char *)next.data;
    if (!rc)
        rc = follows(its, state, position, err);
    const int64_t there = rc ? INT64_MAX : delta_from(path, all->n, err);
    if (there == all->n) /* it may have come just now */
        rc = follows(its, state, position, err);
    const int stale = !rc && there == 1 ? follows(its, replaced, NULL, err) : 0;
    if (stale < 0)
        rc = stale;
    if (!rc && !stale && there < INT64_MAX &&
        !ctr_input_identity_replaced(path)) { /* else they are those of the new file */
        rc = there > all->n ? ctr_fail(err, CTR_EDATA,
                                       "is missing, and %s.delta.%" PRId64 " is there: put it back, or remove the "
                                       "later ones to go on without them",
                                       path, there)
                            : ctr_fail(err, CTR_EDATA,
                                       "is a delta of another checkpoint, and does not follow %s: put the right one in "
                                       "its place, or remove it to go on without",
                                       all->s[all->n - 1]);
        ctr_err_file(err, its);
    }
    if (rc > 0)
        rc = ctr_strs_add(all, its, strlen(its), err) ? err->code : 1;
    ctr_buf_free(&next);
    return rc;
}

static int merge_to_temporary(char *const *path, int n, struct ctr_model_whole *w, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    char name[32];
    w->fd = ctr_tmpfile(err);
    int rc = w->fd < 0 ? w->fd : 0;
    snprintf(name, sizeof name, "/dev/fd/%d", w->fd);
    if (!rc)
        rc = ctr_out_open(&out, name, CTR_OUT_BINARY | CTR_OUT_TEMP, err);
    if (!rc)
        rc = ctr_model_merge(path, n, out, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc ? rc : ctr_strdup(&w->path, name, err);
}

/* The file and its deltas: their paths, the state of the file, and the state and the position of the last one. */
static int find_chain(const char *path, struct ctr_strs *all, char base_state[CTR_STATE_TEXT],
                      char state[CTR_STATE_TEXT], struct ctr_buf *position, struct ctr_err *err)
{
    struct file base = { 0 };
    char replaced[CTR_STATE_TEXT] = "";
    int rc = ctr_input_identity_keep(path, err);
    if (rc)
        return rc;
    rc = ctr_strs_add(all, path, strlen(path), err);
    int more = rc ? 0 : ctr_is_file(path, err);
    if (more < 0) /* 0: nothing lies beside a pipe */
        rc = more;
    if (!rc && more && !(rc = open_file(&base, path, err))) {
        const char *before = ctr_meta_get(&ctr_reader_schema(base.r)->meta, CTR_META_REPLACES);
        rc = read_frame(&base, state, position, err);
        snprintf(replaced, sizeof replaced, "%s", before ? before : "");
    }
    close_file(&base);
    memcpy(base_state, state, CTR_STATE_TEXT);
    while (!rc && more > 0)
        more = add_delta(path, all, state, replaced, position, err);
    ctr_input_identity_release(path);
    return rc ? rc : CTR_MIN(more, 0);
}

int ctr_model_whole(const char *path, struct ctr_model_whole *w, struct ctr_err *err)
{
    struct ctr_strs all = { 0 };
    struct ctr_buf position = { 0 };
    *w = (struct ctr_model_whole){ .fd = -1 };
    int rc = find_chain(path, &all, w->base, w->state, &position, err);
    if (!rc)
        rc = all.n > 1 ? merge_to_temporary(all.s, all.n, w, err) : ctr_strdup(&w->path, path, err);
    w->deltas = all.n - 1;
    ctr_strs_free(&all);
    ctr_buf_free(&position);
    if (rc)
        ctr_model_whole_free(w);
    return rc;
}

int ctr_model_position(const char *path, struct ctr_buf *line, struct ctr_err *err)
{
    struct ctr_strs all = { 0 };
    char state[CTR_STATE_TEXT] = "", base[CTR_STATE_TEXT];
    int rc = find_chain(path, &all, base, state, line, err);
    ctr_strs_free(&all);
    return rc;
}

bool ctr_model_whole_grew(const char *path, const struct ctr_model_whole *w, struct ctr_file_seen *seen)
{
    struct ctr_buf next = { 0 }, position = { 0 };
    struct ctr_err err = { 0 };
    char state[CTR_STATE_TEXT];
    memcpy(state, w->state, sizeof state);
    const bool grew = *state && !ctr_delta_path(path, w->deltas + 1, &next, &err) &&
                      ctr_file_changed((const char *)next.data, seen) &&
                      follows((const char *)next.data, state, &position, &err) > 0;
    ctr_buf_free(&next);
    ctr_buf_free(&position);
    return grew;
}

void ctr_model_whole_free(struct ctr_model_whole *w)
{
    if (w->fd >= 0)
        close(w->fd);
    free(w->path);
    *w = (struct ctr_model_whole){ .fd = -1 };
}

int ctr_model_whole_end(struct ctr_model_whole *w, const char *path, int rc, struct ctr_err *err)
{
    if (rc && w->fd >= 0 && !strcmp(err->file, w->path)) {
        err->file[0] = 0;
        ctr_err_file(err, path);
    }
    ctr_model_whole_free(w);
    return rc;
}
