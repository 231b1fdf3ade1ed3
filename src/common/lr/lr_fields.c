/* SPDX-License-Identifier: Apache-2.0
 *
 * lr by minibatches of rows that have one key a field, on several threads: field by field over the rows of a minibatch,
 * fields shared between threads. A column's rows update z and n with the weight of the minibatch's start, those of one
 * key one after another. Which these are the states themselves tell: between the sums of a minibatch and its update
 * every row leaves its number in its key's state, whose z and n are at hand, and the first one stays there.
 *
 * Field i belongs to lane i mod 8, as in the exact learner's dot product, every lane to one thread, which alone sees
 * the tables of its fields. Threads exchange the sums of lanes once a minibatch and join the eight in one order, so
 * that the bits do not depend on the number of threads. Minibatches are counted by rows from the start of a pass: one
 * may begin in a call and end in a later one. Its rows are predicted at once, which changes nothing but that keys are
 * there; then they wait, and the whole minibatch is worked through when it is complete. */
#include <stdatomic.h>
#include <stdlib.h>

#include "common/feature/op.h"
#include "common/lr/ftrl.h"
#include "common/lr/lr.h"
#include "common/lr/lr_meet.h"

enum {
    LANES = CTR_LANES,
    AHEAD = 4, /* fields whose rows come from memory while another is worked on */
};

/* A field of a minibatch. Arrays of a minibatch's rows, padded to LANES. */
struct field {
    const struct ctr_keys *table; /* NULL: of the bias, which all rows have */
    int lane;
    uint8_t **now, **next; /* table rows of this piece and of the next one */
    double *z, *n, *w, *root;
    struct ctr_buf memory;
};

struct part { /* a thread's: arrays by row */
    struct ctr_buf memory, list;
    struct field **field; /* its own */
    int fields;
    struct ctr_lr_finder finder;
    double *g, *term; /* of the rows of the piece: weight (p - y); scratch */
    struct ctr_column column;
    uint32_t *number; /* of a column */
    struct ctr_err err;
    _Alignas(16) uint8_t spare[CTR_SPARSE_MAX_STRIDE];
    _Alignas(CTR_LINE) char apart;
};

/* That of row i in field k: at[i * by_row + k * by_field]. */
struct numbers {
    const uint32_t *at;
    int64_t by_row, by_field;
};

/* Rows to work through: a minibatch, or a part of one that is only predicted. */
struct piece {
    struct numbers number;
    int64_t rows;
    const double *label, *weight;
    double *score, *uncertainty; /* of rows [known, rows); uncertainty NULL: not asked for */
    int64_t known;
    int64_t first; /* row of the stream, for messages */
    bool whole;
};

struct ctr_lr_fields {
    struct ctr_pool *pool;
    int threads;
    int64_t size, pending; /* rows of a minibatch; rows that wait */
    struct field *field;   /* the bias, if there is one, comes last */
    int fields, keys;      /* keys: without the bias */
    int owner[LANES];
    struct part *part;
    struct ctr_buf wait_number, wait_label, wait_weight;
    struct ctr_buf sums[2]; /* of even and odd pieces: LANES arrays of `size`, then those of uncertainties */
    const struct ctr_ftrl_kernel *kernel;
    /* of the call */
    struct lr *m;
    const struct ctr_rows *r;
    struct ctr_buf own; /* numbers that its threads found, by field */
    struct ctr_buf pieces;
    struct ctr_meeting meeting;
};

/* ---- memory ---- */

void ctr_lr_fields_free(struct ctr_lr_fields *q)
{
    if (!q)
        return;
    for (int i = 0; i < q->fields; i++)
        ctr_buf_free(&q->field[i].memory);
    for (int t = 0; t < q->threads && q->part; t++) {
        ctr_buf_free(&q->part[t].memory);
        ctr_buf_free(&q->part[t].list);
        ctr_lr_finder_free(&q->part[t].finder);
    }
    struct ctr_buf *bufs[] = { &q->wait_number, &q->wait_label, &q->wait_weight, &q->sums[0],
                               &q->sums[1],     &q->pieces,     &q->own };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_pool_free(q->pool);
    ctr_meeting_free(&q->meeting);
    free(q->field);
    free(q->part);
    free(q);
}

