/* SPDX-License-Identifier: Apache-2.0
 *
 * pushed: an object that consumes and produces batches, such as a join, as a stage over a source. */
#include "common/stream/stream.h"

#include <stdlib.h>

struct pushed {
    struct ctr_batch_source below;
    const struct ctr_push_ops *ops;
    void *object;
    enum { WANTS, HAS, AT_END } state; /* state of the object */
};

static const struct ctr_schema *pushed_schema(const void *source)
{
    const struct pushed *s = source;
    return s->ops->schema(s->object);
}

static void pushed_close(void *source)
{
    struct pushed *s = source;
    s->ops->free(s->object);
    ctr_batch_source_close(&s->below);
    free(s);
}

/* Pass the next batch, or the end of input, to the object. */
static int feed(struct pushed *s, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_batch_source_next(&s->below, &b, err);
    if (rc < 0)
        return rc;
    s->state = rc ? HAS : AT_END;
    return rc ? s->ops->batch(s->object, b, err) : s->ops->finish(s->object, err);
}

static int pushed_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct pushed *s = source;
    for (;;) {
        int rc = s->state == WANTS ? 0 : s->ops->next(s->object, b, err);
        if (rc || s->state == AT_END)
            return rc;
        if ((rc = feed(s, err)))
            return rc;
    }
}

int ctr_batch_source_push(struct ctr_batch_source *s, const struct ctr_push_ops *push, void *object,
                          struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { pushed_schema, pushed_next, NULL, pushed_close, NULL };
    struct pushed *new = malloc(sizeof *new);
    if (!new)
        return ctr_fail_nomem(err, sizeof *new);
    *new = (struct pushed){ .below = *s, .ops = push, .object = object };
    s->ops = &ops;
    s->source = new;
    return 0;
}
