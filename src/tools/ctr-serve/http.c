/* SPDX-License-Identifier: Apache-2.0
 *
 * http: connections. All of them belong to the thread of ctr_http_run; other threads only give answers back, through a
 * list and an eventfd. A connection is in one state, and `advance` takes it from state to state until it would block:
 *
 *     READ  head and body arrive -> WORK  the handler has the request -> SEND  the answer leaves -> READ …
 *                                                                           -> DRAIN  closed for writing; what the
 *     client still sends is discarded for a while, as closing at once would make the kernel discard the answer.
 *
 * A refusal of a head is an answer like any other. Each state but WORK has a time at which the connection is cut off.
 */
#include "tools/ctr-serve/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    TICK_MS = 100, /* how exactly slow connections are cut off */
    DRAIN_MS = 2000,
    MOST_REFUSED = 256, /* connections beyond the limit that are still told so */
    ROUNDS = 16,        /* requests of one connection before others have their turn */
    READ_BYTES = 4 << 10,
    SPARE_FDS = 64
};

struct conn {
    struct ctr_http_request q; /* first: a request is its connection */
    int fd, place;
    enum { READ, WORK, SEND, DRAIN } state;
    bool refused; /* beyond the limit of connections */
    bool gone;    /* the client left while in WORK */
    bool last;    /* close after the answer */
    struct ctr_buf in, out;
    size_t looked, head_bytes, sent; /* head_bytes 0: the head is not whole */
    int64_t held;                    /* bytes of in, out and the answer that are counted */
    int64_t due_ms;                  /* 0: none */
};

struct ctr_http {
    struct ctr_http_opts o;
    int listener, epoll, event, stop; /* event: answers are there; stop: an eventfd */
    bool is_unix, stopping, full;     /* full: no descriptors, so that the listener is not watched */
    char name[160], path[108];
    struct conn **conn;
    int n, cap;
    int refusals; /* connections of `refused` */
    pthread_mutex_t lock;
    struct ctr_http_request *done;
    struct ctr_http_stats stats;
    int64_t grace_end_ms;
};

/* A connection that sends two requests, the first in two packets, the second along with the end of the first:
 *
 *     accept_one      READ; due after the shorter of the request and the idle time
 *     read_request    in: "POST /v1/score …", no empty line yet: would block
 *     read_request    the rest: take_head finds the body's length; `in` has more than head and body
 *     handle          WORK, nothing is due; a thread of the queue has the request
 *     ctr_http_done   on that thread: the list `done`, and the eventfd that wakes the loop
 *     take_answers    start_answer puts head and answer into `out`: SEND
 *     next_request    all is sent: the second request moves to the front of `in`, and READ goes on with it at once
 *
 * The loop never blocks but in epoll_wait, and only the loop frees a connection: one whose client left during WORK is
 * marked `gone` and is closed when its answer comes. */

static struct conn *conn_of(struct ctr_http_request *q)
{
    return (struct conn *)(void *)q;
}

/* ---- listening ---- */

static int listen_unix(struct ctr_http *h, const char *path, struct ctr_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct stat st;
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return ctr_fail(err, CTR_EUSAGE, "--listen unix:PATH wants a path of 1 to %d bytes",
                        (int)sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path) + 1);
    h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (h->listener < 0)
        return ctr_fail_sys(err, "no socket");
    if (!lstat(path, &st) && S_ISSOCK(st.st_mode)) { /* of a server that was killed? */
        if (!connect(h->listener, (const struct sockaddr *)&a, sizeof a))
            return ctr_fail(err, CTR_ESYS, "%s: another server listens there", path);
        if (errno == ECONNREFUSED)
            unlink(path);
    }
    if (bind(h->listener, (const struct sockaddr *)&a, sizeof a))
        return ctr_fail_sys(err, "%s: cannot listen", path);
    memcpy(h->path, path, strlen(path) + 1);
    h->is_unix = true;
    snprintf(h->name, sizeof h->name, "unix:%s", path);
    return 0;
}

