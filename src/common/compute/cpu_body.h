/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_body: the loops of the CPU back end, compiled once for each instruction set (see cpu.h). The includer defines ISA
 * (a suffix), LANES, ROWS and VECTORS (of gemm's tile), and, if LANES > 1, VEC, LOAD, STORE, SPLAT and FMA. Loops run
 * over independent elements, so that the compiler may vectorise them without changing a bit; sums have accumulators of
 * double, one per column, and run in the order of rows. */

/* "GCC ivdep" below: arrays may be identical (in place), but no element depends on another. */

/* A loop is written once for all kinds of a call, with the kind as a constant argument of a CTR_BODY function, which
 * the compiler inlines and specialises: tile_2x2 is tile(t, 2, 2). With AVX2 (8 lanes) it is a tile of 2 rows and 9 to
 * 16 columns; of 11 columns:
 *
 *     sum[0][0]  sum[0][1]     columns 0-7 and 8-10 of row 0, in registers over all k
 *     sum[1][0]  sum[1][1]     the same of row 1
 *     cut 3                    lanes of the last vector; load_cut and store_cut move only these
 *
 * gemm_cpu.c chooses the tile: gemm[rows - 1][vectors - 1] of the table at the end of this file, which has at most
 * ROWS x VECTORS, as many sums as registers allow. B is packed in whole vectors, so its loads are never cut. */

/* ---- gemm: one tile ---- */

#if LANES > 1
#define UNROLL _Pragma("GCC unroll 8")
/* The last vector may be partial: it goes through scratch memory. */
CTR_BODY VEC load_cut(const float *p, int cols)
{
    float whole[LANES] = { 0 };
    memcpy(whole, p, (size_t)cols * sizeof *p);
    return LOAD(whole);
}

CTR_BODY void store_cut(float *p, VEC v, int cols)
{
    float whole[LANES];
    STORE(whole, v);
    memcpy(p, whole, (size_t)cols * sizeof *p);
}

CTR_BODY void tile(const struct ctr_gemm_tile *t, const int rows, const int vectors)
{
    const float *a = t->a, *b = t->b;
    const int cut = t->cols - (vectors - 1) * LANES;
    VEC sum[ROWS][VECTORS];

    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++) sum[i][v] =
        !t->from                          ? SPLAT(0)
        : v + 1 < vectors || cut == LANES ? LOAD(t->from + i * t->ld + v * LANES)
                                          : load_cut(t->from + i * t->ld + v * LANES, cut);
    for (int64_t l = 0; l < t->k; l++, a += t->a_k, b += t->b_k) {
        VEC row[VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) row[v] = LOAD(b + v * LANES);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const VEC x = SPLAT(a[i * t->a_row]);
            UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = FMA(x, row[v], sum[i][v]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < vectors; v++)
    {
        if (v + 1 < vectors || cut == LANES)
            STORE(t->to + i * t->ld + v * LANES, sum[i][v]);
        else
            store_cut(t->to + i * t->ld + v * LANES, sum[i][v], cut);
    }
}
#else
CTR_BODY void tile(const struct ctr_gemm_tile *t, const int rows, const int vectors)
{
    (void)vectors;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < t->cols; j++) {
            float sum = t->from ? t->from[i * t->ld + j] : 0;
            for (int64_t l = 0; l < t->k; l++)
                sum = fmaf(t->a[i * t->a_row + l * t->a_k], t->b[l * t->b_k + j], sum);
            t->to[i * t->ld + j] = sum;
        }
}
#endif

#define TILE(r, v)                                                                                                     \
    static void tile_##r##x##v(const struct ctr_gemm_tile *t)                                                          \
    {                                                                                                                  \
        tile(t, r, v);                                                                                                 \
    }
#define TILE_ROW(r) TILE_VECTORS(TILE, r)
#if VECTORS == 5
#define TILE_VECTORS(X, r) X(r, 1) X(r, 2) X(r, 3) X(r, 4) X(r, 5)
#elif VECTORS == 3
#define TILE_VECTORS(X, r) X(r, 1) X(r, 2) X(r, 3)
#else
#define TILE_VECTORS(X, r) X(r, 1)
#endif
#if ROWS == 5
#define TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5)
#elif ROWS == 4
#define TILE_ROWS(X) X(1) X(2) X(3) X(4)
#else
#define TILE_ROWS(X) X(1)
#endif
TILE_ROWS(TILE_ROW)

