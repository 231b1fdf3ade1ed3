/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of large tables: address space is reserved ahead without pages, so that a table grows in place; when the
 * reservation is used up its pages are moved to a larger one by the page table (mremap), never copied. Large areas ask
 * for huge pages, and keep their alignment when they move.
 */
#include "common/model/sparse.h"

#include <sys/mman.h>

#if defined(__linux__) && !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25 /* Linux 6.1; refused by older ones */
#endif

enum { HUGE = 2 << 20, FIRST = 64 << 20, PAGE = 4096 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Address space of `bytes` (a multiple of HUGE), aligned to HUGE, without access. */
static uint8_t *reserve(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t head = round_up((size_t)p, HUGE) - (size_t)p;
    if (head)
        munmap(p, head);
    munmap(p + head + bytes, HUGE - head);
    (void)madvise(p + head, bytes, MADV_HUGEPAGE); /* advice only: results and errors do not depend on it */
    return p + head;
}

static int move(struct ctr_area *a, size_t reserved, struct ctr_err *err)
{
    uint8_t *to = reserve(reserved);
    if (!to)
        return ctr_fail_nomem(err, reserved);
    if (a->bytes && mremap(a->base, a->bytes, a->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
        munmap(to, reserved);
        return ctr_fail_nomem(err, reserved);
    }
    if (a->reserved > a->bytes)
        munmap(a->base + a->bytes, a->reserved - a->bytes);
    a->base = to;
    a->reserved = reserved;
    return 0;
}

int ctr_area_grow(struct ctr_area *a, size_t bytes, struct ctr_err *err)
{
    if (bytes > SIZE_MAX / 8)
        return ctr_fail_nomem(err, bytes);
    bytes = round_up(bytes, PAGE);
    if (bytes <= a->bytes)
        return 0;
    if (bytes > a->reserved) {
        /* Moved pages stay apart from new ones in the kernel's books, so the first reservation is a generous one. */
        int rc = move(a, CTR_MAX(round_up(bytes * 4, HUGE), FIRST), err);
        if (rc && (rc = move(a, round_up(bytes + bytes / 4, HUGE), err)))
            return rc;
    }
    if (mprotect(a->base + a->bytes, bytes - a->bytes, PROT_READ | PROT_WRITE))
        return ctr_fail_nomem(err, bytes);
    a->bytes = bytes;
    return 0;
}

void ctr_area_settle(struct ctr_area *a)
{
#ifdef MADV_COLLAPSE
    if (a->bytes >= HUGE)
        (void)madvise(a->base, a->bytes / HUGE * HUGE, MADV_COLLAPSE); /* advice too */
#else
    (void)a;
#endif
}

void ctr_area_free(struct ctr_area *a)
{
    if (a->reserved)
        munmap(a->base, a->reserved);
    *a = (struct ctr_area){ 0 };
}
