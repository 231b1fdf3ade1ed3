/* SPDX-License-Identifier: Apache-2.0
 *
 * hold: keeps an input that is read more than once (passes, plan and features of a model, several look-ups) the same
 * file. Invariant: between ctr_hold and the last ctr_hold_end of a path, ctr_open_input returns the file that had the
 * name at first, with unchanged size and time, or fails.
 */
#include "common/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct held {
    struct held *next;
    struct ctr_file_state state;
    int fd; /* -1: none available, so that a replaced file is an error */
    int users;
    char path[];
};

static struct {
    pthread_mutex_t lock;
    struct held *first;
    int fds;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The location of the pointer to a path, or where it would be. */
static struct held **find(const char *path)
{
    struct held **at = &all.first;
    while (*at && strcmp((*at)->path, path))
        at = &(*at)->next;
    return at;
}

struct ctr_file_state ctr_file_state(const struct stat *st)
{
    return (struct ctr_file_state){ .regular = S_ISREG(st->st_mode),
                                    .dev = (uint64_t)st->st_dev,
                                    .ino = (uint64_t)st->st_ino,
                                    .size = (int64_t)st->st_size,
                                    .time_s = (int64_t)st->st_mtim.tv_sec,
                                    .time_ns = (int64_t)st->st_mtim.tv_nsec };
}

bool ctr_file_same(const struct ctr_file_state *a, const struct ctr_file_state *b)
{
    return a->regular == b->regular && a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->time_s == b->time_s && a->time_ns == b->time_ns;
}

/* Leaves half of the possible descriptors to others. */
static int open_to_hold(const char *path, struct stat *st)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)all.fds >= limit.rlim_cur / 2)
        return -1;
    const int fd = ctr_open(path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0 || !fstat(fd, st))
        return fd;
    close(fd);
    return -1;
}

static int hold_locked(const char *path, struct ctr_err *err)
{
    struct held **at = find(path), *h = *at;
    struct stat st;
    if (h) {
        h->users++;
        return 0;
    }
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return 0; /* opening reports missing files; other kinds are read once */
    const size_t n = strlen(path) + 1;
    if (!(h = *at = calloc(1, sizeof *h + n)))
        return ctr_fail_nomem(err, sizeof *h + n);
    memcpy(h->path, path, n);
    h->users = 1;
    h->fd = open_to_hold(path, &st);
    h->state = ctr_file_state(&st);
    all.fds += h->fd >= 0;
    return 0;
}

int ctr_hold(const char *path, struct ctr_err *err)
{
    if (!strcmp(path, "-"))
        return 0;
    pthread_mutex_lock(&all.lock);
    const int rc = hold_locked(path, err);
    pthread_mutex_unlock(&all.lock);
    return rc;
}

void ctr_hold_end(const char *path)
{
    pthread_mutex_lock(&all.lock);
    struct held **at = find(path), *h = *at;
    if (h && !--h->users) {
        *at = h->next;
        if (h->fd >= 0)
            close(h->fd);
        all.fds -= h->fd >= 0;
        free(h);
    }
    pthread_mutex_unlock(&all.lock);
}

void ctr_hold_end_all(void)
{
    for (struct held *h; (h = all.first);) {
        all.first = h->next;
        if (h->fd >= 0)
            close(h->fd);
        free(h);
    }
    all.fds = 0;
}

bool ctr_held(const char *path)
{
    pthread_mutex_lock(&all.lock);
    const struct held *h = *find(path);
    const bool is = h && h->fd >= 0;
    pthread_mutex_unlock(&all.lock);
    return is;
}

/* Another descriptor of the held file, with its own offset. */
static int open_again(const struct held *h, int flags)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", h->fd);
    const int fd = h->fd < 0 ? -1 : ctr_open(name, flags, 0);
    return fd < 0 && (h->fd < 0 || errno == ENOENT) ? ctr_open(h->path, flags, 0) : fd; /* /proc may be missing */
}

static int open_held(const struct held *h, int flags, struct ctr_err *err)
{
    struct stat st;
    const int fd = open_again(h, flags);
    if (fd < 0)
        return ctr_fail_sys(err, "cannot open");
    int rc = fstat(fd, &st) ? ctr_fail_sys(err, "cannot open") : 0;
    const struct ctr_file_state is = rc ? h->state : ctr_file_state(&st);
    if (!ctr_file_same(&is, &h->state))
        rc = ctr_fail(err, CTR_EDATA, CTR_FILE_CHANGED);
    if (rc)
        close(fd);
    return rc ? rc : fd;
}

int ctr_open_input(const char *path, int flags, struct ctr_err *err)
{
    pthread_mutex_lock(&all.lock);
    const struct held *h = *find(path);
    int fd = h ? open_held(h, flags, err) : -1;
    pthread_mutex_unlock(&all.lock);
    if (h)
        return fd;
    fd = ctr_open(path, flags, 0); /* for a FIFO this waits for its writer */
    return fd < 0 ? ctr_fail_sys(err, "cannot open") : fd;
}

int ctr_is_file(const char *path, struct ctr_err *err)
{
    struct stat st;
    if (!strcmp(path, "-"))
        return 0;
    if (!stat(path, &st))
        return S_ISREG(st.st_mode);
    return errno == ENOENT || errno == ENOTDIR ? 0 : ctr_fail_sys(err, "cannot stat");
}

bool ctr_file_changed(const char *path, struct ctr_file_seen *seen)
{
    const struct ctr_file_seen was = *seen;
    struct stat st;
    if (stat(path, &st))
        return false;
    *seen = (struct ctr_file_seen){ .dev = st.st_dev,
                                    .ino = st.st_ino,
                                    .size = st.st_size,
                                    .time_ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000,
                                    .time_ns = st.st_mtim.tv_nsec };
    return seen->dev != was.dev || seen->ino != was.ino || seen->size != was.size || seen->time_ms != was.time_ms ||
           seen->time_ns != was.time_ns;
}
