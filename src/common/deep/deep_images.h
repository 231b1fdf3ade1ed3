/* SPDX-License-Identifier: Apache-2.0
 *
 * deep_images: the sources that vectors of images come from (table/source.h), which deep_images.c stacks:
 *
 *     tower(vectors)            one process; over ranks, --images-at worker
 *     ranks(tower(vectors))     --images-at ams: owners embed an image, workers get what the tower gives
 *     tower(ranks(vectors))     --images-at server: owners send the vector of the file, workers embed it
 *
 * All have one table, whose keys are numbers of rows of a ctr_image_table, which is the same on all ranks.
 *
 * Source: Ge et al., "Image Matters" (CIKM 2018), section 4.2 (AMS) and 4.3 (PS-worker, PS-server). */
#ifndef CTR_DEEP_IMAGES_H
#define CTR_DEEP_IMAGES_H

#include "common/deep/deep_stack.h"
#include "common/deep/image_table.h"

/* n vectors as the tower takes them, in place: --images-scale. */
int ctr_deep_images_scale(struct ctr_deep *d, float *vectors, int64_t n, struct ctr_err *err) CTR_MUST;
/* Vectors of the table as the tower takes them, which nothing changes; table is borrowed. Of no image: zeros. */
int ctr_deep_vectors_source(struct ctr_source **s, struct ctr_deep *d, const struct ctr_image_table *table,
                            struct ctr_err *err) CTR_MUST;

/* What a stack of d makes of the vectors of `below`, which is taken over, also where this fails. push is backward: the
 * gradients of the stack's parameters are in the arena of d, and are 0 where there were no keys; the optimizer of the
 * step is not used. values_of: the table below has values of the tower already, which are passed on; only its row of
 * zeros, which stands for a null, goes through the stack.
 *
 * A network that learns keeps what backward needs. One for prediction keeps values alone, so that a minibatch may go on
 * for as long as these have room. */
int ctr_deep_tower_source(struct ctr_source **s, struct ctr_deep *d, struct ctr_stack *tower, struct ctr_source *below,
                          const struct ctr_image_table *values_of, struct ctr_err *err) CTR_MUST;
int64_t ctr_deep_tower_forwards(const struct ctr_source *tower); /* vectors that went through the stack */

#endif
