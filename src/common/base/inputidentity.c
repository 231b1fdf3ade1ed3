/* SPDX-License-Identifier: Apache-2.0
 *
 * inputidentity: keeps an input that is read more than once (passes, plan and features of a model, several look-ups)
 * the same file. Invariant: between ctr_input_identity_keep and the last ctr_input_identity_release of a path,
 * ctr_open_input returns the file that had the name at first, without a write since (filestate.c), or fails.
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
    struct held *first[4096]; /* by hash of the path: a run may have tens of thousands of files */
    int fds;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The location of the pointer to a path, or where it would be. */
static struct held **find(const char *path)
{
    struct held **at = &all.first[ctr_hash64(path, strlen(path), 0) % CTR_COUNT(all.first)];
    while (*at && strcmp((*at)->path, path))
        at = &(*at)->next;
    return at;
}

/* Look at the file, and keep it open, but leave half of the possible descriptors to others. */
static int open_to_hold(struct held *h, struct ctr_err *err)
{
    struct rlimit limit;
    const int fd = ctr_open(h->path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return 0; /* opening it to read tells why */
    const int rc = ctr_file_look(fd, NULL, &h->state, err);
    if (!rc && !getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)all.fds < limit.rlim_cur / 2)
        h->fd = fd;
    else
        close(fd);
    if (rc)
        ctr_err_file(err, h->path);
    return rc;
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
    h->fd = -1;
    h->state = ctr_file_state(&st);
    const int rc = open_to_hold(h, err);
    all.fds += h->fd >= 0;
    if (rc) {
        *at = NULL;
        free(h);
    }
    return rc;
}

int ctr_input_identity_keep(const char *path, struct ctr_err *err)
{
    if (!strcmp(path, "-"))
        return 0;
    pthread_mutex_lock(&all.lock);
    const int rc = hold_locked(path, err);
    pthread_mutex_unlock(&all.lock);
    return rc;
}

void ctr_input_identity_release(const char *path)
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

void ctr_input_identity_release_all(void)
{
    for (size_t i = 0; i < CTR_COUNT(all.first); i++)
        for (struct held *h; (h = all.first[i]);) {
            all.first[i] = h->next;
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

bool ctr_input_identity_replaced(const char *path)
{
    struct stat st;
    pthread_mutex_lock(&all.lock);
    const struct held *h = *find(path);
    const bool is = h && h->state.regular &&
                    (stat(path, &st) || (uint64_t)st.st_dev != h->state.dev || (uint64_t)st.st_ino != h->state.ino);
    pthread_mutex_unlock(&all.lock);
    return is;
}

bool ctr_input_identity_state(const char *path, struct ctr_file_state *s)
{
    pthread_mutex_lock(&all.lock);
    const struct held *h = *find(path);
    if (h)
        *s = h->state;
    pthread_mutex_unlock(&all.lock);
    return h;
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
    const int fd = open_again(h, flags);
    if (fd < 0)
        return ctr_fail_sys(err, "cannot open");
    const int rc = ctr_file_unchanged(fd, &h->state, err);
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
                                    .time_ns = st.st_mtim.tv_nsec,
                                    .change_ns = st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec };
    return seen->dev != was.dev || seen->ino != was.ino || seen->size != was.size || seen->time_ms != was.time_ms ||
           seen->time_ns != was.time_ns || seen->change_ns != was.change_ns;
}
