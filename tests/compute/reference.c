/* SPDX-License-Identifier: Apache-2.0
 *
 * reference: every operation written like its definition in compute.h: scalar loops, accumulators of double, libm, no
 * threads. The other back ends are tested against it; it is not fast, and shares no code with them. */
#include "trial.h"

#include "common/compute/compute_impl.h"

#include <math.h>
#include <stdlib.h>

static float *at(struct ctr_mat m, int64_t i, int64_t j)
{
    return ctr_mat_f32(m) + i * m.stride + j;
}

static double f32_or(struct ctr_vec v, int64_t i, double none)
{
    return v.mem ? (double)ctr_vec_f32(v)[i] : none;
}

static void set_f32(struct ctr_vec v, int64_t i, double x)
{
    if (v.mem)
        ctr_vec_f32(v)[i] = (float)x;
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

/* ---- matrix product, activations ---- */

static double activate(const struct ctr_act *act, double z, int64_t c)
{
    double p;
    switch (act->kind) {
    case CTR_ACT_NONE: return z;
    case CTR_ACT_RELU: return z <= 0 ? 0 : z;
    case CTR_ACT_PRELU: return z > 0 ? z : f32_or(act->alpha, c, 0) * z;
    case CTR_ACT_SIGMOID: return sigmoid(z);
    case CTR_ACT_DICE:
        p = sigmoid((z - f32_or(act->mean, c, 0)) / sqrt(f32_or(act->var, c, 0) + (double)act->eps));
        return p * z + (1 - p) * f32_or(act->alpha, c, 0) * z;
    }
    return NAN;
}

static int act_grad(struct ctr_dev *dev, const struct ctr_dev_act_grad *a, struct ctr_err *err);

static int gemm(struct ctr_dev *dev, const struct ctr_dev_gemm *a, struct ctr_err *err)
{
    const int64_t inner = a->ta ? a->a.rows : a->a.cols;
    const struct ctr_dev_act_grad back = ctr_gemm_back(a);

    for (int64_t i = 0; i < a->c.rows; i++)
        for (int64_t j = 0; j < a->c.cols; j++) {
            double s = a->add ? (double)*at(a->c, i, j) : 0;
            for (int64_t l = 0; l < inner; l++)
                s += (double)*(a->ta ? at(a->a, l, i) : at(a->a, i, l)) *
                     (double)*(a->tb ? at(a->b, j, l) : at(a->b, l, j));
            s += f32_or(a->bias, j, 0);
            if (a->pre.mem)
                *at(a->pre, i, j) = (float)s;
            *at(a->c, i, j) = (float)activate(&a->act, s, j);
        }
    return back.z.mem ? act_grad(dev, &back, err) : 0;
}

static int act(struct ctr_dev *dev, const struct ctr_dev_act *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->z.rows; i++)
        for (int64_t j = 0; j < a->z.cols; j++)
            *at(a->y, i, j) = (float)activate(&a->act, (double)*at(a->z, i, j) + f32_or(a->bias, j, 0), j);
    return 0;
}

/* dy/dz with constant statistics, dy/dalpha, and (DICE) dy/dxhat. */
struct slope {
    double dz, dalpha, dxhat, xhat;
};

static struct slope slope_at(const struct ctr_act *act, double z, int64_t c)
{
    const double alpha = f32_or(act->alpha, c, 0);
    struct slope s = { .dz = 1 };

    if (act->kind == CTR_ACT_RELU)
        s.dz = z <= 0 ? 0 : 1;
    if (act->kind == CTR_ACT_PRELU) {
        s.dz = z > 0 ? 1 : alpha;
        s.dalpha = z > 0 ? 0 : z;
    }
    if (act->kind == CTR_ACT_SIGMOID)
        s.dz = sigmoid(z) * (1 - sigmoid(z));
    if (act->kind == CTR_ACT_DICE) {
        const double root = sqrt(f32_or(act->var, c, 0) + (double)act->eps);
        s.xhat = (z - f32_or(act->mean, c, 0)) / root;
        const double p = sigmoid(s.xhat);
        s.dxhat = z * (1 - alpha) * p * (1 - p);
        s.dz = p + (1 - p) * alpha;
        s.dalpha = (1 - p) * z;
    }
    return s;
}

