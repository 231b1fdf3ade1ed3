/* SPDX-License-Identifier: Apache-2.0
 *
 * exactsum.h: sums of doubles and integers without rounding, in one wide number of fixed point. So a sum depends
 * neither on the order of the values nor on how they are grouped, and profiles merge bit for bit.
 *
 * The unit is 2^-1074, the least positive double; LIMBS hold 2^64 times the greatest. Two's complement. */
#ifndef CTR_EXACTSUM_H
#define CTR_EXACTSUM_H

#include <stdbool.h>
#include <stdint.h>

enum { CTR_EXACT_LIMBS = 36, CTR_EXACT_POINT = 1074 };

struct ctr_exact {
    uint64_t limb[CTR_EXACT_LIMBS]; /* the lowest first */
};

void ctr_exact_add(struct ctr_exact *e, const struct ctr_exact *other);
/* Add m * 2^(shift - 1074), or subtract it. */
void ctr_exact_put(struct ctr_exact *e, unsigned __int128 m, int shift, bool negative);
/* Add n times x, which is finite; n times x * x, which does not overflow. */
void ctr_exact_put_f64(struct ctr_exact *e, double x, int64_t n);
void ctr_exact_put_square(struct ctr_exact *e, double x, int64_t n);
/* The same of an integer, given by sign and magnitude. */
void ctr_exact_put_int(struct ctr_exact *e, uint64_t magnitude, bool negative, int64_t n);
void ctr_exact_put_int_square(struct ctr_exact *e, uint64_t magnitude, int64_t n);

/* The mean of n values of this sum, and the standard deviation (divisor n - 1) by the sum of their squares; correct to
 * about two roundings. */
double ctr_exact_mean(const struct ctr_exact *sum, int64_t n);
double ctr_exact_sd(const struct ctr_exact *sum, const struct ctr_exact *squares, int64_t n);

/* Many doubles: added by sign and exponent first. A block of at most CTR_EXACT_BLOCK values is put, then flushed. */
enum { CTR_EXACT_BLOCK = 2048, CTR_EXACT_BINS = 4096 };
struct ctr_exact_block {
    uint64_t mantissas[CTR_EXACT_BINS]; /* sums; 53 bits of 2^11 values */
    uint64_t used[CTR_EXACT_BINS / 64];
};
static inline void ctr_exact_block_put(struct ctr_exact_block *b, double x)
{
    union {
        double d;
        uint64_t u;
    } v = { x };
    const uint64_t i = v.u >> 52;
    b->mantissas[i] += (v.u & ((UINT64_C(1) << 52) - 1)) | (uint64_t)((i & 2047) != 0) << 52;
    b->used[i >> 6] |= UINT64_C(1) << (i & 63);
}
void ctr_exact_block_flush(struct ctr_exact_block *b, struct ctr_exact *e);

#endif
