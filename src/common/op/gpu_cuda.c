/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_cuda: CUDA's driver API, opened at run time: types and constants as in cuda.h of CUDA 12 and 13. */
#include "common/op/gpu_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* As in cuda.h: CUDA_KERNEL_NODE_PARAMS_v2. */
struct node_params {
    void *function;
    unsigned grid[3], block[3], shared;
    void **args, **extra;
    void *kernel, *context;
};

enum { MAJOR = 75, MINOR = 76 }; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_… */
enum { NON_BLOCKING = 1 };       /* CU_STREAM_NON_BLOCKING: apart from the default stream */

#define CALLS(X)                                                                                                       \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDeviceGetCount, (int *))                                                                                       \
    X(cuDeviceGet, (int *, int))                                                                                       \
    X(cuDeviceGetName, (char *, int, int))                                                                             \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                         \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuMemAlloc_v2, (gpu_ptr *, size_t))                                                                              \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
    X(cuMemFree_v2, (gpu_ptr))                                                                                         \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuMemcpyHtoDAsync_v2, (gpu_ptr, const void *, size_t, void *))                                                   \
    X(cuMemcpyDtoHAsync_v2, (void *, gpu_ptr, size_t, void *))                                                         \
    X(cuStreamCreate, (void **, unsigned))                                                                             \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                                   \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuStreamDestroy_v2, (void *))                                                                                    \
    X(cuModuleLoadData, (void **, const void *))                                                                       \
    X(cuModuleUnload, (void *))                                                                                        \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(cuGraphCreate, (void **, unsigned))                                                                              \
    X(cuGraphAddKernelNode_v2, (void **, void *, void *const *, size_t, const struct node_params *))                   \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphLaunch, (void *, void *))                                                                                 \
    X(cuGraphExecDestroy, (void *))                                                                                    \
    X(cuGraphDestroy, (void *))                                                                                        \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuEventElapsedTime, (float *, void *, void *))                                                                   \
    X(cuEventDestroy_v2, (void *))                                                                                     \
    X(cuGetErrorString, (int, const char **))

struct gpu_cuda {
    void *library, *context, *stream, *beside, *event[GPU_MARKS], *arrived;
    int device;
    char arch[16], name[128];
#define MEMBER(name, args) int(*name) args;
    CALLS(MEMBER)
#undef MEMBER
};

static int check(const struct gpu_cuda *c, int result, const char *what, struct ctr_err *err)
{
    const char *text = NULL;
    if (result == 0)
        return 0;
    c->cuGetErrorString(result, &text);
    return ctr_fail(err, result == 2 ? CTR_ENOMEM : CTR_ESYS, "GPU: %s: %s (%d)", what, text ? text : "unknown",
                    result);
}

