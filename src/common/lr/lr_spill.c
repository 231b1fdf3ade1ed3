/* SPDX-License-Identifier: Apache-2.0
 *
 * lr beyond the memory, by minibatches: the tables of a struct lr hold some of the keys, and a store on disk
 * (table/rowstore.h) the others. The struct lr learns from its rows as one that has all keys, so results are the same
 * bits, whatever the memory is. A block of rows: bring its keys into the tables (lr_spill_keys.c), then learn.
 *
 * The cache of source_disk.c is for rows of hundreds of bytes. For states of 16 bytes its lists, and the copies into it
 * and out of it, took more than learning.
 *
 * The bias stays in `own`, which also reads and writes the files: rows come from the store in the order of keys. */
#include <stdlib.h>

#include "common/lr/lr_spill.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { SOME = 256 }; /* rows to save at a time */

/* ---- the learner ---- */

static void spill_free(void *learner)
{
    struct ctr_lr_spill *l = learner;
    if (!l)
        return;
    ctr_lr_spill_keys_free(l);
    free(l->keys);
    if (l->store)
        ctr_rowstore_free(l->store);
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
    struct ctr_lr_spill *l = calloc(1, sizeof *l);
    void *own = NULL;
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->minibatch = p->minibatch;
    l->what = CTR_CHANGES_ALL;
    int rc = check_options(p, err);
    if (!rc)
        rc = ctr_lr_new(&own, m, p, err);
    l->own = own;
    if (!rc) {
        l->floats = (int32_t)((l->own->states.bytes + sizeof(float) - 1) / sizeof(float));
        rc = ctr_rowstore_open(&l->store, p->spill, l->floats, err);
    }
    if (!rc)
        rc = ctr_lr_spill_keys_init(l, err);
    if (rc) {
        spill_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

static int bind_names(struct ctr_lr_spill *l, const struct ctr_strs *names, struct ctr_err *err)
{
    int rc = ctr_lr_bind(l->own, names, err);
    if (rc || names->n <= l->tables)
        return rc;
    uint64_t *keys = realloc(l->keys, (size_t)names->n * sizeof *keys);
    if (!keys)
        return ctr_fail_nomem(err, (size_t)names->n * sizeof *keys);
    l->keys = keys;
    for (; l->tables < names->n; l->tables++)
        keys[l->tables] = 0;
    return 0;
}

static int spill_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    (void)in;
    return bind_names(learner, names, err);
}

/* ---- learning ---- */

static int spill_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct ctr_lr_spill *l = learner;
    int rc = 0;
    (void)bound; /* it is kept here */
    for (int64_t from = 0, end; from < r->rows && !rc; from = end) {
        end = CTR_MIN(ctr_lr_block_end(r, from), from + l->minibatch - l->own->deferred.n);
        rc = ctr_lr_spill_bring(l, r, from, &end, err);
        if (!rc)
            rc = ctr_lr_train_minibatches(l->own, r, from, end, AS(uint32_t, l->number), score, err);
        if (!l->own->deferred.n)
            ctr_buf_clear(&l->pinned);
    }
    return rc;
}

static int spill_end_pass(void *learner, struct ctr_err *err)
{
    struct ctr_lr_spill *l = learner;
    ctr_buf_clear(&l->pinned);
    return ctr_model_lr.end_pass(l->own, err);
}

static int64_t spill_pending(const void *learner)
{
    return ((const struct ctr_lr_spill *)learner)->own->deferred.n;
}

static void spill_set_bias(void *learner, double log_odds)
{
    ctr_model_lr.set_bias(((struct ctr_lr_spill *)learner)->own, log_odds);
}

static int64_t spill_keys(const void *learner)
{
    const struct ctr_lr_spill *l = learner;
    uint64_t n = !l->own->no_bias;
    for (int t = 0; t < l->tables; t++)
        n += l->keys[t];
    return (int64_t)n;
}

static int64_t spill_memory(const void *learner)
{
    const struct ctr_lr_spill *l = learner;
    return (int64_t)ctr_lr_spill_bytes(l);
}

static int spill_summary(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_lr_spill *l = learner;
    int rc = ctr_learning_summary(&l->own->learning, &l->own->more.event, text, err);
    struct ctr_rowstore_told told = l->told;
    told.bytes = spill_memory(l);
    told.row_bytes = l->floats * (int64_t)sizeof(float);
    return rc ? rc : ctr_rowstore_summary(&told, text, err);
}

static int spill_changes(void *learner, enum ctr_changes what, struct ctr_err *err)
{
    struct ctr_lr_spill *l = learner;
    const struct ctr_learning *r = &l->own->learning;
    const bool all = r->shrinking || r->rate == CTR_RATE_GLOBAL; /* weights follow from the number of rows */
    l->what = what == CTR_CHANGES_ONLY && !all ? CTR_CHANGES_ONLY : CTR_CHANGES_ALL;
    if (what != CTR_CHANGES_NOTE)
        return 0;
    int rc = ctr_lr_spill_settle(l, err);
    return rc ? rc : ctr_rowstore_changes(l->store, what, err);
}

/* ---- files: lr's, out of the rows of the store ---- */

/* Some rows at a time. */
struct some {
    const struct ctr_lr_spill *l;
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
    struct ctr_lr_spill *l = ctx;
    struct some s = { .l = l, .take = take, .to = to };
    int rc = ctr_rowstore_each(l->store, (uint32_t)table, take_row, &s, err);
    if (!rc)
        rc = take_some(&s, err);
    ctr_buf_free(&s.rows);
    return rc;
}

static int digest_some(void *to, const struct ctr_lr_sorted *t, struct ctr_err *err)
{
    struct ctr_lr_spill *l = to;
    const struct ctr_lr_digested own = ctr_lr_digest_sorted(l->own, &l->own->learning, t);
    (void)err;
    l->elsewhere.digested.digest += own.digest;
    l->elsewhere.digested.finite &= own.finite;
    return 0;
}

/* What the metadata of the section tells of all rows. */
static int spill_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_lr_spill *l = (struct ctr_lr_spill *)(uintptr_t)learner;
    l->elsewhere = (struct ctr_lr_elsewhere){ .digested = { 0, true }, .keys = l->keys, .each = rows_of, .ctx = l };
    int rc = ctr_lr_spill_settle(l, err);
    if (!rc)
        rc = ctr_rowstore_changes(l->store, CTR_CHANGES_ALL, err);
    for (int t = 0; t < l->tables && !rc; t++)
        rc = rows_of(l, t, digest_some, l, err);
    l->own->elsewhere = &l->elsewhere;
    if (!rc)
        rc = ctr_lr_save_schema(l->own, s, err);
    l->own->elsewhere = NULL;
    return rc;
}

static int spill_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_lr_spill *l = learner;
    int rc = ctr_lr_spill_settle(l, err);
    if (!rc)
        rc = ctr_rowstore_changes(l->store, l->what, err);
    l->own->elsewhere = &l->elsewhere;
    if (!rc)
        rc = ctr_lr_save(l->own, tables, w, err);
    l->own->elsewhere = NULL;
    return rc;
}

/* Some rows of the file are in the tables of `own`. */
static int loaded(void *ctx, const struct ctr_strs *tables, struct ctr_err *err)
{
    int rc = bind_names(ctx, tables, err);
    return rc ? rc : ctr_lr_spill_move(ctx, err);
}

static int spill_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_lr_spill *l = learner;
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
