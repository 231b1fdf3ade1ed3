/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction with lr: the weights that are not 0, in sparse tables. z and n are read only when the weights are not
 * those that training wrote. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/feature/op.h"
#include "common/model/lr.h"

enum { AHEAD = 8 }; /* rows between prefetch and use */

struct scorer {
    struct ctr_sparse *table; /* rows: hash, weight as double; with uncertainty the learning rate, too */
    int tables;
    bool no_bias;
    double bias;
    bool uncertain;
    double bias_rate, unseen_rate;
    uint64_t digest;
};

void ctr_lr_scorer_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    for (int i = 0; i < s->tables; i++)
        ctr_sparse_free(&s->table[i]);
    free(s->table);
    free(s);
}

int ctr_lr_scorer_bind(void *scorer, const struct ctr_strs *tables, struct ctr_err *err)
{
    struct scorer *s = scorer;
    if (tables->n <= s->tables)
        return 0;
    struct ctr_sparse *table = realloc(s->table, (size_t)tables->n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, (size_t)tables->n * sizeof *table);
    s->table = table;
    for (; s->tables < tables->n; s->tables++)
        ctr_sparse_init(&s->table[s->tables], s->uncertain ? 24 : 16);
    return 0;
}

/* What loading counts. */
struct scorer_load {
    struct ctr_learning learning;
    struct ctr_event event;
    bool derive; /* z and n win over weight */
    int64_t differ;
};

static int scorer_batch(struct scorer *s, struct scorer_load *l, struct ctr_strs *tables, const struct ctr_batch *b,
                        struct ctr_err *err)
{
    struct ctr_lr_columns c;
    struct ctr_lr_table cache = { .table = 0 };
    int rc = ctr_lr_find_columns(b, &c, err);
    const struct ctr_col *weight = c.number[CTR_LR_WEIGHT];
    bool derive = !rc && l->derive && !ctr_lr_missing(&c, &l->learning);
    if (!rc && !derive && !weight)
        rc = ctr_fail(err, CTR_EDATA, "the model has neither weight nor z and n");
    const char *missing = !rc && s->uncertain ? ctr_lr_rate_missing(&c, &l->learning) : NULL;
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s', without which it cannot tell its uncertainty",
                      missing);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        uint64_t key = ((const uint64_t *)c.key->data)[i];
        struct ctr_state state;
        double rate = 0;
        if (derive || s->uncertain)
            ctr_lr_state(&c, &l->learning, i, &state);
        if (s->uncertain && !((rate = ctr_state_rate(&l->learning, &l->event, &state)) >= 0 && rate < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: n is damaged, or --beta was 0",
                            (long long)(b->first_row + i + 1));
        double w = derive ? ctr_state_weight(&l->learning, &l->event, &state) : ctr_col_f64(weight, i);
        if (derive && weight)
            l->differ += w != ctr_col_f64(weight, i);
        if (!(fabs(w) < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: its weight is not a number",
                            (long long)(b->first_row + i + 1));
        s->digest += ctr_lr_digest(key, w);
        if ((rc = ctr_lr_find_table(&cache, ctr_col_str(c.table, i), tables, err)) ||
            (rc = ctr_lr_scorer_bind(s, tables, err)))
            return rc;
        if (cache.table < 0) {
            s->bias = w;
            s->bias_rate = rate;
        } else if ((w != 0 || s->uncertain) && !(rc = ctr_sparse_reserve(&s->table[cache.table], 1, err))) {
            uint8_t *row = ctr_sparse_get(&s->table[cache.table], ctr_sparse_hash(key));
            memcpy(row + 8, &w, sizeof w);
            if (s->uncertain)
                memcpy(row + 16, &rate, sizeof rate);
        }
    }
    return rc;
}

