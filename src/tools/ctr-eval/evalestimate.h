/* SPDX-License-Identifier: Apache-2.0
 *
 * evalestimate: means with 95% intervals, and what ctr-eval makes of them: rankings by query (evalranking.c) and the
 * value of a policy from the log of another (evalpolicy.c). */
#ifndef CTR_EVALESTIMATE_H
#define CTR_EVALESTIMATE_H

#include "common/cli/cli.h"

/* A weighted mean of n independent values, from five sums in the order of the rows. Its variance is
 * n / (n - 1) sum w^2 (x - mean)^2 / (sum w)^2; with importance weights this is the linearisation (delta method) of a
 * ratio. Of one value it is undefined. */
struct ctr_mean {
    int64_t n;
    double w, wx, ww, wwx, wwxx;
};
static inline void ctr_mean_add(struct ctr_mean *m, double w, double x)
{
    m->n++;
    m->w += w;
    m->wx += w * x;
    m->ww += w * w;
    m->wwx += w * w * x;
    m->wwxx += w * w * x * x;
}

struct ctr_estimate {
    char name[32];
    double value, low, high; /* NaN: undefined; of a number without interval low and high */
    int64_t rows;            /* or queries */
};
/* "recall@10", …: value and normal 95% interval of a mean. */
void ctr_estimate_mean(struct ctr_estimate *e, const char *name, const struct ctr_mean *m);
/* A table for people. */
int ctr_estimates_table(const struct ctr_estimate *e, int n, const char *rows, struct ctr_buf *out,
                        struct ctr_err *err) CTR_MUST;
/* The same as a stream: metric, value, low, high and `rows`. */
int ctr_estimates_schema(const char *rows, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_estimates_rows(const struct ctr_estimate *e, int n, struct ctr_batchbuf *rows, struct ctr_err *err) CTR_MUST;

/* ---- rankings: evalranking.c ---- */

enum { CTR_MOST_AT = 100 };
struct ctr_ranking_opts {
    int query, score, id, label; /* columns; id and label may be -1 */
    const int64_t *at;           /* values of K */
    int n;
    const char *reference; /* an expression, or NULL */
    int64_t reference_top; /* 0: K */
    int64_t memory_bytes;
    int threads;
};
/* Reads *s to its end and closes it. e has room for 2 n; *found are filled. *without: queries without a positive label,
 * which ndcg leaves out. */
int ctr_ranking_evaluate(struct ctr_batch_source *s, const struct ctr_ranking_opts *o, struct ctr_estimate *e,
                         int *found, int64_t *without, struct ctr_err *err) CTR_MUST;

/* ---- policies: evalpolicy.c ---- */

struct ctr_policy_opts {
    int label, weight, score;   /* columns; weight and score may be -1 */
    const char *propensity;     /* the column of the logging policy's chances */
    const char *target;         /* expressions: the other policy's chance of what was shown; */
    const char *value, *direct; /* what a click is worth; its expected reward of the row by a model; or NULL */
};
enum { CTR_POLICY_ESTIMATES = 8 };
int ctr_policy_evaluate(struct ctr_batch_source *s, const struct ctr_policy_opts *o, struct ctr_estimate *e, int *found,
                        struct ctr_err *err) CTR_MUST;

/* ---- both, as the command line asks for them: evalestimate_run.c ---- */

struct ctr_estimate_opts {
    const char *at, *reference; /* rankings: "10,100", and an expression */
    int64_t reference_top;
    const char *propensity, *target, *value, *direct; /* policies */
};
/* `stream`: write a stream, else a table for people. */
int ctr_estimate_run(struct ctr_cli *cli, const struct ctr_estimate_opts *o, bool stream, struct ctr_err *err) CTR_MUST;

/* ---- what both need ---- */

/* need[i]: an expression of numbers reads column i; each may be NULL. */
int ctr_expr_columns(const struct ctr_schema *s, const char *const *exprs, const char *const *options, int n,
                     bool *need, struct ctr_err *err) CTR_MUST;
/* An expression of numbers. */
struct ctr_expr;
int ctr_number_expr(struct ctr_expr **e, const char *option, const char *text, const struct ctr_schema *s,
                    struct ctr_err *err) CTR_MUST;

#endif
