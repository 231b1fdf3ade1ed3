/* SPDX-License-Identifier: Apache-2.0
 *
 * behaviours: a ring of behaviours per user, in time order. Invariant: a ring holds every behaviour that a future event
 * can list; behaviours not yet known follow the known ones. The text of a user stands in front of the ring, which is
 * read next, and is dropped with it. */
#include "common/rows/historycore.h"

#include <stdlib.h>

enum { START = 2, SWEEP_BYTES = 1 << 20 };
#define MOST_USERS (UINT32_MAX - 1)

void ctr_behaviours_init(struct ctr_behaviours *u, int values, const struct ctr_history_opts *o)
{
    *u = (struct ctr_behaviours){
        .values = values, .last = o->last, .window_ms = (uint64_t)o->window_ms, .in_plan = o->in_plan
    };
    u->delay_ms = (uint64_t)(o->dwell ? CTR_MAX(o->delay_ms, o->min_dwell_ms) : o->delay_ms);
}

static struct ctr_past *pasts(const struct ctr_behaviours *u)
{
    return (struct ctr_past *)(void *)u->pasts.data;
}

static int64_t count(const struct ctr_behaviours *u)
{
    return (int64_t)(u->pasts.len / sizeof(struct ctr_past));
}

/* The text in front of a ring takes whole words, the last of which is its length. */
static size_t text_words(uint64_t n)
{
    return 1 + (size_t)(n + 7) / 8;
}

static size_t words_before(const struct ctr_behaviours *u, const struct ctr_past *p)
{
    return u->texts && p->word ? text_words(p->word[-1]) : 0;
}

struct ctr_str ctr_behaviours_text(const struct ctr_past *p)
{
    return (struct ctr_str){ (const char *)(p->word - text_words(p->word[-1])), p->word[-1] };
}

static void free_ring(const struct ctr_behaviours *u, const struct ctr_past *p)
{
    if (p->word)
        free(p->word - words_before(u, p));
}

void ctr_behaviours_free(struct ctr_behaviours *u)
{
    for (int64_t i = 0; i < count(u); i++)
        free_ring(u, &pasts(u)[i]);
    ctr_buf_free(&u->pasts);
    ctr_keyindex_free(&u->index);
}

int64_t ctr_behaviours_bytes(const struct ctr_behaviours *u)
{
    return u->ring_bytes + (int64_t)u->pasts.cap + (int64_t)ctr_keyindex_bytes(&u->index);
}

static size_t behaviour_bytes(const struct ctr_behaviours *u)
{
    return (size_t)(2 + u->values) * sizeof(uint64_t);
}

static int64_t time_of(const struct ctr_behaviours *u, const struct ctr_past *p, uint32_t i)
{
    return (int64_t)*ctr_behaviour(u, p, i);
}

/* ---- users whose window has passed ---- */

static void drop(struct ctr_behaviours *u, uint32_t number)
{
    struct ctr_past *p = &pasts(u)[number];
    u->ring_bytes -= (int64_t)(p->cap * behaviour_bytes(u) + words_before(u, p) * sizeof(uint64_t));
    free_ring(u, p);
    *p = (struct ctr_past){ .next = u->free };
    u->free = number + 1;
    u->users--;
    u->dropped++;
}

static bool has_past(const void *ctx, uint32_t number)
{
    const struct ctr_behaviours *u = ctx;
    return pasts(u)[number - 1].cap;
}

int ctr_behaviours_sweep(struct ctr_behaviours *u, int64_t now, bool must, struct ctr_err *err)
{
    if (!must && ctr_behaviours_bytes(u) < 2 * u->swept_bytes + SWEEP_BYTES)
        return 0;
    for (int64_t i = 0; i < count(u); i++) {
        const struct ctr_past *p = &pasts(u)[i];
        if (p->cap && !p->next && ctr_time_age(now, time_of(u, p, p->n - 1)) > u->window_ms)
            drop(u, (uint32_t)i);
    }
    int rc = ctr_keyindex_filter(&u->index, has_past, u, err);
    u->swept_bytes = ctr_behaviours_bytes(u);
    return rc;
}

