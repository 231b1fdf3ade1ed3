/* SPDX-License-Identifier: Apache-2.0
 *
 * check: the calls of compute.h. Each checks shapes and bounds of its operands, reports what does not fit, and calls
 * the back end's slot; so back ends need no checks. */
#include "common/compute/compute_impl.h"

const char *ctr_dev_op_name(enum ctr_dev_op op)
{
#define NAME(name) #name,
    static const char *const names[] = { CTR_DEV_OPS(NAME) };
#undef NAME
    return names[op];
}

double ctr_dev_seconds(const struct ctr_dev *dev, enum ctr_dev_op op)
{
    return dev->seconds[op];
}

/* ---- operands ---- */

struct check {
    const struct ctr_dev *dev;
    const char *op;
    struct ctr_err *err;
    int code; /* of the first operand that does not fit, or 0 */
};

static void refuse_place(struct check *k, const char *name, const char *why)
{
    k->code = ctr_fail(k->err, CTR_EUSAGE, "%s: operand %s %s", k->op, name, why);
}

/* Are elements [at, at + n) of `size` bytes inside the buffer, and is the buffer on this device? */
static void check_place(struct check *k, const char *name, const struct ctr_mem *mem, int64_t at, int64_t n, int size)
{
    if (n == 0)
        return;
    if (!mem)
        refuse_place(k, name, "is missing");
    else if (mem->dev != k->dev)
        refuse_place(k, name, "lies on another device");
    else if (at < 0 || n < 0 || (uint64_t)at + (uint64_t)n > mem->bytes / (size_t)size)
        k->code = ctr_fail(k->err, CTR_EUSAGE, "%s: operand %s takes elements %lld … %lld of a buffer of %zu", k->op,
                           name, (long long)at, (long long)(at + n), mem->bytes / (size_t)size);
}

static void mat(struct check *k, const char *name, struct ctr_mat m, int64_t rows, int64_t cols)
{
    if (k->code)
        return;
    if (m.rows != rows || m.cols != cols) {
        k->code = ctr_fail(k->err, CTR_EUSAGE, "%s: operand %s is %lld x %lld where %lld x %lld fits", k->op, name,
                           (long long)m.rows, (long long)m.cols, (long long)rows, (long long)cols);
        return;
    }
    if (rows < 0 || cols < 0 || (rows > 1 && m.stride < cols))
        refuse_place(k, name, "has rows that overlap");
    else if (rows && cols && (rows - 1) > (INT64_MAX / 8 - cols) / CTR_MAX(m.stride, 1))
        refuse_place(k, name, "is too large");
    else
        check_place(k, name, m.mem, m.at, rows && cols ? (rows - 1) * m.stride + cols : 0, 4);
}

static void vec(struct check *k, const char *name, struct ctr_vec v, int64_t n, int size)
{
    if (k->code)
        return;
    if (v.n != n)
        k->code = ctr_fail(k->err, CTR_EUSAGE, "%s: operand %s has %lld elements where %lld fit", k->op, name,
                           (long long)v.n, (long long)n);
    else
        check_place(k, name, v.mem, v.at, n, size);
}

static void optional(struct check *k, const char *name, struct ctr_vec v, int64_t n, int size)
{
    if (v.mem)
        vec(k, name, v, n, size);
}

static void refuse(struct check *k, bool bad, const char *why)
{
    if (!k->code && bad)
        k->code = ctr_fail(k->err, CTR_EUSAGE, "%s: %s", k->op, why);
}

static void shaped(struct check *k, const char *name, struct ctr_mat m)
{
    mat(k, name, m, m.rows, m.cols);
}

static void sized(struct check *k, const char *name, struct ctr_vec v, int size)
{
    vec(k, name, v, v.n, size);
}

/* For example, ctr_dev_row_dot with a of 3 x 4 and b of 3 x 5:
 *
 *     shaped(a)         a may have any shape: it decides what the others have
 *     mat(b, 3 x 4)     "row_dot: operand b is 3 x 5 where 3 x 4 fits", CTR_EUSAGE; `code` is set
 *     vec(y, 3)         returns at once: the first operand that does not fit is the one that is reported
 *
 * Where all fit, CALL at the end of this file sets the float mode (subnormals are flushed), calls ops->row_dot, and
 * with a profile waits for it and adds its time. A new operation is one row of CTR_DEV_OPS and one check_ function
 * here, and its slot in each back end. */

