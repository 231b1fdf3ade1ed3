/* SPDX-License-Identifier: Apache-2.0
 *
 * lr by minibatches of rows that have one key a field: field by field over the rows of a minibatch, fields shared
 * between threads. A key that comes in several rows of a minibatch is looked up, gets its weight, and is updated once,
 * with the sum of its gradients and that of their squares, both in the order of rows: with the weight of the
 * minibatch's start, that is what the rows would do to z and n one after another.
 *
 * Field i belongs to lane i mod 8, as in the exact learner's dot product, every lane to one thread, which alone sees
 * the tables of its fields. Threads exchange the sums of lanes once a minibatch and join the eight in one order, so
 * that the bits do not depend on the number of threads. Minibatches are counted by rows from the start of a pass: one
 * may begin in a call and end in a later one. Its rows are predicted at once, which changes nothing but that keys are
 * there; then they wait, and the whole minibatch is worked through when it is complete. */
#include <stdatomic.h>
#include <stdlib.h>

#include "common/feature/op.h"
#include "common/model/ftrl.h"
#include "common/model/lr.h"
#include "common/model/lr_meet.h"

enum { LANES = CTR_LANES, AHEAD = 4 };

/* A field of a minibatch, from forward to update. Arrays of a minibatch's rows, padded to LANES. */
struct field {
    struct ctr_sparse *table; /* NULL: the bias, one key that all rows have */
    int lane;
    int64_t keys; /* different ones */
    uint8_t **row;
    uint32_t *key_of; /* row to key */
    double *z, *n, *w, *root;
    struct ctr_buf memory;
};

struct part { /* a thread's */
    struct ctr_buf set, memory;
    uint32_t *slots; /* of a set of keys: number + 1 */
    uint64_t mask, *key[AHEAD];
    double *x, *g, *squares;
    struct ctr_err err;
    _Alignas(16) uint8_t spare[CTR_SPARSE_MAX_STRIDE];
    _Alignas(64) char apart;
};

/* Rows to work through: a minibatch, or a part of one that is only predicted. */
struct piece {
    const uint64_t *hash; /* of row i in field k: hash[k * stride + i] */
    int64_t stride, rows;
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
    int fields;
    int owner[LANES];
    struct part *part;
    struct ctr_buf wait_hash, wait_label, wait_weight;
    struct ctr_buf sums[2]; /* of even and odd pieces: LANES arrays of `size`, then those of uncertainties */
    const struct ctr_ftrl_kernel *kernel;
    /* of the call */
    struct lr *m;
    struct ctr_buf pieces;
    atomic_bool failed;
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
        ctr_buf_free(&q->part[t].set);
        ctr_buf_free(&q->part[t].memory);
    }
    struct ctr_buf *bufs[] = { &q->wait_hash, &q->wait_label, &q->wait_weight, &q->sums[0], &q->sums[1], &q->pieces };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_pool_free(q->pool);
    free(q->field);
    free(q->part);
    free(q);
}

