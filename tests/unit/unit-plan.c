/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan language: what is accepted and what it becomes, each error with its place, identity, and valid plans with
 * random damage, which must be refused or bound but never crash (run it with SAN=1). */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/plan/plan.h"
#include "common/rows/select.h"
#include "tap.h"

static struct ctr_schema input;

static void add(const char *name, enum ctr_type type, enum ctr_type item)
{
    struct ctr_err err = { 0 };
    if (ctr_schema_add(&input, name, type, &err) < 0)
        exit(1);
    input.f[input.n - 1].item = item;
}

static void make_input(void)
{
    add("user_id", CTR_I32, 0);
    add("movie_id", CTR_I64, 0);
    add("rating", CTR_I8, 0);
    add("genres", CTR_UTF8, 0);
    add("age", CTR_I16, 0);
    add("time", CTR_TIME, 0);
    add("price", CTR_F64, 0);
    add("hist", CTR_LIST, CTR_I32);
    add("odd name", CTR_UTF8, 0);
    add("C1", CTR_UTF8, 0);
    add("C2", CTR_UTF8, 0);
    add("C03", CTR_UTF8, 0);
    add("wkeys", CTR_LIST, CTR_WKEY);
    add("key", CTR_U64, 0);
}

/* ---- plans that bind, and the names and types of what they write; or (after "!") how the error begins ---- */

