/* SPDX-License-Identifier: Apache-2.0
 *
 * The learner of deep models: collects minibatches from rows, scores rows before each update, and applies one step of
 * Adam to the parameters and to the table rows of the minibatch.
 *
 * A minibatch may arrive in pieces, because the stream's batches have other boundaries: each piece is pulled, pooled
 * and scored on arrival, with the parameters of the last update, and its activations stay for the backward pass of the
 * whole minibatch. If training has a forward pass of its own and nobody needs the scores, the pieces are not scored.
 *
 * An update is queued without waiting: on a GPU the host continues with the next rows, whose lists are copied while the
 * device still learns, until the next scores are needed. Minibatches of 4 rows, from batches of 3 and 5:
 *
 *     rows 1-3     add, pull, forward (collected: a CUDA graph if it is as before), wait for 3 scores
 *     row 4        add, pull, forward, wait for its score and for whether the last parameters were numbers
 *                  update: loss and backward (collected), push to the tables, dense optimizer, search for NaN
 *     rows 5-8     add, pull, … while the device learns rows 1-4 */
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep.h"

/* Use the device's threads or, with a GPU, create own ones. */
static int take_threads(struct ctr_deep_learner *l, struct ctr_err *err)
{
    l->pool = ctr_dev_pool_of(l->net.dev);
    if (l->pool)
        return 0;
    int rc = ctr_pool_new(&l->own_pool, l->net.p.threads, CTR_FLOAT_FLUSH, err);
    l->pool = l->own_pool;
    return rc;
}

int ctr_deep_learner_new(void **out, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    struct ctr_deep_learner *l = calloc(1, sizeof *l);
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    int rc = ctr_deep_open(&l->net, m, p, p->threads, true, err);
    if (!rc)
        rc = take_threads(l, err);
    l->tables.width = l->net.width;
    l->tables.zero = l->net.spec->by_table;
    l->tables.counts = p->deep.l2 > 0;
    l->tables.floats = l->net.u_cols + l->tables.counts;
    if (!rc && p->deep.l2_counts)
        rc = ctr_deep_counts_read(&l->tables.given, p->deep.l2_counts, err);
    if (rc) {
        ctr_deep_learner_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void ctr_deep_learner_free(void *learner)
{
    struct ctr_deep_learner *l = learner;
    if (!l)
        return;
    ctr_mem_free(l->ranks.room);
    ctr_deep_free(&l->net);
    ctr_deep_tables_free(&l->tables);
    ctr_pool_free(l->own_pool);
    ctr_buf_free(&l->ranks.host);
    free(l);
}

int ctr_deep_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct ctr_deep_input *list;
    int n, rc = ctr_deep_inputs(in, tables, &list, &n, err);
    if (!rc && l->net.spec->takes_sides && (rc = ctr_deep_inputs_sides(list, n, &l->net.p, err)))
        ctr_deep_inputs_free(list, n);
    if (rc)
        return rc;
    if (ctr_deep_shaped(&l->net)) {
        rc = ctr_deep_same_inputs(&l->net, list, n, err);
        ctr_deep_inputs_free(list, n);
    } else {
        rc = ctr_deep_shape(&l->net, list, n, err);
    }
    return rc ? rc : ctr_deep_tables_bind(&l->tables, &l->net, true, err);
}

/* ---- scores ---- */

int ctr_deep_scores(struct ctr_deep *d, int64_t from, int64_t n, int64_t first_row, double *score, struct ctr_err *err)
{
    struct ctr_buf logits = { 0 };
    int rc = 0;
    float *logit = ctr_buf_extend(&logits, n, sizeof *logit, &rc, err);
    if (!rc)
        rc = ctr_mem_read(d->logit, (size_t)from * sizeof *logit, logit, (size_t)n * sizeof *logit, err);
    if (!rc)
        ctr_upload_waited(&d->batch.upload);
    for (int64_t i = 0; i < n && !rc; i++) {
        if (score)
            score[i] = ctr_sigmoid((double)logit[i]);
        if (!(fabsf(logit[i]) < INFINITY)) {
            rc = ctr_fail(err, CTR_EDATA,
                          "row %lld: the prediction is not a number: the learner diverged; scale numbers down, or "
                          "lower --%s",
                          (long long)(first_row + i + 1), d->spec->ftrl ? "alpha" : "rate");
        }
    }
    ctr_buf_free(&logits);
    return rc;
}

/* ---- an update ---- */

struct ctr_dev_opt ctr_deep_ftrl(const struct ctr_params *p)
{
    return (struct ctr_dev_opt){ .kind = CTR_OPT_FTRL,
                                 .rate = (float)p->lr.alpha,
                                 .beta = (float)p->lr.beta,
                                 .l1 = (float)p->lr.l1,
                                 .l2 = (float)p->lr.l2 };
}

static struct ctr_dev_opt optimizer(const struct ctr_deep_learner *l)
{
    const struct ctr_params *p = &l->net.p;
    if (l->net.spec->ftrl)
        return ctr_deep_ftrl(p);
    double rate = p->deep.rate;
    for (int64_t i = p->deep.decay < 1 ? l->learned_rows / p->deep.decay_every : 0; i > 0 && rate > 0; i--)
        rate *= p->deep.decay;
    return (struct ctr_dev_opt){
        .kind = CTR_OPT_ADAM, .rate = (float)rate, .eps = 1e-8F, .beta1 = 0.9F, .beta2 = 0.999F, .step = l->net.step + 1
    };
}

static int forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    ctr_dev_collect(d->dev);
    const int rc = d->spec->forward(d, from, n, training, err);
    return ctr_dev_start(d->dev, rc, err);
}

