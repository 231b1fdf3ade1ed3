/* SPDX-License-Identifier: Apache-2.0
 *
 * evalstate: shared by eval.c, gauc.c and bootstrap.c. Internal to metric/. */
#ifndef CTR_EVALSTATE_H
#define CTR_EVALSTATE_H

#include "common/metric/metric.h"
#include "common/metric/sample.h"
#include "common/table/table.h"

/* ---- evalids.c ---- */

/* The keyed hash of a value, a bijection of the numbers of one type; the null has its own. */
uint64_t ctr_value_hash(const struct ctr_col *c, int64_t i);

/* Ids 0, 1, … of 64-bit hashes in order of first appearance. */
struct ctr_idmap {
    struct ctr_index index; /* from hashes to ids; callers compare what is no number */
    int64_t n;              /* number of ids */
};
static inline void ctr_idmap_prefetch(const struct ctr_idmap *m, uint64_t hash)
{
    if (m->index.cap)
        __builtin_prefetch(ctr_index_home(&m->index, hash));
}
/* The slot of a hash, or the free one where it belongs. There must be a free slot. */
static inline struct ctr_index_slot *ctr_idmap_slot(const struct ctr_idmap *m, uint64_t hash)
{
    return ctr_index_from(&m->index, ctr_index_home(&m->index, hash), hash);
}
/* Equal hashes of two values: a chance of 2^-64 per pair, because the hash contains a random number. */
#define CTR_SAME_HASH "two values have the same hash: run it again, and hashes are others"
int ctr_idmap_get(struct ctr_idmap *m, uint64_t hash, uint32_t *id, struct ctr_err *err) CTR_MUST;
int ctr_idmap_next(struct ctr_idmap *m, uint32_t *id, struct ctr_err *err) CTR_MUST; /* an id without a slot */
void ctr_idmap_free(struct ctr_idmap *m);

/* The texts of ids, to compare with. Those between have none. */
struct ctr_idtexts {
    struct ctr_buf bytes, end; /* end: int64_t by id */
};
int ctr_idtexts_add(struct ctr_idtexts *x, uint32_t id, struct ctr_str text,
                    struct ctr_err *err) CTR_MUST; /* ids ascend */
bool ctr_idtexts_same(const struct ctr_idtexts *x, uint32_t id, struct ctr_str text);
void ctr_idtexts_free(struct ctr_idtexts *x);

/* Caches ids of a column's values, so that most rows need neither a hash nor the map. Values missing here may be in the
 * map. */
enum { CTR_MEMO_TILE = 32 };
struct ctr_memo {
    struct ctr_buf number; /* uint32_t by integer: id + 1, or 0 */
    struct ctr_buf entry;  /* the same by entry of the batch's dictionary */
    struct ctr_buf text;   /* short texts */
    struct ctr_buf slot;   /* uint32_t by hash of a text: its number + 1, or 0 */
};
int ctr_memo_batch(struct ctr_memo *m, const struct ctr_col *c, struct ctr_err *err) CTR_MUST; /* call before a batch */
/* Ids of n rows (at most a tile), UINT32_MAX if missing. Returns whether none is missing. */
bool ctr_memo_find(struct ctr_memo *m, const struct ctr_col *c, int64_t from, int64_t n, uint32_t *id);
/* *learnt: the memo now has this value; otherwise perhaps not. `ids`: number of ids. */
int ctr_memo_learn(struct ctr_memo *m, const struct ctr_col *c, int64_t i, uint32_t id, int64_t ids, bool *learnt,
                   struct ctr_err *err) CTR_MUST;
int64_t ctr_memo_bytes(const struct ctr_memo *m);
void ctr_memo_free(struct ctr_memo *m); /* it is empty afterwards */

/* ---- slices ---- */

/* The AUC of a user with both classes, for replicates. */
struct ctr_user_auc {
    uint32_t user;
    double weight, auc;
};

/* A fractional label's part of the squared error that its two entries do not contain. */
struct ctr_fraction {
    uint32_t unit;
    double squared;
};

/* Data that few slices have. */
struct ctr_slice_parts {
    struct ctr_sample sample[2];
    struct ctr_buf fractions; /* struct ctr_fraction; with bootstrap only */
    struct ctr_buf users[2];  /* struct ctr_user_auc; with bootstrap only */
    double *replicate;        /* [side][metric][replicate] */
};

/* There may be millions of slices. */
struct ctr_slice {
    struct ctr_eval_slice pub;     /* first */
    struct ctr_slice_parts *parts; /* for the total, and with bootstrap; for others only while they are finished */
    double number;                 /* the value as a number, if it is one, for sorting */
    uint64_t value, bits;          /* its hash; of a number, its bits */
    int64_t lacks;                 /* maximum number of its rows that are in the rest */
    uint32_t token;                /* a unique number, never reused */
    uint32_t id;                   /* its place in e->slice */
    bool rest, goes, missing;
    uint32_t text_bytes;
    struct ctr_slice *windows; /* of a value: its slices by window, the latest first */
    struct ctr_slice *before;  /* in that list */
    char text[];
};

/* The part of a slice that changes with every row: one cache line. */
struct ctr_running {
    int64_t rows, last_row;
    uint32_t token, unused;
    double weight; /* unused if all rows weigh 1 */
    double label, score, log_loss, squared;
};