/* ---- activations ---- */

/* y = act(s), s = z + bias; `keep`: also store s to pre. */
CTR_BODY void act_row(const struct ctr_act_cols *k, const float *z, float *pre, float *y, int64_t cols,
                      const enum ctr_act_kind kind, const bool biased, const bool keep)
{
    const float *bias = k->bias, *alpha = k->alpha;

#pragma GCC ivdep
    for (int64_t j = 0; j < cols; j++) {
        const float s = biased ? z[j] + bias[j] : z[j];
        if (keep)
            pre[j] = s;
        y[j] = kind == CTR_ACT_RELU      ? ctr_e_relu(s)
               : kind == CTR_ACT_PRELU   ? ctr_e_prelu(s, alpha[j])
               : kind == CTR_ACT_SIGMOID ? ctr_e_sigmoid(s)
                                         : s;
    }
}

/* DICE by blocks of columns, to compute each 1 / sqrt(var + eps) once. */
static void act_dice(const struct ctr_act_cols *k, struct ctr_block z, struct ctr_block pre, struct ctr_block y,
                     int64_t rows, int64_t cols)
{
    float rstd[CTR_COLS_BLOCK];

    for (int64_t first = 0; first < cols; first += CTR_COLS_BLOCK) {
        const int64_t n = CTR_MIN(cols - first, CTR_COLS_BLOCK);
        const float *bias = k->bias ? k->bias + first : NULL, *alpha = k->alpha + first, *mean = k->mean + first;
        for (int64_t j = 0; j < n; j++)
            rstd[j] = ctr_e_rstd(k->var[first + j], k->eps);
        for (int64_t i = 0; i < rows; i++) {
            const float *from = z.p + i * z.stride + first;
            float *to = y.p + i * y.stride + first, *sum = pre.p ? pre.p + i * pre.stride + first : to;
#pragma GCC ivdep
            for (int64_t j = 0; j < n; j++)
                sum[j] = bias ? from[j] + bias[j] : from[j];
#pragma GCC ivdep
            for (int64_t j = 0; j < n; j++)
                to[j] = ctr_e_dice(sum[j], alpha[j], mean[j], rstd[j]);
        }
    }
}

#define ACT_CASE(KIND)                                                                                                 \
    case KIND:                                                                                                         \
        if (k->bias && pre.p)                                                                                          \
            act_row(k, from, pre.p + i * pre.stride, to, cols, KIND, true, true);                                      \
        else if (k->bias)                                                                                              \
            act_row(k, from, to, to, cols, KIND, true, false);                                                         \
        else                                                                                                           \
            act_row(k, from, to, to, cols, KIND, false, false);                                                        \
        break;
static void act(const struct ctr_act_cols *k, struct ctr_block z, struct ctr_block pre, struct ctr_block y,
                int64_t rows, int64_t cols)
{
    if (k->kind == CTR_ACT_DICE) {
        act_dice(k, z, pre, y, rows, cols);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *from = z.p + i * z.stride;
        float *to = y.p + i * y.stride;
        switch (k->kind) {
            ACT_CASE(CTR_ACT_NONE)
            ACT_CASE(CTR_ACT_RELU)
            ACT_CASE(CTR_ACT_PRELU)
            ACT_CASE(CTR_ACT_SIGMOID)
        case CTR_ACT_DICE: break;
        }
    }
}

static void store_sums(float *to, const double *sum, int64_t cols)
{
    for (int64_t j = 0; to && j < cols; j++)
        to[j] = (float)sum[j];
}

CTR_BODY void act_grad_rows(const struct ctr_act_grad_block *b, int64_t rows, int64_t cols,
                            const enum ctr_act_kind kind)
{
    double dalpha[CTR_COLS_BLOCK] = { 0 }, dbias[CTR_COLS_BLOCK] = { 0 };
    const float *alpha = b->act.alpha;

    for (int64_t i = 0; i < rows; i++) {
        const float *z = b->z.p + i * b->z.stride, *dy = b->dy.p + i * b->dy.stride;
        float *dz = b->dz.p + i * b->dz.stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < cols; j++) {
            const float g = dy[j];
            float d = g;
            if (kind == CTR_ACT_RELU)
                d = ctr_e_choose(z[j] <= 0.0f, 0.0f, g);
            if (kind == CTR_ACT_PRELU) {
                d = ctr_e_choose(z[j] > 0.0f, g, alpha[j] * g);
                dalpha[j] += (double)ctr_e_choose(z[j] > 0.0f, 0.0f, g * z[j]);
            }
            if (kind == CTR_ACT_SIGMOID) {
                const float p = ctr_e_sigmoid(z[j]);
                d = g * (p * (1.0f - p));
            }
            dz[j] = d;
            dbias[j] += (double)d;
        }
    }
    memcpy(b->dalpha, dalpha, (size_t)cols * sizeof *dalpha);
    memcpy(b->dbias, dbias, (size_t)cols * sizeof *dbias);
}

