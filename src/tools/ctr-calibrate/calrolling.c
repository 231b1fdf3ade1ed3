/* SPDX-License-Identifier: Apache-2.0
 *
 * calrolling: calibration maps of an endless stream, each fitted to the rows of a recent period.
 *
 * Time, taken from the rows, is divided into panes. Rows are stored by pane; when a row starts a new latest pane, old
 * panes are dropped, and a map is fitted to the rest. This is decided row by row, so batches do not matter. */
#include "tools/ctr-calibrate/calibrate.h"

#include <stdlib.h>

struct pane {
    int64_t start;
    struct ctr_batchbuf rows;
};

struct ctr_cal_rolling {
    struct ctr_cal_rolling_opts o;
    struct ctr_schema schema; /* of the stored rows: without dictionaries, which do not outlive a batch */
    struct pane *pane;        /* by start */
    int n, cap;
    int64_t latest; /* start of the latest pane, if there is one */
    int64_t clicks; /* ctr_cal_fit_clicks of the latest map; -1: none */
    int64_t old;
};

int ctr_cal_rolling_new(struct ctr_cal_rolling **out, const struct ctr_schema *s, const struct ctr_cal_rolling_opts *o,
                        struct ctr_err *err)
{
    struct ctr_cal_rolling *r = *out = calloc(1, sizeof *r);
    struct ctr_cal_fit *f = NULL;
    int rc = r ? ctr_schema_copy(&r->schema, s, err) : ctr_fail_nomem(err, sizeof *r);

    if (rc)
        return rc;
    r->o = *o;
    r->clicks = o->have ? INT64_MAX : -1;
    for (int i = 0; i < s->n; i++)
        r->schema.f[i].dict = false;
    rc = ctr_cal_fit_new(&f, &r->schema, &o->fit, err); /* reports errors about columns */
    ctr_cal_fit_free(f);
    return rc;
}

void ctr_cal_rolling_free(struct ctr_cal_rolling *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++)
        ctr_batchbuf_free(&r->pane[i].rows);
    free(r->pane);
    ctr_schema_free(&r->schema);
    free(r);
}

int64_t ctr_cal_rolling_old(const struct ctr_cal_rolling *r)
{
    return r->old;
}

/* Does the pane with this start lie entirely before the rows of a map that ends at `until`? */
static bool is_old(const struct ctr_cal_rolling *r, int64_t start, int64_t until)
{
    int64_t from;

    return !__builtin_sub_overflow(until, r->o.rolling_ms, &from) && start < from;
}

static void forget(struct ctr_cal_rolling *r, int64_t until)
{
    int k = 0;

    for (; k < r->n && is_old(r, r->pane[k].start, until); k++)
        ctr_batchbuf_free(&r->pane[k].rows);
    r->n -= k;
    memmove(r->pane, r->pane + k, (size_t)r->n * sizeof *r->pane);
}

static int64_t held_bytes(const struct ctr_cal_rolling *r)
{
    int64_t bytes = 0;

    for (int i = 0; i < r->n; i++)
        for (int c = 0; c < r->schema.n; c++) {
            const struct ctr_colbuf *b = &r->pane[i].rows.col[c];
            bytes += (int64_t)(b->data.cap + b->valid.cap + b->offsets.cap);
        }
    return bytes;
}

/* Rows that would replace a map of more clicks by one of hardly any are as rows that give none. */
static int check_clicks(const struct ctr_cal_rolling *r, const struct ctr_cal_fit *f, struct ctr_err *err)
{
    const int64_t clicks = ctr_cal_fit_clicks(f);

    if (clicks >= r->o.fit.min_clicks || clicks > r->clicks)
        return 0;
    return ctr_fail(err, CTR_EDATA, "one class has %lld of the %lld rows, fewer than --min-clicks %lld",
                    (long long)clicks, (long long)ctr_cal_fit_rows(f), (long long)r->o.fit.min_clicks);
}

