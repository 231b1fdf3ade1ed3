/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.h: internal to train/: declarations shared by trainer.c, checkpoint.c and their neighbours. */
#ifndef CTR_TRAINER_H
#define CTR_TRAINER_H

#include <pthread.h>

#include "common/train/crosses.h"
#include "common/train/feed.h"
#include "common/train/progressive.h"
#include "common/train/train.h"

struct ctr_trainer;

enum { CTR_AUC_BINS = 8192 }; /* over the odds, 128 per doubling */

/* Progressive validation and its state between rows. The log loss of plain rows (weight 1, label 0 or 1) is the
 * logarithm of a product, taken when the product becomes small: one multiplication per row. */
struct ctr_validation {
    struct ctr_train_stats s;
    double product;
    int64_t next_report;
    double positive[CTR_AUC_BINS], negative[CTR_AUC_BINS];
};
void ctr_validation_start(struct ctr_validation *v);
void ctr_validation_row(struct ctr_validation *v, double score, double label, double weight);
/* The same for rows [from, end) and several models; the scores of row i start at score[i * stride]. */
void ctr_validation_rows(struct ctr_validation *v, int models, const double *score, int64_t stride,
                         const struct ctr_rows *r, int64_t from, int64_t end);
double ctr_validation_clip(double score); /* so that the loss of a wrong and certain one is limited */
/* The log loss of a clipped score. */
double ctr_validation_loss(double p, double label);
void ctr_validation_settle(struct ctr_validation *v);                                 /* brings s up to date */
void ctr_validation_add(struct ctr_validation *v, const struct ctr_validation *more); /* of other rows; both settled */
/* Progressive AUC; odds closer than 1/128 count as ties; NaN: only one class. */
double ctr_trainer_auc(const struct ctr_trainer *t, int model);

/* A position in the run. Rows are counted within the pass. */
struct ctr_position {
    int64_t pass, row;
    char digest[33]; /* of the rows of the pass so far */
    int64_t pending; /* of these rows, the last ones scored but not yet learned */
    int64_t scores;  /* rows whose progressive predictions are in the file beside the checkpoint, or -1: none */
    bool uncertain;  /* their uncertainties are, too */
    int64_t every;   /* -1: without --validation; else job.validation_every */
};

/* The input of a pass is cut into shards, as many as the run has ranks: rank r reads shard r. What is left of a pass in
 * which a run of another number of ranks wrote its checkpoint stays cut as it was: rank r reads shards r, r + ranks and
 * so on, one after another, or, where there are fewer, none. */
struct ctr_shards {
    struct ctr_position *at; /* [n]: those that are not read yet as the checkpoint tells them, or as they ended */
    int n, reads;            /* reads: the one that this rank is at; -1: none */
    int resumed;             /* how many the checkpoint tells of; 0: there is none */
    int64_t resumed_pass;
};

/* State of a periodic action: rows at its last run, and when the next is due; 0: unknown. */
struct ctr_schedule {
    int64_t rows, ms;
};
bool ctr_schedule_due(struct ctr_schedule *s, const struct ctr_every *every, int64_t rows);

