/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-gpu: what a GPU takes for launches and for memory of unknown size ("FeatureBox", Table 1 and section 5). Where
 * the stand-ins for CUDA's driver and NVRTC run (tests/gpu/driver.cc), times mean nothing, and results are checked.
 *
 *     bench-gpu launches MOST        1, 10, … MOST launches of an empty kernel, and as one graph of as many
 *     bench-gpu split ROWS           a layer of eight splits: the pool, cuMemAllocAsync for each split, malloc of
 * threads
 *
 * A line a measurement: name, tab, microseconds (median of RUNS), tab, what was made. Exit status 77: no GPU. */
#include "common/op/gpu_args.h"
#include "common/op/gpu_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 5, SPLITS = 8, BLOCKS = 1024, SHARED = (OPD_THREADS + 18) * 8 };

static struct ctr_err err;
static struct gpu_cuda *gpu;

static void check(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "bench-gpu: %s\n", err.what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t)
{
    qsort(t, RUNS, sizeof *t, by_number);
    return t[RUNS / 2];
}

static void *compiled(const char *text)
{
    struct ctr_gpu_image image = { 0 };
    struct ctr_buf b = { 0 };
    void *module = NULL;
    check(ctr_buf_append(&b, text, strlen(text), &err));
    check(ctr_gpu_compile(&b, ctr_gpu_cuda_arch(gpu), &image, &err));
    check(ctr_gpu_cuda_load(gpu, &image.code, &module, &err));
    ctr_buf_free(&image.code);
    ctr_buf_free(&b);
    return module;
}

static void *function(void *module, const char *name)
{
    void *f = NULL;
    check(ctr_gpu_cuda_function(gpu, module, name, &f, &err));
    return f;
}

/* Memory of the device, until the end. */
static gpu_ptr taken[64];
static int ntaken;

static gpu_ptr memory(int64_t bytes)
{
    gpu_ptr p = 0;
    check(ctr_gpu_cuda_alloc(gpu, &p, bytes, &err));
    if (ntaken < (int)CTR_COUNT(taken))
        taken[ntaken++] = p;
    return p;
}

static void up(gpu_ptr to, const void *from, int64_t bytes)
{
    check(ctr_gpu_cuda_up(gpu, to, from, bytes, &err));
    check(ctr_gpu_cuda_wait(gpu, &err));
}

static void down(void *to, gpu_ptr from, int64_t bytes)
{
    check(ctr_gpu_cuda_down(gpu, to, from, bytes, &err));
    check(ctr_gpu_cuda_wait(gpu, &err));
}

/* ---- launches ---- */

static const char empty_text[] = "#define CTR_KERNEL_TEXT 1\n#define OPD_FIXED_ONLY 1\n"
                                 "#include \"common/op/loop_device.h\"\nOPD_KERNEL(ctr_empty)\n{\n    (void)L;\n}\n";

static double launch_all(void *f, int n)
{
    const struct opd_layer l = { 0 };
    double from = now();
    for (int i = 0; i < n; i++)
        check(ctr_gpu_cuda_launch(gpu, f, 1, OPD_THREADS, SHARED, &l, &err));
    check(ctr_gpu_cuda_wait(gpu, &err));
    return now() - from;
}

static double launch_graph(void *exec)
{
    double from = now();
    check(ctr_gpu_cuda_graph_launch(gpu, exec, &err));
    check(ctr_gpu_cuda_wait(gpu, &err));
    return now() - from;
}

static void launches(int most)
{
    const struct opd_layer l = { 0 };
    void *module = compiled(empty_text), *f = function(module, "ctr_empty"), *exec = NULL;
    double each[RUNS], graph[RUNS];
    (void)launch_all(f, 1); /* the first one loads the code */
    for (int n = 1; n <= most; n *= 10) {
        struct gpu_node *node = calloc((size_t)n, sizeof *node);
        if (!node)
            exit(1);
        for (int i = 0; i < n; i++)
            node[i] = (struct gpu_node){ f, 1, OPD_THREADS, SHARED, &l };
        check(ctr_gpu_cuda_graph(gpu, node, n, &exec, &err));
        (void)launch_graph(exec);
        for (int r = 0; r < RUNS; r++) {
            each[r] = launch_all(f, n);
            graph[r] = launch_graph(exec);
        }
        printf("%d launches\t%.1f\t%.2f us each\n", n, median(each), median(each) / n);
        printf("a graph of %d\t%.1f\t%.2f us each\n", n, median(graph), median(graph) / n);
        ctr_gpu_cuda_graph_free(gpu, exec);
        free(node);
    }
    ctr_gpu_cuda_unload(gpu, module);
}

