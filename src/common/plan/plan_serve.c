/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_serve: applies the plan of a model to a log without labels. Definitions used only by the label are left out of
 * the graph, and so is a weight whose column is missing as well; any other missing column is an error. A plan outside a
 * model always needs its label, so that a misspelt one is detected.
 */
#include "common/plan/program.h"

#include <stdlib.h>

bool ctr_plan_in_roles(const struct plan_def *d, unsigned roles)
{
    return d->kind == PLAN_ROLE && (roles & PLAN_ROLES(d->role));
}

static bool for_learning(const struct plan_def *d)
{
    return ctr_plan_in_roles(d, PLAN_ROLES(CTR_ROLE_LABEL) | PLAN_ROLES(CTR_ROLE_WEIGHT));
}

/* Does an expression read a missing column, or a definition that does? */
static bool lacks(const struct plan_ast *a, const struct ctr_schema *s, const bool *absent)
{
    if (a->kind == AST_NAME)
        return a->def >= 0 ? absent[a->def] : ctr_schema_find(s, a->name) < 0;
    for (int i = 0; i < a->nargs; i++)
        if (lacks(a->arg[i], s, absent))
            return true;
    return false;
}

static void mark(const struct plan_ast *a, bool *wanted)
{
    if (a->kind == AST_NAME && a->def >= 0)
        wanted[a->def] = true;
    for (int i = 0; i < a->nargs; i++)
        mark(a->arg[i], wanted);
}

static bool reads(const struct plan_ast *a, const char *column)
{
    if (a->kind == AST_NAME)
        return a->def < 0 && !strcmp(a->name, column);
    for (int i = 0; i < a->nargs; i++)
        if (reads(a->arg[i], column))
            return true;
    return false;
}

/* wanted[i]: definition i is an output column other than label and weight, or is used by one. Definitions refer only to
 * those above them. */
static bool *mark_wanted(const struct plan_tree *t, struct ctr_err *err)
{
    bool *wanted = calloc((size_t)t->ndefs + 1, sizeof *wanted);
    if (!wanted)
        (void)ctr_fail_nomem(err, (size_t)t->ndefs);
    for (int i = t->ndefs - 1; wanted && i >= 0; i--) {
        wanted[i] |= t->def[i].kind != PLAN_VALUE && !for_learning(&t->def[i]);
        if (wanted[i])
            mark(t->def[i].expr, wanted);
    }
    return wanted;
}

int ctr_plan_leave_out(const struct ctr_plan *p, const struct ctr_schema *s, bool **leave_out, struct ctr_err *err)
{
    const struct plan_tree *t = &p->tree;
    bool *absent = calloc((size_t)t->ndefs + 1, sizeof *absent), *wanted = NULL, unlabelled = false;
    *leave_out = absent;
    if (!absent)
        return ctr_fail_nomem(err, (size_t)t->ndefs);
    for (int i = 0; i < t->ndefs && p->is_model; i++) {
        absent[i] = lacks(t->def[i].expr, s, absent);
        unlabelled |= absent[i] && for_learning(&t->def[i]) && t->def[i].role == CTR_ROLE_LABEL;
    }
    if (unlabelled && !(wanted = mark_wanted(t, err)))
        return err->code;
    for (int i = 0; i < t->ndefs; i++)
        absent[i] = absent[i] && unlabelled && !wanted[i];
    free(wanted);
    return CTR_OK;
}

int ctr_plan_leave_others_out(const struct ctr_plan *p, unsigned roles, bool *leave_out, struct ctr_err *err)
{
    const struct plan_tree *t = &p->tree;
    bool *wanted = calloc((size_t)t->ndefs + 1, sizeof *wanted);
    if (!wanted)
        return ctr_fail_nomem(err, (size_t)t->ndefs);
    for (int i = t->ndefs - 1; i >= 0; i--) {
        wanted[i] |= !leave_out[i] && ctr_plan_in_roles(&t->def[i], roles);
        if (wanted[i])
            mark(t->def[i].expr, wanted);
    }
    for (int i = 0; i < t->ndefs; i++)
        leave_out[i] |= !wanted[i];
    free(wanted);
    return CTR_OK;
}

bool ctr_plan_can_lack(const struct ctr_plan *p, const char *column)
{
    struct ctr_err err = { 0 };
    bool *wanted = p->is_model ? mark_wanted(&p->tree, &err) : NULL, can_lack = wanted != NULL;
    for (int i = 0; can_lack && i < p->tree.ndefs; i++)
        can_lack = !wanted[i] || !reads(p->tree.def[i].expr, column);
    free(wanted);
    return can_lack;
}

bool ctr_plan_has_name(const struct ctr_plan *p, const char *name)
{
    return ctr_map_get(&p->tree.names, name) >= 0 || ctr_strs_find(&p->tree.inputs, name) >= 0;
}

const char *ctr_plan_name_of(const struct ctr_plan *p, const char *column)
{
    for (int i = 0; i < p->tree.ndefs; i++)
        if (!strcmp(p->tree.def[i].column, column))
            return p->tree.def[i].name;
    return NULL;
}

int ctr_plan_role_reads(const struct ctr_plan *p, enum ctr_role role, const char *column, struct ctr_err *err)
{
    bool *others = calloc((size_t)p->tree.ndefs + 1, sizeof *others), found = false;
    const int rc = others ? ctr_plan_leave_others_out(p, PLAN_ROLES(role), others, err)
                          : ctr_fail_nomem(err, (size_t)p->tree.ndefs);
    for (int i = 0; !rc && i < p->tree.ndefs && !found; i++)
        found = !others[i] && reads(p->tree.def[i].expr, column);
    free(others);
    return rc ? rc : found;
}

bool ctr_plan_keeps(const struct ctr_plan *p, const char *column)
{
    for (int i = 0; i < p->tree.ndefs; i++) {
        const struct plan_def *d = &p->tree.def[i];
        if ((d->kind == PLAN_KEEP || ctr_plan_in_roles(d, PLAN_ROLES(CTR_ROLE_ID))) && reads(d->expr, column))
            return true;
    }
    return false;
}

int ctr_plan_project(const struct ctr_plan *p, struct ctr_batch_source *from, struct ctr_err *err)
{
    const struct ctr_strs *in = ctr_plan_inputs(p);
    const struct ctr_schema *s = ctr_batch_source_schema(from);
    int *column = calloc((size_t)in->n + 1, sizeof *column), n = 0, rc = 0;
    if (!column)
        return ctr_fail_nomem(err, (size_t)in->n * sizeof *column);
    bool all = true;
    for (int i = 0; i < in->n; i++) {
        column[n] = ctr_schema_find(s, in->s[i]);
        all = all && (column[n] >= 0 || ctr_plan_can_lack(p, in->s[i]));
        n += column[n] >= 0;
    }
    if (all && s->n)
        rc = ctr_batch_source_project(from, column, n, err);
    free(column);
    return rc;
}
