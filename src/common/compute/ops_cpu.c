/* SPDX-License-Identifier: Apache-2.0
 *
 * ops_cpu: the CPU back end's table, and its operations on whole matrices and vectors, divided into tasks. */
#include "common/compute/cpu.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

static const struct ctr_cpu_kernels *best_kernels(void)
{
    static const struct ctr_cpu_kernels *const tables[] = {
#if defined(__x86_64__)
        &ctr_cpu_avx512,
        &ctr_cpu_avx2,
#endif
        &ctr_cpu_plain,
    };
    int i = 0;
    while (!tables[i]->usable())
        i++;
    return tables[i];
}

int ctr_cpu_open(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    struct ctr_cpu_state *state = calloc(1, sizeof *state);

    if (!state)
        return ctr_fail_nomem(err, sizeof *state);
    int rc = ctr_pool_new(&dev->pool, CTR_MAX(want->threads, 1), CTR_FLOAT_FLUSH, err);
    if (rc) {
        free(state);
        return rc;
    }
    ctr_pool_stay_awake(dev->pool);
    state->kernels = best_kernels();
    dev->state = state;
    dev->host = true;
    snprintf(dev->title, sizeof dev->title, "%s: %s, %d thread%s", dev->ops->name, state->kernels->name,
             ctr_pool_threads(dev->pool), ctr_pool_threads(dev->pool) == 1 ? "" : "s");
    return 0;
}

void ctr_cpu_close(struct ctr_dev *dev)
{
    ctr_pool_free(dev->pool);
    free(dev->state);
}

/* ---- tasks: rows, columns, or a run of elements ---- */

/* Most operations below are a pair: run_X calls the kernel for rows [from, to), SPREAD says how many rows a task has.
 * For example, with 4 threads and a matrix of 1,000 x 64:
 *
 *     act, dropout, …    by rows: rows_a_task(64) = 32,768 / 64 = 512       tasks [0, 512) [512, 1000)
 *     act_grad           by runs of CTR_RUN_ROWS = 64 rows, each with sums of its own; ctr_cpu_join_runs adds these
 *                        in the order of runs (dice: by columns)
 *     stats, norm_grad   by columns: cols_a_task(64) = 16, all rows         tasks [0, 16) … [48, 64)
 *
 * A sum over rows thus always has the same order of additions, so results do not depend on threads. */

struct task {
    struct ctr_dev *dev;
    const void *a; /* the operation's operands */
    const struct ctr_cpu_kernels *kernels;
    void (*run)(const struct task *t, int64_t from, int64_t to);
    int64_t n, block;
    struct ctr_opt_step opt;
    const struct ctr_run_sums *sums;
};

static void run_task(void *ctx, int64_t task, int worker)
{
    const struct task *t = ctx;
    (void)worker;
    t->run(t, task * t->block, CTR_MIN((task + 1) * t->block, t->n));
}

/* run(t, from, to) over [0, n), in blocks. */
static int spread(struct task *t, struct ctr_dev *dev, const void *a, int64_t n, int64_t block,
                  void (*run)(const struct task *t, int64_t from, int64_t to))
{
    t->dev = dev;
    t->a = a;
    t->kernels = ctr_cpu_kernels_of(dev);
    t->run = run;
    t->n = n;
    t->block = CTR_MAX(block, 1);
    ctr_pool_run(dev->pool, (n + t->block - 1) / t->block, run_task, t);
    return 0;
}

/* An operation that is run_OP over [0, n), in blocks, and nothing else. */
#define SPREAD(op, n, block)                                                                                           \
    int ctr_cpu_##op(struct ctr_dev *dev, const struct ctr_dev_##op *a, struct ctr_err *err)                           \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return spread(&(struct task){ 0 }, dev, a, n, block, run_##op);                                                \
    }

/* Columns per task for sums over rows: wide, because rows are far apart in memory, and long runs load faster. */
static int64_t cols_a_task(const struct ctr_dev *dev, int64_t cols)
{
    return CTR_MIN((cols / ctr_pool_threads(dev->pool) + 15) / 16 * 16, CTR_COLS_BLOCK);
}

static int64_t rows_a_task(int64_t cols)
{
    return CTR_MAX(CTR_TASK_ELEMENTS / CTR_MAX(cols, 1), 1);
}

static struct ctr_block block_at(struct ctr_mat m, int64_t row, int64_t col)
{
    return (struct ctr_block){ m.mem ? ctr_mat_f32(m) + row * m.stride + col : NULL, m.stride };
}

