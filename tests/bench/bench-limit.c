/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-limit: what the machine can do, and what a process costs. Prints a number.
 *
 *     bench-limit xxh3            GB/s of XXH3-64 in one thread, over 64 KiB blocks of 64 MiB
 *     bench-limit triad           GB/s of a[i] = b[i] + s * c[i] in one thread
 *     bench-limit spin            seconds of a fixed piece of arithmetic: run it alone and twice at once
 *     bench-limit start N CMD...  median milliseconds from starting CMD to its end, output to /dev/null
 *     bench-limit used FILE COL   bytes of an IPC file, and those that reading one column of it used and hashed: the
 *                                 reader's counters
 *     bench-limit feed FILE       GB/s of keys and labels that a learner of columns is handed: by wall, by processors
 *     bench-limit reads DIR KIB   thousands of reads a second, of KIB at random places of a file in DIR, 16 at once,
 *                                 and around the system's cache where the file system can do that
 *     bench-limit peak CMD...     peak resident MB of CMD, without what it maps of files; its output passes
 */
#include "common/train/feed.h"
#include "common/stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

extern char **environ;

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static int xxh3(void)
{
    enum { BYTES = 1 << 26, BLOCK = 1 << 16, RUNS = 9 };
    uint8_t *p = malloc(BYTES);
    double seconds[RUNS];
    uint64_t sum = 0;
    if (!p)
        die("malloc");
    memset(p, 1, BYTES);
    for (int r = 0; r < RUNS; r++) {
        double start = now();
        for (size_t at = 0; at < BYTES; at += BLOCK)
            sum += XXH3_64bits(p + at, BLOCK);
        seconds[r] = now() - start;
    }
    free(p);
    printf("%.2f\n", BYTES / median(seconds, RUNS) / 1e9);
    return sum == 1; /* keeps the loop */
}

static int triad(void)
{
    enum { N = 1 << 24, RUNS = 5 };
    double *a = calloc(3 * (size_t)N, sizeof *a), *b = a + N, *c = b + N, seconds[RUNS];
    if (!a)
        die("malloc");
    for (int i = 0; i < 3 * N; i++)
        a[i] = i;
    for (int r = 0; r < RUNS; r++) {
        double start = now();
        for (int i = 0; i < N; i++)
            a[i] = b[i] + 0.5 * c[i];
        seconds[r] = now() - start;
        b[r] = a[N - r - 1];
    }
    printf("%.1f\n", 24.0 * N / median(seconds, RUNS) / 1e9);
    free(a);
    return 0;
}

static int spin(void)
{
    uint64_t x = 1;
    double start = now();
    for (int i = 0; i < 200000000; i++)
        x = ctr_mix64(x + (uint64_t)i);
    printf("%.3f\n", now() - start);
    return x == 1;
}

static int used(char *path, const char *name)
{
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_reader_stats stats = { 0 };
    const struct ctr_batch *b;
    struct stat st;
    int rc = ctr_reader_open(&r, &path, 1, NULL, &err),
        column = rc ? -1 : ctr_schema_need(ctr_reader_schema(r), name, &err);

    rc = rc ? rc : column < 0 ? column : ctr_reader_project(r, &column, 1, &err);
    while (!rc && (rc = ctr_reader_next(r, &b, &err)) > 0)
        rc = 0;
    if (rc || stat(path, &st)) {
        fprintf(stderr, "bench-limit: %s: %s\n", path, err.what);
        return 1;
    }
    ctr_reader_get_stats(r, &stats);
    ctr_reader_free(r);
    printf("%lld %lld %lld\n", (long long)st.st_size, (long long)stats.bytes_read, (long long)stats.bytes_verified);
    return 0;
}

