/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_parse: tokens -> definitions. A line with X[1..26] is parsed once per number, so later steps see no ranges. A
 * name refers to the definition above with that name, else to an input column; so there are no cycles.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/plan/plancore.h"

struct parser {
    struct plan_tree *tree;
    struct plan_toks toks;
    struct plan_map inputs, outputs;
    int role_line[CTR_NROLES]; /* line of a role that may occur only once */
    int i;                     /* next token */
    int64_t number;            /* of the current repetition */
    int nesting;
    const struct plan_tok *opener; /* innermost open bracket */
    struct ctr_err *err;
};

#define parse_fail(p, pos, ...) ctr_plan_fail(&(p)->tree->src, pos, (p)->err, __VA_ARGS__)

static const struct plan_tok *peek(const struct parser *p)
{
    return &p->toks.t[p->i];
}

static const struct plan_tok *next(struct parser *p)
{
    const struct plan_tok *t = &p->toks.t[p->i];
    p->i += t->kind != TOK_END;
    return t;
}

static bool is_word(const struct plan_tok *t, const char *word)
{
    return t->kind == TOK_NAME && !t->quoted && !t->range && strcmp(t->name, word) == 0;
}

static bool is_reserved(const struct plan_tok *t)
{
    return t->kind == TOK_NAME && !t->quoted && !t->range && ctr_name_is_reserved(t->name);
}

static int unexpected_so(struct parser *p, const struct plan_tok *t, const char *wanted, const char *remedy)
{
    char open[64] = "";
    if (p->opener)
        snprintf(open, sizeof open, " (the %.1s of line %d, character %d is still open)", p->opener->source.p,
                 p->opener->pos.line, p->opener->pos.col);
    if (t->kind == TOK_LINE || t->kind == TOK_END)
        return parse_fail(p, t->pos, "expected %s before the end of the %s%s", wanted,
                          p->tree->src.inline_text ? "expression"
                          : p->opener              ? "plan"
                                                   : "line",
                          open);
    if (is_reserved(t))
        return parse_fail(p, t->pos, "expected %s, not the word `%s`%s%s", wanted, t->name, open, remedy);
    return parse_fail(p, t->pos, "expected %s, not %.*s%s%s", wanted, (int)CTR_MIN(t->source.n, (size_t)40),
                      t->source.p, open, remedy);
}

static bool is_bare(const struct plan_tok *t)
{
    return t->kind == TOK_NAME && !t->quoted && !t->range && !is_reserved(t);
}

/* Words in a row, of which the current one is unexpected: a name with spaces. */
static const char *spaced_remedy(const struct parser *p, char *to, size_t size)
{
    int from = p->i, end = p->i;
    while (from > 0 && is_bare(&p->toks.t[from - 1]))
        from--;
    while (is_bare(&p->toks.t[end]))
        end++;
    *to = 0;
    if (from == p->i || end == p->i)
        return to;
    size_t n = (size_t)snprintf(to, size, "; a name with spaces stands in back quotes: `");
    for (int i = from; i < end && n + 64 < size; i++)
        n += (size_t)snprintf(to + n, size - n, "%s%.40s", i > from ? " " : "", p->toks.t[i].name);
    snprintf(to + n, size - n, "`");
    return to;
}

static int unexpected(struct parser *p, const struct plan_tok *t, const char *wanted)
{
    char remedy[320];
    return unexpected_so(p, t, wanted, spaced_remedy(p, remedy, sizeof remedy));
}

/* The name of a token, with the number of the current repetition. */
static const char *token_name(struct parser *p, const struct plan_tok *t)
{
    if (!t->range)
        return t->name;
    size_t n = strlen(t->name) + CTR_NUM_MAX;
    char *s = ctr_arena_alloc(&p->tree->arena, n, p->err);
    if (s)
        snprintf(s, n, "%s%0*lld", t->name, t->width, (long long)p->number);
    return s;
}

static int need_name(struct parser *p, const char *wanted, const char **name)
{
    const struct plan_tok *t = next(p);
    if (t->kind != TOK_NAME || is_reserved(t))
        return unexpected(p, t, wanted);
    *name = token_name(p, t);
    return *name ? CTR_OK : p->err->code;
}

/* ---- how a line becomes definitions ----
 *
 *     feature I[1..2] in counts = vocab(log_bucket(I[1..2]), min=10)
 *
 * The line is parsed twice, with p->number 1 and 2, from the same tokens; token_name makes I1 and I2 of the name with
 * the range. Each time add_def puts one plan_def into the tree: role feature, name I1, table counts, and an expression
 *
 *     call vocab(call log_bucket(input I1), min = 10)
 *
 * Names are looked up when they are read: that of a definition above has its number (def), any other is an input
 * column, noted in tree.inputs. Later lines are unknown then, so a plan has no cycles and needs no second pass.
 *
 * Infix operators are calls, too, of the operators named "+", "and", …. parse_expr climbs precedences: it reads a
 * prefix, then takes operators that bind at least as tightly as `min`; comparisons do not chain. */

