/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the stack of sources for a deep model's tables from its options and its device. See deep.h and
 * table/source.h. */
#include "common/deep/deep.h"

static bool spills(const struct ctr_deep *d)
{
    return d->learns && d->p.spill;
}

/* Make the source that stores the rows of the tables. */
static int make_store(const struct ctr_deep_tables *all, struct ctr_deep *d, struct ctr_err *err)
{
    int rc;
    if (spills(d)) /* no error of the input, whose name would stand before it */
        ctr_err_file(err, "--spill");
    if (d->learns && d->p.prefetch && !d->p.spill && !d->p.comm && !d->images)
        rc = ctr_fail(err, CTR_EUSAGE, "--prefetch goes with --spill, --images, or with ranks (mpirun)");
    else if (spills(d) && !d->p.memory_bytes)
        rc = ctr_fail(err, CTR_EUSAGE, "needs --memory: what the rows in memory may take");
    else if (spills(d))
        rc = ctr_source_disk(&d->vectors.store, d->dev, d->width, d->u_cols, all->floats, d->p.spill, d->p.memory_bytes,
                             err);
    else
        rc = ctr_source_ram(&d->vectors.store, d->dev, d->width, d->u_cols, err);
    if (!rc && spills(d))
        err->file[0] = 0;
    d->vectors.source = rc ? NULL : d->vectors.store;
    return rc;
}

/* Add a cache if the device has its own memory. */
static int make_cache(struct ctr_deep *d, struct ctr_err *err)
{
    if (ctr_dev_is_host(d->dev))
        return 0;
    int rc = ctr_source_cache(&d->vectors.source, d->dev, d->vectors.source, err);
    if (rc)
        d->vectors.source = d->vectors.store = NULL; /* the source below is freed, too */
    return rc;
}

int ctr_deep_source_bind(struct ctr_deep_tables *all, struct ctr_deep *d, struct ctr_err *err)
{
    int rc = 0;
    if (!d->vectors.source) {
        rc = make_store(all, d, err);
        if (!rc)
            rc = make_cache(d, err);
        if (!rc)
            rc = ctr_deep_ranks_source(d, all, err);
    }
    for (int t = 0; t < all->n && !rc; t++)
        rc = spills(d) ? ctr_source_disk_bind(d->vectors.store, t, &all->t[t].rows, err)
                       : ctr_source_ram_bind(d->vectors.store, t, &all->t[t].rows, err);
    return rc;
}

int64_t ctr_deep_source_rows(const struct ctr_deep *d, int table)
{
    return d->vectors.source ? ctr_source_rows(d->vectors.source, table) : 0;
}

int64_t ctr_deep_source_memory(const struct ctr_deep *d)
{
    return d->vectors.source ? ctr_source_memory(d->vectors.source) : 0;
}

int ctr_deep_source_settle(struct ctr_deep *d, struct ctr_err *err)
{
    return d->vectors.source ? ctr_source_settle(d->vectors.source, err) : 0;
}
