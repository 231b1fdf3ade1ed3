/* SPDX-License-Identifier: Apache-2.0
 *
 * op_bind: the table of operators, and the selection of a variant by a call's argument types. Invariant: after bind
 * every argument has the lane that the loop needs; for a type that does not fit, the error names suitable types. */
#include "common/op/opint.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the table ---- */

static const struct ctr_op *const groups[] = { ctr_ops_infix, ctr_ops_number, ctr_ops_text,  ctr_ops_json,
                                               ctr_ops_key,   ctr_ops_time,   ctr_ops_fit,   ctr_ops_lookup,
                                               ctr_ops_list,  ctr_ops_url,    ctr_ops_regex, ctr_ops_unicode };

const struct ctr_op *ctr_op_at(int i)
{
    for (size_t g = 0; g < CTR_COUNT(groups); g++)
        for (const struct ctr_op *op = groups[g]; op->name; op++)
            if (i-- == 0)
                return op;
    return NULL;
}

const struct ctr_op *ctr_op_find(const char *name, size_t n)
{
    for (size_t g = 0; g < CTR_COUNT(groups); g++)
        for (const struct ctr_op *op = groups[g]; op->name; op++)
            if (strlen(op->name) == n && !memcmp(op->name, name, n))
                return op;
    return NULL;
}

const struct ctr_op *ctr_op_find_in(int language, const char *name, size_t n)
{
    return language < CTR_PLAN_TRUE_QUOTIENT && n == 1 && *name == '/' ? &ctr_op_old_quotient : ctr_op_find(name, n);
}

const char *ctr_op_name(const struct ctr_op *op)
{
    return op->name;
}
const char *ctr_op_identity(const struct ctr_op *op)
{
    return op->identity ? op->identity : op->name;
}
const char *ctr_op_signature(const struct ctr_op *op)
{
    return op->signature;
}
const char *ctr_op_help(const struct ctr_op *op)
{
    return op->help;
}
bool ctr_op_fitted(const struct ctr_op *op)
{
    return op->flags & CTR_OP_FITTED;
}
bool ctr_op_shares(const struct ctr_op_call *call)
{
    return !(((const struct ctr_op_state *)call->state)->op->flags & (CTR_OP_NULLS | CTR_OP_FITTED));
}
bool ctr_op_lifted(const struct ctr_op_call *call)
{
    const struct ctr_op_state *s = call->state;
    return s && s->lift;
}

/* ---- types and letters ---- */

struct ctr_field ctr_vtype_field(const struct ctr_vtype *t)
{
    return (struct ctr_field){ .type = t->type, .item = t->item, .width = t->width };
}

const char *ctr_vtype_name(const struct ctr_vtype *t, char *out, size_t size)
{
    struct ctr_field f = ctr_vtype_field(t);

    if (t->duration || t->key)
        snprintf(out, size, t->type == CTR_LIST || t->type == CTR_FIXED ? "list<%s>" : "%s",
                 t->key ? "key" : "duration");
    else
        ctr_field_type_name(&f, out, size);
    return out;
}

bool ctr_value_number(const struct ctr_value *v, double *d)
{
    switch (v->kind) {
    case CTR_V_INT: *d = (double)v->i; return true;
    case CTR_V_UINT: *d = (double)(uint64_t)v->i; return true;
    case CTR_V_FLOAT: *d = v->f; return true;
    default: return false;
    }
}

static bool is_list(const struct ctr_vtype *t)
{
    return t->type == CTR_LIST || t->type == CTR_FIXED;
}
static struct ctr_vtype item_type(const struct ctr_vtype *t)
{
    return (struct ctr_vtype){ .type = t->item, .key = t->key, .duration = t->duration };
}

struct ctr_vtype ctr_value_type(const struct ctr_value *v)
{
    switch (v->kind) { /* LCOV_EXCL_BR_LINE there are no others */
    case CTR_V_NULL:
    case CTR_V_BOOL: return (struct ctr_vtype){ .type = CTR_BOOL };
    case CTR_V_INT: return (struct ctr_vtype){ .type = CTR_I64 };
    case CTR_V_UINT: return (struct ctr_vtype){ .type = CTR_U64 };
    case CTR_V_FLOAT: return (struct ctr_vtype){ .type = CTR_F64 };
    case CTR_V_STR: return (struct ctr_vtype){ .type = CTR_UTF8 };
    case CTR_V_TIME: return (struct ctr_vtype){ .type = CTR_TIME };
    case CTR_V_DURATION: return (struct ctr_vtype){ .type = CTR_I64, .duration = true };
    case CTR_V_LIST: break;
    }
    struct ctr_vtype item = ctr_value_type(v->list); /* lists are never empty */
    return (struct ctr_vtype){ .type = CTR_LIST, .item = item.type, .duration = item.duration };
}

