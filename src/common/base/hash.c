/* SPDX-License-Identifier: Apache-2.0
 *
 * hash: XXH3 of libxxhash behind two functions, so that no other file includes its large header. */
#include "common/base/base.h"

#include <errno.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SHORT_BYTES = XXH3_MIDSIZE_MAX }; /* up to here XXH3 uses no vectors */

uint64_t ctr_hash_secret = 0x9e3779b97f4a7c15u;

/* Runs before main, before any table exists. Without this system call, the address of the process must suffice. */
__attribute__((constructor)) static void draw_secret(void)
{
    uint64_t drawn = 0;
    ssize_t n;
    while ((n = getrandom(&drawn, sizeof drawn, 0)) < 0 && errno == EINTR)
        ;
    if (n != sizeof drawn)
        drawn = ctr_mix64((uint64_t)(uintptr_t)&drawn) ^ ctr_mix64((uint64_t)(uintptr_t)draw_secret);
    ctr_hash_secret = drawn | 1;
}

uint64_t ctr_hash64(const void *p, size_t n, uint64_t seed)
{
    return n > SHORT_BYTES && ctr_cpu_has(CTR_CPU_AVX2) ? ctr_hash64_avx2(p, n, seed)
                                                        : XXH3_64bits_withSeed(p, n, seed);
}

/* Not XXH3: the hash of Parquet's bloom filters. */
uint64_t ctr_xxh64(const void *p, size_t n)
{
    return XXH64(p, n, 0);
}

struct ctr_hash128 ctr_hash128(const void *p, size_t n)
{
    if (n > SHORT_BYTES && ctr_cpu_has(CTR_CPU_AVX2))
        return ctr_hash128_avx2(p, n);
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (struct ctr_hash128){ h.low64, h.high64 };
}
