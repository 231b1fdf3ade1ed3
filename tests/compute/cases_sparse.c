/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_sparse: trials of embeddings, their rows, keys. Sums over the entries of a list or of a row have as many
 * roundings as entries; keys are exact. */
#include "trial.h"

#include <math.h>

#define U 0x1p-24

/* Lists of a minibatch over `unique` rows, entries and groups as ctr_dev_slots gives them. */
struct lists {
    struct array *start, *index, *segment, *x, *group_start, *group_item, *rows, *out, *pooled, *grad, *squares;
    int64_t samples, fields, unique, width, stride, out_stride, entries;
    int64_t first, items; /* of groups, which have entries of other calls before and behind these */
    enum ctr_pooling how;
    bool add, skewed, joint; /* one row has half of the entries; there are others' */
};

static void make_lists(struct trial *t, struct lists *s, bool one_hot, bool with_x)
{
    const int64_t lists = s->samples * s->fields;
    int32_t length[4096], *start, *index, *segment;

    s->entries = 0;
    for (int64_t i = 0; i < lists; i++) {
        length[i] = (int32_t)(one_hot ? 1 : trial_below(t, 5) * (trial_below(t, 3) > 0)); /* many are empty */
        if (s->unique == 0)
            length[i] = 0;
        s->entries += length[i];
    }
    s->start = trial_array(t, "start", 'i', false, lists + 1);
    s->index = trial_array(t, "index", 'i', false, s->entries);
    s->segment = trial_array(t, "segment", 'i', false, s->entries);
    start = trial_data(s->start), index = trial_data(s->index), segment = trial_data(s->segment);
    start[0] = 0;
    for (int32_t i = 0, e = 0; i < lists; i++) {
        for (int32_t j = 0; j < length[i]; j++, e++) {
            index[e] = s->skewed && trial_below(t, 2) ? (int32_t)s->unique / 2 : (int32_t)trial_below(t, s->unique);
            segment[e] = i;
        }
        start[i + 1] = e;
    }
    s->first = s->joint ? 2 * s->unique : 0;
    s->items = s->entries + (s->joint ? 5 * s->unique : 0);
    s->group_start = trial_array(t, "group_start", 'i', false, s->unique + 1);
    s->group_item = trial_array(t, "group_item", 'i', false, s->items);
    int32_t *group = trial_data(s->group_start), *item = trial_data(s->group_item), next = 0;
    for (int32_t u = 0; u <= s->unique; u++) {
        group[u] = next;
        for (int32_t e = 0; s->joint && u < s->unique && e < 2; e++)
            item[next++] = 2 * u + e;
        for (int32_t e = 0; e < s->entries; e++)
            if (index[e] == u)
                item[next++] = (int32_t)s->first + e;
        for (int32_t e = 0; s->joint && u < s->unique && e < 3; e++)
            item[next++] = (int32_t)(s->first + s->entries) + 3 * u + e;
    }
    s->x = with_x ? trial_uniform(t, "x", false, s->entries, -1, 1) : NULL;
}

static struct ctr_lists lists_view(const struct lists *s, int d, bool one_hot)
{
    return (struct ctr_lists){ .lists = s->samples * s->fields,
                               .per_row = s->fields,
                               .start = one_hot ? (struct ctr_vec){ 0 } : trial_vec(s->start, d),
                               .index = trial_vec(s->index, d),
                               .segment = trial_vec(s->segment, d),
                               .x = trial_vec(s->x, d) };
}

static bool is_one_hot(const struct lists *s)
{
    return s->entries == s->samples * s->fields;
}

static int run_pool(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct lists *s = ctx;
    return ctr_dev_pool(
        t->dev[d],
        &(struct ctr_dev_pool){ .how = s->how,
                                .lists = lists_view(s, d, is_one_hot(s)),
                                .rows = trial_mat(s->rows, d, s->unique, s->width, s->stride),
                                .out = trial_mat(s->out, d, s->samples, s->fields * s->width, s->out_stride) },
        err);
}