/* ---- variants ----
 *
 * An operator has one loop for each combination of types that it takes; a variant is such a combination as text, a
 * letter an argument, '>' and the result:
 *
 *     { "ii>i", loop_add_i }, { "ff>f", loop_add_f }, { "Td>T", loop_add_i }
 *
 * '[' before a letter is a list of it, '!' behind it a literal that must be written out, '*' repeats the last argument.
 * The first variant whose letters all fit is taken, so narrow ones stand first: 1 + 2 is "ii>i", 1 + 2.5 "ff>f". Where
 * none fits, the variants that came furthest say what the next argument could have been. */

/* The types that a letter of a variant accepts. */
static const struct letter {
    char letter;
    enum ctr_lane lane;
    const char *name;
} letters[] = {
    { 'b', CTR_LANE_BOOL, "bool" },      { 'B', CTR_LANE_I64, "bool" },        { 'i', CTR_LANE_I64, "an integer" },
    { 'u', CTR_LANE_U64, "an integer" }, { 'f', CTR_LANE_F64, "a number" },    { 'F', CTR_LANE_F64, "a float" },
    { 't', CTR_LANE_STR, "text" },       { 'T', CTR_LANE_I64, "a time" },      { 'd', CTR_LANE_I64, "a duration" },
    { 'k', CTR_LANE_U64, "a key" },      { 'x', CTR_LANE_TEXT, "a scalar" },   { 'h', CTR_LANE_HASH, "a scalar" },
    { 'j', CTR_LANE_F64, "an integer" }, { 'v', CTR_LANE_NONE, "any column" },
};

static const struct letter *letter_of(char c)
{
    for (size_t i = 0; i < CTR_COUNT(letters); i++)
        if (letters[i].letter == c)
            return &letters[i];
    return &letters[0];
}

static bool scalar_fits(char letter, const struct ctr_vtype *t)
{
    const struct ctr_type_info *info = &ctr_types[t->type];
    bool plain = !t->key && !t->duration;

    switch (letter) {
    case 'b':
    case 'B': return t->type == CTR_BOOL;
    case 'i':
    case 'j': return info->integer && plain;
    case 'u': return t->type == CTR_U64 && plain;
    case 'f': return (info->integer || info->floating) && plain;
    case 'F': return info->floating;
    case 't': return t->type == CTR_UTF8;
    case 'T': return t->type == CTR_TIME;
    case 'd': return t->duration;
    case 'k': return t->key;
    case 'x': return t->type != CTR_WKEY && !t->key;
    case 'h': return t->type != CTR_WKEY;
    default: return false;
    }
}

static bool is_uint64(const struct ctr_vtype *t)
{
    const struct ctr_vtype item = item_type(t);
    return scalar_fits('u', is_list(t) ? &item : t);
}

/* Does an argument match the pattern at *p? Advances *p. `with_uint64`: another one may be a uint64, beside which null
 * and literals without a sign are uint64, too. */
static bool arg_fits(const char **p, const struct ctr_op_arg *a, const struct ctr_vtype *type, unsigned flags,
                     bool with_uint64)
{
    bool list = **p == '[', literal;

    *p += list;
    char letter = *(*p)++;
    literal = **p == '!';
    *p += literal;
    if (literal && !a->literal)
        return false;
    if (a->literal && a->literal->kind == CTR_V_NULL)
        return (flags & CTR_OP_NULL_ARG) && (letter != 'u' || with_uint64);
    if (a->literal && a->literal->kind == CTR_V_LIST)
        return list && literal;
    if (letter == 'v')
        return !list || is_list(type);
    if (letter == 'u' && !list && with_uint64 && a->literal && a->literal->kind == CTR_V_INT && a->literal->i >= 0)
        return true;
    if (is_list(type) != list)
        return false;
    if (list) {
        struct ctr_vtype item = item_type(type);
        return scalar_fits(letter, &item);
    }
    return scalar_fits(letter, type);
}

