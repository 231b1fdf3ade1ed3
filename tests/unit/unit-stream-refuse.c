/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-stream-refuse: what a writer, a reader and a keyed file refuse to do, and what a writer makes right: columns
 * without their dictionary, options with line breaks.
 */
#include "common/stream/arrow.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ctr_err err;
static int fd;
static char path[64], to[64];

static void must(int rc, const char *what)
{
    if (rc < 0) {
        printf("Bail out! %s: %s: %s\n", what, err.file, err.what);
        exit(1);
    }
}

static struct ctr_out *open_out(void)
{
    struct ctr_out *o = NULL;
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        must(-1, "truncate");
    err = (struct ctr_err){ 0 };
    must(ctr_out_open(&o, to, 0, &err), "out");
    return o;
}

static bool says(int rc, int code, const char *words)
{
    if (rc != code || !strstr(err.what, words))
        printf("# %d: %s\n", rc, err.what);
    return rc == code && strstr(err.what, words);
}

/* `rows` rows of key 0, 1, … and a name. */
static void fill(struct ctr_batchbuf *b, const struct ctr_schema *s, int64_t rows)
{
    must(ctr_batchbuf_init(b, s, &err), "rows");
    for (int64_t i = 0; i < rows; i++) {
        must(ctr_colbuf_i64(&b->col[0], i, &err), "key");
        must(ctr_colbuf_str(&b->col[1], i % 2 ? "a" : "bc", i % 2 ? 1 : 2, &err), "name");
    }
}

static void make_schema(struct ctr_schema *s, enum ctr_type key, bool dict)
{
    must(ctr_schema_add(s, "key", key, &err), "add");
    must(ctr_schema_add(s, "name", CTR_UTF8, &err), "add");
    s->f[1].dict = dict;
}

static void test_writer_states(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_writer *w;
    make_schema(&s, CTR_I64, false);
    fill(&b, &s, 7);
    struct ctr_out *o = open_out();
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = 3 }, &err), "open");
    must(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err), "batch");
    ok(ctr_writer_rows(w) == 7, "rows that wait for a batch count");
    must(ctr_writer_finish(w, &err), "finish");
    ok(says(ctr_writer_finish(w, &err), CTR_EDATA, "ended twice"), "a second end is refused");
    ok(says(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err), CTR_EDATA, "after its end"), "so are rows after it");
    ok(ctr_writer_flush(w, &err) == 0, "and there is nothing to flush");
    ctr_writer_free(w);
    ctr_out_free(o);
    must(ctr_out_open(&o, "/dev/full", 0, &err), "full");
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = 3 }, &err), "open");
    int rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), &err);
    rc = rc < 0 ? rc : ctr_writer_flush(w, &err);
    ok(says(rc, CTR_ESYS, "No space left"), "a full disk");
    ok(says(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err), CTR_EDATA, "after its end"),
       "after a failure nothing is written");
    ok(ctr_writer_flush(w, &err) == 0 && says(ctr_writer_finish(w, &err), CTR_EDATA, "after a failure"),
       "after it there is no end: the stream shall not look whole");
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    /* Rows that wait for their batch, more than the output keeps back. */
    fill(&b, &s, 20000);
    must(ctr_out_open(&o, "/dev/full", 0, &err), "full");
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = 30000 }, &err), "open");
    must(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err), "batch");
    ok(says(ctr_writer_flush(w, &err), CTR_ESYS, "No space left"), "a full disk, when rows that waited are sent");
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

/* Texts that no reader would take. */
static void test_texts(void)
{
    for (int how = 0; how < 3; how++) {
        struct ctr_schema s = { 0 };
        struct ctr_writer *w = NULL;
        struct ctr_out *o = open_out();
        must(ctr_schema_add(&s, how ? "a" : "a\xff", CTR_I64, &err), "add");
        if (how)
            must(ctr_meta_set(how == 1 ? &s.meta : &s.f[0].meta, "key", "\xff", &err), "meta");
        ok(says(ctr_writer_open(&w, o, &s, NULL, &err), CTR_EDATA,
                how ? "the metadata key is not UTF-8" : "the name of column 1 is not UTF-8"),
           "%s", err.what);
        ctr_writer_free(w);
        ctr_out_free(o);
        ctr_schema_free(&s);
    }
}

static void test_large_schema(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_writer *w = NULL;
    struct ctr_out *o = open_out();
    char *text = calloc((17 << 20) + 1, 1);
    memset(text, 'a', 17 << 20);
    must(ctr_schema_add(&s, "a", CTR_I64, &err), "add");
    must(ctr_meta_set(&s.meta, "key", text, &err), "meta");
    int rc = ctr_writer_open(&w, o, &s, NULL, &err);
    rc = rc < 0 ? rc : ctr_writer_finish(w, &err);
    ok(says(rc, CTR_EDATA, "the metadata of a message would exceed 16 MiB"), "%s", err.what);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_schema_free(&s);
    free(text);
}