/* collapse.c: a sample of the last rows learned. */
struct ctr_lastrows_half {
    struct ctr_buf start, label, hash, table, x, dense;
    int64_t rows, entries, dense_width;
    bool left; /* its rows are on the learner's device, as `there` says, which has its memory in `buf` */
    struct ctr_rows there;
    struct ctr_rowbuf buf;
    bool has_table, has_x, one; /* one_a_table */
};
struct ctr_lastrows {
    struct ctr_lastrows_half half[2];
    int now; /* the newer one */
};
int ctr_lastrows_add(struct ctr_trainer *t, const struct ctr_rows *r, struct ctr_err *err) CTR_MUST;
/* Bring the rows that are on the device: those of the last two tiles may be, until their batches are gone. */
int ctr_lastrows_bring(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
void ctr_lastrows_free(struct ctr_lastrows *s);

/* Checkpoints written: a whole one, then up to job.checkpoint_deltas deltas, each of the changes since the last. */
struct ctr_checkpoint_chain {
    struct ctr_schedule due;
    bool failed;                /* one could not be written: the run ends, and tries no other */
    bool whole;                 /* there is a whole one, and changes since the last one are noted */
    int64_t n;                  /* deltas behind it */
    char state[CTR_STATE_TEXT]; /* of the last one */
    char base[CTR_STATE_TEXT];  /* of the whole one */
};

/* Models published during the run. Rows of the run so far, … */
struct ctr_publishing {
    struct ctr_schedule due;
    int64_t published; /* … at the last call of job.publish, */
    int64_t saved;     /* … at the last that succeeded */
};

/* Early stopping. Validations are counted from 1. */
struct ctr_early_stop {
    int64_t validations, best; /* so far; the best one, 0: none yet, */
    double best_loss;
    int fd;               /* its model, or -1 */
    int64_t checkpointed; /* the best one as the checkpoint tells it */
    bool stopped;         /* patience is used up */
};

struct ctr_trainer {
    struct ctr_train_job job;
    void *learner;
    struct ctr_strs tables;
    struct ctr_schema stream; /* of the input */
    char *stream_name;        /* its first file, for messages */
    bool have_stream;
    bool wants_counts;          /* the learner wants the keys of all rows counted before it learns */
    bool whole;                 /* no batch is partly learned */
    int models;                 /* trained together */
    struct ctr_validation *v;   /* one per model */
    struct ctr_position at;     /* current position; digest: at the end of the last batch */
    struct ctr_position resume; /* of this shard: the checkpoint that the run goes on from; row -1: none */
    struct ctr_shards shards;
    bool resumed; /* the run goes on from a checkpoint */
    struct ctr_digest *digest;
    struct ctr_inputs *in;
    struct ctr_feed *feed;       /* of the current pass */
    bool leaves;                 /* the plan's keys are left on the device; if not, or not all, */
    const char *brings;          /* why; NULL: it has no plan that could */
    int label, weight;           /* columns */
    struct ctr_time_order order; /* in the first pass */
    bool bias_told;
    char wide[400];              /* dense columns of large range, in the first pass: "price from 0 to 9000, …" */
    struct ctr_crosses *crosses; /* with job.advises, of models that add up weights of keys; else NULL */
    struct ctr_progressive progressive;
    /* spool */
    struct ctr_out *spool_out;
    struct ctr_writer *spool;
    struct ctr_early_stop early;
    struct ctr_checkpoint_chain chain;
    struct ctr_publishing publish;
    struct {
        int64_t rows;   /* of all ranks before the last step */
        int64_t looked; /* those of this pass; -1: before the first step of a pass */
        bool balanced;  /* ctr_ranks_balance has looked */
    } ranks;            /* with job.params.comm */
    struct ctr_lastrows last;
    double constant; /* the score of all rows of the sample, by the model that is saved; NaN: they differ */
    int64_t judged;  /* these rows, of all ranks */
    /* While several threads save: held while a model computes what it shares with others. */
    pthread_mutex_t *sharing_lock;
};

int ctr_trainer_save_now(struct ctr_trainer *t, int model, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* Save n models together: model[i] to out[i]. */
int ctr_trainer_save_some(struct ctr_trainer *t, const int *model, int n, struct ctr_out *const *out,
                          struct ctr_err *err) CTR_MUST;

/* trainerstart.c: at the start of each pass; `s` is the schema of its input, `name` its first file. Sets t->in and
 * binds the learner to it. The first call also opens outputs and loads job.init, or the checkpoint of job.resume. */
int ctr_trainer_start_pass(struct ctr_trainer *t, const struct ctr_schema *s, const char *name,
                           struct ctr_err *err) CTR_MUST;

/* countpass.c: count the keys of all rows of `s`, which is at its first batch, after ctr_trainer_start_pass; where the
 * learner wants that, and the run begins here. *counted: they were, and `s` is at its end. */
int ctr_trainer_count_keys(struct ctr_trainer *t, const struct ctr_batch_source *s, bool *counted,
                           struct ctr_err *err) CTR_MUST;
/* Rows per call for a minibatch model: as many whole minibatches as is efficient. */
int64_t ctr_trainer_rows_at_once(const struct ctr_trainer *t);
/* Once it is started: *s becomes the source of the rows that can be learned. */
int ctr_trainer_good_rows(const struct ctr_trainer *t, struct ctr_batch_source *s, struct ctr_err *err) CTR_MUST;
/* The same of rows that `in` makes; `more`: another rule, or NULL. bad NULL: all rows stay. */
int ctr_trainer_sieve(struct ctr_batch_source *s, const struct ctr_inputs *in, struct ctr_bad_rows *bad,
                      const struct ctr_rule *more, struct ctr_err *err) CTR_MUST;

/* ranks.c, with job.params.comm. Does the job go with ranks? */
int ctr_ranks_check(const struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
/* All ranks have the same options and a stream of the same schema, which has been read. */
int ctr_ranks_same(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* All ranks call it between minibatches: has this rank reached the end of its rows? The result is the next step of all
 * ranks. */
struct ctr_ranks_word {
    bool all_ended, stop, checkpoint, publish, validate;
};
int ctr_ranks_agree(struct ctr_trainer *t, bool ended, struct ctr_ranks_word *w, struct ctr_err *err) CTR_MUST;
/* At the end of the first pass: says whether ranks waited for each other because their shards differ. */
int ctr_ranks_balance(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Sum t->v over all ranks. */
int ctr_ranks_gather(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;

/* earlystop.c: after `row` rows of a pass, with none pending, score job.validation and keep the model if it is the best
 * so far; sets `stopped`. Then write the best model. */
int ctr_earlystop_now(struct ctr_trainer *t, int64_t row, bool ends_pass, struct ctr_err *err) CTR_MUST;
/* Is a validation due after a minibatch that ends at this row? */
bool ctr_earlystop_due(const struct ctr_trainer *t, int64_t row);
/* The first row after `row` at which one is due. */
int64_t ctr_earlystop_next(const struct ctr_trainer *t, int64_t row);
int ctr_earlystop_save(struct ctr_trainer *t, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* With checkpoints, the best model is in a file CHECKPOINT.best.N beside the checkpoint that refers to it: reopen that
 * of t->best; remove all except number `keep` (0: all). */
int ctr_earlystop_resume(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
void ctr_earlystop_free(struct ctr_trainer *t); /* a run that wrote no checkpoint leaves no such file */
void ctr_earlystop_sweep(const struct ctr_trainer *t, int64_t keep);

/* collapse.c: score the sample by the learner as it stands, with no row pending: sets `constant`. All ranks call it. */
int ctr_collapse_look(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;

/* When there is a checkpoint to go on from: sets shards.resumed and resumed_pass. */
int ctr_checkpoint_peek(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Load job.checkpoint into the learner, when there is one: sets resume, shards.at, v. */
int ctr_checkpoint_load(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
int ctr_checkpoint_write(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Once all tables are bound, in a run that goes on from a checkpoint: changes since are noted. */
int ctr_checkpoint_follow(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Open the store of predictions beside it. */
int ctr_checkpoint_open_store(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Remove temporaries of checkpoints left by a killed run: a checkpoint belongs to one run. */
void ctr_checkpoint_sweep(const struct ctr_trainer *t);
/* Remove the files that match CHECKPOINT + `behind` (a pattern) and for which `ours` accepts the text after
 * CHECKPOINT. */
void ctr_checkpoint_remove_files(const char *checkpoint, const char *behind,
                                 bool (*ours)(const char *path, const char *end, int64_t keep), int64_t keep);
/* Did a killed run leave this temporary? It starts like a checkpoint or like a model, or is empty, because file systems
 * without unnamed files create it before the first write. */
bool ctr_checkpoint_left(const char *path, bool model);
int ctr_checkpoint_check(const struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
void ctr_checkpoint_remove(struct ctr_trainer *t);

#endif
