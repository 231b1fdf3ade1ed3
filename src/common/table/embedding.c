/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of embeddings. See embedding.h. */
#include "common/table/embedding.h"

enum { AHEAD = 16 };

void ctr_embedding_init(struct ctr_embedding *t, int32_t width, int32_t floats, uint64_t seed, float scale)
{
    memset(t, 0, sizeof *t);
    t->width = width;
    t->floats = floats;
    t->seed = seed;
    t->scale = scale;
}

void ctr_embedding_free(struct ctr_embedding *t)
{
    ctr_keyindex_free(&t->index);
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
    int rc = ctr_keyindex_reserve(&t->index, extra, err);
    if (!rc)
        rc = ctr_changed_room(&t->changed, t->used + extra, err);
    uint64_t need = row_bytes(t, t->used + extra) + CTR_LINE;
    /* Unwritten pages take no memory, so room is requested in steps. */
    return rc || need <= t->area.bytes ? rc : ctr_area_grow(&t->area, need + need / 8, err);
}

uint64_t ctr_embedding_bytes(const struct ctr_embedding *t)
{
    return ctr_keyindex_bytes(&t->index) + row_bytes(t, t->used) + t->changed.bit.len;
}

static void first_value(const struct ctr_embedding *t, uint64_t h, float *value)
{
    for (int32_t d = 0; d < t->width; d++)
        value[d] = (float)(2 * ctr_random01(t->seed, h, (uint64_t)d) - 1) * t->scale;
}

static uint32_t add_row(struct ctr_embedding *t, uint64_t h)
{
    const uint32_t i = t->used++;
    first_value(t, h, ctr_embedding_row(t, i));
    return i;
}

void ctr_embedding_get(struct ctr_embedding *t, const uint64_t *hash, int64_t n, uint32_t *row)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(ctr_keyindex_home(&t->index, hash[i + AHEAD]), 1);
        const uint64_t before = t->index.used;
        uint32_t *number = ctr_keyindex_get(&t->index, hash[i]);
        if (t->index.used > before)
            *number = add_row(t, hash[i]);
        row[i] = *number;
        if (t->changed.on)
            ctr_changed_note(&t->changed, row[i]);
    }
}

void ctr_embedding_find(const struct ctr_embedding *t, const uint64_t *hash, int64_t n, uint32_t *row)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && t->index.size)
            __builtin_prefetch(ctr_keyindex_home(&t->index, hash[i + AHEAD]));
        const uint32_t *number = ctr_keyindex_find(&t->index, hash[i]);
        row[i] = number ? *number : CTR_EMBEDDING_NONE;
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

static int visit_range(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    const struct visit *v = ctx;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        const uint32_t next = (uint32_t)e[CTR_MIN(i + AHEAD, n - 1)].number, number = (uint32_t)e[i].number;
        prefetch_row(v->t, next, sizeof(float) * (size_t)v->t->floats); /* rows are scattered */
        if (!ctr_changed_skips(&v->t->changed, number))
            rc = v->each(v->ctx, e[i].key, ctr_embedding_row(v->t, number), err);
    }
    return rc;
}

int ctr_embedding_sorted(const struct ctr_embedding *t, ctr_embedding_each *each, void *ctx, struct ctr_err *err)
{
    struct visit v = { t, each, ctx };
    return ctr_keyindex_sorted(&t->index, t->index.used, visit_range, &v, err);
}