/* ---- expressions ---- */

static int parse_expr(struct parser *p, int min, struct plan_ast **out);

static struct plan_ast *new_ast(struct parser *p, enum plan_ast_kind kind, struct plan_pos pos)
{
    struct plan_ast *a = ctr_arena_alloc(&p->tree->arena, sizeof *a, p->err);
    if (a)
        *a = (struct plan_ast){ .kind = kind, .pos = pos, .depth = 1, .def = -1 };
    return a;
}

static int new_call(struct parser *p, const char *name, struct plan_pos pos, struct plan_ast *const *arg, int nargs,
                    struct plan_ast **out)
{
    struct plan_ast *a = new_ast(p, AST_CALL, pos);
    if (!a)
        return p->err->code;
    a->arg = ctr_arena_alloc(&p->tree->arena, (size_t)nargs * sizeof *a->arg, p->err);
    a->arg_name = ctr_arena_alloc(&p->tree->arena, (size_t)nargs * sizeof *a->arg_name, p->err);
    if (!a->arg || !a->arg_name)
        return p->err->code;
    a->name = name;
    a->nargs = nargs;
    a->op = ctr_op_find_in(p->tree->language, name,
                           strlen(name)); /* parse_call and the lexer have checked that it exists */
    for (int i = 0; i < nargs; i++) {
        a->arg[i] = arg[i];
        a->depth = CTR_MAX(a->depth, arg[i]->depth + 1);
    }
    p->tree->nfitted += ctr_op_fitted(a->op);
    *out = a;
    return a->depth > PLAN_MAX_DEPTH ? parse_fail(p, pos, "the expression is nested deeper than %d", PLAN_MAX_DEPTH)
                                     : CTR_OK;
}

static int unknown_op(struct parser *p, const struct plan_tok *t)
{
    int ops = 0, n = 0;
    while (ctr_op_at(ops))
        ops++;
    const char **names = ctr_arena_alloc(&p->tree->arena, (size_t)ops * sizeof *names, p->err);
    if (!names)
        return p->err->code;
    for (int i = 0; i < ops; i++) {
        const char *name = ctr_op_name(ctr_op_at(i));
        if (*name >= 'a' && strcmp(name, "neg") != 0)
            names[n++] = name;
    }
    const char *near = ctr_nearest(t->name, names, n);
    return parse_fail(p, t->pos, "no operator %.60s%s%s; `ctr-extract --list-ops` lists them", t->name,
                      near ? "; did you mean " : "", near ? near : "");
}

/* Parse an argument; name=literal sets *name. */
static int parse_arg(struct parser *p, struct plan_ast **out, const char **name)
{
    const struct plan_tok *t = peek(p);
    *name = NULL;
    if (t->kind == TOK_NAME && !t->range && p->toks.t[p->i + 1].kind == TOK_ASSIGN) {
        *name = t->name;
        p->i += 2;
    }
    int rc = parse_expr(p, 0, out);
    if (rc == 0 && *name && (*out)->kind != AST_LITERAL)
        return parse_fail(p, (*out)->pos, "the argument %s= takes a literal", *name);
    return rc;
}

struct arg_list {
    struct plan_ast **arg;
    const char **name;
    int n, cap;
};

static int add_arg(struct parser *p, struct arg_list *l, struct plan_ast *a, const char *name)
{
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 4;
        struct plan_ast **arg = ctr_arena_alloc(&p->tree->arena, (size_t)cap * sizeof *arg, p->err);
        const char **names = ctr_arena_alloc(&p->tree->arena, (size_t)cap * sizeof *names, p->err);
        if (!arg || !names)
            return p->err->code;
        for (int i = 0; i < l->n; i++) {
            arg[i] = l->arg[i];
            names[i] = l->name[i];
        }
        *l = (struct arg_list){ arg, names, l->n, cap };
    }
    l->arg[l->n] = a;
    l->name[l->n++] = name;
    return CTR_OK;
}

