/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction with lr: the weights that are not 0 and, for the uncertainty, every key's learning rate. z and n are read
 * only when the weights are not those that training wrote. The file is read twice: what is counted first gives the
 * tables their sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/feature/op.h"
#include "common/lr/lr.h"
#include "common/model/weights.h"

enum {
    AHEAD = 8,               /* rows between prefetch and use */
    BLOCK = CTR_WEIGHTS_RUN, /* rows that are scored column by column: their sums fit into the first cache */
    LANES = CTR_LANES,
};

struct scorer {
    struct ctr_weight_tables weights; /* with rates: for the uncertainty */
    bool no_bias;
    double bias, bias_rate, unseen_rate;
    ctr_sigmoids *sigmoids;
};

void ctr_lr_scorer_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    ctr_weights_free(&s->weights);
    free(s);
}

int ctr_lr_scorer_bind(void *scorer, const struct ctr_strs *tables, struct ctr_err *err)
{
    return ctr_weights_tables(&((struct scorer *)scorer)->weights, tables->n, err);
}

/* ---- loading ---- */

struct load {
    struct scorer *s;
    struct ctr_learning learning;
    struct ctr_event event;
    struct ctr_strs *tables;
    bool derive; /* z and n win over weight */
    bool fill;   /* after it was counted */
    bool bias;   /* its row came */
    uint64_t digest;
    int64_t differ;
    /* of the batch */
    struct ctr_lr_columns c;
    bool derived;
    struct ctr_buf hash, table;
};

/* Hashes of the keys and numbers of the tables of all rows; a run of equal names is looked up once. */
static int load_keys(struct load *l, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_lr_table cache = { .table = 0 };
    const struct ctr_col *names = l->c.table;
    ctr_buf_clear(&l->hash);
    ctr_buf_clear(&l->table);
    int rc = ctr_buf_reserve(&l->hash, (size_t)b->rows * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_buf_reserve(&l->table, (size_t)b->rows * sizeof(int), err);
    if (rc)
        return rc;
    ctr_sparse_kernel_best()->hash(l->c.key->data, b->rows, (uint64_t *)(void *)l->hash.data);
    const int32_t *index = names->dict ? names->data : NULL;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        if (!index || !i || index[i] != index[i - 1])
            rc = ctr_lr_find_table(&cache, ctr_col_str(names, i), l->tables, err);
        ((int *)(void *)l->table.data)[i] = cache.table;
    }
    return rc ? rc : ctr_lr_scorer_bind(l->s, l->tables, err);
}

/* Weight and rate of row i, both checked. */
static int load_row(struct load *l, const struct ctr_batch *b, int64_t i, double *weight, float *rate,
                    struct ctr_err *err)
{
    const struct ctr_col *told = l->c.number[CTR_LR_WEIGHT];
    struct ctr_state state;
    if (l->derived || l->s->weights.rates)
        ctr_lr_state(&l->c, &l->learning, i, &state);
    *rate = l->s->weights.rates ? (float)ctr_state_rate(&l->learning, &l->event, &state) : 0;
    if (!(*rate >= 0 && *rate < INFINITY))
        return ctr_fail(err, CTR_EDATA, "row %lld of the model: n is damaged, or --beta was 0",
                        (long long)(b->first_row + i + 1));
    *weight = l->derived ? ctr_state_weight(&l->learning, &l->event, &state) : ctr_col_f64(told, i);
    if (!(fabs(*weight) < INFINITY))
        return ctr_fail(err, CTR_EDATA, "row %lld of the model: its weight is not a number",
                        (long long)(b->first_row + i + 1));
    return 0;
}

/* How often a key came, as a power of two; 0 where the model does not tell. */
static uint8_t heat_of(const struct ctr_lr_columns *c, int64_t i)
{
    const struct ctr_col *n = c->number[CTR_LR_N];
    int exponent = 0;
    if (n)
        frexp(ctr_col_f64(n, i), &exponent);
    return (uint8_t)CTR_MIN(CTR_MAX(exponent + 64, 0), UINT8_MAX);
}

