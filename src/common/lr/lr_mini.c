/* SPDX-License-Identifier: Apache-2.0
 *
 * lr by minibatches (--minibatch): the gradients of a minibatch are those of the weights at its start; then the rows
 * update z and n one after another, so that a repeated key takes their gradients in row order. Minibatches are counted
 * by rows from the start of a pass: one may begin in a call and end in a later one.
 *
 * Every coordinate belongs to one of eight lanes, every lane to one thread, which alone sees its tables. Threads
 * exchange the sum of each lane, once a minibatch, and join the eight in one order: the bits are those of the exact
 * learner's dot product whatever the number of threads, and --minibatch 1 would be the exact learner. */
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/lr/lr.h"
#include "common/lr/lr_meet.h"

enum { LANES = CTR_LANES, AHEAD = 8 };

/* What one thread holds of the rows of a call, behind those that wait for the end of their minibatch. A row's entries
 * (the bias is the last of its lane's thread) lie at at[row], padded to LANES. Uncertainties, if they are asked for,
 * have sums of their own behind those of predictions. */
struct part {
    struct ctr_buf at, len, gradient;          /* by row: int64_t, int64_t, double */
    struct ctr_buf label, weight;              /* by row: double, when the learner wants events */
    struct ctr_buf hash, number, lane, x, row; /* by entry */
    struct ctr_buf w;                          /* by entry, of the minibatch's start, in the learner's precision */
    struct ctr_buf z, n, root, terms;          /* of a row */
    struct ctr_more more;                      /* its event is the same in all parts */
    struct ctr_buf sums[2];                    /* by row of a minibatch: LANES doubles; of even and odd ones */
    int64_t longest;
    struct ctr_err err;
    _Alignas(64) uint8_t spare[CTR_SPARSE_MAX_STRIDE]; /* what pads a row: threads must not share it */
};

struct ctr_lr_mini {
    struct ctr_pool *pool;
    int threads;
    int64_t size, pending; /* rows of a minibatch; rows that wait */
    uint8_t *table_lane;
    int tables;
    int bias_lane;
    struct part *part;
    /* of the call */
    struct lr *m;
    const struct ctr_rows *r;
    const uint32_t *number;
    int64_t from, end;
    double *score;
    atomic_bool failed;
    struct ctr_meeting meeting;
};

static int owner(const struct ctr_lr_mini *q, int lane)
{
    return lane * q->threads / LANES;
}

void ctr_lr_mini_free(struct ctr_lr_mini *q)
{
    if (!q)
        return;
    for (int t = 0; t < q->threads && q->part; t++) {
        struct part *p = &q->part[t];
        struct ctr_buf *bufs[] = { &p->at,      &p->len,     &p->gradient, &p->hash,   &p->lane, &p->x,
                                   &p->number,  &p->row,     &p->w,        &p->z,      &p->n,    &p->root,
                                   &p->sums[0], &p->sums[1], &p->label,    &p->weight, &p->terms };
        ctr_more_free(&p->more);
        for (size_t i = 0; i < CTR_COUNT(bufs); i++)
            ctr_buf_free(bufs[i]);
    }
    ctr_pool_free(q->pool);
    ctr_meeting_free(&q->meeting);
    free(q->table_lane);
    free(q->part);
    free(q);
}

int ctr_lr_mini_new(struct ctr_lr_mini **out, int64_t rows, int threads, struct ctr_err *err)
{
    struct ctr_lr_mini *q = aligned_alloc(64, (sizeof *q + 63) / 64 * 64);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    memset(q, 0, sizeof *q);
    q->size = rows;
    int rc = ctr_pool_new(&q->pool, CTR_MIN(CTR_MAX(threads, 1), LANES), CTR_FLOAT_IEEE, err);
    if (!rc) {
        q->threads = ctr_pool_threads(q->pool);
        ctr_meeting_init(&q->meeting, q->threads);
        size_t bytes = (size_t)q->threads * sizeof *q->part;
        q->part = aligned_alloc(64, bytes);
        rc = q->part ? 0 : ctr_fail_nomem(err, bytes);
        if (q->part)
            memset(q->part, 0, bytes);
    }
    if (rc) {
        ctr_lr_mini_free(q);
        return rc;
    }
    *out = q;
    return 0;
}

/* ---- a thread's entries ---- */

/* The lanes of tables: of rows with one entry a table, by position, as the exact learner sums; else by name. */
static int find_lanes(struct ctr_lr_mini *q, const struct lr *m, const struct ctr_rows *r, struct ctr_err *err)
{
    if (q->tables < m->tables) {
        uint8_t *lane = realloc(q->table_lane, (size_t)m->tables);
        if (!lane)
            return ctr_fail_nomem(err, (size_t)m->tables);
        q->table_lane = lane;
        q->tables = m->tables;
    }
    for (int i = 0; i < m->tables; i++)
        q->table_lane[i] = (uint8_t)(m->seed[i] % LANES);
    int64_t k = r->rows ? r->start[1] - r->start[0] : 0;
    for (int64_t i = 0; i < k && r->one_a_table; i++)
        q->table_lane[r->table[i]] = (uint8_t)(i % LANES);
    q->bias_lane = r->one_a_table ? (int)(k % LANES) : 0;
    return 0;
}

