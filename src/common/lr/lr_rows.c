/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning of rows by lr: exactly, or in minibatches (--minibatch), whose rows all predict with the weights of the
 * start. The keys have been found and have states; nothing in the tables moves, so states are prefetched AHEAD rows
 * before use: 1.5 times as fast when ids follow a Zipf distribution. */
#include "common/base/isa.h"
#include "common/lr/lr.h"

enum {
    AHEAD = 8,         /* rows between prefetch and use */
    RING = 16,         /* rows with prefetched states, more than AHEAD */
    TRANSPOSED = 64,   /* rows whose hashes are transposed at a time: they stay in the first-level cache */
    NEAR_BYTES = 8192, /* states of a table up to this size need no prefetch */
};

/* Room for the longest row of the block, and for the prefetched rows. */
static int make_scratch(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    int64_t longest = m->deferred.longest;
    for (int64_t i = from; i < end; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    m->deferred.longest = m->params.minibatch > 1 ? longest : 0;
    longest = (longest + 2 * CTR_LANES) / CTR_LANES * CTR_LANES; /* includes the bias */
    m->width = longest;
    m->block = from;
    struct ctr_buf *bufs[] = { &m->z, &m->n, &m->w, &m->root };
    const int64_t rows = m->params.minibatch > 1 ? 2 * RING : end - from > 1 ? RING : 1;
    int rc = ctr_buf_room(&m->row, longest * rows, sizeof(uint8_t *), err);
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = ctr_buf_room(bufs[i], longest, sizeof(double), err);
    if (!rc && m->x.cap < (size_t)longest * sizeof(double)) {
        m->filled = 0;
        rc = ctr_buf_room(&m->x, longest, sizeof(double), err);
    }
    if (!rc && m->learning.events)
        rc = ctr_more_reserve(&m->more, longest, err);
    if (!rc && m->learning.events && r->transposed)
        rc = ctr_buf_room(&m->hash, 2 * TRANSPOSED * longest, sizeof(uint32_t), err);
    return rc;
}

/* For the random draws of at most TRANSPOSED transposed rows: halves of their hashes by row. */
static void transpose_hashes(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end)
{
    const struct ctr_learning *l = &m->learning;
    const int64_t k = r->start[from + 1] - r->start[from];
    uint32_t *low = (uint32_t *)(void *)m->hash.data, *high = low + TRANSPOSED * m->width;
    if (l->precision == CTR_Q13_STATE)
        ctr_halves_transpose(r->hash + from, r->rows, k, end - from, 0, m->width, low);
    if (l->rate == CTR_RATE_COUNTS)
        ctr_halves_transpose(r->hash + from, r->rows, k, end - from, 32, m->width, high);
}

/* The halves of row i; rows from `from` on must be requested in order. */
static void lend_hashes(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t i)
{
    if (!r->transposed) {
        ctr_more_hash(&m->more, r->hash + r->start[i], r->start[i + 1] - r->start[i]);
        return;
    }
    const int64_t at = (i - from) % TRANSPOSED;
    if (!at)
        transpose_hashes(m, r, i, CTR_MIN(i + TRANSPOSED, end));
    m->more.low = (const uint32_t *)(const void *)m->hash.data + at * m->width;
    m->more.high = m->more.low + TRANSPOSED * m->width;
}

/* The positions in a row, with one entry per table, that belong to large tables. */
static int make_shape(struct lr *m, const struct ctr_rows *r, int64_t from, struct ctr_err *err)
{
    const int64_t k = r->start[from + 1] - r->start[from];
    const uint16_t *table = r->table + (r->transposed ? 0 : r->start[from]);
    int rc = ctr_buf_room(&m->far, k, sizeof *table, err);
    m->far_n = 0;
    for (int64_t i = 0; i < k && r->one_a_table && !rc; i++)
        if (m->table[table[i]].learned * m->states.bytes > NEAR_BYTES)
            ((uint16_t *)(void *)m->far.data)[m->far_n++] = (uint16_t)i;
    return rc;
}

/* The table rows of a row's entries, with room for the bias and padding. */
static uint8_t **rows_of(const struct lr *m, int64_t row)
{
    return (uint8_t **)(void *)m->row.data + (row - m->block) % RING * m->width;
}

/* After the k entries of a row: the bias, if there is one, then padding to whole lanes. */
static void end_row(struct lr *m, uint8_t **row, int64_t k)
{
    const int64_t all = k + !m->no_bias;
    row[k] = m->bias;
    for (int64_t j = all; j % CTR_LANES; j++)
        row[j] = m->spare;
}

/* Compute and prefetch the table rows of a row's entries. */
static void begin_row(const struct lr *m, const struct ctr_rows *r, int64_t row, const uint32_t *restrict number)
{
    const int64_t k = r->start[row + 1] - r->start[row];
    const uint16_t *far = (const uint16_t *)(void *)m->far.data;
    uint8_t **restrict to = rows_of(m, row);
    number += r->start[row];
    m->loops->rows(ctr_states_rows(&m->states), m->states.bytes, number, k, to);
    const int64_t last = m->states.bytes - 1;
    for (int64_t i = 0; CTR_LINE % m->states.bytes == 0 && i < m->far_n; i++)
        __builtin_prefetch(to[far[i]] + CTR_STATE_AT, 1);
    for (int64_t i = 0; CTR_LINE % m->states.bytes && i < m->far_n; i++) { /* a state may span two lines */
        const uint8_t *state = to[far[i]] + CTR_STATE_AT;
        __builtin_prefetch(state, 1);
        __builtin_prefetch(state + last, 1);
    }
    for (int64_t i = 0; !r->one_a_table && i < k; i++)
        __builtin_prefetch(to[i] + CTR_STATE_AT, 1);
}

/* x of a row, then the bias, then zeros to the end of the last lane. */
static inline void fill_x(struct lr *m, const double *x, int64_t k, int64_t all)
{
    double *to = (double *)(void *)m->x.data;
    if (x)
        memcpy(to, x, (size_t)k * sizeof *to);
    else if (m->filled == k + 1)
        return; /* as the last row left it */
    else
        for (int64_t i = 0; i < k; i++)
            to[i] = 1;
    m->filled = x ? 0 : k + 1;
    for (int64_t i = k; i < ctr_lanes_padded(all); i++)
        to[i] = i < all;
}

int ctr_lr_diverged(int64_t row, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld: the prediction is not a number" CTR_LR_TOO_LARGE, (long long)row);
}

/* Callers pass a constant for `events`: the default learner needs none. */
CTR_BODY int train_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                         double *score, const bool events, struct ctr_err *err)
{
    const struct ctr_coords s = {
        m->z.data, m->n.data, m->w.data, m->root.data, (double *)(void *)m->x.data, &m->more
    };
    const struct ctr_learning *l = &m->learning;
    for (int64_t i = from; i < CTR_MIN(from + AHEAD, end); i++)
        begin_row(m, r, i, number);
    for (int64_t i = from; i < end; i++) {
        int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !m->no_bias;
        uint8_t **row = rows_of(m, i);
        double p = 0;
        for (int64_t j = 0; m->expiry.days && j < k; j++)
            ctr_expiry_stamp(&m->expiry, row[j], m->expiry.today);
        if (m->inclusion) /* as the last row left it there */
            memset(ctr_states_refused(&m->states), 0, m->states.bytes);
        end_row(m, row, k);
        fill_x(m, r->x ? r->x + at : NULL, k, all);
        if (events)
            lend_hashes(m, r, from, end, i);
        if (!m->each_row)
            p = ctr_sigmoid(l->forward(l, &s, row, all));
        /* This does not depend on p, unlike the following. */
        if (i + AHEAD < end)
            begin_row(m, r, i + AHEAD, number);
        if (m->each_row) {
            int rc = m->each_row(m, r, i, &s, row, all, score, err);
            if (rc)
                return rc;
            continue;
        }
        if (!(p >= 0))
            return ctr_lr_diverged(r->first_row + i + 1, err);
        score[i] = p;
        if (events && !ctr_event_set(&m->more.event, r->label[i], r->weight ? r->weight[i] : 1))
            continue;
        l->update(l, &s, row, all, (r->weight ? r->weight[i] : 1) * (p - r->label[i]));
    }
    return 0;
}

