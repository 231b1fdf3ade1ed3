/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_read: a view as a source: the reader of all filters for streams, the importers of ctr-import for text and
 * Parquet.
 */
#include "common/rows/flowcore.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a file of a view is decides what opens it, not its name alone (ctr_flow_view_open):
 *
 *     from log                  a stream; files by content of Parquet, too      open_stream, open_parquet
 *     from log = parquet(…)     Parquet, or streams in its place                open_parquet, open_stream
 *     from log = csv(…)         text; streams or Parquet in its place, so that  open_text, open_stream, open_parquet
 *                               a plan for text runs on what was imported from it
 *
 * A stream in the place of text gets the roles that the plan gives its columns (set_roles). Files of one view are of
 * one kind. Where the run is one part of several, the view of `from` opens its share of the files or blocks. */

/* ---- text ---- */

/* The import options available in a plan, named as in ctr-import, and the member that becomes true or the text. */
enum option_kind { FLAG, TEXT_OF, NULLS, DELIMITER, ENCODING, LINES }; /* NULLS: the caller's list */
#define MEMBER(name) offsetof(struct ctr_text_opts, name)
static const struct option {
    const char *name;
    enum option_kind kind;
    size_t at;
} options[] = {
    { "header", FLAG, MEMBER(header) },
    { "columns", TEXT_OF, MEMBER(columns) },
    { "delimiter", DELIMITER, 0 },
    { "null", NULLS, 0 },
    { "encoding", ENCODING, 0 },
    { "keys", TEXT_OF, MEMBER(keys) },
    { "binary", FLAG, MEMBER(binary) },
    { "bad-rows", TEXT_OF, MEMBER(bad_rows) },
    { "escape", TEXT_OF, MEMBER(escape) },
    { "comment", TEXT_OF, MEMBER(comment) },
    { "trim", FLAG, MEMBER(trim) },
    { "skip-lines", LINES, 0 },
    { "decimal", TEXT_OF, MEMBER(decimal) },
    { "thousands", TEXT_OF, MEMBER(thousands) },
    { "schema", TEXT_OF, MEMBER(schema) },
    { "partitions", FLAG, MEMBER(partitions) },
};

/* Names in a plan use '_' for '-'. */
static bool same_option(const char *option, const char *name)
{
    for (; *option && (*option == *name || (*option == '-' && *name == '_')); option++)
        name++;
    return !*option && !*name;
}

static int set_option(struct ctr_text_opts *t, const struct ctr_view_option *o, struct ctr_strs *nulls,
                      const char **canonical, struct ctr_err *err)
{
    const char *names[CTR_COUNT(options) + CTR_NROLES];
    char hint[512];
    int n = 0;
    for (size_t i = 0; i < CTR_COUNT(options); i++) {
        names[n++] = *canonical = options[i].name;
        if (!same_option(options[i].name, o->name))
            continue;
        if ((options[i].kind == FLAG) != !o->text)
            return ctr_fail(err, CTR_EUSAGE, "%s=%s: the option wants %s", o->name, o->text ? o->text : "true",
                            o->text ? "true" : "a text in quotes");
        void *member = (char *)t + options[i].at;
        switch (options[i].kind) {
        case FLAG: *(bool *)member = true; break;
        case TEXT_OF: *(const char **)member = o->text; break;
        case NULLS: return ctr_strs_add(nulls, o->text, strlen(o->text), err);
        case DELIMITER: t->delimiter = ctr_text_delimiter(o->text); break;
        case ENCODING: t->latin1 = !strcmp(o->text, "latin1"); break;
        case LINES:
            if (!ctr_parse_i64(o->text, strlen(o->text), &t->skip_lines))
                t->skip_lines = -1;
        }
        return 0;
    }
    for (int r = 0; r < CTR_NROLES; r++) {
        names[n++] = *canonical = ctr_roles[r];
        if (o->text && !strcmp(ctr_roles[r], o->name)) {
            t->role[r] = o->text;
            return 0;
        }
    }
    return ctr_fail(err, CTR_EUSAGE, "a view has no option %s%s", o->name,
                    ctr_name_hint(hint, sizeof hint, o->name, names, n));
}

