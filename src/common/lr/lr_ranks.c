/* SPDX-License-Identifier: Apache-2.0
 *
 * lr over ranks, in minibatches: every rank trains on its own minibatches and owns the keys that ctr_shard_owner
 * assigns to it by hash; a struct lr holds their states, and also reads and writes the files. Every rank has the bias.
 * A step is one minibatch per rank:
 *
 *     ask      worker: distinct keys -> owners           owner: their weights -> workers
 *     score    worker: p of each row, and of each key the sums of g and of g^2, g = weight (p - y) x
 *     push     worker: both sums -> owners               owner: adds them in the order of ranks, and learns
 *
 *     z += sum g - (n'^power - n^power) / alpha w        n' = n + sum g^2
 *
 * This equals lr_rows.c on a minibatch with the rows of all ranks, because the roots telescope: results differ only by
 * rounding. A minibatch may arrive in pieces: each piece is a round, in which all ranks take part, until the minibatch
 * of each rank is complete; a rank without rows requests nothing. Results do not depend on threads or pieces. */
#include <stdlib.h>

#include "common/lr/lr_ranks.h"

#define AS(type, buf) CTR_LR_AS(type, buf)

int ctr_lr_ranks_swap(struct ctr_lr_ranks *l, enum ctr_comm_kind kind, const int64_t *in_n, struct ctr_err *err)
{
    for (int r = 0; r < l->ranks; r++)
        l->part[r] = (struct ctr_comm_part){ l->out[r].data, l->out[r].len };
    return ctr_comm_swap_known(l->comm, kind, l->part, l->in, in_n, err);
}

int ctr_lr_ranks_bad_message(int rank, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "rank %d sent a message of another shape: do all ranks run the same program?",
                    rank);
}

/* ---- the learner ---- */

static int check_options(const struct ctr_params *p, struct ctr_err *err)
{
    const struct {
        bool given;
        const char *option;
    } rowwise[] = {
        { strcmp(p->optimizer, "ftrl") != 0, "--optimizer" },
        { strcmp(p->learning_rate, "per-coordinate") != 0, "--learning-rate" },
        { !strcmp(p->precision, "q2.13"), "--precision q2.13" },
        { p->uncertainty, "--uncertainty" },
    };
    if (p->minibatch < 2)
        return ctr_fail(err, CTR_EUSAGE,
                        "lr learns over ranks (mpirun) by minibatches: say of how many rows of each: --minibatch ROWS");
    for (size_t i = 0; i < CTR_COUNT(rowwise); i++)
        if (rowwise[i].given)
            return ctr_fail(err, CTR_EUSAGE, "%s learns by FTRL-Proximal from sums of gradients: leave %s out",
                            p->comm ? "lr over ranks (mpirun)" : "lr by --minibatch with --inclusion or --expire",
                            rowwise[i].option);
    return 0;
}

static void ranks_free(void *learner)
{
    struct ctr_lr_ranks *l = learner;
    if (!l)
        return;
    struct ctr_buf *bufs[] = { &l->start,   &l->slot,     &l->x,    &l->label,  &l->weight, &l->p,
                               &l->w,       &l->sums,     &l->term, &l->number, &l->all,    &l->table_keys,
                               &l->refused, &l->occurred, &l->at,   &l->row,    &l->fresh };
    struct ctr_buf *lists[] = { l->place, l->asked, l->out, l->in };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (size_t i = 0; i < CTR_COUNT(lists); i++) {
        for (int r = 0; lists[i] && r < l->ranks; r++)
            ctr_buf_free(&lists[i][r]);
        free(lists[i]);
    }
    for (int t = 0; t < l->tables; t++) {
        ctr_keyset_free(&l->table[t].set);
        ctr_buf_free(&l->table[t].slot);
        ctr_keyset_free(&l->table[t].unknown);
        ctr_buf_free(&l->table[t].unknown_at);
    }
    ctr_inclusion_free(l->seen);
    ctr_keyset_free(&l->wanted);
    free(l->table);
    free(l->here);
    free(l->given);
    free(l->part);
    free(l->known);
    ctr_lr_free(l->own);
    free(l);
}

