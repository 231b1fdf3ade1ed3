/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of names (ctr-extract --names), as ctr-model top reads them, beside a fixed model. */
#include "harness.h"

#include "common/lr/lr.h"
#include "tools/ctr-model/insight.h"

FUZZ_STREAM_MUTATOR

/* The model lies in slot 1. Its keys are those of the fixed features. */
static void make_model(void)
{
    struct ctr_params params = ctr_params_usual(&ctr_model_lr);
    struct ctr_strs tables = { 0 };
    struct ctr_inputs *in = NULL;
    struct ctr_rows rows;
    struct ctr_out *out = NULL;
    struct ctr_err err = { 0 };
    double label[16], score[16];
    void *learner = NULL;
    for (int i = 0; i < 16; i++)
        label[i] = i & 1;
    FUZZ_CHECK(!ctr_inputs_new(&in, fuzz_features()->schema, -1, -1, NULL, &tables, &err));
    FUZZ_CHECK(!ctr_inputs_batch(in, fuzz_features(), &err) &&
               !ctr_inputs_rows(in, NULL, 0, fuzz_features()->rows, &rows, &err));
    rows.label = label;
    FUZZ_CHECK(!ctr_model_lr.learner_new(&learner, &ctr_model_lr, &params, &err) &&
               !ctr_model_lr.bind(learner, NULL, &tables, &err) &&
               !ctr_model_lr.train_rows(learner, &rows, score, 0, &err));
    FUZZ_CHECK(!ctr_out_open(&out, fuzz_out(1), 0, &err));
    struct ctr_save save = { .model = &ctr_model_lr, .params = &params, .learner = learner, .tables = &tables };
    FUZZ_CHECK(!ctr_model_save(&save, out, &err) && !ctr_out_commit(out, &err));
    ctr_out_free(out);
    ctr_model_lr.learner_free(learner);
    ctr_inputs_free(in);
    ctr_strs_free(&tables);
}

static int look(void *ctx, const struct ctr_batch *b, struct ctr_err *err)
{
    (void)ctx;
    (void)err;
    fuzz_look(b);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    struct ctr_top_opts o = { .n = 0, .names = fuzz_file(0, data, size) };
    struct ctr_err err = { 0 };
    if (!made)
        make_model();
    made = true;
    FUZZ_CHECK(!ctr_model_top(fuzz_path(1), &o, look, NULL, &err) || err.what[0]);
    return 0;
}
