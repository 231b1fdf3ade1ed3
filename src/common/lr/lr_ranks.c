/* SPDX-License-Identifier: Apache-2.0
 *
 * lr over ranks, in minibatches: every rank trains on its own minibatches and owns the keys that ctr_shard_owns assigns
 * to it by hash; a struct lr holds their states, and also reads and writes the files. Every rank has the bias. A step
 * is one minibatch per rank:
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
#include <math.h>
#include <stdlib.h>

#include "common/lr/lr.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

struct lr_ranks {
    struct lr *own; /* the keys of this rank, and the bias */
    struct ctr_comm *comm;
    int ranks;
    int64_t minibatch, keys; /* keys: over all ranks, at the last save */
    /* The worker's minibatch. Its distinct keys (slots) are numbered in order of first occurrence. */
    int64_t rows, slots;
    bool whole; /* the minibatches of all ranks are complete, as of the last round */
    struct table_keys {
        struct ctr_keyset set;
        struct ctr_buf slot; /* i32, by number in the set */
        int64_t asked;       /* number of slots already requested */
    } * table;
    int tables;
    struct ctr_buf start, slot, x;   /* i64 [rows + 1]; i32, f64 [entries] */
    struct ctr_buf label, weight, p; /* f64 [rows] */
    struct ctr_buf w, sums, term;    /* f64 [slots]; struct sums [slots]; f64: of a row */
    struct ctr_buf *place;           /* by owner, i32: slots in the order of their requests */
    int64_t *here;                   /* by owner: number of weights received */
    /* The owner's data: state numbers requested by ranks, each once; and per rank the requested ones, and how many have
     * been sent.
     */
    struct ctr_keyset wanted;
    struct ctr_buf number, all; /* u32, struct sums, by the number in `wanted` */
    struct ctr_buf *asked;      /* by rank, i32 */
    int64_t *given;
    struct ctr_comm_part *part; /* [ranks] */
    int64_t *known;             /* [ranks]: bytes that come */
    struct ctr_buf *out, *in;   /* [ranks] */
    /* Used while saving. */
    struct ctr_lr_elsewhere elsewhere;
    struct ctr_buf table_keys; /* u64, by table */
};

struct sums {
    double g, squares;
};

/* in_n: bytes that come, or NULL. */
static int swap(struct lr_ranks *l, enum ctr_comm_kind kind, const int64_t *in_n, struct ctr_err *err)
{
    for (int r = 0; r < l->ranks; r++)
        l->part[r] = (struct ctr_comm_part){ l->out[r].data, l->out[r].len };
    return ctr_comm_swap_known(l->comm, kind, l->part, l->in, in_n, err);
}

static int bad_message(int rank, struct ctr_err *err)
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
        { p->bloom || p->poisson > 0, "--inclusion" },
        { p->expire, "--expire" },
        { p->uncertainty, "--uncertainty" },
    };
    if (p->minibatch < 2)
        return ctr_fail(err, CTR_EUSAGE,
                        "lr learns over ranks (mpirun) by minibatches: say of how many rows of each: --minibatch ROWS");
    for (size_t i = 0; i < CTR_COUNT(rowwise); i++)
        if (rowwise[i].given)
            return ctr_fail(err, CTR_EUSAGE, "lr over ranks (mpirun) learns by FTRL-Proximal: leave %s out",
                            rowwise[i].option);
    return 0;
}

static void ranks_free(void *learner)
{
    struct lr_ranks *l = learner;
    if (!l)
        return;
    struct ctr_buf *bufs[] = { &l->start, &l->slot, &l->x,    &l->label,  &l->weight, &l->p,
                               &l->w,     &l->sums, &l->term, &l->number, &l->all,    &l->table_keys };
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
    }
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
    struct lr_ranks *l = calloc(1, sizeof *l);
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
    if (rc) {
        ranks_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

static int ranks_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    struct lr_ranks *l = learner;
    (void)in;
    int rc = ctr_lr_bind(l->own, names, err);
    if (rc || names->n <= l->tables)
        return rc;
    struct table_keys *t = realloc(l->table, (size_t)names->n * sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, (size_t)names->n * sizeof *t);
    memset(t + l->tables, 0, (size_t)(names->n - l->tables) * sizeof *t);
    l->table = t;
    l->tables = names->n;
    return 0;
}

/* ---- rows, as entries that name slots ---- */

static void *more(struct ctr_buf *b, int64_t n, size_t size, int *rc, struct ctr_err *err)
{
    return ctr_buf_extend(b, n, size, rc, err);
}

