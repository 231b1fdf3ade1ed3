/* SPDX-License-Identifier: Apache-2.0
 *
 * The predictor: applies a model file to a stream. Rows of a batch are divided into fixed tiles, which workers process
 * in any order; a score depends only on its row. */
#include "common/model/row_transform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TILE_ROWS = 512 }; /* maximum */

struct failure {
    struct ctr_err err;
    int64_t tile;
};

struct ctr_predictor {
    struct ctr_loaded *m;
    struct ctr_predict_opts how;
    struct ctr_file_seen seen, seen_delta;
    char warning[512];
    struct ctr_pool *pool;
    struct ctr_session **session; /* one per worker */
    struct failure *failed;       /* one per worker: its first failure */
    struct ctr_schema stream, schema;
    struct ctr_output output;
    int *from;
    struct ctr_col *col, item;
    struct ctr_buf values; /* for a batch: scores, then uncertainties if requested; or vectors */
    struct ctr_batch out;
    const struct ctr_batch *batch; /* being processed */
    int64_t tile_rows;
};

/* Fail if the stream already has a score of that name. */
static int add_score(const struct ctr_schema *s, struct ctr_schema *out, const char *model, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = ctr_buf_printf(&name, err, model ? "score.%s" : "score", model);
    const char *text = (const char *)name.data;
    const int old = rc ? -1 : ctr_schema_find(s, text);
    if (old >= 0 && !ctr_field_is_input(&s->f[old]))
        rc = ctr_fail(err, CTR_EUSAGE, "the stream has a column '%s' already: rename it with ctr-select", text);
    if (!rc)
        rc = ctr_schema_add(out, text, CTR_F64, err);
    if (!rc && !model)
        rc = ctr_field_set_role(&out->f[out->n - 1], CTR_ROLE_SCORE, err);
    ctr_buf_free(&name);
    return rc;
}

int ctr_scored_schema(const struct ctr_schema *s, const char *const *name, int n, struct ctr_schema *out, int **from,
                      struct ctr_err *err)
{
    int rc = 0;
    memset(out, 0, sizeof *out);
    *from = calloc((size_t)s->n + (size_t)n + 1, sizeof **from); /* room for ctr_scored_uncertainty */
    if (!*from)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof **from);
    for (int i = 0; i < s->n && !rc; i++) {
        if (ctr_field_is_input(&s->f[i]))
            continue;
        (*from)[out->n] = i;
        rc = ctr_schema_add_field(out, &s->f[i], NULL, err);
        if (!rc && ctr_field_role(&s->f[i]) == CTR_ROLE_SCORE)
            rc = ctr_meta_set(&out->f[out->n - 1].meta, CTR_META_ROLE, NULL, err); /* there is only one score */
    }
    for (int i = 0; i < n && !rc; i++) {
        (*from)[out->n] = -1 - i;
        rc = add_score(s, out, name ? name[i] : NULL, err);
    }
    const char *pg = ctr_meta_get(&s->meta, CTR_META_PG);
    if (!rc && pg)
        rc = ctr_meta_set(&out->meta, CTR_META_PG, pg, err);
    return rc;
}

int ctr_scored_uncertainty(struct ctr_schema *out, int *from, struct ctr_err *err)
{
    static const char name[] = "uncertainty";
    if (ctr_schema_find(out, name) >= 0)
        return ctr_fail(err, CTR_EUSAGE, "the stream has a column '%s' already: rename it with ctr-select", name);
    from[out->n] = -2;
    int rc = ctr_schema_add(out, name, CTR_F64, err);
    return rc ? rc : ctr_field_set_role(&out->f[out->n - 1], CTR_ROLE_UNCERTAINTY, err);
}

/* Add a column `vector`, with metadata about its model and output. */
static int vector_schema(struct ctr_predictor *p, struct ctr_err *err)
{
    char model[32], bias[32];
    int rc = ctr_scored_schema(&p->stream, NULL, 0, &p->schema, &p->from, err);
    if (!rc && ctr_schema_find(&p->schema, CTR_VECTOR_COLUMN) >= 0)
        rc = ctr_fail(err, CTR_EUSAGE, "the stream has a column '%s' already: rename it with ctr-select",
                      CTR_VECTOR_COLUMN);
    if (!rc)
        rc = ctr_schema_add(&p->schema, CTR_VECTOR_COLUMN, CTR_FIXED, err);
    if (rc)
        return rc;
    p->from[p->schema.n - 1] = -1;
    struct ctr_field *f = &p->schema.f[p->schema.n - 1];
    f->item = CTR_F32;
    f->width = p->output.width;
    snprintf(model, sizeof model, "%016" PRIx64, p->output.model);
    snprintf(bias, sizeof bias, "%.9g", (double)p->output.bias);
    rc = ctr_meta_set(&f->meta, CTR_META_TOWER, p->output.name, err);
    if (!rc)
        rc = ctr_meta_set(&f->meta, CTR_META_TOWER_MODEL, model, err);
    return rc ? rc : ctr_meta_set(&f->meta, CTR_META_TOWER_BIAS, bias, err);
}

