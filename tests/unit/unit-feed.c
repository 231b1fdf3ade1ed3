/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-feed: tiles made ahead, by no thread, one or two: every row comes once, in order, with all parts of its keys
 * found; of a part, tiles are found one after another by one thread at a time; an error comes where it belongs; work
 * that is offered is done once.
 */
#include "common/train/feed.h"
#include "common/stream/stream.h"
#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 9000, KEYS = 12, BATCH = 700, TILE = 100 };

static char path[32], to[32];
static int64_t pause_at; /* bytes, up to the end of the second batch */

static uint64_t key_of(int64_t row, int64_t k)
{
    return ctr_random64(3, (uint64_t)row, (uint64_t)k);
}

static uint32_t number_of(uint64_t hash, int part)
{
    return (uint32_t)hash ^ (uint32_t)part;
}

static int add_rows(struct ctr_writer *w, const struct ctr_schema *s, int64_t from, int64_t end, struct ctr_err *err)
{
    struct ctr_batchbuf b = { 0 };
    int rc = ctr_batchbuf_init(&b, s, err);
    for (int64_t i = from; i < end && !rc; i++) {
        rc = ctr_colbuf_i64(&b.col[0], i & 1, err);
        for (int k = 0; k < KEYS && !rc; k++)
            rc = ctr_colbuf_i64(&b.col[1 + k], (int64_t)key_of(i, k), err);
    }
    rc = rc ? rc : ctr_writer_batch(w, ctr_batchbuf_view(&b), err);
    ctr_batchbuf_free(&b);
    return rc;
}

static int write_rows(struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    char name[16];
    int rc = ctr_schema_add(&s, "y", CTR_U8, err);
    for (int k = 0; k < KEYS && !rc; k++) {
        snprintf(name, sizeof name, "k%02d", k);
        rc = ctr_schema_add(&s, name, CTR_U64, err);
        rc = rc ? rc : ctr_field_set_role(&s.f[1 + k], CTR_ROLE_FEATURE, err);
    }
    rc = rc ? rc : ctr_out_open(&o, to, 0, err);
    rc = rc ? rc : ctr_writer_open(&w, o, &s, &(struct ctr_writer_opts){ .batch_rows = BATCH }, err);
    rc = rc ? rc : add_rows(w, &s, 0, 2 * BATCH, err);
    rc = rc ? rc : ctr_writer_flush(w, err);
    pause_at = rc ? 0 : ctr_out_tell(o);
    rc = rc ? rc : add_rows(w, &s, 2 * BATCH, ROWS, err);
    rc = rc ? rc : ctr_writer_finish(w, err);
    rc = rc ? rc : ctr_out_commit(o, err);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_schema_free(&s);
    return rc;
}

/* What finds: by part, the first row that may come next (tiles that failed are passed over), and the thread that is at
 * it. */
struct finder {
    atomic_int inside[CTR_FIND_MOST_PARTS];
    _Atomic int64_t next[CTR_FIND_MOST_PARTS];
    bool ordered;
    int64_t fails_at; /* row; -1: never */
    int slow_us;
    bool lopsided; /* all work is in the first part */
    atomic_int wrong;
    atomic_int by[CTR_FIND_THREADS];
    int others; /* pieces of the taker's work that other threads did */
};

static void sleep_us(int us)
{
    const struct timespec ts = { 0, us * 1000L };
    if (us)
        (void)nanosleep(&ts, NULL);
}

/* Is no part inside that may not be, and are those through that come before? No thread finds a tile that failed. */
static bool ordered(struct finder *f, int part, int64_t row)
{
    bool right = true;
    for (int i = 0; i < CTR_FIND_MOST_PARTS; i++) {
        const bool beside = i == part || (part < CTR_FIND_PARTS && i < CTR_FIND_PARTS);
        const bool before = part == CTR_FIND_LAST || (i == CTR_FIND_FIRST && part != i);
        right &= beside || (!atomic_load(&f->inside[i]) && (before ? f->next[i] > row : f->next[i] <= row));
    }
    return right;
}

static int find(void *ctx, const struct ctr_rows *r, const struct ctr_find *how, struct ctr_err *err)
{
    struct finder *f = ctx;
    const int part = how->part;
    const bool alone = !atomic_fetch_add(&f->inside[part], 1);
    if (!alone || f->next[part] > r->first_row || how->thread < 0 || how->thread >= CTR_FIND_THREADS)
        atomic_fetch_add(&f->wrong, 1);
    f->next[part] = r->first_row + r->rows;
    if (f->ordered && !ordered(f, part, r->first_row))
        atomic_fetch_add(&f->wrong, 1);
    atomic_fetch_add(&f->by[how->thread], 1);
    for (int64_t i = 0; i < r->rows; i++)
        for (int64_t e = r->start[i]; e < r->start[i + 1]; e++)
            if ((e - r->start[i]) % CTR_FIND_PARTS == part)
                how->number[e] = number_of(r->hash[e], part) - f->ordered;
            else if (part == CTR_FIND_LAST)
                how->number[e]++;
    sleep_us(f->lopsided && part ? 0 : f->slow_us);
    atomic_fetch_sub(&f->inside[part], 1);
    return part == 3 && f->fails_at >= r->first_row && f->fails_at < r->first_row + r->rows
               ? ctr_fail(err, CTR_ENOMEM, "row %lld", (long long)f->fails_at)
               : 0;
}

