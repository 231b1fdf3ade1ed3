/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_cpu: C = act(A' B' + bias) on the CPU. C is divided into a grid of blocks, one per task; a block iterates over k
 * in pieces that stay in the second-level cache, and over tiles of a few rows and vectors whose sums stay in registers.
 * For any division, an element's sum is one chain of fmaf over ascending k: a piece starts with the value stored by the
 * previous piece, and storing a float does not change it. So bits do not depend on the sizes chosen here.
 *
 * A' is read in place. B' is packed into panels of a tile's width, which are read sequentially: once for all tasks or,
 * if k is long and columns are dense (weight gradients), a piece at a time by the worker that needs it. */
#include "common/compute/cpu.h"

enum {
    K_WHOLE = 1024,        /* largest k that is not divided */
    K_PIECE = 256,         /* pieces of a larger k */
    ROWS_BLOCK = 128,      /* rows of a block, */
    ROWS_WHOLE = 480,      /* if there are more rows than this */
    ROWS_PACK = 40,        /* minimum rows of a block for packing a piece of B'; rows of A' packed together */
    PACK_BYTES = 16 << 20, /* packed B' at a time */
    BLOCKS_A_THREAD = 4,   /* so that a slow thread does not delay the others */
    PIECED_A_THREAD = 2,   /* fewer if each block packs its own parts of B' */
};

struct job {
    const struct ctr_dev *dev;
    const struct ctr_dev_gemm *a;
    const struct ctr_cpu_kernels *kernels;
    int64_t m, n, k;
    int64_t a_row, a_k, b_k, b_col;      /* strides of A', B' in elements */
    struct ctr_mat target;               /* receives the sums before bias and act: pre, or C */
    int64_t width;                       /* columns of a whole tile */
    int64_t first_panel, panels;         /* of the current round */
    float *packed;                       /* the panels of the current round, or NULL: */
    float *pieces;                       /* a piece of a panel per worker */
    int64_t piece;                       /* of k */
    float *packed_rows;                  /* the same for A' and a block's rows, ROWS_PACK at a time; NULL: in place */
    const struct ctr_dev_act_grad *back; /* or NULL */
    struct ctr_run_sums sums;
    int64_t rows_unit, panels_block, row_blocks; /* a block: some units of rows, by panels */
};