int ctr_lr_train_exactly(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                         double *score, struct ctr_err *err)
{
    int rc = make_scratch(m, r, from, end, err);
    if (!rc)
        rc = make_shape(m, r, from, err);
    if (rc)
        return rc;
    return m->learning.events ? train_block(m, r, from, end, number, score, true, err)
                              : train_block(m, r, from, end, number, score, false, err);
}

/* ---- by minibatches ---- */

/* All gradients of a minibatch use the weights at its start; then its rows update z and n one after another, so that a
 * repeated key gets their gradients in row order. Minibatches are counted in rows from the start of a pass: one may
 * begin in one call and end in a later one, after states have moved, so it stores key numbers. */
struct deferred_row {
    int64_t at,
        keys; /* index and number of its coordinates, padded to whole lanes, in the arrays of struct ctr_lr_deferred */
    double gradient, label, weight;
    bool ones; /* all x are 1 */
};

static struct deferred_row *deferred_rows(const struct lr *m)
{
    return (struct deferred_row *)(void *)m->deferred.rows.data;
}

static int64_t deferred_end(const struct lr *m)
{
    if (!m->deferred.n)
        return 0;
    const struct deferred_row *last = &deferred_rows(m)[m->deferred.n - 1];
    return last->at + ctr_lanes_padded(last->keys + 1);
}

