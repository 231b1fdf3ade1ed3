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
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/feature/op.h"
#include "common/model/inclusion.h"
#include "common/model/lr.h"
#include "common/model/variants.h"

enum {
    KEY_STRIDE = 16, /* hash, index + 1 of the row of states */
    AHEAD = 8,       /* rows between prefetch and use of keys */
    AHEAD_STATE = 2, /* of states */
    BATCH = 8,       /* variants that predict together: what lies between fits into the first cache */
    LINE = 64,
};

/* A table of features, shared by all variants that learn it. A row of states is: `fixed` bytes, the same in all tables,
 * for learners whose kernels want the hash of a key, or its counts, beside their state; then the states of the others
 * that have this table. */
struct shared {
    struct ctr_sparse keys;
    struct ctr_area states;
    uint64_t rows;  /* of states */
    uint32_t bytes; /* of a row of states; 0: no variant has it */
    int32_t *at; /* by variant: what its kernels take for a table row, from the row of states; NONE: has not got it */
    uint8_t *nothing;     /* a row of zeros, for keys that are refused */
    struct ctr_buf order; /* while models are saved: keys sorted, struct ctr_lr_place */
};
static const int32_t NONE = INT32_MIN;

/* Some variants, which one thread takes through a block. */
struct group {
    int from, end;
    int batch; /* variants that predict together, before they learn */
    /* Scratch of each of them, `room` long: coordinates, and where they lie. */
    struct ctr_buf z, n, w, root, x, slot;
    int64_t room;
    struct ctr_buf k, ones, dot; /* by variant: coordinates; x holds so many ones, then zeros, or -1; dot product */
    struct ctr_err err;
    int64_t failed_row; /* of the block */
    _Alignas(LINE) char apart;
};

struct variant {
    struct lr *one;        /* options, events; its tables stay empty, and its layout is that of rows of states */
    struct lr *loaded;     /* read from a file and not yet in the shared tables, or NULL */
    uint8_t *bias, *spare; /* rows as its kernels want them */
    bool uniform;          /* lies at the same place in every table, and has them all */
};

struct many {
    const struct ctr_variants *vs;
    struct variant *v;
    int n;
    uint32_t fixed;
    bool counts; /* some variants share counts of events */
    struct shared *table;
    int tables;
    const struct ctr_strs *names; /* of tables, the trainer's */
    uint64_t *seed, *extra;
    struct ctr_inclusion *inclusion;
    ctr_sigmoids *sigmoids;
    struct ctr_buf home, state; /* of the block's entries: pointers */
    struct ctr_buf dirty;       /* of the block's rows: has it keys that are refused? */
    struct ctr_pool *pool;      /* NULL: one thread */
    struct group *group;
    int groups;
    /* of the block */
    const struct ctr_rows *r;
    int64_t from, end;
    double *score;
};

/* ---- a learner ---- */

static void free_loaded(struct many *q)
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
    free_loaded(q);
    for (int i = 0; q->v && i < q->n; i++) {
        ctr_lr_free(q->v[i].one);
        free(q->v[i].bias);
        free(q->v[i].spare);
    }
    for (int t = 0; t < q->tables; t++) {
        ctr_sparse_free(&q->table[t].keys);
        ctr_area_free(&q->table[t].states);
        ctr_buf_free(&q->table[t].order);
        free(q->table[t].at);
        free(q->table[t].nothing);
    }
    for (int g = 0; q->group && g < q->groups; g++) {
        struct group *w = &q->group[g];
        struct ctr_buf *bufs[] = { &w->z, &w->n, &w->w, &w->root, &w->x, &w->slot, &w->k, &w->ones, &w->dot };
        for (size_t i = 0; i < CTR_COUNT(bufs); i++)
            ctr_buf_free(bufs[i]);
    }
    ctr_inclusion_free(q->inclusion);
    ctr_buf_free(&q->home);
    ctr_buf_free(&q->state);
    ctr_buf_free(&q->dirty);
    ctr_pool_free(q->pool);
    free(q->group);
    free(q->v);
    free(q->table);
    free(q->seed);
    free(q->extra);
    free(q);
}