static int no_format(const char *name, struct ctr_err *err)
{
    const char *names[32];
    char hint[512];
    int n = 0;
    for (; ctr_text_formats[n] && n + 1 < (int)CTR_COUNT(names); n++)
        names[n] = ctr_text_formats[n]->name;
    names[n++] = "parquet";
    return ctr_fail(err, CTR_EUSAGE, "there is no format %s%s", name, ctr_name_hint(hint, sizeof hint, name, names, n));
}

/* Set the options of the text, and the provenance line of ctr-import. */
static int text_options(struct ctr_text_opts *t, const struct ctr_view *v, struct ctr_strs *nulls, struct ctr_buf *line,
                        struct ctr_err *err)
{
    const char *name = NULL;
    t->format = ctr_text_format_find(v->format);
    if (!t->format && strcmp(v->format, "parquet") != 0)
        return no_format(v->format, err);
    int rc = ctr_buf_printf(line, err, "--format=%s", v->format);
    for (int i = 0; !rc && i < v->n; i++) {
        rc = set_option(t, &v->option[i], nulls, &name, err);
        if (!rc)
            rc = ctr_buf_printf(line, err, v->option[i].text ? " --%s=%s" : " --%s", name, v->option[i].text);
    }
    if (!rc && t->skip_lines < 0)
        rc = ctr_fail(err, CTR_EUSAGE, "skip_lines wants a number of lines");
    if (!rc && t->format && (t->schema || t->partitions))
        rc = ctr_fail(err, CTR_EUSAGE, "schema=\"…\" and partitions=true are about Parquet, which is matched by name");
    if (!rc && t->bad_rows && !strncmp(t->bad_rows, "quarantine=", 11))
        rc = ctr_fail(err, CTR_EUSAGE, "a plan writes no files: bad_rows=\"quarantine=…\" belongs to ctr-import");
    return rc ? rc : ctr_buf_append(line, "", 1, err);
}

struct text {
    struct ctr_import *import;
    struct ctr_schema schema; /* with provenance */
    const char *path;
    bool finished;
};

static const struct ctr_schema *text_schema(const void *source)
{
    return &((const struct text *)source)->schema;
}

static int text_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct text *t = source;
    int rc;
    do
        rc = t->finished ? 0 : ctr_import_next(t->import, b, err);
    while (rc > 0 && !(*b)->rows);
    if (!rc && !t->finished) {
        rc = ctr_import_finish(t->import, err);
        t->finished = !rc;
    }
    return rc;
}

static const char *text_name(const void *source)
{
    return ((const struct text *)source)->path;
}

static void text_close(void *source)
{
    struct text *t = source;
    ctr_schema_free(&t->schema);
    free(t); /* the view frees the import, which it reports on */
}

static int text_source(struct flow_view *v, const char *provenance, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { text_schema, text_next, text_name, text_close, NULL };
    struct text *t = calloc(1, sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    *t = (struct text){ .import = v->import, .path = v->paths.s[0] };
    int rc = ctr_schema_copy(&t->schema, ctr_import_schema(v->import), err);
    if (!rc)
        rc = ctr_schema_provenance(&t->schema, "ctr-import", provenance, err);
    if (rc)
        text_close(t);
    else
        v->source = (struct ctr_batch_source){ &ops, t };
    return rc;
}

/* The names in `wanted` that the schema has. */
static int present(const struct ctr_schema *s, const struct ctr_strs *wanted, struct ctr_strs *out, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < s->n; i++)
        if (ctr_strs_find(wanted, s->f[i].name) >= 0)
            rc = ctr_strs_add(out, s->f[i].name, strlen(s->f[i].name), err);
    return rc;
}

void ctr_flow_view_note(void *view, const char *text)
{
    const struct flow_view *v = view;
    char line[1200];
    if (!v->opts->note || v->quiet)
        return;
    ctr_format(line, sizeof line, "view %s: %s", v->view->name, text);
    v->opts->note(v->opts->ctx, line);
}

/* The columns of the first file of all parts: every part reads its files with these types. */
static int first_types(struct flow_view *v, const struct ctr_text_opts *t, struct ctr_err *err)
{
    struct ctr_text_opts first = *t;
    struct ctr_import *im = NULL;
    struct stat st;
    if (!v->all.n || stat(v->all.s[0], &st) || !S_ISREG(st.st_mode)) /* a pipe is read once, by its part */
        return 0;
    first.jobs = 1;
    first.note = NULL;
    int rc = ctr_import_open(&im, &first, v->all.s, 1, err);
    if (!rc)
        rc = ctr_schema_copy(&v->typed, ctr_import_schema(im), err);
    ctr_import_free(im);
    return rc;
}

