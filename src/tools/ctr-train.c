/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-train: learn a model from a stream of features. Options and wiring; learning is in src/common/model. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli/cli.h"
#include "common/model/model.h"
#include "common/model/variants.h"

static struct {
    struct ctr_params params;
    const char *precision, *inclusion, *hidden, *validation, *variants, *progressive, *init, *plan, *checkpoint, *every,
        *spool, *save_every;
    int64_t patience, validation_every;
    int64_t minibatch; /* -1: the model's own */
    int64_t passes;
    bool resume, follow, single;
} o = { .params = CTR_PARAMS_DEFAULT, .patience = 1, .minibatch = -1, .passes = 1 };

static const struct ctr_opt opts[] = {
    { "alpha", 0, CTR_OPT_REAL, "X", "learning rate of each coordinate (default 0.1)", &o.params.alpha, 0 },
    { "beta", 0, CTR_OPT_REAL, "X", "smooths the first steps of each coordinate (default 1)", &o.params.beta, 0 },
    { "l1", 0, CTR_OPT_REAL, "X", "L1 regularisation: larger gives more weights of 0 (default 0)", &o.params.l1, 0 },
    { "l2", 0, CTR_OPT_REAL, "X", "L2 regularisation; mlp: of embeddings, by minibatch (default 0)", &o.params.l2, 0 },
    { "l2-counts", 0, CTR_OPT_STR, "FILE", "mlp: how often keys come, for --l2: columns key and count",
      &o.params.l2_counts, CTR_OPT_PATH, .needs = "l2" },
    { "optimizer", 0, CTR_OPT_CHOICE, "ftrl|ogd|rda|fobos|ogd-count", "how gradients become weights (default ftrl)",
      &o.params.optimizer, 0 },
    { "learning-rate", 0, CTR_OPT_CHOICE, "per-coordinate|counts|global",
      "what it falls with: sums of squares, clicks or rows (default per-coordinate)", &o.params.learning_rate, 0 },
    { "power", 0, CTR_OPT_REAL, "X", "power of the counter in the learning rate (default 0.5)", &o.params.power, 0 },
    { "threshold", 0, CTR_OPT_INT, "K", "ogd-count: occurrences before a key is learned (default 5)",
      &o.params.threshold, .needs = "optimizer=ogd-count|variants" },
    { "precision", 0, CTR_OPT_CHOICE, "f64|f32|q2.13", "type of the learner's state (default f64; on a GPU f32)",
      &o.precision, 0 },
    { "no-bias", 0, CTR_OPT_FLAG, NULL, "learn without a bias", &o.params.no_bias, 0 },
    { "minibatch", 0, CTR_OPT_INT, "ROWS",
      "update after so many rows, which -j can share (default lr 1: exact, mlp 3000)", &o.minibatch, 0 },
    { "embedding", 0, CTR_OPT_INT, "N", "mlp: numbers that stand for a key (default 12)", &o.params.embedding, 0 },
    { "hidden", 0, CTR_OPT_STR, "N,N,…", "mlp: units of the hidden layers, or 0 (default 200,80)", &o.hidden, 0 },
    { "activation", 0, CTR_OPT_CHOICE, "prelu|relu|dice", "mlp: of hidden units (default prelu)", &o.params.activation,
      0 },
    { "batch-norm", 0, CTR_OPT_FLAG, NULL, "mlp: normalise hidden units over the minibatch", &o.params.batch_norm, 0 },
    { "rate", 0, CTR_OPT_REAL, "X", "mlp: learning rate of Adam (default 0.001)", &o.params.rate, 0 },
    { "decay", 0, CTR_OPT_REAL, "X", "mlp: multiply the rate by X from time to time (default 1)", &o.params.decay, 0 },
    { "decay-every", 0, CTR_OPT_INT, "ROWS", "that is, after so many rows (default 1440000000)", &o.params.decay_every,
      .needs = "decay" },
    { "hash-bits", 0, CTR_OPT_INT, "BITS", "hash all keys into one table of 2^BITS (default: keys as they are)",
      &o.params.hash_bits, 0 },
    { "dropout", 0, CTR_OPT_REAL, "P", "leave a share P of a row's features, or of mlp's hidden units, out of learning",
      &o.params.dropout, 0 },
    { "normalize", 0, CTR_OPT_CHOICE, "none|l1|l2|max", "divide a row's values by their norm (default none)",
      &o.params.normalize, 0 },
    { "inclusion", 0, CTR_OPT_STR, "RULE", "which new keys are taken up: all, poisson=P or bloom=N (default all)",
      &o.inclusion, 0 },
    { "inclusion-memory", 0, CTR_OPT_SIZE, "SIZE", "memory of the filters of bloom=N (default 8M)",
      &o.params.bloom_bytes, .needs = "inclusion=bloom" },
    { "expire", 0, CTR_OPT_INT, "DAYS", "drop keys that did not come for more than DAYS days (0: never)",
      &o.params.expire, 0 },
    { "expire-floor", 0, CTR_OPT_INT, "N", "of these, leave the latest, so that N keys stay (default 0)",
      &o.params.expire_floor, .needs = "expire" },
    { "variants", 0, CTR_OPT_STR, "FILE", "learn the models of FILE together, a line each; -o m-%s.arrows names them",
      &o.variants, CTR_OPT_PATH },
    { "single-value", 0, CTR_OPT_FLAG, NULL, "--variants share one value a coordinate, at a small loss", &o.single,
      .needs = "variants" },
    { "passes", 0, CTR_OPT_INT, "N", "go over the input N times (files, or --spool)", &o.passes, CTR_OPT_SOME },
    { "validation", 0, CTR_OPT_STR, "FILE", "mlp, lr on a GPU: score FILE after each pass; the best is the model",
      &o.validation, CTR_OPT_PATH },
    { "validation-every", 0, CTR_OPT_INT, "ROWS", "also in a pass, when a minibatch ends after so many rows",
      &o.validation_every, CTR_OPT_SOME, .needs = "validation" },
    { "patience", 0, CTR_OPT_INT, "N", "stop after N times that --validation finds no better (default 1)", &o.patience,
      CTR_OPT_SOME, .needs = "validation" },
    { "spool", 0, CTR_OPT_STR, "FILE", "keep the first pass in FILE for the later ones", &o.spool, CTR_OPT_PATH,
      .needs = "passes" },
    { "progressive", 0, CTR_OPT_STR, "FILE", "write predictions made before each update", &o.progressive,
      CTR_OPT_PATH },
    { "uncertainty", 0, CTR_OPT_FLAG, NULL, "lr: add to them how far they could move with one row more",
      &o.params.uncertainty, .needs = "progressive" },
    { "init", 0, CTR_OPT_STR, "MODEL", "start from the state of MODEL", &o.init, CTR_OPT_PATH },
    { "plan", 0, CTR_OPT_STR, "FITTED", "put the fitted plan into the model", &o.plan, CTR_OPT_PATH },
    { "follow", 0, CTR_OPT_FLAG, NULL, "the input may grow for ever; save the model on the way, and end on SIGTERM",
      &o.follow, CTR_OPT_LOCAL },
    { "save-every", 0, CTR_OPT_STR, "ROWS|TIME", "save the model so often (with --follow: default 1m)", &o.save_every,
      CTR_OPT_LOCAL },
    { "checkpoint", 0, CTR_OPT_STR, "FILE", "keep in FILE what --resume needs", &o.checkpoint, CTR_OPT_PATH },
    { "checkpoint-every", 0, CTR_OPT_STR, "ROWS|TIME", "how often, such as 1000000 or 10m", &o.every, CTR_OPT_LOCAL,
      .needs = "checkpoint" },
    { "resume", 0, CTR_OPT_FLAG, NULL, "go on from the checkpoint, if there is one", &o.resume, CTR_OPT_LOCAL,
      .needs = "checkpoint" },
    { 0 },
};

