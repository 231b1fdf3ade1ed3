/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_show: describes a program as text (--explain) and as a graph for graphviz (--dot). Both show the nodes that run:
 * live nodes, layer by layer.
 */
#include <stdlib.h>

#include "common/plan/program.h"

/* The first bytes of a text, for people, in the syntax of a plan. */
static int show_brief(struct ctr_buf *b, struct ctr_str s, struct ctr_err *err)
{
    size_t n = CTR_MIN(s.n, (size_t)60);
    while (n < s.n && ((unsigned char)s.p[n] & 0xc0) == 0x80) /* literals are UTF-8 */
        n--;
    int rc = ctr_quote_in(b, '"', s.p, n, err);
    if (rc || n == s.n)
        return rc;
    b->len--; /* the quote follows */
    return ctr_buf_append(b, "…\"", strlen("…\""), err);
}

/* The whole text: a signal's identity depends on these bytes. */
static int show_text(struct ctr_buf *b, struct ctr_str s, struct ctr_err *err)
{
    int rc = ctr_buf_append(b, "\"", 1, err);
    for (size_t i = 0; !rc && i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\')
            rc = ctr_buf_printf(b, err, "\\%c", c);
        else
            rc = c < 32 ? ctr_buf_printf(b, err, "\\x%02x", c) : ctr_buf_append(b, &c, 1, err);
    }
    return rc ? rc : ctr_buf_append(b, "\"", 1, err);
}

int ctr_value_show(struct ctr_buf *b, const struct ctr_value *v, bool brief, struct ctr_err *err)
{
    enum { FEW = 8 };
    char text[CTR_NUM_MAX];
    int rc, n = brief ? CTR_MIN(v->n, FEW) : v->n;
    switch (v->kind) { /* LCOV_EXCL_BR_LINE there are no others */
    case CTR_V_NULL: return ctr_buf_printf(b, err, "null");
    case CTR_V_BOOL: return ctr_buf_printf(b, err, v->i ? "true" : "false");
    case CTR_V_INT: return ctr_buf_append(b, text, ctr_fmt_i64(text, v->i), err);
    case CTR_V_UINT: return ctr_buf_append(b, text, ctr_fmt_u64(text, (uint64_t)v->i), err);
    case CTR_V_FLOAT: return ctr_buf_append(b, text, ctr_fmt_f64(text, v->f), err);
    case CTR_V_STR: return brief ? show_brief(b, v->s, err) : show_text(b, v->s, err);
    case CTR_V_TIME: return ctr_buf_printf(b, err, "ts\"%.*s\"", (int)ctr_time_iso(text, v->i), text);
    case CTR_V_DURATION: return ctr_buf_printf(b, err, "%lldms", (long long)v->i);
    case CTR_V_LIST: break;
    }
    rc = ctr_buf_append(b, "[", 1, err);
    for (int i = 0; !rc && i < n; i++) {
        rc = i ? ctr_buf_append(b, ", ", 2, err) : 0;
        if (!rc)
            rc = ctr_value_show(b, &v->list[i], brief, err);
    }
    return rc ? rc : ctr_buf_printf(b, err, n < v->n ? ", … %d items]" : "]", v->n);
}

/* An argument as the number of its node; `named`: by name, if it has one. */
static int show_argument(const struct plan_graph *g, int k, bool named, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_node *n = &g->node[k];
    if (named && (n->name || n->kind == NODE_COLUMN))
        return ctr_quote_name(o, n->name ? n->name : g->input->f[n->column].name, err);
    return ctr_buf_printf(o, err, "#%d", k);
}

/* The operation of a node. */
static int show_node(const struct plan_graph *g, const struct plan_node *n, bool named, struct ctr_buf *o,
                     struct ctr_err *err)
{
    static const char *const convert[] = { [NODE_CAST] = "cast",
                                           [NODE_KEYS] = "keys",
                                           [NODE_DENSE] = "dense",
                                           [NODE_LABEL] = "label",
                                           [NODE_WEIGHT] = "weight" };
    if (n->kind == NODE_COLUMN)
        return ctr_quote_name(o, g->input->f[n->column].name, err);
    if (n->kind == NODE_CONST)
        return ctr_value_show(o, &n->value, true, err);
    int rc = ctr_buf_printf(o, err, "%s(", n->kind == NODE_CALL ? ctr_op_name(n->call.op) : convert[n->kind]);
    for (int i = 0; rc >= 0 && i < n->nargs; i++) {
        const char *name = n->kind == NODE_CALL ? n->call.arg[i].name : NULL;
        rc = ctr_buf_printf(o, err, "%s%s%s", i ? ", " : "", name ? name : "", name ? "=" : "");
        if (rc >= 0)
            rc = n->arg[i] < 0 ? ctr_value_show(o, n->call.arg[i].literal, true, err)
                               : show_argument(g, n->arg[i], named, o, err);
    }
    if (rc >= 0 && n->table)
        rc = ctr_buf_printf(o, err, ", table ");
    if (rc >= 0 && n->table)
        rc = show_brief(o, (struct ctr_str){ n->table, strlen(n->table) }, err);
    return rc < 0 ? rc : ctr_buf_printf(o, err, ")");
}

