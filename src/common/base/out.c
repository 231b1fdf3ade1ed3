/* SPDX-License-Identifier: Apache-2.0
 *
 * out: output files that appear complete or not at all. A regular file is written as a temporary in the same folder,
 * which commit fsyncs and renames; stdout, FIFOs, devices and /dev/fd/N are written directly. The temporary is unnamed
 * until it is renamed, so that a killed process leaves nothing; if the file system has no unnamed files, it has a name
 * from the start.
 */
#include "common/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef OUT_BUFFER /* fuzzing uses a small one */
#define OUT_BUFFER ((size_t)64 << 10)
#endif
enum { OUT_OPEN_MAX = 4096, OUT_IOV_MAX = 512, START_BYTES = 4 << 20 };
/* As source.c asks for, too. Larger ones leave the cache between writer and reader; in Linux's own of 64 KiB the two
 * wake each other five times as often. */
enum { PIPE_BYTES = 512 << 10 };

struct ctr_out {
    int fd;
    int slot;    /* in open_temps, or -1 */
    char *name;  /* as given, for messages */
    char *path;  /* destination: symbolic links resolved */
    char *temp;  /* name of the temporary; NULL: written directly */
    bool named;  /* it exists under that name */
    bool synced; /* its contents are on disk */
    struct ctr_buf buf;
    int64_t written; /* flushed bytes */
    int64_t started; /* of a temporary: bytes whose writeback has been started */
    struct ctr_seal seal;
};

/* The life of `-o m.arrows`, and of the same where the file system has no unnamed files:
 *
 *     ctr_out_open     O_TMPFILE in the folder           m.arrows.tmp.AbCdEf, which open_temps has before it exists
 *     ctr_out_write    into it                           the same
 *     ctr_out_commit   fsync, link as m.arrows.tmp.…     fsync
 *                      rename to m.arrows, fsync of the folder
 *     ctr_out_free     removes what was not committed
 *
 * A signal that ends the process removes what open_temps names (ctr_out_cleanup); while it does, begin_making holds up
 * threads that would create another name. The file that had the name stays as it was until the rename. */

/* Necessary globals: a signal handler must find the temporaries. Slots are claimed by compare-and-swap. */
static const char *open_temps[OUT_OPEN_MAX];
static bool ending;
static int making; /* threads creating a name */
static __thread int own_making;

