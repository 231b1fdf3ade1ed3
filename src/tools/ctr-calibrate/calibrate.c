/* SPDX-License-Identifier: Apache-2.0
 *
 * calibrate: fits monotone maps from scores to click rates.
 *
 *   isotonic weighted least squares among all non-descending functions, by pooling adjacent violators
 *             (Ayer et al. 1955; Zadrozny and Elkan, KDD 2002); platt instead where thin pools, merged, rank no more
 *   power     gamma p^kappa by Poisson regression of clicks on ln p ("Ad Click Prediction", section 7)
 *   platt     1 / (1 + exp(-(a + b logit p))) by logistic regression (Platt 1999, on log-odds)
 *
 * Rows with equal scores are first merged into one point, and sums run in score order. */
#include "tools/ctr-calibrate/calibrate.h"

#include "common/base/isa.h"
#include "common/metric/calstate.h"
#include "tools/ctr-calibrate/calpools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define EDGE CTR_CAL_EDGE

struct part { /* rows of one slice; [0]: of all */
    struct ctr_sample sample;
    int64_t positive, negative; /* rows with a positive label, with a label below 1 */
    char *text;
    size_t text_bytes;
};

struct ctr_cal_fit {
    struct ctr_cal_fit_opts o;
    char *by;
    struct part *part;
    int n, cap;
    struct ctr_idmap ids;
    struct ctr_metric_rows rows;
    struct ctr_buf text;
    bool narrow, floored;
    struct ctr_cal_pools pools, all; /* of all maps; of the global one */
    double kept;                     /* of the ranking, by the global map's pools: see keeps */
    int64_t seen, thin, replaced;
    double weight; /* of all rows */
};

/* ---- rows ---- */

static int part_add(struct ctr_cal_fit *f, const char *text, size_t n, struct ctr_err *err)
{
    int rc = ctr_array_grow(&f->part, f->n, &f->cap, sizeof *f->part, err);

    if (rc)
        return rc;
    struct part *p = &f->part[f->n];
    *p = (struct part){ .sample.wide = !f->narrow, .text_bytes = n };
    if (text && (rc = ctr_memdup(&p->text, text, n, err)))
        return rc;
    f->n++;
    return 0;
}

int ctr_cal_fit_new(struct ctr_cal_fit **out, const struct ctr_schema *s, const struct ctr_cal_fit_opts *o,
                    struct ctr_err *err)
{
    struct ctr_cal_fit *f;
    int rc = ctr_metric_columns_check(&o->columns, s, err);

    *out = NULL;
    if (rc)
        return rc;
    if (o->by >= 0 && (s->f[o->by].type >= CTR_LIST && s->f[o->by].type <= CTR_WKEY))
        return ctr_fail(err, CTR_EUSAGE, "column %s is a list: a row belongs to one slice of a calibration map",
                        s->f[o->by].name);
    f = calloc(1, sizeof *f);
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->o = *o;
    f->narrow = s->f[o->columns.score].type != CTR_F64;
    if ((o->by >= 0 && (rc = ctr_strdup(&f->by, s->f[o->by].name, err))) || (rc = part_add(f, NULL, 0, err))) {
        ctr_cal_fit_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void ctr_cal_fit_free(struct ctr_cal_fit *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n; i++) {
        ctr_sample_free(&f->part[i].sample);
        free(f->part[i].text);
    }
    free(f->part);
    free(f->by);
    ctr_idmap_free(&f->ids);
    ctr_metric_rows_free(&f->rows);
    ctr_buf_free(&f->text);
    free(f);
}

static int part_of(struct ctr_cal_fit *f, const struct ctr_col *by, int64_t i, struct part **out, struct ctr_err *err)
{
    const char *text = NULL;
    uint32_t id;
    int64_t known = f->ids.n;
    int rc;

    ctr_buf_clear(&f->text);
    if (!ctr_col_missing(by, i)) {
        if ((rc = ctr_buf_reserve(&f->text, 1, err)) || (rc = ctr_col_text(by, i, &f->text, err)))
            return rc;
        text = (const char *)f->text.data;
    }
    if ((rc = ctr_idmap_get(&f->ids, ctr_cal_hash(text, f->text.len), &id, err)))
        return rc;
    if (f->ids.n > known && (rc = part_add(f, text, f->text.len, err)))
        return rc;
    *out = &f->part[id + 1];
    if (!ctr_cal_same(text, f->text.len, (*out)->text, (*out)->text_bytes))
        return ctr_fail(err, CTR_EDATA, CTR_SAME_HASH);
    return 0;
}

static int part_row(struct part *p, double score, double label, double weight, struct ctr_err *err)
{
    p->positive += label > 0 && weight > 0;
    p->negative += label < 1 && weight > 0;
    return ctr_sample_push(&p->sample, score, label, weight, 0, err);
}

static int check_memory(const struct ctr_cal_fit *f, struct ctr_err *err)
{
    int64_t need = ctr_sample_sort_bytes(&f->part[0].sample);

    if (!f->o.memory_bytes)
        return 0;
    for (int i = 0; i < f->n; i++)
        need += ctr_sample_bytes(&f->part[i].sample);
    if (need <= f->o.memory_bytes)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "--memory does not hold the %lld rows so far in order of score: %s are needed for them",
                    (long long)f->seen, ctr_size_text_beyond((uint64_t)need, (uint64_t)f->o.memory_bytes).s);
}

