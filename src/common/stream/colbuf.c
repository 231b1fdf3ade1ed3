/* SPDX-License-Identifier: Apache-2.0
 *
 * colbuf: growing columns. Invariants: offsets has rows+1 entries after the first append; valid is empty until the
 * first null, then has a bit per row; bits past the last row are 0. */
#include "common/stream/batch.h"

#include <stdlib.h>

/* A column of texts, "ab", null, "c", is
 *
 *     data     a b c          what ctr_colbuf_view shows is these buffers: no copy is made at the end of a batch
 *     offsets  0 2 2 3        text i is data[offsets[i] .. offsets[i + 1])
 *     valid    1 0 1          bits, made at the first null; rows 3, nulls 1
 *
 * A list column has offsets into its `item`, which is a column of its own: [1, 2], null, [3] has the items 1 2 3. A
 * list is filled from the items up: append items to `item`, then ctr_colbuf_close ends the row. A fixed_size_list has
 * no offsets, so a null is `width` null items. A dictionary column (is_dict) has indexes in data, and borrows the
 * values.
 *
 * Each way in (a value, a range of rows, a gather of rows) does two things: it appends to the buffers of the type, then
 * valid_extend or valid_start counts the rows. A function that fails in between leaves buffers longer than `rows` says;
 * such a column is only cleared or freed. */

int ctr_colbuf_init(struct ctr_colbuf *b, const struct ctr_field *f, struct ctr_err *err)
{
    const struct ctr_field item = { .type = f->item };
    *b = (struct ctr_colbuf){ .type = f->type, .width = f->width, .is_dict = f->dict };
    if (f->dict || !ctr_type_list(f->type))
        return 0;
    b->item = calloc(1, sizeof *b->item);
    return b->item ? ctr_colbuf_init(b->item, &item, err) : ctr_fail_nomem(err, sizeof *b->item);
}

void ctr_colbuf_free(struct ctr_colbuf *b)
{
    if (b->item)
        ctr_colbuf_free(b->item);
    free(b->item);
    ctr_buf_free(&b->data);
    ctr_buf_free(&b->valid);
    ctr_buf_free(&b->offsets);
    ctr_buf_free(&b->weight);
    *b = (struct ctr_colbuf){ 0 };
}

void ctr_colbuf_clear(struct ctr_colbuf *b)
{
    b->rows = b->nulls = 0;
    b->data.len = b->valid.len = b->offsets.len = b->weight.len = 0;
    b->dict = NULL;
    if (b->item)
        ctr_colbuf_clear(b->item);
}

/* ---- validity ---- */

/* Room for bits up to row `rows`, zeroed. */
static int bits_reserve(struct ctr_buf *b, int64_t rows, struct ctr_err *err)
{
    size_t need = (size_t)(rows + 7) / 8;
    int rc;

    if (need <= b->len)
        return 0;
    if ((rc = ctr_buf_reserve(b, need - b->len, err)))
        return rc;
    memset(b->data + b->len, 0, need - b->len);
    b->len = need;
    return 0;
}

void ctr_bits_set(uint8_t *bits, int64_t from, int64_t n)
{
    int64_t to = from + n;

    for (; from < to && (from & 7); from++)
        bits[from >> 3] |= (uint8_t)(1 << (from & 7));
    if (to - from >= 8) {
        memset(bits + (from >> 3), 0xff, (size_t)((to - from) >> 3));
        from += (to - from) & ~(int64_t)7;
    }
    for (; from < to; from++)
        bits[from >> 3] |= (uint8_t)(1 << (from & 7));
}

static void bits_copy(uint8_t *to, int64_t at, const uint8_t *from, int64_t start, int64_t n)
{
    int64_t i = 0;

    if (!(at & 7) && !(start & 7)) {
        memcpy(to + (at >> 3), from + (start >> 3), (size_t)(n >> 3));
        i = n & ~(int64_t)7;
    }
    for (; i < n; i++)
        if (ctr_bit(from, start + i))
            to[(at + i) >> 3] |= (uint8_t)(1 << ((at + i) & 7));
}

/* Create the bitmap if needed and cover n more rows; existing rows are present. */
static int valid_start(struct ctr_colbuf *b, int64_t n, struct ctr_err *err)
{
    bool fresh = !b->valid.len;
    int rc = bits_reserve(&b->valid, b->rows + n, err);

    if (!rc && fresh)
        ctr_bits_set(b->valid.data, 0, b->rows);
    return rc;
}