static int32_t slot_of(struct lr_ranks *l, int table, uint64_t hash, int *rc, struct ctr_err *err)
{
    struct table_keys *t = &l->table[table];
    const int32_t at = ctr_keyset_add(&t->set, hash, rc, err), next = (int32_t)l->slots;
    if (!*rc && (size_t)at == t->slot.len / sizeof at) {
        *rc = ctr_buf_append(&t->slot, &next, sizeof next, err);
        l->slots++;
    }
    return *rc ? 0 : AS(int32_t, t->slot)[at];
}

static int add_rows(struct lr_ranks *l, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    const int64_t first = r->start[from], entries = r->start[from + n] - first;
    int rc = l->start.len ? 0 : ctr_buf_append(&l->start, &(int64_t){ 0 }, sizeof(int64_t), err);
    int64_t *start = more(&l->start, n, sizeof *start, &rc, err);
    int32_t *slot = more(&l->slot, entries, sizeof *slot, &rc, err);
    double *x = more(&l->x, entries, sizeof *x, &rc, err);
    double *label = more(&l->label, n, sizeof *label, &rc, err);
    double *weight = more(&l->weight, n, sizeof *weight, &rc, err);
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
    }
    l->rows += n;
    return rc;
}

static void forget(struct lr_ranks *l)
{
    struct ctr_buf *bufs[] = { &l->start, &l->slot, &l->x, &l->label, &l->weight, &l->p, &l->w, &l->number };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_clear(bufs[i]);
    for (int t = 0; t < l->tables; t++) {
        ctr_keyset_clear(&l->table[t].set);
        ctr_buf_clear(&l->table[t].slot);
        l->table[t].asked = 0;
    }
    for (int r = 0; r < l->ranks; r++) {
        ctr_buf_clear(&l->place[r]);
        ctr_buf_clear(&l->asked[r]);
        l->here[r] = l->given[r] = 0;
    }
    ctr_keyset_clear(&l->wanted);
    l->rows = l->slots = 0;
}

/* ---- a round: keys to owners, weights back ---- */

static int owner_of(const struct lr_ranks *l, uint64_t hash)
{
    return (int)(hash % (uint64_t)l->ranks);
}

/* Send each owner: whether this rank's minibatch is complete; the number of keys per table; the keys. */
static int ask(struct lr_ranks *l, bool whole, struct ctr_err *err)
{
    const size_t head = (size_t)(1 + l->tables) * sizeof(int64_t);
    int rc = 0;
    for (int o = 0; o < l->ranks && !rc; o++) {
        ctr_buf_clear(&l->out[o]);
        int64_t *count = more(&l->out[o], 1 + l->tables, sizeof *count, &rc, err);
        if (!rc)
            memset(count, 0, head);
        if (!rc)
            count[0] = whole;
    }
    for (int t = 0; t < l->tables && !rc; t++) {
        struct table_keys *k = &l->table[t];
        const uint64_t *hash = ctr_keyset_hashes(&k->set);
        for (int64_t i = k->asked; i < k->set.n && !rc; i++) {
            const int o = owner_of(l, hash[i]);
            rc = ctr_buf_append(&l->out[o], &hash[i], sizeof *hash, err);
            if (!rc)
                rc = ctr_buf_append(&l->place[o], &AS(int32_t, k->slot)[i], sizeof(int32_t), err);
            AS(int64_t, l->out[o])[1 + t]++;
        }
        k->asked = k->set.n;
    }
    if (!rc)
        rc = swap(l, CTR_COMM_IDS, NULL, err);
    if (!rc)
        ctr_comm_recount(l->comm, CTR_COMM_IDS, CTR_COMM_CONTROL, (int64_t)head);
    return rc;
}

/* Find the state of a key, creating it if new; returns its index in `wanted`. */
static int32_t want(struct lr_ranks *l, int table, uint64_t hash, int *rc, struct ctr_err *err)
{
    struct lr *m = l->own;
    uint8_t *row;
    if ((*rc = ctr_keys_get(&m->table[table], &m->states, hash, &row, err)))
        return 0;
    const uint32_t number = (uint32_t)((uint64_t)(row - ctr_states_rows(&m->states)) / m->states.bytes);
    const int32_t at = ctr_keyset_add(&l->wanted, ctr_mix64(number), rc, err);
    if (!*rc && (size_t)at == l->number.len / sizeof number)
        *rc = ctr_buf_append(&l->number, &number, sizeof number, err);
    return at;
}

