/* SPDX-License-Identifier: Apache-2.0
 *
 * sparse: pooling of embeddings and its gradient, moving rows, optimizers. One thread per element of the output, or per
 * piece of a long list, processes its entries in order: sums depend only on the input. */
#include "cuda/kernel.h"

struct lists {
    enum ctr_pooling how;
    int32_t unused; /* 0, in the place of padding: works are compared as bytes */
    int64_t count, per_row, width;
    const int32_t *start, *index, *segment;
    const float *x;
    struct view rows, out; /* out: dout for the gradient */
    struct view pooled;    /* FM, for the gradient: the result of pool */
};

static struct lists lists_of(enum ctr_pooling how, const struct ctr_lists *l, struct ctr_mat rows, struct ctr_mat out,
                             int64_t width)
{
    struct lists s = { how,
                       0,
                       l->lists,
                       l->per_row,
                       width,
                       ctr_vec_i32(l->start),
                       ctr_vec_i32(l->index),
                       ctr_vec_i32(l->segment),
                       ctr_vec_f32(l->x),
                       view_of(rows),
                       view_of(out),
                       { NULL, 0 } };
    return s;
}

static __device__ __forceinline__ float *out_at(const struct lists &l, int64_t list, int64_t d)
{
    return at(l.out, list / l.per_row, list % l.per_row * l.width + d);
}

/* x · row of an entry, at column d. */
static __device__ __forceinline__ float value_of(const struct lists &l, int64_t e, int64_t d)
{
    return (l.x ? l.x[e] : 1.0f) * *at(l.rows, l.index[e], d);
}

static __device__ __forceinline__ bool wins(float v, float best)
{
    return v > best || (v != v && best == best);
}

/* FM: a list's column 0, from the sum of its weights. */
static __device__ __forceinline__ float add_pairs(const struct lists &l, int64_t first, int64_t end, float own)
{
    for (int64_t d = 1; d < l.width; d++) {
        float sum = 0.0f, pair = 0.0f;
        for (int64_t e = first; e < end; e++) {
            const float v = value_of(l, e, d);
            pair = pair + sum * v;
            sum = sum + v;
        }
        own = own + pair;
    }
    return own;
}

KERNEL pool_kernel(struct lists l)
{
    EACH(i, l.count * l.width)
    {
        const int64_t s = i / l.width, d = i % l.width;
        const int64_t first = l.start ? l.start[s] : s, end = l.start ? l.start[s + 1] : s + 1;
        float v = first < end ? value_of(l, first, d) : 0.0f;
        for (int64_t e = first + 1; e < end; e++) {
            const float other = value_of(l, e, d);
            v = l.how != CTR_POOL_MAX ? v + other : wins(other, v) ? other : v;
        }
        if (l.how == CTR_POOL_FM && d == 0 && end - first > 1)
            v = add_pairs(l, first, end, v);
        *out_at(l, s, d) = l.how == CTR_POOL_MEAN && first < end ? v / (float)(end - first) : v;
    }
}

int cuda_pool(struct ctr_dev *dev, const struct ctr_dev_pool *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const struct lists l = lists_of(a->how, &a->lists, a->rows, a->out, a->rows.cols);
    LAUNCH(c, pool_kernel, l.count * l.width, l);
    return cuda_started(c, "pool", err);
}

/* Does entry e have the maximum of its list in column d? */
static __device__ __forceinline__ bool is_largest(const struct lists &l, int64_t e, int64_t first, int64_t end,
                                                  int64_t d)
{
    const float v = value_of(l, e, d);
    for (int64_t o = first; o < end; o++) {
        const float other = value_of(l, o, d);
        if (o < e ? !wins(v, other) : o > e && wins(other, v))
            return false;
    }
    return true;
}

static __device__ __forceinline__ float entry_gradient(const struct lists &l, int64_t e, int64_t d)
{
    const int64_t s = l.start ? l.segment[e] : e;
    const int64_t first = l.start ? l.start[s] : s, end = l.start ? l.start[s + 1] : s + 1;
    const float dout = *out_at(l, s, d), x = l.x ? l.x[e] : 1.0f;

    if (l.how == CTR_POOL_FM && d > 0)
        return ctr_e_fm_grad(x, *at(l.rows, l.index[e], d), *out_at(l, s, 0), dout,
                             *at(l.pooled, s / l.per_row, s % l.per_row * l.width + d));
    if (l.how == CTR_POOL_MEAN)
        return x * (dout / (float)(end - first));
    return l.how != CTR_POOL_MAX || is_largest(l, e, first, end, d) ? x * dout : 0.0f;
}

