/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_graph: binds definitions to a schema: a graph of typed nodes. Arguments have smaller numbers than their users,
 * so the array is in topological order; equal nodes are merged; calls with only literals are computed here.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/plan/plancore.h"

/* Definitions become nodes from the leaves up; each new node is looked up by the hash of its kind, operator and
 * arguments first, so that a value which two definitions spell out is computed once. For example
 *
 *     feature a = lower(site)                 0 column site   1 call lower(0)
 *     feature b = concat(lower(site), "x")    2 call concat(1, "x")
 *     feature c = concat("a", "b")            3 constant "ab", computed here
 *
 * A literal argument is no node (arg -1): its value stands in the call. An error in one definition is kept, and the
 * others are bound, so that all errors of a plan are told at once. */

/* ---- types ---- */

struct ctr_vtype ctr_field_vtype(const struct ctr_field *f)
{
    int role = ctr_field_role(f);
    bool nested = f->type == CTR_LIST || f->type == CTR_FIXED;
    enum ctr_type value = nested ? f->item : f->type;
    struct ctr_vtype t = { .type = f->type };
    if (nested)
        t.item = f->item;
    if (f->type == CTR_FIXED)
        t.width = f->width;
    t.key = value == CTR_U64 && (role == CTR_ROLE_FEATURE || role == CTR_ROLE_IMAGE);
    return t;
}

/* ---- nodes ---- */

int ctr_graph_init(struct plan_graph *g, const struct plan_source *src, const struct ctr_schema *input, const char *dir,
                   struct ctr_err *err)
{
    *g = (struct plan_graph){ .src = *src, .input = input, .limit_bytes = PLAN_NODE_BYTES };
    if (dir && !(g->dir = ctr_arena_copy(&g->arena, dir, strlen(dir), err)))
        return err->code;
    return CTR_OK;
}

void ctr_graph_free(struct plan_graph *g)
{
    ctr_graph_free_gpu(g);
    for (int i = 0; i < g->n; i++) {
        if (g->node[i].bound)
            ctr_op_unbind(&g->node[i].call);
        ctr_colbuf_free(&g->node[i].out);
        ctr_buf_free(&g->node[i].scratch);
    }
    free(g->node);
    ctr_index_free(&g->nodes);
    free(g->order);
    free(g->layer);
    free(g->task_err);
    ctr_arena_free(&g->arena);
    *g = (struct plan_graph){ 0 };
}

static uint64_t hash_value(uint64_t h, const struct ctr_value *v)
{
    h = ctr_mix64(h ^ (uint64_t)v->kind);
    if (v->kind == CTR_V_STR)
        return ctr_hash64(v->s.p, v->s.n, h);
    if (v->kind == CTR_V_FLOAT)
        return ctr_hash64(&v->f, sizeof v->f, h);
    for (int i = 0; i < v->n; i++)
        h = hash_value(h, &v->list[i]);
    return ctr_mix64(h ^ (uint64_t)v->i);
}

bool ctr_value_equal(const struct ctr_value *a, const struct ctr_value *b)
{
    if (a->kind != b->kind || a->n != b->n)
        return false;
    if (a->kind == CTR_V_STR)
        return a->s.n == b->s.n && (!a->s.n || memcmp(a->s.p, b->s.p, a->s.n) == 0);
    if (a->kind == CTR_V_FLOAT)
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    for (int i = 0; i < a->n; i++)
        if (!ctr_value_equal(&a->list[i], &b->list[i]))
            return false;
    return a->i == b->i;
}

