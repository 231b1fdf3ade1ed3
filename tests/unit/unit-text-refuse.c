/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-text-refuse: texts and options that are refused, each with its words, and those that only look as if they should
 * be: names, lists of columns, schemas, roles, limits. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/text/csv.h"
#include "tools/ctr-export/export.h"
#include "tools/ctr-export/export_format.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "tap.h"

static struct ctr_err err;
static char in_path[32], in2_path[32], out_path[32], notes[4096];
static int in_fd, in2_fd, out_fd;
static struct ctr_import_stats stats;
static struct ctr_schema got; /* of the last import */

static void check(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

static void put(int fd, const char *text, size_t n)
{
    if (ftruncate(fd, 0) || pwrite(fd, text, n, 0) != (ssize_t)n)
        check(ctr_fail(&err, CTR_ESYS, "cannot write"));
}

static void note(void *ctx, const char *text)
{
    (void)ctx;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", text);
}

/* The rows of the files, or the error. */
static int64_t import(const struct ctr_text_opts *opts, int files)
{
    char *paths[] = { in_path, in2_path };
    struct ctr_text_opts o = *opts;
    struct ctr_import *im = NULL;
    const struct ctr_batch *b;
    int64_t rows = 0;
    o.note = note;
    notes[0] = 0;
    err = (struct ctr_err){ 0 };
    ctr_schema_free(&got);
    int rc = ctr_import_open(&im, &o, paths, files, &err);
    if (!rc)
        check(ctr_schema_copy(&got, ctr_import_schema(im), &err));
    while (!rc && (rc = ctr_import_next(im, &b, &err)) > 0) {
        rows += b->rows;
        rc = 0;
    }
    if (!rc)
        rc = ctr_import_finish(im, &err);
    if (im)
        ctr_import_get_stats(im, &stats);
    ctr_import_free(im);
    return rc < 0 ? rc : rows;
}

/* ---- a text each ---- */

#define TEN    "0123456789"
#define FORTY  TEN TEN TEN TEN
#define EIGHTY FORTY FORTY

static struct ctr_strs only_a, only_many, absent_na;
static struct ctr_schema like_zz, like_none, like_b, like_values, like_dot;

struct trial {
    const char *what;
    const struct ctr_text_format *format;
    struct ctr_text_opts o;
    const char *text;
    int64_t rows;      /* that come; an error < 0 */
    const char *words; /* of the error or a note */
};

static const struct trial trials[] = {
    { "an entry of more than 80 bytes",
      &ctr_text_csv,
      { .columns = EIGHTY EIGHTY ":" },
      "1\n",
      CTR_EUSAGE,
      "is not NAME[=SOURCE]" },
    { "a long range of long names",
      &ctr_text_csv,
      { .columns = EIGHTY "[1..99999]" },
      "1\n",
      CTR_EUSAGE,
      "more than 10000 columns" },
    { "a range in 22 digits", &ctr_text_csv, { .columns = "c[0000000000000000000001..2]" }, "1,2\n", 1, NULL },
    { "a type of 80 bytes", &ctr_text_csv, { .columns = "a:" EIGHTY }, "1\n", CTR_EUSAGE, "is no type" },
    { "an open timestamp", &ctr_text_csv, { .columns = "a:timestamp[ms" }, "1\n", CTR_EUSAGE, "is no type" },
    { "20 columns", &ctr_text_csv, { .columns = "a[1..20]" }, "1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0\n", 1, NULL },
    { "a time that is typed as a number",
      &ctr_text_csv,
      { .columns = "a:int64", .role = { [CTR_ROLE_TIME] = "a" } },
      "1\n",
      1,
      NULL },
    { "a time that is typed as a number, with a format",
      &ctr_text_csv,
      { .columns = "a:int64", .role = { [CTR_ROLE_TIME] = "a:unix" } },
      "1\n",
      CTR_EUSAGE,
      "a time format wants timestamp" },
    { "like what has a column more",
      &ctr_text_csv,
      { .header = true, .like = &like_zz },
      "a\n1\n",
      CTR_EUSAGE,
      "--like: the input has no column 'zz'" },
    { "like what has no columns",
      &ctr_text_csv,
      { .header = true, .like = &like_none },
      "a\n1\n",
      CTR_EUSAGE,
      "no column is left" },
    { "like what lacks the label",
      &ctr_text_csv,
      { .header = true, .like = &like_b, .role = { [CTR_ROLE_LABEL] = "a" } },
      "a,b\n1,2\n",
      1,
      NULL },
    { "only what is there", &ctr_text_csv, { .header = true, .only = &only_a }, "a,b\n1,2\n", 1, NULL },
    { "only what is not there",
      &ctr_text_csv,
      { .header = true, .only = &only_many },
      "x,b\n1,2\n",
      CTR_EUSAGE,
      "has none of the plan's columns" },
    { "only what is there, of many",
      &ctr_text_csv,
      { .header = true, .only = &only_many },
      "name00,b\n1,2\n",
      1,
      ", ..." },
    { "nothing, with a header", &ctr_text_csv, { .header = true }, "", CTR_EDATA, "" },
    { "nothing, typed, with a header", &ctr_text_csv, { .header = true, .columns = "a:int64" }, "", 0, NULL },
    { "names above conditions", &ctr_text_csv, { 0 }, "day\ntrue\nfalse\n", 2, "line 1 holds the names" },
    { "a point alone", &ctr_text_csv, { .columns = "a:float64" }, ".\n", CTR_EDATA, "'.' is not float64" },
    { "two points", &ctr_text_csv, { .columns = "a:float64" }, "1.2.3\n", CTR_EDATA, "'1.2.3' is not float64" },
    { "an empty number that is not null",
      &ctr_text_csv,
      { .columns = "a:float64,b", .nulls = &absent_na },
      ",x\n",
      CTR_EDATA,
      "'' is not float64" },
    { "an empty short number that is not null",
      &ctr_text_csv,
      { .columns = "a:float32,b", .nulls = &absent_na },
      ",x\n",
      CTR_EDATA,
      "'' is not float32" },
    { "a number that is too large for its type",
      &ctr_text_csv,
      { .columns = "a:float64" },
      "1e999\n",
      CTR_EDATA,
      "--columns a:utf8" },
    { "an integer that is too large for its type",
      &ctr_text_csv,
      { .columns = "a:int64" },
      "99999999999999999999\n",
      CTR_EDATA,
      "is not int64" },
    { "a short integer that is too large for its type",
      &ctr_text_csv,
      { .columns = "a:int64" },
      "1 \n",
      CTR_EDATA,
      "is not int64" },
    { "a quoted cell too many",
      &ctr_text_csv,
      { .columns = "a,b", .bad_rows = "skip=1" },
      "1,2,\"x\"\n1,2\n",
      1,
      NULL },
    { "a time in a format",
      &ctr_text_csv,
      { .columns = "a:timestamp", .role = { [CTR_ROLE_TIME] = "a:unix" } },
      "x\n",
      CTR_EDATA,
      "no time in the form unix" },

    { "a label of 41 digits",
      &ctr_text_libsvm,
      { .keys = "hash", .binary = true },
      "2.0000000000000000000000000000000000000000 1:1\n",
      CTR_EDATA,
      "neither -1 nor 1" },
    { "a feature of 41 letters",
      &ctr_text_vw,
      { .keys = "key" },
      "1 |a x" FORTY "\n",
      CTR_EDATA,
      "is no integer below 2^64" },
    { "a query that is called otherwise",
      &ctr_text_libsvm,
      { .keys = "hash", .role = { [CTR_ROLE_QUERY] = "label" } },
      "1 1:1\n",
      1,
      NULL },
    { "queries that are not wanted",
      &ctr_text_libsvm,
      { .keys = "hash", .only = &only_a },
      "1 qid:3 1:1\n",
      CTR_EUSAGE,
      "none of the plan's columns" },
    { "the query as the label",
      &ctr_text_libsvm,
      { .keys = "hash", .role = { [CTR_ROLE_LABEL] = "qid" } },
      "1 qid:3 1:1\n",
      1,
      NULL },
    { "12 fields",
      &ctr_text_libffm,
      { 0 },
      "1 1:1:1 2:1:1 3:1:1 4:1:1 5:1:1 6:1:1 7:1:1 8:1:1 9:1:1 10:1:1 11:1:1 12:1:1\n",
      1,
      NULL },
    { "namespaces of 256 bytes and of broken text",
      &ctr_text_vw,
      { 0 },
      "1 |" EIGHTY EIGHTY EIGHTY TEN "123456 x |a\xff x |a x\n",
      CTR_EDATA,
      "is not among those of the first" },
    { "keys of no kind", &ctr_text_vw, { .keys = "zzz" }, "1 |a x\n", CTR_EUSAGE, "zzz" },
    { "a long label of costs", &ctr_text_vw, { 0 }, "1:" FORTY " |a x\n", CTR_EDATA, "contextual bandits" },
    { "a label of six letters", &ctr_text_vw, { 0 }, "abcdef |a x\n", CTR_EDATA, "no finite number" },
    { "several lines", &ctr_text_vw, { 0 }, "shared |a x\n", CTR_EDATA, "'shared' begins" },
    { "like what has values and another dot",
      &ctr_text_vw,
      { .like = &like_values, .keys = "text" },
      "1 |a x:2\n",
      1,
      NULL },
    { "like what has a column of a dot", &ctr_text_vw, { .like = &like_dot, .keys = "text" }, "1 |a.b x\n", 1, NULL },
    { "only one namespace", &ctr_text_vw, { .only = &only_a }, "1 |a x |b y\n", 1, NULL },
    { "only one namespace, as text", &ctr_text_vw, { .only = &only_a, .keys = "text" }, "1 |a x |b y:2\n", 1, NULL },

    { "a member whose name holds the byte 0", &ctr_text_jsonl, { 0 }, "{\"a\\u0000\":1,\"b\":2}\n", 1, NULL },
    { "a name with a broken escape", &ctr_text_jsonl, { 0 }, "{\"a\\q\":1}\n", CTR_EDATA, "broken escape" },
    { "a value, an object and an object in it",
      &ctr_text_jsonl,
      { 0 },
      "{\"a\":1}\n{\"a\":{\"b\":{\"c\":{\"d\":2}}}}\n",
      2,
      NULL },
    { "only one member", &ctr_text_jsonl, { .only = &only_a }, "{\"a\":1,\"b\":2}\n", 1, NULL },
    { "an empty part of a path",
      &ctr_text_jsonl,
      { .columns = "x=a..b:int64" },
      "{\"a\":{\"\":{\"b\":7}}}\n",
      1,
      NULL },
};

static void try(const struct trial *t)
{
    struct ctr_text_opts o = t->o;
    o.format = t->format;
    o.jobs = 1;
    put(in_fd, t->text, strlen(t->text));
    const int64_t rows = import(&o, 1);
    const bool told = !t->words || strstr(rows < 0 ? err.what : notes, t->words);
    ok(rows == t->rows && told, "%s: %lld %s", t->what, (long long)rows, rows < 0 ? err.what : notes);
}

static void add(struct ctr_schema *s, const char *name, enum ctr_type type, enum ctr_type item)
{
    check(ctr_schema_add(s, name, type, &err));
    s->f[s->n - 1].item = item;
}

static void prepare(void)
{
    check(ctr_strs_add(&only_a, "a", 1, &err));
    check(ctr_strs_add(&absent_na, "NA", 2, &err));
    for (int i = 0; i < 100; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "name%02d", i);
        check(ctr_strs_add(&only_many, name, (size_t)n, &err));
    }
    add(&like_zz, "a", CTR_I64, 0);
    add(&like_zz, "zz", CTR_I64, 0);
    add(&like_b, "b", CTR_I64, 0);
    add(&like_values, "a", CTR_LIST, CTR_UTF8);
    add(&like_values, "a.weight", CTR_LIST, CTR_F32);
    add(&like_dot, "a.b", CTR_LIST, CTR_UTF8);
}

