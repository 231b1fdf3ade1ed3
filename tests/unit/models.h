/* SPDX-License-Identifier: Apache-2.0
 *
 * models: a few rows of every kind of feature, and models of them, made in this process; a test removes its files. */
#ifndef CTR_TEST_MODELS_H
#define CTR_TEST_MODELS_H

#include <stdio.h>
#include <unistd.h>

#include "common/train/train.h"
#include "common/lr/variants.h"

enum { MODEL_ROWS = 24 };
static char model_rows[64]; /* path of the rows */

/* A path of this process; in memory where that can be, for thousands of models are synced. */
static inline void model_file(char path[64], const char *name)
{
    snprintf(path, 64, "%s/ctr-unit-%d.%s", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid(), name);
}

static inline int model_put_row(struct ctr_colbuf *c, int i, struct ctr_err *err)
{
    int rc = ctr_colbuf_f64(&c[0], i % 3 == 0, err) | ctr_colbuf_i64(&c[1], i % 5, err) |
             ctr_colbuf_f64(&c[3], i / 8.0, err) | ctr_colbuf_i64(&c[4], i * 40000000LL, err) |
             ctr_colbuf_i64(&c[5], i % 4, err);
    for (int k = 0; k < i % 3; k++)
        rc |= ctr_colbuf_i64(c[2].item, i % 7 + k, err);
    return rc | ctr_colbuf_close(&c[2], err);
}

/* Columns click, item, past (lists that share the table of item), x, time and site; written to `path`. */
static inline int model_make_rows(const char *path, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b = { 0 };
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    int rc = ctr_schema_add(&s, "click", CTR_F64, err) | ctr_schema_add(&s, "item", CTR_U64, err) |
             ctr_schema_add(&s, "past", CTR_LIST, err) | ctr_schema_add(&s, "x", CTR_F64, err) |
             ctr_schema_add(&s, "time", CTR_TIME, err) | ctr_schema_add(&s, "site", CTR_U64, err);
    s.f[2].item = CTR_U64;
    rc |= ctr_field_set_role(&s.f[0], CTR_ROLE_LABEL, err) | ctr_field_set_role(&s.f[1], CTR_ROLE_FEATURE, err) |
          ctr_field_set_role(&s.f[2], CTR_ROLE_FEATURE, err) | ctr_field_set_role(&s.f[3], CTR_ROLE_DENSE, err) |
          ctr_field_set_role(&s.f[5], CTR_ROLE_FEATURE, err) | ctr_meta_set(&s.f[2].meta, CTR_META_TABLE, "item", err) |
          ctr_batchbuf_init(&b, &s, err);
    for (int i = 0; i < MODEL_ROWS && !rc; i++)
        rc = model_put_row(b.col, i, err);
    rc = rc ? rc : ctr_out_open(&o, path, 0, err);
    rc = rc ? rc : ctr_writer_open(&w, o, &s, NULL, err);
    rc = rc ? rc : ctr_writer_batch(w, ctr_batchbuf_view(&b), err);
    rc = rc ? rc : ctr_writer_finish(w, err);
    rc = rc ? rc : ctr_out_commit(o, err);
    snprintf(model_rows, sizeof model_rows, "%s", path);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    return rc;
}

static inline int model_reader(struct ctr_reader **r, struct ctr_err *err)
{
    char *path[] = { model_rows };
    return ctr_reader_open(r, path, 1, NULL, err);
}

static inline int model_open_rows(void *ctx, const char *path, const struct ctr_reader_opts *o,
                                  struct ctr_batch_source *s, struct ctr_err *err)
{
    char *paths[] = { path ? (char *)(uintptr_t)path : model_rows };
    struct ctr_reader *r;
    (void)ctx;
    int rc = ctr_reader_open(&r, paths, 1, o, err);
    if (!rc)
        *s = ctr_batch_source_stream(r);
    return rc;
}

static const char *model_variants; /* lines of --variants, or NULL; the models are of lr */
static bool model_single_value;
static const char *model_sides[2]; /* --user-features, --ad-features */

static inline int model_take_variants(struct ctr_variants *vs, struct ctr_train_job *job, struct ctr_err *err)
{
    if (!model_variants)
        return 0;
    job->params.variants = vs;
    job->model = model_single_value ? &ctr_model_lr_shared_value : &ctr_model_lr_variants;
    return ctr_variants_parse(vs, "variants", model_variants, strlen(model_variants), &job->params, err);
}

/* Learn a model of `kind` with options "name=value …" from the rows, from the model `init` or NULL on; save it (of
 * variants the last one) to `to`.
 * `checkpoint`: NULL, or where the run stops; it goes on from there when the file is there. */
static inline int model_train(const char *kind, const char *options, const char *init, const char *checkpoint,
                              const char *to, struct ctr_err *err)
{
    static const volatile sig_atomic_t stop = 1;
    struct ctr_train_job job = { .model = ctr_model_find(kind), .passes = 1, .init = init, .open = model_open_rows };
    struct ctr_trainer *t = NULL;
    struct ctr_out *o = NULL;
    struct ctr_variants vs = { 0 };
    job.checkpoint = checkpoint;
    job.resume = checkpoint && access(checkpoint, F_OK) == 0;
    job.stop = checkpoint && !job.resume ? &stop : NULL;
    job.program = "unit";
    int rc = ctr_params_parse(job.model, &job.params, options, err);
    job.params.deep.user_features = model_sides[0];
    job.params.deep.ad_features = model_sides[1];
    if (job.params.lr.expire)
        job.time = "time";
    if (!rc)
        rc = model_take_variants(&vs, &job, err);
    if (!rc)
        rc = ctr_trainer_new(&t, &job, err);
    if (!rc)
        rc = ctr_trainer_run(t, err);
    if (!rc)
        rc = ctr_out_open(&o, to, 0, err);
    if (!rc)
        rc = ctr_trainer_save(t, ctr_trainer_models(t) - 1, o, err);
    if (!rc)
        rc = ctr_out_commit(o, err);
    ctr_out_free(o);
    ctr_trainer_free(t);
    ctr_variants_free(&vs);
    return rc;
}

/* Score the rows; *sum gets the sum of all scores, `warned` what the predictor says of the model, if any. */
static inline int model_predict(const char *path, bool uncertainty, double *sum, char warned[256], struct ctr_err *err)
{
    struct ctr_predict_opts o = { .threads = 1, .uncertainty = uncertainty };
    struct ctr_predictor *p = NULL;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *in, *out;
    *sum = 0;
    int rc = ctr_predictor_open(&p, path, &o, err);
    if (!rc)
        snprintf(warned, 256, "%s", ctr_predictor_warning(p));
    if (!rc)
        rc = model_reader(&r, err);
    if (!rc)
        rc = ctr_predictor_bind(p, ctr_reader_schema(r), err);
    while (!rc && (rc = ctr_reader_next(r, &in, err)) > 0) {
        rc = ctr_predictor_run(p, in, &out, err);
        for (int64_t i = 0; i < in->rows && !rc; i++)
            *sum += ctr_col_f64(&out->col[ctr_schema_role(out->schema, CTR_ROLE_SCORE)], i);
    }
    ctr_reader_free(r);
    ctr_predictor_free(p);
    return rc;
}

#endif
