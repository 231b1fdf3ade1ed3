/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr, trained together: one table of keys and, for each key, the states of all variants that have its
 * table, in a row of memory whose number never changes. The keys of a block of rows are found once; then every variant
 * processes the block with the kernels of lr, on its own state, so its bits are those of a model trained alone, and
 * threads divide the variants.
 *
 * An lr that does not learn finds the keys (states.h), ahead where possible (feed.h). */
#include <stdlib.h>

#include "common/lr/lr_variants.h"

enum {
    AHEAD_STATE = 2, /* rows between prefetch and use of states */
    BATCH = 8,       /* variants that predict together: their intermediate data fit into the first-level cache */
};

/* Three variants, of which `a` and `b` take tables site and tag, and `c` only site. Rows are learned in blocks:
 *
 *     find        the block's keys become numbers, once: site A -> 0, site B -> 1, tag X -> 2
 *     states      row 0 (site A): a's z and n | b's | c's       row 2 (tag X): a's | b's
 *     learn       thread 1: a, then b, each over all rows of the block; thread 2: c
 *
 * Within a row of states each variant has a fixed offset, so a variant walks numbers of the block as lr does, with its
 * offset added. Six to eight variants of the default optimizer and one precision share a row in another form, one in
 * each lane of a vector (lr_variants_x8.c). */

/* ---- a learner ---- */

void ctr_lr_variants_free_loaded(struct variant_set *q)
{
    for (int i = 0; q->v && i < q->n; i++) {
        ctr_lr_free(q->v[i].loaded);
        q->v[i].loaded = NULL;
    }
}

static void variant_set_free(void *learner)
{
    struct variant_set *q = learner;
    if (!q)
        return;
    ctr_lr_variants_free_loaded(q);
    for (int i = 0; q->v && i < q->n; i++) {
        ctr_lr_free(q->v[i].one);
        free(q->v[i].rows);
    }
    for (int i = 0; q->find && i < q->find->groups.n; i++)
        ctr_states_free(&q->find->groups.states[i]);
    for (int t = 0; t < q->tables; t++) {
        free(q->table[t].digest);
        free(q->table[t].at);
        free(q->table[t].takes);
        free(q->table[t].x8_at);
        free(q->table[t].x8_idle);
        free(q->table[t].x8_mask);
    }
    for (int g = 0; q->group && g < q->groups; g++) {
        struct group *w = &q->group[g];
        struct ctr_buf *bufs[] = { &w->z,    &w->n, &w->w,    &w->root, &w->x,       &w->slot,
                                   &w->hash, &w->k, &w->ones, &w->dot,  &w->x8_rows, &w->x8_room };
        for (size_t i = 0; i < CTR_COUNT(bufs); i++)
            ctr_buf_free(bufs[i]);
    }
    ctr_lr_orders_free(&q->orders);
    ctr_lr_x8_free(q);
    if (q->find) {
        free(q->find->groups.states);
        free(q->find->groups.of);
    }
    ctr_lr_free(q->find);
    ctr_buf_free(&q->spot);
    ctr_pool_free(q->pool);
    free(q->group);
    free(q->v);
    free(q->table);
    free(q);
}

/* Two by default: the thread for a single model, and the feed's thread, which has spare time. */
static int make_groups(struct variant_set *q, int threads, struct ctr_err *err)
{
    threads = CTR_MAX(threads, ctr_cpu_count() > 1 && q->n > CTR_X8 ? 2 : 1);
    q->groups = q->counts ? 1 : CTR_MIN(threads, q->n); /* with counts all variants stay in step */
    if (q->groups > 2) {
        int rc = ctr_pool_new(&q->pool, q->groups, CTR_FLOAT_IEEE, err);
        if (rc)
            return rc;
        q->groups = ctr_pool_threads(q->pool);
    }
    size_t bytes = (size_t)q->groups * sizeof *q->group;
    q->group = aligned_alloc(CTR_LINE, bytes);
    if (!q->group)
        return ctr_fail_nomem(err, bytes);
    memset(q->group, 0, bytes);
    for (int g = 0; g < q->groups; g++)
        q->group[g].batch = q->counts ? q->n : BATCH; /* all read a row's counts before one increments them */
    return 0;
}

