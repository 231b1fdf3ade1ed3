/* SPDX-License-Identifier: Apache-2.0
 *
 * metric: exact AUC, GAUC and the sums against plain quadratic loops; the same results however the rows are cut. */
#include "common/metric/evalstate.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

enum { N = 700 };

static struct ctr_err err;

struct data {
    int n;
    double p[N], y[N], w[N];
    int user[N];
};

/* levels 0: scores that differ; `near`: that share their upper 33 bits. */
static void make(struct data *d, int n, int seed, int levels, bool narrow, bool fractions, bool weights, bool near)
{
    d->n = n;
    for (int i = 0; i < n; i++) {
        uint64_t s = (uint64_t)seed, k = (uint64_t)i;
        double u = ctr_random01(s, 1, k);
        d->p[i] = levels ? floor(u * levels) / levels : near ? .5 + u * 0x1p-30 : u;
        if (narrow)
            d->p[i] = (float)d->p[i];
        d->y[i] = ctr_random01(s, 2, k) < .3;
        if (fractions && ctr_random01(s, 3, k) < .3)
            d->y[i] = ctr_random01(s, 4, k);
        d->w[i] = weights ? floor(ctr_random01(s, 5, k) * 5) / 2 : 1;
        d->user[i] = (int)(ctr_random01(s, 6, k) * 40);
    }
}

static double pairs(const struct data *d, int user)
{
    double wins = 0, all = 0;

    for (int i = 0; i < d->n; i++)
        for (int j = 0; j < d->n; j++) {
            double w = d->w[i] * d->y[i] * d->w[j] * (1 - d->y[j]);
            if (user >= 0 && (d->user[i] != user || d->user[j] != user))
                continue;
            all += w;
            wins += d->p[i] > d->p[j] ? w : d->p[i] == d->p[j] ? w / 2 : 0;
        }
    return all > 0 ? wins / all : NAN;
}

static bool near(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-12 * CTR_MAX(1, fabs(b));
}

static void test_auc(void)
{
    static struct data d;
    static const int sizes[] = { 0, 1, 2, 3, 47, 49, 700 };

    for (int narrow = 0; narrow < 2; narrow++)
        for (int kind = 0; kind < 12; kind++)
            for (size_t k = 0; k < CTR_COUNT(sizes); k++) {
                struct ctr_sample s = { .wide = !narrow };
                int rc = 0, levels = kind % 3 == 1 ? 7 : 0;
                make(&d, sizes[k], kind + 100 * narrow, levels, narrow, kind & 4, kind >= 8, kind % 3 == 2);
                for (int i = 0; !rc && i < d.n; i++)
                    if (!(rc = ctr_sample_reserve(&s, 1, &err)))
                        rc = ctr_sample_push(&s, d.p[i], d.y[i], d.w[i], 0, &err);
                rc = rc ? rc : ctr_sample_sort(&s, NULL, &err);
                ok(!rc && near(ctr_sample_auc(&s), pairs(&d, -1)), "auc is that of all pairs: %d rows, kind %d, %s",
                   sizes[k], kind, narrow ? "32 bits" : "64 bits");
                ctr_sample_free(&s);
            }
}

static void test_sort(void)
{
    enum { M = 5000 };
    static uint64_t a[M], tmp[M];
    static struct ctr_pair p[M], ptmp[M];
    bool sorted = true, stable = true;

    for (int i = 0; i < M; i++) {
        a[i] = (UINT64_C(3) << 60 | (ctr_random64(1, 1, (uint64_t)i) & 0x7fffffff)) & (UINT64_MAX >> 1);
        p[i] = (struct ctr_pair){ .key = ctr_random64(1, 2, (uint64_t)i) % 100 << 25, .index = (uint64_t)i };
    }
    a[0] = 1; /* far from the others, which crowd */
    const uint64_t *r = ctr_key_sort(a, tmp, M);
    ctr_pair_sort(p, ptmp, M);
    for (int i = 1; i < M; i++) {
        sorted &= r[i - 1] <= r[i] && p[i - 1].key <= p[i].key;
        stable &= p[i - 1].key != p[i].key || p[i - 1].index < p[i].index;
    }
    ok(sorted, "long runs of near keys are sorted");
    ok(stable, "equal keys keep their order");
}

