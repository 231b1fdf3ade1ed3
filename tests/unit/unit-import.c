/* SPDX-License-Identifier: Apache-2.0
 *
 * import: lines, inference, delimited text; every result must be the same for any size of block and number of jobs, and
 * csv must agree with a plain parser written for this test. */
#include "common/text/text.h"
#include "common/text/csv.h"
#include "tap.h"

#include <lz4frame.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static char dir[] = "/tmp/ctr-unit-import-XXXXXX";

static const char *put(const char *name, const void *p, size_t n)
{
    static char path[4][256];
    static int k;
    char *to = path[k++ & 3];
    snprintf(to, sizeof path[0], "%s/%s", dir, name);
    FILE *f = fopen(to, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f))
        abort();
    return to;
}

static struct ctr_buf text;
static struct ctr_err err;

static void add(const char *s)
{
    if (ctr_buf_append(&text, s, strlen(s), &err))
        abort();
}

/* Import files, and put the schema and the rows as text in `text`; "~" is null, "!" ends it with the error. */
static const char *import(const struct ctr_text_opts *o, const char *a, const char *b)
{
    struct ctr_import *im = NULL;
    const struct ctr_batch *batch;
    char *paths[] = { (char *)a, (char *)b }, name[64];
    err = (struct ctr_err){ 0 };
    text.len = 0;
    int rc = ctr_import_open(&im, o, paths, b ? 2 : 1, &err);
    const struct ctr_schema *s = rc ? NULL : ctr_import_schema(im);
    for (int i = 0; s && i < s->n; i++) {
        add(i ? " " : "");
        add(s->f[i].name);
        add(":");
        add(ctr_field_type_name(&s->f[i], name, sizeof name));
        if (ctr_field_role(&s->f[i]) >= 0) {
            add("@");
            add(ctr_roles[ctr_field_role(&s->f[i])]);
        }
    }
    add("\n");
    while (!rc && (rc = ctr_import_next(im, &batch, &err)) > 0)
        for (int64_t r = (rc = 0); r < batch->rows; r++, add("\n"))
            for (int c = 0; c < s->n; c++) {
                add(c ? "|" : "");
                if (ctr_col_missing(&batch->col[c], r))
                    add("~");
                else if (ctr_col_text(&batch->col[c], r, &text, &err))
                    abort();
            }
    if (!rc)
        rc = ctr_import_finish(im, &err);
    ctr_import_free(im);
    if (rc) {
        const char *base = strrchr(err.file, '/');
        add("!");
        add(base ? base + 1 : err.file);
        add(": ");
        add(err.what);
    }
    if (ctr_buf_append(&text, "", 1, &err))
        abort();
    return (const char *)text.data;
}

static bool gives(const struct ctr_text_opts *o, const char *in, const char *want)
{
    const char *got = import(o, put("in", in, strlen(in)), NULL);
    if (strcmp(got, want))
        printf("# got:\n%s\n# want:\n%s\n", got, want);
    return !strcmp(got, want);
}

#define CSV  .format = &ctr_text_csv
#define OPTS (const struct ctr_text_opts)

/* --for: queries that are not asked for, and more names that are not there than a message holds. */
static void test_for(void)
{
    static const struct ctr_text_opts sparse = { .format = &ctr_text_libsvm, .keys = "key" };
    struct ctr_strs only = { 0 };
    struct ctr_text_opts o = sparse;
    char name[600];
    if (ctr_strs_add(&only, "label", 5, &err))
        abort();
    o.only = &only;
    ok(gives(&o, "1 qid:3 2:1\n0 qid:4 2:1\n", "label:float32@label\n1\n0\n"), "--for leaves queries out");
    ctr_strs_free(&only);
    memset(name, 'n', sizeof name);
    for (size_t i = 0; i < 4; i++)
        if (ctr_strs_add(&only, name, (const size_t[]){ 600, 480, 90, 90 }[i], &err))
            abort();
    const char *got = import(&OPTS{ CSV, .columns = "a:int64", .only = &only }, put("in", "1\n", 2), NULL);
    const char *at = strstr(got, "--for: the input has none of the plan's columns: nnn");
    ok(at && !strcmp(strrchr(at, 'n'), "n, ..."),
       "--for: of many names that are not there, those that a message holds");
    ctr_strs_free(&only);
}

