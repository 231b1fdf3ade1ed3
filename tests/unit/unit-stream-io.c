/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-stream-io: a stream or an IPC file comes through a pipe, a file, a FIFO that is followed, or a file that grows,
 * in pieces of any size, while each call of the system fails or is interrupted: the same rows, or an error that says
 * which call and why.
 */
#include "foreign.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct ctr_err err;
static char path[64], ipc_path[64];

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s: %s %s\n", err.file, err.what, strerror(errno));
        exit(1);
    }
}

/* ---- calls that fail ---- */

enum call { NONE, READV, POLL, MMAP, FSTAT, PREAD, LSEEK };
static enum call failing;
static int countdown, fail_with;
static size_t most; /* bytes a readv gives; 0: all */

static bool fails(enum call c)
{
    if (c != failing || --countdown)
        return false;
    errno = fail_with;
    return true;
}

ssize_t readv(int fd, const struct iovec *v, int n)
{
    if (fails(READV))
        return -1;
    const struct iovec piece = { v->iov_base, most && most < v->iov_len ? most : v->iov_len };
    return syscall(SYS_readv, fd, most ? &piece : v, most ? 1 : n);
}
int poll(struct pollfd *p, nfds_t n, int ms)
{
    return fails(POLL) ? -1 : (int)syscall(SYS_poll, p, n, ms);
}
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return fd >= 0 && fails(MMAP) ? MAP_FAILED : (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
int fstat(int fd, struct stat *sb)
{
    return fails(FSTAT) ? -1 : (int)syscall(SYS_fstat, fd, sb);
}
ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    return fails(PREAD) ? -1 : syscall(SYS_pread64, fd, p, n, at);
}

off_t lseek(int fd, off_t at, int whence)
{
    return fails(LSEEK) ? -1 : (off_t)syscall(SYS_lseek, fd, at, whence);
}

/* ---- what is read ---- */

static int idle_calls, idle_limit, idle_fd;
static bool idle(void *ctx) /* writes more, or gives up */
{
    const char *more = ctx;
    if (more && idle_calls == 1)
        must(write(idle_fd, more, 8) == 8 ? 0 : -1);
    return ++idle_calls < idle_limit;
}

static int64_t rows;
static int read_all(const char *from, const struct ctr_reader_opts *o)
{
    char *paths[] = { (char *)(uintptr_t)from };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    err = (struct ctr_err){ 0 };
    idle_calls = 0;
    rows = 0;
    int rc = ctr_reader_open(&r, paths, 1, o, &err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, &err)) > 0)
        rows += b->rows;
    ctr_reader_free(r);
    return rc;
}

static bool says(int rc, const char *words)
{
    if (rc >= 0 || !strstr(err.what, words))
        printf("# %d %s\n", rc, err.what);
    return rc < 0 && strstr(err.what, words);
}

/* The file's bytes come on stdin through a pipe, whose other end is returned. */
static int through_pipe(const char *from)
{
    char bytes[16384];
    int p[2], fd = open(from, O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);
    must(n > 0 && n < (ssize_t)sizeof bytes ? pipe(p) : -1);
    must(write(p[1], bytes, (size_t)n) == n ? dup2(p[0], 0) : -1);
    close(p[0]);
    close(fd);
    return p[1];
}

static int read_pipe(const char *from)
{
    close(through_pipe(from));
    return read_all("-", NULL);
}

/* ---- the cases ---- */

