/* SPDX-License-Identifier: Apache-2.0
 *
 * compute: the operations of which models consist, behind one table, on several back ends.
 *
 *     struct ctr_dev *dev;
 *     ctr_dev_open(&dev, &(struct ctr_dev_want){ .device = "cpu", .threads = 2 }, err);
 *     struct ctr_mem *x = NULL, …;
 *     ctr_mem_new(&x, dev, rows * in * 4, err);                                         // 64-byte aligned, zeroed
 *     ctr_mem_write(x, 0, host, rows * in * 4, err);
 *     // Y[rows x out] = prelu(X[rows x in] · W[out x in]' + b), keeping the input of prelu for the gradient:
 *     ctr_dev_gemm(dev, &(struct ctr_dev_gemm){ .a = ctr_mat(x, rows, in), .b = ctr_mat(w, out, in), .tb = true,
 *                                               .c = ctr_mat(y, rows, out), .bias = ctr_vec(b, out),
 *                                               .act = { .kind = CTR_ACT_PRELU, .alpha = ctr_vec(alpha, out) },
 *                                               .pre = ctr_mat(z, rows, out) }, err);
 *     ctr_mem_read(y, 0, host, bytes, err);                                             // waits for queued operations
 *
 * An operation is ctr_dev_NAME(dev, &(struct ctr_dev_NAME){ … }, err): omitted (zero) members mean "none". It checks
 * shapes and bounds (CTR_EUSAGE names the operation, the operand and both shapes; nothing is computed) and calls the
 * slot of the back end's const struct ctr_ops. Every back end fills every slot (tests/compute):
 *
 *   reference  plain C, accumulators of double, no threads: the standard for the others (tests/compute/reference.c)
 *   cpu        own kernels for AVX-512, AVX2+FMA and plain C, with the same bits for each and for any thread count
 *   cuda       lib/ctr/ctr-cuda.so: cuBLAS and own kernels; opened only for devices "gpu" and "auto"
 *
 * Views. struct ctr_mat is a row-major matrix of float in a ctr_mem: element (i, j) is float number at + i * stride +
 * j. struct ctr_vec is a dense run of n elements of 4 or 8 bytes, starting at ELEMENT number `at` (of that size); the
 * member's comment gives its type: f32, f64, i32, u32, u64. A view with mem NULL is none. Views are plain values and
 * own nothing. Sizes of 0 are valid everywhere. Outputs must not overlap inputs unless the comment says "in place".
 *
 * What results may depend on. cpu: only the inputs: each element of gemm's C is one sequential chain of fmaf, and all
 * sums run in a fixed order, so a row's result does not depend on the other rows of the call or their number, on
 * threads or on kernels. cuda: the same bytes on the same device; for gemm, rows are independent of the others only
 * between calls of equal shape. Denormals are flushed to zero by definition. NaN and infinity propagate as in IEEE 754.
 *
 * cuda and cpu give the same bits of numbers, but for gemm and conv, which are cuBLAS's, and for sums that each runs in
 * an order of its own: dalpha and dbias of DICE, gradients of rows that more than 128 entries name, totals and shares.
 * Other bits: act_grad bce pool_grad reduce
 *
 * Order. Operations of a device run in call order; a GPU queues them and returns, so a run-time error (not one of
 * shapes) may be reported by a later call or by ctr_dev_sync. Only one thread at a time may call into a device; devices
 * are independent. After CTR_ESYS or CTR_ENOMEM the outputs are undefined; the device can only be freed.
 *
 * The caller owns each ctr_mem, which lives on one device and must be freed before it; operations allocate nothing for
 * the caller to free. The device owns scratch memory, which grows on demand and counts as its memory.
 */
#ifndef CTR_COMPUTE_H
#define CTR_COMPUTE_H

#include "common/base/base.h"

struct ctr_dev; /* an open device: back end, its threads or queue, scratch memory */
struct ctr_mem; /* bytes on a device */

/* ---- devices: device.c ---- */

struct ctr_dev_want {
    const char *device;        /* "cpu" (also NULL), "gpu", "auto": a GPU if the plug-in opens, else the CPU.
                                  "gpu:N", "auto:N": GPU number N, from 0 */
    const struct ctr_ops *ops; /* a back end that the library does not have, in the place of `device`; NULL: none */
    int local_rank;            /* without N and $CTR_CUDA_DEVICE: GPU number local_rank % GPUs */
    int number;                /* set by ctr_dev_open: N, or -1 */
    int threads;               /* CPU; at least 1 */
    const char *gemm;          /* "exact"; GPU: "tf32" too, inputs of 10 bits; NULL: $CTR_GEMM */
    int64_t memory_bytes;      /* limit (--device-memory) without cuBLAS' 32 MiB; 0: all of the device */
    bool profile;              /* wait after each operation and sum its time: ctr_dev_seconds */
    const char *plugin; /* NULL: $CTR_CUDA_PLUGIN, ../lib/ctr/ctr-cuda.so beside the program, then the library path */
};

/* "gpu" fails, with the reason, without a plug-in of this version, a driver or a device. There is no silent fall-back:
 * "auto" on a CPU gives the reason in ctr_dev_note. */
int ctr_dev_open(struct ctr_dev **dev, const struct ctr_dev_want *want, struct ctr_err *err) CTR_MUST;
void ctr_dev_free(struct ctr_dev *dev);

/* N of "gpu:N" or "auto:N"; -1: none is named. */
int ctr_dev_number_of(const char *device);

