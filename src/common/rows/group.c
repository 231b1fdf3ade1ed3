/* SPDX-License-Identifier: Apache-2.0
 *
 * group: aggregates by key over rows sorted by the keys. The sort is stable, so a group's rows are processed in input
 * order, and a float sum has the same bits for any memory size. Aggregates that need a group's values in order
 * (quantile, distinct) use a second sort, by the keys and then the value: groups come in the same order in both.
 * Invariant: memory never holds a group, only its keys and one state per aggregate. */
#include "common/rows/relation.h"
#include "common/rows/relkey.h"

#include <math.h>
#include <stdlib.h>

enum input { IN_ROWS, IN_ANY, IN_SCALAR, IN_NUMBER };   /* valid columns; IN_ROWS: also none */
enum result { OUT_COUNT, OUT_SUM, OUT_REAL, OUT_SAME }; /* OUT_SUM: int64 for integers, else float */

struct aggregate;
struct function {
    const char *name;
    enum input input;
    enum result result;
    bool ordered; /* needs the values in order */
    /* Process rows [from, to) of the column, all of one group. */
    int (*take)(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err);
    int (*give)(struct aggregate *a, struct ctr_colbuf *out, struct ctr_err *err); /* at the end of the group */
};

struct aggregate {
    bool in_plan;
    const struct function *f;
    char *name, *column_name;
    int column; /* input column; -1: none */
    int sorted; /* column of the sort by keys; -1: none */
    int values; /* index in values[]; -1: not ordered */
    double p;
    bool has_value;
    int64_t n; /* non-null values */
    __int128 whole;
    double real, low, high;
    struct ctr_colbuf kept; /* one row: the smallest, … */
};

/* The values of a column sorted within the keys. */
struct values {
    int column, sorted;       /* of the input; of the sort by keys, to count a group's nulls */
    struct ctr_schema schema; /* the keys and the column */
    struct ctr_sort *sort;
    const struct ctr_batch *b;
    int64_t at, nulls;
};

struct ctr_group {
    struct ctr_group_opts opts;
    struct ctr_strs key_names;
    int *key, nkeys;
    struct aggregate *agg;
    int n;
    int *input, inputs;            /* columns read, ascending */
    struct ctr_schema sorted, out; /* the keys, and the columns processed by row */
    struct ctr_sort *sort;
    int *from; /* for each column of the sort, its position in a batch */
    struct values *values;
    int nvalues;
    struct ctr_col *cols;
    const struct ctr_batch *b; /* of the sort; [at, b->rows) are next */
    int64_t at, rows;          /* rows: in the group so far */
    struct ctr_batchbuf first; /* the keys of the group: one row of the sort */
    struct ctr_batchbuf result;
    bool finished, open;
    struct ctr_group_stats stats;
};

/* ---- functions ---- */

static int64_t values_of(const struct ctr_col *c, int64_t from, int64_t to)
{
    int64_t n = 0;
    if (!c->valid && !(c->dict && c->dict->valid))
        return to - from;
    for (int64_t i = from; i < to; i++)
        n += !ctr_col_missing(c, i);
    return n;
}

static int take_count(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    (void)err;
    a->n += c ? values_of(c, from, to) : to - from;
    return 0;
}

static int give_count(struct aggregate *a, struct ctr_colbuf *out, struct ctr_err *err)
{
    return ctr_colbuf_i64(out, a->n, err);
}

static int take_sum(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    const bool real = ctr_types[c->type].floating, wide = c->type == CTR_U64;
    (void)err;
    a->n += values_of(c, from, to);
    for (int64_t i = from; i < to; i++) {
        if (ctr_col_missing(c, i))
            continue;
        if (real)
            a->real += ctr_col_f64(c, i);
        else
            a->whole += wide ? (__int128)(uint64_t)ctr_col_i64(c, i) : (__int128)ctr_col_i64(c, i);
    }
    return 0;
}

