/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-train: trains a model on a stream of features. Options and wiring; training is in src/common/learn. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli/cli.h"
#include "common/comm/comm.h"
#include "common/flow/flow.h"
#include "common/gpu/gpu.h"
#include "common/lang/lang.h"
#include "common/learn/learn.h"
#include "common/models/models.h"
#include "common/variants/variants.h"

static struct {
    struct ctr_params params;
    const char *validation, *variants, *progressive, *time_order, *init, *init_bias, *plan, *checkpoint, *every, *spool,
        *save_every;
    int64_t patience, validation_every, deltas;
    int64_t passes, queue;
    const char *key_seed;
    bool resume, init_partial, follow, single, lookup_anywhere, table;
} o = { .time_order = "warn", .patience = 1, .passes = 1, .queue = CTR_FLOW_QUEUE };

/* Options of all models. Models' own options are in their tables. */
static const struct ctr_opt opts[] = {
    { "key-seed", 0, CTR_OPT_STR, "FILE", "PLAN makes keys with the secret in FILE", &o.key_seed, CTR_OPT_PATH,
      .group = CTR_GROUP_INPUT },
    { "lookup-anywhere", 0, CTR_OPT_FLAG, NULL, "let lookup() of a PLAN that is fitted read files outside its folder",
      &o.lookup_anywhere, CTR_OPT_LOCAL, .group = CTR_GROUP_INPUT },
    { "table", 0, CTR_OPT_FLAG, NULL, "the input is the table that PLAN's statements make", &o.table, CTR_OPT_LOCAL,
      .group = CTR_GROUP_INPUT },
    CTR_OPT_QUEUE(o.queue, CTR_GROUP_INPUT),
    { "passes", 0, CTR_OPT_INT, "N", "go over the input N times (files, or --spool)", &o.passes, CTR_OPT_SOME,
      .group = CTR_GROUP_PASSES },
    { "validation", 0, CTR_OPT_STR, "FILE", "score FILE after each pass; the best is the model", &o.validation,
      CTR_OPT_PATH, .group = CTR_GROUP_PASSES },
    { "validation-every", 0, CTR_OPT_INT, "ROWS", "also in a pass, when a minibatch ends after so many rows",
      &o.validation_every, CTR_OPT_SOME, .needs = "validation", .group = CTR_GROUP_PASSES },
    { "patience", 0, CTR_OPT_INT, "N", "stop after N times that --validation finds no better (default 1)", &o.patience,
      CTR_OPT_SOME, .needs = "validation", .group = CTR_GROUP_PASSES },
    { "spool", 0, CTR_OPT_STR, "FILE", "keep the first pass in FILE for the later ones", &o.spool, CTR_OPT_PATH,
      .needs = "passes", .group = CTR_GROUP_PASSES },
    { "time-order", 0, CTR_OPT_CHOICE, "warn|ignore|fail", "what rows with a time before an earlier one's are (warn)",
      &o.time_order, CTR_OPT_LOCAL, .group = CTR_GROUP_PASSES },
    { "follow", 0, CTR_OPT_FLAG, NULL, "the input may grow for ever; save the model on the way, and end on SIGTERM",
      &o.follow, CTR_OPT_LOCAL, .group = CTR_GROUP_PASSES },
    { "progressive", 0, CTR_OPT_STR, "FILE", "write predictions made before each update", &o.progressive, CTR_OPT_PATH,
      .group = CTR_GROUP_OUTPUTS },
    { "plan", 0, CTR_OPT_STR, "FITTED", "put the fitted plan into the model", &o.plan, CTR_OPT_PATH,
      .group = CTR_GROUP_OUTPUTS },
    { "save-every", 0, CTR_OPT_STR, "ROWS|TIME", "save the model so often (with --follow: default 1m)", &o.save_every,
      CTR_OPT_LOCAL, .group = CTR_GROUP_OUTPUTS },
    { "init", 0, CTR_OPT_STR, "MODEL", "start from the state of MODEL", &o.init, CTR_OPT_PATH,
      .group = CTR_GROUP_RESTART },
    { "init-partial", 0, CTR_OPT_FLAG, NULL, "deep models: take of --init what has the same name and shape",
      &o.init_partial, 0, .needs = "init", .group = CTR_GROUP_RESTART },
    { "checkpoint", 0, CTR_OPT_STR, "FILE", "keep in FILE what --resume needs", &o.checkpoint, CTR_OPT_PATH,
      .group = CTR_GROUP_RESTART },
    { "checkpoint-every", 0, CTR_OPT_STR, "ROWS|TIME", "how often, such as 1000000 or 10m", &o.every, CTR_OPT_LOCAL,
      .needs = "checkpoint", .group = CTR_GROUP_RESTART },
    { "checkpoint-deltas", 0, CTR_OPT_INT, "N",
      "of a checkpoint and the N that follow, write what changed: FILE.delta.1 …", &o.deltas, CTR_OPT_LOCAL,
      .needs = "checkpoint", .group = CTR_GROUP_RESTART },
    { "resume", 0, CTR_OPT_FLAG, NULL, "go on from the checkpoint, if there is one", &o.resume, CTR_OPT_LOCAL,
      .needs = "checkpoint", .group = CTR_GROUP_RESTART },
    { 0 },
};

