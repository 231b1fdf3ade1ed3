/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_gpu: the nodes of a plan that run on a GPU, one kernel a layer (common/op). Invariant: each of them gives the
 * bytes that the CPU would, so that no result depends on where a node ran.
 *
 * A result that later nodes on the GPU read stays there, in a slot until the layer of its last reader; results whose
 * lives do not overlap share slots. It comes to the host only if something there reads it.
 *
 * What a learner on the same GPU reads is left there, in buffers that batches take in turn: rows of hashes of keys,
 * rows of numbers, the hashes of lists' items. Numbers run on the GPU for that alone. A batch for which there is no
 * room, or that has a value that must not be there, runs again with nothing left. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/op/gpu.h"
#include "common/plan/program.h"
#include "common/stream/stream.h"

enum { MOST_ARGS = 8 };
enum { LEFT_KEYS, LEFT_NUMBERS, LEFT_LISTS }; /* buffers of a batch */

struct plan_gpu {
    struct ctr_gpu *device;
    struct ctr_gpu_opts opts;
    int n; /* calls of the layer that runs */
    struct ctr_gpu_stats before;
    struct ctr_gpu_call *call; /* with their nodes and types of keys */
    struct plan_node **node;
    struct ctr_vtype *type;
    int *from;             /* slots of arguments, MOST_ARGS a call */
    struct gpu_stay {      /* of each node's result */
        int slot;          /* 0: it comes to the host alone */
        int last;          /* layer of its last reader on the GPU */
        bool host;         /* the host reads it, too */
        bool shape;        /* the host reads where its lists begin and end */
        bool unless_left;  /* the host reads it for numbers that are not left */
    } * stay;              /* by node; NULL until the first batch */
    struct gpu_left {      /* what is left on the GPU */
        struct gpu_place { /* of a node's result: the buffer from 1 on, 0: none, and its place in a row */
            int buffer, column;
        } * place;                   /* by node; NULL: nothing is left */
        int *number;                 /* the nodes of numbers */
        int n[LEFT_LISTS];           /* values of a row, by buffer; those of lists follow */
        int batches, batch;          /* that take turns; this one's turn */
        bool on, unfit;              /* this batch leaves what it can; and cannot */
        int64_t tried, again;        /* batches that were to leave it; those that ran again */
        uint64_t *at;                /* by buffer */
        struct ctr_gpu_found *found; /* by number, then by list */
        double *low, *high;
        struct ctr_left batch_left;
    } left;
    struct gpu_layer {
        int64_t batches;
        struct ctr_gpu_stats took; /* what it added to those of the device */
    } * layer;                     /* one each */
};

/* Nodes a = lower(t), b = words(a), c = sort(b) and keys(c), each a layer, all on the GPU:
 *
 *     layer   node   last reader   slot   free_from after it, by slot
 *     1       a      2             1      1: 3
 *     2       b      3             2      1: 3, 2: 4
 *     3       c      4             1      1: 5, 2: 4
 *     4       keys   none          0      it comes to the host
 *
 * a, b and c stay: a column without values stands for them on the host (node->absent). If an operator on the CPU read
 * b, too, b would be in its slot and be copied down (stay.host). */

/* Of `feature a`, `feature tags`, a list, and `dense price` a batch of n rows leaves, as place[node] says:
 *
 *     node    buffer, column                                      what the host has of it
 *     a       1, 0    n hashes; with more such features in turn   nothing (absent)
 *     price   2, 0    n floats, likewise                          nothing; its range (found)
 *     tags    3, 0    a hash an item                              where each list begins, and which are null
 *
 * With 3 batches at a time the next two have such buffers of their own, and the fourth those of the first again. */

/* ---- which nodes ---- */

static struct ctr_vtype keys_type(const struct plan_graph *g, const struct plan_node *n)
{
    struct ctr_vtype type = g->node[n->arg[0]].type;
    type.aligned = n->group;
    return type;
}

