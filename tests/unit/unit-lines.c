/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-lines: the reader of lines while calls of the system fail or are interrupted, while nothing comes, and at its
 * limits: the same bytes, or an error that says which call and why. */
#include <errno.h>
#include <lz4frame.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/text/text.h"
#include "packers.h"
#include "tap.h"

static struct ctr_err err;
static char path[32];
static int fd;

static void check(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s %s\n", err.what, strerror(errno));
        exit(1);
    }
}

/* ---- calls that fail ---- */

static enum { NONE, READ, FSTAT } failing;
static int countdown, fail_with;

static bool fails(int call)
{
    if (call != (int)failing || --countdown)
        return false;
    errno = fail_with;
    return true;
}
ssize_t read(int f, void *p, size_t n)
{
    return fails(READ) ? -1 : syscall(SYS_read, f, p, n);
}
int fstat(int f, struct stat *sb)
{
    return fails(FSTAT) ? -1 : (int)syscall(SYS_fstat, f, sb);
}

/* ---- what is read ---- */

static void put(const void *p, size_t n)
{
    if (ftruncate(fd, 0) || pwrite(fd, p, n, 0) != (ssize_t)n)
        check(-1);
}

/* All lines of the file: a hash of their bytes, and how many blocks and lines there are. */
struct seen {
    int64_t blocks, lines, bytes;
    int64_t long_parts, long_bytes; /* of records that are too long, which count above as well */
    uint64_t hash;
};
static int read_all(const struct ctr_lines_opts *o, struct seen *s)
{
    char *paths[] = { path };
    struct ctr_lines *l = NULL;
    struct ctr_text_block b;
    err = (struct ctr_err){ 0 };
    *s = (struct seen){ 0 };
    int rc = ctr_lines_open(&l, paths, 1, o, &err);
    while (!rc && (rc = ctr_lines_next(l, &b, &err)) > 0) {
        s->blocks++;
        s->lines += ctr_count_byte(b.p, b.n, '\n');
        s->bytes += (int64_t)b.n;
        if (b.part != CTR_TEXT_WHOLE) {
            s->long_parts++;
            s->long_bytes += (int64_t)b.n;
        }
        for (size_t i = 0; i < b.n; i++)
            s->hash = s->hash * 31 + (uint8_t)b.p[i];
        rc = 0;
    }
    ctr_lines_free(l);
    return rc;
}

/* ---- the cases ---- */

enum { TEXT = 400000 };
static char text[TEXT];

static size_t plain(uint8_t *to)
{
    memcpy(to, text, TEXT);
    return TEXT;
}
static size_t gzip(uint8_t *to)
{
    z_stream z = { .next_in = (Bytef *)text, .avail_in = TEXT, .next_out = to, .avail_out = 2 * TEXT };
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        check(-1);
    (void)deflateEnd(&z);
    return z.total_out;
}
static size_t zstd(uint8_t *to)
{
    return ZSTD_compress(to, 2 * TEXT, text, TEXT, 1);
}
static size_t lz4(uint8_t *to)
{
    return LZ4F_compressFrame(to, 2 * TEXT, text, TEXT, NULL);
}
static size_t bzip2(uint8_t *to)
{
    return pack_with_bzip2(to, 2 * TEXT, text, TEXT);
}
static size_t xz(uint8_t *to)
{
    return pack_with_xz(to, 2 * TEXT, text, TEXT);
}