/* DICE in two passes: with `batch`, the second uses the sums of the first for the gradient of the statistics. */
enum { DICE_RUN = 16 }; /* rows whose terms are summed in float before the sum is added in double */

CTR_BODY void add_run(double *sum, float *run, int64_t cols)
{
    for (int64_t j = 0; j < cols; j++) {
        sum[j] += (double)run[j];
        run[j] = 0;
    }
}

static void dice_grad(const struct ctr_act_grad_block *b, int64_t rows, int64_t cols)
{
    double dalpha[CTR_COLS_BLOCK] = { 0 }, dbias[CTR_COLS_BLOCK] = { 0 };
    double sum[CTR_COLS_BLOCK] = { 0 }, sum_xhat[CTR_COLS_BLOCK] = { 0 };
    float run[3][CTR_COLS_BLOCK] = { { 0 } };
    float rstd[CTR_COLS_BLOCK], shift[CTR_COLS_BLOCK], mean_dot[CTR_COLS_BLOCK];
    const float *alpha = b->act.alpha, *mean = b->act.mean;

    for (int64_t j = 0; j < cols; j++)
        rstd[j] = ctr_e_rstd(b->act.var[j], b->act.eps);
    for (int64_t i = 0; i < rows; i++) {
        const float *z = b->z.p + i * b->z.stride, *dy = b->dy.p + i * b->dy.stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < cols; j++) {
            const struct ctr_dice_slope s = ctr_e_dice_slope(z[j], alpha[j], mean[j], rstd[j]);
            run[0][j] += dy[j] * s.dalpha;
            run[1][j] += dy[j] * s.dxhat;
            run[2][j] += dy[j] * s.dxhat * s.xhat;
        }
        if (i % DICE_RUN == DICE_RUN - 1 || i == rows - 1) {
            add_run(dalpha, run[0], cols);
            add_run(sum, run[1], cols);
            add_run(sum_xhat, run[2], cols);
        }
    }
    for (int64_t j = 0; j < cols; j++) {
        shift[j] = b->batch ? (float)(sum[j] / (double)rows) : 0;
        mean_dot[j] = b->batch ? (float)(sum_xhat[j] / (double)rows) : 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *z = b->z.p + i * b->z.stride, *dy = b->dy.p + i * b->dy.stride;
        float *dz = b->dz.p + i * b->dz.stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < cols; j++) {
            const struct ctr_dice_slope s = ctr_e_dice_slope(z[j], alpha[j], mean[j], rstd[j]);
            const float d = dy[j] * s.dz + (dy[j] * s.dxhat - (shift[j] + s.xhat * mean_dot[j])) * rstd[j];
            dz[j] = d;
            run[0][j] += d;
        }
        if (i % DICE_RUN == DICE_RUN - 1 || i == rows - 1)
            add_run(dbias, run[0], cols);
    }
    memcpy(b->dalpha, dalpha, (size_t)cols * sizeof *dalpha);
    memcpy(b->dbias, dbias, (size_t)cols * sizeof *dbias);
}

static void act_grad(const struct ctr_act_grad_block *b, int64_t rows, int64_t cols)
{
    switch (b->act.kind) {
    case CTR_ACT_NONE: act_grad_rows(b, rows, cols, CTR_ACT_NONE); break;
    case CTR_ACT_RELU: act_grad_rows(b, rows, cols, CTR_ACT_RELU); break;
    case CTR_ACT_PRELU: act_grad_rows(b, rows, cols, CTR_ACT_PRELU); break;
    case CTR_ACT_SIGMOID: act_grad_rows(b, rows, cols, CTR_ACT_SIGMOID); break;
    case CTR_ACT_DICE: dice_grad(b, rows, cols); break;
    }
}

