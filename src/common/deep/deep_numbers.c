/* SPDX-License-Identifier: Apache-2.0
 *
 * Minibatches whose keys the device numbers (ctr_source_entries): of a single group, in which each key is an entry of
 * one table by its place in the row, or, with `by_table`, of any. Entries go up as hashes or numbers, or are there: a
 * plan's extraction has left them. The index of their rows and the entries of each distinct key are made there. The
 * host has the hashes of what is new. */
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

const char *ctr_deep_host_numbers(const struct ctr_deep *d, const struct ctr_deep_tables *all)
{
    const struct ctr_deep_group *g = d->group;
    const struct {
        bool is;
        const char *why;
    } reasons[] = { { !d->vectors.source || !d->groups, "there are none" },
                    { d->p.comm, "their rows are those of ranks" },
                    { d->p.spill, "--spill reads their rows ahead" },
                    { all->counts, "--l2 counts them" },
                    { d->images, "some are images" },
                    { d->groups > 1 || (g->ragged && !d->spec->by_table) || g->common, "some are in lists" } };
    for (size_t i = 0; i < CTR_COUNT(reasons); i++)
        if (reasons[i].is)
            return reasons[i].why;
    return NULL;
}

/* ---- hashes that are left on the device ---- */

const char *ctr_deep_wants_hashes(const void *learner)
{
    const struct ctr_deep_learner *l = learner;
    const struct ctr_deep *d = &l->net;
    return ctr_dev_is_host(d->dev) ? "the model is on the CPU"
           : d->distincts          ? "rows are compared"
                                   : ctr_deep_host_numbers(d, &l->tables);
}

static int read_hashes(struct ctr_deep *d, uint64_t device_hash, int64_t n, uint64_t *to, struct ctr_err *err)
{
    struct ctr_mem *there;
    int rc = ctr_mem_at(&there, d->dev, device_hash, (size_t)n * sizeof *to, err);
    if (rc)
        return rc;
    rc = ctr_mem_read(there, 0, to, (size_t)n * sizeof *to, err);
    ctr_mem_free(there);
    return rc;
}

int ctr_deep_read_hashes(void *learner, uint64_t device_hash, int64_t n, uint64_t *to, struct ctr_err *err)
{
    return read_hashes(&((struct ctr_deep_learner *)learner)->net, device_hash, n, to, err);
}

/* The same hash n times. */
static int make_bias(struct ctr_deep *d, int64_t n, uint64_t bias, struct ctr_err *err)
{
    struct ctr_buf all = { 0 };
    int rc = 0;
    if (ctr_mem_bytes(d->batch.bias) >= (size_t)n * sizeof bias)
        return 0;
    uint64_t *to = ctr_buf_extend(&all, n, sizeof *to, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++)
        to[i] = bias;
    if (!rc)
        rc = ctr_mem_grow(&d->batch.bias, d->dev, all.len, err);
    if (!rc)
        rc = ctr_mem_write(d->batch.bias, 0, to, all.len, err);
    ctr_buf_free(&all);
    return rc;
}

/* Rows of hashes into entries [g->entries, …) on the device, where a number is two floats. */
static int copy_rows(struct ctr_deep *d, struct ctr_mem *there, int64_t n, int64_t keys, uint64_t bias,
                     struct ctr_err *err)
{
    struct ctr_mem **hash = &d->batch.buffers[d->batch.buffer_index].hash;
    const int64_t width = keys + (bias != 0), entries = d->group->entries;
    int rc = ctr_mem_keep(hash, d->dev, (size_t)entries * 8, (size_t)(entries + n * width) * 8, err);
    if (!rc && bias)
        rc = make_bias(d, n, bias, err);
    const struct ctr_mat to = ctr_mat_at(*hash, 2 * entries, n, 2 * width);
    const struct ctr_dev_copy copy[] = { { ctr_mat(there, n, 2 * keys), ctr_mat_cols(to, 0, 2 * keys) },
                                         { ctr_mat(d->batch.bias, n, 2), ctr_mat_cols(to, 2 * keys, 2) } };
    for (int i = 0; i < 1 + (bias != 0) && !rc; i++)
        rc = ctr_dev_copy(d->dev, &copy[i], err);
    d->batch.left = true;
    return rc;
}

