/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run and a pass of the trainer start from: the schema of the input and its columns, --init, the checkpoint of
 * --resume, the outputs of the first pass, the model bound to its inputs. */
#include "common/compute/comm.h"
#include "common/train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A partial start may have another plan, in which case tables of equal name are matched. It must not have another
 * secret. */
static int check_init_plan(struct ctr_trainer *t, const struct ctr_model_info *info, struct ctr_err *err)
{
    const struct ctr_meta *there = &info->schema.meta, *here = &t->stream.meta;
    const char *a = ctr_meta_get(there, CTR_META_PLAN_ID), *b = ctr_meta_get(here, CTR_META_PLAN_ID);
    struct ctr_difference d;
    char text[300];
    int rc = 0;
    if (!t->job.init_partial)
        rc = ctr_model_same_plan(info, t->job.init, &t->stream, err);
    else if (!ctr_identity_same(there, here, CTR_IDENTITY_SEED, &d))
        rc = ctr_fail(err, CTR_EDATA, "--init-partial %s does not fit: %s: %s", t->job.init, d.what, d.remedy);
    if (rc)
        ctr_err_file(err, t->stream_name);
    if (rc || !t->job.init_partial)
        return rc;
    if ((!a != !b || (a && strcmp(a, b) != 0)) && t->job.warn) {
        snprintf(text, sizeof text,
                 "%.100s: its features were made by %s%.40s, those of the stream by %s%.40s: tables of one name are "
                 "taken for the same",
                 t->job.init, a ? "plan " : "no plan", a ? a : "", b ? "plan " : "no plan", b ? b : "");
        t->job.warn(t->job.ctx, text);
    }
    return 0;
}

/* Note each line, prefixed with the file's name. */
static void note_lines(const struct ctr_trainer *t, struct ctr_buf *told)
{
    struct ctr_buf line = { 0 };
    struct ctr_err err = { 0 };
    for (char *at = (char *)told->data, *end; told->len && t->job.note && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        line.len = 0;
        if (!ctr_buf_printf(&line, &err, "%s: %s", t->job.init, at))
            t->job.note(t->job.ctx, (const char *)line.data);
    }
    ctr_buf_free(&line);
}

static int load_model(struct ctr_trainer *t, int number, struct ctr_reader *r, struct ctr_buf *told,
                      struct ctr_err *err)
{
    const struct ctr_model *model = t->job.model;
    if (model->warm)
        return model->warm(t->learner, &t->tables, r, t->job.init_partial, told, err);
    int rc = model->variant_ops ? model->variant_ops->load(t->learner, number, &t->tables, r, err)
                                : model->load(t->learner, &t->tables, r, err);
    if (rc || model->variant_ops) /* the variants' keys are those of the single model */
        return rc;
    const int64_t keys = model->keys(t->learner);
    return ctr_buf_printf(told, err, "taken: %" PRId64 " key%s of %d table%s\n", keys, CTR_S(keys), t->tables.n,
                          CTR_S(t->tables.n));
}

static int load_init_of(struct ctr_trainer *t, int number, struct ctr_err *err)
{
    struct ctr_buf told = { 0 };
    struct ctr_model_whole whole;
    struct ctr_model_info info;
    struct ctr_reader *r;
    int rc = ctr_model_whole(t->job.init, &whole, err);
    if (!rc && (rc = ctr_model_open(whole.path, &info, &r, err)))
        ctr_model_whole_free(&whole);
    if (rc)
        return rc;
    if (strcmp(info.model->name, t->job.model->name))
        rc = ctr_fail(err, CTR_EUSAGE, "--init: this is a model of kind %s, not %s", info.model->name,
                      t->job.model->name);
    else if (info.params.hash_bits != t->job.params.hash_bits) /* one key would get two weights */
        rc = ctr_fail(err, CTR_EUSAGE,
                      "--init: the model was learned with --hash-bits %" PRId64 ", not %" PRId64
                      " (0: keys as they are): give the same",
                      info.params.hash_bits, t->job.params.hash_bits);
    if (!rc)
        rc = check_init_plan(t, &info, err);
    if (!rc)
        rc = load_model(t, number, r, &told, err);
    if (rc)
        ctr_err_file(err, t->job.init);
    else
        note_lines(t, &told);
    ctr_buf_free(&told);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    ctr_model_whole_free(&whole);
    return rc;
}

static int load_init(struct ctr_trainer *t, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < t->models && !rc; i++)
        rc = load_init_of(t, i, err);
    return rc;
}