static const struct {
    const char *plan, *outputs;
} good[] = {
    { "label y = rating >= 4", "y:uint8:label" },
    { "label y = price / 10.0", "y:float64:label" },
    { "feature user_id", "user_id:uint64:feature" },
    { "feature u in people = user_id", "u:uint64:feature" },
    { "feature past in item = hist", "past:list<uint64>:feature" },
    { "image i = movie_id", "i:uint64:image" },
    { "dense price, # no list of names here\n", NULL },
    { "dense price", "price:float32:dense" },
    { "dense d = hist", "d:list<float32>:dense" },
    { "weight price", "price:float64:weight" },
    { "user user_id\nfeature u = user_id", "user_id:int32:user u:uint64:feature" },
    { "keep age, t = time - 14d, `odd name`", "age:int16:- t:timestamp:- odd name:utf8:-" },
    { "x = lower(genres)\nfeature x", "x:uint64:feature" },
    { "x = lower(genres)\nkeep x", "x:utf8:-" },
    { "genres = lower(genres)\nkeep genres", "genres:utf8:-" },
    { "feature C[1..2]", "C1:uint64:feature C2:uint64:feature" },
    { "feature X[1..2] = lower(C[1..2])", "X1:uint64:feature X2:uint64:feature" },
    { "keep C[01..03] = genres", "C01:utf8:- C02:utf8:- C03:utf8:-" },
    { "keep x = lower(\n  genres # a comment\n)", "x:utf8:-" },
    { "keep x = 1 + 2 * 3 == 7 and not false", "x:bool:-" },
    { "keep x = -(1)", "x:int64:-" },
    { "keep x = [1, 2.5]", "x:list<float64>:-" },
    { "keep x = \"a\\tb\\\"\\u00e9\\x41\"", "x:utf8:-" },
    { "keep x = ts\"2019-11-14T00:00Z\" - 1h", "x:timestamp:-" },
    { "keep x = 18446744073709551615", "x:uint64:-" },
    { "keep x = -9223372036854775808", "x:int64:-" },
    { "\xef\xbb\xbf# a mark and CRLF\r\nkeep age\r\n", "age:int16:-" },
    { "keep x = if(rating > 3, 1, null)", "x:int64:-" },
    { "label = rating\nkeep label", "label:int8:-" },
    { "keep x = not rating > 3 or age > 2", "x:bool:-" },
    { "feature a = cross(genres, age, hist)", "a:list<uint64>:feature" },
    { "feature a = vocab(lower(genres), min=2)", "a:uint64:feature" },
    { "feature a = vocab(genres, min=2)\nfeature b = vocab(genres, max=2)\nfeature c = vocab(genres, min=2)",
      "a:uint64:feature b:uint64:feature c:uint64:feature" },
    { "keep a = cross(genres, 18446744073709551615), b = cross(genres, -1)", "a:uint64:- b:uint64:-" },
    { "keep a = 18446744073709551615, b = -1", "a:uint64:- b:int64:-" },
    { "keep a = concat(genres, \"\"), b = concat(genres, \"\"), c = concat(genres, \"x\")",
      "a:utf8:- b:utf8:- c:utf8:-" },
    { "keep a = bucket(price, [1, 2.5]), b = bucket(price, [1, 2.5]), c = bucket(price, [1, 3.5])",
      "a:int64:- b:int64:- c:int64:-" },
    { "keep a = []", "!p:1:10: an empty list has no type" },
    { "keep a = [18446744073709551615, 1]", "a:list<uint64>:-" },
    { "keep a = [1.5, 9223372036854775808]", "a:list<float64>:-" },
    { "keep a = [1.5, 18446744073709551615]", "!p:1:16: the list has a float, and no float is this integer" },
    { "keep a = [9007199254740993, 1.5]", "!p:1:11: the list has a float, and no float is this integer" },
    { "label y = key", "y:uint8:label" },
    { "label y = rating > 1", "y:uint8:label" },
    { "feature key\nimage i = key", "key:uint64:feature i:uint64:image" },
    { "keep X[1..2] = C[1..2], a = C[1..2]", "!p:1:25: a is defined already, on line 1" },
    { "keep a = if(rating > 3, [1, 2], null)", "!p:1:10: if wants an integer, a number, text, bool, a time, a" },
    { "keep a = cross(genres, [1, 2]), b = cross(genres, [1, 2])", "a:list<uint64>:- b:list<uint64>:-" },
    { "keep a = -18446744073709551615", "!p:1:10: the integer does not fit 64 bits" },
    { "keep a = -9223372036854775809", "!p:1:10: the integer does not fit 64 bits" },
    { "keep C[00000000000000000000001..2] = age", "C000000000000000001:int16:- C000000000000000002:int16:-" },
    { "keep C[0..1] = age", "C0:int16:- C1:int16:-" },
    { "keep `a\\x00b` = 1", "!p:1:6: a name cannot hold a zero byte" },
    { "keep `a\x7f\\x01b`", "!p:1:6: there is no column $'a\\x7f\\x01b'" },
    { "keep a_name_that_is_longer_than_a_message_shows[1..2] = another_name_that_is_longer_than_it_shows[1..3]",
      "!p:1:57: another_name_that_is_longer_than_it_show differs f" },
    { "keep X[0..65535] = age\nkeep y = age", "!p:2:6: more than 65536 definitions" },
    { "keep X[0..65535] = age + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1", "!p:1:1: the plan grows too large here" },
    { "keep a = [null]", "!p:1:11: a list cannot hold null" },
    { "keep a = [[1]]", "!p:1:11: a list cannot hold a list" },
    { "keep a = [1, [2]]", "!p:1:14: a list cannot hold a list" },
    { "keep a = [-1, 18446744073709551615]", "!p:1:11: the list mixes a negative integer with one of 2^63 o" },
    { "keep a = [18446744073709551615, -1]", "!p:1:33: the list mixes a negative integer with one of 2^63 o" },
    { "keep a = [1, \"a\"]", "!p:1:14: the items of a list are of one type" },
    { "keep a = [\"a\", 1]", "!p:1:16: the items of a list are of one type" },
    { "keep a = [1, age]", "!p:1:14: a list holds literals only" },
    { "keep a = [x=1]", "!p:1:13: a list holds literals only" },
    { "keep `` = 1", "!p:1:6: the name is empty" },
    { "keep a = \"\\ud800\"", "!p:1:11: unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and" },
    { "keep a = \"\\udfff\"", "!p:1:11: unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and" },
    { "keep a = \"\\ue000\\u12\"", "!p:1:17: unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and" },
    { "keep a = \"\\xzz\"", "!p:1:11: unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and" },
    { "keep a = \"\\q\"", "!p:1:11: unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and" },
    { "keep a = \"\\", "!p:1:11: unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and" },
    { "label y = genres", "!p:1:7: a label is a condition or a number from 0 to 1; this " },
    { "label y = hist", "!p:1:7: a label is a condition or a number from 0 to 1; this " },
    { "weight w = genres", "!p:1:8: a weight is a number of 0 or more; this is utf8" },
    { "weight w = hist", "!p:1:8: a weight is a number of 0 or more; this is list<int32" },
    { "feature wkeys", "!p:1:9: weighted keys cannot be made into a feature" },
    { "feature a = wkeys", "!p:1:9: weighted keys cannot be made into a feature" },
    { "keep X[1..2] = concat(C[1..2], C[2..3])", "!p:1:32: C[2..3] differs from X[1..2]; all ranges of a line a" },
    { "keep X[1..2] = concat(C[1..2], C[1..3])", "!p:1:32: C[1..3] differs from X[1..2]; all ranges of a line a" },
    { "keep a[0..70000] = genres", "!p:1:7: the range repeats the line more than 65536 times" },
    { "keep a = -\"x\"", "!p:1:10: neg wants an integer, a number, a duration as its fi" },
    { "keep a = -(1h)", "a:int64:-" },
    { "keep a = not 1", "!p:1:10: not wants bool as its first argument, got int64: x !" },
    { "keep a = vocab(\"x\")", "a:utf8:-" },
    { "feature a = cross(vocab(genres, min=2), vocab(genres, min=3))", "a:uint64:feature" },
};

static void describe(const struct ctr_schema *s, char *out, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < s->n && n < size; i++) {
        char type[64];
        int role = ctr_field_role(&s->f[i]);
        n += (size_t)snprintf(out + n, size - n, "%s%s:%s:%s", i ? " " : "", s->f[i].name,
                              ctr_field_type_name(&s->f[i], type, sizeof type), role < 0 ? "-" : ctr_roles[role]);
    }
}

/* Binds the text; returns the code. `out` gets the outputs or the error. */
static int bind(const char *text, size_t n, char *out, size_t size)
{
    struct ctr_err err = { 0 };
    struct ctr_plan *p = NULL;
    struct ctr_program *g = NULL;
    int rc = ctr_plan_parse(&p, "p", text, n, &err);
    if (rc == 0)
        rc = ctr_program_bind(&g, p, &input, &err);
    if (rc == 0)
        describe(ctr_program_output(g), out, size);
    else
        snprintf(out, size, "%s: %s", err.file, err.what);
    ctr_program_free(g);
    ctr_plan_free(p);
    return rc;
}

