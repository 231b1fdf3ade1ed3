/* SPDX-License-Identifier: Apache-2.0
 *
 * comm: the ranks of a run, which are processes that learn one model together, and what they send to each other.
 *
 *     ctr_comm_mpi(&c, err)                    the processes that mpirun or srun started (comm_mpi.c)
 *     ctr_comm_threads(list, n, limit_s, err)  n threads of one process, for tests (comm_threads.c)
 *     ctr_comm_swap(c, kind, out, in, err)     out[r] goes to rank r; in[r] becomes what rank r sent to this one
 *     ctr_comm_gather(c, kind, p, n, in, err)  in[r] becomes the p of rank r, on every rank
 *     ctr_comm_sum(c, kind, v, n, err)         v[i] becomes the sum of all ranks' v[i]
 *     ctr_comm_abort(c, why)                   the run fails on every rank
 *
 * Every rank makes the same calls in the same order; a call returns when all have made it. Sums run in the order of
 * ranks, ((v of 0 + v of 1) + v of 2) …, so that all ranks have the same bits, which depend on the number of ranks
 * alone. One rank: nothing is changed.
 *
 * A comm of NULL is a run without ranks: rank 0 of 1, of which these functions are nothing or a copy.
 *
 * Errors. A call fails (CTR_ESYS) on a rank when another one has aborted, has died, or has given no sign of life for
 * the limit ($CTR_RANKS_LIMIT seconds, 20 by default). A rank that computes gives signs of life, however long it takes.
 * After an error the comm can only be aborted and freed. One thread at a time calls into a comm. Bytes have the order
 * of this processor: ranks run on machines of one kind.
 *
 * Ownership: out is borrowed during the call; in are growing buffers of the caller, whose content is replaced.
 */
#ifndef CTR_COMM_H
#define CTR_COMM_H

#include "common/base/base.h"

/* What bytes are, for ctr_comm_bytes. */
enum ctr_comm_kind {
    CTR_COMM_CONTROL, /* how many rows; which ranks go on; rows of a model that is saved */
    CTR_COMM_IDS,     /* keys of tables */
    CTR_COMM_IMAGES,  /* keys of images */
    CTR_COMM_VECTORS, /* values of tables */
    CTR_COMM_GRADIENTS,
    CTR_COMM_IMAGE_VECTORS, /* of images: embedded ones, or as they are in the file */
    CTR_COMM_IMAGE_GRADIENTS,
    CTR_COMM_SYNC,       /* gradients of dense parameters */
    CTR_COMM_SYNC_TOWER, /* those of the tower of images */
    CTR_COMM_KINDS
};
extern const char *const ctr_comm_kind_name[CTR_COMM_KINDS];

struct ctr_comm;

/* Bytes that this rank has sent so far: to all ranks, and of them to others. Counts of a message, which swap sends
 * before it, are not among them. */
struct ctr_comm_bytes {
    int64_t all[CTR_COMM_KINDS], away[CTR_COMM_KINDS];
};

struct ctr_comm_part {
    const void *p;
    size_t n;
};

int ctr_comm_rank(const struct ctr_comm *c);
int ctr_comm_size(const struct ctr_comm *c);
const struct ctr_comm_bytes *ctr_comm_bytes(const struct ctr_comm *c); /* c is not NULL */

/* `bytes` of each message of the last swap were of another kind. */
void ctr_comm_recount(struct ctr_comm *c, enum ctr_comm_kind from, enum ctr_comm_kind to, int64_t bytes);

int ctr_comm_swap(struct ctr_comm *c, enum ctr_comm_kind kind, const struct ctr_comm_part *out, struct ctr_buf *in,
                  struct ctr_err *err) CTR_MUST;
int ctr_comm_gather(struct ctr_comm *c, enum ctr_comm_kind kind, const void *p, size_t n, struct ctr_buf *in,
                    struct ctr_err *err) CTR_MUST;
int ctr_comm_sum(struct ctr_comm *c, enum ctr_comm_kind kind, float *v, int64_t n, struct ctr_err *err) CTR_MUST;
/* The same of integers, of which none may overflow. */
int ctr_comm_sum_i64(struct ctr_comm *c, int64_t *v, int n, struct ctr_err *err) CTR_MUST;
/* The n bytes at p of rank `root`, to all. */
int ctr_comm_broadcast(struct ctr_comm *c, int root, void *p, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_comm_barrier(struct ctr_comm *c, struct ctr_err *err) CTR_MUST;

/* MPI: all processes end when this one exits, which tells why. Threads, from any of them: their calls fail with `why`.
 */
void ctr_comm_abort(struct ctr_comm *c, const char *why);
/* MPI: waits for the others, unless the comm failed. */
void ctr_comm_free(struct ctr_comm *c);

/* ---- what it is made of ---- */

struct ctr_comm_ops {
    const char *name;
    /* in[r] has room for nothing yet; the part of this rank is the caller's business. */
    int (*swap)(struct ctr_comm *c, const struct ctr_comm_part *out, struct ctr_buf *in, struct ctr_err *err);
    void (*abort)(struct ctr_comm *c, const char *why);
    void (*free)(struct ctr_comm *c, bool failed);
};

/* Did mpirun, or another starter of MPI processes, start this one? */
bool ctr_comm_started(void);
int ctr_comm_mpi(struct ctr_comm **c, struct ctr_err *err) CTR_MUST;
/* list[n]: a comm for each thread, each to be freed. */
int ctr_comm_threads(struct ctr_comm **list, int n, double limit_s, struct ctr_err *err) CTR_MUST;

#endif
