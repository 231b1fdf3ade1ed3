/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_show: describes a program as text (--explain) and as a graph for graphviz (--dot). Both show the nodes that run:
 * live nodes, layer by layer.
 */
#include <stdlib.h>

#include "common/plan/program.h"

/* The first bytes of a text, for people, in the syntax of a plan. */
static void show_brief(struct ctr_say *s, struct ctr_str text)
{
    size_t n = CTR_MIN(text.n, (size_t)60);
    while (n < text.n && ((unsigned char)text.p[n] & 0xc0) == 0x80) /* literals are UTF-8 */
        n--;
    if (!s->rc)
        s->rc = ctr_quote_in(s->to, '"', text.p, n, s->err);
    if (s->rc || n == text.n)
        return;
    s->to->len--; /* the quote follows */
    ctr_say(s, "…\"");
}

/* The whole text: a signal's identity depends on these bytes. */
static void show_text(struct ctr_say *s, struct ctr_str text)
{
    ctr_say(s, "\"");
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\')
            ctr_say(s, "\\%c", c);
        else if (c < 32)
            ctr_say(s, "\\x%02x", c);
        else
            ctr_say_bytes(s, &c, 1);
    }
    ctr_say(s, "\"");
}

void ctr_value_show(struct ctr_say *s, const struct ctr_value *v, bool brief)
{
    enum { FEW = 8 };
    char text[CTR_NUM_MAX];
    const int n = brief ? CTR_MIN(v->n, FEW) : v->n;
    switch (v->kind) { /* LCOV_EXCL_BR_LINE there are no others */
    case CTR_V_NULL: ctr_say(s, "null"); return;
    case CTR_V_BOOL: ctr_say(s, v->i ? "true" : "false"); return;
    case CTR_V_INT: ctr_say_bytes(s, text, ctr_fmt_i64(text, v->i)); return;
    case CTR_V_UINT: ctr_say_bytes(s, text, ctr_fmt_u64(text, (uint64_t)v->i)); return;
    case CTR_V_FLOAT: ctr_say_bytes(s, text, ctr_fmt_f64(text, v->f)); return;
    case CTR_V_STR: (brief ? show_brief : show_text)(s, v->s); return;
    case CTR_V_TIME: ctr_say(s, "ts\"%.*s\"", (int)ctr_time_iso(text, v->i), text); return;
    case CTR_V_DURATION: ctr_say(s, "%lldms", (long long)v->i); return;
    case CTR_V_LIST: break;
    }
    ctr_say(s, "[");
    for (int i = 0; i < n; i++) {
        ctr_say(s, "%s", i ? ", " : "");
        ctr_value_show(s, &v->list[i], brief);
    }
    ctr_say(s, n < v->n ? ", … %d items]" : "]", v->n);
}

/* An argument as the number of its node; `named`: by name, if it has one. */
static void show_argument(const struct plan_graph *g, int k, bool named, struct ctr_say *s)
{
    const struct plan_node *n = &g->node[k];
    if (named && (n->name || n->kind == NODE_COLUMN))
        ctr_say_name(s, n->name ? n->name : g->input->f[n->column].name);
    else
        ctr_say(s, "#%d", k);
}

/* The operation of a node. */
static void show_node(const struct plan_graph *g, const struct plan_node *n, bool named, struct ctr_say *s)
{
    static const char *const convert[] = { [NODE_CAST] = "cast",
                                           [NODE_KEYS] = "keys",
                                           [NODE_DENSE] = "dense",
                                           [NODE_LABEL] = "label",
                                           [NODE_WEIGHT] = "weight" };
    if (n->kind == NODE_COLUMN) {
        ctr_say_name(s, g->input->f[n->column].name);
        return;
    }
    if (n->kind == NODE_CONST) {
        ctr_value_show(s, &n->value, true);
        return;
    }
    ctr_say(s, "%s(", n->kind == NODE_CALL ? ctr_op_name(n->call.op) : convert[n->kind]);
    for (int i = 0; i < n->nargs; i++) {
        const char *name = n->kind == NODE_CALL ? n->call.arg[i].name : NULL;
        ctr_say(s, "%s%s%s", i ? ", " : "", name ? name : "", name ? "=" : "");
        if (n->arg[i] < 0)
            ctr_value_show(s, n->call.arg[i].literal, true);
        else
            show_argument(g, n->arg[i], named, s);
    }
    if (n->table) {
        ctr_say(s, ", table ");
        show_brief(s, (struct ctr_str){ n->table, strlen(n->table) });
    }
    ctr_say(s, ")");
}

