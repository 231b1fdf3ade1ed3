/* SPDX-License-Identifier: Apache-2.0
 *
 * program: a plan bound to a schema. Output columns are in plan order; the result of a batch depends only on the plan,
 * its fitted state and the batch.
 */
#include "common/plan/program.h"

#include <stdio.h>
#include <stdlib.h>

/* Binding the plan
 *
 *     value hour = hour_of_day(time)
 *     label click
 *     feature ad
 *     feature ad_hour = cross(ad, hour)
 *
 * to columns time, click and ad gives these nodes (plan_graph.c), and then, as each role converts its value, outputs:
 *
 *     0 column time     1 call hour_of_day(0)             value hour: no output
 *     2 column click    3 label(2)           -> click     uint8, role label
 *     4 column ad       5 keys(4)            -> ad        uint64, role feature, table ad
 *     6 call cross(4, 1)   7 keys(6)         -> ad_hour   node 6 is fused: keys of its values are made without them
 *
 * What a node depends on gives its output's metadata: the side (user or ad) if all its columns agree, the history
 * whose items it follows, and whether it stays dictionary-encoded (find_shared): where ad comes with a dictionary,
 * nodes 4 and 5 are computed once an entry. */

/* ---- outputs ---- */

static enum plan_node_kind role_conversion(const struct plan_def *d)
{
    if (d->kind != PLAN_ROLE)
        return NODE_COLUMN; /* unchanged */
    switch (d->role) {
    case CTR_ROLE_FEATURE:
    case CTR_ROLE_IMAGE: return NODE_KEYS;
    case CTR_ROLE_DENSE: return NODE_DENSE;
    case CTR_ROLE_LABEL: return NODE_LABEL;
    case CTR_ROLE_WEIGHT: return NODE_WEIGHT;
    default: return NODE_COLUMN;
    }
}

static bool plan_has_role(const struct plan_tree *t, int role)
{
    for (int i = 0; i < t->ndefs; i++)
        if (t->def[i].kind == PLAN_ROLE && (int)t->def[i].role == role)
            return true;
    return false;
}

/* Sets ctr.side of a node to that of all columns it depends on, if they agree. history_of and group come from the
 * column that it follows item by item. Arguments come before their users. */
static void find_sides(struct ctr_program *g)
{
    static const char mixed[] = "";
    for (int i = 0; i < g->graph.n; i++) {
        struct plan_node *n = &g->graph.node[i];
        if (n->kind == NODE_COLUMN) {
            const struct ctr_meta *m = &g->input.f[n->column].meta;
            n->side = ctr_meta_get(m, CTR_META_SIDE);
            n->past = ctr_meta_get(m, CTR_META_HISTORY_OF);
            n->group = ctr_meta_get(m, CTR_META_HISTORY);
            n->order = ctr_meta_get(m, CTR_META_ORDER);
            continue;
        }
        if (n->nargs && n->arg[0] >= 0 && (n->kind != NODE_CALL || ctr_op_lifted(&n->call))) {
            n->past = g->graph.node[n->arg[0]].past;
            n->order = g->graph.node[n->arg[0]].order;
            n->group = n->group ? n->group : g->graph.node[n->arg[0]].group; /* the plan overrides */
        }
        bool first = true;
        for (int k = 0; k < n->nargs; k++) {
            if (n->arg[k] < 0)
                continue;
            const char *side = g->graph.node[n->arg[k]].side;
            bool same = first || (!side == !n->side && (!side || strcmp(side, n->side) == 0));
            n->side = same ? side : mixed;
            first = false;
        }
    }
}

/* Common features ("Image Matters" of Ge et al., CIKM 2018, section 7.2): a value that depends on a single dictionary
 * is computed once per entry, and output rows refer to it. Not for fitted operators, which count rows, nor for
 * operators that turn a null into a value. */
