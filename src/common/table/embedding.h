/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding: a table of embeddings: 64-bit keys -> rows of floats (value, then optimizer state), numbered from 0 in
 * order of insertion.
 *
 * An index (keyindex.h) points into slabs that hold the rows without gaps. Both grow in place, a few lines and pages
 * per reserve, so that no call takes long; large ones ask for huge pages. A row costs its floats and at most
 * CTR_EMBEDDING_OVERHEAD bytes, including growth.
 *
 * A new row's values depend only on its key and the seed, uniform in [-scale, scale), followed by zeros: neither the
 * order of keys nor threads change a table's content. A key without a row has the values of a new row, so a prediction
 * is the same before and after the learner inserts the key, until its first update.
 */
#ifndef CTR_EMBEDDING_H
#define CTR_EMBEDDING_H

#include "common/table/changed.h"
#include "common/table/keyindex.h"

#define CTR_EMBEDDING_OVERHEAD CTR_KEYINDEX_SLACK /* 22.8 */

struct ctr_embedding {
    struct ctr_keyindex index; /* of hashes: row numbers */
    struct ctr_area area;      /* rows */
    int32_t width;             /* floats of a value */
    int32_t floats;            /* of a row: value and optimizer state, at least 1 */
    uint32_t used;
    uint64_t seed;
    float scale;
    struct ctr_changed changed; /* noted by get, reserve before it, and scatter; sorted looks at `only` */
};

void ctr_embedding_init(struct ctr_embedding *t, int32_t width, int32_t floats, uint64_t seed, float scale);
void ctr_embedding_free(struct ctr_embedding *t);

/* Make room for `extra` keys more. Pointers to rows are invalid afterwards; their numbers never change. */
int ctr_embedding_reserve(struct ctr_embedding *t, uint64_t extra, struct ctr_err *err) CTR_MUST;
uint64_t ctr_embedding_bytes(const struct ctr_embedding *t);

static inline float *ctr_embedding_row(const struct ctr_embedding *t, uint32_t i)
{
    return (float *)(void *)t->area.base + (size_t)i * (size_t)t->floats;
}

/* The row numbers of n hashes (ctr_key_hash of keys); new keys get rows; room must have been reserved. */
void ctr_embedding_get(struct ctr_embedding *t, const uint64_t *hash, int64_t n, uint32_t *row);
/* The same without insertion; keys without a row: CTR_EMBEDDING_NONE. Safe for any number of threads at once. */
#define CTR_EMBEDDING_NONE UINT32_MAX
void ctr_embedding_find(const struct ctr_embedding *t, const uint64_t *hash, int64_t n, uint32_t *row);

/* Copy the first `floats` (at least the width) of rows to `to`, and back. For NONE, copies the initial values of
 * hash[i]; hash may be NULL if no row is NONE. */
void ctr_embedding_gather(const struct ctr_embedding *t, const uint32_t *row, const uint64_t *hash, int64_t n,
                          int32_t floats, float *to);
void ctr_embedding_scatter(struct ctr_embedding *t, const uint32_t *row, int64_t n, int32_t floats, const float *from);

/* Add to the use count stored after a row's floats, saturating at 2^32 - 1; returns the sum. */
static inline uint32_t ctr_embedding_count(float *at, int32_t uses)
{
    uint32_t count;
    memcpy(&count, at, sizeof count);
    count += (uint32_t)CTR_MIN((uint32_t)uses, UINT32_MAX - count);
    memcpy(at, &count, sizeof count);
    return count;
}

/* Rows in ascending order of keys; of changed.only those that changed. */
typedef int ctr_embedding_each(void *ctx, uint64_t key, const float *row, struct ctr_err *err);
int ctr_embedding_sorted(const struct ctr_embedding *t, ctr_embedding_each *each, void *ctx,
                         struct ctr_err *err) CTR_MUST;

#endif