static int make_part(const struct ctr_lr_fields *q, struct part *p, struct ctr_err *err)
{
    const size_t room = (size_t)ctr_lanes_padded(q->size);
    int rc = ctr_buf_reserve(&p->memory, CTR_LINE + room * (2 * sizeof(double) + 2 * sizeof(uint32_t)), err);
    if (rc)
        return rc;
    p->g = (double *)((uintptr_t)(p->memory.data + CTR_LINE - 1) / CTR_LINE * CTR_LINE);
    memset(p->g, 0, room * sizeof *p->g);
    p->term = p->g + room;
    p->number = (uint32_t *)(void *)(p->term + room);
    p->column = (struct ctr_column){ p->g, p->number + room, p->spare };
    return 0;
}

static int make_field(const struct ctr_lr_fields *q, struct field *f, struct ctr_err *err)
{
    int64_t room = ctr_lanes_padded(q->size);
    int rc = ctr_buf_reserve(&f->memory, (size_t)room * 6 * sizeof(double) + 2 * CTR_LINE, err);
    if (rc)
        return rc;
    f->next = (uint8_t **)((uintptr_t)(f->memory.data + CTR_LINE) / CTR_LINE * CTR_LINE);
    f->now = f->next + room;
    f->z = (double *)(void *)(f->now + room);
    f->n = f->z + room;
    f->w = f->n + room;
    f->root = f->w + room;
    return 0;
}

int ctr_lr_fields_new(struct ctr_lr_fields **out, int64_t rows, int threads, struct ctr_err *err)
{
    struct ctr_lr_fields *q = aligned_alloc(CTR_LINE, (sizeof *q + 63) / 64 * 64);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    memset(q, 0, sizeof *q);
    q->size = rows;
    q->kernel = ctr_ftrl_kernel_best();
    int rc = ctr_pool_new_exact(&q->pool, CTR_MIN(CTR_MAX(threads, 1), LANES), err);
    if (!rc) {
        q->threads = ctr_pool_threads(q->pool);
        ctr_meeting_init(&q->meeting, q->threads);
        size_t bytes = (size_t)q->threads * sizeof *q->part;
        q->part = aligned_alloc(CTR_LINE, bytes);
        rc = q->part ? 0 : ctr_fail_nomem(err, bytes);
        if (q->part)
            memset(q->part, 0, bytes);
    }
    for (int t = 0; t < q->threads && !rc; t++)
        rc = make_part(q, &q->part[t], err);
    for (int i = 0; i < 2 && !rc; i++)
        rc = ctr_buf_reserve(&q->sums[i], (size_t)(ctr_lanes_padded(rows) * LANES * 2) * sizeof(double), err);
    if (rc) {
        ctr_lr_fields_free(q);
        return rc;
    }
    *out = q;
    return 0;
}

/* The fields of these rows. Their tables may have moved in memory since the last call. */
static int bind_fields(struct ctr_lr_fields *q, const struct ctr_rows *r, struct ctr_err *err)
{
    int k = (int)(r->start[1] - r->start[0]), n = k + !q->m->no_bias, rc = 0;
    q->keys = k;
    if (n > q->fields) {
        struct field *f = aligned_alloc(CTR_LINE, ((size_t)n * sizeof *f + CTR_LINE - 1) / CTR_LINE * CTR_LINE);
        if (!f)
            return ctr_fail_nomem(err, (size_t)n * sizeof *f);
        memset(f, 0, (size_t)n * sizeof *f);
        if (q->fields)
            memcpy(f, q->field, (size_t)q->fields * sizeof *f);
        free(q->field);
        q->field = f;
        q->fields = n;
    }
    for (int i = 0; i < n && !rc; i++) {
        q->field[i].table = i < k ? &q->m->table[r->table[i]] : NULL;
        q->field[i].lane = i % LANES;
        rc = q->field[i].now ? 0 : make_field(q, &q->field[i], err);
    }
    return rc;
}

/* Lanes to threads, the heaviest first to the one that has least: a field costs more the more keys it has. */
static void share_lanes(struct ctr_lr_fields *q)
{
    int cost[LANES] = { 0 }, load[LANES] = { 0 };
    for (int i = 0; i < q->fields; i++) {
        uint64_t keys = q->field[i].table ? q->field[i].table->learned : 0;
        cost[q->field[i].lane] += keys > 1 << 16 ? 3 : keys > 1 << 12 ? 2 : 1;
    }
    for (int n = 0; n < LANES; n++) {
        int lane = 0, t = 0;
        for (int i = 1; i < LANES; i++)
            lane = cost[i] > cost[lane] ? i : lane;
        for (int i = 1; i < q->threads; i++)
            t = load[i] < load[t] ? i : t;
        q->owner[lane] = t;
        load[t] += cost[lane];
        cost[lane] = -1;
    }
}