/* Rows of a tile that came as they should. */
static int64_t right_rows(const struct ctr_tile *t, int64_t first, bool finds)
{
    const struct ctr_rows *r = &t->rows;
    int64_t right = 0;
    for (int64_t i = 0; i < r->rows && r->first_row == first && r->rows == t->n; i++) {
        bool same = r->start[i + 1] - r->start[i] == KEYS && r->label[i] == ((first + i) & 1);
        for (int64_t e = r->start[i]; e < r->start[i + 1] && same; e++)
            same = !finds || r->number[e] == number_of(r->hash[e], (int)((e - r->start[i]) % CTR_FIND_PARTS));
        right += same;
    }
    return right;
}

struct trial {
    const char *what;
    int threads;
    bool finds, with_batches, ordered;
    int find_us, take_us; /* how long both take */
    int64_t fails_at, stop_at;
    int offer_us; /* how long the part of the taker's work takes that it offers; 0: none */
};

struct work {
    int us;
    int64_t offered; /* not atomic: the thread that has a piece and the one that waits for it must see each other's
                        writes */
    int64_t done;
    pthread_t by;
    int others; /* pieces that another thread did */
};

static void do_work(void *ctx)
{
    struct work *w = ctx;
    sleep_us(w->us);
    w->others += !pthread_equal(w->by, pthread_self());
    w->done = w->offered;
}

static bool take_tile(struct ctr_feed *feed, const struct trial *t, struct work *w)
{
    const struct ctr_worker worker = ctr_feed_worker(feed);
    w->offered++;
    if (t->offer_us)
        worker.submit(worker.ctx, do_work, w);
    sleep_us(t->take_us);
    if (t->offer_us)
        worker.settle(worker.ctx);
    return !t->offer_us || w->done == w->offered;
}

/* Rows that came right, up to the end, an error, or stop_at. */
static int64_t run(const struct trial *t, struct finder *f, struct ctr_err *err)
{
    char *file = path;
    struct ctr_reader *r = NULL;
    struct ctr_inputs *in = NULL;
    struct ctr_strs tables = { 0 };
    struct ctr_feed *feed = NULL;
    const struct ctr_tile *tile;
    struct work work = { .us = t->offer_us, .by = pthread_self() };
    int64_t right = 0, batches = 0;
    int rc = ctr_reader_open(&r, &file, 1, NULL, err);
    rc = rc ? rc : ctr_inputs_new(&in, ctr_reader_schema(r), 0, -1, NULL, &tables, err);
    const struct ctr_feed_opts o = { .source = ctr_batch_source_stream(r),
                                     .in = in,
                                     .tile_rows = TILE,
                                     .threads = t->threads,
                                     .with_batches = t->with_batches,
                                     .find = t->finds ? find : NULL,
                                     .finder = f,
                                     .ordered = t->ordered };
    rc = rc ? rc : ctr_feed_new(&feed, &o, err);
    while (!rc && right != t->stop_at && (rc = ctr_feed_next(feed, &tile, err)) > 0) {
        right += right_rows(tile, right, t->finds);
        batches += tile->ends_batch;
        if (t->with_batches && tile->batch->first_row + tile->batch->rows < right)
            atomic_fetch_add(&f->wrong, 1);
        if (!take_tile(feed, t, &work))
            atomic_fetch_add(&f->wrong, 1);
        rc = 0;
    }
    f->others = work.others;
    ctr_feed_free(feed);
    ctr_inputs_free(in);
    ctr_strs_free(&tables);
    ctr_reader_free(r);
    return !rc && right == ROWS && batches != (ROWS + BATCH - 1) / BATCH ? -1 : right;
}

