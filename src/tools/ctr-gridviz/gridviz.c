/* SPDX-License-Identifier: Apache-2.0
 *
 * gridviz: collects evaluation tables by slice, and writes them as JSON. */
#include "tools/ctr-gridviz/gridviz.h"

#include "common/metric/evalstate.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The numbers of a slice: three sums, then the parts of each metric. */
static const char *const sums[] = { "rows", "weight", "positives" };
enum { SUMS = CTR_COUNT(sums) };

static int series_count(void)
{
    return SUMS + ctr_metrics_count * CTR_EVAL_PARTS;
}

static int series_name(int i, char *name, size_t size)
{
    if (i < SUMS)
        return snprintf(name, size, "%s", sums[i]);
    i -= SUMS;
    return snprintf(name, size, "%s%s", ctr_metrics[i / CTR_EVAL_PARTS].name, ctr_eval_part(i % CTR_EVAL_PARTS));
}

struct model {
    char *name;
    struct ctr_buf *series; /* double by slice; NaN or beyond the end: none */
};

struct slice {
    int by; /* -1: all rows */
    char *text;
    size_t text_n; /* it may contain a zero byte */
    bool windowed;
    int64_t window_ms;
    bool seen;     /* in the current table, because two values may have one text */
    uint32_t next; /* next slice with the same text, or 0, because slice 0 follows no other */
    uint32_t last; /* for the first slice of a text: the slice with that text last used by the current table */
};

struct ctr_gridviz {
    struct ctr_strs by;
    struct ctr_idmap ids;
    struct ctr_buf slices; /* struct slice */
    struct ctr_buf models; /* struct model */
};

static struct slice *slices(const struct ctr_gridviz *g)
{
    return (struct slice *)(void *)g->slices.data;
}
static struct model *models(const struct ctr_gridviz *g)
{
    return (struct model *)(void *)g->models.data;
}
static int64_t model_count(const struct ctr_gridviz *g)
{
    return (int64_t)(g->models.len / sizeof(struct model));
}
int64_t ctr_gridviz_slices(const struct ctr_gridviz *g)
{
    return (int64_t)(g->slices.len / sizeof(struct slice));
}

int ctr_gridviz_new(struct ctr_gridviz **g, struct ctr_err *err)
{
    *g = calloc(1, sizeof **g);
    return *g ? 0 : ctr_fail_nomem(err, sizeof **g);
}

void ctr_gridviz_free(struct ctr_gridviz *g)
{
    if (!g)
        return;
    for (int64_t i = 0; i < model_count(g); i++) {
        free(models(g)[i].name);
        for (int k = 0; models(g)[i].series && k < series_count(); k++)
            ctr_buf_free(&models(g)[i].series[k]);
        free(models(g)[i].series);
    }
    for (int64_t i = 0; i < ctr_gridviz_slices(g); i++)
        free(slices(g)[i].text);
    ctr_strs_free(&g->by);
    ctr_idmap_free(&g->ids);
    ctr_buf_free(&g->slices);
    ctr_buf_free(&g->models);
    free(g);
}

/* ---- a table ---- */

struct table {
    int by, slice, window; /* columns; window may be -1 */
    int *series;
    int64_t totals;
};

static int no_table(struct ctr_err *err, const char *column, const char *type)
{
    return ctr_fail(err, CTR_EDATA, "no eval table: it has no column '%s' of %s (ctr-eval --format stream writes one)",
                    column, type);
}

static int find_columns(const struct ctr_schema *s, struct table *t, struct ctr_err *err)
{
    int found = 0;

    t->by = ctr_schema_find(s, "by");
    t->slice = ctr_schema_find(s, "slice");
    t->window = ctr_schema_find(s, "window");
    if (t->by < 0 || s->f[t->by].type != CTR_UTF8)
        return no_table(err, "by", "text");
    if (t->slice < 0 || s->f[t->slice].type != CTR_UTF8)
        return no_table(err, "slice", "text");
    if (t->window >= 0 && s->f[t->window].type != CTR_TIME)
        return no_table(err, "window", "times");
    for (int i = 0; i < series_count(); i++) {
        char name[96];
        series_name(i, name, sizeof name);
        t->series[i] = ctr_schema_find(s, name);
        if (t->series[i] >= 0 && !ctr_type_number(s->f[t->series[i]].type))
            return no_table(err, name, "numbers");
        if (t->series[i] < 0 && i < SUMS)
            return no_table(err, name, "numbers");
        found += i >= SUMS && t->series[i] >= 0;
    }
    return found ? 0 : ctr_fail(err, CTR_EDATA, "the eval table has no metric: give ctr-eval some with --metrics");
}

