/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of embeddings. See embedding.h. */
#include "common/table/embedding.h"

enum { AHEAD = 16 };

void ctr_embedding_init(struct ctr_embedding *t, int32_t width, int32_t floats, uint64_t seed, float scale)
{
    memset(t, 0, sizeof *t);
    ctr_sparse_init_dense(&t->index, CTR_EMBEDDING_SLOT);
    t->width = width;
    t->floats = floats;
    t->seed = seed;
    t->scale = scale;
}

void ctr_embedding_free(struct ctr_embedding *t)
{
    ctr_sparse_free(&t->index);
    ctr_area_free(&t->area);
    ctr_changed_free(&t->changed);
    t->used = 0;
}

static uint64_t row_bytes(const struct ctr_embedding *t, uint64_t rows)
{
    return rows * (uint64_t)t->floats * sizeof(float);
}

int ctr_embedding_reserve(struct ctr_embedding *t, uint64_t extra, struct ctr_err *err)
{
    if (t->used + extra >= CTR_EMBEDDING_NONE)
        return ctr_fail(err, CTR_EDATA, "a table of embeddings has more than %u keys", CTR_EMBEDDING_NONE - 1);
    int rc = ctr_sparse_reserve(&t->index, extra, err);
    if (!rc)
        rc = ctr_changed_room(&t->changed, t->used + extra, err);
    uint64_t need = row_bytes(t, t->used + extra) + CTR_LINE;
    /* Unwritten pages take no memory, so room is requested in steps. */
    return rc || need <= t->area.bytes ? rc : ctr_area_grow(&t->area, need + need / 8, err);
}

uint64_t ctr_embedding_bytes(const struct ctr_embedding *t)
{
    return ctr_sparse_bytes(&t->index) + row_bytes(t, t->used) + t->changed.bit.len;
}

static uint32_t number_of(const uint8_t *slot)
{
    uint32_t i;
    memcpy(&i, slot + 8, sizeof i);
    return i;
}

static void first_value(const struct ctr_embedding *t, uint64_t h, float *value)
{
    for (int32_t d = 0; d < t->width; d++)
        value[d] = (float)(2 * ctr_random01(t->seed, h, (uint64_t)d) - 1) * t->scale;
}

static uint32_t add_row(struct ctr_embedding *t, uint8_t *slot, uint64_t h)
{
    uint32_t i = t->used++;
    memcpy(slot + 8, &i, sizeof i);
    first_value(t, h, ctr_embedding_row(t, i));
    return i;
}

void ctr_embedding_get(struct ctr_embedding *t, const uint64_t *hash, int64_t n, uint32_t *row)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(ctr_sparse_home(&t->index, hash[i + AHEAD]), 1);
        uint64_t before = t->index.used;
        uint8_t *slot = ctr_sparse_get(&t->index, hash[i]);
        row[i] = t->index.used > before ? add_row(t, slot, hash[i]) : number_of(slot);
        if (t->changed.on)
            ctr_changed_note(&t->changed, row[i]);
    }
}

void ctr_embedding_find(const struct ctr_embedding *t, const uint64_t *hash, int64_t n, uint32_t *row)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && t->index.size)
            __builtin_prefetch(ctr_sparse_home(&t->index, hash[i + AHEAD]));
        const uint8_t *slot = ctr_sparse_find(&t->index, hash[i]);
        row[i] = slot ? number_of(slot) : CTR_EMBEDDING_NONE;
    }
}

static void prefetch_row(const struct ctr_embedding *t, uint32_t i, size_t bytes)
{
    const char *p = (const char *)ctr_embedding_row(t, i);
    for (size_t b = 0; b < bytes; b += CTR_LINE)
        __builtin_prefetch(p + b, 1);
}

void ctr_embedding_gather(const struct ctr_embedding *t, const uint32_t *row, const uint64_t *hash, int64_t n,
                          int32_t floats, float *to)
{
    const size_t bytes = (size_t)floats * sizeof *to;
    for (int64_t i = 0; i < n; i++, to += floats) {
        if (i + AHEAD < n && row[i + AHEAD] != CTR_EMBEDDING_NONE)
            prefetch_row(t, row[i + AHEAD], bytes);
        if (row[i] != CTR_EMBEDDING_NONE) {
            memcpy(to, ctr_embedding_row(t, row[i]), bytes);
            continue;
        }
        memset(to, 0, bytes);
        first_value(t, hash[i], to);
    }
}

void ctr_embedding_scatter(struct ctr_embedding *t, const uint32_t *row, int64_t n, int32_t floats, const float *from)
{
    const size_t bytes = (size_t)floats * sizeof *from;
    for (int64_t i = 0; i < n; i++, from += floats) {
        if (i + AHEAD < n)
            prefetch_row(t, row[i + AHEAD], bytes);
        if (t->changed.on)
            ctr_changed_note(&t->changed, row[i]);
        memcpy(ctr_embedding_row(t, row[i]), from, bytes);
    }
}

struct visit {
    const struct ctr_embedding *t;
    ctr_embedding_each *each;
    void *ctx;
};

static int visit_slot(void *ctx, uint64_t key, const uint8_t *slot, struct ctr_err *err)
{
    const struct visit *v = ctx;
    if (ctr_changed_skips(&v->t->changed, number_of(slot)))
        return 0;
    return v->each(v->ctx, key, ctr_embedding_row(v->t, number_of(slot)), err);
}

int ctr_embedding_sorted(const struct ctr_embedding *t, ctr_embedding_each *each, void *ctx, struct ctr_err *err)
{
    struct visit v = { t, each, ctx };
    return ctr_sparse_sorted(&t->index, visit_slot, &v, err);
}
