/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-plan-alloc: the N-th allocation fails, for every N, while plans are parsed, bound, shown, fitted, saved, read
 * back and run with the names of their keys, and their signals are listed: the error says so, nothing leaks. */
#include "common/plan/plan.h"
#include "sites.h"
#include "tap.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if !ALLOC_WATCHED
int main(void)
{
    printf("1..0 # SKIP the allocator is the sanitizer's\n");
    return 0;
}
#else

enum { ROWS = 40 };
static struct ctr_schema schema;
static struct ctr_batchbuf rows;
static int saved; /* a file in memory */

static void make_rows(void)
{
    static const struct {
        const char *name;
        enum ctr_type type, item;
    } columns[] = {
        { "user", CTR_UTF8, 0 },        { "n", CTR_I32, 0 },    { "x", CTR_F64, 0 },       { "t", CTR_TIME, 0 },
        { "tags", CTR_LIST, CTR_UTF8 }, { "yes", CTR_BOOL, 0 }, { "v", CTR_LIST, CTR_F64 }
    };
    struct ctr_err err = { 0 };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(columns) && !rc; i++) {
        rc = ctr_schema_add(&schema, columns[i].name, columns[i].type, &err);
        schema.f[i].item = columns[i].item;
    }
    rc = rc ? rc : ctr_batchbuf_init(&rows, &schema, &err);
    for (int i = 0; i < ROWS && !rc; i++) {
        struct ctr_colbuf *c = rows.col;
        char s[8] = { (char)('a' + i % 7), (char)('a' + i % 3), i % 9 ? 'z' : '\xff' };
        rc |= i % 8 ? ctr_colbuf_str(&c[0], s, 2, &err) : ctr_colbuf_null(&c[0], &err);
        rc |= ctr_colbuf_i64(&c[1], i % 10, &err) | ctr_colbuf_f64(&c[2], i / 4.0, &err);
        rc |= ctr_colbuf_i64(&c[3], i * 1000000, &err);
        for (int k = 0; k < i % 3; k++)
            rc |= ctr_colbuf_str(c[4].item, s + k, (size_t)(3 - k), &err) | ctr_colbuf_f64(c[6].item, k, &err);
        rc |= i % 6 ? ctr_colbuf_close(&c[4], &err) : ctr_colbuf_null(&c[4], &err);
        rc |= ctr_colbuf_i64(&c[5], i % 2, &err) | ctr_colbuf_close(&c[6], &err);
    }
    saved = memfd_create("plan", MFD_CLOEXEC);
    if (rc || saved < 0)
        exit(1);
}

#define VOCAB(k) "feature f" #k " = vocab(n, min=" #k ")\n"
static const char *const plans[] = {
    "label yes\ntime t\nfeature n\nfeature a = cross(user, tags, 1.5, true, \"x\")\nfeature b = hash(user)\nkeep x\n",
    "feature a in item = vocab(user, min=2)\nfeature b in item = vocab(user, min=3)\nfeature c in item = vocab(n)\n"
    "feature d in item = vocab(user, min=2)\nfeature g in item = vocab(user, max=2)\nfeature e in other = "
    "user\nfeature f in item = tags\ndense q = "
    "quantiles(x, 4)\n",
    "w = lower(user)\nfeature w1 = if(w == \"a\\\"\\\\\\x01\" or not yes, w, \"b\")\nfeature w2 = bucket(x, [1, 2.5])\n"
    "feature w3 = t - 14d > ts\"2019-11-14T00:00Z\"\ndense d = -x * 1.5 + 2\ndense v\n",
    "a1 = user\na2 = n\nfeature f[1..2] = a[1..2]\nv = vocab(n, min=1)\nfeature g = v\nkeep v\n",
    "# \xc3\xa9\nfeature f[1..3] = concat(user, n) # repeated\nfeature `odd name` = fill(user, \"\")\nuser "
    "user\nfeature g "
    "= v\n",
    "keep a = cross(user, [1, 2]), b = cross(user, [1, 2]), c = lower(\"\"), d = 1.5 + 1, e = not true, f = 2h * 2\n"
    "keep g = bucket(x, [1, 2, 3, 4, 5, 6, 7, 8, 9]), h = if(yes, false, null), i = ts\"2020-01-01T00:00Z\" - t\n"
    "feature j = cross(tags, false, 1h, ts\"2020-01-01T00:00Z\")\nfeature k = bucket(x, [1, 2.5])\n",
    /* Texts of one hash under the seed of this table, whatever user is: see ctr-extract.t. */
    "feature shop_brand_type = concat(\"brand \", user, \"zBqNRaoPof sixteen bytes\")\n",
    VOCAB(1) VOCAB(2) VOCAB(3) VOCAB(4) VOCAB(5) VOCAB(6) VOCAB(7) VOCAB(8) VOCAB(9) VOCAB(10) VOCAB(11) VOCAB(12)
        VOCAB(13) VOCAB(14) VOCAB(15) VOCAB(16) VOCAB(17) /* more than there is room for at first */,
};