/* The name of a column of slices, as an index. */
static int by_index(struct ctr_gridviz *g, const struct ctr_str name, struct ctr_err *err)
{
    int rc = 0, i = ctr_strs_find_n(&g->by, name.p, name.n);

    if (i < 0 && !(rc = ctr_strs_add(&g->by, name.p, name.n, err)))
        i = g->by.n - 1;
    return rc ? rc : i;
}

static int slice_new(struct ctr_gridviz *g, const struct slice *like, struct ctr_str text, struct ctr_err *err)
{
    struct slice s = *like;
    int rc;

    s.text_n = text.n;
    if ((rc = ctr_memdup(&s.text, text.p, text.n, err)))
        return rc;
    if ((rc = ctr_buf_append(&g->slices, &s, sizeof s, err)))
        free(s.text);
    return rc;
}

/* The slice after `at` among those with one text, created if needed. */
static int next_slice(struct ctr_gridviz *g, const struct slice *like, struct ctr_str text, uint32_t at, uint32_t *id,
                      struct ctr_err *err)
{
    int rc;

    if ((*id = slices(g)[at].next))
        return 0;
    if ((rc = ctr_idmap_next(&g->ids, id, err)) || (rc = slice_new(g, like, text, err)))
        return rc;
    slices(g)[at].next = *id;
    return 0;
}

/* The slice of row i: the k-th slice with a text in one table matches the k-th in every other. */
static int find_slice(struct ctr_gridviz *g, const struct table *t, const struct ctr_batch *b, int64_t i, uint32_t *id,
                      struct ctr_err *err)
{
    bool all = ctr_col_missing(&b->col[t->by], i) || ctr_col_missing(&b->col[t->slice], i);
    struct ctr_str text = all ? (struct ctr_str){ "", 0 } : ctr_col_str(&b->col[t->slice], i);
    struct slice s = { .by = -1 };
    int rc;

    if (!all && (s.by = by_index(g, ctr_col_str(&b->col[t->by], i), err)) < 0)
        return s.by;
    s.windowed = t->window >= 0 && !ctr_col_missing(&b->col[t->window], i);
    s.window_ms = s.windowed ? ctr_col_i64(&b->col[t->window], i) : 0;
    uint64_t h = ctr_hash64(text.p, text.n, ctr_hash_secret + (uint64_t)s.by);
    h = s.windowed ? ctr_mix64(h ^ 0x77696e646f77u) + ctr_mix64((uint64_t)s.window_ms) : h;
    const int64_t known = g->ids.n;
    if ((rc = ctr_idmap_get(&g->ids, h, id, err)) || (g->ids.n > known && (rc = slice_new(g, &s, text, err))))
        return rc;
    const uint32_t first = *id;
    const struct slice *of = &slices(g)[first];
    if (of->by != s.by || of->windowed != s.windowed || of->window_ms != s.window_ms || of->text_n != text.n ||
        memcmp(of->text, text.p, text.n) != 0)
        return ctr_fail(err, CTR_EDATA, CTR_SAME_HASH);
    if (slices(g)[first].seen && (rc = next_slice(g, &s, text, slices(g)[first].last, id, err)))
        return rc;
    slices(g)[first].last = *id;
    slices(g)[*id].seen = true;
    return 0;
}

static int put(struct ctr_buf *series, uint32_t at, double value, struct ctr_err *err)
{
    const double none = NAN;
    int rc = 0;

    while (!rc && series->len / sizeof none < at)
        rc = ctr_buf_append(series, &none, sizeof none, err);
    if (rc || series->len / sizeof none == at)
        return rc ? rc : ctr_buf_append(series, &value, sizeof value, err);
    ((double *)(void *)series->data)[at] = value;
    return 0;
}

static int add_row(struct ctr_gridviz *g, struct table *t, const struct ctr_batch *b, int64_t i, struct model *m,
                   struct ctr_err *err)
{
    uint32_t at;
    int rc = find_slice(g, t, b, i, &at, err);

    if (rc)
        return rc;
    t->totals += slices(g)[at].by < 0 && !slices(g)[at].windowed;
    if (t->totals > 1)
        return ctr_fail(err, CTR_EDATA, "row %lld: a second total: give the table of each model as a file of its own",
                        (long long)(b->first_row + i + 1));
    for (int k = 0; k < series_count(); k++)
        if (t->series[k] >= 0 && !ctr_col_missing(&b->col[t->series[k]], i) &&
            (rc = put(&m->series[k], at, ctr_col_f64(&b->col[t->series[k]], i), err)))
            return rc;
    return 0;
}

