/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms: of scores, by class or by input; of a column, by input, as bins of numbers or bars of texts. */
#include "common/plot/plot_bins.h"
#include "common/plot/plot_draw.h"
#include "common/table/table.h"

#include <math.h>
#include <stdlib.h>

enum { BINS = 40, TEXTS = 20, MOST_TEXTS = 65536, MOST_BYTES = 64 << 20 };

/* ---- bins ---- */

static int say_rest(const struct ctr_plot_bins *b, const struct ctr_plot_range *r, int64_t nulls, struct ctr_buf *out,
                    struct ctr_err *err)
{
    struct ctr_say s = { out, err, 0 };
    if (nulls)
        ctr_say(&s, ", %s null", ctr_plot_count((double)nulls).s);
    if (b->nans)
        ctr_say(&s, ", %s NaN", ctr_plot_count((double)b->nans).s);
    if (b->infinities)
        ctr_say(&s, ", %s infinite", ctr_plot_count((double)b->infinities).s);
    if (r->beyond > 0)
        ctr_say(&s, ", %.2g%% of the rows beyond the axis", 100 * r->beyond);
    ctr_say_bytes(&s, "", 1);
    return s.rc;
}

static void put_bins(struct ctr_svg *g, const struct ctr_plot_bins *b, const struct ctr_plot_range *r, int series,
                     const char *name, bool time)
{
    for (int i = 0; i < r->n; i++) {
        const double w = ctr_plot_bins_weight(b, r, series, i);
        const double from = ctr_plot_bins_start(r, i), to = ctr_plot_bins_start(r, i + 1);
        struct ctr_plot_text range;
        if (w == 0)
            continue;
        if (time) {
            char a[CTR_NUM_MAX + 8] = "", z[CTR_NUM_MAX + 8] = "";
            ctr_time_iso(a, (int64_t)from);
            ctr_time_iso(z, (int64_t)to);
            range = ctr_plot_text("%s to %s", a, z);
        } else if (b->whole && r->power == 0) {
            range = ctr_plot_text("%.17g", from);
        } else {
            range = ctr_plot_text("%.8g to %.8g", from, to);
        }
        ctr_svg_bar(g, series, from, to, 0, w / b->total[series], true,
                    ctr_plot_text("%s%s%s: %s, %.4g%%", name, *name ? ", " : "", range.s, ctr_plot_count(w).s,
                                  100 * w / b->total[series])
                        .s);
    }
}

/* The outline, which shows where bars of several series end. */
static int put_outline(struct ctr_svg *g, const struct ctr_plot_bins *b, const struct ctr_plot_range *r, int series,
                       struct ctr_err *err)
{
    const int n = r->n + 2;
    double *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
    int rc = x && y ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *x);
    for (int i = 0; !rc && i < n; i++) {
        x[i] = ctr_plot_bins_start(r, CTR_MIN(i, r->n));
        y[i] = i == 0 || i == n - 1 ? 0 : ctr_plot_bins_weight(b, r, series, i - 1) / b->total[series];
    }
    if (!rc)
        ctr_svg_steps(g, series, x, y, n);
    free(x);
    free(y);
    return rc;
}

/* What the bins are of. */
struct about {
    const char *x;
    enum ctr_axis_kind kind;
    int64_t nulls;
};

