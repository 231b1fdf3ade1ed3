/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr that share one value a coordinate ("Ad Click Prediction: a View from the Trenches", KDD 2013, section
 * 4.4): lossy, and hardly larger than one model. Bit fields of tables say which variants have their keys.
 *
 * The learner is an ordinary lr, whose step this file replaces. Each variant predicts with the weights of the
 * coordinates that it has; the gradient of a coordinate is the mean of the gradients of the variants that have it, and
 * the optimizer steps by it. With ogd that is the mean of the new values which the variants want, as in the paper, for
 * any rate that does not depend on the gradient (counts, global); with a rate by sums of squares, and with ftrl and
 * rda, the mean gradient moves z and n.
 *
 * Sums over coordinates are in their order, those over variants in eight lanes: the bits depend on nothing else. */
#include <stdlib.h>

#include "common/feature/op.h"
#include "common/lr/inclusion.h"
#include "common/lr/lr.h"
#include "common/model/variants.h"

enum { LANES = CTR_LANES };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)))); /* of variants */

struct single {
    const struct ctr_variants *vs;
    struct lr *one;
    const struct ctr_strs *names; /* of tables, the trainer's */
    int n, groups;                /* variants; lanes of them */
    int tables;
    uint64_t *has;         /* by table, the bias after the last: a bit field of variants, `words` long */
    size_t words;          /* even numbers of lanes: 8 bytes of bits are 8 lanes */
    lanes *mask;           /* the same as 0 and 1: by table, then by lanes */
    double *share;         /* by table: 1 / variants that have it, or 0 */
    lanes *sum, *gradient; /* by variant */
    double *mean;          /* by table: of the gradients, of this row */
    int64_t *mean_of;      /* by table: the row that it is of */
    int64_t rows;
    ctr_sigmoids *sigmoids;
    struct ctr_buf *order; /* by table, while models are saved: keys sorted, struct ctr_sparse_numbered */
};

/* The order of keys that files were written in is good until more come, and costs memory. */
static void forget_order(struct single *q)
{
    for (int t = 0; q->order && t < q->tables; t++)
        ctr_buf_free(&q->order[t]);
}

static void single_free(void *learner)
{
    struct single *q = learner;
    if (!q)
        return;
    forget_order(q);
    free(q->order);
    ctr_lr_free(q->one);
    free(q->has);
    free(q->mask);
    free(q->share);
    free(q->sum);
    free(q->gradient);
    free(q->mean);
    free(q->mean_of);
    free(q);
}

/* A value is shared by those that learn it alike. */
static int check_alike(const struct ctr_variants *vs, const struct ctr_params *base, struct ctr_err *err)
{
    struct ctr_buf want = { 0 }, have = { 0 };
    int rc = 0;
    for (int i = 0; i < vs->n && !rc; i++) {
        struct ctr_params p = vs->v[i].params;
        p.no_bias = base->no_bias;
        ctr_buf_clear(&want);
        ctr_buf_clear(&have);
        rc = ctr_params_text(&ctr_model_lr, base, &want, err);
        if (!rc)
            rc = ctr_params_text(&ctr_model_lr, &p, &have, err);
        if (!rc && strcmp((const char *)want.data, (const char *)have.data))
            rc = ctr_fail(err, CTR_EUSAGE,
                          "%s: line %d: with --single-value a variant can have in, out and bias of its own; values are "
                          "learned with the options of the command",
                          vs->path, vs->v[i].line);
    }
    ctr_buf_free(&want);
    ctr_buf_free(&have);
    return rc;
}

static int learn_row(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s, uint8_t *const *row,
                     int64_t k, double *score, struct ctr_err *err);

static void *lanes_new(size_t n, struct ctr_err *err)
{
    const size_t bytes = (n + 1) * sizeof(lanes);
    void *p = aligned_alloc(sizeof(lanes), bytes);
    if (!p)
        (void)ctr_fail_nomem(err, bytes);
    else
        memset(p, 0, bytes);
    return p;
}

static int single_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    (void)model;
    struct single *q = calloc(1, sizeof *q);
    struct ctr_params own = *p;
    void *one = NULL;
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    q->vs = p->variants;
    q->sigmoids = ctr_sigmoids_best();
    q->n = q->vs->n;
    q->groups = (q->n + LANES - 1) / LANES;
    q->words = ((size_t)q->n + 63) / 64;
    own.variants = NULL;
    own.no_bias = false; /* whose it is, its bits say */
    int rc = check_alike(q->vs, p, err);
    if (!rc && p->minibatch > 1)
        rc = ctr_fail(err, CTR_EUSAGE, "--variants learn row by row: leave --minibatch out");
    if (!rc)
        rc = ctr_lr_new(&one, &ctr_model_lr, &own, err);
    q->one = one;
    if (!rc && (!(q->sum = lanes_new((size_t)q->groups, err)) || !(q->gradient = lanes_new((size_t)q->groups, err))))
        rc = err->code;
    if (rc) {
        single_free(q);
        return rc;
    }
    q->one->each_row = learn_row;
    q->one->each_ctx = q;
    *out = q;
    return 0;
}

