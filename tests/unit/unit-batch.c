/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-batch: schemas; growing columns against a plain model of what was appended. */
#include "common/stream/batch.h"

#include "tap.h"

#include <stdlib.h>

static struct ctr_err err;

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

static void test_schema(void)
{
    struct ctr_schema s = { 0 }, t;
    struct ctr_field f;
    char why[200], name[64];

    ok(!ctr_schema_add(&s, "user_id", CTR_I32, &err) && !ctr_schema_add(&s, "rating", CTR_F64, &err), "two columns");
    ok(ctr_schema_add(&s, "rating", CTR_F64, &err) == CTR_EUSAGE, "a name twice is refused");
    ok(ctr_schema_need(&s, "user", &err) < 0 && strstr(err.what, "'user_id'"), "the nearest name is told");
    ok(!ctr_field_set_role(&s.f[0], CTR_ROLE_USER, &err) && ctr_schema_role(&s, CTR_ROLE_USER) == 0 &&
           ctr_schema_role(&s, CTR_ROLE_LABEL) == -1,
       "roles");
    ok(!ctr_schema_copy(&t, &s, &err) && ctr_schema_equal(&s, &t, why, sizeof why), "a copy is equal");
    t.f[1].type = CTR_F32;
    ok(!ctr_schema_equal(&s, &t, why, sizeof why) && strstr(why, "rating"), "the difference is named: %s", why);
    ctr_schema_free(&s);
    ctr_schema_free(&t);
    ok(ctr_type_parse("list<utf8>", 10, &f) && f.type == CTR_LIST && f.item == CTR_UTF8, "list<utf8>");
    ok(ctr_type_parse("fixed_size_list<float32>[12]", 28, &f) && f.width == 12 &&
           !strcmp(ctr_field_type_name(&f, name, sizeof name), "fixed_size_list<float32>[12]"),
       "a fixed size list there and back");
    ok(!ctr_type_parse("list<", 5, &f) && !ctr_type_parse("fixed_size_list<float32>[x]", 27, &f) &&
           !ctr_type_parse("", 0, &f) && !ctr_type_parse("weighted key", 12, &f),
       "what is no type is refused");
}

/* Append random rows one by one, then copy by range and by gather: all three read the same. */
static void test_column(struct ctr_field f, const char *what)
{
    enum { N = 1000 };
    struct ctr_colbuf a, b, c;
    int64_t idx[N];
    bool same = true, picked = true;
    int64_t nulls = 0;

    if (ctr_colbuf_init(&a, &f, &err) || ctr_colbuf_init(&b, &f, &err) || ctr_colbuf_init(&c, &f, &err))
        exit(1);
    for (int64_t i = 0; i < N; i++) {
        uint64_t r = ctr_random64(1, (uint64_t)f.type, (uint64_t)i);
        int rc = 0;
        idx[i] = r % 7 ? (int64_t)(r % N) : -1;
        if (r % 5 == 0) {
            rc = ctr_colbuf_null(&a, &err);
            nulls++;
        } else if (f.type == CTR_UTF8) {
            rc = ctr_colbuf_str(&a, "abcdefghij", r % 11, &err);
        } else if (f.type == CTR_LIST) {
            for (uint64_t k = 0; !rc && k < r % 4; k++)
                rc = ctr_colbuf_i64(a.item, (int64_t)(r >> k), &err);
            rc = rc ? rc : ctr_colbuf_close(&a, &err);
        } else if (ctr_types[f.type].floating) {
            rc = ctr_colbuf_f64(&a, (double)(r % 100) / 4, &err);
        } else {
            rc = ctr_colbuf_i64(&a, (int64_t)r, &err);
        }
        if (rc)
            exit(1);
    }
    const struct ctr_col *v = ctr_colbuf_view(&a);
    ok(v->rows == N && v->nulls == nulls, "%s: %lld nulls", what, (long long)nulls);
    for (int64_t at = 0; at < N; at += 37)
        if (ctr_colbuf_range(&b, v, at, CTR_MIN(37, N - at), &err))
            exit(1);
    if (ctr_colbuf_gather(&c, v, idx, N, &err))
        exit(1);
    for (int64_t i = 0; i < N; i++) {
        same &= !ctr_col_compare(v, i, ctr_colbuf_view(&b), i) &&
                ctr_col_hash(v, i, 7) == ctr_col_hash(ctr_colbuf_view(&b), i, 7);
        picked &=
            idx[i] < 0 ? ctr_col_null(ctr_colbuf_view(&c), i) : !ctr_col_compare(v, idx[i], ctr_colbuf_view(&c), i);
    }
    ok(same && b.nulls == nulls, "%s: ranges copy", what);
    ok(picked, "%s: gather picks", what);
    ctr_colbuf_free(&a);
    ctr_colbuf_free(&b);
    ctr_colbuf_free(&c);
}

