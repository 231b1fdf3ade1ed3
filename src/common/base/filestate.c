/* SPDX-License-Identifier: Apache-2.0
 *
 * filestate: was a file written to while it was read? Its inode, size and both of its times tell, if a write after the
 * first look must set a time that differs. Kernels take times from a clock of coarse ticks, and some file systems
 * round them to a second or two. So the first look waits for the end of the tick, and of a file that was written to in
 * the last seconds it keeps a hash of the last bytes: in a sealed file these have the last seal, on which every byte
 * depends.
 */
#include "common/base/base.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    MS = 1000000,          /* in ns */
    TICK_MS = 20,          /* at most */
    RECENT_S = 3,          /* the coarsest times of file systems are of 2 s */
    TAIL_BYTES = 256 << 10 /* the trailer of a stream of 4000 columns of text */
};

/* Time since the last change of the inode, in ns, by the clock that sets it. */
static int64_t age_ns(const struct stat *st)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now))
        return INT64_MAX;
    const int64_t s = (int64_t)now.tv_sec - (int64_t)st->st_ctim.tv_sec;
    return s > 3600 ? INT64_MAX : s < -3600 ? INT64_MIN : s * 1000000000 + (now.tv_nsec - st->st_ctim.tv_nsec);
}

/* The kernel stamps a write with a clock that ticks every 1 to 10 ms, and file systems may round that down. A stamp
 * that is ahead of this clock is of a file system that takes finer ones. What has no name others cannot write to. */
static int wait_for_tick(int fd, struct stat *st)
{
    const struct timespec ms = { .tv_nsec = MS };
    int rc = fstat(fd, st);
    for (int i = 0; !rc && i < TICK_MS && S_ISREG(st->st_mode) && st->st_nlink; i++) {
        const int64_t age = age_ns(st);
        if (age < 0 || age >= MS)
            break;
        (void)nanosleep(&ms, NULL);
        rc = fstat(fd, st);
    }
    return rc;
}

static uint64_t label_of(int fd, const struct stat *st)
{
    char link[40], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, name, sizeof name); /* follows renames, and tells when the name is removed */
    const uint64_t kept[] = { (uint64_t)st->st_nlink, st->st_mode, st->st_uid, st->st_gid };
    return ctr_hash64(name, n < 0 ? 0 : (size_t)n, ctr_hash64(kept, sizeof kept, 0)) | 1;
}

static int hash_tail(int fd, int64_t size, uint64_t *hash, struct ctr_err *err)
{
    uint8_t piece[16 << 10];
    *hash = 0;
    for (int64_t at = CTR_MAX(size - TAIL_BYTES, 0); at < size; at += (int64_t)sizeof piece) {
        const size_t n = (size_t)CTR_MIN(size - at, (int64_t)sizeof piece);
        int rc = ctr_pread_full(fd, piece, n, at, err);
        if (rc)
            return rc;
        *hash = ctr_hash64(piece, n, *hash);
    }
    return 0;
}

struct ctr_file_state ctr_file_state(const struct stat *st)
{
    return (struct ctr_file_state){ .regular = S_ISREG(st->st_mode),
                                    .dev = (uint64_t)st->st_dev,
                                    .ino = (uint64_t)st->st_ino,
                                    .size = (int64_t)st->st_size,
                                    .time_s = (int64_t)st->st_mtim.tv_sec,
                                    .time_ns = (int64_t)st->st_mtim.tv_nsec,
                                    .change_s = (int64_t)st->st_ctim.tv_sec,
                                    .change_ns = (int64_t)st->st_ctim.tv_nsec };
}

int ctr_file_look(int fd, const char *path, struct ctr_file_state *s, struct ctr_err *err)
{
    struct stat st;
    if (path && ctr_input_identity_state(path, s))
        return ctr_file_unchanged(fd, s, err);
    if (wait_for_tick(fd, &st))
        return ctr_fail_sys(err, "cannot stat");
    *s = ctr_file_state(&st);
    if (!s->regular)
        return 0;
    s->label = label_of(fd, &st);
    s->recent = age_ns(&st) < RECENT_S * (int64_t)1000000000;
    return s->recent ? hash_tail(fd, s->size, &s->tail, err) : 0;
}

static bool same_stat(int fd, const struct ctr_file_state *was, const struct stat *st)
{
    const struct ctr_file_state is = ctr_file_state(st);
    return is.regular == was->regular && is.dev == was->dev && is.ino == was->ino && is.size == was->size &&
           is.time_s == was->time_s && is.time_ns == was->time_ns &&
           ((is.change_s == was->change_s && is.change_ns == was->change_ns) ||
            (was->label && label_of(fd, st) != was->label));
}

int ctr_file_unchanged(int fd, const struct ctr_file_state *s, struct ctr_err *err)
{
    struct stat st;
    uint64_t tail = s->tail;
    if (!s->regular)
        return 0;
    if (fstat(fd, &st))
        return ctr_fail_sys(err, "cannot stat");
    const bool same = same_stat(fd, s, &st);
    int rc = same && s->recent ? hash_tail(fd, s->size, &tail, err) : 0;
    return rc || (same && tail == s->tail) ? rc : ctr_fail(err, CTR_EDATA, CTR_FILE_CHANGED);
}
