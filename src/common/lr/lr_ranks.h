/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_ranks.h: internal to lr over ranks: its data, and what its files share. lr_ranks.c has the rows of the worker and
 * the rounds of keys and weights, lr_ranks_update.c what the owners learn, lr_ranks_file.c saving and loading. */
#ifndef CTR_LR_RANKS_H
#define CTR_LR_RANKS_H

#include "common/comm/comm.h"
#include "common/lr/lr.h"

#define CTR_LR_AS(type, buf) ((type *)(void *)(buf).data)

struct ctr_lr_sums {
    double g, squares;
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
    struct ctr_lr_ranks_table {
        struct ctr_keyset set;
        struct ctr_buf slot; /* i32, by number in the set */
        int64_t asked;       /* number of slots already requested */
    } * table;
    int tables;
    struct ctr_buf start, slot, x;   /* i64 [rows + 1]; i32, f64 [entries] */
    struct ctr_buf label, weight, p; /* f64 [rows] */
    struct ctr_buf w, sums, term;    /* f64 [slots]; struct ctr_lr_sums [slots]; f64: of a row */
    struct ctr_buf *place;           /* by owner, i32: slots in the order of their requests */
    int64_t *here;                   /* by owner: number of weights received */
    /* The owner's data: state numbers requested by ranks, each once; and per rank the requested ones, and how many have
     * been sent. */
    struct ctr_keyset wanted;
    struct ctr_buf number, all; /* u32, struct ctr_lr_sums, by the number in `wanted` */
    struct ctr_buf *asked;      /* by rank, i32; CTR_LR_NO_KEY: there is no state */
    int64_t *given;
    struct ctr_comm_part *part; /* [ranks] */
    int64_t *known;             /* [ranks]: bytes that come */
    struct ctr_buf *out, *in;   /* [ranks] */
    /* Used while saving. */
    struct ctr_lr_elsewhere elsewhere;
    struct ctr_buf table_keys; /* u64, by table */
};
enum { CTR_LR_NO_KEY = -1 };

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

/* lr_ranks_update.c: all ranks learn from the minibatch, all of whose weights have been received. */
int ctr_lr_ranks_learn(struct ctr_lr_ranks *l, struct ctr_err *err) CTR_MUST;

/* lr_ranks_file.c: functions of struct ctr_model. */
int ctr_lr_ranks_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err) CTR_MUST;
int ctr_lr_ranks_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

#endif