const char *ctr_node_refused(const struct plan_graph *g, const struct plan_node *n)
{
    struct ctr_vtype type;
    switch (n->kind) { /* LCOV_EXCL_BR_LINE there are no others */
    case NODE_CALL:
        return n->fused ? "runs as a part of its keys" : ctr_gpu_refuses(&(struct ctr_gpu_call){ .call = &n->call });
    case NODE_KEYS:
        if (n->fused)
            return ctr_gpu_refuses(&(struct ctr_gpu_call){ .filter = &g->node[n->arg[0]].call, .seed = n->seed });
        type = keys_type(g, n);
        return ctr_gpu_refuses(&(struct ctr_gpu_call){ .type = &type, .seed = n->seed });
    case NODE_COLUMN: return "is an input column";
    case NODE_CONST: return "is one value for all rows";
    case NODE_CAST: return "casts an input column";
    case NODE_DENSE:
    case NODE_LABEL:
    case NODE_WEIGHT: break;
    }
    return "checks and converts numbers for a role";
}

static struct plan_node *argument(struct plan_graph *g, const struct plan_node *n)
{
    return &g->node[n->arg[0]];
}

/* The buffer that the node's result is left in, and its place there; NULL: it comes to the host, or to a slot. */
static const struct gpu_place *place_of(const struct plan_graph *g, const struct plan_node *n)
{
    const struct gpu_left *l = &g->gpu->left;
    const struct gpu_place *p = l->place ? &l->place[n - g->node] : NULL;
    return p && p->buffer ? p : NULL;
}

static bool is_left_list(const struct plan_graph *g, const struct plan_node *n)
{
    const struct gpu_place *p = place_of(g, n);
    return p && p->buffer > LEFT_LISTS;
}

/* Everything of a call but its columns. */
static void describe(struct plan_graph *g, int at, struct plan_node *n)
{
    struct plan_gpu *u = g->gpu;
    const struct gpu_place *p = u->left.on ? place_of(g, n) : NULL;
    u->node[at] = n;
    u->type[at] = n->kind == NODE_CALL ? n->type : n->fused ? argument(g, n)->call.arg[0].type : keys_type(g, n);
    u->call[at] = (struct ctr_gpu_call){ .call = n->kind == NODE_CALL ? &n->call : NULL,
                                         .filter = n->kind == NODE_KEYS && n->fused ? &argument(g, n)->call : NULL,
                                         .type = &u->type[at],
                                         .seed = n->seed,
                                         .step = !p                       ? 0
                                                 : p->buffer > LEFT_LISTS ? 1
                                                                          : u->left.n[p->buffer - 1],
                                         .dense = n->kind == NODE_DENSE,
                                         .out = &n->out };
}

static int describe_layer(struct plan_graph *g, int layer)
{
    int n = 0;
    for (int i = g->layer[layer]; i < g->layer[layer + 1]; i++)
        if (g->node[g->order[i]].on_gpu)
            describe(g, n++, &g->node[g->order[i]]);
    return n;
}

/* ---- which results stay ---- */

static bool is_list(const struct plan_node *n)
{
    return n->type.type == CTR_LIST || n->type.type == CTR_FIXED;
}

/* The node whose arguments n reads; NULL: none, because n does not run. */
static const struct plan_node *reads(const struct plan_graph *g, const struct plan_node *n)
{
    if (!n->live || (n->kind == NODE_CALL && n->fused))
        return NULL;
    return n->kind == NODE_KEYS && n->fused ? &g->node[n->arg[0]] : n;
}

/* Can n take argument `of` from the device? An encoded list is decoded by the host. */
static bool reads_there(const struct plan_graph *g, const struct plan_node *n, const struct plan_node *of)
{
    return (n->on_gpu || place_of(g, n)) && !(is_list(of) && of->shared && (!n->shared || is_left_list(g, n)));
}

static bool is_lifted(const struct plan_node *n)
{
    struct ctr_op_device d;
    return n->kind == NODE_CALL && is_list(n) && !ctr_op_device(&n->call, &d) && d.lift;
}

/* A lifted call, and a list that is left, has the shape of its list, which the host keeps. That of another lifted call
 * is there anyway. */