static int ranks_new(void **out, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    const size_t n = (size_t)ctr_comm_size(p->comm);
    struct ctr_lr_ranks *l = calloc(1, sizeof *l);
    void *own = NULL;
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->comm = p->comm;
    l->ranks = (int)n;
    l->minibatch = p->minibatch;
    l->place = calloc(n, sizeof *l->place);
    l->here = calloc(n, sizeof *l->here);
    l->asked = calloc(n, sizeof *l->asked);
    l->given = calloc(n, sizeof *l->given);
    l->part = calloc(n, sizeof *l->part);
    l->known = calloc(n, sizeof *l->known);
    l->out = calloc(n, sizeof *l->out);
    l->in = calloc(n, sizeof *l->in);
    const bool whole = l->place && l->here && l->asked && l->given && l->part && l->known && l->out && l->in;
    int rc = whole ? check_options(p, err) : ctr_fail_nomem(err, n * sizeof *l->place);
    if (!rc)
        rc = ctr_lr_new(&own, m, p, err);
    l->own = own;
    if (!rc) {
        l->decides = l->own->inclusion;
        rc = l->decides ? ctr_inclusion_new(&l->seen, p, err) : 0;
    }
    l->day = l->latest = CTR_NO_DAY;
    if (rc) {
        ranks_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

int ctr_lr_ranks_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    (void)in;
    int rc = ctr_lr_bind(l->own, names, err);
    if (rc || names->n <= l->tables)
        return rc;
    struct ctr_lr_ranks_table *t = realloc(l->table, (size_t)names->n * sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, (size_t)names->n * sizeof *t);
    memset(t + l->tables, 0, (size_t)(names->n - l->tables) * sizeof *t);
    l->table = t;
    l->tables = names->n;
    return 0;
}

/* ---- rows, as entries that name slots ---- */

static int32_t slot_of(struct ctr_lr_ranks *l, int table, uint64_t hash, int *rc, struct ctr_err *err)
{
    struct ctr_lr_ranks_table *t = &l->table[table];
    const int32_t at = ctr_keyset_add(&t->set, hash, rc, err), next = (int32_t)l->slots;
    if (!*rc && (size_t)at == t->slot.len / sizeof at) {
        *rc = ctr_buf_append(&t->slot, &next, sizeof next, err);
        l->slots++;
    }
    return *rc ? 0 : AS(int32_t, t->slot)[at];
}

static int add_rows(struct ctr_lr_ranks *l, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    const int64_t first = r->start[from], entries = r->start[from + n] - first;
    int rc = l->start.len ? 0 : ctr_buf_append(&l->start, &(int64_t){ 0 }, sizeof(int64_t), err);
    int64_t *start = ctr_lr_ranks_more(&l->start, n, sizeof *start, &rc, err);
    int32_t *slot = ctr_lr_ranks_more(&l->slot, entries, sizeof *slot, &rc, err);
    double *x = ctr_lr_ranks_more(&l->x, entries, sizeof *x, &rc, err);
    double *label = ctr_lr_ranks_more(&l->label, n, sizeof *label, &rc, err);
    double *weight = ctr_lr_ranks_more(&l->weight, n, sizeof *weight, &rc, err);
    int64_t *row = ctr_lr_ranks_more(&l->row, l->decides ? n : 0, sizeof *row, &rc, err);
    if (!rc && l->slot.len / sizeof *slot > INT32_MAX)
        rc = ctr_fail(err, CTR_EDATA, "a minibatch has more than 2^31 keys: lower --minibatch");
    const int64_t before = rc ? 0 : start[-1];
    for (int64_t e = 0; e < entries && !rc; e++) {
        slot[e] = slot_of(l, r->table[first + e], r->hash[first + e], &rc, err);
        x[e] = r->x ? r->x[first + e] : 1;
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        start[i] = before + r->start[from + i + 1] - first;
        label[i] = r->label[from + i];
        weight[i] = r->weight ? r->weight[from + i] : 1;
        if (l->decides)
            row[i] = (r->first_row + from + i) * l->ranks + ctr_comm_rank(l->comm);
        if (r->day)
            l->day = CTR_MAX(l->day, r->day[from + i]);
    }
    l->rows += n;
    return rc;
}

static void forget(struct ctr_lr_ranks *l)
{
    struct ctr_buf *bufs[] = { &l->start, &l->slot, &l->x,      &l->label,   &l->weight, &l->p,
                               &l->w,     &l->row,  &l->number, &l->refused, &l->fresh };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_clear(bufs[i]);
    for (int t = 0; t < l->tables; t++) {
        ctr_keyset_clear(&l->table[t].set);
        ctr_buf_clear(&l->table[t].slot);
        l->table[t].asked = 0;
        ctr_keyset_clear(&l->table[t].unknown);
        ctr_buf_clear(&l->table[t].unknown_at);
    }
    for (int r = 0; r < l->ranks; r++) {
        ctr_buf_clear(&l->place[r]);
        ctr_buf_clear(&l->asked[r]);
        l->here[r] = l->given[r] = 0;
    }
    ctr_keyset_clear(&l->wanted);
    l->rows = l->slots = 0;
    l->day = l->latest = CTR_NO_DAY;
}

/* ---- a round: keys to owners, weights back ---- */

/* Before the keys of a message: whether this rank's minibatch is complete; its latest day; the number of keys per
 * table. */
enum { WHOLE, DAY, COUNTS };

static int64_t head_words(const struct ctr_lr_ranks *l)
{
    return COUNTS + l->tables;
}

/* Send each owner its keys. */
static int ask(struct ctr_lr_ranks *l, bool whole, struct ctr_err *err)
{
    const int64_t words = head_words(l), head = words * (int64_t)sizeof(int64_t);
    int rc = 0;
    for (int o = 0; o < l->ranks && !rc; o++) {
        ctr_buf_clear(&l->out[o]);
        int64_t *count = ctr_lr_ranks_more(&l->out[o], words, sizeof *count, &rc, err);
        if (!rc)
            memset(count, 0, (size_t)head);
        if (!rc) {
            count[WHOLE] = whole;
            count[DAY] = l->day;
        }
    }
    for (int t = 0; t < l->tables && !rc; t++) {
        struct ctr_lr_ranks_table *k = &l->table[t];
        const uint64_t *hash = ctr_keyset_hashes(&k->set);
        for (int64_t i = k->asked; i < k->set.n && !rc; i++) {
            const int o = ctr_shard_owner(hash[i], l->ranks);
            rc = ctr_buf_append(&l->out[o], &hash[i], sizeof *hash, err);
            if (!rc)
                rc = ctr_buf_append(&l->place[o], &AS(int32_t, k->slot)[i], sizeof(int32_t), err);
            AS(int64_t, l->out[o])[COUNTS + t]++;
        }
        k->asked = k->set.n;
    }
    if (!rc)
        rc = ctr_lr_ranks_swap(l, CTR_COMM_IDS, NULL, err);
    if (!rc)
        ctr_comm_recount(l->comm, CTR_COMM_IDS, CTR_COMM_CONTROL, head);
    return rc;
}

/* The index in `wanted` of a table row. */
static int32_t index_of(struct ctr_lr_ranks *l, const uint8_t *row, int *rc, struct ctr_err *err)
{
    const struct lr *m = l->own;
    const uint32_t number = (uint32_t)((uint64_t)(row - ctr_states_rows(&m->states)) / m->states.bytes);
    const int32_t at = ctr_keyset_add(&l->wanted, ctr_mix64(number), rc, err);
    if (!*rc && (size_t)at == l->number.len / sizeof number)
        *rc = ctr_buf_append(&l->number, &number, sizeof number, err);
    return at;
}

/* The number in `fresh` of a key without a state. */
static int32_t fresh_of(struct ctr_lr_ranks *l, int table, uint64_t hash, int *rc, struct ctr_err *err)
{
    struct ctr_lr_ranks_table *t = &l->table[table];
    const int32_t at = ctr_keyset_add(&t->unknown, hash, rc, err);
    const int32_t next = (int32_t)(l->fresh.len / sizeof(struct ctr_lr_fresh));
    if (*rc || (size_t)at < t->unknown_at.len / sizeof at)
        return *rc ? 0 : AS(int32_t, t->unknown_at)[at];
    const struct ctr_lr_fresh new = { .hash = hash, .table = table };
    *rc = ctr_buf_append(&t->unknown_at, &next, sizeof next, err);
    if (!*rc)
        *rc = ctr_buf_append(&l->fresh, &new, sizeof new, err);
    return next;
}

/* Of a key that may have no state. */
static int32_t held(struct ctr_lr_ranks *l, int table, uint64_t hash, int *rc, struct ctr_err *err)
{
    const uint8_t *row = ctr_lr_row_of(l->own, table, hash);
    return row          ? index_of(l, row, rc, err)
           : l->scoring ? CTR_LR_NO_KEY
                        : ctr_lr_fresh_code(fresh_of(l, table, hash, rc, err));
}

/* Of a key whose state is created if it is new. */
static int32_t want(struct ctr_lr_ranks *l, int table, uint64_t hash, int *rc, struct ctr_err *err)
{
    struct lr *m = l->own;
    uint8_t *row;
    const uint64_t before = m->table[table].learned;
    if ((*rc = ctr_keys_get(&m->table[table], &m->states, hash, &row, err)))
        return 0;
    if (m->table[table].learned > before)
        ctr_lr_ranks_changed(l, row, rc, err);
    return index_of(l, row, rc, err);
}

static int take_asked(struct ctr_lr_ranks *l, int r, struct ctr_err *err)
{
    const struct ctr_buf *in = &l->in[r];
    const int64_t *count = AS(const int64_t, *in);
    const uint64_t *hash = (const uint64_t *)(count + head_words(l));
    int64_t n = 0;
    int rc = 0;
    const bool has_head = in->len >= (size_t)head_words(l) * sizeof *count;
    for (int t = 0; t < l->tables && has_head; t++)
        n += count[COUNTS + t];
    if (!has_head || in->len != (size_t)(head_words(l) + n) * sizeof *count)
        return ctr_lr_ranks_bad_message(r, err);
    l->whole &= count[WHOLE] != 0;
    l->latest = CTR_MAX(l->latest, count[DAY]);
    int32_t *at = ctr_lr_ranks_more(&l->asked[r], n, sizeof *at, &rc, err);
    for (int t = 0; t < l->tables && !rc; t++)
        for (int64_t i = 0; i < count[COUNTS + t] && !rc; i++)
            *at++ = l->scoring || l->decides ? held(l, t, *hash++, &rc, err) : want(l, t, *hash++, &rc, err);
    return rc;
}

/* The number of bytes that tell of n keys: their weights, and whether there is a state. */
static int64_t weight_bytes(const struct ctr_lr_ranks *l, int64_t n)
{
    return n * (int64_t)(sizeof(double) + l->decides);
}

static int give_weights(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    const struct lr *m = l->own;
    const uint32_t *number = AS(uint32_t, l->number);
    int rc = 0;
    for (int r = 0; r < l->ranks && !rc; r++) {
        const int32_t *at = AS(int32_t, l->asked[r]);
        const int64_t n = (int64_t)(l->asked[r].len / sizeof *at);
        ctr_buf_clear(&l->out[r]);
        double *w = ctr_lr_ranks_more(&l->out[r], n - l->given[r], sizeof *w, &rc, err);
        for (int64_t i = l->given[r]; i < n && !rc; i++)
            *w++ = at[i] < 0 ? 0 : ctr_lr_weight(m, ctr_states_row(&m->states, number[at[i]]));
        uint8_t *refused = ctr_lr_ranks_more(&l->out[r], l->decides ? n - l->given[r] : 0, sizeof *refused, &rc, err);
        for (int64_t i = l->given[r]; i < n && l->decides && !rc; i++)
            *refused++ = at[i] < 0;
        l->given[r] = n;
    }
    for (int o = 0; o < l->ranks; o++)
        l->known[o] = weight_bytes(l, (int64_t)(l->place[o].len / sizeof(int32_t)) - l->here[o]);
    return rc ? rc : ctr_lr_ranks_swap(l, CTR_COMM_VECTORS, l->known, err);
}

static int take_weights(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    const int64_t new = l->slots - (int64_t)(l->w.len / sizeof(double));
    int rc = 0;
    (void)ctr_lr_ranks_more(&l->w, new, sizeof(double), &rc, err);
    (void)ctr_lr_ranks_more(&l->refused, l->decides ? new : 0, sizeof(uint8_t), &rc, err);
    double *w = AS(double, l->w);
    for (int o = 0; o < l->ranks && !rc; o++) {
        const int32_t *slot = AS(int32_t, l->place[o]);
        const int64_t n = (int64_t)(l->place[o].len / sizeof *slot), from = l->here[o];
        const uint8_t *refused = l->in[o].data + (n - from) * (int64_t)sizeof *w;
        if (l->in[o].len != (size_t)weight_bytes(l, n - from))
            return ctr_lr_ranks_bad_message(o, err);
        for (int64_t i = from; i < n; i++)
            w[slot[i]] = AS(double, l->in[o])[i - from];
        for (int64_t i = from; i < n && l->decides; i++)
            l->refused.data[slot[i]] = refused[i - from];
        l->here[o] = n;
    }
    return rc;
}

static int take_part(struct ctr_lr_ranks *l, bool whole, struct ctr_err *err)
{
    int rc = ask(l, whole, err);
    l->whole = true;
    for (int r = 0; r < l->ranks && !rc; r++)
        rc = take_asked(l, r, err);
    if (!rc)
        rc = give_weights(l, err);
    return rc ? rc : take_weights(l, err);
}

/* ---- scores ---- */

/* The logit of row i of the minibatch, row `of` of r; it has the bits of lr_rows.c. */
static double logit_of(struct ctr_lr_ranks *l, const struct ctr_rows *r, int64_t of, int64_t i)
{
    const struct lr *m = l->own;
    const int64_t at = AS(int64_t, l->start)[i], k = AS(int64_t, l->start)[i + 1] - at, all = k + !m->no_bias;
    const double *w = AS(double, l->w), *x = AS(double, l->x) + at;
    const int32_t *slot = AS(int32_t, l->slot) + at;
    double *term = AS(double, l->term);
    for (int64_t j = 0; j < k; j++)
        term[j] = w[slot[j]] * x[j];
    if (!m->no_bias)
        term[k] = ctr_lr_weight(m, m->bias);
    for (int64_t j = all; j < ctr_lanes_padded(all); j++)
        term[j] = 0;
    return ctr_lr_sum_terms(m, r, of, term);
}

static int score_rows(struct ctr_lr_ranks *l, const struct ctr_rows *r, int64_t from, int64_t n, double *score,
                      struct ctr_err *err)
{
    const int64_t first = l->rows - n;
    int rc = 0;
    for (int64_t i = from; i < from + n && !rc; i++)
        rc = ctr_buf_room(&l->term, ctr_lanes_padded(r->start[i + 1] - r->start[i] + 1), sizeof(double), err);
    double *p = ctr_lr_ranks_more(&l->p, n, sizeof *p, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        score[i] = p[i] = ctr_sigmoid(logit_of(l, r, from + i, first + i));
        if (!(p[i] >= 0))
            rc = ctr_lr_diverged(r->first_row + from + i + 1, err);
    }
    return rc;
}

/* ---- learning ---- */

static int update(struct ctr_lr_ranks *l, struct ctr_err *err)
{
    int rc = 0;
    while (!rc && !l->whole)
        rc = take_part(l, true, err);
    if (!rc)
        rc = ctr_lr_ranks_learn(l, err);
    forget(l);
    return rc;
}

static int64_t own_bytes(const struct ctr_lr_ranks *l)
{
    uint64_t bytes = 0;
    for (int t = 0; t < l->own->tables; t++)
        bytes += ctr_keys_bytes(&l->own->table[t], &l->own->states);
    return (int64_t)bytes + ctr_inclusion_bytes(l->own->inclusion);
}

static int check_memory(const struct ctr_lr_ranks *l, int64_t bound, struct ctr_err *err)
{
    const int64_t bytes = bound ? own_bytes(l) : 0;
    if (bytes <= bound)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "the keys of rank %d need %s, --memory allows %s a rank: raise it, take more ranks, or drop rare "
                    "values (vocab with min=...)",
                    ctr_comm_rank(l->comm), ctr_size_text_beyond((uint64_t)bytes, (uint64_t)bound).s,
                    ctr_size_text((uint64_t)bound).s);
}

