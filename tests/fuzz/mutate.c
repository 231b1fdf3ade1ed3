/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutation of Arrow streams and files. Random bytes never get past a checksum: here a message is changed as a message,
 * and then sums and seals are computed anew. */
#include "harness.h"

#include <stdio.h>

#include "common/stream/arrow.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

/* ---- sealing --------------------------------------------------------------------------------------------------- */

static void put_hex(uint8_t *to, uint64_t v)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)v);
    memcpy(to, hex, 16);
}

/* The sums of the buffers of a batch, where they can be read. */
static void put_sums(const struct ctr_fb_view *t, uint8_t *sums, size_t n, const uint8_t *body, int64_t body_n)
{
    struct ctr_fb_view batch = ctr_fb_sub(t, 2);
    if (ctr_fb_int(t, 1, 1, 0) == ARROW_DICTIONARY)
        batch = ctr_fb_sub(&batch, 1);
    struct ctr_fb_vec v = ctr_fb_list(&batch, 2, 16);
    for (size_t i = 0; i < CTR_MIN(v.count, n / 16); i++) {
        int64_t at = ctr_fb_load64(t->r->p + v.at + 16 * i), len = ctr_fb_load64(t->r->p + v.at + 16 * i + 8);
        if (at >= 0 && len >= 0 && at <= body_n && len <= body_n - at)
            put_hex(sums + 16 * i, ctr_hash64(body + at, (size_t)len, 0));
    }
}

