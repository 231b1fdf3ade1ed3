/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_run: runs a batch through a graph. A layer's nodes depend only on earlier layers, so any number of threads may
 * run them; each node writes its own buffer, so the bytes do not depend on threads.
 */
#include <math.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/plan/plancore.h"

/* ---- constants ---- */

static int append_value(struct ctr_colbuf *b, const struct ctr_value *v, struct ctr_err *err)
{
    int rc = 0;
    switch (v->kind) {
    case CTR_V_NULL: return ctr_colbuf_null(b, err);
    case CTR_V_FLOAT: return ctr_colbuf_f64(b, v->f, err);
    case CTR_V_STR: return ctr_colbuf_str(b, v->s.p, v->s.n, err);
    case CTR_V_LIST:
        for (int i = 0; rc == 0 && i < v->n; i++)
            rc = append_value(b->item, &v->list[i], err);
        return rc < 0 ? rc : ctr_colbuf_close(b, err);
    default: return ctr_colbuf_i64(b, v->i, err);
    }
}

static int64_t value_bytes(const struct ctr_value *v)
{
    int64_t bytes = v->kind == CTR_V_STR ? (int64_t)v->s.n : 8;
    for (int i = 0; i < v->n; i++)
        bytes += value_bytes(&v->list[i]);
    return bytes;
}

/* A constant column is filled once and grows on demand. */
static int run_const(const struct plan_graph *g, struct plan_node *n, int64_t rows, struct ctr_err *err)
{
    const int64_t bytes = value_bytes(&n->value) * rows;
    int rc = rows > 1 && bytes > g->limit_bytes ? ctr_op_too_large(bytes, g->limit_bytes, err) : 0;
    if (n->out.rows > rows)
        ctr_colbuf_clear(&n->out);
    while (rc == 0 && n->out.rows < rows)
        rc = append_value(&n->out, &n->value, err);
    return rc;
}

/* ---- what roles take ---- */

static int check(const struct plan_graph *g, struct plan_node *n, const struct ctr_col *c, const double **v,
                 struct ctr_err *err)
{
    enum ctr_role role = n->kind == NODE_LABEL ? CTR_ROLE_LABEL : CTR_ROLE_WEIGHT;
    const struct plan_node *from = &g->node[n->arg[0]];
    if (from->kind == NODE_COLUMN)
        return ctr_col_checked(c, role, g->input->f[from->column].name, g->batch->first_row, &n->scratch, v, err);
    return ctr_col_checked_made(c, role, n->role_name, g->batch->first_row, &n->scratch, v, err);
}

/* All rows as doubles, with NaN for null, in n->scratch. */
static int to_doubles(struct plan_node *n, const struct ctr_col *c, const double **v, struct ctr_err *err)
{
    ctr_buf_clear(&n->scratch);
    int rc = ctr_buf_reserve(&n->scratch, (size_t)c->rows * sizeof(double), err);
    if (rc < 0)
        return rc;
    ctr_col_to_f64(c, NAN, (double *)n->scratch.data);
    *v = (const double *)n->scratch.data;
    return CTR_OK;
}

static int run_label(const struct plan_graph *g, struct plan_node *n, const struct ctr_col *c, struct ctr_err *err)
{
    const double *v = NULL;
    int rc = check(g, n, c, &v, err);
    for (int64_t i = 0; rc == 0 && i < c->rows; i++)
        rc = n->type.type == CTR_U8 ? ctr_colbuf_i64(&n->out, v[i] != 0, err) : ctr_colbuf_f64(&n->out, v[i], err);
    return rc;
}

/* Is one of the numbers infinite? The features are float32. */
CTR_FAST static bool has_infinite(const struct ctr_colbuf *b)
{
    const float *x = (const float *)(const void *)b->data.data;
    int64_t infinite = 0;
    for (int64_t i = 0; i < b->rows; i++)
        infinite += fabsf(x[i]) == INFINITY;
    return infinite > 0;
}

/* Remember the first number of the rows that only float32 makes infinite. */
static void find_large(const struct plan_graph *g, struct plan_node *n, const struct ctr_col *rows)
{
    for (int64_t i = 0; i < rows->rows && !n->large_row; i++) {
        int64_t at = i, end = i + 1;
        const struct ctr_col *c = n->type.type == CTR_F32 ? rows : ctr_col_items(rows, n->type.width, i, &at, &end);
        for (; c && at < end && !n->large_row; at++) {
            const double x = ctr_col_missing(c, at) ? 0 : ctr_col_f64(c, at);
            if (fabs(x) < INFINITY && fabsf((float)x) == INFINITY) {
                n->large = x;
                n->large_row = g->batch->first_row + i + 1;
            }
        }
    }
}

