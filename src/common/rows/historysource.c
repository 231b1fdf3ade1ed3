/* SPDX-License-Identifier: Apache-2.0
 *
 * historysource: histories and counts as a stage over a source of batches. */
#include "common/rows/history.h"

static const struct ctr_schema *schema(const void *object)
{
    return ctr_history_schema(object);
}

static int batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_history_batch(object, b, err);
}

static int finish(void *object, struct ctr_err *err)
{
    return ctr_history_finish(object, err);
}

static int next(void *object, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_history_next(object, b, err);
}

static void free_object(void *object)
{
    ctr_history_free(object);
}

int ctr_history_source(struct ctr_batch_source *s, struct ctr_history *object, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, batch, finish, next, free_object };
    return ctr_batch_source_push(s, &ops, object, err);
}
