/* SPDX-License-Identifier: Apache-2.0
 *
 * metricrows: checks the columns for metrics, and reads their numbers. */
#include "common/metric/metric.h"
#include "common/base/isa.h"

static int fit(const struct ctr_schema *s, int column, const char *part, bool ok, const char *want, struct ctr_err *err)
{
    char type[128];

    if (column < 0 || ok)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "column %s is %s, but a %s must be %s", s->f[column].name,
                    ctr_field_type_name(&s->f[column], type, sizeof type), part, want);
}

int ctr_metric_columns_check(const struct ctr_metric_columns *c, const struct ctr_schema *s, struct ctr_err *err)
{
    const struct {
        int column;
        const char *part, *want;
        bool numbers, bools, times, texts;
    } part[] = {
        { c->label, "label", "a bool or a number", true, true, false, false },
        { c->weight, "weight", "a number", true, false, false, false },
        { c->score, "score", "a number", true, false, false, false },
        { c->time, "time", "a timestamp (ctr-import --time makes one)", false, false, true, false },
        { c->user, "user", "one value a row", true, true, true, true },
    };

    for (size_t i = 0; i < CTR_COUNT(part); i++) {
        enum ctr_type t = part[i].column < 0 ? CTR_BOOL : s->f[part[i].column].type;
        bool ok = (part[i].numbers && ctr_type_number(t)) || (part[i].bools && t == CTR_BOOL) ||
                  (part[i].times && t == CTR_TIME) || (part[i].texts && t == CTR_UTF8);
        int rc = fit(s, part[i].column, part[i].part, ok, part[i].want, err);
        if (rc)
            return rc;
    }
    return 0;
}

CTR_FAST static bool is_whole(const double *label, int64_t n)
{
    uint64_t fractional = 0;

    for (int64_t i = 0; i < n; i++)
        fractional |= (uint64_t)((label[i] != 0) & (label[i] != 1));
    return !fractional;
}

int ctr_metric_rows_load(struct ctr_metric_rows *r, const struct ctr_metric_columns *c, const struct ctr_batch *b,
                         struct ctr_err *err)
{
    const struct {
        int column;
        enum ctr_role role;
        const double **to;
    } part[] = {
        { c->score, CTR_ROLE_SCORE, &r->score },
        { c->label, CTR_ROLE_LABEL, &r->label },
        { c->weight, CTR_ROLE_WEIGHT, &r->weight },
    };
    int rc = 0;

    r->n = b->rows;
    r->weight = NULL;
    for (size_t i = 0; !rc && i < CTR_COUNT(part); i++)
        if (part[i].column >= 0)
            rc = ctr_col_checked(&b->col[part[i].column], part[i].role, b->schema->f[part[i].column].name, b->first_row,
                                 &r->buf[i], part[i].to, err);
    r->whole = !rc && is_whole(r->label, r->n);
    return rc;
}

void ctr_metric_rows_free(struct ctr_metric_rows *r)
{
    for (size_t i = 0; i < CTR_COUNT(r->buf); i++)
        ctr_buf_free(&r->buf[i]);
}