static bool has_bias(const struct ctr_model *m)
{
    return m->set_bias;
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
      { "init-bias", 0, CTR_OPT_STR, "RATE|auto", "lr: start the bias from this click rate, or that of the first rows",
        &o.init_bias, 0, .group = CTR_GROUP_MODEL } },
    { has_variants,
      { "variants", 0, CTR_OPT_STR, "FILE", "learn the models of FILE together, a line each; -o m-%s.arrows names them",
        &o.variants, CTR_OPT_PATH, .group = CTR_GROUP_MANY } },
    { has_single_value,
      { "single-value", 0, CTR_OPT_FLAG, NULL, "--variants share one value a coordinate, at a small loss", &o.single,
        .needs = "variants", .group = CTR_GROUP_MANY } },
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

struct run {
    struct ctr_cli *cli;
    const char *plan; /* extracts features from the input in this process, or NULL: the input is features */
    int first;        /* index of the first input file in the arguments */
    bool flows;       /* the plan has statements and reads views: */
    struct ctr_flow_views views;
    struct ctr_comm *comm; /* the ranks started by mpirun, or NULL */
    struct ctr_stage_times extract_times;
    struct ctr_trainer *trainer;
    struct ctr_variants variants;
    struct ctr_out **out, *side; /* models, progressive */
    int outs;
    struct ctr_writer *writer; /* progressive */
    bool header;
};

/* ---- words on stderr ---- */

static void report(void *ctx, const struct ctr_train_stats *s)
{
    struct run *run = ctx;
    struct ctr_buf text = { 0 };
    struct ctr_err err = { 0 };
    if (!run->cli->quiet && !ctr_train_progress(s, !run->header, &text, &err))
        fputs((const char *)text.data, stderr);
    run->header = true;
    ctr_buf_free(&text);
}

static void summary(const struct run *run)
{
    struct ctr_buf text = { 0 };
    struct ctr_err err = { 0 };
    if (!run->cli->quiet && !ctr_trainer_summary(run->trainer, &text, &err))
        fputs((const char *)text.data, stderr);
    ctr_buf_free(&text);
}

static void note(void *ctx, const char *text)
{
    ctr_cli_note(((struct run *)ctx)->cli, "%s", text);
}

