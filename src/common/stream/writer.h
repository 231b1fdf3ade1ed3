/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: internal: the interface for IPC files and keyed files.
 */
#ifndef CTR_STREAM_WRITER_H
#define CTR_STREAM_WRITER_H

#include "common/stream/arrow.h"

/* file-writer.c: collects the data of the footer, and checks the order of the key column (NULL: none). */
struct ctr_file_writer;
int ctr_file_writer_new(struct ctr_file_writer **f, const struct ctr_schema *s, const char *key,
                        struct ctr_err *err) CTR_MUST;
/* Call before writing a block: rows [from, from+n) of the columns. */
int ctr_file_writer_block(struct ctr_file_writer *f, struct arrow_block b, const struct ctr_col *cols, int64_t from,
                          int64_t n, struct ctr_err *err) CTR_MUST;
/* Call for each message that was written, from schema to trailer. */
int ctr_file_writer_seal(struct ctr_file_writer *f, const struct ctr_seal *seal, struct ctr_err *err) CTR_MUST;
int ctr_file_writer_finish(struct ctr_file_writer *f, struct ctr_out *out, const struct ctr_schema *s, int64_t rows,
                           int64_t batches, struct ctr_err *err) CTR_MUST;
void ctr_file_writer_free(struct ctr_file_writer *f);

#endif