/* "127.0.0.1:8080", "[::1]:8080" */
static int split_address(const char *text, char host[64], char port[8], struct ctr_err *err)
{
    const char *colon = strrchr(text, ':'), *from = text, *to = colon;
    int64_t number;
    if (colon && *text == '[' && colon > text + 1 && colon[-1] == ']') {
        from = text + 1;
        to = colon - 1;
    }
    if (!colon || to <= from || to - from > 63 || strlen(colon + 1) > 5 ||
        !ctr_parse_i64(colon + 1, strlen(colon + 1), &number) || number < 0 || number > 65535)
        return ctr_fail(err, CTR_EUSAGE, "--listen wants ADDR:PORT, such as 127.0.0.1:8080, or unix:PATH, not '%s'",
                        text);
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = 0;
    snprintf(port, 8, "%d", (int)number);
    return 0;
}

static int listen_tcp(struct ctr_http *h, const char *text, struct ctr_err *err)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM };
    struct sockaddr_storage is = { 0 };
    socklen_t size = sizeof is;
    struct addrinfo *a = NULL;
    char host[64], port[8];
    const int one = 1;
    int rc = split_address(text, host, port, err);
    if (rc)
        return rc;
    if (getaddrinfo(host, port, &hints, &a))
        return ctr_fail(err, CTR_EUSAGE, "--listen: '%s' is no address in numbers, such as 127.0.0.1 or [::1]", host);
    h->listener = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (h->listener < 0 || setsockopt(h->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(h->listener, a->ai_addr, a->ai_addrlen) || getsockname(h->listener, (struct sockaddr *)&is, &size))
        rc = ctr_fail_sys(err, "--listen %s: cannot listen", text);
    freeaddrinfo(a);
    const int bound = is.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)(void *)&is)->sin6_port)
                                               : ntohs(((struct sockaddr_in *)(void *)&is)->sin_port);
    snprintf(h->name, sizeof h->name, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, bound);
    return rc;
}

/* A connection is a descriptor. */
static int raise_limit(struct ctr_http *h, struct ctr_err *err)
{
    struct rlimit r;
    const rlim_t want = (rlim_t)h->o.connections + MOST_REFUSED + SPARE_FDS;
    if (getrlimit(RLIMIT_NOFILE, &r))
        return ctr_fail_sys(err, "cannot read the limit of open files");
    if (r.rlim_cur < want) {
        r.rlim_cur = CTR_MIN(want, r.rlim_max);
        if (setrlimit(RLIMIT_NOFILE, &r))
            return ctr_fail_sys(err, "cannot raise the limit of open files");
    }
    if (r.rlim_cur < want && h->o.fewer && r.rlim_cur > MOST_REFUSED + SPARE_FDS)
        h->o.connections = (int64_t)r.rlim_cur - MOST_REFUSED - SPARE_FDS;
    else if (r.rlim_cur < want)
        return ctr_fail(
            err, CTR_EUSAGE,
            "--connections %lld needs %lld open files, and the limit is %lld: raise it (ulimit -n), or give "
            "fewer connections",
            (long long)h->o.connections, (long long)want, (long long)r.rlim_cur);
    return 0;
}

static int watch(struct ctr_http *h, int fd, uint32_t events, void *who, struct ctr_err *err)
{
    struct epoll_event e = { .events = events, .data.ptr = who };
    return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) ? ctr_fail_sys(err, "epoll_ctl") : 0;
}

int ctr_http_open(struct ctr_http **out, const struct ctr_http_opts *o, struct ctr_err *err)
{
    struct ctr_http *h = *out = calloc(1, sizeof *h);
    if (!h)
        return ctr_fail_nomem(err, sizeof *h);
    h->o = *o;
    h->listener = -1;
    pthread_mutex_init(&h->lock, NULL);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    h->stop = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int rc = h->epoll < 0 || h->event < 0 || h->stop < 0 ? ctr_fail_sys(err, "no epoll") : raise_limit(h, err);
    if (!rc)
        rc = !strncmp(o->listen, "unix:", 5) ? listen_unix(h, o->listen + 5, err) : listen_tcp(h, o->listen, err);
    if (!rc && listen(h->listener, 4096))
        rc = ctr_fail_sys(err, "--listen %s: cannot listen", o->listen);
    if (!rc)
        rc = watch(h, h->listener, EPOLLIN, &h->listener, err);
    if (!rc)
        rc = watch(h, h->event, EPOLLIN, &h->event, err);
    if (!rc)
        rc = watch(h, h->stop, EPOLLIN, &h->stop, err);
    if (rc) {
        ctr_http_free(h);
        *out = NULL;
    }
    return rc;
}

