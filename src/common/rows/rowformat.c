/* SPDX-License-Identifier: Apache-2.0
 *
 * rowformat: converts between columns and the row-wise form. It processes tiles of rows (CTR_ROW_TILE, which stay in
 * the cache), column by column within a tile. Invariant: the slot of a null is zero, or for texts and lists an empty
 * span. */
#include "common/base/isa.h"
#include "common/rows/rowformat.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The row (7, "ab", null) of int32, utf8 and utf8 columns, without a tag, is 19 bytes:
 *
 *     19 0 0 0 | 4 | 7 0 0 0 | 19 0 0 0 | 19 0 0 0 | a b
 *     length     null bits of columns 0 to 2: bit 2       the slots of texts are the ends of their bytes; the first
 *                                                         text starts behind the slots, at 17
 *
 * Both directions work on tiles: the lengths of a tile's rows, then all its values of column 0, then of column 1, … */

/* ---- layout ---- */

int ctr_rowformat_init(struct ctr_rowformat *f, const struct ctr_schema *s, bool tagged, struct ctr_err *err)
{
    uint64_t at = tagged ? 12 : 4;

    *f = (struct ctr_rowformat){ .n = s->n, .tagged = tagged };
    f->col = calloc((size_t)s->n + 1, sizeof *f->col);
    if (!f->col)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *f->col);
    f->bits_at = (uint32_t)at;
    at += ((uint64_t)s->n + 7) / 8;
    for (int i = 0; i < s->n; i++) {
        struct ctr_rowcol *c = &f->col[i];
        *c = (struct ctr_rowcol){ .type = s->f[i].type, .item = s->f[i].item, .items = s->f[i].width };
        c->width = c->type == CTR_BOOL ? 1 : ctr_types[c->type].width;
        if (c->type == CTR_UTF8 || c->type == CTR_LIST || c->type == CTR_FIXED)
            c->width = 0;
        f->variable |= !c->width;
        c->slot = (uint32_t)at;
        at += c->width ? (uint64_t)c->width : 4;
    }
    if (at > UINT32_MAX / 4)
        return ctr_fail(err, CTR_EDATA, "%d columns are too many for one row", s->n);
    f->fixed_bytes = (uint32_t)at;
    f->none = calloc(1, at);
    if (!f->none)
        return ctr_fail_nomem(err, at);
    for (int i = 0; i < f->n; i++)
        if (!f->col[i].width)
            memcpy(f->none + f->col[i].slot, &f->fixed_bytes, sizeof f->fixed_bytes);
    return 0;
}

void ctr_rowformat_free(struct ctr_rowformat *f)
{
    free(f->col);
    free(f->none);
    *f = (struct ctr_rowformat){ 0 };
}

/* Exact copies of a few bytes, without a call. */
static inline void copy_bytes(uint8_t *to, const void *from, size_t n)
{
    const uint8_t *p = from;
    uint64_t a, b;
    uint32_t c, d;

    if (n > 16) {
        memcpy(to, from, n);
    } else if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
        memcpy(to, &a, 8);
        memcpy(to + n - 8, &b, 8);
    } else if (n >= 4) {
        memcpy(&c, p, 4);
        memcpy(&d, p + n - 4, 4);
        memcpy(to, &c, 4);
        memcpy(to + n - 4, &d, 4);
    } else if (n) {
        to[0] = p[0];
        to[n >> 1] = p[n >> 1];
        to[n - 1] = p[n - 1];
    }
}

static inline void put_u32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4);
}

static inline uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* ---- where the values are: through the dictionary, nulls -1 ---- */

static const struct ctr_col *resolve_rows(const struct ctr_col *c, const int64_t *idx, int n, int64_t *at)
{
    const int32_t *code = c->data;

    if (!c->dict) {
        for (int i = 0; i < n; i++)
            at[i] = c->valid && !ctr_bit(c->valid, idx[i]) ? -1 : idx[i];
        return c;
    }
    for (int i = 0; i < n; i++)
        at[i] = ctr_col_missing(c, idx[i]) ? -1 : code[idx[i]];
    return c->dict;
}

