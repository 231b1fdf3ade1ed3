/* SPDX-License-Identifier: Apache-2.0
 *
 * behaviours: a ring of behaviours per user, in time order. Invariant: a ring holds every behaviour that a future event
 * can list; behaviours not yet known follow the known ones. */
#include "common/history/historycore.h"

#include <stdlib.h>

enum { START = 2, SWEEP_BYTES = 1 << 20 };
#define MOST_USERS (UINT32_MAX - 1)

void ctr_behaviours_init(struct ctr_behaviours *u, int values, const struct ctr_history_opts *o)
{
    *u = (struct ctr_behaviours){ .values = values, .last = o->last, .window_ms = (uint64_t)o->window_ms };
    u->delay_ms = (uint64_t)(o->dwell ? CTR_MAX(o->delay_ms, o->min_dwell_ms) : o->delay_ms);
    ctr_sparse_init_index(&u->index);
}

static struct ctr_past *pasts(const struct ctr_behaviours *u)
{
    return (struct ctr_past *)(void *)u->pasts.data;
}

static int64_t count(const struct ctr_behaviours *u)
{
    return (int64_t)(u->pasts.len / sizeof(struct ctr_past));
}

void ctr_behaviours_free(struct ctr_behaviours *u)
{
    for (int64_t i = 0; i < count(u); i++)
        free(pasts(u)[i].word);
    ctr_buf_free(&u->pasts);
    ctr_sparse_free(&u->index);
}

int64_t ctr_behaviours_bytes(const struct ctr_behaviours *u)
{
    return u->ring_bytes + (int64_t)u->pasts.cap + (int64_t)ctr_sparse_bytes(&u->index);
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
    u->ring_bytes -= (int64_t)(p->cap * behaviour_bytes(u));
    free(p->word);
    *p = (struct ctr_past){ .next_free = u->free };
    u->free = number + 1;
    u->users--;
    u->dropped++;
}

static bool has_past(const void *ctx, const uint8_t *row)
{
    const struct ctr_behaviours *u = ctx;
    return pasts(u)[ctr_sparse_row_number(row) - 1].cap;
}

int ctr_behaviours_sweep(struct ctr_behaviours *u, int64_t now, bool must, struct ctr_err *err)
{
    if (!must && ctr_behaviours_bytes(u) < 2 * u->swept_bytes + SWEEP_BYTES)
        return 0;
    for (int64_t i = 0; i < count(u); i++) {
        const struct ctr_past *p = &pasts(u)[i];
        if (p->cap && ctr_time_age(now, time_of(u, p, p->n - 1)) > u->window_ms)
            drop(u, (uint32_t)i);
    }
    int rc = ctr_sparse_filter(&u->index, has_past, u, err);
    u->swept_bytes = ctr_behaviours_bytes(u);
    return rc;
}

/* ---- behaviours ---- */

int ctr_behaviours_reserve(struct ctr_behaviours *u, int64_t rows, struct ctr_err *err)
{
    if (count(u) + rows > (int64_t)MOST_USERS)
        return ctr_fail(err, CTR_ENOMEM, "more than %u users at once: split the log by user (ctr-split --by)",
                        MOST_USERS);
    int rc = ctr_sparse_reserve(&u->index, (uint64_t)rows, err);
    return rc ? rc : ctr_buf_reserve(&u->pasts, (size_t)rows * sizeof(struct ctr_past), err);
}

static struct ctr_past *past_of(struct ctr_behaviours *u, uint64_t user)
{
    uint8_t *row = ctr_sparse_get(&u->index, ctr_sparse_hash(user));
    uint32_t number = ctr_sparse_row_number(row);
    if (number)
        return &pasts(u)[number - 1];
    u->users++;
    if (u->free) {
        number = u->free;
        u->free = pasts(u)[number - 1].next_free;
    } else {
        number = (uint32_t)count(u) + 1;
        u->pasts.len += sizeof(struct ctr_past);
    }
    memcpy(row + 8, &number, sizeof number);
    pasts(u)[number - 1] = (struct ctr_past){ 0 };
    return &pasts(u)[number - 1];
}