/* ---- more than a line ---- */

static void test_many(void)
{
    static char text[1 << 20];
    size_t n = 0;
    struct ctr_text_opts o = { .format = &ctr_text_jsonl, .jobs = 1 };
    for (int i = 0; i <= 4096; i++)
        n += (size_t)sprintf(text + n, "%s\"m%d\":1", i ? "," : "{", i);
    n += (size_t)sprintf(text + n, "}\n");
    put(in_fd, text, n);
    ok(import(&o, 1) == CTR_EDATA && strstr(err.what, "more than 4096 members"), "%s", err.what);
    o.format = &ctr_text_vw;
    n = (size_t)sprintf(text, "1 ");
    for (int i = 0; i <= 4096; i++)
        n += (size_t)sprintf(text + n, "|n%d x ", i);
    text[n++] = '\n';
    put(in_fd, text, n);
    ok(import(&o, 1) == CTR_EDATA && strstr(err.what, "more than 4096 fields"), "%s", err.what);
    o.format = &ctr_text_libffm;
    n = (size_t)sprintf(text, "1");
    for (int i = 0; i <= 4099; i++)
        n += (size_t)sprintf(text + n, " %d:1:1", i);
    text[n++] = '\n';
    put(in_fd, text, n);
    ok(import(&o, 1) == CTR_EDATA && strstr(err.what, "more than 4096 fields"), "%s", err.what);
    /* Two objects of many members each: their names lie in one table. */
    o.format = &ctr_text_jsonl;
    n = (size_t)sprintf(text, "{");
    for (int k = 0; k < 2; k++) {
        n += (size_t)sprintf(text + n, "%s\"o%d\":", k ? "," : "", k);
        for (int i = 0; i < 900; i++)
            n += (size_t)sprintf(text + n, "%s\"m%d\":%d", i ? "," : "{", i, i + k);
        text[n++] = '}';
    }
    n += (size_t)sprintf(text + n, "}\n");
    put(in_fd, text, n);
    ok(import(&o, 1) == 1 && got.n == 1800, "1800 members of two objects: %d", got.n);
    n = 0; /* deeper than a path */
    for (int i = 0; i < 40; i++)
        n += (size_t)sprintf(text + n, "{\"a\":");
    text[n++] = '1';
    for (int i = 0; i < 40; i++)
        text[n++] = '}';
    text[n++] = '\n';
    put(in_fd, text, n);
    ok(import(&o, 1) == 1 && got.n == 1 && got.f[0].type == CTR_UTF8, "objects 40 deep: %d %s", got.n,
       got.n ? got.f[0].name : err.what);
}

