/* SPDX-License-Identifier: Apache-2.0
 *
 * din: Deep Interest Network (Zhou et al., KDD 2018, section 4.3). The history of a user, a sequence of items, is
 * pooled with weights from an attention unit that compares each item with the candidate (deep_attention.h):
 *
 *     s_e = unit([q, k_e, q - k_e, q * k_e])       q: the candidate's values, k_e: the item's, field by field
 *     a_e = s_e, or softmax(s_e / sqrt(size of k)) over the row's items
 *     u   = sum of a_e k_e                         0 without items
 *     logit = stack([u of each history, pooled values of the other inputs, numbers])
 *
 * A history is a sequence of the inputs of one group (ctr.history); a field with ctr.history_of is compared with that
 * input, others with 0. Each history has its own unit. */
#include <stdlib.h>

#include "common/deep/deep_attention.h"
#include "common/deep/deep_options.h"
#include "common/deep/din.h"

const char *const ctr_din_attentions[] = { "plain", "softmax", NULL };

static const struct ctr_param din_options[] = {
    CTR_DEEP_OPTIONS,          CTR_DEEP_POOLING_OPTION, CTR_DEEP_STACK_OPTIONS_LIKE("200,80", "dice"),
    CTR_DIN_ATTENTION_OPTIONS, CTR_DEEP_USER_OPTION,    { 0 },
};

struct din {
    struct ctr_attention in;
    struct ctr_stack stack;
};

static int declare_network(struct ctr_deep *d, struct ctr_err *err)
{
    struct din *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    const bool ask_ids = d->p.images.pool && !strcmp(d->p.images.pool, "multi-query");
    int rc = ctr_attention_declare(d, &m->in, &(struct ctr_attention_shape){ .ask_ids = ask_ids }, err);
    const struct ctr_stack_shape shape = ctr_stack_hidden(d, "", (int32_t)m->in.cols, 1);
    if (!rc)
        rc = ctr_stack_declare(d, &m->stack, &shape, err);
    if (!rc)
        rc = ctr_attention_user_first(d, &m->in, &m->stack, err);
    if (!rc)
        rc = ctr_attention_declare_running(d, &m->in, err);
    return rc ? rc : ctr_stack_declare_running(d, &m->stack, err);
}

/* Make a sequence of every input with history_of, together with its group. */
static int declare(struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = ctr_deep_pooling_of(d->p.deep.pooling);
    for (int i = 0; i < d->inputs && rc >= 0; i++)
        if (d->input[i].history_of)
            rc = ctr_deep_sequence(d, i, err);
    if (rc < 0)
        return err->code;
    if (!d->sequences) {
        return ctr_fail(err, CTR_EUSAGE,
                        "no feature says which one it is the past of: add 'feature past of item = …' to the plan, take "
                        "columns of ctr-history, or train mlp");
    }
    return declare_network(d, err);
}

static int make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct din *m = d->state;
    int rc = ctr_attention_make_room(d, &m->in, room, err);
    return rc ? rc : ctr_stack_room(d, &m->stack, room, err);
}

static int forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct din *m = d->state;
    struct ctr_mat x;
    int rc = ctr_attention_forward(d, &m->in, from, n, training, &x, err);
    return rc ? rc : ctr_stack_forward(d, &m->stack, x, from, training, ctr_mat_at(d->logit, from, n, 1), err);
}

static int backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct din *m = d->state;
    int rc = ctr_stack_backward(d, &m->stack, ctr_mat(m->in.x, d->rows, m->in.cols), ctr_mat(d->dlogit, d->rows, 1),
                                ctr_mat(m->in.dx, d->rows, m->in.learned), err);
    return rc ? rc : ctr_attention_backward(d, &m->in, err);
}

static const struct ctr_attention *attention(const struct ctr_deep *d)
{
    return &((const struct din *)d->state)->in;
}

static void free_network(struct ctr_deep *d)
{
    struct din *m = d->state;
    ctr_attention_free(&m->in);
    ctr_stack_free(&m->stack);
    free(m);
}

const struct ctr_deep_spec ctr_din_network = {
    .declare = declare_network,
    .make_room = make_room,
    .forward = forward,
    .backward = backward,
    .free = free_network,
    .attention = attention,
};

static const struct ctr_deep_spec din_deep = {
    .declare = declare,
    .make_room = make_room,
    .forward = forward,
    .backward = backward,
    .free = free_network,
    .attention = attention,
    .takes_sides = true,
};

const struct ctr_model ctr_model_din = {
    .name = "din",
    .summary = "histories pooled by attention to the candidate (DIN), by Adam",
    .options = din_options,
    .deep = &din_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
