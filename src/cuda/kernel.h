/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel: how the plug-in defines and launches kernels. The same text runs on the host (CTR_CUDA_ON_HOST, see
 * onhost.h), where tests run the whole plug-in without a GPU. Most kernels are loops whose elements are divided among
 * threads (EACH): an element may only use results of earlier kernels.
 *
 *     KERNEL double_it(float *x, int64_t n)
 *     {
 *         EACH(i, n)
 *             x[i] *= 2;
 *     }
 *     LAUNCH(c, double_it, n, x, n);      c: struct cuda_dev *; errors stay in c->failed until cuda_started
 *
 * The threads of a block can share memory and synchronise; all of them must reach a barrier:
 *
 *     KERNEL sum_of_block(const float *x, float *sum)
 *     {
 *         SHARED(float, s);
 *         s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
 *         for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
 *             __syncthreads();
 *             if (threadIdx.x < half)
 *                 s[threadIdx.x] += s[threadIdx.x + half];
 *         }
 *         if (threadIdx.x == 0)
 *             sum[blockIdx.x] = s[0];
 *     }
 *     LAUNCH_BLOCKS(c, sum_of_block, blocks, THREADS, THREADS * sizeof(float), x, sum);     bytes of shared memory
 */
#ifndef CTR_CUDA_KERNEL_H
#define CTR_CUDA_KERNEL_H

#ifdef CTR_CUDA_ON_HOST
#include "cuda/onhost.h"
#else
#include <cublas_v2.h>
#include <cuda_runtime.h>
#endif

#include "common/compute/compute_impl.h"
#include "common/compute/element.h"

static const int64_t THREADS = 256, MOST_BLOCKS = 1 << 20;
enum { SCRATCHES = 16, PENDING = 16 };

#define CUDA_FAILED(c, call)                                                                                           \
    do {                                                                                                               \
        const cudaError_t e_ = call;                                                                                   \
        (c)->failed = (c)->failed == cudaSuccess ? e_ : (c)->failed;                                                   \
    } while (0)

struct cuda_nccl;

/* The state of a device. */
struct cuda_dev {
    struct ctr_dev *dev;
    cudaStream_t compute, copy;
    cudaEvent_t event;
    cublasHandle_t blas;
    void *workspace; /* used by cuBLAS */
    int ordinal;
    cudaError_t failed; /* the first launch that failed */
    char *pinned;       /* staging buffer for writes, so that the host need not wait; NULL until first used */
    size_t pinned_used;
    char *back; /* likewise for reads; NULL until first used */
    size_t back_used;
    struct cuda_pending { /* what the host gets of it when it has waited */
        void *host;
        const void *pinned;
        size_t bytes;
    } pending[PENDING];
    int pendings;
    void *scratch[SCRATCHES];
    size_t scratch_bytes[SCRATCHES];
    struct cuda_nccl *nccl; /* nccl.cu: the connection with other ranks, or NULL */
};

/* Every call begins with this: it makes this device the calling thread's current one. */
static inline struct cuda_dev *cuda_of(struct ctr_dev *dev)
{
    struct cuda_dev *c = (struct cuda_dev *)dev->state;
    CUDA_FAILED(c, cudaSetDevice(c->ordinal));
    return c;
}

/* Read n pieces that lie one after another on the device, bytes[i] each, to host[i]: after the next cuda_wait. */
int cuda_read_later(struct cuda_dev *c, const void *from, int n, void *const *host, const size_t *bytes,
                    struct ctr_err *err);
/* Wait for what is computed. */
int cuda_wait(struct cuda_dev *c, const char *what, struct ctr_err *err);
int cuda_fail(struct ctr_err *err, int code, const char *fmt, ...) CTR_PRINTF(3, 4);
int cuda_check(struct cuda_dev *c, cudaError_t e, const char *what, struct ctr_err *err);
/* Returns the first launch error, once. */
int cuda_started(struct cuda_dev *c, const char *what, struct ctr_err *err);
/* Scratch buffer i, at least n elements; contents are lost. NULL if *rc is set. */
void *cuda_scratch_bytes(struct cuda_dev *c, int i, int64_t bytes, int *rc, struct ctr_err *err);
template <class T> static inline T *cuda_scratch(struct cuda_dev *c, int i, int64_t n, int *rc, struct ctr_err *err)
{
    return (T *)cuda_scratch_bytes(c, i, n * (int64_t)sizeof(T), rc, err);
}

#ifndef CTR_CUDA_ON_HOST
#define KERNEL static __global__ void
#define EACH(i, n)                                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)
#define LAUNCH_BLOCKS(c, kernel, blocks, threads, bytes, ...)                                                          \
    do {                                                                                                               \
        if ((c)->failed == cudaSuccess) { /* otherwise its inputs may be missing */                                    \
            kernel<<<(unsigned)(blocks), (unsigned)(threads), bytes, (c)->compute>>>(__VA_ARGS__);                     \
            CUDA_FAILED(c, cudaGetLastError());                                                                        \
        }                                                                                                              \
    } while (0)
#define LAUNCH(c, kernel, n, ...)                                                                                      \
    do {                                                                                                               \
        const int64_t blocks_ = ((n) + THREADS - 1) / THREADS;                                                         \
        if (blocks_ > 0)                                                                                               \
            LAUNCH_BLOCKS(c, kernel, CTR_MIN(blocks_, MOST_BLOCKS), THREADS, 0, __VA_ARGS__);                          \
    } while (0)
/* Of a number that other threads read or write at the same time. */
static __device__ __forceinline__ uint32_t load_relaxed(const uint32_t *p)
{
    return *(const volatile uint32_t *)p;
}
static __device__ __forceinline__ void store_relaxed(uint32_t *p, uint32_t v)
{
    *(volatile uint32_t *)p = v;
}
#define SHARED(type, name)                                                                                             \
    extern __shared__ __align__(16) unsigned char ctr_shared_[];                                                       \
    type *name = (type *)(void *)ctr_shared_
#endif

/* A matrix as passed to kernels. */
struct view {
    float *p;
    int64_t stride;
};
static inline struct view view_of(struct ctr_mat m)
{
    struct view v = { ctr_mat_f32(m), m.stride };
    return v;
}
static __host__ __device__ __forceinline__ float *at(struct view v, int64_t i, int64_t j)
{
    return v.p + i * v.stride + j;
}

/* nccl.cu */
extern const struct ctr_link_ops cuda_link_ops;
void cuda_link_close(struct cuda_dev *c);

#define CUDA_DECLARE(name) int cuda_##name(struct ctr_dev *dev, const struct ctr_dev_##name *a, struct ctr_err *err);
CTR_DEV_OPS(CUDA_DECLARE)
#undef CUDA_DECLARE

#endif