static bool needs_shape(const struct plan_graph *g, const struct plan_node *n, const struct plan_node *of)
{
    return (is_lifted(n) || is_left_list(g, n)) && is_list(of) && !is_lifted(of);
}

static void find_readers(const struct plan_graph *g, struct gpu_stay *stay)
{
    for (int i = 0; i < g->n; i++) {
        const struct plan_node *n = &g->node[i], *of = reads(g, n);
        stay[i].host = n->used || n->fit_section;
        for (int k = 0; of && k < of->nargs; k++) {
            const struct plan_node *arg = of->arg[k] < 0 ? NULL : &g->node[of->arg[k]];
            if (!arg)
                continue;
            struct gpu_stay *s = &stay[of->arg[k]];
            if (reads_there(g, n, arg))
                s->last = CTR_MAX(s->last, n->depth);
            else
                s->host = true;
            s->shape |= needs_shape(g, n, arg);
            s->unless_left |= n->kind == NODE_DENSE;
        }
    }
}

static bool stays(const struct plan_node *n, const struct gpu_stay *s)
{
    const struct ctr_vtype *t = &n->type;
    return n->on_gpu && s->last > n->depth && (is_list(n) ? t->item : t->type) != CTR_F32; /* which the host rounds */
}

/* A result takes the lowest slot that no result of its layer or of an earlier one still needs. */
static int choose_slots(struct plan_graph *g, struct ctr_err *err)
{
    struct plan_gpu *u = g->gpu;
    u->stay = calloc((size_t)g->n + 1, sizeof *u->stay);
    int *free_from = calloc((size_t)g->n + 2, sizeof *free_from); /* layer, by slot */
    if (!u->stay || !free_from) {
        free(free_from);
        return ctr_fail_nomem(err, (size_t)g->n * sizeof *u->stay);
    }
    if (!g->no_fusion) /* else all of them are read */
        find_readers(g, u->stay);
    for (int at = 0; at < g->norder && !g->no_fusion; at++) {
        const struct plan_node *n = &g->node[g->order[at]];
        struct gpu_stay *s = &u->stay[g->order[at]];
        if (!stays(n, s))
            continue;
        for (s->slot = 1; free_from[s->slot] > n->depth;)
            s->slot++;
        free_from[s->slot] = s->last + 1;
    }
    free(free_from);
    return 0;
}

/* ---- running ---- */

/* What a layer added: b - a. Of the pool, the most that was asked of it so far. */
static void add_stats(struct ctr_gpu_stats *to, const struct ctr_gpu_stats *a, const struct ctr_gpu_stats *b)
{
    to->launches += b->launches - a->launches;
    to->compactions += b->compactions - a->compactions;
    to->waits += b->waits - a->waits;
    to->copies_up += b->copies_up - a->copies_up;
    to->copies_down += b->copies_down - a->copies_down;
    to->bytes_up += b->bytes_up - a->bytes_up;
    to->bytes_down += b->bytes_down - a->bytes_down;
    to->stayed += b->stayed - a->stayed;
    to->overflows += b->overflows - a->overflows;
    to->compiled += b->compiled - a->compiled;
    to->cached += b->cached - a->cached;
    to->compile_seconds += b->compile_seconds - a->compile_seconds;
    to->cached_seconds += b->cached_seconds - a->cached_seconds;
    to->kernel_seconds += b->kernel_seconds - a->kernel_seconds;
    to->device_seconds += b->device_seconds - a->device_seconds;
    to->pool_bytes = CTR_MAX(to->pool_bytes, b->last_pool_bytes);
}

static void set_slots(const struct plan_graph *g, const struct plan_node *node, const struct plan_node *of, int at)
{
    const struct plan_gpu *u = g->gpu;
    const struct gpu_stay *own = &u->stay[node - g->node];
    int *from = u->from + (ptrdiff_t)at * MOST_ARGS;
    for (int k = 0; k < of->nargs; k++) {
        const int arg = of->arg[k];
        from[k] = arg >= 0 && reads_there(g, node, &g->node[arg]) ? u->stay[arg].slot : 0;
    }
    u->call[at].from = from;
    u->call[at].keep = own->slot;
    u->call[at].stays = own->slot && !own->host && (u->left.on || !own->unless_left);
    u->call[at].shape = own->shape;
}

