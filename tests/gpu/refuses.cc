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
struct has_padding {
    float *p;
    float x;
};
static void padded(struct has_padding) {}
static void adds(float *p, float x) { *p += x; }

/* Begins a capture of s, calls, and says what the end of the capture gives. */
template <class F> static void captured(const char *what, int calls, int ends, cudaStream_t s, const F &call)
{
    cudaGraph_t graph;
    gives("a capture begins", cudaSuccess, cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    gives(what, calls, call());
    gives(what, ends, cudaStreamEndCapture(s, &graph));
    gives(what, ends == cudaSuccess, graph != NULL);
    cudaGetLastError();
    cudaGraphDestroy(graph);
}

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
#ifdef ONHOST_KNOWS_PADDING
    gives("an argument with padding", cudaErrorInvalidValue, onhost_launch(s, 1, 32, 0, padded, (struct has_padding){ device, 1 }));
#endif
    gives("1025 threads", cudaErrorInvalidConfiguration, onhost_launch(s, 1, 1025, 0, kernel, device));
    gives("49153 shared bytes", cudaErrorInvalidConfiguration, onhost_launch(s, 1, 32, 49153, kernel, device));
#if defined __x86_64__
    *device = 0;
    onhost_launch(s, 1, 1, 0, adds, device, 1e-39f);
    gives("denormals of a kernel are zero", 1, *device == 0);
#endif
    gives("cublasCreate", CUBLAS_STATUS_SUCCESS, cublasCreate(&blas));
    cublasSetStream(blas, s);
    gives("a workspace on the host", CUBLAS_STATUS_INVALID_VALUE, cublasSetWorkspace(blas, host, 64));
    gives("a product", CUBLAS_STATUS_SUCCESS,
          cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, device, 2, device, 2, &one, device, 2));
    gives("rows closer than they are long", CUBLAS_STATUS_INVALID_VALUE,
          cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, device, 1, device, 2, &one, device, 2));
    gives("transposed, too", CUBLAS_STATUS_INVALID_VALUE,
          cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 2, 3, 2, &one, device, 2, device, 2, &one, device, 2));
    cudaStream_t other;
    cudaEvent_t event;
    cublasHandle_t bare;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *more;
    const int no = cudaErrorStreamCaptureUnsupported, invalid = cudaErrorStreamCaptureInvalidated;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cublasCreate(&bare);
    cublasSetStream(bare, s);
    const auto product = [&](cublasHandle_t h) { return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, device, 1, device, 1, &one, device, 1); };
    captured("captured: waiting", no, invalid, s, [&] { return cudaStreamSynchronize(s); });
    captured("captured: asking", no, invalid, s, [&] { return cudaStreamQuery(s); });
    captured("captured: allocating", no, invalid, s, [&] { return cudaMalloc(&more, 64); });
    captured("captured: pinned memory", no, invalid, s, [&] { return cudaMallocHost(&more, 64); });
    captured("captured: freeing", no, invalid, s, [&] { return cudaFree(device); });
    captured("captured: a pageable copy", no, invalid, s, [&] { return cudaMemcpyAsync(device, host, 64, cudaMemcpyHostToDevice, s); });
    captured("captured: a pinned copy", cudaSuccess, cudaSuccess, s, [&] { return cudaMemcpyAsync(device, pinned, 64, cudaMemcpyHostToDevice, s); });
    captured("captured: another stream", no, invalid, s, [&] { return onhost_launch(other, 1, 32, 0, kernel, device); });
    captured("captured: an event", no, invalid, s, [&] { return cudaEventRecord(event, s); });
    captured("captured: waiting for one", no, invalid, s, [&] { return cudaStreamWaitEvent(s, event, 0); });
    captured("captured: creating", no, invalid, s, [&] { return cudaStreamCreateWithFlags((cudaStream_t *)&more, 0); });
    captured("captured: a product without a workspace", 1, invalid, s, [&] { return product(bare); });
    captured("captured: behind a refused call", invalid, invalid, s, [&] {
        cudaFree(device);
        cudaGetLastError();
        return onhost_launch(s, 1, 32, 0, kernel, device);
    });
    gives("the end of no capture", cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(s, &graph));
    gives("an error of a capture stays until it is asked for", cudaErrorStreamCaptureUnmatched, onhost_launch(s, 1, 32, 0, kernel, device));
    float *at = device, x = 2;
    gives("a workspace", CUBLAS_STATUS_SUCCESS, cublasSetWorkspace(bare, device, 64));
    *device = 1;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    onhost_launch(s, 1, 1, 0, adds, at, x);
    gives("captured: a product", CUBLAS_STATUS_SUCCESS, product(bare));
    gives("a capture", cudaSuccess, cudaStreamEndCapture(s, &graph));
    gives("a graph", cudaSuccess, cudaGraphInstantiateWithFlags(&exec, graph, 0));
    gives("a capture runs nothing", 1, (int)*device);
    at = NULL;
    x = 5;
    gives("a graph is launched", cudaSuccess, cudaGraphLaunch(exec, s));
    cudaStreamSynchronize(s);
    gives("with the arguments that were captured, in order", 12, (int)*device);
    cudaGraphDestroy(graph);
    cudaGraphExecDestroy(exec);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
    cublasDestroy(bare);
    gives("cudaFree of pinned memory", cudaErrorInvalidValue, cudaFree(pinned));
    gives("cudaFreeHost of the device's", cudaErrorInvalidValue, cudaFreeHost(device));
    setenv("CTR_CUDA_ON_HOST_FAIL", "fault:5", 1);
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
