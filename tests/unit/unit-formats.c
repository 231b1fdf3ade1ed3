/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-formats: the parsers of jsonl, libsvm, libffm and vw on good and hostile lines. What a line became is looked at
 * as the JSON that export makes of it; a bad row shows as "bad: REASON".
 */
#include "tools/ctr-export/export.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "tap.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ctr_err err;
static char got[1 << 16];
static char path[32], out_path[32]; /* files in memory */
static int in_fd, out_fd;

static int memory_file(char *name, size_t size)
{
    int fd = memfd_create("unit-formats", 0);

    snprintf(name, size, "/dev/fd/%d", fd);
    return fd;
}

static void put_file(const char *p, size_t n)
{
    if (ftruncate(in_fd, 0) || pwrite(in_fd, p, n, 0) != (ssize_t)n || ftruncate(out_fd, 0) ||
        lseek(out_fd, 0, SEEK_SET))
        printf("Bail out! cannot write\n");
}

static int export_rows(struct ctr_import *im, struct ctr_out *out)
{
    struct ctr_export_opts eo = CTR_EXPORT_OPTS;
    struct ctr_export *e = NULL;
    const struct ctr_batch *b;
    int rc = ctr_export_open(&e, ctr_export_find("jsonl"), ctr_import_schema(im), &eo, out, &err);

    while (rc == 0 && (rc = ctr_import_next(im, &b, &err)) > 0)
        rc = ctr_export_batch(e, b, &err);
    if (rc == 0)
        rc = ctr_export_finish(e, &err);
    ctr_export_free(e);
    return rc;
}

/* Import n bytes of text; got[] is the JSON of the rows, or the error. */
static int import_n(struct ctr_text_opts o, const char *format, const char *text, size_t n)
{
    char *paths[] = { path };
    struct ctr_import *im = NULL;
    struct ctr_out *out = NULL;
    struct ctr_import_stats stats = { 0 };
    ssize_t len;
    int rc;

    put_file(text, n);
    memset(&err, 0, sizeof(err));
    o.format = ctr_text_format_find(format);
    o.optional = true; /* few lines lack a path with reason */
    rc = ctr_out_open(&out, out_path, 0, &err);
    if (rc == 0)
        rc = ctr_import_open(&im, &o, paths, 1, &err);
    if (rc == 0)
        rc = export_rows(im, out);
    if (rc == 0)
        rc = ctr_import_finish(im, &err);
    if (im)
        ctr_import_get_stats(im, &stats);
    if (rc == 0)
        rc = ctr_out_commit(out, &err);
    ctr_import_free(im);
    ctr_out_free(out);
    if (rc < 0) {
        snprintf(got, sizeof(got), "%s", err.what);
        return rc;
    }
    len = pread(out_fd, got, sizeof(got) - 1, 0);
    got[CTR_MAX(len, 0)] = 0;
    return (int)stats.bad;
}

static int import(struct ctr_text_opts o, const char *format, const char *text)
{
    return import_n(o, format, text, strlen(text));
}

static int same(const char *want)
{
    if (!strcmp(got, want))
        return 1;
    printf("# got  %s\n# want %s\n", got, want);
    return 0;
}

#define NONE    ((struct ctr_text_opts){ .jobs = 1 })
#define TEXT    ((struct ctr_text_opts){ .jobs = 1, .keys = "text" })
#define KEY     ((struct ctr_text_opts){ .jobs = 1, .keys = "key" })
#define COLS(c) ((struct ctr_text_opts){ .jobs = 1, .columns = (c), .batch_rows = 2 })

/* ---- jsonl ---- */

static void test_jsonl(void)
{
    ok(import(NONE, "jsonl",
              "{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[1,2]}}\n\n{ \"b\" : { \"d\" : [ ] } , \"a\" : 2.5 }\r\n") == 0 &&
           same("{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[1,2]}}\n{\"a\":2.5,\"b\":{\"c\":null,\"d\":[]}}\n"),
       "members, nested objects, lists, blanks, a blank line, CR LF");
    ok(import(COLS("id=user.id:int32,p=items.1.p:float64,all=user,u:utf8"), "jsonl",
              "{\"x\":{\"user\":{\"id\":1}},\"user\":{\"z\":[{}],\"id\":7},\"items\":[{\"p\":1},{\"p\":0.1}],\"u\":12."
              "0}") == 0 &&
           same("{\"id\":7,\"p\":0.1,\"all\":\"{\\\"z\\\":[{}],\\\"id\\\":7}\",\"u\":\"12.0\"}\n"),
       "paths through objects and arrays, a whole object as text, a number as text");
    ok(import(COLS("t:utf8"), "jsonl", "{\"t\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\\u0000\"}") == 0 &&
           same("{\"t\":\"\\\"\\\\/\\b\\f\\n\\r\\t\xc3\xa9\xf0\x9f\x98\x80\\u0000\"}\n"),
       "all escapes, a surrogate pair, NUL");
    ok(import(COLS("key:int8"), "jsonl", "{\"k\\u0065y\":5}") == 0 && same("{\"key\":5}\n"), "an escape in a key");
    ok(import(COLS("a:int8"), "jsonl", "{\"a\":1,\"a\":2}") == 0 && same("{\"a\":2}\n"),
       "the last of a repeated member counts");
    ok(import(COLS("u.i:int8"), "jsonl", "{\"u.i\":1}\n{\"u\":{\"i\":2}}") == 0 &&
           same("{\"u\":{\"i\":1}}\n{\"u\":{\"i\":2}}\n"),
       "a dotted name is a path and a name");
    ok(import(COLS("f:float64,l:list<utf8>,w:list<weighted key>,v:fixed_size_list<float32>[2]"), "jsonl",
              "{\"f\":\"-Infinity\",\"l\":[\"a\\n\",null],\"w\":[{\"key\":18446744073709551615,\"weight\":0.5}],\"v\":["
              "1,2]}") == 0 &&
           same("{\"f\":\"-Infinity\",\"l\":[\"a\\n\",null],\"w\":[{\"key\":18446744073709551615,\"weight\":0.5}],"
                "\"v\":[1,2]}\n"),
       "what export writes comes back");
    ok(import(NONE, "jsonl", "{\"a\":1}\n{\"a\":{\"b\":2}}\n{\"a\":[1]}\n") == 0 &&
           same("{\"a\":\"1\"}\n{\"a\":\"{\\\"b\\\":2}\"}\n{\"a\":\"[1]\"}\n"),
       "now a value, now an object: JSON text");
    ok(import(NONE, "jsonl", "{\"a\":\"NaN\"}\n{\"a\":1}\n{\"a\":null}\n{\"a\":12345678901234567890123}\n") == 0 &&
           same("{\"a\":\"NaN\"}\n{\"a\":\"1\"}\n{\"a\":null}\n{\"a\":\"12345678901234567890123\"}\n"),
       "an integer beyond 64 bits keeps its digits");
    ok(import(NONE, "jsonl", "{\"a\":\"NaN\"}\n{\"a\":1.5}\n") == 0 && same("{\"a\":\"NaN\"}\n{\"a\":1.5}\n"),
       "NaN among numbers is a float");
    ok(import(COLS("l:list<int8>"), "jsonl", "{\"l\":[1,[2]]}") < 0 && strstr(got, "line 1: column l"),
       "a list in a list: %s", got);
    ok(import(NONE, "jsonl", "") < 0 && strstr(got, "--columns"), "an empty input has no columns: %s", got);
    ok(import(COLS("a:int8"), "jsonl", "") == 0 && same(""), "an empty input with columns has no rows");
}

