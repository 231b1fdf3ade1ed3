/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: regroups batches of any size into messages of exactly batch_rows rows, or fewer if they would take more than
 * batch_bytes, so that the bytes depend only on the rows. A message is written from the columns in place; only
 * remaining rows are copied to `pending`. A dictionary is written when its content changes, after the rows that use the
 * previous one. Whatever a batch brings, an entry is written once, and nulls are in the validity of the indices: others
 * that read Arrow count nulls there, and take entries for categories.
 */
#include "common/stream/writer.h"

#include <stdio.h>
#include <stdlib.h>

/* The dictionary of an encoded column in `pending`: the dictionary itself has been written and may no longer exist. */
struct writer_dict {
    struct ctr_col stand_in;
    uint64_t id;              /* hash of what the batch brought, 0: none written yet */
    bool as_is;               /* it was written as it is; else: */
    struct ctr_values values; /* the entry of each of its values */
    struct ctr_colbuf entries, index;
};

struct ctr_writer {
    struct ctr_out *out;
    struct ctr_schema schema;
    struct ctr_writer_opts opts;
    struct ctr_batchbuf pending;
    int64_t pending_bytes;
    bool finished, failed;
    struct ctr_col *cols; /* of the current batch, in the form of the schema */
    struct writer_dict *dicts;
    struct arrow_body body, dict_body;
    struct ctr_fbw meta;
    struct ctr_buf iov;
    struct arrow_link link;
    int64_t rows, batches, start;
    struct ctr_file_writer *file; /* IPC file, or NULL */
};

/* With batch_rows 3, batches of 2 and of 5 rows become messages of 3, 3 and 1 rows:
 *
 *     batch 1   2 rows are copied to `pending`
 *     batch 2   row 0 completes them: message of 3; rows 1 2 3 are a message from the batch in place; row 4 is pending
 *     finish    message of 1; trailer; end mark
 *
 * A column of x y x that is encoded comes as indices 0 1 0 and the dictionary [x, y], which is a message before that of
 * the rows. If batch 2 has the dictionary [y, z], write_dictionary writes the 2 pending rows, then the new dictionary.
 * If a dictionary is [x, y, x], tidy leaves [x, y], and number_rows turns index 2 into 0. */

void ctr_writer_free(struct ctr_writer *w)
{
    if (!w)
        return;
    ctr_batchbuf_free(&w->pending);
    ctr_file_writer_free(w->file);
    ctr_body_free(&w->body);
    ctr_body_free(&w->dict_body);
    ctr_buf_free(&w->meta.b);
    ctr_buf_free(&w->iov);
    for (int i = 0; w->dicts && i < w->schema.n; i++) {
        ctr_values_free(&w->dicts[i].values);
        ctr_colbuf_free(&w->dicts[i].entries);
        ctr_colbuf_free(&w->dicts[i].index);
    }
    free(w->cols);
    free(w->dicts);
    ctr_schema_free(&w->schema);
    free(w);
}

int64_t ctr_writer_rows(const struct ctr_writer *w)
{
    return w->rows + ctr_batchbuf_rows(&w->pending);
}

const struct ctr_schema *ctr_writer_schema(const struct ctr_writer *w)
{
    return &w->schema;
}

/* ---- messages ---- */

static int add_iov(struct ctr_writer *w, const void *p, size_t n, struct ctr_err *err)
{
    struct iovec v = { (void *)(uintptr_t)p, n };
    return n ? ctr_buf_append(&w->iov, &v, sizeof v, err) : 0;
}

/* Metadata, then the buffers, each padded with zeros to 64 bytes. */
static int send(struct ctr_writer *w, const struct arrow_body *b, struct ctr_err *err)
{
    static const uint8_t zeros[ARROW_ALIGN];
    const struct arrow_part *p = b ? ctr_body_parts(b) : NULL;
    w->iov.len = 0;
    int rc = add_iov(w, w->meta.b.data, w->meta.b.len, err);
    for (int i = 0; rc >= 0 && b && i < b->nparts; i++) {
        rc = add_iov(w, p[i].p, p[i].n, err);
        if (rc >= 0)
            rc = add_iov(w, zeros, (ARROW_ALIGN - p[i].n % ARROW_ALIGN) % ARROW_ALIGN, err);
    }
    if (rc >= 0)
        rc = ctr_out_writev(w->out, (struct iovec *)w->iov.data, (int)(w->iov.len / sizeof(struct iovec)), err);
    *ctr_out_seal(w->out) = w->link.after;
    return rc < 0 || !w->file ? rc : ctr_file_writer_seal(w->file, &w->link.after, err);
}

