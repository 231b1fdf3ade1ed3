/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_write_impl: a Parquet file that is being written, shared by parquet_write.c (row groups) and
 * parquet_writefooter.c (what stands behind them). */
#ifndef CTR_PARQUET_WRITE_IMPL_H
#define CTR_PARQUET_WRITE_IMPL_H

#include "common/parquet/parquet_pack.h"
#include "common/parquet/parquet_write.h"

enum { E_PLAIN = 0, E_RLE = 3, E_DELTA = 5, E_LENGTHS = 6, E_DICT = 8, E_SPLIT = 9 };
enum part { WHOLE, ITEM, KEY, WEIGHT }; /* the column, items of its lists, or a half of weighted keys */

/* A least or largest value; texts lie in the rows of the group. */
struct bound {
    int64_t i;
    double f;
    struct ctr_str s;
};
struct bounds {
    bool any; /* there is a value that may be one */
    struct bound min, max;
};

struct page {
    int64_t at, bytes, first_row; /* at: in the chunk */
    int64_t nulls, levels;
    struct bounds bounds;
};

/* What the footer says of a chunk. */
struct chunk {
    int64_t start, dict_bytes, bytes, raw_bytes, values;
    int encoding;
    struct ctr_buf statistics, column_index; /* Thrift, without the field's head; empty: none */
    struct page *page;
    int pages, cap;
    int64_t index_at, index_bytes, offsets_at, offsets_bytes;
};

struct leaf {
    int column;
    enum part part;
    enum ctr_type type;
    int physical; /* enum pq_type */
    int max_def;
    struct ctr_buf bytes; /* of the chunk */
    struct chunk chunk;
    struct ctr_err err;
    int rc;
};

/* Scratch of a thread. */
struct worker {
    void *state; /* of the codec */
    struct ctr_values values;
    struct ctr_buf def, rep, index, numbers, body, packed;
    struct ctr_buf seen, entries; /* of the dictionary: the last page that has each; those of a page */
};

struct group {
    int64_t rows;
    struct chunk *chunk; /* a leaf */
};

struct ctr_parquet_writer {
    struct ctr_parquet_writer_opts o;
    int codec;
    struct ctr_schema schema; /* plain */
    struct ctr_out *out;
    struct ctr_batchbuf rows; /* of the row group */
    int64_t bytes, limit;
    const struct ctr_batch *batch;
    struct leaf *leaf;
    int leaves;
    struct ctr_pool *pool;
    struct worker *worker;
    int workers;
    struct group *group;
    int groups, cap;
    int64_t total;
};

/* Writes indexes of pages, the footer, its length and the magic bytes; all row groups are written. */
int ctr_parquet_write_end(struct ctr_parquet_writer *w, struct ctr_err *err) CTR_MUST;

#endif