/* Enough keys that threads share them: in few places, all over, all equal but one. */
static void test_split(void)
{
    enum { KEYS = 400000 };
    struct ctr_pool *pool = NULL;
    bool same = !ctr_pool_new(&pool, 3, CTR_FLOAT_IEEE, &err);
    for (int kind = 0; same && kind < 8; kind++) {
        struct ctr_sample s = { .wide = kind & 1 }, t = { .wide = true };
        int rc = ctr_sample_reserve(&s, KEYS, &err);
        if (!rc)
            rc = ctr_sample_reserve(&t, KEYS, &err);
        for (int i = 0; !rc && i < KEYS; i++) {
            const double u = ctr_random01(7, (uint64_t)kind, (uint64_t)i);
            const float p = (float)(kind < 2 ? u : kind < 4 ? u * u * u * 1e-3 : kind < 6 ? floor(u * 5) / 5 : i == 9);
            ctr_sample_push_plain(&s, (double)p, i % 3 == 0, 0);
            ctr_sample_push_plain(&t, (double)p, i % 3 == 0, 0);
        }
        uint64_t *key = (uint64_t *)(void *)t.key.data, *tmp = malloc(KEYS * sizeof *tmp);
        const uint64_t *right = tmp ? ctr_key_sort(key, tmp, KEYS) : key;
        same = !rc && tmp && !ctr_sample_sort(&s, kind % 4 < 2 ? pool : NULL, &err);
        for (int i = 0; same && i < KEYS; i++)
            same = ctr_sample_score(&s, ctr_sample_key(&s, i)) == ctr_sample_score(&t, right[i]) &&
                   (ctr_sample_key(&s, i) & 1) == (right[i] & 1);
        free(tmp);
        ctr_sample_free(&s);
        ctr_sample_free(&t);
    }
    ok(same, "%d keys are sorted by threads as by one", KEYS);
    ctr_pool_free(pool);
}

/* Enough keys that they are put into bins: all over, in few places, at few scores, all equal but one, all near each
 * other but one, and of one class. */
static double split_score(int kind, double u, int i)
{
    const double of[] = { u, u * u * u * 1e-3, floor(u * 5) / 5, i == 9, i == 9 ? 1e-300 : .5 + u * 0x1p-20, u };
    return of[kind];
}

static void test_take_auc(void)
{
    enum { KEYS = 400000, KINDS = 6 };
    struct ctr_pool *pool = NULL;
    bool same = !ctr_pool_new(&pool, 3, CTR_FLOAT_IEEE, &err);
    for (int k = 0; same && k < 4 * KINDS; k++) {
        const int kind = k / 4, rare = k & 1;
        struct ctr_sample s = { .wide = k & 2 }, t = { .wide = k & 2 };
        double auc = 0;
        int rc = ctr_sample_reserve(&s, KEYS, &err);
        if (!rc)
            rc = ctr_sample_reserve(&t, KEYS, &err);
        for (int i = 0; !rc && i < KEYS; i++) {
            const double p = split_score(kind, ctr_random01(8, (uint64_t)kind, (uint64_t)i), i);
            const unsigned click = kind == KINDS - 1 || (i % 3 == 0) == rare;
            ctr_sample_push_plain(&s, p, click, 0);
            ctr_sample_push_plain(&t, p, click, 0);
        }
        same = !rc && !ctr_sample_sort(&s, NULL, &err) && !ctr_sample_take_auc(&t, k & 1 ? pool : NULL, &auc, &err);
        const double right = ctr_sample_auc(&s);
        same &= !t.n && (auc == right || (isnan(auc) && isnan(right)));
        if (!same)
            printf("# kind %d: %.17g %.17g\n", k, auc, right);
        ctr_sample_free(&s);
        ctr_sample_free(&t);
    }
    ok(same, "the auc of %d keys in bins is that of sorted ones", KEYS);
    ctr_pool_free(pool);
}

