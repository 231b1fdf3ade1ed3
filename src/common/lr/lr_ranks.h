/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_ranks.h: internal to lr over ranks: its data, and what its files share. lr_ranks.c has the rows of the worker and
 * the rounds of keys and weights, lr_ranks_update.c what the owners learn, lr_ranks_file.c saving and loading. */
#ifndef CTR_LR_RANKS_H
#define CTR_LR_RANKS_H

#include "common/comm/comm.h"
#include "common/lr/inclusion.h"
#include "common/lr/lr.h"

#define CTR_LR_AS(type, buf) ((type *)(void *)(buf).data)

struct ctr_lr_sums {
    double g, squares;
};

/* A key without a state, which the owner may take up, with the sums of the rows from then on. */
struct ctr_lr_fresh {
    uint64_t hash;
    struct ctr_lr_sums sum;
    int table;
    bool taken;
};

struct ctr_lr_ranks {
    struct lr *own;        /* the keys of this rank, and the bias */
    struct ctr_comm *comm; /* NULL: one process */
    int ranks;
    int64_t minibatch, keys; /* keys: over all ranks, at the last save */
    /* The worker's minibatch. Its distinct keys (slots) are numbered in order of first occurrence. */
    int64_t rows, slots;
    bool whole;   /* the minibatches of all ranks are complete, as of the last round */
    bool scoring; /* the rows are scored alone: no key is made */
    bool decides; /* --inclusion: owners decide on new keys */
    int64_t day;  /* with --expire the latest of the minibatch's rows; CTR_NO_DAY: none */
    struct ctr_lr_ranks_table {
        struct ctr_keyset set;
        struct ctr_buf slot; /* i32, by number in the set */
        int64_t asked;       /* number of slots already requested */
        /* The owner's, with `decides`: the keys without a state, and i32, by number in the set, in `fresh`. */
        struct ctr_keyset unknown;
        struct ctr_buf unknown_at;
    } * table;
    int tables;
    struct ctr_buf start, slot, x;   /* i64 [rows + 1]; i32, f64 [entries] */
    struct ctr_buf label, weight, p; /* f64 [rows] */
    struct ctr_buf row;      /* i64 [rows], with `decides`: numbers of the rows, which no two rows of ranks share */
    struct ctr_buf refused;  /* u8 [slots], with `decides`: the owner has no state of it */
    struct ctr_buf occurred; /* their gradients, in the order of rows */
    struct ctr_buf at;       /* [slots]: where a key stands in the requests to its owner */
    struct ctr_buf w, sums, term; /* f64 [slots]; struct ctr_lr_sums [slots]; f64: of a row */
    struct ctr_buf *place;        /* by owner, i32: slots in the order of their requests */
    int64_t *here;                /* by owner: number of weights received */
    /* The owner's data: state numbers requested by ranks, each once; and per rank the requested ones, and how many have
     * been sent. */
    struct ctr_keyset wanted;
    struct ctr_buf number, all; /* u32, struct ctr_lr_sums, by the number in `wanted` */
    struct ctr_buf *asked;      /* by rank, i32: number in `wanted`; CTR_LR_NO_KEY: no state; below: of `fresh` */
    struct ctr_buf fresh;       /* struct ctr_lr_fresh */
    int64_t latest;             /* the latest day of all ranks' rows */
    int64_t *given;
    struct ctr_comm_part *part; /* [ranks] */
    int64_t *known;             /* [ranks]: bytes that come */
    struct ctr_buf *out, *in;   /* [ranks] */
    /* Used while saving. */
    struct ctr_lr_elsewhere elsewhere;
    struct ctr_buf table_keys; /* u64, by table */
    struct ctr_lr_ranks_sent {
        struct ctr_comm_bytes bytes;
        int64_t ids, occurred; /* distinct keys of each minibatch; bytes of gradients of keys without a state */
    } sent, sum;               /* by this rank; by all, at the last save */
    int64_t steps;
    /* Of all ranks, at the last save: */
    int64_t dropped;
    struct ctr_inclusion *seen;
};
enum { CTR_LR_NO_KEY = -1 };
static inline int32_t ctr_lr_fresh_code(int32_t fresh) /* and back */
{
    return CTR_LR_NO_KEY - 1 - fresh;
}

static inline void *ctr_lr_ranks_more(struct ctr_buf *b, int64_t n, size_t size, int *rc, struct ctr_err *err)
{
    return ctr_buf_extend(b, n, size, rc, err);
}
/* Send l->out, receive l->in. in_n: bytes that come, or NULL. */
int ctr_lr_ranks_swap(struct ctr_lr_ranks *l, enum ctr_comm_kind kind, const int64_t *in_n,
                      struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_bad_message(int rank, struct ctr_err *err);
int ctr_lr_ranks_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names,
                      struct ctr_err *err) CTR_MUST;

/* A row was made or written: deltas have it. */
static inline void ctr_lr_ranks_changed(struct ctr_lr_ranks *l, const uint8_t *row, int *rc, struct ctr_err *err)
{
    struct lr *m = l->own;
    if (*rc || !m->changed.on)
        return;
    *rc = ctr_changed_room(&m->changed, m->states.given, err);
    if (!*rc)
        ctr_changed_note(&m->changed, (uint64_t)(row - ctr_states_rows(&m->states)) / m->states.bytes);
}

/* lr_ranks_update.c: all ranks learn from the minibatch, all of whose weights have been received. */
int ctr_lr_ranks_learn(struct ctr_lr_ranks *l, struct ctr_err *err) CTR_MUST;

/* lr_ranks_file.c: functions of struct ctr_model. */
int ctr_lr_ranks_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_changes(void *learner, enum ctr_changes what, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_state(const void *learner, struct ctr_buf *words, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

#endif
