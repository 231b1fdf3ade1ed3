/* SPDX-License-Identifier: Apache-2.0
 *
 * keyindex: 64-bit keys -> 32-bit numbers, such as those of states (states.h). A line, 64 bytes, holds up to five keys,
 * in the order of their arrival:
 *
 *     hash hash hash hash hash   number number number number number   n
 *
 * so that a search usually reads one cache line and compares it as one vector. A key's home is line
 * ctr_hash_scale(s, size), where s is the keyed hash of the key (keyhash.h). A key whose home is full goes to the next
 * line with room.
 *
 * The home is monotone in s, so the index grows in place: it extends the array and moves runs of lines up from its end,
 * a few per ctr_keyindex_reserve. A frontier separates moved from unmoved lines. Growth needs no second array and no
 * long call.
 *
 * Lines never move between two calls of ctr_keyindex_reserve.
 */
#ifndef CTR_KEYINDEX_H
#define CTR_KEYINDEX_H

#include "common/table/area.h"
#include "common/table/keyhash.h"
#include "common/table/sorted.h"

enum { CTR_KEYLINE_KEYS = 5 };
struct ctr_keyline {
    uint64_t hash[CTR_KEYLINE_KEYS]; /* ctr_key_hash of keys; 0: empty */
    uint32_t number[CTR_KEYLINE_KEYS];
    uint32_t n;
};
_Static_assert(sizeof(struct ctr_keyline) == CTR_LINE, "a line of keys is a cache line");

#define CTR_KEYINDEX_LOAD   0.75      /* share of the places at which growth starts */
#define CTR_KEYINDEX_GROWTH (4.0 / 3) /* lines after growth / lines before it */
#define CTR_KEYINDEX_LEAP   8         /* lines after and before a growth towards `expected` keys, at most */
/* Bytes a key at most, when there are many: 22.8. */
#define CTR_KEYINDEX_SLACK (CTR_LINE / (double)CTR_KEYLINE_KEYS / CTR_KEYINDEX_LOAD * CTR_KEYINDEX_GROWTH)

struct ctr_keyindex {
    struct ctr_keyline *line;
    uint64_t size;     /* number of homes */
    uint64_t old_size; /* while growing: the number of homes for keys not yet moved */
    uint64_t frontier; /* keys with a home (by old_size) below it have not moved; 0: not growing */
    bool has_zero;     /* the key with hash 0 is outside the lines */
    uint32_t zero;
    uint64_t used;     /* keys, that with hash 0 included */
    uint64_t expected; /* keys that the caller expects, 0: unknown. Up to them it grows by CTR_KEYINDEX_LEAP */
    uint64_t end;      /* all keys lie before it */
    uint64_t lines;    /* of usable memory; the last one stays empty */
    struct ctr_area area;
    struct ctr_buf run; /* lines being moved */
};
/* Zero-initialise to start. */
void ctr_keyindex_free(struct ctr_keyindex *t);

/* Make room for `extra` more keys and continue a growth in progress. Pointers into the index are invalid afterwards. */
int ctr_keyindex_reserve(struct ctr_keyindex *t, uint64_t extra, struct ctr_err *err) CTR_MUST;
/* --memory must not depend on the random number of the process: lines being moved count at their usual number, and the
 * few lines past the last home do not count. */
uint64_t ctr_keyindex_bytes(const struct ctr_keyindex *t);
uint64_t ctr_keyindex_bytes_after(const struct ctr_keyindex *t, uint64_t extra);

static inline struct ctr_keyline *ctr_keyindex_home(const struct ctr_keyindex *t, uint64_t h)
{
    uint64_t at = ctr_hash_scale(ctr_hash_keyed(h), t->size);
    if (t->frontier) {
        const uint64_t before = ctr_hash_scale(ctr_hash_keyed(h), t->old_size);
        at = before < t->frontier ? before : at;
    }
    return t->line + at;
}

/* A bit for each place of the line that has hash h; without branches, which would be unpredictable. */
static inline unsigned ctr_keyline_match(const struct ctr_keyline *l, uint64_t h)
{
    unsigned bits = 0;
    for (int i = 0; i < CTR_KEYLINE_KEYS; i++)
        bits |= (unsigned)(l->hash[i] == h) << i;
    return bits;
}

/* From *line on, the home of h, to the line that has it or, if none has, to the first with room. A bit for the place of
 * h there, or 0. */