/* What the first lines had not is counted, in each block. */
static void test_untaken(void)
{
    static char text[1 << 18];
    size_t n = 0;
    const struct ctr_text_opts o = { .format = &ctr_text_jsonl, .jobs = 1, .block_bytes = 4096 };
    for (int i = 0; i < 4000; i++)
        n += (size_t)sprintf(text + n, i < 1000 ? "{\"a\":%d}\n" : "{\"a\":%d,\"b\":1}\n", i);
    put(in_fd, text, n);
    ok(import(&o, 1) == 4000 && stats.untaken > 2000 && stats.untaken_line >= 1001 &&
           !strcmp(stats.untaken_key.s, "'b'"),
       "members that the first lines had not: %lld from line %lld on", (long long)stats.untaken,
       (long long)stats.untaken_line);
}

/* A null in the first rows of a column, and none in tens of thousands after it. */
static void test_tiles(void)
{
    static char text[1 << 20];
    size_t n = (size_t)sprintf(text, "1,\n");
    const struct ctr_text_opts o = { .format = &ctr_text_csv, .jobs = 1, .columns = "a:int64,b:int64" };
    for (int i = 0; i < 60000; i++)
        n += (size_t)sprintf(text + n, "%d,%d\n", i, i % 10);
    put(in_fd, text, n);
    ok(import(&o, 1) == 60001, "a null and many rows");
}

