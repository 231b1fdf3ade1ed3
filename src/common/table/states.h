/* SPDX-License-Identifier: Apache-2.0
 *
 * states: the keys of tables and the learner's state of each, apart: an index a table, from hashes to numbers, and one
 * piece of memory in which the states of all lie densely, by number. A table takes numbers in small runs, in the order
 * in which its keys come. A key that comes often comes early: so states that are wanted often share their cache lines,
 * all share few huge pages, and none ever moves to another number.
 *
 * Threads may share tables, if of each table one alone finds (keys, run, keys.used), ahead, and one learns (known,
 * learned, the memory). A state exists once its learner has made it. A visit of a table excludes its finder.
 */
#ifndef CTR_STATES_H
#define CTR_STATES_H

#include "common/table/sparse.h"

/* A row is where the hash of a key would lie, 8 bytes in front of its state: kernels take rows. */
enum { CTR_STATE_AT = 8 };

struct ctr_states {
    struct ctr_area area;
    uint32_t bytes; /* of a state, even */
    uint64_t given; /* numbers below it went to tables: the finder's */
};
void ctr_states_init(struct ctr_states *s, uint32_t bytes);
void ctr_states_free(struct ctr_states *s);

static inline uint8_t *ctr_states_rows(const struct ctr_states *s)
{
    return (uint8_t *)((uintptr_t)s->area.base - CTR_STATE_AT);
}
static inline uint8_t *ctr_states_row(const struct ctr_states *s, uint64_t number)
{
    return ctr_states_rows(s) + number * s->bytes;
}
/* The state of number 0, which is no key's: that of keys that are refused. */
static inline uint8_t *ctr_states_refused(const struct ctr_states *s)
{
    return ctr_states_row(s, 0) + CTR_STATE_AT;
}
/* Make states up to `number`, zeros. Pointers to rows are invalid afterwards. */
int ctr_states_make(struct ctr_states *s, uint64_t number, struct ctr_err *err) CTR_MUST;

/* Some of those that come next, while other threads use what is there. Changes no pointers, and may do nothing. */
void ctr_states_make_next(struct ctr_states *s, uint64_t number);

struct ctr_keys {
    struct ctr_sparse index; /* rows of CTR_SPARSE_NUMBERED bytes */
    uint32_t next, end;      /* the run of numbers at hand */
    struct ctr_buf dropped;  /* uint32_t: numbers to be used again */
    /* The learner's: */
    uint32_t known;   /* of its numbers, which it takes in rising order, the last one that it has registered */
    uint64_t learned; /* keys that it has registered and that are still there */
};
void ctr_keys_init(struct ctr_keys *t);
void ctr_keys_free(struct ctr_keys *t);

/* Make room for `extra` keys more. Pointers to slots are invalid afterwards. */
int ctr_keys_reserve(struct ctr_keys *t, struct ctr_states *s, uint64_t extra, struct ctr_err *err) CTR_MUST;
uint64_t ctr_keys_bytes(const struct ctr_keys *t, const struct ctr_states *s); /* with states, also of dropped keys */
uint64_t ctr_keys_bytes_after(const struct ctr_keys *t, const struct ctr_states *s, uint64_t extra);

/* The number of a slot of the index; a new key gets its own. Several tables at once may do that. */
uint32_t ctr_keys_new_number(struct ctr_keys *t, struct ctr_states *s);
static inline uint32_t ctr_keys_number(struct ctr_keys *t, struct ctr_states *s, uint8_t *slot)
{
    uint32_t number = ctr_sparse_row_number(slot);
    if (__builtin_expect(!number, 0)) {
        number = ctr_keys_new_number(t, s);
        memcpy(slot + 8, &number, sizeof number);
    }
    return number;
}

/* The learner registers a key. */
static inline void ctr_keys_register(struct ctr_keys *t, uint32_t number)
{
    t->learned += number > t->known;
    t->known = CTR_MAX(t->known, number);
}

/* One key: its row, made with zeros when it is new. */
int ctr_keys_get(struct ctr_keys *t, struct ctr_states *s, uint64_t hash, uint8_t **row, struct ctr_err *err) CTR_MUST;

/* Drop the keys for whose rows `keep` is false. No thread finds ahead meanwhile. */
int ctr_keys_filter(struct ctr_keys *t, struct ctr_states *s, bool (*keep)(const void *ctx, const uint8_t *row),
                    const void *ctx, struct ctr_err *err) CTR_MUST;

/* Every registered key, once, in no defined order: its row; *at starts with 0; NULL at the end. */
uint8_t *ctr_keys_row(const struct ctr_keys *t, const struct ctr_states *s, uint64_t *at, uint64_t *hash);

/* The same keys and their numbers, sorted by key, many at a time, which the callee may change. */
int ctr_keys_sorted(const struct ctr_keys *t, ctr_sparse_range *range, void *ctx, struct ctr_err *err) CTR_MUST;

#endif