/* ---- the operations' operands, one function each ---- */

static void check_activation(struct check *k, const struct ctr_act *act, int64_t cols)
{
    refuse(k, (unsigned)act->kind > CTR_ACT_DICE, "unknown activation");
    if (act->kind == CTR_ACT_PRELU || act->kind == CTR_ACT_DICE)
        vec(k, "act.alpha", act->alpha, cols, 4);
    if (act->kind == CTR_ACT_DICE) {
        vec(k, "act.mean", act->mean, cols, 4);
        vec(k, "act.var", act->var, cols, 4);
    }
}

static void check_gemm(struct check *k, const struct ctr_dev_gemm *a)
{
    const int64_t m = a->ta ? a->a.cols : a->a.rows, inner = a->ta ? a->a.rows : a->a.cols;
    const int64_t n = a->tb ? a->b.rows : a->b.cols;

    shaped(k, "a", a->a);
    mat(k, "b", a->b, a->tb ? n : inner, a->tb ? inner : n);
    mat(k, "c", a->c, m, n);
    optional(k, "bias", a->bias, n, 4);
    check_activation(k, &a->act, n);
    if (a->pre.mem)
        mat(k, "pre", a->pre, m, n);
    if (!a->back.z.mem)
        return;
    mat(k, "back.z", a->back.z, m, n);
    refuse(k, a->bias.mem || a->pre.mem || a->act.kind != CTR_ACT_NONE, "back goes without bias, pre and act");
    refuse(k, a->back.act.kind == CTR_ACT_DICE, "back takes no DICE: its gradient is act_grad's");
    check_activation(k, &a->back.act, n);
    optional(k, "back.dalpha", a->back.dalpha, n, 4);
    optional(k, "back.dbias", a->back.dbias, n, 4);
}

static void check_act(struct check *k, const struct ctr_dev_act *a)
{
    shaped(k, "z", a->z);
    mat(k, "y", a->y, a->z.rows, a->z.cols);
    optional(k, "bias", a->bias, a->z.cols, 4);
    check_activation(k, &a->act, a->z.cols);
}

static void check_act_grad(struct check *k, const struct ctr_dev_act_grad *a)
{
    shaped(k, "dy", a->dy);
    if (a->act.kind != CTR_ACT_NONE)
        mat(k, "z", a->z, a->dy.rows, a->dy.cols);
    mat(k, "dz", a->dz, a->dy.rows, a->dy.cols);
    check_activation(k, &a->act, a->dy.cols);
    optional(k, "dalpha", a->dalpha, a->dy.cols, 4);
    optional(k, "dbias", a->dbias, a->dy.cols, 4);
}

static void check_lists(struct check *k, const struct ctr_lists *l, bool segments)
{
    refuse(k, l->lists < 0 || l->per_row < 1 || l->lists % CTR_MAX(l->per_row, 1) != 0,
           "lists is no multiple of per_row");
    sized(k, "lists.index", l->index, 4);
    if (l->start.mem) {
        vec(k, "lists.start", l->start, l->lists + 1, 4);
        if (segments)
            vec(k, "lists.segment", l->segment, l->index.n, 4);
    } else {
        refuse(k, l->index.n != l->lists, "lists.index needs an entry a list where there is no lists.start");
    }
    optional(k, "lists.x", l->x, l->index.n, 4);
    refuse(k, l->index.n > INT32_MAX || l->lists > INT32_MAX - 1, "more than 2^31 entries");
}

static void check_pool(struct check *k, const struct ctr_dev_pool *a)
{
    refuse(k, (unsigned)a->how > CTR_POOL_FM, "unknown pooling");
    check_lists(k, &a->lists, false);
    shaped(k, "rows", a->rows);
    refuse(k, a->how == CTR_POOL_FM && a->rows.cols < 1, "FM needs a column of weights");
    if (!k->code)
        mat(k, "out", a->out, a->lists.lists / a->lists.per_row, a->lists.per_row * a->rows.cols);
}

