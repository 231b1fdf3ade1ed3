/* SPDX-License-Identifier: Apache-2.0
 *
 * summary: what a profile says. */
#include "tools/ctr-stats/summary.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

const double ctr_quantiles[CTR_QUANTILES] = { .01, .05, .25, .5, .75, .95, .99 };
const char *const ctr_quantile_names[CTR_QUANTILES] = { "q01", "q05", "q25", "median", "q75", "q95", "q99" };

/* Quantiles come from points, sorted by place, each with edges and a number of rows:
 *
 *     few values     .5 (1 row), 2 (1 row): low = high, exact. The median is of rank (2 - 1) * .5 = .5, half way
 *                    between the rows 0 and 1: 1.25
 *     many values    bins, such as [2, 4) with 10 rows behind 5 rows below: rank 7 is the third row in it, at
 *                    2 + 2 * (7 - 5 + .5) / 10 = 2.5; `width` 2 is its possible error
 *
 * The same points serve the AUC of a column alone (pairs in order) and, with more than CTR_FEW of them, the groups of
 * its information value: ranges of about equal numbers of rows; else groups are frequent values. */

/* ---- values in order ---- */

int ctr_points_shift(const struct ctr_profile *p)
{
    return p->many ? p->many->bins.shift : -1;
}

/* Points of one place become one. */
static void unite(struct ctr_buf *points, size_t from)
{
    struct ctr_point *point = (struct ctr_point *)(void *)(points->data + from);
    const size_t n = (points->len - from) / sizeof *point;
    size_t kept = 0;
    if (n)
        qsort(point, n, sizeof *point, ctr_by_u64);
    for (size_t i = 0; i < n; i++) {
        if (kept && point[kept - 1].at == point[i].at) {
            point[kept - 1].n += point[i].n;
            point[kept - 1].clicks += point[i].clicks;
        } else {
            point[kept++] = point[i];
        }
    }
    points->len = from + kept * sizeof *point;
}

static void set_edges(struct ctr_point *point, enum ctr_kind kind, int shift)
{
    const uint64_t next = (point->at + 1) << shift;
    point->low = ctr_kind_at(kind, point->at << shift);
    point->high = ctr_kind_at(kind, next ? next : UINT64_MAX);
    /* At most 50 bits are left out, so that an infinity has a bin of its own. */
    point->high = isinf(point->low) ? point->low : CTR_MIN(point->high, DBL_MAX);
}

int ctr_points(const struct ctr_profile *p, int shift, struct ctr_buf *points, struct ctr_err *err)
{
    const size_t from = points->len;
    int rc = 0;
    for (int64_t i = 0; !rc && !p->many && p->kind != CTR_KIND_TEXT && i < p->table.cap; i++) {
        const struct ctr_value *v = &p->table.slot[i];
        if (!v->n || ctr_kind_nan(p->kind, v->key))
            continue;
        const double x = ctr_kind_number(p->kind, v->key);
        struct ctr_point point = { ctr_kind_order(p->kind, v->key), x, x, v->n, v->clicks };
        if (shift >= 0) {
            point.at = ctr_kind_position(p->kind, v->key) >> shift;
            set_edges(&point, p->kind, shift);
        }
        rc = ctr_buf_append(points, &point, sizeof point, err);
    }
    for (int64_t i = 0; !rc && p->many && i < p->many->bins.cap; i++) {
        const struct ctr_bin *bin = &p->many->bins.slot[i];
        if (!bin->n)
            continue;
        struct ctr_point point = { bin->at >> (shift - p->many->bins.shift), 0, 0, bin->n, bin->clicks };
        set_edges(&point, p->kind, shift);
        rc = ctr_buf_append(points, &point, sizeof point, err);
    }
    if (!rc)
        unite(points, from);
    return rc;
}

/* The value of rank r, a whole number, between the edges of its bin. */
static double whole_rank(const struct ctr_point *point, int64_t n, int64_t r, double *width)
{
    int64_t i = 0, before = 0;
    while (i < n - 1 && before + point[i].n <= r)
        before += point[i++].n;
    *width = point[i].high > point[i].low ? point[i].high - point[i].low : 0;
    if (*width == 0)
        return point[i].low;
    return point[i].low + *width * (((double)(r - before) + .5) / (double)point[i].n);
}

double ctr_points_rank(const struct ctr_point *point, int64_t n, double r, double *width)
{
    const double whole = floor(r), part = r - whole;
    double next_width;
    const double low = whole_rank(point, n, (int64_t)whole, width);
    if (part == 0)
        return low;
    const double high = whole_rank(point, n, (int64_t)whole + 1, &next_width);
    *width = CTR_MAX(*width, next_width);
    if (low == high)
        return low;
    if (isfinite(high - low))
        return low + part * (high - low);
    if (isinf(low) && isinf(high)) /* the average weighted by nearness: of both infinities the nearer */
        return part < .5 ? low : part > .5 ? high : NAN;
    return isinf(low) ? low : isinf(high) ? high : low * (1 - part) + high * part;
}