/* The files of this part have what is wanted of the first one. */
static int check_first(const struct flow_view *v, const struct ctr_schema *s, const struct ctr_strs *only,
                       struct ctr_err *err)
{
    for (int i = 0; i < only->n; i++)
        if (ctr_schema_find(&v->typed, only->s[i]) >= 0 && ctr_schema_find(s, only->s[i]) < 0) {
            ctr_err_file(err, v->paths.s[0]);
            return ctr_fail(err, CTR_EDATA, "there is no column %s, which %s has: files of text have one header",
                            only->s[i], v->all.s[0]);
        }
    return 0;
}

/* Opened twice if columns are left out: the first time gives the existing columns. */
static int open_text(struct flow_view *v, const struct ctr_strs *only, const struct ctr_flow_opts *o,
                     struct ctr_err *err)
{
    static const struct ctr_strs none;
    struct ctr_buf line = { 0 };
    struct ctr_text_opts t = { .nulls = &v->nulls,
                               .jobs = o->threads,
                               .batch_rows = -1,
                               .no_empty = true,
                               .settle = ctr_flow_view_type,
                               .note = ctr_flow_view_note,
                               .ctx = v,
                               .in_plan = true };
    int rc = text_options(&t, v->view, &v->nulls, &line, err);
    if (!rc)
        rc = first_types(v, &t, err);
    if (!rc && only && v->regular) {
        struct ctr_text_opts first = t;
        first.jobs = 1;
        first.note = NULL;
        rc = ctr_import_open(&v->import, &first, v->paths.s, v->paths.n, err);
        if (!rc)
            v->columns = ctr_import_schema(v->import)->n;
        if (!rc)
            rc = check_first(v, ctr_import_schema(v->import), only, err);
        if (!rc)
            rc = present(ctr_import_schema(v->import), only, &v->names, err);
        ctr_import_free(v->import);
        v->import = NULL;
        t.only = v->names.n ? &v->names : NULL;
        t.lack = t.keep = &none;
    }
    if (!rc)
        rc = ctr_import_open(&v->import, &t, v->paths.s, v->paths.n, err);
    if (!rc)
        v->read = ctr_import_schema(v->import)->n;
    if (!rc)
        v->columns = CTR_MAX(v->columns, v->read);
    if (!rc)
        rc = ctr_import_check(v->import, err);
    if (!rc)
        rc = text_source(v, (const char *)line.data, err);
    ctr_buf_free(&line);
    return rc;
}

/* ---- Parquet ---- */

static bool all_regular(const struct ctr_strs *paths)
{
    struct stat st;
    bool all = true;
    for (int i = 0; i < paths->n; i++)
        all &= strcmp(paths->s[i], "-") && !stat(paths->s[i], &st) && S_ISREG(st.st_mode);
    return all;
}

/* The files whose columns are those of the view: where parts of it are read, those of all parts. */
static const struct ctr_strs *files_of(const struct flow_view *v)
{
    return v->all.n ? &v->all : &v->paths;
}

/* Of the columns that can be read, those that are wanted (NULL: all); if there is none, one that says
 * how many rows there are. */
static int parquet_only(struct flow_view *v, const struct ctr_strs *only, const struct ctr_text_opts *t,
                        struct ctr_err *err)
{
    struct ctr_strs all = { 0 };
    struct ctr_text_opts o = *t;
    o.only = only;
    int rc = ctr_parquet_columns(&o, files_of(v)->s, files_of(v)->n, &all, err);
    for (int i = 0; !rc && i < all.n; i++)
        if (!only || ctr_strs_find(only, all.s[i]) >= 0)
            rc = ctr_strs_add(&v->names, all.s[i], strlen(all.s[i]), err);
    if (!rc && !v->names.n && all.n)
        rc = ctr_strs_add(&v->names, all.s[0], strlen(all.s[0]), err);
    v->columns = all.n;
    ctr_strs_free(&all);
    return rc;
}

