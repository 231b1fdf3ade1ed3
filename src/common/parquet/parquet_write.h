/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_write: batches to an Apache Parquet file (ctr-export). Source: apache/parquet-format.
 *
 *     ctr_parquet_writer_open(&w, schema, &opts, out, err)
 *     ctr_parquet_writer_batch(w, b, err) …
 *     ctr_parquet_writer_finish(w, err)        writes the footer; the caller commits `out`
 *     ctr_parquet_writer_free(w)               without a footer, the file is none
 *
 * A list is a LIST of three levels, a weighted key a struct {key, weight} in it; every column is optional. Roles,
 * tables and provenance stand in the key-value metadata: "ctr.role click" is the metadata ctr.role of the column click,
 * "ctr.pg" that of the schema, "ctr.width v" the number of items of each list of v. ctr_parquet_open takes them from
 * there. The bytes depend neither on batches nor on threads.
 */
#ifndef CTR_PARQUET_WRITE_H
#define CTR_PARQUET_WRITE_H

#include "common/stream/stream.h"

struct ctr_parquet_writer_opts {
    const char *codec;    /* "zstd" (also NULL), "snappy", "none" */
    bool signed_keys;     /* uint64 as int64 with the same bits, for readers without unsigned integers */
    bool microseconds;    /* times in us instead of ms */
    int64_t memory_bytes; /* bounds a row group: 0: 128 MiB */
    int threads;
};
struct ctr_parquet_writer;
int ctr_parquet_writer_open(struct ctr_parquet_writer **w, const struct ctr_schema *s,
                            const struct ctr_parquet_writer_opts *o, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
int ctr_parquet_writer_batch(struct ctr_parquet_writer *w, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_parquet_writer_finish(struct ctr_parquet_writer *w, struct ctr_err *err) CTR_MUST;
int64_t ctr_parquet_writer_rows(const struct ctr_parquet_writer *w);
void ctr_parquet_writer_free(struct ctr_parquet_writer *w);

#endif
