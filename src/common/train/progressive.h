/* SPDX-License-Identifier: Apache-2.0
 *
 * progressive.h: internal to train/: the predictions of progressive validation, made before each row is learned. Those
 * of the batch under way wait here until it ends; then they go out as columns and, with a checkpoint, into a file
 * beside it, from which a resumed run takes the predictions of the rows that it does not learn again.
 *
 *     rows of a tile -> ctr_progressive_room -> (the learner writes scores) … ctr_progressive_end_batch -> out, store
 */
#ifndef CTR_PROGRESSIVE_H
#define CTR_PROGRESSIVE_H

#include "common/stream/stream.h"

struct ctr_progressive {
    int values;               /* a row: one score per model, or a score and its uncertainty */
    struct ctr_writer *out;   /* borrowed; NULL: no predictions were asked for */
    struct ctr_schema schema; /* of `out`: the passed-through columns of the input, then the values */
    int *from;                /* [schema.n]: a column of the input, or -1 - value */
    struct ctr_col *col;      /* [schema.n] */
    struct ctr_buf scores;    /* of the current batch so far: by row, then by value */
    struct ctr_buf columns;   /* the same by value, then by row, if there are several values */
    int64_t kept;             /* how many of its rows precede the checkpoint: the store has theirs */
    int store;                /* file descriptor, or -1 */
    int store_slot;           /* from ctr_temp_hold, until a checkpoint includes the stored predictions; or -1 */
    struct ctr_buf store_path;
};
/* How the run was started: rows of the store to keep when it goes on from a checkpoint; -1: the store is new. */
#define CTR_PROGRESSIVE_NEW (-1)

void ctr_progressive_init(struct ctr_progressive *p, int values);
/* name: of each of `models` variants, or NULL where there is one model. `uncertain`: the second value is the
 * uncertainty of the first. Sets schema; the caller opens `out` with it. */
int ctr_progressive_schema(struct ctr_progressive *p, const struct ctr_schema *stream, const char *const *name,
                           int models, bool uncertain, struct ctr_err *err) CTR_MUST;
/* CHECKPOINT.scores, or CHECKPOINT.scores.RANK of the ranks after the first. */
int ctr_progressive_store_open(struct ctr_progressive *p, const char *checkpoint, int rank, int64_t kept_rows,
                               struct ctr_err *err) CTR_MUST;
/* Values of n more rows of the batch, for the caller to fill; NULL and *rc: no memory. */
double *ctr_progressive_room(struct ctr_progressive *p, int64_t n, int *rc, struct ctr_err *err);
/* Convert a tile's scores, followed by its uncertainties, to pairs by row. */
int ctr_progressive_pair(struct ctr_progressive *p, double *score, int64_t n, struct ctr_err *err) CTR_MUST;
/* The next n rows of the batch are before the checkpoint: take their values, if they are needed, from row `from` of the
 * store. */
int ctr_progressive_known(struct ctr_progressive *p, int64_t from, int64_t n, bool needed, double *score,
                          struct ctr_err *err) CTR_MUST;
/* The batch has ended. writes: its predictions go out, in the first pass. */
int ctr_progressive_end_batch(struct ctr_progressive *p, const struct ctr_batch *b, bool writes,
                              struct ctr_err *err) CTR_MUST;
/* Once a checkpoint includes them, the stored predictions stay after a failure: put them on the disk; do not remove
 * them as a temporary any more; do so again. */
int ctr_progressive_store_sync(const struct ctr_progressive *p, struct ctr_err *err) CTR_MUST;
bool ctr_progressive_store_release(struct ctr_progressive *p); /* were they held as a temporary? */
void ctr_progressive_store_hold(struct ctr_progressive *p);
void ctr_progressive_store_remove(const struct ctr_progressive *p); /* the run is done */
/* A run whose checkpoints do not include the stored predictions leaves no file. */
void ctr_progressive_free(struct ctr_progressive *p);

#endif
