/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of fully connected layers: a building block; a network may have any number of them. It declares its
 * parameters, stores its activations, and computes forward and backward with operations of compute.h.
 *
 *     z_l = W_l x_(l-1) + b_l            l = 0 … L-1; without b_l with batch normalization:
 *     n_l = gamma (z_l - mean) / sd + beta
 *     x_l = dropout(act(z_l))            of n_l with batch normalization
 *     y   = W_L x_(L-1) + b_L            if `out` is not 0; else y = x_(L-1)
 *
 * In declare: call ctr_stack_declare for each stack, then ctr_stack_declare_running for each (running statistics come
 * after all other parameters). In make_room: ctr_stack_room. In forward and backward: call those of the stacks, in
 * network order and in reverse order. mlp.c is the example.
 *
 * Rows of a stack are rows of the minibatch or entries of a sequence; for entries, call ctr_stack_keep in forward to
 * make room, and batch statistics are over the minibatch's entries. din.c is the example, also of a first layer whose
 * product is not x W': if `first_weight` is set, z_0 = the caller's ctr_stack_first_sum + x first_weight' + b_0.
 * Backward writes the gradient of first_weight to first_grad and of z_0 to ctr_stack_first_dz.
 */
#ifndef CTR_DEEP_STACK_H
#define CTR_DEEP_STACK_H

#include "common/deep/deep.h"

struct ctr_stack_shape {
    const char *prefix; /* prefix of parameter names, "" or for example "user."; also seeds its dropout */
    struct ctr_sizes hidden;
    int32_t in, out;        /* columns of x; of the last layer, which has no activation; 0: no last layer */
    const char *activation; /* prelu, relu, dice */
    bool batch_norm;
    double dropout;
};

struct ctr_stack_layer {
    int32_t in, out;
    int weight, bias, alpha, gamma, beta;       /* parameters; -1: none */
    int norm_mean, norm_var, act_mean, act_var; /* running ones; -1: none */
    struct ctr_mem *z, *n, *y;                  /* [room x out]; n with batch normalization */
    struct ctr_mem *norm_stats, *act_stats;     /* of the minibatch: mean, var */
};

struct ctr_stack {
    struct ctr_stack_shape shape;
    struct ctr_stack_layer layer[CTR_MAX_LAYERS];
    int layers, weight, bias; /* of the last layer; -1: none */
    enum ctr_act_kind act;
    bool separate_training_forward; /* training computes different activations from prediction */
    bool same_input;                /* set by the model: rows have the same x in training as when scored */
    int64_t summed, summed_step;    /* rows with first sums computed, with the parameters after so many steps */
    struct ctr_mem *down[2];        /* gradients in backward: [room x widest] */
    /* [units of the first layer x columns of x], or none: replaces the first layer's weight and its gradient */
    struct ctr_mat first_weight, first_grad;
    /* The order in which columns of x are added up in the first layer, the user's first; runs 0: as they lie. */
    struct ctr_stack_run {
        int64_t from, cols;
    } * run;
    int runs, user_runs;
    int distinct;                 /* prediction: number of the rows that are equal in the user's columns (deep.h) */
    struct ctr_mem *user_x, *sum; /* of these rows: x, and the sums over the user's columns */
};

/* Of the hidden layers that the options describe. */
struct ctr_stack_shape ctr_stack_hidden(const struct ctr_deep *d, const char *prefix, int32_t in, int32_t out);
int ctr_stack_declare(struct ctr_deep *d, struct ctr_stack *s, const struct ctr_stack_shape *shape,
                      struct ctr_err *err) CTR_MUST;
int ctr_stack_declare_running(struct ctr_deep *d, struct ctr_stack *s, struct ctr_err *err) CTR_MUST;
/* For declare: in the first layer add up the columns of the inputs of side user first, then the others, each in their
 * order. As an element of a product is one chain of fmaf, the sums over the user's columns are the same to the bit in
 * all rows of a user, so that prediction computes them once. at: by input, the first column of x with it; -1: not in x.
 */
int ctr_stack_user_first(struct ctr_deep *d, struct ctr_stack *s, const int64_t *at, struct ctr_err *err) CTR_MUST;
int ctr_stack_room(struct ctr_deep *d, struct ctr_stack *s, int64_t room, struct ctr_err *err) CTR_MUST;
/* The same, keeping the first `used` rows. */
int ctr_stack_keep(struct ctr_deep *d, struct ctr_stack *s, int64_t used, int64_t room, struct ctr_err *err) CTR_MUST;
void ctr_stack_free(struct ctr_stack *s);

/* x: rows [from, from + its rows) of the minibatch; y: the last layer's output, or none without a last layer:
 * ctr_stack_out then has the result. */
int ctr_stack_forward(struct ctr_deep *d, struct ctr_stack *s, struct ctr_mat x, int64_t from, bool training,
                      struct ctr_mat y, struct ctr_err *err) CTR_MUST;
/* In forward of n rows in training: did the scoring pass leave the first layer's sums, so that x is not needed? Even if
 * training computes different activations, both multiply x by the same weights. */
bool ctr_stack_has_sums(const struct ctr_deep *d, const struct ctr_stack *s, int64_t n, bool training);
/* Rows [from, from + n) of the last hidden layer's output. */
struct ctr_mat ctr_stack_out(const struct ctr_stack *s, int64_t from, int64_t n);
/* The first layer's weight parameter; and rows [from, from + n) of its sum, to be set before x is multiplied; y is the
 * output of the whole stack. */
int ctr_stack_first(const struct ctr_stack *s);
struct ctr_mat ctr_stack_first_sum(const struct ctr_stack *s, int64_t from, int64_t n, struct ctr_mat y);
/* After backward of a stack with a last layer: the gradient of the first layer's sum for n rows; dy is that of the
 * output.
 */
struct ctr_mat ctr_stack_first_dz(const struct ctr_stack *s, int64_t n, struct ctr_mat dy);
/* From dy, the gradient of the output of all rows, compute those of the parameters, and that of the first columns of x
 * into dx (none: not wanted). Without a last layer dy is overwritten. */
int ctr_stack_backward(struct ctr_deep *d, struct ctr_stack *s, struct ctr_mat x, struct ctr_mat dy, struct ctr_mat dx,
                       struct ctr_err *err) CTR_MUST;

#endif