static void find_shared(struct ctr_program *g)
{
    for (int i = 0; i < g->graph.n; i++) {
        struct plan_node *n = &g->graph.node[i];
        int columns = 0, only = -1;
        for (int k = 0; k < n->nargs; k++)
            if (n->arg[k] >= 0) {
                columns++;
                only = n->arg[k];
            }
        if (n->kind == NODE_COLUMN)
            n->shared = g->input.f[n->column].dict;
        else if (n->kind == NODE_CALL)
            n->shared = columns == 1 && g->graph.node[only].shared && ctr_op_shares(&n->call);
        else if (n->kind == NODE_KEYS || n->kind == NODE_DENSE)
            n->shared = g->graph.node[only].shared;
    }
}

void ctr_program_look_at_rows(struct ctr_program *g)
{
    g->graph.no_fusion = true;
    for (int i = 0; i < g->output.n; i++) {
        const struct plan_node *n = &g->graph.node[g->node[i]];
        if (n->shared && n->kind != NODE_COLUMN)
            g->output.f[i].dict = false;
    }
}

static bool is_keyed(const struct plan_def *d)
{
    return d->kind == PLAN_ROLE && (d->role == CTR_ROLE_FEATURE || d->role == CTR_ROLE_IMAGE);
}

/* reads[i]: node i depends on the input column `name`, or is it. */
static void find_readers(const struct ctr_program *g, const char *name, bool *reads)
{
    for (int i = 0; i < g->graph.n; i++) {
        const struct plan_node *n = &g->graph.node[i];
        reads[i] = n->kind == NODE_COLUMN && !strcmp(g->input.f[n->column].name, name);
        for (int k = 0; k < n->nargs && !reads[i]; k++)
            reads[i] = n->arg[k] >= 0 && reads[n->arg[k]];
    }
}

/* The only feature of output i's table that is not a history and reads the column whose history output i is; NULL:
 * none, or more than one. */
static const char *find_present(const struct ctr_program *g, int i, int nout, const bool *reads)
{
    const char *found = NULL;
    for (int k = 0; k < nout; k++) {
        const struct plan_node *n = &g->graph.node[g->node[k]];
        if (!is_keyed(g->def[k]) || n->past || n->group || g->def[k]->of || !reads[g->node[k]] ||
            strcmp(g->def[k]->table, g->def[i]->table) != 0)
            continue;
        if (found)
            return NULL;
        found = g->def[k]->column;
    }
    return found;
}

/* The column of the feature of that name; NULL stays NULL. */
static const char *column_of(const struct ctr_program *g, int nout, const char *name)
{
    for (int i = 0; name && i < nout; i++)
        if (is_keyed(g->def[i]) && !strcmp(g->def[i]->name, name))
            return g->def[i]->column;
    return name;
}

/* past[i]: the feature whose history output i is, or NULL: from the plan, else from the metadata of its column. */
static int find_pasts(const struct ctr_program *g, int nout, const char **past, struct ctr_err *err)
{
    const char *column = NULL; /* the column for which `reads` holds */
    bool *reads = calloc((size_t)g->graph.n + 1, sizeof *reads);
    if (!reads)
        return ctr_fail_nomem(err, (size_t)g->graph.n);
    for (int i = 0; i < nout; i++) {
        const char *of = g->graph.node[g->node[i]].past;
        past[i] = column_of(g, nout, g->def[i]->of);
        if (past[i] || !of || !is_keyed(g->def[i]))
            continue;
        if (!column || strcmp(column, of) != 0)
            find_readers(g, column = of, reads);
        past[i] = find_present(g, i, nout, reads);
    }
    free(reads);
    return 0;
}

/* A feature is the history of a feature; another column that of a column. */
static int history_meta(const struct ctr_program *g, struct ctr_field *f, const struct plan_def *d, int node,
                        const char *past, struct ctr_err *err)
{
    const struct plan_node *n = &g->graph.node[node];
    const char *group = n->group ? n->group : past ? d->column : NULL;
    const char *of = is_keyed(d) ? past : n->kind == NODE_CALL ? NULL : n->past;
    int rc = ctr_meta_set(&f->meta, CTR_META_HISTORY_OF, of, err);
    if (!rc)
        rc = ctr_meta_set(&f->meta, CTR_META_ORDER, d->order ? d->order : n->order, err);
    return rc ? rc : ctr_meta_set(&f->meta, CTR_META_HISTORY, group, err);
}

