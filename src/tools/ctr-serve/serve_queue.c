/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_queue: requests wait for a thread. At most `queue` of them do, beside one a thread that is at work: the next
 * one is refused at once, so that under more load than can be borne those that are answered are answered in time. */
#include "tools/ctr-serve/serve.h"

#include <stdlib.h>

/* The next request; NULL: the end. */
static struct ctr_http_request *next_request(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->first && !s->stopping)
        pthread_cond_wait(&s->some, &s->lock);
    struct ctr_http_request *q = s->stopping ? NULL : s->first;
    if (q) {
        s->first = q->next;
        if (!s->first)
            s->last = &s->first;
    }
    pthread_mutex_unlock(&s->lock);
    return q;
}

static void *work(void *arg)
{
    struct serve *s = arg;
    for (struct ctr_http_request *q; (q = next_request(s));) {
        if (strcmp(q->head.path, "/v1/clicks") != 0)
            serve_score(s, q);
        else
            serve_click(s, q);
        pthread_mutex_lock(&s->lock);
        s->under_way--;
        pthread_mutex_unlock(&s->lock);
        ctr_http_done(s->http, q);
    }
    return NULL;
}

bool serve_too_late(const struct serve *s, struct ctr_http_request *q)
{
    const int64_t ms = q->head.deadline_ms >= 0 ? q->head.deadline_ms : s->deadline_ms ? s->deadline_ms : INT32_MAX;
    const bool late = ctr_clock_ns() - q->arrived_ns > CTR_MIN(ms, (int64_t)INT32_MAX) * 1000000;
    if (late)
        ctr_http_refuse(q, 504, "the deadline of %lld ms passed before work began", (long long)ms);
    return late;
}

bool serve_queue_add(struct serve *s, struct ctr_http_request *q)
{
    pthread_mutex_lock(&s->lock);
    const bool room = s->under_way < s->threads + s->queue;
    if (room) {
        s->under_way++;
        q->next = NULL;
        *s->last = q;
        s->last = &q->next;
        pthread_cond_signal(&s->some);
    }
    pthread_mutex_unlock(&s->lock);
    return room;
}

int serve_queue_start(struct serve *s, struct ctr_err *err)
{
    s->last = &s->first;
    s->thread = calloc((size_t)s->threads, sizeof *s->thread);
    if (!s->thread)
        return ctr_fail_nomem(err, (size_t)s->threads * sizeof *s->thread);
    for (; s->started < s->threads; s->started++)
        if (ctr_thread_start(&s->thread[s->started], work, s))
            return ctr_fail_sys(err, "cannot start a thread");
    return 0;
}

void serve_queue_stop(struct serve *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->some);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->started; i++)
        pthread_join(s->thread[i], NULL);
    free(s->thread);
    s->thread = NULL;
    s->started = 0;
}
