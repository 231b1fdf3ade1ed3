/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes safetensors. The header, which comes first, has the length of every tensor: so data wait in temporary files,
 * one for the first tensor of each section, one for the second, and so on. */
#include "tools/ctr-export/safetensors.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/text/json.h"

enum { MAX_SPILLS = 256, COPY_BYTES = 1 << 20 };

static const char *const dtypes[CTR_NTYPES] = {
    [CTR_BOOL] = "BOOL", [CTR_I8] = "I8",   [CTR_I16] = "I16",  [CTR_I32] = "I32", [CTR_I64] = "I64",
    [CTR_U8] = "U8",     [CTR_U16] = "U16", [CTR_U32] = "U32",  [CTR_U64] = "U64", [CTR_F16] = "F16",
    [CTR_F32] = "F32",   [CTR_F64] = "F64", [CTR_TIME] = "I64",
};

struct tensor {
    char *name;
    enum ctr_type type;
    int64_t rows, width; /* width 0: a vector */
    bool one_row;        /* its values are the tensor */
    int spill;
    int64_t at, bytes; /* in the temporary file */
    int column;        /* of its section */
};

struct writer {
    struct tensor *t;
    int n, first; /* of the section being read */
    int spill[MAX_SPILLS], spills;
    int64_t end[MAX_SPILLS];
    char *metadata; /* of the first section: JSON members */
};

static size_t size_of(enum ctr_type t)
{
    return t == CTR_BOOL ? 1 : (size_t)ctr_types[t].width;
}

/* ---- sections ---- */

/* The name of column c of a section; "" if it is left out on purpose. */
static int name_tensor(const struct ctr_schema *s, int c, struct ctr_buf *name, struct ctr_err *err)
{
    static const char *const beside[] = { "row", "m", "v", "count" };
    const char *section = ctr_meta_get(&s->meta, CTR_META_SECTION), *column = s->f[c].name;
    const bool valued = section && ctr_schema_find(s, "value") >= 0;
    for (size_t i = 0; i < CTR_COUNT(beside); i++)
        if (valued && !strcmp(column, beside[i]))
            return ctr_buf_printf(name, err, "%s", "");
    if (valued && !strcmp(column, "value"))
        return ctr_buf_printf(name, err, "%s", section);
    return ctr_buf_printf(name, err, "%s%s%s", section ? section : "", section ? "." : "", column);
}

static int add_tensor(struct writer *w, const struct ctr_schema *s, int c, const char *name, struct ctr_err *err)
{
    const struct ctr_field *f = &s->f[c];
    const char *shape = ctr_meta_get(&s->meta, CTR_META_SHAPE);
    struct tensor *t = realloc(w->t, ((size_t)w->n + 1) * sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, ((size_t)w->n + 1) * sizeof *t);
    w->t = t;
    const int spill = w->n - w->first;
    if (spill >= MAX_SPILLS)
        return ctr_fail(err, CTR_EUSAGE, "more than %d columns of numbers: choose some with ctr-select --columns",
                        MAX_SPILLS);
    if (spill == w->spills) {
        if ((w->spill[spill] = ctr_tmpfile(err)) < 0)
            return w->spill[spill];
        w->spills++;
    }
    t[w->n] = (struct tensor){ .type = f->type == CTR_FIXED ? f->item : f->type,
                               .width = f->type == CTR_FIXED ? f->width : 0,
                               .one_row = shape && !strcmp(shape, "vector") && !strcmp(f->name, "value"),
                               .spill = spill,
                               .at = w->end[spill],
                               .column = c };
    return ctr_strdup(&t[w->n++].name, name, err);
}

static int start_section(struct writer *w, const struct ctr_schema *s, struct ctr_buf *left_out, struct ctr_err *err)
{
    const char *shape = ctr_meta_get(&s->meta, CTR_META_SHAPE);
    int rc = 0;
    w->first = w->n;
    if (shape && !strcmp(shape, "none")) /* it only describes the others */
        return 0;
    for (int c = 0; c < s->n && !rc; c++) {
        const struct ctr_field *f = &s->f[c];
        struct ctr_buf name = { 0 };
        bool number = dtypes[f->type == CTR_FIXED ? f->item : f->type];
        if ((rc = name_tensor(s, c, &name, err)) == 0 && *name.data) {
            if (number)
                rc = add_tensor(w, s, c, (const char *)name.data, err);
            else
                rc = ctr_buf_printf(left_out, err, "%s%s", left_out->len ? ", " : "", (const char *)name.data);
        }
        ctr_buf_free(&name);
    }
    return rc;
}

/* ---- data ---- */

/* Write `n` values of c from `from` on; bools as one byte each. */
static int put_values(struct writer *w, struct tensor *t, const struct ctr_col *c, int64_t from, int64_t n,
                      struct ctr_err *err)
{
    const size_t bytes = (size_t)n * size_of(t->type);
    struct ctr_buf b = { 0 };
    int rc = 0;
    if (t->type != CTR_BOOL) {
        rc = ctr_write_full(w->spill[t->spill], (const uint8_t *)c->data + (size_t)from * size_of(t->type), bytes, err);
    } else if ((rc = ctr_buf_reserve(&b, bytes, err)) == 0) {
        for (int64_t i = 0; i < n; i++)
            b.data[i] = ctr_bit(c->data, from + i);
        rc = ctr_write_full(w->spill[t->spill], b.data, bytes, err);
    }
    ctr_buf_free(&b);
    t->bytes += (int64_t)bytes;
    w->end[t->spill] += (int64_t)bytes;
    return rc;
}