/* The encoded column by whose entries a node is computed, or NULL: what is left is there for each row. */
static const struct ctr_col *shared_of(const struct plan_graph *g, const struct plan_node *node)
{
    return g->gpu->left.on && place_of(g, node) ? NULL : ctr_node_shared(g, node, g->batch->rows);
}

static int64_t items_of(const struct ctr_col *c, const struct ctr_vtype *type, int64_t rows)
{
    int64_t items = 0;
    if (type->type == CTR_FIXED)
        return rows * type->width;
    if (!c->dict)
        return rows ? c->offsets[rows] - c->offsets[0] : 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = 0, to = 0;
        (void)ctr_col_items(c, type->width, i, &from, &to);
        items += to - from;
    }
    return items;
}

/* Is an item null, as far as the host knows? */
static bool has_null_items(const struct ctr_col *c, const struct ctr_vtype *type, int64_t rows)
{
    const struct ctr_col *item = (c->dict ? c->dict : c)->item;
    if (!item || (item->dict && item->dict->nulls))
        return item != NULL;
    if (c->dict || !item->valid)
        return item->nulls;
    const int64_t items = items_of(c, type, rows), from = c->offsets && items ? c->offsets[0] : 0;
    return ctr_bits_count(item->valid, from, items) < items;
}

/* Room for the items of a list that is left. Those that are null have no key, but where lists are aligned. */
static void make_room_for_list(struct plan_graph *g, const struct plan_node *node, const struct ctr_gpu_call *call)
{
    struct gpu_left *l = &g->gpu->left;
    const struct ctr_col *c = call->col[0];
    const int which = place_of(g, node)->buffer - 1;
    struct ctr_err none = { 0 };
    const int64_t bytes = CTR_MAX(items_of(c, call->type, call->rows), 1) * 8; /* so that the address is not 0 */
    l->unfit |= (!node->group && has_null_items(c, call->type, call->rows)) ||
                ctr_gpu_left(g->gpu->device, l->batch, which, bytes, &l->at[which], &none);
}

/* The result is left. */
static void leave(struct plan_graph *g, const struct plan_node *node, struct ctr_gpu_call *call)
{
    struct gpu_left *l = &g->gpu->left;
    const struct gpu_place *p = place_of(g, node);
    const int width = p->buffer - 1 == LEFT_NUMBERS ? 4 : 8;
    if (p->buffer > LEFT_LISTS)
        make_room_for_list(g, node, call);
    call->left = l->at[p->buffer - 1] + (uint64_t)(p->column * width);
    call->stays = true;
    if (node->kind == NODE_DENSE)
        call->found = &l->found[p->column];
    else if (p->buffer > LEFT_LISTS && !node->group)
        call->found = &l->found[l->n[LEFT_NUMBERS] + p->buffer - 1 - LEFT_LISTS];
    if (call->found)
        *call->found = (struct ctr_gpu_found){ false, INFINITY, -INFINITY }; /* as of no rows */
}

static void set_call(struct plan_graph *g, struct plan_node *node, int at)
{
    struct ctr_gpu_call *call = &g->gpu->call[at];
    const struct ctr_col *shared = shared_of(g, node);
    struct plan_node *of = call->filter ? argument(g, node) : node;
    ctr_node_args(g, of, shared);
    ctr_colbuf_clear(&node->out);
    node->call.limit_bytes = g->limit_bytes;
    call->col = of->arg_col;
    call->rows = shared ? shared->dict->rows : g->batch->rows;
    set_slots(g, node, of, at);
    if (call->step)
        leave(g, node, call);
}

/* Of a result that stays on the device the host has a column without values; of a list computed by items, its shape. */
static void set_done(struct plan_graph *g, struct plan_node *node, const struct ctr_gpu_call *call)
{
    const struct ctr_col *values = ctr_colbuf_view(&node->out);
    if (call->stays && !values->rows && call->rows) {
        node->absent = (struct ctr_col){ .type = node->type.type, .rows = call->rows };
        values = &node->absent;
    }
    ctr_node_done(node, values, shared_of(g, node));
}

