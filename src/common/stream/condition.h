/* SPDX-License-Identifier: Apache-2.0
 *
 * condition: what a condition on rows says about single columns, for sources that know bounds of many rows before they
 * read them, such as Parquet's row groups. A condition that is not understood may hold, so that no row is lost.
 *
 *     ctr_expr_conditions(&c, "a > 3 and b == \"x\"", err)     plan.h
 *     if (!ctr_conditions_may_hold(&c, &known, rows))         none of these rows is kept
 *     ctr_conditions_free(&c)
 */
#ifndef CTR_CONDITION_H
#define CTR_CONDITION_H

#include "common/stream/batch.h"

/* A value as the plan language compares it: numbers exactly, which a long double holds (int64, uint64 and double), text
 * by bytes, times in ms, bools as 0 and 1. */
enum ctr_bound_kind { CTR_BOUND_NUMBER, CTR_BOUND_TEXT, CTR_BOUND_TIME, CTR_BOUND_BOOL };
struct ctr_bound {
    enum ctr_bound_kind kind;
    long double number;
    struct ctr_str text;
};

enum ctr_condition_kind {
    CTR_CONDITION_ANY, /* not understood */
    CTR_CONDITION_AND,
    CTR_CONDITION_OR,
    CTR_CONDITION_EQ,
    CTR_CONDITION_NE,
    CTR_CONDITION_LT,
    CTR_CONDITION_LE,
    CTR_CONDITION_GT,
    CTR_CONDITION_GE,
    CTR_CONDITION_NULL,
    CTR_CONDITION_PRESENT
};
struct ctr_condition {
    enum ctr_condition_kind kind;
    int left, right; /* AND, OR: numbers of earlier conditions */
    char *column;    /* the others but ANY: owned */
    char *text;      /* owned, or NULL: where value.text points */
    struct ctr_bound value;
};
/* The last one is the condition as a whole; none: no condition. Zero-initialise. */
struct ctr_conditions {
    struct ctr_condition *c;
    int n, cap;
};
/* Append one; column and text are copied. Returns 0; its number is c->n - 1. */
int ctr_conditions_add(struct ctr_conditions *c, const struct ctr_condition *one, struct ctr_err *err) CTR_MUST;
/* Both: `to` becomes to and all of `more`. */
int ctr_conditions_and(struct ctr_conditions *to, const struct ctr_conditions *more, struct ctr_err *err) CTR_MUST;
void ctr_conditions_free(struct ctr_conditions *c);

/* What is known about a column of some rows. Every value that is neither null nor NaN is in [min, max]. */
struct ctr_bounds {
    bool ranged, nan; /* min and max are known; there may be NaNs */
    struct ctr_bound min, max;
    int64_t nulls; /* -1: not known */
};
struct ctr_bounds_of {
    bool (*bounds)(void *ctx, const char *column, struct ctr_bounds *out); /* false: nothing is known */
    /* NULL, or false: none of the rows has this value in the column. */
    bool (*may_have)(void *ctx, const char *column, const struct ctr_bound *value);
    void *ctx;
};
/* False: the condition is false or null for each of these rows. */
bool ctr_conditions_may_hold(const struct ctr_conditions *c, const struct ctr_bounds_of *known, int64_t rows);

#endif
