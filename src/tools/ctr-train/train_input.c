/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a training run: files of features, one of the shards of a rank, a plan over files, or a plan with
 * statements over views. */
#include "tools/ctr-train/trainrun.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/op/gpu.h"
#include "common/plan/plan.h"

/* ---- the plan ---- */

static int open_plan(const struct ctr_train *run, const char *path, struct ctr_plan **plan, struct ctr_err *err)
{
    int rc = ctr_plan_open(plan, path, err);
    if (!rc && run->o->key_seed)
        rc = ctr_plan_key_seed(*plan, run->o->key_seed, err);
    if (!rc && run->o->lookup_anywhere)
        ctr_plan_lookup_anywhere(*plan);
    return rc;
}

/* The first given option that is for a PLAN, or NULL. */
static const char *plan_option(const struct ctr_train_opts *o)
{
    return o->key_seed          ? "key-seed"
           : o->lookup_anywhere ? "lookup-anywhere"
           : o->table           ? "table"
           : o->place.n         ? "place"
           : o->launch          ? "launch"
                                : NULL;
}

static int cannot_follow(const struct ctr_plan *plan, int statement, const char *why, struct ctr_err *err)
{
    (void)ctr_fail(err, CTR_EUSAGE, "%s", why);
    return ctr_plan_at_statement(plan, statement, err);
}

/* --follow: the view of `from` grows, the others are as they are. A statement that gives rows only after the last one,
 * or wants as many of another view, does not go with that. */
static int follow_views(struct ctr_train *run, const struct ctr_plan *plan, struct ctr_err *err)
{
    const struct ctr_plan_statement *from = ctr_plan_statement(plan, 0), *s;
    int files = 0;
    for (int i = 0; i < run->views.n; i++)
        if (!strcmp(run->views.file[i].view, from->view.name)) {
            files++;
            run->grows = run->views.file[i].path;
        }
    if (files > 1)
        return ctr_cli_usage(err, "--follow reads one input, once: the view %s has %d files, and is the one that grows",
                             from->view.name, files);
    for (int i = 1; (s = ctr_plan_statement(plan, i)); i++) {
        if (s->kind == CTR_STATEMENT_GROUP)
            return cannot_follow(plan, i,
                                 "--follow: a group is over when the rows are, which may be never: group a static view "
                                 "first (ctr-group), and join what it gives",
                                 err);
        if (s->kind == CTR_STATEMENT_SORT || s->kind == CTR_STATEMENT_UNIQUE || ctr_stage_option(s, "once") ||
            (s->kind == CTR_STATEMENT_EACH && !ctr_stage_option(s, "as-of")))
            return cannot_follow(plan, i,
                                 "--follow: it waits for the last row, which may never come: a join of a group as of a "
                                 "time, and joins of static views, do not",
                                 err);
        if (s->kind == CTR_STATEMENT_JOIN && ctr_stage_option(s, "by-row"))
            return cannot_follow(
                plan, i, "--follow: by-row wants as many rows on both sides, and one grows: join by a key (on COLUMN)",
                err);
        if (s->kind == CTR_STATEMENT_HISTORY && ctr_stage_option(s, "sort"))
            return cannot_follow(plan, i,
                                 "--follow: sort waits for the last row, which may never come: lateness DURATION waits "
                                 "so long for rows out of order",
                                 err);
    }
    return 0;
}

/* For a plan with statements the files are VIEW=FILE. */
static int take_views(struct ctr_train *run, const struct ctr_plan *plan, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    run->flows = ctr_plan_statement(plan, 0) && !run->o->table;
    int rc = run->o->table ? ctr_flow_table(plan, run->plan, cli->args + run->first, cli->nargs - run->first, err) : 0;
    if (!rc)
        rc = ctr_cli_queue(cli, run->o->queue, run->flows, err);
    if (rc || !run->flows)
        return rc;
    rc = ctr_flow_views(&run->views, plan, cli->args + run->first, cli->nargs - run->first, err);
    for (int i = 0; !rc && i < run->views.n; i++)
        rc = ctr_cli_read(cli, run->views.file[i].path, err);
    return !rc && run->o->follow ? follow_views(run, plan, err) : rc;
}

