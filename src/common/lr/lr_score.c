/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction with lr: the nonzero weights and, for the uncertainty, every key's learning rate. A first pass over the
 * file counts keys, to size the tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/lr/lr.h"
#include "common/table/table.h"

enum {
    AHEAD = 8,               /* rows between prefetch and use */
    BLOCK = CTR_WEIGHTS_RUN, /* rows scored column by column: their sums fit into the first-level cache */
    LANES = CTR_LANES,
};

struct scorer {
    struct ctr_weight_tables weights; /* with rates if uncertainty is requested */
    struct ctr_known known;           /* keys of all tables stored without a weight */
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
    ctr_known_free(&s->known);
    free(s);
}

/* A copy of the scorer with an empty table for each table that only the stream has. */
int ctr_lr_session_new(void **session, const void *scorer, const struct ctr_strs *tables, struct ctr_err *err)
{
    struct scorer *s = malloc(sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    *s = *(const struct scorer *)scorer;
    const size_t bytes = (size_t)s->weights.n * sizeof *s->weights.t;
    struct ctr_weights *t = malloc(CTR_MAX(bytes, 1));
    if (t && bytes)
        memcpy(t, s->weights.t, bytes);
    s->weights.t = t;
    int rc = t ? ctr_weights_tables(&s->weights, tables->n, err) : ctr_fail_nomem(err, bytes);
    if (rc)
        ctr_lr_session_free(s);
    else
        *session = s;
    return rc;
}

void ctr_lr_session_free(void *session)
{
    free(((struct scorer *)session)->weights.t);
    free(session);
}

/* ---- loading ---- */

/* The number of occurrences of a key as a power of two; 0 if the model has no counts. */
static uint8_t heat_of(const struct ctr_lr_columns *c, int64_t i)
{
    const struct ctr_col *n = c->number[CTR_LR_N];
    int exponent = 0;
    if (n)
        frexp(ctr_col_f64(n, i), &exponent);
    return (uint8_t)CTR_MIN(CTR_MAX(exponent + 64, 0), UINT8_MAX);
}

static int put(struct scorer *s, const struct ctr_lr_walk *walk, const struct ctr_lr_walked *r, struct ctr_err *err)
{
    const int64_t next = CTR_MIN(r->i + 2 * AHEAD, r->batch->rows - 1);
    const int table = ctr_lr_walk_tables(walk)[next];
    const struct ctr_weights *t = &s->weights.t[r->table];
    const uint64_t before = t->keys;
    if (table >= 0)
        ctr_weights_ahead(&s->weights, table, ctr_lr_walk_hashes(walk)[next]);
    int rc = ctr_weights_put(&s->weights, r->table, ctr_lr_walk_hashes(walk)[r->i], r->weight, r->rate,
                             heat_of(&walk->c, r->i), err);
    return !rc && t->keys == before ? ctr_lr_duplicate_key(r->batch, r->i, err) : rc;
}

static int take(void *ctx, const struct ctr_lr_walk *walk, const struct ctr_lr_walked *r, struct ctr_err *err)
{
    struct scorer *s = ctx;
    int rc = r->i ? 0 : ctr_weights_tables(&s->weights, walk->tables->n, err);
    if (rc)
        return rc;
    const bool wanted = r->weight != 0 || s->weights.rates;
    if (r->table < 0) {
        s->bias = r->weight;
        s->bias_rate = (double)r->rate;
        return 0;
    }
    if (walk->again)
        return wanted ? put(s, walk, r, err) : ctr_known_add(&s->known, ctr_lr_walk_hashes(walk)[r->i], err);
    if (wanted)
        s->weights.t[r->table].room++;
    else
        s->known.room++;
    return 0;
}

static void restart(void *ctx)
{
    struct scorer *s = ctx;
    for (int i = 0; i < s->weights.n; i++)
        s->weights.t[i].room = 0;
    s->known.room = 0;
}

int ctr_lr_scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err)
{
    struct scorer *s = calloc(1, sizeof *s);
    struct ctr_lr_walk walk = { .path = path,
                                .info = info,
                                .tables = tables,
                                .rates = info->uncertainty,
                                .take = take,
                                .restart = restart,
                                .ctx = s };
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->no_bias = info->params.lr.no_bias;
    s->weights.rates = info->uncertainty;
    s->sigmoids = ctr_sigmoids_at(ctr_cpu_best());
    int rc = ctr_lr_walk_start(&walk, err);
    s->bias_rate = s->unseen_rate = walk.unseen_rate; /* until the bias row is read */
    if (!rc)
        rc = ctr_lr_walk_count(&walk, err);
    if (!rc)
        rc = ctr_weights_make(&s->weights, err);
    if (!rc)
        rc = ctr_known_make(&s->known, err);
    if (!rc)
        rc = ctr_lr_walk_again(&walk, err);
    ctr_weights_made(&s->weights);
    ctr_lr_walk_end(&walk);
    if (!rc)
        rc = ctr_weights_tables(&s->weights, tables->n, err);
    if (rc) {
        ctr_lr_scorer_free(s);
        return rc;
    }
    if (walk.differ)
        snprintf(warn, warn_size, "%s: %lld weight%s did not agree with z and n, which win", path,
                 (long long)walk.differ, CTR_S(walk.differ));
    *out = s;
    return 0;
}

