/* SPDX-License-Identifier: Apache-2.0
 *
 * vectors: of users and ads, as ctr-predict --tower writes them, their products, and the best ads of a user.
 *
 *     score = sigmoid(<user, ad> + bias)      s = fmaf(user[c], ad[c], s) for c = 0, 1, …, then s + bias
 *
 * The whole model computes the same after its towers, so scores have equal bits. A stream of vectors has one
 * fixed_size_list<float32> column with ctr.tower (user or ad), ctr.tower_model and ctr.tower_bias; vectors of two
 * models, or of the same side twice, are refused. */
#ifndef CTR_VECTORS_H
#define CTR_VECTORS_H

#include "common/stream/stream.h"

/* The vector column of a schema, with its metadata. */
struct ctr_vectors {
    int column;
    int32_t width;
    char model[32]; /* from the column's metadata */
    float bias;
};
/* `side`: user or ad. `name`: of the stream, for messages. */
int ctr_vectors_find(struct ctr_vectors *v, const struct ctr_schema *s, const char *side, const char *name,
                     struct ctr_err *err) CTR_MUST;
/* Are both from one model? */
int ctr_vectors_fit(const struct ctr_vectors *user, const struct ctr_vectors *ad, struct ctr_err *err) CTR_MUST;
/* The numbers of row i; NULL: null, or not all of them are finite. */
const float *ctr_vectors_values(const struct ctr_vectors *v, const struct ctr_batch *b, int64_t i);
/* Products of one user and n ads, whose vectors lie one behind the other: the bits of gemm. */
void ctr_vectors_dot(const struct ctr_vectors *v, const float *user, const float *ads, int64_t n, float *product);

/* The k best: a heap with the worst on top, `n` of them so far. A later ad never replaces an equal one, so the result
 * does not depend on the blocks in which products come. */
struct ctr_best {
    float logit;
    int32_t ad;
};
void ctr_best_scan(struct ctr_best *heap, int64_t *n, int64_t k, const float *product, int64_t ads, int64_t first);
void ctr_best_order(struct ctr_best *heap, int64_t n); /* the best first; it is no heap any more */

#endif