static void test_json_bad(void)
{
    static const struct {
        const char *line, *why;
    } bad[] = {
        { "{\"a\":\"x}", "closing quote" },
        { "{\"a\":\"x\\\"}", "closing quote" },
        { "{\"a\":1", "ends inside" },
        { "{\"a\":", "ends where a value" },
        { "{\"a\"", "no colon" },
        { "{\"a\" 1}", "no colon" },
        { "{a:1}", "no key" },
        { "{\"a\":1,}", "no key" },
        { "{\"a\":1 \"b\":2}", "no comma" },
        { "{\"a\":1}}", "behind the object" },
        { "{\"a\":1} x", "behind the object" },
        { "[{\"a\":1}]", "array where an object" },
        { "nonsense", "no JSON object" },
        { "{\"a\":01}", "neither a number" },
        { "{\"a\":+1}", "neither a number" },
        { "{\"a\":1.}", "neither a number" },
        { "{\"a\":Nan}", "neither a number" },
        { "{\"a\":}", "neither a number" },
        { "{\"a\":truer}", "neither a number" },
        { "{\"z\":[1,2}", "another kind" },
        { "{\"z\":{\"q\":[}}", "another kind" },
        { "{\"z\":[[[", "closing bracket" },
        { "{\"z\\u12\":1}", "broken escape" },
        { "{\"a\":300}", "is not int8" },
        { "{\"a\":[1]}", "is not int8" },
        { "{\"a\":\"\\ud800\"}", "is not int8" },
    };

    for (size_t i = 0; i < CTR_COUNT(bad); i++)
        ok(import(COLS("a:int8"), "jsonl", bad[i].line) < 0 && strstr(got, "line 1: ") && strstr(got, bad[i].why),
           "%s: %s", bad[i].line, got);
    ok(import(COLS("a:utf8"), "jsonl", "{\"a\":\"\\udc00\"}") < 0 &&
           import(COLS("a:utf8"), "jsonl", "{\"a\":\"\\ud800\\u0041\"}") < 0 &&
           import(COLS("a:utf8"), "jsonl", "{\"a\":\"\\x\"}") < 0 &&
           import(COLS("a:utf8"), "jsonl", "{\"a\":\"\\u00g0\"}") < 0,
       "broken escapes in a text");
    ok(import(COLS("a:utf8"), "jsonl", "{\"a\":\"\xff\"}") < 0 && strstr(got, "UTF-8"), "invalid UTF-8: %s", got);
    ok(import_n(COLS("a:utf8"), "jsonl", "{\"a\":\"\0\"}\n", 10) == 0 && same("{\"a\":\"\\u0000\"}\n"),
       "a NUL byte is text");
    ok(import_n(COLS("a:int8"), "jsonl", "{\"a\":\0}\n", 8) < 0, "a NUL byte is no value");
}

/* A million brackets, a long number, a long string: bad rows, or rows, at once. */
static void test_json_big(void)
{
    size_t n = 1000000;
    char *p = malloc(n + 64);
    struct ctr_text_opts skip = COLS("a:int8");

    skip.bad_rows = "skip=10";
    memset(p, '[', n);
    memcpy(p, "{\"z\":", 5);
    ok(import_n(COLS("a:int8"), "jsonl", p, n) < 0 && strstr(got, "too deeply"), "nested a million deep: %s", got);
    memset(p, '9', n);
    memcpy(p, "{\"a\":", 5);
    memcpy(p + n, "}\n{\"a\":1}\n", 10);
    ok(import_n(skip, "jsonl", p, n + 10) == 1 && same("{\"a\":1}\n"), "a number of a million digits is no int8");
    memset(p, 'x', n);
    memcpy(p, "{\"z\":\"", 6);
    memcpy(p + n, "\",\"a\":3}", 8);
    ok(import_n(skip, "jsonl", p, n + 8) == 0 && same("{\"a\":3}\n"), "a text of a million bytes is skipped");
    free(p);
}

/* Every prefix and every single changed byte of a line: never a crash (sanitizers watch), and never two rows. */
static void test_json_mangled(void)
{
    static const char line[] = "{\"a\":-1.5e3,\"b\":{\"c\":[true,\"x\\u00e9\\n\"]},\"z\":[{\"q\":null},[]],\"t\":\"\"}";
    static const char bytes[] = "{}[]\",:\\0u-\n\xff";
    struct ctr_text_opts o = COLS("a:float64,c=b.c:list<utf8>,q=z.0.q,t:utf8");
    char copy[sizeof(line)];
    int bad = 0, rows = 0;

    o.bad_rows = "skip=10";
    for (size_t n = 1; n < sizeof(line) - 1; n++)
        bad += import_n(o, "jsonl", line, n) == 1;
    ok(bad == (int)sizeof(line) - 2, "every proper prefix is a bad row: %d", bad);
    for (size_t i = 0; i < sizeof(line) - 1; i++)
        for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
            memcpy(copy, line, sizeof(line));
            copy[i] = bytes[k];
            rows += import_n(o, "jsonl", copy, sizeof(line) - 1) >= 0;
        }
    ok(rows == (int)((sizeof(line) - 1) * (sizeof(bytes) - 1)), "every changed byte gives a row or a bad row");
}

/* Is a line after others the row, or the bad row, that it is alone? */
static bool same_after(struct ctr_text_opts o, const char *before, const char *line, size_t n)
{
    static char alone[sizeof(got)], first[sizeof(got)];
    char both[1024];
    size_t k = strlen(before);
    int rc, lines = 0, at = 0;

    rc = import_n(o, "jsonl", before, k);
    memcpy(first, got, sizeof(got));
    memcpy(both, before, k);
    memcpy(both + k, line, n);
    if (rc < 0 || k + n > sizeof(both))
        return false;
    rc = import_n(o, "jsonl", line, n);
    memcpy(alone, got, sizeof(got));
    if (import_n(o, "jsonl", both, k + n) != rc)
        return false;
    if (rc >= 0)
        return !strncmp(got, first, strlen(first)) && !strcmp(got + strlen(first), alone);
    for (const char *p = before; *p; p++)
        lines += *p == '\n';
    return sscanf(alone, "line %d%n", &at, &rc) == 1 && strtol(got + 5, NULL, 10) == at + lines &&
           !strcmp(strchr(got, ':'), alone + rc);
}

/* What is remembered of the lines before changes no result: lines in other orders, with members more and fewer, at
 * another depth, with blanks, broken in any byte. */