/* Reads fail one by one, and are interrupted. What is packed holds a hundred times its size. */
static void test_reads(void)
{
    static size_t (*const ways[])(uint8_t *) = { plain, gzip, zstd, lz4, bzip2, xz };
    static uint8_t bytes[2 * TEXT];
    for (size_t i = 0; i < TEXT; i++)
        text[i] = i % 16 == 15 ? '\n' : (char)('a' + i % 16);
    for (size_t k = 0; k < CTR_COUNT(ways); k++)
        for (int latin1 = 0; latin1 < 2; latin1++) {
            struct ctr_lines_opts o = { .latin1 = latin1, .block_bytes = 4096 };
            struct seen want, got;
            int failed = 0, silent = 0, other = 0;
            const size_t n = ways[k](bytes);
            if (!n) /* this build lacks it */
                continue;
            put(bytes, n);
            check(read_all(&o, &want));
            other += want.lines != TEXT / 16;
            for (bool more = true; more; failed += more) {
                failing = READ;
                countdown = failed + 1;
                fail_with = EINTR;
                other += read_all(&o, &got) < 0 || got.hash != want.hash || got.bytes != want.bytes;
                countdown = failed + 1;
                fail_with = EIO;
                int rc = read_all(&o, &got);
                failing = NONE;
                more = countdown < 1;
                silent += more && (rc != CTR_ESYS || !strstr(err.what, "read failed: Input/output error"));
            }
            ok(!silent && !other && failed > 1, "way %zu%s: reads fail at %d places, %d silent, %d other bytes", k,
               latin1 ? ", latin1" : "", failed, silent, other);
        }
    const struct ctr_lines_opts o = { 0 };
    struct seen got;
    failing = FSTAT, countdown = 1, fail_with = EIO;
    ok(read_all(&o, &got) == CTR_ESYS && countdown < 1, "it cannot be asked what kind of file it is: %s", err.what);
    failing = NONE;
}

/* Packed files that are cut or damaged anywhere: the lines before that come out, the same ones and the same error in
 * blocks of any size. Frames without a checksum hide what changed only
 * letters. */
static void test_before_errors(void)
{
    static size_t (*const ways[])(uint8_t *) = { gzip, zstd, lz4, bzip2, xz };
    static const size_t blocks[] = { 64, 5000, 100000, 1 << 20 };
    static uint8_t bytes[2 * TEXT], bad[2 * TEXT];
    uint64_t rng = 1;
    for (size_t i = 0; i < TEXT; i++)
        text[i] = i % 16 == 15 ? '\n' : (char)('a' + (ctr_mix64(rng++) & 1));
    for (size_t k = 0; k < CTR_COUNT(ways); k++) {
        const size_t n = ways[k](bytes);
        if (!n) /* this build lacks it */
            continue;
        int other = 0, failed = 0, lines = 0;
        for (size_t i = 1; i < 20; i++) {
            struct ctr_lines_opts o = { .block_bytes = blocks[0] };
            struct seen want, got;
            char what[sizeof err.what];
            memcpy(bad, bytes, n);
            bad[i * n / 20] ^= 0x10;
            put(bad, i % 2 ? n : i * n / 20);
            const int rc = read_all(&o, &want);
            memcpy(what, err.what, sizeof what);
            failed += rc < 0;
            lines += want.lines > 0;
            for (size_t b = 1; b < CTR_COUNT(blocks); b++) {
                o.block_bytes = blocks[b];
                other += read_all(&o, &got) != rc || got.lines != want.lines || got.hash != want.hash ||
                         strcmp(what, err.what) != 0;
            }
        }
        ok(!other && failed > 5 && lines > 9, "way %zu: 19 errors, %d seen, %d behind lines, %d other ones", k, failed,
           lines, other);
    }
}

/* A piece of the file ends with a packed block, whose text has not been handed out: two frames, and between them one
 * that is skipped, as long as it takes. */
static void test_block_at_end(void)
{
    enum { PIECE = 256 << 10, SKIPPED = 0x184d2a50 };
    const struct ctr_lines_opts o = { .block_bytes = 4096 };
    static uint8_t bytes[PIECE + 2 * TEXT];
    struct seen got;
    uint32_t block;
    const size_t one = lz4(bytes);
    memcpy(&block, bytes + 7, 4); /* its length, after the header of the frame */
    const size_t at = PIECE - (7 + 4 + (size_t)block);
    const uint32_t skip[2] = { SKIPPED, (uint32_t)(at - one - 8) };
    memcpy(bytes + at, bytes, one);
    memcpy(bytes + one, skip, sizeof skip);
    put(bytes, at + one);
    ok(read_all(&o, &got) == 0 && got.lines == TEXT / 16 * 2, "a block at the end of a piece: %lld lines %s",
       (long long)got.lines, err.what);
}