static int feed(char *path)
{
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_inputs *in = NULL;
    struct ctr_feed *f = NULL;
    struct ctr_strs tables = { 0 };
    const struct ctr_tile *tile;
    int64_t bytes = 0;
    const double start = now(), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    int rc = ctr_reader_open(&r, &path, 1, NULL, &err), got = 0, label;

    if (!rc)
        rc = ctr_schema_find_role(ctr_reader_schema(r), CTR_ROLE_LABEL, NULL, true, &label, &err);
    if (!rc)
        rc = ctr_inputs_new(&in, ctr_reader_schema(r), label, -1, NULL, &tables, &err);
    if (!rc)
        rc = ctr_inputs_by_column(in, &err);
    if (!rc)
        rc = ctr_feed_new(&f,
                          &(struct ctr_feed_opts){
                              .source = ctr_batch_source_stream(r), .in = in, .tile_rows = 65536, .threads = true },
                          &err);
    while (!rc && (got = ctr_feed_next(f, &tile, &err)) > 0)
        bytes += (tile->rows.start[tile->n] - tile->rows.start[0]) * 8 + tile->n * 8;
    if (rc || got < 0) {
        fprintf(stderr, "bench-limit: %s: %s\n", path, err.what);
        return 1;
    }
    ctr_feed_free(f);
    ctr_inputs_free(in);
    ctr_reader_free(r);
    ctr_strs_free(&tables);
    printf("%.2f %.2f\n", (double)bytes / (now() - start) / 1e9,
           (double)bytes / (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9);
    return 0;
}

static pid_t run(char **cmd, bool quiet)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    posix_spawn_file_actions_init(&files);
    if (quiet)
        posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    errno = posix_spawnp(&pid, cmd[0], &files, NULL, cmd, environ);
    if (errno)
        die(cmd[0]);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

static int start_up(int n, char **cmd)
{
    double ms[1000];
    n = CTR_MIN(CTR_MAX(n, 1), 1000);
    for (int i = 0; i < n; i++) {
        double start = now();
        int status;
        pid_t pid = run(cmd, true);
        if (waitpid(pid, &status, 0) < 0 || status)
            die(cmd[0]);
        ms[i] = (now() - start) * 1e3;
    }
    printf("%.2f\n", median(ms, n));
    return 0;
}

/* VmHWM counts the pages of mapped files too, which are the page cache's; RssAnon at the peak is what we want, and the
 * kernel does not keep it: so look often. */
static int peak(char **cmd)
{
    char path[64], line[256];
    long most = 0, kb;
    int status;
    pid_t pid = run(cmd, false);
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    while (!waitpid(pid, &status, WNOHANG)) {
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "RssAnon: %ld", &kb) == 1)
                most = CTR_MAX(most, kb);
        if (f)
            fclose(f);
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    }
    fprintf(stderr, "%.1f\n", (double)most / 1e3);
    return status != 0;
}

enum { READ_FILE = 256 << 20, PAGE = 4096, READS = 2000, READERS = 16 };
struct read_some {
    int fd, reads;
    size_t bytes;
};

static void read_pages(void *ctx, int64_t task, int worker)
{
    const struct read_some *r = ctx;
    void *page;
    uint64_t at = (uint64_t)task;
    (void)worker;
    if (posix_memalign(&page, PAGE, r->bytes))
        die("memory");
    for (int i = 0; i < r->reads; i++) {
        at = ctr_mix64(at + 1);
        if (pread(r->fd, page, r->bytes, (off_t)(at % (READ_FILE / r->bytes) * r->bytes)) < 0)
            die("pread");
    }
    free(page);
}

static int reads(const char *dir, int kib)
{
    /* no more than half of the file */
    struct read_some r = { .bytes = (size_t)CTR_MAX(kib, 4) << 10 };
    r.reads = (int)CTR_MAX(CTR_MIN(READS, READ_FILE / 2 / READERS / (int64_t)r.bytes), 1);
    struct ctr_err err = { 0 };
    struct ctr_pool *pool = NULL;
    uint8_t *data = calloc(1, READ_FILE);
    int fd = r.fd = ctr_tmpfile_in(dir, &err);
    if (!data || fd < 0 || write(fd, data, READ_FILE) != READ_FILE || fsync(fd) ||
        ctr_pool_new(&pool, READERS, CTR_FLOAT_IEEE, &err))
        die(dir);
    free(data);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#ifdef O_DIRECT
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
#endif
    const double start = now();
    ctr_pool_run(pool, READERS, read_pages, &r);
    printf("%.3f\n", READERS * r.reads / (now() - start) / 1000);
    ctr_pool_free(pool);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "xxh3"))
        return xxh3();
    if (argc == 2 && !strcmp(argv[1], "triad"))
        return triad();
    if (argc == 2 && !strcmp(argv[1], "spin"))
        return spin();
    if (argc == 4 && !strcmp(argv[1], "used"))
        return used(argv[2], argv[3]);
    if (argc == 3 && !strcmp(argv[1], "feed"))
        return feed(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "reads"))
        return reads(argv[2], atoi(argv[3]));
    if (argc > 3 && !strcmp(argv[1], "start"))
        return start_up(atoi(argv[2]), argv + 3);
    if (argc > 2 && !strcmp(argv[1], "peak"))
        return peak(argv + 2);
    fputs("usage: bench-limit xxh3|triad|spin|start N CMD...|used FILE COL|feed FILE|reads DIR KIB|peak CMD...\n",
          stderr);
    return 2;
}
