/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes of a column of keys. One body, compiled for several instruction sets; integer operations, so all give the same
 * result. */
#include "common/base/isa.h"
#include "common/table/keyhash.h"

CTR_BODY void hash_body(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)
{
    for (int64_t i = 0; i < n; i++)
        h[i] = ctr_key_hash(key[i]);
}

#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static void hash_##isa(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)                   \
    {                                                                                                                  \
        hash_body(key, n, h);                                                                                          \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
#isa, hash_##isa                                                                                               \
    }
static const struct ctr_keyhash_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_keyhash_kernel *ctr_keyhash_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}
