/* SPDX-License-Identifier: Apache-2.0
 *
 * lr.h: internal to lr/: the learner, and how its section of a model file is read. Minibatches are
 * learned by deep/deep_lr.c, whose files these are, too. */
#ifndef CTR_LR_H
#define CTR_LR_H

#include <pthread.h>

#include "common/lr/expiry.h"
#include "common/lr/optimizer.h"
#include "common/table/table.h"
#include "common/model/model.h"

extern const struct ctr_model ctr_model_lr;

struct ctr_inclusion;
struct ctr_lr_spill;

/* The digest of weights, and whether all states are finite. */
struct ctr_lr_digested {
    uint64_t digest;
    bool finite;
};

/* A table to save whose rows are stored elsewhere, in the order of keys. The row of a key is base + number * bytes. */
struct ctr_lr_sorted {
    const struct ctr_numbered *place;
    uint64_t n;
    const uint8_t *base;
    uint64_t bytes;
    const struct ctr_lr_digested *digested; /* or NULL: unknown */
};

/* Rows that another learner has, to be saved: what is told of all of them, how many a table has, and the rows of a
 * table in the order of keys, some at a time. */
typedef int ctr_lr_take_sorted(void *to, const struct ctr_lr_sorted *t, struct ctr_err *err);
struct ctr_lr_elsewhere {
    struct ctr_lr_digested digested; /* without the bias */
    const uint64_t *keys;
    int (*each)(void *ctx, int table, ctr_lr_take_sorted *take, void *to, struct ctr_err *err);
    void *ctx;
};

/* Scratch memory of a thread that finds keys. */
struct ctr_lr_finder {
    struct ctr_buf hash[2], home[2]; /* hashes and homes of a block's keys, for the current table and the next */
    struct ctr_buf group;            /* numbers for a group of columns */
    struct ctr_buf own;              /* numbers, for rows that have none yet */
};

/* lr_find.c: what finding keys takes beside the tables. */
struct ctr_lr_finding {
    struct ctr_lr_finder here;                        /* of the learner's thread, */
    struct ctr_lr_finder by_thread[CTR_FIND_THREADS]; /* of those that find parts of rows ahead */
    pthread_rwlock_t lock;                            /* read lock: threads that find keys ahead */
    const struct ctr_keyindex_kernel *kernel;
    uint64_t *extra;           /* by table: entries in the block */
    struct ctr_buf registered; /* struct ctr_lr_registered of a block */
    int variants;              /* number of variants it finds for: for messages about --memory */
};

/* lr_variants_bind.c: of an lr that only finds keys, in place of `states`, which other learners use: one per distinct
 * row length; and for each table the index of its own. Element 0 has rows of 0 bytes, for tables that no learner uses;
 * their keys get no numbers. */
struct ctr_lr_groups {
    struct ctr_states *states; /* NULL: there are none */
    int *of, n;
};

struct lr;
/* lr_uncertain.c, lr_shared_value_row.c: `learn` replaces forward and update for each row. k coordinates, the bias
 * last. */
struct ctr_lr_each {
    int (*learn)(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s, uint8_t *const *row,
                 int64_t k, double *score, struct ctr_err *err); /* NULL: nothing does */
    void *ctx;
};

/* lr_rows.c: scratch memory of the rows in progress. */
struct ctr_lr_scratch {
    struct ctr_buf row;              /* table rows */
    struct ctr_buf hash;             /* hashes of some transposed rows, by row: for random draws */
    int64_t block, width;            /* the first row of the block; entries per row */
    struct ctr_buf far;              /* uint16_t: positions of rows with one entry per table, when states are many */
    int64_t far_n;                   /* how many */
    struct ctr_buf z, n, w, root, x; /* of a row's coordinates */
    int64_t filled;       /* x holds this number of ones minus 1, then the bias and zeros; 0: something else */
    struct ctr_buf terms; /* of a row's uncertainty, or of its score in lr_evaluate.c */
};

/* lr.c, lr_save.c: since the last checkpoint, for deltas. */
struct ctr_lr_delta {
    struct ctr_changed changed; /* by number: rows that were learned from, or made */
    bool all_change;            /* weights follow from the number of rows: all rows do */
    struct ctr_buf gone;        /* struct ctr_expired: keys that were dropped */
};