/* The number of leading arguments that match a variant; *whole: all match, and their number is right. */
static int match(const struct ctr_op_variant *v, const struct ctr_op_arg *arg, const struct ctr_vtype *type, int nargs,
                 unsigned flags, bool *whole)
{
    const char *p = v->args, *last = p;
    bool with_uint64 = false;
    int k = 0;

    *whole = false;
    for (int i = 0; i < nargs; i++)
        with_uint64 |= is_uint64(&type[i]);
    for (; k < nargs; k++) {
        if (*p == '*')
            p = last;
        if (*p == '>')
            return k;
        last = p;
        if (!arg_fits(&p, &arg[k], &type[k], flags, with_uint64))
            return k;
    }
    *whole = *p == '>' || *p == '*';
    return k;
}

/* ---- the error that says what would fit ---- */

static const char *hint_for(const char *wants, const struct ctr_vtype *got)
{
    bool number = ctr_type_number(got->type) && !got->key && !got->duration;

    if (is_list(got) && !strchr(wants, '['))
        return "at(x, 0) takes one item of a list, join(x, \",\") makes a text of it";
    if (is_list(got) && got->item == CTR_UTF8 && (strchr(wants, 'f') || strchr(wants, 'i')))
        return "number(x) or int(x) reads each text of a list";
    if (strchr(wants, '[') && got->type == CTR_UTF8)
        return "split(x, \",\") makes a list of a text";
    if (strchr(wants, 't') && !got->key)
        return "concat(x) makes a text of it";
    if (is_list(got))
        return NULL;
    if ((strchr(wants, 'f') || strchr(wants, 'i')) && got->type == CTR_UTF8)
        return "number(x) or int(x) reads a text";
    if (strchr(wants, 'i') && ctr_types[got->type].floating)
        return "int(x) or floor(x) makes an integer of it";
    if (strchr(wants, 'f') && got->duration)
        return "x / 1h counts the hours of a duration";
    if (strchr(wants, 'b') && number)
        return "x != 0 makes a bool of a number";
    if (strchr(wants, 'T'))
        return "a time is a column of type timestamp, as ctr-import --time makes of a text, or written "
               "ts\"2019-11-14T00:00Z\"";
    if (strchr(wants, 'd'))
        return "a duration is written 14d, 1h, 30m or 15s, or is the difference of two times";
    return NULL;
}

static const char *ordinal(int k)
{
    static const char *const words[] = { "first", "second", "third", "fourth" };

    return k < 4 ? words[k] : "last";
}

/* The letters that the best-matching variants accept for argument k, as "text or a list of text". */
static void wanted(const struct ctr_op *op, int k, const int *reach, char *wants, size_t size, char *words,
                   size_t nwords)
{
    size_t n = 0, used = 0;

    for (int v = 0; op->variants[v].args; v++) {
        const char *p = op->variants[v].args;
        bool list;
        if (reach[v] != k)
            continue;
        for (int i = 0; i < k && *p != '>' && p[1] != '*'; i++) {
            p += *p == '[';
            p += 1 + (p[1] == '!');
        }
        list = *p == '[';
        const struct letter *l = letter_of(p[list]);
        if (*p == '>' || strstr(words, l->name) || n + 3 > size)
            continue;
        used +=
            (size_t)snprintf(words + used, nwords - used, "%s%s%s", n ? ", " : "", list ? "a list of " : "", l->name);
        used = CTR_MIN(used, nwords - 1);
        if (list)
            wants[n++] = '[';
        wants[n++] = p[list] == 'u' ? 'i' : p[list]; /* named alike */
        if (p[list + 1] == '!' && used + 10 < nwords)
            used += (size_t)snprintf(words + used, nwords - used, " literal");
    }
    wants[n] = 0;
}

