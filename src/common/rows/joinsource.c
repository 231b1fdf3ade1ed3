/* SPDX-License-Identifier: Apache-2.0
 *
 * joinsource: a join as a stage over a source of batches. */
#include "common/rows/joincore.h"

static const struct ctr_schema *schema(const void *object)
{
    return ctr_join_schema(object);
}

static int batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_join_batch(object, b, err);
}

static int finish(void *object, struct ctr_err *err)
{
    return ctr_join_finish(object, err);
}

static int next(void *object, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_join_next(object, b, err);
}

static void free_object(void *object)
{
    ctr_join_free(object);
}

int ctr_join_source(struct ctr_batch_source *s, struct ctr_join *object, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, batch, finish, next, free_object };
    return object->opts.once ? ctr_join_once_source(s, object, err) : ctr_batch_source_push(s, &ops, object, err);
}