int ctr_train_take_plan(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *path = cli->nargs > 1 ? cli->args[1] : "-";
    struct ctr_plan *plan = NULL;
    struct ctr_buf sections = { 0 };
    bool is_plan;
    run->grows = cli->nargs > 1 ? path : NULL;
    int rc = ctr_plan_named(path, &is_plan, err);
    if (!rc && !is_plan && plan_option(run->o))
        rc = ctr_cli_usage(err, "--%s is for a PLAN in front of the files", plan_option(run->o));
    if (!rc && !is_plan)
        rc = ctr_cli_queue(cli, run->o->queue, false, err);
    if (rc || !is_plan)
        return rc;
    rc = ctr_cli_read(cli, path, err);
    if (!rc)
        rc = ctr_input_identity_keep(path, err);
    if (!rc && (rc = open_plan(run, path, &plan, err)))
        ctr_err_add(err, " (a file that is no stream is read as a plan; ctr-import makes streams of text)");
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
    run->grows = cli->nargs > 2 ? cli->args[2] : NULL;
    if (!rc)
        rc = take_views(run, plan, err);
    ctr_buf_free(&sections);
    ctr_plan_free(plan);
    return rc;
}

/* ---- the rows ---- */

bool ctr_train_reopens(const struct ctr_train *run)
{
    const struct ctr_cli *cli = run->cli;
    bool can = cli->nargs > run->first || run->flows;
    for (int i = run->first; i < cli->nargs && !run->flows; i++)
        can = can && ctr_cli_reopens(cli->args[i]);
    for (int i = 0; i < run->views.n; i++)
        can = can && ctr_cli_reopens(run->views.file[i].path);
    return can;
}

/* Is it a followed file, whose end is reached when it is idle, rather than a slow pipe? */
bool ctr_train_follows_file(const struct ctr_train *run)
{
    struct stat st;
    const char *path = run->grows ? run->grows : "-";
    return run->o->follow && !(strcmp(path, "-") ? stat(path, &st) : fstat(STDIN_FILENO, &st)) && S_ISREG(st.st_mode);
}

/* Does the extraction from views get its own thread? Not if it might block on a pipe, or wait for a log to grow. */
static bool own_thread(const struct ctr_train *run)
{
    return run->flows && run->cli->jobs > 1 && ctr_train_reopens(run) && !run->o->follow;
}

/* Of --memory a quarter is for statements, and an eighth for the extraction, whose values are those of a batch. */
static int64_t statements_memory(const struct ctr_train *run)
{
    return run->flows ? (run->cli->memory_bytes + 3) / 4 : 0;
}

static int64_t values_memory(const struct ctr_train *run)
{
    return run->plan ? (run->cli->memory_bytes + 7) / 8 : 0;
}

int64_t ctr_train_learner_memory(const struct ctr_train *run)
{
    const int64_t all = run->cli->memory_bytes;
    return all ? CTR_MAX(all - statements_memory(run) - values_memory(run), 1) : 0;
}

/* Counts of rows are those of this rank. */
static void note_views(void *ctx, const char *text)
{
    const struct ctr_train *run = ctx;
    if (run->comm)
        ctr_cli_note(run->cli, "rank %d: %s", run->cli->ranks.rank, text);
    else
        ctr_train_note(ctx, text);
}

/* Open the table of the statements. Its stages replace `ahead`. */
static int open_views(struct ctr_train *run, const struct ctr_plan *plan, const struct ctr_reader_opts *how,
                      struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_flow_opts fo = { .threads = (int)CTR_MIN(run->cli->jobs, (int64_t)1024),
                                      .queue = (int)run->o->queue,
                                      .memory_bytes = statements_memory(run),
                                      .batch_rows = run->cli->batch_rows,
                                      .reader = how,
                                      .last = "extract",
                                      .last_times = own_thread(run) ? &run->extract_times : NULL,
                                      .after = "train",
                                      .note = note_views,
                                      .debug = ctr_train_debug,
                                      .time_line = run->cli->verbose > 1,
                                      .ctx = run };
    return ctr_flow_open(s, plan, &run->views, &fo, err);
}