static int run_pool_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct lists *s = ctx;
    return ctr_dev_pool_grad(
        t->dev[d],
        &(struct ctr_dev_pool_grad){ .how = s->how,
                                     .lists = lists_view(s, d, is_one_hot(s)),
                                     .add = s->add,
                                     .group_start = trial_vec(s->group_start, d),
                                     .group_item = trial_vec(s->group_item, d),
                                     .first = s->first,
                                     .rows = trial_mat(s->rows, d, s->unique, s->width, s->stride),
                                     .dout = trial_mat(s->out, d, s->samples, s->fields * s->width, s->out_stride),
                                     .out = trial_mat(s->pooled, d, s->samples, s->fields * s->width, s->out_stride),
                                     .grad = trial_mat(s->grad, d, s->unique, s->width, s->width),
                                     .squares = trial_mat(s->squares, d, s->unique, s->width, s->width) },
        err);
}

static void try_pooling(struct trial *t, bool gradient)
{
    static const int64_t widths[] = { 1, 10, 12, 16, 33 };
    for (int how = 0; how <= CTR_POOL_FM; how++)
        for (int i = 0; i < 50; i++) {
            struct lists s = { .samples = trial_sizes[i % 5],
                               .fields = i % 3 ? 3 : 1,
                               .width = widths[i / 5 % 5],
                               .unique = i % 7 == 6 ? 1 : 40,
                               .how = how,
                               .add = i % 2,
                               .skewed = i % 3 == 1,
                               .joint = gradient && i % 4 > 1 };
            if (i == 17)
                s.unique = 0;
            trial_start(t, 64 * U, "pool%s %d %lldx%lld of %lld width %lld", gradient ? "_grad" : "", how,
                        (long long)s.samples, (long long)s.fields, (long long)s.unique, (long long)s.width);
            make_lists(t, &s, i % 4 == 3, i % 3 == 0);
            if (gradient) /* a sum of so many floats is off by a part of each addition */
                t->tolerance += U / 4 * (double)s.entries / (double)CTR_MAX(s.unique, 1);
            s.stride = s.width * (1 + i % 3);
            s.out_stride = s.fields * s.width + i % 5;
            s.rows = trial_uniform(t, "rows", false, s.unique * s.stride, -1, 1);
            s.out = trial_uniform(t, gradient ? "dout" : "out", !gradient, s.samples * s.out_stride, -1, 1);
            s.pooled =
                gradient && how == CTR_POOL_FM ? trial_uniform(t, "out", false, s.samples * s.out_stride, -1, 1) : NULL;
            if (how == CTR_POOL_FM && !gradient) /* pairs: as many terms as entries and columns, and their products */
                t->tolerance += U * (double)(s.width + 64);
            s.grad = gradient ? trial_uniform(t, "grad", true, s.unique * s.width, -1, 1) : NULL;
            s.squares = gradient && how == CTR_POOL_SUM && i % 4 < 2
                            ? trial_uniform(t, "squares", true, s.unique * s.width, -1, 1)
                            : NULL;
            trial_go(t, gradient ? run_pool_grad : run_pool, &s);
        }
}

static void try_pool(struct trial *t)
{
    try_pooling(t, false);
}
static void try_pool_grad(struct trial *t)
{
    try_pooling(t, true);
}

/* ---- moving and updating rows ---- */

struct rows {
    struct array *rows, *other, *index, *back, *l2, *squares;
    int64_t n, there, width, stride;
    struct ctr_dev_opt opt;
};

/* n distinct numbers below `there`, some of them -1. */
static struct array *distinct(struct trial *t, const char *name, int64_t n, int64_t there)
{
    struct array *a = trial_array(t, name, 'i', false, n);
    int32_t *index = trial_data(a);
    for (int64_t i = 0; i < n; i++)
        index[i] = trial_below(t, 9) == 0 ? -1 : (int32_t)((i * 17 + 5) % there); /* there is no multiple of 17 */
    return a;
}

static int run_move_rows(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct rows *r = ctx;
    return ctr_dev_move_rows(t->dev[d],
                             &(struct ctr_dev_move_rows){ .n = r->n,
                                                          .from = trial_mat(r->other, d, r->there, r->width, r->width),
                                                          .to = trial_mat(r->rows, d, r->there, r->width, r->stride),
                                                          .from_index = trial_vec(r->index, d),
                                                          .to_index = trial_vec(r->back, d) },
                             err);
}