/* As many columns as a reader takes, what lists consist of counted too, and one more. */
static void test_many(void)
{
    static const struct {
        enum ctr_type type, item;
        int columns;
    } row[] = { { CTR_I64, 0, 16384 }, { CTR_LIST, CTR_UTF8, 8192 }, { CTR_LIST, CTR_WKEY, 4096 } };
    for (size_t k = 0; k < 2 * CTR_COUNT(row); k++) {
        const int n = row[k / 2].columns + (int)(k % 2);
        struct ctr_schema s = { 0 };
        struct ctr_writer *w = NULL;
        struct ctr_reader *r = NULL;
        struct ctr_out *o = open_out();
        for (int i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "c%d", i);
            must(ctr_schema_add(&s, name, row[k / 2].type, &err), "add");
            s.f[i].item = row[k / 2].item;
        }
        int rc = ctr_writer_open(&w, o, &s, NULL, &err);
        if (k % 2) {
            ok(says(rc, CTR_EDATA, "more than 16384 columns"), "%d columns: %s", n, err.what);
        } else {
            must(rc, "open");
            must(ctr_writer_finish(w, &err), "finish");
            must(ctr_out_commit(o, &err), "commit");
            rc = ctr_reader_open(&r, (char *[]){ path }, 1, NULL, &err);
            ok(rc == 0 && ctr_reader_schema(r)->n == n, "%d columns are written and read again", n);
        }
        ctr_reader_free(r);
        ctr_writer_free(w);
        ctr_out_free(o);
        ctr_schema_free(&s);
    }
}

/* Rows without columns are counted, and read again. */
static void test_no_columns(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_writer *w;
    struct ctr_reader *r;
    const struct ctr_batch *b;
    char *paths[] = { path };
    int64_t rows = 0, batches = 0;
    struct ctr_out *o = open_out();
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = 10 }, &err), "open");
    must(ctr_writer_batch(w, &(struct ctr_batch){ .schema = &s, .rows = 25 }, &err), "batch");
    must(ctr_writer_finish(w, &err), "finish");
    must(ctr_out_commit(o, &err), "commit");
    ctr_writer_free(w);
    ctr_out_free(o);
    must(ctr_reader_open(&r, paths, 1, NULL, &err), "read");
    for (; ctr_reader_next(r, &b, &err) > 0; batches++)
        rows += b->rows;
    ok(rows == 25 && batches == 3, "25 rows without columns in batches of 10: %d in %d", (int)rows, (int)batches);
    ctr_reader_free(r);
}

static void test_types(void)
{
    static const struct {
        struct ctr_field f;
        const char *what;
    } cases[] = {
        { { .type = CTR_LIST, .item = CTR_LIST }, "a list of lists" },
        { { .type = CTR_FIXED, .item = CTR_WKEY, .width = 2 }, "a fixed list of weighted keys" },
        { { .type = CTR_FIXED, .item = CTR_F32, .width = -1 }, "a fixed list of -1" },
        { { .type = CTR_WKEY }, "a weighted key outside a list" },
    };
    for (size_t i = 0; i < CTR_COUNT(cases); i++) {
        struct ctr_schema s = { 0 };
        struct ctr_writer *w = NULL;
        struct ctr_out *o = open_out();
        must(ctr_schema_add(&s, "odd", CTR_I64, &err), "add");
        s.f[0].type = cases[i].f.type;
        s.f[0].item = cases[i].f.item;
        s.f[0].width = cases[i].f.width;
        ok(says(ctr_writer_open(&w, o, &s, NULL, &err), CTR_EDATA, "cannot be written"), "%s", cases[i].what);
        ctr_writer_free(w);
        ctr_out_free(o);
        ctr_schema_free(&s);
    }
}

/* A column whose schema says dictionary, and which comes without: it is its own. */
static void test_identity(void)
{
    struct ctr_schema s = { 0 }, plain = { 0 };
    struct ctr_batchbuf b;
    struct ctr_writer *w;
    struct ctr_reader *r;
    const struct ctr_batch *got;
    char *paths[] = { path };
    make_schema(&s, CTR_I64, true);
    make_schema(&plain, CTR_I64, false);
    fill(&b, &plain, 6);
    struct ctr_out *o = open_out();
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = 4 }, &err), "open");
    must(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err), "batch");
    must(ctr_writer_finish(w, &err), "finish");
    must(ctr_out_commit(o, &err), "commit");
    ctr_writer_free(w);
    ctr_out_free(o);
    must(ctr_reader_open(&r, paths, 1, NULL, &err), "read");
    int64_t rows = 0, same = 0;
    while (ctr_reader_next(r, &got, &err) > 0)
        for (int64_t i = 0; i < got->rows; i++, rows++) {
            struct ctr_str v = ctr_col_str(&got->col[1], i);
            same += got->col[1].dict && v.n == (rows % 2 ? 1u : 2u) && v.p[0] == (rows % 2 ? 'a' : 'b');
        }
    ok(rows == 6 && same == 6, "a plain column becomes its own dictionary: %d of %d", (int)same, (int)rows);
    ctr_reader_free(r);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&plain);
    ctr_schema_free(&s);
}

