/* SPDX-License-Identifier: Apache-2.0
 *
 * Minibatches whose keys the device numbers (ctr_source_entries), those of all groups but of images together: the
 * entries of one group follow those of the one before. Entries go up as hashes or numbers, or are there: a plan's
 * extraction has left them. The index of their rows and the entries of each distinct key are made there. The host has
 * the hashes of what is new. */
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
                    { all->counts, "--l2 counts them" } };
    for (size_t i = 0; i < CTR_COUNT(reasons); i++)
        if (reasons[i].is)
            return reasons[i].why;
    return NULL;
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

/* A group's entries are of fields, or of its one input of lists. By table the fields may differ from row to row. */
static int list_parts(struct ctr_deep *d, struct ctr_source_entries *e, struct ctr_err *err)
{
    int rc = d->spec->by_table ? 0 : ctr_deep_set_fields(d, d->keys, err);
    for (int k = 0; k < d->keys && !d->spec->by_table && !rc; k++)
        d->batch.tables[k] = d->input[d->key_input[k]].table_at;
    ctr_buf_clear(&d->batch.part);
    struct ctr_source_part *part = ctr_buf_extend(&d->batch.part, d->groups, sizeof *part, &rc, err);
    int64_t at = 0;
    int n = 0;
    for (struct ctr_deep_group *g = d->group; g < d->group + d->groups && !rc; g++) {
        g->first_entry = at;
        at += g->images ? 0 : g->entries;
        if (!g->images)
            part[n++] = (struct ctr_source_part){ at, d->batch.tables + g->first,
                                                  d->spec->by_table ? d->batch.fields : g->inputs };
    }
    e->part = part;
    e->parts = d->batch.fields ? n : 0;
    e->tables = AS(uint16_t, d->group->table);
    e->hash = d->groups > 1 || d->batch.left ? NULL : AS(uint64_t, d->group->hash);
    return rc;
}

/* Entries of tables that differ from row to row go up as numbers. */
static int make_numbers(struct ctr_deep *d, const struct ctr_source_entries *e, struct ctr_err *err)
{
    const struct ctr_deep_group *g = d->group;
    const int64_t known = (int64_t)(d->batch.number.len / sizeof(uint64_t));
    int rc = 0;
    uint64_t *number = ctr_buf_extend(&d->batch.number, g->entries - known, sizeof *number, &rc, err);
    for (int64_t i = known; i < g->entries && !rc; i++)
        *number++ = ctr_source_number(e->tables[i], e->hash[i]);
    return rc;
}

/* Send what the device does not have of each group. `more`: it has the entries sent before. */
static int send_entries(struct ctr_deep *d, const struct ctr_source_entries *e, bool more, struct ctr_err *err)
{
    int rc = e->parts ? 0 : make_numbers(d, e, err);
    for (struct ctr_deep_group *g = d->group; g < d->group + d->groups && !d->batch.left && !rc; g++) {
        const struct ctr_buf *send = e->parts ? &g->hash : &d->batch.number;
        if (!g->images)
            rc = ctr_deep_send(d, &g->buffers[d->batch.buffer_index].hash, send->data,
                               more ? (size_t)g->sent_entries * 8 : 0, (size_t)g->entries * 8, err);
    }
    return rc ? rc : ctr_deep_sent(d, err);
}

/* The entries of all groups, one group behind the other. */
static int join_groups(struct ctr_deep *d, int64_t entries, struct ctr_mem **hash, struct ctr_err *err)
{
    *hash = d->group->buffers[d->batch.buffer_index].hash;
    if (d->groups == 1)
        return 0;
    int rc = ctr_mem_grow(&d->batch.hash, d->dev, (size_t)entries * 8, err);
    for (const struct ctr_deep_group *g = d->group; g < d->group + d->groups && !rc; g++) {
        struct ctr_mem *of = g->buffers[d->batch.buffer_index].hash;
        const struct ctr_dev_copy copy = { ctr_mat(of, 1, 2 * g->entries), /* a number is two floats */
                                           ctr_mat_at(d->batch.hash, 2 * g->first_entry, 1, 2 * g->entries) };
        if (g->entries && !g->images)
            rc = ctr_dev_copy(d->dev, &copy, err);
    }
    *hash = d->batch.hash;
    return rc;
}

int ctr_deep_number_there(struct ctr_deep *d, const struct ctr_deep_tables *all, int64_t first, struct ctr_err *err)
{
    const int64_t entries = ctr_deep_entries(d);
    const bool more = d->batch.on_device;
    struct ctr_source_entries e = { 0 };
    struct ctr_mem *hash = NULL;
    d->batch.on_device = false;
    if ((first && !more) || !entries || entries > INT32_MAX || ctr_deep_host_numbers(d, all) ||
        !ctr_source_takes_entries(d->vectors.source, entries))
        return 0;
    int rc = list_parts(d, &e, err);
    if (!rc)
        rc = make_groups(d, entries, err);
    if (!rc)
        rc = send_entries(d, &e, more, err);
    if (!rc)
        rc = join_groups(d, entries, &hash, err);
    e.on_device = ctr_vec(hash, entries);
    e.index = ctr_vec(d->batch.buffers[d->batch.buffer_index].index, entries);
    e.group_start = ctr_vec(d->batch.group_start, entries + 1);
    e.group_item = ctr_vec(d->batch.group_item, entries);
    if (!rc)
        rc = ctr_source_entries(d->vectors.source, d->batch.key_buffer, &e, &d->vectors.value, err);
    d->batch.on_device = rc > 0;
    d->batch.unique = e.distinct;
    return rc;
}
