/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-unpack: frames of gzip, Zstandard, LZ4, bzip2 and xz come in pieces of any size and go into rooms of any size;
 * what is cut, damaged, too large or finds no memory is told apart. */
#include "alloc.h"
#include "common/text/unpack.h"
#include "packers.h"
#include "tap.h"

#include <lz4frame.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { TEXT = 300000, PACKED = 400000 };
static uint8_t text[TEXT], made[2 * TEXT + 1];
static struct ctr_err err;

static size_t pack_gzip(uint8_t *to)
{
    z_stream z = { .next_in = text, .avail_in = TEXT, .next_out = to, .avail_out = PACKED };
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        return 0;
    (void)deflateEnd(&z);
    return z.total_out;
}
static size_t pack_zstd(uint8_t *to)
{
    size_t n = ZSTD_compress(to, PACKED, text, TEXT, 1);
    return ZSTD_isError(n) ? 0 : n;
}
static size_t pack_lz4(uint8_t *to)
{
    size_t n = LZ4F_compressFrame(to, PACKED, text, TEXT, NULL);
    return LZ4F_isError(n) ? 0 : n;
}

static size_t pack_bzip2(uint8_t *to)
{
    return pack_with_bzip2(to, PACKED, text, TEXT);
}
static size_t pack_xz(uint8_t *to)
{
    return pack_with_xz(to, PACKED, text, TEXT);
}

static struct packed {
    const char *name;
    size_t head; /* bytes by which it is known */
    size_t (*pack)(uint8_t *to);
    size_t n;
    uint8_t data[PACKED];
} packed[] = { { "gzip", 4, pack_gzip },
               { "zstd", 4, pack_zstd },
               { "lz4", 4, pack_lz4 },
               { "bzip2", 10, pack_bzip2 },
               { "xz", 6, pack_xz } };

/* All of in[0, n) in pieces of `piece` bytes into rooms of `room`: the bytes that came out, or the error. */
static int64_t unpack(const uint8_t *in, size_t n, size_t piece, size_t room)
{
    struct ctr_unpack *u;
    struct ctr_unpack_io io = { 0 };
    size_t at = 0, out = 0;
    err = (struct ctr_err){ 0 };
    int rc = ctr_unpack_open(&u, in, CTR_MIN(n, 10), &err);
    while (!rc && (at < n || io.got == room)) {
        size_t here = CTR_MIN(room, sizeof made - out);
        io = (struct ctr_unpack_io){ in + at, CTR_MIN(piece, n - at), made + out, here, 0, 0 };
        rc = ctr_unpack_some(u, &io, &err);
        at += io.used;
        out += io.got;
        if (!here)
            break;
    }
    if (!rc)
        rc = ctr_unpack_end(u, &err);
    ctr_unpack_free(u);
    return rc ? rc : (int64_t)out;
}

static bool refused(int64_t rc, int code, const char *words)
{
    if (rc != code || !strstr(err.what, words))
        printf("# %lld %s\n", (long long)rc, err.what);
    return rc == code && strstr(err.what, words);
}

static void test_pieces(const struct packed *p)
{
    static const size_t sizes[] = { 1, 7, 4096, PACKED };
    static uint8_t twice[2 * PACKED];
    int wrong = 0;
    for (size_t i = 0; i < CTR_COUNT(sizes); i++)
        for (size_t k = 0; k < CTR_COUNT(sizes); k++)
            wrong += unpack(p->data, p->n, sizes[i], sizes[k]) != TEXT || memcmp(made, text, TEXT) != 0;
    ok(!wrong, "%s: pieces and rooms of any size give the same text", p->name);
    memcpy(twice, p->data, p->n);
    memcpy(twice + p->n, p->data, p->n);
    ok(unpack(twice, 2 * p->n, 1000, 1000) == 2 * TEXT && !memcmp(made + TEXT, text, TEXT), "%s: two frames", p->name);
}

static void test_damage(const struct packed *p)
{
    static uint8_t bad[PACKED];
    ok(refused(unpack(p->data, p->n - 1, 1000, 1000), CTR_EDATA, "truncated"), "%s: cut at its end", p->name);
    ok(refused(unpack(p->data, p->n / 2, PACKED, PACKED), CTR_EDATA, "truncated"), "%s: cut in half", p->name);
    memcpy(bad, p->data, p->n);
    memset(bad + p->head, 0xff, 12);
    ok(refused(unpack(bad, p->n, PACKED, PACKED), CTR_EDATA, "damaged"), "%s: a damaged head", p->name);
    memcpy(bad, p->data, p->n);
    memset(bad + p->n, 'x', 16);
    ok(refused(unpack(bad, p->n + 16, PACKED, sizeof made), CTR_EDATA, "damaged"), "%s: something after it", p->name);
}

/* Zeros after a frame, as tape drives leave them, alone and together with more. */
static void test_zeros(const struct packed *gzip)
{
    static uint8_t padded[2 * PACKED + 1000];
    memcpy(padded, gzip->data, gzip->n);
    memcpy(padded + gzip->n + 500, gzip->data, gzip->n);
    ok(unpack(padded, gzip->n + 500, PACKED, 1000) == TEXT && unpack(padded, gzip->n + 500, 100, 1000) == TEXT,
       "gzip: zeros at its end");
    ok(unpack(padded, 2 * gzip->n + 1000, PACKED, 1000) == 2 * TEXT, "gzip: zeros between");
}

