/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu: internal to the CPU back end. The loops over blocks are in cpu_body.h, which cpu_avx512.c, cpu_avx2.c and
 * cpu_plain.c each compile for an instruction set into a table, with the same bits; the files *_cpu.c divide operations
 * into blocks for threads and call the best table. */
#ifndef CTR_COMPUTE_CPU_H
#define CTR_COMPUTE_CPU_H

#include "common/base/isa.h"
#include "common/compute/compute_impl.h"
#include "common/compute/element.h"

/* A block of a matrix. */
struct ctr_block {
    float *p;
    int64_t stride;
};

/* Per-column parameters of an activation for a block; NULL: none. */
struct ctr_act_cols {
    enum ctr_act_kind kind;
    float eps;
    const float *bias, *alpha, *mean, *var;
};

enum { CTR_COLS_BLOCK = 512 }; /* maximum columns of a block in sums */

/* Gradient of a block: at most CTR_RUN_ROWS rows or, for DICE, all rows; at most CTR_COLS_BLOCK columns. */
struct ctr_act_grad_block {
    struct ctr_act_cols act;
    struct ctr_block z, dy, dz;
    double *dalpha, *dbias; /* set to the sums over the block's rows */
    bool batch;
};

struct ctr_norm_block {
    struct ctr_block x, dy, y; /* dy, y = dx for the gradient */
    const float *mean, *var, *gamma, *beta;
    float *dgamma, *dbeta;
    float eps;
};

struct ctr_pool_block {
    enum ctr_pooling how;
    const int32_t *start, *index, *segment;
    const float *x;
    int64_t per_row, width;
    struct ctr_block rows, out; /* out: dout for the gradient */
    struct ctr_block pooled;    /* FM, for the gradient: the result of pool */
    const int32_t *group, *item;
    int64_t first, entries;         /* of item: only these, counted from the first */
    bool whole;                     /* there are no others */
    struct ctr_block grad, squares; /* squares.p NULL: none */
    bool add;
};

/* Some rows of a minibatch and their entries: start[r] - entry0 is the first of row r. */
struct ctr_attend_block {
    const int32_t *start;
    int64_t entry0, width;
    struct ctr_block query, key, out; /* attend_input; its gradient reads out */
    struct ctr_block dquery, dkey;
    float scale;
    bool softmax; /* attend: key are the values, out the sums; its gradient: query is dout, dkey p NULL: none */
    const float *score;
    float *share, *dscore;
};

enum { CTR_MICRO_ROWS = 5, CTR_MICRO_VECTORS = 5 };

/* C[rows x cols] from A'[rows x k] and B'[k x cols]: A' with strides of rows and of k, B' with the stride of k and
 * dense columns. A chain starts from `from` (NULL: 0) and is stored to `to`. Reads B' up to whole vectors. */
struct ctr_gemm_tile {
    int64_t k, a_row, a_k, b_k, ld;
    const float *a, *b, *from;
    float *to;
    int cols;
};
typedef void ctr_gemm_kernel(const struct ctr_gemm_tile *t);

