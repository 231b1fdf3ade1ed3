/* SPDX-License-Identifier: Apache-2.0
 *
 * feed: see feed.h. A ring of tiles between one thread that makes them, one that finds their keys, and one that takes
 * them. Invariant: the maker alone touches tiles [made, made + 1), the finder those from `found` on, the taker those
 * from `taken` on; a tile is taken back when the next one is asked for. Without a finder `found` is `made`. */
#include "common/model/feed.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    TILE_ROWS = 256, /* their entries stay in cache between the sweep by column and the update by row */
    RING = 8,        /* tiles: to read and verify the next batch takes about as long as to learn five of them */
    SOME = RING / 4, /* tiles that a thread is woken for while more are coming: to wake it takes as long as one */
    STOP_MS = 100,   /* how late a signal may be seen */
};

struct slot {
    struct ctr_tile tile;
    struct ctr_rowbuf buf;
    int code; /* of ctr_feed_next */
    struct ctr_err err;
};

struct ctr_feed {
    struct ctr_feed_opts o;
    /* the maker's */
    const struct ctr_batch *batch; /* at hand, or NULL */
    int64_t at, row;               /* next row of the batch; rows of the batches before */
    /* the taker's */
    bool inside; /* the last tile did not end its batch */
    bool held;   /* it has a tile */
    /* both */
    bool threaded, finds; /* a thread makes; another one finds */
    pthread_t thread, finder;
    pthread_mutex_t lock;
    /* A tile can be taken; one was made, and its keys are to be found; one was given back. Or quit. */
    pthread_cond_t some, raw, room;
    uint64_t made, found, taken;
    bool waits_some, waits_raw, waits_room;
    atomic_bool quit;
    atomic_bool idles; /* the maker waits for input, and is not just slow */
    struct slot slot[RING];
};

/* ---- making ---- */

static int digest_rows(struct ctr_feed *f, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_batchbuf part = { 0 };
    const struct ctr_batch *b = f->batch;
    if (!f->o.digest || !n)
        return 0;
    if (n == b->rows)
        return ctr_digest_batch(f->o.digest, b, err);
    int rc = ctr_batchbuf_init(&part, b->schema, err);
    if (!rc)
        rc = ctr_batchbuf_range(&part, b, from, n, err);
    if (!rc)
        rc = ctr_digest_batch(f->o.digest, ctr_batchbuf_view(&part), err);
    ctr_batchbuf_free(&part);
    return rc;
}

/* Rows [f->at, f->at + n); the first ones of a batch are checked with all that follow. */
static int make_rows(struct ctr_feed *f, struct slot *s, int64_t first, int64_t n, struct ctr_err *err)
{
    int rc = f->at == first ? ctr_inputs_batch(f->o.in, f->batch, err) : 0;
    return rc ? rc : ctr_inputs_rows(f->o.in, &s->buf, f->at, n, &s->tile.rows, err);
}

/* The next rows of the batch at hand: those before `first` only counted, those before `known` digested on their own. */
static int make_part(struct ctr_feed *f, struct slot *s, int64_t first, int64_t known, struct ctr_err *err)
{
    struct ctr_tile *t = &s->tile;
    const int64_t all = f->batch->rows, end = f->at < first ? first : f->at < known ? known : all;
    t->known = f->at < known;
    t->n = f->at < first ? end - f->at : CTR_MIN(f->o.tile_rows, end - f->at);
    int rc = f->at < first ? 0 : make_rows(f, s, first, t->n, err);
    f->at += t->n;
    t->ends_batch = f->at == all;
    if (!rc && t->known && f->at == known)
        rc = digest_rows(f, 0, known, err);
    if (!rc && t->ends_batch)
        rc = digest_rows(f, known, all - known, err);
    if (f->o.digest && (t->ends_batch || f->at == known))
        ctr_digest_hex(f->o.digest, t->digest);
    return rc;
}

static int64_t clamp(int64_t n, int64_t most)
{
    return CTR_MIN(CTR_MAX(n, 0), most);
}