int ctr_graph_start_gpu(struct plan_graph *g, int layer, struct ctr_err *err)
{
    struct plan_gpu *u = g->gpu;
    const int n = u ? describe_layer(g, layer) : 0;
    int rc = !n || u->stay ? 0 : choose_slots(g, err);
    if (!n || rc < 0)
        return rc;
    for (int i = 0; i < n; i++)
        set_call(g, u->node[i], i);
    if (u->left.unfit)
        return 1;
    u->n = n;
    u->before = *ctr_gpu_stats(u->device);
    return ctr_gpu_start(u->device, u->call, n, err);
}

/* Results of the CPU that later layers of the GPU read, while this one still runs there. */
static int copy_beside(struct plan_graph *g, int layer, struct ctr_err *err)
{
    struct plan_gpu *u = g->gpu;
    int rc = 0;
    for (int i = g->layer[layer]; rc == 0 && i < g->layer[layer + 1]; i++) {
        const struct plan_node *n = &g->node[g->order[i]];
        if (n->kind == NODE_CALL && !n->on_gpu && !n->fused && u->stay[g->order[i]].last > n->depth)
            rc = ctr_gpu_copy(u->device, n->col, &n->type, err);
    }
    return rc;
}

int ctr_graph_finish_gpu(struct plan_graph *g, int layer, struct ctr_err *err)
{
    struct plan_gpu *u = g->gpu;
    if (!u || !u->n)
        return 0;
    int rc = copy_beside(g, layer, err);
    if (rc == 0)
        rc = ctr_gpu_finish(u->device, err);
    else
        ctr_gpu_abandon(u->device);
    for (int i = 0; rc == 0 && i < u->n; i++) {
        set_done(g, u->node[i], &u->call[i]);
        u->left.unfit |= u->call[i].found && u->call[i].found->unfit;
    }
    add_stats(&u->layer[layer].took, &u->before, ctr_gpu_stats(u->device));
    u->layer[layer].batches++;
    u->n = 0;
    return rc < 0 ? rc : u->left.unfit;
}

void ctr_graph_abandon_gpu(struct plan_graph *g)
{
    if (g->gpu && g->gpu->n)
        ctr_gpu_abandon(g->gpu->device);
    if (g->gpu)
        g->gpu->n = 0;
}

/* ---- opening ---- */

static int make_room(struct plan_graph *g, struct ctr_err *err)
{
    struct plan_gpu *u = g->gpu;
    const size_t n = (size_t)g->norder + 1;
    u->call = calloc(n, sizeof *u->call);
    u->node = calloc(n, sizeof *u->node);
    u->type = calloc(n, sizeof *u->type);
    u->from = calloc(n, MOST_ARGS * sizeof *u->from);
    u->layer = calloc((size_t)g->nlayers + 1, sizeof *u->layer);
    return u->call && u->node && u->type && u->from && u->layer ? 0 : ctr_fail_nomem(err, n * sizeof *u->call);
}

/* The kernels of all layers, so that what cannot be compiled is known before a row is read. */
static int prepare_layers(struct plan_graph *g, struct ctr_err *err)
{
    struct plan_gpu *u = g->gpu;
    int rc = 0;
    for (int l = 0; rc == 0 && l < g->nlayers; l++) {
        const struct ctr_gpu_stats before = *ctr_gpu_stats(u->device);
        rc = ctr_gpu_prepare(u->device, u->call, describe_layer(g, l), err);
        add_stats(&u->layer[l].took, &before, ctr_gpu_stats(u->device));
    }
    return rc;
}

static int open_gpu(struct ctr_program *p, const struct ctr_gpu_opts *o, const struct ctr_strs *place,
                    struct ctr_err *err)
{
    struct plan_graph *g = &p->graph;
    struct ctr_place_opts po = { place, o->memory_bytes };
    int rc = ctr_gpu_open(&g->gpu->device, o, err);
    if (rc == 0) {
        po.device_memory_bytes = ctr_gpu_memory(g->gpu->device);
        rc = ctr_program_place(p, &po, err);
    }
    if (rc == 0)
        rc = make_room(g, err);
    for (int i = 0; rc == 0 && i < g->norder; i++)
        g->node[g->order[i]].on_gpu = p->place[g->order[i]].gpu;
    return rc < 0 ? rc : prepare_layers(g, err);
}

