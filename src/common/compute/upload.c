/* SPDX-License-Identifier: Apache-2.0
 *
 * upload: sends data that grow on the host to a device with its own memory, through pinned memory and the copy queue,
 * so that a copy runs while the device computes and the host continues. See compute.h. */
#include "common/compute/compute.h"

/* Reserve `bytes` of pinned memory after the used part; if there is not enough, wait for all copies and start over. */
static int pinned_room(struct ctr_upload *u, struct ctr_dev *dev, size_t bytes, struct ctr_err *err)
{
    u->used = (u->used + CTR_LINE - 1) / CTR_LINE * CTR_LINE;
    if (u->used <= u->bytes && bytes <= u->bytes - u->used)
        return 0;
    int rc = ctr_dev_copied(dev, err);
    const bool small = u->waited; /* it is full although it was empty after the last step */
    u->used = 0;
    u->waited = false;
    if (rc || (bytes <= u->bytes && !small))
        return rc;
    void *p = NULL;
    const size_t room = CTR_MAX(bytes, u->bytes) * 2;
    if ((rc = ctr_host_new(&p, dev, room, err)))
        return rc;
    ctr_host_free(u->pinned, dev);
    u->pinned = p;
    u->bytes = room;
    return 0;
}

int ctr_upload(struct ctr_upload *u, struct ctr_dev *dev, struct ctr_mem **m, const void *host, size_t sent,
               size_t bytes, struct ctr_err *err)
{
    const size_t before = *m ? ctr_mem_bytes(*m) : 0;
    const bool fresh = !*m || bytes > before; /* a larger one is newly allocated */
    int rc = ctr_mem_grow(m, dev, bytes, err);
    sent = fresh ? 0 : sent;
    if (rc || bytes <= sent)
        return rc;
    const char *from = (const char *)host + sent;
    const size_t n = bytes - sent;
    if (ctr_dev_is_host(dev))
        return ctr_mem_write(*m, sent, from, n, err);
    if ((rc = pinned_room(u, dev, n, err)))
        return rc;
    char *to = u->pinned + u->used;
    memcpy(to, from, n);
    u->used += n;
    u->ordered = false;
    return ctr_mem_write_async(*m, sent, to, n, err);
}

int ctr_uploaded(struct ctr_upload *u, struct ctr_dev *dev, struct ctr_err *err)
{
    u->ordered = true;
    return ctr_dev_is_host(dev) ? 0 : ctr_dev_order(dev, CTR_COPY, CTR_COMPUTE, err);
}

void ctr_upload_waited(struct ctr_upload *u)
{
    if (u->ordered)
        u->used = 0;
    u->waited = u->ordered;
}

void ctr_upload_free(struct ctr_upload *u, struct ctr_dev *dev)
{
    if (dev)
        ctr_host_free(u->pinned, dev);
    *u = (struct ctr_upload){ 0 };
}
