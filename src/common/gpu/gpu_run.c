/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_run: runs a layer on a device: source, code, arguments, launch, results. The pool has the size needed so far: if
 * a result does not fit, the kernel's counter (head) ends above the size, at exactly the size needed, and the kernel
 * runs again.
 *
 * A layer's copies and kernels are queued without waiting, from and to page-locked memory. The host waits once for
 * results of fixed size and the sizes of the others, and once more if there are others, which are compacted in between.
 * A block of the device's memory holds what a layer copied; later layers of the batch read columns there. */
#include "common/compute/compute.h"
#include "common/gpu/gpu_args.h"
#include "common/gpu/gpu_code.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST_POOL = 1 << 20, MOST_BLOCKS = 1024 };

struct memory {
    gpu_ptr p;
    int64_t bytes;
};

struct pinned {
    uint8_t *data;
    int64_t bytes;
};

struct ctr_gpu {
    struct ctr_gpu_opts opts;
    struct ctr_gpu_stats stats;
    struct gpu_cuda *cuda;
    struct memory down, scratch, pool, compact;
    struct memory *block; /* one for each layer of the batch */
    int nblocks, blocks_cap, block_at;
    struct copied {
        const void *p;
        int64_t bytes;
        uint64_t at;
    } * copied; /* the columns in them */
    int ncopied, copied_cap;
    struct pinned stage, sizes, rows; /* copied to the device; from it: first, and after compaction */
    struct slot {
        struct memory rows, data; /* presence and sizes; bytes of results of variable size */
        struct gpu_kept kept;
    } * slot; /* from 1 on: slot[0] is unused */
    int nslots, slots_cap;
    struct gpu_code code;
    struct table {
        const void *from;
        int64_t bytes;
        struct memory at;
    } * resident;
    int nresident, resident_cap;
};

/* ---- memory ---- */

static int64_t held(const struct ctr_gpu *m)
{
    int64_t bytes = m->down.bytes + m->scratch.bytes + m->pool.bytes + m->compact.bytes;
    for (int i = 0; i < m->nblocks; i++)
        bytes += m->block[i].bytes;
    for (int i = 0; i < m->nresident; i++)
        bytes += m->resident[i].at.bytes;
    for (int i = 0; i < m->nslots; i++)
        bytes += m->slot[i].rows.bytes + m->slot[i].data.bytes;
    return bytes;
}

static int room(struct ctr_gpu *m, struct memory *of, int64_t bytes, struct ctr_err *err)
{
    const int64_t want = bytes + bytes / 4;
    int rc;
    if (of->bytes >= bytes)
        return 0;
    if (m->opts.memory_bytes && held(m) - of->bytes + bytes > m->opts.memory_bytes)
        return ctr_fail(err, CTR_ELARGE, "a layer takes %s of the GPU's memory, and --device-memory allows %s",
                        ctr_size_text_beyond((uint64_t)(held(m) - of->bytes + bytes), (uint64_t)m->opts.memory_bytes).s,
                        ctr_size_text((uint64_t)m->opts.memory_bytes).s);
    ctr_gpu_cuda_release(m->cuda, of->p);
    *of = (struct memory){ 0 };
    rc = ctr_gpu_cuda_alloc(m->cuda, &of->p, m->opts.memory_bytes ? bytes : want, err);
    if (rc == CTR_ENOMEM) /* fewer rows may fit */
        rc = err->code = CTR_ELARGE;
    of->bytes = rc < 0 ? 0 : m->opts.memory_bytes ? bytes : want;
    return rc;
}

/* What it begins with may be more than the device has. */
static int first_pool(struct ctr_gpu *m, struct ctr_err *err)
{
    int64_t bytes = m->opts.pool_bytes;
    int rc = room(m, &m->pool, bytes, err);
    while (rc == CTR_ELARGE && bytes > OPD_ROUND) {
        *err = (struct ctr_err){ 0 };
        rc = room(m, &m->pool, bytes /= 2, err);
    }
    return rc;
}

