/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_place: assigns each node of a program to a device ("FeatureBox", section 4: computation on the GPU, operators
 * that need much memory and those without a kernel on the CPU). Invariant: nodes are placed layer by layer in plan
 * order, so that the placement depends only on the plan, its tables and the options. */

#include "common/plan/program.h"

/* Bytes of a batch in a node's own buffer; for texts and lists only their offsets. */
static int64_t out_bytes(const struct plan_node *n, int64_t rows)
{
    const struct ctr_vtype *t = &n->type;
    if (t->type == CTR_BOOL)
        return rows / 8;
    if (t->type == CTR_UTF8 || t->type == CTR_LIST)
        return rows * (int64_t)sizeof(int32_t);
    return t->type == CTR_FIXED ? rows * t->width * ctr_types[t->item].width : rows * ctr_types[t->type].width;
}

int ctr_program_seal(struct ctr_program *g, struct ctr_err *err)
{
    if (g->mode != PROGRAM_BOUND)
        return CTR_OK;
    for (int i = 0; i < g->output.n; i++)
        ctr_graph_use(&g->graph, g->node[i]);
    int rc = ctr_graph_seal(&g->graph, err);
    if (rc == 0)
        g->mode = PROGRAM_RUN;
    return rc;
}

/* ---- NODE=cpu|gpu ---- */

static bool is_called(const struct ctr_program *g, int k, const char *name, size_t n)
{
    char number[16];
    const char *own = g->graph.node[k].name;
    const size_t digits = (size_t)ctr_format(number, sizeof number, "%d", k);
    if ((digits == n && !memcmp(number, name, n)) || (own && strlen(own) == n && !memcmp(own, name, n)))
        return true;
    for (int i = 0; i < g->output.n; i++)
        if (g->node[i] == k && strlen(g->output.f[i].name) == n && !memcmp(g->output.f[i].name, name, n))
            return true;
    return false;
}

static int place_one(struct ctr_program *g, const char *text, struct ctr_err *err)
{
    const char *eq = strrchr(text, '=');
    const bool gpu = eq && !strcmp(eq, "=gpu");
    const char *refused = NULL;
    bool any = false;
    if (!eq || eq == text || (!gpu && strcmp(eq, "=cpu") != 0))
        return ctr_fail(err, CTR_EUSAGE, "--place wants NODE=cpu or NODE=gpu, not '%s'", text);
    const char *name = *text == '#' ? text + 1 : text;
    for (int k = 0; k < g->graph.n; k++)
        if (g->graph.node[k].live && g->graph.node[k].kind != NODE_COLUMN &&
            is_called(g, k, name, (size_t)(eq - name))) {
            const char *why = gpu ? ctr_node_refused(&g->graph, &g->graph.node[k]) : NULL;
            if (why) { /* another node of the name may run there, such as the keys of this one */
                refused = why;
                continue;
            }
            g->place[k].forced = any = true;
            g->place[k].gpu = gpu;
        }
    if (!any && refused)
        return ctr_fail(err, CTR_EUSAGE, "--place %s: a GPU cannot run the node: it %s", text, refused);
    return any ? 0
               : ctr_fail(err, CTR_EUSAGE,
                          "--place %s: the plan has no such node; a node is named by its number in --explain, its name "
                          "in the plan or that of its output",
                          text);
}

/* ---- the rule ---- */

/* Bytes that a node reads besides its batch; keys that are made with a call read those of the call. */
static int64_t own_bytes(const struct ctr_program *g, const struct plan_node *n)
{
    const struct plan_node *of = n->kind == NODE_KEYS && n->fused ? &g->graph.node[n->arg[0]] : n;
    return of->kind == NODE_CALL && of->bound ? ctr_op_memory(&of->call) : 0;
}

/* A table of an operator must fit on one side, if both have limits. */
static int check_table(const struct ctr_program *g, int k, struct ctr_err *err)
{
    const struct plan_place *p = &g->place[k];
    const char *name = g->graph.node[k].name;
    const int64_t device = g->device_memory_bytes, host = g->memory_bytes;
    if (p->forced && p->gpu && p->own_bytes > device)
        return ctr_fail(err, CTR_ENOMEM, "node %d%s%s needs %s of the GPU's memory besides its batch, which has %s", k,
                        name ? ", " : "", name ? name : "", ctr_size_text((uint64_t)p->own_bytes).s,
                        ctr_size_text((uint64_t)device).s);
    if (!p->gpu && !p->forced && host && p->own_bytes > host)
        return ctr_fail(err, CTR_ENOMEM,
                        "node %d%s%s needs %s besides its batch: the GPU's memory has %s left, and --memory allows %s",
                        k, name ? ", " : "", name ? name : "", ctr_size_text((uint64_t)p->own_bytes).s,
                        ctr_size_text((uint64_t)p->left_bytes).s, ctr_size_text((uint64_t)host).s);
    return 0;
}

static int place_node(struct ctr_program *g, int k, int64_t *left, struct ctr_err *err)
{
    const struct plan_node *n = &g->graph.node[k];
    struct plan_place *p = &g->place[k];
    p->out_bytes = out_bytes(n, ctr_schema_batch_rows(&g->input));
    p->own_bytes = own_bytes(g, n);
    p->left_bytes = *left;
    p->refused = ctr_node_refused(&g->graph, n);
    if (n->kind == NODE_COLUMN || p->refused)
        return 0;
    const int64_t bytes = p->own_bytes + p->out_bytes;
    if (!p->forced)
        p->gpu = bytes <= *left && g->device_memory_bytes;
    if (p->gpu)
        *left = CTR_MAX(*left - bytes, 0);
    return g->device_memory_bytes ? check_table(g, k, err) : 0;
}

static int place_all(struct ctr_program *g, const struct ctr_place_opts *o, struct ctr_err *err)
{
    int64_t left = g->device_memory_bytes = o->device_memory_bytes;
    int rc = ctr_program_seal(g, err);
    if (rc)
        return rc;
    g->place = ctr_arena_alloc(&g->graph.arena, ((size_t)g->graph.n + 1) * sizeof *g->place, err);
    if (!g->place)
        return err->code;
    for (int i = 0; i < g->graph.n; i++)
        g->place[i] = (struct plan_place){ 0 };
    for (int i = 0; !rc && o->place && i < o->place->n; i++)
        rc = place_one(g, o->place->s[i], err);
    for (int i = 0; !rc && i < g->graph.norder; i++)
        rc = place_node(g, g->graph.order[i], &left, err);
    return rc;
}

int ctr_program_place(struct ctr_program *g, const struct ctr_place_opts *o, struct ctr_err *err)
{
    return place_all(g, o, err);
}

int ctr_program_places(struct ctr_program *g, struct ctr_err *err)
{
    const struct ctr_place_opts none = { 0 };
    return g->place ? 0 : place_all(g, &none, err);
}