static int model_new(struct ctr_gridviz *g, const char *name, struct model **m, struct ctr_err *err)
{
    struct model empty = { .series = calloc((size_t)series_count(), sizeof *empty.series) };
    int rc = empty.series ? 0 : ctr_fail_nomem(err, (size_t)series_count() * sizeof *empty.series);

    if (rc || (rc = ctr_buf_append(&g->models, &empty, sizeof empty, err))) {
        free(empty.series);
        return rc;
    }
    *m = &models(g)[model_count(g) - 1];
    return ctr_strdup(&(*m)->name, name, err);
}

int ctr_gridviz_add(struct ctr_gridviz *g, struct ctr_reader *r, const char *name, struct ctr_err *err)
{
    struct table t = { .series = calloc((size_t)series_count(), sizeof *t.series) };
    struct model *m;
    const struct ctr_batch *b;
    int rc = t.series ? find_columns(ctr_reader_schema(r), &t, err)
                      : ctr_fail_nomem(err, (size_t)series_count() * sizeof *t.series);

    for (int64_t i = 0; i < ctr_gridviz_slices(g); i++)
        slices(g)[i].seen = false;
    if (!rc)
        rc = model_new(g, name, &m, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; !rc && i < b->rows; i++)
            rc = add_row(g, &t, b, i, m, err);
    }
    free(t.series);
    return rc;
}

/* ---- JSON ---- */

static void put_number(struct ctr_say *s, double v)
{
    if (isfinite(v))
        ctr_say(s, v == floor(v) && fabs(v) < 0x1p53 ? "%.0f" : "%.9g", v);
    else
        ctr_say_bytes(s, "null", 4);
}

static void put_metrics(const struct ctr_gridviz *g, struct ctr_say *s)
{
    static const char *const goal[] = { "none", "high", "low", "one" };
    const char *comma = "";

    ctr_say(s, ",\n\"metrics\":[");
    for (int m = 0; m < ctr_metrics_count; m++) {
        bool there = false;
        for (int64_t i = 0; i < model_count(g); i++)
            there |= models(g)[i].series[SUMS + m * CTR_EVAL_PARTS].len > 0;
        if (!there)
            continue;
        ctr_say(s, "%s{\"name\":\"%s\",\"help\":\"%s\",\"goal\":\"%s\"}", comma, ctr_metrics[m].name,
                ctr_metrics[m].help, goal[ctr_metrics[m].goal]);
        comma = ",";
    }
    ctr_say(s, "]");
}

static void put_slices(const struct ctr_gridviz *g, struct ctr_say *s)
{
    const struct slice *slice = slices(g);
    int64_t n = ctr_gridviz_slices(g);

    ctr_say(s, ",\n\"by_of\":[");
    for (int64_t i = 0; i < n; i++)
        ctr_say(s, "%s%d", i ? "," : "", slice[i].by);
    ctr_say(s, "],\n\"slice\":[");
    for (int64_t i = 0; i < n; i++) {
        ctr_say_bytes(s, ",", i > 0);
        ctr_say_json(s, slice[i].text, slice[i].text_n);
    }
    ctr_say(s, "],\n\"window\":[");
    for (int64_t i = 0; i < n; i++) {
        ctr_say_bytes(s, ",", i > 0);
        if (slice[i].windowed)
            ctr_say(s, "%" PRId64, slice[i].window_ms);
        else
            ctr_say_bytes(s, "null", 4);
    }
    ctr_say(s, "]");
}

static void put_model(const struct model *m, struct ctr_say *s)
{
    char name[96];

    ctr_say_json_text(s, "{\"name\":", m->name);
    for (int k = 0; k < series_count(); k++) {
        const double *value = (const double *)(const void *)m->series[k].data;
        if (!m->series[k].len)
            continue;
        series_name(k, name, sizeof name);
        ctr_say(s, ",\n\"%s\":[", name);
        for (size_t i = 0; i < m->series[k].len / sizeof *value; i++) {
            ctr_say_bytes(s, ",", i > 0);
            put_number(s, value[i]);
        }
        ctr_say(s, "]");
    }
    ctr_say(s, "}");
}

int ctr_gridviz_data(const struct ctr_gridviz *g, const char *title, struct ctr_buf *out, struct ctr_err *err)
{
    struct ctr_say s = { out, err, 0 };

    ctr_say_json_text(&s, "{\"title\":", title);
    ctr_say(&s, ",\n\"by\":[");
    for (int i = 0; i < g->by.n; i++)
        ctr_say_json_text(&s, i ? "," : "", g->by.s[i]);
    ctr_say(&s, "]");
    put_metrics(g, &s);
    put_slices(g, &s);
    ctr_say(&s, ",\n\"models\":[");
    for (int64_t i = 0; i < model_count(g); i++) {
        ctr_say(&s, "%s", i ? ",\n" : "");
        put_model(&models(g)[i], &s);
    }
    ctr_say(&s, "]}");
    return s.rc;
}