/* Parse items up to the closing bracket; the last token read is the opening one. */
static int parse_items(struct parser *p, enum plan_tok_kind close, struct arg_list *l)
{
    const struct plan_tok *outer = p->opener, *open = &p->toks.t[p->i - 1];
    int rc = 0;
    p->opener = open;
    while (rc == 0 && peek(p)->kind != close) {
        struct plan_ast *a;
        const char *name;
        struct plan_pos pos = peek(p)->pos;
        rc = parse_arg(p, &a, &name);
        if (rc == 0 && !name && l->n && l->name[l->n - 1])
            rc = parse_fail(p, pos, "an argument without a name follows %s=", l->name[l->n - 1]);
        if (rc == 0)
            rc = add_arg(p, l, a, name);
        if (rc == 0 && peek(p)->kind == TOK_COMMA)
            next(p);
        else if (rc == 0 && peek(p)->kind != close)
            rc = unexpected(p, peek(p), close == TOK_CLOSE ? ", or )" : ", or ]");
    }
    if (rc < 0)
        return rc;
    p->opener = outer;
    next(p);
    return CTR_OK;
}

static int parse_call(struct parser *p, const struct plan_tok *t, struct plan_ast **out)
{
    struct arg_list l = { 0 };
    if (t->quoted || t->range)
        return parse_fail(p, t->pos, "%.60s is a name of data, not of an operator", t->name);
    if (!ctr_op_find(t->name, strlen(t->name)))
        return unknown_op(p, t);
    next(p);
    int rc = parse_items(p, TOK_CLOSE, &l);
    if (rc == 0)
        rc = new_call(p, t->name, t->pos, l.arg, l.n, out);
    for (int i = 0; rc == 0 && i < l.n; i++)
        (*out)->arg_name[i] = l.name[i];
    return rc;
}

/* Rank of a kind of numbers by its range; 0: not a number. */
static int number_rank(enum ctr_value_kind k)
{
    return k == CTR_V_INT ? 1 : k == CTR_V_UINT ? 2 : k == CTR_V_FLOAT ? 3 : 0;
}

/* The items of a list share a kind: that of the highest ranked number. */
static int list_kind(struct parser *p, const struct arg_list *l, enum ctr_value_kind *kind)
{
    *kind = CTR_V_NULL;
    for (int i = 0; i < l->n; i++) {
        const struct plan_ast *a = l->arg[i];
        if (a->kind != AST_LITERAL || l->name[i])
            return parse_fail(p, a->pos, "a list holds literals only");
        enum ctr_value_kind k = a->value.kind;
        if (k == CTR_V_NULL || k == CTR_V_LIST)
            return parse_fail(p, a->pos, "a list cannot hold %s", k == CTR_V_NULL ? "null" : "a list");
        if (i && k != *kind && !(number_rank(k) && number_rank(*kind)))
            return parse_fail(p, a->pos, "the items of a list are of one type");
        *kind = number_rank(k) >= number_rank(*kind) ? k : *kind;
    }
    return CTR_OK;
}

/* Has the integer more digits than a float64? */
static bool is_rounded(const struct ctr_value *v)
{
    const uint64_t m = v->kind == CTR_V_INT && v->i < 0 ? 0 - (uint64_t)v->i : (uint64_t)v->i;
    return m && (m / (m & (0 - m))) >> 53;
}

/* Convert an item to its list's kind: integers become floats or unsigned. */
static int widen(struct parser *p, const struct plan_ast *a, enum ctr_value_kind kind, struct ctr_value *v)
{
    const int64_t i = a->value.i;
    *v = a->value;
    if (v->kind == kind)
        return CTR_OK;
    if (kind == CTR_V_UINT && i < 0)
        return parse_fail(p, a->pos, "the list mixes a negative integer with one of 2^63 or more");
    if (kind == CTR_V_FLOAT && is_rounded(&a->value))
        return parse_fail(p, a->pos, "the list has a float, and no float is this integer: a list of integers keeps it");
    *v = (struct ctr_value){ .kind = kind };
    if (kind == CTR_V_UINT)
        v->i = i;
    else
        v->f = a->value.kind == CTR_V_UINT ? (double)(uint64_t)i : (double)i;
    return CTR_OK;
}

static int parse_list(struct parser *p, const struct plan_tok *t, struct plan_ast **out)
{
    struct arg_list l = { 0 };
    enum ctr_value_kind kind = CTR_V_NULL;
    int rc = parse_items(p, TOK_UNLIST, &l);
    if (rc == 0 && !l.n)
        rc = parse_fail(p, t->pos, "an empty list has no type");
    if (rc == 0)
        rc = list_kind(p, &l, &kind);
    if (rc < 0)
        return rc;
    struct plan_ast *a = *out = new_ast(p, AST_LITERAL, t->pos);
    if (!a)
        return p->err->code;
    a->value = (struct ctr_value){ .kind = CTR_V_LIST, .n = l.n };
    a->value.list = ctr_arena_alloc(&p->tree->arena, (size_t)l.n * sizeof *a->value.list, p->err);
    if (!a->value.list)
        return p->err->code;
    for (int i = 0; rc == 0 && i < l.n; i++)
        rc = widen(p, l.arg[i], kind, &a->value.list[i]);
    return rc;
}

