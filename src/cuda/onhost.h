/* SPDX-License-Identifier: Apache-2.0
 *
 * onhost: as much of CUDA as the plug-in uses, on the host, so that tests run its text where no GPU is. Kernels are
 * loops over their elements, backwards: whoever relies on an order that a GPU does not promise, errs here. Finds
 * neither races nor misaligned loads; that is for compute-sanitizer.
 *
 * Streams are queues, and $CTR_CUDA_ON_HOST_ORDER has them run as late as CUDA allows, so that an order that is missing
 * changes results: "copies": a copying queue waits until it is waited for; "kernels": one that computes does, while
 * copies run at once; with "careless" behind it, waiting for events is forgotten, which tests must notice. Without it
 * everything runs at once. $CTR_CUDA_ON_HOST_SAYS: how many bytes were copied while kernels were queued, on stderr. */
#ifndef CTR_CUDA_ONHOST_H
#define CTR_CUDA_ONHOST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <deque>
#include <functional>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))

#define KERNEL     static void
#define EACH(i, n) for (int64_t i = (n)-1; i >= 0; i--)
#define LAUNCH(c, kernel, n, ...)                                                                                      \
    do {                                                                                                               \
        if ((n) > 0)                                                                                                   \
            onhost_launch((c)->compute, kernel, __VA_ARGS__);                                                          \
    } while (0)

typedef int cudaError_t;
enum { cudaSuccess, cudaErrorMemoryAllocation = 2 };
enum { CUBLAS_STATUS_SUCCESS, CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaStreamNonBlocking, cudaEventDisableTiming };

/* ---- streams ---- */

struct onhost_stream {
    std::deque<std::function<void()>> waiting;
    int64_t queued, done;
    bool computes;
};
typedef struct onhost_stream *cudaStream_t;
struct onhost_event {
    cudaStream_t stream;
    int64_t at; /* when so many are done */
};
typedef struct onhost_event *cudaEvent_t;
struct onhost_blas {
    cudaStream_t stream;
};
typedef struct onhost_blas *cublasHandle_t;

inline std::atomic<int64_t> onhost_kernels, onhost_overlapped; /* queued; bytes copied meanwhile */

static inline bool onhost_order(const char *word)
{
    const char *order = getenv("CTR_CUDA_ON_HOST_ORDER");
    return order && strstr(order, word);
}
static inline void onhost_run(cudaStream_t s, int64_t upto)
{
    while (s->done < upto) {
        const std::function<void()> next = std::move(s->waiting.front());
        s->waiting.pop_front();
        next();
        s->done++;
        onhost_kernels -= s->computes;
    }
}
static inline void onhost_queue(cudaStream_t s, std::function<void()> what)
{
    s->waiting.push_back(std::move(what));
    s->queued++;
    onhost_kernels += s->computes;
    if (!onhost_order(s->computes ? "kernels" : "copies"))
        onhost_run(s, s->queued);
}
template <class F, class... A> static inline void onhost_launch(cudaStream_t s, F kernel, A... a)
{
    if (!s->computes)
        onhost_run(s, s->queued);
    s->computes = true;
    onhost_queue(s, [=] { kernel(a...); });
}

struct cudaDeviceProp {
    char name[64];
    int major, minor;
};

static inline const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory" : "no error";
}
static inline cudaError_t cudaGetDeviceCount(int *n)
{
    *n = getenv("CTR_CUDA_ON_HOST_DEVICES") ? atoi(getenv("CTR_CUDA_ON_HOST_DEVICES")) : 1;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    *p = { "its kernels as loops on the host", 0, 0 };
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
static inline cudaError_t cudaMalloc(void **p, size_t n)
{
    *p = n < (size_t)1 << 36 ? malloc(n) : NULL;
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
#define cudaMallocHost cudaMalloc
#define cudaFreeHost   cudaFree
static inline cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
    onhost_queue(s, [=] { memset(p, v, n); });
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int, cudaStream_t s)
{
    onhost_queue(s, [=] {
        memcpy(to, from, n);
        if (!s->computes && onhost_kernels > 0)
            onhost_overlapped += (int64_t)n;
    });
    return cudaSuccess;
}
static inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, int)
{
    *s = new onhost_stream{};
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    onhost_run(s, s->queued);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    if (s && s->computes && getenv("CTR_CUDA_ON_HOST_SAYS"))
        fprintf(stderr, "on host: %lld bytes were copied while kernels were queued\n", (long long)onhost_overlapped);
    delete s;
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, int)
{
    *e = new onhost_event{};
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    *e = { s, s->queued };
    return cudaSuccess;
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, int)
{
    const onhost_event now = *e;
    if (!onhost_order("careless"))
        onhost_queue(s, [=] { onhost_run(now.stream, now.at); });
    return cudaSuccess;
}
static inline int cublasCreate(cublasHandle_t *h)
{
    *h = new onhost_blas{};
    return CUBLAS_STATUS_SUCCESS;
}
static inline int cublasDestroy(cublasHandle_t h)
{
    delete h;
    return CUBLAS_STATUS_SUCCESS;
}
static inline int cublasSetStream(cublasHandle_t h, cudaStream_t s)
{
    h->stream = s;
    return CUBLAS_STATUS_SUCCESS;
}

/* Column-major, as in BLAS. */
static inline void onhost_sgemm(int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                                const float *b, int ldb, float beta, float *c, int ldc)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float s = 0;
            for (int64_t l = 0; l < k; l++)
                s += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);
            c[i + j * ldc] = alpha * s + (beta != 0 ? beta * c[i + j * ldc] : 0);
        }
}
static inline int cublasSgemm(cublasHandle_t h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a,
                              int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    onhost_launch(h->stream, onhost_sgemm, ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> static inline T atomicCAS(T *p, T expected, T desired)
{
    const T old = *p;
    *p = old == expected ? desired : old;
    return old;
}
template <class T> static inline T atomicMin(T *p, T v)
{
    const T old = *p;
    *p = v < old ? v : old;
    return old;
}

#endif