static void test_good(void)
{
    char got[1400];
    for (size_t i = 0; i < CTR_COUNT(good); i++) {
        int rc = bind(good[i].plan, strlen(good[i].plan), got, sizeof got);
        if (good[i].outputs)
            ok(good[i].outputs[0] == '!'
                   ? rc == CTR_EUSAGE && !strncmp(got, good[i].outputs + 1, strlen(good[i].outputs) - 1)
                   : rc == 0 && strcmp(got, good[i].outputs) == 0,
               "plan %zu writes %s (%s)", i, good[i].outputs, got);
        else
            ok(rc == CTR_EUSAGE, "plan %zu is refused (%s)", i, got);
    }
}

/* ---- plans that don't, and what is said ---- */

static const struct {
    const char *plan, *error; /* the error begins with it */
} bad[] = {
    { "", "p: the plan defines nothing" },
    { "# only a comment\n", "p: the plan defines nothing" },
    { "x = age", "p: the plan writes no column" },
    { "feature `hist[1..3]`",
      "p:1:9: there is no column 'hist[1..3]'; a range stands behind the back quotes: `hist`[1..3]" },
    { "genres = vocab(genres)\nage = age > 3\nkeep x = floor(genres)",
      "p:3:10: floor wants an integer, a number as its first argument, got utf8: number(x) or int(x) reads a text; "
      "genres is that of line 1 here, not the column" },
    { "feature `hist[1..3]x`", "p:1:9: there is no column 'hist[1..3]x'; there are user_id" },
    { "feature `hist[a]`", "p:1:9: there is no column 'hist[a]'; the nearest is 'hist'" },
    { "feature `hist[`", "p:1:9: there is no column 'hist['; the nearest is 'hist'" },
    { "y = lower(genres)\nkeep x = floor(y)",
      "p:2:10: floor wants an integer, a number as its first argument, got utf8: number(x) or int(x) reads a text" },
    { "feature genres\nkeep x = floor(genres)",
      "p:2:10: floor wants an integer, a number as its first argument, got utf8: number(x) or int(x) reads a text" },
    { "keep genrs", "p:1:6: there is no column 'genrs'; the nearest is 'genres'" },
    { "\n\nkeep x = lower(genrs)", "p:3:16: there is no column 'genrs'; the nearest is 'genres'" },
    { "keep \xc3\xa9", "p:1:6: unexpected byte 0xc3" },
    { "keep `\xc3\xa9\xc3\xa9`, nope", "p:1:6: there is no column" },
    { "keep x = lowr(genres)", "p:1:10: no operator lowr; did you mean lower" },
    { "featur x = age", "p:1:1: no kind featur; did you mean feature" },
    { "where age > 3", "p:1:1: `where` stands below `from VIEW`" },
    { "group age", "p:1:1: `group` stands below `from VIEW`" },
    { "keep x = y\ny = age", "p:1:10: no column y, and line 2 that defines it comes below" },
    { "keep agee = agee + 1", "p:1:13: there is no column 'agee'; the nearest is 'age'" },
    { "x = age\nx = rating\nkeep x", "p:2:1: x is defined already, on line 1" },
    { "user user_id\nfeature user_id", "p:2:9: the output has a column user_id already, from line 1" },
    { "label y = rating > 1\nlabel z = rating > 2", "p:2:1: there is a label already, on line 1" },
    { "keep x = 1 < 2 < 3", "p:1:16: comparisons do not chain" },
    { "keep x = (1 + 2",
      "p:1:16: expected an operator or ) before the end of the plan (the ( of line 1, character 10 is still open)" },
    { "keep x = 1 + 2)", "p:1:15: expected an operator or the end of the line, not )" },
    { "keep x = lower(genres age)", "p:1:23: expected , or ), not age" },
    { "keep x = ", "p:1:10: expected a value before the end of the line" },
    { "keep x = 1 +", "p:1:13: expected a value before the end of the line" },
    { "keep x = and", "p:1:10: expected a value, not the word `and`" },
    { "keep x = 3 * not true", "p:1:14: put brackets around" },
    { "keep x = \"abc", "p:1:10: the string is not closed on its line" },
    { "keep x = \"\\q\"", "p:1:11: unknown escape" },
    { "keep x = \"\\xff\"", "p:1:10: the string is not UTF-8" },
    { "keep x = `a\\xff`", "p:1:10: the name is not UTF-8" },
    { "keep x = age\n# caf\xe9\n", "p:2:1: the line is not UTF-8" },
    { "keep x = 'a'", "p:1:10: strings stand in double quotes" },
    { "keep x = age && age", "p:1:14: unexpected &; the language has `and`" },
    { "keep x = 14q", "p:1:10: 14q is neither a number nor a duration" },
    { "keep x = ts\"yesterday\"", "p:1:10: \"yesterday\" is no time" },
    { "keep x = 99999999999999999999", "p:1:10: the integer does not fit 64 bits" },
    { "keep x = [1, \"a\"]", "p:1:14: the items of a list are of one type" },
    { "keep x = []", "p:1:10: an empty list has no type" },
    { "keep x = [age]", "p:1:11: a list holds literals only" },
    { "keep x = null", "p:1:10: null alone has no type" },
    { "feature C[1..2] = C[1..3]", "p:1:19: C[1..3] differs from C[1..2]" },
    { "feature C[2..1]", "p:1:10: the range is empty" },
    { "feature C[1]", "p:1:10: [ after a name repeats the line" },
    { "keep C[1..2] = age", "" }, /* two columns */
    { "feature X[1..99999999] = age", "p:1:10: the range repeats the line more than" },
    { "dense x in item = price", "p:1:9: `in TABLE` belongs to a feature or an image" },
    { "dense genres", "p:1:7: dense takes numbers" },
    { "label genres", "p:1:7: a label is a condition or a number from 0 to 1; this is utf8" },
    { "weight hist", "p:1:8: a weight is a number of 0 or more" },
    { "keep x = lower(age)", "p:1:10: " },
    { "keep x = vocab(genres, min=age)", "p:1:28: the argument min= takes a literal" },
    { "keep x = vocab(min=2, genres)", "p:1:23: an argument without a name follows min=" },
    { "keep x = `lower`(genres)", "p:1:10: lower is a name of data" },
    { "keep x[1..2] = lower[1..2](genres)", "p:1:16: lower is a name of data" },
    { "`x` y = 1", "p:1:5: expected = and an expression (or a kind before the name), not y" },
    { "keep in = age", "p:1:6: `in TABLE` belongs" },
    { "age", "p:1:4: expected = and an expression" },
    { "keep x = age age", "p:1:14: expected an operator or the end of the line, not age" },
    { "feature lower(genres)",
      "p:1:14: expected an operator or the end of the line, not (; an expression is given a name: NAME = EXPR" },
    { "label rating > 3",
      "p:1:14: expected an operator or the end of the line, not >; an expression is given a name: NAME = EXPR" },
    { "label y = rating = 3", "p:1:18: expected an operator or the end of the line, not =; equality is ==" },
    { "label y = age in", "p:1:17: expected a value before the end of the line" },
    { "label y = age in [1] in [2]", "p:1:22: comparisons do not chain" },
    { "label y = age in genres", "p:1:15: in wants a list of an integer literal as its second argument, got utf8" },
    { "label y = age in [\"a\", \"b\"]", "p:1:15: in wants a list of what x is, int16: the list has utf8" },
    { "feature age, genres",
      "p:1:12: expected an operator or the end of the line, not ,; a definition takes a line of its own" },
    { "keep ``", "p:1:6: the name is empty" },
};