/* The outputs that a node gives, and its name in the plan. */
static int show_names(const struct ctr_program *g, int node, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_node *n = &g->graph.node[node];
    int rc = n->name ? ctr_buf_format(o, err, "  = %.60s", n->name) : 0;
    for (int i = 0; rc >= 0 && i < g->output.n; i++)
        if (g->node[i] == node) {
            int role = ctr_field_role(&g->output.f[i]);
            rc = ctr_buf_format(o, err, "  -> %.60s%s%s%s", g->output.f[i].name, role < 0 ? "" : " (",
                                role < 0 ? "" : ctr_roles[role], role < 0 ? "" : ")");
        }
    return rc;
}

static bool varies(const struct plan_node *n)
{
    return n->has_out && (n->type.type == CTR_UTF8 || n->type.type == CTR_LIST);
}

/* Device, bytes and the reason. */
static int show_place(const struct ctr_program *g, int k, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_place *p = &g->place[k];
    const int64_t bytes = p->own_bytes + p->out_bytes;
    if (g->graph.node[k].kind == NODE_COLUMN)
        return 0;
    int rc = ctr_buf_printf(o, err, "  [%s, %s%s: ", p->gpu ? "gpu" : "cpu", ctr_size_text((uint64_t)bytes).s,
                            varies(&g->graph.node[k]) ? " and more" : "");
    if (rc >= 0 && p->forced)
        return ctr_buf_printf(o, err, "--place]");
    if (rc >= 0 && p->refused)
        return ctr_buf_printf(o, err, "it %s]", p->refused);
    if (rc >= 0 && !g->device_memory_bytes)
        return ctr_buf_printf(o, err, "no --device-memory]");
    return rc < 0 ? rc
                  : ctr_buf_printf(o, err, "%s in the %s left]", p->gpu ? "fits" : "does not fit",
                                   ctr_size_text((uint64_t)p->left_bytes).s);
}

static int show_layer(const struct ctr_program *g, int l, int64_t *bytes, bool *grows, struct ctr_buf *o,
                      struct ctr_err *err)
{
    const struct plan_graph *p = &g->graph;
    char type[128];
    int rc = ctr_buf_printf(o, err, "layer %d: %d nodes\n", l, p->layer[l + 1] - p->layer[l]);
    for (int i = p->layer[l]; rc >= 0 && i < p->layer[l + 1]; i++) {
        int k = p->order[i];
        const struct plan_node *n = &p->node[k];
        *bytes += n->has_out ? g->place[k].out_bytes : 0;
        *grows |= varies(n);
        rc = ctr_buf_printf(o, err, "  #%-4d %-16s ", k, ctr_vtype_name(&n->type, type, sizeof type));
        if (rc >= 0)
            rc = show_node(p, n, false, o, err);
        if (rc >= 0 && n->fit_section)
            rc = ctr_buf_format(o, err, "  [%s %s]", n->fit_ready ? "fitted" : "to be fitted:", n->fit_section);
        if (rc >= 0)
            rc = show_names(g, k, o, err);
        if (rc >= 0)
            rc = show_place(g, k, o, err);
        if (rc >= 0)
            rc = ctr_buf_printf(o, err, "\n");
    }
    return rc;
}

/* Summary of both devices and of the copies to the GPU, each result once. */
static int show_devices(const struct ctr_program *g, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_graph *p = &g->graph;
    int64_t held = 0, copied = 0;
    int gpu = 0, cpu = 0, rc = 0;
    bool *seen = calloc((size_t)p->n + 1, sizeof *seen);
    if (!seen)
        return ctr_fail_nomem(err, (size_t)p->n);
    for (int i = 0; i < p->norder; i++) {
        const int k = p->order[i];
        const struct plan_node *n = &p->node[k];
        const bool on = g->place[k].gpu;
        gpu += on;
        cpu += !on && n->kind != NODE_COLUMN;
        held += on ? g->place[k].own_bytes + g->place[k].out_bytes : 0;
        for (int a = 0; on && a < n->nargs; a++) {
            const int from = n->arg[a];
            if (from < 0 || g->place[from].gpu || seen[from])
                continue;
            seen[from] = true;
            copied += g->place[from].out_bytes;
        }
    }
    free(seen);
    if (!gpu)
        return ctr_buf_printf(o, err, "device: cpu\n");
    rc = ctr_buf_printf(o, err, "device: %d nodes on the gpu with %s", gpu, ctr_size_text((uint64_t)held).s);
    if (rc >= 0 && g->device_memory_bytes)
        rc = ctr_buf_printf(o, err, " of %s", ctr_size_text((uint64_t)g->device_memory_bytes).s);
    return rc < 0 ? rc
                  : ctr_buf_printf(o, err, ", %d on the cpu; %s of a batch are copied to the gpu\n%s", cpu,
                                   ctr_size_text((uint64_t)copied).s,
                                   p->gpu ? "run: as placed\n" : "run: on the cpu, without --device gpu\n");
}