static int draw_bins(struct ctr_plot *p, const struct ctr_plot_bins *b, const struct about *a, struct ctr_err *err)
{
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_buf subtitle = { 0 };
    struct ctr_svg g;
    double most = 0, total = 0;
    if (!b->n)
        return ctr_plot_empty(p, a->nulls || b->nans || b->infinities ? "no finite values" : "no rows", err);
    const struct ctr_plot_range r = ctr_plot_bins_range(b, p->o->bins ? p->o->bins : BINS);
    for (int s = 0; s < b->series; s++) {
        total += b->total[s];
        for (int i = 0; b->total[s] > 0 && i < r.n; i++)
            most = fmax(most, ctr_plot_bins_weight(b, &r, s, i) / b->total[s]);
    }
    if (!(total > 0))
        return ctr_plot_empty(p, "all weights are 0", err);
    int rc = ctr_buf_printf(&subtitle, err, "%s value%s", ctr_plot_count((double)b->n).s, CTR_S(b->n));
    if (!rc)
        rc = say_rest(b, &r, a->nulls, &subtitle, err);
    if (!rc) {
        f.nlegend = b->series > 1 ? b->series : 0;
        f.subtitle = (const char *)subtitle.data;
        f.x = (struct ctr_axis){ .label = a->x,
                                 .low = ctr_plot_bins_start(&r, 0),
                                 .high = ctr_plot_bins_start(&r, r.n),
                                 .kind = a->kind,
                                 .exact = true };
        f.y = (struct ctr_axis){ .label = b->series > 1 ? "share of the rows of each" : "share of the rows",
                                 .high = most,
                                 .kind = CTR_AXIS_PERCENT };
        ctr_svg_begin(&g, &f, p->svg, err);
        for (int s = 0; !rc && s < b->series; s++) {
            if (!(b->total[s] > 0))
                continue;
            put_bins(&g, b, &r, s, b->series > 1 ? p->legend[s] : "", a->kind == CTR_AXIS_TIME);
            rc = put_outline(&g, b, &r, s, err);
        }
        const int end = ctr_svg_end(&g);
        rc = rc ? rc : end;
    }
    ctr_buf_free(&subtitle);
    return rc;
}

/* ---- scores ---- */

/* A batch of checked numbers. */
struct numbers {
    const double *score, *label, *weight;
    struct ctr_buf buf[3];
};

static int load(const struct ctr_batch *b, int column, enum ctr_role role, struct ctr_buf *buf, const double **out,
                struct ctr_err *err)
{
    *out = NULL;
    return column < 0 ? 0
                      : ctr_col_checked(&b->col[column], role, b->schema->f[column].name, b->first_row, buf, out, err);
}

static int add_scores(struct ctr_plot_bins *b, const struct numbers *v, int64_t n, int series, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < n; i++) {
        const double w = v->weight ? v->weight[i] : 1;
        if (!v->label) {
            rc = ctr_plot_bins_add(b, series, v->score[i], w, err);
            continue;
        }
        if (v->label[i] < 1)
            rc = ctr_plot_bins_add(b, 0, v->score[i], w * (1 - v->label[i]), err);
        if (!rc && v->label[i] > 0)
            rc = ctr_plot_bins_add(b, 1, v->score[i], w * v->label[i], err);
    }
    return rc;
}

static int read_scores(struct ctr_plot *p, int i, struct ctr_plot_bins *bins, struct ctr_err *err)
{
    int score, label, weight;
    const struct ctr_plot_want want[] = { { CTR_ROLE_SCORE, NULL, true, &score },
                                          { CTR_ROLE_LABEL, NULL, false, &label },
                                          { CTR_ROLE_WEIGHT, NULL, false, &weight } };
    struct numbers v = { 0 };
    const struct ctr_batch *b;
    int rc = ctr_plot_columns(p, i, want, CTR_COUNT(want), err);
    if (!rc)
        rc = ctr_plot_check_number(p, i, score, "a score", err);
    if (!rc && label >= 0 && ctr_batch_source_schema(&p->in[i].rows)->f[label].type != CTR_BOOL)
        rc = ctr_plot_check_number(p, i, label, "a label", err);
    if (!rc)
        rc = ctr_plot_check_number(p, i, weight, "a weight", err);
    if (!bins->series) /* known when the first input is */
        bins->series = p->n > 1 ? p->n : label >= 0 ? 2 : 1;
    if (p->n > 1)
        label = -1;
    while (!rc && (rc = ctr_plot_next(p, i, &b, err)) > 0) {
        if (!(rc = load(b, score, CTR_ROLE_SCORE, &v.buf[0], &v.score, err)) &&
            !(rc = load(b, label, CTR_ROLE_LABEL, &v.buf[1], &v.label, err)) &&
            !(rc = load(b, weight, CTR_ROLE_WEIGHT, &v.buf[2], &v.weight, err)))
            rc = add_scores(bins, &v, b->rows, i, err);
    }
    for (size_t k = 0; k < CTR_COUNT(v.buf); k++)
        ctr_buf_free(&v.buf[k]);
    return ctr_plot_fail(p, i, rc, err);
}