static int take_asked(struct lr_ranks *l, int r, struct ctr_err *err)
{
    const struct ctr_buf *in = &l->in[r];
    const int64_t *count = AS(const int64_t, *in);
    const uint64_t *hash = (const uint64_t *)(count + 1 + l->tables);
    int64_t n = 0;
    int rc = 0;
    const bool has_head = in->len >= (size_t)(1 + l->tables) * sizeof *count;
    for (int t = 0; t < l->tables && has_head; t++)
        n += count[1 + t];
    if (!has_head || in->len != (size_t)(1 + l->tables + n) * sizeof *count)
        return bad_message(r, err);
    l->whole &= count[0] != 0;
    int32_t *at = more(&l->asked[r], n, sizeof *at, &rc, err);
    for (int t = 0; t < l->tables && !rc; t++)
        for (int64_t i = 0; i < count[1 + t] && !rc; i++)
            *at++ = want(l, t, *hash++, &rc, err);
    return rc;
}

static double weight_of(const struct lr *m, const uint8_t *row)
{
    struct ctr_state s;
    ctr_state_read(&m->learning, &m->more.event, row, &s);
    return ctr_state_weight(&m->learning, &m->more.event, &s);
}

static int give_weights(struct lr_ranks *l, struct ctr_err *err)
{
    const struct lr *m = l->own;
    const uint32_t *number = AS(uint32_t, l->number);
    int rc = 0;
    for (int r = 0; r < l->ranks && !rc; r++) {
        const int32_t *at = AS(int32_t, l->asked[r]);
        const int64_t n = (int64_t)(l->asked[r].len / sizeof *at);
        ctr_buf_clear(&l->out[r]);
        double *w = more(&l->out[r], n - l->given[r], sizeof *w, &rc, err);
        for (int64_t i = l->given[r]; i < n && !rc; i++)
            *w++ = weight_of(m, ctr_states_row(&m->states, number[at[i]]));
        l->given[r] = n;
    }
    for (int o = 0; o < l->ranks; o++)
        l->known[o] = ((int64_t)(l->place[o].len / sizeof(int32_t)) - l->here[o]) * (int64_t)sizeof(double);
    return rc ? rc : swap(l, CTR_COMM_VECTORS, l->known, err);
}

static int take_weights(struct lr_ranks *l, struct ctr_err *err)
{
    int rc = 0;
    (void)more(&l->w, l->slots - (int64_t)(l->w.len / sizeof(double)), sizeof(double), &rc, err);
    double *w = AS(double, l->w);
    for (int o = 0; o < l->ranks && !rc; o++) {
        const int32_t *slot = AS(int32_t, l->place[o]);
        const int64_t n = (int64_t)(l->place[o].len / sizeof *slot), from = l->here[o];
        if (l->in[o].len != (size_t)(n - from) * sizeof *w)
            return bad_message(o, err);
        for (int64_t i = from; i < n; i++)
            w[slot[i]] = AS(double, l->in[o])[i - from];
        l->here[o] = n;
    }
    return rc;
}

static int take_part(struct lr_ranks *l, bool whole, struct ctr_err *err)
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

/* The logit of row i of the minibatch, row `of` of r. It has the bits of lr_rows.c: a term's lane is its position or,
 * if tables may occur more than once per row, its table's number. */
static double logit_of(struct lr_ranks *l, const struct ctr_rows *r, int64_t of, int64_t i)
{
    const struct lr *m = l->own;
    const int64_t at = AS(int64_t, l->start)[i], k = AS(int64_t, l->start)[i + 1] - at, all = k + !m->no_bias;
    const double *w = AS(double, l->w), *x = AS(double, l->x) + at;
    const int32_t *slot = AS(int32_t, l->slot) + at;
    double *term = AS(double, l->term), lane[CTR_LANES] = { 0 };
    for (int64_t j = 0; j < k; j++)
        term[j] = w[slot[j]] * x[j];
    if (!m->no_bias)
        term[k] = weight_of(m, m->bias);
    for (int64_t j = all; j < ctr_lanes_padded(all); j++)
        term[j] = 0;
    if (r->one_a_table)
        return ctr_lanes_dot(term, NULL, all);
    for (int64_t j = 0; j < k; j++)
        lane[m->seed[r->table[r->start[of] + j]] % CTR_LANES] += term[j];
    lane[0] += all > k ? term[k] : 0;
    return ctr_lanes_join(lane);
}

