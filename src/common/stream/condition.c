/* SPDX-License-Identifier: Apache-2.0
 *
 * condition: conditions against bounds. Three-valued logic: a comparison with a null is null, and a null condition
 * keeps no row; a NaN is only unequal. */
#include "common/stream/condition.h"

#include <stdlib.h>

int ctr_conditions_add(struct ctr_conditions *c, const struct ctr_condition *one, struct ctr_err *err)
{
    struct ctr_condition new = *one;
    new.column = new.text = NULL;
    int rc = ctr_array_grow(&c->c, c->n, &c->cap, sizeof *c->c, err);
    if (!rc && one->column)
        rc = ctr_strdup(&new.column, one->column, err);
    if (!rc && one->value.kind == CTR_BOUND_TEXT && one->column)
        rc = ctr_memdup(&new.text, one->value.text.p, one->value.text.n, err);
    if (rc) {
        free(new.column);
        return rc;
    }
    new.value.text.p = new.text;
    c->c[c->n++] = new;
    return 0;
}

int ctr_conditions_and(struct ctr_conditions *to, const struct ctr_conditions *more, struct ctr_err *err)
{
    const int before = to->n;
    int rc = 0;
    for (int i = 0; !rc && i < more->n; i++) {
        struct ctr_condition c = more->c[i];
        c.left += before;
        c.right += before;
        rc = ctr_conditions_add(to, &c, err);
    }
    if (rc || !before || !more->n)
        return rc;
    return ctr_conditions_add(
        to, &(struct ctr_condition){ .kind = CTR_CONDITION_AND, .left = before - 1, .right = to->n - 1 }, err);
}

void ctr_conditions_free(struct ctr_conditions *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->c[i].column);
        free(c->c[i].text);
    }
    free(c->c);
    *c = (struct ctr_conditions){ 0 };
}

/* < 0, 0, > 0; of one kind. */
static int compare(const struct ctr_bound *a, const struct ctr_bound *b)
{
    if (a->kind != CTR_BOUND_TEXT)
        return (a->number > b->number) - (a->number < b->number);
    const int c = memcmp(a->text.p ? a->text.p : "", b->text.p ? b->text.p : "", CTR_MIN(a->text.n, b->text.n));
    return c ? c : (a->text.n > b->text.n) - (a->text.n < b->text.n);
}

/* A comparison of a column of which some values are neither null nor NaN. */
static bool may_compare(const struct ctr_condition *c, const struct ctr_bounds *b, const struct ctr_bounds_of *known)
{
    const struct ctr_bound *v = &c->value;
    const bool ordered = b->ranged && b->min.kind == v->kind && v->number == v->number;
    const int low = ordered ? compare(&b->min, v) : -1, high = ordered ? compare(&b->max, v) : 1;
    switch (c->kind) {
    case CTR_CONDITION_EQ:
        return low <= 0 && high >= 0 && (!known->may_have || known->may_have(known->ctx, c->column, v));
    case CTR_CONDITION_NE: return low || high || b->nan;
    case CTR_CONDITION_LT: return low < 0;
    case CTR_CONDITION_LE: return low <= 0;
    case CTR_CONDITION_GT: return high > 0;
    case CTR_CONDITION_GE: return high >= 0;
    default: return true;
    }
}

static bool may_hold(const struct ctr_condition *c, const struct ctr_bounds_of *known, int64_t rows)
{
    struct ctr_bounds b = { .nan = true, .nulls = -1 };
    if (!c->column || !known->bounds(known->ctx, c->column, &b))
        return true;
    if (c->kind == CTR_CONDITION_NULL)
        return b.nulls != 0;
    return b.nulls != rows && may_compare(c, &b, known);
}

bool ctr_conditions_may_hold(const struct ctr_conditions *c, const struct ctr_bounds_of *known, int64_t rows)
{
    bool stack[256]; /* of each condition: may it hold? */
    if (!c->n || c->n > (int)CTR_COUNT(stack))
        return true;
    for (int i = 0; i < c->n; i++) {
        const struct ctr_condition *one = &c->c[i];
        stack[i] = one->kind == CTR_CONDITION_AND  ? stack[one->left] && stack[one->right]
                   : one->kind == CTR_CONDITION_OR ? stack[one->left] || stack[one->right]
                                                   : may_hold(one, known, rows);
    }
    return stack[c->n - 1];
}