/* lr_save.c: the rows that are saved, where `table` does not hold them. */
struct ctr_lr_saved {
    struct ctr_lr_sorted *sorted;             /* by table; NULL: none */
    const struct ctr_learning *sorted_as;     /* the learner whose layout its rows have */
    const struct ctr_lr_elsewhere *elsewhere; /* in the place of both; NULL: nothing */
};

struct lr {
    struct ctr_learning learning; /* parameters, layout of a table row, kernels */
    struct ctr_params params;     /* as in the model file */
    bool no_bias;
    /* what is learned: by table its keys, and the seed of its name; states by number; the bias */
    int tables;
    struct ctr_keys *table;
    uint64_t *seed;
    struct ctr_states states;
    struct ctr_lr_groups groups;
    struct ctr_more more; /* for learners that need it; the event of the last row learned */
    struct ctr_expiry expiry;
    struct ctr_inclusion *inclusion; /* NULL: every key is included */
    struct ctr_lr_spill *spill;      /* NULL: all keys are in memory */
    const struct ctr_lr_loops *loops;
    struct ctr_lr_finding finding;
    struct ctr_lr_each each;
    struct ctr_lr_scratch scratch;
    struct ctr_lr_delta delta;
    struct ctr_lr_saved saved;
    _Alignas(16) uint8_t bias[CTR_STATE_MOST_BYTES],
        spare[CTR_STATE_MOST_BYTES]; /* outside the tables. See optimizer.h */
};

static inline struct ctr_states *ctr_lr_states_of(struct lr *m, int table)
{
    return m->groups.states ? &m->groups.states[m->groups.of[table]] : &m->states;
}
static inline bool ctr_lr_wants(const struct lr *m, int table)
{
    return !m->groups.states || m->groups.of[table];
}

/* Vectorised loops; all instruction sets give the same result. */
struct ctr_lr_registered {
    uint32_t *known, *learned; /* by position: as in struct ctr_keys; `learned` receives the increase */
};
struct ctr_lr_loops {
    void (*rows)(uint8_t *base, uint64_t bytes, const uint32_t *restrict number, int64_t k, uint8_t **restrict row);
    /* ctr_keys_register for rows with k entries each. */
    void (*register_keys)(const uint32_t *restrict number, int64_t rows, int64_t k,
                          const struct ctr_lr_registered *registered);
    /* Transpose eight columns of `rows` numbers (a multiple of eight), `step` apart, to rows of `width`. */
    void (*transpose)(const uint32_t *column, int64_t step, int64_t rows, uint32_t *number, int64_t width);
    uint64_t (*equal)(const uint32_t *number, int64_t n,
                      uint32_t to); /* one bit for each of n <= 64 numbers: equal to `to`? */
};
const struct ctr_lr_loops *ctr_lr_loops_best(void); /* lr_find.c */

/* Of saving: does a delta hold the row of this number? */
static inline bool ctr_lr_saves(const struct lr *m, uint64_t number)
{
    return m->delta.all_change || !ctr_changed_skips(&m->delta.changed, number);
}
/* The rows that learning from these entries changes. */
static inline void ctr_lr_note_changed(struct lr *m, const uint32_t *number, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ctr_changed_note(&m->delta.changed, number[i]);
}

extern const struct ctr_param ctr_lr_options[]; /* lr_options.c */
int ctr_lr_new(void **learner, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err) CTR_MUST;
void ctr_lr_free(void *learner);
int ctr_lr_bind(void *learner, const struct ctr_strs *tables, struct ctr_err *err) CTR_MUST;
#define CTR_LR_TOO_LARGE ": weights or values of features are too large; scale them down, or lower --alpha"

/* lr_find.c */
void ctr_lr_finding_init(struct ctr_lr_finding *f);
void ctr_lr_finding_free(struct ctr_lr_finding *f);
int64_t ctr_lr_block_end(const struct ctr_rows *r,
                         int64_t from); /* rows [from, result) form a block: tables grow only between blocks */
/* Find the keys of rows [from, end), a block: number[e] is the state number of entry e's key; 0: refused. Fails when
 * the tables need more than `bound` bytes (0: none). */
int ctr_lr_find_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t bound,
                      uint32_t *number, struct ctr_err *err) CTR_MUST;