static int act_grad(struct ctr_dev *dev, const struct ctr_dev_act_grad *a, struct ctr_err *err)
{
    const int64_t rows = a->dy.rows;

    (void)dev, (void)err;
    for (int64_t j = 0; j < a->dy.cols; j++) {
        const double root = sqrt(f32_or(a->act.var, j, 0) + (double)a->act.eps);
        double sum = 0, sum_xhat = 0, dalpha = 0, dbias = 0;
        for (int64_t i = 0; i < rows; i++) {
            struct slope s = slope_at(&a->act, a->z.mem ? (double)*at(a->z, i, j) : 0, j);
            double dy = (double)*at(a->dy, i, j);
            sum += dy * s.dxhat;
            sum_xhat += dy * s.dxhat * s.xhat;
            dalpha += s.dalpha != 0 ? dy * s.dalpha : 0;
        }
        for (int64_t i = 0; i < rows; i++) {
            struct slope s = slope_at(&a->act, a->z.mem ? (double)*at(a->z, i, j) : 0, j);
            double dy = (double)*at(a->dy, i, j),
                   dz = s.dz != 0 ? dy * s.dz : 0; /* 0 where RELU gives 0, even for NaN */
            if (a->act.kind == CTR_ACT_DICE)
                dz += (dy * s.dxhat - (a->batch ? (sum + s.xhat * sum_xhat) / (double)rows : 0)) / root;
            *at(a->dz, i, j) = (float)dz;
            dbias += dz;
        }
        set_f32(a->dalpha, j, dalpha);
        set_f32(a->dbias, j, dbias);
    }
    return 0;
}

/* ---- embeddings ---- */

struct span {
    int64_t from, to;
};

static struct span list_at(const struct ctr_lists *l, int64_t s)
{
    const int32_t *start = ctr_vec_i32(l->start);
    return start ? (struct span){ start[s], start[s + 1] } : (struct span){ s, s + 1 };
}

/* x · row of entry e, at column d. */
static double entry_value(const struct ctr_lists *l, struct ctr_mat rows, int64_t e, int64_t d)
{
    return f32_or(l->x, e, 1) * (double)*at(rows, ctr_vec_i32(l->index)[e], d);
}

/* The entry that MAX selects; the list must not be empty. */
static int64_t largest(const struct ctr_lists *l, struct ctr_mat rows, struct span list, int64_t d)
{
    int64_t best = list.from;
    for (int64_t e = list.from; e < list.to; e++) {
        const float v = (float)entry_value(l, rows, e, d), so_far = (float)entry_value(l, rows, best, d);
        if (isnan(so_far))
            break;
        if (v > so_far || isnan(v))
            best = e;
    }
    return best;
}

/* FM: the inner products of all pairs of the entries' vectors, which start at column 1. */
static double pairs(const struct ctr_lists *l, struct ctr_mat rows, struct span list)
{
    double sum = 0;
    for (int64_t e = list.from; e < list.to; e++)
        for (int64_t f = list.from; f < e; f++)
            for (int64_t d = 1; d < rows.cols; d++)
                sum += entry_value(l, rows, e, d) * entry_value(l, rows, f, d);
    return sum;
}

static int pool(struct ctr_dev *dev, const struct ctr_dev_pool *a, struct ctr_err *err)
{
    const struct ctr_lists *l = &a->lists;
    const int64_t width = a->rows.cols;

    (void)dev, (void)err;
    for (int64_t s = 0; s < l->lists; s++)
        for (int64_t d = 0; d < width; d++) {
            const struct span list = list_at(l, s);
            double v = 0;
            for (int64_t e = list.from; e < list.to; e++)
                v += entry_value(l, a->rows, e, d);
            if (a->how == CTR_POOL_FM && d == 0)
                v += pairs(l, a->rows, list);
            if (a->how == CTR_POOL_MEAN && list.to > list.from)
                v /= (double)(list.to - list.from);
            if (a->how == CTR_POOL_MAX && list.to > list.from)
                v = entry_value(l, a->rows, largest(l, a->rows, list, d), d);
            *at(a->out, s / l->per_row, s % l->per_row * width + d) = (float)v;
        }
    return 0;
}