static void test_bad(void)
{
    char got[1400];
    for (size_t i = 0; i < CTR_COUNT(bad); i++) {
        int rc = bind(bad[i].plan, strlen(bad[i].plan), got, sizeof got);
        if (*bad[i].error)
            ok(rc == CTR_EUSAGE && strncmp(got, bad[i].error, strlen(bad[i].error)) == 0, "error %zu: %s (%s)", i,
               bad[i].error, rc ? got : "bound");
        else
            ok(rc == 0, "plan %zu binds", i);
    }
}

/* ---- depth ---- */

/* `before` n times, then `middle`, then `after` n times. */
static int bind_nested(const char *before, const char *middle, const char *after, int n)
{
    struct ctr_err err = { 0 };
    struct ctr_buf b = { 0 };
    char got[1400];
    int rc = ctr_buf_append(&b, "keep x = ", 9, &err);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = ctr_buf_append(&b, before, strlen(before), &err);
    if (rc == 0)
        rc = ctr_buf_append(&b, middle, strlen(middle), &err);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = ctr_buf_append(&b, after, strlen(after), &err);
    if (rc == 0)
        rc = bind((char *)b.data, b.len, got, sizeof got);
    ctr_buf_free(&b);
    return rc;
}

static void test_depth(void)
{
    ok(bind_nested("(", "age", ")", 60) == 0, "60 brackets");
    ok(bind_nested("(", "age", ")", 65) == CTR_EUSAGE, "65 brackets are too many");
    ok(bind_nested("(", "age", ")", 200000) == CTR_EUSAGE, "so are 200,000");
    ok(bind_nested("", "age", " + age", 900) == 0, "a sum of 900");
    ok(bind_nested("", "age", " + age", 100000) == CTR_EUSAGE, "a sum of 100,000 is too deep");
    ok(bind_nested("not ", "true", "", 100000) == CTR_EUSAGE, "so is not not not");
    ok(bind_nested("- ", "age", "", 100000) == CTR_EUSAGE, "and - - -");
}

/* ---- identity and inputs ---- */

static void plan_id(const char *text, char id[33])
{
    struct ctr_err err = { 0 };
    struct ctr_plan *p;
    id[0] = 0;
    if (ctr_plan_parse(&p, "p", text, strlen(text), &err) < 0)
        return;
    memcpy(id, ctr_plan_id(p), 33);
    ctr_plan_free(p);
}

static void test_identity(void)
{
    char a[33], b[33], c[33];
    plan_id("feature a = lower(x)\nfeature b\n", a);
    plan_id("# c\n\n  feature   a=lower( x ) # d\r\nfeature b", b);
    plan_id("feature a = lower(y)\nfeature b\n", c);
    ok(strlen(a) == 32 && strcmp(a, b) == 0, "layout and comments do not change the identity");
    ok(strcmp(a, c) != 0, "another column does");
    plan_id("keep a = x / 2\n", a);
    plan_id("keep a = x // 2\n", b);
    ok(strcmp(a, "6605fa355cdc7899dfbd1c694722238f") != 0, "/ is not what it was when it rounded down");
    ok(strcmp(a, b) != 0, "nor is //");
}

