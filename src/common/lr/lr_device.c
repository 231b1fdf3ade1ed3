/* SPDX-License-Identifier: Apache-2.0
 *
 * lr on a device, in minibatches, with operations of the compute table: sum of the weights of a row's keys (including
 * the bias); binary cross-entropy; FTRL-Proximal for the rows of the minibatch's keys. z and n take the gradients of a
 * minibatch as if its rows came one after another, all with the weights of its start, like lr_rows.c on a CPU:
 *
 *     z += sum g - (sqrt(n + sum g^2) - sqrt(n)) / alpha w        n += sum g^2
 *
 * The host looks up keys in growing tables, which threads share by table; the device gets row numbers and finds the
 * distinct ones. A cache holds their rows (table/source.h). The sums of a key run in the order of rows and do not
 * depend on row numbers, so threads, batches and the cache change no bit.
 *
 * A minibatch may arrive in pieces: each piece is scored on arrival, with the rows before the update; the rows are
 * fetched again to update the whole minibatch. */
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
    struct ctr_mem *mems[] = { l->unique_id, l->index,   l->group_start, l->group_item,
                               l->grad,      l->squares, l->logits,      l->dlogits };
    struct ctr_buf *bufs[] = { &l->id,    &l->segment, &l->x,    &l->start, &l->label, &l->weight, &l->unique_host,
                               &l->logit, &l->begin,   &l->hash, &l->entry, &l->row,   &l->failed, &l->places };
    for (int i = 0; i < 2; i++) {
        const struct ctr_lr_device_batch *b = &l->buffers[i];
        struct ctr_mem *own[] = { b->id, b->segment, b->x, b->start, b->label, b->weight };
        for (size_t k = 0; k < CTR_COUNT(own); k++)
            ctr_mem_free(own[k]);
    }
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_lr_free(l->file);
    ctr_source_free(l->source);
    for (int t = 0; t < l->tables; t++)
        ctr_embedding_free(&l->table[t]);
    free(l->table);
    ctr_upload_free(&l->upload, l->dev);
    ctr_dev_free(l->dev);
    ctr_pool_free(l->pool);
    free(l);
}

/* ---- rows by number ---- */

/* The source below the cache: its keys are row numbers, table << 32 | row, already looked up for all entries. */
struct numbered {
    struct ctr_source base;
    const struct ctr_lr_device *learner;
};

static float *row_of(struct ctr_source *s, uint64_t number)
{
    return ctr_embedding_row(&((struct numbered *)s)->learner->table[number >> 32], (uint32_t)number);
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
    struct ctr_embedding *table = ((struct numbered *)s)->learner->table;
    (void)err;
    for (int64_t i = 0; i < keys->n; i++) {
        const uint64_t number = keys->hash[i];
        ctr_embedding_scatter(&table[number >> 32], &(uint32_t){ (uint32_t)number }, 1, FLOATS, from + i * FLOATS);
    }
    return 0;
}

static int numbered_changes(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err)
{
    const struct ctr_lr_device *l = ((struct numbered *)s)->learner;
    int rc = 0;
    for (int t = 0; t < l->tables && !rc; t++)
        rc = ctr_changed_set(&l->table[t].changed, what, l->table[t].used, err);
    return rc;
}

static int64_t all_rows(const struct ctr_lr_device *l)
{
    int64_t n = 0;
    for (int t = 0; t < l->tables; t++)
        n += l->table[t].used;
    return n;
}

static int64_t numbered_rows(const struct ctr_source *s, int table)
{
    (void)table;
    return all_rows(((const struct numbered *)s)->learner);
}

static void numbered_free(struct ctr_source *s)
{
    free(s);
}

static const struct ctr_source_ops numbered_ops = { .name = "numbered",
                                                    .fetch = numbered_fetch,
                                                    .put = numbered_put,
                                                    .rows = numbered_rows,
                                                    .changes = numbered_changes,
                                                    .free = numbered_free };

static int make_source(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct numbered *n = calloc(1, sizeof *n);
    if (!n)
        return ctr_fail_nomem(err, sizeof *n);
    n->base = (struct ctr_source){ .ops = &numbered_ops, .dev = l->dev, .width = 1, .floats = FLOATS };
    n->learner = l;
    return ctr_source_cache(&l->source, l->dev, &n->base, err);
}

static int open_device(struct ctr_lr_device *l, const struct ctr_params *p, struct ctr_err *err)
{
    const size_t logits = (size_t)p->minibatch * sizeof(float);
    const struct ctr_dev_want want = { .device = p->device,
                                       .threads = CTR_MAX(p->threads, 1),
                                       .memory_bytes = p->device_memory,
                                       .profile = ctr_dev_times() };
    int rc = ctr_dev_open(&l->dev, &want, err);
    if (!rc)
        rc = ctr_mem_new(&l->logits, l->dev, logits, err);
    if (!rc)
        rc = ctr_mem_new(&l->dlogits, l->dev, logits, err);
    return rc ? rc : make_source(l, err);
}

