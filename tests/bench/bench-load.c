/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-load: requests at a fixed rate to an HTTP server, whether it keeps up or not: request i is due at start +
 * i/RATE, and its time counts from then, also while it waits for a connection. (Programs that send the next request
 * after the answer before, such as wrk and ab, send fewer when the server is slow, and do not see that.)
 *
 *     bench-load [OPTION…] ADDR:PORT|unix:PATH /PATH BODY…
 *
 * prints lines NAME VALUE: requests, seconds, code_CODE (answers), failed (without an answer), p50_ms, p99_ms, p999_ms,
 * max_ms (of answers 200), refused_max_ms (of 503), models (different X-Model) and mixed (answers that differ from the
 * first one to the same body under the same X-Model).
 */
#include "common/base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MODELS = 64, BODIES = 64, CODES = 600, SLOW_MS = 100 };

struct body {
    struct ctr_buf request; /* head and body */
};
struct conn {
    int fd;
    bool busy;
    int body;
    int64_t due_ns;
    size_t sent;
    struct ctr_buf in;
};

static struct {
    double rate, seconds;
    int connections, idle, slow;
    struct sockaddr_storage to;
    socklen_t to_bytes;
    struct body body[BODIES];
    int bodies, epoll;
    struct conn *conn;
    int *quiet; /* idle connections, then slow ones */
    int64_t requests, code[CODES], failed, mixed, cut;
    struct ctr_buf time; /* ns of answers 200 */
    int64_t refused_ns;
    char model[MODELS][40];
    uint64_t answer[MODELS][BODIES];
    int models;
} g = { .rate = 100, .seconds = 1, .connections = 8 };

