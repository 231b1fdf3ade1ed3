/* SPDX-License-Identifier: Apache-2.0
 *
 * lr on a device, by minibatches, with the operations of the compute table: the weights of a row's keys (the bias is
 * one of them), summed; binary cross-entropy; FTRL-Proximal for the rows of the keys that came. z and n take the
 * gradients of a minibatch as if its rows came one after another, all with the weights of its start, as lr_rows.c does
 * on a CPU:
 *
 *     z += sum g - (sqrt(n + sum g^2) - sqrt(n)) / alpha w        n += sum g^2
 *
 * Keys are looked up here, in tables that grow, shared out to threads by table; the device gets numbers of rows and
 * finds the distinct ones. Their rows live in a cache (table/source.h). The sums of a key run in the order of
 * rows and nothing depends on how its number came about, so that threads, batches and the cache change no bit.
 *
 * A minibatch may come in pieces, as in deep_train.c: each is scored when it comes, with the rows as they were before
 * it, and they are brought once more for the update of the whole. */
#include "common/lr/lr_device.h"

#include <math.h>
#include <stdlib.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

enum { W = CTR_LR_DEVICE_W, FLOATS = CTR_LR_DEVICE_FLOATS };

/* ---- the learner ---- */

static void lr_device_free(void *learner)
{
    struct ctr_lr_device *l = learner;
    if (!l)
        return;
    struct ctr_mem *mems[] = { l->id[0], l->id[1], l->unique, l->index, l->squares };
    struct ctr_buf *bufs[] = { &l->unique_host, &l->logit, &l->begin,  &l->hash,
                               &l->entry,       &l->row,   &l->failed, &l->places };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_lr_free(l->file);
    ctr_deep_free(&l->net);
    ctr_deep_tables_free(&l->tables);
    ctr_pool_free(l->pool);
    free(l);
}

/* ---- rows by number ---- */

/* What lies below the cache: its keys are numbers of rows, table << 32 | row, which were looked up for all entries. */
struct numbered {
    struct ctr_source base;
    struct ctr_deep_tables *tables;
};

static float *row_of(struct ctr_source *s, uint64_t number)
{
    return ctr_embedding_row(&((struct numbered *)s)->tables->t[number >> 32].rows, (uint32_t)number);
}

static int numbered_fetch(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to,
                          struct ctr_err *err)
{
    (void)make, (void)err;
    for (int64_t i = 0; i < keys->n; i++)
        memcpy(to + i * FLOATS, row_of(s, keys->hash[i]), FLOATS * sizeof *to);
    return 0;
}

static int numbered_put(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from,
                        struct ctr_err *err)
{
    (void)err;
    for (int64_t i = 0; i < keys->n; i++)
        memcpy(row_of(s, keys->hash[i]), from + i * FLOATS, FLOATS * sizeof *from);
    return 0;
}

static int64_t numbered_rows(const struct ctr_source *s, int table)
{
    const struct ctr_deep_tables *all = ((const struct numbered *)s)->tables;
    (void)table;
    int64_t n = 0;
    for (int t = 0; t < all->n; t++)
        n += all->t[t].rows.used;
    return n;
}

static void numbered_free(struct ctr_source *s)
{
    free(s);
}

static const struct ctr_source_ops numbered_ops = {
    .name = "numbered", .fetch = numbered_fetch, .put = numbered_put, .rows = numbered_rows, .free = numbered_free
};

static int make_source(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    struct numbered *n = calloc(1, sizeof *n);
    if (!n)
        return ctr_fail_nomem(err, sizeof *n);
    n->base = (struct ctr_source){ .ops = &numbered_ops, .dev = d->dev, .width = 1, .floats = FLOATS };
    n->tables = &l->tables;
    return ctr_source_cache(&d->vectors.source, d->dev, &n->base, err);
}

static int open_device(struct ctr_lr_device *l, const struct ctr_model *m, const struct ctr_params *p,
                       struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const size_t logits = (size_t)p->minibatch * sizeof(float);
    int rc = ctr_deep_open(d, m, p, p->threads, true, err);
    d->width = 1;
    d->u_cols = FLOATS;
    if (!rc && !(d->group = calloc(1, sizeof *d->group)))
        rc = ctr_fail_nomem(err, sizeof *d->group);
    if (rc)
        return rc;
    d->groups = 1;
    d->group->ragged = true;
    rc = ctr_mem_new(&d->logit, d->dev, logits, err);
    if (!rc)
        rc = ctr_mem_new(&d->dlogit, d->dev, logits, err);
    return rc ? rc : make_source(l, err);
}

