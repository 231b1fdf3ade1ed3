/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_ahead: the batches of some row groups, by threads ahead of the one that takes them.
 *
 *     while (there is a span && ctr_pq_ahead_room(a, &span))  ctr_pq_ahead_give(a, &span, columns, err)
 *     while ((rc = ctr_pq_ahead_next(a, &b, err)) > 0)  …       b is borrowed until the next call
 *     file = ctr_pq_ahead_done(a, columns)                      of the first span, which has no more
 *
 * One thread, the caller's, calls these functions. Batches, their order and errors do not depend on the number of
 * threads. */
#ifndef CTR_PARQUET_AHEAD_H
#define CTR_PARQUET_AHEAD_H

#include "common/parquet/parquet_impl.h"

/* A file whose footer was read. */
struct pq_file {
    int number; /* among the paths */
    int fd;
    struct ctr_file_state state;
    int64_t size;
    struct pq_footer footer;
    struct pq_leaves leaves;
    struct ctr_strs names, values; /* partitions of its path */
    int spans;                     /* that were given and are not done */
    bool all;                      /* no more will be given */
};

/* Row groups that follow each other in a file. A batch ends with its span. */
struct pq_span {
    struct pq_file *file;
    int group, groups; /* the first, and how many */
    int64_t row, rows; /* row: of the file */
};

struct pq_ahead;
/* Batches of `want` rows of the columns of the schema, by up to `jobs` threads, the caller's being one. Borrows s and
 * as. */
int ctr_pq_ahead_new(struct pq_ahead **a, const struct ctr_schema *s, struct ctr_text_column *const *as, int jobs,
                     int64_t want, struct ctr_err *err) CTR_MUST;
int ctr_pq_ahead_spans(const struct pq_ahead *a); /* given and not done */
/* May a span more be given? As many as there are threads, or as --memory has room for; the first one always. */
bool ctr_pq_ahead_room(const struct pq_ahead *a);
/* `columns` say what the columns of the schema are in the file of the span. */
int ctr_pq_ahead_give(struct pq_ahead *a, const struct pq_span *span, const struct pq_column *columns,
                      struct ctr_err *err) CTR_MUST;
/* The next batch of the first span: 1; 0: it has no more. */
int ctr_pq_ahead_next(struct pq_ahead *a, struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
const struct pq_file *ctr_pq_ahead_file(const struct pq_ahead *a); /* of the first span, NULL: none */
/* Forget the first span, whose values that lost something are added to those of `columns`. */
struct pq_file *ctr_pq_ahead_done(struct pq_ahead *a, struct pq_column *columns);
int64_t ctr_pq_ahead_bytes(struct pq_ahead *a); /* that were read */
void ctr_pq_ahead_stop(struct pq_ahead *a);     /* end the threads: no file is in use any more */
void ctr_pq_ahead_free(struct pq_ahead *a);

#endif
