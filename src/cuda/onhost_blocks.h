/* SPDX-License-Identifier: Apache-2.0
 *
 * onhost_blocks: blocks of a kernel on the host. Each thread of a block is a fibre with its own stack; it runs until it
 * ends, reaches a barrier, or yields at an atomic. So the threads of a block are interleaved on one processor, in an
 * order that $CTR_CUDA_ON_HOST_BLOCKS gives, and a barrier costs a context switch. A missing barrier changes results
 * only where a thread that reads runs before the one that writes: tests use several orders.
 *
 * Each fibre is registered with ThreadSanitizer as a thread, and switches as not synchronising: two accesses separated
 * only by the order of fibres are reported as a race, as they would be on a GPU, within a block and between blocks. A
 * launch starts after everything before it in its queue, and ends before everything after it.
 *
 * A barrier that some threads of a block do not reach ends the process with a message.
 *
 * Nothing of the C++ library: tests compile this with hundreds of kernels, and its headers took two thirds of that. */
#ifndef CTR_CUDA_ONHOST_BLOCKS_H
#define CTR_CUDA_ONHOST_BLOCKS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined __x86_64__
#include <ucontext.h>
#endif

#if defined __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
enum { ONHOST_RACES = 1 };
#else
enum { ONHOST_RACES = 0 };
static inline void __tsan_acquire(void *) {}
static inline void __tsan_release(void *) {}
#endif
#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

/* The code that runs fibres is not part of a kernel: ThreadSanitizer ignores it. */
#define ONHOST_UNSEEN __attribute__((no_sanitize("thread"), noinline))

struct onhost_index {
    unsigned x;
};
inline thread_local struct onhost_place {
    struct onhost_index block, thread, threads, blocks;
    void *shared;
} onhost_place = { { 0 }, { 0 }, { 1 }, { 1 }, NULL };
[[maybe_unused]] ONHOST_UNSEEN static struct onhost_place onhost_here(void)
{
    return onhost_place;
}
#define blockIdx  (onhost_here().block)
#define threadIdx (onhost_here().thread)
#define blockDim  (onhost_here().threads)
#define gridDim   (onhost_here().blocks)

/* ---- where a fibre, or its launcher, goes on ---- */

static void onhost_enter(void);
enum { ONHOST_STACK = 256 << 10 };
#if defined __x86_64__
/* The stack, with the registers that a call keeps on top. swapcontext would make a system call for each switch, and
 * AddressSanitizer would clear the shadow of the whole stack. */
typedef void **onhost_context;
__attribute__((naked, noinline, no_sanitize("thread"))) static void onhost_switch(onhost_context *, onhost_context *)
{
    __asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
            "mov %rsp, (%rdi)\n mov (%rsi), %rsp\n"
            "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}
static inline void onhost_prepare(onhost_context *at, void *stack)
{
    void **top = (void **)((char *)stack + ONHOST_STACK) - 1;
    top[-1] = (void *)onhost_enter; /* whose caller is NULL, at top[0] */
    *at = top - 7;
}
#else
typedef ucontext_t onhost_context;
static inline void onhost_switch(onhost_context *from, onhost_context *to)
{
    swapcontext(from, to);
}
static inline void onhost_prepare(onhost_context *at, void *stack)
{
    getcontext(at);
    at->uc_stack.ss_sp = stack;
    at->uc_stack.ss_size = ONHOST_STACK;
    at->uc_link = NULL;
    makecontext(at, onhost_enter, 0);
}
#endif

enum onhost_state { ONHOST_RUNS, ONHOST_GAVE_WAY, ONHOST_AT_BARRIER, ONHOST_ENDED };

struct onhost_fibre {
    onhost_context at;
    void *stack;
    enum onhost_state state;
#if defined __SANITIZE_THREAD__
    void *tsan;
#endif
    onhost_fibre();
    ~onhost_fibre();
};

/* The fibres of a host thread. */
struct onhost_fibres {
    onhost_fibre **all;
    unsigned n;
    onhost_context home;
    onhost_fibre *now; /* NULL: none is running */
    void (*body)(const void *of);
    const void *of;
    char *phase, begins, ends, barrier[2]; /* what ThreadSanitizer orders fibres by; phase: of the next barrier */
    unsigned atomics;
#if defined __SANITIZE_THREAD__
    void *home_tsan;
#endif
#if defined __SANITIZE_ADDRESS__
    const void *home_stack;
    size_t home_bytes;
#endif
    ~onhost_fibres()
    {
        while (n > 0)
            delete all[--n];
        free(all);
    }
};
inline thread_local struct onhost_fibres onhost_fibres;

/* Switch back to the launcher. */
ONHOST_UNSEEN static void onhost_leave(enum onhost_state state)
{
    struct onhost_fibres *f = &onhost_fibres;
    onhost_fibre *me = f->now;
    me->state = state;
#if defined __SANITIZE_THREAD__
    __tsan_switch_to_fiber(f->home_tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined __SANITIZE_ADDRESS__
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, f->home_stack, f->home_bytes);
#endif
    onhost_switch(&me->at, &f->home);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, &f->home_stack, &f->home_bytes);
#endif
}