static int64_t padded(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* A part's scratch: lists of keys, three arrays of numbers, and a set with room to spare. */
static int make_part(const struct ctr_lr_fields *q, struct part *p, struct ctr_err *err)
{
    int64_t room = padded(q->size);
    uint64_t slots = 64;
    while (slots < (uint64_t)q->size * 6)
        slots *= 2;
    int rc = ctr_buf_reserve(&p->set, slots * sizeof *p->slots, err);
    if (!rc)
        rc = ctr_buf_reserve(&p->memory, (size_t)room * (AHEAD + 3) * 8, err);
    if (rc)
        return rc;
    p->slots = (uint32_t *)(void *)p->set.data;
    p->mask = slots - 1;
    for (int i = 0; i < AHEAD; i++)
        p->key[i] = (uint64_t *)(void *)p->memory.data + i * room;
    p->x = (double *)(void *)(p->key[AHEAD - 1] + room);
    p->g = p->x + room;
    p->squares = p->g + room;
    memset(p->x, 0, (size_t)room * sizeof *p->x);
    return 0;
}

static int make_field(const struct ctr_lr_fields *q, struct field *f, struct ctr_err *err)
{
    int64_t room = padded(q->size);
    int rc = ctr_buf_reserve(&f->memory, (size_t)room * (5 * 8 + sizeof *f->key_of), err);
    if (rc)
        return rc;
    f->row = (uint8_t **)(void *)f->memory.data;
    f->z = (double *)(void *)(f->row + room);
    f->n = f->z + room;
    f->w = f->n + room;
    f->root = f->w + room;
    f->key_of = (uint32_t *)(void *)(f->root + room);
    memset(f->key_of, 0, (size_t)room * sizeof *f->key_of); /* of the bias it stays so */
    return 0;
}

int ctr_lr_fields_new(struct ctr_lr_fields **out, int64_t rows, int threads, struct ctr_err *err)
{
    struct ctr_lr_fields *q = aligned_alloc(64, (sizeof *q + 63) / 64 * 64);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    memset(q, 0, sizeof *q);
    q->size = rows;
    q->kernel = ctr_ftrl_kernel_best();
    int rc = ctr_pool_new(&q->pool, CTR_MIN(CTR_MAX(threads, 1), LANES), err);
    if (!rc) {
        q->threads = q->meeting.threads = ctr_pool_threads(q->pool);
        size_t bytes = (size_t)q->threads * sizeof *q->part;
        q->part = aligned_alloc(64, bytes);
        rc = q->part ? 0 : ctr_fail_nomem(err, bytes);
        if (q->part)
            memset(q->part, 0, bytes);
    }
    for (int t = 0; t < q->threads && !rc; t++)
        rc = make_part(q, &q->part[t], err);
    for (int i = 0; i < 2 && !rc; i++)
        rc = ctr_buf_reserve(&q->sums[i], (size_t)(padded(rows) * LANES * 2) * sizeof(double), err);
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
    if (n > q->fields) {
        struct field *f = realloc(q->field, (size_t)n * sizeof *f);
        if (!f)
            return ctr_fail_nomem(err, (size_t)n * sizeof *f);
        q->field = f;
        memset(f + q->fields, 0, (size_t)(n - q->fields) * sizeof *f);
        q->fields = n;
    }
    for (int i = 0; i < n && !rc; i++) {
        q->field[i].table = i < k ? &q->m->table[r->table[i]] : NULL;
        q->field[i].lane = i % LANES;
        rc = q->field[i].row ? 0 : make_field(q, &q->field[i], err);
    }
    return rc;
}

/* Lanes to threads, the heaviest first to the one that has least: a field costs more the more keys it has. */
static void share_lanes(struct ctr_lr_fields *q)
{
    int cost[LANES] = { 0 }, load[LANES] = { 0 };
    for (int i = 0; i < q->fields; i++) {
        uint64_t keys = q->field[i].table ? q->field[i].table->used : 0;
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

/* ---- a field of a minibatch ---- */

/* The different keys among h[0..n) in the order in which they come, and which one each row has. Whether a key is new
 * cannot be foreseen, so that is no branch. */
static int64_t find_keys(const struct part *p, const uint64_t *restrict h, int64_t n, uint64_t *restrict key,
                         uint32_t *restrict key_of)
{
    uint32_t *restrict slots = p->slots, keys = 0;
    const uint64_t mask = p->mask;
    memset(slots, 0, (mask + 1) * sizeof *slots);
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = h[i] & mask;
        uint32_t found = slots[at], number;
        key[keys] = h[i]; /* stays if it is new */
        for (;; found = slots[at = (at + 1) & mask]) {
            number = found + ((keys + 1) & -(uint32_t)!found);
            if (__builtin_expect(key[number - 1] == h[i], 1))
                break;
        }
        keys += !found;
        slots[at] = number;
        key_of[i] = number - 1;
    }
    return keys;
}

/* Keys and their homes, which are asked from memory ahead of their use. */
static void begin_field(struct part *p, struct field *f, const struct piece *c, int number, uint64_t *key)
{
    if (!f->table)
        return;
    const struct ctr_sparse t = *f->table;
    const int64_t keys = find_keys(p, c->hash + number * c->stride, c->rows, key, f->key_of);
    uint8_t **restrict row = f->row;
    for (int64_t i = 0; i < keys; i++) {
        row[i] = ctr_sparse_home(&t, key[i]);
        __builtin_prefetch(row[i], 1);
        __builtin_prefetch(row[i] + 40, 1);
    }
    f->keys = keys;
}

/* Homes to slots. Nineteen of twenty keys lie in their home or behind it. */
static void find_slots(const struct field *f, const uint64_t *restrict key, uint64_t stride)
{
    uint8_t **restrict row = f->row;
    for (int64_t i = 0, keys = f->keys; i < keys; i++) {
        uint8_t *home = row[i];
        const uint64_t h = key[i], first = ctr_sparse_row_hash(home), next = ctr_sparse_row_hash(home + stride);
        row[i] = home + (first == h ? 0 : stride);
        if (__builtin_expect(((first != h) & (next != h)) | !h, 0))
            row[i] = ctr_sparse_get_from(f->table, home, h);
    }
}

/* To each row the weight of its key. */
static void add_weights(const struct field *f, bool single, int64_t rows, double *restrict sum)
{
    const double *restrict w = f->w;
    const float *restrict w32 = (const float *)(const void *)f->w;
    const uint32_t *restrict key_of = f->key_of;
    const double bias = single ? (double)w32[0] : w[0];
    if (!f->table)
        for (int64_t i = 0; i < rows; i++)
            sum[i] += bias;
    else if (single)
        for (int64_t i = 0; i < rows; i++)
            sum[i] += (double)w32[key_of[i]];
    else
        for (int64_t i = 0; i < rows; i++)
            sum[i] += w[key_of[i]];
}

static void sum_field(struct ctr_lr_fields *q, struct part *p, struct field *f, const struct piece *c,
                      const uint64_t *key, double *sum)
{
    const struct ctr_learning *l = &q->m->learning;
    const struct ctr_coords s = { f->z, f->n, f->w, f->root, p->x, NULL };
    if (f->table) {
        find_slots(f, key, q->m->stride);
    } else {
        f->keys = 1;
        f->row[0] = q->m->bias;
    }
    for (int64_t i = f->keys; i % LANES; i++)
        f->row[i] = p->spare;
    (void)q->kernel->forward[l->precision](l, &s, f->row, f->keys);
    add_weights(f, l->precision == CTR_F32_STATE, c->rows, sum);
}

/* To each row the rate of its key, from the roots that sum_field left; p->g is not needed yet. */
static void add_rates(struct ctr_lr_fields *q, struct part *p, const struct field *f, int64_t rows,
                      double *restrict sum)
{
    const struct ctr_coords s = { .root = f->root };
    const uint32_t *restrict key_of = f->key_of;
    double *restrict rate = p->g;
    ctr_lr_uncertain_terms(&q->m->learning, NULL, &s, f->row, NULL, f->keys, rate);
    for (int64_t i = 0; i < rows; i++)
        sum[i] += rate[key_of[i]];
}

/* The sums of gradients and of their squares, a key, in the order of rows. */
static void update_field(struct ctr_lr_fields *q, struct part *p, struct field *f, const struct piece *c,
                         const double *restrict gradient)
{
    const struct ctr_learning *l = &q->m->learning;
    const struct ctr_coords s = { f->z, f->n, f->w, f->root, p->x, NULL };
    double *restrict g = p->g, *restrict squares = p->squares;
    const uint32_t *restrict key_of = f->key_of;
    memset(g, 0, (size_t)padded(f->keys) * sizeof *g);
    memset(squares, 0, (size_t)padded(f->keys) * sizeof *squares);
    for (int64_t i = 0, rows = c->rows; i < rows; i++) {
        g[key_of[i]] += gradient[i];
        squares[key_of[i]] += gradient[i] * gradient[i];
    }
    q->kernel->update_sums[l->precision](l, &s, f->row, f->keys, g, squares);
}

/* ---- a minibatch ---- */

static int next_field(const struct ctr_lr_fields *q, int t, int i)
{
    do
        i++;
    while (i < q->fields && q->owner[q->field[i].lane] != t);
    return i;
}

static double *lane_sums(const struct ctr_lr_fields *q, int parity, int lane)
{
    return (double *)(void *)q->sums[parity].data + lane * padded(q->size);
}

/* The sums of this thread's lanes; while a field's keys are on their way from memory, those of the next ones are
 * found. */
static int forward(struct ctr_lr_fields *q, int t, const struct piece *c, int parity)
{
    struct part *p = &q->part[t];
    for (int i = next_field(q, t, -1); i < q->fields; i = next_field(q, t, i)) {
        int rc = q->field[i].table ? ctr_sparse_reserve(q->field[i].table, (uint64_t)c->rows, &p->err) : 0;
        if (rc)
            return rc;
    }
    const int sets = q->m->params.uncertainty ? 2 : 1;
    for (int lane = 0; lane < LANES; lane++)
        if (q->owner[lane] == t)
            for (int of = 0; of < sets; of++)
                memset(lane_sums(q, parity, of * LANES + lane), 0, (size_t)c->rows * sizeof(double));
    int begun = next_field(q, t, -1), n = 0;
    for (int i = begun, k = 0; i < q->fields; i = next_field(q, t, i), k++) {
        for (; begun < q->fields && n < k + AHEAD; begun = next_field(q, t, begun), n++)
            begin_field(p, &q->field[begun], c, begun, p->key[n % AHEAD]);
        struct field *f = &q->field[i];
        sum_field(q, p, f, c, p->key[k % AHEAD], lane_sums(q, parity, f->lane));
        if (q->m->params.uncertainty)
            add_rates(q, p, f, c->rows, lane_sums(q, parity, LANES + f->lane));
    }
    return 0;
}

/* Predictions and gradients from the sums of all threads; every thread makes them for itself. */
static int predict(struct ctr_lr_fields *q, int t, const struct piece *c, int parity, double *gradient)
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
        gradient[i] = (c->weight ? c->weight[i] : 1) * (p - c->label[i]);
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

static void run_part(void *ctx, int64_t task, int worker)
{
    struct ctr_lr_fields *q = ctx;
    int t = (int)task, n = (int)(q->pieces.len / sizeof(struct piece));
    struct part *p = &q->part[t];
    (void)worker;
    for (int k = 0; k < n; k++) {
        const struct piece *c = (const struct piece *)(void *)q->pieces.data + k;
        double *gradient = (double *)(void *)p->key[0]; /* keys are no longer needed then */
        if (forward(q, t, c, k & 1))
            atomic_store(&q->failed, true);
        ctr_meet(&q->meeting);
        if (atomic_load(&q->failed) || predict(q, t, c, k & 1, gradient))
            return; /* all threads see the same */
        if (c->uncertainty && t == 0)
            predict_uncertain(q, c, k & 1);
        for (int i = next_field(q, t, -1); c->whole && i < q->fields; i = next_field(q, t, i))
            update_field(q, p, &q->field[i], c, gradient);
    }
}

/* ---- calls ---- */

static int add_piece(struct ctr_lr_fields *q, const struct piece *c, struct ctr_err *err)
{
    return ctr_buf_append(&q->pieces, c, sizeof *c, err);
}

/* Rows [from, from + n) of the call. */
static struct piece piece_of(const struct ctr_lr_fields *q, const struct ctr_rows *r, int64_t from, int64_t n,
                             double *score)
{
    return (struct piece){ .hash = r->hash + from,
                           .stride = r->rows,
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
    return (struct piece){ .hash = (const uint64_t *)(void *)q->wait_hash.data,
                           .stride = q->size,
                           .rows = q->pending,
                           .label = (const double *)(void *)q->wait_label.data,
                           .weight = (const double *)(void *)q->wait_weight.data,
                           .whole = true };
}

/* Rows [from, from + n) of the call wait for the others of their minibatch. */
static int keep(struct ctr_lr_fields *q, const struct ctr_rows *r, int64_t from, int64_t n, struct ctr_err *err)
{
    int64_t fields = r->start[1] - r->start[0];
    int rc = ctr_buf_reserve(&q->wait_hash, (size_t)(q->size * fields) * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_buf_reserve(&q->wait_label, (size_t)q->size * sizeof(double), err);
    if (!rc)
        rc = ctr_buf_reserve(&q->wait_weight, (size_t)q->size * sizeof(double), err);
    if (rc)
        return rc;
    uint64_t *hash = (uint64_t *)(void *)q->wait_hash.data;
    double *label = (double *)(void *)q->wait_label.data, *weight = (double *)(void *)q->wait_weight.data;
    for (int64_t i = 0; i < n; i++, q->pending++) {
        for (int64_t k = 0; k < fields; k++)
            hash[k * q->size + q->pending] = r->hash[k * r->rows + from + i];
        label[q->pending] = r->label[from + i];
        weight[q->pending] = r->weight ? r->weight[from + i] : 1;
    }
    return 0;
}

static int run_pieces(struct ctr_lr_fields *q, struct ctr_err *err)
{
    share_lanes(q);
    atomic_store(&q->failed, false);
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
static int add_waiting(struct ctr_lr_fields *q, const struct ctr_rows *r, int64_t n, double *score, struct ctr_err *err)
{
    struct piece c = piece_of(q, r, 0, n, score);
    int64_t known = q->pending;
    int rc = keep(q, r, 0, n, err);
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

int ctr_lr_fields_rows(struct ctr_lr_fields *q, struct lr *m, const struct ctr_rows *r, double *score,
                       struct ctr_err *err)
{
    int64_t at = q->pending ? CTR_MIN(q->size - q->pending, r->rows) : 0, n = 0;
    q->m = m;
    ctr_buf_clear(&q->pieces);
    int rc = bind_fields(q, r, err);
    if (!rc && at)
        rc = add_waiting(q, r, at, score, err);
    for (; at < r->rows && !rc; at += n) {
        n = CTR_MIN(q->size, r->rows - at);
        const struct piece c = piece_of(q, r, at, n, score);
        rc = add_piece(q, &c, err);
    }
    if (!rc)
        rc = run_pieces(q, err);
    return !rc && n % q->size ? keep(q, r, r->rows - n, n, err) : rc;
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
