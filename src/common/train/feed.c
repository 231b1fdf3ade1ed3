/* SPDX-License-Identifier: Apache-2.0
 *
 * feed: see feed.h. A ring of tiles between a maker thread and the taker. Any idle thread finds keys in parts: the
 * maker when enough tiles wait, the taker when it has no tile, and, with enough processors, a third thread that does
 * nothing else. So two threads share the work evenly, whatever making, finding and learning cost. A taker with enough
 * work for two threads offers a part of it to others.
 *
 * Invariant: only the maker uses tile `made`, and only the taker uses tile `taken`, until it asks for the next. For
 * each part, one thread at a time finds tiles in order; a tile is found when all its parts are. In ordered mode, a
 * tile's first part waits for the previous tile, its other parts for its first, and its last part for all of them.
 */
#include "common/train/feed.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    TILE_ROWS = 256, /* their entries stay in cache between the pass by column and the update by row */
    RING = CTR_FEED_RING,
    SOME =
        RING / 4,  /* tiles to collect before waking a thread while more are coming: waking takes as long as one tile */
    BACKLOG = 4,   /* tiles whose keys are not found before the maker helps */
    LOOKS = 30,    /* STOP_MS polls while another thread learns: it ends within a millisecond */
    SPINS = 1000,  /* polls before a thread sleeps: about 30 us, as long as falling asleep and waking takes */
    STOP_MS = 100, /* maximum delay until a signal is noticed */
};

enum { TAKER, MAKER, FINDER };

struct slot {
    struct ctr_tile tile;
    struct ctr_rowbuf buf;
    int code; /* result of ctr_feed_next */
    struct ctr_err err;
};

struct ctr_feed {
    struct ctr_feed_opts o;
    /* used by the maker */
    const struct ctr_batch *batch; /* the current one, or NULL */
    int64_t at, row;               /* next row of the batch; rows of the previous batches */
    /* used by the taker */
    bool inside;                  /* the last tile did not end its batch */
    bool held;                    /* it has a tile */
    struct ctr_learn_times times; /* waited_ns is the taker's, rows_ns that of the thread which makes tiles */
    /* shared */
    bool threaded, finds; /* there is a maker thread; there is a thread that only finds */
    pthread_t thread, finder;
    pthread_mutex_t lock;
    pthread_cond_t some, work; /* a tile can be taken; there is something to make or find. Also signalled on quit. */
    uint64_t made, found, taken;
    int parts;
    uint64_t part_found[CTR_FIND_MOST_PARTS]; /* tiles whose part is found */
    bool part_held[CTR_FIND_MOST_PARTS];      /* a thread is finding the part of the next of them */
    bool ended;                               /* the last tile is made */
    void (*submitted)(void *ctx);             /* the taker's offered work, or NULL: none left */
    void *submitted_ctx;
    bool work_submitted, work_running; /* work was ever offered; a thread is doing it */
    bool waits_some;
    int wait_work;    /* waiting threads */
    atomic_uint news; /* incremented when any of this changes */
    atomic_bool quit;
    atomic_bool idles; /* the maker waits for input, and is not merely slow */
    struct slot slot[RING];
};

/* The ring while the taker learns tile 12, and two threads work beside it (numbers modulo RING are slots):
 *
 *     tile     12     13     14     15     16     17
 *              taken  found  found  part 0 made   being made
 *                                   found,        by the maker: rows [1280, 1536) of the batch, digested and spooled
 *                                   part 1 held
 *                                   by the finder
 *     taken = 12, found = 15, made = 17
 *
 * ctr_feed_next hands out tile `taken + 1` once it is found. Where it is not, the taker finds parts itself instead of
 * sleeping; a maker that is BACKLOG tiles ahead of `found` does so too. With one processor ctr_feed_next makes a tile,
 * finds all its parts, and returns it. */

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

/* Refuse a row whose entries alone take a quarter of the memory: the ring, finding and learning need as much again.
 */
static int check_row(const struct ctr_feed *f, const struct ctr_rows *r, struct ctr_err *err)
{
    const int64_t entries = r->start[r->rows], bytes = entries * CTR_ENTRY_BYTES, memory = f->o.memory_bytes;
    if (!memory || r->rows != 1 || bytes <= memory / 4)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "row %lld has %lld keys and numbers, which take %s, and of --memory %s a row may take a quarter",
                    (long long)(r->first_row + 1), (long long)entries,
                    ctr_size_text_beyond((uint64_t)bytes, (uint64_t)memory / 4).s, ctr_size_text((uint64_t)memory).s);
}

