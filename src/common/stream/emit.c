/* SPDX-License-Identifier: Apache-2.0
 *
 * emit: writes columns as the nodes and buffers of an Arrow body. Values are sent from where they are; bitmaps, rebased
 * offsets and columns with nulls go through scratch memory, because the bytes are canonical: equal rows give equal
 * bytes.
 */
#include "common/stream/arrow.h"

#include <stdlib.h>

static void free_clean(struct arrow_body *b)
{
    struct ctr_colbuf **c = (struct ctr_colbuf **)b->clean.data;
    for (size_t i = 0; i < b->clean.len / sizeof *c; i++) {
        ctr_colbuf_free(c[i]);
        free(c[i]);
    }
    b->clean.len = 0;
}

void ctr_body_clear(struct arrow_body *b)
{
    free_clean(b);
    b->nodes.len = b->parts.len = b->scratch.len = b->packed.len = 0;
    b->nnodes = b->nparts = 0;
    b->length = 0;
}

void ctr_body_free(struct arrow_body *b)
{
    ctr_buf_free(&b->nodes);
    ctr_buf_free(&b->parts);
    ctr_buf_free(&b->scratch);
    ctr_buf_free(&b->packed);
    free_clean(b);
    ctr_buf_free(&b->clean);
}

static int add_node(struct arrow_body *b, int64_t rows, int64_t nulls, struct ctr_err *err)
{
    struct arrow_node n = { rows, nulls };
    b->nnodes++;
    return ctr_buf_append(&b->nodes, &n, sizeof n, err);
}

static int add_part(struct arrow_body *b, const void *p, size_t at, size_t n, struct ctr_err *err)
{
    struct arrow_part part = { .p = n ? p : NULL, .at = at, .n = n };
    b->nparts++;
    return ctr_buf_append(&b->parts, &part, sizeof part, err);
}

/* Allocate n aligned bytes of scratch memory; *at is an offset, because the memory may move. */
static int scratch(struct arrow_body *b, size_t n, size_t *at, struct ctr_err *err)
{
    size_t pad = (8 - b->scratch.len % 8) % 8;
    int rc = ctr_buf_reserve(&b->scratch, pad + n + 8, err);
    if (rc < 0)
        return rc;
    *at = b->scratch.len + pad;
    b->scratch.len += pad + n;
    return 0;
}

/* Bits [from, from+n), shifted to bit 0 and zero after the end; masked by the scratch bits at mask_at, unless
 * SIZE_MAX. */
static int add_bits(struct arrow_body *b, const uint8_t *bits, size_t mask_at, int64_t from, int64_t n,
                    struct ctr_err *err)
{
    size_t bytes = (size_t)(n + 7) / 8, at;
    int rc = scratch(b, bytes, &at, err);
    if (rc < 0)
        return rc;
    uint8_t *to = b->scratch.data + at;
    const uint8_t *src = bits + (from >> 3);
    int shift = (int)(from & 7);
    if (!shift) {
        memcpy(to, src, bytes);
    } else {
        size_t have = (size_t)((from + n + 7) / 8 - from / 8);
        for (size_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)(src[i] >> shift | (i + 1 < have ? src[i + 1] << (8 - shift) : 0));
    }
    if (n & 7)
        to[bytes - 1] &= (uint8_t)((1 << (n & 7)) - 1);
    if (mask_at != SIZE_MAX)
        for (size_t i = 0; i < bytes; i++)
            to[i] &= b->scratch.data[mask_at + i];
    return add_part(b, NULL, at, bytes, err);
}

/* Add node and validity buffer. *valid is the offset of the bits in scratch memory, or SIZE_MAX without nulls. */
static int add_validity(struct arrow_body *b, const struct ctr_col *c, int64_t from, int64_t n, size_t *valid,
                        struct ctr_err *err)
{
    *valid = SIZE_MAX;
    size_t node = b->nodes.len;
    int rc = add_node(b, n, 0, err);
    if (rc < 0)
        return rc;
    if (!c->valid)
        return add_part(b, NULL, 0, 0, err);
    rc = add_bits(b, c->valid, SIZE_MAX, from, n, err);
    if (rc < 0)
        return rc;
    struct arrow_part *p = ctr_body_parts(b) + b->nparts - 1;
    int64_t nulls = n - ctr_bits_count(b->scratch.data + p->at, 0, n);
    if (!nulls) {
        p->n = 0;
        return 0;
    }
    ((struct arrow_node *)(b->nodes.data + node))->nulls = nulls;
    *valid = p->at;
    return 0;
}

/* The nulls among the 64 rows from i on, one bit each; `valid` is in scratch memory, followed by eight more bytes. */
static inline uint64_t nulls_from(const uint8_t *valid, int64_t i, int64_t n)
{
    uint64_t bits;
    memcpy(&bits, valid + i / 8, 8);
    return ~bits & ~0ull >> (n - i < 64 ? 64 - (n - i) : 0);
}