/* Its options determine the inclusion of keys. */
static int make_finder(struct variant_set *q, const struct ctr_params *p, struct ctr_err *err)
{
    struct ctr_params own = *p;
    void *learner = NULL;
    own.variants = NULL;
    int rc = ctr_lr_new(&learner, &ctr_model_lr, &own, err);
    q->find = learner;
    if (rc)
        return rc;
    q->find->no_bias = true; /* variants have their own bias */
    q->find->finding.variants = q->n;
    return 0;
}

static int variant_set_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    (void)model;
    struct variant_set *q = calloc(1, sizeof *q);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    q->vs = p->variants;
    q->sigmoids = ctr_sigmoids_at(ctr_cpu_best());
    q->x8_kernel = ctr_x8_kernel_at((int)ctr_cpu_best());
    q->v = calloc((size_t)q->vs->n, sizeof *q->v);
    q->n = q->v ? q->vs->n : 0;
    int rc = q->v ? 0 : ctr_fail_nomem(err, (size_t)q->vs->n * sizeof *q->v);
    for (int i = 0; i < q->n && !rc; i++) {
        struct ctr_err inner = { 0 };
        if ((rc = ctr_lr_standalone_new(q->vs, i, &q->v[i].one, &inner)))
            rc = ctr_fail(err, inner.code, "%s: line %d: %s", q->vs->path, q->vs->v[i].line, inner.what);
    }
    if (!rc)
        ctr_lr_variants_lay_out_fixed(q);
    for (int i = 0; i < q->n && !rc; i++) {
        const size_t bytes = q->fixed + CTR_STATE_MOST_BYTES;
        if (!(q->v[i].rows = calloc(2, bytes)))
            rc = ctr_fail_nomem(err, 2 * bytes);
        q->v[i].bias = q->v[i].rows;
        q->v[i].spare = q->v[i].rows + bytes;
    }
    if (!rc)
        rc = make_finder(q, p, err);
    if (!rc)
        rc = make_groups(q, p->threads, err);
    if (rc) {
        variant_set_free(q);
        return rc;
    }
    *out = q;
    return 0;
}

/* ---- a block: keys ---- */

int64_t ctr_lr_variants_keys(const void *learner)
{
    return ctr_model_lr.keys(((const struct variant_set *)learner)->find);
}

int64_t ctr_lr_variants_memory(const void *learner)
{
    struct lr *m = ((const struct variant_set *)learner)->find;
    uint64_t bytes = (uint64_t)ctr_inclusion_bytes(m->inclusion);
    ctr_lr_hold_finders(m);
    for (int i = 0; i < m->tables; i++)
        bytes += ctr_keys_bytes(&m->table[i], ctr_lr_states_of(m, i));
    ctr_lr_release_finders(m);
    return (int64_t)bytes;
}

static int group_scratch(const struct variant_set *q, struct group *w, int64_t longest, struct ctr_err *err)
{
    const int64_t n = CTR_MIN(w->batch, q->n);
    struct ctr_buf *bufs[] = { &w->z, &w->n, &w->w, &w->root, &w->x, &w->slot, &w->hash };
    int rc = 0;
    if (w->room >= longest)
        return 0;
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = ctr_buf_room(bufs[i], n * longest, sizeof(double), err);
    if (!rc)
        rc = ctr_buf_room(&w->k, n, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&w->ones, n, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&w->dot, 2 * n, sizeof(double), err);
    if (!rc)
        rc = ctr_lr_x8_scratch(w, longest, err);
    w->room = rc ? 0 : longest;
    for (int64_t i = 0; i < n && !rc; i++)
        ((int64_t *)(void *)w->ones.data)[i] = -1;
    return rc;
}