static int list_fields(struct ctr_lr_fields *q, struct ctr_err *err)
{
    for (int t = 0; t < q->threads; t++) {
        struct part *p = &q->part[t];
        int rc = ctr_buf_reserve(&p->list, (size_t)q->fields * sizeof *p->field, err);
        if (rc)
            return rc;
        p->field = (struct field **)(void *)p->list.data;
        p->fields = 0;
        for (int i = 0; i < q->fields; i++)
            if (q->owner[q->field[i].lane] == t)
                p->field[p->fields++] = &q->field[i];
    }
    return 0;
}

/* ---- a field of a minibatch ---- */

/* The table rows of the next piece, which are asked from memory ahead of their use. */
static void begin_field(const struct ctr_lr_fields *q, const struct part *p, struct field *f, const struct piece *c)
{
    const uint32_t *number = c->number.at + (f - q->field) * c->number.by_field;
    const struct ctr_states *s = &q->m->states;
    for (int64_t i = 0; !f->table && i < c->rows; i++)
        f->next[i] = q->m->bias;
    if (!f->table)
        return;
    for (int64_t i = 0; c->number.by_row > 1 && i < c->rows; i++)
        p->number[i] = number[i * c->number.by_row];
    q->m->loops->rows(ctr_states_rows(s), s->bytes, c->number.by_row > 1 ? p->number : number, c->rows, f->next);
    for (int64_t i = 0; i < c->rows; i++)
        __builtin_prefetch(f->next[i] + CTR_STATE_AT, 1);
}

static void take_rows(struct part *p, struct field *f, int64_t rows)
{
    uint8_t **const taken = f->next;
    f->next = f->now;
    f->now = taken;
    for (int64_t i = rows; i % LANES; i++)
        f->now[i] = p->spare;
}

static double *lane_sums(const struct ctr_lr_fields *q, int parity, int lane)
{
    return (double *)(void *)q->sums[parity].data + lane * ctr_lanes_padded(q->size);
}

static void sum_field(struct ctr_lr_fields *q, struct part *p, struct field *f, const struct piece *c, int parity)
{
    const struct ctr_learning *l = &q->m->learning;
    const struct ctr_coords s = { f->z, f->n, f->w, f->root, NULL, NULL };
    take_rows(p, f, c->rows);
    q->kernel->sum_column[l->precision](l, &s, f->now, c->rows, lane_sums(q, parity, f->lane));
    if (q->m->params.uncertainty) {
        double *rates = lane_sums(q, parity, LANES + f->lane);
        ctr_lr_uncertain_terms(l, NULL, &s, f->now, NULL, c->rows, p->term);
        for (int64_t i = 0; i < c->rows; i++)
            rates[i] += p->term[i];
    }
    if (c->whole)
        ctr_column_mark(f->now, c->rows);
}

static void update_field(struct ctr_lr_fields *q, struct part *p, struct field *f, int64_t rows)
{
    const struct ctr_learning *l = &q->m->learning;
    const struct ctr_coords s = { f->z, f->n, f->w, f->root, NULL, NULL };
    q->kernel->update_column[l->precision](l, &s, f->now, rows, &p->column);
}

/* ---- a minibatch ---- */

/* The rows of the first fields of piece k are asked from memory. */
static void begin_piece(struct ctr_lr_fields *q, int t, int k)
{
    const struct piece *c = (const struct piece *)(void *)q->pieces.data + k;
    const struct part *p = &q->part[t];
    for (int i = 0; i < CTR_MIN(p->fields, AHEAD); i++)
        begin_field(q, p, p->field[i], c);
}

/* The sums of this thread's lanes over piece k, field by field, after the piece before has been learned. */
static void sum_piece(struct ctr_lr_fields *q, int t, int k)
{
    const struct piece *c = (const struct piece *)(void *)q->pieces.data + k;
    const int sets = q->m->params.uncertainty ? 2 : 1;
    struct part *p = &q->part[t];
    for (int lane = 0; lane < LANES; lane++)
        if (q->owner[lane] == t)
            for (int of = 0; of < sets; of++)
                memset(lane_sums(q, k & 1, of * LANES + lane), 0, (size_t)c->rows * sizeof(double));
    for (int i = 0; i < p->fields; i++) {
        if (i + AHEAD < p->fields)
            begin_field(q, p, p->field[i + AHEAD], c);
        if (k && c[-1].whole)
            update_field(q, p, p->field[i], c[-1].rows);
        sum_field(q, p, p->field[i], c, k & 1);
    }
}

