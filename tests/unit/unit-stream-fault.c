/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-stream-fault: a stream that was damaged in any way is an error, nothing of a bad message comes out, and no
 * lie makes the reader crash or reserve memory. Small streams, every truncation, every bit.
 */
#include "common/stream/arrow.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct ctr_err err;
static int fd; /* memory file that the reader opens by path */
static char path[64];

static void must(int rc, const char *what)
{
    if (rc < 0) {
        printf("Bail out! %s: %s: %s\n", what, err.file, err.what);
        exit(1);
    }
}

/* ---- the subject ---- */

static void make_schema(struct ctr_schema *s)
{
    must(ctr_schema_add(s, "click", CTR_BOOL, &err), "add");
    must(ctr_schema_add(s, "n", CTR_I32, &err), "add");
    must(ctr_schema_add(s, "words", CTR_LIST, &err), "add");
    s->f[2].item = CTR_UTF8;
    must(ctr_schema_add(s, "site", CTR_UTF8, &err), "add");
    s->f[3].dict = true;
    must(ctr_field_set_role(&s->f[0], CTR_ROLE_LABEL, &err), "role");
}

static void put_rows(struct ctr_batchbuf *b, const struct ctr_col *dict, int64_t from, int64_t n)
{
    ctr_batchbuf_clear(b);
    for (int64_t i = from; i < from + n; i++) {
        char text[16];
        must(ctr_colbuf_i64(&b->col[0], i % 3 == 0, &err), "click");
        must(i % 4 == 1 ? ctr_colbuf_null(&b->col[1], &err) : ctr_colbuf_i64(&b->col[1], i * 1000, &err), "n");
        for (int64_t k = 0; k < i % 3; k++)
            must(ctr_colbuf_str(b->col[2].item, text, (size_t)snprintf(text, sizeof text, "w\xc3\xb6rd%d", (int)i),
                                &err),
                 "word");
        must(ctr_colbuf_close(&b->col[2], &err), "close");
        b->col[3].type = CTR_I32;
        must(ctr_colbuf_i64(&b->col[3], i % 2, &err), "site");
        b->col[3].type = CTR_UTF8;
    }
    b->col[3].dict = dict;
}

/* Three batches and two dictionaries. */
static uint8_t *make_bytes(bool file, enum ctr_compression how, size_t *n)
{
    struct ctr_schema s = { 0 };
    struct ctr_out *o;
    struct ctr_writer *w;
    struct ctr_batchbuf b;
    struct ctr_colbuf dict;
    make_schema(&s);
    char made[64];
    snprintf(made, sizeof made, "/tmp/unit-stream-fault-%d", (int)getpid());
    must(ctr_out_open(&o, made, 0, &err), "out");
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = 9, .file = file, .compression = how },
                         &err),
         "writer");
    must(ctr_batchbuf_init(&b, &s, &err), "batch");
    must(ctr_colbuf_init(&dict, &(struct ctr_field){ .type = CTR_UTF8 }, &err), "dict");
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            must(ctr_colbuf_str(&dict, "news.example", 12, &err), "dict");
        must(ctr_colbuf_str(&dict, "shop.example", i < 2 ? 12 : 4, &err), "dict");
        put_rows(&b, ctr_colbuf_view(&dict), 9 * i, 9);
        must(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err), "write");
    }
    must(ctr_writer_finish(w, &err), "finish");
    must(ctr_out_commit(o, &err), "commit");
    *n = (size_t)ctr_out_tell(o);
    uint8_t *p = malloc(*n);
    FILE *f = fopen(made, "rb");
    must(f && fread(p, 1, *n, f) == *n ? 0 : -1, "read");
    fclose(f);
    unlink(made);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_colbuf_free(&dict);
    ctr_schema_free(&s);
    return p;
}

static void put_bytes(const uint8_t *p, size_t n)
{
    if (ftruncate(fd, 0) < 0 || pwrite(fd, p, n, 0) != (ssize_t)n)
        must(-1, "put");
}

enum { MAX_BATCHES = 16 };

/* Under a sanitizer one change of so many; without one all of them are tried. */
#ifdef __SANITIZE_ADDRESS__
enum { PART = 21, AHEAD = 30 };
#else
enum { PART = 1, AHEAD = 3 };
#endif
struct outcome {
    int rc;
    int batches;
    int64_t rows;
    char digest[MAX_BATCHES][33]; /* after each batch */
};

static bool never_idle(void *ctx)
{
    (void)ctx;
    return true;
}

