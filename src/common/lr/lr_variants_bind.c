/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr: which variant has which table, and the layout of a row of states. See lr_variants.c. */
#include <stdlib.h>

#include "common/lr/lr_variants.h"

int ctr_lr_pieces(const struct ctr_learning *from, const struct ctr_learning *to,
                  struct ctr_lr_piece piece[CTR_LR_PIECES])
{
    int n = 0;
    piece[n++] = (struct ctr_lr_piece){ from->layout.value, to->layout.value, from->layout.value_bytes };
    if (from->layout.n)
        piece[n++] = (struct ctr_lr_piece){ from->layout.n, to->layout.n, from->layout.n_bytes };
    if (from->layout.counts)
        piece[n++] = (struct ctr_lr_piece){ from->layout.counts, to->layout.counts, 2 * sizeof(uint16_t) };
    if (from->layout.last)
        piece[n++] = (struct ctr_lr_piece){ from->layout.last, to->layout.last, sizeof(double) };
    return n;
}

/* Reserve the front of every row for variants other than the default learner, and for counts, which all variants with
 * equal row weights share. Offsets start 8 bytes before the row: kernels take rows with a hash there. */
void ctr_lr_variants_lay_out_fixed(struct variant_set *q)
{
    for (int i = 0; i < q->n; i++) {
        q->events |= q->v[i].one->learning.events;
        q->counts |= q->v[i].one->learning.layout.counts && q->vs->v[i].weight < 0;
    }
    q->fixed = q->counts ? sizeof(uint64_t) : 0;
    for (int i = 0; i < q->n; i++) {
        struct ctr_learning *l = &q->v[i].one->learning;
        const struct ctr_layout alone = l->layout;
        if (!l->events)
            continue;
        const uint32_t first = q->vs->v[i].weight < 0 ? alone.value : CTR_STATE_AT; /* of its own columns */
        const uint32_t by = CTR_STATE_AT + q->fixed - first;
        l->layout.counts = !alone.counts ? 0 : first == CTR_STATE_AT ? alone.counts + by : CTR_STATE_AT;
        l->layout.value = alone.value + by;
        l->layout.n = alone.n ? alone.n + by : 0;
        l->layout.last = alone.last ? alone.last + by : 0;
        q->fixed += (alone.bytes - first + 7) / 8 * 8;
        ctr_learning_use(l, ctr_isa_at((int)ctr_cpu_best()),
                         false); /* fused kernels assume the layout of a standalone row */
    }
}

static int add_tables(struct variant_set *q, const struct ctr_strs *names, struct ctr_err *err)
{
    const size_t n = (size_t)names->n;
    if (names->n <= q->tables)
        return 0;
    int rc = ctr_lr_bind(q->find, names, err);
    if (rc)
        return rc;
    struct shared_table *table = realloc(q->table, n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, n * sizeof *table);
    q->table = table;
    struct ctr_states *states = realloc(q->find->groups.states, (n + 1) * sizeof *states);
    if (!states)
        return ctr_fail_nomem(err, n * sizeof *states);
    q->find->groups.states = states;
    int *of = realloc(q->find->groups.of, n * sizeof *of);
    if (!of)
        return ctr_fail_nomem(err, n * sizeof *of);
    q->find->groups.of = of;
    if (!q->find->groups.n)
        ctr_states_init(&states[q->find->groups.n++], 0);
    for (; q->tables < names->n; q->tables++) {
        memset(&q->table[q->tables], 0, sizeof *q->table);
        of[q->tables] = 0;
    }
    return ctr_lr_orders_init(&q->orders, q->tables, err);
}

/* Variants that have all tables come first, at the same offset in all of them. */
static int lay_out(struct variant_set *q, int table, const bool *has, struct ctr_err *err)
{
    struct shared_table *t = &q->table[table];
    bool any = false;
    const size_t sets = (size_t)q->x8_count + 1;
    t->at = malloc((size_t)q->n * sizeof *t->at);
    t->takes = calloc((size_t)q->n, sizeof *t->takes);
    t->x8_at = calloc(sets, sizeof *t->x8_at);
    t->x8_idle = calloc(sets, sizeof *t->x8_idle);
    t->x8_mask = calloc(sets * CTR_X8, sizeof *t->x8_mask);
    t->digest = calloc((size_t)q->n, sizeof *t->digest);
    if (!t->digest || !t->at || !t->takes || !t->x8_at || !t->x8_idle || !t->x8_mask)
        return ctr_fail_nomem(err, (size_t)q->n * sizeof *t->at);
    for (int i = 0; i < q->n; i++) {
        const struct lr *loaded = q->v[i].loaded;
        const bool in = has[(size_t)i * (size_t)q->tables + (size_t)table] ||
                        (loaded && table < loaded->tables && loaded->table[table].learned);
        t->at[i] = in ? -CTR_STATE_AT : CTR_LR_NONE;
        any |= in;
    }
    uint32_t bytes = t->x8_end_bytes = ctr_lr_x8_lay_out(q, t, q->fixed);
    for (int full = 1; full >= 0; full--)
        for (int i = 0; i < q->n; i++)
            if (t->at[i] != CTR_LR_NONE && !q->v[i].one->learning.events && !q->v[i].x8 && q->v[i].uniform == full) {
                t->at[i] = (int32_t)bytes - 8;      /* position of the hash */
                bytes += q->v[i].one->states.bytes; /* its own columns, without the hash */
            }
    struct lr *m = q->find;
    int *shape = &m->groups.of[table]; /* with a filter each table has its own row of refused keys, because threads
                                          write there */
    for (*shape = 0; any && *shape < m->groups.n && (m->inclusion || m->groups.states[*shape].bytes != bytes);)
        ++*shape;
    if (*shape == m->groups.n)
        ctr_states_init(&m->groups.states[m->groups.n++], bytes);
    return 0;
}

