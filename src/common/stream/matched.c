/* SPDX-License-Identifier: Apache-2.0
 *
 * matched: streams in several files whose columns differ, matched by name: the columns of all, in the order in which
 * they first occur, null where a file lacks one. Each file is a stream of its own, read by its own reader. */
#include "common/stream/matched.h"

#include <stdlib.h>

struct ctr_matched {
    struct ctr_strs paths;
    struct ctr_reader_opts o;
    struct ctr_schema schema;
    char *network;             /* of the first file that has vectors, or NULL */
    struct ctr_reader *reader; /* of the current file */
    int file, step;            /* the next one, and how far the one after it is */
    int at, files;             /* the current one, and how many were begun */
    const char *name;
    int *from;              /* the column of the file for each of the schema, or -1 */
    int *lack, *first_lack; /* files that lack it, and the first of them */
    struct ctr_colbuf *made;
    struct ctr_col *col;
    struct ctr_batch batch;
    int64_t rows;
    struct ctr_reader_stats read; /* bytes and times, of the files before this one */
};

/* ---- the schema ---- */

static int differ(const struct ctr_matched *m, const struct ctr_field *had, const struct ctr_field *f, const char *path,
                  struct ctr_err *err)
{
    char there[64], here[64];
    ctr_err_file(err, path);
    return ctr_fail(err, CTR_EDATA,
                    "column %s is %s here, and %s in a file before it (%s is the first): give both one type, as "
                    "ctr-select --add '%s=…' does",
                    f->name, ctr_field_type_name(f, here, sizeof here), ctr_field_type_name(had, there, sizeof there),
                    m->paths.s[0], f->name);
}

/* Vectors of two networks or towers are not comparable, though their types are the same: as where schemas are equal. */
static int other_vectors(const struct ctr_matched *m, const char *there, const char *here, const char *what,
                         const char *path, struct ctr_err *err)
{
    ctr_err_file(err, path);
    return ctr_fail(err, CTR_EDATA,
                    "%s %.200s here, and %.200s in a file before it (%s is the first): make both with one network",
                    what, here ? here : "unknown make", there ? there : "unknown make", m->paths.s[0]);
}

static int same_network(struct ctr_matched *m, const struct ctr_schema *s, const char *path, struct ctr_err *err)
{
    const char *here = ctr_meta_get(&s->meta, CTR_META_NETWORK);
    if (!here || !m->network)
        return here ? ctr_strdup(&m->network, here, err) : 0;
    return strcmp(m->network, here) ? other_vectors(m, m->network, here, "its vectors are by", path, err) : 0;
}

static int same_tower(const struct ctr_matched *m, const struct ctr_field *had, const struct ctr_field *f,
                      const char *path, struct ctr_err *err)
{
    static const char *const metas[] = { CTR_META_TOWER, CTR_META_TOWER_MODEL };
    char what[160];
    for (size_t i = 0; i < CTR_COUNT(metas); i++) {
        const char *there = ctr_meta_get(&had->meta, metas[i]), *here = ctr_meta_get(&f->meta, metas[i]);
        if (there && here ? !strcmp(there, here) : there == here)
            continue;
        ctr_format(what, sizeof what, "column %.80s: its vectors are of the %s", f->name, i ? "model" : "tower");
        return other_vectors(m, there, here, what, path, err);
    }
    return 0;
}

static int add_schema(struct ctr_matched *m, const struct ctr_schema *s, const struct ctr_strs *only, const char *path,
                      struct ctr_err *err)
{
    int rc = m->schema.n || m->schema.meta.n ? 0 : ctr_meta_copy(&m->schema.meta, &s->meta, err);
    if (!rc)
        rc = same_network(m, s, path, err);
    for (int i = 0; !rc && i < s->n; i++) {
        const struct ctr_field *f = &s->f[i];
        const int k = ctr_schema_find(&m->schema, f->name);
        if (only && ctr_strs_find(only, f->name) < 0)
            continue;
        if (k < 0)
            rc = ctr_schema_add_other(&m->schema, f, err);
        else if (!ctr_field_unite(&m->schema.f[k], f))
            rc = differ(m, &m->schema.f[k], f, path, err);
        else
            rc = same_tower(m, &m->schema.f[k], f, path, err);
    }
    return rc;
}

static int read_schema(const struct ctr_matched *m, int file, struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    int rc = ctr_reader_open(&r, &m->paths.s[file], 1, &m->o, err);
    if (!rc)
        rc = ctr_schema_copy(s, ctr_reader_schema(r), err);
    ctr_reader_free(r);
    return rc;
}

int ctr_matched_needed(char *const *paths, int n, const struct ctr_reader_opts *o, bool *needed, struct ctr_err *err)
{
    struct ctr_schema first = { 0 };
    int rc = 0;
    *needed = false;
    for (int i = 0; !rc && i < n && !*needed; i++) {
        struct ctr_reader *r = NULL;
        char *path = paths[i];
        rc = ctr_reader_open(&r, &path, 1, o, err);
        if (!rc && !i)
            rc = ctr_schema_copy(&first, ctr_reader_schema(r), err);
        else if (!rc)
            *needed = !ctr_schema_same_types(&first, ctr_reader_schema(r), NULL, 0);
        ctr_reader_free(r);
    }
    ctr_schema_free(&first);
    return rc;
}

/* ---- files ---- */

static int project(struct ctr_matched *m, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(m->reader);
    int *column = malloc(((size_t)s->n + 1) * sizeof *column), n = 0;
    if (!column)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *column);
    for (int i = 0; i < m->schema.n; i++) {
        const int k = ctr_schema_find(s, m->schema.f[i].name);
        if (k < 0 && !m->lack[i]++)
            m->first_lack[i] = m->at;
        m->from[i] = k < 0 ? -1 : n;
        if (k >= 0)
            column[n++] = k;
    }
    if (!n && s->n)
        column[n++] = 0; /* for the number of rows */
    const int rc = ctr_reader_project(m->reader, column, n, err);
    free(column);
    return rc;
}

