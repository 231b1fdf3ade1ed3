/* SPDX-License-Identifier: Apache-2.0
 *
 * onednn: the CPU back end with matrix products by oneDNN (libdnnl, opened at run time, not linked). Its bits depend on
 * the processor, on shapes and on threads, so it is used only on request. */
#include "common/compute/cpu.h"

#include <dlfcn.h>
#include <stdio.h>

/* dnnl_sgemm of oneDNN 2 and 3, row-major: C = alpha op(A) op(B) + beta C. */
typedef int sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

struct library {
    void *handle;
    sgemm_fn *sgemm;
};
static struct library library; /* opened once, never closed, because OpenMP's threads stay */

static int open_library(int threads, struct ctr_err *err)
{
    static const char *const names[] = { "libdnnl.so.3", "libdnnl.so.2", "libdnnl.so" };

    for (size_t i = 0; i < CTR_COUNT(names) && !library.handle; i++)
        library.handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library.handle)
        return ctr_fail(err, CTR_EUSAGE,
                        "gemm 'onednn': libdnnl is not there (Debian: libdnnl2): 'exact' needs nothing");
    *(void **)&library.sgemm = dlsym(library.handle, "dnnl_sgemm");
    if (!library.sgemm)
        return ctr_fail(err, CTR_EUSAGE, "gemm 'onednn': libdnnl has no dnnl_sgemm");
    void (*set_threads)(int);
    *(void **)&set_threads = dlsym(library.handle, "omp_set_num_threads");
    if (set_threads)
        set_threads(threads);
    return 0;
}

static int open_onednn(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    int rc = open_library(CTR_MAX(want->threads, 1), err);
    return rc ? rc : ctr_cpu_open(dev, want, err);
}

struct rows {
    const struct ctr_dev *dev;
    const struct ctr_dev_gemm *a;
    int64_t block;
};

static void run_epilogue(void *ctx, int64_t task, int worker)
{
    const struct rows *r = ctx;
    const int64_t row = task * r->block;
    (void)worker;
    ctr_cpu_epilogue(r->dev, r->a, row, CTR_MIN(r->block, r->a->c.rows - row), 0, r->a->c.cols);
}

static int gemm(struct ctr_dev *dev, const struct ctr_dev_gemm *a, struct ctr_err *err)
{
    const struct ctr_mat to = a->pre.mem ? a->pre : a->c;
    const int64_t k = a->ta ? a->a.rows : a->a.cols;
    struct rows r = { dev, a, CTR_MAX(CTR_TASK_ELEMENTS / CTR_MAX(a->c.cols, 1), 1) };

    if (a->c.rows == 0 || a->c.cols == 0 || k == 0)
        return ctr_cpu_gemm(dev, a, err);
    for (int64_t i = 0; a->add && a->pre.mem && i < to.rows; i++)
        memcpy(ctr_mat_f32(to) + i * to.stride, ctr_mat_f32(a->c) + i * a->c.stride, (size_t)to.cols * sizeof(float));
    int rc = library.sgemm(a->ta ? 'T' : 'N', a->tb ? 'T' : 'N', to.rows, to.cols, k, 1, ctr_mat_f32(a->a), a->a.stride,
                           ctr_mat_f32(a->b), a->b.stride, a->add ? 1 : 0, ctr_mat_f32(to), to.stride);
    if (rc)
        return ctr_fail(err, CTR_ESYS, "gemm: oneDNN says %d for %lld x %lld x %lld", rc, (long long)to.rows,
                        (long long)to.cols, (long long)k);
    ctr_pool_run(dev->pool, (to.rows + r.block - 1) / r.block, run_epilogue, &r);
    const struct ctr_dev_act_grad back = ctr_gemm_back(a);
    return back.z.mem ? ctr_cpu_act_grad(dev, &back, err) : 0;
}

#define ctr_cpu_gemm gemm /* only in the table below */
const struct ctr_ops ctr_ops_onednn = {
    .name = "onednn", .open = open_onednn, .close = ctr_cpu_close, CTR_HOST_SLOTS, CTR_DEV_OPS(CTR_CPU_SLOT)
};
