/* SPDX-License-Identifier: Apache-2.0
 *
 * http: HTTP/1.1 on one thread, for answers that other threads make.
 *
 *     struct ctr_http *h;
 *     ctr_http_open(&h, &opts, err)                 listens
 *     ctr_http_run(h, err)                          until ctr_http_stop, and then until all accepted requests have
 * their answer or opts.grace_ms has passed opts.request(ctx, q)                          a request is there, whole:
 * fill in the answer, then ctr_http_done(h, q)                           from any thread, once a request
 *     ctr_http_free(h)
 *
 * One epoll loop, edge-triggered; a connection takes memory only while a request is under way. Why not libmicrohttpd:
 * its timeout is one of silence, so that a client that sends a byte a second stays for ever, and its limits do not
 * cover all connections together (MEASURED.md has the cost of both, which is the same).
 */
#ifndef CTR_SERVE_HTTP_H
#define CTR_SERVE_HTTP_H

#include "common/base/base.h"

/* ---- the head of a request: http_head.c ---- */

enum ctr_http_method { CTR_HTTP_GET, CTR_HTTP_HEAD, CTR_HTTP_POST, CTR_HTTP_PUT, CTR_HTTP_OTHER };
struct ctr_http_head {
    enum ctr_http_method method;
    char path[256];      /* without what follows a '?' */
    char type[64];       /* Content-Type in lower case, without parameters; "": none */
    char request_id[64]; /* X-Request-Id; "": none */
    int64_t body_bytes;  /* Content-Length, 0: none */
    int64_t deadline_ms; /* X-Deadline-Ms, -1: none */
    bool close;          /* the connection ends with the answer */
    bool expects;        /* Expect: 100-continue */
    bool old;            /* HTTP/1.0 */
};
/* Where the head in [p, p + n) ends: bytes with the empty line, or 0. `from`: bytes looked at before. */
size_t ctr_http_head_end(const uint8_t *p, size_t n, size_t from);
/* 0, or the status of the answer that refuses it: 400, 411, 414, 501 or 505, with the reason in *why. */
int ctr_http_head_parse(const uint8_t *p, size_t n, struct ctr_http_head *head, const char **why);

/* ---- the server: http.c ---- */

struct ctr_http_request {
    struct ctr_http_head head;
    uint8_t *body; /* head.body_bytes, with CTR_PAD bytes that may be read behind them; the handler may change it */
    int64_t arrived_ns;            /* ctr_clock_ns when its last byte was read */
    struct ctr_http_request *next; /* the handler's, until ctr_http_done */
    /* the answer */
    int status;       /* 200 at first */
    const char *type; /* application/json at first */
    struct ctr_buf answer;
    char headers[320]; /* more header lines, each with its line end */
};

struct ctr_http_opts {
    const char *listen;               /* ADDR:PORT, [ADDR]:PORT or unix:PATH */
    int64_t header_bytes, body_bytes; /* the most of one request */
    int64_t memory_bytes;             /* the most of all requests and answers under way */
    int64_t connections;
    bool fewer;         /* than these, where the limit of open files is lower */
    int64_t request_ms; /* for a request to arrive, and for its answer to be taken */
    int64_t idle_ms;    /* between requests */
    int64_t grace_ms;
    void (*request)(void *ctx, struct ctr_http_request *q);        /* on the thread of ctr_http_run */
    void (*answered)(void *ctx, const struct ctr_http_request *q); /* the answer starts; also refused heads */
    void *ctx;
};
struct ctr_http;
int ctr_http_open(struct ctr_http **h, const struct ctr_http_opts *o, struct ctr_err *err) CTR_MUST;
const char *ctr_http_name(const struct ctr_http *h); /* where it listens: the port is the kernel's if 0 was asked for */
int ctr_http_run(struct ctr_http *h, struct ctr_err *err) CTR_MUST;
void ctr_http_stop(struct ctr_http *h); /* async-signal-safe */
void ctr_http_done(struct ctr_http *h, struct ctr_http_request *q);
/* Make an error the answer: {"error": …}. */
void ctr_http_refuse(struct ctr_http_request *q, int status, const char *fmt, ...) CTR_PRINTF(3, 4);
void ctr_http_free(struct ctr_http *h);

struct ctr_http_stats {
    int64_t connections;       /* open now */
    int64_t accepted, refused; /* beyond the limit of connections */
    int64_t cut;               /* slow ones */
    int64_t held_bytes;
};
struct ctr_http_stats ctr_http_stats(const struct ctr_http *h); /* on the thread of ctr_http_run */
bool ctr_http_stopping(const struct ctr_http *h);

#endif
