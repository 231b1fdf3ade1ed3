/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a fuzz target without the kernel, which was a third of what an execution cost: a name that fuzz_file or
 * fuzz_out gave is opened, read, mapped and written here, all others are libc's. A read behind a mapped file's last
 * byte is seen by the sanitizer. The linker sends the calls here (--wrap in the Makefile). Not for threads. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FIRST_FD = 1 << 20, FDS = 64 };

static struct {
    const char *name;
    const uint8_t *data;
    size_t size;
    bool out; /* is being written, to written[slot]; a FIFO to stat, so that nothing is renamed */
} files[FUZZ_SLOTS] = { { .name = "/fuzz/0" },
                        { .name = "/fuzz/1" },
                        { .name = "/fuzz/2" },
                        { .name = "/fuzz/3" },
                        [FUZZ_SCORES] = { .name = "/fuzz/0.scores" },
                        [FUZZ_BEST] = { .name = "/fuzz/0.best." } };

static _Alignas(64) uint8_t written[FUZZ_SLOTS][1 << 20];

static struct {
    int file; /* 1 + its slot; 0: closed */
    size_t at;
} fds[FDS];

const char *fuzz_file(int slot, const uint8_t *data, size_t size)
{
    files[slot].data = data;
    files[slot].size = size;
    files[slot].out = false;
    return files[slot].name;
}

const char *fuzz_out(int slot)
{
    (void)fuzz_file(slot, written[slot], 0);
    files[slot].out = true;
    return files[slot].name;
}

const char *fuzz_path(int slot)
{
    files[slot].out = false;
    return files[slot].name;
}

static int find(const char *path)
{
    for (int i = 0; i < FUZZ_SLOTS && !strncmp(path, "/fuzz/", 6); i++)
        if (i == FUZZ_BEST ? !strncmp(path, files[i].name, strlen(files[i].name)) : !strcmp(path, files[i].name))
            return i;
    return -1;
}

static bool ours(int fd)
{
    return fd >= FIRST_FD && fd < FIRST_FD + FDS;
}

static int file_of(int fd)
{
    FUZZ_CHECK(fds[fd - FIRST_FD].file);
    return fds[fd - FIRST_FD].file - 1;
}

static void fill_stat(int file, struct stat *st)
{
    *st = (struct stat){ .st_mode = (files[file].out ? S_IFIFO : S_IFREG) | 0600,
                         .st_ino = (ino_t)file + 1,
                         .st_size = (off_t)files[file].size };
}

static size_t copy(int file, size_t at, void *to, size_t n)
{
    n = CTR_MIN(n, files[file].size - CTR_MIN(at, files[file].size));
    if (n)
        memcpy(to, files[file].data + at, n);
    return n;
}

/* ---- what the linker puts in the place of libc's ---- */

#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    const int file = find(path);
    if (file < 0)
        return __real_open(path, flags, mode);
    for (int i = 0; i < FDS; i++)
        if (!fds[i].file) {
            fds[i].file = file + 1;
            fds[i].at = 0;
            if (files[file].out && (flags & O_ACCMODE) == O_WRONLY)
                files[file].size = 0;
            return FIRST_FD + i;
        }
    errno = EMFILE;
    return -1;
}

WRAP(int, close, int fd)
{
    if (!ours(fd))
        return __real_close(fd);
    fds[fd - FIRST_FD].file = 0;
    return 0;
}

WRAP(ssize_t, pread, int fd, void *to, size_t n, off_t at)
{
    return ours(fd) ? (ssize_t)copy(file_of(fd), (size_t)at, to, n) : __real_pread(fd, to, n, at);
}

WRAP(ssize_t, read, int fd, void *to, size_t n)
{
    if (!ours(fd))
        return __real_read(fd, to, n);
    n = copy(file_of(fd), fds[fd - FIRST_FD].at, to, n);
    fds[fd - FIRST_FD].at += n;
    return (ssize_t)n;
}

WRAP(ssize_t, readv, int fd, const struct iovec *v, int n)
{
    ssize_t got = 0;
    if (!ours(fd))
        return __real_readv(fd, v, n);
    for (int i = 0; i < n; i++)
        got += __wrap_read(fd, v[i].iov_base, v[i].iov_len);
    return got;
}

WRAP(ssize_t, write, int fd, const void *from, size_t n)
{
    if (!ours(fd))
        return __real_write(fd, from, n);
    const int file = file_of(fd);
    if (!files[file].out || n > sizeof written[file] - files[file].size) {
        errno = ENOSPC;
        return -1;
    }
    if (n)
        memcpy(written[file] + files[file].size, from, n);
    files[file].size += n;
    return (ssize_t)n;
}

WRAP(ssize_t, writev, int fd, const struct iovec *v, int n)
{
    ssize_t got = 0;
    if (!ours(fd))
        return __real_writev(fd, v, n);
    for (int i = 0; i < n; i++) {
        const ssize_t k = __wrap_write(fd, v[i].iov_base, v[i].iov_len);
        if (k < 0)
            return got ? got : k;
        got += k;
    }
    return got;
}

WRAP(off_t, lseek, int fd, off_t to, int whence)
{
    if (!ours(fd))
        return __real_lseek(fd, to, whence);
    const off_t from[] = { [SEEK_CUR] = (off_t)fds[fd - FIRST_FD].at, [SEEK_END] = (off_t)files[file_of(fd)].size };
    fds[fd - FIRST_FD].at = (size_t)(from[whence] + to);
    return from[whence] + to;
}

WRAP(int, ftruncate, int fd, off_t n)
{
    if (!ours(fd))
        return __real_ftruncate(fd, n);
    const int file = file_of(fd);
    if (!files[file].out || n < 0 || (size_t)n > files[file].size) { /* none becomes longer */
        errno = EINVAL;
        return -1;
    }
    files[file].size = (size_t)n;
    return 0;
}

WRAP(int, fstat, int fd, struct stat *st)
{
    if (!ours(fd))
        return __real_fstat(fd, st);
    fill_stat(file_of(fd), st);
    return 0;
}

WRAP(int, stat, const char *path, struct stat *st)
{
    const int file = find(path);
    if (file < 0)
        return __real_stat(path, st);
    fill_stat(file, st);
    return 0;
}

WRAP(int, access, const char *path, int how)
{
    return find(path) < 0 ? __real_access(path, how) : 0;
}

WRAP(int, isatty, int fd)
{
    return ours(fd) ? 0 : __real_isatty(fd);
}

WRAP(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (!ours(fd))
        return __real_mmap(at, n, prot, flags, fd, offset);
    const int file = file_of(fd);
    FUZZ_CHECK(prot == PROT_READ && !offset && n == files[file].size && !((uintptr_t)files[file].data & 7));
    return (void *)(uintptr_t)files[file].data;
}

WRAP(int, munmap, void *p, size_t n)
{
    for (int i = 0; i < FUZZ_SLOTS; i++)
        if (p && p == files[i].data)
            return 0;
    return __real_munmap(p, n);
}

/* Huge pages are advice, and calls. */
int __wrap_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice)
{
    (void)p;
    (void)n;
    (void)advice;
    return 0;
}
