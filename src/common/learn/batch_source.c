/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_source: the sources of batches that the trainer takes. */
#include "common/learn/learn.h"

#include <stdlib.h>

#include "common/lang/lang.h"

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

struct ctr_batch_source ctr_batch_source_stream(struct ctr_reader *r)
{
    static const struct ctr_batch_source_ops ops = { stream_schema, stream_next, stream_name, stream_close };
    return (struct ctr_batch_source){ &ops, r };
}

/* ---- extraction in this process ---- */

struct extraction {
    struct ctr_reader *reader;
    struct ctr_plan *plan;
    struct ctr_program *program;
    struct ctr_schema schema; /* of the program's output, with the provenance of ctr-extract */
    bool more;                /* the program may have rows of its last batch left */
};

static const struct ctr_schema *extraction_schema(const void *source)
{
    return &((const struct extraction *)source)->schema;
}

static int extraction_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct extraction *x = source;
    const struct ctr_batch *in;
    int rc = x->more ? ctr_program_more(x->program, b, err) : 0;
    if (rc)
        return rc;
    x->more = false;
    if ((rc = ctr_reader_next(x->reader, &in, err)) <= 0)
        return rc;
    rc = ctr_program_run(x->program, in, b, err);
    x->more = !rc;
    return rc ? rc : 1;
}

static const char *extraction_name(const void *source)
{
    return ctr_reader_file(((const struct extraction *)source)->reader);
}

static void extraction_close(void *source)
{
    struct extraction *x = source;
    if (!x)
        return;
    ctr_program_free(x->program);
    ctr_plan_free(x->plan);
    ctr_reader_free(x->reader);
    ctr_schema_free(&x->schema);
    free(x);
}

int ctr_batch_source_extract(struct ctr_batch_source *s, struct ctr_reader *r, struct ctr_plan *plan, int threads,
                             int64_t memory_bytes, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { extraction_schema, extraction_next, extraction_name,
                                                     extraction_close };
    struct extraction *x = calloc(1, sizeof *x);
    if (!x) {
        ctr_plan_free(plan);
        ctr_reader_free(r);
        return ctr_fail_nomem(err, sizeof *x);
    }
    *x = (struct extraction){ .reader = r, .plan = plan };
    int rc = ctr_plan_project(plan, r, err);
    if (!rc)
        rc = ctr_program_bind(&x->program, plan, ctr_reader_schema(r), err);
    if (!rc)
        ctr_program_memory(x->program, memory_bytes);
    if (!rc)
        rc = ctr_program_threads(x->program, threads, err);
    if (!rc)
        rc = ctr_schema_copy(&x->schema, ctr_program_output(x->program), err);
    if (!rc)
        rc = ctr_schema_provenance(&x->schema, "ctr-extract", "", err);
    if (rc)
        extraction_close(x);
    else
        *s = (struct ctr_batch_source){ &ops, x };
    return rc;
}

/* ---- batches of another size ---- */

struct regrouped {
    struct ctr_batch_source below;
    int64_t rows, given;
    const struct ctr_batch *from; /* what is not handed out of it begins at row `at`; NULL: nothing */
    int64_t at;
    int end; /* what `below` said instead of a batch, and why */
    struct ctr_err err;
    struct ctr_batchbuf buf;
    struct ctr_batch view;
    const char *name; /* of the file of the last batch */
};

static const struct ctr_schema *regrouped_schema(const void *source)
{
    return ctr_batch_source_schema(&((const struct regrouped *)source)->below);
}

static const char *regrouped_name(const void *source)
{
    const struct regrouped *r = source;
    return r->name ? r->name : ctr_batch_source_name(&r->below);
}

static void regrouped_close(void *source)
{
    struct regrouped *r = source;
    ctr_batchbuf_free(&r->buf);
    ctr_batch_source_close(&r->below);
    free(r);
}

/* Is there more? The first time that there is not, `end` says why. */
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

/* Rows are copied unless a batch has just so many. A batch has rows of one file, so that messages name it. */
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
        first = n ? first : r->from->first_row + r->at;
        rc = ctr_batchbuf_range(&r->buf, r->from, r->at, k, err);
        take(r, k);
    }
    if (!rc && !n && r->end < 0)
        *err = r->err;
    if (rc || !n)
        return rc ? rc : r->end;
    r->view = *ctr_batchbuf_view(&r->buf);
    r->view.first_row = first;
    *b = &r->view;
    return 1;
}

int ctr_batch_source_regroup(struct ctr_batch_source *s, int64_t rows, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { regrouped_schema, regrouped_next, regrouped_name,
                                                     regrouped_close };
    struct regrouped *r = calloc(1, sizeof *r);
    if (!r)
        return ctr_fail_nomem(err, sizeof *r);
    int rc = ctr_batchbuf_init(&r->buf, ctr_batch_source_schema(s), err);
    if (rc) {
        ctr_batchbuf_free(&r->buf);
        free(r);
        return rc;
    }
    r->below = *s;
    r->rows = rows;
    r->end = 1;
    *s = (struct ctr_batch_source){ &ops, r };
    return 0;
}