static int open_parquet(struct flow_view *v, const struct ctr_strs *only, const struct ctr_flow_opts *o,
                        struct ctr_err *err)
{
    static const struct ctr_strs none;
    const bool named = v->view->format && !strcmp(v->view->format, "parquet");
    struct ctr_buf line = { 0 };
    struct ctr_text_opts t = { .jobs = o->threads,
                               .batch_rows = -1,
                               .note = ctr_flow_view_note,
                               .ctx = v,
                               .in_plan = true,
                               .where = v->side.where };
    int rc = named ? text_options(&t, v->view, &v->nulls, &line, err)
                   : ctr_buf_append(&line, "--format=parquet", sizeof "--format=parquet", err);
    if (!rc && (t.header || t.delimiter || v->nulls.n || t.latin1 || t.keys || t.binary || t.bad_rows || t.escape ||
                t.comment || t.trim || t.decimal || t.thousands || t.skip_lines))
        rc = ctr_fail(err, CTR_EUSAGE,
                      "parquet(…) takes columns=\"…\", schema=\"…\", partitions=true and roles; the other options are "
                      "about text");
    if (!rc && !t.columns)
        rc = parquet_only(v, only, &t, err);
    t.only = v->names.n ? &v->names : NULL;
    t.lack = t.keep = &none;
    if (v->all.n) {
        t.part = o->reader->part;
        t.parts = o->reader->parts;
    }
    if (!rc)
        rc = ctr_parquet_open(&v->parquet, &t, files_of(v)->s, files_of(v)->n, err);
    if (!rc)
        v->read = ctr_parquet_schema(v->parquet)->n;
    if (!rc)
        v->columns = CTR_MAX(v->columns, v->read);
    if (!rc)
        v->source = ctr_parquet_source(v->parquet);
    if (!rc)
        rc = ctr_batch_source_provenance(&v->source, "ctr-import", (const char *)line.data, err);
    ctr_buf_free(&line);
    return rc;
}

/* ---- streams ---- */

/* Files whose columns differ, matched by name. */
static int open_matched(struct flow_view *v, const struct ctr_strs *only, const struct ctr_reader_opts *ro,
                        struct ctr_err *err)
{
    int rc = ctr_matched_open(&v->matched, files_of(v)->s, files_of(v)->n, ro, only, err);
    if (rc)
        return rc;
    if (v->all.n)
        ctr_matched_part(v->matched, v->opts->reader->part, v->opts->reader->parts);
    v->source = ctr_matched_source(v->matched);
    if (only && !ctr_batch_source_schema(&v->source)->n) { /* the number of rows */
        ctr_matched_free(v->matched);
        return open_matched(v, NULL, ro, err);
    }
    v->columns = v->read = ctr_batch_source_schema(&v->source)->n;
    return 0;
}

static int open_stream(struct flow_view *v, const struct ctr_strs *only, const struct ctr_flow_opts *o,
                       struct ctr_err *err)
{
    struct ctr_reader_opts ro = o->reader ? *o->reader : (struct ctr_reader_opts){ 0 };
    ro.foreign = true;
    ro.follow = ctr_flow_follows(o) && !v->side.statement;
    ro.part = v->part;
    ro.parts = v->parts;
    bool differ = false;
    const struct ctr_strs *files = files_of(v);
    int rc = 0;
    if (files->n > 1 && v->regular && !ro.follow && (!v->all.n || all_regular(&v->all)))
        rc = ctr_matched_needed(files->s, files->n, &ro, &differ, err);
    if (!rc && differ)
        return open_matched(v, only, &ro, err);
    if (!rc)
        rc = ctr_reader_open(&v->reader, v->paths.s, v->paths.n, &ro, err);
    if (rc)
        return rc;
    v->source = ctr_batch_source_stream(v->reader);
    v->columns = v->read = ctr_reader_schema(v->reader)->n;
    if (!only)
        return 0;
    const struct ctr_schema *s = ctr_reader_schema(v->reader);
    int *column = malloc(((size_t)s->n + 1) * sizeof *column), n = 0;
    if (!column)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *column);
    for (int i = 0; i < s->n; i++)
        if (ctr_strs_find(only, s->f[i].name) >= 0)
            column[n++] = i;
    v->read = n ? n : v->read;
    rc = n ? ctr_batch_source_project(&v->source, column, n, err) : 0;
    free(column);
    return rc;
}

