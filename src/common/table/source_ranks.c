/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributes keys over ranks: its owner (ctr_rank_owner) stores a key's row in the source below, and every
 * rank requests what its minibatch needs. See source.h.
 *
 *     begin    worker: distinct keys -> owners          owner: their union, in the order of ranks -> below
 *     values   owner: a row per key of each rank         worker: stores them in the order of its minibatch
 *     push     worker: gradients -> owners              owner: sums them per key in the order of ranks -> below
 *
 * Each step is one swap by all ranks; a rank whose minibatch is empty requests nothing but answers. */
#include "common/table/source_ranks.h"

#include <stdlib.h>

#include "common/table/keyset.h"
#include "common/table/merge_ranks.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

struct over_ranks {
    struct ctr_source base;
    struct ctr_comm *comm;
    struct ctr_source *below;
    struct ctr_source_ranks_kinds kinds;
    int32_t saved; /* floats per row that save returns */
    int ranks;
    struct side { /* per minibatch */
        /* By owner: positions of this rank's keys in the minibatch; how many of them have values. */
        struct ctr_buf *place; /* i32 */
        int64_t *here;
        /* By worker: its requests; how many of them are answered. */
        struct asked {
            struct ctr_buf table, key; /* i32: number of the table; of the key within the table */
            int64_t given;
        } * asked;
        struct ctr_keyset *set; /* by table: union of all requests */
        int sets;
        bool learns; /* values were given and not pushed yet */
    } side[2];
    struct ctr_comm_part *part; /* [ranks] */
    int64_t *known;             /* [ranks]: bytes that come */
    struct ctr_buf *out, *in;   /* [ranks] */
    struct ctr_buf host, sum, l2, squares, seen;
    struct ctr_mem *values, *grad, *l2_row, *squares_sum;
    struct ctr_buf uses, total; /* for count */
    struct begun {              /* the rest of a begin, which the comm's thread does while the caller learns */
        int buffer, tables, rc;
        bool make, runs;
        struct ctr_pool *pool;
        struct ctr_err err;
    } begun;
};

/* Two ranks; rank 0 owns A and C, rank 1 owns B. The minibatch of rank 0 has A B, that of rank 1 has C B:
 *
 *              rank 0                                   rank 1
 *     ask      A to itself, B to 1                      C to 0, B to itself
 *              place[0] = [0], place[1] = [1]           place[0] = [0], place[1] = [1]
 *     union    A C; asked[0] = A, asked[1] = C          B; asked[0] = B, asked[1] = B
 *     values   rows of A to 0, of C to 1                the row of B to 0 and to 1
 *     push     A: its gradient, C: that of rank 1       B: that of rank 0 + that of rank 1; one step
 *
 * A key is looked up and stepped once however many ranks have it, and the sum does not depend on which message came
 * first. Rows of a later add to the same minibatch follow: `here` and `given` say what was sent before. */

/* Wait for it. An error stays until a call can return it. */
static int join(const struct ctr_source *source, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)(uintptr_t)source;
    if (!s->begun.runs)
        return 0;
    ctr_comm_wait(s->comm);
    if (s->begun.rc && err)
        *err = s->begun.err;
    s->begun.runs = s->begun.rc && !err;
    return s->begun.rc;
}

/* Send out[] to the ranks; in_n: bytes that come, or NULL. */
static int swap_known(struct over_ranks *s, enum ctr_comm_kind kind, const int64_t *in_n, struct ctr_err *err)
{
    for (int r = 0; r < s->ranks; r++)
        s->part[r] = (struct ctr_comm_part){ s->out[r].data, s->out[r].len };
    return ctr_comm_swap_known(s->comm, kind, s->part, s->in, in_n, err);
}

static int swap(struct over_ranks *s, enum ctr_comm_kind kind, struct ctr_err *err)
{
    return swap_known(s, kind, NULL, err);
}

static int bad_message(int rank, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "rank %d sent a message of another shape: do all ranks run the same program?",
                    rank);
}

/* ---- begin ---- */

