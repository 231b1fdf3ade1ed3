/* SPDX-License-Identifier: Apache-2.0
 *
 * rowfile: rows of floats on disk, each at a place that the file gives it and the caller remembers.
 *
 *     ctr_rowfile_open(&f, dir, floats, dense, memory, err);     an unnamed file in dir
 *     ctr_rowfile_add(f, row, &place, err);
 *     ctr_rowfile_get(f, places, n, rows, err);           many at once
 *     ctr_rowfile_drop(f, place);                         its room may be used again
 *
 * Rows are added, never changed: they are written segment by segment, in the order in which they come, so that writes
 * are large and in sequence. A segment is written over when all its rows are dropped. Reads are sorted by place; pages
 * that are adjacent, or nearly so, are read together, and several reads are under way at once. So places that are dense
 * are swept in large pieces, and those that are sparse are read page by page.
 *
 * Pages go around the system's cache (O_DIRECT), or leave it at once where the file system cannot do that: the file
 * takes only the memory of its buffers, at most a sixteenth of `memory` or some pages. Each page has a checksum, held
 * in memory.
 *
 * The file holds what does not fit in memory, for the life of the process: nothing is fsynced, and the file vanishes
 * with the process, however it ends. Nothing is written before a segment is full. One thread at a time. A call that
 * does not return 0 fills its struct ctr_err; the message names dir.
 */
#ifndef CTR_ROWFILE_H
#define CTR_ROWFILE_H

#include "common/table/sorted.h"

struct ctr_rowfile;
enum { CTR_ROWFILE_PLACES = INT32_MAX }; /* places are below it */

/* dense: most reads are of many neighbours, so they are fewer and larger. */
int ctr_rowfile_open(struct ctr_rowfile **f, const char *dir, int32_t floats, bool dense, int64_t memory,
                     struct ctr_err *err) CTR_MUST;
int ctr_rowfile_add(struct ctr_rowfile *f, const float *row, uint32_t *place, struct ctr_err *err) CTR_MUST;
/* The row at place get[i].key goes to rows + floats * get[i].number. Changes the order of get, which has room for 2 n.
 */
int ctr_rowfile_get(struct ctr_rowfile *f, struct ctr_numbered *get, int64_t n, float *rows,
                    struct ctr_err *err) CTR_MUST;
void ctr_rowfile_drop(struct ctr_rowfile *f, uint32_t place);
/* Do dropped rows take more than half of the file? Then the rows whose places are `stale` are to be moved: got, added
 * and dropped. */
bool ctr_rowfile_wasteful(const struct ctr_rowfile *f);
bool ctr_rowfile_stale(const struct ctr_rowfile *f, uint32_t place);
uint64_t ctr_rowfile_places(const struct ctr_rowfile *f); /* all places given so far are below */
int64_t ctr_rowfile_memory(const struct ctr_rowfile *f);  /* bytes of its buffers and checksums */
int ctr_rowfile_fd(const struct ctr_rowfile *f);          /* for tests */

/* What was really moved. */
struct ctr_rowfile_moved {
    int64_t reads, read_bytes, writes, written_bytes;
};
struct ctr_rowfile_moved ctr_rowfile_moved(const struct ctr_rowfile *f);
void ctr_rowfile_free(struct ctr_rowfile *f);

#endif