/* A record that is too long, in a packed file that is cut short: its parts come, then the error. */
static void test_long_before_error(void)
{
    enum { MEMBERS = 2 * CTR_RECORD_BYTES / TEXT };
    static uint8_t one[2 * TEXT];
    struct seen got;
    memset(text, 'x', TEXT);
    const size_t n = gzip(one);
    uint8_t *all = malloc(MEMBERS * n);
    if (!all)
        check(-1);
    for (size_t i = 0; i < MEMBERS; i++)
        memcpy(all + i * n, one, n);
    put(all, MEMBERS * n - 1);
    const int rc = read_all(&(struct ctr_lines_opts){ 0 }, &got);
    ok(rc == CTR_EDATA && strstr(err.what, "truncated") && !got.lines && got.long_parts > 1 &&
           got.long_bytes == got.bytes,
       "a long record, cut short: %lld bytes in %lld parts, then %s", (long long)got.long_bytes,
       (long long)got.long_parts, err.what);
    free(all);
}

/* Records that are longer than one may be, or quoted over many lines, and few of them in the first block. */
static void test_limits(void)
{
    const size_t n = (size_t)40 << 20;
    const struct ctr_lines_opts o = { .delimiter = "," };
    struct seen got;
    char *p = malloc(n);
    if (!p)
        check(-1);
    memset(p, 'y', n);
    p[0] = '"';
    p[17 << 20] = '\n';
    put(p, ((size_t)17 << 20) + 1);
    ok(read_all(&o, &got) == 0 && got.lines == 1 && got.long_parts > 1 && got.long_bytes == (17 << 20) + 1,
       "a quote without an end: %lld parts %s", (long long)got.long_parts, err.what);
    for (int gap = 0; gap < 3; gap++) { /* the last without a newline, which is supplied */
        const size_t most = CTR_RECORD_BYTES + 1;
        memset(p, 'x', n);
        p[1] = p[most + (size_t)gap] = p[most + (size_t)gap + 2] = '\n';
        put(p, most + (size_t)gap + 5);
        ok(read_all(&o, &got) == 0 && got.lines == 4 && got.bytes == (int64_t)most + gap + 6 &&
               got.long_bytes == (gap == 2 ? (int64_t)most + 1 : 0),
           "%d bytes around the limit: %lld lines, %lld bytes of a long one", gap, (long long)got.lines,
           (long long)got.long_bytes);
    }
    memset(p, 'x', n);
    p[17 << 20] = '\n';
    put(p, n);
    ok(read_all(&o, &got) == 0 && got.lines == 2 && got.long_bytes == (int64_t)n + 1 && got.bytes == got.long_bytes,
       "two long lines, the last without an end: %lld bytes in %lld parts", (long long)got.long_bytes,
       (long long)got.long_parts);
    memset(p, 'y', n);
    p[0] = '"';
    p[17 << 20] = '\n';
    p[5] = '\n';
    p[18 << 20] = '\n';
    for (size_t i = 10 << 20; i < 19 << 20; i += 1 << 20)
        p[i] = '\n';
    put(p, ((size_t)18 << 20) + 1);
    ok(read_all(&o, &got) == 0 && got.bytes == (18 << 20) + 1 && got.lines > 8,
       "a quote without an end spoils its line alone: %lld lines %s", (long long)got.lines, err.what);
    for (size_t i = 0; i < n; i++)
        p[i] = i % 100000 == 99999 ? '\n' : 'z';
    p[n - 1] = '\n';
    put(p, n);
    ok(read_all(&o, &got) == 0 && got.bytes == (int64_t)n && got.blocks > 10, "400 records of 100 KB: %lld blocks",
       (long long)got.blocks);
    free(p);
}

/* ---- nothing comes ---- */

static int through_pipe(const void *bytes, size_t n)
{
    int p[2];
    check(pipe(p));
    check(write(p[1], bytes, n) == (ssize_t)n ? 0 : -1);
    check(dup2(p[0], STDIN_FILENO));
    close(p[0]);
    return p[1];
}

