/* SPDX-License-Identifier: Apache-2.0
 *
 * driver: stands for libcuda.so.1 and libnvrtc.so where there is no GPU ($CTR_CUDA_DRIVER and $CTR_NVRTC name it): NVRTC
 * is the host's C++ compiler, code is a shared library, and a kernel runs in blocks of fibres (src/cuda/onhost_blocks.h).
 * So common/op runs as it stands, from the text of a layer to its columns. What is put on a stream runs late, when the
 * host waits: a copy from memory that changed before, or a result that is read too early, gives other bytes.
 *
 * $CTR_CUDA_ON_HOST_FAIL=CALL:N[:CODE] has the N-th call of a name fail; $CTR_CUDA_ON_HOST_SAYS has the end of the process tell
 * how often each was called and what is left; $CTR_CUDA_ON_HOST_THREADS is another size of blocks, which no kernel may
 * mind if it is a multiple of 8 and at most 256; $CTR_CUDA_ON_HOST_CXXFLAGS are for the compiler; $CTR_CUDA_ON_HOST_MEMORY
 * is the device's memory in bytes.
 *
 * What a driver refuses is refused here: calls before cuInit or on a thread without a context, pointers that are not the
 * device's (of copies, to free), launches beyond a GPU's limits, options that NVRTC does not know. FAIL=fault:N lets the N-th
 * kernel start and fault: the first call that waits sees it, and every one after. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

static std::map<std::string, long> calls;
static std::atomic<long> left, pageable;
static std::atomic<int> fault; /* of a kernel: no later call works */
static bool initialised;
static int contexts;             /* how often the one context is retained */
static thread_local void *current; /* the calling thread's context */
enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700 };

struct report {
    ~report()
    {
        if (!getenv("CTR_CUDA_ON_HOST_SAYS"))
            return;
        for (const auto &c : calls)
            fprintf(stderr, "on host: %s %ld\n", c.first.c_str(), c.second);
        fprintf(stderr, "on host: %ld copies of pageable memory\non host: %ld left\n", pageable.load(), left.load());
    }
};
static struct report at_end;

/* Counts a call; 719 (CUDA_ERROR_LAUNCH_FAILED), or 2 of an allocation, where it is to fail. */
static int called(const char *name)
{
    const long n = ++calls[name];
    const char *want = getenv("CTR_CUDA_ON_HOST_FAIL"), *colon = want ? strchr(want, ':') : NULL;
    if (!colon || std::string(want, (size_t)(colon - want)) != name || atol(colon + 1) != n)
        return 0;
    const char *code = strchr(colon + 1, ':');
    return code ? atoi(code + 1) : strstr(name, "Alloc") ? 2 : strstr(name, "Compile") ? 6 : 719;
}
#define CALLED                                                                                                         \
    if (const int failed = !initialised ? NOT_INITIALIZED : called(__func__))                                          \
    return failed
/* A call that needs a context, and that a fault before it fails. */
#define WITHIN                                                                                                         \
    CALLED;                                                                                                            \
    if (!current || !contexts)                                                                                         \
        return INVALID_CONTEXT;                                                                                        \
    if (fault)                                                                                                         \
    return fault

typedef uint64_t pointer;

/* A GiB, or $CTR_CUDA_ON_HOST_MEMORY. */
static std::map<pointer, size_t> allocated;
static std::mutex allocated_lock; /* the plug-in's stand-in looks into it on another thread */
static size_t taken;
/* Does one allocation hold n bytes at p? */
static bool on_device(pointer p, size_t n)
{
    const std::lock_guard<std::mutex> guard(allocated_lock);
    auto a = allocated.upper_bound(p);
    return n == 0 || (a != allocated.begin() && p + n <= (--a)->first + a->second);
}
static size_t memory(void)
{
    const char *bytes = getenv("CTR_CUDA_ON_HOST_MEMORY");
    return bytes ? (size_t)atoll(bytes) : (size_t)1 << 30;
}
struct module {
    void *library;
    void (*start)(void *, unsigned, unsigned, size_t, const void *);
};
struct function {
    void *kernel;
    struct module *of;
};
struct node {
    struct function *f;
    unsigned blocks, threads, shared;
    std::string argument;
};
struct graph {
    std::vector<node> nodes;
};
enum { ARGUMENT = 80 }; /* sizeof(struct opd_layer) */