static void check_pool_grad(struct check *k, const struct ctr_dev_pool_grad *a)
{
    refuse(k, (unsigned)a->how > CTR_POOL_FM, "unknown pooling");
    check_lists(k, &a->lists, true);
    shaped(k, "grad", a->grad);
    refuse(k, a->how == CTR_POOL_FM && a->grad.cols < 1, "FM needs a column of weights");
    if (a->how == CTR_POOL_MAX || a->how == CTR_POOL_FM)
        mat(k, "rows", a->rows, a->rows.rows, a->grad.cols);
    vec(k, "group_start", a->group_start, a->grad.rows + 1, 4);
    refuse(k, a->first < 0 || a->first > a->group_item.n - a->lists.index.n, "groups have fewer entries");
    vec(k, "group_item", a->group_item, a->group_item.n, 4);
    if (!k->code)
        mat(k, "dout", a->dout, a->lists.lists / a->lists.per_row, a->lists.per_row * a->grad.cols);
    if (!k->code && a->how == CTR_POOL_FM)
        mat(k, "out", a->out, a->lists.lists / a->lists.per_row, a->lists.per_row * a->grad.cols);
    if (a->squares.mem)
        mat(k, "squares", a->squares, a->grad.rows, a->grad.cols);
    refuse(k, a->squares.mem && a->how != CTR_POOL_SUM, "squares are those of sums");
}

/* Sequences of so many rows and entries. */
static void check_segments(struct check *k, const struct ctr_segments *s, int64_t rows, int64_t entries)
{
    vec(k, "segments.start", s->start, rows + 1, 4);
    vec(k, "segments.segment", s->segment, entries, 4);
    refuse(k, s->row0 < 0 || s->entry0 < 0, "segments begin before row or entry 0");
    refuse(k, entries > INT32_MAX || rows > INT32_MAX - 1, "more than 2^31 entries");
}

static void check_attend_input(struct check *k, const struct ctr_dev_attend_input *a)
{
    check_segments(k, &a->segments, a->query.rows, a->key.rows);
    shaped(k, "key", a->key);
    mat(k, "query", a->query, a->query.rows, a->key.cols);
    mat(k, "out", a->out, a->key.rows, 2 * a->key.cols);
}

static void check_attend_input_grad(struct check *k, const struct ctr_dev_attend_input_grad *a)
{
    check_segments(k, &a->segments, a->query.rows, a->key.rows);
    shaped(k, "key", a->key);
    mat(k, "query", a->query, a->query.rows, a->key.cols);
    mat(k, "dout", a->dout, a->key.rows, 2 * a->key.cols);
    mat(k, "dquery", a->dquery, a->query.rows, a->key.cols);
    mat(k, "dkey", a->dkey, a->key.rows, a->key.cols);
}

static void check_attend(struct check *k, const struct ctr_dev_attend *a)
{
    check_segments(k, &a->segments, a->out.rows, a->value.rows);
    shaped(k, "value", a->value);
    mat(k, "out", a->out, a->out.rows, a->value.cols);
    optional(k, "score", a->score, a->value.rows, 4);
    refuse(k, a->softmax && a->value.rows && !a->score.mem, "softmax needs a score");
    refuse(k, !a->softmax && a->share.mem, "share is that of softmax");
    refuse(k, a->softmax && !(a->scale > 0), "softmax needs a scale above 0");
    if (a->softmax)
        vec(k, "share", a->share, a->value.rows, 4);
}

static void check_attend_grad(struct check *k, const struct ctr_dev_attend_grad *a)
{
    check_segments(k, &a->segments, a->dout.rows, a->value.rows);
    shaped(k, "value", a->value);
    mat(k, "dout", a->dout, a->dout.rows, a->value.cols);
    vec(k, "share", a->share, a->value.rows, 4);
    vec(k, "dscore", a->dscore, a->value.rows, 4);
    refuse(k, a->softmax && !(a->scale > 0), "softmax needs a scale above 0");
    if (a->dvalue.mem)
        mat(k, "dvalue", a->dvalue, a->value.rows, a->value.cols);
}