static int spread_table(struct variant_set *q, int i, int table, const struct ctr_keys *from, struct ctr_err *err)
{
    struct ctr_lr_piece piece[CTR_LR_PIECES];
    const int pieces = ctr_lr_pieces(&q->v[i].loaded->learning, &q->v[i].one->learning, piece);
    uint64_t at = 0, hash;
    int rc = 0;
    for (const uint8_t *row; !rc && (row = ctr_keys_row(from, &q->v[i].loaded->states, &at, &hash));) {
        uint8_t *to;
        rc = ctr_keys_get(&q->find->table[table], ctr_lr_states_of(q->find, table), hash, &to, err);
        if (!rc)
            ctr_lr_move_state(piece, pieces, row, to + CTR_STATE_AT + q->table[table].at[i]);
    }
    return rc;
}

/* Copy what was read from a file into the shared tables. */
static int spread_loaded(struct variant_set *q, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < q->n && !rc; i++) {
        const struct lr *m = q->v[i].loaded;
        struct ctr_lr_piece piece[CTR_LR_PIECES];
        for (int k = 0; m && k < m->tables && !rc; k++)
            if (m->table[k].learned)
                rc = spread_table(q, i, k, &m->table[k], err);
        if (!m || rc)
            continue;
        ctr_lr_move_state(piece, ctr_lr_pieces(&m->learning, &q->v[i].one->learning, piece), m->bias, q->v[i].bias);
        q->v[i].one->more.event = m->more.event;
    }
    ctr_lr_variants_free_loaded(q);
    return rc;
}

static int check_normalize(const struct variant_set *q, const struct ctr_inputs *in, struct ctr_err *err)
{
    for (int i = 0; i < q->n; i++)
        for (int c = 0; c < ctr_inputs_count(in) && strcmp(q->vs->v[i].params.normalize, "none"); c++)
            if (!q->table[ctr_inputs_info(in, c).rows_table].takes[i])
                return ctr_fail(err, CTR_EUSAGE,
                                "%s: line %d: --normalize takes the norm of whole rows, and this variant leaves "
                                "features out",
                                q->vs->path, q->vs->v[i].line);
    return 0;
}

/* Find the x8s that have the same place in all tables. */
static void find_everywhere(const struct variant_set *q)
{
    for (int e = 0; e < q->x8_count; e++) {
        struct x8 *own = &q->x8[e];
        own->everywhere = true;
        for (int t = 0; t < q->tables; t++)
            own->everywhere &= !q->table[t].x8_idle[e] && q->table[t].x8_at[e] == q->table[0].x8_at[e];
    }
}

/* Divide the x8s and the other variants among threads. */
static void share_out(struct variant_set *q)
{
    for (int g = 0; g < q->groups; g++) {
        struct group *w = &q->group[g];
        w->x8_from = (int)((int64_t)q->x8_count * g / q->groups);
        w->x8_end = (int)((int64_t)q->x8_count * (g + 1) / q->groups);
        w->from = (int)((int64_t)q->scalar_count * g / q->groups);
        w->end = (int)((int64_t)q->scalar_count * (g + 1) / q->groups);
    }
}

int ctr_lr_variants_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    struct variant_set *q = learner;
    q->names = names;
    int rc = add_tables(q, names, err);
    const size_t n = (size_t)q->n * (size_t)q->tables + 1;
    bool *has = calloc(n, 1);
    if (!rc && !has)
        rc = ctr_fail_nomem(err, n);
    if (!rc)
        rc = ctr_variants_bind(q->vs, in, names, has, err);
    for (int i = 0; i < q->n && !rc; i++) {
        q->v[i].uniform = true;
        for (int t = 0; t < q->tables; t++)
            q->v[i].uniform &= has[(size_t)i * (size_t)q->tables + (size_t)t];
    }
    if (!rc && !q->scalar)
        rc = ctr_lr_x8_make(q, has, err);
    for (int t = 0; t < q->tables && !rc; t++)
        if (!q->table[t].at)
            rc = lay_out(q, t, has, err);
    for (int t = 0; t < q->tables && !rc; t++) {
        for (int i = 0; i < q->n; i++)
            q->table[t].takes[i] = has[(size_t)i * (size_t)q->tables + (size_t)t];
        ctr_lr_x8_bind(q, &q->table[t]);
    }
    if (!rc) {
        find_everywhere(q);
        share_out(q);
    }
    for (int t = 1; t < q->tables && !rc; t++) /* tables added later may have another layout */
        for (int i = 0; i < q->n; i++)
            q->v[i].uniform &= q->table[t].at[i] == q->table[0].at[i];
    if (!rc)
        rc = check_normalize(q, in, err);
    if (!rc)
        rc = spread_loaded(q, err);
    free(has);
    return rc;
}
