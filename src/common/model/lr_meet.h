/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_meet: where the threads of a minibatch wait for each other. */
#ifndef CTR_LR_MEET_H
#define CTR_LR_MEET_H

#include <sched.h>
#include <stdatomic.h>

struct ctr_meeting {
    int threads;
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint round;
};

/* All threads come here before one goes on. A minibatch is some ten microseconds: too short to sleep, but a thread that
 * has no processor must get one. */
static inline void ctr_meet(struct ctr_meeting *m)
{
    enum { SPINS = 2000 };
    if (m->threads == 1)
        return;
    unsigned round = atomic_load(&m->round);
    if (atomic_fetch_add(&m->arrived, 1) + 1 == m->threads) {
        atomic_store(&m->arrived, 0);
        atomic_store(&m->round, round + 1);
        return;
    }
    for (int i = 0; atomic_load_explicit(&m->round, memory_order_acquire) == round; i++)
        if (i < SPINS)
            __asm__ volatile("" ::: "memory");
        else
            sched_yield();
}

#endif
