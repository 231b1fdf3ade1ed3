/* SPDX-License-Identifier: Apache-2.0
 *
 * heavy.h: the frequent ones among more values than can be counted one by one, by a sketch that is a sum over the rows:
 * its order does not matter, and sketches of parts add up to that of the whole. ("What's hot and what's not: tracking
 * most frequent items dynamically", Cormode and Muthukrishnan, TODS 2005, section 3.)
 *
 * A value's hash chooses one of CTR_HEAVY_CELLS cells, which counts, for each bit of the hash (and of the first bytes
 * of a text), the rows that have it set. Where one value has most rows of a cell, the bits of most rows are its own.
 * The rows of other values have each bit set half of the time, which gives their number: twice the rows that disagree,
 * on the average over the bits of the hash. Its standard error is at most an eighth of it, about rows / 8192. */
#ifndef CTR_HEAVY_H
#define CTR_HEAVY_H

#include "common/base/base.h"

enum {
    CTR_HEAVY_CELLS = 1024,
    CTR_HEAVY_CHUNKS = 4, /* of 8 bytes of a text */
    CTR_HEAVY_BYTES = 8 * CTR_HEAVY_CHUNKS,
};

struct ctr_heavy;
/* chunks: 0, or CTR_HEAVY_CHUNKS for texts. */
int ctr_heavy_new(struct ctr_heavy **h, int chunks, struct ctr_err *err) CTR_MUST;
void ctr_heavy_free(struct ctr_heavy *h);
/* Add `weight` (rows, or units of clicks) to a value; text: its bytes, if there are chunks. */
void ctr_heavy_add(struct ctr_heavy *h, uint64_t hash, const char *text, size_t n, int64_t weight);

/* Bring the counts of a value into the cache, some values before it is added. */
void ctr_heavy_prefetch(const struct ctr_heavy *h, uint64_t hash);

/* Estimates for a hash: its weight, at least 0, and that of the other values of its cell. */
struct ctr_heavy_estimate {
    int64_t weight, others;
};
struct ctr_heavy_estimate ctr_heavy_estimate(struct ctr_heavy *h, uint64_t hash);
/* The frequent value of a cell, with its first bytes (zeros follow); false: it has none. */
struct ctr_heavy_value {
    uint64_t hash;
    struct ctr_heavy_estimate is;
    char text[CTR_HEAVY_BYTES];
};
bool ctr_heavy_value(struct ctr_heavy *h, int cell, struct ctr_heavy_value *v);

/* A cell's counts, for files: 65 numbers, then 64 for each chunk. */
int ctr_heavy_counts(const struct ctr_heavy *h);
const int64_t *ctr_heavy_cell(struct ctr_heavy *h, int cell);
void ctr_heavy_cell_add(struct ctr_heavy *h, int cell, const int64_t *counts);

#endif
