/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack_library: bzip2 and xz. They are optional parts: their headers decide at build time, and their libraries are
 * opened by the first file that needs them, so that a tool starts without them. Streams may follow one another. */
#include "common/text/unpack_impl.h"

#include <stdlib.h>
#ifdef CTR_BZIP2
#include <bzlib.h>
#endif
#ifdef CTR_XZ
#include <lzma.h>
#endif

#if defined CTR_BZIP2 || defined CTR_XZ
static int fail_absent(const char *library, const char *what, const char *package, struct ctr_err *err)
{
    return ctr_fail(err, CTR_ESYS, "is %s data, and the library %s is not there: install %s", what, library, package);
}
#else
static int fail_lacking(const char *what, const char *package, const char *command, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EKIND, "is %s data, which this build lacks (install %s and run make again): %s FILE", what,
                    package, command);
}
#endif

/* ---- bzip2 ---- */

#ifdef CTR_BZIP2
#define BZ(f) ((__typeof__(f) *)ctr_optional("libbz2.so.1.0", #f))

static int bzip2_start(bz_stream *s, struct ctr_err *err)
{
    *s = (bz_stream){ 0 };
    return BZ(BZ2_bzDecompressInit)(s, 0, 0) == BZ_OK ? 0 : ctr_fail_nomem(err, 64 << 10);
}

int ctr_bzip2_open(struct ctr_unpack *u, struct ctr_err *err)
{
    if (!BZ(BZ2_bzDecompressInit))
        return fail_absent("libbz2.so.1.0", "bzip2", "libbz2-1.0", err);
    bz_stream *s = malloc(sizeof *s);
    int rc = s ? bzip2_start(s, err) : ctr_fail_nomem(err, sizeof *s);
    if (rc)
        free(s);
    u->library = rc ? NULL : s;
    return rc;
}

int ctr_bzip2_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    bz_stream *s = u->library;
    if (u->whole) { /* the next stream, if there is one */
        if (!io->n)
            return 0;
        BZ(BZ2_bzDecompressEnd)(s);
        int rc = bzip2_start(s, err);
        if (rc)
            return rc;
        u->whole = false;
    }
    s->next_in = (char *)(uintptr_t)io->in;
    s->avail_in = (unsigned)CTR_MIN(io->n, (size_t)1 << 30);
    s->next_out = (char *)io->out;
    s->avail_out = (unsigned)CTR_MIN(io->room, (size_t)1 << 30);
    const int got = BZ(BZ2_bzDecompress)(s);
    io->used = (size_t)((uint8_t *)s->next_in - io->in);
    io->got = (size_t)((uint8_t *)s->next_out - io->out);
    u->whole = got == BZ_STREAM_END;
    if (got == BZ_MEM_ERROR)
        return ctr_fail_nomem(err, 4 << 20);
    return u->whole || got == BZ_OK ? 0 : ctr_unpack_damaged(u, err);
}

void ctr_bzip2_close(struct ctr_unpack *u)
{
    BZ(BZ2_bzDecompressEnd)(u->library); /* after a failed start it does nothing */
    free(u->library);
}
#else
int ctr_bzip2_open(struct ctr_unpack *u, struct ctr_err *err)
{
    (void)u;
    return fail_lacking("bzip2", "libbz2-dev", "bzip2 -dc", err);
}

int ctr_bzip2_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    (void)io;
    return ctr_unpack_damaged(u, err);
}

void ctr_bzip2_close(struct ctr_unpack *u)
{
    (void)u;
}
#endif

/* ---- xz ---- */

#ifdef CTR_XZ
enum { XZ_MEMORY = 256 << 20 }; /* xz -9 takes 65 MiB */

#define XZ(f) ((__typeof__(f) *)ctr_optional("liblzma.so.5", #f))

static int xz_start(lzma_stream *s, struct ctr_err *err)
{
    const lzma_ret got = XZ(lzma_stream_decoder)(s, XZ_MEMORY, LZMA_TELL_UNSUPPORTED_CHECK);
    return got == LZMA_OK ? 0 : ctr_fail_nomem(err, 64 << 10);
}

int ctr_xz_open(struct ctr_unpack *u, struct ctr_err *err)
{
    if (!XZ(lzma_stream_decoder))
        return fail_absent("liblzma.so.5", "xz", "liblzma5", err);
    lzma_stream *s = malloc(sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    *s = (lzma_stream)LZMA_STREAM_INIT;
    int rc = xz_start(s, err);
    if (rc) {
        XZ(lzma_end)(s);
        free(s);
    }
    u->library = rc ? NULL : s;
    return rc;
}

int ctr_xz_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    lzma_stream *s = u->library;
    while (u->whole && io->used < io->n && !io->in[io->used]) /* padding after a stream */
        io->used++;
    if (u->whole && io->used == io->n)
        return 0;
    if (u->whole) {
        int rc = xz_start(s, err);
        if (rc)
            return rc;
        u->whole = false;
    }
    s->next_in = io->in + io->used;
    s->avail_in = io->n - io->used;
    s->next_out = io->out;
    s->avail_out = io->room;
    const lzma_ret got = XZ(lzma_code)(s, LZMA_RUN);
    io->used = (size_t)(s->next_in - io->in);
    io->got = (size_t)(s->next_out - io->out);
    u->whole = got == LZMA_STREAM_END;
    switch (got) {
    case LZMA_OK:
    case LZMA_STREAM_END:
    case LZMA_BUF_ERROR: return 0; /* the last: no input, or no room */
    case LZMA_MEM_ERROR: return ctr_fail_nomem(err, 1 << 20);
    case LZMA_MEMLIMIT_ERROR:
        return ctr_fail(err, CTR_EDATA, "xz: needs more than %d MiB of memory: xz -dc FILE | ctr-import …",
                        XZ_MEMORY >> 20);
    case LZMA_UNSUPPORTED_CHECK: return ctr_fail(err, CTR_EDATA, "xz: has checksums of a kind that is not known");
    default: return ctr_unpack_damaged(u, err);
    }
}

void ctr_xz_close(struct ctr_unpack *u)
{
    XZ(lzma_end)(u->library);
    free(u->library);
}
#else
int ctr_xz_open(struct ctr_unpack *u, struct ctr_err *err)
{
    (void)u;
    return fail_lacking("xz", "liblzma-dev", "xz -dc", err);
}

int ctr_xz_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    (void)io;
    return ctr_unpack_damaged(u, err);
}

void ctr_xz_close(struct ctr_unpack *u)
{
    (void)u;
}
#endif