static void test_dictionary(void)
{
    struct ctr_field plain = { .type = CTR_UTF8 }, encoded = { .type = CTR_UTF8, .dict = true };
    struct ctr_colbuf values, codes, out;
    const int64_t rows[] = { 1, -1, 0, 1 };
    struct ctr_col index = { .type = CTR_UTF8, .rows = 4, .nulls = 0, .data = (const int32_t[]){ 1, 0, 0, 1 } };
    struct ctr_str s;

    if (ctr_colbuf_init(&values, &plain, &err) || ctr_colbuf_init(&codes, &encoded, &err) ||
        ctr_colbuf_init(&out, &plain, &err) || ctr_colbuf_str(&values, "red", 3, &err) ||
        ctr_colbuf_str(&values, "green", 5, &err))
        exit(1);
    index.dict = ctr_colbuf_view(&values);
    ok(!ctr_colbuf_gather(&out, &index, rows, 4, &err) && out.nulls == 1, "gather decodes");
    s = ctr_col_str(ctr_colbuf_view(&out), 2);
    ok(s.n == 5 && !memcmp(s.p, "green", 5), "and picks the right entry");
    ok(!ctr_colbuf_range(&codes, &index, 1, 3, &err) && ctr_colbuf_view(&codes)->dict == index.dict &&
           ctr_col_str(ctr_colbuf_view(&codes), 0).n == 3,
       "an encoded buffer keeps the indices");
    ctr_colbuf_free(&values);
    ctr_colbuf_free(&codes);
    ctr_colbuf_free(&out);
}

static void test_batch_rows(void)
{
    static const struct {
        const char *type;
        int columns;
        int64_t rows;
    } cases[] = { { "float64", 0, 8192 },  { "float64", 16, 8192 },
                  { "float64", 17, 4096 }, { "utf8", 12, 4096 },
                  { "bool", 200, 4096 },   { "list<uint64>", 39, 512 },
                  { "uint64", 4097, 32 },  { "fixed_size_list<float32>[4096]", 1, 64 } };
    for (size_t k = 0; k < CTR_COUNT(cases); k++) {
        struct ctr_schema s = { 0 };
        struct ctr_field f = { 0 };
        int rc = !ctr_type_parse(cases[k].type, strlen(cases[k].type), &f);
        for (int i = 0; !rc && i < cases[k].columns; i++) {
            char name[16];
            snprintf(name, sizeof name, "c%d", i);
            rc = ctr_schema_add_field(&s, &f, name, &err) < 0;
        }
        ok(!rc && ctr_schema_batch_rows(&s) == cases[k].rows, "%d of %s: %lld rows a batch", cases[k].columns,
           cases[k].type, (long long)ctr_schema_batch_rows(&s));
        ok(!ctr_meta_set(&s.meta, CTR_META_SECTION, "emb", &err) && ctr_schema_batch_rows(&s) == CTR_BATCH_ROWS,
           "a section of them keeps to %d", CTR_BATCH_ROWS);
        ctr_schema_free(&s);
    }
}

