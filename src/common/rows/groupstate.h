/* SPDX-License-Identifier: Apache-2.0
 *
 * groupstate: aggregates of groups that have numbers. The state of a group is a row of 8-byte words, those of its
 * aggregates one after another, so that a row of the input costs a cache miss for all of them; values that do not fit
 * words (texts, lists) lie beside, and a word says where.
 *
 *     count      | rows or values              min, max of numbers    | 1: there is one | its bits
 *     sum        | low | high of 128 bits      first, last of numbers | 1: a value, 2: null | its bits
 *     sum        | a double                    first, min, … of texts | 1 + row in `kept`, 0: none
 *     mean       | values | its sum            distinct, quantile     | values | the result
 *                                              mode, top              | 1 + row in `kept`, 0: none
 */
#ifndef CTR_GROUPSTATE_H
#define CTR_GROUPSTATE_H

#include "common/rows/relation.h"

struct ctr_groupfunction;
struct ctr_aggregate {
    const struct ctr_groupfunction *f;
    bool in_plan;
    char *name, *column_name;
    int column;          /* of the input; -1: none */
    int taken;           /* of what groups take in; -1: none */
    int values;          /* number of the sort that gives its values in order; -1: it takes rows as they come */
    enum ctr_type type;  /* of the column */
    int at;              /* its first word */
    double p;            /* of a quantile; how many values of top */
    struct ctr_field of; /* the result; name and meta are not set */
};

/* Parse NAME=FUNCTION(COLUMN[, P]), find its column in the schema and the type of its result. */
int ctr_aggregate_parse(struct ctr_aggregate *a, const char *text, const struct ctr_schema *s, bool in_plan,
                        struct ctr_err *err) CTR_MUST;
bool ctr_aggregate_ordered(const struct ctr_aggregate *a);         /* does it need the values of a group in order? */
bool ctr_aggregate_keeps(const struct ctr_aggregate *a);           /* are there values beside the words? */
bool ctr_aggregate_counts(const struct ctr_aggregate *a);          /* is its first word a count? */
const char *ctr_aggregate_function(const struct ctr_aggregate *a); /* "sum" */
void ctr_aggregate_free(struct ctr_aggregate *a);

struct ctr_groupstate {
    const struct ctr_aggregate *agg; /* borrowed, n of them */
    int n, stride;                   /* words of a group */
    struct ctr_buf word;
    struct ctr_colbuf *kept; /* of each aggregate that keeps values beside its words */
    int64_t groups;
};

/* Assigns each aggregate its words. */
int ctr_groupstate_init(struct ctr_groupstate *s, struct ctr_aggregate *agg, int n, struct ctr_err *err) CTR_MUST;
void ctr_groupstate_free(struct ctr_groupstate *s); /* also of one that is all zero */
void ctr_groupstate_clear(struct ctr_groupstate *s);
int64_t ctr_groupstate_bytes(const struct ctr_groupstate *s);
static inline int64_t *ctr_groupstate_of(const struct ctr_groupstate *s, int64_t number)
{
    return (int64_t *)(void *)s->word.data + number * s->stride;
}

/* Rows row[0..n) of a batch, of groups number[0..n) < groups; number -1: rows that are left out. */
int ctr_groupstate_take(struct ctr_groupstate *s, const struct ctr_batch *b, const int32_t *row, const int64_t *number,
                        int64_t n, int64_t groups, struct ctr_err *err) CTR_MUST;

/* The values of ordered aggregates: batches of two columns, number and value, sorted by both (groupvalues.h). */
struct ctr_grouptop { /* the most frequent values of the group so far, the most frequent first; of equals the smallest
                       */
    int64_t *count, *row; /* row: in value */
    int64_t n, most;
    struct ctr_colbuf value;
};
struct ctr_grouprun {       /* the last row's; zero-initialise */
    int64_t group, at, run; /* at: values of the group so far; run: of them, equal to the last */
    bool any;
    struct ctr_colbuf last;   /* its value */
    struct ctr_grouptop *top; /* by aggregate; NULL: none is mode or top */
    int tops;
};
void ctr_grouprun_free(struct ctr_grouprun *r);
int ctr_groupstate_ordered(struct ctr_groupstate *s, int values, struct ctr_grouprun *v, const struct ctr_batch *b,
                           struct ctr_err *err) CTR_MUST;
int ctr_groupstate_ordered_end(struct ctr_groupstate *s, int values, struct ctr_grouprun *v,
                               struct ctr_err *err) CTR_MUST; /* after the last batch */

/* A value of these batches, as its own type. */
int ctr_groupstate_append_value(struct ctr_colbuf *to, const struct ctr_col *c, int64_t i,
                                struct ctr_err *err) CTR_MUST;

/* Append the results of aggregate a for n groups: of[i] has group number[i]. *failed: of an error, which i. */
int ctr_groupstate_give(const struct ctr_aggregate *a, struct ctr_groupstate *const *of, const int64_t *number,
                        int64_t n, struct ctr_colbuf *out, int64_t *failed, struct ctr_err *err) CTR_MUST;

#endif
