/* SPDX-License-Identifier: Apache-2.0
 *
 * rank: orders the candidates of each request, keeps the best, and prices them: ctr-rank(1) has the definitions. A
 * request is a run of rows whose `by` columns are equal; it lies in memory, nothing else does.
 *
 *     ctr_rank_new(&r, schema, &opts, err)
 *     ctr_rank_batch(r, b, err)                          b is not needed afterwards
 *     while ((rc = ctr_rank_next(r, &out, err)) > 0) …   the requests that are complete; out is borrowed until the
 *                                                        next call
 *     ctr_rank_finish(r, err)                            the last request is complete: take it with ctr_rank_next.
 *                                                        Then the next batch begins another input.
 *
 * A filter reads to the end of its stream; a server passes one request and calls finish after it. Both get the same
 * rows: what is random is a function of the seed, the request's `by` values and the candidate's id. One object serves
 * one thread.
 */
#ifndef CTR_RANK_H
#define CTR_RANK_H

#include "common/stream/stream.h"

enum ctr_rank_explore {
    CTR_EXPLORE_NONE,
    CTR_EXPLORE_UCB,      /* log-odds + amount x uncertainty */
    CTR_EXPLORE_THOMPSON, /* log-odds + uncertainty x a normal number */
    CTR_EXPLORE_EPSILON,  /* a random order for a share `amount` of the requests */
};

enum ctr_rank_price { CTR_PRICE_NONE, CTR_PRICE_FIRST, CTR_PRICE_SECOND }; /* SECOND: generalised */

struct ctr_rank_opts {
    const struct ctr_strs *by;  /* columns of a request, "a,b"; none: all rows up to ctr_rank_finish are one */
    const char *order;          /* an expression, or NULL: bid x score, without bid score */
    const char *order_name;     /* in messages; NULL: "--order" */
    const char *bid, *floor;    /* a column, an expression; or NULL */
    int score, id, uncertainty; /* columns; -1: none. id breaks ties; uncertainty is for UCB and THOMPSON */
    int64_t top;                /* candidates to keep of a request; 0: `slots`, without them all */
    enum ctr_rank_price price;  /* a column of prices a click */
    const char *place;  /* for messages: a column with the number of a candidate in its request, from 0; or NULL */
    const char *name;   /* for messages: a column that names a candidate; NULL: id */
    bool served;        /* messages go to clients: they advise no filter and no option */
    const double *slot; /* position factors of the slots, the first slot first; or NULL */
    int slots;
    enum ctr_rank_explore explore;
    double amount;
    uint64_t seed;
};

/* Texts of options (CTR_OPT_READ). "3": three slots that are seen alike; "1,0.6,0.4": the factors. "ucb=C", "thompson",
 * "epsilon=E". */
enum { CTR_RANK_SLOTS = 1000 };
struct ctr_rank_slots {
    double factor[CTR_RANK_SLOTS];
    int n;
};
struct ctr_rank_exploring {
    enum ctr_rank_explore kind;
    double amount;
};
int ctr_rank_read_slots(void *to /* struct ctr_rank_slots */, const char *text, struct ctr_err *err) CTR_MUST;
int ctr_rank_read_explore(void *to /* struct ctr_rank_exploring */, const char *text, struct ctr_err *err) CTR_MUST;

struct ctr_rank;
/* The options may go when it returns. Errors of use: columns that are missing or of other types, options that exclude
 * each other. */
int ctr_rank_new(struct ctr_rank **r, const struct ctr_schema *in, const struct ctr_rank_opts *o,
                 struct ctr_err *err) CTR_MUST;
void ctr_rank_free(struct ctr_rank *r);
/* The input's columns, then rank and, as the options say, ecpm, explored, price, slot_factor and propensity. An input
 * column of such a name goes on as NAME_before. */
const struct ctr_schema *ctr_rank_schema(const struct ctr_rank *r);
/* Without `by`: the request that comes is called `name`, row 0 of it, as if one column said so: what is random is that
 * of ctr-rank --by this column. That of others behind it is a function of the name and their number. */
void ctr_rank_call(struct ctr_rank *r, const struct ctr_col *name);
/* `by` values must not descend (in the order of ctr_sort). */
int ctr_rank_batch(struct ctr_rank *r, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_rank_finish(struct ctr_rank *r, struct ctr_err *err) CTR_MUST;
int ctr_rank_next(struct ctr_rank *r, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST; /* 1, 0: none, < 0 */

struct ctr_rank_stats {
    int64_t rows, requests, written;
    int64_t nameless;           /* rows whose `by` columns are all null: they are one request */
    int64_t below_floor, empty; /* rows; requests all of whose rows were below it */
    int64_t randomised;         /* requests in random order */
};
void ctr_rank_get_stats(const struct ctr_rank *r, struct ctr_rank_stats *st);

/* Replace *s by its ranked requests. Unless `sorted` says that it is sorted by the `by` columns, it is sorted first, in
 * memory_bytes (0: ctr_relation_memory). *stage (may be NULL) is valid for ctr_rank_get_stats until *s is closed. */
int ctr_rank_source(struct ctr_batch_source *s, const struct ctr_rank_opts *o, bool sorted, int64_t memory_bytes,
                    int threads, struct ctr_rank **stage, struct ctr_err *err) CTR_MUST;

#endif