const char *ctr_http_name(const struct ctr_http *h)
{
    return h->name;
}

bool ctr_http_stopping(const struct ctr_http *h)
{
    return h->stopping;
}

struct ctr_http_stats ctr_http_stats(const struct ctr_http *h)
{
    return h->stats;
}

void ctr_http_stop(struct ctr_http *h)
{
    const uint64_t one = 1;
    const int kept = errno;
    if (write(h->stop, &one, sizeof one) < 0) {
        /* it is set already */
    }
    errno = kept;
}

/* ---- connections ---- */

/* What the connection holds is counted against memory_bytes. */
static void count_held(struct ctr_http *h, struct conn *c)
{
    const int64_t now = (int64_t)(c->in.cap + c->out.cap + c->q.answer.cap);
    h->stats.held_bytes += now - c->held;
    c->held = now;
}

static void drop_buffers(struct ctr_http *h, struct conn *c)
{
    ctr_buf_free(&c->in);
    ctr_buf_free(&c->out);
    ctr_buf_free(&c->q.answer);
    count_held(h, c);
}

static void unwatch_listener(struct ctr_http *h)
{
    epoll_ctl(h->epoll, EPOLL_CTL_DEL, h->listener, NULL);
    h->full = true;
}

static void watch_listener_again(struct ctr_http *h)
{
    struct ctr_err err;
    if (h->full && h->listener >= 0)
        h->full = watch(h, h->listener, EPOLLIN, &h->listener, &err) != 0;
}

static void close_conn(struct ctr_http *h, struct conn *c)
{
    close(c->fd); /* takes it out of epoll */
    drop_buffers(h, c);
    if (c->refused)
        h->refusals--;
    else
        h->stats.connections--;
    h->conn[c->place] = h->conn[--h->n];
    h->conn[c->place]->place = c->place;
    free(c);
    watch_listener_again(h);
}

static void due_in(struct conn *c, int64_t ms)
{
    c->due_ms = ctr_clock_ms() + ms;
}

static void await_request(struct ctr_http *h, struct conn *c)
{
    c->state = READ;
    c->head_bytes = c->looked = 0;
    due_in(c, c->in.len ? h->o.request_ms : h->o.idle_ms);
}

/* The text of a status; the codes that this server sends. */
static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } known[] = { { 200, "OK" },
                  { 400, "Bad Request" },
                  { 404, "Not Found" },
                  { 405, "Method Not Allowed" },
                  { 408, "Request Timeout" },
                  { 411, "Length Required" },
                  { 413, "Content Too Large" },
                  { 414, "URI Too Long" },
                  { 415, "Unsupported Media Type" },
                  { 431, "Request Header Fields Too Large" },
                  { 500, "Internal Server Error" },
                  { 503, "Service Unavailable" },
                  { 504, "Gateway Timeout" },
                  { 505, "HTTP Version Not Supported" } };
    for (size_t i = 0; i < CTR_COUNT(known); i++)
        if (known[i].status == status)
            return known[i].text;
    return "Unknown";
}

void ctr_http_refuse(struct ctr_http_request *q, int status, const char *fmt, ...)
{
    static const char hex[] = "0123456789abcdef";
    struct ctr_err err;
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    q->status = status;
    q->type = "application/json";
    ctr_buf_clear(&q->answer);
    int rc = ctr_buf_append(&q->answer, "{\"error\":\"", 10, &err);
    for (const char *p = text; !rc && *p; p++) {
        const unsigned char b = (unsigned char)*p;
        const char escape[] = { '\\', 'u', '0', '0', hex[b >> 4], hex[b & 15] };
        const char quoted[] = { '\\', *p };
        if (b < ' ')
            rc = ctr_buf_append(&q->answer, escape, sizeof escape, &err);
        else if (*p == '"' || *p == '\\')
            rc = ctr_buf_append(&q->answer, quoted, 2, &err);
        else
            rc = ctr_buf_append(&q->answer, p, 1, &err);
    }
    if (!rc)
        rc = ctr_buf_append(&q->answer, "\"}\n", 3, &err);
    if (rc)
        ctr_buf_clear(&q->answer); /* the status says enough */
}