static struct outcome read_how(bool lenient, bool ahead)
{
    struct outcome out = { 0 };
    struct ctr_reader *r;
    struct ctr_digest *d;
    const struct ctr_batch *b;
    char *paths[] = { path };
    struct ctr_schema rows_only = { 0 };
    err = (struct ctr_err){ 0 };
    const struct ctr_reader_opts o = { .lenient = lenient, .idle = never_idle, .idle_ms = 1000, .ahead = ahead };
    out.rc = ctr_reader_open(&r, paths, 1, &o, &err);
    if (out.rc < 0)
        return out;
    must(ctr_schema_copy(&rows_only, ctr_reader_schema(r), &err), "schema");
    must(ctr_digest_new(&d, &rows_only, &err), "digest");
    while ((out.rc = ctr_reader_next(r, &b, &err)) > 0) {
        must(ctr_digest_batch(d, b, &err), "digest");
        out.rows += b->rows;
        if (out.batches < MAX_BATCHES)
            ctr_digest_hex(d, out.digest[out.batches++]);
    }
    ctr_digest_free(d);
    ctr_reader_free(r);
    ctr_schema_free(&rows_only);
    return out;
}

/* Now and then read ahead, too: the same batches and the same words. */
static int ahead, ahead_differs;
static struct outcome read_all(bool lenient)
{
    static unsigned calls;
    const struct outcome out = read_how(lenient, false);
    const struct ctr_err said = err;
    if (calls++ % AHEAD)
        return out;
    const struct outcome again = read_how(lenient, true);
    ahead++;
    if ((memcmp(&out, &again, sizeof out) || strcmp(said.what, err.what)) && ahead_differs++ < 5)
        printf("# %d batches, %s; ahead %d, %s\n", out.batches, said.what, again.batches, err.what);
    err = said;
    return out;
}

/* Is what came out a prefix of the good rows? */
static bool is_prefix(const struct outcome *o, const struct outcome *good)
{
    for (int i = 0; i < o->batches; i++)
        if (i >= good->batches || strcmp(o->digest[i], good->digest[i]))
            return false;
    return true;
}

/* ---- damage ---- */

static void test_truncation(const char *name, const uint8_t *p, size_t n, const struct outcome *good)
{
    size_t missed = 0, impure = 0;
    for (size_t k = 0; k < n; k++) {
        put_bytes(p, k);
        struct outcome o = read_all(false);
        missed += o.rc != CTR_EDATA;
        impure += !is_prefix(&o, good);
    }
    ok(!missed && !impure, "%s: %zu truncations, %zu missed, %zu let bad rows out", name, n, missed, impure);
}

/* Each `step`-th bit: an odd one meets each place within a byte. */
static void test_flips(const char *name, uint8_t *p, size_t n, size_t step, const struct outcome *good)
{
    size_t missed = 0, impure = 0;
    for (size_t k = 0; k < 8 * n; k += step) {
        p[k / 8] ^= (uint8_t)(1 << k % 8);
        put_bytes(p, n);
        struct outcome o = read_all(false);
        if (o.rc != CTR_EDATA && missed++ < 5)
            printf("# bit %zu of byte %zu of %zu: %d\n", k % 8, k / 8, n, o.rc);
        impure += !is_prefix(&o, good);
        p[k / 8] ^= (uint8_t)(1 << k % 8);
    }
    ok(!missed && !impure, "%s: %zu bit flips, %zu missed, %zu let bad rows out", name, (8 * n + step - 1) / step,
       missed, impure);
}

/* Where each message of a stream begins; the end mark is one too, and at[count] is the end. */
static int find_messages(const uint8_t *p, size_t n, size_t *at)
{
    struct ctr_buf scratch = { 0 };
    size_t i = 0;
    int count = 0;
    while (i < n) {
        struct arrow_message m = { 0 };
        size_t size = (size_t)ctr_fb_load32(p + i + 4);
        at[count++] = i;
        if (size)
            must(ctr_message_parse(&m, p + i, size + 8, &scratch, &err), "parse");
        i += 8 + size + (size_t)m.body_length;
    }
    at[count] = n;
    ctr_buf_free(&scratch);
    return count;
}

/* The stream made of pieces `order[0..n)` of its messages. */
static size_t assemble(uint8_t *to, const uint8_t *p, const size_t *at, const int *order, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        memcpy(to + len, p + at[order[i]], at[order[i] + 1] - at[order[i]]);
        len += at[order[i] + 1] - at[order[i]];
    }
    return len;
}

