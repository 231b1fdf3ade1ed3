/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel: how the plug-in writes and starts a kernel. A kernel is a loop over the elements that its threads share out
 * (EACH), without barriers and shared memory: what one element needs of another comes from an earlier kernel. So the
 * same text runs on the host, as a plain loop (CTR_CUDA_ON_HOST, see onhost.h): there the tests try the whole plug-in
 * where no GPU is.
 *
 *     KERNEL double_it(float *x, int64_t n)
 *     {
 *         EACH(i, n)
 *             x[i] *= 2;
 *     }
 *     LAUNCH(c, double_it, n, x, n);      c: struct cuda *; errors stay in c->failed until sync
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
enum { SCRATCHES = 16 };

/* The state of a device. */
struct cuda {
    struct ctr_dev *dev;
    cudaStream_t compute, copy;
    cudaEvent_t event;
    cublasHandle_t blas;
    cudaError_t failed; /* the first kernel that did not start */
    void *scratch[SCRATCHES];
    size_t scratch_bytes[SCRATCHES];
};

static inline struct cuda *cuda_of(struct ctr_dev *dev)
{
    return (struct cuda *)dev->state;
}

int cuda_fail(struct ctr_err *err, int code, const char *fmt, ...) CTR_PRINTF(3, 4);
int cuda_check(struct cuda *c, cudaError_t e, const char *what, struct ctr_err *err);
/* The first error of starting kernels, once. */
int cuda_started(struct cuda *c, const char *what, struct ctr_err *err);
/* Scratch number i, at least n elements; contents lost. NULL after *rc is set. */
void *cuda_scratch_bytes(struct cuda *c, int i, int64_t bytes, int *rc, struct ctr_err *err);
template <class T> static inline T *cuda_scratch(struct cuda *c, int i, int64_t n, int *rc, struct ctr_err *err)
{
    return (T *)cuda_scratch_bytes(c, i, n * (int64_t)sizeof(T), rc, err);
}

#ifndef CTR_CUDA_ON_HOST
#define KERNEL static __global__ void
#define EACH(i, n)                                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)
#define LAUNCH(c, kernel, n, ...)                                                                                      \
    do {                                                                                                               \
        const int64_t blocks_ = ((n) + THREADS - 1) / THREADS;                                                         \
        if (blocks_ > 0) {                                                                                             \
            kernel<<<(unsigned)CTR_MIN(blocks_, MOST_BLOCKS), (unsigned)THREADS, 0, (c)->compute>>>(__VA_ARGS__);      \
            const cudaError_t e_ = cudaGetLastError();                                                                 \
            (c)->failed = (c)->failed == cudaSuccess ? e_ : (c)->failed;                                               \
        }                                                                                                              \
    } while (0)
#endif

/* A matrix as kernels see it. */
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

/* Exclusive prefix sums of n numbers, in place; *total (on the device) gets their sum: keys.cu. */
int cuda_scan_i32(struct cuda *c, int32_t *x, int64_t n, int32_t *total, struct ctr_err *err);

#define CUDA_DECLARE(name) int cuda_##name(struct ctr_dev *dev, const struct ctr_dev_##name *a, struct ctr_err *err);
CTR_DEV_OPS(CUDA_DECLARE)
#undef CUDA_DECLARE

#endif