/* Room for `bytes`; keep: of them, those in use. */
static int pin(struct ctr_gpu *m, struct pinned *of, int64_t bytes, int64_t keep, struct ctr_err *err)
{
    struct pinned p = { NULL, bytes + bytes / 4 };
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

static void forget(struct ctr_gpu *m, struct memory *of)
{
    ctr_gpu_cuda_release(m->cuda, of->p);
    *of = (struct memory){ 0 };
}

static void release(struct ctr_gpu *m)
{
    struct memory *const all[] = { &m->down, &m->scratch, &m->pool, &m->compact };
    struct ctr_err none = { 0 };
    if (!m->cuda)
        return;
    (void)!ctr_gpu_cuda_wait(m->cuda, &none); /* after an error copies may be under way */
    for (size_t i = 0; i < CTR_COUNT(all); i++)
        forget(m, all[i]);
    for (int i = 0; i < m->nblocks; i++)
        forget(m, &m->block[i]);
    for (int i = 0; i < m->nslots; i++) {
        forget(m, &m->slot[i].rows);
        forget(m, &m->slot[i].data);
    }
    m->ncopied = 0;
}

/* ---- launches ---- */

static unsigned blocks_of(const struct gpu_args *a)
{
    int64_t rows = 1;
    for (int i = 0; i < a->n; i++)
        rows = CTR_MAX(rows, a->call[i].rows);
    return (unsigned)CTR_MIN((rows + OPD_THREADS - 1) / OPD_THREADS, MOST_BLOCKS);
}

enum { SHARED_BYTES = (OPD_THREADS + 18) * 8 /* as opd_prefix needs */ };

/* The graph is that of the launch before, where it began with the same. */
static int start_graph(struct ctr_gpu *m, struct gpu_module *f, unsigned blocks, const struct opd_layer *l,
                       struct ctr_err *err)
{
    struct gpu_node *node;
    int rc = 0;
    if (!f->graph || f->blocks != blocks || memcmp(&f->last, l, sizeof *l) != 0) {
        ctr_gpu_cuda_graph_free(m->cuda, f->graph);
        f->graph = NULL;
        node = calloc((size_t)f->nfunctions, sizeof *node);
        if (!node)
            return ctr_fail_nomem(err, (size_t)f->nfunctions * sizeof *node);
        for (int i = 0; i < f->nfunctions; i++)
            node[i] = (struct gpu_node){ f->function[i], blocks, OPD_THREADS, SHARED_BYTES, l };
        rc = ctr_gpu_cuda_graph(m->cuda, node, f->nfunctions, &f->graph, err);
        free(node);
        f->blocks = blocks;
        f->last = *l;
    }
    m->stats.launches++;
    return rc < 0 ? rc : ctr_gpu_cuda_graph_launch(m->cuda, f->graph, err);
}

static int start(struct ctr_gpu *m, const struct gpu_args *a, struct gpu_module *f, const struct opd_layer *l,
                 struct ctr_err *err)
{
    const unsigned blocks = blocks_of(a);
    int rc = ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS, err);
    if (rc == 0 && m->opts.launch == CTR_GPU_GRAPH)
        rc = start_graph(m, f, blocks, l, err);
    for (int i = 0; rc == 0 && m->opts.launch != CTR_GPU_GRAPH && i < f->nfunctions; i++) {
        rc = ctr_gpu_cuda_launch(m->cuda, f->function[i], blocks, OPD_THREADS, SHARED_BYTES, l, err);
        m->stats.launches++;
    }
    if (rc == 0 && a->nvariable) {
        rc = ctr_gpu_cuda_launch(m->cuda, f->places, (unsigned)a->nvariable, OPD_THREADS, SHARED_BYTES, l, err);
        m->stats.compactions++;
    }
    return rc < 0 ? rc : ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS_END, err);
}