static int make_scratch(struct variant_set *q, struct ctr_err *err)
{
    const struct ctr_rows *r = q->r;
    int64_t longest = 0;
    for (int64_t i = q->from; i < q->end; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    longest = (longest + 2 * CTR_LANES) / CTR_LANES * CTR_LANES;
    int rc = 0;
    for (int g = 0; g < q->groups && !rc; g++)
        rc = group_scratch(q, &q->group[g], longest, err);
    for (int i = 0; i < q->n && !rc; i++)
        if (q->v[i].one->learning.events)
            rc = ctr_more_reserve(&q->v[i].one->more, longest, err);
    return rc;
}

/* Find the numbers of a block, create their states, and locate them. */
static int find_numbers(struct variant_set *q, int64_t bound, struct ctr_err *err)
{
    struct lr *m = q->find;
    int rc = q->r->number ? 0 : ctr_buf_room(&m->finding.here.own, q->r->start[q->end], sizeof *q->number, err);
    uint32_t *own = (uint32_t *)(void *)m->finding.here.own.data;
    q->number = q->r->number ? q->r->number : own;
    if (!rc && !q->r->number)
        rc = ctr_lr_find_block(m, q->r, q->from, q->end, bound, own, err);
    if (!rc)
        rc = ctr_lr_register_keys(m, q->r, q->from, q->end, q->number, err);
    if (!rc)
        rc = ctr_buf_room(&q->spot, q->tables, sizeof(struct ctr_lr_spot), err);
    q->one_spot = true;
    for (int i = 0; i < q->tables && !rc; i++) {
        struct ctr_lr_spot *spot = (struct ctr_lr_spot *)(void *)q->spot.data;
        spot[i] = (struct ctr_lr_spot){ ctr_lr_states_of(m, i)->area.base, ctr_lr_states_of(m, i)->bytes };
        q->one_spot &= spot[i].states == spot->states;
    }
    return rc;
}

/* ---- a block: variants ---- */

/* For single variants: x8s prefetch their own. */
static void prefetch_states(const struct variant_set *q, const struct group *w, int64_t row)
{
    const struct ctr_rows *r = q->r;
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
        const int table = ctr_lr_table_of(r, row, e);
        const int32_t all = (int32_t)ctr_lr_states_of(q->find, table)->bytes,
                      x8_end_bytes = (int32_t)q->table[table].x8_end_bytes;
        const int32_t part = (all - x8_end_bytes) / q->groups, from = x8_end_bytes + part * (int32_t)(w - q->group);
        const uint8_t *state = ctr_lr_state_of(q, table, e);
        for (int32_t at = 0; at < (int32_t)q->fixed; at += CTR_LINE)
            __builtin_prefetch(state + at, 1);
        for (int32_t at = from; at < CTR_MIN(from + part + CTR_LINE, all); at += CTR_LINE)
            __builtin_prefetch(state + at, 1);
    }
}

/* Collect the table rows of a row's entries for the kernels of variant v, its x, its bias and the padding; returns the
 * number of coordinates. */
