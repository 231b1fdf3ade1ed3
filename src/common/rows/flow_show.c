/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_show: describes statements for people. */
#include "common/rows/flowcore.h"

/* One argument of a command, as a shell reads it: --NAME, --NAME=TEXT. */
static void show_option(struct ctr_say *s, const char *name, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/+%@^-";
    ctr_say(s, " --%s%s", name, text ? "=" : "");
    if (!text || (*text && !text[strspn(text, plain)])) {
        ctr_say(s, "%s", text ? text : "");
        return;
    }
    ctr_say(s, "'");
    for (const char *p = text; *p;) {
        const size_t n = strcspn(p, "'");
        ctr_say_bytes(s, p, n);
        ctr_say(s, "%s", p[n] ? "'\\''" : "");
        p += n + (p[n] != 0);
    }
    ctr_say(s, "'");
}

static void show_view(struct ctr_say *s, const struct ctr_view *v)
{
    if (v->format)
        ctr_say(s, "ctr-import --format=%s", v->format);
    for (int i = 0; i < v->n; i++)
        show_option(s, strcmp(v->option[i].name, "bad_rows") ? v->option[i].name : "bad-rows", v->option[i].text);
    ctr_say(s, "%s%s", v->format ? " " : "", v->name);
}

const char *ctr_flow_select_option(const struct ctr_plan_statement *s)
{
    return s->kind == CTR_STATEMENT_WHERE ? "where" : s->kind == CTR_STATEMENT_ADD ? "add" : "explode";
}

/* A view that is grouped before it is joined. */
static void show_grouped(struct ctr_say *o, const struct ctr_plan_statement *s)
{
    ctr_say(o, " <(");
    if (s->view.format) {
        show_view(o, &s->view);
        ctr_say(o, " | ");
    }
    ctr_say(o, "ctr-group");
    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->option[i].name, "group-", 6))
            show_option(o, s->option[i].name + 6, s->option[i].text);
    if (!s->view.format)
        ctr_say(o, " %s", s->view.name);
    ctr_say(o, ")");
}

static void show(struct ctr_say *o, const struct ctr_plan_statement *s)
{
    if (s->kind == CTR_STATEMENT_FROM) {
        show_view(o, &s->view);
        return;
    }
    if (s->kind < CTR_STATEMENT_JOIN) {
        ctr_say(o, "ctr-select");
        show_option(o, ctr_flow_select_option(s), s->text);
        return;
    }
    static const char *const filter[] = {
        [CTR_STATEMENT_JOIN] = "ctr-join",   [CTR_STATEMENT_HISTORY] = "ctr-history",
        [CTR_STATEMENT_GROUP] = "ctr-group", [CTR_STATEMENT_EACH] = "ctr-group",
        [CTR_STATEMENT_SORT] = "ctr-sort",   [CTR_STATEMENT_UNIQUE] = "ctr-sort",
        [CTR_STATEMENT_UNION] = "ctr-cat -",
    };
    const bool grouped = ctr_stage_option(s, "group-key");
    ctr_say(o, "%s", filter[s->kind]);
    for (int i = 0; i < s->n; i++)
        if (strncmp(s->option[i].name, "group-", 6) != 0)
            show_option(o, s->option[i].name, *s->option[i].text ? s->option[i].text : NULL);
    if (s->view.name && grouped) {
        show_grouped(o, s);
    } else if (s->view.name) {
        ctr_say(o, "%s%s", s->kind == CTR_STATEMENT_HISTORY ? " --behaviours=" : " ", s->view.format ? "<(" : "");
        show_view(o, &s->view);
        ctr_say(o, "%s", s->view.format ? ")" : "");
    }
}

int ctr_flow_explain(const struct ctr_plan *plan, struct ctr_buf *out, struct ctr_err *err)
{
    const struct ctr_plan_statement *s;
    struct ctr_buf line = { 0 };
    struct ctr_say o = { &line, err, 0 };
    for (int i = 0; !o.rc && (s = ctr_plan_statement(plan, i)); i++) {
        ctr_buf_clear(&line);
        show(&o, s);
        if (!o.rc && !(o.rc = ctr_buf_printf(out, err, "stage %d  ", i + 1)) &&
            !(o.rc = ctr_buf_quote(out, (const char *)line.data, line.len, err)))
            o.rc = ctr_buf_append(out, "\n", 1, err);
    }
    ctr_buf_free(&line);
    return o.rc;
}
