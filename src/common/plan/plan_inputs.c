/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_inputs: the types of the columns from which a plan's features were made. They are stored with the plan, one line
 * "NAME TYPE" each (with CTR_INPUT_UNKEYED where no key is made of the column), and apply to every log used with the
 * plan: integers of all widths give equal keys, but 1e16 and 10000000000000000, true and 1, or "007" and 7 do not. So a
 * column used for keys that has another type is cast if no value can change, and refused otherwise.
 */
#include "common/plan/program.h"

#include <stdlib.h>

/* ---- reading the text ---- */

/* The line of a column at or after *at, which is advanced: lines are usually requested in order. NULL: none. */
static const char *find_line(const char *text, const char **at, const char *name)
{
    const size_t n = strlen(name);
    for (int turn = 0; turn < 2; turn++, *at = text)
        for (const char *line = *at; *line; line += strcspn(line, "\n"), line += *line == '\n')
            if (!strncmp(line, name, n) && line[n] == ' ') {
                *at = line + strcspn(line, "\n");
                *at += **at == '\n';
                return line + n + 1;
            }
    return NULL;
}

static bool read_type(const char *p, struct ctr_vtype *t)
{
    static const char *const keys[] = { "key", "list<key>" };
    const size_t line = strcspn(p, "\n"), mark = strlen(CTR_INPUT_UNKEYED);
    const size_t n = line > mark && !memcmp(p + line - mark, CTR_INPUT_UNKEYED, mark) ? line - mark : line;
    struct ctr_field f = { 0 };
    for (size_t i = 0; i < CTR_COUNT(keys); i++)
        if (strlen(keys[i]) == n && !memcmp(p, keys[i], n)) {
            *t = (struct ctr_vtype){ .type = i ? CTR_LIST : CTR_U64, .item = i ? CTR_U64 : 0, .key = true };
            return true;
        }
    if (!ctr_type_parse(p, n, &f))
        return false;
    *t = (struct ctr_vtype){ .type = f.type, .item = f.item, .width = f.width };
    return true;
}

/* ---- what two types have in common ---- */

enum fit { FIT_SAME, FIT_CAST, FIT_OTHER };

static bool same_values(enum ctr_type a, enum ctr_type b)
{
    return a == b || (ctr_types[a].integer && ctr_types[b].integer);
}

/* Scalar numbers that another type may represent: integer to float and back, and to the narrower float, which the log
 * would have held. */
static bool castable(enum ctr_type was, enum ctr_type is)
{
    const bool integer = ctr_types[was].integer, from_integer = ctr_types[is].integer;
    if (integer)
        return is == CTR_F32 || is == CTR_F64;
    return (was == CTR_F32 && (from_integer || is == CTR_F64)) || (was == CTR_F64 && from_integer);
}

static enum fit compare(const struct ctr_vtype *was, const struct ctr_vtype *is)
{
    const bool list = was->type == CTR_LIST || was->type == CTR_FIXED;
    if (list != (is->type == CTR_LIST || is->type == CTR_FIXED) || was->key != is->key)
        return FIT_OTHER;
    if (same_values(list ? was->item : was->type, list ? is->item : is->type))
        return FIT_SAME;
    return !list && castable(was->type, is->type) ? FIT_CAST : FIT_OTHER;
}

bool ctr_plan_input_type(const struct ctr_plan *p, const char *name, struct ctr_field *type)
{
    struct ctr_vtype t;
    struct ctr_buf quoted = { 0 };
    struct ctr_err err = { 0 };
    const char *at = p->inputs, *line = NULL;
    if (p->inputs && !ctr_quote_name(&quoted, name, &err) && !ctr_buf_append(&quoted, "", 1, &err))
        line = find_line(p->inputs, &at, (const char *)quoted.data);
    ctr_buf_free(&quoted);
    if (!line || !read_type(line, &t) || t.key)
        return false;
    *type = (struct ctr_field){ .type = t.type, .item = t.item, .width = t.width };
    return true;
}