static int score_rows(struct lr_ranks *l, const struct ctr_rows *r, int64_t from, int64_t n, double *score,
                      struct ctr_err *err)
{
    const int64_t first = l->rows - n;
    int rc = 0;
    for (int64_t i = from; i < from + n && !rc; i++)
        rc = ctr_buf_room(&l->term, ctr_lanes_padded(r->start[i + 1] - r->start[i] + 1), sizeof(double), err);
    double *p = more(&l->p, n, sizeof *p, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        score[i] = p[i] = ctr_sigmoid(logit_of(l, r, from + i, first + i));
        if (!(p[i] >= 0))
            rc = ctr_lr_diverged(r->first_row + from + i + 1, err);
    }
    return rc;
}

/* ---- an update ---- */

/* Sum per key of the minibatch, in row order; and for the bias. */
static int sum_rows(struct lr_ranks *l, struct sums *bias, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&l->sums);
    struct sums *sum = more(&l->sums, l->slots, sizeof *sum, &rc, err);
    *bias = (struct sums){ 0, 0 };
    if (rc)
        return rc;
    if (l->slots)
        memset(sum, 0, (size_t)l->slots * sizeof *sum);
    for (int64_t i = 0; i < l->rows; i++) {
        const double g = AS(double, l->weight)[i] * (AS(double, l->p)[i] - AS(double, l->label)[i]);
        for (int64_t e = AS(int64_t, l->start)[i]; e < AS(int64_t, l->start)[i + 1]; e++) {
            const double gx = g * AS(double, l->x)[e];
            struct sums *of = &sum[AS(int32_t, l->slot)[e]];
            of->g += gx;
            of->squares += gx * gx;
        }
        bias->g += g;
        bias->squares += g * g;
    }
    return 0;
}

/* Send each owner the sums of the bias, then those of its keys. */
static int send_sums(struct lr_ranks *l, const struct sums *bias, struct ctr_err *err)
{
    int rc = 0;
    for (int o = 0; o < l->ranks && !rc; o++) {
        const int32_t *slot = AS(int32_t, l->place[o]);
        const int64_t n = (int64_t)(l->place[o].len / sizeof *slot);
        ctr_buf_clear(&l->out[o]);
        struct sums *to = more(&l->out[o], 1 + n, sizeof *to, &rc, err);
        if (!rc)
            *to++ = *bias;
        for (int64_t i = 0; i < n && !rc; i++)
            to[i] = AS(struct sums, l->sums)[slot[i]];
    }
    for (int r = 0; r < l->ranks; r++)
        l->known[r] = (1 + (int64_t)(l->asked[r].len / sizeof(int32_t))) * (int64_t)sizeof(struct sums);
    return rc ? rc : swap(l, CTR_COMM_GRADIENTS, l->known, err);
}

static void learn_key(struct lr *m, const struct sums *sum, uint8_t *row)
{
    const struct ctr_learning *l = &m->learning;
    struct ctr_state s;
    ctr_state_read(l, &m->more.event, row, &s);
    const double w = ctr_state_weight(l, &m->more.event, &s), n = s.n + sum->squares;
    const double sigma = (ctr_learning_root(l, n) - ctr_learning_root(l, s.n)) * l->inv_alpha;
    s.value += sum->g - sigma * w;
    s.n = n;
    ctr_state_write(l, &m->more.event, &s, row);
}

static void add(struct sums *to, const struct sums *from)
{
    to->g += from->g;
    to->squares += from->squares;
}

static int take_sums(struct lr_ranks *l, struct ctr_err *err)
{
    struct lr *m = l->own;
    struct sums bias = { 0, 0 };
    int rc = 0;
    ctr_buf_clear(&l->all);
    struct sums *all = more(&l->all, l->wanted.n, sizeof *all, &rc, err);
    if (rc)
        return rc;
    if (l->wanted.n)
        memset(all, 0, (size_t)l->wanted.n * sizeof *all);
    for (int r = 0; r < l->ranks; r++) {
        const struct sums *from = AS(const struct sums, l->in[r]);
        const int32_t *at = AS(int32_t, l->asked[r]);
        const int64_t n = (int64_t)(l->asked[r].len / sizeof *at);
        if (l->in[r].len != (size_t)(1 + n) * sizeof *from)
            return bad_message(r, err);
        add(&bias, from);
        for (int64_t i = 0; i < n; i++)
            add(&all[at[i]], &from[1 + i]);
    }
    for (int64_t i = 0; i < l->wanted.n; i++)
        learn_key(m, &all[i], ctr_states_row(&m->states, AS(uint32_t, l->number)[i]));
    if (!m->no_bias)
        learn_key(m, &bias, m->bias);
    return 0;
}

static int update(struct lr_ranks *l, struct ctr_err *err)
{
    struct sums bias;
    int rc = 0;
    while (!rc && !l->whole)
        rc = take_part(l, true, err);
    if (!rc)
        rc = sum_rows(l, &bias, err);
    if (!rc)
        rc = send_sums(l, &bias, err);
    if (!rc)
        rc = take_sums(l, err);
    forget(l);
    return rc;
}