static void try_move_rows(struct trial *t)
{
    for (int i = 0; i < 25; i++) {
        struct rows r = { .n = trial_sizes[i % 5], .there = 300, .width = trial_sizes[i / 5] };
        r.stride = r.width + i % 3;
        trial_start(t, 0, "move_rows %lld of width %lld", (long long)r.n, (long long)r.width);
        r.rows = trial_uniform(t, "to", true, r.there * r.stride, -1, 1);
        r.other = trial_uniform(t, "from", false, r.there * r.width, -1, 1);
        r.index = i % 2 ? distinct(t, "from_index", r.n, r.there) : NULL;
        r.back = i % 3 ? distinct(t, "to_index", r.n, r.there) : NULL;
        trial_go(t, run_move_rows, &r);
    }
}

static int run_opt_rows(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct rows *r = ctx;
    return ctr_dev_opt_rows(
        t->dev[d],
        &(struct ctr_dev_opt_rows){
            .opt = r->opt,
            .rows = trial_mat(r->rows, d, r->there, r->width * (1 + ctr_opt_states(r->opt.kind)), r->stride),
            .g = trial_mat(r->other, d, r->n, r->width, r->width),
            .index = trial_vec(r->index, d),
            .l2_row = trial_vec(r->l2, d),
            .squares = trial_mat(r->squares, d, r->n, r->width, r->width) },
        err);
}

static struct ctr_dev_opt some_optimizer(struct trial *t, enum ctr_dev_opt_kind kind)
{
    return (struct ctr_dev_opt){ .kind = kind,
                                 .rate = 0.01f,
                                 .eps = 1e-8f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .beta = 1,
                                 .l1 = 0.1f,
                                 .l2 = trial_below(t, 2) ? 0.01f : 0,
                                 .step = 1 + trial_below(t, 1000) };
}

static void try_opt_rows(struct trial *t)
{
    static const int64_t widths[] = { 1, 10, 12, 33, 1500 };
    for (int kind = 0; kind <= CTR_OPT_FTRL; kind++)
        for (int i = 0; i < 25; i++) {
            struct rows r = { .n = trial_sizes[i % 5], .there = 300, .width = widths[i / 5] };
            r.opt = some_optimizer(t, kind);
            r.stride = r.width * (1 + ctr_opt_states(kind)) + i % 2;
            trial_start(t, 64 * U, "opt_rows %d: %lld of width %lld", kind, (long long)r.n, (long long)r.width);
            r.rows = trial_uniform(t, "rows", true, r.there * r.stride, 0.1, 1);
            r.other = trial_uniform(t, "g", false, r.n * r.width, -1, 1);
            r.index = i % 2 ? distinct(t, "index", r.n, r.there) : NULL;
            r.l2 = i % 3 ? trial_uniform(t, "l2_row", false, r.n, 0, 0.1) : NULL;
            r.squares =
                kind == CTR_OPT_FTRL && i % 4 > 1 ? trial_uniform(t, "squares", false, r.n * r.width, 0, 1) : NULL;
            trial_go(t, run_opt_rows, &r);
        }
}

/* ---- keys ---- */

struct slots {
    struct array *key, *stamp, *want, *slot, *missed, *missed_slot, *missed_want, *evicted_slot;
    struct array *salt, *part, *group_start, *group_item, *group_slot;
    int64_t counts[BACK_ENDS][4];
};