static int draw_scores(struct ctr_plot *p, struct ctr_err *err)
{
    struct ctr_plot_bins bins = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < p->n; i++)
        rc = read_scores(p, i, &bins, err);
    if (!rc && p->n == 1 && bins.series == 2) {
        p->legend[0] = "without click";
        p->legend[1] = "clicks";
    }
    if (!rc)
        rc = draw_bins(p, &bins, &(struct about){ .x = "score" }, err);
    ctr_plot_bins_free(&bins);
    return rc;
}

/* A column of numbers goes to the bins, as scores do. One of texts, of two inputs with the rows a a b and a c, becomes
 * bars, here with --top 2:
 *
 *     set       a 0, b 1, c 2                 numbers in order of first occurrence, in all inputs
 *     weight    2 1, 1 0, 0 1                 by number, then by input; `total` is 3, 2
 *     share     a .667 .5, b .333 0, c 0 .5   of the rows of each input
 *     ranked    a, c, b                       by the mean of the shares: .583, .25, .167
 *     bars      a, c, (others): .333 0        a bar of each input side by side
 */

/* ---- a column ---- */

struct texts {
    struct ctr_keyvalue_set set;
    struct ctr_buf weight; /* double[series] by number */
    double total[CTR_SVG_COLOURS];
    int64_t n;
};

struct column {
    struct ctr_plot_bins bins;
    struct texts texts;
    struct about about;
    bool text;
};

static int add_text(struct texts *t, const struct ctr_col *c, int64_t i, int series, double weight, int n,
                    struct ctr_err *err)
{
    uint32_t number = 0;
    struct ctr_keyvalue id = { .p = "", .null = true };
    if (!ctr_col_missing(c, i))
        id = ctr_keyvalue_text(ctr_col_str(c, i));
    int rc = ctr_keyvalue_set_add(&t->set, &id, &number, err);
    if (rc)
        return rc;
    if (number >= MOST_TEXTS)
        return ctr_fail(err, CTR_EDATA, "more than %d different texts: ctr-stats shows the frequent ones", MOST_TEXTS);
    if (t->set.bytes.len > MOST_BYTES)
        return ctr_fail(err, CTR_EDATA, "more than %d MiB of different texts: ctr-stats shows the frequent ones",
                        MOST_BYTES >> 20);
    if (t->weight.len < (number + 1) * (size_t)n * sizeof(double)) {
        void *w = ctr_buf_extend(&t->weight, n, sizeof(double), &rc, err);
        if (!w)
            return rc;
        memset(w, 0, (size_t)n * sizeof(double));
    }
    ((double *)(void *)t->weight.data)[number * (size_t)n + (size_t)series] += weight;
    t->total[series] += weight;
    t->n++;
    return 0;
}

static int add_values(struct ctr_plot *p, struct column *h, const struct ctr_col *c, const double *weight, int series,
                      struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < c->rows; i++) {
        const double w = weight ? weight[i] : 1;
        if (h->text)
            rc = add_text(&h->texts, c, i, series, w, p->n, err);
        else if (ctr_col_missing(c, i))
            h->about.nulls++;
        else
            rc = ctr_plot_bins_add(&h->bins, series, ctr_col_f64(c, i), w, err);
    }
    return rc;
}