static float *f32_at(struct ctr_vec v, int64_t i)
{
    return v.mem ? ctr_vec_f32(v) + i : NULL;
}

/* ---- activations ---- */

static struct ctr_act_cols act_cols(const struct ctr_act *act, struct ctr_vec bias, int64_t col)
{
    return (struct ctr_act_cols){
        act->kind, act->eps, f32_at(bias, col), f32_at(act->alpha, col), f32_at(act->mean, col), f32_at(act->var, col)
    };
}

void ctr_cpu_epilogue(const struct ctr_dev *dev, const struct ctr_dev_gemm *a, int64_t row, int64_t rows, int64_t col,
                      int64_t cols)
{
    const struct ctr_cpu_kernels *kernels = ctr_cpu_kernels_of(dev);
    const struct ctr_block c = block_at(a->c, row, col), pre = block_at(a->pre, row, col);
    const struct ctr_act_cols k = act_cols(&a->act, a->bias, col);

    if (a->pre.mem || k.bias || k.kind != CTR_ACT_NONE)
        kernels->act(&k, a->pre.mem ? pre : c, pre, c, rows, cols);
}

static void run_act(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_act *a = t->a;
    const struct ctr_act_cols k = act_cols(&a->act, a->bias, 0);
    t->kernels->act(&k, block_at(a->z, from, 0), (struct ctr_block){ 0 }, block_at(a->y, from, 0), to - from,
                    a->z.cols);
}

SPREAD(act, a->z.rows, rows_a_task(a->z.cols))

int ctr_cpu_run_sums(struct ctr_dev *dev, struct ctr_run_sums *s, int64_t rows, int64_t cols, struct ctr_err *err)
{
    void *room;
    s->runs = (rows + CTR_RUN_ROWS - 1) / CTR_RUN_ROWS;
    s->cols = cols;
    const size_t sums = (size_t)CTR_MAX(s->runs, 1) * (size_t)cols;
    int rc = ctr_dev_scratch(dev, 3, 2 * sums * sizeof(double), &room, err);
    if (rc)
        return rc;
    s->dalpha = room;
    s->dbias = s->dalpha + sums;
    if (!rows)
        memset(room, 0, 2 * sums * sizeof(double));
    return 0;
}

/* One block of act_grad, which contributes the sums of run `run`. */
static void act_grad_block(const struct ctr_dev *dev, const struct ctr_dev_act_grad *a, const struct ctr_run_sums *s,
                           int64_t run, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const struct ctr_act_grad_block b = {
        .act = act_cols(&a->act, (struct ctr_vec){ 0 }, col),
        .z = block_at(a->z, row, col),
        .dy = block_at(a->dy, row, col),
        .dz = block_at(a->dz, row, col),
        .dalpha = s->dalpha + run * s->cols + col,
        .dbias = s->dbias + run * s->cols + col,
        .batch = a->batch,
    };
    ctr_cpu_kernels_of(dev)->act_grad(&b, rows, cols);
}

void ctr_cpu_act_grad_runs(const struct ctr_dev *dev, const struct ctr_dev_act_grad *a, const struct ctr_run_sums *s,
                           int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    for (int64_t r = row; r < row + rows; r += CTR_RUN_ROWS)
        for (int64_t c = col; c < col + cols; c += CTR_COLS_BLOCK)
            act_grad_block(dev, a, s, r / CTR_RUN_ROWS, r, CTR_MIN(CTR_RUN_ROWS, row + rows - r), c,
                           CTR_MIN(CTR_COLS_BLOCK, col + cols - c));
}

static void join_runs(double *sum, int64_t runs, int64_t cols, struct ctr_vec to)
{
    for (int64_t r = 1; to.mem && r < runs; r++)
        for (int64_t j = 0; j < cols; j++)
            sum[j] += sum[r * cols + j];
    for (int64_t j = 0; to.mem && j < cols; j++)
        ctr_vec_f32(to)[j] = (float)sum[j];
}

void ctr_cpu_join_runs(const struct ctr_run_sums *s, struct ctr_vec dalpha, struct ctr_vec dbias)
{
    join_runs(s->dalpha, s->runs, s->cols, dalpha);
    join_runs(s->dbias, s->runs, s->cols, dbias);
}

