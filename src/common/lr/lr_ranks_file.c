/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of lr over ranks: those of lr, written by rank 0 from the rows of all ranks, which come in the order of keys.
 */
#include "common/lr/lr_ranks.h"

#define AS(type, buf) CTR_LR_AS(type, buf)

struct told {
    struct ctr_lr_digested digested;
};

static int sum_told(struct ctr_lr_ranks *l, const struct ctr_buf *mine, struct ctr_err *err)
{
    const size_t bytes = mine->len;
    int rc = ctr_comm_gather(l->comm, CTR_COMM_CONTROL, mine->data, bytes, l->in, err);
    l->elsewhere.digested = (struct ctr_lr_digested){ 0, true };
    for (int r = 0; r < l->ranks && !rc; r++) {
        const struct told *told = AS(const struct told, l->in[r]);
        const uint64_t *keys = (const uint64_t *)(told + 1);
        if (l->in[r].len != bytes)
            return ctr_lr_ranks_bad_message(r, err);
        l->elsewhere.digested.digest += told->digested.digest;
        l->elsewhere.digested.finite &= told->digested.finite;
        for (int t = 0; t < l->own->tables; t++) {
            AS(uint64_t, l->table_keys)[t] += keys[t];
            l->keys += (int64_t)keys[t];
        }
    }
    return rc;
}

/* Collect the metadata of the section for all rows, and the number of rows per table. */
static int begin_saving(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    const struct lr *m = l->own;
    struct ctr_buf mine = { 0 };
    const struct told told = { ctr_lr_digest_keys(m) };
    int rc = ctr_buf_append(&mine, &told, sizeof told, err);
    for (int t = 0; t < m->tables && !rc; t++)
        rc = ctr_buf_append(&mine, &m->table[t].learned, sizeof(uint64_t), err);
    ctr_buf_clear(&l->table_keys);
    uint64_t *keys = ctr_lr_ranks_more(&l->table_keys, m->tables, sizeof *keys, &rc, err);
    if (!rc && m->tables)
        memset(keys, 0, l->table_keys.len);
    l->keys = !m->no_bias;
    if (!rc)
        rc = sum_told(l, &mine, err);
    ctr_buf_free(&mine);
    l->elsewhere.keys = keys;
    return rc;
}

struct saving {
    struct ctr_lr_ranks *l;
    int table;
    ctr_merge_row *merge; /* receives the rows of this rank … */
    void *merge_ctx;
    ctr_lr_take_sorted *take; /* … and those of all ranks, several at a time */
    void *to;
    struct ctr_sparse_numbered place[256];
    struct ctr_buf rows;
    uint64_t n;
};

static int merge_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct saving *s = ctx;
    const struct ctr_states *states = &s->l->own->states;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = s->merge(s->merge_ctx, e[i].key, ctr_states_row(states, e[i].number) + CTR_STATE_AT, err);
    return rc;
}

static int own_rows(void *ctx, ctr_merge_row *take, void *to, struct ctr_err *err)
{
    struct saving *s = ctx;
    s->merge = take;
    s->merge_ctx = to;
    return ctr_keys_sorted(&s->l->own->table[s->table], merge_range, s, err);
}

static int take_some(struct saving *s, struct ctr_err *err)
{
    if (!s->n)
        return 0;
    const uint32_t bytes = s->l->own->states.bytes;
    const struct ctr_lr_sorted t = { s->place, s->n, s->rows.data - CTR_STATE_AT, bytes, NULL };
    s->n = 0;
    int rc = s->take(s->to, &t, err);
    ctr_buf_clear(&s->rows);
    return rc;
}

static int take_row(void *ctx, uint64_t key, const void *row, struct ctr_err *err)
{
    struct saving *s = ctx;
    s->place[s->n] = (struct ctr_sparse_numbered){ key, s->n };
    s->n++;
    int rc = ctr_buf_append(&s->rows, row, s->l->own->states.bytes, err);
    return rc || s->n < CTR_COUNT(s->place) ? rc : take_some(s, err);
}

static int rows_of_all(void *ctx, int table, ctr_lr_take_sorted *take, void *to, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = ctx;
    struct saving s = { .l = l, .table = table, .take = take, .to = to };
    int rc = ctr_merge_ranks(l->comm, l->own->states.bytes, own_rows, &s, take_row, &s, err);
    if (!rc)
        rc = take_some(&s, err);
    ctr_buf_free(&s.rows);
    return rc;
}

int ctr_lr_ranks_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = (struct ctr_lr_ranks *)(uintptr_t)learner;
    int rc = begin_saving(l, err);
    l->elsewhere.each = rows_of_all;
    l->elsewhere.ctx = l;
    l->own->elsewhere = &l->elsewhere;
    if (!rc)
        rc = ctr_lr_save_schema(l->own, s, err);
    l->own->elsewhere = NULL;
    return rc;
}

int ctr_lr_ranks_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    l->own->elsewhere = &l->elsewhere;
    int rc = ctr_lr_save(l->own, tables, w, err);
    l->own->elsewhere = NULL;
    return rc;
}

int ctr_lr_ranks_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    int rc = ctr_lr_load(l->own, tables, r, err);
    return rc ? rc : ctr_lr_ranks_bind(l, NULL, tables, err);
}