ONHOST_UNSEEN static void onhost_enter(void)
{
    struct onhost_fibres *f = &onhost_fibres;
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &f->home_stack, &f->home_bytes);
#endif
    for (;;) {
        __tsan_acquire(&f->begins);
        f->body(f->of);
        __tsan_release(&f->ends);
        onhost_leave(ONHOST_ENDED);
    }
}

inline onhost_fibre::onhost_fibre()
{
    stack = mmap(NULL, ONHOST_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        abort();
    onhost_prepare(&at, stack);
#if defined __SANITIZE_THREAD__
    tsan = __tsan_create_fiber(0);
#endif
}

inline onhost_fibre::~onhost_fibre()
{
#if defined __SANITIZE_THREAD__
    __tsan_destroy_fiber(tsan);
#endif
    munmap(stack, ONHOST_STACK);
}

/* Continue the fibre as thread t of block b. */
ONHOST_UNSEEN static void onhost_switch_to(onhost_fibre *to, unsigned b, unsigned t, void *shared)
{
    struct onhost_fibres *f = &onhost_fibres;
    onhost_place.block.x = b;
    onhost_place.thread.x = t;
    onhost_place.shared = shared;
    f->now = to;
    to->state = ONHOST_RUNS;
#if defined __SANITIZE_THREAD__
    __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined __SANITIZE_ADDRESS__
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, to->stack, ONHOST_STACK);
#endif
    onhost_switch(&f->home, &to->at);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
    f->now = NULL;
}

/* Which of n blocks, or of the n threads of one, runs as the k-th: the last one first, or by $CTR_CUDA_ON_HOST_BLOCKS:
 * forward, or mixed. */
enum onhost_turns { ONHOST_BACKWARD, ONHOST_FORWARD, ONHOST_MIXED };
static inline enum onhost_turns onhost_turns(void)
{
    const char *order = getenv("CTR_CUDA_ON_HOST_BLOCKS");
    return !order                      ? ONHOST_BACKWARD
           : !strcmp(order, "forward") ? ONHOST_FORWARD
           : !strcmp(order, "mixed")   ? ONHOST_MIXED
                                       : ONHOST_BACKWARD;
}
static inline unsigned onhost_turn(enum onhost_turns order, unsigned k, unsigned n)
{
    if (order == ONHOST_FORWARD)
        return k;
    if (order == ONHOST_MIXED) /* the odd ones, then the even ones backwards */
        return k < n / 2 ? 2 * k + 1 : (n - 1 - k) * 2;
    return n - 1 - k;
}

/* Run all threads of a block in turn to their next barrier or their end. Returns whether they are at a barrier. */
ONHOST_UNSEEN static bool onhost_round(onhost_fibre **fibre, unsigned b, unsigned threads, void *shared)
{
    const enum onhost_turns order = onhost_turns();
    unsigned at_barrier = 0;
    for (bool again = true; again;) {
        again = false;
        for (unsigned k = 0; k < threads; k++) {
            const unsigned t = onhost_turn(order, k, threads);
            if (fibre[t]->state == ONHOST_GAVE_WAY)
                onhost_switch_to(fibre[t], b, t, shared);
            again |= fibre[t]->state == ONHOST_GAVE_WAY;
        }
    }
    for (unsigned t = 0; t < threads; t++)
        at_barrier += fibre[t]->state == ONHOST_AT_BARRIER;
    if (at_barrier && at_barrier < threads) {
        fprintf(stderr, "on host: %u of the %u threads of a block do not reach its barrier\n", threads - at_barrier,
                threads);
        abort();
    }
    return at_barrier > 0;
}

