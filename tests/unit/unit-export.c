/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-export: the export formats on batches made here: escaping, quoting, nulls, lists, refusals; the same bytes for
 * any number of threads.
 */
#include "tools/ctr-export/export.h"
#include "common/text/text.h"
#include "tap.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ctr_err err;
static char got[1 << 20];
static size_t got_n;

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

static struct ctr_field *add(struct ctr_schema *s, const char *name, const char *type)
{
    struct ctr_field *f;
    must(ctr_schema_add(s, name, CTR_I64, &err));
    f = &s->f[s->n - 1];
    if (!ctr_type_parse(type, strlen(type), f))
        printf("Bail out! type %s\n", type);
    return f;
}

/* Export `b` as `format`; the text is in got[]. */
static int export(const char *format, const struct ctr_batch *b, const struct ctr_export_opts *o)
{
    char path[] = "/tmp/unit-export.XXXXXX";
    struct ctr_out *out = NULL;
    struct ctr_export *e = NULL;
    int fd = mkstemp(path), rc;
    FILE *f;

    close(fd);
    got_n = 0;
    memset(&err, 0, sizeof(err));
    must(ctr_out_open(&out, path, 0, &err));
    rc = ctr_export_open(&e, ctr_export_find(format), b->schema, o, out, &err);
    if (rc == 0)
        rc = ctr_export_batch(e, b, &err);
    if (rc == 0)
        rc = ctr_export_finish(e, &err);
    if (rc == 0)
        rc = ctr_out_commit(out, &err);
    ctr_export_free(e);
    ctr_out_free(out);
    f = fopen(path, "rb");
    got_n = fread(got, 1, sizeof(got) - 1, f);
    got[got_n] = 0;
    fclose(f);
    unlink(path);
    return rc;
}

static int same(const char *want)
{
    if (got_n == strlen(want) && !memcmp(got, want, got_n))
        return 1;
    printf("# got  %s\n# want %s\n# err  %s\n", got, want, err.what);
    return 0;
}

