/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of sparse tables that vectorise: hashes of a column of keys, homes of a row of hashes. One body, compiled
 * for several instruction sets; integer operations, so all give the same result. */
#include "common/base/isa.h"
#include "common/table/sparse.h"

CTR_BODY void hash_body(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)
{
    for (int64_t i = 0; i < n; i++)
        h[i] = ctr_sparse_hash(key[i]);
}

CTR_BODY void homes_body(const struct ctr_sparse *t, const uint64_t *restrict h, int64_t n, uint8_t **restrict home)
{
    const uint64_t size = t->size, old_size = t->old_size, frontier = t->frontier, stride = t->stride;
    const uint64_t secret = ctr_hash_secret;
    uint8_t *const rows = t->rows;
    for (int64_t i = 0; i < n && size <= UINT32_MAX; i++) {
        uint64_t top = h[i] * secret >> 32, at = top * size >> 32, before = top * old_size >> 32;
        home[i] = rows + (before < frontier ? before : at) * stride;
    }
    for (int64_t i = 0; i < n && size > UINT32_MAX; i++)
        home[i] = ctr_sparse_home(t, h[i]);
}

enum { LANES = 8 };
typedef uint64_t two __attribute__((vector_size(2 * sizeof(uint64_t))));
typedef uint64_t lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef uint32_t halves __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int8_t lane_bytes __attribute__((vector_size(LANES)));

/* Load the hashes and numbers of the rows `offset` bytes after eight homes: loads 16 bytes, of which the last four
 * belong to the next row. */