/* Send the keys since the last begin to their owners: a count per table, then the keys of each table. */
static int ask(struct over_ranks *s, int buffer, int tables, struct ctr_err *err)
{
    const struct ctr_source_batch *b = &s->base.batch[buffer];
    struct side *side = &s->side[buffer];
    int rc = 0;
    for (int r = 0; r < s->ranks && !rc; r++) {
        ctr_buf_clear(&s->out[r]);
        int64_t *count = ctr_buf_extend(&s->out[r], tables, sizeof *count, &rc, err);
        if (!rc)
            memset(count, 0, (size_t)tables * sizeof *count);
    }
    for (int t = 0; t < tables && !rc; t++) {
        const struct ctr_source_table *table = &b->table[t];
        const int32_t *place = AS(int32_t, table->places);
        for (int64_t i = table->old; i < table->n && !rc; i++) {
            const int o = ctr_rank_owner(table->hash[i], s->ranks);
            rc = ctr_buf_append(&s->out[o], &table->hash[i], sizeof *table->hash, err);
            if (!rc)
                rc = ctr_buf_append(&side->place[o], &place[i], sizeof *place, err);
            AS(int64_t, s->out[o])[t]++;
        }
    }
    return rc;
}

/* Add rank r's requested keys to the union. */
static int take_asked(struct over_ranks *s, struct side *side, int r, int tables, struct ctr_err *err)
{
    const struct ctr_buf *in = &s->in[r];
    const int64_t *count = AS(const int64_t, *in);
    const uint64_t *hash = (const uint64_t *)(count + tables);
    int64_t all = tables;
    int rc = 0;
    for (int t = 0; t < tables && in->len >= (size_t)tables * sizeof *count; t++)
        all += count[t];
    if (in->len != (size_t)all * sizeof *count)
        return bad_message(r, err);
    for (int32_t t = 0; t < tables; t++) {
        int32_t *key = ctr_buf_extend(&side->asked[r].key, count[t], sizeof *key, &rc, err);
        int32_t *table = ctr_buf_extend(&side->asked[r].table, count[t], sizeof *table, &rc, err);
        for (int64_t i = 0; i < count[t] && !rc; i++) {
            key[i] = ctr_keyset_add(&side->set[t], *hash++, &rc, err);
            table[i] = t;
        }
    }
    return rc;
}

/* Swap the keys, and begin below with the union. */
static int begin_below(struct over_ranks *s, struct begun *g, struct ctr_err *err)
{
    struct side *side = &s->side[g->buffer];
    int rc = swap(s, s->kinds.keys, err);
    if (!rc)
        ctr_comm_recount(s->comm, s->kinds.keys, CTR_COMM_CONTROL, (int64_t)((size_t)g->tables * sizeof(int64_t)));
    for (int r = 0; r < s->ranks && !rc; r++)
        rc = take_asked(s, side, r, g->tables, err);
    struct ctr_want_keys *keys = rc ? NULL : calloc((size_t)g->tables + 1, sizeof *keys);
    if (!rc && !keys)
        rc = ctr_fail_nomem(err, (size_t)g->tables * sizeof *keys);
    if (rc)
        return rc;
    for (int t = 0; t < g->tables; t++)
        keys[t] = (struct ctr_want_keys){ ctr_keyset_hashes(&side->set[t]), side->set[t].n };
    const struct ctr_want theirs = { .tables = g->tables, .keys = keys, .make = g->make, .pool = g->pool };
    rc = ctr_source_begin(s->below, &theirs, g->buffer, err);
    free(keys);
    return rc;
}

static void begin_later(void *ctx)
{
    struct over_ranks *s = ctx;
    s->begun.rc = begin_below(s, &s->begun, &s->begun.err);
}

/* Is the other minibatch being learned from? Then this one has time. */
static bool is_ahead(const struct over_ranks *s, int buffer)
{
    return s->base.batch[!buffer].make && s->side[!buffer].sets && s->side[!buffer].learns;
}

