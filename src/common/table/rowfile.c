/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk by place. See rowfile.h.
 *
 *     file     segment segment segment …     written at once; the last one begun, `tail`, is in memory
 *     segment  page page …                   read and checked as a whole
 *     page     row row …  unused             a multiple of 4 KiB of which rows leave at most a quarter unused
 *
 * A place is segment * rows of a segment + row, so that a page is found without an index. Per segment the number of
 * rows that are not dropped is kept; segments without any are reused, the most recent first. When more than half of the
 * written rows are dropped, the caller moves the others out of the segments with the fewest.
 *
 * Reads are blocking calls of a pool of threads, each with its own buffer. */
#include "common/table/rowfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

enum {
    PAGE = 4096,
    MOST_PAGE = 16 * PAGE,  /* unless one row needs more */
    THREADS = 16,           /* reads at once, if memory allows */
    LEAST_PIECE = 16 << 10, /* bytes of a read that several threads take, each */
    MOST_PIECE = 256 << 10, /* and at most, as of a segment */
    READS_PART = 32,        /* of memory, for the buffers of reads; */
    SEGMENT_PART = 64,      /* for a segment; there are two */
    GAP = 8 << 10,          /* bytes between two pages that are read rather than skipped */
    STALE_PART = 10,
    STALE = 6 /* a segment with fewer than 6/10 of its rows is worth moving */
};

struct ctr_rowfile {
    char *dir; /* for messages */
    int fd;
    _Atomic bool direct;              /* around the system's cache */
    size_t row, page, piece;          /* bytes of a row, of a page, of the buffer of a read */
    uint64_t page_rows, segment_rows; /* rows of a page, of a segment */
    uint64_t segments, tail;          /* so far; the one that rows are added to */
    uint64_t tail_rows;
    uint64_t live;                      /* rows that are not dropped */
    struct ctr_buf alive;               /* u32, by segment: rows that are not dropped */
    struct ctr_buf sum;                 /* u32, by page */
    struct ctr_buf unused;              /* u32: segments without rows */
    uint8_t *memory, *segment, *buffer; /* of all: of the tail, of the segment before it, and of the threads */
    size_t buffers;                     /* bytes of memory */
    int threads;
    struct ctr_background *writer; /* NULL: the caller writes */
    struct write {
        uint8_t *data; /* the segment before the tail */
        uint64_t number;
        bool running;
        int rc;
        struct ctr_err err;
    } write;
    struct ctr_pool *pool; /* made by the first read of several pieces */
    _Atomic int64_t reads, read_bytes;
    int64_t writes, written_bytes;
};

/* Rows of 96 bytes, not dense, and 1 MiB of memory: a page is 4 KiB with 42 rows (64 bytes unused), a segment 4 pages,
 * 168 rows. Place 215 = 1 * 168 + 47 is row 47 of segment 1, which is row 5 of its second page: page 5 of the file,
 * byte 5 * 4096 + 5 * 96.
 *
 * ctr_rowfile_get of the places 400, 3, 50 and 215, while segment 2 (from 336 on) is the tail:
 *
 *     sort             3  50  215  400
 *     in pages         0   1    5          400 is copied from memory, f->segment
 *     pieces           0-1      5          as 2-4 between them are more than GAP
 *     read_piece       each by a thread; the checksum of each page is compared before a row of it is copied
 *
 * Rows go to the caller's array in the order asked for: `number` of an entry survives the sort. */

static int fail_sys(const struct ctr_rowfile *f, const char *what, struct ctr_err *err)
{
    (void)ctr_fail_sys(err, "rows on disk: %s", what);
    ctr_err_file(err, f->dir);
    return err->code;
}

static int damaged(const struct ctr_rowfile *f, const char *why, struct ctr_err *err)
{
    (void)ctr_fail(err, CTR_ESYS, "rows on disk: the file is damaged: %s", why);
    ctr_err_file(err, f->dir);
    return err->code;
}

/* ---- open and free ---- */

/* The smallest page of which rows leave at most a quarter unused. */
static size_t page_for(size_t row)
{
    size_t page = (row + PAGE - 1) / PAGE * PAGE;
    while (page < MOST_PAGE && page % row * 4 > page)
        page += PAGE;
    return page;
}

static size_t pages_in(const struct ctr_rowfile *f, int64_t bytes, size_t most)
{
    return CTR_MAX(CTR_MIN((size_t)CTR_MAX(bytes, 0), most) / f->page, 1) * f->page;
}

