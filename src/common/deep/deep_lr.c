/* SPDX-License-Identifier: Apache-2.0
 *
 * lr by minibatches: a network of one layer without inputs of its own. A row is the list of its keys (deep_entries.c),
 * a key's vector is its weight, and the logit is their sum:
 *
 *     logit = sum over the keys of a row, the bias among them, of x · w
 *     z += sum g - (sqrt(n + sum g²) - sqrt(n)) / alpha · w        n += sum g²        g = row weight · (p - y) · x
 *
 * A minibatch's rows all predict with the weights at its start. z and n take their gradients as if the rows came one
 * after another with these weights: the steps of sqrt(n) add up to the one above (McMahan et al. 2013, Algorithm 1).
 *
 * All else is the deep learner's, so tables lie in memory, on disk, on a device, at ranks. The state is f32: w, z, n.
 * Files are lr's: lr_file.c writes them from the rows of the source, and a model learned row by row goes on here. */
#include <math.h>
#include <stdlib.h>

#include "common/compute/element.h"
#include "common/deep/deep.h"
#include "common/lr/lr.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { W, Z, N, FLOATS }; /* of a key's row */

struct lr_minibatch {
    const struct ctr_strs *names; /* of tables, borrowed */
    /* While a file is written: an lr without rows, which knows the format, and the rows that it takes from here. */
    struct lr *file;
    struct ctr_lr_elsewhere rows;
    struct ctr_buf keys;   /* u64, by table: how many of all ranks */
    enum ctr_changes what; /* which rows the next file has */
};

/* ---- the network ---- */

static int declare(struct ctr_deep *d, struct ctr_err *err)
{
    if (!(d->state = calloc(1, sizeof(struct lr_minibatch))))
        return ctr_fail_nomem(err, sizeof(struct lr_minibatch));
    d->pooled_cols = d->x_cols = 1;
    return 0;
}

static int make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    (void)d, (void)room, (void)err;
    return 0;
}

static int forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    const struct ctr_dev_copy copy = { ctr_mat_at(d->x, from, n, 1), ctr_mat_at(d->logit, from, n, 1) };
    (void)training;
    return ctr_dev_copy(d->dev, &copy, err);
}

static int backward(struct ctr_deep *d, struct ctr_err *err)
{
    const struct ctr_dev_copy copy = { ctr_mat(d->dlogit, d->rows, 1), ctr_mat(d->dx, d->rows, 1) };
    return ctr_dev_copy(d->dev, &copy, err);
}

static void end_file(struct lr_minibatch *m)
{
    ctr_lr_free(m->file);
    m->file = NULL;
}

static void free_state(struct ctr_deep *d)
{
    struct lr_minibatch *m = d->state;
    end_file(m);
    ctr_buf_free(&m->keys);
    free(m);
}

static int32_t one(const struct ctr_params *p)
{
    (void)p;
    return 1;
}

static const struct ctr_deep_spec network = {
    .declare = declare,
    .make_room = make_room,
    .forward = forward,
    .backward = backward,
    .free = free_state,
    .width = one,
    .by_table = true,
    .ftrl = true,
};

/* ---- the learner ---- */

static int lr_new(void **learner, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    if (strcmp(p->lr.precision, "f32") != 0)
        return ctr_fail(err, CTR_EUSAGE, "by minibatches lr keeps its state as f32: leave %s out", "--precision");
    return ctr_deep_learner_new(learner, m, p, err);
}

/* Table t of `names` is table t + 1 of the network. */
static int bind_names(struct ctr_deep_learner *l, const struct ctr_strs *names, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    int at, rc = ctr_deep_shaped(d) ? 0 : ctr_deep_shape(d, NULL, 0, err);
    if (rc)
        return rc;
    ((struct lr_minibatch *)d->state)->names = names;
    if (l->tables.n > names->n)
        return 0;
    rc = ctr_deep_tables_add(&l->tables, CTR_BIAS_TABLE, &d->p, &at, err);
    for (int t = l->tables.n - 1; t < names->n && !rc; t++)
        rc = ctr_deep_tables_add(&l->tables, names->s[t], &d->p, &at, err);
    return rc ? rc : ctr_deep_tables_bind(&l->tables, d, true, err);
}

static int lr_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    (void)in;
    return bind_names(learner, names, err);
}

/* Add the row of a key, with the weight that the device would compute. */
static int add_row(const struct ctr_deep_learner *l, int table, uint64_t key, const struct ctr_state *s,
                   struct ctr_err *err)
{
    const struct ctr_dev_opt opt = ctr_deep_ftrl(&l->net.p);
    const struct ctr_opt_step step = ctr_opt_step_of(&opt);
    const float z = (float)s->value, n = (float)s->n;
    const float row[FLOATS] = { [W] = ctr_e_ftrl_weight(&step, step.l2, z, sqrtf(n)), [Z] = z, [N] = n };
    return ctr_source_load(l->net.vectors.source, table + 1, key, row, err);
}