/* --like a schema of other columns than the format makes, or of a table of another name. */
static void test_like(void)
{
    static const struct {
        const char *name;
        enum ctr_type item;
        const char *want;
    } cases[] = {
        { "a.b", CTR_UTF8, "a.b:list<utf8>\n[x]\n" },
        { "b.weight", CTR_F32, "\n!: --like: column b.weight holds no texts; --keys hash makes such" },
    };
    for (size_t i = 0; i < CTR_COUNT(cases); i++) {
        struct ctr_schema like = { 0 };
        if (ctr_schema_add(&like, cases[i].name, CTR_LIST, &err))
            abort();
        like.f[0].item = cases[i].item;
        ok(gives(&OPTS{ .format = &ctr_text_vw, .keys = "text", .like = &like }, "1 |a.b x\n", cases[i].want),
           "--like of %s", cases[i].name);
        ctr_schema_free(&like);
    }
    struct ctr_schema like = { 0 };
    struct ctr_import *im = NULL;
    char *paths[] = { (char *)put("in", "1 |a x\n", 7) };
    const struct ctr_text_opts o = { .format = &ctr_text_vw, .like = &like };
    if (ctr_schema_add(&like, "a", CTR_LIST, &err) || ctr_meta_set(&like.f[0].meta, CTR_META_TABLE, "theirs", &err))
        abort();
    like.f[0].item = CTR_WKEY;
    const bool opened = ctr_import_open(&im, &o, paths, 1, &err) == 0;
    const struct ctr_schema *s = opened ? ctr_import_schema(im) : NULL;
    ok(opened && s->n == 1 && !strcmp(ctr_meta_get(&s->f[0].meta, CTR_META_TABLE), "theirs"),
       "--like keeps the name of a table: %s", opened ? "it does" : err.what);
    ctr_import_free(im);
    ctr_schema_free(&like);
}

