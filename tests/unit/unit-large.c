/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-large: lengths above 2 GiB and 4 GiB: what the format allows is read and written, what 32-bit offsets cannot say
 * is refused with words. Bodies are holes in a file. `make check` does what touches few of their pages; with
 * CTR_LARGE=1
 * (`make fault LINE=12`) all of it, in up to 8 GiB of memory and of disk.
 */
#include "common/text/text.h"
#include "foreign.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 300 << 20 }; /* of 8 bytes: 2.3 GiB */
#define BIG ((int64_t)1 << 31)

static struct ctr_err err;
static int fd;
static char path[32];

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s: %s %s\n", err.file, err.what, strerror(errno));
        exit(1);
    }
}

static double peak_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

/* ---- streams and files ---- */

/* A column of bits, then one of integers, twice. */
#define NUMBERS                                                                                                        \
    {                                                                                                                  \
        .type = ARROW_BATCH, .rows = ROWS, .nodes = 2, .node = { { ROWS, 0 }, { ROWS, 0 } }, .buffers = 4, .buffer = { \
            { NULL, 0, 0 },                                                                                            \
            { NULL, ROWS / 8, 0 },                                                                                     \
            { NULL, 0, 0 },                                                                                            \
            { NULL, (int64_t)ROWS * 8, 0 }                                                                             \
        }                                                                                                              \
    }
static const struct a_stream numbers = { { { "bit", ARROW_BOOL }, { "n", ARROW_INT, 64, 1 } }, { NUMBERS, NUMBERS } };

/* The last row of both blocks: true, 7. */
static void write_numbers(bool file)
{
    struct arrow_block b[2];
    must(a_write_file(fd, &numbers, b, &err) < 0 ? -1 : 0);
    for (int i = 0; i < 2; i++) {
        int64_t body = b[i].offset + b[i].meta_length;
        must(pwrite(fd, "\x80", 1, body + ROWS / 8 - 1) == 1 ? 0 : -1);
        must(pwrite(fd, "\7", 1, body + b[i].body_length - 8) == 1 ? 0 : -1);
    }
    if (!file) { /* what lies between the magic and the footer is a stream */
        must(lseek(fd, 8, SEEK_SET) == 8 ? 0 : -1);
        must(ftruncate(fd, b[1].offset + b[1].meta_length + b[1].body_length + 8));
    }
}

/* Reads one column or all; the sum of the last rows of the batches. A stream comes on stdin, from byte 8 on. */
static int64_t read_numbers(bool file, int column, int64_t *rows, struct ctr_reader_stats *st)
{
    char *paths[] = { file ? path : "-" };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int64_t sum = 0;
    int rc;
    if (!file)
        must(dup2(fd, 0));
    must(ctr_reader_open(&r, paths, 1, NULL, &err));
    if (column >= 0)
        must(ctr_reader_project(r, &column, 1, &err));
    for (*rows = 0; (rc = ctr_reader_next(r, &b, &err)) > 0; *rows += b->rows)
        for (int c = 0; c < b->schema->n; c++)
            sum += ctr_col_i64(&b->col[c], b->rows - 1);
    must(rc);
    ctr_reader_get_stats(r, st);
    ctr_reader_free(r);
    return sum;
}

static void test_file(void)
{
    struct ctr_reader_stats st;
    int64_t rows;
    write_numbers(true);
    int64_t sum = read_numbers(true, 0, &rows, &st);
    ok(sum == 2 && rows == 2 * (int64_t)ROWS && st.bytes_read == rows / 8,
       "a file of 4.7 GiB: a column of bits beyond 4 GiB; %lld rows, %lld bytes read", (long long)rows,
       (long long)st.bytes_read);
}

static void test_all_columns(void)
{
    struct ctr_reader_stats st;
    int64_t rows;
    write_numbers(true);
    int64_t sum = read_numbers(true, -1, &rows, &st);
    ok(sum == 16 && rows == 2 * (int64_t)ROWS, "a file of 4.7 GiB: columns of 2.3 GiB");
    write_numbers(false);
    sum = read_numbers(false, -1, &rows, &st);
    ok(sum == 16 && rows == 2 * (int64_t)ROWS && st.bytes_read > 2 * BIG,
       "a stream of 4.7 GiB: %lld bytes read, at most %.0f MiB of memory", (long long)st.bytes_read, peak_mib());
}