/* ---- lists: u32 count, u8 has nulls, [bits], values ---- */

static void list_span(const struct ctr_col *c, const struct ctr_rowcol *rc, int64_t row, int64_t *from, int64_t *n)
{
    if (rc->type == CTR_LIST) {
        *from = c->offsets[row];
        *n = c->offsets[row + 1] - *from;
    } else {
        *from = row * rc->items;
        *n = rc->items;
    }
}

static bool list_has_nulls(const struct ctr_col *item)
{
    return item->valid || (item->dict && item->dict->valid);
}

static uint64_t list_bytes(const struct ctr_col *c, const struct ctr_rowcol *rc, int64_t row)
{
    const struct ctr_col *item = c->item;
    int64_t from, n;

    list_span(c, rc, row, &from, &n);
    uint64_t bytes = 5 + (list_has_nulls(item) ? ((uint64_t)n + 7) / 8 : 0);
    if (rc->item == CTR_UTF8) {
        bytes += 4 * (uint64_t)n;
        if (!item->dict)
            return bytes + (uint64_t)(item->offsets[from + n] - item->offsets[from]);
        for (int64_t i = 0; i < n; i++)
            bytes += ctr_col_missing(item, from + i) ? 0 : ctr_col_str(item, from + i).n;
        return bytes;
    }
    if (rc->item == CTR_WKEY)
        return bytes + 12 * (uint64_t)n;
    return bytes + (uint64_t)n * (rc->item == CTR_BOOL ? 1 : (uint64_t)ctr_types[rc->item].width);
}

static uint8_t *list_write_text(const struct ctr_col *item, int64_t from, int64_t n, uint8_t *p)
{
    uint8_t *ends = p, *q = p + 4 * n;

    for (int64_t i = 0; i < n; i++) {
        /* A null may have bytes in a plain column: they are counted, and so they are copied. */
        bool empty = item->dict && ctr_col_missing(item, from + i);
        struct ctr_str s = empty ? (struct ctr_str){ NULL, 0 } : ctr_col_str(item, from + i);
        copy_bytes(q, s.p, s.n);
        q += s.n;
        put_u32(ends + 4 * i, (uint32_t)(q - p - 4 * n));
    }
    return q;
}

static uint8_t *list_write_items(const struct ctr_col *item, enum ctr_type type, int64_t from, int64_t n, uint8_t *p)
{
    size_t w = (size_t)ctr_types[type].width;

    if (type == CTR_BOOL) {
        for (int64_t i = 0; i < n; i++)
            *p++ = !ctr_col_missing(item, from + i) && ctr_col_i64(item, from + i);
        return p;
    }
    if (item->dict) {
        for (int64_t i = 0; i < n; i++, p += w)
            if (ctr_col_missing(item, from + i))
                memset(p, 0, w);
            else
                memcpy(p, (const char *)item->dict->data + (size_t)((const int32_t *)item->data)[from + i] * w, w);
        return p;
    }
    if (type == CTR_WKEY)
        w = 8;
    if (n)
        memcpy(p, (const char *)item->data + (size_t)from * w, (size_t)n * w);
    p += (size_t)n * w;
    if (type == CTR_WKEY) {
        if (n)
            memcpy(p, item->weight + from, (size_t)n * 4);
        p += (size_t)n * 4;
    }
    return p;
}

static uint8_t *list_write(const struct ctr_col *c, const struct ctr_rowcol *rc, int64_t row, uint8_t *p)
{
    const struct ctr_col *item = c->item;
    int64_t from, n;

    list_span(c, rc, row, &from, &n);
    put_u32(p, (uint32_t)n);
    p[4] = list_has_nulls(item);
    p += 5;
    if (p[-1]) {
        memset(p, 0, (size_t)(n + 7) / 8);
        for (int64_t i = 0; i < n; i++)
            if (ctr_col_missing(item, from + i))
                p[i >> 3] |= (uint8_t)(1 << (i & 7));
        p += (n + 7) / 8;
    }
    return rc->item == CTR_UTF8 ? list_write_text(item, from, n, p) : list_write_items(item, rc->item, from, n, p);
}