static int hold(struct ctr_buf *b, int64_t used, int64_t n, size_t size, struct ctr_err *err)
{
    b->len = (size_t)used * size;
    return ctr_buf_reserve(b, (size_t)n * size, err);
}

static int make_room(struct ctr_lr_mini *q, struct part *p, int64_t rows, int64_t entries, int64_t used,
                     struct ctr_err *err)
{
    const int64_t sums = q->size * LANES * (1 + q->m->params.uncertainty);
    const struct {
        struct ctr_buf *b;
        int64_t used, n;
        size_t size;
    } need[] = {
        { &p->at, q->pending ? q->pending + 1 : 0, rows + 1, sizeof(int64_t) },
        { &p->len, q->pending, rows, sizeof(int64_t) },
        { &p->gradient, q->pending, rows, sizeof(double) },
        { &p->label, q->pending, rows, sizeof(double) },
        { &p->weight, q->pending, rows, sizeof(double) },
        { &p->hash, used, entries, sizeof(uint64_t) },
        { &p->lane, used, entries, sizeof(uint8_t) },
        { &p->x, used, entries, sizeof(double) },
        { &p->number, used, entries, sizeof(uint32_t) },
        { &p->row, used, entries, sizeof(uint8_t *) },
        { &p->w, used, entries, sizeof(double) },
        { &p->sums[0], 0, sums, sizeof(double) },
        { &p->sums[1], 0, sums, sizeof(double) },
    };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(need) && !rc; i++)
        rc = hold(need[i].b, need[i].used, need[i].n, need[i].size, err);
    return rc;
}

struct view { /* of a part */
    int64_t *at, *len;
    double *gradient, *label, *weight;
    uint64_t *hash;
    uint8_t *lane;
    double *x;
    uint32_t *number;
    uint8_t **row;
    uint8_t *w; /* 8 bytes an entry of either precision */
};

static struct view view_of(const struct part *p)
{
    return (struct view){
        (int64_t *)(void *)p->at.data,
        (int64_t *)(void *)p->len.data,
        (double *)(void *)p->gradient.data,
        (double *)(void *)p->label.data,
        (double *)(void *)p->weight.data,
        (uint64_t *)(void *)p->hash.data,
        p->lane.data,
        (double *)(void *)p->x.data,
        (uint32_t *)(void *)p->number.data,
        (uint8_t **)(void *)p->row.data,
        p->w.data,
    };
}

/* Append this thread's entries of the call's rows. */
static int pack(struct ctr_lr_mini *q, int t, struct ctr_err *err)
{
    struct part *p = &q->part[t];
    const struct ctr_rows *r = q->r;
    struct lr *m = q->m;
    int64_t rows = q->end - q->from, entries = r->start[q->end] - r->start[q->from] + rows * LANES;
    int64_t used = q->pending ? ((int64_t *)(void *)p->at.data)[q->pending] : 0;
    bool has_bias = !m->no_bias && owner(q, q->bias_lane) == t;
    int rc = make_room(q, p, rows, entries, used, err);
    if (rc)
        return rc;
    struct view v = view_of(p);
    int64_t to = used;
    v.at[0] = 0;
    for (int64_t i = q->from, row = q->pending; i < q->end; i++, row++) {
        v.at[row] = to;
        for (int64_t e = r->start[i]; e < r->start[i + 1]; e++) {
            uint8_t lane = q->table_lane[r->table[e]];
            v.hash[to] = r->hash[e];
            v.number[to] = q->number[e];
            v.lane[to] = lane;
            v.x[to] = r->x ? r->x[e] : 1;
            to += owner(q, lane) == t;
        }
        if (has_bias) {
            v.row[to] = m->bias;
            v.lane[to] = (uint8_t)q->bias_lane;
            v.x[to++] = 1;
        }
        v.len[row] = to - v.at[row];
        p->longest = CTR_MAX(p->longest, v.len[row]);
        for (; (to - v.at[row]) % LANES; to++) {
            v.row[to] = p->spare;
            v.lane[to] = 0;
            v.x[to] = 0;
        }
        v.at[row + 1] = to;
    }
    int64_t room = p->longest + LANES;
    struct ctr_buf *bufs[] = { &p->z, &p->n, &p->root, &p->terms };
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = hold(bufs[i], 0, room, sizeof(double), err);
    if (!rc && m->learning.events)
        rc = ctr_more_reserve(&p->more, room, err);
    return rc;
}

