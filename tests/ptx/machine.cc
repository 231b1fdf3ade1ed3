/* SPDX-License-Identifier: Apache-2.0
 *
 * machine: see machine.h. */
#include "machine.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#include <xmmintrin.h>

static std::recursive_mutex lock; /* one launch, copy or allocation at a time */
static struct machine m;

/* ---- memory: allocations by address, and variables of modules ---- */

struct allocation {
    uint64_t bytes;
    bool variable;
};
static std::map<uint64_t, allocation> memory;
enum { PAGE = 4096, POISONED = 64 << 20 };

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}
static const std::pair<const uint64_t, allocation> *memory_find(uint64_t at, uint64_t bytes)
{
    auto it = memory.upper_bound(at);
    return it != memory.begin() && at + bytes <= std::prev(it)->first + std::prev(it)->second.bytes ? &*std::prev(it) : NULL;
}
void *device_alloc(uint64_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (bytes > 8ull << 30)
        return NULL;
    uint8_t *p = (uint8_t *)mmap(NULL, pages(bytes) + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    memset(p + PAGE, 0xa5, std::min<uint64_t>(bytes, POISONED));
    memory[(uint64_t)p + PAGE] = { bytes, false };
    return p + PAGE;
}
int device_free(void *p)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    auto it = memory.find((uint64_t)p);
    if (it == memory.end() || it->second.variable)
        return -1;
    munmap((uint8_t *)p - PAGE, pages(it->second.bytes) + 2 * PAGE);
    memory.erase(it);
    m.hit_from = 1;
    m.hit_to = 0;
    return 0;
}
static void must_be_there(const char *what, const void *p, uint64_t bytes)
{
    if (!memory_find((uint64_t)p, bytes)) {
        fprintf(stderr, "ptx: ERROR: %s of %lu bytes at %p: not memory of the device\n", what, (unsigned long)bytes, p);
        abort();
    }
}
void device_copy(void *to, bool to_device, const void *from, bool from_device, uint64_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (to_device && bytes)
        must_be_there("a copy", to, bytes);
    if (from_device && bytes)
        must_be_there("a copy", from, bytes);
    memmove(to, from, bytes);
}
void device_set(void *p, int value, uint64_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (bytes)
        must_be_there("a memset", p, bytes);
    memset(p, value, bytes);
}

/* ---- modules ---- */

static std::map<std::string, std::map<std::string, kernel>> modules;

std::string machine_folder(void)
{
    Dl_info info;
    if (!dladdr((void *)machine_folder, &info))
        abort();
    const std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/'));
}
int translate(const std::string &base)
{
    const std::string temporary = base + "." + std::to_string(getpid());
    const char *count = getenv("PTX_COUNT");
    if (!access((base + ".so").c_str(), R_OK))
        return 0;
    return system(("'" PTX_SOURCE "/compile' '" + base + ".ptx' '" + temporary + "' " + (count ? "-DPTX_COUNT" : "") + " && mv '" + temporary + "' '" +
                   base + ".so'").c_str()) ? -1 : 0;
}
const kernel *kernel_find(const std::string &base, const std::string &name)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (!modules.count(base)) {
        void *h = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!h) {
            fprintf(stderr, "ptx: %s\n", dlerror());
            return NULL;
        }
        auto &module = modules[base];
        for (const struct ptx_kernel *k = (const struct ptx_kernel *)dlsym(h, "ptx_kernels"); k && k->name; k++)
            module[k->name] = kernel{ *k };
        for (const struct ptx_global *g = (const struct ptx_global *)dlsym(h, "ptx_globals"); g && g->at; g++)
            memory[(uint64_t)g->at] = { g->bytes, true };
    }
    auto &module = modules[base];
    return module.count(name) ? &module[name] : NULL;
}

/* ---- fibres ---- */