static void test_two_headers(void)
{
    const struct ctr_text_opts o = { .format = &ctr_text_csv, .jobs = 1, .header = true };
    put(in_fd, "a,b\n1,2\n", 8);
    put(in2_fd, "a,b,c\n1,2,3\n", 12);
    ok(import(&o, 2) == CTR_EDATA && strstr(err.what, "the header differs"), "a longer header: %s", err.what);
    put(in2_fd, "a,c\n1,2\n", 8);
    ok(import(&o, 2) == CTR_EDATA && strstr(err.what, "the header differs"), "another header: %s", err.what);
    put(in2_fd, "a,b\n1,2\n", 8);
    ok(import(&o, 2) == 2, "the same header");
}

/* A quarantine that cannot be renamed into place. */
static void test_quarantine(void)
{
    char dir[] = "/tmp/unit-text-refuse-XXXXXX", policy[64], path[600], *paths[] = { in_path };
    struct ctr_import *im = NULL;
    const struct ctr_batch *b;
    check(mkdtemp(dir) ? 0 : -1);
    snprintf(policy, sizeof policy, "quarantine=%s/q", dir);
    const struct ctr_text_opts o = { .format = &ctr_text_csv, .jobs = 1, .columns = "a:int8", .bad_rows = policy };
    put(in_fd, "1\nx\n", 4);
    check(ctr_import_open(&im, &o, paths, 1, &err));
    while (ctr_import_next(im, &b, &err) > 0)
        ;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' || e->d_name[1] > '.') {
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            unlink(path);
        }
    if (d)
        closedir(d);
    rmdir(dir);
    ok(ctr_import_finish(im, &err) < 0, "a quarantine whose folder is gone: %s", err.what);
    ctr_import_free(im);
}

/* ---- pieces that are asked for by themselves ---- */

