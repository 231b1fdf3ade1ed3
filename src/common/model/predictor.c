/* SPDX-License-Identifier: Apache-2.0
 *
 * The predictor: a model file over a stream. Rows of a batch are cut into fixed tiles that workers take in any order; a
 * score depends on its row alone. */
#include "common/model/row_transform.h"

#include <stdio.h>
#include <stdlib.h>

enum { TILE_ROWS = 512 }; /* at most */

struct failure {
    struct ctr_err err;
    int64_t tile;
};

struct ctr_predictor {
    struct ctr_model_info info;
    char *path;
    char warning[512];
    void *scorer;
    struct ctr_strs tables;
    struct ctr_pool *pool;
    int threads;
    struct ctr_inputs **in; /* one a worker */
    struct failure *failed; /* one a worker: its first */
    int64_t *keys;          /* a worker after another: by table (by column: input) keys, then those that are unknown */
    int counted;            /* tables or inputs */
    struct ctr_schema stream, schema;
    int *from;
    struct ctr_col *col;
    struct ctr_buf scores; /* of a batch, then their uncertainties, if these are asked for */
    struct ctr_batch out;
    const struct ctr_batch *batch; /* being predicted */
    int64_t tile_rows;
};

/* Refuse a stream that has a score already, of that name. */
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
            rc = ctr_meta_set(&out->f[out->n - 1].meta, CTR_META_ROLE, NULL, err); /* there is one score */
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

