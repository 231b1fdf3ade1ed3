/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are threads of one process, in the place of MPI's processes. */
#ifndef CTR_TEST_COMM_THREADS_H
#define CTR_TEST_COMM_THREADS_H

#include "common/compute/comm.h"

/* list[n]: one comm per thread; free each. A rank that waits for longer than limit_s fails the run. */
int ctr_comm_threads(struct ctr_comm **list, int n, double limit_s, struct ctr_err *err) CTR_MUST;

#endif
