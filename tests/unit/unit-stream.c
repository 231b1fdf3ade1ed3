/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-stream: every type there and back, with nulls, lists and dictionaries, as stream and as file, plain and
 * compressed; re-batching; projection; bundles; joined streams.
 */
#include "common/stream/stream.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ctr_err err;
static char path[64], path2[64];

/* One column of each type, and lists of some. */
static const char *const types[] = {
    "bool",    "int8",    "int16",   "int32", "int64",     "uint8",       "uint16",     "uint32",     "uint64",
    "float16", "float32", "float64", "utf8",  "timestamp", "list<int32>", "list<utf8>", "list<bool>", "list<timestamp>",
};

static void must(int rc, const char *what)
{
    if (rc < 0) {
        printf("# %s: %s: %s\n", what, err.file, err.what);
        printf("Bail out!\n");
        exit(1);
    }
}

static void add_fixed(struct ctr_schema *s)
{
    must(ctr_schema_add(s, "fixed", CTR_FIXED, &err), "add");
    s->f[s->n - 1].item = CTR_F32;
    s->f[s->n - 1].width = 3;
    must(ctr_schema_add(s, "weighted", CTR_LIST, &err), "add");
    s->f[s->n - 1].item = CTR_WKEY;
    must(ctr_schema_add(s, "dict", CTR_UTF8, &err), "add");
    s->f[s->n - 1].dict = true;
    must(ctr_schema_add(s, "dictlist", CTR_LIST, &err), "add");
    s->f[s->n - 1].item = CTR_I64;
    s->f[s->n - 1].dict = true;
}

static void make_schema(struct ctr_schema *s)
{
    for (size_t i = 0; i < CTR_COUNT(types); i++) {
        struct ctr_field f = { 0 };
        if (!ctr_type_parse(types[i], strlen(types[i]), &f))
            printf("# type %s\n", types[i]);
        must(ctr_schema_add(s, types[i], f.type, &err), "add");
        s->f[s->n - 1].item = f.item;
    }
    add_fixed(s);
    must(ctr_meta_set(&s->meta, "hello", "w\xc3\xb6rld", &err), "meta");
    must(ctr_field_set_role(&s->f[0], CTR_ROLE_LABEL, &err), "role");
}

static uint64_t rnd(uint64_t a, uint64_t b)
{
    return ctr_random64(1, a, b);
}

static int put_scalar(struct ctr_colbuf *b, enum ctr_type t, uint64_t v)
{
    char text[64];
    switch (t) {
    case CTR_UTF8:
        return ctr_colbuf_str(
            b, text, (size_t)snprintf(text, sizeof text, "t\xc3\xa4xt %llu", (unsigned long long)v % 1000), &err);
    case CTR_F16:
    case CTR_F32:
    case CTR_F64: return ctr_colbuf_f64(b, (double)(int64_t)(v % 2000) / 8, &err);
    case CTR_WKEY: return ctr_colbuf_wkey(b, v, (float)(v % 100) / 4, &err);
    case CTR_BOOL: return ctr_colbuf_i64(b, (int64_t)(v & 1), &err);
    default: return ctr_colbuf_i64(b, (int64_t)v, &err);
    }
}

static int put_row(struct ctr_colbuf *b, const struct ctr_field *f, uint64_t row, uint64_t col, int nulls)
{
    uint64_t v = rnd(col, row);
    int rc = 0;
    if (nulls && v % 7 == 0)
        return ctr_colbuf_null(b, &err);
    if (f->type != CTR_LIST && f->type != CTR_FIXED)
        return put_scalar(b, f->type, v);
    uint64_t n = f->type == CTR_FIXED ? 3 : v % 4;
    for (uint64_t i = 0; rc >= 0 && i < n; i++)
        rc = nulls && i == 2 && f->item != CTR_WKEY ? ctr_colbuf_null(b->item, &err)
                                                    : put_scalar(b->item, f->item, rnd(col + 100 + i, row));
    return rc < 0 ? rc : ctr_colbuf_close(b, &err);
}