/* For the part with all rows. */
CTR_FAST static void count_classes(struct ctr_cal_fit *f)
{
    const struct ctr_metric_rows *r = &f->rows;
    int64_t positive = 0, negative = 0;

    for (int64_t i = 0; !r->weight && i < r->n; i++) {
        positive += r->label[i] > 0;
        negative += r->label[i] < 1;
    }
    for (int64_t i = 0; r->weight && i < r->n; i++) {
        positive += (r->label[i] > 0) & (r->weight[i] > 0);
        negative += (r->label[i] < 1) & (r->weight[i] > 0);
        f->weight += r->weight[i];
    }
    f->weight += r->weight ? 0 : (double)r->n;
    f->part[0].positive += positive;
    f->part[0].negative += negative;
}

int ctr_cal_fit_batch(struct ctr_cal_fit *f, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_metric_rows *r = &f->rows;
    struct part *p;
    int rc = ctr_metric_rows_load(&f->rows, &f->o.columns, b, err);

    if (rc || (rc = ctr_sample_push_rows(&f->part[0].sample, r->score, r, NULL, err)))
        return rc;
    count_classes(f);
    for (int64_t i = 0; f->o.by >= 0 && i < b->rows; i++)
        if ((rc = part_of(f, &b->col[f->o.by], i, &p, err)) || (rc = ctr_sample_reserve(&p->sample, 1, err)) ||
            (rc = part_row(p, r->score[i] + 0.0, r->label[i], r->weight ? r->weight[i] : 1, err)))
            return rc;
    f->seen += b->rows;
    return check_memory(f, err);
}

/* For example, isotonic of rows (score, label) .1 0, .2 1, .3 0, .3 1, .4 0, .5 1:
 *
 *     points            .1: 0/1    .2: 1/1    .3: 1/2    .4: 0/1    .5: 1/1       clicks of rows
 *     pools             .1: 0/1    .2-.4: 2/4                       .5: 1/1       as .3 is below .2, .4 below both
 *     knots, constant   .1 0       .2 .5                            .5 1          linear: also .4 .5
 *
 * With --min-clicks 1, merge_thin joins pools without a click or a non-click to the next ones, the last one to the one
 * before: here one pool of 3/6 is left. It ranks nothing (keeps 0 of the ranking, LEAST_KEPT is .9), so that the map
 * becomes platt. */

/* ---- isotonic ---- */

