/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_show: describes statements for people. */
#include "common/rows/flowcore.h"

/* One argument of a command, as a shell reads it: --NAME, --NAME=TEXT. */
static int show_option(struct ctr_buf *out, const char *name, const char *text, struct ctr_err *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/+%@^-";
    int rc = ctr_buf_printf(out, err, " --%s%s", name, text ? "=" : "");
    if (rc || !text || (*text && !text[strspn(text, plain)]))
        return rc || !text ? rc : ctr_buf_append(out, text, strlen(text), err);
    rc = ctr_buf_append(out, "'", 1, err);
    for (const char *p = text; !rc && *p;) {
        const size_t n = strcspn(p, "'");
        rc = ctr_buf_append(out, p, n, err);
        p += n;
        if (!rc && *p) {
            rc = ctr_buf_append(out, "'\\''", 4, err);
            p++;
        }
    }
    return rc ? rc : ctr_buf_append(out, "'", 1, err);
}

static int show_view(const struct ctr_view *v, struct ctr_buf *out, struct ctr_err *err)
{
    int rc = v->format ? ctr_buf_printf(out, err, "ctr-import --format=%s", v->format) : 0;
    for (int i = 0; !rc && i < v->n; i++)
        rc = show_option(out, strcmp(v->option[i].name, "bad_rows") ? v->option[i].name : "bad-rows", v->option[i].text,
                         err);
    return rc ? rc : ctr_buf_printf(out, err, "%s%s", v->format ? " " : "", v->name);
}

const char *ctr_flow_select_option(const struct ctr_plan_statement *s)
{
    return s->kind == CTR_STATEMENT_WHERE ? "where" : s->kind == CTR_STATEMENT_ADD ? "add" : "explode";
}

/* A view that is grouped before it is joined. */
static int show_grouped(const struct ctr_plan_statement *s, struct ctr_buf *out, struct ctr_err *err)
{
    int rc = ctr_buf_printf(out, err, " <(%s", s->view.format ? "" : "ctr-group");
    if (!rc && s->view.format)
        rc = show_view(&s->view, out, err);
    if (!rc && s->view.format)
        rc = ctr_buf_printf(out, err, " | ctr-group");
    for (int i = 0; !rc && i < s->n; i++)
        if (!strncmp(s->option[i].name, "group-", 6))
            rc = show_option(out, s->option[i].name + 6, s->option[i].text, err);
    if (!rc && !s->view.format)
        rc = ctr_buf_printf(out, err, " %s", s->view.name);
    return rc ? rc : ctr_buf_append(out, ")", 1, err);
}

static int show(const struct ctr_plan_statement *s, struct ctr_buf *out, struct ctr_err *err)
{
    int rc = 0;
    if (s->kind == CTR_STATEMENT_FROM)
        return show_view(&s->view, out, err);
    if (s->kind < CTR_STATEMENT_JOIN) {
        rc = ctr_buf_printf(out, err, "ctr-select");
        return rc ? rc : show_option(out, ctr_flow_select_option(s), s->text, err);
    }
    static const char *const filter[] = {
        [CTR_STATEMENT_JOIN] = "ctr-join",   [CTR_STATEMENT_HISTORY] = "ctr-history",
        [CTR_STATEMENT_GROUP] = "ctr-group", [CTR_STATEMENT_EACH] = "ctr-group",
        [CTR_STATEMENT_SORT] = "ctr-sort",   [CTR_STATEMENT_UNIQUE] = "ctr-sort",
        [CTR_STATEMENT_UNION] = "ctr-cat -",
    };
    const bool grouped = ctr_stage_option(s, "group-key");
    rc = ctr_buf_printf(out, err, "%s", filter[s->kind]);
    for (int i = 0; !rc && i < s->n; i++)
        if (strncmp(s->option[i].name, "group-", 6) != 0)
            rc = show_option(out, s->option[i].name, *s->option[i].text ? s->option[i].text : NULL, err);
    if (rc || !s->view.name)
        return rc;
    if (grouped)
        return show_grouped(s, out, err);
    rc = ctr_buf_printf(out, err, "%s%s", s->kind == CTR_STATEMENT_HISTORY ? " --behaviours=" : " ",
                        s->view.format ? "<(" : "");
    if (!rc)
        rc = show_view(&s->view, out, err);
    return rc || !s->view.format ? rc : ctr_buf_append(out, ")", 1, err);
}

int ctr_flow_explain(const struct ctr_plan *plan, struct ctr_buf *out, struct ctr_err *err)
{
    const struct ctr_plan_statement *s;
    struct ctr_buf line = { 0 };
    int rc = 0;
    for (int i = 0; !rc && (s = ctr_plan_statement(plan, i)); i++) {
        ctr_buf_clear(&line);
        rc = show(s, &line, err);
        if (!rc)
            rc = ctr_buf_printf(out, err, "stage %d  ", i + 1);
        if (!rc)
            rc = ctr_buf_quote(out, (const char *)line.data, line.len, err);
        if (!rc)
            rc = ctr_buf_append(out, "\n", 1, err);
    }
    ctr_buf_free(&line);
    return rc;
}
