/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-train: trains a model on a stream of features. Options and wiring; a run is in train.h, training in
 * src/common/train. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli/cli.h"
#include "tools/ctr-train/modeloptions.h"
#include "tools/ctr-train/trainrun.h"

static struct ctr_train_opts o = { .time_order = "warn", .patience = 1, .passes = 1, .queue = CTR_FLOW_QUEUE };

/* Options of all models. Models' own options are in their tables. */
static const struct ctr_opt opts[] = {
    { "key-seed", 0, CTR_OPT_STR, "FILE", "hash the keys of PLAN with the secret in FILE", &o.key_seed, CTR_OPT_PATH,
      .group = CTR_GROUP_INPUT },
    { "lookup-anywhere", 0, CTR_OPT_FLAG, NULL, "allow lookup() in a fitted plan to read files outside its folder",
      &o.lookup_anywhere, CTR_OPT_LOCAL, .group = CTR_GROUP_INPUT },
    { "table", 0, CTR_OPT_FLAG, NULL, "the input is the result of PLAN's statements, which are not run", &o.table,
      CTR_OPT_LOCAL, .group = CTR_GROUP_INPUT },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, CTR_GROUP_INPUT),
    CTR_OPT_QUEUE(o.queue, CTR_GROUP_INPUT),
    { "place", 0, CTR_OPT_LIST, "NODE=cpu|gpu", "with --device gpu: force an operator of PLAN onto the CPU or the GPU",
      &o.place, CTR_OPT_LOCAL, .group = CTR_GROUP_INPUT },
    { "launch", 0, CTR_OPT_CHOICE, "meta|graph|each",
      "with --device gpu: run a layer of PLAN as one kernel, a CUDA graph or single kernels (default meta)", &o.launch,
      CTR_OPT_LOCAL, .group = CTR_GROUP_INPUT },
    { "passes", 0, CTR_OPT_INT, "N", "number of passes over the input, which must be files or have --spool (default 1)",
      &o.passes, CTR_OPT_SOME | CTR_OPT_BASIC, .group = CTR_GROUP_PASSES },
    { "validation", 0, CTR_OPT_STR, "FILE", "validate on FILE after each pass, and keep the best model", &o.validation,
      CTR_OPT_PATH | CTR_OPT_BASIC, .group = CTR_GROUP_PASSES },
    { "validation-every", 0, CTR_OPT_INT, "ROWS", "also validate within a pass, every ROWS rows", &o.validation_every,
      CTR_OPT_SOME, .needs = "validation", .group = CTR_GROUP_PASSES },
    { "patience", 0, CTR_OPT_INT, "N", "stop after N validations without improvement (default 1)", &o.patience,
      CTR_OPT_SOME, .needs = "validation", .group = CTR_GROUP_PASSES },
    { "spool", 0, CTR_OPT_STR, "FILE", "store the first pass in FILE and read later passes from there", &o.spool,
      CTR_OPT_PATH, .needs = "passes", .group = CTR_GROUP_PASSES },
    { "time-order", 0, CTR_OPT_CHOICE, "warn|ignore|fail", "what to do with rows out of time order (default warn)",
      &o.time_order, CTR_OPT_LOCAL, .group = CTR_GROUP_PASSES },
    { "follow", 0, CTR_OPT_FLAG, NULL, "wait for more input at its end; save the model regularly, and stop on SIGTERM",
      &o.follow, CTR_OPT_LOCAL, .group = CTR_GROUP_PASSES },
    { "progressive", 0, CTR_OPT_STR, "FILE", "write the prediction made for each row before learning from it",
      &o.progressive, CTR_OPT_PATH | CTR_OPT_BASIC, .group = CTR_GROUP_OUTPUTS },
    { "fail-constant", 0, CTR_OPT_FLAG, NULL, "fail if the model gives the same score to all of the last rows",
      &o.fail_constant, CTR_OPT_LOCAL, .group = CTR_GROUP_OUTPUTS },
    { "plan", 0, CTR_OPT_STR, "FITTED", "include the fitted plan in the model", &o.plan, CTR_OPT_PATH,
      .group = CTR_GROUP_OUTPUTS },
    { "save-every", 0, CTR_OPT_STR, "ROWS|TIME", "save the model at this interval (with --follow: default 1m)",
      &o.save_every, CTR_OPT_LOCAL, .group = CTR_GROUP_OUTPUTS },
    { "init", 0, CTR_OPT_STR, "MODEL", "start from the weights and optimizer state of MODEL", &o.init, CTR_OPT_PATH,
      .group = CTR_GROUP_RESTART },
    { "checkpoint", 0, CTR_OPT_STR, "FILE", "save the state of the run in FILE, for --resume", &o.checkpoint,
      CTR_OPT_PATH | CTR_OPT_BASIC, .group = CTR_GROUP_RESTART },
    { "checkpoint-every", 0, CTR_OPT_STR, "ROWS|TIME", "interval between checkpoints, such as 1000000 or 10m", &o.every,
      CTR_OPT_LOCAL, .needs = "checkpoint", .group = CTR_GROUP_RESTART },
    { "checkpoint-deltas", 0, CTR_OPT_INT, "N", "write a full checkpoint, then N deltas (FILE.delta.1 …)", &o.deltas,
      CTR_OPT_LOCAL, .needs = "checkpoint", .group = CTR_GROUP_RESTART },
    { "resume", 0, CTR_OPT_FLAG, NULL, "continue from the checkpoint if it exists", &o.resume, CTR_OPT_LOCAL,
      .needs = "checkpoint", .group = CTR_GROUP_RESTART },
    { 0 },
};

