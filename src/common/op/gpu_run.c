/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_run: runs a layer on a device: arguments, launch, results. The pool has the size needed so far: if a result does
 * not fit, the kernel's counter (head) ends above the size, at exactly the size needed, and the kernel runs again.
 *
 * Copies and kernels of a layer are queued without waiting, from and to page-locked memory. The host waits once for
 * results of fixed size and the sizes of the others, and once more if there are others, which are compacted in between.
 */
#include "common/compute/compute.h"
#include "common/op/gpu_code.h"
#include "common/op/gpu_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_POOL = 1 << 20, MOST_BLOCKS = 1024, LEFT_SHARE = 4 };

struct ctr_gpu {
    struct ctr_gpu_opts opts;
    struct ctr_gpu_stats stats;
    struct gpu_cuda *cuda;
    struct gpu_memory memory;
    struct gpu_code code;
    struct gpu_device device; /* memory's, for args */
    struct gpu_running {      /* the layer between start and finish */
        bool live;            /* it has rows */
        struct ctr_gpu_call *call;
        struct gpu_args args;
        struct gpu_module *module;
        struct opd_layer layer;
        gpu_ptr block;
    } run;
};

/* A layer with lower(text), whose texts need 1.5 MiB of a pool of 1 MiB:
 *
 *     ctr_gpu_start    up: the block of gpu_args.c; kernel; places; down: the pool's head, the rows' sizes (queue)
 *     ctr_gpu_finish   wait: head is 1.5 MiB; a pool of that size; up: struct opd_pool alone, with head 0; the rest
 *                      of queue again; wait
 *                      compact: room for `total` bytes; up: where each result goes; kernel; down: the texts; wait
 *                      take_results: from page-locked memory to the columns of the calls
 *
 * The next layer finds the pool large enough. A result that later layers read is in a slot, and is copied down only if
 * the host reads it, too (stays: it does not). */

/* ---- launches ---- */

/* One for each tile that a kernel has, and for each OPD_THREADS rows of the calls of variable size. */
static unsigned blocks_of(const struct ctr_gpu *m)
{
    const struct gpu_args *a = &m->run.args;
    int64_t rows = 1, tiles = m->opts.launch == CTR_GPU_LAYER ? a->first[a->nloops].tile : 0;
    for (int i = 0; i < a->nvariable; i++)
        rows = CTR_MAX(rows, a->call[a->variable[i]].rows);
    for (int g = 0; g < a->nloops; g++)
        tiles = CTR_MAX(tiles, a->first[g + 1].tile - a->first[g].tile);
    return (unsigned)CTR_MIN(CTR_MAX((rows + OPD_THREADS - 1) / OPD_THREADS, tiles), MOST_BLOCKS);
}

_Static_assert(OPD_THREADS % 8 == 0 && OPD_TILE % 8 == 0, "a thread's rows have one bit of a bitmap's bytes in common");
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

static int launch(struct ctr_gpu *m, struct ctr_err *err)
{
    const struct gpu_args *a = &m->run.args;
    const struct opd_layer *l = &m->run.layer;
    struct gpu_module *f = m->run.module;
    const unsigned blocks = blocks_of(m);
    int rc = ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS, err);
    if (rc == 0 && m->opts.launch == CTR_GPU_GRAPH)
        rc = start_graph(m, f, blocks, l, err);
    for (int i = 0; rc == 0 && m->opts.launch != CTR_GPU_GRAPH && i < f->nfunctions; i++) {
        rc = ctr_gpu_cuda_launch(m->cuda, f->function[i], blocks, OPD_THREADS, SHARED_BYTES, l, err);
        m->stats.launches++;
    }
    const unsigned parts = (unsigned)(a->nvariable * a->tiles);
    if (rc == 0 && a->nvariable && a->tiles > 1) {
        rc = ctr_gpu_cuda_launch(m->cuda, f->sums, parts, OPD_THREADS, SHARED_BYTES, l, err);
        m->stats.compactions++;
    }
    if (rc == 0 && a->nvariable) {
        rc = ctr_gpu_cuda_launch(m->cuda, f->places, parts, OPD_THREADS, SHARED_BYTES, l, err);
        m->stats.compactions++;
    }
    return rc < 0 ? rc : ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS_END, err);
}

