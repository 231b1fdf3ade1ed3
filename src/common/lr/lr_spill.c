/* SPDX-License-Identifier: Apache-2.0
 *
 * lr beyond the memory, by minibatches: the states of coordinates lie in a source of rows on disk (table/source.h), and
 * those of the minibatch's keys in a struct lr, which learns from its rows as from those of a run that has all in
 * memory. So the results are the same bits, whatever the memory is. A minibatch:
 *
 *     keys of its rows -> source, piece by piece     states -> tables of `own`
 *     rows -> own                                    at its end: states -> source, and the tables are emptied
 *
 * The bias stays in `own`, which also reads and writes the files: rows come from the source in the order of keys. */
#include <stdlib.h>

#include "common/lr/lr.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { SOME = 256 };

struct lr_spill {
    struct lr *own;
    struct ctr_dev *dev;
    struct ctr_source *source;
    int32_t floats; /* of a row: a state */
    int64_t minibatch;
    struct table_keys {
        struct ctr_keyset set;
        struct ctr_buf number; /* u32, by number in the set: of the state in `own` */
        int64_t here;          /* so many are in `own` */
    } * table;
    int tables;
    struct ctr_want_keys *want;
    struct ctr_buf scores; /* f64, of a part of rows */
    /* While it is saved. */
    enum ctr_changes what;
    struct ctr_lr_elsewhere elsewhere;
    uint64_t *keys; /* by table */
};

/* ---- the learner ---- */

static void spill_free(void *learner)
{
    struct lr_spill *l = learner;
    if (!l)
        return;
    for (int t = 0; t < l->tables; t++) {
        ctr_keyset_free(&l->table[t].set);
        ctr_buf_free(&l->table[t].number);
    }
    ctr_buf_free(&l->scores);
    free(l->table);
    free(l->want);
    free(l->keys);
    ctr_source_free(l->source);
    ctr_dev_free(l->dev);
    ctr_lr_free(l->own);
    free(l);
}

static int check_options(const struct ctr_params *p, struct ctr_err *err)
{
    if (!p->memory_bytes)
        return ctr_fail(err, CTR_EUSAGE, "--spill needs --memory: what the rows in memory may take");
    if (p->minibatch < 2)
        return ctr_fail(err, CTR_EUSAGE,
                        "--spill: lr keeps rows on disk by minibatches: say of how many rows: "
                        "--minibatch ROWS");
    if (p->bloom || p->poisson > 0)
        return ctr_fail(err, CTR_EUSAGE, "--inclusion knows the keys in memory alone: leave --spill out");
    return p->expire ? ctr_fail(err, CTR_EUSAGE, "--expire drops keys in memory alone: leave --spill out") : 0;
}