static void test_json_alike(void)
{
    static const char line[] =
        "{\"a\":1,\"b\":{\"a\":2,\"c\":null},\"a\\u0062\":3, \"t\" : \"x\",\"u\":[{\"a\":4}],\"v\":12345678}";
    static const char *const lines[] = {
        "{}",
        "{\"a\":1}",
        "{\"b\":{\"a\":2}}",
        "{\"b\":{\"c\":\"x\",\"a\":2},\"a\":9}",
        "{\"a\":1,\"t\":\"y\"}",
        "{\"t\":\"y\",\"a\":1,\"a\":2}",
        "{\"ab\":4,\"v\":5,\"a\":6}",
        "{\"u\":[{\"x\":1},{\"a\":5}],\"a\":7}",
        "{\"u\":{\"0\":{\"a\":8}},\"b\":[1]}",
        "{ \"a\":1 , \"b\":{ \"a\" : 2 } }",
        "{\"a\": 1, \"b\": {\"a\": 2}, \"t\": \"x\"}",
        "{\"a\":123456789,\"v\":-0.5e1,\"t\":\"\\n\"}",
        "{\"a very long name of a member, longer than what is remembered\":1,\"a\":2,\"b\":3}",
        "{,\"a\":1}",
        "{\"a\":1\"b\":2}",
        "{\"a\":1,,\"b\":2}",
        "{\"a\":01,\"b\":{\"a\":2}}",
        "{\"a\":1,\"b\":{,\"a\":2}}",
        "{\"a\":1,\"b\":{\"a\":2]}",
        "{\"a\":",
        "{\"a\":\r",
        "{\"a",
    };
    static const char bytes[] = "{}[]\",:\\0u-\n\xff x";
    struct ctr_text_opts o = COLS("a:int64,d=b.a:int64,c=b.c:utf8,b:utf8,ab:int32,t:utf8,i=u.0.a:int8,v:float64");
    char copy[sizeof(line)], before[512];
    int differ = 0;

    snprintf(before, sizeof(before), "%s\n", line);
    for (size_t i = 0; i < sizeof(line) - 1; i++) {
        differ += !same_after(o, before, line, i);
        for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
            memcpy(copy, line, sizeof(line));
            copy[i] = bytes[k];
            differ += !same_after(o, before, copy, sizeof(line) - 1);
        }
    }
    ok(!differ, "a line after its like is what it is alone, cut or changed anywhere: %d differ", differ);
    for (size_t i = 0, k; i < CTR_COUNT(lines); i++)
        for (k = 0; k < CTR_COUNT(lines) && import(o, "jsonl", lines[i]) >= 0; k++) {
            snprintf(before, sizeof(before), "%s\n%s\n%s\n", lines[i], line, lines[i]);
            if (!same_after(o, before, lines[k], strlen(lines[k])) && ++differ)
                printf("# after %s: %s\n", lines[i], lines[k]);
        }
    ok(!differ, "and after any other");
}

/* More members than are remembered, and each line with others. */
static void test_json_many(void)
{
    struct ctr_text_opts o = COLS("m7:int32,m299:int32,m600:int32");
    char *p = malloc(1 << 20), *to = p;
    int lines = 0;

    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 700; k += 1 + (i * 7 + k) % 3)
            to += sprintf(to, "%s\"m%d\":%d", k ? "," : "{", k, k);
        to += sprintf(to, ",\"m7\":%d,\"m299\":1,\"m600\":2}\n", i);
    }
    ok(import_n(o, "jsonl", p, (size_t)(to - p)) == 0, "lines of hundreds of members");
    for (const char *at = got; (at = strstr(at, "\"m299\":1,\"m600\":2}")); at++)
        lines++;
    ok(lines == 40 && strstr(got, "{\"m7\":39,"), "give their values: %d", lines);
    free(p);
}

/* ---- libsvm, libffm, vw ---- */

static void test_libsvm(void)
{
    struct ctr_text_opts binary = KEY, query = KEY;

    binary.binary = true;
    query.role[CTR_ROLE_QUERY] = "qid";
    ok(import(KEY, "libsvm", "+1 qid:3 1:0.5 \t7:2 # note\n# all note\n\n-1 007:1e-3\r\n0") == 0 &&
           same("{\"label\":1,\"qid\":3,\"features\":[{\"key\":1,\"weight\":0.5},{\"key\":7,\"weight\":2}]}\n"
                "{\"label\":-1,\"qid\":null,\"features\":[{\"key\":7,\"weight\":0.001}]}\n"
                "{\"label\":0,\"qid\":null,\"features\":[]}\n"),
       "libsvm: qid, comments, blanks, leading zeros, no features");
    ok(import(TEXT, "libsvm", "1 5:1 18446744073709551615:2\n") == 0 &&
           same("{\"label\":1,\"features\":[\"5\",\"18446744073709551615\"],\"features.weight\":[1,2]}\n"),
       "libsvm: --keys text");
    ok(import(binary, "libsvm", "-1 1:1\n1 2:1\n") == 0 &&
           same("{\"label\":0,\"features\":[{\"key\":1,\"weight\":1}]}\n{\"label\":1,\"features\":[{\"key\":2,"
                "\"weight\":1}]}\n"),
       "libsvm: --binary");
    ok(import(binary, "libsvm", "0 1:1\n") < 0 && strstr(got, "neither -1 nor 1"), "libsvm: %s", got);
    ok(import(query, "libsvm", "1 2:1\n") == 0 && strstr(got, "\"qid\":null"), "libsvm: --query qid makes the column");
    {
        uint64_t key = ctr_feature_key(ctr_table_seed("features"), "7", 1);
        char want[128];
        snprintf(want, sizeof(want), "{\"label\":1,\"features\":[{\"key\":%llu,\"weight\":3}]}\n",
                 (unsigned long long)key);
        ok(import(NONE, "libsvm", "1 07:3\n") == 0 && same(want), "libsvm: the key is the feature key of the index");
    }
}

static void test_ffm_vw(void)
{
    struct ctr_text_opts pick = KEY, text = TEXT;

    ok(import(KEY, "libffm", "1 2:5:0.5 0:9:1 2:6:1\n0 0:1:2\n") == 0 &&
           same("{\"label\":1,\"f0\":[{\"key\":9,\"weight\":1}],\"f2\":[{\"key\":5,\"weight\":0.5},{\"key\":6,"
                "\"weight\":1}]}\n"
                "{\"label\":0,\"f0\":[{\"key\":1,\"weight\":2}],\"f2\":[]}\n"),
       "libffm: a column a field");
    pick.columns = "f2";
    ok(import(pick, "libffm", "1 2:5:0.5 0:9:1\n") == 0 && same("{\"label\":1,\"f2\":[{\"key\":5,\"weight\":0.5}]}\n"),
       "libffm: --columns picks fields");
    ok(import(TEXT, "vw", "1 2 'a b|n x:0.5 y |m:2 z:3 | q\n|n w\n0.5 t|n\n") == 0 && strstr(got, "\"tag\":\"t\"") &&
           strstr(got, "{\"label\":null,\"weight\":1,\"tag\":null,\"n\":"),
       "vw: labels, weights, tags");
    ok(strstr(got, "\"n.weight\":[0.5,1],\"m\":[\"z\"],\"m.weight\":[6],\"_\":[\"q\"]"),
       "vw: the scale of a namespace is multiplied in");
    text.columns = "m";
    ok(import(text, "vw", "1 |n x |label y |m z:-1\n") == 0 && strstr(got, "\"z\"") && !strstr(got, "\"x\""),
       "vw: --columns picks namespaces");
    ok(import(TEXT, "vw", "1 |label y\n") == 0 && strstr(got, "\"ns\":{\"label\":"), "vw: a namespace called label: %s",
       got);
    ok(import(NONE, "vw", "1|f a\n") == 0 && strstr(got, "\"label\":null,\"tag\":\"1\""),
       "vw: a word that touches the bar is a tag");
}