/* ---- frequent values ---- */

static int compare_frequent(const struct ctr_profile *p, const struct ctr_frequent *a, const struct ctr_frequent *b)
{
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    if (p->kind != CTR_KIND_TEXT) {
        const uint64_t x = ctr_kind_order(p->kind, a->key), y = ctr_kind_order(p->kind, b->key);
        return (x > y) - (x < y);
    }
    const int c = memcmp(a->text, b->text, CTR_PROFILE_TEXT);
    return c ? c : (a->key > b->key) - (a->key < b->key);
}

/* Put one in its place among the first `most`. */
static void place(const struct ctr_profile *p, struct ctr_frequent *out, int *n, int most, const struct ctr_frequent *f)
{
    int i = *n;
    if (i == most && (!most || compare_frequent(p, f, &out[most - 1]) >= 0))
        return;
    if (i == most)
        i--;
    else
        ++*n;
    for (; i > 0 && compare_frequent(p, f, &out[i - 1]) < 0; i--)
        out[i] = out[i - 1];
    out[i] = *f;
}

/* The text of a sketch's value, if all of it is known, or its beginning. */
static bool take_beginning(const struct ctr_heavy_value *v, struct ctr_frequent *f)
{
    size_t n = CTR_HEAVY_BYTES;
    while (n && !v->text[n - 1])
        n--;
    f->cut = ctr_text_key(v->text, n) != v->hash;
    if (f->cut && n < CTR_HEAVY_BYTES - 3)
        return false; /* no text begins so and has this hash */
    while (f->cut && n && !ctr_utf8_valid((const uint8_t *)v->text, n))
        n--;
    memcpy(f->text, v->text, n);
    f->kept = (uint8_t)n;
    return true;
}

static void frequent_of_many(const struct ctr_profile *p, int most, int64_t least, struct ctr_frequent *out, int *n)
{
    struct ctr_heavy_value v;
    for (int cell = 0; cell < CTR_HEAVY_CELLS; cell++) {
        if (!ctr_heavy_value(p->many->heavy, cell, &v) || v.is.weight < CTR_MAX(least, 1))
            continue;
        struct ctr_frequent f = { .key = ctr_kind_key(p->kind, v.hash), .n = v.is.weight, .others = v.is.others };
        if (p->kind == CTR_KIND_TEXT && !take_beginning(&v, &f))
            continue;
        if (p->many->clicks)
            f.clicks = CTR_MIN((double)ctr_heavy_estimate(p->many->clicks, v.hash).weight / (double)CTR_CLICK, f.n);
        place(p, out, n, most, &f);
    }
}

int ctr_frequent(const struct ctr_profile *p, int most, int64_t least, struct ctr_frequent *out)
{
    int n = 0;
    if (p->many)
        frequent_of_many(p, most, least, out, &n);
    for (int64_t i = 0; !p->many && i < p->table.cap; i++) {
        const struct ctr_value *v = &p->table.slot[i];
        if (!v->n || v->n < least || (n == most && v->n < out[n - 1].n))
            continue;
        struct ctr_frequent f = { .key = v->key, .n = v->n, .clicks = (double)v->clicks / (double)CTR_CLICK };
        if (p->kind == CTR_KIND_TEXT) {
            memcpy(f.text, ctr_value_text(&p->table, v), v->kept);
            f.kept = v->kept;
            f.cut = v->bytes > v->kept;
        }
        place(p, out, &n, most, &f);
    }
    return n;
}

int64_t ctr_frequent_rows(const struct ctr_profile *p, const struct ctr_frequent *f)
{
    const uint64_t hash = ctr_kind_hash(p->kind, f->key);
    if (p->many && !ctr_sampled(hash, p->table.level)) /* the sample has exact counts */
        return ctr_heavy_estimate(p->many->heavy, hash).weight;
    int64_t n = 0;
    for (int64_t i = 0; p->table.cap; i++) { /* all values of this key: but for a collision of hashes there is one */
        const int64_t mask = p->table.cap - 1;
        const struct ctr_value *v = &p->table.slot[((int64_t)ctr_hash_place(f->key, (uint64_t)mask) + i) & mask];
        if (!v->n)
            break;
        n += v->key == f->key ? v->n : 0;
    }
    return n;
}

