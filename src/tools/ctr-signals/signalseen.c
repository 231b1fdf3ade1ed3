/* SPDX-License-Identifier: Apache-2.0
 *
 * signalseen: a sample of seen values, by hash. Bit 0 of a hash is not used: in a slot it marks the slot as taken, in a
 * saved sample that the value was seen once. It has its own hash table: its memory is fixed, and when full it drops
 * half of the keys in place. */
#include "tools/ctr-signals/signalseen.h"

#include <math.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
    SEEN_BITS = 14,
    SEEN_SLOTS = 1 << SEEN_BITS,
    SEEN_KEYS = SEEN_SLOTS / 2,
    SEEN_LEVELS = 50, /* more hashes with so many zero bits would be crafted: they are ignored */
};

struct slot {
    uint64_t key; /* hash | 1; 0: free */
    int64_t n;
};

struct ctr_seen {
    struct slot slot[SEEN_SLOTS];
    uint64_t odd; /* a random number of the process, so that nobody can craft input whose hashes collide */
    int64_t keys;
    int level;
};

/* The header of a saved sample; the keys follow. */
struct saved {
    int64_t level, values;
};

static bool sampled(uint64_t hash, int level)
{
    return !(hash >> 1 & ((UINT64_C(1) << level) - 1));
}

int ctr_seen_new(struct ctr_seen **out, struct ctr_err *err)
{
    struct ctr_seen *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    if (getrandom(&s->odd, sizeof s->odd, GRND_NONBLOCK) != sizeof s->odd)
        s->odd = ctr_mix64((uint64_t)(uintptr_t)s ^ (uint64_t)time(NULL));
    s->odd |= 1;
    *out = s;
    return 0;
}

void ctr_seen_free(struct ctr_seen *s)
{
    free(s);
}

/* The slot of a key, or a free one for it. */
static struct slot *find(struct ctr_seen *s, uint64_t key)
{
    size_t i = (size_t)(key * s->odd >> (64 - SEEN_BITS));
    while (s->slot[i].key && s->slot[i].key != key)
        i = (i + 1) % SEEN_SLOTS;
    return &s->slot[i];
}

/* Drop about half of the keys. The others are reinserted in table order, starting after a free slot, so that no key
 * blocks an earlier one. */
static void next_level(struct ctr_seen *s)
{
    size_t start = 0;
    s->level++;
    while (s->slot[start].key)
        start++;
    for (size_t k = 1; k <= SEEN_SLOTS; k++) {
        struct slot *at = &s->slot[(start + k) % SEEN_SLOTS], had = *at;
        if (!had.key)
            continue;
        *at = (struct slot){ 0 };
        s->keys -= !sampled(had.key, s->level);
        if (sampled(had.key, s->level))
            *find(s, had.key) = had;
    }
}

void ctr_seen_add(struct ctr_seen *s, uint64_t hash)
{
    if (!sampled(hash, s->level))
        return;
    struct slot *at = find(s, hash | 1);
    if (at->key) {
        at->n++;
        return;
    }
    if (s->keys == SEEN_KEYS) {
        if (s->level < SEEN_LEVELS) {
            next_level(s);
            ctr_seen_add(s, hash);
        }
        return;
    }
    *at = (struct slot){ hash | 1, 1 };
    s->keys++;
}

/* ---- kept ---- */

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a | 1, y = *(const uint64_t *)b | 1;
    return (x > y) - (x < y);
}

int ctr_seen_save(const struct ctr_seen *s, struct ctr_buf *out, struct ctr_err *err)
{
    struct saved head = { s->level, 0 };
    for (size_t i = 0; i < SEEN_SLOTS; i++)
        head.values += s->slot[i].n;
    ctr_buf_clear(out);
    int rc = ctr_buf_append(out, &head, sizeof head, err);
    for (size_t i = 0; i < SEEN_SLOTS && !rc; i++) {
        uint64_t key = s->slot[i].n == 1 ? s->slot[i].key : s->slot[i].key & ~UINT64_C(1);
        if (s->slot[i].key)
            rc = ctr_buf_append(out, &key, sizeof key, err);
    }
    if (!rc && s->keys)
        qsort(out->data + sizeof head, (size_t)s->keys, sizeof(uint64_t), by_key);
    return rc;
}

/* Sort, with each key once; a repeated key was seen more than once. */
void ctr_seen_settle(struct ctr_seen_set *u)
{
    uint64_t *key = (uint64_t *)(void *)u->keys.data;
    size_t n = u->keys.len / sizeof *key, kept = 0;
    if (n)
        qsort(key, n, sizeof *key, by_key);
    for (size_t i = 0; i < n; i++) {
        if (kept && (key[kept - 1] | 1) == (key[i] | 1))
            key[kept - 1] &= ~UINT64_C(1);
        else if (sampled(key[i], u->level))
            key[kept++] = key[i];
    }
    u->keys.len = kept * sizeof *key;
}

int ctr_seen_union(struct ctr_seen_set *u, const void *saved, size_t n, struct ctr_err *err)
{
    struct saved head;
    if (n < sizeof head || n % sizeof(uint64_t))
        return ctr_fail(err, CTR_EDATA, "damaged: the values that a vetting saw have %zu bytes", n);
    memcpy(&head, saved, sizeof head);
    if (head.level < 0 || head.level > SEEN_LEVELS || head.values < 0)
        return ctr_fail(err, CTR_EDATA, "damaged: the values that a vetting saw are of level %lld",
                        (long long)head.level);
    int level = CTR_MAX(u->level, (int)head.level);
    u->values = ldexp(u->values, u->level - level) + ldexp((double)head.values, (int)head.level - level);
    u->level = level;
    return ctr_buf_append(&u->keys, (const char *)saved + sizeof head, n - sizeof head, err);
}

void ctr_seen_set_free(struct ctr_seen_set *u)
{
    ctr_buf_free(&u->keys);
}

bool ctr_seen_compare(const struct ctr_seen *now, const struct ctr_seen_set *r, struct ctr_unseen *u)
{
    const uint64_t *key = (const uint64_t *)(const void *)r->keys.data;
    const int level = CTR_MAX(now->level, r->level);
    size_t n = r->keys.len / sizeof *key;
    double all = 0, squares = 0, unseen = 0, once = 0, keys = 0, values = ldexp(r->values, r->level - level);
    for (size_t i = 0; i < n; i++) {
        keys += sampled(key[i], level);
        once += sampled(key[i], level) && (key[i] & 1);
    }
    for (size_t i = 0; i < SEEN_SLOTS; i++) {
        const struct slot *s = &now->slot[i];
        if (!s->key || !sampled(s->key, level))
            continue;
        all += (double)s->n;
        squares += (double)s->n * (double)s->n;
        if (!n || !bsearch(&s->key, key, n, sizeof *key, by_key))
            unseen += (double)s->n;
    }
    if (!(all > 0 && values > 0))
        return false;
    u->share = unseen / all;
    u->expected = CTR_MIN(once / values, 1);
    /* For a sample of keys the error depends on the number of keys, by weight; otherwise on the number of values. */
    u->noise = level ? sqrt(squares) / all + 1 / sqrt(CTR_MAX(keys, 1)) : 1 / sqrt(all) + 1 / sqrt(values);
    return true;
}