static void test_sparse_bad(void)
{
    static const struct {
        const char *format, *line, *why;
    } bad[] = {
        { "libsvm", "x 1:1", "label" },
        { "libsvm", "nan 1:1", "label" },
        { "libsvm", "1,2 1:1", "label" },
        { "libsvm", "1 a:1", "whole number" },
        { "libsvm", "1 -1:1", "whole number" },
        { "libsvm", "1 1", "index:value" },
        { "libsvm", "1 1:", "finite" },
        { "libsvm", "1 1:x", "finite" },
        { "libsvm", "1 1:inf", "finite" },
        { "libsvm", "1 1:1e99", "finite" },
        { "libsvm", "1 1:1:1", "finite" },
        { "libsvm", "1 qid:x 1:1", "qid" },
        { "libsvm", "1 123456789012345678901:1", "whole number" },
        { "libffm", "1 1:1", "is not index:value" },
        { "libffm", "1 a:1:1", "field:index:value" },
        { "libffm", "1 1:2:x", "finite" },
        { "vw", "1 a", "no bar" },
        { "vw", "x |a", "label" },
        { "vw", "1:2:0.5 |a", "contextual bandits" },
        { "vw", "shared |a", "several lines" },
        { "vw", "1 1 1 |a", "initial" },
        { "vw", "1 -1 |a", "importance" },
        { "vw", "1 x |a", "importance" },
        { "vw", "1 |a :1", "without a name" },
        { "vw", "1 |a b:x", "finite" },
        { "vw", "1 |a b:1:2", "finite" },
        { "vw", "1 |a:x b", "scale" },
        { "vw", "1 |a:1e30 b:1e30", "finite" },
    };

    for (size_t i = 0; i < CTR_COUNT(bad); i++) {
        int rc = import(NONE, bad[i].format, bad[i].line);
        ok(rc < 0 && strstr(got, "line 1: ") && strstr(got, bad[i].why), "%s: %s: %s", bad[i].format, bad[i].line, got);
    }
    ok(import(KEY, "vw", "1 |a b\n") < 0 && strstr(got, "no integer"), "--keys key: %s", got);
    ok(import(TEXT, "vw", "1 |a \xff\n") < 0 && strstr(got, "UTF-8"), "--keys text: %s", got);
    ok(import(NONE, "vw", "1 |a \xff\n") == 0, "a hash takes any bytes");
    ok(import_n(NONE, "vw", "1 |a x\0y |b\0c d\n", 17) < 0, "a NUL byte in the name of a namespace");
}

/* What comes after the first thousand lines: a new field, namespace, qid, importance or tag is a bad row. */
static void test_late(void)
{
    static const struct {
        const char *format, *line, *late, *why;
    } t[] = {
        { "libffm", "1 0:1:1\n", "1 1:1:1\n", "field 1 is not among" },
        { "vw", "1 |a b\n", "1 |c b\n", "namespace 'c' is not" },
        { "libsvm", "1 1:1\n", "1 qid:1 1:1\n", "--query qid" },
        { "vw", "1 |a b\n", "1 2 |a b\n", "--weight weight" },
        { "vw", "1 |a b\n", "1 t|a b\n", "--id tag" },
        { "jsonl", "{\"a\":1}\n", "{\"a\":1.5}\n", "column a" },
    };
    static char text[32768];

    for (size_t i = 0; i < CTR_COUNT(t); i++) {
        text[0] = 0;
        size_t n = strlen(t[i].line);
        for (int k = 0; k < CTR_SAMPLE_ROWS; k++)
            memcpy(text + (size_t)k * n, t[i].line, n + 1);
        memcpy(text + CTR_SAMPLE_ROWS * n, t[i].late, strlen(t[i].late) + 1);
        ok(import(NONE, t[i].format, text) < 0 && strstr(got, "line 1001: ") && strstr(got, t[i].why), "%s: %s",
           t[i].format, got);
    }
}

/* ---- edges, as a table: what was asked for, the text, the rows or (after '!') the error ---- */