/* Predictions and gradients from the sums of all threads; every thread makes them for itself. */
static int predict(struct ctr_lr_fields *q, int t, const struct piece *c, int parity)
{
    for (int64_t i = 0; i < c->rows; i++) {
        double sum[LANES];
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] = lane_sums(q, parity, lane)[i];
        double p = ctr_sigmoid(ctr_lanes_join(sum));
        if (!(p >= 0))
            return ctr_lr_diverged(c->first + i + 1, &q->part[t].err);
        if (t == 0 && i >= c->known)
            c->score[i - c->known] = p;
        q->part[t].g[i] = (c->weight ? c->weight[i] : 1) * (p - c->label[i]);
    }
    return 0;
}

static void predict_uncertain(const struct ctr_lr_fields *q, const struct piece *c, int parity)
{
    for (int64_t i = c->known; i < c->rows; i++) {
        double sum[LANES];
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] = lane_sums(q, parity, LANES + lane)[i];
        c->uncertainty[i - c->known] = ctr_lanes_join(sum);
    }
}

/* Between a thread's sums and those of the others it asks for the rows of the next piece. */
static void run_part(void *ctx, int64_t task, int worker)
{
    struct ctr_lr_fields *q = ctx;
    int t = (int)task, n = (int)(q->pieces.len / sizeof(struct piece));
    const struct piece *c = (const struct piece *)(void *)q->pieces.data;
    (void)worker;
    begin_piece(q, t, 0);
    for (int k = 0; k < n; k++, c++) {
        sum_piece(q, t, k);
        const unsigned round = ctr_meet_arrive(&q->meeting);
        if (k + 1 < n)
            begin_piece(q, t, k + 1);
        ctr_meet_wait(&q->meeting, round);
        if (predict(q, t, c, k & 1))
            return; /* all threads see the same */
        if (c->uncertainty && t == 0)
            predict_uncertain(q, c, k & 1);
    }
    for (int i = 0; c[-1].whole && i < q->part[t].fields; i++)
        update_field(q, &q->part[t], q->part[t].field[i], c[-1].rows);
}

/* ---- calls ---- */

static int add_piece(struct ctr_lr_fields *q, const struct piece *c, struct ctr_err *err)
{
    return ctr_buf_append(&q->pieces, c, sizeof *c, err);
}

/* Rows [from, from + n) of the call. */
static struct piece piece_of(const struct ctr_lr_fields *q, const struct ctr_rows *r, struct numbers number,
                             int64_t from, int64_t n, double *score)
{
    number.at += from * number.by_row;
    return (struct piece){ .number = number,
                           .rows = n,
                           .label = r->label + from,
                           .weight = r->weight ? r->weight + from : NULL,
                           .score = score + from,
                           .uncertainty = q->m->params.uncertainty ? score + r->rows + from : NULL,
                           .first = r->first_row + from,
                           .whole = n == q->size };
}

static struct piece waiting(const struct ctr_lr_fields *q)
{
    return (struct piece){ .number = { (const uint32_t *)(void *)q->wait_number.data, q->keys, 1 },
                           .rows = q->pending,
                           .label = (const double *)(void *)q->wait_label.data,
                           .weight = (const double *)(void *)q->wait_weight.data,
                           .whole = true };
}

/* Rows [from, from + n) of the call wait for the others of their minibatch. */
static int keep(struct ctr_lr_fields *q, const struct ctr_rows *r, const struct numbers *number, int64_t from,
                int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(&q->wait_number, (size_t)(q->size * q->keys) * sizeof *number->at, err);
    if (!rc)
        rc = ctr_buf_reserve(&q->wait_label, (size_t)q->size * sizeof(double), err);
    if (!rc)
        rc = ctr_buf_reserve(&q->wait_weight, (size_t)q->size * sizeof(double), err);
    if (rc)
        return rc;
    double *label = (double *)(void *)q->wait_label.data, *weight = (double *)(void *)q->wait_weight.data;
    for (int64_t i = 0; i < n; i++, q->pending++) {
        uint32_t *to = (uint32_t *)(void *)q->wait_number.data + q->pending * q->keys;
        for (int64_t k = 0; k < q->keys; k++)
            to[k] = number->at[(from + i) * number->by_row + k * number->by_field];
        label[q->pending] = r->label[from + i];
        weight[q->pending] = r->weight ? r->weight[from + i] : 1;
    }
    return 0;
}