static int lr_device_new(void **out, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    struct ctr_lr_device *l = calloc(1, sizeof *l);
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->opt = (struct ctr_dev_opt){
        .kind = CTR_OPT_FTRL, .rate = (float)p->alpha, .beta = (float)p->beta, .l1 = (float)p->l1, .l2 = (float)p->l2
    };
    l->tables.width = 1;
    l->tables.floats = FLOATS;
    l->ones = true;
    int rc = strcmp(p->precision, "f32")
                 ? ctr_fail(err, CTR_EUSAGE, "on a GPU lr keeps its state as f32: leave %s out", "--precision")
                 : open_device(l, m, p, err);
    if (!rc)
        rc = ctr_learning_init(&l->learning, p, err);
    l->learning.layout = (struct ctr_layout){ .value = CTR_LR_DEVICE_Z * sizeof(float),
                                              .n = CTR_LR_DEVICE_N * sizeof(float),
                                              .bytes = FLOATS * sizeof(float) };
    if (!rc)
        rc = ctr_pool_new(&l->pool, p->threads, CTR_FLOAT_FLUSH, err);
    if (!rc)
        rc = ctr_lr_device_bind(l, 0, err);
    if (rc) {
        lr_device_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

int ctr_lr_device_bind(struct ctr_lr_device *l, int tables, struct ctr_err *err)
{
    struct ctr_deep_tables *all = &l->tables;
    const size_t bytes = ((size_t)tables + 1) * sizeof *all->t;
    if (all->n > tables)
        return 0;
    struct ctr_deep_table *t = realloc(all->t, bytes);
    if (!t)
        return ctr_fail_nomem(err, bytes);
    all->t = t;
    for (; all->n <= tables; all->n++) {
        t[all->n].name = NULL;
        ctr_embedding_init(&t[all->n].rows, 1, FLOATS, 0, 0);
    }
    struct ctr_embedding *bias = &t->rows;
    if (l->net.p.no_bias || bias->used)
        return 0;
    int rc = ctr_embedding_reserve(bias, 1, err);
    if (!rc)
        ctr_embedding_get(bias, &(uint64_t){ ctr_sparse_hash(ctr_bias_key()) }, 1, &(uint32_t){ 0 });
    return rc;
}

static int lr_device_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *tables,
                          struct ctr_err *err)
{
    struct ctr_lr_device *l = learner;
    (void)in;
    l->names = tables;
    return ctr_lr_device_bind(l, tables->n, err);
}

/* ---- rows to lists of row numbers ---- */

static void *scratch(struct ctr_buf *b, int64_t n, size_t size, int *rc, struct ctr_err *err)
{
    ctr_buf_clear(b);
    return ctr_buf_extend(b, n, size, rc, err);
}

/* The entries of rows [from, from + n) by table, each table's in order. */
static int sort_by_table(struct ctr_lr_device *l, const struct ctr_rows *r, int64_t from, int64_t n,
                         struct ctr_err *err)
{
    const int64_t first = r->start[from], all = r->start[from + n] - first, tables = l->tables.n;
    const uint16_t *table = r->table + first;
    int rc = 0;
    int64_t *begin = scratch(&l->begin, tables + 1, sizeof *begin, &rc, err);
    uint64_t *hash = scratch(&l->hash, all, sizeof *hash, &rc, err);
    uint32_t *entry = scratch(&l->entry, all, sizeof *entry, &rc, err);
    struct ctr_err *failed = scratch(&l->failed, ctr_pool_threads(l->pool), sizeof *failed, &rc, err);
    (void)scratch(&l->row, all, sizeof(uint32_t), &rc, err);
    if (rc)
        return rc;
    memset(begin, 0, (size_t)(tables + 1) * sizeof *begin);
    memset(failed, 0, l->failed.len);
    for (int64_t e = 0; e < all; e++)
        begin[table[e] + 2]++;
    for (int64_t t = 2; t <= tables; t++)
        begin[t] += begin[t - 1];
    for (int64_t e = 0; e < all; e++) { /* begin[t + 1] becomes the end of t */
        const int64_t at = begin[table[e] + 1]++;
        hash[at] = r->hash[first + e];
        entry[at] = (uint32_t)e;
    }
    return 0;
}

struct find {
    struct ctr_lr_device *l;
    bool make;
};

/* The rows of table t's keys, made where they are new; room is made for those that are. */
static void find_rows(void *ctx, int64_t t, int worker)
{
    enum { AT_ONCE = 256 };
    const struct find *f = ctx;
    struct ctr_lr_device *l = f->l;
    struct ctr_embedding *rows = &l->tables.t[t + 1].rows;
    struct ctr_err *err = AS(struct ctr_err, l->failed) + worker;
    const uint64_t *hash = AS(uint64_t, l->hash);
    const uint32_t *entry = AS(uint32_t, l->entry);
    uint32_t row[AT_ONCE], *to = AS(uint32_t, l->row);
    const int64_t end = AS(int64_t, l->begin)[t + 1];
    for (int64_t at = AS(int64_t, l->begin)[t], k; at < end && !err->code; at += k) {
        uint64_t fresh = 0;
        k = CTR_MIN(end - at, AT_ONCE);
        ctr_embedding_find(rows, hash + at, k, row);
        for (int64_t i = 0; i < k; i++)
            fresh += row[i] == CTR_EMBEDDING_NONE;
        if (fresh && f->make && !ctr_embedding_reserve(rows, fresh, err))
            ctr_embedding_get(rows, hash + at, k, row);
        for (int64_t i = 0; i < k; i++)
            to[entry[at + i]] = row[i];
    }
}

static int64_t table_bytes(const struct ctr_lr_device *l)
{
    int64_t bytes = 0;
    for (int t = 0; t < l->tables.n; t++)
        bytes += (int64_t)ctr_embedding_bytes(&l->tables.t[t].rows);
    return bytes;
}

static int64_t lr_device_keys(const void *learner)
{
    const struct ctr_lr_device *l = learner;
    int64_t n = 0;
    for (int t = 0; t < l->tables.n; t++)
        n += l->tables.t[t].rows.used;
    return n;
}

static int look_up(struct ctr_lr_device *l, const struct ctr_rows *r, int64_t from, int64_t n, bool make, int64_t bound,
                   struct ctr_err *err)
{
    struct find f = { l, make };
    int rc = sort_by_table(l, r, from, n, err);
    if (rc)
        return rc;
    ctr_pool_run(l->pool, l->tables.n - 1, find_rows, &f);
    for (int t = 0; t < ctr_pool_threads(l->pool); t++)
        if (AS(struct ctr_err, l->failed)[t].code) {
            *err = AS(struct ctr_err, l->failed)[t];
            return err->code;
        }
    const int64_t bytes = table_bytes(l);
    if (!make || !bound || bytes <= bound)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "the table of %lld keys needs %s, --memory allows %s: raise it, or drop rare values (vocab with "
                    "min=...)",
                    (long long)lr_device_keys(l), ctr_size_text_beyond((uint64_t)bytes, (uint64_t)bound).s,
                    ctr_size_text((uint64_t)bound).s);
}

