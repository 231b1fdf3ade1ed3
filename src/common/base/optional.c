/* SPDX-License-Identifier: Apache-2.0
 *
 * optional: functions of codecs' libraries, by name. A tool starts without these libraries and opens one when a file
 * first needs it. A program that has them linked in (the wheel's, make static) has other values than NULL at these weak
 * names. */
#include "common/base/base.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

#define EACH(F)                                                                                                        \
    F(snappy_compress)                                                                                                 \
    F(snappy_uncompress)                                                                                               \
    F(BrotliDecoderCreateInstance)                                                                                     \
    F(BrotliDecoderDecompressStream)                                                                                   \
    F(BrotliDecoderDestroyInstance)                                                                                    \
    F(BZ2_bzDecompressInit)                                                                                            \
    F(BZ2_bzDecompress)                                                                                                \
    F(BZ2_bzDecompressEnd)                                                                                             \
    F(lzma_stream_decoder) F(lzma_code) F(lzma_end) F(utf8proc_map)
#define DECLARE(name) extern void name(void) __attribute__((weak));
EACH(DECLARE)

#define ENTRY(name) { #name, (void (*)(void))name },
static struct {
    const char *name;
    void (*at)(void); /* set once found */
} functions[] = { EACH(ENTRY) };

void *ctr_library(const char *path, bool global, const char **why)
{
    /* A static program, which has no loader, would get a second C library with it. */
    const bool can = getauxval(AT_BASE) != 0;
    void *handle = can ? dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL)) : NULL;
    *why = handle ? NULL : can ? dlerror() : "this program is static, and opens no other";
    return handle;
}

void (*ctr_optional(const char *library, const char *name))(void)
{
    size_t i = 0;
    while (strcmp(functions[i].name, name)) /* callers name what is listed above */
        i++;
    void (*at)(void) = __atomic_load_n(&functions[i].at, __ATOMIC_ACQUIRE);
    const char *why;
    void *handle = at ? NULL : ctr_library(library, false, &why);
    if (handle && (*(void **)&at = dlsym(handle, name)))
        __atomic_store_n(&functions[i].at, at, __ATOMIC_RELEASE);
    return at;
}
