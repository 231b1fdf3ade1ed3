/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_stream: rows of a stream get what ads in JSON get. Columns that they leave out come from the files of users and
 * of ads, and the pre-rank takes the best rows of each request, or gives a row that has no ad the best ads of all.
 */
#include "tools/ctr-serve/serve_prerank.h"

#include <stdlib.h>

enum place { OF_STREAM, OF_USERS, OF_ADS, OF_KEYS, OF_PRERANK };
struct stream {
    struct serve_desk *d;
    int64_t most, most_bytes, bytes;
    int *at;                    /* by column of the generation's schema: column of the stream, or -1 */
    struct ctr_schema given, s; /* of the stream; of the result: the same columns, and after them those that it gets */
    enum place *place;
    int *from; /* of each: column of the file, or of the generation's schema */
    struct ctr_batchbuf rows, kept;
    struct ctr_col *col;
    struct ctr_batch batch;
    bool each; /* request is a batch: */
    struct serve_requests requests;
    struct ctr_buf request; /* int64_t: of a row of the result: the same for those of one request */
    struct ctr_part part;
    int64_t passed; /* rows of the result */
};

static void stream_free(void *object)
{
    struct stream *x = object;
    ctr_batchbuf_free(&x->rows);
    ctr_batchbuf_free(&x->kept);
    serve_requests_free(&x->requests);
    ctr_buf_free(&x->request);
    ctr_part_free(&x->part);
    ctr_schema_free(&x->given);
    ctr_schema_free(&x->s);
    free(x->at);
    free(x->place);
    free(x->from);
    free(x->col);
    free(x);
}

/* ---- which columns ---- */

static int check_type(const struct stream *x, int k, struct ctr_err *err)
{
    char is[64], wants[64];
    const struct ctr_field *f = x->at[k] < 0 ? NULL : &x->given.f[x->at[k]], *want = &x->d->g->schema.f[k];
    if (!f || ctr_field_same_type(f, want))
        return 0;
    return ctr_fail(err, CTR_EDATA, "column %s is %s, and was %s when the model was trained", f->name,
                    ctr_field_type_name(f, is, sizeof is), ctr_field_type_name(want, wants, sizeof wants));
}

/* Where a column of the plan comes from that the stream does not have. */
static enum place place_of(const struct stream *x, int k, int *from)
{
    const struct serve_generation *g = x->d->g;
    const bool all = g->prerank && x->at[g->ad_key] < 0; /* its rows have no ads */
    *from = k;
    if (serve_prerank_gives(g, k))
        return OF_PRERANK;
    if (all && k == g->ad_key)
        return OF_KEYS;
    if (g->users && x->at[g->user_key] >= 0 && (*from = g->from_users[k]) >= 0)
        return OF_USERS;
    if (g->ads && (all || x->at[g->ad_key] >= 0) && (*from = g->from_ads[k]) >= 0)
        return OF_ADS;
    return OF_STREAM;
}

static int add_columns(struct stream *x, struct ctr_err *err)
{
    const struct serve_generation *g = x->d->g;
    int rc = 0, from;
    for (int k = 0; k < g->columns && !rc; k++) {
        const enum place place = x->at[k] < 0 ? place_of(x, k, &from) : OF_STREAM;
        if (place == OF_STREAM)
            continue;
        x->place[x->s.n] = place;
        x->from[x->s.n] = from;
        rc = ctr_schema_add_field(&x->s, &g->schema.f[k], NULL, err);
    }
    return rc;
}

static int stream_open(struct stream *x, const struct ctr_schema *s, struct ctr_err *err)
{
    const struct serve_generation *g = x->d->g;
    const size_t n = (size_t)(g->schema.n + s->n) + 1;
    x->at = malloc(n * sizeof *x->at);
    x->place = calloc(n, sizeof *x->place);
    x->from = calloc(n, sizeof *x->from);
    x->col = calloc(n, sizeof *x->col);
    int rc = x->at && x->place && x->from && x->col ? ctr_schema_copy(&x->given, s, err)
                                                    : ctr_fail_nomem(err, n * sizeof *x->col);
    for (int i = 0; i < s->n && !rc; i++)
        x->given.f[i].dict = false;
    if (!rc)
        rc = ctr_schema_copy(&x->s, &x->given, err);
    if (!rc)
        rc = ctr_batchbuf_init(&x->rows, &x->given, err);
    if (!rc)
        rc = ctr_batchbuf_init(&x->kept, &x->given, err);
    for (int k = 0; k < g->schema.n && !rc; k++)
        x->at[k] = ctr_schema_find(s, g->schema.f[k].name);
    for (int k = 0; k < g->schema.n && !rc; k++)
        if (k == g->user_key || k == g->ad_key || serve_prerank_reads(g, k))
            rc = check_type(x, k, err);
    return rc ? rc : add_columns(x, err);
}