static bool has_bias(const struct ctr_model *m)
{
    return m->set_bias;
}

static bool has_partial_start(const struct ctr_model *m)
{
    return m->warm;
}

static bool has_variants(const struct ctr_model *m)
{
    return ctr_model_of_variants(m, false);
}

static bool has_single_value(const struct ctr_model *m)
{
    return ctr_model_of_variants(m, true);
}

/* Optional abilities of models. */
static const struct {
    bool (*can)(const struct ctr_model *m);
    struct ctr_opt opt;
} some_opts[] = {
    { has_bias,
      { "init-bias", 0, CTR_OPT_STR, "RATE|auto", "initial bias as a click rate; auto: that of the first rows",
        &o.init_bias, 0, .group = CTR_GROUP_MODEL } },
    { has_partial_start,
      { "init-partial", 0, CTR_OPT_FLAG, NULL, "take from --init only what has the same name and shape",
        &o.init_partial, 0, .needs = "init", .group = CTR_GROUP_RESTART } },
    { has_variants,
      { "variants", 0, CTR_OPT_STR, "FILE",
        "learn all models of FILE in one pass, one per line; -o m-%s.arrows names them", &o.variants, CTR_OPT_PATH,
        .group = CTR_GROUP_MANY } },
    { has_single_value,
      { "single-value", 0, CTR_OPT_FLAG, NULL, "variants share one weight per feature: less memory, slightly worse",
        &o.single, .needs = "variants", .group = CTR_GROUP_MANY } },
};

/* The options of a model, or of all models. */
static const struct ctr_opt *options_of(const char *word)
{
    static struct ctr_model_opts all, own;
    const struct ctr_model *model = word ? ctr_model_find(word) : NULL, *m;
    struct ctr_model_opts *t = word ? &own : &all;
    if (word && !model)
        return NULL;
    if (model)
        o.params = ctr_params_usual(model);
    t->n = 0;
    for (int i = 0; (m = ctr_model_at(i)); i++)
        if (!word || m == model)
            ctr_model_opts_take(t, m, &o.params);
    for (const struct ctr_opt *p = opts; p->name; p++)
        ctr_model_opts_add(t, p);
    for (size_t i = 0; i < CTR_COUNT(some_opts); i++)
        if (!model || some_opts[i].can(model))
            ctr_model_opts_add(t, &some_opts[i].opt);
    return ctr_model_opts_done(t);
}

static volatile sig_atomic_t stop;

