/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_memory: see gpu_memory.h. */
#include "common/op/gpu_memory.h"

#include <stdlib.h>

/* ---- room ---- */

static int64_t held(const struct gpu_memory *m)
{
    int64_t bytes = m->down.bytes + m->scratch.bytes + m->pool.bytes + m->compact.bytes;
    for (int i = 0; i < m->nblocks; i++)
        bytes += m->block[i].at.bytes;
    for (int i = 0; i < m->ntables; i++)
        bytes += m->table[i].at.bytes;
    for (int i = 0; i < m->nslots; i++)
        bytes += m->slot[i].rows.bytes + m->slot[i].data.bytes;
    for (int i = 0; i < m->nleft; i++)
        bytes += m->left[i].bytes;
    return bytes;
}

int ctr_gpu_room(struct gpu_memory *m, struct gpu_mem *of, int64_t bytes, struct ctr_err *err)
{
    const int64_t want = m->most_bytes ? bytes : bytes + bytes / 4, all = held(m) - of->bytes + bytes;
    if (of->bytes >= bytes)
        return 0;
    if (m->most_bytes && all > m->most_bytes)
        return ctr_fail(err, CTR_ELARGE, "a layer takes %s of the GPU's memory, and --device-memory allows %s",
                        ctr_size_text_beyond((uint64_t)all, (uint64_t)m->most_bytes).s,
                        ctr_size_text((uint64_t)m->most_bytes).s);
    ctr_gpu_cuda_release(m->cuda, of->p);
    *of = (struct gpu_mem){ 0 };
    int rc = ctr_gpu_cuda_alloc(m->cuda, &of->p, want, err);
    if (rc == CTR_ENOMEM) /* fewer rows may fit */
        rc = err->code = CTR_ELARGE;
    of->bytes = rc < 0 ? 0 : want;
    return rc;
}

int ctr_gpu_pinned(struct gpu_memory *m, struct gpu_pinned *of, int64_t bytes, int64_t keep, struct ctr_err *err)
{
    struct gpu_pinned p = { NULL, bytes + bytes / 4 };
    void *at;
    if (of->bytes >= bytes)
        return 0;
    int rc = ctr_gpu_cuda_pin(m->cuda, &at, p.bytes, err);
    if (rc == CTR_ENOMEM) /* fewer rows may fit */
        rc = err->code = CTR_ELARGE;
    if (rc < 0)
        return rc;
    p.data = at;
    if (keep)
        memcpy(p.data, of->data, (size_t)keep);
    ctr_gpu_cuda_unpin(m->cuda, of->data);
    *of = p;
    return 0;
}

/* ---- copies ---- */

int ctr_gpu_down(struct gpu_memory *m, void *to, gpu_ptr from, int64_t bytes, struct ctr_err *err)
{
    m->stats->copies_down += bytes > 0;
    m->stats->bytes_down += bytes;
    return ctr_gpu_cuda_down(m->cuda, to, from, bytes, err);
}

int ctr_gpu_up(struct gpu_memory *m, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err)
{
    m->stats->copies_up += bytes > 0;
    m->stats->bytes_up += bytes;
    return ctr_gpu_cuda_up(m->cuda, to, from, bytes, err);
}

/* ---- slots and tables ---- */

int ctr_gpu_slot(struct gpu_memory *m, int slot, int64_t bytes, uint64_t *at, struct ctr_err *err)
{
    int rc = 0;
    while (rc == 0 && m->nslots <= slot) {
        rc = ctr_array_grow(&m->slot, m->nslots, &m->slots_cap, sizeof *m->slot, err);
        if (rc == 0)
            m->slot[m->nslots++] = (struct gpu_slot){ 0 };
    }
    if (rc == 0)
        rc = ctr_gpu_room(m, &m->slot[slot].rows, bytes, err);
    *at = rc ? 0 : m->slot[slot].rows.p;
    return rc;
}

static int slot_room(void *ctx, int slot, int64_t bytes, uint64_t *at, struct ctr_err *err)
{
    return ctr_gpu_slot(ctx, slot, bytes, at, err);
}

static struct gpu_kept *slot_kept(void *ctx, int slot)
{
    return &((struct gpu_memory *)ctx)->slot[slot].kept;
}

static int put_table(void *ctx, uint64_t id, const void *table, int64_t bytes, uint64_t *at, struct ctr_err *err)
{
    struct gpu_memory *m = ctx;
    struct gpu_table t = { id, { 0 } };
    for (int i = 0; i < m->ntables; i++)
        if (m->table[i].id == id) {
            *at = m->table[i].at.p;
            return 0;
        }
    int rc = ctr_array_grow(&m->table, m->ntables, &m->tables_cap, sizeof *m->table, err);
    if (rc == 0)
        rc = ctr_gpu_room(m, &t.at, bytes, err);
    if (rc == CTR_ELARGE && m->most_bytes && bytes > m->most_bytes) /* fewer rows do not help */
        return ctr_fail(err, CTR_ENOMEM,
                        "the table of an operator takes %s of the GPU's memory, and --device-memory allows %s; --place "
                        "NODE=cpu leaves the operator on the host",
                        ctr_size_text((uint64_t)bytes).s, ctr_size_text((uint64_t)m->most_bytes).s);
    if (rc == 0)
        m->table[m->ntables++] = t;
    *at = t.at.p;
    if (rc == 0)
        rc = ctr_gpu_up(m, t.at.p, table, bytes, err);
    return rc < 0 ? rc : ctr_gpu_cuda_wait(m->cuda, err);
}