/* Seal the n bytes at p, which hold the table t with custom metadata in field 4. */
static void seal(uint8_t *p, size_t n, const struct ctr_fb_view *t, const uint8_t *body, int64_t body_n)
{
    struct ctr_fb_vec v = ctr_fb_list(t, 4, 4);
    uint8_t *digits = NULL;
    for (size_t i = 0; i < v.count && !t->r->bad; i++) {
        struct ctr_fb_view kv = ctr_fb_at(t->r, &v, i);
        size_t kn, vn;
        const char *k = ctr_fb_str(&kv, 0, &kn), *x = ctr_fb_str(&kv, 1, &vn);
        if (!k || !x)
            continue;
        uint8_t *value = p + ((const uint8_t *)x - p);
        if (body && kn == strlen(CTR_SEAL_SUMS) && !memcmp(k, CTR_SEAL_SUMS, kn))
            put_sums(t, value, vn, body, body_n);
        if (kn == strlen(CTR_SEAL_XXH3) && !memcmp(k, CTR_SEAL_XXH3, kn) && vn == 32)
            digits = value;
    }
    if (!digits)
        return;
    memset(digits, '0', 32);
    struct ctr_hash128 h = ctr_hash128(p, n);
    put_hex(digits, h.hi);
    put_hex(digits + 16, h.lo);
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

enum { MOST = 64 };
struct piece {
    size_t at, meta, body; /* meta with the prefix */
};

static bool is_file(const uint8_t *d, size_t n)
{
    return n >= 8 && !memcmp(d, "ARROW1", 6);
}

/* The messages of a stream or file, and its footer as the last; end marks are skipped. */
static int find_pieces(uint8_t *d, size_t n, struct piece *out, bool sealing)
{
    size_t at = is_file(d, n) ? 8 : 0;
    int count = 0;
    while (count < MOST - 1 && n - at >= 8 && ctr_fb_load32(d + at) == -1) {
        int64_t size = ctr_fb_load32(d + at + 4), left = (int64_t)(n - at) - 8;
        struct ctr_fbr r;
        if (size < 0 || size > left)
            break;
        if (size) {
            ctr_fbr_init(&r, d + at + 8, (size_t)size);
            struct ctr_fb_view t = ctr_fb_root(&r);
            int64_t body = ctr_fb_int(&t, 3, 8, 0);
            body = body < 0 || body > left - size ? left - size : body;
            if (sealing)
                seal(d + at, (size_t)size + 8, &t, d + at + 8 + size, body);
            out[count++] = (struct piece){ at, (size_t)size + 8, (size_t)body };
            size += body;
        }
        at += 8 + (size_t)size;
    }
    int64_t footer = is_file(d, n) && n >= 18 ? ctr_fb_load32(d + n - 10) : 0;
    if (footer >= 16 && footer <= (int64_t)n - 18) {
        struct ctr_fbr r;
        size_t from = n - 10 - (size_t)footer;
        ctr_fbr_init(&r, d + from, (size_t)footer);
        struct ctr_fb_view t = ctr_fb_root(&r);
        if (sealing)
            seal(d + from, (size_t)footer, &t, NULL, 0);
        out[count++] = (struct piece){ from, (size_t)footer, 0 };
    }
    return count;
}

void fuzz_reseal(uint8_t *data, size_t size)
{
    struct piece p[MOST];
    find_pieces(data, size, p, true);
}

/* ---- mutation -------------------------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state, uint64_t n)
{
    *state += 0x9e3779b97f4a7c15u;
    return ctr_mix64(*state) % n;
}

/* A word of the metadata: lengths, counts, offsets, kinds. */
static void change_word(uint8_t *p, size_t n, uint64_t *rng)
{
    static const int64_t odd[] = { 0, 1, -1, 2, 7, 8, 63, 64, 65, 127, 255, INT32_MAX, INT32_MIN, INT64_MAX, 1 << 20 };
    int width = 1 << draw(rng, 4);
    if (n < 8)
        return;
    size_t at = draw(rng, (n - (size_t)width) / (size_t)width + 1) * (size_t)width;
    int64_t v = 0;
    memcpy(&v, p + at, (size_t)width);
    v = draw(rng, 2) ? odd[draw(rng, CTR_COUNT(odd))] : (int64_t)((uint64_t)v + draw(rng, 17) - 8);
    memcpy(p + at, &v, (size_t)width);
}

/* libFuzzer's own mutations, without a change of length. */
static void change_bytes(uint8_t *p, size_t n)
{
    if (!n || !LLVMFuzzerMutate)
        return;
    size_t got = LLVMFuzzerMutate(p, n, n);
    memset(p + got, 0, n - got);
}

static size_t repeat(uint8_t *d, size_t n, size_t most, const struct piece *p)
{
    size_t len = p->meta + p->body, end = p->at + len;
    if (len > most - n)
        return n;
    memmove(d + end + len, d + end, n - end);
    memcpy(d + end, d + p->at, len);
    return n + len;
}

static size_t drop(uint8_t *d, size_t n, const struct piece *p)
{
    size_t end = p->at + p->meta + p->body;
    memmove(d + p->at, d + end, n - end);
    return n - (end - p->at);
}

/* A message and the one behind it change places. */
static void swap(uint8_t *d, const struct piece *p, const struct piece *q)
{
    size_t a = p->meta + p->body, b = q->meta + q->body;
    uint8_t *copy = malloc(a);
    if (copy && q->at == p->at + a) {
        memcpy(copy, d + p->at, a);
        memmove(d + p->at, d + q->at, b);
        memcpy(d + p->at + b, copy, a);
    }
    free(copy);
}

size_t fuzz_mutate_stream(uint8_t *d, size_t n, size_t most, unsigned seed)
{
    struct piece p[MOST];
    uint64_t rng = seed;
    int count = find_pieces(d, n, p, false);
    if (!count || !draw(&rng, 12)) {
        n = LLVMFuzzerMutate ? LLVMFuzzerMutate(d, n, most) : n;
    } else {
        int i = (int)draw(&rng, (uint64_t)count);
        int how = (int)draw(&rng, is_file(d, n) ? 8 : 11);
        for (uint64_t k = 1 + draw(&rng, 3); how < 5 && k; k--)
            change_word(d + p[i].at, p[i].meta, &rng);
        if (how == 5)
            change_bytes(d + p[i].at + 8, p[i].meta < 8 ? 0 : p[i].meta - 8);
        else if (how == 6)
            change_bytes(d + p[i].at + p[i].meta, p[i].body);
        else if (how == 7)
            change_word(d + p[i].at + p[i].meta, p[i].body, &rng);
        else if (how == 8)
            n = drop(d, n, &p[i]);
        else if (how == 9)
            n = repeat(d, n, most, &p[i]);
        else if (how == 10 && i + 1 < count)
            swap(d, &p[i], &p[i + 1]);
    }
    if (draw(&rng, 16))
        fuzz_reseal(d, n);
    return n;
}
