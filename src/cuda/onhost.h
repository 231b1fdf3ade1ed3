/* SPDX-License-Identifier: Apache-2.0
 *
 * onhost: as much of CUDA as the plug-in uses, on the host, so that tests run its text where no GPU is. Kernels are
 * loops over their elements, backwards: whoever relies on an order that a GPU does not promise, errs here. Finds
 * neither races nor misaligned loads; that is for compute-sanitizer. */
#ifndef CTR_CUDA_ONHOST_H
#define CTR_CUDA_ONHOST_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))

#define KERNEL     static void
#define EACH(i, n) for (int64_t i = (n)-1; i >= 0; i--)
#define LAUNCH(c, kernel, n, ...)                                                                                      \
    do {                                                                                                               \
        (void)(c);                                                                                                     \
        if ((n) > 0)                                                                                                   \
            kernel(__VA_ARGS__);                                                                                       \
    } while (0)

typedef int cudaError_t;
typedef int cudaStream_t, cudaEvent_t, cublasHandle_t;
enum { cudaSuccess, cudaErrorMemoryAllocation = 2 };
enum { CUBLAS_STATUS_SUCCESS, CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaStreamNonBlocking, cudaEventDisableTiming };

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
static inline cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t)
{
    memset(p, v, n);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int, cudaStream_t)
{
    memcpy(to, from, n);
    return cudaSuccess;
}
static inline cudaError_t onhost_nothing()
{
    return cudaSuccess;
}
#define cudaGetLastError()              onhost_nothing()
#define cudaStreamCreateWithFlags(s, f) (*(s) = 0, onhost_nothing())
#define cudaStreamDestroy(s)            onhost_nothing()
#define cudaStreamSynchronize(s)        onhost_nothing()
#define cudaEventCreateWithFlags(e, f)  (*(e) = 0, onhost_nothing())
#define cudaEventDestroy(e)             onhost_nothing()
#define cudaEventRecord(e, s)           ((void)(s), onhost_nothing())
#define cudaStreamWaitEvent(s, e, f)    ((void)(s), onhost_nothing())
#define cublasCreate(h)                 (*(h) = 0, onhost_nothing())
#define cublasDestroy(h)                onhost_nothing()
#define cublasSetStream(h, s)           onhost_nothing()

/* Column-major, as in BLAS. */
static inline int cublasSgemm(cublasHandle_t, int ta, int tb, int m, int n, int k, const float *alpha, const float *a,
                              int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float s = 0;
            for (int64_t l = 0; l < k; l++)
                s += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);
            c[i + j * ldc] = *alpha * s + (*beta != 0 ? *beta * c[i + j * ldc] : 0);
        }
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