/* ---- whole evaluations ---- */

static struct ctr_schema schema;
enum { SCORE, LABEL, WEIGHT, USER, TIME, COLUMNS };

static void make_schema(void)
{
    static const char *const names[] = { "score", "label", "weight", "user", "time" };
    static const enum ctr_type types[] = { CTR_F64, CTR_F64, CTR_F64, CTR_I32, CTR_TIME };
    bool good = true;

    for (int i = 0; i < COLUMNS; i++)
        good &= ctr_schema_add(&schema, names[i], types[i], &err) >= 0;
    ok(good, "schema");
}

static int fill(struct ctr_batchbuf *b, const struct data *d, int from, int to)
{
    int rc = 0;

    for (int i = from; i < to; i++) {
        rc |= ctr_colbuf_f64(&b->col[SCORE], d->p[i], &err);
        rc |= ctr_colbuf_f64(&b->col[LABEL], d->y[i], &err);
        rc |= ctr_colbuf_f64(&b->col[WEIGHT], d->w[i], &err);
        rc |= ctr_colbuf_i64(&b->col[USER], d->user[i], &err);
        rc |= ctr_colbuf_i64(&b->col[TIME], i * 1000 - 5000, &err);
    }
    return rc;
}

static struct ctr_eval *evaluate(const struct data *d, int batch, struct ctr_eval_opts *o, struct ctr_pool *pool)
{
    struct ctr_eval *e = NULL;
    struct ctr_batchbuf b;
    double control[N];
    int rc = ctr_eval_new(&e, &schema, o, &err);

    for (int i = 0; !rc && i < d->n; i += batch) {
        int n = CTR_MIN(batch, d->n - i);
        struct ctr_batch view;
        if ((rc = ctr_batchbuf_init(&b, &schema, &err)) || (rc = fill(&b, d, i, i + n)))
            break;
        view = *ctr_batchbuf_view(&b);
        view.first_row = i;
        for (int k = 0; k < n; k++)
            control[k] = d->p[i + k] / 2;
        rc = ctr_eval_batch(e, &view, o->control ? control : NULL, &err);
        ctr_batchbuf_free(&b);
    }
    if (!rc)
        rc = ctr_eval_finish(e, pool, &err);
    if (rc) {
        printf("# %s\n", err.what);
        ctr_eval_free(e);
        return NULL;
    }
    return e;
}

/* What a metric is by plain loops over the rows, from their sums. */
struct expected {
    const char *name;
    double value;
};

/* Each metric of the table has an entry in `x`, and its value. */
static void check_metrics(const struct ctr_metric_sums *got, const struct expected *x, size_t n)
{
    for (int i = 0; i < ctr_metrics_count; i++) {
        size_t k = 0;
        while (k < n && strcmp(x[k].name, ctr_metrics[i].name))
            k++;
        if (k == n)
            ok(false, "metric %s has no reference: add one to `expected` of test_eval in tests/unit/unit-metric.c",
               ctr_metrics[i].name);
        else
            ok(near(ctr_metrics[i].value(got), x[k].value), "metric %s: %.17g %.17g", x[k].name,
               ctr_metrics[i].value(got), x[k].value);
    }
}

/* Bins from the lowest score on: each takes whole ties until it has its share of the weight that is left. */
static double plain_ece(const struct data *d, int bins)
{
    double left = 0, all = 0, sum = 0;
    bool done[N] = { false };

    for (int i = 0; i < d->n; i++)
        all += d->w[i];
    left = all;
    for (int bin = 0; bin < bins; bin++) {
        const double share = left / (bins - bin);
        double w = 0, p = 0, y = 0;
        while (bin == bins - 1 || w < share || !w) {
            double low = INFINITY;
            for (int i = 0; i < d->n; i++)
                if (!done[i] && d->w[i] > 0)
                    low = fmin(low, d->p[i]);
            if (!(low < INFINITY))
                break;
            for (int i = 0; i < d->n; i++)
                if (!done[i] && d->p[i] == low) {
                    done[i] = true;
                    w += d->w[i];
                    p += d->w[i] * d->p[i];
                    y += d->w[i] * d->y[i];
                }
        }
        sum += fabs(p - y);
        left -= w;
    }
    return sum / all;
}