/* A batch of rows [first, first+n); the dictionaries have `entries` values and are those of generation `gen`. */
struct made {
    struct ctr_batchbuf buf;
    struct ctr_colbuf dicts[32];
};
static const struct ctr_batch *make_batch(struct made *m, const struct ctr_schema *s, int64_t first, int64_t n,
                                          int nulls, int64_t gen)
{
    ctr_batchbuf_clear(&m->buf);
    for (int c = 0; c < s->n; c++) {
        struct ctr_field f = s->f[c];
        if (f.dict) {
            f.dict = false;
            ctr_colbuf_free(&m->dicts[c]);
            must(ctr_colbuf_init(&m->dicts[c], &f, &err), "dict");
            for (int64_t k = 0; k < 5 + gen; k++)
                must(put_row(&m->dicts[c], &f, (uint64_t)(k + 10 * gen), (uint64_t)c, nulls), "dict row");
        }
        for (int64_t r = 0; r < n; r++) {
            if (!s->f[c].dict) {
                must(put_row(&m->buf.col[c], &s->f[c], (uint64_t)(first + r), (uint64_t)c, nulls), "row");
                continue;
            }
            struct ctr_colbuf *b = &m->buf.col[c];
            enum ctr_type t = b->type;
            b->type = CTR_I32;
            if (nulls && (first + r) % 11 == 3)
                must(ctr_colbuf_null(b, &err), "null");
            else
                must(ctr_colbuf_i64(b, (first + r) % (5 + gen), &err), "index");
            b->type = t;
        }
        m->buf.col[c].dict = s->f[c].dict ? ctr_colbuf_view(&m->dicts[c]) : NULL;
    }
    return ctr_batchbuf_view(&m->buf);
}

static void made_init(struct made *m, const struct ctr_schema *s)
{
    memset(m, 0, sizeof *m);
    must(ctr_batchbuf_init(&m->buf, s, &err), "batchbuf");
}
static void made_free(struct made *m)
{
    for (size_t i = 0; i < CTR_COUNT(m->dicts); i++)
        ctr_colbuf_free(&m->dicts[i]);
    ctr_batchbuf_free(&m->buf);
}

/* Write `rows` rows, in batches of `step`, and give their digest. */
static void write_rows(const char *to, const struct ctr_schema *s, int64_t rows, int64_t step, int nulls,
                       const struct ctr_writer_opts *opts, char digest[33])
{
    struct ctr_out *o;
    struct ctr_writer *w;
    struct ctr_digest *d;
    struct made m;
    made_init(&m, s);
    must(ctr_out_open(&o, to, 0, &err), "out");
    must(ctr_writer_open(&w, o, s, opts, &err), "writer");
    must(ctr_digest_new(&d, s, &err), "digest");
    for (int64_t at = 0; at < rows; at += step) {
        const struct ctr_batch *b = make_batch(&m, s, at, CTR_MIN(step, rows - at), nulls, at * 3 / rows);
        must(ctr_digest_batch(d, b, &err), "digest");
        must(ctr_writer_batch(w, b, &err), "batch");
    }
    must(ctr_writer_finish(w, &err), "finish");
    must(ctr_out_commit(o, &err), "commit");
    ctr_digest_hex(d, digest);
    ctr_digest_free(d);
    ctr_writer_free(w);
    ctr_out_free(o);
    made_free(&m);
}

static int64_t read_how(char *const *paths, int n, const struct ctr_reader_opts *opts, char digest[33],
                        struct ctr_reader_stats *st)
{
    struct ctr_reader *r;
    struct ctr_digest *d;
    const struct ctr_batch *b;
    int64_t rows = 0;
    int rc = ctr_reader_open(&r, paths, n, opts, &err);
    if (rc < 0)
        return rc;
    must(ctr_digest_new(&d, ctr_reader_schema(r), &err), "digest");
    while ((rc = ctr_reader_next(r, &b, &err)) > 0) {
        must(ctr_digest_batch(d, b, &err), "digest");
        rows += b->rows;
    }
    ctr_digest_hex(d, digest);
    ctr_digest_free(d);
    if (st)
        ctr_reader_get_stats(r, st);
    ctr_reader_free(r);
    return rc < 0 ? rc : rows;
}