/* A thread's rows have one bit of a bitmap's bytes in common: OPD_NULL in loop_device.h. */
static bool in_limits(unsigned blocks, unsigned threads, unsigned shared)
{
    const char *fewer = getenv("CTR_CUDA_ON_HOST_THREADS");
    return blocks >= 1 && blocks <= 0x7fffffff && threads >= 1 && threads <= 1024 && shared <= 48 << 10 &&
           (!fewer || (atoi(fewer) % 8 == 0 && atoi(fewer) <= 256));
}
static void run(const node &n)
{
    if (fault)
        return;
    if (called("fault")) {
        fault = ILLEGAL_ADDRESS;
        return;
    }
    const char *fewer = getenv("CTR_CUDA_ON_HOST_THREADS");
    n.f->of->start(n.f->kernel, n.blocks, fewer ? (unsigned)atoi(fewer) : n.threads, n.shared, n.argument.data());
}

struct stream {
    std::deque<std::function<void()>> queue;
};
struct event {
    double at;
    struct stream *on;
    std::shared_ptr<bool> done;
};
static std::map<void *, size_t> pinned;

static void later(void *s, std::function<void()> f)
{
    if (s)
        ((struct stream *)s)->queue.push_back(std::move(f));
    else
        f();
}
/* Run the first of what is queued. */
static bool step(struct stream *s)
{
    if (s->queue.empty())
        return false;
    const auto f = std::move(s->queue.front());
    s->queue.pop_front();
    f();
    return true;
}
static void drain(void *s)
{
    while (step((struct stream *)s))
        ;
}
static void copy_later(void *s, void *to, const void *from, size_t n, const void *host)
{
    const auto at = pinned.upper_bound((void *)host);
    const bool is_pinned = at != pinned.begin() && (const char *)host + n <= (char *)std::prev(at)->first + std::prev(at)->second;
    pageable += !is_pinned;
    later(s, [=] { memcpy(to, from, n); });
}