/* The learner of variant i alone, without what all share. */
static int new_alone(const struct many *q, int i, struct lr **one, struct ctr_err *err)
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

static int make_groups(struct many *q, int threads, struct ctr_err *err)
{
    q->groups = q->counts ? 1 : CTR_MIN(CTR_MAX(threads, 1), q->n); /* counts: all in step */
    if (q->groups > 1) {
        int rc = ctr_pool_new(&q->pool, q->groups, err);
        if (rc)
            return rc;
    }
    size_t bytes = (size_t)q->groups * sizeof *q->group;
    q->group = aligned_alloc(LINE, bytes);
    if (!q->group)
        return ctr_fail_nomem(err, bytes);
    memset(q->group, 0, bytes);
    for (int g = 0; g < q->groups; g++) {
        q->group[g].from = (int)((int64_t)q->n * g / q->groups);
        q->group[g].end = (int)((int64_t)q->n * (g + 1) / q->groups);
        q->group[g].batch = q->counts ? q->n : BATCH; /* all read a row's counts before one counts it */
    }
    return 0;
}

/* ---- where states lie ---- */

/* The columns of a state: byte offsets in a row of one layout and in one of another. */
struct piece {
    uint32_t from, to, bytes;
};
static int pieces_of(const struct ctr_learning *from, const struct ctr_learning *to, struct piece piece[3])
{
    static const uint32_t value_bytes[CTR_PRECISIONS] = { 8, 4, 2 }, n_bytes[CTR_PRECISIONS] = { 8, 4, 4 };
    int n = 0;
    piece[n++] = (struct piece){ from->layout.value, to->layout.value, value_bytes[from->precision] };
    if (from->layout.n)
        piece[n++] = (struct piece){ from->layout.n, to->layout.n, n_bytes[from->precision] };
    if (from->layout.counts)
        piece[n++] = (struct piece){ from->layout.counts, to->layout.counts, 2 * sizeof(uint16_t) };
    return n;
}

static inline void move_state(const struct piece *piece, int n, const uint8_t *from, uint8_t *to)
{
    for (int i = 0; i < n; i++)
        memcpy(to + piece[i].to, from + piece[i].from, piece[i].bytes);
}

/* Bytes of a variant's own columns, behind the hash. */
static uint32_t own_bytes(const struct lr *m)
{
    return m->stride - 8;
}

/* Room at the front of every row for the variants whose kernels want the hash or counts. */
static void lay_out_fixed(struct many *q)
{
    for (int i = 0; i < q->n; i++) {
        q->fixed = q->v[i].one->learning.events ? 2 * sizeof(uint64_t) : q->fixed; /* hash; counts, and to 8 */
        q->counts |= q->v[i].one->learning.layout.counts != 0;
    }
    for (int i = 0; i < q->n; i++) {
        struct ctr_learning *l = &q->v[i].one->learning;
        const struct ctr_layout alone = l->layout;
        if (!l->events)
            continue;
        l->layout.counts = alone.counts ? sizeof(uint64_t) : 0;
        l->layout.value = q->fixed;
        l->layout.n = alone.n ? q->fixed + alone.n - alone.value : 0;
        q->fixed += (alone.bytes - alone.value + 7) / 8 * 8;
        ctr_learning_use(l, ctr_isa_best(), false); /* fused kernels know the layout of a row that is alone */
    }
}