/* ---- who has what ---- */

static bool has_table(const struct single *q, int table, int variant)
{
    return q->has[(size_t)table * q->words + (size_t)variant / 64] >> variant % 64 & 1;
}

static int make_room(struct single *q, int tables, struct ctr_err *err)
{
    const size_t n = (size_t)tables + 1;
    forget_order(q);
    free(q->order);
    free(q->has);
    free(q->mask);
    free(q->share);
    free(q->mean);
    free(q->mean_of);
    q->tables = tables;
    q->has = calloc(n * q->words, sizeof *q->has);
    q->share = calloc(n, sizeof *q->share);
    q->mean = calloc(n, sizeof *q->mean);
    q->mean_of = calloc(n, sizeof *q->mean_of);
    q->order = calloc(n, sizeof *q->order);
    q->mask = lanes_new(n * (size_t)q->groups, err);
    if (!q->has || !q->share || !q->mean || !q->mean_of || !q->order || !q->mask)
        return ctr_fail_nomem(err, n * q->words * sizeof *q->has);
    return 0;
}

static int single_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    struct single *q = learner;
    const size_t tables = (size_t)names->n;
    bool *has = calloc(tables * (size_t)q->n + 1, 1);
    int rc = has ? ctr_lr_bind(q->one, names, err) : ctr_fail_nomem(err, tables * (size_t)q->n);
    q->names = names;
    if (!rc)
        rc = ctr_variants_bind(q->vs, in, names, has, err);
    if (!rc)
        rc = make_room(q, names->n, err);
    for (size_t t = 0; t <= tables && !rc; t++) {
        int count = 0;
        for (size_t v = 0; v < (size_t)q->n; v++) {
            const bool takes = t < tables ? has[v * tables + t] : !q->vs->v[v].params.no_bias;
            q->has[t * q->words + v / 64] |= (uint64_t)takes << v % 64;
            q->mask[t * (size_t)q->groups + v / LANES][v % LANES] = takes;
            count += takes;
        }
        q->share[t] = count ? 1.0 / count : 0;
    }
    free(has);
    return rc;
}

/* ---- a row ---- */

static double sum_lanes(lanes a)
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* The mean gradient of a table's variants, made once a row. */
static double mean_of(struct single *q, size_t table)
{
    if (q->mean_of[table] == q->rows)
        return q->mean[table];
    const lanes *mask = q->mask + table * (size_t)q->groups;
    lanes sum = { 0 };
    for (int g = 0; g < q->groups; g++)
        sum += mask[g] * q->gradient[g];
    q->mean_of[table] = q->rows;
    return q->mean[table] = sum_lanes(sum) * q->share[table];
}

static int predict(struct single *q, const struct ctr_rows *r, int64_t i, double *score, struct ctr_err *err)
{
    const double weight = r->weight ? r->weight[i] : 1, label = r->label[i];
    double *to = score + i * q->n;
    q->sigmoids((const double *)q->sum, to, q->n);
    for (int v = 0; v < q->n; v++) {
        if (!(to[v] >= 0))
            return ctr_lr_diverged(r->first_row + i + 1, err);
        q->gradient[v / LANES][v % LANES] = weight * (to[v] - label);
    }
    return 0;
}

/* A row whose k coordinates lie at `row`; the last one is the bias. */
static int learn_row(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s, uint8_t *const *row,
                     int64_t k, double *score, struct ctr_err *err)
{
    struct single *q = m->each_ctx;
    const struct ctr_learning *l = &m->learning;
    const uint16_t *table = r->table + r->start[i];
    (void)l->forward(l, s, row, k); /* for the weights */
    memset(q->sum, 0, (size_t)q->groups * sizeof *q->sum);
    for (int64_t j = 0; j < k; j++) {
        const double w = l->precision == CTR_F64_STATE ? ((const double *)s->w)[j] : (double)((const float *)s->w)[j];
        const size_t t = j < k - 1 ? table[j] : (size_t)q->tables;
        const lanes *mask = q->mask + t * (size_t)q->groups;
        const double product = w * s->x[j];
        for (int g = 0; g < q->groups && product != 0; g++)
            q->sum[g] += mask[g] * product;
    }
    int rc = predict(q, r, i, score, err);
    if (rc || (l->events && !ctr_event_set(&m->more.event, r->label[i], r->weight ? r->weight[i] : 1)))
        return rc;
    q->rows++;
    for (int64_t j = 0; j < k; j++)
        s->x[j] *= mean_of(q, j < k - 1 ? table[j] : (size_t)q->tables);
    m->filled = 0;
    l->update(l, s, row, k, 1);
    return 0;
}

/* ---- the learner ---- */

static int single_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct single *q = learner;
    forget_order(q);
    return ctr_model_lr.train_rows(q->one, r, score, bound, err);
}

static int single_find(void *learner, const struct ctr_rows *r, const struct ctr_find *f, struct ctr_err *err)
{
    return ctr_model_lr.find(((struct single *)learner)->one, r, f, err);
}