static int ranks_begin(struct ctr_source *source, const struct ctr_want *want, int buffer, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)source;
    int rc = join(source, err);
    if (!rc)
        rc = ctr_array_extend(&s->side[buffer].set, &s->side[buffer].sets, want->tables, sizeof *s->side[buffer].set,
                              err);
    if (!rc)
        rc = ask(s, buffer, want->tables, err);
    if (rc)
        return rc;
    const bool later = is_ahead(s, buffer);
    s->begun = (struct begun){
        .buffer = buffer, .tables = want->tables, .make = want->make, .runs = later, .pool = later ? NULL : want->pool
    }; /* the caller uses its threads */
    if (!later)
        return begin_below(s, &s->begun, err);
    ctr_comm_run(s->comm, begin_later, s);
    return 0;
}

/* ---- values ---- */

/* The floats of a matrix on the host: in place, or copied. */
static int on_host(struct over_ranks *s, struct ctr_mat m, struct ctr_buf *copy, const float **p, struct ctr_err *err)
{
    const size_t bytes = m.rows ? (size_t)((m.rows - 1) * m.stride + m.cols) * sizeof **p : 0;
    int rc = 0;
    *p = NULL;
    if (!bytes)
        return 0;
    if (ctr_dev_is_host(s->base.dev)) {
        rc = ctr_dev_sync(s->base.dev, err);
        *p = (const float *)ctr_mem_host(m.mem) + m.at;
        return rc;
    }
    ctr_buf_clear(copy);
    float *to = ctr_buf_extend(copy, (int64_t)bytes, 1, &rc, err);
    *p = to;
    return rc ? rc : ctr_mem_read(m.mem, (size_t)m.at * sizeof *to, to, bytes, err);
}

static int64_t asked_keys(const struct asked *a)
{
    return (int64_t)(a->key.len / sizeof(int32_t));
}

/* The row below of a rank's requested key i. */
static int64_t row_below(const struct over_ranks *s, int buffer, const struct asked *a, int64_t i)
{
    return ctr_source_places(s->below, buffer, AS(int32_t, a->table)[i])[AS(int32_t, a->key)[i]];
}

static int give_values(struct over_ranks *s, int buffer, struct ctr_err *err)
{
    struct side *side = &s->side[buffer];
    const size_t bytes = (size_t)s->base.width * sizeof(float);
    const float *row;
    struct ctr_mat below;
    int rc = ctr_source_values(s->below, buffer, &below, err);
    if (!rc)
        rc = on_host(s, below, &s->host, &row, err);
    for (int r = 0; r < s->ranks && !rc; r++) {
        struct asked *a = &side->asked[r];
        const int64_t n = asked_keys(a);
        ctr_buf_clear(&s->out[r]);
        float *to = ctr_buf_extend(&s->out[r], (n - a->given) * s->base.width, sizeof *to, &rc, err);
        for (int64_t i = a->given; i < n && !rc; i++, to += s->base.width)
            memcpy(to, row + row_below(s, buffer, a, i) * below.stride, bytes);
        a->given = n;
    }
    for (int o = 0; o < s->ranks; o++)
        s->known[o] = ((int64_t)(side->place[o].len / sizeof(int32_t)) - side->here[o]) * (int64_t)bytes;
    return rc ? rc : swap_known(s, s->kinds.values, s->known, err);
}

