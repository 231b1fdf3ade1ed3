/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of tables in ascending order, sorted on a thread one range ahead of the one that is looked at. */
#include <pthread.h>
#include <stdlib.h>

#include "common/lr/lr.h"

struct ctr_lr_sorter {
    const struct ctr_keys **table;
    int tables;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Between both threads; full: the visitor's. */
    bool full, quit;
    struct ctr_buf range; /* struct ctr_sparse_numbered; none: the table ends */
    int rc;
    struct ctr_err err;
};

static int hand_over(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct ctr_lr_sorter *s = ctx;
    pthread_mutex_lock(&s->lock);
    while (s->full && !s->quit)
        pthread_cond_wait(&s->changed, &s->lock);
    ctr_buf_clear(&s->range);
    int rc = s->quit ? CTR_EDATA : n ? ctr_buf_append(&s->range, e, n * sizeof *e, err) : 0;
    s->full = !rc;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* A range may be empty, of keys that were found and not met; that is not the end. */
static int hand_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err)
{
    return n ? hand_over(ctx, e, n, err) : 0;
}

static void *sort_tables(void *arg)
{
    struct ctr_lr_sorter *s = arg;
    struct ctr_err err = { 0 };
    int rc = 0;
    for (int i = 0; i < s->tables && !rc; i++)
        if (!(rc = ctr_keys_sorted(s->table[i], hand_range, s, &err)))
            rc = hand_over(s, NULL, 0, &err);
    pthread_mutex_lock(&s->lock);
    s->rc = rc;
    s->err = err;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct ctr_lr_sorter *ctr_lr_sorter_new(const struct ctr_keys **table, int tables)
{
    struct ctr_lr_sorter *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->table = table;
    s->tables = tables;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (!ctr_thread_start(&s->thread, sort_tables, s))
        return s;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

int ctr_lr_sorter_table(struct ctr_lr_sorter *s, ctr_sparse_range *range, void *ctx, struct ctr_err *err)
{
    int rc = 0;
    for (uint64_t n = 1; n && !rc;) {
        pthread_mutex_lock(&s->lock);
        while (!s->full && !s->rc)
            pthread_cond_wait(&s->changed, &s->lock);
        if (!s->full) {
            rc = s->rc;
            *err = s->err;
        }
        pthread_mutex_unlock(&s->lock);
        n = s->range.len / sizeof(struct ctr_sparse_numbered);
        if (!rc && n)
            rc = range(ctx, (struct ctr_sparse_numbered *)(void *)s->range.data, n, err);
        pthread_mutex_lock(&s->lock);
        s->full = false;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return rc;
}

void ctr_lr_sorter_free(struct ctr_lr_sorter *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    ctr_buf_free(&s->range);
    free(s);
}