/* The outputs that a node gives, and its name in the plan. */
static void show_names(const struct ctr_program *g, int node, struct ctr_say *s)
{
    const struct plan_node *n = &g->graph.node[node];
    if (n->name)
        ctr_say_format(s, "  = %.60s", n->name);
    for (int i = 0; i < g->output.n; i++)
        if (g->node[i] == node) {
            int role = ctr_field_role(&g->output.f[i]);
            ctr_say_format(s, "  -> %.60s%s%s%s", g->output.f[i].name, role < 0 ? "" : " (",
                           role < 0 ? "" : ctr_roles[role], role < 0 ? "" : ")");
        }
}

static bool varies(const struct plan_node *n)
{
    return n->has_out && (n->type.type == CTR_UTF8 || n->type.type == CTR_LIST);
}

/* Device, bytes and the reason. */
static void show_place(const struct ctr_program *g, int k, struct ctr_say *s)
{
    const struct plan_place *p = &g->place[k];
    const int64_t bytes = p->own_bytes + p->out_bytes;
    if (g->graph.node[k].kind == NODE_COLUMN)
        return;
    ctr_say(s, "  [%s, %s%s: ", p->gpu ? "gpu" : "cpu", ctr_size_text((uint64_t)bytes).s,
            varies(&g->graph.node[k]) ? " and more" : "");
    if (p->forced)
        ctr_say(s, "--place]");
    else if (p->refused)
        ctr_say(s, "it %s]", p->refused);
    else if (!g->device_memory_bytes)
        ctr_say(s, "no --device-memory]");
    else
        ctr_say(s, "%s in the %s left]", p->gpu ? "fits" : "does not fit", ctr_size_text((uint64_t)p->left_bytes).s);
}

static void show_layer(const struct ctr_program *g, int l, int64_t *bytes, bool *grows, struct ctr_say *s)
{
    const struct plan_graph *p = &g->graph;
    char type[128];
    ctr_say(s, "layer %d: %d nodes\n", l, p->layer[l + 1] - p->layer[l]);
    for (int i = p->layer[l]; i < p->layer[l + 1]; i++) {
        int k = p->order[i];
        const struct plan_node *n = &p->node[k];
        *bytes += n->has_out ? g->place[k].out_bytes : 0;
        *grows |= varies(n);
        ctr_say(s, "  #%-4d %-16s ", k, ctr_vtype_name(&n->type, type, sizeof type));
        show_node(p, n, false, s);
        if (n->fit_section)
            ctr_say_format(s, "  [%s %s]", n->fit_ready ? "fitted" : "to be fitted:", n->fit_section);
        show_names(g, k, s);
        show_place(g, k, s);
        ctr_say(s, "\n");
    }
}

/* Summary of both devices and of the copies to the GPU, each result once. */
static int show_devices(const struct ctr_program *g, struct ctr_say *s)
{
    const struct plan_graph *p = &g->graph;
    int64_t held = 0, copied = 0;
    int gpu = 0, cpu = 0;
    bool *seen = calloc((size_t)p->n + 1, sizeof *seen);
    if (!seen)
        return ctr_fail_nomem(s->err, (size_t)p->n);
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
    if (!gpu) {
        ctr_say(s, "device: cpu\n");
        return s->rc;
    }
    ctr_say(s, "device: %d nodes on the gpu with %s", gpu, ctr_size_text((uint64_t)held).s);
    if (g->device_memory_bytes)
        ctr_say(s, " of %s", ctr_size_text((uint64_t)g->device_memory_bytes).s);
    ctr_say(s, ", %d on the cpu; %s of a batch are copied to the gpu\n%s", cpu, ctr_size_text((uint64_t)copied).s,
            p->gpu ? "run: as placed\n" : "run: on the cpu, without --device gpu\n");
    return s->rc;
}

