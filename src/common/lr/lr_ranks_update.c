/* SPDX-License-Identifier: Apache-2.0
 *
 * lr over ranks: what owners learn from a minibatch of each rank. See lr_ranks.c.
 *
 * --inclusion. The worker cannot sum the gradients of a key that its owner may take up in the middle of the minibatch:
 * it sends them row by row, and the owner asks the filter for each, in the order of ranks, then of rows, until the key
 * is taken up. So the result is that of one process whose minibatch has the rows of all ranks in this order; only the
 * numbers of rows, by which poisson=P draws, are others, and bloom=N has filters per rank.
 *
 * --expire. The day of the minibatch is the latest of the rows of all ranks. Its keys occurred on that day; then, if it
 * is a new one, keys are dropped. */
#include "common/lr/lr_ranks.h"

#define AS(type, buf) CTR_LR_AS(type, buf)

/* A gradient of a key that has no state. */
struct occurrence {
    int64_t row;
    double g;
    int32_t at, unused; /* number of the slot; sent: of the key in the order of the requests to its owner */
};

/* Sum per key of the minibatch, in row order; and for the bias. */
static int sum_rows(struct ctr_lr_ranks *l, struct ctr_lr_sums *bias, struct ctr_err *err)
{
    const uint8_t *refused = l->refused.data;
    int rc = 0;
    ctr_buf_clear(&l->sums);
    ctr_buf_clear(&l->occurred);
    struct ctr_lr_sums *sum = ctr_lr_ranks_more(&l->sums, l->slots, sizeof *sum, &rc, err);
    *bias = (struct ctr_lr_sums){ 0, 0 };
    if (!rc && l->slots)
        memset(sum, 0, (size_t)l->slots * sizeof *sum);
    for (int64_t i = 0; i < l->rows && !rc; i++) {
        const double g = AS(double, l->weight)[i] * (AS(double, l->p)[i] - AS(double, l->label)[i]);
        for (int64_t e = AS(int64_t, l->start)[i]; e < AS(int64_t, l->start)[i + 1] && !rc; e++) {
            const double gx = g * AS(double, l->x)[e];
            const int32_t slot = AS(int32_t, l->slot)[e];
            if (l->decides && refused[slot]) {
                const struct occurrence o = { AS(int64_t, l->row)[i], gx, slot, 0 };
                rc = ctr_buf_append(&l->occurred, &o, sizeof o, err);
                continue;
            }
            sum[slot].g += gx;
            sum[slot].squares += gx * gx;
        }
        bias->g += g;
        bias->squares += g * g;
    }
    return rc;
}

/* To each owner, behind the sums, the gradients of its keys that have no state. */
static int add_occurred(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    struct place {
        int32_t owner, at;
    } * place;
    const size_t n = l->occurred.len / sizeof(struct occurrence);
    int rc = ctr_buf_room(&l->at, l->slots, sizeof *place, err);
    place = AS(struct place, l->at);
    for (int32_t o = 0; o < l->ranks && !rc; o++)
        for (int32_t i = 0; i < (int32_t)(l->place[o].len / sizeof(int32_t)); i++)
            place[AS(int32_t, l->place[o])[i]] = (struct place){ o, i };
    for (size_t i = 0; i < n && !rc; i++) {
        struct occurrence one = AS(struct occurrence, l->occurred)[i];
        const struct place to = place[one.at];
        one.at = to.at;
        rc = ctr_buf_append(&l->out[to.owner], &one, sizeof one, err);
    }
    return rc;
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
    if (!rc && l->decides)
        rc = add_occurred(l, err);
    if (!rc)
        rc = ctr_lr_ranks_swap(l, CTR_COMM_GRADIENTS, l->decides ? NULL : l->known, err);
    if (!rc)
        ctr_comm_recount(l->comm, CTR_COMM_GRADIENTS, CTR_COMM_SYNC, sizeof *bias);
    l->sent.ids += l->slots;
    l->sent.occurred += (int64_t)l->occurred.len;
    l->steps++;
    return rc;
}

/* ---- the owner ---- */

static void add(struct ctr_lr_sums *to, const struct ctr_lr_sums *from)
{
    to->g += from->g;
    to->squares += from->squares;
}