/* ---- a layer of splits ---- */

/* A call splits a column at '|': where each piece ends, then its bytes. As struct call of the text. */
struct call {
    const uint8_t *text;
    const int32_t *offsets;
    int64_t rows;
    uint8_t **row;
    int64_t *bytes; /* rows + 1 */
    uint8_t *out;
};

static const char split_text[] =
    "#define CTR_KERNEL_TEXT 1\n#include \"common/op/loop_device.h\"\n"
    "struct call { const uint8_t *text; const int32_t *offsets; int64_t rows; uint8_t **row; int64_t *bytes; uint8_t "
    "*out; };\n"
    "#define CALLS ((const struct call *)(const void *)L.call)\n"
    "#define EACH_ROW(c, row) for (int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; row < (c)->rows;\\\n"
    "    row += (int64_t)gridDim.x * blockDim.x)\n"
    "#define EACH_CALL(c) for (const struct call *c = CALLS; c < CALLS + L.nvariable; c++)\n"
    "OPV_FN int64_t size_of(const struct call *c, int64_t row)\n{\n"
    "    int64_t pieces = 1, n = c->offsets[row + 1] - c->offsets[row];\n"
    "    for (int64_t i = 0; i < n; i++)\n        pieces += c->text[c->offsets[row] + i] == '|';\n"
    "    return (4 * (pieces + 1) + n - pieces + 1 + 7) / 8 * 8;\n}\n"
    "OPV_FN void write_row(const struct call *c, int64_t row, uint8_t *to)\n{\n"
    "    int32_t *end = (int32_t *)(void *)to, pieces = 0, at = 0;\n"
    "    const int64_t n = c->offsets[row + 1] - c->offsets[row];\n    const uint8_t *p = c->text + c->offsets[row];\n"
    "    for (int64_t i = 0; i < n; i++)\n        pieces += p[i] == '|';\n"
    "    end[0] = ++pieces;\n    uint8_t *bytes = to + 4 * (pieces + 1);\n    pieces = 0;\n"
    "    for (int64_t i = 0; i <= n; i++)\n        if (i == n || p[i] == '|')\n            end[++pieces] = at;\n"
    "        else\n            bytes[at++] = p[i];\n    c->row[row] = to;\n}\n"
    "OPD_KERNEL(split_pool)\n{\n    EACH_CALL(c)\n"
    "        for (int64_t base = (int64_t)blockIdx.x * blockDim.x; base < c->rows; base += (int64_t)gridDim.x * "
    "blockDim.x) {\n"
    "            const int64_t row = base + threadIdx.x;\n            int64_t all, at;\n"
    "            const int64_t before = opd_prefix(row < c->rows ? size_of(c, row) : 0, L.pool, &all, &at);\n"
    "            if (row < c->rows && (uint64_t)(at + all) <= L.pool->size)\n"
    "                write_row(c, row, L.pool->data + at + before);\n        }\n}\n"
    "OPD_KERNEL(split_malloc)\n{\n    EACH_CALL(c)\n        EACH_ROW(c, row) {\n"
    "            uint8_t *to = (uint8_t *)malloc((size_t)size_of(c, row));\n"
    "            c->row[row] = to;\n            if (to)\n                write_row(c, row, to);\n        }\n}\n"
    "OPD_KERNEL(split_free)\n{\n    EACH_CALL(c)\n        EACH_ROW(c, row)\n            free(c->row[row]);\n}\n"
    "OPD_KERNEL(split_count)\n{\n    EACH_CALL(c)\n        EACH_ROW(c, row)\n            c->bytes[row] = size_of(c, "
    "row);\n}\n"
    "OPD_KERNEL(split_places)\n{\n    const struct call *c = CALLS + blockIdx.x;\n"
    "    const int64_t all = opd_places(c->bytes, 0, c->rows, 0);\n"
    "    if (threadIdx.x == 0)\n        c->bytes[c->rows] = all;\n}\n"
    "OPD_KERNEL(split_write)\n{\n    EACH_CALL(c)\n        EACH_ROW(c, row)\n            write_row(c, row, c->out + "
    "c->bytes[row]);\n}\n"
    "/* A sum that does not depend on where the rows lie: pieces, bytes, and hashes of ends and bytes. */\n"
    "OPD_KERNEL(split_sum)\n{\n    EACH_CALL(c)\n        EACH_ROW(c, row) {\n            const uint8_t *p = "
    "c->row[row];\n"
    "            uint64_t h = 0;\n            if (p) {\n                const int32_t n = *(const int32_t *)(const "
    "void *)p;\n"
    "                const int32_t last = ((const int32_t *)(const void *)p)[n];\n"
    "                for (int64_t i = 0; i < 4 * (n + 1) + last; i++)\n                    h = h * 31 + p[i];\n        "
    "    }\n"
    "            atomicAdd(&L.pool->head, h * (uint64_t)(row + 1));\n        }\n}\n";

