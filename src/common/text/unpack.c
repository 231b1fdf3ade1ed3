/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack: a method is a row of the table: its magic bytes, and its step function. */
#include "common/text/unpack_impl.h"

#include <stdlib.h>
#include <zstd_errors.h>

int ctr_unpack_damaged(const struct ctr_unpack *u, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "%s: damaged", u->method->name);
}

/* ---- gzip ---- */

static int gzip_open(struct ctr_unpack *u, struct ctr_err *err)
{
    return inflateInit2(&u->gzip, 15 + 16) == Z_OK ? 0 : ctr_fail_nomem(err, 64 << 10);
}

/* Several members, and zeros at the end, may follow. */
static int gzip_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    while (u->whole && io->used < io->n && !io->in[io->used])
        io->used++;
    if (io->used == io->n)
        return 0;
    if (u->whole)
        inflateReset(&u->gzip);
    u->whole = false;
    u->gzip.next_in = (Bytef *)io->in + io->used;
    u->gzip.avail_in = (uInt)CTR_MIN(io->n - io->used, (size_t)1 << 30);
    u->gzip.next_out = io->out;
    u->gzip.avail_out = (uInt)CTR_MIN(io->room, (size_t)1 << 30);
    int z = inflate(&u->gzip, Z_NO_FLUSH);
    io->used = (size_t)(u->gzip.next_in - io->in);
    io->got = (size_t)(u->gzip.next_out - io->out);
    u->whole = z == Z_STREAM_END;
    if (z == Z_MEM_ERROR)
        return ctr_fail_nomem(err, 64 << 10);
    return u->whole || z == Z_OK || z == Z_BUF_ERROR ? 0 : ctr_unpack_damaged(u, err);
}

static void gzip_close(struct ctr_unpack *u)
{
    inflateEnd(&u->gzip);
}

/* ---- blocks ---- */

enum { ZSTD_HEADER = 3, LZ4_HEADER = 4 }; /* of a block */

static size_t share(const struct ctr_unpack *u, size_t n)
{
    return u->full ? 0 : CTR_MIN(n, u->next);
}

/* After a step: `hint` is the number of bytes that the frame wants next, including the next block's header; 0: it
 * ended. */
static void stepped(struct ctr_unpack *u, size_t hint, size_t header, const struct ctr_unpack_io *io)
{
    u->whole = hint == 0 || (u->whole && !io->used);
    u->next = hint > header ? hint - header : CTR_MAX(hint, 1);
    u->full = io->got == io->room;
}

/* ---- Zstandard ---- */

static int zstd_open(struct ctr_unpack *u, struct ctr_err *err)
{
    u->next = 1;
    return (u->zstd = ZSTD_createDStream()) ? 0 : ctr_fail_nomem(err, 128 << 10);
}

static int zstd_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    ZSTD_inBuffer from = { io->in, share(u, io->n), 0 };
    ZSTD_outBuffer to = { io->out, io->room, 0 };
    size_t left = ZSTD_decompressStream(u->zstd, &to, &from);
    io->used = from.pos;
    io->got = to.pos;
    if (ZSTD_isError(left)) {
        switch (ZSTD_getErrorCode(left)) {
        case ZSTD_error_memory_allocation: return ctr_fail_nomem(err, 1 << 20);
        case ZSTD_error_frameParameter_windowTooLarge:
            return ctr_fail(err, CTR_EDATA,
                            "zstd: needs a window of more than 128 MiB: zstd -dc --long=31 FILE | ctr-import …");
        default: return ctr_unpack_damaged(u, err);
        }
    }
    stepped(u, left, ZSTD_HEADER, io);
    return 0;
}

static void zstd_close(struct ctr_unpack *u)
{
    ZSTD_freeDStream(u->zstd);
}

/* ---- LZ4 ---- */

static int lz4_open(struct ctr_unpack *u, struct ctr_err *err)
{
    u->next = 1;
    return LZ4F_isError(LZ4F_createDecompressionContext(&u->lz4, LZ4F_VERSION)) ? ctr_fail_nomem(err, 64 << 10) : 0;
}

static int lz4_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    io->used = share(u, io->n);
    io->got = io->room;
    size_t left = LZ4F_decompress(u->lz4, io->out, &io->got, io->in, &io->used, NULL);
    if (LZ4F_isError(left))
        return strstr(LZ4F_getErrorName(left), "allocation") ? ctr_fail_nomem(err, 1 << 20)
                                                             : ctr_unpack_damaged(u, err);
    stepped(u, left, LZ4_HEADER, io);
    return 0;
}

static void lz4_close(struct ctr_unpack *u)
{
    LZ4F_freeDecompressionContext(u->lz4);
}

/* ---- all of them ---- */

static bool begins(const void *p, size_t n, const char *magic, size_t magic_n)
{
    const size_t k = magic_n ? magic_n : strlen(magic);
    bool same = n >= k;
    for (size_t i = 0; same && i < k; i++)
        same = magic[i] == ((const char *)p)[i] || (!magic_n && magic[i] == '?');
    return same;
}

static const struct ctr_unpack_method methods[] = {
    { "gzip", "\x1f\x8b", gzip_open, gzip_step, gzip_close },
    { "zstd", "\x28\xb5\x2f\xfd", zstd_open, zstd_step, zstd_close },
    { "lz4", "\x04\x22\x4d\x18", lz4_open, lz4_step, lz4_close },
    { "bzip2", "BZh?1AY&SY", ctr_bzip2_open, ctr_bzip2_step, ctr_bzip2_close },
    { "bzip2", "BZh?\x17rE8P\x90", ctr_bzip2_open, ctr_bzip2_step, ctr_bzip2_close }, /* of nothing */
    { "xz", "\xfd\x37zXZ", ctr_xz_open, ctr_xz_step, ctr_xz_close },
};