static int parse_name(struct parser *p, const struct plan_tok *t, struct plan_ast **out)
{
    struct plan_ast *a = *out = new_ast(p, AST_NAME, t->pos);
    if (!a || !(a->name = token_name(p, t)))
        return p->err->code;
    a->def = ctr_map_get(&p->tree->names, a->name);
    if (a->def >= 0 || ctr_map_get(&p->inputs, a->name) >= 0)
        return CTR_OK;
    int rc = ctr_map_set(&p->inputs, a->name, 1, p->err);
    return rc < 0 ? rc : ctr_strs_add(&p->tree->inputs, a->name, strlen(a->name), p->err);
}

static int parse_primary(struct parser *p, struct plan_ast **out)
{
    const struct plan_tok *t = next(p);
    struct ctr_value v = { .kind = CTR_V_NULL };
    int rc;
    if (t->kind == TOK_LITERAL) {
        v = t->value;
    } else if (is_word(t, "true") || is_word(t, "false")) {
        v = (struct ctr_value){ .kind = CTR_V_BOOL, .i = *t->name == 't' };
    } else if (t->kind == TOK_LIST) {
        return parse_list(p, t, out);
    } else if (t->kind == TOK_OPEN) {
        const struct plan_tok *outer = p->opener;
        p->opener = t;
        rc = parse_expr(p, 0, out);
        if (rc == 0 && peek(p)->kind != TOK_CLOSE)
            rc = unexpected(p, peek(p), "an operator or )");
        if (rc == 0) {
            p->opener = outer;
            next(p);
        }
        return rc;
    } else if (t->kind == TOK_NAME && !is_reserved(t)) {
        return peek(p)->kind == TOK_OPEN ? parse_call(p, t, out) : parse_name(p, t, out);
    } else if (!is_word(t, "null")) {
        return unexpected(p, t, "a value");
    }
    struct plan_ast *a = *out = new_ast(p, AST_LITERAL, t->pos);
    if (!a)
        return p->err->code;
    a->value = v;
    return CTR_OK;
}

enum { BIND_OR = 1, BIND_AND, BIND_NOT, BIND_COMPARE, BIND_ADD, BIND_MUL, BIND_NEG };

static int infix_binding(const struct plan_tok *t)
{
    static const struct {
        const char *name;
        int binding;
    } ops[] = {
        { "==", BIND_COMPARE }, { "!=", BIND_COMPARE }, { "<", BIND_COMPARE }, { "<=", BIND_COMPARE },
        { ">", BIND_COMPARE },  { ">=", BIND_COMPARE }, { "+", BIND_ADD },     { "-", BIND_ADD },
        { "*", BIND_MUL },      { "/", BIND_MUL },      { "//", BIND_MUL },    { "%", BIND_MUL },
    };
    if (is_word(t, "or"))
        return BIND_OR;
    if (is_word(t, "and"))
        return BIND_AND;
    if (is_word(t, "in"))
        return BIND_COMPARE;
    if (t->kind != TOK_INFIX)
        return 0;
    size_t i = 0;
    while (strcmp(ops[i].name, t->name) != 0) /* the lexer returns no other signs */
        i++;
    return ops[i].binding;
}

/* -literal is a literal, so that named arguments and lists can hold negative numbers. */
static int negate(struct parser *p, struct plan_pos pos, struct plan_ast *a, struct plan_ast **out)
{
    struct ctr_value *v = &a->value;
    if (a->kind != AST_LITERAL || !(number_rank(v->kind) || v->kind == CTR_V_DURATION))
        return new_call(p, "neg", pos, &a, 1, out);
    if (v->kind == CTR_V_UINT && v->i != INT64_MIN)
        return parse_fail(p, pos, "the integer does not fit 64 bits");
    if (v->i == INT64_MIN) /* 2^63, which is valid only when negative */
        v->kind = v->kind == CTR_V_UINT ? CTR_V_INT : CTR_V_UINT;
    a->pos = pos;
    v->i = (int64_t)(0 - (uint64_t)v->i);
    v->f = -v->f;
    *out = a;
    return CTR_OK;
}

