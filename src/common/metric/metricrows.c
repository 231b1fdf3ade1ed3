/* SPDX-License-Identifier: Apache-2.0
 *
 * metricrows: the numbers of one batch as arrays of double, checked. What comes out of here can be summed without
 * looking. */
#include "common/metric/metric.h"

#include <math.h>

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

/* The column as doubles, nulls as NaN; in place where it is that already. */
static int numbers(struct ctr_buf *buf, const struct ctr_col *c, const double **out, struct ctr_err *err)
{
    int rc;

    if (c->type == CTR_F64 && !c->dict && !c->valid) {
        *out = c->data;
        return 0;
    }
    ctr_buf_clear(buf);
    if ((rc = ctr_buf_reserve(buf, (size_t)c->rows * sizeof(double), err)))
        return rc;
    ctr_col_to_f64(c, NAN, (double *)buf->data);
    *out = (const double *)buf->data;
    return 0;
}

/* Is one of v[0..n) perhaps not within [0, high]? By its bits, of which those of -0 are suspect too. */
static bool suspect(const double *v, int64_t n, double high)
{
    uint64_t limit, bits, seen = 0;

    memcpy(&limit, &high, sizeof limit);
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, &v[i], sizeof bits);
        seen |= bits | (limit - bits);
    }
    return seen >> 63;
}

/* All of v[0..n) within [0, high]? Else an error about the first that is not. */
static int check(const double *v, const struct ctr_col *c, double high, const char *part, const char *name,
                 int64_t first_row, struct ctr_err *err)
{
    char text[CTR_NUM_MAX];
    int64_t i = 0;

    if (!suspect(v, c->rows, high))
        return 0;
    while (i < c->rows && v[i] >= 0 && v[i] <= high)
        i++;
    if (i == c->rows)
        return 0;
    err->row = first_row + i + 1;
    if (ctr_col_missing(c, i))
        return ctr_fail(err, CTR_EDATA, "row %lld: %s (column %s) is null", (long long)first_row + i + 1, part, name);
    return ctr_fail(err, CTR_EDATA, "row %lld: %s (column %s) is %.*s, but must be %s", (long long)first_row + i + 1,
                    part, name, (int)ctr_fmt_f64(text, v[i]), text,
                    high == 1 ? "in [0, 1]" : "finite and not negative");
}

int ctr_rows_scores(struct ctr_buf *buf, const struct ctr_col *col, const char *name, int64_t first_row,
                    struct ctr_err *err)
{
    const double *v;
    int rc = numbers(buf, col, &v, err);

    if (rc || (rc = check(v, col, 1, "the score", name, first_row, err)))
        return rc;
    if (v != (const double *)buf->data) {
        ctr_buf_clear(buf);
        if ((rc = ctr_buf_append(buf, v, (size_t)col->rows * sizeof *v, err)))
            return rc;
    }
    buf->len = (size_t)col->rows * sizeof *v;
    return 0;
}

int ctr_rows_load(struct ctr_rows *r, const struct ctr_metric_columns *c, const struct ctr_batch *b,
                  struct ctr_err *err)
{
    const struct {
        int column;
        const char *part;
        double high;
        const double **to;
    } part[] = {
        { c->score, "the score", 1, &r->score },
        { c->label, "the label", 1, &r->label },
        { c->weight, "the weight", 0x1.fffffffffffffp1023, &r->weight },
    };
    int rc;

    r->n = b->rows;
    r->weight = NULL;
    for (int i = 0; i < 3; i++) {
        const struct ctr_col *col = &b->col[CTR_MAX(part[i].column, 0)];
        if (part[i].column < 0)
            continue;
        if ((rc = numbers(&r->buf[i], col, part[i].to, err)) ||
            (rc = check(*part[i].to, col, part[i].high, part[i].part, b->schema->f[part[i].column].name, b->first_row,
                        err)))
            return rc;
    }
    return 0;
}

void ctr_rows_free(struct ctr_rows *r)
{
    for (int i = 0; i < 3; i++)
        ctr_buf_free(&r->buf[i]);
}
