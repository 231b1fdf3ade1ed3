/* SPDX-License-Identifier: Apache-2.0
 *
 * Model files: a stream whose schema metadata hold the kind of model, its options, and the plan of its features. A
 * model with fitted sections is a bundle, whose first section is the model. */
#include "common/plan/plan.h"
#include "common/model/model.h"

void ctr_model_info_free(struct ctr_model_info *info)
{
    ctr_schema_free(&info->schema);
}

static int read_info(struct ctr_model_info *info, struct ctr_err *err)
{
    const char *name = ctr_meta_get(&info->schema.meta, CTR_META_MODEL);
    const char *options = ctr_meta_get(&info->schema.meta, CTR_META_MODEL_OPTIONS);
    if (!name)
        return ctr_fail(err, CTR_EDATA, "not a model: ctr-train writes models");
    if (ctr_meta_get(&info->schema.meta, CTR_META_DELTA))
        return ctr_fail(err, CTR_EDATA,
                        "a delta, which holds what changed since another checkpoint: name that one, or "
                        "join both with ctr-model merge");
    info->model = ctr_model_find(name);
    if (info->model && ctr_meta_get(&info->schema.meta, CTR_META_MODEL_SLIM))
        info->model = info->model->slim;
    if (!info->model)
        return ctr_fail(err, CTR_EDATA, "a model of kind '%s', which this version does not know", name);
    return ctr_params_parse(info->model, &info->params, options ? options : "", err);
}

int ctr_model_open(const char *path, struct ctr_model_info *info, struct ctr_reader **out, struct ctr_err *err)
{
    struct ctr_reader_opts o = { .sections = true };
    char *paths[] = { (char *)(uintptr_t)path };
    struct ctr_reader *r;
    memset(info, 0, sizeof *info);
    int rc = ctr_reader_open(&r, paths, 1, &o, err);
    if (rc)
        return rc;
    rc = ctr_schema_copy(&info->schema, ctr_reader_schema(r), err);
    if (!rc)
        rc = read_info(info, err);
    if (rc) {
        ctr_err_file(err, path);
        ctr_reader_free(r);
        ctr_model_info_free(info);
        return rc;
    }
    *out = r;
    return 0;
}

int ctr_model_slim(const char *path, const struct ctr_slim_opts *o, struct ctr_out *out, struct ctr_slim_told *told,
                   struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r;
    int rc = ctr_model_open(path, &info, &r, err);
    if (rc)
        return rc;
    ctr_reader_free(r);
    rc = info.model->write_slim
             ? info.model->write_slim(path, &info, o, out, told, err)
             : ctr_fail(err, CTR_EUSAGE, "a model of kind '%s' has no serving file: those of ctr-train lr have",
                        info.model->name);
    if (rc)
        ctr_err_file(err, path);
    ctr_model_info_free(&info);
    return rc;
}

int ctr_model_same_plan(const struct ctr_model_info *info, const char *path, const struct ctr_schema *stream,
                        struct ctr_err *err)
{
    const char *ours = ctr_meta_get(&info->schema.meta, CTR_META_PLAN_ID);
    const char *theirs = ctr_meta_get(&stream->meta, CTR_META_PLAN_ID);
    struct ctr_difference d;
    if (!ours)
        return 0;
    if (!theirs)
        return ctr_fail(
            err, CTR_EDATA,
            "%s learned from features of plan %s, but the stream does not say which plan made its features: "
            "extract them with ctr-extract %s",
            path, ours, path);
    if (ctr_identity_same(&info->schema.meta, &stream->meta, CTR_IDENTITY_ALL & ~CTR_IDENTITY_NETWORK, &d))
        return 0;
    return ctr_fail(err, CTR_EDATA,
                    "its features are not those that %s learned from: %s: extract them with ctr-extract %s", path,
                    d.what, path);
}

/* ---- writing ---- */

static int copy_meta(struct ctr_meta *to, const struct ctr_meta *from, const char *key, struct ctr_err *err)
{
    const char *v = ctr_meta_get(from, key);
    return v ? ctr_meta_set(to, key, v, err) : 0;
}