const char *ctr_dev_name(const struct ctr_dev *dev);  /* the back end: "cpu", "cuda", … */
const char *ctr_dev_title(const struct ctr_dev *dev); /* "cpu: avx512, 2 threads", "cuda: NVIDIA H200 (sm_90), …" */
const char *ctr_dev_note(const struct ctr_dev *dev);  /* explanation of the choice, for -v, or "" */
int ctr_dev_number(const struct ctr_dev *dev);        /* of the GPU, from 0 */
bool ctr_dev_is_host(const struct ctr_dev *dev);      /* its memory is host memory: ctr_mem_host works */
int64_t ctr_dev_memory(const struct ctr_dev *dev);    /* bytes allocated now, including scratch */
int64_t
ctr_dev_memory_free(const struct ctr_dev *dev); /* an estimate of what can still be allocated; INT64_MAX: no limit */
/* The threads of a CPU device, for the caller's own work between operations; NULL: none. */
struct ctr_pool *ctr_dev_pool_of(const struct ctr_dev *dev);

/* Wait for all queued operations; returns their run-time errors. */
int ctr_dev_sync(struct ctr_dev *dev, struct ctr_err *err) CTR_MUST;

/* Operations between these calls, all of one thread, may start as late as at the second call. It returns their errors,
 * or rc if that is not 0. Where the same operations come again with the same operands, numbers and shapes, a GPU starts
 * all of them at once, as a CUDA graph ($CTR_CUDA_GRAPHS=0: none); the results are the same. Reading, writing, waiting
 * and allocating between the calls start the operations before them. */
void ctr_dev_collect(struct ctr_dev *dev);
int ctr_dev_start(struct ctr_dev *dev, int rc, struct ctr_err *err) CTR_MUST;
void ctr_dev_graphs_summary(const struct ctr_dev *dev, struct ctr_say *text); /* of a GPU: how many, or why not */

/* ---- memory: device.c ---- */

/* Zeroed, 64-byte aligned, readable 64 bytes past its end. CTR_ENOMEM names the bytes needed, the bytes free, and
 * --device-memory. */
int ctr_mem_new(struct ctr_mem **m, struct ctr_dev *dev, size_t bytes, struct ctr_err *err) CTR_MUST;
/* Ensure at least `bytes`: keeps a large enough *m, else replaces it by one at least half as large again, without the
 * contents. *m may be NULL. */
int ctr_mem_grow(struct ctr_mem **m, struct ctr_dev *dev, size_t bytes, struct ctr_err *err) CTR_MUST;
/* Ensure at least `bytes`, with a quarter more if newly allocated; keeps the first `used` bytes. */
int ctr_mem_keep(struct ctr_mem **m, struct ctr_dev *dev, size_t used, size_t bytes, struct ctr_err *err) CTR_MUST;
void ctr_mem_free(struct ctr_mem *m);
/* Use memory of another device of the same back end and hardware on this device, read only: for weights that several
 * threads use, each with its own device. The owner must not write `of` any more, must have waited (ctr_dev_sync), and
 * must free it last. */
int ctr_mem_share(struct ctr_mem **m, struct ctr_dev *dev, const struct ctr_mem *of, struct ctr_err *err) CTR_MUST;
size_t ctr_mem_bytes(const struct ctr_mem *m);
/* The bytes, if ctr_dev_is_host, else NULL. Only valid after ctr_dev_sync or ctr_mem_read. */
void *ctr_mem_host(struct ctr_mem *m);

/* Bytes of the device that something else in this process has allocated there; not to be written. They are not freed
 * with *m, and do not count. */
int ctr_mem_at(struct ctr_mem **m, struct ctr_dev *dev, uint64_t address, size_t bytes, struct ctr_err *err) CTR_MUST;

/* Copy host to device and back, from byte `at`, in operation order; `host` may be reused at once. Reading waits for
 * queued operations; writing waits only for room, or if it exceeds 4 MiB. read_later is a read without a wait of its
 * own: `host` has the bytes after the next ctr_mem_read or ctr_dev_sync. */
int ctr_mem_write(struct ctr_mem *m, size_t at, const void *host, size_t bytes, struct ctr_err *err) CTR_MUST;
int ctr_mem_read(struct ctr_mem *m, size_t at, void *host, size_t bytes, struct ctr_err *err) CTR_MUST;
int ctr_mem_read_later(struct ctr_mem *m, size_t at, void *host, size_t bytes, struct ctr_err *err) CTR_MUST;

/* Copying while computing, with two sets of buffers A and B:
 *     ctr_host_new(&a, dev, bytes)                 pinned memory, which a GPU can read asynchronously
 *     ctr_dev_order(dev, CTR_COMPUTE, CTR_COPY)    copies queued from here on start after the operations queued so far
 *     ctr_mem_write_async(m, at, a, bytes)         into the copy queue; do not change `a` until ctr_dev_copied
 *     ctr_dev_order(dev, CTR_COPY, CTR_COMPUTE)    operations queued from here on start after the copies queued so far
 *     ctr_dev_copied(dev)                          waits for the copy queue only
 * On a CPU write_async copies at once and the other calls do nothing. */
enum ctr_queue { CTR_COMPUTE, CTR_COPY };
int ctr_host_new(void **p, struct ctr_dev *dev, size_t bytes, struct ctr_err *err) CTR_MUST;
void ctr_host_free(void *p, struct ctr_dev *dev);
int ctr_mem_write_async(struct ctr_mem *m, size_t at, const void *pinned, size_t bytes, struct ctr_err *err) CTR_MUST;
int ctr_dev_order(struct ctr_dev *dev, enum ctr_queue first, enum ctr_queue then, struct ctr_err *err) CTR_MUST;
int ctr_dev_copied(struct ctr_dev *dev, struct ctr_err *err) CTR_MUST;

