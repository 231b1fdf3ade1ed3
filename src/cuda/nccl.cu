/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl: the GPUs of ranks send each other memory by NCCL, which is opened at run time ($CTR_NCCL_LIBRARY or
 * libnccl.so.2). Every call of NCCL returns at once, and wait_for polls: after the limit it aborts the connection, so
 * that no rank waits for ever for one that has stopped. On the host only the library that is named is opened.
 */
#include "cuda/kernel.h"

#if defined(CTR_NCCL) && !defined(CTR_CUDA_ON_HOST)
#include <nccl.h>
#endif

#if defined(CTR_NCCL) || defined(CTR_CUDA_ON_HOST)

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#ifdef CTR_CUDA_ON_HOST
#define NCCL_LIBRARY NULL
#else
#define NCCL_LIBRARY "libnccl.so.2"
#endif

#define NCCL_CALLS(X)                                                                                                  \
    X(version, ncclGetVersion)                                                                                         \
    X(unique_id, ncclGetUniqueId)                                                                                      \
    X(open, ncclCommInitRankConfig)                                                                                    \
    X(state, ncclCommGetAsyncError)                                                                                    \
    X(abort, ncclCommAbort)                                                                                            \
    X(group, ncclGroupStart)                                                                                           \
    X(group_end, ncclGroupEnd)                                                                                         \
    X(send, ncclSend)                                                                                                  \
    X(receive, ncclRecv)                                                                                               \
    X(text, ncclGetErrorString)                                                                                        \
    X(last, ncclGetLastError)

static struct {
#define MEMBER(name, function) decltype(&function) name;
    NCCL_CALLS(MEMBER)
} nccl;

struct cuda_nccl {
    ncclComm_t comm;
    int rank, ranks;
    double limit_s;
};

