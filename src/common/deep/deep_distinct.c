/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows with equal values in some inputs: for example the ads shown to a user are rows with the same user columns.
 * Whatever a network computes from these inputs alone, it computes once for the distinct rows of a minibatch and copies
 * to all of them ("Image Matters", Ge et al. 2018, section 7.2). Backward first sums the gradients of equal rows, in
 * row order.
 *
 * A record identifies a row: for each input the hash of its key, the number of its list (deep_common.c) or its numbers.
 * Records are compared byte by byte and numbered in order of first occurrence, so that only the minibatch's rows
 * matter, not how they arrive. */
#include <stdlib.h>
#include <string.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

int ctr_deep_distinct(struct ctr_deep *d, const bool *has, struct ctr_err *err)
{
    struct ctr_deep_distinct *list = realloc(d->distinct, ((size_t)d->distincts + 1) * sizeof *list);
    if (!list)
        return ctr_fail_nomem(err, ((size_t)d->distincts + 1) * sizeof *list);
    d->distinct = list;
    struct ctr_deep_distinct *s = &list[d->distincts];
    *s = (struct ctr_deep_distinct){ .has = malloc((size_t)d->inputs + 1) };
    if (!s->has)
        return ctr_fail_nomem(err, (size_t)d->inputs);
    memcpy(s->has, has, (size_t)d->inputs);
    for (int i = 0; i < d->inputs; i++)
        if (has[i])
            s->bytes += d->input[i].table ? sizeof(uint64_t) : (size_t)d->input[i].dense * sizeof(float);
    return d->distincts++;
}

bool ctr_deep_can_be_distinct(const struct ctr_deep_input *in)
{
    return !in->list || (!in->image && !in->sequence && !in->split); /* its lists are numbered */
}

/* ---- which rows are equal ---- */

/* Make the record of row `at` of the minibatch. */
static void make_record(const struct ctr_deep *d, const struct ctr_deep_distinct *s, const struct ctr_rows *r,
                        int64_t row, int64_t at, unsigned char *to)
{
    int64_t e = r->start[row];
    for (const struct ctr_deep_group *g = d->group; g < d->group + d->groups; g++)
        for (int k = g->first; k < g->first + g->inputs; k++) {
            const int input = d->key_input[k];
            if (!s->has[input])
                continue;
            while (!g->common && r->table && r->table[e] < input)
                e++;
            const uint64_t value = g->common ? (uint64_t)AS(int32_t, g->list)[at] : r->hash[r->table ? e : e + k];
            memcpy(to, &value, sizeof value);
            to += sizeof value;
        }
    for (int i = 0; i < d->inputs; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        if (in->table || !s->has[i])
            continue;
        memcpy(to, r->dense + row * d->dense + in->dense_at, (size_t)in->dense * sizeof *r->dense);
        to += (size_t)in->dense * sizeof *r->dense;
    }
}

/* The number of the record stored after the known ones; a new record is added. If another record has the same hash, the
 * next hash is tried. Hashes are keyed, so that no rows can be made of which many have one. */
static int number_record(struct ctr_deep_distinct *s, int64_t at, int32_t *number, struct ctr_err *err)
{
    const int64_t known = s->set.keys.n;
    const unsigned char *record = s->record.data + (size_t)known * s->bytes;
    int rc = 0;
    for (uint64_t h = ctr_hash64(record, s->bytes, ctr_hash_secret);; h = ctr_mix64(h + 1)) {
        *number = ctr_deep_set_add(&s->set, h, &rc);
        if (rc) {
            *err = s->set.err;
            return rc;
        }
        if (s->set.keys.n > known)
            return ctr_buf_append(&s->first, &(int32_t){ (int32_t)at }, sizeof(int32_t), err);
        if (!memcmp(record, s->record.data + (size_t)*number * s->bytes, s->bytes))
            return 0;
    }
}