/* ---- columns to rows ---- */

int ctr_row_sizes(const struct ctr_rowformat *f, const struct ctr_col *cols, const int64_t *idx, int n, uint32_t *size,
                  struct ctr_err *err)
{
    int64_t at[CTR_ROW_TILE];
    uint64_t total[CTR_ROW_TILE];

    for (int i = 0; i < n; i++)
        total[i] = f->fixed_bytes;
    for (int k = 0; f->variable && k < f->n; k++) {
        const struct ctr_col *c;
        if (f->col[k].width)
            continue;
        c = resolve_rows(&cols[k], idx, n, at);
        if (f->col[k].type == CTR_UTF8) {
            for (int i = 0; i < n; i++)
                total[i] += at[i] < 0 ? 0 : (uint64_t)(c->offsets[at[i] + 1] - c->offsets[at[i]]);
        } else {
            for (int i = 0; i < n; i++)
                total[i] += at[i] < 0 ? 0 : list_bytes(c, &f->col[k], at[i]);
        }
    }
    for (int i = 0; i < n; i++) {
        if (total[i] > INT32_MAX)
            return ctr_fail(err, CTR_EDATA, "a row of %llu bytes is too wide: 2 GiB is the most",
                            (unsigned long long)total[i]);
        size[i] = (uint32_t)total[i];
    }
    return 0;
}

#define WRITE_SLOTS(T)                                                                                                 \
    do {                                                                                                               \
        const T *v_ = c->data;                                                                                         \
        for (int i = 0; i < n; i++) {                                                                                  \
            T x_ = at[i] < 0 ? (T)0 : v_[at[i]];                                                                       \
            memcpy(to[i] + slot, &x_, sizeof x_);                                                                      \
        }                                                                                                              \
    } while (0)

static void write_fixed(const struct ctr_rowcol *rc, const struct ctr_col *c, const int64_t *at, int n,
                        uint8_t *const *to)
{
    uint32_t slot = rc->slot;

    if (rc->type == CTR_BOOL) {
        for (int i = 0; i < n; i++)
            to[i][slot] = at[i] >= 0 && ctr_bit(c->data, at[i]);
        return;
    }
    switch (rc->width) {
    case 1: WRITE_SLOTS(uint8_t); break;
    case 2: WRITE_SLOTS(uint16_t); break;
    case 4: WRITE_SLOTS(uint32_t); break;
    default: WRITE_SLOTS(uint64_t); break;
    }
}

static void write_variable(const struct ctr_rowcol *rc, const struct ctr_col *c, const int64_t *at, int n,
                           uint8_t *const *to, uint32_t *end)
{
    const char *text = c->data;

    if (rc->type == CTR_UTF8) {
        for (int i = 0; i < n; i++) {
            if (at[i] >= 0) {
                int32_t from = c->offsets[at[i]], len = c->offsets[at[i] + 1] - from;
                copy_bytes(to[i] + end[i], text + from, (size_t)len);
                end[i] += (uint32_t)len;
            }
            put_u32(to[i] + rc->slot, end[i]);
        }
        return;
    }
    for (int i = 0; i < n; i++) {
        if (at[i] >= 0)
            end[i] = (uint32_t)(list_write(c, rc, at[i], to[i] + end[i]) - to[i]);
        put_u32(to[i] + rc->slot, end[i]);
    }
}

static void write_nulls(struct ctr_rowformat *f, int k, const int64_t *at, int n, uint8_t *const *to)
{
    uint32_t byte = f->bits_at + ((uint32_t)k >> 3);
    uint8_t bit = (uint8_t)(1 << (k & 7));

    for (int i = 0; i < n; i++)
        if (at[i] < 0) {
            to[i][byte] |= bit;
            f->col[k].any_null = true;
        }
}

