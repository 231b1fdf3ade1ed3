/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-outpipe: output to a pipe. What was written comes out, in order, however late it is read and however long it is
 * kept, and whether the kernel takes all of it or a little at a time. */
#include "common/base/base.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROUNDS = 60 }; /* of some 300 KiB */

static struct ctr_err err;

/* Instead of the C library's: what the kernel may answer. */
static enum { TAKES, INTERRUPTED, TAKES_LITTLE } kernel;
static int calls;

ssize_t writev(int fd, const struct iovec *v, int n)
{
    struct iovec little = { v->iov_base, CTR_MIN(v->iov_len, 5000) };
    calls++;
    if (kernel == INTERRUPTED && calls % 2) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_writev, fd, kernel == TAKES_LITTLE ? &little : v, kernel == TAKES_LITTLE ? 1 : n);
}

enum { LATE = 8, LATE_BYTES = 400000 }; /* pipes of 1 MiB, and what goes into each */

struct reader {
    int from, late[LATE][2];
    uint64_t hash;
    int64_t bytes;
};

static void drain(struct reader *p, int pipe, ssize_t kept)
{
    static uint8_t buf[1 << 20];
    for (ssize_t n; kept > 0; kept -= n, p->bytes += n) {
        if ((n = read(p->late[pipe][0], buf, (size_t)CTR_MIN(kept, (ssize_t)sizeof buf))) <= 0)
            return;
        for (ssize_t i = 0; i < n; i++)
            p->hash = p->hash * 31 + buf[i];
    }
}

/* Every page goes on to other pipes, without a copy, and is read from there only when those are full. */
static void *read_late(void *arg)
{
    struct reader *p = arg;
    for (ssize_t k = 1; k > 0;) {
        ssize_t kept[LATE] = { 0 };
        for (int i = 0; i < LATE && k > 0; i++)
            while (kept[i] < LATE_BYTES && (k = splice(p->from, NULL, p->late[i][1], NULL, 65536, 0)) > 0)
                kept[i] += k;
        for (int i = 0; i < LATE; i++)
            drain(p, i, kept[i]);
    }
    return NULL;
}

static bool write_rounds(struct ctr_out *o, uint64_t *hash, int64_t *bytes)
{
    static uint8_t piece[3][200000];
    for (int r = 0; r < ROUNDS; r++) {
        struct iovec v[4];
        for (int i = 0; i < 4; i++) {
            size_t n = i == 2 ? 0 : ctr_random64(1, (uint64_t)r, (uint64_t)i) % sizeof piece[0];
            uint8_t *p = piece[i % 3];
            for (size_t k = 0; k < n && i < 3; k++)
                p[k] = (uint8_t)ctr_mix64(k + (uint64_t)r * 7 + (uint64_t)i);
            v[i] = (struct iovec){ p, n };
        }
        for (int i = 0; i < 4; i++)
            for (size_t k = 0; k < v[i].iov_len; k++, ++*bytes)
                *hash = *hash * 31 + ((uint8_t *)v[i].iov_base)[k];
        if (ctr_out_writev(o, v, 4, &err))
            return false;
    }
    return ctr_out_tell(o) == *bytes;
}

static bool make_pipes(struct reader *p, int to[2])
{
    bool good = !pipe(to);
    for (int i = 0; i < LATE; i++)
        good = good && !pipe(p->late[i]) && fcntl(p->late[i][1], F_SETPIPE_SZ, 1 << 20) == 1 << 20;
    p->from = to[0];
    return good;
}

static void test_answers(const char *what)
{
    char path[32];
    struct ctr_out *o = NULL;
    pthread_t thread;
    struct reader p = { 0 };
    uint64_t hash = 0;
    int64_t bytes = 0;
    int to[2];
    calls = 0;
    bool good = make_pipes(&p, to);
    snprintf(path, sizeof path, "/dev/fd/%d", to[1]);
    good = good && !ctr_out_open(&o, path, 0, &err);
    close(to[1]);
    if (good && !pthread_create(&thread, NULL, read_late, &p)) {
        good = write_rounds(o, &hash, &bytes) && !ctr_out_commit(o, &err);
        ctr_out_free(o);
        pthread_join(thread, NULL);
    }
    ok(good && p.bytes == bytes && p.hash == hash, "%s: what was written is read, late as it is", what);
    ok(calls > (kernel == TAKES_LITTLE ? bytes / 5000 : ROUNDS / 2), "%s: the kernel was asked %d times", what, calls);
    close(to[0]);
    for (int i = 0; i < 2 * LATE; i++)
        close(p.late[i / 2][i % 2]);
}

static void test_gone(void)
{
    static uint8_t piece[100000];
    struct ctr_out *o;
    char path[32];
    int a[2];
    if (pipe(a))
        return;
    snprintf(path, sizeof path, "/dev/fd/%d", a[1]);
    int rc = ctr_out_open(&o, path, 0, &err);
    close(a[0]);
    close(a[1]);
    signal(SIGPIPE, SIG_IGN);
    ok(!rc && ctr_out_write(o, piece, sizeof piece, &err) && err.sys == EPIPE, "a pipe without a reader says so");
    ctr_out_free(o);
}

int main(void)
{
    static const char *const what[] = { "all at once", "interrupted", "a few bytes at a time" };
    for (kernel = TAKES; kernel <= TAKES_LITTLE; kernel++)
        test_answers(what[kernel]);
    kernel = TAKES;
    test_gone();
    return done_testing();
}