static int spill_new(void **out, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    const struct ctr_dev_want want = { .device = "cpu", .threads = 1 };
    struct lr_spill *l = calloc(1, sizeof *l);
    void *own = NULL;
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->minibatch = p->minibatch;
    l->what = CTR_CHANGES_ALL;
    int rc = check_options(p, err);
    if (!rc)
        rc = ctr_lr_new(&own, m, p, err);
    l->own = own;
    if (!rc)
        rc = ctr_dev_open(&l->dev, &want, err);
    if (!rc) {
        l->floats = (int32_t)((l->own->states.bytes + sizeof(float) - 1) / sizeof(float));
        rc = ctr_source_disk(&l->source, l->dev, l->floats, l->floats, l->floats, p->spill, p->memory_bytes, err);
    }
    if (rc) {
        spill_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

static int bind_names(struct lr_spill *l, const struct ctr_strs *names, struct ctr_err *err)
{
    const size_t n = (size_t)names->n;
    struct ctr_embedding zeros;
    int rc = ctr_lr_bind(l->own, names, err);
    if (rc || names->n <= l->tables)
        return rc;
    struct table_keys *t = realloc(l->table, n * sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, n * sizeof *t);
    l->table = t;
    struct ctr_want_keys *want = realloc(l->want, n * sizeof *want);
    if (!want)
        return ctr_fail_nomem(err, n * sizeof *want);
    l->want = want;
    uint64_t *keys = realloc(l->keys, n * sizeof *keys);
    if (!keys)
        return ctr_fail_nomem(err, n * sizeof *keys);
    l->keys = keys;
    ctr_embedding_init(&zeros, 0, l->floats, 0, 0);
    for (; l->tables < names->n && !rc; l->tables++) {
        memset(&t[l->tables], 0, sizeof *t);
        rc = ctr_source_disk_bind(l->source, l->tables, &zeros, err);
    }
    return rc;
}

static int spill_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    (void)in;
    return bind_names(learner, names, err);
}

/* ---- states to own, and back ---- */

static uint8_t *state_of(const struct lr *m, uint32_t number)
{
    return ctr_states_row(&m->states, number) + CTR_STATE_AT;
}

static float *row_at(const struct lr_spill *l, const struct ctr_mat *rows, int t, int64_t i)
{
    float *first = ctr_mem_host(rows->mem);
    return first + rows->at + (int64_t)ctr_source_places(l->source, 0, t)[i] * rows->stride;
}

/* The states of keys that are new in the minibatch. */
static int bring_states(struct lr_spill *l, int t, const struct ctr_mat *rows, struct ctr_err *err)
{
    struct lr *m = l->own;
    struct table_keys *k = &l->table[t];
    const uint64_t *hash = ctr_keyset_hashes(&k->set);
    int rc = 0;
    for (; k->here < k->set.n && !rc; k->here++) {
        uint8_t *row;
        rc = ctr_keys_get(&m->table[t], &m->states, hash[k->here], &row, err);
        if (rc)
            break;
        const uint32_t number = (uint32_t)((uint64_t)(row - ctr_states_rows(&m->states)) / m->states.bytes);
        rc = ctr_buf_append(&k->number, &number, sizeof number, err);
        memcpy(row + CTR_STATE_AT, row_at(l, rows, t, k->here), m->states.bytes);
    }
    return rc;
}

/* What rows [from, from + n) need. */
static int bring(struct lr_spill *l, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_mat rows;
    int rc = 0;
    for (int64_t e = r->start[from]; e < r->start[from + n] && !rc; e++)
        (void)ctr_keyset_add(&l->table[r->table[e]].set, r->hash[e], &rc, err);
    for (int t = 0; t < l->tables; t++)
        l->want[t] = (struct ctr_want_keys){ ctr_keyset_hashes(&l->table[t].set), l->table[t].set.n };
    const struct ctr_want want = { .tables = l->tables, .keys = l->want, .make = true };
    if (!rc)
        rc = ctr_source_begin(l->source, &want, 0, err);
    if (!rc)
        rc = ctr_source_values(l->source, 0, &rows, err);
    for (int t = 0; t < l->tables && !rc; t++)
        rc = bring_states(l, t, &rows, err);
    return rc;
}

static bool keep_none(const void *ctx, const uint8_t *row)
{
    (void)ctx, (void)row;
    return false;
}

static int empty_tables(struct lr *m, struct ctr_err *err)
{
    int rc = 0;
    for (int t = 0; t < m->tables && !rc; t++)
        if (m->table[t].index.used)
            rc = ctr_keys_filter(&m->table[t], &m->states, keep_none, NULL, err);
    return rc;
}

/* The minibatch is learned from. */
static int put_back(struct lr_spill *l, struct ctr_err *err)
{
    struct lr *m = l->own;
    struct ctr_mat rows;
    int rc = ctr_source_values(l->source, 0, &rows, err);
    for (int t = 0; t < l->tables && !rc; t++) {
        struct table_keys *k = &l->table[t];
        for (int64_t i = 0; i < k->set.n; i++)
            memcpy(row_at(l, &rows, t, i), state_of(m, AS(uint32_t, k->number)[i]), m->states.bytes);
    }
    if (!rc)
        rc = ctr_source_write(l->source, 0, err);
    ctr_source_drop(l->source, 0);
    for (int t = 0; t < l->tables; t++) {
        ctr_keyset_clear(&l->table[t].set);
        ctr_buf_clear(&l->table[t].number);
        l->table[t].here = 0;
    }
    return rc ? rc : empty_tables(m, err);
}

/* ---- learning ---- */

/* Rows [from, from + n) of r. */
static struct ctr_rows part_of(const struct ctr_rows *r, int64_t from, int64_t n)
{
    struct ctr_rows part = *r;
    part.rows = n;
    part.first_row += from;
    part.start += from;
    part.label += from;
    part.weight += r->weight ? from : 0;
    return part;
}

/* Scores, and uncertainties behind those of all rows. */
static int learn_part(struct lr_spill *l, const struct ctr_rows *r, int64_t at, int64_t n, double *score,
                      struct ctr_err *err)
{
    const struct ctr_rows part = part_of(r, at, n);
    if (!l->own->params.uncertainty)
        return ctr_model_lr.train_rows(l->own, &part, score + at, 0, err);
    int rc = ctr_buf_room(&l->scores, 2 * n, sizeof *score, err);
    double *own = AS(double, l->scores);
    if (!rc)
        rc = ctr_model_lr.train_rows(l->own, &part, own, 0, err);
    if (!rc) {
        memcpy(score + at, own, (size_t)n * sizeof *score);
        memcpy(score + r->rows + at, own + n, (size_t)n * sizeof *score);
    }
    return rc;
}

static int spill_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct lr_spill *l = learner;
    int rc = 0;
    (void)bound; /* the source keeps it */
    for (int64_t at = 0, n; at < r->rows && !rc; at += n) {
        n = CTR_MIN(r->rows - at, l->minibatch - l->own->deferred.n);
        rc = bring(l, r, at, n, err);
        if (!rc)
            rc = learn_part(l, r, at, n, score, err);
        if (!rc && !l->own->deferred.n)
            rc = put_back(l, err);
    }
    return rc;
}