static void absorb(struct ctr_cal_pool *b, const struct ctr_cal_pool *next)
{
    b->high = next->high;
    b->weight += next->weight;
    b->label += next->label;
    b->value = b->label / b->weight;
    b->rows[0] += next->rows[0];
    b->rows[1] += next->rows[1];
}

/* Pools with fewer than `least` rows of a class are unreliable, and pools of a single class give 0 or 1: such a pool is
 * merged with the following ones until it has enough, the last one with the previous. Returns the number left. */
static int64_t merge_thin(struct ctr_cal_pool *b, int64_t n, int64_t least)
{
    int64_t left = 0;

    for (int64_t i = 0; i < n; i++) {
        if (left && CTR_MIN(b[left - 1].rows[0], b[left - 1].rows[1]) < least)
            absorb(&b[left - 1], &b[i]);
        else
            b[left++] = b[i];
    }
    for (; left > 1 && CTR_MIN(b[left - 1].rows[0], b[left - 1].rows[1]) < least; left--)
        absorb(&b[left - 2], &b[left - 1]);
    return left;
}

static void note_pools(struct ctr_cal_pools *p, const struct ctr_cal_pool *b, int64_t found, int64_t left)
{
    p->low = p->left ? CTR_MIN(p->low, b[0].value) : b[0].value;
    p->high = p->left ? CTR_MAX(p->high, b[left - 1].value) : b[left - 1].value;
    p->found += found;
    p->left += left;
}

/* The share of the ranking, which is AUC - 1/2, that these pools keep; 1 where the scores rank nothing. */
static double keeps(double auc, const struct ctr_cal_pool *b, int64_t n)
{
    const double before = auc - 0.5;
    double wins = 0, below = 0, clicks = 0;

    for (int64_t i = 0; i < n; i++) {
        const double others = b[i].weight - b[i].label;
        wins += b[i].label * (below + others / 2);
        below += others;
        clicks += b[i].label;
    }
    return before > 0 ? (wins / (below * clicks) - 0.5) / before : 1;
}

/* Unmerged pools rank better than the scores. Merged ones of a few dozen clicks rank worse, and then a map of two
 * parameters has the lower log loss on other rows: in 175 of 179 fits to 12 to 150 clicks of a real log and of three
 * planted ones. */
#define LEAST_KEPT 0.9

static int put_knots(struct ctr_cal_part *to, const struct ctr_cal_pool *b, int64_t n, struct ctr_err *err)
{
    int rc = 0;

    for (; !rc && n > 0; n--, b++) {
        struct ctr_knot k = { b->low, b->value };
        rc = ctr_buf_append(&to->knots, &k, sizeof k, err);
        k.score = b->high;
        if (!rc && to->kind == CTR_CAL_ISOTONIC_LINEAR && b->high > b->low)
            rc = ctr_buf_append(&to->knots, &k, sizeof k, err);
    }
    return rc;
}

/* *kept: see keeps, or a number from LEAST_KEPT to it. The sample is sorted where its AUC must be known exactly. */
static int pool_sample(struct ctr_cal_fit *f, struct ctr_sample *s, struct ctr_buf *pools, int64_t *found,
                       int64_t *left, double *kept, struct ctr_err *err)
{
    double auc[2] = { 0 };
    int rc = s->sorted ? ctr_cal_pool_sorted(s, pools, err) : ctr_cal_pool_unsorted(s, f->o.pool, pools, auc, err);
    struct ctr_cal_pool *b = (struct ctr_cal_pool *)pools->data;

    *found = (int64_t)(pools->len / sizeof *b);
    *left = rc ? 0 : merge_thin(b, *found, f->o.min_clicks);
    *kept = 1;
    if (rc || *left == *found)
        return rc;
    *kept = CTR_MIN(keeps(auc[0], b, *left), keeps(auc[1], b, *left));
    if (auc[0] > 0.5 && *kept >= LEAST_KEPT)
        return 0;
    rc = ctr_sample_sort(s, f->o.pool, err);
    *kept = keeps(ctr_sample_auc(s), b, *left);
    return rc;
}

