/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kinds, and what they share: columns, batches, texts. */
#include "common/plot/plot_draw.h"

#include <math.h>
#include <stdio.h>

static const struct ctr_plot_kind *const kinds[] = {
    &ctr_plot_reliability, &ctr_plot_roc,    &ctr_plot_pr,        &ctr_plot_lift,
    &ctr_plot_scores,      &ctr_plot_metric, &ctr_plot_learning,  &ctr_plot_importance,
    &ctr_plot_hours,       &ctr_plot_drift,  &ctr_plot_histogram,
};

const struct ctr_plot_kind *ctr_plot_kind_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kinds) ? kinds[i] : NULL;
}

const struct ctr_plot_kind *ctr_plot_find(const char *name)
{
    for (size_t i = 0; i < CTR_COUNT(kinds); i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return NULL;
}

/* ---- columns ---- */

static const char *role_name(const struct ctr_plot_opts *o, enum ctr_role role)
{
    return o->role ? o->role[role] : NULL;
}

bool ctr_plot_fits(const struct ctr_plot_kind *k, const struct ctr_schema *s, const struct ctr_plot_opts *o)
{
    for (int role = 0; role < CTR_NROLES; role++) {
        const char *name = role_name(o, (enum ctr_role)role);
        if (k->roles >> role & 1 && (name ? ctr_schema_find(s, name) : ctr_schema_role(s, (enum ctr_role)role)) < 0)
            return false;
    }
    for (int i = 0; k->columns && k->columns[i]; i++)
        if (ctr_schema_find(s, k->columns[i]) < 0)
            return false;
    return !k->fits || k->fits(s, o);
}

static int find_column(const struct ctr_plot *p, const struct ctr_schema *s, const struct ctr_plot_want *w,
                       struct ctr_err *err)
{
    if (!w->name)
        return ctr_schema_find_role(s, w->role, role_name(p->o, w->role), w->need, w->to, err);
    *w->to = w->need ? ctr_schema_need(s, w->name, err) : ctr_schema_find(s, w->name);
    if (*w->to >= -1)
        return 0;
    if (p->kind->from)
        ctr_err_add(err, "; %s writes it", p->kind->from);
    return *w->to;
}

int ctr_plot_columns(struct ctr_plot *p, int i, const struct ctr_plot_want *want, int n, struct ctr_err *err)
{
    int *column[16], rc = 0;
    for (int k = 0; !rc && k < n; k++) {
        column[k] = want[k].to;
        rc = find_column(p, ctr_batch_source_schema(&p->in[i].rows), &want[k], err);
    }
    if (!rc)
        rc = ctr_batch_source_keep(&p->in[i].rows, column, n, NULL, err);
    return ctr_plot_fail(p, i, rc, err);
}

int ctr_plot_next(struct ctr_plot *p, int i, const struct ctr_batch **b, struct ctr_err *err)
{
    const int rc = ctr_batch_source_next(&p->in[i].rows, b, err);
    if (rc > 0 && p->o->progress)
        p->o->progress(p->o->progress_ctx, (*b)->first_row + (*b)->rows);
    return ctr_plot_fail(p, i, rc, err);
}

double ctr_plot_value(const struct ctr_batch *b, int column, int64_t row)
{
    return column < 0 || ctr_col_missing(&b->col[column], row) ? NAN : ctr_col_f64(&b->col[column], row);
}

int ctr_plot_check_number(const struct ctr_plot *p, int i, int column, const char *what, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(&p->in[i].rows);
    char type[64];
    if (column < 0 || ctr_type_number(s->f[column].type))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "column %s is %s, but %s must be a number", s->f[column].name,
                    ctr_field_type_name(&s->f[column], type, sizeof type), what);
}

int ctr_plot_fail(struct ctr_plot *p, int i, int rc, struct ctr_err *err)
{
    if (rc < 0)
        ctr_err_file(err, ctr_batch_source_name(&p->in[i].rows));
    return rc;
}

/* ---- texts ---- */

CTR_PRINTF(3, 4)
static int note(struct ctr_plot *p, struct ctr_err *err, const char *fmt, ...)
{
    va_list ap;
    if (!p->o->notes)
        return 0;
    va_start(ap, fmt);
    const int rc = ctr_buf_vformat(p->o->notes, err, fmt, ap);
    va_end(ap);
    return rc ? rc : ctr_buf_append(p->o->notes, "\n", 1, err);
}

struct ctr_plot_text ctr_plot_text(const char *fmt, ...)
{
    struct ctr_plot_text t;
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(t.s, sizeof t.s, fmt, ap);
    va_end(ap);
    return t;
}

struct ctr_plot_text ctr_plot_count(double n)
{
    struct ctr_plot_text t = { "" };
    char digits[40];
    if (n != floor(n) || fabs(n) >= 1e15) {
        snprintf(t.s, sizeof t.s, "%.6g", n);
        return t;
    }
    const int len = snprintf(digits, sizeof digits, "%.0f", n);
    size_t at = 0;
    for (int i = 0; i < len; i++) {
        if (i && digits[i - 1] != '-' && (len - i) % 3 == 0)
            t.s[at++] = ',';
        t.s[at++] = digits[i];
    }
    t.s[at] = 0;
    return t;
}

/* ---- figures ---- */

struct ctr_figure ctr_plot_figure(struct ctr_plot *p)
{
    return (struct ctr_figure){ .title = p->o->title ? p->o->title : p->kind->title,
                                .legend = p->legend,
                                .nlegend = p->n > 1 ? p->n : 0,
                                .no_style = p->o->no_style };
}

int ctr_plot_empty(struct ctr_plot *p, const char *message, struct ctr_err *err)
{
    struct ctr_svg g;
    struct ctr_figure f = ctr_plot_figure(p);
    f.nlegend = 0;
    f.message = f.summary = message;
    f.x.high = f.y.high = 1;
    f.height = 200;
    ctr_svg_begin(&g, &f, p->svg, err);
    const int rc = ctr_svg_end(&g);
    return rc ? rc : note(p, err, "%s", message);
}

int ctr_plot_draw(const struct ctr_plot_kind *k, struct ctr_plot_input *in, int n, const struct ctr_plot_opts *o,
                  struct ctr_buf *svg, struct ctr_err *err)
{
    struct ctr_plot p = { .kind = k, .in = in, .n = n, .o = o, .svg = svg };
    if (n < 1 || n > k->inputs)
        return ctr_fail(err, CTR_EUSAGE, "%s shows %s%d input%s, not %d", k->name, k->inputs > 1 ? "at most " : "",
                        k->inputs, CTR_S(k->inputs), n);
    for (int i = 0; i < n; i++)
        p.legend[i] = in[i].name;
    const size_t before = svg->len;
    const int rc = k->draw(&p, err);
    if (rc)
        svg->len = before;
    return rc;
}
