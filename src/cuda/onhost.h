/* SPDX-License-Identifier: Apache-2.0
 *
 * onhost: the part of CUDA that the plug-in uses, on the host, so that tests can run it without a GPU. A kernel without
 * barriers runs as a loop over its elements, backwards, so that code which relies on an order that GPUs do not
 * guarantee fails. Under ThreadSanitizer, and for kernels with barriers always, it runs in blocks of threads (see
 * onhost_blocks.h). Misaligned loads are not detected: compute-sanitizer does that.
 *
 * Streams are queues. $CTR_CUDA_ON_HOST_ORDER delays their operations as long as CUDA allows, so that missing
 * synchronisation changes results: "copies": the copy queue runs only when waited for; "kernels": the compute queue
 * does, while copies run at once; with "careless" appended, waits for events and barriers are ignored, which tests must
 * detect. Without it every operation runs at once.
 *
 * $CTR_CUDA_ON_HOST_FAIL=CALL:N makes the N-th call of a kind fail (names: onhost_call_names). $CTR_CUDA_ON_HOST_SAYS:
 * when the process ends, stderr reports the number of calls of each kind, the bytes copied while kernels were queued,
 * and the allocations, streams, events and handles not released. $CTR_CUDA_ON_HOST_DEVICES: how many devices there are.
 * A call for another one than that of the calling thread's last cudaSetDevice fails.
 *
 * What a driver refuses is refused here: pointers that no allocation of the right kind holds (of copies, of kernels, to
 * free), sizes of launches beyond a GPU's limits, leading dimensions that cuBLAS does not take; and arguments with
 * padding, whose bytes graph.cu would compare. Fresh memory is NaN.
 * $CTR_CUDA_ON_HOST_FAIL=fault:N lets the N-th kernel start and fault: as on a GPU, that is seen by the first call that
 * waits for it, and by every one after.
 *
 * A stream that is captured records kernels, products and copies with their arguments, and runs nothing. Any other call
 * of that thread that takes a device, memory or a stream fails and makes the capture invalid. Calls during a capture,
 * and those that make a graph of it, count as "capture"; a graph that is launched counts as one launch. */
#ifndef CTR_CUDA_ONHOST_H
#define CTR_CUDA_ONHOST_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))

#include "cuda/onhost_blocks.h"

/* The elements of a thread: the number of threads is large enough for one each. Backwards. */
static inline int64_t onhost_threads(const struct onhost_place &me)
{
    return (int64_t)me.blocks.x * me.threads.x;
}
static inline int64_t onhost_last(const struct onhost_place &me, int64_t n)
{
    const int64_t first = (int64_t)me.block.x * me.threads.x + me.thread.x;
    return n > first ? first + (n - 1 - first) / onhost_threads(me) * onhost_threads(me) : -1;
}

#define KERNEL static void
#define EACH(i, n)                                                                                                     \
    const struct onhost_place here_ = onhost_here();                                                                   \
    for (int64_t i = onhost_last(here_, n); i >= 0; i -= onhost_threads(here_))
/* Runs a kernel without barriers in blocks only to detect races. */
enum { ONHOST_BLOCKS = 2, ONHOST_THREADS = 4 };
#define EACH_BLOCKS(n)     (ONHOST_RACES ? ONHOST_BLOCKS : 0)
#define EACH_THREADS       (ONHOST_RACES ? ONHOST_THREADS : 0)
#define SHARED(type, name) type *name = (type *)onhost_here().shared

typedef int cudaError_t;
enum {
    cudaSuccess,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnmatched = 903,
    cudaErrorUnknown = 999
};
enum { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TF32_TENSOR_OP_MATH = 3 };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaStreamNonBlocking, cudaEventDisableTiming };
enum { cudaStreamCaptureModeThreadLocal = 1 };

/* ---- calls: they are counted, and one of them may fail ---- */

enum onhost_call {
    ONHOST_MALLOC,
    ONHOST_COPY,
    ONHOST_BACK,
    ONHOST_LAUNCH,
    ONHOST_BLAS,
    ONHOST_WAIT,
    ONHOST_CREATE,
    ONHOST_FAULT,
    ONHOST_CAPTURE,
    ONHOST_CALLS
};
inline const char *const onhost_call_names[ONHOST_CALLS] = { "malloc", "copy",   "back",  "launch", "blas",
                                                             "wait",   "create", "fault", "capture" };