static void test_eval(void)
{
    static struct data d;
    int by[] = { USER };
    struct ctr_eval_opts o = { .columns = { LABEL, WEIGHT, SCORE, USER, TIME },
                               .needs = CTR_NEED_RANKS | CTR_NEED_USERS | CTR_NEED_LOSS | CTR_NEED_BINS | CTR_NEED_GAPS,
                               .by = by,
                               .nby = 1,
                               .window_ms = 100000 };
    struct ctr_eval *e;
    double w = 0, gauc = 0, in = 0, gaps = 0, ll = 0, se = 0, wy = 0, wp = 0;
    int64_t out_rows = 0;
    bool slices = true;

    make(&d, 600, 5, 13, false, true, true, false);
    e = evaluate(&d, 600, &o, NULL);
    ok(e != NULL, "an evaluation");
    if (!e)
        return;
    for (int i = 0; i < d.n; i++) {
        w += d.w[i];
        wy += d.w[i] * d.y[i];
        wp += d.w[i] * d.p[i];
        ll -= d.w[i] * (d.y[i] * log(fmax(d.p[i], 0x1p-52)) + (1 - d.y[i]) * log(1 - d.p[i]));
        se += d.w[i] * (d.p[i] - d.y[i]) * (d.p[i] - d.y[i]);
    }
    for (int u = 0; u < 40; u++) {
        double auc = pairs(&d, u), uw = 0, gap = 0;
        int64_t rows = 0;
        for (int i = 0; i < d.n; i++)
            if (d.user[i] == u) {
                uw += d.w[i];
                gap += d.w[i] * (d.p[i] - d.y[i]);
                rows++;
            }
        gaps += fabs(gap);
        if (isnan(auc))
            out_rows += rows;
        else
            gauc += uw * auc, in += uw;
    }
    const struct ctr_metric_sums *t = &ctr_eval_slice(e, 0)->sums[0];
    ok(t->rows == 600 && near(t->weight, w) && near(t->label, wy) && near(t->score, wp), "counts and sums");
    ok(near(t->log_loss, ll), "log loss %.17g %.17g", t->log_loss, ll);
    ok(near(t->squared, se), "squared error");
    ok(near(t->auc, pairs(&d, -1)), "auc");
    ok(near(t->gauc, gauc / in), "gauc %.17g %.17g", t->gauc, gauc / in);
    ok(t->left_out_rows == out_rows, "rows of users of one class are counted");
    const double mean = wy / w, entropy = -(mean * log(mean) + (1 - mean) * log(1 - mean));
    const struct expected expected[] = { { "auc", pairs(&d, -1) },
                                         { "auc_loss", 1 - pairs(&d, -1) },
                                         { "gauc", gauc / in },
                                         { "log_loss", ll / w },
                                         { "normalized_entropy", ll / w / entropy },
                                         { "squared_error", se / w },
                                         { "calibration", wp / wy },
                                         { "ece", plain_ece(&d, CTR_ECE_BINS) },
                                         { "field_ece", gaps / w },
                                         { "mean_score", wp / w },
                                         { "mean_label", mean } };
    check_metrics(t, expected, CTR_COUNT(expected));
    int64_t rows = 0, windows = 0;
    for (int64_t i = 0; i < ctr_eval_slices(e); i++) {
        const struct ctr_eval_slice *s = ctr_eval_slice(e, i);
        if (s->by == 0 && !s->windowed) {
            slices &= near(s->sums[0].auc, pairs(&d, atoi(s->text)));
            rows += s->sums[0].rows;
        } else if (s->by < 0 && s->windowed) {
            windows += s->sums[0].rows;
            slices &= s->window_ms % 100000 == 0;
        }
    }
    ok(slices && rows == 600 && windows == 600, "slices and windows part the rows");
    ctr_eval_free(e);
}