static int find_symbols(struct gpu_cuda *c, const char *path, struct ctr_err *err)
{
    const char *missing = NULL;
#define FIND(name, args)                                                                                               \
    if (!(*(void **)&c->name = dlsym(c->library, #name)) && !missing)                                                  \
        missing = #name;
    CALLS(FIND)
#undef FIND
    return missing ? ctr_fail(err, CTR_ESYS, "no GPU: %s has no %s: CUDA 12 or newer is wanted", path, missing) : 0;
}

/* That number; -1: $CTR_CUDA_DEVICE, or the first device. */
static int choose_device(struct gpu_cuda *c, int number, struct ctr_err *err)
{
    const char *which = number < 0 ? getenv("CTR_CUDA_DEVICE") : NULL;
    int64_t at = CTR_MAX(number, 0);
    int n = 0, major = 0, minor = 0, rc = check(c, c->cuInit(0), "cuInit", err);
    if (rc == 0)
        rc = check(c, c->cuDeviceGetCount(&n), "counting devices", err);
    if (rc == 0 && n == 0)
        return ctr_fail(err, CTR_ESYS, "no GPU: the driver finds none");
    if (rc == 0 && which && (!ctr_parse_i64(which, strlen(which), &at) || at < 0 || at >= n))
        return ctr_fail(err, CTR_ESYS, "no GPU '%s' ($CTR_CUDA_DEVICE): the driver finds %d, counted from 0", which, n);
    if (rc == 0 && at >= n)
        return ctr_fail(err, CTR_ESYS, "no GPU %d (--device gpu:%d): the driver finds %d, counted from 0", number,
                        number, n);
    if (rc == 0)
        rc = check(c, c->cuDeviceGet(&c->device, (int)at), "device", err);
    if (rc == 0)
        rc = check(c, c->cuDeviceGetName(c->name, sizeof c->name, c->device), "name", err);
    if (rc == 0)
        rc = check(c, c->cuDeviceGetAttribute(&major, MAJOR, c->device), "architecture", err);
    if (rc == 0)
        rc = check(c, c->cuDeviceGetAttribute(&minor, MINOR, c->device), "architecture", err);
    snprintf(c->arch, sizeof c->arch, "sm_%d%d", major, minor);
    return rc;
}

int ctr_gpu_cuda_open(struct gpu_cuda **out, int number, struct ctr_err *err)
{
    const char *path = getenv("CTR_CUDA_DRIVER"), *why;
    struct gpu_cuda *c = calloc(1, sizeof *c);
    int rc = 0;
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    path = path ? path : "libcuda.so.1";
    c->library = ctr_library(path, false, &why);
    if (!c->library)
        rc = ctr_fail(err, CTR_ESYS, "no GPU: the driver of CUDA cannot be opened: %s", why);
    if (rc == 0)
        rc = find_symbols(c, path, err);
    if (rc == 0)
        rc = choose_device(c, number, err);
    if (rc == 0)
        rc = check(c, c->cuDevicePrimaryCtxRetain(&c->context, c->device), "context", err);
    if (rc == 0)
        rc = check(c, c->cuCtxSetCurrent(c->context), "context", err);
    if (rc == 0)
        rc = check(c, c->cuStreamCreate(&c->stream, NON_BLOCKING), "stream", err);
    if (rc == 0)
        rc = check(c, c->cuStreamCreate(&c->beside, NON_BLOCKING), "stream", err);
    if (rc == 0)
        rc = check(c, c->cuEventCreate(&c->arrived, 2 /* without time */), "event", err);
    for (int i = 0; rc == 0 && i < GPU_MARKS; i++)
        rc = check(c, c->cuEventCreate(&c->event[i], 0), "event", err);
    if (rc < 0) {
        ctr_gpu_cuda_free(c);
        c = NULL;
    }
    *out = c;
    return rc;
}

void ctr_gpu_cuda_free(struct gpu_cuda *c)
{
    for (int i = 0; c && i < GPU_MARKS; i++)
        if (c->event[i])
            c->cuEventDestroy_v2(c->event[i]);
    if (c && c->arrived)
        c->cuEventDestroy_v2(c->arrived);
    if (c && c->beside)
        c->cuStreamDestroy_v2(c->beside);
    if (c && c->stream)
        c->cuStreamDestroy_v2(c->stream);
    if (c && c->context)
        c->cuDevicePrimaryCtxRelease_v2(c->device);
    free(c); /* the library stays open: threads and exit handlers of the driver may still run its code */
}

const char *ctr_gpu_cuda_arch(const struct gpu_cuda *c)
{
    return c->arch;
}
const char *ctr_gpu_cuda_name(const struct gpu_cuda *c)
{
    return c->name;
}
void *ctr_gpu_cuda_stream(const struct gpu_cuda *c)
{
    return c->stream;
}

int ctr_gpu_cuda_alloc(struct gpu_cuda *c, gpu_ptr *p, int64_t bytes, struct ctr_err *err)
{
    int rc = check(c, c->cuCtxSetCurrent(c->context), "context", err); /* whichever thread calls */
    *p = 0;
    return rc < 0 ? rc
                  : check(c, c->cuMemAlloc_v2(p, (size_t)CTR_MAX(bytes, 64)), ctr_size_text((uint64_t)bytes).s, err);
}

void ctr_gpu_cuda_release(struct gpu_cuda *c, gpu_ptr p)
{
    if (p)
        (void)c->cuMemFree_v2(p);
}

int ctr_gpu_cuda_up(struct gpu_cuda *c, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err)
{
    int rc = check(c, c->cuCtxSetCurrent(c->context), "context", err);
    return rc < 0 || bytes == 0
               ? rc
               : check(c, c->cuMemcpyHtoDAsync_v2(to, from, (size_t)bytes, c->stream), "copy to the device", err);
}

int ctr_gpu_cuda_down(struct gpu_cuda *c, void *to, gpu_ptr from, int64_t bytes, struct ctr_err *err)
{
    return bytes == 0
               ? 0
               : check(c, c->cuMemcpyDtoHAsync_v2(to, from, (size_t)bytes, c->stream), "copy from the device", err);
}

int ctr_gpu_cuda_up_beside(struct gpu_cuda *c, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err)
{
    int rc = check(c, c->cuMemcpyHtoDAsync_v2(to, from, (size_t)bytes, c->beside), "copy to the device", err);
    return rc < 0 ? rc : check(c, c->cuEventRecord(c->arrived, c->beside), "event", err);
}

int ctr_gpu_cuda_join(struct gpu_cuda *c, struct ctr_err *err)
{
    return check(c, c->cuStreamWaitEvent(c->stream, c->arrived, 0), "event", err);
}

int ctr_gpu_cuda_wait(struct gpu_cuda *c, struct ctr_err *err)
{
    return check(c, c->cuStreamSynchronize(c->stream), "kernel, or a copy beside it", err);
}

int ctr_gpu_cuda_pin(struct gpu_cuda *c, void **p, int64_t bytes, struct ctr_err *err)
{
    int rc = check(c, c->cuCtxSetCurrent(c->context), "context", err);
    char what[64];
    snprintf(what, sizeof what, "%s of page-locked memory", ctr_size_text((uint64_t)bytes).s);
    *p = NULL;
    return rc < 0 ? rc : check(c, c->cuMemHostAlloc(p, (size_t)CTR_MAX(bytes, 64), 0), what, err);
}

void ctr_gpu_cuda_unpin(struct gpu_cuda *c, void *p)
{
    if (p)
        (void)c->cuMemFreeHost(p);
}

int ctr_gpu_cuda_load(struct gpu_cuda *c, const struct ctr_buf *code, void **module, struct ctr_err *err)
{
    /* invalid image, no binary for the device, invalid PTX, PTX of another version, invalid source */
    static const int foreign[] = { 200, 209, 218, 222, 300 };
    int rc = check(c, c->cuCtxSetCurrent(c->context), "context", err), result;
    if (rc < 0)
        return rc;
    result = c->cuModuleLoadData(module, code->data);
    for (size_t i = 0; i < CTR_COUNT(foreign); i++)
        if (result == foreign[i])
            return ctr_fail(err, CTR_ESYS,
                            "GPU: the driver refuses a kernel that NVRTC compiled for %s (%d): they are of different "
                            "versions of CUDA; take a newer driver, or name an NVRTC of its version by $CTR_NVRTC",
                            c->arch, result);
    return check(c, result, "loading a kernel", err);
}

void ctr_gpu_cuda_unload(struct gpu_cuda *c, void *module)
{
    if (module)
        (void)c->cuModuleUnload(module);
}

int ctr_gpu_cuda_function(struct gpu_cuda *c, void *module, const char *name, void **function, struct ctr_err *err)
{
    return check(c, c->cuModuleGetFunction(function, module, name), name, err);
}

int ctr_gpu_cuda_launch(struct gpu_cuda *c, void *function, unsigned blocks, unsigned threads, unsigned shared,
                        const void *argument, struct ctr_err *err)
{
    void *args[] = { (void *)(uintptr_t)argument };
    return check(c, c->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, c->stream, args, NULL),
                 "starting a kernel", err);
}

int64_t ctr_gpu_cuda_memory(struct gpu_cuda *c)
{
    size_t left = 0, all = 0;
    return c->cuCtxSetCurrent(c->context) || c->cuMemGetInfo_v2(&left, &all) ? 0 : (int64_t)left;
}

int ctr_gpu_cuda_mark(struct gpu_cuda *c, enum gpu_mark mark, struct ctr_err *err)
{
    return check(c, c->cuEventRecord(c->event[mark], c->stream), "event", err);
}

int ctr_gpu_cuda_between(struct gpu_cuda *c, enum gpu_mark from, enum gpu_mark to, double *seconds, struct ctr_err *err)
{
    float ms = 0;
    int rc = check(c, c->cuEventElapsedTime(&ms, c->event[from], c->event[to]), "event", err);
    *seconds += (double)ms * 1e-3;
    return rc;
}

int ctr_gpu_cuda_graph(struct gpu_cuda *c, const struct gpu_node *node, int n, void **exec, struct ctr_err *err)
{
    void *graph = NULL, *made;
    int rc = check(c, c->cuGraphCreate(&graph, 0), "graph", err);
    for (int i = 0; rc == 0 && i < n; i++) {
        void *args[] = { (void *)(uintptr_t)node[i].argument };
        const struct node_params p = { .function = node[i].function,
                                       .grid = { node[i].blocks, 1, 1 },
                                       .block = { node[i].threads, 1, 1 },
                                       .shared = node[i].shared,
                                       .args = args };
        rc = check(c, c->cuGraphAddKernelNode_v2(&made, graph, NULL, 0, &p), "graph", err);
    }
    *exec = NULL;
    if (rc == 0)
        rc = check(c, c->cuGraphInstantiateWithFlags(exec, graph, 0), "graph", err);
    if (graph)
        c->cuGraphDestroy(graph);
    return rc;
}

int ctr_gpu_cuda_graph_launch(struct gpu_cuda *c, void *exec, struct ctr_err *err)
{
    return check(c, c->cuGraphLaunch(exec, c->stream), "starting a graph", err);
}

void ctr_gpu_cuda_graph_free(struct gpu_cuda *c, void *exec)
{
    if (exec)
        c->cuGraphExecDestroy(exec);
}