inline std::atomic<int64_t> onhost_calls[ONHOST_CALLS], onhost_left, onhost_kernels, onhost_overlapped, onhost_pageable,
    onhost_bytes, onhost_down;

/* Printed when the process ends. onhost_kernels: queued; onhost_overlapped: bytes copied meanwhile; onhost_bytes:
 * between host and device; onhost_down: of these, to the host. */
struct onhost_report {
    ~onhost_report()
    {
        if (!getenv("CTR_CUDA_ON_HOST_SAYS"))
            return;
        for (int i = 0; i < ONHOST_CALLS; i++)
            fprintf(stderr, "on host: %s %lld\n", onhost_call_names[i], (long long)onhost_calls[i]);
        fprintf(stderr, "on host: %lld bytes were copied while kernels were queued\n", (long long)onhost_overlapped);
        fprintf(stderr, "on host: bytes %lld\n", (long long)onhost_bytes);
        fprintf(stderr, "on host: down %lld\n", (long long)onhost_down);
        fprintf(stderr, "on host: %lld copies of pageable memory\n", (long long)onhost_pageable);
        fprintf(stderr, "on host: %lld left\n", (long long)onhost_left);
    }
};
inline struct onhost_report onhost_report;

/* Count a call. Is it the one that must fail? */
static inline bool onhost_fails(enum onhost_call call)
{
    const int64_t n = ++onhost_calls[call];
    const char *want = getenv("CTR_CUDA_ON_HOST_FAIL"), *colon = want ? strchr(want, ':') : NULL;
    return colon && (size_t)(colon - want) == strlen(onhost_call_names[call]) &&
           !strncmp(want, onhost_call_names[call], (size_t)(colon - want)) && n == atoll(colon + 1);
}

/* Of a thread: the stream that is captured, and what it was given. */
inline thread_local struct onhost_capture {
    struct onhost_stream *stream;
    bool invalid;
    std::vector<std::function<void()>> nodes;
} onhost_capture;
inline thread_local cudaError_t onhost_last_error; /* cudaGetLastError: of captures and graphs */