/* One of the shards of the files. */
static int open_shard(const struct ctr_train *run, const struct ctr_reader_opts *want, struct ctr_reader **r,
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

static int open_stream(struct ctr_train *run, const char *path, const struct ctr_reader_opts *how,
                       struct ctr_batch_source *s, struct ctr_err *err)
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
int64_t ctr_train_extraction_memory(const struct ctr_train *run)
{
    return run->plan ? run->cli->device_memory_bytes / 4 : 0;
}

/* Shares of the stages where no queues are between them: the thread that makes rows for the model reads and extracts,
 * too, until it has made enough. An extraction on a thread of its own was measured to be slower: features are copied
 * once more, and two threads are busy already. */
static void tell_stages(void *ctx, const struct ctr_plan_times *t)
{
    struct ctr_train *run = ctx;
    const int64_t all_ns = ctr_clock_ns() - t->start_ns, made_ns = t->read_ns + t->extract_ns;
    const int64_t idle_ns = CTR_MAX(all_ns - run->learn_times.rows_ns, (int64_t)0);
    ctr_train_debug(run, ctr_stage_text(run->flows ? "views" : "read", all_ns, 0, all_ns - t->read_ns).s);
    ctr_train_debug(run, ctr_stage_text("extract", all_ns, t->read_ns, all_ns - made_ns).s);
    ctr_train_debug(run, ctr_stage_text("rows", all_ns, made_ns, idle_ns).s);
    ctr_train_debug(run, ctr_stage_text("train", all_ns, run->learn_times.waited_ns, 0).s);
}

static int open_extraction(struct ctr_train *run, struct ctr_batch_source *s, struct ctr_plan *plan, bool main,
                           struct ctr_err *err)
{
    struct ctr_gpu_opts go = { .device = run->cli->device,
                               .optional = !strncmp(run->cli->device, "auto", 4),
                               .memory_bytes = ctr_train_extraction_memory(run),
                               .note = ctr_train_note,
                               .debug = ctr_train_debug,
                               .ctx = run };
    const struct ctr_plan_source_opts so = { .threads = (int)CTR_MIN(run->cli->jobs, (int64_t)1024),
                                             .memory_bytes = values_memory(run),
                                             .gpu = strcmp(run->cli->device, "cpu") ? &go : NULL,
                                             .bad = main ? run->cli->bad : run->bad_validation,
                                             .place = &run->o->place,
                                             .closed = main && !own_thread(run) ? tell_stages : NULL,
                                             .note = main && !run->opened ? ctr_train_note : NULL,
                                             .ctx = run };
    run->opened |= main;
    const int rc = run->o->launch ? ctr_gpu_launch_of(run->o->launch, &go.launch, err) : 0;
    return rc ? rc : ctr_plan_source(s, plan, &so, err);
}

int ctr_train_open(void *ctx, const char *path, const struct ctr_reader_opts *ro, struct ctr_batch_source *s,
                   struct ctr_err *err)
{
    struct ctr_train *run = ctx;
    struct ctr_reader_opts how = ro ? *ro : (struct ctr_reader_opts){ 0 };
    if (!path)
        run->extract_times = (struct ctr_stage_times){ 0 };
    struct ctr_plan *plan = NULL;
    how.foreign = run->plan; /* columns that the plan does not read may have any type */
    int rc = run->plan ? open_plan(run, run->plan, &plan, err) : 0;
    if (!rc)
        rc = run->flows && !path ? open_views(run, plan, &how, s, err) : open_stream(run, path, &how, s, err);
    if (!rc && plan)
        rc = open_extraction(run, s, plan, !path, err);
    if (!rc && !path && own_thread(run)) {
        rc = ctr_batch_source_queue(s, (int)run->o->queue, &run->extract_times, err);
        plan = NULL; /* the source owns it */
    }
    if (rc) {
        ctr_batch_source_close(s);
        ctr_plan_free(plan);
    }
    return rc;
}