/* ---- behaviours ---- */

int ctr_behaviours_reserve(struct ctr_behaviours *u, int64_t rows, struct ctr_err *err)
{
    if (count(u) + rows > (int64_t)MOST_USERS)
        return ctr_fail(err, CTR_ENOMEM, "more than %u users at once: split the log by user (ctr-split --by)%s",
                        MOST_USERS, ctr_words(u->in_plan, "", " before"));
    int rc = ctr_keyindex_reserve(&u->index, (uint64_t)rows, err);
    return rc ? rc : ctr_buf_reserve(&u->pasts, (size_t)rows * sizeof(struct ctr_past), err);
}

/* A larger ring; of a user known by text: also the first one, behind the text. */
static int grow(struct ctr_behaviours *u, struct ctr_past *p, struct ctr_str text, struct ctr_err *err)
{
    const uint32_t cap = p->cap ? 2 * p->cap : START;
    const size_t bytes = behaviour_bytes(u), before = u->texts ? text_words(text.n) : 0;
    if (cap > UINT32_MAX / 4)
        return ctr_fail(err, CTR_ENOMEM, "a user has 2^30 behaviours that are not known yet: shorten %s",
                        ctr_word(u->in_plan, "--delay"));
    uint64_t *word = malloc(before * sizeof *word + cap * bytes);
    if (!word)
        return ctr_fail_nomem(err, before * sizeof *word + cap * bytes);
    int64_t added = 0;
    if (u->texts) {
        memcpy(word, text.p, text.n);
        word[before - 1] = text.n;
        added += p->word ? 0 : (int64_t)(before * sizeof *word);
        word += before;
    }
    const uint32_t tail = CTR_MIN(p->n, p->cap - p->first);
    if (p->n) {
        memcpy(word, ctr_behaviour(u, p, 0), tail * bytes);
        memcpy(word + tail * (bytes / sizeof *word), p->word, (p->n - tail) * bytes);
    }
    free_ring(u, p);
    added += (int64_t)((cap - p->cap) * bytes);
    __atomic_fetch_add(&u->ring_bytes, added, __ATOMIC_RELAXED);
    *p = (struct ctr_past){ .word = word, .cap = cap, .n = p->n, .next = p->next };
    return 0;
}

/* Of the pasts with the user's key, from `number` on, the user's; or 0. */
static uint32_t same_user(const struct ctr_behaviours *u, uint32_t number, const struct ctr_keyvalue *user)
{
    while (number && u->texts) {
        const struct ctr_past *p = ctr_behaviours_past(u, number);
        if (ctr_keyvalue_same(user, ctr_behaviours_text(p)))
            return number;
        number = p->next == number ? 0 : p->next;
    }
    return number;
}

/* Of the users with this key, the latest: the one, but for one pair in 2^64. */
static uint32_t latest(const struct ctr_behaviours *u, uint64_t key)
{
    const uint32_t *number = ctr_keyindex_find(&u->index, key);
    return number ? *number : 0;
}

static uint32_t new_user(struct ctr_behaviours *u, const struct ctr_keyvalue *user, int *rc, struct ctr_err *err)
{
    uint32_t *newest = ctr_keyindex_get(&u->index, user->key), number = u->free;
    const uint32_t others = *newest;
    if (number) {
        u->free = pasts(u)[number - 1].next;
    } else {
        number = (uint32_t)count(u) + 1;
        u->pasts.len += sizeof(struct ctr_past);
    }
    struct ctr_past *p = ctr_behaviours_past(u, number);
    *p = (struct ctr_past){ .next = others };
    if (others && !pasts(u)[others - 1].next)
        pasts(u)[others - 1].next = others;
    u->users++;
    *newest = number;
    *rc = u->texts ? grow(u, p, (struct ctr_str){ user->p, user->n }, err) : 0;
    return *rc ? 0 : number;
}