/* Put the answer of c->q into c->out. */
static void start_answer(struct ctr_http *h, struct conn *c)
{
    struct ctr_err err;
    struct ctr_http_request *q = &c->q;
    const bool head = q->head.method == CTR_HTTP_HEAD;
    c->last = c->last || q->head.close || h->stopping;
    if (h->o.answered)
        h->o.answered(h->o.ctx, q);
    ctr_buf_clear(&c->out);
    int rc = ctr_buf_printf(&c->out, &err, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s%s\r\n",
                            q->status, reason(q->status), q->type, q->answer.len,
                            q->status == 503 ? "Retry-After: 1\r\n" : "", q->headers,
                            c->last       ? "Connection: close\r\n"
                            : q->head.old ? "Connection: keep-alive\r\n"
                                          : "");
    if (!rc && !head)
        rc = ctr_buf_append(&c->out, q->answer.data, q->answer.len, &err);
    ctr_buf_free(&q->answer);
    if (rc) { /* no memory: the client sees the end of the connection */
        ctr_buf_clear(&c->out);
        c->last = true;
    }
    c->sent = 0;
    c->state = SEND;
    due_in(c, h->o.request_ms);
    count_held(h, c);
}

static void begin_request(struct conn *c)
{
    struct ctr_buf answer = c->q.answer;
    ctr_buf_clear(&answer);
    c->q = (struct ctr_http_request){ .status = 200, .type = "application/json", .answer = answer };
    c->q.head.deadline_ms = -1;
}

/* Refuse what arrives, before it is whole: the connection ends with the answer. */
static void refuse(struct ctr_http *h, struct conn *c, int status, const char *why)
{
    if (!c->head_bytes)
        begin_request(c);
    c->last = true;
    ctr_http_refuse(&c->q, status, "%s", why);
    start_answer(h, c);
}

/* The request is whole. */
static void handle(struct ctr_http *h, struct conn *c)
{
    c->state = WORK;
    c->due_ms = 0;
    c->q.body = c->in.data + c->head_bytes;
    c->q.arrived_ns = ctr_clock_ns();
    h->o.request(h->o.ctx, &c->q);
}

/* The head is whole, unless it is refused. */
static void take_head(struct ctr_http *h, struct conn *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char text[160];
    const char *why = "";
    begin_request(c);
    const int status = ctr_http_head_parse(c->in.data, c->head_bytes, &c->q.head, &why);
    if (status) {
        refuse(h, c, status, why);
    } else if (c->q.head.body_bytes > h->o.body_bytes) {
        snprintf(text, sizeof text, "the body has %lld bytes, and at most %lld are taken (--max-body)",
                 (long long)c->q.head.body_bytes, (long long)h->o.body_bytes);
        refuse(h, c, 413, text);
    } else if (c->q.head.expects && c->in.len == c->head_bytes && c->q.head.body_bytes &&
               send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL) < 0) {
        /* the next read meets the error */
    }
}

/* Read once. 1: more may be there; 0: it would block, or c left the state READ; -1: the connection is gone. */
static int read_some(struct ctr_http *h, struct conn *c)
{
    struct ctr_err err;
    const size_t whole = c->head_bytes ? c->head_bytes + (size_t)c->q.head.body_bytes : 0;
    /* As much again as has arrived: a length that is announced reserves nothing. */
    const size_t want = whole ? CTR_MIN(whole - c->in.len, CTR_MAX(c->in.len, (size_t)READ_BYTES * 4)) : READ_BYTES;
    if (h->stats.held_bytes + (int64_t)want > h->o.memory_bytes) {
        refuse(h, c, 503, "the requests under way take all memory that they may (--memory)");
        return 0;
    }
    if (ctr_buf_reserve(&c->in, want, &err))
        return -1;
    count_held(h, c);
    const ssize_t n = recv(c->fd, c->in.data + c->in.len, want, 0);
    if (n <= 0)
        return n < 0 && errno == EINTR ? 1 : n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
    if (!c->in.len)
        due_in(c, h->o.request_ms);
    c->in.len += (size_t)n;
    return 1;
}