/* A canonical NaN: arithmetic may give different ones, depending on the order of operands. */
static int give_real(double v, struct ctr_colbuf *out, struct ctr_err *err)
{
    return ctr_colbuf_f64(out, isnan(v) ? (double)NAN : v, err);
}

static int give_sum(struct aggregate *a, struct ctr_colbuf *out, struct ctr_err *err)
{
    if (ctr_types[out->type].floating)
        return give_real(a->real, out, err);
    if (a->whole > INT64_MAX || a->whole < INT64_MIN)
        return ctr_fail(err, CTR_EDATA, "sum(%s) is beyond int64; sum floats: %s%s * 1.0%s", a->column_name,
                        ctr_words(a->in_plan, "ctr-select --add 'x=", "add x = "), a->column_name,
                        ctr_words(a->in_plan, "'", ""));
    return ctr_colbuf_i64(out, (int64_t)a->whole, err);
}

static int give_mean(struct aggregate *a, struct ctr_colbuf *out, struct ctr_err *err)
{
    /* One of the two is 0. */
    return a->n ? give_real(((double)a->whole + a->real) / (double)a->n, out, err) : ctr_colbuf_null(out, err);
}

static int keep(struct aggregate *a, const struct ctr_col *c, int64_t row, struct ctr_err *err)
{
    ctr_colbuf_clear(&a->kept);
    a->has_value = true;
    return ctr_colbuf_range(&a->kept, c, row, 1, err);
}

/* The row of [from, to) with the smallest value times `sign`, the first of equals. */
static int take_extreme(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, int sign,
                        struct ctr_err *err)
{
    int64_t best = -1;
    for (int64_t i = from; i < to; i++)
        if (!ctr_col_missing(c, i) && (best < 0 || sign * ctr_col_compare(c, i, c, best) < 0))
            best = i;
    if (best < 0 || (a->has_value && sign * ctr_col_compare(c, best, ctr_colbuf_view(&a->kept), 0) >= 0))
        return 0;
    return keep(a, c, best, err);
}

static int take_min(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    return take_extreme(a, c, from, to, 1, err);
}

static int take_max(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    return take_extreme(a, c, from, to, -1, err);
}

static int take_first(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    return a->has_value || from == to ? 0 : keep(a, c, from, err);
}

static int take_last(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    return from == to ? 0 : keep(a, c, to - 1, err);
}

static int give_kept(struct aggregate *a, struct ctr_colbuf *out, struct ctr_err *err)
{
    return a->has_value ? ctr_colbuf_range(out, ctr_colbuf_view(&a->kept), 0, 1, err) : ctr_colbuf_null(out, err);
}

/* The values of a group in order, in one or more runs; n: number of previous ones. */
static int take_distinct(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = from; !rc && i < to; i++)
        if (!a->has_value || ctr_col_compare(c, i, ctr_colbuf_view(&a->kept), 0)) {
            a->n++;
            rc = keep(a, c, i, err);
        }
    return rc;
}

/* Interpolates at rank (N - 1) p of N values; `whole` is N - 1 before the values come. */
static int take_quantile(struct aggregate *a, const struct ctr_col *c, int64_t from, int64_t to, struct ctr_err *err)
{
    const double rank = (double)(int64_t)a->whole * a->p;
    const int64_t low = CTR_MIN((int64_t)rank, (int64_t)a->whole);
    (void)err;
    for (int64_t i = from; i < to; i++, a->n++) {
        if (a->n == low)
            a->low = a->high = ctr_col_f64(c, i);
        else if (a->n == low + 1)
            a->high = ctr_col_f64(c, i);
    }
    a->real = rank - (double)low;
    return 0;
}

static int give_quantile(struct aggregate *a, struct ctr_colbuf *out, struct ctr_err *err)
{
    if (!a->n)
        return ctr_colbuf_null(out, err);
    /* Equal values, including infinite ones, need no arithmetic. */
    return give_real(!a->real || a->low == a->high ? a->low : a->low + a->real * (a->high - a->low), out, err);
}

