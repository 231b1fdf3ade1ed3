/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are MPI processes. MPI is a plug-in, lib/ctr/ctr-mpi.so, opened only if a launcher of MPI processes
 * started this one, because starting MPI takes a tenth of a second. See comm.h. */
#include "common/compute/comm_impl.h"
#include "common/compute/mpi_plugin.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLUGIN_NAME "ctr-mpi.so"

struct rank {
    struct ctr_comm base;
    const struct ctr_mpi_plugin *mpi;
    int64_t *out_n, *in_n;
    const void **out;
    void **in;
};

bool ctr_comm_started(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
}

static bool number_of(const char *name, int *n)
{
    const char *text = getenv(name);
    int64_t v;
    if (!text || !ctr_parse_i64(text, strlen(text), &v) || v < 0 || v > INT32_MAX)
        return false;
    *n = (int)v;
    return true;
}

bool ctr_comm_place(int *rank, int *size, int *local)
{
    *local = 0;
    (void)(number_of("OMPI_COMM_WORLD_LOCAL_RANK", local) || number_of("SLURM_LOCALID", local));
    return (number_of("OMPI_COMM_WORLD_RANK", rank) || number_of("PMIX_RANK", rank)) &&
           (number_of("OMPI_COMM_WORLD_SIZE", size) || number_of("SLURM_STEP_NUM_TASKS", size)) && *rank < *size;
}

int64_t ctr_comm_strangers(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    int64_t n;
    return !ctr_comm_started() && tasks && ctr_parse_i64(tasks, strlen(tasks), &n) && n > 1 ? n - 1 : 0;
}

static int mpi_swap(struct ctr_comm *c, const struct ctr_comm_part *out, struct ctr_buf *in, const int64_t *in_n,
                    struct ctr_err *err)
{
    struct rank *r = (struct rank *)c;
    char why[CTR_MPI_WHY];
    int rc = 0;
    for (int i = 0; i < c->size; i++) {
        r->out[i] = out[i].p;
        r->out_n[i] = (int64_t)out[i].n;
    }
    if (in_n)
        memcpy(r->in_n, in_n, (size_t)c->size * sizeof *in_n);
    else if (r->mpi->counts(r->out_n, r->in_n, why))
        return ctr_fail(err, CTR_ESYS, "%s", why);
    for (int i = 0; i < c->size; i++)
        if (i != c->rank)
            r->in[i] = ctr_buf_extend(&in[i], r->in_n[i], 1, &rc, err);
    if (!rc && r->mpi->data(r->out, r->out_n, r->in, r->in_n, why))
        rc = ctr_fail(err, CTR_ESYS, "%s", why);
    return rc;
}

/* Takes effect when the process exits, after its message. */
static void mpi_abort(struct ctr_comm *c, const char *why)
{
    (void)why;
    c->failed = true;
}

static void mpi_free(struct ctr_comm *c, bool failed)
{
    struct rank *r = (struct rank *)c;
    if (!failed)
        r->mpi->close();
    free(r->out_n);
    free(r->in_n);
    free((void *)r->out);
    free((void *)r->in);
    free(r);
}

static const struct ctr_comm_ops mpi_ops = { .name = "mpi", .swap = mpi_swap, .abort = mpi_abort, .free = mpi_free };

/* Open PROGRAM/../lib/ctr/ctr-mpi.so, as installed, and as in a build folder; or the file named by $CTR_MPI_PLUGIN. */
static int open_plugin(const struct ctr_mpi_plugin **mpi, struct ctr_err *err)
{
    char found[2 * PATH_MAX] = PLUGIN_NAME, program[PATH_MAX];
    const char *path = getenv("CTR_MPI_PLUGIN");
    const ssize_t n = path ? -1 : readlink("/proc/self/exe", program, sizeof program - 1);
    if (n >= 0) {
        program[n] = 0;
        snprintf(found, sizeof found, "%s/../lib/ctr/%s", dirname(program), PLUGIN_NAME);
    }
    /* Open MPI opens its own plug-ins, which need its symbols to be global. */
    const char *why;
    void *handle = ctr_library(path ? path : found, true, &why);
    if (!handle)
        return ctr_fail(err, CTR_ESYS,
                        "mpirun started this process, and the plug-in for MPI cannot be opened: %s (it is built where "
                        "Open MPI's libopenmpi-dev is)",
                        why);
    const struct ctr_mpi_plugin *p = dlsym(handle, CTR_MPI_SYMBOL);
    if (!p || p->layout != CTR_MPI_LAYOUT || strncmp(p->version, CTR_VERSION, sizeof p->version) != 0)
        return ctr_fail(err, CTR_EDATA, "%s: no plug-in of ctrkit %s: install both from one build", path ? path : found,
                        CTR_VERSION);
    *mpi = p;
    return 0;
}

int ctr_comm_mpi(struct ctr_comm **c, struct ctr_err *err)
{
    char why[CTR_MPI_WHY];
    int rank, size, local;
    struct rank *r = calloc(1, sizeof *r);
    int rc = r ? open_plugin(&r->mpi, err) : ctr_fail_nomem(err, sizeof *r);
    if (!rc && r->mpi->open(ctr_comm_limit_s(), &rank, &size, &local, why))
        rc = ctr_fail(err, CTR_ESYS, "%s", why);
    const struct ctr_mpi_plugin *mpi = rc ? NULL : r->mpi;
    if (!rc)
        rc = ctr_comm_init(&r->base, &mpi_ops, rank, size, err);
    if (rc) {
        free(r);
        return rc;
    }
    r->mpi = mpi;
    r->base.local = local;
    r->out_n = calloc((size_t)size, sizeof *r->out_n);
    r->in_n = calloc((size_t)size, sizeof *r->in_n);
    r->out = calloc((size_t)size, sizeof *r->out);
    r->in = calloc((size_t)size, sizeof *r->in);
    *c = &r->base;
    if (r->out_n && r->in_n && r->out && r->in)
        return 0;
    r->base.failed = true;
    return ctr_fail_nomem(err, (size_t)size * 4 * sizeof *r->out_n);
}