/* Send a growing host array to a device without waiting: upload.c. *m becomes bytes [0, bytes) of `host`, of which
 * `sent` were sent before; no queued operation may use the bytes being written. `host` may be reused at once.
 * ctr_uploaded: operations queued after it see the data. ctr_upload_waited: the caller has read something that was
 * computed after that, so that all copies are done and none has to be waited for. */
struct ctr_upload { /* zero-initialise */
    char *pinned;
    size_t bytes, used;
    bool ordered, waited; /* all copies, before what is computed next; since it was full */
};
int ctr_upload(struct ctr_upload *u, struct ctr_dev *dev, struct ctr_mem **m, const void *host, size_t sent,
               size_t bytes, struct ctr_err *err) CTR_MUST;
int ctr_uploaded(struct ctr_upload *u, struct ctr_dev *dev, struct ctr_err *err) CTR_MUST;
void ctr_upload_waited(struct ctr_upload *u);
void ctr_upload_free(struct ctr_upload *u, struct ctr_dev *dev);

/* ---- between processes: device.c ----
 * Devices of several processes, the ranks of a run, send each other memory if the back end can: cuda does by NCCL,
 * which it opens at run time. Learners use the calls of comm.h, which call these. */
enum { CTR_LINK_ID = 128, CTR_LINK_PLACE = 32 };
struct ctr_dev_link {
    unsigned char id[CTR_LINK_ID];
    int rank, ranks;
    double limit_s;
};
/* Byte out_at[r] of `out` and out_n[r] - 1 more go to rank r, and those of rank r come to byte in_at[r] of `in`. The
 * part of this rank is copied. */
struct ctr_dev_swap {
    struct ctr_mem *out, *in;                     /* different ones; NULL: no bytes */
    const int64_t *out_at, *out_n, *in_at, *in_n; /* [ranks] */
};
/* Can this device be connected? CTR_ESYS: no, and err says why. place: the address of the device in its machine. */
int ctr_dev_link_find(struct ctr_dev *dev, char place[CTR_LINK_PLACE], struct ctr_err *err) CTR_MUST;
/* On one rank: an id of the run, for ctr_dev_link of all ranks. */
int ctr_dev_link_id(struct ctr_dev *dev, unsigned char id[CTR_LINK_ID], struct ctr_err *err) CTR_MUST;
/* All ranks make these two calls, at about the same time: one that takes longer than limit_s fails. The first connects
 * the ranks; the second sends and receives, and returns when the bytes are there. */
int ctr_dev_link(struct ctr_dev *dev, const struct ctr_dev_link *link, struct ctr_err *err) CTR_MUST;
int ctr_dev_swap(struct ctr_dev *dev, const struct ctr_dev_swap *swap, struct ctr_err *err) CTR_MUST;
/* The number of connected ranks; 0: not connected. */
int ctr_dev_linked(const struct ctr_dev *dev);

/* ---- views ---- */

struct ctr_mat {
    struct ctr_mem *mem;
    int64_t at, rows, cols, stride;
};
struct ctr_vec {
    struct ctr_mem *mem;
    int64_t at, n;
};
/* (No compound literals: src/cuda includes this header as C++.) */
static inline struct ctr_mat ctr_mat_at(struct ctr_mem *mem, int64_t at, int64_t rows, int64_t cols)
{
    struct ctr_mat m = { mem, at, rows, cols, cols };
    return m;
}
static inline struct ctr_mat ctr_mat(struct ctr_mem *mem, int64_t rows, int64_t cols)
{
    return ctr_mat_at(mem, 0, rows, cols);
}
static inline struct ctr_mat ctr_mat_cols(struct ctr_mat m, int64_t from, int64_t cols)
{
    m.at += from;
    m.cols = cols;
    return m;
}
static inline struct ctr_mat ctr_mat_rows(struct ctr_mat m, int64_t from, int64_t rows)
{
    m.at += from * m.stride;
    m.rows = rows;
    return m;
}
static inline struct ctr_vec ctr_vec_at(struct ctr_mem *mem, int64_t at, int64_t n)
{
    struct ctr_vec v = { mem, at, n };
    return v;
}
static inline struct ctr_vec ctr_vec(struct ctr_mem *mem, int64_t n)
{
    return ctr_vec_at(mem, 0, n);
}

/* ---- matrix product, activations ---- */

/* y = act(z), for each column c:
 *   RELU     z <= 0 ? 0 : z
 *   PRELU    z > 0 ? z : alpha[c] z                       (He et al. 2015, eq. 1)
 *   SIGMOID 1 / (1 + exp(-z))
 *   DICE     p = sigmoid((z - mean[c]) / sqrt(var[c] + eps)); y = p z + (1 - p) alpha[c] z
 *            (DIN, Zhou et al. 2018, eq. 3; eps 1e-8 there); mean and var are those of the minibatch in training
 *            (ctr_dev_stats), running ones in prediction */
enum ctr_act_kind { CTR_ACT_NONE, CTR_ACT_RELU, CTR_ACT_PRELU, CTR_ACT_SIGMOID, CTR_ACT_DICE };
struct ctr_act {
    enum ctr_act_kind kind;
    struct ctr_vec alpha;     /* f32 [cols]: PRELU, DICE */
    struct ctr_vec mean, var; /* f32 [cols]: DICE */
    float eps;                /* DICE */
};