int ctr_value_write(const struct ctr_profile *p, uint64_t key, const char *text, size_t n, bool cut,
                    struct ctr_buf *out, struct ctr_err *err)
{
    char number[CTR_NUM_MAX];
    if (p->kind == CTR_KIND_TEXT) {
        const int rc = ctr_buf_append(out, text, n, err);
        return rc || !cut ? rc : ctr_buf_append(out, "…", strlen("…"), err);
    }
    const double x = ctr_kind_number(p->kind, key);
    if (p->item == CTR_BOOL)
        return ctr_buf_append(out, key ? "true" : "false", key ? 4 : 5, err);
    if (p->kind == CTR_KIND_TIME)
        n = ctr_time_iso(number, (int64_t)key);
    else if (p->kind == CTR_KIND_FLOAT)
        n = p->item == CTR_F64 ? ctr_fmt_f64(number, x) : ctr_fmt_f32(number, (float)x);
    else
        n = p->kind == CTR_KIND_UINT ? ctr_fmt_u64(number, key) : ctr_fmt_i64(number, (int64_t)key);
    return ctr_buf_append(out, number, n, err);
}

/* ---- clicks ---- */

struct group {
    double n, clicks;
};
struct groups {
    struct group g[CTR_GROUPS + 4];
    int n;
    bool apart; /* they tell values apart: not all of several values are in one group */
};

static void add_group(struct groups *g, double n, double clicks)
{
    if (n > 0)
        g->g[g->n++] = (struct group){ n, CTR_MIN(clicks, n) };
}

/* Ranges of about equal numbers of rows. */
static void add_ranges(struct groups *g, const struct ctr_point *point, int64_t n)
{
    double all = 0, before = 0, rows = 0, clicks = 0;
    int range = 1;
    for (int64_t i = 0; i < n; i++)
        all += (double)point[i].n;
    for (int64_t i = 0; i < n; i++) {
        rows += (double)point[i].n;
        clicks += (double)point[i].clicks / (double)CTR_CLICK;
        before += (double)point[i].n;
        if (before >= all * range / CTR_RANGES || i == n - 1) {
            add_group(g, rows, clicks);
            rows = clicks = 0;
            while (range < CTR_RANGES && before >= all * range / CTR_RANGES)
                range++;
        }
    }
}

static int make_groups(const struct ctr_profile *p, const struct ctr_buf *points, struct groups *g, struct ctr_err *err)
{
    const double one = (double)CTR_CLICK;
    const int64_t n = (int64_t)(points->len / sizeof(struct ctr_point));
    double rows = (double)p->values, clicks = (double)p->value_clicks / one;
    add_group(g, (double)p->nulls, (double)p->null_clicks / one);
    g->apart = n > CTR_FEW || (!p->many && p->table.n <= 1);
    if (n > CTR_FEW) {
        const int first = g->n;
        add_ranges(g, (const struct ctr_point *)(const void *)points->data, n);
        for (int i = first; i < g->n; i++) {
            rows -= g->g[i].n;
            clicks -= g->g[i].clicks;
        }
    } else {
        struct ctr_frequent *f = calloc(CTR_GROUPS, sizeof *f);
        if (!f)
            return ctr_fail_nomem(err, CTR_GROUPS * sizeof *f);
        const int k = ctr_frequent(p, CTR_GROUPS, CTR_GROUP_ROWS, f);
        for (int i = 0; i < k; i++) {
            add_group(g, (double)f[i].n, f[i].clicks);
            rows -= (double)f[i].n;
            clicks -= f[i].clicks;
        }
        g->apart |= k > 0;
        free(f);
    }
    add_group(g, rows, CTR_MAX(0, clicks)); /* NaN, or the other values */
    return 0;
}

static double information(const struct groups *g)
{
    double clicks = 0, others = 0, iv = 0;
    for (int i = 0; i < g->n; i++) {
        clicks += g->g[i].clicks;
        others += g->g[i].n - g->g[i].clicks;
    }
    if (!(clicks > 0 && others > 0))
        return NAN;
    for (int i = 0; i < g->n; i++) {
        const double a = (g->g[i].clicks + .5) / (clicks + .5 * g->n);
        const double b = (g->g[i].n - g->g[i].clicks + .5) / (others + .5 * g->n);
        iv += (a - b) * ctr_log(a / b);
    }
    return iv;
}

static int by_rate(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    const double left = x->clicks * y->n, right = y->clicks * x->n;
    return (left > right) - (left < right);
}

/* Pairs of a click and none, in order and all of them. */
struct pairs {
    double right, clicks, others;
};

static void pair(struct pairs *p, double n, double clicks)
{
    p->right += clicks * (p->others + (n - clicks) / 2);
    p->clicks += clicks;
    p->others += n - clicks;
}