static int run_slots(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    struct slots *s = ctx;
    int rc = 0;
    /* five minibatches into one small set: hits, evictions and, where it is full, failures */
    for (uint32_t now = 1; now <= 5 && rc == 0; now++) {
        const int64_t n = s->want->n / 5;
        struct ctr_vec want = trial_vec(s->want, d);
        want.at += (now - 1) * n;
        want.n = n;
        rc = ctr_dev_slots(t->dev[d],
                           &(struct ctr_dev_slots){ .key = trial_vec(s->key, d),
                                                    .stamp = trial_vec(s->stamp, d),
                                                    .want = want,
                                                    .slot = trial_vec(s->slot, d),
                                                    .missed = trial_vec(s->missed, d),
                                                    .missed_slot = trial_vec(s->missed_slot, d),
                                                    .missed_want = trial_vec(s->missed_want, d),
                                                    .evicted_slot = trial_vec(s->evicted_slot, d),
                                                    .now = now,
                                                    .misses = &s->counts[d][0],
                                                    .evictions = &s->counts[d][1],
                                                    .failures = &s->counts[d][2],
                                                    .salt = trial_vec(s->salt, d),
                                                    .part = trial_vec(s->part, d),
                                                    .group_start = trial_vec(s->group_start, d),
                                                    .group_item = trial_vec(s->group_item, d),
                                                    .group_slot = trial_vec(s->group_slot, d),
                                                    .groups = &s->counts[d][3] },
                           err);
        rc = rc ? rc : ctr_dev_sync(t->dev[d], err);
    }
    if (rc == 0 && d == TRIED && !t->alone &&
        memcmp(s->counts[TRIED], s->counts[REFERENCE], sizeof s->counts[TRIED]) != 0)
        return ctr_fail(err, CTR_EDATA, "other counts of misses, evictions, failures, groups");
    return rc;
}

static struct slots slots_arrays(struct trial *t, int64_t n, int64_t room)
{
    struct slots s = { 0 };
    s.key = trial_array(t, "key", 'q', true, room);
    s.stamp = trial_array(t, "stamp", 'i', true, room);
    memset(trial_data(s.key), 0, (size_t)room * 8);
    memset(trial_data(s.stamp), 0, (size_t)room * 4);
    s.want = trial_array(t, "want", 'q', false, 5 * n);
    s.slot = trial_array(t, "slot", 'i', true, n);
    s.missed = trial_array(t, "missed", 'i', true, n);
    s.missed_slot = trial_array(t, "missed_slot", 'i', true, n);
    s.evicted_slot = trial_array(t, "evicted_slot", 'i', true, n);
    return s;
}

static void try_slots(struct trial *t)
{
    for (int i = 0; i < 17; i++) { /* the last ones: as many keys as a minibatch has, and more than can have a slot */
        const int64_t n = i < 15 ? trial_sizes[i % 5] : 10000;
        const int64_t room = i < 5 ? 8 : i < 10 ? 256 : i < 15 ? 1024 : i < 16 ? 1 << 15 : 1 << 12;
        trial_start(t, 0, "slots %lld in %lld", (long long)n, (long long)room);
        struct slots s = slots_arrays(t, n, room);
        for (int64_t e = 0; e < 5 * n; e++) /* distinct within a minibatch, half of them as in the one before */
            ((uint64_t *)trial_data(s.want))[e] = (uint64_t)(e % n + e / n * (n / 2));
        trial_go(t, run_slots, &s);
    }
    /* the last ones: groups that cuda sorts in runs of 512 entries */
    static const int64_t entries[] = { 0, 1, 31, 257, 3000, 16385, 17409, 20000 };
    static const int64_t keys[] = { 1, 20, 100000, 1, 20, 100 }; /* the reference looks through all of them */
    for (int i = 0; i < 18; i++) { /* keys that repeat: one, some, few of them; of three tables or of one */
        const int64_t n = entries[i < 15 ? i % 5 : i - 10], distinct_keys = keys[i < 15 ? i / 5 : i - 12];
        const int64_t room = i % 2 ? 256 : 8192;
        trial_start(t, 0, "slots %lld of %lld keys in %lld", (long long)n, (long long)distinct_keys, (long long)room);
        struct slots s = slots_arrays(t, n, room);
        for (int64_t e = 0; e < 5 * n; e++) {
            const uint64_t v = (uint64_t)trial_below(t, distinct_keys);
            ((uint64_t *)trial_data(s.want))[e] = v == 0 ? 0 : v == 1 ? UINT64_MAX : v % 3 ? ctr_mix64(v) : v;
        }
        s.salt = i % 3 ? trial_array(t, "salt", 'q', false, 3) : NULL;
        for (int k = 0; s.salt && k < 3; k++)
            ((uint64_t *)trial_data(s.salt))[k] = (uint64_t)k * 0x9e3779b97f4a7c15u;
        s.part = s.salt && i % 3 == 2 ? trial_array(t, "part", 'i', false, 9) : NULL; /* the second is empty */
        for (int k = 0; s.part && k < 9; k++)
            ((int32_t *)trial_data(s.part))[k] =
                (int32_t[]){ (int32_t)n / 3, 0, 1, (int32_t)n / 3, 1, 2, (int32_t)n, 1, 2 }[k];
        s.group_start = trial_array(t, "group_start", 'i', true, n + 1);
        s.group_item = trial_array(t, "group_item", 'i', true, n);
        s.group_slot = trial_array(t, "group_slot", 'i', true, n);
        s.missed_want = i % 2 ? trial_array(t, "missed_want", 'q', true, n) : NULL;
        trial_go(t, run_slots, &s);
    }
}