static void saved(void *ctx, const char *text)
{
    if (!((struct run *)ctx)->cli->quiet)
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

static int finish(struct run *run, struct ctr_err *err)
{
    bool side_last = run->side && ctr_out_is_stdout(run->side);
    int rc = ctr_trainer_learn_waiting(run->trainer, err);
    if (!rc && run->side && !side_last)
        rc = ctr_cli_finish(run->cli, run->writer, run->side, err);
    if (!rc && run->outs == 1) {
        rc = ctr_trainer_save(run->trainer, 0, run->out[0], err);
        if (!rc)
            rc = ctr_out_commit(run->out[0], err);
    } else if (!rc)
        rc = ctr_trainer_save_all(run->trainer, run->out, err);
    if (!rc && side_last)
        rc = ctr_cli_finish(run->cli, run->writer, run->side, err);
    if (!rc) /* a rank must not exit successfully before the model is in place */
        rc = ctr_comm_barrier(run->comm, err);
    if (!rc && !(o.follow && stop)) /* a stopped run with --follow continues from its checkpoint */
        ctr_trainer_done(run->trainer);
    return rc;
}

/* The file of a model: -o; for a variant, %s in it is replaced by its name. */
static int model_path(const char *pattern, const char *name, struct ctr_buf *path, struct ctr_err *err)
{
    const char *at = name ? strstr(pattern, "%s") : NULL;
    ctr_buf_clear(path);
    if (!at)
        return ctr_buf_printf(path, err, "%s", pattern);
    return ctr_buf_printf(path, err, "%.*s%s%s", (int)(at - pattern), pattern, name, at + 2);
}

/* Save the current model; a process that reads the file meanwhile sees the previous one, complete. */
static int publish(void *ctx, struct ctr_err *err)
{
    struct run *run = ctx;
    struct ctr_buf path = { 0 };
    int rc = 0;
    for (int i = 0; i < run->outs && !rc; i++) {
        struct ctr_out *out = NULL;
        rc = model_path(run->cli->out, run->variants.n ? run->variants.v[i].name : NULL, &path, err);
        if (!rc)
            rc = ctr_out_open(&out, (const char *)path.data, CTR_OUT_BINARY, err);
        if (!rc)
            rc = ctr_trainer_save(run->trainer, i, out, err);
        if (!rc)
            rc = ctr_out_commit(out, err);
        ctr_out_free(out);
    }
    ctr_buf_free(&path);
    return rc;
}

/* A stop: with --follow it is the normal end of a run, otherwise there is a checkpoint to continue from. */
static int end_stopped(struct run *run, struct ctr_err *err)
{
    int rc = o.follow && !ctr_trainer_resuming(run->trainer) ? finish(run, err) : stopped(err);
    if (!rc)
        summary(run);
    return rc;
}

/* Is it a followed file, whose end is reached when it is idle, rather than a slow pipe? */
static bool follows_file(const struct run *run)
{
    const struct ctr_cli *cli = run->cli;
    struct stat st;
    const char *path = run->first < cli->nargs ? cli->args[run->first] : "-";
    return o.follow && !(strcmp(path, "-") ? stat(path, &st) : fstat(STDIN_FILENO, &st)) && S_ISREG(st.st_mode);
}

/* The input is idle: flush the output, and stop if a signal requested it. Another thread may be waiting for input, so a
 * stop ends the process here; the checkpoint is complete by then. */
static void idle(void *ctx)
{
    struct run *run = ctx;
    struct ctr_err err = { 0 };
    if (run->writer && ctr_writer_flush(run->writer, &err))
        run->writer = NULL; /* the next write reports the error */
    const bool stopping = stop;
    int rc = ctr_trainer_save_due(run->trainer, stopping, &err);
    if (!rc && !stopping && follows_file(run))
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

static int open_plan(const char *path, struct ctr_plan **plan, struct ctr_err *err)
{
    int rc = ctr_plan_open(plan, path, err);
    if (!rc && o.key_seed)
        rc = ctr_plan_key_seed(*plan, o.key_seed, err);
    if (!rc && o.lookup_anywhere)
        ctr_plan_lookup_anywhere(*plan);
    return rc;
}

static void debug(void *ctx, const char *text)
{
    ctr_cli_debug(((struct run *)ctx)->cli, "%s", text);
}

static bool can_reopen(const struct run *run)
{
    const struct ctr_cli *cli = run->cli;
    bool can = cli->nargs > run->first || run->flows;
    for (int i = run->first; i < cli->nargs && !run->flows; i++)
        can = can && ctr_cli_reopens(cli->args[i]);
    for (int i = 0; i < run->views.n; i++)
        can = can && ctr_cli_reopens(run->views.file[i].path);
    return can;
}

/* Does the extraction from views get its own thread? Not if it might block on a pipe. */
static bool own_thread(const struct run *run)
{
    return run->flows && run->cli->jobs > 1 && can_reopen(run);
}

/* Open the table of the statements. Its stages replace `ahead`. */
static int open_views(struct run *run, const struct ctr_plan *plan, const struct ctr_reader_opts *how,
                      struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_flow_opts fo = { .threads = (int)CTR_MIN(run->cli->jobs, (int64_t)1024),
                                      .queue = (int)o.queue,
                                      .memory_bytes = run->cli->memory_bytes,
                                      .batch_rows = run->cli->batch_rows,
                                      .reader = how,
                                      .last = "extract",
                                      .last_times = own_thread(run) ? &run->extract_times : NULL,
                                      .after = "train",
                                      .note = note,
                                      .debug = debug,
                                      .time_line = run->cli->verbose > 1,
                                      .ctx = run };
    return ctr_flow_open(s, plan, &run->views, &fo, err);
}

/* One of the shards of the files. */
static int open_shard(const struct run *run, const struct ctr_reader_opts *want, struct ctr_reader **r,
                      struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_shard_files files = { 0 };
    struct ctr_reader_opts how = *want;
    int rc = ctr_cli_inputs(cli, run->first, err);
    if (!rc)
        rc = ctr_shard_files(want->part, want->parts, cli->args + run->first, cli->nargs - run->first, &files, err);
    how.part = files.part;
    how.parts = files.parts;
    if (!rc)
        rc = ctr_reader_open(r, files.path, files.n, &how, err);
    free(files.path);
    return rc;
}

static int open_stream(struct run *run, const char *path, const struct ctr_reader_opts *how, struct ctr_batch_source *s,
                       struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)path };
    struct ctr_reader *r;
    int rc = path             ? ctr_reader_open(&r, paths, 1, how, err)
             : how->parts > 1 ? open_shard(run, how, &r, err)
                              : ctr_cli_reader(run->cli, run->first, how, &r, err);
    if (!rc)
        *s = ctr_batch_source_stream(r);
    return rc;
}