/* ---- embeddings ---- */

CTR_BODY float *list_in(const struct ctr_pool_block *b, struct ctr_block m, int64_t list)
{
    return m.p + list / b->per_row * m.stride + list % b->per_row * b->width;
}

CTR_BODY float *sample_of(const struct ctr_pool_block *b, int64_t list)
{
    return list_in(b, b->out, list);
}

CTR_BODY const float *entry_row(const struct ctr_pool_block *b, int64_t e)
{
    return b->rows.p + b->index[e] * b->rows.stride;
}

/* out = x · row, or out += x · row. */
CTR_BODY void add_entry(const struct ctr_pool_block *b, int64_t e, float *out, bool first)
{
    const float *row = entry_row(b, e);
    const float x = b->x ? b->x[e] : 1.0f;
    const int64_t width = b->width;
#pragma GCC ivdep
    for (int64_t d = 0; d < width; d++)
        out[d] = first ? x * row[d] : out[d] + x * row[d];
}

CTR_BODY bool wins(float v, float best)
{
    return v > best || (v != v && best == best);
}

CTR_BODY void max_entry(const struct ctr_pool_block *b, int64_t e, float *out)
{
    const float *row = entry_row(b, e);
    const float x = b->x ? b->x[e] : 1.0f;
    const int64_t width = b->width;
#pragma GCC ivdep
    for (int64_t d = 0; d < width; d++)
        out[d] = wins(x * row[d], out[d]) ? x * row[d] : out[d];
}

/* FM: column 0 of a list whose sums are in `out`: adds the inner products of pairs, each entry's vector with the sum of
 * the vectors before it. */
static void add_pairs(const struct ctr_pool_block *b, int64_t first, int64_t end, float *out)
{
    enum { PART = 64 };
    float own = out[0];
    for (int64_t from = 1; from < b->width; from += PART) {
        const int64_t n = CTR_MIN(PART, b->width - from);
        float sum[PART] = { 0 }, pair[PART] = { 0 };
        for (int64_t e = first; e < end; e++) {
            const float *row = entry_row(b, e) + from;
            const float x = b->x ? b->x[e] : 1.0f;
#pragma GCC ivdep
            for (int64_t d = 0; d < n; d++) {
                pair[d] = pair[d] + sum[d] * (x * row[d]);
                sum[d] = sum[d] + x * row[d];
            }
        }
        for (int64_t d = 0; d < n; d++)
            own = own + pair[d];
    }
    out[0] = own;
}

static void pool(const struct ctr_pool_block *b, int64_t from, int64_t to)
{
    for (int64_t s = from; s < to; s++) {
        const int64_t first = b->start ? b->start[s] : s, end = b->start ? b->start[s + 1] : s + 1;
        float *out = sample_of(b, s);
        if (first == end) {
            memset(out, 0, (size_t)b->width * sizeof *out);
            continue;
        }
        add_entry(b, first, out, true);
        for (int64_t e = first + 1; e < end; e++)
            if (b->how == CTR_POOL_MAX)
                max_entry(b, e, out);
            else
                add_entry(b, e, out, false);
        for (int64_t d = 0; b->how == CTR_POOL_MEAN && d < b->width; d++)
            out[d] = out[d] / (float)(end - first);
        if (b->how == CTR_POOL_FM && end - first > 1)
            add_pairs(b, first, end, out);
    }
}

/* Does entry e have the maximum of its list in column d? */
CTR_BODY bool is_largest(const struct ctr_pool_block *b, int64_t e, int64_t first, int64_t end, int64_t d)
{
    const float v = (b->x ? b->x[e] : 1.0f) * entry_row(b, e)[d];
    for (int64_t o = first; o < end; o++) {
        const float other = (b->x ? b->x[o] : 1.0f) * entry_row(b, o)[d];
        if (o < e ? !wins(v, other) : o > e && wins(other, v))
            return false;
    }
    return true;
}

CTR_BODY void grad_fm(const float *sum, const float *row, float x, const float *dout, float *grad, int64_t width)
{
    const float dout0 = dout[0];
    grad[0] += x * dout0;
#pragma GCC ivdep
    for (int64_t d = 1; d < width; d++)
        grad[d] += ctr_e_fm_grad(x, row[d], dout0, dout[d], sum[d]);
}