extern "C" {

int cuInit(unsigned)
{
    const int failed = called(__func__);
    initialised |= !failed;
    return failed;
}
int cuDeviceGetCount(int *n)
{
    const char *devices = getenv("CTR_CUDA_ON_HOST_DEVICES");
    CALLED;
    *n = devices ? atoi(devices) : 1;
    return 0;
}
int cuDeviceGet(int *d, int at)
{
    CALLED;
    *d = at;
    return 0;
}
int cuDeviceGetName(char *to, int size, int)
{
    CALLED;
    snprintf(to, (size_t)size, "kernels on the host");
    return 0;
}
int cuDeviceGetAttribute(int *v, int which, int)
{
    CALLED;
    *v = which == 75 ? 9 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **c, int)
{
    CALLED;
    *c = &left;
    contexts++;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int)
{
    if (!contexts)
        return INVALID_CONTEXT;
    contexts--;
    return 0;
}
int cuCtxSetCurrent(void *c)
{
    if (c && (c != (void *)&left || !contexts))
        return INVALID_CONTEXT;
    current = c;
    return 0;
}
int cuMemAlloc_v2(pointer *p, size_t n)
{
    WITHIN;
    void *at = taken + n <= memory() ? malloc(n) : NULL;
    if (!at)
        return 2;
    memset(at, 0xff, n); /* not cleared: as floats NaN, as offsets out of range */
    *p = (pointer)(uintptr_t)at;
    const std::lock_guard<std::mutex> guard(allocated_lock);
    allocated[*p] = n;
    taken += n;
    left++;
    return 0;
}
bool driver_holds(const void *p, size_t n)
{
    return on_device((pointer)(uintptr_t)p, n);
}
int cuMemGetInfo_v2(size_t *available, size_t *all)
{
    WITHIN;
    *all = memory();
    *available = *all - taken;
    return 0;
}
int cuMemFree_v2(pointer p)
{
    const std::lock_guard<std::mutex> guard(allocated_lock);
    if (!allocated.count(p))
        return INVALID_VALUE;
    memset((void *)(uintptr_t)p, 0xff, allocated[p]);
    taken -= allocated[p];
    allocated.erase(p);
    free((void *)(uintptr_t)p);
    left--;
    return 0;
}
int cuMemAllocAsync(pointer *p, size_t n, void *)
{
    return cuMemAlloc_v2(p, n);
}
int cuMemFreeAsync(pointer p, void *s)
{
    later(s, [=] { cuMemFree_v2(p); });
    return 0;
}
int cuCtxSetLimit(int, size_t)
{
    WITHIN;
    return 0;
}
int cuMemHostAlloc(void **p, size_t n, unsigned)
{
    WITHIN;
    *p = malloc(n);
    memset(*p, 0xff, n);
    pinned[*p] = n;
    left++;
    return 0;
}
int cuMemFreeHost(void *p)
{
    if (!pinned.erase(p))
        return INVALID_VALUE;
    free(p);
    left--;
    return 0;
}
int cuStreamCreate(void **s, unsigned)
{
    WITHIN;
    *s = new struct stream();
    left++;
    return 0;
}
int cuStreamWaitEvent(void *s, void *e, unsigned)
{
    struct stream *on = ((struct event *)e)->on;
    const std::shared_ptr<bool> done = ((struct event *)e)->done;
    WITHIN;
    later(s, [=] {
        while (done && !*done && step(on))
            ;
    });
    return 0;
}
int cuStreamSynchronize(void *s)
{
    WITHIN;
    drain(s);
    return fault;
}
int cuStreamDestroy_v2(void *s)
{
    if (!fault) /* after it nothing runs */
        drain(s);
    delete (struct stream *)s;
    left--;
    return 0;
}
int cuMemcpyHtoDAsync_v2(pointer to, const void *from, size_t n, void *s)
{
    WITHIN;
    if (!on_device(to, n) || on_device((pointer)(uintptr_t)from, n ? n : 1))
        return INVALID_VALUE;
    copy_later(s, (void *)(uintptr_t)to, from, n, from);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, pointer from, size_t n, void *s)
{
    WITHIN;
    if (!on_device(from, n) || on_device((pointer)(uintptr_t)to, n ? n : 1))
        return INVALID_VALUE;
    copy_later(s, to, (const void *)(uintptr_t)from, n, to);
    return 0;
}
/* The code begins with its size. That of NVRTC itself, an ELF file, is loaded and cannot be started: so that its
 * compiling is measured where there is no GPU. */
int cuModuleLoadData(void **out, const void *image)
{
    uint64_t n;
    char path[] = "/tmp/ctr-onhost-XXXXXX";
    bool whole;
    WITHIN;
    if (!memcmp(image, "\177ELF", 4)) {
        *out = new struct module();
        left++;
        return 0;
    }
    const int fd = mkstemp(path);
    memcpy(&n, image, sizeof n);
    whole = fd >= 0 && write(fd, (const char *)image + 8, n) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    struct module *m = new struct module();
    m->library = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    *(void **)&m->start = m->library ? dlsym(m->library, "onhost_start") : NULL;
    if (!m->start) {
        fprintf(stderr, "on host: %s\n", dlerror());
        delete m;
        return 200;
    }
    *out = m;
    left++;
    return 0;
}
int cuModuleUnload(void *m)
{
    delete (struct module *)m; /* the library stays: sanitizers ask where its code was */
    left--;
    return 0;
}
int cuModuleGetFunction(void **out, void *of, const char *name)
{
    struct module *m = (struct module *)of;
    WITHIN;
    void *kernel = m->library ? dlsym(m->library, name) : m;
    if (!kernel)
        return 500;
    static std::map<void *, struct function> all;
    all[kernel] = function{ kernel, m };
    *out = &all[kernel];
    return 0;
}
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared,
                   void *s, void **args, void **)
{
    const node n = { (struct function *)f, x, threads, shared, std::string((const char *)args[0], ARGUMENT) };
    WITHIN;
    if (!n.f->of->start)
        return 209; /* CUDA_ERROR_NO_BINARY_FOR_GPU */
    if (y != 1 || z != 1 || ty != 1 || tz != 1 || !in_limits(x, threads, shared))
        return INVALID_VALUE;
    later(s, [=] { run(n); });
    return 0;
}
int cuGraphCreate(void **g, unsigned)
{
    CALLED;
    *g = new struct graph();
    left++;
    return 0;
}
struct node_params {
    void *function;
    unsigned grid[3], block[3], shared;
    void **args, **extra;
};
int cuGraphAddKernelNode_v2(void **, void *g, void *const *, size_t, const struct node_params *p)
{
    CALLED;
    if (!in_limits(p->grid[0], p->block[0], p->shared) || p->grid[1] * p->grid[2] * p->block[1] * p->block[2] != 1)
        return INVALID_VALUE;
    ((struct graph *)g)
        ->nodes.push_back(node{ (struct function *)p->function, p->grid[0], p->block[0], p->shared,
                                std::string((const char *)p->args[0], ARGUMENT) });
    return 0;
}
int cuGraphInstantiateWithFlags(void **exec, void *g, unsigned long long)
{
    WITHIN;
    *exec = new struct graph(*(struct graph *)g);
    left++;
    return 0;
}
/* Nodes without edges may run in any order: the last one first. */
int cuGraphLaunch(void *exec, void *s)
{
    WITHIN;
    const auto nodes = ((struct graph *)exec)->nodes;
    later(s, [=] {
        for (size_t i = nodes.size(); i-- > 0;)
            run(nodes[i]);
    });
    return 0;
}
int cuGraphExecDestroy(void *g)
{
    delete (struct graph *)g;
    left--;
    return 0;
}
int cuGraphDestroy(void *g)
{
    delete (struct graph *)g;
    left--;
    return 0;
}
int cuEventCreate(void **e, unsigned)
{
    WITHIN;
    *e = new struct event();
    left++;
    return 0;
}
int cuEventRecord(void *to, void *s)
{
    struct event *e = (struct event *)to;
    const auto done = std::make_shared<bool>(false);
    WITHIN;
    e->on = (struct stream *)s;
    e->done = done;
    later(s, [=] {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        e->at = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
        *done = true;
    });
    return 0;
}
int cuEventElapsedTime(float *ms, void *from, void *to)
{
    CALLED;
    *ms = (float)((((struct event *)to)->at - ((struct event *)from)->at) * 1e3);
    return 0;
}
int cuEventDestroy_v2(void *e)
{
    delete (struct event *)e;
    left--;
    return 0;
}
int cuGetErrorString(int e, const char **text)
{
    static const std::map<int, const char *> texts = { { INVALID_VALUE, "invalid argument" },
                                                       { 2, "out of memory" },
                                                       { NOT_INITIALIZED, "initialization error" },
                                                       { INVALID_CONTEXT, "invalid device context" },
                                                       { ILLEGAL_ADDRESS, "an illegal memory access was encountered" },
                                                       { 719, "unspecified launch failure" } };
    const auto known = texts.find(e);
    *text = known == texts.end() ? "unknown" : known->second;
    return 0;
}

