/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_fit: one pass over the rows fits every fitted operator of a plan, such as vocab; the fitted state becomes
 * sections of the plan, which then equals one read from a file.
 */

#include "common/plan/program.h"

static int fit_part(struct ctr_program *g, const struct ctr_batch *in, struct ctr_err *err)
{
    struct plan_graph *p = &g->graph;
    int rc = 0;
    for (int i = 0; rc == 0 && i < p->n; i++) {
        struct plan_node *n = &p->node[i];
        if (!n->fit_section)
            continue;
        const struct ctr_col **col = n->arg_col;
        if (!col) {
            col = n->arg_col = ctr_arena_alloc(&p->arena, (size_t)n->nargs * sizeof *col, err);
            if (!col)
                return err->code;
        }
        for (int k = 0; k < n->nargs; k++)
            col[k] = n->arg[k] < 0 ? NULL : p->node[n->arg[k]].col;
        rc = ctr_op_fit_update(&n->call, col, in->rows, err);
        if (rc < 0)
            return ctr_plan_locate(&p->src, n->pos, err);
    }
    return rc;
}

int ctr_program_fit(struct ctr_program *g, const struct ctr_batch *in, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_program_begin(g, in, PROGRAM_FIT, err);
    while (rc == 0 && (rc = ctr_program_part(g, &b, err)) > 0) {
        rc = fit_part(g, b, err);
        if (!in->rows)
            break;
    }
    return rc;
}

static int collect(struct ctr_program *g, struct plan_node *n, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct plan_section *section = NULL;
    int rc = ctr_op_fit_finish(&n->call, err);
    if (rc < 0)
        return ctr_plan_locate(&g->graph.src, n->pos, err);
    rc = ctr_op_fit_schema(&n->call, &s, err);
    if (rc == 0)
        rc = ctr_plan_add_section(g->plan, n->fit_section, &s, &section, err);
    if (rc == 0)
        rc = ctr_op_fit_save(&n->call, &section->rows, err);
    ctr_schema_free(&s);
    n->fit_ready = rc == 0;
    return rc;
}

int ctr_program_fit_finish(struct ctr_program *g, struct ctr_err *err)
{
    int rc = ctr_program_prepare(g, PROGRAM_FIT, err);
    if (rc == 0 && g->plan->nsections)
        return ctr_fail(err, CTR_EUSAGE, "the plan is fitted already");
    for (int i = 0; rc == 0 && i < g->graph.n; i++)
        if (g->graph.node[i].fit_section)
            rc = collect(g, &g->graph.node[i], err);
    return rc < 0 ? rc : ctr_plan_identify(g->plan, err);
}

int64_t ctr_program_fit_memory(const struct ctr_program *g)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->graph.n; i++)
        if (g->graph.node[i].fit_section)
            bytes += 2 * ctr_op_fit_memory(&g->graph.node[i].call);
    return bytes;
}

/* The first section: the plan's lines for people, its text and identity for programs. */
static int plan_schema(struct ctr_program *g, struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_buf names = { 0 };
    const char *pg = ctr_meta_get(&g->output.meta, CTR_META_PG);
    int rc = ctr_schema_add(s, "line", CTR_UTF8, err);
    if (rc >= 0)
        rc = ctr_buf_append(&names, "plan", 4, err);
    if (rc == 0)
        rc = ctr_plan_save_section_names(g->plan, &names, err);
    if (rc == 0)
        rc = ctr_buf_append(&names, "", 1, err);
    const char *const meta[][2] = { { CTR_META_SECTION, "plan" },
                                    { CTR_META_SECTIONS, (char *)names.data },
                                    { CTR_META_PG, pg } };
    if (rc == 0)
        rc = ctr_plan_to_meta(g->plan, &g->input, &s->meta, err);
    for (size_t i = 0; rc == 0 && i < CTR_COUNT(meta); i++)
        if (meta[i][1])
            rc = ctr_meta_set(&s->meta, meta[i][0], meta[i][1], err);
    ctr_buf_free(&names);
    return rc;
}

static int plan_rows(const char *text, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    int rc = 0;
    while (rc == 0 && *text) {
        size_t n = strcspn(text, "\n");
        rc = ctr_colbuf_str(&rows->col[0], text, n, err);
        text += n + (text[n] == '\n');
    }
    return rc;
}

int ctr_program_fit_save(struct ctr_program *g, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    struct ctr_writer *w = NULL;
    int rc = plan_schema(g, &s, err);
    if (rc == 0)
        rc = ctr_batchbuf_init(&rows, &s, err);
    if (rc == 0)
        rc = plan_rows(ctr_plan_text(g->plan), &rows, err);
    if (rc == 0)
        rc = ctr_writer_open(&w, out, &s, NULL, err);
    if (rc == 0)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&rows), err);
    if (rc == 0)
        rc = ctr_writer_finish(w, err);
    if (rc == 0)
        rc = ctr_plan_save_sections(g->plan, out, err);
    ctr_writer_free(w);
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&s);
    return rc;
}
