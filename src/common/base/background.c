/* SPDX-License-Identifier: Apache-2.0
 *
 * background: a thread that runs one task after another beside the caller. Invariant: from ctr_background_run until
 * ctr_background_wait returns true, the thread owns what the task uses; otherwise the caller does. */
#include "common/base/base.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct ctr_background {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    void (*fn)(void *ctx); /* the task waiting or running, or NULL */
    void *ctx;
    bool stop;
};

static void *run_tasks(void *arg)
{
    struct ctr_background *b = arg;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->fn && !b->stop)
            pthread_cond_wait(&b->begun, &b->lock);
        if (!b->fn)
            break;
        pthread_mutex_unlock(&b->lock);
        b->fn(b->ctx);
        pthread_mutex_lock(&b->lock);
        b->fn = NULL;
        pthread_cond_signal(&b->done);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

struct ctr_background *ctr_background_new(void)
{
    struct ctr_background *b = calloc(1, sizeof *b);
    pthread_condattr_t attr;
    if (!b)
        return NULL;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->begun, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->done, &attr);
    pthread_condattr_destroy(&attr);
    if (!ctr_thread_start(&b->thread, run_tasks, b))
        return b;
    pthread_cond_destroy(&b->begun);
    pthread_cond_destroy(&b->done);
    pthread_mutex_destroy(&b->lock);
    free(b);
    return NULL;
}

void ctr_background_run(struct ctr_background *b, void (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&b->lock);
    b->fn = fn;
    b->ctx = ctx;
    pthread_cond_signal(&b->begun);
    pthread_mutex_unlock(&b->lock);
}

bool ctr_background_wait(struct ctr_background *b, int ms)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + (int64_t)ms * 1000000;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&b->lock);
    while (b->fn && rc != ETIMEDOUT)
        rc = ms < 0 ? pthread_cond_wait(&b->done, &b->lock) : pthread_cond_timedwait(&b->done, &b->lock, &until);
    const bool done = !b->fn;
    pthread_mutex_unlock(&b->lock);
    return done;
}

void ctr_background_free(struct ctr_background *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_signal(&b->begun);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->begun);
    pthread_cond_destroy(&b->done);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
