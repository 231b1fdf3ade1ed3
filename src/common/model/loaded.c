/* SPDX-License-Identifier: Apache-2.0
 *
 * loaded: a model that threads share, and the sessions that they own. See model.h. A session changes only its own
 * memory and, atomically, the model's number of owners. */
#include "common/model/row_transform.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct ctr_loaded {
    atomic_int owners;
    struct ctr_model_info info;
    char *path;
    struct ctr_model_whole whole;
    char warning[512];
    void *scorer;
    struct ctr_strs tables;
};

struct ctr_session {
    struct ctr_loaded *m;
    char warning[512];
    const struct ctr_schema *schema;
    struct ctr_strs tables; /* the model's, then those only in the stream */
    struct ctr_inputs *in;
    void *own;     /* the model's session */
    int64_t *keys; /* by table (by column: input): keys, then unknown keys */
    int counted;   /* number of tables or inputs */
    struct ctr_output output;
    bool bound; /* `keys` and `own` are set */
};

/* ---- the model ---- */

int ctr_model_images(struct ctr_model_info *info, const char *path, const char *images, struct ctr_err *err)
{
    info->params.images.file = images;
    if (!images || info->params.images.missing)
        return 0;
    int rc = ctr_fail(err, CTR_EUSAGE, "a model of kind '%s' has no images: leave --images out", info->model->name);
    ctr_err_file(err, path);
    return rc;
}

static int choose_device(struct ctr_loaded *m, const struct ctr_predict_opts *o, struct ctr_err *err)
{
    const bool wants = o->device && strcmp(o->device, "cpu") != 0, gpu = wants && m->info.model->gpu;
    m->info.uncertainty = o->uncertainty;
    m->info.params.device = gpu ? o->device : NULL;
    m->info.params.device_memory = o->device_memory;
    if (wants && !gpu && !strncmp(o->device, "gpu", 3))
        return ctr_fail(err, CTR_EUSAGE, "--device gpu: %s predicts on the CPU, which looks its keys up: leave it out",
                        m->info.model->name);
    if (!o->uncertainty || m->info.model->predict_uncertain)
        return 0;
    ctr_err_file(err, m->path);
    return ctr_fail(err, CTR_EUSAGE, "models of kind %s have no uncertainty", m->info.model->name);
}

