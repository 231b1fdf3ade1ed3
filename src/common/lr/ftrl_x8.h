/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl_x8: FTRL-Proximal for eight models at once, one per vector lane, each with its own parameters and the same bits
 * as the kernels of optimizer_ftrl.h. The state of a coordinate is z of all eight, then n of all eight, as double or
 * float. A lane without a coordinate has state 0 there and uses 0 for x, which leaves both unchanged.
 */
#ifndef CTR_FTRL_X8_H
#define CTR_FTRL_X8_H

#include "common/lr/optimizer.h"

enum { CTR_X8 = 8 };

struct ctr_x8_params {
    _Alignas(64) double inv_alpha[CTR_X8], beta[CTR_X8], l1[CTR_X8], l2[CTR_X8];
};

/* k coordinates of one row. */
struct ctr_x8_row {
    uint8_t *const *state;
    const double *x;
    const uint64_t *const *mask; /* per coordinate: all bits set for lanes that have it; NULL: all lanes have all */
    int64_t k;
    void *w, *root;       /* scratch, k times eight numbers of the type of the state */
    uint8_t *const *next; /* states needed soon: forward prefetches them */
    int64_t nexts;
};

/* Index of the functions: CTR_F64_STATE or CTR_F32_STATE. */
struct ctr_x8_kernel {
    const char *name;
    /* Weights and square roots; dot, unless NULL, receives the dot product of every lane; coordinate i of the row must
     * be coordinate i of all lanes. */
    void (*forward[2])(const struct ctr_x8_params *p, const struct ctr_x8_row *r, double *dot);
    /* After forward, with each lane's g = weight (p - y). */
    void (*update[2])(const struct ctr_x8_params *p, const struct ctr_x8_row *r, const double *g);
    /* The weights of k times eight states; state i is in lane i mod 8. */
    void (*weights[2])(const struct ctr_x8_params *p, const void *z, const void *n, void *w, int64_t k);
    /* Adds to each lane's sum the digests (lr.h) of k weights, given ctr_mix64 of their keys; `wrong` stays 0 while all
     * states are finite. */
    void (*digest[2])(const uint64_t *mixed, const void *z, const void *n, const void *w, int64_t k, uint64_t *sum,
                      double *wrong);
};
/* By enum ctr_cpu; NULL past the end. */
const struct ctr_x8_kernel *ctr_x8_kernel_at(int i);

/* The dot product of one lane, whose n coordinates `at` lists. */
double ctr_x8_dot(enum ctr_precision precision, const struct ctr_x8_row *r, int lane, const int32_t *at, int64_t n);

#endif