static struct ctr_reader_stats read_so_far(const struct ctr_matched *m)
{
    struct ctr_reader_stats all = m->read, st = { 0 };
    if (m->reader)
        ctr_reader_get_stats(m->reader, &st);
    ctr_reader_count_cut(&all, st.times_cut_in, st.times_cut, st.entries_cut);
    all.others_cut += st.others_cut;
    all.bytes_read += st.bytes_read;
    return all;
}

static int next_file(struct ctr_matched *m, struct ctr_err *err)
{
    m->read = read_so_far(m);
    ctr_reader_free(m->reader);
    m->reader = NULL;
    m->at = m->file;
    m->file += m->step;
    m->files++;
    m->name = m->paths.s[m->at];
    int rc = ctr_reader_open(&m->reader, &m->paths.s[m->at], 1, &m->o, err);
    return rc ? rc : project(m, err);
}

/* ---- rows ---- */

static const struct ctr_schema *matched_schema(const void *source)
{
    return &((const struct ctr_matched *)source)->schema;
}

static const char *matched_name(const void *source)
{
    return ((const struct ctr_matched *)source)->name;
}

static int matched_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct ctr_matched *m = source;
    const struct ctr_batch *in = NULL;
    int rc = m->reader ? ctr_reader_next(m->reader, &in, err) : 0;
    while (!rc && m->file < m->paths.n) {
        rc = next_file(m, err);
        if (!rc)
            rc = ctr_reader_next(m->reader, &in, err);
    }
    if (rc <= 0)
        return rc;
    for (int i = 0; i < m->schema.n; i++) {
        const struct ctr_col *c = m->from[i] < 0 ? NULL : &in->col[m->from[i]];
        const int bad = ctr_colbuf_match(&m->made[i], c, in->rows, &m->col[i], err);
        if (bad)
            return bad;
    }
    m->batch = (struct ctr_batch){ &m->schema, in->rows, m->rows, m->col };
    m->rows += in->rows;
    *b = &m->batch;
    return 1;
}

static void matched_close(void *source)
{
    (void)source; /* which its owner frees */
}

/* ---- outside ---- */

void ctr_matched_free(struct ctr_matched *m)
{
    if (!m)
        return;
    for (int i = 0; m->made && i < m->schema.n; i++)
        ctr_colbuf_free(&m->made[i]);
    ctr_reader_free(m->reader);
    free(m->network);
    free(m->made);
    free(m->from);
    free(m->lack);
    free(m->col);
    ctr_schema_free(&m->schema);
    ctr_strs_free(&m->paths);
    free(m);
}

static int make_room(struct ctr_matched *m, struct ctr_err *err)
{
    const size_t n = (size_t)m->schema.n + 1;
    m->from = calloc(n, sizeof *m->from);
    m->lack = calloc(2 * n, sizeof *m->lack);
    m->made = calloc(n, sizeof *m->made);
    m->col = calloc(n, sizeof *m->col);
    if (!m->from || !m->lack || !m->made || !m->col)
        return ctr_fail_nomem(err, n * sizeof *m->made);
    m->first_lack = m->lack + n;
    int rc = 0;
    for (int i = 0; !rc && i < m->schema.n; i++) {
        m->schema.f[i].dict &= m->schema.f[i].type == CTR_UTF8;
        rc = ctr_colbuf_init(&m->made[i], &m->schema.f[i], err);
    }
    return rc;
}

int ctr_matched_open(struct ctr_matched **out, char *const *paths, int n, const struct ctr_reader_opts *o,
                     const struct ctr_strs *only, struct ctr_err *err)
{
    struct ctr_matched *m = *out = calloc(1, sizeof *m);
    int rc = m ? 0 : ctr_fail_nomem(err, sizeof *m);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_strs_add(&m->paths, paths[i], strlen(paths[i]), err);
    if (!rc) {
        m->o = *o;
        m->step = 1;
    }
    for (int i = 0; !rc && i < n; i++) {
        struct ctr_schema s = { 0 };
        rc = read_schema(m, i, &s, err);
        if (!rc)
            rc = add_schema(m, &s, only, paths[i], err);
        ctr_schema_free(&s);
    }
    if (!rc)
        rc = make_room(m, err);
    if (!rc)
        m->name = m->paths.s[0];
    if (rc) {
        ctr_matched_free(m);
        *out = NULL;
    }
    return rc;
}

void ctr_matched_part(struct ctr_matched *m, int part, int parts)
{
    m->file = part;
    m->step = parts;
    m->name = m->paths.s[part];
}

struct ctr_batch_source ctr_matched_source(struct ctr_matched *m)
{
    static const struct ctr_batch_source_ops ops = { matched_schema, matched_next, matched_name, matched_close, NULL };
    return (struct ctr_batch_source){ &ops, m };
}

int64_t ctr_matched_bytes(const struct ctr_matched *m)
{
    return read_so_far(m).bytes_read;
}

void ctr_matched_notes(const struct ctr_matched *m, void (*note)(void *ctx, const char *text), void *ctx)
{
    char text[700];
    const struct ctr_reader_stats read = read_so_far(m);
    ctr_reader_notes(&read, note, ctx);
    for (int i = 0; i < m->schema.n; i++)
        if (m->lack[i]) {
            ctr_format(text, sizeof text, "column %s: %d of %d files lack it, and are null there (the first: %s)",
                       m->schema.f[i].name, m->lack[i], m->files, m->paths.s[m->first_lack[i]]);
            note(ctx, text);
        }
}