/* The order of calls of `ctr-train lr click.plan day1.arrows -o m.arrows --checkpoint c.arrows`:
 *
 *     options_of("lr")        the options of lr, then those of all models: help, completion and parsing use one list
 *     ctr_train_take_plan     click.plan is a plan and no stream: rows are extracted on the way (trainrun.h)
 *     choose_learner          lr row by row on the CPU; with --minibatch 256 its learner by minibatches
 *     take_files              inputs before outputs, so that none is both
 *     ctr_trainer_run         the passes (train/trainer.c); calls back: report, saved, idle
 *     ctr_train_finish        the model is written and renamed into place
 *
 * SIGTERM sets `stop`. The trainer sees it, writes the checkpoint and returns CTR_ESTOPPED; where the input is idle, so
 * that no rows come, idle() saves and ends the process. */

/* ---- words on stderr ---- */

static void report(void *ctx, const struct ctr_train_stats *s)
{
    struct ctr_train *run = ctx;
    struct ctr_buf text = { 0 };
    struct ctr_err err = { 0 };
    static bool header;
    if (!run->cli->quiet && !ctr_train_progress(s, !header, &text, &err))
        fputs((const char *)text.data, stderr);
    header = true;
    ctr_buf_free(&text);
}

static void summary(const struct ctr_train *run)
{
    struct ctr_buf text = { 0 };
    struct ctr_err err = { 0 };
    if (!run->cli->quiet && !ctr_trainer_summary(run->trainer, &text, &err))
        fputs((const char *)text.data, stderr);
    ctr_buf_free(&text);
}