/* Users of some 17, 140 and 350 rows, without weights. */
static void test_gauc(void)
{
    static struct data d;
    static const char *const levels[] = { "plain", "avx2", NULL };
    struct ctr_eval_opts o = { .columns = { LABEL, -1, SCORE, USER, -1 }, .needs = CTR_NEED_USERS };

    for (int k = 0; k < 9; k++) {
        const int users = k % 3 == 0 ? 40 : k % 3 == 1 ? 5 : 2;
        double gauc = 0, in = 0;
        make(&d, 700, k, k < 6 ? 0 : 13, false, false, false, false);
        for (int i = 0; i < d.n; i++)
            d.user[i] %= users;
        for (int u = 0; u < users; u++) {
            const double auc = pairs(&d, u);
            double n = 0;
            for (int i = 0; i < d.n; i++)
                n += d.user[i] == u;
            gauc += isnan(auc) ? 0 : n * auc;
            in += isnan(auc) ? 0 : n;
        }
        ctr_cpu_limit(levels[k / 3]);
        struct ctr_eval *e = evaluate(&d, 700, &o, NULL);
        const double got = e ? ctr_eval_slice(e, 0)->sums[0].gauc : NAN;
        ok(e && near(got, gauc / in), "gauc of %d users: %.17g %.17g", users, got, gauc / in);
        ctr_eval_free(e);
    }
    ctr_cpu_limit(NULL);
}

static bool same(const struct ctr_eval *a, const struct ctr_eval *b)
{
    bool r = ctr_eval_slices(a) == ctr_eval_slices(b);

    for (int64_t i = 0; r && i < ctr_eval_slices(a); i++)
        r = !memcmp(ctr_eval_slice(a, i)->sums, ctr_eval_slice(b, i)->sums, sizeof ctr_eval_slice(a, i)->sums) &&
            !strcmp(ctr_eval_slice(a, i)->text, ctr_eval_slice(b, i)->text);
    return r;
}

static void test_bootstrap(void)
{
    static struct data d;
    struct ctr_eval_opts o = { .columns = { LABEL, WEIGHT, SCORE, USER, TIME },
                               .needs = CTR_NEED_RANKS | CTR_NEED_USERS | CTR_NEED_LOSS,
                               .control = true,
                               .bootstrap = 50,
                               .seed = 7 };
    struct ctr_eval *e, *f, *g;
    struct ctr_interval a, b;
    struct ctr_pool *pool = NULL;
    bool equal = true, around = true;

    make(&d, 700, 9, 50, false, true, true, false);
    for (int i = 0; i < d.n; i++)
        d.p[i] = (d.p[i] + d.y[i]) / 2;
    ok(!ctr_pool_new(&pool, 3, CTR_FLOAT_IEEE, &err), "pool");
    e = evaluate(&d, 700, &o, NULL);
    f = evaluate(&d, 11, &o, pool);
    o.bootstrap = 0;
    g = evaluate(&d, 13, &o, NULL);
    ok(e && f && g, "three evaluations");
    if (!e || !f || !g)
        return;
    ok(same(e, f), "results do not depend on batches and threads");
    ok(near(ctr_eval_slice(e, 0)->sums[0].auc, ctr_eval_slice(g, 0)->sums[0].auc), "nor on the bootstrap");
    for (int m = 0; m < ctr_metrics_count; m++)
        for (int change = 0; change < 2; change++) {
            if (ctr_metrics[m].needs & (CTR_NEED_BINS | CTR_NEED_GAPS))
                continue; /* they have none */
            double v = ctr_metrics[m].value(&ctr_eval_slice(e, 0)->sums[0]);
            if (change)
                v = ctr_metric_change(v, ctr_metrics[m].value(&ctr_eval_slice(e, 0)->sums[1]));
            if (ctr_eval_interval(e, 0, m, change, &a, &err) || ctr_eval_interval(f, 0, m, change, &b, &err))
                equal = false;
            equal &= a.low == b.low && a.high == b.high;
            around &= a.low <= v && v <= a.high;
            if (!(a.low <= v && v <= a.high))
                printf("# %s %d: %g [%g, %g]\n", ctr_metrics[m].name, change, v, a.low, a.high);
        }
    ok(equal, "nor do intervals");
    ok(around, "intervals lie around the values");
    ctr_eval_free(e);
    ctr_eval_free(f);
    ctr_eval_free(g);
    ctr_pool_free(pool);
}