void ctr_row_write(struct ctr_rowformat *f, const struct ctr_col *cols, const int64_t *idx, int n, const uint64_t *tags,
                   const uint32_t *size, uint8_t *const *to)
{
    int64_t at[CTR_ROW_TILE];
    uint32_t end[CTR_ROW_TILE];

    for (int i = 0; i < n; i++) {
        put_u32(to[i], size[i]);
        if (f->tagged)
            ctr_row_set_tag(to[i], tags[i]);
        memset(to[i] + f->bits_at, 0, ((size_t)f->n + 7) / 8);
        end[i] = f->fixed_bytes;
    }
    for (int k = 0; k < f->n; k++) {
        const struct ctr_col *c = resolve_rows(&cols[k], idx, n, at);
        if (cols[k].valid || (cols[k].dict && cols[k].dict->valid))
            write_nulls(f, k, at, n, to);
        if (f->col[k].width)
            write_fixed(&f->col[k], c, at, n, to);
        else
            write_variable(&f->col[k], c, at, n, to, end);
    }
}

/* ---- rows to columns ---- */

/* Set validity bits [at, at + n), initially 0, for values that null[i] does not mark. */
static void set_valid(uint8_t *bits, int64_t at, const uint8_t *null, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if ((at + i) % 8 || n - i < 8) {
            bits[(at + i) >> 3] |= (uint8_t)(!null[i] << ((at + i) & 7));
        } else {
            uint64_t eight;
            memcpy(&eight, null + i, sizeof eight);
            bits[(at + i) >> 3] = (uint8_t)~ctr_bool_bits(eight);
            i += 7;
        }
}

/* n values are in the buffers of b: count them, and mark the nulls. */
static int count_rows(struct ctr_colbuf *b, const uint8_t *null, int64_t n, struct ctr_err *err)
{
    size_t old = b->valid.len, need = (size_t)(b->rows + n + 7) / 8;
    int64_t nulls = 0;
    int rc;

    for (int64_t i = 0; null && i < n; i++)
        nulls += null[i];
    if (nulls || old) {
        if (need > old && (rc = ctr_buf_reserve(&b->valid, need - old, err)))
            return rc;
        if (need > old)
            memset(b->valid.data + old, 0, need - old);
        b->valid.len = need;
        if (!old)
            ctr_bits_set(b->valid.data, 0, b->rows);
        if (null)
            set_valid(b->valid.data, b->rows, null, n);
        else
            ctr_bits_set(b->valid.data, b->rows, n);
    }
    b->rows += n;
    b->nulls += nulls;
    return 0;
}

#define READ_SLOTS(T)                                                                                                  \
    do {                                                                                                               \
        T *v_ = (T *)(out->data.data + out->data.len);                                                                 \
        for (int64_t i = 0; i < n; i++)                                                                                \
            memcpy(&v_[i], rows[i] + slot, sizeof(T));                                                                 \
    } while (0)

static int read_fixed(const struct ctr_rowcol *rc, const uint8_t *const *rows, int64_t n, struct ctr_colbuf *out,
                      struct ctr_err *err)
{
    uint32_t slot = rc->slot;
    int r;

    if (rc->type == CTR_BOOL) {
        size_t need = (size_t)(out->rows + n + 7) / 8, old = out->data.len;
        if (need > old) {
            if ((r = ctr_buf_reserve(&out->data, need - old, err)))
                return r;
            memset(out->data.data + old, 0, need - old);
            out->data.len = need;
        }
        for (int64_t i = 0; i < n; i++)
            if (rows[i][slot])
                out->data.data[(out->rows + i) >> 3] |= (uint8_t)(1 << ((out->rows + i) & 7));
        return 0;
    }
    if ((r = ctr_buf_reserve(&out->data, (size_t)n * (size_t)rc->width, err)))
        return r;
    switch (rc->width) {
    case 1: READ_SLOTS(uint8_t); break;
    case 2: READ_SLOTS(uint16_t); break;
    case 4: READ_SLOTS(uint32_t); break;
    default: READ_SLOTS(uint64_t); break;
    }
    out->data.len += (size_t)n * (size_t)rc->width;
    return 0;
}