/* A quarter of --device-memory is for the extraction, the rest for the model. */
static int64_t extraction_memory(const struct run *run)
{
    return run->plan ? run->cli->device_memory_bytes / 4 : 0;
}

static int open_extraction(struct run *run, struct ctr_batch_source *s, struct ctr_plan *plan, struct ctr_err *err)
{
    const struct ctr_gpu_opts go = { .device = run->cli->device,
                                     .optional = !strncmp(run->cli->device, "auto", 4),
                                     .memory_bytes = extraction_memory(run),
                                     .note = note,
                                     .debug = debug,
                                     .ctx = run };
    const struct ctr_plan_source_opts so = { .threads = (int)CTR_MIN(run->cli->jobs, (int64_t)1024),
                                             .memory_bytes = run->cli->memory_bytes,
                                             .gpu = strcmp(run->cli->device, "cpu") ? &go : NULL };
    return ctr_plan_source(s, plan, &so, err);
}

static int open_input(void *ctx, const char *path, const struct ctr_reader_opts *ro, struct ctr_batch_source *s,
                      struct ctr_err *err)
{
    struct run *run = ctx;
    struct ctr_reader_opts how = ro ? *ro : (struct ctr_reader_opts){ 0 };
    if (!path)
        run->extract_times = (struct ctr_stage_times){ 0 };
    struct ctr_plan *plan = NULL;
    how.foreign = run->plan; /* columns that the plan does not read may have any type */
    int rc = run->plan ? open_plan(run->plan, &plan, err) : 0;
    if (!rc)
        rc = run->flows && !path ? open_views(run, plan, &how, s, err) : open_stream(run, path, &how, s, err);
    if (!rc && plan)
        rc = open_extraction(run, s, plan, err);
    if (!rc && !path && own_thread(run)) {
        rc = ctr_batch_source_queue(s, (int)o.queue, &run->extract_times, err);
        plan = NULL; /* the source owns it */
    }
    if (rc) {
        ctr_batch_source_close(s);
        ctr_plan_free(plan);
    }
    return rc;
}