/* The slices of the total's entries, as tokens: one per entry or, for list columns, with entry numbers. */
struct ctr_slice_rows {
    struct ctr_buf token, entry; /* uint32_t */
};

/* The state of a slicing column. */
struct ctr_slice_values {
    int64_t live;         /* number kept */
    struct ctr_buf value; /* struct ctr_slice *: the kept ones, in order of appearance */
    int64_t went;         /* sum, over the merges into the rest, of the largest merged size */
    struct ctr_memo memo;
};

struct ctr_eval {
    struct ctr_eval_opts o;
    struct ctr_slice_values *values; /* per column */
    struct ctr_slice_rows *rows_of;  /* for all rows (empty), their windows, a column's values, their windows, … */
    struct ctr_buf forward;          /* uint32_t, by token: itself, or the token of the rest that has its rows */
    struct ctr_buf entry; /* int64_t: position of the total's entries for each row of the batch; empty: one per row */
    int64_t first;        /* of the batch */
    int *by;
    struct ctr_slice **slice; /* by id; NULL: merged into the rest, until the next sweep; none after ctr_slices_order */
    int64_t gone;             /* number of these */
    struct ctr_buf run[2];    /* struct ctr_running by side and id, until ctr_slices_order */
    int64_t n, cap;
    struct ctr_idmap slices, users;
    struct ctr_idtexts user_texts;
    struct ctr_metric_rows rows;
    struct ctr_memo memo; /* of users */
    struct ctr_buf loss[2], unit, text;
    struct ctr_buf no_user; /* bit set by user id: ids of rows without a user */
    uint32_t last_no_user;
    int64_t without_user; /* rows */
    bool narrow[2];
    int sides;
    bool samples, units, losses;
    int64_t seen; /* rows */
    int64_t held; /* bytes used by slices */
};

/* The value that defines a slice: row i of a column (of the items, for a list); without a column all rows, or (by >= 0)
 * the rest. */
struct ctr_slice_value {
    int by;
    const struct ctr_col *col;
    int64_t i;
};
uint64_t ctr_slice_hash(const struct ctr_slice_value *v);
static inline struct ctr_running *ctr_slice_run(const struct ctr_eval *e, int side, uint32_t id)
{
    return (struct ctr_running *)(void *)e->run[side].data + id;
}
/* The ids of n rows of column `by` (at most a tile), UINT32_MAX if there is no slice; returns whether all exist. */
int ctr_slices_known(struct ctr_eval *e, int by, const struct ctr_col *col, int64_t from, int64_t n, uint32_t *id,
                     bool *all, struct ctr_err *err) CTR_MUST;
int ctr_slice_find(struct ctr_eval *e, const struct ctr_slice_value *v, uint64_t hash, bool windowed, int64_t window,
                   uint32_t *id, struct ctr_err *err) CTR_MUST;
int ctr_slice_get(struct ctr_eval *e, const struct ctr_slice_value *v, bool windowed, int64_t window, uint32_t *id,
                  struct ctr_err *err) CTR_MUST;
int ctr_slice_open_parts(const struct ctr_eval *e, struct ctr_slice *s, struct ctr_err *err) CTR_MUST;
void ctr_slice_close_parts(struct ctr_slice *s);
void ctr_slice_free(struct ctr_slice *s);
/* After ctr_slices_order: the position in e->slice of each token's slice. */
void ctr_slice_places(const struct ctr_eval *e, uint32_t *place);
/* Entries by slice: those of e->slice[i] are entry[end[i]] … entry[end[i + 1] - 1], in input order. */
struct ctr_slice_order {
    uint32_t *entry;
    int64_t *end;
};
int ctr_slice_order_make(struct ctr_slice_order *o, const struct ctr_eval *e, const struct ctr_slice_rows *rows,
                         const uint32_t *place, struct ctr_err *err) CTR_MUST;
void ctr_slice_order_free(struct ctr_slice_order *o);
/* Call between two rows: merges some values into the rest if a column has too many. Invalidates ids. */
int ctr_slices_bound(struct ctr_eval *e, int by, struct ctr_err *err) CTR_MUST;
int ctr_slices_order(struct ctr_eval *e, struct ctr_err *err) CTR_MUST; /* the slices to show, in order */

/* GAUC of a sample whose units are user ids below `users`, without those set in `no_user`. `local` is scratch memory of
 * that size, all UINT32_MAX, which keeps the work proportional to the sample; NULL: the sample has all users. */
struct ctr_gauc_users {
    int64_t users;
    const struct ctr_buf *no_user;
    uint32_t *local;
};
int ctr_gauc(const struct ctr_sample *s, const struct ctr_gauc_users *users, struct ctr_metric_sums *to,
             struct ctr_buf *keep, struct ctr_err *err) CTR_MUST;

/* The sample of all rows, after ctr_eval_finish with opts.keep. */
const struct ctr_sample *ctr_eval_total(const struct ctr_eval *e);

/* Bins of equal weight of a sorted sample of so much weight; returns how many. */
int ctr_sample_bins(const struct ctr_sample *s, double weight, struct ctr_reliability_bin *bin, int bins);

double ctr_sample_ece(const struct ctr_sample *s, double weight); /* of a sorted one */

int ctr_bootstrap(struct ctr_eval *e, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;

#endif
