/* SPDX-License-Identifier: Apache-2.0
 *
 * program: internal to plan/: struct ctr_plan and struct ctr_program.
 */
#ifndef CTR_PROGRAM_H
#define CTR_PROGRAM_H

#include "common/plan/plancore.h"

struct plan_section {
    char *name; /* vocab.genre */
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
};

struct ctr_plan {
    struct plan_tree tree;
    char *text, *dir;
    char *inputs; /* column types at fitting or training: plan_inputs.c; NULL: unknown */
    char id[33];
    struct plan_section *section;
    int nsections, cap;
    char *seed_print;  /* fingerprint of the secret of its keys; NULL: none */
    bool has_secret;   /* key_seed comes from a secret */
    uint64_t key_seed; /* 0: none */
    bool is_model;     /* it was read from a model */
    bool anywhere;     /* its lookups may read files outside the bundle's folder */
};

/* A set of roles, as ctr_program.roles. */
#define PLAN_ROLES(role) (1u << (role))
bool ctr_plan_in_roles(const struct plan_def *d, unsigned roles);
/* Of ctr_plan_leave_out's result: leave out, too, what none of these roles needs. */
int ctr_plan_leave_others_out(const struct ctr_plan *p, unsigned roles, bool *leave_out, struct ctr_err *err) CTR_MUST;
int ctr_program_bind_roles(struct ctr_program **g, struct ctr_plan *p, const struct ctr_schema *input, unsigned roles,
                           struct ctr_err *err) CTR_MUST;
int ctr_plan_check_secret(const struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
int ctr_plan_identify(struct ctr_plan *p, struct ctr_err *err) CTR_MUST;
int ctr_plan_add_section(struct ctr_plan *p, const char *name, const struct ctr_schema *schema,
                         struct plan_section **out, struct ctr_err *err) CTR_MUST;
/* leave_out[i]: definition i is the label (or weight) of a model's plan, or used only by it, and the schema lacks its
 * inputs. The caller frees it, also after an error. */
int ctr_plan_leave_out(const struct ctr_plan *p, const struct ctr_schema *s, bool **leave_out,
                       struct ctr_err *err) CTR_MUST;
/* The types that the plan's inputs have in a schema, as terminated text. */
int ctr_inputs_write(const struct ctr_plan *p, const struct ctr_schema *s, struct ctr_buf *out,
                     struct ctr_err *err) CTR_MUST;
/* cast[i]: the type to cast column i to, CTR_FOREIGN: no cast; an error if impossible. The caller frees it, also after
 * an error. */
int ctr_inputs_bind(const struct ctr_plan *p, const struct ctr_schema *s, enum ctr_type **cast,
                    struct ctr_err *err) CTR_MUST;
const struct plan_section *ctr_plan_section(const struct ctr_plan *p, const char *name);

enum program_mode { PROGRAM_BOUND, PROGRAM_RUN, PROGRAM_FIT };

struct plan_names;
struct ctr_program;
/* Before the first run: the caller will read every value of every row, so disable fusion and shared encoding. */
void ctr_program_look_at_rows(struct ctr_program *g);
struct ctr_program {
    struct ctr_plan *plan;
    struct ctr_schema input, output;
    struct plan_graph graph;
    struct plan_faults faults; /* faults of the plan and of binding it */
    enum program_mode mode;    /* set by the first batch */
    int *node;                 /* for each output column */
    const struct plan_def **def;
    struct ctr_col *col;
    struct ctr_batch batch;
    struct ctr_pool *pool;
    struct plan_names *names;
    int64_t memory_bytes, input_bytes; /* --memory; bytes of input values per part */
    const struct ctr_batch *whole;     /* the batch being processed, in parts */
    int64_t at, part;                  /* rows already run; rows to try next */
    bool begun;                        /* some part has been run */
    struct ctr_part slice;
    enum ctr_type *cast;      /* per input column, see ctr_inputs_bind */
    bool *leave_out;          /* per definition, see ctr_plan_leave_out */
    unsigned roles;           /* 0: all outputs; else only values of these roles, neither checked nor converted */
    struct plan_place *place; /* per node, or NULL */
    int64_t device_memory_bytes;
};

/* Placement of a node: plan_place.c. */
struct plan_place {
    bool gpu;
    int64_t own_bytes,
        out_bytes;       /* bytes besides the batch; bytes of its result, without the contents of texts and lists */
    int64_t left_bytes;  /* device memory left before it */
    bool forced;         /* set by `place` */
    const char *refused; /* why a GPU cannot run it, or NULL */
};
struct ctr_place_opts;
/* A placement for each node, from the graph's arena; created once, by the rule without memory unless ctr_program_place
 * has created it. */
int ctr_program_places(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
/* Mark live nodes and divide into layers before the first run, for uses that do not need the fitted state. */
int ctr_program_seal(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
int ctr_program_prepare(struct ctr_program *g, enum program_mode mode, struct ctr_err *err) CTR_MUST;
/* Run the next rows of a batch, as many as memory allows; *b has them. Returns 1, or 0 after the last row; a batch
 * without rows runs once. */
int ctr_program_begin(struct ctr_program *g, const struct ctr_batch *in, enum program_mode mode,
                      struct ctr_err *err) CTR_MUST;
int ctr_program_part(struct ctr_program *g, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST;
int ctr_names_update(struct ctr_program *g, struct ctr_err *err) CTR_MUST;
void ctr_names_free(struct plan_names *n);

#endif