static int pool_grad(struct ctr_dev *dev, const struct ctr_dev_pool_grad *a, struct ctr_err *err)
{
    const struct ctr_lists *l = &a->lists;
    const int64_t width = a->grad.cols;
    const int32_t *group = ctr_vec_i32(a->group_start), *item = ctr_vec_i32(a->group_item);

    (void)dev, (void)err;
    for (int64_t u = 0; u < a->grad.rows; u++)
        for (int64_t d = 0; d < width; d++) {
            double g = a->add ? (double)*at(a->grad, u, d) : 0, squares = 0;
            for (int64_t i = group[u]; i < group[u + 1]; i++) {
                const int64_t e = item[i] - a->first;
                if (e < 0 || e >= l->index.n) /* of another call */
                    continue;
                const int64_t s = l->start.mem ? ctr_vec_i32(l->segment)[e] : e;
                const struct span list = list_at(l, s);
                double dout = (double)*at(a->dout, s / l->per_row, s % l->per_row * width + d);
                if (a->how == CTR_POOL_MEAN)
                    dout /= (double)(list.to - list.from);
                if (a->how == CTR_POOL_FM && d > 0)
                    dout += (double)*at(a->dout, s / l->per_row, s % l->per_row * width) *
                            ((double)*at(a->out, s / l->per_row, s % l->per_row * width + d) -
                             entry_value(l, a->rows, e, d));
                if (a->how != CTR_POOL_MAX || largest(l, a->rows, list, d) == e)
                    g += f32_or(l->x, e, 1) * dout;
                squares += f32_or(l->x, e, 1) * dout * f32_or(l->x, e, 1) * dout;
            }
            *at(a->grad, u, d) = (float)g;
            if (a->squares.mem)
                *at(a->squares, u, d) = (float)squares;
        }
    return 0;
}

/* ---- target attention ---- */

static struct span segment_at(const struct ctr_segments *s, int64_t r)
{
    const int32_t *start = ctr_vec_i32(s->start);
    return (struct span){ start[r] - s->entry0, start[r + 1] - s->entry0 };
}

static int64_t row_of(const struct ctr_segments *s, int64_t e)
{
    return ctr_vec_i32(s->segment)[e] - s->row0;
}

static int attend_input(struct ctr_dev *dev, const struct ctr_dev_attend_input *a, struct ctr_err *err)
{
    const int64_t width = a->key.cols;

    (void)dev, (void)err;
    for (int64_t e = 0; e < a->key.rows; e++)
        for (int64_t d = 0; d < width; d++) {
            *at(a->out, e, d) = *at(a->key, e, d);
            *at(a->out, e, width + d) =
                (float)((double)*at(a->query, row_of(&a->segments, e), d) * (double)*at(a->key, e, d));
        }
    return 0;
}

static int attend_input_grad(struct ctr_dev *dev, const struct ctr_dev_attend_input_grad *a, struct ctr_err *err)
{
    const int64_t width = a->key.cols;

    (void)dev, (void)err;
    for (int64_t r = 0; r < a->query.rows; r++)
        for (int64_t d = 0; d < width; d++) {
            const struct span row = segment_at(&a->segments, r);
            double sum = 0;
            for (int64_t e = row.from; e < row.to; e++)
                sum += (double)*at(a->key, e, d) * (double)*at(a->dout, e, width + d);
            *at(a->dquery, r, d) = (float)sum;
        }
    for (int64_t e = 0; e < a->key.rows; e++)
        for (int64_t d = 0; d < width; d++) {
            const double q = (double)*at(a->query, row_of(&a->segments, e), d);
            *at(a->dkey, e, d) = (float)((double)*at(a->dkey, e, d) + (double)*at(a->dout, e, d) +
                                         q * (double)*at(a->dout, e, width + d));
        }
    return 0;
}

static void softmax(const struct ctr_dev_attend *a, struct span row)
{
    const float *score = ctr_vec_f32(a->score);
    double largest = -INFINITY, sum = 0;

    for (int64_t e = row.from; e < row.to; e++)
        largest = (double)score[e] > largest || isnan(score[e]) ? (double)score[e] : largest;
    for (int64_t e = row.from; e < row.to; e++)
        sum += exp((double)a->scale * ((double)score[e] - largest));
    for (int64_t e = row.from; e < row.to; e++)
        set_f32(a->share, e, exp((double)a->scale * ((double)score[e] - largest)) / sum);
}

