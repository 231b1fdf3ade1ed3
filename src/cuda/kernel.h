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
 * A launch is a struct cuda_work, which starts at once or is kept for a CUDA graph (graph.cu).
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
struct cuda_graphs;

/* The state of a device. */
struct cuda_dev {
    struct ctr_dev *dev;
    cudaStream_t compute, copy; /* compute: for others than struct cuda_work by cuda_queue */
    cudaEvent_t event;
    cublasHandle_t blas;
    void *workspace; /* used by cuBLAS */
    int ordinal;
    cudaError_t failed; /* the first launch that failed */
    int product[3];     /* rows, columns and inner size of a product that cuBLAS refused */
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
    struct cuda_nccl *nccl;     /* nccl.cu: the connection with other ranks, or NULL */
    struct cuda_graphs *graphs; /* graph.cu; NULL: none are made */
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

/* ---- the compute queue: graph.cu ---- */

/* A function and, behind it, a copy of its arguments, which have no padding. Works with the same bytes do the same. */
struct cuda_work {
    cudaError_t (*start)(struct cuda_dev *c, const struct cuda_work *w);
    void (*kernel)(void); /* and its launch; NULL: no kernel */
    unsigned blocks, threads;
    size_t shared, bytes; /* of shared memory; of this and the arguments */
};
/* Start it, or keep it until cuda_start. Nothing is done after an error, because inputs may be missing. */
void cuda_do(struct cuda_dev *c, const struct cuda_work *w);
/* The stream of the compute queue, to which all works so far were given. */
cudaStream_t cuda_queue(struct cuda_dev *c);
void cuda_collect(struct ctr_dev *dev);
int cuda_start(struct ctr_dev *dev, struct ctr_err *err);
void cuda_graphs_open(struct cuda_dev *c);
void cuda_graphs_close(struct cuda_dev *c);

namespace /* files have structs of one name */
{
/* Arguments of types P as bytes, each in a multiple of 8. */
template <class... P> struct cuda_arguments {
    enum { BYTES = 0 };
    static void copy(char *) {}
    template <class F, class... A> static cudaError_t pass(const char *, const F &f, A... a) { return f(a...); }
};
template <class T, class... P> struct cuda_arguments<T, P...> {
    enum { ROOM = (sizeof(T) + 7) / 8 * 8, BYTES = ROOM + cuda_arguments<P...>::BYTES };
    static void copy(char *to, T v, P... p)
    {
        memcpy(to, &v, sizeof v);
        cuda_arguments<P...>::copy(to + ROOM, p...);
    }
    template <class F, class... A> static cudaError_t pass(const char *from, const F &f, A... a)
    {
        T v;
        memcpy(&v, from, sizeof v);
        return cuda_arguments<P...>::pass(from + ROOM, f, a..., v);
    }
};

template <class... P> cudaError_t cuda_start_kernel(struct cuda_dev *c, const struct cuda_work *w)
{
    void (*const kernel)(P...) = (void (*)(P...))w->kernel;
    return cuda_arguments<P...>::pass((const char *)(w + 1), [=](P... p) {
#ifdef CTR_CUDA_ON_HOST
        return onhost_launch(c->compute, w->blocks, w->threads, w->shared, kernel, p...);
#else
        kernel<<<w->blocks, w->threads, w->shared, c->compute>>>(p...);
        return cudaGetLastError();
#endif
    });
}

template <class T> struct cuda_type {
    typedef T is;
};
template <class... P>
void cuda_launch(struct cuda_dev *c, int64_t blocks, int64_t threads, size_t shared, void (*kernel)(P...),
                 typename cuda_type<P>::is... p)
{
    struct {
        struct cuda_work w;
        char arguments[cuda_arguments<P...>::BYTES];
    } all;
    memset(&all, 0, sizeof all); /* what is between arguments */
    all.w.start = cuda_start_kernel<P...>;
    all.w.kernel = (void (*)(void))kernel;
    all.w.blocks = (unsigned)blocks;
    all.w.threads = (unsigned)threads;
    all.w.shared = shared;
    all.w.bytes = sizeof all;
    cuda_arguments<P...>::copy(all.arguments, p...);
    cuda_do(c, &all.w);
}
} // namespace
#define LAUNCH_BLOCKS(c, kernel, blocks, threads, bytes, ...)                                                          \
    cuda_launch(c, blocks, threads, bytes, kernel, __VA_ARGS__)
#define LAUNCH(c, kernel, n, ...)                                                                                      \
    do {                                                                                                               \
        if ((n) > 0)                                                                                                   \
            cuda_launch(c, EACH_BLOCKS(n), EACH_THREADS, 0, kernel, __VA_ARGS__);                                      \
    } while (0)

#ifndef CTR_CUDA_ON_HOST
#define KERNEL static __global__ void
#define EACH(i, n)                                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)
#define EACH_BLOCKS(n) CTR_MIN(((n) + THREADS - 1) / THREADS, MOST_BLOCKS)
#define EACH_THREADS   THREADS
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

/* How many of n ascending entries are below e. */
static __device__ __forceinline__ int32_t lower_ones(const int32_t *entry, int32_t n, int32_t e)
{
    int32_t at = 0;
    for (int32_t end = n; at < end;) {
        const int32_t middle = at + (end - at) / 2;
        if (entry[middle] < e)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* nccl.cu */
extern const struct ctr_link_ops cuda_link_ops;
void cuda_link_close(struct cuda_dev *c);

#define CUDA_DECLARE(name) int cuda_##name(struct ctr_dev *dev, const struct ctr_dev_##name *a, struct ctr_err *err);
CTR_DEV_OPS(CUDA_DECLARE)
#undef CUDA_DECLARE

#endif