static int ranks_values(struct ctr_source *source, int buffer, struct ctr_mat *values, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)source;
    struct side *side = &s->side[buffer];
    const struct ctr_source_batch *b = &source->batch[buffer];
    const size_t row = (size_t)source->width * sizeof(float), sent = (size_t)b->here * row, all = (size_t)b->n * row;
    const bool host = ctr_dev_is_host(source->dev);
    int rc = join(source, err);
    s->below->batch[buffer].pool = b->pool; /* a begin ahead had none */
    if (!rc)
        rc = give_values(s, buffer, err);
    side->learns = b->make;
    if (!rc)
        rc = ctr_mem_keep(&s->values, source->dev, sent, all, err);
    if (!rc && !host) {
        s->host.len = 0;
        rc = ctr_buf_reserve(&s->host, all, err);
    }
    float *to = rc ? NULL : host ? ctr_mem_host(s->values) : AS(float, s->host);
    for (int o = 0; o < s->ranks && !rc; o++) {
        const int64_t n = (int64_t)(side->place[o].len / sizeof(int32_t)), from = side->here[o];
        if (s->in[o].len != (size_t)(n - from) * row)
            return bad_message(o, err);
        for (int64_t i = from; i < n; i++)
            memcpy(to + (int64_t)AS(int32_t, side->place[o])[i] * source->width,
                   s->in[o].data + (size_t)(i - from) * row, row);
        side->here[o] = n;
    }
    if (!rc && !host && all > sent)
        rc = ctr_mem_write(s->values, sent, s->host.data + sent, all - sent, err);
    *values = ctr_mat(s->values, b->n, source->width);
    return rc;
}

/* ---- push ---- */

/* Send each owner, for its keys, the gradient, squares, and l2. */
static int send_gradients(struct over_ranks *s, const struct side *side, const struct ctr_source_step *step,
                          struct ctr_err *err)
{
    const size_t row = (size_t)s->base.width * sizeof(float);
    const float *grad = NULL, *squares = NULL, *l2 = NULL;
    struct ctr_buf copy[2] = { { 0 }, { 0 } };
    int rc = on_host(s, step->grad, &s->host, &grad, err);
    if (!rc && step->squares.mem)
        rc = on_host(s, step->squares, &copy[0], &squares, err);
    if (!rc && step->l2_row.mem)
        rc = on_host(s, ctr_mat_at(step->l2_row.mem, step->l2_row.at, step->l2_row.n, 1), &copy[1], &l2, err);
    for (int o = 0; o < s->ranks && !rc; o++) {
        const int32_t *place = AS(int32_t, side->place[o]);
        const int64_t n = (int64_t)(side->place[o].len / sizeof *place);
        ctr_buf_clear(&s->out[o]);
        for (int64_t i = 0; i < n && !rc; i++) {
            rc = ctr_buf_append(&s->out[o], grad + place[i] * step->grad.stride, row, err);
            if (!rc && squares)
                rc = ctr_buf_append(&s->out[o], squares + place[i] * step->squares.stride, row, err);
            if (!rc && l2)
                rc = ctr_buf_append(&s->out[o], &l2[place[i]], sizeof *l2, err);
        }
    }
    ctr_buf_free(&copy[0]);
    ctr_buf_free(&copy[1]);
    const size_t floats = (size_t)s->base.width * (step->squares.mem ? 2 : 1) + (step->l2_row.mem ? 1 : 0);
    for (int r = 0; r < s->ranks; r++)
        s->known[r] = asked_keys(&side->asked[r]) * (int64_t)(floats * sizeof(float));
    return rc ? rc : swap_known(s, s->kinds.gradients, s->known, err);
}

/* Add `from` to the sum, or start the sum with it. */
static void add_row(float *sum, const float *from, int32_t width, bool begun)
{
    for (int32_t j = 0; j < width; j++)
        sum[j] = begun ? sum[j] + from[j] : from[j];
}

/* Sum per key, in the order of ranks. */
static int sum_gradients(struct over_ranks *s, int buffer, int64_t rows, bool squares, bool l2, struct ctr_err *err)
{
    const int32_t width = s->base.width;
    const int64_t floats = width * (squares ? 2 : 1) + l2;
    int rc = 0;
    struct ctr_buf *bufs[] = { &s->sum, &s->squares, &s->l2, &s->seen };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_clear(bufs[i]);
    float *sum = ctr_buf_extend(&s->sum, rows * width, sizeof *sum, &rc, err);
    float *square = ctr_buf_extend(&s->squares, squares ? rows * width : 0, sizeof *square, &rc, err);
    float *weight = ctr_buf_extend(&s->l2, l2 ? rows : 0, sizeof *weight, &rc, err);
    bool *seen = ctr_buf_extend(&s->seen, rows, sizeof *seen, &rc, err);
    if (rc)
        return rc;
    memset(seen, 0, (size_t)rows * sizeof *seen);
    for (int r = 0; r < s->ranks; r++) {
        const struct asked *a = &s->side[buffer].asked[r];
        const float *from = AS(const float, s->in[r]);
        if (s->in[r].len != (size_t)(asked_keys(a) * floats) * sizeof *from)
            return bad_message(r, err);
        for (int64_t i = 0; i < asked_keys(a); i++, from += floats) {
            const int64_t at = row_below(s, buffer, a, i);
            add_row(sum + at * width, from, width, seen[at]);
            if (squares)
                add_row(square + at * width, from + width, width, seen[at]);
            if (l2) /* equal on all ranks */
                weight[at] = from[floats - 1];
            seen[at] = true;
        }
    }
    return 0;
}

