/* SPDX-License-Identifier: Apache-2.0
 *
 * identity: which metadata of two streams go together, and what is said where they do not. */
#include "common/stream/stream.h"
#include "tap.h"

static struct ctr_err err;

/* Compare two values of one key, which other metadata may accompany. */
static bool same(const char *key, const char *a, const char *b, struct ctr_difference *d)
{
    struct ctr_meta x = { 0 }, y = { 0 };
    int rc = ctr_meta_set(&x, key, a, &err) | ctr_meta_set(&y, key, b, &err);
    if (!strcmp(key, CTR_META_PLAN)) /* the text explains why the identities differ */
        rc |= ctr_meta_set(&x, CTR_META_PLAN_ID, "1", &err) | ctr_meta_set(&y, CTR_META_PLAN_ID, "2", &err);
    const bool is = ctr_identity_same(&x, &y, CTR_IDENTITY_ALL, d);
    ctr_meta_free(&x);
    ctr_meta_free(&y);
    return !rc && is;
}

static void test_plans(void)
{
    static const struct {
        const char *a, *b, *what;
    } plan[] = {
        { "feature a\nfeature b\n", "feature a\nfeature c\n", "'feature b' there and 'feature c' here" },
        { "feature a\n", "feature a\n\n# b\nfeature b", "no line there and 'feature b' here" },
        { "# one\nfeature a # x\nx = 1", "feature\ta\r\n  x=1  # y\n", "fitted on other data" },
        { "a = split(s, \"#\")\nb", "a = split(s, \"#1\")\nb",
          "'a = split(s, \"#\")' there and 'a = split(s, \"#1\")' here" },
        { "`a#b`\nb", "`a#b` # c\nc", "'b' there and 'c' here" },
        { "", "a", "no line there and 'a' here" },
        { NULL, "a", "its plan is 1 there and 2 here" },
    };
    struct ctr_difference d;
    for (size_t i = 0; i < CTR_COUNT(plan); i++)
        ok(!same(CTR_META_PLAN, plan[i].a, plan[i].b, &d) && strstr(d.what, plan[i].what) && *d.remedy, "%s", d.what);
}

static void test_inputs(void)
{
    static const struct {
        const char *a, *b, *what; /* NULL: they go together */
    } input[] = {
        { "a int64\nb utf8\n", "b utf8\na int8\n", NULL },
        { "a int64\n", "b float64\n", NULL },
        { "a int64\n", "a float64\n", "input 'a' of its plan was int64 there and float64 here" },
        { "a int64\n", "a bool\n", "int64 there and bool here" },
        { "a float32\n", "a float64\n", "float32 there and float64 here" },
        { "a int64 (no key)\n", "a float64 (no key)\n", NULL },
        { "a int64 (no key)\n", "a float64\n", NULL },
        { "a int64\n", "a float64 (no key)\n", NULL },
        { "a list<int64>\n", "a fixed_size_list<uint8>[3]\n", NULL },
        { "a list<int64>\n", "a int64\n", "list<int64> there and int64 here" },
        { "a key\n", "a uint64\n", "key there and uint64 here" },
        { "`a b` int64\n", "`a b` utf8", "input 'a b' of its plan was int64 there and utf8 here" },
        { "`a \\` b` int64\nc utf8", "`a \\` b` int8\nc int8", "input 'c' of its plan was utf8 there and int8 here" },
        { "`a", "`a", NULL },
        { "a", "a int64", "was  there" },
    };
    struct ctr_difference d;
    for (size_t i = 0; i < CTR_COUNT(input); i++) {
        const bool is = same(CTR_META_PLAN_INPUTS, input[i].a, input[i].b, &d);
        ok(input[i].what ? !is && strstr(d.what, input[i].what) && *d.remedy : is, "inputs %zu: %s", i, d.what);
    }
}

static void test_rest(void)
{
    struct ctr_difference d;
    struct ctr_schema a = { 0 }, b = { 0 };
    struct ctr_buf dropped = { 0 };
    ok(!same(CTR_META_KEY_SEED, "12", NULL, &d) && strstr(d.what, "12 there and none here"), "%s", d.what);
    ok(!same(CTR_META_NETWORK, "vgg", "resnet", &d) && strstr(d.what, "vgg there and by resnet here"), "%s", d.what);
    ok(same(CTR_META_NETWORK, "vgg", NULL, &d), "vectors that do not say their network");
    int rc = ctr_schema_add(&a, "x", CTR_U64, &err) | ctr_schema_copy(&b, &a, &err) |
             ctr_meta_set(&a.meta, CTR_META_PLAN_ID, "1", &err);
    ok(!rc && ctr_streams_same(&a, &b, &d), "where no feature is left, plans do not matter");
    rc = ctr_field_set_role(&b.f[0], CTR_ROLE_FEATURE, &err);
    ok(!rc && !ctr_streams_same(&a, &b, &d) && d.of_identity && strstr(d.what, "plan"), "else they do: %s", d.what);
    rc = ctr_meta_set(&a.f[0].meta, CTR_META_TOWER_MODEL, "m", &err);
    ok(!rc && !ctr_identity_drop(&a, &dropped, &err) && !a.meta.n && !a.f[0].meta.n, "all of it is dropped");
    ok(dropped.len && !strcmp((char *)dropped.data, "plan 1, model m of column x"), "and named");
    ctr_buf_free(&dropped);
    ctr_schema_free(&a);
    ctr_schema_free(&b);
}

int main(void)
{
    test_plans();
    test_inputs();
    test_rest();
    return done_testing();
}