/* C[m x n] = act(A' · B' + bias), where A' is A or, with ta, its transpose; likewise B'.
 *   forward            Y[rows x out]  = X[rows x in] · W[out x in]'      .tb
 *   input gradient     dX[rows x in]  = dZ[rows x out] · W[out x in]     neither
 *   weight gradient    dW[out x in]   = dZ[rows x out]' · X[rows x in]   .ta
 * Element (i, j): s = add ? C[i][j] : 0, then s = fmaf(A'[i][l], B'[l][j], s) for l = 0, 1, …, k-1 in this order; then
 * s += bias[j]; pre[i][j] = s; C[i][j] = act(s). cuda: the same product in its own order.
 *
 * With back.z, C is the gradient of the output of an activation at z, and the operation converts it to the gradient of
 * z, with the bits of ctr_dev_act_grad(z, dy = dz = C) afterwards, but in fewer passes over memory. Then there is no
 * bias, act or pre. */
struct ctr_dev_gemm {
    struct ctr_mat a, b, c;
    bool ta, tb;
    bool add;            /* add to the content of C */
    struct ctr_vec bias; /* f32 [n], or none */
    struct ctr_act act;  /* or none */
    struct ctr_mat pre;  /* [m x n], or none: receives the input of act */
    struct ctr_dev_gemm_back {
        struct ctr_mat z;             /* [m x n], or none */
        struct ctr_act act;           /* not DICE */
        struct ctr_vec dalpha, dbias; /* f32 [n], as in ctr_dev_act_grad */
    } back;
};

/* y = act(z + bias). In place: y = z. */
struct ctr_dev_act {
    struct ctr_mat z, y;
    struct ctr_vec bias; /* f32 [cols], or none */
    struct ctr_act act;
};

/* The gradient of y = act(z), where a bias was added to z: dz = dy · act'(z), dalpha[c] = sum over rows of dy ·
 * dy/dalpha, dbias[c] = sum over rows of dz. PRELU and RELU at z = 0 use the slope of z < 0; where RELU gives 0, dz is
 * 0 for every dy. SIGMOID takes z too. kind NONE: dz = dy. DICE: mean and var are constants unless `batch` says that
 * they are statistics of z; then dz includes their gradients. In place: dz = dy. dalpha, dbias: none, or set (not added
 * to). cpu, cuda: these sums run in double over each CTR_RUN_ROWS rows, then over the runs, so that threads can share
 * the rows; DICE on the cpu: in float over each 16 rows, whose sums are added in double. */
enum { CTR_RUN_ROWS = 64 };
struct ctr_dev_act_grad {
    struct ctr_mat z, dy, dz;
    struct ctr_act act;
    bool batch;
    struct ctr_vec dalpha, dbias; /* f32 [cols] */
};

/* ---- embeddings: pooling over ragged lists ---- */

/* Lists of a minibatch: list s (of `lists`) has the entries start[s] … start[s+1]-1; entry e refers to row index[e] of
 * the matrix of rows, times x[e]. Lists are ordered by sample and, within it, by field: list s belongs to sample s /
 * per_row, field s % per_row. No start: every list has exactly one entry (one-hot fields; start[s] = s). */
struct ctr_lists {
    int64_t lists, per_row; /* lists = samples * per_row */
    struct ctr_vec start;   /* i32 [lists + 1], start[0] = 0, or none */
    struct ctr_vec index;   /* i32 [entries], each in [0, rows.rows): not checked, nor is start's order */
    struct ctr_vec segment; /* i32 [entries]: the list of each entry; required by pool_grad if there is start */
    struct ctr_vec x;       /* f32 [entries], or none: all 1 */
};
/* SUM: sum of x · row. MEAN: that sum / number of entries. MAX: elementwise maximum of x · row; the first of equal
 * values gets the gradient; NaN wins. FM: columns d >= 1 as SUM; column 0 is the sum of x · row[0] plus, over all pairs
 * of entries e < f and all d >= 1, (x row[d])_e (x row[d])_f: a factorization machine (Rendle 2010, eq. 1) over the
 * list's entries without its bias, with weights in column 0. Empty list: zeros. Sums run in the order of the
 * entries. */
enum ctr_pooling { CTR_POOL_SUM, CTR_POOL_MEAN, CTR_POOL_MAX, CTR_POOL_FM };

/* out[sample][field * width + d] = pooling over the list's entries of rows[index][d]; width = rows.cols. `out` has
 * samples rows and per_row * width columns: pooling into slices of the first layer's input concatenates. rows.stride
 * may exceed width, so that a row can hold optimizer state after its value.
 */
struct ctr_dev_pool {
    enum ctr_pooling how;
    struct ctr_lists lists;
    struct ctr_mat rows; /* [any x width]: distinct keys, or a whole table */
    struct ctr_mat out;  /* [samples x per_row * width] */
};

/* Its gradient by row: grad[u][d] = sum over the entries e with index[e] = u, in ascending order of e (= row order), of
 * x[e] · dout[list of e][d] (MEAN: / number of entries; MAX: where e won; FM, d >= 1: of x (dout[d] + dout[0] (out[d] -
 * x row[d])) ). ctr_dev_slots gives the entries of each row. If several calls (fields with different pooling) add to
 * one grad: set `add` in all but the first. Groups may be of the entries of all of these calls together: entry e of
 * this one is then first + e there, and others are left out. cuda: in pieces of 128 entries, then over the pieces. */
struct ctr_dev_pool_grad {
    enum ctr_pooling how;
    struct ctr_lists lists;
    struct ctr_vec group_start, group_item; /* i32 [unique + 1], i32 [entries or more]: as from ctr_dev_slots */
    int64_t first;
    struct ctr_mat rows; /* as in pool: MAX and FM only */
    struct ctr_mat out;  /* the result of pool: FM only */
    struct ctr_mat dout; /* as out in pool */
    struct ctr_mat grad; /* [unique x width] */
    bool add;
    /* SUM: [unique x width], set to the sums of squares of the terms of grad; or none. Accumulators are then double,
     * because FTRL's n is large compared with what a row adds. */
    struct ctr_mat squares;
};