static int many_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    (void)model;
    struct many *q = calloc(1, sizeof *q);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    q->vs = p->variants;
    q->sigmoids = ctr_sigmoids_best();
    q->v = calloc((size_t)q->vs->n, sizeof *q->v);
    q->n = q->v ? q->vs->n : 0;
    int rc = q->v ? 0 : ctr_fail_nomem(err, (size_t)q->vs->n * sizeof *q->v);
    if (!rc && p->minibatch > 1)
        rc = ctr_fail(err, CTR_EUSAGE, "--variants learn row by row: leave --minibatch out");
    for (int i = 0; i < q->n && !rc; i++)
        rc = new_alone(q, i, &q->v[i].one, err);
    if (!rc)
        lay_out_fixed(q);
    for (int i = 0; i < q->n && !rc; i++) {
        const size_t bytes = q->fixed + CTR_SPARSE_MAX_STRIDE;
        q->v[i].bias = calloc(1, bytes);
        q->v[i].spare = calloc(1, bytes);
        rc = q->v[i].bias && q->v[i].spare ? 0 : ctr_fail_nomem(err, bytes);
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

/* ---- binding: which variant has which table, and where ---- */

static int add_tables(struct many *q, const struct ctr_strs *names, struct ctr_err *err)
{
    const size_t n = (size_t)names->n;
    if (names->n <= q->tables)
        return 0;
    struct shared *table = realloc(q->table, n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, n * sizeof *table);
    q->table = table;
    uint64_t *seed = realloc(q->seed, n * sizeof *seed);
    if (!seed)
        return ctr_fail_nomem(err, n * sizeof *seed);
    q->seed = seed;
    uint64_t *extra = realloc(q->extra, n * sizeof *extra);
    if (!extra)
        return ctr_fail_nomem(err, n * sizeof *extra);
    q->extra = extra;
    for (; q->tables < names->n; q->tables++) {
        struct shared *t = &q->table[q->tables];
        memset(t, 0, sizeof *t);
        ctr_sparse_init(&t->keys, KEY_STRIDE);
        q->seed[q->tables] = ctr_table_seed(names->s[q->tables]);
    }
    return 0;
}

/* Variants that have all tables come first, and lie at the same place in all of them. */
static int lay_out(struct many *q, int table, const bool *has, struct ctr_err *err)
{
    struct shared *t = &q->table[table];
    bool any = false;
    t->at = malloc((size_t)q->n * sizeof *t->at);
    if (!t->at)
        return ctr_fail_nomem(err, (size_t)q->n * sizeof *t->at);
    for (int i = 0; i < q->n; i++) {
        const struct lr *loaded = q->v[i].loaded;
        const bool in = has[(size_t)i * (size_t)q->tables + (size_t)table] ||
                        (loaded && table < loaded->tables && loaded->table[table].used);
        t->at[i] = in ? 0 : NONE;
        any |= in;
    }
    uint32_t bytes = q->fixed;
    for (int full = 1; full >= 0; full--)
        for (int i = 0; i < q->n; i++)
            if (t->at[i] != NONE && !q->v[i].one->learning.events && q->v[i].uniform == full) {
                t->at[i] = (int32_t)bytes - 8; /* where the hash would stand */
                bytes += own_bytes(q->v[i].one);
            }
    t->bytes = any ? bytes : 0;
    t->nothing = calloc(1, t->bytes + 8);
    return t->nothing ? 0 : ctr_fail_nomem(err, t->bytes + 8);
}

static int reserve_table(struct shared *t, uint64_t extra, struct ctr_err *err)
{
    int rc = ctr_sparse_reserve(&t->keys, extra, err);
    const size_t need = (size_t)(t->rows + extra) * t->bytes;
    if (!rc && need > t->states.bytes)
        rc = ctr_area_grow(&t->states, need + need / 8, err);
    return rc;
}

/* The states of a slot of the table of keys; a new key gets its row. */
static inline uint8_t *states_of(struct many *q, struct shared *t, uint8_t *slot)
{
    uint64_t index;
    memcpy(&index, slot + 8, sizeof index);
    if (!index) {
        index = ++t->rows;
        memcpy(slot + 8, &index, sizeof index);
        if (q->fixed)
            memcpy(t->states.base + (index - 1) * t->bytes, slot, sizeof(uint64_t));
    }
    return t->states.base + (index - 1) * t->bytes;
}

static int spread_table(struct many *q, int i, int table, const struct ctr_sparse *from, struct ctr_err *err)
{
    struct shared *t = &q->table[table];
    struct piece piece[3];
    const int pieces = pieces_of(&q->v[i].loaded->learning, &q->v[i].one->learning, piece);
    int rc = reserve_table(t, from->used, err);
    uint64_t at = 0;
    for (const uint8_t *row; !rc && (row = ctr_sparse_next(from, &at));)
        move_state(piece, pieces, row, states_of(q, t, ctr_sparse_get(&t->keys, ctr_sparse_row_hash(row))) + t->at[i]);
    return rc;
}

/* What was read from a file goes into the shared tables. */
static int spread_loaded(struct many *q, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < q->n && !rc; i++) {
        const struct lr *m = q->v[i].loaded;
        struct piece piece[3];
        for (int k = 0; m && k < m->tables && !rc; k++)
            if (m->table[k].used)
                rc = spread_table(q, i, k, &m->table[k], err);
        if (!m || rc)
            continue;
        move_state(piece, pieces_of(&m->learning, &q->v[i].one->learning, piece), m->bias, q->v[i].bias);
        q->v[i].one->more.event = m->more.event;
    }
    free_loaded(q);
    return rc;
}