static int attend(struct ctr_dev *dev, const struct ctr_dev_attend *a, struct ctr_err *err)
{
    const struct ctr_vec weight = a->softmax ? a->share : a->score;

    (void)dev, (void)err;
    for (int64_t r = 0; r < a->out.rows; r++) {
        const struct span row = segment_at(&a->segments, r);
        if (a->softmax)
            softmax(a, row);
        for (int64_t d = 0; d < a->out.cols; d++) {
            double sum = 0;
            for (int64_t e = row.from; e < row.to; e++)
                sum += f32_or(weight, e, 1) * (double)*at(a->value, e, d);
            *at(a->out, r, d) = (float)sum;
        }
    }
    return 0;
}

static double product_with_dout(const struct ctr_dev_attend_grad *a, int64_t e, int64_t r)
{
    double sum = 0;
    for (int64_t d = 0; d < a->value.cols; d++)
        sum += (double)*at(a->dout, r, d) * (double)*at(a->value, e, d);
    return sum;
}

static int attend_grad(struct ctr_dev *dev, const struct ctr_dev_attend_grad *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t r = 0; r < a->dout.rows; r++) {
        const struct span row = segment_at(&a->segments, r);
        double mean = 0;
        for (int64_t e = row.from; e < row.to && a->softmax; e++)
            mean += f32_or(a->share, e, 0) * product_with_dout(a, e, r);
        for (int64_t e = row.from; e < row.to; e++) {
            const double share = f32_or(a->share, e, 0), g = product_with_dout(a, e, r);
            set_f32(a->dscore, e, a->softmax ? (double)a->scale * share * (g - mean) : g);
            for (int64_t d = 0; d < a->value.cols && a->dvalue.mem; d++)
                *at(a->dvalue, e, d) = (float)(share * (double)*at(a->dout, r, d));
        }
    }
    return 0;
}

static int move_rows(struct ctr_dev *dev, const struct ctr_dev_move_rows *a, struct ctr_err *err)
{
    const int32_t *from = ctr_vec_i32(a->from_index), *to = ctr_vec_i32(a->to_index);

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t f = from ? from[i] : i, t = to ? to[i] : i;
        for (int64_t j = 0; j < a->from.cols && f >= 0 && t >= 0; j++)
            *at(a->to, t, j) = *at(a->from, f, j);
    }
    return 0;
}

/* ---- elementwise ---- */

static int copy(struct ctr_dev *dev, const struct ctr_dev_copy *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->from.rows; i++)
        for (int64_t j = 0; j < a->from.cols; j++)
            *at(a->to, i, j) = *at(a->from, i, j);
    return 0;
}

static int axpby(struct ctr_dev *dev, const struct ctr_dev_axpby *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++)
            *at(a->y, i, j) = (float)((double)a->a * (double)*at(a->x, i, j) +
                                      (a->b != 0 ? (double)a->b * (double)*at(a->y, i, j) : 0));
    return 0;
}

static int fill(struct ctr_dev *dev, const struct ctr_dev_fill *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++)
            *at(a->x, i, j) = a->value;
    return 0;
}

static int row_dot(struct ctr_dev *dev, const struct ctr_dev_row_dot *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->a.rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < a->a.cols; j++)
            sum += (double)*at(a->a, i, j) * (double)*at(a->b, i, j);
        ctr_vec_f32(a->y)[i] = (float)(sum + (a->bias.mem ? (double)*ctr_vec_f32(a->bias) : 0));
    }
    return 0;
}

static int row_scale(struct ctr_dev *dev, const struct ctr_dev_row_scale *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++)
            *at(a->y, i, j) = (float)((double)ctr_vec_f32(a->s)[i] * (double)*at(a->x, i, j));
    return 0;
}

static int dropout(struct ctr_dev *dev, const struct ctr_dev_dropout *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++) {
            const uint64_t counter = (uint64_t)(a->row0 + i) * (uint64_t)a->x.cols + (uint64_t)j;
            const uint64_t bits = ctr_random64(a->seed, a->stream, counter) >> 40;
            const bool keep = (double)bits * 0x1p-24 >= (double)a->rate;
            *at(a->y, i, j) = (float)((double)*at(a->x, i, j) * (keep ? 1 / (1 - (double)a->rate) : 0));
        }
    return 0;
}

/* ---- crosses of features ---- */

