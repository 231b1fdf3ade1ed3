/* SPDX-License-Identifier: Apache-2.0
 *
 * feed: prepares the rows of a pass for a learner: a separate thread reads and verifies batches, converts columns to
 * rows, updates the digest and writes the spool, while the caller learns; both find keys. With one processor, or if no
 * thread can be created, the caller does all of it, with the same result. */
#ifndef CTR_FEED_H
#define CTR_FEED_H

#include "common/train/timeorder.h"
#include "common/train/train.h"

struct ctr_feed_opts {
    struct ctr_batch_source source; /* at the first batch of the pass; only the feed uses it until it is freed */
    struct ctr_inputs *in;          /* of the source's schema; likewise */
    struct ctr_digest *digest;      /* of all rows returned, or NULL; likewise */
    struct ctr_writer *spool;       /* receives every batch, or NULL; likewise */
    struct ctr_time_order order;    /* over all batches, including rows learned before */
    int64_t step_rows, span_rows; /* > 0: a tile ends at multiples of span_rows and, in the first span, of step_rows */
    int64_t tile_rows;            /* maximum rows per tile; 0: a size suited to row by row */
    int64_t tile_entries;         /* the same of entries; 0: as memory_bytes allows */
    int64_t known_rows;           /* number of leading rows that were already learned */
    int64_t again_rows;           /* the last of these are returned all the same */
    bool with_batches;            /* the caller also needs the batches: reading waits until it has finished with each */
    int threads;                  /* threads it may start: the first makes tiles, the second only finds keys */
    /* With a thread: ctr_feed_next calls it between two batches, when no input arrived for idle_ms, and when none
     * arrived and *stop is set. May be NULL. */
    void (*idle)(void *ctx);
    void *ctx;
    int idle_ms;
    const volatile sig_atomic_t *stop;
    /* NULL, or finds keys of rows in parts (see struct ctr_model) before they are returned; any idle thread runs it,
     * also the caller of ctr_feed_next. */
    int (*find)(void *finder, const struct ctr_rows *rows, const struct ctr_find *f, struct ctr_err *err);
    void *finder;
    bool ordered;                  /* CTR_FIND_ORDERED */
    int64_t memory_bytes;          /* 0: no bound; else keys are found in order */
    struct ctr_learn_times *times; /* set by ctr_feed_free, or NULL */
};

/* Tiles of so many rows, at most, that are made ahead. A batch has at least one. */
enum { CTR_FEED_RING = 8 }; /* reading and verifying the next batch takes about as long as learning five tiles */
static inline int ctr_feed_tiles_ahead(int64_t tile_rows)
{
    enum { LARGE_TILE = 8192 }; /* rows: of larger ones only one more is made, because of their memory */
    return tile_rows > LARGE_TILE ? 2 : CTR_FEED_RING;
}

/* The result of one ctr_feed_next: some rows of one batch. */
struct ctr_tile {
    int64_t n;
    bool known;
    bool ends_batch;               /* contains the last rows of its batch */
    struct ctr_rows rows;          /* all n, or none for known rows */
    char digest[33];               /* at the end of the known rows or of a batch: digest of all rows so far */
    const struct ctr_batch *batch; /* with_batches: the tile's batch */
    const char *file;              /* of the source at that point, for messages */
    struct ctr_time_order order;   /* up to the end of this batch */
};

struct ctr_feed;
int ctr_feed_new(struct ctr_feed **f, const struct ctr_feed_opts *o, struct ctr_err *err) CTR_MUST;
/* 1: *tile is the next, borrowed until the next call; 0: the end, and the input was whole; < 0: error. */
int ctr_feed_next(struct ctr_feed *f, const struct ctr_tile **tile, struct ctr_err *err) CTR_MUST;
/* The feed's thread as a second thread of the learner, between two calls of ctr_feed_next. settle finds keys while it
 * waits. */
struct ctr_worker ctr_feed_worker(struct ctr_feed *f);
/* The rows of the k-th tile after the last returned one, if they are ready and new; valid until the next call. `wait`:
 * until they are, unless that takes more input than has arrived, or more tiles than are made ahead. */
const struct ctr_rows *ctr_feed_peek(struct ctr_feed *f, int k, bool wait);
/* May be called at any time. Does not free what the options point to. */
void ctr_feed_free(struct ctr_feed *f);

/* Call from the source's `idle`: does the feed have its own reading thread (feed NULL: no)? If so, marks that thread as
 * waiting for input; returns false when it must end. */
bool ctr_feed_has_thread(const struct ctr_feed *f);
bool ctr_feed_idles(struct ctr_feed *f);
int ctr_feed_threads(void); /* number suited to the processors, besides the caller's */

#endif
