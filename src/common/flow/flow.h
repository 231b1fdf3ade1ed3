/* SPDX-License-Identifier: Apache-2.0
 *
 * flow: the statements of a plan in one process: from views, which are streams or text, to the one table that its
 * definitions read ("FeatureBox", section 3: views are read, cleaned and joined, without files between the stages).
 *
 *     ctr_flow_views(&views, plan, arguments, n, err)       VIEW=FILE…
 *     ctr_flow_open(&source, plan, &views, &opts, err)      the table; its stages are those of ctr-select and ctr-join
 *     ctr_plan_source(&source, plan, …)                     its features
 *     while (ctr_batch_source_next(&source, &b, err) > 0) …
 *
 * The rows, and the schema with its provenance, are those of the filters that the statements name, one after another
 * in pipes. They depend on no thread. Columns that neither a statement nor a definition reads are left out, so that
 * they are not read; a plan that wants a column that is not there has all of them, for the message of ctr_program_bind.
 */
#ifndef CTR_FLOW_H
#define CTR_FLOW_H

#include "common/lang/lang.h"

/* The files of views. */
struct ctr_flow_file {
    const char *view, *path; /* both are owned */
};
struct ctr_flow_views {
    struct ctr_flow_file *file;
    int n, cap;
};
/* Arguments VIEW=FILE; several of one view are read one after another. CTR_EUSAGE: of none of the plan's views, or a
 * view is left without a file. Files that the text of a plan names are added, of views without VIEW=FILE. */
int ctr_flow_views(struct ctr_flow_views *v, const struct ctr_plan *plan, char *const *arguments, int n,
                   struct ctr_err *err) CTR_MUST;
void ctr_flow_views_free(struct ctr_flow_views *v);

enum { CTR_FLOW_QUEUE = 4 };
struct ctr_flow_opts {
    int threads;                          /* 1: none but the caller's, else stages have threads of their own */
    int queue;                            /* batches that a stage makes ahead; 0: CTR_FLOW_QUEUE */
    int64_t memory_bytes;                 /* of each join; 0: see ctr_relation_memory */
    int64_t batch_rows;                   /* of joins; 0: CTR_BATCH_ROWS */
    const struct ctr_reader_opts *reader; /* of views that are streams, where there are no threads; or NULL */
    const char *last;                     /* what is done with the rows: "extract" */
    /* Or NULL: that is done on a thread of its own, whose queue has these times; `after` is done with the results. */
    struct ctr_stage_times *last_times;
    const char *after;
    void (*note)(void *ctx, const char *text);  /* words for the user, or NULL: rows without a match … */
    void (*debug)(void *ctx, const char *text); /* … and, as the source is closed: bytes that were read, times */
    bool time_line;                             /* … and when each stage ran and waited */
    void *ctx;
};
/* A view that is no regular file is read by the caller's thread, as all then is. */
int ctr_flow_open(struct ctr_batch_source *s, const struct ctr_plan *plan, const struct ctr_flow_views *views,
                  const struct ctr_flow_opts *o, struct ctr_err *err) CTR_MUST;
/* The columns that are read of each view, in the order of the statements. */
typedef int ctr_flow_each_column(void *ctx, const char *view, const char *column, struct ctr_err *err);
int ctr_flow_inputs(const struct ctr_plan *plan, const struct ctr_flow_views *views, ctr_flow_each_column *each,
                    void *ctx, struct ctr_err *err) CTR_MUST;
/* The statements and the filters that they mean, a line each; nothing for a plan without. */
int ctr_flow_explain(const struct ctr_plan *plan, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

#endif
