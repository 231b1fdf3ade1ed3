/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: parsed, bound to columns of every type, explained, fitted and run, with the names of the keys; their signals.
 */
#include "harness.h"

#include "common/plan/plan.h"

/* A program that was shown can run, and no more be fitted: another one is bound. */
static void fit(struct ctr_plan *p)
{
    struct ctr_err err = { 0 };
    struct ctr_program *g = NULL;
    struct ctr_out *out = NULL;
    struct ctr_plan *again = NULL;
    if (ctr_program_bind(&g, p, fuzz_batch()->schema, &err) >= 0 && ctr_program_fit(g, fuzz_batch(), &err) >= 0 &&
        ctr_program_fit_finish(g, &err) >= 0 && ctr_out_open(&out, fuzz_out(1), 0, &err) >= 0 &&
        ctr_program_fit_save(g, out, &err) >= 0 && ctr_out_commit(out, &err) >= 0)
        FUZZ_CHECK(!ctr_plan_open(&again, fuzz_path(1), &err)); /* what is saved is read */
    ctr_plan_free(again);
    ctr_out_free(out);
    ctr_program_free(g);
}

static void run(struct ctr_program *g)
{
    struct ctr_err err = { 0 };
    struct ctr_out *out = NULL;
    const struct ctr_batch *b;
    int64_t collisions;
    int rc = ctr_program_names_start(g, 0, &err);
    for (int i = 0; i < 2 && rc >= 0; i++)
        if ((rc = ctr_program_run(g, fuzz_batch(), &b, &err)) >= 0)
            fuzz_look(b);
    if (rc >= 0 && ctr_out_open(&out, fuzz_out(2), 0, &err) >= 0)
        FUZZ_CHECK(ctr_program_names_save(g, out, &collisions, &err) >= 0);
    ctr_out_free(out);
}

static int look(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err)
{
    (void)ctx;
    (void)err;
    FUZZ_CHECK(strlen(s->hash) == 32 && s->definition[0]);
    return 0;
}

/* Each signal, and the vocabularies of its table. */
static void signals(const struct ctr_plan *p)
{
    struct ctr_strs sections = { 0 };
    struct ctr_err err = { 0 };
    FUZZ_CHECK(!ctr_plan_signals(p, look, NULL, &err) || err.what[0]);
    FUZZ_CHECK(!ctr_plan_vocabs(p, "item", &sections, &err) || err.what[0]);
    ctr_strs_free(&sections);
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
    signals(p);
    if (ctr_program_bind(&g, p, fuzz_batch()->schema, &err) >= 0) {
        bool shown = !ctr_program_explain(g, &text, &err) && !ctr_program_dot(g, &text, &err);
        FUZZ_CHECK(shown);
        if (shown && ctr_plan_needs_fit(p))
            fit(p);
        else if (shown)
            run(g);
    }
    ctr_buf_free(&text);
    ctr_program_free(g);
    ctr_plan_free(p);
    return 0;
}
