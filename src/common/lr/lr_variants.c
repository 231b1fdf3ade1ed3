/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr, learned together: one table of keys, behind each key the states of all variants that have its table,
 * in a row of memory that never moves relative to its index. A block of rows finds its keys once; then every variant
 * goes over the block with the kernels of lr, on state that it alone touches: its bits are those of the model learned
 * alone, and threads share the work by variants.
 *
 * A row of states is packed: no slots are empty, and a key costs 16 bytes at the load of a sparse table (25 at most)
 * and the states of its variants. */
#include <math.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/lr/lr_variants.h"
#include "common/model/feed.h"

enum {
    AHEAD = 8,       /* rows between prefetch and use of keys */
    AHEAD_STATE = 2, /* of states */
    BATCH = 8,       /* variants that predict together: what lies between fits into the first cache */
    LINE = 64,
};

/* ---- a learner ---- */

void ctr_lr_variants_free_loaded(struct many *q)
{
    for (int i = 0; q->v && i < q->n; i++) {
        ctr_lr_free(q->v[i].loaded);
        q->v[i].loaded = NULL;
    }
}

static void many_free(void *learner)
{
    struct many *q = learner;
    if (!q)
        return;
    ctr_lr_variants_free_loaded(q);
    for (int i = 0; q->v && i < q->n; i++) {
        ctr_lr_free(q->v[i].one);
        free(q->v[i].rows);
    }
    for (int t = 0; t < q->tables; t++) {
        ctr_sparse_free(&q->table[t].keys);
        ctr_area_free(&q->table[t].states);
        ctr_buf_free(&q->table[t].order);
        free(q->table[t].at);
        free(q->table[t].takes);
        free(q->table[t].eight_at);
        free(q->table[t].eight_rests);
        free(q->table[t].eight_mask);
        free(q->table[t].nothing);
    }
    for (int g = 0; q->group && g < q->groups; g++) {
        struct group *w = &q->group[g];
        struct ctr_buf *bufs[] = { &w->z,    &w->n, &w->w,    &w->root, &w->x,          &w->slot,
                                   &w->hash, &w->k, &w->ones, &w->dot,  &w->eight_rows, &w->eight_room };
        for (size_t i = 0; i < CTR_COUNT(bufs); i++)
            ctr_buf_free(bufs[i]);
    }
    ctr_lr_eights_free(q);
    ctr_inclusion_free(q->inclusion);
    ctr_buf_free(&q->home);
    ctr_buf_free(&q->state);
    ctr_buf_free(&q->dirty);
    ctr_buf_free(&q->spot);
    ctr_pool_free(q->pool);
    ctr_meeting_free(&q->meeting);
    free(q->group);
    free(q->v);
    free(q->table);
    free(q->seed);
    free(q->extra);
    free(q);
}

/* The learner of variant i alone, without what all share. */
int ctr_lr_variant_new(const struct many *q, int i, struct lr **one, struct ctr_err *err)
{
    struct ctr_params p = q->vs->v[i].params;
    void *learner = NULL;
    p.poisson = 0;
    p.bloom = 0;
    p.variants = NULL;
    int rc = ctr_lr_new(&learner, &ctr_model_lr, &p, err);
    *one = learner;
    return rc;
}

/* As reading has a thread of its own beside the learner of one model, learning many has two by default. */
static int make_groups(struct many *q, int threads, struct ctr_err *err)
{
    threads = CTR_MAX(threads, ctr_feed_may_thread() && q->n > CTR_EIGHT ? 2 : 1);
    q->groups = q->counts ? 1 : CTR_MIN(threads, q->n); /* counts: all in step */
    if (q->groups > 1) {
        int rc = ctr_pool_new(&q->pool, q->groups, err);
        if (rc)
            return rc;
        q->groups = ctr_pool_threads(q->pool);
        ctr_meeting_init(&q->meeting, q->groups);
    }
    size_t bytes = (size_t)q->groups * sizeof *q->group;
    q->group = aligned_alloc(LINE, bytes);
    if (!q->group)
        return ctr_fail_nomem(err, bytes);
    memset(q->group, 0, bytes);
    for (int g = 0; g < q->groups; g++)
        q->group[g].batch = q->counts ? q->n : BATCH; /* all read a row's counts before one counts it */
    return 0;
}