static struct arrow_block block_here(const struct ctr_writer *w, int64_t body_length)
{
    return (struct arrow_block){ ctr_out_tell(w->out) - w->start, (int64_t)w->meta.b.len, body_length };
}

/* Write rows [from, from+n) of the current columns; n == 0 with `trailer`: the end. */
static int write_batch(struct ctr_writer *w, const struct ctr_col *cols, int64_t from, int64_t n,
                       const struct ctr_meta *trailer, struct ctr_err *err)
{
    enum ctr_compression how = trailer ? CTR_PLAIN : w->opts.compression;
    int rc = 0;
    ctr_body_clear(&w->body);
    for (int i = 0; rc >= 0 && i < w->schema.n; i++)
        rc = ctr_body_column(&w->body, &cols[i], w->schema.f[i].width, from, n, err);
    if (rc >= 0)
        rc = ctr_body_seal(&w->body, how, err);
    if (rc >= 0)
        rc = ctr_meta_batch(&w->meta, &w->body, n, -1, &w->link, how, trailer, err);
    if (rc >= 0 && w->file && !trailer)
        rc = ctr_file_writer_block(w->file, block_here(w, w->body.length), cols, from, n, err);
    if (rc >= 0)
        rc = send(w, &w->body, err);
    if (rc >= 0 && !trailer) {
        w->rows += n;
        w->batches++;
    }
    return rc;
}

/* Tells a dictionary from the one before. Keyed: those of a crafted input differ, too. */
static uint64_t body_id(const struct arrow_body *b)
{
    const struct arrow_part *p = ctr_body_parts(b);
    uint64_t h = ctr_hash64(b->nodes.data, b->nodes.len, ctr_hash_secret);
    for (int i = 0; i < b->nparts; i++)
        h = ctr_hash64(p[i].n ? p[i].p : "", p[i].n, h) + p[i].n;
    return h | 1;
}

static int write_pending(struct ctr_writer *w, struct ctr_err *err)
{
    int64_t n = ctr_batchbuf_rows(&w->pending);
    if (!n)
        return 0;
    int rc = write_batch(w, ctr_batchbuf_view(&w->pending)->col, 0, n, NULL, err);
    ctr_batchbuf_clear(&w->pending);
    w->pending_bytes = 0;
    return rc;
}

static int seal_dictionary(struct ctr_writer *w, int i, const struct ctr_col *values, struct ctr_err *err)
{
    ctr_body_clear(&w->dict_body);
    int rc = ctr_body_column(&w->dict_body, values, w->schema.f[i].width, 0, values->rows, err);
    return rc >= 0 ? ctr_body_seal(&w->dict_body, w->opts.compression, err) : rc;
}

/* Leave out nulls and what occurs again. */
static int tidy(struct writer_dict *d, const struct ctr_field *f, const struct ctr_col *values, struct ctr_err *err)
{
    int rc = ctr_values_number(&d->values, values, f->width, err);
    d->as_is = d->values.n == values->rows;
    if (rc < 0 || d->as_is)
        return rc;
    struct ctr_field plain = *f;
    plain.dict = false;
    ctr_colbuf_free(&d->entries);
    rc = ctr_colbuf_init(&d->entries, &plain, err);
    if (rc >= 0)
        rc = ctr_colbuf_gather(&d->entries, values, (const int64_t *)(const void *)d->values.first.data, d->values.n,
                               err);
    return rc;
}

/* Write the dictionary of column i, unless it equals the last one that came. */
static int write_dictionary(struct ctr_writer *w, int i, const struct ctr_col *values, struct ctr_err *err)
{
    struct writer_dict *d = &w->dicts[i];
    int rc = seal_dictionary(w, i, values, err);
    if (rc < 0)
        return rc;
    const uint64_t id = body_id(&w->dict_body);
    if (id == d->id)
        return 0;
    rc = tidy(d, &w->schema.f[i], values, err);
    if (rc >= 0 && !d->as_is)
        rc = seal_dictionary(w, i, values = ctr_colbuf_view(&d->entries), err);
    if (rc >= 0)
        rc = write_pending(w, err);
    if (rc >= 0)
        rc = ctr_meta_batch(&w->meta, &w->dict_body, values->rows, i, &w->link, w->opts.compression, NULL, err);
    if (rc >= 0)
        rc = send(w, &w->dict_body, err);
    d->id = id;
    d->stand_in = (struct ctr_col){ .type = values->type, .rows = values->rows };
    return rc;
}

/* ---- opening ---- */

