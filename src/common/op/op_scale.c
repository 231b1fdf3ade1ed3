/* SPDX-License-Identifier: Apache-2.0
 *
 * op_scale: the fitted operators standardize, minmax and log_scale, which bring numbers to a common range. Mean and
 * variance are kept row by row (Welford 1962), so that they do not depend on batches, and large means cost no digits.
 * Null, NaN and infinities have no part in the fit. */
#include "common/op/loop_scale.h"
#include "common/op/opfit.h"

#include <math.h>
#include <stdlib.h>

struct scaling {
    struct op_scale use;  /* the parameters of the loops, first */
    int64_t n;            /* values seen */
    bool read;            /* `use` is from a section */
    double mean, squares; /* squares: the sum of (x - mean)^2 */
    double low, high;
};

int ctr_scale_prepare(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    (void)call;
    s->param = calloc(1, sizeof(struct scaling));
    s->param_free = free;
    s->param_bytes = sizeof(struct op_scale);
    return s->param ? 0 : ctr_fail_nomem(err, sizeof(struct scaling));
}

/* ---- fitting ---- */

static void see(struct scaling *s, double x)
{
    const double d = x - s->mean;

    s->low = s->n ? CTR_MIN(s->low, x) : x;
    s->high = s->n ? CTR_MAX(s->high, x) : x;
    s->mean += d / (double)++s->n;
    s->squares += d * (x - s->mean);
}

static int fit_tile(void *state, struct ctr_op_tile *t, struct ctr_err *err)
{
    const double *a = t->in[0].v;

    (void)err;
    for (int i = 0; i < t->n; i++)
        if (t->ok[i] && isfinite(a[i]))
            see(state, a[i]);
    return 0;
}

static int fit_log_tile(void *state, struct ctr_op_tile *t, struct ctr_err *err)
{
    const double *a = t->in[0].v;

    (void)err;
    for (int i = 0; i < t->n; i++)
        if (t->ok[i] && isfinite(a[i]))
            see(state, op_signed_log(a[i]));
    return 0;
}

static int finish(struct scaling *s, double from, double by, struct ctr_err *err)
{
    if (s->read)
        return 0;
    s->use = (struct op_scale){ from, by };
    if (isfinite(from) && isfinite(by))
        return 0;
    return ctr_fail(err, CTR_EDATA, "the values from %g to %g are too far apart to be scaled: clip(x, low, high) first",
                    s->low, s->high);
}

static int finish_deviation(void *state, struct ctr_err *err)
{
    struct scaling *s = state;

    return finish(s, s->mean, s->n ? sqrt(s->squares / (double)s->n) : 0, err);
}

static int finish_range(void *state, struct ctr_err *err)
{
    struct scaling *s = state;

    return finish(s, s->low, s->high - s->low, err);
}

/* ---- states ---- */

static int64_t memory(const void *state)
{
    (void)state;
    return sizeof(struct scaling);
}

static int save(const void *state, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    const struct scaling *s = state;
    int rc = ctr_colbuf_f64(&rows->col[0], s->use.from, err);

    return rc ? rc : ctr_colbuf_f64(&rows->col[1], s->use.by, err);
}

static int load(void *state, const struct ctr_batch *b, struct ctr_err *err)
{
    struct scaling *s = state;

    for (int64_t i = 0; i < b->rows; i++) {
        const double from = ctr_col_missing(&b->col[0], i) ? NAN : ctr_col_f64(&b->col[0], i);
        const double by = ctr_col_missing(&b->col[1], i) ? NAN : ctr_col_f64(&b->col[1], i);
        if (s->read || !isfinite(from) || !isfinite(by) || by < 0)
            return ctr_fail(err, CTR_EDATA, "row %lld of a fitted scale: it has one row of two finite numbers",
                            (long long)(b->first_row + i + 1));
        s->use = (struct op_scale){ from, by };
        s->read = true;
    }
    return 0;
}

static const struct ctr_fitted_column deviation_columns[] = { { "mean", CTR_F64 }, { "deviation", CTR_F64 } },
                                      range_columns[] = { { "minimum", CTR_F64 }, { "range", CTR_F64 } };
const struct ctr_fitted ctr_fitted_standardize = {
    fit_tile, finish_deviation, memory, deviation_columns, 2, save, load,
};
const struct ctr_fitted ctr_fitted_minmax = {
    fit_tile, finish_range, memory, range_columns, 2, save, load,
};
const struct ctr_fitted ctr_fitted_log_scale = {
    fit_log_tile, finish_deviation, memory, deviation_columns, 2, save, load,
};
