/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: parsed, bound to columns of every type, explained, fitted and run, with the names of the keys. */
#include "harness.h"

#include "common/feature/feature.h"

static void fit(struct ctr_program *g)
{
    struct ctr_err err = { 0 };
    struct ctr_out *out = NULL;
    struct ctr_plan *again = NULL;
    if (ctr_program_fit(g, fuzz_batch(), &err) < 0 || ctr_program_fit_finish(g, &err) < 0)
        return;
    if (ctr_out_open(&out, fuzz_out(1), 0, &err) >= 0 && ctr_program_fit_save(g, out, &err) >= 0 &&
        ctr_out_commit(out, &err) >= 0)
        FUZZ_CHECK(!ctr_plan_open(&again, fuzz_path(1), &err)); /* what is saved is read */
    ctr_plan_free(again);
    ctr_out_free(out);
}

static void run(struct ctr_program *g)
{
    struct ctr_err err = { 0 };
    struct ctr_out *out = NULL;
    const struct ctr_batch *b;
    int64_t collisions;
    int rc = ctr_program_names_start(g, &err);
    for (int i = 0; i < 2 && rc >= 0; i++)
        if ((rc = ctr_program_run(g, fuzz_batch(), &b, &err)) >= 0)
            fuzz_look(b);
    if (rc >= 0 && ctr_out_open(&out, "/dev/null", 0, &err) >= 0)
        FUZZ_CHECK(ctr_program_names_save(g, out, &collisions, &err) >= 0);
    ctr_out_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_plan *p = NULL;
    struct ctr_program *g = NULL;
    struct ctr_err err = { 0 };
    struct ctr_buf text = { 0 };
    if (ctr_plan_parse(&p, "x.plan", (const char *)data, size, &err) < 0) {
        FUZZ_CHECK(err.what[0]);
        return 0;
    }
    if (ctr_program_bind(&g, p, fuzz_batch()->schema, &err) >= 0) {
        bool shown = !ctr_program_explain(g, &text, &err) && !ctr_program_dot(g, &text, &err);
        FUZZ_CHECK(shown);
        if (shown)
            (ctr_plan_needs_fit(p) ? fit : run)(g);
    }
    ctr_buf_free(&text);
    ctr_program_free(g);
    ctr_plan_free(p);
    return 0;
}