asm(R"(
.text
.globl ptx_switch
.hidden ptx_switch
.type ptx_switch,@function
ptx_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp,(%rdi)
    movq %rsi,%rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
extern "C" void ptx_switch(void **from, void *to) __attribute__((visibility("hidden")));

enum { STACK = 512 << 10 };
enum state { READY, AT_BAR, AT_WARP, DONE };
struct block {
    std::vector<struct thread> thread;
    std::vector<uint8_t> shared;
    std::vector<unsigned> ready;
    unsigned n = 0, done = 0, at_bar = 0;
};
static struct thread *current_thread;
static const kernel *current_kernel;
static void *home; /* the scheduler's stack */
static std::vector<uint8_t *> free_stacks;

static void go_home(struct thread *t, enum state state)
{
    t->state = state;
    ptx_switch(&t->sp, home);
}
static void fibre_main(void)
{
    struct thread *t = current_thread;
    current_kernel->k.run(t);
    go_home(t, DONE);
    abort();
}
static void fibre_start(struct thread *t)
{
    if (free_stacks.empty())
        free_stacks.push_back((uint8_t *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    t->stack = free_stacks.back();
    free_stacks.pop_back();
    void **sp = (void **)(t->stack + STACK - 64);
    *--sp = NULL;
    *--sp = (void *)fibre_main;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    t->sp = sp;
}

/* ---- what kernels call ---- */

static void die(struct thread *t, const char *what, const char *kernel, int line)
{
    fprintf(stderr, "ptx: ERROR: %s in %s, line %d of the PTX, block %u thread %u of a grid of %u x %u\n", what, kernel, line, t->ctaid[0], t->tid[0],
            t->nctaid[0], t->ntid[0]);
    abort();
}
/* The slow half of check(): global, or a generic address of shared memory, the stack or parameters. */
static void check_access(struct thread *t, uint64_t at, unsigned bytes, unsigned align, int write, const char *kernel, int line)
{
    const uint64_t end = at + bytes, shared = (uint64_t)t->shared, stack = (uint64_t)t->stack, param = (uint64_t)t->param;
    char text[160];
    if (at & (align - 1)) {
        snprintf(text, sizeof text, "misaligned %s of %u bytes at %lx", write ? "store" : "load", bytes, (unsigned long)at);
        die(t, text, kernel, line);
    }
    if (const auto *a = memory_find(at, bytes)) {
        m.hit_from = a->first;
        m.hit_to = a->first + a->second.bytes;
        return;
    }
    if ((at >= shared && end <= shared + m.shared_bytes) || (at >= stack && end <= stack + STACK) || (!write && at >= param && end <= param + t->param_bytes))
        return;
    snprintf(text, sizeof text, "invalid %s of %u bytes at %lx", write ? "store" : "load", bytes, (unsigned long)at);
    die(t, text, kernel, line);
}
static void yield(struct thread *t, int)
{
    go_home(t, READY);
}
static void warp_wait(struct thread *t, int op, uint32_t a, uint32_t b, uint32_t c, uint32_t mask, int line)
{
    t->op = op;
    t->a = a;
    t->b = b;
    t->c = c;
    t->mask = mask;
    t->line = line;
    if (!(mask >> t->lane & 1))
        die(t, "a lane is not in its own mask", t->kernel, line);
    go_home(t, AT_WARP);
}
static void bar_wait(struct thread *t, int id, int red, int predicate)
{
    t->bar_id = id;
    t->bar_red = red;
    t->bar_predicate = predicate;
    go_home(t, AT_BAR);
}

/* ---- warps and barriers ---- */

/* shfl.sync: the lane that `lane` reads; *inside says whether it is in the segment. */
static int shuffle_from(int op, int lane, uint32_t b, uint32_t c, bool *inside)
{
    const int by = b & 31, clamp = c & 31, segment = (c >> 8) & 31, most = (lane & segment) | (clamp & ~segment), least_lane = lane & segment;
    const int from = op == OP_SHFL_UP ? lane - by : op == OP_SHFL_DOWN ? lane + by : op == OP_SHFL_BFLY ? lane ^ by : least_lane | (by & ~segment);
    *inside = op == OP_SHFL_UP ? from >= most : from <= most;
    return *inside ? from : lane;
}
static void warp_result(struct block &b, struct thread &o, uint32_t ballot)
{
    const unsigned base = o.warp * 32;
    bool inside = false;
    int from;
    switch (o.op) {
    case OP_BALLOT: o.result = ballot; break;
    case OP_ANY: o.result = ballot != 0; break;
    case OP_ALL: o.result = ballot == o.mask; break;
    case OP_UNI: o.result = ballot == 0 || ballot == o.mask; break;
    case OP_WBAR: break;
    default:
        from = shuffle_from(o.op, (int)o.lane, o.b, o.c, &inside);
        if (!(o.mask >> from & 1))
            die(&o, "shfl reads a lane outside the mask", o.kernel, o.line);
        o.result = b.thread[base + from].a;
        o.result_predicate = inside;
    }
}
/* If all lanes of t's mask have come to its operation, it is done and they go on. */
static void warp_try(struct block &b, struct thread *t)
{
    const unsigned base = t->warp * 32;
    uint32_t ballot = 0;
    for (unsigned l = 0; l < 32; l++) {
        if (!(t->mask >> l & 1))
            continue;
        if (base + l >= b.n || b.thread[base + l].state == DONE)
            die(t, "the mask of a warp names a lane that is not there", t->kernel, t->line);
        const struct thread &o = b.thread[base + l];
        if (o.state != AT_WARP || o.op != t->op || o.mask != t->mask || o.line != t->line)
            return;
        ballot |= (uint32_t)(o.a != 0) << l;
    }
    for (unsigned l = 0; l < 32; l++)
        if (t->mask >> l & 1)
            warp_result(b, b.thread[base + l], ballot);
    for (unsigned l = 0; l < 32; l++)
        if (t->mask >> l & 1) {
            b.thread[base + l].state = READY;
            b.ready.push_back(base + l);
        }
}
/* If all threads of the block that live are at the barrier, they go on. */
static void bar_try(struct block &b)
{
    unsigned any = 0, all = 1, count = 0;
    int id = -1;
    if (!b.at_bar || b.at_bar + b.done < b.n)
        return;
    for (struct thread &t : b.thread)
        if (t.state == AT_BAR) {
            if (b.done)
                die(&t, "threads wait at a barrier that others have ended without", t.kernel, 0);
            if (id >= 0 && id != t.bar_id)
                die(&t, "threads of a block wait at different barriers", t.kernel, 0);
            id = t.bar_id;
            any |= t.bar_predicate != 0;
            all &= t.bar_predicate != 0;
            count += t.bar_predicate != 0;
        }
    b.at_bar = 0;
    for (struct thread &t : b.thread) {
        t.result = t.bar_red == RED_OR ? any : t.bar_red == RED_AND ? all : count;
        t.state = READY;
        b.ready.push_back(t.tid[0]);
    }
}

/* ---- the scheduler ---- */

enum order { FORWARD, REVERSE, RANDOM };
static uint64_t draw(void)
{
    m.random = m.random * 6364136223846793005ULL + 1442695040888963407ULL;
    return m.random >> 33;
}
static enum order machine_setup(void)
{
    const char *order = getenv("PTX_ORDER"), *fine = getenv("PTX_FINE");
    const enum order o = order && !strcmp(order, "rev") ? REVERSE : order && !strncmp(order, "rand:", 5) ? RANDOM : FORWARD;
    if (!m.check)
        m = { 1, 0, 0, fine ? atoi(fine) : 0, o == RANDOM ? strtoull(order + 5, NULL, 10) * 7919 + 12345 : 1, check_access, yield, warp_wait, bar_wait, die };
    return o;
}
static void block_start(struct block &b, unsigned id, unsigned blocks, unsigned threads, const std::vector<uint8_t> &param, enum order order)
{
    b.n = threads;
    b.done = b.at_bar = 0;
    b.thread.assign(threads, thread());
    b.shared.assign(m.shared_bytes + 64, 0xcd);
    b.ready.clear();
    for (unsigned i = 0; i < threads; i++) {
        struct thread &t = b.thread[i];
        const uint32_t tid[4] = { i, threads, id, blocks };
        t.tid[0] = tid[0];
        t.ntid[0] = tid[1];
        t.ctaid[0] = tid[2];
        t.nctaid[0] = tid[3];
        t.ntid[1] = t.ntid[2] = t.nctaid[1] = t.nctaid[2] = 1;
        t.lane = i % 32;
        t.warp = i / 32;
        t.shared = (uint8_t *)(((uintptr_t)b.shared.data() + 63) / 64 * 64);
        t.param = param.data();
        t.param_bytes = current_kernel->k.param_bytes;
        t.m = &m;
        t.kernel = current_kernel->k.name;
        b.ready.push_back(order == REVERSE ? i : threads - 1 - i); /* taken from the end */
    }
}
/* One thread of a block goes on up to its next switch. */
static void step(struct block &b, enum order order)
{
    static long spins;
    if (b.ready.empty())
        die(&b.thread[0], b.at_bar ? "deadlock: a part of the block waits at a barrier" : "deadlock: lanes wait for others of their warp",
            current_kernel->k.name, 0);
    const size_t pick = order == RANDOM ? draw() % b.ready.size() : b.ready.size() - 1;
    const unsigned i = b.ready[pick];
    struct thread &t = b.thread[i];
    b.ready[pick] = b.ready.back();
    b.ready.pop_back();
    if (!t.sp)
        fibre_start(&t);
    current_thread = &t;
    ptx_switch(&home, t.sp);
    switch (t.state) {
    case READY:
        b.ready.insert(order == RANDOM ? b.ready.end() : b.ready.begin(), i);
        if (++spins > 2000000000L)
            die(&t, "livelock", current_kernel->k.name, 0);
        break;
    case AT_BAR:
        b.at_bar++;
        bar_try(b);
        break;
    case AT_WARP: warp_try(b, &t); break;
    default:
        b.done++;
        free_stacks.push_back(t.stack);
        bar_try(b);
    }
}
static std::vector<unsigned> sequence_of(unsigned blocks, enum order order)
{
    std::vector<unsigned> s(blocks);
    for (unsigned i = 0; i < blocks; i++)
        s[i] = i;
    if (order == REVERSE)
        std::reverse(s.begin(), s.end());
    for (unsigned i = blocks; order == RANDOM && i > 1; i--)
        std::swap(s[i - 1], s[draw() % i]);
    return s;
}
int launch(const kernel *k, const unsigned grid[3], const unsigned block_size[3], uint64_t shared, const uint8_t *param)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    const unsigned blocks = grid[0], threads = block_size[0], host_csr = _mm_getcsr();
    if (!blocks || grid[1] != 1 || grid[2] != 1 || !threads || threads > 1024 || block_size[1] != 1 || block_size[2] != 1 || shared > 48 << 10)
        return -1;
    const enum order order = machine_setup();
    std::vector<uint8_t> param_copy(param, param + k->k.param_bytes);
    std::vector<struct block> flight(std::min(order == RANDOM ? 4u : 1u, blocks));
    const std::vector<unsigned> sequence = sequence_of(blocks, order);
    unsigned next = 0, live = (unsigned)flight.size();
    param_copy.resize(k->k.param_bytes + 16);
    _mm_setcsr(0x1f80); /* the caller may flush denormals; a kernel says so at each instruction */
    current_kernel = k;
    m.shared_bytes = k->k.static_shared + (unsigned)shared;
    m.hit_from = 1;
    m.hit_to = 0;
    for (struct block &b : flight)
        block_start(b, sequence[next++], blocks, threads, param_copy, order);
    while (live) {
        struct block &b = flight[flight.size() > 1 ? draw() % flight.size() : 0];
        if (!b.n)
            continue;
        step(b, order);
        if (b.done < b.n)
            continue;
        b.n = 0;
        if (next < blocks)
            block_start(b, sequence[next++], blocks, threads, param_copy, order);
        else
            live--;
    }
    _mm_setcsr(host_csr);
    return 0;
}
