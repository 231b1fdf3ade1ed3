/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_impl: internal to rank: the candidates of one request as numbers. rank.c fills them from rows, rank_order.c
 * orders them, rank_chance.c computes the chances of Thompson sampling. */
#ifndef CTR_RANK_IMPL_H
#define CTR_RANK_IMPL_H

#include "common/rows/rank.h"

struct ctr_rank_candidate {
    int64_t row; /* in the request's batch */
    double score, bid, uncertainty, floor;
    double explored; /* the score after exploration */
    double value;    /* what orders: ecpm, the score or that of --order */
    uint64_t key;    /* whose unsigned order is that of `value`; exact for integers, too */
    uint64_t draw;   /* the candidate's random number in this request */
    int64_t greedy;  /* place by value */
    double odds;     /* log-odds of the score; these two by ctr_rank_prepare */
    bool varies;     /* the value depends on the draw */
};

/* What orders a request. */
struct ctr_rank_how {
    enum ctr_rank_explore explore;
    double amount;
    bool bids, floors;
    bool made; /* value and key are there: of --order */
    int64_t top;
};

struct ctr_rank_order {
    struct ctr_rank_candidate *c; /* all of the request, by `greedy` those above the floor first */
    int64_t n, above;             /* all; those that are not below the floor */
    int64_t kept;
    int64_t *place; /* the kept ones, best first: indices of c */
    double *propensity;
    bool randomised;
    struct ctr_buf item, places, chances;
};

/* Order n candidates; `id` (or NULL) breaks ties, `request` is the hash of the request. */
int ctr_rank_order(struct ctr_rank_order *o, const struct ctr_rank_how *how, struct ctr_rank_candidate *c, int64_t n,
                   const struct ctr_col *id, uint64_t request, struct ctr_err *err) CTR_MUST;
void ctr_rank_order_free(struct ctr_rank_order *o);
/* Unsigned order of doubles; -0 is 0. NaN has no place. */
static inline uint64_t ctr_rank_key(double d)
{
    uint64_t u;
    d += 0.0;
    memcpy(&u, &d, sizeof u);
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}
double ctr_rank_explored(double score, double shift); /* the score whose log-odds are larger by `shift` */

/* ---- rank_chance.c ---- */

/* P(X <= x) of a standard normal X, to 1e-14. */
double ctr_normal_share(double x);
/* A standard normal number of (seed, stream). */
double ctr_normal_draw(uint64_t seed, uint64_t stream);
void ctr_rank_prepare(const struct ctr_rank_how *how, struct ctr_rank_candidate *c, int64_t n);
/* The chance that Thompson sampling puts candidate i at `place` (0: first). Candidates are prepared, and in the order
 * in which ties are broken. */
int ctr_rank_chance(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, int64_t n, int64_t i,
                    int64_t place, struct ctr_buf *room, double *chance, struct ctr_err *err) CTR_MUST;

#endif