CTR_BODY void grad_entry(const struct ctr_pool_block *b, int64_t e, float *grad)
{
    const int64_t s = b->start ? b->segment[e] : e;
    const int64_t first = b->start ? b->start[s] : s, end = b->start ? b->start[s + 1] : s + 1;
    const float *dout = sample_of(b, s);
    const float x = b->x ? b->x[e] : 1.0f, entries = (float)(end - first);

    const int64_t width = b->width;
    if (b->how == CTR_POOL_SUM)
#pragma GCC ivdep
        for (int64_t d = 0; d < width; d++)
            grad[d] += x * dout[d];
    else if (b->how == CTR_POOL_MEAN)
#pragma GCC ivdep
        for (int64_t d = 0; d < width; d++)
            grad[d] += x * (dout[d] / entries);
    else if (b->how == CTR_POOL_FM)
        grad_fm(list_in(b, b->pooled, s), entry_row(b, e), x, dout, grad, width);
    else
        for (int64_t d = 0; d < width; d++)
            grad[d] += is_largest(b, e, first, end, d) ? x * dout[d] : 0.0f;
}

/* The entries of row u among the items are [from, end). */
CTR_BODY void items_of(const struct ctr_pool_block *b, int64_t u, int64_t *from, int64_t *end)
{
    *from = b->group[u];
    *end = b->group[u + 1];
    while (!b->whole && *from < *end && b->item[*from] < b->first)
        ++*from;
    while (!b->whole && *from < *end && b->item[*end - 1] >= b->first + b->entries)
        --*end;
}

/* SUM of row u, and the sum of squares. */
static void grad_squares(const struct ctr_pool_block *b, int64_t u)
{
    int64_t from, end;
    items_of(b, u, &from, &end);
    float *grad = b->grad.p + u * b->grad.stride, *squares = b->squares.p + u * b->squares.stride;

    for (int64_t d = 0; d < b->width; d++) {
        double g = b->add ? (double)grad[d] : 0, sum = 0;
        for (int64_t i = from; i < end; i++) {
            const int64_t e = b->item[i] - b->first;
            const float x = b->x ? b->x[e] : 1.0f, of_entry = x * sample_of(b, b->start ? b->segment[e] : e)[d];
            g += (double)of_entry;
            sum += (double)of_entry * (double)of_entry;
        }
        grad[d] = (float)g;
        squares[d] = (float)sum;
    }
}

static void pool_grad(const struct ctr_pool_block *b, int64_t from, int64_t to)
{
    enum { AHEAD = 12 };
    const int64_t known = b->whole ? b->group[to] : 0;

    for (int64_t u = from, i, end; u < to; u++) {
        float *grad = b->grad.p + u * b->grad.stride;
        if (b->squares.p) {
            grad_squares(b, u);
            continue;
        }
        if (!b->add)
            memset(grad, 0, (size_t)b->width * sizeof *grad);
        for (items_of(b, u, &i, &end); i < end; i++) {
            if (i + AHEAD < known) { /* the next rows' entries follow these */
                const int64_t e = b->item[i + AHEAD];
                __builtin_prefetch(sample_of(b, b->start ? b->segment[e] : e));
            }
            grad_entry(b, b->item[i] - b->first, grad);
        }
    }
}

/* ---- target attention ---- */

static void attend_input(const struct ctr_attend_block *b, int64_t from, int64_t to)
{
    const int64_t width = b->width;

    for (int64_t r = from; r < to; r++) {
        const float *q = b->query.p + r * b->query.stride;
        for (int64_t e = b->start[r] - b->entry0; e < b->start[r + 1] - b->entry0; e++) {
            const float *k = b->key.p + e * b->key.stride;
            float *out = b->out.p + e * b->out.stride;
#pragma GCC ivdep
            for (int64_t d = 0; d < width; d++) {
                out[d] = k[d];
                out[width + d] = q[d] * k[d];
            }
        }
    }
}

static void attend_input_grad(const struct ctr_attend_block *b, int64_t from, int64_t to)
{
    const int64_t width = b->width;

    for (int64_t r = from; r < to; r++) {
        const float *q = b->query.p + r * b->query.stride;
        float *dq = b->dquery.p + r * b->dquery.stride;
        memset(dq, 0, (size_t)width * sizeof *dq);
        for (int64_t e = b->start[r] - b->entry0; e < b->start[r + 1] - b->entry0; e++) {
            const float *k = b->key.p + e * b->key.stride, *dout = b->out.p + e * b->out.stride;
            float *dk = b->dkey.p + e * b->dkey.stride;
#pragma GCC ivdep
            for (int64_t d = 0; d < width; d++) {
                dq[d] += k[d] * dout[width + d];
                dk[d] += dout[d] + q[d] * dout[width + d];
            }
        }
    }
}