static int no_variant(const struct ctr_op_call *call, int nargs, const struct ctr_vtype *type, struct ctr_err *err)
{
    const struct ctr_op *op = call->op;
    int reach[64], best = 0;
    char wants[64] = "", words[256] = "", got[64];
    bool whole;

    for (int v = 0; v < 64 && op->variants[v].args; v++) {
        reach[v] = match(&op->variants[v], call->arg, type, nargs, op->flags, &whole);
        best = CTR_MAX(best, reach[v]);
    }
    if (best < nargs)
        wanted(op, best, reach, wants, sizeof wants, words, sizeof words);
    if (best >= nargs || !wants[0])
        return ctr_fail(err, CTR_EUSAGE, "%s does not take %d argument%s: %s", op->name, nargs, nargs == 1 ? "" : "s",
                        op->signature);
    if (call->arg[best].literal && call->arg[best].literal->kind == CTR_V_NULL)
        return ctr_fail(err, CTR_EUSAGE, "%s cannot take null; is_null(x) asks for it, fill(x, value) replaces it",
                        op->name);
    const char *hint = hint_for(wants, &type[best]);
    if (!call->arg[best].literal && strstr(words, "literal"))
        hint = "it must be written out, a column cannot give it";
    return ctr_fail(err, CTR_EUSAGE, "%s wants %s as its %s argument, got %s%s%s", op->name, words, ordinal(best),
                    ctr_vtype_name(&type[best], got, sizeof got), hint ? ": " : "", hint ? hint : "");
}

/* ---- bind ---- */

/* Does the signature have an argument of this name? */
static bool is_positional(const struct ctr_op *op, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = strpbrk(op->signature, "(,"); p; p = strpbrk(p + 1, "(,"))
        if (!strncmp(p + 1 + strspn(p + 1, " "), name, n) && p[1 + strspn(p + 1, " ") + n] == ':')
            return true;
    return false;
}

static int bind_named(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    s->nargs = 0;
    while (s->nargs < call->nargs && !call->arg[s->nargs].name)
        s->nargs++;
    for (int k = s->nargs; k < call->nargs; k++) {
        const struct ctr_op_arg *a = &call->arg[k];
        const char *p = call->op->named;
        int at = 0;
        if (!a->name)
            return ctr_fail(err, CTR_EUSAGE, "%s: named arguments come last", call->op->name);
        for (; p; at++) {
            size_t n = strcspn(p, ",");
            if (strlen(a->name) == n && !strncmp(p, a->name, n))
                break;
            p = p[n] ? p + n + 1 : NULL;
        }
        if (!p && is_positional(call->op, a->name))
            return ctr_fail(err, CTR_EUSAGE, "%s takes %s by its place, without the name: %s", call->op->name, a->name,
                            call->op->signature);
        if (!p)
            return ctr_fail(err, CTR_EUSAGE, "%s has no argument named %s: %s", call->op->name, a->name,
                            call->op->signature);
        if (!a->literal)
            return ctr_fail(err, CTR_EUSAGE, "%s: %s must be a literal", call->op->name, a->name);
        if (s->named[at])
            return ctr_fail(err, CTR_EUSAGE, "%s: %s is given twice", call->op->name, a->name);
        s->named[at] = a->literal;
    }
    return 0;
}

/* float32 if all number columns are float32 (or float16): values chosen among them keep their bits, and so their
 * text. */
static enum ctr_type narrow_float(const struct ctr_op_call *call, const struct ctr_vtype *type, int nargs)
{
    enum ctr_type r = CTR_F64;

    for (int k = 0; k < nargs; k++) {
        enum ctr_type t = is_list(&type[k]) ? type[k].item : type[k].type;
        bool index = ctr_types[t].integer && is_list(&type[0]); /* at(list, i) */
        if (call->arg[k].literal || t == CTR_BOOL || index)
            continue;
        if (t != CTR_F32 && t != CTR_F16)
            return CTR_F64;
        r = CTR_F32;
    }
    return r;
}

static struct ctr_vtype result_type(const char *p, const struct ctr_op_call *call, const struct ctr_vtype *type,
                                    int nargs)
{
    struct ctr_vtype r = { 0 };
    bool list = *p == '[';

    switch (p[list]) {
    case 'b': r.type = CTR_BOOL; break;
    case 'f': r.type = CTR_F64; break;
    case 't': r.type = CTR_UTF8; break;
    case 'T': r.type = CTR_TIME; break;
    case 'd': r = (struct ctr_vtype){ .type = CTR_I64, .duration = true }; break;
    case 'u': r.type = CTR_U64; break;
    case 'k': r = (struct ctr_vtype){ .type = CTR_U64, .key = true }; break;
    case '0': r.type = narrow_float(call, type, nargs); break;
    default: r.type = CTR_I64; break;
    }
    if (list) {
        r.item = r.type;
        r.type = CTR_LIST;
    }
    return r;
}