int ctr_program_gpu(struct ctr_program *p, const struct ctr_gpu_opts *o, const struct ctr_strs *place,
                    struct ctr_err *err)
{
    struct plan_graph *g = &p->graph;
    char text[sizeof err->what + 64];
    g->gpu = calloc(1, sizeof *g->gpu);
    if (!g->gpu)
        return ctr_fail_nomem(err, sizeof *g->gpu);
    g->gpu->opts = *o;
    int rc = open_gpu(p, o, place, err);
    if (rc == 0)
        return 0;
    const bool found = g->gpu->device; /* a GPU that cannot be used is worth a note */
    ctr_graph_free_gpu(g);
    if (rc != CTR_ESYS || !o->optional)
        return rc;
    void (*say)(void *ctx, const char *text) = found ? o->note : o->debug;
    snprintf(text, sizeof text, "device auto: the CPU extracts, because %s", err->what);
    if (say)
        say(o->ctx, text);
    *err = (struct ctr_err){ 0 };
    return 0;
}

void ctr_graph_free_gpu(struct plan_graph *g)
{
    struct plan_gpu *u = g->gpu;
    if (!u)
        return;
    for (int i = 0; i < g->n; i++)
        g->node[i].on_gpu = false;
    ctr_gpu_free(u->device);
    free(u->call);
    free(u->node);
    free(u->type);
    free(u->from);
    free(u->stay);
    free(u->layer);
    free(u);
    g->gpu = NULL;
}

bool ctr_program_on_gpu(const struct ctr_program *p)
{
    return p->graph.gpu;
}

/* ---- what is left ---- */

/* Numbers run on the GPU for that alone. */
static void turn_on(struct plan_graph *g, bool on)
{
    struct gpu_left *l = &g->gpu->left;
    l->on = on;
    for (int i = 0; i < l->n[LEFT_NUMBERS]; i++)
        g->node[l->number[i]].on_gpu = on;
}

/* Where most batches have what cannot be left, to try costs more than it saves. */
static bool tries(struct gpu_left *l, bool leave)
{
    enum { SOME = 8 };
    l->again += l->unfit;
    l->unfit = false;
    const bool on = l->place && leave && l->again <= SOME + l->tried / SOME;
    l->tried += on;
    return on;
}

int ctr_graph_begin_gpu(struct plan_graph *g, bool leave, struct ctr_err *err)
{
    static const int width[LEFT_LISTS] = { 8, 4 };
    struct gpu_left *l = g->gpu ? &g->gpu->left : NULL;
    struct ctr_err none = { 0 };
    if (!l)
        return 0;
    bool on = tries(l, leave);
    for (int i = 0; i < LEFT_LISTS && on; i++)
        on = !l->n[i] ||
             !ctr_gpu_left(g->gpu->device, l->batch, i, g->batch->rows * l->n[i] * width[i], &l->at[i], &none);
    turn_on(g, on);
    return ctr_gpu_begin(g->gpu->device, err);
}