static const struct {
    const char *format;
    struct ctr_text_opts o;
    const char *text, *want;
} edges[] = {
    /* values */
    { "csv",
      { .columns = "a:bool" },
      "1\n0\nTRUE\nFalse\n",
      "{\"a\":true}\n{\"a\":false}\n{\"a\":true}\n{\"a\":false}\n" },
    { "csv", { .columns = "a:bool" }, "2\n", "!column a: '2' is not bool" },
    { "csv", { .columns = "a:bool" }, "tree\n", "!column a: 'tree' is not bool" },
    { "csv", { .columns = "a:bool" }, "falsy\n", "!column a: 'falsy' is not bool" },
    { "csv", { .columns = "a:bool" }, "xx\n", "!column a: 'xx' is not bool" },
    { "jsonl", { .columns = "a:uint8" }, "{\"a\":-1}\n", "!column a: '-1' is not uint8" },
    { "jsonl", { .columns = "a:uint8" }, "{\"a\":256}\n", "!column a: '256' is not uint8" },
    { "jsonl", { .columns = "a:int8" }, "{\"a\":-129}\n", "!column a: '-129' is not int8" },
    { "jsonl", { .columns = "a:int8" }, "{\"a\":128}\n", "!column a: '128' is not int8" },
    { "jsonl",
      { .columns = "a:uint64" },
      "{\"a\":18446744073709551615}\n{\"a\":-1}\n",
      "!line 2: column a: '-1' is not uint64" },
    { "jsonl", { .columns = "a:float64" }, "{\"a\":\"x\"}\n", "!column a: 'x' is not float64" },
    { "jsonl", { .columns = "a:float16" }, "{\"a\":0.5}\n{\"a\":\"x\"}\n", "!line 2: column a: 'x' is not float16" },
    { "csv", { .columns = "a" }, "18446744073709551615\n-1\n", "{\"a\":\"18446744073709551615\"}\n{\"a\":\"-1\"}\n" },
    { "csv",
      { .header = true },
      "a\n-1\n18446744073709551615\n",
      "{\"a\":\"-1\"}\n{\"a\":\"18446744073709551615\"}\n" },
    { "csv", { .header = true }, "a\nnan\n", "{\"a\":\"nan\"}\n" },
    { "csv", { .header = true }, "a\nnan\n1\n", "{\"a\":\"NaN\"}\n{\"a\":1}\n" },
    /* lists in cells */
    { "tsv", { .columns = "a:list<int8>" }, "[1,,3]\n[]\n[ 4 ]\n", "{\"a\":[1,null,3]}\n{\"a\":[]}\n{\"a\":[4]}\n" },
    { "tsv", { .columns = "a:list<int8>" }, "1\n", "!column a: '1' is not list<int8>" },
    { "tsv", { .columns = "a:list<int8>" }, "[1\n", "!column a: '[1' is not list<int8>" },
    { "tsv", { .columns = "a:list<int8>" }, "[1,x]\n", "!column a: '[1,x]' is not list<int8>" },
    { "tsv", { .columns = "a:list<int8>" }, "[1 2]\n", "!column a: '[1 2]' is not list<int8>" },
    { "tsv", { .columns = "a:list<int8>" }, "[1] \n", "!column a: '[1] ' is not list<int8>" },
    { "tsv", { .columns = "a:list<int8>" }, "{\"b\":1}\n", "!column a: " },
    { "tsv",
      { .columns = "a:list<utf8>" },
      "[\"a,b\",\"\\u00e9\"]\n[a,,b]\n",
      "{\"a\":[\"a,b\",\"\xc3\xa9\"]}\n{\"a\":[\"a\",\"\",\"b\"]}\n" },
    { "tsv", { .columns = "a:list<utf8>" }, "a\n", "!column a: 'a' is not list<utf8>" },
    { "tsv",
      { .columns = "a:fixed_size_list<float32>[2]" },
      "[1,2]\n[1]\n",
      "!line 2: column a: '[1]' is not fixed_size_list<float32>[2]" },
    { "tsv", { .columns = "a:fixed_size_list<float32>[2]" }, "[1,2]\n[\"1\", 2, 3]\n", "!line 2: column a: " },
    { "tsv",
      { .columns = "a:list<weighted key>" },
      "[1:0.5,7:2]\n[{\"key\":3,\"weight\":1.5},{\"key\":4}]\n[null]\n",
      "{\"a\":[{\"key\":1,\"weight\":0.5},{\"key\":7,\"weight\":2}]}\n{\"a\":[{\"key\":3,\"weight\":1.5},{\"key\":4,"
      "\"weight\":1}]}\n{\"a\":[null]}\n" },
    { "tsv", { .columns = "a:list<weighted key>" }, "[1]\n", "!column a: '[1]' is not list<weighted key>" },
    { "tsv", { .columns = "a:list<weighted key>" }, "[1:x]\n", "!column a: '[1:x]' is not" },
    { "tsv", { .columns = "a:list<weighted key>" }, "[x:1]\n", "!column a: '[x:1]' is not" },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"weight\":1}]}\n", "!column a: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"key\":1,\"wait\":1}]}\n", "!column a: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"key\":1,\"weighs\":1}]}\n", "!column a: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"kex\":1}]}\n", "!column a: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"key\":1,\"weight\":\"x\"}]}\n", "!column a: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"key\":1 \"weight\":2}]}\n", "!column a: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"key\" 1}]}\n", "!line 1: " },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[{\"key\":}]}\n", "!line 1: " },
    { "jsonl", { .columns = "a:list<int8>" }, "{\"a\":[1,\x01]}\n", "!line 1: " },
    { "jsonl", { .columns = "a:list<int8>" }, "{\"a\":\"[1]\"}\n", "!column a: '[1]' is not list<int8>" },
    { "jsonl", { .columns = "a:list<int8>" }, "{\"a\":[1 2]}\n", "!column a: '[1 2]' is not list<int8>" },
    { "jsonl", { .columns = "a:list<int8>" }, "{\"a\":[[1]]}\n", "!column a: '[[1]]' is not list<int8>" },
    { "jsonl", { .columns = "a:list<int8>" }, "{\"a\":[{}]}\n", "!column a: '[{}]' is not list<int8>" },
    { "jsonl",
      { .columns = "a:fixed_size_list<int8>[2]" },
      "{\"a\":[1,2]}\n{\"a\":[1]}\n",
      "!line 2: column a: '[1]' is not" },
    { "jsonl", { .columns = "a:list<weighted key>" }, "{\"a\":[7]}\n", "!column a: '[7]' is not" },
    /* messages show what is no text of a terminal in another way */
    { "libsvm", { 0 }, "1\x1b[1m 1:1\n", "!the label $'1\\x1b[1m' is no finite number" },
    { "libsvm", { 0 }, "1 x:\xc3\n", "!the index of $'x:\\xc3' is no whole number" },
    { "vw", { 0 }, "1 |a b:\x7f\n", "!the value of $'b:\\x7f' is no finite number" },
    /* escapes of JSON */
    { "jsonl",
      { .columns = "t" },
      "{\"t\":\"\\u20ac\\u0041\\u07ff\\uffff\"}\n",
      "{\"t\":\"\xe2\x82\xac\x41\xdf\xbf\xef\xbf\xbf\"}\n" },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\ud800\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\udc00\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\ud800xxxxxx\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\ud800\\nxxxxx\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\ud800\\ud800\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\ud800\\ue000\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\ud800\\uxxxx\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\q\"}\n", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\", "!line 1: " },
    { "jsonl", { .columns = "t" }, "{\"t\":\"\\u12", "!line 1: " },
    { "jsonl",
      { .columns = "t:float64" },
      "{\"t\":\"NaN\"}\n{\"t\":\"Infinity\"}\n{\"t\":\"-Infinity\"}\n",
      "{\"t\":\"NaN\"}\n{\"t\":\"Infinity\"}\n{\"t\":\"-Infinity\"}\n" },
    { "jsonl",
      { 0 },
      "{\"t\":1}\n{\"t\":\"NaN\"}\n{\"t\":\"Infinity\"}\n{\"t\":\"-Infinity\"}\n",
      "{\"t\":1}\n{\"t\":\"NaN\"}\n{\"t\":\"Infinity\"}\n{\"t\":\"-Infinity\"}\n" },
    { "jsonl",
      { 0 },
      "{\"t\":1}\n{\"t\":\"nan\"}\n{\"t\":\"infinity\"}\n{\"t\":\"-infinity\"}\n",
      "{\"t\":\"1\"}\n{\"t\":\"nan\"}\n{\"t\":\"infinity\"}\n{\"t\":\"-infinity\"}\n" },
    { "jsonl",
      { 0 },
      "{\"t\":[1,\"a\"],\"u\":[1,{}],\"v\":[1],\"w\":{}}\n{\"v\":2,\"w\":1}\n",
      "{\"t\":[\"1\",\"a\"],\"u\":\"[1,{}]\",\"v\":\"[1]\",\"w\":\"{}\"}\n{\"t\":null,\"u\":null,\"v\":\"2\",\"w\":"
      "\"1\"}\n" },
    { "jsonl",
      { .columns = "p=a.-1,q=a.+1,r=a.01" },
      "{\"a\":{\"-1\":1,\"+1\":2,\"01\":3}}\n",
      "{\"p\":1,\"q\":2,\"r\":3}\n" },
    { "jsonl", { .columns = "p=a.0,q=a.5" }, "{\"a\":[7,8]}\n", "{\"p\":7,\"q\":null}\n" },
    /* --columns */
    { "csv", { .columns = "" }, "1\n", "!--columns" },
    { "csv", { .columns = "a," }, "1\n", "!--columns: '' is not NAME[=SOURCE][:TYPE]" },
    { "csv", { .columns = "a:" }, "1\n", "!--columns: 'a:' is not NAME[=SOURCE][:TYPE]" },
    { "csv", { .columns = "a=" }, "1\n", "!--columns: 'a=' is not NAME[=SOURCE][:TYPE]" },
    { "csv", { .columns = "=a" }, "1\n", "!--columns: '=a' is not NAME[=SOURCE][:TYPE]" },
    { "csv", { .columns = "``" }, "1\n", "!--columns: '``' is not NAME[=SOURCE][:TYPE]" },
    { "csv", { .columns = "`" }, "1\n", "{\"`\":1}\n" },
    { "csv", { .columns = "`a:b`:int8" }, "1\n", "{\"a:b\":1}\n" },
    { "csv", { .columns = "a]>:int8" }, "1\n", "{\"a]>\":1}\n" },
    { "csv", { .columns = "a[1..2]" }, "1,2\n", "{\"a1\":1,\"a2\":2}\n" },
    { "csv", { .columns = "a[09..11]" }, "1,2,3\n", "{\"a09\":1,\"a10\":2,\"a11\":3}\n" },
    { "csv", { .columns = "`a-b=`[1..2]:int8" }, "1,2\n", "{\"a-b=1\":1,\"a-b=2\":2}\n" },
    { "csv", { .columns = "`a[1..2]`" }, "1\n", "{\"a[1..2]\":1}\n" },
    { "csv", { .columns = "`a`b" }, "1\n", "{\"`a`b\":1}\n" },
    { "csv", { .header = true, .columns = "x[1..2]=`a b`[0..1]" }, "a b0,a b1\n1,2\n", "{\"x1\":1,\"x2\":2}\n" },
    { "csv", { .columns = "``[1..2]" }, "1\n", "!--columns: '``[1..2]' is not NAME" },
    { "csv", { .columns = "a[2..1]" }, "1\n", "!--columns: 'a[2..1]' is not NAME" },
    { "csv", { .columns = "a[-1..1]" }, "1\n", "!--columns: 'a[-1..1]' is not NAME" },
    { "csv", { .columns = "[1..2]" }, "1\n", "!--columns: '[1..2]' is not NAME" },
    { "csv", { .columns = "a[1..2" }, "1\n", "{\"a[1..2\":1}\n" },
    { "csv", { .columns = "a[1..x]" }, "1\n", "{\"a[1..x]\":1}\n" },
    { "csv", { .columns = "a[x..1]" }, "1\n", "{\"a[x..1]\":1}\n" },
    { "csv", { .columns = "a[1]" }, "1\n", "{\"a[1]\":1}\n" },
    { "csv", { .columns = "a[0..9999999]" }, "1\n", "!are more than 10000 columns" },
    { "csv", { .header = true, .columns = "x[1..2]=a[0..1]" }, "a0,a1\n1,2\n", "{\"x1\":1,\"x2\":2}\n" },
    { "csv", { .header = true, .columns = "x[1..2]=a[0..2]" }, "a0,a1\n1,2\n", "!is not NAME[=SOURCE]" },
    { "csv", { .header = true, .columns = "x[1..2]=a" }, "a0,a1\n1,2\n", "!is not NAME[=SOURCE]" },
    { "csv", { .header = true, .columns = "x=a=b" }, "a0,a1\n1,2\n", "!" },
    { "csv", { .header = true, .columns = "x,y,z" }, "a,b\n1,2\n", "!--columns names 3 columns, the header has 2" },
    { "csv", { .header = true, .columns = "x=a,y=a" }, "a,b\n1,2\n", "!column 'a' of the input stands there twice" },
    { "csv", { .columns = "a:timestamp[ms]" }, "1970-01-01\n", "{\"a\":\"1970-01-01T00:00:00Z\"}\n" },
    { "csv", { .columns = "a:timestamp[ms, UTC]" }, "1970-01-01\n", "{\"a\":\"1970-01-01T00:00:00Z\"}\n" },
    { "csv",
      { .columns = "a:timestamp[us]" },
      "1970-01-01\n",
      "!--columns: 'us' is no form of a time; there are unix," },
    { "csv", { .columns = "a:int46" }, "1\n", "!'int46' is no type, the nearest is int16" },
    { "csv", { .columns = "a:polygon_of_many_sides" }, "1\n", "!'polygon_of_many_sides' is no type; int64" },
    { "csv",
      { .columns = "a:int8", .role[CTR_ROLE_TIME] = "a:unix" },
      "1\n",
      "!--columns types a as int8; a time format wants timestamp" },
    { "csv",
      { .columns = "a:timestamp", .role[CTR_ROLE_TIME] = "a:unix" },
      "1\n",
      "{\"a\":\"1970-01-01T00:00:01Z\"}\n" },
    { "csv", { .columns = "a", .role[CTR_ROLE_TIME] = "b:unix" }, "1\n", "!--time: " },
    /* lines of csv */
    { "csv", { 0 }, "\"a\"b\n", "!line 1: a quote does not enclose a whole cell" },
    { "csv", { 0 }, "\"a\"\rb\n", "!line 1: a quote does not enclose a whole cell" },
    { "csv", { 0 }, "\"a\n", "!a quote does not enclose a whole cell" },
    { "csv", { .columns = "a,b" }, "\"a\"b,1\n", "!a quote does not enclose a whole cell" },
    { "csv",
      { .header = true },
      "a,\xff\n1,2\n",
      "!line 1: the name of column 2 is not UTF-8; --encoding latin1 may settle it" },
    { "csv", { .header = true }, "a,\"b\"c\n1,2\n", "!a quote does not enclose a whole cell" },
    { "csv", { .delimiter = "" }, "1\n", "!delimiter" },
    { "csv", { .delimiter = "12345678901234567" }, "1\n", "!delimiter" },
    { "csv", { .delimiter = "\n" }, "1\n", "!delimiter" },
    { "csv", { .delimiter = "\r" }, "1\n", "!delimiter" },
    { "csv", { .delimiter = "\"" }, "1\n", "!delimiter" },
    { "csv", { .delimiter = "\xff" }, "1\n", "!delimiter" },
    { "csv",
      { .delimiter = "::" },
      "1:\"x\":::2\n\"a\"\"b\"::3\n",
      "{\"c1\":\"1:\\\"x\\\"\",\"c2\":\":2\"}\n{\"c1\":\"\\\"a\\\"\\\"b\\\"\",\"c2\":\"3\"}\n" },
    { "csv", { .delimiter = "::" }, "\"a\":\n", "{\"c1\":\"\\\"a\\\":\"}\n" },
    { "csv", { .columns = "a,b", .bad_rows = "skip=1" }, "\"a\"\r\n\"b\",1\r\n", "{\"a\":\"b\",\"b\":1}\n" },
    { "csv", { .bad_rows = "fail" }, "1\n", "{\"c1\":1}\n" },
    { "csv", { .bad_rows = "skip=-1" }, "1\n", "!--bad-rows wants fail, skip=MAX or quarantine=FILE" },
    { "csv", { .bad_rows = "skip=x" }, "1\n", "!--bad-rows wants" },
    { "csv", { .bad_rows = "quarantine=" }, "1\n", "!--bad-rows wants" },
    { "csv", { .bad_rows = "quarantine=-" }, "1\n", "!--bad-rows wants" },
    { "csv", { .bad_rows = "quarantine=/nowhere/x" }, "1\n", "!/nowhere/x: a file cannot be made there" },
    { "csv",
      { .columns = "a:int8", .bad_rows = "fail" },
      "\x7f\x01"
      "1234567890123456789012345678901234567\xc3\xa9z\n",
      "!column a: $'\\x7f\\x011234567890123456789012345678901234567…' is not int8" },
    { "csv",
      { .columns = "a:int8" },
      "12345678901234567890123456789012345678\xc3\xa9\xc3\xa9\n",
      "!'12345678901234567890123456789012345678\xc3\xa9…' is not int8" },
    { "csv",
      { .columns = "a:int8" },
      "123456789012345678901234567890123456789\xc3\xa9\xc3\xa9\n",
      "!'123456789012345678901234567890123456789…' is not int8" },
    { "csv",
      { .columns = "a:int8" },
      "1234567890123456789012345678\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\n",
      "!'1234567890123456789012345678\\x80" },
    { "csv", { .columns = "a:timestamp" }, "1\n", "!column a: '1' is no time in the form ISO 8601" },
    { "csv", { .columns = "a:int8" }, "true\n", "!'true' is not int8; --columns a:utf8" },
    { "csv", { .columns = "a:int8" }, "200\n", "!'200' is not int8; --columns a:int64" },
    { "csv", { .columns = "a:int64" }, "99999999999999999999\n", "!--columns a:utf8" },
    /* sparse formats */
    { "libsvm", { .keys = "words" }, "1 1:1\n", "!--keys words: hash, key and text are possible" },
    { "libsvm", { .binary = true }, "0.5 1:1\n", "!the label '0.5' is neither -1 nor 1 as --binary says" },
    { "libsvm", { .binary = true }, "0 1:1\n", "!as --binary says; where labels are 0 and 1, leave it out" },
    { "libsvm",
      { 0 },
      "x123456789012345678901234567890123456789012345 1:1\n",
      "!the label 'x123456789012345678901234567890123456789…' is no finite number" },
    { "libsvm",
      { .binary = true },
      "2222222222222222222222222222222222222222222 1:1\n",
      "!the label '2222222222222222222222222222222222222222…' is" },
    { "libsvm", { 0 }, "1 qid:1234567890123456789012345678901234567890123 1:1\n", "!is no integer qid" },
    { "libsvm", { 0 }, "1 12345678901234567890123456789012345678901234567\n", "!is not index:value" },
    { "libsvm", { 0 }, "1 12345678901234567890123456789012345678901234567:1\n", "!is no whole number" },
    { "libsvm", { 0 }, "1 1:12345678901234567890123456789012345678901234x\n", "!is no finite number" },
    { "libsvm", { .keys = "key" }, "1 18446744073709551616:1\n", "!no integer below 2^64 as --keys key wants" },
    { "libffm", { 0 }, "1 12345678901234567890123456789012345678901234567\n", "!is not field:index:value" },
    { "libffm", { .columns = "f1:int8" }, "1 1:1:1\n", "!the fields of libffm are f0, f1" },
    { "libffm", { .columns = "f1=f2" }, "1 1:1:1\n", "!the fields of libffm are f0, f1" },
    { "libffm", { .columns = "g1" }, "1 1:1:1\n", "!the fields of libffm are f0, f1" },
    { "libffm", { .columns = "fx" }, "1 1:1:1\n", "!the fields of libffm are f0, f1" },
    { "libffm", { .columns = "f01" }, "1 1:1:1\n", "!the fields of libffm are f0, f1" },
    { "libffm",
      { .columns = "f0,f2", .keys = "text" },
      "1 1:9:1 0:7:1\n",
      "{\"label\":1,\"f0\":[\"7\"],\"f0.weight\":[1],\"f2\":[],\"f2.weight\":[]}\n" },
    { "libffm",
      { .columns = "f1", .role[CTR_ROLE_LABEL] = "label" },
      "1 1:9:1\n",
      "{\"label\":1,\"f1\":[{\"key\":2775686371071240870,\"weight\":1}]}\n" },
    { "vw", { .columns = "a:int8" }, "1 |a b\n", "!" },
    { "vw", { .columns = "a=b" }, "1 |a b\n", "!" },
    { "vw", { .columns = "_", .keys = "text" }, "1 | b\n", "{\"label\":1,\"_\":[\"b\"],\"_.weight\":[1]}\n" },
    { "vw",
      { .columns = "ns.tag", .keys = "text" },
      "1 |tag b\n",
      "{\"label\":1,\"ns\":{\"tag\":[\"b\"]},\"ns.tag.weight\":[1]}\n" },
    { "vw",
      { .columns = "ns.x", .keys = "text" },
      "1 |ns.x b\n",
      "{\"label\":1,\"ns\":{\"x\":[\"b\"]},\"ns.x.weight\":[1]}\n" },
    { "vw",
      { .role[CTR_ROLE_WEIGHT] = "weight", .keys = "text" },
      "1 |a b\n1 2 |a b\n",
      "{\"label\":1,\"weight\":1,\"a\":[\"b\"],\"a.weight\":[1]}\n{\"label\":1,\"weight\":2,\"a\":[\"b\"],\"a.weight\":"
      "[1]}\n" },
    { "vw", { .role[CTR_ROLE_WEIGHT] = "importance" }, "1 |a b\n", "!--weight" },
    { "vw",
      { .role[CTR_ROLE_ID] = "tag", .keys = "text" },
      "1 |a b\n1 t|a b\n",
      "{\"label\":1,\"tag\":null,\"a\":[\"b\"],\"a.weight\":[1]}\n{\"label\":1,\"tag\":\"t\",\"a\":[\"b\"],\"a."
      "weight\":[1]}\n" },
    { "vw", { .role[CTR_ROLE_ID] = "name" }, "1 |a b\n", "!--id" },
    { "vw", { 0 }, "1,2 |a b\n", "!" },
    { "vw", { 0 }, "1:2 |a b\n", "!" },
    { "vw", { 0 }, "x12345678901234567890123456789012345678901234 |a b\n", "!is no" },
    { "vw", { 0 }, "1 x12345678901234567890123456789012345678901234 t|a b\n", "!" },
    { "vw", { 0 }, "1 2 3 4 |a b\n", "!" },
    { "vw",
      { 0 },
      "1 |a b12345678901234567890123456789012345678901234:x\n",
      "!the value of 'b12345678901234567890123456789012345678" },
    { "vw", { 0 }, "1 |a12345678901234567890123456789012345678901234:x b\n", "!" },
    { "vw", { .keys = "text" }, "1 |a \xff\n", "!a feature is not UTF-8" },
    { "vw", { .columns = "a" }, "1 |a b |c\xff d\n", "{\"label\":1," },
};

