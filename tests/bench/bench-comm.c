/* SPDX-License-Identifier: Apache-2.0
 *
 * What it costs to send between ranks, under mpirun: a line "ranks, us a swap, ns a byte, processor us a swap,
 * processor ns a byte", of wall and of processor time, where bytes are those that a rank sends to others. The costs of
 * many small swaps and of sums of as many floats as the tower of images has. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "common/compute/comm.h"

enum { SWAPS = 1000, SUMS = 20, FLOATS = 1066412, TURNS = 5 };

struct cost {
    double wall, processor;
};

static struct cost now(void)
{
    struct timespec t;
    struct rusage u;
    clock_gettime(CLOCK_MONOTONIC, &t);
    getrusage(RUSAGE_SELF, &u);
    return (struct cost){ (double)t.tv_sec + (double)t.tv_nsec * 1e-9,
                          (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                              (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6 };
}

static void must(int rc, const struct ctr_err *err)
{
    if (rc) {
        fprintf(stderr, "bench-comm: %s\n", err->what);
        exit(1);
    }
}

static struct cost run(struct ctr_comm *c, float *v, int64_t floats, int times)
{
    struct ctr_err err = { 0 };
    int64_t one = 1;
    must(ctr_comm_barrier(c, &err), &err);
    const struct cost from = now();
    for (int i = 0; i < times; i++)
        must(floats ? ctr_comm_sum(c, CTR_COMM_SYNC, v, floats, &err) : ctr_comm_sum_i64(c, &one, 1, &err), &err);
    const struct cost to = now();
    return (struct cost){ (to.wall - from.wall) / times, (to.processor - from.processor) / times };
}

int main(void)
{
    struct ctr_err err = { 0 };
    struct ctr_comm *c = NULL;
    float *v = calloc(FLOATS, sizeof *v);
    struct cost swap = { 1, 1 }, sum = { 1, 1 };
    if (!v)
        return 1;
    must(ctr_comm_mpi(&c, &err), &err);
    const int n = ctr_comm_size(c);
    for (int i = 0; i < TURNS; i++) { /* the least: others use the machine, too */
        const struct cost small = run(c, v, 0, SWAPS), large = run(c, v, FLOATS, SUMS);
        swap.wall = CTR_MIN(swap.wall, small.wall);
        swap.processor = CTR_MIN(swap.processor, small.processor);
        sum.wall = CTR_MIN(sum.wall, large.wall);
        sum.processor = CTR_MIN(sum.processor, large.processor);
    }
    const double bytes = CTR_MAX(2.0 * (n - 1) / n * FLOATS * sizeof *v, 1);
    if (!ctr_comm_rank(c))
        printf("%d %.3f %.4f %.3f %.4f\n", n, swap.wall * 1e6, (sum.wall - 2 * swap.wall) / bytes * 1e9,
               swap.processor * 1e6, (sum.processor - 2 * swap.processor) / bytes * 1e9);
    ctr_comm_free(c);
    free(v);
    return 0;
}