static int put(struct load *l, const struct ctr_batch *b, int64_t i, double weight, float rate, struct ctr_err *err)
{
    const int table = ((const int *)(void *)l->table.data)[i];
    const struct ctr_weights *t = &l->s->weights.t[table];
    const uint64_t hash = ((const uint64_t *)(void *)l->hash.data)[i], before = t->keys;
    int rc = ctr_weights_put(&l->s->weights, table, hash, weight, rate, heat_of(&l->c, i), err);
    return !rc && t->keys == before ? ctr_lr_twice(b, i, err) : rc;
}

/* By more than versions round: the first ones took the root of counts as a double. */
static bool differs(double derived, double told)
{
    return !(fabs(derived - told) <= 1e-6 * fabs(derived));
}

static int load_rows(struct load *l, const struct ctr_batch *b, struct ctr_err *err)
{
    struct scorer *s = l->s;
    const struct ctr_col *told = l->c.number[CTR_LR_WEIGHT];
    const uint64_t *key = l->c.key->data, *hash = (const uint64_t *)(void *)l->hash.data;
    const int *table = (const int *)(void *)l->table.data;
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        double weight = 0;
        float rate = 0;
        const int64_t next = CTR_MIN(i + 2 * AHEAD, b->rows - 1);
        if (l->fill && table[next] >= 0)
            ctr_weights_ahead(&s->weights, table[next], hash[next]);
        if ((rc = load_row(l, b, i, &weight, &rate, err)))
            break;
        const bool wanted = table[i] >= 0 && (weight != 0 || s->weights.rates);
        if (l->fill && wanted)
            rc = put(l, b, i, weight, rate, err);
        l->digest += ctr_lr_digest(key[i], weight);
        if (l->fill)
            continue;
        l->differ += l->derived && told && differs(weight, ctr_col_f64(told, i));
        if (wanted)
            s->weights.t[table[i]].room++;
        if (table[i] >= 0)
            continue;
        if (l->bias)
            rc = ctr_lr_twice(b, i, err);
        l->bias = true;
        s->bias = weight;
        s->bias_rate = (double)rate;
    }
    return rc;
}

static int load_batch(struct load *l, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_lr_find_columns(b, &l->c, err);
    l->derived = !rc && l->derive && !ctr_lr_missing(&l->c, &l->learning);
    if (!rc && !l->derived && !l->c.number[CTR_LR_WEIGHT])
        rc = ctr_fail(err, CTR_EDATA, "the model has neither weight nor z and n");
    const char *missing = !rc && l->s->weights.rates ? ctr_lr_rate_missing(&l->c, &l->learning) : NULL;
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s', without which it cannot tell its uncertainty",
                      missing);
    if (!rc)
        rc = load_keys(l, b, err);
    return rc ? rc : load_rows(l, b, err);
}

/* Read the columns that are needed: table, key and weight, those of the rate besides, or all. */
static int project(struct load *l, const struct ctr_schema *schema, struct ctr_reader *r, struct ctr_err *err)
{
    static const char *const names[] = { "table", "key", "weight", "n", "negatives", "positives" };
    int keep[CTR_COUNT(names)], n = 0;
    l->derive |= ctr_schema_find(schema, "weight") < 0;
    for (size_t i = 0; i < (l->s->weights.rates ? CTR_COUNT(names) : l->fill ? 4 : 3); i++)
        if ((keep[n] = ctr_schema_find(schema, names[i])) >= 0)
            n++;
    return l->derive ? 0 : ctr_reader_project(r, keep, n, err);
}

static int load_all(struct load *l, const char *path, struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_model_open(path, &info, &r, err);
    if (rc)
        return rc;
    rc = project(l, &info.schema, r, err);
    l->bias = false;
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = load_batch(l, b, err);
    if (rc < 0)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

/* Count; once more with z and n when the model was edited since it was trained: then these win. */
static int count(struct load *l, const char *path, const char *digest, struct ctr_err *err)
{
    char hex[17];
    int rc = load_all(l, path, err);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)l->digest);
    if (rc || l->derive || (digest && !strcmp(digest, hex)))
        return rc;
    l->derive = true;
    l->digest = 0;
    for (int i = 0; i < l->s->weights.n; i++)
        l->s->weights.t[i].room = 0;
    return load_all(l, path, err);
}