static void test_edges(void)
{
    for (size_t i = 0; i < CTR_COUNT(edges); i++) {
        struct ctr_text_opts o = edges[i].o;
        const char *want = edges[i].want;
        bool bad = *want == '!';
        o.jobs = 1;
        int rc = import(o, edges[i].format, edges[i].text);
        bool good = bad ? rc < 0 && strstr(got, want + 1) : rc >= 0 && !strncmp(got, want, strlen(want));
        ok(good, "%s, edge %zu: %.60s: %.*s", edges[i].format, i, edges[i].o.columns ? edges[i].o.columns : "",
           (int)strcspn(got, "\n"), got);
        if (!good)
            printf("# %s\n# got  %s\n# want %s\n", edges[i].text, got, want);
    }
}

/* --like: the columns of another stream, as they are there. */
static void test_like(void)
{
    static const struct {
        const char *format, *columns, *keys, *text, *want; /* columns NAME:TYPE of that stream */
    } cases[] = {
        { "csv", "a:int8,b", NULL, "1,x\n", "{\"a\":1,\"b\":\"x\"}\n" },
        { "csv", "a:int8,b", NULL, "1\n", "!line 1 has 1 column, --like names 2" },
        { "jsonl", "b,a:int8", NULL, "{\"a\":1,\"c\":2}\n", "{\"b\":null,\"a\":1}\n" },
        { "vw", "label:float32,a:list<weighted key>", NULL, "1 |a b\n", "{\"label\":1,\"a\":[{\"key\":" },
        { "vw", "a:list<weighted key>", NULL, "1 |a b\n", "{\"a\":[{\"key\":" },
        { "vw", "a:list<utf8>", NULL, "1 |a b\n", "!--like: column a holds texts; --keys text makes such" },
        { "vw", "a:list<weighted key>", "text", "1 |a b\n",
          "!--like: column a holds no texts; --keys hash makes such" },
        { "vw", "label:int8,a:list<weighted key>", NULL, "1 |a b\n",
          "!--like: column label is int8 there and float32 here" },
        { "vw", "a:list<int8>", NULL, "1 |a b\n", "!--like: column a is list<int8> there" },
        { "vw", "nothing:int8", NULL, "1 |a b\n", "!" },
        { "libffm", "f1:list<utf8>,f1.weight:list<float32>", "text", "1 1:2:3\n",
          "{\"f1\":[\"2\"],\"f1.weight\":[3]}\n" },
        { "libffm", "f1:list<utf8>", "text", "1 1:2:3\n", "{\"f1\":[\"2\"]}\n" },
        { "vw", "label:float32,weight:float32,tag,a:list<weighted key>", NULL, "1 2 t|a b\n",
          "{\"label\":1,\"weight\":2,\"tag\":\"t\",\"a\":[{\"key\":" },
        { "vw", "a:list<weighted key>", NULL, "1 2 t|a b |c d\n1 |c d\n", "{\"a\":[{\"key\":" },
        { "vw", "a:list<weighted key>", "hash", " |a b\n", "{\"a\":[{\"key\":" },
    };
    for (size_t i = 0; i < CTR_COUNT(cases); i++) {
        struct ctr_schema like = { 0 };
        struct ctr_text_opts o = { .like = &like, .keys = cases[i].keys, .jobs = 1 };
        char copy[128], *save = NULL;
        const char *want = cases[i].want;
        snprintf(copy, sizeof copy, "%s", cases[i].columns);
        for (char *c = strtok_r(copy, ",", &save); c; c = strtok_r(NULL, ",", &save)) {
            char *colon = strchr(c, ':');
            struct ctr_field f = { .type = CTR_UTF8 };
            if (colon && (*colon = 0, !ctr_type_parse(colon + 1, strlen(colon + 1), &f)))
                printf("Bail out! %s\n", colon + 1);
            if (ctr_schema_add_field(&like, &f, c, &err))
                printf("Bail out! %s\n", err.what);
        }
        int rc = import(o, cases[i].format, cases[i].text);
        bool good = *want == '!' ? rc < 0 && strstr(got, want + 1) : rc >= 0 && !strncmp(got, want, strlen(want));
        ok(good, "%s --like %s: %.*s", cases[i].format, cases[i].columns, (int)strcspn(got, "\n"), got);
        ctr_schema_free(&like);
    }
}