static void test_messages(const uint8_t *p, size_t n, const struct outcome *good)
{
    size_t at[32];
    int count = find_messages(p, n, at), order[64], wrong = 0, tried = 0;
    uint8_t *q = malloc(2 * n);
    for (int how = 0; how < 3; how++)
        for (int i = 0; i < count; i++)
            for (int j = i + 1; j < (how == 2 ? count : i + 2); j++) {
                int k = 0;
                for (int m = 0; m < count; m++) {
                    if (how != 0 || m != i)
                        order[k++] = how == 2 && m == i ? j : how == 2 && m == j ? i : m;
                    if (how == 1 && m == i)
                        order[k++] = m;
                }
                put_bytes(q, assemble(q, p, at, order, k));
                struct outcome o = read_all(false);
                /* Some changes of the first message leave a stream that begins without a schema, or with two. */
                wrong += o.rc != CTR_EDATA || !is_prefix(&o, good);
                tried++;
            }
    free(q);
    ok(count == 9 && !wrong, "%d messages dropped, repeated or swapped in %d ways, %d missed", count, tried, wrong);
}

static void test_lenient(const uint8_t *p, size_t n, const struct outcome *good)
{
    int wrong = 0, rescued = 0;
    for (size_t k = n / 4; k < n; k += 7) {
        put_bytes(p, k);
        struct outcome o = read_all(true);
        wrong += o.rc != 0 || !is_prefix(&o, good);
        rescued += o.batches > 0;
    }
    ok(!wrong && rescued, "lenient: what precedes the damage is rescued");
}

/* ---- lies ---- */

/* Take the seal off: rename its keys, so that the stream is a foreign one. */
static void unseal(uint8_t *p, size_t n)
{
    for (size_t i = 0; i + 8 < n; i++)
        if (!memcmp(p + i, "ctr.", 4) && memcmp(p + i, "ctr.role", 8))
            p[i] = 'x';
}

static long peak_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* Every field (each `stride` bytes) of a foreign stream replaced by extreme values: no crash (ASan and UBSan look), no
 * memory. */
static void test_lies(const char *name, const uint8_t *p, size_t n, size_t stride)
{
    static const int64_t wide[] = {
        -1, INT64_MIN, INT64_MAX, 1LL << 62, 1LL << 40, 1LL << 31, (1LL << 31) - 1, 64, 8, 1
    };
    static const int32_t narrow[] = { -1, INT32_MIN, INT32_MAX, 1 << 24, 1 << 16, 1 };
    uint8_t *q = malloc(n);
    long before = peak_kib(), tried = 0;
    for (size_t at = 0; at + 8 <= n; at += stride)
        for (size_t k = 0; k < CTR_COUNT(wide) + CTR_COUNT(narrow); k++) {
            memcpy(q, p, n);
            if (k < CTR_COUNT(wide))
                memcpy(q + at, &wide[k], 8);
            else
                memcpy(q + at, &narrow[k - CTR_COUNT(wide)], 4);
            put_bytes(q, n);
            (void)read_all(false);
            tried++;
        }
    free(q);
    long grown = peak_kib() - before;
    ok(grown < 65536, "%s: %ld lies, %ld KiB more at the peak", name, tried, grown);
}

static void test_random(const char *name, const uint8_t *p, size_t n, int rounds)
{
    uint8_t *q = malloc(n);
    for (int k = 0; k < rounds; k++) {
        memcpy(q, p, n);
        for (uint64_t j = 0; j <= ctr_random64(3, (uint64_t)k, 0) % 4; j++) {
            uint64_t r = ctr_random64(3, (uint64_t)k, j + 1);
            q[r % n] = (uint8_t)(r >> 56);
        }
        put_bytes(q, n - (k % 5 == 0 ? ctr_random64(3, (uint64_t)k, 9) % n : 0));
        (void)read_all(k & 1);
    }
    free(q);
    ok(true, "%s: %d random changes", name, rounds);
}

