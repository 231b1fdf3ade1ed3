/* SPDX-License-Identifier: Apache-2.0
 *
 * keyvalue: which values are one, such as the users of a log or the keys of a count. Values are compared: a number is
 * its own 64 bits, a text or a row of several columns is kept as bytes. Hashes only say where to look, and are keyed by
 * a random number of the process, so that no input can be made whose values meet.
 *
 *     ctr_keyvalue_read(&rows, batch, columns, ncolumns, err);              once per batch
 *     ctr_keyvalue_set_add(&set, &rows.row[i], &number, err);                 0, 1, 2, … in order of arrival
 */
#ifndef CTR_KEYVALUE_H
#define CTR_KEYVALUE_H

#include "common/stream/batch.h"
#include "common/table/keyindex.h"

struct ctr_keyvalue {
    uint64_t key;  /* of a number: a bijection of its value; else a keyed hash of the bytes */
    const char *p; /* the bytes; NULL: a number */
    uint32_t n;
    bool null; /* of a single column; among several, a null is a part of the bytes */
};

/* A number, bool or time that is not null as 64 bits: equal exactly for equal values of one type. */
uint64_t ctr_keyvalue_bits(const struct ctr_col *c, int64_t i);

struct ctr_keyvalue_rows { /* zero-initialise */
    struct ctr_keyvalue *row;
    int64_t cap;
    struct ctr_buf bytes;
};
/* The values of the batch's rows in cols[0..n), none a list. They point into the batch. Equal numbers of any width are
 * one, so are 0 and -0, and all NaN. */
int ctr_keyvalue_read(struct ctr_keyvalue_rows *r, const struct ctr_batch *b, const int *cols, int n,
                      struct ctr_err *err) CTR_MUST;
void ctr_keyvalue_rows_free(struct ctr_keyvalue_rows *r);
static inline struct ctr_keyvalue ctr_keyvalue_text(struct ctr_str s)
{
    return (struct ctr_keyvalue){ ctr_hash64(s.p, s.n, ctr_hash_secret), s.p ? s.p : "", (uint32_t)s.n, false };
}
static inline bool ctr_keyvalue_same(const struct ctr_keyvalue *a, struct ctr_str b)
{
    return a->n == b.n && !memcmp(a->p, b.p, b.n);
}

/* Distinct values by number. Those of one set are either all numbers or all bytes. */
struct ctr_keyvalue_set {
    struct ctr_keyindex index; /* key -> 1 + number; of bytes with equal keys, the second has the next key */
    uint32_t null;             /* 1 + the number of the null, 0: none */
    uint32_t n;
    struct ctr_buf bytes;
    struct ctr_buf start; /* int64_t: start of each one's bytes, and the end of the last */
};
void ctr_keyvalue_set_init(struct ctr_keyvalue_set *x);
void ctr_keyvalue_set_free(struct ctr_keyvalue_set *x);
int64_t ctr_keyvalue_set_bytes(const struct ctr_keyvalue_set *x);
int64_t ctr_keyvalue_set_bytes_after(const struct ctr_keyvalue_set *x,
                                     const struct ctr_keyvalue *id); /* with one more */
int ctr_keyvalue_set_add(struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id, uint32_t *number,
                         struct ctr_err *err) CTR_MUST;
int64_t ctr_keyvalue_set_find(const struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id); /* its number, or -1 */
/* Prefetch for a search to come, in three steps, each of which reads what the one before has fetched. Step 1 returns
 * the number, if it is there, or -1. */
static inline int64_t ctr_keyvalue_set_ahead(const struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id, int step)
{
    if (!x->index.size || id->null)
        return -1;
    if (!step)
        __builtin_prefetch(ctr_keyindex_home(&x->index, id->key));
    const uint32_t *found = step ? ctr_keyindex_find(&x->index, id->key) : NULL;
    const int64_t number = found ? (int64_t)*found - 1 : -1;
    if (number >= 0 && id->p) {
        const int64_t *start = (const int64_t *)(const void *)x->start.data + number;
        __builtin_prefetch(step == 1 ? (const void *)start : x->bytes.data + *start);
    }
    return number;
}
struct ctr_str ctr_keyvalue_set_text(const struct ctr_keyvalue_set *x, uint64_t number); /* its bytes */

#endif
