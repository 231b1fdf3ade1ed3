/* SPDX-License-Identifier: Apache-2.0
 *
 * import_columns: makes the schema of a stream from the columns of a text: --columns, --like, --for, roles, --time. */
#include "common/op/local.h"
#include "common/text/csv.h"
#include "common/text/text.h"

#include <stdio.h>
#include <stdlib.h>

int ctr_text_columns_add(struct ctr_text_columns *l, const char *name, size_t n, struct ctr_err *err)
{
    int rc = ctr_array_grow(&l->c, l->n, &l->cap, sizeof *l->c, err);
    if (rc)
        return rc;
    struct ctr_text_column *c = &l->c[l->n];
    *c = (struct ctr_text_column){ .name = strndup(name, n), .out = -1 };
    if (!c->name)
        return ctr_fail_nomem(err, n + 1);
    l->n++;
    return 0;
}

void ctr_text_columns_free(struct ctr_text_columns *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->c[i].name);
        free(l->c[i].source);
        free(l->c[i].time_format);
        free(l->c[i].local);
    }
    free(l->c);
    *l = (struct ctr_text_columns){ 0 };
}

/* ---- --columns ---- */

/* The end of the item at p: the next byte of `stops` outside [] <> and back quotes. */
static const char *span(const char *p, const char *stops)
{
    int depth = 0;
    bool quoted = false;
    for (; *p; p++) {
        if (*p == '`')
            quoted = !quoted;
        if (quoted)
            continue;
        if (!depth && strchr(stops, *p))
            break;
        depth += *p == '[' || *p == '<';
        depth -= (*p == ']' || *p == '>') && depth > 0;
    }
    return p;
}

/* NAME[a..b]: a repeated name; NAME[01..26] pads numbers to two digits. */
struct name {
    const char *p;
    size_t n;
    bool repeats;
    int width;
    int64_t from, to;
};

/* A range follows the back quotes of a quoted name. */
static bool parse_name(const char *p, const char *end, struct name *x)
{
    const char *close = p < end && *p == '`' ? memchr(p + 1, '`', (size_t)(end - p - 1)) : NULL;
    const char *open = close ? close + 1 : memchr(p, '[', (size_t)(end - p));
    const char *dots = open && open < end && *open == '[' ? memmem(open, (size_t)(end - open), "..", 2) : NULL;
    int64_t from, to;

    *x = (struct name){ .p = p, .n = (size_t)(end - p) };
    if (dots && end[-1] == ']' && ctr_parse_i64(open + 1, (size_t)(dots - open - 1), &from) &&
        ctr_parse_i64(dots + 2, (size_t)(end - dots - 3), &to)) {
        const int digits = (int)CTR_MIN(dots - open - 1, 18);
        *x = (struct name){ p, (size_t)(open - p), true, open[1] == '0' ? digits : 0, from, to };
    }
    if (close && x->p + x->n == close + 1) {
        x->p++;
        x->n -= 2;
    }
    return x->n > 0 && x->from >= 0 && x->from <= x->to;
}

static int name_at(const struct name *x, int64_t k, char **out, struct ctr_err *err)
{
    if (x->repeats ? asprintf(out, "%.*s%0*lld", (int)x->n, x->p, x->width, (long long)(x->from + k)) < 0
                   : !(*out = strndup(x->p, x->n))) {
        *out = NULL;
        return ctr_fail_nomem(err, x->n + 1);
    }
    return 0;
}

/* Set FORMAT of timestamp[FORMAT] or --time NAME:FORMAT. */
static int set_time_format(struct ctr_text_column *c, const char *p, size_t n, const char *what, struct ctr_err *err)
{
    static const char local[] = "local:";
    free(c->time_format);
    free(c->local);
    c->local = NULL;
    c->time_format = strndup(p, n);
    if (!c->time_format)
        return ctr_fail_nomem(err, n + 1);
    if (!strncmp(c->time_format, local, sizeof local - 1)) {
        const char *zone = c->time_format + sizeof local - 1;
        if (strchr(zone, '%'))
            return ctr_fail(err, CTR_EUSAGE,
                            "%s: '%s': local:ZONE is of ISO 8601 and takes no format: import the column as utf8, and "
                            "parse_time(%.60s, \"FORMAT\", \"ZONE\") in a plan or of ctr-select --add reads it",
                            what, c->time_format, c->name);
        return ctr_local_open(&c->local, zone, what, err);
    }
    if (!ctr_time_format_valid(c->time_format))
        return ctr_fail(err, CTR_EUSAGE,
                        "%s: '%s' is no form of a time; there are unix, unix_ms, unix_us, unix_ns, local:ZONE, and "
                        "what %%Y %%y %%m "
                        "%%d %%H %%I %%M %%S %%f %%p %%b %%z make up",
                        what, c->time_format);
    return 0;
}