/* Record that n present rows were appended (rows not yet counted). */
static int valid_extend(struct ctr_colbuf *b, int64_t n, struct ctr_err *err)
{
    int rc;

    if (b->valid.len) {
        if ((rc = bits_reserve(&b->valid, b->rows + n, err)))
            return rc;
        ctr_bits_set(b->valid.data, b->rows, n);
    }
    b->rows += n;
    return 0;
}

/* ---- single values ---- */

static bool has_offsets(const struct ctr_colbuf *b)
{
    return !b->is_dict && (b->type == CTR_UTF8 || b->type == CTR_LIST);
}

static size_t value_width(const struct ctr_colbuf *b)
{
    return b->is_dict ? sizeof(int32_t) : (size_t)ctr_types[b->type].width;
}

int ctr_colbuf_reserve_offsets(struct ctr_colbuf *b, int64_t n, struct ctr_err *err)
{
    int rc = ctr_buf_reserve(&b->offsets, ((size_t)n + 1) * sizeof(int32_t), err);

    if (!rc && !b->offsets.len) {
        *(int32_t *)b->offsets.data = 0;
        b->offsets.len = sizeof(int32_t);
    }
    return rc;
}

int ctr_fail_too_long(struct ctr_err *err)
{
    (void)ctr_fail(err, CTR_ELARGE,
                   "a column holds more than 2^31-1 bytes or items in one batch; make batches smaller");
    return ctr_err_remedy(err, ", by --batch here or by ctr-cat --batch N before this");
}

static int offsets_push(struct ctr_colbuf *b, int64_t end, struct ctr_err *err)
{
    int rc;

    if (end > INT32_MAX)
        return ctr_fail_too_long(err);
    if ((rc = ctr_colbuf_reserve_offsets(b, 1, err)))
        return rc;
    *(int32_t *)(b->offsets.data + b->offsets.len) = (int32_t)end;
    b->offsets.len += sizeof(int32_t);
    return 0;
}

int ctr_colbuf_null(struct ctr_colbuf *b, struct ctr_err *err)
{
    static const uint64_t zero;
    int rc = valid_start(b, 1, err);

    if (!rc && has_offsets(b))
        rc = offsets_push(b, b->type == CTR_UTF8 ? (int64_t)b->data.len : b->item->rows, err);
    else if (!rc && b->type == CTR_BOOL && !b->is_dict)
        rc = bits_reserve(&b->data, b->rows + 1, err);
    else if (!rc && b->type == CTR_FIXED && !b->is_dict)
        for (int32_t i = 0; !rc && i < b->width; i++)
            rc = ctr_colbuf_null(b->item, err);
    else if (!rc)
        rc = ctr_buf_append(&b->data, &zero, value_width(b), err);
    if (!rc && b->type == CTR_WKEY)
        rc = ctr_buf_append(&b->weight, &zero, sizeof(float), err);
    if (rc)
        return rc;
    b->rows++;
    b->nulls++;
    return 0;
}

int ctr_colbuf_i64(struct ctr_colbuf *b, int64_t v, struct ctr_err *err)
{
    int rc;

    if (b->type == CTR_BOOL) {
        if ((rc = bits_reserve(&b->data, b->rows + 1, err)))
            return rc;
        if (v)
            b->data.data[b->rows >> 3] |= (uint8_t)(1 << (b->rows & 7));
    } else if ((rc = ctr_buf_append(&b->data, &v, value_width(b), err))) { /* little-endian: the low bytes */
        return rc;
    }
    return valid_extend(b, 1, err);
}

int ctr_colbuf_f64(struct ctr_colbuf *b, double v, struct ctr_err *err)
{
    float f = (float)v;
    uint16_t h = b->type == CTR_F16 ? ctr_f32_to_f16(f) : 0;
    const void *p = b->type == CTR_F64 ? (const void *)&v : b->type == CTR_F32 ? (const void *)&f : (const void *)&h;
    int rc = ctr_buf_append(&b->data, p, value_width(b), err);

    return rc ? rc : valid_extend(b, 1, err);
}

int ctr_colbuf_str(struct ctr_colbuf *b, const char *p, size_t n, struct ctr_err *err)
{
    int rc = ctr_buf_append(&b->data, p, n, err);

    if (!rc)
        rc = offsets_push(b, (int64_t)b->data.len, err);
    return rc ? rc : valid_extend(b, 1, err);
}