static int check_normalize(const struct many *q, const bool *has, struct ctr_err *err)
{
    for (int i = 0; i < q->n; i++)
        for (int t = 0; t < q->tables && strcmp(q->vs->v[i].params.normalize, "none"); t++)
            if (q->table[t].at[i] == NONE && has[t])
                return ctr_fail(err, CTR_EUSAGE,
                                "%s: line %d: --normalize takes the norm of whole rows, and this variant leaves "
                                "features out",
                                q->vs->path, q->vs->v[i].line);
    return 0;
}

static int many_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    struct many *q = learner;
    q->names = names;
    int rc = add_tables(q, names, err);
    const size_t n = (size_t)q->n * (size_t)q->tables + 1;
    bool *has = calloc(n, 1), *any = calloc((size_t)q->tables + 1, 1);
    if (!rc && !(has && any))
        rc = ctr_fail_nomem(err, n);
    if (!rc)
        rc = ctr_variants_bind(q->vs, in, names, has, err);
    for (int i = 0; i < q->n && !rc; i++) {
        q->v[i].uniform = true;
        for (int t = 0; t < q->tables; t++) {
            const bool takes = has[(size_t)i * (size_t)q->tables + (size_t)t];
            q->v[i].uniform &= takes;
            any[t] |= takes;
        }
    }
    for (int t = 0; t < q->tables && !rc; t++)
        if (!q->table[t].at)
            rc = lay_out(q, t, has, err);
    for (int t = 1; t < q->tables && !rc; t++) /* tables that came later may be laid out otherwise */
        for (int i = 0; i < q->n; i++)
            q->v[i].uniform &= q->table[t].at[i] == q->table[0].at[i];
    if (!rc)
        rc = check_normalize(q, any, err);
    if (!rc)
        rc = spread_loaded(q, err);
    free(has);
    free(any);
    return rc;
}

/* ---- a block: keys ---- */

static int64_t many_keys(const void *learner)
{
    const struct many *q = learner;
    int64_t n = 0;
    for (int t = 0; t < q->tables; t++)
        n += (int64_t)q->table[t].keys.used;
    return n;
}

static int64_t many_memory(const void *learner)
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
                    (long long)many_keys(q), q->n, ctr_size_text(need).s, ctr_size_text((uint64_t)bound).s);
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
            rc = reserve_table(&q->table[t], q->extra[t], err);
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
    struct ctr_buf *bufs[] = { &w->z, &w->n, &w->w, &w->root, &w->x, &w->slot };
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
        static uint8_t none[3 * KEY_STRIDE]; /* for tables that no variant has */
        home[e] = none;
        if (!t->bytes)
            continue;
        home[e] = ctr_sparse_home(&t->keys, r->hash[e]);
        __builtin_prefetch(home[e], 1);
        __builtin_prefetch(home[e] + 2 * KEY_STRIDE - 1, 1);
    }
}

static void look_ahead(const struct many *q, int64_t row)
{
    const struct ctr_rows *r = q->r;
    const int64_t e = r->start[row];
    ctr_inclusion_ahead(q->inclusion, q->seed, KEY_STRIDE, r->hash + e, r->table + e,
                        (uint8_t *const *)(void *)q->home.data + (e - r->start[q->from]), r->start[row + 1] - e);
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
        struct shared *t = &q->table[r->table[e]];
        const uint64_t h = r->hash[e];
        uint8_t *slot = home[e];
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
            state[e] = states_of(q, t, slot);
        }
    }
    q->dirty.data[row - q->from] = refused;
}