int ctr_deep_distinct_add(struct ctr_deep *d, struct ctr_deep_distinct *s, const struct ctr_rows *r, int64_t from,
                          int64_t n, struct ctr_err *err)
{
    int rc = 0;
    int32_t *number = ctr_buf_extend(&s->number, n, sizeof *number, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        const size_t known = (size_t)s->set.keys.n * s->bytes;
        s->record.len = known;
        if ((rc = ctr_buf_reserve(&s->record, s->bytes, err)))
            break;
        make_record(d, s, r, from + i, d->rows + i, s->record.data + known);
        /* rows of one user are often adjacent */
        if (i && !memcmp(s->record.data + known, s->record.data + (size_t)number[i - 1] * s->bytes, s->bytes))
            number[i] = number[i - 1];
        else
            rc = number_record(s, d->rows + i, &number[i], err);
    }
    s->record.len = (size_t)s->set.keys.n * s->bytes;
    return rc;
}

void ctr_deep_distinct_clear(struct ctr_deep_distinct *s)
{
    ctr_deep_set_clear(&s->set);
    ctr_buf_clear(&s->record);
    ctr_buf_clear(&s->number);
    ctr_buf_clear(&s->first);
    s->sent_rows = s->sent_distinct = 0;
}

void ctr_deep_distinct_free(struct ctr_deep_distinct *s)
{
    struct ctr_mem *mems[] = { s->buffers[0].number, s->buffers[0].first, s->buffers[1].number,
                               s->buffers[1].first,  s->row_start_mem,    s->row_item_mem };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_deep_set_free(&s->set);
    ctr_buf_free(&s->record);
    ctr_buf_free(&s->number);
    ctr_buf_free(&s->first);
    free(s->has);
}

/* ---- on the device ---- */

int ctr_deep_distinct_send(struct ctr_deep *d, struct ctr_deep_distinct *s, struct ctr_err *err)
{
    struct ctr_deep_distinct_buffers *on = &s->buffers[d->batch.buffer_index];
    int rc = ctr_deep_send(d, &on->number, s->number.data, (size_t)s->sent_rows * 4, s->number.len, err);
    if (!rc)
        rc = ctr_deep_send(d, &on->first, s->first.data, (size_t)s->sent_distinct * 4, s->first.len, err);
    s->sent_rows = (int64_t)(s->number.len / 4);
    s->sent_distinct = s->set.keys.n;
    return rc;
}

struct ctr_deep_distinct_view ctr_deep_distinct_of(const struct ctr_deep *d, int number, int64_t from, int64_t n)
{
    const struct ctr_deep_distinct *s = &d->distinct[number];
    const struct ctr_deep_distinct_buffers *on = &s->buffers[d->batch.buffer_index];
    const int64_t all = s->set.keys.n;
    int64_t first = all;
    while (first && AS(int32_t, s->first)[first - 1] >= from)
        first--;
    return (struct ctr_deep_distinct_view){ .first = first,
                                            .count = all - first,
                                            .row = ctr_vec_at(on->first, first, all - first),
                                            .number = ctr_vec_at(on->number, from, n) };
}

int ctr_deep_distinct_sum(struct ctr_deep *d, int number, struct ctr_mat rows, struct ctr_mat sums, struct ctr_err *err)
{
    struct ctr_deep_distinct *s = &d->distinct[number];
    const struct ctr_deep_distinct_view v = ctr_deep_distinct_of(d, number, 0, d->rows);
    int rc = ctr_deep_send_groups(d, &s->number, v.count, &s->row_start_mem, &s->row_item_mem, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    const struct ctr_dev_pool_grad sum = { .how = CTR_POOL_SUM,
                                           .lists = { .lists = d->rows, .per_row = 1, .index = v.number },
                                           .group_start = ctr_vec(s->row_start_mem, v.count + 1),
                                           .group_item = ctr_vec(s->row_item_mem, d->rows),
                                           .dout = rows,
                                           .grad = sums };
    return rc ? rc : ctr_dev_pool_grad(d->dev, &sum, err);
}
