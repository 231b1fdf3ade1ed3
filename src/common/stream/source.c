/* SPDX-License-Identifier: Apache-2.0
 *
 * source: reads the bytes of a pipe or file. A read goes directly to the caller's memory, and further bytes in the pipe
 * go to a look-ahead buffer in the same call. Memory grows with the bytes received, never with a claimed length.
 */
#include "common/stream/arrow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef LOOK_BYTES /* fuzzing uses fewer */
#define LOOK_BYTES ((size_t)64 << 10)
#endif
enum { PIECE_BYTES = 4 << 20, PIPE_BYTES = 512 << 10, MAPS = 256, TAIL_BYTES = 16 << 10 };

/* Mapped files, for the signal handler: reading a page of a file that another program has truncated raises SIGBUS.
 * Files beyond the table's size are not named in the message. */
static struct {
    const uint8_t *map;
    size_t size;
    const char *name;
} maps[MAPS];

/* `look` is empty; the pipe holds a message of 8, 200 and 5,000 bytes (prefix, metadata, body) and 900 of the next:
 *
 *     ctr_source_read 8     readv into the caller's 8 bytes and `look`: 6,100 bytes are in `look`; at = 0
 *     ctr_source_read 200   from `look`: at = 200
 *     ctr_source_read 5000  from `look`: at = 5200
 *     ctr_source_read 8     from `look`; 892 bytes are left
 *
 * A larger body is read directly into the caller's memory, behind what `look` had of it. Of a body that claims to have
 * 1 GiB, PIECE_BYTES are reserved before bytes arrive. An IPC file is mapped, as its footer has all offsets. */