static struct ctr_coords scratch_of(struct part *p, const struct view *v, int64_t row)
{
    return (
        struct ctr_coords){ p->z.data, p->n.data, v->w + v->at[row] * 8, p->root.data, v->x + v->at[row], &p->more };
}

/* ---- a minibatch ---- */

static int64_t keys_of(const struct ctr_lr_mini *q, int t, const struct view *v, int64_t row)
{
    return v->len[row] - (!q->m->no_bias && owner(q, q->bias_lane) == t);
}

/* The table rows of a row's entries, asked from memory. */
static void begin_row(const struct ctr_lr_mini *q, int t, const struct view *v, int64_t row)
{
    for (int64_t e = v->at[row], end = e + keys_of(q, t, v, row); e < end; e++) {
        v->row[e] = ctr_states_row(&q->m->states, v->number[e]);
        __builtin_prefetch(v->row[e] + CTR_STATE_AT, 1);
    }
}

/* To `sum` the terms of the uncertainty of row i, of which `s` is. */
static void add_terms(struct ctr_lr_mini *q, struct part *p, const struct view *v, const struct ctr_coords *s,
                      int64_t i, double *sum)
{
    const int64_t at = v->at[i], k = v->len[i];
    double *term = (double *)(void *)p->terms.data;
    ctr_lr_uncertain_terms(&q->m->learning, &p->more.event, s, v->row + at, s->x, k, term);
    memset(sum, 0, LANES * sizeof *sum);
    for (int64_t e = 0; e < k; e++)
        sum[v->lane[at + e]] += term[e];
}

/* Weights of rows [from, end), and the sums of this thread's lanes. `uncertain` is a constant where this is called. */
CTR_BODY void forward(struct ctr_lr_mini *q, int t, int64_t from, int64_t end, int64_t rows, double (*sums)[LANES],
                      const bool uncertain)
{
    struct part *p = &q->part[t];
    struct lr *m = q->m;
    struct view v = view_of(p);
    for (int64_t i = from; i < end; i++) {
        if (i + AHEAD < rows)
            begin_row(q, t, &v, i + AHEAD);
        struct ctr_coords s = scratch_of(p, &v, i);
        int64_t at = v.at[i], k = v.len[i];
        (void)m->learning.forward(&m->learning, &s, v.row + at, k);
        double *sum = sums[i - from];
        memset(sum, 0, LANES * sizeof *sum);
        for (int64_t e = 0; e < k; e++) {
            double w =
                m->learning.precision == CTR_F64_STATE ? ((const double *)s.w)[e] : (double)((const float *)s.w)[e];
            sum[v.lane[at + e]] += w * v.x[at + e];
        }
        if (uncertain)
            add_terms(q, p, &v, &s, i, sums[q->size + i - from]);
    }
}

/* Predictions of rows [from, end) from the sums of all threads; every thread makes them for itself. */
static int predict(struct ctr_lr_mini *q, int t, int64_t from, int64_t end, int64_t row, int parity)
{
    struct view v = view_of(&q->part[t]);
    const struct ctr_rows *r = q->r;
    for (int64_t i = from; i < end; i++, row++) {
        double sum[LANES];
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] = ((double(*)[LANES])(void *)q->part[owner(q, lane)].sums[parity].data)[i - from][lane];
        double p = ctr_sigmoid(ctr_lanes_join(sum));
        if (!(p >= 0))
            return ctr_lr_diverged(r->first_row + row + 1, &q->part[t].err);
        if (t == 0)
            q->score[row] = p;
        v.label[i] = r->label[row];
        v.weight[i] = r->weight ? r->weight[row] : 1;
        v.gradient[i] = v.weight[i] * (p - r->label[row]);
    }
    return 0;
}

static void predict_uncertain(struct ctr_lr_mini *q, int64_t n, int64_t row, int parity)
{
    for (int64_t i = 0; i < n; i++) {
        double sum[LANES];
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] = ((double(*)[LANES])(void *)q->part[owner(q, lane)].sums[parity].data)[q->size + i][lane];
        q->score[q->r->rows + row + i] = ctr_lanes_join(sum);
    }
}

/* Rows [0, late) came in earlier calls: their states may have moved since. */
static void update(struct ctr_lr_mini *q, int t, int64_t first, int64_t late, int64_t end)
{
    struct part *p = &q->part[t];
    const struct ctr_learning *l = &q->m->learning;
    struct view v = view_of(p);
    for (int64_t i = first; i < end; i++) {
        if (i < late)
            begin_row(q, t, &v, i);
        struct ctr_coords s = scratch_of(p, &v, i);
        if (l->events && !ctr_event_set(&p->more.event, v.label[i], v.weight[i]))
            continue;
        if (l->events)
            ctr_more_hash(&p->more, v.hash + v.at[i], keys_of(q, t, &v, i));
        l->update_late(l, &s, v.row + v.at[i], v.len[i], v.gradient[i]);
    }
}

