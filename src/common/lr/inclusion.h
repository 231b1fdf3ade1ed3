/* SPDX-License-Identifier: Apache-2.0
 *
 * inclusion: decides which new keys a learner stores ("Ad Click Prediction: a View from the Trenches", KDD 2013,
 * section 4.1). Most keys of an ad log are rare; a refused key has weight 0 and takes no memory.
 *
 *     poisson=P  each occurrence of a new key includes it with probability P.
 *     bloom=N    a key's first N occurrences are refused. They are counted in a rolling set of counting Bloom
 *                filters: one of four generations counts, and all four are queried. When it has counted two
 *                occurrences per 64 bytes, the oldest generation is cleared and counts next. A key may be included
 *                too early (about 2%), or forgotten if it returns only after three generations.
 *
 * Occurrences are rows, unweighted. A decision depends only on the seed, the key, its table and the rows before it
 * (bloom) or the number of the row (poisson).
 */
#ifndef CTR_INCLUSION_H
#define CTR_INCLUSION_H

#include "common/model/model.h"

struct ctr_inclusion;

/* The option --inclusion: sets poisson and bloom of the ctr_params from "all", "poisson=P" or "bloom=N". */
int ctr_inclusion_parse(void *params, const char *text, struct ctr_err *err) CTR_MUST;
/* p: poisson, bloom, bloom_bytes, seed. NULL if every key is included. */
int ctr_inclusion_new(struct ctr_inclusion **n, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_inclusion_free(struct ctr_inclusion *n);

void ctr_inclusion_end_pass(struct ctr_inclusion *n);

/* The random number that decides about a key of the table with this seed; and a prefetch for the decision. */
uint64_t ctr_inclusion_draw(const struct ctr_inclusion *n, uint64_t table_seed, uint64_t hash);
void ctr_inclusion_prefetch(const struct ctr_inclusion *n, uint64_t draw);

/* An unstored key occurs in row `row` of the pass (rows in order): include it now? */
bool ctr_inclusion_takes(struct ctr_inclusion *n, int64_t row, uint64_t draw);

int64_t ctr_inclusion_bytes(const struct ctr_inclusion *n);
int64_t ctr_inclusion_refused(const struct ctr_inclusion *n); /* occurrences */
int64_t ctr_inclusion_seen(const struct ctr_inclusion *n);    /* distinct keys asked about, to within about 2% */

/* Summary lines for a learner that holds `keys`; n NULL: none. */
void ctr_inclusion_summary(const struct ctr_inclusion *n, int64_t keys, struct ctr_say *text);

/* Its whole state as words, for checkpoints. */
int ctr_inclusion_save(const struct ctr_inclusion *n, struct ctr_buf *words, struct ctr_err *err) CTR_MUST;
int ctr_inclusion_load(struct ctr_inclusion *n, const uint64_t *word, size_t words, struct ctr_err *err) CTR_MUST;

#endif
