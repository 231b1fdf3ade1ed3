/* SPDX-License-Identifier: Apache-2.0
 *
 * readersection: which streams are one sequence of rows for the caller of a reader. A stream begins a section, goes on
 * with it, or belongs to another; anything else is an error whose text names the remedy. For example, of
 *
 *     ctr-cat a.arrows b.arrows      streams of one schema and one plan: b goes on where a ended
 *     ctr-cat model.arrows           sections "model" and "weights" of a bundle: one after another, where asked for
 *     ctr-cat a.arrows other.arrows  another plan: refused, or told of through opts.mixed
 */
#include "common/stream/readercore.h"

#include <stdio.h>
#include <stdlib.h>

/* The schema of the current stream as our columns. */
static int make_schema(struct ctr_reader *r, struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_meta_copy(&s->meta, &r->arrow.meta, err);
    for (int i = 0; rc >= 0 && i < r->leaves.n; i++)
        rc = ctr_schema_add_field(s, &r->leaves.l[i].field, NULL, err);
    if (rc == CTR_EUSAGE) {
        rc = err->code = CTR_EKIND;
        ctr_err_add(err,
                    ": rename one where the stream is written, in pyarrow with Table.rename_columns (the child b of a "
                    "struct a is a.b)");
    }
    return rc;
}

static int room_for_columns(struct ctr_reader *r, int n, struct ctr_err *err)
{
    const size_t size = ((size_t)n + 1) * sizeof *r->cols[0];
    for (int k = 0; k < 2; k++) {
        struct ctr_col *cols = realloc(r->cols[k], size);
        if (!cols)
            return ctr_fail_nomem(err, size);
        r->cols[k] = cols;
    }
    return 0;
}

static int all_columns(struct ctr_reader *r, struct ctr_err *err)
{
    size_t n = (size_t)r->full.n + 1;
    int *columns = realloc(r->columns, n * sizeof *columns);
    if (!columns)
        return ctr_fail_nomem(err, n * sizeof *columns);
    r->columns = columns;
    for (int i = 0; i < r->full.n; i++)
        columns[i] = i;
    return room_for_columns(r, r->full.n, err);
}

/* Make the current stream the caller's current section. Takes ownership of `s`. */
static int adopt_section(struct ctr_reader *r, struct ctr_schema *s, struct ctr_err *err)
{
    const char *name = ctr_meta_get(&s->meta, CTR_META_SECTION), *all = ctr_meta_get(&s->meta, CTR_META_SECTIONS);
    int rc = 0;
    ctr_schema_free(&r->full);
    ctr_schema_free(&r->schema);
    r->full = *s;
    *s = (struct ctr_schema){ 0 };
    free(r->section);
    r->section = NULL;
    if (name)
        rc = ctr_strdup(&r->section, name, err);
    if (rc >= 0 && !r->section_set && all)
        rc = ctr_strs_split(&r->sections, all, ',', err);
    if (rc >= 0)
        rc = ctr_schema_copy(&r->schema, &r->full, err);
    if (rc >= 0)
        rc = all_columns(r, err);
    r->section_file = r->file;
    r->section_at += r->section_set;
    r->section_set = true;
    r->section_pending = false;
    if (rc >= 0 && r->opts.sections && r->section_at < r->sections.n &&
        (!name || strcmp(name, r->sections.s[r->section_at])))
        rc = ctr_fail(err, CTR_EDATA, "section '%s' is missing", r->sections.s[r->section_at]);
    return rc;
}

static const char *name_of(const char *section)
{
    return section ? section : "(unnamed)";
}

int ctr_reader_list_sections(const struct ctr_reader *r, struct ctr_buf *list, struct ctr_err *err)
{
    int rc = r->sections.n ? 0 : ctr_buf_printf(list, err, "%s", name_of(r->section));
    for (int i = 0; rc >= 0 && i < r->sections.n; i++)
        rc = ctr_buf_printf(list, err, "%s%s", i ? ", " : "", r->sections.s[i]);
    return CTR_MIN(rc, 0);
}

