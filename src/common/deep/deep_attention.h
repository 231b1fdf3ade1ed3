/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention units over sequences: a building block of networks (deep.h), like deep_stack.h. One or two units pool each
 * sequence of the minibatch; the results and the columns of d->x are the input of the layers above:
 *
 *     s_e = unit([q, k_e, q - k_e, q * k_e])       q: query of the row, as wide as an item's value k_e
 *     a_e = s_e, or softmax(s_e / sqrt(size of k)) over the row's items
 *     u   = sum of a_e k_e                         0 without items
 *     x   = [u of each unit | columns of d->x]
 *
 * The first unit of a sequence compares items with the candidate: q is the values of the inputs named by its fields'
 * history_of, field by field, 0 for a field without one (Zhou et al., "Deep Interest Network", KDD 2018, section 4.3).
 * The second unit, for sequences of images if `ask_ids` is set, queries with IDs of the ad (Ge et al., "Image Matters",
 * CIKM 2018, section 5.2, "multi-query attentive pooling"): q = Q [values of the ad's key inputs], Q learned.
 *
 * In declare: make sequences (ctr_deep_sequence), then call ctr_attention_declare; then declare the parameters of the
 * layers above, which read a->cols columns; then call ctr_attention_declare_running. In make_room call
 * ctr_attention_room. Forward fills rows of x; backward turns dx, the gradient of x's first a->learned columns, into
 * d->dx and the gradients of the sequences. */
#ifndef CTR_DEEP_ATTENTION_H
#define CTR_DEEP_ATTENTION_H

#include "common/deep/deep_stack.h"

struct ctr_attention_unit;
/* Adjacent columns of d->x that are part of x. */
struct ctr_attention_run {
    int64_t from, cols, to;
};
struct ctr_attention {
    struct ctr_attention_unit *unit;
    int units;
    struct ctr_attention_run *run;
    int runs;
    int64_t cols, learned;
    struct ctr_mem *x, *dx; /* [room x cols], [room x learned] */
};
struct ctr_attention_shape {
    bool ask_ids; /* a second unit for each image sequence */
    bool no_ids;  /* x lacks the columns of key inputs other than images */
};

int ctr_attention_declare(struct ctr_deep *d, struct ctr_attention *a, const struct ctr_attention_shape *shape,
                          struct ctr_err *err) CTR_MUST;
int ctr_attention_declare_running(struct ctr_deep *d, struct ctr_attention *a, struct ctr_err *err) CTR_MUST;
/* ctr_stack_user_first of the stack that reads x. */
int ctr_attention_user_first(struct ctr_deep *d, const struct ctr_attention *a, struct ctr_stack *s,
                             struct ctr_err *err) CTR_MUST;
int ctr_attention_make_room(struct ctr_deep *d, struct ctr_attention *a, int64_t room, struct ctr_err *err) CTR_MUST;
/* *x: rows [from, from + n) of x. */
int ctr_attention_forward(struct ctr_deep *d, struct ctr_attention *a, int64_t from, int64_t n, bool training,
                          struct ctr_mat *x, struct ctr_err *err) CTR_MUST;
int ctr_attention_backward(struct ctr_deep *d, struct ctr_attention *a, struct ctr_err *err) CTR_MUST;
/* After forward of all rows: what unit i gave the items of its sequence. False: there is no unit i. */
struct ctr_attention_weights {
    int sequence;
    bool ids;              /* its second unit */
    struct ctr_vec weight; /* f32 [entries]: a_e */
};
bool ctr_attention_weights(const struct ctr_deep *d, const struct ctr_attention *a, int i,
                           struct ctr_attention_weights *w);
void ctr_attention_free(struct ctr_attention *a);

#endif
