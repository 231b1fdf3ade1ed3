/* SPDX-License-Identifier: Apache-2.0
 *
 * evalpolicy: what another policy would have earned, from the log of one whose chances are known. With r the reward of
 * a row, w = target / propensity, q the model's reward of what was shown and d that of what the target would show:
 *
 *     ips    mean of w r                                 unbiased if propensities are true
 *     snips  sum of w r / sum of w                       less variance, a bias of 1 / n
 *     dm     mean of d                                   as good as the model
 *     dr     mean of d + w (r - q)                       unbiased if propensities or the model are true
 *
 * Sources: Swaminathan and Joachims, "The Self-Normalized Estimator for Counterfactual Learning", NIPS 2015; Dudik,
 * Langford and Li, "Doubly Robust Policy Evaluation and Learning", ICML 2011. */
#include "tools/ctr-eval/evalestimate.h"

#include "common/plan/plan.h"

#include <math.h>
#include <stdlib.h>

enum { TARGET, VALUE, DIRECT, EXPRS };
static const char *const options[EXPRS] = { "--target", "--value", "--direct" };

struct policy {
    const struct ctr_policy_opts *o;
    int propensity;
    struct ctr_expr *expr[EXPRS];
    struct ctr_buf number[EXPRS], reward, shown, weight, score; /* doubles of a batch */
    struct ctr_mean logged, importance, ips, snips, dm, dr;
};

static int bad(const struct ctr_batch *b, int64_t i, const char *what, double v, const char *want, struct ctr_err *err)
{
    char text[CTR_NUM_MAX];
    const char *null = isnan(v) ? "null or NaN" : NULL;

    return ctr_fail(err, CTR_EDATA, "row %lld: %s is %.*s, and must be %s", (long long)(b->first_row + i + 1), what,
                    null ? (int)strlen(null) : (int)ctr_fmt_f64(text, v), null ? null : text, want);
}

/* Numbers of a batch, each in [least, most], or above `least` if it may not be that. */
static int numbers(const struct ctr_batch *b, const struct ctr_col *c, const char *what, bool above, double most,
                   struct ctr_buf *buf, const double **out, struct ctr_err *err)
{
    const char *want = above ? "above 0 and at most 1" : most == 1 ? "in [0, 1]" : "finite";
    int rc = ctr_buf_room(buf, b->rows, sizeof(double), err);
    double *v = (double *)(void *)buf->data;

    if (rc)
        return rc;
    ctr_col_to_f64(c, NAN, v);
    for (int64_t i = 0; i < b->rows; i++)
        if (most == 1 ? !(v[i] <= 1 && (above ? v[i] > 0 : v[i] >= 0)) : !isfinite(v[i]))
            return bad(b, i, what, v[i], want, err);
    *out = v;
    return 0;
}

static int evaluate(struct policy *p, int k, const struct ctr_batch *b, const double **out, struct ctr_err *err)
{
    const struct ctr_col *c;

    *out = NULL;
    if (!p->expr[k])
        return 0;
    const int rc = ctr_expr_eval(p->expr[k], b, &c, err);
    return rc ? rc : numbers(b, c, options[k], false, k == TARGET ? 1 : INFINITY, &p->number[k], out, err);
}