static void test_inputs(void)
{
    static const char text[] = "a = lower(x)\nkeep b = concat(a, y, x), z\nx2 = a\nfeature w[1..2]";
    struct ctr_err err = { 0 };
    struct ctr_plan *p;
    struct ctr_buf got = { 0 };
    int rc = ctr_plan_parse(&p, "p", text, strlen(text), &err);
    for (int i = 0; rc >= 0 && i < ctr_plan_inputs(p)->n; i++)
        rc = ctr_buf_printf(&got, &err, "%s ", ctr_plan_inputs(p)->s[i]);
    ok(rc >= 0 && got.len == 12 && memcmp(got.data, "x y z w1 w2 ", 12) == 0, "inputs in order of first use");
    ctr_buf_free(&got);
    ctr_plan_free(p);
}

/* ---- expressions ---- */

/* The value of a constant expression as text. */
static const char *value(const char *text, char *out, size_t size)
{
    struct ctr_err err = { 0 };
    struct ctr_expr *e = NULL;
    struct ctr_buf b = { 0 };
    const struct ctr_col *c;
    struct ctr_schema none = { 0 };
    struct ctr_batch batch = { &none, 2, 0, NULL };
    int rc = ctr_expr_compile(&e, "--add", text, &none, NULL, &err);
    if (rc == 0)
        rc = ctr_expr_eval(e, &batch, &c, &err);
    if (rc == 0 && !ctr_col_missing(c, 1))
        rc = ctr_col_text(c, 1, &b, &err);
    snprintf(out, size, "%.*s",
             rc < 0  ? (int)strlen(err.what)
             : b.len ? (int)b.len
                     : 4,
             rc < 0  ? err.what
             : b.len ? (char *)b.data
                     : "null");
    ctr_buf_free(&b);
    ctr_expr_free(e);
    return out;
}

static void test_values(void)
{
    static const struct {
        const char *expr, *value;
    } t[] = {
        { "1 + 2 * 3", "7" },
        { "(1 + 2) * 3", "9" },
        { "-2 * 3", "-6" },
        { "10 - 3 - 2", "5" },
        { "7 / 2", "3.5" },
        { "7 // 2", "3" },
        { "-7 // 2 * 2 + -7 % 2", "-7" },
        { "7.0 / 2", "3.5" },
        { "1 < 2 and 2 < 1 or true", "true" },
        { "not 1 == 2", "true" },
        { "not true and false", "false" },
        { "\"a\\u00e9\\x41\" == \"a\xc3\xa9"
          "A\"",
          "true" },
        { "1h + 30m == 90m", "true" },
        { "ts\"2019-11-14T00:00Z\" + 14d", "2019-11-28T00:00:00Z" },
        { "lower(\"ABC\")", "abc" },
        { "at([3, 4, 5], 1)", "4" },
        { "length(split(\"a,b\", \",\"))", "2" },
        { "18446744073709551615", "18446744073709551615" },
        { "-(-9223372036854775808)", "9223372036854775808" },
        { "bucket(5, [18446744073709551615])", "0" },
        { "bucket(18446744073709551615, [1, 18446744073709551615])", "2" },
        { "null", "null" },
        { "true", "true" },
    };
    char got[1100];
    for (size_t i = 0; i < CTR_COUNT(t); i++)
        ok(strcmp(value(t[i].expr, got, sizeof got), t[i].value) == 0, "%s is %s (%s)", t[i].expr, t[i].value, got);
}

static void test_expr_errors(void)
{
    static const struct {
        const char *expr, *error;
    } t[] = {
        { "rating >= ", "--where: character 11: expected a value" },
        { "rating = 4", "--where: character 8: unexpected =; equality is ==" },
        { "ratin >= 4", "--where: character 1: there is no column" },
        { "", "--where: character 1: expected a value" },
        { "vocab(genres)", "--where: character 1: an operator that is fitted" },
        { "C[1..2] == 3", "--where: character 1: ranges belong to plans" },
    };
    for (size_t i = 0; i < CTR_COUNT(t); i++) {
        struct ctr_err err = { 0 };
        struct ctr_expr *e = NULL;
        char got[1400];
        int rc = ctr_expr_compile(&e, "--where", t[i].expr, &input, NULL, &err);
        snprintf(got, sizeof got, "%s: %s", err.file, err.what);
        ok(rc == CTR_EUSAGE && strncmp(got, t[i].error, strlen(t[i].error)) == 0, "%s (%s)", t[i].error, got);
        ctr_expr_free(e);
    }
}

/* ---- lists of columns, shares ---- */