static int load(struct ctr_loaded **out, const char *path, const struct ctr_predict_opts *o, struct ctr_err *err)
{
    struct ctr_loaded *m = calloc(1, sizeof *m);
    struct ctr_reader *r = NULL;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    atomic_init(&m->owners, 1);
    int rc = ctr_strdup(&m->path, path, err);
    m->whole.fd = -1;
    if (!rc)
        rc = ctr_model_whole(path, &m->whole, err);
    if (!rc)
        rc = ctr_model_open(m->whole.path, &m->info, &r, err);
    ctr_reader_free(r);
    if (!rc)
        rc = ctr_model_images(&m->info, m->path, o->images, err);
    if (!rc)
        rc = choose_device(m, o, err);
    if (!rc)
        rc = m->info.model->scorer_open(&m->scorer, m->whole.path, &m->info, &m->tables, m->warning, sizeof m->warning,
                                        err);
    if (rc) {
        rc = ctr_model_whole_end(&m->whole, path, rc, err);
        ctr_loaded_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* The file is read more than once, and a learner may replace it meanwhile. */
int ctr_loaded_open(struct ctr_loaded **out, const char *path, const struct ctr_predict_opts *o, struct ctr_err *err)
{
    *out = NULL;
    int rc = ctr_input_identity_keep(path, err);
    if (!rc)
        rc = load(out, path, o, err);
    ctr_input_identity_release(path);
    return rc;
}

struct ctr_loaded *ctr_loaded_hold(struct ctr_loaded *m)
{
    atomic_fetch_add(&m->owners, 1);
    return m;
}

void ctr_loaded_free(struct ctr_loaded *m)
{
    if (!m || atomic_fetch_sub(&m->owners, 1) > 1)
        return;
    if (m->scorer)
        m->info.model->scorer_free(m->scorer);
    ctr_model_info_free(&m->info);
    ctr_strs_free(&m->tables);
    ctr_model_whole_free(&m->whole);
    free(m->path);
    free(m);
}

const struct ctr_model_info *ctr_loaded_info(const struct ctr_loaded *m)
{
    return &m->info;
}

const char *ctr_loaded_path(const struct ctr_loaded *m)
{
    return m->path;
}

const struct ctr_model_whole *ctr_loaded_whole(const struct ctr_loaded *m)
{
    return &m->whole;
}

const char *ctr_loaded_warning(const struct ctr_loaded *m)
{
    return m->warning;
}

int ctr_loaded_output(const struct ctr_loaded *m, const char *name, struct ctr_output *out, struct ctr_err *err)
{
    const struct ctr_model *model = m->info.model;
    struct ctr_buf names = { 0 };
    int rc = 0;
    for (int i = 0; model->output && model->output(m->scorer, i, out); i++) {
        if (!strcmp(out->name, name)) {
            ctr_buf_free(&names);
            return 0;
        }
        rc = rc ? rc : ctr_buf_printf(&names, err, "%s%s", i ? ", " : "", out->name);
    }
    if (!rc)
        ctr_err_file(err, m->path);
    if (!rc)
        rc = ctr_fail(err, CTR_EUSAGE, "models of kind %s have no output %.40s%s%s", model->name, name,
                      names.len ? "; they have " : ": those of two-tower have towers",
                      names.len ? (const char *)names.data : "");
    ctr_buf_free(&names);
    return rc;
}

struct ctr_image_table *ctr_loaded_images(const struct ctr_loaded *m)
{
    return m->info.model->images ? m->info.model->images(m->scorer) : NULL;
}

bool ctr_loaded_input(const struct ctr_loaded *m, int i, const char **name, const char **side)
{
    return m->info.model->input && m->info.model->input(m->scorer, i, name, side);
}

/* ---- a session ---- */

/* Without a plan to compare, only table names can match: no common table is an error, missing ones may be. */
static int compare_tables(struct ctr_session *s, struct ctr_err *err)
{
    const struct ctr_loaded *m = s->m;
    struct ctr_strs own = { 0 };
    struct ctr_inputs *in = NULL;
    const struct ctr_row_transform change = ctr_row_transform_make(&m->info.params, -1);
    const char *missing = NULL;
    int n = 0, rc = ctr_inputs_new(&in, s->schema, -1, -1, &change, &own, err);
    for (int i = 0; i < m->tables.n && !rc; i++)
        if (ctr_strs_find(&own, m->tables.s[i]) < 0) {
            missing = missing ? missing : m->tables.s[i];
            n++;
        }
    if (!rc && n && n == m->tables.n)
        rc = ctr_fail(err, CTR_EDATA,
                      "the stream has none of the %d table%s of %s, such as %.80s: its features are of other columns",
                      n, CTR_S(n), m->path, missing);
    else if (!rc && n)
        snprintf(s->warning, sizeof s->warning,
                 "the stream has no features of %d of the %d tables of %s, such as %.80s", n, m->tables.n, m->path,
                 missing);
    ctr_inputs_free(in);
    ctr_strs_free(&own);
    return rc;
}

static int bind_inputs(struct ctr_session *s, struct ctr_err *err)
{
    const struct ctr_loaded *m = s->m;
    const struct ctr_row_transform change = ctr_row_transform_make(&m->info.params, -1);
    int rc = 0;
    for (int i = 0; i < m->tables.n && !rc; i++)
        rc = ctr_strs_add(&s->tables, m->tables.s[i], strlen(m->tables.s[i]), err);
    if (!rc)
        rc = ctr_inputs_new(&s->in, s->schema, -1, -1, &change, &s->tables, err);
    if (!rc && m->info.model->by_column)
        rc = ctr_inputs_by_column(s->in, err);
    if (!rc && m->info.model->predicts_transposed)
        ctr_inputs_transpose(s->in);
    return rc;
}

static int bind(struct ctr_session *s, const char *output, struct ctr_err *err)
{
    struct ctr_loaded *m = s->m;
    int rc = output ? ctr_loaded_output(m, output, &s->output, err) : 0;
    if (!rc)
        rc = ctr_model_same_plan(&m->info, m->path, s->schema, err);
    if (!rc && !output && !ctr_meta_get(&m->info.schema.meta, CTR_META_PLAN_ID))
        rc = compare_tables(s, err);
    if (!rc)
        rc = bind_inputs(s, err);
    if (!rc)
        rc = m->info.model->session_new(&s->own, m->scorer, s->in, &s->tables, output, err);
    if (rc)
        return rc;
    s->bound = true;
    s->counted = CTR_MAX(s->tables.n, ctr_inputs_count(s->in));
    s->keys = calloc((size_t)s->counted + 1, 2 * sizeof *s->keys);
    return s->keys ? 0 : ctr_fail_nomem(err, (size_t)s->counted * 2 * sizeof *s->keys);
}

int ctr_session_new(struct ctr_session **out, struct ctr_loaded *m, const struct ctr_schema *schema, const char *output,
                    struct ctr_err *err)
{
    struct ctr_session *s = *out = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->m = ctr_loaded_hold(m);
    s->schema = schema;
    int rc = bind(s, output, err);
    if (rc) {
        ctr_session_free(s);
        *out = NULL;
    }
    return rc;
}

void ctr_session_free(struct ctr_session *s)
{
    if (!s)
        return;
    if (s->bound)
        s->m->info.model->session_free(s->own);
    ctr_inputs_free(s->in);
    ctr_strs_free(&s->tables);
    ctr_loaded_free(s->m);
    free(s->keys);
    free(s);
}

int ctr_session_rules(const struct ctr_session *s, struct ctr_rule **rules, int *n, struct ctr_err *err)
{
    return ctr_inputs_rules(s->in, rules, n, err);
}

const char *ctr_session_warning(const struct ctr_session *s)
{
    return s->warning;
}

/* Compute scores, or values of an output, for as many rows as fit. */
static int predict(struct ctr_session *s, const struct ctr_rows *rows, double *score, double *uncertainty, float *value,
                   struct ctr_err *err)
{
    const struct ctr_model *model = s->m->info.model;
    struct ctr_key_counts counts = { s->keys, s->keys + s->counted };
    return value         ? model->output_rows(s->own, rows, value, &counts, err)
           : uncertainty ? model->predict_uncertain(s->own, rows, score, uncertainty, &counts, err)
                         : model->predict_rows(s->own, rows, score, &counts, err);
}

static int score_rows(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, double *score,
                      double *uncertainty, float *value, struct ctr_err *err)
{
    struct ctr_rows rows;
    int rc = ctr_inputs_batch(s->in, b, err);
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = ctr_inputs_fit(s->in, from + at, n - at, CTR_TILE_ENTRIES);
        rc = ctr_inputs_rows(s->in, NULL, from + at, k, &rows, err);
        if (!rc)
            rc = predict(s, &rows, score ? score + at : NULL, uncertainty ? uncertainty + at : NULL,
                         value ? value + at * s->output.width : NULL, err);
    }
    return rc;
}

int ctr_session_rows(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, double *score,
                     double *uncertainty, struct ctr_err *err)
{
    return score_rows(s, b, from, n, score, uncertainty, NULL, err);
}

int ctr_session_vectors(struct ctr_session *s, const struct ctr_batch *b, int64_t from, int64_t n, float *value,
                        struct ctr_err *err)
{
    return score_rows(s, b, from, n, NULL, NULL, value, err);
}

const char *ctr_session_unknown(const struct ctr_session *s, int i, int64_t *keys, int64_t *unknown)
{
    *keys = *unknown = 0;
    if (i >= s->tables.n)
        return NULL;
    for (int k = 0; k < s->counted; k++) {
        const bool of_table =
            !s->m->info.model->by_column ? k == i : k < ctr_inputs_count(s->in) && ctr_inputs_info(s->in, k).table == i;
        if (of_table) {
            *keys += s->keys[k];
            *unknown += s->keys[s->counted + k];
        }
    }
    return s->tables.s[i];
}
