/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_code: the loaded kernels of layers, one module for each distinct list of loops. Internal to common/op. */
#ifndef CTR_GPU_CODE_H
#define CTR_GPU_CODE_H

#include "common/op/gpu_cuda.h"
#include "common/op/oplayer.h"

struct gpu_module {
    const struct ctr_op_device *loop; /* its distinct loops, in the order of opd_layer.first */
    int nloops;
    void *module, **function; /* ctr_layer, or ctr_op_0 … */
    int nfunctions;
    void *sums, *places, *compact; /* NULL: all results have fixed sizes */
    void *graph;                   /* of the launch before, and what it was started with */
    struct opd_layer last;
    unsigned blocks;
};

struct gpu_code {
    struct gpu_cuda *cuda;
    const struct ctr_gpu_opts *opts;
    struct ctr_gpu_stats *stats;
    struct gpu_module **module;
    int nmodules, cap;
};

/* The module of a layer of these calls: loaded before, from the cache on disk, or compiled. Lives as long as *c. */
int ctr_gpu_code(struct gpu_code *c, const struct ctr_gpu_call *call, int n, struct gpu_module **out,
                 struct ctr_err *err) CTR_MUST;
void ctr_gpu_code_free(struct gpu_code *c);

#endif
