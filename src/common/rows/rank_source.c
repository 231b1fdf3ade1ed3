/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_source: ranking as a stage over a source of batches, with a sort before it where requests are scattered. */
#include "common/rows/rank.h"

#include "common/rows/relation.h"

static const struct ctr_schema *schema_of(const void *x)
{
    return ctr_rank_schema(x);
}
static int batch_of(void *x, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_rank_batch(x, b, err);
}
static int finish_of(void *x, struct ctr_err *err)
{
    return ctr_rank_finish(x, err);
}
static int next_of(void *x, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_rank_next(x, b, err);
}
static void free_of(void *x)
{
    ctr_rank_free(x);
}

/* The schema after sorting: dictionaries are decoded. */
static int sorted_fields(struct ctr_schema *to, const struct ctr_schema *from, struct ctr_err *err)
{
    const int rc = ctr_schema_copy(to, from, err);
    for (int i = 0; !rc && i < to->n; i++)
        to->f[i].dict = false;
    return rc;
}

int ctr_rank_source(struct ctr_batch_source *s, const struct ctr_rank_opts *o, bool sorted, int64_t memory_bytes,
                    int threads, struct ctr_rank **stage, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema_of, batch_of, finish_of, next_of, free_of };
    const struct ctr_sort_opts so = { .keys = o->by, .memory_bytes = memory_bytes, .threads = threads };
    const bool sorts = !sorted && o->by && o->by->n;
    struct ctr_schema schema = { 0 };
    struct ctr_rank *rank = NULL;
    struct ctr_sort *sort;
    int rc = sorts ? sorted_fields(&schema, ctr_batch_source_schema(s), err) : 0;

    if (!rc)
        rc = ctr_rank_new(&rank, sorts ? &schema : ctr_batch_source_schema(s), o, err);
    ctr_schema_free(&schema);
    if (!rc && sorts)
        rc = ctr_sort_source(s, &so, &sort, err);
    if (!rc)
        rc = ctr_batch_source_push(s, &ops, rank, err);
    if (rc) {
        ctr_rank_free(rank);
        return rc;
    }
    if (stage)
        *stage = rank;
    return 0;
}