/* A schema message of structs in structs. */
static void test_nesting(int depth)
{
    struct ctr_fbw w = { .err = &err };
    struct ctr_fb_slot m[] = { { 2, 4, 0 }, { 1, ARROW_SCHEMA, 0 }, { CTR_FB_REF, 0, 0 }, { 8, 0, 0 } };
    struct ctr_fb_slot s[] = { { 0, 0, 0 }, { CTR_FB_REF, 0, 0 } };
    static const uint8_t head[12] = { 0xff, 0xff, 0xff, 0xff };
    must(ctr_buf_append(&w.b, head, 12, &err), "head");
    ctr_fb_child(&w, 8, m, 4);
    ctr_fb_child(&w, m[2].at, s, 2);
    size_t at = s[1].at;
    for (int i = 0; i < depth; i++) {
        struct ctr_fb_slot f[] = { { CTR_FB_REF, 0, 0 }, { 0, 0, 0 }, { 1, ARROW_STRUCT, 0 },
                                   { CTR_FB_REF, 0, 0 }, { 0, 0, 0 }, { CTR_FB_REF, 0, 0 } };
        ctr_fb_child(&w, ctr_fb_array(&w, at, 1, 4), f, 6);
        ctr_fb_text(&w, f[0].at, "a", 1);
        ctr_fb_child(&w, f[3].at, NULL, 0);
        at = f[5].at;
    }
    ctr_fb_array(&w, at, 0, 4);
    ctr_fb_align(&w, 8);
    int32_t size = (int32_t)w.b.len - 8;
    ctr_fb_put(&w, 4, &size, 4);
    put_bytes(w.b.data, w.b.len);
    struct outcome o = read_all(false);
    ok(o.rc == (depth > ARROW_MAX_DEPTH ? CTR_EKIND : CTR_EDATA) &&
           strstr(err.what, depth > ARROW_MAX_DEPTH ? "nested deeper than 16" : "truncated"),
       "%d levels: %s", depth, err.what);
    ctr_buf_free(&w.b);
}

static void test_messages_of_errors(const uint8_t *p, size_t n)
{
    put_bytes(p, 0);
    ok(read_all(false).rc == CTR_EDATA && strstr(err.what, "is empty"), "empty: %s", err.what);
    put_bytes((const uint8_t *)"click\tuser\n1\t2\n", 15);
    ok(read_all(false).rc == CTR_EDATA && strstr(err.what, "ctr-import"), "text: %s", err.what);
    put_bytes((const uint8_t *)"\x1f\x8b\x08\0\0\0\0\0\0\0", 10);
    ok(read_all(false).rc == CTR_EDATA && strstr(err.what, "gzip"), "gzip: %s", err.what);
    put_bytes(p, n - 8);
    ok(read_all(false).rc == CTR_EDATA && !strcmp(err.what, "truncated after batch 3 (row 27)") &&
           !strcmp(err.file, path),
       "no end mark: %s: %s", err.file, err.what);
}

int main(void)
{
    size_t n, k;
    fd = memfd_create("stream", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint8_t *stream = make_bytes(false, CTR_PLAIN, &n);
    put_bytes(stream, n);
    struct outcome good = read_all(false);
    ok(good.rc == 0 && good.rows == 27 && good.batches == 3, "the stream of %zu bytes is good: %s", n, err.what);
    test_messages_of_errors(stream, n);
    test_truncation("stream", stream, n, &good);
    test_flips("stream", stream, n, PART, &good);
    test_messages(stream, n, &good);
    test_lenient(stream, n, &good);

    uint8_t *file = make_bytes(true, CTR_PLAIN, &k);
    put_bytes(file, k);
    struct outcome good_file = read_all(false);
    ok(good_file.rc == 0 && good_file.rows == 27, "the file of %zu bytes is good: %s", k, err.what);
    test_truncation("file", file, k, &good_file);
    test_flips("file", file, k, PART, &good_file);

    unseal(stream, n);
    put_bytes(stream, n);
    good = read_all(false);
    ok(good.rc == 0 && good.rows == 27, "without its seal it is a foreign stream");
    test_truncation("foreign stream", stream, n, &good);
    test_lies("foreign stream", stream, n, 4);
    test_random("foreign stream", stream, n, 20000 / PART);
    unseal(file, k);
    put_bytes(file, k);
    ok(read_all(false).rc == 0, "and so is a file: %s", err.what);
    test_lies("foreign file", file, k, 4);
    test_random("foreign file", file, k, 20000 / PART);
    free(stream);
    free(file);
    for (int how = CTR_LZ4; how <= CTR_ZSTD; how++) {
        stream = make_bytes(false, (enum ctr_compression)how, &n);
        put_bytes(stream, n);
        good = read_all(false);
        ok(good.rc == 0 && good.rows == 27, "the packed stream of %zu bytes is good", n);
        test_flips(how == CTR_LZ4 ? "lz4" : "zstd", stream, n, 3 * PART, &good);
        unseal(stream, n);
        test_lies(how == CTR_LZ4 ? "lz4" : "zstd", stream, n, 12);
        test_random(how == CTR_LZ4 ? "lz4" : "zstd", stream, n, 5000 / PART);
        free(stream);
    }
    test_nesting(16);
    test_nesting(17);
    test_nesting(1000);
    close(fd);
    ok(ahead > 1000 && !ahead_differs, "%d of them read ahead, %d with another outcome", ahead, ahead_differs);
    return done_testing();
}
