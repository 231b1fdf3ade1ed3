/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-plan-refuse: plans, expressions and fitted plans that are refused, each with its words; and inputs that plans
 * seldom see: dictionaries, nulls in lists, fixed lists, batches of other lengths, failures on threads. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc.h"
#include "common/plan/plan.h"
#include "common/model/model.h"
#include "tap.h"

static struct ctr_err err;
static struct ctr_schema schema;
static int fd;
static char path[32], to[32];

static void check(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

enum { USER, N, X, T, TAGS, PAIR, KEY, WKEYS, CODE, Y, FEAT, COLUMNS };
static struct ctr_batchbuf rows;
static const struct ctr_batch *batch;

static void make_rows(void)
{
    static const struct {
        const char *name;
        enum ctr_type type, item;
        int width;
    } columns[COLUMNS] = { { "user", CTR_UTF8, 0, 0 },
                           { "n", CTR_U64, 0, 0 },
                           { "x", CTR_F32, 0, 0 },
                           { "t", CTR_TIME, 0, 0 },
                           { "tags", CTR_LIST, CTR_UTF8, 0 },
                           { "pair", CTR_FIXED, CTR_F64, 2 },
                           { "key", CTR_U64, 0, 0 },
                           { "wkeys", CTR_LIST, CTR_WKEY, 0 },
                           { "code", CTR_F64, 0, 0 },
                           { "y", CTR_F64, 0, 0 },
                           { "feat", CTR_U64, 0, 0 } };
    static const double values[] = { 1.5, 2.5, 0 };
    static const uint8_t some[] = { 3 };
    static const int32_t place[8] = { 0, 1, 2, 0, 1, 2, 0, 1 };
    static const struct ctr_col dict = { .type = CTR_F64, .rows = 3, .nulls = 1, .valid = some, .data = values };
    static struct ctr_col col[COLUMNS];
    static struct ctr_batch b;
    for (int i = 0; i < COLUMNS; i++) {
        check(ctr_schema_add(&schema, columns[i].name, columns[i].type, &err));
        schema.f[i].item = columns[i].item;
        schema.f[i].width = columns[i].width;
    }
    check(ctr_field_set_role(&schema.f[KEY], CTR_ROLE_IMAGE, &err));
    check(ctr_field_set_role(&schema.f[FEAT], CTR_ROLE_FEATURE, &err));
    check(ctr_batchbuf_init(&rows, &schema, &err));
    for (int i = 0; i < 8; i++) {
        struct ctr_colbuf *c = rows.col;
        check(ctr_colbuf_str(&c[USER], i % 3 ? "ab" : "\xff\xfe", 2, &err));
        check(ctr_colbuf_i64(&c[N], i, &err));
        check(ctr_colbuf_f64(&c[X], i % 2, &err));
        check(ctr_colbuf_i64(&c[T], i * 1000000, &err));
        for (int k = 0; k < i % 3 && i != 5; k++)
            check(k ? ctr_colbuf_null(c[TAGS].item, &err) : ctr_colbuf_str(c[TAGS].item, "t", 1, &err));
        check(i == 5 ? ctr_colbuf_null(&c[TAGS], &err) : ctr_colbuf_close(&c[TAGS], &err));
        for (int k = 0; k < 2 && i != 4; k++)
            check(k && i == 3 ? ctr_colbuf_null(c[PAIR].item, &err) : ctr_colbuf_f64(c[PAIR].item, i + k, &err));
        check(i == 4 ? ctr_colbuf_null(&c[PAIR], &err) : ctr_colbuf_close(&c[PAIR], &err));
        check(ctr_colbuf_i64(&c[KEY], i, &err));
        check(ctr_colbuf_close(&c[WKEYS], &err));
        check(ctr_colbuf_f64(&c[CODE], i, &err));
        check(ctr_colbuf_i64(&c[FEAT], i, &err));
        check(ctr_colbuf_f64(&c[Y], i, &err)); /* no label: it is not within [0, 1] */
    }
    b = *ctr_batchbuf_view(&rows);
    memcpy(col, b.col, sizeof col);
    col[CODE] = (struct ctr_col){ .type = CTR_F64, .rows = 8, .data = place, .dict = &dict };
    static const float halves[] = { 0, 1, 0.5 };
    static const struct ctr_col plain = { .type = CTR_F32, .rows = 3, .data = halves };
    col[X] = (struct ctr_col){ .type = CTR_F32, .rows = 8, .data = place, .dict = &plain };
    b.col = col;
    batch = &b;
}

/* The error of parsing, binding, running a plan or an expression; "" when there is none. */
static struct ctr_program *program;
static const char *run_plan(const char *text, int threads)
{
    struct ctr_plan *p = NULL;
    const struct ctr_batch *out;
    err = (struct ctr_err){ 0 };
    int rc = ctr_plan_parse(&p, "x.plan", text, strlen(text), &err);
    if (!rc)
        rc = ctr_program_bind(&program, p, &schema, &err);
    if (!rc && threads > 1)
        rc = ctr_program_threads(program, threads, &err);
    if (!rc && !ctr_plan_needs_fit(p))
        rc = ctr_program_run(program, batch, &out, &err);
    struct ctr_buf shown = { 0 };
    if (!rc)
        rc = ctr_program_explain(program, &shown, &err);
    ctr_buf_free(&shown);
    ctr_program_free(program);
    program = NULL;
    ctr_plan_free(p);
    return rc < 0 ? err.what : "";
}

static const char *eval(const char *text)
{
    struct ctr_expr *e = NULL;
    const struct ctr_col *c;
    err = (struct ctr_err){ 0 };
    int rc = ctr_expr_compile(&e, "--where", text, &schema, NULL, &err);
    if (!rc)
        rc = ctr_expr_eval(e, batch, &c, &err);
    ctr_expr_free(e);
    return rc < 0 ? err.what : "";
}

#define FORTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_texts(void)
{
    static const struct {
        const char *text, *words; /* "" : none */
        int threads;
    } plans[] = {
        { "feature wkeys\n", "weighted keys cannot be made into a feature", 1 },
        { "label l = user\n", "a label is a condition or a number", 1 },
        { "label l = tags\n", "a label is a condition or a number", 1 },
        { "weight w = pair\n", "a weight is a number", 1 },
        { "weight w = user\n", "a weight is a number", 1 },
        { "dense d = t - t\n", "dense takes numbers", 1 },
        { "dense d = key\n", "dense takes numbers", 1 },
        { "label l = y\n", "l", 1 },
        { "label l = y\nfeature user\nfeature n\n", "l", 4 },
        { "label l = x\ndense pair\ndense code\ndense xx = x\nfeature tags\n", "", 1 },
        { "label l = x\nfeature user\nfeature n\nfeature tags\n", "", 4 },
        { "keep a = 9223372036854775808 + 0, b = 5 + 0, c = lower(\"\")\n", "", 1 },
        { "keep a = fill(9223372036854775808, 1), c = null\n", "null alone has no type", 1 },
        { "feature a = lookup(\"nowhere.arrow\", user, \"x\")\n", "nowhere.arrow", 1 },
        { "keep feat, n\nkeep b = fill(9223372036854775808, 1), c = fill(9223372036854775808, 1) / 4\n", "", 1 },
        { "feature a = vocab([1, 2], min=2)\nfeature b in a = vocab(user, min=2)\n", "", 1 },
        { "feature h = hash(\"abc\")\nfeature c = cross(user, \"a\")\n", "", 1 },
        { "feature C[99999999999999999999..5]\n", "too large", 1 },
        { "feature C[5..99999999999999999999]\n", "too large", 1 },
        { "keep n\r\n", "", 1 },
        { "keep n\r", "unexpected", 1 },
        { "keep n\rx\n", "unexpected", 1 },
    };
    for (size_t i = 0; i < CTR_COUNT(plans); i++) {
        const char *got = run_plan(plans[i].text, plans[i].threads);
        ok(*plans[i].words ? strstr(got, plans[i].words) != NULL : !*got, "%.40s: %s", plans[i].text, got);
    }
    static const char *const exprs[][2] = {
        { "n )", "an operator or the end" },
        { "n user", "an operator or the end" },
        { "n = 1", "equality is ==" },
        { "\n\nn > 1\n", "" },
        { "user == \"\\u0041\"", "" },
        { "n > 1x", "neither a number nor a duration" },
        { "n > 1" FORTY, "neither a number nor a duration" },
        { "n x" FORTY, "an operator or the end" },
        { "(n > 1 x" FORTY ")", "expected" },
    };
    for (size_t i = 0; i < CTR_COUNT(exprs); i++) {
        const char *got = eval(exprs[i][0]);
        ok(*exprs[i][1] ? strstr(got, exprs[i][1]) != NULL : !*got, "'%s': %s", exprs[i][0], got);
    }
    ok(*eval(""), "nothing is no expression: %s", err.what);
    long n = 1;
    for (bool failed = ALLOC_WATCHED; failed && n < 2000; n += failed) {
        alloc_arm(n);
        (void)run_plan("label l = x\nfeature user\nfeature n\nfeature tags\n", 4);
        failed = alloc_disarm();
    }
    ok(n < 2000, "%ld allocations failed one by one, with threads", n - 1);
}

/* A constant column of a longer batch serves a shorter one. */
static void test_lengths(void)
{
    static const char text[] = "keep a = 7, b = [1, 2], c = n + 1\n";
    struct ctr_plan *p = NULL;
    const struct ctr_batch *out;
    struct ctr_col col[COLUMNS];
    memcpy(col, batch->col, sizeof col);
    for (int i = 0; i < COLUMNS; i++)
        col[i].rows = 3;
    const struct ctr_batch three = { &schema, 3, 0, col };
    check(ctr_plan_parse(&p, "x.plan", text, strlen(text), &err));
    check(ctr_program_bind(&program, p, &schema, &err));
    check(ctr_program_run(program, batch, &out, &err));
    ok(out->rows == 8, "8 rows");
    check(ctr_program_run(program, &three, &out, &err));
    struct ctr_err late = { 0 };
    ok(ctr_program_fit_finish(program, &late) < 0, "what ran cannot be fitted: %s", late.what);
    ok(out->rows == 3 && out->col[0].rows == 3 && ctr_col_i64(&out->col[0], 2) == 7, "then 3 of the same constants");
    ctr_program_free(program);
    program = NULL;
    ctr_plan_free(p);
}

static int each_key(void *ctx, uint64_t key, struct ctr_str name, struct ctr_err *e)
{
    (void)key;
    (void)e;
    *(size_t *)ctx += name.n;
    return 0;
}

/* Names of keys: of text that is no UTF-8, of lists with nulls, of literals; and of no row at all. */
static void test_names(void)
{
    static const char text[] =
        "feature user\nfeature tags\nfeature h = hash(\"abc\")\nfeature c = cross(tags, \"a\")\n";
    for (int ran = 0; ran < 2; ran++) {
        struct ctr_plan *p = NULL;
        struct ctr_out *o = NULL;
        const struct ctr_batch *out;
        int64_t collisions = 0;
        size_t n = 0;
        check(ctr_plan_parse(&p, "x.plan", text, strlen(text), &err));
        check(ctr_program_bind(&program, p, &schema, &err));
        check(ctr_program_names_start(program, 0, &err));
        if (ran)
            check(ctr_program_run(program, batch, &out, &err));
        for (int c = 0; ran && c < 4; c++)
            for (int64_t i = 0; i < 8; i++)
                check(ctr_program_row_names(program, c, i, each_key, &n, &err));
        check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
        check(ctr_out_open(&o, to, 0, &err));
        check(ctr_program_names_save(program, o, &collisions, &err));
        check(ctr_out_commit(o, &err));
        ctr_out_free(o);
        ok(!collisions && (n > 0) == ran && lseek(fd, 0, SEEK_END) > 0, "names of %d rows are saved: %zu", 8 * ran, n);
        ctr_program_free(program);
        program = NULL;
        ctr_plan_free(p);
    }
}

/* ---- fitted plans ---- */

static const char fitted_text[] = "feature f = vocab(n, min=1)\n";

/* A stream of one column with the metadata of a section, behind the others. */
static const char *model_name; /* of the first section, or NULL */
static const char *language, *inputs;
static struct ctr_seal written; /* of the section before */
static void put_section(const char *name, const char *list, const char *text)
{
    struct ctr_schema s = { 0 };
    struct ctr_out *o;
    struct ctr_writer *w;
    check(ctr_schema_add(&s, "line", CTR_UTF8, &err));
    check(ctr_meta_set(&s.meta, CTR_META_SECTION, name, &err));
    check(ctr_meta_set(&s.meta, CTR_META_SECTIONS, list, &err));
    check(ctr_meta_set(&s.meta, CTR_META_PLAN, text, &err));
    check(ctr_meta_set(&s.meta, CTR_META_PLAN_LANGUAGE, text ? language : NULL, &err));
    check(ctr_meta_set(&s.meta, CTR_META_PLAN_INPUTS, text ? inputs : NULL, &err));
    check(ctr_meta_set(&s.meta, CTR_META_MODEL, text ? model_name : NULL, &err));
    check(ctr_out_open(&o, to, 0, &err));
    if (lseek(fd, 0, SEEK_CUR))
        *ctr_out_seal(o) = written;
    check(ctr_writer_open(&w, o, &s, NULL, &err));
    check(ctr_writer_finish(w, &err));
    written = *ctr_out_seal(o);
    check(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_schema_free(&s);
}

static const char *open_bundle(const char *names[], int n, const char *text)
{
    char list[256] = "";
    struct ctr_plan *p = NULL;
    for (int i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? "," : "", names[i]);
    check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
    for (int i = 0; i < n; i++)
        put_section(names[i], i ? NULL : list, i ? NULL : text);
    err = (struct ctr_err){ 0 };
    int rc = ctr_plan_open(&p, path, &err);
    ctr_plan_free(p);
    return rc < 0 ? err.what : "";
}

static void test_bundles(void)
{
    const char *got = open_bundle((const char *[]){ "plan" }, 1, fitted_text);
    ok(strstr(got, "the fitted state is not there") && strstr(got, "ctr-train --plan"), "without its state: %s", got);
    got = open_bundle((const char *[]){ "plan", "vocab.f", "lower.f", "vocab.f" }, 4, fitted_text);
    ok(strstr(got, "the section vocab.f is there twice"), "a state twice: %s", got);
    got = open_bundle((const char *[]){ "plan", "lower.f", "nosuch.f", "nodot" }, 4, "feature user\n");
    ok(!*got, "sections of others are passed over: %s", got);
}

/* The plan of a bundle, bound to two rows of x; its only column. */
static const struct ctr_col *run_bundle(const char *text, enum ctr_type type, double first, struct ctr_plan **p)
{
    static struct ctr_program *bundled;
    static struct ctr_schema s;
    static struct ctr_batchbuf two;
    const struct ctr_batch *out;
    ctr_program_free(bundled);
    bundled = NULL;
    ctr_plan_free(*p);
    *p = NULL;
    if (s.n)
        ctr_batchbuf_free(&two);
    ctr_schema_free(&s);
    if (!text)
        return NULL;
    check(ctr_schema_add(&s, "odd name", type, &err));
    check(ctr_batchbuf_init(&two, &s, &err));
    check(type == CTR_UTF8           ? ctr_colbuf_str(two.col, "7", 1, &err)
          : ctr_types[type].floating ? ctr_colbuf_f64(two.col, first, &err)
                                     : ctr_colbuf_i64(two.col, (int64_t)first, &err));
    check(ctr_colbuf_null(two.col, &err));
    check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
    put_section("plan", NULL, text);
    err = (struct ctr_err){ 0 };
    int rc = ctr_plan_open(p, path, &err);
    if (!rc)
        rc = ctr_program_bind(&bundled, *p, &s, &err);
    if (!rc)
        rc = ctr_program_run(bundled, ctr_batchbuf_view(&two), &out, &err);
    return rc ? NULL : out->col;
}

/* What travels with a plan: the version of its language and the types of its columns. */
static void test_travelling(void)
{
    static const struct {
        const char *was;
        enum ctr_type is;
        double first;
        const char *error; /* NULL: the key is that of `text` */
        const char *text;
    } cast[] = {
        { "uint64", CTR_F64, 7, NULL, "7" },
        { "int8", CTR_F64, 9007199254740992, NULL, "9007199254740992" },
        { "uint64", CTR_F64, 9007199254740994, "row 1: column 'odd name' holds 9007199254740994", NULL },
        { "uint64", CTR_F64, 7.5, "row 1: column 'odd name' holds 7.5; the plan was made for integers", NULL },
        { "int32", CTR_F32, 1e30, "which cannot hold it", NULL },
        { "int32", CTR_F64, -0.0, NULL, "0" },
        { "int32", CTR_U64, 7, NULL, "7" },
        { "float64", CTR_I64, 9007199254740992, NULL, "9007199254740992" },
        { "float64", CTR_I64, 9007199254740994, "holds 9007199254740994; the plan was made for float64", NULL },
        { "float32", CTR_I64, 16777216, NULL, "16777216" },
        { "float32", CTR_U64, 16777218, "holds 16777218; the plan was made for float32", NULL },
        { "float32", CTR_F64, 0.1, NULL, "0.1" },
        { "float32", CTR_F64, 1e300, "holds 1e+300", NULL },
        { "float64", CTR_F32, 0.5, "is float32; the plan was made for float64 there", NULL },
        { "utf8", CTR_I64, 7, "(ctr-import --columns 'odd name:utf8')", NULL },
        { "int64", CTR_UTF8, 7, "is utf8; the plan was made for int64 there", NULL },
        { "bool", CTR_I64, 1, "is int64; the plan was made for bool there", NULL },
        { "timestamp", CTR_I64, 1, "is int64; the plan was made for timestamp there", NULL },
        { "list<int64>", CTR_I64, 1, "is int64; the plan was made for list<int64> there", NULL },
        { "key", CTR_U64, 1, "is uint64; the plan was made for key there", NULL },
        { "nonsense", CTR_F64, 7.5, NULL, "7.5" },
    };
    struct ctr_plan *p = NULL;
    char text[64];
    language = NULL;
    const struct ctr_col *c = run_bundle("keep q = `odd name` / 2\n", CTR_I64, 7, &p);
    ok(c && c->type == CTR_I64 && ctr_col_i64(c, 0) == 3, "without a version, / of integers rounds down: %s", err.what);
    ok(p && !strcmp(ctr_plan_id(p), "92e97d61d4d3da391154fc8ba3276008"), "and the plan is the one it was");
    language = "2";
    c = run_bundle("keep q = `odd name` / 2\n", CTR_I64, 7, &p);
    ok(c && c->type == CTR_F64 && ctr_col_f64(c, 0) == 3.5, "with version 2 it gives a float: %s", err.what);
    language = "3";
    c = run_bundle("keep q = `odd name` / 2\n", CTR_I64, 7, &p);
    ok(!c && strstr(err.what, "version 3 of the language"), "a later version: %s", err.what);
    language = "2";
    for (size_t i = 0; i < CTR_COUNT(cast); i++) {
        snprintf(text, sizeof text, "other text\n`odd name` %s\n", cast[i].was);
        inputs = text;
        c = run_bundle("x = `odd name`\nfeature k in t = x\n", cast[i].is, cast[i].first, &p);
        uint64_t key = cast[i].text ? ctr_feature_key(ctr_table_seed("t"), cast[i].text, strlen(cast[i].text)) : 0;
        ok(cast[i].error ? !c && strstr(err.what, cast[i].error) != NULL
                         : c && (uint64_t)ctr_col_i64(c, 0) == key &&
                               (uint64_t)ctr_col_i64(c, 1) == ctr_feature_key(ctr_table_seed("t"), "(missing)", 9),
           "%s was %s: %s", ctr_types[cast[i].is].name, cast[i].was, err.what);
    }
    inputs = "`odd name` utf8\n";
    c = run_bundle("dense d = `odd name`\n", CTR_I64, 7, &p);
    ok(c != NULL, "a column that makes no keys may have any type that fits: %s", err.what);
    inputs = language = NULL;
    (void)run_bundle(NULL, CTR_I64, 0, &p);
}

/* Rows without a label, for a model's plan: what only learning wants is left out, and memory fails on the way. */
static void test_serve(void)
{
    static const char text[] = "w = lower(user)\nlabel l = y\nfeature f = w\nfeature user\n";
    struct ctr_plan *p = NULL;
    struct ctr_schema less = { 0 };
    check(ctr_schema_add(&less, "user", CTR_UTF8, &err));
    model_name = "lr";
    ok(!*open_bundle((const char *[]){ "lr" }, 1, text), "the plan of a model %s", err.what);
    model_name = NULL;
    check(ctr_plan_open(&p, path, &err));
    ok(ctr_plan_can_lack(p, "y") && !ctr_plan_can_lack(p, "user"), "rows to predict may lack the label alone");
    long n = 1, wrong = 0, leaks = 0;
    for (bool failed = true; failed; n += failed) {
        alloc_arm(ALLOC_WATCHED ? n : -1);
        int rc = ctr_program_bind(&program, p, &less, &err);
        ctr_program_free(program);
        program = NULL;
        leaks += alloc_live != 0;
        failed = alloc_disarm() && ALLOC_WATCHED;
        wrong += rc != (failed ? CTR_ENOMEM : 0);
    }
    ok(!wrong && !leaks, "%ld allocations failed one by one while it is bound: %ld wrong, %ld leaks", n - 1, wrong,
       leaks);
    alloc_arm(1);
    bool may = ctr_plan_can_lack(p, "y");
    (void)alloc_disarm();
    ok(!may || !ALLOC_WATCHED, "without memory nothing may be lacking");
    ctr_plan_free(p);
    ctr_schema_free(&less);
}

/* What a model says of the plan that its features were made with. */
static void test_check_fitted(void)
{
    struct ctr_schema s = { 0 };
    ok(ctr_model_check_fitted(path, &s, &err) == CTR_EUSAGE && strstr(err.what, "made by no plan"), "%s", err.what);
    check(ctr_meta_set(&s.meta, CTR_META_PLAN_ID, "abc", &err));
    ok(ctr_model_check_fitted(path, &s, &err) == CTR_EUSAGE && strstr(err.what, "made by plan abc"), "%s", err.what);
    ok(ctr_model_check_fitted("/nowhere", &s, &err) == CTR_ESYS, "%s", err.what);
    check(ctr_meta_set(&s.meta, CTR_META_PLAN, "feature (", &err));
    ok(!ctr_model_wants_fitted(&s), "a plan that is none wants no state");
    ctr_schema_free(&s);
}

/* A file that begins as an IPC file does, by the name that the shell gives a descriptor. */
static void test_no_file(void)
{
    static const char text[] = "ARROW1 and no more";
    struct ctr_plan *p = NULL;
    check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
    check(pwrite(fd, text, sizeof text - 1, 0) == (ssize_t)sizeof text - 1 ? 0 : -1);
    const int rc = ctr_plan_open(&p, to, &err);
    ok(rc == CTR_EDATA && strstr(err.what, "not an Arrow stream or IPC file"), "a plan that begins as an IPC file: %s",
       err.what);
    ctr_plan_free(p);
}

static void test_fit_again(void)
{
    struct ctr_plan *p = NULL, *fitted = NULL;
    struct ctr_out *o = NULL;
    struct ctr_buf text = { 0 };
    check(ctr_plan_parse(&p, "x.plan", fitted_text, strlen(fitted_text), &err));
    check(ctr_program_bind(&program, p, &schema, &err));
    check(ctr_program_fit(program, batch, &err));
    check(ctr_program_fit_finish(program, &err));
    ok(ctr_program_fit_finish(program, &err) == CTR_EUSAGE && strstr(err.what, "fitted already"), "fitted twice: %s",
       err.what);
    check(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET));
    check(ctr_out_open(&o, to, 0, &err));
    check(ctr_program_fit_save(program, o, &err));
    check(ctr_out_commit(o, &err));
    ctr_out_free(o);
    ctr_program_free(program);
    ctr_plan_free(p);
    check(ctr_plan_open(&fitted, path, &err));
    check(ctr_program_bind(&program, fitted, &schema, &err));
    const struct ctr_batch *out;
    check(ctr_program_run(program, batch, &out, &err));
    check(ctr_program_explain(program, &text, &err));
    ok(strstr((char *)text.data, "[fitted vocab.f]"), "its state is shown");
    ctr_program_free(program);
    program = NULL;
    ctr_plan_free(fitted);
    ctr_buf_free(&text);
}

int main(void)
{
    fd = memfd_create("plan", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/fd/%d", fd);
    make_rows();
    test_texts();
    test_lengths();
    test_names();
    test_bundles();
    test_travelling();
    test_serve();
    test_no_file();
    test_fit_again();
    test_check_fitted();
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&schema);
    return done_testing();
}