#define SCRUB(T)                                                                                                       \
    for (int64_t i = 0; i < n; i += 64)                                                                                \
        for (uint64_t nulls_ = nulls_from(valid, i, n); nulls_; nulls_ &= nulls_ - 1)                                  \
            ((T *)to)[i + __builtin_ctzll(nulls_)] = 0;

/* Values of a fixed width; null slots become zero. */
static int add_values(struct arrow_body *b, const void *src, int width, int64_t n, size_t valid_at, struct ctr_err *err)
{
    size_t bytes = (size_t)n * (size_t)width, at;
    if (valid_at == SIZE_MAX)
        return add_part(b, src, 0, bytes, err);
    int rc = scratch(b, bytes, &at, err);
    if (rc < 0)
        return rc;
    const uint8_t *valid = b->scratch.data + valid_at;
    void *to = b->scratch.data + at;
    memcpy(to, src, bytes);
    switch (width) {
    case 1: SCRUB(uint8_t); break;
    case 2: SCRUB(uint16_t); break;
    case 4: SCRUB(uint32_t); break;
    default: SCRUB(uint64_t); break;
    }
    return add_part(b, NULL, at, bytes, err);
}

/* Does a null slot own bytes or items? */
static bool dirty_slots(const int32_t *off, const uint8_t *valid, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64)
        for (uint64_t nulls = nulls_from(valid, i, n); nulls; nulls &= nulls - 1) {
            const int32_t *o = off + i + __builtin_ctzll(nulls);
            if (o[0] != o[1])
                return true;
        }
    return false;
}

static int add_offsets(struct arrow_body *b, const int32_t *off, int64_t n, struct ctr_err *err)
{
    static const int32_t zero;
    if (!n)
        return add_part(b, &zero, 0, 4, err);
    if (!off[0])
        return add_part(b, off, 0, (size_t)(n + 1) * 4, err);
    size_t at;
    int rc = scratch(b, (size_t)(n + 1) * 4, &at, err);
    if (rc < 0)
        return rc;
    int32_t *to = (int32_t *)(b->scratch.data + at);
    for (int64_t i = 0; i <= n; i++)
        to[i] = off[i] - off[0];
    return add_part(b, NULL, at, (size_t)(n + 1) * 4, err);
}

/* Text whose null slots own bytes: copy only present texts. */
static int add_text_clean(struct arrow_body *b, const struct ctr_col *c, int64_t from, int64_t n, size_t valid_at,
                          struct ctr_err *err)
{
    const int32_t *off = c->offsets + from;
    size_t oat, at;
    int rc = scratch(b, (size_t)(n + 1) * 4, &oat, err);
    if (rc == 0)
        rc = scratch(b, (size_t)(off[n] - off[0]), &at, err);
    if (rc < 0)
        return rc;
    const uint8_t *valid = b->scratch.data + valid_at;
    int32_t *to = (int32_t *)(b->scratch.data + oat), len = 0;
    to[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ctr_bit(valid, i)) {
            memcpy(b->scratch.data + at + len, (const char *)c->data + off[i], (size_t)(off[i + 1] - off[i]));
            len += off[i + 1] - off[i];
        }
        to[i + 1] = len;
    }
    rc = add_part(b, NULL, oat, (size_t)(n + 1) * 4, err);
    return rc < 0 ? rc : add_part(b, NULL, at, (size_t)len, err);
}

static int add_text(struct arrow_body *b, const struct ctr_col *c, int64_t from, int64_t n, size_t valid,
                    struct ctr_err *err)
{
    const int32_t *off = c->offsets + from;
    if (valid != SIZE_MAX && dirty_slots(off, b->scratch.data + valid, n))
        return add_text_clean(b, c, from, n, valid, err);
    int rc = add_offsets(b, off, n, err);
    if (rc < 0 || !n)
        return rc < 0 ? rc : add_part(b, NULL, 0, 0, err);
    return add_part(b, (const char *)c->data + off[0], 0, (size_t)(off[n] - off[0]), err);
}

/* Struct<key, weight>: its own validity buffer and two children without nulls. */
static int add_weighted(struct arrow_body *b, const struct ctr_col *c, int64_t from, int64_t n, size_t valid,
                        struct ctr_err *err)
{
    int rc = add_node(b, n, 0, err);
    if (rc == 0)
        rc = add_part(b, NULL, 0, 0, err);
    if (rc == 0)
        rc = add_values(b, (const uint64_t *)c->data + from, 8, n, valid, err);
    if (rc == 0)
        rc = add_node(b, n, 0, err);
    if (rc == 0)
        rc = add_part(b, NULL, 0, 0, err);
    return rc < 0 ? rc : add_values(b, c->weight + from, 4, n, valid, err);
}

/* A column for the items of a rewritten list; valid until the body is cleared. */
static int new_clean(struct arrow_body *b, const struct ctr_col *item, struct ctr_colbuf **out, struct ctr_err *err)
{
    struct ctr_colbuf *c = calloc(1, sizeof *c);
    int rc = c ? ctr_colbuf_init(c, &(struct ctr_field){ .type = item->type }, err) : ctr_fail_nomem(err, sizeof *c);
    if (rc >= 0)
        rc = ctr_buf_append(&b->clean, &c, sizeof c, err);
    if (rc < 0)
        free(c);
    *out = c;
    return rc;
}