static int open_progressive(void *ctx, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err)
{
    struct run *run = ctx;
    int rc = ctr_cli_writer(run->cli, run->side, s, &run->writer, err);
    run->cli->idle_writer = NULL; /* idle() flushes it */
    *w = run->writer;
    return rc;
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

static int check_checkpoint(const struct run *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *others[] = { cli->out, o.progressive, o.spool };
    const char *bad = NULL;
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        bad = ctr_checkpoint_keeps(o.checkpoint, others[i]) ? others[i] : bad;
    for (int i = 1; i < cli->nargs; i++)
        bad = ctr_checkpoint_keeps(o.checkpoint, cli->args[i]) ? cli->args[i] : bad;
    for (int i = 0; i < run->views.n; i++)
        bad = ctr_checkpoint_keeps(o.checkpoint, run->views.file[i].path) ? run->views.file[i].path : bad;
    if (bad)
        return ctr_cli_usage(err, "%s is the name of a file that --checkpoint %s keeps: choose another", bad,
                             o.checkpoint);
    return ctr_cli_written(cli, o.checkpoint, err);
}

static int check_options(const struct run *run, struct ctr_err *err)
{
    if (o.passes > 1 && !o.spool && !can_reopen(run))
        return ctr_cli_usage(err, "--passes %" PRId64 " needs files that can be read again, or --spool FILE", o.passes);
    if (o.passes > 1 && o.params.expire)
        return ctr_cli_usage(err, "--expire follows the time of one pass: leave --passes out");
    return 0;
}

/* Choose the device: the model for a GPU may differ from that for the CPU. */
static int choose_device(struct ctr_cli *cli, struct ctr_train_job *job, struct ctr_err *err)
{
    const bool by_rows = o.params.minibatch == 1 && !ctr_cli_given(cli, "minibatch");
    const struct ctr_model *device = job->model->device;
    if (device && by_rows && ctr_cli_wants_gpu(cli))
        return ctr_cli_usage(err,
                             "--device gpu: %s learns by minibatches there; say of how many rows: --minibatch ROWS",
                             job->model->name);
    const bool alone = device != job->model && cli->ranks.size; /* its learner on a GPU knows no ranks */
    const char *what = alone ? "a linear model over ranks" : job->model->name;
    int rc = ctr_cli_device(cli, device && !by_rows && !alone, what, err);
    if (rc)
        return rc;
    if (device && strcmp(cli->device, "cpu") != 0)
        job->model = device;
    job->params.device = cli->device;
    job->params.device_memory = cli->device_memory_bytes;
    job->params.memory_bytes = cli->memory_bytes;
    rc = ctr_model_opts_of_device(job->model, cli, &job->params, err);
    if (!rc && job->params.spill && job->model->spill)
        job->model = job->model->spill;
    else if (!rc && job->model->by_ranks && job->model->by_ranks(&job->params))
        job->model = job->model->ranks;
    return rc;
}

static int check_init_bias(struct ctr_train_job *job, struct ctr_err *err)
{
    double rate = CTR_INIT_AUTO;
    if (!o.init_bias || !strcmp(o.init_bias, "0"))
        return 0;
    if (strcmp(o.init_bias, "auto") != 0 &&
        (!ctr_parse_f64(o.init_bias, strlen(o.init_bias), &rate) || !(rate > 0 && rate < 1)))
        return ctr_cli_usage(
            err, "--init-bias wants a click rate between 0 and 1, auto, or 0 for a bias of 0, not '%s'", o.init_bias);
    if (!job->model->set_bias)
        return ctr_cli_usage(err, "models of kind %s take no --init-bias%s", job->model->name,
                             ctr_model_where(job->model));
    if (o.single)
        return ctr_cli_usage(err, "--init-bias starts the bias of each model: leave --single-value out");
    if (o.init)
        return ctr_cli_usage(err, "--init-bias and --init both say where the bias starts");
    if (o.params.no_bias && !o.variants)
        return ctr_cli_usage(err, "--init-bias has no bias to start, with --no-bias");
    job->init_rate = rate;
    return 0;
}

static int check_init(const struct ctr_train_job *job, struct ctr_err *err)
{
    if (job->init_partial && !job->model->warm)
        return ctr_cli_usage(err, "%s%s takes no --init-partial: choose rows of the model with ctr-select",
                             job->model->name, ctr_model_where(job->model));
    return 0;
}

static int check_uncertainty(const struct ctr_train_job *job, struct ctr_err *err)
{
    if (!job->params.uncertainty)
        return 0;
    if (o.variants)
        return ctr_cli_usage(err, "--uncertainty is that of one model: leave --variants out");
    if (!job->model->predict_uncertain)
        return ctr_cli_usage(err, "models of kind %s have no uncertainty%s", job->model->name,
                             ctr_model_where(job->model));
    return 0;
}

static int check_validation(const struct ctr_train_job *job, struct ctr_err *err)
{
    if (!job->model->evaluate)
        return ctr_cli_usage(err, "%s takes no --validation%s", job->model->name,
                             job->params.spill ? " with --spill" : "");
    if (o.follow)
        return ctr_cli_usage(err, "--validation keeps the best model of a run that ends: leave --follow out");
    if (o.validation_every && o.progressive)
        return ctr_cli_usage(err, "--validation-every may end the run in its first pass, before all predictions are "
                                  "made: leave --progressive out");
    return 0;
}

static int read_variants(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    const char *at = run->cli->out ? strstr(run->cli->out, "%s") : NULL;
    if (!o.variants)
        return 0;
    if (!at || strchr(at + 1, '%') || strchr(run->cli->out, '%') != at)
        return ctr_cli_usage(err,
                             "--variants writes a model each: -o wants one %%s for the name, such as m-%%s.arrows");
    const struct ctr_model *many = ctr_model_of_variants(job->model, o.single);
    if (!many)
        return ctr_cli_usage(err, "%s%s takes no --variants", job->model->name, ctr_model_where(job->model));
    if (o.deltas)
        return ctr_cli_usage(err, "--checkpoint-deltas are of one model: leave --variants out");
    if (o.validation)
        return ctr_cli_usage(err, "--validation chooses the best of one model: leave --variants out");
    if (o.params.expire)
        return ctr_cli_usage(err, "--expire drops keys of one model: leave --variants out");
    if (job->params.minibatch > 1)
        return ctr_cli_usage(err, "--variants learn row by row: leave --minibatch out");
    int rc = ctr_cli_read(run->cli, o.variants, err);
    if (!rc)
        rc = ctr_variants_read(&run->variants, o.variants, &job->params, err);
    if (!rc && job->init_rate == CTR_INIT_AUTO && run->variants.weights.n)
        rc = ctr_cli_usage(err,
                           "--init-bias auto weighs rows alike for all models: give a rate where variants have weights "
                           "of their own");
    job->params.variants = &run->variants;
    job->model = many;
    if (!rc && o.single) /* their checkpoints are not interchangeable */
        rc = ctr_buf_printf(&run->variants.text, err, "single-value\n");
    return rc;
}

static int parse_every(const char *option, const char *text, struct ctr_every *every, struct ctr_err *err)
{
    return !text || ctr_every_parse(text, every)
               ? 0
               : ctr_cli_usage(err, "--%s wants a number of rows or a time such as 10m, not '%s'", option, text);
}

static int check_follow(const struct ctr_cli *cli, struct ctr_err *err)
{
    if (!o.follow && !o.save_every)
        return 0;
    if (ctr_names_stdout(cli->out) || !ctr_cli_reopens(cli->out))
        return ctr_cli_usage(err, "--%s saves the model again and again: name a file with -o",
                             o.follow ? "follow" : "save-every");
    if (o.follow && (o.passes > 1 || cli->nargs > 2))
        return ctr_cli_usage(err, "--follow reads one input, once");
    return 0;
}

static int open_models(struct run *run, struct ctr_err *err)
{
    struct ctr_buf path = { 0 };
    const int n = CTR_MAX(run->variants.n, 1);
    run->out = calloc((size_t)n, sizeof *run->out);
    int rc = run->out ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *run->out);
    if (!rc && !run->variants.n) {
        rc = ctr_cli_out(run->cli, CTR_OUT_BINARY, &run->out[0], err);
        run->outs = 1;
    }
    for (int i = 0; i < run->variants.n && !rc; i++, run->outs++) {
        rc = model_path(run->cli->out, run->variants.v[i].name, &path, err);
        if (!rc)
            rc = ctr_cli_side_out(run->cli, (const char *)path.data, CTR_OUT_BINARY, &run->out[i], err);
    }
    ctr_buf_free(&path);
    return rc;
}