static int make_tile(struct ctr_feed *f, struct slot *s, struct ctr_err *err)
{
    int rc = f->batch ? 1 : ctr_reader_next(f->o.reader, &f->batch, err);
    s->tile = (struct ctr_tile){ .file = ctr_reader_file(f->o.reader) };
    if (rc <= 0)
        return rc;
    const struct ctr_batch *b = f->batch;
    s->tile.batch = f->o.with_batches ? b : NULL;
    rc = make_part(f, s, clamp(f->o.known_rows - f->o.again_rows - f->row, b->rows),
                   clamp(f->o.known_rows - f->row, b->rows), err);
    if (!rc && s->tile.ends_batch && f->o.spool)
        rc = ctr_writer_batch(f->o.spool, b, err);
    if (s->tile.ends_batch) {
        f->row += b->rows;
        f->at = 0;
        f->batch = NULL;
    }
    return rc ? rc : 1;
}

typedef int find_fn(void *finder, struct ctr_rows *rows, struct ctr_buf *number, int64_t memory_bytes,
                    struct ctr_err *err);

static void find(struct ctr_feed *f, struct slot *s, find_fn *how)
{
    struct ctr_rows *r = &s->tile.rows;
    if (s->code <= 0 || !how || !r->rows)
        return;
    int rc = how(f->o.finder, r, &s->buf.number, f->o.memory_bytes, &s->err);
    s->code = rc ? rc : s->code;
}

static void fill(struct ctr_feed *f, struct slot *s)
{
    s->err = (struct ctr_err){ 0 };
    s->code = make_tile(f, s, &s->err);
    if (f->finds)
        find(f, s, f->o.find_some);
}

/* ---- the threads ---- */

static void wake(pthread_cond_t *c, bool *waits)
{
    if (*waits)
        pthread_cond_signal(c);
    *waits = false;
}

/* Until the ring has room, or, after the last rows of a batch that the taker needs, is empty. */
static void wait_room(struct ctr_feed *f, bool empty)
{
    while (!atomic_load(&f->quit) && f->made - f->taken >= (empty ? 1 : RING)) {
        f->waits_room = true;
        pthread_cond_wait(&f->room, &f->lock);
    }
}

