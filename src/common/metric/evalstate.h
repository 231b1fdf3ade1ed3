/* SPDX-License-Identifier: Apache-2.0
 *
 * evalstate: what eval.c, gauc.c and bootstrap.c share. Internal to metric/. */
#ifndef CTR_EVALSTATE_H
#define CTR_EVALSTATE_H

#include "common/metric/metric.h"
#include "common/metric/sample.h"

/* Ids 0, 1, … of 64-bit hashes in order of first appearance. */
struct ctr_idmap {
    struct ctr_idmap_slot {
        uint64_t hash;
        uint32_t id; /* UINT32_MAX: free */
    } * slot;
    int64_t n, cap; /* cap: 0 or a power of two */
};
static inline void ctr_idmap_prefetch(const struct ctr_idmap *m, uint64_t hash)
{
    if (m->cap)
        __builtin_prefetch(&m->slot[ctr_mix64(hash) & (uint64_t)(m->cap - 1)]);
}
/* The slot of a hash: its own, or the free one where it belongs. There must be a free one. */
static inline struct ctr_idmap_slot *ctr_idmap_slot(const struct ctr_idmap *m, uint64_t hash)
{
    uint64_t at = ctr_mix64(hash) & (uint64_t)(m->cap - 1);

    while (m->slot[at].id != UINT32_MAX && m->slot[at].hash != hash)
        at = (at + 1) & (uint64_t)(m->cap - 1);
    return &m->slot[at];
}
int ctr_idmap_get(struct ctr_idmap *m, uint64_t hash, uint32_t *id, struct ctr_err *err) CTR_MUST;
void ctr_idmap_free(struct ctr_idmap *m);

/* Of the users of both classes, for replicates. */
struct ctr_user_auc {
    uint32_t user;
    double weight, auc;
};

/* A fractional label's part of the squared error that its two entries do not show. */
struct ctr_fraction {
    uint32_t unit;
    double squared;
};

struct ctr_slice {
    struct ctr_eval_slice pub; /* first */
    char *text;
    double number;  /* the value where it is one, for the order */
    uint64_t value; /* its hash */
    bool rest, goes;
    int64_t lacks; /* rows at most, which are in the rest */
    int64_t last_row;
    uint32_t token; /* a number of its own, that no other had or will have */
    struct ctr_sample sample[2];
    struct ctr_buf fractions; /* struct ctr_fraction; with bootstrap only */
    struct ctr_buf users[2];  /* struct ctr_user_auc; with bootstrap only */
    double *replicate;        /* [side][metric][replicate] */
};

/* To which slices the total's entries belong, as tokens: entry by entry, or, of a column of lists, with their numbers.
 */
struct ctr_slice_rows {
    struct ctr_buf token, entry; /* uint32_t */
};

/* Of a column that makes slices. */
struct ctr_slice_values {
    int64_t live; /* held */
    int64_t went; /* each time that some went to the rest, the rows of the largest, summed */
};

struct ctr_eval {
    struct ctr_eval_opts o;
    struct ctr_slice_values *values; /* by column */
    struct ctr_slice_rows
        *rows_of;           /* of all rows (empty), of their windows, of a column's values, of their windows, … */
    struct ctr_buf forward; /* uint32_t, by token: its own, or the one of the rest that has its rows */
    struct ctr_buf entry;   /* int64_t: where the total's entries of each row of the batch begin */
    int *by;
    struct ctr_slice **slice;
    int64_t n, cap;
    struct ctr_idmap slices, users;
    struct ctr_metric_rows rows;
    struct ctr_buf loss[2], unit, text, memo;
    bool narrow[2];
    int sides;
    bool samples, units, losses;
    int64_t seen; /* rows */
    int64_t held; /* bytes of slices */
};

/* The value that makes a slice: row i of a column (of the items, for a list); without a column all rows, or (by >= 0)
 * the rest. */
struct ctr_slice_value {
    int by;
    const struct ctr_col *col;
    int64_t i;
};
uint64_t ctr_slice_hash(const struct ctr_slice_value *v);
/* The slices of so many hashes, whose slots have been asked for, and asks memory for them; NULL is one that is not
 * there yet: then the answer is false. */
bool ctr_slices_known(const struct ctr_eval *e, const uint64_t *hash, int64_t n, struct ctr_slice **slice);
int ctr_slice_find(struct ctr_eval *e, const struct ctr_slice_value *v, uint64_t hash, bool windowed, int64_t window,
                   struct ctr_slice **out, struct ctr_err *err) CTR_MUST;
int ctr_slice_get(struct ctr_eval *e, const struct ctr_slice_value *v, bool windowed, int64_t window,
                  struct ctr_slice **out, struct ctr_err *err) CTR_MUST;
void ctr_slice_free(struct ctr_slice *s);
/* After ctr_slices_order: the place in e->slice of each token's slice. */
void ctr_slice_places(const struct ctr_eval *e, uint32_t *place);
/* Entries by slice: those of e->slice[i] are entry[end[i]] … entry[end[i + 1] - 1], in the order of the input. */
struct ctr_slice_order {
    uint32_t *entry;
    int64_t *end;
};
int ctr_slice_order_make(struct ctr_slice_order *o, const struct ctr_eval *e, const struct ctr_slice_rows *rows,
                         const uint32_t *place, struct ctr_err *err) CTR_MUST;
void ctr_slice_order_free(struct ctr_slice_order *o);
/* Between two rows: if a column has too many values, some go to the rest. Slices got before are invalid then. */
int ctr_slices_bound(struct ctr_eval *e, int by, struct ctr_err *err) CTR_MUST;
int ctr_slices_order(struct ctr_eval *e, struct ctr_err *err) CTR_MUST; /* what is to be shown, in order */

/* GAUC of a sample whose units are user ids below `users`. `local` is scratch of that many, all UINT32_MAX, which keeps
 * the work in proportion to the sample; NULL: the sample has all users. */
int ctr_gauc(const struct ctr_sample *s, uint32_t *local, int64_t users, struct ctr_metric_sums *to,
             struct ctr_buf *keep, struct ctr_err *err) CTR_MUST;

/* The sample of all rows, after ctr_eval_finish with opts.keep. */
const struct ctr_sample *ctr_eval_total(const struct ctr_eval *e);

/* Bins of equal weight of a sorted sample of so much weight; returns how many. */
int ctr_sample_bins(const struct ctr_sample *s, double weight, struct ctr_reliability_bin *bin, int bins);

int ctr_bootstrap(struct ctr_eval *e, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;

#endif