static void set_lanes(struct ctr_op_state *s, const char *p)
{
    const char *last = p;

    for (int k = 0; k < s->nargs; k++) {
        if (*p == '*')
            p = last;
        last = p;
        s->in[k].list = *p == '[';
        p += *p == '[';
        s->in[k].lane = letter_of(*p)->lane;
        p += 1 + (p[1] == '!');
    }
}

static const struct ctr_op_variant *choose(const struct ctr_op_call *call, const struct ctr_vtype *type, int nargs)
{
    for (const struct ctr_op_variant *v = call->op->variants; v->args; v++) {
        bool whole;
        match(v, call->arg, type, nargs, call->op->flags, &whole);
        if (whole)
            return v;
    }
    return NULL;
}

/* The variant for a list as first argument, with literals as the others. */
static const struct ctr_op_variant *choose_lifted(struct ctr_op_state *s, const struct ctr_op_call *call,
                                                  struct ctr_vtype *type)
{
    struct ctr_vtype whole = type[0];

    if (!(call->op->flags & CTR_OP_LIFT) || s->nargs < 1 || !is_list(&whole) || call->arg[0].literal)
        return NULL;
    for (int k = 1; k < s->nargs; k++)
        if (!call->arg[k].literal)
            return NULL;
    type[0] = item_type(&whole);
    const struct ctr_op_variant *v = choose(call, type, s->nargs);
    if (!v)
        type[0] = whole;
    s->lift = v != NULL;
    return v;
}

static int bind_types(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_vtype *type, struct ctr_err *err)
{
    for (int k = 0; k < s->nargs; k++) /* a literal's type is by its kind, ignoring the front end's */
        type[k] = call->arg[k].literal ? ctr_value_type(call->arg[k].literal) : call->arg[k].type;
    const struct ctr_op_variant *v = choose(call, type, s->nargs);
    if (!v)
        v = choose_lifted(s, call, type);
    if (!v)
        return no_variant(call, s->nargs, type, err);
    s->loop = v->loop;
    set_lanes(s, v->args);
    s->inner = result_type(strchr(v->args, '>') + 1, call, type, s->nargs);
    call->result = s->inner;
    if (s->lift) {
        const struct ctr_vtype *list = &call->arg[0].type;
        call->result = (struct ctr_vtype){ .type = list->type,
                                           .item = s->inner.type,
                                           .width = list->width,
                                           .key = s->inner.key,
                                           .duration = s->inner.duration };
    }
    return call->op->prepare ? call->op->prepare(call, s, err) : 0;
}

bool ctr_op_takes_literal_list(const struct ctr_op *op)
{
    for (int v = 0; op->variants[v].args; v++)
        for (const char *p = op->variants[v].args; (p = strchr(p, '[')); p++)
            if (p[1] && p[2] == '!')
                return true;
    return false;
}

int ctr_op_bind(struct ctr_op_call *call, struct ctr_err *err)
{
    struct ctr_op_state *s = calloc(1, sizeof *s);
    struct ctr_vtype *type = calloc((size_t)call->nargs + 1, sizeof *type);
    int rc = 0;

    call->state = s;
    if (s)
        s->in = calloc((size_t)call->nargs + 1, sizeof *s->in);
    if (!s || !type || !s->in)
        rc = ctr_fail_nomem(err, (size_t)call->nargs * sizeof *type);
    if (!rc) {
        s->op = call->op;
        s->needs_fit = ctr_op_fitted(call->op);
        rc = bind_named(call, s, err);
    }
    if (!rc)
        rc = bind_types(call, s, type, err);
    free(type);
    if (rc)
        ctr_op_unbind(call);
    return rc;
}

void ctr_op_unbind(struct ctr_op_call *call)
{
    struct ctr_op_state *s = call->state;

    if (!s)
        return;
    if (s->param_free)
        s->param_free(s->param);
    free(s->in);
    free(s);
    call->state = NULL;
}