static int output_field(struct ctr_program *g, const struct plan_def *d, int node, const char *past,
                        struct ctr_err *err)
{
    const struct plan_node *n = &g->graph.node[node];
    int rc;
    if (n->kind == NODE_COLUMN)
        rc = ctr_schema_add_field(&g->output, &g->input.f[n->column], d->column, err);
    else
        rc = ctr_schema_add(&g->output, d->column, n->type.type, err);
    if (rc < 0)
        return rc;
    struct ctr_field *f = &g->output.f[g->output.n - 1];
    int role = d->kind == PLAN_ROLE ? (int)d->role : -1, own = ctr_field_role(f);
    if (n->kind != NODE_COLUMN) {
        f->item = n->type.item;
        f->width = n->type.width;
        f->dict = n->shared;
        rc = n->side && *n->side ? ctr_meta_set(&f->meta, CTR_META_SIDE, n->side, err) : 0;
    }
    rc = CTR_MIN(rc, 0);
    if (rc == 0)
        rc = history_meta(g, f, d, node, past, err);
    if (role >= 0)
        rc = rc < 0 ? rc : ctr_field_set_role(f, (enum ctr_role)role, err);
    else if (own >= 0 && plan_has_role(&g->plan->tree, own)) /* the plan itself defines that role */
        rc = rc < 0 ? rc : ctr_meta_set(&f->meta, CTR_META_ROLE, NULL, err);
    if (rc == 0 && (role == CTR_ROLE_FEATURE || role == CTR_ROLE_IMAGE))
        rc = ctr_meta_set(&f->meta, CTR_META_TABLE, d->table, err);
    return rc;
}

static int bind_outputs(struct ctr_program *g, struct ctr_err *err)
{
    const struct plan_tree *t = &g->plan->tree;
    int rc = 0, nout = 0;
    for (int i = 0; rc == 0 && i < t->ndefs; i++) {
        const struct plan_def *d = &t->def[i];
        if (d->kind == PLAN_VALUE || g->leave_out[i] || (g->roles && !ctr_plan_in_roles(d, g->roles)))
            continue;
        int node = g->graph.def_node[i];
        enum plan_node_kind kind = g->roles ? NODE_COLUMN : role_conversion(d);
        if (node < 0) /* its line has an error */
            continue;
        if (kind != NODE_COLUMN)
            node = ctr_graph_convert(&g->graph, kind, node, d, err);
        if (node < 0) {
            if ((rc = ctr_plan_keep(&g->faults, err)) < 0)
                return rc;
            continue;
        }
        if (kind == NODE_LABEL || kind == NODE_WEIGHT || kind == NODE_DENSE)
            g->graph.node[node].role_name = d->name;
        g->node[nout] = node;
        g->def[nout++] = d;
    }
    rc = ctr_plan_raise(&t->src, &g->faults, err);
    find_sides(g);
    find_shared(g);
    const char **past = calloc((size_t)nout + 1, sizeof *past);
    if (rc == 0)
        rc = past ? find_pasts(g, nout, past, err) : ctr_fail_nomem(err, (size_t)nout * sizeof *past);
    for (int i = 0; rc == 0 && i < nout; i++)
        rc = output_field(g, g->def[i], g->node[i], past[i], err);
    free((void *)past);
    if (rc == 0 && !g->output.n && !g->roles)
        return ctr_plan_fail(&t->src, (struct plan_pos){ 0 }, err,
                             "the plan writes no column; a line such as "
                             "`feature NAME` or `keep NAME` does");
    return rc;
}

static int output_meta(struct ctr_program *g, struct ctr_err *err)
{
    struct ctr_meta *m = &g->output.meta;
    int rc = ctr_meta_copy(m, &g->input.meta, err);
    if (rc == 0)
        rc = ctr_meta_set(m, CTR_META_SECTION, NULL, err);
    if (rc == 0)
        rc = ctr_meta_set(m, CTR_META_SECTIONS, NULL, err);
    return rc < 0 ? rc : ctr_plan_to_meta(g->plan, &g->input, m, err);
}