/* At most *n rows from f->at on; the first rows of a batch are checked with all that follow. Fewer if they have many
 * entries: with --memory all tiles of the ring take an eighth of it, and of more than 64 MiB at most 8 MiB or a
 * sixty-fourth. */
static int make_rows(struct ctr_feed *f, struct slot *s, int64_t first, int64_t *n, struct ctr_err *err)
{
    const int64_t memory = f->o.memory_bytes, ring = CTR_MIN(memory / 8, CTR_MAX(memory / 64, (int64_t)RING << 20));
    const int64_t share = ring / RING / CTR_ENTRY_BYTES;
    int rc = f->at == first ? ctr_inputs_batch(f->o.in, f->batch, err) : 0;
    if (rc)
        return rc;
    const int64_t entries = memory ? CTR_MIN(share, CTR_TILE_ENTRIES) : CTR_TILE_ENTRIES;
    *n = ctr_inputs_fit(f->o.in, f->at, *n, f->o.tile_entries ? f->o.tile_entries : entries);
    rc = ctr_inputs_rows(f->o.in, &s->buf, f->at, *n, &s->tile.rows, err);
    return rc ? rc : check_row(f, &s->tile.rows, err);
}

/* The next rows of the current batch: rows before `first` are only counted, rows before `known` are digested
 * separately. */