int ctr_lr_scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err)
{
    struct scorer *s = calloc(1, sizeof *s);
    struct load l = { .s = s, .tables = tables };
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->no_bias = info->params.no_bias;
    s->weights.rates = info->uncertainty;
    s->sigmoids = ctr_sigmoids_best();
    int rc = ctr_learning_init(&l.learning, &info->params, err);
    if (!rc)
        rc = ctr_lr_start(&l.learning, &info->schema.meta, &l.event, err);
    if (!rc && info->uncertainty)
        rc = ctr_lr_unseen_rate(&l.learning, &l.event, &s->unseen_rate, err);
    s->bias_rate = s->unseen_rate; /* until its row comes */
    if (!rc)
        rc = count(&l, path, ctr_meta_get(&info->schema.meta, CTR_META_MODEL_WEIGHTS), err);
    if (!rc)
        rc = ctr_weights_make(&s->weights, err);
    const uint64_t counted = l.digest;
    l.digest = 0;
    l.fill = true;
    if (!rc)
        rc = load_all(&l, path, err);
    if (!rc && l.digest != counted) {
        rc = ctr_fail(err, CTR_EDATA, "the model changed while it was read");
        ctr_err_file(err, path);
    }
    ctr_weights_made(&s->weights);
    ctr_buf_free(&l.hash);
    ctr_buf_free(&l.table);
    if (!rc)
        rc = ctr_lr_scorer_bind(s, tables, err);
    if (rc) {
        ctr_lr_scorer_free(s);
        return rc;
    }
    if (l.differ)
        snprintf(warn, warn_size, "%s: %lld weight%s did not agree with z and n, which win", path, (long long)l.differ,
                 CTR_S(l.differ));
    *out = s;
    return 0;
}

/* ---- scoring ---- */

/* Weights of row i's entries and, unless NULL, their learning rates. */
CTR_BODY void look_up(const struct scorer *s, const struct ctr_rows *r, int64_t i, double *weight, double *rate,
                      const bool rates)
{
    const int64_t first = r->start[i];
    for (int64_t e = first; e < r->start[i + 1]; e++) {
        const struct ctr_weights *t = &s->weights.t[r->table[e]];
        const uint64_t h = r->hash[e];
        int place;
        const uint64_t *b = ctr_weights_find(t, ctr_weights_home(t, h), h, rates, &place);
        weight[e - first] = b ? ctr_weights_weight(b, place, rates) : 0;
        if (rate)
            rate[e - first] = b ? ctr_weights_rate(b, place) : s->unseen_rate;
    }
}

double ctr_lr_row_weights(const void *scorer, const struct ctr_rows *r, int64_t i, double *weight)
{
    const struct scorer *s = scorer;
    look_up(s, r, i, weight, NULL, s->weights.rates);
    return s->no_bias ? 0 : s->bias;
}

/* What a row is scored by: its logit, and u(x) = sum of |x_i| alpha / (beta + sqrt(n_i)), the greatest change of the
 * log-odds that one more row with these features would make (section 6); uncertainty NULL: not asked for, and the
 * tables have no rates, which is known where this is called. */