static void die(const char *what)
{
    fprintf(stderr, "bench-load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void address(const char *text)
{
    if (!strncmp(text, "unix:", 5)) {
        struct sockaddr_un *a = (struct sockaddr_un *)(void *)&g.to;
        a->sun_family = AF_UNIX;
        snprintf(a->sun_path, sizeof a->sun_path, "%s", text + 5);
        g.to_bytes = sizeof *a;
        return;
    }
    struct sockaddr_in *a = (struct sockaddr_in *)(void *)&g.to;
    const char *colon = strrchr(text, ':');
    char host[64] = "";
    if (colon && colon - text < 64)
        memcpy(host, text, (size_t)(colon - text));
    a->sin_family = AF_INET;
    a->sin_port = htons((uint16_t)atoi(colon ? colon + 1 : "0"));
    g.to_bytes = sizeof *a;
    if (inet_pton(AF_INET, host, &a->sin_addr) != 1) {
        errno = EINVAL;
        die(text);
    }
}

static int connect_one(bool must)
{
    const int one = 1, fd = socket(g.to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    for (int tries = 0; connect(fd, (const struct sockaddr *)&g.to, g.to_bytes); tries++) {
        if (errno != EINTR && errno != EAGAIN && (must || tries > 100)) {
            if (must)
                die("connect");
            close(fd);
            return -1;
        }
        usleep(1000);
    }
    if (g.to.ss_family == AF_INET)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void read_body(const char *path, const char *target)
{
    struct ctr_err err;
    struct ctr_buf text = { 0 };
    FILE *f = fopen(path, "rb");
    char piece[65536];
    size_t n;
    int rc = 0;
    if (!f || g.bodies == BODIES)
        die(path);
    while (!rc && (n = fread(piece, 1, sizeof piece, f)) > 0)
        rc = ctr_buf_append(&text, piece, n, &err);
    fclose(f);
    struct ctr_buf *out = &g.body[g.bodies++].request;
    if (rc ||
        ctr_buf_printf(out, &err,
                       "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                       target, text.len) ||
        ctr_buf_append(out, text.data, text.len, &err))
        die("memory");
    ctr_buf_free(&text);
}

static void join(struct conn *c)
{
    c->fd = connect_one(false);
    c->busy = false;
    c->in.len = 0;
    if (c->fd < 0)
        return;
    struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };
    if (epoll_ctl(g.epoll, EPOLL_CTL_ADD, c->fd, &e))
        die("epoll_ctl");
}

static void again(struct conn *c, bool failed)
{
    g.failed += failed;
    if (c->fd >= 0)
        close(c->fd);
    join(c);
}

static void push(struct conn *c)
{
    const struct ctr_buf *r = &g.body[c->body].request;
    while (c->busy && c->sent < r->len) {
        const ssize_t n = send(c->fd, r->data + c->sent, r->len - c->sent, MSG_NOSIGNAL);
        if (n < 0)
            return; /* an error is met by the read, which may find an answer first */
        c->sent += (size_t)n;
    }
}

/* Under one model the same body has the same answer. */
static void compare(const char *head, const char *body, size_t n, int which)
{
    const char *m = strcasestr(head, "X-Model: ");
    char name[40] = "";
    int i = 0;
    if (m)
        sscanf(m + 9, "%39s", name);
    while (i < g.models && strcmp(g.model[i], name) != 0)
        i++;
    if (i == MODELS)
        return;
    if (i == g.models)
        memcpy(g.model[g.models++], name, sizeof name);
    const uint64_t is = ctr_hash64(body, n, 1) | 1;
    g.mixed += g.answer[i][which] && g.answer[i][which] != is;
    g.mixed += *name && !memmem(body, n, name, strlen(name)); /* the body names the model, too */
    g.answer[i][which] = is;
}

static void answered(struct conn *c, int code, const char *head, const char *body, size_t n)
{
    struct ctr_err err;
    const int64_t took = ctr_clock_ns() - c->due_ns;
    g.code[code < CODES && code > 0 ? code : 0]++;
    if (code == 200 && ctr_buf_append(&g.time, &took, sizeof took, &err))
        die("memory");
    if (code == 200)
        compare(head, body, n, c->body);
    if (code == 503)
        g.refused_ns = CTR_MAX(g.refused_ns, took);
    c->busy = false;
    const bool end = strcasestr(head, "Connection: close") != NULL;
    c->in.len = 0;
    if (end)
        again(c, false);
}

static void pull(struct conn *c)
{
    struct ctr_err err;
    for (;;) {
        if (ctr_buf_reserve(&c->in, 65536, &err))
            die("memory");
        const ssize_t n = recv(c->fd, c->in.data + c->in.len, 65536, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            again(c, c->busy);
            return;
        }
        c->in.len += (size_t)n;
        char *text = (char *)c->in.data, *end = memmem(text, c->in.len, "\r\n\r\n", 4);
        if (!end)
            continue;
        *end = 0;
        const char *length = strcasestr(text, "Content-Length: ");
        const size_t head = (size_t)(end - text) + 4, body = length ? strtoul(length + 16, NULL, 10) : 0;
        if (c->in.len < head + body) {
            *end = '\r';
            continue;
        }
        answered(c, atoi(text + 9), text, text + head, body);
        return;
    }
}

/* ---- connections that ask nothing, or slowly ---- */

static void open_quiet(void)
{
    g.quiet = calloc((size_t)(g.idle + g.slow) + 1, sizeof *g.quiet);
    for (int i = 0; i < g.idle + g.slow; i++)
        g.quiet[i] = connect_one(true);
}

static void drip(void)
{
    char rest[4096];
    for (int i = g.idle; i < g.idle + g.slow; i++) {
        if (send(g.quiet[i], "G", 1, MSG_NOSIGNAL) == 1 && recv(g.quiet[i], rest, sizeof rest, 0) != 0)
            continue;
        g.cut++;
        close(g.quiet[i]);
        g.quiet[i] = connect_one(true);
    }
}

/* ---- the run ---- */

static struct conn *free_one(void)
{
    static int next;
    for (int i = 0; i < g.connections; i++) {
        struct conn *c = &g.conn[(next + i) % g.connections];
        if (c->fd < 0)
            join(c);
        if (!c->busy && c->fd >= 0) {
            next = (next + i + 1) % g.connections;
            return c;
        }
    }
    return NULL;
}

static bool any_busy(void)
{
    for (int i = 0; i < g.connections; i++)
        if (g.conn[i].busy)
            return true;
    return false;
}

static void run(void)
{
    const int64_t start = ctr_clock_ns(), end = start + (int64_t)(g.seconds * 1e9), last = end + 10000000000;
    const int64_t total = (int64_t)(g.rate * g.seconds);
    int64_t drip_ns = start;
    struct epoll_event event[256];
    while (ctr_clock_ns() < last && (g.requests < total || any_busy())) {
        struct conn *c;
        int64_t due = start + (int64_t)((double)g.requests / g.rate * 1e9);
        while (g.requests < total && due <= ctr_clock_ns() && (c = free_one())) {
            c->busy = true;
            c->sent = 0;
            c->due_ns = due;
            c->body = (int)(g.requests++ % g.bodies);
            push(c);
            due = start + (int64_t)((double)g.requests / g.rate * 1e9);
        }
        const int64_t wait = g.requests < total ? due - ctr_clock_ns() : 1000000;
        const int n =
            epoll_wait(g.epoll, event, CTR_COUNT(event), wait > 1000000 ? (int)CTR_MIN(wait / 1000000, 20) : wait > 0);
        for (int i = 0; i < n; i++) {
            push(event[i].data.ptr);
            pull(event[i].data.ptr);
        }
        if (g.slow && ctr_clock_ns() - drip_ns > SLOW_MS * (int64_t)1000000) {
            drip_ns = ctr_clock_ns();
            drip();
        }
    }
    for (int i = 0; i < g.connections; i++)
        g.failed += g.conn[i].busy;
    printf("requests %lld\nseconds %.3f\n", (long long)g.requests, (double)(ctr_clock_ns() - start) * 1e-9);
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void report(void)
{
    static const struct {
        const char *name;
        double part;
    } parts[] = { { "p50_ms", .5 }, { "p99_ms", .99 }, { "p999_ms", .999 }, { "max_ms", 1 } };
    int64_t *time = (int64_t *)(void *)g.time.data;
    const size_t n = g.time.len / sizeof *time;
    for (int i = 0; i < CODES; i++)
        if (g.code[i])
            printf("code_%d %lld\n", i, (long long)g.code[i]);
    printf("failed %lld\n", (long long)g.failed);
    if (n)
        qsort(time, n, sizeof *time, by_size);
    for (size_t i = 0; n && i < CTR_COUNT(parts); i++)
        printf("%s %.3f\n", parts[i].name, (double)time[CTR_MIN((size_t)(parts[i].part * (double)n), n - 1)] * 1e-6);
    printf("refused_max_ms %.3f\nmodels %d\nmixed %lld\ncut %lld\n", (double)g.refused_ns * 1e-6, g.models,
           (long long)g.mixed, (long long)g.cut);
}

int main(int argc, char **argv)
{
    static const struct option opts[] = { { "rate", 1, NULL, 'r' },        { "seconds", 1, NULL, 't' },
                                          { "connections", 1, NULL, 'c' }, { "idle", 1, NULL, 'i' },
                                          { "slow", 1, NULL, 's' },        { 0 } };
    struct rlimit r;
    for (int o; (o = getopt_long(argc, argv, "r:t:c:i:s:", opts, NULL)) != -1;)
        switch (o) {
        case 'r': g.rate = atof(optarg); break;
        case 't': g.seconds = atof(optarg); break;
        case 'c': g.connections = atoi(optarg); break;
        case 'i': g.idle = atoi(optarg); break;
        case 's': g.slow = atoi(optarg); break;
        default: return 2;
        }
    if (argc - optind < 3 || g.connections < 1 || !(g.rate > 0)) {
        fprintf(stderr,
                "usage: bench-load [-r RATE] [-t SECONDS] [-c CONNECTIONS] [-i IDLE] [-s SLOW] ADDR:PORT|unix:PATH "
                "/PATH BODY…\n");
        return 2;
    }
    if (!getrlimit(RLIMIT_NOFILE, &r)) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
    address(argv[optind]);
    for (int i = optind + 2; i < argc; i++)
        read_body(argv[i], argv[optind + 1]);
    g.epoll = epoll_create1(EPOLL_CLOEXEC);
    g.conn = calloc((size_t)g.connections, sizeof *g.conn);
    if (g.epoll < 0 || !g.conn)
        die("epoll");
    open_quiet();
    for (int i = 0; i < g.connections; i++)
        join(&g.conn[i]);
    run();
    report();
    return 0;
}