/* Read the model with table, key and either weight, or all columns. */
static int scorer_read(struct scorer *s, struct scorer_load *l, const char *path, struct ctr_strs *tables,
                       struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_model_open(path, &info, &r, err), keep[3];
    if (rc)
        return rc;
    if (!l->derive && !s->uncertain) {
        static const char *const names[] = { "table", "key", "weight" };
        for (int i = 0; i < 3; i++)
            keep[i] = ctr_schema_find(&info.schema, names[i]);
        if (keep[2] < 0)
            l->derive = true;
        else if (keep[0] >= 0 && keep[1] >= 0)
            rc = ctr_reader_project(r, keep, 3, err);
    }
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = scorer_batch(s, l, tables, b, err);
    if (rc < 0)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

int ctr_lr_scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err)
{
    const char *want = ctr_meta_get(&info->schema.meta, CTR_META_MODEL_WEIGHTS);
    struct scorer_load l = { 0 };
    struct scorer *s = NULL;
    char hex[17];
    int rc = ctr_learning_init(&l.learning, &info->params, err);
    if (!rc)
        rc = ctr_lr_start(&l.learning, &info->schema.meta, &l.event, err);
    for (int attempt = 0; attempt < 2 && !rc; attempt++) {
        ctr_lr_scorer_free(s);
        if (!(s = calloc(1, sizeof *s))) {
            rc = ctr_fail_nomem(err, sizeof *s);
            break;
        }
        s->no_bias = info->params.no_bias;
        s->uncertain = info->uncertainty;
        rc = s->uncertain ? ctr_lr_unseen_rate(&l.learning, &l.event, &s->unseen_rate, err) : 0;
        if (rc)
            break;
        s->bias_rate = s->unseen_rate; /* until its row comes */
        rc = scorer_read(s, &l, path, tables, err);
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)s->digest);
        if (l.derive || (want && !strcmp(want, hex)))
            break;
        l.derive = true; /* edited since it was trained: z and n win */
    }
    if (rc) {
        ctr_lr_scorer_free(s);
        return rc;
    }
    if (l.differ)
        snprintf(warn, warn_size, "%s: %lld weights did not agree with z and n, which win", path, (long long)l.differ);
    *out = s;
    return ctr_lr_scorer_bind(s, tables, err);
}

double ctr_lr_row_weights(const void *scorer, const struct ctr_rows *r, int64_t i, double *weight)
{
    const struct scorer *s = scorer;
    for (int64_t e = r->start[i]; e < r->start[i + 1]; e++, weight++) {
        const uint8_t *row = ctr_sparse_find(&s->table[r->table[e]], r->hash[e]);
        *weight = 0;
        if (row)
            memcpy(weight, row + 8, sizeof *weight);
    }
    return s->no_bias ? 0 : s->bias;
}

/* As ctr_lr_row_weights, and returns the uncertainty of row i, whose terms it leaves in `term`. */
static double row_uncertain(const struct scorer *s, const struct ctr_rows *r, int64_t i, double *weight, double *term)
{
    const int64_t k = r->start[i + 1] - r->start[i];
    term[k] = s->bias_rate;
    for (int64_t e = r->start[i]; e < r->start[i + 1]; e++, weight++, term++) {
        const uint8_t *row = ctr_sparse_find(&s->table[r->table[e]], r->hash[e]);
        double rate = s->unseen_rate;
        *weight = 0;
        if (row) {
            memcpy(weight, row + 8, sizeof *weight);
            memcpy(&rate, row + 16, sizeof rate);
        }
        *term = r->x ? fabs(r->x[e]) * rate : rate;
    }
    return ctr_lanes_dot(term - k, NULL, k + !s->no_bias);
}

/* `uncertainty` is NULL, known where this is called, or takes u(x) = sum of |x_i| alpha / (beta + sqrt(n_i)), the
 * greatest change of the log-odds that one more row with these features would make (section 6). */
static inline __attribute__((always_inline)) int predict(const struct scorer *s, const struct ctr_rows *r,
                                                         double *score, double *uncertainty, struct ctr_err *err)
{
    struct ctr_buf wb = { 0 }, xb = { 0 };
    int64_t longest = 0;
    for (int64_t i = 0; i < r->rows; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    int rc = ctr_buf_reserve(&wb, (size_t)(longest + 1) * sizeof(double), err);
    if (!rc)
        rc = ctr_buf_reserve(&xb, (size_t)(longest + 1) * sizeof(double), err);
    double *w = (double *)(void *)wb.data, *x = (double *)(void *)xb.data;
    for (int64_t i = 0; i < r->rows && !rc; i++) {
        int64_t at = r->start[i], k = r->start[i + 1] - at;
        if (i + AHEAD < r->rows)
            for (int64_t e = r->start[i + AHEAD]; e < r->start[i + AHEAD + 1]; e++)
                if (s->table[r->table[e]].size)
                    __builtin_prefetch(ctr_sparse_home(&s->table[r->table[e]], r->hash[e]));
        if (uncertainty)
            uncertainty[i] = row_uncertain(s, r, i, w, x); /* before x is of use */
        else
            (void)ctr_lr_row_weights(s, r, i, w);
        w[k] = s->bias;
        if (r->x) {
            memcpy(x, r->x + at, (size_t)k * sizeof *x);
            x[k] = 1;
        }
        score[i] = ctr_sigmoid(ctr_lanes_dot(w, r->x ? x : NULL, k + !s->no_bias));
        if (!(score[i] >= 0))
            rc = ctr_lr_diverged(r->first_row + i + 1, err);
    }
    ctr_buf_free(&wb);
    ctr_buf_free(&xb);
    return rc;
}

int ctr_lr_predict_rows(const void *scorer, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    return predict(scorer, r, score, NULL, err);
}

int ctr_lr_predict_uncertain(const void *scorer, const struct ctr_rows *r, double *score, double *uncertainty,
                             struct ctr_err *err)
{
    return predict(scorer, r, score, uncertainty, err);
}