/* Readers refuse names that are not UTF-8, and drop such metadata silently. */
static int check_texts(const struct ctr_schema *s, struct ctr_err *err)
{
    for (int i = -1; i < s->n; i++) {
        const struct ctr_meta *m = i < 0 ? &s->meta : &s->f[i].meta;
        const char *name = i < 0 ? "" : s->f[i].name;
        if (!ctr_utf8_valid((const uint8_t *)name, strlen(name)))
            return ctr_fail(err, CTR_EDATA, "the name of column %d is not UTF-8", i + 1);
        for (int k = 0; k < 2 * m->n; k++)
            if (!ctr_utf8_valid((const uint8_t *)m->kv[k], strlen(m->kv[k])))
                return ctr_fail(err, CTR_EDATA, "the metadata %s is not UTF-8", m->kv[k & ~1]);
    }
    return 0;
}

static int check_schema(const struct ctr_schema *s, struct ctr_err *err)
{
    char name[64];
    int left = ARROW_MAX_FIELDS; /* the readers' limit, which includes list items and their children */
    for (int i = 0; i < s->n; i++) {
        const struct ctr_field *f = &s->f[i];
        bool list = ctr_type_list(f->type);
        bool nested = list && (ctr_type_list(f->item) || (f->item == CTR_WKEY && f->type == CTR_FIXED));
        if (nested || f->type == CTR_WKEY || f->type == CTR_FOREIGN || (f->type == CTR_FIXED && f->width < 0))
            return ctr_fail(err, CTR_EDATA, "column '%s' of type %s cannot be written", f->name,
                            ctr_field_type_name(f, name, sizeof name));
        left -= !list ? 1 : f->item == CTR_WKEY ? 4 : 2;
        if (left < 0)
            return ctr_fail(err, CTR_EDATA, "more than %d columns (a list counts as two)", ARROW_MAX_FIELDS);
    }
    return 0;
}

/* A section that is not the first of its bundle follows what was written before. */
static struct ctr_seal written_before(const struct ctr_writer *w)
{
    struct ctr_seal none;
    memcpy(none.digits, CTR_SEAL_NONE, sizeof none.digits);
    const struct ctr_meta *m = &w->schema.meta;
    return ctr_meta_get(m, CTR_META_SECTION) && !ctr_meta_get(m, CTR_META_SECTIONS) ? *ctr_out_seal(w->out) : none;
}

static int start(struct ctr_writer *w, struct ctr_err *err)
{
    size_t n = (size_t)w->schema.n + 1;
    w->cols = calloc(n, sizeof *w->cols);
    w->dicts = calloc(n, sizeof *w->dicts);
    if (!w->cols || !w->dicts)
        return ctr_fail_nomem(err, n * sizeof *w->cols);
    int rc = ctr_batchbuf_init(&w->pending, &w->schema, err);
    if (rc < 0)
        return rc;
    w->start = ctr_out_tell(w->out);
    w->link.after = written_before(w);
    if (w->opts.file) {
        static const uint8_t magic[8] = "ARROW1";
        rc = ctr_file_writer_new(&w->file, &w->schema, w->opts.key, err);
        if (rc >= 0)
            rc = ctr_out_write(w->out, magic, sizeof magic, err);
    }
    if (rc >= 0)
        rc = ctr_meta_schema(&w->meta, &w->schema, &w->link, ctr_out_tell(w->out) - w->start, err);
    return rc < 0 ? rc : send(w, NULL, err);
}