static int open_model(struct ctr_predictor **out, const char *path, const struct ctr_predict_opts *o,
                      struct ctr_err *err)
{
    struct ctr_predictor *p = calloc(1, sizeof *p);
    struct ctr_reader *r = NULL;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->threads = o->threads;
    int rc = ctr_strdup(&p->path, path, err);
    if (!rc)
        rc = ctr_model_open(path, &p->info, &r, err);
    ctr_reader_free(r);
    p->info.uncertainty = o->uncertainty;
    p->info.params.device = o->device;
    p->info.params.device_memory = o->device_memory;
    const bool gpu = !rc && o->device && strcmp(o->device, "cpu") != 0;
    if (gpu && !p->info.model->device)
        rc = ctr_fail(err, CTR_EDATA, "--device: %s has no GPU implementation in this version; use --device cpu",
                      p->info.model->name);
    else if (gpu)
        p->info.model = p->info.model->device;
    if (!rc && o->uncertainty && !p->info.model->predict_uncertain)
        rc = ctr_fail(err, CTR_EUSAGE, "%s: models of kind %s have no uncertainty%s", path, p->info.model->name,
                      gpu ? " on a GPU" : "");
    if (!rc)
        rc = p->info.model->scorer_open(&p->scorer, path, &p->info, &p->tables, p->warning, sizeof p->warning, err);
    if (!rc)
        rc = ctr_pool_new(&p->pool, o->threads, p->info.model->floats, err);
    if (rc) {
        ctr_predictor_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

/* The file is read more than once, and a learner may put another model in its place meanwhile. */
int ctr_predictor_open(struct ctr_predictor **out, const char *path, const struct ctr_predict_opts *o,
                       struct ctr_err *err)
{
    *out = NULL;
    int rc = ctr_hold(path, err);
    if (!rc)
        rc = open_model(out, path, o, err);
    ctr_hold_end(path);
    return rc;
}

const char *ctr_predictor_warning(const struct ctr_predictor *p)
{
    return p->warning;
}

/* Without a plan to compare, tables are all that a stream and a model can share: none in common is a mistake, some of
 * the model's missing may be one. */
static int compare_tables(struct ctr_predictor *p, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_strs own = { 0 };
    struct ctr_inputs *in = NULL;
    const struct ctr_row_transform change = ctr_row_transform_make(&p->info.params, -1);
    const char *missing = NULL;
    int n = 0, rc = ctr_inputs_new(&in, s, -1, -1, &change, &own, err);
    for (int i = 0; i < p->tables.n && !rc; i++)
        if (ctr_strs_find(&own, p->tables.s[i]) < 0) {
            missing = missing ? missing : p->tables.s[i];
            n++;
        }
    if (!rc && n && n == p->tables.n)
        rc = ctr_fail(err, CTR_EDATA,
                      "the stream has none of the %d table%s of %s, such as %.80s: its features are of other columns",
                      n, CTR_S(n), p->path, missing);
    else if (!rc && n)
        snprintf(p->warning, sizeof p->warning,
                 "the stream has no features of %d of the %d tables of %s, such as %.80s", n, p->tables.n, p->path,
                 missing);
    ctr_inputs_free(in);
    ctr_strs_free(&own);
    return rc;
}

int ctr_predictor_bind(struct ctr_predictor *p, const struct ctr_schema *s, struct ctr_err *err)
{
    const struct ctr_row_transform change = ctr_row_transform_make(&p->info.params, -1);
    p->warning[0] = 0;
    int rc = ctr_model_same_plan(&p->info, p->path, s, err);
    if (!rc && !ctr_meta_get(&p->info.schema.meta, CTR_META_PLAN_ID))
        rc = compare_tables(p, s, err);
    if (!rc)
        rc = ctr_schema_copy(&p->stream, s, err);
    p->in = calloc((size_t)p->threads, sizeof *p->in);
    p->failed = calloc((size_t)p->threads, sizeof *p->failed);
    if (!rc && (!p->in || !p->failed))
        rc = ctr_fail_nomem(err, (size_t)p->threads * sizeof *p->failed);
    for (int i = 0; i < p->threads && !rc; i++)
        rc = ctr_inputs_new(&p->in[i], &p->stream, -1, -1, &change, &p->tables, err);
    for (int i = 0; i < p->threads && !rc && p->info.model->by_column; i++)
        rc = ctr_inputs_by_column(p->in[i], err);
    for (int i = 0; i < p->threads && !rc && p->info.model->predicts_transposed; i++)
        ctr_inputs_transpose(p->in[i]);
    if (!rc)
        rc = p->info.model->scorer_bind(p->scorer, p->in[0], &p->tables, err);
    if (!rc) {
        p->counted = CTR_MAX(p->tables.n, ctr_inputs_count(p->in[0]));
        p->keys = calloc((size_t)p->threads * (size_t)p->counted + 1, 2 * sizeof *p->keys);
        rc = p->keys ? 0 : ctr_fail_nomem(err, (size_t)p->counted * 2 * sizeof *p->keys);
    }
    if (!rc)
        rc = ctr_scored_schema(&p->stream, NULL, 1, &p->schema, &p->from, err);
    if (!rc && p->info.uncertainty)
        rc = ctr_scored_uncertainty(&p->schema, p->from, err);
    if (!rc && !(p->col = calloc((size_t)p->schema.n, sizeof *p->col)))
        rc = ctr_fail_nomem(err, (size_t)p->schema.n * sizeof *p->col);
    return rc;
}

const struct ctr_schema *ctr_predictor_schema(const struct ctr_predictor *p)
{
    return &p->schema;
}

static void predict_tile(void *ctx, int64_t tile, int worker)
{
    struct ctr_predictor *p = ctx;
    struct ctr_err *err = &p->failed[worker].err;
    struct ctr_rows rows;
    int64_t from = tile * p->tile_rows, n = CTR_MIN(p->tile_rows, p->batch->rows - from);
    if (err->code)
        return;
    int64_t *keys = p->keys + (int64_t)worker * 2 * p->counted;
    int rc = ctr_inputs_batch(p->in[worker], p->batch, err);
    for (int64_t end = from + n; from < end && !rc; from += n) {
        n = ctr_inputs_fit(p->in[worker], from, end - from, CTR_TILE_ENTRIES);
        rc = ctr_inputs_rows(p->in[worker], NULL, from, n, &rows, err);
        double *score = (double *)(void *)p->scores.data + from;
        if (!rc)
            rc = p->info.uncertainty
                     ? p->info.model->predict_uncertain(p->scorer, &rows, score, score + p->batch->rows, err)
                     : p->info.model->predict_rows(p->scorer, &rows, score, err);
        if (!rc) /* while what they were found in is in the cache */
            p->info.model->count_unknown(p->scorer, &rows, keys, keys + p->counted);
    }
    err->code = rc;
    p->failed[worker].tile = tile;
}

/* The failure of the first tile, so that the message does not depend on the threads. */
static int first_failure(struct ctr_predictor *p, struct ctr_err *err)
{
    const struct failure *first = NULL;
    for (int i = 0; i < p->threads; i++)
        if (p->failed[i].err.code && (!first || p->failed[i].tile < first->tile))
            first = &p->failed[i];
    if (!first)
        return 0;
    *err = first->err;
    return err->code;
}

int ctr_predictor_run(struct ctr_predictor *p, const struct ctr_batch *in, const struct ctr_batch **out,
                      struct ctr_err *err)
{
    ctr_buf_clear(&p->scores);
    int rc = ctr_buf_reserve(&p->scores, (size_t)in->rows * sizeof(double) * (p->info.uncertainty ? 2 : 1), err);
    if (rc)
        return rc;
    p->batch = in;
    const int64_t round = (int64_t)p->threads * TILE_ROWS, tiles = (in->rows + round - 1) / round * p->threads;
    p->tile_rows = CTR_MAX((in->rows + tiles - 1) / CTR_MAX(tiles, 1), 1); /* as many for each thread */
    ctr_pool_run(p->pool, (in->rows + p->tile_rows - 1) / p->tile_rows, predict_tile, p);
    if ((rc = first_failure(p, err)))
        return rc;
    const double *score = (const double *)(void *)p->scores.data;
    for (int i = 0; i < p->schema.n; i++) {
        const int from = p->from[i];
        p->col[i] = from >= 0
                        ? in->col[from]
                        : (struct ctr_col){ .type = CTR_F64, .rows = in->rows, .data = score + (-1 - from) * in->rows };
    }
    p->out = (struct ctr_batch){ &p->schema, in->rows, in->first_row, p->col };
    *out = &p->out;
    return 0;
}

const char *ctr_predictor_unknown(const struct ctr_predictor *p, int i, int64_t *keys, int64_t *unknown)
{
    *keys = *unknown = 0;
    if (i >= p->tables.n || !p->keys)
        return NULL;
    for (int k = 0; k < p->counted; k++) {
        const bool of_table = !p->info.model->by_column
                                  ? k == i
                                  : k < ctr_inputs_count(p->in[0]) && ctr_inputs_info(p->in[0], k).table == i;
        for (int w = 0; w < p->threads && of_table; w++) {
            *keys += p->keys[(int64_t)w * 2 * p->counted + k];
            *unknown += p->keys[((int64_t)w * 2 + 1) * p->counted + k];
        }
    }
    return p->tables.s[i];
}

void ctr_predictor_free(struct ctr_predictor *p)
{
    if (!p)
        return;
    for (int i = 0; p->in && i < p->threads; i++)
        ctr_inputs_free(p->in[i]);
    if (p->scorer)
        p->info.model->scorer_free(p->scorer);
    ctr_model_info_free(&p->info);
    ctr_strs_free(&p->tables);
    ctr_pool_free(p->pool);
    ctr_schema_free(&p->stream);
    ctr_schema_free(&p->schema);
    ctr_buf_free(&p->scores);
    free(p->path);
    free(p->in);
    free(p->failed);
    free(p->keys);
    free(p->from);
    free(p->col);
    free(p);
}