struct items {
    struct array *from, *item, *count, *start, *to, *segment, *out;
};

static int run_take_items(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct items *s = ctx;
    return ctr_dev_take_items(t->dev[d],
                              &(struct ctr_dev_take_items){ .from = trial_vec(s->from, d),
                                                            .item = trial_vec(s->item, d),
                                                            .start = trial_vec(s->start, d),
                                                            .none = 77,
                                                            .to = trial_vec(s->to, d),
                                                            .segment = trial_vec(s->segment, d),
                                                            .first = 5 },
                              err);
}

static int run_item_digests(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct items *s = ctx;
    return ctr_dev_item_digests(t->dev[d],
                                &(struct ctr_dev_item_digests){ .from = trial_vec(s->from, d),
                                                                .item = trial_vec(s->item, d),
                                                                .count = trial_vec(s->count, d),
                                                                .none = 77,
                                                                .seed = { 3, UINT64_MAX },
                                                                .out = trial_vec(s->out, d) },
                                err);
}

/* Lists of up to 9 of 50 items, some of which are none. */
static void try_items(struct trial *t, bool digests)
{
    for (int i = 0; i < 10; i++) {
        const int64_t lists = trial_sizes[i % 5];
        struct items s = { 0 };
        trial_start(t, 0, "%s of %lld lists", digests ? "item_digests" : "take_items", (long long)lists);
        s.from = trial_array(t, "from", 'q', false, 50);
        s.item = trial_array(t, "item", 'i', false, lists);
        s.count = trial_array(t, "count", 'i', false, lists);
        s.start = trial_array(t, "start", 'i', false, lists + 1);
        for (int k = 0; k < 50; k++)
            ((uint64_t *)trial_data(s.from))[k] = ctr_mix64((uint64_t)trial_below(t, 20));
        int32_t *item = trial_data(s.item), *count = trial_data(s.count), *start = trial_data(s.start);
        start[0] = 3;
        for (int64_t l = 0; l < lists; l++) {
            item[l] = (int32_t)trial_below(t, 42) - 1;
            count[l] = (int32_t)trial_below(t, 10);
            start[l + 1] = start[l] + (item[l] < 0 ? 1 : count[l]);
        }
        s.to = digests ? NULL : trial_array(t, "to", 'q', true, start[lists] + 2);
        s.segment = !digests && i % 2 ? trial_array(t, "segment", 'i', true, start[lists] + 2) : NULL;
        s.out = digests ? trial_array(t, "out", 'q', true, 2 * lists) : NULL;
        trial_go(t, digests ? run_item_digests : run_take_items, &s);
    }
}

static void try_take_items(struct trial *t)
{
    try_items(t, false);
}
static void try_item_digests(struct trial *t)
{
    try_items(t, true);
}

const struct trial_case trial_sparse_cases[] = {
    { "pool", try_pool },
    { "pool_grad", try_pool_grad },
    { "move_rows", try_move_rows },
    { "opt_rows", try_opt_rows },
    { "slots", try_slots },
    { "take_items", try_take_items },
    { "item_digests", try_item_digests },
    { 0 },
};