/* For kernels and copies. */
static int wait(struct ctr_gpu *m, struct ctr_err *err)
{
    int rc = ctr_gpu_cuda_mark(m->cuda, GPU_END, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_wait(m->cuda, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_between(m->cuda, GPU_KERNELS, GPU_KERNELS_END, &m->stats.kernel_seconds, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_between(m->cuda, GPU_BEGIN, GPU_END, &m->stats.device_seconds, err);
    m->stats.waits++;
    return rc;
}

static int down(struct ctr_gpu *m, void *to, gpu_ptr from, int64_t bytes, struct ctr_err *err)
{
    m->stats.copies_down += bytes > 0;
    m->stats.bytes_down += bytes;
    return ctr_gpu_cuda_down(m->cuda, to, from, bytes, err);
}

static int up(struct ctr_gpu *m, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err)
{
    m->stats.copies_up += bytes > 0;
    m->stats.bytes_up += bytes;
    return ctr_gpu_cuda_up(m->cuda, to, from, bytes, err);
}

/* Copy the part of a kept result that has an entry a row. */
static int down_rows(struct ctr_gpu *m, const struct gpu_call *c, struct ctr_err *err)
{
    return c->rows_bytes ? down(m, m->sizes.data + c->rows_at, m->slot[c->from->keep].kept.ok, c->rows_bytes, err) : 0;
}

/* Run the kernel until its results fit into the pool; then `sizes` has the rows of all results that the host reads. To
 * reset the pool, only its head is copied. */
static int run_kernel(struct ctr_gpu *m, struct gpu_args *a, gpu_ptr block, struct gpu_module *f,
                      const struct opd_layer *l, struct ctr_err *err)
{
    struct opd_pool *pool = (struct opd_pool *)(void *)(a->up.data + a->pool_at);
    int64_t bytes = a->up.len;
    gpu_ptr to = block;
    const uint8_t *from = a->up.data;
    int rc = 0;
    for (bool again = true; rc == 0 && again;) {
        *pool = (struct opd_pool){ 0, (uint64_t)m->pool.bytes, (uint8_t *)(uintptr_t)m->pool.p };
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_BEGIN, err);
        if (rc == 0)
            rc = up(m, to, from, bytes, err);
        if (rc == 0)
            rc = start(m, a, f, l, err);
        if (rc == 0 && a->nvariable)
            rc = down(m, pool, block + (uint64_t)a->pool_at, sizeof *pool, err);
        if (rc == 0)
            rc = down(m, m->sizes.data, m->down.p, a->size[GPU_DOWN], err);
        for (int i = 0; rc == 0 && i < a->n; i++)
            rc = down_rows(m, &a->info[i], err);
        if (rc == 0)
            rc = wait(m, err);
        again = rc == 0 && pool->head > pool->size;
        if (again) {
            m->stats.overflows++;
            rc = room(m, &m->pool, (int64_t)pool->head, err);
        }
        to = block + (uint64_t)a->pool_at;
        from = (const uint8_t *)pool;
        bytes = sizeof *pool;
    }
    m->stats.last_pool_bytes = (int64_t)pool->head;
    m->stats.pool_bytes = CTR_MAX(m->stats.pool_bytes, (int64_t)pool->head);
    return rc;
}

/* ---- results ---- */

static const void *result(const struct ctr_gpu *m, const struct gpu_call *c, const void *ref)
{
    const int64_t at = ctr_gpu_at(ref);
    return m->sizes.data + (c->from->keep ? c->rows_at + at - (int64_t)m->slot[c->from->keep].kept.ok : at);
}

static struct gpu_call *variable(const struct gpu_args *a, int i)
{
    return &a->info[a->order[a->variable[i]]];
}

/* Of a compacted result: its bytes, a 0, and the ends of its items. */
struct size {
    int64_t bytes, items, ends_at, all;
};
static struct size size_of(const struct ctr_gpu *m, const struct gpu_args *a, int i)
{
    const int64_t *total = (const int64_t *)(const void *)(m->sizes.data + ctr_gpu_at(a->total)) + 2 * (ptrdiff_t)i;
    struct size s = { .bytes = total[0], .items = total[1], .ends_at = (total[0] + 63) / 64 * 64 };
    s.all = s.ends_at + (variable(a, i)->d.kind == CTR_LOOP_OF_TEXTS ? (s.items + 1) * 4 + 63 : 63) / 64 * 64;
    return s;
}

/* Room for the compacted results: in their slots, and for the others in `compact`, of which *bytes are used. */
static int room_for_rows(struct ctr_gpu *m, const struct gpu_args *a, int64_t *bytes, struct ctr_err *err)
{
    int rc = 0;
    *bytes = 0;
    for (int i = 0; rc == 0 && i < a->nvariable; i++) {
        const struct ctr_gpu_call *c = variable(a, i)->from;
        const struct size s = size_of(m, a, i);
        rc = s.bytes > INT32_MAX ? ctr_op_too_large(s.bytes, INT32_MAX, err)
                                 : ctr_op_device_fits(variable(a, i)->d.kind, s.bytes, s.items,
                                                      c->call ? c->call->limit_bytes : 0, err);
        if (rc == 0 && c->keep)
            rc = room(m, &m->slot[c->keep].data, s.all, err);
        *bytes += c->keep ? 0 : s.all;
    }
    return rc < 0 ? rc : room(m, &m->compact, *bytes, err);
}

/* Where each of them goes, on the device and, after the `bytes` of `compact`, on the host. *all: bytes there. */
static void place_rows(struct ctr_gpu *m, const struct gpu_args *a, struct opd_place *place, int64_t bytes,
                       int64_t *all)
{
    int64_t next = 0;
    *all = bytes;
    for (int i = 0; i < a->nvariable; i++) {
        struct gpu_call *c = variable(a, i);
        struct slot *keep = c->from->keep ? &m->slot[c->from->keep] : NULL;
        const struct size s = size_of(m, a, i);
        const uint64_t at = keep ? keep->data.p : m->compact.p + (uint64_t)next, ends = at + (uint64_t)s.ends_at;
        const bool has_ends = c->d.kind == CTR_LOOP_OF_TEXTS;
        place[i] = (struct opd_place){ (uint8_t *)(uintptr_t)at, has_ends ? (int32_t *)(uintptr_t)(ends + 4) : NULL };
        c->data_at = keep ? *all : next;
        next += keep ? 0 : s.all;
        *all += keep && !c->from->stays ? s.all : 0;
        if (keep) {
            keep->kept.data = at;
            keep->kept.ends = has_ends ? ends : 0;
            keep->kept.items = s.items;
        }
    }
}

/* Results of variable size: to their places, and to `rows` of the host. */
static int compact(struct ctr_gpu *m, struct gpu_args *a, gpu_ptr block, const struct gpu_module *f,
                   const struct opd_layer *l, struct ctr_err *err)
{
    struct opd_place *place = (struct opd_place *)(void *)(a->up.data + a->place_at);
    int64_t bytes = 0, all = 0;
    int rc = room_for_rows(m, a, &bytes, err);
    if (rc == 0) {
        place_rows(m, a, place, bytes, &all);
        rc = pin(m, &m->rows, all + 8, 0, err);
    }
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_BEGIN, err);
    if (rc == 0)
        rc = up(m, block + (uint64_t)a->place_at, place, a->nvariable * (int64_t)sizeof *place, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_launch(m->cuda, f->compact, blocks_of(a), OPD_THREADS, SHARED_BYTES, l, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS_END, err);
    m->stats.compactions++;
    if (rc == 0)
        rc = down(m, m->rows.data, m->compact.p, bytes, err);
    for (int i = 0; rc == 0 && i < a->nvariable; i++) {
        const struct gpu_call *c = variable(a, i);
        const struct size s = size_of(m, a, i);
        if (c->from->keep && !c->from->stays)
            rc = down(m, m->rows.data + c->data_at, m->slot[c->from->keep].kept.data, s.all, err);
    }
    return rc < 0 ? rc : wait(m, err);
}

static struct ctr_colbuf *out_of(const struct gpu_call *c)
{
    return c->d.lift ? c->from->out->item : c->from->out;
}

static int take_fixed(const struct ctr_gpu *m, const struct gpu_call *c, const struct opd_call *o, struct ctr_err *err)
{
    return ctr_op_device_fixed(out_of(c), result(m, c, o->out), result(m, c, o->ok), c->rows, err);
}

static int take_rows(const struct ctr_gpu *m, const struct gpu_args *a, int i, struct ctr_err *err)
{
    const struct gpu_call *c = variable(a, i);
    const struct opd_call *o = &a->call[a->variable[i]];
    const uint8_t *data = m->rows.data + c->data_at;
    const struct ctr_op_device_rows r = { .kind = c->d.kind,
                                          .rows = c->rows,
                                          .limit_bytes = c->from->call ? c->from->call->limit_bytes : 0,
                                          .ok = result(m, c, o->ok),
                                          .bytes = data,
                                          .at = result(m, c, o->row_bytes),
                                          .item = result(m, c, o->row_items),
                                          .end = (const int32_t *)(const void *)(data + size_of(m, a, i).ends_at + 4) };
    return ctr_op_device_rows(out_of(c), &r, err);
}

/* A lifted call has the shape of its list. */
static int take_shape(struct gpu_call *c, struct ctr_err *err)
{
    const struct ctr_col *list = c->from->col[0];
    return ctr_op_device_shape(c->from->out, list->dict ? ctr_colbuf_view(&c->plain[0]) : list, c->from->rows, err);
}

static int take_results(struct ctr_gpu *m, struct gpu_args *a, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < a->n; i++) {
        const struct gpu_call *c = &a->info[a->order[i]];
        if (c->d.kind == CTR_LOOP_OF_FIXED && !c->from->stays)
            rc = take_fixed(m, c, &a->call[i], err);
        m->stats.stayed += c->from->stays;
    }
    for (int i = 0; rc == 0 && i < a->nvariable; i++)
        if (!variable(a, i)->from->stays)
            rc = take_rows(m, a, i, err);
    for (int i = 0; rc == 0 && i < a->n; i++)
        if (a->info[i].d.lift)
            rc = take_shape(&a->info[i], err);
    return rc;
}

/* ---- a layer ---- */

/* The next block of the batch. */
static int next_block(struct ctr_gpu *m, int64_t bytes, gpu_ptr *block, struct ctr_err *err)
{
    int rc = 0;
    if (m->block_at == m->nblocks) {
        rc = ctr_array_grow(&m->block, m->nblocks, &m->blocks_cap, sizeof *m->block, err);
        if (rc == 0)
            m->block[m->nblocks++] = (struct memory){ 0 };
    }
    if (rc == 0)
        rc = room(m, &m->block[m->block_at], bytes, err);
    if (rc == 0)
        *block = m->block[m->block_at++].p;
    return rc;
}

/* Memory of the host for the rows of results: what is copied back in any case, then the kept results that it reads. */
static int room_for_sizes(struct ctr_gpu *m, struct gpu_args *a, struct ctr_err *err)
{
    int64_t bytes = a->size[GPU_DOWN];
    for (int i = 0; i < a->n; i++) {
        struct gpu_call *c = &a->info[i];
        const struct gpu_kept *k = c->from->keep ? &m->slot[c->from->keep].kept : NULL;
        if (!k || c->from->stays)
            continue;
        c->rows_at = bytes;
        c->rows_bytes = k->kind == CTR_LOOP_OF_FIXED ? (int64_t)(k->out - k->ok) + c->rows * k->width
                                                     : (int64_t)(k->item - k->ok) + (c->rows + 1) * 8;
        bytes += (c->rows_bytes + 63) / 64 * 64;
    }
    return pin(m, &m->sizes, bytes + 8, 0, err);
}

/* Later layers of the batch find the columns of this one. */
static int note_copied(struct ctr_gpu *m, const struct gpu_args *a, gpu_ptr block, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < a->nseen; i++) {
        if (a->seen[i].passing)
            continue;
        rc = ctr_array_grow(&m->copied, m->ncopied, &m->copied_cap, sizeof *m->copied, err);
        if (rc == 0)
            m->copied[m->ncopied++] =
                (struct copied){ a->seen[i].p, a->seen[i].bytes, block + (uint64_t)a->seen[i].at };
    }
    return rc;
}