static void test_reads(void)
{
    static const struct {
        const char *what;
        int (*read)(const char *from);
        const char *from;
    } ways[] = { { "a stream through a pipe", read_pipe, path },
                 { "an IPC file through a pipe", read_pipe, ipc_path } };
    for (size_t k = 0; k < CTR_COUNT(ways); k++) {
        long failed = 0, silent = 0, other = 0;
        int rc = 0;
        for (most = 0; most < 100; most = 3 * most + 1) {
            rc = ways[k].read(ways[k].from);
            other += rc < 0 || rows != 6;
            for (int n = 1; n < 200; n++) {
                failing = READV;
                countdown = n;
                fail_with = EINTR;
                rc = ways[k].read(ways[k].from);
                other += rc < 0 || rows != 6;
                countdown = n;
                fail_with = EIO;
                rc = ways[k].read(ways[k].from);
                failing = NONE;
                if (countdown > 0) /* so many calls there are not */
                    break;
                failed++;
                silent += rc != CTR_ESYS || !strstr(err.what, "cannot read: Input/output error");
            }
        }
        most = 0;
        ok(!silent && !other && failed > 50,
           "%s: reads fail at %ld places, %ld silent; %ld other rows from pieces or interruptions", ways[k].what,
           failed, silent, other);
    }
}

static void test_other_calls(void)
{
    failing = MMAP, countdown = 1, fail_with = ENOMEM;
    ok(says(read_all(ipc_path, NULL), "cannot map: Cannot allocate memory"), "mmap of a file fails");
    failing = MMAP, countdown = 1;
    ok(says(read_pipe(ipc_path), "cannot map"), "mmap of what came through a pipe fails");
    failing = FSTAT, countdown = 1, fail_with = EIO;
    ok(says(read_all(path, NULL), "cannot open: Input/output error"), "fstat fails");
    failing = PREAD, countdown = 1;
    ok(says(read_all(path, NULL), "Input/output error"), "pread of the magic fails");
    failing = NONE;
    setenv("TMPDIR", "/nowhere", 1);
    ok(read_pipe(ipc_path) < 0, "no temporary file: %s", err.what);
    unsetenv("TMPDIR");
}

