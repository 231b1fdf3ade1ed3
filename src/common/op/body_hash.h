/* SPDX-License-Identifier: Apache-2.0
 *
 * body_hash: XXH3-64, in the subset of body.h; for short texts inlined into the loops that make keys. Invariant:
 * equals XXH3_64bits_withSeed (doc/xxhash_spec.md of xxHash); the constants of short texts are exclusive ors of pairs
 * of words of its default secret. */
#ifndef CTR_BODY_HASH_H
#define CTR_BODY_HASH_H

#include "common/op/body.h"

#define OPV_HASH_SHORT 16
#ifdef __CUDACC_RTC__
#define OPV_INLINE static __device__ __forceinline__
#define OPV_COLD   static __device__ __noinline__ /* a single copy, because users wait for kernels to compile */
#else
#define OPV_COLD   OPV_FN
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
#ifdef __CUDACC_RTC__
    return (uint64_t)__byte_perm((uint32_t)x, 0, 0x0123) << 32 | __byte_perm((uint32_t)(x >> 32), 0, 0x0123);
#endif
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

/* ---- short texts ---- */

/* x: the three bytes that count, and n. */
OPV_FN uint64_t opv_hash_3(uint64_t x, uint64_t seed)
{
    return opv_avalanche(x ^ (0x87275a9bu + seed));
}
OPV_FN uint64_t opv_hash_0_3(const uint8_t *p, uint64_t n, uint64_t seed)
{
    if (n == 0)
        return opv_avalanche(seed ^ 0x8726f9105dc21ddcu);
    return opv_hash_3((uint64_t)p[0] << 16 | (uint64_t)p[n >> 1] << 24 | p[n - 1] | n << 8, seed);
}
/* Of four to eight bytes: what the seed is to them. */
OPV_INLINE uint64_t opv_hash_8_secret(uint64_t seed)
{
    return 0xc73ab174c5ecd5a2u - (seed ^ opv_swap64(seed & 0xffffffffu)); /* the low half, reversed, on the high one */
}
/* x: the last four bytes, and the first four above them. */
OPV_INLINE uint64_t opv_hash_8_by(uint64_t x, uint64_t n, uint64_t secret)
{
    x ^= secret;
    x ^= opv_rotl64(x, 49) ^ opv_rotl64(x, 24);
    x *= 0x9fb21c651e98df25u;
    x ^= (x >> 35) + n;
    x *= 0x9fb21c651e98df25u;
    return x ^ x >> 28;
}
OPV_INLINE uint64_t opv_hash_8(uint64_t x, uint64_t n, uint64_t seed)
{
    return opv_hash_8_by(x, n, opv_hash_8_secret(seed));
}
OPV_INLINE uint64_t opv_hash_4_8(const uint8_t *p, uint64_t n, uint64_t seed)
{
    return opv_hash_8(opv_load32(p + n - 4) | opv_load32(p) << 32, n, seed);
}
/* lo, hi: the first and the last eight bytes. */
OPV_FN uint64_t opv_hash_16(uint64_t lo, uint64_t hi, uint64_t n, uint64_t seed)
{
    lo ^= 0x6782737bea4239b9u + seed;
    hi ^= 0xaf56bc3b0996523au - seed;
    uint64_t h = n + opv_swap64(lo) + hi + opv_mul_fold(lo, hi);
    h ^= h >> 37;
    h *= 0x165667919e3779f9u;
    return h ^ h >> 32;
}
OPV_FN uint64_t opv_hash_9_16(const uint8_t *p, uint64_t n, uint64_t seed)
{
    return opv_hash_16(opv_load64(p), opv_load64(p + n - 8), n, seed);
}
OPV_INLINE uint64_t opv_hash_short(const uint8_t *p, uint64_t n, uint64_t seed)
{
    return n - 4 <= 4 ? opv_hash_4_8(p, n, seed) : n < 4 ? opv_hash_0_3(p, n, seed) : opv_hash_9_16(p, n, seed);
}
/* The same of one to eight bytes in a register, in which those beyond the text do not matter. secret: of
 * opv_hash_8_secret. */
OPV_INLINE uint64_t opv_hash_word(uint64_t x, uint64_t n, uint64_t seed, uint64_t secret)
{
    if (n >= 4)
        return opv_hash_8_by((x >> 8 * (n - 4) & 0xffffffffu) | x << 32, n, secret);
    return opv_hash_3((x & 0xff) << 16 | (x >> 8 * (n >> 1) & 0xff) << 24 | (x >> 8 * (n - 1) & 0xff) | n << 8, seed);
}
/* And of a text in two: its first eight bytes, and of one that is longer the last eight. */
OPV_INLINE uint64_t opv_hash_words(uint64_t lo, uint64_t hi, uint64_t n, uint64_t seed)
{
    return n > 8    ? opv_hash_16(lo, hi, n, seed)
           : n == 0 ? opv_avalanche(seed ^ 0x8726f9105dc21ddcu)
                    : opv_hash_word(lo, n, seed, opv_hash_8_secret(seed));
}

