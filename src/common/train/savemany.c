/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves models that were trained together, with two threads if there are two processors, several models at a time,
 * because their states share cache lines. Each file is written by one thread, so its bytes equal those of a model saved
 * alone. Files are renamed into place after all are written. */
#include <stdlib.h>

#include "common/train/trainer.h"

enum { SAVERS = 2, COMMITTERS = 8 }; /* savers compute, committers wait for the disk */

struct saving {
    struct ctr_trainer *t;
    struct ctr_out *const *out;
    struct ctr_err *err; /* per model */
};

static void save(void *ctx, int64_t task, int worker)
{
    struct saving *s = ctx;
    const struct ctr_variant_ops *variants = s->t->job.model->variant_ops;
    struct ctr_out *out[CTR_SAVE_TOGETHER];
    struct ctr_err *err = &s->err[task];
    int model[CTR_SAVE_TOGETHER] = { (int)task };
    const int n = variants->together ? variants->together(s->t->learner, (int)task, model) : 1;
    (void)worker;
    for (int i = 0; i < n; i++)
        out[i] = s->out[model[i]];
    int rc = n ? ctr_trainer_save_some(s->t, model, n, out, err) : 0;
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_out_flush(out[i], err);
    (void)rc; /* err has it */
}

/* Slow because of the disk and of freeing the pages of the replaced files. */
static void commit(void *ctx, int64_t task, int worker)
{
    struct saving *s = ctx;
    (void)worker;
    int rc = ctr_out_commit(s->out[task], &s->err[task]);
    (void)rc; /* err has it */
}

static int first_error(const struct saving *s, struct ctr_err *err)
{
    for (int i = 0; i < s->t->models; i++)
        if (s->err[i].code) {
            *err = s->err[i];
            return err->code;
        }
    return 0;
}

static int commit_all(struct saving *s, struct ctr_err *err)
{
    struct ctr_pool *pool = NULL;
    int rc = ctr_pool_new(&pool, CTR_MIN(COMMITTERS, s->t->models), CTR_FLOAT_IEEE, err);
    if (!rc) {
        ctr_pool_run(pool, s->t->models, commit, s);
        rc = first_error(s, err);
    }
    ctr_pool_free(pool);
    return rc;
}

int ctr_trainer_save_all(struct ctr_trainer *t, struct ctr_out *const *out, struct ctr_err *err)
{
    const struct ctr_variant_ops *variants = t->job.model->variant_ops;
    struct saving s = { t, out, calloc((size_t)t->models, sizeof *s.err) };
    struct ctr_pool *pool = NULL;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int rc = s.err ? 0 : ctr_fail_nomem(err, (size_t)t->models * sizeof *s.err);
    if (!rc && ctr_cpu_count() > 1)
        rc = ctr_pool_new(&pool, SAVERS, CTR_FLOAT_IEEE, err);
    if (!rc && variants->prepare && t->have_stream)
        rc = variants->prepare(t->learner, pool, err);
    if (!rc) {
        t->sharing_lock = &lock;
        ctr_pool_run(pool, t->models, save, &s);
        t->sharing_lock = NULL;
        rc = first_error(&s, err);
    }
    if (!rc)
        rc = commit_all(&s, err);
    ctr_pool_free(pool);
    free(s.err);
    return rc;
}
