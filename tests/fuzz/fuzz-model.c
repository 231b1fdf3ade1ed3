/* SPDX-License-Identifier: Apache-2.0
 *
 * Models and fitted plans: opened, predicting, gone on from, extracting; their strongest weights, what changed from a
 * model to itself, and what makes a prediction. */
#include "harness.h"

#include "common/plan/plan.h"
#include "tools/ctr-model/insight.h"

FUZZ_STREAM_MUTATOR

static void predict(const char *path, bool uncertainty)
{
    struct ctr_predictor *p = NULL;
    struct ctr_err err = { 0 };
    const struct ctr_batch *b;
    if (!ctr_predictor_open(&p, path, &(struct ctr_predict_opts){ 1, uncertainty, NULL, 0 }, &err) &&
        !ctr_predictor_bind(p, fuzz_features()->schema, &err) && ctr_predictor_run(p, fuzz_features(), &b, &err) >= 0)
        fuzz_look(b);
    else
        FUZZ_CHECK(err.what[0]);
    ctr_predictor_free(p);
}

/* As --init does: the state goes into a learner of the options that the file names, but for what they would allocate.
 */
static void go_on(const char *path)
{
    struct ctr_model_info info;
    struct ctr_reader *r = NULL;
    struct ctr_strs tables = { 0 };
    struct ctr_err err = { 0 };
    void *learner = NULL;
    if (ctr_model_open(path, &info, &r, &err))
        return;
    info.params.minibatch = 1;
    info.params.lr.bloom_bytes = 4096;
    bool small = info.params.deep.embedding <= 64;
    for (int i = 0; i < info.params.deep.hidden.n; i++)
        small &= info.params.deep.hidden.size[i] <= 64;
    if (small && !info.model->learner_new(&learner, info.model, &info.params, &err) &&
        info.model->load(learner, &tables, r, &err))
        FUZZ_CHECK(err.what[0]);
    if (learner)
        info.model->learner_free(learner);
    ctr_strs_free(&tables);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
}

static int look(void *ctx, const struct ctr_batch *b, struct ctr_err *err)
{
    (void)ctx;
    (void)err;
    fuzz_look(b);
    return 0;
}

static void top(const char *path)
{
    struct ctr_top_opts o = { .n = 3, .by_table = true };
    struct ctr_err err = { 0 };
    FUZZ_CHECK(!ctr_model_top(path, &o, look, NULL, &err) || err.what[0]);
}

static void diff(const char *path)
{
    struct ctr_top_opts o = { .n = 0 };
    struct ctr_diff_counts counts = { 0 };
    struct ctr_err err = { 0 };
    if (!ctr_model_diff(path, path, &o, &counts, look, NULL, &err))
        FUZZ_CHECK(!counts.only_a && !counts.only_b && !counts.differ && counts.same_plan && counts.same_options);
    else
        FUZZ_CHECK(err.what[0]);
}

/* Rows of features, or raw ones for the model's plan. */
static void explain(const char *path, const struct ctr_batch *rows)
{
    struct ctr_explain *e = NULL;
    struct ctr_batchbuf out = { 0 };
    struct ctr_err err = { 0 };
    if (!ctr_explain_open(&e, path, &(struct ctr_explain_opts){ .n = 3 }, &err) &&
        !ctr_explain_bind(e, rows->schema, false, &err) && !ctr_batchbuf_init(&out, ctr_explain_schema(e), &err) &&
        !ctr_explain_batch(e, rows, &out, &err))
        fuzz_look(ctr_batchbuf_view(&out));
    else
        FUZZ_CHECK(err.what[0]);
    ctr_batchbuf_free(&out);
    ctr_explain_free(e);
}

static void extract(const char *path)
{
    struct ctr_plan *p = NULL;
    struct ctr_program *g = NULL;
    struct ctr_err err = { 0 };
    const struct ctr_batch *b;
    if (!ctr_plan_open(&p, path, &err) && !ctr_program_bind(&g, p, fuzz_batch()->schema, &err) &&
        ctr_program_run(g, fuzz_batch(), &b, &err) >= 0)
        fuzz_look(b);
    ctr_program_free(g);
    ctr_plan_free(p);
}

static void explain_features(const char *path)
{
    explain(path, fuzz_features());
}

static void explain_raw(const char *path)
{
    explain(path, fuzz_batch());
}

/* Predicts, and does one thing more, which its bytes pick. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const uses[])(const char *) = { go_on, top, diff, explain_features, explain_raw, extract };
    const char *path = fuzz_file(0, data, size);
    const uint64_t how = ctr_hash64(data, size, 0);
    predict(path, how & 1);
    uses[how / 2 % CTR_COUNT(uses)](path);
    return 0;
}
