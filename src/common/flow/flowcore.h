/* SPDX-License-Identifier: Apache-2.0
 *
 * flowcore: what the files of this folder share. */
#ifndef CTR_FLOWCORE_H
#define CTR_FLOWCORE_H

#include "common/flow/flow.h"
#include "common/history/history.h"
#include "common/relation/relation.h"
#include "common/select/select.h"
#include "common/text/text.h"

/* A view that is open. */
struct flow_view {
    const struct ctr_view *view;
    struct ctr_strs paths, nulls, names; /* nulls, names: of text, which the import reads */
    struct ctr_batch_source source;
    struct ctr_reader *reader; /* of the source: a stream, … */
    struct ctr_import *import; /* … or text */
    bool regular;              /* all of its files: they can be opened again, and never make a reader wait */
};

/* Open a view. `only`: the columns that are wanted, those of them that it has; NULL: all. Where a file is text that
 * cannot be read twice, all columns come. */
int ctr_flow_view_open(struct flow_view *v, const struct ctr_view *view, const struct ctr_flow_views *files,
                       const struct ctr_strs *only, const struct ctr_flow_opts *o, struct ctr_err *err) CTR_MUST;
void ctr_flow_view_close(struct flow_view *v); /* its source too, unless that was taken: source.ops NULL */
int64_t ctr_flow_view_bytes(const struct flow_view *v);

#endif
