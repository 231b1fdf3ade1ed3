/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonl.h: the state of the importer of JSON lines, shared by jsonl.c (rows) and jsondiscover.c (columns and types from
 * the first lines). Private to these.
 */
#ifndef CTR_JSONL_H
#define CTR_JSONL_H

#include "common/text/jsontree.h"
#include "common/text/text.h"

struct jsonl {
    const struct ctr_text_opts *o;
    struct ctr_text_columns columns;
    struct ctr_json_tree tree;
    struct ctr_json_lists lists; /* of the tree */
    /* of the first lines: the paths at which arrays of objects stand, objects, empty arrays, and other values than null
     */
    struct ctr_strs arrays, objects, empty, other;
    struct ctr_strs ways; /* paths to the values of the first lines, with BELOW for each dot that enters an object */
    bool inferred;        /* the columns come from the first lines */
    const char *unfit; /* the reason why a member of the first lines is not a column, or NULL; its name and position */
    struct ctr_text_shown unfit_name;
    int64_t unfit_line;
};

/* The columns of the first lines, when none are given; and the types of those without one. */
int ctr_jsonl_discover(struct jsonl *j, const struct ctr_text_block *b, struct ctr_buf *scratch,
                       struct ctr_err *err) CTR_MUST;
int ctr_jsonl_infer(struct jsonl *j, const struct ctr_text_block *b, struct ctr_infer *infer, struct ctr_buf *scratch,
                    struct ctr_err *err) CTR_MUST;

#endif