/* Text whose offsets are 64 bits wide, of n bytes in one row: in a file, so that unread bytes take no memory.
 */
static int read_large_text(int64_t n, int64_t *length)
{
    const int64_t offsets[2] = { 0, n };
    const struct a_stream s = { { { "t", ARROW_LARGE_UTF8 } },
                                { { .type = ARROW_BATCH,
                                    .rows = 1,
                                    .nodes = 1,
                                    .node = { { 1, 0 } },
                                    .buffers = 3,
                                    .buffer = { { NULL, 0, 0 }, { offsets, 16, 0 }, { NULL, n, 0 } } } } };
    struct arrow_block b[1];
    struct ctr_reader *r = NULL;
    const struct ctr_batch *got;
    char *paths[] = { path };
    must(a_write_file(fd, &s, b, &err) < 0 ? -1 : 0);
    must(ctr_reader_open(&r, paths, 1, NULL, &err));
    int rc = ctr_reader_next(r, &got, &err);
    *length = rc > 0 ? (int64_t)ctr_col_str(&got->col[0], 0).n : 0;
    ctr_reader_free(r);
    return rc;
}

static void test_large_text(bool all)
{
    int64_t length;
    int rc = read_large_text(BIG, &length);
    ok(rc == CTR_EKIND && strstr(err.what, "more than 2^31-1 bytes or items: write smaller batches"),
       "a text of 2 GiB is refused: %s", err.what);
    if (all)
        ok(read_large_text(BIG - 1, &length) == 1 && length == BIG - 1, "and one of a byte less is read");
}

/* A batch whose one column has 2.3 GiB, through a writer that keeps it whole, in each kind of body, and that cuts it.
 */
static void test_write(enum ctr_compression how, int64_t batch_rows, const char *what)
{
    struct ctr_schema s = { 0 };
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *got;
    char *paths[] = { path }, to[32];
    int64_t *v = calloc(ROWS, 8), rows = 0, last = 0;
    int rc;
    must(v ? 0 : -1);
    v[ROWS - 1] = 7;
    const struct ctr_col col = { .type = CTR_I64, .rows = ROWS, .data = v };
    must(ctr_schema_add(&s, "n", CTR_I64, &err));
    must(ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -1 : 0);
    snprintf(to, sizeof to, "/dev/fd/%d", fd);
    must(ctr_out_open(&o, to, 0, &err));
    must(ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = batch_rows, .compression = how }, &err));
    must(ctr_writer_batch(w, &(struct ctr_batch){ .schema = &s, .rows = ROWS, .col = &col }, &err));
    must(ctr_writer_finish(w, &err));
    must(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    free(v);
    must(ctr_reader_open(&r, paths, 1, NULL, &err));
    while ((rc = ctr_reader_next(r, &got, &err)) > 0) {
        rows += got->rows;
        last = ctr_col_i64(&got->col[0], got->rows - 1);
    }
    must(rc);
    ok(rows == ROWS && last == 7, "%s: 2.3 GiB in %lld bytes, at most %.0f MiB", what, (long long)ctr_out_tell(o),
       peak_mib());
    ctr_reader_free(r);
    ctr_out_free(o);
    ctr_schema_free(&s);
}

/* ---- columns that grow ---- */

/* A list of 2^30 bits, doubled until its items would be 2^31. */
static void test_items(void)
{
    struct ctr_colbuf b;
    const struct ctr_field f = { .type = CTR_LIST, .item = CTR_BOOL };
    const int32_t offsets[2] = { 0, 1 << 30 };
    uint8_t *bits = calloc(1 << 27, 1);
    must(bits ? 0 : -1);
    const struct ctr_col item = { .type = CTR_BOOL, .rows = 1 << 30, .data = bits };
    const struct ctr_col list = { .type = CTR_LIST, .rows = 1, .offsets = offsets, .item = &item };
    must(ctr_colbuf_init(&b, &f, &err));
    must(ctr_colbuf_range(&b, &list, 0, 1, &err));
    int rc = ctr_colbuf_range(&b, &list, 0, 1, &err);
    ok(rc == CTR_ELARGE && strstr(err.what, "more than 2^31-1 bytes or items in one batch") && b.rows == 1,
       "a column of 2^31 items is refused: %s", err.what);
    ctr_colbuf_free(&b);
    free(bits);
}