static inline cudaError_t onhost_noted(cudaError_t e)
{
    onhost_last_error = e == cudaSuccess ? onhost_last_error : e;
    return e;
}
static inline cudaError_t onhost_invalid(cudaError_t e)
{
    onhost_capture.invalid = true;
    return onhost_noted(e);
}
/* A call for stream s, or NULL: may a thread that captures make it? */
static inline cudaError_t onhost_called(enum onhost_call call, struct onhost_stream *s = NULL)
{
    if (onhost_capture.stream) {
        if (s != onhost_capture.stream)
            return onhost_invalid(cudaErrorStreamCaptureUnsupported);
        return onhost_fails(ONHOST_CAPTURE) || onhost_capture.invalid
                   ? onhost_invalid(cudaErrorStreamCaptureInvalidated)
                   : cudaSuccess;
    }
    return !onhost_fails(call)     ? cudaSuccess
           : call == ONHOST_MALLOC ? cudaErrorMemoryAllocation
                                   : cudaErrorLaunchFailure;
}
/* Likewise, of one that is not counted. */
static inline cudaError_t onhost_unless_capturing()
{
    return onhost_capture.stream ? onhost_invalid(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

/* ---- memory: of the device, and pinned ---- */

struct onhost_block {
    size_t bytes;
    bool pinned;
};
inline std::map<const char *, onhost_block> onhost_blocks;
inline std::mutex onhost_lock;

/* The block that holds n bytes at p, or NULL. */
static inline const struct onhost_block *onhost_holds(const void *p, size_t n)
{
    const std::lock_guard<std::mutex> guard(onhost_lock);
    auto b = onhost_blocks.upper_bound((const char *)p);
    if (b == onhost_blocks.begin())
        return NULL;
    --b;
    return (const char *)p + n <= b->first + b->second.bytes ? &b->second : NULL;
}
/* Does the stand-in for the driver (tests/gpu/driver.cc) hold them? A GPU is one for both. */
static inline bool onhost_driver_holds(const void *p, size_t n)
{
    const char *path = getenv("CTR_CUDA_DRIVER");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *holds = driver ? dlsym(driver, "driver_holds") : NULL;
    const bool held = holds && ((bool (*)(const void *, size_t))holds)(p, n);
    if (driver)
        dlclose(driver);
    return held;
}
static inline bool onhost_on_device(const void *p, size_t n)
{
    const struct onhost_block *b = onhost_holds(p, n);
    return n == 0 || (b ? !b->pinned : onhost_driver_holds(p, n));
}
/* May a kernel take this argument? A pointer must be the device's, or to pinned memory, which it can reach. */
template <class T> static inline bool onhost_takes(T a)
{
    if constexpr (std::is_pointer_v<T>)
        return !a || onhost_holds((const void *)a, 1) || onhost_driver_holds((const void *)a, 1);
    return true;
}

/* A copy and a kernel that needs it, with $CTR_CUDA_ON_HOST_ORDER=copies:
 *
 *     cudaMemcpyAsync(x, …, copy)        waits in the queue of `copy`: x is still NaN
 *     cudaEventRecord(e, copy)           e = {copy, 1 operation}
 *     cudaStreamWaitEvent(compute, e)    an operation of `compute`: run `copy` up to 1
 *     LAUNCH(c, kernel, …)               runs behind it, and sees x
 *
 * Without the wait, or with "careless", the kernel reads NaN and the test fails, as it would now and then on a GPU. An
 * operation runs when its stream gets it, unless the order delays it until somebody waits: cudaStreamSynchronize, or
 * the wait above. */

/* ---- streams ---- */

/* What a kernel that faulted left: no later call works. */
inline std::atomic<cudaError_t> onhost_fault;

struct onhost_stream {
    std::deque<std::function<void()>> waiting;
    int64_t queued, done;
    bool computes;
    int device;
};
typedef struct onhost_stream *cudaStream_t;
struct onhost_event {
    cudaStream_t stream;
    int64_t at; /* number of operations after which it is reached */
};
typedef struct onhost_event *cudaEvent_t;
struct onhost_blas {
    cudaStream_t stream;
    int math;
    bool workspace;
};
typedef struct onhost_blas *cublasHandle_t;

inline thread_local int onhost_device; /* cudaSetDevice */

static inline bool onhost_order(const char *word)
{
    const char *order = getenv("CTR_CUDA_ON_HOST_ORDER");
    return order && strstr(order, word);
}
/* While it lives, denormals are zero, as in kernels that nvcc makes with -ftz=true, in any thread and at any time. */
struct onhost_flush {
#if defined __x86_64__
    const unsigned before = __builtin_ia32_stmxcsr();
    onhost_flush()
    {
        __builtin_ia32_ldmxcsr(before | 0x8040);
    }
    ~onhost_flush()
    {
        __builtin_ia32_ldmxcsr(before);
    }
#endif
};
static inline void onhost_run(cudaStream_t s, int64_t upto)
{
    [[maybe_unused]] const onhost_flush flush;
    while (s->done < upto) {
        const std::function<void()> next = std::move(s->waiting.front());
        s->waiting.pop_front();
        if (!onhost_fault)
            next();
        s->done++;
        onhost_kernels -= s->computes;
    }
}
static inline void onhost_queue(cudaStream_t s, std::function<void()> what)
{
    if (onhost_capture.stream) {
        onhost_capture.nodes.push_back(std::move(what));
        return;
    }
    s->waiting.push_back(std::move(what));
    s->queued++;
    onhost_kernels += s->computes;
    if (!onhost_order(s->computes ? "kernels" : "copies"))
        onhost_run(s, s->queued);
}
static inline cudaError_t cudaGetLastError()
{
    const cudaError_t e = onhost_fault ? onhost_fault.load() : onhost_last_error;
    onhost_last_error = cudaSuccess;
    return e;
}
#if defined __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define ONHOST_KNOWS_PADDING
#endif
#endif
/* Has T bytes that no member sets? Arguments of kernels are compared as bytes (graph.cu). */
template <class T> static inline bool onhost_padded()
{
    alignas(T) unsigned char all[sizeof(T)], ones[sizeof(T)];
    memset(all, 0xff, sizeof all);
    memset(ones, 0xff, sizeof ones);
#ifdef ONHOST_KNOWS_PADDING
    __builtin_clear_padding((T *)(void *)all);
#endif
    return memcmp(all, ones, sizeof all) != 0;
}
/* In `blocks` blocks of `threads` threads or, of 0 threads, as one thread with all elements. */
template <class F, class... A>
static inline cudaError_t onhost_launch(cudaStream_t s, unsigned blocks, unsigned threads, size_t bytes, F kernel,
                                        A... a)
{
    cudaError_t e = s->device == onhost_device ? onhost_called(ONHOST_LAUNCH, s) : cudaErrorInvalidDevice;
    if (e == cudaSuccess && threads && (blocks < 1 || blocks > 0x7fffffff || threads > 1024 || bytes > 48 << 10))
        e = cudaErrorInvalidConfiguration;
    if (e == cudaSuccess && (!(onhost_takes(a) && ...) || (onhost_padded<A>() || ...)))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess)
        e = cudaGetLastError();
    if (e != cudaSuccess)
        return e;
    if (!s->computes && !onhost_capture.stream) {
        onhost_run(s, s->queued);
        s->computes = true;
    }
    const bool faults = !onhost_capture.stream && onhost_fails(ONHOST_FAULT);
    onhost_queue(s, [=] {
        if (faults || !(onhost_takes(a) && ...)) /* its memory may be gone by now */
            onhost_fault = cudaErrorIllegalAddress;
        else if (threads)
            onhost_run_blocks(blocks, threads, bytes, [&] { kernel(a...); });
        else
            kernel(a...);
    });
    return cudaSuccess;
}

struct cudaDeviceProp {
    char name[64];
    int major, minor;
};

static inline const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    default: return "no error";
    }
}
static inline cudaError_t cudaGetDeviceCount(int *n)
{
    *n = getenv("CTR_CUDA_ON_HOST_DEVICES") ? atoi(getenv("CTR_CUDA_ON_HOST_DEVICES")) : 1;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int device)
{
    int n = 0;
    cudaGetDeviceCount(&n);
    if (device < 0 || device >= n)
        return cudaErrorInvalidDevice;
    onhost_device = device;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    *p = { "its kernels on the host", 0, 0 };
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", device);
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *v)
{
    *v = getenv("CTR_CUDA_ON_HOST_DRIVER") ? atoi(getenv("CTR_CUDA_ON_HOST_DRIVER")) : 12000;
    return cudaSuccess;
}
static inline cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = (size_t)1 << 36;
    return cudaSuccess;
}
/* Not cleared: as floats its bytes are NaN. */
static inline cudaError_t onhost_alloc(void **p, size_t n, bool pinned)
{
    const cudaError_t e = onhost_fault ? onhost_fault.load() : onhost_called(ONHOST_MALLOC);
    *p = e == cudaSuccess && n < (size_t)1 << 36 ? malloc(n) : NULL;
    if (!*p)
        return e == cudaSuccess ? cudaErrorMemoryAllocation : e;
    memset(*p, 0xff, n);
    onhost_left++;
    const std::lock_guard<std::mutex> guard(onhost_lock);
    onhost_blocks[(const char *)*p] = { n, pinned };
    return cudaSuccess;
}
static inline cudaError_t onhost_free(void *p, bool pinned)
{
    const cudaError_t e = onhost_unless_capturing();
    if (!p || e != cudaSuccess)
        return e;
    {
        const std::lock_guard<std::mutex> guard(onhost_lock);
        const auto b = onhost_blocks.find((const char *)p);
        if (b == onhost_blocks.end() || b->second.pinned != pinned)
            return cudaErrorInvalidValue;
        memset(p, 0xff, b->second.bytes);
        onhost_blocks.erase(b);
    }
    onhost_left--;
    free(p);
    return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **p, size_t n)
{
    return onhost_alloc(p, n, false);
}
static inline cudaError_t cudaFree(void *p)
{
    return onhost_free(p, false);
}
static inline cudaError_t cudaMallocHost(void **p, size_t n)
{
    return onhost_alloc(p, n, true);
}
static inline cudaError_t cudaFreeHost(void *p)
{
    return onhost_free(p, true);
}
static inline cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
    cudaError_t e = onhost_called(ONHOST_COPY, s);
    if (e == cudaSuccess && !onhost_on_device(p, n))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess)
        onhost_queue(s, [=] { memset(p, v, n); });
    return e;
}
/* Both ends are what `kind` says; a host's memory that is not pinned is counted. */
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, cudaStream_t s)
{
    cudaError_t e = onhost_called(kind == cudaMemcpyDeviceToHost ? ONHOST_BACK : ONHOST_COPY, s);
    const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
    const void *host = to_device ? from : to;
    if (e == cudaSuccess && n && (onhost_on_device(to, n) != to_device || onhost_on_device(from, n) != from_device))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess && n && !(to_device && from_device) && !onhost_holds(host, n)) {
        onhost_pageable++;
        e = onhost_unless_capturing();
    }
    if (e == cudaSuccess && !(to_device && from_device))
        onhost_bytes += (int64_t)n;
    if (e == cudaSuccess && !to_device)
        onhost_down += (int64_t)n;
    if (e == cudaSuccess)
        onhost_queue(s, [=] {
            memcpy(to, from, n);
            if (!s->computes && onhost_kernels > 0)
                onhost_overlapped += (int64_t)n;
        });
    return e;
}
template <class T, class F>
static inline cudaError_t onhost_create(T *out, const F &first, enum onhost_call call = ONHOST_CREATE)
{
    const cudaError_t e = onhost_called(call);
    *out = NULL;
    if (e != cudaSuccess)
        return e;
    *out = new F(first);
    onhost_left++;
    return e;
}
template <class T> static inline cudaError_t onhost_destroy(T *p)
{
    const cudaError_t e = onhost_unless_capturing();
    if (e != cudaSuccess)
        return e;
    onhost_left -= p != NULL;
    delete p;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, int)
{
    struct onhost_stream none = {};
    none.device = onhost_device;
    return onhost_create(s, none);
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    const cudaError_t e = onhost_called(ONHOST_WAIT);
    if (onhost_capture.stream)
        return e;
    onhost_run(s, s->queued);
    return onhost_fault ? onhost_fault.load() : e;
}
static inline cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return cudaStreamSynchronize(s);
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    return onhost_destroy(s);
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, int)
{
    struct onhost_event none = {};
    return onhost_create(e, none);
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    return onhost_destroy(e);
}
static inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    *e = { s, s->queued };
    return onhost_unless_capturing();
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, int)
{
    const onhost_event now = *e;
    const cudaError_t may = onhost_unless_capturing();
    if (may == cudaSuccess && !onhost_order("careless"))
        onhost_queue(s, [=] { onhost_run(now.stream, now.at); });
    return may;
}