static void test_basics(void)
{
    ok(gives(&OPTS{ CSV }, "1,a,2.5\n-2,,\n", "c1:int64 c2:utf8 c3:float64\n1|a|2.5\n-2|~|~\n"),
       "columns c1, c2, …; empty is null");
    ok(gives(&OPTS{ CSV, .header = true }, "x,,y\r\n1,2,true\r\n3,4,False",
             "x:int64 c2:int64 y:bool\n1|2|true\n3|4|false\n"),
       "header, CRLF, an unnamed column, no last newline");
    ok(gives(&OPTS{ CSV, .header = true }, "\xef\xbb\xbfx\n1\n", "x:int64\n1\n"), "byte order mark");
    ok(gives(&OPTS{ CSV, .header = true }, "a,b\n\"x, \"\"y\"\"\",1\n\"two\nlines\",2\n\"\",3\n,4\n",
             "a:utf8 b:int64\nx, \"y\"|1\ntwo\nlines|2\n|3\n~|4\n"),
       "quotes: delimiters, doubled quotes, newlines, empty text and null");
    ok(gives(&OPTS{ CSV }, "5\" pipe,a\"b\n\"7\",\"\"\n", "c1:utf8 c2:utf8\n5\" pipe|a\"b\n7|\n"),
       "quotes inside a cell are text");
    ok(gives(&OPTS{ .format = &ctr_text_tsv }, "\"a\tb\"\nc\td\n", "c1:utf8 c2:utf8\n\"a|b\"\nc|d\n"),
       "tsv has no quoting");
    ok(gives(&OPTS{ CSV, .delimiter = "::" }, "1::a:b::2\n2::c::\n", "c1:int64 c2:utf8 c3:int64\n1|a:b|2\n2|c|~\n"),
       "delimiter ::");
    ok(gives(&OPTS{ CSV, .nulls = &(struct ctr_strs){ (char *[]){ "NA" }, 1, 1 } }, "1,NA\nNA,\n",
             "c1:int64 c2:utf8\n1|~\n~|\n"),
       "--null NA");
    ok(gives(&OPTS{ CSV, .latin1 = true }, "caf\xe9,1\n", "c1:utf8 c2:int64\ncaf\xc3\xa9|1\n"), "latin1");
    ok(gives(&OPTS{ CSV }, "007,1e3,18446744073709551615,9999999999999999999999,1,true,\n-1,1,1,1,x,1,\n",
             "c1:utf8 c2:float64 c3:uint64 c4:utf8 c5:utf8 c6:utf8 c7:utf8\n007|1000|18446744073709551615|"
             "9999999999999999999999|1|true|~\n-1|1|1|1|x|1|~\n"),
       "inference keeps leading zeros and long identities");
    ok(gives(&OPTS{ CSV, .columns = "a:int8,t:timestamp[unix],w:list<int32>,f:float16,k:fixed_size_list<float32>[2]" },
             "-128,1,\"[1,-2,]\",0.1,\"[1.5,2]\"\n127,-1.5,[],65504,\n",
             "a:int8 t:timestamp w:list<int32> f:float16 k:fixed_size_list<float32>[2]\n"
             "-128|1970-01-01T00:00:01Z|[1,-2,]|0.099975586|[1.5,2]\n127|1969-12-31T23:59:58.500Z|[]|65504|~\n"),
       "typed columns, lists");
    ok(gives(&OPTS{ CSV, .header = true, .columns = "z=b:int8" }, "a,b\n1,2\n", "a:int64 z:int8\n1|2\n"),
       "--columns renames one");
    ok(gives(&OPTS{ CSV, .header = true, .columns = "b:float32" }, "a,b\n1,2\n", "a:int64 b:float32\n1|2\n"),
       "--columns types one");
    ok(gives(&OPTS{ CSV, .header = true, .columns = "id,I[1..2]" }, ",0,1\n7,8,9\n",
             "id:int64 I1:int64 I2:int64\n7|8|9\n"),
       "--columns renames all, with a range");
    struct ctr_text_opts roles = { CSV, .columns = "u,t,y" };
    roles.role[CTR_ROLE_LABEL] = "y";
    roles.role[CTR_ROLE_TIME] = "t:%m/%d/%Y %I:%M:%S %p";
    ok(gives(&roles, "a,11/9/2019 6:42:51 PM,1\n", "u:utf8 t:timestamp@time y:int64@label\na|2019-11-09T18:42:51Z|1\n"),
       "roles");
    struct ctr_strs only = { 0 };
    if (ctr_strs_add(&only, "b", 1, &err))
        abort();
    ok(gives(&OPTS{ CSV, .header = true, .only = &only }, "a,b,c\nx,1,y\n", "b:int64\n1\n"),
       "--for leaves the others out");
    ctr_strs_free(&only);
    test_for();
    test_like();
    ok(gives(&OPTS{ CSV, .columns = "a:int64" }, "", "a:int64\n"), "empty input with columns");
    ok(gives(&OPTS{ CSV }, "", "\n!in: the input is empty: without --columns its columns are not known"),
       "empty input without");
    ok(gives(&OPTS{ CSV, .header = true }, "a,b\n", "a:utf8 b:utf8\n"), "a header alone");
    const char *a = put("a", "x,y\n1,2\n", 8);
    ok(!strcmp(import(&OPTS{ CSV, .header = true }, a, put("b", "x,y\r\n3,4", 8)), "x:int64 y:int64\n1|2\n3|4\n"),
       "a header a file");
    ok(strstr(import(&OPTS{ CSV, .header = true }, a, put("b", "x,z\n3,4\n", 8)),
              "!b: line 1: the header differs from that of"),
       "a different header");
}

