/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_codec: unpacks pages (Compression.md), a codec a row of a table. Snappy and Brotli are optional parts: their
 * headers decide at build time, and their libraries are opened by the first page that needs them, so that a program
 * which needs none starts without them (libsnappy brings the C++ library with it). */
#include "common/parquet/parquet_impl.h"

#include <lz4.h>
#include <zlib.h>
#include <zstd.h>
#ifdef CTR_SNAPPY
#include <snappy-c.h>
#endif
#ifdef CTR_BROTLI
#include <brotli/decode.h>
#endif

struct packed {
    const uint8_t *p;
    size_t n, size; /* packed bytes; unpacked bytes, as the page header says */
};

struct codec {
    const char *name;
    int (*unpack)(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err);
    const char *package; /* of a codec that this build lacks */
};

static int damaged(struct ctr_err *err, const char *codec)
{
    return ctr_fail(err, CTR_EDATA, "has damaged %s data: it does not unpack to the size in the page's header", codec);
}

/* Room for what `size` announces, a mebibyte at first and then twice what was made. */
static int grow(struct ctr_buf *out, size_t size, struct ctr_err *err)
{
    return ctr_buf_reserve(out, CTR_MIN(size - out->len, CTR_MAX(out->len, (size_t)1 << 20)), err);
}

/* ---- zlib ---- */

static int unpack_gzip(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    z_stream z = { .next_in = (uint8_t *)(uintptr_t)in->p, .avail_in = (uInt)in->n };
    (void)u;
    if (inflateInit2(&z, 32 + 15) != Z_OK)
        return ctr_fail_nomem(err, 1 << 16);
    int rc = 0, state = Z_OK;
    while (!rc && (state != Z_STREAM_END || z.avail_in)) {
        if (state == Z_STREAM_END) /* members may follow each other */
            inflateReset(&z);
        rc = grow(out, in->size, err);
        if (rc)
            break;
        const size_t room = CTR_MIN(in->size - out->len, out->cap - out->len), before = z.avail_in;
        z.next_out = out->data + out->len;
        z.avail_out = (uInt)room;
        state = inflate(&z, Z_NO_FLUSH);
        out->len += room - z.avail_out;
        if ((state != Z_OK && state != Z_STREAM_END) || (state == Z_OK && z.avail_out == room && z.avail_in == before))
            rc = damaged(err, "gzip");
    }
    inflateEnd(&z);
    return rc || out->len == in->size ? rc : damaged(err, "gzip");
}

/* ---- zstd ---- */

static int unpack_zstd(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    if (!u->zstd && !(u->zstd = ZSTD_createDCtx()))
        return ctr_fail_nomem(err, 128 << 10);
    if (in->size <= (size_t)8 << 20) {
        int rc = ctr_buf_reserve(out, in->size, err);
        if (rc)
            return rc;
        out->len = in->size;
        return ZSTD_decompressDCtx(u->zstd, out->data, in->size, in->p, in->n) == in->size ? 0 : damaged(err, "zstd");
    }
    ZSTD_inBuffer from = { in->p, in->n, 0 };
    size_t left = 1;
    ZSTD_DCtx_reset(u->zstd, ZSTD_reset_session_only);
    for (;;) {
        int rc = grow(out, in->size, err);
        if (rc)
            return rc;
        const size_t pos = from.pos;
        ZSTD_outBuffer to = { out->data + out->len, CTR_MIN(in->size - out->len, out->cap - out->len), 0 };
        left = ZSTD_decompressStream(u->zstd, &to, &from);
        out->len += to.pos;
        if (ZSTD_isError(left) || (!to.pos && from.pos == pos))
            return !ZSTD_isError(left) && out->len == in->size && from.pos == from.size ? 0 : damaged(err, "zstd");
        if (!left && from.pos == from.size)
            return out->len == in->size ? 0 : damaged(err, "zstd");
    }
}

/* ---- LZ4: a block unpacks to 255 times its size at most, plus what the first byte of a run says ---- */

static int unpack_lz4_block(const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    if (in->size / 255 > in->n + 16 || in->size > INT32_MAX || in->n > INT32_MAX)
        return damaged(err, "LZ4");
    int rc = ctr_buf_reserve(out, in->size, err);
    if (rc)
        return rc;
    const int n = LZ4_decompress_safe((const char *)in->p, (char *)out->data + out->len, (int)in->n, (int)in->size);
    if (n < 0 || (size_t)n != in->size)
        return damaged(err, "LZ4");
    out->len += in->size;
    return 0;
}

static int unpack_lz4_raw(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    (void)u;
    return unpack_lz4_block(in, out, err);
}

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Hadoop's framing: unpacked size, then packed size and block, as often as need be. */
static bool hadoop(const struct packed *in, struct ctr_buf *out)
{
    const uint8_t *p = in->p, *end = in->p + in->n;
    struct ctr_err none = { 0 };
    while (end - p >= 8) {
        const size_t size = big32(p), n = big32(p + 4);
        p += 8;
        if (n > (size_t)(end - p) || size > in->size - out->len)
            return false;
        if (unpack_lz4_block(&(struct packed){ p, n, size }, out, &none))
            return false;
        p += n;
    }
    return p == end && out->len == in->size;
}