/* Append the numbers of c as float32; null stays null. */
static int append_f32(struct plan_node *n, const struct ctr_col *c, struct ctr_err *err)
{
    const double *v;
    int rc = to_doubles(n, c, &v, err);
    bool nulls = c->nulls || (c->dict && c->dict->nulls);
    if (rc == 0)
        rc = ctr_buf_reserve(&n->out.data, (size_t)c->rows * sizeof(float), err);
    for (int64_t i = 0; rc == 0 && i < c->rows; i++)
        rc = nulls && ctr_col_missing(c, i) ? ctr_colbuf_null(&n->out, err) : ctr_colbuf_f64(&n->out, v[i], err);
    return rc;
}

static int append_f32_lists(struct plan_node *n, const struct ctr_col *c, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < c->rows; i++) {
        int64_t from = 0, to = 0;
        const struct ctr_col *item = ctr_col_items(c, n->type.width, i, &from, &to);
        for (; rc == 0 && from < to; from++)
            rc = ctr_col_missing(item, from) ? ctr_colbuf_null(n->out.item, err)
                                             : ctr_colbuf_f64(n->out.item, ctr_col_f64(item, from), err);
        if (rc == 0)
            rc = item ? ctr_colbuf_close(&n->out, err) : ctr_colbuf_null(&n->out, err);
    }
    return rc;
}

/* c: `rows`, or the entries of its dictionary. */
static int run_dense(const struct plan_graph *g, struct plan_node *n, const struct ctr_col *rows,
                     const struct ctr_col *c, struct ctr_err *err)
{
    const bool plain = n->type.type == CTR_F32;
    const int rc = plain ? append_f32(n, c, err) : append_f32_lists(n, c, err);
    if (rc == 0 && !n->large_row && has_infinite(plain ? &n->out : n->out.item))
        find_large(g, n, rows);
    return rc;
}

/* ---- nodes ---- */

void ctr_node_args(const struct plan_graph *g, struct plan_node *n, bool entries)
{
    for (int i = 0; i < n->nargs; i++) {
        const struct ctr_col *c = n->arg[i] < 0 ? NULL : g->node[n->arg[i]].col;
        n->arg_col[i] = c && entries ? c->dict : c;
    }
}

/* `keys`: NULL, or the node that needs the keys of the call instead of its value. entries: dictionary entries of the
 * only argument that is not a literal. */
static int run_call(struct plan_graph *g, struct plan_node *n, struct plan_node *keys, bool entries, int64_t rows,
                    struct ctr_err *err)
{
    ctr_node_args(g, n, entries);
    n->call.limit_bytes = g->limit_bytes;
    int rc = keys ? ctr_op_run_keys(&n->call, n->arg_col, rows, keys->seed, &keys->scratch, &keys->out, err)
                  : ctr_op_run(&n->call, n->arg_col, rows, &n->out, err);
    return rc < 0 ? ctr_plan_locate(&g->src, n->pos, err) : rc;
}

static int run_keys(struct plan_graph *g, struct plan_node *n, bool entries, int64_t rows, struct ctr_err *err)
{
    struct plan_node *of = &g->node[n->arg[0]];
    struct ctr_vtype type = of->type;
    type.aligned = n->group;
    return n->fused ? run_call(g, of, n, entries, rows, err)
                    : ctr_op_keys(&type, entries ? of->col->dict : of->col, rows, n->seed, &n->scratch, &n->out, err);
}

const struct ctr_col *ctr_node_shared(const struct plan_graph *g, const struct plan_node *n, int64_t rows)
{
    if (!n->shared || n->kind == NODE_COLUMN || g->no_fusion)
        return NULL;
    if (n->kind == NODE_KEYS && n->fused)
        n = &g->node[n->arg[0]];
    int k = 0;
    while (n->arg[k] < 0)
        k++;
    const struct ctr_col *c = g->node[n->arg[k]].col;
    return c->dict && !c->valid && c->dict->rows <= rows ? c : NULL;
}

/* The values were computed from the entries of `from`; rows refer to them by the same indices. */
static const struct ctr_col *encode(struct plan_node *n, const struct ctr_col *entries, const struct ctr_col *from)
{
    n->encoded = (struct ctr_col){ .type = entries->type, .rows = from->rows, .data = from->data, .dict = entries };
    return &n->encoded;
}

void ctr_node_done(struct plan_node *n, const struct ctr_col *values, const struct ctr_col *shared)
{
    n->col = shared ? encode(n, values, shared) : values;
}

/* The input column c with one entry more, a null, to which the rows without an index refer: so a value is computed for
 * them, too, once. */
static int add_null_entry(struct plan_graph *g, struct plan_node *n, const struct ctr_col *c, struct ctr_err *err)
{
    static const int64_t null = -1;
    struct ctr_field f = g->input->f[n->column];
    const int32_t *from = c->data, entry = (int32_t)c->dict->rows;
    f.dict = false;
    ctr_colbuf_free(&n->out);
    int rc = ctr_colbuf_init(&n->out, &f, err);
    if (!rc)
        rc = ctr_colbuf_range(&n->out, c->dict, 0, entry, err);
    if (!rc)
        rc = ctr_colbuf_gather(&n->out, c->dict, &null, 1, err);
    if (!rc)
        rc = ctr_buf_room(&n->scratch, c->rows, sizeof *from, err);
    int32_t *to = (int32_t *)(void *)n->scratch.data;
    for (int64_t i = 0; !rc && i < c->rows; i++)
        to[i] = ctr_col_null(c, i) ? entry : from[i];
    n->encoded = (struct ctr_col){ .type = c->type, .rows = c->rows, .data = to, .dict = ctr_colbuf_view(&n->out) };
    n->col = &n->encoded;
    return rc;
}