/* ---- NVRTC ---- */

struct program {
    std::string text, log, code;
    std::map<std::string, std::string> header;
};

int nvrtcVersion(int *major, int *minor)
{
    const char *version = getenv("CTR_CUDA_ON_HOST_VERSION"), *dot = version ? strchr(version, '.') : NULL;
    *major = version ? atoi(version) : 99;
    *minor = dot ? atoi(dot + 1) : 0;
    return 0;
}
int nvrtcCreateProgram(void **out, const char *text, const char *, int n, const char *const *header,
                       const char *const *name)
{
    if (const int failed = called(__func__))
        return failed;
    struct program *p = new struct program();
    p->text = text;
    for (int i = 0; i < n; i++)
        p->header[name[i]] = header[i];
    *out = p;
    left++;
    return 0;
}
int nvrtcDestroyProgram(void **p)
{
    delete (struct program *)*p;
    left--;
    return 0;
}

static std::string read_file(const std::string &path)
{
    std::string s;
    char part[65536];
    FILE *f = fopen(path.c_str(), "rb");
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        s.append(part, n);
    if (f)
        fclose(f);
    return s;
}
static void write_file(const std::string &path, const std::string &s)
{
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
        mkdir(path.substr(0, at).c_str(), 0700);
    FILE *f = fopen(path.c_str(), "wb");
    if (f) {
        fwrite(s.data(), 1, s.size(), f);
        fclose(f);
    }
}