/* ---- target attention over ragged sequences (Zhou et al. 2018, section 4.3) ---- */

/* The sequences of a minibatch, concatenated without padding: row r (counted from row0) of `rows` rows has the entries
 * start[r] … start[r+1]-1 (counted from entry0), so that a call can process a range of rows with the minibatch's own
 * start and segment. Matrices of rows and entries below cover only that range. */
struct ctr_segments {
    struct ctr_vec start;   /* i32 [rows + 1], ascending from entry0 to entry0 + entries: not checked */
    struct ctr_vec segment; /* i32 [entries]: the row of each entry, row0 included */
    int64_t row0, entry0;
};

/* The part of an attention unit's input that is not linear in the query q of a row or the key k of an entry: out[e] =
 * [k_e, q_r * k_e], r the row of e. For a first layer W = [W1 W2 W3 W4] of the paper's [q, k, q - k, q * k], the sum is
 * q (W1 + W3)' per row, which ctr_dev_move_rows copies to the entries, plus out · [W2 - W3, W4]'. */
struct ctr_dev_attend_input {
    struct ctr_segments segments;
    struct ctr_mat query; /* [rows x width] */
    struct ctr_mat key;   /* [entries x width] */
    struct ctr_mat out;   /* [entries x 2 width] */
};
/* Its gradient, dout = [a, b]: dquery_r = sum over the row's entries, in order, of k_e * b_e (set; 0 of none);
 * dkey_e += a_e + q_r * b_e. */
struct ctr_dev_attend_input_grad {
    struct ctr_segments segments;
    struct ctr_mat query, key, dout, dquery, dkey;
};

/* out_r = sum over the row's entries, in order, of weight · value_e. The weight is 1 without score, else the score or,
 * with softmax, share_e = exp(scale (score_e - m)) / their sum over the row, where m is the row's largest score. A row
 * without entries: zeros. */
struct ctr_dev_attend {
    struct ctr_segments segments;
    bool softmax;
    float scale;          /* softmax: above 0 */
    struct ctr_vec score; /* f32 [entries], or none */
    struct ctr_vec share; /* f32 [entries]: result of softmax, else none */
    struct ctr_mat value; /* [entries x width] */
    struct ctr_mat out;   /* [rows x width] */
};
/* Its gradient: dvalue_e = weight · dout_r; g_e = dout_r · value_e; dscore_e = g_e, or with softmax
 * scale share_e (g_e - sum over the row of share · g). Both are set; dvalue may be none. */
struct ctr_dev_attend_grad {
    struct ctr_segments segments;
    bool softmax;
    float scale;
    struct ctr_vec share;       /* f32 [entries]: with softmax attend's share, else its score */
    struct ctr_mat value, dout; /* as in attend */
    struct ctr_vec dscore;      /* f32 [entries] */
    struct ctr_mat dvalue;      /* [entries x width], or none */
};

/* Copy rows by number: to[to_index[i]] = from[from_index[i]] for i < n. A missing index means 0, 1, 2, …; a negative
 * element skips the row. The elements of to_index must be distinct. Used between the rows of a table and those of a
 * minibatch. */
struct ctr_dev_move_rows {
    int64_t n;
    struct ctr_mat from, to;             /* same cols */
    struct ctr_vec from_index, to_index; /* i32 [n] */
};

/* ---- elementwise ---- */

/* to = from: for concatenation (into a slice of columns) and its gradient (out of one). */
struct ctr_dev_copy {
    struct ctr_mat from, to;
};
/* y = a x + b y, rounding x times a, y times b, and the sum; b = 0 does not read y. x and y: same shape. For running
 * averages and sums of gradients. */
struct ctr_dev_axpby {
    float a, b;
    struct ctr_mat x, y;
};
struct ctr_dev_fill {
    struct ctr_mat x;
    float value;
};

/* Inner products of rows: y[i] = sum over c of a[i][c] b[i][c], then + bias[0]. cpu, cuda: s = fmaf(a[i][c], b[i][c],
 * s) from s = 0 for c = 0, 1, …, which is element (i, i) of gemm's a · b' on a cpu, to the bit. */
struct ctr_dev_row_dot {
    struct ctr_mat a, b; /* same shape */
    struct ctr_vec bias; /* f32 [1], or none */
    struct ctr_vec y;    /* f32 [rows] */
};
/* y[i][c] = s[i] x[i][c]: its gradient, da[i] = dy[i] b[i]. In place. */
struct ctr_dev_row_scale {
    struct ctr_vec s; /* f32 [rows] */
    struct ctr_mat x, y;
};

/* y = x · keep / (1 - rate): element (i, j) is kept if the 24 high bits of ctr_random64(seed, stream, (row0 + i) cols +
 * j), divided by 2^24, are at least rate; the mask does not depend on the division of rows into calls. The gradient is
 * the same call on dy. In place. rate in [0, 1). */
struct ctr_dev_dropout {
    struct ctr_mat x, y;
    float rate;
    uint64_t seed, stream; /* stream: number of the layer and of the step */
    int64_t row0;
};

/* ---- crosses of features ---- */

/* y = x0 ∘ z + x, element by element: the cross layer of DCN-V2 (Wang et al. 2021, eq. 1) with z = W x + b. All of one
 * shape. In place: y = x or y = z. */