static void test_mangled(void)
{
    static const struct {
        const char *format, *line;
    } t[] = { { "libsvm", "+1 qid:3 1:0.5 7:2 # note" },
              { "libffm", "1 2:5:0.5 0:9:1" },
              { "vw", "1 0.5 'tag |a:2 b:3 c |d e" } };
    static const char bytes[] = "|: \t'#\n\r0-.eq\xff";
    char copy[64];
    int done = 0, want = 0;

    for (size_t f = 0; f < CTR_COUNT(t); f++)
        for (size_t i = 0; i < strlen(t[f].line); i++)
            for (size_t k = 0; k < sizeof(bytes); k++) { /* with the NUL byte */
                struct ctr_text_opts o = TEXT;
                o.bad_rows = "skip=10";
                memcpy(copy, t[f].line, strlen(t[f].line));
                copy[i] = bytes[k];
                done += import_n(o, t[f].format, copy, strlen(t[f].line)) >= 0;
                want++;
            }
    ok(done == want, "every changed byte gives rows or bad rows: %d of %d", done, want);
}

int main(void)
{
    in_fd = memory_file(path, sizeof(path));
    out_fd = memory_file(out_path, sizeof(out_path));
    test_jsonl();
    test_json_bad();
    test_json_big();
    test_json_mangled();
    test_json_alike();
    test_json_many();
    test_libsvm();
    test_ffm_vw();
    test_sparse_bad();
    test_late();
    test_mangled();
    test_edges();
    test_like();
    ok(ctr_text_format_find("vw") && !ctr_text_format_find("xls") &&
           ctr_text_format_guess("a/b.tsv.gz") == &ctr_text_tsv && !ctr_text_format_guess("csv") &&
           !ctr_text_format_guess("a.xls.gz"),
       "formats by name and by suffix");
    return done_testing();
}