static int load_fitted(struct ctr_program *g, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && g->plan->nsections && i < g->graph.n; i++) {
        struct plan_node *n = &g->graph.node[i];
        if (!n->fit_section)
            continue;
        const struct plan_section *s = ctr_plan_section(g->plan, n->fit_section);
        if (!s)
            return ctr_plan_fail(&g->graph.src, n->pos, err, "the fitted state %.80s is missing; fit the plan again",
                                 n->fit_section);
        if (ctr_batchbuf_rows(&s->rows))
            rc = ctr_op_fit_load(&n->call, ctr_batchbuf_view((struct ctr_batchbuf *)&s->rows), err);
        if (rc == 0)
            rc = ctr_op_fit_finish(&n->call, err);
        n->fit_ready = rc == 0;
    }
    return rc;
}

int ctr_program_bind(struct ctr_program **out, struct ctr_plan *p, const struct ctr_schema *input, struct ctr_err *err)
{
    return ctr_program_bind_roles(out, p, input, 0, err);
}

int ctr_program_bind_roles(struct ctr_program **out, struct ctr_plan *p, const struct ctr_schema *input, unsigned roles,
                           struct ctr_err *err)
{
    struct ctr_program *g = calloc(1, sizeof *g);
    const struct ctr_lookups lookups = ctr_plan_lookups(p);
    size_t n = (size_t)p->tree.ndefs + 1;
    *out = NULL;
    if (!g)
        return ctr_fail_nomem(err, sizeof *g);
    g->plan = p;
    g->roles = roles;
    g->node = calloc(n, sizeof *g->node);
    g->def = calloc(n, sizeof *g->def);
    g->col = calloc(n, sizeof *g->col);
    int rc =
        g->node && g->def && g->col ? ctr_schema_copy(&g->input, input, err) : ctr_fail_nomem(err, n * sizeof *g->col);
    if (rc == 0)
        rc = ctr_graph_init(&g->graph, &p->tree.src, &g->input, lookups.dir, err);
    g->graph.key_seed = p->key_seed;
    if (rc == 0)
        rc = ctr_plan_check_secret(p, err);
    g->graph.confined = lookups.confined;
    if (rc == 0)
        rc = ctr_plan_leave_out(p, input, &g->leave_out, err);
    if (rc == 0 && roles)
        rc = ctr_plan_leave_others_out(p, roles, g->leave_out, err);
    if (rc == 0)
        rc = ctr_inputs_bind(p, &g->input, &g->cast, err);
    g->graph.cast = g->cast;
    g->faults = p->tree.faults;
    g->graph.faults = &g->faults;
    if (rc == 0)
        rc = ctr_graph_tree(&g->graph, &p->tree, g->leave_out, err);
    if (rc == 0)
        rc = bind_outputs(g, err);
    if (rc == 0)
        rc = output_meta(g, err);
    if (rc == 0)
        rc = load_fitted(g, err);
    if (rc < 0)
        ctr_program_free(g);
    else
        *out = g;
    return rc;
}

void ctr_program_free(struct ctr_program *g)
{
    if (!g)
        return;
    ctr_names_free(g->names);
    ctr_graph_free(&g->graph);
    ctr_pool_free(g->pool);
    ctr_schema_free(&g->input);
    ctr_schema_free(&g->output);
    free(g->node);
    free(g->def);
    free(g->col);
    ctr_part_free(&g->slice);
    free(g->leave_out);
    free(g->cast);
    free(g);
}

const struct ctr_schema *ctr_program_output(const struct ctr_program *g)
{
    return &g->output;
}

bool ctr_program_unlabelled(const struct ctr_program *g)
{
    for (int i = 0; i < g->plan->tree.ndefs; i++)
        if (g->leave_out[i])
            return true;
    return false;
}

/* ---- running ---- */

int ctr_program_threads(struct ctr_program *g, int threads, struct ctr_err *err)
{
    int rc = threads > 1 && !g->pool ? ctr_pool_new(&g->pool, threads, CTR_FLOAT_IEEE, err) : CTR_OK;
    g->graph.pool = g->pool;
    return rc;
}

