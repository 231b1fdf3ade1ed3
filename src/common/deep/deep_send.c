/* SPDX-License-Identifier: Apache-2.0
 *
 * What a minibatch sends to a device with memory of its own: through pinned memory and the copying queue, so that a
 * copy runs while the device computes and the host goes on. See deep.h. */
#include <stdlib.h>

#include "common/deep/deep.h"

/* Room for `bytes` of pinned memory behind what is used; where it does not suffice, from its start, when all of it is
 * copied. */
static int pinned_room(struct ctr_deep *d, size_t bytes, struct ctr_err *err)
{
    d->batch.pinned_used = (d->batch.pinned_used + CTR_LINE - 1) / CTR_LINE * CTR_LINE;
    if (d->batch.pinned_used <= d->batch.pinned_bytes && bytes <= d->batch.pinned_bytes - d->batch.pinned_used)
        return 0;
    int rc = ctr_dev_copied(d->dev, err);
    d->batch.pinned_used = 0;
    if (rc || bytes <= d->batch.pinned_bytes)
        return rc;
    void *p = NULL;
    const size_t room = CTR_MAX(bytes, d->batch.pinned_bytes) * 2;
    if ((rc = ctr_host_new(&p, d->dev, room, err)))
        return rc;
    ctr_host_free(d->batch.pinned, d->dev);
    d->batch.pinned = p;
    d->batch.pinned_bytes = room;
    return 0;
}

int ctr_deep_send(struct ctr_deep *d, struct ctr_mem **m, const void *host, size_t sent, size_t bytes,
                  struct ctr_err *err)
{
    const size_t before = *m ? ctr_mem_bytes(*m) : 0;
    const bool fresh = !*m || bytes > before; /* a larger one is a new one */
    int rc = ctr_mem_grow(m, d->dev, bytes, err);
    sent = fresh ? 0 : sent;
    if (rc || bytes <= sent)
        return rc;
    const char *from = (const char *)host + sent;
    const size_t n = bytes - sent;
    if (ctr_dev_is_host(d->dev))
        return ctr_mem_write(*m, sent, from, n, err);
    if ((rc = pinned_room(d, n, err)))
        return rc;
    char *to = d->batch.pinned + d->batch.pinned_used;
    memcpy(to, from, n);
    d->batch.pinned_used += n;
    return ctr_mem_write_async(*m, sent, to, n, err);
}

int ctr_deep_sent(struct ctr_deep *d, struct ctr_err *err)
{
    return ctr_dev_is_host(d->dev) ? 0 : ctr_dev_order(d->dev, CTR_COPY, CTR_COMPUTE, err);
}