static void check_move_rows(struct check *k, const struct ctr_dev_move_rows *a)
{
    refuse(k, a->n < 0, "n is negative");
    shaped(k, "from", a->from);
    mat(k, "to", a->to, a->to.rows, a->from.cols);
    optional(k, "from_index", a->from_index, a->n, 4);
    optional(k, "to_index", a->to_index, a->n, 4);
    refuse(k, (!a->from_index.mem && a->from.rows < a->n) || (!a->to_index.mem && a->to.rows < a->n),
           "fewer rows than n");
}

static void check_copy(struct check *k, const struct ctr_dev_copy *a)
{
    shaped(k, "from", a->from);
    mat(k, "to", a->to, a->from.rows, a->from.cols);
}

static void check_axpby(struct check *k, const struct ctr_dev_axpby *a)
{
    shaped(k, "x", a->x);
    mat(k, "y", a->y, a->x.rows, a->x.cols);
}

static void check_fill(struct check *k, const struct ctr_dev_fill *a)
{
    shaped(k, "x", a->x);
}

static void check_row_dot(struct check *k, const struct ctr_dev_row_dot *a)
{
    shaped(k, "a", a->a);
    mat(k, "b", a->b, a->a.rows, a->a.cols);
    optional(k, "bias", a->bias, 1, 4);
    vec(k, "y", a->y, a->a.rows, 4);
}

static void check_row_scale(struct check *k, const struct ctr_dev_row_scale *a)
{
    shaped(k, "x", a->x);
    mat(k, "y", a->y, a->x.rows, a->x.cols);
    vec(k, "s", a->s, a->x.rows, 4);
}

static void check_dropout(struct check *k, const struct ctr_dev_dropout *a)
{
    refuse(k, !(a->rate >= 0 && a->rate < 1), "rate is not in [0, 1)");
    shaped(k, "x", a->x);
    mat(k, "y", a->y, a->x.rows, a->x.cols);
}

static void check_cross(struct check *k, const struct ctr_dev_cross *a)
{
    shaped(k, "x0", a->x0);
    mat(k, "z", a->z, a->x0.rows, a->x0.cols);
    mat(k, "x", a->x, a->x0.rows, a->x0.cols);
    mat(k, "y", a->y, a->x0.rows, a->x0.cols);
}

static void check_cross_grad(struct check *k, const struct ctr_dev_cross_grad *a)
{
    shaped(k, "x0", a->x0);
    mat(k, "z", a->z, a->x0.rows, a->x0.cols);
    mat(k, "dy", a->dy, a->x0.rows, a->x0.cols);
    mat(k, "dz", a->dz, a->x0.rows, a->x0.cols);
    mat(k, "dx0", a->dx0, a->x0.rows, a->x0.cols);
}

static void check_pairs(struct check *k, int64_t fields, struct ctr_mat x, const char *name, struct ctr_mat out)
{
    shaped(k, "x", x);
    refuse(k, fields < 1 || fields > CTR_MAX_DOT_FIELDS, "fields is not in 1 to 1024");
    refuse(k, fields > 0 && x.cols % fields != 0, "the columns of x are no multiple of fields");
    mat(k, name, out, x.rows, fields * (fields - 1) / 2);
}

static void check_dots(struct check *k, const struct ctr_dev_dots *a)
{
    check_pairs(k, a->fields, a->x, "out", a->out);
}

static void check_dots_grad(struct check *k, const struct ctr_dev_dots_grad *a)
{
    check_pairs(k, a->fields, a->x, "dout", a->dout);
    mat(k, "dx", a->dx, a->x.rows, a->x.cols);
}

static void check_stats(struct check *k, const struct ctr_dev_stats *a)
{
    shaped(k, "x", a->x);
    vec(k, "mean", a->mean, a->x.cols, 4);
    vec(k, "var", a->var, a->x.cols, 4);
}

static void check_norm(struct check *k, const struct ctr_dev_norm *a)
{
    shaped(k, "x", a->x);
    mat(k, "y", a->y, a->x.rows, a->x.cols);
    vec(k, "mean", a->mean, a->x.cols, 4);
    vec(k, "var", a->var, a->x.cols, 4);
    optional(k, "gamma", a->gamma, a->x.cols, 4);
    optional(k, "beta", a->beta, a->x.cols, 4);
}