static int to_device(struct over_ranks *s, struct ctr_mem **m, const struct ctr_buf *b, struct ctr_err *err)
{
    int rc = ctr_mem_grow(m, s->base.dev, b->len, err);
    return rc || !b->len ? rc : ctr_mem_write(*m, 0, b->data, b->len, err);
}

static int ranks_push(struct ctr_source *source, int buffer, const struct ctr_source_step *step, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)source;
    struct side *side = &s->side[buffer];
    int64_t rows = 0;
    int rc = join(source, err);
    for (int t = 0; t < side->sets; t++)
        rows += side->set[t].n;
    side->learns = false;
    const bool squares = step->squares.mem, l2 = step->l2_row.mem; /* equal on all ranks */
    if (!rc)
        rc = send_gradients(s, side, step, err);
    if (!rc)
        rc = sum_gradients(s, buffer, rows, squares, l2, err);
    if (!rc)
        rc = to_device(s, &s->grad, &s->sum, err);
    if (!rc && squares)
        rc = to_device(s, &s->squares_sum, &s->squares, err);
    if (!rc && l2)
        rc = to_device(s, &s->l2_row, &s->l2, err);
    const struct ctr_source_step theirs = { .opt = step->opt,
                                            .grad = ctr_mat(s->grad, rows, source->width),
                                            .squares = squares ? ctr_mat(s->squares_sum, rows, source->width)
                                                               : (struct ctr_mat){ 0 },
                                            .l2_row = l2 ? ctr_vec(s->l2_row, rows) : (struct ctr_vec){ 0 },
                                            .pool = step->pool };
    for (int r = 0; r < s->ranks; r++)
        side->asked[r].given = side->here[r] = 0;
    return rc ? rc : ctr_source_push(s->below, buffer, &theirs, err);
}

static void ranks_drop(struct ctr_source *source, int buffer)
{
    struct over_ranks *s = (struct over_ranks *)source;
    struct side *side = &s->side[buffer];
    (void)join(source, NULL);
    side->learns = false;
    for (int r = 0; r < s->ranks; r++) {
        ctr_buf_clear(&side->place[r]);
        ctr_buf_clear(&side->asked[r].table);
        ctr_buf_clear(&side->asked[r].key);
        side->here[r] = side->asked[r].given = 0;
    }
    for (int t = 0; t < side->sets; t++)
        ctr_keyset_clear(&side->set[t]);
    ctr_source_drop(s->below, buffer);
}

/* ---- counts ---- */

