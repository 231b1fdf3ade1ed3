/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of large tables: address space is reserved ahead without pages, so that a table grows in place; when the
 * reservation is full, its pages are remapped to a larger one (mremap), not copied. Large areas use huge pages, and
 * keep their alignment when they move. Small areas must not all start at huge page boundaries: forty tables of a few
 * KiB would then compete for the same cache sets.
 */
#include "common/table/area.h"

#include <sys/mman.h>

#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; refused by older ones */
#endif
enum { HUGE = 2 << 20, SMALL = 1 << 20, LARGE = 64 << 20, PAGE = 4096 };
enum { FILL = 4 << 20 }; /* bytes processed by the kernel per call */

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
    (void)madvise(p + head, bytes, MADV_HUGEPAGE); /* only advice: results and errors do not depend on it */
    return p + head;
}

/* Start a small area some pages after a multiple of HUGE, determined by its address, so that those of an array are
 * spread evenly. */
static int start(struct ctr_area *a, struct ctr_err *err)
{
    const size_t pages = (uint64_t)(uintptr_t)a * 0x9e3779b97f4a7c15u >> 56, offset = pages * PAGE;
    uint8_t *p = reserve(HUGE);
    if (!p)
        return ctr_fail_nomem(err, HUGE);
    if (offset)
        munmap(p, offset);
    munmap(p + offset + SMALL, HUGE - SMALL - offset);
    *a = (struct ctr_area){ .base = p + offset, .reserved = SMALL };
    return 0;
}

/* Copy the pages of a small area: remapped pages would remain a separate mapping from later ones, and never become huge
 * pages with them. */
static int copy_small(struct ctr_area *a, uint8_t *to)
{
    enum { PART = 64 << 10 };
    if (mprotect(to, a->bytes, PROT_READ | PROT_WRITE))
        return -1;
    for (size_t at = 0; at < a->bytes; at += PART) {
        const size_t n = CTR_MIN(a->bytes - at, PART);
        memcpy(to + at, a->base + at, n);
        munmap(a->base + at, n);
    }
    return 0;
}

static int move(struct ctr_area *a, size_t reserved, struct ctr_err *err)
{
    uint8_t *to = reserve(reserved);
    if (!to)
        return ctr_fail_nomem(err, reserved);
    if (a->reserved == SMALL ? copy_small(a, to)
                             : mremap(a->base, a->bytes, a->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
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
    if (!a->base) {
        int rc = start(a, err);
        if (rc)
            return rc;
    }
    if (bytes > a->reserved) {
        int rc = move(a, CTR_MAX(round_up(bytes * 4, HUGE), LARGE), err); /* generous, so that moves are rare */
        if (rc && (rc = move(a, round_up(bytes + bytes / 4, HUGE), err)))
            return rc;
    }
    if (mprotect(a->base + a->bytes, bytes - a->bytes, PROT_READ | PROT_WRITE))
        return ctr_fail_nomem(err, bytes);
    a->bytes = bytes;
    return 0;
}

int ctr_area_fill(struct ctr_area *a, size_t bytes, struct ctr_err *err)
{
    const size_t before = a->bytes;
    int rc = ctr_area_grow(a, bytes > 2 * HUGE ? round_up(bytes, HUGE) : bytes, err); /* new pages are huge ones */
#ifdef MADV_POPULATE_WRITE
    if (!rc && a->bytes > before && a->bytes - before <= FILL)
        (void)madvise(a->base + before, a->bytes - before, MADV_POPULATE_WRITE); /* only advice */
#else
    (void)before;
#endif
    return rc;
}

int ctr_area_reserve(struct ctr_area *a, size_t bytes, struct ctr_err *err)
{
    if (bytes <= a->bytes)
        return 0;
    const size_t to = bytes + bytes / 8;
    return ctr_area_fill(a, to < SMALL ? to : round_up(bytes, HUGE), err);
}

void ctr_area_ahead(struct ctr_area *a, size_t bytes)
{
    struct ctr_err err;
    bytes = round_up(bytes, HUGE);
    int rc = bytes <= a->reserved ? ctr_area_fill(a, bytes, &err) : 0;
    (void)rc; /* the next allocation reports it */
}

void ctr_area_shrink(struct ctr_area *a, size_t bytes)
{
    bytes = round_up(bytes, PAGE);
    if (bytes < a->bytes && mmap(a->base + bytes, a->bytes - bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
        a->bytes = bytes;
}

void ctr_area_free(struct ctr_area *a)
{
    if (a->reserved)
        munmap(a->base, a->reserved);
    *a = (struct ctr_area){ 0 };
}
