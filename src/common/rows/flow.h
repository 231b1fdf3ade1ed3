/* SPDX-License-Identifier: Apache-2.0
 *
 * flow: runs the statements of a plan in one process: from views (streams or text) to the single table that its
 * definitions read ("FeatureBox", section 3: views are read, cleaned and joined, without files between the stages).
 *
 *     ctr_flow_views(&views, plan, arguments, n, err)       VIEW=FILE…
 *     ctr_flow_open(&source, plan, &views, &opts, err)      the table; its stages are those of the filters
 *     ctr_plan_source(&source, plan, …)                     its features
 *     while (ctr_batch_source_next(&source, &b, err) > 0) …
 *
 * The rows, and the schema with its provenance, equal those of a pipe of the filters that the statements name. They do
 * not depend on threads. Columns that neither a statement nor a definition uses are not read; if the plan needs a
 * missing column, all columns are read, for the error message of ctr_program_bind.
 */
#ifndef CTR_FLOW_H
#define CTR_FLOW_H

#include "common/plan/plan.h"

/* The files of views. */
struct ctr_flow_file {
    const char *view, *path; /* owned */
};
struct ctr_flow_views {
    struct ctr_flow_file *file;
    int n, cap;
};
/* Parse arguments VIEW=FILE; several files of one view are read in sequence. CTR_EUSAGE: the plan has no such view, or
 * a view has no file. Views without VIEW=FILE get the files named in the plan. */
int ctr_flow_views(struct ctr_flow_views *v, const struct ctr_plan *plan, char *const *arguments, int n,
                   struct ctr_err *err) CTR_MUST;
void ctr_flow_views_free(struct ctr_flow_views *v);
/* --table: arguments are files of the table that the statements of the plan, read from `path`, have made. CTR_EUSAGE:
 * it has no statements, or an argument is VIEW=FILE and no file. */
int ctr_flow_table(const struct ctr_plan *plan, const char *path, char *const *arguments, int n,
                   struct ctr_err *err) CTR_MUST;

/* Processes that share out the rows of a plan with statements (reader->parts of struct ctr_flow_opts) each read a part
 * of the view of `from`, some of its files or some blocks of its one IPC file, and the other views whole. CTR_EUSAGE: a
 * statement needs rows of other parts. */
int ctr_flow_parts(const struct ctr_plan *plan, struct ctr_err *err) CTR_MUST;

enum { CTR_FLOW_QUEUE = 4 };
struct ctr_flow_opts {
    int threads;          /* 1: only the caller's thread; more: stages have their own threads */
    int queue;            /* batches that a stage makes ahead; 0: CTR_FLOW_QUEUE */
    int64_t memory_bytes; /* of all statements together; 0: see ctr_relation_memory */
    int64_t batch_rows;   /* of joins; 0: CTR_BATCH_ROWS */
    /* For views that are streams, if there are no threads; or NULL. `follow`: the view of `from`, a stream, may grow;
     * there are no threads then. part and parts: of the view of `from`, see ctr_flow_parts. */
    const struct ctr_reader_opts *reader;
    const char *last; /* the operation on the rows: "extract" */
    /* Or NULL: that operation runs on its own thread, with these queue times; `after` is the operation on its
     * results. */
    struct ctr_stage_times *last_times;
    const char *after;
    void (*note)(void *ctx, const char *text);  /* messages for the user, or NULL: rows without a match … */
    void (*debug)(void *ctx, const char *text); /* … and, when the source is closed: bytes read, times */
    bool time_line;                             /* … and when each stage ran and waited */
    void *ctx;
};
/* If a view is not a regular file, the caller's thread reads it and runs all stages. */
int ctr_flow_open(struct ctr_batch_source *s, const struct ctr_plan *plan, const struct ctr_flow_views *views,
                  const struct ctr_flow_opts *o, struct ctr_err *err) CTR_MUST;
/* The columns read from each view, in statement order. */
typedef int ctr_flow_each_column(void *ctx, const char *view, const char *column, struct ctr_err *err);
int ctr_flow_inputs(const struct ctr_plan *plan, const struct ctr_flow_views *views, ctr_flow_each_column *each,
                    void *ctx, struct ctr_err *err) CTR_MUST;
/* The statements and the filters that they mean, one line each; empty for a plan without statements. */
int ctr_flow_explain(const struct ctr_plan *plan, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

#endif
