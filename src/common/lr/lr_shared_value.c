/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr that share one value per coordinate ("Ad Click Prediction: a View from the Trenches", KDD 2013,
 * section 4.4): lossy, but hardly larger than one model. Bit sets per table record which variants have its keys.
 *
 * The learner is an ordinary lr, whose learning step is replaced by lr_shared_value_row.c. Each variant predicts with
 * the weights of its own coordinates; the gradient of a coordinate is the mean over the variants that have it, and the
 * optimizer applies it. With ogd this equals the mean of the variants' new values, as in the paper, for any rate that
 * does not depend on the gradient (counts, global); with a rate by sums of squares, and with ftrl and rda, the mean
 * gradient updates z and n. */
#include <stdlib.h>

#include "common/lr/inclusion.h"
#include "common/lr/lr_standalone.h"
#include "common/lr/lr_shared_value.h"

struct shared_value {
    const struct ctr_variants *vs;
    struct lr *one;
    struct ctr_shared_value_step step;
    /* While models are saved, by table: */
    struct ctr_lr_orders orders;
    struct ctr_buf *state;          /* states in key order */
    struct ctr_lr_digested *digest; /* equal in all models */
};

static void forget_order(struct shared_value *q)
{
    for (int t = 0; t < q->orders.tables; t++)
        ctr_buf_free(&q->state[t]);
    ctr_lr_orders_forget(&q->orders);
}

static void free_tables(struct shared_value *q)
{
    forget_order(q);
    ctr_lr_orders_free(&q->orders);
    free(q->state);
    free(q->digest);
}

static void shared_value_free(void *learner)
{
    struct shared_value *q = learner;
    if (!q)
        return;
    free_tables(q);
    ctr_lr_free(q->one);
    ctr_shared_value_free(&q->step);
    free(q);
}

/* Variants share a value only if their learning options are equal. */
static int check_alike(const struct ctr_variants *vs, const struct ctr_params *base, struct ctr_err *err)
{
    struct ctr_buf want = { 0 }, have = { 0 };
    int rc = 0;
    for (int i = 0; i < vs->n && !rc; i++) {
        struct ctr_params p = vs->v[i].params;
        p.lr.no_bias = base->lr.no_bias;
        ctr_buf_clear(&want);
        ctr_buf_clear(&have);
        rc = ctr_params_text(&ctr_model_lr, base, &want, err);
        if (!rc)
            rc = ctr_params_text(&ctr_model_lr, &p, &have, err);
        if (!rc && (vs->v[i].weight >= 0 || strcmp((const char *)want.data, (const char *)have.data)))
            rc = ctr_fail(err, CTR_EUSAGE,
                          "%s: line %d: with --single-value a variant can have in, out and bias of its own; values are "
                          "learned with the options of the command",
                          vs->path, vs->v[i].line);
    }
    ctr_buf_free(&want);
    ctr_buf_free(&have);
    return rc;
}

static int shared_value_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    (void)model;
    struct shared_value *q = calloc(1, sizeof *q);
    struct ctr_params own = *p;
    void *one = NULL;
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    q->vs = p->variants;
    own.variants = NULL;
    own.lr.no_bias = false; /* bit sets record the variants that have a bias */
    int rc = check_alike(q->vs, p, err);
    if (!rc)
        rc = ctr_lr_new(&one, &ctr_model_lr, &own, err);
    q->one = one;
    if (!rc)
        rc = ctr_shared_value_init(&q->step, q->vs->n, err);
    if (rc) {
        shared_value_free(q);
        return rc;
    }
    q->one->each.learn = ctr_shared_value_learn;
    q->one->each.ctx = &q->step;
    *out = q;
    return 0;
}

static int make_tables(struct shared_value *q, int tables, struct ctr_err *err)
{
    const size_t n = (size_t)tables + 1;
    free_tables(q);
    q->state = calloc(n, sizeof *q->state);
    q->digest = calloc(n, sizeof *q->digest);
    if (!q->state || !q->digest)
        return ctr_fail_nomem(err, n * sizeof *q->state);
    return ctr_lr_orders_init(&q->orders, tables, err);
}

static int shared_value_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names,
                             struct ctr_err *err)
{
    struct shared_value *q = learner;
    const size_t n = (size_t)names->n * (size_t)q->vs->n + 1;
    bool *has = calloc(n, 1);
    int rc = has ? ctr_lr_bind(q->one, names, err) : ctr_fail_nomem(err, n);
    if (!rc)
        rc = ctr_variants_bind(q->vs, in, names, has, err);
    if (!rc)
        rc = ctr_shared_value_bind(&q->step, q->vs, has, names->n, err);
    if (!rc)
        rc = make_tables(q, names->n, err);
    free(has);
    return rc;
}

/* ---- the learner ---- */

static int shared_value_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound,
                                   struct ctr_err *err)
{
    struct shared_value *q = learner;
    forget_order(q);
    return ctr_model_lr.train_rows(q->one, r, score, bound, err);
}

static int shared_value_find(void *learner, const struct ctr_rows *r, const struct ctr_find *f, struct ctr_err *err)
{
    return ctr_model_lr.find(((struct shared_value *)learner)->one, r, f, err);
}

static enum ctr_finds shared_value_finds(const void *learner, bool saves)
{
    return ctr_model_lr.finds(((const struct shared_value *)learner)->one, saves);
}

