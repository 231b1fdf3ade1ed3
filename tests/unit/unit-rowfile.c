/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk by place: they come back as they were added, from disk and from the segment that is not yet written;
 * room is reused; a damaged or cut file, a full disk. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/table/rowfile.h"

#include "tap.h"

enum { ROWS = 20000, MEMORY = 1 << 20 };

static char dir[80];
static uint32_t place[ROWS];

static void must(int rc, const struct ctr_err *err)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err->what);
        exit(1);
    }
}

static struct ctr_rowfile *open_file(int32_t floats)
{
    struct ctr_err err = { 0 };
    struct ctr_rowfile *f = NULL;
    must(ctr_rowfile_open(&f, dir, floats, false, MEMORY, &err), &err);
    return f;
}

/* Row i is i, i + 1/64, … */
static int add(struct ctr_rowfile *f, int32_t floats, int from, int n, struct ctr_err *err)
{
    float *row = malloc((size_t)floats * sizeof *row);
    int rc = 0;
    for (int i = from; i < from + n && !rc && row; i++) {
        for (int32_t j = 0; j < floats; j++)
            row[j] = (float)i + (float)j / 64;
        rc = ctr_rowfile_add(f, row, &place[i], err);
    }
    free(row);
    return rc;
}

/* How many of n rows, each `step`-th, are right; < 0: an error. */
static int right(struct ctr_rowfile *f, int32_t floats, int n, int step, struct ctr_err *err)
{
    static struct ctr_numbered get[2 * ROWS];
    float *rows = calloc((size_t)n * (size_t)floats, sizeof *rows);
    int k = 0, good = 0;
    for (int i = n - 1; i >= 0; i -= step)
        get[k++] = (struct ctr_numbered){ place[i], (uint64_t)i };
    int rc = rows ? ctr_rowfile_get(f, get, k, rows, err) : -1;
    for (int i = n - 1; i >= 0 && !rc; i -= step) {
        int same = 0;
        for (int32_t j = 0; j < floats; j++)
            same += rows[(int64_t)i * floats + j] == (float)i + (float)j / 64;
        good += same == floats;
    }
    free(rows);
    return rc ? rc : good;
}

static int64_t size_of(const struct ctr_rowfile *f)
{
    struct stat st;
    return fstat(ctr_rowfile_fd(f), &st) ? -1 : (int64_t)st.st_size;
}

static void test_rows(int32_t floats, int n)
{
    struct ctr_err err = { 0 };
    struct ctr_rowfile *f = open_file(floats);
    must(add(f, floats, 0, 1, &err), &err);
    ok(right(f, floats, 1, 1, &err) == 1 && size_of(f) == 0, "%d floats: nothing is written for a row", (int)floats);
    must(add(f, floats, 1, n - 1, &err), &err);
    ok(right(f, floats, n, 1, &err) == n, "rows come back");
    const struct ctr_rowfile_moved all = ctr_rowfile_moved(f);
    ok(all.read_bytes <= all.written_bytes && all.read_bytes >= all.reads * 4096, "all of them in %d reads of %d bytes",
       (int)all.reads, (int)(all.read_bytes / CTR_MAX(all.reads, 1)));
    ok(right(f, floats, n, 97, &err) == (n + 96) / 97, "and some of them");
    const struct ctr_rowfile_moved some = ctr_rowfile_moved(f);
    ok(some.read_bytes - all.read_bytes <= all.read_bytes, "which reads no more: %d reads, %d bytes",
       (int)(some.reads - all.reads), (int)(some.read_bytes - all.read_bytes));
    ctr_rowfile_free(f);
}

/* Rows are replaced many times: the file grows to about twice its rows. */
static void test_reuse(void)
{
    struct ctr_err err = { 0 };
    enum { FLOATS = 30, N = 5000, ROUNDS = 40 };
    struct ctr_rowfile *f = open_file(FLOATS);
    uint32_t seed = 1;
    int moved = 0;
    must(add(f, FLOATS, 0, N, &err), &err);
    const int64_t first = size_of(f);
    for (int k = 0; k < ROUNDS * N; k++) {
        const int i = (int)((seed = seed * 1664525 + 1013904223) >> 8) % N;
        ctr_rowfile_drop(f, place[i]);
        must(add(f, FLOATS, i, 1, &err), &err);
        for (int j = 0; j < N && ctr_rowfile_wasteful(f); j++)
            if (ctr_rowfile_stale(f, place[j])) {
                const uint32_t old = place[j];
                must(add(f, FLOATS, j, 1, &err), &err);
                ctr_rowfile_drop(f, old);
                moved++;
            }
    }
    ok(right(f, FLOATS, N, 1, &err) == N, "rows that were replaced %d times come back", (int)ROUNDS);
    ok(size_of(f) < 3 * first && moved, "from a file of %d KiB, after one of %d; %d were moved",
       (int)(size_of(f) >> 10), (int)(first >> 10), moved);
    ctr_rowfile_free(f);
}

static void test_damage(void)
{
    struct ctr_err err = { 0 };
    enum { FLOATS = 51, N = 5000 };
    struct ctr_rowfile *f = open_file(FLOATS);
    char byte = 0;
    must(add(f, FLOATS, 0, N, &err), &err);
    const int fd = ctr_rowfile_fd(f);
    static _Alignas(4096) char page[4096];
    ok(pread(fd, page, sizeof page, 8192) == sizeof page, "a page");
    byte = page[700];
    page[700] = (char)~byte;
    ok(pwrite(fd, page, sizeof page, 8192) == sizeof page && right(f, FLOATS, N, 1, &err) == CTR_ESYS &&
           !strcmp(err.file, dir) && strstr(err.what, "checksums"),
       "that changes: %s: %s", err.file, err.what);
    page[700] = byte;
    err = (struct ctr_err){ 0 };
    ok(pwrite(fd, page, sizeof page, 8192) == sizeof page && right(f, FLOATS, N, 1, &err) == N, "and changes back");
    ok(!ftruncate(fd, 1 << 16) && right(f, FLOATS, N, 1, &err) == CTR_ESYS && strstr(err.what, "too early"),
       "a file that is cut: %s", err.what);
    ctr_rowfile_free(f);
}

/* As on a full disk: a file takes no more than some bytes. */
static void test_full(void)
{
    struct ctr_err err = { 0 };
    struct rlimit old, small = { 0 };
    struct ctr_rowfile *f = open_file(51);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){ 100000, old.rlim_max };
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = add(f, 51, 0, ROWS, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    ok(rc == CTR_ESYS && err.file[0], "a full disk: %s", err.what);
    ctr_rowfile_free(f);
    ok(ctr_rowfile_open(&f, "/no/such/folder", 51, false, MEMORY, &err) == CTR_ESYS, "no folder: %s", err.what);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.50s/unit-rowfile.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    test_rows(3, ROWS);
    test_rows(96, ROWS);
    test_rows(600, 3000); /* 2,400 bytes: pages of 8 KiB */
    test_rows(30000, 30); /* of which a row needs a page of its own */
    test_reuse();
    test_damage();
    test_full();
    ok(!rmdir(dir), "nothing stays");
    return done_testing();
}