/* The rows of an unfinished minibatch go to the front. */
static void keep(struct part *p, int64_t first, int64_t rows)
{
    struct view v = view_of(p);
    int64_t from = v.at[first], n = v.at[rows] - from;
    memmove(v.hash, v.hash + from, (size_t)n * sizeof *v.hash);
    memmove(v.number, v.number + from, (size_t)n * sizeof *v.number);
    memmove(v.lane, v.lane + from, (size_t)n);
    memmove(v.x, v.x + from, (size_t)n * sizeof *v.x);
    memmove(v.row, v.row + from, (size_t)n * sizeof *v.row); /* the bias and the spare ones stay where they are */
    memmove(v.w, v.w + from * 8, (size_t)n * 8);
    memmove(v.len, v.len + first, (size_t)(rows - first) * sizeof *v.len);
    memmove(v.gradient, v.gradient + first, (size_t)(rows - first) * sizeof *v.gradient);
    memmove(v.label, v.label + first, (size_t)(rows - first) * sizeof *v.label);
    memmove(v.weight, v.weight + first, (size_t)(rows - first) * sizeof *v.weight);
    for (int64_t i = first; i <= rows; i++)
        v.at[i - first] = v.at[i] - from;
}

static void run_part(void *ctx, int64_t task, int worker)
{
    struct ctr_lr_mini *q = ctx;
    int t = (int)task;
    (void)worker;
    if (pack(q, t, &q->part[t].err))
        atomic_store(&q->failed, true);
    ctr_meet(&q->meeting);
    if (atomic_load(&q->failed))
        return;
    struct view v = view_of(&q->part[t]);
    int64_t late = q->pending, rows = late + q->end - q->from, first = 0;
    const bool uncertain = q->m->params.uncertainty;
    for (int64_t i = late; i < CTR_MIN(late + AHEAD, rows); i++)
        begin_row(q, t, &v, i);
    for (int64_t at = late, end, parity = 0; at < rows; at = end, parity ^= 1) {
        end = CTR_MIN(first + q->size, rows);
        double(*sums)[LANES] = (double(*)[LANES])(void *)q->part[t].sums[parity].data;
        if (uncertain)
            forward(q, t, at, end, rows, sums, true);
        else
            forward(q, t, at, end, rows, sums, false);
        ctr_meet(&q->meeting);
        if (predict(q, t, at, end, q->from + at - late, (int)parity))
            return; /* all threads see the same */
        if (uncertain && t == 0)
            predict_uncertain(q, end - at, q->from + at - late, (int)parity);
        if (end - first == q->size) {
            update(q, t, first, late, end);
            first = end;
        }
    }
    keep(&q->part[t], first, rows);
}

/* Every thread goes through the same events; clips are each one's own. */
static void set_events(struct ctr_lr_mini *q)
{
    for (int t = 0; t < q->threads; t++) {
        q->part[t].more.event = q->m->more.event;
        q->part[t].more.event.clips = 0;
    }
}

static void take_events(struct ctr_lr_mini *q)
{
    int64_t clips = q->m->more.event.clips;
    for (int t = 0; t < q->threads; t++)
        clips += q->part[t].more.event.clips;
    q->m->more.event = q->part[0].more.event;
    q->m->more.event.clips = clips;
}

int ctr_lr_mini_rows(struct ctr_lr_mini *q, struct lr *m, const struct ctr_rows *r, const uint32_t *number,
                     int64_t from, int64_t end, double *score, struct ctr_err *err)
{
    int rc = find_lanes(q, m, r, err);
    if (rc)
        return rc;
    q->m = m;
    q->r = r;
    q->number = number;
    q->from = from;
    q->end = end;
    q->score = score;
    atomic_store(&q->failed, false);
    for (int t = 0; t < q->threads; t++)
        q->part[t].err.code = 0;
    set_events(q);
    ctr_pool_run(q->pool, q->threads, run_part, q);
    take_events(q);
    for (int t = 0; t < q->threads; t++)
        if (q->part[t].err.code) {
            *err = q->part[t].err;
            return err->code;
        }
    q->pending = (q->pending + end - from) % q->size;
    return 0;
}

void ctr_lr_mini_end(struct ctr_lr_mini *q, struct lr *m)
{
    q->m = m;
    set_events(q);
    for (int t = 0; t < q->threads && q->pending; t++)
        update(q, t, 0, q->pending, q->pending);
    take_events(q);
    q->pending = 0;
}

int64_t ctr_lr_mini_pending(const struct ctr_lr_mini *q)
{
    return q->pending;
}