/* Make room after the `used` ones. */
static int add_room(struct ctr_buf *b, int64_t used, int64_t n, size_t size, struct ctr_err *err)
{
    b->len = (size_t)used * size;
    return ctr_buf_reserve(b, (size_t)n * size, err);
}

static int make_deferred(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    struct ctr_lr_deferred *a = &m->deferred;
    const int64_t used = deferred_end(m), n = r->start[end] - r->start[from] + (end - from) * CTR_LANES;
    struct ctr_buf *bufs[] = { &a->number, &a->x, &a->w, &a->hash };
    int rc = ctr_buf_room(&a->rows, m->params.minibatch, sizeof(struct deferred_row), err);
    if (!rc)
        rc = ctr_buf_room(&a->logit, ctr_lanes_padded(end - from), sizeof(double), err);
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = add_room(bufs[i], used, n, sizeof(uint64_t), err);
    return rc ? rc : ctr_buf_room(&m->terms, m->width, sizeof(double), err);
}

double ctr_lr_sum_terms(const struct lr *m, const struct ctr_rows *r, int64_t i, const double *term)
{
    const int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !m->no_bias;
    double lane[CTR_LANES] = { 0 };
    if (r->one_a_table)
        return ctr_lanes_dot(term, NULL, all);
    for (int64_t j = 0; j < k; j++)
        lane[m->seed[r->table[at + j]] % CTR_LANES] += term[j];
    lane[0] += all > k ? term[k] : 0;
    return ctr_lanes_join(lane);
}

/* Compute the logit of row i and add it to the minibatch. */
static double add_row(struct lr *m, const struct ctr_rows *r, int64_t i, const uint32_t *number, double *uncertainty)
{
    const struct ctr_learning *l = &m->learning;
    const int64_t first = r->start[i], k = r->start[i + 1] - first, all = k + !m->no_bias, at = deferred_end(m);
    struct ctr_lr_deferred *a = &m->deferred;
    double *x = (double *)(void *)m->x.data, *term = (double *)(void *)m->terms.data;
    struct ctr_coords s = { m->z.data, m->n.data, a->w.data + at * 8, m->root.data, x, &m->more };
    deferred_rows(m)[a->n++] = (struct deferred_row){ at, k, 0, r->label[i], r->weight ? r->weight[i] : 1, !r->x };
    memcpy((uint32_t *)(void *)a->number.data + at, number + first, (size_t)k * sizeof *number);
    if (l->events)
        memcpy((uint64_t *)(void *)a->hash.data + at, r->hash + first, (size_t)k * sizeof *r->hash);
    if (r->x)
        memcpy((double *)(void *)a->x.data + at, r->x + first, (size_t)k * sizeof *r->x);
    uint8_t **row = rows_of(m, i);
    end_row(m, row, k);
    fill_x(m, r->x ? r->x + first : NULL, k, all);
    double logit = l->forward(l, &s, row, all);
    for (int64_t j = 0; j < all && !r->one_a_table; j++)
        term[j] = (l->precision == CTR_F64_STATE ? ((double *)s.w)[j] : (double)((float *)s.w)[j]) * x[j];
    if (!r->one_a_table)
        logit = ctr_lr_sum_terms(m, r, i, term);
    if (m->params.uncertainty) {
        ctr_lr_uncertain_terms(l, &m->more.event, &s, row, r->x ? x : NULL, all, term);
        *uncertainty = ctr_lr_sum_terms(m, r, i, term);
    }
    return logit;
}