/* Append rows [from, from + n) of r to the minibatch. `make`: with rows for new keys; else these add nothing. */
static int add_rows(struct ctr_lr_device *l, const struct ctr_rows *r, int64_t from, int64_t n, bool make,
                    int64_t bound, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    struct ctr_deep_group *g = d->group;
    const int64_t first = r->start[from], room = r->start[from + n] - first + n, bias = !d->p.no_bias;
    if (g->entries + room > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "a minibatch has more than 2^31 keys: lower --minibatch");
    int rc = look_up(l, r, from, n, make, bound, err);
    if (!rc && !g->start.len)
        rc = ctr_buf_append(&g->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    uint64_t *id = ctr_buf_extend(&g->hash, room, sizeof *id, &rc, err);
    int32_t *segment = ctr_buf_extend(&g->segment, room, sizeof *segment, &rc, err);
    float *x = ctr_buf_extend(&g->x, room, sizeof *x, &rc, err);
    int32_t *start = ctr_buf_extend(&g->start, n, sizeof *start, &rc, err);
    float *label = ctr_buf_extend(&d->batch.label, n, sizeof *label, &rc, err);
    float *weight = ctr_buf_extend(&d->batch.weight, n, sizeof *weight, &rc, err);
    if (rc)
        return rc;
    const uint32_t *row = AS(uint32_t, l->row);
    int64_t k = 0;
    for (int64_t i = from; i < from + n; i++) {
        for (int64_t e = r->start[i]; e < r->start[i + 1]; e++) {
            id[k] = (uint64_t)(r->table[e] + 1) << 32 | row[e - first];
            segment[k] = (int32_t)(d->rows + i - from);
            x[k] = r->x ? (float)r->x[e] : 1;
            k += row[e - first] != CTR_EMBEDDING_NONE;
        }
        id[k] = 0;
        segment[k] = (int32_t)(d->rows + i - from);
        x[k] = 1;
        k += bias;
        *start++ = (int32_t)(g->entries + k);
        *label++ = r->label ? (float)r->label[i] : 0;
        *weight++ = r->weight ? (float)r->weight[i] : 1;
    }
    g->entries += k;
    g->hash.len = (size_t)g->entries * sizeof *id;
    g->segment.len = (size_t)g->entries * sizeof *segment;
    g->x.len = (size_t)g->entries * sizeof *x;
    l->ones &= !r->x;
    d->batch.weighted |= r->weight != NULL;
    d->rows += n;
    return 0;
}

/* ---- the minibatch on the device ---- */

/* What was added last, without waiting. */
static int send_rows(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    struct ctr_deep_group *g = d->group;
    struct ctr_deep_batch *on = &d->batch.buffers[d->batch.buffer_index];
    struct ctr_deep_lists *lists = &g->buffers[d->batch.buffer_index];
    const size_t rows = (size_t)d->batch.sent_rows, entries = (size_t)g->sent_entries;
    const struct {
        struct ctr_mem **to;
        const struct ctr_buf *from;
        size_t sent;
    } part[] = {
        { &l->id[d->batch.buffer_index], &g->hash, entries * sizeof(uint64_t) },
        { &lists->start, &g->start, rows * sizeof(int32_t) },
        { &lists->segment, &g->segment, entries * sizeof(int32_t) },
        { &on->label, &d->batch.label, rows * sizeof(float) },
        { d->batch.weighted ? &on->weight : NULL, &d->batch.weight, rows * sizeof(float) },
        { l->ones ? NULL : &lists->x, &g->x, entries * sizeof(float) },
    };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(part) && !rc; i++)
        if (part[i].to)
            rc = ctr_deep_send(d, part[i].to, part[i].from->data, part[i].sent, part[i].from->len, err);
    d->batch.sent_rows = d->rows;
    g->sent_entries = g->entries;
    return rc ? rc : ctr_deep_sent(d, err);
}

