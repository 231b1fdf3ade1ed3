/* SPDX-License-Identifier: Apache-2.0
 *
 * Models and fitted plans: opened, predicting, extracting, and their strongest weights. */
#include "harness.h"

#include "common/feature/feature.h"
#include "common/model/model.h"

FUZZ_STREAM_MUTATOR

static void predict(const char *path)
{
    struct ctr_predictor *p = NULL;
    struct ctr_err err = { 0 };
    const struct ctr_batch *b;
    if (!ctr_predictor_open(&p, path, 1, &err) && !ctr_predictor_bind(p, fuzz_features()->schema, &err) &&
        ctr_predictor_run(p, fuzz_features(), &b, &err) >= 0)
        fuzz_look(b);
    else
        FUZZ_CHECK(err.what[0]);
    ctr_predictor_free(p);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    predict(path);
    top(path);
    extract(path);
    return 0;
}
