/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_meet: where the threads of a minibatch wait for each other. A minibatch is some ten microseconds, so who comes
 * early looks again and again; whoever is still alone after several times that waits for a thread that has no
 * processor, and sleeps, which leaves it one. */
#ifndef CTR_LR_MEET_H
#define CTR_LR_MEET_H

#include <pthread.h>
#include <stdatomic.h>

struct ctr_meeting {
    int threads;
    pthread_mutex_t lock;
    pthread_cond_t on; /* round was raised */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint round;
    atomic_int asleep;
};

void ctr_meeting_init(struct ctr_meeting *m, int threads);
void ctr_meeting_free(struct ctr_meeting *m);

/* All threads come here before one goes on: `wait` gets what `arrive` returned, and work may lie between the two. */
unsigned ctr_meet_arrive(struct ctr_meeting *m);
void ctr_meet_wait(struct ctr_meeting *m, unsigned round);
static inline void ctr_meet(struct ctr_meeting *m)
{
    ctr_meet_wait(m, ctr_meet_arrive(m));
}

#endif