static void check_norm_grad(struct check *k, const struct ctr_dev_norm_grad *a)
{
    shaped(k, "x", a->x);
    mat(k, "dy", a->dy, a->x.rows, a->x.cols);
    mat(k, "dx", a->dx, a->x.rows, a->x.cols);
    vec(k, "mean", a->mean, a->x.cols, 4);
    vec(k, "var", a->var, a->x.cols, 4);
    optional(k, "gamma", a->gamma, a->x.cols, 4);
    optional(k, "dgamma", a->dgamma, a->x.cols, 4);
    optional(k, "dbeta", a->dbeta, a->x.cols, 4);
}

static void check_bce(struct check *k, const struct ctr_dev_bce *a)
{
    sized(k, "z", a->z, 4);
    vec(k, "label", a->label, a->z.n, 4);
    optional(k, "weight", a->weight, a->z.n, 4);
    optional(k, "p", a->p, a->z.n, 4);
    optional(k, "loss", a->loss, a->z.n, 4);
    optional(k, "dz", a->dz, a->z.n, 4);
    optional(k, "total", a->total, 1, 8);
}

static void check_optimizer(struct check *k, const struct ctr_dev_opt *opt)
{
    refuse(k, (unsigned)opt->kind > CTR_OPT_FTRL, "unknown optimizer");
    refuse(k, opt->kind == CTR_OPT_ADAM && opt->step < 1, "step counts from 1");
}

static void check_opt_dense(struct check *k, const struct ctr_dev_opt_dense *a)
{
    check_optimizer(k, &a->opt);
    sized(k, "w", a->w, 4);
    vec(k, "g", a->g, a->w.n, 4);
    if (ctr_opt_states(a->opt.kind) > 0)
        vec(k, "s1", a->s1, a->w.n, 4);
    if (ctr_opt_states(a->opt.kind) > 1)
        vec(k, "s2", a->s2, a->w.n, 4);
}

static void check_opt_rows(struct check *k, const struct ctr_dev_opt_rows *a)
{
    check_optimizer(k, &a->opt);
    shaped(k, "g", a->g);
    mat(k, "rows", a->rows, a->rows.rows, a->g.cols * (1 + ctr_opt_states(a->opt.kind)));
    optional(k, "index", a->index, a->g.rows, 4);
    optional(k, "l2_row", a->l2_row, a->g.rows, 4);
    refuse(k, !a->index.mem && a->rows.rows < a->g.rows, "fewer rows than gradients");
    if (a->squares.mem)
        mat(k, "squares", a->squares, a->g.rows, a->g.cols);
    refuse(k, a->squares.mem && a->opt.kind != CTR_OPT_FTRL, "squares are for FTRL");
}

static void check_slots(struct check *k, const struct ctr_dev_slots *a)
{
    const int64_t n = a->want.n;

    sized(k, "key", a->key, 8);
    refuse(k, a->key.n % 8 != 0 || a->key.n > INT32_MAX || (a->key.n == 0 && n), "slots is no multiple of 8");
    vec(k, "stamp", a->stamp, a->key.n, 4);
    sized(k, "want", a->want, 8);
    vec(k, "slot", a->slot, n, 4);
    vec(k, "missed", a->missed, n, 4);
    vec(k, "missed_slot", a->missed_slot, n, 4);
    vec(k, "evicted_slot", a->evicted_slot, n, 4);
    optional(k, "missed_want", a->missed_want, n, 8);
    refuse(k, a->now == 0, "now counts from 1");
    refuse(k, !a->misses || !a->evictions || !a->failures, "misses, evictions and failures are missing");
    refuse(k, n > INT32_MAX - 1, "more than 2^31 keys");
    const bool groups = a->group_start.mem;
    refuse(k, !groups && (a->salt.mem || a->group_item.mem || a->group_slot.mem), "group_start is missing");
    if (!groups)
        return;
    vec(k, "group_start", a->group_start, n + 1, 4);
    vec(k, "group_item", a->group_item, n, 4);
    vec(k, "group_slot", a->group_slot, n, 4);
    refuse(k, !a->groups, "groups is missing");
    if (a->salt.mem)
        sized(k, "salt", a->salt, 8);
    refuse(k, a->salt.mem && a->salt.n == 0, "salt is empty");
    if (a->part.mem)
        sized(k, "part", a->part, 4);
    refuse(k, a->part.mem && (!a->salt.mem || a->part.n % 3 != 0), "parts are triples, with salts");
}

