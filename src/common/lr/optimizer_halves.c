/* SPDX-License-Identifier: Apache-2.0
 *
 * Halves of hashes, row by row, for random draws. Rows stored by column are transposed, eight columns at a time: each
 * is read sequentially, which suits the prefetcher, and narrowed before it is transposed. It saves 5% of the time of
 * learners that draw (q2.13, counts). */
#include "common/base/isa.h"
#include "common/lr/optimizer.h"
#include "common/lr/transpose_x8.h"

CTR_FAST void ctr_more_hash(struct ctr_more *m, const uint64_t *restrict hash, int64_t k)
{
    const int64_t room = ctr_lanes_padded(k + 1); /* includes the bias */
    uint32_t *restrict low = (uint32_t *)(void *)m->bufs[3].data, *restrict high = (uint32_t *)(void *)m->bufs[4].data;
    for (int64_t i = 0; i < k; i++) {
        low[i] = (uint32_t)hash[i];
        high[i] = (uint32_t)(hash[i] >> 32);
    }
    for (int64_t i = k; i < room; i++)
        low[i] = high[i] = 0;
    m->low = low;
    m->high = high;
}

/* ---- by column ---- */

enum { ROWS = 256, LANES = CTR_LANES };

/* The half of up to ROWS hashes of one column. */
CTR_BODY void narrow(const uint64_t *restrict hash, int64_t rows, int shift, uint32_t *restrict to)
{
    for (int64_t i = 0; i < rows; i++)
        to[i] = (uint32_t)(hash[i] >> shift);
}

CTR_BODY void transpose_body(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                             uint32_t *to)
{
    uint32_t group[LANES * ROWS];
    for (int64_t at = 0; at < width; at += LANES) {
        for (int64_t c = at; c < at + LANES; c++)
            if (c < k)
                narrow(hash + c * column, rows, shift, group + (c - at) * ROWS);
            else
                memset(group + (c - at) * ROWS, 0, (size_t)rows * sizeof *group);
        for (int64_t i = 0; i < rows; i += LANES)
            ctr_transpose_x8(group + i, ROWS, to + i * width + at, width);
    }
}

typedef void transpose_of(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                          uint32_t *to);
#define DEFINE_TRANSPOSE(isa, attributes)                                                                              \
    attributes static void transpose_##isa(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift,   \
                                           int64_t width, uint32_t *to)                                                \
    {                                                                                                                  \
        transpose_body(hash, column, k, rows, shift, width, to);                                                       \
    }
CTR_EACH_ISA(DEFINE_TRANSPOSE)
#define TRANSPOSE_ROW(isa) transpose_##isa
static transpose_of *const transposes[] = CTR_ISA_TABLE(TRANSPOSE_ROW);

void ctr_halves_transpose(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                          uint32_t *to)
{
    for (int64_t i = 0; i < rows; i += ROWS)
        transposes[ctr_cpu_best()](hash + i, column, k, CTR_MIN(rows - i, ROWS), shift, width, to + i * width);
}
