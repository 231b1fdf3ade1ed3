/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-ahead: a reader that fetches the next batch beside its caller: it holds nothing back, leaves the caller's batch
 * alone, asks `idle` on the caller's thread, and ends when it is told to. That it reads the same is in unit-stream and
 * unit-stream-fault. */
#include "common/stream/stream.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 1000, IDLE_MS = 5 };
static struct ctr_err err;
static struct ctr_schema schema;
static struct ctr_batchbuf made;
static struct ctr_out *out;
static struct ctr_writer *w;
static struct ctr_reader *r;
static int from, to; /* the pipe */

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s: %s\n", err.file, err.what);
        exit(1);
    }
}

static int idle_calls, idle_limit = 1 << 30;
static pthread_t idle_thread;
static atomic_bool given_up;
static bool idle(void *ctx)
{
    (void)ctx;
    idle_thread = pthread_self();
    atomic_store(&given_up, ++idle_calls >= idle_limit);
    return idle_calls < idle_limit;
}

/* A thread sees late that its reader gave up. */
int poll(struct pollfd *f, nfds_t n, int ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    const int k = ppoll(f, n, ms < 0 ? NULL : &t, NULL);
    if (atomic_load(&given_up))
        usleep(20 * IDLE_MS * 1000);
    return k;
}

static void write_batch(int k)
{
    ctr_batchbuf_clear(&made);
    for (int i = 0; i < ROWS; i++)
        must(ctr_colbuf_i64(&made.col[0], k * ROWS + i, &err));
    must(ctr_writer_batch(w, ctr_batchbuf_view(&made), &err));
    must(ctr_writer_flush(w, &err));
}

static const struct ctr_reader_opts ahead = { .idle = idle, .idle_ms = IDLE_MS, .ahead = true };

/* A writer, a pipe, a reader, and one batch in it. */
static void open_both(void)
{
    char paths[2][32];
    int p[2];
    must(pipe(p));
    from = p[0];
    to = p[1];
    must(fcntl(to, F_SETPIPE_SZ, 1 << 20));
    for (int k = 0; k < 2; k++)
        snprintf(paths[k], sizeof paths[k], "/dev/fd/%d", p[k]);
    must(ctr_out_open(&out, paths[1], 0, &err));
    must(ctr_writer_open(&w, out, &schema, &(struct ctr_writer_opts){ .batch_rows = ROWS }, &err));
    write_batch(0);
    char *path = paths[0];
    must(ctr_reader_open(&r, &path, 1, &ahead, &err));
    close(from);
    idle_calls = 0;
    idle_limit = 1 << 30;
}

static void close_writer(void)
{
    ctr_writer_free(w);
    ctr_out_free(out);
    close(to);
}

static void close_both(void)
{
    ctr_reader_free(r);
    close_writer();
}

static bool is_batch(const struct ctr_batch *b, int k)
{
    bool same = b->rows == ROWS && b->first_row == k * ROWS;
    for (int64_t i = 0; same && i < ROWS; i++)
        same = ((const int64_t *)b->col[0].data)[i] == k * ROWS + i;
    return same;
}

/* Beside those that were there before. */
static int threads_before;
static int threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = -2;
    while (readdir(d))
        n++;
    closedir(d);
    return n - threads_before;
}

/* Until the pipe is empty, or for a minute. */
static bool drained(void)
{
    int left = 1;
    for (int i = 0; left && i < 60000; i++) {
        must(ioctl(to, FIONREAD, &left));
        usleep(left ? 1000 : 0);
    }
    return !left;
}

/* Each batch comes before there is a next one. */
static void test_latency(void)
{
    const struct ctr_batch *b;
    int good = 0;
    open_both();
    for (int k = 0; k < 20; k++) {
        if (k)
            write_batch(k);
        must(ctr_reader_next(r, &b, &err));
        good += is_batch(b, k) && ctr_reader_rows(r) == (k + 1) * ROWS;
    }
    ok(good == 20, "each batch comes as soon as it is there");
    must(ctr_writer_finish(w, &err));
    must(ctr_out_commit(out, &err));
    close_writer();
    ok(ctr_reader_next(r, &b, &err) == 0 && ctr_reader_next(r, &b, &err) == 0, "and the end");
    ctr_reader_free(r);
}