static int make_left(struct plan_graph *g, const struct ctr_leave *of, struct ctr_err *err)
{
    struct gpu_left *l = &g->gpu->left;
    const size_t numbers = (size_t)of->numbers, lists = (size_t)of->lists;
    struct gpu_place *place = ctr_arena_alloc(&g->arena, ((size_t)g->n + 1) * sizeof *place, err);
    l->number = ctr_arena_alloc(&g->arena, (numbers + 1) * sizeof *l->number, err);
    l->at = ctr_arena_alloc(&g->arena, (LEFT_LISTS + lists) * sizeof *l->at, err);
    l->found = ctr_arena_alloc(&g->arena, (numbers + lists + 1) * sizeof *l->found, err);
    l->low = ctr_arena_alloc(&g->arena, (2 * numbers + 1) * sizeof *l->low, err);
    if (!place || !l->number || !l->at || !l->found || !l->low)
        return err->code;
    for (int i = 0; i < g->n; i++)
        place[i] = (struct gpu_place){ 0 };
    for (int i = 0; i < of->n; i++)
        place[of->column[i]] = (struct gpu_place){ LEFT_KEYS + 1, i };
    for (int i = 0; i < of->numbers; i++)
        place[l->number[i] = of->number[i]] = (struct gpu_place){ LEFT_NUMBERS + 1, i };
    for (int i = 0; i < of->lists; i++)
        place[of->list[i]] = (struct gpu_place){ LEFT_LISTS + 1 + i, 0 };
    for (size_t i = 0; i < LEFT_LISTS + lists; i++)
        l->at[i] = 0;
    l->high = l->low + numbers;
    l->place = place;
    l->n[LEFT_KEYS] = of->n;
    l->n[LEFT_NUMBERS] = of->numbers;
    l->batches = of->batches;
    return 0;
}

int ctr_graph_leave_gpu(struct plan_graph *g, const struct ctr_leave *of, struct ctr_err *err)
{
    if (of->batches > CTR_GPU_LEFT)
        return 0;
    int rc = make_left(g, of, err);
    if (!rc && (of->numbers || of->lists)) { /* by other kernels than otherwise */
        turn_on(g, true);
        rc = prepare_layers(g, err);
        turn_on(g, false);
    }
    return rc < 0 ? rc : 1;
}

const struct ctr_left *ctr_graph_left_gpu(struct plan_graph *g)
{
    struct gpu_left *l = g->gpu ? &g->gpu->left : NULL;
    if (!l || !l->on || !g->batch->rows)
        return NULL;
    for (int i = 0; i < l->n[LEFT_NUMBERS]; i++) {
        l->low[i] = l->found[i].low;
        l->high[i] = l->found[i].high;
    }
    l->batch = (l->batch + 1) % l->batches;
    l->batch_left = (struct ctr_left){ l->n[LEFT_KEYS] ? l->at[LEFT_KEYS] : 0, l->at + LEFT_LISTS,
                                       l->n[LEFT_NUMBERS] ? l->at[LEFT_NUMBERS] : 0, l->low, l->high };
    return &l->batch_left;
}

/* ---- what -v says ---- */

static void say_layer(const struct plan_graph *g, int l)
{
    const struct plan_gpu *u = g->gpu;
    const struct ctr_gpu_stats *s = &u->layer[l].took;
    char text[400], code[64] = "";
    int n = 0;
    for (int i = g->layer[l]; i < g->layer[l + 1]; i++)
        n += g->node[g->order[i]].on_gpu;
    if (!n)
        return;
    if (s->compiled || s->cached)
        snprintf(code, sizeof code, "%s in %.2f ms, ", s->compiled ? "compiled" : "cached, read",
                 (s->compile_seconds + s->cached_seconds) * 1e3);
    snprintf(text, sizeof text,
             "layer %d: %d of %d nodes on the GPU; %s%lld batches, %lld launches and %lld to compact, pool %s, grown "
             "%lld times, %s up in %lld copies, %s down in %lld, %lld waits, %lld results stay, kernels %.2f ms, with "
             "copies %.2f ms",
             l, n, g->layer[l + 1] - g->layer[l], code, (long long)u->layer[l].batches, (long long)s->launches,
             (long long)s->compactions, ctr_size_text((uint64_t)s->pool_bytes).s, (long long)s->overflows,
             ctr_size_text((uint64_t)s->bytes_up).s, (long long)s->copies_up, ctr_size_text((uint64_t)s->bytes_down).s,
             (long long)s->copies_down, (long long)s->waits, (long long)s->stayed, s->kernel_seconds * 1e3,
             s->device_seconds * 1e3);
    u->opts.debug(u->opts.ctx, text);
}

void ctr_program_gpu_say(const struct ctr_program *p)
{
    const struct plan_graph *g = &p->graph;
    for (int l = 0; g->gpu && g->gpu->opts.debug && l < g->nlayers; l++)
        say_layer(g, l);
}