static const struct function functions[] = {
    { "count", IN_ROWS, OUT_COUNT, false, take_count, give_count },
    { "sum", IN_NUMBER, OUT_SUM, false, take_sum, give_sum },
    { "mean", IN_NUMBER, OUT_REAL, false, take_sum, give_mean },
    { "min", IN_SCALAR, OUT_SAME, false, take_min, give_kept },
    { "max", IN_SCALAR, OUT_SAME, false, take_max, give_kept },
    { "first", IN_ANY, OUT_SAME, false, take_first, give_kept },
    { "last", IN_ANY, OUT_SAME, false, take_last, give_kept },
    { "distinct", IN_SCALAR, OUT_COUNT, true, take_distinct, give_count },
    { "quantile", IN_NUMBER, OUT_REAL, true, take_quantile, give_quantile },
};

/* ---- what is asked for ---- */

static const struct function *find_function(const char *name, size_t n, struct ctr_err *err)
{
    const char *names[CTR_COUNT(functions)];
    char word[64], hint[200];
    for (size_t i = 0; i < CTR_COUNT(functions); i++) {
        names[i] = functions[i].name;
        if (strlen(names[i]) == n && !memcmp(names[i], name, n))
            return &functions[i];
    }
    ctr_format(word, sizeof word, "%.*s", (int)CTR_MIN(n, (size_t)40), name);
    (void)ctr_fail(err, CTR_EUSAGE, "there is no aggregate %s%s", word,
                   ctr_name_hint(hint, sizeof hint, word, names, (int)CTR_COUNT(functions)));
    return NULL;
}

static struct ctr_str trimmed(const char *p, size_t n)
{
    while (n && *p == ' ')
        p++, n--;
    while (n && p[n - 1] == ' ')
        n--;
    return (struct ctr_str){ p, n };
}

/* Parse NAME=FUNCTION(COLUMN[, P]). */
static int parse(struct aggregate *a, const char *text, struct ctr_err *err)
{
    const char *eq = strchr(text, '='), *open = eq ? strchr(eq, '(') : NULL;
    const size_t n = strlen(text);
    if (!open || eq == text || text[n - 1] != ')')
        return ctr_fail(err, CTR_EUSAGE, "'%s' is not NAME=AGGREGATE(COLUMN), such as clicks=sum(click)", text);
    struct ctr_str name = trimmed(text, (size_t)(eq - text)), word = trimmed(eq + 1, (size_t)(open - eq) - 1),
                   column = trimmed(open + 1, (size_t)(text + n - 1 - (open + 1)));
    if (!(a->f = find_function(word.p, word.n, err)))
        return err->code;
    if (a->f->take == take_quantile) {
        const char *comma = memrchr(column.p, ',', column.n);
        const struct ctr_str p =
            comma ? trimmed(comma + 1, (size_t)(column.p + column.n - comma) - 1) : (struct ctr_str){ "", 0 };
        if (!comma || !ctr_parse_f64(p.p, p.n, &a->p) || !(a->p >= 0 && a->p <= 1))
            return ctr_fail(err, CTR_EUSAGE, "%s: quantile(COLUMN, P) wants a P from 0 to 1, 0.5 being the median",
                            text);
        column = trimmed(column.p, (size_t)(comma - column.p));
    }
    int rc = ctr_memdup(&a->name, name.p, name.n, err);
    return rc ? rc : ctr_memdup(&a->column_name, column.p, column.n, err);
}

static int check_column(struct aggregate *a, const struct ctr_schema *s, struct ctr_err *err)
{
    char type[64];
    a->column = -1;
    if (!*a->column_name && a->f->input == IN_ROWS)
        return 0;
    if (!*a->column_name)
        return ctr_fail(err, CTR_EUSAGE, "%s=%s() wants a column", a->name, a->f->name);
    a->column = ctr_schema_need(s, a->column_name, err);
    if (a->column < 0)
        return a->column;
    const struct ctr_field *f = &s->f[a->column];
    const bool number = ctr_types[f->type].integer || ctr_types[f->type].floating || f->type == CTR_BOOL;
    if ((a->f->input == IN_NUMBER && !number) || (a->f->input == IN_SCALAR && ctr_key_class(f->type) == CTR_KEY_NONE))
        return ctr_fail(err, CTR_EUSAGE, "%s is %s, and %s takes %s", f->name,
                        ctr_field_type_name(f, type, sizeof type), a->f->name,
                        number                     ? "no list"
                        : a->f->input == IN_NUMBER ? "numbers"
                                                   : "no list");
    return 0;
}