int ctr_deep_add_left(struct ctr_deep *d, uint64_t device_hash, int64_t n, int64_t keys, uint64_t bias,
                      struct ctr_err *err)
{
    const int64_t width = keys + (bias != 0);
    struct ctr_mem *there;
    int rc = 0;
    if (d->batch.left || (!d->group->entries && ctr_source_takes_entries(d->vectors.source, 0))) {
        if ((rc = ctr_mem_at(&there, d->dev, device_hash, (size_t)(n * keys) * 8, err)))
            return rc;
        rc = copy_rows(d, there, n, keys, bias, err);
        ctr_mem_free(there);
        return rc;
    }
    uint64_t *to = ctr_buf_extend(&d->group->hash, n * width, sizeof *to, &rc, err);
    if (!rc)
        rc = read_hashes(d, device_hash, n * keys, to, err);
    for (int64_t i = n - 1; i >= 0 && bias && !rc; i--) {
        memmove(to + i * width, to + i * keys, (size_t)keys * sizeof *to);
        to[i * width + keys] = bias;
    }
    return rc;
}

int ctr_deep_bring(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_deep_group *g = d->group;
    int rc = 0;
    if (!d->batch.left)
        return 0;
    uint64_t *to = ctr_buf_extend(&g->hash, g->entries, sizeof *to, &rc, err);
    d->batch.left = false;
    return rc ? rc
              : ctr_mem_read(d->batch.buffers[d->batch.buffer_index].hash, 0, to, (size_t)g->entries * sizeof *to, err);
}

/* ---- numbering ---- */

static int make_groups(struct ctr_deep *d, struct ctr_deep_group *g, struct ctr_mem **index, struct ctr_err *err)
{
    struct ctr_mem **const mem[] = { index, &g->group_item_mem, &g->group_start_mem };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(mem) && !rc; i++)
        rc = ctr_mem_grow(mem[i], d->dev, (size_t)(g->entries + 1) * sizeof(int32_t), err);
    return rc;
}

int ctr_deep_set_fields(struct ctr_deep *d, int n, struct ctr_err *err)
{
    int *tables = n == d->batch.fields ? d->batch.tables : realloc(d->batch.tables, (size_t)n * sizeof *tables);
    if (!tables)
        return ctr_fail_nomem(err, (size_t)n * sizeof *tables);
    d->batch.tables = tables;
    d->batch.fields = n;
    return 0;
}

/* What goes up of each entry: the hash of its key, or its number where tables differ from row to row. */
static int entries_to_send(struct ctr_deep *d, struct ctr_source_entries *e, const uint64_t **send, struct ctr_err *err)
{
    const struct ctr_deep_group *g = d->group;
    const int64_t known = (int64_t)(d->batch.number.len / sizeof **send);
    int rc = 0;
    e->hash = *send = d->batch.left ? NULL : AS(uint64_t, g->hash);
    if (!d->spec->by_table && (rc = ctr_deep_set_fields(d, d->keys, err)))
        return rc;
    for (int k = 0; k < d->keys && !d->spec->by_table; k++)
        d->batch.tables[k] = d->input[d->key_input[k]].table_at;
    if (d->batch.fields) {
        e->table = d->batch.tables;
        e->fields = d->batch.fields;
        return 0;
    }
    e->tables = AS(uint16_t, g->table);
    uint64_t *number = ctr_buf_extend(&d->batch.number, g->entries - known, sizeof *number, &rc, err);
    for (int64_t i = known; i < g->entries && !rc; i++)
        *number++ = ctr_source_number(e->tables[i], e->hash[i]);
    *send = AS(uint64_t, d->batch.number);
    return rc;
}

int ctr_deep_number_there(struct ctr_deep *d, const struct ctr_deep_tables *all, int64_t first, struct ctr_err *err)
{
    struct ctr_deep_group *g = d->group;
    struct ctr_mem **hash = &d->batch.buffers[d->batch.buffer_index].hash;
    struct ctr_mem **index = &g->buffers[d->batch.buffer_index].index;
    const bool more = d->batch.on_device;
    struct ctr_source_entries e = { 0 };
    const uint64_t *send = NULL;
    d->batch.on_device = false;
    if ((first && !more) || ctr_deep_host_numbers(d, all) || !ctr_source_takes_entries(d->vectors.source, g->entries))
        return 0;
    int rc = entries_to_send(d, &e, &send, err);
    if (!rc && !d->batch.left)
        rc = ctr_deep_send(d, hash, send, more ? (size_t)g->sent_entries * sizeof *send : 0,
                           (size_t)g->entries * sizeof *send, err);
    if (!rc)
        rc = make_groups(d, g, index, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    e.on_device = ctr_vec(*hash, g->entries);
    e.index = ctr_vec(*index, g->entries);
    e.group_start = ctr_vec(g->group_start_mem, g->entries + 1);
    e.group_item = ctr_vec(g->group_item_mem, g->entries);
    if (!rc)
        rc = ctr_source_entries(d->vectors.source, d->batch.key_buffer, &e, &d->vectors.value, err);
    d->batch.on_device = rc > 0;
    d->batch.unique = e.distinct;
    return rc;
}