static int64_t gather(const struct variant_set *q, int v, int64_t row, uint8_t **restrict slot, double *restrict x)
{
    const struct ctr_rows *r = q->r;
    const struct variant *m = &q->v[v];
    int64_t k = 0;
    if (m->uniform) {
        const int32_t at = q->table[0].at[v];
        const int64_t e = r->start[row];
        k = r->start[row + 1] - e;
        for (int64_t i = 0; i < k; i++)
            slot[i] = ctr_lr_state_of(q, ctr_lr_table_of(r, row, e + i), e + i) + at;
        for (int64_t i = 0; x && i < k; i++)
            x[i] = r->x ? r->x[r->start[row] + i] : 1;
    } else {
        for (int64_t e = r->start[row]; e < r->start[row + 1]; e++) {
            const int table = ctr_lr_table_of(r, row, e);
            const struct shared_table *t = &q->table[table];
            slot[k] = t->takes[v] ? ctr_lr_state_of(q, table, e) + t->at[v] : m->spare;
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

/* The same; if all x are 1, they are written once for rows of equal length. */
static int64_t gather_once(const struct variant_set *q, int v, int64_t row, uint8_t **slot, double *x, int64_t *ones)
{
    const int64_t k = gather(q, v, row, slot, q->r->x ? x : NULL);
    if (q->r->x)
        *ones = -1;
    if (q->r->x || *ones == k)
        return k;
    for (int64_t i = 0; i < ctr_lanes_padded(k); i++)
        x[i] = i < k;
    *ones = k;
    return k;
}

/* Clear what updates wrote to the states of refused keys. */
static void wipe(const struct variant_set *q, const struct group *w, int table)
{
    const struct shared_table *t = &q->table[table];
    const struct ctr_states *states = ctr_lr_states_of(q->find, table);
    uint8_t *nothing = ctr_states_refused(states);
    if (q->groups == 1)
        memset(nothing, 0, states->bytes);
    for (int e = w->x8_from; e < w->x8_end && q->groups > 1; e++)
        if (!t->x8_idle[e])
            memset(nothing + t->x8_at[e], 0, q->x8[e].bytes);
    for (int i = w->from; i < w->end && q->groups > 1; i++) {
        const int v = q->scalar[i];
        const struct ctr_layout *at = &q->v[v].one->learning.layout;
        if (t->at[v] != CTR_LR_NONE)
            memset(nothing + t->at[v] + (at->counts ? at->counts : at->value), 0, at->bytes - CTR_STATE_AT);
    }
}

static void wipe_row(const struct variant_set *q, const struct group *w, int64_t row)
{
    const struct ctr_rows *r = q->r;
    for (int64_t e = r->start[row]; e < r->start[row + 1]; e++)
        if (!q->number[e] && ctr_lr_wants(q->find, ctr_lr_table_of(r, row, e)))
            wipe(q, w, ctr_lr_table_of(r, row, e));
}

/* Collect the hashes of the k keys that variant v uses from a row, for random draws. */
static void take_hashes(const struct variant_set *q, const struct group *w, int v, int64_t row, int64_t k)
{
    const struct ctr_rows *r = q->r;
    uint64_t *own = (uint64_t *)(void *)w->hash.data, *to = own;
    for (int64_t e = r->start[row]; e < r->start[row + 1] && !q->v[v].uniform; e++) {
        *to = r->hash[e];
        to += q->table[r->table[e]].takes[v];
    }
    ctr_more_hash(&q->v[v].one->more, q->v[v].uniform ? r->hash + r->start[row] : own, k);
}

/* The scratch memory of variant v, number b of those that predict together. */
static struct ctr_coords coords_of(const struct variant_set *q, const struct group *w, int v, int b)
{
    const size_t at = (size_t)(b * w->room) * sizeof(double);
    return (struct ctr_coords){
        w->z.data + at,    w->n.data + at, w->w.data + at, w->root.data + at, (double *)(void *)(w->x.data + at),
        &q->v[v].one->more
    };
}

/* Variants q->scalar[from … end - 1] learn a row. */
static int learn_batch(struct variant_set *q, struct group *w, int from, int end, int64_t row)
{
    const double label = q->r->label[row];
    int64_t *k = (int64_t *)(void *)w->k.data, *ones = (int64_t *)(void *)w->ones.data;
    double *dot = (double *)(void *)w->dot.data, *p = dot + CTR_MIN(w->batch, q->n);
    for (int i = from, b = 0; i < end; i++, b++) {
        const int v = q->scalar[i];
        const struct ctr_learning *l = &q->v[v].one->learning;
        const struct ctr_coords s = coords_of(q, w, v, b);
        uint8_t **slot = (uint8_t **)(void *)w->slot.data + b * w->room;
        k[b] = gather_once(q, v, row, slot, s.x, &ones[b]);
        dot[b] = l->forward(l, &s, slot, k[b]);
    }
    q->sigmoids(dot, p, end - from);
    for (int i = from, b = 0; i < end; i++, b++) {
        const int v = q->scalar[i];
        struct lr *m = q->v[v].one;
        const struct ctr_coords s = coords_of(q, w, v, b);
        const double weight = ctr_lr_weight_of(q, v, row);
        if (!(p[b] >= 0)) {
            w->failed_row = row;
            return ctr_lr_diverged(q->r->first_row + row + 1, &w->err);
        }
        q->score[row * q->n + v] = p[b];
        if (m->learning.events && !ctr_event_set(&m->more.event, label, weight))
            continue;
        if (m->learning.events)
            take_hashes(q, w, v, row, k[b] - !m->no_bias);
        m->learning.update(&m->learning, &s, (uint8_t **)(void *)w->slot.data + b * w->room, k[b],
                           weight * (p[b] - label));
    }
    return 0;
}

static void learn_group(struct variant_set *q, struct group *w)
{
    for (int64_t i = q->from; i < q->end; i++) {
        if (w->from < w->end && i + AHEAD_STATE < q->end)
            prefetch_states(q, w, i + AHEAD_STATE);
        if (ctr_lr_x8_learn(q, w, i))
            return;
        for (int from = w->from; from < w->end; from += w->batch)
            if (learn_batch(q, w, from, CTR_MIN(from + w->batch, w->end), i))
                return;
        if (q->find->inclusion)
            wipe_row(q, w, i);
    }
}

static void run_group(void *ctx, int64_t task, int worker)
{
    struct variant_set *q = ctx;
    (void)worker;
    learn_group(q, &q->group[task]);
}

static void run_second(void *ctx)
{
    run_group(ctx, 1, 0);
}

/* The kernel must clear pages, which takes as long as several tiles: so do it while the other thread is not waiting for
 * states. */
static void make_next_states(struct variant_set *q)
{
    for (int i = 0; i < q->tables; i++)
        if (ctr_lr_wants(q->find, i))
            ctr_states_make_next(ctr_lr_states_of(q->find, i), q->find->table[i].known);
}

/* More than two threads synchronise; of two, one is the feed's, which learns when it has time. */
static void run_groups(struct variant_set *q)
{
    const struct ctr_worker *second = q->r->worker;
    if (q->groups == 2 && second) {
        second->submit(second->ctx, run_second, q);
        make_next_states(q);
        run_group(q, 0, 0);
        second->settle(second->ctx);
    } else
        ctr_pool_run(q->pool, q->groups, run_group, q);
}

static int learn_block(struct variant_set *q, struct ctr_err *err)
{
    const struct group *first = NULL;
    run_groups(q);
    for (int g = 0; g < q->groups; g++)
        if (q->group[g].err.code && (!first || q->group[g].failed_row < first->failed_row))
            first = &q->group[g];
    if (!first)
        return 0;
    *err = first->err;
    return err->code;
}

static int variant_set_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound,
                                  struct ctr_err *err)
{
    struct variant_set *q = learner;
    q->r = r;
    q->score = score;
    ctr_lr_orders_forget(&q->orders);
    for (q->from = 0; q->from < r->rows; q->from = q->end) {
        q->end = r->number ? r->rows : ctr_lr_block_end(r, q->from); /* synchronise rarely */
        int rc = make_scratch(q, err);
        if (!rc)
            rc = find_numbers(q, bound, err);
        if (!rc)
            rc = learn_block(q, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int variant_set_find(void *learner, const struct ctr_rows *r, const struct ctr_find *f, struct ctr_err *err)
{
    return ctr_lr_find(((struct variant_set *)learner)->find, r, f, err);
}

static enum ctr_finds variant_set_finds(const void *learner, bool saves)
{
    return ctr_model_lr.finds(((const struct variant_set *)learner)->find, saves);
}

static bool variant_set_transposed(const void *learner)
{
    return !((const struct variant_set *)learner)->events;
}

static int variant_set_end_pass(void *learner, struct ctr_err *err)
{
    return ctr_model_lr.end_pass(((struct variant_set *)learner)->find, err);
}

static int variant_set_set_bias(void *learner, double log_odds, struct ctr_err *err)
{
    struct variant_set *q = learner;
    (void)err;
    for (int i = 0; i < q->n; i++)
        if (!q->v[i].one->no_bias)
            ctr_state_set_weight(&q->v[i].one->learning, &q->v[i].one->more.event, log_odds, q->v[i].bias);
    return 0;
}

const struct ctr_model ctr_model_lr_variants = {
    .name = "lr",
    .options = ctr_lr_options,
    .variant_ops = &ctr_lr_variant_ops,
    .learner_new = variant_set_new,
    .learner_free = variant_set_free,
    .bind = ctr_lr_variants_bind,
    .set_bias = variant_set_set_bias,
    .transposed = variant_set_transposed,
    .rows = 1024,
    .train_rows = variant_set_train_rows,
    .find = variant_set_find,
    .finds = variant_set_finds,
    .end_pass = variant_set_end_pass,
    .keys = ctr_lr_variants_keys,
    .memory = ctr_lr_variants_memory,
    .add_summary = ctr_lr_variants_summary,
    .state = ctr_lr_variants_state,
    .restore = ctr_lr_variants_restore,
    .save_schema = ctr_lr_variants_save_schema,
    .save = ctr_lr_variants_save,
    .section_names = ctr_lr_variants_section_names,
    .save_sections = ctr_lr_variants_save_sections,
    .load = ctr_lr_variants_load,
};
