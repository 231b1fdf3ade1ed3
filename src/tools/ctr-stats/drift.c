/* SPDX-License-Identifier: Apache-2.0
 *
 * drift: the rows of two profiles in the same groups: ranges of the reference's numbers, or its frequent values. */
#include "tools/ctr-stats/drift.h"

#include "common/metric/metric.h"

#include <math.h>
#include <stdlib.h>

#include "tools/ctr-stats/show.h"
#include "tools/ctr-stats/summary.h"

enum { GROUPS = CTR_DRIFT_VALUES + 3 };

/* A column with 60 a, 30 b and 10 c in the reference, and 50 a, 30 b and 20 d now:
 *
 *     groups        a 50/60, b 30/30, c 0/10, the others 20/0      now/reference; the reference's frequent values
 *     psi           1.044: sum of (p - q) ln(p / q), half a row added to each count
 *     new           20%: the share of d, which the reference lacks; vanished 10%: that of c
 *     intervals     200 times each count is drawn from a Poisson distribution around it
 *
 * Numbers with more than CTR_FEW values are grouped by ten ranges of about equal numbers of the reference's rows
 * instead (add_ranges); the Wasserstein distance is of all their points, without groups. */

struct pairs {
    struct ctr_stability_cell g[GROUPS];
    int n;
};

/* ---- groups ---- */

static void add(struct pairs *p, double now, double ref)
{
    if (now > 0 || ref > 0)
        p->g[p->n++] = (struct ctr_stability_cell){ CTR_MAX(now, 0), CTR_MAX(ref, 0) };
}

/* The points of both, at the precision of the coarser. */
struct points {
    struct ctr_buf buf[2]; /* now, reference */
    const struct ctr_point *at[2];
    int64_t n[2];
};

static int read_points(const struct ctr_profile *now, const struct ctr_profile *ref, struct points *p,
                       struct ctr_err *err)
{
    const struct ctr_profile *of[2] = { now, ref };
    const int shift = CTR_MAX(ctr_points_shift(now), ctr_points_shift(ref));
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++) {
        rc = ctr_points(of[i], shift, &p->buf[i], err);
        p->at[i] = (const struct ctr_point *)(const void *)p->buf[i].data;
        p->n[i] = (int64_t)(p->buf[i].len / sizeof *p->at[i]);
    }
    return rc;
}

/* Ranges of about equal numbers of rows of the reference; the first and the last are open. */
static void add_ranges(struct pairs *g, const struct points *p)
{
    double all = 0, before = 0, rows = 0, now = 0;
    int64_t k = 0;
    int range = 1;
    for (int64_t i = 0; i < p->n[1]; i++)
        all += (double)p->at[1][i].n;
    for (int64_t i = 0; i < p->n[1]; i++) {
        const bool last = i == p->n[1] - 1;
        rows += (double)p->at[1][i].n;
        before += (double)p->at[1][i].n;
        if (before < all * range / CTR_DRIFT_RANGES && !last)
            continue;
        for (; k < p->n[0] && (last || p->at[0][k].at <= p->at[1][i].at); k++)
            now += (double)p->at[0][k].n;
        add(g, now, rows);
        rows = now = 0;
        while (range < CTR_DRIFT_RANGES && before >= all * range / CTR_DRIFT_RANGES)
            range++;
    }
}

static int make_pairs(const struct ctr_profile *now, const struct ctr_profile *ref, const struct points *p,
                      struct pairs *g, struct ctr_err *err)
{
    double rest = (double)now->values, ref_rest = (double)ref->values;
    add(g, (double)now->nulls, (double)ref->nulls);
    const int first = g->n;
    if (p->n[1] > CTR_FEW) {
        add_ranges(g, p);
    } else {
        struct ctr_frequent *f = calloc(CTR_DRIFT_VALUES, sizeof *f);
        if (!f)
            return ctr_fail_nomem(err, CTR_DRIFT_VALUES * sizeof *f);
        const int n = ctr_frequent(ref, CTR_DRIFT_VALUES, 1, f);
        for (int i = 0; i < n; i++)
            add(g, (double)ctr_frequent_rows(now, &f[i]), (double)f[i].n);
        free(f);
    }
    for (int i = first; i < g->n; i++) {
        rest -= g->g[i].now;
        ref_rest -= g->g[i].ref;
    }
    add(g, rest, ref_rest); /* NaN, or the other values */
    return 0;
}

/* ---- distances ---- */

