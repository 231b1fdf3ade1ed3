/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions against bounds: where a row makes a condition true, the bounds of its rows never say that none does; and
 * of rows whose bounds are known exactly, they do say so of a single comparison that no row makes true. Judged by plain
 * three-valued logic, row by row. */
#include "common/stream/condition.h"

#include <math.h>
#include <stdlib.h>

#include "tap.h"

enum { COLUMNS = 2, MOST = 4 };

/* Some rows, and what is known of them. */
struct rows {
    int n;
    bool null[COLUMNS][MOST];
    double value[COLUMNS][MOST];
    bool told[COLUMNS]; /* are bounds known? */
    bool counted;       /* are nulls? */
};

static uint64_t state = 7;
static int draw(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static void draw_rows(struct rows *s)
{
    static const double values[] = { -1, -0.0, 0, 1, 2, NAN };
    s->n = draw(MOST + 1);
    s->counted = draw(3) > 0;
    for (int c = 0; c < COLUMNS; c++) {
        const int some = 1 + draw(6);
        s->told[c] = draw(4) > 0;
        for (int r = 0; r < s->n; r++) {
            s->null[c][r] = draw(4) == 0;
            s->value[c][r] = values[draw(some)];
        }
    }
}

static bool bounds(void *ctx, const char *column, struct ctr_bounds *b)
{
    const struct rows *s = ctx;
    const int c = *column - 'a';
    b->nulls = s->counted ? 0 : -1;
    for (int r = 0; r < s->n; r++) {
        const double v = s->value[c][r];
        if (s->null[c][r]) {
            b->nulls += s->counted;
            continue;
        }
        if (v != v)
            continue;
        if (!b->ranged || v < (double)b->min.number)
            b->min.number = v;
        if (!b->ranged || v > (double)b->max.number)
            b->max.number = v;
        b->ranged = true;
    }
    b->ranged &= s->told[c];
    return true;
}

/* 1: true, 0: false, -1: null. */
static int holds(const struct ctr_conditions *c, int k, const struct rows *s, int r)
{
    const struct ctr_condition *one = &c->c[k];
    if (one->kind == CTR_CONDITION_ANY)
        return draw(3) - 1;
    if (one->kind == CTR_CONDITION_AND || one->kind == CTR_CONDITION_OR) {
        const int left = holds(c, one->left, s, r), right = holds(c, one->right, s, r),
                  strong = one->kind == CTR_CONDITION_OR;
        return left == strong || right == strong ? strong : left < 0 || right < 0 ? -1 : !strong;
    }
    const int column = *one->column - 'a';
    const bool null = s->null[column][r];
    const double v = s->value[column][r], x = (double)one->value.number;
    switch (one->kind) {
    case CTR_CONDITION_NULL: return null;
    case CTR_CONDITION_PRESENT: return !null;
    case CTR_CONDITION_EQ: return null ? -1 : v == x;
    case CTR_CONDITION_NE: return null ? -1 : v != x;
    case CTR_CONDITION_LT: return null ? -1 : v < x;
    case CTR_CONDITION_LE: return null ? -1 : v <= x;
    case CTR_CONDITION_GT: return null ? -1 : v > x;
    default: return null ? -1 : v >= x;
    }
}

static int draw_conditions(struct ctr_conditions *c, int leaves, struct ctr_err *err)
{
    char name[] = "a";
    struct ctr_condition one = { .column = name };
    if (leaves > 1) {
        int rc = draw_conditions(c, leaves / 2, err);
        one = (struct ctr_condition){ .kind = draw(2) ? CTR_CONDITION_AND : CTR_CONDITION_OR, .left = c->n - 1 };
        if (!rc)
            rc = draw_conditions(c, leaves - leaves / 2, err);
        one.right = c->n - 1;
        return rc ? rc : ctr_conditions_add(c, &one, err);
    }
    one.kind = (enum ctr_condition_kind)(CTR_CONDITION_EQ + draw(CTR_CONDITION_PRESENT - CTR_CONDITION_EQ + 1));
    if (draw(12) == 0)
        one = (struct ctr_condition){ .kind = CTR_CONDITION_ANY };
    name[0] = (char)('a' + draw(COLUMNS));
    one.value.number = draw(5) - 2 + (draw(3) == 0 ? 0.5L : 0);
    return ctr_conditions_add(c, &one, err);
}

static void test_random(void)
{
    int lost = 0, failed = 0, weak = 0, excluded = 0;
    for (int i = 0; i < 200000; i++) {
        struct ctr_conditions c = { 0 }, both = { 0 };
        struct ctr_err err = { 0 };
        struct rows s;
        const int leaves = 1 + draw(4);
        bool any = false;
        draw_rows(&s);
        failed += draw_conditions(&c, leaves, &err) != 0;
        const struct ctr_bounds_of known = { bounds, NULL, &s };
        for (int r = 0; r < s.n; r++)
            any |= holds(&c, c.n - 1, &s, r) == 1;
        const bool may = ctr_conditions_may_hold(&c, &known, s.n);
        lost += any && !may;
        excluded += !may;
        const int column = leaves == 1 && c.c[0].column ? *c.c[0].column - 'a' : 0;
        bool number = false;
        for (int r = 0; r < s.n; r++)
            number |= !s.null[column][r] && s.value[column][r] == s.value[column][r];
        weak += leaves == 1 && c.c[0].kind >= CTR_CONDITION_LT && c.c[0].kind <= CTR_CONDITION_GE && s.told[column] &&
                number && may && !any;
        failed += ctr_conditions_and(&both, &c, &err) || ctr_conditions_and(&both, &c, &err);
        lost += ctr_conditions_may_hold(&both, &known, s.n) != may;
        ctr_conditions_free(&c);
        ctr_conditions_free(&both);
    }
    ok(!failed && !lost, "no row is lost");
    ok(excluded > 20000 && !weak, "and what bounds exclude is excluded");
}

static bool never(void *ctx, const char *column, const struct ctr_bound *value)
{
    (void)ctx;
    (void)column;
    (void)value;
    return false;
}

static bool texts(void *ctx, const char *column, struct ctr_bounds *b)
{
    (void)ctx;
    (void)column;
    *b = (struct ctr_bounds){ .ranged = true,
                              .nulls = 0,
                              .min = { .kind = CTR_BOUND_TEXT, .text = { "b\0a", 3 } },
                              .max = { .kind = CTR_BOUND_TEXT, .text = { "d\xc3", 2 } } };
    return true;
}

static bool may(enum ctr_condition_kind kind, enum ctr_bound_kind of, const char *text, size_t n, bool filter)
{
    struct ctr_conditions c = { 0 };
    struct ctr_err err = { 0 };
    char name[] = "t";
    const struct ctr_bounds_of known = { texts, filter ? never : NULL, NULL };
    const struct ctr_condition one = { .kind = kind, .column = name, .value = { .kind = of, .text = { text, n } } };
    const bool failed = ctr_conditions_add(&c, &one, &err);
    const bool may_hold = ctr_conditions_may_hold(&c, &known, 3);
    ctr_conditions_free(&c);
    return !failed && may_hold;
}

int main(void)
{
    test_random();
    ok(may(CTR_CONDITION_EQ, CTR_BOUND_TEXT, "b\0a", 3, false) &&
           !may(CTR_CONDITION_EQ, CTR_BOUND_TEXT, "b", 1, false) &&
           may(CTR_CONDITION_EQ, CTR_BOUND_TEXT, "d\xc3", 2, false) &&
           !may(CTR_CONDITION_GT, CTR_BOUND_TEXT, "d\xc3", 2, false) &&
           may(CTR_CONDITION_GT, CTR_BOUND_TEXT, "d", 1, false) && !may(CTR_CONDITION_LT, CTR_BOUND_TEXT, "", 0, false),
       "texts by unsigned bytes, of any length");
    ok(may(CTR_CONDITION_EQ, CTR_BOUND_NUMBER, NULL, 0, false), "a value of another kind is not compared");
    ok(!may(CTR_CONDITION_EQ, CTR_BOUND_TEXT, "c", 1, true) && may(CTR_CONDITION_LE, CTR_BOUND_TEXT, "c", 1, true),
       "a filter is asked about equality alone");
    return done_testing();
}