static double auc_of(const struct pairs *p)
{
    const double auc = p->right / p->clicks / p->others;
    return p->clicks > 0 && p->others > 0 ? CTR_MAX(auc, 1 - auc) : NAN;
}

static int summarize_clicks(const struct ctr_profile *p, const struct ctr_buf *points, struct ctr_summary *s,
                            struct ctr_err *err)
{
    const struct ctr_point *point = (const struct ctr_point *)(const void *)points->data;
    struct pairs in_order = { 0 }, by_group = { 0 };
    struct groups *g = calloc(1, sizeof *g);
    int rc = g ? make_groups(p, points, g, err) : ctr_fail_nomem(err, sizeof *g);
    s->rate = p->rows ? (double)p->clicks / (double)CTR_CLICK / (double)p->rows : NAN;
    s->null_rate = p->nulls ? (double)p->null_clicks / (double)CTR_CLICK / (double)p->nulls : NAN;
    if (!rc) {
        s->iv = g->apart ? information(g) : NAN;
        qsort(g->g, (size_t)g->n, sizeof *g->g, by_rate);
        for (int i = 0; i < g->n; i++)
            pair(&by_group, g->g[i].n, g->g[i].clicks);
        for (size_t i = 0; i < points->len / sizeof *point; i++)
            pair(&in_order, (double)point[i].n, (double)point[i].clicks / (double)CTR_CLICK);
        s->auc = g->apart ? auc_of(&by_group) : NAN;
        const double order = auc_of(&in_order);
        if (!(order <= s->auc) && !isnan(order))
            s->auc = order;
    }
    free(g);
    return rc;
}

/* ---- all ---- */

static void summarize_numbers(const struct ctr_profile *p, const struct ctr_buf *points, struct ctr_summary *s)
{
    const struct ctr_totals *t = &s->totals;
    const struct ctr_point *point = (const struct ctr_point *)(const void *)points->data;
    const int64_t n = (int64_t)(points->len / sizeof *point);
    if (p->kind == CTR_KIND_TEXT || !t->ordered || !n)
        return;
    const double min = ctr_kind_number(p->kind, ctr_kind_unorder(p->kind, t->min.order));
    const double max = ctr_kind_number(p->kind, ctr_kind_unorder(p->kind, t->max.order));
    if (t->plus_infinite || t->minus_infinite) {
        s->mean = t->minus_infinite ? -HUGE_VAL : HUGE_VAL;
        s->mean = t->plus_infinite && t->minus_infinite ? NAN : s->mean;
    } else {
        s->mean = ctr_exact_mean(&t->sum, t->ordered);
        if (t->ordered > 1)
            s->sd = t->huge ? HUGE_VAL : ctr_exact_sd(&t->sum, &t->squares, t->ordered);
    }
    s->quantile_error = 0;
    for (int i = 0; i < CTR_QUANTILES; i++) {
        double width;
        const double x = ctr_points_rank(point, n, (double)(t->ordered - 1) * ctr_quantiles[i], &width);
        s->quantile[i] = isnan(x) ? NAN : CTR_MIN(CTR_MAX(x, min), max);
        if (width > 0)
            s->quantile_error = CTR_MAX(s->quantile_error, CTR_MIN(width, max - min));
    }
}

int ctr_summarize(const struct ctr_profile *p, struct ctr_summary *s, struct ctr_err *err)
{
    struct ctr_buf points = { 0 };
    *s = (struct ctr_summary){
        .mean = NAN, .sd = NAN, .quantile_error = NAN, .rate = NAN, .null_rate = NAN, .iv = NAN, .auc = NAN
    };
    for (int i = 0; i < CTR_QUANTILES; i++)
        s->quantile[i] = NAN;
    ctr_profile_totals(p, &s->totals);
    /* One value in 2^level is in the sample, which is a binomial draw of all. */
    s->distinct = p->table.n;
    if (p->many)
        s->distinct =
            CTR_MIN(CTR_MAX((int64_t)ldexp((double)p->table.n, p->table.level), CTR_PROFILE_EXACT + 1), p->values);
    s->distinct_error = p->many ? 1 / sqrt((double)CTR_MAX(p->table.n, 1)) : 0;
    s->ntop = ctr_frequent(p, CTR_TOP, 1, s->top);
    for (int i = 0; i < s->ntop; i++)
        s->top_error = CTR_MAX(s->top_error, (double)s->top[i].others / 8 / (double)p->values);
    int rc = ctr_points(p, ctr_points_shift(p), &points, err);
    if (!rc)
        summarize_numbers(p, &points, s);
    if (!rc && p->labelled)
        rc = summarize_clicks(p, &points, s, err);
    ctr_buf_free(&points);
    return rc;
}