static int parse_prefix(struct parser *p, int min, struct plan_ast **out)
{
    const struct plan_tok *t = peek(p);
    struct plan_ast *a;
    if (t->kind == TOK_INFIX && strcmp(t->name, "-") == 0) {
        next(p);
        int rc = parse_expr(p, BIND_NEG, &a);
        return rc < 0 ? rc : negate(p, t->pos, a, out);
    }
    if (is_word(t, "not")) {
        if (min > BIND_NOT)
            return parse_fail(p, t->pos, "put brackets around `not …` here: it binds weaker than what is left of it");
        next(p);
        int rc = parse_expr(p, BIND_NOT, &a);
        return rc < 0 ? rc : new_call(p, "not", t->pos, &a, 1, out);
    }
    return parse_primary(p, out);
}

static int parse_infix(struct parser *p, int min, struct plan_ast **out)
{
    int rc = parse_prefix(p, min, out);
    while (rc == 0) {
        const struct plan_tok *t = peek(p);
        const bool not_in = is_word(t, "not") && is_word(t + 1, "in");
        t += not_in;
        const int binding = infix_binding(t);
        if (!binding || binding < min)
            return CTR_OK;
        p->i += 1 + not_in;
        struct plan_ast *pair[2] = { *out };
        rc = parse_expr(p, binding + 1, &pair[1]);
        if (rc == 0)
            rc = new_call(p, t->name, t->pos, pair, 2, out);
        if (rc == 0 && not_in) {
            pair[0] = *out;
            rc = new_call(p, "not", t->pos, pair, 1, out);
        }
        if (rc == 0 && binding == BIND_COMPARE && infix_binding(peek(p)) == BIND_COMPARE)
            return parse_fail(p, peek(p)->pos, "comparisons do not chain: write a < b and b < c");
    }
    return rc;
}

static int parse_expr(struct parser *p, int min, struct plan_ast **out)
{
    *out = NULL;
    if (++p->nesting > 4 * PLAN_MAX_NESTING)
        return parse_fail(p, peek(p)->pos, "the expression is nested too deeply");
    int rc = parse_infix(p, min, out);
    p->nesting--;
    return rc;
}

/* ---- lines ---- */

static int kind_role(const struct plan_tok *t)
{
    for (int r = 0; r < CTR_NROLES; r++)
        if (r != CTR_ROLE_UNCERTAINTY && is_word(t, ctr_roles[r]))
            return r;
    return -1;
}

static bool is_input(const struct plan_def *d)
{
    return d->kind == PLAN_ROLE && ctr_role_is_input(d->role);
}

/* The definition whose column in the output has that name, or NULL. */
static struct plan_def *output_of(struct plan_tree *t, const char *column)
{
    for (int i = 0; i < t->ndefs; i++)
        if (t->def[i].kind != PLAN_VALUE && !strcmp(t->def[i].column, column))
            return &t->def[i];
    return NULL;
}

/* A column that is kept and an input of models: what is kept has the name, the input NAME.feature. 1: done. */
static int share_name(struct parser *p, struct plan_def *d)
{
    struct plan_def *other = output_of(p->tree, d->name), *in = other && is_input(other) ? other : d;
    const struct plan_def *kept = in == d ? other : d;
    if (!other || !is_input(in) || kept->kind != PLAN_KEEP)
        return 0;
    const size_t size = strlen(d->name) + 16;
    char *column = ctr_arena_alloc(&p->tree->arena, size, p->err);
    if (!column)
        return p->err->code;
    snprintf(column, size, "%s.%s", d->name, ctr_roles[in->role]);
    if (ctr_map_get(&p->outputs, column) >= 0)
        return 0;
    int rc = ctr_map_set(&p->outputs, column, p->tree->ndefs, p->err);
    if (rc >= 0 && in == d) /* `of` means the input */
        rc = ctr_map_set(&p->outputs, d->name, p->tree->ndefs, p->err);
    in->column = column;
    return rc < 0 ? rc : 1;
}

static int add_def(struct parser *p, struct plan_def d)
{
    struct plan_tree *t = p->tree;
    d.column = d.name;
    if (t->ndefs == PLAN_MAX_DEFS)
        return parse_fail(p, d.pos, "more than %d definitions", PLAN_MAX_DEFS);
    int rc = ctr_array_grow(&t->def, t->ndefs, &t->cap, sizeof *t->def, p->err);
    if (rc)
        return rc;
    int before = d.defines ? ctr_map_get(&t->names, d.name) : -1;
    if (before >= 0)
        return parse_fail(p, d.pos, "%.60s is defined already, on line %d", d.name, t->def[before].pos.line);
    if (d.kind != PLAN_VALUE) {
        before = ctr_map_get(&p->outputs, d.name);
        const int shared = before >= 0 ? share_name(p, &d) : 0;
        if (shared < 0)
            return shared;
        if (before >= 0 && !shared)
            return parse_fail(
                p, d.pos,
                "the output has a column %.60s already, from line %d; give this one a name of its own: NAME = %.60s",
                d.name, t->def[before].pos.line, d.name);
        rc = shared ? 0 : ctr_map_set(&p->outputs, d.name, t->ndefs, p->err);
    }
    if (rc == 0 && d.defines)
        rc = ctr_map_set(&t->names, d.name, t->ndefs, p->err);
    if (rc == 0)
        t->def[t->ndefs++] = d;
    return rc;
}

