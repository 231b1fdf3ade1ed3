/* SPDX-License-Identifier: Apache-2.0
 *
 * evalranking: rankings by query. A stage of rank.h gathers each query and numbers its rows by id, which breaks ties as
 * in ctr-rank; where there is a reference, a second one orders the query by it. */
#include "tools/ctr-eval/evalestimate.h"

#include "common/rows/rank.h"
#include "common/rows/select.h"

#include <stdio.h>
#include <stdlib.h>

struct row {
    double score, label;
    int64_t tie;       /* place by id */
    int64_t reference; /* rank by the reference */
};

struct ranking {
    const struct ctr_ranking_opts *o;
    int score, label, tie, reference; /* columns; label and reference may be -1 */
    struct ctr_buf rows, ideal, labels, scores;
    struct ctr_mean ndcg[CTR_MOST_AT], recall[CTR_MOST_AT];
    int64_t without;
};

/* ---- a query ---- */

static double discount(int64_t rank) /* from 1 */
{
    return 1 / (ctr_log((double)rank + 1) / ctr_log(2));
}

static int by_score(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : (x->tie > y->tie) - (x->tie < y->tie);
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static int add_ndcg(struct ranking *g, const struct row *row, int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_room(&g->ideal, n, sizeof(double), err);
    double *ideal = (double *)(void *)g->ideal.data;

    for (int64_t i = 0; !rc && i < n; i++)
        ideal[i] = row[i].label;
    if (rc)
        return rc;
    qsort(ideal, (size_t)n, sizeof *ideal, descending);
    if (!(ideal[0] > 0)) {
        g->without++;
        return 0;
    }
    for (int k = 0; k < g->o->n; k++) {
        double dcg = 0, best = 0;
        for (int64_t i = 0; i < CTR_MIN(n, g->o->at[k]); i++) {
            dcg += row[i].label * discount(i + 1);
            best += ideal[i] * discount(i + 1);
        }
        ctr_mean_add(&g->ndcg[k], 1, dcg / best);
    }
    return 0;
}

static void add_recall(struct ranking *g, const struct row *row, int64_t n)
{
    for (int k = 0; k < g->o->n; k++) {
        const int64_t top = CTR_MIN(n, g->o->reference_top ? g->o->reference_top : g->o->at[k]);
        int64_t found = 0;
        for (int64_t i = 0; i < CTR_MIN(n, g->o->at[k]); i++)
            found += row[i].reference <= top;
        ctr_mean_add(&g->recall[k], 1, (double)found / (double)top);
    }
}

static int end_query(struct ranking *g, struct ctr_err *err)
{
    struct row *row = (struct row *)(void *)g->rows.data;
    const int64_t n = (int64_t)(g->rows.len / sizeof *row);
    int rc = 0;

    if (n)
        qsort(row, (size_t)n, sizeof *row, by_score);
    if (n && g->label >= 0)
        rc = add_ndcg(g, row, n, err);
    if (n && g->reference >= 0)
        add_recall(g, row, n);
    ctr_buf_clear(&g->rows);
    return rc;
}

static int add_batch(struct ranking *g, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_field *f = b->schema->f;
    const int first = g->reference >= 0 ? g->reference : g->tie; /* 1 at the start of a query */
    const double *label = NULL, *score;
    int rc =
        ctr_col_checked(&b->col[g->score], CTR_ROLE_SCORE, f[g->score].name, b->first_row, &g->scores, &score, err);

    if (!rc && g->label >= 0)
        rc =
            ctr_col_checked(&b->col[g->label], CTR_ROLE_LABEL, f[g->label].name, b->first_row, &g->labels, &label, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const int64_t reference = g->reference >= 0 ? ctr_col_i64(&b->col[g->reference], i) : 0;
        const struct row row = { score[i], label ? label[i] : 0, ctr_col_i64(&b->col[g->tie], i), reference };
        if (ctr_col_i64(&b->col[first], i) == 1)
            rc = end_query(g, err);
        if (!rc)
            rc = ctr_buf_append(&g->rows, &row, sizeof row, err);
    }
    return rc;
}

/* ---- the stages ---- */

/* No name in a plan or text can be this one. */
#define REFERENCE "`\x01reference`"

static int add_reference(struct ctr_batch_source *s, const char *text, struct ctr_err *err)
{
    struct ctr_strs add = { 0 };
    struct ctr_buf assign = { 0 };
    int rc = ctr_buf_printf(&assign, err, REFERENCE "=%s", text);

    if (!rc)
        rc = ctr_strs_add(&add, (const char *)assign.data, assign.len, err);
    const struct ctr_select_spec spec = { .add = &add };
    if (!rc)
        rc = ctr_select_source(s, &spec, NULL, err);
    ctr_strs_free(&add);
    ctr_buf_free(&assign);
    return rc;
}

static int open_stages(struct ranking *g, struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_ranking_opts *o = g->o;
    const char *const option = "--reference";
    const char *const order = o->reference ? "if(" REFERENCE " == " REFERENCE ", 0, null)" : "0"; /* null is an error */
    int query = o->query, id = o->id, reference = -1;
    int *const columns[] = { &query, &g->score, &id, &g->label, &reference };
    struct ctr_strs by = { 0 };
    struct ctr_expr *e = NULL;
    int rc = o->reference ? ctr_number_expr(&e, option, o->reference, ctr_batch_source_schema(s), err) : 0;

    ctr_expr_free(e);
    if (!rc && o->reference)
        rc = add_reference(s, o->reference, err);
    if (!rc && o->reference)
        reference = ctr_batch_source_schema(s)->n - 1;
    if (!rc)
        rc = ctr_batch_source_keep(s, columns, CTR_COUNT(columns), NULL, err);
    if (!rc) {
        const char *name = ctr_batch_source_schema(s)->f[query].name;
        g->tie = ctr_batch_source_schema(s)->n;
        rc = ctr_names_add(&by, name, err);
    }
    struct ctr_rank_opts ro = {
        .by = &by, .order = order, .order_name = option, .score = g->score, .id = id, .uncertainty = -1
    };
    if (!rc)
        rc = ctr_rank_source(s, &ro, false, o->memory_bytes, o->threads, NULL, err);
    ro = (struct ctr_rank_opts){
        .by = &by, .order = REFERENCE, .order_name = option, .score = -1, .id = g->tie, .uncertainty = -1
    };
    if (!rc && o->reference) {
        g->reference = g->tie + 1;
        rc = ctr_rank_source(s, &ro, true, 0, 1, NULL, err);
    }
    ctr_strs_free(&by);
    return rc;
}

int ctr_ranking_evaluate(struct ctr_batch_source *s, const struct ctr_ranking_opts *o, struct ctr_estimate *e,
                         int *found, int64_t *without, struct ctr_err *err)
{
    struct ranking *g = calloc(1, sizeof *g);
    const struct ctr_batch *b;
    char name[32];
    int rc = g ? 0 : ctr_fail_nomem(err, sizeof *g);

    if (!rc) {
        g->o = o;
        g->label = o->label;
        g->score = o->score;
        g->reference = -1;
        rc = open_stages(g, s, err);
    }
    while (!rc && (rc = ctr_batch_source_next(s, &b, err)) > 0)
        rc = add_batch(g, b, err);
    if (!rc)
        rc = end_query(g, err);
    *found = 0;
    for (int k = 0; !rc && g->label >= 0 && k < o->n; k++) {
        snprintf(name, sizeof name, "ndcg@%lld", (long long)o->at[k]);
        ctr_estimate_mean(&e[(*found)++], name, &g->ndcg[k]);
    }
    for (int k = 0; !rc && g->reference >= 0 && k < o->n; k++) {
        snprintf(name, sizeof name, "recall@%lld", (long long)o->at[k]);
        ctr_estimate_mean(&e[(*found)++], name, &g->recall[k]);
    }
    if (g) {
        *without = g->without;
        ctr_buf_free(&g->rows);
        ctr_buf_free(&g->ideal);
        ctr_buf_free(&g->labels);
        ctr_buf_free(&g->scores);
    }
    free(g);
    return rc;
}