static volatile sig_atomic_t stop;

struct run {
    struct ctr_cli *cli;
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
    if (!rc && !(o.follow && stop)) /* a stopped run that follows goes on from its checkpoint */
        ctr_trainer_done(run->trainer);
    return rc;
}

/* The file of a model: -o, and of a variant, with the %s in it replaced by its name. */
static int model_path(const char *pattern, const char *name, struct ctr_buf *path, struct ctr_err *err)
{
    const char *at = name ? strstr(pattern, "%s") : NULL;
    ctr_buf_clear(path);
    if (!at)
        return ctr_buf_printf(path, err, "%s", pattern);
    return ctr_buf_printf(path, err, "%.*s%s%s", (int)(at - pattern), pattern, name, at + 2);
}

/* Save the model as it is now; whoever reads its file meanwhile has the one before, whole. */
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

/* A stop: with --follow it is how a run ends, without it there is a checkpoint to go on from. */
static int end_stopped(struct run *run, struct ctr_err *err)
{
    int rc = o.follow && !ctr_trainer_resuming(run->trainer) ? finish(run, err) : stopped(err);
    if (!rc)
        summary(run);
    return rc;
}

/* A file that is followed, whose end has come when it is idle, and no pipe that is slow. */
static bool follows_file(const struct ctr_cli *cli)
{
    struct stat st;
    const bool is_stdin = cli->nargs < 2 || !strcmp(cli->args[1], "-");
    return o.follow && !(is_stdin ? fstat(STDIN_FILENO, &st) : stat(cli->args[1], &st)) && S_ISREG(st.st_mode);
}