static int use_outputs(struct ctr_program *g, struct ctr_err *err)
{
    for (int i = 0; i < g->graph.n; i++) {
        const struct plan_node *n = &g->graph.node[i];
        if (n->fit_section && !n->fit_ready)
            return ctr_plan_fail(&g->graph.src, n->pos, err,
                                 "%s must be fitted first: ctr-extract --fit PLAN -o FITTED FILE…",
                                 ctr_op_name(n->call.op));
    }
    for (int i = 0; i < g->output.n; i++)
        ctr_graph_use(&g->graph, g->node[i]);
    return CTR_OK;
}

/* A fitted call reads node `inner`, which is fitted, too. */
static int fail_nested(struct ctr_program *g, int inner, struct ctr_err *err)
{
    const struct plan_graph *p = &g->graph;
    const struct plan_tree *t = &g->plan->tree;
    const struct plan_node *n = &p->node[inner];
    bool *reads = calloc((size_t)p->n + 1, sizeof *reads);
    int outer = inner;
    if (!reads)
        return ctr_fail_nomem(err, (size_t)p->n);
    reads[inner] = true;
    for (int i = inner + 1; i < p->n && outer == inner; i++) {
        for (int k = 0; k < p->node[i].nargs; k++)
            reads[i] |= p->node[i].arg[k] >= 0 && reads[p->node[i].arg[k]];
        outer = reads[i] && p->node[i].fit_section ? i : inner;
    }
    free(reads);
    for (int d = 0; d < t->ndefs; d++)
        if (p->def_node[d] >= 0 && t->def[d].defines && n->name && !strcmp(t->def[d].name, n->name) &&
            ctr_schema_find(&g->input, n->name) >= 0)
            return ctr_plan_fail(&p->src, p->node[outer].pos, err,
                                 "%.60s is that of line %d here, the result of %s, which is fitted too, and not the "
                                 "column: give that line another name, such as `%.60s_%s`",
                                 n->name, t->def[d].pos.line, ctr_op_name(n->call.op), n->name,
                                 ctr_op_name(n->call.op));
    return ctr_plan_fail(&p->src, n->pos, err,
                         "another fitted operator reads the result of this %s; put this "
                         "one into a plan of its own that keeps its result, fit and extract with it, and fit the "
                         "other plan over its output",
                         ctr_op_name(n->call.op));
}

/* For fitting: use the inputs of fitted operators; these must not be fitted themselves. */
static int use_fitted(struct ctr_program *g, struct ctr_err *err)
{
    struct plan_graph *p = &g->graph;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; p->node[i].fit_section && k < p->node[i].nargs; k++)
            if (p->node[i].arg[k] >= 0)
                ctr_graph_use(p, p->node[i].arg[k]);
    for (int i = p->n - 1; i >= 0; i--)
        for (int k = 0; p->node[i].live && k < p->node[i].nargs; k++)
            if (p->node[i].arg[k] >= 0)
                ctr_graph_use(p, p->node[i].arg[k]);
    for (int i = 0; i < p->n; i++)
        if (p->node[i].live && p->node[i].fit_section)
            return fail_nested(g, i, err);
    return CTR_OK;
}

int ctr_program_prepare(struct ctr_program *g, enum program_mode mode, struct ctr_err *err)
{
    if (g->mode == mode)
        return CTR_OK;
    if (g->mode != PROGRAM_BOUND)
        return ctr_fail(err, CTR_EUSAGE, "a program is either fitted or run; bind it again");
    int rc = mode == PROGRAM_FIT ? use_fitted(g, err) : use_outputs(g, err);
    if (rc == 0)
        rc = ctr_graph_seal(&g->graph, err);
    if (rc == 0)
        g->mode = mode;
    return rc;
}

