/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu: runs the operators of a plan's layer as one kernel ("FeatureBox", sections 4 and 5, Table 1): its source
 * consists of the operators' own bodies, NVRTC compiles it on demand, the result is cached on disk, and it is launched
 * once per layer. CUDA's driver and NVRTC are opened at run time, so that building needs no CUDA.
 *
 *     struct ctr_gpu *m;
 *     ctr_gpu_open(&m, &opts, &err);          CTR_ESYS: no GPU
 *     …each layer:
 *     why = ctr_gpu_refuses(&call[i]);        NULL: it can run
 *     ctr_gpu_prepare(m, call, n, &err);      compiles its kernel, or takes it from the cache; CTR_ESYS: no NVRTC
 *     …each batch:
 *     ctr_gpu_begin(m, &err);
 *     …each of its layers:
 *     ctr_gpu_start(m, call, n, &err);        queues it
 *     ctr_gpu_copy(m, col, &type, &err);      meanwhile: a column that a later layer reads
 *     ctr_gpu_finish(m, &err);                results as host columns, with the bits of ctr_op_run
 *     ctr_gpu_free(m);
 *
 * One thread at a time uses a struct ctr_gpu. $CTR_CUDA_DRIVER and $CTR_NVRTC name replacements for libcuda.so.1 and
 * libnvrtc.so; the tests use some that run kernels on the host. */
#ifndef CTR_GPU_H
#define CTR_GPU_H

#include "common/op/op.h"

/* ---- texts ---- */

/* Source of a layer's kernel: ctr_layer has one loop per operator (`loop`: their distinct loops, in the order of
 * opd_layer.first). each: also a kernel ctr_op_K per operator. */
int ctr_gpu_text(struct ctr_buf *text, const struct ctr_op_device *const *loop, int n, bool each,
                 struct ctr_err *err) CTR_MUST;
/* The files that the source includes, as of this program's build: name and text, NULL past the end. */
const char *ctr_gpu_header(int i, const char **text);
/* Hash of all of them. */
struct ctr_hash128 ctr_gpu_headers_hash(void);

/* ---- compiling ---- */

struct ctr_gpu_image {
    struct ctr_buf code; /* cubin */
    double seconds;      /* compile time */
    bool cached;         /* it was found on disk */
    bool damaged;        /* the file on disk was damaged, and was compiled again */
    bool distrusted;     /* the folder or the file on disk can be written by others: it was compiled again */
    char key[33];        /* key in the cache */
};
/* Compile source for an architecture such as "sm_90". CTR_ESYS: no NVRTC; CTR_EDATA: a compile error. */
int ctr_gpu_compile(const struct ctr_buf *text, const char *arch, struct ctr_gpu_image *out,
                    struct ctr_err *err) CTR_MUST;

/* ---- running ---- */

enum ctr_gpu_launch {
    CTR_GPU_LAYER, /* one kernel per layer */
    CTR_GPU_GRAPH, /* a CUDA graph with a kernel per operator */
    CTR_GPU_EACH,  /* one launch per operator */
};
/* "meta", "graph", "each". CTR_EUSAGE: another word. */
int ctr_gpu_launch_of(const char *word, enum ctr_gpu_launch *launch, struct ctr_err *err) CTR_MUST;
struct ctr_gpu_opts {
    enum ctr_gpu_launch launch;
    const char *device;   /* gpu, gpu:N; NULL: gpu. Without N: $CTR_CUDA_DEVICE, or the first one */
    bool optional;        /* for ctr_program_gpu: without a GPU run on the CPU, and tell debug why */
    bool all;             /* all operators in each kernel: one source for all layers, which takes long to compile */
    int64_t memory_bytes; /* --device-memory; 0: all of the device */
    int64_t pool_bytes;   /* initial size of the pool; 0: 1 MiB. $CTR_GPU_POOL overrides it */
    void (*note)(void *ctx, const char *text);  /* receives messages that only -q hides; NULL: none */
    void (*debug)(void *ctx, const char *text); /* receives -v messages; NULL: none */
    void *ctx;
};
struct ctr_gpu;
int ctr_gpu_open(struct ctr_gpu **m, const struct ctr_gpu_opts *opts, struct ctr_err *err) CTR_MUST;
void ctr_gpu_free(struct ctr_gpu *m);
/* Bytes that can be allocated: what --device-memory allows, or what the device has. */
int64_t ctr_gpu_memory(const struct ctr_gpu *m);

