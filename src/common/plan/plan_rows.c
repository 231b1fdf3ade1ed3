/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_rows: which rows can a plan not use? A program of its roles alone runs over each batch before the plan does, so
 * that a row that is left out has no part in vocabularies, names and counts. */
#include <stdlib.h>

#include "common/plan/program.h"

static int look(void *program, const struct ctr_batch *in, const struct ctr_batch **out, struct ctr_err *err)
{
    if (!in)
        return ctr_program_more(program, out, err);
    int rc = ctr_program_run(program, in, out, err);
    return rc < 0 ? rc : 1;
}

static void free_program(void *program)
{
    ctr_program_free(program);
}

/* Do the roles depend on fitted state that is not there yet? */
static bool unfitted(const struct ctr_program *g)
{
    for (int i = 0; i < g->graph.n; i++)
        if (g->graph.node[i].fit_section && !g->graph.node[i].fit_ready)
            return true;
    return false;
}

static int make_rules(const struct ctr_program *g, struct ctr_rule **rules, struct ctr_err *err)
{
    struct ctr_rule *rule = *rules = calloc((size_t)g->output.n + 1, sizeof *rule);
    if (!rule)
        return ctr_fail_nomem(err, (size_t)g->output.n * sizeof *rule);
    for (int i = 0; i < g->output.n; i++) {
        const struct plan_node *n = &g->graph.node[g->node[i]];
        const bool made = n->kind != NODE_COLUMN;
        rule[i] = (struct ctr_rule){ .column = i,
                                     .role = g->def[i]->role,
                                     .name = made ? g->def[i]->name : g->input.f[n->column].name,
                                     .made = made,
                                     .single = true };
    }
    return 0;
}

int ctr_plan_narrow(const struct ctr_plan *p, struct ctr_batch_source *s, const struct ctr_bad_rows *bad,
                    struct ctr_err *err)
{
    if (!bad || ctr_bad_rows_policy(bad)->kind != CTR_BAD_QUARANTINE)
        return ctr_plan_project(p, s, err);
    const struct ctr_schema *schema = ctr_batch_source_schema(s);
    int *column = calloc((size_t)schema->n + 1, sizeof *column), n = 0;
    if (!column)
        return ctr_fail_nomem(err, (size_t)schema->n * sizeof *column);
    for (int i = 0; i < schema->n; i++)
        if (schema->f[i].type != CTR_FOREIGN)
            column[n++] = i;
    int rc = n < schema->n ? ctr_batch_source_project(s, column, n, err) : 0;
    free(column);
    return rc;
}

int ctr_plan_good_rows(struct ctr_batch_source *s, struct ctr_plan *p, struct ctr_bad_rows *bad, bool dense,
                       struct ctr_err *err)
{
    unsigned roles = PLAN_ROLES(CTR_ROLE_LABEL) | PLAN_ROLES(CTR_ROLE_WEIGHT);
    if (ctr_bad_rows_policy(bad)->kind != CTR_BAD_FAIL)
        roles |= PLAN_ROLES(CTR_ROLE_TIME) | (dense ? PLAN_ROLES(CTR_ROLE_DENSE) : 0);
    bool some = false;
    for (int i = 0; i < p->tree.ndefs; i++)
        some |= ctr_plan_in_roles(&p->tree.def[i], roles);
    if (!some)
        return 0;
    struct ctr_program *program = NULL;
    struct ctr_rule *rules = NULL;
    int rc = ctr_program_bind_roles(&program, p, ctr_batch_source_schema(s), roles, err);
    if (!rc)
        rc = make_rules(program, &rules, err);
    if (rc || unfitted(program) || !program->output.n) {
        ctr_program_free(program);
    } else {
        const struct ctr_bad_look by = { look, free_program, program };
        rc = ctr_bad_rows_source(s, bad, rules, program->output.n, &by, err);
    }
    free(rules);
    return rc;
}
