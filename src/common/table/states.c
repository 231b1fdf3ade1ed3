/* SPDX-License-Identifier: Apache-2.0 */
#include "common/table/states.h"

#include <inttypes.h>

enum { RUN = 32, LONGEST_RUN = 4096 }; /* numbers: whole cache lines, so that threads can work on different tables */
enum { NEXT_BYTES = 1 << 20 };         /* enough for the runs of a tile or two */
#define MOST_NUMBERS (UINT32_MAX - (UINT32_C(1) << 29)) /* leaves room for the runs of all tables */

void ctr_states_init(struct ctr_states *s, uint32_t bytes)
{
    *s = (struct ctr_states){ .bytes = bytes, .given = RUN }; /* 0 is not a valid number */
}

void ctr_states_free(struct ctr_states *s)
{
    ctr_area_free(&s->area);
}

int ctr_states_make(struct ctr_states *s, uint64_t number, struct ctr_err *err)
{
    return ctr_area_reserve(&s->area, (number + 1) * s->bytes, err);
}

void ctr_states_make_next(struct ctr_states *s, uint64_t number)
{
    ctr_area_ahead(&s->area, (number + 1) * s->bytes + NEXT_BYTES);
}

void ctr_keys_init(struct ctr_keys *t)
{
    *t = (struct ctr_keys){ .next = 0 };
}

void ctr_keys_free(struct ctr_keys *t)
{
    ctr_keyindex_free(&t->index);
    ctr_buf_free(&t->dropped);
    ctr_keys_init(t);
}

/* Numbers of dropped keys whose states are kept for reuse. */
static uint64_t dropped(const struct ctr_keys *t)
{
    return t->dropped.len / sizeof(uint32_t);
}

/* A growing table takes longer and longer runs: a sixteenth of its keys. */
uint32_t ctr_keys_new_number(struct ctr_keys *t, struct ctr_states *s)
{
    if (t->dropped.len) {
        uint32_t number;
        t->dropped.len -= sizeof number;
        memcpy(&number, t->dropped.data + t->dropped.len, sizeof number);
        t->learned++; /* it is not beyond `known`: no finder runs while keys are dropped */
        return number;
    }
    if (t->next == t->end) {
        const uint64_t run = CTR_MIN(t->index.used / (16 * RUN) * RUN + RUN, LONGEST_RUN);
        t->next = (uint32_t)__atomic_fetch_add(&s->given, run, __ATOMIC_RELAXED);
        t->end = t->next + (uint32_t)run;
    }
    return t->next++;
}

int ctr_keys_reserve(struct ctr_keys *t, struct ctr_states *s, uint64_t extra, struct ctr_err *err)
{
    if (__atomic_load_n(&s->given, __ATOMIC_RELAXED) + extra > MOST_NUMBERS)
        return ctr_fail(err, CTR_ENOMEM, "more than %" PRIu32 " keys: drop rare values (vocab with min=…)",
                        MOST_NUMBERS);
    return ctr_keyindex_reserve(&t->index, extra, err);
}

uint64_t ctr_keys_bytes(const struct ctr_keys *t, const struct ctr_states *s)
{
    return ctr_keyindex_bytes(&t->index) + t->dropped.cap + (t->index.used + dropped(t)) * s->bytes;
}

uint64_t ctr_keys_bytes_after(const struct ctr_keys *t, const struct ctr_states *s, uint64_t extra)
{
    return ctr_keyindex_bytes_after(&t->index, extra) + t->dropped.cap +
           (t->index.used + CTR_MAX(extra, dropped(t))) * s->bytes;
}

int ctr_keys_get(struct ctr_keys *t, struct ctr_states *s, uint64_t hash, uint8_t **row, struct ctr_err *err)
{
    int rc = ctr_keys_reserve(t, s, 1, err);
    if (rc)
        return rc;
    const uint32_t number = ctr_keys_number(t, s, ctr_keyindex_get(&t->index, hash));
    rc = ctr_states_make(s, number, err);
    ctr_keys_register(t, number);
    *row = rc ? NULL : ctr_states_row(s, number);
    return rc;
}

/* ---- dropping keys ---- */

struct choice {
    const struct ctr_states *s;
    bool (*keep)(const void *ctx, const uint8_t *row);
    const void *ctx;
};

static bool keep_number(const void *ctx, uint32_t number)
{
    const struct choice *c = ctx;
    return c->keep(c->ctx, ctr_states_row(c->s, number));
}

int ctr_keys_filter(struct ctr_keys *t, struct ctr_states *s, bool (*keep)(const void *ctx, const uint8_t *row),
                    const void *ctx, struct ctr_err *err)
{
    const struct choice c = { s, keep, ctx };
    const uint64_t before = dropped(t);
    uint64_t at = 0, hash;
    int rc = 0;
    for (const uint32_t *own; !rc && (own = ctr_keyindex_next(&t->index, &at, &hash));)
        if (!keep_number(&c, *own))
            rc = ctr_buf_append(&t->dropped, own, sizeof *own, err);
    if (!rc)
        rc = ctr_keyindex_filter(&t->index, keep_number, &c, err);
    const uint32_t *number = (const uint32_t *)(const void *)t->dropped.data;
    for (uint64_t i = before; !rc && i < dropped(t); i++)
        memset(ctr_states_row(s, number[i]) + CTR_STATE_AT, 0, s->bytes);
    t->learned = t->index.used;
    return rc;
}

/* ---- visits ---- */

uint8_t *ctr_keys_row(const struct ctr_keys *t, const struct ctr_states *s, uint64_t *at, uint64_t *hash)
{
    for (const uint32_t *number; (number = ctr_keyindex_next(&t->index, at, hash));)
        if (*number <= t->known)
            return ctr_states_row(s, *number);
    return NULL;
}

struct known {
    const struct ctr_keys *keys;
    ctr_sorted_range *range;
    void *ctx;
};

/* Keep those of n keys that are registered; returns how many. A finder may have added others. */
static uint64_t keep_known(const struct ctr_keys *t, struct ctr_numbered *e, uint64_t n)
{
    uint64_t to = 0;
    if (t->learned == t->index.used)
        return n;
    for (uint64_t i = 0; i < n; i++) {
        e[to] = e[i];
        to += e[i].number <= t->known;
    }
    return to;
}

void ctr_keys_each(const struct ctr_keys *t, ctr_keys_some *some, void *ctx)
{
    struct ctr_numbered e[CTR_KEYINDEX_SOME];
    for (uint64_t first = 0; first != UINT64_MAX;) {
        const uint64_t n = ctr_keyindex_some(&t->index, &first, e);
        some(ctx, e, keep_known(t, e, n));
    }
}

static int known_range(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct known *k = ctx;
    return k->range(k->ctx, e, keep_known(k->keys, e, n), err);
}

/* The numbers of all tables are dense: the highest is about the number of their keys. */
int ctr_keys_sorted(const struct ctr_keys *t, ctr_sorted_range *range, void *ctx, struct ctr_err *err)
{
    struct known k = { t, range, ctx };
    return ctr_keyindex_sorted(&t->index, t->known, known_range, &k, err);
}
