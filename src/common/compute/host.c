/* SPDX-License-Identifier: Apache-2.0
 *
 * host: memory of the back ends that compute on the host. Large buffers ask for huge pages: 4 KiB ones cost a matrix
 * product some 6%. */
#include "common/compute/compute_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

int ctr_host_open(struct ctr_dev *dev, const struct ctr_dev_want *want, struct ctr_err *err)
{
    (void)want, (void)err;
    dev->host = true;
    snprintf(dev->title, sizeof dev->title, "%s", dev->ops->name);
    return 0;
}

void ctr_host_close(struct ctr_dev *dev)
{
    ctr_pool_free(dev->pool);
}

int ctr_host_sync(struct ctr_dev *dev, struct ctr_err *err)
{
    (void)dev, (void)err;
    return 0;
}

int ctr_host_mem_new(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err)
{
    const size_t align = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
    size_t room;

    (void)dev;
    *p = NULL;
    if (!__builtin_add_overflow(bytes, CTR_PAD + align - 1, &room))
        *p = aligned_alloc(align, room / align * align);
    if (!*p)
        return ctr_fail_nomem(err, bytes);
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE)
        madvise(*p, room / align * align, MADV_HUGEPAGE); /* a wish: it may be refused */
#endif
    memset(*p, 0, room / align * align);
    return 0;
}

void ctr_host_mem_free(struct ctr_dev *dev, void *p)
{
    (void)dev;
    free(p);
}

int ctr_host_write(struct ctr_dev *dev, void *to, const void *host, size_t bytes, bool later, struct ctr_err *err)
{
    (void)dev, (void)later, (void)err;
    memcpy(to, host, bytes);
    return 0;
}

int ctr_host_read(struct ctr_dev *dev, const void *from, void *host, size_t bytes, struct ctr_err *err)
{
    (void)dev, (void)err;
    memcpy(host, from, bytes);
    return 0;
}

int ctr_host_order(struct ctr_dev *dev, enum ctr_queue first, enum ctr_queue then, struct ctr_err *err)
{
    (void)dev, (void)first, (void)then, (void)err;
    return 0;
}

int64_t ctr_host_memory_free(const struct ctr_dev *dev)
{
    (void)dev;
    return INT64_MAX;
}