/* What came is handed out while the writer waits: of two gzip members, the second of which lies in the same piece. */
static void test_idle(void)
{
    static uint8_t bytes[2 * TEXT];
    char *stdin_path[] = { "-" };
    const struct ctr_lines_opts o = { .idle_ms = 1, .no_sample = true };
    struct ctr_lines *l;
    struct ctr_text_block b;
    for (size_t i = 0; i < TEXT; i++)
        text[i] = '\n';
    const size_t n = gzip(bytes);
    memcpy(bytes + n, bytes, n);
    int out = through_pipe(bytes, 2 * n);
    check(ctr_lines_open(&l, stdin_path, 1, &o, &err));
    int64_t lines = 0;
    bool idle = false;
    while (!idle && ctr_lines_next(l, &b, &err) > 0) {
        lines += (int64_t)b.n;
        idle = b.idle;
    }
    ok(idle && lines == 2 * TEXT, "two members come whole before the reader is idle: %lld lines", (long long)lines);
    ctr_lines_free(l);
    close(out);
}

static int open_numbers(struct ctr_import **im, char *const *paths, int jobs, int64_t batch_rows, int idle_ms)
{
    const struct ctr_text_opts o = {
        .format = &ctr_text_csv, .columns = "a:int64", .jobs = jobs, .batch_rows = batch_rows, .idle_ms = idle_ms
    };
    err = (struct ctr_err){ 0 };
    return ctr_import_open(im, &o, paths, 1, &err);
}

/* The same of an import: blocks on threads, or put together. */
static void test_import(void)
{
    char *stdin_path[] = { "-" }, *paths[] = { path };
    struct ctr_import *im;
    const struct ctr_batch *b;
    for (int gather = 0; gather < 2; gather++) {
        int out = through_pipe("1\n2\n", 4);
        check(open_numbers(&im, stdin_path, gather ? 1 : 2, gather ? 100 : 0, 1));
        ok(ctr_import_next(im, &b, &err) == 1 && b->rows == 2 && ctr_import_idle(im),
           "rows come while the writer waits");
        check(write(out, "3\n", 2) == 2 ? 0 : -1);
        close(out);
        ok(ctr_import_next(im, &b, &err) == 1 && b->rows == 1 && ctr_import_next(im, &b, &err) == 0, "and the others");
        ctr_import_free(im);
    }
    put("1\nx\n", 4);
    check(open_numbers(&im, paths, 1, 100, 0));
    ok(ctr_import_next(im, &b, &err) == 1 && b->rows == 1 && ctr_import_next(im, &b, &err) == CTR_EDATA &&
           strstr(err.what, "'x' is not int64"),
       "a bad row, behind the rows before it: %s", err.what);
    ctr_import_free(im);
    put("1\n2\n", 4);
    check(open_numbers(&im, paths, 1, 100, 0));
    failing = READ, countdown = 1, fail_with = EIO;
    int rc;
    while ((rc = ctr_import_next(im, &b, &err)) > 0)
        ;
    failing = NONE;
    ok(rc == 0 || strstr(err.what, "read failed"), "a read that fails: %d %s", rc, err.what);
    ctr_import_free(im);
}

/* Rows are put together up to so many bytes of their text: 70 MB of one long column. */
static void test_gather(void)
{
    enum { ROWS = 70, WIDE = 1 << 20 };
    char *line = malloc(WIDE), *paths[] = { path };
    const struct ctr_text_opts o = { .format = &ctr_text_csv, .columns = "a", .jobs = 1, .batch_rows = 1000 };
    struct ctr_import *im;
    const struct ctr_batch *b;
    int64_t rows = 0, batches = 0;
    if (!line || ftruncate(fd, 0))
        check(-1);
    memset(line, 'w', WIDE);
    line[WIDE - 1] = '\n';
    for (int i = 0; i < ROWS; i++)
        check(pwrite(fd, line, WIDE, (off_t)i * WIDE) == WIDE ? 0 : -1);
    check(ctr_import_open(&im, &o, paths, 1, &err));
    for (; ctr_import_next(im, &b, &err) > 0; batches++)
        rows += b->rows;
    ok(rows == ROWS && batches > 1, "70 MB: %lld rows in %lld batches %s", (long long)rows, (long long)batches,
       err.what);
    ctr_import_free(im);
    free(line);
}

int main(void)
{
    fd = memfd_create("lines", 0);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    test_reads();
    test_before_errors();
    test_block_at_end();
    test_long_before_error();
    test_limits();
    test_idle();
    test_import();
    test_gather();
    return done_testing();
}