/* Parse "in TABLE", "of FEATURE", "group NAME", "oldest" or "newest" after the name of a feature or an image. */
static int parse_clauses(struct parser *p, struct plan_def *d, bool keyed)
{
    int rc = 0;
    if (is_word(peek(p), "in")) {
        const struct plan_tok *in = next(p);
        rc = keyed ? need_name(p, "the name of a table", &d->table)
                   : parse_fail(p, in->pos, "`in TABLE` belongs to a feature or an image");
    }
    if (rc == 0 && is_word(peek(p), "of")) {
        const struct plan_tok *of = next(p);
        d->of_pos = peek(p)->pos;
        rc = keyed ? need_name(p, "the feature whose past this is", &d->of)
                   : parse_fail(p, of->pos, "`of FEATURE` belongs to a feature or an image");
    }
    if (rc == 0 && is_word(peek(p), "group")) {
        const struct plan_tok *group = next(p);
        rc = keyed ? need_name(p, "the name of a group of aligned lists", &d->group)
                   : parse_fail(p, group->pos, "`group NAME` belongs to a feature or an image");
    }
    if (rc == 0 && (is_word(peek(p), "oldest") || is_word(peek(p), "newest"))) {
        const struct plan_tok *order = next(p);
        d->order = keyed ? order->name : NULL;
        rc = keyed ? 0 : parse_fail(p, order->pos, "`%s` belongs to a feature or an image", order->name);
    }
    return rc;
}

/* Parse NAME [in TABLE] [of FEATURE] [group NAME] [oldest|newest] [= expr] of a kind. */
static int parse_definition(struct parser *p, enum plan_kind kind, int role)
{
    struct plan_def d = { .kind = kind, .role = (enum ctr_role)CTR_MAX(role, 0), .pos = peek(p)->pos };
    const struct plan_tok *name = peek(p);
    int rc = need_name(p, "a name", &d.name);
    bool keyed = kind == PLAN_ROLE && (role == CTR_ROLE_FEATURE || role == CTR_ROLE_IMAGE);
    d.table = d.name;
    if (rc == 0)
        rc = parse_clauses(p, &d, keyed);
    if (rc == 0 && peek(p)->kind == TOK_ASSIGN) {
        next(p);
        d.defines = true;
        rc = parse_expr(p, 0, &d.expr);
    } else if (rc == 0) {
        rc = parse_name(p, name, &d.expr);
    }
    return rc < 0 ? rc : add_def(p, d);
}

static int parse_role(struct parser *p, int role)
{
    const struct plan_tok *t = next(p);
    if (!ctr_role_is_input(role) && p->role_line[role])
        return parse_fail(p, t->pos, "there is a %s already, on line %d", ctr_roles[role], p->role_line[role]);
    p->role_line[role] = t->pos.line;
    return parse_definition(p, PLAN_ROLE, role);
}

static int parse_keep(struct parser *p)
{
    int rc;
    do {
        next(p);
        rc = parse_definition(p, PLAN_KEEP, -1);
    } while (rc == 0 && peek(p)->kind == TOK_COMMA);
    return rc;
}

/* The error for an unknown first word followed by a name: lists the known words. */
static int unknown_kind(struct parser *p, const struct plan_tok *t)
{
    static const char *const kinds[] = { "feature", "dense",   "image", "label", "weight", "user",  "time",
                                         "query",   "id",      "score", "keep",  "from",   "where", "explode",
                                         "join",    "history", "group", "add",   "sort",   "unique" };
    const char *near = ctr_nearest(t->name, kinds, CTR_COUNT(kinds));
    if (is_word(t + 1, "join"))
        return parse_fail(
            p, t->pos,
            "a line begins with join VIEW, which keeps the rows without a match; words behind the keys are "
            "inner, anti and others");
    return parse_fail(
        p, t->pos,
        "no kind %.40s%s%s; there are feature, dense, image, label, weight, user, time, query, id, score and "
        "keep, and the statements from, where, add, explode, join, history, group, sort and unique",
        t->name, near ? "; did you mean " : "", near ? near : "");
}

