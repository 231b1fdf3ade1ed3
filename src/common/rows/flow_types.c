/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_types: the types of columns of views of text, where inference cannot tell them or tells others than last month.
 *
 * The plan of a model, or a fitted one, knows the types of its table's columns. A text view's column of that name takes
 * this type where the inferred one would give other keys, or where the first rows have no value. A column without such
 * a type and without values, that is a key of a join or of a history, takes the type of the other side, so that a
 * header without rows joins. */
#include "common/rows/flowcore.h"

#include <string.h>

/* The part of a pair NAME or NAME=NAME2 on the left or right. */
static struct ctr_str side_of(const char *pair, size_t n, bool right)
{
    const char *eq = memchr(pair, '=', n);
    if (!eq)
        return (struct ctr_str){ pair, n };
    return right ? (struct ctr_str){ eq + 1, n - (size_t)(eq - pair) - 1 }
                 : (struct ctr_str){ pair, (size_t)(eq - pair) };
}

static bool same(struct ctr_str s, const char *name)
{
    return strlen(name) == s.n && !memcmp(s.p, name, s.n);
}

/* Of the pairs a=b,c,… that a join compares, the one with `name` on this side: the name on the other; else NULL. */
static const char *partner(const struct ctr_plan_statement *s, const char *name, bool right, char *out, size_t size)
{
    static const char *const options[] = { "key", "as-of", "next" };
    for (size_t i = 0; s->kind == CTR_STATEMENT_JOIN && i < CTR_COUNT(options); i++)
        for (const char *p = ctr_stage_option(s, options[i]); p && *p;) {
            const size_t n = strcspn(p, ",");
            const struct ctr_str other = side_of(p, n, !right);
            if (same(side_of(p, n, right), name) && other.n < size) {
                memcpy(out, other.p, other.n);
                out[other.n] = 0;
                return out;
            }
            p += n + (p[n] == ',');
        }
    return NULL;
}

bool ctr_flow_makes(const struct ctr_plan_statement *s, const char *name)
{
    if (s->kind == CTR_STATEMENT_ADD)
        return !strcmp(s->adds, name);
    const char *prefix = s->kind == CTR_STATEMENT_JOIN ? ctr_stage_option(s, "prefix") : NULL;
    const size_t skip = prefix ? strlen(prefix) : 0, length = strlen(name);
    for (int i = 0; s->kind != CTR_STATEMENT_HISTORY && i < s->n && !strncmp(name, prefix ? prefix : "", skip); i++) {
        const struct ctr_stage_option *o = &s->option[i];
        const bool adds = !strcmp(o->name, s->kind == CTR_STATEMENT_JOIN ? "group-add" : "add");
        if (adds && !strncmp(o->text, name + skip, length - skip) && o->text[length - skip] == '=')
            return true;
    }
    const char *group = ctr_stage_option(s, "group");
    const size_t n = strlen(group ? group : "history");
    return s->kind == CTR_STATEMENT_HISTORY &&
           ((!strncmp(name, group ? group : "history", n) && name[n] == '.') || !strncmp(name, "count.", 6) ||
            (ctr_stage_option(s, "session") && !strncmp(name, "session.", 8)));
}

/* Does a statement give the table this column with another type than a view has? */
static bool changed(const struct ctr_plan *plan, const char *name)
{
    const struct ctr_plan_statement *s;
    const size_t n = strlen(name);
    for (int i = 0; (s = ctr_plan_statement(plan, i)); i++) {
        if (ctr_flow_makes(s, name))
            return true;
        for (const char *p = s->kind == CTR_STATEMENT_EXPLODE ? s->text : NULL; p && *p; p += *p == ',') {
            if (!strncmp(p, name, n) && (p[n] == ',' || !p[n]))
                return true;
            p += strcspn(p, ",");
        }
    }
    return false;
}

/* ---- the types that the plan knows ---- */

