/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of all rows, counted before the first row is learned from: a pass of its own, for learners whose
 * regularisation needs to know how often each key comes. Over ranks each counts its shard, and the learner sums. */
#include "common/compute/comm.h"
#include "common/train/trainer.h"

static int start_feed(struct ctr_trainer *t, const struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_feed_opts o = {
        .source = *s,
        .in = t->in,
        .tile_rows = ctr_trainer_rows_at_once(t),
        .threads = ctr_feed_threads(),
        .stop = t->job.stop,
        .memory_bytes = t->job.memory_bytes,
    };
    return ctr_feed_new(&t->feed, &o, err);
}

/* The next rows, or none once they have *ended, while other ranks have some. */
static int next_rows(struct ctr_trainer *t, struct ctr_rows *rows, bool *ended, bool *all_ended, struct ctr_err *err)
{
    const struct ctr_tile *tile = NULL;
    const int got = *ended ? 0 : ctr_feed_next(t->feed, &tile, err);
    if (got < 0)
        return got;
    *ended = !got;
    *rows = got ? tile->rows : (struct ctr_rows){ .rows = 0 };
    int64_t ranks = *ended;
    const int rc = ctr_comm_sum_i64(t->job.params.comm, &ranks, 1, err);
    *all_ended = ranks == ctr_comm_size(t->job.params.comm);
    return rc;
}

int ctr_trainer_count_keys(struct ctr_trainer *t, const struct ctr_batch_source *s, bool *counted, struct ctr_err *err)
{
    const struct ctr_model *model = t->job.model;
    *counted = false;
    if (t->resumed) /* the checkpoint has the counts */
        return 0;
    struct ctr_rows rows;
    bool ended = false, all_ended = false;
    int rc = start_feed(t, s, err);
    while (!rc && !all_ended) {
        rc = next_rows(t, &rows, &ended, &all_ended, err);
        if (!rc && !all_ended)
            rc = model->count_rows(t->learner, &rows, t->job.memory_bytes, err);
        if (!rc && t->job.stop && *t->job.stop)
            rc = ctr_fail(err, CTR_EDATA, "stopped by a signal before the first row was learned from: start again");
    }
    *counted = !rc;
    return rc ? rc : model->count_rows(t->learner, NULL, 0, err);
}
