/* SPDX-License-Identifier: Apache-2.0
 *
 * learn: a model learns from a stream of rows: passes, progressive validation, checkpoints and resume, early stopping.
 *
 *     source -> feed (rows, made ahead) -> model's train_rows -> progressive scores -> checkpoints, the model file
 *
 * It does not depend on the kind of model: that is a struct ctr_model. */
#ifndef CTR_LEARN_H
#define CTR_LEARN_H

#include <signal.h>

#include "common/model/model.h"

/* ---- training: trainer.c, checkpoint.c ---- */

/* Progressive validation so far; plain sums, so that a checkpoint can hold them. */
struct ctr_train_stats {
    int64_t rows;     /* seen, all passes */
    double weight;    /* sum of weights, first pass */
    double loss;      /* weighted log loss of progressive predictions, first pass; p is kept off 0 and 1 by 1e-15 */
    double positives; /* weighted labels, first pass */
    double since_weight, since_loss; /* since the last report */
    /* of the last row */
    double label, score;
    int64_t features;
};

/* How often something is done: after so many rows or milliseconds, at the end of a batch; 0: never. */
struct ctr_every {
    int64_t rows, ms;
};
bool ctr_every_parse(const char *text, struct ctr_every *every); /* "1000000" rows, or a time such as "10m" */

/* What becomes of rows whose time lies before that of an earlier row: they are counted and told of, not looked for, an
 * error. */
enum ctr_time_orders { CTR_TIME_WARN, CTR_TIME_IGNORE, CTR_TIME_FAIL };

/* The bias is the log-odds of the labels so far, until so many rows came, and so many labels of either class. */
#define CTR_INIT_AUTO -1.0
enum { CTR_INIT_ROWS = 1000, CTR_INIT_LABELS = 10 };

struct ctr_train_job {
    const struct ctr_model *model;
    struct ctr_params params;
    int64_t passes;
    int64_t memory_bytes;              /* 0: no bound */
    const char *label, *weight, *time; /* names that override roles, or NULL */
    enum ctr_time_orders time_order;   /* in the first pass, where there are times */
    const char *init;                  /* model to start from, or NULL */
    bool init_partial;                 /* of it, what has the same name and shape */
    double init_rate;                  /* click rate that the bias starts from; 0: as the model does; CTR_INIT_AUTO */
    const char *fitted;                /* fitted plan that the model takes along, or NULL */
    const char *validation;            /* input that is scored after each pass, or NULL; then … */
    int64_t validation_every; /* … also in a pass, at the first minibatch that ends after so many rows; 0: no */
    int64_t patience;         /* … so many times that bring nothing better end the run */
    const char *spool;        /* file that keeps the first pass for the later ones, or NULL */
    /* Open the input with these options, once a pass; or what `path` names, in place of it. o->parts > 1: that shard of
     * it (ctr_shard_files). */
    int (*open)(void *ctx, const char *path, const struct ctr_reader_opts *o, struct ctr_batch_source *s,
                struct ctr_err *err);
    /* Called when no input came for idle_ms, and between batches only: a checkpoint may be written then. */
    void (*idle)(void *ctx);
    int idle_ms;
    /* Make the writer of progressive predictions over this schema (NULL: none). The trainer writes rows to it, its
     * maker finishes and frees it. */
    int (*progressive)(void *ctx, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err);
    void (*report)(void *ctx, const struct ctr_train_stats *s); /* when the number of rows doubles, or NULL */
    void (*note)(void *ctx, const char *text);                  /* words for the user, or NULL */
    void (*saved)(void *ctx, const char *text);                 /* lines on what was saved on the way, or NULL */
    void *ctx;
    /* Save the model on the way, or NULL; called between batches. */
    int (*publish)(void *ctx, struct ctr_err *err);
    struct ctr_every publish_every;
    bool follow;                       /* the input may grow for ever: see ctr_reader_opts */
    const char *checkpoint;            /* file, or NULL */
    struct ctr_every checkpoint_every; /* besides on a stop */
    bool resume;
    const volatile sig_atomic_t *stop; /* not 0: write a checkpoint and stop; or NULL */
    const char *program, *options;     /* for provenance */
};

/* ---- over ranks: ranks.c ---- */

/* A process that a starter of MPI processes has started finds the others: job->params.comm becomes theirs, which
 * ctr_ranks_end frees, also after an error; NULL where it is the only one, which learns as without ranks. What does not
 * go with ranks is refused by ctr_trainer_new. */
int ctr_ranks_start(struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
/* After the run. `status` is not 0: it failed, and the others are ended when this process exits, which is after it said
 * why. */
void ctr_ranks_end(struct ctr_comm *c, int status);
/* The files of shard `part` of the n: every parts-th one, or, of one IPC file, the blocks; for ctr_reader_open. `path`
 * is the caller's to free. */
struct ctr_shard_files {
    char **path; /* borrowed names */
    int n, part, parts;
};
int ctr_shard_files(int part, int parts, char *const *path, int n, struct ctr_shard_files *mine,
                    struct ctr_err *err) CTR_MUST;

struct ctr_trainer;
int ctr_trainer_new(struct ctr_trainer **t, const struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
void ctr_trainer_free(struct ctr_trainer *t);
/* Runs the job to its end. After *job->stop: CTR_ESTOPPED, the checkpoint is written. */
enum { CTR_ESTOPPED = -100 };
int ctr_trainer_run(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Is the run still reading rows that its checkpoint has learned from? */
bool ctr_trainer_resuming(const struct ctr_trainer *t);
/* The input ends here, for now: an error where it had more rows when the checkpoint was made. */
int ctr_trainer_check_end(const struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Where a run ends before its input does, after its checkpoint: the rows that wait for the end of their minibatch are
 * learned as one that is shorter. */
int ctr_trainer_learn_waiting(struct ctr_trainer *t, struct ctr_err *err) CTR_MUST;
/* Call job.publish, and write a checkpoint, where it is due, or on a stop: from job.idle. */
int ctr_trainer_save_due(struct ctr_trainer *t, bool stop, struct ctr_err *err) CTR_MUST;
int ctr_trainer_save(struct ctr_trainer *t, int model, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
/* All models, each to an output of its own; when all are written, they are committed. */
int ctr_trainer_save_all(struct ctr_trainer *t, struct ctr_out *const *out, struct ctr_err *err) CTR_MUST;
/* Models that learn together: 1, or those of job.model->variant_ops. */
int ctr_trainer_models(const struct ctr_trainer *t);
/* When all outputs are safe: remove the checkpoint. */
void ctr_trainer_done(struct ctr_trainer *t);
/* Is this one of the names that the trainer keeps beside a checkpoint, replaced and removed
 * with it? path may be NULL. */
bool ctr_checkpoint_keeps(const char *checkpoint, const char *path);
/* Words for people, appended to `text`: a line of progress, with a heading above the first, and the summary. */
int ctr_train_progress(const struct ctr_train_stats *s, bool heading, struct ctr_buf *text,
                       struct ctr_err *err) CTR_MUST;
/* What a saving holds: keys, bytes, keys refused. `what`: model or checkpoint. */
int ctr_trainer_saved(const struct ctr_trainer *t, const char *what, struct ctr_buf *text,
                      struct ctr_err *err) CTR_MUST;
int ctr_trainer_summary(const struct ctr_trainer *t, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
int64_t ctr_trainer_rows(const struct ctr_trainer *t); /* that were learned from, also before a checkpoint */

#endif