static bool same_name(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static uint64_t node_hash(const struct plan_node *n)
{
    uint64_t h = ctr_mix64(ctr_hash_secret + (uint64_t)n->kind + ((uint64_t)n->column << 8)) ^ n->seed;
    h = ctr_mix64(h + (uint64_t)(uintptr_t)n->call.op);
    if (n->kind == NODE_CONST)
        h = hash_value(h, &n->value);
    for (int i = 0; i < n->nargs; i++) {
        h = ctr_mix64(h ^ (uint64_t)(n->arg[i] + 2));
        if (n->arg[i] < 0)
            h = hash_value(h, n->call.arg[i].literal);
    }
    return h;
}

/* Nodes with equal hashes may also differ, in argument names or by crafted texts. */
static bool node_equal(const struct plan_node *a, const struct plan_node *b)
{
    bool same = same_name(a->group, b->group) & (a->hash == b->hash) & (a->kind == b->kind) & (a->column == b->column) &
                (a->seed == b->seed) & (a->call.op == b->call.op) & (a->nargs == b->nargs);
    if (same && a->kind == NODE_CONST)
        return ctr_value_equal(&a->value, &b->value);
    for (int i = 0; same && i < a->nargs; i++) {
        same = a->arg[i] == b->arg[i];
        if (a->kind != NODE_CALL)
            continue;
        const struct ctr_op_arg *x = &a->call.arg[i], *y = &b->call.arg[i];
        same &= same_name(x->name, y->name);
        if ((a->arg[i] & b->arg[i]) < 0) /* both are literals */
            same &= ctr_value_equal(x->literal, y->literal);
    }
    return same;
}

/* The number of an existing node equal to *n, or -1. */
static int find_node(const struct plan_graph *g, struct plan_node *n)
{
    n->hash = node_hash(n);
    const struct ctr_index_slot *s = ctr_index_find(&g->nodes, n->hash);
    while (s && !node_equal(&g->node[s->number], n))
        s = ctr_index_next(&g->nodes, s);
    return s ? (int)s->number : -1;
}

/* Add *n, which takes over its call's state. Returns its number. */
static int add_node(struct plan_graph *g, struct plan_node n, struct ctr_err *err)
{
    int rc = ctr_array_grow(&g->node, g->n, &g->cap, sizeof *g->node, err);
    if (!rc)
        rc = ctr_index_add(&g->nodes, n.hash, (uint32_t)g->n, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < n.nargs; i++)
        if (n.arg[i] >= 0)
            n.depth = CTR_MAX(n.depth, g->node[n.arg[i]].depth + 1);
    g->node[g->n] = n;
    return g->n++;
}

/* ---- literals ---- */

static int const_node(struct plan_graph *g, const struct plan_ast *a, struct ctr_err *err)
{
    struct plan_node n = { .kind = NODE_CONST, .pos = a->pos, .value = a->value };
    if (a->value.kind == CTR_V_NULL && !g->src.inline_text) /* on the command line it is a condition */
        return ctr_plan_fail(&g->src, a->pos, err, "null alone has no type");
    n.type = ctr_value_type(&a->value);
    int found = find_node(g, &n);
    return found >= 0 ? found : add_node(g, n, err);
}

/* Row i of a scalar column, not null, as a literal; text is copied to the arena. */
static int scalar_value(struct plan_graph *g, const struct ctr_vtype *t, enum ctr_type type, const struct ctr_col *c,
                        int64_t i, struct ctr_value *v, struct ctr_err *err)
{
    if (type == CTR_UTF8) {
        struct ctr_str s = ctr_col_str(c, i);
        char *p = ctr_arena_copy(&g->arena, s.p, s.n, err);
        *v = (struct ctr_value){ .kind = CTR_V_STR, .s = { p, s.n } };
        g->folded += (int64_t)s.n;
        return p ? CTR_OK : err->code;
    }
    if (ctr_types[type].floating)
        *v = (struct ctr_value){ .kind = CTR_V_FLOAT, .f = ctr_col_f64(c, i) };
    else
        *v = (struct ctr_value){ .kind = type == CTR_BOOL                           ? CTR_V_BOOL
                                         : type == CTR_TIME                         ? CTR_V_TIME
                                         : t->duration                              ? CTR_V_DURATION
                                         : type == CTR_U64 && ctr_col_i64(c, i) < 0 ? CTR_V_UINT
                                                                                    : CTR_V_INT,
                                 .i = ctr_col_i64(c, i) };
    return CTR_OK;
}

/* The single row of a folded call as a literal; *ok is false if it must stay a column. */
static int column_literal(struct plan_graph *g, const struct ctr_vtype *t, const struct ctr_col *c, struct plan_ast *a,
                          bool *ok, struct ctr_err *err)
{
    *ok = !t->key && ctr_types[t->type].width + (t->type == CTR_UTF8) + (t->type == CTR_BOOL) > 0 &&
          !ctr_col_missing(c, 0);
    if (!*ok)
        return CTR_OK;
    return scalar_value(g, t, t->type, c, 0, &a->value, err);
}

/* Run a bound call without columns, once. */
static int fold_call(struct plan_graph *g, const struct ctr_op_call *call, struct plan_ast *a, bool *ok,
                     struct ctr_err *err)
{
    struct ctr_field f = ctr_vtype_field(&call->result);
    struct ctr_colbuf out;
    const struct ctr_col **none = ctr_arena_alloc(&g->arena, (size_t)CTR_MAX(call->nargs, 1) * sizeof *none, err);
    *ok = false;
    if (!none)
        return err->code;
    int rc = ctr_colbuf_init(&out, &f, err);
    if (rc == 0)
        rc = ctr_op_run(call, none, 1, &out, err);
    if (rc == 0)
        rc = column_literal(g, &call->result, ctr_colbuf_view(&out), a, ok, err);
    ctr_colbuf_free(&out);
    return rc;
}

/* ---- binding ---- */

struct binder {
    struct plan_graph *g;
    const struct plan_tree *tree;
    struct plan_ref *def; /* value of each definition so far */
    bool *failed;         /* it has none, because of an error in its line */
    const char *name;     /* of the definition being bound */
    struct plan_map sections;
    struct ctr_err *err;
};

static int bind_ast(struct binder *b, const struct plan_ast *a, struct plan_ref *r);

/* Position in a name where text like [1..3] starts; 0: none. Only a name in back quotes can contain it. */
static int range_at(const char *name)
{
    const char *open = strrchr(name, '[');
    int n = 0;
    return open && sscanf(open, "[%*9[0-9]..%*9[0-9]]%n", &n) == 0 && n && !open[n] ? (int)(open - name) : 0;
}

static int cast_node(struct plan_graph *g, int column, enum ctr_type type, struct ctr_err *err)
{
    struct plan_node n = { .kind = NODE_CAST, .pos = g->node[column].pos, .nargs = 1 };
    n.type.type = type;
    n.arg = ctr_arena_alloc(&g->arena, sizeof *n.arg, err);
    if (!n.arg)
        return err->code;
    n.arg[0] = column;
    int found = find_node(g, &n);
    return found >= 0 ? found : add_node(g, n, err);
}

static int column_node(struct binder *b, const struct plan_ast *a)
{
    struct plan_graph *g = b->g;
    int column = ctr_schema_find(g->input, a->name);
    if (column < 0 && g->faults && ctr_map_get(&g->faults->broken, a->name) >= 0)
        return ctr_fail(b->err, CTR_EUSAGE, "%s", "");
    if (column < 0) {
        int later = ctr_map_get(&b->tree->names, a->name);
        if (later >= 0 && b->tree->def[later].pos.line > a->pos.line) /* else it reads a column of its own name */
            return ctr_plan_fail(&g->src, a->pos, b->err,
                                 "no column %.60s, and line %d that defines it comes below: "
                                 "definitions stand above their use",
                                 a->name, b->tree->def[later].pos.line);
        int range = range_at(a->name);
        if (range > 0)
            return ctr_plan_fail(&g->src, a->pos, b->err,
                                 "there is no column '%.60s'; a range stands behind the back quotes: `%.*s`%s", a->name,
                                 CTR_MIN(range, 60), a->name, a->name + range);
        struct ctr_err near = { 0 };
        (void)!ctr_schema_need(g->input, a->name, &near);
        int rc = ctr_plan_fail(&g->src, a->pos, b->err, "%.*s", near.remedy ? near.remedy : (int)strlen(near.what),
                               near.what);
        if (near.remedy)
            rc = ctr_err_remedy(b->err, "%s", near.what + near.remedy);
        b->err->nearest = near.nearest;
        return rc;
    }
    if (g->input->f[column].type == CTR_FOREIGN)
        return ctr_plan_fail(&g->src, a->pos, b->err, "column '%.60s' is of type %s, which is not supported", a->name,
                             g->input->f[column].foreign);
    struct plan_node n = { .kind = NODE_COLUMN, .pos = a->pos, .column = column };
    n.type = ctr_field_vtype(&g->input->f[column]);
    int found = find_node(g, &n);
    found = found >= 0 ? found : add_node(g, n, b->err);
    return found >= 0 && g->cast && g->cast[column] != CTR_FOREIGN ? cast_node(g, found, g->cast[column], b->err)
                                                                   : found;
}

/* vocab.NAME, then vocab.NAME.2 for a second call in one definition. */
static int section_name(struct binder *b, struct plan_node *n)
{
    const char *op = ctr_op_name(n->call.op);
    size_t size = strlen(op) + strlen(b->name) + CTR_NUM_MAX;
    char *s = ctr_arena_alloc(&b->g->arena, size, b->err);
    if (!s)
        return b->err->code;
    snprintf(s, size, "%s.%s", op, b->name);
    for (int i = 2; ctr_map_get(&b->sections, s) >= 0; i++)
        snprintf(s, size, "%s.%s.%d", op, b->name, i);
    n->fit_section = s;
    return ctr_map_set(&b->sections, s, b->g->n, b->err);
}

/* Where a bare word may be meant as a text. */
static bool compares(const struct plan_ast *a)
{
    const char *op = a->op ? ctr_op_name(a->op) : "";
    return !strcmp(op, "==") || !strcmp(op, "!=");
}

/* Bind arguments as those of a node; `literals` counts those that are not columns. */
static int bind_args(struct binder *b, const struct plan_ast *a, struct plan_node *n, int *literals)
{
    struct plan_arena *arena = &b->g->arena;
    n->nargs = n->call.nargs = a->nargs;
    n->arg = ctr_arena_alloc(arena, (size_t)a->nargs * sizeof *n->arg, b->err);
    n->call.arg = ctr_arena_alloc(arena, (size_t)a->nargs * sizeof *n->call.arg, b->err);
    if (!n->arg || !n->call.arg)
        return b->err->code;
    for (int i = 0; i < a->nargs; i++) {
        struct plan_ref r;
        struct ctr_op_arg *arg = &n->call.arg[i];
        int rc = bind_ast(b, a->arg[i], &r);
        if (rc == CTR_EUSAGE && compares(a) && ctr_plan_is_column(a->arg[i]) && *b->err->what)
            ctr_err_add(b->err, "; a text stands in quotes: \"%.60s\"", a->arg[i]->name);
        if (rc < 0)
            return rc;
        n->arg[i] = r.node;
        arg->name = a->arg_name[i];
        if (r.node < 0) {
            ++*literals;
            arg->literal = &r.literal->value;
            arg->type = ctr_value_type(arg->literal);
        } else {
            arg->type = b->g->node[r.node].type;
        }
    }
    return CTR_OK;
}

static int fold(struct binder *b, const struct plan_ast *a, struct plan_node *n, struct plan_ref *r, bool *folded)
{
    struct plan_ast *lit = ctr_arena_alloc(&b->g->arena, sizeof *lit, b->err);
    if (!lit)
        return b->err->code;
    *lit = (struct plan_ast){ .kind = AST_LITERAL, .pos = a->pos, .depth = 1, .def = -1 };
    n->call.limit_bytes = CTR_MIN(PLAN_MAX_CONSTANT, PLAN_MAX_CONSTANTS - b->g->folded) + 1;
    int rc = fold_call(b->g, &n->call, lit, folded, b->err);
    if (rc == CTR_ELARGE)
        return ctr_plan_fail(
            &b->g->src, a->pos, b->err,
            "what is computed here from literals alone is longer than %d bytes, or all such texts together "
            "are longer than %d",
            PLAN_MAX_CONSTANT, PLAN_MAX_CONSTANTS);
    if (rc < 0)
        return ctr_plan_locate(&b->g->src, a->pos, b->err);
    *r = (struct plan_ref){ -1, lit };
    return CTR_OK;
}

/* Most operators accept lists only as columns: if a call with literal lists does not bind, try them as columns. */
static int bind_op(struct binder *b, struct plan_node *n)
{
    struct ctr_err first = { 0 };
    bool lists = false;
    int rc = ctr_op_bind(&n->call, &first);
    for (int i = 0; rc < 0 && rc != CTR_ENOMEM && i < n->nargs; i++)
        lists |= n->arg[i] < 0 && !n->call.arg[i].name && n->call.arg[i].literal->kind == CTR_V_LIST;
    if (rc < 0)
        ctr_op_unbind(&n->call);
    if (lists) {
        struct ctr_err second = { 0 };
        for (int i = 0; i < n->nargs; i++) {
            struct ctr_op_arg *arg = &n->call.arg[i];
            if (n->arg[i] >= 0 || arg->name || arg->literal->kind != CTR_V_LIST)
                continue;
            const struct plan_ast lit = { .value = *arg->literal };
            n->arg[i] = const_node(b->g, &lit, b->err);
            if (n->arg[i] < 0)
                return n->arg[i];
            arg->literal = NULL;
        }
        rc = ctr_op_bind(&n->call, &second);
        if (rc < 0)
            ctr_op_unbind(&n->call);
        if (rc == CTR_ENOMEM || !ctr_op_takes_literal_list(n->call.op))
            first = second;
    }
    if (rc < 0)
        *b->err = first;
    return rc;
}

/* Append to an error of a call which of its arguments are definitions that hide an input column. */
static void tell_hidden(const struct binder *b, const struct plan_ast *a)
{
    for (int i = 0; i < a->nargs; i++) {
        const struct plan_ast *arg = a->arg[i];
        const struct plan_def *d = arg->kind == AST_NAME && arg->def >= 0 ? &b->tree->def[arg->def] : NULL;
        if (d && ctr_schema_find(b->g->input, arg->name) >= 0)
            ctr_err_add(b->err, "; %.60s is that of line %d here, not the column", arg->name, d->pos.line);
    }
}

static int bind_call(struct binder *b, const struct plan_ast *a, struct plan_ref *r)
{
    struct plan_node n = {
        .kind = NODE_CALL,
        .pos = a->pos,
        .call = { .op = a->op, .dir = b->g->dir, .confined = b->g->confined, .hash_seed = b->g->key_seed }
    };
    int literals = 0, rc = bind_args(b, a, &n, &literals);
    if (rc < 0)
        return rc;
    int found = find_node(b->g, &n);
    if (found >= 0) {
        r->node = found;
        return CTR_OK;
    }
    rc = bind_op(b, &n);
    if (rc == CTR_EUSAGE)
        tell_hidden(b, a);
    if (rc == CTR_EUSAGE && compares(a) && a->nargs == 2 && ctr_plan_is_column(a->arg[1]))
        ctr_err_add(b->err, "; the text itself is \"%.60s\"", a->arg[1]->name);
    if (rc < 0)
        return ctr_plan_locate(&b->g->src, a->pos, b->err);
    found = find_node(b->g, &n); /* bind_op may have converted lists to columns */
    if (found >= 0) {
        ctr_op_unbind(&n.call);
        r->node = found;
        return CTR_OK;
    }
    for (int i = literals = 0; i < n.nargs; i++)
        literals += n.arg[i] < 0;
    bool folded = false, fitted = ctr_op_fitted(a->op);
    if (literals == a->nargs && !fitted)
        rc = fold(b, a, &n, r, &folded);
    if (rc == 0 && fitted)
        rc = section_name(b, &n);
    if (rc == 0 && !folded) {
        n.bound = true;
        n.type = n.call.result;
        rc = r->node = add_node(b->g, n, b->err);
    }
    if (rc < 0 || folded)
        ctr_op_unbind(&n.call);
    return CTR_MIN(rc, 0);
}

static int bind_ast(struct binder *b, const struct plan_ast *a, struct plan_ref *r)
{
    *r = (struct plan_ref){ -1, a };
    if (a->kind == AST_LITERAL)
        return CTR_OK;
    if (a->kind == AST_CALL)
        return bind_call(b, a, r);
    if (a->def >= 0) {
        *r = b->def[a->def];
        return b->failed[a->def] ? ctr_fail(b->err, CTR_EUSAGE, "%s", "") : CTR_OK;
    }
    r->node = column_node(b, a);
    return CTR_MIN(r->node, 0);
}

int ctr_graph_tree(struct plan_graph *g, const struct plan_tree *t, const bool *leave_out, struct ctr_err *err)
{
    struct binder b = { .g = g, .tree = t, .err = err };
    size_t n = (size_t)t->ndefs;
    b.def = ctr_arena_alloc(&g->arena, n * sizeof *b.def, err);
    g->def_node = ctr_arena_alloc(&g->arena, n * sizeof *g->def_node, err);
    b.failed = ctr_arena_alloc(&g->arena, n * sizeof *b.failed, err);
    int rc = b.def && g->def_node && b.failed ? CTR_OK : err->code;
    for (int i = 0; rc == 0 && i < t->ndefs; i++) {
        const struct plan_def *d = &t->def[i];
        b.name = d->name;
        g->def_node[i] = -1;
        if (leave_out && leave_out[i])
            continue;
        rc = bind_ast(&b, d->expr, &b.def[i]);
        if (rc == 0 && d->kind != PLAN_VALUE) {
            rc = g->def_node[i] = b.def[i].node >= 0 ? b.def[i].node : const_node(g, b.def[i].literal, err);
            rc = CTR_MIN(rc, 0);
        }
        if (rc == 0 && b.def[i].node >= 0 && d->defines && !g->node[b.def[i].node].name)
            g->node[b.def[i].node].name = d->name;
        b.failed[i] = rc < 0;
        if (rc < 0 && g->faults)
            rc = ctr_plan_keep(g->faults, err);
    }
    ctr_map_free(&b.sections);
    return rc;
}

/* ---- what roles take ---- */

static int convert_type(struct plan_graph *g, enum plan_node_kind kind, const struct ctr_vtype *from,
                        struct ctr_vtype *to, struct plan_pos pos, struct ctr_err *err)
{
    char name[128];
    bool nested = from->type == CTR_LIST || from->type == CTR_FIXED;
    enum ctr_type value = nested ? from->item : from->type;
    bool number = ctr_type_number(value) && !from->key && !from->duration;
    *to = *from;
    (void)ctr_vtype_name(from, name, sizeof name);
    switch (kind) {
    case NODE_KEYS:
        if (value == CTR_WKEY)
            return ctr_plan_fail(&g->src, pos, err, "weighted keys cannot be made into a feature");
        *to = (struct ctr_vtype){ .type = nested ? CTR_LIST : CTR_U64, .item = nested ? CTR_U64 : 0, .key = true };
        return CTR_OK;
    case NODE_DENSE:
        if (!number)
            return ctr_plan_fail(&g->src, pos, err,
                                 "dense takes numbers, or lists of numbers; this is %s (number(text) and "
                                 "int(condition) make numbers)",
                                 name);
        *to = (struct ctr_vtype){ .type = nested ? from->type : CTR_F32,
                                  .item = nested ? CTR_F32 : 0,
                                  .width = from->width };
        return CTR_OK;
    case NODE_LABEL:
        if (nested || !(number || value == CTR_BOOL))
            return ctr_plan_fail(&g->src, pos, err, "a label is a condition or a number from 0 to 1; this is %s%s",
                                 name, value == CTR_UTF8 ? " (compare it: label click = x == \"yes\")" : "");
        *to = (struct ctr_vtype){ .type = value == CTR_F64 ? CTR_F64 : ctr_types[value].floating ? CTR_F32 : CTR_U8 };
        return CTR_OK;
    default:
        if (nested || !number)
            return ctr_plan_fail(&g->src, pos, err, "a weight is a number of 0 or more; this is %s", name);
        return CTR_OK;
    }
}

int ctr_graph_convert(struct plan_graph *g, enum plan_node_kind kind, int node, const struct plan_def *d,
                      struct ctr_err *err)
{
    const struct plan_pos pos = d->pos;
    const char *table = d->table;
    struct plan_node n = { .kind = kind,
                           .pos = pos,
                           .nargs = 1,
                           .table = kind == NODE_KEYS ? table : NULL,
                           .group = kind == NODE_KEYS ? d->group : NULL };
    int rc = convert_type(g, kind, &g->node[node].type, &n.type, pos, err);
    if (rc == 0 && n.group && n.type.type != CTR_LIST)
        rc = ctr_plan_fail(&g->src, pos, err, "group %.60s is of lists that are aligned; %.60s is no list", n.group,
                           d->name);
    if (rc < 0)
        return rc;
    n.seed = kind == NODE_KEYS ? ctr_hash64(table, strlen(table), g->key_seed) : 0;
    n.arg = ctr_arena_alloc(&g->arena, sizeof *n.arg, err);
    if (!n.arg)
        return err->code;
    n.arg[0] = node;
    int found = find_node(g, &n);
    return found >= 0 ? found : add_node(g, n, err);
}

/* ---- layers ---- */

void ctr_graph_use(struct plan_graph *g, int node)
{
    g->node[node].live = g->node[node].used = true;
}

static void mark_live(struct plan_graph *g)
{
    for (int i = g->n - 1; i >= 0; i--)
        for (int k = 0; g->node[i].live && k < g->node[i].nargs; k++)
            if (g->node[i].arg[k] >= 0)
                g->node[g->node[i].arg[k]].live = true;
}

/* Fuse keys with a fitted call if nothing else reads its value: the operator can make keys without the value, except
 * for null items. */
static int fuse_keys(struct plan_graph *g, struct ctr_err *err)
{
    int *users = calloc((size_t)g->n + 1, sizeof *users);
    if (!users)
        return ctr_fail_nomem(err, (size_t)g->n * sizeof *users);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; g->node[i].live && k < g->node[i].nargs; k++)
            if (g->node[i].arg[k] >= 0)
                users[g->node[i].arg[k]]++;
    for (int i = 0; i < g->n; i++) {
        struct plan_node *n = &g->node[i], *of = n->kind == NODE_KEYS ? &g->node[n->arg[0]] : n;
        if (n->live && of->fit_section && n->kind == NODE_KEYS && users[n->arg[0]] == 1 && !of->used && !n->group)
            n->fused = of->fused = true;
    }
    free(users);
    return CTR_OK;
}