static bool never_idle(void *ctx)
{
    (void)ctx;
    return true;
}

/* Once as the options say, and once ahead: the same rows and counters. */
static int64_t read_rows(char *const *paths, int n, const struct ctr_reader_opts *opts, char digest[33],
                         struct ctr_reader_stats *st)
{
    struct ctr_reader_opts o = opts ? *opts : (struct ctr_reader_opts){ 0 };
    struct ctr_reader_stats one = { 0 }, two = { 0 };
    char other[33] = "";
    const int64_t rows = read_how(paths, n, opts, digest, &one);
    o.ahead = true;
    o.idle = never_idle;
    o.idle_ms = 1000;
    const int64_t ahead = read_how(paths, n, &o, other, &two);
    if (ahead != rows || (rows >= 0 && (strcmp(digest, other) || memcmp(&one, &two, sizeof one))))
        ok(false, "ahead: %lld rows, not %lld, or other counters", (long long)ahead, (long long)rows);
    if (st)
        *st = one;
    return rows;
}

static long file_bytes(const char *p, char **bytes)
{
    FILE *f = fopen(p, "rb");
    long n;
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    *bytes = malloc((size_t)n + 1);
    if (fread(*bytes, 1, (size_t)n, f) != (size_t)n)
        n = -1;
    fclose(f);
    return n;
}

static bool same_files(const char *a, const char *b)
{
    char *x, *y;
    long n = file_bytes(a, &x), k = file_bytes(b, &y);
    bool same = n == k && !memcmp(x, y, (size_t)n);
    free(x);
    free(y);
    return same;
}

static void test_round_trips(const struct ctr_schema *s)
{
    static const char *const how[] = { "plain", "lz4", "zstd" };
    char *paths[] = { path };
    for (int file = 0; file < 2; file++)
        for (int c = 0; c < 3; c++)
            for (int nulls = 0; nulls < 2; nulls++)
                for (int64_t rows = 0; rows <= 3000; rows = rows * 7 + 1) {
                    struct ctr_writer_opts wo = { .batch_rows = 100,
                                                  .compression = (enum ctr_compression)c,
                                                  .file = file };
                    char want[33], got[33];
                    write_rows(path, s, rows, 64, nulls, &wo, want);
                    int64_t n = read_rows(paths, 1, NULL, got, NULL);
                    if (n < 0)
                        printf("# %s: %s\n", err.file, err.what);
                    ok(n == rows && !strcmp(want, got), "%s %s nulls=%d rows=%lld", file ? "file" : "stream", how[c],
                       nulls, (long long)rows);
                }
}

static void test_rebatch(const struct ctr_schema *all)
{
    struct ctr_schema s = { 0 };
    char a[33], b[33];
    for (int i = 0; i < all->n; i++)
        if (!all->f[i].dict)
            must(ctr_schema_add_field(&s, &all->f[i], NULL, &err), "field");
    struct ctr_writer_opts wo = { .batch_rows = 128 };
    write_rows(path, &s, 1000, 128, 1, &wo, a);
    for (int64_t step = 1; step <= 1000; step = step * 3 + 1) {
        write_rows(path2, &s, 1000, step, 1, &wo, b);
        ok(!strcmp(a, b) && same_files(path, path2), "the same bytes from batches of %lld", (long long)step);
    }
    ctr_schema_free(&s);
}

static void test_joined(const struct ctr_schema *s)
{
    char *paths[] = { path, path2, path }, d[33], joined[33];
    write_rows(path, s, 500, 50, 1, NULL, d);
    write_rows(path2, s, 300, 30, 1, &(struct ctr_writer_opts){ .file = true, .batch_rows = 64 }, d);
    ok(read_rows(paths, 3, NULL, joined, NULL) == 1300, "stream, file, stream as one");
    char *cat, *one;
    long n = file_bytes(path, &one);
    FILE *f = fopen(path2, "wb");
    fwrite(one, 1, (size_t)n, f);
    fwrite(one, 1, (size_t)n, f);
    fclose(f);
    free(one);
    char *two[] = { path2 };
    ok(read_rows(two, 1, NULL, joined, NULL) == 1000, "cat a b");
    (void)cat;
}