static void test_text_grows(void)
{
    struct ctr_colbuf b;
    char *p = calloc(1 << 30, 1);
    must(p ? 0 : -1);
    must(ctr_colbuf_init(&b, &(struct ctr_field){ .type = CTR_UTF8 }, &err));
    must(ctr_colbuf_str(&b, p, 1 << 30, &err));
    must(ctr_colbuf_str(&b, p, (1 << 30) - 1, &err));
    int rc = ctr_colbuf_str(&b, p, 1, &err);
    ok(rc == CTR_ELARGE && strstr(err.what, "more than 2^31-1 bytes or items in one batch"),
       "a column of 2^31 bytes of text is refused: %s", err.what);
    ctr_colbuf_free(&b);
    free(p);
}

/* ---- text ---- */

/* A process that writes `lines` lines of `n` bytes; returns the reading end. */
static pid_t write_lines(int64_t lines, int64_t n, int *from)
{
    int p[2];
    must(pipe(p));
    pid_t child = fork();
    must(child);
    *from = p[0];
    if (child) {
        close(p[1]);
        return child;
    }
    static char piece[1 << 20];
    memset(piece, 'a', sizeof piece);
    signal(SIGPIPE, SIG_DFL);
    close(p[0]);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t left = n; left > 0; left -= (int64_t)sizeof piece) {
            piece[sizeof piece - 1] = left <= (int64_t)sizeof piece ? '\n' : 'a';
            if (ctr_write_full(p[1], piece, sizeof piece, &err))
                _exit(1);
        }
    _exit(0);
}

static void test_csv(int64_t lines, int64_t n, bool good)
{
    struct ctr_text_opts o = { .format = &ctr_text_csv, .jobs = 1 };
    struct ctr_import_stats st = { 0 };
    struct ctr_import *im = NULL;
    const struct ctr_batch *b;
    char *paths[] = { "-" };
    int from, status, rc, null = open("/dev/null", O_RDONLY);
    pid_t child = write_lines(lines, n, &from);
    must(dup2(from, 0));
    close(from);
    rc = ctr_import_open(&im, &o, paths, 1, &err);
    while (!rc && (rc = ctr_import_next(im, &b, &err)) > 0)
        rc = 0;
    if (im)
        ctr_import_get_stats(im, &st);
    ctr_import_free(im);
    must(dup2(null, 0)); /* the pipe has no reader now */
    close(null);
    waitpid(child, &status, 0);
    if (good)
        ok(!rc && st.rows == lines && st.bytes == lines * n, "csv of %lld bytes: %lld rows%s%s", (long long)st.bytes,
           (long long)st.rows, rc ? ": " : "", rc ? err.what : "");
    else
        ok(rc == CTR_EDATA && st.rows == 0, "a text of %lld bytes in csv is refused: %s, at most %.0f MiB",
           (long long)n, err.what, peak_mib());
}

int main(void)
{
    bool all = getenv("CTR_LARGE");
    FILE *f = tmpfile();
    must(f ? 0 : -1);
    fd = fileno(f);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    test_csv(1, BIG + (256 << 20), false);
    test_file();
    test_large_text(all);
    test_items();
    if (all) {
        test_csv(4608, 1 << 20, true);
        test_all_columns();
        test_write(CTR_PLAIN, ROWS, "one batch, plain");
        test_write(CTR_LZ4, ROWS, "one batch, lz4");
        test_write(CTR_ZSTD, ROWS, "one batch, zstd");
        test_write(CTR_PLAIN, CTR_BATCH_ROWS, "batches of 8192 rows");
        test_text_grows();
    }
    fclose(f);
    return done_testing();
}
