/* SPDX-License-Identifier: Apache-2.0
 *
 * gauc: the mean of the users' AUC. Entries are grouped by user (a counting sort), then each user's few entries are
 * sorted by score. Users are in order of first appearance, so the order of the sum depends only on the rows.
 *
 * Source: Zhu et al., "Optimized Cost per Click in Taobao Display Advertising", KDD 2017. */
#include "common/base/isa.h"
#include "common/metric/evalstate.h"

#include <math.h>
#include <stdlib.h>

struct group {
    double auc, weight;
    bool both; /* has both classes */
};

/* A user with few keys: compare every positive with every negative, without sorting. */
enum { FEW = 256, LANES = 8 };
CTR_BODY void few_body(const uint64_t *k, int64_t n, struct group *g)
{
    int64_t score[2][FEW + LANES], wins = 0; /* of negatives, of positives */
    int64_t count[2] = { 0 };

    for (int64_t i = 0; i < n; i++) { /* store to both; one is overwritten */
        int64_t positive = (int64_t)(k[i] & 1);
        score[0][count[0]] = score[1][count[1]] = (int64_t)(k[i] >> 1);
        count[0] += !positive;
        count[1] += positive;
    }
    g->both = count[0] && count[1];
    for (int i = 0; i < LANES; i++) /* whole vectors: no positive wins over these */
        score[0][count[0] + i] = INT64_MAX;
    const int64_t lanes = (count[0] + LANES - 1) & -(int64_t)LANES;
    for (int64_t i = 0; g->both && i < count[1]; i++)
        for (int64_t j = 0; j < lanes; j++)
            wins += (score[0][j] < score[1][i]) + (score[0][j] <= score[1][i]);
    g->auc = (double)wins / 2 / ((double)count[1] * (double)count[0]);
}

#define GROUP_FEW(isa, attributes)                                                                                     \
    attributes static void few_##isa(const uint64_t *k, int64_t n, struct group *g)                                    \
    {                                                                                                                  \
        few_body(k, n, g);                                                                                             \
    }
CTR_EACH_ISA(GROUP_FEW)
#define FEW_ROW(isa) few_##isa
static void (*const few[])(const uint64_t *k, int64_t n, struct group *g) = CTR_ISA_TABLE(FEW_ROW);

/* Unweighted: only keys. */
static void group_keys(uint64_t *k, uint64_t *tmp, int64_t n, struct group *g)
{
    struct ctr_wins w = CTR_NO_WINS;

    g->weight = (double)n;
    if (n <= FEW) {
        few[ctr_cpu_best()](k, n, g);
        return;
    }
    k = ctr_key_sort(k, tmp, n);
    for (int64_t i = 0; i < n; i++)
        ctr_wins_add(&w, k[i]);
    g->both = w.pos && w.neg;
    g->auc = ctr_wins_auc(&w);
}

static void group_pairs(struct ctr_pair *k, struct ctr_pair *tmp, int64_t n, struct group *g)
{
    double pos = 0, neg = 0, wins = 0, seen = 0;

    for (int64_t i = 0; i < n; i++)
        *(k[i].key & 1 ? &pos : &neg) += k[i].weight;
    g->weight = pos + neg;
    g->both = pos > 0 && neg > 0;
    if (!g->both)
        return;
    ctr_pair_sort(k, tmp, n);
    for (int64_t i = 0; i < n;) {
        uint64_t score = k[i].key >> 1;
        double p = 0, m = 0;
        for (; i < n && k[i].key >> 1 == score; i++)
            *(k[i].key & 1 ? &p : &m) += k[i].weight;
        wins += p * (2 * seen + m);
        seen += m;
    }
    g->auc = wins / 2 / (pos * neg);
}

/* The users of a sample, numbered by first appearance in it. */
struct users {
    const uint32_t *unit;
    uint32_t *local;    /* a user's number; NULL: the user id itself */
    struct ctr_buf who; /* the inverse; empty if local is NULL */
    struct ctr_buf end; /* int64_t: first entry of a user; after scatter(): end of its entries */
    const struct ctr_buf *no_user;
    int64_t n;
};

static bool has_no_user(const struct users *u, uint32_t id)
{
    return id < 8 * u->no_user->len && ctr_bit(u->no_user->data, id);
}

static inline uint32_t number(const struct users *u, int64_t i)
{
    return u->local ? u->local[u->unit[i]] : u->unit[i];
}

static int number_users(const struct ctr_sample *s, struct users *u, struct ctr_err *err)
{
    int rc;

    if (!u->local)
        return 0;
    u->n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (u->local[u->unit[i]] != UINT32_MAX)
            continue;
        if ((rc = ctr_buf_append(&u->who, &u->unit[i], sizeof *u->unit, err)))
            return rc;
        u->local[u->unit[i]] = (uint32_t)u->n++;
    }
    return 0;
}