static int start_progressive(struct ctr_trainer *t, struct ctr_err *err)
{
    const char **name = t->job.model->variant_ops ? calloc((size_t)t->models, sizeof *name) : NULL;
    for (int i = 0; name && i < t->models; i++)
        name[i] = t->job.params.variants->v[i].name;
    int rc = t->job.model->variant_ops && !name
                 ? ctr_fail_nomem(err, (size_t)t->models * sizeof *name)
                 : ctr_progressive_schema(&t->progressive, &t->stream, name, t->models, t->job.params.uncertainty, err);
    free(name);
    if (rc)
        return rc;
    if (t->job.checkpoint) {
        if ((rc = ctr_checkpoint_open_store(t, err)))
            return rc;
        t->at.scores = 0;
    }
    return t->job.progressive(t->job.ctx, &t->progressive.schema, &t->progressive.out, err);
}

static void note_running_counts(const struct ctr_trainer *t)
{
    if (t->job.note && t->wants_counts && !t->job.opens_again)
        t->job.note(t->job.ctx, "--l2 divides by how often a key has come so far, since this input is read once: early "
                                "rows shrink vectors most; name files, whose keys are counted first, or give "
                                "--l2-counts FILE");
}

/* Called once, after the first pass has opened the input. */
static int start_run(struct ctr_trainer *t, const struct ctr_schema *s, const char *name, struct ctr_err *err)
{
    int rc = ctr_schema_copy(&t->stream, s, err);
    if (!rc)
        rc = ctr_strdup(&t->stream_name, name, err);
    if (!rc)
        rc = ctr_ranks_same(t, err);
    if (!rc && t->job.fitted)
        rc = ctr_model_check_fitted(t->job.fitted, &t->stream, err);
    else if (!rc && t->job.note && ctr_model_wants_fitted(&t->stream))
        t->job.note(t->job.ctx,
                    "the plan is fitted and its state is not in the stream: name the fitted plan with --plan, so "
                    "that the model can extract too");
    const bool writes = t->job.checkpoint && !ctr_comm_rank(t->job.params.comm);
    if (!rc && writes && !t->job.resume)
        rc = ctr_checkpoint_check(t, err);
    if (!rc && writes)
        ctr_checkpoint_sweep(t);
    if (!rc && t->job.resume)
        rc = ctr_checkpoint_load(t, err);
    if (!rc && t->job.init && !t->job.init_partial && !t->resumed)
        rc = load_init(t, err);
    if (!rc && !t->resumed)
        note_running_counts(t);
    if (!rc && t->job.progressive)
        rc = start_progressive(t, err);
    if (!rc && t->job.spool && t->job.passes > 1) {
        rc = ctr_out_open(&t->spool_out, t->job.spool, CTR_OUT_BINARY, err);
        if (!rc)
            rc = ctr_writer_open(&t->spool, t->spool_out, &t->stream, NULL, err);
    }
    return rc;
}

static int find_columns(struct ctr_trainer *t, const struct ctr_schema *s, struct ctr_err *err)
{
    for (int i = 0; i < s->n; i++)
        if (ctr_field_role(&s->f[i]) == CTR_ROLE_IMAGE && !t->job.params.images.missing)
            return ctr_fail(
                err, CTR_EUSAGE,
                "column '%s' has the role image, and %s does not learn from images: train dicm or two-tower, make "
                "it a feature in the plan (feature %s), or leave it out (ctr-select --columns)",
                s->f[i].name, t->job.model->name, s->f[i].name);
    int rc = ctr_schema_find_role(s, CTR_ROLE_LABEL, t->job.label, true, &t->label, err);
    return rc ? rc : ctr_schema_find_role(s, CTR_ROLE_WEIGHT, t->job.weight, false, &t->weight, err);
}

/* Set up the time order check of the first pass. */
static int start_order(struct ctr_trainer *t, const struct ctr_schema *s, struct ctr_err *err)
{
    const bool fail = t->job.time_order == CTR_TIME_FAIL;
    int time = -1, rc = 0;
    if (t->job.time_order != CTR_TIME_IGNORE &&
        (rc = ctr_schema_find_role(s, CTR_ROLE_TIME, t->job.time, fail, &time, err)))
        return rc;
    if (time >= 0 && s->f[time].type != CTR_TIME) {
        if (fail)
            return ctr_fail(err, CTR_EUSAGE, "column '%s' is no timestamp, as --time-order wants it", s->f[time].name);
        time = -1;
    }
    t->order = (struct ctr_time_order){ .looks = time >= 0, .column = time, .fail = fail };
    return 0;
}

