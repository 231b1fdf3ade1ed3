/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_pack: the inverse of parquet_thrift.c, parquet_bits.c and parquet_codec.c. */
#include "common/parquet/parquet_pack.h"

#include <zstd.h>
#ifdef CTR_SNAPPY
#include <snappy-c.h>
#endif

/* ---- Thrift's compact protocol ---- */

static void put(struct pq_put *t, const void *p, size_t n)
{
    if (!t->rc)
        t->rc = ctr_buf_append(t->b, p, n, t->err);
}

static int varint(uint8_t *out, uint64_t v)
{
    int n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

static uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static void put_varint(struct pq_put *t, uint64_t v)
{
    uint8_t b[10];
    put(t, b, (size_t)varint(b, v));
}

static void put_head(struct pq_put *t, int field, int wire)
{
    const int delta = field - t->last[t->depth];
    const uint8_t head = (uint8_t)((delta > 0 && delta < 16 ? delta << 4 : 0) | wire);
    put(t, &head, 1);
    if (!(head >> 4))
        put_varint(t, zigzag(field));
    t->last[t->depth] = field;
}

void ctr_pq_put_number(struct pq_put *t, int64_t v)
{
    put_varint(t, zigzag(v));
}

void ctr_pq_put_i8(struct pq_put *t, int field, int v)
{
    put_head(t, field, PQ_I8);
    put(t, &(uint8_t){ (uint8_t)v }, 1);
}

void ctr_pq_put_i16(struct pq_put *t, int field, int v)
{
    put_head(t, field, PQ_I16);
    ctr_pq_put_number(t, v);
}

void ctr_pq_put_i32(struct pq_put *t, int field, int64_t v)
{
    put_head(t, field, PQ_I32);
    ctr_pq_put_number(t, v);
}

void ctr_pq_put_i64(struct pq_put *t, int field, int64_t v)
{
    put_head(t, field, PQ_I64);
    ctr_pq_put_number(t, v);
}

void ctr_pq_put_bool(struct pq_put *t, int field, bool v)
{
    put_head(t, field, v ? PQ_TRUE : PQ_FALSE);
}

void ctr_pq_put_flag(struct pq_put *t, bool v)
{
    put(t, &(uint8_t){ v ? PQ_TRUE : PQ_FALSE }, 1);
}

void ctr_pq_put_bytes(struct pq_put *t, const void *p, size_t n)
{
    put_varint(t, n);
    put(t, p, n);
}

void ctr_pq_put_binary(struct pq_put *t, int field, const void *p, size_t n)
{
    put_head(t, field, PQ_BINARY);
    ctr_pq_put_bytes(t, p, n);
}

void ctr_pq_put_text(struct pq_put *t, int field, const char *s)
{
    ctr_pq_put_binary(t, field, s, strlen(s));
}

void ctr_pq_put_element(struct pq_put *t)
{
    t->last[++t->depth] = 0;
}

void ctr_pq_put_struct(struct pq_put *t, int field)
{
    put_head(t, field, PQ_STRUCT);
    ctr_pq_put_element(t);
}

void ctr_pq_put_end(struct pq_put *t)
{
    put(t, "", 1);
    t->depth--;
}

void ctr_pq_put_list(struct pq_put *t, int field, enum pq_wire element, int64_t n)
{
    put_head(t, field, PQ_LIST);
    put(t, &(uint8_t){ (uint8_t)((n < 15 ? n << 4 : 0xf0) | (int)element) }, 1);
    if (n >= 15)
        put_varint(t, (uint64_t)n);
}

/* ---- numbers ---- */

/* n numbers of `width` bits, n a multiple of 8, the least significant bit first. */
static int pack_bits(struct ctr_buf *b, const uint64_t *v, int64_t n, int width, struct ctr_err *err)
{
    int rc = 0;
    uint8_t *out = ctr_buf_extend(b, n / 8 * width, 1, &rc, err);
    unsigned __int128 held = 0;
    int bits = 0;
    for (int64_t i = 0; !rc && i < n; i++) {
        held |= (unsigned __int128)v[i] << bits;
        for (bits += width; bits >= 8; bits -= 8, held >>= 8)
            *out++ = (uint8_t)held;
    }
    return rc;
}

/* Runs of at least 8 equal numbers are stored once; what lies between is packed in groups of 8. */
int ctr_pq_pack_hybrid(struct ctr_buf *b, const int32_t *v, int64_t n, int width, struct ctr_err *err)
{
    enum { MOST = 504 }; /* packed at a time: their count takes a byte */
    uint64_t held[MOST];
    uint8_t head[10];
    int64_t at = 0;
    int rc = 0;
    while (!rc && at < n) {
        int64_t run = 1, packed = 0;
        while (at + run < n && v[at + run] == v[at])
            run++;
        if (run >= 8) {
            rc = ctr_buf_append(b, head, (size_t)varint(head, (uint64_t)run << 1), err);
            if (!rc)
                rc = ctr_buf_append(b, &v[at], (size_t)(width + 7) / 8, err); /* little-endian */
            at += run;
            continue;
        }
        /* Pack groups of 8 until a run begins at the start of one. */
        while (packed < MOST && at < n) {
            int64_t same = 1;
            while (same < 8 && at + same < n && v[at + same] == v[at])
                same++;
            if (packed && same == 8)
                break;
            for (int k = 0; k < 8; k++, at++)
                held[packed++] = at < n ? (uint32_t)v[at] : 0;
        }
        at = CTR_MIN(at, n);
        rc = ctr_buf_append(b, head, (size_t)varint(head, (uint64_t)(packed / 8) << 1 | 1), err);
        if (!rc)
            rc = pack_bits(b, held, packed, width, err);
    }
    return rc;
}

enum { BLOCK = 128, MINI = 32, MINIS = BLOCK / MINI };

static int pack_block(struct ctr_buf *b, const int64_t *v, int64_t n, bool is32, int64_t before, struct ctr_err *err)
{
    uint64_t d[BLOCK] = { 0 };
    uint8_t head[10 + MINIS];
    int64_t least = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t delta = (uint64_t)v[i] - (uint64_t)(i ? v[i - 1] : before);
        d[i] = is32 ? (uint64_t)(int64_t)(int32_t)(uint32_t)delta : delta;
        least = i ? CTR_MIN(least, (int64_t)d[i]) : (int64_t)d[i];
    }
    int at = varint(head, zigzag(least)), rc;
    for (int m = 0; m < MINIS; m++) {
        uint64_t any = 0;
        for (int64_t i = m * MINI; i < CTR_MIN(n, (int64_t)(m + 1) * MINI); i++) {
            d[i] -= (uint64_t)least;
            d[i] = is32 ? (uint32_t)d[i] : d[i];
            any |= d[i];
        }
        head[at + m] = (uint8_t)(any ? 64 - __builtin_clzll(any) : 0);
    }
    rc = ctr_buf_append(b, head, (size_t)at + MINIS, err);
    for (int m = 0; !rc && m < MINIS && m * MINI < n; m++)
        rc = pack_bits(b, d + (ptrdiff_t)m * MINI, MINI, head[at + m], err);
    return rc;
}