static int make_buffers(struct ctr_rowfile *f, bool dense, int64_t memory, struct ctr_err *err)
{
    const size_t least = CTR_MAX(f->page, (size_t)(dense ? MOST_PIECE : LEAST_PIECE));
    const size_t segment = pages_in(f, memory / SEGMENT_PART, MOST_PIECE);
    f->threads = (int)CTR_MAX(CTR_MIN(memory / READS_PART / (int64_t)least, THREADS), 1);
    f->piece = pages_in(f, memory / READS_PART / f->threads, MOST_PIECE);
    f->page_rows = f->page / f->row;
    f->segment_rows = segment / f->page * f->page_rows;
    const size_t all = 2 * segment + (size_t)f->threads * f->piece;
    void *p = NULL;
    if (posix_memalign(&p, PAGE, all))
        return ctr_fail_nomem(err, all);
    memset(p, 0, 2 * segment); /* what rows leave unused is written, too */
    f->memory = p;
    f->segment = f->memory;
    f->write.data = f->memory + segment;
    f->buffer = f->memory + 2 * segment;
    f->buffers = all;
    return 0;
}

int ctr_rowfile_open(struct ctr_rowfile **out, const char *dir, int32_t floats, bool dense, int64_t memory,
                     struct ctr_err *err)
{
    struct ctr_rowfile *f = calloc(1, sizeof *f);
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->fd = -1;
    f->row = (size_t)floats * sizeof(float);
    f->page = page_for(f->row);
    int rc = ctr_strdup(&f->dir, dir, err);
    if (!rc && (f->fd = ctr_tmpfile_in(dir, err)) < 0)
        rc = f->fd;
    if (!rc)
        rc = make_buffers(f, dense, memory, err);
    if (rc) {
        ctr_rowfile_free(f);
        return rc;
    }
#ifdef O_DIRECT
    const int flags = fcntl(f->fd, F_GETFL);
    f->direct = flags >= 0 && !fcntl(f->fd, F_SETFL, flags | O_DIRECT);
#endif
    *out = f;
    return 0;
}

void ctr_rowfile_free(struct ctr_rowfile *f)
{
    if (!f)
        return;
    ctr_pool_free(f->pool);
    ctr_background_free(f->writer);
    if (f->fd >= 0)
        close(f->fd);
    free(f->memory);
    ctr_buf_free(&f->alive);
    ctr_buf_free(&f->sum);
    ctr_buf_free(&f->unused);
    free(f->dir);
    free(f);
}

int ctr_rowfile_fd(const struct ctr_rowfile *f)
{
    return f->fd;
}

uint64_t ctr_rowfile_places(const struct ctr_rowfile *f)
{
    return f->segments * f->segment_rows;
}

int64_t ctr_rowfile_memory(const struct ctr_rowfile *f)
{
    return (int64_t)(f->buffers + f->alive.cap + f->sum.cap);
}

struct ctr_rowfile_moved ctr_rowfile_moved(const struct ctr_rowfile *f)
{
    return (struct ctr_rowfile_moved){ f->reads, f->read_bytes, f->writes, f->written_bytes };
}

/* ---- input and output ---- */

/* A file system may accept O_DIRECT and refuse its reads and writes. */
static bool without_direct(struct ctr_rowfile *f, bool was_direct)
{
#ifdef O_DIRECT
    const int flags = errno == EINVAL && was_direct ? fcntl(f->fd, F_GETFL) : -1;
    if (flags >= 0 && !fcntl(f->fd, F_SETFL, flags & ~O_DIRECT)) {
        f->direct = false;
        return true;
    }
#endif
    (void)f, (void)was_direct;
    return false;
}

