/* SPDX-License-Identifier: Apache-2.0
 *
 * comm: the ranks of a run (processes that train one model together) and the communication between them.
 *
 *     ctr_comm_mpi(&c, err)                    the processes started by mpirun or srun (comm_mpi.c)
 *     ctr_comm_swap(c, kind, out, in, err)     out[r] goes to rank r; in[r] receives what rank r sent to this rank
 *     ctr_comm_gather(c, kind, p, n, in, err)  in[r] receives the p of rank r, on every rank
 *     ctr_comm_sum(c, kind, v, n, err)         v[i] becomes the sum of v[i] over ranks
 *     ctr_comm_abort(c, why)                   the run fails on every rank
 *
 * Every rank makes the same calls in the same order; a call returns after all ranks have made it. Sums run in the order
 * of ranks, ((v of 0 + v of 1) + v of 2) …, so all ranks have the same bits, which depend only on the number of ranks.
 * With one rank nothing changes.
 *
 * A NULL comm is a run without ranks: rank 0 of 1; these functions then do nothing or copy.
 *
 * Errors. A call fails (CTR_ESYS) on a rank if another rank has aborted, has died, or has sent no sign of life for the
 * limit ($CTR_RANKS_LIMIT seconds, 20 by default). A computing rank sends signs of life, however long it takes. After
 * an error the comm can only be aborted and freed. Only one thread at a time may use a comm. Bytes are in native byte
 * order: all ranks must run on the same kind of machine.
 *
 * Ownership: out is borrowed during the call; in are growing buffers of the caller, which are overwritten.
 */
#ifndef CTR_COMM_H
#define CTR_COMM_H

#include "common/base/base.h"

/* The purpose of transferred bytes, for ctr_comm_bytes. */
enum ctr_comm_kind {
    CTR_COMM_CONTROL, /* numbers of rows; which ranks continue; rows of a model being saved */
    CTR_COMM_IDS,     /* keys of tables */
    CTR_COMM_IMAGES,  /* keys of images */
    CTR_COMM_VECTORS, /* values of tables */
    CTR_COMM_GRADIENTS,
    CTR_COMM_IMAGE_VECTORS, /* of images: embedded, or as in the file */
    CTR_COMM_IMAGE_GRADIENTS,
    CTR_COMM_SYNC,       /* gradients of dense parameters */
    CTR_COMM_SYNC_TOWER, /* gradients of the tower of images */
    CTR_COMM_KINDS
};
extern const char *const ctr_comm_kind_name[CTR_COMM_KINDS];

struct ctr_comm;

/* Bytes that this rank has sent so far: to all ranks including itself, and to others. The lengths that swap sends
 * before its messages are not counted. */
struct ctr_comm_bytes {
    int64_t all[CTR_COMM_KINDS], away[CTR_COMM_KINDS];
};

/* Append a table of `sum`, the bytes of all ranks: KiB a step, the mean of `steps`, and beside it formula[kind], bytes
 * a step; below 0: there is none, and without bytes no line. */
void ctr_comm_bytes_text(const struct ctr_comm_bytes *sum, int64_t steps, const double *formula, struct ctr_say *text);

struct ctr_comm_part {
    const void *p;
    size_t n;
};

int ctr_comm_rank(const struct ctr_comm *c);
int ctr_comm_size(const struct ctr_comm *c);
/* The number of this rank among those on the same machine, in the order of ranks. */
int ctr_comm_local(const struct ctr_comm *c);
const struct ctr_comm_bytes *ctr_comm_bytes(const struct ctr_comm *c); /* c is not NULL */

/* Count all that was sent since `before` under this kind. */
void ctr_comm_recount_since(struct ctr_comm *c, const struct ctr_comm_bytes *before, enum ctr_comm_kind kind);
/* Count `bytes` of each message of the last swap under another kind. */
void ctr_comm_recount(struct ctr_comm *c, enum ctr_comm_kind from, enum ctr_comm_kind to, int64_t bytes);

int ctr_comm_swap(struct ctr_comm *c, enum ctr_comm_kind kind, const struct ctr_comm_part *out, struct ctr_buf *in,
                  struct ctr_err *err) CTR_MUST;
