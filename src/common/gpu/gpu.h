/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu: the operators of a plan's layer as one kernel ("FeatureBox", sections 4 and 5, Table 1): text made of the
 * operators' own bodies, compiled when it is needed by NVRTC, kept on disk, started once a layer. CUDA's driver and
 * NVRTC are opened at run time, so that nothing here needs CUDA to be built.
 *
 *     struct ctr_gpu *m;
 *     ctr_gpu_open(&m, &opts, &err);          CTR_ESYS: there is no GPU, or no NVRTC
 *     …each layer:
 *     why = ctr_gpu_refuses(&call[i]);        NULL: it can run
 *     ctr_gpu_run(m, call, n, &err);          results as columns of the host, the bits of ctr_op_run
 *     ctr_gpu_free(m);
 *
 * One thread at a time uses a struct ctr_gpu. $CTR_CUDA_DRIVER and $CTR_NVRTC name other libraries than libcuda.so.1
 * and libnvrtc.so; the tests have some that run kernels on the host. */
#ifndef CTR_GPU_H
#define CTR_GPU_H

#include "common/op/op.h"

/* ---- texts ---- */

/* Text of the kernel of a layer: ctr_layer has one loop an operator (`loop`: their distinct loops, in the order of
 * opd_layer.first). each: besides, a kernel ctr_op_K an operator. */
int ctr_gpu_text(struct ctr_buf *text, const struct ctr_op_device *const *loop, int n, bool each,
                 struct ctr_err *err) CTR_MUST;
/* The files that the text includes, as they were when this program was built: name and text, NULL past the end. */
const char *ctr_gpu_header(int i, const char **text);
/* Hash of all of them. */
struct ctr_hash128 ctr_gpu_headers_hash(void);

/* ---- compiling ---- */

struct ctr_gpu_image {
    struct ctr_buf code; /* cubin */
    double seconds;      /* that it took */
    bool cached;         /* it was on disk */
    char key[33];        /* of the cache */
};
/* Text to code for an architecture, such as "sm_90". CTR_ESYS: there is no NVRTC; CTR_EDATA: it refuses. */
int ctr_gpu_compile(const struct ctr_buf *text, const char *arch, struct ctr_gpu_image *out,
                    struct ctr_err *err) CTR_MUST;

/* ---- running ---- */

enum ctr_gpu_launch {
    CTR_GPU_LAYER, /* one kernel a layer */
    CTR_GPU_GRAPH, /* a CUDA graph of a kernel an operator */
    CTR_GPU_EACH,  /* a launch an operator */
};
struct ctr_gpu_opts {
    enum ctr_gpu_launch launch;
    bool all;             /* every operator in each kernel: one text for all layers, which takes long to compile */
    int64_t memory_bytes; /* --device-memory: bound of what is used; 0: what the device has */
    int64_t pool_bytes;   /* that the pool begins with; 0: 1 MiB. $CTR_GPU_POOL has another number */
    void (*debug)(void *ctx, const char *text); /* what -v prints; NULL: nothing */
    void *ctx;
};
struct ctr_gpu;
int ctr_gpu_open(struct ctr_gpu **m, const struct ctr_gpu_opts *opts, struct ctr_err *err) CTR_MUST;
void ctr_gpu_free(struct ctr_gpu *m);

/* A call, or with call NULL the keys of a column of `type` in the table of `seed`. `out` is empty. */
struct ctr_gpu_call {
    const struct ctr_op_call *call;
    const struct ctr_vtype *type;
    uint64_t seed;
    const struct ctr_col *const *col; /* of the arguments; NULL for a literal */
    int64_t rows;
    struct ctr_colbuf *out;
};
const char *ctr_gpu_refuses(const struct ctr_gpu_call *c);
/* CTR_ELARGE: results need more than a device or a column has; run it on fewer rows. */
int ctr_gpu_run(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct ctr_err *err) CTR_MUST;

struct ctr_gpu_stats {
    int64_t launches, compactions, copies_up, copies_down, bytes_up, bytes_down;
    int64_t pool_bytes, overflows; /* the pool grew so often, or a batch was to be split */
    int64_t compiled, cached;
    double compile_seconds, cached_seconds;
};
const struct ctr_gpu_stats *ctr_gpu_stats(const struct ctr_gpu *m);

#endif