static enum ctr_finds single_finds(const void *learner, bool saves)
{
    return ctr_model_lr.finds(((const struct single *)learner)->one, saves);
}

static int single_end_pass(void *learner, struct ctr_err *err)
{
    return ctr_model_lr.end_pass(((struct single *)learner)->one, err);
}

static int64_t single_keys(const void *learner)
{
    return ctr_model_lr.keys(((const struct single *)learner)->one);
}

static int64_t single_memory(const void *learner)
{
    return ctr_model_lr.memory(((const struct single *)learner)->one);
}

static int single_words(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct single *q = learner;
    const int64_t held =
        single_memory(q) - ctr_inclusion_bytes(q->one->inclusion); /* the filter has a line of its own */
    const double bytes = (double)held / (double)CTR_MAX(single_keys(q), 1);
    int rc = ctr_model_lr.words(q->one, text, err);
    if (!rc)
        rc = ctr_buf_printf(text, err, "shared values        %.1f bytes a key for each of %d variants\n", bytes / q->n,
                            q->n);
    return rc;
}

static int single_state(const void *learner, struct ctr_buf *words, struct ctr_err *err)
{
    return ctr_model_lr.state(((const struct single *)learner)->one, words, err);
}

static int single_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err)
{
    return ctr_model_lr.restore(((struct single *)learner)->one, word, words, err);
}

static int single_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    const struct single *q = learner;
    int rc = ctr_lr_save_schema(q->one, s, err);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_VARIANTS, (const char *)q->vs->text.data, err);
}

static int single_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    return ctr_lr_save(((struct single *)learner)->one, tables, w, err);
}

static int single_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    return ctr_lr_load(((struct single *)learner)->one, tables, r, err);
}

/* All start from the same values. */
static int single_load_one(void *learner, int i, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    return i ? 0 : single_load(learner, tables, r, err);
}

/* ---- each model alone ---- */

static int add_places(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    return ctr_buf_append(ctx, e, n * sizeof *e, err);
}

/* Table t of a model that is saved is that of all, in the order of keys, which is made once. */
static int show_table(const struct single *q, int t, struct lr *m, struct ctr_err *err)
{
    const struct ctr_keys *from = &q->one->table[t];
    struct ctr_buf *order = &q->order[t];
    int rc = 0;
    if (order->len != from->learned * sizeof(struct ctr_sparse_numbered)) {
        ctr_buf_clear(order);
        ctr_lr_hold_finders(q->one);
        rc = ctr_keys_sorted(from, add_places, order, err);
        ctr_lr_release_finders(q->one);
    }
    m->sorted[t] = (struct ctr_lr_sorted){ (const struct ctr_sparse_numbered *)(const void *)order->data, from->learned,
                                           ctr_states_rows(&q->one->states), q->one->states.bytes };
    return rc;
}

static int single_alone(const void *learner, int i, const struct ctr_strs *names, void **out, struct ctr_err *err)
{
    const struct single *q = learner;
    struct ctr_params p = q->vs->v[i].params;
    p.poisson = 0;
    p.bloom = 0;
    p.variants = NULL;
    void *one = NULL;
    int rc = ctr_lr_new(&one, &ctr_model_lr, &p, err);
    if (rc)
        return rc;
    struct lr *m = one;
    rc = ctr_lr_bind(m, names, err);
    const size_t tables = (size_t)CTR_MAX(q->tables, m->tables) + 1;
    if (!rc && !(m->sorted = calloc(tables, sizeof *m->sorted)))
        rc = ctr_fail_nomem(err, tables * sizeof *m->sorted);
    m->sorted_as = &q->one->learning;
    for (int t = 0; t < q->tables && !rc; t++)
        if (has_table(q, t, i))
            rc = show_table(q, t, m, err);
    memcpy(m->bias, q->one->bias, sizeof m->bias);
    m->more.event = q->one->more.event;
    if (rc)
        ctr_lr_free(m);
    *out = rc ? NULL : m;
    return rc;
}

static int single_count(const void *learner)
{
    return ((const struct single *)learner)->n;
}

static const char *single_name(const void *learner, int i)
{
    return ((const struct single *)learner)->vs->v[i].name;
}

static const struct ctr_params *single_params(const void *learner, int i)
{
    return &((const struct single *)learner)->vs->v[i].params;
}

static const struct ctr_many single = {
    .count = single_count,
    .name = single_name,
    .params = single_params,
    .load = single_load_one,
    .alone = single_alone,
    .model = &ctr_model_lr,
};

const struct ctr_model ctr_model_lr_single = {
    .name = "lr",
    .options = ctr_lr_options,
    .minibatch = 1,
    .many = &single,
    .learner_new = single_new,
    .learner_free = single_free,
    .bind = single_bind,
    .train_rows = single_train_rows,
    .find = single_find,
    .finds = single_finds,
    .end_pass = single_end_pass,
    .keys = single_keys,
    .memory = single_memory,
    .words = single_words,
    .state = single_state,
    .restore = single_restore,
    .save_schema = single_save_schema,
    .save = single_save,
    .load = single_load,
};