static int lr_device_new(void **out, const struct ctr_model *m, const struct ctr_params *p, struct ctr_err *err)
{
    struct ctr_lr_device *l = calloc(1, sizeof *l);
    (void)m;
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->opt = (struct ctr_dev_opt){
        .kind = CTR_OPT_FTRL, .rate = (float)p->alpha, .beta = (float)p->beta, .l1 = (float)p->l1, .l2 = (float)p->l2
    };
    l->p = *p;
    l->ones = true;
    int rc = strcmp(p->precision, "f32")
                 ? ctr_fail(err, CTR_EUSAGE, "on a GPU lr keeps its state as f32: leave %s out", "--precision")
                 : open_device(l, p, err);
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
    const size_t bytes = ((size_t)tables + 1) * sizeof *l->table;
    if (l->tables > tables)
        return 0;
    struct ctr_embedding *t = realloc(l->table, bytes);
    if (!t)
        return ctr_fail_nomem(err, bytes);
    for (l->table = t; l->tables <= tables; l->tables++)
        ctr_embedding_init(&t[l->tables], 1, FLOATS, 0, 0);
    if (l->p.no_bias || t->used)
        return 0;
    int rc = ctr_embedding_reserve(t, 1, err);
    if (!rc)
        ctr_embedding_get(t, &(uint64_t){ ctr_sparse_hash(ctr_bias_key()) }, 1, &(uint32_t){ 0 });
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

/* Group the entries of rows [from, from + n) by table, keeping their order. */
static int sort_by_table(struct ctr_lr_device *l, const struct ctr_rows *r, int64_t from, int64_t n,
                         struct ctr_err *err)
{
    const int64_t first = r->start[from], all = r->start[from + n] - first, tables = l->tables;
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

/* Find the rows of table t's keys and create the new ones, for which room is reserved. */
static void find_rows(void *ctx, int64_t t, int worker)
{
    enum { AT_ONCE = 256 };
    const struct find *f = ctx;
    struct ctr_lr_device *l = f->l;
    struct ctr_embedding *rows = &l->table[t + 1];
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
    for (int t = 0; t < l->tables; t++)
        bytes += (int64_t)ctr_embedding_bytes(&l->table[t]);
    return bytes;
}

static int64_t lr_device_keys(const void *learner)
{
    return all_rows(learner);
}

static int look_up(struct ctr_lr_device *l, const struct ctr_rows *r, int64_t from, int64_t n, bool make, int64_t bound,
                   struct ctr_err *err)
{
    struct find f = { l, make };
    int rc = sort_by_table(l, r, from, n, err);
    if (rc)
        return rc;
    ctr_pool_run(l->pool, l->tables - 1, find_rows, &f);
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

/* Append rows [from, from + n) of r to the minibatch. `make`: create rows for new keys; else these add nothing. */
static int add_rows(struct ctr_lr_device *l, const struct ctr_rows *r, int64_t from, int64_t n, bool make,
                    int64_t bound, struct ctr_err *err)
{
    const int64_t first = r->start[from], room = r->start[from + n] - first + n, bias = !l->p.no_bias;
    if (l->entries + room > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "a minibatch has more than 2^31 keys: lower --minibatch");
    int rc = look_up(l, r, from, n, make, bound, err);
    if (!rc && !l->start.len)
        rc = ctr_buf_append(&l->start, &(int32_t){ 0 }, sizeof(int32_t), err);
    uint64_t *id = ctr_buf_extend(&l->id, room, sizeof *id, &rc, err);
    int32_t *segment = ctr_buf_extend(&l->segment, room, sizeof *segment, &rc, err);
    float *x = ctr_buf_extend(&l->x, room, sizeof *x, &rc, err);
    int32_t *start = ctr_buf_extend(&l->start, n, sizeof *start, &rc, err);
    float *label = ctr_buf_extend(&l->label, n, sizeof *label, &rc, err);
    float *weight = ctr_buf_extend(&l->weight, n, sizeof *weight, &rc, err);
    if (rc)
        return rc;
    const uint32_t *row = AS(uint32_t, l->row);
    int64_t k = 0;
    for (int64_t i = from; i < from + n; i++) {
        for (int64_t e = r->start[i]; e < r->start[i + 1]; e++) {
            id[k] = (uint64_t)(r->table[e] + 1) << 32 | row[e - first];
            segment[k] = (int32_t)(l->rows + i - from);
            x[k] = r->x ? (float)r->x[e] : 1;
            k += row[e - first] != CTR_EMBEDDING_NONE;
        }
        id[k] = 0;
        segment[k] = (int32_t)(l->rows + i - from);
        x[k] = 1;
        k += bias;
        *start++ = (int32_t)(l->entries + k);
        *label++ = r->label ? (float)r->label[i] : 0;
        *weight++ = r->weight ? (float)r->weight[i] : 1;
    }
    l->entries += k;
    l->id.len = (size_t)l->entries * sizeof *id;
    l->segment.len = (size_t)l->entries * sizeof *segment;
    l->x.len = (size_t)l->entries * sizeof *x;
    l->ones &= !r->x;
    l->weighted |= r->weight != NULL;
    l->rows += n;
    return 0;
}

/* ---- the minibatch on the device ---- */

/* Send the rows added last, without waiting. */
static int send_rows(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct ctr_lr_device_batch *on = &l->buffers[l->buffer_index];
    const size_t rows = (size_t)l->sent_rows, entries = (size_t)l->sent_entries;
    const struct {
        struct ctr_mem **to;
        const struct ctr_buf *from;
        size_t sent;
    } part[] = {
        { &on->id, &l->id, entries * sizeof(uint64_t) },
        { &on->start, &l->start, rows * sizeof(int32_t) },
        { &on->segment, &l->segment, entries * sizeof(int32_t) },
        { &on->label, &l->label, rows * sizeof(float) },
        { l->weighted ? &on->weight : NULL, &l->weight, rows * sizeof(float) },
        { l->ones ? NULL : &on->x, &l->x, entries * sizeof(float) },
    };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(part) && !rc; i++)
        if (part[i].to)
            rc = ctr_upload(&l->upload, l->dev, part[i].to, part[i].from->data, part[i].sent, part[i].from->len, err);
    l->sent_rows = l->rows;
    l->sent_entries = l->entries;
    return rc ? rc : ctr_uploaded(l->dev, err);
}

static int64_t entry_of(const struct ctr_lr_device *l, int64_t row)
{
    return AS(int32_t, l->start)[row];
}

/* Find the distinct rows of the entries from row `first` on, in order of appearance, and the entries of each. */
static int find_unique(struct ctr_lr_device *l, int64_t first, struct ctr_err *err)
{
    const int64_t from = entry_of(l, first), n = l->entries - from;
    const struct {
        struct ctr_mem **mem;
        int64_t bytes;
    } need[] = { { &l->unique_id, n * 8 },
                 { &l->index, l->entries * 4 },
                 { &l->group_start, (n + 1) * 4 },
                 { &l->group_item, n * 4 } };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(need) && !rc; i++)
        rc = ctr_mem_grow(need[i].mem, l->dev, (size_t)need[i].bytes, err);
    const struct ctr_dev_unique unique = { .keys = ctr_vec_at(l->buffers[l->buffer_index].id, from, n),
                                           .unique = ctr_vec(l->unique_id, n),
                                           .index = ctr_vec_at(l->index, from, n),
                                           .group_start = ctr_vec(l->group_start, n + 1),
                                           .group_item = ctr_vec(l->group_item, n),
                                           .count = &l->unique };
    if (!rc)
        rc = ctr_dev_unique(l->dev, &unique, err);
    uint64_t *id = scratch(&l->unique_host, rc ? 0 : l->unique, sizeof *id, &rc, err);
    if (!rc)
        rc = ctr_mem_read(l->unique_id, 0, id, (size_t)l->unique * sizeof *id, err);
    l->first = first;
    return rc;
}

/* Fetch what the rows of the minibatch from `first` on need. `make`: for training. */
static int bring(struct ctr_lr_device *l, int64_t first, bool make, struct ctr_err *err)
{
    ctr_source_drop(l->source, 0);
    int rc = find_unique(l, first, err);
    const struct ctr_want_keys keys = { AS(uint64_t, l->unique_host), l->unique };
    const struct ctr_want want = { .tables = 1, .keys = &keys, .make = make };
    if (!rc)
        rc = ctr_source_begin(l->source, &want, 0, err);
    return rc ? rc : ctr_source_values(l->source, 0, &l->value, err);
}

/* The lists of the rows from `first` on: the keys of a row form a list. */
static struct ctr_lists lists_from(const struct ctr_lr_device *l, int64_t first)
{
    const struct ctr_lr_device_batch *on = &l->buffers[l->buffer_index];
    return (struct ctr_lists){ .lists = l->rows - first,
                               .per_row = 1,
                               .start = ctr_vec_at(on->start, first, l->rows - first + 1),
                               .index = ctr_vec(l->index, l->entries),
                               .segment = ctr_vec(on->segment, l->entries),
                               .x = l->ones ? (struct ctr_vec){ 0 } : ctr_vec(on->x, l->entries) };
}

/* Score the rows from `first` on, the last ones added; first_row: stream row of the first. */
static int score_rows(struct ctr_lr_device *l, int64_t first, int64_t first_row, double *score, struct ctr_err *err)
{
    const int64_t n = l->rows - first;
    const struct ctr_dev_pool pool = {
        .how = CTR_POOL_SUM, .lists = lists_from(l, first), .rows = l->value, .out = ctr_mat_at(l->logits, first, n, 1)
    };
    int rc = ctr_dev_pool(l->dev, &pool, err);
    float *logit = scratch(&l->logit, n, sizeof *logit, &rc, err);
    if (!rc)
        rc = ctr_mem_read(l->logits, (size_t)first * sizeof *logit, logit, (size_t)n * sizeof *logit, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        score[i] = ctr_sigmoid((double)logit[i]);
        if (!(fabsf(logit[i]) < INFINITY))
            rc = ctr_lr_diverged(first_row + i + 1, err);
    }
    return rc;
}

static void forget(struct ctr_lr_device *l)
{
    struct ctr_buf *bufs[] = { &l->id, &l->segment, &l->x, &l->start, &l->label, &l->weight };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_clear(bufs[i]);
    l->rows = l->entries = l->sent_rows = l->sent_entries = l->unique = l->first = 0;
    l->buffer_index = !l->buffer_index;
    l->weighted = false;
    l->ones = true;
    ctr_source_drop(l->source, 0);
}

/* ---- an update ---- */

/* Sums of gradients and of their squares, by row of u. */
static int sum_gradients(struct ctr_lr_device *l, struct ctr_err *err)
{
    const struct ctr_lr_device_batch *on = &l->buffers[l->buffer_index];
    const struct ctr_dev_bce bce = { .z = ctr_vec(l->logits, l->rows),
                                     .label = ctr_vec(on->label, l->rows),
                                     .weight = l->weighted ? ctr_vec(on->weight, l->rows) : (struct ctr_vec){ 0 },
                                     .dz = ctr_vec(l->dlogits, l->rows),
                                     .scale = 1 };
    const size_t bytes = (size_t)l->unique * sizeof(float);
    int rc = ctr_dev_bce(l->dev, &bce, err);
    if (!rc)
        rc = ctr_mem_grow(&l->grad, l->dev, bytes, err);
    if (!rc)
        rc = ctr_mem_grow(&l->squares, l->dev, bytes, err);
    const struct ctr_dev_pool_grad grad = { .how = CTR_POOL_SUM,
                                            .lists = lists_from(l, 0),
                                            .group_start = ctr_vec(l->group_start, l->unique + 1),
                                            .group_item = ctr_vec(l->group_item, l->entries),
                                            .dout = ctr_mat(l->dlogits, l->rows, 1),
                                            .grad = ctr_mat(l->grad, l->unique, 1),
                                            .squares = ctr_mat(l->squares, l->unique, 1) };
    return rc ? rc : ctr_dev_pool_grad(l->dev, &grad, err);
}

static int update(struct ctr_lr_device *l, struct ctr_err *err)
{
    int rc = l->first ? bring(l, 0, true, err) : 0;
    if (!rc)
        rc = sum_gradients(l, err);
    const struct ctr_source_step step = { .opt = l->opt,
                                          .grad = ctr_mat(l->grad, l->unique, 1),
                                          .squares = ctr_mat(l->squares, l->unique, 1) };
    if (!rc)
        rc = ctr_source_push(l->source, 0, &step, err);
    forget(l);
    return rc;
}

static int learn(struct ctr_lr_device *l, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    for (int64_t at = 0, n; at < r->rows; at += n) {
        const int64_t from = l->rows;
        n = CTR_MIN(r->rows - at, l->p.minibatch - from);
        int rc = add_rows(l, r, at, n, true, bound, err);
        if (!rc)
            rc = send_rows(l, err);
        if (!rc)
            rc = bring(l, from, true, err);
        if (!rc)
            rc = score_rows(l, from, r->first_row + at, score + at, err);
        if (!rc && l->rows == l->p.minibatch)
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
    ctr_dev_time_enter(&l->time);
    int rc = learn(l, r, score, bound, err);
    ctr_dev_time_leave(&l->time);
    return rc;
}

/* Uses the tables, after writing the cache back to them. */
static int lr_device_evaluate(void *learner, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    struct ctr_lr_device *l = learner;
    int rc = ctr_source_settle(l->source, err);
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
    return l->rows ? update(l, err) : 0;
}

static int64_t lr_device_pending(const void *learner)
{
    return ((const struct ctr_lr_device *)learner)->rows;
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
        rc = ctr_source_summary(l->source, text, err);
    return rc ? rc : ctr_dev_time_summary(&l->time, l->dev, text, err);
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
};