/* A stream in the place of text: the roles that the plan gives its columns. */
struct roled {
    struct ctr_batch_source below;
    struct ctr_schema schema;
};

static const struct ctr_schema *roled_schema(const void *source)
{
    return &((const struct roled *)source)->schema;
}

static int roled_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_batch_source_next(&((struct roled *)source)->below, b, err);
}

static void roled_close(void *source)
{
    struct roled *r = source;
    ctr_batch_source_close(&r->below);
    ctr_schema_free(&r->schema);
    free(r);
}

/* The column of a role, as NAME or for a time NAME:FORMAT; -1: it is not there, or not read. */
static int role_column(const struct ctr_schema *s, enum ctr_role role, const char *text)
{
    int column = ctr_schema_find(s, text);
    char name[512];
    for (size_t n = strlen(text); column < 0 && role == CTR_ROLE_TIME && n > 0; n--)
        if (text[n] == ':' && n < sizeof name) {
            memcpy(name, text, n);
            name[n] = 0;
            column = ctr_schema_find(s, name);
        }
    return column;
}

static int set_roles(struct flow_view *v, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { roled_schema, roled_next, NULL, roled_close, NULL };
    struct roled *r = calloc(1, sizeof *r);
    if (!r)
        return ctr_fail_nomem(err, sizeof *r);
    int rc = ctr_schema_copy(&r->schema, ctr_batch_source_schema(&v->source), err);
    for (int i = 0; !rc && i < v->view->n; i++)
        for (int role = 0; !rc && role < CTR_NROLES; role++) {
            const struct ctr_view_option *o = &v->view->option[i];
            const int column = o->text && !strcmp(o->name, ctr_roles[role])
                                   ? role_column(&r->schema, (enum ctr_role)role, o->text)
                                   : -1;
            if (column >= 0)
                rc = ctr_field_set_role(&r->schema.f[column], (enum ctr_role)role, err);
        }
    if (rc) {
        roled_close(r);
        return rc;
    }
    r->below = v->source;
    v->source = (struct ctr_batch_source){ &ops, r };
    return 0;
}

