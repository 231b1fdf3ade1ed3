/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet: Apache Parquet files to batches (ctr-import). Source: apache/parquet-format, parquet.thrift, Encodings.md,
 * LogicalTypes.md and Compression.md.
 *
 *     struct ctr_parquet *p;  const struct ctr_batch *b;
 *     ctr_parquet_open(&p, &opts, paths, n, err)             reads the footers, decides the schema
 *     while ((rc = ctr_parquet_next(p, &b, err)) > 0)  …     b is borrowed until the next call
 *
 * Only the column chunks of the wanted columns are read, page by page: memory is a page and a dictionary a column of
 * each row group that is read. Every page is checked before it is used: sizes, counts, levels, indices, checksums where
 * the file has them, UTF-8. `jobs` threads read columns, and where these are not enough the row groups behind, up to
 * one a thread, 4 MiB of batches a thread and what --memory has room for; rows, their order and the batches do not
 * depend on it.
 */
#ifndef CTR_PARQUET_H
#define CTR_PARQUET_H

#include "common/stream/stream.h"
#include "common/text/text.h"

/* Is the file Parquet (or encrypted Parquet) by its first bytes? "-" is stdin. False too where it cannot be read, or is
 * a pipe, of which nothing is read. */
bool ctr_parquet_is(const char *path);

/* Append the files that a name stands for: those below a folder that are called *.parquet, sorted; of @LIST those that
 * the file LIST names, relative to its folder; else itself. */
int ctr_parquet_files(struct ctr_strs *out, const char *path, struct ctr_err *err) CTR_MUST;

/* The names of the columns that can be read, of the files that ctr_parquet_open would have. */
int ctr_parquet_columns(const struct ctr_text_opts *o, char *const *paths, int n, struct ctr_strs *names,
                        struct ctr_err *err) CTR_MUST;

struct ctr_parquet;
/* Of the options columns, like, only, lack, keep, role, schema, partitions, where, jobs, batch_rows, note and ctx
 * count. Columns of several files are matched by name. schema "union" (or NULL): all columns of all files, "first":
 * those of the first; a column that a file lacks is null there. "strict": that is an error. `where` (borrowed): row
 * groups that have no row of which it holds are left out; the others come whole. Paths are copied. */
int ctr_parquet_open(struct ctr_parquet **p, const struct ctr_text_opts *o, char *const *paths, int n,
                     struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_parquet_schema(const struct ctr_parquet *p);
/* 1: *b is the next batch; 0: the end of the last file; < 0: error. */
int ctr_parquet_next(struct ctr_parquet *p, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
/* As a source, which does not own it. */
struct ctr_batch_source ctr_parquet_source(struct ctr_parquet *p);

struct ctr_parquet_stats {
    int64_t rows, total_rows;
    int64_t bytes_read, bytes; /* of the files */
    int columns, of_columns;   /* read, of those that the first file has */
    int groups, files;         /* read */
    int groups_out;            /* left out by `where` */
    int64_t rows_out;
};
void ctr_parquet_get_stats(const struct ctr_parquet *p, struct ctr_parquet_stats *s);
/* After the last batch: values that lost digits or were rounded. */
void ctr_parquet_notes(const struct ctr_parquet *p, void (*note)(void *ctx, const char *text), void *ctx);
void ctr_parquet_free(struct ctr_parquet *p);

#endif