struct splits {
    struct call call[SPLITS];
    struct opd_layer layer;
    struct opd_pool pool; /* as it begins */
    gpu_ptr calls, head;
    int64_t rows;
    void *pool_kernel, *malloc_kernel, *free_kernel, *count, *places, *write, *sum;
};

static void start(const struct splits *s, void *f, unsigned blocks)
{
    check(ctr_gpu_cuda_launch(gpu, f, blocks, OPD_THREADS, SHARED, &s->layer, &err));
}

static void set_head(const struct splits *s)
{
    up(s->head, &s->pool, sizeof s->pool);
}

static uint64_t take_head(const struct splits *s)
{
    struct opd_pool got;
    down(&got, s->head, sizeof got);
    return got.head;
}

static uint64_t sum_of(const struct splits *s)
{
    set_head(s);
    start(s, s->sum, BLOCKS);
    return take_head(s);
}

static unsigned blocks_of(const struct splits *s)
{
    return (unsigned)CTR_MIN((s->rows + OPD_THREADS - 1) / OPD_THREADS, BLOCKS);
}

/* Resetting it is in the time. */
static double by_pool(struct splits *s)
{
    const double from = now();
    set_head(s);
    start(s, s->pool_kernel, blocks_of(s));
    const uint64_t head = take_head(s);
    if (head > s->pool.size) {
        fprintf(stderr, "bench-gpu: the pool is too small\n");
        exit(1);
    }
    return now() - from;
}

/* Freeing is in the time. */
static double by_malloc(struct splits *s, uint64_t *sum)
{
    double from = now(), took;
    start(s, s->malloc_kernel, blocks_of(s));
    (void)take_head(s);
    took = now() - from;
    *sum = sum_of(s);
    from = now();
    start(s, s->free_kernel, blocks_of(s));
    (void)take_head(s);
    return took + now() - from;
}

static int (*alloc_async)(gpu_ptr *, size_t, void *), (*free_async)(gpu_ptr, void *), (*set_limit)(int, size_t);

static void need(int result, const char *what)
{
    if (result) {
        fprintf(stderr, "bench-gpu: %s fails (%d)\n", what, result);
        exit(1);
    }
}

/* Sizes are counted first; the host allocates for each split what it takes. */
static double by_alloc_async(struct splits *s, uint64_t *sum)
{
    double from = now(), took;
    int64_t bytes[SPLITS];
    struct call call[SPLITS];
    start(s, s->count, blocks_of(s));
    start(s, s->places, SPLITS);
    memcpy(call, s->call, sizeof call);
    for (int k = 0; k < SPLITS; k++) {
        gpu_ptr p = 0;
        down(&bytes[k], (gpu_ptr)(uintptr_t)(call[k].bytes + s->rows), 8);
        need(alloc_async(&p, (size_t)bytes[k], ctr_gpu_cuda_stream(gpu)), "cuMemAllocAsync");
        call[k].out = (uint8_t *)(uintptr_t)p;
    }
    up(s->calls, call, sizeof call);
    start(s, s->write, blocks_of(s));
    (void)take_head(s);
    took = now() - from;
    *sum = sum_of(s);
    from = now();
    for (int k = 0; k < SPLITS; k++)
        need(free_async((gpu_ptr)(uintptr_t)call[k].out, ctr_gpu_cuda_stream(gpu)), "cuMemFreeAsync");
    (void)take_head(s);
    return took + now() - from;
}

static int64_t make_column(const struct splits *s, int k, gpu_ptr *text, gpu_ptr *offsets)
{
    struct ctr_buf b = { 0 };
    int32_t *end = calloc((size_t)s->rows + 1, sizeof *end);
    if (!end)
        exit(1);
    for (int64_t i = 0; i < s->rows; i++) {
        const int pieces = (int)(ctr_mix64((uint64_t)(i * SPLITS + k)) % 6);
        for (int j = 0; j <= pieces; j++)
            check(CTR_MIN(ctr_buf_printf(&b, &err, "%sw%d", j ? "|" : "", (int)(i * 7 + j) % 1000), 0));
        end[i + 1] = (int32_t)b.len;
    }
    *text = memory((int64_t)b.len + 8);
    *offsets = memory((s->rows + 1) * 4);
    up(*text, b.data, (int64_t)b.len);
    up(*offsets, end, (s->rows + 1) * 4);
    const int64_t bytes = (int64_t)b.len;
    ctr_buf_free(&b);
    free(end);
    return bytes;
}

