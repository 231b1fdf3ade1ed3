/* SPDX-License-Identifier: Apache-2.0
 *
 * pool: a fixed set of threads that run numbered tasks. The caller works too, as worker 0. In a pool for learning
 * denormals are flushed on every thread, by definition of its results; in one for data, on none. */
#include "common/base/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

struct ctr_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    void (*fn)(void *ctx, int64_t task, int worker);
    void *ctx;
    int64_t tasks, next;
    uint64_t round;
    int threads, busy, started;
    bool stop, exact;
    struct worker {
        struct ctr_pool *pool;
        pthread_t id;
        int number;
    } * workers;
};

/* Whether denormals are kept; returns whether they were. */
static bool keep_denormals(bool keep)
{
#if defined(__x86_64__)
    const unsigned flush = 0x8040, now = _mm_getcsr();
    _mm_setcsr(keep ? now & ~flush : now | flush);
    return !(now & flush);
#else
    return keep;
#endif
}

/* Takes tasks until there are none left; called and returns with the lock held. */
static void work(struct ctr_pool *p, int worker)
{
    while (p->next < p->tasks) {
        int64_t task = p->next++;
        pthread_mutex_unlock(&p->lock);
        p->fn(p->ctx, task, worker);
        pthread_mutex_lock(&p->lock);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct ctr_pool *p = w->pool;
    uint64_t seen = 0;

    keep_denormals(p->exact);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && p->round == seen)
            pthread_cond_wait(&p->start, &p->lock);
        if (p->stop)
            break;
        seen = p->round;
        work(p, w->number);
        if (--p->busy == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int pool_new(struct ctr_pool **out, int threads, bool exact, struct ctr_err *err)
{
    struct ctr_pool *p = calloc(1, sizeof *p);
    sigset_t all, old;

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
    p->exact = exact;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to the main thread */
    for (int i = 1; i < threads; i++) {
        p->workers[i] = (struct worker){ .pool = p, .number = i };
        if (pthread_create(&p->workers[i].id, NULL, worker_main, &p->workers[i]))
            break; /* fewer threads give the same results */
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    *out = p;
    return 0;
}

int ctr_pool_new(struct ctr_pool **p, int threads, struct ctr_err *err)
{
    keep_denormals(false);
    return pool_new(p, threads, false, err);
}

int ctr_pool_new_exact(struct ctr_pool **p, int threads, struct ctr_err *err)
{
    return pool_new(p, threads, true, err);
}

void ctr_pool_run(struct ctr_pool *p, int64_t tasks, void (*fn)(void *ctx, int64_t task, int worker), void *ctx)
{
    const bool kept = p && keep_denormals(p->exact); /* of the thread that calls, whichever it is */

    if (!p || p->started == 0 || tasks <= 1) {
        for (int64_t i = 0; i < tasks; i++)
            fn(ctx, i, 0);
        if (p)
            keep_denormals(kept);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->ctx = ctx;
    p->tasks = tasks;
    p->next = 0;
    p->busy = p->started;
    p->round++;
    pthread_cond_broadcast(&p->start);
    work(p, 0);
    while (p->busy)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
    keep_denormals(kept);
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