static int set_bias(void *learner, double log_odds, struct ctr_err *err)
{
    const struct ctr_deep_learner *l = learner;
    _Alignas(16) uint8_t row[CTR_STATE_MOST_BYTES] = { 0 };
    struct ctr_learning learning;
    const struct ctr_event none = { .step = 0 };
    struct ctr_state s;
    int rc = ctr_learning_init(&learning, &l->net.p, err);
    if (rc || l->net.p.lr.no_bias)
        return rc;
    ctr_state_set_weight(&learning, &none, log_odds, row);
    ctr_state_read(&learning, &none, row, &s);
    return add_row(l, -1, ctr_bias_key(), &s, err);
}

static int lr_changes(void *learner, enum ctr_changes what, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    ((struct lr_minibatch *)l->net.state)->what = what == CTR_CHANGES_ONLY ? CTR_CHANGES_ONLY : CTR_CHANGES_ALL;
    return what == CTR_CHANGES_NOTE ? ctr_deep_changes(l, what, err) : 0;
}

/* ---- saving: lr's section, from the rows of the source, some at a time ---- */

struct some {
    const struct lr *file;
    ctr_lr_take_sorted *take;
    void *to;
    struct ctr_numbered place[256];
    struct ctr_buf rows; /* states as the file's learner has them */
    uint64_t n;
};

static int take_some(struct some *s, struct ctr_err *err)
{
    if (!s->n)
        return 0;
    const struct ctr_lr_sorted t = { s->place, s->n, s->rows.data - CTR_STATE_AT, s->file->states.bytes, NULL };
    int rc = s->take(s->to, &t, err);
    s->n = 0;
    ctr_buf_clear(&s->rows);
    return rc;
}

static void write_state(const struct lr *file, const float *from, uint8_t *row)
{
    const struct ctr_state s = { .value = (double)from[Z], .n = (double)from[N] };
    ctr_state_write(&file->learning, &file->more.event, &s, row);
}

static int take_row(void *ctx, uint64_t key, const float *from, struct ctr_err *err)
{
    struct some *s = ctx;
    _Alignas(16) uint8_t row[CTR_STATE_MOST_BYTES] = { 0 };
    write_state(s->file, from, row);
    s->place[s->n] = (struct ctr_numbered){ key, s->n };
    s->n++;
    int rc = ctr_buf_append(&s->rows, row + CTR_STATE_AT, s->file->states.bytes, err);
    return rc || s->n < CTR_COUNT(s->place) ? rc : take_some(s, err);
}

static int rows_of(void *ctx, int table, ctr_lr_take_sorted *take, void *to, struct ctr_err *err)
{
    const struct ctr_deep_learner *l = ctx;
    const struct lr_minibatch *m = l->net.state;
    struct some s = { .file = m->file, .take = take, .to = to };
    int rc = ctr_source_save(l->net.vectors.source, table + 1, take_row, &s, err);
    if (!rc)
        rc = take_some(&s, err);
    ctr_buf_free(&s.rows);
    return rc;
}

static int digest_some(void *to, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    struct lr_minibatch *m = to;
    const struct ctr_lr_digested own = ctr_lr_digest_sorted(m->file, &m->file->learning, t);
    (void)err;
    m->rows.digested.digest += own.digest;
    m->rows.digested.finite &= own.finite;
    return 0;
}

static int take_bias(void *ctx, uint64_t key, const float *from, struct ctr_err *err)
{
    struct lr *file = ctx;
    (void)key, (void)err;
    write_state(file, from, file->bias);
    return 0;
}

static int begin_file(struct ctr_deep_learner *l, struct lr_minibatch *m, struct ctr_err *err)
{
    struct ctr_params p = l->net.p;
    void *file = NULL;
    p.spill = NULL; /* it has no rows */
    end_file(m);
    int rc = ctr_lr_new(&file, &ctr_model_lr, &p, err);
    m->file = file;
    if (!rc)
        rc = bind_names(l, m->names, err);
    return rc ? rc : ctr_lr_bind(file, m->names, err);
}

/* How many keys the tables of all ranks have. */
static int count_keys(struct ctr_deep_learner *l, struct lr_minibatch *m, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&m->keys);
    m->rows.keys = ctr_buf_extend(&m->keys, m->names->n, sizeof *m->rows.keys, &rc, err);
    l->ranks.keys = !l->net.p.lr.no_bias;
    for (int t = 0; t < m->names->n && !rc; t++) {
        int64_t rows = ctr_deep_source_rows(&l->net, t + 1);
        rc = ctr_comm_sum_i64(l->net.p.comm, &rows, 1, err);
        AS(uint64_t, m->keys)[t] = (uint64_t)rows;
        l->ranks.keys += rows;
    }
    return rc ? rc : ctr_deep_ranks_count(l, err);
}