static int make_schema(const struct ctr_save *s, struct ctr_schema *schema, struct ctr_err *err)
{
    struct ctr_buf options = { 0 };
    int rc = s->model->save_schema(s->learner, schema, err);
    if (!rc && s->stream)
        rc = copy_meta(&schema->meta, &s->stream->meta, CTR_META_PG, err);
    for (int i = 0; ctr_plan_metas[i] && !rc && s->stream; i++)
        rc = copy_meta(&schema->meta, &s->stream->meta, ctr_plan_metas[i], err);
    if (!rc)
        rc = ctr_meta_set(&schema->meta, CTR_META_SECTION, s->model->name, err);
    if (!rc)
        rc = ctr_meta_set(&schema->meta, CTR_META_MODEL, s->model->name, err);
    if (!rc)
        rc = ctr_params_text(s->model, s->params, &options, err);
    if (!rc)
        rc = ctr_meta_set(&schema->meta, CTR_META_MODEL_OPTIONS, (const char *)options.data, err);
    if (!rc && s->checkpoint)
        rc = ctr_meta_set(&schema->meta, CTR_META_CHECKPOINT, s->checkpoint, err);
    if (!rc && s->program)
        rc = ctr_schema_provenance(schema, s->program, s->options ? s->options : "", err);
    ctr_buf_free(&options);
    return rc;
}

/* Open the fitted plan that made the stream's features. */
static int open_fitted(const char *path, const struct ctr_schema *stream, struct ctr_plan **plan, struct ctr_err *err)
{
    const char *id = ctr_meta_get(&stream->meta, CTR_META_PLAN_ID);
    int rc = ctr_plan_open(plan, path, err);
    if (!rc && (!id || strcmp(id, ctr_plan_id(*plan))))
        rc = ctr_fail(err, CTR_EUSAGE, "%s is plan %s, but the stream's features were made by %s%s", path,
                      ctr_plan_id(*plan), id ? "plan " : "no plan", id ? id : "");
    return rc;
}

int ctr_model_check_fitted(const char *path, const struct ctr_schema *stream, struct ctr_err *err)
{
    struct ctr_plan *plan = NULL;
    int rc = open_fitted(path, stream, &plan, err);
    ctr_plan_free(plan);
    return rc;
}

bool ctr_model_wants_fitted(const struct ctr_schema *stream)
{
    struct ctr_plan *plan = NULL;
    struct ctr_err err = { 0 };
    bool wants = !ctr_plan_of_meta(&plan, "plan", &stream->meta, &err) && plan && ctr_plan_needs_fit(plan);
    ctr_plan_free(plan);
    return wants;
}

/* ---- the state of a checkpoint: a section of 64-bit words ---- */

#define STATE_SECTION "state"

static int write_state(const struct ctr_buf *words, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_schema schema = { 0 };
    struct ctr_writer *w = NULL;
    int rc = ctr_schema_add(&schema, "word", CTR_U64, err);
    if (!rc)
        rc = ctr_meta_set(&schema.meta, CTR_META_SECTION, STATE_SECTION, err);
    if (!rc)
        rc = ctr_writer_open(&w, out, &schema, NULL, err);
    const int64_t n = (int64_t)(words->len / sizeof(uint64_t));
    for (int64_t at = 0; at < n && !rc; at += CTR_BATCH_ROWS) {
        const int64_t rows = CTR_MIN(n - at, CTR_BATCH_ROWS);
        struct ctr_col col = { .type = CTR_U64, .rows = rows, .data = words->data + at * (int64_t)sizeof(uint64_t) };
        struct ctr_batch b = { &schema, rows, at, &col };
        rc = ctr_writer_batch(w, &b, err);
    }
    if (!rc)
        rc = ctr_writer_finish(w, err);
    ctr_writer_free(w);
    ctr_schema_free(&schema);
    return rc;
}

int ctr_model_restore(const struct ctr_model *model, void *learner, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_buf words = { 0 };
    const struct ctr_batch *b;
    if (!model->restore)
        return 0;
    int rc = ctr_reader_section(r, err);
    if (rc <= 0)
        return rc ? rc : model->restore(learner, NULL, 0, err);
    const struct ctr_schema *s = ctr_reader_schema(r);
    const char *name = ctr_meta_get(&s->meta, CTR_META_SECTION);
    rc = name && !strcmp(name, STATE_SECTION) && s->n == 1 && s->f[0].type == CTR_U64 && !s->f[0].dict
             ? 0
             : ctr_fail(err, CTR_EDATA, "the checkpoint has a section that this version does not know");
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = b->col[0].nulls ? ctr_fail(err, CTR_EDATA, "the checkpoint's state has nulls")
                             : ctr_buf_append(&words, b->col[0].data, (size_t)b->rows * sizeof(uint64_t), err);
    if (!rc)
        rc = model->restore(learner, (const uint64_t *)(void *)words.data, words.len / sizeof(uint64_t), err);
    ctr_buf_free(&words);
    return rc;
}