static int find_aggregates(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    const int n = g->opts.add ? g->opts.add->n : 0;
    if (!n)
        return ctr_fail(err, CTR_EUSAGE, "nothing to compute: %s",
                        ctr_words(g->opts.in_plan, "--add NAME=AGGREGATE(COLUMN), such as --add n=count()",
                                  "NAME = AGGREGATE(COLUMN), such as n = count()"));
    if (!(g->agg = calloc((size_t)n, sizeof *g->agg)))
        return ctr_fail_nomem(err, (size_t)n * sizeof *g->agg);
    g->n = n;
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        g->agg[i].in_plan = g->opts.in_plan;
        rc = parse(&g->agg[i], g->opts.add->s[i], err);
        if (!rc)
            rc = check_column(&g->agg[i], s, err);
    }
    return rc;
}

static int find_keys(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && g->opts.keys && i < g->opts.keys->n; i++)
        rc = ctr_strs_split(&g->key_names, g->opts.keys->s[i], ',', err);
    if (!rc && !g->key_names.n)
        return ctr_fail(err, CTR_EUSAGE, "say what to group by: -k COLUMN");
    if (!rc && !(g->key = calloc((size_t)g->key_names.n + 1, sizeof *g->key)))
        rc = ctr_fail_nomem(err, (size_t)g->key_names.n * sizeof *g->key);
    for (int i = 0; !rc && i < g->key_names.n; i++) {
        g->key[i] = ctr_schema_need(s, g->key_names.s[i], err);
        rc = CTR_MIN(g->key[i], 0);
        if (!rc && ctr_key_class(s->f[g->key[i]].type) == CTR_KEY_NONE)
            rc = ctr_fail(err, CTR_EUSAGE, "%s is a list, and a list cannot be a key: take an element with at()",
                          g->key_names.s[i]);
        for (int k = 0; !rc && k < i; k++)
            if (g->key[k] == g->key[i])
                rc = ctr_fail(err, CTR_EUSAGE, "%s is named twice among the keys", g->key_names.s[i]);
    }
    g->nkeys = rc ? 0 : g->key_names.n;
    return rc;
}

/* ---- schemas ---- */

static int add_column(struct ctr_group *g, const struct ctr_schema *s, int column, int *at, struct ctr_err *err)
{
    *at = ctr_schema_find(&g->sorted, s->f[column].name);
    if (*at >= 0)
        return 0;
    int *more = realloc(g->from, ((size_t)g->sorted.n + 1) * sizeof *more);
    if (!more)
        return ctr_fail_nomem(err, ((size_t)g->sorted.n + 1) * sizeof *more);
    g->from = more;
    g->from[g->sorted.n] = column; /* its position in a batch once the inputs are known */
    *at = g->sorted.n;
    return ctr_schema_add_field(&g->sorted, &s->f[column], NULL, err);
}

static int add_values(struct ctr_group *g, const struct ctr_schema *s, int column, int *at, struct ctr_err *err)
{
    int rc = 0;
    for (*at = 0; *at < g->nvalues; ++*at)
        if (g->values[*at].column == column)
            return 0;
    struct values *v = &g->values[g->nvalues++];
    v->column = column;
    for (int i = 0; !rc && i < g->nkeys; i++)
        rc = ctr_schema_add_field(&v->schema, &s->f[g->key[i]], NULL, err);
    for (int i = 0; !rc && i < g->nkeys; i++)
        if (g->key[i] == column)
            return 0;
    return rc ? rc : ctr_schema_add_field(&v->schema, &s->f[column], NULL, err);
}