/* A key that occurs in most rows has as many entries as the minibatch: such long groups are summed in pieces, by
 * separate threads, and the pieces' sums in order. */
enum { PIECE = 128 };

static __host__ __device__ __forceinline__ int64_t pieces_of(int64_t entries)
{
    return entries > PIECE ? (entries + PIECE - 1) / PIECE : 0;
}

struct sums {
    double g, squares;
};

/* The entries of each row, of this call those from `first` on, of `entries`. */
struct items {
    const int32_t *group, *item;
    int32_t first, entries;
    int64_t whole; /* there are no others */
};

static __device__ __forceinline__ void items_of(const struct items &g, int64_t u, int32_t *from, int32_t *end)
{
    *from = g.group[u];
    *end = g.group[u + 1];
    if (!g.whole) {
        *from += lower_ones(g.item + *from, *end - *from, g.first);
        *end = *from + lower_ones(g.item + *from, *end - *from, g.first + g.entries);
    }
}

static __device__ __forceinline__ void add_entries(const struct lists &l, const struct items &g, int64_t from,
                                                   int64_t to, int64_t d, struct sums *s)
{
    for (int64_t n = from; n < to; n++) {
        const double g_of = (double)entry_gradient(l, g.item[n] - g.first, d);
        s->g += g_of;
        s->squares += g_of * g_of;
    }
}

/* Where the sums of piece k of a group lie: entries are cut into windows of PIECE, and at most two pieces begin in a
 * window: the first one of a group (after which nothing begins there), and another one, of a group that began before.
 */
static __host__ __device__ __forceinline__ int64_t place_of(int64_t start, int64_t k)
{
    return 2 * ((start + k * PIECE) / PIECE) + (k == 0);
}

/* The last group that starts at or before entry e. */
static __device__ __forceinline__ int64_t group_of(const int32_t *group, int64_t unique, int64_t e)
{
    int64_t u = 0;
    for (int64_t end = unique; end - u > 1;) {
        const int64_t half = u + (end - u) / 2;
        if (group[half] <= e)
            u = half;
        else
            end = half;
    }
    return u;
}

/* Which piece lies at a place? -1: none. */
static __device__ __forceinline__ int64_t piece_at(const struct items &g, int64_t unique, int64_t place, int32_t *from,
                                                   int32_t *end)
{
    const int64_t window = place / 2 * PIECE;
    items_of(g, group_of(g.group, unique, place % 2 ? window + PIECE - 1 : window), from, end);
    const int64_t k = place % 2 ? 0 : (window - *from + PIECE - 1) / PIECE;
    return k >= 0 && k < pieces_of(*end - *from) && place_of(*from, k) == place ? k : -1;
}

KERNEL sum_pieces_kernel(struct lists l, struct items g, int64_t unique, struct sums *out, int64_t places)
{
    EACH(i, places * l.width)
    {
        int32_t from, end;
        const int64_t k = piece_at(g, unique, i / l.width, &from, &end), first = from + k * PIECE;
        if (k >= 0) {
            struct sums s = { 0.0, 0.0 };
            add_entries(l, g, first, CTR_MIN(first + PIECE, (int64_t)end), i % l.width, &s);
            out[i] = s;
        }
    }
}

KERNEL pool_grad_kernel(struct lists l, struct items g, const struct sums *piece, struct view grad, struct view squares,
                        int64_t unique, bool add)
{
    EACH(i, unique * l.width)
    {
        int32_t from, end;
        items_of(g, i / l.width, &from, &end);
        const int64_t u = i / l.width, d = i % l.width, pieces = pieces_of(end - from);
        struct sums s = { add ? (double)*at(grad, u, d) : 0.0, 0.0 };
        if (!pieces)
            add_entries(l, g, from, end, d, &s);
        for (int64_t k = 0; k < pieces; k++) {
            const struct sums of_piece = piece[place_of(from, k) * l.width + d];
            s.g += of_piece.g;
            s.squares += of_piece.squares;
        }
        *at(grad, u, d) = (float)s.g;
        if (squares.p)
            *at(squares, u, d) = (float)s.squares;
    }
}