/* A stream of ours, of one row, in a file in memory. */
static int make_sealed(void)
{
    char sealed[64];
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b;
    struct ctr_out *o;
    struct ctr_writer *w;
    int fd = memfd_create("sealed", 0);
    snprintf(sealed, sizeof sealed, "/dev/fd/%d", fd);
    must(ctr_schema_add(&s, "a", CTR_I8, &err));
    must(ctr_batchbuf_init(&b, &s, &err));
    must(ctr_colbuf_i64(&b.col[0], 7, &err));
    must(ctr_out_open(&o, sealed, 0, &err));
    must(ctr_writer_open(&w, o, &s, NULL, &err));
    must(ctr_writer_batch(w, ctr_batchbuf_view(&b), &err));
    must(ctr_writer_finish(w, &err));
    must(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    return fd;
}

/* A foreign stream, then one of ours: the whole is not sealed. */
static void test_mixed(void)
{
    char sealed[64];
    struct ctr_reader *r;
    const struct ctr_batch *got;
    int64_t n = 0;
    int rc, fd = make_sealed();
    snprintf(sealed, sizeof sealed, "/proc/self/fd/%d", fd);
    char *paths[] = { path, sealed };
    must(ctr_reader_open(&r, paths, 2, NULL, &err));
    while ((rc = ctr_reader_next(r, &got, &err)) > 0)
        n += got->rows;
    ok(rc == 0 && n == 7, "a foreign stream and one of ours: %lld rows %s", (long long)n, err.what);
    ctr_reader_free(r);
    close(fd);
}

/* Behind a damage the next sealed stream is found, or what cannot be read is told. */
static void test_lenient(void)
{
    static const uint8_t marks[] = { 0xff, 0xff, 0xff, 0xff, 0,    0,    0,    0x7f, 0xff, 0xff, 0xff, 0xff,
                                     4,    0,    0,    0,    0xff, 0xff, 0xff, 0xff, 0,    0,    16,   0 };
    static uint8_t noise[(4 << 20) + 5000];
    static char one[1 << 14], other[1 << 14];
    const struct ctr_reader_opts lenient = { .lenient = true }, *o = &lenient;
    char name[64];
    int fd = make_sealed(), from = open(path, O_RDONLY), torn = memfd_create("torn", 0);
    const size_t n = (size_t)pread(fd, one, sizeof one, 0), m = (size_t)read(from, other, sizeof other);
    memset(noise + sizeof noise - 8192, 0xff, 4096); /* where a piece ends */
    must(write(torn, one, n) < 0 || write(torn, one, n - 20) < 0 ? -1 : 0);
    must(write(torn, noise, sizeof noise) < 0 || write(torn, marks, sizeof marks) < 0 ? -1 : 0);
    must(write(torn, other, m) < 0 || write(torn, one, n) < 0 ? -1 : 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", torn);
    ok(read_all(name, o) == 0 && rows == 3, "a stream behind 4 MiB of noise and a foreign one: %lld rows",
       (long long)rows);
    for (enum call c = FSTAT; c <= LSEEK; c++) {
        int failed = 0, silent = 0;
        for (bool more = true; more; failed += more) {
            failing = c, countdown = failed + 1, fail_with = EIO;
            const int rc = read_all(name, o);
            more = countdown < 1;
            silent += more && rc != CTR_ESYS && rows != 3;
        }
        failing = NONE;
        ok(failed && !silent, "call %d fails %d times, %d silent", (int)c, failed, silent);
    }
    const struct ctr_reader_opts grows = { .lenient = true, .follow = true, .idle = idle, .idle_ms = 1 };
    idle_limit = 3;
    ok(read_all(name, &grows) == 0 && rows == 2, "not in a file that grows: %lld rows", (long long)rows);
    int p[2];
    must(pipe(p));
    must(write(p[1], one, n - 20) < 0 || write(p[1], one, n) < 0 ? -1 : 0);
    close(p[1]);
    snprintf(name, sizeof name, "/proc/self/fd/%d", p[0]);
    ok(read_all(name, o) == 0 && rows == 1, "not in a pipe with a name: %lld rows", (long long)rows);
    close(p[0]);
    close(from);
    from = open(ipc_path, O_RDONLY);
    const ssize_t all = read(from, other, sizeof other);
    snprintf(name, sizeof name, "/proc/self/fd/%d", torn);
    int part = 0;
    for (ssize_t at = 8; at < all; at += 8) {
        other[at] ^= 1;
        must(ftruncate(torn, 0) < 0 || pwrite(torn, other, (size_t)all, 0) < 0 ? -1 : 0);
        other[at] ^= 1;
        part += read_all(name, o) == 0 && rows == 3;
    }
    ok(part, "an IPC file has the blocks before its damage: %d times one of two", part);
    close(from);
    close(torn);
    close(fd);
}

static void test_kinds(void)
{
    int pt = posix_openpt(O_RDWR | O_NOCTTY);
    if (pt >= 0 && !grantpt(pt) && !unlockpt(pt))
        ok(says(read_all(ptsname(pt), NULL), "is a terminal: name a file, or pipe a stream in"), "a terminal");
    close(pt);
    ok(says(read_all("/tmp", NULL), "is a directory"), "a directory");
    ok(says(read_all("/nowhere", NULL), "cannot open: No such file"), "nothing");
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) | dup2(pair[0], 0));
    close(pair[0]);
    close(pair[1]);
    ok(says(read_all("-", NULL), "is empty, without even a schema: "), "a socket: %s", err.what);
    const struct ctr_reader_opts follow = { .follow = true, .idle = idle };
    ok(says(read_all("-", &follow), "is empty"), "stdin that is followed, and ends");
    ok(says(read_all(ipc_path, &follow), "is an IPC file, which does not grow: only streams can be followed"),
       "an IPC file cannot be followed");
    ok(says(read_all("/nowhere", &follow), "cannot open: No such file"), "nothing that could be followed");
    char parquet[64];
    int other = memfd_create("parquet", 0);
    snprintf(parquet, sizeof parquet, "/proc/self/fd/%d", other);
    must(write(other, "PAR1\x15\4\x15\0", 8) == 8 ? 0 : -1);
    ok(says(read_all(parquet, NULL), "is Parquet, not a stream"), "Parquet");
    close(other);
    int from = open(path, O_RDONLY);
    must(dup2(from, 0) | (int)lseek(0, 0, SEEK_SET));
    close(from);
    ok(read_all("-", NULL) == 0 && rows == 6, "a file on stdin");
    from = open(ipc_path, O_RDONLY);
    must(dup2(from, 0) | (int)lseek(0, 8, SEEK_SET));
    close(from);
    ok(says(read_all("-", NULL), "is not an Arrow stream") || rows == 6,
       "an IPC file on stdin, not at its beginning: %s", err.what);
}