/* Take what was read or written out of the system's cache. */
static void leave_cache(const struct ctr_rowfile *f, bool write, off_t at, off_t n)
{
#ifdef SYNC_FILE_RANGE_WRITE
    if (write) /* pages that are not yet on disk stay */
        (void)sync_file_range(f->fd, at, n,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
#endif
    (void)write;
    (void)posix_fadvise(f->fd, at, n, POSIX_FADV_DONTNEED);
}

/* Read or write all of it. */
static int move_bytes(struct ctr_rowfile *f, bool write, uint8_t *data, size_t n, uint64_t at, struct ctr_err *err)
{
    for (size_t done = 0; done < n;) {
        const bool direct = f->direct; /* another thread may change it */
        const ssize_t some = write ? pwrite(f->fd, data + done, n - done, (off_t)(at + done))
                                   : pread(f->fd, data + done, n - done, (off_t)(at + done));
        if (some > 0)
            done += (size_t)some;
        else if (!some && !write)
            return damaged(f, "it ends too early", err);
        else if (!some || (errno != EINTR && !without_direct(f, direct)))
            return fail_sys(f, write ? "cannot write" : "cannot read", err);
    }
    if (!f->direct)
        leave_cache(f, write, (off_t)at, (off_t)n);
    return 0;
}

/* Of a page's content: a page that belongs elsewhere, or is an old version, differs. */
static uint32_t sum_of(const struct ctr_rowfile *f, const uint8_t *page, uint64_t number)
{
    return (uint32_t)ctr_hash64(page, f->page_rows * f->row, number);
}

/* ---- adding and dropping ---- */

static uint64_t segment_pages(const struct ctr_rowfile *f)
{
    return f->segment_rows / f->page_rows;
}

/* Start a segment: one without rows, or another at the end. */
static int begin_segment(struct ctr_rowfile *f, struct ctr_err *err)
{
    int rc = 0;
    f->tail_rows = 0;
    if (f->unused.len) {
        f->unused.len -= sizeof(uint32_t);
        f->tail = *(const uint32_t *)(const void *)(f->unused.data + f->unused.len);
        return 0;
    }
    if ((f->segments + 1) * f->segment_rows > CTR_ROWFILE_PLACES)
        return ctr_fail(err, CTR_EDATA, "rows on disk: more than 2^31 places");
    uint32_t *alive = ctr_buf_extend(&f->alive, 1, sizeof *alive, &rc, err);
    (void)ctr_buf_extend(&f->sum, (int64_t)segment_pages(f), sizeof(uint32_t), &rc, err);
    if (!rc)
        *alive = 0;
    f->tail = f->segments;
    f->segments += !rc;
    return rc;
}

static void reuse(struct ctr_rowfile *f, uint32_t segment)
{
    struct ctr_err err;
    int rc = ctr_buf_append(&f->unused, &segment, sizeof segment, &err);
    (void)rc; /* without memory for it the segment is not reused */
}

/* Wait for the write in progress. */
static int written(struct ctr_rowfile *f, struct ctr_err *err)
{
    struct write *w = &f->write;
    if (w->running && f->writer)
        (void)ctr_background_wait(f->writer, -1);
    w->running = false;
    if (w->rc)
        *err = w->err;
    return w->rc;
}

static void write_segment(void *ctx)
{
    struct ctr_rowfile *f = ctx;
    struct write *w = &f->write;
    const size_t bytes = segment_pages(f) * f->page;
    w->rc = move_bytes(f, true, w->data, bytes, w->number * bytes, &w->err);
}

/* Write the tail, beside the caller. */
static int end_segment(struct ctr_rowfile *f, struct ctr_err *err)
{
    struct write *w = &f->write;
    const uint64_t pages = segment_pages(f), first = f->tail * pages;
    int rc = written(f, err);
    if (rc)
        return rc;
    if (!AS(uint32_t, f->alive)[f->tail]) {
        reuse(f, (uint32_t)f->tail);
        return 0;
    }
    if (!f->writes++)
        f->writer = ctr_background_new();
    f->written_bytes += (int64_t)(pages * f->page);
    for (uint64_t i = 0; i < pages; i++)
        AS(uint32_t, f->sum)[first + i] = sum_of(f, f->segment + i * f->page, first + i);
    uint8_t *free = w->data;
    w->data = f->segment;
    w->number = f->tail;
    w->running = true;
    f->segment = free;
    if (f->writer)
        ctr_background_run(f->writer, write_segment, f);
    else
        write_segment(f);
    return 0;
}

static uint8_t *row_in(const struct ctr_rowfile *f, uint8_t *pages, uint64_t row)
{
    return pages + row / f->page_rows * f->page + row % f->page_rows * f->row;
}

int ctr_rowfile_add(struct ctr_rowfile *f, const float *row, uint32_t *place, struct ctr_err *err)
{
    int rc = 0;
    if (!f->segments || f->tail_rows == f->segment_rows) {
        rc = f->segments ? end_segment(f, err) : 0;
        if (!rc)
            rc = begin_segment(f, err);
        if (rc)
            return rc;
    }
    memcpy(row_in(f, f->segment, f->tail_rows), row, f->row);
    *place = (uint32_t)(f->tail * f->segment_rows + f->tail_rows++);
    AS(uint32_t, f->alive)[f->tail]++;
    f->live++;
    return 0;
}

void ctr_rowfile_drop(struct ctr_rowfile *f, uint32_t place)
{
    const uint64_t segment = place / f->segment_rows;
    f->live--;
    if (!--AS(uint32_t, f->alive)[segment] && segment != f->tail)
        reuse(f, (uint32_t)segment);
}

bool ctr_rowfile_wasteful(const struct ctr_rowfile *f)
{
    const uint64_t used = f->segments - f->unused.len / sizeof(uint32_t);
    return used > 8 && used * f->segment_rows > 2 * f->live;
}

bool ctr_rowfile_stale(const struct ctr_rowfile *f, uint32_t place)
{
    const uint64_t segment = place / f->segment_rows;
    return segment != f->tail && AS(uint32_t, f->alive)[segment] * (uint64_t)STALE_PART < f->segment_rows * STALE;
}

/* ---- reading ---- */

struct piece {
    int64_t first, n; /* of the rows asked for, in order of places */
};

struct get {
    struct ctr_rowfile *f;
    const struct ctr_numbered *row; /* key: place */
    float *to;
    struct piece *piece;
    struct ctr_err *err; /* by worker */
};

static uint64_t page_of(const struct ctr_rowfile *f, uint64_t place)
{
    return place / f->segment_rows * segment_pages(f) + place % f->segment_rows / f->page_rows;
}

static void copy_row(const struct get *g, const struct ctr_numbered *row, uint8_t *page)
{
    struct ctr_rowfile *f = g->f;
    memcpy((uint8_t *)g->to + row->number * f->row, row_in(f, page, row->key % f->segment_rows % f->page_rows), f->row);
}

static void read_piece(void *ctx, int64_t task, int worker)
{
    const struct get *g = ctx;
    struct ctr_rowfile *f = g->f;
    const struct ctr_numbered *row = g->row + g->piece[task].first, *end = row + g->piece[task].n;
    const uint64_t first = page_of(f, row->key), last = page_of(f, end[-1].key);
    uint8_t *buffer = f->buffer + (size_t)worker * f->piece;
    struct ctr_err *err = &g->err[worker];
    const size_t bytes = (last + 1 - first) * f->page;
    if (err->code || move_bytes(f, false, buffer, bytes, first * f->page, err))
        return;
    f->reads++;
    f->read_bytes += (int64_t)bytes;
    for (uint64_t seen = UINT64_MAX; row < end; row++) {
        const uint64_t page = page_of(f, row->key);
        uint8_t *at = buffer + (page - first) * f->page;
        if (page != seen && sum_of(f, at, page) != AS(uint32_t, f->sum)[page]) {
            (void)damaged(f, "its checksums are wrong", err);
            return;
        }
        seen = page;
        copy_row(g, row, at);
    }
}

/* Rows of the segment that is not yet written come from memory; pages of the others are gathered into pieces. */
static int make_pieces(const struct get *g, int64_t n, struct ctr_buf *pieces, struct ctr_err *err)
{
    struct ctr_rowfile *f = g->f;
    struct piece *p = NULL;
    uint64_t first = 0, last = 0;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        const uint64_t page = page_of(f, g->row[i].key);
        if (g->row[i].key / f->segment_rows == f->tail) {
            copy_row(g, &g->row[i], f->segment + page % segment_pages(f) * f->page);
            p = NULL;
            continue;
        }
        if (!p || (page > last && (page - last - 1) * f->page > GAP) || (page + 1 - first) * f->page > f->piece) {
            if ((p = ctr_buf_extend(pieces, 1, sizeof *p, &rc, err)))
                *p = (struct piece){ i, 0 };
            first = page;
        }
        last = page;
        if (p)
            p->n++;
    }
    return rc;
}

int ctr_rowfile_get(struct ctr_rowfile *f, struct ctr_numbered *get, int64_t n, float *rows, struct ctr_err *err)
{
    struct ctr_err errs[THREADS] = { 0 };
    struct ctr_buf pieces = { 0 };
    struct get g = { f, n ? ctr_numbered_sort(get, get + n, (size_t)n) : get, rows, NULL, errs };
    int rc = written(f, err);
    if (!rc)
        rc = make_pieces(&g, n, &pieces, err);
    const int64_t k = (int64_t)(pieces.len / sizeof *g.piece);
    g.piece = AS(struct piece, pieces);
    if (!rc && k > 1 && f->threads > 1 && !f->pool)
        rc = ctr_pool_new(&f->pool, f->threads, CTR_FLOAT_IEEE, err);
    if (!rc)
        ctr_pool_run(f->pool, k, read_piece, &g);
    for (int i = 0; i < f->threads && !rc; i++)
        if (errs[i].code) {
            *err = errs[i];
            rc = err->code;
        }
    ctr_buf_free(&pieces);
    return rc;
}
