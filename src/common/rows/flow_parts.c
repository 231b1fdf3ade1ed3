/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_parts: statements over the rows of one of several processes (ranks). A statement goes with that if it makes of a
 * row, and of whole views, what it would make of it beside all other rows: then the rows of all parts together are
 * those of one process. */
#include "common/rows/flowcore.h"

/* What a statement needs of other parts, or NULL. */
static const char *needs(const struct ctr_plan_statement *s)
{
    switch (s->kind) {
    case CTR_STATEMENT_HISTORY:
        return ctr_stage_option(s, "session") ? "the rows of a user before it, which its sessions are made of"
               : s->view.name                 ? NULL
                                              : "the rows before it";
    case CTR_STATEMENT_GROUP:
    case CTR_STATEMENT_EACH: return "all rows with its key";
    case CTR_STATEMENT_SORT: return "all rows, to order them";
    case CTR_STATEMENT_UNIQUE: return "all rows, of which it keeps one of each key";
    case CTR_STATEMENT_UNION: return "the rows of its view once, and every rank would read them all";
    case CTR_STATEMENT_JOIN:
        return ctr_stage_option(s, "once")     ? "all rows that may take the row of the view"
               : ctr_stage_option(s, "by-row") ? "its place among all rows"
               : ctr_stage_option(s, "merge")  ? "all rows in the order of the key"
                                               : NULL;
    default: return NULL;
    }
}

/* What the user may do instead, besides making the features first. */
static const char *instead(const struct ctr_plan_statement *s)
{
    if (s->kind == CTR_STATEMENT_JOIN && ctr_stage_option(s, "merge"))
        return "leave merge out, and each rank holds the view in memory or, under --memory, on disk; or ";
    if (s->kind == CTR_STATEMENT_HISTORY && !ctr_stage_option(s, "session"))
        return "take the behaviours from a view (history … from VIEW), which every rank reads whole; or ";
    if (s->kind == CTR_STATEMENT_UNION)
        return "name its files as those of the first view, if they are of one format; or ";
    return "";
}

int ctr_flow_parts(const struct ctr_plan *plan, struct ctr_err *err)
{
    const struct ctr_plan_statement *from = ctr_plan_statement(plan, 0), *s;
    for (int i = 1; (s = ctr_plan_statement(plan, i)); i++) {
        const char *of_all = needs(s);
        if (!of_all)
            continue;
        (void)ctr_fail(
            err, CTR_EUSAGE,
            "ranks (mpirun) share out the rows of %s, and this statement needs %s: %smake the features before "
            "(ctr-extract PLAN VIEW=FILE… | ctr-split --shards R -o 'part-%%d.arrows', on a cluster with a "
            "distributed engine), and learn from part-*.arrows",
            from->view.name, of_all, instead(s));
        return ctr_plan_at_statement(plan, i, err);
    }
    return 0;
}