static int many_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    (void)model;
    struct many *q = calloc(1, sizeof *q);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    q->vs = p->variants;
    q->sigmoids = ctr_sigmoids_best();
    q->eight_kernel = ctr_eight_kernel_best();
    q->v = calloc((size_t)q->vs->n, sizeof *q->v);
    q->n = q->v ? q->vs->n : 0;
    int rc = q->v ? 0 : ctr_fail_nomem(err, (size_t)q->vs->n * sizeof *q->v);
    if (!rc && p->minibatch > 1)
        rc = ctr_fail(err, CTR_EUSAGE, "--variants learn row by row: leave --minibatch out");
    for (int i = 0; i < q->n && !rc; i++)
        rc = ctr_lr_variant_new(q, i, &q->v[i].one, err);
    if (!rc)
        ctr_lr_variants_lay_out_fixed(q);
    for (int i = 0; i < q->n && !rc; i++) {
        const size_t bytes = q->fixed + CTR_SPARSE_MAX_STRIDE;
        if (!(q->v[i].rows = calloc(2, bytes)))
            rc = ctr_fail_nomem(err, 2 * bytes);
        q->v[i].bias = q->v[i].rows;
        q->v[i].spare = q->v[i].rows + bytes;
    }
    if (!rc)
        rc = ctr_inclusion_new(&q->inclusion, p, err);
    if (!rc)
        rc = make_groups(q, p->threads, err);
    if (rc) {
        many_free(q);
        return rc;
    }
    *out = q;
    return 0;
}

/* ---- a block: keys ---- */

int64_t ctr_lr_variants_keys(const void *learner)
{
    const struct many *q = learner;
    int64_t n = 0;
    for (int t = 0; t < q->tables; t++)
        n += (int64_t)q->table[t].keys.used;
    return n;
}

int64_t ctr_lr_variants_memory(const void *learner)
{
    const struct many *q = learner;
    uint64_t n = (uint64_t)ctr_inclusion_bytes(q->inclusion);
    for (int t = 0; t < q->tables; t++)
        n += ctr_sparse_bytes(&q->table[t].keys) + q->table[t].rows * q->table[t].bytes;
    return (int64_t)n;
}

static int check_memory(const struct many *q, int64_t bound, struct ctr_err *err)
{
    uint64_t need = (uint64_t)ctr_inclusion_bytes(q->inclusion);
    for (int i = 0; i < q->tables; i++) {
        const struct shared *t = &q->table[i];
        need += q->extra[i] ? ctr_sparse_bytes_after(&t->keys, q->extra[i]) : ctr_sparse_bytes(&t->keys);
        need += (t->rows + q->extra[i]) * t->bytes;
    }
    if (!bound || need <= (uint64_t)bound)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "%lld keys of %d variants need %s to go on, --memory allows %s: raise it, refuse rare keys "
                    "(--inclusion), or share values (--single-value)",
                    (long long)ctr_lr_variants_keys(q), q->n, ctr_size_text(need).s, ctr_size_text((uint64_t)bound).s);
}

static int reserve_block(struct many *q, int64_t bound, struct ctr_err *err)
{
    const struct ctr_rows *r = q->r;
    memset(q->extra, 0, (size_t)q->tables * sizeof *q->extra);
    for (int64_t e = r->start[q->from]; e < r->start[q->end]; e++)
        q->extra[r->table[e]] += q->table[r->table[e]].bytes != 0;
    int rc = check_memory(q, bound, err);
    for (int t = 0; t < q->tables && !rc; t++)
        if (q->extra[t])
            rc = ctr_lr_variants_reserve(&q->table[t], q->extra[t], err);
    return rc;
}

static int room(struct ctr_buf *b, int64_t n, size_t size, struct ctr_err *err)
{
    b->len = 0;
    return ctr_buf_reserve(b, (size_t)n * size, err);
}

