/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack of fully connected layers: a part of networks, of which a network has as many as it likes. It declares its
 * parameters, keeps its activations, and goes forward and backward in operations of compute.h.
 *
 *     z_l = W_l x_(l-1) + b_l            l = 0 … L-1; without b_l where there is batch normalization:
 *     n_l = gamma (z_l - mean) / sd + beta
 *     x_l = dropout(act(z_l))            of n_l with batch normalization
 *     y   = W_L x_(L-1) + b_L            where `out` is not 0; else y = x_(L-1)
 *
 * In declare: ctr_stack_declare of each stack, then ctr_stack_declare_running of each (running statistics come after
 * all other parameters). In make_room: ctr_stack_room. In forward and backward: those of the stacks, in the order of
 * the network and in the opposite one. deep.h tells of struct ctr_deep, mlp.c is the example.
 *
 * Rows of a stack are rows of the minibatch, or the entries of a sequence: then ctr_stack_keep in forward makes room
 * for them, and statistics of the minibatch are those over its entries. din.c is the example of that, and of a first
 * layer whose product is not x W': where `first_weight` is set, z_0 = what the caller put into ctr_stack_first_sum + x
 * first_weight' + b_0. Backward leaves the gradient of first_weight in first_grad, and of z_0 in ctr_stack_first_dz.
 */
#ifndef CTR_DEEP_STACK_H
#define CTR_DEEP_STACK_H

#include "common/deep/deep.h"

struct ctr_stack_shape {
    const char *prefix; /* of names of parameters, "" or such as "user."; also tells stacks' dropouts apart */
    struct ctr_sizes hidden;
    int32_t in, out;        /* columns of x; of the last layer, which has no activation; 0: there is none */
    const char *activation; /* prelu, relu, dice */
    bool batch_norm;
    double dropout;
};

struct ctr_stack_layer {
    int32_t in, out;
    int weight, bias, alpha, gamma, beta;       /* parameters; -1: none */
    int norm_mean, norm_var, act_mean, act_var; /* running ones; -1: none */
    struct ctr_mem *z, *n, *y;                  /* [room x out]; n where there is batch normalization */
    struct ctr_mem *norm_stats, *act_stats;     /* of the minibatch: mean, var */
};

struct ctr_stack {
    struct ctr_stack_shape shape;
    struct ctr_stack_layer layer[CTR_MAX_LAYERS];
    int layers, weight, bias; /* of the last one; -1: none */
    enum ctr_act_kind act;
    bool separate_training_forward; /* training computes other activations than prediction */
    bool same_input; /* set by the model: rows that are learned from have the x that they were scored with */
    int64_t summed, summed_step; /* rows whose first sums stand, as of parameters after so many steps */
    struct ctr_mem *down[2];     /* gradients on their way down: [room x widest] */
    /* [units of the first layer x columns of x], or none: instead of the first layer's weight and its gradient */
    struct ctr_mat first_weight, first_grad;
};

int ctr_stack_declare(struct ctr_deep *d, struct ctr_stack *s, const struct ctr_stack_shape *shape,
                      struct ctr_err *err) CTR_MUST;
int ctr_stack_declare_running(struct ctr_deep *d, struct ctr_stack *s, struct ctr_err *err) CTR_MUST;
int ctr_stack_room(struct ctr_deep *d, struct ctr_stack *s, int64_t room, struct ctr_err *err) CTR_MUST;
/* The same, where the first `used` rows stay as they are. */
int ctr_stack_keep(struct ctr_deep *d, struct ctr_stack *s, int64_t used, int64_t room, struct ctr_err *err) CTR_MUST;
void ctr_stack_free(struct ctr_stack *s);

/* x: rows [from, from + its rows) of the minibatch; y: the last layer's output, or none where there is no last layer:
 * then ctr_stack_out has it. */
int ctr_stack_forward(struct ctr_deep *d, struct ctr_stack *s, struct ctr_mat x, int64_t from, bool training,
                      struct ctr_mat y, struct ctr_err *err) CTR_MUST;
/* Forward of n rows that are learned from: did the one that scored them leave the first layer's sums, so that this one
 * reads no x? Where training computes other activations than prediction both multiply x by the same weights. */
bool ctr_stack_has_sums(const struct ctr_deep *d, const struct ctr_stack *s, int64_t n, bool training);
/* Rows [from, from + n) of what the hidden layers gave. */
struct ctr_mat ctr_stack_out(const struct ctr_stack *s, int64_t from, int64_t n);
/* The first layer's weight: a parameter; and rows [from, from + n) of its sum, before x is multiplied, where y is the
 * output of the whole stack. */
int ctr_stack_first(const struct ctr_stack *s);
struct ctr_mat ctr_stack_first_sum(const struct ctr_stack *s, int64_t from, int64_t n, struct ctr_mat y);
/* After backward, of a stack with a last layer: the gradient of the first layer's sum of n rows, dy that of the output.
 */
struct ctr_mat ctr_stack_first_dz(const struct ctr_stack *s, int64_t n, struct ctr_mat dy);
/* From dy, the gradient of the output of all rows, those of the parameters, and that of the first columns of x into dx
 * (none: not wanted). Without a last layer dy is written over. */
int ctr_stack_backward(struct ctr_deep *d, struct ctr_stack *s, struct ctr_mat x, struct ctr_mat dy, struct ctr_mat dx,
                       struct ctr_err *err) CTR_MUST;

#endif
