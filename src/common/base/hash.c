/* SPDX-License-Identifier: Apache-2.0
 *
 * hash: XXH3 of libxxhash, kept behind two functions so that nobody else includes it for a few bytes. */
#include "common/base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SHORT_BYTES = XXH3_MIDSIZE_MAX }; /* up to here XXH3 has no vectors */

/* Asked once a process: to ask costs more than to hash a few hundred bytes. */
static bool has_avx2(void)
{
    static signed char has = -1;
    int known = __atomic_load_n(&has, __ATOMIC_RELAXED);
    if (known < 0)
        __atomic_store_n(&has, (signed char)(known = ctr_cpu_may(CTR_CPU_AVX2)), __ATOMIC_RELAXED);
    return known;
}

uint64_t ctr_hash64(const void *p, size_t n, uint64_t seed)
{
    return n > SHORT_BYTES && has_avx2() ? ctr_hash64_avx2(p, n, seed) : XXH3_64bits_withSeed(p, n, seed);
}

struct ctr_hash128 ctr_hash128(const void *p, size_t n)
{
    if (n > SHORT_BYTES && has_avx2())
        return ctr_hash128_avx2(p, n);
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (struct ctr_hash128){ h.low64, h.high64 };
}
