/* SPDX-License-Identifier: Apache-2.0
 *
 * dictionary: encodes columns by dictionaries of their own values, batch by batch, as a stage over a source. An entry
 * occurs once, and nulls are in the index's validity. Invariant: batches have `rows` rows, whatever the input's
 * batches, and the bytes of the dictionaries depend only on the rows. */
#include "common/stream/stream.h"

#include <stdlib.h>

struct shared {
    struct ctr_batch_source below;
    struct ctr_schema schema, plain; /* plain: without dictionaries */
    bool *share;
    int64_t rows;
    const struct ctr_batch *in; /* rows from `at` on are unprocessed */
    int64_t at, given;
    struct ctr_batchbuf held;
    struct ctr_colbuf *entries;
    struct ctr_values *values; /* of each column; their numbers are the indices */
    struct ctr_col *views;
    struct ctr_batch batch;
};

/* Encode column k of the collected rows. */
static int encode(struct shared *s, int k, struct ctr_err *err)
{
    const struct ctr_col *c = ctr_colbuf_view(&s->held.col[k]);
    struct ctr_values *v = &s->values[k];
    int rc = ctr_values_number(v, c, s->plain.f[k].width, err);
    ctr_colbuf_clear(&s->entries[k]);
    if (!rc)
        rc = ctr_colbuf_gather(&s->entries[k], c, (const int64_t *)(const void *)v->first.data, v->n, err);
    if (rc)
        return rc;
    int32_t *number = (int32_t *)(void *)v->number.data;
    for (int64_t i = 0; v->nulls && i < c->rows; i++)
        number[i] = CTR_MAX(number[i], 0);
    s->views[k] = (struct ctr_col){ .type = c->type,
                                    .rows = c->rows,
                                    .nulls = v->nulls,
                                    .valid = v->nulls ? c->valid : NULL,
                                    .data = number,
                                    .dict = ctr_colbuf_view(&s->entries[k]) };
    return 0;
}

static int shared_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct shared *s = source;
    int rc = 0;
    ctr_batchbuf_clear(&s->held);
    while (ctr_batchbuf_rows(&s->held) < s->rows) {
        if (!s->in || s->at == s->in->rows) {
            s->at = 0;
            if ((rc = ctr_batch_source_next(&s->below, &s->in, err)) <= 0) {
                s->in = NULL;
                break;
            }
        }
        const int64_t n = CTR_MIN(s->in->rows - s->at, s->rows - ctr_batchbuf_rows(&s->held));
        if ((rc = ctr_batchbuf_range(&s->held, s->in, s->at, n, err)))
            break;
        s->at += n;
    }
    const int64_t rows = ctr_batchbuf_rows(&s->held);
    if (rc < 0 || !rows)
        return rc;
    rc = 0;
    for (int k = 0; k < s->schema.n && !rc; k++) {
        if (s->share[k])
            rc = encode(s, k, err);
        else
            s->views[k] = *ctr_colbuf_view(&s->held.col[k]);
    }
    s->batch = (struct ctr_batch){ &s->schema, rows, s->given, s->views };
    s->given += rows;
    *b = &s->batch;
    return rc ? rc : 1;
}

static const struct ctr_schema *shared_schema(const void *source)
{
    return &((const struct shared *)source)->schema;
}

static void shared_close(void *source)
{
    struct shared *s = source;
    ctr_batch_source_close(&s->below);
    ctr_batchbuf_free(&s->held);
    for (int k = 0; k < s->schema.n; k++) {
        if (s->entries)
            ctr_colbuf_free(&s->entries[k]);
        if (s->values)
            ctr_values_free(&s->values[k]);
    }
    free(s->entries);
    free(s->values);
    free(s->share);
    free(s->views);
    ctr_schema_free(&s->schema);
    ctr_schema_free(&s->plain);
    free(s);
}

/* Find the columns that the patterns name. */
static int choose(struct shared *s, const struct ctr_strs *columns, struct ctr_err *err)
{
    for (int i = 0; i < columns->n; i++) {
        const char *pattern = columns->s[i];
        bool any = false;
        for (int k = 0; k < i; k++)
            if (!strcmp(pattern, columns->s[k]))
                return ctr_fail(err, CTR_EUSAGE, "%s is named twice", pattern);
        for (int k = 0; k < s->schema.n; k++)
            if (!strcmp(pattern, s->schema.f[k].name) || ctr_glob(pattern, s->schema.f[k].name))
                any = s->share[k] = s->schema.f[k].dict = true;
        const int found = any ? 0 : ctr_schema_need(&s->schema, pattern, err);
        if (found < 0)
            return found;
        if (!any) /* a name in back quotes */
            s->share[found] = s->schema.f[found].dict = true;
    }
    return 0;
}

static int start(struct shared *s, const struct ctr_schema *in, const struct ctr_strs *columns, struct ctr_err *err)
{
    const size_t n = (size_t)in->n + 1;
    int rc = ctr_schema_copy(&s->plain, in, err);
    for (int k = 0; k < in->n && !rc; k++)
        s->plain.f[k].dict = false;
    if (!rc)
        rc = ctr_schema_copy(&s->schema, &s->plain, err);
    if (!rc)
        rc = ctr_batchbuf_init(&s->held, &s->plain, err);
    s->entries = calloc(n, sizeof *s->entries);
    s->values = calloc(n, sizeof *s->values);
    s->share = calloc(n, sizeof *s->share);
    s->views = calloc(n, sizeof *s->views);
    if (!rc && (!s->entries || !s->values || !s->share || !s->views))
        rc = ctr_fail_nomem(err, n * sizeof *s->views);
    for (int k = 0; k < in->n && !rc; k++)
        rc = ctr_colbuf_init(&s->entries[k], &s->plain.f[k], err);
    return rc ? rc : choose(s, columns, err);
}

int ctr_dictionary_source(struct ctr_batch_source *s, const struct ctr_strs *columns, int64_t rows, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { shared_schema, shared_next, NULL, shared_close, NULL };
    struct shared *new = calloc(1, sizeof *new);
    if (!new)
        return ctr_fail_nomem(err, sizeof *new);
    new->rows = rows > 0 ? rows : CTR_BATCH_ROWS;
    int rc = start(new, ctr_batch_source_schema(s), columns, err);
    if (rc) {
        shared_close(new);
        return rc;
    }
    new->below = *s;
    *s = (struct ctr_batch_source){ &ops, new };
    return 0;
}