static int64_t entry_of(const struct ctr_lr_device *l, int64_t row)
{
    return AS(int32_t, l->net.group->start)[row];
}

/* The distinct rows of the entries from row `first` on, in order of appearance, and the entries of each. */
static int find_unique(struct ctr_lr_device *l, int64_t first, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    struct ctr_deep_group *g = d->group;
    const int64_t from = entry_of(l, first), n = g->entries - from;
    const struct {
        struct ctr_mem **mem;
        int64_t bytes;
    } need[] = { { &l->unique, n * 8 },
                 { &l->index, g->entries * 4 },
                 { &g->group_start_mem, (n + 1) * 4 },
                 { &g->group_item_mem, n * 4 } };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(need) && !rc; i++)
        rc = ctr_mem_grow(need[i].mem, d->dev, (size_t)need[i].bytes, err);
    const struct ctr_dev_unique unique = { .keys = ctr_vec_at(l->id[d->batch.buffer_index], from, n),
                                           .unique = ctr_vec(l->unique, n),
                                           .index = ctr_vec_at(l->index, from, n),
                                           .group_start = ctr_vec(g->group_start_mem, n + 1),
                                           .group_item = ctr_vec(g->group_item_mem, n),
                                           .count = &d->batch.unique };
    if (!rc)
        rc = ctr_dev_unique(d->dev, &unique, err);
    uint64_t *id = scratch(&l->unique_host, rc ? 0 : d->batch.unique, sizeof *id, &rc, err);
    if (!rc)
        rc = ctr_mem_read(l->unique, 0, id, (size_t)d->batch.unique * sizeof *id, err);
    l->first = first;
    return rc;
}

