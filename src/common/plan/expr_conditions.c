/* SPDX-License-Identifier: Apache-2.0
 *
 * expr_conditions: what an expression of --where or `where` says about single columns (condition.h): comparisons of a
 * column with a literal, is_null, and, or. Everything else may hold. */
#include "common/plan/plancore.h"

enum { MOST = 200 };

static bool literal(const struct plan_ast *a, struct ctr_bound *out)
{
    const struct ctr_value *v = &a->value;
    if (a->kind != AST_LITERAL)
        return false;
    switch (v->kind) {
    case CTR_V_BOOL: *out = (struct ctr_bound){ .kind = CTR_BOUND_BOOL, .number = v->i != 0 }; return true;
    case CTR_V_INT: *out = (struct ctr_bound){ .kind = CTR_BOUND_NUMBER, .number = (long double)v->i }; return true;
    case CTR_V_UINT:
        *out = (struct ctr_bound){ .kind = CTR_BOUND_NUMBER, .number = (long double)(uint64_t)v->i };
        return true;
    case CTR_V_FLOAT: *out = (struct ctr_bound){ .kind = CTR_BOUND_NUMBER, .number = (long double)v->f }; return true;
    case CTR_V_TIME: *out = (struct ctr_bound){ .kind = CTR_BOUND_TIME, .number = (long double)v->i }; return true;
    case CTR_V_STR: *out = (struct ctr_bound){ .kind = CTR_BOUND_TEXT, .text = v->s }; return true;
    default: return false;
    }
}

/* name: of an operator; flipped: its sides are exchanged. */
static enum ctr_condition_kind comparison(const char *name, bool flipped)
{
    static const struct {
        const char *name;
        enum ctr_condition_kind kind, flipped;
    } ops[] = {
        { "==", CTR_CONDITION_EQ, CTR_CONDITION_EQ }, { "!=", CTR_CONDITION_NE, CTR_CONDITION_NE },
        { "<", CTR_CONDITION_LT, CTR_CONDITION_GT },  { "<=", CTR_CONDITION_LE, CTR_CONDITION_GE },
        { ">", CTR_CONDITION_GT, CTR_CONDITION_LT },  { ">=", CTR_CONDITION_GE, CTR_CONDITION_LE },
    };
    for (size_t i = 0; i < CTR_COUNT(ops); i++)
        if (!strcmp(name, ops[i].name))
            return flipped ? ops[i].flipped : ops[i].kind;
    return CTR_CONDITION_ANY;
}

/* A condition on one column; CTR_CONDITION_ANY: it is none. `negated`: it stands below `not`. */
static struct ctr_condition single(const struct plan_ast *a, bool negated)
{
    struct ctr_condition c = { .kind = CTR_CONDITION_ANY };
    if (ctr_plan_is_column(a) && !negated) {
        c.kind = CTR_CONDITION_EQ;
        c.column = (char *)(uintptr_t)a->name; /* add copies it */
        c.value = (struct ctr_bound){ .kind = CTR_BOUND_BOOL, .number = 1 };
    } else if (a->kind == AST_CALL && a->nargs == 1 && ctr_plan_is_column(a->arg[0]) &&
               !strcmp(ctr_op_name(a->op), "is_null")) {
        c.kind = negated ? CTR_CONDITION_PRESENT : CTR_CONDITION_NULL;
        c.column = (char *)(uintptr_t)a->arg[0]->name;
    } else if (a->kind == AST_CALL && a->nargs == 2 && !negated) {
        const bool flipped = ctr_plan_is_column(a->arg[1]);
        if (ctr_plan_is_column(a->arg[flipped]) && literal(a->arg[!flipped], &c.value)) {
            c.kind = comparison(ctr_op_name(a->op), flipped);
            c.column = (char *)(uintptr_t)a->arg[flipped]->name;
        }
    }
    if (c.kind == CTR_CONDITION_ANY)
        c = (struct ctr_condition){ .kind = CTR_CONDITION_ANY };
    return c;
}

static int walk(struct ctr_conditions *out, const struct plan_ast *a, int depth, struct ctr_err *err)
{
    const char *op = a->kind == AST_CALL ? ctr_op_name(a->op) : "";
    const bool both = !strcmp(op, "and"), negated = !strcmp(op, "not");
    struct ctr_condition c = { .kind = CTR_CONDITION_ANY };
    if ((both || !strcmp(op, "or")) && a->nargs == 2 && depth < MOST) {
        int rc = walk(out, a->arg[0], depth + 1, err);
        c.kind = both ? CTR_CONDITION_AND : CTR_CONDITION_OR;
        c.left = out->n - 1;
        if (!rc)
            rc = walk(out, a->arg[1], depth + 1, err);
        c.right = out->n - 1;
        return rc ? rc : ctr_conditions_add(out, &c, err);
    }
    c = negated && a->nargs == 1 ? single(a->arg[0], true) : single(a, false);
    return ctr_conditions_add(out, &c, err);
}

int ctr_expr_conditions(struct ctr_conditions *out, const char *text, struct ctr_err *err)
{
    struct plan_tree tree = { 0 };
    struct ctr_err none = { 0 };
    int rc = 0;
    *out = (struct ctr_conditions){ 0 };
    if (!ctr_plan_parse_expr(&tree, "--where", text, strlen(text), &none) && tree.ndefs == 1)
        rc = walk(out, tree.def[0].expr, 0, err);
    ctr_plan_tree_free(&tree);
    if (rc)
        ctr_conditions_free(out);
    return rc;
}
