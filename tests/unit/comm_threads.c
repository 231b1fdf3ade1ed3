/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are threads of one process. Each rank publishes what it sends, waits for all ranks, copies its parts, and
 * waits again before the published data may change. See comm_threads.h. */
#include "comm_threads.h"

#include "common/compute/comm_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int size, users;  /* ranks; comms not yet freed */
    int here;         /* ranks waiting */
    int64_t barriers; /* passed */
    double limit_s;
    bool aborted;
    char why[512];
    const struct ctr_comm_part **out; /* [size]: published by each rank */
};

struct rank {
    struct ctr_comm base;
    struct shared *shared;
};

/* Wait for all ranks. */
static int wait_for_all(struct rank *r, struct ctr_err *err)
{
    struct shared *s = r->shared;
    struct timespec until;
    int rc = 0, woken = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)s->limit_s;
    until.tv_nsec += (long)((s->limit_s - (double)(time_t)s->limit_s) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->lock);
    const int64_t barriers = s->barriers;
    if (++s->here == s->size) {
        s->here = 0;
        s->barriers++;
        pthread_cond_broadcast(&s->change);
    }
    while (s->barriers == barriers && !s->aborted && woken != ETIMEDOUT)
        woken = pthread_cond_timedwait(&s->change, &s->lock, &until);
    if (s->barriers == barriers && s->aborted)
        rc = ctr_fail(err, CTR_ESYS, "%s", s->why);
    else if (s->barriers == barriers)
        rc = ctr_fail(err, CTR_ESYS, "rank %d waits for %d of %d ranks, which gave no sign of life for %g s",
                      r->base.rank, s->size - s->here, s->size, s->limit_s);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static int threads_swap(struct ctr_comm *c, const struct ctr_comm_part *out, struct ctr_buf *in, const int64_t *in_n,
                        struct ctr_err *err)
{
    struct rank *r = (struct rank *)c;
    struct shared *s = r->shared;
    s->out[c->rank] = out; /* the others read it between the two barriers */
    int rc = wait_for_all(r, err);
    if (rc)
        return rc;
    for (int i = 0; i < c->size && !rc; i++)
        if (i != c->rank)
            rc = in_n && in_n[i] != (int64_t)s->out[i][c->rank].n
                     ? ctr_fail(err, CTR_EDATA, "rank %d sent a message of another length", i)
                     : ctr_buf_append(&in[i], s->out[i][c->rank].p, s->out[i][c->rank].n, err);
    struct ctr_err unused = { 0 }; /* the first error is reported */
    const int waited = wait_for_all(r, rc ? &unused : err);
    return rc ? rc : waited;
}

static void threads_abort(struct ctr_comm *c, const char *why)
{
    struct shared *s = ((struct rank *)c)->shared;
    pthread_mutex_lock(&s->lock);
    if (!s->aborted)
        snprintf(s->why, sizeof s->why, "rank %d ended the run: %s", c->rank, why);
    s->aborted = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

static void threads_free(struct ctr_comm *c, bool failed)
{
    struct rank *r = (struct rank *)c;
    struct shared *s = r->shared;
    (void)failed;
    pthread_mutex_lock(&s->lock);
    const bool last = !--s->users;
    pthread_mutex_unlock(&s->lock);
    if (last) {
        pthread_cond_destroy(&s->change);
        pthread_mutex_destroy(&s->lock);
        free((void *)s->out);
        free(s);
    }
    free(r);
}

static const struct ctr_comm_ops threads_ops = {
    .name = "threads", .swap = threads_swap, .abort = threads_abort, .free = threads_free
};

int ctr_comm_threads(struct ctr_comm **list, int n, double limit_s, struct ctr_err *err)
{
    struct shared *s = calloc(1, sizeof *s);
    int made = 0, rc = 0;
    if (!s || !(s->out = calloc((size_t)n, sizeof *s->out))) {
        free(s);
        return ctr_fail_nomem(err, sizeof *s + (size_t)n * sizeof *s->out);
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    s->size = s->users = n;
    s->limit_s = limit_s;
    for (; made < n && !rc; made += !rc) {
        struct rank *r = calloc(1, sizeof *r);
        rc = r ? ctr_comm_init(&r->base, &threads_ops, made, n, err) : ctr_fail_nomem(err, sizeof *r);
        if (rc) {
            free(r);
            break;
        }
        r->shared = s;
        r->base.local = made;
        list[made] = &r->base;
    }
    if (!rc)
        return 0;
    s->users = made + 1; /* this function counts as one, so that only it frees the shared state */
    while (made > 0)
        ctr_comm_free(list[--made]);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    free((void *)s->out);
    free(s);
    return rc;
}