/* ---- a block: variants ---- */

static void prefetch_states(const struct many *q, const struct group *w, int64_t row)
{
    const struct ctr_rows *r = q->r;
    uint8_t *const *state = (uint8_t *const *)(void *)q->state.data - r->start[q->from];
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
        const struct shared *t = &q->table[r->table[e]];
        const int32_t bytes = (int32_t)t->bytes;
        const int32_t from = q->groups == 1 ? 0 : bytes / q->groups * (int32_t)(w - q->group);
        const int32_t end = q->groups == 1 ? bytes : CTR_MIN(from + bytes / q->groups + LINE, bytes);
        for (int32_t at = from; at < end; at += LINE)
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
            const int32_t at = q->table[r->table[e]].at[v];
            slot[k] = at != NONE ? state[e] + at : m->spare;
            if (x)
                x[k] = r->x ? r->x[e] : 1;
            k += at != NONE;
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
        for (int i = w->from; i < w->end && q->groups > 1; i++)
            if (s->at[i] != NONE && q->v[i].one->learning.events)
                memset(s->nothing + q->v[i].one->learning.layout.value, 0, q->v[i].one->learning.layout.bytes - 8);
            else if (s->at[i] != NONE)
                memset(s->nothing + s->at[i] + 8, 0, own_bytes(q->v[i].one));
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

/* Variants [from, end) of the group learn from a row. */
static int learn_batch(struct many *q, struct group *w, int from, int end, int64_t row)
{
    const double label = q->r->label[row], weight = q->r->weight ? q->r->weight[row] : 1;
    int64_t *k = (int64_t *)(void *)w->k.data, *ones = (int64_t *)(void *)w->ones.data;
    double *dot = (double *)(void *)w->dot.data, *p = dot + CTR_MIN(w->batch, q->n);
    for (int v = from, b = 0; v < end; v++, b++) {
        const struct ctr_learning *l = &q->v[v].one->learning;
        const struct ctr_coords s = coords_of(q, w, v, b);
        uint8_t **slot = (uint8_t **)(void *)w->slot.data + b * w->room;
        k[b] = gather_once(q, v, row, slot, s.x, &ones[b]);
        dot[b] = l->forward(l, &s, slot, k[b]);
    }
    q->sigmoids(dot, p, end - from);
    for (int v = from, b = 0; v < end; v++, b++) {
        struct lr *m = q->v[v].one;
        const struct ctr_coords s = coords_of(q, w, v, b);
        if (!(p[b] >= 0)) {
            w->failed_row = row;
            return ctr_lr_diverged(q->r->first_row + row + 1, &w->err);
        }
        q->score[row * q->n + v] = p[b];
        if (!m->learning.events || ctr_event_set(&m->more.event, label, weight))
            m->learning.update(&m->learning, &s, (uint8_t **)(void *)w->slot.data + b * w->room, k[b],
                               weight * (p[b] - label));
    }
    return 0;
}

static void learn_group(struct many *q, struct group *w)
{
    for (int64_t i = q->from; i < q->end; i++) {
        if (i + AHEAD_STATE < q->end)
            prefetch_states(q, w, i + AHEAD_STATE);
        for (int v = w->from; v < w->end; v += w->batch)
            if (learn_batch(q, w, v, CTR_MIN(v + w->batch, w->end), i))
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
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before & ~0x8040u);
#endif
    learn_group(q, &q->group[task]);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}

static int learn_block(struct many *q, struct ctr_err *err)
{
    const struct group *first = NULL;
    for (int64_t i = q->from; i < CTR_MIN(q->from + AHEAD, q->end); i++)
        find_homes(q, i);
    for (int64_t i = q->from; i < q->end; i++) {
        if (i + AHEAD < q->end)
            find_homes(q, i + AHEAD);
        if (q->inclusion)
            look_ahead(q, CTR_MIN(i + 2, q->end - 1));
        find_states(q, i);
    }
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

/* The order of keys that files were written in is good until more come, and costs memory. */
static void forget_order(struct many *q)
{
    for (int t = 0; t < q->tables; t++)
        ctr_buf_free(&q->table[t].order);
}

static int many_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct many *q = learner;
    q->r = r;
    q->score = score;
    forget_order(q);
    for (q->from = 0; q->from < r->rows; q->from = q->end) {
        q->end = ctr_lr_block_end(r, q->from);
        int rc = reserve_block(q, bound, err);
        if (!rc)
            rc = make_scratch(q, err);
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

/* ---- each model alone: for files ---- */

static int add_place(void *ctx, uint64_t key, const uint8_t *slot, struct ctr_err *err)
{
    struct ctr_lr_place place = { .key = key };
    memcpy(&place.index, slot + 8, sizeof place.index);
    place.index--;
    return ctr_buf_append(ctx, &place, sizeof place, err);
}

/* The keys of a table are sorted once for the files of all variants; see forget_order. */
static int sort_table(struct shared *t, struct ctr_err *err)
{
    const size_t bytes = t->keys.used * sizeof(struct ctr_lr_place);
    if (t->order.len == bytes)
        return 0;
    ctr_buf_clear(&t->order);
    int rc = ctr_buf_reserve(&t->order, bytes, err);
    return rc ? rc : ctr_sparse_sorted(&t->keys, add_place, &t->order, err);
}

static int many_alone(const void *learner, int i, const struct ctr_strs *names, void **out, struct ctr_err *err)
{
    const struct many *q = learner;
    const struct variant *v = &q->v[i];
    struct piece piece[3];
    struct lr *m;
    int rc = new_alone(q, i, &m, err);
    if (rc)
        return rc;
    rc = ctr_lr_bind(m, names, err);
    const size_t tables = (size_t)CTR_MAX(q->tables, m->tables) + 1;
    if (!rc && !(m->sorted = calloc(tables, sizeof *m->sorted)))
        rc = ctr_fail_nomem(err, tables * sizeof *m->sorted);
    m->sorted_as = &v->one->learning;
    for (int k = 0; k < q->tables && !rc; k++) {
        struct shared *t = &q->table[k];
        if (!t->at || t->at[i] == NONE || !t->keys.used)
            continue;
        rc = sort_table(t, err);
        m->sorted[k] = (struct ctr_lr_sorted){ (const struct ctr_lr_place *)(const void *)t->order.data, t->keys.used,
                                               t->states.base + t->at[i], t->bytes };
    }
    move_state(piece, pieces_of(&v->one->learning, &m->learning, piece), v->bias, m->bias);
    m->more.event = v->one->more.event;
    if (rc)
        ctr_lr_free(m);
    *out = m;
    return rc;
}

static int many_count(const void *learner)
{
    return ((const struct many *)learner)->vs->n;
}

static const char *many_name(const void *learner, int i)
{
    return ((const struct many *)learner)->vs->v[i].name;
}

static const struct ctr_params *many_params(const void *learner, int i)
{
    return &((const struct many *)learner)->vs->v[i].params;
}

/* ---- checkpoints: a section of lr for each variant, the first one first ---- */

static int many_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    const struct many *q = learner;
    void *alone = NULL;
    int rc = many_alone(q, 0, q->names, &alone, err);
    if (rc)
        return rc;
    rc = ctr_lr_save_schema(alone, s, err);
    ctr_lr_free(alone);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_VARIANTS, (const char *)q->vs->text.data, err);
}

static int many_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    void *alone = NULL;
    int rc = many_alone(learner, 0, tables, &alone, err);
    if (rc)
        return rc;
    rc = ctr_lr_save(alone, tables, w, err);
    ctr_lr_free(alone);
    return rc;
}

