/* SPDX-License-Identifier: Apache-2.0
 *
 * packers: bzip2 and xz of a text, by their libraries, which are opened as src/common/text/unpack_library.c opens them.
 * 0: this build lacks them. */
#ifndef PACKERS_H
#define PACKERS_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#ifdef CTR_BZIP2
#include <bzlib.h>
#endif
#ifdef CTR_XZ
#include <lzma.h>
#endif

static inline size_t pack_with_bzip2(uint8_t *to, size_t room, const void *text, size_t n)
{
#ifdef CTR_BZIP2
    void *lib = dlopen("libbz2.so.1.0", RTLD_NOW);
    unsigned got = (unsigned)room;
    __typeof__(BZ2_bzBuffToBuffCompress) *pack = lib ? dlsym(lib, "BZ2_bzBuffToBuffCompress") : NULL;
    return pack && pack((char *)to, &got, (char *)(uintptr_t)text, (unsigned)n, 1, 0, 0) == BZ_OK ? got : 0;
#else
    (void)to, (void)room, (void)text, (void)n;
    return 0;
#endif
}

static inline size_t pack_with_xz(uint8_t *to, size_t room, const void *text, size_t n)
{
#ifdef CTR_XZ
    void *lib = dlopen("liblzma.so.5", RTLD_NOW);
    size_t got = 0;
    __typeof__(lzma_easy_buffer_encode) *pack = lib ? dlsym(lib, "lzma_easy_buffer_encode") : NULL;
    return pack && pack(1, LZMA_CHECK_CRC64, NULL, text, n, to, &got, room) == LZMA_OK ? got : 0;
#else
    (void)to, (void)room, (void)text, (void)n;
    return 0;
#endif
}

#endif
