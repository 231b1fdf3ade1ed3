/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_cuda: the part of CUDA's driver that layers need, opened at run time. Internal to common/op. */
#ifndef CTR_GPU_CUDA_H
#define CTR_GPU_CUDA_H

#include "common/op/gpu.h"

typedef uint64_t gpu_ptr; /* CUdeviceptr */

struct gpu_cuda;
/* number: of the device; -1: $CTR_CUDA_DEVICE, or the first one.
 *
 * Copies, kernels and events run in the order of the calls, on a stream of their own: no other work of the process
 * waits for them, and they wait for none. The host's side of a copy must not change before ctr_gpu_cuda_wait. */
int ctr_gpu_cuda_open(struct gpu_cuda **c, int number, struct ctr_err *err) CTR_MUST;
void ctr_gpu_cuda_free(struct gpu_cuda *c);
const char *ctr_gpu_cuda_arch(const struct gpu_cuda *c); /* "sm_90" */
const char *ctr_gpu_cuda_name(const struct gpu_cuda *c);
void *ctr_gpu_cuda_stream(const struct gpu_cuda *c); /* CUstream */
int ctr_gpu_cuda_alloc(struct gpu_cuda *c, gpu_ptr *p, int64_t bytes, struct ctr_err *err) CTR_MUST;
void ctr_gpu_cuda_release(struct gpu_cuda *c, gpu_ptr p);
int ctr_gpu_cuda_up(struct gpu_cuda *c, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err) CTR_MUST;
int ctr_gpu_cuda_down(struct gpu_cuda *c, void *to, gpu_ptr from, int64_t bytes, struct ctr_err *err) CTR_MUST;
/* Copy on a second stream, beside the kernels of the first; join: what follows on the first waits for such copies. */
int ctr_gpu_cuda_up_beside(struct gpu_cuda *c, gpu_ptr to, const void *from, int64_t bytes,
                           struct ctr_err *err) CTR_MUST;
int ctr_gpu_cuda_join(struct gpu_cuda *c, struct ctr_err *err) CTR_MUST;
/* Until everything so far on the first stream is done. */
int ctr_gpu_cuda_wait(struct gpu_cuda *c, struct ctr_err *err) CTR_MUST;
/* Page-locked memory of the host. The device copies from and to it directly, while the host does other work. */
int ctr_gpu_cuda_pin(struct gpu_cuda *c, void **p, int64_t bytes, struct ctr_err *err) CTR_MUST;
void ctr_gpu_cuda_unpin(struct gpu_cuda *c, void *p);
int ctr_gpu_cuda_load(struct gpu_cuda *c, const struct ctr_buf *code, void **module, struct ctr_err *err) CTR_MUST;
void ctr_gpu_cuda_unload(struct gpu_cuda *c, void *module);
int ctr_gpu_cuda_function(struct gpu_cuda *c, void *module, const char *name, void **function,
                          struct ctr_err *err) CTR_MUST;
int64_t ctr_gpu_cuda_memory(struct gpu_cuda *c); /* free bytes */
/* Times on the device's clock: copies, kernels and copies back lie between these marks. */
enum gpu_mark { GPU_BEGIN, GPU_KERNELS, GPU_KERNELS_END, GPU_END, GPU_MARKS };
int ctr_gpu_cuda_mark(struct gpu_cuda *c, enum gpu_mark mark, struct ctr_err *err) CTR_MUST;
/* Add the seconds from one to another, after ctr_gpu_cuda_wait. */
int ctr_gpu_cuda_between(struct gpu_cuda *c, enum gpu_mark from, enum gpu_mark to, double *seconds,
                         struct ctr_err *err) CTR_MUST;
/* Launch a kernel with one argument. */
int ctr_gpu_cuda_launch(struct gpu_cuda *c, void *function, unsigned blocks, unsigned threads, unsigned shared,
                        const void *argument, struct ctr_err *err) CTR_MUST;
struct gpu_node {
    void *function;
    unsigned blocks, threads, shared;
    const void *argument;
};
/* A graph of them: a node each, without edges. */
int ctr_gpu_cuda_graph(struct gpu_cuda *c, const struct gpu_node *node, int n, void **exec,
                       struct ctr_err *err) CTR_MUST;
int ctr_gpu_cuda_graph_launch(struct gpu_cuda *c, void *exec, struct ctr_err *err) CTR_MUST;
void ctr_gpu_cuda_graph_free(struct gpu_cuda *c, void *exec);

#endif