static void test_pieces(void)
{
    char odd[41];
    memset(odd, 27, sizeof odd);
    struct ctr_text_shown shown = ctr_text_show(odd, sizeof odd);
    ok(strlen(shown.s) == 166 && !strncmp(shown.s, "$'\\x1b\\x1b", 10) && !strcmp(shown.s + 158, "\\x1b…'"),
       "as much is shown as there is room for: %s", shown.s);
    const char *why = NULL, *p = "";
    struct ctr_json key;
    struct ctr_buf b = { 0 };
    ok(!ctr_json_key(&p, p, &key, &why) && !strcmp(why, "no key in quotes"), "no key at the end");
    ok(ctr_json_unescape("a\\", 2, &b, &err) == 0, "a backslash at the end is no escape");
    ok(ctr_json_unescape("a\\\0", 3, &b, &err) == 0, "nor is one before the byte 0");
    ctr_buf_free(&b);
    /* A column of text that offsets of 32 bits cannot reach the end of. */
    uint8_t special[1] = { 0 };
    struct ctr_text_job job = { .block = { .utf8 = true } };
    struct csv_tile t = { .from = 0, .to = 64, .special = special, .job = &job };
    struct csv_dialect d = { .delimiter = ",", .delimiter_n = 1, .columns = 1 };
    const struct ctr_text_column c = { .type = { .type = CTR_UTF8 } };
    struct ctr_colbuf col = { .type = CTR_UTF8, .data = { .len = INT32_MAX - 63 } };
    ok(ctr_csv_column(&t, &d, &c, 0, &col, &err) == CTR_EDATA && strstr(err.what, "more than 2^31-1 bytes"), "%s",
       err.what);
}

/* gzip of more than is given to zlib at once, and of more than there is room for. */
static void test_gzip(void)
{
    const size_t n = (size_t)40 << 20;
    const int text_fd = memfd_create("text", 0);
    uint8_t *p =
        ftruncate(text_fd, (off_t)n) ? MAP_FAILED : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, text_fd, 0);
    struct ctr_export_gzip *g = NULL;
    struct ctr_out *o = NULL;
    /* The first 4 MiB are such as do not get smaller: what comes of a piece fills the buffer many times. */
    for (size_t i = 0; p != MAP_FAILED && i < 4 << 20; i++)
        p[i] = (uint8_t)ctr_random64(1, 0, i);
    if (ftruncate(out_fd, 0) || lseek(out_fd, 0, SEEK_SET) || p == MAP_FAILED)
        check(-1);
    check(ctr_out_open(&o, out_path, 0, &err));
    check(ctr_export_gzip_new(&g, &err));
    check(ctr_export_gzip_write(g, p, n, CTR_GZIP_END, o, &err));
    check(ctr_out_commit(o, &err));
    ctr_out_free(o);
    ctr_export_gzip_free(g);
    munmap(p, n);
    off_t size = lseek(out_fd, 0, SEEK_END);
    uint32_t length = 0;
    ok(size > 4 << 20 && pread(out_fd, &length, 4, size - 4) == 4 && length == n, "gzip of 40 MiB: %u", length);
    /* The text comes back. */
    char command[80], line[256] = "";
    snprintf(command, sizeof command, "gzip -dc </proc/%d/fd/%d | cmp - /proc/%d/fd/%d 2>&1", (int)getpid(), out_fd,
             (int)getpid(), text_fd);
    FILE *f = popen(command, "r");
    (void)!fgets(line, sizeof line, f);
    ok(f && !pclose(f), "which comes back: %s", line);
    close(text_fd);
}

int main(void)
{
    in_fd = memfd_create("in", 0);
    in2_fd = memfd_create("in2", 0);
    out_fd = memfd_create("out", 0);
    snprintf(in_path, sizeof in_path, "/dev/fd/%d", in_fd);
    snprintf(in2_path, sizeof in2_path, "/dev/fd/%d", in2_fd);
    snprintf(out_path, sizeof out_path, "/dev/fd/%d", out_fd);
    prepare();
    for (size_t i = 0; i < CTR_COUNT(trials); i++)
        try(&trials[i]);
    test_many();
    test_untaken();
    test_tiles();
    test_two_headers();
    test_quarantine();
    test_pieces();
    test_gzip();
    ctr_schema_free(&got);
    ctr_schema_free(&like_zz);
    ctr_schema_free(&like_b);
    ctr_schema_free(&like_values);
    ctr_schema_free(&like_dot);
    ctr_strs_free(&only_a);
    ctr_strs_free(&only_many);
    ctr_strs_free(&absent_na);
    return done_testing();
}
