/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_source: streams as sources of batches, and adapters for any source: column selection, batch size.
 */
#include "common/stream/stream.h"

#include <stdlib.h>

/* ---- a stream, or files ---- */

static const struct ctr_schema *stream_schema(const void *source)
{
    return ctr_reader_schema(source);
}

static int stream_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_reader_next(source, b, err);
}

static const char *stream_name(const void *source)
{
    return ctr_reader_file(source);
}

static void stream_close(void *source)
{
    ctr_reader_free(source);
}

static int stream_project(void *source, const int *columns, int n, struct ctr_err *err)
{
    return ctr_reader_project(source, columns, n, err);
}

struct ctr_batch_source ctr_batch_source_stream(struct ctr_reader *r)
{
    static const struct ctr_batch_source_ops ops = { stream_schema, stream_next, stream_name, stream_close,
                                                     stream_project };
    return (struct ctr_batch_source){ &ops, r };
}

/* ---- some of the columns ---- */

struct picked {
    struct ctr_batch_source below;
    struct ctr_schema schema;
    int *column; /* of `below`, one per column of the schema */
    struct ctr_col *col;
    struct ctr_batch view;
};

static const struct ctr_schema *picked_schema(const void *source)
{
    return &((const struct picked *)source)->schema;
}

static int picked_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct picked *p = source;
    const struct ctr_batch *in;
    int rc = ctr_batch_source_next(&p->below, &in, err);
    if (rc <= 0)
        return rc;
    for (int i = 0; i < p->schema.n; i++)
        p->col[i] = in->col[p->column[i]];
    p->view = (struct ctr_batch){ &p->schema, in->rows, in->first_row, p->col };
    *b = &p->view;
    return rc;
}

static void picked_close(void *source)
{
    struct picked *p = source;
    ctr_batch_source_close(&p->below);
    ctr_schema_free(&p->schema);
    free(p->column);
    free(p->col);
    free(p);
}