/* Occurrences of keys without a state in the rows of rank r. */
static int take_occurred(struct ctr_lr_ranks *l, int r, const void *p, size_t n, struct ctr_err *err)
{
    struct ctr_inclusion *in = l->own->inclusion;
    const struct occurrence *o = p;
    const int32_t *at = AS(int32_t, l->asked[r]);
    for (size_t i = 0; i < n; i++) {
        if (o[i].at < 0 || (size_t)o[i].at >= l->asked[r].len / sizeof *at || at[o[i].at] >= CTR_LR_NO_KEY)
            return ctr_lr_ranks_bad_message(r, err);
        struct ctr_lr_fresh *f = &AS(struct ctr_lr_fresh, l->fresh)[ctr_lr_fresh_code(at[o[i].at])];
        if (!f->taken)
            f->taken = ctr_inclusion_takes(in, o[i].row, ctr_inclusion_draw(in, l->own->seed[f->table], f->hash));
        if (f->taken)
            add(&f->sum, &(struct ctr_lr_sums){ o[i].g, o[i].g * o[i].g });
    }
    return 0;
}

static int take_sums_of(struct ctr_lr_ranks *l, int r, struct ctr_lr_sums *all, struct ctr_lr_sums *bias,
                        struct ctr_err *err)
{
    const struct ctr_lr_sums *from = AS(const struct ctr_lr_sums, l->in[r]);
    const int32_t *at = AS(int32_t, l->asked[r]);
    const int64_t n = (int64_t)(l->asked[r].len / sizeof *at);
    const size_t sums = (size_t)(1 + n) * sizeof *from, more = l->in[r].len - sums;
    if (l->in[r].len < sums || (l->decides ? more % sizeof(struct occurrence) : more))
        return ctr_lr_ranks_bad_message(r, err);
    add(bias, from);
    for (int64_t i = 0; i < n; i++)
        if (at[i] >= 0)
            add(&all[at[i]], &from[1 + i]);
    return more ? take_occurred(l, r, from + 1 + n, more / sizeof(struct occurrence), err) : 0;
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

static void learn_row(struct ctr_lr_ranks *l, const struct ctr_lr_sums *sum, uint8_t *row, int *rc, struct ctr_err *err)
{
    struct lr *m = l->own;
    learn_key(m, sum, row);
    if (m->expiry.days)
        ctr_expiry_stamp(&m->expiry, row, (int32_t)CTR_MAX(l->latest, (int64_t)m->expiry.today));
    ctr_lr_ranks_changed(l, row, rc, err);
}

static int take_sums(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    struct lr *m = l->own;
    struct ctr_lr_sums bias = { 0, 0 };
    int rc = 0;
    ctr_buf_clear(&l->all);
    struct ctr_lr_sums *all = ctr_lr_ranks_more(&l->all, l->wanted.n, sizeof *all, &rc, err);
    if (!rc && l->wanted.n)
        memset(all, 0, (size_t)l->wanted.n * sizeof *all);
    for (int r = 0; r < l->ranks && !rc; r++)
        rc = take_sums_of(l, r, all, &bias, err);
    for (int64_t i = 0; i < l->wanted.n && !rc; i++)
        learn_row(l, &all[i], ctr_states_row(&m->states, AS(uint32_t, l->number)[i]), &rc, err);
    const struct ctr_lr_fresh *f = AS(const struct ctr_lr_fresh, l->fresh);
    for (const struct ctr_lr_fresh *end = f + l->fresh.len / sizeof *f; f < end && !rc; f++) {
        uint8_t *row;
        if (f->taken && !(rc = ctr_keys_get(&m->table[f->table], &m->states, f->hash, &row, err)))
            learn_row(l, &f->sum, row, &rc, err);
    }
    if (!rc && !m->no_bias)
        learn_key(m, &bias, m->bias);
    return rc;
}

int ctr_lr_ranks_learn(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    struct ctr_expiry *e = &l->own->expiry;
    struct ctr_lr_sums bias;
    int rc = sum_rows(l, &bias, err);
    if (!rc)
        rc = send_sums(l, &bias, err);
    if (!rc)
        rc = take_sums(l, err);
    if (!rc && e->days && l->latest > e->today)
        rc = ctr_expiry_begin(e, l->own->table, l->own->tables, &l->own->states, (int32_t)l->latest, err);
    return rc;
}