static int each_signal(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err)
{
    (void)err;
    *(int *)ctx += s->definition[0] != 0;
    return 0;
}

static int each_key(void *ctx, uint64_t key, struct ctr_str name, struct ctr_err *err)
{
    (void)err;
    *(uint64_t *)ctx += key + name.n;
    return 0;
}

static int show(const struct ctr_plan *p, struct ctr_program *g, struct ctr_err *err)
{
    struct ctr_strs sections = { 0 };
    struct ctr_buf text = { 0 };
    int signals = 0, rc = ctr_plan_signals(p, each_signal, &signals, err);
    if (!rc)
        rc = ctr_plan_vocabs(p, "item", &sections, err);
    if (!rc && ctr_schema_role(ctr_program_output(g), CTR_ROLE_LABEL) < 0)
        rc = ctr_program_explain(g, &text, err);
    if (!rc)
        rc = ctr_program_dot(g, &text, err);
    ctr_strs_free(&sections);
    ctr_buf_free(&text);
    return rc;
}

/* A program that was shown can no more be fitted: another one is. */
static int fit(struct ctr_plan *p, struct ctr_plan **fitted, struct ctr_err *err)
{
    char path[32];
    struct ctr_out *out = NULL;
    struct ctr_program *g = NULL;
    if (ftruncate(saved, 0) || lseek(saved, 0, SEEK_SET))
        return CTR_ESYS;
    snprintf(path, sizeof path, "/dev/fd/%d", saved);
    int rc = ctr_program_bind(&g, p, &schema, err);
    if (!rc)
        rc = ctr_program_fit(g, ctr_batchbuf_view(&rows), err);
    if (!rc)
        rc = ctr_program_fit_finish(g, err);
    if (!rc)
        rc = ctr_out_open(&out, path, 0, err);
    if (!rc)
        rc = ctr_program_fit_save(g, out, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    ctr_program_free(g);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "/proc/self/fd/%d", saved);
    return ctr_plan_open(fitted, path, err);
}

static int run(struct ctr_program *g, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    const struct ctr_batch *b;
    uint64_t sum = 0;
    int64_t collisions;
    int rc = ctr_program_names_start(g, 0, err);
    if (!rc)
        rc = ctr_program_run(g, ctr_batchbuf_view(&rows), &b, err);
    for (int c = 0; !rc && c < b->schema->n; c++)
        rc = ctr_program_row_names(g, c, 3, each_key, &sum, err);
    if (!rc)
        rc = ctr_out_open(&out, "/dev/null", 0, err);
    if (!rc)
        rc = ctr_program_names_save(g, out, &collisions, err);
    ctr_out_free(out);
    return rc;
}