/* columns NULL: all. program NULL: no provenance line. */
static int pick(struct ctr_batch_source *s, const int *columns, int n, const char *program, const char *options,
                struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { picked_schema, picked_next, NULL, picked_close, NULL };
    const struct ctr_schema *full = ctr_batch_source_schema(s);
    struct picked *p = calloc(1, sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->column = calloc((size_t)n + 1, sizeof *p->column);
    p->col = calloc((size_t)n + 1, sizeof *p->col);
    int rc = p->column && p->col ? ctr_meta_copy(&p->schema.meta, &full->meta, err)
                                 : ctr_fail_nomem(err, (size_t)n * sizeof *p->col);
    for (int i = 0; !rc && i < n; i++) {
        p->column[i] = columns ? columns[i] : i;
        rc = ctr_schema_add_field(&p->schema, &full->f[p->column[i]], NULL, err);
    }
    if (!rc && program)
        rc = ctr_schema_provenance(&p->schema, program, options, err);
    if (rc) {
        picked_close(p);
        return rc;
    }
    p->below = *s;
    *s = (struct ctr_batch_source){ &ops, p };
    return 0;
}

int ctr_batch_source_project(struct ctr_batch_source *s, const int *columns, int n, struct ctr_err *err)
{
    return s->ops->project ? s->ops->project(s->source, columns, n, err) : pick(s, columns, n, NULL, NULL, err);
}

int ctr_batch_source_keep(struct ctr_batch_source *s, int *const *c, int n, const bool *others, struct ctr_err *err)
{
    const int all = ctr_batch_source_schema(s)->n;
    int *which = calloc((size_t)all + 1, sizeof *which), *to = calloc((size_t)all + 1, sizeof *to), k = 0;
    int rc = which && to ? 0 : ctr_fail_nomem(err, (size_t)all * sizeof *which);

    for (int i = 0; !rc && i < all; i++) {
        bool need = others && others[i];
        for (int j = 0; j < n; j++)
            need |= *c[j] == i;
        to[i] = k;
        if (need)
            which[k++] = i;
    }
    for (int j = 0; !rc && j < n; j++)
        if (*c[j] >= 0)
            *c[j] = to[*c[j]];
    if (!rc)
        rc = ctr_batch_source_project(s, which, k, err);
    free(which);
    free(to);
    return rc;
}

int ctr_batch_source_provenance(struct ctr_batch_source *s, const char *program, const char *options,
                                struct ctr_err *err)
{
    return pick(s, NULL, ctr_batch_source_schema(s)->n, program, options, err);
}

/* ---- batches of another size ---- */

struct regrouped {
    struct ctr_batch_source below;
    struct ctr_schema plain; /* of buf: decoded, because rows of several batches have several dictionaries */
    struct ctr_part part;
    bool encoded; /* some column is encoded */
    int64_t rows, given;
    const struct ctr_batch *from; /* rows from `at` on are still to be returned; NULL: none */
    int64_t at;
    int end; /* the result of `below` instead of a batch, and its error */
    struct ctr_err err;
    struct ctr_batchbuf buf;
    struct ctr_batch view;
    const char *name; /* of the file of the last batch */
};

static const char *regrouped_name(const void *source)
{
    const struct regrouped *r = source;
    return r->name ? r->name : ctr_batch_source_name(&r->below);
}

static void regrouped_close(void *source)
{
    struct regrouped *r = source;
    ctr_batch_source_close(&r->below);
    ctr_batchbuf_free(&r->buf);
    ctr_part_free(&r->part);
    ctr_schema_free(&r->plain);
    free(r);
}

/* Are there more rows? If not, `end` has the reason. */
static bool has_rows(struct regrouped *r)
{
    while (!r->from && r->end > 0) {
        r->end = ctr_batch_source_next(&r->below, &r->from, &r->err);
        r->at = 0;
        if (r->end <= 0)
            r->from = NULL;
    }
    return r->from;
}

static void take(struct regrouped *r, int64_t n)
{
    r->at += n;
    r->given += n;
    if (r->at == r->from->rows)
        r->from = NULL;
}

/* Copies rows unless a batch has exactly the requested number. A batch has rows of one file, so that messages name
 * it. */
static int regrouped_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct regrouped *r = source;
    const int64_t want = r->rows - r->given % r->rows;
    int64_t first = 0, n = 0, k;
    int rc = 0;
    ctr_batchbuf_clear(&r->buf);
    r->name = NULL;
    for (; n < want && has_rows(r) && !rc; n += k) {
        const char *name = ctr_batch_source_name(&r->below);
        if (n && name != r->name)
            break;
        r->name = name;
        k = CTR_MIN(want - n, r->from->rows - r->at);
        if (!n && !r->at && (k == want ? r->from->rows == want : !r->from->rows)) {
            *b = r->from;
            take(r, k);
            return 1;
        }
        if (!n && k == want && r->encoded) { /* a copy would decode it */
            rc = ctr_batch_part(&r->part, r->from, r->at, k, err);
            *b = &r->part.batch;
            take(r, k);
            return rc ? rc : 1;
        }
        first = n ? first : r->from->first_row + r->at;
        rc = ctr_batchbuf_range(&r->buf, r->from, r->at, k, err);
        take(r, k);
    }
    if (!rc && !n && r->end < 0)
        *err = r->err;
    if (rc || !n)
        return rc ? rc : r->end;
    r->view = *ctr_batchbuf_view(&r->buf);
    r->view.schema = ctr_batch_source_schema(&r->below);
    r->view.first_row = first;
    *b = &r->view;
    return 1;
}

int ctr_batch_source_regroup(struct ctr_batch_source *s, int64_t rows, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { NULL, regrouped_next, regrouped_name, regrouped_close, NULL };
    struct regrouped *r = calloc(1, sizeof *r);
    if (!r)
        return ctr_fail_nomem(err, sizeof *r);
    int rc = ctr_schema_copy(&r->plain, ctr_batch_source_schema(s), err);
    for (int i = 0; i < r->plain.n && !rc; i++) {
        r->encoded |= r->plain.f[i].dict;
        r->plain.f[i].dict = false;
    }
    if (!rc)
        rc = ctr_batchbuf_init(&r->buf, &r->plain, err);
    if (rc) {
        regrouped_close(r);
        return rc;
    }
    r->below = *s;
    r->rows = rows;
    r->end = 1;
    *s = (struct ctr_batch_source){ &ops, r };
    return 0;
}