static int sorted_schemas(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0, at;
    if (!(g->values = calloc((size_t)g->n, sizeof *g->values)))
        return ctr_fail_nomem(err, (size_t)g->n * sizeof *g->values);
    for (int i = 0; !rc && i < g->nkeys; i++)
        rc = add_column(g, s, g->key[i], &at, err);
    for (int i = 0; !rc && i < g->n; i++) {
        struct aggregate *a = &g->agg[i];
        a->sorted = a->values = -1;
        if (a->column >= 0)
            rc = add_column(g, s, a->column, &a->sorted, err);
        if (!rc && a->f->ordered) {
            rc = add_values(g, s, a->column, &a->values, err);
            g->values[a->values].sorted = a->sorted;
        }
    }
    return rc;
}

static int unique_names(const struct ctr_group *g, struct ctr_err *err)
{
    bool twice = false;
    for (int i = 0; i < g->n; i++) {
        const char *name = g->agg[i].name;
        twice |= ctr_strs_find(&g->key_names, name) >= 0;
        for (int k = 0; k < i; k++)
            twice |= !strcmp(g->agg[k].name, name);
        if (twice)
            return ctr_fail(err, CTR_EUSAGE,
                            "two columns of the result are called %s: %s gives each a name of its own, NAME=%s(…)",
                            name, ctr_words(g->opts.in_plan, "--add", "="), g->agg[i].f->name);
    }
    return 0;
}

/* Keys keep their roles; an aggregate has no role. */
static int result_schema(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = unique_names(g, err);
    if (!rc)
        rc = ctr_meta_copy(&g->out.meta, &s->meta, err);
    for (int i = 0; !rc && i < g->nkeys; i++) {
        rc = ctr_schema_add_field(&g->out, &s->f[g->key[i]], NULL, err);
        if (!rc)
            g->out.f[i].dict = false;
    }
    for (int i = 0; !rc && i < g->n; i++) {
        const struct aggregate *a = &g->agg[i];
        const struct ctr_field *f = a->column < 0 ? NULL : &s->f[a->column];
        static const enum ctr_type type[] = { [OUT_COUNT] = CTR_I64, [OUT_SUM] = CTR_I64, [OUT_REAL] = CTR_F64 };
        if (a->f->result == OUT_SAME) {
            rc = ctr_schema_add_field(&g->out, f, a->name, err);
            if (!rc) {
                g->out.f[g->out.n - 1].dict = false;
                ctr_meta_free(&g->out.f[g->out.n - 1].meta);
            }
            if (!rc)
                rc = ctr_colbuf_init(&g->agg[i].kept, &g->out.f[g->out.n - 1], err);
            continue;
        }
        rc = ctr_schema_add(&g->out, a->name,
                            a->f->result == OUT_SUM && ctr_types[f->type].floating ? CTR_F64 : type[a->f->result], err);
        if (!rc && a->f->take == take_distinct) {
            struct ctr_field plain = *f;
            plain.dict = false;
            rc = ctr_colbuf_init(&g->agg[i].kept, &plain, err);
        }
    }
    return rc;
}

/* Find the columns to read, and their positions in a batch projected to these. */
static int find_inputs(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int *place = calloc((size_t)s->n + 1, sizeof *place);
    g->input = calloc((size_t)s->n + 1, sizeof *g->input);
    g->cols = calloc((size_t)g->sorted.n + (size_t)g->nkeys + 1, sizeof *g->cols);
    if (!place || !g->input || !g->cols) {
        free(place);
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *place);
    }
    for (int i = 0; i < g->sorted.n; i++)
        place[g->from[i]] = 1;
    for (int i = 0; i < g->nvalues; i++)
        place[g->values[i].column] = 1;
    for (int i = 0; i < s->n; i++)
        if (place[i]) {
            place[i] = g->inputs;
            g->input[g->inputs++] = i;
        }
    for (int i = 0; i < g->sorted.n; i++)
        g->from[i] = place[g->from[i]];
    for (int i = 0; i < g->nvalues; i++)
        g->values[i].column = place[g->values[i].column];
    free(place);
    return 0;
}

