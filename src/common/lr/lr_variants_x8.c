/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr in groups of eight (x8): states of the default optimizer are side by side in a row of states, so that
 * the vectors of ftrl_x8.h hold one coordinate of all eight. A variant's bits do not depend on the others in its group.
 * See lr_variants.c. */
#include <stdlib.h>

#include "common/lr/lr_variants.h"

enum {
    PREFIX =
        64,   /* bytes before the states of a bias: kernels address the hash before a row, which does not exist here */
    FULL = 6, /* minimum of eight lanes in use: fewer are not worth the memory */
    AHEAD_ROWS = 3, /* rows between prefetch and use */
    PLACES = 4,     /* rows in progress */
    TOGETHER = 2,   /* x8s that predict before the first of them learns */
};

/* ---- groups of eight ---- */

static bool fits(const struct variant_set *q, int v)
{
    return !q->v[v].one->learning.events;
}

/* Sort variants by precision, then by the tables that they use. */
static int compare(const struct variant_set *q, const bool *has, int a, int b)
{
    const size_t tables = (size_t)q->tables;
    const int by_precision = (int)q->v[a].one->learning.precision - (int)q->v[b].one->learning.precision;
    const int by_tables = memcmp(has + (size_t)b * tables, has + (size_t)a * tables, tables * sizeof *has);
    return by_precision ? by_precision : by_tables ? by_tables : a - b;
}

static void sort(const struct variant_set *q, const bool *has, int *v, int n)
{
    for (int i = 1; i < n; i++) {
        const int own = v[i];
        int to = i;
        for (; to > 0 && compare(q, has, v[to - 1], own) > 0; to--)
            v[to] = v[to - 1];
        v[to] = own;
    }
}

/* Are enough variants in the group to fill its rows of states? */
static bool full(const struct variant_set *q, const bool *has, const int *v, int n)
{
    int64_t lanes = 0, sets = 0;
    for (int t = 0; t < q->tables; t++) {
        int takes = 0;
        for (int i = 0; i < n; i++)
            takes += has[(size_t)v[i] * (size_t)q->tables + (size_t)t];
        lanes += takes;
        sets += takes > 0;
    }
    return lanes >= FULL * sets;
}

static void set_lane(struct x8 *e, int lane, int v, const struct lr *one)
{
    const struct ctr_learning *l = &one->learning;
    e->variant[lane] = v;
    e->params.inv_alpha[lane] = l->inv_alpha;
    e->params.beta[lane] = l->beta;
    e->params.l1[lane] = l->l1;
    e->params.l2[lane] = l->l2;
    e->bias_mask[lane] = one->no_bias ? 0 : UINT64_MAX;
}