static int make_part(struct ctr_feed *f, struct slot *s, int64_t first, int64_t known, struct ctr_err *err)
{
    struct ctr_tile *t = &s->tile;
    const int64_t all = f->batch->rows, end = f->at < first ? first : f->at < known ? known : all;
    t->known = f->at < known;
    t->n = f->at < first ? end - f->at : CTR_MIN(f->o.tile_rows, end - f->at);
    if (f->at >= first && f->o.step_rows) {
        const int64_t row = f->row + f->at, step = row < f->o.span_rows ? f->o.step_rows : f->o.span_rows;
        t->n = CTR_MIN(t->n, step - row % step);
    }
    int rc = f->at < first ? 0 : make_rows(f, s, first, &t->n, err);
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
    int rc = f->batch ? 1 : ctr_batch_source_next(&f->o.source, &f->batch, err);
    while (rc > 0 && !f->batch->rows) /* of a foreign stream */
        rc = ctr_batch_source_next(&f->o.source, &f->batch, err);
    s->tile = (struct ctr_tile){ .file = ctr_batch_source_name(&f->o.source) };
    if (rc <= 0)
        return rc;
    const struct ctr_batch *b = f->batch;
    s->tile.batch = f->o.with_batches ? b : NULL;
    if (!f->at && (rc = ctr_time_order_batch(&f->o.order, b, err)))
        return rc;
    s->tile.order = f->o.order;
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

static void fill(struct ctr_feed *f, struct slot *s)
{
    s->err = (struct ctr_err){ 0 };
    s->code = make_tile(f, s, &s->err);
    struct ctr_rows *r = &s->tile.rows;
    if (s->code <= 0 || !f->o.find || !r->rows)
        return;
    int rc = ctr_buf_room(&s->buf.number, r->start[r->rows], sizeof(uint32_t), &s->err);
    s->code = rc ? rc : s->code;
    r->number = (const uint32_t *)(void *)s->buf.number.data;
}

/* ---- finding ---- */

static int find_part(struct ctr_feed *f, struct slot *s, int part, int thread, struct ctr_err *err)
{
    const struct ctr_find how = { part, thread, f->o.memory_bytes, (uint32_t *)(void *)s->buf.number.data };
    return s->tile.rows.number ? f->o.find(f->o.finder, &s->tile.rows, &how, err) : 0;
}

static void find_alone(struct ctr_feed *f, struct slot *s, int part)
{
    int rc = s->code > 0 ? find_part(f, s, part, TAKER, &s->err) : 0;
    s->code = rc ? rc : s->code;
}

static void find_all(struct ctr_feed *f, struct slot *s)
{
    if (f->o.ordered)
        find_alone(f, s, CTR_FIND_FIRST);
    for (int part = 0; part < CTR_FIND_PARTS; part++)
        find_alone(f, s, part);
    if (f->o.ordered)
        find_alone(f, s, CTR_FIND_LAST);
}

/* Number of tiles for which the first `parts` parts are all found. Must hold the lock, as must all functions below. */
static uint64_t found_by(const struct ctr_feed *f, int parts)
{
    uint64_t found = f->part_found[0];
    for (int i = 1; i < parts; i++)
        found = CTR_MIN(found, f->part_found[i]);
    return found;
}

/* Number of tiles whose part may be found now. */
static uint64_t ready_tiles(const struct ctr_feed *f, int part)
{
    return !f->o.ordered            ? f->made
           : part == CTR_FIND_FIRST ? CTR_MIN(f->made, f->part_found[CTR_FIND_LAST] + 1)
           : part == CTR_FIND_LAST  ? found_by(f, CTR_FIND_PARTS)
                                    : f->part_found[CTR_FIND_FIRST];
}

/* The part that is farthest behind and that no thread is finding; -1: none. */
static int part_to_find(const struct ctr_feed *f)
{
    int part = -1;
    for (int i = 0; i < f->parts; i++)
        if (!f->part_held[i] && f->part_found[i] < ready_tiles(f, i) &&
            (part < 0 || f->part_found[i] < f->part_found[part]))
            part = i;
    return part;
}

/* Is another thread finding a part? It then ends soon, and sleeping until then would take longer. */
static bool being_found(const struct ctr_feed *f)
{
    bool held = false;
    for (int i = 0; i < f->parts; i++)
        held |= f->part_held[i];
    return held;
}

/* Wakes the taker once for several tiles rather than for each, because waking is slow; `now`: at once. */
static void tell(struct ctr_feed *f, bool now)
{
    atomic_fetch_add_explicit(&f->news, 1, memory_order_relaxed);
    if (f->waits_some && (now || (f->found > f->taken && (f->found == f->made || f->found - f->taken >= SOME)))) {
        f->waits_some = false;
        pthread_cond_signal(&f->some);
    }
}

/* Releases the lock while it finds. */
static void find(struct ctr_feed *f, int part, int thread)
{
    struct slot *s = &f->slot[f->part_found[part] % RING];
    struct ctr_err err = { 0 };
    const int code = s->code;
    const int64_t from_ns = thread == MAKER ? ctr_clock_ns() : 0;
    f->part_held[part] = true;
    pthread_mutex_unlock(&f->lock);
    int rc = code > 0 ? find_part(f, s, part, thread, &err) : 0;
    pthread_mutex_lock(&f->lock);
    if (thread == MAKER)
        f->times.rows_ns += ctr_clock_ns() - from_ns;
    if (rc && s->code > 0) {
        s->code = rc;
        s->err = err;
    }
    f->part_held[part] = false;
    f->part_found[part]++;
    f->found = found_by(f, f->parts);
    tell(f, false);
}

/* ---- the taker's work ---- */

static bool has_submitted_work(const struct ctr_feed *f)
{
    return f->submitted && !f->work_running;
}

/* Releases the lock while it works. */
static void run_submitted(struct ctr_feed *f)
{
    f->work_running = true;
    pthread_mutex_unlock(&f->lock);
    f->submitted(f->submitted_ctx);
    pthread_mutex_lock(&f->lock);
    f->submitted = NULL;
    f->work_running = false;
    tell(f, true);
}

/* ---- the threads ---- */

/* Poll until something changes or the limit is reached. Releases the lock. */
static void look_for_news(struct ctr_feed *f)
{
    const unsigned before = atomic_load_explicit(&f->news, memory_order_relaxed);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < SPINS && atomic_load_explicit(&f->news, memory_order_relaxed) == before; i++)
        ctr_cpu_pause();
    if (atomic_load_explicit(&f->news, memory_order_relaxed) == before)
        sched_yield(); /* the thread that makes the change may need this processor */
    pthread_mutex_lock(&f->lock);
}

static void wait_work(struct ctr_feed *f)
{
    f->wait_work++;
    pthread_cond_wait(&f->work, &f->lock);
    f->wait_work--;
}

static void wake_work(struct ctr_feed *f)
{
    if (f->wait_work)
        pthread_cond_broadcast(&f->work);
}

/* Is there room for a tile? After the last rows of a batch that the taker needs: only when the taker has finished with
 * them. */
static bool has_room(const struct ctr_feed *f)
{
    const struct slot *last = &f->slot[(f->made + RING - 1) % RING];
    const bool hold = f->made && f->o.with_batches && last->tile.ends_batch;
    return !f->ended && f->made - f->taken < (hold ? 1 : (uint64_t)ctr_feed_tiles_ahead(f->o.tile_rows));
}