static int open_sorts(struct ctr_group *g, struct ctr_err *err)
{
    struct ctr_sort_opts so = { .memory_bytes = ctr_relation_memory(g->opts.memory_bytes) / (1 + g->nvalues),
                                .batch_rows = g->opts.batch_rows,
                                .threads = g->opts.threads };
    struct ctr_strs names = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < g->nkeys; i++)
        rc = ctr_strs_add(&names, g->sorted.f[i].name, strlen(g->sorted.f[i].name), err);
    so.keys = &names;
    if (!rc)
        rc = ctr_sort_new(&g->sort, &g->sorted, &so, err);
    for (int i = 0; !rc && i < g->nvalues; i++) {
        struct values *v = &g->values[i];
        struct ctr_strs with = { 0 };
        for (int k = 0; !rc && k < v->schema.n; k++)
            rc = ctr_strs_add(&with, v->schema.f[k].name, strlen(v->schema.f[k].name), err);
        so.keys = &with;
        if (!rc)
            rc = ctr_sort_new(&v->sort, &v->schema, &so, err);
        ctr_strs_free(&with);
    }
    ctr_strs_free(&names);
    return rc;
}

int ctr_group_new(struct ctr_group **out, const struct ctr_schema *schema, const struct ctr_group_opts *o,
                  struct ctr_err *err)
{
    struct ctr_group *g = *out = NULL;
    int rc;
    if (!(g = calloc(1, sizeof *g)))
        return ctr_fail_nomem(err, sizeof *g);
    g->opts = *o;
    if (g->opts.batch_rows <= 0)
        g->opts.batch_rows = CTR_BATCH_ROWS;
    rc = find_keys(g, schema, err);
    if (!rc)
        rc = find_aggregates(g, schema, err);
    if (!rc)
        rc = sorted_schemas(g, schema, err);
    if (!rc)
        rc = result_schema(g, schema, err);
    if (!rc)
        rc = find_inputs(g, schema, err);
    if (!rc)
        rc = open_sorts(g, err);
    if (!rc)
        rc = ctr_batchbuf_init(&g->first, ctr_sort_schema(g->sort), err);
    if (!rc)
        rc = ctr_batchbuf_init(&g->result, &g->out, err);
    g->opts.keys = g->opts.add = NULL;
    if (rc)
        ctr_group_free(g);
    else
        *out = g;
    return rc;
}

void ctr_group_free(struct ctr_group *g)
{
    if (!g)
        return;
    if (g->first.schema)
        ctr_batchbuf_free(&g->first);
    if (g->result.schema)
        ctr_batchbuf_free(&g->result);
    ctr_sort_free(g->sort);
    for (int i = 0; i < g->nvalues; i++) {
        ctr_sort_free(g->values[i].sort);
        ctr_schema_free(&g->values[i].schema);
    }
    for (int i = 0; i < g->n; i++) {
        free(g->agg[i].name);
        free(g->agg[i].column_name);
        ctr_colbuf_free(&g->agg[i].kept);
    }
    ctr_schema_free(&g->sorted);
    ctr_schema_free(&g->out);
    ctr_strs_free(&g->key_names);
    free(g->values);
    free(g->agg);
    free(g->key);
    free(g->input);
    free(g->from);
    free(g->cols);
    free(g);
}

const struct ctr_schema *ctr_group_schema(const struct ctr_group *g)
{
    return &g->out;
}

const int *ctr_group_inputs(const struct ctr_group *g, int *n)
{
    *n = g->inputs;
    return g->input;
}

void ctr_group_get_stats(const struct ctr_group *g, struct ctr_group_stats *st)
{
    *st = g->stats;
}

/* ---- taking in ---- */

