/* SPDX-License-Identifier: Apache-2.0
 *
 * retrieval: combines vectors of users and ads written by ctr-predict --tower: scores of pairs, and the best ads of
 * each user by brute force. vectors.h says what they are. */
#ifndef CTR_RETRIEVAL_H
#define CTR_RETRIEVAL_H

#include "common/model/vectors.h"

/* ---- scores of pairs: dot.c ---- */

struct ctr_dot_opts {
    const char *keys; /* "USER[=COLUMN],AD[=COLUMN]": columns of the pairs, and of users and ads if named differently */
    const char *users, *ads; /* names, for messages */
    int64_t memory_bytes;    /* per side; 0: a quarter of the machine's; larger data goes to temporaries */
    int threads;
};
/* Replace *pairs by its rows with `score`, as from ctr-predict. It takes over all three sources, even if it fails.
 * Errors: a repeated key among users or ads, and a pair whose user or ad has no vector. */
int ctr_dot_source(struct ctr_batch_source *pairs, struct ctr_batch_source *users, struct ctr_batch_source *ads,
                   const struct ctr_dot_opts *o, struct ctr_err *err) CTR_MUST;

/* ---- the best ads of a user: top.c ---- */

struct ctr_top_ads_opts {
    int64_t k;
    const char *users, *ads; /* names, for messages */
    int threads;
    const char *device; /* as in compute.h; a GPU sums in its own order, so bits may differ from a CPU's */
    int64_t device_memory;
    int64_t memory_bytes; /* 0: no limit; it stores the ads: their vectors and other columns */
};
struct ctr_top_ads;
/* Reads `ads` to its end and takes it over, also where it fails. `users`: schema of the rows that will come. Two rows
 * of ads with equal columns, but for the vector, are an error. */
int ctr_top_ads_new(struct ctr_top_ads **t, const struct ctr_schema *users, struct ctr_batch_source *ads,
                    const struct ctr_top_ads_opts *o, struct ctr_err *err) CTR_MUST;
void ctr_top_ads_free(struct ctr_top_ads *t);
/* The user's columns without the vector; rank (int32, from 1); the ad's columns without the vector; score. */
const struct ctr_schema *ctr_top_ads_schema(const struct ctr_top_ads *t);
/* Give a batch of users; then ctr_top_ads_next returns the min(k, ads) best ads of each, in order: 1 until all are
 * returned. Among equal products the ad that is first in the stream ranks higher. *b is borrowed until the next call.
 */
int ctr_top_ads_batch(struct ctr_top_ads *t, const struct ctr_batch *users, struct ctr_err *err) CTR_MUST;
int ctr_top_ads_next(struct ctr_top_ads *t, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
int64_t ctr_top_ads_count(const struct ctr_top_ads *t); /* ads */

#endif