static void run_act_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_act_grad *a = t->a;
    ctr_cpu_act_grad_runs(t->dev, a, t->sums, from, to - from, 0, a->dy.cols);
}

static void run_dice_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_act_grad *a = t->a;
    act_grad_block(t->dev, a, t->sums, 0, 0, a->dy.rows, from, to - from);
}

int ctr_cpu_act_grad(struct ctr_dev *dev, const struct ctr_dev_act_grad *a, struct ctr_err *err)
{
    struct ctr_run_sums s;
    struct task t = { .sums = &s };
    int rc = ctr_cpu_run_sums(dev, &s, a->dy.rows, a->dy.cols, err);
    if (rc)
        return rc;
    if (a->act.kind == CTR_ACT_DICE) { /* its statistics depend on all rows */
        s.runs = CTR_MIN(s.runs, 1);
        rc = spread(&t, dev, a, a->dy.cols, cols_a_task(dev, a->dy.cols), run_dice_grad);
    } else {
        rc = spread(&t, dev, a, a->dy.rows, CTR_RUN_ROWS, run_act_grad);
    }
    ctr_cpu_join_runs(&s, a->dalpha, a->dbias);
    return rc;
}

/* ---- embeddings ---- */

static struct ctr_pool_block pool_block(enum ctr_pooling how, const struct ctr_lists *l, struct ctr_mat rows,
                                        struct ctr_mat out, int64_t width)
{
    return (struct ctr_pool_block){
        .how = how,
        .start = ctr_vec_i32(l->start),
        .index = ctr_vec_i32(l->index),
        .segment = ctr_vec_i32(l->segment),
        .x = ctr_vec_f32(l->x),
        .per_row = l->per_row,
        .width = width,
        .rows = block_at(rows, 0, 0),
        .out = block_at(out, 0, 0),
    };
}

static void run_pool(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_pool *a = t->a;
    const struct ctr_pool_block b = pool_block(a->how, &a->lists, a->rows, a->out, a->rows.cols);
    t->kernels->pool(&b, from, to);
}

SPREAD(pool, a->lists.lists, rows_a_task(a->rows.cols))

static void run_pool_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_pool_grad *a = t->a;
    struct ctr_pool_block b = pool_block(a->how, &a->lists, a->rows, a->dout, a->grad.cols);
    b.group = ctr_vec_i32(a->group_start);
    b.item = ctr_vec_i32(a->group_item);
    b.first = a->first;
    b.entries = a->lists.index.n;
    b.whole = a->group_item.n == b.entries;
    b.grad = block_at(a->grad, 0, 0);
    b.squares = block_at(a->squares, 0, 0);
    b.pooled = block_at(a->out, 0, 0);
    b.add = a->add;
    t->kernels->pool_grad(&b, from, to);
}

SPREAD(pool_grad, a->grad.rows, rows_a_task(8 * a->grad.cols))

/* ---- target attention: tasks of rows, whose entries are theirs ---- */

static struct ctr_attend_block attend_block(const struct ctr_segments *s, struct ctr_mat key)
{
    return (struct ctr_attend_block){
        .start = ctr_vec_i32(s->start), .entry0 = s->entry0, .width = key.cols, .key = block_at(key, 0, 0)
    };
}

static int64_t sequences_a_task(const struct ctr_segments *s, int64_t cols)
{
    const int64_t rows = CTR_MAX(s->start.n - 1, 1);
    return rows_a_task((s->segment.n + rows - 1) / rows * cols);
}

static void run_attend_input(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_attend_input *a = t->a;
    struct ctr_attend_block b = attend_block(&a->segments, a->key);
    b.query = block_at(a->query, 0, 0);
    b.out = block_at(a->out, 0, 0);
    t->kernels->attend_input(&b, from, to);
}

SPREAD(attend_input, a->query.rows, sequences_a_task(&a->segments, 3 * a->key.cols))

static void run_attend_input_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_attend_input_grad *a = t->a;
    struct ctr_attend_block b = attend_block(&a->segments, a->key);
    b.query = block_at(a->query, 0, 0);
    b.out = block_at(a->dout, 0, 0);
    b.dquery = block_at(a->dquery, 0, 0);
    b.dkey = block_at(a->dkey, 0, 0);
    t->kernels->attend_input_grad(&b, from, to);
}

SPREAD(attend_input_grad, a->query.rows, sequences_a_task(&a->segments, 4 * a->key.cols))