static int spill_end_pass(void *learner, struct ctr_err *err)
{
    struct lr_spill *l = learner;
    const bool rows = l->own->deferred.n;
    int rc = ctr_model_lr.end_pass(l->own, err);
    return rc || !rows ? rc : put_back(l, err);
}

static int64_t spill_pending(const void *learner)
{
    return ((const struct lr_spill *)learner)->own->deferred.n;
}

static void spill_set_bias(void *learner, double log_odds)
{
    ctr_model_lr.set_bias(((struct lr_spill *)learner)->own, log_odds);
}

static int64_t spill_keys(const void *learner)
{
    const struct lr_spill *l = learner;
    return ctr_source_rows(l->source, -1) + !l->own->no_bias;
}

static int64_t spill_memory(const void *learner)
{
    const struct lr_spill *l = learner;
    int64_t bytes = ctr_source_memory(l->source);
    for (int t = 0; t < l->tables; t++)
        bytes += (int64_t)ctr_keys_bytes(&l->own->table[t], &l->own->states);
    return bytes;
}

static int spill_summary(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct lr_spill *l = learner;
    int rc = ctr_learning_summary(&l->own->learning, &l->own->more.event, text, err);
    return rc ? rc : ctr_source_summary(l->source, text, err);
}

static int spill_changes(void *learner, enum ctr_changes what, struct ctr_err *err)
{
    struct lr_spill *l = learner;
    const struct ctr_learning *r = &l->own->learning;
    const bool all = r->shrinking || r->rate == CTR_RATE_GLOBAL; /* weights follow from the number of rows */
    l->what = what == CTR_CHANGES_ONLY && !all ? CTR_CHANGES_ONLY : CTR_CHANGES_ALL;
    return what == CTR_CHANGES_NOTE ? ctr_source_changes(l->source, what, err) : 0;
}

/* ---- files: lr's, out of the rows of the source ---- */

/* Some rows at a time. */
struct some {
    const struct lr_spill *l;
    ctr_lr_take_sorted *take;
    void *to;
    struct ctr_sparse_numbered place[SOME];
    struct ctr_buf rows;
    uint64_t n;
};

static int take_some(struct some *s, struct ctr_err *err)
{
    if (!s->n)
        return 0;
    const uint64_t bytes = (uint64_t)s->l->floats * sizeof(float);
    const struct ctr_lr_sorted t = { s->place, s->n, s->rows.data - CTR_STATE_AT, bytes, NULL };
    int rc = s->take(s->to, &t, err);
    s->n = 0;
    ctr_buf_clear(&s->rows);
    return rc;
}