static void advise(const struct ctr_train *run)
{
    struct ctr_buf text = { 0 };
    struct ctr_err err = { 0 };
    int rc = ctr_trainer_advice(run->trainer, &text, &err);
    for (char *at = (char *)text.data, *end; !rc && text.len && (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        ctr_cli_note(run->cli, "%s", at);
    }
    ctr_buf_free(&text);
}

static void saved(void *ctx, const char *text)
{
    if (!((struct ctr_train *)ctx)->cli->quiet)
        fputs(text, stderr);
}

/* ---- input and outputs ---- */

static int stopped(struct ctr_err *err)
{
    err->file[0] = 0;
    return ctr_fail(err, CTR_EDATA,
                    "stopped by a signal; %s holds the state: run the same command with --resume to go on",
                    o.checkpoint);
}

/* A stop: with --follow it is the normal end of a run, otherwise there is a checkpoint to continue from. */
static int end_stopped(struct ctr_train *run, struct ctr_err *err)
{
    int rc = o.follow && !ctr_trainer_resuming(run->trainer) ? ctr_train_finish(run, true, err) : stopped(err);
    if (!rc)
        summary(run);
    return rc;
}

/* The input is idle: flush the output, and stop if that fails or a signal requested it. Another thread may be waiting
 * for input, so a stop ends the process here; the checkpoint is complete by then. */
static void idle(void *ctx)
{
    struct ctr_train *run = ctx;
    struct ctr_err err = { 0 }, second = { 0 };
    const bool stopping = stop;
    int rc = run->writer ? ctr_writer_flush(run->writer, &err) : 0;
    const int saved = ctr_trainer_save_due(run->trainer, stopping || rc, rc ? &second : &err);
    rc = rc ? rc : saved;
    if (!rc && !stopping && ctr_train_follows_file(run))
        rc = ctr_trainer_check_end(run->trainer, &err);
    if (!rc && !stopping)
        return;
    if (!rc)
        rc = end_stopped(run, &err);
    ctr_out_cleanup();
    if (rc)
        fprintf(stderr, "%s: %s\n", run->cli->tool->name, ctr_err_text(&err).s);
    _exit(rc ? 1 : 0);
}

/* A second signal within this time counts as the same stop: timeout(1) and others signal a program and then its
 * group. */
enum { SAME_STOP_MS = 1000 };

static void on_signal(int sig)
{
    static volatile int64_t first_ms;
    const int saved = errno;
    if (!stop)
        first_ms = ctr_clock_ms();
    else if (ctr_clock_ms() - first_ms >= SAME_STOP_MS) {
        ctr_out_cleanup();
        signal(sig, SIG_DFL);
        raise(sig);
    }
    stop = 1;
    errno = saved;
}

/* With a checkpoint, SIGTERM and SIGINT stop the run cleanly; a second one, at least a second later, ends it at
 * once. */
static void catch_stop(void)
{
    struct sigaction sa = { .sa_handler = on_signal };
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

/* ---- the run ---- */

/* Choose the device, and what learns: minibatches of a model may have a learner of their own. */
static int choose_learner(struct ctr_cli *cli, struct ctr_train_job *job, struct ctr_err *err)
{
    const struct ctr_model *by_minibatches = ctr_model_by_minibatches(job->model);
    const char *where = ctr_cli_wants_gpu(cli) ? "--device gpu" : cli->ranks.size ? "ranks (mpirun)" : NULL;
    const bool given = o.params.minibatch > 1 || ctr_cli_given(cli, "minibatch");
    if (by_minibatches != job->model && where && !given)
        return ctr_cli_usage(err, "%s: %s learns by minibatches there; say of how many rows: --minibatch ROWS", where,
                             job->model->name);
    if (o.params.minibatch > 1 || where)
        job->model = by_minibatches;
    else if (by_minibatches != job->model && o.params.prefetch)
        return ctr_cli_usage(err, "--prefetch goes with --minibatch and --spill, or with ranks (mpirun)");
    if (o.params.spill && o.variants)
        return ctr_cli_usage(err, "--spill keeps the keys of one model: leave it or --variants out");
    if (o.params.spill && o.deltas && !job->model->deep)
        return ctr_cli_usage(err, "--checkpoint-deltas: row by row with --spill, a checkpoint has all keys; leave it "
                                  "out, or learn by --minibatch");
    int rc = ctr_cli_device(cli, job->model->gpu, job->model->name, err);
    if (rc)
        return rc;
    job->params.device = cli->device;
    job->params.device_memory = cli->device_memory_bytes;
    return ctr_model_opts_fit(job->model, cli, &job->params, err);
}

static int run_job(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    int rc = ctr_train_open_outputs(run, err);
    if (!rc)
        rc = ctr_trainer_new(&run->trainer, job, err);
    if (!rc && (o.checkpoint || o.follow))
        catch_stop();
    if (!rc)
        rc = ctr_trainer_run(run->trainer, err);
    if (rc == CTR_ESTOPPED)
        return end_stopped(run, err);
    if (rc == CTR_ENOMEM && run->plan && run->cli->memory_bytes && !strstr(err->what, "of --memory"))
        ctr_err_add(err, " (of --memory %s the plan may take %s)", ctr_size_text((uint64_t)run->cli->memory_bytes).s,
                    ctr_size_text((uint64_t)(run->cli->memory_bytes - ctr_train_learner_memory(run))).s);
    if (!rc)
        rc = ctr_train_finish(run, o.follow && stop, err);
    if (!rc)
        summary(run);
    if (!rc)
        advise(run);
    if (!rc && !ctr_trainer_rows(run->trainer))
        ctr_cli_note(run->cli, "the input has no rows: the model has learned nothing");
    return rc;
}

/* Read the options that need no file. */
static int read_options(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    int rc = (job->model = ctr_model_find(cli->args[0])) ? 0 : ctr_cli_unknown(cli, "model", err);
    if (!rc)
        rc = choose_learner(cli, job, err);
    job->params.device_memory -= ctr_train_extraction_memory(run);
    job->params.memory_bytes = job->memory_bytes = ctr_train_learner_memory(run);
    return rc ? rc : ctr_train_check(run, job, err);
}

/* Register the options' files: first inputs, then outputs, so that none is both. */
static int take_files(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *const read[] = { o.init, o.validation, o.key_seed };
    int rc = job->fitted ? ctr_cli_reread(cli, &job->fitted, err) : 0;
    if (!rc)
        rc = ctr_model_opts_read(job->model, cli, &job->params, err);
    for (size_t i = 0; i < CTR_COUNT(read) && !rc; i++)
        rc = read[i] ? ctr_cli_read(cli, read[i], err) : 0;
    if (!rc && o.checkpoint)
        rc = ctr_train_check_checkpoint(run, err);
    if (!rc && o.spool)
        rc = ctr_cli_written(cli, o.spool, err);
    if (!rc && o.variants)
        rc = ctr_train_take_variants(run, job, ctr_model_of_variants(job->model, o.single), err);
    return rc ? rc : ctr_train_take_bad_rows(run, job, err);
}

static enum ctr_time_orders time_order(void)
{
    static const char *const word[] = {
        [CTR_TIME_WARN] = "warn", [CTR_TIME_IGNORE] = "ignore", [CTR_TIME_FAIL] = "fail"
    };
    int i = CTR_COUNT(word) - 1;

    while (i && strcmp(word[i], o.time_order))
        i--;
    return (enum ctr_time_orders)i;
}

/* The options as a job of the trainer. */
static struct ctr_train_job job_of(struct ctr_train *run)
{
    const struct ctr_cli *cli = run->cli;
    struct ctr_train_job job = {
        .params = o.params,
        .passes = o.passes,
        .label = cli->role[CTR_ROLE_LABEL],
        .weight = cli->role[CTR_ROLE_WEIGHT],
        .time = cli->role[CTR_ROLE_TIME],
        .time_order = time_order(),
        .init = o.init,
        .init_partial = o.init_partial,
        .spool = o.spool,
        .validation = o.validation,
        .validation_every = o.validation_every,
        .patience = o.patience,
        .fitted = o.plan,
        .open = ctr_train_open,
        .idle = idle,
        .idle_ms = (int)cli->flush_ms,
        .progressive = o.progressive ? ctr_train_open_progressive : NULL,
        .advises = cli->verbose > 0,
        .unscored = cli->quiet && !o.progressive && !o.checkpoint,
        .report = report,
        .note = ctr_train_note,
        .warn = ctr_train_warn,
        .saved = saved,
        .ctx = run,
        .publish = ctr_train_publish,
        .times = &run->learn_times,
        .follow = o.follow,
        .checkpoint = o.checkpoint,
        .checkpoint_deltas = o.deltas,
        .resume = o.resume,
        .stop = &stop,
        .program = cli->tool->name,
        .options = cli->provenance,
    };
    job.params.threads = (int)cli->jobs;
    job.params.seed = (int64_t)cli->seed;
    return job;
}

static int train(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_train run = { .cli = cli, .o = &o, .first = 1 };
    struct ctr_train_job job = job_of(&run);
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (!rc)
        rc = ctr_train_take_plan(&run, &job, err);
    if (!rc)
        rc = ctr_train_start_ranks(&run, err);
    if (!rc)
        rc = read_options(&run, &job, err);
    if (!rc)
        rc = ctr_train_join_ranks(&run, &job, err);
    if (!rc)
        rc = take_files(&run, &job, err);
    if (!rc)
        rc = run_job(&run, &job, err);
    if (rc && !run.plan && cli->nargs > 2)
        ctr_plan_tell_misplaced(cli->args + 2, cli->nargs - 2, err);
    ctr_train_free(&run, rc);
    return rc;
}

static const char *model(int i)
{
    return ctr_model_at(i) ? ctr_model_at(i)->name : NULL;
}

static const char *model_summary(int i)
{
    return ctr_model_at(i)->summary;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-train",
    .summary = "learn a model from a stream of features",
    .synopsis = "MODEL [PLAN] [FILE…|VIEW=FILE…]",
    .opts = opts,
    .flags = CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_ROLE(CTR_ROLE_WEIGHT) | CTR_TOOL_ROLE(CTR_ROLE_TIME) |
             CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_SEED | CTR_TOOL_DEVICE,
    .run = train,
    .word = model,
    .opts_of = options_of,
    .word_help = model_summary,
};