/* READ: 1: a step was made; 0: it would block; -1: gone. */
static int read_request(struct ctr_http *h, struct conn *c)
{
    if (!c->head_bytes && c->in.len) {
        c->head_bytes = ctr_http_head_end(c->in.data, c->in.len, c->looked);
        c->looked = c->in.len;
        if (c->head_bytes > (size_t)h->o.header_bytes || (!c->head_bytes && c->in.len > (size_t)h->o.header_bytes)) {
            c->head_bytes = 0;
            refuse(h, c, 431, "the header is longer than --max-header");
        } else if (c->head_bytes) {
            take_head(h, c);
        }
        if (c->state != READ)
            return 1;
    }
    if (c->head_bytes && c->in.len >= c->head_bytes + (size_t)c->q.head.body_bytes) {
        handle(h, c);
        return 1;
    }
    const int rc = read_some(h, c);
    if (!rc && c->state == READ && !c->in.len)
        drop_buffers(h, c); /* idle */
    return rc ? rc : c->state != READ;
}

/* SEND is done: the next request may have arrived already. */
static void next_request(struct ctr_http *h, struct conn *c)
{
    const size_t used = c->head_bytes + (size_t)c->q.head.body_bytes;
    c->in.len -= used;
    if (c->in.len)
        memmove(c->in.data, c->in.data + used, c->in.len);
    else
        drop_buffers(h, c);
    await_request(h, c);
}

/* Has the client sent more than the request that was answered? */
static bool more_came(const struct conn *c)
{
    char byte;
    return c->in.len > c->head_bytes + (size_t)c->q.head.body_bytes || recv(c->fd, &byte, 1, MSG_PEEK) > 0;
}

static int send_answer(struct ctr_http *h, struct conn *c)
{
    while (c->sent < c->out.len) {
        const ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        c->sent += (size_t)n;
    }
    if (!c->last && (!h->stopping || more_came(c))) {
        next_request(h, c);
        return 1;
    }
    if (shutdown(c->fd, SHUT_WR))
        return -1;
    drop_buffers(h, c);
    c->state = DRAIN;
    due_in(c, DRAIN_MS);
    return 1;
}

static int drain(struct conn *c)
{
    char rest[READ_BYTES];
    const ssize_t n = recv(c->fd, rest, sizeof rest, 0);
    return n > 0 ? 1 : n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : n < 0 && errno == EINTR ? 1 : -1;
}

/* Go on as far as it does not block. Edge-triggered: it ends only where a call has said that it would. */
static void advance(struct ctr_http *h, struct conn *c)
{
    int rc = 1, steps = 0;
    while (rc > 0 && c->state != WORK) {
        if (steps++ == 4 * ROUNDS) { /* come back after the others */
            struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c };
            if (!epoll_ctl(h->epoll, EPOLL_CTL_MOD, c->fd, &e))
                return;
        }
        rc = c->state == READ ? read_request(h, c) : c->state == SEND ? send_answer(h, c) : drain(c);
    }
    if (rc < 0)
        close_conn(h, c);
}

static void accept_one(struct ctr_http *h, int fd)
{
    struct ctr_err err;
    const bool over = h->stats.connections >= h->o.connections;
    struct conn *c = over && h->refusals >= MOST_REFUSED ? NULL : calloc(1, sizeof *c);
    const int one = 1;
    h->stats.accepted++;
    h->stats.refused += over;
    if (!c || ctr_array_grow(&h->conn, h->n, &h->cap, sizeof *h->conn, &err) ||
        watch(h, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, c, &err)) {
        free(c);
        close(fd);
        return;
    }
    if (!h->is_unix)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->place = h->n;
    h->conn[h->n++] = c;
    c->refused = over;
    h->refusals += over;
    h->stats.connections += !over;
    await_request(h, c);
    c->due_ms = ctr_clock_ms() + CTR_MIN(h->o.idle_ms, h->o.request_ms); /* its first request does not tarry */
    if (over)
        refuse(h, c, 503, "all connections are taken (--connections)");
    advance(h, c);
}

static void accept_all(struct ctr_http *h)
{
    for (;;) {
        const int fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            accept_one(h, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            unwatch_listener(h);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
            return;
        }
    }
}

/* ---- answers of other threads ---- */

void ctr_http_done(struct ctr_http *h, struct ctr_http_request *q)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&h->lock);
    const bool first = !h->done;
    q->next = h->done;
    h->done = q;
    pthread_mutex_unlock(&h->lock);
    if (first && write(h->event, &one, sizeof one) < 0) {
        /* it is set already */
    }
}