/* ---- blocks ---- */

static uint64_t find_copied(void *ctx, const void *p, int64_t bytes)
{
    const struct gpu_memory *m = ctx;
    for (int i = 0; i < m->ncopied; i++)
        if (m->copied[i].p == p && m->copied[i].bytes >= bytes)
            return m->copied[i].at;
    return 0;
}

static int next_block(struct gpu_memory *m, struct ctr_err *err)
{
    if (m->next < m->nblocks)
        return 0;
    int rc = ctr_array_grow(&m->block, m->nblocks, &m->blocks_cap, sizeof *m->block, err);
    if (rc == 0)
        m->block[m->nblocks++] = (struct gpu_block){ 0 };
    return rc;
}

static int grow_stage(void *ctx, uint8_t **p, int64_t *bytes, struct ctr_err *err)
{
    struct gpu_memory *m = ctx;
    int rc = next_block(m, err);
    if (rc < 0)
        return rc;
    struct gpu_pinned *stage = &m->block[m->next].stage;
    rc = ctr_gpu_pinned(m, stage, *bytes, *p ? stage->bytes : 0, err);
    *p = stage->data;
    *bytes = stage->bytes;
    return rc;
}

struct gpu_device ctr_gpu_memory_device(struct gpu_memory *m)
{
    return (struct gpu_device){ put_table, slot_room, slot_kept, find_copied, grow_stage, m };
}

int ctr_gpu_block(struct gpu_memory *m, int64_t bytes, gpu_ptr *block, struct ctr_err *err)
{
    int rc = next_block(m, err);
    if (rc == 0)
        rc = ctr_gpu_room(m, &m->block[m->next].at, bytes, err);
    if (rc == 0)
        *block = m->block[m->next].at.p;
    return rc;
}

int ctr_gpu_copied(struct gpu_memory *m, const struct gpu_args *a, gpu_ptr block, struct ctr_err *err)
{
    int rc = 0;
    m->next++;
    for (int i = 0; rc == 0 && i < a->nseen; i++) {
        const struct gpu_seen *s = &a->seen[i];
        if (s->passing)
            continue;
        rc = ctr_array_grow(&m->copied, m->ncopied, &m->copied_cap, sizeof *m->copied, err);
        if (rc == 0)
            m->copied[m->ncopied++] = (struct gpu_copied){ s->p, s->bytes, block + (uint64_t)s->at };
    }
    return rc;
}

/* ---- life ---- */

int ctr_gpu_memory_begin(struct gpu_memory *m, struct ctr_err *err)
{
    int rc = 0;
    if (m->beside) { /* no layer has waited for them */
        rc = ctr_gpu_cuda_join(m->cuda, err);
        if (rc == 0)
            rc = ctr_gpu_cuda_wait(m->cuda, err);
    }
    m->beside = false;
    m->ncopied = m->next = 0;
    return rc;
}

static void release(struct gpu_memory *m, struct gpu_mem *of)
{
    ctr_gpu_cuda_release(m->cuda, of->p);
    *of = (struct gpu_mem){ 0 };
}

void ctr_gpu_memory_release(struct gpu_memory *m)
{
    struct gpu_mem *const all[] = { &m->down, &m->scratch, &m->pool, &m->compact };
    struct ctr_err none = { 0 };
    if (!m->cuda)
        return;
    (void)!ctr_gpu_memory_begin(m, &none);
    (void)!ctr_gpu_cuda_wait(m->cuda, &none); /* after an error copies may be under way */
    for (size_t i = 0; i < CTR_COUNT(all); i++)
        release(m, all[i]);
    for (int i = 0; i < m->nblocks; i++)
        release(m, &m->block[i].at);
    for (int i = 0; i < m->nslots; i++) {
        release(m, &m->slot[i].rows);
        release(m, &m->slot[i].data);
    }
}

void ctr_gpu_memory_free(struct gpu_memory *m)
{
    ctr_gpu_memory_release(m);
    for (int i = 0; i < m->nleft; i++)
        release(m, &m->left[i]);
    for (int i = 0; i < m->ntables; i++)
        release(m, &m->table[i].at);
    for (int i = 0; i < m->nblocks; i++)
        ctr_gpu_cuda_unpin(m->cuda, m->block[i].stage.data);
    ctr_gpu_cuda_unpin(m->cuda, m->sizes.data);
    ctr_gpu_cuda_unpin(m->cuda, m->rows.data);
    free(m->block);
    free(m->copied);
    free(m->slot);
    free(m->left);
    free(m->table);
}
