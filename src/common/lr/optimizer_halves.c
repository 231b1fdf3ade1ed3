/* SPDX-License-Identifier: Apache-2.0
 *
 * Halves of hashes, row by row, for draws. Those of rows that lie by column are turned, eight columns at a time: each
 * is read in one go, as the processor expects it of what another thread wrote, and narrowed before it is turned. */
#include "common/base/isa.h"
#include "common/lr/optimizer.h"

CTR_FAST void ctr_more_hash(struct ctr_more *m, const uint64_t *restrict hash, int64_t k)
{
    const int64_t room = ctr_lanes_padded(k + 1); /* the bias too */
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
typedef uint32_t halves __attribute__((vector_size(LANES * sizeof(uint32_t))));

/* The half of up to ROWS hashes of one column. */
CTR_BODY void narrow(const uint64_t *restrict hash, int64_t rows, int shift, uint32_t *restrict to)
{
    for (int64_t i = 0; i < rows; i++)
        to[i] = (uint32_t)(hash[i] >> shift);
}

/* Eight by eight, from rows of ROWS numbers to rows of `width`. */
CTR_BODY void transpose(const uint32_t *from, int64_t width, uint32_t *to)
{
    halves r[LANES], t[LANES];
    for (int i = 0; i < LANES; i++)
        memcpy(&r[i], from + i * ROWS, sizeof r[i]);
    for (int i = 0; i < LANES; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < LANES / 2; i++) {
        t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < LANES; i++)
        memcpy(to + i * width, &t[i], sizeof t[i]);
}

CTR_BODY void turn_body(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
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
            transpose(group + i, width, to + i * width + at);
    }
}

typedef void turn_of(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                     uint32_t *to);
#define DEFINE_TURN(isa, attributes)                                                                                   \
    attributes static void turn_##isa(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift,        \
                                      int64_t width, uint32_t *to)                                                     \
    {                                                                                                                  \
        turn_body(hash, column, k, rows, shift, width, to);                                                            \
    }
CTR_EACH_ISA(DEFINE_TURN)
#define TURN_ROW(isa) turn_##isa
static turn_of *const turns[] = CTR_ISA_TABLE(TURN_ROW);

void ctr_halves_turn(const uint64_t *hash, int64_t column, int64_t k, int64_t rows, int shift, int64_t width,
                     uint32_t *to)
{
    for (int64_t i = 0; i < rows; i += ROWS)
        turns[ctr_cpu_best()](hash + i, column, k, CTR_MIN(rows - i, ROWS), shift, width, to + i * width);
}