static double stability(const struct pairs *g)
{
    const struct ctr_stability_cell all = ctr_stability_total(g->g, g->n);
    return all.now > 0 && all.ref > 0 ? ctr_stability(g->g, g->n) : NAN;
}

static double part(double p, double q)
{
    return p > 0 ? p * ctr_log(2 * p / (p + q)) / ctr_log(2) / 2 : 0;
}

static double divergence(const struct pairs *g)
{
    const struct ctr_stability_cell all = ctr_stability_total(g->g, g->n);
    double js = 0;
    for (int i = 0; i < g->n; i++) {
        const double p = g->g[i].now / all.now, q = g->g[i].ref / all.ref;
        js += part(p, q) + part(q, p);
    }
    return all.now > 0 && all.ref > 0 ? CTR_MAX(js, 0) : NAN;
}

/* The distance between the distributions, in standard deviations of the reference. */
static double earth_mover(const struct points *p, double sd)
{
    double rows[2] = { 0, 0 }, before[2] = { 0, 0 }, distance = 0, last = 0;
    int64_t i[2] = { 0, 0 };
    for (int k = 0; k < 2; k++)
        for (int64_t j = 0; j < p->n[k]; j++)
            rows[k] += (double)p->at[k][j].n;
    if (!(rows[0] > 0 && rows[1] > 0 && sd > 0 && isfinite(sd)))
        return NAN;
    for (bool first = true; i[0] < p->n[0] || i[1] < p->n[1]; first = false) {
        const bool now = i[1] == p->n[1] || (i[0] < p->n[0] && p->at[0][i[0]].at <= p->at[1][i[1]].at);
        const struct ctr_point *at = &p->at[now ? 0 : 1][i[now ? 0 : 1]];
        const double x = at->low + (at->high - at->low) / 2;
        if (!first)
            distance += fabs(before[0] / rows[0] - before[1] / rows[1]) * (x - last);
        last = x;
        before[now ? 0 : 1] += (double)at->n;
        i[now ? 0 : 1]++;
    }
    return isfinite(distance) ? distance / sd : NAN;
}

/* Does the other profile have this frequent value? Where it has many values, its sample tells exactly; of a value that
 * the sample does not take, the sketch tells: by four standard errors. */
static bool has_frequent(const struct ctr_profile *p, const struct ctr_frequent *f)
{
    const uint64_t hash = ctr_kind_hash(p->kind, f->key);
    if (!p->many || ctr_sampled(hash, p->table.level))
        return ctr_frequent_rows(p, f) > 0;
    const struct ctr_heavy_estimate e = ctr_heavy_estimate(p->many->heavy, hash);
    return e.weight > e.others / 2;
}

enum { FREQUENT = 64 };

/* The share of the rows of `of` whose values `other` does not have. By all values; or where they are many, by those
 * that both sample, and by the frequent ones, of which the sample has too many rows or none. */
static int share_without(const struct ctr_profile *of, const struct ctr_profile *other, double *share,
                         struct ctr_err *err)
{
    const int level = CTR_MAX(of->table.level, other->table.level);
    double rows = 0, without = 0, frequent = 0, frequent_without = 0;
    *share = NAN;
    if ((of->many || other->many) && (of->kind == CTR_KIND_FLOAT || of->kind == CTR_KIND_TIME))
        return 0; /* quantities need not recur */
    struct ctr_frequent *f = calloc(FREQUENT, sizeof *f);
    if (!f)
        return ctr_fail_nomem(err, FREQUENT * sizeof *f);
    const int n = level ? ctr_frequent(of, FREQUENT, CTR_GROUP_ROWS, f) : 0;
    for (int i = 0; i < n; i++) {
        frequent += (double)f[i].n;
        frequent_without += has_frequent(other, &f[i]) ? 0 : (double)f[i].n;
    }
    for (int64_t i = 0; i < of->table.cap; i++) {
        const struct ctr_value *v = &of->table.slot[i];
        bool counted = !v->n || !ctr_sampled(ctr_kind_hash(of->kind, v->key), level);
        for (int k = 0; k < n && !counted; k++)
            counted = f[k].key == v->key;
        if (counted)
            continue;
        const char *text = of->kind == CTR_KIND_TEXT ? ctr_value_text(&of->table, v) : NULL;
        const struct ctr_value *there = ctr_value_find(&other->table, v, text);
        rows += (double)v->n;
        without += there && there->n ? 0 : (double)v->n;
    }
    free(f);
    const double all = n ? (double)of->values : rows, rest = CTR_MAX(0, all - frequent);
    if (all > 0)
        *share = CTR_MIN(1, (frequent_without + (rows > 0 ? rest * without / rows : 0)) / all);
    return 0;
}

