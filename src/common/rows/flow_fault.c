/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_fault: errors of statements get the line of the statement and the name of its rows. Their words are those of a
 * plan already: see words.h and ctr_text_opts.in_plan. */
#include "common/rows/flowcore.h"

#include <stdlib.h>

int ctr_flow_fault(const struct ctr_plan *plan, int statement, const struct flow_view *v, bool rows,
                   struct ctr_err *err)
{
    const char *view = ctr_plan_statement(plan, statement)->view.name;
    const bool of_view = view && !strcmp(err->file, view);
    if (err->code != CTR_EUSAGE && err->file[0] && !of_view && !rows)
        return err->code;
    if (of_view && v->paths.n == 1)
        ctr_format(err->file, sizeof err->file, "%.60s=%.180s", view, v->paths.s[0]);
    return ctr_plan_at_statement(plan, statement, err);
}

/* ---- while it runs ---- */

/* A stage whose errors say which statement they are about: those that arose in it. */
struct faulty {
    struct ctr_batch_source below;
    const struct ctr_plan *plan;
    const struct flow_view *view; /* of the statement */
    int statement;
    bool *failed;   /* an array, by statement: an error came through */
    char rows[256]; /* what its rows are called, where they are not those that it is given */
};

static const char *faulty_name(const void *source)
{
    const struct faulty *s = source;
    return s->rows[0] ? s->rows : ctr_batch_source_name(&s->below);
}

static void faulty_close(void *source)
{
    struct faulty *s = source;
    ctr_batch_source_close(&s->below);
    free(s);
}

/* The name of what is below is that of the rows which the statement is given. */
static int faulty_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct faulty *s = source;
    const int rc = ctr_batch_source_next(&s->below, b, err);
    if (rc >= 0)
        return rc;
    const bool of_rows = !err->file[0] && !strncmp(err->what, "row ", 4);
    if (of_rows)
        ctr_err_file(err, ctr_batch_source_name(&s->below));
    if (!s->failed[s->statement - 1])
        (void)ctr_flow_fault(s->plan, s->statement, s->view, of_rows, err);
    s->failed[s->statement] = true;
    return rc;
}

/* Are its rows, one for one and in order, those that it is given? */
static bool keeps_rows(const struct ctr_plan_statement *s)
{
    if (s->kind == CTR_STATEMENT_ADD || s->kind == CTR_STATEMENT_EACH)
        return true;
    if (s->kind == CTR_STATEMENT_HISTORY)
        return !ctr_stage_option(s, "sort") && !ctr_stage_option(s, "lateness");
    return s->kind == CTR_STATEMENT_JOIN && !ctr_stage_option(s, "inner") && !ctr_stage_option(s, "anti") &&
           !ctr_stage_option(s, "multi");
}

int ctr_flow_faulty(struct ctr_batch_source *s, const struct ctr_plan *plan, int statement,
                    const struct flow_view *view, bool *failed, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { NULL, faulty_next, faulty_name, faulty_close, NULL };
    const struct ctr_plan_statement *st = ctr_plan_statement(plan, statement);
    struct faulty *new = malloc(sizeof *new);
    if (!new)
        return ctr_fail_nomem(err, sizeof *new);
    *new = (struct faulty){ .below = *s, .plan = plan, .view = view, .statement = statement, .failed = failed };
    if (st->kind == CTR_STATEMENT_JOIN && keeps_rows(st)) { /* a value of theirs may be any side's */
        const char *below = ctr_batch_source_name(s);
        ctr_format(new->rows, sizeof new->rows, "%.160s%s%.60s", below,
                   strstr(below, " joined with ") ? ", " : " joined with ", st->view.name);
    }
    if (!keeps_rows(st))
        ctr_format(new->rows, sizeof new->rows, "the rows that line %d of the plan makes", st->line);
    *s = (struct ctr_batch_source){ &ops, new };
    return 0;
}
