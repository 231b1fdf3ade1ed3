/* SPDX-License-Identifier: Apache-2.0
 *
 * host: memory of the back ends that run on the host. Large buffers request huge pages: with pages of 4 KiB a matrix
 * product takes about 6% longer. */
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

/* Large buffers are mappings: they are zero without being written, so the threads that use a page are the first to
 * touch it. A header before the bytes has the start and length of the mapping. */
struct mapping {
    void *base;
    size_t bytes;
};
enum { HEAD = 64 };
_Static_assert(sizeof(struct mapping) <= HEAD, "the head of a mapping fits before the bytes");

static struct mapping *head_of(void *p)
{
    return (struct mapping *)(void *)((char *)p - HEAD);
}

int ctr_host_mem_new(struct ctr_dev *dev, void **p, size_t bytes, struct ctr_err *err)
{
    const size_t align = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : HEAD;
    size_t room;

    (void)dev;
    *p = NULL;
    if (__builtin_add_overflow(bytes, CTR_PAD + HEAD + 2 * align, &room))
        return ctr_fail_nomem(err, bytes);
    char *base = align == HUGE_PAGE ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                    : calloc(1, room);
    if (!base || base == MAP_FAILED)
        return ctr_fail_nomem(err, bytes);
    *p = base + HEAD + (align - (size_t)((uintptr_t)base + HEAD) % align) % align;
    *head_of(*p) = (struct mapping){ base, align == HUGE_PAGE ? room : 0 };
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE)
        madvise(*p, room - (size_t)((char *)*p - base), MADV_HUGEPAGE); /* only advice */
#endif
    return 0;
}

void ctr_host_mem_free(struct ctr_dev *dev, void *p)
{
    (void)dev;
    if (!p)
        return;
    const struct mapping m = *head_of(p);
    if (m.bytes)
        munmap(m.base, m.bytes);
    else
        free(m.base);
}

int ctr_host_write(struct ctr_dev *dev, void *to, const void *host, size_t bytes, bool later, struct ctr_err *err)
{
    (void)dev, (void)later, (void)err;
    memcpy(to, host, bytes);
    return 0;
}

int ctr_host_read(struct ctr_dev *dev, const void *from, void *host, size_t bytes, bool later, struct ctr_err *err)
{
    (void)dev, (void)later, (void)err;
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