static int put_column(struct writer *w, struct tensor *t, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[t->column];
    const int64_t width = CTR_MAX(t->width, 1);
    int rc = 0;
    for (int64_t i = 0; i < b->rows; i++)
        if (ctr_col_missing(c, i))
            return ctr_fail(err, CTR_EDATA,
                            "row %lld: column %s: a tensor has no null; fill it (ctr-select --add 'x=fill(…)')",
                            (long long)(b->first_row + i + 1), b->schema->f[t->column].name);
    if (t->width && !c->dict && c->item->nulls)
        return ctr_fail(err, CTR_EDATA, "column %s: a list has nulls, a tensor has none", b->schema->f[t->column].name);
    t->rows += b->rows;
    if (!c->dict)
        return t->width ? put_values(w, t, c->item, 0, b->rows * width, err) : put_values(w, t, c, 0, b->rows, err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        int64_t at = ((const int32_t *)c->data)[i];
        rc = put_values(w, t, t->width ? c->dict->item : c->dict, at * width, width, err);
    }
    return rc;
}

static int read_section(struct writer *w, struct ctr_reader *r, struct ctr_buf *left_out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = start_section(w, ctr_reader_schema(r), left_out, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int i = w->first; i < w->n && !rc; i++)
            rc = put_column(w, &w->t[i], b, err);
    }
    return rc;
}

/* ---- the file ---- */

static int by_alignment(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    size_t m = size_of(x->type), n = size_of(y->type);
    return m != n ? (m < n ? 1 : -1) : strcmp(x->name, y->name);
}

/* The model's metadata for readers of the tensors: all except the plan's text. */
static int put_metadata(struct ctr_buf *head, const struct ctr_meta *m, struct ctr_err *err)
{
    struct ctr_say s = { head, err, 0 };
    bool any = false;
    for (int i = 0; i < m->n; i++) {
        const char *key = m->kv[(size_t)i * 2], *value = m->kv[(size_t)i * 2 + 1];
        if (strncmp(key, "ctr.", 4) != 0 || !strcmp(key, CTR_META_SECTIONS))
            continue;
        ctr_say_json_text(&s, any ? "," : "{\"__metadata__\":{", key);
        ctr_say_json_text(&s, ":", value);
        any = true;
    }
    ctr_say(&s, "%s", any ? "}" : "{");
    return s.rc;
}

static int put_head(const struct writer *w, struct ctr_buf *head, struct ctr_err *err)
{
    struct ctr_say s = { head, err, 0 };
    int64_t at = 0;
    ctr_say(&s, "%s", w->metadata);
    for (int i = 0; i < w->n; i++) {
        const struct tensor *t = &w->t[i];
        ctr_say_json_text(&s, i || strlen(w->metadata) > 1 ? "," : "", t->name);
        ctr_say(&s, ":{\"dtype\":\"%s\",\"shape\":[", dtypes[t->type]);
        if (!t->one_row)
            ctr_say(&s, "%lld%s", (long long)t->rows, t->width ? "," : "");
        if (t->width)
            ctr_say(&s, "%lld", (long long)t->width);
        ctr_say(&s, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + t->bytes));
        at += t->bytes;
    }
    ctr_say(&s, "}");
    while (!s.rc && head->len % 8)
        ctr_say(&s, " ");
    return s.rc;
}

static int copy_tensor(const struct writer *w, const struct tensor *t, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = ctr_buf_reserve(&b, COPY_BYTES, err);
    for (int64_t at = 0; at < t->bytes && !rc;) {
        size_t n = (size_t)CTR_MIN(t->bytes - at, (int64_t)COPY_BYTES);
        rc = ctr_pread_full(w->spill[t->spill], b.data, n, t->at + at, err);
        if (!rc)
            rc = ctr_out_write(out, b.data, n, err);
        at += (int64_t)n;
    }
    ctr_buf_free(&b);
    return rc;
}

static int write_file(struct writer *w, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf head = { 0 };
    if (!w->n)
        return ctr_fail(err, CTR_EUSAGE, "no numeric column: safetensors holds numbers and fixed_size_lists of them");
    qsort(w->t, (size_t)w->n, sizeof *w->t, ctr_by_text);
    for (int i = 1; i < w->n; i++)
        if (!strcmp(w->t[i].name, w->t[i - 1].name))
            return ctr_fail(err, CTR_EDATA, "two tensors would have the name %s", w->t[i].name);
    qsort(w->t, (size_t)w->n, sizeof *w->t, by_alignment);
    int rc = put_head(w, &head, err);
    uint64_t len = head.len;
    if (!rc)
        rc = ctr_out_write(out, &len, sizeof len, err);
    if (!rc)
        rc = ctr_out_write(out, head.data, head.len, err);
    for (int i = 0; i < w->n && !rc; i++)
        rc = copy_tensor(w, &w->t[i], out, err);
    ctr_buf_free(&head);
    return rc;
}

int ctr_safetensors_write(struct ctr_reader *r, struct ctr_out *out, struct ctr_buf *left_out, struct ctr_err *err)
{
    struct writer w = { 0 };
    struct ctr_buf metadata = { 0 };
    int rc = put_metadata(&metadata, &ctr_reader_schema(r)->meta, err);
    w.metadata = (char *)metadata.data;
    while (!rc && (rc = read_section(&w, r, left_out, err)) == 0 && (rc = ctr_reader_section(r, err)) > 0)
        rc = 0;
    if (!rc)
        rc = write_file(&w, out, err);
    for (int i = 0; i < w.n; i++)
        free(w.t[i].name);
    for (int i = 0; i < w.spills; i++)
        close(w.spill[i]);
    free(w.t);
    ctr_buf_free(&metadata);
    return rc;
}