/* dlogit of the minibatch: the gradient of its mean weighted loss; with `ftrl`, of the sum. */
static int loss_gradient(struct ctr_deep_learner *l, struct ctr_err *err)
{
    const struct ctr_deep *d = &l->net;
    const struct ctr_deep_batch *on = &d->batch.buffers[d->batch.buffer_index];
    const int64_t rows = d->p.comm ? l->ranks.rows : d->rows;
    const struct ctr_dev_bce bce = { .z = ctr_vec(d->logit, d->rows),
                                     .label = ctr_vec(on->label, d->rows),
                                     .weight = d->batch.weighted ? ctr_vec(on->weight, d->rows) : (struct ctr_vec){ 0 },
                                     .dz = ctr_vec(d->dlogit, d->rows),
                                     .scale = d->spec->ftrl ? 1 : 1 / (float)rows };
    return ctr_dev_bce(d->dev, &bce, err);
}

static int backward(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    ctr_dev_collect(d->dev);
    int rc = loss_gradient(l, err);
    if (!rc)
        rc = d->spec->backward(d, err);
    return ctr_dev_start(d->dev, rc, err);
}

/* l->bad was read: are the parameters of the last update numbers? */
static int check_parameters(struct ctr_deep_learner *l, struct ctr_err *err)
{
    const struct ctr_deep *d = &l->net;
    const int64_t row = l->unchecked;
    const double bad = row ? l->bad : -1;
    l->unchecked = 0;
    for (int i = 0; i < d->params && bad >= 0; i++)
        if (bad < (double)(d->param[i].at + d->param[i].rows * d->param[i].cols)) {
            return ctr_fail(err, CTR_EDATA,
                            "row %lld: the parameter %s.%s is not a number after the minibatch that ends there: the "
                            "learner diverged; scale numbers down, or lower --rate",
                            (long long)row, d->model->name, d->param[i].name);
        }
    return 0;
}

int ctr_deep_settle(struct ctr_deep_learner *l, struct ctr_err *err)
{
    int rc = l->unchecked ? ctr_mem_read(l->net.bad, 0, &l->bad, sizeof l->bad, err) : 0;
    return rc ? rc : check_parameters(l, err);
}

/* Both are read when the device has computed the scores, so that it is waited for once. */
static int settle_and_score(struct ctr_deep_learner *l, int64_t from, int64_t n, int64_t first_row, double *score,
                            struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    struct ctr_err bad_score = *err;
    int rc = l->unchecked ? ctr_mem_read_later(d->bad, 0, &l->bad, sizeof l->bad, err) : 0;
    if (rc)
        return rc;
    const int scored = ctr_deep_scores(d, from, n, first_row, score, &bad_score);
    rc = scored && scored != CTR_EDATA ? 0 : check_parameters(l, err);
    if (!rc && scored)
        *err = bad_score;
    return rc ? rc : scored;
}

/* Are rows scored on arrival, before the forward pass of training? */
static bool scores_ahead(const struct ctr_deep_learner *l)
{
    return !l->unscored || !l->net.separate_training_forward;
}

