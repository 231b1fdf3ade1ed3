/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_source: extraction as a stage over a source of batches. */
#include "common/plan/plan.h"

#include <stdlib.h>

struct extraction {
    struct ctr_batch_source below;
    struct ctr_plan *plan;
    struct ctr_program *program;
    struct ctr_schema schema; /* the program's output, with the provenance of ctr-extract */
    bool more;                /* the program may have more rows of its last batch */
    struct ctr_plan_times times;
    int64_t rows;
    void (*closed)(void *ctx, const struct ctr_plan_times *times);
    void (*note)(void *ctx, const char *text);
    void *ctx;
};

static const struct ctr_schema *extraction_schema(const void *source)
{
    return &((const struct extraction *)source)->schema;
}

/* Read the next batch; 0: the end. */
static int read_batch(struct extraction *x, const struct ctr_batch **in, struct ctr_err *err)
{
    const int64_t from_ns = ctr_clock_ns();
    const int rc = ctr_batch_source_next(&x->below, in, err);
    const int64_t to_ns = ctr_clock_ns();
    x->times.read_ns += to_ns - from_ns;
    if (!rc)
        x->times.end_ns = to_ns;
    return rc;
}

static int extraction_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct extraction *x = source;
    const struct ctr_batch *in;
    int64_t from_ns = ctr_clock_ns();
    if (!x->times.start_ns)
        x->times.start_ns = from_ns;
    int rc = x->more ? ctr_program_more(x->program, b, err) : 0;
    if (!rc) {
        x->more = false;
        if ((rc = read_batch(x, &in, err)) <= 0)
            return rc;
        x->rows += in->rows;
        from_ns = ctr_clock_ns();
        rc = ctr_program_run(x->program, in, b, err);
        x->more = !rc;
        rc = rc ? rc : 1;
    }
    x->times.extract_ns += ctr_clock_ns() - from_ns;
    return rc;
}

static int extraction_leave(void *source, const struct ctr_leave *l, const char **why, struct ctr_err *err)
{
    struct extraction *x = source;
    if (!ctr_program_on_gpu(x->program))
        return 0;
    *why = l->unwanted;
    const int rc = *why ? 0 : ctr_program_leave(x->program, l, why, err);
    return rc <= 0 || !ctr_batch_source_regroup(&x->below, l->rows, err) ? rc : err->code;
}

static void extraction_free(struct extraction *x)
{
    ctr_program_free(x->program);
    ctr_schema_free(&x->schema);
    free(x);
}

static void extraction_close(void *source)
{
    struct extraction *x = source;
    struct ctr_plan *plan = x->plan;
    ctr_program_gpu_say(x->program);
    if (x->closed && x->times.end_ns)
        x->closed(x->ctx, &x->times);
    if (x->note && x->times.end_ns)
        ctr_program_tell_floats(x->program, x->rows, x->note, x->ctx);
    ctr_batch_source_close(&x->below); /* the source may use the plan's statements while closing */
    extraction_free(x);
    ctr_plan_free(plan);
}

int ctr_plan_source(struct ctr_batch_source *s, struct ctr_plan *plan, const struct ctr_plan_source_opts *o,
                    struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { extraction_schema, extraction_next, NULL, extraction_close, NULL,
                                                     extraction_leave };
    struct extraction *x = calloc(1, sizeof *x);
    if (!x)
        return ctr_fail_nomem(err, sizeof *x);
    int rc = ctr_plan_narrow(plan, s, o->bad, err);
    if (!rc)
        rc = ctr_program_bind(&x->program, plan, ctr_batch_source_schema(s), err);
    if (!rc)
        ctr_program_memory(x->program, o->memory_bytes);
    if (!rc)
        rc = ctr_program_threads(x->program, o->threads, err);
    if (!rc && o->gpu)
        rc = ctr_program_gpu(x->program, o->gpu, o->place, err);
    if (!rc)
        rc = ctr_schema_copy(&x->schema, ctr_program_output(x->program), err);
    if (!rc)
        rc = ctr_schema_provenance(&x->schema, "ctr-extract", "", err);
    if (!rc && o->bad)
        rc = ctr_plan_good_rows(s, plan, o->bad, true, err);
    if (rc) {
        extraction_free(x);
        return rc;
    }
    x->below = *s;
    x->plan = plan;
    x->closed = o->closed;
    x->note = o->note;
    x->ctx = o->ctx;
    *s = (struct ctr_batch_source){ &ops, x };
    return 0;
}
