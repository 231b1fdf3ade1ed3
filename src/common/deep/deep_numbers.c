/* SPDX-License-Identifier: Apache-2.0
 *
 * Minibatches whose keys the device numbers (ctr_source_entries), those of all groups together: the entries of one
 * group follow those of the one before. Entries go up as hashes or numbers, or are there: a plan's extraction has left
 * them. The index of their rows and the entries of each distinct key are made there. The host has the hashes of what is
 * new. */
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

const char *ctr_deep_host_numbers(const struct ctr_deep *d, const struct ctr_deep_tables *all)
{
    const struct {
        bool is;
        const char *why;
    } reasons[] = { { !d->vectors.source || !d->groups, "there are none" },
                    { d->p.comm, "their rows are those of ranks" },
                    { d->p.spill, "--spill reads their rows ahead" },
                    { all->counts, "--l2 counts them" },
                    { d->images, "some are images" } };
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
    return ctr_dev_is_host(d->dev)                                     ? "the model is on the CPU"
           : d->distincts                                              ? "rows are compared"
           : !d->spec->by_table && (d->groups > 1 || d->group->ragged) ? "some are in lists"
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

static int make_groups(struct ctr_deep *d, int64_t entries, struct ctr_err *err)
{
    struct ctr_mem **const mem[] = { &d->batch.buffers[d->batch.buffer_index].index, &d->batch.group_item,
                                     &d->batch.group_start };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(mem) && !rc; i++)
        rc = ctr_mem_grow(mem[i], d->dev, (size_t)(entries + 1) * sizeof(int32_t), err);
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

/* A group's entries are of fields, or of its one input of lists. */
static int list_parts(struct ctr_deep *d, struct ctr_source_entries *e, struct ctr_err *err)
{
    int rc = d->spec->by_table ? 0 : ctr_deep_set_fields(d, d->keys, err);
    for (int k = 0; k < d->keys && !d->spec->by_table && !rc; k++)
        d->batch.tables[k] = d->input[d->key_input[k]].table_at;
    ctr_buf_clear(&d->batch.part);
    struct ctr_source_part *part =
        ctr_buf_extend(&d->batch.part, d->batch.fields ? d->groups : 0, sizeof *part, &rc, err);
    int64_t at = 0;
    for (int i = 0; i < d->groups && !rc; i++) {
        struct ctr_deep_group *g = &d->group[i];
        g->first_entry = at;
        at += g->entries;
        if (d->batch.fields)
            part[i] = (struct ctr_source_part){ at, d->batch.tables + g->first,
                                                d->spec->by_table ? d->batch.fields : g->inputs };
    }
    e->part = part;
    e->parts = d->batch.fields ? d->groups : 0;
    e->tables = AS(uint16_t, d->group->table);
    return rc;
}

/* The numbers of the entries of group g from `from` on. */
static int add_numbers(struct ctr_deep *d, const struct ctr_deep_group *g, int64_t from,
                       const struct ctr_source_entries *e, const struct ctr_source_part *part, struct ctr_err *err)
{
    int rc = 0;
    uint64_t *number = ctr_buf_extend(&d->batch.number, g->entries - from, sizeof *number, &rc, err);
    for (int64_t i = from; i < g->entries && !rc; i++)
        *number++ = ctr_source_number(part ? part->table[i % part->fields] : e->tables[i], AS(uint64_t, g->hash)[i]);
    return rc;
}

/* What goes up of each entry: the hash of its key or, unless they are one group of fields, its number. */
static int entries_to_send(struct ctr_deep *d, struct ctr_source_entries *e, const uint64_t **send, struct ctr_err *err)
{
    int rc = list_parts(d, e, err);
    e->hash = d->groups > 1 || d->batch.left ? NULL : AS(uint64_t, d->group->hash);
    *send = e->hash;
    if (e->parts == 1)
        return rc;
    if (e->parts)
        ctr_buf_clear(&d->batch.number);
    for (int i = 0; i < d->groups && !rc; i++)
        rc = add_numbers(d, &d->group[i], e->parts ? 0 : (int64_t)(d->batch.number.len / sizeof **send), e,
                         e->parts ? &e->part[i] : NULL, err);
    *send = AS(uint64_t, d->batch.number);
    return rc;
}

int ctr_deep_number_there(struct ctr_deep *d, const struct ctr_deep_tables *all, int64_t first, struct ctr_err *err)
{
    const int64_t entries = ctr_deep_entries(d);
    struct ctr_mem **hash = &d->batch.buffers[d->batch.buffer_index].hash;
    const bool more = d->batch.on_device;
    struct ctr_source_entries e = { 0 };
    const uint64_t *send = NULL;
    d->batch.on_device = false;
    if ((first && !more) || !entries || ctr_deep_host_numbers(d, all) ||
        !ctr_source_takes_entries(d->vectors.source, entries))
        return 0;
    int rc = entries_to_send(d, &e, &send, err);
    if (!rc && !d->batch.left)
        rc = ctr_deep_send(d, hash, send, more && d->groups == 1 ? (size_t)d->group->sent_entries * sizeof *send : 0,
                           (size_t)entries * sizeof *send, err);
    if (!rc)
        rc = make_groups(d, entries, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    e.on_device = ctr_vec(*hash, entries);
    e.index = ctr_vec(d->batch.buffers[d->batch.buffer_index].index, entries);
    e.group_start = ctr_vec(d->batch.group_start, entries + 1);
    e.group_item = ctr_vec(d->batch.group_item, entries);
    if (!rc)
        rc = ctr_source_entries(d->vectors.source, d->batch.key_buffer, &e, &d->vectors.value, err);
    d->batch.on_device = rc > 0;
    d->batch.unique = e.distinct;
    return rc;
}