struct ctr_dev_cross {
    struct ctr_mat x0, z, x, y;
};
/* Its gradient: dz = dy ∘ x0 and dx0 = dy ∘ z, with `add` dx0 += dy ∘ z; that of x is dy itself. In place: dz = dy. */
struct ctr_dev_cross_grad {
    struct ctr_mat x0, z, dy, dz, dx0;
    bool add;
};

/* Inner products of all pairs of a row's vectors (the dot interaction of DLRM, Naumov et al. 2019): v_f of row i is
 * x[i][f width … (f + 1) width - 1], and out[i][f (f - 1) / 2 + g] = v_f · v_g for 0 <= g < f < fields. Sums run over
 * the elements in order. */
enum { CTR_MAX_DOT_FIELDS = 1024 };
struct ctr_dev_dots {
    int64_t fields;     /* 1 to CTR_MAX_DOT_FIELDS */
    struct ctr_mat x;   /* [rows x fields * width] */
    struct ctr_mat out; /* [rows x fields (fields - 1) / 2] */
};
/* Its gradient: that of v_f is the sum, over g != f in ascending order, of dout of the pair times v_g. */
struct ctr_dev_dots_grad {
    int64_t fields;
    struct ctr_mat x, dout, dx; /* dx as x */
};

/* ---- batch normalization (Ioffe & Szegedy 2015) ---- */

/* mean[c], var[c] (biased: / rows) over rows, by two passes with accumulators of double. rows = 0: zeros. */
struct ctr_dev_stats {
    struct ctr_mat x;
    struct ctr_vec mean, var; /* f32 [cols] */
};
/* y = gamma (x - mean) / sqrt(var + eps) + beta. In place. gamma, beta none: 1, 0. */
struct ctr_dev_norm {
    struct ctr_mat x, y;
    struct ctr_vec mean, var, gamma, beta; /* f32 [cols] */
    float eps;
};
/* Its gradient, where mean and var are statistics of x; dgamma, dbeta: none, or set. In place: dx = dy. */
struct ctr_dev_norm_grad {
    struct ctr_mat x, dy, dx;
    struct ctr_vec mean, var, gamma, dgamma, dbeta; /* f32 [cols] */
    float eps;
};

/* ---- loss ---- */

/* Binary cross-entropy of logits z with labels in [0, 1]: loss[i] = w (log(1 + exp(z)) - label z), dz[i] = scale · w
 * (p - label), p = 1 / (1 + exp(-z)); total = sum of loss, in double; cpu: by rows. Outputs are optional. A mean over
 * the minibatch is scale = 1 / rows (or 1 / sum of weights). */
struct ctr_dev_bce {
    struct ctr_vec z, label, weight; /* f32 [n]; weight none: 1 */
    struct ctr_vec p, loss, dz;      /* f32 [n] */
    struct ctr_vec total;            /* f64 [1] */
    float scale;
};

/* ---- optimizers ---- */

/* One step with gradient g (+ l2 · w). State s1, s2 starts as zeros. step counts from 1.
 *   SGD      w -= rate g
 *   ADAGRAD s1 += g²; w -= rate g / (sqrt(s1) + eps)
 *            (Duchi et al. 2011)
 *   ADAM     s1 = beta1 s1 + (1 - beta1) g; s2 = beta2 s2 + (1 - beta2) g²;
 *            w -= rate / (1 - beta1^step) · s1 / (sqrt(s2) / sqrt(1 - beta2^step) + eps)
 *            (Kingma & Ba 2015, as PyTorch)
 *   FTRL     z = s1, n = s2: sigma = (sqrt(n + g²) - sqrt(n)) / rate; z += g - sigma w; n += g²;
 *            w = |z| <= l1 ? 0 : -(z - sign(z) l1) / ((beta + sqrt(n)) / rate + l2)
 *            (McMahan et al. 2013, alg. 1; its l2 is that of the formula and is not added to g). Starts from w = 0;
 *            for another initial w set z = -w (beta / rate + l2). */
enum ctr_dev_opt_kind { CTR_OPT_SGD, CTR_OPT_ADAGRAD, CTR_OPT_ADAM, CTR_OPT_FTRL };
struct ctr_dev_opt {
    enum ctr_dev_opt_kind kind;
    float rate, eps, beta1, beta2; /* ADAM's usual: .001, 1e-8, .9, .999 */
    float beta, l1, l2;
    int64_t step;
};
static inline int ctr_opt_states(enum ctr_dev_opt_kind kind) /* floats of state per parameter */
{
    return kind == CTR_OPT_SGD ? 0 : kind == CTR_OPT_ADAGRAD ? 1 : 2;
}

/* Dense parameters: one arena, updated as a whole. */
struct ctr_dev_opt_dense {
    struct ctr_dev_opt opt;
    struct ctr_vec w, g;   /* f32 [n] */
    struct ctr_vec s1, s2; /* f32 [n], as many as ctr_opt_states returns */
};

/* Sparse rows: updates only the rows named here. A row of `rows` is value [width] | s1 [width] | s2 [width], so
 * rows.cols = width (1 + ctr_opt_states); g is [n x width]; g's row i belongs to row index[i], or to row i without
 * index; indices must be distinct; a negative index skips the row. Adam is the lazy variant (TensorFlow's LazyAdam,
 * PyTorch's SparseAdam): m and v of a row decay only when it is updated; the bias correction counts all steps.
 * l2_row[i] is added to opt.l2 for row i: DIN's minibatch-aware regularization gives lambda / n_j there. FTRL with
 * squares: n grows by them instead of g², as if the gradients summed in g had been applied one after another with the
 * same w. */