/* All inputs have texts, or none has; of numbers those of the first say how wide bins are. */
static int choose(struct ctr_plot *p, int i, int column, struct column *h, struct ctr_err *err)
{
    const struct ctr_field *f = &ctr_batch_source_schema(&p->in[i].rows)->f[column];
    char type[64];
    const bool text = f->type == CTR_UTF8, time = f->type == CTR_TIME;
    if (ctr_type_list(f->type) || f->type == CTR_FOREIGN)
        return ctr_fail(err, CTR_EUSAGE, "column %s is %s, and a histogram is of single values%s", f->name,
                        ctr_field_type_name(f, type, sizeof type),
                        f->type == CTR_FOREIGN ? "" : " (ctr-select --explode makes rows of them)");
    if (i && (text != h->text || time != (h->about.kind == CTR_AXIS_TIME)))
        return ctr_fail(err, CTR_EUSAGE, "column %s is %s, and that of the input before is of another kind", f->name,
                        ctr_field_type_name(f, type, sizeof type));
    h->text = text;
    h->bins.whole = (i == 0 || h->bins.whole) && !ctr_types[f->type].floating;
    h->about.kind = time ? CTR_AXIS_TIME : CTR_AXIS_NUMBER;
    return 0;
}

static int read_column(struct ctr_plot *p, int i, struct column *h, struct ctr_err *err)
{
    int column, weight;
    const struct ctr_plot_want want[] = { { CTR_ROLE_SCORE, p->o->column, true, &column },
                                          { CTR_ROLE_WEIGHT, NULL, false, &weight } };
    const struct ctr_batch *b;
    const double *w;
    struct ctr_buf buf = { 0 };
    int rc = ctr_plot_columns(p, i, want, CTR_COUNT(want), err);
    if (!rc)
        rc = choose(p, i, column, h, err);
    if (!rc)
        rc = ctr_plot_check_number(p, i, weight, "a weight", err);
    while (!rc && (rc = ctr_plot_next(p, i, &b, err)) > 0)
        if (!(rc = load(b, weight, CTR_ROLE_WEIGHT, &buf, &w, err)))
            rc = add_values(p, h, &b->col[column], w, i, err);
    ctr_buf_free(&buf);
    return ctr_plot_fail(p, i, rc, err);
}

/* ---- bars of texts ---- */

struct ranked {
    uint32_t number;
    double share; /* the mean over the inputs */
};

static int by_share(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static double text_share(const struct texts *t, int series, int n, uint32_t number)
{
    const double *w = (const double *)(const void *)t->weight.data;
    return t->total[series] > 0 ? w[number * (size_t)n + (size_t)series] / t->total[series] : 0;
}

static int text_names(const struct texts *t, const struct ranked *r, int shown, struct ctr_strs *names,
                      struct ctr_err *err)
{
    const int64_t *start = (const int64_t *)(const void *)t->set.start.data;
    struct ctr_buf name = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < shown; i++) {
        const int64_t *at = start + r[i].number;
        const bool null = t->set.null && r[i].number == t->set.null - 1, empty = !null && at[1] == at[0];
        name.len = 0;
        rc = empty ? ctr_buf_append(&name, "(empty)", 7, err)
                   : ctr_buf_value_name(&name, null ? NULL : (const char *)t->set.bytes.data + at[0],
                                        (size_t)(at[1] - at[0]), err);
        if (!rc)
            rc = ctr_strs_add(names, (const char *)name.data, name.len, err);
    }
    ctr_buf_free(&name);
    return rc;
}

static void put_text_bars(struct ctr_plot *p, struct ctr_svg *g, const struct texts *t, const struct ranked *r,
                          int shown, bool others)
{
    const double high = .8 / p->n;
    for (int s = 0; s < p->n; s++) {
        double rest = t->total[s] > 0; /* of the rows that there are */
        for (int i = 0; i < shown + others; i++) {
            const double share = i < shown ? text_share(t, s, p->n, r[i].number) : fmax(0, rest);
            const double y = i + .1 + s * high;
            rest -= share;
            ctr_svg_bar(g, s, 0, share, y, y + high, i == shown,
                        ctr_plot_text("%s: %.4g%%", p->n > 1 ? p->in[s].name : g->y.names[i], 100 * share).s);
        }
    }
}