static int ranks_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    int rc = 0;
    if (!r->rows) { /* other ranks have rows, but this one has none left */
        l->whole = false;
        rc = update(l, err);
        return rc ? rc : check_memory(l, bound, err);
    }
    for (int64_t at = 0, n; at < r->rows && !rc; at += n) {
        n = CTR_MIN(r->rows - at, l->minibatch - l->rows);
        rc = add_rows(l, r, at, n, err);
        if (!rc)
            rc = take_part(l, l->rows == l->minibatch, err);
        if (!rc)
            rc = score_rows(l, r, at, n, score + at, err);
        if (!rc && l->rows == l->minibatch)
            rc = update(l, err);
        if (!rc)
            rc = check_memory(l, bound, err);
    }
    return rc;
}

/* Ranks that have no rows give weights to the others. */
static int ranks_evaluate(void *learner, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    int rc = r->rows ? add_rows(l, r, 0, r->rows, err) : 0;
    l->scoring = true;
    if (!rc)
        rc = take_part(l, true, err);
    if (!rc)
        rc = score_rows(l, r, 0, r->rows, score, err);
    l->scoring = false;
    forget(l);
    return rc;
}

static int ranks_end_pass(void *learner, struct ctr_err *err)
{
    struct ctr_lr_ranks *l = learner;
    const bool ends = !l->rows || !l->comm; /* over ranks a call that has no rows follows */
    l->whole = false;
    int rc = l->rows ? update(l, err) : 0;
    if (!rc && ends && l->decides)
        ctr_inclusion_end_pass(l->own->inclusion);
    return rc;
}