void ctr_append_i64(struct ctr_append *a, bool there, int64_t v)
{
    if (!a->rc)
        a->rc = there ? ctr_colbuf_i64(a->next, v, a->err) : ctr_colbuf_null(a->next, a->err);
    a->next++;
}

void ctr_append_f64(struct ctr_append *a, bool there, double v)
{
    if (!a->rc)
        a->rc = there ? ctr_colbuf_f64(a->next, v, a->err) : ctr_colbuf_null(a->next, a->err);
    a->next++;
}

void ctr_append_str(struct ctr_append *a, const char *p, size_t n)
{
    if (!a->rc)
        a->rc = p ? ctr_colbuf_str(a->next, p, n, a->err) : ctr_colbuf_null(a->next, a->err);
    a->next++;
}

void ctr_append_text(struct ctr_append *a, const char *text)
{
    ctr_append_str(a, text, text ? strlen(text) : 0);
}

int ctr_colbuf_close(struct ctr_colbuf *b, struct ctr_err *err)
{
    int rc = 0;

    if (b->type == CTR_FIXED && b->item->rows != (b->rows + 1) * b->width)
        return ctr_fail(err, CTR_EDATA, "a list has %lld items where every list has %d",
                        (long long)(b->item->rows - b->rows * b->width), b->width);
    if (b->type == CTR_LIST)
        rc = offsets_push(b, b->item->rows, err);
    return rc ? rc : valid_extend(b, 1, err);
}

int ctr_colbuf_wkey(struct ctr_colbuf *b, uint64_t key, float weight, struct ctr_err *err)
{
    int rc = ctr_buf_append(&b->data, &key, sizeof key, err);

    if (!rc)
        rc = ctr_buf_append(&b->weight, &weight, sizeof weight, err);
    return rc ? rc : valid_extend(b, 1, err);
}

/* ---- taking rows back ---- */

static void bits_cut(struct ctr_buf *b, int64_t rows)
{
    size_t n = (size_t)(rows + 7) / 8;
    if (b->len <= n && !(rows & 7))
        return;
    b->len = CTR_MIN(b->len, n);
    if (rows & 7 && b->len == n)
        b->data[n - 1] &= (uint8_t)((1 << (rows & 7)) - 1);
}

void ctr_colbuf_rewind(struct ctr_colbuf *b, int64_t rows)
{
    int64_t end = b->offsets.len ? ((const int32_t *)b->offsets.data)[CTR_MIN(rows, b->rows)] : 0;
    if (b->valid.len) {
        for (int64_t i = rows; i < b->rows; i++)
            b->nulls -= !ctr_bit(b->valid.data, i);
        bits_cut(&b->valid, rows);
        if (!b->nulls)
            b->valid.len = 0;
    }
    b->rows = CTR_MIN(rows, b->rows);
    switch (b->type) {
    case CTR_BOOL: bits_cut(&b->data, b->rows); break;
    case CTR_UTF8: b->data.len = (size_t)end; break;
    case CTR_LIST: ctr_colbuf_rewind(b->item, end); break;
    case CTR_FIXED: ctr_colbuf_rewind(b->item, b->rows * b->width); break;
    default:
        b->data.len = (size_t)b->rows * (size_t)ctr_types[b->type].width;
        b->weight.len = CTR_MIN(b->weight.len, (size_t)b->rows * sizeof(float));
        break;
    }
    if (b->offsets.len)
        b->offsets.len = ((size_t)b->rows + 1) * sizeof(int32_t);
}

/* ---- ranges ---- */

static int range_offsets(struct ctr_colbuf *b, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err)
{
    int64_t base = b->type == CTR_UTF8 ? (int64_t)b->data.len : b->item->rows;
    int64_t start = c->offsets[from], end = c->offsets[from + n], shift = base - start;
    int rc;

    if (base + (end - start) > INT32_MAX)
        return offsets_push(b, INT64_MAX, err);
    if ((rc = ctr_colbuf_reserve_offsets(b, n, err)))
        return rc;
    int32_t *to = (int32_t *)(b->offsets.data + b->offsets.len);
    for (int64_t i = 0; i < n; i++)
        to[i] = (int32_t)(c->offsets[from + i + 1] + shift);
    b->offsets.len += (size_t)n * sizeof *to;
    if (b->type == CTR_UTF8)
        return ctr_buf_append(&b->data, (const char *)c->data + start, (size_t)(end - start), err);
    return ctr_colbuf_range(b->item, c->item, start, end - start, err);
}

