/* SPDX-License-Identifier: Apache-2.0
 *
 * The meeting of threads: see lr_meet.h. Who sleeps has told so before it looked at `round` for the last time, and who
 * raises `round` looks for sleepers afterwards: one of the two sees the other. */
#include "common/lr/lr_meet.h"
#include "common/base/base.h"

enum { LOOKS = 1000 };

void ctr_meeting_init(struct ctr_meeting *m, int threads)
{
    m->threads = threads;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->on, NULL);
}

void ctr_meeting_free(struct ctr_meeting *m)
{
    if (!m->threads)
        return;
    pthread_cond_destroy(&m->on);
    pthread_mutex_destroy(&m->lock);
}

static void go_on(struct ctr_meeting *m, unsigned round)
{
    atomic_store(&m->arrived, 0);
    atomic_store(&m->round, round + 1);
    if (!atomic_load(&m->asleep))
        return;
    pthread_mutex_lock(&m->lock);
    pthread_cond_broadcast(&m->on);
    pthread_mutex_unlock(&m->lock);
}

static void sleep_until(struct ctr_meeting *m, unsigned round)
{
    pthread_mutex_lock(&m->lock);
    atomic_fetch_add(&m->asleep, 1);
    while (atomic_load(&m->round) == round)
        pthread_cond_wait(&m->on, &m->lock);
    atomic_fetch_sub(&m->asleep, 1);
    pthread_mutex_unlock(&m->lock);
}

unsigned ctr_meet_arrive(struct ctr_meeting *m)
{
    const unsigned round = atomic_load(&m->round);
    if (atomic_fetch_add(&m->arrived, 1) + 1 == m->threads)
        go_on(m, round);
    return round;
}

void ctr_meet_wait(struct ctr_meeting *m, unsigned round)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&m->round, memory_order_acquire) != round)
            return;
        ctr_cpu_pause();
    }
    sleep_until(m, round);
}