static int unpack_lz4(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    (void)u;
    if (hadoop(in, out))
        return 0;
    out->len = 0;
    return unpack_lz4_block(in, out, err);
}

/* ---- libraries that are opened when they are needed ---- */

#if defined CTR_SNAPPY || defined CTR_BROTLI
static int fail_absent(const char *library, const char *codec, const char *package, struct ctr_err *err)
{
    return ctr_fail(err, CTR_ESYS, "is compressed with %s, whose library %s is not there: install %s", codec, library,
                    package);
}
#endif

#ifdef CTR_SNAPPY
static int unpack_snappy(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    static const char library[] = "libsnappy.so.1";
    __typeof__(snappy_uncompress) *uncompress = (__typeof__(uncompress))ctr_optional(library, "snappy_uncompress");
    (void)u;
    if (!uncompress)
        return fail_absent(library, "Snappy", "libsnappy1v5", err);
    if (in->size / 64 > in->n) /* three bytes unpack to 64 at most */
        return damaged(err, "Snappy");
    int rc = ctr_buf_reserve(out, in->size, err);
    size_t n = in->size;
    if (rc)
        return rc;
    if (uncompress((const char *)in->p, in->n, (char *)out->data, &n) != SNAPPY_OK || n != in->size)
        return damaged(err, "Snappy");
    out->len = n;
    return 0;
}
#endif

#ifdef CTR_BROTLI
struct brotli {
    __typeof__(BrotliDecoderCreateInstance) *create;
    __typeof__(BrotliDecoderDecompressStream) *step;
    __typeof__(BrotliDecoderDestroyInstance) *destroy;
};

static int brotli_steps(const struct brotli *b, BrotliDecoderState *s, const struct packed *in, struct ctr_buf *out,
                        struct ctr_err *err)
{
    const uint8_t *from = in->p;
    size_t n = in->n;
    for (;;) {
        int rc = grow(out, in->size, err);
        if (rc)
            return rc;
        const size_t room = CTR_MIN(in->size - out->len, out->cap - out->len);
        uint8_t *to = out->data + out->len;
        size_t left = room;
        const BrotliDecoderResult r = b->step(s, &n, &from, &left, &to, NULL);
        out->len += room - left;
        if (r == BROTLI_DECODER_RESULT_SUCCESS)
            return out->len == in->size && !n ? 0 : damaged(err, "Brotli");
        if (r != BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT || out->len == in->size)
            return damaged(err, "Brotli");
    }
}

static int unpack_brotli(struct pq_unpack *u, const struct packed *in, struct ctr_buf *out, struct ctr_err *err)
{
    static const char library[] = "libbrotlidec.so.1";
    const struct brotli b = { (__typeof__(b.create))ctr_optional(library, "BrotliDecoderCreateInstance"),
                              (__typeof__(b.step))ctr_optional(library, "BrotliDecoderDecompressStream"),
                              (__typeof__(b.destroy))ctr_optional(library, "BrotliDecoderDestroyInstance") };
    (void)u;
    if (!b.create || !b.step || !b.destroy)
        return fail_absent(library, "Brotli", "libbrotli1", err);
    BrotliDecoderState *s = b.create(NULL, NULL, NULL);
    if (!s)
        return ctr_fail_nomem(err, 1 << 16);
    int rc = brotli_steps(&b, s, in, out, err);
    b.destroy(s);
    return rc;
}
#endif

/* ---- all of them ---- */

/* By the numbers of parquet.thrift's CompressionCodec. */
static const struct codec codecs[] = {
    [0] = { "UNCOMPRESSED" },
#ifdef CTR_SNAPPY
    [1] = { "SNAPPY", unpack_snappy },
#else
    [1] = { "SNAPPY", NULL, "libsnappy-dev" },
#endif
    [2] = { "GZIP", unpack_gzip },
    [3] = { "LZO" },
#ifdef CTR_BROTLI
    [4] = { "BROTLI", unpack_brotli },
#else
    [4] = { "BROTLI", NULL, "libbrotli-dev" },
#endif
    [5] = { "LZ4", unpack_lz4 },
    [6] = { "ZSTD", unpack_zstd },
    [7] = { "LZ4_RAW", unpack_lz4_raw },
};

int ctr_pq_unpack(struct pq_unpack *u, int codec, const uint8_t *p, size_t n, size_t size, struct ctr_buf *out,
                  struct ctr_err *err)
{
    const struct codec *c = codec > 0 && codec < (int)CTR_COUNT(codecs) ? &codecs[codec] : NULL;
    out->len = 0;
    if (!c)
        return ctr_fail(err, CTR_EDATA, "is compressed with a codec of number %d, which is not known", codec);
    if (!c->unpack && c->package)
        return ctr_fail(err, CTR_EDATA, "is compressed with %s, which this build lacks: install %s and run make again",
                        c->name, c->package);
    if (!c->unpack)
        return ctr_fail(err, CTR_EDATA, "is compressed with %s, which is not read: write it with another codec",
                        c->name);
    const struct packed in = { p, n, size };
    if (!size && !n)
        return ctr_buf_reserve(out, 0, err);
    return c->unpack(u, &in, out, err);
}

void ctr_pq_unpack_free(struct pq_unpack *u)
{
    ZSTD_freeDCtx(u->zstd);
    u->zstd = NULL;
}
