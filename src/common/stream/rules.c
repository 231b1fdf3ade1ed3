/* SPDX-License-Identifier: Apache-2.0
 *
 * rules: the values that rows may have in columns of a role, and what is said about others. A column is looked at as a
 * whole first; only one that may hold a bad value is looked at row by row. */
#include "common/base/isa.h"
#include "common/stream/rules.h"

#include <float.h>
#include <math.h>

const char *const ctr_faults[CTR_NFAULTS] = { [CTR_FAULT_NULL] = "null",
                                              [CTR_FAULT_NUMBER] = "NaN or infinite",
                                              [CTR_FAULT_LARGE] = "beyond float32",
                                              [CTR_FAULT_RANGE] = "not in [0, 1]",
                                              [CTR_FAULT_NEGATIVE] = "negative",
                                              [CTR_FAULT_LENGTH] = "of another length" };

enum { SOME = 256 }; /* values at a time */

static bool is_scalar(enum ctr_role role)
{
    return role == CTR_ROLE_LABEL || role == CTR_ROLE_SCORE || role == CTR_ROLE_WEIGHT;
}

static double highest(enum ctr_role role)
{
    return role == CTR_ROLE_WEIGHT ? DBL_MAX : 1;
}

static bool is_finite(double x, bool single)
{
    return single ? fabsf((float)x) < INFINITY : fabs(x) < INFINITY;
}

/* ---- row by row ---- */

static bool is_bad_scalar(const struct ctr_rule *r, const struct ctr_col *c, int64_t i)
{
    const double x = ctr_col_missing(c, i) ? NAN : ctr_col_f64(c, i);
    return !(x >= 0 && x <= highest(r->role));
}

int64_t ctr_number_bad(const struct ctr_batch *b, int column, int64_t i, bool single, const struct ctr_col **of)
{
    const struct ctr_col *c = *of = &b->col[column];
    int64_t at = i, end = i + 1;
    if (ctr_col_missing(c, i))
        return -1;
    if (c->type == CTR_LIST || c->type == CTR_FIXED)
        c = *of = ctr_col_items(c, b->schema->f[column].width, i, &at, &end);
    for (; c && at < end; at++)
        if (!ctr_col_null(c, at) && !is_finite(c->weight ? (double)c->weight[at] : ctr_col_f64(c, at), single))
            return at;
    return -1;
}

static bool is_bad_dense(const struct ctr_rule *r, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_col *of;
    return ctr_number_bad(b, r->column, i, r->single, &of) >= 0;
}

/* A null list is one item that is missing. */
static int64_t items_of(const struct ctr_batch *b, int column, int64_t i)
{
    int64_t from = 0, end = 1;
    (void)ctr_col_items(&b->col[column], b->schema->f[column].width, i, &from, &end);
    return end - from;
}

static bool is_bad(const struct ctr_rule *r, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_col *c = &b->col[r->column];
    if (is_scalar(r->role))
        return is_bad_scalar(r, c, i);
    if (r->aligned)
        return items_of(b, r->column, i) != items_of(b, r->first, i);
    if (r->role == CTR_ROLE_DENSE || r->role == CTR_ROLE_FEATURE)
        return is_bad_dense(r, b, i);
    return ctr_col_missing(c, i);
}

/* ---- as a whole ---- */

/* May a number be NaN or infinite, or a null? Values behind nulls count, too. */
static bool suspect_numbers(const struct ctr_rule *r, const struct ctr_col *c)
{
    double value[SOME];
    const bool is_float = c->type == CTR_F16 || c->type == CTR_F32 || c->type == CTR_F64;
    bool fine = true;
    for (int64_t i = 0; c->weight && i < c->rows; i++)
        fine &= fabsf(c->weight[i]) < INFINITY;
    for (int64_t done = 0, n; !c->weight && is_float && fine && done < c->rows; done += n) {
        n = CTR_MIN(SOME, c->rows - done);
        ctr_col_range_f64(c, done, n, 0, value);
        for (int64_t i = 0; i < n; i++)
            fine &= is_finite(value[i], r->single);
    }
    return !fine;
}

/* Tests the bits; those of -0 are suspect, too. */
CTR_FAST static bool suspect_scalars(const struct ctr_rule *r, const struct ctr_col *c)
{
    const double high = highest(r->role);
    const bool in_place = c->type == CTR_F64 && !c->dict && !c->valid;
    uint64_t limit, bits, seen = 0;
    double some[SOME];
    memcpy(&limit, &high, sizeof limit);
    for (int64_t done = 0, n; !(seen >> 63) && done < c->rows; done += n) {
        const double *value = in_place ? (const double *)c->data + done : some;
        n = CTR_MIN(SOME, c->rows - done);
        if (!in_place)
            ctr_col_range_f64(c, done, n, NAN, some);
        for (int64_t i = 0; i < n; i++) {
            memcpy(&bits, &value[i], sizeof bits);
            seen |= bits | (limit - bits);
        }
    }
    return seen >> 63;
}

static bool suspect(const struct ctr_rule *r, const struct ctr_col *c)
{
    if (is_scalar(r->role))
        return suspect_scalars(r, c);
    if (r->aligned)
        return true;
    if (r->role != CTR_ROLE_DENSE && r->role != CTR_ROLE_FEATURE)
        return c->valid || (c->dict && c->dict->valid);
    const struct ctr_col *values = c->dict ? c->dict : c;
    return suspect_numbers(r, values->item ? values->item : values);
}