/* Fit a map to the stored rows, which end before `until`. */
static int fit(struct ctr_cal_rolling *r, int64_t until, struct ctr_err *err)
{
    struct ctr_cal_fit_opts o = r->o.fit;
    struct ctr_cal_fit *f = NULL;
    struct ctr_cal_map *m = NULL;

    forget(r, until);
    if (!r->n)
        return 0;
    if (o.memory_bytes)
        o.memory_bytes = CTR_MAX(1, o.memory_bytes - held_bytes(r));
    int rc = ctr_cal_fit_new(&f, &r->schema, &o, err);
    for (int i = 0; !rc && i < r->n; i++)
        rc = ctr_cal_fit_batch(f, ctr_batchbuf_view(&r->pane[i].rows), err);
    if (!rc && !(rc = ctr_cal_fit_finish(f, &m, err)) && (rc = check_clicks(r, f, err))) {
        ctr_cal_map_free(m);
        m = NULL;
    }
    if (!rc)
        r->clicks = ctr_cal_fit_clicks(f);
    if (!rc || rc == CTR_EDATA) /* these rows give no map; later ones may */
        rc = r->o.fitted(r->o.ctx, f, m, until, err);
    ctr_cal_map_free(m);
    ctr_cal_fit_free(f);
    return rc;
}

/* Find the pane with this start, or create it. */
static int find_pane(struct ctr_cal_rolling *r, int64_t start, struct pane **p, struct ctr_err *err)
{
    struct pane new = { .start = start };
    int i = r->n, rc;

    while (i > 0 && r->pane[i - 1].start > start)
        i--;
    *p = i > 0 && r->pane[i - 1].start == start ? &r->pane[i - 1] : NULL;
    if (*p)
        return 0;
    if ((rc = ctr_array_grow(&r->pane, r->n, &r->cap, sizeof *r->pane, err)) ||
        (rc = ctr_batchbuf_init(&new.rows, &r->schema, err)))
        return rc;
    memmove(r->pane + i + 1, r->pane + i, (size_t)(r->n - i) * sizeof *r->pane);
    r->pane[i] = new;
    r->n++;
    *p = &r->pane[i];
    return 0;
}

/* Add rows [from, from + n), all of one pane. */
static int add_rows(struct ctr_cal_rolling *r, const struct ctr_batch *b, int64_t start, int64_t from, int64_t n,
                    struct ctr_err *err)
{
    struct pane *p;

    if (is_old(r, start, r->latest)) {
        r->old += n;
        return 0;
    }
    int rc = find_pane(r, start, &p, err);
    return rc ? rc : ctr_batchbuf_range(&p->rows, b, from, n, err);
}

/* Check labels, scores and weights here, so that errors name the row. */
static int check_rows(const struct ctr_cal_rolling *r, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_metric_rows rows = { 0 };
    int rc = ctr_metric_rows_load(&rows, &r->o.fit.columns, b, err);

    ctr_metric_rows_free(&rows);
    return rc ? rc : ctr_eval_check_time(b, r->o.fit.columns.time, err);
}

int ctr_cal_rolling_batch(struct ctr_cal_rolling *r, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *time = &b->col[r->o.fit.columns.time];
    int64_t from = 0, start = 0;
    int rc = check_rows(r, b, err);

    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const int64_t at = ctr_eval_window(ctr_col_i64(time, i), r->o.every_ms);
        if (i > from && at != start) {
            rc = add_rows(r, b, start, from, i - from, err);
            from = i;
        }
        start = at;
        if (rc || (r->n && at <= r->latest))
            continue;
        if (r->n)
            rc = fit(r, at, err);
        r->latest = at;
    }
    return rc || from == b->rows ? rc : add_rows(r, b, start, from, b->rows - from, err);
}

int ctr_cal_rolling_finish(struct ctr_cal_rolling *r, struct ctr_err *err)
{
    int64_t until = INT64_MAX;

    if (r->n)
        (void)__builtin_add_overflow(r->latest, r->o.every_ms, &until);
    return fit(r, r->n ? until : 0, err);
}