/* ---- longer texts ---- */

/* clang-format off */
OPV_CONST uint8_t opv_secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};
/* clang-format on */
#define OPV_HASH_P32_1 0x9e3779b1u
#define OPV_HASH_P32_2 0x85ebca77u
#define OPV_HASH_P32_3 0xc2b2ae3du
#define OPV_HASH_P64_1 0x9e3779b185ebca87u
#define OPV_HASH_P64_2 0xc2b2ae3d27d4eb4fu
#define OPV_HASH_P64_3 0x165667b19e3779f9u
#define OPV_HASH_P64_4 0x85ebca77c2b2ae63u
#define OPV_HASH_P64_5 0x27d4eb2f165667c5u

OPV_FN uint64_t opv_hash_end(uint64_t h)
{
    h ^= h >> 37;
    h *= 0x165667919e3779f9u;
    return h ^ h >> 32;
}
OPV_COLD uint64_t opv_hash_mix(const uint8_t *p, const uint8_t *secret, uint64_t seed)
{
    return opv_mul_fold(opv_load64(p) ^ (opv_load64(secret) + seed),
                        opv_load64(p + 8) ^ (opv_load64(secret + 8) - seed));
}
OPV_COLD uint64_t opv_hash_17_240(const uint8_t *p, uint64_t n, uint64_t seed)
{
    uint64_t h = n * OPV_HASH_P64_1;
    if (n <= 128) {
        for (uint64_t i = (n - 1) / 32 + 1; i-- > 0;)
            h += opv_hash_mix(p + 16 * i, opv_secret + 32 * i, seed) +
                 opv_hash_mix(p + n - 16 * (i + 1), opv_secret + 32 * i + 16, seed);
        return opv_hash_end(h);
    }
    for (uint64_t i = 0; i < 8; i++)
        h += opv_hash_mix(p + 16 * i, opv_secret + 16 * i, seed);
    h = opv_hash_end(h);
    for (uint64_t i = 8; i < n / 16; i++)
        h += opv_hash_mix(p + 16 * i, opv_secret + 16 * (i - 8) + 3, seed);
    return opv_hash_end(h + opv_hash_mix(p + n - 16, opv_secret + 136 - 17, seed));
}

/* Word i of the secret of a seed. at: its first byte, which need not be a multiple of 8. */
OPV_COLD uint64_t opv_secret_word(uint64_t at, uint64_t seed)
{
    uint64_t v = 0;
    for (uint64_t k = 0; k < 8; k++) {
        const uint64_t i = at + k, word = opv_load64(opv_secret + i / 8 * 8) + (i / 8 % 2 ? 0 - seed : seed);
        v |= (word >> 8 * (i % 8) & 0xff) << 8 * k;
    }
    return v;
}
OPV_COLD void opv_hash_stripe(uint64_t *acc, const uint8_t *p, uint64_t secret, uint64_t seed)
{
    for (int i = 0; i < 8; i++) {
        const uint64_t v = opv_load64(p + 8 * i), key = v ^ opv_secret_word(secret + 8 * (uint64_t)i, seed);
        acc[i ^ 1] += v;
        acc[i] += (key & 0xffffffffu) * (key >> 32);
    }
}
OPV_COLD uint64_t opv_hash_stripes(const uint8_t *p, uint64_t n, uint64_t seed)
{
    uint64_t acc[8] = { OPV_HASH_P32_3, OPV_HASH_P64_1, OPV_HASH_P64_2, OPV_HASH_P64_3,
                        OPV_HASH_P64_4, OPV_HASH_P32_2, OPV_HASH_P64_5, OPV_HASH_P32_1 };
    const uint64_t blocks = (n - 1) / 1024;
    uint64_t h = n * OPV_HASH_P64_1;
    for (uint64_t b = 0; b <= blocks; b++) {
        const uint64_t stripes = b < blocks ? 16 : (n - 1 - 1024 * blocks) / 64;
        for (uint64_t i = 0; i < stripes; i++)
            opv_hash_stripe(acc, p + 1024 * b + 64 * i, 8 * i, seed);
        for (int i = 0; b < blocks && i < 8; i++)
            acc[i] = (acc[i] ^ acc[i] >> 47 ^ opv_secret_word(128 + 8 * (uint64_t)i, seed)) * OPV_HASH_P32_1;
    }
    opv_hash_stripe(acc, p + n - 64, 192 - 64 - 7, seed);
    for (int i = 0; i < 4; i++)
        h += opv_mul_fold(acc[2 * i] ^ opv_secret_word(11 + 16 * (uint64_t)i, seed),
                          acc[2 * i + 1] ^ opv_secret_word(19 + 16 * (uint64_t)i, seed));
    return opv_hash_end(h);
}
/* For more than OPV_HASH_SHORT bytes. The host uses libxxhash for them. */
OPV_FN uint64_t opv_hash_long(const uint8_t *p, uint64_t n, uint64_t seed)
{
    return n <= 240 ? opv_hash_17_240(p, n, seed) : opv_hash_stripes(p, n, seed);
}

#endif