/* If null rows own items: write only those of the others. */
static int add_list_clean(struct arrow_body *b, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_colbuf *items;
    size_t at;
    int rc = new_clean(b, c->item, &items, err);
    if (rc >= 0)
        rc = scratch(b, (size_t)(n + 1) * 4, &at, err);
    if (rc < 0)
        return rc;
    int32_t *to = (int32_t *)(b->scratch.data + at);
    to[0] = 0;
    for (int64_t i = 0; rc >= 0 && i < n; i++) {
        const int32_t *off = c->offsets + from + i;
        if (!ctr_col_null(c, from + i))
            rc = ctr_colbuf_range(items, c->item, off[0], off[1] - off[0], err);
        to[i + 1] = (int32_t)items->rows;
    }
    if (rc >= 0)
        rc = add_part(b, NULL, at, (size_t)(n + 1) * 4, err);
    return rc < 0 ? rc : ctr_body_column(b, ctr_colbuf_view(items), 0, 0, items->rows, err);
}

static int add_list(struct arrow_body *b, const struct ctr_col *c, int64_t from, int64_t n, size_t valid,
                    struct ctr_err *err)
{
    if (valid != SIZE_MAX && dirty_slots(c->offsets + from, b->scratch.data + valid, n))
        return add_list_clean(b, c, from, n, err);
    int rc = add_offsets(b, c->offsets + from, n, err);
    if (rc < 0)
        return rc;
    int64_t first = n ? c->offsets[from] : 0, last = n ? c->offsets[from + n] : 0;
    return ctr_body_column(b, c->item, 0, first, last - first, err);
}

/* Lists of fixed size: the items of null rows are null. */
static int add_fixed(struct arrow_body *b, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                     struct ctr_err *err)
{
    struct ctr_colbuf *items;
    bool dirty = false;
    for (int64_t i = from * width; c->valid && !dirty && i < (from + n) * width; i++)
        dirty = !ctr_bit(c->valid, i / width) && !ctr_col_null(c->item, i);
    if (!dirty)
        return ctr_body_column(b, c->item, 0, from * width, n * width, err);
    int rc = new_clean(b, c->item, &items, err);
    for (int64_t i = from; rc >= 0 && i < from + n; i++) {
        if (!ctr_col_null(c, i))
            rc = ctr_colbuf_range(items, c->item, i * width, width, err);
        else
            for (int32_t k = 0; rc >= 0 && k < width; k++)
                rc = ctr_colbuf_null(items, err);
    }
    return rc < 0 ? rc : ctr_body_column(b, ctr_colbuf_view(items), 0, 0, n * width, err);
}

int ctr_body_column(struct arrow_body *b, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                    struct ctr_err *err)
{
    size_t valid;
    int rc = add_validity(b, c, from, n, &valid, err);
    if (rc < 0)
        return rc;
    if (c->dict)
        return add_values(b, (const int32_t *)c->data + from, 4, n, valid, err);
    switch (c->type) {
    case CTR_BOOL: return add_bits(b, c->data, valid, from, n, err);
    case CTR_UTF8: return add_text(b, c, from, n, valid, err);
    case CTR_LIST: return add_list(b, c, from, n, valid, err);
    case CTR_FIXED: return add_fixed(b, c, width, from, n, err);
    case CTR_WKEY: return add_weighted(b, c, from, n, valid, err);
    default: {
        int w = ctr_types[c->type].width;
        return add_values(b, (const char *)c->data + from * w, w, n, valid, err);
    }
    }
}

static int pack(struct arrow_body *b, enum ctr_compression how, struct ctr_err *err)
{
    struct arrow_part *p = ctr_body_parts(b);
    for (int i = 0; i < b->nparts; i++) {
        if (!p[i].n)
            continue;
        size_t at = b->packed.len;
        int rc = ctr_ipc_compress(how, p[i].p ? p[i].p : b->scratch.data + p[i].at, p[i].n, &b->packed, err);
        if (rc < 0)
            return rc;
        p[i] = (struct arrow_part){ .at = at, .n = b->packed.len - at };
    }
    for (int i = 0; i < b->nparts; i++)
        p[i].p = p[i].n ? b->packed.data + p[i].at : NULL;
    return 0;
}

int ctr_body_seal(struct arrow_body *b, enum ctr_compression how, struct ctr_err *err)
{
    struct arrow_part *p = ctr_body_parts(b);
    if (how != CTR_PLAIN) {
        int rc = pack(b, how, err);
        if (rc < 0)
            return rc;
    }
    b->length = 0;
    for (int i = 0; i < b->nparts; i++) {
        if (!p[i].p && p[i].n)
            p[i].p = b->scratch.data + p[i].at;
        p[i].offset = b->length;
        p[i].sum = ctr_hash64(p[i].n ? p[i].p : "", p[i].n, 0);
        b->length += (int64_t)(p[i].n + ARROW_ALIGN - 1) / ARROW_ALIGN * ARROW_ALIGN;
    }
    return 0;
}
