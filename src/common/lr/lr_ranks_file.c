/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of lr over ranks: those of lr, written by rank 0 from the rows of all ranks, which come in the order of keys.
 */
#include "common/lr/lr_ranks.h"

#define AS(type, buf) CTR_LR_AS(type, buf)

/* What each rank tells of its rows; behind it, by table, how many rows it will save, and what its filter has seen. */
struct told {
    struct ctr_lr_digested digested;
    int64_t dropped;
    struct ctr_lr_ranks_sent sent;
};

static void add_sent(struct ctr_lr_ranks_sent *to, const struct ctr_lr_ranks_sent *from)
{
    for (int k = 0; k < CTR_COMM_KINDS; k++) {
        to->bytes.all[k] += from->bytes.all[k];
        to->bytes.away[k] += from->bytes.away[k];
    }
    to->ids += from->ids;
    to->occurred += from->occurred;
}

static int sum_told(struct ctr_lr_ranks *l, const struct ctr_buf *mine, struct ctr_err *err)
{
    const size_t bytes = mine->len;
    int rc = ctr_comm_gather(l->comm, CTR_COMM_CONTROL, mine->data, bytes, l->in, err);
    l->elsewhere.digested = (struct ctr_lr_digested){ 0, true };
    l->dropped = 0;
    l->sum = (struct ctr_lr_ranks_sent){ 0 };
    if (l->seen)
        ctr_inclusion_clear_seen(l->seen);
    for (int r = 0; r < l->ranks && !rc; r++) {
        const struct told *told = AS(const struct told, l->in[r]);
        const uint64_t *keys = (const uint64_t *)(told + 1);
        if (l->in[r].len != bytes)
            return ctr_lr_ranks_bad_message(r, err);
        l->elsewhere.digested.digest += told->digested.digest;
        l->elsewhere.digested.finite &= told->digested.finite;
        l->dropped += told->dropped;
        add_sent(&l->sum, &told->sent);
        for (int t = 0; t < l->own->tables; t++) {
            AS(uint64_t, l->table_keys)[t] += keys[t];
            l->keys += (int64_t)keys[t];
        }
        if (l->seen)
            ctr_inclusion_add_seen(l->seen, keys + l->own->tables);
    }
    return rc;
}

/* The keys of a table that were dropped since the last checkpoint: of a delta, and sorted. */
static const struct ctr_expired *gone_of(const struct lr *m, int table, const struct ctr_expired **end)
{
    const struct ctr_expired *all = AS(const struct ctr_expired, m->gone), *from = all;
    const struct ctr_expired *last = all + (m->expiry.days && m->changed.only ? m->gone.len / sizeof *all : 0);
    while (from < last && from->table < table)
        from++;
    for (*end = from; *end < last && (*end)->table == table;)
        ++*end;
    return from;
}

/* Collect the metadata of the section for all rows, and the number of rows per table. */
static int begin_saving(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    const struct lr *m = l->own;
    struct ctr_buf mine = { 0 };
    if (l->comm)
        l->sent.bytes = *ctr_comm_bytes(l->comm);
    const struct told told = { ctr_lr_digest_keys(m), m->expiry.dropped, l->sent };
    int rc = ctr_buf_append(&mine, &told, sizeof told, err);
    for (int t = 0; t < m->tables && !rc; t++) {
        const struct ctr_expired *end, *gone = gone_of(m, t, &end);
        rc = ctr_buf_append(&mine, &(uint64_t){ m->table[t].learned + (uint64_t)(end - gone) }, sizeof(uint64_t), err);
    }
    if (!rc && m->inclusion)
        rc = ctr_inclusion_save_seen(m->inclusion, &mine, err);
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
    const struct ctr_expired *gone, *gone_end; /* keys that are no more, those to come */
    ctr_merge_row *merge;                      /* receives the rows of this rank … */
    void *merge_ctx;
    ctr_lr_take_sorted *take; /* … and those of all ranks, several at a time */
    void *to;
    struct ctr_sparse_numbered place[256];
    struct ctr_buf rows;
    uint64_t n;
};

/* Keys below `key` (NULL: all) that are no more, as rows whose day is none. A key that came again has a row. */
static int merge_gone(struct saving *s, const uint64_t *key, struct ctr_err *err)
{
    const struct lr *m = s->l->own;
    static _Alignas(8) uint8_t row[CTR_SPARSE_MAX_STRIDE];
    int rc = 0;
    for (; s->gone < s->gone_end && (!key || s->gone->key < *key) && !rc; s->gone++)
        if (s->gone + 1 == s->gone_end || s->gone[1].key != s->gone->key) {
            ctr_expiry_stamp(&m->expiry, row, CTR_NO_DAY);
            rc = s->merge(s->merge_ctx, s->gone->key, row + CTR_STATE_AT, err);
        }
    while (key && s->gone < s->gone_end && s->gone->key == *key)
        s->gone++;
    return rc;
}