static int load(struct ctr_err *err)
{
    const char *named = getenv("CTR_NCCL_LIBRARY"), *path = named ? named : NCCL_LIBRARY;
    if (nccl.last)
        return 0;
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return cuda_fail(err, CTR_ESYS, "NCCL cannot be opened: %s", path ? dlerror() : "CTR_NCCL_LIBRARY names none");
#define LOAD(name, function)                                                                                           \
    nccl.name = (decltype(nccl.name))dlsym(library, #function);                                                        \
    if (!nccl.name)                                                                                                    \
        return cuda_fail(err, CTR_ESYS, "%s has no %s; install NCCL 2.14 or later", path, #function);
    NCCL_CALLS(LOAD)
    return 0;
}

/* ---- waiting ---- */

static double now_s()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Abort the connection; kernels of NCCL that wait on the device end. */
static void give_up(struct cuda_dev *c)
{
    if (c->nccl && c->nccl->comm)
        nccl.abort(c->nccl->comm);
    if (c->nccl)
        c->nccl->comm = NULL;
}

static int failed(struct cuda_dev *c, ncclResult_t e, const char *what, struct ctr_err *err)
{
    const char *last = nccl.last(c->nccl ? c->nccl->comm : NULL);
    const int rc = cuda_fail(err, CTR_ESYS, "%s: NCCL: %s: %s%s%.400s (CTR_NCCL=0 sends through host memory)",
                             c->dev->title, what, nccl.text(e), last && *last ? ": " : "", last ? last : "");
    give_up(c);
    if (e == ncclRemoteError) /* the rank that failed says why, and ends this one: it goes first */
        usleep(1000000);
    return rc;
}

static bool is_error(ncclResult_t e)
{
    return e != ncclSuccess && e != ncclInProgress;
}

/* Wait for the connection and, with `queued`, for what it has queued on the device. */
static int wait_for(struct cuda_dev *c, bool queued, const char *what, struct ctr_err *err)
{
    enum { SPINS = 1000, NAP_US = 50 };
    const double until = now_s() + c->nccl->limit_s;
    for (int64_t turn = 0;; turn++) {
        ncclResult_t state = ncclSuccess;
        const ncclResult_t asked = nccl.state(c->nccl->comm, &state);
        if (is_error(asked) || is_error(state))
            return failed(c, is_error(asked) ? asked : state, what, err);
        if (state == ncclSuccess && !queued)
            return 0;
        const cudaError_t e = state == ncclSuccess ? cudaStreamQuery(cuda_queue(c)) : cudaErrorNotReady;
        if (e == cudaSuccess)
            return 0;
        if (e != cudaErrorNotReady || now_s() > until)
            give_up(c);
        if (e != cudaErrorNotReady)
            return cuda_check(c, e, what, err);
        if (!c->nccl->comm)
            return cuda_fail(err, CTR_ESYS,
                             "%s: NCCL: rank %d of %d: %s has taken %g s: a rank has stopped, or the "
                             "GPUs cannot reach each other; the run ends (CTR_NCCL=0 sends through host memory)",
                             c->dev->title, c->nccl->rank, c->nccl->ranks, what, c->nccl->limit_s);
        if (turn > SPINS)
            usleep(NAP_US);
    }
}

/* ---- the table ---- */

static int link_find(struct ctr_dev *dev, char *place, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const int rc = load(err);
    return rc ? rc
              : cuda_check(c, cudaDeviceGetPCIBusId(place, CTR_LINK_PLACE, c->ordinal), "asking for its address", err);
}

static int link_id(struct ctr_dev *dev, unsigned char *id, struct ctr_err *err)
{
    ncclUniqueId unique;
    const ncclResult_t e = nccl.unique_id(&unique);
    static_assert(sizeof unique == CTR_LINK_ID, "the id of NCCL");
    memcpy(id, &unique, sizeof unique);
    return e == ncclSuccess ? 0 : failed(cuda_of(dev), e, "an id for the ranks", err);
}

static int link_open(struct ctr_dev *dev, const struct ctr_dev_link *link, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    struct cuda_nccl *n = c->nccl = (struct cuda_nccl *)calloc(1, sizeof *n);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    if (!n)
        return cuda_fail(err, CTR_ENOMEM, "out of memory");
    n->rank = link->rank;
    n->ranks = link->ranks;
    n->limit_s = link->limit_s;
    config.blocking = 0;
    memcpy(&id, link->id, sizeof id);
    const ncclResult_t e = nccl.open(&n->comm, n->ranks, id, n->rank, &config);
    return is_error(e) ? failed(c, e, "connecting", err) : wait_for(c, false, "connecting", err);
}

static ncclResult_t queue(struct cuda_dev *c, const struct ctr_dev_swap *a)
{
    const struct cuda_nccl *n = c->nccl;
    const char *out = a->out ? (const char *)a->out->p : NULL;
    char *in = a->in ? (char *)a->in->p : NULL;
    ncclResult_t e = nccl.group();
    for (int k = 1; k < n->ranks && !is_error(e); k++) { /* each rank begins with another one */
        const int to = (n->rank + k) % n->ranks, from = (n->rank + n->ranks - k) % n->ranks;
        if (a->out_n[to])
            e = nccl.send(out + a->out_at[to], (size_t)a->out_n[to], ncclInt8, to, n->comm, cuda_queue(c));
        if (a->in_n[from] && !is_error(e))
            e = nccl.receive(in + a->in_at[from], (size_t)a->in_n[from], ncclInt8, from, n->comm, cuda_queue(c));
    }
    const ncclResult_t end = nccl.group_end();
    return is_error(e) ? e : end;
}

static int link_swap(struct ctr_dev *dev, const struct ctr_dev_swap *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const int own = c->nccl->rank;
    int rc = cuda_started(c, "starting a kernel", err);
    if (!rc && a->out_n[own])
        rc = cuda_check(c,
                        cudaMemcpyAsync((char *)a->in->p + a->in_at[own], (const char *)a->out->p + a->out_at[own],
                                        (size_t)a->out_n[own], cudaMemcpyDeviceToDevice, cuda_queue(c)),
                        "copying", err);
    if (rc)
        return rc;
    const ncclResult_t e = queue(c, a);
    return is_error(e) ? failed(c, e, "sending", err) : wait_for(c, true, "sending", err);
}

/* Abort instead of ncclCommDestroy, which waits for all ranks, of which some may have failed. Nothing is lost: every
 * swap has been waited for, on all ranks. */
void cuda_link_close(struct cuda_dev *c)
{
    give_up(c);
    free(c->nccl);
    c->nccl = NULL;
}

const struct ctr_link_ops cuda_link_ops = { link_find, link_id, link_open, link_swap };

#else

static int link_find(struct ctr_dev *, char *, struct ctr_err *err)
{
    return cuda_fail(err, CTR_ESYS, "the plug-in was built without nccl.h (install libnccl-dev and run make again)");
}

void cuda_link_close(struct cuda_dev *) {}

const struct ctr_link_ops cuda_link_ops = { link_find, NULL, NULL, NULL };

#endif