static int group_scratch(const struct many *q, struct group *w, int64_t longest, struct ctr_err *err)
{
    const int64_t n = CTR_MIN(w->batch, q->n);
    struct ctr_buf *bufs[] = { &w->z, &w->n, &w->w, &w->root, &w->x, &w->slot, &w->hash };
    int rc = 0;
    if (w->room >= longest)
        return 0;
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = room(bufs[i], n * longest, sizeof(double), err);
    if (!rc)
        rc = room(&w->k, n, sizeof(int64_t), err);
    if (!rc)
        rc = room(&w->ones, n, sizeof(int64_t), err);
    if (!rc)
        rc = room(&w->dot, 2 * n, sizeof(double), err);
    if (!rc)
        rc = ctr_lr_eights_scratch(w, longest, err);
    w->room = rc ? 0 : longest;
    for (int64_t i = 0; i < n && !rc; i++)
        ((int64_t *)(void *)w->ones.data)[i] = -1;
    return rc;
}

static int make_scratch(struct many *q, struct ctr_err *err)
{
    const struct ctr_rows *r = q->r;
    int64_t longest = 0;
    for (int64_t i = q->from; i < q->end; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    longest = (longest + 2 * CTR_LANES) / CTR_LANES * CTR_LANES;
    const int64_t entries = r->start[q->end] - r->start[q->from];
    int rc = room(&q->home, entries, sizeof(uint8_t *), err);
    if (!rc)
        rc = room(&q->state, entries, sizeof(uint8_t *), err);
    if (!rc)
        rc = room(&q->dirty, q->end - q->from, 1, err);
    for (int g = 0; g < q->groups && !rc; g++)
        rc = group_scratch(q, &q->group[g], longest, err);
    for (int i = 0; i < q->n && !rc; i++)
        if (q->v[i].one->learning.events)
            rc = ctr_more_reserve(&q->v[i].one->more, longest, err);
    return rc;
}

static void find_homes(struct many *q, int64_t row)
{
    const struct ctr_rows *r = q->r;
    uint8_t **home = (uint8_t **)(void *)q->home.data - r->start[q->from];
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
        const struct shared *t = &q->table[r->table[e]];
        static uint8_t none[3 * CTR_LR_KEY_STRIDE]; /* for tables that no variant has */
        home[e] = none;
        if (!t->bytes)
            continue;
        home[e] = ctr_sparse_home(&t->keys, r->hash[e]);
        __builtin_prefetch(home[e], 1);
        __builtin_prefetch(home[e] + 2 * CTR_LR_KEY_STRIDE - 1, 1);
    }
}

/* Where all rows of a block have one entry a table, and those tables in one order, its columns are looked up by
 * themselves. */
static int find_spots(struct many *q, struct ctr_err *err)
{
    const struct ctr_rows *r = q->r;
    const int64_t first = r->start[q->from], k = r->start[q->from + 1] - first;
    q->spotted = r->one_a_table && !q->inclusion;
    for (int64_t i = 0; i < k && q->spotted; i++)
        q->spotted = q->table[r->table[first + i]].bytes != 0;
    int rc = q->spotted ? room(&q->spot, k, sizeof(struct ctr_lr_spot), err) : 0;
    struct ctr_lr_spot *spot = (struct ctr_lr_spot *)(void *)q->spot.data;
    for (int64_t i = 0; i < k && q->spotted && !rc; i++) {
        const struct shared *t = &q->table[r->table[first + i]];
        spot[i] = (struct ctr_lr_spot){ t->states.base - t->bytes, t->bytes };
    }
    return rc;
}

static void look_ahead(const struct many *q, int64_t row)
{
    const struct ctr_rows *r = q->r;
    const int64_t e = r->start[row];
    ctr_inclusion_ahead(q->inclusion, q->seed, CTR_LR_KEY_STRIDE, r->hash + e, r->table + e,
                        (uint8_t *const *)(void *)q->home.data + (e - r->start[q->from]), r->start[row + 1] - e);
}

/* A known key, in its home: most are. NULL: another case. */
static inline uint8_t *at_home(const struct ctr_lr_spot *spot, const uint8_t *slot, uint64_t h)
{
    uint64_t index;
    memcpy(&index, slot + 8, sizeof index);
    return (ctr_sparse_row_hash(slot) == h) & (h != 0) & (index != 0) ? spot->states + index * spot->bytes : NULL;
}

