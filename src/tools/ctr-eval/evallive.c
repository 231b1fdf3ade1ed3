/* SPDX-License-Identifier: Apache-2.0
 *
 * evallive: windows of an endless stream. Each window is a separate evaluation, which is finished, passed to the caller
 * and freed when the window closes. So memory is that of the windows open at a time.
 *
 * Time is taken from the rows: a window closes as soon as a row is later than its end by the lateness. That is decided
 * row by row, so batches do not matter. A row whose window has closed is left out, and counted. */
#include "tools/ctr-eval/evallive.h"

#include <stdlib.h>

struct window {
    int64_t start;
    struct ctr_eval *eval;
};

struct ctr_eval_live {
    struct ctr_eval_live_opts o; /* its windows are separate evaluations */
    int64_t window_ms;
    const struct ctr_schema *schema;
    struct window *window; /* the open ones, by start */
    int n, cap;
    bool any;
    int64_t latest; /* latest time of a row, if any */
    int64_t late;
    struct ctr_batchbuf part; /* of the batch: a run of rows of one window */
};

int ctr_eval_live_new(struct ctr_eval_live **out, const struct ctr_schema *s, const struct ctr_eval_live_opts *o,
                      struct ctr_err *err)
{
    struct ctr_eval_live *l = *out = calloc(1, sizeof *l);
    int rc = ctr_metric_columns_check(&o->eval.columns, s, err);

    if (rc || !l)
        return rc ? rc : ctr_fail_nomem(err, sizeof *l);
    l->o = *o;
    l->schema = s;
    l->o.eval.window_ms = 0;
    if (o->eval.memory_bytes) /* maximum number open at a time */
        l->o.eval.memory_bytes = CTR_MAX(1, o->eval.memory_bytes / (o->lateness_ms / o->eval.window_ms + 2));
    l->window_ms = o->eval.window_ms;
    return ctr_batchbuf_init(&l->part, s, err);
}

void ctr_eval_live_free(struct ctr_eval_live *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n; i++)
        ctr_eval_free(l->window[i].eval);
    free(l->window);
    ctr_batchbuf_free(&l->part);
    free(l);
}

/* Close the first `n` windows. */
static int close_windows(struct ctr_eval_live *l, int n, struct ctr_err *err)
{
    int rc = 0, done = 0;

    for (; !rc && done < n; done++) {
        struct window *w = &l->window[done];
        if (!(rc = ctr_eval_finish(w->eval, l->o.pool, err)))
            rc = l->o.over(l->o.ctx, w->eval, w->start, err);
        ctr_eval_free(w->eval);
    }
    l->n -= done;
    memmove(l->window, l->window + done, (size_t)l->n * sizeof *l->window);
    return rc;
}

/* Has the window with this start closed? */
static bool is_over(const struct ctr_eval_live *l, int64_t start)
{
    int64_t end, until;

    return !__builtin_add_overflow(start, l->window_ms, &end) &&
           !__builtin_sub_overflow(l->latest, l->o.lateness_ms, &until) && end <= until;
}

/* Find the open window with this start, or create it. */
static int find_window(struct ctr_eval_live *l, int64_t start, struct ctr_eval **e, struct ctr_err *err)
{
    int i = l->n, rc;

    while (i > 0 && l->window[i - 1].start > start)
        i--;
    if (i > 0 && l->window[i - 1].start == start) {
        *e = l->window[i - 1].eval;
        return 0;
    }
    if ((rc = ctr_array_grow(&l->window, l->n, &l->cap, sizeof *l->window, err)) ||
        (rc = ctr_eval_new(e, l->schema, &l->o.eval, err)))
        return rc;
    memmove(l->window + i + 1, l->window + i, (size_t)(l->n - i) * sizeof *l->window);
    l->window[i] = (struct window){ start, *e };
    l->n++;
    return 0;
}

/* Add rows [from, from + n) of a batch, all of one window. */
static int add_rows(struct ctr_eval_live *l, const struct ctr_batch *b, const double *control, int64_t start,
                    int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_batch part = *b;
    struct ctr_eval *e;
    int rc;

    if (is_over(l, start)) {
        l->late += n;
        return 0;
    }
    if ((rc = find_window(l, start, &e, err)))
        return rc;
    if (n < b->rows) {
        ctr_batchbuf_clear(&l->part);
        if ((rc = ctr_batchbuf_range(&l->part, b, from, n, err)))
            return rc;
        part = *ctr_batchbuf_view(&l->part);
        part.first_row = b->first_row + from;
    }
    return ctr_eval_batch(e, &part, control ? control + from : NULL, err);
}

int ctr_eval_live_batch(struct ctr_eval_live *l, const struct ctr_batch *b, const double *control, struct ctr_err *err)
{
    const struct ctr_col *time = &b->col[l->o.eval.columns.time];
    int64_t from = 0, start = 0;
    int rc = ctr_eval_check_time(b, l->o.eval.columns.time, err);

    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const int64_t t = ctr_col_i64(time, i), at = ctr_eval_window(t, l->window_ms);
        int over = 0;
        if (i > from && at != start) {
            rc = add_rows(l, b, control, start, from, i - from, err);
            from = i;
        }
        start = at;
        if (rc || (l->any && t <= l->latest))
            continue;
        l->any = true;
        l->latest = t;
        while (over < l->n && is_over(l, l->window[over].start))
            over++;
        if (over) /* none of them has rows of this run, whose window is that of the latest row or was closed before
                   */
            rc = close_windows(l, over, err);
    }
    return rc || from == b->rows ? rc : add_rows(l, b, control, start, from, b->rows - from, err);
}

int ctr_eval_live_finish(struct ctr_eval_live *l, struct ctr_err *err)
{
    return close_windows(l, l->n, err);
}

int64_t ctr_eval_live_late(const struct ctr_eval_live *l)
{
    return l->late;
}