/* Add weight · value to a row's sum. */
CTR_BODY void add_value(const struct ctr_attend_block *b, const float *weight, int64_t e, float *sum)
{
    const int64_t width = b->width;
    const float *v = b->key.p + e * b->key.stride, w = weight ? weight[e] : 1.0f;
#pragma GCC ivdep
    for (int64_t d = 0; d < width; d++)
        sum[d] += w * v[d];
}

CTR_BODY void softmax(const struct ctr_attend_block *b, int64_t first, int64_t end)
{
    float largest = first < end ? b->score[first] : 0.0f, sum = 0;

    for (int64_t e = first + 1; e < end; e++)
        largest = wins(b->score[e], largest) ? b->score[e] : largest;
#pragma GCC ivdep
    for (int64_t e = first; e < end; e++)
        b->share[e] = ctr_e_exp(b->scale * (b->score[e] - largest));
    for (int64_t e = first; e < end; e++)
        sum += b->share[e];
    for (int64_t e = first; e < end; e++)
        b->share[e] = b->share[e] / sum;
}

static void attend(const struct ctr_attend_block *b, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to; r++) {
        const int64_t first = b->start[r] - b->entry0, end = b->start[r + 1] - b->entry0;
        float *out = b->out.p + r * b->out.stride;
        if (b->softmax)
            softmax(b, first, end);
        memset(out, 0, (size_t)b->width * sizeof *out);
        for (int64_t e = first; e < end; e++)
            add_value(b, b->softmax ? b->share : b->score, e, out);
    }
}

static void attend_grad(const struct ctr_attend_block *b, int64_t from, int64_t to)
{
    const int64_t width = b->width;

    for (int64_t r = from; r < to; r++) {
        const int64_t first = b->start[r] - b->entry0, end = b->start[r + 1] - b->entry0;
        const float *dout = b->query.p + r * b->query.stride;
        float mean = 0;
        for (int64_t e = first; e < end; e++) {
            const float share = b->share[e];
            b->dscore[e] = ctr_e_inner_product(dout, b->key.p + e * b->key.stride, width);
            mean += share * b->dscore[e];
            float *dvalue = b->dkey.p ? b->dkey.p + e * b->dkey.stride : NULL;
#pragma GCC ivdep
            for (int64_t d = 0; dvalue && d < width; d++)
                dvalue[d] = share * dout[d];
        }
        for (int64_t e = first; e < end && b->softmax; e++)
            b->dscore[e] = b->scale * (b->share[e] * (b->dscore[e] - mean));
    }
}

/* ---- elementwise ---- */

static void axpby(float a, const float *x, float b, float *y, int64_t n)
{
    if (b == 0.0f)
#pragma GCC ivdep
        for (int64_t i = 0; i < n; i++)
            y[i] = a * x[i];
    else
#pragma GCC ivdep
        for (int64_t i = 0; i < n; i++)
            y[i] = a * x[i] + b * y[i];
}

/* Eight rows at a time, because a chain waits for each of its fmaf. */
static void row_dot(struct ctr_block a, struct ctr_block b, int64_t cols, float bias, bool biased, float *y,
                    int64_t rows)
{
    enum { ROWS_AT_ONCE = 8 };
    for (int64_t i = 0, n; i < rows; i += n) {
        const float *x[ROWS_AT_ONCE], *z[ROWS_AT_ONCE];
        float sum[ROWS_AT_ONCE] = { 0 };
        n = CTR_MIN(ROWS_AT_ONCE, rows - i);
        for (int r = 0; r < ROWS_AT_ONCE; r++) { /* past the end repeat the last row */
            x[r] = a.p + (i + CTR_MIN(r, n - 1)) * a.stride;
            z[r] = b.p + (i + CTR_MIN(r, n - 1)) * b.stride;
        }
        for (int64_t c = 0; c < cols; c++)
            for (int r = 0; r < ROWS_AT_ONCE; r++)
                sum[r] = fmaf(x[r][c], z[r][c], sum[r]);
        for (int r = 0; r < n; r++)
            y[i + r] = biased ? sum[r] + bias : sum[r];
    }
}