/* A file being written. */
struct file {
    const struct ctr_save *s;
    struct ctr_out *out;
    struct ctr_schema schema;
    struct ctr_buf names, state;
    struct ctr_plan *plan;
    struct ctr_writer *w;
};

static int begin_file(struct file *f, struct ctr_err *err)
{
    const struct ctr_save *s = f->s;
    int rc = make_schema(s, &f->schema, err);
    if (!rc && s->state)
        ctr_model_state(&f->schema.meta, s->state);
    if (!rc && s->delta)
        rc = ctr_meta_set(&f->schema.meta, CTR_META_DELTA, s->delta, err);
    if (!rc && s->replaces)
        rc = ctr_meta_set(&f->schema.meta, CTR_META_REPLACES, s->replaces, err);
    if (!rc && s->checkpoint && s->model->state)
        rc = s->model->state(s->learner, &f->state, err);
    if (!rc && s->fitted)
        rc = open_fitted(s->fitted, s->stream, &f->plan, err);
    if (!rc)
        rc = ctr_buf_printf(&f->names, err, "%s", s->model->name);
    if (!rc && s->model->section_names)
        rc = s->model->section_names(s->learner, s->tables, &f->names, err);
    if (!rc && f->state.len)
        rc = ctr_buf_printf(&f->names, err, "," STATE_SECTION);
    if (!rc && f->plan)
        rc = ctr_plan_save_section_names(f->plan, &f->names, err);
    if (!rc && strchr((const char *)f->names.data, ','))
        rc = ctr_meta_set(&f->schema.meta, CTR_META_SECTIONS, (const char *)f->names.data, err);
    return rc ? rc : ctr_writer_open(&f->w, f->out, &f->schema, NULL, err);
}

static int end_file(struct file *f, struct ctr_err *err)
{
    const struct ctr_save *s = f->s;
    int rc = ctr_writer_finish(f->w, err);
    if (!rc && s->model->save_sections)
        rc = s->model->save_sections(s->learner, s->tables, f->out, err);
    if (!rc && f->state.len)
        rc = write_state(&f->state, f->out, err);
    if (!rc && f->plan)
        rc = ctr_plan_save_sections(f->plan, f->out, err);
    return rc;
}

static void free_file(struct file *f)
{
    ctr_writer_free(f->w);
    ctr_plan_free(f->plan);
    ctr_schema_free(&f->schema);
    ctr_buf_free(&f->names);
    ctr_buf_free(&f->state);
}

static int begin_files(struct file *f, const struct ctr_save *s, int n, struct ctr_out *const *out, struct ctr_err *err)
{
    for (int i = 0; i < n; i++) {
        f[i].s = &s[i];
        f[i].out = out[i];
        int rc = begin_file(&f[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

int ctr_model_save_some(const struct ctr_save *s, int n, ctr_save_rows *save, struct ctr_out *const *out,
                        struct ctr_err *err)
{
    struct file f[CTR_SAVE_TOGETHER] = { 0 };
    struct ctr_writer *w[CTR_SAVE_TOGETHER];
    void *learner[CTR_SAVE_TOGETHER];
    int rc = begin_files(f, s, n, out, err);
    for (int i = 0; i < n; i++) {
        w[i] = f[i].w;
        learner[i] = s[i].learner;
    }
    if (!rc)
        rc = save ? save(learner, n, s->tables, w, err) : s->model->save(s->learner, s->tables, *w, err);
    for (int i = 0; i < n && !rc; i++)
        rc = end_file(&f[i], err);
    for (int i = 0; i < n; i++)
        free_file(&f[i]);
    return rc;
}

int ctr_model_save(const struct ctr_save *s, struct ctr_out *out, struct ctr_err *err)
{
    return ctr_model_save_some(s, 1, NULL, &out, err);
}