static int range_values(struct ctr_colbuf *b, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err)
{
    size_t w = value_width(b);
    int rc;

    if (has_offsets(b))
        return range_offsets(b, c, from, n, err);
    if (b->type == CTR_FIXED && !b->is_dict)
        return ctr_colbuf_range(b->item, c->item, from * b->width, n * b->width, err);
    if (b->type == CTR_BOOL && !b->is_dict) {
        if (!(rc = bits_reserve(&b->data, b->rows + n, err)))
            bits_copy(b->data.data, b->rows, c->data, from, n);
        return rc;
    }
    rc = ctr_buf_append(&b->data, (const char *)c->data + (size_t)from * w, (size_t)n * w, err);
    if (!rc && b->type == CTR_WKEY)
        rc = ctr_buf_append(&b->weight, c->weight + from, (size_t)n * sizeof(float), err);
    return rc;
}

/* Rows [from, from+n) of an encoded column, decoded. */
static int range_decode(struct ctr_colbuf *b, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err)
{
    int64_t idx[256];

    for (int64_t done = 0; done < n;) {
        int64_t k = CTR_MIN(n - done, (int64_t)CTR_COUNT(idx));
        for (int64_t i = 0; i < k; i++)
            idx[i] = ctr_col_null(c, from + done + i) ? -1 : ((const int32_t *)c->data)[from + done + i];
        int rc = ctr_colbuf_gather(b, c->dict, idx, k, err);
        if (rc)
            return rc;
        done += k;
    }
    return 0;
}

int ctr_colbuf_range(struct ctr_colbuf *b, const struct ctr_col *c, int64_t from, int64_t n, struct ctr_err *err)
{
    int rc;

    if (n <= 0)
        return 0;
    if (c->dict && !b->is_dict)
        return range_decode(b, c, from, n, err);
    if (b->is_dict)
        b->dict = c->dict;
    if ((rc = range_values(b, c, from, n, err)))
        return rc;
    int64_t nulls = c->valid ? n - ctr_bits_count(c->valid, from, n) : 0;
    if (!nulls)
        return valid_extend(b, n, err);
    if ((rc = valid_start(b, n, err)))
        return rc;
    bits_copy(b->valid.data, b->rows, c->valid, from, n);
    b->rows += n;
    b->nulls += nulls;
    return 0;
}

/* Numbers of a narrower type, or nulls of another type, as numbers of the buffer's. */
static int append_wider(struct ctr_colbuf *b, const struct ctr_col *c, int64_t rows, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < rows; i++)
        rc = ctr_col_missing(c, i)         ? ctr_colbuf_null(b, err)
             : ctr_types[b->type].floating ? ctr_colbuf_f64(b, ctr_col_f64(c, i), err)
                                           : ctr_colbuf_i64(b, ctr_col_i64(c, i), err);
    return rc;
}

int ctr_colbuf_match(struct ctr_colbuf *b, const struct ctr_col *c, int64_t rows, struct ctr_col *out,
                     struct ctr_err *err)
{
    static const int32_t no_offset[1];
    static const struct ctr_col no_entry = { .type = CTR_UTF8, .data = "", .offsets = no_offset };
    const bool same = c && (c->dict ? c->dict->type : c->type) == b->type;
    int rc = 0;
    if (same && (b->is_dict || !c->dict)) {
        *out = *c;
        return 0;
    }
    ctr_colbuf_clear(b);
    for (int64_t k = 0; !c && !rc && k < rows; k++)
        rc = ctr_colbuf_null(b, err);
    if (c)
        rc = same ? ctr_colbuf_range(b, c, 0, rows, err) : append_wider(b, c, rows, err);
    if (b->is_dict)
        b->dict = &no_entry;
    if (!rc)
        *out = *ctr_colbuf_view(b);
    return rc;
}

/* ---- gathers ---- */

#define GATHER(T)                                                                                                      \
    do {                                                                                                               \
        T *to_ = (T *)(b->data.data + b->data.len);                                                                    \
        const T *v_ = c->data;                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to_[i] = idx[i] < 0 ? (T)0 : v_[idx[i]];                                                                   \
        b->data.len += (size_t)n * sizeof(T);                                                                          \
    } while (0)