int nvrtcCompileProgram(void *of, int options, const char *const *option)
{
    int major, minor;
    nvrtcVersion(&major, &minor);
    static const char *const known[] = { "--std=c++17", "--fmad=false", "--disable-warnings", "--gpu-architecture=sm_", "--Ofast-compile=mid" };
    for (int i = 0; i < options; i++) {
        const bool fast = !strncmp(option[i], "--Ofast-compile", 15); /* which 12.9 has first */
        bool is_known = false;
        for (const char *k : known)
            is_known |= !strncmp(option[i], k, strlen(k));
        if (!is_known || (fast && (major < 12 || (major == 12 && minor < 9))))
            return 5;
    }
    struct program *p = (struct program *)of;
    char folder[] = "/tmp/ctr-nvrtc-XXXXXX";
    const char *top = getenv("CTR_TOP"), *flags = getenv("CTR_CUDA_ON_HOST_CXXFLAGS");
    const int failed = called(__func__);
    if (failed || !mkdtemp(folder)) {
        p->log = "this call was to fail";
        return failed ? failed : 6;
    }
    const std::string at = folder;
    for (const auto &h : p->header)
        write_file(at + "/" + h.first, h.second);
    write_file(at + "/layer.cc",
               "#include \"onhost_blocks.h\"\n" + p->text +
                   "\nextern \"C\" void onhost_start(void *kernel, unsigned blocks, unsigned threads, size_t shared, const void *a)\n"
                   "{\n    const struct opd_layer L = *(const struct opd_layer *)a;\n"
                   "    onhost_run_blocks(blocks, threads, shared, [&] { ((void (*)(const struct opd_layer))kernel)(L); });\n}\n");
    const std::string command = "c++ -std=c++20 -O1 -fPIC -shared -w -ffp-contract=off " + std::string(flags ? flags : "") +
                                " -I'" + at + "' -I'" + (top ? top : ".") + "/src/cuda' -x c++ '" + at + "/layer.cc' -o '" + at +
                                "/layer.so' >'" + at + "/log' 2>&1";
    const int rc = system(command.c_str());
    p->log = read_file(at + "/log");
    p->code = read_file(at + "/layer.so");
    (void)!system(("rm -rf '" + at + "'").c_str());
    const uint64_t n = p->code.size();
    p->code.insert(0, (const char *)&n, 8);
    return rc ? 6 : 0;
}
int nvrtcGetCUBINSize(void *p, size_t *n)
{
    *n = ((struct program *)p)->code.size();
    return 0;
}
int nvrtcGetCUBIN(void *p, char *to)
{
    memcpy(to, ((struct program *)p)->code.data(), ((struct program *)p)->code.size());
    return 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n)
{
    *n = ((struct program *)p)->log.size() + 1;
    return 0;
}
int nvrtcGetProgramLog(void *p, char *to)
{
    strcpy(to, ((struct program *)p)->log.c_str());
    return 0;
}
}
