/* SPDX-License-Identifier: Apache-2.0
 *
 * sortsource: a sort as a stage over a source of batches. */
#include "common/rows/relation.h"

#include <stdlib.h>

struct sorted {
    struct ctr_sort *sort;
    bool finished;
};

static const struct ctr_schema *schema(const void *object)
{
    return ctr_sort_schema(((const struct sorted *)object)->sort);
}

static int batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_sort_batch(((struct sorted *)object)->sort, b, err);
}

static int finish(void *object, struct ctr_err *err)
{
    struct sorted *s = object;
    s->finished = true;
    return ctr_sort_finish(s->sort, err);
}

static int next(void *object, const struct ctr_batch **b, struct ctr_err *err)
{
    struct sorted *s = object;
    return s->finished ? ctr_sort_next(s->sort, b, err) : 0;
}

static void free_object(void *object)
{
    struct sorted *s = object;
    ctr_sort_free(s->sort);
    free(s);
}

int ctr_sort_source(struct ctr_batch_source *s, const struct ctr_sort_opts *o, struct ctr_sort **stage,
                    struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, batch, finish, next, free_object };
    struct sorted *new = calloc(1, sizeof *new);
    int rc = new ? ctr_sort_new(&new->sort, ctr_batch_source_schema(s), o, err) : ctr_fail_nomem(err, sizeof *new);
    if (!rc)
        rc = ctr_batch_source_push(s, &ops, new, err);
    if (rc && new)
        free_object(new);
    if (!rc)
        *stage = new->sort;
    return rc;
}