static void check_take_items(struct check *k, const struct ctr_dev_take_items *a)
{
    sized(k, "from", a->from, 8);
    sized(k, "to", a->to, 8);
    vec(k, "item", a->item, a->item.n, 4);
    vec(k, "start", a->start, a->item.n + 1, 4);
    optional(k, "segment", a->segment, a->to.n, 4);
}

static void check_item_digests(struct check *k, const struct ctr_dev_item_digests *a)
{
    sized(k, "from", a->from, 8);
    vec(k, "item", a->item, a->item.n, 4);
    vec(k, "count", a->count, a->item.n, 4);
    vec(k, "out", a->out, 2 * a->item.n, 8);
}

static void check_reduce(struct check *k, const struct ctr_dev_reduce *a)
{
    refuse(k, (unsigned)a->kind > CTR_REDUCE_NONFINITE, "unknown reduction");
    shaped(k, "x", a->x);
    vec(k, "out", a->out, 1, 8);
}

static void check_window(struct check *k, int64_t height, int64_t width, int64_t size, int64_t stride, int64_t pad)
{
    const int64_t most = INT32_MAX / 4;
    refuse(k, size < 1 || stride < 1 || pad < 0 || pad >= size || size > most || stride > most,
           "a window has size 1 or more, stride 1 or more and pad below size");
    refuse(k, height < 0 || width < 0 || height > most || width > most, "images of such a size are refused");
    refuse(k, height + 2 * pad < size || width + 2 * pad < size, "the window is larger than the image");
}

static void check_conv(struct check *k, const struct ctr_dev_conv *a)
{
    check_window(k, a->height, a->width, a->size, a->stride, a->pad);
    if (k->code)
        return;
    const int64_t lines = ctr_conv_side(a->height, a->size, a->stride, a->pad);
    const int64_t columns = ctr_conv_side(a->width, a->size, a->stride, a->pad);
    mat(k, "x", a->x, a->images * a->height * a->width, a->x.cols);
    mat(k, "w", a->w, a->size * a->size * a->x.cols, a->w.cols);
    mat(k, "y", a->y, a->images * lines * columns, a->w.cols);
    optional(k, "bias", a->bias, a->w.cols, 4);
    check_activation(k, &a->act, a->w.cols);
}

static void check_max_pool(struct check *k, const struct ctr_dev_max_pool *a)
{
    check_window(k, a->height, a->width, a->size, a->stride, 0);
    if (k->code)
        return;
    const int64_t lines = ctr_conv_side(a->height, a->size, a->stride, 0);
    const int64_t columns = ctr_conv_side(a->width, a->size, a->stride, 0);
    mat(k, "x", a->x, a->images * a->height * a->width, a->x.cols);
    mat(k, "y", a->y, a->images * lines * columns, a->x.cols);
}

/* ---- the calls ---- */

#define CALL(name)                                                                                                     \
    int ctr_dev_##name(struct ctr_dev *dev, const struct ctr_dev_##name *a, struct ctr_err *err)                       \
    {                                                                                                                  \
        struct check k = { .dev = dev, .op = #name, .err = err };                                                      \
        check_##name(&k, a);                                                                                           \
        if (k.code)                                                                                                    \
            return k.code;                                                                                             \
        const int64_t start_ns = dev->profile ? ctr_clock_ns() : 0;                                                    \
        const enum ctr_float_mode mode = ctr_float_mode(CTR_FLOAT_FLUSH);                                              \
        int rc = dev->ops->name(dev, a, err);                                                                          \
        ctr_float_mode(mode);                                                                                          \
        if (rc == 0 && dev->profile)                                                                                   \
            rc = dev->ops->sync(dev, err);                                                                             \
        if (dev->profile)                                                                                              \
            dev->seconds[CTR_DEV_OP_##name] += 1e-9 * (double)(ctr_clock_ns() - start_ns);                             \
        return rc;                                                                                                     \
    }
CTR_DEV_OPS(CALL)