static int many_section_names(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                              struct ctr_err *err)
{
    const struct many *q = learner;
    int rc = 0;
    (void)tables;
    for (int i = 1; i < q->n && !rc; i++)
        rc = ctr_buf_printf(names, err, ",lr.%s", q->vs->v[i].name);
    return rc;
}

static int save_section(const struct many *q, int i, const struct ctr_strs *tables, struct ctr_out *out,
                        struct ctr_err *err)
{
    void *alone = NULL;
    struct ctr_schema schema = { 0 };
    struct ctr_writer *w = NULL;
    char name[CTR_MAX_VARIANT_NAME + 8];
    snprintf(name, sizeof name, "lr.%s", q->vs->v[i].name);
    int rc = many_alone(q, i, tables, &alone, err);
    if (!rc)
        rc = ctr_lr_save_schema(alone, &schema, err);
    if (!rc)
        rc = ctr_meta_set(&schema.meta, CTR_META_SECTION, name, err);
    if (!rc)
        rc = ctr_writer_open(&w, out, &schema, NULL, err);
    if (!rc)
        rc = ctr_lr_save(alone, tables, w, err);
    if (!rc)
        rc = ctr_writer_finish(w, err);
    ctr_writer_free(w);
    ctr_lr_free(alone);
    ctr_schema_free(&schema);
    return rc;
}

