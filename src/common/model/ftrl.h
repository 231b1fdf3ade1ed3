/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl: the arithmetic of FTRL-Proximal, Algorithm 1 of "Ad Click Prediction: a View from the Trenches" (KDD 2013), on
 * the coordinates of one row. With per-coordinate z and n:
 *
 *     w_i = 0                                             if |z_i| <= l1
 *     w_i = -(z_i - sgn(z_i) l1) / ((beta + sqrt(n_i)) / alpha + l2)   otherwise
 *     g_i = weight (p - y) x_i,  sigma_i = (sqrt(n_i + g_i^2) - sqrt(n_i)) / alpha
 *     z_i += g_i - sigma_i w_i,  n_i += g_i^2
 *
 * Every kernel gives the same bits: element-wise IEEE operations, no contraction, and a dot product of eight partial
 * sums (coordinate i in sum i mod 8) joined in one order, in double whatever the precision of z and n.
 */
#ifndef CTR_FTRL_H
#define CTR_FTRL_H

#include "common/base/base.h"

struct ctr_ftrl {
    double inv_alpha, beta, l1, l2;
};

/* Scratch of one row: eight-padded arrays of the learner's precision. */
struct ctr_ftrl_row {
    void *z, *n, *w, *root;
    double *x; /* padded with 0 */
};
enum { CTR_FTRL_LANES = 8 };

/* A table row is uint64_t hash, then z and n. Pointers to rows are padded too, with a spare row of zeros. */
struct ctr_ftrl_kernel {
    const char *name;
    bool (*usable)(void);
    /* Gathers z and n of k rows and returns the dot product. */
    double (*forward[2])(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s, uint8_t *const *row, int64_t k);
    /* After forward: the update with g = weight (p - y), scattered. */
    void (*update[2])(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s, uint8_t *const *row, int64_t k, double g);
    /* The same when rows may have changed since forward; w is the one of then. */
    void (*update_late[2])(const struct ctr_ftrl *p, const struct ctr_ftrl_row *s, uint8_t *const *row, int64_t k,
                           double g);
};
enum { CTR_F64_STATE, CTR_F32_STATE }; /* index of forward and update */

/* Fastest first; the last one runs everywhere. */
const struct ctr_ftrl_kernel *ctr_ftrl_kernel_at(int i);
const struct ctr_ftrl_kernel *ctr_ftrl_kernel_best(void);

/* The weight of one coordinate, with the bits of the kernels. */
double ctr_ftrl_weight64(const struct ctr_ftrl *p, double z, double n);
float ctr_ftrl_weight32(const struct ctr_ftrl *p, float z, float n);

double ctr_ftrl_join(const double sum[CTR_FTRL_LANES]); /* of the lanes' sums */

/* The dot product of given weights and x (NULL: 1), with the bits of forward. */
double ctr_ftrl_dot(const double *w, const double *x, int64_t k);

#endif
