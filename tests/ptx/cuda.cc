/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda: libcudart, libcublas, libcuda and NVRTC in one library, below the objects that nvcc makes and below common/op:
 * memory and launches are the machine's (machine.h). The plug-in's kernels are found by the names under which nvcc's host
 * code registers them, in the translations in modules/; a plan's is the PTX that the real NVRTC makes, translated when it
 * is loaded. sgemm is one chain of fmaf an element. */
#include "machine.h"

#include <algorithm>
#include <cstdlib>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dirent.h>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <time.h>
#include <tuple>
#include <unistd.h>
#include <vector>

static const char device_name[] = "PTX on the host";

/* sum += column · x */
__attribute__((target_clones("fma", "default"), optimize("O3"))) static void add_column(float *sum, const float *column, float x, long n)
{
    for (long i = 0; i < n; i++)
        sum[i] = __builtin_fmaf(column[i], x, sum[i]);
}

/* ---- what nvcc's host code calls ---- */

static std::map<const void *, std::string> names; /* of kernels, by the address of their stub on the host */
static thread_local std::vector<std::tuple<dim3, dim3, size_t, cudaStream_t>> configurations; /* <<<…>>> not yet taken */
static thread_local cudaError_t last_error;
struct CUgraph_st { /* kernels and products, each returns a negative number if it is refused */
    std::vector<std::function<int()>> nodes;
};
struct CUgraphExec_st : CUgraph_st {};
static thread_local CUgraph_st *capturing;

static const kernel *kernel_of(const void *stub)
{
    static std::map<const void *, const kernel *> found;
    const std::string folder = machine_folder() + "/modules";
    DIR *d = found[stub] ? NULL : opendir(folder.c_str());
    for (struct dirent *e; d && !found[stub] && (e = readdir(d));) {
        const std::string file = e->d_name;
        if (file.size() > 3 && file.substr(file.size() - 3) == ".so")
            found[stub] = kernel_find(folder + "/" + file.substr(0, file.size() - 3), names[stub]);
    }
    if (d)
        closedir(d);
    if (!found[stub]) {
        fprintf(stderr, "ptx: ERROR: no module in %s has the kernel %s\n", folder.c_str(), names[stub].c_str());
        abort();
    }
    return found[stub];
}