int ctr_program_explain(const struct ctr_program *g, struct ctr_buf *o, struct ctr_err *err)
{
    int64_t bytes = 0;
    bool grows = false;
    int rc = ctr_program_places((struct ctr_program *)g, err);
    if (rc == 0)
        rc = ctr_buf_format(o, err, "plan %s, id %s\n", g->plan->tree.src.file, ctr_plan_id(g->plan));
    for (int l = 0; rc >= 0 && l < g->graph.nlayers; l++)
        rc = show_layer(g, l, &bytes, &grows, o, err);
    if (rc >= 0)
        rc = ctr_buf_printf(o, err, "memory: %s for a batch of %lld rows%s\n", ctr_size_text((uint64_t)bytes).s,
                            (long long)ctr_schema_batch_rows(&g->input),
                            grows ? ", and the bytes of texts and items of lists" : "");
    if (rc >= 0)
        rc = show_devices(g, o, err);
    return CTR_MIN(rc, 0);
}

/* Escape for a quoted string of graphviz. */
static int escape(struct ctr_buf *o, const struct ctr_buf *text, struct ctr_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < text->len; i++) {
        if (text->data[i] == '"' || text->data[i] == '\\')
            rc = ctr_buf_append(o, "\\", 1, err);
        if (rc == 0)
            rc = ctr_buf_append(o, text->data + i, 1, err);
    }
    return rc;
}

static int dot_node(const struct ctr_program *g, int k, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_node *n = &g->graph.node[k];
    struct ctr_buf label = { 0 };
    char type[128];
    const struct plan_place *p = &g->place[k];
    int rc = show_node(&g->graph, n, true, &label, err);
    if (rc >= 0)
        rc = show_names(g, k, &label, err);
    if (rc >= 0)
        rc = ctr_buf_printf(o, err, "    n%d [label=\"#%d ", k, k);
    if (rc >= 0)
        rc = escape(o, &label, err);
    if (rc >= 0)
        rc = ctr_buf_printf(o, err, "\\n%s", ctr_vtype_name(&n->type, type, sizeof type));
    if (rc >= 0 && n->kind != NODE_COLUMN)
        rc = ctr_buf_printf(o, err, ", %s, %s%s", p->gpu ? "gpu" : "cpu",
                            ctr_size_text((uint64_t)(p->own_bytes + p->out_bytes)).s, varies(n) ? "+" : "");
    if (rc >= 0)
        rc = ctr_buf_printf(o, err, "\"%s];\n",
                            n->kind == NODE_COLUMN ? ", shape=plaintext, fillcolor=white"
                            : p->gpu               ? ", fillcolor=palegreen"
                                                   : "");
    ctr_buf_free(&label);
    return rc;
}

int ctr_program_dot(const struct ctr_program *g, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_graph *p = &g->graph;
    char name[32];
    int rc = ctr_program_places((struct ctr_program *)g, err);
    if (rc == 0)
        rc = ctr_buf_printf(o, err,
                            "digraph plan {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", "
                            "fillcolor=lightgrey, fontname=\"sans-serif\"];\n");
    for (int l = 0; rc >= 0 && l < p->nlayers; l++) {
        ctr_format(name, sizeof name, "layer %d", l);
        rc = ctr_buf_printf(o, err,
                            "  subgraph cluster_layer%d {\n    label=\"%s\"; color=grey; fontname=\"sans-serif\";\n", l,
                            l ? name : "columns");
        for (int i = p->layer[l]; rc >= 0 && i < p->layer[l + 1]; i++)
            rc = dot_node(g, p->order[i], o, err);
        if (rc >= 0)
            rc = ctr_buf_printf(o, err, "  }\n");
    }
    for (int i = 0; rc >= 0 && i < p->norder; i++)
        for (int k = 0; rc >= 0 && k < p->node[p->order[i]].nargs; k++)
            if (p->node[p->order[i]].arg[k] >= 0)
                rc = ctr_buf_printf(o, err, "  n%d -> n%d;\n", p->node[p->order[i]].arg[k], p->order[i]);
    return rc < 0 ? rc : ctr_buf_printf(o, err, "}\n");
}