static int make_x8(struct variant_set *q, const bool *has, const int *v, int n, struct ctr_err *err)
{
    static const uint32_t number_bytes[] = { sizeof(double), sizeof(float) };
    struct x8 *e = &q->x8[q->x8_count++];
    const size_t tables = (size_t)q->tables;
    *e = (struct x8){ .n = n, .precision = q->v[v[0]].one->learning.precision, .aligned = true, .masked = n < CTR_X8 };
    const uint32_t bytes = number_bytes[e->precision];
    e->bytes = 2 * CTR_X8 * bytes;
    if (!(e->bias = calloc(1, PREFIX + e->bytes)))
        return ctr_fail_nomem(err, PREFIX + e->bytes);
    for (int i = 0; i < CTR_X8; i++) {
        e->variant[i] = -1;
        e->params.inv_alpha[i] = e->params.beta[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        struct variant *m = &q->v[v[i]];
        struct ctr_layout *at = &m->one->learning.layout;
        set_lane(e, i, v[i], m->one);
        e->masked |= m->one->no_bias;
        e->weighted |= q->vs->v[v[i]].weight >= 0;
        e->aligned &= !memcmp(has + (size_t)v[i] * tables, has + (size_t)v[0] * tables, tables * sizeof *has);
        at->n = at->value + CTR_X8 * bytes;
        m->bias = e->bias + PREFIX + (uint32_t)i * bytes - at->value;
        m->x8 = q->x8_count;
        m->lane = i;
    }
    e->masked |= !e->aligned;
    return 0;
}

int ctr_lr_x8_make(struct variant_set *q, const bool *has, struct ctr_err *err)
{
    const size_t n = (size_t)q->n;
    int *v = calloc(n, sizeof *v), fit = 0, rc = 0;
    q->scalar = calloc(n, sizeof *q->scalar);
    q->x8 = aligned_alloc(_Alignof(struct x8), n * sizeof *q->x8);
    if (!v || !q->scalar || !q->x8)
        rc = ctr_fail_nomem(err, n * sizeof *q->x8);
    for (int i = 0; i < q->n && !rc; i++)
        if (fits(q, i))
            v[fit++] = i;
    if (!rc)
        sort(q, has, v, fit);
    for (int i = 0, next; i < fit && !rc; i = next) {
        for (next = i + 1; next < fit && next < i + CTR_X8 &&
                           q->v[v[next]].one->learning.precision == q->v[v[i]].one->learning.precision;)
            next++;
        if (full(q, has, v + i, next - i))
            rc = make_x8(q, has, v + i, next - i, err);
    }
    for (int i = 0; i < q->n && !rc; i++)
        if (!q->v[i].x8)
            q->scalar[q->scalar_count++] = i;
    free(v);
    return rc;
}

void ctr_lr_x8_free(struct variant_set *q)
{
    for (int e = 0; e < q->x8_count; e++)
        free(q->x8[e].bias);
    free(q->x8);
    free(q->scalar);
}

/* ---- where they lie ---- */

uint32_t ctr_lr_x8_lay_out(struct variant_set *q, struct shared_table *t, uint32_t bytes)
{
    for (int e = 0; e < q->x8_count; e++) {
        const struct x8 *own = &q->x8[e];
        bool any = false;
        for (int i = 0; i < own->n; i++) {
            const int v = own->variant[i];
            if (t->at[v] == CTR_LR_NONE)
                continue;
            any = true;
            t->at[v] = (int32_t)(bytes + (uint32_t)i * own->bytes / CTR_X8 / 2) - 8; /* position of the hash */
        }
        t->x8_at[e] = (int32_t)bytes;
        bytes += any ? own->bytes : 0;
    }
    return bytes;
}

void ctr_lr_x8_bind(const struct variant_set *q, struct shared_table *t)
{
    for (int e = 0; e < q->x8_count; e++) {
        uint64_t *mask = t->x8_mask + e * CTR_X8, any = 0;
        for (int i = 0; i < q->x8[e].n; i++)
            any |= mask[i] = t->takes[q->x8[e].variant[i]] ? UINT64_MAX : 0;
        t->x8_idle[e] = !any;
    }
}

/* ---- a row ---- */

static void *part(uint8_t **room, size_t bytes)
{
    void *p = *room;
    *room += bytes;
    return p;
}

int ctr_lr_x8_scratch(struct group *w, int64_t longest, struct ctr_err *err)
{
    const size_t rows = (size_t)(w->x8_end - w->x8_from) * PLACES, n = (size_t)longest + 1;
    const size_t numbers = n * CTR_X8 * sizeof(double);
    struct ctr_lr_x8_row *r;
    w->x8_rows.len = w->x8_room.len = 0;
    int rc = ctr_buf_reserve(&w->x8_rows, rows * sizeof *r, err);
    if (!rc)
        rc = ctr_buf_reserve(&w->x8_room,
                             2 * TOGETHER * numbers + rows * n * 3 * sizeof(double) + n * sizeof *w->lane_at, err);
    if (rc)
        return rc;
    uint8_t *room = w->x8_room.data;
    w->x8_numbers = n * CTR_X8;
    w->x8_w = part(&room, TOGETHER * numbers);
    w->x8_root = part(&room, TOGETHER * numbers);
    r = (struct ctr_lr_x8_row *)(void *)w->x8_rows.data;
    for (size_t i = 0; i < rows; i++) {
        r[i].x = part(&room, n * sizeof *r->x);
        r[i].state = part(&room, n * sizeof *r->state);
        r[i].mask = part(&room, n * sizeof *r->mask);
        r[i].ones = 0;
    }
    w->lane_at = part(&room, n * sizeof *w->lane_at);
    return 0;
}

/* Storage for a row of the group's i-th x8. */
static struct ctr_lr_x8_row *place_of(const struct group *w, int number, int64_t row)
{
    return (struct ctr_lr_x8_row *)(void *)w->x8_rows.data + PLACES * (number - w->x8_from) + row % PLACES;
}

/* x of k coordinates and the bias; if all are 1, only those that were not are written. */
static void gather_x(const struct ctr_rows *r, struct ctr_lr_x8_row *to, int64_t from, int64_t k)
{
    if (r->x)
        memcpy(to->x, r->x + from, (size_t)k * sizeof *to->x);
    for (int64_t i = r->x ? k : to->ones; i <= k; i++)
        to->x[i] = 1;
    to->ones = r->x ? 0 : CTR_MAX(to->ones, k + 1);
}

static void gather_some(const struct variant_set *q, int number, struct ctr_lr_x8_row *to, int64_t row)
{
    const struct ctr_rows *r = q->r;
    int64_t k = 0;
    for (int64_t i = r->start[row]; i < r->start[row + 1]; i++) {
        const int table = ctr_lr_table_of(r, row, i);
        const struct shared_table *t = &q->table[table];
        if (t->x8_idle[number])
            continue;
        to->state[k] = ctr_lr_state_of(q, table, i) + t->x8_at[number];
        to->mask[k] = t->x8_mask + number * CTR_X8;
        to->x[k++] = r->x ? r->x[i] : 1;
    }
    to->x[k] = 1;
    to->k = k + 1;
    to->ones = 0;
}

static void gather(const struct variant_set *q, const struct group *w, int number, int64_t row)
{
    const struct ctr_rows *r = q->r;
    const struct x8 *e = &q->x8[number];
    struct ctr_lr_x8_row *to = place_of(w, number, row);
    if (e->everywhere && !e->masked) {
        const int64_t from = r->start[row], k = r->start[row + 1] - from;
        const uint16_t *restrict table = r->table + (r->transposed ? 0 : from);
        uint8_t **restrict own = to->state;
        const int32_t at = q->tables ? q->table[0].x8_at[number] : 0;
        if (q->one_spot && q->tables) {
            const struct ctr_lr_spot *spot = (const struct ctr_lr_spot *)(const void *)q->spot.data;
            q->find->loops->rows(spot->states + at, spot->bytes, q->number + from, k, own);
        } else
            for (int64_t i = 0; i < k; i++)
                own[i] = ctr_lr_state_of(q, table[i], from + i) + at;
        gather_x(r, to, from, k);
        to->k = k + 1;
    } else {
        gather_some(q, number, to, row);
    }
    to->state[to->k - 1] = e->bias + PREFIX;
    to->mask[to->k - 1] = e->bias_mask;
}

/* The dot products of lanes whose coordinates are numbered differently from the row's. */
static void dot_each(const struct x8 *e, const struct ctr_x8_row *r, const uint64_t *const *mask, int32_t *at,
                     double *dot)
{
    for (int lane = 0; lane < e->n; lane++) {
        int64_t n = 0;
        for (int64_t i = 0; i < r->k; i++) {
            at[n] = (int32_t)i;
            n += mask[i][lane] != 0;
        }
        dot[lane] = ctr_x8_dot(e->precision, r, lane, at, n);
    }
}

/* The results of a prediction that the update needs. */
struct prediction {
    struct ctr_x8_row r;
    _Alignas(64) double g[CTR_X8]; /* per lane: weight (p - y) */
};

static int predict(struct variant_set *q, struct group *w, int number, int64_t row, struct prediction *t)
{
    const struct x8 *e = &q->x8[number];
    const struct ctr_lr_x8_row *own = place_of(w, number, row), *next = place_of(w, number, row + AHEAD_ROWS);
    const double label = q->r->label[row], weight = q->r->weight ? q->r->weight[row] : 1;
    const size_t scratch = (size_t)((number - w->x8_from) % TOGETHER) * w->x8_numbers;
    _Alignas(64) double dot[CTR_X8] = { 0 }, p[CTR_X8];
    for (int64_t i = row; row == q->from && i < CTR_MIN(q->end, row + AHEAD_ROWS); i++)
        gather(q, w, number, i);
    if (row + AHEAD_ROWS < q->end)
        gather(q, w, number, row + AHEAD_ROWS);
    t->r = (struct ctr_x8_row){
        .state = own->state,
        .x = own->x,
        .mask = e->masked ? own->mask : NULL,
        .k = own->k,
        .w = w->x8_w + scratch,
        .root = w->x8_root + scratch,
        .next = next->state,
        .nexts = row + AHEAD_ROWS < q->end ? next->k : 0,
    };
    q->x8_kernel->forward[e->precision](&e->params, &t->r, dot);
    if (!e->aligned)
        dot_each(e, &t->r, own->mask, w->lane_at, dot);
    q->sigmoids(dot, p, CTR_X8);
    for (int i = 0; i < e->n; i++) {
        if (!(p[i] >= 0)) {
            w->failed_row = row;
            return ctr_lr_diverged(q->r->first_row + row + 1, &w->err);
        }
        q->score[row * q->n + e->variant[i]] = p[i];
    }
    for (int i = 0; i < CTR_X8; i++)
        t->g[i] = weight * (p[i] - label);
    for (int i = 0; e->weighted && i < e->n; i++)
        t->g[i] = ctr_lr_weight_of(q, e->variant[i], row) * (p[i] - label);
    return 0;
}

/* Several x8s predict before the first of them learns, so that the processor need not wait for an x8's dot product and
 * sigmoids. */
int ctr_lr_x8_learn(struct variant_set *q, struct group *w, int64_t row)
{
    for (int from = w->x8_from, end; from < w->x8_end; from = end) {
        struct prediction predicted[TOGETHER];
        end = CTR_MIN(from + TOGETHER, w->x8_end);
        for (int e = from; e < end; e++) {
            int rc = predict(q, w, e, row, &predicted[e - from]);
            if (rc)
                return rc;
        }
        for (int e = from; e < end; e++) {
            const struct x8 *own = &q->x8[e];
            q->x8_kernel->update[own->precision](&own->params, &predicted[e - from].r, predicted[e - from].g);
        }
    }
    return 0;
}

/* ---- digests ---- */

enum { TILE = 128, AHEAD = 16 };

/* Add the digests of a tile of keys. */
static void digest_tile(const struct variant_set *q, const struct x8 *e, const uint8_t *base, uint64_t stride,
                        const struct ctr_numbered *place, uint64_t n, uint64_t *sum, double *wrong)
{
    const struct ctr_x8_kernel *kernel = q->x8_kernel;
    const size_t half = e->bytes / 2;
    _Alignas(64) uint8_t z[TILE * CTR_X8 * sizeof(double)], squares[sizeof z], w[sizeof z];
    uint64_t mixed[TILE];
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *state = base + place[i].number * stride;
        const uint8_t *ahead = base + place[i + AHEAD < n ? i + AHEAD : i].number * stride;
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + half);
        memcpy(z + (size_t)i * half, state, half);
        memcpy(squares + (size_t)i * half, state + half, half);
        mixed[i] = ctr_mix64(place[i].key);
    }
    kernel->weights[e->precision](&e->params, z, squares, w, (int64_t)n);
    kernel->digest[e->precision](mixed, z, squares, w, (int64_t)n, sum, wrong);
}

static void digest(const struct variant_set *q, int number, int table, const struct ctr_numbered *place, uint64_t n)
{
    const struct x8 *e = &q->x8[number];
    const struct shared_table *t = &q->table[table];
    const struct ctr_states *states = ctr_lr_states_of(q->find, table);
    const uint8_t *base = (const uint8_t *)((uintptr_t)states->area.base + (uintptr_t)t->x8_at[number]);
    uint64_t sum[CTR_X8] = { 0 };
    double wrong[CTR_X8] = { 0 };
    bool any = false;
    for (int i = 0; i < e->n; i++)
        any |= t->at[e->variant[i]] != CTR_LR_NONE;
    for (uint64_t from = 0; any && from < n; from += TILE)
        digest_tile(q, e, base, states->bytes, place + from, CTR_MIN(n - from, TILE), sum, wrong);
    for (int i = 0; i < e->n; i++)
        t->digest[e->variant[i]] = (struct ctr_lr_digested){ sum[i], wrong[i] == 0 };
}

void ctr_lr_x8_digest(const struct variant_set *q, int table, const struct ctr_numbered *place, uint64_t n)
{
    for (int e = 0; e < q->x8_count; e++)
        digest(q, e, table, place, n);
}
