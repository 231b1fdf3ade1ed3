/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: a fixed set of threads that run numbered tasks. The caller works, too, as worker 0. All tasks run in the pool's
 * floating-point mode, which is part of the definition of their results. */
#include "common/base/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { LOOKS = 1500 }; /* polls of about 30 us: the time to wake a thread */

struct ctr_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    void (*fn)(void *ctx, int64_t task, int worker);
    void *ctx;
    int64_t tasks, next;
    _Atomic int64_t left;   /* tasks not yet done; */
    _Atomic uint64_t round; /* both are changed with the lock held, and read without it */
    _Atomic int looks;
    int threads, started;
    bool stop;
    enum ctr_float_mode mode;
    struct worker {
        struct ctr_pool *pool;
        pthread_t id;
        int number;
    } * workers;
};

enum ctr_float_mode ctr_float_mode(enum ctr_float_mode mode)
{
#if defined(__x86_64__)
    const unsigned flush = 0x8040, now = _mm_getcsr();
    const enum ctr_float_mode before = now & flush ? CTR_FLOAT_FLUSH : CTR_FLOAT_IEEE;
    if (before != mode)
        _mm_setcsr(mode == CTR_FLOAT_FLUSH ? now | flush : now & ~flush);
    return before;
#else
    return mode;
#endif
}

/* Run tasks until none are left; called, and returns, with the lock held. */
static void work(struct ctr_pool *p, int worker)
{
    while (p->next < p->tasks) {
        int64_t task = p->next++;
        pthread_mutex_unlock(&p->lock);
        p->fn(p->ctx, task, worker);
        pthread_mutex_lock(&p->lock);
        if (--p->left == 0 && worker)
            pthread_cond_signal(&p->done);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct ctr_pool *p = w->pool;
    uint64_t seen = 0;

    ctr_float_mode(p->mode);
    for (;;) {
        for (int i = 0; i < p->looks && p->round == seen; i++)
            ctr_cpu_pause();
        pthread_mutex_lock(&p->lock);
        while (!p->stop && p->round == seen)
            pthread_cond_wait(&p->start, &p->lock);
        if (p->stop)
            break;
        seen = p->round;
        work(p, w->number);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int ctr_thread_start(pthread_t *id, void *(*main)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGPIPE);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int failed = pthread_create(id, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

int ctr_pool_new(struct ctr_pool **out, int threads, enum ctr_float_mode mode, struct ctr_err *err)
{
    struct ctr_pool *p = calloc(1, sizeof *p);

    threads = CTR_MAX(threads, 1);
    if (p)
        p->workers = calloc((size_t)threads, sizeof *p->workers);
    if (!p || !p->workers) {
        free(p);
        return ctr_fail_nomem(err, sizeof *p + (size_t)threads * sizeof *p->workers);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    p->threads = threads;
    p->mode = mode;
    for (int i = 1; i < threads; i++) {
        p->workers[i] = (struct worker){ .pool = p, .number = i };
        if (ctr_thread_start(&p->workers[i].id, worker_main, &p->workers[i]))
            break; /* fewer threads give the same results */
        p->started++;
    }
    *out = p;
    return 0;
}

void ctr_pool_run(struct ctr_pool *p, int64_t tasks, void (*fn)(void *ctx, int64_t task, int worker), void *ctx)
{
    const enum ctr_float_mode before = p ? ctr_float_mode(p->mode) : CTR_FLOAT_IEEE;

    if (!p || p->started == 0 || tasks <= 1) {
        for (int64_t i = 0; i < tasks; i++)
            fn(ctx, i, 0);
        if (p)
            ctr_float_mode(before);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->ctx = ctx;
    p->tasks = tasks;
    p->next = 0;
    p->left = tasks; /* a thread that wakes after all tasks are taken is not waited for */
    p->round++;
    pthread_cond_broadcast(&p->start);
    work(p, 0);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->looks && p->left; i++)
        ctr_cpu_pause();
    pthread_mutex_lock(&p->lock);
    while (p->left)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
    ctr_float_mode(before);
}

void ctr_pool_stay_awake(struct ctr_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->looks = p->threads <= ctr_cpu_count() ? LOOKS : 0; /* otherwise they would compete for processors */
    pthread_mutex_unlock(&p->lock);
}

int ctr_pool_threads(const struct ctr_pool *p)
{
    return p->started + 1;
}

void ctr_pool_free(struct ctr_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->workers[i].id, NULL);
    pthread_cond_destroy(&p->start);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}