/* Count the values of vocabularies, and those not in them. */
static void count_unknown(struct ctr_program *g)
{
    for (int i = 0; i < g->graph.n; i++) {
        struct plan_node *n = &g->graph.node[i], *of = n->fused && n->kind == NODE_KEYS ? &g->graph.node[n->arg[0]] : n;
        if (n->live && of->fit_section && (n == of ? !n->fused : true))
            ctr_op_fit_count(&of->call, &n->out, n == of ? NULL : &n->seed, &of->values, &of->unknown);
    }
}

static bool has_float_keys(const struct ctr_program *g, const struct plan_node *n)
{
    const struct plan_node *of = n->kind == NODE_KEYS ? &g->graph.node[n->arg[0]] : NULL;
    return n->live && of && of->kind == NODE_COLUMN && (of->type.type == CTR_F32 || of->type.type == CTR_F64);
}

/* Count the keys of floats: nearly each row may have its own. */
static int count_floats(struct ctr_program *g, struct ctr_err *err)
{
    for (int i = 0; i < g->graph.n; i++) {
        struct plan_node *n = &g->graph.node[i];
        if (!has_float_keys(g, n))
            continue;
        if (!n->sketch) {
            n->sketch = ctr_arena_alloc(&g->graph.arena, PLAN_SKETCH_BITS / 8, err);
            if (!n->sketch)
                return err->code;
            memset(n->sketch, 0, PLAN_SKETCH_BITS / 8);
        }
        for (int64_t k = 0; k < n->col->rows; k++) {
            const uint64_t bit = ctr_mix64((uint64_t)ctr_col_i64(n->col, k)) % PLAN_SKETCH_BITS;
            n->sketch[bit / 64] |= (uint64_t)1 << bit % 64;
        }
    }
    return 0;
}

/* Feature i that is a plain column of floats (NULL past the last), and about how many keys it has made. Up to some
 * millions are told apart. Linear counting (Whang et al. 1990): of n keys, about m (1 - exp(-n / m)) of m bits are
 * set. */
static const char *float_keys(const struct ctr_program *g, int i, int64_t *keys)
{
    for (int k = 0; k < g->graph.n; k++) {
        const struct plan_node *n = &g->graph.node[k];
        if (!has_float_keys(g, n) || !n->sketch || i-- > 0)
            continue;
        int64_t set = 0;
        for (int w = 0; w < PLAN_SKETCH_BITS / 64; w++)
            set += __builtin_popcountll(n->sketch[w]);
        const double left = (double)CTR_MAX(PLAN_SKETCH_BITS - set, 1) / PLAN_SKETCH_BITS;
        *keys = (int64_t)(-PLAN_SKETCH_BITS * ctr_log(left) + 0.5);
        return n->table;
    }
    return NULL;
}

void ctr_program_tell_floats(const struct ctr_program *g, int64_t rows, void (*note)(void *ctx, const char *text),
                             void *ctx)
{
    enum { MANY = 1000 };
    const char *name;
    int64_t keys;
    for (int i = 0; i < g->graph.n; i++) {
        const struct plan_node *n = &g->graph.node[i];
        const struct ctr_col one = { .type = CTR_F64, .rows = 1, .data = &n->large };
        struct ctr_rule_text why;
        char text[1024];
        if (!n->large_row)
            continue;
        ctr_number_why(&one, 0, n->role_name, &why);
        snprintf(text, sizeof text, "row %lld: %s, and infinite in the features; %s", (long long)n->large_row, why.what,
                 why.hint);
        note(ctx, text);
    }
    for (int i = 0; (name = float_keys(g, i, &keys)); i++) {
        char text[1024];
        if (keys < MANY)
            continue;
        snprintf(
            text, sizeof text,
            "feature %s makes about %lld keys of %lld rows, one for each number: quantiles(x, 10) makes ranges, and "
            "dense log_scale(x) a number",
            name, (long long)keys, (long long)rows);
        note(ctx, text);
    }
}

/* ---- what is left on the GPU ---- */

static bool is_output_twice(const struct ctr_program *g, int column)
{
    int outputs = 0;
    for (int i = 0; i < g->output.n; i++)
        outputs += g->node[i] == g->node[column];
    return outputs > 1;
}