/* `to` becomes a platt map without knots where the pools lose the ranking. */
static int fit_isotonic(struct ctr_cal_fit *f, struct ctr_sample *s, struct ctr_cal_part *to, struct ctr_err *err)
{
    struct ctr_buf pools = { 0 };
    const double edge = f->o.min_clicks ? EDGE : 0; /* a rounded quotient may be 1 */
    int64_t found, left;
    double kept;
    int rc = pool_sample(f, s, &pools, &found, &left, &kept, err);
    struct ctr_cal_pool *b = (struct ctr_cal_pool *)pools.data;

    if (!rc) {
        for (int64_t i = 0; i < left; i++)
            b[i].value = CTR_MIN(CTR_MAX(b[i].value, edge), 1 - edge);
        if (s == &f->part[0].sample) {
            note_pools(&f->all, b, found, left);
            f->kept = kept;
        }
        if (kept < LEAST_KEPT)
            to->kind = CTR_CAL_PLATT;
        else
            note_pools(&f->pools, b, found, left);
        rc = kept < LEAST_KEPT ? 0 : put_knots(to, b, left, err);
    }
    ctr_buf_free(&pools);
    return rc;
}

/* ---- power and platt: regression on one variable, by Newton's method ---- */

struct point {
    double x, weight, label;
};

/* The difference between the two: mean, its derivative and the log likelihood's second term, as functions of a + b
 * x. */
struct link {
    double (*x)(double score);
    void (*at)(double eta, double *mean, double *slope, double *penalty);
};

static void poisson_at(double eta, double *mean, double *slope, double *penalty)
{
    *mean = *slope = *penalty = ctr_exp(CTR_MIN(eta, 700));
}

static void logistic_at(double eta, double *mean, double *slope, double *penalty)
{
    double e = ctr_exp(-fabs(eta));

    *mean = eta >= 0 ? 1 / (1 + e) : e / (1 + e);
    *slope = e / ((1 + e) * (1 + e));
    *penalty = CTR_MAX(eta, 0) + ctr_log1p(e);
}

static const struct link poisson_link = { ctr_cal_log, poisson_at }, logistic_link = { ctr_cal_logit, logistic_at };

struct newton {
    double likelihood, g[2], h[3]; /* gradient; hessian aa, ab, bb */
};

static struct newton sums(const struct link *l, const struct point *p, int64_t n, double a, double b)
{
    struct newton s = { 0 };

    for (int64_t i = 0; i < n; i++) {
        double eta = a + b * p[i].x, mean, slope, penalty, d;
        l->at(eta, &mean, &slope, &penalty);
        d = p[i].label - p[i].weight * mean;
        slope *= p[i].weight;
        s.likelihood += p[i].label * eta - p[i].weight * penalty;
        s.g[0] += d;
        s.g[1] += d * p[i].x;
        s.h[0] += slope;
        s.h[1] += slope * p[i].x;
        s.h[2] += slope * p[i].x * p[i].x;
    }
    return s;
}

/* Far from the maximum a full step may be 1e15 too long. */
#define MAX_STEP 8.0

/* g / h, which may be infinite. */
static double coordinate_step(double g, double h)
{
    return h * 1e15 > fabs(g) ? g / h : g > 0 ? MAX_STEP : g < 0 ? -MAX_STEP : 0;
}

/* A Newton step; along the gradient, coordinate by coordinate, if the hessian is singular. */
static void newton_step(const struct newton *s, bool fixed, double *da, double *db)
{
    double det = s->h[0] * s->h[2] - s->h[1] * s->h[1], longest;

    if (!fixed && det > 1e-14 * s->h[0] * s->h[2]) {
        *da = (s->h[2] * s->g[0] - s->h[1] * s->g[1]) / det;
        *db = (s->h[0] * s->g[1] - s->h[1] * s->g[0]) / det;
    } else {
        *da = coordinate_step(s->g[0], s->h[0]);
        *db = !fixed && s->h[2] > 0 ? coordinate_step(s->g[1], s->h[2]) : 0;
    }
    longest = CTR_MAX(fabs(*da), fabs(*db));
    if (longest > MAX_STEP) {
        *da *= MAX_STEP / longest;
        *db *= MAX_STEP / longest;
    }
}