static void test_errors(void)
{
    static const struct {
        struct ctr_text_opts o;
        const char *in, *says;
    } t[] = {
        { { CSV }, "1,2\n3\n", "!in: line 2: 1 column where there should be 2" },
        { { CSV }, "1,2\n\n", "!in: line 2: an empty line where there should be 2 columns" },
        { { CSV }, "1,\"a\nb\"\n1,2,3\n", "!in: line 3: 3 columns where there should be 2" },
        { { CSV, .columns = "a:int64,b:int64" },
          "1,2\n3,4.5\n",
          "!in: line 2: column b: '4.5' is not int64; --columns b:float64 or --bad-rows settles it" },
        { { CSV, .columns = "a:int8" }, "1\n128\n", "column a: '128' is not int8; --columns a:int64" },
        { { CSV, .columns = "a:int64" }, "x\x01y\n", "column a: $'x\\x01y' is not int64; --columns a:utf8" },
        { { CSV, .columns = "a:float64" }, "NA\n", "column a: 'NA' is not float64; --null 'NA' may settle it" },
        { { CSV, .columns = "a:timestamp" }, "12/31/1999\n", "is no time in the form ISO 8601; --time a:FORMAT" },
        { { CSV }, "caf\xe9\n", "column c1: $'caf\\xe9' is not UTF-8; --encoding latin1" },
        { { CSV }, "1,2\n3,\"x\n", "!in: line 2: a quote is not closed; --format tsv" },
        { { CSV }, "1,2\n3,\"x\"y\n", "!in: line 2: text follows a closing quote" },
        { { CSV, .columns = "a,b,c" }, "1,2\n", "line 1 has 2 columns, --columns names 3" },
        { { CSV, .columns = "a=b" }, "1\n", "--columns: a=b wants --header" },
        { { CSV, .columns = "a:int65" }, "1\n", "'int65' is no type, the nearest is int6" },
        { { CSV, .columns = "a:" }, "1\n", "--columns: 'a:' is not NAME[=SOURCE][:TYPE]" },
        { { CSV, .columns = "a,a" }, "1,2\n", "a" },
        { { CSV, .header = true, .columns = "prise:int8" },
          "price,b\n1,2\n",
          "--columns: the input has no column 'prise'; the nearest is 'price'" },
        { { CSV, .bad_rows = "skip=1" }, "1,2\n3\n4\n", "line 3: bad row 2 where --bad-rows allows 1: 1 column where" },
        { { CSV, .bad_rows = "skip" }, "1\n", "--bad-rows wants fail, skip=MAX or quarantine=FILE, not 'skip'" },
        { { CSV, .delimiter = "\"" }, "1\n", "--delimiter wants" },
        { { CSV }, "PK\3\4zip", "is a zip archive" },
        { { CSV },
          "\xff\xfe"
          "1\0",
          "is UTF-16" },
    };
    for (size_t i = 0; i < CTR_COUNT(t); i++) {
        const char *got = import(&t[i].o, put("in", t[i].in, strlen(t[i].in)), NULL);
        bool found = strchr(got, '!') && strstr(got, t[i].says);
        ok(found, "%s", t[i].says);
        if (!found)
            printf("# got %s\n", got);
    }
    char *wide = malloc(40000);
    memset(wide, ',', 40000);
    wide[39999] = '\n';
    ok(strstr(import(&OPTS{ CSV }, put("in", wide, 40000), NULL), "40000 columns, at most 10000"), "too many columns");
    free(wide);
}

/* ---- against a plain parser ---- */

/* Random csv, cells of all kinds; `want` gets the rows as import() shows them when read as two columns of text and one
 * of int64, bad rows left out; bad gets their number. */