static int cross(struct ctr_dev *dev, const struct ctr_dev_cross *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->y.rows; i++)
        for (int64_t j = 0; j < a->y.cols; j++)
            *at(a->y, i, j) = (float)((double)*at(a->x0, i, j) * (double)*at(a->z, i, j) + (double)*at(a->x, i, j));
    return 0;
}

static int cross_grad(struct ctr_dev *dev, const struct ctr_dev_cross_grad *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->dy.rows; i++)
        for (int64_t j = 0; j < a->dy.cols; j++) {
            const double dy = (double)*at(a->dy, i, j);
            *at(a->dx0, i, j) = (float)((a->add ? (double)*at(a->dx0, i, j) : 0) + dy * (double)*at(a->z, i, j));
            *at(a->dz, i, j) = (float)(dy * (double)*at(a->x0, i, j));
        }
    return 0;
}

static int dots(struct ctr_dev *dev, const struct ctr_dev_dots *a, struct ctr_err *err)
{
    const int64_t width = a->x.cols / a->fields;

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t f = 0; f < a->fields; f++)
            for (int64_t g = 0; g < f; g++) {
                double sum = 0;
                for (int64_t d = 0; d < width; d++)
                    sum += (double)*at(a->x, i, f * width + d) * (double)*at(a->x, i, g * width + d);
                *at(a->out, i, f * (f - 1) / 2 + g) = (float)sum;
            }
    return 0;
}

static int dots_grad(struct ctr_dev *dev, const struct ctr_dev_dots_grad *a, struct ctr_err *err)
{
    const int64_t width = a->x.cols / a->fields;

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++) {
            const int64_t f = j / width;
            double sum = 0;
            for (int64_t g = 0; g < a->fields; g++) {
                const int64_t pair = g < f ? f * (f - 1) / 2 + g : g * (g - 1) / 2 + f;
                if (g != f)
                    sum += (double)*at(a->dout, i, pair) * (double)*at(a->x, i, g * width + j % width);
            }
            *at(a->dx, i, j) = (float)sum;
        }
    return 0;
}

/* ---- batch normalization ---- */

static int stats(struct ctr_dev *dev, const struct ctr_dev_stats *a, struct ctr_err *err)
{
    const double rows = CTR_MAX((double)a->x.rows, 1);

    (void)dev, (void)err;
    for (int64_t j = 0; j < a->x.cols; j++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < a->x.rows; i++)
            mean += (double)*at(a->x, i, j) / rows;
        for (int64_t i = 0; i < a->x.rows; i++)
            var += ((double)*at(a->x, i, j) - mean) * ((double)*at(a->x, i, j) - mean) / rows;
        set_f32(a->mean, j, mean);
        set_f32(a->var, j, var);
    }
    return 0;
}

static int norm(struct ctr_dev *dev, const struct ctr_dev_norm *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++) {
            const double xhat =
                ((double)*at(a->x, i, j) - f32_or(a->mean, j, 0)) / sqrt(f32_or(a->var, j, 0) + (double)a->eps);
            *at(a->y, i, j) = (float)(f32_or(a->gamma, j, 1) * xhat + f32_or(a->beta, j, 0));
        }
    return 0;
}

static int norm_grad(struct ctr_dev *dev, const struct ctr_dev_norm_grad *a, struct ctr_err *err)
{
    const double rows = (double)a->x.rows;

    (void)dev, (void)err;
    for (int64_t j = 0; j < a->x.cols; j++) {
        const double mean = f32_or(a->mean, j, 0), root = sqrt(f32_or(a->var, j, 0) + (double)a->eps);
        double dgamma = 0, dbeta = 0;
        for (int64_t i = 0; i < a->x.rows; i++) {
            dgamma += (double)*at(a->dy, i, j) * ((double)*at(a->x, i, j) - mean) / root;
            dbeta += (double)*at(a->dy, i, j);
        }
        for (int64_t i = 0; i < a->x.rows; i++) {
            const double xhat = ((double)*at(a->x, i, j) - mean) / root;
            *at(a->dx, i, j) =
                (float)(f32_or(a->gamma, j, 1) / root * ((double)*at(a->dy, i, j) - (dbeta + xhat * dgamma) / rows));
        }
        set_f32(a->dgamma, j, dgamma);
        set_f32(a->dbeta, j, dbeta);
    }
    return 0;
}

/* ---- loss, optimizers ---- */