/* ---- ranks ---- */

/* mpirun started this process: find the others. */
static int start_ranks(struct run *run, struct ctr_err *err)
{
    const int rc = ctr_ranks_start(&run->comm, err);
    if (!rc && run->comm)
        run->cli->ranks =
            (struct ctr_cli_ranks){ ctr_comm_rank(run->comm), ctr_comm_size(run->comm), ctr_comm_local(run->comm) };
    return rc;
}

/* There are files for all; the outputs are those of rank 0. */
static int join_ranks(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_shard_files files = { 0 };
    ctr_ranks_join(job, run->comm);
    if (run->flows)
        return ctr_cli_usage(err, "a plan with statements does not go with ranks (mpirun): make its table with "
                                  "ctr-extract first");
    int rc = ctr_cli_inputs(cli, run->first, err);
    if (!rc)
        rc = ctr_shard_files(ctr_comm_rank(run->comm), ctr_comm_size(run->comm), cli->args + run->first,
                             cli->nargs - run->first, &files, err);
    free(files.path);
    if (rc)
        return rc;
    if (ctr_comm_rank(run->comm)) {
        cli->quiet = true;
        cli->out = "/dev/null";
    }
    return 0;
}

/* Each rank writes the predictions of its own rows, to a file with its number. */
static int open_side(struct run *run, struct ctr_err *err)
{
    const char *at = strstr(o.progressive, "%d");
    struct ctr_buf path = { 0 };
    if (!run->comm)
        return ctr_cli_side_out(run->cli, o.progressive, CTR_OUT_BINARY, &run->side, err);
    if (!at || strchr(at + 1, '%') || strchr(o.progressive, '%') != at)
        return ctr_cli_usage(err, "ranks write the predictions of their rows to a file each: --progressive wants one "
                                  "%%d for the number, such as p-%%d.arrows");
    int rc = ctr_buf_printf(&path, err, "%.*s%d%s", (int)(at - o.progressive), o.progressive, ctr_comm_rank(run->comm),
                            at + 2);
    if (!rc)
        rc = ctr_cli_side_out(run->cli, (const char *)path.data, CTR_OUT_BINARY, &run->side, err);
    ctr_buf_free(&path);
    return rc;
}