int ctr_writer_open(struct ctr_writer **out, struct ctr_out *o, const struct ctr_schema *schema,
                    const struct ctr_writer_opts *opts, struct ctr_err *err)
{
    struct ctr_writer *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return ctr_fail_nomem(err, sizeof *w);
    w->out = o;
    if (opts)
        w->opts = *opts;
    if (w->opts.batch_rows <= 0)
        w->opts.batch_rows = CTR_BATCH_ROWS;
    if (w->opts.batch_bytes <= 0)
        w->opts.batch_bytes = CTR_BATCH_BYTES;
    int rc = check_schema(schema, err);
    if (rc >= 0)
        rc = check_texts(schema, err);
    if (rc >= 0)
        rc = ctr_schema_copy(&w->schema, schema, err);
    for (int i = 0; rc >= 0 && w->opts.file && i < w->schema.n; i++)
        w->schema.f[i].dict = false; /* a file cannot replace a dictionary */
    if (rc >= 0)
        rc = start(w, err);
    if (rc < 0) {
        ctr_writer_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

/* ---- rows ---- */

/* Indices of the entries that were written. A column without a dictionary was its own. */
static int number_rows(struct writer_dict *d, const struct ctr_col *c, struct ctr_col *to, struct ctr_err *err)
{
    const int32_t *number = (const int32_t *)(const void *)d->values.number.data;
    int rc = 0;
    ctr_colbuf_clear(&d->index);
    d->index.type = CTR_I32;
    for (int64_t r = 0; rc >= 0 && r < c->rows; r++) {
        const int32_t entry = ctr_col_null(c, r) ? -1 : number[c->dict ? ((const int32_t *)c->data)[r] : r];
        rc = entry < 0 ? ctr_colbuf_null(&d->index, err) : ctr_colbuf_i64(&d->index, entry, err);
    }
    *to = *ctr_colbuf_view(&d->index);
    to->type = d->stand_in.type;
    return rc;
}

/* Convert the columns to the form of the schema, and write every dictionary. *plain: can they be written in place? */
static int adopt(struct ctr_writer *w, const struct ctr_batch *b, bool *plain, struct ctr_err *err)
{
    *plain = true;
    for (int i = 0; i < w->schema.n; i++) {
        const struct ctr_col *c = &b->col[i];
        int rc = 0;
        w->cols[i] = *c;
        if (!w->schema.f[i].dict) {
            *plain &= !c->dict; /* pending rows are decoded */
            continue;
        }
        struct writer_dict *d = &w->dicts[i];
        rc = write_dictionary(w, i, c->dict ? c->dict : c, err);
        if (rc >= 0 && !(d->as_is && c->dict))
            rc = number_rows(d, c, &w->cols[i], err);
        if (rc < 0)
            return rc;
        w->cols[i].dict = &d->stand_in;
    }
    return 0;
}

static int64_t bytes_of(const struct ctr_writer *w, int64_t at, int64_t n)
{
    int64_t bytes = 0;
    for (int i = 0; i < w->schema.n; i++)
        bytes += w->schema.f[i].dict ? 4 * n : ctr_col_bytes(&w->cols[i], at, n);
    return bytes;
}

/* How many of rows [at, at + n) still fit into the message with the pending rows: at least one if there are none.
 * *bytes: their size. */
static int64_t rows_that_fit(const struct ctr_writer *w, int64_t at, int64_t n, int64_t *bytes)
{
    const int64_t room = w->opts.batch_bytes - w->pending_bytes;
    int64_t least = ctr_batchbuf_rows(&w->pending) ? 0 : 1, most = n;
    *bytes = bytes_of(w, at, n);
    if (*bytes <= room || n <= least)
        return n;
    while (least + 1 < most) {
        const int64_t middle = least + (most - least) / 2;
        if (bytes_of(w, at, middle) <= room)
            least = middle;
        else
            most = middle;
    }
    *bytes = bytes_of(w, at, least);
    return least;
}

static int write_rows(struct ctr_writer *w, const struct ctr_batch *b, struct ctr_err *err)
{
    bool plain;
    int rc = adopt(w, b, &plain, err);
    struct ctr_batch mine = { .schema = &w->schema, .rows = b->rows, .col = w->cols };
    for (int64_t at = 0; rc >= 0 && at < b->rows;) {
        int64_t have = ctr_batchbuf_rows(&w->pending), want = w->opts.batch_rows - have;
        int64_t some = CTR_MIN(want, b->rows - at), bytes, k = rows_that_fit(w, at, some, &bytes);
        const bool full = k == want || k < some;
        if (plain && !have && full) {
            rc = write_batch(w, w->cols, at, k, NULL, err);
        } else {
            rc = k ? ctr_batchbuf_range(&w->pending, &mine, at, k, err) : 0;
            w->pending_bytes += bytes;
            if (rc >= 0 && full)
                rc = write_pending(w, err);
        }
        at += k;
    }
    return rc;
}

/* Without columns rows are only counted. */
static int write_empty_rows(struct ctr_writer *w, int64_t rows, struct ctr_err *err)
{
    for (int rc; rows > 0; rows -= w->opts.batch_rows)
        if ((rc = write_batch(w, w->cols, 0, CTR_MIN(rows, w->opts.batch_rows), NULL, err)) < 0)
            return rc;
    return 0;
}

int ctr_writer_batch(struct ctr_writer *w, const struct ctr_batch *b, struct ctr_err *err)
{
    if (!b->rows)
        return 0;
    if (w->finished || w->failed)
        return ctr_fail(err, CTR_EDATA, "%s: written after its end", ctr_out_name(w->out));
    int rc = w->schema.n ? write_rows(w, b, err) : write_empty_rows(w, b->rows, err);
    w->failed = rc < 0;
    return rc < 0 ? rc : 0;
}

int ctr_writer_flush(struct ctr_writer *w, struct ctr_err *err)
{
    int rc = 0;
    if (w->finished || w->failed || w->file)
        return 0; /* nobody reads a file meanwhile */
    rc = write_pending(w, err);
    if (rc >= 0)
        rc = ctr_out_flush(w->out, err);
    w->failed = rc < 0;
    return rc;
}

/* ---- the end ---- */

/* A column without rows, for the trailer and for dictionaries that never occurred. */
static int empty_columns(struct ctr_writer *w, struct ctr_err *err)
{
    const struct ctr_batch *none = ctr_batchbuf_view(&w->pending);
    for (int i = 0; i < w->schema.n; i++) {
        struct ctr_field f = w->schema.f[i];
        f.dict = false;
        struct ctr_colbuf b;
        int rc = ctr_colbuf_init(&b, &f, err);
        if (rc >= 0 && w->schema.f[i].dict && !w->dicts[i].id)
            rc = write_dictionary(w, i, ctr_colbuf_view(&b), err);
        ctr_colbuf_free(&b);
        if (rc < 0)
            return rc;
        w->cols[i] = none->col[i];
        if (w->schema.f[i].dict)
            w->cols[i].dict = &w->dicts[i].stand_in;
    }
    return 0;
}

static int write_trailer(struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_meta m = { 0 };
    char rows[24], batches[24];
    snprintf(rows, sizeof rows, "%lld", (long long)w->rows);
    snprintf(batches, sizeof batches, "%lld", (long long)w->batches);
    int rc = ctr_meta_set(&m, CTR_SEAL_ROWS, rows, err);
    if (rc >= 0)
        rc = ctr_meta_set(&m, CTR_SEAL_BATCHES, batches, err);
    if (rc >= 0)
        rc = write_batch(w, w->cols, 0, 0, &m, err);
    ctr_meta_free(&m);
    return rc;
}

int ctr_writer_finish(struct ctr_writer *w, struct ctr_err *err)
{
    static const uint8_t eos[8] = { 0xff, 0xff, 0xff, 0xff };
    if (w->finished || w->failed)
        return ctr_fail(err, CTR_EDATA, "%s: ended twice, or after a failure", ctr_out_name(w->out));
    int rc = write_pending(w, err);
    if (rc >= 0)
        rc = empty_columns(w, err);
    if (rc >= 0)
        rc = write_trailer(w, err);
    if (rc >= 0)
        rc = ctr_out_write(w->out, eos, sizeof eos, err);
    if (rc >= 0 && w->file)
        rc = ctr_file_writer_finish(w->file, w->out, &w->schema, w->rows, w->batches, err);
    w->finished = true;
    w->failed = rc < 0;
    return rc < 0 ? rc : 0;
}

/* ---- provenance ---- */

int ctr_schema_provenance(struct ctr_schema *s, const char *program, const char *options, struct ctr_err *err)
{
    const char *old = ctr_meta_get(&s->meta, CTR_META_PG), *last = old ? strrchr(old, '\n') : NULL;
    struct ctr_buf line = { 0 }, all = { 0 };
    int rc = ctr_buf_printf(&line, err, "%s\t%s\t%s\t", program, CTR_VERSION, options ? options : "");
    last = last ? last + 1 : old;
    const bool utf8 = ctr_utf8_valid(line.data, line.len);
    for (size_t i = 0; rc >= 0 && i < line.len; i++)
        if (line.data[i] == '\n' || (!utf8 && line.data[i] >= 0x80))
            line.data[i] = line.data[i] == '\n' ? ' ' : '?'; /* for example a --delimiter in latin1 */
    /* The parent is the previous program; a repeated line is omitted. */
    if (rc >= 0 && last)
        rc = ctr_buf_append(&line, last, strcspn(last, "\t"), err);
    if (rc >= 0)
        rc = ctr_buf_append(&line, "", 1, err);
    if (rc >= 0 && old) {
        size_t n = line.len - 1;
        for (const char *p = old; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
            if (strcspn(p, "\n") == n && !memcmp(p, line.data, n))
                goto done;
        rc = ctr_buf_printf(&all, err, "%s\n", old);
    }
    if (rc >= 0)
        rc = ctr_buf_append(&all, line.data, line.len, err);
    if (rc >= 0)
        rc = ctr_meta_set(&s->meta, CTR_META_PG, (char *)all.data, err);
done:
    ctr_buf_free(&line);
    ctr_buf_free(&all);
    return rc < 0 ? rc : 0;
}