static const struct ctr_unpack_method *find_method(const void *p, size_t n)
{
    for (size_t i = 0; i < CTR_COUNT(methods); i++)
        if (begins(p, n, methods[i].magic, 0))
            return &methods[i];
    return NULL;
}

static const struct {
    const char *magic, *what;
    const char *command; /* gives text; NULL: a command does not */
    size_t n;            /* of the magic, which may contain zeros */
} strangers[] = {
    { "PK\3\4", "is a zip archive; unpack it first", "unzip -p FILE" },
    { "\x1f\x9d", "is packed by compress (.Z); unpack it first", "gzip -dc FILE" },
    { "\x1f\xa0", "is packed by compress (.Z); unpack it first", "gzip -dc FILE" },
    { "\x02\x21\x4c\x18", "is lz4 data in the old form, which has no end mark; unpack it first", "lz4 -dc FILE" },
    { "\xff\xff\xff\xff", "is an Arrow stream already, which every tool reads as it is: ctr-cat FILE", NULL },
    { "ARROW1", "is an Arrow IPC file already, which every tool reads as it is: ctr-cat FILE", NULL },
    { "PAR1", "is Parquet, not text: ctr-import reads it by the name of its file, or with --format parquet", NULL },
    { "\xff\xfe\0\0", "is UTF-32; convert it first", "iconv -f UTF-32 -t UTF-8 FILE", 4 },
    { "\0\0\xfe\xff", "is UTF-32; convert it first", "iconv -f UTF-32 -t UTF-8 FILE", 4 },
    { "\xff\xfe", "is UTF-16; convert it first", "iconv -f UTF-16 -t UTF-8 FILE" },
    { "\xfe\xff", "is UTF-16; convert it first", "iconv -f UTF-16 -t UTF-8 FILE" },
};

/* ---- skippable frames, with which zstd's and lz4's files may begin, such as pzstd's ---- */

static bool is_skippable(const void *p, size_t n)
{
    const uint8_t *x = p;
    return n >= 4 && (x[0] & 0xf0) == 0x50 && x[1] == 0x2a && x[2] == 0x4d && x[3] == 0x18;
}

static int skip_open(struct ctr_unpack *u, struct ctr_err *err)
{
    (void)err;
    u->skip.have = u->skip.left = 0;
    u->whole = true;
    return 0;
}

/* The first frame that is none of these: the method is its own from here on. */
static int skip_ends(struct ctr_unpack *u, struct ctr_err *err)
{
    const struct ctr_unpack_method *m = find_method(u->skip.head, 4);
    uint8_t head[4];
    if (!m || (m->open != zstd_open && m->open != lz4_open))
        return ctr_unpack_damaged(u, err);
    memcpy(head, u->skip.head, sizeof head);
    int rc = m->open(u, err);
    if (rc)
        return rc;
    u->method = m;
    u->whole = false;
    uint8_t none[16]; /* nothing comes of a header */
    struct ctr_unpack_io first = { .in = head, .n = sizeof head, .out = none, .room = sizeof none };
    while (!rc && first.n) {
        first.used = first.got = 0;
        rc = m->step(u, &first, err);
        first.in += first.used;
        first.n -= first.used;
    }
    return rc;
}

static int skip_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    while (io->used < io->n) {
        const size_t pass = CTR_MIN(u->skip.left, io->n - io->used);
        u->skip.left -= pass;
        io->used += pass;
        u->whole = !u->skip.left && !u->skip.have;
        if (u->skip.left || io->used == io->n)
            break;
        u->skip.head[u->skip.have++] = io->in[io->used++];
        u->whole = false;
        if (u->skip.have == 4 && !is_skippable(u->skip.head, 4))
            return skip_ends(u, err);
        if (u->skip.have < sizeof u->skip.head)
            continue;
        for (size_t i = 8; i-- > 4;)
            u->skip.left = u->skip.left << 8 | u->skip.head[i];
        u->skip.have = 0;
        u->whole = !u->skip.left;
    }
    return 0;
}

static void skip_close(struct ctr_unpack *u)
{
    (void)u;
}

static const struct ctr_unpack_method skippable = { "zstd or lz4", "", skip_open, skip_step, skip_close };

int ctr_unpack_open(struct ctr_unpack **out, const void *p, size_t n, struct ctr_err *err)
{
    *out = NULL;
    for (size_t i = 0; i < CTR_COUNT(strangers); i++)
        if (begins(p, n, strangers[i].magic, strangers[i].n))
            return strangers[i].command ? ctr_fail(err, CTR_EKIND, "%s: %s", strangers[i].what, strangers[i].command)
                                        : ctr_fail(err, CTR_EDATA, "%s", strangers[i].what);
    const struct ctr_unpack_method *m = is_skippable(p, n) ? &skippable : find_method(p, n);
    if (!m)
        return 0;
    struct ctr_unpack *u = calloc(1, sizeof *u);
    if (!u)
        return ctr_fail_nomem(err, sizeof *u);
    u->method = m;
    int rc = m->open(u, err);
    if (rc) {
        free(u);
        return rc;
    }
    *out = u;
    return 0;
}

int ctr_unpack_some(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err)
{
    io->used = io->got = 0;
    return u->method->step(u, io, err);
}

int ctr_unpack_end(const struct ctr_unpack *u, struct ctr_err *err)
{
    return u->whole ? 0 : ctr_fail(err, CTR_EDATA, "%s: truncated", u->method->name);
}

void ctr_unpack_free(struct ctr_unpack *u)
{
    if (!u)
        return;
    u->method->close(u);
    free(u);
}