static void *make_tiles(void *arg)
{
    struct ctr_feed *f = arg;
    int code = 1;
    pthread_mutex_lock(&f->lock);
    while (code > 0 && !atomic_load(&f->quit)) {
        struct slot *s = &f->slot[f->made % RING];
        pthread_mutex_unlock(&f->lock);
        fill(f, s);
        atomic_store(&f->idles, false);
        code = s->code;
        const bool hold = code > 0 && f->o.with_batches && s->tile.ends_batch;
        pthread_mutex_lock(&f->lock);
        f->made++;
        if (!f->finds) {
            f->found = f->made;
            wake(&f->some, &f->waits_some);
        } else if (code <= 0 || s->tile.ends_batch || f->made - f->found >= SOME)
            wake(&f->raw, &f->waits_raw);
        wait_room(f, hold);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void *find_keys(void *arg)
{
    struct ctr_feed *f = arg;
    int code = 1;
    pthread_mutex_lock(&f->lock);
    while (code > 0 && !atomic_load(&f->quit)) {
        if (f->found == f->made) {
            f->waits_raw = true;
            pthread_cond_wait(&f->raw, &f->lock);
            continue;
        }
        struct slot *s = &f->slot[f->found % RING];
        pthread_mutex_unlock(&f->lock);
        find(f, s, f->o.find);
        code = s->code;
        pthread_mutex_lock(&f->lock);
        f->found++;
        if (code <= 0 || f->found == f->made || f->found - f->taken >= SOME)
            wake(&f->some, &f->waits_some);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* What the threads see is set before there is one. */
static void start_threads(struct ctr_feed *f)
{
    f->threaded = f->finds = true;
    f->finds = f->o.find && !ctr_thread_start(&f->finder, find_keys, f);
    if (ctr_thread_start(&f->thread, make_tiles, f))
        f->threaded = false;
}

/* ---- taking ---- */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool stopping(const struct ctr_feed *f)
{
    return f->o.stop && *f->o.stop;
}

/* Wait for a tile, with the lock held; it is given up while idle() runs. */
static void wait_some(struct ctr_feed *f)
{
    const bool may_idle = f->o.idle && !f->inside;
    for (int64_t since = may_idle ? now_ms() : 0; f->found == f->taken;) {
        f->waits_some = true;
        if (!may_idle) {
            pthread_cond_wait(&f->some, &f->lock);
            continue;
        }
        const int64_t now = now_ms(), left = since + f->o.idle_ms - now;
        const int64_t until = now + (left > 0 ? CTR_MIN(left, STOP_MS) : STOP_MS);
        struct timespec ts = { .tv_sec = (time_t)(until / 1000), .tv_nsec = (long)(until % 1000) * 1000000 };
        if (pthread_cond_timedwait(&f->some, &f->lock, &ts) == ETIMEDOUT && f->found == f->taken &&
            (stopping(f) || (atomic_load(&f->idles) && now_ms() - since >= f->o.idle_ms))) {
            pthread_mutex_unlock(&f->lock);
            f->o.idle(f->o.ctx);
            since = now_ms();
            pthread_mutex_lock(&f->lock);
        }
    }
}

static struct slot *take(struct ctr_feed *f)
{
    if (!f->threaded) {
        fill(f, &f->slot[0]);
        find(f, &f->slot[0], f->o.find);
        return &f->slot[0];
    }
    pthread_mutex_lock(&f->lock);
    if (f->held) {
        f->taken++;
        /* Once in a while for some tiles rather than for each: to wake a thread takes long. */
        if (f->made - f->taken <= RING / 2)
            wake(&f->room, &f->waits_room);
    }
    f->held = true;
    wait_some(f);
    struct slot *s = &f->slot[f->taken % RING];
    pthread_mutex_unlock(&f->lock);
    if (!f->finds)
        find(f, s, f->o.find);
    return s;
}

int ctr_feed_next(struct ctr_feed *f, const struct ctr_tile **tile, struct ctr_err *err)
{
    struct slot *s = take(f);
    *tile = &s->tile;
    if (s->code < 0)
        *err = s->err;
    f->inside = s->code > 0 && !s->tile.ends_batch;
    return s->code;
}

/* ---- the interface ---- */

bool ctr_feed_may_thread(void)
{
    cpu_set_t set;
    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1;
}

int ctr_feed_new(struct ctr_feed **out, const struct ctr_feed_opts *o, struct ctr_err *err)
{
    struct ctr_feed *f = calloc(1, sizeof *f);
    pthread_condattr_t attr;
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->o = *o;
    f->o.tile_rows = o->tile_rows ? o->tile_rows : TILE_ROWS;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->some, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&f->raw, NULL);
    pthread_cond_init(&f->room, NULL);
    *out = f;
    if (o->threads)
        start_threads(f);
    return 0;
}

void ctr_feed_free(struct ctr_feed *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    atomic_store(&f->quit, true);
    pthread_cond_signal(&f->room);
    pthread_cond_signal(&f->raw);
    pthread_mutex_unlock(&f->lock);
    if (f->threaded)
        pthread_join(f->thread, NULL);
    if (f->finds)
        pthread_join(f->finder, NULL);
    for (int i = 0; i < RING; i++)
        ctr_rowbuf_free(&f->slot[i].buf);
    pthread_cond_destroy(&f->some);
    pthread_cond_destroy(&f->raw);
    pthread_cond_destroy(&f->room);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

bool ctr_feed_has_thread(const struct ctr_feed *f)
{
    return f && f->threaded;
}

bool ctr_feed_idles(struct ctr_feed *f)
{
    atomic_store(&f->idles, true);
    return !atomic_load(&f->quit);
}