/* Maximise a concave likelihood in a and, unless `fixed`, b; halves steps that decrease it. */
static void climb(const struct link *l, const struct point *p, int64_t n, double *a, double *b, bool fixed)
{
    struct newton s = sums(l, p, n, *a, *b);

    for (int i = 0; i < 200; i++) {
        double da, db, scale, slack;
        struct newton next;
        newton_step(&s, fixed, &da, &db);
        slack = fabs(da) + fabs(db) < 1e-4 ? 1e-13 * fabs(s.likelihood)
                                           : 0; /* at the maximum it is constant except for rounding */
        for (scale = 1;; scale /= 2) {
            next = sums(l, p, n, *a + scale * da, *b + scale * db);
            if (next.likelihood >= s.likelihood - slack || scale < 1e-12)
                break;
        }
        if (!(next.likelihood >= s.likelihood - slack))
            return;
        *a += scale * da;
        *b += scale * db;
        if (fabs(scale * da) <= 1e-12 * (1 + fabs(*a)) && fabs(scale * db) <= 1e-12 * (1 + fabs(*b)))
            return;
        s = next;
    }
}

static int points(const struct ctr_sample *s, const struct link *l, struct ctr_buf *out, struct ctr_err *err)
{
    struct ctr_ties t = { .s = s };
    int rc;

    while (ctr_ties_next(&t)) {
        struct point p = { 0, t.neg + t.pos, t.pos };
        if (p.weight == 0)
            continue;
        p.x = l->x(t.score);
        if ((rc = ctr_buf_append(out, &p, sizeof p, err)))
            return rc;
    }
    return 0;
}

/* Scale x to mean 0 and variance 1; spread 0: x is constant. Returns the mean label. */
static double standardise(struct point *p, int64_t n, double *centre, double *spread)
{
    double label = 0, weight = 0;

    *centre = *spread = 0;
    for (int64_t i = 0; i < n; i++) {
        *centre += p[i].weight * p[i].x;
        weight += p[i].weight;
        label += p[i].label;
    }
    *centre /= weight;
    for (int64_t i = 0; i < n; i++) {
        p[i].x -= *centre;
        *spread += p[i].weight * p[i].x * p[i].x;
    }
    *spread = sqrt(*spread / weight);
    if (!(*spread > 1e-14 * (1 + fabs(*centre))))
        *spread = 0;
    for (int64_t i = 0; i<n && * spread> 0; i++)
        p[i].x /= *spread;
    return label / weight;
}

/* Newton's method starts at the best constant, where the likelihood is best conditioned for any scores. At the identity
 * it is flat if scores are 0 and 1 or far too small. The fit is at least as likely as both. */
static int fit_regression(const struct ctr_sample *s, const struct link *l, struct ctr_cal_part *to, bool *floored,
                          struct ctr_err *err)
{
    struct ctr_buf buf = { 0 };
    double centre, spread, rate, constant, a, b = 0;
    int rc = points(s, l, &buf, err);

    if (rc)
        goto out;
    struct point *p = (struct point *)buf.data;
    int64_t n = (int64_t)(buf.len / sizeof *p);
    rate = standardise(p, n, &centre, &spread);
    a = constant = l == &poisson_link ? ctr_cal_log(rate) : ctr_cal_logit(rate);
    bool one = spread == 0; /* score: the slope is undetermined */
    if (one)
        spread = b = 1;
    climb(l, p, n, &a, &b, one);
    if (sums(l, p, n, centre, spread).likelihood > sums(l, p, n, a, b).likelihood) {
        a = centre;
        b = spread;
        climb(l, p, n, &a, &b, one);
    }
    if (!(b >= CTR_CAL_MIN_SLOPE * spread)) { /* the scores do not increase with the clicks */
        *floored = true;
        a = constant; /* where a score separates the labels the wrong way round, a and b grew without bound */
        b = CTR_CAL_MIN_SLOPE * spread;
        climb(l, p, n, &a, &b, true);
    }
    to->b = b / spread;
    to->a = a - to->b * centre;
    if (l == &poisson_link && !(fabs(to->a) < 700)) /* gamma is its exponential */
        rc = ctr_fail(err, CTR_EDATA, "the scores differ too little for a power map: fit isotonic or platt");
out:
    ctr_buf_free(&buf);
    return rc;
}

