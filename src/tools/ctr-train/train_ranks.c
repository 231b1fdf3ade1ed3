/* SPDX-License-Identifier: Apache-2.0
 *
 * A training run as one of several ranks; the end of a run. */
#include "tools/ctr-train/trainrun.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/compute/comm.h"
#include "common/lr/variants.h"

int ctr_train_start_ranks(struct ctr_train *run, struct ctr_err *err)
{
    const int rc = ctr_comm_started() ? ctr_ranks_start(&run->comm, err) : 0;
    if (!rc && run->comm)
        run->cli->ranks =
            (struct ctr_cli_ranks){ ctr_comm_rank(run->comm), ctr_comm_size(run->comm), ctr_comm_local(run->comm) };
    return rc;
}

int ctr_train_join_ranks(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_shard_files files = { 0 };
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
    if (run->flows)
        return ctr_cli_usage(err, "a plan with statements does not go with ranks (mpirun): `ctr-extract PLAN "
                                  "VIEW=FILE…` makes its features, and `ctr-split --shards R` a file for each rank");
    int rc = ctr_cli_inputs(cli, run->first, err);
    if (!rc)
        rc = ctr_shard_files(ctr_comm_rank(run->comm), ctr_comm_size(run->comm), cli->args + run->first,
                             cli->nargs - run->first, &files, err);
    if (!rc)
        rc = ctr_ranks_same_files(run->comm, cli->args + run->first, cli->nargs - run->first, &files, err);
    free(files.path);
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