/* The owner adds the uses of all ranks and returns the sum so far. */
static int ranks_count(struct ctr_source *source, int buffer, const struct ctr_source_keys *keys, const int32_t *uses,
                       uint32_t *total, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)source;
    const int t = keys->table;
    int rc = join(source, err);
    if (rc)
        return rc;
    const int64_t n = s->side[buffer].set[t].n;
    for (int r = 0; r < s->ranks; r++)
        ctr_buf_clear(&s->out[r]);
    for (int64_t i = 0; i < keys->n && !rc; i++)
        rc = ctr_buf_append(&s->out[ctr_rank_owner(keys->hash[i], s->ranks)], &uses[i], sizeof *uses, err);
    if (!rc)
        rc = swap(s, CTR_COMM_CONTROL, err);
    ctr_buf_clear(&s->uses);
    ctr_buf_clear(&s->total);
    int32_t *sum = ctr_buf_extend(&s->uses, n, sizeof *sum, &rc, err);
    uint32_t *so_far = ctr_buf_extend(&s->total, n, sizeof *so_far, &rc, err);
    if (rc)
        return rc;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int r = 0; r < s->ranks; r++) {
        const struct asked *a = &s->side[buffer].asked[r];
        const int32_t *from = AS(const int32_t, s->in[r]), *end = from + s->in[r].len / sizeof *from;
        for (int64_t i = 0; i < asked_keys(a); i++)
            if (AS(int32_t, a->table)[i] == t && from < end)
                sum[AS(int32_t, a->key)[i]] += *from++;
    }
    if (n)
        rc = ctr_source_count(s->below, buffer, t, sum, so_far, err);
    for (int r = 0; r < s->ranks && !rc; r++) {
        const struct asked *a = &s->side[buffer].asked[r];
        ctr_buf_clear(&s->out[r]);
        for (int64_t i = 0; i < asked_keys(a) && !rc; i++)
            if (AS(int32_t, a->table)[i] == t)
                rc = ctr_buf_append(&s->out[r], &so_far[AS(int32_t, a->key)[i]], sizeof *so_far, err);
    }
    if (!rc)
        rc = swap(s, CTR_COMM_CONTROL, err);
    for (int r = 0; r < s->ranks; r++)
        ctr_buf_clear(&s->out[r]); /* from here on: position in in[r] */
    for (int64_t i = 0; i < keys->n && !rc; i++) {
        const int o = ctr_rank_owner(keys->hash[i], s->ranks);
        if (s->out[o].len + sizeof *total > s->in[o].len)
            return bad_message(o, err);
        memcpy(&total[i], s->in[o].data + s->out[o].len, sizeof *total);
        rc = ctr_buf_append(&s->out[o], &total[i], sizeof *total, err);
    }
    return rc;
}

/* ---- rows of a table, in ascending order of keys, on rank 0 ---- */

struct saving {
    struct over_ranks *s;
    int table;
    ctr_merge_row *take; /* of what this rank has, */
    void *to;
    ctr_source_each *each; /* and of all */
    void *ctx;
};

static int take_row(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    const struct saving *v = ctx;
    return v->take(v->to, key, row, err);
}

static int own_rows(void *ctx, ctr_merge_row *take, void *to, struct ctr_err *err)
{
    struct saving *v = ctx;
    v->take = take;
    v->to = to;
    return ctr_source_save(v->s->below, v->table, take_row, v, err);
}

static int row_of_all(void *ctx, uint64_t key, const void *row, struct ctr_err *err)
{
    const struct saving *v = ctx;
    return v->each(v->ctx, key, row, err);
}

static int ranks_save(struct ctr_source *source, int table, ctr_source_each *each, void *ctx, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)source;
    struct saving v = { .s = s, .table = table, .each = each, .ctx = ctx };
    const int rc = join(source, err);
    return rc ? rc : ctr_merge_ranks(s->comm, (size_t)s->saved * sizeof(float), own_rows, &v, row_of_all, &v, err);
}

static int ranks_load(struct ctr_source *source, int table, uint64_t key, const float *row, struct ctr_err *err)
{
    struct over_ranks *s = (struct over_ranks *)source;
    const bool mine = ctr_rank_owner(ctr_key_hash(key), s->ranks) == ctr_comm_rank(s->comm);
    return mine ? ctr_source_load(s->below, table, key, row, err) : 0;
}

/* ---- the rest ---- */

static int ranks_settle(struct ctr_source *source, struct ctr_err *err)
{
    const int rc = join(source, err);
    return rc ? rc : ctr_source_settle(((struct over_ranks *)source)->below, err);
}

