/* SPDX-License-Identifier: Apache-2.0
 *
 * slice: some rows of a batch as a batch. Values are borrowed; only bitmaps that would start within a byte are
 * copied. */
#include "common/stream/batch.h"

static int32_t value_width(const struct ctr_col *c)
{
    return c->dict ? (int32_t)sizeof(int32_t) : ctr_types[c->type].width;
}

/* Bytes for bitmaps that columns [0, n) may have to copy, each from a byte boundary. */
static size_t bitmap_bytes(const struct ctr_col *c, int64_t rows)
{
    return 2 * ((size_t)rows / 8 + 16) +
           (c->type == CTR_FIXED && !c->dict ? bitmap_bytes(c->item, rows * ctr_col_width(c)) : 0);
}

static const uint8_t *slice_bits(struct ctr_part *s, const uint8_t *bits, int64_t from, int64_t n)
{
    if (!bits || from % 8 == 0)
        return bits ? bits + from / 8 : NULL;
    uint8_t *to = s->bits.data + s->bits.len;
    memset(to, 0, (size_t)n / 8 + 16);
    for (int64_t i = 0; i < n; i++)
        to[i >> 3] |= (uint8_t)(ctr_bit(bits, from + i) << (i & 7));
    s->bits.len += (size_t)n / 8 + 16;
    return to;
}

static void slice_col(struct ctr_part *s, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_col *to,
                      struct ctr_col *item)
{
    const int32_t width = ctr_col_width(c);
    *to = *c;
    to->rows = n;
    to->nulls = c->valid ? n - ctr_bits_count(c->valid, from, n) : 0;
    to->valid = to->nulls ? slice_bits(s, c->valid, from, n) : NULL;
    if (c->offsets)
        to->offsets = c->offsets + from;
    else if (c->type == CTR_BOOL && !c->dict)
        to->data = slice_bits(s, c->data, from, n);
    else if (c->data)
        to->data = (const uint8_t *)c->data + from * value_width(c);
    if (c->type == CTR_FIXED && !c->dict) {
        slice_col(s, c->item, from * width, n * width, item, NULL);
        to->item = item;
    }
}

int ctr_batch_part(struct ctr_part *s, const struct ctr_batch *b, int64_t from, int64_t n, struct ctr_err *err)
{
    const int columns = b->schema->n;
    size_t bytes = 0;
    for (int i = 0; i < columns; i++)
        bytes += bitmap_bytes(&b->col[i], n);
    int rc = ctr_buf_room(&s->cols, 2 * columns + 1, sizeof(struct ctr_col), err); /* and the items of each */
    if (!rc)
        rc = ctr_buf_room(&s->bits, (int64_t)bytes, 1, err);
    struct ctr_col *col = (struct ctr_col *)(void *)s->cols.data;
    for (int i = 0; i < columns && !rc; i++)
        slice_col(s, &b->col[i], from, n, &col[i], &col[columns + i]);
    s->batch = (struct ctr_batch){ b->schema, n, b->first_row + from, col };
    return rc;
}

void ctr_part_free(struct ctr_part *s)
{
    ctr_buf_free(&s->cols);
    ctr_buf_free(&s->bits);
}

int64_t ctr_col_bytes(const struct ctr_col *c, int64_t from, int64_t n)
{
    int64_t bytes = 0;
    if (c->dict) {
        for (int64_t i = from; i < from + n; i++)
            bytes += ctr_col_null(c, i) ? 0 : ctr_col_bytes(c->dict, ((const int32_t *)c->data)[i], 1);
        return bytes;
    }
    if (c->type == CTR_UTF8)
        return c->offsets[from + n] - c->offsets[from] + 4 * n;
    if (c->type == CTR_LIST)
        return ctr_col_bytes(c->item, c->offsets[from], c->offsets[from + n] - c->offsets[from]) + 4 * n;
    if (c->type == CTR_FIXED)
        return ctr_col_bytes(c->item, from * ctr_col_width(c), n * ctr_col_width(c));
    return n * CTR_MAX(ctr_types[c->type].width, 1);
}
