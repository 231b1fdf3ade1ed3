/* SPDX-License-Identifier: Apache-2.0
 *
 * A deep learner over ranks (Ge et al., "Image Matters", section 4.2, Algorithm 1): every rank learns its own
 * minibatches with one shared model. A source distributes keys to owners (source_ranks.h); this file has the steps that
 * ranks take together, and the dense parameters, of which every rank has a copy and whose gradients are summed.
 *
 * A step is one minibatch per rank and learns them as one: the gradient is that of the mean loss of all their rows. A
 * minibatch may arrive in any number of pieces per rank: each piece is a round, in which all ranks pull, and rounds
 * continue until the minibatch of every rank is complete. A rank without rows takes part with an empty round. */
#include <stdlib.h>

#include "common/compute/comm.h"
#include "common/deep/deep.h"

int ctr_deep_ranks_source(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_err *err)
{
    static const struct ctr_source_ranks_kinds kinds = { CTR_COMM_IDS, CTR_COMM_VECTORS, CTR_COMM_GRADIENTS };
    if (!d->p.comm || !d->learns)
        return 0;
    int rc = ctr_source_ranks(&d->vectors.source, d->p.comm, d->vectors.source, all->floats, &kinds, err);
    if (rc)
        d->vectors.source = d->vectors.store = NULL;
    return rc;
}

int ctr_deep_ranks_round(struct ctr_deep_learner *l, bool whole, struct ctr_err *err)
{
    int64_t sum[3] = { whole, l->net.rows, l->net.rows > l->ranks.announced };
    int rc = ctr_comm_sum_i64(l->net.p.comm, sum, 3, err);
    l->ranks.whole = sum[0] == ctr_comm_size(l->net.p.comm);
    l->ranks.rows = sum[1];
    l->net.batch.known = l->net.batch.begun && !sum[2];
    return rc;
}

int ctr_deep_ranks_rest(struct ctr_deep_learner *l, struct ctr_err *err)
{
    int rc = 0;
    while (!rc && !l->ranks.whole) {
        rc = ctr_deep_ranks_round(l, true, err);
        if (!rc)
            rc = ctr_deep_pull_none(&l->net, true, l->pool, err);
    }
    return rc;
}

int ctr_deep_ranks_ahead(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const struct ctr_rows *r = l->ranks.r;
    if (!d->p.prefetch || !d->vectors.source)
        return 0;
    int64_t n = r ? CTR_MIN(r->rows - l->ranks.from, d->p.minibatch) : 0, from = l->ranks.from;
    if (r && !n && l->ahead.peek && (r = l->ahead.peek(l->ahead.ctx, 1, false))) {
        n = CTR_MIN(r->rows, d->p.minibatch);
        from = 0;
    }
    l->ranks.next = r ? n : 0;
    return ctr_deep_announce(d, r, from, l->ranks.next, l->pool, err);
}

/* Bytes of the image tower are counted separately. */
static enum ctr_comm_kind kind_of(const struct ctr_deep_param *p)
{
    return strncmp(p->name, "image.", 6) ? CTR_COMM_SYNC : CTR_COMM_SYNC_TOWER;
}

/* A run of adjacent parameters of one kind: the floats [*from, returned) of the arena. */
static int64_t run_of(const struct ctr_deep *d, int *i, enum ctr_comm_kind *kind)
{
    *kind = kind_of(&d->param[*i]);
    while (*i < d->params && !d->param[*i].state && kind_of(&d->param[*i]) == *kind)
        ++*i;
    return *i < d->params && !d->param[*i].state ? d->param[*i].at : d->learned;
}

/* host: the gradients, in host memory; NULL: devices are connected. */
static int sum_gradients(struct ctr_deep_learner *l, float *host, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    int rc = 0;
    int64_t from = 0;
    for (int i = 0; i < d->params && !d->param[i].state && !rc;) {
        enum ctr_comm_kind kind;
        const int64_t end = run_of(d, &i, &kind);
        rc = host ? ctr_comm_sum(d->p.comm, kind, host + from, end - from, err)
                  : ctr_comm_sum_mem(d->p.comm, kind, d->dev, d->g, from, end - from, &l->ranks.room, err);
        from = end;
    }
    return rc;
}

/* Running statistics of params [from, end): the mean over ranks, weighted by rows. */
static int average_run(const struct ctr_deep_learner *l, int from, int end, struct ctr_err *err)
{
    const struct ctr_deep *d = &l->net;
    const double share = (double)d->rows / (double)l->ranks.rows;
    const int64_t at = d->param[from].at, n = (end < d->params ? d->param[end].at : d->floats) - at;
    const size_t bytes = (size_t)n * sizeof(float);
    float *state = malloc(CTR_MAX(bytes, 1));
    int rc = state ? ctr_mem_read(d->w, (size_t)at * sizeof *state, state, bytes, err) : ctr_fail_nomem(err, bytes);
    for (int64_t i = 0; i < n && !rc; i++)
        state[i] = (float)(share * (double)state[i]);
    if (!rc)
        rc = ctr_comm_sum(d->p.comm, CTR_COMM_SYNC, state, n, err);
    if (!rc)
        rc = ctr_mem_write(d->w, (size_t)at * sizeof *state, state, bytes, err);
    free(state);
    return rc;
}

/* The scale of images is the same on all ranks, and stays. */
static bool is_statistics(const struct ctr_deep_param *p)
{
    return p->state && kind_of(p) == CTR_COMM_SYNC;
}

static int average_state(const struct ctr_deep_learner *l, struct ctr_err *err)
{
    const struct ctr_deep *d = &l->net;
    int rc = 0;
    for (int i = 0, end; i < d->params && !rc; i = end) {
        for (end = i + 1; end < d->params && is_statistics(&d->param[i]) && is_statistics(&d->param[end]);)
            end++;
        if (is_statistics(&d->param[i]))
            rc = average_run(l, i, end, err);
    }
    return rc;
}

/* The gradients of an empty minibatch. Those of the tower are of the images that this rank owns, whichever rank
 * has the rows. */
static int clear_gradients(const struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->params && !d->param[i].state && !rc; i++)
        if (kind_of(&d->param[i]) == CTR_COMM_SYNC) {
            const int64_t n = d->param[i].rows * d->param[i].cols;
            rc = ctr_dev_fill(d->dev, &(struct ctr_dev_fill){ .x = ctr_mat_at(d->g, d->param[i].at, 1, n) }, err);
        }
    return rc;
}

static int sum_on_host(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const size_t learned = (size_t)d->learned * sizeof(float);
    int rc = 0;
    ctr_buf_clear(&l->ranks.host);
    float *host = ctr_buf_extend(&l->ranks.host, d->learned, sizeof *host, &rc, err);
    if (!rc)
        rc = ctr_mem_read(d->g, 0, host, learned, err);
    if (!rc)
        rc = sum_gradients(l, host, err);
    return rc ? rc : ctr_mem_write(d->g, 0, host, learned, err);
}

int ctr_deep_ranks_gradients(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    if (ctr_comm_size(d->p.comm) == 1)
        return 0;
    int rc = d->rows ? 0 : clear_gradients(d, err);
    if (!rc)
        rc = ctr_dev_linked(d->dev) ? sum_gradients(l, NULL, err) : sum_on_host(l, err);
    return rc ? rc : average_state(l, err);
}