/* What the rows of the minibatch from `first` on need. `make`: they are learned from. */
static int bring(struct ctr_lr_device *l, int64_t first, bool make, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    ctr_source_drop(d->vectors.source, 0);
    int rc = find_unique(l, first, err);
    const struct ctr_want_keys keys = { AS(uint64_t, l->unique_host), d->batch.unique };
    const struct ctr_want want = { .tables = 1, .keys = &keys, .make = make };
    if (!rc)
        rc = ctr_source_begin(d->vectors.source, &want, 0, err);
    return rc ? rc : ctr_source_values(d->vectors.source, 0, &d->vectors.value, err);
}

/* The lists of the rows from `first` on: a row's keys are one. */
static struct ctr_lists lists_from(const struct ctr_lr_device *l, int64_t first)
{
    const struct ctr_deep *d = &l->net;
    const struct ctr_deep_group *g = d->group;
    const struct ctr_deep_lists *on = &g->buffers[d->batch.buffer_index];
    return (struct ctr_lists){ .lists = d->rows - first,
                               .per_row = 1,
                               .start = ctr_vec_at(on->start, first, d->rows - first + 1),
                               .index = ctr_vec(l->index, g->entries),
                               .segment = ctr_vec(on->segment, g->entries),
                               .x = l->ones ? (struct ctr_vec){ 0 } : ctr_vec(on->x, g->entries) };
}

/* Scores of the rows from `first` on, the last that were added; first_row: theirs in the stream. */
static int score_rows(struct ctr_lr_device *l, int64_t first, int64_t first_row, double *score, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const int64_t n = d->rows - first;
    const struct ctr_dev_pool pool = { .how = CTR_POOL_SUM,
                                       .lists = lists_from(l, first),
                                       .rows = d->vectors.value,
                                       .out = ctr_mat_at(d->logit, first, n, 1) };
    int rc = ctr_dev_pool(d->dev, &pool, err);
    float *logit = scratch(&l->logit, n, sizeof *logit, &rc, err);
    if (!rc)
        rc = ctr_mem_read(d->logit, (size_t)first * sizeof *logit, logit, (size_t)n * sizeof *logit, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        score[i] = ctr_sigmoid((double)logit[i]);
        if (!(fabsf(logit[i]) < INFINITY))
            rc = ctr_lr_diverged(first_row + i + 1, err);
    }
    return rc;
}

static void forget(struct ctr_lr_device *l)
{
    ctr_deep_clear(&l->net);
    l->first = 0;
    l->ones = true;
}

/* ---- an update ---- */

/* Sums of gradients and of their squares, by row of u. */
static int sum_gradients(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const struct ctr_deep_batch *on = &d->batch.buffers[d->batch.buffer_index];
    const struct ctr_dev_bce bce = { .z = ctr_vec(d->logit, d->rows),
                                     .label = ctr_vec(on->label, d->rows),
                                     .weight = d->batch.weighted ? ctr_vec(on->weight, d->rows) : (struct ctr_vec){ 0 },
                                     .dz = ctr_vec(d->dlogit, d->rows),
                                     .scale = 1 };
    const size_t bytes = (size_t)d->batch.unique * sizeof(float);
    int rc = ctr_dev_bce(d->dev, &bce, err);
    if (!rc)
        rc = ctr_mem_grow(&d->vectors.du, d->dev, bytes, err);
    if (!rc)
        rc = ctr_mem_grow(&l->squares, d->dev, bytes, err);
    const struct ctr_dev_pool_grad grad = { .how = CTR_POOL_SUM,
                                            .lists = lists_from(l, 0),
                                            .group_start = ctr_vec(d->group->group_start_mem, d->batch.unique + 1),
                                            .group_item = ctr_vec(d->group->group_item_mem, d->group->entries),
                                            .dout = ctr_mat(d->dlogit, d->rows, 1),
                                            .grad = ctr_mat(d->vectors.du, d->batch.unique, 1),
                                            .squares = ctr_mat(l->squares, d->batch.unique, 1) };
    return rc ? rc : ctr_dev_pool_grad(d->dev, &grad, err);
}