/* A type as in --columns: those of ctr_type_parse, and timestamp[FORMAT]. */
static int parse_type(const char *p, size_t n, struct ctr_text_column *c, const struct ctr_text_opts *o,
                      struct ctr_err *err)
{
    static const char stamp[] = "timestamp[";
    size_t k = sizeof stamp - 1;
    c->typed = true;
    if (n > k && !memcmp(p, stamp, k) && p[n - 1] == ']') {
        c->type = (struct ctr_field){ .type = CTR_TIME };
        if ((n == k + 3 && !memcmp(p + k, "ms", 2)) || !memcmp(p + k, "ms, ", 4))
            return 0;
        return set_time_format(c, p + k, n - k - 1, ctr_text_option(o, "columns").s, err);
    }
    if (ctr_type_parse(p, n, &c->type))
        return 0;
    const char *names[CTR_FOREIGN], *near;
    char typed[64];
    for (int i = 0; i < CTR_FOREIGN; i++)
        names[i] = ctr_types[i].name;
    snprintf(typed, sizeof typed, "%.*s", (int)CTR_MIN(n, 60), p);
    near = ctr_nearest(typed, names, CTR_FOREIGN);
    return ctr_fail(err, CTR_EUSAGE, "%s: '%s' is no type%s%s; int64, float64, utf8, bool and timestamp are",
                    ctr_text_option(o, "columns").s, typed, near ? ", the nearest is " : "", near ? near : "");
}

static int parse_entry(struct ctr_text_columns *l, const char *p, const char *end, const struct ctr_text_opts *o,
                       struct ctr_err *err)
{
    const char *name_end = CTR_MIN(span(p, "=:,"), end), *source_end = name_end;
    struct name name, source = { 0 };
    bool named = parse_name(p, name_end, &name), sourced = name_end < end && *name_end == '=';
    if (sourced) {
        source_end = CTR_MIN(span(name_end + 1, ":,"), end);
        sourced = parse_name(name_end + 1, source_end, &source);
        named &= sourced && source.repeats == name.repeats && source.to - source.from == name.to - name.from;
    }
    if (!named || source_end + 1 == end) /* at source_end there is ':', or the end */
        return ctr_fail(err, CTR_EUSAGE, "%s: '%.*s' is not NAME[=SOURCE][:TYPE]", ctr_text_option(o, "columns").s,
                        (int)CTR_MIN(end - p, 80), p);
    if (name.to - name.from >= CSV_MAX_COLUMNS)
        return ctr_fail(err, CTR_EUSAGE, "%s: '%.*s' are more than %d columns", ctr_text_option(o, "columns").s,
                        (int)CTR_MIN(end - p, 80), p, CSV_MAX_COLUMNS);
    for (int64_t k = 0; k <= name.to - name.from; k++) {
        char *text;
        int rc = name_at(&name, k, &text, err);
        if (rc)
            return rc;
        rc = ctr_text_columns_add(l, text, strlen(text), err);
        free(text);
        if (!rc && sourced)
            rc = name_at(&source, k, &l->c[l->n - 1].source, err);
        if (!rc && source_end < end)
            rc = parse_type(source_end + 1, (size_t)(end - source_end - 1), &l->c[l->n - 1], o, err);
        if (rc)
            return rc;
    }
    return 0;
}

int ctr_text_columns_parse(struct ctr_text_columns *l, const struct ctr_text_opts *o, struct ctr_err *err)
{
    for (const char *p = o->columns;; p++) {
        const char *end = span(p, ",");
        int rc = parse_entry(l, p, end, o, err);
        if (rc)
            return rc;
        if (!*(p = end))
            return 0;
    }
}