/* The error for text after a definition that began at token `start`: explains constructs of other languages. */
static int unexpected_end(struct parser *p, int start)
{
    const struct plan_tok *t = peek(p);
    bool has_expr = false;
    char spaced[320];
    for (int i = start; i < p->i; i++)
        has_expr |= p->toks.t[i].kind == TOK_ASSIGN;
    const char *remedy = t->kind == TOK_COMMA    ? "; a definition takes a line of its own"
                         : !has_expr             ? "; an expression is given a name: NAME = EXPR"
                         : t->kind == TOK_ASSIGN ? "; equality is =="
                                                 : spaced_remedy(p, spaced, sizeof spaced);
    return unexpected_so(p, t, "an operator or the end of the line", remedy);
}

static int parse_line(struct parser *p)
{
    const struct plan_tok *t = peek(p), *after = &p->toks.t[p->i + 1];
    int rc, role = kind_role(t), start = p->i;
    bool named = after->kind == TOK_NAME && !is_word(after, "in");
    if (role >= 0 && named)
        rc = parse_role(p, role);
    else if (is_word(t, "keep") && named)
        rc = parse_keep(p);
    else if (t->kind != TOK_NAME || is_reserved(t))
        rc = unexpected(p, t, "a definition");
    else if (named && !t->quoted)
        rc = unknown_kind(p, t);
    else if (after->kind != TOK_ASSIGN && !is_word(after, "in"))
        rc = unexpected(p, after, "= and an expression (or a kind before the name)");
    else
        rc = parse_definition(p, PLAN_VALUE, -1);
    if (rc == 0 && peek(p)->kind != TOK_LINE)
        rc = unexpected_end(p, start);
    return rc;
}

/* The range over which a line repeats; all ranges in a line must be equal. */
static int line_range(struct parser *p, int end, int64_t *lo, int64_t *hi)
{
    const struct plan_tok *first = NULL;
    *lo = *hi = 0;
    for (int i = p->i; i < end; i++) {
        const struct plan_tok *t = &p->toks.t[i];
        if (!t->range)
            continue;
        if (!first)
            first = t;
        if (t->lo != first->lo || t->hi != first->hi)
            return parse_fail(p, t->pos, "%.*s differs from %.*s; all ranges of a line are the same",
                              (int)CTR_MIN(t->source.n, (size_t)40), t->source.p,
                              (int)CTR_MIN(first->source.n, (size_t)40), first->source.p);
        *lo = t->lo;
        *hi = t->hi;
    }
    return CTR_OK;
}

/* Skip the line of tokens [start, end), which has an error. Its names are recorded. */
static int broken_line(struct parser *p, int start, int end)
{
    struct plan_faults *f = &p->tree->faults;
    int rc = ctr_plan_keep(f, p->err);
    for (int i = start; rc >= 0 && i < end && p->toks.t[i].kind != TOK_ASSIGN; i++)
        if (p->toks.t[i].kind == TOK_NAME)
            rc = ctr_map_set(&f->broken, p->toks.t[i].name, 1, p->err);
    p->i = end;
    p->opener = NULL;
    p->nesting = 0;
    return CTR_MIN(rc, 0);
}

/* The name after `of` must be another line, above or below, that makes keys and is not a history itself. */
static int check_pasts(struct parser *p)
{
    const struct plan_tree *t = p->tree;
    int rc = 0;
    for (int i = 0; i < t->ndefs && rc >= 0; i++) {
        const struct plan_def *d = &t->def[i];
        const int at = d->of ? ctr_map_get(&p->outputs, d->of) : -1;
        const struct plan_def *other = at < 0 ? NULL : &t->def[at];
        const bool keyed =
            other && other->kind == PLAN_ROLE && (other->role == CTR_ROLE_FEATURE || other->role == CTR_ROLE_IMAGE);
        if (!d->of || (keyed && other != d && !other->of) || (!other && ctr_map_get(&t->faults.broken, d->of) >= 0))
            continue;
        (void)parse_fail(p, d->of_pos,
                         !other       ? "the plan has no feature %.60s"
                         : !keyed     ? "%.60s is not a feature or an image"
                         : other == d ? "%.60s cannot be its own past"
                                      : "%.60s is the past of another feature itself",
                         d->of);
        rc = ctr_plan_keep(&p->tree->faults, p->err);
    }
    return CTR_MIN(rc, 0);
}