/* Find the weight columns of variants. */
static int find_weights(const struct ctr_variants *vs, const struct ctr_schema *s, struct ctr_inputs *in,
                        struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0, next = 0; i < vs->n && !rc; i++) { /* numbers are assigned in the order of lines */
        if (vs->v[i].weight != next)
            continue;
        const char *name = vs->weights.s[next++];
        const int column = ctr_schema_find(s, name);
        rc = column < 0 ? ctr_fail(err, CTR_EUSAGE, "%s: line %d: the stream has no column '%.80s' of weights",
                                   vs->path, vs->v[i].line, name)
                        : ctr_inputs_weigh(in, column, err);
    }
    return rc;
}

int ctr_trainer_sieve(struct ctr_batch_source *s, const struct ctr_inputs *in, struct ctr_bad_rows *bad,
                      const struct ctr_rule *more, struct ctr_err *err)
{
    struct ctr_rule *rule = NULL;
    int n = 0, rc = bad ? ctr_inputs_rules(in, &rule, &n, err) : 0;
    if (!rc && more)
        rule[n++] = *more;
    if (!rc && n)
        rc = ctr_bad_rows_source(s, bad, rule, n, NULL, err);
    free(rule);
    return rc;
}

int ctr_trainer_good_rows(const struct ctr_trainer *t, struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_batch_source_schema(s);
    const bool ordered = t->job.bad && t->order.looks && t->order.fail;
    const struct ctr_rule time = { .column = t->order.column,
                                   .role = CTR_ROLE_TIME,
                                   .name = ordered ? schema->f[t->order.column].name : NULL };
    return ctr_trainer_sieve(s, t->in, t->job.bad, ordered ? &time : NULL, err);
}

int ctr_trainer_start_pass(struct ctr_trainer *t, const struct ctr_schema *s, const char *name, struct ctr_err *err)
{
    const struct ctr_row_transform change = ctr_row_transform_make(&t->job.params, t->at.pass);
    struct ctr_difference d;
    const bool first = !t->have_stream;
    int rc = first ? start_run(t, s, name, err) : 0;
    t->have_stream = true;
    if (!rc && !ctr_streams_same(&t->stream, s, &d)) {
        ctr_err_file(err, name);
        rc = ctr_fail(err, CTR_EDATA, "cannot be joined with %s in pass %" PRId64 ": %s: %s", t->stream_name,
                      t->at.pass + 1, d.what, d.remedy);
    }
    if (!rc)
        rc = find_columns(t, s, err);
    if (!rc)
        rc = ctr_inputs_new(&t->in, s, t->label, t->weight, &change, &t->tables, err);
    if (!rc && !t->at.pass)
        ctr_inputs_watch(t->in);
    if (!rc && t->job.advises && !t->crosses && !t->job.model->by_column && !t->job.model->variant_ops)
        rc = ctr_crosses_new(&t->crosses, t->in, t->job.memory_bytes, err);
    if (!rc && t->job.params.variants)
        rc = find_weights(t->job.params.variants, s, t->in, err);
    if (!rc && t->job.params.lr.expire) {
        int time;
        if (!(rc = ctr_schema_find_role(s, CTR_ROLE_TIME, t->job.time, true, &time, err)))
            rc = ctr_inputs_days(t->in, time, err);
    }
    if (!rc && !t->at.pass)
        rc = start_order(t, s, err);
    if (!rc && t->job.model->by_column)
        rc = ctr_inputs_by_column(t->in, err);
    if (!rc && t->job.model->transposed && t->job.model->transposed(t->learner) && !t->job.validation_every)
        ctr_inputs_transpose(t->in);
    if (!rc)
        rc = t->job.model->bind(t->learner, t->in, &t->tables, err);
    if (!rc && t->job.model->count_rows && t->at.pass) /* the first pass has counted all */
        rc = t->job.model->count_rows(t->learner, NULL, 0, err);
    if (!rc && first && t->chain.whole)
        rc = ctr_checkpoint_follow(t, err);
    if (!rc && first && t->job.init_partial && !t->resumed)
        rc = load_init(t, err);
    if (!rc && t->job.init_rate > 0 && !t->at.pass && !t->resumed)
        rc = t->job.model->set_bias(t->learner, ctr_log(t->job.init_rate) - ctr_log1p(-t->job.init_rate), err);
    if (!rc && t->job.checkpoint && !(rc = ctr_digest_new(&t->digest, s, err)))
        ctr_digest_hex(t->digest, t->at.digest);
    return rc;
}
