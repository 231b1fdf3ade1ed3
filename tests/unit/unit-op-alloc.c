/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-op-alloc: the N-th allocation fails, for every N, while calls are bound, run, fitted, saved and loaded: the
 * error says so, nothing crashes, nothing leaks.
 */
#include "common/op/op.h"
#include "alloc.h"
#include "tap.h"

#include <stdlib.h>

#if !ALLOC_WATCHED
int main(void)
{
    printf("1..0 # SKIP the allocator is the sanitizer's\n");
    return 0;
}
#else

enum { ROWS = 3000 };
static struct ctr_colbuf text, list, number;
static struct ctr_col text_col, list_col, number_col, dict_col, dict;
static int32_t idx[ROWS];

static void make_columns(void)
{
    struct ctr_field t = { .type = CTR_UTF8 }, l = { .type = CTR_LIST, .item = CTR_UTF8 }, n = { .type = CTR_I32 };
    struct ctr_err err;
    int rc = 0;

    rc |= ctr_colbuf_init(&text, &t, &err) | ctr_colbuf_init(&list, &l, &err) | ctr_colbuf_init(&number, &n, &err);
    for (int i = 0; i < ROWS && !rc; i++) {
        char s[CTR_NUM_MAX];
        size_t k = ctr_fmt_i64(s, i * 7919 % 2600);
        rc |= i % 5 ? ctr_colbuf_str(&text, s, k, &err) : ctr_colbuf_null(&text, &err);
        rc |= ctr_colbuf_str(list.item, s, k, &err) | ctr_colbuf_str(list.item, s, 1, &err);
        rc |= ctr_colbuf_close(&list, &err) | ctr_colbuf_i64(&number, i, &err);
        idx[i] = i % 100;
    }
    if (rc)
        exit(1);
    text_col = *ctr_colbuf_view(&text);
    list_col = *ctr_colbuf_view(&list);
    number_col = *ctr_colbuf_view(&number);
    dict = text_col;
    dict.rows = 100;
    dict_col = (struct ctr_col){ .type = CTR_UTF8, .rows = ROWS, .data = idx, .dict = &dict };
}

static struct ctr_value bar = { .kind = CTR_V_STR, .s = { "1", 1 } }, two = { .kind = CTR_V_INT, .i = 2 };
static struct ctr_value limits[] = { { .kind = CTR_V_INT, .i = 1 }, { .kind = CTR_V_INT, .i = 5 } };
static struct ctr_value thresholds = { .kind = CTR_V_LIST, .list = limits, .n = 2 };

static const struct plan {
    const char *op;
    struct ctr_vtype type;
    const struct ctr_col *col;
    struct ctr_value *literal;
} plans[] = {
    { "lower", { .type = CTR_UTF8 }, &text_col, NULL },
    { "lower", { .type = CTR_UTF8 }, &dict_col, NULL },
    { "lower", { .type = CTR_LIST, .item = CTR_UTF8 }, &list_col, NULL },
    { "split", { .type = CTR_UTF8 }, &text_col, &bar },
    { "ngrams", { .type = CTR_UTF8 }, &text_col, &two },
    { "join", { .type = CTR_LIST, .item = CTR_UTF8 }, &list_col, &bar },
    { "concat", { .type = CTR_I32 }, &number_col, &bar },
    { "cross", { .type = CTR_LIST, .item = CTR_UTF8 }, &list_col, &two },
    { "cross", { .type = CTR_I32 }, &number_col, &two },
    { "json_get", { .type = CTR_UTF8 }, &text_col, &bar },
    { "square_log_bucket", { .type = CTR_I32 }, &number_col, NULL },
    { "bucket", { .type = CTR_I32 }, &number_col, &thresholds },
    { "fill", { .type = CTR_UTF8 }, &text_col, &bar },
    { "is_null", { .type = CTR_UTF8 }, &text_col, NULL },
    { "vocab", { .type = CTR_UTF8 }, &text_col, NULL },
    { "vocab", { .type = CTR_LIST, .item = CTR_UTF8 }, &list_col, NULL },
    { "vocab", { .type = CTR_I32 }, &number_col, NULL },
    { "quantiles", { .type = CTR_I32 }, &number_col, &two },
    { "log_scale", { .type = CTR_I32 }, &number_col, NULL },
};

/* Save the state of a and load it into b, which is bound alike. */
static int transfer(const struct ctr_op_call *a, struct ctr_op_call *b, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    int rc = ctr_op_fit_schema(a, &s, err);

    if (!rc)
        rc = ctr_batchbuf_init(&rows, &s, err);
    if (!rc)
        rc = ctr_op_fit_save(a, &rows, err);
    if (!rc)
        rc = ctr_op_fit_load(b, ctr_batchbuf_view(&rows), err);
    if (rows.schema)
        ctr_batchbuf_free(&rows);
    ctr_schema_free(&s);
    return rc;
}

static int run(const struct ctr_op_call *c, const struct ctr_col *col, struct ctr_err *err)
{
    const struct ctr_col *cols[2] = { col };
    struct ctr_vtype t = c->result;
    struct ctr_field f = { .type = t.type, .item = t.item, .width = t.width }, k = { .type = CTR_U64, .item = CTR_U64 };
    struct ctr_colbuf out = { 0 }, key = { 0 };
    int rc = ctr_colbuf_init(&out, &f, err);

    k.type = t.type == CTR_LIST ? CTR_LIST : CTR_U64;
    if (!rc)
        rc = ctr_colbuf_init(&key, &k, err);
    if (!rc)
        rc = ctr_op_run(c, cols, ROWS, &out, err);
    if (!rc)
        rc = ctr_op_run_keys(c, cols, ROWS, 7, NULL, &key, err);
    ctr_colbuf_free(&out);
    ctr_colbuf_free(&key);
    return rc;
}

static int attempt(const struct plan *p, struct ctr_err *err)
{
    struct ctr_op_arg arg[2] = { { .type = p->type }, { .literal = p->literal } };
    struct ctr_op_call a = { .op = ctr_op_find(p->op, strlen(p->op)), .arg = arg, .nargs = p->literal ? 2 : 1 }, b = a;
    const struct ctr_col *cols[2] = { p->col };
    int rc = ctr_op_bind(&a, err);

    if (!rc && ctr_op_fitted(a.op)) {
        if (!(rc = ctr_op_bind(&b, err)) && !(rc = ctr_op_fit_update(&a, cols, ROWS, err)) &&
            !(rc = ctr_op_fit_finish(&a, err)) && !(rc = transfer(&a, &b, err)))
            rc = run(&b, p->col, err);
    }
    if (!rc)
        rc = run(&a, p->col, err);
    ctr_op_unbind(&a);
    ctr_op_unbind(&b);
    return rc;
}

int main(void)
{
    make_columns();
    for (size_t i = 0; i < CTR_COUNT(plans); i++) {
        long n = 0, wrong = 0, leaks = 0;
        int rc;
        do {
            struct ctr_err err = { 0 };
            alloc_arm(++n);
            rc = attempt(&plans[i], &err);
            wrong += rc != 0 && rc != CTR_ENOMEM;
            leaks += alloc_live != 0;
        } while (alloc_disarm() && n < 10000);
        ok(!rc && n > 1 && !wrong && !leaks, "%s: %ld allocations, each failed once: %ld wrong, %ld leaks", plans[i].op,
           n - 1, wrong, leaks);
    }
    return done_testing();
}
#endif
