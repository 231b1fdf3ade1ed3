/* SPDX-License-Identifier: Apache-2.0
 *
 * joinsource: a join as a stage over the source of its left rows. */
#include "common/relation/relation.h"

#include <stdlib.h>

struct joined {
    struct ctr_batch_source left;
    struct ctr_join *join;
    enum { WANTS_LEFT, HAS_LEFT, AT_END } state; /* what the join was handed last */
};

static const struct ctr_schema *joined_schema(const void *source)
{
    return ctr_join_schema(((const struct joined *)source)->join);
}

static const char *joined_name(const void *source)
{
    return ctr_batch_source_name(&((const struct joined *)source)->left);
}

static void joined_close(void *source)
{
    struct joined *s = source;
    ctr_join_free(s->join);
    ctr_batch_source_close(&s->left);
    free(s);
}

/* The next left batch, or that there is none, to the join. */
static int feed(struct joined *s, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_batch_source_next(&s->left, &b, err);
    if (rc < 0)
        return rc;
    s->state = rc ? HAS_LEFT : AT_END;
    return rc ? ctr_join_batch(s->join, b, err) : ctr_join_finish(s->join, err);
}

static int joined_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct joined *s = source;
    for (;;) {
        int rc = s->state == WANTS_LEFT ? 0 : ctr_join_next(s->join, b, err);
        if (rc || s->state == AT_END)
            return rc;
        if ((rc = feed(s, err)))
            return rc;
    }
}

int ctr_join_source(struct ctr_batch_source *s, struct ctr_join *j, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { joined_schema, joined_next, joined_name, joined_close, NULL };
    struct joined *new = malloc(sizeof *new);
    if (!new)
        return ctr_fail_nomem(err, sizeof *new);
    *new = (struct joined){ .left = *s, .join = j };
    *s = (struct ctr_batch_source){ &ops, new };
    return 0;
}
