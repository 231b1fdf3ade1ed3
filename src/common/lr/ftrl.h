/* SPDX-License-Identifier: Apache-2.0
 *
 * ftrl: the default learner, FTRL-Proximal with a learning rate by coordinate, fused: Algorithm 1 of "Ad Click
 * Prediction: a View from the Trenches" (KDD 2013). With per-coordinate z and n:
 *
 *     w_i = 0                                             if |z_i| <= l1
 *     w_i = -(z_i - sgn(z_i) l1) / ((beta + sqrt(n_i)) / alpha + l2)   otherwise
 *     g_i = weight (p - y) x_i,  sigma_i = (sqrt(n_i + g_i^2) - sqrt(n_i)) / alpha
 *     z_i += g_i - sigma_i w_i,  n_i += g_i^2
 *
 * The state of a key is z and n, as double or float, 8 bytes behind the pointer to its row; kernels read and store
 * nothing else of a table (see optimizer.h).
 */
#ifndef CTR_FTRL_H
#define CTR_FTRL_H

#include "common/lr/optimizer.h"

/* Index of the functions: CTR_F64_STATE or CTR_F32_STATE. */
struct ctr_ftrl_kernel {
    const char *name;
    ctr_forward *forward[2];
    ctr_update *update[2], *update_late[2];
};

/* Fastest first; the last one runs everywhere. */
const struct ctr_ftrl_kernel *ctr_ftrl_kernel_at(int i);
const struct ctr_ftrl_kernel *ctr_ftrl_kernel_best(void);

/* The weight of one coordinate, with the bits of the kernels. */
double ctr_ftrl_weight64(const struct ctr_learning *p, double z, double root);
float ctr_ftrl_weight32(const struct ctr_learning *p, float z, float root);

#endif
