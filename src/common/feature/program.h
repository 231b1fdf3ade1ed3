/* SPDX-License-Identifier: Apache-2.0
 *
 * program: inside of struct ctr_plan and struct ctr_program, for the files of this folder.
 */
#ifndef CTR_PROGRAM_H
#define CTR_PROGRAM_H

#include "common/feature/plan.h"

struct plan_section {
    char *name; /* vocab.genre */
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
};

struct ctr_plan {
    struct plan_tree tree;
    char *text, *dir;
    char id[33];
    struct plan_section *section;
    int nsections, cap;
    bool is_model; /* it came in a model */
};

int ctr_plan_identify(struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
int ctr_plan_add_section(struct ctr_plan *p, const char *name, const struct ctr_schema *schema,
                         struct plan_section **out, struct ctr_err *err) CTR_MUST;
/* leave_out[i]: definition i is the label (or weight) of a model's plan, or made for it alone, and the schema has not
 * got what it reads. The caller's to free, also after an error. */
int ctr_plan_leave_out(const struct ctr_plan *p, const struct ctr_schema *s, bool **leave_out,
                       struct ctr_err *err) CTR_MUST;
const struct plan_section *ctr_plan_section(const struct ctr_plan *p, const char *name);

enum program_mode { PROGRAM_BOUND, PROGRAM_RUN, PROGRAM_FIT };

struct plan_names;
struct ctr_program {
    struct ctr_plan *plan;
    struct ctr_schema input, output;
    struct plan_graph graph;
    enum program_mode mode; /* decided by the first batch */
    int *node;              /* of each output column */
    const struct plan_def **def;
    struct ctr_col *col;
    struct ctr_batch batch;
    struct ctr_pool *pool;
    struct plan_names *names;
    bool *leave_out; /* a definition each, see ctr_plan_leave_out */
};

int ctr_program_prepare(struct ctr_program *g, enum program_mode mode, struct ctr_err *err) CTR_MUST;
int ctr_names_update(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
void ctr_names_free(struct plan_names *n);

#endif