/* ---- graphs ---- */

struct onhost_graph {
    std::vector<std::function<void()>> nodes;
};
struct onhost_graph_exec : onhost_graph {
};
typedef struct onhost_graph *cudaGraph_t;
typedef struct onhost_graph_exec *cudaGraphExec_t;

static inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, int)
{
    const cudaError_t e = onhost_called(ONHOST_CAPTURE);
    if (e != cudaSuccess)
        return onhost_noted(e);
    onhost_capture.stream = s;
    onhost_capture.invalid = false;
    onhost_capture.nodes.clear();
    return e;
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    *g = NULL;
    if (s != onhost_capture.stream)
        return onhost_noted(cudaErrorStreamCaptureUnmatched);
    const cudaError_t e = onhost_called(ONHOST_CAPTURE, s);
    onhost_capture.stream = NULL;
    return e == cudaSuccess ? onhost_noted(onhost_create(g, onhost_graph{ onhost_capture.nodes }, ONHOST_CAPTURE)) : e;
}
static inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t g, unsigned long long)
{
    return onhost_noted(onhost_create(exec, onhost_graph_exec{ *g }, ONHOST_CAPTURE));
}
static inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return onhost_noted(onhost_called(ONHOST_CAPTURE));
}
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    cudaError_t e = s->device != onhost_device ? cudaErrorInvalidDevice
                    : onhost_fault             ? onhost_fault.load()
                                               : onhost_called(ONHOST_LAUNCH);
    const bool faults = e == cudaSuccess && onhost_fails(ONHOST_FAULT);
    if (e == cudaSuccess)
        onhost_queue(s, [=, nodes = exec->nodes] {
            if (faults)
                onhost_fault = cudaErrorIllegalAddress;
            for (size_t i = 0; i < nodes.size() && !onhost_fault; i++)
                nodes[i]();
        });
    return e;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    return onhost_destroy(g);
}
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return onhost_destroy(exec);
}