/* ---- the end ---- */

static int fit_part(struct ctr_cal_fit *f, struct part *p, struct ctr_cal_part *to, struct ctr_err *err)
{
    const bool isotonic = f->o.kind == CTR_CAL_ISOTONIC_LINEAR || f->o.kind == CTR_CAL_ISOTONIC_CONSTANT;
    const bool bins = isotonic && !f->o.measured && ctr_cal_pool_bins(&p->sample);
    int rc = bins ? 0 : ctr_sample_sort(&p->sample, f->o.pool, err);

    to->mapped = true;
    to->kind = f->o.kind;
    if (rc)
        return rc;
    switch (to->kind) {
    case CTR_CAL_POWER: return fit_regression(&p->sample, &poisson_link, to, &f->floored, err);
    case CTR_CAL_PLATT: return fit_regression(&p->sample, &logistic_link, to, &f->floored, err);
    default: break;
    }
    rc = fit_isotonic(f, &p->sample, to, err);
    if (rc || to->kind != CTR_CAL_PLATT)
        return rc;
    f->replaced += p != f->part; /* the AUC was needed: the sample is sorted */
    return fit_regression(&p->sample, &logistic_link, to, &f->floored, err);
}

/* Products of sums of weights must be finite. */
#define MAX_WEIGHT 1e100

static int check_rows(const struct ctr_cal_fit *f, struct ctr_err *err)
{
    const struct part *all = &f->part[0];

    if (!f->seen)
        return ctr_fail(err, CTR_EDATA, "the input has no rows: there is nothing to fit a map to");
    if (!all->positive || !all->negative)
        return ctr_fail(err, CTR_EDATA, "all %lld rows have the label %d (or the weight 0): a map needs both classes",
                        (long long)f->seen, all->positive > 0);
    if (!(f->weight <= MAX_WEIGHT))
        return ctr_fail(err, CTR_EDATA, "the weights add up to %g: divide them by a constant, the map is the same",
                        f->weight);
    return 0;
}

static int fit_parts(struct ctr_cal_fit *f, struct ctr_cal_map *m, struct ctr_err *err)
{
    int rc = f->by ? ctr_strdup(&m->by, f->by, err) : 0;

    for (int i = 0; !rc && i < f->n; i++) {
        struct part *p = &f->part[i];
        int k = ctr_cal_part_add(m, p->text, p->text_bytes, err);
        bool thin =
            i > 0 && (p->positive < f->o.min_rows || p->negative < f->o.min_rows || !p->positive || !p->negative);
        f->thin += thin;
        rc = k < 0 ? k : thin ? ctr_sample_sort(&p->sample, f->o.pool, err) : fit_part(f, p, &m->part[k], err);
    }
    return rc;
}

int ctr_cal_fit_finish(struct ctr_cal_fit *f, struct ctr_cal_map **map, struct ctr_err *err)
{
    int rc = check_rows(f, err);

    *map = NULL;
    if (rc)
        return rc;
    *map = calloc(1, sizeof **map);
    if (!*map)
        return ctr_fail_nomem(err, sizeof **map);
    rc = fit_parts(f, *map, err);
    if (rc) {
        ctr_cal_map_free(*map);
        *map = NULL;
    }
    return rc;
}