static int run_job(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    int rc = o.progressive ? open_side(run, err) : 0;
    if (!rc)
        rc = open_models(run, err);
    if (!rc)
        rc = ctr_trainer_new(&run->trainer, job, err);
    if (!rc && (o.checkpoint || o.follow))
        catch_stop();
    if (!rc)
        rc = ctr_trainer_run(run->trainer, err);
    if (rc == CTR_ESTOPPED)
        return end_stopped(run, err);
    if (!rc)
        rc = finish(run, err);
    if (!rc)
        summary(run);
    if (!rc && !ctr_trainer_rows(run->trainer))
        ctr_cli_note(run->cli, "the input has no rows: the model has learned nothing");
    return rc;
}

/* For a plan with statements the files are VIEW=FILE. */
static int take_views(struct run *run, const struct ctr_plan *plan, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const bool statements = ctr_plan_statement(plan, 0);
    run->flows = statements && !o.table;
    if (o.table && !statements)
        return ctr_cli_usage(err, "--table is for a plan with statements, and %s has none: every input is its table",
                             run->plan);
    int rc = ctr_cli_queue(cli, o.queue, run->flows, err);
    if (rc || !run->flows)
        return rc;
    if (o.follow)
        return ctr_cli_usage(err, "--follow reads one stream, not the views of a plan");
    rc = ctr_flow_views(&run->views, plan, cli->args + run->first, cli->nargs - run->first, err);
    for (int i = 0; !rc && i < run->views.n; i++)
        rc = ctr_cli_read(cli, run->views.file[i].path, err);
    return rc;
}

/* A plan before the files: train on the features that it extracts. Its fitted state is copied to the model. */
static int take_plan(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *path = cli->nargs > 1 ? cli->args[1] : "-";
    struct ctr_plan *plan = NULL;
    struct ctr_buf sections = { 0 };
    bool is_plan;
    int rc = ctr_plan_named(path, &is_plan, err);
    if (!rc && !is_plan && (o.key_seed || o.lookup_anywhere || o.table))
        rc = ctr_cli_usage(err, "--%s is for a PLAN in front of the files",
                           o.key_seed ? "key-seed"
                           : o.table  ? "table"
                                      : "lookup-anywhere");
    if (!rc && !is_plan)
        rc = ctr_cli_queue(cli, o.queue, false, err);
    if (rc || !is_plan)
        return rc;
    rc = ctr_cli_read(cli, path, err);
    if (!rc)
        rc = ctr_hold(path, err);
    if (!rc && (rc = open_plan(path, &plan, err)))
        ctr_err_add(err, " (a plan is wanted here, or a stream; ctr-import makes streams of text)");
    if (!rc && ctr_plan_needs_fit(plan)) {
        ctr_err_file(err, path);
        rc = ctr_fail(err, CTR_EUSAGE, "the plan needs fitting first: ctr-extract --fit %s -o FITTED FILE…", path);
    }
    if (!rc)
        rc = ctr_plan_save_section_names(plan, &sections, err);
    if (!rc && sections.len && !job->fitted)
        job->fitted = path;
    run->plan = path;
    run->first = 2;
    if (!rc)
        rc = take_views(run, plan, err);
    ctr_buf_free(&sections);
    ctr_plan_free(plan);
    return rc;
}