/* Why the keys of output `column` cannot be, or NULL. */
static const char *not_left(const struct ctr_program *g, int column, enum ctr_type type)
{
    const struct plan_node *n = &g->graph.node[g->node[column]];
    const struct {
        bool is;
        const char *why;
    } reasons[] = { { n->kind != NODE_KEYS || !n->on_gpu, "the CPU makes some" },
                    { g->output.f[column].type != type, "some are in lists" },
                    { has_float_keys(g, n), "those of floats are counted" },
                    { is_output_twice(g, column), "two features have the same" } };
    for (size_t i = 0; i < CTR_COUNT(reasons); i++)
        if (reasons[i].is)
            return reasons[i].why;
    return NULL;
}

/* Can the number of output `column` be? A column of the input goes up for it, as for any other node. */
static bool leaves_number(const struct ctr_program *g, int column)
{
    const struct plan_node *n = &g->graph.node[g->node[column]];
    const struct plan_node *of = n->kind == NODE_DENSE && n->type.type == CTR_F32 ? &g->graph.node[n->arg[0]] : NULL;
    return of && (of->on_gpu || of->kind == NODE_COLUMN || of->kind == NODE_CAST) && !is_output_twice(g, column);
}

/* Why what *l names cannot be, or NULL. */
static const char *none_left(const struct ctr_program *g, const struct ctr_leave *l)
{
    const char *why = NULL;
    for (int i = 0; i < l->n && !why; i++)
        why = not_left(g, l->column[i], CTR_U64);
    for (int i = 0; i < l->lists && !why; i++)
        why = not_left(g, l->list[i], CTR_LIST);
    return why;
}

/* The nodes of n output columns, in *room. */
static const int *nodes_of(const struct ctr_program *g, const int *column, int n, int **room)
{
    int *node = *room;
    for (int i = 0; i < n; i++)
        node[i] = g->node[column[i]];
    *room += n;
    return node;
}

int ctr_program_leave(struct ctr_program *g, const struct ctr_leave *l, const char **why, struct ctr_err *err)
{
    const size_t n = (size_t)l->n + (size_t)l->lists + (size_t)l->numbers;
    struct ctr_leave nodes = *l;
    if ((*why = none_left(g, l)))
        return 0;
    int *room = malloc((n + 1) * sizeof *room), *next = room;
    if (!room)
        return ctr_fail_nomem(err, n * sizeof *room);
    for (int i = 0; i < l->numbers; i++)
        nodes.numbers = leaves_number(g, l->number[i]) ? nodes.numbers : 0;
    nodes.column = nodes_of(g, l->column, l->n, &next);
    nodes.list = nodes_of(g, l->list, l->lists, &next);
    nodes.number = nodes_of(g, l->number, l->numbers, &next);
    const int rc = ctr_graph_leave_gpu(&g->graph, &nodes, err);
    if (!rc)
        *why = "more batches wait for the learner than the GPU has buffers for";
    free(room);
    return rc;
}

/* ---- parts of a batch ---- */

enum { LEAST_NODE_BYTES = 64 << 10 };

void ctr_program_memory(struct ctr_program *g, int64_t bytes)
{
    g->memory_bytes = bytes;
}

/* A quarter of the memory is for results of variable size, a quarter for those of fixed size, an eighth for the input
 * values; the rest is for operators' other needs and for the output. */
static void set_limits(struct ctr_program *g)
{
    const int64_t memory = g->memory_bytes ? g->memory_bytes : INT64_C(1) << 30;
    int64_t variable = 1, row = 1;
    for (int i = 0; i < g->graph.n; i++) {
        const struct plan_node *n = &g->graph.node[i];
        const bool sized = n->type.type == CTR_UTF8 || n->type.type == CTR_LIST;
        variable += n->live && n->has_out && sized;
        row += n->live && n->has_out ? CTR_MAX(n->type.width, 1) * INT64_C(8) : 0;
    }
    g->graph.limit_bytes = CTR_MIN(PLAN_NODE_BYTES, CTR_MAX(memory / 4 / variable, LEAST_NODE_BYTES));
    g->input_bytes = memory / 8;
    g->part = CTR_MAX(memory / 4 / row, 1);
}

