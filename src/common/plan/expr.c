/* SPDX-License-Identifier: Apache-2.0
 *
 * expr: a single expression of the plan language on the columns of a schema: --where and --add.
 */
#include <stdlib.h>

#include "common/plan/plancore.h"

enum { EXPR_BYTES = 1 << 30 }; /* per batch, which is not divided */

struct ctr_expr {
    struct plan_tree tree;
    struct plan_graph graph;
    struct ctr_schema field; /* with one field */
    int node;
};

static int result_field(struct ctr_expr *e, struct ctr_err *err)
{
    const struct plan_node *n = &e->graph.node[e->node];
    if (n->kind == NODE_COLUMN)
        return ctr_schema_add_field(&e->field, &e->graph.input->f[n->column], NULL, err);
    int rc = ctr_schema_add(&e->field, "value", n->type.type, err);
    if (rc < 0)
        return rc;
    e->field.f->item = n->type.item;
    e->field.f->width = n->type.width;
    return CTR_OK;
}

int ctr_expr_compile(struct ctr_expr **out, const char *what, const char *text, const struct ctr_schema *s,
                     const struct ctr_lookups *lookups, struct ctr_err *err)
{
    struct ctr_expr *e = calloc(1, sizeof *e);
    *out = NULL;
    if (!e)
        return ctr_fail_nomem(err, sizeof *e);
    int rc = ctr_plan_parse_expr(&e->tree, what, text, strlen(text), err);
    if (rc == 0 && e->tree.nfitted)
        rc = ctr_plan_fail(&e->tree.src, (struct plan_pos){ 1, 1 }, err,
                           "an operator that is fitted belongs into a definition of a plan");
    if (rc == 0)
        rc = ctr_graph_init(&e->graph, &e->tree.src, s, lookups ? lookups->dir : NULL, err);
    e->graph.confined = lookups && lookups->confined;
    if (rc == 0)
        rc = ctr_graph_tree(&e->graph, &e->tree, NULL, err);
    e->graph.limit_bytes = EXPR_BYTES;
    if (rc == 0) {
        e->node = e->graph.def_node[0];
        ctr_graph_use(&e->graph, e->node);
        rc = ctr_graph_seal(&e->graph, err);
    }
    if (rc == 0)
        rc = result_field(e, err);
    if (rc < 0)
        ctr_expr_free(e);
    else
        *out = e;
    return rc;
}

const struct ctr_field *ctr_expr_field(const struct ctr_expr *e)
{
    return e->field.f;
}

const struct ctr_strs *ctr_expr_inputs(const struct ctr_expr *e)
{
    return &e->tree.inputs;
}

int ctr_expr_eval(struct ctr_expr *e, const struct ctr_batch *b, const struct ctr_col **result, struct ctr_err *err)
{
    int rc = ctr_graph_run(&e->graph, b, err);
    *result = rc < 0 ? NULL : e->graph.node[e->node].col;
    return rc;
}

void ctr_expr_free(struct ctr_expr *e)
{
    if (!e)
        return;
    ctr_graph_free(&e->graph);
    ctr_plan_tree_free(&e->tree);
    ctr_schema_free(&e->field);
    free(e);
}
