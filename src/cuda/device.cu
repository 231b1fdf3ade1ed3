/* SPDX-License-Identifier: Apache-2.0
 *
 * device: the CUDA back end's table, its device, memory and two queues. The plug-in exports ctr_plugin and uses nothing
 * of the program that opens it. */
#include "cuda/kernel.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

int cuda_fail(struct ctr_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->what, sizeof err->what, fmt, ap);
    va_end(ap);
    err->code = code;
    return code;
}

int cuda_check(struct cuda_dev *c, cudaError_t e, const char *what, struct ctr_err *err)
{
    if (e == cudaSuccess)
        return 0;
    return cuda_fail(err, e == cudaErrorMemoryAllocation ? CTR_ENOMEM : CTR_ESYS, "%s: %s: %s",
                     c ? c->dev->title : "cuda", what, cudaGetErrorString(e));
}

int cuda_started(struct cuda_dev *c, const char *what, struct ctr_err *err)
{
    const cudaError_t e = c->failed;
    c->failed = cudaSuccess;
    if (e == cudaErrorUnknown && c->product[0])
        return cuda_fail(err, CTR_ESYS, "%s: cuBLAS does not start %d x %d x %d", c->dev->title, c->product[0],
                         c->product[1], c->product[2]);
    return cuda_check(c, e, what, err);
}

/* ---- memory ---- */

static int64_t device_free(const struct ctr_dev *dev)
{
    size_t available = 0, total = 0;
    (void)cuda_of((struct ctr_dev *)(uintptr_t)dev);
    return cudaMemGetInfo(&available, &total) == cudaSuccess ? (int64_t)available : 0;
}

static int device_order(struct ctr_dev *dev, enum ctr_queue first, enum ctr_queue then, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const cudaStream_t streams[] = { cuda_queue(c), c->copy };
    int rc = cuda_check(c, cudaEventRecord(c->event, streams[first]), "ordering", err);
    return rc ? rc : cuda_check(c, cudaStreamWaitEvent(streams[then], c->event, 0), "ordering", err);
}

static int mem_new(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);

    *p = NULL;
    if (bytes > SIZE_MAX - CTR_PAD)
        return cuda_fail(err, CTR_ENOMEM, "too large");
    int rc = cuda_started(c, "starting a kernel", err);
    rc = rc ? rc : cuda_check(c, cudaMalloc(p, bytes + CTR_PAD), "allocating", err);
    if (rc) {
        (void)cudaGetLastError(); /* clear it for the next call */
        return rc;
    }
    rc = cuda_check(c, cudaMemsetAsync(*p, 0, bytes + CTR_PAD, cuda_queue(c)), "clearing", err);
    if (rc == 0) /* before copies of the copy queue */
        rc = device_order(dev, CTR_COMPUTE, CTR_COPY, err);
    if (rc) {
        cudaFree(*p);
        *p = NULL;
    }
    return rc;
}

/* Queued operations may still use it. The next call reports an error. */
static void wait_all(struct cuda_dev *c)
{
    CUDA_FAILED(c, cudaStreamSynchronize(c->copy));
    CUDA_FAILED(c, cudaStreamSynchronize(cuda_queue(c)));
}

static void mem_free(struct ctr_dev *dev, void *p)
{
    wait_all(cuda_of(dev));
    cudaFree(p);
}