static void run_attend(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_attend *a = t->a;
    struct ctr_attend_block b = attend_block(&a->segments, a->value);
    b.out = block_at(a->out, 0, 0);
    b.softmax = a->softmax;
    b.scale = a->scale;
    b.score = ctr_vec_f32(a->score);
    b.share = ctr_vec_f32(a->share);
    t->kernels->attend(&b, from, to);
}

SPREAD(attend, a->out.rows, sequences_a_task(&a->segments, a->value.cols))

static void run_attend_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_attend_grad *a = t->a;
    struct ctr_attend_block b = attend_block(&a->segments, a->value);
    b.query = block_at(a->dout, 0, 0);
    b.dkey = block_at(a->dvalue, 0, 0);
    b.softmax = a->softmax;
    b.scale = a->scale;
    b.share = ctr_vec_f32(a->share);
    b.dscore = ctr_vec_f32(a->dscore);
    t->kernels->attend_grad(&b, from, to);
}

SPREAD(attend_grad, a->dout.rows, sequences_a_task(&a->segments, 2 * a->value.cols))

static void run_move_rows(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_move_rows *a = t->a;
    const int32_t *from_index = ctr_vec_i32(a->from_index), *to_index = ctr_vec_i32(a->to_index);

    for (int64_t i = from; i < to; i++) {
        const int64_t f = from_index ? from_index[i] : i, o = to_index ? to_index[i] : i;
        if (f >= 0 && o >= 0)
            memcpy(ctr_mat_f32(a->to) + o * a->to.stride, ctr_mat_f32(a->from) + f * a->from.stride,
                   (size_t)a->from.cols * sizeof(float));
    }
}

SPREAD(move_rows, a->from.cols ? a->n : 0, rows_a_task(a->from.cols))

/* ---- elementwise ---- */

static void run_copy(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_copy *a = t->a;
    for (int64_t i = from; i < to; i++)
        memcpy(block_at(a->to, i, 0).p, block_at(a->from, i, 0).p, (size_t)a->from.cols * sizeof(float));
}

SPREAD(copy, a->from.cols ? a->from.rows : 0, rows_a_task(a->from.cols))

static void run_axpby(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_axpby *a = t->a;
    for (int64_t i = from; i < to; i++)
        t->kernels->axpby(a->a, block_at(a->x, i, 0).p, a->b, block_at(a->y, i, 0).p, a->x.cols);
}

SPREAD(axpby, a->x.rows, rows_a_task(a->x.cols))

static void run_fill(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_fill *a = t->a;
    for (int64_t i = from; i < to; i++)
        for (int64_t j = 0; j < a->x.cols; j++)
            block_at(a->x, i, 0).p[j] = a->value;
}

SPREAD(fill, a->x.rows, rows_a_task(a->x.cols))

static void run_row_dot(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_row_dot *a = t->a;
    t->kernels->row_dot(block_at(a->a, from, 0), block_at(a->b, from, 0), a->a.cols,
                        a->bias.mem ? *ctr_vec_f32(a->bias) : 0, a->bias.mem, f32_at(a->y, from), to - from);
}

SPREAD(row_dot, a->a.rows, rows_a_task(a->a.cols))

static void run_row_scale(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_row_scale *a = t->a;
    for (int64_t i = from; i < to; i++)
        t->kernels->axpby(*f32_at(a->s, i), block_at(a->x, i, 0).p, 0, block_at(a->y, i, 0).p, a->x.cols);
}

SPREAD(row_scale, a->x.rows, rows_a_task(a->x.cols))

static void run_dropout(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_dropout *a = t->a;
    const uint64_t base = ctr_e_random_base(a->seed, a->stream);
    const uint32_t least = (uint32_t)ceil((double)a->rate * 0x1p24);
    const float scale = (float)(1 / (1 - (double)a->rate));

    for (int64_t i = from; i < to; i++)
        t->kernels->dropout(base, (uint64_t)(a->row0 + i) * (uint64_t)a->x.cols, least, scale, block_at(a->x, i, 0).p,
                            block_at(a->y, i, 0).p, a->x.cols);
}

SPREAD(dropout, a->x.rows, rows_a_task(a->x.cols))

/* ---- crosses of features ---- */

static void run_cross(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_cross *a = t->a;
    for (int64_t i = from; i < to; i++)
        t->kernels->cross(block_at(a->x0, i, 0).p, block_at(a->z, i, 0).p, block_at(a->x, i, 0).p,
                          block_at(a->y, i, 0).p, a->y.cols);
}