static int start_offsets(struct ctr_colbuf *out, int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(&out->offsets, ((size_t)n + 1) * 4, err);

    if (!rc && !out->offsets.len) {
        put_u32(out->offsets.data, 0);
        out->offsets.len = 4;
    }
    return rc;
}

/* Slot of the variable column before `col`, 0 when it is the first. */
static uint32_t previous_slot(const struct ctr_rowformat *f, int col)
{
    while (--col >= 0)
        if (!f->col[col].width)
            return f->col[col].slot;
    return 0;
}

static int read_text(const struct ctr_rowformat *f, int col, const uint8_t *const *rows, int64_t n,
                     struct ctr_colbuf *out, struct ctr_err *err)
{
    uint32_t slot = f->col[col].slot, before = previous_slot(f, col);
    uint64_t total = out->data.len;
    int rc;

    if ((rc = start_offsets(out, n, err)))
        return rc;
    int32_t *to = (int32_t *)(out->offsets.data + out->offsets.len);
    for (int64_t i = 0; i < n; i++)
        total += get_u32(rows[i] + slot) - (before ? get_u32(rows[i] + before) : f->fixed_bytes);
    if (total > INT32_MAX)
        return ctr_fail_too_long(err);
    if ((rc = ctr_buf_reserve(&out->data, (size_t)total - out->data.len, err)))
        return rc;
    uint8_t *p = out->data.data + out->data.len;
    for (int64_t i = 0; i < n; i++) {
        uint32_t from = before ? get_u32(rows[i] + before) : f->fixed_bytes;
        uint32_t len = get_u32(rows[i] + slot) - from;
        copy_bytes(p, rows[i] + from, len);
        p += len;
        to[i] = (int32_t)(p - out->data.data);
    }
    out->offsets.len += (size_t)n * 4;
    out->data.len = (size_t)total;
    return 0;
}

static int read_item_text(const uint8_t *p, int64_t n, struct ctr_colbuf *out, struct ctr_err *err)
{
    uint64_t base = out->data.len, bytes = n ? get_u32(p + 4 * (n - 1)) : 0;
    int rc;

    if (base + bytes > INT32_MAX)
        return ctr_fail_too_long(err);
    if ((rc = start_offsets(out, n, err)) || (rc = ctr_buf_append(&out->data, p + 4 * n, (size_t)bytes, err)))
        return rc;
    for (int64_t i = 0; i < n; i++, out->offsets.len += 4)
        put_u32(out->offsets.data + out->offsets.len, (uint32_t)base + get_u32(p + 4 * i));
    return 0;
}

static int read_items(const uint8_t *p, int64_t n, struct ctr_colbuf *out, struct ctr_err *err)
{
    size_t w = out->type == CTR_WKEY ? 8 : (size_t)ctr_types[out->type].width;
    int rc;

    if (out->type == CTR_UTF8)
        return read_item_text(p, n, out, err);
    if (out->type == CTR_BOOL) {
        struct ctr_rowcol flat = { .type = CTR_BOOL };
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *at = p + i;
            if ((rc = read_fixed(&flat, &at, 1, out, err)))
                return rc;
            out->rows++; /* read_fixed uses rows as its position; restored below */
        }
        out->rows -= n;
        return 0;
    }
    rc = ctr_buf_append(&out->data, p, (size_t)n * w, err);
    if (!rc && out->type == CTR_WKEY)
        rc = ctr_buf_append(&out->weight, p + (size_t)n * w, (size_t)n * 4, err);
    return rc;
}