static int run_args(struct ctr_gpu *m, struct gpu_args *a, struct gpu_module *f, struct ctr_err *err)
{
    struct opd_layer l = { 0 };
    gpu_ptr block = 0;
    int rc = next_block(m, a->size[GPU_UP], &block, err);
    if (rc == 0)
        rc = room(m, &m->down, a->size[GPU_DOWN], err);
    if (rc == 0)
        rc = room(m, &m->scratch, a->size[GPU_SCRATCH], err);
    if (rc == 0 && a->nvariable && !m->pool.bytes)
        rc = first_pool(m, err);
    if (rc == 0)
        rc = room_for_sizes(m, a, err);
    if (rc == 0) {
        const uint64_t base[GPU_AREAS] = { block, m->down.p, m->scratch.p, 0 };
        rc = ctr_gpu_args_place(a, base, err);
    }
    l.call = (const void *)(uintptr_t)(block + (uint64_t)a->calls_at);
    l.first = (const void *)(uintptr_t)(block + (uint64_t)a->first_at);
    l.variable = (const void *)(uintptr_t)(block + (uint64_t)a->variable_at);
    l.nvariable = a->nvariable;
    l.pool = (void *)(uintptr_t)(block + (uint64_t)a->pool_at);
    l.total = (void *)(uintptr_t)(m->down.p + (uint64_t)ctr_gpu_at(a->total));
    l.place = (const void *)(uintptr_t)(block + (uint64_t)a->place_at);
    if (rc == 0)
        rc = run_kernel(m, a, block, f, &l, err);
    if (rc == 0)
        rc = note_copied(m, a, block, err);
    if (rc == 0 && a->nvariable)
        rc = compact(m, a, block, f, &l, err);
    return rc < 0 ? rc : take_results(m, a, err);
}