/* Functions of struct ctr_model. */
int ctr_lr_find(void *learner, const struct ctr_rows *r, const struct ctr_find *f, struct ctr_err *err) CTR_MUST;
/* Call before and after iterating over all tables: stops the threads that find ahead. */
void ctr_lr_hold_finders(struct lr *m);
void ctr_lr_release_finders(struct lr *m);

/* Register the keys of rows [from, end) with the learner and create their states. */
int ctr_lr_register_keys(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                         struct ctr_err *err) CTR_MUST;

/* lr_rows.c */
void ctr_lr_scratch_free(struct ctr_lr_scratch *s);
/* Learn rows [from, end) of a block one by one; number[e] is the state number of entry e; its state exists.
 */
int ctr_lr_train_exactly(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, const uint32_t *number,
                         double *score, struct ctr_err *err) CTR_MUST;
/* The sum of the terms of row i, the bias last, in its lanes; zeros follow to the end of the last lane. If tables may
 * occur several times in a row, a term's lane depends on its table. */
double ctr_lr_sum_terms(const struct lr *m, const struct ctr_rows *r, int64_t i, const double *term);
int ctr_lr_diverged(int64_t row, struct ctr_err *err); /* the error that a prediction is not finite */

/* lr_evaluate.c, of struct ctr_model */
int ctr_lr_evaluate(void *learner, const struct ctr_rows *rows, double *score, struct ctr_err *err) CTR_MUST;

/* lr_uncertain.c */
/* The terms of u(x): |x| alpha / (beta + n^power) for the row's k coordinates (the bias last), as forward has left them
 * in `s`; ctr_lanes_dot sums them. x NULL: all 1. */
void ctr_lr_uncertain_terms(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_coords *s,
                            uint8_t *const *row, const double *x, int64_t k, double *term);
/* An `each` of struct lr: learns as without it, and computes the uncertainty. */
int ctr_lr_learn_uncertain(struct lr *m, const struct ctr_rows *r, int64_t i, const struct ctr_coords *s,
                           uint8_t *const *row, int64_t k, double *score, struct ctr_err *err) CTR_MUST;
/* The largest learning rate, that of an unseen key after `e`; fails if it is not finite. */
int ctr_lr_unseen_rate(const struct ctr_learning *l, const struct ctr_event *e, double *rate,
                       struct ctr_err *err) CTR_MUST;

/* lr_save.c */
/* Digest of the rows of a sorted table with the layout of `as`; counts events in m. */
struct ctr_lr_digested ctr_lr_digest_sorted(const struct lr *m, const struct ctr_learning *as,
                                            const struct ctr_lr_sorted *t);
int ctr_lr_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_lr_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err) CTR_MUST;
/* Of struct ctr_variant_ops: saves learners with equal options except for numbers, and equal keys, from `sorted`. */
int ctr_lr_save_some(void *const *learner, int n, const struct ctr_strs *tables, struct ctr_writer *const *w,
                     struct ctr_err *err) CTR_MUST;

/* lr_file.c */
int ctr_lr_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;
/* The same for a section that a learner with the same options wrote, which may lack the metadata. */
int ctr_lr_resume(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

/* One term of the digest of weights: a sum, so that order does not matter and weights of 0 do not count. */
static inline uint64_t ctr_lr_digest(uint64_t key, double w)
{
    uint64_t bits;
    memcpy(&bits, &w, 8);
    return w == 0 ? 0 : ctr_mix64(ctr_mix64(key) + bits);
}

/* The columns of a model section by name; NULL: absent. */
enum { CTR_LR_WEIGHT, CTR_LR_Z, CTR_LR_N, CTR_LR_NEGATIVES, CTR_LR_POSITIVES, CTR_LR_LAST, CTR_LR_NUMBERS };
extern const char *const ctr_lr_number_names[CTR_LR_NUMBERS];
bool ctr_lr_has_number(const struct ctr_learning *l, int i); /* is it a column of this learner's models? */
struct ctr_lr_columns {
    const struct ctr_col *table, *key, *number[CTR_LR_NUMBERS], *day;
};

/* The first state column of this learner that is absent, or NULL: training can continue from the section. */
const char *ctr_lr_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l);
const char *ctr_lr_rate_missing(const struct ctr_lr_columns *c,
                                const struct ctr_learning *l); /* of the state columns of the learning rate */
