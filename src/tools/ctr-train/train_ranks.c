/* SPDX-License-Identifier: Apache-2.0
 *
 * A training run as one of several ranks; the end of a run. */
#include "tools/ctr-train/trainrun.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/compute/comm.h"
#include "common/lr/variants.h"
#include "common/plan/plan.h"

int ctr_train_start_ranks(struct ctr_train *run, struct ctr_err *err)
{
    const int rc = ctr_comm_started() ? ctr_ranks_start(&run->comm, err) : 0;
    if (!rc && run->comm)
        run->cli->ranks =
            (struct ctr_cli_ranks){ ctr_comm_rank(run->comm), ctr_comm_size(run->comm), ctr_comm_local(run->comm) };
    return rc;
}

/* The files of the view of `from`, which ranks share out. The caller frees the array. */
static int main_files(const struct ctr_train *run, const char *view, char ***path, int *n, struct ctr_err *err)
{
    *path = calloc((size_t)run->views.n + 1, sizeof **path);
    if (!*path)
        return ctr_fail_nomem(err, (size_t)run->views.n * sizeof **path);
    for (int i = 0; i < run->views.n; i++)
        if (!strcmp(run->views.file[i].view, view))
            (*path)[(*n)++] = (char *)(uintptr_t)run->views.file[i].path;
    return 0;
}

/* The plan and the other views are the same on all ranks. */
static int same_views(const struct ctr_train *run, const char *shared, struct ctr_err *err)
{
    struct ctr_ranks_file *file = calloc((size_t)run->views.n + 1, sizeof *file);
    int n = 0;
    if (!file)
        return ctr_fail_nomem(err, (size_t)run->views.n * sizeof *file);
    file[n++] = (struct ctr_ranks_file){ "plan", run->plan };
    int rc = 0;
    for (int i = 0; i < run->views.n; i++)
        if (strcmp(run->views.file[i].view, shared) != 0) {
            file[n++] = (struct ctr_ranks_file){ run->views.file[i].view, run->views.file[i].path };
            if (!strcmp(run->views.file[i].path, "-"))
                rc = ctr_cli_usage(err, "ranks read files, not stdin: name the file of the view %s",
                                   run->views.file[i].view);
        }
    if (!rc)
        rc = ctr_ranks_same_whole(run->comm, file, n, err);
    free(file);
    return rc;
}

/* A plan with statements: its view of `from` is shared out. */
static int join_views(const struct ctr_train *run, struct ctr_err *err)
{
    const int rank = ctr_comm_rank(run->comm), ranks = ctr_comm_size(run->comm);
    struct ctr_shard_files mine = { 0 };
    struct ctr_plan *plan = NULL;
    char **path = NULL;
    int n = 0, rc = ctr_plan_open(&plan, run->plan, err);
    const char *view = rc ? NULL : ctr_plan_statement(plan, 0)->view.name;
    if (!rc)
        rc = ctr_flow_parts(plan, err);
    if (!rc)
        rc = main_files(run, view, &path, &n, err);
    if (!rc)
        rc = ctr_shard_files(rank, ranks, path, n, &mine, err);
    if (!rc)
        rc = ctr_ranks_same_files(run->comm, path, n, &mine, err);
    if (!rc)
        rc = same_views(run, view, err);
    free(mine.path);
    free(path);
    ctr_plan_free(plan);
    return rc;
}

static int join_files(const struct ctr_train *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_shard_files files = { 0 };
    int rc = ctr_cli_inputs(cli, run->first, err);
    if (!rc)
        rc = ctr_shard_files(ctr_comm_rank(run->comm), ctr_comm_size(run->comm), cli->args + run->first,
                             cli->nargs - run->first, &files, err);
    if (!rc)
        rc = ctr_ranks_same_files(run->comm, cli->args + run->first, cli->nargs - run->first, &files, err);
    free(files.path);
    return rc;
}

int ctr_train_join_ranks(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    if (ctr_comm_strangers())
        return ctr_cli_usage(err,
                             "srun started %" PRId64 " processes that do not know of each other: each would learn "
                             "alone; srun --mpi=pmix makes them ranks of one run, and env -u SLURM_STEP_NUM_TASKS "
                             "ctr-train … runs of their own, with an -o each",
                             ctr_comm_strangers() + 1);
    if (!run->comm)
        return 0;
    if (cli->jobs > ctr_cpu_count() && !ctr_comm_rank(run->comm))
        ctr_cli_note(cli,
                     "-j %" PRId64 ", and this rank may use %d processor%s: mpirun --bind-to none gives each rank all "
                     "of its machine",
                     cli->jobs, ctr_cpu_count(), CTR_S(ctr_cpu_count()));
    ctr_ranks_join(job, run->comm);
    const int rc = (run->flows ? join_views : join_files)(run, err);
    if (rc)
        return rc;
    if (ctr_comm_rank(run->comm)) {
        cli->quiet = true;
        cli->out = "/dev/null";
    }
    return 0;
}

void ctr_train_free(struct ctr_train *run, int status)
{
    ctr_trainer_free(run->trainer);
    ctr_writer_free(run->writer);
    ctr_out_free(run->side);
    for (int i = 0; run->out && i < CTR_MAX(run->variants.n, 1); i++)
        ctr_out_free(run->out[i]);
    free(run->out);
    if (run->claim > 0)
        close(run->claim);
    ctr_variants_free(&run->variants);
    ctr_bad_rows_free(run->bad_validation);
    ctr_flow_views_free(&run->views);
    ctr_ranks_end(run->comm, status);
}