/* A few dozen floats. A memcpy of unknown size costs more here: a call or, if gcc expands it, rep movsq. */
static inline void copy_few(float *to, const float *from, int64_t n)
{
    for (; n >= 8; n -= 8, to += 8, from += 8)
        memcpy(to, from, 8 * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* Copy k rows of B' with dense columns: what is past cols is not used. */
static void copy_panel(const struct job *j, const float *b, int64_t cols, int64_t k, float *out)
{
    for (int64_t l = 0; l < k; l++)
        copy_few(out + l * j->width, b + l * j->b_k, cols);
}

/* Panel p of B', k x width, k outermost: columns past the end are zeros. */
static void pack_panel(void *ctx, int64_t task, int worker)
{
    const struct job *j = ctx;
    const int64_t col = (j->first_panel + task) * j->width, cols = CTR_MIN(j->width, j->n - col);
    const float *b = ctr_mat_f32(j->a->b) + col * j->b_col;
    float *out = j->packed + task * j->width * j->k;

    (void)worker;
    if (j->b_col == 1) {
        copy_panel(j, b, cols, j->k, out);
        return;
    }
    for (int64_t l0 = 0; l0 < j->k; l0 += 16) { /* cache lines of B are used for all their 16 floats */
        const int64_t l1 = CTR_MIN(l0 + 16, j->k);
        for (int64_t c = 0; c < cols; c++)
            for (int64_t l = l0; l < l1; l++)
                out[l * j->width + c] = b[c * j->b_col + l * j->b_k];
        for (int64_t l = l0; l < l1 && cols < j->width; l++)
            memset(out + l * j->width + cols, 0, (size_t)(j->width - cols) * sizeof *out);
    }
}

static int64_t packed_rows_floats(const struct job *j) /* per worker */
{
    return (CTR_MIN(j->m, ROWS_WHOLE) / ROWS_PACK + 2) * ROWS_PACK * j->piece;
}

/* B' of one panel for k in [k0, k1), packed if there are enough rows. */
static const float *piece_of(const struct job *j, int64_t panel, int64_t rows, int64_t k0, int64_t k1, int worker,
                             int64_t *stride)
{
    const int64_t col = panel * j->width, cols = CTR_MIN(j->width, j->n - col);
    const float *b = ctr_mat_f32(j->a->b) + k0 * j->b_k + col;
    float *to = j->pieces + worker * j->piece * j->width;

    *stride = j->packed || rows >= ROWS_PACK ? j->width : j->b_k;
    if (j->packed)
        return j->packed + (panel - j->first_panel) * j->width * j->k + k0 * j->width;
    if (rows < ROWS_PACK)
        return b;
    copy_panel(j, b, cols, k1 - k0, to);
    return to;
}

/* Pack A' of a block's rows for k in [k0, k1). If its rows are adjacent in memory, each k is on another page, and a
 * piece has more pages than the first-level TLB. */
static void pack_rows(const struct job *j, int64_t row0, int64_t row1, int64_t k0, int64_t k1, int worker)
{
    const int64_t step = ROWS_PACK * j->piece;
    float *to = j->packed_rows + worker * packed_rows_floats(j);
    for (int64_t row = row0; row < row1; row += ROWS_PACK, to += step) {
        const int64_t rows = CTR_MIN(row1 - row, ROWS_PACK);
        const float *from = ctr_mat_f32(j->a->a) + row + k0 * j->a_k;
        for (int64_t k = 0; k < k1 - k0; k++)
            copy_few(to + k * ROWS_PACK, from + k * j->a_k, rows);
    }
}

/* One panel of a block of rows, for k in [k0, k1). */
static void run_panel(const struct job *j, int64_t panel, int64_t row0, int64_t row1, int64_t k0, int64_t k1,
                      int worker)
{
    const struct ctr_cpu_kernels *kernels = j->kernels;
    const int64_t col = panel * j->width, cols = CTR_MIN(j->width, j->n - col);
    const int64_t vectors = (cols + kernels->lanes - 1) / kernels->lanes;
    const struct ctr_mat start = k0 == 0 ? j->a->c : j->target;
    const bool zero = k0 == 0 && !j->a->add;
    struct ctr_gemm_tile t = {
        .k = k1 - k0, .a_row = j->a_row, .a_k = j->a_k, .ld = j->target.stride, .cols = (int)cols
    };

    t.b = piece_of(j, panel, row1 - row0, k0, k1, worker, &t.b_k);
    for (int64_t row = row0; row < row1; row += kernels->rows) {
        const int64_t rows = CTR_MIN(kernels->rows, row1 - row);
        t.a = ctr_mat_f32(j->a->a) + row * j->a_row + k0 * j->a_k;
        if (j->packed_rows) {
            const int64_t at = row - row0;
            t.a = j->packed_rows + worker * packed_rows_floats(j) + at / ROWS_PACK * ROWS_PACK * j->piece +
                  at % ROWS_PACK;
            t.a_k = ROWS_PACK;
        }
        t.to = ctr_mat_f32(j->target) + row * j->target.stride + col;
        t.from = zero ? NULL : t.to;
        if (!zero && start.mem != j->target.mem) /* add with pre: C has another stride, so it is copied first */
            for (int64_t r = 0; r < rows; r++)
                memcpy(t.to + r * t.ld, ctr_mat_f32(start) + (row + r) * start.stride + col,
                       (size_t)cols * sizeof(float));
        kernels->gemm[rows - 1][vectors - 1](&t);
    }
}

static void run_block(void *ctx, int64_t task, int worker)
{
    const struct job *j = ctx;
    const int64_t block = task % j->row_blocks, units = (j->m + j->rows_unit - 1) / j->rows_unit;
    const int64_t row0 = block * units / j->row_blocks * j->rows_unit;
    const int64_t row1 = CTR_MIN((block + 1) * units / j->row_blocks * j->rows_unit, j->m);
    const int64_t panel0 = j->first_panel + task / j->row_blocks * j->panels_block;
    const int64_t panel1 = CTR_MIN(panel0 + j->panels_block, j->first_panel + j->panels);
    int64_t k0 = 0;

    do {
        if (j->packed_rows)
            pack_rows(j, row0, row1, k0, CTR_MIN(k0 + j->piece, j->k), worker);
        for (int64_t p = panel0; p < panel1; p++)
            run_panel(j, p, row0, row1, k0, CTR_MIN(k0 + j->piece, j->k), worker);
        k0 += j->piece;
    } while (k0 < j->k);
    const int64_t col = panel0 * j->width;
    const int64_t cols = CTR_MIN(panel1 * j->width, j->n) - col;
    if (j->back)
        ctr_cpu_act_grad_runs(j->dev, j->back, &j->sums, row0, row1 - row0, col, cols);
    else
        ctr_cpu_epilogue(j->dev, j->a, row0, row1 - row0, col, cols);
}

/* Divide into blocks: few, so that operands are read few times, but enough for the threads, with equal numbers for
 * each. */
static int64_t cut(struct job *j, int threads)
{
    const int64_t want = threads > 1 ? (int64_t)threads * (j->pieces ? PIECED_A_THREAD : BLOCKS_A_THREAD) : 1;
    const int64_t step = j->kernels->rows;
    int64_t rows = j->m <= ROWS_WHOLE ? j->m : ROWS_BLOCK, columns = 1;

    j->panels_block = j->panels;
    while (((j->m + rows - 1) / rows) * columns < want && (j->panels_block > 1 || rows > 4 * step)) {
        if (j->panels_block > 1 && j->panels_block * j->width >= rows)
            j->panels_block = (j->panels_block + 1) / 2;
        else
            rows /= 2;
        columns = (j->panels + j->panels_block - 1) / j->panels_block;
    }
    j->row_blocks = ((j->m + rows - 1) / rows + threads - 1) / threads * threads;
    j->rows_unit = j->back ? CTR_RUN_ROWS : step;
    return j->row_blocks * columns;
}

int ctr_cpu_gemm(struct ctr_dev *dev, const struct ctr_dev_gemm *a, struct ctr_err *err)
{
    struct job j = { .dev = dev, .a = a, .kernels = ctr_cpu_kernels_of(dev), .m = a->c.rows, .n = a->c.cols };
    const struct ctr_dev_act_grad back = ctr_gemm_back(a);
    void *packed = NULL;

    if (j.m == 0 || j.n == 0)
        return back.z.mem ? ctr_cpu_act_grad(dev, &back, err) : 0;
    if (back.z.mem) {
        j.back = &back;
        int rc = ctr_cpu_run_sums(dev, &j.sums, j.m, j.n, err);
        if (rc)
            return rc;
    }
    j.k = a->ta ? a->a.rows : a->a.cols;
    j.a_row = a->ta ? 1 : a->a.stride;
    j.a_k = a->ta ? a->a.stride : 1;
    j.b_k = a->tb ? 1 : a->b.stride;
    j.b_col = a->tb ? a->b.stride : 1;
    j.target = a->pre.mem ? a->pre : a->c;
    j.width = (int64_t)j.kernels->lanes * j.kernels->vectors;
    const int64_t panels = (j.n + j.width - 1) / j.width;
    int64_t round = panels;
    j.piece = j.k <= K_WHOLE ? CTR_MAX(j.k, 1) : K_PIECE;
    if (j.b_col == 1 && (j.k > j.piece || j.m < ROWS_PACK)) {
        const bool pack = j.a_row == 1 && j.k > j.piece && j.m >= ROWS_PACK;
        const int64_t threads = ctr_pool_threads(dev->pool), b_floats = j.piece * j.width * threads;
        const int64_t floats = b_floats + (pack ? packed_rows_floats(&j) * threads : 0);
        int rc = ctr_dev_scratch(dev, 0, (size_t)floats * sizeof(float) + CTR_PAD, &packed, err);
        if (rc)
            return rc;
        j.pieces = packed;
        j.packed_rows = pack ? j.pieces + b_floats : NULL;
    } else if (j.k > 0) {
        const int64_t bytes = j.k * j.width * (int64_t)sizeof(float);
        round = CTR_MIN(panels, CTR_MAX(PACK_BYTES / bytes, 1));
        int rc = ctr_dev_scratch(dev, 0, (size_t)(round * bytes), &packed, err);
        if (rc)
            return rc;
        j.packed = packed;
    }
    for (j.first_panel = 0; j.first_panel < panels; j.first_panel += round) {
        j.panels = CTR_MIN(round, panels - j.first_panel);
        if (j.packed)
            ctr_pool_run(dev->pool, j.panels, pack_panel, &j);
        ctr_pool_run(dev->pool, cut(&j, ctr_pool_threads(dev->pool)), run_block, &j);
    }
    if (j.back)
        ctr_cpu_join_runs(&j.sums, back.dalpha, back.dbias);
    return 0;
}
