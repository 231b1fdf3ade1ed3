/* SPDX-License-Identifier: Apache-2.0
 *
 * select: the operations of ctr-select, in this order: --add-row, --where, --add, --explode, --columns; and the rows
 * selected by --head and --tail.
 *
 *     ctr_select_new(&s, &spec, schema, err)           the whole schema of the input
 *     ctr_reader_project(r, s's inputs)                ctr_select_inputs: read only these columns
 *     ctr_select_batch(s, in, err)                     in must stay while its parts are read
 *     while (ctr_select_next(s, &out, &taken, err) > 0) …   out is borrowed until the next call
 */
#ifndef CTR_SELECT_H
#define CTR_SELECT_H

#include "common/plan/plan.h"

struct ctr_select_spec {
    const char *where;          /* or NULL */
    const struct ctr_strs *add; /* NAME=EXPR, in order */
    const char *explode;        /* "a,b": lists aligned item by item */
    const char *columns;
    const struct ctr_strs *roles;      /* or NULL: NAME=ROLE of columns of the result */
    bool mark;                         /* keep the rows that --where excludes, and mark the others in `taken` */
    bool decode;                       /* results outlive their batch: decode dictionaries */
    const struct ctr_lookups *lookups; /* or NULL: any file */
    int64_t part_bytes; /* about so many bytes of a batch that --explode makes; 0, or more than 64 MiB: 64 MiB */
    bool in_plan;       /* messages have the words of a plan: words.h */
    const char *number; /* or NULL: a column of this name has the numbers of the input's rows, from 1 */
};

struct ctr_select;
int ctr_select_new(struct ctr_select **s, const struct ctr_select_spec *spec, const struct ctr_schema *in,
                   struct ctr_err *err) CTR_MUST;
void ctr_select_free(struct ctr_select *s);
const struct ctr_schema *ctr_select_schema(const struct ctr_select *s);
/* The input columns it needs, ascending: project batches to these. */
const int *ctr_select_inputs(const struct ctr_select *s, int *n);
int ctr_select_batch(struct ctr_select *s, const struct ctr_batch *in, struct ctr_err *err) CTR_MUST;
/* 1: the next part of the batch's result, which may be empty; 0: none is left. A result has one part, with --explode as
 * many as its bytes need. *taken: one byte per row of *out, or NULL: all rows (always without spec.mark). */
int ctr_select_next(struct ctr_select *s, const struct ctr_batch **out, const uint8_t **taken,
                    struct ctr_err *err) CTR_MUST;
/* Rows that --explode dropped because their list was null or empty. */
int64_t ctr_select_empty(const struct ctr_select *s);

/* Replace *s by a stage that applies the spec (without mark and decode) and reads only the columns it needs. *stage
 * (may be NULL) is valid for ctr_select_empty until *s is closed. */
int ctr_select_source(struct ctr_batch_source *s, const struct ctr_select_spec *spec, struct ctr_select **stage,
                      struct ctr_err *err) CTR_MUST;

/* --columns: names, globs, new=old, -drop, and a :TYPE for decimals; over a schema. pick[i].name is owned. */
struct ctr_pick {
    int column;
    char *name;
};
struct ctr_picks {
    struct ctr_pick *p;
    int n, cap;
};
int ctr_columns_parse(struct ctr_picks *out, const char *list, const struct ctr_schema *s,
                      struct ctr_err *err) CTR_MUST;
/* The columns with a :TYPE, for the reader of the stream. The caller frees the array and the names in it, also after an
 * error. */
int ctr_columns_decimals(const char *list, struct ctr_decimal **out, int *n, struct ctr_err *err) CTR_MUST;
void ctr_picks_free(struct ctr_picks *p);
/* Remove `…` quotes from a name; the result goes to `out`. */
int ctr_unquote_name(struct ctr_buf *out, const char *p, size_t n, struct ctr_err *err) CTR_MUST;

/* --head N|P%, --tail N|P% */
struct ctr_cut {
    bool given, percent;
    int64_t n; /* rows, or millionths of a per cent */
};
int ctr_cut_parse(struct ctr_cut *c, const char *option, const char *text, struct ctr_err *err) CTR_MUST;
/* Rows [from, to) of `total` selected by head, then tail within the head. Rounding is such that head P% and tail
 * (100-P)% together select each row exactly once. */
void ctr_cut_range(const struct ctr_cut *head, const struct ctr_cut *tail, int64_t total, int64_t *from, int64_t *to);

#endif