/* Columns [from, end) of a spotted block, one after the other, so that what is looked into stays near. */
static void find_columns(struct many *q, int64_t from, int64_t end)
{
    const struct ctr_rows *r = q->r;
    const int64_t first = r->start[q->from], k = r->start[q->from + 1] - first, rows = q->end - q->from;
    for (int64_t c = from; c < end; c++) {
        const struct ctr_lr_spot spot = ((const struct ctr_lr_spot *)(void *)q->spot.data)[c];
        struct shared *t = &q->table[r->table[first + c]];
        const uint64_t *hash = r->hash + first + c;
        uint8_t **home = (uint8_t **)(void *)q->home.data + c * rows;
        uint8_t **state = (uint8_t **)(void *)q->state.data + c;
        for (int64_t i = 0; i < rows; i++) {
            home[i] = ctr_sparse_home(&t->keys, hash[i * k]);
            __builtin_prefetch(home[i], 1);
            __builtin_prefetch(home[i] + 2 * CTR_LR_KEY_STRIDE - 1, 1);
        }
        for (int64_t i = 0; i < rows; i++)
            if (!(state[i * k] = at_home(&spot, home[i], hash[i * k])))
                state[i * k] = ctr_lr_states_of(q, t, ctr_sparse_get_from(&t->keys, home[i], hash[i * k]));
    }
}

static void find_states(struct many *q, int64_t row)
{
    const struct ctr_rows *r = q->r;
    uint8_t **home = (uint8_t **)(void *)q->home.data - r->start[q->from];
    uint8_t **state = (uint8_t **)(void *)q->state.data - r->start[q->from];
    bool refused = false;
    if (q->inclusion)
        ctr_inclusion_row(q->inclusion, r->first_row + row);
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
        const uint64_t h = r->hash[e];
        uint8_t *slot = home[e];
        struct shared *t = &q->table[r->table[e]];
        if (!t->bytes) { /* no variant has it */
            state[e] = NULL;
            continue;
        }
        if (!h || ctr_sparse_row_hash(slot) != h)
            slot = q->inclusion ? ctr_inclusion_slot(q->inclusion, &t->keys, q->seed[r->table[e]], slot, h)
                                : ctr_sparse_get_from(&t->keys, slot, h);
        if (q->inclusion && ctr_inclusion_is_nothing(q->inclusion, slot)) {
            state[e] = t->nothing;
            refused = true;
        } else {
            state[e] = ctr_lr_states_of(q, t, slot);
        }
    }
    q->dirty.data[row - q->from] = refused;
}

/* ---- a block: variants ---- */

/* Of single variants: eights ask for their own. */
static void prefetch_states(const struct many *q, const struct group *w, int64_t row)
{
    const struct ctr_rows *r = q->r;
    uint8_t *const *state = (uint8_t *const *)(void *)q->state.data - r->start[q->from];
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
        const struct shared *t = &q->table[r->table[e]];
        const int32_t part = (int32_t)(t->bytes - t->eights_end) / q->groups;
        const int32_t from = (int32_t)t->eights_end + part * (int32_t)(w - q->group), all = (int32_t)t->bytes;
        for (int32_t at = 0; at < (int32_t)q->fixed; at += LINE)
            __builtin_prefetch(state[e] + at, 1);
        for (int32_t at = from; at < CTR_MIN(from + part + LINE, all); at += LINE)
            __builtin_prefetch(state[e] + at, 1);
    }
}

/* The rows that the kernels of variant v take for a row's entries, its x, its bias and the padding; returns the
 * coordinates. */
static int64_t gather(const struct many *q, int v, int64_t row, uint8_t **restrict slot, double *restrict x)
{
    const struct ctr_rows *r = q->r;
    const struct variant *m = &q->v[v];
    uint8_t *const *state = (uint8_t *const *)(void *)q->state.data - r->start[q->from];
    int64_t k = 0;
    if (m->uniform) {
        const int32_t at = q->table[0].at[v];
        state += r->start[row];
        k = r->start[row + 1] - r->start[row];
        for (int64_t i = 0; i < k; i++)
            slot[i] = state[i] + at;
        for (int64_t i = 0; x && i < k; i++)
            x[i] = r->x ? r->x[r->start[row] + i] : 1;
    } else {
        for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
            const struct shared *t = &q->table[r->table[e]];
            slot[k] = t->takes[v] ? state[e] + t->at[v] : m->spare;
            if (x)
                x[k] = r->x ? r->x[e] : 1;
            k += t->takes[v];
        }
    }
    slot[k] = m->bias;
    if (x)
        x[k] = 1;
    k += !m->one->no_bias;
    for (int64_t i = k; i % CTR_LANES; i++) {
        slot[i] = m->spare;
        if (x)
            x[i] = 0;
    }
    return k;
}