/* The first bytes of a file, without taking them: of a pipe, if it is open already. */
static size_t peek(const char *path, char *to, size_t n)
{
    const bool is_stdin = !strcmp(path, "-");
    struct stat st;
    int pipes[2];
    ssize_t got = 0;
    if (!is_stdin && (stat(path, &st) ||
                      !(S_ISREG(st.st_mode) || !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/self/fd/", 14))))
        return 0;
    const int fd = is_stdin ? STDIN_FILENO : ctr_open(path, O_RDONLY, 0);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        const off_t at = lseek(fd, 0, SEEK_CUR);
        got = at < 0 ? 0 : pread(fd, to, n, at);
    } else if (fd >= 0 && S_ISFIFO(st.st_mode) && !pipe(pipes)) {
        got = tee(fd, pipes[1], n, 0);
        got = got > 0 ? read(pipes[0], to, n) : 0;
        close(pipes[0]);
        close(pipes[1]);
    }
    if (fd >= 0 && !is_stdin)
        close(fd);
    return got > 0 ? (size_t)got : 0;
}

enum content { UNKNOWN, STREAM, TEXT };

static enum content content_of(const char *path)
{
    char p[6];
    const size_t got = peek(path, p, sizeof p);
    const bool stream = (got >= 4 && !memcmp(p, "\xff\xff\xff\xff", 4)) || (got == 6 && !memcmp(p, "ARROW1", 6));
    return stream ? STREAM : got == 6 ? TEXT : UNKNOWN;
}

/* Are all files Parquet? */
static bool all_parquet(const struct ctr_strs *paths)
{
    int n = 0;
    while (n < paths->n && ctr_parquet_is(paths->s[n]))
        n++;
    return n && n == paths->n;
}

/* Are the files given for a view of text streams already? */
static int look_for_streams(const struct ctr_strs *paths, bool *stream, struct ctr_err *err)
{
    int n = 0;
    const char *text = NULL;
    for (int i = 0; i < paths->n; i++) {
        const bool is = content_of(paths->s[i]) == STREAM;
        n += is;
        text = is ? text : paths->s[i];
    }
    *stream = n && n == paths->n;
    if (!n || *stream)
        return 0;
    ctr_err_file(err, text);
    return ctr_fail(err, CTR_EDATA, "is text, and another file of the view an Arrow stream: give one kind of files");
}

/* Of the view of `from`: the files, or the blocks of one, that this part reads. */
static int take_part(struct flow_view *v, const struct ctr_reader_opts *o, struct ctr_err *err)
{
    struct ctr_shard_files mine = { 0 };
    struct ctr_strs paths = { 0 };
    int rc = ctr_shard_files(o->part, o->parts, v->paths.s, v->paths.n, &mine, err);
    for (int i = 0; !rc && i < mine.n; i++)
        rc = ctr_strs_add(&paths, mine.path[i], strlen(mine.path[i]), err);
    for (int i = 0; !rc && !mine.parts && i < v->paths.n; i++)
        rc = ctr_strs_add(&v->all, v->paths.s[i], strlen(v->paths.s[i]), err);
    v->part = mine.part;
    v->parts = mine.parts;
    free(mine.path);
    ctr_strs_free(&v->paths);
    v->paths = paths;
    return rc;
}

int ctr_flow_view_open(struct flow_view *v, const struct ctr_view *view, const struct ctr_flow_views *files,
                       const struct ctr_strs *only, const struct ctr_flow_opts *o, struct ctr_err *err)
{
    int rc = 0;
    bool stream = !view->format;
    *v = (struct flow_view){ .side = v->side, .quiet = v->quiet, .view = view, .opts = o };
    for (int i = 0; !rc && i < files->n; i++)
        if (!strcmp(files->file[i].view, view->name))
            rc = ctr_strs_add(&v->paths, files->file[i].path, strlen(files->file[i].path), err);
    if (!rc && !v->side.statement && o->reader && o->reader->parts > 1)
        rc = take_part(v, o->reader, err);
    v->regular = !rc && all_regular(&v->paths);
    const bool named = view->format && !strcmp(view->format, "parquet");
    if (!rc && view->format)
        rc = look_for_streams(&v->paths, &stream, err);
    const bool parquet = !rc && (all_parquet(&v->paths) || (named && !stream));
    if (!rc && !stream && ctr_flow_follows(o) && !v->side.statement)
        rc = ctr_fail(err, CTR_EUSAGE,
                      "--follow: the view %s grows, and is text here; give a stream in its place: … | ctr-import … - | "
                      "ctr-train … PLAN %s=-",
                      view->name, view->name);
    const bool text = !rc && stream && content_of(v->paths.s[0]) == TEXT;
    if (!rc)
        rc = (parquet ? open_parquet : stream ? open_stream : open_text)(v, only, o, err);
    if (rc == CTR_EDATA && text)
        ctr_err_add(err, "; in a plan, a view of text has a format, as in log = csv(header=true)");
    if (!rc && view->format && (stream || (parquet && !named)))
        rc = set_roles(v, err);
    v->quiet = false;
    if (rc)
        ctr_flow_view_close(v);
    return rc;
}

void ctr_flow_view_close(struct flow_view *v)
{
    ctr_batch_source_close(&v->source);
    ctr_import_free(v->import);
    ctr_parquet_free(v->parquet);
    ctr_matched_free(v->matched);
    ctr_strs_free(&v->paths);
    ctr_strs_free(&v->nulls);
    ctr_strs_free(&v->names);
    ctr_strs_free(&v->all);
    ctr_schema_free(&v->typed);
    *v = (struct flow_view){ 0 };
}

int64_t ctr_flow_view_bytes(const struct flow_view *v)
{
    struct ctr_reader_stats stream;
    struct ctr_import_stats text;
    struct ctr_parquet_stats parquet;
    if (v->parquet) {
        ctr_parquet_get_stats(v->parquet, &parquet);
        return parquet.bytes_read;
    }
    if (v->matched)
        return ctr_matched_bytes(v->matched);
    if (v->import) {
        ctr_import_get_stats(v->import, &text);
        return text.bytes;
    }
    ctr_reader_get_stats(v->reader, &stream);
    return stream.bytes_read;
}