/* While nothing comes `idle` is asked; a poll that fails or is interrupted is a read that tells more. */
static void test_idle(void)
{
    const struct ctr_reader_opts o = { .idle = idle, .idle_ms = 1 };
    idle_limit = 3;
    int keep = through_pipe(path);
    ok(says(read_all("-", &o), "reading was given up") && idle_calls == 3, "idle three times, then given up");
    close(keep);
    for (int e = 0; e < 2; e++) {
        close(through_pipe(path));
        failing = POLL, countdown = 1, fail_with = e ? EBADF : EINTR;
        ok(read_all("-", &o) == 0 && rows == 6 && idle_calls == !e, "poll: %s", strerror(fail_with));
    }
    failing = NONE;
}

static void test_follow(void)
{
    static const uint8_t eos[8] = { 0xff, 0xff, 0xff, 0xff };
    const struct ctr_reader_opts o = { .idle = idle, .idle_ms = 1, .follow = true, .idle_ctx = (void *)(uintptr_t)eos };
    char grows[64];
    int from = open(path, O_RDONLY), fd = memfd_create("grows", 0);
    char bytes[16384];
    ssize_t n = read(from, bytes, sizeof bytes);
    snprintf(grows, sizeof grows, "/proc/self/fd/%d", fd);
    must(write(fd, bytes, (size_t)n - 8) == n - 8 ? 0 : -1);
    idle_fd = fd;
    idle_limit = 4;
    ok(says(read_all(grows, &o), "reading was given up") && rows == 6 && idle_calls == 4,
       "a file that grows, and then no more");
    idle_limit = 4;
    const struct ctr_reader_opts still = { .idle = idle, .idle_ms = 1, .follow = true };
    for (int nth = 2; nth < 4; nth++) {
        failing = FSTAT, countdown = nth, fail_with = EIO;
        ok(says(read_all(grows, &still), "reading was given up") && rows == 6 && countdown < 1,
           "it cannot be asked whether it is %s", nth == 2 ? "shorter" : "another");
        failing = NONE;
    }
    must(dup2(fd, 0) | (int)lseek(0, 0, SEEK_SET));
    ok(says(read_all("-", &still), "reading was given up") && rows == 6 && idle_calls == 4,
       "a file on stdin that grows");
    idle_limit = 4;
    struct ctr_reader *r;
    const struct ctr_batch *b;
    char *paths[] = { grows };
    idle_calls = 0;
    must(ctr_reader_open(&r, paths, 1, &still, &err));
    must(ctr_reader_next(r, &b, &err));
    must(ftruncate(fd, 8));
    int rc;
    while ((rc = ctr_reader_next(r, &b, &err)) > 0)
        ;
    ok(says(rc, "was cut short while it was followed") || says(rc, "given up"), "a file that is cut short: %s",
       err.what);
    ctr_reader_free(r);

    char fifo[] = "/tmp/unit-stream-io-XXXXXX";
    must(mkdtemp(fifo) ? 0 : -1);
    char name[64];
    snprintf(name, sizeof name, "%s/link", fifo);
    must(pwrite(fd, bytes, (size_t)n - 8, 0) == n - 8 ? symlink(grows, name) : -1);
    paths[0] = name;
    must(ctr_reader_open(&r, paths, 1, &still, &err));
    must(unlink(name) | symlink("/", name));
    idle_calls = 0;
    while ((rc = ctr_reader_next(r, &b, &err)) > 0)
        ;
    ok(says(rc, "another file took its name while it was followed"), "a link to another device: %s", err.what);
    ctr_reader_free(r);
    unlink(name);
    close(fd);
    snprintf(name, sizeof name, "%s/fifo", fifo);
    must(mkfifo(name, 0600));
    int rw = open(name, O_RDWR);
    must(write(rw, bytes, (size_t)n) == n ? 0 : -1);
    idle_limit = 3;
    ok(says(read_all(name, &still), "given up") && rows == 6, "a FIFO whose writers may come again");
    close(rw);
    unlink(name);
    rmdir(fifo);
    close(from);
}

