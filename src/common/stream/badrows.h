/* SPDX-License-Identifier: Apache-2.0
 *
 * badrows: rows that a stage cannot use. A run ends at the first one, leaves out as many as the user allows, or sets
 * them aside in a file: --bad-rows fail|skip=MAX|quarantine=FILE.
 *
 *     ctr_bad_rows_new(&bad, &opts, err)              one for an input, whichever stages find bad rows in it
 *     ctr_bad_rows_source(&source, bad, rules, n, …)  *s becomes a source of the good rows
 *     …                                               read it to its end
 *     ctr_bad_rows_finish(bad, err)                   the file is written, the sum is told
 *
 * What follows the source sees the rows of an input without its bad rows, numbered from 0, so that results are those of
 * that input. Bad rows have the numbers of the input. When the run ends at a bad row, the rows before it have been
 * given.
 */
#ifndef CTR_BADROWS_H
#define CTR_BADROWS_H

#include "common/stream/stream.h"

struct ctr_bad_rows;
struct ctr_bad_rows_opts {
    struct ctr_bad_policy policy;
    const char *input;                         /* or NULL: names the input where the sum is told */
    const char *program;                       /* for the provenance of the file */
    void (*note)(void *ctx, const char *text); /* the first bad rows, and how many of which kind; or NULL */
    void (*failing)(void *ctx);                /* or NULL: the next source's next gives the error of a bad row */
    void *ctx;
};
int ctr_bad_rows_new(struct ctr_bad_rows **bad, const struct ctr_bad_rows_opts *o, struct ctr_err *err) CTR_MUST;
/* The columns that rules look at: those of a batch of the source or, if `look` is set, of batches that it makes of one:
 * called with it, and again with NULL for more rows of it until it returns 0. Rules are copied; their texts are
 * borrowed. */
struct ctr_bad_look {
    int (*look)(void *ctx, const struct ctr_batch *in, const struct ctr_batch **out, struct ctr_err *err);
    void (*free)(void *ctx); /* when the source is closed, or the call fails */
    void *ctx;
};
int ctr_bad_rows_source(struct ctr_batch_source *s, struct ctr_bad_rows *bad, const struct ctr_rule *rule, int n,
                        const struct ctr_bad_look *look, struct ctr_err *err) CTR_MUST;
/* Sources opened from here on read the input again: their bad rows are left out, and have been counted and kept. */
void ctr_bad_rows_again(struct ctr_bad_rows *bad);
const struct ctr_bad_policy *ctr_bad_rows_policy(const struct ctr_bad_rows *bad);
/* Also after no source at all: then the file has no columns, and is not written. Another call does nothing. */
int ctr_bad_rows_finish(struct ctr_bad_rows *bad, struct ctr_err *err) CTR_MUST;
void ctr_bad_rows_free(struct ctr_bad_rows *bad); /* an unfinished file is not written */

#endif