static int take_row(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    struct some *s = ctx;
    s->place[s->n] = (struct ctr_sparse_numbered){ key, s->n };
    s->n++;
    int rc = ctr_buf_append(&s->rows, row, (size_t)s->l->floats * sizeof *row, err);
    return rc || s->n < SOME ? rc : take_some(s, err);
}

static int rows_of(void *ctx, int table, ctr_lr_take_sorted *take, void *to, struct ctr_err *err)
{
    struct lr_spill *l = ctx;
    struct some s = { .l = l, .take = take, .to = to };
    int rc = ctr_source_save(l->source, table, take_row, &s, err);
    if (!rc)
        rc = take_some(&s, err);
    ctr_buf_free(&s.rows);
    return rc;
}

static int digest_some(void *to, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    struct lr_spill *l = to;
    const struct ctr_lr_digested own = ctr_lr_digest_sorted(l->own, &l->own->learning, t);
    (void)err;
    l->elsewhere.digested.digest += own.digest;
    l->elsewhere.digested.finite &= own.finite;
    return 0;
}

/* What the metadata of the section tells of all rows. */
static int spill_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct lr_spill *l = (struct lr_spill *)(uintptr_t)learner;
    l->elsewhere = (struct ctr_lr_elsewhere){ .digested = { 0, true }, .keys = l->keys, .each = rows_of, .ctx = l };
    int rc = ctr_source_changes(l->source, CTR_CHANGES_ALL, err);
    for (int t = 0; t < l->tables && !rc; t++) {
        l->keys[t] = (uint64_t)ctr_source_rows(l->source, t);
        rc = rows_of(l, t, digest_some, l, err);
    }
    l->own->elsewhere = &l->elsewhere;
    if (!rc)
        rc = ctr_lr_save_schema(l->own, s, err);
    l->own->elsewhere = NULL;
    return rc;
}

static int spill_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct lr_spill *l = learner;
    int rc = ctr_source_changes(l->source, l->what, err);
    l->own->elsewhere = &l->elsewhere;
    if (!rc)
        rc = ctr_lr_save(l->own, tables, w, err);
    l->own->elsewhere = NULL;
    return rc;
}

struct loading {
    struct lr_spill *l;
    int table;
    float *row;
};

static int load_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct loading *to = ctx;
    const struct lr *m = to->l->own;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        memcpy(to->row, state_of(m, (uint32_t)e[i].number), m->states.bytes);
        rc = ctr_source_load(to->l->source, to->table, e[i].key, to->row, err);
    }
    return rc;
}

/* Some rows of the file are in the tables of `own`. */
static int loaded(void *ctx, const struct ctr_strs *tables, struct ctr_err *err)
{
    struct lr_spill *l = ctx;
    struct loading to = { .l = l, .row = calloc((size_t)l->floats, sizeof *to.row) };
    int rc = to.row ? bind_names(l, tables, err) : ctr_fail_nomem(err, (size_t)l->floats * sizeof *to.row);
    for (; to.table < l->own->tables && !rc; to.table++)
        rc = ctr_keys_sorted(&l->own->table[to.table], load_range, &to, err);
    free(to.row);
    return rc ? rc : empty_tables(l->own, err);
}

static int spill_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct lr_spill *l = learner;
    l->own->loaded = loaded;
    l->own->loaded_ctx = l;
    int rc = ctr_lr_load(l->own, tables, r, err);
    l->own->loaded = NULL;
    return rc ? rc : bind_names(l, tables, err);
}

const struct ctr_model ctr_model_lr_spill = {
    .name = "lr",
    .summary = "lr with rows on disk, by minibatches",
    .options = ctr_lr_options,
    .learner_new = spill_new,
    .learner_free = spill_free,
    .bind = spill_bind,
    .set_bias = spill_set_bias,
    .train_rows = spill_train_rows,
    .end_pass = spill_end_pass,
    .pending = spill_pending,
    .keys = spill_keys,
    .memory = spill_memory,
    .add_summary = spill_summary,
    .changes = spill_changes,
    .save_schema = spill_save_schema,
    .save = spill_save,
    .load = spill_load,
    .predict_uncertain = ctr_lr_predict_uncertain,
};