static int put_table(void *ctx, const void *table, int64_t bytes, uint64_t *at, struct ctr_err *err)
{
    struct ctr_gpu *m = ctx;
    struct table t = { table, bytes, { 0 } };
    for (int i = 0; i < m->nresident; i++)
        if (m->resident[i].from == table && m->resident[i].bytes == bytes) {
            *at = m->resident[i].at.p;
            return 0;
        }
    int rc = ctr_array_grow(&m->resident, m->nresident, &m->resident_cap, sizeof *m->resident, err);
    if (rc == 0)
        rc = room(m, &t.at, bytes, err);
    if (rc == 0)
        m->resident[m->nresident++] = t;
    *at = t.at.p;
    if (rc == 0)
        rc = up(m, t.at.p, table, bytes, err);
    return rc < 0 ? rc : ctr_gpu_cuda_wait(m->cuda, err);
}

static int slot_room(void *ctx, int slot, int64_t bytes, uint64_t *at, struct ctr_err *err)
{
    struct ctr_gpu *m = ctx;
    int rc = 0;
    while (rc == 0 && m->nslots <= slot) {
        rc = ctr_array_grow(&m->slot, m->nslots, &m->slots_cap, sizeof *m->slot, err);
        if (rc == 0)
            m->slot[m->nslots++] = (struct slot){ 0 };
    }
    if (rc == 0)
        rc = room(m, &m->slot[slot].rows, bytes, err);
    *at = rc ? 0 : m->slot[slot].rows.p;
    return rc;
}