static void test_project(const struct ctr_schema *s)
{
    char *paths[] = { path }, d[33];
    for (int file = 0; file < 2; file++) {
        write_rows(path, s, 2000, 100, 1, &(struct ctr_writer_opts){ .file = file, .batch_rows = 500 }, d);
        struct ctr_reader *r;
        const struct ctr_batch *b;
        struct ctr_reader_stats st;
        int cols[] = { 4 }, rc;
        int64_t rows = 0;
        must(ctr_reader_open(&r, paths, 1, NULL, &err), "open");
        must(ctr_reader_project(r, cols, 1, &err), "project");
        while ((rc = ctr_reader_next(r, &b, &err)) > 0)
            rows += b->rows;
        ctr_reader_get_stats(r, &st);
        ok(rc == 0 && rows == 2000 && ctr_reader_schema(r)->n == 1 && !strcmp(ctr_reader_schema(r)->f[0].name, "int64"),
           "one column");
        ok(st.bytes_verified == 2000 * 8 + 4 * ((500 + 7) / 8), "only its bytes are verified: %lld",
           (long long)st.bytes_verified);
        if (file)
            ok(st.bytes_read < 20000 && ctr_reader_total_rows(r) == 2000, "only its bytes are read: %lld",
               (long long)st.bytes_read);
        ctr_reader_free(r);
    }
}

static void test_parts(const struct ctr_schema *s)
{
    char *paths[] = { path, path }, d[33];
    write_rows(path, s, 950, 100, 1, &(struct ctr_writer_opts){ .file = true, .batch_rows = 100 }, d);
    int64_t total = 0;
    for (int part = 0; part < 3; part++)
        total += read_rows(paths, 2, &(struct ctr_reader_opts){ .part = part, .parts = 3 }, d, NULL);
    ok(total == 1900, "three parts of two files are the whole");
    write_rows(path, s, 950, 100, 1, NULL, d);
    ok(read_rows(paths, 1, &(struct ctr_reader_opts){ .part = 1, .parts = 3 }, d, NULL) == CTR_EUSAGE,
       "a stream has no parts");
}

/* Sections `names`, the first of which says that there are those of `sections` (NULL: it says nothing). */
static void write_bundle(const struct ctr_schema *all, const char *const *names, int n, const char *sections)
{
    struct ctr_schema s = { 0 };
    struct ctr_out *o;
    must(ctr_out_open(&o, path, 0, &err), "out");
    for (int k = 0; k < n; k++) {
        struct ctr_writer *w;
        struct made m;
        ctr_schema_free(&s);
        for (int i = k; i < k + 5; i++)
            must(ctr_schema_add_field(&s, &all->f[i], NULL, &err), "field");
        must(ctr_meta_set(&s.meta, CTR_META_SECTION, names[k], &err), "meta");
        if (!k)
            must(ctr_meta_set(&s.meta, CTR_META_SECTIONS, sections, &err), "meta");
        made_init(&m, &s);
        must(ctr_writer_open(&w, o, &s, NULL, &err), "writer");
        must(ctr_writer_batch(w, make_batch(&m, &s, 0, 10 + k, 1, 0), &err), "batch");
        must(ctr_writer_finish(w, &err), "finish");
        ctr_writer_free(w);
        made_free(&m);
    }
    must(ctr_out_commit(o, &err), "commit");
    ctr_out_free(o);
    ctr_schema_free(&s);
}