/* The same; where all x are 1, they are written once for rows of one length. */
static int64_t gather_once(const struct many *q, int v, int64_t row, uint8_t **slot, double *x, int64_t *ones)
{
    const int64_t k = gather(q, v, row, slot, q->r->x ? x : NULL);
    if (q->r->x)
        *ones = -1;
    if (q->r->x || *ones == k)
        return k;
    for (int64_t i = 0; i < (k + CTR_LANES - 1) / CTR_LANES * CTR_LANES; i++)
        x[i] = i < k;
    *ones = k;
    return k;
}

/* What updates left in the states of keys that are refused. */
static void wipe(const struct many *q, const struct group *w)
{
    for (int t = 0; t < q->tables; t++) {
        const struct shared *s = &q->table[t];
        if (q->groups == 1)
            memset(s->nothing, 0, s->bytes);
        for (int e = w->eight_from; e < w->eight_end && q->groups > 1; e++)
            if (!s->eight_rests[e])
                memset(s->nothing + s->eight_at[e], 0, q->eight[e].bytes);
        for (int i = w->from; i < w->end && q->groups > 1; i++) {
            const int v = q->single[i];
            const struct lr *m = q->v[v].one;
            if (s->at[v] != CTR_LR_NONE && m->learning.events)
                memset(s->nothing + m->learning.layout.value, 0, m->learning.layout.bytes - 8);
            else if (s->at[v] != CTR_LR_NONE)
                memset(s->nothing + s->at[v] + 8, 0, ctr_lr_own_bytes(m));
        }
    }
}

/* To the draws of variant v the hashes of the k keys that it takes from a row. */
static void lend_hashes(const struct many *q, const struct group *w, int v, int64_t row, int64_t k)
{
    const struct ctr_rows *r = q->r;
    struct lr *one = q->v[v].one;
    uint64_t *hash = (uint64_t *)(void *)w->hash.data;
    one->more.hash = q->v[v].uniform ? r->hash + r->start[row] : hash;
    one->more.hashes = k;
    for (int64_t e = r->start[row]; e < r->start[row + 1] && !q->v[v].uniform; e++) {
        *hash = r->hash[e];
        hash += q->table[r->table[e]].takes[v];
    }
}

/* The scratch of variant v, the b-th of those that predict together. */
static struct ctr_coords coords_of(const struct many *q, const struct group *w, int v, int b)
{
    const size_t at = (size_t)(b * w->room) * sizeof(double);
    return (struct ctr_coords){
        w->z.data + at,    w->n.data + at, w->w.data + at, w->root.data + at, (double *)(void *)(w->x.data + at),
        &q->v[v].one->more
    };
}

/* Variants q->single[from … end - 1] learn from a row. */
static int learn_batch(struct many *q, struct group *w, int from, int end, int64_t row)
{
    const double label = q->r->label[row], weight = q->r->weight ? q->r->weight[row] : 1;
    int64_t *k = (int64_t *)(void *)w->k.data, *ones = (int64_t *)(void *)w->ones.data;
    double *dot = (double *)(void *)w->dot.data, *p = dot + CTR_MIN(w->batch, q->n);
    for (int i = from, b = 0; i < end; i++, b++) {
        const int v = q->single[i];
        const struct ctr_learning *l = &q->v[v].one->learning;
        const struct ctr_coords s = coords_of(q, w, v, b);
        uint8_t **slot = (uint8_t **)(void *)w->slot.data + b * w->room;
        k[b] = gather_once(q, v, row, slot, s.x, &ones[b]);
        dot[b] = l->forward(l, &s, slot, k[b]);
    }
    q->sigmoids(dot, p, end - from);
    for (int i = from, b = 0; i < end; i++, b++) {
        const int v = q->single[i];
        struct lr *m = q->v[v].one;
        const struct ctr_coords s = coords_of(q, w, v, b);
        if (!(p[b] >= 0)) {
            w->failed_row = row;
            return ctr_lr_diverged(q->r->first_row + row + 1, &w->err);
        }
        q->score[row * q->n + v] = p[b];
        if (m->learning.events && !ctr_event_set(&m->more.event, label, weight))
            continue;
        if (m->learning.events)
            lend_hashes(q, w, v, row, k[b] - !m->no_bias);
        m->learning.update(&m->learning, &s, (uint8_t **)(void *)w->slot.data + b * w->room, k[b],
                           weight * (p[b] - label));
    }
    return 0;
}