static int bce(struct ctr_dev *dev, const struct ctr_dev_bce *a, struct ctr_err *err)
{
    double total = 0;

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->z.n; i++) {
        const double z = (double)ctr_vec_f32(a->z)[i], label = (double)ctr_vec_f32(a->label)[i];
        const double w = f32_or(a->weight, i, 1), p = sigmoid(z);
        const double loss = w * ((z > 0 ? z : 0) + log1p(exp(-fabs(z))) - label * z);
        total += loss;
        set_f32(a->p, i, p);
        set_f32(a->loss, i, loss);
        set_f32(a->dz, i, (double)a->scale * w * (p - label));
    }
    if (a->total.mem)
        *ctr_vec_f64(a->total) = total;
    return 0;
}

/* squares NULL: g². */
static void step(const struct ctr_dev_opt *o, double g, const float *squares, double l2, float *w, float *s1, float *s2)
{
    const double rate = (double)o->rate, b1 = (double)o->beta1, b2 = (double)o->beta2, t = (double)o->step;
    double z, n, sigma;

    if (o->kind != CTR_OPT_FTRL)
        g += l2 * (double)*w;
    switch (o->kind) {
    case CTR_OPT_SGD: *w = (float)((double)*w - rate * g); break;
    case CTR_OPT_ADAGRAD:
        *s1 = (float)((double)*s1 + g * g);
        *w = (float)((double)*w - rate * g / (sqrt((double)*s1) + (double)o->eps));
        break;
    case CTR_OPT_ADAM:
        *s1 = (float)(b1 * (double)*s1 + (1 - b1) * g);
        *s2 = (float)(b2 * (double)*s2 + (1 - b2) * g * g);
        *w = (float)((double)*w - rate / (1 - pow(b1, t)) * (double)*s1 /
                                      (sqrt((double)*s2) / sqrt(1 - pow(b2, t)) + (double)o->eps));
        break;
    case CTR_OPT_FTRL:
        n = (double)*s2 + (squares ? (double)*squares : g * g);
        sigma = (sqrt(n) - sqrt((double)*s2)) / rate;
        z = (double)*s1 + g - sigma * (double)*w;
        *s1 = (float)z;
        *s2 = (float)n;
        *w = fabs(z) <= (double)o->l1
                 ? 0
                 : (float)(-(z - (z > 0 ? 1 : -1) * (double)o->l1) / (((double)o->beta + sqrt(n)) / rate + l2));
        break;
    }
}

static int opt_dense(struct ctr_dev *dev, const struct ctr_dev_opt_dense *a, struct ctr_err *err)
{
    float none = 0, *s1 = ctr_vec_f32(a->s1), *s2 = ctr_vec_f32(a->s2);

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->w.n; i++)
        step(&a->opt, (double)ctr_vec_f32(a->g)[i], NULL, (double)a->opt.l2, ctr_vec_f32(a->w) + i, s1 ? s1 + i : &none,
             s2 ? s2 + i : &none);
    return 0;
}

static int opt_rows(struct ctr_dev *dev, const struct ctr_dev_opt_rows *a, struct ctr_err *err)
{
    const int64_t width = a->g.cols;
    const int states = ctr_opt_states(a->opt.kind);
    float none = 0;

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->g.rows; i++) {
        const int64_t row = a->index.mem ? ctr_vec_i32(a->index)[i] : i;
        for (int64_t d = 0; d < width && row >= 0; d++)
            step(&a->opt, (double)*at(a->g, i, d), a->squares.mem ? at(a->squares, i, d) : NULL,
                 (double)a->opt.l2 + f32_or(a->l2_row, i, 0), at(a->rows, row, d),
                 states > 0 ? at(a->rows, row, width + d) : &none,
                 states > 1 ? at(a->rows, row, 2 * width + d) : &none);
    }
    return 0;
}

/* ---- keys ---- */

/* The slot that holds the key in its set, or -1; *oldest: the slot that it may take, or -1. */
static int64_t find_slot(const struct ctr_dev_slots *a, uint64_t want, int64_t *oldest)
{
    const uint64_t *key = ctr_vec_u64(a->key);
    const uint32_t *stamp = ctr_vec_u32(a->stamp);
    const int64_t set = (int64_t)(ctr_mix64(want) % (uint64_t)(a->key.n / 8)) * 8;

    *oldest = -1;
    for (int64_t s = set; s < set + 8; s++) {
        if (stamp[s] && key[s] == want)
            return s;
        if (stamp[s] != a->now && (*oldest < 0 || stamp[s] < stamp[*oldest]))
            *oldest = s;
    }
    return -1;
}