/* Prefetch the table rows of row i of the minibatch. */
static uint8_t **begin_deferred(const struct lr *m, int64_t i)
{
    const struct deferred_row *own = &deferred_rows(m)[i];
    uint8_t **row = (uint8_t **)(void *)m->row.data + (RING + i % RING) * m->width; /* after those of coming rows */
    m->loops->rows(ctr_states_rows(&m->states), m->states.bytes,
                   (const uint32_t *)(const void *)m->deferred.number.data + own->at, own->keys, row);
    for (int64_t j = 0; j < own->keys; j++)
        __builtin_prefetch(row[j] + CTR_STATE_AT, 1);
    return row;
}

/* Update with the rows of the minibatch in order, with the weights of its start. */
void ctr_lr_end_minibatch(struct lr *m)
{
    const struct ctr_learning *l = &m->learning;
    const struct ctr_lr_deferred *a = &m->deferred;
    struct ctr_coords s = { m->z.data, m->n.data, NULL, m->root.data, (double *)(void *)m->x.data, &m->more };
    for (int64_t i = 0; m->changed.on && i < a->n; i++) { /* a checkpoint may have come since they were added */
        const struct deferred_row *own = &deferred_rows(m)[i];
        ctr_lr_note_changed(m, (const uint32_t *)(const void *)a->number.data + own->at, own->keys);
    }
    for (int64_t i = 0; i < CTR_MIN(AHEAD, a->n); i++)
        (void)begin_deferred(m, i);
    for (int64_t i = 0; i < a->n; i++) {
        const struct deferred_row *own = &deferred_rows(m)[i];
        const int64_t at = own->at, all = own->keys + !m->no_bias;
        uint8_t **row = (uint8_t **)(void *)m->row.data + (RING + i % RING) * m->width;
        if (i + AHEAD < a->n)
            (void)begin_deferred(m, i + AHEAD);
        if (l->events && !ctr_event_set(&m->more.event, own->label, own->weight))
            continue;
        if (l->events)
            ctr_more_hash(&m->more, (const uint64_t *)(const void *)a->hash.data + at, own->keys);
        end_row(m, row, own->keys);
        fill_x(m, own->ones ? NULL : (const double *)(const void *)a->x.data + at, own->keys, all);
        s.w = a->w.data + at * 8;
        l->update_deferred(l, &s, row, all, own->gradient);
    }
    m->deferred.n = 0;
}

/* Predict rows [from, end), which continue their minibatch. */
static int predict_rows(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                        int64_t prefetched, double *score, struct ctr_err *err)
{
    double *logit = (double *)(void *)m->deferred.logit.data;
    const int64_t first = m->deferred.n;
    for (int64_t i = from; i < end; i++) {
        logit[i - from] = add_row(m, r, i, number, score + r->rows + i);
        if (i + AHEAD < prefetched)
            begin_row(m, r, i + AHEAD, number);
    }
    ctr_sigmoids_best()(logit, score + from, end - from);
    for (int64_t i = from; i < end; i++) {
        struct deferred_row *own = &deferred_rows(m)[first + i - from];
        if (!(score[i] >= 0))
            return ctr_lr_diverged(r->first_row + i + 1, err);
        own->gradient = own->weight * (score[i] - own->label);
    }
    return 0;
}

int ctr_lr_train_minibatches(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                             double *score, struct ctr_err *err)
{
    int rc = make_scratch(m, r, from, end, err);
    if (!rc)
        rc = make_shape(m, r, from, err);
    if (!rc)
        rc = make_deferred(m, r, from, end, err);
    for (int64_t i = from; i < CTR_MIN(from + AHEAD, end) && !rc; i++)
        begin_row(m, r, i, number);
    for (int64_t at = from, n; at < end && !rc; at += n) {
        n = CTR_MIN(m->params.minibatch - m->deferred.n, end - at);
        rc = predict_rows(m, r, at, at + n, number, end, score, err);
        if (!rc && m->deferred.n == m->params.minibatch)
            ctr_lr_end_minibatch(m);
    }
    return rc;
}