void *cuda_scratch_bytes(struct cuda_dev *c, int i, int64_t bytes, int *rc, struct ctr_err *err)
{
    const size_t need = (size_t)CTR_MAX(bytes, 64), room = c->scratch_bytes[i];

    if (*rc || need <= room)
        return *rc ? NULL : c->scratch[i];
    wait_all(c);
    cudaFree(c->scratch[i]);
    c->dev->bytes -= (int64_t)room;
    c->scratch[i] = NULL;
    c->scratch_bytes[i] = 0;
    const size_t take = CTR_MAX(need, room + room / 2);
    if (c->dev->limit_bytes && c->dev->bytes + (int64_t)take > c->dev->limit_bytes) {
        *rc = cuda_fail(err, CTR_ENOMEM,
                        "%s: %zu bytes of scratch are needed beside %lld, and --device-memory allows %lld",
                        c->dev->title, take, (long long)c->dev->bytes, (long long)c->dev->limit_bytes);
        return NULL;
    }
    *rc = cuda_check(c, cudaMalloc(&c->scratch[i], take), "scratch (--device-memory, a smaller --minibatch)", err);
    if (*rc)
        return NULL;
    c->scratch_bytes[i] = take;
    c->dev->bytes += (int64_t)take;
    return c->scratch[i];
}

static int host_new(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err)
{
    return cuda_check(cuda_of(dev), cudaMallocHost(p, CTR_MAX(bytes, 1)), "pinned memory", err);
}

static void host_free(struct ctr_dev *dev, void *p)
{
    (void)cuda_of(dev);
    cudaFreeHost(p);
}

/* ---- queues ---- */

int cuda_wait(struct cuda_dev *c, const char *what, struct ctr_err *err)
{
    c->pinned_used = c->back_used = 0;
    const int rc = cuda_check(c, cudaStreamSynchronize(cuda_queue(c)), what, err);
    for (int i = 0; i < c->pendings && rc == 0; i++)
        memcpy(c->pending[i].host, c->pending[i].pinned, c->pending[i].bytes);
    c->pendings = 0;
    return rc;
}

/* Start what was collected: its errors, too, come before a read. */
static int all_started(struct cuda_dev *c, struct ctr_err *err)
{
    (void)cuda_queue(c);
    return cuda_started(c, "starting a kernel", err);
}

static int device_sync(struct ctr_dev *dev, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    int rc = all_started(c, err);
    rc = rc ? rc : cuda_wait(c, "computing", err);
    return rc ? rc : cuda_check(c, cudaStreamSynchronize(c->copy), "copying", err);
}

static int device_copied(struct ctr_dev *dev, struct ctr_err *err)
{
    return cuda_check(cuda_of(dev), cudaStreamSynchronize(cuda_of(dev)->copy), "copying", err);
}

/* Reserve room for the data to write, after what is queued; if full, wait until the queue is done. */
enum { PINNED = 4 << 20, STAGED = 256 << 10 };

static int pinned_room(struct cuda_dev *c, size_t bytes, struct ctr_err *err)
{
    if (c->pinned)
        return bytes <= PINNED - c->pinned_used ? 0 : cuda_wait(c, "writing", err);
    void *p = NULL;
    int rc = cuda_check(c, cudaMallocHost(&p, PINNED), "pinned memory", err);
    c->pinned = (char *)p;
    return rc;
}

static int device_write(struct ctr_dev *dev, void *to, const void *host, size_t bytes, bool later, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const bool large = bytes > PINNED;

    int rc = later || large ? 0 : pinned_room(c, bytes, err);
    if (rc)
        return rc;
    if (!later && !large) {
        char *pinned = c->pinned + c->pinned_used;
        memcpy(pinned, host, bytes);
        c->pinned_used = CTR_MIN((c->pinned_used + bytes + CTR_PAD - 1) / CTR_PAD * CTR_PAD, (size_t)PINNED);
        host = pinned;
    }
    rc = cuda_check(c, cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, later ? c->copy : cuda_queue(c)),
                    "writing", err);
    return rc || later || !large ? rc : cuda_wait(c, "writing", err);
}

/* Where n pieces of so many bytes come to lie for the host to copy them; NULL in *p: they are too large. */
static int back_room(struct cuda_dev *c, int n, size_t bytes, char **p, struct ctr_err *err)
{
    *p = NULL;
    if (bytes > PINNED)
        return 0;
    int rc = c->pendings + n > PENDING || bytes > PINNED - c->back_used ? cuda_wait(c, "reading", err) : 0;
    if (rc == 0 && !c->back) {
        void *all = NULL;
        rc = cuda_check(c, cudaMallocHost(&all, PINNED), "pinned memory", err);
        c->back = (char *)all;
    }
    if (rc == 0)
        *p = c->back + c->back_used;
    return rc;
}

