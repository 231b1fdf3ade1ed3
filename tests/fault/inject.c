/* SPDX-License-Identifier: Apache-2.0
 *
 * inject: an LD_PRELOAD library that makes the N-th call of a kind fail, be short, or be the last one of the process.
 *
 *     CTR_INJECT=KIND:N[+]:ACTION     KIND is a name of `kinds`; N counts from 1; with '+' all later ones too.
 *                                     ACTION is an errno of `actions`, "short" (half of what was asked for), "kill"
 *                                     (SIGKILL instead of the call) or "killed" (SIGKILL after it); "term" and
 *                                     "termed" (SIGTERM, and the call is made).
 *     CTR_INJECT_REPORT=FILE          appends a line when the process exits: name=value for the calls of each kind,
 *                                     "fired", "live" (allocations not freed), "fds" (descriptors above 2 that are
 *                                     open) and "rss" (largest resident set, KiB).
 *
 * Invariant: without CTR_INJECT nothing changes but the time. Calls that the C library makes inside itself (stdio) are
 * not seen; all allocations are. -DNO_ALLOC leaves allocations alone, for AddressSanitizer has its own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    ALLOC,
    READ,
    WRITE,
    OPEN,
    CLOSE,
    FSYNC,
    RENAME,
    MMAP,
    TRUNCATE,
    SEEK,
    STAT,
    THREAD,
    DUP,
    UNLINK,
    MKDIR,
    CHMOD,
    POLL,
    KINDS
};
static const char *const kinds[KINDS] = { "alloc",  "read",   "write",    "open",  "close", "fsync",
                                          "rename", "mmap",   "truncate", "seek",  "stat",  "thread",
                                          "dup",    "unlink", "mkdir",    "chmod", "poll" };

enum { SHORT = -1, KILL = -2, KILLED = -3, TERM = -4, TERMED = -5 };
static const struct {
    const char *name;
    int action;
} actions[] = { { "EIO", EIO },       { "ENOSPC", ENOSPC }, { "EINTR", EINTR },   { "ENOMEM", ENOMEM },
                { "EMFILE", EMFILE }, { "EACCES", EACCES }, { "EAGAIN", EAGAIN }, { "EPIPE", EPIPE },
                { "short", SHORT },   { "kill", KILL },     { "killed", KILLED }, { "term", TERM },
                { "termed", TERMED } };

static int want_kind = -1, want_action;
static long want_n;
static bool sticky;
static bool ready; /* what a sanitizer calls before the constructor ran cannot be hit, so it does not count */
static long counts[KINDS], live, fired;

__attribute__((constructor)) static void start(void)
{
    const char *s = getenv("CTR_INJECT");
    char *end;

    ready = true;
    if (!s)
        return;
    for (int k = 0; k < KINDS; k++)
        if (!strncmp(s, kinds[k], strlen(kinds[k])) && s[strlen(kinds[k])] == ':')
            want_kind = k;
    s = strchr(s, ':');
    want_n = s ? strtol(s + 1, &end, 10) : 0;
    sticky = s && *end == '+';
    for (size_t i = 0; s && i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(end + 1 + sticky, actions[i].name))
            want_action = actions[i].action;
    if (want_kind < 0 || want_n < 1 || !want_action) {
        static const char say[] = "inject: CTR_INJECT is KIND:N[+]:ACTION\n";
        syscall(SYS_write, 2, say, sizeof say - 1);
        _exit(125);
    }
}

/* The largest resident set of this program in KiB. getrusage would count what the process was before exec. */
static long peak_kb(void)
{
    char text[4096];
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY, 0);
    long n = fd >= 0 ? syscall(SYS_read, fd, text, sizeof text - 1) : -1;

    if (fd >= 0)
        syscall(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "VmHWM:");
    return at ? strtol(at + 6, NULL, 10) : -1;
}

__attribute__((destructor)) static void stop(void)
{
    const char *path = getenv("CTR_INJECT_REPORT");
    char line[1024];
    int n = 0, fds = 0;
    long fd;

    if (!path)
        return;
    for (int i = 3; i < 256; i++)
        fds += syscall(SYS_fcntl, i, F_GETFD) >= 0;
    for (int k = 0; k < KINDS; k++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s=%ld ", kinds[k], counts[k]);
    n +=
        snprintf(line + n, sizeof line - (size_t)n, "fired=%ld live=%ld fds=%d rss=%ld\n", fired, live, fds, peak_kb());
    fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, n);
        syscall(SYS_close, fd);
    }
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

/* What comes after the call; the program's own handler runs here, and errno is as the call left it. */
static void after(int action)
{
    int saved = errno;

    if (action == KILLED)
        die();
    if (action == TERMED)
        syscall(SYS_kill, getpid(), SIGTERM);
    errno = saved;
}