/* Read the options that need no file. */
static int read_options(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    int rc = (job->model = ctr_model_find(cli->args[0])) ? 0 : ctr_cli_unknown(cli, "model", err);
    if (!rc)
        rc = choose_device(cli, job, err);
    job->params.device_memory -= extraction_memory(run);
    if (!rc && o.validation)
        rc = check_validation(job, err);
    if (!rc)
        rc = check_options(run, err);
    if (!rc)
        rc = check_uncertainty(job, err);
    if (!rc)
        rc = check_init(job, err);
    if (!rc)
        rc = check_init_bias(job, err);
    if (!rc)
        rc = check_follow(cli, err);
    if (!rc)
        rc = parse_every("checkpoint-every", o.every, &job->checkpoint_every, err);
    const char *save_every = !o.save_every && o.follow ? "1m" : o.save_every;
    return rc ? rc : parse_every("save-every", save_every, &job->publish_every, err);
}

/* Register the options' files: first inputs, then outputs, so that none is both. */
static int take_files(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *const read[] = { o.init, o.validation, o.key_seed };
    int rc = job->fitted ? ctr_cli_reread(cli, &job->fitted, err) : 0;
    if (!rc)
        rc = ctr_model_opts_read(job->model, cli, &job->params, err);
    for (size_t i = 0; i < CTR_COUNT(read) && !rc; i++)
        rc = read[i] ? ctr_cli_read(cli, read[i], err) : 0;
    if (!rc && o.checkpoint)
        rc = check_checkpoint(run, err);
    if (!rc && o.spool)
        rc = ctr_cli_written(cli, o.spool, err);
    return rc ? rc : read_variants(run, job, err);
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
static struct ctr_train_job job_of(struct run *run)
{
    const struct ctr_cli *cli = run->cli;
    struct ctr_train_job job = {
        .params = o.params,
        .passes = o.passes,
        .memory_bytes = cli->memory_bytes,
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
        .open = open_input,
        .idle = idle,
        .idle_ms = (int)cli->flush_ms,
        .progressive = o.progressive ? open_progressive : NULL,
        .unscored = cli->quiet && !o.progressive && !o.checkpoint,
        .report = report,
        .note = note,
        .saved = saved,
        .ctx = run,
        .publish = publish,
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
    struct run run = { .cli = cli, .first = 1 };
    struct ctr_train_job job = job_of(&run);
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (!rc)
        rc = take_plan(&run, &job, err);
    if (!rc && ctr_comm_started())
        rc = start_ranks(&run, err);
    if (!rc)
        rc = read_options(&run, &job, err);
    if (!rc && ctr_comm_strangers())
        ctr_cli_note(cli,
                     "srun started %" PRId64 " processes that do not know of each other: each learns alone; "
                     "srun --mpi=pmix makes them ranks of one run",
                     ctr_comm_strangers() + 1);
    if (!rc && run.comm)
        rc = join_ranks(&run, &job, err);
    if (!rc)
        rc = take_files(&run, &job, err);
    if (!rc)
        rc = run_job(&run, &job, err);
    ctr_trainer_free(run.trainer);
    ctr_writer_free(run.writer);
    ctr_out_free(run.side);
    for (int i = 0; run.out && i < CTR_MAX(run.variants.n, 1); i++)
        ctr_out_free(run.out[i]);
    free(run.out);
    ctr_variants_free(&run.variants);
    ctr_flow_views_free(&run.views);
    ctr_ranks_end(run.comm, rc);
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