static int run_pieces(struct ctr_lr_fields *q, struct ctr_err *err)
{
    for (int t = 0; t < q->threads; t++)
        q->part[t].err.code = 0;
    ctr_pool_run(q->pool, q->threads, run_part, q);
    for (int t = 0; t < q->threads; t++)
        if (q->part[t].err.code) {
            *err = q->part[t].err;
            return err->code;
        }
    return 0;
}

/* The first rows of a call, which complete the minibatch that waits, or only wait too. */
static int add_waiting(struct ctr_lr_fields *q, const struct ctr_rows *r, const struct numbers *number, int64_t n,
                       double *score, struct ctr_err *err)
{
    struct piece c = piece_of(q, r, *number, 0, n, score);
    int64_t known = q->pending;
    int rc = keep(q, r, number, 0, n, err);
    if (!rc && q->pending == q->size) {
        double *uncertainty = c.uncertainty;
        c = waiting(q);
        c.score = score;
        c.uncertainty = uncertainty;
        c.known = known;
        c.first = r->first_row - known;
        q->pending = 0;
    }
    return rc ? rc : add_piece(q, &c, err);
}

/* Every thread finds the keys of its own fields. */
static void find_part(void *ctx, int64_t task, int worker)
{
    struct ctr_lr_fields *q = ctx;
    const struct part *p = &q->part[task];
    (void)worker;
    for (int i = 0; i < p->fields; i++) {
        const int64_t k = p->field[i] - q->field;
        if (p->field[i]->table)
            ctr_lr_find_column(q->m, &p->finder, q->r, k, (uint32_t *)(void *)q->own.data + k * q->r->rows);
    }
}

static int find_fields(struct ctr_lr_fields *q, int64_t bound, struct numbers *number, struct ctr_err *err)
{
    const struct ctr_rows *r = q->r;
    int rc = ctr_lr_find_start(q->m, r, bound, err);
    ctr_buf_clear(&q->own);
    if (!rc)
        rc = ctr_buf_reserve(&q->own, (size_t)(r->rows * q->keys) * sizeof(uint32_t), err);
    for (int t = 0; t < q->threads && !rc; t++)
        rc = ctr_lr_finder_reserve(&q->part[t].finder, r->rows, err);
    if (rc)
        return rc;
    *number = (struct numbers){ (const uint32_t *)(void *)q->own.data, 1, r->rows };
    ctr_pool_run(q->pool, q->threads, find_part, q);
    return 0;
}

/* The keys may have been found: rows of one thread. */
int ctr_lr_fields_rows(struct ctr_lr_fields *q, struct lr *m, const struct ctr_rows *r, int64_t bound, double *score,
                       struct ctr_err *err)
{
    struct numbers number = { r->number, 1, r->rows };
    int64_t at = q->pending ? CTR_MIN(q->size - q->pending, r->rows) : 0, n = 0;
    q->m = m;
    q->r = r;
    ctr_buf_clear(&q->pieces);
    int rc = bind_fields(q, r, err);
    share_lanes(q);
    if (!rc)
        rc = list_fields(q, err);
    if (!rc && !r->number)
        rc = find_fields(q, bound, &number, err);
    if (!rc && at)
        rc = add_waiting(q, r, &number, at, score, err);
    for (; at < r->rows && !rc; at += n) {
        n = CTR_MIN(q->size, r->rows - at);
        const struct piece c = piece_of(q, r, number, at, n, score);
        rc = add_piece(q, &c, err);
    }
    if (!rc)
        rc = run_pieces(q, err);
    return !rc && n % q->size ? keep(q, r, &number, r->rows - n, n, err) : rc;
}

int64_t ctr_lr_fields_pending(const struct ctr_lr_fields *q)
{
    return q->pending;
}

int ctr_lr_fields_end(struct ctr_lr_fields *q, struct ctr_err *err)
{
    struct piece c = waiting(q);
    c.known = q->pending;
    q->pending = 0;
    ctr_buf_clear(&q->pieces);
    int rc = c.rows ? add_piece(q, &c, err) : 0;
    return rc || !c.rows ? rc : run_pieces(q, err);
}