static int shared_value_end_pass(void *learner, struct ctr_err *err)
{
    return ctr_model_lr.end_pass(((struct shared_value *)learner)->one, err);
}

static int64_t shared_value_keys(const void *learner)
{
    return ctr_model_lr.keys(((const struct shared_value *)learner)->one);
}

static int64_t shared_value_memory(const void *learner)
{
    return ctr_model_lr.memory(((const struct shared_value *)learner)->one);
}

static void shared_value_summary(const void *learner, struct ctr_say *text)
{
    const struct shared_value *q = learner;
    const int64_t held =
        shared_value_memory(q) - ctr_inclusion_bytes(q->one->inclusion); /* the filter is reported on a separate line */
    const double bytes = (double)held / (double)CTR_MAX(shared_value_keys(q), 1);
    ctr_model_lr.add_summary(q->one, text);
    ctr_say(text, "shared values        %.3g bytes a key for each of %d variants\n", bytes / q->vs->n, q->vs->n);
}

static int shared_value_state(const void *learner, struct ctr_buf *words, struct ctr_err *err)
{
    return ctr_model_lr.state(((const struct shared_value *)learner)->one, words, err);
}

static int shared_value_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err)
{
    return ctr_model_lr.restore(((struct shared_value *)learner)->one, word, words, err);
}

static int shared_value_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    const struct shared_value *q = learner;
    int rc = ctr_lr_save_schema(q->one, s, err);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_VARIANTS, (const char *)q->vs->text.data, err);
}

static int shared_value_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    return ctr_lr_save(((struct shared_value *)learner)->one, tables, w, err);
}

static int shared_value_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    return ctr_lr_load(((struct shared_value *)learner)->one, tables, r, err);
}

/* All start from equal values. */
static int shared_value_load_one(void *learner, int i, struct ctr_strs *tables, struct ctr_reader *r,
                                 struct ctr_err *err)
{
    return i ? 0 : shared_value_load(learner, tables, r, err);
}

/* ---- each model alone ---- */

static struct ctr_lr_sorted sorted_table(const struct shared_value *q, int table)
{
    struct ctr_lr_sorted t = { .bytes = q->one->states.bytes, .digested = &q->digest[table] };
    t.place = ctr_lr_order_of(&q->orders, table, &t.n);
    t.base = (const uint8_t *)((uintptr_t)q->state[table].data - CTR_STATE_AT);
    return t;
}

/* Copy the states of a table in key order, so that saving every file reads them sequentially. */
static int order_states(void *ctx, int table, struct ctr_numbered *place, uint64_t n, struct ctr_err *err)
{
    enum { AHEAD = 16 };
    struct shared_value *q = ctx;
    const struct ctr_states *from = &q->one->states;
    struct ctr_buf *to = &q->state[table];
    ctr_buf_clear(to);
    int rc = ctr_buf_reserve(to, n * from->bytes, err);
    for (uint64_t i = 0; i < n && !rc; i++) {
        __builtin_prefetch(ctr_states_row(from, place[CTR_MIN(i + AHEAD, n - 1)].number) + CTR_STATE_AT);
        memcpy(to->data + i * from->bytes, ctr_states_row(from, place[i].number) + CTR_STATE_AT, from->bytes);
        place[i].number = i;
    }
    if (rc)
        return rc;
    const struct ctr_lr_sorted t = sorted_table(q, table);
    q->digest[table] = ctr_lr_digest_sorted(q->one, &q->one->learning, &t);
    return 0;
}

static int shared_value_prepare(void *learner, struct ctr_pool *pool, struct ctr_err *err)
{
    struct shared_value *q = learner;
    return ctr_lr_orders_make(&q->orders, q->one, pool, order_states, q, err);
}

/* Shared results are kept in the learner until it learns again. */
static int shared_value_standalone(const void *learner, int i, const struct ctr_strs *names, void **out,
                                   struct ctr_err *err)
{
    struct shared_value *q = (struct shared_value *)(uintptr_t)learner;
    struct lr *m = NULL;
    int rc = shared_value_prepare(q, NULL, err);
    if (!rc)
        rc = ctr_lr_standalone_file(q->vs, i, names, &q->one->learning, &m, err);
    *out = m;
    if (rc)
        return rc;
    for (int t = 0; t < q->orders.tables; t++)
        if (ctr_shared_value_has(&q->step, t, i))
            m->saved.sorted[t] = sorted_table(q, t);
    memcpy(m->bias, q->one->bias, sizeof m->bias);
    m->more.event = q->one->more.event;
    return 0;
}

static const struct ctr_variant_ops shared_value_variant_ops = {
    .load = shared_value_load_one,
    .standalone = shared_value_standalone,
    .prepare = shared_value_prepare,
    .model = &ctr_model_lr,
};

const struct ctr_model ctr_model_lr_shared_value = {
    .name = "lr",
    .options = ctr_lr_options,
    .variant_ops = &shared_value_variant_ops,
    .learner_new = shared_value_new,
    .learner_free = shared_value_free,
    .bind = shared_value_bind,
    .train_rows = shared_value_train_rows,
    .find = shared_value_find,
    .finds = shared_value_finds,
    .end_pass = shared_value_end_pass,
    .keys = shared_value_keys,
    .memory = shared_value_memory,
    .add_summary = shared_value_summary,
    .state = shared_value_state,
    .restore = shared_value_restore,
    .save_schema = shared_value_save_schema,
    .save = shared_value_save,
    .load = shared_value_load,
};
