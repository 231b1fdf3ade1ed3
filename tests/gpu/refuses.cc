// SPDX-License-Identifier: Apache-2.0
// The stand-in for CUDA's runtime and cuBLAS (src/cuda/onhost.h) refuses what they refuse: tests/cuda.t. Prints what it does not.
#include "cuda/onhost.h"

static int wrong;
static void gives(const char *what, int want, int got)
{
    if (got != want) {
        printf("%s: %d, not %d\n", what, got, want);
        wrong = 1;
    }
}
static void kernel(float *) {}

int main()
{
    float *device, *pinned, host[16] = { 0 };
    cudaStream_t s;
    cublasHandle_t blas;
    const float one = 1;
    gives("cudaMalloc", cudaSuccess, cudaMalloc((void **)&device, 64));
    gives("cudaMallocHost", cudaSuccess, cudaMallocHost((void **)&pinned, 64));
    gives("a stream", cudaSuccess, cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    gives("fresh memory is NaN", 1, device[15] != device[15]);
    gives("a copy", cudaSuccess, cudaMemcpyAsync(device, host, 64, cudaMemcpyHostToDevice, s));
    gives("a copy beyond the end", cudaErrorInvalidValue, cudaMemcpyAsync(device + 1, host, 64, cudaMemcpyHostToDevice, s));
    gives("a copy of another kind", cudaErrorInvalidValue, cudaMemcpyAsync(host, device, 64, cudaMemcpyHostToDevice, s));
    gives("pinned memory as the device's", cudaErrorInvalidValue, cudaMemcpyAsync(pinned, host, 64, cudaMemcpyHostToDevice, s));
    gives("memset of the host", cudaErrorInvalidValue, cudaMemsetAsync(host, 0, 64, s));
    gives("pageable copies are counted", 1, (int)onhost_pageable);
    gives("a kernel", cudaSuccess, onhost_launch(s, 1, 32, 0, kernel, device));
    gives("a kernel on the host's memory", cudaErrorInvalidValue, onhost_launch(s, 1, 32, 0, kernel, host));
    gives("1025 threads", cudaErrorInvalidConfiguration, onhost_launch(s, 1, 1025, 0, kernel, device));
    gives("49153 shared bytes", cudaErrorInvalidConfiguration, onhost_launch(s, 1, 32, 49153, kernel, device));
    gives("cublasCreate", CUBLAS_STATUS_SUCCESS, cublasCreate(&blas));
    cublasSetStream(blas, s);
    gives("a workspace on the host", CUBLAS_STATUS_INVALID_VALUE, cublasSetWorkspace(blas, host, 64));
    gives("a product", CUBLAS_STATUS_SUCCESS,
          cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, device, 2, device, 2, &one, device, 2));
    gives("rows closer than they are long", CUBLAS_STATUS_INVALID_VALUE,
          cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, device, 1, device, 2, &one, device, 2));
    gives("transposed, too", CUBLAS_STATUS_INVALID_VALUE,
          cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 2, 3, 2, &one, device, 2, device, 2, &one, device, 2));
    gives("cudaFree of pinned memory", cudaErrorInvalidValue, cudaFree(pinned));
    gives("cudaFreeHost of the device's", cudaErrorInvalidValue, cudaFreeHost(device));
    setenv("CTR_CUDA_ON_HOST_FAIL", "fault:3", 1);
    gives("a kernel that faults starts", cudaSuccess, onhost_launch(s, 1, 32, 0, kernel, device));
    setenv("CTR_CUDA_ON_HOST_FAIL", "", 1);
    gives("a wait reports it", cudaErrorIllegalAddress, cudaStreamSynchronize(s));
    gives("and a later call, too", cudaErrorIllegalAddress, onhost_launch(s, 1, 32, 0, kernel, device));
    cudaStreamDestroy(s);
    cublasDestroy(blas);
    cudaFree(device);
    cudaFreeHost(pinned);
    return wrong;
}
