/* SPDX-License-Identifier: Apache-2.0
 *
 * insight: looking into models: the strongest weights and the difference of two models (topweights.c), what makes the
 * prediction of a row (explain.c). */
#ifndef CTR_INSIGHT_H
#define CTR_INSIGHT_H

#include "common/model/model.h"

struct ctr_top_opts {
    int64_t n;         /* rows, 0: all */
    bool by_table;     /* n per table */
    const char *table; /* pattern: only tables that match; NULL: all */
    const char *names; /* stream of ctr-extract --names, or NULL: the model's sections vocab.*, if any */
};
/* Rows of (table, key, name, count, weight), strongest |weight| first (by table: tables in order of name), passed to
 * `each` in batches, the last of which may be empty. Memory: 48 bytes per weight shown, and names. */
typedef int ctr_top_each(void *ctx, const struct ctr_batch *rows, struct ctr_err *err);
int ctr_model_top(const char *path, const struct ctr_top_opts *o, ctr_top_each *each, void *ctx,
                  struct ctr_err *err) CTR_MUST;
/* The difference between two models: rows of (table, key, name, old, new, change), strongest |change| first; a key
 * missing from a model has weight 0 in it. */
struct ctr_diff_counts {
    int64_t both, only_a, only_b; /* keys */
    int64_t differ;               /* weights */
    bool same_plan, same_options;
};
int ctr_model_diff(const char *from, const char *to, const struct ctr_top_opts *o, struct ctr_diff_counts *counts,
                   ctr_top_each *each, void *ctx, struct ctr_err *err) CTR_MUST;

/* What makes the prediction of a row: its log odds are the sum of the contributions of its features and the bias. Of a
 * linear model they are weight times x, of a deep one integrated gradients (deep_explain.c), whose residual is told.
 * Or, with `attention`: the weight of each item of its histories. */
struct ctr_explain;
struct ctr_explain_opts {
    int64_t n;          /* the strongest features of a row, or items of a history; 0: all */
    const char *names;  /* a stream of ctr-extract --names, for rows that are features; or NULL */
    const char *images; /* the file of images' vectors; or NULL */
    bool attention;     /* items, of a model with attention units */
    bool by_table;      /* the sum of the features of each table, or, of a deep model, column */
};
int ctr_explain_open(struct ctr_explain **e, const char *path, const struct ctr_explain_opts *o,
                     struct ctr_err *err) CTR_MUST;
bool ctr_explain_attends(const struct ctr_explain *e); /* items, not features */
void ctr_explain_free(struct ctr_explain *e);
const char *ctr_explain_warning(const struct ctr_explain *e); /* after open: "" or a warning */
/* Of a deep model: rows so far, those whose residual is larger than CTR_PARTS_ERROR, the largest one, most points. */
struct ctr_explained {
    bool deep;
    int64_t rows, beyond;
    double worst;
    int points;
};
struct ctr_explained ctr_explain_told(const struct ctr_explain *e);
/* Bind the rows: either raw rows, to which the model's plan is applied, which also gives names; or features (recognised
 * by plan id, or because the model has no plan), with names from ctr_explain_open.
 * of_views: the plan's statements have made the rows; other raw rows are refused if it has statements. */
int ctr_explain_bind(struct ctr_explain *e, const struct ctr_schema *s, bool of_views, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_explain_schema(const struct ctr_explain *e);
/* Appends a row a feature: row (from 1), score, table, key, name, x, weight, contribution; the n strongest of a row,
 * strongest first, then the sum of the others as table "(rest)". A name that is not known is null. Of a deep model
 * table is the column, weight is null, and "(residual)" comes last.
 * Or a row for each list of an item of a history: row, score, unit (from 1), list, of (what the list is the past of;
 * "(ids)" where items are weighed beside IDs of the ad; or null), candidate (the name of the row's key of `of`, or
 * null), place (from 1, in the list), key, name, weight; likewise, with the sum as list "(rest)". */
int ctr_explain_batch(struct ctr_explain *e, const struct ctr_batch *b, struct ctr_batchbuf *out,
                      struct ctr_err *err) CTR_MUST;

#endif