/* Is this call the one? 0: go on; else what shall happen. */
static int hit(enum kind k)
{
    long n = ready ? __atomic_add_fetch(&counts[k], 1, __ATOMIC_RELAXED) : 0;

    if ((int)k != want_kind || !n || !(n == want_n || (sticky && n > want_n)))
        return 0;
    __atomic_add_fetch(&fired, 1, __ATOMIC_RELAXED);
    if (want_action == KILL)
        die();
    if (want_action == TERM)
        syscall(SYS_kill, getpid(), SIGTERM);
    return want_action;
}

/* The next definition of a name; looked up once, which allocates nothing for names that exist. */
#define NEXT(name)                                                                                                     \
    static __typeof__(&name) next;                                                                                     \
    if (!next)                                                                                                         \
    next = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name)

/* The body of a wrapper: fails, or calls and perhaps dies after it. */
#define CALL(kind, type, bad, call)                                                                                    \
    do {                                                                                                               \
        int act_ = hit(kind);                                                                                          \
        if (act_ > 0) {                                                                                                \
            errno = act_;                                                                                              \
            return bad;                                                                                                \
        }                                                                                                              \
        type r_ = (call);                                                                                              \
        after(act_);                                                                                                   \
        return r_;                                                                                                     \
    } while (0)

/* ---- allocations ---- */

#ifndef NO_ALLOC
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static void *counted(void *p)
{
    if (p)
        __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return p;
}

static bool refuse(void)
{
    if (hit(ALLOC) <= 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return refuse() ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return refuse() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    void *q;

    if (refuse())
        return NULL;
    q = __libc_realloc(p, n);
    return p ? q : counted(q);
}

void *aligned_alloc(size_t align, size_t n)
{
    return refuse() ? NULL : counted(__libc_memalign(align, n));
}

void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n)
{
    return refuse() ? NULL : counted(__libc_memalign(align, n));
}

int posix_memalign(void **p, size_t align, size_t n)
{
    if (refuse())
        return ENOMEM;
    *p = counted(__libc_memalign(align, n));
    return *p ? 0 : ENOMEM;
}

void free(void *p)
{
    if (p)
        __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    __libc_free(p);
}
#endif

/* ---- bytes ---- */

/* Half of n, but something. */
static size_t half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

/* The vector cut to half of its bytes. */
static int half_of(const struct iovec *v, int n, struct iovec *out, int max)
{
    size_t total = 0;
    int k = 0;

    for (int i = 0; i < n; i++)
        total += v[i].iov_len;
    total = half(total);
    for (; k < n && k < max && total; k++) {
        out[k] = v[k];
        if (out[k].iov_len > total)
            out[k].iov_len = total;
        total -= out[k].iov_len;
    }
    return k;
}

#define BYTES(kind, bad, n, call)                                                                                      \
    do {                                                                                                               \
        int act_ = hit(kind);                                                                                          \
        if (act_ > 0) {                                                                                                \
            errno = act_;                                                                                              \
            return bad;                                                                                                \
        }                                                                                                              \
        if (act_ == SHORT)                                                                                             \
            n = half(n);                                                                                               \
        ssize_t r_ = (call);                                                                                           \
        after(act_);                                                                                                   \
        return r_;                                                                                                     \
    } while (0)

ssize_t read(int fd, void *p, size_t n)
{
    BYTES(READ, -1, n, syscall(SYS_read, fd, p, n));
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    BYTES(READ, -1, n, syscall(SYS_pread64, fd, p, n, at));
}

ssize_t pread64(int fd, void *p, size_t n, off_t at)
{
    BYTES(READ, -1, n, syscall(SYS_pread64, fd, p, n, at));
}

ssize_t write(int fd, const void *p, size_t n)
{
    BYTES(WRITE, -1, n, syscall(SYS_write, fd, p, n));
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    BYTES(WRITE, -1, n, syscall(SYS_pwrite64, fd, p, n, at));
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
    BYTES(WRITE, -1, n, syscall(SYS_pwrite64, fd, p, n, at));
}

ssize_t sendfile(int to, int from, off_t *at, size_t n)
{
    BYTES(WRITE, -1, n, syscall(SYS_sendfile, to, from, at, n));
}

static ssize_t vector(enum kind kind, long number, int fd, const struct iovec *v, int n)
{
    struct iovec some[1024];
    int act = hit(kind);
    ssize_t r;

    if (act > 0) {
        errno = act;
        return -1;
    }
    if (act == SHORT) {
        n = half_of(v, n, some, 1024);
        v = some;
    }
    r = syscall(number, fd, v, n);
    after(act);
    return r;
}