static const struct trial trials[] = {
    { "no thread", 0, true, false, false, 0, 0, -1, -1, 0 },
    { "one thread", 1, true, false, false, 0, 0, -1, -1, 0 },
    { "one thread, nothing to find", 1, false, false, false, 0, 0, -1, -1, 0 },
    { "two threads", 2, true, false, false, 0, 0, -1, -1, 0 },
    { "two threads, nothing to find", 2, false, false, false, 0, 0, -1, -1, 0 },
    { "one thread, slow to find", 1, true, false, false, 60, 0, -1, -1, 0 },
    { "two threads, slow to find", 2, true, false, false, 60, 0, -1, -1, 0 },
    { "one thread, slow to take", 1, true, false, false, 0, 300, -1, -1, 0 },
    { "two threads, slow to take", 2, true, false, false, 0, 300, -1, -1, 0 },
    { "one thread, with batches", 1, true, true, false, 0, 0, -1, -1, 0 },
    { "two threads, with batches", 2, true, true, false, 20, 0, -1, -1, 0 },
    { "no thread, what finds fails", 0, true, false, false, 0, 0, 4321, -1, 0 },
    { "one thread, what finds fails", 1, true, false, false, 0, 0, 4321, -1, 0 },
    { "two threads, what finds fails", 2, true, false, false, 20, 0, 4321, -1, 0 },
    { "one thread, left early", 1, true, false, false, 0, 0, -1, 2000, 0 },
    { "two threads, left early", 2, true, false, false, 20, 0, -1, 2000, 0 },
    { "no thread, in turn", 0, true, false, true, 0, 0, -1, -1, 0 },
    { "one thread, in turn", 1, true, false, true, 0, 0, -1, -1, 0 },
    { "two threads, in turn", 2, true, false, true, 0, 0, -1, -1, 0 },
    { "one thread, in turn, slow to find", 1, true, false, true, 60, 0, -1, -1, 0 },
    { "two threads, in turn, slow to find", 2, true, true, true, 60, 0, -1, -1, 0 },
    { "one thread, in turn, slow to take", 1, true, false, true, 0, 300, -1, -1, 0 },
    { "two threads, in turn, what finds fails", 2, true, false, true, 20, 0, 4321, -1, 0 },
    { "one thread, in turn, left early", 1, true, false, true, 20, 0, -1, 2000, 0 },
    { "no thread, work offered", 0, true, false, false, 0, 300, -1, -1, 200 },
    { "one thread, work offered", 1, true, false, false, 0, 300, -1, -1, 200 },
    { "one thread, little work offered", 1, true, false, false, 0, 0, -1, -1, 1 },
    { "one thread, much work offered", 1, true, false, false, 0, 300, -1, -1, 2000 },
    { "one thread, work offered, with batches", 1, true, true, false, 60, 300, -1, -1, 200 },
    { "one thread, work offered, nothing to find", 1, false, false, false, 0, 300, -1, -1, 200 },
    { "two threads, work offered, slow to find", 2, true, false, false, 60, 300, -1, -1, 200 },
    { "two threads, work offered, in turn", 2, true, false, true, 20, 300, -1, -1, 200 },
    { "two threads, work offered, what finds fails", 2, true, false, false, 20, 0, 4321, -1, 50 },
    { "two threads, work offered, left early", 2, true, false, false, 20, 0, -1, 2000, 50 },
};

/* ---- input that pauses ---- */

struct pausing {
    int fd; /* the pipe's */
    const uint8_t *bytes;
    int64_t n;
    atomic_int rows; /* taken */
    bool waited;     /* all that was there before the pause was taken in it */
};

static void *write_pausing(void *arg)
{
    struct pausing *p = arg;
    struct ctr_err err = { 0 };
    int rc = ctr_write_full(p->fd, p->bytes, (size_t)pause_at, &err);
    for (int ms = 0; ms < 60000 && atomic_load(&p->rows) < 2 * BATCH - TILE; ms++)
        sleep_us(1000);
    p->waited = !rc && atomic_load(&p->rows) >= 2 * BATCH - TILE;
    rc = rc ? rc : ctr_write_full(p->fd, p->bytes + pause_at, (size_t)(p->n - pause_at), &err);
    close(p->fd);
    return NULL;
}

/* What was made before the input pauses is taken before it goes on, but for the tile that the caller holds. */
static void test_pause(int fd, int threads, int us)
{
    struct finder f = { .fails_at = -1, .slow_us = us, .lopsided = true };
    struct pausing p = { .n = lseek(fd, 0, SEEK_END) };
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_inputs *in = NULL;
    struct ctr_strs tables = { 0 };
    struct ctr_feed *feed = NULL;
    const struct ctr_tile *tile;
    int ends[2], rc = pipe(ends);
    pthread_t writer;
    char name[32], *file = name;
    int64_t right = 0;
    p.bytes = mmap(NULL, (size_t)p.n, PROT_READ, MAP_SHARED, fd, 0);
    p.fd = ends[1];
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    rc = rc ? rc : ctr_thread_start(&writer, write_pausing, &p);
    rc = rc ? rc : ctr_reader_open(&r, &file, 1, NULL, &err);
    rc = rc ? rc : ctr_inputs_new(&in, ctr_reader_schema(r), 0, -1, NULL, &tables, &err);
    rc = rc ? rc
            : ctr_feed_new(&feed,
                           &(struct ctr_feed_opts){ .source = ctr_batch_source_stream(r),
                                                    .in = in,
                                                    .tile_rows = TILE,
                                                    .threads = threads,
                                                    .find = find,
                                                    .finder = &f },
                           &err);
    while (!rc && (rc = ctr_feed_next(feed, &tile, &err)) > 0) {
        right += right_rows(tile, right, true);
        atomic_store(&p.rows, (int)right);
        rc = 0;
    }
    pthread_join(writer, NULL);
    ok(!rc && right == ROWS && p.waited, "%d threads, %d us to find: the input pauses, what came before does not %s",
       threads, us, err.what);
    ctr_feed_free(feed);
    ctr_inputs_free(in);
    ctr_strs_free(&tables);
    ctr_reader_free(r);
    close(ends[0]);
    munmap((void *)(uintptr_t)p.bytes, (size_t)p.n);
}