int ctr_graph_seal(struct plan_graph *g, struct ctr_err *err)
{
    int depth = 0, rc = 0;
    mark_live(g);
    if (!g->no_fusion)
        rc = fuse_keys(g, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < g->n; i++)
        if (g->node[i].live)
            depth = CTR_MAX(depth, g->node[i].depth);
    g->nlayers = depth + 1;
    g->order = calloc((size_t)g->n + 1, sizeof *g->order);
    g->layer = calloc((size_t)g->nlayers + 2, sizeof *g->layer);
    if (!g->order || !g->layer)
        return ctr_fail_nomem(err, (size_t)g->n * sizeof *g->order);
    for (int i = 0; i < g->n; i++) /* counting sort, so that a layer keeps the order of the plan */
        if (g->node[i].live)
            g->layer[g->node[i].depth + 2]++;
    for (int l = 2; l < g->nlayers + 2; l++)
        g->layer[l] += g->layer[l - 1];
    for (int i = 0; i < g->n; i++)
        if (g->node[i].live)
            g->order[g->layer[g->node[i].depth + 1]++] = i;
    g->norder = g->layer[g->nlayers];
    for (int i = 0; rc == 0 && i < g->n; i++) {
        struct plan_node *n = &g->node[i];
        struct ctr_field f = ctr_vtype_field(&n->type);
        if (!n->live || n->kind == NODE_COLUMN || n->kind == NODE_WEIGHT)
            continue;
        n->arg_col = ctr_arena_alloc(&g->arena, (size_t)n->nargs * sizeof *n->arg_col, err);
        if (!n->arg_col)
            return err->code;
        rc = ctr_colbuf_init(&n->out, &f, err);
        n->has_out = true;
    }
    return rc;
}