static void dropout(uint64_t base, uint64_t counter, uint32_t least, float scale, const float *x, float *y, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * ctr_e_keep(base, counter + (uint64_t)i, least, scale);
}

/* ---- crosses of features ---- */

static void cross(const float *x0, const float *z, const float *x, float *y, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = ctr_e_cross(x0[i], z[i], x[i]);
}

static void cross_grad(const float *x0, const float *z, const float *dy, float *dz, float *dx0, int64_t n, bool add)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx0[i] = add ? dx0[i] + g * z[i] : g * z[i];
        dz[i] = g * x0[i];
    }
}

/* Transposes a few elements of all vectors, so that the products of one vector with the previous ones are a loop over
 * adjacent elements; each sum runs over the elements in order. */
static void dots(const float *x, float *out, int64_t fields, int64_t width)
{
    enum { PART = 8 };
    float side[PART][CTR_MAX_DOT_FIELDS];

    memset(out, 0, (size_t)(fields * (fields - 1) / 2) * sizeof *out);
    for (int64_t from = 0; from < width; from += PART) {
        const int64_t n = CTR_MIN(PART, width - from);
        for (int64_t f = 0; f < fields; f++)
            for (int64_t d = 0; d < n; d++)
                side[d][f] = x[f * width + from + d];
        float *to = out;
        for (int64_t f = 1; f < fields; to += f, f++)
            for (int64_t d = 0; d < n; d++) {
                const float v = side[d][f];
#pragma GCC ivdep
                for (int64_t g = 0; g < f; g++)
                    to[g] = to[g] + v * side[d][g];
            }
    }
}

static void dots_grad(const float *x, const float *dout, float *dx, int64_t fields, int64_t width)
{
    memset(dx, 0, (size_t)(fields * width) * sizeof *dx);
    for (int64_t f = 0; f < fields; f++)
        for (int64_t g = 0; g < fields; g++) {
            if (g == f)
                continue;
            const float v = dout[g < f ? f * (f - 1) / 2 + g : g * (g - 1) / 2 + f];
            const float *other = x + g * width;
            float *to = dx + f * width;
#pragma GCC ivdep
            for (int64_t d = 0; d < width; d++)
                to[d] = to[d] + v * other[d];
        }
}

/* ---- batch normalization: a block of columns, all rows ---- */

static void stats(struct ctr_block x, int64_t rows, int64_t cols, float *mean, float *var)
{
    double sum[CTR_COLS_BLOCK] = { 0 }, square[CTR_COLS_BLOCK] = { 0 };
    const double n = rows ? (double)rows : 1;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            sum[j] += (double)x.p[i * x.stride + j];
    for (int64_t j = 0; j < cols; j++)
        sum[j] /= n;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double d = (double)x.p[i * x.stride + j] - sum[j];
            square[j] += d * d;
        }
    for (int64_t j = 0; j < cols; j++) {
        mean[j] = (float)sum[j];
        var[j] = (float)(square[j] / n);
    }
}

static void norm(const struct ctr_norm_block *b, int64_t rows, int64_t cols)
{
    const float *mean = b->mean, *var = b->var, *gamma = b->gamma, *beta = b->beta, eps = b->eps;

    for (int64_t i = 0; i < rows; i++) {
        const float *x = b->x.p + i * b->x.stride;
        float *y = b->y.p + i * b->y.stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < cols; j++) {
            const float xhat = (x[j] - mean[j]) * ctr_e_rstd(var[j], eps);
            y[j] = (gamma ? gamma[j] : 1.0f) * xhat + (beta ? beta[j] : 0.0f);
        }
    }
}