static int64_t ranks_pending(const void *learner)
{
    return ((const struct ctr_lr_ranks *)learner)->rows;
}

static void ranks_set_bias(void *learner, double log_odds)
{
    ctr_model_lr.set_bias(((struct ctr_lr_ranks *)learner)->own, log_odds);
}

static int64_t ranks_keys(const void *learner)
{
    return ((const struct ctr_lr_ranks *)learner)->keys;
}

static int64_t ranks_memory(const void *learner)
{
    return own_bytes(learner);
}

/* The formulas of deep models (deep_ranks_bytes.c), with what lr sends of a key: a weight, and the sums of g and g^2.
 */
static int bytes_table(const struct ctr_lr_ranks *l, struct ctr_buf *text, struct ctr_err *err)
{
    const double steps = (double)l->steps, ids = (double)l->sum.ids / steps, others = l->ranks - 1;
    const double sums = sizeof(struct ctr_lr_sums);
    double formula[CTR_COMM_KINDS];
    for (int k = 0; k < CTR_COMM_KINDS; k++)
        formula[k] = -1;
    formula[CTR_COMM_IDS] = sizeof(uint64_t) * ids;
    formula[CTR_COMM_VECTORS] = (double)weight_bytes(l, 1) * ids;
    formula[CTR_COMM_GRADIENTS] = sums * ids + (double)l->sum.occurred / steps;
    formula[CTR_COMM_SYNC] = l->ranks * others * sums; /* of the bias: each rank adds up what all send */
    int rc = ctr_buf_format(text, err, "steps                %lld of %d ranks; a step asks for %.1f IDs\n",
                            (long long)l->steps, l->ranks, ids);
    return rc ? rc : ctr_comm_bytes_text(&l->sum.bytes, l->steps, formula, text, err);
}