/* The input is idle: send what is there, and stop if a signal asked for it. Somebody waits for input meanwhile, so that
 * a stop ends the process from here; the checkpoint is whole by then. */
static void idle(void *ctx)
{
    struct run *run = ctx;
    struct ctr_err err = { 0 };
    if (run->writer && ctr_writer_flush(run->writer, &err))
        run->writer = NULL; /* the error shows again at the next write */
    const bool stopping = stop;
    int rc = ctr_trainer_save_due(run->trainer, stopping, &err);
    if (!rc && !stopping && follows_file(run->cli))
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

static int open_input(void *ctx, const struct ctr_reader_opts *ro, struct ctr_reader **r, struct ctr_err *err)
{
    return ctr_cli_reader(((struct run *)ctx)->cli, 1, ro, r, err);
}

static int open_progressive(void *ctx, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err)
{
    struct run *run = ctx;
    int rc = ctr_cli_writer(run->cli, run->side, s, &run->writer, err);
    run->cli->idle_writer = NULL; /* idle() flushes it */
    *w = run->writer;
    return rc;
}

static void on_signal(int sig)
{
    (void)sig;
    stop = 1;
}

/* With a checkpoint, SIGTERM and SIGINT stop the run in order; a second one ends it at once. */
static void catch_stop(void)
{
    struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

static bool can_reopen(const struct ctr_cli *cli)
{
    bool can = cli->nargs > 1;
    for (int i = 1; i < cli->nargs; i++)
        can = can && ctr_cli_reopens(cli->args[i]);
    return can;
}

/* ---- the run ---- */

static int check_checkpoint(struct ctr_cli *cli, struct ctr_err *err)
{
    const char *others[] = { cli->out, o.progressive, o.spool };
    const char *bad = NULL;
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        bad = ctr_checkpoint_keeps(o.checkpoint, others[i]) ? others[i] : bad;
    for (int i = 1; i < cli->nargs; i++)
        bad = ctr_checkpoint_keeps(o.checkpoint, cli->args[i]) ? cli->args[i] : bad;
    if (bad)
        return ctr_cli_usage(err, "%s is the name of a file that --checkpoint %s keeps: choose another", bad,
                             o.checkpoint);
    return ctr_cli_written(cli, o.checkpoint, err);
}

static int check_options(const struct ctr_cli *cli, struct ctr_err *err)
{
    if (o.passes > 1 && !o.spool && !can_reopen(cli))
        return ctr_cli_usage(err, "--passes %" PRId64 " needs files that can be read again, or --spool FILE", o.passes);
    if (o.passes > 1 && o.params.expire)
        return ctr_cli_usage(err, "--expire follows the time of one pass: leave --passes out");
    return 0;
}

/* Where to learn: the model of a GPU may be another one than that of the CPU. */
static int choose_device(struct ctr_cli *cli, struct ctr_train_job *job, struct ctr_err *err)
{
    const bool by_rows = job->model->minibatch == 1 && o.minibatch < 0;
    const struct ctr_model *device = job->model->device;
    if (device && by_rows && !strcmp(cli->device, "gpu"))
        return ctr_cli_usage(err,
                             "--device gpu: %s learns by minibatches there; say of how many rows: --minibatch ROWS",
                             job->model->name);
    int rc = ctr_cli_device(cli, device && !by_rows, job->model->name, err);
    if (rc)
        return rc;
    if (device && strcmp(cli->device, "cpu") != 0)
        job->model = device;
    job->params.device = cli->device;
    job->params.device_memory = cli->device_memory_bytes;
    if (o.precision || job->model == &ctr_model_lr_device)
        job->params.precision = o.precision ? o.precision : "f32";
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
                             job->model == &ctr_model_lr_device ? " on a GPU" : "");
    return 0;
}

static int check_validation(const struct ctr_train_job *job, struct ctr_err *err)
{
    if (!job->model->evaluate)
        return ctr_cli_usage(err, "%s takes no --validation", job->model->name);
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
    if (job->model != &ctr_model_lr)
        return ctr_cli_usage(err, "--variants are for lr, on a CPU");
    if (o.params.expire)
        return ctr_cli_usage(err, "--expire drops keys of one model: leave --variants out");
    if (job->params.minibatch > 1)
        return ctr_cli_usage(err, "--variants learn row by row: leave --minibatch out");
    int rc = ctr_cli_read(run->cli, o.variants, err);
    if (!rc)
        rc = ctr_variants_read(&run->variants, o.variants, &job->params, err);
    job->params.variants = &run->variants;
    job->model = o.single ? &ctr_model_lr_single : &ctr_model_lr_variants;
    if (!rc && o.single) /* a checkpoint of the one is none of the other */
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

static int run_job(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    int rc = o.progressive ? ctr_cli_side_out(run->cli, o.progressive, CTR_OUT_BINARY, &run->side, err) : 0;
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
    return rc;
}

/* What to learn, where and how: all that no file has to be read for. */
static int read_options(struct ctr_cli *cli, struct ctr_train_job *job, struct ctr_err *err)
{
    int rc = o.inclusion ? ctr_inclusion_parse(&job->params, o.inclusion, err) : 0;
    if (!rc && !(job->model = ctr_model_find(cli->args[0])))
        rc = ctr_cli_unknown(cli, "model", err);
    if (!rc)
        rc = choose_device(cli, job, err);
    if (!rc && o.hidden && !ctr_sizes_parse(&job->params.hidden, o.hidden, strlen(o.hidden)))
        rc = ctr_cli_usage(err, "--hidden wants sizes of layers such as 200,80, each 1 to %d, or 0", CTR_MAX_UNITS);
    if (rc)
        return rc;
    job->params.minibatch = o.minibatch < 0 ? job->model->minibatch : o.minibatch;
    rc = ctr_params_foreign(job->model, &job->params, err);
    if (!rc && o.params.l2_counts && !job->model->deep)
        rc = ctr_cli_usage(err, "%s takes no --l2-counts", job->model->name);
    if (!rc && o.validation)
        rc = check_validation(job, err);
    if (!rc)
        rc = check_options(cli, err);
    if (!rc)
        rc = check_uncertainty(job, err);
    if (!rc)
        rc = check_follow(cli, err);
    if (!rc)
        rc = parse_every("checkpoint-every", o.every, &job->checkpoint_every, err);
    const char *save_every = !o.save_every && o.follow ? "1m" : o.save_every;
    return rc ? rc : parse_every("save-every", save_every, &job->publish_every, err);
}

/* Those of options: first what is read, then what is written, so that none is both. */
static int take_files(struct run *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *const read[] = { o.init, o.params.l2_counts, o.validation };
    int rc = job->fitted ? ctr_cli_reread(cli, &job->fitted, err) : 0;
    for (size_t i = 0; i < CTR_COUNT(read) && !rc; i++)
        rc = read[i] ? ctr_cli_read(cli, read[i], err) : 0;
    if (!rc && o.checkpoint)
        rc = check_checkpoint(cli, err);
    if (!rc && o.spool)
        rc = ctr_cli_written(cli, o.spool, err);
    return rc ? rc : read_variants(run, job, err);
}

static int train(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run run = { .cli = cli };
    struct ctr_train_job job = {
        .params = o.params,
        .passes = o.passes,
        .memory_bytes = cli->memory_bytes,
        .label = cli->role[CTR_ROLE_LABEL],
        .weight = cli->role[CTR_ROLE_WEIGHT],
        .time = cli->role[CTR_ROLE_TIME],
        .init = o.init,
        .spool = o.spool,
        .validation = o.validation,
        .validation_every = o.validation_every,
        .patience = o.patience,
        .fitted = o.plan,
        .open = open_input,
        .idle = idle,
        .idle_ms = (int)cli->flush_ms,
        .progressive = o.progressive ? open_progressive : NULL,
        .report = report,
        .note = note,
        .saved = saved,
        .ctx = &run,
        .publish = publish,
        .follow = o.follow,
        .checkpoint = o.checkpoint,
        .resume = o.resume,
        .stop = &stop,
        .program = cli->tool->name,
        .options = cli->provenance,
    };
    job.params.threads = (int)cli->jobs;
    job.params.seed = (int64_t)cli->seed;
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (!rc)
        rc = read_options(cli, &job, err);
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
    return rc;
}

static const char *model(int i)
{
    return ctr_model_at(i) ? ctr_model_at(i)->name : NULL;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-train",
    .summary = "learn a model from a stream of features",
    .synopsis = "lr|mlp [FILE…]",
    .opts = opts,
    .flags = CTR_TOOL_ROLES | CTR_TOOL_DEVICE,
    .run = train,
    .word = model,
};
