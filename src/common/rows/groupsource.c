/* SPDX-License-Identifier: Apache-2.0
 *
 * groupsource: groups as a stage over a source of batches. */
#include "common/rows/relation.h"

static const struct ctr_schema *schema(const void *object)
{
    return ctr_group_schema(object);
}

static int batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_group_batch(object, b, err);
}

static int finish(void *object, struct ctr_err *err)
{
    return ctr_group_finish(object, err);
}

static int next(void *object, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_group_next(object, b, err);
}

static void free_object(void *object)
{
    ctr_group_free(object);
}

int ctr_group_source(struct ctr_batch_source *s, const struct ctr_group_opts *o, struct ctr_group **stage,
                     struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, batch, finish, next, free_object };
    struct ctr_group *g;
    int n, rc = ctr_group_new(&g, ctr_batch_source_schema(s), o, err);
    if (rc)
        return rc;
    const int *inputs = ctr_group_inputs(g, &n);
    rc = ctr_batch_source_project(s, inputs, n, err);
    if (!rc)
        rc = ctr_batch_source_push(s, &ops, g, err);
    if (rc)
        ctr_group_free(g);
    else
        *stage = g;
    return rc;
}
