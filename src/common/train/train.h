/* SPDX-License-Identifier: Apache-2.0
 *
 * train: trains a model on a stream of rows: passes, progressive validation, checkpoints and resume, early stopping.
 *
 *     source -> feed (rows, made ahead) -> model's train_rows -> progressive scores -> checkpoints, the model file
 *
 * It works for every struct ctr_model. */
#ifndef CTR_TRAIN_H
#define CTR_TRAIN_H

#include <signal.h>

#include "common/model/model.h"

/* ---- training: trainer.c, checkpoint.c ---- */

/* Progressive validation so far; plain sums, so that a checkpoint can store them. */
struct ctr_train_stats {
    int64_t rows;     /* over all passes */
    double weight;    /* sum of weights, first pass */
    double loss;      /* weighted log loss of progressive predictions, first pass; p is clamped to [1e-15, 1 - 1e-15] */
    double positives; /* weighted labels, first pass */
    double since_weight, since_loss; /* sums since the last report */
    /* of the last row */
    double label, score;
    int64_t features;
};

/* An interval: rows or milliseconds, checked at the end of a batch; 0: never. */
struct ctr_every {
    int64_t rows, ms;
};
bool ctr_every_parse(const char *text, struct ctr_every *every); /* "1000000" rows, or a time such as "10m" */

/* What to do about rows whose time is before that of an earlier row: count and report, ignore, fail. */
enum ctr_time_orders { CTR_TIME_WARN, CTR_TIME_IGNORE, CTR_TIME_FAIL };

/* Keep the bias at the log-odds of the labels so far, until enough rows and enough labels of both classes have come. */
#define CTR_INIT_AUTO -1.0
enum { CTR_INIT_ROWS = 1000, CTR_INIT_LABELS = 10 };

struct ctr_learn_times {
    int64_t rows_ns;   /* reading the source, and making rows of its batches, on a thread of its own if there are two */
    int64_t waited_ns; /* learning waited for rows */
};

struct ctr_train_job {
    const struct ctr_model *model;
    struct ctr_params params;
    int64_t passes;
    int64_t memory_bytes;              /* 0: no bound */
    const char *label, *weight, *time; /* column names that override roles, or NULL */
    enum ctr_time_orders time_order;   /* in the first pass, if there is a time column */
    const char *init;                  /* model to start from, or NULL */
    bool init_partial;                 /* take only what has the same name and shape */
    double init_rate;                  /* click rate for the initial bias; 0: the model's default; CTR_INIT_AUTO */
    const char *fitted;                /* fitted plan to include in the model, or NULL */
    const char *validation;            /* input to score after each pass, or NULL */
    int64_t validation_every;          /* also within a pass, at the first minibatch end after so many rows; 0: no */
    int64_t patience;                  /* stop after so many validations without improvement */
    /* Of the input and of `validation`: rows that the model cannot learn from or score, see badrows.h. NULL: the first
     * one ends the run, and rows before it in its batch may not be learned. */
    struct ctr_bad_rows *bad, *bad_validation;
    const char *spool; /* file to keep the first pass for later passes, or NULL */
    /* Open the input with these options, once a pass; or what `path` names, in place of it. o->parts > 1: that shard of
     * it (ctr_shard_files). */
    int (*open)(void *ctx, const char *path, const struct ctr_reader_opts *o, struct ctr_batch_source *s,
                struct ctr_err *err);
    bool opens_again; /* `open` gives the same rows again: it can be called once more than there are passes */
    /* Called after idle_ms without input, and only between batches, where a checkpoint can be written. */
    void (*idle)(void *ctx);
    int idle_ms;
    /* Make the writer of progressive predictions for this schema (NULL: none). The trainer writes rows to it; the
     * callback's owner finishes and frees it. */
    int (*progressive)(void *ctx, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err);
    bool advises;  /* somebody reads ctr_trainer_advice: look for crosses that would help */
    bool unscored; /* no --progressive, report, summary or checkpoint: nobody needs predictions before updates */
    void (*report)(void *ctx, const struct ctr_train_stats *s); /* called when the number of rows doubles, or NULL */
    void (*note)(void *ctx, const char *text);                  /* text for the user, or NULL */
    void (*warn)(void *ctx, const char *text);                  /* that results are not what they seem, or NULL */
    void (*saved)(void *ctx, const char *text); /* summary lines of a model saved during the run, or NULL */
    void *ctx;
    struct ctr_learn_times *times; /* of a source's rows, set before it is closed; or NULL */
    /* Save the model during the run, or NULL; called between batches. */
    int (*publish)(void *ctx, struct ctr_err *err);
    struct ctr_every publish_every;
    bool follow;                       /* the input may grow without end: see ctr_reader_opts */
    const char *checkpoint;            /* file, or NULL */
    struct ctr_every checkpoint_every; /* also on stop */
    int64_t checkpoint_deltas;         /* this many checkpoints after a whole one are deltas: FILE.delta.1, … */
    bool resume;
    const volatile sig_atomic_t *stop; /* set: write a checkpoint and stop; or NULL */
    const char *program, *options;     /* for provenance */
};

