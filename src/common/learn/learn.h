/* SPDX-License-Identifier: Apache-2.0
 *
 * learn: a model learns from a stream of rows: passes, progressive validation, checkpoints and resume, early stopping.
 *
 *     source -> feed (rows, made ahead) -> model's train_rows -> progressive scores -> checkpoints, the model file
 *
 * It does not know what is learned: that is a struct ctr_model. */
#ifndef CTR_LEARN_H
#define CTR_LEARN_H

#include <signal.h>

#include "common/model/model.h"

/* ---- batch sources: batch_source.c ---- */

/* Where rows come from: a stream or files; the stages of a plan in this process. A source is opened anew for each pass,
 * and for a stream to validate on. Its position is the number of rows that it has handed out; the digest of rows is the
 * feed's and the same for every source, so that a run that is resumed goes over the rows that it knows and checks them.
 */
struct ctr_batch_source_ops {
    const struct ctr_schema *(*schema)(const void *source);
    /* 1: *b is the next batch, borrowed until the next call; 0: the end, and the input was whole; < 0: an error. */
    int (*next)(void *source, const struct ctr_batch **b, struct ctr_err *err);
    const char *(*name)(const void *source); /* of the file that is read, for messages; valid until close */
    void (*close)(void *source);
};
struct ctr_batch_source {
    const struct ctr_batch_source_ops *ops; /* NULL: not open */
    void *source;
};
static inline const struct ctr_schema *ctr_batch_source_schema(const struct ctr_batch_source *s)
{
    return s->ops->schema(s->source);
}
static inline int ctr_batch_source_next(const struct ctr_batch_source *s, const struct ctr_batch **b,
                                        struct ctr_err *err)
{
    return s->ops->next(s->source, b, err);
}
static inline const char *ctr_batch_source_name(const struct ctr_batch_source *s)
{
    return s->ops->name(s->source);
}
static inline void ctr_batch_source_close(struct ctr_batch_source *s)
{
    if (s->ops)
        s->ops->close(s->source);
    s->ops = NULL;
}
/* The batches of a reader, which the source frees. */
struct ctr_batch_source ctr_batch_source_stream(struct ctr_reader *r);
/* What a plan extracts from the batches of a reader: the schema and rows of a stream of ctr-extract. The source frees
 * both, now where it fails. memory_bytes: as of ctr_program_memory. */
struct ctr_plan;
int ctr_batch_source_extract(struct ctr_batch_source *s, struct ctr_reader *r, struct ctr_plan *plan, int threads,
                             int64_t memory_bytes, struct ctr_err *err) CTR_MUST;
/* From here on batches of *s have `rows` rows each, counted from its start; fewer where a file ends, or the input
 * breaks off. On an error *s is as it was. */
int ctr_batch_source_regroup(struct ctr_batch_source *s, int64_t rows, struct ctr_err *err) CTR_MUST;

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
    double init_rate;                  /* click rate that the bias starts from; 0: as the model does; CTR_INIT_AUTO */
    const char *fitted;                /* fitted plan that the model takes along, or NULL */
    const char *validation;            /* input that is scored after each pass, or NULL; then … */
    int64_t validation_every; /* … also in a pass, at the first minibatch that ends after so many rows; 0: no */
    int64_t patience;         /* … so many times that bring nothing better end the run */
    const char *spool;        /* file that keeps the first pass for the later ones, or NULL */
    /* Open the input with these options, once a pass; or what `path` names, in place of it. */
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
/* Models that learn together: 1, or those of job.model->many. */
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

#endif
