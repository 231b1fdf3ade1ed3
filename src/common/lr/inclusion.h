/* SPDX-License-Identifier: Apache-2.0
 *
 * inclusion: which new keys a learner takes up ("Ad Click Prediction: a View from the Trenches", KDD 2013,
 * section 4.1). Most keys of an ad log are rare; one that is refused has the weight 0 and is not stored.
 *
 *     poisson=P  a key is taken up with probability P each time it comes, until it is.
 *     bloom=N    a key is refused the first N times. A rolling set of counting Bloom filters counts: of four
 *                generations one counts, and all four are asked; when it has counted two occurrences for each 64
 *                bytes, the oldest is emptied and counts next. Errors are one-sided: a key may be taken up too
 *                early (some two of a hundred), or be forgotten when it comes again only after three generations.
 *
 * Occurrences are rows, unweighted. A decision depends on the seed, the key, its table and the rows before it (bloom)
 * or the number of the row (poisson) alone.
 */
#ifndef CTR_INCLUSION_H
#define CTR_INCLUSION_H

#include "common/model/model.h"

struct ctr_inclusion;

/* The option --inclusion: poisson and bloom of the ctr_params from "all", "poisson=P" or "bloom=N". */
int ctr_inclusion_parse(void *params, const char *text, struct ctr_err *err) CTR_MUST;
/* p: poisson, bloom, bloom_bytes, seed. NULL when the rule takes every key. */
int ctr_inclusion_new(struct ctr_inclusion **n, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_inclusion_free(struct ctr_inclusion *n);

void ctr_inclusion_end_pass(struct ctr_inclusion *n);

/* What decides on a key, whose table has that seed; and what a decision needs, prefetched. */
uint64_t ctr_inclusion_draw(const struct ctr_inclusion *n, uint64_t table_seed, uint64_t hash);
void ctr_inclusion_prefetch(const struct ctr_inclusion *n, uint64_t draw);

/* A key that is not held comes in row `row` of the pass, rows in their order: is it taken up now? */
bool ctr_inclusion_takes(struct ctr_inclusion *n, int64_t row, uint64_t draw);

int64_t ctr_inclusion_bytes(const struct ctr_inclusion *n);
int64_t ctr_inclusion_refused(const struct ctr_inclusion *n); /* occurrences */
int64_t ctr_inclusion_seen(const struct ctr_inclusion *n);    /* different keys that asked, to two percent or so */

/* Lines for the summary of a learner that holds `keys`. */
int ctr_inclusion_summary(const struct ctr_inclusion *n, int64_t keys, struct ctr_buf *text,
                          struct ctr_err *err) CTR_MUST;

/* Its whole state, as words, for checkpoints. */
int ctr_inclusion_save(const struct ctr_inclusion *n, struct ctr_buf *words, struct ctr_err *err) CTR_MUST;
int ctr_inclusion_load(struct ctr_inclusion *n, const uint64_t *word, size_t words, struct ctr_err *err) CTR_MUST;

#endif