static int fail_bundle(const struct ctr_reader *r, const char *next, struct ctr_err *err)
{
    const char *first = r->section ? r->section : next ? next : "NAME";
    struct ctr_buf list = { 0 };
    int rc = ctr_reader_list_sections(r, &list, err);
    if (rc >= 0 && !r->sections.n)
        rc = ctr_buf_printf(&list, err, ", %s, …", name_of(next));
    if (rc >= 0)
        rc = ctr_fail(err, CTR_EDATA,
                      "is a bundle of sections (%s) where a plain stream is wanted: ctr-select --only %s takes that "
                      "section as one, ctr-select --section %s changes it and keeps the others",
                      (char *)list.data, first, first);
    ctr_buf_free(&list);
    return rc;
}

/* A stream that does not go on where the current section began: an error, or a note of what the caller drops. */
static int fail_other(struct ctr_reader *r, const struct ctr_difference *d, struct ctr_err *err)
{
    char here[64] = "", there[200];
    const char *first = r->paths[r->section_file];
    snprintf(there, sizeof there, "%.190s", !strcmp(first, "-") ? "stdin" : first);
    if (r->section_file == r->file) {
        snprintf(here, sizeof here, "stream %d in it (after row %lld) ", r->file_streams, (long long)r->file_rows);
        snprintf(there, sizeof there, "the first");
    }
    if (r->opts.mixed && d->of_identity && !r->section)
        return ctr_buf_printf(&r->mixed, err, "%s%s: %s%s; there: %s", r->mixed.len ? "\n" : "", r->src.name, here,
                              d->what, there);
    return ctr_fail(err, CTR_EDATA, "%scannot be joined with %s: %s: %s%s", here, there, d->what, d->remedy,
                    d->of_identity ? " (ctr-cat --force joins them, without their plan)"
                                   : " (the files of a command are read as one stream)");
}

int ctr_reader_enter(struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_difference d;
    int rc = make_schema(r, &s, err);
    const char *name = rc < 0 ? NULL : ctr_meta_get(&s.meta, CTR_META_SECTION);
    if (rc < 0)
        goto done;
    if (!r->section_set) {
        rc = adopt_section(r, &s, err);
        if (rc >= 0 && !r->opts.sections && r->sections.n > 1)
            rc = fail_bundle(r, NULL, err);
        rc = rc < 0 ? rc : STEP_ON;
    } else if (strcmp(name ? name : "", r->section ? r->section : "")) {
        if (!r->opts.sections) {
            rc = fail_bundle(r, name, err);
        } else {
            r->section_pending = true;
            rc = STEP_END;
        }
    } else {
        rc = ctr_streams_same(&r->full, &s, &d) ? 0 : fail_other(r, &d, err);
        rc = rc < 0 ? rc : STEP_ON;
    }
done:
    ctr_schema_free(&s);
    return rc;
}

int ctr_reader_adopt(struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    int rc = make_schema(r, &s, err);
    if (rc >= 0)
        rc = adopt_section(r, &s, err);
    ctr_schema_free(&s);
    return rc;
}

int ctr_reader_project(struct ctr_reader *r, const int *columns, int n, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    int rc = ctr_meta_copy(&s.meta, &r->full.meta, err);
    int *copy = malloc(((size_t)n + 1) * sizeof *copy);
    if (rc >= 0 && !copy)
        rc = ctr_fail_nomem(err, (size_t)n * sizeof *copy);
    if (rc >= 0)
        rc = room_for_columns(r, n, err);
    for (int i = 0; rc >= 0 && i < n; i++) {
        const struct arrow_leaf *l = &r->leaves.l[r->columns[columns[i]]];
        copy[i] = r->columns[columns[i]];
        rc = l->foreign ? ctr_leaf_refuse(l, err) : ctr_schema_add_field(&s, &r->schema.f[columns[i]], NULL, err);
    }
    if (rc < 0) {
        ctr_schema_free(&s);
        free(copy);
        return rc;
    }
    ctr_schema_free(&r->schema);
    free(r->columns);
    r->schema = s;
    r->columns = copy;
    return 0;
}