/* ---- cuBLAS ---- */

static inline int cublasCreate(cublasHandle_t *h)
{
    struct onhost_blas none = {};
    return onhost_create(h, none) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : 1;
}
static inline int cublasDestroy(cublasHandle_t h)
{
    onhost_destroy(h);
    return CUBLAS_STATUS_SUCCESS;
}
static inline int cublasSetStream(cublasHandle_t h, cudaStream_t s)
{
    h->stream = s;
    h->workspace = false;
    return CUBLAS_STATUS_SUCCESS;
}
static inline int cublasSetWorkspace(cublasHandle_t h, void *p, size_t n)
{
    h->workspace = onhost_on_device(p, n);
    return h->workspace ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
static inline int cublasSetMathMode(cublasHandle_t h, int mode)
{
    h->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}
/* TF32 keeps 10 bits of the mantissa. */
static inline float onhost_tf32(float x, bool yes)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u = (u + 0x1000) & ~0x1fffU;
    float y;
    memcpy(&y, &u, sizeof y);
    return yes ? y : x;
}

/* s[i] += a[i] b. What is read lies in copies of the matrices, whose reads sanitizers have checked. */
ONHOST_UNSEEN __attribute__((no_sanitize("address"))) static void onhost_add_column(float *s, const float *a, float b,
                                                                                    int m)
{
    for (int i = 0; i < m; i++)
        s[i] += a[i] * b;
}