/* The same where in_n[r] bytes are known to come from rank r, by all: a message less. */
int ctr_comm_swap_known(struct ctr_comm *c, enum ctr_comm_kind kind, const struct ctr_comm_part *out,
                        struct ctr_buf *in, const int64_t *in_n, struct ctr_err *err) CTR_MUST;
/* fn(ctx) on a thread of the comm, beside the caller: calls that fn makes come before those that others make from now
 * on, which wait until it has returned. Where no thread can be had the caller runs it. One at a time. */
void ctr_comm_run(struct ctr_comm *c, void (*fn)(void *ctx), void *ctx);
void ctr_comm_wait(struct ctr_comm *c); /* until it has returned */
int ctr_comm_gather(struct ctr_comm *c, enum ctr_comm_kind kind, const void *p, size_t n, struct ctr_buf *in,
                    struct ctr_err *err) CTR_MUST;
/* The same into a new array *in, which is the caller's to free, also after an error. */
int ctr_comm_gather_new(struct ctr_comm *c, enum ctr_comm_kind kind, const void *p, size_t n, struct ctr_buf **in,
                        struct ctr_err *err) CTR_MUST;
void ctr_comm_gather_free(const struct ctr_comm *c, struct ctr_buf *in);
int ctr_comm_sum(struct ctr_comm *c, enum ctr_comm_kind kind, float *v, int64_t n, struct ctr_err *err) CTR_MUST;
/* The same for integers; an overflow is not allowed. */
int ctr_comm_sum_i64(struct ctr_comm *c, int64_t *v, int n, struct ctr_err *err) CTR_MUST;
/* Copy n bytes at p from rank `root` to all ranks. */
int ctr_comm_broadcast(struct ctr_comm *c, int root, void *p, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_comm_barrier(struct ctr_comm *c, struct ctr_err *err) CTR_MUST;

/* ---- memory of devices: comm_device.c ---- */

struct ctr_dev;
struct ctr_mem;
struct ctr_dev_swap;
/* All ranks, each with its device, once: connect the devices (ctr_dev_link), if all of them can, no two ranks share
 * one, and no rank has $CTR_NCCL=0. If so, ctr_dev_linked says so and the functions below may be called; else the
 * caller's bytes go through host memory. how (`size` bytes, for -v): which, and why. */
int ctr_comm_link(struct ctr_comm *c, struct ctr_dev *dev, char *how, size_t size, struct ctr_err *err) CTR_MUST;
/* ctr_comm_sum of floats [at, at + n) of v, on the device: denormals count as 0 there. *room: scratch memory of the
 * caller, NULL at first. */
int ctr_comm_sum_mem(struct ctr_comm *c, enum ctr_comm_kind kind, struct ctr_dev *dev, struct ctr_mem *v, int64_t at,
                     int64_t n, struct ctr_mem **room, struct ctr_err *err) CTR_MUST;

/* MPI: all processes end when this one exits, which reports the reason. Threads: the calls of all ranks fail with
 * `why`.
 */
void ctr_comm_abort(struct ctr_comm *c, const char *why);
/* MPI: waits for the others, unless the comm failed. */
void ctr_comm_free(struct ctr_comm *c);

/* ---- what it is made of ---- */

struct ctr_comm_ops {
    const char *name;
    /* in[r] has no memory reserved; the caller handles this rank's own part. in_n: bytes that come, or NULL: not known.
     */
    int (*swap)(struct ctr_comm *c, const struct ctr_comm_part *out, struct ctr_buf *in, const int64_t *in_n,
                struct ctr_err *err);
    void (*abort)(struct ctr_comm *c, const char *why);
    void (*free)(struct ctr_comm *c, bool failed);
};

/* Was this process started by mpirun or another launcher of MPI processes? */
bool ctr_comm_started(void);
/* If so, which of how many it is, and which of those on its machine, as the launcher says: no communication. */
bool ctr_comm_place(int *rank, int *size, int *local);
/* How many processes Slurm's srun started beside it without PMIx, so that they do not find each other; 0: none. */
int64_t ctr_comm_strangers(void);
int ctr_comm_mpi(struct ctr_comm **c, struct ctr_err *err) CTR_MUST;

#endif