static int write_keyed(enum ctr_type type, const char *key)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_writer *w = NULL;
    struct ctr_writer_opts opts = { .file = true, .key = key };
    make_schema(&s, type, false);
    must(ctr_batchbuf_init(&b, &s, &err), "rows");
    must(ctr_colbuf_i64(&b.col[0], 1, &err), "key");
    must(ctr_colbuf_str(&b.col[1], "x", 1, &err), "name");
    struct ctr_out *o = open_out();
    int rc = ctr_writer_open(&w, o, &s, &opts, &err);
    if (rc >= 0)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), &err);
    if (rc >= 0)
        rc = ctr_writer_finish(w, &err);
    if (rc >= 0)
        rc = ctr_out_commit(o, &err);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    return rc;
}

static void test_keys(void)
{
    struct ctr_keyed *k = NULL;
    struct ctr_batchbuf out;
    struct ctr_colbuf text = { .type = CTR_UTF8 };
    ok(says(write_keyed(CTR_I64, "kye"), CTR_EUSAGE, "no column 'kye'"), "a key that is no column");
    ok(says(write_keyed(CTR_BOOL, "key"), CTR_EUSAGE, "keys are numbers, times or text"), "a key that cannot be one");
    must(write_keyed(CTR_U16, "key"), "write");
    must(ctr_keyed_open(&k, path, &err), "open");
    must(ctr_batchbuf_init(&out, ctr_keyed_schema(k), &err), "rows");
    must(ctr_colbuf_str(&text, "5", 1, &err), "text");
    ok(says(ctr_keyed_get_many(k, ctr_colbuf_view(&text), &out, NULL, &err), CTR_EUSAGE,
            "its key 'key' is uint16, but utf8 is looked up"),
       "a look-up by another type");
    ctr_colbuf_free(&text);
    ctr_batchbuf_free(&out);
    ctr_keyed_free(k);
    must(write_keyed(CTR_I64, NULL), "write");
    ok(says(ctr_keyed_open(&k, path, &err), CTR_EDATA, "make one with ctr-cat --to file --key"),
       "a file without a key");
}

/* A keyed file may have no rows; and as no reader waits for a file, there is nothing to flush. */
static void test_keyed_empty(void)
{
    const struct ctr_writer_opts opts = { .batch_rows = 2, .file = true, .key = "key" };
    struct ctr_schema s = { 0 };
    struct ctr_keyed *k = NULL;
    struct ctr_batchbuf out;
    struct ctr_colbuf keys = { .type = CTR_I64 };
    struct ctr_writer *w;
    bool found = true;
    make_schema(&s, CTR_I64, false);
    struct ctr_out *o = open_out();
    must(ctr_writer_open(&w, o, &s, &opts, &err), "open");
    ok(ctr_writer_flush(w, &err) == 0, "a file is not flushed");
    must(ctr_writer_finish(w, &err), "finish");
    must(ctr_out_commit(o, &err), "commit");
    ctr_writer_free(w);
    ctr_out_free(o);
    must(ctr_keyed_open(&k, path, &err), "open keyed");
    must(ctr_batchbuf_init(&out, ctr_keyed_schema(k), &err), "rows");
    must(ctr_colbuf_i64(&keys, 5, &err), "key");
    must(ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, &found, &err), "get");
    ok(!found, "a keyed file without rows has no key");
    ctr_colbuf_free(&keys);
    ctr_batchbuf_free(&out);
    ctr_keyed_free(k);
    ctr_schema_free(&s);
}

/* The items of lists that are all empty may have a bitmap of no bits. */
static void test_no_items(void)
{
    static const int32_t ends[4];
    static const uint8_t some[16] = { 1 };
    static const float none[4];
    const struct ctr_col item = { .type = CTR_F32, .rows = 0, .valid = some, .data = none };
    const struct ctr_col col = { .type = CTR_LIST, .rows = 3, .offsets = ends, .item = &item };
    struct ctr_schema s = { 0 };
    struct ctr_writer *w;
    must(ctr_schema_add(&s, "a", CTR_LIST, &err), "add");
    s.f[0].item = CTR_F32;
    struct ctr_out *o = open_out();
    must(ctr_writer_open(&w, o, &s, NULL, &err), "open");
    const struct ctr_batch b = { &s, 3, 0, &col };
    int rc = ctr_writer_batch(w, &b, &err);
    ok(rc >= 0 && ctr_writer_finish(w, &err) >= 0 && ctr_out_commit(o, &err) >= 0, "lists without items %s", err.what);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_schema_free(&s);
}