int cuda_read_later(struct cuda_dev *c, const void *from, int n, void *const *host, const size_t *bytes,
                    struct ctr_err *err)
{
    size_t all = 0;
    for (int i = 0; i < n; i++)
        all += bytes[i];
    char *pinned = NULL;
    int rc = all_started(c, err);
    rc = rc ? rc : back_room(c, n, all, &pinned, err);
    rc = rc ? rc
            : cuda_check(c, cudaMemcpyAsync(pinned, from, all, cudaMemcpyDeviceToHost, cuda_queue(c)), "reading", err);
    if (rc) { /* the reads queued before it are given up, too */
        c->pendings = 0;
        return rc;
    }
    for (int i = 0; i < n; pinned += bytes[i++])
        c->pending[c->pendings++] = { host[i], pinned, bytes[i] };
    c->back_used = CTR_MIN((c->back_used + all + CTR_PAD - 1) / CTR_PAD * CTR_PAD, (size_t)PINNED);
    return 0;
}

/* The system copies large blocks from device to pageable memory in pieces of its own; `host` is often pinned. */
static int device_read(struct ctr_dev *dev, const void *from, void *host, size_t bytes, bool later, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const bool direct = bytes > (size_t)(later ? PINNED : STAGED);
    int rc = direct ? all_started(c, err) : cuda_read_later(c, from, 1, &host, &bytes, err);
    if (direct && rc == 0)
        rc = cuda_check(c, cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, cuda_queue(c)), "reading", err);
    return rc || (later && !direct) ? rc : cuda_wait(c, "reading", err);
}

/* ---- opening ---- */

static void device_close(struct ctr_dev *dev)
{
    struct cuda_dev *c = cuda_of(dev);
    cuda_link_close(c);
    if (c->copy && c->compute)
        wait_all(c);
    cuda_graphs_close(c);
    for (int i = 0; i < SCRATCHES; i++)
        cudaFree(c->scratch[i]);
    cudaFreeHost(c->pinned);
    cudaFreeHost(c->back);
    if (c->blas)
        cublasDestroy(c->blas);
    cudaFree(c->workspace);
    if (c->event)
        cudaEventDestroy(c->event);
    if (c->copy)
        cudaStreamDestroy(c->copy);
    if (c->compute)
        cudaStreamDestroy(c->compute);
    free(c);
}

static int describe(struct ctr_dev *dev, int ordinal, int devices, bool tf32, struct ctr_err *err)
{
    struct cudaDeviceProp prop;
    int driver = 0;
    char number[16] = "";
    int rc = cuda_check(NULL, cudaGetDeviceProperties(&prop, ordinal), "asking for the device", err);
    rc = rc ? rc : cuda_check(NULL, cudaDriverGetVersion(&driver), "asking for the driver", err);
    if (devices > 1)
        snprintf(number, sizeof number, "%d: ", ordinal);
    if (rc == 0)
        snprintf(dev->title, sizeof dev->title, "cuda: %s%.64s (sm_%d%d), driver %d.%d, products of %s", number,
                 prop.name, prop.major, prop.minor, driver / 1000, driver % 1000 / 10, tf32 ? "tf32" : "f32");
    return rc;
}

/* cuBLAS gets a workspace of fixed size, independent of --device-memory: with another size it may choose other
 * algorithms, with other bits. */
enum { WORKSPACE = 32 << 20 };