int ctr_program_explain(const struct ctr_program *g, struct ctr_buf *o, struct ctr_err *err)
{
    int64_t bytes = 0;
    bool grows = false;
    struct ctr_say s = { o, err, ctr_program_places((struct ctr_program *)g, err) };
    ctr_say_format(&s, "plan %s, id %s\n", g->plan->tree.src.file, ctr_plan_id(g->plan));
    for (int l = 0; !s.rc && l < g->graph.nlayers; l++)
        show_layer(g, l, &bytes, &grows, &s);
    ctr_say(&s, "memory: %s for a batch of %lld rows%s\n", ctr_size_text((uint64_t)bytes).s,
            (long long)ctr_schema_batch_rows(&g->input), grows ? ", and the bytes of texts and items of lists" : "");
    return s.rc ? s.rc : show_devices(g, &s);
}

static void dot_node(const struct ctr_program *g, int k, struct ctr_say *s)
{
    const struct plan_node *n = &g->graph.node[k];
    struct ctr_buf text = { 0 };
    struct ctr_say label = { &text, s->err, s->rc };
    char type[128];
    const struct plan_place *p = &g->place[k];
    show_node(&g->graph, n, true, &label);
    show_names(g, k, &label);
    s->rc = label.rc;
    ctr_say(s, "    n%d [label=\"#%d ", k, k);
    for (size_t i = 0; i < text.len; i++) { /* a quoted string of graphviz */
        ctr_say_bytes(s, "\\", text.data[i] == '"' || text.data[i] == '\\');
        ctr_say_bytes(s, text.data + i, 1);
    }
    ctr_say(s, "\\n%s", ctr_vtype_name(&n->type, type, sizeof type));
    if (n->kind != NODE_COLUMN)
        ctr_say(s, ", %s, %s%s", p->gpu ? "gpu" : "cpu", ctr_size_text((uint64_t)(p->own_bytes + p->out_bytes)).s,
                varies(n) ? "+" : "");
    ctr_say(s, "\"%s];\n",
            n->kind == NODE_COLUMN ? ", shape=plaintext, fillcolor=white"
            : p->gpu               ? ", fillcolor=palegreen"
                                   : "");
    ctr_buf_free(&text);
}

int ctr_program_dot(const struct ctr_program *g, struct ctr_buf *o, struct ctr_err *err)
{
    const struct plan_graph *p = &g->graph;
    char name[32];
    struct ctr_say s = { o, err, ctr_program_places((struct ctr_program *)g, err) };
    ctr_say(&s, "digraph plan {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=lightgrey, "
                "fontname=\"sans-serif\"];\n");
    for (int l = 0; !s.rc && l < p->nlayers; l++) {
        ctr_format(name, sizeof name, "layer %d", l);
        ctr_say(&s, "  subgraph cluster_layer%d {\n    label=\"%s\"; color=grey; fontname=\"sans-serif\";\n", l,
                l ? name : "columns");
        for (int i = p->layer[l]; i < p->layer[l + 1]; i++)
            dot_node(g, p->order[i], &s);
        ctr_say(&s, "  }\n");
    }
    for (int i = 0; !s.rc && i < p->norder; i++)
        for (int k = 0; k < p->node[p->order[i]].nargs; k++)
            if (p->node[p->order[i]].arg[k] >= 0)
                ctr_say(&s, "  n%d -> n%d;\n", p->node[p->order[i]].arg[k], p->order[i]);
    ctr_say(&s, "}\n");
    return s.rc;
}