static void remember_map(const struct arrow_source *s)
{
    for (int i = 0; i < MAPS; i++) {
        const char *none = NULL;
        if (!__atomic_compare_exchange_n(&maps[i].name, &none, s->name, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue;
        __atomic_store_n(&maps[i].size, (size_t)s->map_size, __ATOMIC_SEQ_CST);
        __atomic_store_n(&maps[i].map, s->map, __ATOMIC_SEQ_CST);
        return;
    }
}

static void forget_map(const struct arrow_source *s)
{
    for (int i = 0; i < MAPS; i++)
        if (__atomic_load_n(&maps[i].map, __ATOMIC_SEQ_CST) == s->map) {
            __atomic_store_n(&maps[i].map, NULL, __ATOMIC_SEQ_CST);
            __atomic_store_n(&maps[i].name, NULL, __ATOMIC_SEQ_CST);
            return;
        }
}

const char *ctr_mapped_file(const void *address)
{
    for (int i = 0; i < MAPS; i++) {
        const uint8_t *map = __atomic_load_n(&maps[i].map, __ATOMIC_SEQ_CST);
        if (map && (const uint8_t *)address >= map && (const uint8_t *)address < map + maps[i].size)
            return maps[i].name;
    }
    return NULL;
}

static int map_fd(struct arrow_source *s, int fd, int64_t size, struct ctr_err *err)
{
    void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return ctr_fail_sys(err, "cannot map");
    s->map = p;
    s->map_size = size;
    remember_map(s);
    return 0;
}

/* Copy an IPC file from a pipe to a temporary file, because its footer, which has all positions, comes last. */
static int spool(struct arrow_source *s, struct ctr_err *err)
{
    struct ctr_buf piece = { 0 };
    int64_t size = 0;
    int fd = ctr_tmpfile(err), rc = fd;
    while (rc >= 0) {
        rc = ctr_source_read(s, &piece, 1 << 20, err);
        if (rc < 0 || !piece.len)
            break;
        rc = ctr_write_full(fd, piece.data, piece.len, err);
        size += (int64_t)piece.len;
    }
    if (rc >= 0)
        rc = map_fd(s, fd, size, err);
    if (fd >= 0)
        close(fd);
    ctr_buf_free(&piece);
    return rc;
}

/* Map the input, if it is an IPC file. */
static int map_file(struct arrow_source *s, const struct stat *sb, struct ctr_err *err)
{
    static const char magic[8] = "ARROW1";
    uint8_t head[8];
    const uint8_t *p;
    size_t n;
    int rc;
    if (S_ISREG(sb->st_mode) && lseek(s->fd, 0, SEEK_CUR) == 0) {
        rc = sb->st_size < 8 ? 0 : ctr_pread_full(s->fd, head, 8, 0, err);
        return rc || sb->st_size < 8 || memcmp(head, magic, 8) ? rc : map_fd(s, s->fd, sb->st_size, err);
    }
    rc = ctr_source_peek(s, 8, &p, &n, err);
    return rc < 0 || n < 8 || memcmp(p, magic, 8) ? rc : spool(s, err);
}

/* If this process also holds the writing end of a FIFO, it does not end when the writers exit. A log that grows is
 * another one each moment, so ctr_open_input would refuse it. */
static int open_to_follow(const char *path, struct ctr_err *err)
{
    struct stat sb;
    const bool fifo = !stat(path, &sb) && S_ISFIFO(sb.st_mode); /* open reports a missing file */
    const int fd = ctr_open(path, fifo ? O_RDWR : O_RDONLY, 0);
    return fd < 0 ? ctr_fail_sys(err, "cannot open") : fd;
}

int ctr_source_open(struct arrow_source *s, const char *path, const struct ctr_reader_opts *opts,
                    struct ctr_reader_stats *st, struct ctr_err *err)
{
    bool is_stdin = !strcmp(path, "-");
    struct stat sb = { 0 };
    *s = (struct arrow_source){ .fd = -1, .opts = opts, .stats = st };
    int rc = ctr_strdup(&s->name, is_stdin ? "stdin" : path, err);
    if (rc < 0)
        return rc;
    s->fd = rc = is_stdin ? 0 : opts->follow ? open_to_follow(path, err) : ctr_open_input(path, O_RDONLY, err);
    s->own_fd = !is_stdin && rc >= 0;
    if (rc >= 0 && (rc = fstat(s->fd, &sb)) < 0)
        rc = ctr_fail_sys(err, "cannot open");
    else if (rc >= 0 && S_ISDIR(sb.st_mode))
        rc = ctr_fail(err, CTR_EDATA, "is a directory");
    else if (rc >= 0 && isatty(s->fd))
        rc = ctr_fail(err, CTR_EUSAGE, "is a terminal: name a file, or pipe a stream in");
    if (rc < 0) {
        ctr_err_file(err, s->name);
        ctr_source_close(s);
        return rc;
    }
    s->from_pipe = S_ISFIFO(sb.st_mode) || S_ISSOCK(sb.st_mode);
    if (S_ISFIFO(sb.st_mode))
        (void)fcntl(s->fd, F_SETPIPE_SZ, PIPE_BYTES); /* if the limit is lower this fails, which only costs speed */
    s->pollable = !S_ISREG(sb.st_mode) && opts->idle;
    s->grows = S_ISREG(sb.st_mode) && opts->follow;
    rc = s->grows ? 0 : ctr_file_look(s->fd, is_stdin ? NULL : path, &s->opened, err);
    if (s->opened.regular)
        sb.st_size = s->opened.size;
    if (rc >= 0)
        rc = ctr_buf_reserve(&s->look, LOOK_BYTES, err);
    if (rc >= 0)
        rc = map_file(s, &sb, err);
    if (rc >= 0 && s->map && opts->follow)
        rc = ctr_fail(err, CTR_EUSAGE, "is an IPC file, which does not grow: only streams can be followed");
    if (rc < 0) {
        ctr_err_file(err, s->name);
        ctr_source_close(s);
    }
    return rc;
}

void ctr_source_close(struct arrow_source *s)
{
    if (s->map) {
        forget_map(s);
        munmap((void *)(uintptr_t)s->map, (size_t)s->map_size);
    }
    if (s->own_fd && s->fd >= 0)
        close(s->fd);
    free(s->name);
    ctr_buf_free(&s->look);
    ctr_buf_free(&s->tail);
    *s = (struct arrow_source){ .fd = -1 };
}

/* Detects changes of parts already read, which no other check would detect, because each part may be valid by
 * itself. */
int ctr_source_unchanged(const struct arrow_source *s, struct ctr_err *err)
{
    return s->grows ? 0 : ctr_file_unchanged(s->fd, &s->opened, err);
}

/* Before a read that may block: after a time without input, and after a signal, lets the writer flush, and the tool
 * check whether to stop. */
static int wait_idle(struct arrow_source *s, struct ctr_err *err)
{
    struct pollfd p = { .fd = s->fd, .events = POLLIN };
    bool on = true;
    for (int k; s->pollable && on; on = s->opts->idle(s->opts->idle_ctx))
        if ((k = poll(&p, 1, s->opts->idle_ms)) > 0 || (k < 0 && errno != EINTR))
            return 0;
    return on ? 0 : ctr_fail(err, CTR_EDATA, "reading was given up");
}

/* Has another file taken the name? Then this one, renamed or removed, is read to its end, and checked once more. */
static bool is_replaced(const struct arrow_source *s)
{
    struct stat named, open;
    return s->own_fd && !stat(s->name, &named) && !fstat(s->fd, &open) &&
           (named.st_dev != open.st_dev || named.st_ino != open.st_ino);
}

/* ---- a file that grows ---- */

/* Keep the last of the k bytes read into v. */
static int keep_tail(struct arrow_source *s, const struct iovec *v, ssize_t k, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(&s->tail, 2 * TAIL_BYTES, err);
    for (; !rc && k > 0; v++) {
        const size_t n = CTR_MIN((size_t)k, v->iov_len), last = CTR_MIN(n, TAIL_BYTES);
        if (s->tail.len + last > TAIL_BYTES) {
            const size_t stays = TAIL_BYTES - last;
            memmove(s->tail.data, s->tail.data + s->tail.len - stays, stays);
            s->tail.len = stays;
        }
        memcpy(s->tail.data + s->tail.len, (const uint8_t *)v->iov_base + n - last, last);
        s->tail.len += last;
        k -= (ssize_t)n;
    }
    return rc;
}

/* Is the part already read, up to `end`, unchanged? The file may have been truncated and have grown again to the same
 * length, or beyond, at any time. Its last bytes are compared at each read, after it, so that what was read belongs to
 * them. */
static int check_tail(struct arrow_source *s, off_t end, struct ctr_err *err)
{
    uint8_t now[TAIL_BYTES];
    struct stat sb;
    if (!fstat(s->fd, &sb) && sb.st_size < end)
        return ctr_fail(err, CTR_EDATA, "was cut short while it was followed");
    int rc = ctr_pread_full(s->fd, now, s->tail.len, end - (off_t)s->tail.len, err);
    if (!rc && s->tail.len && memcmp(now, s->tail.data, s->tail.len) != 0)
        rc = ctr_fail(err, CTR_EDATA, "was cut short and written anew while it was followed");
    return rc;
}

/* At the end of a file that may grow: wait a moment. */
static int wait_growth(struct arrow_source *s, struct ctr_err *err)
{
    const struct timespec ts = { s->opts->idle_ms / 1000, s->opts->idle_ms % 1000 * 1000000L };
    int rc = check_tail(s, lseek(s->fd, 0, SEEK_CUR), err);
    if (rc)
        return rc;
    if (s->replaced)
        return ctr_fail(err, CTR_EDATA, "another file took its name while it was followed, and nothing more came");
    s->replaced = is_replaced(s);
    (void)nanosleep(&ts, NULL); /* a signal may end it early */
    return s->opts->idle(s->opts->idle_ctx) ? 0 : ctr_fail(err, CTR_EDATA, "reading was given up");
}

static ssize_t read_vectors(struct arrow_source *s, const struct iovec *v, int n, struct ctr_err *err)
{
    ssize_t k;
    int rc;
    do {
        if ((rc = wait_idle(s, err)) < 0)
            return rc;
        do
            k = readv(s->fd, v, n);
        while (k < 0 && ctr_again(s->fd, POLLIN));
        if (k == 0 && s->grows && (rc = wait_growth(s, err)) < 0)
            return rc;
    } while (k == 0 && s->grows);
    if (k > 0 && s->grows && (rc = check_tail(s, lseek(s->fd, 0, SEEK_CUR) - k, err)) < 0)
        return rc;
    if (k > 0 && s->grows && (rc = keep_tail(s, v, k, err)) < 0)
        return rc;
    if (k < 0)
        return ctr_fail_sys(err, "cannot read");
    s->stats->bytes_read += k;
    s->eof = k == 0;
    return k;
}

/* One readv into `to` (n bytes) and the empty look-ahead buffer. Returns the number of bytes in `to`. */
static ssize_t read_some(struct arrow_source *s, uint8_t *to, size_t n, struct ctr_err *err)
{
    struct iovec v[2] = { { to, n }, { s->look.data, LOOK_BYTES } };
    ssize_t k = read_vectors(s, v, 2, err);
    if (k < 0)
        return k;
    s->at = 0;
    s->look.len = (size_t)k > n ? (size_t)k - n : 0;
    return (ssize_t)CTR_MIN((size_t)k, n);
}

int ctr_source_peek(struct arrow_source *s, size_t n, const uint8_t **p, size_t *got, struct ctr_err *err)
{
    if (s->look.len - s->at < n && !s->eof) {
        memmove(s->look.data, s->look.data + s->at, s->look.len - s->at);
        s->look.len -= s->at;
        s->at = 0;
    }
    while (s->look.len - s->at < n && !s->eof) {
        const struct iovec v = { s->look.data + s->look.len, LOOK_BYTES - s->look.len };
        ssize_t k = read_vectors(s, &v, 1, err);
        if (k < 0)
            return (int)k;
        s->look.len += (size_t)k;
    }
    *p = s->look.data + s->at;
    *got = CTR_MIN(n, s->look.len - s->at);
    return 0;
}

int ctr_source_read(struct arrow_source *s, struct ctr_buf *out, int64_t n, struct ctr_err *err)
{
    out->len = 0;
    while ((int64_t)out->len < n) {
        size_t left = (size_t)(n - (int64_t)out->len), have = s->look.len - s->at;
        size_t piece = CTR_MIN(left, CTR_MAX((size_t)PIECE_BYTES, out->len)); /* doubles with the bytes received */
        int rc = ctr_buf_reserve(out, piece, err);
        if (rc < 0)
            return rc;
        if (have) {
            size_t k = CTR_MIN(have, piece);
            memcpy(out->data + out->len, s->look.data + s->at, k);
            out->len += k;
            s->at += k;
            continue;
        }
        if (s->eof)
            break;
        ssize_t k = read_some(s, out->data + out->len, piece, err);
        if (k < 0)
            return (int)k;
        out->len += (size_t)k;
    }
    s->offset += (int64_t)out->len;
    return 0;
}

/* Of bytes that are few all are read at once. */
enum { DEFER_BYTES = 64 << 10 };

int ctr_source_defer(struct arrow_source *s, struct ctr_buf *out, int64_t n, int64_t *have, struct ctr_err *err)
{
    struct stat sb;
    const int64_t at = s->offset, look = (int64_t)(s->look.len - s->at);
    if (!s->own_fd || !s->opened.regular || s->grows || s->opts->lenient || n < look + DEFER_BYTES ||
        fstat(s->fd, &sb) < 0 || sb.st_size - at < n)
        return 0;
    out->len = 0;
    if (ctr_buf_reserve(out, (size_t)n, err))
        return err->code;
    memcpy(out->data, s->look.data + s->at, (size_t)look);
    if (lseek(s->fd, at + n, SEEK_SET) < 0)
        return ctr_fail_sys(err, "cannot read");
    s->at = s->look.len = 0;
    s->offset = at + n;
    out->len = (size_t)n;
    *have = look;
    return 1;
}

int ctr_source_read_at(const struct arrow_source *s, uint8_t *to, int64_t n, int64_t at, struct ctr_err *err)
{
    s->stats->bytes_read += n;
    return ctr_pread_full(s->fd, to, (size_t)n, at, err);
}

/* ---- behind a damage ---- */

/* Does a sealed stream start with these bytes of a file? The length is taken from the prefix. */
static int begins_stream(int fd, int64_t at, int64_t size, struct ctr_buf *meta, struct ctr_buf *scratch,
                         struct ctr_err *err)
{
    struct arrow_message m;
    const size_t n = (size_t)size + 8;
    meta->len = 0;
    int rc = ctr_buf_reserve(meta, n, err);
    if (rc >= 0)
        rc = ctr_pread_full(fd, meta->data, n, at, err);
    if (rc >= 0)
        rc = ctr_message_parse(&m, meta->data, n, scratch, err);
    if (rc < 0)
        return rc == CTR_EDATA || rc == CTR_EKIND ? 0 : rc;
    return m.type == ARROW_SCHEMA && m.sealed;
}

int ctr_source_resync(struct arrow_source *s, int64_t from, struct ctr_buf *scratch, struct ctr_err *err)
{
    static const uint8_t mark[4] = { 0xff, 0xff, 0xff, 0xff };
    struct ctr_buf piece = { 0 }, meta = { 0 };
    struct stat sb;
    int rc = 0;
    if (fstat(s->fd, &sb) < 0)
        return ctr_fail_sys(err, "cannot read");
    if (!s->own_fd || s->grows || !S_ISREG(sb.st_mode))
        return 0;
    while (!rc && from + 8 < sb.st_size) {
        const size_t n = (size_t)CTR_MIN(sb.st_size - from, (int64_t)PIECE_BYTES);
        const uint8_t *p;
        if ((rc = ctr_buf_reserve(&piece, n, err)) || (rc = ctr_pread_full(s->fd, piece.data, n, from, err)))
            break;
        size_t at = 0;
        for (; (p = memmem(piece.data + at, n - at, mark, 4)); at++) {
            at = (size_t)(p - piece.data);
            if (at + 8 > n)
                break;
            const int64_t size = ctr_fb_load32(p + 4);
            if (size > 0 && size <= ARROW_MAX_METADATA && size % 8 == 0 &&
                size <= sb.st_size - from - (int64_t)at - 8 &&
                (rc = begins_stream(s->fd, from + (int64_t)at, size, &meta, scratch, err)))
                break;
        }
        from += p ? (int64_t)at : (int64_t)n - 3;
    }
    ctr_buf_free(&piece);
    ctr_buf_free(&meta);
    if (rc <= 0)
        return rc;
    if (lseek(s->fd, from, SEEK_SET) < 0)
        return ctr_fail_sys(err, "cannot read");
    s->look.len = s->at = 0;
    s->eof = false;
    s->offset = from;
    return 1;
}
