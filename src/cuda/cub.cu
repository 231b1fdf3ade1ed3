/* SPDX-License-Identifier: Apache-2.0
 *
 * cub: prefix sums and sorting of integers. On a GPU they use CUB of the CUDA toolkit; on the host a simple version
 * that counts as equally many launches. Sums of integers and stable sorts have a unique result, so the bits do not
 * depend on the algorithm. Uses scratch buffer 0. */
#include "cuda/kernel.h"

#ifndef CTR_CUDA_ON_HOST
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

int cuda_scan_i32(struct cuda_dev *c, int32_t *x, int64_t n, struct ctr_err *err)
{
    size_t bytes = 0;
    int rc = cuda_check(c, cub::DeviceScan::ExclusiveSum(NULL, bytes, x, x, n, c->compute), "prefix sums", err);
    void *scratch = cuda_scratch_bytes(c, 0, (int64_t)bytes, &rc, err);
    return rc ? rc
              : cuda_check(c, cub::DeviceScan::ExclusiveSum(scratch, bytes, x, x, n, c->compute), "prefix sums", err);
}

static cudaError_t sort_by(void *scratch, size_t &bytes, const struct cuda_sort *s, cudaStream_t stream)
{
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, s->keys, s->to_keys, s->values, s->to_values, s->n, 0,
                                           s->bits, stream);
}

int cuda_sort_by(struct cuda_dev *c, const struct cuda_sort *s, struct ctr_err *err)
{
    size_t bytes = 0;
    int rc = cuda_check(c, sort_by(NULL, bytes, s, c->compute), "sorting", err);
    void *scratch = cuda_scratch_bytes(c, 0, (int64_t)bytes, &rc, err);
    return rc ? rc : cuda_check(c, sort_by(scratch, bytes, s, c->compute), "sorting", err);
}
#else
#include <algorithm>
#include <vector>

/* CUB launches one kernel that prepares and one that sums. */
KERNEL prepare_kernel(int64_t) {}

static void scan_kernel(int32_t *x, int64_t n)
{
    int32_t s = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t v = x[i];
        x[i] = s;
        s += v;
    }
}

int cuda_scan_i32(struct cuda_dev *c, int32_t *x, int64_t n, struct ctr_err *err)
{
    LAUNCH_ONCE(c, prepare_kernel, n);
    LAUNCH_ONCE(c, scan_kernel, x, n);
    return cuda_started(c, "prefix sums", err);
}

static void sort_kernel(struct cuda_sort s)
{
    const uint64_t mask = s.bits < 64 ? ((uint64_t)1 << s.bits) - 1 : UINT64_MAX;
    std::vector<int64_t> order((size_t)s.n);
    for (int64_t i = 0; i < s.n; i++)
        order[(size_t)i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return (s.keys[a] & mask) < (s.keys[b] & mask); });
    for (int64_t i = 0; i < s.n; i++) {
        s.to_keys[i] = s.keys[order[(size_t)i]];
        s.to_values[i] = s.values[order[(size_t)i]];
    }
}

/* CUB launches one kernel that counts, one that sums the counts, and one per 8 bits. */
int cuda_sort_by(struct cuda_dev *c, const struct cuda_sort *s, struct ctr_err *err)
{
    for (int launch = 1; launch < 2 + (s->bits + 7) / 8; launch++)
        LAUNCH_ONCE(c, prepare_kernel, s->n);
    LAUNCH_ONCE(c, sort_kernel, *s);
    return cuda_started(c, "sorting", err);
}
#endif
