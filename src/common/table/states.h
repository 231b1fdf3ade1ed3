/* SPDX-License-Identifier: Apache-2.0
 *
 * states: keys and learner states, stored separately: an index per table from hashes to numbers, and one memory area
 * that holds the states of all tables densely, by number. A table takes numbers in small runs, in the order of its new
 * keys. Frequent keys appear early, so their states share cache lines; all states share few huge pages; a key's number
 * never changes.
 *
 * Threads may share tables if, for each table, only one thread finds (it uses the index, the run and dropped), ahead of
 * the other, and only one learns (it uses known, learned and the memory). A state exists once its learner has created
 * it. Do not iterate over a table while its finder runs.
 */
#ifndef CTR_STATES_H
#define CTR_STATES_H

#include "common/table/keyindex.h"

/* Kernels take row pointers; a row starts where the hash would be, 8 bytes before the state. */
enum { CTR_STATE_AT = 8, CTR_STATE_MOST_BYTES = 64 }; /* CTR_STATE_AT included */

struct ctr_states {
    struct ctr_area area;
    uint32_t bytes; /* of a state, even */
    uint64_t given; /* the first number not yet given to a table; used by the finder */
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
/* State 0 belongs to no key: refused keys use it. */
static inline uint8_t *ctr_states_refused(const struct ctr_states *s)
{
    return ctr_states_row(s, 0) + CTR_STATE_AT;
}
/* Create states up to `number`, zeroed. Pointers to rows are invalid afterwards. */
int ctr_states_make(struct ctr_states *s, uint64_t number, struct ctr_err *err) CTR_MUST;

/* Create some of the following states while other threads use the existing ones. Changes no pointers; may do
 * nothing. */
void ctr_states_make_next(struct ctr_states *s, uint64_t number);

struct ctr_keys {
    struct ctr_keyindex index;
    uint32_t next, end;     /* the current run of numbers */
    struct ctr_buf dropped; /* uint32_t: numbers to reuse */
    /* Used by the learner: */
    uint32_t known;   /* the highest number registered; the learner registers in ascending order */
    uint64_t learned; /* keys registered and not dropped */
};
void ctr_keys_init(struct ctr_keys *t);
void ctr_keys_free(struct ctr_keys *t);

/* Make room for `extra` more keys. Pointers into the index are invalid afterwards. */
int ctr_keys_reserve(struct ctr_keys *t, struct ctr_states *s, uint64_t extra, struct ctr_err *err) CTR_MUST;
uint64_t ctr_keys_bytes(const struct ctr_keys *t,
                        const struct ctr_states *s); /* with states, also those of dropped keys */
uint64_t ctr_keys_bytes_after(const struct ctr_keys *t, const struct ctr_states *s, uint64_t extra);

/* Assigns a number to a new key. Threads may call it at once for different tables. */
uint32_t ctr_keys_new_number(struct ctr_keys *t, struct ctr_states *s);
static inline uint32_t ctr_keys_number(struct ctr_keys *t, struct ctr_states *s, uint32_t *number)
{
    if (__builtin_expect(!*number, 0))
        *number = ctr_keys_new_number(t, s);
    return *number;
}

/* The learner registers a key. */
static inline void ctr_keys_register(struct ctr_keys *t, uint32_t number)
{
    t->learned += number > t->known;
    t->known = CTR_MAX(t->known, number);
}

/* The row of one key, created with zeros if new. */
int ctr_keys_get(struct ctr_keys *t, struct ctr_states *s, uint64_t hash, uint8_t **row, struct ctr_err *err) CTR_MUST;

/* Drop the keys for whose rows `keep` is false. No finder may run meanwhile. */
int ctr_keys_filter(struct ctr_keys *t, struct ctr_states *s, bool (*keep)(const void *ctx, const uint8_t *row),
                    const void *ctx, struct ctr_err *err) CTR_MUST;

/* The row of every registered key once, in no defined order; start with *at = 0; NULL at the end. */
uint8_t *ctr_keys_row(const struct ctr_keys *t, const struct ctr_states *s, uint64_t *at, uint64_t *hash);

/* The same keys with their numbers, some hundred at a time. */
typedef void ctr_keys_some(void *ctx, const struct ctr_numbered *e, uint64_t n);
void ctr_keys_each(const struct ctr_keys *t, ctr_keys_some *some, void *ctx);

/* The same keys with their numbers, sorted by key, in blocks that the callback may change. */
int ctr_keys_sorted(const struct ctr_keys *t, ctr_sorted_range *range, void *ctx, struct ctr_err *err) CTR_MUST;

#endif