struct ctr_dev_opt_rows {
    struct ctr_dev_opt opt;
    struct ctr_mat rows, g;
    struct ctr_vec index;   /* i32 [g.rows], or none */
    struct ctr_vec l2_row;  /* f32 [g.rows], or none */
    struct ctr_mat squares; /* FTRL: as g, or none */
};

/* ---- keys ---- */

/* Slots of a cache in device memory: assigns keys to rows of the cache. There are `slots` slots (a multiple of 8), in
 * sets of 8; key k belongs to set ctr_mix64(k) % (slots / 8). key[slot] is valid if stamp[slot] != 0; stamp is the
 * `now` of its last use. First, each of the n keys that is present is stamped (a hit). Then each other key, in order,
 * takes a slot of its set: a free one, or the least recently used that is not stamped `now` (lowest stamp, then lowest
 * slot), whose key is evicted; if all 8 are stamped `now`: slot[i] = -1. The caller then moves rows, in this order:
 *   evicted_slot[j], j < *evictions        slots of evicted keys: save these rows
 *   missed, missed_slot[j], j < *misses    ascending indices i of absent keys, and slot[i]: load these rows
 * Evictions are in the order of the keys that caused them. now starts at 1 and increases. Initialise everything to
 * zero. The counts are there after the next ctr_mem_read or ctr_dev_sync.
 *
 * Keys may repeat only with groups: then the first one of equal keys stands for them in `missed` and in the counts.
 * Groups give the entries of each key, keys in order of first appearance: group u has the slot group_slot[u] and the
 * entries group_item[group_start[u]] … [group_start[u+1]-1], ascending. A wanted key is want[i] or, with salt,
 * ctr_mix64(want[i] ^ salt[i % salt.n]): of hashes of several tables, those of each by a salt of its own. With parts,
 * those of a part, counted from its begin, have its own salts: part[p] is where it ends, its first salt, how many. */
struct ctr_dev_slots {
    struct ctr_vec key;          /* u64 [slots] */
    struct ctr_vec stamp;        /* u32 [slots] */
    struct ctr_vec want;         /* u64 [n] */
    struct ctr_vec slot;         /* i32 [n] */
    struct ctr_vec missed;       /* i32 [n] */
    struct ctr_vec missed_slot;  /* i32 [n] */
    struct ctr_vec evicted_slot; /* i32 [n] */
    uint32_t now;
    int64_t *misses, *evictions, *failures;             /* host; failures: missed keys without a slot */
    struct ctr_vec missed_want;                         /* u64 [n]: want[missed[j]]; or none */
    struct ctr_vec salt;                                /* u64, or none; with groups */
    struct ctr_vec part;                                /* i32 [3 parts], the last of which ends at n; or none */
    struct ctr_vec group_start, group_item, group_slot; /* i32 [n + 1], [n], [n]: all, or none */
    int64_t *groups;                                    /* host, with groups: how many */
};

/* Lists of items of `from`: list l has the `count[l]` ones from item[l] on or, if that is -1, `none` alone, and goes to
 * to[start[l]] … to[start[l + 1] - 1], as long as it is. With segment, first + l goes to the same places there. */
struct ctr_dev_take_items {
    struct ctr_vec from;  /* u64 */
    struct ctr_vec item;  /* i32 [lists] */
    struct ctr_vec start; /* i32 [lists + 1]: places of `to`, ascending: not checked, nor are items */
    uint64_t none;
    struct ctr_vec to;      /* u64 */
    struct ctr_vec segment; /* i32 [to.n], or none */
    int64_t first;
};

/* Digests of such lists: two numbers each, so that lists with equal ones are equal but for one chance in 2^128, as far
 * as nobody knows the seeds. */
struct ctr_dev_item_digests {
    struct ctr_vec from;        /* u64 */
    struct ctr_vec item, count; /* i32 [lists] */
    uint64_t none, seed[2];
    struct ctr_vec out; /* u64 [2 lists] */
};

/* ---- reductions ---- */

/* out (f64 [1], on the device; the caller reads it): SUM, SUM_SQUARES, MAX_ABS (NaN if any element is; 0 if there are
 * none), and NONFINITE: the first row (of x.rows) with a NaN or an infinity, or -1. Sums: doubles; cpu: by rows. */
enum ctr_reduction { CTR_REDUCE_SUM, CTR_REDUCE_SUM_SQUARES, CTR_REDUCE_MAX_ABS, CTR_REDUCE_NONFINITE };
struct ctr_dev_reduce {
    enum ctr_reduction kind;
    struct ctr_mat x;
    struct ctr_vec out; /* f64 [1] */
};

/* ---- images ----
 *
 * A minibatch of images is a matrix with one row per pixel (image by image, line by line) and one column per
 * channel. */

/* Convolution (cross-correlation, as in deep learning) with square windows and zeros around each image:
 *   y[image, i, j, o] = act(bias[o] + sum over u, v, c of w[(u size + v) channels + c, o] x[image, i stride + u - pad,
 *                                                                                       j stride + v - pad, c])
 * Lines of y: (height + 2 pad - size) / stride + 1, columns alike. The sum of an element starts at 0 and runs over u,
 * then v, then c, as one chain of fmaf, like gemm's over the rows of w; then bias, then act. cuda: its own order. */
struct ctr_dev_conv {
    int64_t images, height, width; /* of x */
    int64_t size, stride, pad;     /* of the window: pad < size */
    struct ctr_mat x;              /* [images height width x channels] */
    struct ctr_mat w;              /* [size size channels x out] */
    struct ctr_vec bias;           /* f32 [out], or none */
    struct ctr_act act;            /* or none */
    struct ctr_mat y;              /* [images lines columns x out] */
};
static inline int64_t ctr_conv_side(int64_t side, int64_t size, int64_t stride, int64_t pad)
{
    return (side + 2 * pad - size) / stride + 1;
}