static int open_blas(struct cuda_dev *c, bool tf32, struct ctr_err *err)
{
    int rc = cuda_check(c, cudaMalloc(&c->workspace, WORKSPACE), "allocating", err);
    if (rc)
        return rc;
    if (cublasCreate(&c->blas) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(c->blas, c->compute) != CUBLAS_STATUS_SUCCESS ||
        cublasSetWorkspace(c->blas, c->workspace, WORKSPACE) != CUBLAS_STATUS_SUCCESS ||
        cublasSetMathMode(c->blas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH) != CUBLAS_STATUS_SUCCESS)
        return cuda_fail(err, CTR_ESYS, "%s: cuBLAS does not start", c->dev->title);
    return 0;
}

/* The one that is wanted, or that of $CTR_CUDA_DEVICE, or that of the rank on this machine. */
static int choose(const struct ctr_dev_want *want, int devices, int *ordinal, struct ctr_err *err)
{
    const char *text = want->number < 0 ? getenv("CTR_CUDA_DEVICE") : NULL;
    char *end = NULL;
    const bool given = text && *text;
    const long n = want->number >= 0 ? want->number : given ? strtol(text, &end, 10) : want->local_rank % devices;
    if (given && (*end || n < 0 || n >= devices))
        return cuda_fail(err, CTR_ESYS, "no GPU '%s' ($CTR_CUDA_DEVICE): the driver finds %d, counted from 0", text,
                         devices);
    if (n >= devices)
        return cuda_fail(err, CTR_ESYS, "no GPU %ld (--device gpu:%ld): the driver finds %d, counted from 0", n, n,
                         devices);
    *ordinal = (int)n;
    return 0;
}

static int device_open(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    const bool tf32 = want->gemm && !strcmp(want->gemm, "tf32");
    int devices = 0, driver = 0, ordinal = 0;

    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        return cuda_fail(err, CTR_ESYS, "no GPU: no driver is there");
    const cudaError_t e = cudaGetDeviceCount(&devices);
    if (e != cudaSuccess || devices == 0)
        return cuda_fail(err, CTR_ESYS, "no GPU: the driver finds no device%s%s", e != cudaSuccess ? ": " : "",
                         e != cudaSuccess ? cudaGetErrorString(e) : "");
    int rc = choose(want, devices, &ordinal, err);
    rc = rc ? rc : describe(dev, ordinal, devices, tf32, err);
    if (rc)
        return rc;
    dev->number = ordinal;
    struct cuda_dev *c = (struct cuda_dev *)calloc(1, sizeof *c);
    if (!c)
        return cuda_fail(err, CTR_ENOMEM, "out of memory");
    c->dev = dev;
    c->ordinal = ordinal;
    dev->state = c;
    rc = cuda_check(c, cudaSetDevice(c->ordinal), "opening", err);
    rc = rc ? rc : cuda_check(c, cudaStreamCreateWithFlags(&c->compute, cudaStreamNonBlocking), "opening", err);
    rc = rc ? rc : cuda_check(c, cudaStreamCreateWithFlags(&c->copy, cudaStreamNonBlocking), "opening", err);
    rc = rc ? rc : cuda_check(c, cudaEventCreateWithFlags(&c->event, cudaEventDisableTiming), "opening", err);
    rc = rc ? rc : open_blas(c, tf32, err);
    cuda_graphs_open(c);
    if (rc)
        device_close(dev);
    return rc;
}

#define SLOT(name) .name = cuda_##name,
static const struct ctr_ops ops = { .name = "cuda",
                                    .open = device_open,
                                    .close = device_close,
                                    .sync = device_sync,
                                    .mem_new = mem_new,
                                    .mem_free = mem_free,
                                    .write = device_write,
                                    .read = device_read,
                                    .host_new = host_new,
                                    .host_free = host_free,
                                    .order = device_order,
                                    .copied = device_copied,
                                    .memory_free = device_free,
                                    .link = &cuda_link_ops,
                                    .collect = cuda_collect,
                                    .start = cuda_start,
                                    CTR_DEV_OPS(SLOT) };

extern "C" {
extern const struct ctr_plugin ctr_plugin;
const struct ctr_plugin ctr_plugin = { CTR_VERSION, CTR_PLUGIN_LAYOUT, &ops };
}