static int update(struct ctr_deep_learner *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const struct ctr_dev_opt opt = optimizer(l);
    const struct ctr_dev_reduce find = { CTR_REDUCE_NONFINITE, ctr_mat(d->w, d->floats, 1), ctr_vec(d->bad, 1) };
    int rc = d->p.comm ? ctr_deep_ranks_rest(l, err) : 0;
    if (!rc && d->p.comm)
        rc = ctr_deep_ranks_ahead(l, err);
    if (!rc && d->rows && d->separate_training_forward)
        rc = forward(d, 0, d->rows, true, err);
    if (!rc && d->rows && !scores_ahead(l))
        rc = ctr_deep_scores(d, 0, d->rows, l->first_row, NULL, err);
    if (!rc && d->rows)
        rc = backward(l, err);
    if (!rc && d->groups)
        rc = ctr_deep_push(d, &l->tables, l->pool, &opt, err);
    const struct ctr_dev_opt_dense step = { .opt = opt,
                                            .w = ctr_vec(d->w, d->learned),
                                            .g = ctr_vec(d->g, d->learned),
                                            .s1 = ctr_vec(d->s1, d->learned),
                                            .s2 = ctr_vec(d->s2, d->learned) };
    if (!rc && d->p.comm)
        rc = ctr_deep_ranks_gradients(l, err);
    if (!rc)
        rc = ctr_dev_opt_dense(d->dev, &step, err);
    if (!rc)
        rc = ctr_dev_reduce(d->dev, &find, err);
    l->ranks.steps++;
    l->ranks.ids += d->batch.unique;
    l->unchecked = rc ? 0 : l->first_row + d->rows;
    d->step++;
    l->learned_rows += d->p.comm ? l->ranks.rows : d->rows;
    l->ranks.announced = l->ranks.next;
    l->ranks.next = 0;
    l->ranks.r = NULL;
    ctr_deep_clear(d);
    return rc || !ctr_dev_is_host(d->dev) ? rc : ctr_deep_settle(l, err);
}

void ctr_deep_set_ahead(void *learner, const struct ctr_ahead *ahead)
{
    ((struct ctr_deep_learner *)learner)->ahead = ahead ? *ahead : (struct ctr_ahead){ 0 };
}

/* The rows behind those of r that the next minibatch takes after n of r's; *more: how many. NULL: none is ready. */
static const struct ctr_rows *peek_rest(const struct ctr_deep_learner *l, int64_t n, int64_t *more)
{
    const int64_t room = l->net.p.minibatch - n;
    const struct ctr_rows *next = l->ahead.peek && room ? l->ahead.peek(l->ahead.ctx, 1, false) : NULL;
    *more = next ? CTR_MIN(next->rows, room) : 0;
    return next;
}

static void announce_images(struct ctr_deep_learner *l, const struct ctr_rows *r, int64_t from, int64_t n)
{
    int64_t more;
    ctr_deep_images_announce(&l->net, r, from, n);
    const struct ctr_rows *next = peek_rest(l, n, &more);
    if (next)
        ctr_deep_images_announce(&l->net, next, 0, more);
}

/* The minibatch is complete: announce the rows of r from row `next` on, which belong to the following one. */
static int announce_next(struct ctr_deep_learner *l, const struct ctr_rows *r, int64_t next, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const int64_t n = CTR_MIN(r->rows - next, d->p.minibatch);
    l->ranks.r = r;
    l->ranks.from = next;
    if (d->p.prefetch && d->images && !d->p.comm)
        announce_images(l, r, next, n);
    if (d->p.comm || !d->p.prefetch || !d->vectors.source || !ctr_source_looks_ahead(d->vectors.source))
        return 0; /* ranks announce together */
    int rc = ctr_deep_announce(d, r, next, n, l->pool, err);
    int64_t more;
    const struct ctr_rows *rest = rc ? NULL : peek_rest(l, n, &more);
    return rest ? ctr_deep_announce(d, rest, 0, more, l->pool, err) : rc;
}

