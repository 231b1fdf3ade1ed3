/* SPDX-License-Identifier: Apache-2.0
 *
 * Identity of values: values whose keys are equal stay apart, by number and as users of a history; a null is no number,
 * and a row of several columns is no other row. */
#include "common/rows/historycore.h"

#include <math.h>
#include <stdlib.h>

#include "tap.h"

static struct ctr_keyvalue met(const char *text) /* a text of which many have one key */
{
    return (struct ctr_keyvalue){ .key = 12345, .p = text, .n = (uint32_t)strlen(text) };
}

static void test_numbers(void)
{
    static const char *const text[] = { "", "a", "b", "ab", "c" };
    const struct ctr_keyvalue null = { .p = "", .null = true };
    struct ctr_keyvalue_set x;
    struct ctr_err err = { 0 };
    uint32_t number, first = 9;
    bool apart = true, found = true, kept = true;

    ctr_keyvalue_set_init(&x);
    for (uint32_t i = 0; i < CTR_COUNT(text); i++) {
        struct ctr_keyvalue id = met(text[i]);
        apart &= ctr_keyvalue_set_find(&x, &id) == -1 && !ctr_keyvalue_set_add(&x, &id, &number, &err) && number == i;
        apart &= !ctr_keyvalue_set_add(&x, &id, &number, &err) && number == i;
    }
    apart &= ctr_keyvalue_set_find(&x, &null) == -1 && !ctr_keyvalue_set_add(&x, &null, &first, &err);
    ok(apart && first == CTR_COUNT(text), "texts with one key, and a null: a number each, in order of arrival");
    for (uint32_t i = 0; i < CTR_COUNT(text); i++) {
        struct ctr_keyvalue id = met(text[i]);
        const struct ctr_str kept_text = ctr_keyvalue_set_text(&x, i);
        found &= ctr_keyvalue_set_find(&x, &id) == i;
        kept &= kept_text.n == strlen(text[i]) && !memcmp(kept_text.p, text[i], kept_text.n);
    }
    ok(found && ctr_keyvalue_set_find(&x, &null) == CTR_COUNT(text), "each is found");
    ok(kept, "and its text");
    ctr_keyvalue_set_free(&x);
}

/* The values of users are their numbers in `word[2]`. */
static bool has(struct ctr_behaviours *u, const char *user, int64_t t, uint64_t value, uint32_t n)
{
    const struct ctr_keyvalue id = met(user);
    struct ctr_err err = { 0 };
    int rc = 0;
    struct ctr_past *past = ctr_behaviours_past(u, ctr_behaviours_user(u, &id, false, &rc, &err));
    const struct ctr_seen seen = ctr_behaviours_seen(u, past, t);
    bool right = !rc && seen.n == n;
    for (uint32_t i = 0; i < seen.n; i++)
        right &= ctr_behaviour(u, seen.past, seen.from + i)[2] == value;
    return right;
}

static int add(struct ctr_behaviours *u, const struct ctr_keyvalue *id, int64_t t, uint64_t value, struct ctr_err *err)
{
    int rc = ctr_behaviours_reserve(u, 1, err);
    const uint32_t number = rc ? 0 : ctr_behaviours_user(u, id, true, &rc, err);
    uint64_t *word = rc ? NULL : ctr_behaviours_add(u, ctr_behaviours_past(u, number), t, &rc, err);
    if (word)
        word[2] = value;
    return rc;
}

static void test_users(void)
{
    static const char *const user[] = { "victim000033801", "qIk8.C33", "x", "a longer name than the others have" };
    const struct ctr_history_opts o = { .last = 100, .window_ms = 1000 };
    struct ctr_behaviours u;
    struct ctr_err err = { 0 };
    bool right = true;
    int rc = 0;

    ctr_behaviours_init(&u, 1, &o);
    for (int64_t t = 0; t < 40 && !rc; t++) {
        const struct ctr_keyvalue id = met(user[t % 4]);
        rc = add(&u, &id, t, (uint64_t)(t % 4), &err);
    }
    const int64_t bytes = ctr_behaviours_bytes(&u);
    for (uint64_t i = 0; i < 4; i++)
        right &= has(&u, user[i], 40, i, 10);
    ok(!rc && right && u.users == 4, "users with one key have their own histories");
    ok(has(&u, "somebody", 40, 0, 0), "another with that key has none");
    struct ctr_keyvalue alone = met("alone");
    alone.key++;
    rc = add(&u, &alone, 41, 7, &err);
    if (!rc)
        rc = ctr_behaviours_sweep(&u, 5000, true, &err);
    ok(!rc && u.users == 4 && u.dropped == 1, "a user whose window has passed is dropped, but none of equal keys");
    ok(has(&u, user[1], 1000, 1, 10), "who are still found");
    ok(ctr_behaviours_bytes(&u) - bytes < 4096, "the memory is given back");
    ctr_behaviours_free(&u);
}

static void test_rows(void)
{
    const int64_t a[] = { 5, 6, 5, -5432995380820815127, 0, 0 };
    const uint64_t b[] = { 77, 4737725508514873632u, 77, 1, 0, 0 };
    const double d[] = { 0., -0., NAN, -NAN, .1925, 15662147458457960000. };
    const uint8_t valid[] = { 0x1f }; /* the last row of a is null */
    const struct ctr_col col[] = { { .type = CTR_I64, .rows = 6, .nulls = 1, .valid = valid, .data = a },
                                   { .type = CTR_U64, .rows = 6, .data = b },
                                   { .type = CTR_F64, .rows = 6, .data = d } };
    const struct ctr_batch batch = { .rows = 6, .col = col };
    struct ctr_keyvalue_rows r = { 0 };
    struct ctr_keyvalue_set x;
    struct ctr_err err = { 0 };
    uint32_t number[3][6] = { { 0 } };
    const int both[] = { 0, 1 }, real[] = { 2 };

    for (int k = 0; k < 3; k++) {
        int rc = ctr_keyvalue_read(&r, &batch, k == 2 ? real : both, k == 1 ? 2 : 1, &err);
        ctr_keyvalue_set_init(&x);
        for (int i = 0; i < 6 && !rc; i++)
            rc = ctr_keyvalue_set_add(&x, &r.row[i], &number[k][i], &err);
        ok(!rc, "set %d", k);
        ctr_keyvalue_set_free(&x);
    }
    ok(!memcmp(number[0], (uint32_t[]){ 0, 1, 0, 2, 3, 4 }, sizeof number[0]), "one column: the null is no number");
    ok(!memcmp(number[1], (uint32_t[]){ 0, 1, 0, 2, 3, 4 }, sizeof number[1]), "two: neither is another pair");
    ok(!memcmp(number[2], (uint32_t[]){ 0, 0, 1, 1, 2, 3 }, sizeof number[2]), "floats: 0 and -0 are one, and all NaN");
    ctr_keyvalue_rows_free(&r);
}

int main(void)
{
    test_numbers();
    test_users();
    test_rows();
    return done_testing();
}