static int ranks_changes(struct ctr_source *source, enum ctr_changes what, struct ctr_err *err)
{
    const int rc = join(source, err);
    return rc ? rc : ctr_source_changes(((struct over_ranks *)source)->below, what, err);
}

static int64_t ranks_rows(const struct ctr_source *source, int table)
{
    (void)join(source, NULL);
    return ctr_source_rows(((const struct over_ranks *)source)->below, table);
}

static int64_t ranks_memory(const struct ctr_source *source)
{
    (void)join(source, NULL);
    return ctr_source_memory(((const struct over_ranks *)source)->below);
}

static void ranks_summary(const struct ctr_source *source, struct ctr_say *text)
{
    ctr_source_summary(((const struct over_ranks *)source)->below, text);
}

static void side_free(struct side *side, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        if (side->place)
            ctr_buf_free(&side->place[r]);
        if (side->asked) {
            ctr_buf_free(&side->asked[r].table);
            ctr_buf_free(&side->asked[r].key);
        }
    }
    for (int t = 0; t < side->sets; t++)
        ctr_keyset_free(&side->set[t]);
    free(side->set);
    free(side->place);
    free(side->here);
    free(side->asked);
}

static void ranks_free(struct ctr_source *source)
{
    struct over_ranks *s = (struct over_ranks *)source;
    struct ctr_buf *bufs[] = { &s->host, &s->sum, &s->l2, &s->squares, &s->seen, &s->uses, &s->total };
    struct ctr_mem *mems[] = { s->values, s->grad, s->l2_row, s->squares_sum };
    (void)join(source, NULL);
    side_free(&s->side[0], s->ranks);
    side_free(&s->side[1], s->ranks);
    for (int r = 0; r < s->ranks; r++) {
        if (s->out)
            ctr_buf_free(&s->out[r]);
        if (s->in)
            ctr_buf_free(&s->in[r]);
    }
    free(s->out);
    free(s->in);
    free(s->part);
    free(s->known);
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_source_free(s->below);
    free(s);
}

static const struct ctr_source_ops ranks_ops = { .name = "ranks",
                                                 .one_at_a_time = true,
                                                 .looks_ahead = true,
                                                 .count = ranks_count,
                                                 .begin = ranks_begin,
                                                 .values = ranks_values,
                                                 .push = ranks_push,
                                                 .drop = ranks_drop,
                                                 .settle = ranks_settle,
                                                 .changes = ranks_changes,
                                                 .save = ranks_save,
                                                 .load = ranks_load,
                                                 .rows = ranks_rows,
                                                 .memory = ranks_memory,
                                                 .summary = ranks_summary,
                                                 .free = ranks_free };

int ctr_source_ranks(struct ctr_source **out, struct ctr_comm *comm, struct ctr_source *below, int32_t saved,
                     const struct ctr_source_ranks_kinds *kinds, struct ctr_err *err)
{
    const size_t n = (size_t)ctr_comm_size(comm);
    struct over_ranks *s = calloc(1, sizeof *s);
    if (!s) {
        ctr_source_free(below);
        return ctr_fail_nomem(err, sizeof *s);
    }
    *s = (struct over_ranks){
        .base = { .ops = &ranks_ops, .dev = below->dev, .width = below->width, .floats = below->floats },
        .comm = comm,
        .below = below,
        .kinds = *kinds,
        .saved = saved,
        .ranks = (int)n,
        .part = calloc(n, sizeof *s->part),
        .known = calloc(n, sizeof *s->known),
        .out = calloc(n, sizeof *s->out),
        .in = calloc(n, sizeof *s->in)
    };
    bool whole = s->part && s->known && s->out && s->in;
    for (int i = 0; i < 2; i++) {
        struct side *side = &s->side[i];
        side->place = calloc(n, sizeof *side->place);
        side->here = calloc(n, sizeof *side->here);
        side->asked = calloc(n, sizeof *side->asked);
        whole = whole && side->place && side->here && side->asked;
    }
    *out = &s->base;
    if (whole)
        return 0;
    ctr_source_free(&s->base);
    return ctr_fail_nomem(err, n * sizeof *s->out);
}