static bool known_type(const struct flow_side *at, const char *column, struct ctr_field *t)
{
    const struct ctr_plan_statement *s = ctr_plan_statement(at->plan, at->statement);
    const char *prefix = ctr_stage_option(s, "prefix");
    char name[512];
    if ((size_t)ctr_format(name, sizeof name, "%s%s", prefix ? prefix : "", column) + 1 < sizeof name &&
        !changed(at->plan, name) && ctr_plan_input_type(at->plan, name, t))
        return true;
    const char *left = partner(s, column, true, name, sizeof name);
    return left && !changed(at->plan, left) && ctr_plan_input_type(at->plan, left, t);
}

/* ---- the types of the other side ---- */

static const struct ctr_field *field_of(const struct flow_view *v, const char *name)
{
    const struct ctr_schema *s = v->source.ops ? ctr_batch_source_schema(&v->source) : NULL;
    const int i = s ? ctr_schema_find(s, name) : -1;
    return i < 0 ? NULL : &s->f[i];
}

/* The column of the rows that a statement is given; NULL: not there, or not known before the stages run. */
static const struct ctr_field *left_field(const struct flow_side *at, const char *name)
{
    if (at->left) {
        const int i = ctr_schema_find(at->left, name);
        return i < 0 ? NULL : &at->left->f[i];
    }
    for (int k = 0; k < at->statement; k++)
        if (ctr_flow_makes(ctr_plan_statement(at->plan, k), name))
            return NULL;
    for (int k = 0; k < at->statement; k++) {
        const struct ctr_plan_statement *s = ctr_plan_statement(at->plan, k);
        const char *prefix = ctr_stage_option(s, "prefix");
        const size_t n = prefix ? strlen(prefix) : 0;
        const struct ctr_field *f = s->kind == CTR_STATEMENT_HISTORY || strncmp(name, prefix ? prefix : "", n) != 0
                                        ? NULL
                                        : field_of(&at->views[k], name + n);
        if (f)
            return f;
    }
    return NULL;
}

/* Is the column compared with one of another side? *f: that one, or NULL where it is not known yet. */
static bool other_side(const struct flow_side *at, const char *column, const struct ctr_field **f)
{
    const struct ctr_plan_statement *s = ctr_plan_statement(at->plan, at->statement);
    char name[512];
    bool any = false;
    *f = NULL;
    if (s->kind == CTR_STATEMENT_HISTORY || s->kind == CTR_STATEMENT_UNION) {
        *f = left_field(at, column);
        return true;
    }
    if (s->kind == CTR_STATEMENT_JOIN) {
        const char *left = partner(s, column, true, name, sizeof name);
        *f = left ? left_field(at, left) : NULL;
        return left;
    }
    for (int k = 1; !*f && (s = ctr_plan_statement(at->plan, k)); k++) {
        const char *right = partner(s, column, false, name, sizeof name);
        any |= right != NULL;
        *f = right ? field_of(&at->views[k], right) : NULL;
    }
    return any;
}

/* ---- what an importer asks ---- */

/* The type that an importer infers for such values; CTR_FOREIGN: none. */
static enum ctr_type inferable(enum ctr_type t)
{
    if (ctr_types[t].integer)
        return t == CTR_U64 ? CTR_U64 : CTR_I64;
    if (ctr_types[t].floating)
        return CTR_F64;
    return t == CTR_BOOL || t == CTR_UTF8 || t == CTR_TIME ? t : CTR_FOREIGN;
}

bool ctr_flow_view_type(void *view, const char *column, bool seen, struct ctr_field *type)
{
    struct flow_view *v = view;
    const int typed = ctr_schema_find(&v->typed, column);
    const struct ctr_field *other = NULL;
    struct ctr_field was;
    enum ctr_type t = CTR_FOREIGN;
    if (typed >= 0) {
        t = inferable(v->typed.f[typed].type);
    } else if (known_type(&v->side, column, &was)) {
        if (!seen || !ctr_plan_type_fits(&was, type))
            t = inferable(was.type);
    } else if (!seen && other_side(&v->side, column, &other)) {
        v->guessed |= !other;
        t = other ? inferable(other->type) : CTR_FOREIGN;
    }
    if (t == CTR_FOREIGN || t == type->type)
        return false;
    type->type = t;
    return true;
}
