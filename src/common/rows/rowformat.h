/* SPDX-License-Identifier: Apache-2.0
 *
 * rowformat: the private row-wise form in which sort and join store and spill rows. A row is one run of bytes, starting
 * with its length, so that reordering rows costs a copy or nothing, instead of a cache miss per column:
 *
 *     u32 length | u64 tag (if the format has one) | one null bit per column | one slot per column | variable bytes
 *
 * A fixed-width value is in its slot; the slot of a text or list holds the end of its bytes (u32, from the start of the
 * row); they start at the end of the previous one. Dictionaries are decoded. Never leaves the process.
 */
#ifndef CTR_ROWFORMAT_H
#define CTR_ROWFORMAT_H

#include "common/stream/batch.h"

#define CTR_ROW_TILE 256 /* rows processed together, column by column */

struct ctr_rowcol {
    enum ctr_type type, item;
    int32_t width; /* bytes of a value (bool: 1), 0 for text and lists */
    int32_t items; /* CTR_FIXED: items per row */
    uint32_t slot; /* offset in the row */
    bool any_null; /* some row so far has a null here */
};

struct ctr_rowformat {
    struct ctr_rowcol *col;
    int n;
    bool tagged, variable;
    uint32_t bits_at, fixed_bytes; /* size of the part before the variable bytes */
    uint8_t *none;                 /* such a part, of zeros and empty texts: read in place of a row that is NULL */
};

int ctr_rowformat_init(struct ctr_rowformat *f, const struct ctr_schema *s, bool tagged, struct ctr_err *err) CTR_MUST;
void ctr_rowformat_free(struct ctr_rowformat *f);

/* Lengths of rows idx[0..n) of columns cols[0..f->n), n <= CTR_ROW_TILE. */
int ctr_row_sizes(const struct ctr_rowformat *f, const struct ctr_col *cols, const int64_t *idx, int n, uint32_t *size,
                  struct ctr_err *err) CTR_MUST;
/* Write them to to[i], which has size[i] bytes. tags may be NULL if the format has none. */
void ctr_row_write(struct ctr_rowformat *f, const struct ctr_col *cols, const int64_t *idx, int n, const uint64_t *tags,
                   const uint32_t *size, uint8_t *const *to);
/* Append column `col` of n rows to a buffer of its type; a NULL row gives a null. */
int ctr_row_read(const struct ctr_rowformat *f, int col, const uint8_t *const *rows, int64_t n, struct ctr_colbuf *out,
                 struct ctr_err *err) CTR_MUST;

static inline uint32_t ctr_row_size(const uint8_t *row)
{
    uint32_t n;
    memcpy(&n, row, 4);
    return n;
}
static inline uint64_t ctr_row_tag(const uint8_t *row)
{
    uint64_t v;
    memcpy(&v, row + 4, 8);
    return v;
}
static inline void ctr_row_set_tag(uint8_t *row, uint64_t v)
{
    memcpy(row + 4, &v, 8);
}
static inline bool ctr_row_null(const struct ctr_rowformat *f, const uint8_t *row, int col)
{
    return row[f->bits_at + ((uint32_t)col >> 3)] >> (col & 7) & 1;
}
/* Value of an integer, bool or time slot, sign-extended; of a float slot as a double. */
int64_t ctr_row_i64(const struct ctr_rowformat *f, const uint8_t *row, int col);
double ctr_row_f64(const struct ctr_rowformat *f, const uint8_t *row, int col);
/* The bytes of a text. */
static inline struct ctr_str ctr_row_str(const struct ctr_rowformat *f, const uint8_t *row, int col)
{
    uint32_t from = f->fixed_bytes, to;

    memcpy(&to, row + f->col[col].slot, 4);
    for (int c = col - 1; c >= 0; c--)
        if (!f->col[c].width) {
            memcpy(&from, row + f->col[c].slot, 4);
            break;
        }
    return (struct ctr_str){ (const char *)row + from, to - from };
}

#define HUGE_PAGE ((size_t)2 << 20) /* unit of large allocations */

/* Rows of many batches in blocks that never move. */
struct ctr_rowarena {
    struct ctr_rowarena_block {
        uint8_t *data;
        size_t used, size;
    } * block;
    int n, have, cap; /* blocks in use, allocated, room in the array */
    size_t block_bytes;
    int64_t bytes, in_use; /* of all blocks; of those in use */
};
void ctr_rowarena_init(struct ctr_rowarena *a, size_t block_bytes);
/* Allocate n rows of these sizes, in order. */
int ctr_rowarena_place(struct ctr_rowarena *a, const uint32_t *size, int n, uint8_t **at, struct ctr_err *err) CTR_MUST;
void ctr_rowarena_clear(struct ctr_rowarena *a); /* keeps the memory for reuse */
void ctr_rowarena_free(struct ctr_rowarena *a);
/* Both without rows: divide the memory of the first between them. The memory of `to` is freed. */
int ctr_rowarena_halve(struct ctr_rowarena *from, struct ctr_rowarena *to, struct ctr_err *err) CTR_MUST;

/* Add n <= CTR_ROW_TILE rows of a batch. */
int ctr_rowarena_add(struct ctr_rowarena *a, struct ctr_rowformat *f, const struct ctr_col *cols, const int64_t *idx,
                     int n, const uint64_t *tags, uint8_t **at, struct ctr_err *err) CTR_MUST;

#endif
