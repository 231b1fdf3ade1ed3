/* SPDX-License-Identifier: Apache-2.0
 *
 * opbody_hash: XXH3-64 of short texts, in the subset of opbody.h and inlined into the loops that make keys. Invariant:
 * equals XXH3_64bits_withSeed for every length up to 16 (doc/xxhash_spec.md of xxHash); the constants are exclusive ors
 * of pairs of words of its default secret. */
#ifndef CTR_OPBODY_HASH_H
#define CTR_OPBODY_HASH_H

#include "common/op/opbody.h"

#define OPV_HASH_SHORT 16
#ifdef __CUDACC_RTC__
#define OPV_INLINE OPV_FN
#else
#define OPV_INLINE OPV_FN __attribute__((always_inline))
#endif

OPV_FN uint64_t opv_load32(const uint8_t *p)
{
#ifdef __CUDACC_RTC__
    return p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
#else
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    return v;
#endif
}
OPV_FN uint64_t opv_load64(const uint8_t *p)
{
#ifdef __CUDACC_RTC__
    return opv_load32(p) | opv_load32(p + 4) << 32;
#else
    uint64_t v;
    __builtin_memcpy(&v, p, 8);
    return v;
#endif
}
OPV_FN uint64_t opv_rotl64(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}
OPV_FN uint64_t opv_swap64(uint64_t x)
{
    x = (x & 0x00ff00ff00ff00ffu) << 8 | (x >> 8 & 0x00ff00ff00ff00ffu);
    x = (x & 0x0000ffff0000ffffu) << 16 | (x >> 16 & 0x0000ffff0000ffffu);
    return x << 32 | x >> 32;
}
OPV_FN uint64_t opv_mul_fold(uint64_t a, uint64_t b) /* low ^ high half of the 128-bit product */
{
#ifdef __CUDACC_RTC__
    return a * b ^ __umul64hi(a, b);
#else
    unsigned __int128 r = (unsigned __int128)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
#endif
}
OPV_FN uint64_t opv_avalanche(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xc2b2ae3d27d4eb4fu;
    h ^= h >> 29;
    h *= 0x165667b19e3779f9u;
    return h ^ h >> 32;
}

OPV_FN uint64_t opv_hash_0_3(const uint8_t *p, uint64_t n, uint64_t seed)
{
    uint64_t x;
    if (n == 0)
        return opv_avalanche(seed ^ 0x8726f9105dc21ddcu);
    x = (uint64_t)p[0] << 16 | (uint64_t)p[n >> 1] << 24 | p[n - 1] | n << 8;
    return opv_avalanche(x ^ (0x87275a9bu + seed));
}
OPV_INLINE uint64_t opv_hash_4_8(const uint8_t *p, uint64_t n, uint64_t seed)
{
    uint64_t x = opv_load32(p + n - 4) | opv_load32(p) << 32;
    seed ^= opv_swap64(seed & 0xffffffffu); /* its low half, bytes reversed, over the high half */
    x ^= 0xc73ab174c5ecd5a2u - seed;
    x ^= opv_rotl64(x, 49) ^ opv_rotl64(x, 24);
    x *= 0x9fb21c651e98df25u;
    x ^= (x >> 35) + n;
    x *= 0x9fb21c651e98df25u;
    return x ^ x >> 28;
}
OPV_FN uint64_t opv_hash_9_16(const uint8_t *p, uint64_t n, uint64_t seed)
{
    uint64_t lo = opv_load64(p) ^ (0x6782737bea4239b9u + seed);
    uint64_t hi = opv_load64(p + n - 8) ^ (0xaf56bc3b0996523au - seed);
    uint64_t h = n + opv_swap64(lo) + hi + opv_mul_fold(lo, hi);
    h ^= h >> 37;
    h *= 0x165667919e3779f9u;
    return h ^ h >> 32;
}
OPV_INLINE uint64_t opv_hash_short(const uint8_t *p, uint64_t n, uint64_t seed)
{
    return n - 4 <= 4 ? opv_hash_4_8(p, n, seed) : n < 4 ? opv_hash_0_3(p, n, seed) : opv_hash_9_16(p, n, seed);
}

#endif