/* Column-major, as in BLAS: each sum in the order of l. */
static inline void onhost_sgemm(bool tf32, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                                const float *b, int ldb, float beta, float *c, int ldc)
{
    std::vector<float> columns((size_t)m * k), s(m);
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < m; i++)
            columns[l * m + i] = onhost_tf32(ta ? a[l + i * lda] : a[i + l * lda], tf32);
    for (int64_t j = 0; j < n; j++) {
        std::fill(s.begin(), s.end(), 0.0F);
        for (int64_t l = 0; l < k; l++)
            onhost_add_column(s.data(), &columns[l * m], onhost_tf32(tb ? b[j + l * ldb] : b[l + j * ldb], tf32), m);
        for (int64_t i = 0; i < m; i++)
            c[i + j * ldc] = alpha * s[i] + (beta != 0 ? beta * c[i + j * ldc] : 0);
    }
}
static inline int cublasSgemm(cublasHandle_t h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a,
                              int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    if (onhost_called(ONHOST_BLAS, h->stream) != cudaSuccess)
        return 1;
    if (!h->workspace && onhost_unless_capturing() != cudaSuccess) /* it would allocate one */
        return 1;
    const auto least = [](int rows) { return rows > 1 ? rows : 1; };
    if (m < 0 || n < 0 || k < 0 || lda < least(ta ? k : m) || ldb < least(tb ? n : k) || ldc < least(m))
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool tf32 = h->math == CUBLAS_TF32_TENSOR_OP_MATH;
    return onhost_launch(h->stream, 0, 0, 0, onhost_sgemm, tf32, ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c,
                         ldc) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : 1;
}

/* ---- NCCL, as far as nccl.cu uses it: a library of tests defines it (tests/gpu/nccl.cc) ---- */

enum ncclResult_t {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress
};
enum ncclDataType_t { ncclInt8 };
typedef struct ncclComm *ncclComm_t;
struct ncclUniqueId {
    char internal[128];
};
struct ncclConfig_t {
    int blocking;
};
#define NCCL_CONFIG_INITIALIZER                                                                                        \
    {                                                                                                                  \
        1                                                                                                              \
    }
extern "C" {
ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void *p, size_t n, ncclDataType_t type, int rank, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *p, size_t n, ncclDataType_t type, int rank, ncclComm_t comm, cudaStream_t stream);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
}

#endif