static void test_reliability(void)
{
    static struct data d;
    struct ctr_reliability_bin bin[10];
    struct ctr_eval_opts o = { .columns = { LABEL, -1, SCORE, -1, -1 }, .needs = CTR_NEED_RANKS, .keep = true };
    struct ctr_eval *e;
    double rows = 0;
    int n;

    make(&d, 700, 3, 0, false, false, false, false);
    for (int i = 0; i < 350; i++)
        d.p[2 * i] = .25; /* half of all in one tie */
    e = evaluate(&d, 100, &o, NULL);
    n = e ? ctr_eval_reliability(e, bin, 10, &err) : 0;
    ok(n == 10, "ten bins: %d", n);
    for (int i = 0; i < n; i++)
        rows += bin[i].weight;
    ok(rows == 700, "every row is in a bin");
    for (int i = 1; i < n; i++)
        if (!(bin[i - 1].high < bin[i].low))
            n = -1;
    ok(n == 10, "equal scores share a bin");
    ctr_eval_free(e);
}

static void test_bad(void)
{
    static struct data d;
    static const struct {
        double p, y, w;
        const char *say;
    } bad[] = { { NAN, 0, 1, "row 4: the score (column score) is nan" },
                { -.1, 0, 1, "row 4: the score" },
                { 1.5, 0, 1, "row 4: the score (column score) is 1.5, but must be in [0, 1]" },
                { .5, 2, 1, "row 4: the label (column label) is 2" },
                { .5, NAN, 1, "row 4: the label" },
                { .5, 1, -1, "row 4: the weight (column weight) is -1, but must be finite and not negative" },
                { .5, 1, INFINITY, "row 4: the weight" } };
    struct ctr_eval_opts o = { .columns = { LABEL, WEIGHT, SCORE, -1, -1 } };

    for (size_t i = 0; i < CTR_COUNT(bad); i++) {
        make(&d, 10, 3, 0, false, false, false, false);
        d.p[3] = bad[i].p;
        d.y[3] = bad[i].y;
        d.w[3] = bad[i].w;
        struct ctr_eval *e = evaluate(&d, 2, &o, NULL);
        ok(!e && strstr(err.what, bad[i].say), "refused: %s", bad[i].say);
        ctr_eval_free(e);
    }
}

/* The loop over rows is compiled for several processors; its bits are those of one row at a time. */
static void test_losses(void)
{
    static const double edge[] = {
        0, 0x1p-1074, 0x1p-60, 0x1p-52, 0x1p-51, .5, 0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1, 1 - 0x1p-52, 1
    };
    static const char *const levels[] = { "plain", "avx2", "avx512" };
    double p[1000], y[1000], out[1000];

    for (int round = 0; round < 6; round++) {
        bool fractions = round % 2;
        ctr_cpu_limit(levels[round / 2]);
        int differ = 0;
        for (int i = 0; i < 1000; i++) {
            double u = ctr_random01(9, 1, (uint64_t)i);
            p[i] = i < 2 * (int)CTR_COUNT(edge) ? edge[i / 2] : i % 2 ? u : u * u * u * u * u * u;
            y[i] = i % 7 == 0 && fractions ? u : i % 2;
        }
        ctr_log_losses(p, y, 1000, out);
        for (int i = 0; i < 1000; i++) {
            double one = ctr_log_loss(p[i], y[i]);
            differ += memcmp(&one, &out[i], sizeof one) != 0;
        }
        ok(!differ, "losses of many rows are those of one (%s, %s labels)", levels[round / 2],
           fractions ? "fractional" : "whole");
    }
    ctr_cpu_limit(NULL);
}

int main(void)
{
    make_schema();
    test_losses();
    test_sort();
    test_split();
    test_take_auc();
    test_auc();
    test_eval();
    test_gauc();
    test_bootstrap();
    test_reliability();
    test_bad();
    ctr_schema_free(&schema);
    return done_testing();
}