static void test_equal(void)
{
    struct ctr_schema a = { 0 }, b = { 0 };
    char why[100] = "";

    must(ctr_schema_add(&a, "y", CTR_I8, &err));
    must(ctr_schema_copy(&b, &a, &err));
    ok(ctr_schema_equal(&a, &b, why, sizeof why), "a copy of a schema equals it");
    must(ctr_field_set_role(&b.f[0], CTR_ROLE_LABEL, &err));
    ok(!ctr_schema_equal(&a, &b, why, sizeof why) &&
           strstr(why, "column 'y' is of role none in one and label in the other"),
       "another role: %s", why);
    must(ctr_field_set_role(&a.f[0], CTR_ROLE_LABEL, &err));
    must(ctr_meta_set(&a.f[0].meta, CTR_META_TABLE, "t", &err));
    ok(!ctr_schema_equal(&a, &b, NULL, 0) && ctr_schema_same_types(&a, &b, NULL, 0), "another table, the same types");
    must(ctr_meta_set(&b.f[0].meta, CTR_META_TABLE, "t", &err));
    must(ctr_meta_set(&b.f[0].meta, CTR_META_TOWER_MODEL, "m", &err));
    ok(!ctr_schema_equal(&a, &b, why, sizeof why) && strstr(why, "of model none in one and m in the other"),
       "vectors of another model: %s", why);
    ctr_schema_free(&a);
    ctr_schema_free(&b);
}

/* Weighted keys of one key go by weight; rows that are taken back take their nulls along. */
static void test_weighted(void)
{
    const struct ctr_field f = { .type = CTR_WKEY };
    struct ctr_colbuf b;

    must(ctr_colbuf_init(&b, &f, &err));
    must(ctr_colbuf_wkey(&b, 7, 1, &err));
    must(ctr_colbuf_wkey(&b, 7, 2, &err));
    must(ctr_colbuf_null(&b, &err));
    must(ctr_colbuf_null(&b, &err));
    const struct ctr_col *c = ctr_colbuf_view(&b);
    ok(ctr_col_compare(c, 0, c, 1) < 0 && ctr_col_compare(c, 1, c, 0) > 0 && ctr_col_compare(c, 1, c, 2) < 0,
       "weighted keys are in order of keys, then weights, then nulls");
    ctr_colbuf_rewind(&b, 3);
    c = ctr_colbuf_view(&b);
    ok(c->rows == 3 && c->nulls == 1 && ctr_col_null(c, 2), "a null less");
    ctr_colbuf_rewind(&b, 2);
    c = ctr_colbuf_view(&b);
    ok(c->rows == 2 && !c->nulls && !c->valid, "and none");
    ctr_colbuf_free(&b);
}

static void test_bits(void)
{
    uint8_t bits[32];
    bool same = true;

    for (size_t i = 0; i < sizeof bits; i++)
        bits[i] = (uint8_t)ctr_random64(1, 2, i);
    for (int64_t from = 0; from < 72; from++)
        for (int64_t n = 0; from + n <= 8 * (int64_t)sizeof bits; n++) {
            int64_t ones = 0;
            for (int64_t i = from; i < from + n; i++)
                ones += ctr_bit(bits, i);
            same &= ctr_bits_count(bits, from, n) == ones;
        }
    ok(same, "bits are counted from anywhere to anywhere");
}

int main(void)
{
    static const enum ctr_type scalars[] = { CTR_BOOL, CTR_I8,  CTR_I16, CTR_I32, CTR_I64, CTR_U8,   CTR_U16,
                                             CTR_U32,  CTR_U64, CTR_F16, CTR_F32, CTR_F64, CTR_UTF8, CTR_TIME };

    test_bits();
    test_equal();
    test_weighted();
    test_schema();
    for (size_t i = 0; i < CTR_COUNT(scalars); i++)
        test_column((struct ctr_field){ .type = scalars[i] }, ctr_types[scalars[i]].name);
    test_column((struct ctr_field){ .type = CTR_LIST, .item = CTR_U64 }, "list<uint64>");
    test_dictionary();
    test_batch_rows();
    return done_testing();
}