SPREAD(cross, a->y.rows, rows_a_task(a->y.cols))

static void run_cross_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_cross_grad *a = t->a;
    for (int64_t i = from; i < to; i++)
        t->kernels->cross_grad(block_at(a->x0, i, 0).p, block_at(a->z, i, 0).p, block_at(a->dy, i, 0).p,
                               block_at(a->dz, i, 0).p, block_at(a->dx0, i, 0).p, a->dy.cols, a->add);
}

SPREAD(cross_grad, a->dy.rows, rows_a_task(a->dy.cols))

static void run_dots(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_dots *a = t->a;
    for (int64_t i = from; i < to; i++)
        t->kernels->dots(block_at(a->x, i, 0).p, block_at(a->out, i, 0).p, a->fields, a->x.cols / a->fields);
}

SPREAD(dots, a->out.cols ? a->x.rows : 0, rows_a_task(a->x.cols * a->fields / 4))

static void run_dots_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_dots_grad *a = t->a;
    for (int64_t i = from; i < to; i++)
        t->kernels->dots_grad(block_at(a->x, i, 0).p, block_at(a->dout, i, 0).p, block_at(a->dx, i, 0).p, a->fields,
                              a->x.cols / a->fields);
}

SPREAD(dots_grad, a->x.cols ? a->x.rows : 0, rows_a_task(a->x.cols * a->fields / 2))

/* ---- batch normalization ---- */

static void run_stats(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_stats *a = t->a;
    t->kernels->stats(block_at(a->x, 0, from), a->x.rows, to - from, f32_at(a->mean, from), f32_at(a->var, from));
}

SPREAD(stats, a->x.cols, cols_a_task(dev, a->x.cols))

static void run_norm(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_norm *a = t->a;
    const struct ctr_norm_block b = {
        .x = block_at(a->x, from, 0),
        .y = block_at(a->y, from, 0),
        .mean = ctr_vec_f32(a->mean),
        .var = ctr_vec_f32(a->var),
        .gamma = ctr_vec_f32(a->gamma),
        .beta = ctr_vec_f32(a->beta),
        .eps = a->eps,
    };
    t->kernels->norm(&b, to - from, a->x.cols);
}

SPREAD(norm, a->x.rows, rows_a_task(a->x.cols))

static void run_norm_grad(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_norm_grad *a = t->a;
    const struct ctr_norm_block b = {
        .x = block_at(a->x, 0, from),
        .dy = block_at(a->dy, 0, from),
        .y = block_at(a->dx, 0, from),
        .mean = f32_at(a->mean, from),
        .var = f32_at(a->var, from),
        .gamma = f32_at(a->gamma, from),
        .dgamma = f32_at(a->dgamma, from),
        .dbeta = f32_at(a->dbeta, from),
        .eps = a->eps,
    };
    t->kernels->norm_grad(&b, a->x.rows, to - from);
}

SPREAD(norm_grad, a->x.cols, cols_a_task(dev, a->x.cols))

/* ---- loss, optimizers ---- */

static void run_bce(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_bce *a = t->a;
    t->kernels->bce(f32_at(a->z, from), f32_at(a->label, from), f32_at(a->weight, from), a->scale, f32_at(a->p, from),
                    f32_at(a->loss, from), f32_at(a->dz, from), to - from);
}

int ctr_cpu_bce(struct ctr_dev *dev, const struct ctr_dev_bce *a, struct ctr_err *err)
{
    struct ctr_dev_bce b = *a;
    double total = 0;

    if (a->total.mem && !a->loss.mem) { /* the total sums what is stored */
        void *loss;
        int rc = ctr_dev_scratch(dev, 1, (size_t)a->z.n * sizeof(float), &loss, err);
        if (rc)
            return rc;
        b.loss = ctr_vec(dev->scratch[1], a->z.n);
    }
    spread(&(struct task){ 0 }, dev, &b, a->z.n, CTR_TASK_ELEMENTS / 8, run_bce);
    for (int64_t i = 0; a->total.mem && i < a->z.n; i++)
        total += (double)ctr_vec_f32(b.loss)[i];
    if (a->total.mem)
        *ctr_vec_f64(a->total) = total;
    return 0;
}