static int run_column(struct plan_graph *g, struct plan_node *n, struct ctr_err *err)
{
    const struct ctr_col *c = n->col = &g->batch->col[n->column];
    const bool entries = n->shared && !g->no_fusion && c->dict && c->dict->rows < c->rows;
    return entries && c->nulls ? add_null_entry(g, n, c, err) : 0;
}

static int run_node(struct plan_graph *g, struct plan_node *n, struct ctr_err *err)
{
    const struct ctr_col *shared = ctr_node_shared(g, n, g->batch->rows);
    const int64_t rows = shared ? shared->dict->rows : g->batch->rows;
    const struct ctr_col *from = n->kind == NODE_CALL || !n->nargs ? NULL : g->node[n->arg[0]].col;
    const double *v;
    int rc = 0;
    if ((n->kind == NODE_CALL && n->fused) || n->on_gpu)
        return CTR_OK;
    if (n->has_out && n->kind != NODE_CONST)
        ctr_colbuf_clear(&n->out);
    switch (n->kind) { /* LCOV_EXCL_BR_LINE there are no others */
    case NODE_COLUMN: return run_column(g, n, err);
    case NODE_CAST: rc = ctr_inputs_cast(g, n, from, err); break;
    case NODE_CONST: rc = run_const(g, n, rows, err); break;
    case NODE_CALL: rc = run_call(g, n, NULL, shared, rows, err); break;
    case NODE_KEYS: rc = run_keys(g, n, shared, rows, err); break;
    case NODE_DENSE: rc = run_dense(g, n, from, shared ? shared->dict : from, err); break;
    case NODE_LABEL: rc = run_label(g, n, from, err); break;
    case NODE_WEIGHT: n->col = from; return check(g, n, from, &v, err);
    }
    if (rc == 0)
        ctr_node_done(n, ctr_colbuf_view(&n->out), shared);
    return rc;
}

struct layer_job {
    struct plan_graph *g;
    const int *node;
};

static void run_task(void *ctx, int64_t task, int worker)
{
    struct layer_job *j = ctx;
    struct ctr_err *err = &j->g->task_err[task];
    (void)worker;
    *err = (struct ctr_err){ 0 };
    (void)!run_node(j->g, &j->g->node[j->node[task]], err);
}

static int run_nodes_parallel(struct plan_graph *g, const int *node, int n, struct ctr_err *err)
{
    struct layer_job j = { g, node };
    ctr_pool_run(g->pool, n, run_task, &j);
    for (int i = 0; i < n; i++)
        if (g->task_err[i].code < 0) {
            *err = g->task_err[i];
            return err->code;
        }
    return CTR_OK;
}

static int run_nodes(struct plan_graph *g, const int *node, int n, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++)
        rc = run_node(g, &g->node[node[i]], err);
    return rc;
}

/* While the GPU runs its nodes, the CPU runs the others. 1: as run_layers. */
static int run_layer(struct plan_graph *g, int l, struct ctr_err *err)
{
    const int *node = g->order + g->layer[l], n = g->layer[l + 1] - g->layer[l];
    int rc = ctr_graph_start_gpu(g, l, err);
    if (rc)
        return rc;
    rc = g->pool && l && n > 1 ? run_nodes_parallel(g, node, n, err) : run_nodes(g, node, n, err);
    if (rc == 0)
        return ctr_graph_finish_gpu(g, l, err);
    ctr_graph_abandon_gpu(g);
    return rc;
}

static int room_for_errors(struct plan_graph *g, struct ctr_err *err)
{
    int widest = 0;
    if (!g->pool || g->task_err)
        return CTR_OK;
    for (int l = 0; l < g->nlayers; l++)
        widest = CTR_MAX(widest, g->layer[l + 1] - g->layer[l]);
    g->task_err = calloc((size_t)widest, sizeof *g->task_err);
    return g->task_err ? CTR_OK : ctr_fail_nomem(err, (size_t)widest * sizeof *g->task_err);
}

/* 1: what was to be left on the GPU cannot be. */
static int run_layers(struct plan_graph *g, bool leave, struct ctr_err *err)
{
    int rc = ctr_graph_begin_gpu(g, leave, err);
    for (int l = 0; rc == 0 && l < g->nlayers; l++)
        rc = run_layer(g, l, err);
    return rc;
}

int ctr_graph_run(struct plan_graph *g, const struct ctr_batch *in, struct ctr_err *err)
{
    int rc = room_for_errors(g, err);
    g->batch = in;
    if (rc == 0)
        rc = run_layers(g, true, err);
    return rc > 0 ? run_layers(g, false, err) : rc;
}