static void test_fetches(void)
{
    const struct ctr_batch *b;
    open_both();
    must(ctr_reader_next(r, &b, &err));
    ok(threads() == 0, "a short input has no thread");
    write_batch(1);
    must(ctr_reader_next(r, &b, &err));
    write_batch(2);
    ok(drained() && threads() == 1, "the next batch is fetched meanwhile");
    ok(is_batch(b, 1) && ctr_reader_rows(r) == 2 * ROWS, "and the one at hand is as it was");
    write_batch(3);
    write_batch(4);
    must(ctr_reader_next(r, &b, &err));
    ok(is_batch(b, 2), "then it comes");
    close_both();
    for (int i = 0; threads() && i < 60000; i++)
        usleep(1000);
    ok(threads() == 0, "the thread ends with the reader");
}

/* A thread that waits for input ends when the reader does; `idle` is asked by the caller. */
static void test_idle(void)
{
    const struct ctr_batch *b;
    open_both();
    must(ctr_reader_next(r, &b, &err));
    write_batch(1);
    must(ctr_reader_next(r, &b, &err));
    const int calls = idle_calls; /* one or another, when the batch took its time */
    usleep(20 * IDLE_MS * 1000);
    ok(idle_calls == calls, "the caller is not asked while it is at work");
    idle_limit = calls + 3;
    ok(ctr_reader_next(r, &b, &err) < 0 && strstr(err.what, "reading was given up") && idle_calls == idle_limit &&
           pthread_equal(idle_thread, pthread_self()),
       "it is asked when it waits, and gives up: %s", err.what);
    close_both();
    open_both();
    must(ctr_reader_next(r, &b, &err));
    write_batch(1);
    must(ctr_reader_next(r, &b, &err));
    close_both(); /* or the alarm rings */
    ok(true, "a reader is freed while its thread waits");
}

/* Batches so large that two of them would be too much come one by one. Of those a little smaller each takes longer
 * than IDLE_MS, and `idle` is not called while they come. */
static void test_large(void)
{
    for (int mib = 14; mib < 18; mib += 3) {
        const int rows = mib << 17;
        char path[32], *paths[] = { path };
        const struct ctr_batch *b;
        int fd = memfd_create("large", 0), good = 0;
        must(fd);
        snprintf(path, sizeof path, "/dev/fd/%d", fd);
        must(ctr_out_open(&out, path, 0, &err));
        must(ctr_writer_open(&w, out, &schema, &(struct ctr_writer_opts){ .batch_rows = rows }, &err));
        ctr_batchbuf_clear(&made);
        for (int i = 0; i < rows; i++)
            must(ctr_colbuf_i64(&made.col[0], i, &err));
        for (int k = 0; k < 4; k++)
            must(ctr_writer_batch(w, ctr_batchbuf_view(&made), &err));
        must(ctr_writer_finish(w, &err));
        must(ctr_out_commit(out, &err));
        must(ctr_reader_open(&r, paths, 1, &ahead, &err));
        idle_calls = 0;
        for (int k = 0; ctr_reader_next(r, &b, &err) > 0; k++)
            good += b->rows == rows && ((const int64_t *)b->col[0].data)[rows - 1] == rows - 1 &&
                    threads() == (mib < 16 && k > 0);
        ok(good == 4 && !idle_calls, "batches of %d MiB: %d good ones, idle %d times", mib, good, idle_calls);
        ctr_reader_free(r);
        ctr_writer_free(w);
        ctr_out_free(out);
        close(fd);
    }
}

/* A mapped file that is cut short is told of by the thread that reads it. */
static pid_t its_id;
static void get_mask(void *ctx)
{
    its_id = gettid();
    pthread_sigmask(SIG_SETMASK, NULL, ctx);
}

static void test_signals(void)
{
    sigset_t blocked;
    struct ctr_background *b = ctr_background_new();
    sigfillset(&blocked);
    ctr_background_run(b, get_mask, &blocked);
    ok(ctr_background_wait(b, -1) && !sigismember(&blocked, SIGBUS) && sigismember(&blocked, SIGTERM),
       "a thread is told of its own faults only");
    ctr_background_free(b);
    char task[64]; /* a thread that was joined is in the kernel's list for a moment more */
    snprintf(task, sizeof task, "/proc/self/task/%d", (int)its_id);
    while (!access(task, F_OK))
        usleep(1000);
}

int main(void)
{
    alarm(300);
    test_signals(); /* a sanitizer starts a thread of its own with the first one */
    threads_before = threads();
    must(ctr_schema_add(&schema, "n", CTR_I64, &err));
    must(ctr_batchbuf_init(&made, &schema, &err));
    test_latency();
    test_fetches();
    test_idle();
    test_large();
    ctr_batchbuf_free(&made);
    ctr_schema_free(&schema);
    return done_testing();
}