static void test_text(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_export_opts o = CTR_EXPORT_OPTS;
    static const char *const text[] = { "plain", "a,b", "say \"hi\"", "two\nlines",  " blank",
                                        "",      NULL,  "tab\there",  "\xc3\xa9\x01" };

    add(&s, "t", "utf8");
    add(&s, "user.id", "int32");
    add(&s, "x", "float64");
    add(&s, "user.ok", "bool");
    must(ctr_batchbuf_init(&b, &s, &err));
    for (size_t i = 0; i < CTR_COUNT(text); i++) {
        if (text[i])
            must(ctr_colbuf_str(&b.col[0], text[i], strlen(text[i]), &err));
        else
            must(ctr_colbuf_null(&b.col[0], &err));
        must(ctr_colbuf_i64(&b.col[1], (int64_t)i - 1, &err));
        must(ctr_colbuf_f64(&b.col[2], i == 1 ? NAN : i == 2 ? -INFINITY : i == 3 ? 0.1 : 4, &err));
        if (i == 0)
            must(ctr_colbuf_null(&b.col[3], &err));
        else
            must(ctr_colbuf_i64(&b.col[3], i & 1, &err));
    }
    ok(export("csv", ctr_batchbuf_view(&b), &o) == 0 &&
           same("t,user.id,x,user.ok\nplain,-1,4,\n\"a,b\",0,nan,true\n\"say \"\"hi\"\"\",1,-inf,false\n"
                "\"two\nlines\",2,0.1,true\n\" blank\",3,4,false\n\"\",4,4,true\n,5,4,false\ntab\there,6,4,true\n"
                "\xc3\xa9\x01,7,4,false\n"),
       "csv: quotes only where they are needed, a null is not an empty text");
    ok(export("jsonl", ctr_batchbuf_view(&b), &o) == 0 &&
           same("{\"t\":\"plain\",\"user\":{\"id\":-1,\"ok\":null},\"x\":4}\n"
                "{\"t\":\"a,b\",\"user\":{\"id\":0,\"ok\":true},\"x\":\"NaN\"}\n"
                "{\"t\":\"say \\\"hi\\\"\",\"user\":{\"id\":1,\"ok\":false},\"x\":\"-Infinity\"}\n"
                "{\"t\":\"two\\nlines\",\"user\":{\"id\":2,\"ok\":true},\"x\":0.1}\n"
                "{\"t\":\" blank\",\"user\":{\"id\":3,\"ok\":false},\"x\":4}\n"
                "{\"t\":\"\",\"user\":{\"id\":4,\"ok\":true},\"x\":4}\n"
                "{\"t\":null,\"user\":{\"id\":5,\"ok\":false},\"x\":4}\n"
                "{\"t\":\"tab\\there\",\"user\":{\"id\":6,\"ok\":true},\"x\":4}\n"
                "{\"t\":\"\xc3\xa9\\u0001\",\"user\":{\"id\":7,\"ok\":false},\"x\":4}\n"),
       "jsonl: escapes, nested names, NaN");
    ok(export("tsv", ctr_batchbuf_view(&b), &o) == CTR_EDATA && strstr(err.what, "row 4: column t"),
       "tsv: a line end in a cell is refused: %s", err.what);
    o.flat = o.no_header = true;
    o.delimiter = "::";
    ok(export("csv", ctr_batchbuf_view(&b), &o) == CTR_EDATA && strstr(err.what, "row 4: column t"),
       "csv: before a delimiter of two bytes too: %s", err.what);
    o.delimiter = ";";
    o.null_text = "\\N";
    ok(export("csv", ctr_batchbuf_view(&b), &o) == 0 && strstr(got, "\n;4;4;true\n\\N;5;4;false\n"),
       "csv: --delimiter, --null; an empty text then needs no quotes");
    ok(export("jsonl", ctr_batchbuf_view(&b), &o) == 0 && strstr(got, "{\"t\":\"plain\",\"user.id\":-1,"),
       "jsonl: --flat");
    add(&s, "user", "int32");
    o.flat = false;
    {
        struct ctr_batchbuf c;
        must(ctr_batchbuf_init(&c, &s, &err));
        for (int k = 0; k < s.n; k++)
            must(ctr_colbuf_null(&c.col[k], &err));
        ok(export("jsonl", ctr_batchbuf_view(&c), &o) == 0 &&
               same("{\"t\":null,\"user.id\":null,\"x\":null,\"user.ok\":null,\"user\":null}\n"),
           "jsonl: beside a column user, user.id keeps its dot");
        o.delimiter = "\n";
        ok(export("csv", ctr_batchbuf_view(&c), &o) == CTR_EUSAGE, "csv: a line end is no delimiter");
        ctr_batchbuf_free(&c);
    }
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

static void test_lists(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_export_opts o = CTR_EXPORT_OPTS;

    add(&s, "l", "list<utf8>");
    add(&s, "k", "list<weighted key>");
    add(&s, "v", "fixed_size_list<float32>[2]");
    add(&s, "t", "timestamp");
    must(ctr_batchbuf_init(&b, &s, &err));
    must(ctr_colbuf_str(b.col[0].item, "a\"", 2, &err));
    must(ctr_colbuf_null(b.col[0].item, &err));
    must(ctr_colbuf_close(&b.col[0], &err));
    must(ctr_colbuf_wkey(b.col[1].item, UINT64_MAX, 0.5f, &err));
    must(ctr_colbuf_close(&b.col[1], &err));
    must(ctr_colbuf_f64(b.col[2].item, 1, &err));
    must(ctr_colbuf_f64(b.col[2].item, 0.1f, &err));
    must(ctr_colbuf_close(&b.col[2], &err));
    must(ctr_colbuf_i64(&b.col[3], 1500, &err));
    for (int k = 0; k < 4; k++)
        must(ctr_colbuf_null(&b.col[k], &err));
    ok(export("jsonl", ctr_batchbuf_view(&b), &o) == 0 &&
           same("{\"l\":[\"a\\\"\",null],\"k\":[{\"key\":18446744073709551615,\"weight\":0.5}],\"v\":[1,0.1],"
                "\"t\":\"1970-01-01T00:00:01.500Z\"}\n{\"l\":null,\"k\":null,\"v\":null,\"t\":null}\n"),
       "jsonl: lists and times");
    ok(export("tsv", ctr_batchbuf_view(&b), &o) == 0 &&
           same("l\tk\tv\tt\n[\"a\\\"\",null]\t[{\"key\":18446744073709551615,\"weight\":0.5}]\t[1,0.1]\t"
                "1970-01-01T00:00:01.500Z\n\t\t\t\n"),
       "tsv: lists are JSON");
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

static void test_sparse(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_export_opts o = CTR_EXPORT_OPTS;

    add(&s, "label", "float32");
    add(&s, "w", "float32");
    add(&s, "q", "int64");
    must(ctr_field_set_role(add(&s, "f3", "list<weighted key>"), CTR_ROLE_FEATURE, &err));
    must(ctr_field_set_role(add(&s, "f1", "uint64"), CTR_ROLE_FEATURE, &err));
    must(ctr_field_set_role(add(&s, "f7", "float64"), CTR_ROLE_DENSE, &err));
    add(&s, "note", "utf8");
    must(ctr_batchbuf_init(&b, &s, &err));
    for (int i = 0; i < 2; i++) {
        must(ctr_colbuf_f64(&b.col[0], i, &err));
        must(ctr_colbuf_f64(&b.col[1], 0.5 + i, &err));
        must(ctr_colbuf_i64(&b.col[2], 9 + i, &err));
        if (i == 0) {
            must(ctr_colbuf_wkey(b.col[3].item, 70, 0.25f, &err));
            must(ctr_colbuf_wkey(b.col[3].item, 12, 2, &err));
            must(ctr_colbuf_wkey(b.col[3].item, 70, 0.5f, &err));
        }
        must(ctr_colbuf_close(&b.col[3], &err));
        must(ctr_colbuf_i64(&b.col[4], 40, &err));
        if (i == 0)
            must(ctr_colbuf_f64(&b.col[5], 0.1, &err));
        else
            must(ctr_colbuf_null(&b.col[5], &err));
        must(ctr_colbuf_str(&b.col[6], "x", 1, &err));
    }
    o.role[CTR_ROLE_LABEL] = 0;
    o.role[CTR_ROLE_WEIGHT] = 1;
    o.role[CTR_ROLE_QUERY] = 2;
    ok(export("libsvm", ctr_batchbuf_view(&b), &o) == 0 && same("0 qid:9 1:0.1 12:2 40:1 70:0.75\n1 qid:10 40:1\n"),
       "libsvm: sorted, repeated indices summed");
    ok(export("libffm", ctr_batchbuf_view(&b), &o) == 0 &&
           same("0 3:70:0.25 3:12:2 3:70:0.5 1:40:1 7:1:0.1\n1 1:40:1\n"),
       "libffm: columns called f<number> keep their number");
    ok(export("vw", ctr_batchbuf_view(&b), &o) == 0 &&
           same("0 0.5 |f3 70:0.25 12:2 70:0.5 |f1 40 |dense f7:0.1\n1 1.5 |f1 40\n"),
       "vw: importance, namespaces");
    o.bits = 4;
    ok(export("libsvm", ctr_batchbuf_view(&b), &o) == 0 && same("0 qid:9 1:0.1 8:0.75 10:1 14:2\n1 qid:10 10:1\n"),
       "libsvm: --bits folds behind the dense indices");
    o.role[CTR_ROLE_LABEL] = -1;
    ok(export("libsvm", ctr_batchbuf_view(&b), &o) == CTR_EUSAGE && strstr(err.what, "--label"),
       "libsvm needs a label");
    must(ctr_colbuf_null(&b.col[0], &err));
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

/* What an import does not make: roles of columns that have no form, a qid that is no integer, no importance. */
static void test_roles(void)
{
    static const struct {
        const char *what, *format, *type;
        enum ctr_role role;
        const char *want;
    } cases[] = {
        { "a feature that is no number", "libsvm", "list<float64>", CTR_ROLE_FEATURE,
          "!x: list<float64> has no form in libsvm" },
        { "numbers of the role dense alone", "libsvm", "int32", CTR_ROLE_DENSE, "1 1:7\n" },
        { "a qid of floats", "libsvm", "float32", CTR_ROLE_QUERY, "!column x: an integer is wanted as qid" },
        { "importance of texts", "vw", "utf8", CTR_ROLE_WEIGHT, "!column x: a number is wanted as importance weight" },
        { "importance that is null", "vw", "float32", CTR_ROLE_WEIGHT, "1 |k 3\n" },
    };
    for (size_t i = 0; i < CTR_COUNT(cases); i++) {
        struct ctr_schema s = { 0 };
        struct ctr_batchbuf b;
        struct ctr_export_opts o = CTR_EXPORT_OPTS;
        const bool feature = cases[i].role == CTR_ROLE_FEATURE || cases[i].role == CTR_ROLE_DENSE;
        add(&s, "y", "int8");
        struct ctr_field *x = add(&s, "x", cases[i].type);
        if (feature)
            must(ctr_field_set_role(x, cases[i].role, &err));
        else
            must(ctr_field_set_role(add(&s, "k", "uint64"), CTR_ROLE_FEATURE, &err));
        must(ctr_batchbuf_init(&b, &s, &err));
        must(ctr_colbuf_i64(&b.col[0], 1, &err));
        must(cases[i].role == CTR_ROLE_DENSE ? ctr_colbuf_i64(&b.col[1], 7, &err) : ctr_colbuf_null(&b.col[1], &err));
        if (!feature)
            must(ctr_colbuf_i64(&b.col[2], 3, &err));
        o.role[CTR_ROLE_LABEL] = 0;
        if (!feature)
            o.role[cases[i].role] = 1;
        const char *want = cases[i].want;
        const int rc = export(cases[i].format, ctr_batchbuf_view(&b), &o);
        ok(*want == '!' ? rc == CTR_EUSAGE && strstr(err.what, want + 1) : rc == 0 && same(want), "%s: %s%s",
           cases[i].format, cases[i].what, *want == '!' ? ", refused" : "");
        ctr_batchbuf_free(&b);
        ctr_schema_free(&s);
    }
}

static void test_npy(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_export_opts o = CTR_EXPORT_OPTS;
    char spilled[256];
    size_t n;

    add(&s, "a", "int8");
    add(&s, "b", "float32");
    must(ctr_batchbuf_init(&b, &s, &err));
    for (int i = 0; i < 3; i++) {
        must(ctr_colbuf_i64(&b.col[0], i - 1, &err));
        must(ctr_colbuf_f64(&b.col[1], 0.5 * i, &err));
    }
    ok(export("npy", ctr_batchbuf_view(&b), &o) == 0 && got_n == 128 + 3 * 2 * 4 &&
           strstr(got + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }") && got[127] == '\n',
       "npy: a header of 128 bytes, then the rows");
    memcpy(spilled, got, n = got_n);
    o.total_rows = 3;
    ok(export("npy", ctr_batchbuf_view(&b), &o) == 0 && got_n == n && !memcmp(got, spilled, n),
       "npy: the same bytes when the rows are known beforehand");
    o.total_rows = 4;
    ok(export("npy", ctr_batchbuf_view(&b), &o) == CTR_EDATA, "npy: fewer rows than announced: %s", err.what);
    o.total_rows = -1;
    must(ctr_colbuf_i64(&b.col[0], 1, &err));
    must(ctr_colbuf_null(&b.col[1], &err));
    ok(export("npy", ctr_batchbuf_view(&b), &o) == 0, "npy: a null float is NaN");
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    add(&s, "a", "int64");
    must(ctr_batchbuf_init(&b, &s, &err));
    must(ctr_colbuf_null(&b.col[0], &err));
    ok(export("npy", ctr_batchbuf_view(&b), &o) == CTR_EDATA && strstr(err.what, "row 1: column a"),
       "npy: no null integers");
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    for (int wide = 0; wide < 2; wide++) {
        add(&s, "a", wide ? "float64" : "float32");
        add(&s, "b", wide ? "float32" : "float64");
        must(ctr_batchbuf_init(&b, &s, &err));
        ok(export("npy", ctr_batchbuf_view(&b), &o) == 0 && strstr(got + 10, "{'descr': '<f8',"),
           "npy: the wider of two floats, whichever comes first");
        ctr_batchbuf_free(&b);
        ctr_schema_free(&s);
    }
}

static void test_threads(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_export_opts o = CTR_EXPORT_OPTS;
    static char one[1 << 20];
    size_t n;

    add(&s, "a", "float64");
    must(ctr_batchbuf_init(&b, &s, &err));
    for (int i = 0; i < 20000; i++)
        must(ctr_colbuf_f64(&b.col[0], (double)ctr_random01(1, 2, (uint64_t)i), &err));
    must(export("csv", ctr_batchbuf_view(&b), &o));
    memcpy(one, got, n = got_n);
    o.threads = 4;
    must(export("csv", ctr_batchbuf_view(&b), &o));
    ok(n == got_n && n > 300000 && !memcmp(one, got, n), "four threads write the same bytes as one");
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

/* ---- what is refused, left out or seldom, as a table: columns and rows of csv, a role, the text or (after '!') the
 * error
 * ----------------------------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *format, *columns, *rows, *label, *query, *want;
    struct ctr_export_opts o;
} edges[] = {
    { "jsonl",
      "a.b.c:int8,a.b.d:int8,a.e:int8,ax:int8",
      "1,2,3,4\n",
      0,
      0,
      "{\"a\":{\"b\":{\"c\":1,\"d\":2},\"e\":3},\"ax\":4}\n",
      { 0 } },
    { "jsonl", ".a:int8,a.:int8,b..c:int8", "1,2,3\n", 0, 0, "{\".a\":1,\"a.\":2,\"b..c\":3}\n", { 0 } },
    { "jsonl",
      "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a:int8",
      "1\n",
      0,
      0,
      "{\"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a\":1}\n",
      { 0 } },
    { "jsonl",
      "a:float32,b:float16,c:uint8,d:uint16,e:uint32,f:int16",
      "inf,-inf,1,2,3,4\n",
      0,
      0,
      "{\"a\":\"Infinity\",\"b\":\"-Infinity\",\"c\":1,\"d\":2,\"e\":3,\"f\":4}\n",
      { 0 } },
    { "tsv",
      "`a\tb`",
      "1\n",
      0,
      0,
      "!the name of column 1 holds a delimiter or a line end: rename it, or use --format csv",
      { 0 } },
    { "csv",
      "a,b",
      "NA,1\n,2\n x,3\nx ,NB\n",
      0,
      0,
      "a,b\n\"NA\",1\nNA,2\n\" x\",3\n\"x \",NB\n",
      { .null_text = "NA" } },
    { "csv", "a", "\"\"\nx\n", 0, 0, "a\n\"\"\nx\n", { 0 } },
    { "jsonl", "a.x:int8,ab.y:int8", "1,2\n", 0, 0, "{\"a\":{\"x\":1},\"ab\":{\"y\":2}}\n", { 0 } },
    { "jsonl", "a.x:int8,ab.y:int8", "1,2\n", 0, 0, "{\"a.x\":1,\"ab.y\":2}\n", { .flat = true } },
    { "npy", "a:int64,b:float64", "9007199254740993,1\n", 0, 0, "!no exact float64", { 0 } },
    { "npy", "a:uint64,b:float64", "9007199254740993,1\n", 0, 0, "!no exact float64", { 0 } },
    { "npy", "a:list<int64>", "\"[1]\"\n", 0, 0, "!no numeric column", { 0 } },
    /* sparse formats */
    { "libsvm", "y:int8,q:float32,n:int8", "1,2,3\n", "y", "q", "!column q: an integer is wanted as qid", { 0 } },
    { "libsvm", "y:int8,t:timestamp,n:int8", "1,2019-11-14,3\n", "y", 0, "1 1:3\n", { 0 } },
    { "libsvm", "y:int8,t:list<utf8>,t.weight:list<float32>", "1,\"[\"\"a b\"\"]\",[1]\n", "y", 0, "!", { 0 } },
    { "libsvm", "y:int8,t:list<utf8>,t.weight:float32", "1,\"[]\",1\n", "y", 0, "1 1:1\n", { 0 } },
    { "libsvm",
      "y:int8,t:list<utf8>,t.weight:list<float32>,n:int8",
      "1,[a],[1],2\n",
      "y",
      0,
      "!texts and numbers have no common indices in libsvm",
      { 0 } },
    { "libsvm", "y:int8,t:list<utf8>,n:int8,u", "1,[a],2,x\n", "y", 0, "1 1:2\n", { 0 } },
    { "libsvm",
      "y:int8,l:list<int8>",
      "1,[1]\n",
      "y",
      0,
      "!no features: no column has the role feature or dense",
      { 0 } },
    { "libsvm", "y,n:int8", "x,1\n", "y", 0, "!column y: a number is wanted as label", { 0 } },
    { "libsvm", "y:bool,n:int8,q:float32", "1,1,1\n", "y", "q", "!column q: an integer is wanted as qid", { 0 } },
    { "libsvm", "y:bool,n:int8,q:int32,t:timestamp", "1,7,3,\n", "y", "q", "1 qid:3 1:7\n", { 0 } },
    { "libsvm", "y:bool,n:int8", "1,1\n", "y", 0, "!", { .bits = 63 } },
    { "libsvm", "y:bool,n:int8", "1,1\n", "y", 0, "!", { .bits = -1 } },
    { "libsvm",
      "y:int8,t:list<utf8>,t.weight:list<float32>",
      "1,\"[a,b]\",[1]\n",
      "y",
      0,
      "!row 1: column t.weight: its list is not as long as that of the texts",
      { 0 } },
    { "vw",
      "y:int8,t:list<utf8>,t.weight:list<float32>",
      "1,\"[a,b]\",\"[1,2]\"\n0,,\n",
      "y",
      0,
      "1 |t a b:2\n0 |\n",
      { 0 } },
    { "vw",
      "y:int8,t.weight:list<float32>,t:list<int8>,u.weight:list<int8>,u:list<utf8>,v,v.weight:list<float32>",
      "1,[1],[2],[3],[a],x,[1]\n",
      "y",
      0,
      "1 |u a\n",
      { 0 } },
    { "vw", "y:int8,t:list<utf8>,tx:list<float32>", "1,[a],[2]\n", "y", 0, "1 |t a\n", { 0 } },
    { "vw", "y:int8,t:list<utf8>", "1,\"[\"\"a\"\",null]\"\n", "y", 0, "1 |t a\n", { 0 } },
    { "vw",
      "y:int8,t:list<utf8>,t.weight:list<float32>",
      "1,\"[\"\"a\"\",null]\",\"[1,2]\"\n",
      "y",
      0,
      "!row 1: column t: an empty text, or one with a blank, a bar or a colon, is no index",
      { 0 } },
    { "vw",
      "y:int8,`a b`:list<utf8>",
      "1,[a]\n",
      "y",
      0,
      "!column a b: a namespace of vw has no blanks, bars and colons",
      { 0 } },
    { "vw", "y:int8,`a:b`:list<utf8>", "1,[a]\n", "y", 0, "!column a:b: a namespace of vw", { 0 } },
    { "vw",
      "y:int8,ns.label:list<utf8>,ns.weight:list<utf8>,ns.tag:list<utf8>,ns.x:list<utf8>,_:list<utf8>",
      "1,[a],[b],[c],[d],[e]\n",
      "y",
      0,
      "1 |label a |weight b |tag c |ns.x d | e\n",
      { 0 } },
    { "vw",
      "y:int8,n:float64,m:float32,v:fixed_size_list<float32>[2]",
      "1,0.1,1,\"[1,2]\"\n",
      "y",
      0,
      "1 |dense n:0.1 m |v 0 1:2\n",
      { 0 } },
    { "libffm", "y:int8,f1:int8,f7:int8", "1,2,3\n", "y", 0, "1 1:1:2 7:2:3\n", { 0 } },
    { "libffm", "y:int8,f1:int8,f07:int8", "1,2,3\n", "y", 0, "1 0:1:2 1:2:3\n", { 0 } },
    { "libffm", "y:int8,f+1:int8", "1,2\n", "y", 0, "1 0:1:2\n", { 0 } },
    { "libffm", "y:int8,f0:int8", "1,2\n", "y", 0, "1 0:1:2\n", { 0 } },
    { "libffm", "y:int8,g1:int8", "1,2\n", "y", 0, "1 0:1:2\n", { 0 } },
    { "libffm", "y:int8,fx:int8", "1,2\n", "y", 0, "1 0:1:2\n", { 0 } },
};

static int export_rows(const char *format, const char *columns, const char *rows, const char *label, const char *query,
                       struct ctr_export_opts o)
{
    struct ctr_text_opts in = { .format = &ctr_text_csv, .columns = columns, .jobs = 1 };
    char path[] = "/tmp/unit-export.XXXXXX", *paths[] = { path };
    struct ctr_import *im = NULL;
    const struct ctr_batch *b;
    int fd = mkstemp(path), rc = write(fd, rows, strlen(rows)) < 0 ? -1 : 0;
    close(fd);
    in.role[CTR_ROLE_LABEL] = label;
    in.role[CTR_ROLE_QUERY] = query;
    o.threads = 1;
    o.total_rows = -1;
    if (!rc)
        rc = ctr_import_open(&im, &in, paths, 1, &err);
    unlink(path);
    for (int r = 0; r < CTR_NROLES && !rc; r++)
        o.role[r] = ctr_schema_role(ctr_import_schema(im), (enum ctr_role)r);
    if (!rc && (rc = ctr_import_next(im, &b, &err)) > 0)
        rc = export(format, b, &o);
    ctr_import_free(im);
    return rc;
}

static void test_edges(void)
{
    for (size_t i = 0; i < CTR_COUNT(edges); i++) {
        const char *want = edges[i].want;
        got[0] = 0;
        int rc =
            export_rows(edges[i].format, edges[i].columns, edges[i].rows, edges[i].label, edges[i].query, edges[i].o);
        bool good = *want == '!' ? rc < 0 && strstr(err.what, want + 1) : rc == 0 && !strcmp(got, want);
        ok(good, "%s of %.60s", edges[i].format, edges[i].columns);
        if (!good)
            printf("# got  %s\n# err  %s\n# want %s\n", got, err.what, want);
    }
}

/* Encoded columns come out as their values; a stream may have no columns at all. */
static void test_encoded(void)
{
    static const struct {
        const char *format, *want;
    } cases[] = {
        { "csv", "n,w\n8,a\n,\n" },
        { "jsonl", "{\"n\":8,\"w\":\"a\"}\n{\"n\":null,\"w\":null}\n" },
    };
    const int32_t index[2] = { 1, 0 }, from[] = { 0, 1, 2 };
    const int64_t values[2] = { 7, 8 };
    const uint8_t first = 1;
    const struct ctr_col dict[2] = { { .type = CTR_I64, .rows = 2, .data = values },
                                     { .type = CTR_UTF8, .rows = 2, .data = "ba", .offsets = from } };
    struct ctr_col col[2];
    struct ctr_schema s = { 0 };
    struct ctr_export_opts o = CTR_EXPORT_OPTS;
    add(&s, "n", "int64")->dict = true;
    add(&s, "w", "utf8")->dict = true;
    for (int k = 0; k < 2; k++)
        col[k] = (struct ctr_col){
            .type = dict[k].type, .rows = 2, .nulls = 1, .valid = &first, .data = index, .dict = &dict[k]
        };
    const struct ctr_batch b = { .schema = &s, .rows = 2, .col = col };
    for (size_t i = 0; i < CTR_COUNT(cases); i++)
        ok(export(cases[i].format, &b, &o) == 0 && same(cases[i].want), "%s: encoded columns", cases[i].format);
    must(ctr_field_set_role(&s.f[0], CTR_ROLE_FEATURE, &err));
    must(ctr_field_set_role(&s.f[1], CTR_ROLE_FEATURE, &err));
    ok(export("vw", &b, &o) == 0 && same("|dense n:8 |w a\n|\n"), "vw: encoded features");
    ctr_schema_free(&s);
    const struct ctr_batch none = { .schema = &s, .rows = 2 };
    ok(export("jsonl", &none, &o) == 0 && same("{}\n{}\n"), "jsonl: rows without columns");
}

/* Arrays of columns of two types, of lists with nulls, of encoded columns, and of more rows than are copied at once. */
static void test_arrays(void)
{
    enum { ROWS = 150000 };
    const int32_t place[2] = { 1, 0 };
    const double values[4] = { 7, 8, 9, 10 };
    const uint8_t three = 7, bits = 2;
    const struct ctr_col dict = { .type = CTR_F64, .rows = 2, .data = values };
    const struct ctr_col items = { .type = CTR_F64, .rows = 4, .nulls = 1, .valid = &three, .data = values };
    const struct ctr_col col[] = { { .type = CTR_FIXED, .rows = 2, .item = &items },
                                   { .type = CTR_F64, .rows = 2, .data = place, .dict = &dict },
                                   { .type = CTR_I32, .rows = 2, .data = place },
                                   { .type = CTR_BOOL, .rows = 2, .data = &bits } };
    struct ctr_schema s = { 0 };
    struct ctr_export_opts o = CTR_EXPORT_OPTS;
    add(&s, "pair", "fixed_size_list<float64>[2]");
    add(&s, "coded", "float64")->dict = true;
    add(&s, "i", "int32");
    add(&s, "yes", "bool");
    const struct ctr_batch b = { .schema = &s, .rows = 2, .col = col };
    double v[10];
    ok(export("npy", &b, &o) == 0 && got_n >= sizeof v, "npy of all kinds %s", err.what);
    memcpy(v, got + got_n - sizeof v, sizeof v);
    ok(v[0] == 7 && v[1] == 8 && v[2] == 8 && v[3] == 1 && v[4] == 0 && v[5] == 9 && isnan(v[6]) && v[7] == 7 &&
           v[8] == 0 && v[9] == 1,
       "a null item is NaN, an encoded value itself");
    ctr_schema_free(&s);
    add(&s, "d", "float64");
    add(&s, "f", "float32");
    double *d = calloc(ROWS + 8, sizeof *d);
    float *f = calloc(ROWS + 8, sizeof *f);
    const struct ctr_col many[] = { { .type = CTR_F64, .rows = ROWS, .data = d },
                                    { .type = CTR_F32, .rows = ROWS, .data = f } };
    const struct ctr_batch large = { .schema = &s, .rows = ROWS, .col = many };
    o.total_rows = -1;
    ok(export("npy", &large, &o) == 0 && got_n == sizeof got - 1, "2.4 MB through a file between %s", err.what);
    free(d);
    free(f);
    ctr_schema_free(&s);
}

int main(void)
{
    test_arrays();
    ok(!ctr_export_find("xls") && ctr_export_find("vw"), "the table");
    test_text();
    test_lists();
    test_sparse();
    test_roles();
    test_npy();
    test_threads();
    test_edges();
    test_encoded();
    return done_testing();
}