int cuda_pool_grad(struct ctr_dev *dev, const struct ctr_dev_pool_grad *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    struct lists l = lists_of(a->how, &a->lists, a->rows, a->dout, a->grad.cols);
    l.pooled = view_of(a->out);
    const int64_t unique = a->grad.rows, entries = a->lists.index.n, places = 2 * (a->group_item.n / PIECE + 1);
    const struct items g = { ctr_vec_i32(a->group_start), ctr_vec_i32(a->group_item), (int32_t)a->first,
                             (int32_t)entries, entries == a->group_item.n };
    int rc = 0;
    struct sums *sum = cuda_scratch<struct sums>(c, 6, places * l.width, &rc, err);
    if (rc)
        return rc;
    if (unique && entries > PIECE)
        LAUNCH(c, sum_pieces_kernel, places * l.width, l, g, unique, sum, places);
    LAUNCH(c, pool_grad_kernel, unique * l.width, l, g, (const struct sums *)sum, view_of(a->grad), view_of(a->squares),
           unique, a->add);
    return cuda_started(c, "pool_grad", err);
}

KERNEL move_rows_kernel(struct view from, struct view to, const int32_t *from_index, const int32_t *to_index, int64_t n,
                        int64_t cols)
{
    EACH(e, n * cols)
    {
        const int64_t i = e / cols, j = e % cols, f = from_index ? from_index[i] : i, t = to_index ? to_index[i] : i;
        if (f >= 0 && t >= 0)
            *at(to, t, j) = *at(from, f, j);
    }
}

int cuda_move_rows(struct ctr_dev *dev, const struct ctr_dev_move_rows *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, move_rows_kernel, a->n * a->from.cols, view_of(a->from), view_of(a->to), ctr_vec_i32(a->from_index),
           ctr_vec_i32(a->to_index), a->n, a->from.cols);
    return cuda_started(c, "move_rows", err);
}

/* ---- optimizers ---- */

static __device__ __forceinline__ void step(const struct ctr_opt_step &o, float g, float squares, float l2, float *w,
                                            float *s1, float *s2)
{
    switch (o.kind) {
    case CTR_OPT_SGD: ctr_e_sgd(&o, g, l2, w); break;
    case CTR_OPT_ADAGRAD: ctr_e_adagrad(&o, g, l2, w, s1); break;
    case CTR_OPT_ADAM: ctr_e_adam(&o, g, l2, w, s1, s2); break;
    case CTR_OPT_FTRL: ctr_e_ftrl(&o, g, squares, l2, w, s1, s2); break;
    }
}

KERNEL opt_dense_kernel(struct ctr_opt_step o, const float *g, float *w, float *s1, float *s2, int64_t n)
{
    EACH(i, n)
    step(o, g[i], g[i] * g[i], o.l2, w + i, s1 + i, s2 + i);
}

int cuda_opt_dense(struct ctr_dev *dev, const struct ctr_dev_opt_dense *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    float *w = ctr_vec_f32(a->w), *s1 = a->s1.mem ? ctr_vec_f32(a->s1) : w, *s2 = a->s2.mem ? ctr_vec_f32(a->s2) : w;
    LAUNCH(c, opt_dense_kernel, a->w.n, ctr_opt_step_of(&a->opt), (const float *)ctr_vec_f32(a->g), w, s1, s2, a->w.n);
    return cuda_started(c, "opt_dense", err);
}

KERNEL opt_rows_kernel(struct ctr_opt_step o, struct view rows, struct view g, struct view squares,
                       const int32_t *index, const float *l2_row, int64_t n, int64_t width)
{
    EACH(e, n * width)
    {
        const int64_t i = e / width, d = e % width, row = index ? index[i] : i;
        if (row >= 0) {
            float *w = at(rows, row, d), gradient = *at(g, i, d);
            step(o, gradient, squares.p ? *at(squares, i, d) : gradient * gradient, l2_row ? o.l2 + l2_row[i] : o.l2, w,
                 w + width, w + 2 * width);
        }
    }
}

int cuda_opt_rows(struct ctr_dev *dev, const struct ctr_dev_opt_rows *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, opt_rows_kernel, a->g.rows * a->g.cols, ctr_opt_step_of(&a->opt), view_of(a->rows), view_of(a->g),
           view_of(a->squares), ctr_vec_i32(a->index), ctr_vec_f32(a->l2_row), a->g.rows, a->g.cols);
    return cuda_started(c, "opt_rows", err);
}