static void test_columns(void)
{
    static const struct {
        const char *list, *want;
    } t[] = {
        { "age,price", "age=age price=price" },
        { "C*", "C1=C1 C2=C2 C03=C03" },
        { "C*,-C2", "C1=C1 C03=C03" },
        { "-C*,-`odd name`", "user_id=user_id movie_id=movie_id rating=rating genres=genres age=age time=time "
                             "price=price hist=hist wkeys=wkeys key=key" },
        { "u=user_id,C?", "u=user_id C1=C1 C2=C2" },
        { "C?,x=C1,y=C1", "x=C1 C2=C2 y=C1" },
        { "`odd name`", "odd name=odd name" },
        { "nope", NULL },
        { "n*pe", NULL },
        { "-nope", NULL },
        { "a=nope", NULL },
        { "", NULL },
        { "age,", NULL },
    };
    for (size_t i = 0; i < CTR_COUNT(t); i++) {
        struct ctr_picks p = { 0 };
        struct ctr_err err = { 0 };
        char got[500] = "";
        size_t n = 0;
        int rc = ctr_columns_parse(&p, t[i].list, &input, &err);
        for (int k = 0; rc == 0 && k < p.n; k++)
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%s=%s", k ? " " : "", p.p[k].name,
                                  input.f[p.p[k].column].name);
        ok(t[i].want ? rc == 0 && strcmp(got, t[i].want) == 0 : rc == CTR_EUSAGE, "--columns %s (%s%s)", t[i].list, got,
           err.what);
        ctr_picks_free(&p);
    }
}

static void test_cuts(void)
{
    static const char *const wrong[] = { "",           "x", "-1",  "101%", "5.5",
                                         "1.1234567%", "%", "5%%", "1.%",  "99999999999999999999" };
    struct ctr_cut head, tail, none = { 0 };
    struct ctr_err err = { 0 };
    int64_t from, to, from2, to2;
    bool whole = true;
    for (size_t i = 0; i < CTR_COUNT(wrong); i++)
        ok(ctr_cut_parse(&head, "--head", wrong[i], &err) == CTR_EUSAGE, "--head '%s' is refused", wrong[i]);
    for (int64_t n = 0; n < 1000; n++) {
        if (ctr_cut_parse(&head, "--head", "66.7%", &err) || ctr_cut_parse(&tail, "--tail", "33.3%", &err))
            exit(1);
        ctr_cut_range(&head, &none, n, &from, &to);
        ctr_cut_range(&none, &tail, n, &from2, &to2);
        whole &= from == 0 && to == from2 && to2 == n;
    }
    ok(whole, "head 66.7%% and tail 33.3%% are the whole, each row once");
}

/* ---- damage ---- */

static uint64_t random_state = 1;
static uint64_t rnd(uint64_t n)
{
    return ctr_random64(7, 1, random_state++) % n;
}

/* Pieces that make a broken plan interesting. */
static const char *const pieces[] = { "(",
                                      ")",
                                      "[",
                                      "]",
                                      ",",
                                      "=",
                                      "==",
                                      "-",
                                      "\"",
                                      "`",
                                      "\n",
                                      "#",
                                      "1..9",
                                      "[1..3]",
                                      " and ",
                                      "not ",
                                      "null",
                                      "9223372036854775808",
                                      "1e999",
                                      "14d",
                                      "ts\"2019-01-01\"",
                                      "keep ",
                                      "feature ",
                                      " in ",
                                      "\\",
                                      "\xff",
                                      "lower(",
                                      "cross(",
                                      "vocab(",
                                      "if(",
                                      "[1,2]",
                                      "split(genres, \"|\")",
                                      "age",
                                      "hist" };

static void mutate(struct ctr_buf *b)
{
    struct ctr_err err = { 0 };
    size_t at = b->len ? rnd(b->len) : 0, want = rnd(8), n = CTR_MIN(want, b->len - at);
    const char *p = pieces[rnd(CTR_COUNT(pieces))];
    switch (rnd(4)) {
    case 0: /* cut */
        memmove(b->data + at, b->data + at + n, b->len - at - n);
        b->len -= n;
        break;
    case 1: /* flip */
        if (b->len)
            b->data[at] ^= (uint8_t)(1 << rnd(8));
        break;
    case 2: /* copy from elsewhere */
        if (ctr_buf_reserve(b, n, &err) < 0)
            exit(1);
        memcpy(b->data + b->len, b->data + at, n);
        b->len += n;
        break;
    default:
        if (ctr_buf_reserve(b, strlen(p), &err) < 0)
            exit(1);
        memmove(b->data + at + strlen(p), b->data + at, b->len - at);
        memcpy(b->data + at, p, strlen(p));
        b->len += strlen(p);
    }
}

/* It is the sanitizers that see what goes wrong here. */
#ifdef __SANITIZE_ADDRESS__
enum { DAMAGED = 10000 };
#else
enum { DAMAGED = 4000 };
#endif

static void test_damage(int rounds)
{
    int bound = 0, refused = 0, other = 0;
    char got[1400];
    for (int i = 0; i < rounds; i++) {
        struct ctr_buf b = { 0 };
        struct ctr_err err = { 0 };
        const char *seed = good[rnd(CTR_COUNT(good))].plan;
        if (ctr_buf_append(&b, seed, strlen(seed), &err) < 0)
            exit(1);
        for (uint64_t k = rnd(6) + 1; k > 0; k--)
            mutate(&b);
        int rc = bind((char *)b.data, b.len, got, sizeof got);
        *(rc == 0 ? &bound : rc == CTR_EUSAGE ? &refused : &other) += 1;
        ctr_buf_free(&b);
    }
    ok(other == 0 && bound && refused, "%d damaged plans: %d bound, %d refused, %d failed otherwise", rounds, bound,
       refused, other);
}

/* ---- which vocabularies a table has: calls that are equal have one ---- */