int ctr_cal_fit_hold_out(struct ctr_cal_fit *f, struct ctr_err *err)
{
    int rc = f->seen ? 0 : ctr_fail(err, CTR_EDATA, "the input has no rows: there is nothing to measure a map on");

    for (int i = 0; !rc && i < f->n; i++)
        rc = ctr_sample_sort(&f->part[i].sample, f->o.pool, err);
    return rc;
}

int64_t ctr_cal_fit_rows(const struct ctr_cal_fit *f)
{
    return f->seen;
}
int64_t ctr_cal_fit_slices(const struct ctr_cal_fit *f)
{
    return f->n - 1;
}
int64_t ctr_cal_fit_thin(const struct ctr_cal_fit *f)
{
    return f->thin;
}
int64_t ctr_cal_fit_clicks(const struct ctr_cal_fit *f)
{
    return CTR_MIN(f->part[0].positive, f->part[0].negative);
}
const struct ctr_cal_pools *ctr_cal_fit_pools(const struct ctr_cal_fit *f)
{
    return &f->pools;
}
int64_t ctr_cal_fit_replaced(const struct ctr_cal_fit *f)
{
    return f->replaced;
}

bool ctr_cal_fit_replaces(const struct ctr_cal_fit *f, const struct ctr_cal_map *m)
{
    return m->part[0].kind != f->o.kind;
}

struct ctr_cal_text ctr_cal_fit_text(const struct ctr_cal_fit *f, const struct ctr_cal_map *m)
{
    const long long clicks = f->part[0].positive, others = f->part[0].negative, pools = f->all.left;
    const char *const kind = ctr_cal_kind_name(m->part[0].kind), *const s = pools == 1 ? "" : "s";
    struct ctr_cal_text t;

    if (ctr_cal_fit_replaces(f, m))
        snprintf(
            t.s, sizeof t.s,
            "%s of %lld clicks and %lld non-clicks, as %lld isotonic pool%s of at least %lld of each keep%s %.0f%% "
            "of the ranking",
            kind, clicks, others, pools, s, (long long)f->o.min_clicks, pools == 1 ? "s" : "",
            100 * CTR_MAX(f->kept, 0));
    else if (pools)
        snprintf(t.s, sizeof t.s, "%s of %lld clicks and %lld non-clicks in %lld pool%s", kind, clicks, others, pools,
                 s);
    else
        snprintf(t.s, sizeof t.s, "%s of %lld clicks and %lld non-clicks", kind, clicks, others);
    return t;
}
bool ctr_cal_fit_floored(const struct ctr_cal_fit *f)
{
    return f->floored;
}

/* Bins of equal weight by the old score; then each slice's rows through its own map. */
int ctr_cal_fit_bias(const struct ctr_cal_fit *f, const struct ctr_cal_map *m, struct ctr_cal_bias *b, int bins,
                     struct ctr_err *err)
{
    struct ctr_reliability_bin *r = calloc((size_t)bins, sizeof *r);

    if (!r)
        return ctr_fail_nomem(err, (size_t)bins * sizeof *r);
    int n = ctr_sample_bins(&f->part[0].sample, f->weight, r, bins);
    for (int i = 0; i < n; i++)
        b[i] = (struct ctr_cal_bias){ r[i].low, r[i].high, r[i].weight, 0, 0, r[i].score, r[i].label };
    for (int i = f->n > 1 ? 1 : 0; i < f->n; i++) {
        int k = 0;
        const int slice = i ? ctr_cal_map_slice(m, f->part[i].text, f->part[i].text_bytes) : 0;
        for (struct ctr_ties t = { .s = &f->part[i].sample }; ctr_ties_next(&t);) {
            while (k < n - 1 && t.score > b[k].high)
                k++;
            b[k].after += (t.neg + t.pos) * ctr_cal_map_apply(m, slice, t.score);
        }
    }
    for (int i = 0; i < n; i++) {
        double label = b[i].label * b[i].weight;
        b[i].before = label > 0 ? b[i].score * b[i].weight / label : NAN;
        b[i].after = label > 0 ? b[i].after / label : NAN;
    }
    free(r);
    return n;
}
