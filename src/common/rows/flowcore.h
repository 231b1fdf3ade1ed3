/* SPDX-License-Identifier: Apache-2.0
 *
 * flowcore: internal to this folder. */
#ifndef CTR_FLOWCORE_H
#define CTR_FLOWCORE_H

#include "common/rows/flow.h"
#include "common/rows/history.h"
#include "common/parquet/parquet.h"
#include "common/rows/relation.h"
#include "common/rows/select.h"
#include "common/stream/matched.h"
#include "common/text/text.h"

/* Where a view stands among the others. */
struct flow_side {
    const struct ctr_plan *plan;
    const struct flow_view *views; /* of all statements; those that are open */
    int statement;
    const struct ctr_schema *left;      /* NULL, or the rows that the statement is given */
    const struct ctr_conditions *where; /* NULL, or rows of which it does not hold are not wanted */
};

/* An open view. */
struct flow_view {
    struct flow_side side;
    const struct ctr_view *view;
    struct ctr_strs paths, nulls, names; /* nulls, names: for text, used by the import */
    int part, parts;         /* of the one file of a view whose blocks are shared out; parts 0: the files are whole */
    struct ctr_strs all;     /* the files of all parts, which say columns and types; none: the view is whole */
    struct ctr_schema typed; /* text: columns of the first of them */
    struct ctr_batch_source source;
    struct ctr_reader *reader; /* the reader of the source: a stream, … */
    struct ctr_import *import; /* … or text */
    struct ctr_parquet *parquet;
    struct ctr_matched *matched; /* … or streams whose columns differ */
    int columns, read;           /* that it has, and of them, that are read */
    const struct ctr_flow_opts *opts;
    bool guessed; /* a key's type is a guess: it has no value in the first rows, and the other side is not known */
    bool quiet;   /* it was open before, and has told its notes */
    bool regular; /* all its files are regular: they can be reopened, and reading them never blocks */
};

static inline bool ctr_flow_follows(const struct ctr_flow_opts *o)
{
    return o->reader && o->reader->follow;
}
/* Open a view; v->side and v->quiet are set. `only`: the columns needed, of which the view may lack some; NULL: all. If
 * a file is text that cannot be read twice, the view has all columns. */
int ctr_flow_view_open(struct flow_view *v, const struct ctr_view *view, const struct ctr_flow_views *files,
                       const struct ctr_strs *only, const struct ctr_flow_opts *o, struct ctr_err *err) CTR_MUST;
void ctr_flow_view_close(struct flow_view *v); /* also closes its source, unless taken: source.ops NULL */
int64_t ctr_flow_view_bytes(const struct flow_view *v);

/* flow_types.c: ctr_text_opts.settle. */
bool ctr_flow_view_type(void *view, const char *column, bool seen, struct ctr_field *type);
/* Does an addition, a history or a group create this column? */
bool ctr_flow_makes(const struct ctr_plan_statement *s, const char *name);

/* The option of ctr-select that a statement is. */
const char *ctr_flow_select_option(const struct ctr_plan_statement *s);

/* Words for the user about a view: `note` of ctr-import. */
void ctr_flow_view_note(void *view, const char *text);
/* Give an error of a statement its line; of a file that it is not about, it stays. `rows`:
 * the file that is named is that of rows which the statement was given. Returns the code. `v`: the statement's view. */
int ctr_flow_fault(const struct ctr_plan *plan, int statement, const struct flow_view *v, bool rows,
                   struct ctr_err *err);
/* From here on errors of *s, which a statement (from 1 on) makes, are told so; failed[]: one a statement, of errors
 * that came through. */
int ctr_flow_faulty(struct ctr_batch_source *s, const struct ctr_plan *plan, int statement,
                    const struct flow_view *view, bool *failed, struct ctr_err *err) CTR_MUST;

#endif
