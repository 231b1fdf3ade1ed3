/* SPDX-License-Identifier: Apache-2.0
 *
 * lr over ranks: what owners learn from a minibatch of each rank. See lr_ranks.c. */
#include "common/lr/lr_ranks.h"

#define AS(type, buf) CTR_LR_AS(type, buf)

/* Sum per key of the minibatch, in row order; and for the bias. */
static int sum_rows(struct ctr_lr_ranks *l, struct ctr_lr_sums *bias, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&l->sums);
    struct ctr_lr_sums *sum = ctr_lr_ranks_more(&l->sums, l->slots, sizeof *sum, &rc, err);
    *bias = (struct ctr_lr_sums){ 0, 0 };
    if (rc)
        return rc;
    if (l->slots)
        memset(sum, 0, (size_t)l->slots * sizeof *sum);
    for (int64_t i = 0; i < l->rows; i++) {
        const double g = AS(double, l->weight)[i] * (AS(double, l->p)[i] - AS(double, l->label)[i]);
        for (int64_t e = AS(int64_t, l->start)[i]; e < AS(int64_t, l->start)[i + 1]; e++) {
            const double gx = g * AS(double, l->x)[e];
            struct ctr_lr_sums *of = &sum[AS(int32_t, l->slot)[e]];
            of->g += gx;
            of->squares += gx * gx;
        }
        bias->g += g;
        bias->squares += g * g;
    }
    return 0;
}

/* Send each owner the sums of the bias, then those of its keys. */
static int send_sums(struct ctr_lr_ranks *l, const struct ctr_lr_sums *bias, struct ctr_err *err)
{
    int rc = 0;
    for (int o = 0; o < l->ranks && !rc; o++) {
        const int32_t *slot = AS(int32_t, l->place[o]);
        const int64_t n = (int64_t)(l->place[o].len / sizeof *slot);
        ctr_buf_clear(&l->out[o]);
        struct ctr_lr_sums *to = ctr_lr_ranks_more(&l->out[o], 1 + n, sizeof *to, &rc, err);
        if (!rc)
            *to++ = *bias;
        for (int64_t i = 0; i < n && !rc; i++)
            to[i] = AS(struct ctr_lr_sums, l->sums)[slot[i]];
    }
    for (int r = 0; r < l->ranks; r++)
        l->known[r] = (1 + (int64_t)(l->asked[r].len / sizeof(int32_t))) * (int64_t)sizeof(struct ctr_lr_sums);
    return rc ? rc : ctr_lr_ranks_swap(l, CTR_COMM_GRADIENTS, l->known, err);
}

static void learn_key(struct lr *m, const struct ctr_lr_sums *sum, uint8_t *row)
{
    const struct ctr_learning *l = &m->learning;
    struct ctr_state s;
    ctr_state_read(l, &m->more.event, row, &s);
    const double w = ctr_state_weight(l, &m->more.event, &s), n = s.n + sum->squares;
    const double sigma = (ctr_learning_root(l, n) - ctr_learning_root(l, s.n)) * l->inv_alpha;
    s.value += sum->g - sigma * w;
    s.n = n;
    ctr_state_write(l, &m->more.event, &s, row);
}

static void add(struct ctr_lr_sums *to, const struct ctr_lr_sums *from)
{
    to->g += from->g;
    to->squares += from->squares;
}

static int take_sums(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    struct lr *m = l->own;
    struct ctr_lr_sums bias = { 0, 0 };
    int rc = 0;
    ctr_buf_clear(&l->all);
    struct ctr_lr_sums *all = ctr_lr_ranks_more(&l->all, l->wanted.n, sizeof *all, &rc, err);
    if (rc)
        return rc;
    if (l->wanted.n)
        memset(all, 0, (size_t)l->wanted.n * sizeof *all);
    for (int r = 0; r < l->ranks; r++) {
        const struct ctr_lr_sums *from = AS(const struct ctr_lr_sums, l->in[r]);
        const int32_t *at = AS(int32_t, l->asked[r]);
        const int64_t n = (int64_t)(l->asked[r].len / sizeof *at);
        if (l->in[r].len != (size_t)(1 + n) * sizeof *from)
            return ctr_lr_ranks_bad_message(r, err);
        add(&bias, from);
        for (int64_t i = 0; i < n; i++)
            add(&all[at[i]], &from[1 + i]);
    }
    for (int64_t i = 0; i < l->wanted.n; i++)
        learn_key(m, &all[i], ctr_states_row(&m->states, AS(uint32_t, l->number)[i]));
    if (!m->no_bias)
        learn_key(m, &bias, m->bias);
    return 0;
}

int ctr_lr_ranks_learn(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    struct ctr_lr_sums bias;
    int rc = sum_rows(l, &bias, err);
    if (!rc)
        rc = send_sums(l, &bias, err);
    return rc ? rc : take_sums(l, err);
}