static struct gpu_kept *slot_kept(void *ctx, int slot)
{
    return &((struct ctr_gpu *)ctx)->slot[slot].kept;
}

static uint64_t find_copied(void *ctx, const void *p, int64_t bytes)
{
    const struct ctr_gpu *m = ctx;
    for (int i = 0; i < m->ncopied; i++)
        if (m->copied[i].p == p && m->copied[i].bytes >= bytes)
            return m->copied[i].at;
    return 0;
}

static int grow_stage(void *ctx, uint8_t **p, int64_t *bytes, struct ctr_err *err)
{
    struct ctr_gpu *m = ctx;
    int rc = pin(m, &m->stage, *bytes, *p ? m->stage.bytes : 0, err);
    *p = m->stage.data;
    *bytes = m->stage.bytes;
    return rc;
}

/* Calls without rows have no results; their loops are in the kernel all the same. */
static int run_live(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct gpu_module *f,
                    struct ctr_err *err)
{
    const struct gpu_device device = { put_table, slot_room, slot_kept, find_copied, grow_stage, m };
    struct gpu_args a = { 0 };
    int rc = ctr_gpu_args(&a, call, n, f->loop, f->nloops, &device, err);
    if (rc == 0)
        rc = run_args(m, &a, f, err);
    ctr_gpu_args_free(&a);
    if (rc == CTR_ELARGE) /* what fewer rows take may be shared out otherwise */
        release(m);
    return rc;
}

void ctr_gpu_begin(struct ctr_gpu *m)
{
    m->ncopied = m->block_at = 0;
}