static const struct {
    const char *plan, *sections;
} vocabs[] = {
    { "feature a in t = vocab(C1)\nfeature b in t = vocab(C1)", "vocab.a" },
    { "feature a in t = vocab(C1)\nfeature b in t = vocab(C2)", "vocab.a vocab.b" },
    { "feature a in t = vocab(C1)\nfeature b in u = vocab(C1)\ndense price\nuser user_id", "vocab.a" },
    { "feature a in t = vocab(C1, min=2)\nfeature b in t = vocab(C1, min=3)", "vocab.a vocab.b" },
    { "feature a in t = vocab(C1, min=2)\nfeature b in t = vocab(C1, max=2)", "vocab.a vocab.b" },
    { "feature a in t = vocab(C1, min=2)\nfeature b in t = vocab(C1)", "vocab.a vocab.b" },
    { "feature a in t = vocab(C1)\nfeature b in t = vocab(lower(C1))", "vocab.a vocab.b" },
    { "x = lower(C1)\nfeature a in t = vocab(x)\nfeature b in t = vocab(x)\nfeature c in t = vocab(lower(C1))",
      "vocab.a" },
    { "feature a in t = vocab(lower(C1))\nfeature b in t = vocab(concat(C1))", "vocab.a vocab.b" },
    { "feature a in t = vocab(concat(C1, \"x\"))\nfeature b in t = vocab(concat(C1, \"y\"))", "vocab.a vocab.b" },
    { "feature a in t = vocab(concat(C1, \"\"))\nfeature b in t = vocab(concat(C1, \"\"))", "vocab.a" },
    { "feature a in t = vocab(concat(C1, \"x\"))\nfeature b in t = vocab(concat(C1, \"xx\"))", "vocab.a vocab.b" },
    { "feature a in t = vocab(price + 1.5)\nfeature b in t = vocab(price + 2.5)", "vocab.a vocab.b" },
    { "feature a in t = vocab(price + 1.5)\nfeature b in t = vocab(price + 1.5)", "vocab.a" },
    { "feature a in t = vocab(price + 1)\nfeature b in t = vocab(price + 1.0)", "vocab.a vocab.b" },
    { "feature a in t = vocab(bucket(price, [1, 2]))\nfeature b in t = vocab(bucket(price, [1, 2]))", "vocab.a" },
    { "feature a in t = vocab(bucket(price, [1, 2]))\nfeature b in t = vocab(bucket(price, [1, 3]))",
      "vocab.a vocab.b" },
    { "feature a in t = vocab(bucket(price, [1]))\nfeature b in t = vocab(bucket(price, [1, 2]))", "vocab.a vocab.b" },
    { "feature a in t = vocab(fill(C1, null))\nfeature b in t = vocab(fill(C1, null))", "vocab.a" },
    { "feature a in t = vocab(C1 == \"a\" or true)\nfeature b in t = vocab(C1 == \"a\" or false)", "vocab.a vocab.b" },
    { "feature a in t = vocab(concat(C1, vocab(C2)))\nfeature b in t = C1", "vocab.a" },
};

static void test_vocabs(void)
{
    for (size_t i = 0; i < CTR_COUNT(vocabs); i++) {
        struct ctr_plan *p = NULL;
        struct ctr_strs sections = { 0 };
        struct ctr_err err = { 0 };
        char got[200] = "";
        int rc = ctr_plan_parse(&p, "p", vocabs[i].plan, strlen(vocabs[i].plan), &err);
        if (!rc)
            rc = ctr_plan_vocabs(p, "t", &sections, &err);
        for (int k = 0; k < sections.n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? " " : "", sections.s[k]);
        ok(!rc && !strcmp(got, vocabs[i].sections), "%s: %s%s", vocabs[i].sections, got, err.what);
        ctr_strs_free(&sections);
        ctr_plan_free(p);
    }
}

/* ---- signals: what a feature is, in words ---- */

static const struct {
    const char *plan, *definition;
} signals[] = {
    { "feature a = if(C1 == \"x\", true, false)", "if((C1 == \"x\"), true, false)" },
    { "feature a = fill(C1, null)", "fill(C1, null)" },
    { "feature a = concat(C1, \"\\\"\\\\\\x01\")", "concat(C1, \"\\\"\\\\\\x01\")" },
    { "feature a = cross(user_id, 18446744073709551615, -2, 1.5)", "cross(user_id, 18446744073709551615, -2, 1.5)" },
    { "feature a = time - 1h > ts\"2019-11-14T00:00Z\"", "((time - 3600000ms) > ts\"2019-11-14T00:00:00Z\")" },
    { "x = -price\nfeature a = bucket(x, [1.5, 2.5])", "bucket(x, [1.5, 2.5]); x = -(price)" },
    { "feature a = vocab(C1, min=2)", "vocab(C1, min=2)" },
    { "x = C1\ny = C2\nfeature a = not (x == `odd name` and y == x or price < 1)",
      "not((((x == `odd name`) and (y == x)) or (price < 1))); x = C1; y = C2" },
    { "keep k = C1\nuser user_id\nfeature a = concat(k, user_id)", "concat(k, user_id); k = C1" },
};

static int one_signal(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err)
{
    (void)err;
    snprintf(ctx, 300, "%s", s->definition);
    return 0;
}