/* ---- rows ---- */

static const struct ctr_schema *stream_schema(const void *object)
{
    return &((const struct stream *)object)->s;
}

static int stream_batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    struct stream *x = object;
    if (ctr_batchbuf_rows(&x->rows) + b->rows > x->most)
        return ctr_fail(err, CTR_ELARGE, "more than %lld rows are not taken (--max-ads)", (long long)x->most);
    for (int i = 0; i < b->schema->n; i++)
        x->bytes += ctr_col_bytes(&b->col[i], 0, b->rows);
    if (x->bytes > x->most_bytes) /* a text of a dictionary is copied to each of its rows */
        return ctr_fail(err, CTR_ELARGE, "rows of more than %s, without dictionaries, are not taken (--max-body)",
                        ctr_size_text(x->most_bytes).s);
    return ctr_batchbuf_range(&x->rows, b, 0, b->rows, err);
}

static int look_up(struct stream *x, enum place place, const struct ctr_col *keys, struct ctr_err *err)
{
    struct serve_desk *d = x->d;
    for (int i = x->given.n; i < x->s.n; i++)
        if (x->place[i] == place)
            return place == OF_USERS ? serve_look_up(d->users_file, &d->users_rows, keys, &d->found, &d->no_user, err)
                                     : serve_look_up(d->ads_file, &d->ads_rows, keys, &d->found, &d->no_ad, err);
    return 0;
}

/* The rows that are left, with all columns. */
static int complete(struct stream *x, const struct ctr_batch *b, struct ctr_err *err)
{
    struct serve_desk *d = x->d;
    const struct serve_generation *g = d->g;
    const int user = g->users ? x->at[g->user_key] : -1, ad = g->ad_key < 0 ? -1 : x->at[g->ad_key];
    const struct ctr_col *keys = ad >= 0  ? &b->col[ad]
                                 : d->cut ? ctr_colbuf_view(&d->ads.out.col[g->ad_key]) /* of the pre-rank */
                                          : NULL;
    int rc = user < 0 ? 0 : look_up(x, OF_USERS, &b->col[user], err);
    if (!rc && keys)
        rc = look_up(x, OF_ADS, keys, err);
    for (int i = 0; i < x->s.n && !rc; i++)
        switch (x->place[i]) {
        case OF_STREAM: x->col[i] = b->col[i]; break;
        case OF_USERS: x->col[i] = *ctr_colbuf_view(&d->users_rows.col[x->from[i]]); break;
        case OF_ADS: x->col[i] = *ctr_colbuf_view(&d->ads_rows.col[x->from[i]]); break;
        case OF_KEYS: x->col[i] = *keys; break;
        case OF_PRERANK: x->col[i] = *serve_cut_column(d, x->from[i]); break;
        }
    x->batch = (struct ctr_batch){ .schema = &x->s, .rows = b->rows, .col = x->col };
    return rc;
}

/* Rows of one request have no others between them: rows stay in the order of the stream, as places in the log do. */
static int find_requests(struct stream *x, const struct ctr_batch *b, const int64_t **first, struct ctr_err *err)
{
    int rc = serve_requests_find(&x->requests, x->d->g, b, x->at, first, err);
    for (int64_t i = 1; i < b->rows && !rc; i++)
        if ((*first)[i] != i && (*first)[i] != (*first)[i - 1])
            rc = ctr_fail(err, CTR_EDATA,
                          "rows %lld and %lld are of one user, with others between them: sort the rows by user",
                          (long long)(*first)[i] + 1, (long long)i + 1);
    return rc;
}

/* Of the rows that are left, by their rows of the stream. first: NULL: each row of the stream was a request. */
static int note_requests(struct stream *x, const int64_t *first, const int64_t *row, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    int64_t *request = ctr_buf_extend(&x->request, n, sizeof *request, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++)
        request[i] = first ? first[row ? row[i] : i] : row[i];
    return rc;
}