static int gather_fixed_width(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n,
                              struct ctr_err *err)
{
    size_t w = value_width(b);
    int rc = ctr_buf_reserve(&b->data, (size_t)n * w, err);

    if (rc)
        return rc;
    switch (w) {
    case 1: GATHER(uint8_t); break;
    case 2: GATHER(uint16_t); break;
    case 4: GATHER(uint32_t); break;
    default: GATHER(uint64_t); break;
    }
    if (b->type != CTR_WKEY || b->is_dict)
        return 0;
    if ((rc = ctr_buf_reserve(&b->weight, (size_t)n * sizeof(float), err)))
        return rc;
    for (int64_t i = 0; i < n; i++)
        ((float *)(b->weight.data + b->weight.len))[i] = idx[i] < 0 ? 0 : c->weight[idx[i]];
    b->weight.len += (size_t)n * sizeof(float);
    return 0;
}

static int gather_text(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n,
                       struct ctr_err *err)
{
    int64_t total = (int64_t)b->data.len;
    int rc;

    for (int64_t i = 0; i < n; i++)
        if (idx[i] >= 0)
            total += c->offsets[idx[i] + 1] - c->offsets[idx[i]];
    if (total > INT32_MAX)
        return offsets_push(b, total, err);
    if ((rc = ctr_colbuf_reserve_offsets(b, n, err)) ||
        (rc = ctr_buf_reserve(&b->data, (size_t)total - b->data.len, err)))
        return rc;
    int32_t *to = (int32_t *)(b->offsets.data + b->offsets.len);
    uint8_t *out = b->data.data + b->data.len;
    for (int64_t i = 0; i < n; i++) {
        if (idx[i] >= 0) {
            size_t len = (size_t)(c->offsets[idx[i] + 1] - c->offsets[idx[i]]);
            memcpy(out, (const char *)c->data + c->offsets[idx[i]], len);
            out += len;
        }
        to[i] = (int32_t)(out - b->data.data);
    }
    b->offsets.len += (size_t)n * sizeof *to;
    b->data.len = (size_t)total;
    return 0;
}

static int gather_lists(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n,
                        struct ctr_err *err)
{
    int rc = 0;

    for (int64_t i = 0; !rc && i < n; i++) {
        if (b->type == CTR_LIST) {
            if (idx[i] >= 0)
                rc = ctr_colbuf_range(b->item, c->item, c->offsets[idx[i]], c->offsets[idx[i] + 1] - c->offsets[idx[i]],
                                      err);
            if (!rc)
                rc = offsets_push(b, b->item->rows, err);
        } else if (idx[i] >= 0) {
            rc = ctr_colbuf_range(b->item, c->item, idx[i] * b->width, b->width, err);
        } else {
            for (int32_t k = 0; !rc && k < b->width; k++)
                rc = ctr_colbuf_null(b->item, err);
        }
    }
    return rc;
}

static int gather_values(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n,
                         struct ctr_err *err)
{
    int rc;

    if (b->is_dict)
        return gather_fixed_width(b, c, idx, n, err);
    if (b->type == CTR_UTF8)
        return gather_text(b, c, idx, n, err);
    if (ctr_type_list(b->type))
        return gather_lists(b, c, idx, n, err);
    if (b->type != CTR_BOOL)
        return gather_fixed_width(b, c, idx, n, err);
    if ((rc = bits_reserve(&b->data, b->rows + n, err)))
        return rc;
    for (int64_t i = 0; i < n; i++)
        if (idx[i] >= 0 && ctr_bit(c->data, idx[i]))
            b->data.data[(b->rows + i) >> 3] |= (uint8_t)(1 << ((b->rows + i) & 7));
    return 0;
}

/* Gather from an encoded column into plain values: compose the indices. */
static int gather_decode(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n,
                         struct ctr_err *err)
{
    int64_t entry[256];

    for (int64_t done = 0; done < n;) {
        int64_t k = CTR_MIN(n - done, (int64_t)CTR_COUNT(entry));
        for (int64_t i = 0; i < k; i++) {
            int64_t r = idx[done + i];
            entry[i] = r < 0 || ctr_col_null(c, r) ? -1 : ((const int32_t *)c->data)[r];
        }
        int rc = ctr_colbuf_gather(b, c->dict, entry, k, err);
        if (rc)
            return rc;
        done += k;
    }
    return 0;
}