/* Drop behaviours that no future event lists: outside the window, or followed by `last` known ones. */
static void forget(const struct ctr_behaviours *u, struct ctr_past *p, int64_t now)
{
    while (p->n && (ctr_time_age(now, time_of(u, p, 0)) > u->window_ms ||
                    (p->n > u->last && ctr_time_age(now, time_of(u, p, (uint32_t)u->last)) > u->delay_ms))) {
        p->first = (p->first + 1) & (p->cap - 1);
        p->n--;
    }
}

static int grow(struct ctr_behaviours *u, struct ctr_past *p, struct ctr_err *err)
{
    const uint32_t cap = p->cap ? 2 * p->cap : START;
    const size_t bytes = behaviour_bytes(u);
    if (cap > UINT32_MAX / 4)
        return ctr_fail(err, CTR_ENOMEM, "a user has 2^30 behaviours that are not known yet: shorten --delay");
    uint64_t *word = malloc(cap * bytes);
    if (!word)
        return ctr_fail_nomem(err, cap * bytes);
    const uint32_t tail = CTR_MIN(p->n, p->cap - p->first);
    if (p->n) {
        memcpy(word, ctr_behaviour(u, p, 0), tail * bytes);
        memcpy(word + tail * (bytes / sizeof *word), p->word, (p->n - tail) * bytes);
    }
    free(p->word);
    u->ring_bytes += (int64_t)((cap - p->cap) * bytes);
    *p = (struct ctr_past){ .word = word, .cap = cap, .n = p->n };
    return 0;
}

uint64_t *ctr_behaviours_add(struct ctr_behaviours *u, uint64_t user, int64_t now, int *rc, struct ctr_err *err)
{
    struct ctr_past *p = past_of(u, user);
    forget(u, p, now);
    if (p->n == p->cap && (*rc = grow(u, p, err)))
        return NULL;
    uint64_t *word = (uint64_t *)(uintptr_t)ctr_behaviour(u, p, p->n++);
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

static const struct ctr_past *find(const struct ctr_behaviours *u, uint64_t user)
{
    const uint8_t *row = ctr_sparse_find(&u->index, ctr_sparse_hash(user));
    const uint32_t number = row ? ctr_sparse_row_number(row) : 0;
    return number ? &pasts(u)[number - 1] : NULL;
}

/* Three dependent memory accesses, each of which gives the address of the next. */
void ctr_behaviours_ahead(const struct ctr_behaviours *u, const uint64_t *user, int64_t i, int64_t rows)
{
    enum { STEP = 8 };
    if (u->index.size && i + 3 * STEP < rows)
        __builtin_prefetch(ctr_sparse_home(&u->index, ctr_sparse_hash(user[i + 3 * STEP])));
    const struct ctr_past *p = i + 2 * STEP < rows ? find(u, user[i + 2 * STEP]) : NULL;
    if (p)
        __builtin_prefetch(p);
    p = i + STEP < rows ? find(u, user[i + STEP]) : NULL;
    if (!p || !p->n)
        return;
    __builtin_prefetch(ctr_behaviour(u, p, 0));
    for (uint32_t k = p->n; k > 0 && p->n - k < 8 * STEP; k -= CTR_MIN(k, 2))
        __builtin_prefetch(ctr_behaviour(u, p, k - 1));
}

struct ctr_seen ctr_behaviours_seen(const struct ctr_behaviours *u, uint64_t user, int64_t t)
{
    const struct ctr_past *p = find(u, user);
    if (!p)
        return (struct ctr_seen){ 0 };
    const uint32_t known = older(u, p, t, u->delay_ms), gone = older(u, p, t, u->window_ms);
    const uint32_t from = known > u->last ? CTR_MAX(gone, known - (uint32_t)u->last) : gone;
    return (struct ctr_seen){ p, from, known > from ? known - from : 0 };
}
