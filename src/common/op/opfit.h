/* SPDX-License-Identifier: Apache-2.0
 *
 * opfit: shared by the fitted operators: vocabularies, and the functions of a fitted operator's state. */
#ifndef CTR_OPFIT_H
#define CTR_OPFIT_H

#include "common/op/opint.h"

#include <pthread.h>

/* A fitted operator's state; it is the parameter of its call. */
struct ctr_fitted {
    int (*tile)(void *state, struct ctr_op_tile *t, struct ctr_err *err); /* fit: updates with a tile of rows */
    int (*finish)(void *state, struct ctr_err *err);
    int64_t (*memory)(const void *state);
    /* Its section of a bundle: the columns; to rows; and from rows. */
    const struct ctr_fitted_column {
        const char *name;
        enum ctr_type type;
    } * column;
    int columns;
    int (*save)(const void *state, struct ctr_batchbuf *rows, struct ctr_err *err);
    int (*load)(void *state, const struct ctr_batch *b, struct ctr_err *err);
};
extern const struct ctr_fitted ctr_fitted_keywords, ctr_fitted_standardize, ctr_fitted_minmax, ctr_fitted_log_scale;
int ctr_scale_prepare(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err) CTR_MUST;
int ctr_keywords_prepare(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err) CTR_MUST;
int ctr_keywords_loop(struct ctr_op_tile *t, struct ctr_err *err) CTR_MUST;

/* ---- vocabulary: a hash table of values ---- */

struct entry {
    uint64_t hash;
    uint64_t count;
    uint64_t at; /* offset of its text in texts */
    int64_t n;   /* bytes; 0 for a key */
};

/* The keys of the entries for one table, created on first use. Buckets of four slots, half a cache line, filled in
 * order: a look-up compares all four without a branch, and continues with the next bucket only if one is full. */
struct keyset {
    struct keyset *next;
    uint64_t seed, mask, other, id;
    uint64_t *slot; /* 4 * (mask + 1), 0 is free */
    bool has_zero;
};

struct vocab {
    struct ctr_buf entries, slots, texts;
    struct entry *entry; /* n of them, in entries */
    uint64_t *slot;      /* upper half of the hash and 1 + index of its entry, 0 free; mask + 1 of them, in slots */
    int64_t n;
    uint64_t mask;
    bool keys;        /* of keys instead of texts */
    int64_t min, max; /* max 0: no limit */
    struct keyset *sets;
    pthread_mutex_t lock; /* protects sets */
};

int ctr_vocab_new(struct vocab **v, struct ctr_err *err) CTR_MUST;
void ctr_vocab_free(void *v);
/* Add `count` to the entry of a hash and its text, inserting it if new; *entry: its number. */
int ctr_vocab_add(struct vocab *v, uint64_t hash, struct opv_str text, uint64_t count, int64_t *entry,
                  struct ctr_err *err) CTR_MUST;
/* The number of the entry of a text, or -1. */
int64_t ctr_vocab_find(const struct vocab *v, struct opv_str text);
/* Drops entries below v->min and beyond the v->max most frequent; sorts the others by hash. */
int ctr_vocab_finish(void *v, struct ctr_err *err) CTR_MUST;
int64_t ctr_vocab_memory(const void *v);
/* As columns key, name and count. */
int ctr_vocab_save(const void *v, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;
int ctr_vocab_load(void *v, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;

#endif