static inline unsigned ctr_keyline_search(struct ctr_keyline **line, uint64_t h)
{
    for (;; ++*line) {
        const unsigned bits = ctr_keyline_match(*line, h);
        if (bits || (*line)->n < CTR_KEYLINE_KEYS)
            return bits;
    }
}

/* The number of h, or NULL. `line` is its home. */
static inline uint32_t *ctr_keyindex_find_from(const struct ctr_keyindex *t, struct ctr_keyline *line, uint64_t h)
{
    if (__builtin_expect(!h, 0))
        return t->has_zero ? (uint32_t *)(uintptr_t)&t->zero : NULL;
    const unsigned bits = ctr_keyline_search(&line, h);
    return bits ? &line->number[__builtin_ctz(bits)] : NULL;
}
static inline uint32_t *ctr_keyindex_find(const struct ctr_keyindex *t, uint64_t h)
{
    return t->size ? ctr_keyindex_find_from(t, ctr_keyindex_home(t, h), h) : NULL;
}

/* The number of h, inserted as 0 if new; room must have been reserved. */
uint32_t *ctr_keyindex_zero(struct ctr_keyindex *t);
static inline uint32_t *ctr_keyindex_get_from(struct ctr_keyindex *t, struct ctr_keyline *line, uint64_t h)
{
    if (__builtin_expect(!h, 0))
        return ctr_keyindex_zero(t);
    const unsigned bits = ctr_keyline_search(&line, h);
    if (bits)
        return &line->number[__builtin_ctz(bits)];
    const uint64_t end = (uint64_t)(line - t->line) + 1;
    line->hash[line->n] = h;
    t->used++;
    t->end = CTR_MAX(t->end, end);
    return &line->number[line->n++];
}
static inline uint32_t *ctr_keyindex_get(struct ctr_keyindex *t, uint64_t h)
{
    return ctr_keyindex_get_from(t, ctr_keyindex_home(t, h), h);
}

/* Drop the keys for whose numbers `keep` is false; the others may move. */
int ctr_keyindex_filter(struct ctr_keyindex *t, bool (*keep)(const void *ctx, uint32_t number), const void *ctx,
                        struct ctr_err *err) CTR_MUST;

/* Every key once, in no defined order: *at starts with 0; NULL at the end. */
const uint32_t *ctr_keyindex_next(const struct ctr_keyindex *t, uint64_t *at, uint64_t *hash);

/* The same, some hundred keys at a time, from line `first` on, to `e`, which has room for CTR_KEYINDEX_SOME; returns
 * how many. The key with hash 0 comes last. first: where to go on; it starts with 0, and ends with UINT64_MAX. */
enum {
    CTR_KEYINDEX_SOME_LINES = 64,
    CTR_KEYINDEX_SOME = CTR_KEYINDEX_SOME_LINES * CTR_KEYLINE_KEYS + CTR_SORTED_SPARE
};
uint64_t ctr_keyindex_some(const struct ctr_keyindex *t, uint64_t *first, struct ctr_numbered *e);

/* The keys with their numbers, sorted by key, in blocks that the callback may change. all: see struct ctr_sorted_of. */
int ctr_keyindex_sorted(const struct ctr_keyindex *t, uint64_t all, ctr_sorted_range *range, void *ctx,
                        struct ctr_err *err) CTR_MUST;

/* Vectorised loops; all instruction sets give the same result. */
struct ctr_keyindex_kernel {
    const char *name;
    void (*homes)(const struct ctr_keyindex *t, const uint64_t *restrict h, int64_t n,
                  struct ctr_keyline **restrict home);
    /* Finds the numbers of k <= 64 hashes in their home lines; returns a bit for each hash not found there and each
     * hash 0. */
    uint64_t (*find)(const uint64_t *restrict h, struct ctr_keyline *const *restrict home, int64_t k,
                     uint32_t *restrict number);
    /* Collects, from n lines after `first`, the keys in [low, low + span]: see struct ctr_sorted_of. */
    uint64_t (*collect)(const struct ctr_keyindex *t, uint64_t first, uint64_t n, uint64_t low, uint64_t span,
                        struct ctr_numbered *e);
};
const struct ctr_keyindex_kernel *ctr_keyindex_kernel_at(int i); /* by enum ctr_cpu; NULL past the end */

#endif
