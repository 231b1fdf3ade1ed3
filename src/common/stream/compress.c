/* SPDX-License-Identifier: Apache-2.0
 *
 * compress: buffers of compressed bodies: an int64 with the uncompressed length (-1: stored uncompressed), then a ZSTD
 * or LZ4 frame. Decompression grows its memory with the actual output, so that a wrong length reserves nothing.
 */
#include "common/stream/arrow.h"

#include <lz4frame.h>
#include <zstd.h>

enum { GROW_BYTES = 1 << 20 };

int ctr_ipc_compress(enum ctr_compression how, const void *p, size_t n, struct ctr_buf *out, struct ctr_err *err)
{
    size_t bound = how == CTR_ZSTD ? ZSTD_compressBound(n) : LZ4F_compressFrameBound(n, NULL), k;
    int64_t length = (int64_t)n;
    int rc = ctr_buf_reserve(out, bound + 8 + n, err);
    if (rc < 0)
        return rc;
    uint8_t *to = out->data + out->len;
    if (how == CTR_ZSTD) {
        k = ZSTD_compress(to + 8, bound, p, n, 1);
        if (ZSTD_isError(k))
            return ctr_fail(err, CTR_EDATA, "zstd: %s", ZSTD_getErrorName(k));
    } else {
        k = LZ4F_compressFrame(to + 8, bound, p, n, NULL); /* allocates nothing at this level, and has room */
    }
    if (k >= n) { /* errors of lz4 are also that large */
        length = -1;
        k = n;
        memcpy(to + 8, p, n);
    }
    memcpy(to, &length, 8);
    out->len += 8 + k;
    return 0;
}

static int room(struct ctr_buf *out, int64_t left, struct ctr_err *err)
{
    if (out->cap > out->len)
        return 0;
    size_t more = CTR_MAX((size_t)GROW_BYTES, out->len);
    return ctr_buf_reserve(out, (size_t)CTR_MIN((int64_t)more, CTR_MAX(left, 1)), err);
}

/* Bytes that may be written now. */
static size_t space(const struct ctr_buf *out, int64_t left)
{
    return (size_t)CTR_MIN((int64_t)(out->cap - out->len), left);
}

static int unzstd(const uint8_t *p, size_t n, int64_t length, struct ctr_buf *out, struct ctr_err *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = { p, n, 0 };
    size_t start = out->len, k = 1;
    int rc = 0;
    if (!z)
        return ctr_fail_nomem(err, 1 << 17);
    while (rc == 0 && k != 0) {
        int64_t left = length - (int64_t)(out->len - start);
        if ((rc = room(out, left, err)) < 0)
            break;
        ZSTD_outBuffer o = { out->data + out->len, space(out, left), 0 };
        size_t before = in.pos;
        k = ZSTD_decompressStream(z, &o, &in);
        out->len += o.pos;
        if (ZSTD_isError(k))
            rc = ctr_fail(err, CTR_EDATA, "zstd: %s", ZSTD_getErrorName(k));
        else if (k && !o.pos && in.pos == before)
            rc = ctr_fail(err, CTR_EDATA, "zstd: the data does not end where it should");
    }
    ZSTD_freeDStream(z);
    return rc;
}

static int unlz4(const uint8_t *p, size_t n, int64_t length, struct ctr_buf *out, struct ctr_err *err)
{
    LZ4F_dctx *z = NULL;
    size_t start = out->len, at = 0, hint = 1;
    int rc = 0;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&z, LZ4F_VERSION)))
        return ctr_fail_nomem(err, 1 << 17);
    while (rc == 0 && hint != 0) {
        int64_t left = length - (int64_t)(out->len - start);
        if ((rc = room(out, left, err)) < 0)
            break;
        size_t to = space(out, left), from = n - at;
        hint = LZ4F_decompress(z, out->data + out->len, &to, p + at, &from, NULL);
        if (LZ4F_isError(hint)) {
            rc = ctr_fail(err, CTR_EDATA, "lz4: %s", LZ4F_getErrorName(hint));
            break;
        }
        out->len += to;
        at += from;
        if (hint && !to && !from)
            rc = ctr_fail(err, CTR_EDATA, "lz4: the data does not end where it should");
    }
    LZ4F_freeDecompressionContext(z);
    return rc;
}

int ctr_ipc_decompress(enum ctr_compression how, const uint8_t *p, size_t n, int64_t most, struct ctr_buf *out,
                       struct ctr_err *err)
{
    size_t start = out->len;
    if (n < 8)
        return ctr_fail(err, CTR_EDATA, "a compressed buffer is too short");
    int64_t length = ctr_fb_load64(p);
    if (length == -1)
        return ctr_buf_append(out, p + 8, n - 8, err);
    if (length < 0 || length > most)
        return ctr_fail(err, CTR_EDATA, "a compressed buffer claims %lld bytes, more than fit", (long long)length);
    int rc = how == CTR_ZSTD ? unzstd(p + 8, n - 8, length, out, err) : unlz4(p + 8, n - 8, length, out, err);
    if (rc == 0 && (int64_t)(out->len - start) != length)
        rc = ctr_fail(err, CTR_EDATA, "a compressed buffer has %zu bytes where it claims %lld", out->len - start,
                      (long long)length);
    return rc;
}
