/* SPDX-License-Identifier: Apache-2.0
 *
 * hash: XXH3 of libxxhash, kept behind two functions so that nobody else includes it for a few bytes. */
#include "common/base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LONG_BYTES = 16384 }; /* from here on asking for the processor is cheap beside the hash */

uint64_t ctr_hash64(const void *p, size_t n, uint64_t seed)
{
    if (n >= LONG_BYTES && ctr_cpu_may(CTR_CPU_AVX2))
        return ctr_hash64_avx2(p, n, seed);
    return XXH3_64bits_withSeed(p, n, seed);
}

struct ctr_hash128 ctr_hash128(const void *p, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(p, n);

    return (struct ctr_hash128){ h.low64, h.high64 };
}