int ctr_pq_pack_delta(struct ctr_buf *b, const int64_t *v, int64_t n, bool is32, struct ctr_err *err)
{
    uint8_t head[40];
    int at = varint(head, BLOCK);
    at += varint(head + at, MINIS);
    at += varint(head + at, (uint64_t)n);
    at += varint(head + at, n ? zigzag(v[0]) : 0);
    int rc = ctr_buf_append(b, head, (size_t)at, err);
    for (int64_t i = 1; !rc && i < n; i += BLOCK)
        rc = pack_block(b, v + i, CTR_MIN(n - i, (int64_t)BLOCK), is32, v[i - 1], err);
    return rc;
}

/* ---- codecs ---- */

static const struct {
    const char *name;
    int number;
} codecs[] = { { "zstd", PQ_CODEC_ZSTD }, { "snappy", PQ_CODEC_SNAPPY }, { "none", PQ_CODEC_NONE } };

static bool has_codec(int codec)
{
#ifdef CTR_SNAPPY
    (void)codec;
    return true;
#else
    return codec != PQ_CODEC_SNAPPY;
#endif
}

int ctr_pq_codec_find(const char *name, struct ctr_err *err)
{
    for (size_t i = 0; i < CTR_COUNT(codecs); i++)
        if (!strcmp(name, codecs[i].name))
            return has_codec(codecs[i].number)
                       ? codecs[i].number
                       : ctr_fail(err, CTR_EUSAGE,
                                  "this build lacks %s: install libsnappy-dev and run make again, or take zstd", name);
    return ctr_fail(err, CTR_EUSAGE, "there is no codec %s: zstd, snappy or none", name);
}

static int pack_zstd(void **state, const void *p, size_t n, struct ctr_buf *out, struct ctr_err *err)
{
    enum { LEVEL = 3 };
    int rc = ctr_buf_reserve(out, ZSTD_compressBound(n), err);
    if (!rc && !*state && !(*state = ZSTD_createCCtx()))
        rc = ctr_fail_nomem(err, 1 << 20);
    if (rc)
        return rc;
    const size_t size = ZSTD_compressCCtx(*state, out->data + out->len, out->cap - out->len, p, n, LEVEL);
    if (ZSTD_isError(size))
        return ctr_fail(err, CTR_ESYS, "zstd: %s", ZSTD_getErrorName(size));
    out->len += size;
    return 0;
}

#ifdef CTR_SNAPPY
static int pack_snappy(const void *p, size_t n, struct ctr_buf *out, struct ctr_err *err)
{
    __typeof__(snappy_compress) *compress = (__typeof__(compress))ctr_optional("libsnappy.so.1", "snappy_compress");
    if (!compress)
        return ctr_fail(err, CTR_ESYS, "libsnappy.so.1, which packs with Snappy, is not there: install libsnappy1v5");
    size_t size = 32 + n + n / 6; /* snappy_max_compressed_length */
    int rc = ctr_buf_reserve(out, size, err);
    if (rc)
        return rc;
    if (compress(p, n, (char *)out->data + out->len, &size) != SNAPPY_OK)
        return ctr_fail(err, CTR_ESYS, "Snappy cannot pack %zu bytes", n);
    out->len += size;
    return 0;
}
#endif

int ctr_pq_pack(void **state, int codec, const void *p, size_t n, struct ctr_buf *out, struct ctr_err *err)
{
    if (codec == PQ_CODEC_ZSTD)
        return pack_zstd(state, p, n, out, err);
    if (codec == PQ_CODEC_NONE)
        return ctr_buf_append(out, p, n, err);
#ifdef CTR_SNAPPY
    return pack_snappy(p, n, out, err);
#else
    return ctr_fail(err, CTR_EUSAGE, "there is no codec of number %d", codec);
#endif
}

void ctr_pq_pack_free(void *state)
{
    ZSTD_freeCCtx(state);
}
