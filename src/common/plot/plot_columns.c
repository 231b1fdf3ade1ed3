/* SPDX-License-Identifier: Apache-2.0
 *
 * Bars by name: importance of columns, tables or weights; drift of columns. Only the longest bars are kept, but for
 * contributions, which are summed by table. */
#include "common/plot/plot_draw.h"
#include "common/table/table.h"

#include <math.h>
#include <stdlib.h>

enum { TOP = 20, MOST_TABLES = 65536 };

struct bar {
    char *name; /* owned */
    double value, low, high;
    int64_t number; /* of the row; bars of equal length stand in this order */
};
struct bars {
    struct bar *bar;
    int n, most; /* kept; kept at most */
    int64_t seen, undefined;
    const char *x; /* label */
};

static int longer(const void *a, const void *b)
{
    const struct bar *x = a, *y = b;
    const double l = fabs(x->value), m = fabs(y->value);
    if (l != m)
        return l > m ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int bars_new(struct ctr_plot *p, struct bars *b, struct ctr_err *err)
{
    b->most = (int)(p->o->top ? p->o->top : TOP);
    b->bar = calloc((size_t)b->most + 1, sizeof *b->bar);
    return b->bar ? 0 : ctr_fail_nomem(err, (size_t)b->most * sizeof *b->bar);
}

static void bars_free(struct bars *b)
{
    for (int i = 0; i < b->n; i++)
        free(b->bar[i].name);
    free(b->bar);
}

/* Insert a bar where it belongs; the shortest goes when there are too many. */
static int bars_add(struct bars *b, const struct ctr_buf *name, double value, double low, double high,
                    struct ctr_err *err)
{
    struct bar new = { NULL, value, low, high, b->seen };
    if (isnan(value)) {
        b->undefined++;
        return 0;
    }
    b->seen++;
    if (b->n == b->most && longer(&b->bar[b->n - 1], &new) < 0)
        return 0;
    const int rc = ctr_memdup(&new.name, (const char *)name->data, name->len, err);
    if (rc)
        return rc;
    int at = b->n;
    for (; at > 0 && longer(&new, &b->bar[at - 1]) < 0; at--)
        b->bar[at] = b->bar[at - 1];
    b->bar[at] = new;
    if (++b->n > b->most)
        free(b->bar[--b->n].name);
    return 0;
}

/* ---- drawing ---- */

/* Of a long name the beginning, so that the numbers have room. */
static struct ctr_plot_text bar_tip(const struct bar *b)
{
    char name[260];
    const size_t n = strlen(b->name), keep = ctr_columns_cut(b->name, CTR_MIN(n, sizeof name - 4), 100);
    memcpy(name, b->name, keep);
    memcpy(name + keep, CTR_CUT, sizeof CTR_CUT);
    if (keep == n)
        name[n] = 0;
    if (isnan(b->low) || isnan(b->high))
        return ctr_plot_text("%s: %.6g", name, b->value);
    return ctr_plot_text("%s: %.6g (%.6g to %.6g)", name, b->value, b->low, b->high);
}

/* `rules`: values to compare with, ended by 0. */
static int draw_bars(struct ctr_plot *p, const struct bars *b, const char *subtitle, const double *rules,
                     struct ctr_err *err)
{
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_svg g;
    double low = 0, high = 0;
    if (!b->n)
        return ctr_plot_empty(p, b->undefined ? "all values are undefined" : "no rows", err);
    const char **names = calloc((size_t)b->n, sizeof *names);
    if (!names)
        return ctr_fail_nomem(err, (size_t)b->n * sizeof *names);
    for (int i = 0; i < b->n; i++) {
        const double ends[] = { b->bar[i].value, b->bar[i].low, b->bar[i].high };
        names[i] = b->bar[i].name;
        for (size_t k = 0; k < CTR_COUNT(ends); k++)
            if (isfinite(ends[k])) {
                low = fmin(low, ends[k]);
                high = fmax(high, ends[k]);
            }
    }
    f.subtitle = subtitle;
    f.x = (struct ctr_axis){ .label = b->x, .low = low, .high = high };
    f.y = (struct ctr_axis){ .high = b->n, .kind = CTR_AXIS_NAMES, .names = names };
    ctr_svg_begin(&g, &f, p->svg, err);
    for (; rules && *rules; rules++)
        if (*rules < g.x.high)
            ctr_svg_rule(&g, *rules, 0, *rules, b->n);
    for (int i = 0; i < b->n; i++) {
        const struct bar *v = &b->bar[i];
        const bool unsure = v->low <= 0 && v->high >= 0; /* false where there is no interval */
        ctr_svg_bar(&g, v->value < 0, 0, v->value, i + .15, i + .85, unsure, bar_tip(v).s);
        ctr_svg_whisker(&g, v->low, v->high, i + .5, i + .5);
    }
    free(names);
    return ctr_svg_end(&g);
}

static struct ctr_plot_text counts(const struct bars *b, const char *what)
{
    struct ctr_plot_text more = { "" };
    if (b->undefined)
        more = ctr_plot_text(", %s undefined", ctr_plot_count((double)b->undefined).s);
    if (b->n < b->seen)
        return ctr_plot_text("the largest %d of %s %s%s%s", b->n, ctr_plot_count((double)b->seen).s, what,
                             CTR_S(b->seen), more.s);
    return ctr_plot_text("%s %s%s%s", ctr_plot_count((double)b->seen).s, what, CTR_S(b->seen), more.s);
}

/* ---- names and values of rows ---- */

/* Append the text of a cell, after a separator if it is not the first. Null appends nothing. */
static int add_text(const struct ctr_batch *b, int column, int64_t i, const char *separator, struct ctr_buf *name,
                    struct ctr_err *err)
{
    if (column < 0 || ctr_col_missing(&b->col[column], i))
        return 0;
    const int rc = name->len ? ctr_buf_append(name, separator, strlen(separator), err) : 0;
    return rc ? rc : ctr_col_text(&b->col[column], i, name, err);
}

/* Append the value of a slice, ", VALUE". */
static int add_slice(const struct ctr_batch *b, int column, int64_t i, struct ctr_buf *name, struct ctr_err *err)
{
    struct ctr_buf value = { 0 };
    const bool null = column >= 0 && ctr_col_missing(&b->col[column], i);
    if (column < 0)
        return 0;
    int rc = null ? 0 : ctr_col_text(&b->col[column], i, &value, err);
    if (!rc)
        rc = ctr_buf_append(name, ", ", 2, err);
    if (!rc)
        rc = ctr_buf_value_name(name, null ? NULL : value.len ? (const char *)value.data : "", value.len, err);
    ctr_buf_free(&value);
    return rc;
}

/* The bias is in every row alike: no column, and its bar would dwarf the others. */
static bool is_bias(const struct ctr_batch *b, int table, int64_t i)
{
    if (table < 0 || b->schema->f[table].type != CTR_UTF8 || ctr_col_missing(&b->col[table], i))
        return false;
    const struct ctr_str s = ctr_col_str(&b->col[table], i);
    return s.n == 6 && !memcmp(s.p, "(bias)", 6);
}

/* The columns of a row that is a bar. */
struct bar_columns {
    int name, table, key, by, window, value, low, high, row;
};

static int name_row(const struct bar_columns *c, const struct ctr_batch *b, int64_t i, struct ctr_buf *name,
                    struct ctr_err *err)
{
    name->len = 0;
    int rc = add_text(b, c->table, i, "", name, err);
    if (!rc)
        rc = add_text(b, c->name, i, " = ", name, err);
    if (!rc && c->key >= 0 && (c->name < 0 || ctr_col_missing(&b->col[c->name], i)) &&
        !ctr_col_missing(&b->col[c->key], i))
        rc = ctr_buf_printf(name, err, " #%016llx", (unsigned long long)ctr_col_i64(&b->col[c->key], i));
    if (!rc)
        rc = add_slice(b, c->by, i, name, err);
    return rc ? rc : add_text(b, c->window, i, ", ", name, err);
}

static int read_bars(struct ctr_plot *p, const struct bar_columns *c, struct bars *bars, struct ctr_err *err)
{
    const int number[] = { c->value, c->low, c->high, c->key };
    const struct ctr_batch *b;
    struct ctr_buf name = { 0 };
    int rc = 0;
    for (size_t i = 0; !rc && i < CTR_COUNT(number); i++)
        rc = ctr_plot_check_number(p, 0, number[i], number[i] == c->key ? "a key" : "a bar", err);
    while (!rc && (rc = ctr_plot_next(p, 0, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; !rc && i < b->rows; i++) {
            if (is_bias(b, c->table, i))
                continue;
            rc = name_row(c, b, i, &name, err);
            if (!rc)
                rc = bars_add(bars, &name, ctr_plot_value(b, c->value, i), ctr_plot_value(b, c->low, i),
                              ctr_plot_value(b, c->high, i), err);
        }
    }
    ctr_buf_free(&name);
    return ctr_plot_fail(p, 0, rc, err);
}

/* ---- contributions ---- */

/* Sums by table. */
struct tables {
    struct ctr_keyvalue_set set;
    struct ctr_buf sum;     /* double by table */
    struct ctr_buf row_sum; /* the same, of the row being read: */
    int64_t row, rows;
};

static void end_row(struct tables *t)
{
    double *sum = (double *)(void *)t->sum.data, *row = (double *)(void *)t->row_sum.data;
    for (uint32_t i = 0; i < t->set.n; i++) {
        sum[i] += fabs(row[i]);
        row[i] = 0;
    }
}

static int add_contribution(struct tables *t, const struct bar_columns *c, const struct ctr_batch *b, int64_t i,
                            struct ctr_err *err)
{
    const int64_t row = ctr_col_i64(&b->col[c->row], i);
    const double value = ctr_plot_value(b, c->value, i);
    struct ctr_keyvalue id = ctr_keyvalue_text((struct ctr_str){ "(rest)", 6 });
    uint32_t number = 0;
    int rc = 0;
    if (!t->rows || row != t->row) {
        end_row(t);
        t->rows++;
        t->row = row;
    }
    if (is_bias(b, c->table, i))
        return 0;
    if (!ctr_col_missing(&b->col[c->table], i))
        id = ctr_keyvalue_text(ctr_col_str(&b->col[c->table], i));
    rc = ctr_keyvalue_set_add(&t->set, &id, &number, err);
    if (!rc && number >= MOST_TABLES)
        rc = ctr_fail(err, CTR_EDATA, "more than %d tables", MOST_TABLES);
    for (struct ctr_buf *of = &t->sum; !rc && of; of = of == &t->sum ? &t->row_sum : NULL)
        while (!rc && of->len <= number * sizeof(double))
            rc = ctr_buf_append(of, &(double){ 0 }, sizeof(double), err);
    if (!rc && !isnan(value))
        ((double *)(void *)t->row_sum.data)[number] += value;
    return rc;
}

/* The mean over rows of what the entries of a table contribute together, as a distance from 0. */
static int read_contributions(struct ctr_plot *p, const struct bar_columns *c, struct bars *bars, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(&p->in[0].rows);
    struct tables t = { .rows = 0 };
    struct ctr_buf name = { 0 };
    const struct ctr_batch *b;
    int rc = ctr_plot_check_number(p, 0, c->value, "a bar", err);
    ctr_keyvalue_set_init(&t.set);
    if (!rc && s->f[c->table].type != CTR_UTF8)
        rc = ctr_fail(err, CTR_EUSAGE, "column %s is no text", s->f[c->table].name);
    if (!rc)
        rc = ctr_plot_check_number(p, 0, c->row, "a row", err);
    while (!rc && (rc = ctr_plot_next(p, 0, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; !rc && i < b->rows; i++)
            rc = add_contribution(&t, c, b, i, err);
    }
    if (!rc)
        end_row(&t);
    const int64_t *start = (const int64_t *)(const void *)t.set.start.data;
    for (uint32_t i = 0; !rc && i < t.set.n; i++) {
        name.len = 0;
        rc = ctr_buf_append(&name, t.set.bytes.data + start[i], (size_t)(start[i + 1] - start[i]), err);
        if (!rc)
            rc = bars_add(bars, &name, ((double *)(void *)t.sum.data)[i] / (double)t.rows, NAN, NAN, err);
    }
    ctr_keyvalue_set_free(&t.set);
    ctr_buf_free(&t.sum);
    ctr_buf_free(&t.row_sum);
    ctr_buf_free(&name);
    return ctr_plot_fail(p, 0, rc, err);
}

/* ---- the kinds ---- */

/* What tells importance: the first whose columns are there. */
static const struct source {
    const char *value, *label, *what;
    const char *needs[4];
    bool contributions;
} sources[] = {
    { "contribution",
      "mean distance of a table's contribution from 0, in log odds",
      "table",
      { "row", "table", "contribution" },
      true },
    { "information", "information value", "column", { "name", "information" }, false },
    { "weight", "weight", "weight", { "table", "key", "weight" }, false },
    { "change", "change of the weight", "weight", { "table", "key", "change" }, false },
};

static const struct source *find_source(const struct ctr_schema *s)
{
    for (size_t i = 0; i < CTR_COUNT(sources); i++) {
        int n = 0;
        while (n < 4 && sources[i].needs[n] && ctr_schema_find(s, sources[i].needs[n]) >= 0)
            n++;
        if (n == 4 || !sources[i].needs[n])
            return &sources[i];
    }
    return NULL;
}

static int find_columns(struct ctr_plot *p, const char *value, struct bar_columns *c, struct ctr_err *err)
{
    const struct ctr_plot_text low = ctr_plot_text("%s_low", value), high = ctr_plot_text("%s_high", value);
    const struct ctr_plot_want want[] = {
        { CTR_ROLE_SCORE, value, true, &c->value },    { CTR_ROLE_SCORE, "name", false, &c->name },
        { CTR_ROLE_SCORE, "table", false, &c->table }, { CTR_ROLE_SCORE, "key", false, &c->key },
        { CTR_ROLE_SCORE, "by", false, &c->by },       { CTR_ROLE_SCORE, "window", false, &c->window },
        { CTR_ROLE_SCORE, "row", false, &c->row },     { CTR_ROLE_SCORE, low.s, false, &c->low },
        { CTR_ROLE_SCORE, high.s, false, &c->high }
    };
    return ctr_plot_columns(p, 0, want, CTR_COUNT(want), err);
}

static int draw_importance(struct ctr_plot *p, struct ctr_err *err)
{
    const struct source *source = p->o->column ? NULL : find_source(ctr_batch_source_schema(&p->in[0].rows));
    const char *value = p->o->column ? p->o->column : source ? source->value : NULL;
    struct bar_columns c = { -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    struct bars bars = { .x = source ? source->label : value };
    int rc = value ? 0
                   : ctr_fail(err, CTR_EUSAGE, "no importance in it: %s writes it, or --column NAME names the numbers",
                              p->kind->from);
    if (!rc)
        rc = bars_new(p, &bars, err);
    if (!rc)
        rc = find_columns(p, value, &c, err);
    if (!rc)
        rc = source && source->contributions ? read_contributions(p, &c, &bars, err) : read_bars(p, &c, &bars, err);
    if (!rc)
        rc = draw_bars(p, &bars, counts(&bars, source ? source->what : "row").s, NULL, err);
    bars_free(&bars);
    return rc ? ctr_plot_fail(p, 0, rc, err) : 0;
}

static int draw_drift(struct ctr_plot *p, struct ctr_err *err)
{
    static const double usual[] = { .1, .25, 0 };
    struct bar_columns c = { -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    struct bars bars = { .x = "population stability index, with 95% intervals; lines at 0.1 and 0.25" };
    int rc = bars_new(p, &bars, err);
    if (!rc)
        rc = find_columns(p, "psi", &c, err);
    if (!rc)
        rc = read_bars(p, &c, &bars, err);
    if (!rc)
        rc = draw_bars(p, &bars, counts(&bars, "column").s, usual, err);
    bars_free(&bars);
    return rc;
}

static bool has_importance(const struct ctr_schema *s, const struct ctr_plot_opts *o)
{
    return o->column ? ctr_schema_find(s, o->column) >= 0 : find_source(s) != NULL;
}

static const char *const drift_columns[] = { "name", "psi", NULL };
const struct ctr_plot_kind ctr_plot_importance = {
    .name = "importance",
    .summary = "bars of importance: contributions, information values or weights",
    .title = "Importance",
    .from = "ctr-model explain, ctr-model top or ctr-stats with --format stream",
    .inputs = 1,
    .fits = has_importance,
    .draw = draw_importance
};
const struct ctr_plot_kind ctr_plot_drift = { .name = "drift",
                                              .summary = "bars of the drift of columns, with intervals",
                                              .title = "Drift",
                                              .columns = drift_columns,
                                              .from = "ctr-stats --against REF --format stream",
                                              .inputs = 1,
                                              .draw = draw_drift };