static int parse_lines(struct parser *p)
{
    int64_t work = 0;
    while (peek(p)->kind != TOK_END) {
        int start = p->i, end = start;
        int64_t lo = 0, hi = -1; /* a statement does not repeat */
        if (peek(p)->kind == TOK_LINE) {
            next(p);
            continue;
        }
        while (p->toks.t[end].kind != TOK_LINE)
            end++;
        const bool statement = ctr_plan_is_statement(peek(p));
        int rc = statement ? ctr_plan_read_statement(p->tree, &p->toks.t[start], &p->toks.t[end], p->err)
                           : line_range(p, end, &lo, &hi);
        if (statement)
            p->i = end;
        for (p->number = lo; rc == 0 && p->number <= hi; p->number++) {
            p->i = start;
            work += end - start;
            rc = work > PLAN_MAX_TOKENS ? parse_fail(p, peek(p)->pos, "the plan grows too large here") : parse_line(p);
        }
        if (rc < 0 && (rc = broken_line(p, start, end)) < 0)
            return rc;
        next(p);
    }
    int rc = check_pasts(p);
    if (rc < 0)
        return rc;
    return p->tree->ndefs || p->tree->faults.n ? CTR_OK
                                               : parse_fail(p, (struct plan_pos){ 0 }, "the plan defines nothing");
}

static struct ctr_str canonical_token(const struct plan_tree *t, const struct plan_tok *k)
{
    if (k->kind != TOK_INFIX)
        return k->source;
    const char *name = ctr_op_identity(ctr_op_find_in(t->language, k->name, strlen(k->name)));
    return (struct ctr_str){ name, strlen(name) };
}

/* Tokens separated by single blanks, without empty lines: comments and layout do not change a plan. */
static int canonical_text(struct plan_tree *t, const struct plan_toks *toks, struct ctr_err *err)
{
    bool first = true;
    int rc = 0;
    for (const struct plan_tok *k = toks->t; rc == 0 && k->kind != TOK_END; k++) {
        bool line = k->kind == TOK_LINE;
        if (k->unidentified)
            continue;
        if (!first && !line)
            rc = ctr_buf_append(&t->canonical, " ", 1, err);
        if (rc == 0)
            rc = line ? ctr_buf_append(&t->canonical, "\n", 1, err)
                      : ctr_buf_append(&t->canonical, canonical_token(t, k).p, canonical_token(t, k).n, err);
        first = line;
    }
    return rc;
}

static int parse_with(struct plan_tree *t, const char *text, size_t n, int (*parse)(struct parser *),
                      struct ctr_err *err)
{
    struct parser p = { .tree = t, .err = err };
    t->src.file = ctr_arena_copy(&t->arena, t->src.file, strlen(t->src.file), err);
    int rc = t->src.file
                 ? ctr_plan_lex(&p.toks, &t->arena, &t->src, text, n, t->src.inline_text ? NULL : &t->faults, err)
                 : err->code;
    if (rc == 0)
        rc = parse(&p);
    if (rc == 0 && !t->later)
        rc = ctr_plan_raise(&t->src, &t->faults, err);
    if (rc == 0)
        rc = canonical_text(t, &p.toks, err);
    free(p.toks.t);
    ctr_map_free(&p.inputs);
    ctr_map_free(&p.outputs);
    return rc;
}

int ctr_plan_parse_tree(struct plan_tree *t, const char *file, const char *text, size_t n, struct ctr_err *err)
{
    t->src = (struct plan_source){ .file = file, .bundle = t->src.bundle };
    return parse_with(t, text, n, parse_lines, err);
}

static int parse_only_expr(struct parser *p)
{
    struct plan_def d = { .kind = PLAN_KEEP, .name = "", .pos = peek(p)->pos };
    while (peek(p)->kind == TOK_LINE)
        next(p);
    for (int i = 0; i < p->toks.n; i++)
        if (p->toks.t[i].range)
            return parse_fail(p, p->toks.t[i].pos, "ranges belong to plans");
    int rc = parse_expr(p, 0, &d.expr);
    while (rc == 0 && peek(p)->kind == TOK_LINE)
        next(p);
    if (rc == 0 && peek(p)->kind != TOK_END)
        rc = peek(p)->kind == TOK_ASSIGN ? parse_fail(p, peek(p)->pos, "unexpected =; equality is ==")
                                         : unexpected(p, peek(p), "an operator or the end");
    return rc < 0 ? rc : add_def(p, d);
}

int ctr_plan_parse_expr(struct plan_tree *t, const char *what, const char *text, size_t n, struct ctr_err *err)
{
    t->src = (struct plan_source){ .file = what, .inline_text = true };
    t->language = CTR_PLAN_LANGUAGE;
    return parse_with(t, text, n, parse_only_expr, err);
}

void ctr_plan_tree_free(struct plan_tree *t)
{
    free(t->def);
    ctr_plan_statements_free(t);
    ctr_map_free(&t->names);
    ctr_map_free(&t->faults.broken);
    ctr_strs_free(&t->inputs);
    ctr_buf_free(&t->canonical);
    ctr_arena_free(&t->arena);
}
