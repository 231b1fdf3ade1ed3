/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc: an allocator that makes the N-th allocation fail and counts what is not freed. A test that includes this file
 * once wraps what it watches:
 *
 *     for (long n = 1; alloc_arm(n), rc = what(), alloc_disarm(); n++)   until no allocation was left to fail
 *         ok(rc == CTR_ENOMEM && !alloc_live, …)
 *
 * Anonymous mappings are allocations, too, but what is unmapped is not counted. Under AddressSanitizer, which has an
 * allocator of its own, ALLOC_WATCHED is 0. */
#ifndef CTR_TEST_ALLOC_H
#define CTR_TEST_ALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool alloc_armed;
static long alloc_countdown, alloc_live; /* allocations to go; made while armed and not freed since */

static inline void alloc_arm(long n)
{
    alloc_live = 0;
    alloc_countdown = n;
    alloc_armed = true;
}
/* Did an allocation fail? */
static inline bool alloc_disarm(void)
{
    alloc_armed = false;
    return alloc_countdown <= 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define ALLOC_WATCHED 0
#else
#define ALLOC_WATCHED 1

static size_t alloc_at_least; /* smaller ones do not fail, and do not count */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static bool alloc_fails(size_t n)
{
    if (!alloc_armed || n < alloc_at_least || __atomic_sub_fetch(&alloc_countdown, 1, __ATOMIC_RELAXED))
        return false;
    errno = ENOMEM;
    return true;
}
static void *alloc_counted(void *p)
{
    __atomic_add_fetch(&alloc_live, alloc_armed && p, __ATOMIC_RELAXED);
    return p;
}
void *malloc(size_t n)
{
    return alloc_fails(n) ? NULL : alloc_counted(__libc_malloc(n));
}
void *calloc(size_t n, size_t size)
{
    return alloc_fails(n * size) ? NULL : alloc_counted(__libc_calloc(n, size));
}
void *aligned_alloc(size_t align, size_t n)
{
    return alloc_fails(n) ? NULL : alloc_counted(__libc_memalign(align, n));
}
void *realloc(void *p, size_t n)
{
    if (alloc_fails(n))
        return NULL;
    return p ? __libc_realloc(p, n) : alloc_counted(__libc_realloc(NULL, n));
}
void free(void *p)
{
    __atomic_sub_fetch(&alloc_live, alloc_armed && p, __ATOMIC_RELAXED);
    __libc_free(p);
}
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return fd < 0 && alloc_fails(n) ? MAP_FAILED : (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
#endif
#endif