/* ---- the schema ---- */

int ctr_text_columns_find(const struct ctr_text_columns *l, const char *name, size_t n)
{
    for (int i = 0; i < l->n; i++)
        if (strlen(l->c[i].name) == n && !memcmp(l->c[i].name, name, n))
            return i;
    return -1;
}

int ctr_text_columns_need(const struct ctr_text_columns *l, const char *what, const char *name, struct ctr_err *err)
{
    int i = ctr_text_columns_find(l, name, strlen(name));
    if (i >= 0)
        return i;
    const char **names = calloc((size_t)l->n + 1, sizeof *names);
    char hint[200] = "";
    for (i = 0; names && i < l->n; i++)
        names[i] = l->c[i].name;
    if (names)
        ctr_name_hint(hint, sizeof hint, name, names, l->n);
    free(names);
    return ctr_fail(err, CTR_EUSAGE, "%s: the input has no column '%s'%s", what, name, hint);
}

/* NAME[:FORMAT]: names may contain colons, so the longest name that is a column is used. */
static int apply_time(struct ctr_text_columns *l, const struct ctr_text_opts *o, int *column, struct ctr_err *err)
{
    const char *spec = o->role[CTR_ROLE_TIME], *format = NULL;
    *column = ctr_text_columns_find(l, spec, strlen(spec));
    for (const char *p = spec + strlen(spec); *column < 0 && p > spec; p--)
        if (*p == ':' && (*column = ctr_text_columns_find(l, spec, (size_t)(p - spec))) >= 0)
            format = p + 1;
    if (*column < 0) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(spec, ":"), spec);
        return ctr_text_columns_need(l, ctr_text_option(o, "time").s, name, err);
    }
    struct ctr_text_column *c = &l->c[*column];
    if (c->typed && c->type.type != CTR_TIME && format)
        return ctr_fail(err, CTR_EUSAGE, "%s: %s types %s as %s; a time format wants timestamp",
                        ctr_text_setting(o, "time", "%s", spec).s, ctr_text_option(o, "columns").s, c->name,
                        ctr_types[c->type.type].name);
    if (!c->typed)
        c->type = (struct ctr_field){ .type = CTR_TIME };
    c->typed = true;
    return format ? set_time_format(c, format, strlen(format), ctr_text_option(o, "time").s, err) : 0;
}

/* The schema of --like: its columns by name; others are skipped. */
static int schema_like(struct ctr_text_columns *l, const struct ctr_schema *like, struct ctr_schema *schema,
                       struct ctr_err *err)
{
    for (int i = 0; i < like->n; i++) {
        int k = ctr_text_columns_need(l, "--like", like->f[i].name, err), rc;
        if (k < 0)
            return k;
        if (l->c[k].typed && !ctr_type_list(l->c[k].type.type) && l->c[k].type.type != like->f[i].type) {
            char name[64];
            return ctr_fail(err, CTR_EUSAGE, "column %s is to be %s, and %s with --like: drop one", l->c[k].name,
                            ctr_types[l->c[k].type.type].name, ctr_field_type_name(&like->f[i], name, sizeof name));
        }
        if ((rc = ctr_schema_add_field(schema, &like->f[i], NULL, err)))
            return rc;
        struct ctr_field *f = &schema->f[schema->n - 1];
        f->dict = false;
        l->c[k].out = i;
        l->c[k].like = !l->c[k].typed;
        l->c[k].typed = true;
        l->c[k].type = (struct ctr_field){ .type = f->type, .item = f->item, .width = f->width };
    }
    return 0;
}

static bool wanted(const struct ctr_text_columns *l, int column, const struct ctr_text_opts *o, const int *role)
{
    if (!o->only || ctr_strs_find(o->only, l->c[column].name) >= 0 ||
        (o->keep && ctr_strs_find(o->keep, l->c[column].name) >= 0))
        return true;
    for (int r = 0; r < CTR_NROLES; r++)
        if (role[r] == column)
            return true;
    return false;
}