static int learn(struct ctr_deep_learner *l, const struct ctr_rows *r, double *score, int64_t bound,
                 struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    for (int64_t at = 0, n; at < r->rows; at += n) {
        const int64_t from = d->rows;
        n = CTR_MIN(r->rows - at, d->p.minibatch - from);
        if (!from)
            l->first_row = r->first_row + at;
        int rc = ctr_deep_add(d, r, at, n, err);
        if (!rc && d->p.comm)
            rc = ctr_deep_ranks_round(l, d->rows == d->p.minibatch, err);
        if (!rc)
            rc = ctr_deep_pull(d, &l->tables, true, l->pool, from, bound, err);
        if (!rc && d->rows == d->p.minibatch)
            rc = announce_next(l, r, at + n, err);
        if (!rc && scores_ahead(l))
            rc = forward(d, from, n, !d->separate_training_forward, err);
        if (!rc && scores_ahead(l))
            rc = settle_and_score(l, from, n, r->first_row + at, score + at, err);
        else if (!rc && !(rc = ctr_deep_settle(l, err)))
            memset(score + at, 0, (size_t)n * sizeof *score);
        if (!rc && d->rows == d->p.minibatch)
            rc = update(l, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* A step without rows, while other ranks have some. */
static int learn_none(struct ctr_deep_learner *l, struct ctr_err *err)
{
    l->ranks.whole = false;
    return update(l, err);
}

int ctr_deep_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    l->unscored = r->unscored;
    ctr_dev_time_enter(&l->time);
    int rc = r->rows || !l->net.p.comm ? learn(l, r, score, bound, err) : learn_none(l, err);
    ctr_dev_time_leave(&l->time);
    return rc;
}

int ctr_deep_evaluate(void *learner, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct ctr_deep *d = &l->net;
    ctr_deep_unannounce(d);
    l->ranks.announced = 0;
    int rc = ctr_deep_settle(l, err);
    if (!rc)
        rc = ctr_deep_source_settle(d, err);
    if (!rc && !r->rows) { /* other ranks have rows */
        rc = ctr_deep_pull_none(d, false, l->pool, err);
        ctr_deep_clear(d);
        return rc;
    }
    if (!rc)
        rc = ctr_deep_add(d, r, 0, r->rows, err);
    if (!rc)
        rc = ctr_deep_pull(d, &l->tables, false, l->pool, 0, 0, err);
    if (!rc)
        rc = forward(d, 0, r->rows, false, err);
    if (!rc)
        rc = ctr_deep_scores(d, 0, r->rows, r->first_row, score, err);
    ctr_deep_clear(d);
    return rc;
}

int ctr_deep_end_pass(void *learner, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    const bool ranks_go_on = l->net.p.comm && l->net.rows; /* theirs are announced */
    int rc = l->net.rows ? update(l, err) : 0;
    if (l->net.images)
        ctr_deep_images_pass(&l->net);
    if (!ranks_go_on) {
        ctr_deep_unannounce(&l->net);
        l->ranks.announced = 0;
    }
    return rc ? rc : ctr_deep_settle(l, err);
}

int ctr_deep_changes(void *learner, enum ctr_changes what, struct ctr_err *err)
{
    const struct ctr_deep_learner *l = learner;
    return l->net.vectors.source ? ctr_source_changes(l->net.vectors.source, what, err) : 0;
}

int64_t ctr_deep_pending(const void *learner)
{
    return ((const struct ctr_deep_learner *)learner)->net.rows;
}

int64_t ctr_deep_keys(const void *learner)
{
    const struct ctr_deep_learner *l = learner;
    return l->net.p.comm ? l->ranks.keys : ctr_deep_source_rows(&l->net, -1);
}

int64_t ctr_deep_memory(const void *learner)
{
    const struct ctr_deep_learner *l = learner;
    return ctr_dev_memory(l->net.dev) + (int64_t)ctr_keyindex_bytes(&l->tables.given) +
           ctr_deep_source_memory(&l->net) + ctr_deep_images_bytes(&l->net);
}

void ctr_deep_summary(const void *learner, struct ctr_say *text)
{
    const struct ctr_deep_learner *l = learner;
    struct ctr_deep_images_counts images = l->ranks.sums.images;
    if (l->net.images && !l->net.p.comm)
        ctr_deep_images_counts(&l->net, &images);
    if (l->net.vectors.source)
        ctr_source_summary(l->net.vectors.source, text);
    if (!ctr_dev_is_host(l->net.dev)) {
        const char *why = ctr_deep_host_numbers(&l->net, &l->tables);
        if (!why && !ctr_source_takes_entries(l->net.vectors.source, 0))
            why = "the device has no room for all of their rows and entries";
        ctr_say(text, "keys numbered by     the %s%s\n", why ? "host: " : "device", why ? why : "");
        ctr_dev_graphs_summary(l->net.dev, text);
    }
    if (l->net.images)
        ctr_deep_images_summary(&l->net, &images, text);
    ctr_deep_ranks_summary(l, text);
    ctr_dev_time_summary(&l->time, l->net.dev, text);
}