/* ---- batches of another size ---- */

/* Batches of `rows` rows out of files of ROWS rows each, of which the last breaks off where `cut`: every row once, in
 * order; a batch is shorter only where a file ends, and the next one ends where it would have without that. */
static void test_regroup(int64_t rows, int files, const char *cut)
{
    char *paths[] = { path, path };
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_batch_source s = { 0 };
    const struct ctr_batch *b;
    int64_t got = 0, wrong = 0;
    if (cut)
        paths[files - 1] = (char *)(uintptr_t)cut;
    int rc = ctr_reader_open(&r, paths, files, NULL, &err);
    s = ctr_batch_source_stream(r);
    rc = rc ? rc : ctr_batch_source_regroup(&s, rows, &err);
    while (!rc && (rc = ctr_batch_source_next(&s, &b, &err)) > 0) {
        const int64_t file_end = got < ROWS ? ROWS : 2 * ROWS, full = got + rows - got % rows;
        const uint64_t *key = b->col[1 + KEYS / 2].data;
        wrong += b->first_row != got || (got + b->rows != CTR_MIN(file_end, full) && !cut);
        for (int64_t i = 0; i < b->rows; i++)
            wrong += key[i] != key_of((got + i) % ROWS, KEYS / 2);
        got += b->rows;
        rc = 0;
    }
    const int64_t whole = (int64_t)files * ROWS;
    ok(!wrong && (cut ? rc < 0 && got % ROWS % BATCH == 0 && got > whole - ROWS && got < whole : !rc && got == whole),
       "batches of %d as batches of %lld, %d files%s: %lld rows, %lld wrong %s", BATCH, (long long)rows, files,
       cut ? " of which one breaks off" : "", (long long)got, (long long)wrong, err.what);
    if (s.ops)
        ctr_batch_source_close(&s);
}

static void test_regroups(int fd)
{
    char cut[32];
    const off_t n = lseek(fd, 0, SEEK_END) / 2;
    char *half = malloc((size_t)n);
    int part = memfd_create("part", 0);
    ok(half && pread(fd, half, (size_t)n, 0) == n && write(part, half, (size_t)n) == n, "half a file");
    snprintf(cut, sizeof cut, "/proc/self/fd/%d", part);
    for (int64_t rows = 1; rows < 3 * ROWS; rows = rows * 3 + 100) {
        test_regroup(rows, 1, NULL);
        test_regroup(rows, 2, NULL);
    }
    test_regroup(BATCH, 2, NULL);
    test_regroup(2 * BATCH, 1, NULL);
    test_regroup(1000, 1, cut);
    test_regroup(1000, 2, cut);
    free(half);
    close(part);
}

int main(void)
{
    struct ctr_err err = { 0 };
    int fd = memfd_create("rows", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/fd/%d", fd);
    ok(fd >= 0 && !write_rows(&err), "%d rows %s", ROWS, err.what);
    for (size_t i = 0; i < CTR_COUNT(trials); i++) {
        const struct trial *t = &trials[i];
        struct finder f = { .fails_at = t->fails_at, .slow_us = t->find_us, .ordered = t->ordered };
        err = (struct ctr_err){ 0 };
        const int64_t want = t->fails_at >= 0 ? t->fails_at / TILE * TILE : t->stop_at >= 0 ? t->stop_at : ROWS;
        const int64_t right = run(t, &f, &err);
        const bool helped = t->threads && t->take_us && t->offer_us;
        ok(right == want && !f.wrong && !err.code == (t->fails_at < 0) && (!helped || f.others),
           "%s: %lld rows, parts by taker, maker, finder: %d %d %d, work by others: %d %s", t->what, (long long)right,
           f.by[0], f.by[1], f.by[2], f.others, err.what);
    }
    for (int threads = 1; threads <= 2; threads++)
        for (int us = 100; us <= 900; us *= 3)
            test_pause(fd, threads, us);
    test_regroups(fd);
    return done_testing();
}