static int read_list(const uint8_t *p, struct ctr_colbuf *item, struct ctr_err *err)
{
    int64_t n = get_u32(p);
    bool nulls = p[4];
    const uint8_t *bits = p + 5;
    int rc;

    if (item->rows + n > INT32_MAX)
        return ctr_fail_too_long(err);
    p = bits + (nulls ? (n + 7) / 8 : 0);
    if ((rc = read_items(p, n, item, err)))
        return rc;
    if (!nulls)
        return count_rows(item, NULL, n, err);
    for (int64_t i = 0; i < n; i++) {
        uint8_t null = ctr_bit(bits, i);
        if ((rc = count_rows(item, &null, 1, err)))
            return rc;
    }
    return 0;
}

static int read_lists(const struct ctr_rowformat *f, int col, const uint8_t *const *rows, const uint8_t *null,
                      int64_t n, struct ctr_colbuf *out, struct ctr_err *err)
{
    uint32_t before = previous_slot(f, col);
    int rc = out->type == CTR_LIST ? start_offsets(out, n, err) : 0;

    for (int64_t i = 0; !rc && i < n; i++) {
        if (!(null && null[i]))
            rc = read_list(rows[i] + (before ? get_u32(rows[i] + before) : f->fixed_bytes), out->item, err);
        else if (out->type == CTR_FIXED)
            for (int32_t k = 0; !rc && k < out->width; k++)
                rc = ctr_colbuf_null(out->item, err);
        if (!rc && out->type == CTR_LIST) {
            put_u32(out->offsets.data + out->offsets.len, (uint32_t)out->item->rows);
            out->offsets.len += 4;
        }
    }
    return rc;
}

static int read_tile(const struct ctr_rowformat *f, int col, const uint8_t *const *rows, int64_t n,
                     struct ctr_colbuf *out, struct ctr_err *err)
{
    uint8_t null[CTR_ROW_TILE];
    const uint8_t *some[CTR_ROW_TILE];
    const struct ctr_rowcol *c = &f->col[col];
    uint8_t any = 0;
    int rc;

    for (int64_t i = 0; i < n; i++)
        any |= null[i] = !rows[i];
    for (int64_t i = 0; any && i < n; i++)
        some[i] = rows[i] ? rows[i] : f->none;
    rows = any ? some : rows;
    for (int64_t i = 0; c->any_null && i < n; i++)
        any |= null[i] |= ctr_row_null(f, rows[i], col);
    if (c->width)
        rc = read_fixed(c, rows, n, out, err);
    else if (c->type == CTR_UTF8)
        rc = read_text(f, col, rows, n, out, err);
    else
        rc = read_lists(f, col, rows, any ? null : NULL, n, out, err);
    return rc ? rc : count_rows(out, any ? null : NULL, n, err);
}

int ctr_row_read(const struct ctr_rowformat *f, int col, const uint8_t *const *rows, int64_t n, struct ctr_colbuf *out,
                 struct ctr_err *err)
{
    for (int64_t done = 0; done < n; done += CTR_ROW_TILE) {
        int rc = read_tile(f, col, rows + done, CTR_MIN(n - done, CTR_ROW_TILE), out, err);
        if (rc)
            return rc;
    }
    return 0;
}

int64_t ctr_row_i64(const struct ctr_rowformat *f, const uint8_t *row, int col)
{
    const struct ctr_rowcol *c = &f->col[col];
    uint64_t v = 0;
    int shift = 64 - 8 * c->width;

    memcpy(&v, row + c->slot, (size_t)c->width); /* little-endian */
    if (ctr_types[c->type].is_signed)
        return (int64_t)(v << shift) >> shift;
    return (int64_t)v;
}

double ctr_row_f64(const struct ctr_rowformat *f, const uint8_t *row, int col)
{
    const struct ctr_rowcol *c = &f->col[col];
    uint16_t h;
    float s;
    double d;

    switch (c->type) {
    case CTR_F16: memcpy(&h, row + c->slot, 2); return (double)ctr_f16_to_f32(h);
    case CTR_F32: memcpy(&s, row + c->slot, 4); return (double)s;
    case CTR_F64: memcpy(&d, row + c->slot, 8); return d;
    default: return (double)ctr_row_i64(f, row, col);
    }
}