static void random_csv(uint64_t seed, struct ctr_buf *in, struct ctr_buf *want, int64_t *bad, bool quotes)
{
    static const char *const raw[] = { "a",          "bc",
                                       "",           "\"q\"",
                                       "\"x,y\"",    "\"l\nm\"",
                                       "\"d\"\"e\"", "sixteen bytes ok",
                                       "\"\"",       "a much longer cell, no: without a delimiter it is",
                                       "z\"w",       "12",
                                       "\xc3\xa9" };
    static const char *const value[] = { "a", "bc", "~",    "q",  "x,y",     "l\nm", "d\"e", "sixteen bytes ok",
                                         "",  NULL, "z\"w", "12", "\xc3\xa9" };
    uint64_t k = 0;
    *bad = 0;
    in->len = want->len = 0;
    for (int r = 0; r < 6000; r++) {
        char row[256] = "", cell[32];
        bool good = true;
        for (int c = 0; c < 2; c++) {
            unsigned x = (unsigned)(ctr_random64(seed, 0, k++) % CTR_COUNT(raw));
            if (!quotes && (raw[x][0] == '"' || !value[x]))
                x = 7;
            good &= value[x] != NULL;
            strcat(row, value[x] ? value[x] : "");
            strcat(row, "|");
            if (ctr_buf_append(in, raw[x], strlen(raw[x]), &err) || ctr_buf_append(in, ",", 1, &err))
                abort();
        }
        uint64_t x = ctr_random64(seed, 0, k++);
        if (x % 50 == 0) {
            strcpy(cell, "1x");
            good = false;
        } else if (x % 7 == 0) {
            strcpy(cell, "");
        } else {
            snprintf(cell, sizeof cell, "%lld", (long long)((int64_t)ctr_random64(seed, 1, k) >> (x % 64)));
        }
        strcat(row, *cell ? cell : "~");
        if (ctr_buf_append(in, cell, strlen(cell), &err) ||
            ctr_buf_append(in, x & 8 ? "\r\n" : "\n", x & 8 ? 2 : 1, &err))
            abort();
        strcat(row, "\n");
        *bad += !good;
        if (good && ctr_buf_append(want, row, strlen(row), &err))
            abort();
    }
}

static void test_random(void)
{
    struct ctr_buf in = { 0 }, want = { 0 };
    for (uint64_t seed = 0; seed < 6; seed++) {
        int64_t bad;
        random_csv(seed, &in, &want, &bad, seed & 1);
        const char *path = put("random", in.data, in.len);
        char q[300], option[320];
        snprintf(q, sizeof q, "%s/q", dir);
        snprintf(option, sizeof option, "quarantine=%s", q);
        for (int jobs = 1; jobs <= 4; jobs += 3) {
            struct ctr_text_opts o = { CSV,          .columns = "a:utf8,b:utf8,c:int64", .bad_rows = option,
                                       .jobs = jobs, .batch_rows = (int64_t)seed * 350,  .block_bytes = seed * 3000 };
            const char *got = strchr(import(&o, path, NULL), '\n') + 1;
            ok(strlen(got) == want.len && !memcmp(got, want.data, want.len), "6,000 random rows, seed %d, %d jobs",
               (int)seed, jobs);
        }
        /* what was quarantined is as many rows as were bad, and every one of them is bad again */
        struct ctr_text_opts again = { CSV, .columns = "a:utf8,b:utf8,c:int64", .bad_rows = "skip=100000" };
        struct ctr_import *im;
        struct ctr_import_stats st;
        const struct ctr_batch *b;
        char *paths[] = { q };
        int64_t rows = 0;
        int rc = ctr_import_open(&im, &again, paths, 1, &err);
        while (!rc && (rc = ctr_import_next(im, &b, &err)) > 0)
            rows += b->rows, rc = 0;
        st.bad = -1;
        if (im)
            ctr_import_get_stats(im, &st);
        ctr_import_free(im);
        ok(!rc && rows == 0 && st.bad == bad, "the quarantine of seed %d holds the %d bad rows", (int)seed, (int)bad);
    }
    ctr_buf_free(&in);
    ctr_buf_free(&want);
}