uint32_t ctr_behaviours_user(struct ctr_behaviours *u, const struct ctr_keyvalue *user, bool add, int *rc,
                             struct ctr_err *err)
{
    u->texts = user->p;
    const uint32_t number = same_user(u, latest(u, user->key), user);
    return number || !add ? number : new_user(u, user, rc, err);
}

/* Outside the window, or followed by `last` known ones. */
uint32_t ctr_behaviours_gone(const struct ctr_behaviours *u, const struct ctr_past *p, int64_t now)
{
    uint32_t n = 0;
    while (n < p->n && (ctr_time_age(now, time_of(u, p, n)) > u->window_ms ||
                        (p->n - n > u->last && ctr_time_age(now, time_of(u, p, n + (uint32_t)u->last)) > u->delay_ms)))
        n++;
    return n;
}

static void forget(const struct ctr_behaviours *u, struct ctr_past *p, int64_t now)
{
    const uint32_t n = ctr_behaviours_gone(u, p, now);
    p->first = (p->first + n) & (p->cap - 1);
    p->n -= n;
}

uint64_t *ctr_behaviours_add(struct ctr_behaviours *u, struct ctr_past *past, int64_t now, int *rc, struct ctr_err *err)
{
    forget(u, past, now);
    if (past->n == past->cap &&
        (*rc = grow(u, past, u->texts ? ctr_behaviours_text(past) : (struct ctr_str){ 0 }, err)))
        return NULL;
    uint64_t *word = (uint64_t *)(uintptr_t)ctr_behaviour(u, past, past->n++);
    word[0] = (uint64_t)now;
    word[1] = 0;
    return word;
}

/* How many behaviours, from the oldest on, are older than `age`: usually none or all. */
static uint32_t older(const struct ctr_behaviours *u, const struct ctr_past *p, int64_t t, uint64_t age)
{
    uint32_t from = 0, to = p->n;
    if (!to || ctr_time_age(t, time_of(u, p, to - 1)) > age)
        return to;
    if (ctr_time_age(t, time_of(u, p, 0)) <= age)
        return 0;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (ctr_time_age(t, time_of(u, p, middle)) > age)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

void ctr_behaviours_ahead_past(const struct ctr_behaviours *u, uint32_t number, int step)
{
    const struct ctr_past *p = ctr_behaviours_past(u, number);
    if (step == 1 && p)
        __builtin_prefetch(p);
    if (step < 2 || !p || !p->n)
        return;
    if (u->texts)
        __builtin_prefetch(p->word - 1);
    __builtin_prefetch(ctr_behaviour(u, p, 0));
    for (uint32_t k = p->n; k > 0 && p->n - k < 8 * CTR_BEHAVIOURS_STEP; k -= CTR_MIN(k, 2))
        __builtin_prefetch(ctr_behaviour(u, p, k - 1));
}

void ctr_behaviours_ahead(const struct ctr_behaviours *u, const struct ctr_keyvalue *user, int step)
{
    if (step)
        ctr_behaviours_ahead_past(u, latest(u, user->key), step);
    else if (u->index.size)
        __builtin_prefetch(ctr_keyindex_home(&u->index, user->key));
}

struct ctr_seen ctr_behaviours_seen(const struct ctr_behaviours *u, struct ctr_past *past, int64_t t)
{
    if (!past)
        return (struct ctr_seen){ 0 };
    const uint32_t known = older(u, past, t, u->delay_ms), gone = older(u, past, t, u->window_ms);
    const uint32_t from = known > u->last ? CTR_MAX(gone, known - (uint32_t)u->last) : gone;
    return (struct ctr_seen){ past, from, known > from ? known - from : 0 };
}