int ctr_temp_hold(const char *temp)
{
    for (int i = 0; i < OUT_OPEN_MAX; i++) {
        const char *expected = NULL;
        if (__atomic_compare_exchange_n(&open_temps[i], &expected, temp, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return i;
    }
    return -1;
}

void ctr_temp_release(int *slot)
{
    if (*slot >= 0)
        __atomic_store_n(&open_temps[*slot], NULL, __ATOMIC_SEQ_CST);
    *slot = -1;
}

/* Call before creating a name for a temporary: blocks threads while the process ends. */
static void begin_making(void)
{
    own_making++;
    __atomic_add_fetch(&making, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&ending, __ATOMIC_SEQ_CST))
        return;
    __atomic_sub_fetch(&making, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

static void end_making(void)
{
    __atomic_sub_fetch(&making, 1, __ATOMIC_SEQ_CST);
    own_making--;
}

/* A signal may call it within the section it waits for, on the same thread. */
void ctr_out_cleanup(void)
{
    enum { WAIT_MS = 1000 }; /* a disk may hang */
    __atomic_store_n(&ending, true, __ATOMIC_SEQ_CST);
    for (int i = 0; __atomic_load_n(&making, __ATOMIC_SEQ_CST) > own_making && i < WAIT_MS; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    for (int i = 0; i < OUT_OPEN_MAX; i++) {
        const char *temp = __atomic_exchange_n(&open_temps[i], NULL, __ATOMIC_SEQ_CST);
        if (temp)
            unlink(temp);
    }
}

char *ctr_path_followed(const char *path)
{
    enum { LINKS = 40 }; /* Linux's limit of followed links */
    char *at = realpath(path, NULL), text[PATH_MAX];
    ssize_t n = -1;

    if (!at)
        at = strdup(path);
    for (int i = 0; at && i < LINKS && (n = readlink(at, text, sizeof text)) >= 0; i++) {
        const char *slash = *text == '/' ? NULL : strrchr(at, '/');
        char *to = NULL;
        if (asprintf(&to, "%.*s%.*s", slash ? (int)(slash + 1 - at) : 0, at, (int)n, text) < 0)
            to = NULL;
        free(at);
        at = to;
    }
    if (at && n >= 0) {
        free(at);
        at = NULL;
        errno = ELOOP;
    }
    return at;
}

const char *ctr_path_in(const char *path, struct stat *dir)
{
    const char *slash = strrchr(path, '/');
    char text[PATH_MAX];

    if (!slash)
        return stat(".", dir) ? NULL : path;
    snprintf(text, sizeof text, "%.*s", (int)CTR_MAX(slash - path, 1), path);
    return stat(text, dir) ? NULL : slash + 1;
}

bool ctr_again(int fd, int events)
{
    struct pollfd p = { .fd = fd, .events = (short)events };

    if (errno != EAGAIN)
        return errno == EINTR;
    while (poll(&p, 1, -1) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

int ctr_open(const char *path, int flags, unsigned mode)
{
    int fd;

    while ((fd = open(path, flags | O_CLOEXEC, mode)) < 0 && errno == EINTR)
        ;
    return fd;
}

int ctr_truncate(int fd, int64_t n)
{
    int rc;

    while ((rc = ftruncate(fd, n)) && errno == EINTR)
        ;
    return rc;
}

int ctr_fsync(int fd)
{
    int rc;

    while ((rc = fsync(fd)) && errno == EINTR)
        ;
    return rc;
}

/* For a registered name, because mkostemp may be interrupted before it creates the file. */
static int make_temp(char *temp, size_t n)
{
    int fd;

    begin_making();
    while ((fd = mkostemp(temp, O_CLOEXEC)) < 0 && errno == EINTR)
        memset(temp + n - 7, 'X', 6);
    end_making();
    return fd;
}

/* Open the directory of a file: sets *fd to its descriptor, or -1. */
static int open_directory(const char *path, int flags, int *fd, struct ctr_err *err)
{
    char *dir = strdup(path), *slash;

    if (!dir)
        return ctr_fail_nomem(err, strlen(path));
    slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = 0;
    *fd = ctr_open(slash ? dir : ".", flags, 0600);
    free(dir);
    return 0;
}

/* ---- a temporary without a name ---- */

struct fd_path {
    char s[40];
};

static struct fd_path fd_path(int fd)
{
    struct fd_path p;
    snprintf(p.s, sizeof p.s, "/proc/self/fd/%d", fd);
    return p;
}

/* Leaves o->fd at -1 if the file system has no unnamed files, or if the file could not be named later: that uses /proc,
 * whose paths may be too long. */
static int make_unnamed(struct ctr_out *o, struct ctr_err *err)
{
    int rc = open_directory(o->path, O_TMPFILE | O_RDWR, &o->fd, err);

    if (!rc && o->fd >= 0 && (access(fd_path(o->fd).s, F_OK) || (access(o->temp, F_OK) && errno == ENAMETOOLONG))) {
        close(o->fd);
        o->fd = -1;
    }
    return rc;
}

static int make_named(struct ctr_out *o)
{
    o->slot = ctr_temp_hold(o->temp); /* before it exists, because a signal may come at any time */
    o->fd = make_temp(o->temp, strlen(o->temp) + 1);
    o->named = o->fd >= 0;
    if (!o->named)
        ctr_temp_release(&o->slot);
    return o->named ? 0 : -1;
}

/* Set the mode of the replaced file, or that of a new file. The set-user-ID, set-group-ID and sticky bits are dropped,
 * because they were granted for the old contents. */
static int set_mode(const struct ctr_out *o)
{
    struct stat st;
    mode_t mask = umask(0);

    umask(mask);
    return fchmod(o->fd, stat(o->path, &st) == 0 ? st.st_mode & 0777 : 0666 & ~mask);
}

static int link_name(struct ctr_out *o)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    enum { TRIES = 100 };
    const struct fd_path from = fd_path(o->fd);
    char *x = o->temp + strlen(o->temp) - 6;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    o->slot = ctr_temp_hold(o->temp);
    begin_making();
    for (uint64_t i = 0; i < TRIES; i++) {
        uint64_t r = ctr_random64((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec, (uint64_t)getpid(), i);
        for (int k = 0; k < 6; k++, r /= sizeof letters - 1)
            x[k] = letters[r % (sizeof letters - 1)];
        o->named = !linkat(AT_FDCWD, from.s, AT_FDCWD, o->temp, AT_SYMLINK_FOLLOW);
        if (o->named || (errno != EEXIST && errno != EINTR))
            break;
    }
    end_making();
    if (!o->named)
        ctr_temp_release(&o->slot);
    return o->named ? 0 : -1;
}

/* If the file cannot be given a name (security modules, unusual file systems), copy it to a named file. */
static int copy_named(struct ctr_out *o)
{
    enum { CHUNK = 1 << 30 };
    const int from = o->fd;
    off_t at = 0;
    ssize_t k = -1;

    memset(o->temp + strlen(o->temp) - 6, 'X', 6);
    if (!make_named(o))
        while ((k = sendfile(o->fd, from, &at, CHUNK)) > 0 || (k < 0 && errno == EINTR))
            ;
    int rc = k < 0 || set_mode(o) || ctr_fsync(o->fd) ? -1 : 0, sys = errno;
    close(from);
    errno = sys;
    return rc;
}

static int give_name(struct ctr_out *o)
{
    if (o->named || !link_name(o))
        return 0;
    return errno == ENOSPC || errno == EDQUOT ? -1 : copy_named(o);
}

/* A regular file or missing path gets a temporary; anything else, and an open descriptor of any kind, is written
 * directly. */
static int open_target(struct ctr_out *o, const char *path, struct ctr_err *err)
{
    struct stat st;
    int64_t fd;

    if (!*path)
        return ctr_fail(err, CTR_EUSAGE, "the name of an output is empty");
    if (!strcmp(path, "/dev/stderr"))
        path = "/dev/fd/2";
    if (!strncmp(path, "/dev/fd/", 8) && ctr_parse_i64(path + 8, strlen(path + 8), &fd) && fd >= 0 && fd <= INT_MAX) {
        o->fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
        return o->fd < 0 ? ctr_fail_sys(err, "%s: cannot be written", path) : 0;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        o->fd = ctr_open(path, O_WRONLY, 0);
        return o->fd < 0 ? ctr_fail_sys(err, "%s: cannot be written", path) : 0;
    }
    o->path = ctr_path_followed(path); /* so that a link to a file stays a link */
    if (!o->path)
        return errno == ENOMEM ? ctr_fail_nomem(err, strlen(path)) : ctr_fail_sys(err, "%s: cannot be written", path);
    size_t n = strlen(o->path) + sizeof ".tmp.XXXXXX";
    o->temp = malloc(n);
    if (!o->temp)
        return ctr_fail_nomem(err, n);
    snprintf(o->temp, n, "%s.tmp.XXXXXX", o->path);
    int rc = make_unnamed(o, err);
    if (!rc && o->fd < 0 && make_named(o))
        rc = ctr_fail_sys(err, "%s: a file cannot be made there", path);
    if (rc)
        return rc;
    return set_mode(o) ? ctr_fail_sys(err, "%s", path) : 0;
}

bool ctr_names_stdout(const char *path)
{
    return !path || !strcmp(path, "-") || !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1");
}

int ctr_out_open(struct ctr_out **out, const char *path, unsigned flags, struct ctr_err *err)
{
    bool is_stdout = ctr_names_stdout(path);
    struct ctr_out *o = calloc(1, sizeof *o);
    struct stat st;

    if (!o)
        return ctr_fail_nomem(err, sizeof *o);
    o->fd = -1;
    o->slot = -1;
    memset(o->seal.digits, '0', sizeof o->seal.digits);
    o->name = strdup(is_stdout ? "stdout" : flags & CTR_OUT_TEMP ? CTR_TEMP_NAME : path);
    int rc = o->name ? ctr_buf_reserve(&o->buf, OUT_BUFFER, err) : ctr_fail_nomem(err, 16);
    if (!rc && is_stdout)
        o->fd = STDOUT_FILENO;
    else if (!rc)
        rc = open_target(o, path, err);
    if (!rc && !fstat(o->fd, &st) && S_ISFIFO(st.st_mode))
        (void)fcntl(o->fd, F_SETPIPE_SZ, PIPE_BYTES); /* if the limit is lower this fails, which only costs speed */
    if (!rc && (flags & CTR_OUT_BINARY) && isatty(o->fd))
        rc = ctr_fail(err, CTR_EUSAGE, "%s is a terminal and this output is binary: use -o FILE or a pipe", o->name);
    if (rc) {
        ctr_out_free(o);
        return rc;
    }
    *out = o;
    return 0;
}

static int out_fail(struct ctr_out *o, struct ctr_err *err)
{
    ctr_err_file(err, o->name);
    return ctr_fail_sys(err, "write failed");
}

int ctr_write_full(int fd, const void *p, size_t n, struct ctr_err *err)
{
    const char *s = p;

    while (n) {
        ssize_t k = write(fd, s, n);
        if (k < 0 && ctr_again(fd, POLLOUT))
            continue;
        if (k < 0)
            return ctr_fail_sys(err, "write failed");
        s += k;
        n -= (size_t)k;
    }
    return 0;
}

int ctr_out_flush(struct ctr_out *o, struct ctr_err *err)
{
    if (o->buf.len && ctr_write_full(o->fd, o->buf.data, o->buf.len, err)) {
        errno = err->sys;
        o->buf.len = 0;
        return out_fail(o, err);
    }
    o->written += (int64_t)o->buf.len;
    o->buf.len = 0;
    return 0;
}

int ctr_out_write(struct ctr_out *o, const void *p, size_t n, struct ctr_err *err)
{
    struct iovec v = { (void *)(uintptr_t)p, n };

    return ctr_out_writev(o, &v, 1, err);
}

/* Start writeback early, so that fsync has less to wait for. Only advice; fsync reports errors. */
static void start_writing(struct ctr_out *o)
{
#ifdef SYNC_FILE_RANGE_WRITE
    if (!o->temp || o->written - o->started < START_BYTES)
        return;
    (void)sync_file_range(o->fd, o->started, o->written - o->started, SYNC_FILE_RANGE_WRITE);
    o->started = o->written;
#else
    (void)o;
#endif
}

/* Write all of v, continuing after short counts. */
static int writev_full(struct ctr_out *o, struct iovec *v, int n, struct ctr_err *err)
{
    while (n) {
        ssize_t k = writev(o->fd, v, CTR_MIN(n, OUT_IOV_MAX));
        if (k < 0 && ctr_again(o->fd, POLLOUT))
            continue;
        if (k < 0)
            return out_fail(o, err);
        o->written += k;
        start_writing(o);
        while (n && (size_t)k >= v->iov_len) {
            k -= (ssize_t)v->iov_len;
            v++;
            n--;
        }
        if (n) {
            v->iov_base = (char *)v->iov_base + k;
            v->iov_len -= (size_t)k;
        }
    }
    return 0;
}

int ctr_out_writev(struct ctr_out *o, const struct iovec *v, int n, struct ctr_err *err)
{
    struct iovec chunk[OUT_IOV_MAX];
    size_t total = 0;
    int rc = 0;

    for (int i = 0; i < n; i++)
        total += v[i].iov_len;
    if (total <= OUT_BUFFER / 2) {
        if (o->buf.len + total > OUT_BUFFER && (rc = ctr_out_flush(o, err)))
            return rc;
        for (int i = 0; i < n; i++) {
            if (v[i].iov_len)
                memcpy(o->buf.data + o->buf.len, v[i].iov_base, v[i].iov_len);
            o->buf.len += v[i].iov_len;
        }
        return 0;
    }
    rc = ctr_out_flush(o, err);
    for (int i = 0; !rc && i < n; i += OUT_IOV_MAX) {
        int k = CTR_MIN(n - i, OUT_IOV_MAX);
        memcpy(chunk, v + i, (size_t)k * sizeof *v);
        rc = writev_full(o, chunk, k, err);
    }
    return rc;
}

int ctr_out_printf(struct ctr_out *o, struct ctr_err *err, const char *fmt, ...)
{
    char small[1024], *text = small;
    va_list ap;
    int n, rc;

    va_start(ap, fmt);
    n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof small) {
        va_start(ap, fmt);
        n = vasprintf(&text, fmt, ap);
        va_end(ap);
    }
    if (n < 0)
        return ctr_fail_nomem(err, sizeof small);
    rc = ctr_out_write(o, text, (size_t)n, err);
    if (text != small)
        free(text);
    return rc;
}

/* A file system that cannot sync a directory returns EINVAL. */
static int sync_directory(const char *path, int fd, struct ctr_err *err)
{
    int rc = 0;

    if (fd >= 0 && ctr_fsync(fd) && errno != EINVAL)
        rc = ctr_fail_sys(err, "%s: fsync of its directory failed", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* The contents of a temporary reach the disk. */
static int out_sync(struct ctr_out *o, struct ctr_err *err)
{
    int rc = ctr_out_flush(o, err);

    if (rc || !o->temp || o->synced)
        return rc;
    o->synced = !ctr_fsync(o->fd);
    return o->synced ? 0 : ctr_fail_sys(err, "%s: fsync failed", o->name);
}

/* The directory entry must reach the disk, too. The directory is opened before the rename, so that afterwards only the
 * disk can fail. */
static int out_rename(struct ctr_out *o, struct ctr_err *err)
{
    int rc, old, dir = -1;

    if (give_name(o))
        return ctr_fail_sys(err, "%s: a name cannot be given to it", o->name);
    rc = close(o->fd);
    o->fd = -1;
    if (rc && errno != EINTR)
        return ctr_fail_sys(err, "%s: close failed", o->name);
    if ((rc = open_directory(o->path, O_RDONLY | O_DIRECTORY, &dir, err)))
        return rc;
    old = ctr_open(o->path, O_PATH,
                   0); /* keep the old file's pages until later: rename would lock the directory while freeing them */
    if (rename(o->temp, o->path)) {
        rc = ctr_fail_sys(err, "%s: rename failed", o->name);
        if (dir >= 0)
            close(dir);
    } else {
        ctr_temp_release(&o->slot);
        free(o->temp);
        o->temp = NULL;
        rc = sync_directory(o->path, dir, err);
    }
    if (old >= 0)
        close(old);
    return rc;
}

int ctr_out_commit(struct ctr_out *o, struct ctr_err *err)
{
    int fd, rc = out_sync(o, err);

    if (rc)
        return rc;
    if (o->temp)
        return out_rename(o, err);
    if (o->fd == STDOUT_FILENO) { /* errors reported at close (NFS, quotas) must be seen; the descriptor stays open */
        fd = dup(o->fd);
        if (fd < 0 || (close(fd) && errno != EINTR))
            return out_fail(o, err);
        return 0;
    }
    rc = close(o->fd);
    o->fd = -1;
    return rc && errno != EINTR ? out_fail(o, err) : 0;
}

int ctr_out_commit_all(struct ctr_out *const *o, int n, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < n; i++)
        rc = out_sync(o[i], err);
    if (!rc && n > 1 && o[0]->temp && unlink(o[0]->path) && errno != ENOENT)
        rc = ctr_fail_sys(err, "%s: the one that is there cannot be replaced", o[0]->name);
    for (int i = 1; !rc && i < n; i++)
        rc = ctr_out_commit(o[i], err);
    return rc ? rc : ctr_out_commit(o[0], err);
}

void ctr_out_free(struct ctr_out *o)
{
    if (!o)
        return;
    if (o->temp && o->named)
        unlink(o->temp);
    ctr_temp_release(&o->slot);
    if (o->fd > STDERR_FILENO)
        close(o->fd);
    ctr_buf_free(&o->buf);
    free(o->temp);
    free(o->path);
    free(o->name);
    free(o);
}

int64_t ctr_out_tell(const struct ctr_out *o)
{
    return o->written + (int64_t)o->buf.len;
}

const char *ctr_out_name(const struct ctr_out *o)
{
    return o->name;
}

struct ctr_seal *ctr_out_seal(struct ctr_out *o)
{
    return &o->seal;
}

bool ctr_out_is_stdout(const struct ctr_out *o)
{
    return o->fd == STDOUT_FILENO;
}

int ctr_tmpfile(struct ctr_err *err)
{
    const char *dir = getenv("TMPDIR");
    int fd = ctr_tmpfile_in(dir && *dir ? dir : "/tmp", err);
    if (fd == CTR_ESYS)
        ctr_err_add(err, " (set TMPDIR)");
    return fd;
}

int ctr_tmpfile_in(const char *dir, struct ctr_err *err)
{
    char path[PATH_MAX];
    if (!*dir)
        return ctr_fail(err, CTR_EUSAGE, "the name of the folder for temporary files is empty");
    int fd = ctr_open(dir, O_TMPFILE | O_RDWR | O_EXCL, 0600);

    if (fd >= 0)
        return fd;
    if (snprintf(path, sizeof path, "%s/ctr.XXXXXX", dir) >= (int)sizeof path)
        return ctr_fail(err, CTR_EUSAGE, "the name of the folder for temporary files is too long");
    int slot = ctr_temp_hold(path);
    fd = make_temp(path, strlen(path) + 1);
    if (fd >= 0)
        unlink(path);
    ctr_temp_release(&slot);
    return fd < 0 ? ctr_fail_sys(err, "%s: no temporary file can be made there", dir) : fd;
}

ssize_t ctr_read_full(int fd, void *p, size_t n, struct ctr_err *err)
{
    size_t got = 0;

    while (got < n) {
        ssize_t k = read(fd, (char *)p + got, n - got);
        if (k < 0 && ctr_again(fd, POLLIN))
            continue;
        if (k < 0)
            return ctr_fail_sys(err, "read failed");
        if (!k)
            break;
        got += (size_t)k;
    }
    return (ssize_t)got;
}

int ctr_pread_full(int fd, void *p, size_t n, int64_t offset, struct ctr_err *err)
{
    while (n) {
        ssize_t k = pread(fd, p, n, offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return ctr_fail_sys(err, "read failed");
        if (!k)
            return ctr_fail(err, CTR_EDATA, "file ends early, at byte %lld", (long long)offset);
        p = (char *)p + k;
        n -= (size_t)k;
        offset += k;
    }
    return 0;
}
