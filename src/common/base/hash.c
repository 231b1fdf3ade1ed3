/* SPDX-License-Identifier: Apache-2.0
 *
 * hash: XXH3 of libxxhash, kept behind two functions so that nobody else includes it for a few bytes. */
#include "common/base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SHORT_BYTES = XXH3_MIDSIZE_MAX }; /* up to here XXH3 has no vectors */

uint64_t ctr_hash64(const void *p, size_t n, uint64_t seed)
{
    return n > SHORT_BYTES && ctr_cpu_may(CTR_CPU_AVX2) ? ctr_hash64_avx2(p, n, seed)
                                                        : XXH3_64bits_withSeed(p, n, seed);
}

struct ctr_hash128 ctr_hash128(const void *p, size_t n)
{
    if (n > SHORT_BYTES && ctr_cpu_may(CTR_CPU_AVX2))
        return ctr_hash128_avx2(p, n);
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (struct ctr_hash128){ h.low64, h.high64 };
}
