/* SPDX-License-Identifier: Apache-2.0
 *
 * keyhash: what tables hold instead of keys, and where it lies there.
 *
 * h = ctr_key_hash(key) (base/mix64.h) is a bijection of the 64-bit keys. Tables mark empty places with h = 0, and keep
 * the one key that has it elsewhere.
 *
 * The home of h among `size` places is ctr_hash_scale(ctr_hash_keyed(h), size). It is monotone in the keyed hash, so
 * that a table can grow in place, from its end. The hash is keyed by a random number of the process because input may
 * be crafted: two hashes share a home for few such numbers (base.h). */
#ifndef CTR_KEYHASH_H
#define CTR_KEYHASH_H

#include "common/base/base.h"

static inline uint64_t ctr_key_unhash(uint64_t h) /* the inverse */
{
    const uint64_t inverse = 0xcfee444d8b59a89bu; /* of 0xd6e8feb86659fd93, modulo 2^64 */
    h ^= h >> 32;
    h *= inverse;
    h ^= h >> 32;
    h *= inverse;
    h ^= h >> 32;
    return h ^ CTR_KEY_SALT;
}

static inline uint64_t ctr_hash_keyed(uint64_t h)
{
    return h * ctr_hash_secret;
}
/* floor(x * size / 2^64). Below 2^32 the upper half of x suffices, and this product vectorises. */
static inline uint64_t ctr_hash_scale(uint64_t x, uint64_t size)
{
    return size <= UINT32_MAX ? (x >> 32) * size >> 32 : (uint64_t)((unsigned __int128)x * size >> 64);
}

/* Vectorised; all instruction sets give the same result. */
struct ctr_keyhash_kernel {
    const char *name;
    void (*hash)(const uint64_t *restrict key, int64_t n, uint64_t *restrict h); /* ctr_key_hash */
};
const struct ctr_keyhash_kernel *ctr_keyhash_kernel_at(int i); /* by enum ctr_cpu; NULL past the end */

#endif