static int attempt(const char *text, struct ctr_err *err)
{
    struct ctr_plan *p = NULL, *fitted = NULL;
    struct ctr_program *g = NULL, *h = NULL;
    int rc = ctr_plan_parse(&p, "x.plan", text, strlen(text), err);
    if (!rc)
        rc = ctr_program_bind(&g, p, &schema, err);
    if (!rc)
        rc = show(p, g, err);
    if (!rc && ctr_plan_needs_fit(p)) {
        rc = fit(p, &fitted, err);
        if (!rc)
            rc = ctr_program_bind(&h, fitted, &schema, err);
    }
    if (!rc)
        rc = run(h ? h : g, err);
    ctr_program_free(h);
    ctr_plan_free(fitted);
    ctr_program_free(g);
    ctr_plan_free(p);
    return rc;
}

/* Small pieces of a plan lie in blocks of 4 KiB and more. So that each piece is the one that asks for a block, the plan
 * begins with a name of every length up to that of the first one. */
static void test_blocks(const char *plan, size_t number)
{
    static char text[1 << 14];
    long total = 0, wrong = 0, leaks = 0;
    alloc_at_least = 4096;
    for (int length = 1; length < 4096; length += 32) {
        int rc;
        bool failed = true;
        snprintf(text, sizeof text, "%0*d = user\n%s", length, 0, plan);
        memset(text, 'z', (size_t)length);
        for (long n = 1; failed; n++) {
            struct ctr_err err = { 0 };
            alloc_arm(n);
            rc = attempt(text, &err);
            leaks += alloc_live != 0;
            failed = alloc_disarm();
            total += failed;
            wrong += failed ? rc != 0 && rc != CTR_ENOMEM : rc != 0;
        }
    }
    alloc_at_least = 0;
    ok(total > 100 && !wrong && !leaks, "plan %zu: %ld blocks, each failed once: %ld wrong, %ld leaks", number, total,
       wrong, leaks);
}

static int attempt_once(void *plan, struct ctr_err *err)
{
    return attempt(*(const char *const *)plan, err);
}

static void test_sites(size_t number)
{
    struct sites_tally t = { 0 };
    const char *plan = plans[number];
    sites_each(attempt_once, &plan, &t);
    ok(!t.wrong && !t.leaks && t.sites > 20, "plan %zu: %ld calls from %ld places failed, %ld wrong, %ld leaks", number,
       t.failed, t.sites, t.wrong, t.leaks);
}

/* A plan that is refused: by what stands in it, or by what memory there is. */
static int refused_once(void *plan, struct ctr_err *err)
{
    struct ctr_plan *p = NULL;
    int rc = ctr_plan_parse(&p, "x.plan", plan, strlen(plan), err);
    ctr_plan_free(p);
    return rc == CTR_EUSAGE && strstr(err->what, "did you mean lower") ? 0 : rc ? rc : CTR_EDATA;
}

static void test_refused(void)
{
    static char plan[] = "keep a = lowr(user)";
    struct sites_tally t = { 0 };
    sites_each(refused_once, plan, &t);
    ok(!t.wrong && !t.leaks && t.sites >= 2,
       "an unknown operator: %ld calls from %ld places failed, %ld wrong, %ld leaks", t.failed, t.sites, t.wrong,
       t.leaks);
}

int main(void)
{
    make_rows();
    test_refused();
    for (size_t i = 0; i < CTR_COUNT(plans); i++) {
        struct ctr_err err = { 0 };
        long n = 0, wrong = 0, leaks = 0;
        int rc;
        do {
            err = (struct ctr_err){ 0 };
            alloc_arm(++n);
            rc = attempt(plans[i], &err);
            leaks += alloc_live != 0;
            if (rc != 0 && rc != CTR_ENOMEM && wrong++ < 3)
                printf("# allocation %ld: %d %s\n", n, rc, err.what);
        } while (alloc_disarm() && n < 20000);
        ok(!rc && n > 1 && !wrong && !leaks, "plan %zu: %ld allocations, each failed once: %ld wrong, %ld leaks%s%s", i,
           n - 1, wrong, leaks, rc ? ": " : "", rc ? err.what : "");
    }
    for (size_t i = 0; i + 1 < CTR_COUNT(plans); i++) /* the last is long and has nothing that is new here */
        test_blocks(plans[i], i);
    for (size_t i = 0; i < CTR_COUNT(plans); i++)
        test_sites(i);
    return done_testing();
}
#endif