/* ---- arena ---- */

void ctr_rowarena_init(struct ctr_rowarena *a, size_t block_bytes)
{
    *a = (struct ctr_rowarena){ .block_bytes = block_bytes };
}

/* Move on to a block with room for `need` bytes: an existing or a new one. */
static int arena_block(struct ctr_rowarena *a, size_t need, struct ctr_err *err)
{
    size_t bytes = CTR_MAX(need, a->block_bytes);
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;

    while (a->n < a->have) {
        a->block[a->n].used = 0;
        a->in_use += (int64_t)a->block[a->n].size;
        if (a->block[a->n++].size >= need)
            return 0;
    }
    int rc = ctr_array_grow(&a->block, a->have, &a->cap, sizeof *a->block, err);
    if (rc)
        return rc;
    bytes = (bytes + align - 1) & ~(align - 1);
    struct ctr_rowarena_block b = { aligned_alloc(align, bytes), 0, bytes };
    if (!b.data)
        return ctr_fail_nomem(err, bytes);
    if (align == HUGE_PAGE)
        (void)madvise(b.data, bytes, MADV_HUGEPAGE); /* a hint: fewer TLB misses for rows outside the cache */
    a->block[a->n++] = b;
    a->have++;
    a->bytes += (int64_t)bytes;
    a->in_use += (int64_t)bytes;
    return 0;
}

int ctr_rowarena_place(struct ctr_rowarena *a, const uint32_t *size, int n, uint8_t **at, struct ctr_err *err)
{
    for (int i = 0; i < n; i++) {
        struct ctr_rowarena_block *b = a->n ? &a->block[a->n - 1] : NULL;
        if (!b || b->size - b->used < size[i]) {
            int rc = arena_block(a, size[i], err);
            if (rc)
                return rc;
            b = &a->block[a->n - 1];
        }
        at[i] = b->data + b->used;
        b->used += size[i];
    }
    return 0;
}

void ctr_rowarena_clear(struct ctr_rowarena *a)
{
    a->n = 0;
    a->in_use = 0;
}

void ctr_rowarena_free(struct ctr_rowarena *a)
{
    for (int i = 0; i < a->have; i++)
        free(a->block[i].data);
    free(a->block);
    *a = (struct ctr_rowarena){ 0 };
}

int ctr_rowarena_halve(struct ctr_rowarena *from, struct ctr_rowarena *to, struct ctr_err *err)
{
    const int keep = from->have - from->have / 2, n = from->have - keep;
    struct ctr_rowarena_block *block = calloc((size_t)n + 1, sizeof *block);

    if (!block)
        return ctr_fail_nomem(err, ((size_t)n + 1) * sizeof *block);
    memcpy(block, from->block + keep, (size_t)n * sizeof *block);
    ctr_rowarena_free(to);
    *to = (struct ctr_rowarena){ .block = block, .have = n, .cap = n + 1, .block_bytes = from->block_bytes };
    for (int i = 0; i < n; i++)
        to->bytes += (int64_t)block[i].size;
    from->have = keep;
    from->bytes -= to->bytes;
    return 0;
}

int ctr_rowarena_add(struct ctr_rowarena *a, struct ctr_rowformat *f, const struct ctr_col *cols, const int64_t *idx,
                     int n, const uint64_t *tags, uint8_t **at, struct ctr_err *err)
{
    uint32_t size[CTR_ROW_TILE];
    int rc = ctr_row_sizes(f, cols, idx, n, size, err);

    if (!rc)
        rc = ctr_rowarena_place(a, size, n, at, err);
    if (!rc)
        ctr_row_write(f, cols, idx, n, tags, size, at);
    return rc;
}