bool ctr_plan_type_fits(const struct ctr_field *was, const struct ctr_field *is)
{
    const struct ctr_vtype a = ctr_field_vtype(was), b = ctr_field_vtype(is);
    return compare(&a, &b) != FIT_OTHER;
}

/* ---- which columns feed keys ---- */

static void mark(const struct plan_ast *a, bool *wanted, const struct ctr_strs *inputs, bool *column)
{
    if (a->kind == AST_NAME && a->def >= 0)
        wanted[a->def] = true;
    else if (a->kind == AST_NAME)
        column[ctr_strs_find(inputs, a->name)] = true;
    for (int i = 0; a->kind == AST_CALL && i < a->nargs; i++)
        mark(a->arg[i], wanted, inputs, column);
}

/* [i]: input i is used for keys, directly or through intermediates. */
static bool *find_keyed(const struct plan_tree *t, struct ctr_err *err)
{
    bool *wanted = calloc((size_t)t->ndefs + 1, sizeof *wanted);
    bool *column = calloc((size_t)t->inputs.n + 1, sizeof *column);
    if (!wanted || !column) {
        (void)ctr_fail_nomem(err, (size_t)t->ndefs);
        free(column);
        column = NULL;
    }
    for (int i = t->ndefs - 1; column && i >= 0; i--) {
        const struct plan_def *d = &t->def[i];
        wanted[i] |= d->kind == PLAN_ROLE && (d->role == CTR_ROLE_FEATURE || d->role == CTR_ROLE_IMAGE);
        if (wanted[i])
            mark(d->expr, wanted, &t->inputs, column);
    }
    free(wanted);
    return column;
}

/* ---- as text ---- */

int ctr_inputs_write(const struct ctr_plan *p, const struct ctr_schema *s, struct ctr_buf *out, struct ctr_err *err)
{
    const struct ctr_strs *names = &p->tree.inputs;
    bool *keyed = find_keyed(&p->tree, err);
    char type[128];
    int rc = keyed ? 0 : err->code;
    for (int i = 0; !rc && i < names->n; i++) {
        const int column = ctr_schema_find(s, names->s[i]);
        if (column < 0)
            continue;
        const struct ctr_vtype t = ctr_field_vtype(&s->f[column]);
        rc = ctr_quote_name(out, names->s[i], err);
        if (!rc)
            rc = ctr_buf_printf(out, err, " %s%s\n", ctr_vtype_name(&t, type, sizeof type),
                                keyed[i] ? "" : CTR_INPUT_UNKEYED);
    }
    free(keyed);
    return rc ? rc : ctr_buf_append(out, "", 1, err);
}

/* ---- binding ---- */

static int refuse(const struct ctr_plan *p, const char *name, const struct ctr_vtype *was, const struct ctr_vtype *is,
                  struct ctr_err *err)
{
    char a[128], b[128];
    ctr_err_file(err, p->tree.src.file);
    return ctr_fail(
        err, CTR_EDATA,
        "column '%.60s' is %s; the plan was made for %s there, so that its keys would be others%s%.60s%s%s%s", name,
        ctr_vtype_name(is, a, sizeof a), ctr_vtype_name(was, b, sizeof b),
        was->key ? "" : ": import it as that (ctr-import --columns '", was->key ? "" : name, was->key ? "" : ":",
        was->key ? "" : b, was->key ? "" : "')");
}

static int bind_input(const struct ctr_plan *p, const struct ctr_schema *s, const char *name, const char *line,
                      enum ctr_type *cast, struct ctr_err *err)
{
    const int column = ctr_schema_find(s, name);
    struct ctr_vtype was;
    if (column < 0 || s->f[column].type == CTR_FOREIGN || !read_type(line, &was)) /* reported elsewhere */
        return CTR_OK;
    const struct ctr_vtype is = ctr_field_vtype(&s->f[column]);
    const enum fit fit = compare(&was, &is);
    if (fit == FIT_CAST)
        cast[column] = ctr_types[was.type].integer ? CTR_I64 : was.type;
    return fit == FIT_OTHER ? refuse(p, name, &was, &is, err) : CTR_OK;
}

