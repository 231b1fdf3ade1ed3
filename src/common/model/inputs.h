/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs.h: internal to model/: columns bound as inputs, by inputs.c for inputs_rows.c. */
#ifndef CTR_INPUTS_H
#define CTR_INPUTS_H

#include "common/model/model.h"
#include "common/model/row_transform.h"

enum ctr_input_kind { CTR_INPUT_KEY, CTR_INPUT_KEYS, CTR_INPUT_WEIGHTED_KEYS, CTR_INPUT_NUMBER, CTR_INPUT_NUMBERS };

struct ctr_input {
    const char *name; /* of the schema */
    int column;
    enum ctr_input_kind kind;
    uint16_t table;    /* of the entries; by column: its own number */
    int name_of_table; /* index in the list of names */
    int dense_at;      /* by column */
    uint64_t seed, missing;
    double low, high;        /* of a number, with in->watch; low > high: none seen */
    const char *group;       /* of a list: ctr.history of its column, or NULL */
    int aligned_with;        /* the first list of that group, or itself */
    struct ctr_buf position; /* CTR_INPUT_NUMBERS: hash of each position's key, as far as needed */
};

/* A column of weights in addition to that of the rows. */
struct ctr_input_weights {
    int column;
    const double *of; /* of the batch */
    struct ctr_buf buf;
};

struct ctr_inputs {
    const struct ctr_schema *schema;
    struct ctr_input *in;
    int n, label, weight, time;
    int fixed;  /* entries per row from CTR_INPUT_KEY and, unless by column, CTR_INPUT_NUMBER */
    int *key;   /* the inputs that are CTR_INPUT_KEY, in order */
    bool plain; /* every row has exactly one entry per table, with x = 1: no second pass */
    bool has_x; /* some x may differ from 1 */
    bool transposed;
    struct ctr_row_transform change;
    uint16_t *tables; /* of the inputs, in order */
    const struct ctr_keyhash_kernel *kernel;
    bool *repeats; /* by table: a key may occur twice in a row */
    bool by_column;
    bool aligned; /* some lists are of one group */
    int dense;    /* by column: numbers per row */
    bool watch;   /* ctr_inputs_watch */
    const struct ctr_batch *batch;
    const double *label_of, *weight_of; /* of the batch; NULL: none */
    struct ctr_buf labels, weights;     /* their storage, unless they are in the column */
    struct ctr_input_weights *more;     /* additional weights */
    int mores, more_cap;
    struct ctr_rowbuf own; /* for callers that pass none */
    struct ctr_buf cursor; /* per row of the tile: position of its next entry */
    struct ctr_buf seen;   /* uint32_t slots of a row's set of keys */
};

static inline bool ctr_input_is_number(const struct ctr_input *p)
{
    return p->kind == CTR_INPUT_NUMBER || p->kind == CTR_INPUT_NUMBERS;
}

#endif