static int many_save_sections(void *learner, const struct ctr_strs *tables, struct ctr_out *out, struct ctr_err *err)
{
    struct many *q = learner;
    int rc = 0;
    for (int i = 1; i < q->n && !rc; i++)
        rc = save_section(q, i, tables, out, err);
    return rc;
}

/* --init: a whole model for variant i. */
static int load_one(void *learner, int i, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct many *q = learner;
    int rc = new_alone(q, i, &q->v[i].loaded, err);
    return rc ? rc : ctr_lr_load(q->v[i].loaded, tables, r, err);
}

/* A checkpoint of the same variants: checkpoint.c compared them. */
static int many_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct many *q = learner;
    int rc = 0;
    for (int i = 0; i < q->n && !rc; i++) {
        rc = i ? ctr_reader_section(r, err) : 1;
        if (!rc)
            rc = ctr_fail(err, CTR_EDATA, "the checkpoint lacks the section of variant '%s'", q->vs->v[i].name);
        if (rc > 0)
            rc = new_alone(q, i, &q->v[i].loaded, err);
        if (!rc)
            rc = ctr_lr_resume(q->v[i].loaded, tables, r, err);
    }
    return rc;
}

/* ---- what was saved ---- */

static int many_words(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct many *q = learner;
    const int64_t keys = many_keys(q);
    const double bytes = keys ? (double)(many_memory(q) - ctr_inclusion_bytes(q->inclusion)) / (double)keys : 0;
    int rc = ctr_buf_printf(text, err, "bytes a key          %.1f, %.1f for each of %d variants\n", bytes, bytes / q->n,
                            q->n);
    return rc || !q->inclusion ? rc : ctr_inclusion_words(q->inclusion, keys, text, err);
}

static int many_state(const void *learner, struct ctr_buf *words, struct ctr_err *err)
{
    const struct many *q = learner;
    return q->inclusion ? ctr_inclusion_save(q->inclusion, words, err) : 0;
}

static int many_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err)
{
    struct many *q = learner;
    if (q->inclusion)
        return ctr_inclusion_load(q->inclusion, word, words, err);
    return words ? ctr_fail(err, CTR_EDATA, "the checkpoint has a state that its options do not need") : 0;
}

static const struct ctr_many many = {
    .count = many_count,
    .name = many_name,
    .params = many_params,
    .load = load_one,
    .alone = many_alone,
    .model = &ctr_model_lr,
};

const struct ctr_model ctr_model_lr_variants = {
    .name = "lr",
    .options = ctr_lr_options,
    .minibatch = 1,
    .many = &many,
    .learner_new = many_new,
    .learner_free = many_free,
    .bind = many_bind,
    .train_rows = many_train_rows,
    .end_pass = many_end_pass,
    .keys = many_keys,
    .memory = many_memory,
    .words = many_words,
    .state = many_state,
    .restore = many_restore,
    .save_schema = many_save_schema,
    .save = many_save,
    .section_names = many_section_names,
    .save_sections = many_save_sections,
    .load = many_load,
};