/* What the metadata of the section tells is of all rows, though a delta has some. */
static int lr_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_deep_learner *l = (struct ctr_deep_learner *)(uintptr_t)learner;
    struct lr_minibatch *m = l->net.state;
    int rc = begin_file(l, m, err);
    m->rows = (struct ctr_lr_elsewhere){ .digested = { 0, true }, .each = rows_of, .ctx = l };
    if (!rc)
        rc = ctr_deep_changes(l, CTR_CHANGES_ALL, err);
    if (!rc)
        rc = count_keys(l, m, err);
    if (!rc)
        rc = ctr_source_save(l->net.vectors.source, 0, take_bias, m->file, err);
    for (int t = 0; t < m->names->n && !rc; t++)
        rc = rows_of(l, t, digest_some, m, err);
    if (rc)
        return rc;
    m->file->saved.elsewhere = &m->rows;
    return ctr_lr_save_schema(m->file, s, err);
}

static int lr_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct lr_minibatch *m = l->net.state;
    int rc = ctr_deep_changes(l, m->what, err);
    if (!rc)
        rc = ctr_lr_save(m->file, tables, w, err);
    end_file(m);
    return rc;
}

/* ---- loading ---- */

static int check_frame(const struct ctr_schema *s, struct ctr_err *err)
{
    const char *text = ctr_meta_get(&s->meta, CTR_META_MODEL_OPTIONS);
    struct ctr_params p;
    int rc = ctr_params_parse(&ctr_model_lr, &p, text ? text : "", err);
    if (!rc && (strcmp(p.lr.optimizer, "ftrl") != 0 || strcmp(p.lr.learning_rate, "per-coordinate") != 0))
        rc = ctr_fail(err, CTR_EUSAGE,
                      "the model was learned with --optimizer %s --learning-rate %s, which lr by minibatches does not "
                      "go on from",
                      p.lr.optimizer, p.lr.learning_rate);
    if (!rc && p.lr.power != 0.5)
        rc = ctr_fail(err, CTR_EUSAGE,
                      "the model was learned with --power %g, which lr by minibatches does not go on from", p.lr.power);
    return rc;
}

static int load_row(struct ctr_deep_learner *l, const struct ctr_learning *as, const struct ctr_lr_columns *c,
                    struct ctr_lr_table *cache, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    struct ctr_state s;
    ctr_lr_state(c, as, i, &s);
    if (!(fabsf((float)s.value) < INFINITY && s.n >= 0 && (float)s.n < INFINITY))
        return ctr_fail(err, CTR_EDATA, "row %lld of the model: z or n is damaged", (long long)(b->first_row + i + 1));
    const bool bias = cache->table < 0;
    if (bias && cache->bias)
        return ctr_lr_duplicate_key(b, i, err);
    cache->bias |= bias;
    if (bias && l->net.p.lr.no_bias)
        return 0;
    int rc = add_row(l, cache->table, bias ? ctr_bias_key() : ((const uint64_t *)c->key->data)[i], &s, err);
    return rc == CTR_EDATA ? ctr_lr_duplicate_key(b, i, err) : rc;
}

static int load_batch(struct ctr_deep_learner *l, const struct ctr_learning *as, struct ctr_strs *tables,
                      struct ctr_lr_table *cache, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_lr_columns c;
    int rc = ctr_lr_find_columns(b, &c, err);
    const char *missing = rc ? NULL : ctr_lr_missing(&c, as);
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s': it can predict but not learn on", missing);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        rc = ctr_lr_find_table(cache, ctr_col_str(c.table, i), tables, err);
        if (!rc)
            rc = bind_names(l, tables, err);
        if (!rc)
            rc = load_row(l, as, &c, cache, b, i, err);
    }
    return rc;
}

static int lr_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct ctr_lr_table cache = { .table = 0 };
    struct ctr_learning as;
    const struct ctr_batch *b;
    int rc = check_frame(ctr_reader_schema(r), err);
    if (!rc)
        rc = ctr_learning_init(&as, &l->net.p, err);
    if (!rc)
        rc = bind_names(l, tables, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = load_batch(l, &as, tables, &cache, b, err);
    return rc;
}

const struct ctr_model ctr_model_lr_minibatch = {
    .name = "lr",
    .summary = "lr by minibatches",
    .options = ctr_lr_options,
    .by_minibatches = true,
    .deep = &network,
    .gpu = true,
    .rows = CTR_MAX_MINIBATCH,
    .floats = CTR_FLOAT_FLUSH,
    .learner_new = lr_new,
    .learner_free = ctr_deep_learner_free,
    .bind = lr_bind,
    .set_bias = set_bias,
    .set_ahead = ctr_deep_set_ahead,
    .train_rows = ctr_deep_train_rows,
    .evaluate = ctr_deep_evaluate,
    .refuses_left = ctr_deep_refuses_left,
    .bring_rows = ctr_deep_bring_rows,
    .end_pass = ctr_deep_end_pass,
    .pending = ctr_deep_pending,
    .keys = ctr_deep_keys,
    .memory = ctr_deep_memory,
    .add_summary = ctr_deep_summary,
    .changes = lr_changes,
    .save_schema = lr_save_schema,
    .save = lr_save,
    .load = lr_load,
};