static void make(struct ctr_feed *f)
{
    struct slot *s = &f->slot[f->made % RING];
    if (!f->batch) /* it may wait for input; the others continue without it */
        tell(f, true);
    pthread_mutex_unlock(&f->lock);
    const int64_t from_ns = ctr_clock_ns();
    fill(f, s);
    f->times.rows_ns += ctr_clock_ns() - from_ns;
    atomic_store(&f->idles, false);
    pthread_mutex_lock(&f->lock);
    f->made++;
    f->ended = s->code <= 0;
    for (int i = 0; i < f->parts && !f->o.find; i++)
        f->part_found[i] = f->made;
    f->found = found_by(f, f->parts);
    const bool ends = f->ended || s->tile.ends_batch;
    if (ends || f->made - f->found >= SOME)
        wake_work(f);
    tell(f, ends);
}

static void *make_tiles(void *arg)
{
    struct ctr_feed *f = arg;
    pthread_mutex_lock(&f->lock);
    int looks = 0; /* polls left for the next piece of the taker's work */
    for (unsigned seen = 0; !atomic_load(&f->quit);) {
        const int part = part_to_find(f);
        const unsigned news = atomic_load_explicit(&f->news, memory_order_relaxed);
        if (has_submitted_work(f)) {
            run_submitted(f);
            looks = LOOKS / 4;
        } else if (has_room(f) && (part < 0 || f->made - f->found < BACKLOG))
            make(f);
        else if (part >= 0)
            find(f, part, MAKER);
        else if (f->ended && !f->work_submitted)
            break;
        else if (seen != news || being_found(f) || looks-- > 0)
            look_for_news(f);
        else
            wait_work(f);
        seen = news;
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void *find_keys(void *arg)
{
    struct ctr_feed *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!atomic_load(&f->quit)) {
        const int part = part_to_find(f);
        if (has_submitted_work(f))
            run_submitted(f);
        else if (part >= 0)
            find(f, part, FINDER);
        else if (f->ended && !f->work_submitted)
            break;
        else
            wait_work(f);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* Set what the threads read before starting them. */
static void start_threads(struct ctr_feed *f)
{
    f->threaded = true;
    if (ctr_thread_start(&f->thread, make_tiles, f))
        f->threaded = false;
    f->finds = f->threaded && f->o.find && f->o.threads > 1 && !ctr_thread_start(&f->finder, find_keys, f);
}

/* ---- taking ---- */

/* Sleep until there is a tile or a change; must hold the lock, which is released during idle(). */
static void wait_some(struct ctr_feed *f, int64_t *since)
{
    const bool can_idle = f->o.idle && !f->inside;
    f->waits_some = true;
    if (!can_idle) {
        pthread_cond_wait(&f->some, &f->lock);
        return;
    }
    const int64_t now = ctr_clock_ms(), left = *since + f->o.idle_ms - now;
    const int64_t until = now + (left > 0 ? CTR_MIN(left, STOP_MS) : STOP_MS);
    struct timespec ts = { .tv_sec = (time_t)(until / 1000), .tv_nsec = (long)(until % 1000) * 1000000 };
    if (pthread_cond_timedwait(&f->some, &f->lock, &ts) == ETIMEDOUT && f->found == f->taken &&
        ((f->o.stop && *f->o.stop) || (atomic_load(&f->idles) && ctr_clock_ms() - *since >= f->o.idle_ms))) {
        pthread_mutex_unlock(&f->lock);
        f->o.idle(f->o.ctx);
        *since = ctr_clock_ms();
        pthread_mutex_lock(&f->lock);
    }
}

/* Get the next tile; must hold the lock. The caller helps to find keys while it waits. */
static void wait_tile(struct ctr_feed *f)
{
    bool looked = false;
    for (int64_t since = f->o.idle ? ctr_clock_ms() : 0; f->found == f->taken;) {
        const int part = part_to_find(f);
        const int64_t from_ns = part < 0 ? ctr_clock_ns() : 0;
        if (part >= 0)
            find(f, part, TAKER);
        else if (!looked || being_found(f))
            look_for_news(f);
        else
            wait_some(f, &since);
        if (part < 0)
            f->times.waited_ns += ctr_clock_ns() - from_ns;
        looked = part < 0 && !looked;
    }
}

static struct slot *take(struct ctr_feed *f)
{
    if (!f->threaded) {
        const int64_t from_ns = ctr_clock_ns();
        fill(f, &f->slot[0]);
        find_all(f, &f->slot[0]);
        f->times.rows_ns += ctr_clock_ns() - from_ns;
        f->times.waited_ns = f->times.rows_ns;
        return &f->slot[0];
    }
    pthread_mutex_lock(&f->lock);
    if (f->held) {
        f->taken++;
        atomic_fetch_add_explicit(&f->news, 1, memory_order_relaxed);
        if (f->made - f->taken <= RING / 2)
            wake_work(f);
    }
    f->held = true;
    wait_tile(f);
    if (part_to_find(f) >= 0) /* it has no time to find for a while */
        wake_work(f);
    struct slot *s = &f->slot[f->taken % RING];
    pthread_mutex_unlock(&f->lock);
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

/* Is the tile made? wait: while the maker is at it, and not waiting for input. Must hold the lock. */
static bool is_made(struct ctr_feed *f, uint64_t at, bool wait)
{
    while (wait && f->made <= at && has_room(f) && !atomic_load(&f->idles)) {
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        ts.tv_nsec += 1000000;
        ts.tv_sec += ts.tv_nsec / 1000000000;
        ts.tv_nsec %= 1000000000;
        wake_work(f);
        f->waits_some = true;
        (void)pthread_cond_timedwait(&f->some, &f->lock, &ts);
    }
    return f->made > at;
}

const struct ctr_rows *ctr_feed_peek(struct ctr_feed *f, int k, bool wait)
{
    if (!f->threaded)
        return NULL;
    pthread_mutex_lock(&f->lock);
    const uint64_t at = f->taken + (uint64_t)k;
    const struct slot *next = f->held && is_made(f, at, wait) ? &f->slot[at % RING] : NULL;
    const bool there = next && next->code > 0 && !next->tile.known;
    pthread_mutex_unlock(&f->lock);
    return there ? &next->tile.rows : NULL;
}

static void submit(void *feed, void (*fn)(void *arg), void *arg)
{
    struct ctr_feed *f = feed;
    pthread_mutex_lock(&f->lock);
    f->submitted = fn;
    f->submitted_ctx = arg;
    f->work_submitted = true;
    atomic_fetch_add_explicit(&f->news, 1, memory_order_relaxed);
    wake_work(f);
    pthread_mutex_unlock(&f->lock);
}

static void settle(void *feed)
{
    struct ctr_feed *f = feed;
    pthread_mutex_lock(&f->lock);
    if (has_submitted_work(f))
        run_submitted(f);
    for (int looks = 0; f->submitted;) {
        const int part = part_to_find(f);
        if (part >= 0)
            find(f, part, TAKER);
        else if (looks++ < LOOKS)
            look_for_news(f);
        else {
            f->waits_some = true;
            pthread_cond_wait(&f->some, &f->lock);
        }
    }
    pthread_mutex_unlock(&f->lock);
}

/* ---- the interface ---- */

int ctr_feed_threads(void)
{
    return CTR_MIN(ctr_cpu_count() - 1, FINDER);
}

struct ctr_worker ctr_feed_worker(struct ctr_feed *f)
{
    return (struct ctr_worker){ submit, settle, f };
}

int ctr_feed_new(struct ctr_feed **out, const struct ctr_feed_opts *o, struct ctr_err *err)
{
    struct ctr_feed *f = calloc(1, sizeof *f);
    pthread_condattr_t attr;
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->o = *o;
    f->o.tile_rows = o->tile_rows ? o->tile_rows : TILE_ROWS;
    f->o.ordered = o->ordered || o->memory_bytes;
    f->parts = f->o.ordered ? CTR_FIND_MOST_PARTS : CTR_FIND_PARTS;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->some, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&f->work, NULL);
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
    atomic_fetch_add_explicit(&f->news, 1, memory_order_relaxed);
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    if (f->threaded)
        pthread_join(f->thread, NULL);
    if (f->finds)
        pthread_join(f->finder, NULL);
    if (f->o.times)
        *f->o.times = f->times;
    for (int i = 0; i < RING; i++)
        ctr_rowbuf_free(&f->slot[i].buf);
    pthread_cond_destroy(&f->some);
    pthread_cond_destroy(&f->work);
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