int ctr_colbuf_gather(struct ctr_colbuf *b, const struct ctr_col *c, const int64_t *idx, int64_t n, struct ctr_err *err)
{
    int64_t nulls = 0;
    int rc;

    if (n <= 0)
        return 0;
    if (c->dict && !b->is_dict)
        return gather_decode(b, c, idx, n, err);
    if (b->is_dict)
        b->dict = c->dict;
    if ((rc = gather_values(b, c, idx, n, err)))
        return rc;
    for (int64_t i = 0; i < n; i++)
        nulls += idx[i] < 0 || (c->valid && !ctr_bit(c->valid, idx[i]));
    if (!nulls)
        return valid_extend(b, n, err);
    if ((rc = valid_start(b, n, err)))
        return rc;
    for (int64_t i = 0; i < n; i++)
        if (idx[i] >= 0 && !(c->valid && !ctr_bit(c->valid, idx[i])))
            b->valid.data[(b->rows + i) >> 3] |= (uint8_t)(1 << ((b->rows + i) & 7));
    b->rows += n;
    b->nulls += nulls;
    return 0;
}

const struct ctr_col *ctr_colbuf_view(struct ctr_colbuf *b)
{
    static const int32_t no_offsets[2];
    static const uint8_t no_data[CTR_PAD];
    const void *offsets = b->offsets.len ? (const void *)b->offsets.data : no_offsets;

    b->view = (struct ctr_col){ .type = b->type,
                                .rows = b->rows,
                                .nulls = b->nulls,
                                .valid = b->nulls ? b->valid.data : NULL,
                                .data = b->data.data ? (const void *)b->data.data : no_data,
                                .offsets = has_offsets(b) ? offsets : NULL,
                                .weight = b->type == CTR_WKEY ? (const void *)b->weight.data : NULL,
                                .item = b->item ? ctr_colbuf_view(b->item) : NULL,
                                .dict = b->is_dict ? b->dict : NULL };
    return &b->view;
}

/* ---- batches ---- */

int ctr_batchbuf_init(struct ctr_batchbuf *b, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0;

    *b = (struct ctr_batchbuf){ .schema = s };
    b->col = calloc((size_t)s->n + 1, sizeof *b->col);
    b->views = calloc((size_t)s->n + 1, sizeof *b->views);
    if (!b->col || !b->views) {
        free(b->col);
        free(b->views);
        *b = (struct ctr_batchbuf){ 0 };
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *b->col);
    }
    for (int i = 0; !rc && i < s->n; i++)
        rc = ctr_colbuf_init(&b->col[i], &s->f[i], err);
    if (rc)
        ctr_batchbuf_free(b);
    return rc;
}

void ctr_batchbuf_free(struct ctr_batchbuf *b)
{
    for (int i = 0; b->col && i < b->schema->n; i++)
        ctr_colbuf_free(&b->col[i]);
    free(b->col);
    free(b->views);
    *b = (struct ctr_batchbuf){ 0 };
}

void ctr_batchbuf_clear(struct ctr_batchbuf *b)
{
    for (int i = 0; i < b->schema->n; i++)
        ctr_colbuf_clear(&b->col[i]);
}

int64_t ctr_batchbuf_rows(const struct ctr_batchbuf *b)
{
    return b->schema->n ? b->col[0].rows : 0;
}

int ctr_batchbuf_range(struct ctr_batchbuf *b, const struct ctr_batch *from, int64_t start, int64_t n,
                       struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < b->schema->n; i++)
        rc = ctr_colbuf_range(&b->col[i], &from->col[i], start, n, err);
    return rc;
}

int ctr_batchbuf_gather(struct ctr_batchbuf *b, const struct ctr_batch *from, const int64_t *idx, int64_t n,
                        struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < b->schema->n; i++)
        rc = ctr_colbuf_gather(&b->col[i], &from->col[i], idx, n, err);
    return rc;
}

const struct ctr_batch *ctr_batchbuf_view(struct ctr_batchbuf *b)
{
    for (int i = 0; i < b->schema->n; i++)
        b->views[i] = *ctr_colbuf_view(&b->col[i]);
    b->batch = (struct ctr_batch){ .schema = b->schema, .rows = ctr_batchbuf_rows(b), .col = b->views };
    return &b->batch;
}