static void test_signals(void)
{
    for (size_t i = 0; i < CTR_COUNT(signals); i++) {
        struct ctr_plan *p = NULL;
        struct ctr_err err = { 0 };
        char got[300] = "";
        int rc = ctr_plan_parse(&p, "p", signals[i].plan, strlen(signals[i].plan), &err);
        if (!rc)
            rc = ctr_plan_signals(p, one_signal, got, &err);
        ok(!rc && !strcmp(got, signals[i].definition), "%s", signals[i].definition);
        if (rc || strcmp(got, signals[i].definition))
            printf("# %s %s\n", got, err.what);
        ctr_plan_free(p);
    }
}

/* ---- what --explain shows of literals, and of what is computed once ---- */

static const struct {
    const char *plan, *shown;
} explained[] = {
    { "keep a = if(rating > 3, true, false)", "true, false" },
    { "keep a = fill(genres, \"none\"), b = rating in_layer", NULL },
    { "keep a = if(rating > 3, age, null)", "null" },
    { "keep a = time > ts\"2019-11-14T00:00Z\"", "ts\"2019-11-14T00:00:00Z\"" },
    { "keep a = time - 1h", "3600000ms" },
    { "keep a = concat(genres, \"a text that is longer than the sixty bytes which are shown of such ones\")",
      "\"a text that is longer than the sixty bytes which are shown o…\"" },
    { "keep a = concat(genres, \"the cut goes before the sign of which byte 61 is the last € and so on\")",
      "\"the cut goes before the sign of which byte 61 is the last …\"" },
    { "keep a = bucket(price, [18446744073709551615])", "bucket(#0, [18446744073709551615])" },
    { "keep a = concat(genres, \"a\\\"b\\x1b\")", "\"a\\\"b\\x1b\"" },
    { "keep a = bucket(price, [1, 2, 3, 4, 5, 6, 7, 8, 9])", "[1, 2, 3, 4, 5, 6, 7, 8, … 9 items]" },
    { "keep a = bucket(price, [1, 2.5])", "[1, 2.5]" },
    { "keep a = cross(genres, [1, 2]), b = cross(genres, [1, 2])", "layer 1: 1 nodes" },
    { "keep a = cross(genres, [1, 2]), b = cross(genres, [1, 3])", "layer 1: 2 nodes" },
    { "keep a = concat(genres, \"x\"), b = concat(genres, \"x\"), c = concat(genres, \"y\")", "layer 1: 2 nodes" },
    /* two lists of one hash: what stands beside lfV3OsfE does not count, see ctr-extract.t */
    { "keep a = [\"8423\", \"letter alfV3OsfEand sixteen more\"], b = [\"8423\", \"letter blfV3OsfEand sixteen more\"]",
      "layer 0: 2 nodes" },
    { "feature a = vocab(genres)", "[to be fitted: vocab.a]" },
};

static void test_explain(void)
{
    for (size_t i = 0; i < CTR_COUNT(explained); i++) {
        struct ctr_plan *p = NULL;
        struct ctr_program *g = NULL;
        struct ctr_buf text = { 0 };
        struct ctr_err err = { 0 };
        int rc = ctr_plan_parse(&p, "p", explained[i].plan, strlen(explained[i].plan), &err);
        if (!rc)
            rc = ctr_program_bind(&g, p, &input, &err);
        if (!rc)
            rc = ctr_program_explain(g, &text, &err);
        const bool right = explained[i].shown ? !rc && strstr((char *)text.data, explained[i].shown) : rc < 0;
        ok(right, "--explain of %s", explained[i].plan);
        if (!right)
            printf("# %s %s\n", text.data ? (char *)text.data : "", err.what);
        ctr_buf_free(&text);
        ctr_program_free(g);
        ctr_plan_free(p);
    }
}

/* ---- sizes ---- */

static void test_sizes(void)
{
    enum { BIG = 3 << 20 };
    struct ctr_plan *p = NULL;
    struct ctr_err err = { 0 };
    char *text = malloc(BIG), path[] = "/tmp/unit-plan-XXXXXX";
    memset(text, ' ', BIG);
    memcpy(text, "keep age\n#", 10);
    int rc = ctr_plan_parse(&p, "p", text, BIG, &err);
    ok(rc == CTR_EUSAGE && strstr(err.what, "larger than a plan can be (1048576 bytes)"), "%s", err.what);
    ctr_plan_free(p);
    rc = ctr_plan_parse(&p, "p", text, 1 << 20, &err);
    ok(!rc, "one of 1 MiB is a plan");
    ctr_plan_free(p);
    int fd = mkstemp(path);
    ok(fd >= 0 && write(fd, text, BIG) == BIG, "a file of 3 MiB");
    close(fd);
    err = (struct ctr_err){ 0 };
    rc = ctr_plan_open(&p, path, &err);
    ok(rc == CTR_EUSAGE && strstr(err.what, "larger than a plan can be"), "is none: %s", err.what);
    unlink(path);
    err = (struct ctr_err){ 0 };
    rc = ctr_plan_open(&p, "/tmp", &err);
    ok(rc == CTR_ESYS && err.sys == EISDIR, "nor is a folder: %s", err.what);
    free(text);
}

int main(int argc, char **argv)
{
    make_input();
    test_good();
    test_bad();
    test_depth();
    test_identity();
    test_inputs();
    test_values();
    test_expr_errors();
    test_columns();
    test_cuts();
    test_vocabs();
    test_signals();
    test_explain();
    test_sizes();
    test_damage(argc > 1 ? atoi(argv[1]) : DAMAGED);
    ctr_schema_free(&input);
    return done_testing();
}
