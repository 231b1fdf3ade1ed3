/* SPDX-License-Identifier: Apache-2.0
 *
 * program: inside of struct ctr_plan and struct ctr_program, for the files of this folder.
 */
#ifndef CTR_PROGRAM_H
#define CTR_PROGRAM_H

#include "common/lang/plan.h"

struct plan_section {
    char *name; /* vocab.genre */
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
};

struct ctr_plan {
    struct plan_tree tree;
    char *text, *dir;
    char *inputs; /* types of its columns where it was fitted or learned with: plan_inputs.c; NULL: not known */
    char id[33];
    struct plan_section *section;
    int nsections, cap;
    char *seed_print;  /* fingerprint of the secret of its keys; NULL: none */
    bool has_secret;   /* key_seed is made of it */
    uint64_t key_seed; /* 0: none */
    bool is_model;     /* it came in a model */
    bool anywhere;     /* its lookups may read files outside the folder of the bundle that it came in */
};

int ctr_plan_check_secret(const struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
int ctr_plan_identify(struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
int ctr_plan_add_section(struct ctr_plan *p, const char *name, const struct ctr_schema *schema,
                         struct plan_section **out, struct ctr_err *err) CTR_MUST;
/* leave_out[i]: definition i is the label (or weight) of a model's plan, or made for it alone, and the schema has not
 * got what it reads. The caller's to free, also after an error. */
int ctr_plan_leave_out(const struct ctr_plan *p, const struct ctr_schema *s, bool **leave_out,
                       struct ctr_err *err) CTR_MUST;
/* The types of the columns `names` of a schema, as text with its end. */
int ctr_inputs_write(const struct ctr_strs *names, const struct ctr_schema *s, struct ctr_buf *out,
                     struct ctr_err *err) CTR_MUST;
/* cast[i]: what column i must be cast to, CTR_FOREIGN: nothing; an error where that cannot be. The caller's to free,
 * also after an error. */
int ctr_inputs_bind(const struct ctr_plan *p, const struct ctr_schema *s, enum ctr_type **cast,
                    struct ctr_err *err) CTR_MUST;
const struct plan_section *ctr_plan_section(const struct ctr_plan *p, const char *name);

enum program_mode { PROGRAM_BOUND, PROGRAM_RUN, PROGRAM_FIT };

struct plan_names;
struct ctr_program;
/* Before the first run: every value of every row will be looked at, so that nothing is fused or stays encoded. */
void ctr_program_look_at_rows(struct ctr_program *g);
struct ctr_program {
    struct ctr_plan *plan;
    struct ctr_schema input, output;
    struct plan_graph graph;
    struct plan_faults faults; /* those of the plan, and those that binding finds */
    enum program_mode mode;    /* decided by the first batch */
    int *node;                 /* of each output column */
    const struct plan_def **def;
    struct ctr_col *col;
    struct ctr_batch batch;
    struct ctr_pool *pool;
    struct plan_names *names;
    int64_t memory_bytes, input_bytes; /* --memory; of the values of a part */
    const struct ctr_batch *whole;     /* that runs, part by part */
    int64_t at, part;                  /* rows of it that were run; rows that are tried next */
    bool begun;                        /* a part of it was run */
    struct ctr_part slice;
    enum ctr_type *cast;      /* a column of the input each, see ctr_inputs_bind */
    bool *leave_out;          /* a definition each, see ctr_plan_leave_out */
    struct plan_place *place; /* a node each, or NULL */
    int64_t device_memory_bytes;
};

/* Where a node is put: plan_place.c. */
struct plan_place {
    bool gpu;
    int64_t own_bytes, out_bytes; /* beside a batch; its result, of texts and lists without their bytes and items */
    int64_t left_bytes;           /* of the device's memory, before it */
    bool forced;                  /* by `place` */
};
struct ctr_place_opts;
/* A place for each node, from the arena of the graph; made once, by the rule without memory unless ctr_program_place
 * made them before. */
int ctr_program_places(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
/* Marks and layers, before the first run, for what does not need the fitted state. */
int ctr_program_seal(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
int ctr_program_prepare(struct ctr_program *g, enum program_mode mode, struct ctr_err *err) CTR_MUST;
/* Run the next rows of a batch, as many as memory allows: *b is they. 1; 0: there are no more; a batch without rows
 * runs once. */
int ctr_program_begin(struct ctr_program *g, const struct ctr_batch *in, enum program_mode mode,
                      struct ctr_err *err) CTR_MUST;
int ctr_program_part(struct ctr_program *g, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
int ctr_names_update(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
void ctr_names_free(struct plan_names *n);

#endif