/* A call or, if call is NULL, the keys of a column of `type` with the table seed `seed`. `out` is empty.
 *
 * A result can stay on the device, for calls of later layers: in slot `keep`, from 1 on, until another result takes it.
 * The caller reuses the slots of results that no later layer reads. A lifted call has the items alone in its slot; the
 * host has the shape of their list. */
struct ctr_gpu_call {
    const struct ctr_op_call *call;
    const struct ctr_op_call *filter; /* keys: as ctr_op_run_keys of this fitted vocab; `col` is its argument */
    const struct ctr_vtype *type;
    uint64_t seed;
    const struct ctr_col *const *col; /* argument columns; NULL for a literal */
    const int *from;                  /* slot of each argument, whose column then lacks values; 0: none; or NULL */
    int64_t rows;
    struct ctr_colbuf *out;
    int keep;   /* slot of the result; 0: none */
    bool stays; /* in it alone: *out gets at most the shape of a list. Not for results of type float32 */
    bool shape; /* … and that of one that is not lifted, too */
    /* What another's kernels read: not 0: the result is at address `left`, values of it `step` apart, and stays: of
     * keys their hashes (ctr_key_hash), for lists those of the items, as a lifted call's; or dense: of a column of
     * numbers float32. A null has the hash of a null, or 0. */
    int64_t step;
    bool dense;
    uint64_t left;
    struct ctr_gpu_found *found; /* what is among these; NULL: anything may be */
};
enum { CTR_GPU_RANGE_ROWS = 256 };
struct ctr_gpu_found {
    bool unfit; /* a number that is not finite, or a null of keys */
    /* Numbers: the range of rows 0, s, 2 * s, … with s = rows / CTR_GPU_RANGE_ROWS + 1; without one low > high. */
    double low, high;
};
const char *ctr_gpu_refuses(const struct ctr_gpu_call *c);
/* Get the code of a layer of these calls; only `call`, `filter`, `type`, `seed`, `step` and `dense` are used. */
int ctr_gpu_prepare(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct ctr_err *err) CTR_MUST;
/* A batch begins. Columns of the calls must not change until the next one: they are copied to the device once. */
int ctr_gpu_begin(struct ctr_gpu *m, struct ctr_err *err) CTR_MUST;
/* Queue a layer, whose calls must not change until ctr_gpu_finish waits for it and takes its results; after an error it
 * is over. CTR_ELARGE: the results exceed a device's or column's limit; run it on fewer rows. */
int ctr_gpu_start(struct ctr_gpu *m, const struct ctr_gpu_call *call, int n, struct ctr_err *err) CTR_MUST;
int ctr_gpu_finish(struct ctr_gpu *m, struct ctr_err *err) CTR_MUST;
/* Instead of ctr_gpu_finish: wait, and forget the results. */
void ctr_gpu_abandon(struct ctr_gpu *m);
/* Copy a column while a layer runs. Encoded lists are left out: the host decodes them for the layer that reads them. */
int ctr_gpu_copy(struct ctr_gpu *m, const struct ctr_col *col, const struct ctr_vtype *type,
                 struct ctr_err *err) CTR_MUST;

/* Memory for what is left: buffer `which` (from 0 on) of batch `batch` (of CTR_GPU_LEFT), with at least so many bytes
 * at *at, without what was there. Unlike slots it lasts until ctr_gpu_free, so all of them take a quarter of the memory
 * at most: CTR_ELARGE. */
enum { CTR_GPU_LEFT = 16 };
int ctr_gpu_left(struct ctr_gpu *m, int batch, int which, int64_t bytes, uint64_t *at, struct ctr_err *err) CTR_MUST;

struct ctr_gpu_stats {
    int64_t stayed; /* results that are on the device alone */
    int64_t waits;  /* of the host for the device */
    int64_t launches, compactions, copies_up, copies_down, bytes_up, bytes_down;
    int64_t pool_bytes, last_pool_bytes; /* largest request to the pool; that of the last layer */
    int64_t overflows;                   /* how often the pool grew or a batch had to be split */
    int64_t compiled, cached;
    double compile_seconds, cached_seconds;
    double kernel_seconds; /* on the device's clock: from the first launch of a layer to the end of its last one */
    double device_seconds; /* the same with the copies before and behind */
};
const struct ctr_gpu_stats *ctr_gpu_stats(const struct ctr_gpu *m);

#endif
