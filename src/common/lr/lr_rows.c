/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning of rows by lr, exactly: one after another. The keys have been found and have states; nothing in the tables
 * moves, so states are prefetched AHEAD rows before use: 1.5 times as fast when ids follow a Zipf distribution. */
#include "common/base/isa.h"
#include "common/lr/lr.h"

enum {
    AHEAD = 8,         /* rows between prefetch and use */
    RING = 16,         /* rows with prefetched states, more than AHEAD */
    TRANSPOSED = 64,   /* rows whose hashes are transposed at a time: they stay in the first-level cache */
    NEAR_BYTES = 8192, /* states of a table up to this size need no prefetch */
};

void ctr_lr_scratch_free(struct ctr_lr_scratch *s)
{
    struct ctr_buf *bufs[] = { &s->row, &s->hash, &s->far, &s->z, &s->n, &s->w, &s->root, &s->x, &s->terms };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
}

/* Room for the longest row of the block, and for the prefetched rows. */
static int make_scratch(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    struct ctr_lr_scratch *s = &m->scratch;
    int64_t longest = 0;
    for (int64_t i = from; i < end; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    longest = (longest + 2 * CTR_LANES) / CTR_LANES * CTR_LANES; /* includes the bias */
    s->width = longest;
    s->block = from;
    struct ctr_buf *bufs[] = { &s->z, &s->n, &s->w, &s->root };
    const int64_t rows = end - from > 1 ? RING : 1;
    int rc = ctr_buf_room(&s->row, longest * rows, sizeof(uint8_t *), err);
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = ctr_buf_room(bufs[i], longest, sizeof(double), err);
    if (!rc && s->x.cap < (size_t)longest * sizeof(double)) {
        s->filled = 0;
        rc = ctr_buf_room(&s->x, longest, sizeof(double), err);
    }
    if (!rc && m->learning.events)
        rc = ctr_more_reserve(&m->more, longest, err);
    if (!rc && m->learning.events && r->transposed)
        rc = ctr_buf_room(&s->hash, 2 * TRANSPOSED * longest, sizeof(uint32_t), err);
    return rc;
}

/* For the random draws of at most TRANSPOSED transposed rows: halves of their hashes by row. */
static void transpose_hashes(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end)
{
    const struct ctr_learning *l = &m->learning;
    const int64_t k = r->start[from + 1] - r->start[from];
    const int64_t width = m->scratch.width;
    uint32_t *low = (uint32_t *)(void *)m->scratch.hash.data, *high = low + TRANSPOSED * width;
    if (l->precision == CTR_Q13_STATE)
        ctr_halves_transpose(r->hash + from, r->rows, k, end - from, 0, width, low);
    if (l->rate == CTR_RATE_COUNTS)
        ctr_halves_transpose(r->hash + from, r->rows, k, end - from, 32, width, high);
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
    m->more.low = (const uint32_t *)(const void *)m->scratch.hash.data + at * m->scratch.width;
    m->more.high = m->more.low + TRANSPOSED * m->scratch.width;
}

/* The positions in a row, with one entry per table, that belong to large tables. */
static int make_shape(struct lr *m, const struct ctr_rows *r, int64_t from, struct ctr_err *err)
{
    const int64_t k = r->start[from + 1] - r->start[from];
    const uint16_t *table = r->table + (r->transposed ? 0 : r->start[from]);
    struct ctr_lr_scratch *s = &m->scratch;
    int rc = ctr_buf_room(&s->far, k, sizeof *table, err);
    s->far_n = 0;
    for (int64_t i = 0; i < k && r->one_a_table && !rc; i++)
        if (m->table[table[i]].learned * m->states.bytes > NEAR_BYTES)
            ((uint16_t *)(void *)s->far.data)[s->far_n++] = (uint16_t)i;
    return rc;
}

/* The table rows of a row's entries, with room for the bias and padding. */
static uint8_t **rows_of(const struct ctr_lr_scratch *s, int64_t row)
{
    return (uint8_t **)(void *)s->row.data + (row - s->block) % RING * s->width;
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
    const uint16_t *far = (const uint16_t *)(void *)m->scratch.far.data;
    const int64_t far_n = m->scratch.far_n;
    uint8_t **restrict to = rows_of(&m->scratch, row);
    number += r->start[row];
    m->loops->rows(ctr_states_rows(&m->states), m->states.bytes, number, k, to);
    const int64_t last = m->states.bytes - 1;
    for (int64_t i = 0; CTR_LINE % m->states.bytes == 0 && i < far_n; i++)
        __builtin_prefetch(to[far[i]] + CTR_STATE_AT, 1);
    for (int64_t i = 0; CTR_LINE % m->states.bytes && i < far_n; i++) { /* a state may span two lines */
        const uint8_t *state = to[far[i]] + CTR_STATE_AT;
        __builtin_prefetch(state, 1);
        __builtin_prefetch(state + last, 1);
    }
    for (int64_t i = 0; !r->one_a_table && i < k; i++)
        __builtin_prefetch(to[i] + CTR_STATE_AT, 1);
}

/* x of a row, then the bias, then zeros to the end of the last lane. */
static inline void fill_x(struct ctr_lr_scratch *s, const double *x, int64_t k, int64_t all)
{
    double *to = (double *)(void *)s->x.data;
    if (x)
        memcpy(to, x, (size_t)k * sizeof *to);
    else if (s->filled == k + 1)
        return; /* as the last row left it */
    else
        for (int64_t i = 0; i < k; i++)
            to[i] = 1;
    s->filled = x ? 0 : k + 1;
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
    struct ctr_lr_scratch *scratch = &m->scratch;
    const struct ctr_coords s = {
        scratch->z.data, scratch->n.data, scratch->w.data, scratch->root.data, (double *)(void *)scratch->x.data,
        &m->more
    };
    const struct ctr_learning *l = &m->learning;
    for (int64_t i = from; i < CTR_MIN(from + AHEAD, end); i++)
        begin_row(m, r, i, number);
    for (int64_t i = from; i < end; i++) {
        int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !m->no_bias;
        uint8_t **row = rows_of(scratch, i);
        double p = 0;
        for (int64_t j = 0; m->expiry.days && j < k; j++)
            ctr_expiry_stamp(&m->expiry, row[j], m->expiry.today);
        if (m->inclusion) /* as the last row left it there */
            memset(ctr_states_refused(&m->states), 0, m->states.bytes);
        end_row(m, row, k);
        fill_x(scratch, r->x ? r->x + at : NULL, k, all);
        if (events)
            lend_hashes(m, r, from, end, i);
        if (!m->each.learn)
            p = ctr_sigmoid(l->forward(l, &s, row, all));
        /* This does not depend on p, unlike the following. */
        if (i + AHEAD < end)
            begin_row(m, r, i + AHEAD, number);
        if (m->each.learn) {
            int rc = m->each.learn(m, r, i, &s, row, all, score, err);
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
