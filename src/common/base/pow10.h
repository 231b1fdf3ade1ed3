/* SPDX-License-Identifier: Apache-2.0
 *
 * pow10: the powers of ten used by float.c. */
#ifndef CTR_POW10_H
#define CTR_POW10_H

#include <stdint.h>

#define CTR_POW10_MIN (-342)
#define CTR_POW10_MAX 324
extern const uint64_t ctr_pow10[CTR_POW10_MAX - CTR_POW10_MIN + 1][2];

/* floor(log2(10^q)), |q| <= 1233 */
static inline int ctr_log2_pow10(int q)
{
    return (q * 1741647) >> 19;
}
#endif