CTR_BODY int score_rows(const struct scorer *s, const struct ctr_rows *r, double *logit, double *uncertainty,
                        struct ctr_err *err)
{
    struct ctr_buf buf = { 0 };
    int64_t longest = 0;
    for (int64_t i = 0; i < r->rows; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    int rc = ctr_buf_reserve(&buf, (size_t)(longest + 1) * 3 * sizeof(double), err);
    double *w = (double *)(void *)buf.data, *x = w + longest + 1, *u = x + longest + 1;
    for (int64_t i = 0; i < r->rows && !rc; i++) {
        const int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !s->no_bias;
        if (i + AHEAD < r->rows)
            for (int64_t e = r->start[i + AHEAD]; e < r->start[i + AHEAD + 1]; e++)
                __builtin_prefetch(ctr_weights_home(&s->weights.t[r->table[e]], r->hash[e]));
        look_up(s, r, i, w, uncertainty ? u : NULL, uncertainty != NULL);
        w[k] = s->bias;
        if (r->x) {
            memcpy(x, r->x + at, (size_t)k * sizeof *x);
            x[k] = 1;
        }
        logit[i] = ctr_lanes_dot(w, r->x ? x : NULL, all);
        if (!uncertainty)
            continue;
        u[k] = s->bias_rate;
        for (int64_t j = 0; r->x && j < k; j++)
            u[j] *= fabs(x[j]);
        uncertainty[i] = ctr_lanes_dot(u, NULL, all);
    }
    ctr_buf_free(&buf);
    return rc;
}

/* ---- column by column, of transposed rows ---- */

/* A block's sums: a row's k-th term goes to lane k mod LANES, as in ctr_lanes_dot. */
typedef double lane_sums[LANES][BLOCK];

static void add_number(double *restrict sum, int64_t n, double x)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x;
}

static void join_sums(lane_sums sum, int64_t n, double *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        double lane[LANES];
        for (int k = 0; k < LANES; k++)
            lane[k] = sum[k][i];
        out[i] = ctr_lanes_join(lane);
    }
}

/* Rows [from, from + n), at most BLOCK. The homes of a column are asked from memory while the one before is added. */
static void score_block(const struct scorer *s, const struct ctr_rows *r, int64_t from, int64_t n, double *logit,
                        double *uncertainty)
{
    const struct ctr_weights_kernel *kernel = ctr_weights_kernel_best();
    const int columns = (int)(r->start[1] - r->start[0]);
    const uint64_t *home[2][BLOCK];
    lane_sums weight, rate;
    memset(weight, 0, sizeof weight);
    if (uncertainty)
        memset(rate, 0, sizeof rate);
    for (int k = -1; k < columns; k++) {
        const int next = CTR_MIN(k + 1, columns - 1);
        const uint64_t **ahead = home[next & 1];
        if (next > k)
            kernel->homes(&s->weights.t[r->table[next]], r->hash + next * r->rows + from, n, ahead);
        if (k < 0)
            continue;
        const struct ctr_weights_terms terms = {
            .t = &s->weights.t[r->table[k]],
            .h = r->hash + k * r->rows + from,
            .home = home[k & 1],
            .ahead = ahead,
            .n = n,
            .weight = weight[k % LANES],
            .rate = rate[k % LANES],
            .unseen_rate = s->unseen_rate,
        };
        (uncertainty ? kernel->add_rated : kernel->add)(&terms);
    }
    if (!s->no_bias)
        add_number(weight[columns % LANES], n, s->bias);
    join_sums(weight, n, logit);
    if (!s->no_bias && uncertainty)
        add_number(rate[columns % LANES], n, s->bias_rate);
    if (uncertainty)
        join_sums(rate, n, uncertainty);
}

CTR_BODY int predict(const struct scorer *s, const struct ctr_rows *r, double *score, double *uncertainty,
                     struct ctr_err *err)
{
    double logit[BLOCK];
    int rc = r->transposed ? 0 : score_rows(s, r, score, uncertainty, err);
    for (int64_t from = 0, n; from < r->rows && !rc; from += n) {
        n = CTR_MIN(BLOCK, r->rows - from);
        if (r->transposed)
            score_block(s, r, from, n, logit, uncertainty ? uncertainty + from : NULL);
        else
            memcpy(logit, score + from, (size_t)n * sizeof *logit);
        s->sigmoids(logit, score + from, n);
        for (int64_t i = from; i < from + n && !rc; i++)
            rc = score[i] >= 0 ? 0 : ctr_lr_diverged(r->first_row + i + 1, err);
    }
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
