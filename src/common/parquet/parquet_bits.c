/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_bits: packed numbers (Encodings.md): the hybrid of runs and bit-packing, the deprecated bit-packing of
 * levels, and DELTA_BINARY_PACKED. They give values bit by bit as they are asked for, so that a run of 2^31 values
 * needs no memory. */
#include "common/parquet/parquet_impl.h"

static uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ULEB128; false: it does not end before `end`, or has more than 64 bits. */
static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        const uint8_t byte = *(*p)++;
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* ---- hybrid ---- */

bool ctr_pq_hybrid_start(struct pq_hybrid *h, const uint8_t *p, const uint8_t *end, int width)
{
    *h = (struct pq_hybrid){ .p = p, .end = end, .width = width };
    return width >= 0 && width <= 32;
}

static bool next_run(struct pq_hybrid *h)
{
    uint64_t head;
    if (h->at) { /* past the packed values that were taken */
        h->p += (h->at * h->width + 7) / 8;
        h->at = 0;
    }
    if (!varint(&h->p, h->end, &head) || head >> 1 > INT32_MAX)
        return false;
    const int64_t n = (int64_t)(head >> 1);
    if (head & 1) {
        const int64_t bytes = h->end - h->p;
        h->packed = n * 8;
        if (h->width && n > bytes / h->width) /* the last run may lack bytes that nobody needs */
            h->packed = bytes * 8 / h->width;
        return h->packed > 0;
    }
    const int size = (h->width + 7) / 8;
    if (size > h->end - h->p)
        return false;
    h->value = 0;
    for (int i = 0; i < size; i++)
        h->value |= (uint32_t)h->p[i] << (8 * i);
    h->p += size;
    h->run = n;
    return n > 0;
}

/* n values of `width` bits, up to 32, from bit `bit` on. */
static void unpack_i32(const uint8_t *p, int width, uint64_t bit, int32_t *out, int64_t n)
{
    const uint32_t mask = width == 32 ? UINT32_MAX : (1u << width) - 1;
    for (int64_t i = 0; i < n; i++, bit += (uint64_t)width)
        out[i] = (int32_t)((uint32_t)(load64(p + (bit >> 3)) >> (bit & 7)) & mask);
}

bool ctr_pq_hybrid_i32(struct pq_hybrid *h, int32_t *out, int64_t n)
{
    while (n) {
        const int64_t k = CTR_MIN(n, h->run + h->packed);
        if (!k) {
            if (!next_run(h))
                return false;
            continue;
        }
        if (h->run) {
            for (int64_t i = 0; i < k; i++)
                out[i] = (int32_t)h->value;
            h->run -= k;
        } else {
            unpack_i32(h->p, h->width, (uint64_t)(h->at * h->width), out, k);
            h->packed -= k;
            h->at += k;
        }
        out += k;
        n -= k;
    }
    return true;
}

/* Bits of one level, eight at a time. */
static void unpack_bits(const uint8_t *p, int64_t at, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++, at++)
        out[i] = p[at >> 3] >> (at & 7) & 1;
}

static void unpack_u8(const struct pq_hybrid *h, uint8_t *out, int64_t n)
{
    const uint32_t mask = (1u << h->width) - 1;
    uint64_t bit = (uint64_t)(h->at * h->width);
    if (h->width == 1) {
        unpack_bits(h->p, h->at, out, n);
        return;
    }
    for (int64_t i = 0; i < n; i++, bit += (uint64_t)h->width)
        out[i] = (uint8_t)(load64(h->p + (bit >> 3)) >> (bit & 7) & mask);
}

bool ctr_pq_hybrid_u8(struct pq_hybrid *h, uint8_t *out, int64_t n)
{
    while (n) {
        const int64_t k = CTR_MIN(n, h->run + h->packed);
        if (!k) {
            if (!next_run(h))
                return false;
            continue;
        }
        if (h->run) {
            memset(out, (int)CTR_MIN(h->value, 255u), (size_t)k);
            h->run -= k;
        } else {
            unpack_u8(h, out, k);
            h->packed -= k;
            h->at += k;
        }
        out += k;
        n -= k;
    }
    return true;
}

