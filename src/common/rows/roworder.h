/* SPDX-License-Identifier: Apache-2.0
 *
 * roworder: order and equality of rows in the row-wise form, sorting references to them, spilling sorted runs to an
 * unlinked temporary, and merging runs.
 *
 * The order: keys one after another, ascending or descending; numbers by value (-0 equals 0), texts by bytes, false
 * before true; NaN after numbers and nulls last in both directions. The first 16 bytes of a normalised key (a prefix
 * whose unsigned order agrees with the order of rows) decide most comparisons without reading the row.
 */
#ifndef CTR_ROWORDER_H
#define CTR_ROWORDER_H

#include "common/rows/rowformat.h"

struct ctr_roworder {
    const struct ctr_rowformat *format; /* borrowed */
    struct ctr_rowkey {
        int col;
        bool descending;
    } * key;
    int n;
    bool by_tag; /* only by the tag, which is the whole prefix */
    bool exact;  /* equal prefixes mean equal keys */
};

/* Keys "a,b:desc" (each list element may hold several). Resolves the columns; errors: an unknown column, a repeated
 * one, or a list. */
int ctr_roworder_init(struct ctr_roworder *o, const struct ctr_rowformat *f, const struct ctr_schema *s,
                      const struct ctr_strs *keys, struct ctr_err *err) CTR_MUST;
void ctr_roworder_free(struct ctr_roworder *o);

struct ctr_rowref {
    uint64_t hi, lo; /* prefix */
    const uint8_t *row;
};
void ctr_rowref_set(const struct ctr_roworder *o, struct ctr_rowref *r, const uint8_t *row);
int ctr_row_compare(const struct ctr_roworder *o, const uint8_t *a, const uint8_t *b);
static inline int ctr_rowref_compare(const struct ctr_roworder *o, const struct ctr_rowref *a,
                                     const struct ctr_rowref *b)
{
    if (a->hi != b->hi)
        return a->hi < b->hi ? -1 : 1;
    if (a->lo != b->lo)
        return a->lo < b->lo ? -1 : 1;
    return o->exact ? 0 : ctr_row_compare(o, a->row, b->row);
}
/* Stable. tmp has room for n; the result is in *refs, which may be swapped with *tmp. */
void ctr_rowrefs_sort(const struct ctr_roworder *o, struct ctr_rowref **refs, struct ctr_rowref **tmp, int64_t n);

/* ---- runs on disk ---- */

struct ctr_run {
    int64_t from, bytes, rows;
};
struct ctr_spill {
    int fd; /* -1: none yet */
    struct ctr_run *run;
    int n, cap;
    int64_t end; /* of the file */
    struct ctr_buf buf;
    size_t buf_bytes;
};
void ctr_spill_init(struct ctr_spill *s, size_t buf_bytes);
void ctr_spill_free(struct ctr_spill *s);
int ctr_spill_begin(struct ctr_spill *s, struct ctr_err *err) CTR_MUST; /* start a new run */
int ctr_spill_flush(struct ctr_spill *s, struct ctr_err *err) CTR_MUST; /* call before reading it */
int ctr_spill_room(struct ctr_spill *s, size_t n, struct ctr_err *err) CTR_MUST;
static inline int ctr_spill_row(struct ctr_spill *s, const uint8_t *row, struct ctr_err *err)
{
    size_t n = ctr_row_size(row);

    if (s->buf.len + n > s->buf_bytes || !s->buf.data) {
        int rc = ctr_spill_room(s, n, err);
        if (rc)
            return rc;
    }
    memcpy(s->buf.data + s->buf.len, row, n);
    s->buf.len += n;
    s->run[s->n - 1].bytes += (int64_t)n;
    s->run[s->n - 1].rows++;
    return 0;
}

/* ---- merging ---- */

struct ctr_merge;
struct ctr_merge_source {
    int fd;
    struct ctr_run run;
};
/* Sources in order: of equal keys, the first source's rows come first. `o` and the files are borrowed. With one source
 * it just reads. */
int ctr_merge_open(struct ctr_merge **m, const struct ctr_roworder *o, const struct ctr_merge_source *src, int n,
                   size_t buf_bytes, struct ctr_err *err) CTR_MUST;
/* Up to `max` rows, valid until the next call; 0 at the end. */
int ctr_merge_next(struct ctr_merge *m, struct ctr_rowref *out, int max, struct ctr_err *err) CTR_MUST;
void ctr_merge_free(struct ctr_merge *m);

#endif