ssize_t readv(int fd, const struct iovec *v, int n)
{
    return vector(READ, SYS_readv, fd, v, n);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    return vector(WRITE, SYS_writev, fd, v, n);
}

/* ---- files ---- */

static mode_t mode_of(int flags, va_list ap)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define OPEN_AT(name, dir_arg, dir)                                                                                    \
    int name(dir_arg const char *path, int flags, ...)                                                                 \
    {                                                                                                                  \
        va_list ap;                                                                                                    \
        va_start(ap, flags);                                                                                           \
        mode_t mode = mode_of(flags, ap);                                                                              \
        va_end(ap);                                                                                                    \
        CALL(OPEN, int, -1, (int)syscall(SYS_openat, dir, path, flags, mode));                                         \
    }
#define NO_DIR
#define DIR_ARG int dir,
OPEN_AT(open, NO_DIR, AT_FDCWD)
OPEN_AT(open64, NO_DIR, AT_FDCWD)
OPEN_AT(openat, DIR_ARG, dir)
OPEN_AT(openat64, DIR_ARG, dir)

int mkostemp(char *path, int flags)
{
    NEXT(mkostemp);
    CALL(OPEN, int, -1, next(path, flags));
}

int mkstemp(char *path)
{
    NEXT(mkstemp);
    CALL(OPEN, int, -1, next(path));
}

/* A close that says EINTR or EIO has closed. */
int close(int fd)
{
    int act = hit(CLOSE), r = (int)syscall(SYS_close, fd);

    after(act);
    if (act > 0) {
        errno = act;
        return -1;
    }
    return r;
}

int fsync(int fd)
{
    CALL(FSYNC, int, -1, (int)syscall(SYS_fsync, fd));
}

int fdatasync(int fd)
{
    CALL(FSYNC, int, -1, (int)syscall(SYS_fdatasync, fd));
}

int rename(const char *from, const char *to)
{
    CALL(RENAME, int, -1, (int)syscall(SYS_rename, from, to));
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    CALL(RENAME, int, -1, (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags));
}

int unlink(const char *path)
{
    CALL(UNLINK, int, -1, (int)syscall(SYS_unlink, path));
}

int mkdir(const char *path, mode_t mode)
{
    CALL(MKDIR, int, -1, (int)syscall(SYS_mkdir, path, mode));
}

int ftruncate(int fd, off_t n)
{
    CALL(TRUNCATE, int, -1, (int)syscall(SYS_ftruncate, fd, n));
}

int ftruncate64(int fd, off_t n)
{
    CALL(TRUNCATE, int, -1, (int)syscall(SYS_ftruncate, fd, n));
}

off_t lseek(int fd, off_t at, int whence)
{
    CALL(SEEK, off_t, -1, syscall(SYS_lseek, fd, at, whence));
}

int fstat(int fd, struct stat *st)
{
    NEXT(fstat);
    CALL(STAT, int, -1, next(fd, st));
}

int fstat64(int fd, struct stat64 *st)
{
    NEXT(fstat64);
    CALL(STAT, int, -1, next(fd, st));
}

int stat(const char *path, struct stat *st)
{
    NEXT(stat);
    CALL(STAT, int, -1, next(path, st));
}

int access(const char *path, int mode)
{
    CALL(STAT, int, -1, (int)syscall(SYS_access, path, mode));
}

int fchmod(int fd, mode_t mode)
{
    CALL(CHMOD, int, -1, (int)syscall(SYS_fchmod, fd, mode));
}

int dup(int fd)
{
    CALL(DUP, int, -1, (int)syscall(SYS_dup, fd));
}

/* Of its commands those that make a descriptor. */
int fcntl(int fd, int what, ...)
{
    va_list ap;
    va_start(ap, what);
    long arg = va_arg(ap, long);
    va_end(ap);
    if (what != F_DUPFD && what != F_DUPFD_CLOEXEC)
        return (int)syscall(SYS_fcntl, fd, what, arg);
    CALL(DUP, int, -1, (int)syscall(SYS_fcntl, fd, what, arg));
}

int poll(struct pollfd *p, nfds_t n, int ms)
{
    CALL(POLL, int, -1, (int)syscall(SYS_poll, p, n, ms));
}

/* ---- memory maps and threads ---- */

static void *map(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    CALL(MMAP, void *, MAP_FAILED, (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset));
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return map(at, n, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return map(at, n, prot, flags, fd, offset);
}

void *mremap(void *at, size_t old, size_t n, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
    va_end(ap);
    CALL(MMAP, void *, MAP_FAILED, (void *)syscall(SYS_mremap, at, old, n, flags, to));
}

int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    NEXT(pthread_create);
    if (hit(THREAD) > 0)
        return EAGAIN;
    return next(id, attr, fn, arg);
}