static int stream_finish(void *object, struct ctr_err *err)
{
    struct stream *x = object;
    const struct serve_generation *g = x->d->g;
    const struct ctr_batch *b = ctr_batchbuf_view(&x->rows);
    const int64_t *row = NULL, *first = NULL;
    int64_t n = b->rows;
    const bool ads = !x->d->cut || x->at[g->ad_key] >= 0;
    int rc = x->each && ads ? find_requests(x, b, &first, err) : 0;
    if (!rc && x->d->cut && !(rc = serve_cut_stream(x->d, b, x->at, x->most, &row, &n, err))) {
        rc = ctr_batchbuf_gather(&x->kept, b, row, n, err);
        b = ctr_batchbuf_view(&x->kept);
    }
    if (!rc && x->each)
        rc = note_requests(x, first, row, n, err);
    return rc ? rc : complete(x, b, err);
}

static int stream_next(void *object, const struct ctr_batch **b, struct ctr_err *err)
{
    struct stream *x = object;
    const int64_t *request = (const int64_t *)(void *)x->request.data, from = x->passed;
    int64_t n = CTR_MIN(x->batch.rows - from, 1);
    *b = &x->part.batch;
    if (!n)
        return 0;
    while (from + n < x->batch.rows && (!x->each || request[from + n] == request[from]))
        n++;
    x->passed += n;
    const int rc = ctr_batch_part(&x->part, &x->batch, from, n, err);
    return rc ? rc : 1;
}

/* Columns of types that we do not know are left out, since rows are kept. One that the model reads is no such column:
 * it is there, and is not to be looked up. */
static int known_columns(const struct serve_generation *g, struct ctr_batch_source *rows, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(rows);
    for (int i = 0; i < s->n; i++)
        if (s->f[i].type == CTR_FOREIGN && ctr_schema_find(&g->schema, s->f[i].name) >= 0)
            return ctr_fail(err, CTR_EDATA, "column %s is of a type that is not read: %s", s->f[i].name,
                            s->f[i].foreign);
    int *column = calloc((size_t)s->n + 1, sizeof *column), n = 0;
    if (!column)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *column);
    for (int i = 0; i < s->n; i++)
        if (s->f[i].type != CTR_FOREIGN)
            column[n++] = i;
    const int rc = n < s->n ? ctr_batch_source_project(rows, column, n, err) : 0;
    free(column);
    return rc;
}

/* The answer has no ads but those that the plan keeps. */
static int check_key(const struct stream *x, struct ctr_err *err)
{
    const struct serve_generation *g = x->d->g;
    if (!x->d->cut || x->at[g->ad_key] >= 0 || ctr_plan_keeps(g->model->plan, g->schema.f[g->ad_key].name))
        return 0;
    return ctr_fail(err, CTR_EDATA,
                    "the rows have no ads, and the answer could not say which ad has which score: add a line `keep "
                    "%.200s` to the plan and train again, or ask in JSON",
                    g->schema.f[g->ad_key].name);
}

int serve_stream_complete(struct serve_desk *d, struct ctr_batch_source *rows, int64_t most, int64_t most_bytes,
                          bool *each, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { stream_schema, stream_batch, stream_finish, stream_next, stream_free };
    const bool wanted = *each;
    *each = false;
    if (!d->cut && !d->users_file && !d->ads_file)
        return 0;
    struct stream *x = calloc(1, sizeof *x);
    if (!x)
        return ctr_fail_nomem(err, sizeof *x);
    x->d = d;
    x->most = most;
    x->most_bytes = most_bytes;
    int rc = known_columns(d->g, rows, err);
    if (!rc)
        rc = stream_open(x, ctr_batch_source_schema(rows), err);
    if (!rc)
        rc = check_key(x, err);
    *each = x->each = !rc && wanted && (serve_requests_differ(d->g, x->at) || (d->cut && x->at[d->g->ad_key] < 0));
    const bool needed = !rc && (d->cut || x->each || x->s.n > x->given.n);
    if (needed)
        rc = ctr_batch_source_push(rows, &ops, x, err);
    if (rc || !needed)
        stream_free(x);
    return rc;
}