CTR_BODY void load_rows(uint8_t *const *home, uint64_t offset, lanes *hash, halves *number)
{
    two row[LANES], low[LANES / 2], high[LANES / 2];
    for (int i = 0; i < LANES; i++)
        memcpy(&row[i], home[i] + offset, sizeof row[i]);
    for (int i = 0; i < LANES / 2; i++) {
        low[i] = __builtin_shufflevector(row[2 * i], row[2 * i + 1], 0, 2);
        high[i] = __builtin_shufflevector(row[2 * i], row[2 * i + 1], 1, 3);
    }
    *hash = __builtin_shufflevector(__builtin_shufflevector(low[0], low[1], 0, 1, 2, 3),
                                    __builtin_shufflevector(low[2], low[3], 0, 1, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7);
    const lanes behind =
        __builtin_shufflevector(__builtin_shufflevector(high[0], high[1], 0, 1, 2, 3),
                                __builtin_shufflevector(high[2], high[3], 0, 1, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7);
    *number = __builtin_convertvector(behind, halves);
}

/* One bit per lane, for lanes that are 0 or all ones. */
CTR_BODY uint64_t lane_bits(const lanes *v)
{
    const lane_bytes bytes = __builtin_convertvector(*v, lane_bytes);
    uint64_t word;
    memcpy(&word, &bytes, sizeof word);
    return ctr_byte_bits(word);
}

/* Looks up eight keys in their home and the slot after it; returns bits of those not found there. */
CTR_BODY uint64_t find_lanes(const uint64_t *restrict h, uint8_t *const *restrict home, uint32_t *restrict number)
{
    lanes first, next, hash;
    halves first_number, next_number;
    load_rows(home, 0, &first, &first_number);
    load_rows(home, CTR_SPARSE_NUMBERED, &next, &next_number);
    memcpy(&hash, h, sizeof hash);
    const lanes behind = (lanes)(first != hash), none = (behind & (lanes)(next != hash)) | (lanes)(hash == 0);
    const halves take = __builtin_convertvector(behind, halves);
    const halves found = (first_number & ~take) | (next_number & take);
    memcpy(number, &found, sizeof found);
    return lane_bits(&none);
}

#if defined(__x86_64__)
#include <immintrin.h>

/* The same with vectors of four: gcc would compare vectors of eight number by number. */
CTR_BODY __attribute__((target("avx2"))) void load_four(uint8_t *const *home, uint64_t offset, __m256i *hash,
                                                        __m256i *number)
{
    __m128i row[4];
    for (int i = 0; i < 4; i++)
        row[i] = _mm_loadu_si128((const __m128i *)(const void *)(home[i] + offset));
    const __m256i even = _mm256_inserti128_si256(_mm256_castsi128_si256(row[0]), row[2], 1),
                  odd = _mm256_inserti128_si256(_mm256_castsi128_si256(row[1]), row[3], 1);
    *hash = _mm256_unpacklo_epi64(even, odd);
    *number = _mm256_unpackhi_epi64(even, odd);
}
CTR_BODY __attribute__((target("avx2"))) uint64_t find_fours(const uint64_t *restrict h, uint8_t *const *restrict home,
                                                             uint32_t *restrict number)
{
    uint64_t bits = 0;
    for (int i = 0; i < LANES; i += 4) {
        __m256i first, next, first_number, next_number;
        load_four(home + i, 0, &first, &first_number);
        load_four(home + i, CTR_SPARSE_NUMBERED, &next, &next_number);
        const __m256i hash = _mm256_loadu_si256((const __m256i *)(const void *)(h + i)),
                      here = _mm256_cmpeq_epi64(first, hash),
                      any = _mm256_or_si256(here, _mm256_cmpeq_epi64(next, hash)),
                      none = _mm256_cmpeq_epi64(hash, _mm256_setzero_si256()),
                      found = _mm256_blendv_epi8(next_number, first_number, here),
                      packed = _mm256_permutevar8x32_epi32(found, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
        _mm_storeu_si128((__m128i *)(void *)(number + i), _mm256_castsi256_si128(packed));
        bits |= (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_andnot_si256(none, any))) << i;
    }
    return ~bits & 0xff;
}
#endif

typedef uint64_t find_some(const uint64_t *restrict h, uint8_t *const *restrict home, uint32_t *restrict number);

CTR_BODY uint64_t find_body(const uint64_t *restrict h, uint8_t *const *restrict home, int64_t k,
                            uint32_t *restrict number, find_some *find)
{
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES)
        bits |= find(h + i, home + i, number + i) << i;
    for (; i < k; i++) {
        const uint64_t behind = ctr_sparse_row_hash(home[i]) != h[i],
                       none = (behind & (ctr_sparse_row_hash(home[i] + CTR_SPARSE_NUMBERED) != h[i])) | !h[i];
        number[i] = ctr_sparse_row_number(home[i] + (behind ? CTR_SPARSE_NUMBERED : 0));
        bits |= none << i;
    }
    return bits;
}

/* ---- keys of a range ---- */

/* Every slot is written and few are kept: a branch would be mispredicted too often. */
CTR_BODY uint64_t collect_body(const struct ctr_sparse *t, uint64_t first, uint64_t slots, uint64_t low, uint64_t span,
                               struct ctr_sparse_numbered *e)
{
    const bool numbers = t->kind == CTR_SPARSE_INDEX;
    const uint64_t stride = t->stride;
    const uint8_t *row = t->rows + first * stride;
    uint64_t n = 0;
    for (uint64_t i = 0; i < slots; i++, row += stride) {
        const uint64_t h = ctr_sparse_row_hash(row), key = ctr_sparse_key(h);
        e[n] = (struct ctr_sparse_numbered){ key, numbers ? ctr_sparse_row_number(row) : (uintptr_t)row };
        n += (key - low <= span) & (h != 0);
    }
    return n;
}

#if defined(__x86_64__)
typedef uint32_t words __attribute__((vector_size(16 * sizeof(uint32_t))));

/* The same for slots of an index, a multiple of eight of them: 24 words, of which one vector has the first 16 and one
 * the last. */
CTR_BODY __attribute__((target("avx512f,avx512dq"))) uint64_t
collect_eights(const uint8_t *row, uint64_t slots, uint64_t low, uint64_t span, struct ctr_sparse_numbered *e)
{
    const uint8_t *const end = row + slots * CTR_SPARSE_NUMBERED;
    const struct ctr_sparse_numbered *const from = e;
    for (; row < end; row += (size_t)LANES * CTR_SPARSE_NUMBERED) {
        words a, b;
        lanes key;
        memcpy(&a, row, sizeof a);
        memcpy(&b, row + 32, sizeof b);
        const lanes h = (lanes)__builtin_shufflevector(a, b, 0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 24, 26, 27, 29, 30);
        const halves number = __builtin_shufflevector(a, b, 2, 5, 8, 11, 14, 25, 28, 31);
        for (int i = 0; i < LANES; i++)
            key[i] = ctr_sparse_key(h[i]);
        const __mmask8 in = _mm512_mask_cmple_epu64_mask(_mm512_test_epi64_mask((__m512i)h, (__m512i)h),
                                                         (__m512i)(key - low), _mm512_set1_epi64((int64_t)span));
        const lanes keys = (lanes)_mm512_maskz_compress_epi64(in, (__m512i)key);
        const lanes numbers = (lanes)_mm512_maskz_compress_epi64(in, _mm512_cvtepu32_epi64((__m256i)number));
        const lanes first = __builtin_shufflevector(keys, numbers, 0, 8, 1, 9, 2, 10, 3, 11),
                    last = __builtin_shufflevector(keys, numbers, 4, 12, 5, 13, 6, 14, 7, 15);
        memcpy(e, &first, sizeof first);
        memcpy(e + LANES / 2, &last, sizeof last);
        e += __builtin_popcount(in);
    }
    return (uint64_t)(e - from);
}
#endif

#define DEFINE_KERNEL(isa, attributes)                                                                                 \
    attributes static void hash_##isa(const uint64_t *restrict key, int64_t n, uint64_t *restrict h)                   \
    {                                                                                                                  \
        hash_body(key, n, h);                                                                                          \
    }                                                                                                                  \
    attributes static void homes_##isa(const struct ctr_sparse *t, const uint64_t *restrict h, int64_t n,              \
                                       uint8_t **restrict home)                                                        \
    {                                                                                                                  \
        homes_body(t, h, n, home);                                                                                     \
    }                                                                                                                  \
    attributes static uint64_t find_##isa(const uint64_t *restrict h, uint8_t *const *restrict home, int64_t k,        \
                                          uint32_t *restrict number)                                                   \
    {                                                                                                                  \
        return find_body(h, home, k, number, FIND_##isa);                                                              \
    }                                                                                                                  \
    attributes static uint64_t collect_##isa(const struct ctr_sparse *t, uint64_t first, uint64_t slots, uint64_t low, \
                                             uint64_t span, struct ctr_sparse_numbered *e)                             \
    {                                                                                                                  \
        uint64_t done = 0, n = 0;                                                                                      \
        COLLECT_EIGHTS_##isa;                                                                                          \
        return n + collect_body(t, first + done, slots - done, low, span, e + n);                                      \
    }
#define FIND_plain  find_lanes
#define FIND_avx2   find_fours
#define FIND_avx512 find_lanes
#define COLLECT_EIGHTS_plain
#define COLLECT_EIGHTS_avx2
#define COLLECT_EIGHTS_avx512                                                                                          \
    if (t->kind == CTR_SPARSE_INDEX) {                                                                                 \
        done = slots / LANES * LANES;                                                                                  \
        n = collect_eights(t->rows + first * CTR_SPARSE_NUMBERED, done, low, span, e);                                 \
    }

CTR_EACH_ISA(DEFINE_KERNEL)

#define KERNEL_ROW(isa)                                                                                                \
    {                                                                                                                  \
#isa, hash_##isa, homes_##isa, find_##isa, collect_##isa                                                       \
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
