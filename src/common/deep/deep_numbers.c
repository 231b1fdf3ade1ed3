/* SPDX-License-Identifier: Apache-2.0
 *
 * Minibatches whose keys the device numbers (ctr_source_entries): of a single group, in which each key is an entry of
 * one table by its place in the row, or, with `by_table`, of any. Entries go up as hashes or numbers; the index of
 * their rows and the entries of each distinct key are made there. The host has the hashes of what is new. */
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

static int make_groups(struct ctr_deep *d, struct ctr_deep_group *g, struct ctr_mem **index, struct ctr_err *err)
{
    struct ctr_mem **const mem[] = { index, &g->group_item_mem, &g->group_start_mem };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(mem) && !rc; i++)
        rc = ctr_mem_grow(mem[i], d->dev, (size_t)(g->entries + 1) * sizeof(int32_t), err);
    return rc;
}

/* What goes up of each entry: the hash of its key, or its number where tables differ from row to row. */
static int entries_to_send(struct ctr_deep *d, struct ctr_source_entries *e, const uint64_t **send, struct ctr_err *err)
{
    const struct ctr_deep_group *g = d->group;
    const int64_t known = (int64_t)(d->batch.number.len / sizeof **send);
    int rc = 0;
    e->hash = *send = AS(uint64_t, g->hash);
    if (!d->spec->by_table) {
        if (!d->batch.tables && !(d->batch.tables = calloc((size_t)d->keys, sizeof *d->batch.tables)))
            return ctr_fail_nomem(err, (size_t)d->keys * sizeof *d->batch.tables);
        for (int k = 0; k < d->keys; k++)
            d->batch.tables[k] = d->input[d->key_input[k]].table_at;
        e->table = d->batch.tables;
        e->fields = d->keys;
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
    if (!rc)
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