int ctr_group_batch(struct ctr_group *g, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_batch part = { .schema = &g->sorted, .rows = b->rows, .first_row = b->first_row, .col = g->cols };
    g->stats.rows += b->rows;
    for (int i = 0; i < g->sorted.n; i++)
        g->cols[i] = b->col[g->from[i]];
    int rc = ctr_sort_batch(g->sort, &part, err);
    for (int k = 0; !rc && k < g->nvalues; k++) {
        struct values *v = &g->values[k];
        g->cols[g->nkeys] = b->col[v->column];
        part.schema = &v->schema;
        rc = ctr_sort_batch(v->sort, &part, err);
    }
    return rc;
}

static void add_stats(struct ctr_group *g, const struct ctr_sort *s)
{
    struct ctr_sort_stats st;
    ctr_sort_get_stats(s, &st);
    g->stats.runs += st.runs;
    g->stats.spilled_bytes += st.spilled_bytes;
}

int ctr_group_finish(struct ctr_group *g, struct ctr_err *err)
{
    int rc = ctr_sort_finish(g->sort, err);
    add_stats(g, g->sort);
    for (int i = 0; !rc && i < g->nvalues; i++) {
        rc = ctr_sort_finish(g->values[i].sort, err);
        add_stats(g, g->values[i].sort);
    }
    g->finished = true;
    return rc;
}

/* ---- groups ---- */

static bool same_keys(const struct ctr_group *g, const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    for (int k = 0; k < g->nkeys; k++)
        if (ctr_col_compare(&a[k], i, &b[k], j))
            return false;
    return true;
}

static void reset(struct aggregate *a)
{
    a->has_value = false;
    a->n = 0;
    a->whole = 0;
    a->real = 0;
}

static int begin(struct ctr_group *g, struct ctr_err *err)
{
    g->open = true;
    g->rows = 0;
    for (int i = 0; i < g->n; i++)
        reset(&g->agg[i]);
    for (int i = 0; i < g->nvalues; i++)
        g->values[i].nulls = 0;
    ctr_batchbuf_clear(&g->first);
    const int rc = ctr_batchbuf_range(&g->first, g->b, g->at, 1, err);
    (void)ctr_batchbuf_view(&g->first);
    return rc;
}

static int take_ordered(struct ctr_group *g, int v, const struct ctr_col *c, int64_t from, int64_t to,
                        struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < g->n; i++)
        if (g->agg[i].values == v)
            rc = g->agg[i].f->take(&g->agg[i], c, from, to, err);
    return rc;
}

/* Read the group's rows from the sort by value; nulls come last. */
static int read_values(struct ctr_group *g, int k, struct ctr_err *err)
{
    struct values *v = &g->values[k];
    int rc = 0;
    for (int64_t left = g->rows; !rc && left > 0;) {
        if (!v->b || v->at == v->b->rows) {
            v->at = 0;
            if ((rc = ctr_sort_next(v->sort, &v->b, err)) <= 0)
                return rc ? rc : ctr_fail(err, CTR_EDATA, "a group has fewer rows by value than by key");
        }
        const int64_t n = CTR_MIN(left, v->b->rows - v->at), values = CTR_MIN(n, CTR_MAX(left - v->nulls, 0));
        rc = take_ordered(g, k, &v->b->col[v->schema.n - 1], v->at, v->at + values, err);
        v->at += n;
        left -= n;
    }
    return rc;
}

/* Prefix an error with the keys of the group. */
static int in_group(const struct ctr_group *g, struct ctr_err *err)
{
    const struct ctr_err why = *err;
    struct ctr_buf keys = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < g->nkeys; i++) {
        const struct ctr_col *c = ctr_colbuf_view(&g->first.col[i]);
        rc = ctr_buf_printf(&keys, err, "%s%s=%s", i ? ", " : "", g->key_names.s[i],
                            ctr_col_missing(c, 0) ? "null" : "");
        if (!rc && !ctr_col_missing(c, 0))
            rc = ctr_col_text(c, 0, &keys, err);
    }
    *err = why;
    if (!rc && keys.len)
        (void)ctr_fail(err, why.code, "the group %.*s: %s", (int)CTR_MIN(keys.len, (size_t)300), (char *)keys.data,
                       why.what);
    ctr_buf_free(&keys);
    return why.code;
}