/* For kernels and copies. */
static int wait(struct ctr_gpu *m, struct ctr_err *err)
{
    int rc = ctr_gpu_cuda_wait(m->cuda, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_between(m->cuda, GPU_KERNELS, GPU_KERNELS_END, &m->stats.kernel_seconds, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_between(m->cuda, GPU_BEGIN, GPU_END, &m->stats.device_seconds, err);
    m->stats.waits++;
    return rc;
}

static struct opd_pool *pool_of(const struct gpu_args *a)
{
    return (struct opd_pool *)(void *)(a->up.data + a->pool_at);
}

/* Queue the kernel behind a copy of `bytes` to `to`, and copies of the rows of all results that the host reads. */
static int queue(struct ctr_gpu *m, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err)
{
    struct gpu_memory *memory = &m->memory;
    const struct gpu_args *a = &m->run.args;
    *pool_of(a) = (struct opd_pool){ 0, (uint64_t)memory->pool.bytes, (uint8_t *)(uintptr_t)memory->pool.p };
    int rc = ctr_gpu_cuda_mark(m->cuda, GPU_BEGIN, err);
    if (rc == 0)
        rc = ctr_gpu_up(memory, to, from, bytes, err);
    if (rc == 0)
        rc = launch(m, err);
    if (rc == 0 && a->nvariable)
        rc = ctr_gpu_down(memory, pool_of(a), m->run.block + (uint64_t)a->pool_at, sizeof(struct opd_pool), err);
    if (rc == 0 && a->nfound)
        rc = ctr_gpu_down(memory, a->up.data + a->found_at, m->run.block + (uint64_t)a->found_at,
                          a->nfound * (int64_t)sizeof(struct opd_found), err);
    if (rc == 0)
        rc = ctr_gpu_down(memory, memory->sizes.data, memory->down.p, a->size[GPU_DOWN], err);
    for (int i = 0; rc == 0 && i < a->n; i++)
        if (a->info[i].rows_bytes)
            rc = ctr_gpu_down(memory, memory->sizes.data + a->info[i].rows_at,
                              memory->slot[a->info[i].from->keep].kept.ok, a->info[i].rows_bytes, err);
    return rc < 0 ? rc : ctr_gpu_cuda_mark(m->cuda, GPU_END, err);
}

/* Until the results fit into the pool, of which only the head is reset by a copy. */
static int wait_for_kernel(struct ctr_gpu *m, struct ctr_err *err)
{
    const struct gpu_args *a = &m->run.args;
    struct opd_pool *pool = pool_of(a);
    int rc = wait(m, err);
    while (rc == 0 && pool->head > pool->size) {
        m->stats.overflows++;
        rc = ctr_gpu_room(&m->memory, &m->memory.pool, (int64_t)pool->head, err);
        if (rc == 0)
            rc = queue(m, m->run.block + (uint64_t)a->pool_at, pool, sizeof *pool, err);
        if (rc == 0)
            rc = wait(m, err);
    }
    m->stats.last_pool_bytes = (int64_t)pool->head;
    m->stats.pool_bytes = CTR_MAX(m->stats.pool_bytes, (int64_t)pool->head);
    return rc;
}

/* ---- results ---- */

static const void *result(const struct ctr_gpu *m, const struct gpu_call *c, const void *ref)
{
    const int64_t at = ctr_gpu_at(ref);
    const struct gpu_slot *keep = c->from->keep ? &m->memory.slot[c->from->keep] : NULL;
    return m->memory.sizes.data + (keep ? c->rows_at + at - (int64_t)keep->kept.ok : at);
}

static struct gpu_call *variable(const struct gpu_args *a, int i)
{
    return &a->info[a->order[a->variable[i]]];
}

/* Of a compacted result: its bytes, a 0, and the ends of its items, or what may be read after a text. */
struct size {
    int64_t bytes, items, ends_at, all;
};
static struct size size_of(const struct ctr_gpu *m, const struct gpu_args *a, int i)
{
    const int64_t *total =
        (const int64_t *)(const void *)(m->memory.sizes.data + ctr_gpu_at(a->total)) + 2 * (ptrdiff_t)i;
    struct size s = { .bytes = total[0], .items = total[1], .ends_at = (total[0] + 63) / 64 * 64 };
    s.all = s.ends_at + (variable(a, i)->d.kind == CTR_LOOP_OF_TEXTS ? (s.items + 1) * 4 + 63 : 64) / 64 * 64;
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
            rc = ctr_gpu_room(&m->memory, &m->memory.slot[c->keep].data, s.all, err);
        *bytes += c->keep ? 0 : s.all;
    }
    return rc < 0 ? rc : ctr_gpu_room(&m->memory, &m->memory.compact, *bytes, err);
}

/* Where each of them goes, on the device and, after the `bytes` of `compact`, on the host. *all: bytes there. */
static void place_rows(struct ctr_gpu *m, const struct gpu_args *a, struct opd_place *place, int64_t bytes,
                       int64_t *all)
{
    int64_t next = 0;
    *all = bytes;
    for (int i = 0; i < a->nvariable; i++) {
        struct gpu_call *c = variable(a, i);
        struct gpu_slot *keep = c->from->keep ? &m->memory.slot[c->from->keep] : NULL;
        const struct size s = size_of(m, a, i);
        const uint64_t at = keep ? keep->data.p : m->memory.compact.p + (uint64_t)next, ends = at + (uint64_t)s.ends_at;
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
static int compact(struct ctr_gpu *m, struct ctr_err *err)
{
    struct gpu_memory *memory = &m->memory;
    const struct gpu_args *a = &m->run.args;
    struct opd_place *place = (struct opd_place *)(void *)(a->up.data + a->place_at);
    int64_t bytes = 0, all = 0;
    int rc = room_for_rows(m, a, &bytes, err);
    if (rc == 0) {
        place_rows(m, a, place, bytes, &all);
        rc = ctr_gpu_pinned(memory, &memory->rows, all + 8, 0, err);
    }
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_BEGIN, err);
    if (rc == 0)
        rc =
            ctr_gpu_up(memory, m->run.block + (uint64_t)a->place_at, place, a->nvariable * (int64_t)sizeof *place, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_launch(m->cuda, m->run.module->compact, blocks_of(m), OPD_THREADS, SHARED_BYTES,
                                 &m->run.layer, err);
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_KERNELS_END, err);
    m->stats.compactions++;
    if (rc == 0)
        rc = ctr_gpu_down(memory, memory->rows.data, memory->compact.p, bytes, err);
    for (int i = 0; rc == 0 && i < a->nvariable; i++) {
        const struct gpu_call *c = variable(a, i);
        if (c->from->keep && !c->from->stays)
            rc = ctr_gpu_down(memory, memory->rows.data + c->data_at, memory->slot[c->from->keep].kept.data,
                              size_of(m, a, i).all, err);
    }
    if (rc == 0)
        rc = ctr_gpu_cuda_mark(m->cuda, GPU_END, err);
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
    const uint8_t *data = m->memory.rows.data + c->data_at;
    const struct ctr_op_device_rows r = { .kind = c->d.kind,
                                          .rows = c->rows,
                                          .limit_bytes = c->from->call ? c->from->call->limit_bytes : 0,
                                          .ok = result(m, c, o->ok),
                                          .bytes = c->from->stays ? NULL : data,
                                          .at = c->from->stays ? NULL : result(m, c, o->row_bytes),
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

/* Of numbers in the order of op_dense_rank. */
static double number_of(uint32_t rank)
{
    const uint32_t bits = rank >> 31 ? rank & 0x7fffffffu : ~rank;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static void take_found(const struct gpu_args *a)
{
    const struct opd_found *o = (const struct opd_found *)(const void *)(a->up.data + a->found_at);
    for (int i = 0; i < a->n; i++) {
        struct ctr_gpu_found *found = a->info[a->order[i]].from->found;
        if (!found)
            continue;
        *found = (struct ctr_gpu_found){ o->unfit, o->low ? number_of(~o->low) : INFINITY,
                                         o->high ? number_of(o->high) : -INFINITY };
        o++;
    }
}

static int take_results(struct ctr_gpu *m, struct ctr_err *err)
{
    struct gpu_args *a = &m->run.args;
    int rc = 0;
    take_found(a);
    for (int i = 0; rc == 0 && i < a->n; i++) {
        const struct gpu_call *c = &a->info[a->order[i]];
        if (c->d.kind == CTR_LOOP_OF_FIXED && !c->from->stays)
            rc = take_fixed(m, c, &a->call[i], err);
        m->stats.stayed += c->from->stays;
    }
    for (int i = 0; rc == 0 && i < a->nvariable; i++)
        if (!variable(a, i)->from->stays || variable(a, i)->from->shape)
            rc = take_rows(m, a, i, err);
    for (int i = 0; rc == 0 && i < a->n; i++)
        if (a->info[i].d.lift)
            rc = take_shape(&a->info[i], err);
    return rc;
}

/* ---- a layer ---- */

/* What it begins with may be more than the device has. */
static int first_pool(struct ctr_gpu *m, struct ctr_err *err)
{
    int64_t bytes = m->opts.pool_bytes;
    int rc = ctr_gpu_room(&m->memory, &m->memory.pool, bytes, err);
    while (rc == CTR_ELARGE && bytes > OPD_ROUND) {
        *err = (struct ctr_err){ 0 };
        rc = ctr_gpu_room(&m->memory, &m->memory.pool, bytes /= 2, err);
    }
    return rc;
}

/* Memory of the host for the rows of results: what is copied back in any case, then the kept results that it reads. */
static int room_for_sizes(struct ctr_gpu *m, struct ctr_err *err)
{
    struct gpu_args *a = &m->run.args;
    int64_t bytes = a->size[GPU_DOWN];
    for (int i = 0; i < a->n; i++) {
        struct gpu_call *c = &a->info[i];
        const struct gpu_kept *k = c->from->keep ? &m->memory.slot[c->from->keep].kept : NULL;
        if (!k || (c->from->stays && !c->from->shape))
            continue;
        c->rows_at = bytes;
        c->rows_bytes = k->kind == CTR_LOOP_OF_FIXED
                            ? (int64_t)(k->out - k->ok) + c->rows * k->width
                            : (int64_t)((c->from->stays ? k->item : k->at) - k->ok) + (c->rows + 1) * 8;
        bytes += (c->rows_bytes + 63) / 64 * 64;
    }
    return ctr_gpu_pinned(&m->memory, &m->memory.sizes, bytes + 8, 0, err);
}

/* Memory for everything but results of variable size. */
static int make_room(struct ctr_gpu *m, struct ctr_err *err)
{
    struct gpu_memory *memory = &m->memory;
    const struct gpu_args *a = &m->run.args;
    int rc = ctr_gpu_block(memory, a->size[GPU_UP], &m->run.block, err);
    if (rc == 0)
        rc = ctr_gpu_room(memory, &memory->down, a->size[GPU_DOWN], err);
    if (rc == 0)
        rc = ctr_gpu_room(memory, &memory->scratch, a->size[GPU_SCRATCH], err);
    if (rc == 0 && a->nvariable && !memory->pool.bytes)
        rc = first_pool(m, err);
    return rc < 0 ? rc : room_for_sizes(m, err);
}

static void set_layer(struct ctr_gpu *m)
{
    const struct gpu_args *a = &m->run.args;
    const gpu_ptr block = m->run.block;
    m->run.layer = (struct opd_layer){ 0 }; /* with its padding, which start_graph compares */
    struct opd_layer *l = &m->run.layer;
    l->call = (const void *)(uintptr_t)(block + (uint64_t)a->calls_at);
    l->first = (const void *)(uintptr_t)(block + (uint64_t)a->first_at);
    l->tile = (const void *)(uintptr_t)(block + (uint64_t)a->tiles_at);
    l->variable = (const void *)(uintptr_t)(block + (uint64_t)a->variable_at);
    l->nvariable = a->nvariable;
    l->tiles = a->tiles;
    l->sum = (void *)(uintptr_t)(m->memory.scratch.p + (uint64_t)ctr_gpu_at(a->sum));
    l->pool = (void *)(uintptr_t)(block + (uint64_t)a->pool_at);
    l->total = (void *)(uintptr_t)(m->memory.down.p + (uint64_t)ctr_gpu_at(a->total));
    l->place = (const void *)(uintptr_t)(block + (uint64_t)a->place_at);
}

/* Columns that were copied beside the layer before must have arrived. */
static int join_copies(struct ctr_gpu *m, struct ctr_err *err)
{
    const bool beside = m->memory.beside;
    m->memory.beside = false;
    return beside ? ctr_gpu_cuda_join(m->cuda, err) : 0;
}

static int start_live(struct ctr_gpu *m, int n, struct ctr_err *err)
{
    struct gpu_running *r = &m->run;
    struct gpu_args *a = &r->args;
    int rc = join_copies(m, err);
    if (rc == 0)
        rc = ctr_gpu_args(a, r->call, n, r->module->loop, r->module->nloops, &m->device, err);
    if (rc == 0)
        rc = make_room(m, err);
    if (rc == 0) {
        const uint64_t base[GPU_AREAS] = { r->block, m->memory.down.p, m->memory.scratch.p, 0 };
        rc = ctr_gpu_args_place(a, base, err);
    }
    if (rc < 0)
        return rc;
    set_layer(m);
    rc = queue(m, r->block, a->up.data, a->up.len, err);
    return rc < 0 ? rc : ctr_gpu_copied(&m->memory, a, r->block, err);
}

int ctr_gpu_begin(struct ctr_gpu *m, struct ctr_err *err)
{
    return ctr_gpu_memory_begin(&m->memory, err);
}

void ctr_gpu_abandon(struct ctr_gpu *m)
{
    ctr_gpu_memory_release(&m->memory);
    ctr_gpu_args_free(&m->run.args);
    free(m->run.call);
    m->run = (struct gpu_running){ .live = false };
}

/* Calls without rows have no results; their loops are in the kernel all the same. */
int ctr_gpu_start(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct ctr_err *err)
{
    struct gpu_running *r = &m->run;
    int live = 0, rc = 0;
    *r = (struct gpu_running){ .call = calloc((size_t)n + 1, sizeof *r->call) };
    m->stats.last_pool_bytes = 0;
    if (!r->call)
        return ctr_fail_nomem(err, (size_t)n * sizeof *r->call);
    for (int i = 0; rc == 0 && i < n; i++)
        if (call[i].rows > 0) {
            r->call[live++] = call[i];
        } else if (call[i].keep) {
            uint64_t none;
            rc = ctr_gpu_slot(&m->memory, call[i].keep, 0, &none, err);
            if (rc == 0)
                m->memory.slot[call[i].keep].kept = (struct gpu_kept){ 0 };
        }
    r->live = live;
    if (rc == 0 && live)
        rc = ctr_gpu_code(&m->code, call, n, &r->module, err);
    if (rc == 0 && live)
        rc = start_live(m, live, err);
    if (rc < 0)
        ctr_gpu_abandon(m);
    return rc;
}

int ctr_gpu_copy(struct ctr_gpu *m, const struct ctr_col *col, const struct ctr_vtype *type, struct ctr_err *err)
{
    struct gpu_memory *memory = &m->memory;
    struct gpu_args a;
    gpu_ptr block = 0;
    int rc = ctr_gpu_args_column(&a, col, type, &m->device, err);
    if (rc == 0 && a.nseen)
        rc = ctr_gpu_block(memory, a.up.len, &block, err);
    if (rc == 0 && a.nseen) {
        memory->beside = true;
        m->stats.copies_up++;
        m->stats.bytes_up += a.up.len;
        rc = ctr_gpu_cuda_up_beside(m->cuda, block, a.up.data, a.up.len, err);
    }
    if (rc == 0 && a.nseen)
        rc = ctr_gpu_copied(memory, &a, block, err);
    ctr_gpu_args_free(&a);
    return rc;
}

int ctr_gpu_finish(struct ctr_gpu *m, struct ctr_err *err)
{
    struct gpu_running *r = &m->run;
    int rc = r->live ? wait_for_kernel(m, err) : 0;
    if (rc == 0 && r->args.nvariable)
        rc = compact(m, err);
    if (rc == 0)
        rc = take_results(m, err);
    if (rc < 0) { /* what fewer rows take may be shared out otherwise */
        ctr_gpu_abandon(m);
        return rc;
    }
    ctr_gpu_args_free(&r->args);
    free(r->call);
    *r = (struct gpu_running){ .live = false };
    return 0;
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

int ctr_gpu_left(struct ctr_gpu *m, int batch, int which, int64_t bytes, uint64_t *at, struct ctr_err *err)
{
    struct gpu_memory *memory = &m->memory;
    const int number = which * CTR_GPU_LEFT + batch;
    int64_t all = bytes;
    int rc = 0;
    *at = 0;
    while (rc == 0 && memory->nleft <= number) {
        rc = ctr_array_grow(&memory->left, memory->nleft, &memory->left_cap, sizeof *memory->left, err);
        if (rc == 0)
            memory->left[memory->nleft++] = (struct gpu_mem){ 0 };
    }
    if (rc < 0)
        return rc;
    for (int i = batch; i < memory->nleft; i += CTR_GPU_LEFT)
        all += i == number ? 0 : memory->left[i].bytes;
    struct gpu_mem *of = &memory->left[number];
    const int64_t room = of->bytes < bytes ? CTR_MIN(ctr_gpu_memory(m), ctr_gpu_cuda_memory(m->cuda)) : INT64_MAX;
    if (all > room / LEFT_SHARE / CTR_GPU_LEFT)
        return ctr_fail(err, CTR_ELARGE, "what is left takes too much of the GPU's memory from the layers");
    rc = ctr_gpu_room(memory, of, bytes, err);
    *at = rc ? 0 : of->p;
    return rc;
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
    *out = NULL;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->opts = *opts;
    if (pool && ctr_parse_i64(pool, strlen(pool), &bytes) && bytes > 0)
        m->opts.pool_bytes = bytes;
    int rc = ctr_gpu_cuda_open(&m->cuda, opts->device ? ctr_dev_number_of(opts->device) : -1, err);
    if (rc < 0) {
        ctr_gpu_free(m);
        return rc;
    }
    if (!m->opts.pool_bytes)
        m->opts.pool_bytes = CTR_MIN(FIRST_POOL, CTR_MAX(ctr_gpu_memory(m) / 8, 1));
    snprintf(text, sizeof text, "device: %s (%s)", ctr_gpu_cuda_name(m->cuda), ctr_gpu_cuda_arch(m->cuda));
    m->memory = (struct gpu_memory){ .cuda = m->cuda, .stats = &m->stats, .most_bytes = opts->memory_bytes };
    m->device = ctr_gpu_memory_device(&m->memory);
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
    if (m->cuda) {
        ctr_gpu_abandon(m);
        ctr_gpu_code_free(&m->code);
        ctr_gpu_memory_free(&m->memory);
    }
    ctr_gpu_cuda_free(m->cuda);
    free(m);
}

const struct ctr_gpu_stats *ctr_gpu_stats(const struct ctr_gpu *m)
{
    return &m->stats;
}