static uint64_t wanted(const struct ctr_dev_slots *a, int64_t i)
{
    const uint64_t *want = ctr_vec_u64(a->want), *salt = ctr_vec_u64(a->salt);
    const int32_t *part = ctr_vec_i32(a->part);
    int64_t p = 0;
    while (part && i >= part[3 * p])
        p++;
    const int64_t begin = p ? part[3 * p - 3] : 0;
    return !salt  ? want[i]
           : part ? ctr_mix64(want[i] ^ salt[part[3 * p + 1] + (i - begin) % part[3 * p + 2]])
                  : ctr_mix64(want[i] ^ salt[i % a->salt.n]);
}

/* The first entry with the key of entry i. */
static int64_t first_of(const struct ctr_dev_slots *a, int64_t i)
{
    int64_t first = 0;
    while (wanted(a, first) != wanted(a, i))
        first++;
    return first;
}

/* The entries of each key, by the first one of each. */
static void group(const struct ctr_dev_slots *a)
{
    int32_t *start = ctr_vec_i32(a->group_start), *item = ctr_vec_i32(a->group_item), *slot = ctr_vec_i32(a->slot);
    int32_t next = 0, groups = 0;
    for (int32_t i = 0; i < a->want.n; i++) {
        const int64_t first = first_of(a, i);
        slot[i] = slot[first];
        if (first != i)
            continue;
        ctr_vec_i32(a->group_slot)[groups] = slot[i];
        start[groups++] = next;
        for (int32_t e = i; e < a->want.n; e++)
            if (wanted(a, e) == wanted(a, i))
                item[next++] = e;
    }
    start[groups] = next;
    *a->groups = groups;
}

static int slots(struct ctr_dev *dev, const struct ctr_dev_slots *a, struct ctr_err *err)
{
    uint64_t *key = ctr_vec_u64(a->key);
    uint32_t *stamp = ctr_vec_u32(a->stamp);
    int32_t *slot = ctr_vec_i32(a->slot);
    int64_t oldest, misses = 0, evictions = 0, failures = 0;
    const bool groups = a->group_start.mem;

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->want.n; i++) {
        slot[i] = (int32_t)find_slot(a, wanted(a, i), &oldest);
        if (slot[i] >= 0)
            stamp[slot[i]] = a->now;
    }
    for (int64_t i = 0; i < a->want.n; i++) {
        if (slot[i] >= 0 || (groups && first_of(a, i) != i))
            continue;
        find_slot(a, wanted(a, i), &oldest);
        ctr_vec_i32(a->missed)[misses] = (int32_t)i;
        if (a->missed_want.mem)
            ctr_vec_u64(a->missed_want)[misses] = ctr_vec_u64(a->want)[i];
        ctr_vec_i32(a->missed_slot)[misses++] = (int32_t)oldest;
        slot[i] = (int32_t)oldest;
        if (oldest < 0) {
            failures++;
            continue;
        }
        if (stamp[oldest])
            ctr_vec_i32(a->evicted_slot)[evictions++] = (int32_t)oldest;
        key[oldest] = wanted(a, i);
        stamp[oldest] = a->now;
    }
    if (groups)
        group(a);
    *a->misses = misses;
    *a->evictions = evictions;
    *a->failures = failures;
    return 0;
}

static int take_items(struct ctr_dev *dev, const struct ctr_dev_take_items *a, struct ctr_err *err)
{
    const int32_t *start = ctr_vec_i32(a->start);
    (void)dev, (void)err;
    for (int64_t k = 0; k < a->to.n; k++)
        for (int64_t l = 0; l < a->item.n; l++)
            if (k >= start[l] && k < start[l + 1]) {
                const int64_t item = ctr_vec_i32(a->item)[l];
                ctr_vec_u64(a->to)[k] = item < 0 ? a->none : ctr_vec_u64(a->from)[item + k - start[l]];
                if (a->segment.mem)
                    ctr_vec_i32(a->segment)[k] = (int32_t)(a->first + l);
            }
    return 0;
}