/* A frame that asks for a window of 1 GiB. */
static void test_window(void)
{
    static const uint8_t head[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0, 0 };
    ok(refused(unpack(head, sizeof head, sizeof head, 100), CTR_EDATA, "a window of more than 128 MiB: zstd -dc"),
       "zstd: %s", err.what);
}

/* Only what zlib can count goes to it: the rest comes next. */
static void test_gigabytes(const struct packed *gzip)
{
    const size_t size = (size_t)3 << 30;
    uint8_t *in = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ctr_unpack *u = NULL;
    if (in == MAP_FAILED || out == MAP_FAILED) {
        ok(1, "# SKIP no addresses for 6 GiB");
        return;
    }
    memcpy(in, gzip->data, gzip->n);
    int rc = ctr_unpack_open(&u, in, size, &err);
    struct ctr_unpack_io io = { in, size, out, size, 0, 0 };
    rc = rc ? rc : ctr_unpack_some(u, &io, &err);
    ok(!rc && io.used == gzip->n && io.got == TEXT && !memcmp(out, text, TEXT), "gzip: pieces and rooms of 3 GiB");
    ctr_unpack_free(u);
    munmap(in, size);
    munmap(out, size);
}

/* Where there is no room nothing comes, and nothing is wrong. */
static void test_no_room(const struct packed *p)
{
    struct ctr_unpack *u = NULL;
    uint8_t none[1];
    struct ctr_unpack_io io = { p->data, p->n, none, 0, 0, 0 };
    int rc = ctr_unpack_open(&u, p->data, p->n, &err);
    for (int i = 0; !rc && i < 5; i++, io.in += io.used, io.n -= io.used)
        rc = ctr_unpack_some(u, &io, &err);
    ok(!rc && !io.got && io.n, "%s: no room", p->name);
    ctr_unpack_free(u);
}

/* Frames to skip before zstd or lz4, as pzstd writes them: alone, in pieces, cut, and before what is neither. */
static void test_skippable(const struct packed *p, bool frames)
{
    static const uint8_t head[] = {
        0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4, 0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0
    };
    static uint8_t file[sizeof head + PACKED];
    const size_t n = sizeof head + p->n;
    memcpy(file, head, sizeof head);
    memcpy(file + sizeof head, p->data, p->n);
    if (!frames) {
        ok(refused(unpack(file, n, PACKED, sizeof made), CTR_EDATA, "damaged"), "%s: behind skippable frames", p->name);
        return;
    }
    int wrong = 0;
    for (size_t piece = 1; piece < 40; piece += 3)
        wrong += unpack(file, n, piece, 1000) != TEXT || memcmp(made, text, TEXT) != 0;
    ok(!wrong, "%s: behind skippable frames, in pieces", p->name);
    for (size_t k = 4; k < sizeof head + 4; k++)
        wrong +=
            k == 12 || k == 20 ? unpack(file, k, k, 10) != 0 : !refused(unpack(file, k, k, 10), CTR_EDATA, "truncated");
    ok(!wrong, "%s: cut in the skippable frames", p->name);
}

static void test_open(void)
{
    static const char *const strangers[] = {
        "PK\3\4", "\x1f\x9d", "\x1f\xa0", "\x02\x21\x4c\x18", "\xff\xff\xff\xff",
        "ARROW1", "PAR1",     "\xff\xfe", "\xfe\xff",
    };
    struct ctr_unpack *u;
    size_t told = 0, plain = 0;
    for (size_t i = 0; i < CTR_COUNT(strangers); i++) {
        told += ctr_unpack_open(&u, strangers[i], strlen(strangers[i]), &err) < 0 && !u;
        plain += ctr_unpack_open(&u, strangers[i], strlen(strangers[i]) - 1, &err) == 0 && !u;
    }
    ok(told == CTR_COUNT(strangers) && plain == CTR_COUNT(strangers),
       "what is no text is refused, not when it only begins like it");
    ok(ctr_unpack_open(&u, "", 0, &err) == 0 && !u, "nothing is plain text");
    ctr_unpack_free(NULL);
}

static void test_memory(const struct packed *p)
{
    long n = 1, wrong = 0, leaks = 0;
    for (bool failed = ALLOC_WATCHED; failed; n += failed) {
        alloc_arm(n);
        int64_t rc = unpack(p->data, p->n, 1000, 1000);
        leaks += alloc_live != 0;
        failed = alloc_disarm();
        wrong += rc != (failed ? CTR_ENOMEM : TEXT);
    }
    ok(!wrong && !leaks && (n > 2 || !ALLOC_WATCHED), "%s: %ld allocations failed one by one", p->name, n - 1);
}

int main(void)
{
    for (uint32_t i = 0; i < TEXT; i++) /* letters that repeat, after some that do not */
        text[i] = (uint8_t)('a' + (i < 100000 ? (i * 2654435761u >> 24) % 23 : i / 7 % 11));
    for (size_t i = 0; i < CTR_COUNT(packed); i++) {
        packed[i].n = packed[i].pack(packed[i].data);
        if (!packed[i].n && packed[i].head > 4) {
            ok(1, "# SKIP this build lacks %s", packed[i].name);
            continue;
        }
        ok(packed[i].n > 0, "%s: %zu bytes", packed[i].name, packed[i].n);
        test_pieces(&packed[i]);
        test_damage(&packed[i]);
        test_memory(&packed[i]);
        test_no_room(&packed[i]);
        test_skippable(&packed[i], i == 1 || i == 2);
    }
    test_zeros(&packed[0]);
    test_window();
    test_gigabytes(&packed[0]);
    test_open();
    return done_testing();
}
