/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of variants: parsed, bound to the fixed features, learned together; each is the model that is learned alone. */
#include "harness.h"

#include "common/lr/lr.h"
#include "common/lr/variants.h"

enum { FEW = 6 }; /* variants that are learned: time, not memory, bounds it */

static void learn(const struct ctr_variants *vs, const struct ctr_params *base, const struct ctr_inputs *in,
                  const struct ctr_strs *tables, const struct ctr_rows *rows)
{
    struct ctr_params p = *base;
    struct ctr_err err = { 0 };
    void *learner = NULL, *one = NULL;
    double score[64 * FEW];
    p.variants = vs;
    if (ctr_model_lr_variants.learner_new(&learner, &ctr_model_lr_variants, &p, &err))
        return;
    if (!ctr_model_lr_variants.bind(learner, in, tables, &err) &&
        !ctr_model_lr_variants.train_rows(learner, rows, score, 0, &err))
        for (int i = 0; i < vs->n; i++) {
            struct ctr_schema s = { 0 };
            if (ctr_model_lr_variants.variant_ops->standalone(learner, i, tables, &one, &err))
                continue;
            (void)!ctr_model_lr.save_schema(one, &s, &err);
            ctr_schema_free(&s);
            ctr_model_lr.learner_free(one);
        }
    ctr_model_lr_variants.learner_free(learner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_params base = ctr_params_usual(&ctr_model_lr);
    struct ctr_variants vs, again;
    struct ctr_strs tables = { 0 };
    struct ctr_inputs *in = NULL;
    struct ctr_rows rows;
    struct ctr_err err = { 0 };
    double label[64];
    bool has[CTR_MAX_VARIANTS * 8];
    if (ctr_variants_parse(&vs, "list", (const char *)data, size, &base, &err) < 0) {
        FUZZ_CHECK(err.what[0]);
        return 0;
    }
    FUZZ_CHECK(vs.n > 0 && vs.n <= CTR_MAX_VARIANTS && vs.text.len);
    if (!ctr_variants_parse(&again, "list", (const char *)data, size, &base, &err)) {
        FUZZ_CHECK(!strcmp((char *)again.text.data, (char *)vs.text.data));
        ctr_variants_free(&again);
    }
    for (int i = 0; i < 64; i++)
        label[i] = i & 1;
    if (!ctr_inputs_new(&in, fuzz_features()->schema, -1, -1, NULL, &tables, &err) &&
        !ctr_inputs_batch(in, fuzz_features(), &err) &&
        !ctr_inputs_rows(in, NULL, 0, CTR_MIN(fuzz_features()->rows, 64), &rows, &err)) {
        rows.label = label;
        FUZZ_CHECK(tables.n <= 8);
        if (!ctr_variants_bind(&vs, in, &tables, has, &err) && vs.n <= FEW)
            learn(&vs, &base, in, &tables, &rows);
    }
    ctr_inputs_free(in);
    ctr_strs_free(&tables);
    ctr_variants_free(&vs);
    return 0;
}