static int update(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    int rc = l->first ? bring(l, 0, true, err) : 0;
    if (!rc)
        rc = sum_gradients(l, err);
    const struct ctr_source_step step = { .opt = l->opt,
                                          .grad = ctr_mat(d->vectors.du, d->batch.unique, 1),
                                          .squares = ctr_mat(l->squares, d->batch.unique, 1) };
    if (!rc)
        rc = ctr_source_push(d->vectors.source, 0, &step, err);
    forget(l);
    return rc;
}

static int learn(struct ctr_lr_device *l, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    for (int64_t at = 0, n; at < r->rows; at += n) {
        const int64_t from = d->rows;
        n = CTR_MIN(r->rows - at, d->p.minibatch - from);
        int rc = add_rows(l, r, at, n, true, bound, err);
        if (!rc)
            rc = send_rows(l, err);
        if (!rc)
            rc = bring(l, from, true, err);
        if (!rc)
            rc = score_rows(l, from, r->first_row + at, score + at, err);
        if (!rc && d->rows == d->p.minibatch)
            rc = update(l, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int lr_device_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound,
                                struct ctr_err *err)
{
    struct ctr_lr_device *l = learner;
    ctr_deep_time_enter(&l->time);
    int rc = learn(l, r, score, bound, err);
    ctr_deep_time_leave(&l->time);
    return rc;
}

/* Out of the tables, which the cache is written to first. */
static int lr_device_evaluate(void *learner, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    struct ctr_lr_device *l = learner;
    struct ctr_deep *d = &l->net;
    int rc = ctr_deep_source_settle(d, err);
    if (!rc)
        rc = add_rows(l, r, 0, r->rows, false, 0, err);
    if (!rc)
        rc = send_rows(l, err);
    if (!rc)
        rc = bring(l, 0, false, err);
    if (!rc)
        rc = score_rows(l, 0, r->first_row, score, err);
    forget(l);
    return rc;
}

static int lr_device_end_pass(void *learner, struct ctr_err *err)
{
    struct ctr_lr_device *l = learner;
    return l->net.rows ? update(l, err) : 0;
}

static int64_t lr_device_pending(const void *learner)
{
    return ((const struct ctr_lr_device *)learner)->net.rows;
}

static int64_t lr_device_memory(const void *learner)
{
    return table_bytes(learner);
}

static int lr_device_summary(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct ctr_lr_device *l = learner;
    const int64_t keys = lr_device_keys(l);
    int rc = ctr_buf_printf(text, err, "bytes a key          %.1f\n", keys ? (double)table_bytes(l) / (double)keys : 0);
    if (!rc)
        rc = ctr_source_summary(l->net.vectors.source, text, err);
    return rc ? rc : ctr_deep_time_summary(&l->time, l->net.dev, text, err);
}

const struct ctr_model ctr_model_lr_device = {
    .name = "lr",
    .summary = "lr on a device, by minibatches",
    .options = ctr_lr_options,
    .on_device = true,
    .rows = CTR_MAX_MINIBATCH,
    .floats = CTR_FLOAT_FLUSH,
    .device = &ctr_model_lr_device,
    .learner_new = lr_device_new,
    .learner_free = lr_device_free,
    .bind = lr_device_bind,
    .train_rows = lr_device_train_rows,
    .evaluate = lr_device_evaluate,
    .end_pass = lr_device_end_pass,
    .pending = lr_device_pending,
    .keys = lr_device_keys,
    .memory = lr_device_memory,
    .add_summary = lr_device_summary,
    .save_schema = ctr_lr_device_save_schema,
    .save = ctr_lr_device_save,
    .load = ctr_lr_device_load,
    .scorer_open = ctr_lr_device_scorer_open,
    .scorer_free = ctr_lr_device_scorer_free,
    .session_new = ctr_lr_device_session_new,
    .session_free = ctr_lr_device_session_free,
    .predict_rows = ctr_lr_device_predict_rows,
    .count_unknown = ctr_lr_device_count_unknown,
};