static void test_bundle(const struct ctr_schema *all)
{
    static const char *const names[] = { "lr", "vocab.a", "vocab.b" };
    static const char *const three = "lr,vocab.a,vocab.b";
    static const struct {
        const char *names[3], *sections;
        bool whole; /* read as a bundle */
        const char *says;
    } bad[] = {
        { { "lr", "vocab.a" }, "lr,vocab.a,vocab.b", true, "truncated: section 'vocab.b' is missing" },
        { { "lr", "vocab.b", "vocab.a" }, "lr,vocab.a,vocab.b", true, "section 'vocab.a' is missing" },
        { { "lr", NULL, "vocab.b" }, "lr,vocab.a,vocab.b", true, "section 'vocab.a' does not follow" },
        { { "lr", "vocab.a" }, NULL, false, "is a bundle of sections (lr, vocab.a, …)" },
        { { "lr", NULL, "vocab.b" }, NULL, false, "is a bundle of sections (lr, (unnamed), …)" },
        { { NULL, "lr" }, NULL, false, "is a bundle of sections ((unnamed), lr, …)" },
    };
    char *paths[] = { path }, d[33];
    for (size_t i = 0; i < CTR_COUNT(bad); i++) {
        struct ctr_reader *q;
        const struct ctr_batch *rows;
        int n = bad[i].names[2] ? 3 : 2, code;
        write_bundle(all, bad[i].names, n, bad[i].sections);
        err = (struct ctr_err){ 0 };
        code = ctr_reader_open(&q, paths, 1, &(struct ctr_reader_opts){ .sections = bad[i].whole }, &err);
        while (code >= 0 && bad[i].whole && (code = ctr_reader_section(q, &err)) > 0)
            ;
        while (code >= 0 && !bad[i].whole && (code = ctr_reader_next(q, &rows, &err)) > 0)
            ;
        ok(code == CTR_EDATA && strstr(err.what, bad[i].says), "a bundle: %s", err.what);
        ctr_reader_free(q);
    }
    write_bundle(all, names, 3, three);
    ok(read_rows(paths, 1, NULL, d, NULL) == CTR_EDATA && strstr(err.what, "lr, vocab.a, vocab.b"),
       "a bundle is refused");
    struct ctr_reader *r;
    const struct ctr_batch *b;
    int rc = 1;
    must(ctr_reader_open(&r, paths, 1, &(struct ctr_reader_opts){ .sections = true }, &err), "open");
    for (int k = 0; k < 3; k++) {
        int64_t rows = 0;
        ok(rc == 1 && !strcmp(ctr_meta_get(&ctr_reader_schema(r)->meta, CTR_META_SECTION), names[k]), "section %s",
           names[k]);
        if (k != 1)
            while ((rc = ctr_reader_next(r, &b, &err)) > 0)
                rows += b->rows;
        ok(k == 1 || (rc == 0 && rows == 10 + k), "its rows");
        rc = ctr_reader_section(r, &err);
    }
    ok(rc == 0, "the end");
    ctr_reader_free(r);
}

/* Entries of metadata are compared with one another: a schema of very many is refused, not read for minutes. */
static void test_metadata(void)
{
    struct ctr_schema s = { 0 };
    struct ctr_reader *r = NULL;
    char *paths[] = { path }, key[24], digest[33];

    must(ctr_schema_add(&s, "a", CTR_I32, &err), "add");
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        must(ctr_meta_set(&s.meta, key, "", &err), "meta");
    }
    write_rows(path, &s, 0, 1, 0, NULL, digest);
    ok(ctr_reader_open(&r, paths, 1, NULL, &err) == CTR_EKIND && strstr(err.what, "key-value metadata"),
       "very many entries of metadata are refused");
    ctr_reader_free(r);
    ctr_schema_free(&s);
    err = (struct ctr_err){ 0 };
}

int main(void)
{
    struct ctr_schema s = { 0 };
    snprintf(path, sizeof path, "/tmp/unit-stream-%d.a", (int)getpid());
    snprintf(path2, sizeof path2, "/tmp/unit-stream-%d.b", (int)getpid());
    make_schema(&s);
    test_round_trips(&s);
    test_rebatch(&s);
    test_joined(&s);
    test_project(&s);
    test_parts(&s);
    test_bundle(&s);
    test_metadata();
    ctr_schema_free(&s);
    if (!getenv("KEEP"))
        unlink(path);
    unlink(path2);
    return done_testing();
}
