/* SPDX-License-Identifier: Apache-2.0
 *
 * matched: several files, each a stream or IPC file, as one source whose columns are matched by name. ctr_reader_open
 * demands equal columns; this is for logs whose columns change over the days.
 *
 *     ctr_matched_needed(paths, n, &o, &needed, err)     do their columns differ?
 *     ctr_matched_open(&m, paths, n, &o, only, err)      reads the schemas
 *     s = ctr_matched_source(m)                          its rows, file after file
 *     ctr_matched_free(m)                                once s is closed
 */
#ifndef CTR_MATCHED_H
#define CTR_MATCHED_H

#include "common/stream/stream.h"

int ctr_matched_needed(char *const *paths, int n, const struct ctr_reader_opts *o, bool *needed,
                       struct ctr_err *err) CTR_MUST;
struct ctr_matched;
/* only: NULL, or the columns to read. A column of two types is an error that names both. The options are borrowed. */
int ctr_matched_open(struct ctr_matched **m, char *const *paths, int n, const struct ctr_reader_opts *o,
                     const struct ctr_strs *only, struct ctr_err *err) CTR_MUST;
/* Before its rows are read: only those of every parts-th file, from `part` on. The columns stay those of all. */
void ctr_matched_part(struct ctr_matched *m, int part, int parts);
struct ctr_batch_source ctr_matched_source(struct ctr_matched *m);
int64_t ctr_matched_bytes(const struct ctr_matched *m);
/* After the last batch: which columns files lacked, and of ctr_reader_notes. */
void ctr_matched_notes(const struct ctr_matched *m, void (*note)(void *ctx, const char *text), void *ctx);
void ctr_matched_free(struct ctr_matched *m);

#endif