static int64_t own_bytes(const struct lr_ranks *l)
{
    uint64_t bytes = 0;
    for (int t = 0; t < l->own->tables; t++)
        bytes += ctr_keys_bytes(&l->own->table[t], &l->own->states);
    return (int64_t)bytes;
}

static int check_memory(const struct lr_ranks *l, int64_t bound, struct ctr_err *err)
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
    struct lr_ranks *l = learner;
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

static int ranks_end_pass(void *learner, struct ctr_err *err)
{
    struct lr_ranks *l = learner;
    l->whole = false;
    return l->rows ? update(l, err) : 0;
}

static int64_t ranks_pending(const void *learner)
{
    return ((const struct lr_ranks *)learner)->rows;
}

static void ranks_set_bias(void *learner, double log_odds)
{
    ctr_model_lr.set_bias(((struct lr_ranks *)learner)->own, log_odds);
}

static int64_t ranks_keys(const void *learner)
{
    return ((const struct lr_ranks *)learner)->keys;
}

static int64_t ranks_memory(const void *learner)
{
    return own_bytes(learner);
}

/* ---- files: lr's, out of the rows of all ranks, which come to rank 0 in the order of keys ---- */

struct told {
    struct ctr_lr_digested digested;
};

static int sum_told(struct lr_ranks *l, const struct ctr_buf *mine, struct ctr_err *err)
{
    const size_t bytes = mine->len;
    int rc = ctr_comm_gather(l->comm, CTR_COMM_CONTROL, mine->data, bytes, l->in, err);
    l->elsewhere.digested = (struct ctr_lr_digested){ 0, true };
    for (int r = 0; r < l->ranks && !rc; r++) {
        const struct told *told = AS(const struct told, l->in[r]);
        const uint64_t *keys = (const uint64_t *)(told + 1);
        if (l->in[r].len != bytes)
            return bad_message(r, err);
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
static int begin_saving(struct lr_ranks *l, struct ctr_err *err)
{
    const struct lr *m = l->own;
    struct ctr_buf mine = { 0 };
    const struct told told = { ctr_lr_digest_keys(m) };
    int rc = ctr_buf_append(&mine, &told, sizeof told, err);
    for (int t = 0; t < m->tables && !rc; t++)
        rc = ctr_buf_append(&mine, &m->table[t].learned, sizeof(uint64_t), err);
    ctr_buf_clear(&l->table_keys);
    uint64_t *keys = more(&l->table_keys, m->tables, sizeof *keys, &rc, err);
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
    struct lr_ranks *l;
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
    struct lr_ranks *l = ctx;
    struct saving s = { .l = l, .table = table, .take = take, .to = to };
    int rc = ctr_merge_ranks(l->comm, l->own->states.bytes, own_rows, &s, take_row, &s, err);
    if (!rc)
        rc = take_some(&s, err);
    ctr_buf_free(&s.rows);
    return rc;
}

static int ranks_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct lr_ranks *l = (struct lr_ranks *)(uintptr_t)learner;
    int rc = begin_saving(l, err);
    l->elsewhere.each = rows_of_all;
    l->elsewhere.ctx = l;
    l->own->elsewhere = &l->elsewhere;
    if (!rc)
        rc = ctr_lr_save_schema(l->own, s, err);
    l->own->elsewhere = NULL;
    return rc;
}

static int ranks_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct lr_ranks *l = learner;
    l->own->elsewhere = &l->elsewhere;
    int rc = ctr_lr_save(l->own, tables, w, err);
    l->own->elsewhere = NULL;
    return rc;
}

static int ranks_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct lr_ranks *l = learner;
    int rc = ctr_lr_load(l->own, tables, r, err);
    return rc ? rc : ranks_bind(l, NULL, tables, err);
}

const struct ctr_model ctr_model_lr_ranks = {
    .name = "lr",
    .summary = "lr over ranks, by minibatches",
    .options = ctr_lr_options,
    .rows = CTR_MAX_MINIBATCH,
    .learner_new = ranks_new,
    .learner_free = ranks_free,
    .bind = ranks_bind,
    .set_bias = ranks_set_bias,
    .train_rows = ranks_train_rows,
    .end_pass = ranks_end_pass,
    .pending = ranks_pending,
    .keys = ranks_keys,
    .memory = ranks_memory,
    .save_schema = ranks_save_schema,
    .save = ranks_save,
    .load = ranks_load,
};
