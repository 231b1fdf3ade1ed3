/* SPDX-License-Identifier: Apache-2.0
 *
 * heavy: the sketch of frequent values. Rows are counted in bytes, a cache line for 64 bits, and 255 of them at most
 * before they go to the 64-bit counts. */
#include "tools/ctr-stats/heavy.h"

#include <stdlib.h>

enum { CELLS = CTR_HEAVY_CELLS, BITS = 64 };

struct ctr_heavy {
    int tables;           /* of the hash, and of chunks */
    uint64_t *narrow;     /* of each cell and table, 64 bytes */
    uint8_t *pending;     /* rows of a cell in narrow */
    int64_t *wide;        /* of each cell: the total, then of each table 64 */
    uint64_t spread[256]; /* the bits of a byte, as bytes */
};

int ctr_heavy_new(struct ctr_heavy **out, int chunks, struct ctr_err *err)
{
    struct ctr_heavy *h = calloc(1, sizeof *h);
    if (!h)
        return ctr_fail_nomem(err, sizeof *h);
    h->tables = 1 + chunks;
    const size_t counts = (size_t)CELLS * (size_t)(1 + BITS * h->tables);
    h->narrow = aligned_alloc(CTR_LINE, (size_t)CELLS * (size_t)h->tables * BITS);
    h->pending = calloc(CELLS, 1);
    h->wide = calloc(counts, sizeof *h->wide);
    if (!h->narrow || !h->pending || !h->wide) {
        ctr_heavy_free(h);
        return ctr_fail_nomem(err, counts * sizeof *h->wide);
    }
    memset(h->narrow, 0, (size_t)CELLS * (size_t)h->tables * BITS);
    for (int byte = 0; byte < 256; byte++)
        for (int bit = 0; bit < 8; bit++)
            h->spread[byte] |= (uint64_t)(byte >> bit & 1) << 8 * bit;
    *out = h;
    return 0;
}

void ctr_heavy_free(struct ctr_heavy *h)
{
    if (!h)
        return;
    free(h->narrow);
    free(h->pending);
    free(h->wide);
    free(h);
}

int ctr_heavy_counts(const struct ctr_heavy *h)
{
    return 1 + BITS * h->tables;
}

static int64_t *wide_of(const struct ctr_heavy *h, int cell)
{
    return h->wide + (size_t)cell * (size_t)ctr_heavy_counts(h);
}

static int cell_of(uint64_t hash)
{
    return (int)(hash % CELLS);
}

static void flush(struct ctr_heavy *h, int cell)
{
    const size_t bytes = (size_t)h->tables * BITS;
    uint8_t *narrow = (uint8_t *)h->narrow + (size_t)cell * bytes;
    int64_t *wide = wide_of(h, cell);
    wide[0] += h->pending[cell];
    for (size_t i = 0; i < bytes; i++)
        wide[1 + i] += narrow[i];
    memset(narrow, 0, bytes);
    h->pending[cell] = 0;
}

static inline void add_row(const struct ctr_heavy *h, uint64_t *line, uint64_t bits)
{
    for (int k = 0; k < 8; k++)
        line[k] += h->spread[bits >> 8 * k & 255];
}

static void add_weight(int64_t *wide, uint64_t bits, int64_t weight)
{
    for (int k = 0; k < BITS; k++)
        wide[k] += (int64_t)(bits >> k & 1) * weight;
}

/* Eight bytes of a text, padded with zeros. */
static inline uint64_t chunk(const char *text, size_t n, int i)
{
    const size_t at = (size_t)i * 8, have = n - at < 8 ? n - at : 8;
    uint64_t bits = 0;
    memcpy(&bits, text + at, have);
    return bits;
}

void ctr_heavy_prefetch(const struct ctr_heavy *h, uint64_t hash)
{
    const uint64_t *line = h->narrow + (size_t)cell_of(hash) * (size_t)h->tables * 8;
    __builtin_prefetch(line, 1);
    if (h->tables > 1)
        __builtin_prefetch(line + 8, 1);
}

void ctr_heavy_add(struct ctr_heavy *h, uint64_t hash, const char *text, size_t n, int64_t weight)
{
    const int cell = cell_of(hash);
    const int chunks = (int)CTR_MIN((n + 7) / 8, (size_t)(h->tables - 1));
    if (weight == 1) {
        uint64_t *line = h->narrow + (size_t)cell * (size_t)h->tables * 8;
        add_row(h, line, hash);
        for (int i = 0; i < chunks; i++)
            add_row(h, line + 8 * (1 + i), chunk(text, n, i));
        if (++h->pending[cell] == 255)
            flush(h, cell);
        return;
    }
    int64_t *wide = wide_of(h, cell);
    wide[0] += weight;
    add_weight(wide + 1, hash, weight);
    for (int i = 0; i < chunks; i++)
        add_weight(wide + 1 + BITS * (1 + i), chunk(text, n, i), weight);
}

const int64_t *ctr_heavy_cell(struct ctr_heavy *h, int cell)
{
    flush(h, cell);
    return wide_of(h, cell);
}

void ctr_heavy_cell_add(struct ctr_heavy *h, int cell, const int64_t *counts)
{
    int64_t *wide = wide_of(h, cell);
    for (int i = 0; i < ctr_heavy_counts(h); i++)
        wide[i] += counts[i];
}

struct ctr_heavy_estimate ctr_heavy_estimate(struct ctr_heavy *h, uint64_t hash)
{
    const int64_t *count = ctr_heavy_cell(h, cell_of(hash));
    const int64_t total = *count++;
    __int128 disagree = 0;
    for (int k = 0; k < BITS; k++)
        disagree += hash >> k & 1 ? total - count[k] : count[k];
    const int64_t others = CTR_MIN((int64_t)((disagree + BITS / 4) / (BITS / 2)), total);
    return (struct ctr_heavy_estimate){ total - others, others };
}

/* The bits that more than half of `most` rows have. */
static uint64_t majority(const int64_t *count, int64_t most)
{
    uint64_t bits = 0;
    for (int k = 0; k < BITS; k++)
        bits |= (uint64_t)(count[k] > most / 2) << k;
    return bits;
}

/* Do the rows of one value make each majority? Without others it has all of its weight; those of noise, or of several
 * frequent values, are small for some bit. */
static bool clear_majority(const int64_t *count, int64_t total, int64_t weight)
{
    bool clear = true;
    for (int k = 0; k < BITS; k++) {
        const int64_t more = count[k] > total / 2 ? count[k] - (total - count[k]) : (total - count[k]) - count[k];
        clear &= more >= weight / 2;
    }
    return clear;
}

bool ctr_heavy_value(struct ctr_heavy *h, int cell, struct ctr_heavy_value *v)
{
    const int64_t *count = ctr_heavy_cell(h, cell);
    const int64_t total = count[0];
    v->hash = majority(count + 1, total);
    v->is = ctr_heavy_estimate(h, v->hash);
    /* Bytes of texts are not random, so that only a value with most rows has its bits in the majority. */
    if (!total || cell_of(v->hash) != cell || v->is.weight <= (h->tables > 1 ? total / 2 : total / 8) ||
        !clear_majority(count + 1, total, v->is.weight))
        return false;
    for (int i = 0; i < h->tables - 1; i++) {
        const uint64_t bits = majority(count + 1 + BITS * (1 + i), total);
        memcpy(v->text + 8 * (size_t)i, &bits, sizeof bits);
    }
    return true;
}