int ctr_gpu_run(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct ctr_err *err)
{
    struct ctr_gpu_call *some = calloc((size_t)n + 1, sizeof *some);
    struct gpu_module *f = NULL;
    int live = 0, rc = some ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *some);
    for (int i = 0; rc == 0 && i < n; i++)
        if (call[i].rows > 0) {
            some[live++] = call[i];
        } else if (call[i].keep) {
            uint64_t none;
            rc = slot_room(m, call[i].keep, 0, &none, err);
            if (rc == 0)
                m->slot[call[i].keep].kept = (struct gpu_kept){ 0 };
        }
    m->stats.last_pool_bytes = 0;
    if (rc == 0 && live)
        rc = ctr_gpu_code(&m->code, call, n, &f, err);
    if (rc == 0 && live)
        rc = run_live(m, some, live, f, err);
    free(some);
    return rc;
}

int ctr_gpu_prepare(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct ctr_err *err)
{
    struct gpu_module *f;
    m->stats.last_pool_bytes = 0;
    return n ? ctr_gpu_code(&m->code, call, n, &f, err) : 0;
}

/* ---- life ---- */

const char *ctr_gpu_refuses(const struct ctr_gpu_call *c)
{
    struct ctr_op_device d;
    uint64_t param[CTR_OP_DEVICE_PARAM];
    return ctr_gpu_describe(c, param, &d);
}

int ctr_gpu_launch_of(const char *word, enum ctr_gpu_launch *launch, struct ctr_err *err)
{
    static const char *const words[] = { [CTR_GPU_LAYER] = "meta", [CTR_GPU_GRAPH] = "graph", [CTR_GPU_EACH] = "each" };
    for (size_t i = 0; i < CTR_COUNT(words); i++)
        if (!strcmp(word, words[i])) {
            *launch = (enum ctr_gpu_launch)i;
            return 0;
        }
    return ctr_fail(err, CTR_EUSAGE, "launches are meta, graph or each, not '%s'", word);
}

int64_t ctr_gpu_memory(const struct ctr_gpu *m)
{
    return m->opts.memory_bytes ? m->opts.memory_bytes : ctr_gpu_cuda_memory(m->cuda);
}

int ctr_gpu_open(struct ctr_gpu **out, const struct ctr_gpu_opts *opts, struct ctr_err *err)
{
    const char *pool = getenv("CTR_GPU_POOL");
    struct ctr_gpu *m = calloc(1, sizeof *m);
    char text[192];
    int64_t bytes;
    int rc;
    *out = NULL;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->opts = *opts;
    if (pool && ctr_parse_i64(pool, strlen(pool), &bytes) && bytes > 0)
        m->opts.pool_bytes = bytes;
    if (!m->opts.pool_bytes)
        m->opts.pool_bytes = opts->memory_bytes ? CTR_MIN(FIRST_POOL, CTR_MAX(opts->memory_bytes / 8, 1)) : FIRST_POOL;
    rc = ctr_gpu_cuda_open(&m->cuda, opts->device ? ctr_dev_number_of(opts->device) : -1, err);
    if (rc < 0) {
        ctr_gpu_free(m);
        return rc;
    }
    snprintf(text, sizeof text, "device: %s (%s)", ctr_gpu_cuda_name(m->cuda), ctr_gpu_cuda_arch(m->cuda));
    m->code = (struct gpu_code){ .cuda = m->cuda, .opts = &m->opts, .stats = &m->stats };
    if (opts->debug)
        opts->debug(opts->ctx, text);
    *out = m;
    return 0;
}

void ctr_gpu_free(struct ctr_gpu *m)
{
    if (!m)
        return;
    release(m);
    ctr_gpu_code_free(&m->code);
    for (int i = 0; i < m->nresident; i++)
        ctr_gpu_cuda_release(m->cuda, m->resident[i].at.p);
    free(m->resident);
    free(m->slot);
    free(m->block);
    free(m->copied);
    struct pinned *const pinned[] = { &m->stage, &m->sizes, &m->rows };
    for (size_t i = 0; m->cuda && i < CTR_COUNT(pinned); i++)
        ctr_gpu_cuda_unpin(m->cuda, pinned[i]->data);
    ctr_gpu_cuda_free(m->cuda);
    free(m);
}

const struct ctr_gpu_stats *ctr_gpu_stats(const struct ctr_gpu *m)
{
    return &m->stats;
}