/* Tables that lie about where they are, and those that are visited more often than their bytes can be meant to be. */
static void test_tables(void)
{
    static const uint8_t behind[12] = { 4, 0, 0, 0, 0xfa, 0xff, 0xff, 0xff };
    static const uint8_t table[36] = { 12, 0, 0, 0, 6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 3 };
    struct ctr_fbr r;
    ctr_fbr_init(&r, behind, sizeof behind);
    ok(!ctr_fb_root(&r).at && r.bad, "the table of a table within the last bytes");
    for (int lists = 0; lists < 2; lists++) {
        long n = 0;
        ctr_fbr_init(&r, table, sizeof table);
        struct ctr_fb_view t = ctr_fb_root(&r);
        for (; !r.bad && n < 100000; n++)
            if (lists)
                (void)ctr_fb_list(&t, 0, 4);
            else
                (void)ctr_fb_root(&r);
        ok(r.bad && n > 1000 && n < 100000, "%s is given up after %ld visits", lists ? "a list" : "a table", n);
    }
    ctr_fbr_init(&r, table, sizeof table);
    struct ctr_fb_view t = ctr_fb_root(&r);
    struct ctr_fb_vec v = ctr_fb_list(&t, 0, 4);
    ok(v.count == 3 && !ctr_fb_at(&r, &v, 1000).at && r.bad, "an item beyond the end");
}

static void test_provenance(void)
{
    struct ctr_schema s = { 0 };
    must(ctr_schema_provenance(&s, "a", "--where 'x\n> 1'", &err), "first");
    ok(!strchr(ctr_meta_get(&s.meta, CTR_META_PG), '\n'), "a line break in an option does not break the line");
    must(ctr_schema_provenance(&s, "a", "--delimiter \xa7", &err), "latin1");
    ok(strstr(ctr_meta_get(&s.meta, CTR_META_PG), "--delimiter ?"), "a byte of latin1 does not make it no text");
    must(ctr_meta_set(&s.meta, CTR_META_PG, NULL, &err), "again");
    must(ctr_schema_provenance(&s, "a", "--where 'x\n> 1'", &err), "first");
    must(ctr_schema_provenance(&s, "b", NULL, &err), "second");
    must(ctr_schema_provenance(&s, "b", "--x", &err), "third");
    must(ctr_schema_provenance(&s, "b", "--y", &err), "fourth");
    must(ctr_schema_provenance(&s, "b", "--y", &err), "the same");
    const char *lines = ctr_meta_get(&s.meta, CTR_META_PG);
    int n = 1;
    for (const char *p = lines; *p; p++)
        n += *p == '\n';
    ok(n == 4, "the same line again is left out: %d lines", n);
    ctr_schema_free(&s);
}

/* A file of which nothing is left but its beginning and its footer. */
static void test_hollow_file(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_writer *w;
    struct ctr_reader *r = NULL;
    char *paths[] = { path };
    static uint8_t bytes[1 << 16];
    make_schema(&s, CTR_I64, false);
    struct ctr_out *o = open_out();
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .file = true }, &err), "open");
    must(ctr_writer_finish(w, &err), "finish");
    must(ctr_out_commit(o, &err), "commit");
    ctr_writer_free(w);
    ctr_out_free(o);
    const ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    int32_t footer = 0;
    if (n > 18)
        memcpy(&footer, bytes + n - 10, 4);
    const size_t kept = (size_t)footer + 10;
    if (n < 18 || footer < 1 || pwrite(fd, bytes + (size_t)n - kept, kept, 8) != (ssize_t)kept ||
        ftruncate(fd, 8 + (off_t)kept))
        must(-1, "cut");
    ok(says(ctr_reader_open(&r, paths, 1, NULL, &err), CTR_EDATA, "a block does not lie in the file"),
       "a file without its middle");
    ctr_reader_free(r);
    ctr_schema_free(&s);
}

int main(void)
{
    fd = memfd_create("refuse", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/fd/%d", fd);
    test_writer_states();
    test_hollow_file();
    test_types();
    test_texts();
    test_no_columns();
    test_large_schema();
    test_many();
    test_identity();
    test_keys();
    test_keyed_empty();
    test_no_items();
    test_tables();
    test_provenance();
    ok(ctr_mapped_file(&err) == NULL, "nothing is mapped");
    close(fd);
    return done_testing();
}