static int draw_texts(struct ctr_plot *p, const struct texts *t, const char *x, struct ctr_err *err)
{
    if (!t->n)
        return ctr_plot_empty(p, "no rows", err);
    const int all = (int)t->set.n;
    const int shown = (int)CTR_MIN(all, p->o->top ? p->o->top : TEXTS);
    const bool others = shown < all;
    struct ranked *r = calloc((size_t)all, sizeof *r);
    struct ctr_strs names = { 0 };
    struct ctr_figure f = ctr_plot_figure(p);
    struct ctr_svg g;
    double most = 0, rest = 0;
    int rc = r ? 0 : ctr_fail_nomem(err, (size_t)all * sizeof *r);
    for (int i = 0; !rc && i < all; i++) {
        r[i].number = (uint32_t)i;
        for (int s = 0; s < p->n; s++)
            r[i].share += text_share(t, s, p->n, r[i].number) / p->n;
    }
    if (!rc) {
        qsort(r, (size_t)all, sizeof *r, by_share);
        rc = text_names(t, r, shown, &names, err);
    }
    if (!rc && others)
        rc = ctr_strs_add(&names, "(others)", 8, err);
    for (int s = 0; !rc && s < p->n; s++, rest = 0) {
        for (int i = 0; i < all; i++) {
            const double share = text_share(t, s, p->n, r[i].number);
            rest += i < shown ? 0 : share;
            most = fmax(most, fmax(share, rest));
        }
    }
    if (!rc) {
        const struct ctr_plot_text subtitle = ctr_plot_text(
            "%s: %s value%s, %s different", x, ctr_plot_count((double)t->n).s, CTR_S(t->n), ctr_plot_count(all).s);
        f.subtitle = subtitle.s;
        f.x = (struct ctr_axis){ .label = "share of the rows", .high = most, .kind = CTR_AXIS_PERCENT };
        f.y = (struct ctr_axis){ .high = names.n, .kind = CTR_AXIS_NAMES, .names = (const char *const *)names.s };
        ctr_svg_begin(&g, &f, p->svg, err);
        put_text_bars(p, &g, t, r, shown, others);
        rc = ctr_svg_end(&g);
    }
    ctr_strs_free(&names);
    free(r);
    return rc;
}

static int draw_histogram(struct ctr_plot *p, struct ctr_err *err)
{
    struct column h = { .bins = { .series = p->n }, .about = { .x = p->o->column } };
    int rc = p->o->column ? 0 : ctr_fail(err, CTR_EUSAGE, "histogram wants a column: name it with --column NAME");
    ctr_keyvalue_set_init(&h.texts.set);
    for (int i = 0; !rc && i < p->n; i++)
        rc = read_column(p, i, &h, err);
    if (!rc)
        rc = h.text ? draw_texts(p, &h.texts, p->o->column, err) : draw_bins(p, &h.bins, &h.about, err);
    ctr_keyvalue_set_free(&h.texts.set);
    ctr_buf_free(&h.texts.weight);
    ctr_plot_bins_free(&h.bins);
    return rc;
}

static bool has_column(const struct ctr_schema *s, const struct ctr_plot_opts *o)
{
    return o->column && ctr_schema_find(s, o->column) >= 0;
}

const struct ctr_plot_kind ctr_plot_scores = { .name = "scores",
                                               .summary =
                                                   "histogram of scores: of rows with and without click, or by input",
                                               .title = "Scores",
                                               .roles = 1 << CTR_ROLE_SCORE,
                                               .also = 1 << CTR_ROLE_LABEL | 1 << CTR_ROLE_WEIGHT,
                                               .inputs = CTR_SVG_COLOURS,
                                               .draw = draw_scores };
const struct ctr_plot_kind ctr_plot_histogram = { .name = "histogram",
                                                  .summary = "histogram of a column, of one input or several",
                                                  .title = "Histogram",
                                                  .also = 1 << CTR_ROLE_WEIGHT,
                                                  .inputs = CTR_SVG_COLOURS,
                                                  .fits = has_column,
                                                  .draw = draw_histogram };