/* ---- over ranks: ranks.c ---- */

/* A process that a starter of MPI processes has started finds the others: *c becomes theirs, which ctr_ranks_end frees,
 * also after an error; NULL where it is the only one, which learns as without ranks. */
int ctr_ranks_start(struct ctr_comm **c, struct ctr_err *err) CTR_MUST;
/* Make the job, whose model is chosen, that of one of these ranks. ctr_trainer_new refuses what does not go with them.
 */
void ctr_ranks_join(struct ctr_train_job *job, struct ctr_comm *c);
/* After the run. `status` is not 0: it failed, and the others are ended when this process exits, which is after it said
 * why. */
void ctr_ranks_end(struct ctr_comm *c, int status);
/* Fail on all ranks if they have other lists of files, by which some rows would be learned twice and others never: the
 * names must be the same in the same order, and of one file whose blocks are shared out the content, too. */
int ctr_ranks_same_files(struct ctr_comm *c, char *const *path, int n, const struct ctr_shard_files *mine,
                         struct ctr_err *err) CTR_MUST;
/* The same of files that every rank reads whole: the plan and the views that are not shared out. */
struct ctr_ranks_file {
    const char *what, *path;
};
int ctr_ranks_same_whole(struct ctr_comm *c, const struct ctr_ranks_file *file, int n, struct ctr_err *err) CTR_MUST;

struct ctr_trainer;
int ctr_trainer_new(struct ctr_trainer **t, const struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
void ctr_trainer_free(struct ctr_trainer *t);
/* Runs the job to its end. After *job->stop it returns CTR_ESTOPPED, with the checkpoint written. */
enum { CTR_ESTOPPED = -100 };
int ctr_trainer_run(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Is the run still skipping rows that its checkpoint has learned? */
bool ctr_trainer_resuming(const struct ctr_trainer *t);
/* The input ends here, for now: fail if it had more rows when the checkpoint was made. */
int ctr_trainer_check_end(const struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* The run ends before its input does: after the checkpoint, learn the rows that wait for a full minibatch as a shorter
 * one. */
int ctr_trainer_learn_waiting(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* From job.idle: call job.publish and write a checkpoint, if due or on a stop. */
int ctr_trainer_save_due(struct ctr_trainer *t, bool stop, struct ctr_err *err) CTR_MUST;
int ctr_trainer_save(struct ctr_trainer *t, int model, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* Write all models, each to its own output; commit when all are written. */
int ctr_trainer_save_all(struct ctr_trainer *t, struct ctr_out *const *out, struct ctr_err *err) CTR_MUST;
/* Number of models trained together: 1, or those of job.model->variant_ops. */
int ctr_trainer_models(const struct ctr_trainer *t);
/* Remove the checkpoint, once all outputs are safe. */
void ctr_trainer_done(struct ctr_trainer *t);
/* Is this a file that the trainer keeps beside a checkpoint and replaces and removes with it? path may be NULL. */
bool ctr_checkpoint_keeps(const char *checkpoint, const char *path);
/* Append text for people: a progress line, with a heading before the first, and the summary. */
int ctr_train_progress(const struct ctr_train_stats *s, bool heading, struct ctr_buf *text,
                       struct ctr_err *err) CTR_MUST;
/* Append the content of a saved file: keys, bytes, keys refused. `what`: model or checkpoint. */
int ctr_trainer_saved(const struct ctr_trainer *t, const char *what, struct ctr_buf *text,
                      struct ctr_err *err) CTR_MUST;
int ctr_trainer_summary(const struct ctr_trainer *t, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
/* Append lines of advice, if there are reasons: predictions worse than the mean label, few rows for one pass, a cross
 * that is missing. */
int ctr_trainer_advice(const struct ctr_trainer *t, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
/* Before the model is saved, with no row pending; all ranks call it: warn, or fail, if the model gives one score to all
 * of the last rows, a sample of some hundred (collapse.c). */
int ctr_trainer_check_scores(struct ctr_trainer *t, bool fail, struct ctr_err *err) CTR_MUST;
int64_t ctr_trainer_rows(const struct ctr_trainer *t); /* that were learned from, also before a checkpoint */

#endif