/* ---- scoring ---- */

/* Look up the weights of row i's entries and, unless NULL, their learning rates and counts. */
CTR_BODY void look_up(const struct scorer *s, const struct ctr_rows *r, int64_t i, double *weight, double *rate,
                      struct ctr_key_counts *counts, const bool rates)
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
        if (counts)
            ctr_count_key(counts, r->table[e], b || ctr_known_has(&s->known, h));
    }
}

/* The same, also counting the row's keys. */
static double row_counted(const void *scorer, const struct ctr_rows *r, int64_t i, double *weight,
                          struct ctr_key_counts *counts)
{
    const struct scorer *s = scorer;
    look_up(s, r, i, weight, NULL, counts, s->weights.rates);
    return s->no_bias ? 0 : s->bias;
}

double ctr_lr_row_weights(const void *scorer, const struct ctr_rows *r, int64_t i, double *weight)
{
    return row_counted(scorer, r, i, weight, NULL);
}

/* ---- scores ---- */

/* Score rows: the logit, and u(x) = sum of |x_i| alpha / (beta + sqrt(n_i)), the largest change of the log-odds by one
 * more row with these features (section 6). uncertainty NULL: not requested, and the tables have no rates; a constant
 * for each caller. */
CTR_BODY int score_rows(const struct scorer *s, const struct ctr_rows *r, double *logit, double *uncertainty,
                        struct ctr_key_counts *counts, struct ctr_err *err)
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
        look_up(s, r, i, w, uncertainty ? u : NULL, counts, uncertainty != NULL);
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

/* A block's sums: the k-th term of a row goes to lane k mod LANES, as in ctr_lanes_dot. */
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

/* Score rows [from, from + n), at most BLOCK. The homes of a column are prefetched while the previous one is added. */
static void score_block(const struct scorer *s, const struct ctr_rows *r, int64_t from, int64_t n, double *logit,
                        double *uncertainty, struct ctr_key_counts *counts)
{
    const struct ctr_weights_kernel *kernel = ctr_weights_kernel_at((int)ctr_cpu_best());
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
        uint64_t absent = (uncertainty ? kernel->add_rated : kernel->add)(&terms);
        if (counts)
            counts->keys[r->table[k]] += n;
        for (; absent && counts; absent &= absent - 1)
            counts->unknown[r->table[k]] += !ctr_known_has(&s->known, terms.h[__builtin_ctzll(absent)]);
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
                     struct ctr_key_counts *counts, struct ctr_err *err)
{
    double logit[BLOCK];
    int rc = r->transposed ? 0 : score_rows(s, r, score, uncertainty, counts, err);
    for (int64_t from = 0, n; from < r->rows && !rc; from += n) {
        n = CTR_MIN(BLOCK, r->rows - from);
        if (r->transposed)
            score_block(s, r, from, n, logit, uncertainty ? uncertainty + from : NULL, counts);
        else
            memcpy(logit, score + from, (size_t)n * sizeof *logit);
        s->sigmoids(logit, score + from, n);
        for (int64_t i = from; i < from + n && !rc; i++)
            rc = score[i] >= 0 ? 0 : ctr_lr_diverged(r->first_row + i + 1, err);
    }
    return rc;
}

int ctr_lr_predict_rows(void *session, const struct ctr_rows *r, double *score, struct ctr_key_counts *counts,
                        struct ctr_err *err)
{
    return predict(session, r, score, NULL, counts, err);
}

int ctr_lr_predict_uncertain(void *session, const struct ctr_rows *r, double *score, double *uncertainty,
                             struct ctr_key_counts *counts, struct ctr_err *err)
{
    return predict(session, r, score, uncertainty, counts, err);
}
