/* SPDX-License-Identifier: Apache-2.0
 *
 * trainrun: a training run as its command line describes it, around the trainer of train/: where the rows come from,
 * which options go together, and where models and predictions go.
 *
 *     struct ctr_train run = { .cli = cli, .o = &options };
 *     ctr_train_take_plan(&run, &job, err)        a PLAN and its views, or files of features
 *     ctr_train_start_ranks(&run, err)            under mpirun
 *     … choose job.model …
 *     ctr_train_check(&run, &job, err)            options that exclude each other; fills the job
 *     ctr_train_open_outputs(&run, err)
 *     ctr_trainer_new(&run.trainer, &job, err), ctr_trainer_run
 *     ctr_train_finish(&run, err)
 *     ctr_train_free(&run, status)
 *
 * job.ctx is the run; ctr_train_open, ctr_train_open_progressive, ctr_train_publish and ctr_train_note are its
 * functions.
 */
#ifndef CTR_TRAINRUN_H
#define CTR_TRAINRUN_H

#include "common/cli/cli.h"
#include "common/rows/flow.h"
#include "common/train/train.h"

struct ctr_plan;

/* Options of all models, as given; texts are borrowed, NULL: not given. Options of one model are in `params`. */
struct ctr_train_opts {
    struct ctr_params params;
    const char *validation, *variants, *progressive, *time_order, *init, *init_bias, *plan, *checkpoint, *every, *spool,
        *save_every, *key_seed, *launch, *bad_rows;
    struct ctr_strs place;
    int64_t patience, validation_every, deltas, passes, queue;
    bool resume, init_partial, follow, single, lookup_anywhere, table, fail_constant;
};

struct ctr_train {
    struct ctr_cli *cli;
    const struct ctr_train_opts *o;
    const char *plan; /* extracts features from the input in this process, or NULL: the input is features */
    int first;        /* index of the first input file in the arguments */
    bool opened;      /* the training rows were opened before */
    bool flows;       /* the plan has statements and reads views: */
    struct ctr_flow_views views;
    const char *grows;                    /* with --follow: the file of the log, NULL: stdin */
    struct ctr_comm *comm;                /* the ranks started by mpirun, or NULL */
    struct ctr_stage_times extract_times; /* of its own thread, if it has one */
    struct ctr_learn_times learn_times;   /* job.times */
    struct ctr_bad_rows *bad_validation;  /* job.bad_validation; job.bad is the cli's */
    struct ctr_trainer *trainer;
    struct ctr_variants variants;
    struct ctr_out **out, *side; /* models, progressive */
    int outs, claim;             /* claim: the socket that claims -o, 0: none */
    struct ctr_writer *writer;   /* progressive */
};
/* `status`: of the run. If it failed, the other ranks are ended when this process exits. */
void ctr_train_free(struct ctr_train *run, int status);

/* Notes for the user and, with -v, for debugging; ctx is a struct ctr_train. */
void ctr_train_note(void *ctx, const char *text);
void ctr_train_warn(void *ctx, const char *text);
void ctr_train_debug(void *ctx, const char *text);

/* ---- input: train_input.c ---- */

/* If the first argument after the model is a plan, the run trains on the features that it extracts, and the model keeps
 * its fitted state. Sets run->plan, first, flows and views, and job->fitted. */
int ctr_train_take_plan(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
/* job.open */
int ctr_train_open(void *run, const char *path, const struct ctr_reader_opts *o, struct ctr_batch_source *s,
                   struct ctr_err *err);
/* Can the whole input be read a second time? */
bool ctr_train_reopens(const struct ctr_train *run);
/* Is it a followed file, whose end is reached when it is idle, rather than a slow pipe? */
bool ctr_train_follows_file(const struct ctr_train *run);
/* The share of --device-memory that the extraction gets. */
int64_t ctr_train_extraction_memory(const struct ctr_train *run);
/* The share of --memory that is not for the plan. */
int64_t ctr_train_learner_memory(const struct ctr_train *run);

/* ---- ranks: train_ranks.c ---- */

/* If mpirun started this process, find the others: run->comm. */
int ctr_train_start_ranks(struct ctr_train *run, struct ctr_err *err) CTR_MUST;
/* If there are ranks, make the job one of them: there must be files for each, and rank 0 alone writes the model and
 * reports. */
int ctr_train_join_ranks(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;

/* ---- options: train_check.c ---- */

/* Refuse options that exclude each other or that job->model lacks. Sets job->init_rate, checkpoint_every and
 * publish_every. */
int ctr_train_check(const struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
/* --bad-rows, once all inputs are registered. */
int ctr_train_take_bad_rows(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err) CTR_MUST;
/* The same for --checkpoint beside all other files; call it after they are registered. */
int ctr_train_check_checkpoint(const struct ctr_train *run, struct ctr_err *err) CTR_MUST;
/* The same for --variants: `many` learns all models of the file, NULL: the job's model cannot. Reads the file and makes
 * `many` the job's model. */
int ctr_train_take_variants(struct ctr_train *run, struct ctr_train_job *job, const struct ctr_model *many,
                            struct ctr_err *err) CTR_MUST;

/* ---- outputs: train_outputs.c ---- */

int ctr_train_open_outputs(struct ctr_train *run, struct ctr_err *err) CTR_MUST;
/* job.progressive */
int ctr_train_open_progressive(void *run, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err);
/* job.publish: save the current models; a process that reads a file meanwhile sees the previous one, complete. */
int ctr_train_publish(void *run, struct ctr_err *err);
/* Write all outputs, side outputs first. `resumes`: the run goes on another time, so its checkpoint stays. */
int ctr_train_finish(struct ctr_train *run, bool resumes, struct ctr_err *err) CTR_MUST;

#endif