struct ctr_cpu_kernels {
    const char *name;
    bool (*usable)(void);
    int lanes, rows, vectors; /* of a tile: at most CTR_MICRO_ROWS and CTR_MICRO_VECTORS */
    ctr_gemm_kernel *gemm[CTR_MICRO_ROWS][CTR_MICRO_VECTORS]; /* [rows - 1][vectors - 1] */
    /* pre (p NULL: none): receives z + bias; without a bias it is z itself. */
    void (*act)(const struct ctr_act_cols *k, struct ctr_block z, struct ctr_block pre, struct ctr_block y,
                int64_t rows, int64_t cols);
    void (*act_grad)(const struct ctr_act_grad_block *b, int64_t rows, int64_t cols);
    void (*pool)(const struct ctr_pool_block *b, int64_t from, int64_t to);           /* lists */
    void (*pool_grad)(const struct ctr_pool_block *b, int64_t from, int64_t to);      /* unique rows */
    void (*attend_input)(const struct ctr_attend_block *b, int64_t from, int64_t to); /* rows, as below */
    void (*attend_input_grad)(const struct ctr_attend_block *b, int64_t from, int64_t to);
    void (*attend)(const struct ctr_attend_block *b, int64_t from, int64_t to);
    void (*attend_grad)(const struct ctr_attend_block *b, int64_t from, int64_t to);
    void (*axpby)(float a, const float *x, float b, float *y, int64_t n);
    void (*row_dot)(struct ctr_block a, struct ctr_block b, int64_t cols, float bias, bool biased, float *y,
                    int64_t rows);
    void (*dropout)(uint64_t base, uint64_t counter, uint32_t least, float scale, const float *x, float *y, int64_t n);
    void (*cross)(const float *x0, const float *z, const float *x, float *y, int64_t n);
    void (*cross_grad)(const float *x0, const float *z, const float *dy, float *dz, float *dx0, int64_t n, bool add);
    void (*dots)(const float *x, float *out, int64_t fields, int64_t width); /* one row */
    void (*dots_grad)(const float *x, const float *dout, float *dx, int64_t fields, int64_t width);
    void (*stats)(struct ctr_block x, int64_t rows, int64_t cols, float *mean, float *var);
    void (*norm)(const struct ctr_norm_block *b, int64_t rows, int64_t cols);
    void (*norm_grad)(const struct ctr_norm_block *b, int64_t rows, int64_t cols);
    void (*bce)(const float *z, const float *label, const float *weight, float scale, float *p, float *loss, float *dz,
                int64_t n);
    /* l2, squares: by element, or NULL */
    void (*opt)(const struct ctr_opt_step *o, const float *g, const float *squares, const float *l2, float *w,
                float *s1, float *s2, int64_t n);
    void (*most)(const float *x, float *y, int64_t n); /* y = the larger of x and y; NaN wins */
};
extern const struct ctr_cpu_kernels ctr_cpu_avx512, ctr_cpu_avx2, ctr_cpu_plain;

/* The state of a CPU device. */
struct ctr_cpu_state {
    const struct ctr_cpu_kernels *kernels;
};
static inline const struct ctr_cpu_kernels *ctr_cpu_kernels_of(const struct ctr_dev *dev)
{
    return ((const struct ctr_cpu_state *)dev->state)->kernels;
}

int ctr_cpu_open(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err);
void ctr_cpu_close(struct ctr_dev *dev);
/* Apply bias, pre and act of a gemm to a block; the products are in T = pre (or C without pre). */
void ctr_cpu_epilogue(const struct ctr_dev *dev, const struct ctr_dev_gemm *a, int64_t row, int64_t rows, int64_t col,
                      int64_t cols);
/* Sums of an activation's gradient by runs of CTR_RUN_ROWS rows: allocate, add blocks of whole runs in any order, then
 * add all runs in order. */
struct ctr_run_sums {
    double *dalpha, *dbias; /* [runs x cols] */
    int64_t runs, cols;
};
int ctr_cpu_run_sums(struct ctr_dev *dev, struct ctr_run_sums *s, int64_t rows, int64_t cols,
                     struct ctr_err *err) CTR_MUST;
void ctr_cpu_act_grad_runs(const struct ctr_dev *dev, const struct ctr_dev_act_grad *a, const struct ctr_run_sums *s,
                           int64_t row, int64_t rows, int64_t col, int64_t cols);
void ctr_cpu_join_runs(const struct ctr_run_sums *s, struct ctr_vec dalpha, struct ctr_vec dbias);

#define CTR_CPU_DECLARE(name)                                                                                          \
    int ctr_cpu_##name(struct ctr_dev *dev, const struct ctr_dev_##name *a, struct ctr_err *err);
CTR_DEV_OPS(CTR_CPU_DECLARE)
#undef CTR_CPU_DECLARE
#define CTR_CPU_SLOT(name) .name = ctr_cpu_##name,

/* Elements per task, approximately. */
enum { CTR_TASK_ELEMENTS = 32768 };

#endif