/* A plan describes joined views: a log may lack some of its columns; the missing ones are reported. */
static int check_only(const struct ctr_text_columns *l, const struct ctr_text_opts *o, struct ctr_err *err)
{
    char names[512] = "";
    size_t n = 0;
    int absent = 0, there = 0;
    for (int i = 0; i < o->only->n; i++) {
        const char *name = o->only->s[i];
        if (ctr_text_columns_find(l, name, strlen(name)) >= 0) {
            there++;
        } else if (!o->lack || ctr_strs_find(o->lack, name) < 0) {
            absent++;
            if (n + strlen(name) + 8 < sizeof names)
                n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", name);
            else if (n && names[n - 1] != '.')
                n += (size_t)snprintf(names + n, sizeof names - n, ", ...");
        }
    }
    if (absent && !there)
        return ctr_fail(err, CTR_EUSAGE, "--for: the input has none of the plan's columns: %s", names);
    if (absent)
        ctr_text_note(o, "--for: the input has %d of the plan's columns, and not: %s", there, names);
    for (int i = 0; o->keep && i < o->keep->n; i++) {
        int k = ctr_text_columns_need(l, "--keep", o->keep->s[i], err);
        if (k < 0)
            return k;
    }
    return 0;
}

static int schema_add(struct ctr_text_columns *l, const struct ctr_infer *infer, const struct ctr_text_opts *o,
                      const int *role, struct ctr_schema *schema, struct ctr_err *err)
{
    int bad = o->only ? check_only(l, o, err) : 0;
    if (bad)
        return bad;
    for (int i = 0; i < l->n; i++) {
        struct ctr_text_column *c = &l->c[i];
        if (!c->typed) {
            c->type = (struct ctr_field){ .type = ctr_infer_type(&infer[i]) };
            c->seen = infer[i].seen;
            c->inferred = true;
            c->settled = o->settle && o->settle(o->ctx, c->name, infer[i].values > 0, &c->type);
        }
        c->out = -1;
        if (!wanted(l, i, o, role))
            continue;
        struct ctr_field f = c->type;
        if (ctr_schema_find(schema, c->name) >= 0)
            return ctr_fail(err, CTR_EUSAGE, "two columns are called '%s': with %s, %s renames all in order", c->name,
                            ctr_text_option(o, "header").s, ctr_text_setting(o, "columns", "A,B,…").s);
        int rc = ctr_schema_add_field(schema, &f, c->name, err);
        if (rc)
            return rc;
        c->out = schema->n - 1;
        if (c->inferred && !c->settled && c->type.type == CTR_TIME)
            ctr_text_note(o, "column %s is of times (ISO 8601; UTC where no zone is given); %s keeps the text", c->name,
                          ctr_text_setting(o, "columns", "%s:utf8", c->name).s);
        if (c->inferred && !c->settled && ctr_infer_rounds(&(struct ctr_infer){ .seen = c->seen }))
            ctr_text_note(o,
                          "column %s has integers beyond 2^53, which float64 would round, beside other numbers: its "
                          "values stay text; %s says so as well",
                          c->name, ctr_text_setting(o, "columns", "%s:utf8", c->name).s);
    }
    return 0;
}

int ctr_text_schema(struct ctr_text_columns *l, const struct ctr_infer *infer, const struct ctr_text_opts *o,
                    struct ctr_schema *schema, struct ctr_err *err)
{
    int role[CTR_NROLES], rc = 0;
    for (int r = 0; !rc && r < CTR_NROLES; r++) {
        role[r] = -1;
        if (o->role[r] && r == CTR_ROLE_TIME)
            rc = apply_time(l, o, &role[r], err);
        else if (o->role[r] &&
                 (role[r] = ctr_text_columns_need(l, ctr_text_option(o, ctr_roles[r]).s, o->role[r], err)) < 0)
            rc = role[r];
    }
    if (!rc)
        rc = o->like ? schema_like(l, o->like, schema, err) : schema_add(l, infer, o, role, schema, err);
    for (int r = 0; !rc && r < CTR_NROLES; r++)
        if (role[r] >= 0 && l->c[role[r]].out >= 0)
            rc = ctr_field_set_role(&schema->f[l->c[role[r]].out], (enum ctr_role)r, err);
    if (!rc && !schema->n)
        rc = ctr_fail(err, CTR_EUSAGE, "no column is left to import");
    return rc;
}