void ctr_pq_bit_packed(const uint8_t *p, int width, int64_t at, uint8_t *out, int64_t n)
{
    int64_t bit = at * width;
    for (int64_t i = 0; i < n; i++) {
        uint8_t v = 0;
        for (int k = 0; k < width; k++, bit++)
            v = (uint8_t)(v << 1 | (p[bit >> 3] >> (7 - (bit & 7)) & 1));
        out[i] = v;
    }
}

/* ---- deltas ---- */

static uint64_t zigzag(uint64_t v)
{
    return v >> 1 ^ -(v & 1);
}

bool ctr_pq_delta_start(struct pq_delta *d, const uint8_t *p, const uint8_t *end)
{
    uint64_t block, minis, n, first;
    *d = (struct pq_delta){ .p = p, .end = end };
    if (!varint(&d->p, end, &block) || !varint(&d->p, end, &minis) || !varint(&d->p, end, &n) ||
        !varint(&d->p, end, &first))
        return false;
    if (!block || block > 1 << 20 || !minis || minis > block || block % minis || block / minis % 8 || n > INT32_MAX)
        return false;
    d->block = (int64_t)block;
    d->minis = (int64_t)minis;
    d->mini_values = (int64_t)(block / minis);
    d->left = (int64_t)n;
    d->last = zigzag(first);
    d->first = n > 0;
    d->mini = d->minis; /* a block begins with the second value */
    return true;
}

/* The head of the next miniblock, and of its block. False: it lies not in the bytes. */
static bool next_mini(struct pq_delta *d)
{
    uint64_t min;
    if (d->mini < d->minis && d->mini_at)
        d->p += d->width[d->mini] * d->mini_values / 8;
    if (d->mini < d->minis && d->mini_at)
        d->mini++;
    if (d->mini >= d->minis) {
        if (!varint(&d->p, d->end, &min) || d->minis > d->end - d->p)
            return false;
        d->min = zigzag(min);
        d->width = d->p;
        d->p += d->minis;
        d->mini = 0;
    }
    d->mini_at = 0;
    d->mini_left = d->mini_values;
    return d->width[d->mini] <= 64 && d->width[d->mini] * d->mini_values / 8 <= d->end - d->p;
}

static uint64_t bits_at(const uint8_t *p, uint64_t bit, int width)
{
    const unsigned shift = bit & 7;
    uint64_t v = load64(p + (bit >> 3)) >> shift;
    if (width + (int)shift > 64)
        v |= (uint64_t)p[(bit >> 3) + 8] << (64 - shift);
    return width == 64 ? v : v & (((uint64_t)1 << width) - 1);
}

bool ctr_pq_delta_get(struct pq_delta *d, int64_t *out, int64_t n)
{
    if (n > d->left)
        return false;
    d->left -= n;
    if (n && d->first) {
        *out++ = (int64_t)d->last;
        d->first = false;
        n--;
    }
    while (n) {
        if (!d->mini_left && !next_mini(d))
            return false;
        const int64_t k = CTR_MIN(n, d->mini_left);
        const int width = d->width[d->mini];
        uint64_t bit = (uint64_t)(d->mini_at * width), last = d->last;
        for (int64_t i = 0; i < k; i++, bit += (uint64_t)width) {
            last += d->min + bits_at(d->p, bit, width);
            out[i] = (int64_t)last;
        }
        d->last = last;
        d->mini_at += k;
        d->mini_left -= k;
        out += k;
        n -= k;
    }
    return true;
}

const uint8_t *ctr_pq_delta_end(const struct pq_delta *fresh)
{
    struct pq_delta d = *fresh;
    int64_t left = d.left - 1;
    while (left > 0) {
        if (!next_mini(&d))
            return NULL;
        left -= d.mini_values;
        d.mini_at = d.mini_values;
    }
    return d.mini < d.minis && d.mini_at ? d.p + d.width[d.mini] * d.mini_values / 8 : d.p;
}