void ctr_lr_state(const struct ctr_lr_columns *c, const struct ctr_learning *l, int64_t i, struct ctr_state *s);
/* The event count at which the learner of a model section stopped: CTR_META_MODEL_STEPS. */
int ctr_lr_start(const struct ctr_learning *l, const struct ctr_meta *meta, struct ctr_event *e,
                 struct ctr_err *err) CTR_MUST;

int ctr_lr_find_columns(const struct ctr_batch *b, struct ctr_lr_columns *c, struct ctr_err *err) CTR_MUST;

/* The number of a row's table, looked up once per run of equal names; -1: the bias. Zero-initialise to start. */
struct ctr_lr_table {
    struct ctr_str name;
    int table;
    bool bias; /* set by the caller: the bias row was read */
    char copy[256];
};

int ctr_lr_find_table(struct ctr_lr_table *cache, struct ctr_str name, struct ctr_strs *tables,
                      struct ctr_err *err) CTR_MUST;
/* The error about a repeated table and key: which of the rows counts is undefined. */
int ctr_lr_duplicate_key(const struct ctr_batch *b, int64_t i, struct ctr_err *err);

/* lr_walk.c: reads all weights of a model's section twice: `take` gets each row and, the second time, finds `again`
 * set. The caller sets the first members; rates: it also wants the learning rates of keys. */
struct ctr_lr_walked {
    const struct ctr_batch *batch; /* its row i */
    int64_t i;
    int table; /* its number in `tables`; -1: the bias, which occurs at most once */
    double weight;
    float rate;
};
struct ctr_lr_walk {
    const char *path;
    const struct ctr_model_info *info;
    struct ctr_strs *tables; /* new names are appended */
    bool rates;
    int (*take)(void *ctx, const struct ctr_lr_walk *w, const struct ctr_lr_walked *r, struct ctr_err *err);
    void (*restart)(
        void *ctx); /* discard the rows taken so far: z and n override weights, and the first pass starts again */
    void *ctx;

    struct ctr_learning learning;
    struct ctr_event event;
    double unseen_rate; /* of a new key */
    bool again, derive; /* z and n override weight */
    bool edited;        /* another program than those that keep weight, z and n together wrote the file */
    bool bias;          /* the bias row was read */
    int64_t differ;     /* weights that disagree with z and n */
    uint64_t digest;    /* of all weights */
    bool derived;       /* the columns of the batch were computed from z and n */
    struct ctr_lr_columns c;
    struct ctr_buf hash, table; /* for all its rows */
};
int ctr_lr_walk_start(struct ctr_lr_walk *w, struct ctr_err *err) CTR_MUST;
int ctr_lr_walk_count(struct ctr_lr_walk *w, struct ctr_err *err) CTR_MUST;
int ctr_lr_walk_again(struct ctr_lr_walk *w, struct ctr_err *err) CTR_MUST;
void ctr_lr_walk_end(struct ctr_lr_walk *w);
static inline const uint64_t *ctr_lr_walk_hashes(const struct ctr_lr_walk *w)
{
    return (const uint64_t *)(const void *)w->hash.data;
}
static inline const int *ctr_lr_walk_tables(const struct ctr_lr_walk *w)
{
    return (const int *)(const void *)w->table.data;
}

/* lr_slim.c */
extern const struct ctr_model ctr_model_lr_slim; /* predicts from a serving file; not in the table of models */
int ctr_lr_slim(const char *path, const struct ctr_model_info *info, const struct ctr_slim_opts *o, struct ctr_out *out,
                struct ctr_slim_told *told, struct ctr_err *err) CTR_MUST;

/* lr_score.c */
int ctr_lr_scorer_open(void **scorer, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                       char *warn, size_t warn_size, struct ctr_err *err) CTR_MUST;
void ctr_lr_scorer_free(void *scorer);
int ctr_lr_session_new(void **session, const void *scorer, const struct ctr_strs *tables, struct ctr_err *err) CTR_MUST;
void ctr_lr_session_free(void *session);
int ctr_lr_predict_uncertain(void *session, const struct ctr_rows *rows, double *score, double *uncertainty,
                             struct ctr_key_counts *counts, struct ctr_err *err) CTR_MUST;
int ctr_lr_predict_rows(void *session, const struct ctr_rows *rows, double *score, struct ctr_key_counts *counts,
                        struct ctr_err *err) CTR_MUST;
double ctr_lr_row_weights(const void *scorer, const struct ctr_rows *rows, int64_t i, double *weight);

#endif
