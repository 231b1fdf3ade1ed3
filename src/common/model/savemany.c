/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that learned together are saved by two threads, where there are two processors: one gathers states while the
 * other writes. Each writes whole models, so that their bytes are those of one thread. */
#include <stdlib.h>

#include "common/model/trainer.h"

struct saving {
    struct ctr_trainer *t;
    struct ctr_out *const *out;
    struct ctr_err *err; /* by model */
};

static void save(void *ctx, int64_t model, int worker)
{
    struct saving *s = ctx;
    struct ctr_err *err = &s->err[model];
    (void)worker;
    int rc = ctr_trainer_save(s->t, (int)model, s->out[model], err);
    if (!rc)
        rc = ctr_out_flush(s->out[model], err);
    (void)rc; /* err says it */
}

int ctr_trainer_save_all(struct ctr_trainer *t, struct ctr_out *const *out, struct ctr_err *err)
{
    struct saving s = { t, out, calloc((size_t)t->models, sizeof *s.err) };
    struct ctr_pool *pool = NULL;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int rc = s.err ? 0 : ctr_fail_nomem(err, (size_t)t->models * sizeof *s.err);
    if (!rc && ctr_feed_may_thread())
        rc = ctr_pool_new_exact(&pool, 2, err);
    if (!rc) {
        t->alone = &lock;
        ctr_pool_run(pool, t->models, save, &s);
        t->alone = NULL;
    }
    for (int i = 0; i < t->models && !rc; i++)
        if (s.err[i].code) {
            *err = s.err[i];
            rc = err->code;
        }
    ctr_pool_free(pool);
    free(s.err);
    return rc;
}