/* Mapped files are found by an address in them; those beyond the table have no name, and are read all the same. */
static void test_maps(void)
{
    enum { FILES = 258 };
    static struct arrow_source s[FILES];
    static const struct ctr_reader_opts plain;
    struct ctr_reader_stats stats;
    int named = 0;
    for (int i = 0; i < FILES; i++) {
        must(ctr_source_open(&s[i], ipc_path, &plain, &stats, &err));
        const char *file = ctr_mapped_file(s[i].map);
        named += file && !strcmp(file, ipc_path);
    }
    ok(named == 256 && !ctr_mapped_file(&err) && !ctr_mapped_file(NULL),
       "%d files mapped at a time, %d of them by name", FILES, named);
    ok(read_all(ipc_path, NULL) == 0 && rows == 6, "those without one are read all the same");
    for (int i = FILES; --i;)
        ctr_source_close(&s[i]);
    const uint8_t *at = s[0].map;
    ok(ctr_mapped_file(at) && !ctr_mapped_file(at + (1 << 20)) && !ctr_mapped_file(at - (1 << 20)),
       "the pages of one, not those around");
    ctr_source_close(&s[0]);
    ok(!ctr_mapped_file(at), "none is left");
}

/* A batch is the reader's own: what another program writes to a mapped file later does not change it, and the read
 * fails. */
static void test_changed(void)
{
    char *paths[] = { ipc_path };
    struct ctr_reader *r;
    const struct ctr_batch *b;
    must(ctr_reader_open(&r, paths, 1, NULL, &err));
    must(ctr_reader_next(r, &b, &err));
    const bool before = !memcmp(b->col[0].data, "abc", 3);
    int fd = open(ipc_path, O_RDWR);
    struct stat sb;
    must(fstat(fd, &sb));
    for (off_t at = 0; at < sb.st_size; at++)
        must((int)pwrite(fd, "Z", 1, at));
    ok(before && !memcmp(b->col[0].data, "abc", 3), "what was read stays");
    int rc = ctr_reader_next(r, &b, &err);
    ok(rc < 0, "but reading fails: %s", err.what);
    ctr_reader_free(r);
    close(fd);
}

int main(void)
{
#define BATCH                                                                                                          \
    {                                                                                                                  \
        .type = ARROW_BATCH, .rows = 3, .nodes = 1, .node = { { 3, 0 } }, .buffers = 2, .buffer = {                    \
            A_NONE,                                                                                                    \
            { "abc", 3, 0 }                                                                                            \
        }                                                                                                              \
    }
    static const struct a_stream s = { { { "a", ARROW_INT, 8, 1 } }, { BATCH, BATCH } };
    struct arrow_block blocks[2];
    int fd = memfd_create("stream", 0), ipc = memfd_create("ipc", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(ipc_path, sizeof ipc_path, "/proc/self/fd/%d", ipc);
    must(a_write(fd, &s, &err) < 0 ? -1 : 0);
    must(a_write_file(ipc, &s, blocks, &err) < 0 ? -1 : 0);
    test_reads();
    test_other_calls();
    test_kinds();
    test_mixed();
    test_lenient();
    test_idle();
    test_follow();
    test_maps();
    test_changed();
    return done_testing();
}