int ctr_predictor_of(struct ctr_predictor **out, struct ctr_loaded *m, const struct ctr_predict_opts *o,
                     struct ctr_err *err)
{
    struct ctr_predictor *p = *out = calloc(1, sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->how = *o;
    p->m = ctr_loaded_hold(m);
    int rc = o->output ? ctr_loaded_output(p->m, o->output, &p->output, err) : 0;
    if (!rc)
        rc = ctr_pool_new(&p->pool, o->threads, ctr_loaded_info(p->m)->model->floats, err);
    if (rc) {
        ctr_predictor_free(p);
        *out = NULL;
        return rc;
    }
    snprintf(p->warning, sizeof p->warning, "%s", ctr_loaded_warning(p->m));
    return 0;
}

int ctr_predictor_open(struct ctr_predictor **out, const char *path, const struct ctr_predict_opts *o,
                       struct ctr_err *err)
{
    struct ctr_file_seen seen = { 0 };
    struct ctr_loaded *m;
    *out = NULL;
    ctr_file_changed(path, &seen);
    int rc = ctr_loaded_open(&m, path, o, err);
    if (rc)
        return rc;
    rc = ctr_predictor_of(out, m, o, err);
    ctr_loaded_free(m);
    if (!rc)
        (*out)->seen = seen;
    return rc;
}

const char *ctr_predictor_warning(const struct ctr_predictor *p)
{
    return p->warning;
}

int ctr_predictor_bind(struct ctr_predictor *p, const struct ctr_schema *s, struct ctr_err *err)
{
    const int threads = p->how.threads;
    p->warning[0] = 0;
    int rc = ctr_schema_copy(&p->stream, s, err);
    p->session = calloc((size_t)threads, sizeof *p->session);
    p->failed = calloc((size_t)threads, sizeof *p->failed);
    if (!rc && (!p->session || !p->failed))
        rc = ctr_fail_nomem(err, (size_t)threads * sizeof *p->failed);
    for (int i = 0; i < threads && !rc; i++)
        rc = ctr_session_new(&p->session[i], p->m, &p->stream, p->how.output, err);
    if (!rc)
        snprintf(p->warning, sizeof p->warning, "%s", ctr_session_warning(p->session[0]));
    if (!rc)
        rc = p->how.output ? vector_schema(p, err) : ctr_scored_schema(&p->stream, NULL, 1, &p->schema, &p->from, err);
    if (!rc && p->how.uncertainty)
        rc = ctr_scored_uncertainty(&p->schema, p->from, err);
    if (!rc && !(p->col = calloc((size_t)p->schema.n, sizeof *p->col)))
        rc = ctr_fail_nomem(err, (size_t)p->schema.n * sizeof *p->col);
    return rc;
}

const struct ctr_schema *ctr_predictor_schema(const struct ctr_predictor *p)
{
    return &p->schema;
}

int ctr_predictor_rules(const struct ctr_predictor *p, struct ctr_rule **rules, int *n, struct ctr_err *err)
{
    return ctr_session_rules(p->session[0], rules, n, err);
}

static void predict_tile(void *ctx, int64_t tile, int worker)
{
    struct ctr_predictor *p = ctx;
    struct ctr_session *s = p->session[worker];
    struct ctr_err *err = &p->failed[worker].err;
    const int64_t from = tile * p->tile_rows, n = CTR_MIN(p->tile_rows, p->batch->rows - from);
    if (err->code)
        return;
    if (p->output.name) {
        float *value = (float *)(void *)p->values.data + from * p->output.width;
        err->code = ctr_session_vectors(s, p->batch, from, n, value, err);
    } else {
        double *score = (double *)(void *)p->values.data + from;
        err->code =
            ctr_session_rows(s, p->batch, from, n, score, p->how.uncertainty ? score + p->batch->rows : NULL, err);
    }
    p->failed[worker].tile = tile;
}

/* The failure of the first tile, so that the message does not depend on threads. */
static int first_failure(struct ctr_predictor *p, struct ctr_err *err)
{
    const struct failure *first = NULL;
    for (int i = 0; i < p->how.threads; i++)
        if (p->failed[i].err.code && (!first || p->failed[i].tile < first->tile))
            first = &p->failed[i];
    if (!first)
        return 0;
    *err = first->err;
    return err->code;
}

/* Output column i: one of the stream, scores or uncertainties, or vectors. */
static struct ctr_col column_of(struct ctr_predictor *p, int i, const struct ctr_batch *in)
{
    const int from = p->from[i];
    if (from >= 0)
        return in->col[from];
    if (p->output.name) {
        p->item = (struct ctr_col){ .type = CTR_F32, .rows = in->rows * p->output.width, .data = p->values.data };
        return (struct ctr_col){ .type = CTR_FIXED, .rows = in->rows, .item = &p->item };
    }
    const double *score = (const double *)(void *)p->values.data;
    return (struct ctr_col){ .type = CTR_F64, .rows = in->rows, .data = score + (-1 - from) * in->rows };
}

int ctr_predictor_run(struct ctr_predictor *p, const struct ctr_batch *in, const struct ctr_batch **out,
                      struct ctr_err *err)
{
    const size_t a_row =
        p->output.name ? (size_t)p->output.width * sizeof(float) : sizeof(double) * (p->how.uncertainty ? 2 : 1);
    ctr_buf_clear(&p->values);
    int rc = ctr_buf_reserve(&p->values, (size_t)in->rows * a_row, err);
    if (rc)
        return rc;
    p->batch = in;
    const int64_t threads = p->how.threads, round = threads * TILE_ROWS;
    const int64_t tiles = (in->rows + round - 1) / round * threads;
    p->tile_rows = CTR_MAX((in->rows + tiles - 1) / CTR_MAX(tiles, 1), 1); /* equally many per thread */
    ctr_pool_run(p->pool, (in->rows + p->tile_rows - 1) / p->tile_rows, predict_tile, p);
    if ((rc = first_failure(p, err)))
        return rc;
    for (int i = 0; i < p->schema.n; i++)
        p->col[i] = column_of(p, i, in);
    p->out = (struct ctr_batch){ &p->schema, in->rows, in->first_row, p->col };
    *out = &p->out;
    return 0;
}

const char *ctr_predictor_unknown(const struct ctr_predictor *p, int i, int64_t *keys, int64_t *unknown)
{
    const char *name = NULL;
    int64_t n, none;
    *keys = *unknown = 0;
    for (int w = 0; p->session && w < p->how.threads && p->session[w]; w++) {
        name = ctr_session_unknown(p->session[w], i, &n, &none);
        *keys += n;
        *unknown += none;
    }
    return name;
}

void ctr_predictor_free(struct ctr_predictor *p)
{
    if (!p)
        return;
    for (int i = 0; p->session && i < p->how.threads; i++)
        ctr_session_free(p->session[i]);
    ctr_loaded_free(p->m);
    ctr_pool_free(p->pool);
    ctr_schema_free(&p->stream);
    ctr_schema_free(&p->schema);
    ctr_buf_free(&p->values);
    free(p->session);
    free(p->failed);
    free(p->from);
    free(p->col);
    free(p);
}

/* ---- another model in the place of the file ---- */

int ctr_predictor_reload(struct ctr_predictor *p, struct ctr_predictor **next, struct ctr_err *err)
{
    *next = NULL;
    const char *path = ctr_loaded_path(p->m);
    if (!ctr_file_changed(path, &p->seen) && !ctr_model_whole_grew(path, ctr_loaded_whole(p->m), &p->seen_delta))
        return 0;
    int rc = ctr_predictor_open(next, path, &p->how, err);
    if (rc)
        return rc;
    struct ctr_predictor *n = *next;
    rc = ctr_predictor_bind(n, &p->stream, err);
    if (rc) {
        ctr_predictor_free(n);
        *next = NULL;
        return rc;
    }
    const char *file = ctr_loaded_warning(n->m), *stream = ctr_session_warning(n->session[0]);
    snprintf(n->warning, sizeof n->warning, "%s%s%s", file, *file && *stream ? "; " : "", stream);
    return 1;
}

int64_t ctr_predictor_time_ms(const struct ctr_predictor *p)
{
    return p->seen.time_ms;
}