static int ranks_summary(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_lr_ranks *l = learner;
    int rc = l->own->expiry.days ? ctr_buf_printf(text, err, "keys expired         %lld\n", (long long)l->dropped) : 0;
    if (!rc && l->seen)
        rc = ctr_inclusion_summary(l->seen, l->keys, text, err);
    return rc || !l->comm || !l->steps ? rc : bytes_table(l, text, err);
}

const struct ctr_model ctr_model_lr_ranks = {
    .name = "lr",
    .summary = "lr over ranks, by minibatches",
    .options = ctr_lr_options,
    .rows = CTR_MAX_MINIBATCH,
    .learner_new = ranks_new,
    .learner_free = ranks_free,
    .bind = ctr_lr_ranks_bind,
    .set_bias = ranks_set_bias,
    .train_rows = ranks_train_rows,
    .evaluate = ranks_evaluate,
    .end_pass = ranks_end_pass,
    .pending = ranks_pending,
    .keys = ranks_keys,
    .memory = ranks_memory,
    .add_summary = ranks_summary,
    .changes = ctr_lr_ranks_changes,
    .state = ctr_lr_ranks_state,
    .restore = ctr_lr_ranks_restore,
    .save_schema = ctr_lr_ranks_save_schema,
    .predict_uncertain = ctr_lr_predict_uncertain,
    .save = ctr_lr_ranks_save,
    .load = ctr_lr_ranks_load,
};