/* ---- the bootstrap: counts of groups are drawn anew ---- */

struct draws {
    uint64_t seed, stream, n;
};

static double uniform(struct draws *d)
{
    return ctr_random01(d->seed, d->stream, d->n++);
}

static double poisson(struct draws *d, double mean)
{
    if (mean < 50) {
        const double least = ctr_exp(-mean);
        double product = uniform(d);
        int n = 0;
        for (; product > least; n++)
            product *= uniform(d);
        return n;
    }
    double normal = -6;
    for (int i = 0; i < 12; i++)
        normal += uniform(d);
    return CTR_MAX(0, floor(mean + sqrt(mean) * normal + .5));
}

static double percentile(const double *sorted, double p)
{
    const double r = (CTR_DRIFT_REPLICATES - 1) * p, whole = floor(r);
    const double low = sorted[(int)whole], high = sorted[CTR_MIN((int)whole + 1, CTR_DRIFT_REPLICATES - 1)];
    return low + (r - whole) * (high - low);
}

/* Drawn counts differ more than those that they are drawn from: the percentiles are shifted by the mean difference. */
static void interval(double *value, double is, double *low, double *high)
{
    double mean = 0;
    for (int r = 0; r < CTR_DRIFT_REPLICATES; r++)
        mean += value[r] / CTR_DRIFT_REPLICATES;
    qsort(value, CTR_DRIFT_REPLICATES, sizeof *value, ctr_by_f64);
    *low = CTR_MAX(0, CTR_MIN(is, percentile(value, .025) + is - mean));
    *high = CTR_MAX(is, percentile(value, .975) + is - mean);
}

static void bootstrap(const struct pairs *g, struct pairs *drawn, struct draws *d, struct ctr_drift *to)
{
    double psi[CTR_DRIFT_REPLICATES], js[CTR_DRIFT_REPLICATES];
    *drawn = *g;
    for (int r = 0; r < CTR_DRIFT_REPLICATES; r++) {
        for (int i = 0; i < g->n; i++)
            drawn->g[i] = (struct ctr_stability_cell){ poisson(d, g->g[i].now), poisson(d, g->g[i].ref) };
        psi[r] = stability(drawn);
        js[r] = divergence(drawn);
        if (isnan(psi[r])) /* no row was drawn */
            psi[r] = js[r] = 0;
    }
    interval(psi, to->psi, &to->psi_low, &to->psi_high);
    interval(js, to->js, &to->js_low, &to->js_high);
}

/* ---- a column ---- */

static double null_share(const struct ctr_profile *p)
{
    return p->rows ? (double)p->nulls / (double)p->rows : NAN;
}

static double sd_of(const struct ctr_profile *p)
{
    struct ctr_totals t;
    ctr_profile_totals(p, &t);
    return t.ordered > 1 && !t.plus_infinite && !t.minus_infinite && !t.huge
               ? ctr_exact_sd(&t.sum, &t.squares, t.ordered)
               : NAN;
}

int ctr_drift(const struct ctr_profile *now, const struct ctr_profile *ref, uint64_t seed, struct ctr_drift *d,
              struct ctr_err *err)
{
    *d = (struct ctr_drift){ now->rows, -1, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, null_share(now), NAN, NAN };
    if (!ref || ref->kind != now->kind || ref->list != now->list)
        return 0;
    struct points points = { 0 };
    struct pairs *g = calloc(2, sizeof *g);
    int rc = g ? read_points(now, ref, &points, err) : ctr_fail_nomem(err, 2 * sizeof *g);
    if (!rc)
        rc = make_pairs(now, ref, &points, g, err);
    if (!rc) {
        struct draws draws = { seed, ctr_hash64(now->name, strlen(now->name), 0), 0 };
        d->ref_rows = ref->rows;
        d->ref_nulls = null_share(ref);
        d->null_change = fabs(d->nulls - d->ref_nulls);
        d->psi = stability(g);
        d->js = divergence(g);
        d->wasserstein = now->kind == CTR_KIND_TEXT ? NAN : earth_mover(&points, sd_of(ref));
        if (!isnan(d->psi))
            bootstrap(g, g + 1, &draws, d);
    }
    if (!rc)
        rc = share_without(now, ref, &d->fresh, err);
    if (!rc)
        rc = share_without(ref, now, &d->vanished, err);
    free(g);
    ctr_buf_free(&points.buf[0]);
    ctr_buf_free(&points.buf[1]);
    return rc;
}