static void open_splits(struct splits *s, void *module)
{
    int64_t bytes = 0;
    gpu_ptr text, offsets;
    for (int k = 0; k < SPLITS; k++) {
        bytes += make_column(s, k, &text, &offsets);
        s->call[k] = (struct call){ (const uint8_t *)(uintptr_t)text,
                                    (const int32_t *)(uintptr_t)offsets,
                                    s->rows,
                                    (uint8_t **)(uintptr_t)memory(s->rows * 8),
                                    (int64_t *)(uintptr_t)memory((s->rows + 1) * 8),
                                    NULL };
    }
    s->calls = memory(sizeof s->call);
    s->head = memory(sizeof s->pool);
    up(s->calls, s->call, sizeof s->call);
    s->pool.size = (uint64_t)(4 * bytes + s->rows * SPLITS * 16 + (1 << 20));
    s->pool.data = (uint8_t *)(uintptr_t)memory((int64_t)s->pool.size);
    s->layer.call = (const void *)(uintptr_t)s->calls;
    s->layer.nvariable = SPLITS;
    s->layer.pool = (void *)(uintptr_t)s->head;
    s->pool_kernel = function(module, "split_pool");
    s->malloc_kernel = function(module, "split_malloc");
    s->free_kernel = function(module, "split_free");
    s->count = function(module, "split_count");
    s->places = function(module, "split_places");
    s->write = function(module, "split_write");
    s->sum = function(module, "split_sum");
}

static void find_async(void)
{
    enum { MALLOC_HEAP = 2 }; /* CU_LIMIT_MALLOC_HEAP_SIZE */
    const char *path = getenv("CTR_CUDA_DRIVER");
    void *driver = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&alloc_async = driver ? dlsym(driver, "cuMemAllocAsync") : NULL;
    *(void **)&free_async = driver ? dlsym(driver, "cuMemFreeAsync") : NULL;
    *(void **)&set_limit = driver ? dlsym(driver, "cuCtxSetLimit") : NULL;
    if (!alloc_async || !free_async || !set_limit) {
        fprintf(stderr, "bench-gpu: the driver has no cuMemAllocAsync\n");
        exit(1);
    }
    need(set_limit(MALLOC_HEAP, (size_t)1 << 30), "the heap of malloc");
}

static void split(int64_t rows)
{
    struct splits s = { .rows = rows };
    void *module = compiled(split_text);
    double pool[RUNS], async[RUNS], heap[RUNS];
    uint64_t sum[3] = { 0 };
    find_async();
    open_splits(&s, module);
    for (int r = -1; r < RUNS; r++) { /* the first one is left out: code is loaded, pools of the driver grow */
        const double p = by_pool(&s);
        sum[0] = sum_of(&s);
        const double a = by_alloc_async(&s, &sum[1]), m = by_malloc(&s, &sum[2]);
        if (sum[1] != sum[0] || sum[2] != sum[0]) {
            fprintf(stderr, "bench-gpu: the three ways differ\n");
            exit(1);
        }
        if (r >= 0)
            pool[r] = p, async[r] = a, heap[r] = m;
    }
    const char *const name[] = { "the pool", "cuMemAllocAsync a split", "malloc a row" };
    double *const t[] = { pool, async, heap };
    for (int i = 0; i < 3; i++) {
        const double us = median(t[i]);
        printf("%s\t%.1f\t%.1f M rows/s, sum %016llx\n", name[i], us, (double)rows * SPLITS / us,
               (unsigned long long)sum[i]);
    }
    ctr_gpu_cuda_unload(gpu, module);
}

int main(int argc, char **argv)
{
    int64_t n = 0;
    if (argc != 3 || !ctr_parse_i64(argv[2], strlen(argv[2]), &n) || n < 1 || n > 100000000) {
        fprintf(stderr, "usage: bench-gpu launches MOST | split ROWS\n");
        return 2;
    }
    if (ctr_gpu_cuda_open(&gpu, -1, &err) < 0) {
        fprintf(stderr, "skipped: %s\n", err.what);
        return 77;
    }
    printf("device\t0\t%s (%s)\n", ctr_gpu_cuda_name(gpu), ctr_gpu_cuda_arch(gpu));
    if (!strcmp(argv[1], "launches"))
        launches((int)n);
    else
        split(n);
    for (int i = 0; i < ntaken; i++)
        ctr_gpu_cuda_release(gpu, taken[i]);
    ctr_gpu_cuda_free(gpu);
    return 0;
}