/* Neighbouring blocks use different fibres, so that races between blocks are detected, too. Their shared memory exists
 * before any of them starts. */
ONHOST_UNSEEN static void onhost_run(unsigned blocks, unsigned threads, size_t bytes, void (*body)(const void *of),
                                     const void *of)
{
    struct onhost_fibres *f = &onhost_fibres;
    char **shared = new char *[blocks]();
    if (f->n < 2 * threads && !(f->all = (onhost_fibre **)realloc(f->all, 2 * threads * sizeof(onhost_fibre *))))
        abort();
    while (f->n < 2 * threads)
        f->all[f->n++] = new onhost_fibre;
    for (unsigned b = 0; b < blocks && bytes; b++)
        shared[b] = new char[bytes];
    f->body = body;
    f->of = of;
    onhost_place.threads.x = threads;
    onhost_place.blocks.x = blocks;
#if defined __SANITIZE_THREAD__
    f->home_tsan = __tsan_get_current_fiber();
#endif
    __tsan_release(&f->begins);
    for (unsigned k = 0; k < blocks; k++) {
        const unsigned b = onhost_turn(onhost_turns(), k, blocks);
        onhost_fibre **fibre = f->all + k % 2 * threads;
        for (unsigned t = 0; t < threads; t++)
            fibre[t]->state = ONHOST_GAVE_WAY;
        f->phase = f->barrier;
        while (onhost_round(fibre, b, threads, shared[b])) {
            for (unsigned t = 0; t < threads; t++)
                fibre[t]->state = ONHOST_GAVE_WAY;
            f->phase = f->phase == f->barrier ? f->barrier + 1 : f->barrier;
        }
    }
    __tsan_acquire(&f->ends);
    onhost_place = { { 0 }, { 0 }, { 1 }, { 1 }, NULL };
    for (unsigned b = 0; b < blocks; b++)
        delete[] shared[b];
    delete[] shared;
}
template <class F> static void onhost_run_blocks(unsigned blocks, unsigned threads, size_t bytes, const F &body)
{
    onhost_run(
        blocks, threads, bytes, [](const void *of) { (*(const F *)of)(); }, &body);
}

/* Everything that the block's threads did before the barrier happens before everything after it. Consecutive barriers
 * use different objects, because threads may already be at the next one. */
ONHOST_UNSEEN static char *onhost_phase(void)
{
    return onhost_fibres.phase;
}
/* "careless": barriers do not synchronise, which ThreadSanitizer must detect. */
ONHOST_UNSEEN static bool onhost_careless(void)
{
    const char *order = getenv("CTR_CUDA_ON_HOST_ORDER");
    return order && strstr(order, "careless");
}
static inline void __syncthreads(void)
{
    char *phase = onhost_phase();
    const bool ordered = !ONHOST_RACES || !onhost_careless();
    if (ordered)
        __tsan_release(phase);
    onhost_leave(ONHOST_AT_BARRIER);
    if (ordered)
        __tsan_acquire(phase);
}

static inline void __threadfence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- atomics: relaxed, as a GPU's; every third lets the others go on before ---- */

ONHOST_UNSEEN static void onhost_give_way(void)
{
    if (onhost_fibres.now && ++onhost_fibres.atomics % 3 == 0)
        onhost_leave(ONHOST_GAVE_WAY);
}
template <class T> static inline T atomicCAS(T *p, T expected, T desired)
{
    onhost_give_way();
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
template <class T> static inline T atomicMin(T *p, T v)
{
    onhost_give_way();
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v < old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}
template <class T> static inline T atomicMax(T *p, T v)
{
    onhost_give_way();
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v > old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}
template <class T> static inline T atomicAdd(T *p, T v)
{
    onhost_give_way();
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicExch(T *p, T v)
{
    onhost_give_way();
    return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}
[[maybe_unused]] static inline uint32_t load_relaxed(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
[[maybe_unused]] static inline void store_relaxed(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

#endif