static int count(const struct ctr_sample *s, struct users *u, struct ctr_err *err)
{
    int64_t sum = 0, *at;
    int rc = number_users(s, u, err);

    if (rc || (rc = ctr_buf_reserve(&u->end, (size_t)(u->n + 1) * sizeof *at, err)))
        return rc;
    at = (int64_t *)u->end.data;
    memset(at, 0, (size_t)(u->n + 1) * sizeof *at);
    for (int64_t i = 0; i < s->n; i++)
        at[number(u, i)]++;
    for (int64_t k = 0; k <= u->n; k++) {
        int64_t rows = at[k];
        at[k] = sum;
        sum += rows;
    }
    return 0;
}

/* Group entries by user. The places of a few entries ahead are prefetched: they are all over memory. */
static void scatter(const struct ctr_sample *s, const struct users *u, void *to)
{
    enum { AHEAD = 16 };
    int64_t *at = (int64_t *)u->end.data;
    const size_t size = s->weight.len ? sizeof(struct ctr_pair) : sizeof(uint64_t);

    for (int64_t i = 0; i < s->n; i++) {
        if (i + AHEAD < s->n)
            __builtin_prefetch((char *)to + (size_t)at[number(u, i + AHEAD)] * size, 1);
        const int64_t k = at[number(u, i)]++;
        if (s->weight.len)
            ((struct ctr_pair *)to)[k] =
                (struct ctr_pair){ .key = ctr_sample_key(s, i), .weight = ctr_sample_weight(s, i) };
        else
            ((uint64_t *)to)[k] = ctr_sample_key(s, i);
    }
}

static int average(const struct ctr_sample *s, const struct users *us, uint8_t *data, uint8_t *tmp,
                   struct ctr_metric_sums *to, struct ctr_buf *keep, struct ctr_err *err)
{
    const int64_t *end = (const int64_t *)us->end.data;
    double sum = 0, weight = 0;
    int rc;

    to->users = to->left_out_users = to->left_out_rows = 0;
    for (int64_t u = 0, from = 0; u < us->n; from = end[u++]) {
        struct group g = { 0 };
        const uint32_t id = us->local ? ((const uint32_t *)(const void *)us->who.data)[u] : (uint32_t)u;
        if (has_no_user(us, id)) {
            to->left_out_rows += end[u] - from;
            continue;
        }
        if (s->weight.len)
            group_pairs((struct ctr_pair *)data + from, (struct ctr_pair *)tmp, end[u] - from, &g);
        else
            group_keys((uint64_t *)data + from, (uint64_t *)tmp, end[u] - from, &g);
        if (!g.both) {
            to->left_out_users++;
            to->left_out_rows += end[u] - from;
            continue;
        }
        to->users++;
        sum += g.weight * g.auc;
        weight += g.weight;
        if (keep) {
            struct ctr_user_auc a = { id, g.weight, g.auc };
            if ((rc = ctr_buf_append(keep, &a, sizeof a, err)))
                return rc;
        }
    }
    to->gauc = weight > 0 ? sum / weight : NAN;
    return 0;
}

int ctr_gauc(const struct ctr_sample *s, const struct ctr_gauc_users *users, struct ctr_metric_sums *to,
             struct ctr_buf *keep, struct ctr_err *err)
{
    struct users u = {
        .unit = (const uint32_t *)s->unit.data, .local = users->local, .no_user = users->no_user, .n = users->users
    };
    struct ctr_buf data = { 0 }, tmp = { 0 };
    size_t size = s->weight.len ? sizeof(struct ctr_pair) : sizeof(uint64_t);
    int64_t longest = 0;
    int rc = count(s, &u, err);

    if (rc || (rc = ctr_buf_reserve(&data, (size_t)s->n * size, err)))
        goto out;
    for (int64_t k = 0; k < u.n; k++)
        longest = CTR_MAX(longest, ((int64_t *)u.end.data)[k + 1] - ((int64_t *)u.end.data)[k]);
    if (longest > UINT32_MAX) {
        rc = ctr_fail(err, CTR_ENOMEM, "gauc takes 4,294,967,295 rows a user at most");
        goto out;
    }
    if ((rc = ctr_buf_reserve(&tmp, (size_t)longest * size, err)))
        goto out;
    scatter(s, &u, data.data);
    rc = average(s, &u, data.data, tmp.data, to, keep, err);
out:
    for (size_t k = 0; k < u.who.len / sizeof(uint32_t); k++)
        users->local[((const uint32_t *)u.who.data)[k]] = UINT32_MAX;
    ctr_buf_free(&u.who);
    ctr_buf_free(&u.end);
    ctr_buf_free(&data);
    ctr_buf_free(&tmp);
    return rc;
}
