/* SPDX-License-Identifier: Apache-2.0
 *
 * evalestimate: means with intervals, as numbers, table and stream. */
#include "tools/ctr-eval/evalestimate.h"

#include "common/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double NORMAL_975 = 1.959963984540054;

void ctr_estimate_mean(struct ctr_estimate *e, const char *name, const struct ctr_mean *m)
{
    const double mean = m->w > 0 ? m->wx / m->w : NAN;
    const double spread = m->wwxx - 2 * mean * m->wwx + mean * mean * m->ww;
    const double rows = (double)m->n;
    const double half = m->n > 1 ? NORMAL_975 * sqrt(CTR_MAX(spread, 0) * rows / (rows - 1)) / m->w : NAN;

    *e = (struct ctr_estimate){ .value = mean, .low = mean - half, .high = mean + half, .rows = m->n };
    snprintf(e->name, sizeof e->name, "%s", name);
}

static struct ctr_mean_text number(double v)
{
    struct ctr_mean_text none = { "-" };
    return isfinite(v) ? ctr_mean_text(v) : none;
}

int ctr_estimates_table(const struct ctr_estimate *e, int n, const char *rows, struct ctr_buf *out, struct ctr_err *err)
{
    int wide = 6, rc;

    for (int i = 0; i < n; i++)
        wide = CTR_MAX(wide, (int)strlen(e[i].name));
    rc = ctr_buf_printf(out, err, "%-*s  %12s  %12s  %12s  %10s\n", wide, "metric", "value", "low", "high", rows);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_buf_printf(out, err, "%-*s  %12s  %12s  %12s  %10lld\n", wide, e[i].name, number(e[i].value).s,
                            number(e[i].low).s, number(e[i].high).s, (long long)e[i].rows);
    return rc;
}

int ctr_estimates_schema(const char *rows, struct ctr_schema *s, struct ctr_err *err)
{
    static const char *const names[] = { "value", "low", "high" };
    int rc = ctr_schema_add(s, "metric", CTR_UTF8, err);

    for (size_t i = 0; rc >= 0 && i < CTR_COUNT(names); i++)
        rc = ctr_schema_add(s, names[i], CTR_F64, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, rows, CTR_I64, err);
    return CTR_MIN(rc, 0);
}

int ctr_estimates_rows(const struct ctr_estimate *e, int n, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < n; i++) {
        struct ctr_append a = { rows->col, err, 0 };
        ctr_append_text(&a, e[i].name);
        ctr_append_f64(&a, isfinite(e[i].value), e[i].value);
        ctr_append_f64(&a, isfinite(e[i].low), e[i].low);
        ctr_append_f64(&a, isfinite(e[i].high), e[i].high);
        ctr_append_i64(&a, true, e[i].rows);
        rc = a.rc;
    }
    return rc;
}

/* ---- expressions ---- */

int ctr_number_expr(struct ctr_expr **e, const char *option, const char *text, const struct ctr_schema *s,
                    struct ctr_err *err)
{
    char type[128];
    const int rc = ctr_expr_compile(e, option, text, s, NULL, err);

    if (rc || ctr_type_number(ctr_expr_field(*e)->type))
        return rc;
    return ctr_fail(err, CTR_EUSAGE, "%s %.80s is %s, and must be a number", option, text,
                    ctr_field_type_name(ctr_expr_field(*e), type, sizeof type));
}

int ctr_expr_columns(const struct ctr_schema *s, const char *const *exprs, const char *const *options, int n,
                     bool *need, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < n; i++) {
        struct ctr_expr *e = NULL;
        if (!exprs[i])
            continue;
        rc = ctr_number_expr(&e, options[i], exprs[i], s, err);
        const struct ctr_strs *names = rc ? NULL : ctr_expr_inputs(e);
        for (int k = 0; names && k < names->n; k++) {
            const int c = ctr_schema_find(s, names->s[k]);
            if (c >= 0)
                need[c] = true;
        }
        ctr_expr_free(e);
    }
    return rc;
}
