/* SPDX-License-Identifier: Apache-2.0
 *
 * checked: labels, weights and scores as doubles that callers can use without checks. Plans, trainers and metrics all
 * use it, so that a bad value has one message. */
#include "common/base/isa.h"
#include "common/stream/rules.h"

#include <float.h>
#include <math.h>

/* The column as doubles, nulls as NaN; in place if it already is. */
static int doubles(const struct ctr_col *c, struct ctr_buf *buf, const double **out, struct ctr_err *err)
{
    int rc;

    *out = c->data;
    if (c->type == CTR_F64 && !c->dict && !c->valid)
        return 0;
    ctr_buf_clear(buf);
    if ((rc = ctr_buf_reserve(buf, (size_t)c->rows * sizeof(double), err)))
        return rc;
    ctr_col_to_f64(c, NAN, (double *)(void *)buf->data);
    *out = (const double *)(const void *)buf->data;
    return 0;
}

/* May one of v[0..n) be outside [0, high]? Tests the bits; those of -0 are suspect, too. */
CTR_FAST static bool suspect(const double *v, int64_t n, double high)
{
    uint64_t limit, bits, seen = 0;

    memcpy(&limit, &high, sizeof limit);
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, &v[i], sizeof bits);
        seen |= bits | (limit - bits);
    }
    return seen >> 63;
}

static int bad_row(const struct ctr_col *c, enum ctr_role role, const char *name, bool made, int64_t first_row,
                   int64_t i, struct ctr_err *err)
{
    const struct ctr_rule rule = { .role = role, .name = name, .made = made };
    const struct ctr_batch b = { .rows = c->rows, .first_row = first_row, .col = c };
    struct ctr_rule_text why;
    ctr_rule_why(&rule, &b, i, &why);
    const long long row = first_row + i + 1;
    if (why.fault != CTR_FAULT_NULL)
        return ctr_fail(err, CTR_EDATA, "row %lld: %s%s%s", row, why.what, *why.hint ? "; " : "", why.hint);
    if (made)
        return ctr_fail(err, CTR_EDATA, "row %lld: %s; %s, ctr-select --where leaves such rows out", row, why.what,
                        why.hint);
    return ctr_fail(err, CTR_EDATA,
                    "row %lld: %s; leave such rows out (ctr-select --where 'not is_null(%s)'), or fill it", row,
                    why.what, name);
}

static int checked(const struct ctr_col *c, enum ctr_role role, const char *name, bool made, int64_t first_row,
                   struct ctr_buf *buf, const double **out, struct ctr_err *err)
{
    const double high = role == CTR_ROLE_WEIGHT ? DBL_MAX : 1;
    int64_t i = 0;
    int rc = doubles(c, buf, out, err);

    if (rc || !suspect(*out, c->rows, high))
        return rc;
    while (i < c->rows && (*out)[i] >= 0 && (*out)[i] <= high)
        i++;
    return i == c->rows ? 0 : bad_row(c, role, name, made, first_row, i, err);
}

int ctr_col_checked(const struct ctr_col *c, enum ctr_role role, const char *name, int64_t first_row,
                    struct ctr_buf *buf, const double **out, struct ctr_err *err)
{
    return checked(c, role, name, false, first_row, buf, out, err);
}

int ctr_col_checked_made(const struct ctr_col *c, enum ctr_role role, const char *name, int64_t first_row,
                         struct ctr_buf *buf, const double **out, struct ctr_err *err)
{
    return checked(c, role, name, true, first_row, buf, out, err);
}