extern "C" {

void **__cudaRegisterFatBinary(void *image)
{
    return (void **)image;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
void __cudaRegisterFunction(void **, const char *stub, char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *, int *)
{
    names[stub] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    configurations.emplace_back(grid, block, shared, stream);
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    std::tie(*grid, *block, *shared, *(cudaStream_t *)stream) = configurations.back();
    configurations.pop_back();
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *stub)
{
    *out = (cudaKernel_t)stub;
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t stub, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t)
{
    const kernel *k = kernel_of((const void *)stub);
    const unsigned g[3] = { grid.x, grid.y, grid.z }, b[3] = { block.x, block.y, block.z };
    std::vector<uint8_t> param(k->k.param_bytes + 8, 0xee);
    for (unsigned i = 0; i < k->k.params; i++)
        memcpy(&param[k->k.param[2 * i]], arguments[i], k->k.param[2 * i + 1]);
    if (capturing) {
        capturing->nodes.push_back([=] { return launch(k, g, b, shared, param.data()); });
        return cudaSuccess;
    }
    return launch(k, g, b, shared, param.data()) < 0 ? last_error = cudaErrorInvalidConfiguration : cudaSuccess;
}

/* ---- CUDA's runtime: device and memory ---- */

cudaError_t cudaGetLastError(void)
{
    return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}
const char *cudaGetErrorString(cudaError_t e)
{
    static thread_local char text[40];
    snprintf(text, sizeof text, "error %d", (int)e);
    return text;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *stub)
{
    *a = {};
    a->ptxVersion = a->binaryVersion = 90;
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 32;
    a->sharedSizeBytes = kernel_of(stub)->k.static_shared;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *, int, size_t, unsigned)
{
    *n = 2;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int)
{
    static const std::map<int, int> h100 = { { cudaDevAttrMultiProcessorCount, 132 }, { cudaDevAttrComputeCapabilityMajor, 9 },
                                             { cudaDevAttrMaxGridDimX, 2147483647 }, { cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10 } };
    auto a = h100.find(which);
    *value = a == h100.end() ? 0 : a->second;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *d)
{
    *d = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int d)
{
    return d ? cudaErrorInvalidDevice : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    *p = {};
    strcpy(p->name, device_name);
    p->major = 9;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int n, int)
{
    snprintf(text, (size_t)n, "0000:00:00.0");
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **p, size_t n)
{
    *p = device_alloc(n);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *p)
{
    return p && device_free(p) < 0 ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t n)
{
    *p = calloc(1, n + 64);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = 8ull << 30;
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode)
{
    capturing = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *g)
{
    *g = std::exchange(capturing, nullptr);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t g, unsigned long long)
{
    *exec = new CUgraphExec_st{ *g };
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    bool refused = false;
    for (const auto &node : exec->nodes)
        refused |= node() < 0;
    return refused ? last_error = cudaErrorInvalidConfiguration : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t)
{
    device_copy(to, kind != cudaMemcpyDeviceToHost, from, kind != cudaMemcpyHostToDevice, n);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t)
{
    device_set(p, value, n);
    return cudaSuccess;
}

/* ---- streams, events and handles: nothing is ever left to wait for ---- */

#define DONE(type, name, ...)                                                                                          \
    type name(__VA_ARGS__)                                                                                             \
    {                                                                                                                  \
        return (type)0;                                                                                                \
    }
#define MADE(type, name, handle, ...)                                                                                  \
    type name(handle *h, ##__VA_ARGS__)                                                                                \
    {                                                                                                                  \
        *h = (handle)calloc(1, sizeof(double));                                                                        \
        return (type)0;                                                                                                \
    }
#define GONE(type, name, handle)                                                                                       \
    type name(handle h)                                                                                                \
    {                                                                                                                  \
        free(h);                                                                                                       \
        return (type)0;                                                                                                \
    }
MADE(cudaError_t, cudaStreamCreateWithFlags, cudaStream_t, unsigned)
GONE(cudaError_t, cudaStreamDestroy, cudaStream_t)
DONE(cudaError_t, cudaStreamSynchronize, cudaStream_t)
DONE(cudaError_t, cudaStreamQuery, cudaStream_t)
DONE(cudaError_t, cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)
MADE(cudaError_t, cudaEventCreateWithFlags, cudaEvent_t, unsigned)
GONE(cudaError_t, cudaEventDestroy, cudaEvent_t)
DONE(cudaError_t, cudaEventRecord, cudaEvent_t, cudaStream_t)

/* ---- cuBLAS ---- */

MADE(cublasStatus_t, cublasCreate_v2, cublasHandle_t)
GONE(cublasStatus_t, cublasDestroy_v2, cublasHandle_t)
DONE(cublasStatus_t, cublasSetMathMode, cublasHandle_t, cublasMath_t)
DONE(cublasStatus_t, cublasSetStream_v2, cublasHandle_t, cudaStream_t)
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *p, size_t)
{
    return (uintptr_t)p % 256 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
/* Column-major, as cuBLAS has it: C = alpha op(A) op(B) + beta C, C of m x n. */
cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t trans_a, cublasOperation_t trans_b, int m, int n, int k, const float *alpha, const float *a,
                              int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    if (m < 0 || n < 0 || k < 0 || lda < std::max(1, trans_a ? k : m) || ldb < std::max(1, trans_b ? n : k) || ldc < std::max(1, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (capturing) {
        capturing->nodes.push_back([=, x = *alpha, y = *beta] { return -cublasSgemm_v2(h, trans_a, trans_b, m, n, k, &x, a, lda, b, ldb, &y, c, ldc); });
        return CUBLAS_STATUS_SUCCESS;
    }
    std::vector<float> columns((size_t)m * k), sum(m); /* of op(A) */
    for (long l = 0; l < k; l++)
        for (long i = 0; i < m; i++)
            columns[l * m + i] = trans_a ? a[l + i * lda] : a[i + l * lda];
    for (long j = 0; j < n; j++) {
        std::fill(sum.begin(), sum.end(), 0);
        for (long l = 0; l < k; l++)
            add_column(sum.data(), &columns[l * m], trans_b ? b[j + l * ldb] : b[l + j * ldb], m);
        for (long i = 0; i < m; i++)
            c[i + j * ldc] = *alpha * sum[i] + (*beta != 0 ? *beta * c[i + j * ldc] : 0);
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- CUDA's driver, for plans. A thread without a current context gets error 201, as from a real one. ---- */

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, NOT_FOUND = 500, COMPUTE_CAPABILITY_MAJOR = 75 };
static thread_local bool has_context;
#define IN_CONTEXT(result) (has_context ? (result) : (fprintf(stderr, "ptx: ERROR: %s without a current context\n", __func__), (int)INVALID_CONTEXT))

typedef uint64_t device_pointer;
struct node {
    const kernel *k;
    unsigned grid[3], block[3], shared;
    std::string param;
};
typedef std::vector<node> graph;
struct node_params { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned grid[3], block[3], shared;
    void **params, **extra, *kernel, *context;
};

DONE(int, cuInit, unsigned)
int cuDeviceGetCount(int *n) { return *n = 1, OK; }
int cuDeviceGet(int *device, int) { return *device = 0, OK; }
int cuDeviceGetName(char *text, int n, int) { return snprintf(text, (size_t)n, "%s", device_name), OK; }
int cuDeviceGetAttribute(int *value, int which, int) { return *value = which == COMPUTE_CAPABILITY_MAJOR ? 9 : 0, OK; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &last_error, OK; }
DONE(int, cuDevicePrimaryCtxRelease_v2, int)
int cuCtxSetCurrent(void *context) { return has_context = context != NULL, OK; }
DONE(int, cuCtxSetLimit, int, size_t)
int cuGetErrorString(int e, const char **text) { return *text = cudaGetErrorString((cudaError_t)e), OK; }

int cuMemAlloc_v2(device_pointer *p, size_t n)
{
    return IN_CONTEXT(!n ? INVALID_VALUE : (*p = (device_pointer)device_alloc(n)) ? OK : OUT_OF_MEMORY);
}
int cuMemFree_v2(device_pointer p) { return IN_CONTEXT(device_free((void *)p) < 0 ? INVALID_VALUE : OK); }
int cuMemAllocAsync(device_pointer *p, size_t n, void *) { return cuMemAlloc_v2(p, n); }
int cuMemFreeAsync(device_pointer p, void *) { return cuMemFree_v2(p); }
int cuMemGetInfo_v2(size_t *available, size_t *total) { return cudaMemGetInfo(available, total); }
int cuMemHostAlloc(void **p, size_t n, unsigned) { return IN_CONTEXT((int)cudaMallocHost(p, n)); }
int cuMemFreeHost(void *p) { return free(p), OK; }
int cuMemcpyHtoDAsync_v2(device_pointer to, const void *from, size_t n, void *)
{
    return IN_CONTEXT((device_copy((void *)to, true, from, false, n), OK));
}
int cuMemcpyDtoHAsync_v2(void *to, device_pointer from, size_t n, void *)
{
    return IN_CONTEXT((device_copy(to, false, (const void *)from, true, n), OK));
}

MADE(int, cuStreamCreate, void *, unsigned)
GONE(int, cuStreamDestroy_v2, void *)
DONE(int, cuStreamWaitEvent, void *, void *, unsigned)
DONE(int, cuStreamSynchronize, void *)
MADE(int, cuEventCreate, void *, unsigned)
GONE(int, cuEventDestroy_v2, void *)
int cuEventRecord(void *e, void *)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    *(double *)e = (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
    return OK;
}
int cuEventElapsedTime(float *ms, void *from, void *to) { return *ms = (float)(*(double *)to - *(double *)from), OK; }

/* A module is the name of its files, made of a hash of its text. */
int cuModuleLoadData(void **out, const void *image)
{
    const std::string ptx = (const char *)image;
    char name[32];
    snprintf(name, sizeof name, "/%s%016zx", getenv("PTX_COUNT") ? "counted-" : "plan-", std::hash<std::string>()(ptx));
    const std::string base = machine_folder() + name, temporary = base + "." + std::to_string(getpid());
    if (access((base + ".ptx").c_str(), R_OK) != 0) {
        FILE *f = fopen(temporary.c_str(), "w");
        if (!f || fwrite(ptx.data(), 1, ptx.size(), f) != ptx.size() || fclose(f) != 0 || rename(temporary.c_str(), (base + ".ptx").c_str()) != 0)
            return NOT_FOUND;
    }
    *out = new std::string(base);
    return IN_CONTEXT(translate(base) < 0 ? NOT_FOUND : OK);
}
int cuModuleUnload(void *module) { return delete (std::string *)module, OK; }
int cuModuleGetFunction(void **out, void *module, const char *name)
{
    return IN_CONTEXT((*out = (void *)kernel_find(*(std::string *)module, name)) ? OK : NOT_FOUND);
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *, void **params, void **)
{
    const unsigned grid[3] = { gx, gy, gz }, block[3] = { bx, by, bz };
    return IN_CONTEXT(launch((const kernel *)f, grid, block, shared, (const uint8_t *)params[0]) < 0 ? INVALID_VALUE : OK);
}
int cuGraphCreate(void **g, unsigned) { return *g = new graph, OK; }
int cuGraphAddKernelNode_v2(void **, void *g, void *const *, size_t, const node_params *p)
{
    const kernel *k = (const kernel *)p->function;
    ((graph *)g)->push_back({ k, { p->grid[0], p->grid[1], p->grid[2] }, { p->block[0], p->block[1], p->block[2] }, p->shared,
                              std::string((const char *)p->params[0], k->k.param_bytes) });
    return OK;
}
int cuGraphInstantiateWithFlags(void **out, void *g, unsigned long long) { return *out = new graph(*(graph *)g), OK; }
int cuGraphLaunch(void *g, void *)
{
    int rc = has_context ? OK : INVALID_CONTEXT;
    for (const node &n : *(graph *)g)
        rc = rc == OK && launch(n.k, n.grid, n.block, n.shared, (const uint8_t *)n.param.data()) < 0 ? INVALID_VALUE : rc;
    return rc;
}
int cuGraphDestroy(void *g) { return delete (graph *)g, OK; }
int cuGraphExecDestroy(void *g) { return cuGraphDestroy(g); }

/* ---- NVRTC: the real one, asked for PTX instead of a cubin ---- */

typedef void *program;
#define REAL(name, ...) ((int (*)(__VA_ARGS__))real(name))
static void *real(const char *name)
{
    static void *library = dlopen(PTX_NVRTC, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "ptx: %s\n", dlerror());
        abort();
    }
    return dlsym(library, name);
}
int nvrtcVersion(int *major, int *minor) { return REAL("nvrtcVersion", int *, int *)(major, minor); }
int nvrtcCreateProgram(program *p, const char *text, const char *name, int headers, const char *const *header, const char *const *header_name)
{
    return REAL("nvrtcCreateProgram", program *, const char *, const char *, int, const char *const *, const char *const *)(p, text, name, headers, header,
                                                                                                                              header_name);
}
int nvrtcDestroyProgram(program *p) { return REAL("nvrtcDestroyProgram", program *)(p); }
int nvrtcCompileProgram(program p, int n, const char *const *options)
{
    std::vector<const char *> changed(options, options + n);
    for (const char *&o : changed)
        o = strncmp(o, "--gpu-architecture=", 19) ? o : "--gpu-architecture=compute_90";
    return REAL("nvrtcCompileProgram", program, int, const char *const *)(p, n, changed.data());
}
int nvrtcGetCUBINSize(program p, size_t *n) { return REAL("nvrtcGetPTXSize", program, size_t *)(p, n); }
int nvrtcGetCUBIN(program p, char *out) { return REAL("nvrtcGetPTX", program, char *)(p, out); }
int nvrtcGetProgramLogSize(program p, size_t *n) { return REAL("nvrtcGetProgramLogSize", program, size_t *)(p, n); }
int nvrtcGetProgramLog(program p, char *out) { return REAL("nvrtcGetProgramLog", program, char *)(p, out); }

} /* extern "C" */