static void learn_group(struct many *q, struct group *w)
{
    for (int64_t i = q->from; i < q->end; i++) {
        if (w->from < w->end && i + AHEAD_STATE < q->end)
            prefetch_states(q, w, i + AHEAD_STATE);
        if (ctr_lr_eights_learn(q, w, i))
            return;
        for (int from = w->from; from < w->end; from += w->batch)
            if (learn_batch(q, w, from, CTR_MIN(from + w->batch, w->end), i))
                return;
        if (q->dirty.data[i - q->from])
            wipe(q, w);
    }
}

/* Threads of a pool flush denormal numbers to zero; a model that is learned alone, by the thread of the process, does
 * not. */
static void run_group(void *ctx, int64_t task, int worker)
{
    struct many *q = ctx;
    (void)worker;
    if (q->spotted) {
        const int64_t k = q->r->start[q->from + 1] - q->r->start[q->from];
        find_columns(q, k * task / q->groups, k * (task + 1) / q->groups);
        if (q->groups > 1)
            ctr_meet(&q->meeting);
    }
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before & ~0x8040u);
#endif
    learn_group(q, &q->group[task]);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}

/* Keys in the order of rows: where rows differ in their tables, or a filter of all tables counts them. */
static void find_rows(struct many *q)
{
    for (int64_t i = q->from; i < CTR_MIN(q->from + AHEAD, q->end); i++)
        find_homes(q, i);
    for (int64_t i = q->from; i < q->end; i++) {
        if (i + AHEAD < q->end)
            find_homes(q, i + AHEAD);
        if (q->inclusion)
            look_ahead(q, CTR_MIN(i + 2, q->end - 1));
        find_states(q, i);
    }
}

static int learn_block(struct many *q, struct ctr_err *err)
{
    const struct group *first = NULL;
    if (q->spotted)
        memset(q->dirty.data, 0, (size_t)(q->end - q->from));
    else
        find_rows(q);
    if (q->pool)
        ctr_pool_run(q->pool, q->groups, run_group, q);
    else
        run_group(q, 0, 0);
    for (int g = 0; g < q->groups; g++)
        if (q->group[g].err.code && (!first || q->group[g].failed_row < first->failed_row))
            first = &q->group[g];
    if (!first)
        return 0;
    *err = first->err;
    return err->code;
}

static int many_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct many *q = learner;
    q->r = r;
    q->score = score;
    ctr_lr_variants_forget_order(q);
    for (q->from = 0; q->from < r->rows; q->from = q->end) {
        q->end = ctr_lr_block_end(r, q->from);
        int rc = reserve_block(q, bound, err);
        if (!rc)
            rc = make_scratch(q, err);
        if (!rc)
            rc = find_spots(q, err);
        if (!rc)
            rc = learn_block(q, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int many_end_pass(void *learner, struct ctr_err *err)
{
    struct many *q = learner;
    (void)err;
    if (q->inclusion)
        ctr_inclusion_end_pass(q->inclusion);
    return 0;
}

const struct ctr_model ctr_model_lr_variants = {
    .name = "lr",
    .options = ctr_lr_options,
    .minibatch = 1,
    .many = &ctr_lr_many,
    .learner_new = many_new,
    .learner_free = many_free,
    .bind = ctr_lr_variants_bind,
    .train_rows = many_train_rows,
    .end_pass = many_end_pass,
    .keys = ctr_lr_variants_keys,
    .memory = ctr_lr_variants_memory,
    .words = ctr_lr_variants_words,
    .state = ctr_lr_variants_state,
    .restore = ctr_lr_variants_restore,
    .save_schema = ctr_lr_variants_save_schema,
    .save = ctr_lr_variants_save,
    .section_names = ctr_lr_variants_section_names,
    .save_sections = ctr_lr_variants_save_sections,
    .load = ctr_lr_variants_load,
};
