/* SPDX-License-Identifier: Apache-2.0
 *
 * mix64: the bijection of 64 bits used for keys, random draws and dropout, and the hash of a key, as one text for the
 * host, nvcc and NVRTC: it includes nothing and needs uint64_t. */
#ifndef CTR_MIX64_H
#define CTR_MIX64_H

#if defined(__CUDACC_RTC__)
#define CTR_MIX64_FN static __device__ inline
#elif defined(__CUDACC__)
#define CTR_MIX64_FN static __host__ __device__ __forceinline__
#else
#define CTR_MIX64_FN static inline __attribute__((unused, always_inline))
#endif

/* Finaliser for integers that are already keys. */
CTR_MIX64_FN uint64_t ctr_mix64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

/* What tables hold instead of a key: table/keyhash.h. */
#define CTR_KEY_SALT 0x2545f4914f6cdd1du
CTR_MIX64_FN uint64_t ctr_key_hash(uint64_t key)
{
    return ctr_mix64(key ^ CTR_KEY_SALT);
}

#endif