static void run_opt_dense(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_opt_dense *a = t->a;
    t->kernels->opt(&t->opt, f32_at(a->g, from), NULL, NULL, f32_at(a->w, from), f32_at(a->s1, from),
                    f32_at(a->s2, from), to - from);
}

int ctr_cpu_opt_dense(struct ctr_dev *dev, const struct ctr_dev_opt_dense *a, struct ctr_err *err)
{
    struct task t = { .opt = ctr_opt_step_of(&a->opt) };
    (void)err;
    return spread(&t, dev, a, a->w.n, CTR_TASK_ELEMENTS, run_opt_dense);
}

/* Rows are gathered in pieces into dense arrays, so that the optimizer's loop uses whole vectors for any width. */
enum { PIECE = 1024 };
struct piece {
    _Alignas(64) float g[PIECE], squares[PIECE], l2[PIECE], w[PIECE], s1[PIECE], s2[PIECE];
    float *row[PIECE]; /* of each run of `cols` elements */
    int64_t cols, stretches;
    bool squared; /* squares are given */
};

static void flush_piece(const struct task *t, struct piece *p, int64_t width, int states)
{
    const size_t bytes = (size_t)p->cols * sizeof(float);

    t->kernels->opt(&t->opt, p->g, p->squared ? p->squares : NULL, p->l2, p->w, p->s1, p->s2, p->stretches * p->cols);
    for (int64_t i = 0; i < p->stretches; i++) {
        memcpy(p->row[i], p->w + i * p->cols, bytes);
        if (states > 0)
            memcpy(p->row[i] + width, p->s1 + i * p->cols, bytes);
        if (states > 1)
            memcpy(p->row[i] + 2 * width, p->s2 + i * p->cols, bytes);
    }
    p->stretches = 0;
}

static void take_stretch(struct piece *p, float *row, const float *g, const float *squares, float l2, int64_t width,
                         int states)
{
    const int64_t at = p->stretches * p->cols;
    const size_t bytes = (size_t)p->cols * sizeof(float);

    p->row[p->stretches++] = row;
    memcpy(p->g + at, g, bytes);
    if (squares)
        memcpy(p->squares + at, squares, bytes);
    memcpy(p->w + at, row, bytes);
    if (states > 0)
        memcpy(p->s1 + at, row + width, bytes);
    if (states > 1)
        memcpy(p->s2 + at, row + 2 * width, bytes);
    for (int64_t d = 0; d < p->cols; d++)
        p->l2[at + d] = l2;
}

/* Columns [col, col + cols) of rows [from, to). */
static void opt_columns(const struct task *t, int64_t from, int64_t to, int64_t col, int64_t cols)
{
    const struct ctr_dev_opt_rows *a = t->a;
    const int states = ctr_opt_states(a->opt.kind);
    const int32_t *index = ctr_vec_i32(a->index);
    const float *l2_row = ctr_vec_f32(a->l2_row);
    struct piece p;

    p.cols = cols;
    p.stretches = 0;
    p.squared = a->squares.mem;
    for (int64_t i = from; i < to; i++) {
        const int64_t row = index ? index[i] : i;
        if (row < 0)
            continue;
        take_stretch(&p, block_at(a->rows, row, col).p, block_at(a->g, i, col).p, block_at(a->squares, i, col).p,
                     l2_row ? t->opt.l2 + l2_row[i] : t->opt.l2, a->g.cols, states);
        if ((p.stretches + 1) * cols > PIECE)
            flush_piece(t, &p, a->g.cols, states);
    }
    flush_piece(t, &p, a->g.cols, states);
}

static void run_opt_rows(const struct task *t, int64_t from, int64_t to)
{
    const struct ctr_dev_opt_rows *a = t->a;
    for (int64_t col = 0; col < a->g.cols; col += PIECE)
        opt_columns(t, from, to, col, CTR_MIN(PIECE, a->g.cols - col));
}

int ctr_cpu_opt_rows(struct ctr_dev *dev, const struct ctr_dev_opt_rows *a, struct ctr_err *err)
{
    struct task t = { .opt = ctr_opt_step_of(&a->opt) };
    (void)err;
    return spread(&t, dev, a, a->g.rows, rows_a_task(4 * a->g.cols), run_opt_rows);
}

const struct ctr_ops ctr_ops_cpu = {
    .name = "cpu", .open = ctr_cpu_open, .close = ctr_cpu_close, CTR_HOST_SLOTS, CTR_DEV_OPS(CTR_CPU_SLOT)
};
