/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of sparse tables that vectorise: hashes of a column of keys, homes of a row of hashes. One body, compiled
 * for the instruction sets that help; integers, so that all agree. */
#include "common/base/isa.h"
#include "common/model/sparse.h"

#define BODY static inline __attribute__((always_inline))

BODY void hash_body(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)
{
    for (int64_t i = 0; i < n; i++)
        h[i] = ctr_sparse_hash(key[i]);
}

BODY void home_body(const struct ctr_sparse_homes *t, uint64_t stride, const uint64_t *restrict h, int64_t k,
                    uint8_t **restrict home)
{
    uint8_t *const *restrict rows = t->rows;
    const uint64_t *restrict size = t->size, *restrict old_size = t->old_size, *restrict frontier = t->frontier;
    for (int64_t i = 0; i < k; i++) {
        uint64_t top = h[i] >> 32, at = top * size[i] >> 32, before = top * old_size[i] >> 32;
        home[i] = rows[i] + (before < frontier[i] ? before : at) * stride;
    }
}

enum { LANES = 8 };
typedef uint64_t two __attribute__((vector_size(2 * sizeof(uint64_t))));
typedef uint64_t lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef int8_t lane_bytes __attribute__((vector_size(LANES)));

/* The first words of eight rows, by pairs: a lane at a time would be a chain of eight. */
BODY void row_hashes(uint8_t *const *row, uint64_t offset, lanes *h)
{
    two p[LANES / 2];
    for (int i = 0; i < LANES / 2; i++)
        p[i] = (two){ ctr_sparse_row_hash(row[2 * i] + offset), ctr_sparse_row_hash(row[2 * i + 1] + offset) };
    *h = __builtin_shufflevector(__builtin_shufflevector(p[0], p[1], 0, 1, 2, 3),
                                 __builtin_shufflevector(p[2], p[3], 0, 1, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7);
}

/* A bit a lane, of lanes that are 0 or all ones. */
BODY uint64_t lane_bits(const lanes *v)
{
    const lane_bytes bytes = __builtin_convertvector(*v, lane_bytes);
    uint64_t word;
    memcpy(&word, &bytes, sizeof word);
    return (word & 0x8040201008040201u) * 0x0101010101010101u >> 56;
}

/* Of eight entries: the slot is the home or the one behind it; bits of those where it is neither. */
BODY uint64_t find_lanes(const uint64_t *restrict h, uint64_t stride, uint8_t **restrict slot)
{
    lanes first, next, hash, at;
    row_hashes(slot, 0, &first);
    row_hashes(slot, stride, &next);
    memcpy(&hash, h, sizeof hash);
    memcpy(&at, slot, sizeof at);
    const lanes behind = (lanes)(first != hash), none = (behind & (lanes)(next != hash)) | (lanes)(hash == 0);
    at += behind & ~none & stride;
    memcpy(slot, &at, sizeof at);
    return lane_bits(&none);
}

BODY uint64_t find_body(const uint64_t *restrict h, uint64_t stride, int64_t k, uint8_t **restrict slot)
{
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES)
        bits |= find_lanes(h + i, stride, slot + i) << i;
    for (; i < k; i++) {
        const uint64_t behind = ctr_sparse_row_hash(slot[i]) != h[i],
                       none = (behind & (ctr_sparse_row_hash(slot[i] + stride) != h[i])) | !h[i];
        slot[i] += behind > none ? stride : 0;
        bits |= none << i;
    }
    return bits;
}

#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static void hash_##isa(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)                   \
    {                                                                                                                  \
        hash_body(key, n, h);                                                                                          \
    }                                                                                                                  \
    attributes static void home_##isa(const struct ctr_sparse_homes *t, uint64_t stride, const uint64_t *restrict h,   \
                                      int64_t k, uint8_t **restrict home)                                              \
    {                                                                                                                  \
        home_body(t, stride, h, k, home);                                                                              \
    }                                                                                                                  \
    attributes static uint64_t find_##isa(const uint64_t *restrict h, uint64_t stride, int64_t k,                      \
                                          uint8_t **restrict slot)                                                     \
    {                                                                                                                  \
        return find_body(h, stride, k, slot);                                                                          \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
#isa, hash_##isa, home_##isa, find_##isa                                                                       \
    }
static const struct ctr_sparse_kernel kernels[] = CTR_ISA_TABLE(KERNEL_ROW);

const struct ctr_sparse_kernel *ctr_sparse_kernel_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(kernels) ? &kernels[i] : NULL;
}

const struct ctr_sparse_kernel *ctr_sparse_kernel_best(void)
{
    return &kernels[ctr_cpu_best()];
}