bool ctr_rules_mark(const struct ctr_rule *rule, int n, const struct ctr_batch *b, uint16_t *broken)
{
    bool found = false;
    memset(broken, 0, (size_t)b->rows * sizeof *broken);
    for (int k = 0; k < n; k++) {
        const bool left = rule[k].role == CTR_ROLE_DENSE && b->left && b->left->numbers; /* all are finite */
        if (left || !suspect(&rule[k], &b->col[rule[k].column]))
            continue;
        for (int64_t i = 0; i < b->rows; i++)
            if (!broken[i] && is_bad(&rule[k], b, i)) {
                broken[i] = (uint16_t)(k + 1);
                found = true;
            }
    }
    return found;
}

/* ---- words ---- */

static void scalar_why(const struct ctr_rule *r, double x, struct ctr_rule_text *to)
{
    const char *want = r->role == CTR_ROLE_WEIGHT ? "finite and not negative" : "in [0, 1]";
    char text[CTR_NUM_MAX];
    to->fault = !(fabs(x) < INFINITY)        ? CTR_FAULT_NUMBER
                : r->role == CTR_ROLE_WEIGHT ? CTR_FAULT_NEGATIVE
                                             : CTR_FAULT_RANGE;
    ctr_format(to->what, sizeof to->what, "the %s (column %s) is %.*s, but must be %s", ctr_roles[r->role], r->name,
               (int)ctr_fmt_f64(text, x), text, want);
    if (r->role == CTR_ROLE_LABEL)
        ctr_format(to->hint, sizeof to->hint, "%s",
                   x == -1 ? "labels -1 and 1 become 0 and 1 by ctr-import --binary, or by a comparison, as label > 0"
                           : "a comparison makes a label, as rating >= 4");
}

void ctr_number_why(const struct ctr_col *c, int64_t at, const char *column, struct ctr_rule_text *to)
{
    const double x = c->weight ? (double)c->weight[at] : ctr_col_f64(c, at);
    const bool single = !c->weight && (c->dict ? c->dict->type : c->type) == CTR_F32;
    char text[CTR_NUM_MAX];
    const bool large = fabs(x) < INFINITY;
    to->fault = large ? CTR_FAULT_LARGE : CTR_FAULT_NUMBER;
    if (large)
        ctr_format(to->what, sizeof to->what, "%.*s in column %s is beyond float32, which dense numbers are (3.4e38)",
                   (int)ctr_fmt_f64(text, x), text, column);
    else if (single && isinf(x))
        ctr_format(to->what, sizeof to->what,
                   "a value of column %s is infinite as float32, which dense numbers of a plan are (up to 3.4e38)",
                   column);
    else
        ctr_format(to->what, sizeof to->what, "a value of column %s is NaN or infinite", column);
    ctr_format(to->hint, sizeof to->hint, "%s",
               large ? "log1p(x), or x / 1e9, in the plan makes a number x smaller"
                     : "of a number x, if(abs(x) < 1e38, x, 0) in the plan is none");
}

void ctr_rule_why(const struct ctr_rule *r, const struct ctr_batch *b, int64_t i, struct ctr_rule_text *to)
{
    const struct ctr_col *c = &b->col[r->column];
    to->fault = CTR_FAULT_NULL;
    to->hint[0] = 0;
    if (r->aligned) {
        to->fault = CTR_FAULT_LENGTH;
        ctr_format(
            to->what, sizeof to->what,
            "'%.80s' has %lld items and '%.80s' has %lld: lists of one history (%.80s) are aligned, item by item",
            r->first_name, (long long)items_of(b, r->first, i), r->name, (long long)items_of(b, r->column, i),
            r->aligned);
        ctr_format(to->hint, sizeof to->hint, "mend the row, or leave one of them out of that group");
    } else if (r->role == CTR_ROLE_DENSE || r->role == CTR_ROLE_FEATURE) {
        const struct ctr_col *of;
        const int64_t at = ctr_number_bad(b, r->column, i, r->single, &of);
        ctr_number_why(of, at, r->name, to);
    } else if (is_scalar(r->role) && !ctr_col_missing(c, i))
        scalar_why(r, ctr_col_f64(c, i), to);
    else if (r->made)
        ctr_format(to->what, sizeof to->what, "the %s (%s) is null, as what it is made of is", ctr_roles[r->role],
                   r->name);
    else
        ctr_format(to->what, sizeof to->what, "the %s (column %s) is null", ctr_roles[r->role], r->name);
    if (to->fault == CTR_FAULT_NULL && r->made)
        ctr_format(to->hint, sizeof to->hint, "fill(...) gives that a value");
}

/* ---- the policy ---- */

int ctr_bad_policy_parse(struct ctr_bad_policy *p, const char *text, struct ctr_err *err)
{
    *p = (struct ctr_bad_policy){ .kind = CTR_BAD_FAIL };
    if (!text || !strcmp(text, "fail"))
        return 0;
    if (!strncmp(text, "skip=", 5) && ctr_parse_i64(text + 5, strlen(text + 5), &p->most) && p->most >= 0) {
        p->kind = CTR_BAD_SKIP;
        return 0;
    }
    if (strncmp(text, "quarantine=", 11) || !text[11] || !strcmp(text + 11, "-"))
        return ctr_fail(err, CTR_EUSAGE, "--bad-rows wants fail, skip=MAX or quarantine=FILE, not '%s'", text);
    p->kind = CTR_BAD_QUARANTINE;
    p->file = text + 11;
    return 0;
}

int ctr_bad_policy_exceeded(const struct ctr_bad_policy *p, const char *where, int64_t number, const char *why,
                            struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "%s %lld: bad row %lld where --bad-rows allows %lld: %s", where, (long long)number,
                    (long long)p->most + 1, (long long)p->most, why);
}