int ctr_inputs_bind(const struct ctr_plan *p, const struct ctr_schema *s, enum ctr_type **cast, struct ctr_err *err)
{
    const struct ctr_strs *inputs = &p->tree.inputs;
    const char *at = p->inputs, *line;
    struct ctr_buf quoted = { 0 };
    *cast = malloc(((size_t)s->n + 1) * sizeof **cast);
    if (!*cast)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof **cast);
    for (int i = 0; i < s->n; i++)
        (*cast)[i] = CTR_FOREIGN;
    if (!p->inputs)
        return CTR_OK;
    bool *keyed = find_keyed(&p->tree, err);
    int rc = keyed ? CTR_OK : err->code;
    for (int i = 0; !rc && i < inputs->n; i++) {
        if (!keyed[i])
            continue;
        ctr_buf_clear(&quoted);
        rc = ctr_quote_name(&quoted, inputs->s[i], err);
        if (!rc)
            rc = ctr_buf_append(&quoted, "", 1, err);
        if (!rc && (line = find_line(p->inputs, &at, (const char *)quoted.data)))
            rc = bind_input(p, s, inputs->s[i], line, *cast, err);
    }
    free(keyed);
    ctr_buf_free(&quoted);
    return rc;
}

/* ---- running ---- */

static int no_place(const struct plan_graph *g, const struct plan_node *n, const struct ctr_col *c, int64_t i,
                    struct ctr_err *err)
{
    const char *name = g->input->f[g->node[n->arg[0]].column].name;
    char value[CTR_NUM_MAX];
    const enum ctr_type from = c->dict ? c->dict->type : c->type;
    if (ctr_types[from].floating)
        value[ctr_fmt_f64(value, ctr_col_f64(c, i))] = 0;
    else
        value[from == CTR_U64 ? ctr_fmt_u64(value, (uint64_t)ctr_col_i64(c, i))
                              : ctr_fmt_i64(value, ctr_col_i64(c, i))] = 0;
    return ctr_fail(
        err, CTR_EDATA,
        "row %lld: column '%.60s' holds %s; the plan was made for %s there, which cannot hold it, so that its "
        "key would be another",
        (long long)(g->batch->first_row + i + 1), name, value,
        n->type.type == CTR_I64 ? "integers" : ctr_types[n->type.type].name);
}

/* The value in the plan's type: *ok is false if it is not representable, or may differ from the log's value. */
static double cast_float(const struct ctr_col *c, enum ctr_type from, enum ctr_type to, int64_t i, bool *ok)
{
    const double v = ctr_col_f64(c, i), exact = to == CTR_F32 ? 0x1p24 : 0x1p53, size = v < 0 ? -v : v;
    if (ctr_types[from].integer)
        *ok = size <= exact;
    else if (to == CTR_F32)
        *ok = !(size > 0x1.fffffep127 && size < 0x1p1023 * 2); /* rounds to no finite float */
    return v;
}

static int64_t cast_int(const struct ctr_col *c, int64_t i, bool *ok)
{
    const double v = ctr_col_f64(c, i);
    *ok = v >= -0x1p53 && v <= 0x1p53 && v == (double)(int64_t)v;
    return *ok ? (int64_t)v : 0;
}

int ctr_inputs_cast(const struct plan_graph *g, struct plan_node *n, const struct ctr_col *c, struct ctr_err *err)
{
    const enum ctr_type from = c->dict ? c->dict->type : c->type, to = n->type.type;
    int rc = 0;
    for (int64_t i = 0; !rc && i < c->rows; i++) {
        bool ok = true;
        if (ctr_col_missing(c, i)) {
            rc = ctr_colbuf_null(&n->out, err);
            continue;
        }
        if (to == CTR_I64) {
            const int64_t v = cast_int(c, i, &ok);
            rc = ok ? ctr_colbuf_i64(&n->out, v, err) : 0;
        } else {
            const double v = cast_float(c, from, to, i, &ok);
            rc = ok ? ctr_colbuf_f64(&n->out, v, err) : 0;
        }
        if (!ok)
            rc = no_place(g, n, c, i, err);
    }
    return rc;
}