/* Blocks of any size are the input, in order, cut between records. */
static void test_lines(void)
{
    struct ctr_buf in = { 0 }, want = { 0 };
    int64_t bad;
    random_csv(99, &in, &want, &bad, true);
    const char *path = put("lines", in.data, in.len - 1); /* without the last newline */
    for (size_t size = 64; size <= 65536; size = size * 5 / 2) {
        struct ctr_lines *l;
        struct ctr_lines_opts o = { .block_bytes = size, .delimiter = ",", .no_sample = true };
        struct ctr_text_block b;
        char *paths[] = { (char *)path };
        size_t at = 0;
        int64_t line = 1;
        bool same = true;
        int rc = ctr_lines_open(&l, paths, 1, &o, &err);
        if (!rc)
            rc = ctr_lines_slots(l, 3, &err);
        while (!rc && (rc = ctr_lines_next(l, &b, &err)) > 0) {
            rc = 0;
            same &=
                at + b.n <= in.len && !memcmp(in.data + at, b.p, b.n) && b.first_line == line && b.p[b.n - 1] == '\n';
            same &= ctr_count_byte(b.p, b.n, '"') % 2 == ctr_count_byte(b.p, b.n, 'z') % 2; /* every z"w holds one */
            line += ctr_count_byte(b.p, b.n, '\n');
            at += b.n;
        }
        ctr_lines_free(l);
        ok(!rc && same && at == in.len, "blocks of %zu bytes are the input", size);
    }
    ctr_buf_free(&in);
    ctr_buf_free(&want);
    int64_t n = 0;
    char *many = malloc(100000);
    for (int i = 0; i < 100000; i++)
        n += (many[i] = i % 7 ? 'a' : '\n') == '\n';
    ok(ctr_count_byte(many, 100000, '\n') == n, "counting newlines");
    free(many);
}

/* ---- packed text ---- */

static size_t pack_gzip(void *to, size_t room, const void *p, size_t n)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)room };
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) || deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    size_t k = z.total_out;
    deflateEnd(&z);
    return k;
}

static size_t pack_zstd(void *to, size_t room, const void *p, size_t n)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    size_t k = ZSTD_compress2(c, to, room, p, n);
    ZSTD_freeCCtx(c);
    return k;
}

static size_t pack_zstd_plain(void *to, size_t room, const void *p, size_t n)
{
    return ZSTD_compress(to, room, p, n, 3); /* no checksum: nothing follows the last block */
}

static size_t pack_lz4(void *to, size_t room, const void *p, size_t n)
{
    LZ4F_preferences_t how = { .frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled };
    return LZ4F_compressFrame(to, room, p, n, &how);
}

/* The rows of a file, -2 when they are not those of test_packed, or -1 with what ended it in err. */
static int64_t count_rows(const char *path, size_t block_bytes)
{
    struct ctr_text_opts o = { CSV, .columns = "a:int64,b:utf8", .block_bytes = block_bytes };
    struct ctr_import *im = NULL;
    const struct ctr_batch *b;
    char *paths[] = { (char *)(uintptr_t)path };
    int64_t rows = 0;
    bool same = true;
    err = (struct ctr_err){ 0 };
    int rc = ctr_import_open(&im, &o, paths, 1, &err);
    while (!rc && (rc = ctr_import_next(im, &b, &err)) > 0)
        for (int64_t i = rc = 0; i < b->rows; i++)
            same &= ((const int64_t *)b->col[0].data)[i] == rows++ % 20000;
    ctr_import_free(im);
    return rc ? -1 : same ? rows : -2;
}