static int merge_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct saving *s = ctx;
    const struct lr *m = s->l->own;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        if (!ctr_lr_saves(m, e[i].number))
            continue;
        rc = merge_gone(s, &e[i].key, err);
        if (!rc)
            rc = s->merge(s->merge_ctx, e[i].key, ctr_states_row(&m->states, e[i].number) + CTR_STATE_AT, err);
    }
    return rc;
}

static int own_rows(void *ctx, ctr_merge_row *take, void *to, struct ctr_err *err)
{
    struct saving *s = ctx;
    s->merge = take;
    s->merge_ctx = to;
    s->gone = gone_of(s->l->own, s->table, &s->gone_end);
    int rc = ctr_keys_sorted(&s->l->own->table[s->table], merge_range, s, err);
    return rc ? rc : merge_gone(s, NULL, err);
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
    ctr_lr_sort_gone(l->own);
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

/* ---- deltas and the state of a checkpoint ---- */

int ctr_lr_ranks_changes(void *learner, enum ctr_changes what, struct ctr_err *err)
{
    return ctr_model_lr.changes(((struct ctr_lr_ranks *)learner)->own, what, err);
}

/* The day, the number of keys dropped by all ranks; then the states of the filters, in the order of ranks. */
int ctr_lr_ranks_state(const void *learner, struct ctr_buf *words, struct ctr_err *err)
{
    const struct ctr_lr_ranks *l = learner;
    struct ctr_expiry e = l->own->expiry;
    struct ctr_buf mine = { 0 };
    int rc = 0;
    e.dropped = l->dropped; /* save_schema has summed it */
    if (e.days)
        rc = ctr_expiry_save(&e, words, err);
    if (rc || !l->decides)
        return rc;
    rc = ctr_inclusion_save(l->own->inclusion, &mine, err);
    if (!rc)
        rc = ctr_comm_gather(l->comm, CTR_COMM_CONTROL, mine.data, mine.len, l->in, err);
    for (int r = 0; r < l->ranks && !rc; r++)
        rc = ctr_buf_append(words, l->in[r].data, l->in[r].len, err);
    ctr_buf_free(&mine);
    return rc;
}

/* What ranks of another number have seen: rank 0 tells it. */
static int restore_seen(struct ctr_lr_ranks *l, const uint64_t *word, size_t states, struct ctr_err *err)
{
    struct ctr_inclusion *in = l->own->inclusion;
    const size_t each = ctr_inclusion_words(in);
    int rc = ctr_inclusion_load(in, word, each, err);
    if (!rc && ctr_comm_rank(l->comm))
        ctr_inclusion_clear_seen(in);
    for (size_t i = 1; i < states && !rc && !ctr_comm_rank(l->comm); i++)
        ctr_inclusion_add_seen(in, word + i * each);
    return rc;
}

int ctr_lr_ranks_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    struct lr *m = l->own;
    if (m->expiry.days && words >= CTR_EXPIRY_WORDS) {
        ctr_expiry_load(&m->expiry, word);
        m->expiry.dropped *= !ctr_comm_rank(l->comm);
        word += CTR_EXPIRY_WORDS;
        words -= CTR_EXPIRY_WORDS;
    }
    const size_t each = m->inclusion ? ctr_inclusion_words(m->inclusion) : 1, states = words / each;
    if (words % each || !m->inclusion != !words)
        return ctr_fail(err, CTR_EDATA, "the checkpoint's state of --inclusion is damaged");
    if (!words)
        return 0;
    if (states == (size_t)l->ranks)
        return ctr_inclusion_load(m->inclusion, word + (size_t)ctr_comm_rank(l->comm) * each, each, err);
    if (ctr_inclusion_filters(m->inclusion))
        return ctr_fail(err, CTR_EUSAGE,
                        "the checkpoint has the filters of %zu ranks, which --inclusion bloom=N cannot cut anew: "
                        "resume with as many",
                        states);
    return restore_seen(l, word, states, err);
}

/* The latest day that any rank has read: a day begins for all of them at once. */
static int agree_on_day(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    struct ctr_expiry *e = &l->own->expiry;
    int rc = ctr_comm_gather(l->comm, CTR_COMM_CONTROL, &e->today, sizeof e->today, l->in, err);
    for (int r = 0; r < l->ranks && !rc; r++)
        e->today = CTR_MAX(e->today, AS(const int32_t, l->in[r])[0]);
    return rc;
}

int ctr_lr_ranks_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    int rc = ctr_lr_load(l->own, tables, r, err);
    if (!rc && l->own->expiry.days)
        rc = agree_on_day(l, err);
    return rc ? rc : ctr_lr_ranks_bind(l, NULL, tables, err);
}