/* Do the plan's input values of these rows take too much memory? Dictionaries are counted only if they might. */
static bool reads_much(const struct ctr_program *g, int64_t n)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->graph.n && bytes <= g->input_bytes; i++) {
        const struct plan_node *node = &g->graph.node[i];
        if (!node->live || node->kind != NODE_COLUMN)
            continue;
        const struct ctr_col *c = &g->whole->col[node->column];
        if (!c->dict || ctr_col_bytes(c->dict, 0, c->dict->rows) > (g->input_bytes - bytes) / CTR_MAX(n, 1))
            bytes += ctr_col_bytes(c, g->at, n);
    }
    return bytes > g->input_bytes;
}

static int64_t half(int64_t n)
{
    n = (n + 1) / 2;
    return n < 16 ? n : (n + 7) / 8 * 8; /* a multiple of 8, so that bitmaps need no shift */
}

int ctr_program_begin(struct ctr_program *g, const struct ctr_batch *in, enum program_mode mode, struct ctr_err *err)
{
    int rc = ctr_program_prepare(g, mode, err);
    if (rc == 0 && !g->part)
        set_limits(g);
    g->whole = in;
    g->at = 0;
    g->begun = false;
    return rc;
}

int ctr_program_part(struct ctr_program *g, const struct ctr_batch **b, struct ctr_err *err)
{
    const int64_t rows = g->whole->rows;
    int64_t n = CTR_MIN(rows - g->at, g->part);
    int rc = 0;
    *b = g->whole;
    if (g->at == rows && (rows || g->begun))
        return 0;
    g->begun = true;
    while (n > 1 && reads_much(g, n))
        n = half(n);
    for (;; n = half(n)) {
        if (n < rows) {
            rc = ctr_batch_part(&g->slice, g->whole, g->at, n, err);
            *b = &g->slice.batch;
        }
        if (rc == 0)
            rc = ctr_graph_run(&g->graph, *b, err);
        if (rc != CTR_ELARGE || n <= 1)
            break;
        *err = (struct ctr_err){ 0 };
    }
    if (rc == CTR_ELARGE) {
        const struct ctr_err why = *err;
        rc = ctr_fail(err, CTR_EDATA, "row %lld: %s: shorten its lists or texts, or give more --memory%s",
                      (long long)((*b)->first_row + 1), why.what, g->graph.gpu ? " or --device-memory" : "");
    }
    g->at += n;
    g->part = n < CTR_MIN(rows - g->at + n, g->part) ? n : g->part;
    return rc < 0 ? rc : 1;
}

int ctr_program_run(struct ctr_program *g, const struct ctr_batch *in, const struct ctr_batch **out,
                    struct ctr_err *err)
{
    int rc = ctr_program_begin(g, in, PROGRAM_RUN, err);
    *out = NULL;
    if (rc == 0)
        rc = ctr_program_more(g, out, err);
    return CTR_MIN(rc, 0);
}

int ctr_program_more(struct ctr_program *g, const struct ctr_batch **out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_program_part(g, &b, err);
    if (rc > 0 && g->names) {
        const int named = ctr_names_update(g, err);
        rc = named < 0 ? named : rc;
    }
    if (rc <= 0)
        return rc;
    count_unknown(g);
    if (count_floats(g, err))
        return err->code;
    for (int i = 0; i < g->output.n; i++)
        g->col[i] = *g->graph.node[g->node[i]].col;
    g->batch = (struct ctr_batch){ &g->output, b->rows, b->first_row, g->col, ctr_graph_left_gpu(&g->graph) };
    *out = &g->batch;
    return 1;
}

const char *ctr_program_unknown(const struct ctr_program *g, int i, int64_t *values, int64_t *unknown)
{
    for (int k = 0; k < g->graph.n; k++) {
        const struct plan_node *n = &g->graph.node[k];
        if (!n->fit_section || i-- > 0)
            continue;
        *values = n->values;
        *unknown = n->unknown;
        return n->fit_section;
    }
    return NULL;
}
