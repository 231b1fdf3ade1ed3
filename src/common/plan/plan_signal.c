/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_signal: the signals of a plan: the definitions of its features, dense numbers and images. A signal's identity is
 * a hash of its expression with intermediates replaced by their expressions, so that neither names of intermediates,
 * nor layout, nor other signals change it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/plan/program.h"

struct walk {
    const struct plan_tree *tree;
    struct ctr_hash128 *hash; /* of each definition's expression */
    bool *needed;             /* used by the current signal */
    struct ctr_strs inputs;
};

/* ---- identity ---- */

static void hash_value(struct ctr_say *s, const struct ctr_value *v)
{
    ctr_say(s, "%d:%lld:", (int)v->kind, (long long)v->i);
    if (v->kind == CTR_V_FLOAT)
        ctr_say_bytes(s, &v->f, sizeof v->f);
    if (v->kind == CTR_V_STR) {
        ctr_say(s, "%zu:", v->s.n);
        ctr_say_bytes(s, v->s.p, v->s.n);
    }
    if (v->kind == CTR_V_LIST)
        ctr_say(s, "[%d", v->n);
    for (int i = 0; v->kind == CTR_V_LIST && i < v->n; i++)
        hash_value(s, &v->list[i]);
}

static void hash_ast(const struct walk *w, struct ctr_say *s, const struct plan_ast *a)
{
    if (a->kind == AST_LITERAL) {
        hash_value(s, &a->value);
    } else if (a->kind == AST_NAME && a->def >= 0) {
        ctr_say(s, "@%016llx%016llx", (unsigned long long)w->hash[a->def].hi, (unsigned long long)w->hash[a->def].lo);
    } else {
        const char *name = a->kind == AST_NAME ? a->name : ctr_op_identity(a->op);
        ctr_say(s, "%s%zu:%s", a->kind == AST_NAME ? "column " : "call ", strlen(name), name);
    }
    for (int i = 0; a->kind == AST_CALL && i < a->nargs; i++) {
        ctr_say(s, "(%s=", a->arg_name[i] ? a->arg_name[i] : "");
        hash_ast(w, s, a->arg[i]);
        ctr_say(s, ")");
    }
}

/* ---- words ---- */

static bool is_infix(const char *name)
{
    return *name < 'a' || !strcmp(name, "and") || !strcmp(name, "or") || !strcmp(name, "in");
}

static void show_ast(struct ctr_say *s, const struct plan_ast *a)
{
    switch (a->kind) { /* LCOV_EXCL_BR_LINE there are no others */
    case AST_NAME: ctr_say_name(s, a->name); return;
    case AST_LITERAL: ctr_value_show(s, &a->value, false); return;
    case AST_CALL: break;
    }
    const char *name = ctr_op_name(a->op);
    bool infix = is_infix(name);
    ctr_say(s, "%s(", infix ? "" : !strcmp(name, "neg") ? "-" : name);
    for (int i = 0; i < a->nargs; i++) {
        if (i)
            ctr_say(s, infix ? " %s " : ", ", name);
        if (a->arg_name[i])
            ctr_say(s, "%s=", a->arg_name[i]);
        show_ast(s, a->arg[i]);
    }
    ctr_say(s, ")");
}

/* ---- a signal ---- */

/* Mark the definitions that an expression uses, and collect the columns. */
static int mark(struct walk *w, const struct plan_ast *a, struct ctr_err *err)
{
    int rc = 0;
    if (a->kind == AST_NAME && a->def >= 0)
        w->needed[a->def] = true;
    else if (a->kind == AST_NAME && ctr_strs_find(&w->inputs, a->name) < 0)
        rc = ctr_strs_add(&w->inputs, a->name, strlen(a->name), err);
    for (int i = 0; !rc && a->kind == AST_CALL && i < a->nargs; i++)
        rc = mark(w, a->arg[i], err);
    return rc;
}

/* "vocab(words, min=10); words = split(lower(title), " ")\0": the expression, then the intermediates it uses. */
static int describe(struct walk *w, int def, struct ctr_buf *b, struct ctr_err *err)
{
    const struct plan_def *d = w->tree->def;
    memset(w->needed, 0, (size_t)w->tree->ndefs * sizeof *w->needed);
    ctr_strs_free(&w->inputs);
    int rc = mark(w, d[def].expr, err);
    for (int i = def - 1; !rc && i >= 0; i--)
        rc = w->needed[i] ? mark(w, d[i].expr, err) : 0;
    struct ctr_say s = { b, err, rc };
    show_ast(&s, d[def].expr);
    for (int i = 0; i < def; i++) {
        if (!w->needed[i])
            continue;
        ctr_say(&s, "; ");
        ctr_say_name(&s, d[i].name);
        ctr_say(&s, " = ");
        show_ast(&s, d[i].expr);
    }
    ctr_say_bytes(&s, "", 1);
    return s.rc;
}

static int give(struct walk *w, int def, ctr_plan_each_signal *each, void *ctx, struct ctr_err *err)
{
    const struct plan_def *d = &w->tree->def[def];
    struct ctr_buf text = { 0 }, id = { 0 };
    struct ctr_plan_signal s = { .name = d->name, .role = d->role, .table = d->table };
    int rc = describe(w, def, &text, err);
    if (!rc)
        rc = ctr_buf_printf(&id, err, "%s in %zu:%s %016llx%016llx", ctr_roles[d->role], strlen(d->table), d->table,
                            (unsigned long long)w->hash[def].hi, (unsigned long long)w->hash[def].lo);
    if (!rc) {
        struct ctr_hash128 h = ctr_hash128(id.data, id.len);
        snprintf(s.hash, sizeof s.hash, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
        s.definition = (const char *)text.data;
        s.inputs = &w->inputs;
        rc = each(ctx, &s, err);
    }
    ctr_buf_free(&text);
    ctr_buf_free(&id);
    return rc;
}

int ctr_plan_signals(const struct ctr_plan *p, ctr_plan_each_signal *each, void *ctx, struct ctr_err *err)
{
    const struct plan_tree *t = &p->tree;
    struct walk w = { .tree = t };
    struct ctr_buf b = { 0 };
    int rc = 0;
    w.hash = calloc((size_t)t->ndefs + 1, sizeof *w.hash);
    w.needed = calloc((size_t)t->ndefs + 1, sizeof *w.needed);
    if (!w.hash || !w.needed)
        rc = ctr_fail_nomem(err, (size_t)t->ndefs * sizeof *w.hash);
    for (int i = 0; !rc && i < t->ndefs; i++) {
        struct ctr_say s = { &b, err, 0 };
        ctr_buf_clear(&b);
        hash_ast(&w, &s, t->def[i].expr);
        if (!(rc = s.rc))
            w.hash[i] = ctr_hash128(b.data, b.len);
        int role = t->def[i].kind == PLAN_ROLE ? (int)t->def[i].role : -1;
        if (!rc && ctr_role_is_input(role))
            rc = give(&w, i, each, ctx, err);
    }
    ctr_strs_free(&w.inputs);
    ctr_buf_free(&b);
    free(w.hash);
    free(w.needed);
    return rc;
}