/* Two frames behind one another are one text; one that is cut short or changed is no shorter text. */
static void test_packed(void)
{
    static const struct {
        const char *name, *says;
        size_t (*pack)(void *to, size_t room, const void *p, size_t n);
        bool sums;
    } packers[] = { { "gzip", "gzip", pack_gzip, true },
                    { "zstd", "zstd", pack_zstd, true },
                    { "zstd without a checksum", "zstd", pack_zstd_plain, false },
                    { "lz4", "lz4", pack_lz4, true } };
    struct ctr_buf in = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < 20000; i++)
        rc =
            ctr_buf_printf(&in, &err, "%d,%s%d\n", i, i % 1000 < 900 ? "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" : "b", i * i);
    size_t room = 2 * in.len;
    char *to = malloc(room);
    for (size_t m = 0; !rc && to && m < CTR_COUNT(packers); m++) {
        size_t one = packers[m].pack(to, room, in.data, in.len),
               n = one + packers[m].pack(to + one, room - one, in.data, in.len);
        ok(count_rows(put("packed", to, n), 0) == 40000 && count_rows(put("packed", to, n), 64) == 40000,
           "%s: two frames, blocks of two sizes", packers[m].name);
        bool cut = true, changed = true;
        for (size_t k = 1; k < 40; k++) {
            size_t keep = k < 4 ? n - k : k == 20 ? one + 9 : n * k / 40;
            cut &= count_rows(put("packed", to, keep), 0) == -1 && strstr(err.what, packers[m].says) &&
                   strstr(err.what, "truncated") && err.file[0];
        }
        ok(cut, "%s: cut short (%s)", packers[m].name, err.what);
        ok(strstr(import(&OPTS{ CSV, .batch_rows = 100 }, put("packed", to, one / 2), NULL), packers[m].says),
           "%s: cut short, batches of a hundred rows (%s)", packers[m].name, err.what);
        for (size_t k = 1; packers[m].sums && k < 40; k++) {
            to[n * k / 40] ^= 4;
            changed &= count_rows(put("packed", to, n), 0) == -1;
            to[n * k / 40] ^= 4;
        }
        ok(changed, "%s: changed (%s)", packers[m].name, err.what);
    }
    free(to);
    ctr_buf_free(&in);
}

static void test_strangers(void)
{
    ok(ctr_text_format_guess("a.tsv.zst") == &ctr_text_tsv && ctr_text_format_guess("a.csv.lz4") == &ctr_text_csv &&
           ctr_text_format_guess("a.ndjson.gz") == &ctr_text_jsonl &&
           ctr_text_format_guess("a.csv.xz") == &ctr_text_csv && !ctr_text_format_guess(".csv"),
       "formats by suffix");
    static const struct {
        const char *magic, *says;
    } files[] = { { "\x1f\x9d....", "gzip -dc" },
                  { "\x02\x21\x4c\x18....", "lz4 -dc" },
                  { "PAR1....", "is Parquet" },
                  { "ARROW1....", "ctr-cat" },
                  { "\xff\xff\xff\xff....", "ctr-cat" },
                  { "\xff\xfe"
                    "a...",
                    "UTF-16" } };
    for (size_t i = 0; i < CTR_COUNT(files); i++)
        ok(count_rows(put("stranger", files[i].magic, strlen(files[i].magic)), 0) == -1 &&
               strstr(err.what, files[i].says),
           "no text: %s", err.what);
}

/* A quote that is never closed spoils its line, not the file. */
static void test_open_quote(void)
{
    struct ctr_buf in = { 0 };
    int rc = ctr_buf_append(&in, "1,\"open\n", 8, &err);
    for (int i = 0; !rc && i < 300000; i++)
        rc = ctr_buf_printf(&in, &err, "%d,x\n", i);
    const char *path = put("open", in.data, in.len);
    struct ctr_text_opts o = { CSV, .columns = "a:int64,b", .bad_rows = "skip=1" };
    const char *got = import(&o, path, NULL);
    ok(!rc && !strncmp(got, "a:int64 b:utf8\n0|x\n1|x\n", 23) && strstr(got, "\n299999|x\n") && !strchr(got, '!'),
       "an open quote spoils one line");
    ctr_buf_free(&in);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_basics();
    test_errors();
    test_lines();
    test_random();
    ctr_cpu_limit("plain"); /* the index without AVX2 */
    test_random();
    test_open_quote();
    ctr_cpu_limit(NULL);
    test_open_quote();
    test_packed();
    test_strangers();
    ctr_buf_free(&text);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command))
        return 1;
    return done_testing();
}
