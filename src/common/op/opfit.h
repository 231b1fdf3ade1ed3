/* SPDX-License-Identifier: Apache-2.0
 *
 * opfit: what the files of fitted operators share: vocabularies, and the functions of a fitted operator's state. */
#ifndef CTR_OPFIT_H
#define CTR_OPFIT_H

#include "common/op/opint.h"

#include <pthread.h>

/* A fitted operator's state, which is the parameter of its call. */
struct ctr_fitted {
    int (*tile)(void *state, struct ctr_op_tile *t, struct ctr_err *err); /* fit: rows that there are */
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
extern const struct ctr_fitted ctr_fitted_keywords;
int ctr_keywords_prepare(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err) CTR_MUST;
int ctr_keywords_loop(struct ctr_op_tile *t, struct ctr_err *err) CTR_MUST;

/* ---- vocabulary: a hash table of values ---- */

struct entry {
    uint64_t hash;
    uint64_t count;
    uint64_t at; /* of its text in texts */
    int64_t n;   /* bytes; a key has none */
};

/* The keys of the entries for one table, made when first asked for. Buckets of four slots, filled in order, half a line
 * of the cache: a look-up compares all four without a branch, and goes on to the next bucket only when one is full. */
struct keyset {
    struct keyset *next;
    uint64_t seed, mask, other;
    uint64_t *slot; /* 4 * (mask + 1), 0 is free */
    bool has_zero;
};

struct vocab {
    struct ctr_buf entries, slots, texts;
    struct entry *entry; /* n of them, in entries */
    uint64_t *slot;      /* the upper half of a hash and 1 + index of its entry, 0 free; mask + 1 of them, in slots */
    int64_t n;
    uint64_t mask;
    bool keys;        /* of keys, not of texts */
    int64_t min, max; /* max 0: no limit */
    struct keyset *sets;
    pthread_mutex_t lock; /* of sets */
};

int ctr_vocab_new(struct vocab **v, struct ctr_err *err) CTR_MUST;
void ctr_vocab_free(void *v);
/* Adds `count` to the entry of a hash and its text, which is made where there is none; *entry: its number. */
int ctr_vocab_add(struct vocab *v, uint64_t hash, struct opv_str text, uint64_t count, int64_t *entry,
                  struct ctr_err *err) CTR_MUST;
/* The number of the entry of a text, or -1. */
int64_t ctr_vocab_find(const struct vocab *v, struct opv_str text);
/* Entries below v->min go, and those beyond the v->max most frequent; the others stand in the order of their hashes. */
int ctr_vocab_finish(void *v, struct ctr_err *err) CTR_MUST;
int64_t ctr_vocab_memory(const void *v);
/* Columns key, name and count. */
int ctr_vocab_save(const void *v, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;
int ctr_vocab_load(void *v, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;

#endif