static int add_batch(struct policy *p, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_policy_opts *o = p->o;
    const double *label, *shown, *target, *value, *direct, *weight = NULL, *score = NULL;
    char what[300];
    int rc = ctr_col_checked(&b->col[o->label], CTR_ROLE_LABEL, b->schema->f[o->label].name, b->first_row, &p->reward,
                             &label, err);

    ctr_format(what, sizeof what, "the propensity (column %.200s)", o->propensity);
    if (!rc)
        rc = numbers(b, &b->col[p->propensity], what, true, 1, &p->shown, &shown, err);
    if (!rc && o->weight >= 0)
        rc = ctr_col_checked(&b->col[o->weight], CTR_ROLE_WEIGHT, b->schema->f[o->weight].name, b->first_row,
                             &p->weight, &weight, err);
    if (!rc && o->score >= 0)
        rc = ctr_col_checked(&b->col[o->score], CTR_ROLE_SCORE, b->schema->f[o->score].name, b->first_row, &p->score,
                             &score, err);
    if (!rc)
        rc = evaluate(p, TARGET, b, &target, err);
    if (!rc)
        rc = evaluate(p, VALUE, b, &value, err);
    if (!rc)
        rc = evaluate(p, DIRECT, b, &direct, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const double u = weight ? weight[i] : 1, worth = value ? value[i] : 1, r = label[i] * worth;
        const double w = target[i] / shown[i];
        ctr_mean_add(&p->logged, u, r);
        ctr_mean_add(&p->importance, u, w);
        ctr_mean_add(&p->ips, u, w * r);
        ctr_mean_add(&p->snips, u * w, r);
        if (!direct)
            continue;
        ctr_mean_add(&p->dm, u, direct[i]);
        ctr_mean_add(&p->dr, u, direct[i] + w * (r - score[i] * worth));
    }
    return rc;
}

static void estimates(const struct policy *p, struct ctr_estimate *e, int *found)
{
    const struct ctr_mean *s = &p->snips;
    int n = 0;

    ctr_estimate_mean(&e[n++], "logged", &p->logged);
    ctr_estimate_mean(&e[n++], "ips", &p->ips);
    ctr_estimate_mean(&e[n++], "snips", &p->snips);
    if (p->expr[DIRECT]) {
        ctr_estimate_mean(&e[n++], "dm", &p->dm);
        ctr_estimate_mean(&e[n++], "dr", &p->dr);
    }
    ctr_estimate_mean(&e[n++], "mean_weight", &p->importance);
    e[n] = (struct ctr_estimate){ "effective_rows", s->ww > 0 ? s->w * s->w / s->ww : NAN, NAN, NAN, s->n };
    *found = n + 1;
}

/* Read only the columns that are needed. */
static int narrow(struct policy *p, struct ctr_policy_opts *o, struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_batch_source_schema(s);
    const char *const text[EXPRS] = { o->target, o->value, o->direct };
    int *const columns[] = { &o->label, &o->weight, &o->score, &p->propensity };
    bool *need = calloc((size_t)schema->n + 1, sizeof *need);
    int rc = need ? 0 : ctr_fail_nomem(err, (size_t)schema->n);

    p->propensity = rc ? rc : ctr_schema_need(schema, o->propensity, err);
    rc = CTR_MIN(p->propensity, 0);
    if (!rc && !ctr_type_number(schema->f[p->propensity].type))
        rc = ctr_fail(err, CTR_EUSAGE, "--propensity %.80s: the column must be a number", o->propensity);
    if (!rc)
        rc = ctr_expr_columns(schema, text, options, EXPRS, need, err);
    if (!rc)
        rc = ctr_batch_source_keep(s, columns, CTR_COUNT(columns), need, err);
    for (int k = 0; !rc && k < EXPRS; k++)
        if (text[k])
            rc = ctr_number_expr(&p->expr[k], options[k], text[k], ctr_batch_source_schema(s), err);
    free(need);
    return rc;
}

int ctr_policy_evaluate(struct ctr_batch_source *s, const struct ctr_policy_opts *given, struct ctr_estimate *e,
                        int *found, struct ctr_err *err)
{
    struct ctr_policy_opts o = *given;
    struct policy p = { .o = &o };
    const struct ctr_batch *b;
    int rc = narrow(&p, &o, s, err);

    while (!rc && (rc = ctr_batch_source_next(s, &b, err)) > 0)
        rc = add_batch(&p, b, err);
    if (!rc)
        estimates(&p, e, found);
    struct ctr_buf *buf[] = { &p.number[0], &p.number[1], &p.number[2], &p.reward, &p.shown, &p.weight, &p.score };
    for (size_t i = 0; i < CTR_COUNT(buf); i++)
        ctr_buf_free(buf[i]);
    for (int k = 0; k < EXPRS; k++)
        ctr_expr_free(p.expr[k]);
    return rc;
}
