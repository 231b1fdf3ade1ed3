/* SPDX-License-Identifier: Apache-2.0
 *
 * feed: the rows of a pass for a learner, made ahead of it: a thread of its own reads and verifies batches, turns
 * columns into rows, takes the digest and writes the spool, while the caller learns; both find keys. On one processor,
 * and where no thread can be had, the caller does all that itself; what it gets is the same. */
#ifndef CTR_FEED_H
#define CTR_FEED_H

#include "common/learn/timeorder.h"
#include "common/learn/learn.h"

struct ctr_feed_opts {
    struct ctr_batch_source
        source;                /* stands before the first batch of the pass; used by the feed alone until it is freed */
    struct ctr_inputs *in;     /* of the source's schema; likewise */
    struct ctr_digest *digest; /* takes every row that is handed out, or NULL; likewise */
    struct ctr_writer *spool;  /* gets every batch, or NULL; likewise */
    struct ctr_time_order order;  /* of all batches; those of rows that were learned before, too */
    int64_t step_rows, span_rows; /* > 0: a tile does not go beyond a multiple of span_rows nor, in the first span, of
                                     step_rows */
    int64_t tile_rows;            /* at most so many are handed out at a time; 0: as suits row by row */
    int64_t known_rows;           /* so many rows come first that were learned before */
    int64_t again_rows;           /* the last of these are made all the same */
    bool with_batches;            /* the caller needs the batches too: reading waits until it is through with each */
    int threads;                  /* may have so many: one that makes tiles, a second one that only finds keys */
    /* With a thread: called by ctr_feed_next, between two batches, when none came for idle_ms because the input has
     * none, and when none came and *stop is set. May be NULL. */
    void (*idle)(void *ctx);
    void *ctx;
    int idle_ms;
    const volatile sig_atomic_t *stop;
    /* NULL, or what is done to rows before they are handed out, part by part (see struct ctr_model), by any idle
     * thread, the caller of ctr_feed_next too. */
    int (*find)(void *finder, const struct ctr_rows *rows, const struct ctr_find *f, struct ctr_err *err);
    void *finder;
    bool ordered;         /* CTR_FIND_ORDERED */
    int64_t memory_bytes; /* 0: no bound; else it finds in turn */
};

/* What lies between two calls of ctr_feed_next: some rows of one batch. */
struct ctr_tile {
    int64_t n;
    bool known;
    bool ends_batch;               /* the last rows of their batch */
    struct ctr_rows rows;          /* all n, or, of known ones, none */
    char digest[33];               /* where the known rows or a batch end: of all rows so far */
    const struct ctr_batch *batch; /* with_batches: theirs */
    const char *file;              /* the source's then, for messages */
    struct ctr_time_order order;   /* up to the end of this batch */
};

struct ctr_feed;
int ctr_feed_new(struct ctr_feed **f, const struct ctr_feed_opts *o, struct ctr_err *err) CTR_MUST;
/* 1: *tile is the next, borrowed until the next call; 0: the end, and the input was whole; < 0: error. */
int ctr_feed_next(struct ctr_feed *f, const struct ctr_tile **tile, struct ctr_err *err) CTR_MUST;
/* The thread of the feed as a learner's second one, between two calls of ctr_feed_next. settle finds keys while it
 * waits. */
struct ctr_worker ctr_feed_worker(struct ctr_feed *f);
/* Rows of the tile behind the one that ctr_feed_next gave last, if it is made and they are new; until the next call. */
const struct ctr_rows *ctr_feed_peek(struct ctr_feed *f);
/* At any time. Frees nothing of what the options name. */
void ctr_feed_free(struct ctr_feed *f);

/* For the source's `idle`: does the feed read on a thread of its own (feed NULL: no)? Then that thread says that it
 * waits for input; false when it is to end. */
bool ctr_feed_has_thread(const struct ctr_feed *f);
bool ctr_feed_idles(struct ctr_feed *f);
int ctr_feed_threads(void); /* that suit the number of processors, beside the caller's */

#endif