static void take_answers(struct ctr_http *h)
{
    uint64_t n;
    if (read(h->event, &n, sizeof n) < 0)
        return;
    pthread_mutex_lock(&h->lock);
    struct ctr_http_request *q = h->done;
    h->done = NULL;
    pthread_mutex_unlock(&h->lock);
    for (struct ctr_http_request *next; q; q = next) {
        struct conn *c = conn_of(q);
        next = q->next;
        start_answer(h, c);
        if (c->gone)
            close_conn(h, c);
        else
            advance(h, c);
    }
}

/* ---- the loop ---- */

/* Cut a connection off whose time has come: a client with half a request is told so. */
static void cut_off(struct ctr_http *h, struct conn *c)
{
    h->stats.cut += c->state == SEND || (c->state == READ && c->in.len);
    if (c->state == READ && c->in.len) {
        refuse(h, c, 408, "the request did not arrive in time (--request-time)");
        due_in(c, DRAIN_MS);
        advance(h, c);
    } else {
        close_conn(h, c);
    }
}

/* Some thousand connections ten times a second: a list by time would cost more than it saves. */
static void look_at_times(struct ctr_http *h)
{
    const int64_t now = ctr_clock_ms();
    for (int i = h->n - 1; i >= 0; i--)
        if (h->conn[i]->due_ms && now >= h->conn[i]->due_ms)
            cut_off(h, h->conn[i]);
    watch_listener_again(h);
}

/* Accept what the kernel has accepted for us, then nothing more; connections between requests end. */
static void stop_listening(struct ctr_http *h)
{
    uint64_t n;
    if (read(h->stop, &n, sizeof n) < 0 || h->stopping)
        return;
    h->stopping = true;
    h->grace_end_ms = ctr_clock_ms() + h->o.grace_ms;
    accept_all(h);
    close(h->listener);
    h->listener = -1;
    if (*h->path)
        unlink(h->path);
    for (int i = h->n - 1; i >= 0; i--) {
        struct conn *c = h->conn[i];
        if (c->state == READ && !c->in.len)
            advance(h, c); /* a request may have come */
    }
    for (int i = h->n - 1; i >= 0; i--)
        if (h->conn[i]->state == READ && !h->conn[i]->in.len)
            close_conn(h, h->conn[i]);
}

static void on_conn(struct ctr_http *h, struct conn *c, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR)) {
        if (c->state == WORK)
            c->gone = true; /* its thread still has the request */
        else
            close_conn(h, c);
        return;
    }
    advance(h, c);
}

static bool over(const struct ctr_http *h)
{
    return h->stopping && (!h->n || ctr_clock_ms() >= h->grace_end_ms);
}

int ctr_http_run(struct ctr_http *h, struct ctr_err *err)
{
    struct epoll_event event[256];
    int64_t looked_ms = 0;
    while (!over(h)) {
        const int n = epoll_wait(h->epoll, event, CTR_COUNT(event), h->n || h->full ? TICK_MS : -1);
        if (n < 0 && errno != EINTR)
            return ctr_fail_sys(err, "epoll_wait");
        /* A connection that closes here is in no later event of this round: each is in the list once. */
        bool stop = false, answers = false, knocks = false;
        for (int i = 0; i < n; i++) {
            void *who = event[i].data.ptr;
            if (who == &h->stop)
                stop = true;
            else if (who == &h->event)
                answers = true;
            else if (who == &h->listener)
                knocks = true;
            else
                on_conn(h, who, event[i].events);
        }
        if (answers)
            take_answers(h);
        if (knocks && h->listener >= 0)
            accept_all(h);
        if (stop)
            stop_listening(h);
        if (ctr_clock_ms() - looked_ms >= TICK_MS) {
            looked_ms = ctr_clock_ms();
            look_at_times(h);
        }
    }
    return 0;
}

void ctr_http_free(struct ctr_http *h)
{
    if (!h)
        return;
    while (h->n)
        close_conn(h, h->conn[h->n - 1]);
    if (h->listener >= 0)
        close(h->listener);
    if (h->listener >= 0 && *h->path)
        unlink(h->path);
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->event >= 0)
        close(h->event);
    if (h->stop >= 0)
        close(h->stop);
    pthread_mutex_destroy(&h->lock);
    free(h->conn);
    free(h);
}