static int item_digests(struct ctr_dev *dev, const struct ctr_dev_item_digests *a, struct ctr_err *err)
{
    (void)dev, (void)err;
    for (int64_t l = 0; l < a->item.n; l++)
        for (int k = 0; k < 2; k++) {
            const int64_t item = ctr_vec_i32(a->item)[l], n = item < 0 ? 1 : ctr_vec_i32(a->count)[l];
            uint64_t h = ctr_mix64(a->seed[k] ^ (uint64_t)n);
            for (int64_t i = 0; i < n; i++)
                h = ctr_mix64(h ^ (item < 0 ? a->none : ctr_vec_u64(a->from)[item + i]));
            ctr_vec_u64(a->out)[2 * l + k] = h;
        }
    return 0;
}

/* ---- reductions ---- */

static int reduce(struct ctr_dev *dev, const struct ctr_dev_reduce *a, struct ctr_err *err)
{
    double out = a->kind == CTR_REDUCE_NONFINITE ? -1 : 0;

    (void)dev, (void)err;
    for (int64_t i = 0; i < a->x.rows; i++)
        for (int64_t j = 0; j < a->x.cols; j++) {
            const double x = (double)*at(a->x, i, j);
            switch (a->kind) {
            case CTR_REDUCE_SUM: out += x; break;
            case CTR_REDUCE_SUM_SQUARES: out += x * x; break;
            case CTR_REDUCE_MAX_ABS: out = isnan(x) || fabs(x) > out ? fabs(x) : out; break;
            case CTR_REDUCE_NONFINITE: out = out < 0 && !isfinite(x) ? (double)i : out; break;
            }
        }
    *ctr_vec_f64(a->out) = out;
    return 0;
}

/* ---- images ---- */

static double convolve(const struct ctr_dev_conv *a, int64_t image, int64_t i, int64_t j, int64_t o)
{
    double s = 0;
    for (int64_t u = 0; u < a->size; u++)
        for (int64_t v = 0; v < a->size; v++)
            for (int64_t c = 0; c < a->x.cols; c++) {
                const int64_t line = i * a->stride + u - a->pad, column = j * a->stride + v - a->pad;
                const bool inside = line >= 0 && line < a->height && column >= 0 && column < a->width;
                const float *x = inside ? at(a->x, (image * a->height + line) * a->width + column, c) : NULL;
                s += (double)*at(a->w, (u * a->size + v) * a->x.cols + c, o) * (x ? (double)*x : 0);
            }
    return activate(&a->act, s + f32_or(a->bias, o, 0), o);
}

static int conv(struct ctr_dev *dev, const struct ctr_dev_conv *a, struct ctr_err *err)
{
    const int64_t lines = ctr_conv_side(a->height, a->size, a->stride, a->pad);
    const int64_t columns = ctr_conv_side(a->width, a->size, a->stride, a->pad);

    (void)dev, (void)err;
    for (int64_t r = 0; r < a->y.rows; r++)
        for (int64_t o = 0; o < a->y.cols; o++)
            *at(a->y, r, o) = (float)convolve(a, r / (lines * columns), r / columns % lines, r % columns, o);
    return 0;
}

static int max_pool(struct ctr_dev *dev, const struct ctr_dev_max_pool *a, struct ctr_err *err)
{
    const int64_t lines = ctr_conv_side(a->height, a->size, a->stride, 0);
    const int64_t columns = ctr_conv_side(a->width, a->size, a->stride, 0);

    (void)dev, (void)err;
    for (int64_t r = 0; r < a->y.rows; r++)
        for (int64_t c = 0; c < a->y.cols; c++) {
            const int64_t image = r / (lines * columns), i = r / columns % lines, j = r % columns;
            const int64_t first = (image * a->height + i * a->stride) * a->width + j * a->stride;
            float best = *at(a->x, first, c);
            for (int64_t w = 0; w < a->size * a->size; w++) {
                const float x = *at(a->x, first + w / a->size * a->width + w % a->size, c);
                best = x > best || isnan(x) ? x : best;
            }
            *at(a->y, r, c) = best;
        }
    return 0;
}

#define SLOT(name) .name = name,
const struct ctr_ops ctr_ops_reference = {
    .name = "reference", .open = ctr_host_open, .close = ctr_host_close, CTR_HOST_SLOTS, CTR_DEV_OPS(SLOT)
};