const struct ctr_slice *ctr_drift_slice(const struct ctr_profiles *in, const char *by, const struct ctr_slice *slice)
{
    for (int i = 0; i < in->n; i++) {
        const struct ctr_slice *s = &in->slice[i];
        if (!by ||
            (!s->by == !slice->by && s->by_n == slice->by_n && (!s->by || !memcmp(s->by, slice->by, (size_t)s->by_n))))
            return s;
    }
    return NULL;
}

/* ---- what --fail-above knows ---- */

#define MEASURE(name, member)                                                                                          \
    {                                                                                                                  \
        name, offsetof(struct ctr_drift, member)                                                                       \
    }
const struct ctr_drift_measure ctr_drift_measures[] = {
    MEASURE("psi", psi),
    MEASURE("js", js),
    MEASURE("wasserstein", wasserstein),
    MEASURE("new", fresh),
    MEASURE("vanished", vanished),
    MEASURE("nulls", null_change),
};
const int ctr_drift_measures_count = CTR_COUNT(ctr_drift_measures);

/* ---- showing it ---- */

static const char *const numbers[] = { "psi",         "psi_low", "psi_high", "js",    "js_low",   "js_high",
                                       "wasserstein", "new",     "vanished", "nulls", "ref_nulls" };

int ctr_drift_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_put_names_schema(p, s, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "rows", CTR_I64, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "ref_rows", CTR_I64, err);
    for (size_t i = 0; rc >= 0 && i < CTR_COUNT(numbers); i++)
        rc = ctr_schema_add(s, numbers[i], CTR_F64, err);
    return CTR_MIN(rc, 0);
}

int ctr_drift_row(const struct ctr_profiles *p, const struct ctr_slice *slice, const struct ctr_profile *column,
                  const struct ctr_drift *d, struct ctr_colbuf *c, struct ctr_err *err)
{
    const double value[CTR_COUNT(numbers)] = { d->psi,      d->psi_low, d->psi_high,    d->js,
                                               d->js_low,   d->js_high, d->wasserstein, d->fresh,
                                               d->vanished, d->nulls,   d->ref_nulls };
    struct ctr_append a = { c, err, 0 };
    ctr_put_names(p, slice, column, &a);
    ctr_append_i64(&a, true, d->rows);
    ctr_append_i64(&a, d->ref_rows >= 0, d->ref_rows);
    for (size_t i = 0; i < CTR_COUNT(value); i++)
        ctr_put_f64(&a, value[i]);
    return a.rc;
}

int ctr_drift_head(struct ctr_buf *out, struct ctr_err *err)
{
    return ctr_buf_format(out, err, "%-20s %-12s %8s %8s %8s %8s %11s %7s %10s %8s %11s\n", "column", "type", "psi",
                          "low", "high", "js", "wasserstein", "new_%", "vanished_%", "nulls_%", "ref_nulls_%");
}

static struct ctr_cell rounded(double x, double scale)
{
    return ctr_cell(round(x * scale * 1e4) / 1e4);
}

int ctr_drift_line(const struct ctr_profile *column, const struct ctr_drift *d, struct ctr_buf *out,
                   struct ctr_err *err)
{
    struct ctr_buf name = { 0 }, type = { 0 };
    int rc = ctr_cell_text(&name, column->name, strlen(column->name), 20, err);
    if (!rc)
        rc = ctr_cell_text(&type, column->type, strlen(column->type), 12, err);
    if (!rc)
        rc = ctr_buf_format(out, err, "%-20s %-12s %8s %8s %8s %8s %11s %7s %10s %8s %11s\n", (const char *)name.data,
                            (const char *)type.data, rounded(d->psi, 1).s, rounded(d->psi_low, 1).s,
                            rounded(d->psi_high, 1).s, rounded(d->js, 1).s, rounded(d->wasserstein, 1).s,
                            rounded(d->fresh, 100).s, rounded(d->vanished, 100).s, rounded(d->nulls, 100).s,
                            rounded(d->ref_nulls, 100).s);
    ctr_buf_free(&name);
    ctr_buf_free(&type);
    return rc;
}
