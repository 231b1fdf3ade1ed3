/* SPDX-License-Identifier: Apache-2.0
 *
 * rowstore: rows of floats on disk, by table and key.
 *
 *     ctr_rowstore_open(&s, dir, floats, err);            in unnamed files in dir
 *     ctr_rowstore_put(s, keys, n, rows, err);
 *     ctr_rowstore_get(s, keys, n, rows, err);            rows[i] receives row i; keys[i].place 0: there is none
 *
 * It holds the rows that do not fit in memory, for the life of the process: nothing is fsynced, and the files vanish
 * with the process, however it ends. It uses hardly any memory of its own: its files are mapped, and the system's page
 * cache holds as much of them as fits. Each row and each entry of the index has a checksum. A disk that fails to read a
 * page ends the process (SIGBUS); every other failure is an error. One thread at a time. A call that does not return 0
 * fills its struct ctr_err; the message names dir.
 */
#ifndef CTR_ROWSTORE_H
#define CTR_ROWSTORE_H

#include "common/table/embedding.h"

struct ctr_rowstore;
struct ctr_rowkey {
    uint32_t table;
    uint32_t place; /* set by get: of its record, + 1; 0: there is none */
    uint64_t key;
};

int ctr_rowstore_open(struct ctr_rowstore **s, const char *dir, int32_t floats, struct ctr_err *err) CTR_MUST;
int ctr_rowstore_put(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                     struct ctr_err *err) CTR_MUST;
/* Sets the places of the keys. For a missing row the destination is unchanged. */
int ctr_rowstore_get(struct ctr_rowstore *s, struct ctr_rowkey *key, int64_t n, float *const *rows,
                     struct ctr_err *err) CTR_MUST;
/* Of ctr_rowstore_each: see enum ctr_changes. */
int ctr_rowstore_changes(struct ctr_rowstore *s, enum ctr_changes what, struct ctr_err *err) CTR_MUST;
/* The rows of a table in ascending order of keys. */
int ctr_rowstore_each(struct ctr_rowstore *s, uint32_t table, ctr_embedding_each *each, void *ctx,
                      struct ctr_err *err) CTR_MUST;
int ctr_rowstore_file(const struct ctr_rowstore *s, bool index); /* the descriptor, for tests */

/* What a cache of rows tells under -v. */
struct ctr_rowstore_told {
    int64_t rows, bytes; /* in memory */
    int64_t row_bytes;
    int64_t hits, misses, evictions, read, written;
    double waited; /* s */
};
int ctr_rowstore_summary(const struct ctr_rowstore_told *told, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
void ctr_rowstore_free(struct ctr_rowstore *s);

#endif
