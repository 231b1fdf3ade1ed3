/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk: they come back as they were put, in order of keys; damaged files, a full disk. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/table/rowstore.h"

#include "tap.h"

enum { FLOATS = 51, ROWS = 5000 };

static char dir[80];

static void must(int rc, const struct ctr_err *err)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err->what);
        exit(1);
    }
}

static struct ctr_rowkey key_at(int i)
{
    return (struct ctr_rowkey){ .table = (uint32_t)i % 3, .key = ctr_mix64((uint64_t)i) };
}

static float number(int i, int j)
{
    return (float)i + (float)j / 64;
}

static int fill(struct ctr_rowstore *s, int from, int n, struct ctr_err *err)
{
    float row[FLOATS];
    int rc = 0;
    for (int i = from; i < from + n && !rc; i++) {
        for (int j = 0; j < FLOATS; j++)
            row[j] = number(i, j);
        const struct ctr_rowkey key = key_at(i);
        rc = ctr_rowstore_put(s, &key, 1, row, err);
    }
    return rc;
}

/* How many of the rows are there and right; < 0: an error. */
static int right(struct ctr_rowstore *s, int from, int n, struct ctr_err *err)
{
    static float rows[ROWS][FLOATS];
    static float *to[ROWS];
    static struct ctr_rowkey keys[ROWS];
    int good = 0;
    for (int i = 0; i < n; i++) {
        to[i] = rows[i];
        keys[i] = key_at(from + i);
    }
    int rc = ctr_rowstore_get(s, keys, n, to, err);
    for (int i = 0; i < n && !rc; i++) {
        good += keys[i].place > 0;
        for (int j = 0; j < FLOATS && keys[i].place; j++)
            if (rows[i][j] != number(from + i, j)) {
                good--;
                break;
            }
    }
    return rc ? rc : good;
}

struct seen {
    uint64_t last;
    int n;
    bool in_order;
};

static int see(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    struct seen *s = ctx;
    (void)row, (void)err;
    s->in_order &= !s->n || key > s->last;
    s->last = key;
    s->n++;
    return 0;
}

static void test_rows(void)
{
    struct ctr_err err = { 0 };
    struct ctr_rowstore *s;
    must(ctr_rowstore_open(&s, dir, FLOATS, &err), &err);
    must(fill(s, 0, ROWS / 2, &err), &err);
    must(fill(s, ROWS, ROWS / 2, &err), &err); /* ROWS / 2 … ROWS have none */
    ok(right(s, 0, ROWS, &err) == ROWS / 2, "rows that are there, and no others");
    ok(right(s, ROWS, ROWS, &err) == ROWS / 2, "of those that came later, too");
    must(fill(s, 0, ROWS / 2, &err), &err);
    ok(right(s, 0, ROWS, &err) == ROWS / 2, "and when they are put again");
    int n = 0;
    bool in_order = true;
    for (uint32_t t = 0; t < 3; t++) {
        struct seen seen = { .in_order = true };
        must(ctr_rowstore_each(s, t, see, &seen, &err), &err);
        in_order &= seen.in_order;
        n += seen.n;
    }
    ok(n == ROWS && in_order, "tables come in ascending order of keys");
    ctr_rowstore_free(s);
    ok(!rmdir(dir) && !mkdir(dir, 0700), "nothing stays");
}

/* Change a byte here and there in a file. */
static int damage(int fd)
{
    struct stat st;
    char byte;
    int n = 0;
    for (off_t at = 1000; !fstat(fd, &st) && at < st.st_size; at += 1604)
        if (pread(fd, &byte, 1, at) == 1) {
            byte = (char)~byte;
            n += pwrite(fd, &byte, 1, at) == 1;
        }
    return n;
}

static void test_damage(void)
{
    struct ctr_err err = { 0 };
    struct ctr_rowstore *s;
    struct seen seen = { .in_order = true };
    must(ctr_rowstore_open(&s, dir, FLOATS, &err), &err);
    must(fill(s, 0, ROWS, &err), &err);
    for (int twice = 0; twice < 2; twice++) {
        static const char *const names[] = { "rows", "index" };
        ok(damage(ctr_rowstore_file(s, twice)) > 0, "bytes of the file %s change", names[twice]);
        err = (struct ctr_err){ 0 };
        ok(right(s, 0, ROWS, &err) == CTR_ESYS && !strcmp(err.file, dir) && strstr(err.what, names[twice]), "%s: %s",
           err.file, err.what);
        err = (struct ctr_err){ 0 };
        ok(ctr_rowstore_each(s, 0, see, &seen, &err) == CTR_ESYS && strstr(err.what, names[twice]), "in order, too: %s",
           err.what);
        damage(ctr_rowstore_file(s, twice));
        ok(right(s, 0, ROWS, &err) == ROWS, "and what they were is right again");
    }
    ctr_rowstore_free(s);
}

/* As on a full disk: a file takes no more than some bytes. */
static void test_full(void)
{
    struct ctr_err err = { 0 };
    struct ctr_rowstore *s;
    struct rlimit old, small = { 0 };
    must(ctr_rowstore_open(&s, dir, FLOATS, &err), &err);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){ 100000, old.rlim_max };
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = fill(s, 0, 3 * ROWS, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    ok(rc == CTR_ESYS && err.file[0], "a full disk: %s", err.what);
    ctr_rowstore_free(s);
    ok(ctr_rowstore_open(&s, "/no/such/folder", FLOATS, &err) == CTR_ESYS, "no folder: %s", err.what);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.50s/unit-rowstore.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    test_rows();
    test_damage();
    test_full();
    rmdir(dir);
    return done_testing();
}
