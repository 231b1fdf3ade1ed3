/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the implementations of comm. */
#ifndef CTR_COMM_IMPL_H
#define CTR_COMM_IMPL_H

#include "common/compute/comm.h"

struct ctr_comm {
    const struct ctr_comm_ops *ops;
    int rank, size, local;
    bool failed;
    struct ctr_comm_bytes bytes;
    struct ctr_comm_part *out; /* [size]: of gather and sum */
    struct ctr_buf *in;
    int64_t *in_n;
    struct ctr_background *thread; /* of ctr_comm_run, or NULL */
    struct ctr_comm_call {
        void (*fn)(void *ctx);
        void *ctx;
    } call;    /* what it runs, */
    bool runs; /* as long as this is set */
};

/* Initialise with the members above; `c` is zeroed memory. If it fails, it frees what it allocated. */
int ctr_comm_init(struct ctr_comm *c, const struct ctr_comm_ops *ops, int rank, int size, struct ctr_err *err) CTR_MUST;
double ctr_comm_limit_s(void); /* $CTR_RANKS_LIMIT */
/* Count bytes that go to a rank. */
void ctr_comm_count(struct ctr_comm *c, enum ctr_comm_kind kind, int to, int64_t bytes);
/* Of n elements, the first one that rank i sums. */
int64_t ctr_comm_first(const struct ctr_comm *c, int64_t n, int i);

#endif