static void norm_grad(const struct ctr_norm_block *b, int64_t rows, int64_t cols)
{
    double dgamma[CTR_COLS_BLOCK] = { 0 }, dbeta[CTR_COLS_BLOCK] = { 0 };
    float rstd[CTR_COLS_BLOCK], shift[CTR_COLS_BLOCK], mean_dot[CTR_COLS_BLOCK], slope[CTR_COLS_BLOCK];
    const float *mean = b->mean;

    for (int64_t j = 0; j < cols; j++)
        rstd[j] = ctr_e_rstd(b->var[j], b->eps);
    for (int64_t i = 0; i < rows; i++) {
        const float *x = b->x.p + i * b->x.stride, *dy = b->dy.p + i * b->dy.stride;
        for (int64_t j = 0; j < cols; j++) {
            dgamma[j] += (double)(dy[j] * ((x[j] - mean[j]) * rstd[j]));
            dbeta[j] += (double)dy[j];
        }
    }
    for (int64_t j = 0; j < cols; j++) {
        shift[j] = (float)(dbeta[j] / (double)rows);
        mean_dot[j] = (float)(dgamma[j] / (double)rows);
        slope[j] = (b->gamma ? b->gamma[j] : 1.0f) * rstd[j];
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *x = b->x.p + i * b->x.stride, *dy = b->dy.p + i * b->dy.stride;
        float *dx = b->y.p + i * b->y.stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < cols; j++) {
            const float xhat = (x[j] - mean[j]) * rstd[j];
            dx[j] = slope[j] * (dy[j] - (shift[j] + xhat * mean_dot[j]));
        }
    }
    store_sums(b->dgamma, dgamma, cols);
    store_sums(b->dbeta, dbeta, cols);
}

/* ---- loss, optimizers ---- */

static void bce(const float *z, const float *label, const float *weight, float scale, float *p, float *loss, float *dz,
                int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float w = weight ? weight[i] : 1.0f, q = ctr_e_sigmoid(z[i]);
        if (p)
            p[i] = q;
        if (loss)
            loss[i] = w * (ctr_e_softplus(z[i]) - label[i] * z[i]);
        if (dz)
            dz[i] = scale * w * (q - label[i]);
    }
}

static void opt(const struct ctr_opt_step *o, const float *g, const float *squares, const float *l2, float *restrict w,
                float *restrict s1, float *restrict s2, int64_t n)
{
    const struct ctr_opt_step c = *o;

    switch (c.kind) {
    case CTR_OPT_SGD:
        for (int64_t i = 0; i < n; i++)
            ctr_e_sgd(&c, g[i], l2 ? l2[i] : c.l2, &w[i]);
        break;
    case CTR_OPT_ADAGRAD:
        for (int64_t i = 0; i < n; i++)
            ctr_e_adagrad(&c, g[i], l2 ? l2[i] : c.l2, &w[i], &s1[i]);
        break;
    case CTR_OPT_ADAM:
        for (int64_t i = 0; i < n; i++)
            ctr_e_adam(&c, g[i], l2 ? l2[i] : c.l2, &w[i], &s1[i], &s2[i]);
        break;
    case CTR_OPT_FTRL:
        for (int64_t i = 0; i < n; i++)
            ctr_e_ftrl(&c, g[i], squares ? squares[i] : g[i] * g[i], l2 ? l2[i] : c.l2, &w[i], &s1[i], &s2[i]);
        break;
    }
}

/* ---- images ---- */

static void most(const float *x, float *y, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = ctr_e_most(y[i], x[i]);
}

#define TILE_NAME(r, v)  [v - 1] = tile_##r##x##v,
#define TILE_NAMES(r)    [r - 1] = { TILE_VECTORS(TILE_NAME, r) },
#define TABLE_NAME_(isa) ctr_cpu_##isa
#define TABLE_NAME(isa)  TABLE_NAME_(isa)
#define TEXT_(isa)       #isa
#define TEXT(isa)        TEXT_(isa)
const struct ctr_cpu_kernels TABLE_NAME(ISA) = {
    .name = TEXT(ISA),
    .usable = usable,
    .lanes = LANES > 1 ? LANES : 16,
    .rows = ROWS,
    .vectors = VECTORS,
    .gemm = { TILE_ROWS(TILE_NAMES) },
    .act = act,
    .act_grad = act_grad,
    .pool = pool,
    .pool_grad = pool_grad,
    .attend_input = attend_input,
    .attend_input_grad = attend_input_grad,
    .attend = attend,
    .attend_grad = attend_grad,
    .axpby = axpby,
    .row_dot = row_dot,
    .dropout = dropout,
    .cross = cross,
    .cross_grad = cross_grad,
    .dots = dots,
    .dots_grad = dots_grad,
    .stats = stats,
    .norm = norm,
    .norm_grad = norm_grad,
    .bce = bce,
    .opt = opt,
    .most = most,
};