static int end(struct ctr_group *g, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < g->nkeys; i++)
        rc = ctr_colbuf_range(&g->result.col[i], ctr_colbuf_view(&g->first.col[i]), 0, 1, err);
    for (int i = 0; i < g->n; i++)
        if (g->agg[i].values >= 0) /* a quantile needs it before the first value */
            g->agg[i].whole = g->rows - g->values[g->agg[i].values].nulls - 1;
    for (int i = 0; !rc && i < g->nvalues; i++)
        rc = read_values(g, i, err);
    for (int i = 0; !rc && i < g->n; i++)
        rc = g->agg[i].f->give(&g->agg[i], &g->result.col[g->nkeys + i], err);
    if (rc == CTR_EDATA)
        rc = in_group(g, err);
    g->stats.groups++;
    g->open = false;
    return rc;
}

/* Add rows [from, to) of the batch to the group. */
static int take(struct ctr_group *g, int64_t from, int64_t to, struct ctr_err *err)
{
    int rc = 0;
    g->rows += to - from;
    for (int i = 0; !rc && i < g->n; i++) {
        struct aggregate *a = &g->agg[i];
        if (a->values < 0)
            rc = a->f->take(a, a->sorted < 0 ? NULL : &g->b->col[a->sorted], from, to, err);
    }
    for (int i = 0; i < g->nvalues; i++)
        g->values[i].nulls += to - from - values_of(&g->b->col[g->values[i].sorted], from, to);
    return rc;
}

/* End the group if the next row has other keys, and process the run of rows with equal keys. */
static int take_run(struct ctr_group *g, struct ctr_err *err)
{
    int rc = 0;
    if (g->open && !same_keys(g, g->first.batch.col, 0, g->b->col, g->at))
        rc = end(g, err);
    if (!rc && !g->open)
        rc = begin(g, err);
    int64_t to = g->at + 1;
    while (to < g->b->rows && same_keys(g, g->b->col, to - 1, g->b->col, to))
        to++;
    if (!rc)
        rc = take(g, g->at, to, err);
    g->at = to;
    return rc;
}

int ctr_group_next(struct ctr_group *g, const struct ctr_batch **out, struct ctr_err *err)
{
    int rc = 1;
    ctr_batchbuf_clear(&g->result);
    while (g->finished && rc > 0 && ctr_batchbuf_rows(&g->result) < g->opts.batch_rows) {
        if (g->b && g->at < g->b->rows) {
            rc = take_run(g, err) ? err->code : 1;
            continue;
        }
        g->at = 0;
        rc = ctr_sort_next(g->sort, &g->b, err);
        if (!rc) {
            g->finished = false; /* no more */
            g->b = NULL;
            rc = g->open ? end(g, err) : 0;
        }
    }
    if (rc < 0)
        return rc;
    *out = ctr_batchbuf_view(&g->result);
    return (*out)->rows > 0;
}

/* ---- as a stage ---- */

static const struct ctr_schema *stage_schema(const void *object)
{
    return ctr_group_schema(object);
}

static int stage_batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_group_batch(object, b, err);
}

static int stage_finish(void *object, struct ctr_err *err)
{
    return ctr_group_finish(object, err);
}

static int stage_next(void *object, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_group_next(object, b, err);
}

static void stage_free(void *object)
{
    ctr_group_free(object);
}

int ctr_group_source(struct ctr_batch_source *s, const struct ctr_group_opts *o, struct ctr_group **stage,
                     struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { stage_schema, stage_batch, stage_finish, stage_next, stage_free };
    struct ctr_group *g;
    int n, rc = ctr_group_new(&g, ctr_batch_source_schema(s), o, err);
    if (rc)
        return rc;
    const int *inputs = ctr_group_inputs(g, &n);
    rc = ctr_batch_source_project(s, inputs, n, err);
    if (!rc)
        rc = ctr_batch_source_push(s, &ops, g, err);
    if (rc)
        ctr_group_free(g);
    else
        *stage = g;
    return rc;
}