/* The largest value of each window, by channel; a NaN in the window wins. Pixels left over at the right and bottom
 * belong to no window: lines of y are (height - size) / stride + 1. */
struct ctr_dev_max_pool {
    int64_t images, height, width;
    int64_t size, stride;
    struct ctr_mat x; /* [images height width x channels] */
    struct ctr_mat y; /* [images lines columns x channels] */
};

/* ---- the table ----
 * X(name): one line makes the slot, the checked call ctr_dev_name, its row in ctr_dev_op_name and its tests' presence
 * check. */
#define CTR_DEV_OPS(X)                                                                                                 \
    X(gemm)                                                                                                            \
    X(act)                                                                                                             \
    X(act_grad)                                                                                                        \
    X(pool)                                                                                                            \
    X(pool_grad)                                                                                                       \
    X(attend_input)                                                                                                    \
    X(attend_input_grad)                                                                                               \
    X(attend)                                                                                                          \
    X(attend_grad)                                                                                                     \
    X(move_rows)                                                                                                       \
    X(copy)                                                                                                            \
    X(axpby)                                                                                                           \
    X(fill)                                                                                                            \
    X(row_dot)                                                                                                         \
    X(row_scale)                                                                                                       \
    X(dropout)                                                                                                         \
    X(cross)                                                                                                           \
    X(cross_grad)                                                                                                      \
    X(dots)                                                                                                            \
    X(dots_grad)                                                                                                       \
    X(stats)                                                                                                           \
    X(norm)                                                                                                            \
    X(norm_grad)                                                                                                       \
    X(bce)                                                                                                             \
    X(opt_dense)                                                                                                       \
    X(opt_rows)                                                                                                        \
    X(slots)                                                                                                           \
    X(take_items)                                                                                                      \
    X(item_digests)                                                                                                    \
    X(reduce)                                                                                                          \
    X(conv)                                                                                                            \
    X(max_pool)

#define CTR_DEV_DECLARE(name)                                                                                          \
    int ctr_dev_##name(struct ctr_dev *dev, const struct ctr_dev_##name *a, struct ctr_err *err) CTR_MUST;
CTR_DEV_OPS(CTR_DEV_DECLARE)
#undef CTR_DEV_DECLARE

#define CTR_DEV_NUMBER(name) CTR_DEV_OP_##name,
enum ctr_dev_op { CTR_DEV_OPS(CTR_DEV_NUMBER) CTR_DEV_OP_COUNT };
#undef CTR_DEV_NUMBER
const char *ctr_dev_op_name(enum ctr_dev_op op);
/* With want.profile: total seconds of an operation, including waiting for it. */
double ctr_dev_seconds(const struct ctr_dev *dev, enum ctr_dev_op op);

/* Profile of a run ($CTR_PROFILE; otherwise inactive): time within the learner, and between its calls, where the
 * trainer waits for input and counts: devtime.c. Summary lines: seconds by operation, of the rest, of input. */
struct ctr_dev_time {
    double start, left, outside;
};
bool ctr_dev_times(void); /* for want.profile */
void ctr_dev_time_enter(struct ctr_dev_time *t);
void ctr_dev_time_leave(struct ctr_dev_time *t);
void ctr_dev_time_summary(const struct ctr_dev_time *t, const struct ctr_dev *dev, struct ctr_say *text);

/* What ctr_dev_link_find, _id, ctr_dev_link and ctr_dev_swap call. */
struct ctr_link_ops {
    int (*find)(struct ctr_dev *dev, char *place, struct ctr_err *err);
    int (*id)(struct ctr_dev *dev, unsigned char *id, struct ctr_err *err);
    int (*open)(struct ctr_dev *dev, const struct ctr_dev_link *link, struct ctr_err *err);
    int (*swap)(struct ctr_dev *dev, const struct ctr_dev_swap *swap, struct ctr_err *err);
};

struct ctr_ops {
    const char *name;
    /* Devices and memory; device.c does the accounting, limits and common messages. */
    int (*open)(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err);
    void (*close)(struct ctr_dev *dev);
    int (*sync)(struct ctr_dev *dev, struct ctr_err *err);
    int (*mem_new)(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err); /* zeroed */
    void (*mem_free)(struct ctr_dev *dev, void *p);
    int (*write)(struct ctr_dev *dev, void *to, const void *host, size_t bytes, bool later, struct ctr_err *err);
    int (*read)(struct ctr_dev *dev, const void *from, void *host, size_t bytes, bool later, struct ctr_err *err);
    int (*host_new)(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err);
    void (*host_free)(struct ctr_dev *dev, void *p);
    int (*order)(struct ctr_dev *dev, enum ctr_queue first, enum ctr_queue then, struct ctr_err *err);
    int (*copied)(struct ctr_dev *dev, struct ctr_err *err);
    int64_t (*memory_free)(const struct ctr_dev *dev);
    const struct ctr_link_ops *link;      /* NULL: devices cannot be connected */
    void (*collect)(struct ctr_dev *dev); /* NULL, as is start: operations start at once */
    int (*start)(struct ctr_dev *dev, struct ctr_err *err);
#define CTR_DEV_SLOT(name) int (*name)(struct ctr_dev * dev, const struct ctr_dev_##name *a, struct ctr_err *err);
    CTR_DEV_OPS(CTR_DEV_SLOT)
#undef CTR_DEV_SLOT
};
extern const struct ctr_ops ctr_ops_cpu;

#endif
