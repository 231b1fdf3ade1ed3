/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_write: row groups, column chunks and pages. Rows are collected until a row group is full (2^20 rows, or what
 * memory allows); then each leaf is encoded on a thread of its own, and the chunks are written in order. What the
 * footer needs of a chunk is kept as bytes (parquet_writefooter.c).
 *
 *     chunk:  [dictionary page] data page …
 *     page:   header, then packed: repetition levels, definition levels, values
 *
 * Encodings are chosen a chunk: a dictionary where values repeat; else DELTA_BINARY_PACKED for integers that lie close
 * to each other, DELTA_LENGTH_BYTE_ARRAY for texts, BYTE_STREAM_SPLIT for floats where a sample packs better so, else
 * PLAIN. Statistics follow the format's rules: NaN is left out, zero is -0 as a least and +0 as a largest value, long
 * texts are cut. */
#include "common/parquet/parquet_write_impl.h"

#include <math.h>
#include <stdlib.h>
#include <zlib.h>

enum {
    GROUP_ROWS = 1 << 20,
    STEP = 4096, /* rows after which a row group may end, so that it depends on no batch */
    PAGE_ROWS = 20000,
    PAGE_BYTES = 1 << 20,
    DICT_BYTES = 1 << 20,
    SAMPLE = 8192, /* values by which an encoding is chosen */
    BOUND_BYTES = 64,
};
/* The lists [7, null], null, [] and [7, 7, 9] of int64 as a chunk:
 *
 *     find_levels       def  3 2 | 0 | 1 | 3 3 3, rep  0 1 | 0 | 0 | 0 1 1, index 0 2 3 4: items that are not null
 *     try_dictionary    two values among four: it pays; 7 is entry 0, 9 is entry 1
 *     put_dictionary    a page of PLAIN values: 7 9
 *     put_page          rep in 1 bit each, def in 2, both with their bytes in front; a byte 1, the width of an index;
 *                       indices 0 0 0 1; bounds 7 and 9, 3 levels without a value
 *     put_statistics    the same of the chunk, and the bounds of its pages
 *
 * A leaf without lists has no rep, and its index has rows. */

/* ---- values of a leaf ---- */

static const struct ctr_col *values_of(const struct leaf *l, const struct ctr_batch *b)
{
    const struct ctr_col *c = &b->col[l->column];
    return l->part == WHOLE ? c : c->item;
}

static double real_at(const struct leaf *l, const struct ctr_col *v, int64_t i)
{
    return l->part == WEIGHT ? (double)v->weight[i] : ctr_col_f64(v, i);
}

static bool is_real(const struct leaf *l)
{
    return ctr_types[l->type].floating;
}

/* Values of an unsigned type are compared as such. */
static bool is_unsigned(const struct leaf *l, const struct ctr_parquet_writer *w)
{
    return ctr_types[l->type].integer && !ctr_types[l->type].is_signed && !(l->type == CTR_U64 && w->o.signed_keys);
}

/* ---- bounds ---- */

static int order(const struct leaf *l, bool unsigned_, const struct bound *a, const struct bound *b)
{
    if (l->type == CTR_UTF8) {
        const size_t n = CTR_MIN(a->s.n, b->s.n);
        const int c = n ? memcmp(a->s.p, b->s.p, n) : 0;
        return c ? c : (a->s.n > b->s.n) - (a->s.n < b->s.n);
    }
    if (is_real(l))
        return (a->f > b->f) - (a->f < b->f);
    if (unsigned_)
        return ((uint64_t)a->i > (uint64_t)b->i) - ((uint64_t)a->i < (uint64_t)b->i);
    return (a->i > b->i) - (a->i < b->i);
}

static void widen(const struct leaf *l, bool unsigned_, struct bounds *b, const struct bound *v)
{
    if (!b->any || order(l, unsigned_, v, &b->min) < 0)
        b->min = *v;
    if (!b->any || order(l, unsigned_, v, &b->max) > 0)
        b->max = *v;
    b->any = true;
}

static struct bounds find_bounds(const struct ctr_parquet_writer *w, const struct leaf *l, const struct ctr_col *v,
                                 const int64_t *index, int64_t n)
{
    const bool unsigned_ = is_unsigned(l, w);
    struct bounds b = { 0 };
    for (int64_t i = 0; i < n && l->type != CTR_F16; i++) {
        struct bound x = { 0 };
        if (l->type == CTR_UTF8)
            x.s = ctr_col_str(v, index[i]);
        else if (is_real(l)) {
            x.f = real_at(l, v, index[i]);
            if (isnan(x.f))
                continue;
        } else
            x.i = ctr_col_i64(v, index[i]) * (l->type == CTR_TIME && w->o.microseconds ? 1000 : 1);
        widen(l, unsigned_, &b, &x);
    }
    return b;
}

/* The same of values with a dictionary: each entry counts once a page. */
static struct bounds find_entry_bounds(const struct ctr_parquet_writer *w, const struct leaf *l,
                                       const struct ctr_col *v, const int64_t *index, int64_t n, struct worker *k)
{
    const int32_t *number = (const int32_t *)(const void *)k->values.number.data;
    const int64_t *first = (const int64_t *)(const void *)k->values.first.data;
    int32_t *seen = (int32_t *)(void *)k->seen.data;
    const int32_t page = l->chunk.pages + 1;
    int64_t m = 0, *entry = (int64_t *)(void *)k->entries.data;
    for (int64_t i = 0; i < n; i++) {
        const int32_t e = number[index[i]];
        entry[m] = first[e];
        m += seen[e] != page;
        seen[e] = page;
    }
    return find_bounds(w, l, v, entry, m);
}

/* A long text cut at a character; as a largest value its last character that can be is made larger by one. */
static struct ctr_str cut(struct ctr_str s, bool largest, uint8_t *made, bool *exact)
{
    size_t n = CTR_MIN(s.n, (size_t)BOUND_BYTES);
    *exact = s.n <= BOUND_BYTES;
    if (*exact)
        return s;
    while (n && ((uint8_t)s.p[n] & 0xc0) == 0x80)
        n--;
    if (!largest)
        return (struct ctr_str){ s.p, n };
    while (n && (uint8_t)s.p[n - 1] >= 0x7f) /* not ASCII, or the last of it */
        n--;
    memcpy(made, s.p, n);
    if (n)
        made[n - 1]++;
    return (struct ctr_str){ n ? (const char *)made : NULL, n };
}

/* A bound as the bytes of a PLAIN value; NULL: it cannot be given. */
static struct ctr_str bound_bytes(const struct leaf *l, const struct bound *b, bool largest, uint8_t *made, bool *exact)
{
    const float f = (float)b->f;
    double d = b->f;
    *exact = true;
    if (l->type == CTR_UTF8)
        return cut(b->s, largest, made, exact);
    if (d == 0)
        d = largest ? 0.0 : -0.0;
    if (l->physical == PQ_FLOAT) {
        const float zero = (float)d;
        memcpy(made, f == 0 ? &zero : &f, sizeof f);
    } else if (is_real(l))
        memcpy(made, &d, sizeof d);
    else
        memcpy(made, &b->i, sizeof b->i); /* little-endian: its first bytes are a narrower one */
    return (struct ctr_str){ (const char *)made, l->physical == PQ_BOOLEAN                            ? 1
                                                 : l->physical == PQ_INT32 || l->physical == PQ_FLOAT ? 4
                                                                                                      : 8 };
}

/* ---- levels ---- */

/* Rows [from, to): their levels, and the positions of values that are not null. */
static int find_levels(const struct leaf *l, const struct ctr_batch *b, int64_t from, int64_t to, struct worker *k,
                       int64_t *levels, int64_t *values, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[l->column], *item = l->part == WHOLE ? NULL : c->item;
    const int32_t width = ctr_col_width(c);
    int64_t most = 0, n = 0, m = 0;
    for (int64_t r = from; r < to; r++) {
        int64_t at = 0, end = 1;
        if (item && !ctr_col_items(c, width, r, &at, &end))
            end = at;
        most += CTR_MAX(end - at, 1);
    }
    int rc = ctr_buf_room(&k->def, most, sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_room(&k->rep, most, sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_room(&k->index, most, sizeof(int64_t), err);
    if (rc)
        return rc;
    int32_t *def = (int32_t *)(void *)k->def.data, *rep = (int32_t *)(void *)k->rep.data;
    int64_t *index = (int64_t *)(void *)k->index.data;
    for (int64_t r = from; r < to; r++) {
        int64_t at = r, end = r + 1;
        if (!item) {
            def[n++] = !ctr_col_null(c, r);
            if (def[n - 1])
                index[m++] = r;
            continue;
        }
        const bool there = ctr_col_items(c, width, r, &at, &end);
        if (!there || at == end) {
            rep[n] = 0;
            def[n++] = there;
            continue;
        }
        for (int64_t i = at; i < end; i++) {
            const bool value = !ctr_col_null(item, i);
            rep[n] = i > at;
            def[n++] = l->max_def - !value;
            if (value)
                index[m++] = i;
        }
    }
    *levels = n;
    *values = m;
    return 0;
}

static int put_levels(struct ctr_buf *body, const struct ctr_buf *levels, int64_t n, int width, struct ctr_err *err)
{
    const size_t at = body->len;
    uint32_t bytes = 0;
    int rc = ctr_buf_append(body, &bytes, sizeof bytes, err);
    if (!rc)
        rc = ctr_pq_pack_hybrid(body, (const int32_t *)(const void *)levels->data, n, width, err);
    bytes = (uint32_t)(body->len - at - sizeof bytes);
    if (!rc)
        memcpy(body->data + at, &bytes, sizeof bytes);
    return rc;
}

/* ---- values ---- */

static int put_bits(const struct ctr_col *v, const int64_t *index, int64_t n, struct ctr_buf *body, struct ctr_err *err)
{
    int rc = 0;
    uint8_t *out = ctr_buf_extend(body, (n + 7) / 8, 1, &rc, err);
    if (rc)
        return rc;
    memset(out, 0, (size_t)(n + 7) / 8);
    for (int64_t i = 0; i < n; i++)
        out[i / 8] |= (uint8_t)(ctr_bit(v->data, index[i]) << i % 8);
    return 0;
}

/* Values of fixed width, one after another, or split: first bytes of all, second bytes … */
static int put_fixed(const struct leaf *l, const struct ctr_col *v, const int64_t *index, int64_t n, bool split,
                     bool us, struct ctr_buf *body, struct ctr_err *err)
{
    const int width = l->physical == PQ_INT32 || l->physical == PQ_FLOAT ? 4 : l->physical == PQ_FIXED ? 2 : 8;
    int rc = 0;
    uint8_t *out = ctr_buf_extend(body, n * width, 1, &rc, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        int64_t x = 0;
        if (l->part == WEIGHT)
            memcpy(&x, &v->weight[index[i]], 4);
        else if (is_real(l))
            memcpy(&x, (const uint8_t *)v->data + index[i] * width, (size_t)width);
        else if (__builtin_mul_overflow(ctr_col_i64(v, index[i]), l->type == CTR_TIME && us ? 1000 : 1, &x))
            return ctr_fail(err, CTR_EDATA, "a time lies beyond what microseconds hold: write milliseconds");
        if (!split)
            memcpy(out + i * width, &x, (size_t)width);
        else
            for (int k = 0; k < width; k++)
                out[k * n + i] = (uint8_t)(x >> 8 * k);
    }
    return rc;
}

static int put_integers(const struct leaf *l, const struct ctr_col *v, const int64_t *index, int64_t n, bool us,
                        struct worker *k, struct ctr_buf *body, struct ctr_err *err)
{
    int rc = ctr_buf_room(&k->numbers, n, sizeof(int64_t), err);
    int64_t *x = (int64_t *)(void *)k->numbers.data;
    for (int64_t i = 0; !rc && i < n; i++)
        if (__builtin_mul_overflow(ctr_col_i64(v, index[i]), l->type == CTR_TIME && us ? 1000 : 1, &x[i]))
            rc = ctr_fail(err, CTR_EDATA, "a time lies beyond what microseconds hold: write milliseconds");
    return rc ? rc : ctr_pq_pack_delta(body, x, n, l->physical == PQ_INT32, err);
}

static int put_texts(const struct ctr_col *v, const int64_t *index, int64_t n, bool plain, struct worker *k,
                     struct ctr_buf *body, struct ctr_err *err)
{
    int rc = ctr_buf_room(&k->numbers, n, sizeof(int64_t), err);
    int64_t *length = (int64_t *)(void *)k->numbers.data;
    for (int64_t i = 0; !rc && i < n; i++)
        length[i] = (int64_t)ctr_col_str(v, index[i]).n;
    if (!rc && !plain)
        rc = ctr_pq_pack_delta(body, length, n, true, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        const struct ctr_str s = ctr_col_str(v, index[i]);
        const uint32_t size = (uint32_t)s.n;
        rc = plain ? ctr_buf_append(body, &size, sizeof size, err) : 0;
        if (!rc)
            rc = ctr_buf_append(body, s.p, s.n, err);
    }
    return rc;
}

static int bits_for(int64_t values)
{
    return values > 1 ? 64 - __builtin_clzll((uint64_t)values - 1) : 0;
}

static int put_indices(const int64_t *index, int64_t n, struct worker *k, struct ctr_buf *body, struct ctr_err *err)
{
    const int32_t *number = (const int32_t *)(const void *)k->values.number.data;
    const uint8_t width = (uint8_t)CTR_MAX(bits_for(k->values.n), 1);
    int rc = ctr_buf_room(&k->numbers, n, sizeof(int32_t), err);
    int32_t *x = (int32_t *)(void *)k->numbers.data;
    for (int64_t i = 0; !rc && i < n; i++)
        x[i] = number[index[i]];
    if (!rc)
        rc = ctr_buf_append(body, &width, 1, err);
    return rc ? rc : ctr_pq_pack_hybrid(body, x, n, width, err);
}

static int put_values(const struct ctr_parquet_writer *w, const struct leaf *l, int encoding, const struct ctr_col *v,
                      const int64_t *index, int64_t n, struct worker *k, struct ctr_buf *body, struct ctr_err *err)
{
    if (encoding == E_DICT)
        return put_indices(index, n, k, body, err);
    if (l->type == CTR_UTF8)
        return put_texts(v, index, n, encoding == E_PLAIN, k, body, err);
    if (l->type == CTR_BOOL)
        return put_bits(v, index, n, body, err);
    if (encoding == E_DELTA)
        return put_integers(l, v, index, n, w->o.microseconds, k, body, err);
    return put_fixed(l, v, index, n, encoding == E_SPLIT, w->o.microseconds, body, err);
}

/* ---- encodings ---- */

/* Of the first values of the chunk, packed with an encoding: how many bytes? */
static int sample_bytes(const struct ctr_parquet_writer *w, const struct leaf *l, int encoding, const struct ctr_col *v,
                        int64_t n, struct worker *k, size_t *bytes, struct ctr_err *err)
{
    k->body.len = k->packed.len = 0;
    int rc = put_values(w, l, encoding, v, (const int64_t *)(const void *)k->index.data, n, k, &k->body, err);
    if (!rc)
        rc = ctr_pq_pack(&k->state, w->codec, k->body.data, k->body.len, &k->packed, err);
    *bytes = k->packed.len;
    return rc;
}

/* Do values repeat so often that a dictionary pays? Then k->values has their numbers. */
static int try_dictionary(const struct leaf *l, const struct ctr_col *v, struct worker *k, bool *pays,
                          struct ctr_err *err)
{
    struct ctr_col some = *v;
    *pays = false;
    if (l->type == CTR_BOOL || l->part >= KEY || !v->rows)
        return 0;
    if (v->rows > 4 * SAMPLE) {
        some.rows = SAMPLE;
        some.nulls = v->valid ? SAMPLE - ctr_bits_count(v->valid, 0, SAMPLE) : 0;
        int rc = ctr_values_number(&k->values, &some, 0, err);
        if (rc || k->values.n > SAMPLE / 2)
            return rc;
    }
    int rc = ctr_values_number(&k->values, v, 0, err);
    int64_t bytes = 0;
    const int64_t *first = (const int64_t *)(const void *)k->values.first.data;
    for (int64_t i = 0; !rc && i < k->values.n && bytes <= DICT_BYTES; i++)
        bytes += l->type == CTR_UTF8 ? 4 + (int64_t)ctr_col_str(v, first[i]).n : ctr_types[l->type].width;
    *pays = !rc && k->values.n && bytes <= DICT_BYTES && k->values.n <= (v->rows - k->values.nulls) / 2;
    return rc;
}

static int choose_encoding(const struct ctr_parquet_writer *w, const struct leaf *l, const struct ctr_col *v,
                           struct worker *k, int *encoding, struct ctr_err *err)
{
    bool pays;
    int rc = try_dictionary(l, v, k, &pays, err);
    *encoding = pays ? E_DICT : l->type == CTR_UTF8 ? E_LENGTHS : E_PLAIN;
    const int other = l->type == CTR_F16 ? E_PLAIN : is_real(l) ? E_SPLIT : E_DELTA;
    if (rc || pays || l->type == CTR_UTF8 || l->type == CTR_BOOL || l->type == CTR_F16)
        return rc;
    int64_t n = 0;
    size_t plain, packed;
    rc = ctr_buf_room(&k->index, SAMPLE, sizeof(int64_t), err);
    for (int64_t i = 0; !rc && i < v->rows && n < SAMPLE; i++)
        if (!ctr_col_null(v, i))
            ((int64_t *)(void *)k->index.data)[n++] = i;
    if (!rc)
        rc = sample_bytes(w, l, E_PLAIN, v, n, k, &plain, err);
    if (!rc)
        rc = sample_bytes(w, l, other, v, n, k, &packed, err);
    if (!rc && packed < plain)
        *encoding = other;
    return rc;
}

/* ---- pages ---- */

/* Pack k->body behind a header, of which `describe` writes the part of its kind. */
static int end_page(const struct ctr_parquet_writer *w, struct leaf *l, struct worker *k, const struct page *p,
                    struct ctr_err *err)
{
    struct pq_put t = { .b = &l->bytes, .err = err };
    k->packed.len = 0;
    int rc = ctr_pq_pack(&k->state, w->codec, k->body.data, k->body.len, &k->packed, err);
    if (!rc && (k->body.len > INT32_MAX || k->packed.len > INT32_MAX))
        rc = ctr_fail(err, CTR_EDATA, "the values of %d rows take more than 2 GiB", PAGE_ROWS);
    if (rc)
        return rc;
    const size_t before = l->bytes.len;
    ctr_pq_put_i32(&t, 1, p ? 0 : 2); /* DATA_PAGE, DICTIONARY_PAGE */
    ctr_pq_put_i32(&t, 2, (int64_t)k->body.len);
    ctr_pq_put_i32(&t, 3, (int64_t)k->packed.len);
    ctr_pq_put_i32(&t, 4, (int32_t)crc32(0, k->packed.data, (uInt)k->packed.len));
    ctr_pq_put_struct(&t, p ? 5 : 7);
    ctr_pq_put_i32(&t, 1, p ? p->levels : k->values.n);
    ctr_pq_put_i32(&t, 2, p ? l->chunk.encoding : E_PLAIN);
    if (p) {
        ctr_pq_put_i32(&t, 3, E_RLE);
        ctr_pq_put_i32(&t, 4, E_RLE);
    }
    ctr_pq_put_end(&t);
    ctr_pq_put_end(&t);
    l->chunk.raw_bytes += (int64_t)(l->bytes.len - before + k->body.len);
    return t.rc ? t.rc : ctr_buf_append(&l->bytes, k->packed.data, k->packed.len, err);
}

static int put_dictionary(const struct ctr_parquet_writer *w, struct leaf *l, const struct ctr_col *v, struct worker *k,
                          struct ctr_err *err)
{
    k->body.len = 0;
    int rc = ctr_buf_room(&k->seen, k->values.n, sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_room(&k->entries, k->values.n + 1, sizeof(int64_t), err);
    if (rc)
        return rc;
    memset(k->seen.data, 0, (size_t)k->values.n * sizeof(int32_t));
    rc = put_values(w, l, E_PLAIN, v, (const int64_t *)(const void *)k->values.first.data, k->values.n, k, &k->body,
                    err);
    if (!rc)
        rc = end_page(w, l, k, NULL, err);
    l->chunk.dict_bytes = (int64_t)l->bytes.len;
    return rc;
}

static int put_page(const struct ctr_parquet_writer *w, struct leaf *l, const struct ctr_col *v, int64_t from,
                    int64_t to, struct worker *k, struct ctr_err *err)
{
    struct chunk *c = &l->chunk;
    struct page p = { .at = (int64_t)l->bytes.len, .first_row = from };
    int64_t n = 0;
    int rc = ctr_array_grow(&c->page, c->pages, &c->cap, sizeof *c->page, err);
    if (!rc)
        rc = find_levels(l, w->batch, from, to, k, &p.levels, &n, err);
    k->body.len = 0;
    if (!rc && l->part != WHOLE)
        rc = put_levels(&k->body, &k->rep, p.levels, 1, err);
    if (!rc)
        rc = put_levels(&k->body, &k->def, p.levels, bits_for(l->max_def + 1), err);
    const int64_t *index = (const int64_t *)(const void *)k->index.data;
    if (!rc)
        rc = put_values(w, l, c->encoding, v, index, n, k, &k->body, err);
    if (!rc)
        rc = end_page(w, l, k, &p, err);
    if (rc)
        return rc;
    p.bytes = (int64_t)l->bytes.len - p.at;
    p.nulls = p.levels - n;
    p.bounds = c->encoding == E_DICT ? find_entry_bounds(w, l, v, index, n, k) : find_bounds(w, l, v, index, n);
    c->values += p.levels;
    c->page[c->pages++] = p;
    return 0;
}

/* Statistics of the chunk, and bounds of its pages (ColumnIndex), as the bytes of their structs. */
static int put_statistics(const struct ctr_parquet_writer *w, struct leaf *l, struct ctr_err *err)
{
    struct chunk *c = &l->chunk;
    struct pq_put t = { .b = &c->statistics, .err = err }, x = { .b = &c->column_index, .err = err };
    uint8_t made[2][BOUND_BYTES + 8];
    struct bounds all = { 0 };
    bool exact[2], indexed = c->pages;
    int64_t nulls = 0;
    for (int i = 0; i < c->pages; i++) {
        const struct page *p = &c->page[i];
        nulls += p->nulls;
        if (p->bounds.any) {
            widen(l, is_unsigned(l, w), &all, &p->bounds.min);
            widen(l, is_unsigned(l, w), &all, &p->bounds.max);
        }
        indexed &= p->bounds.any || p->nulls == p->levels;
        indexed &= !p->bounds.any || bound_bytes(l, &p->bounds.max, true, made[1], &exact[1]).p;
    }
    const struct ctr_str min = bound_bytes(l, &all.min, false, made[0], &exact[0]),
                         max = bound_bytes(l, &all.max, true, made[1], &exact[1]);
    ctr_pq_put_i64(&t, 3, nulls);
    if (all.any && max.p) {
        ctr_pq_put_binary(&t, 5, max.p, max.n);
        ctr_pq_put_binary(&t, 6, min.p, min.n);
        ctr_pq_put_bool(&t, 7, exact[1]);
        ctr_pq_put_bool(&t, 8, exact[0]);
    }
    ctr_pq_put_end(&t);
    if (t.rc || !indexed)
        return t.rc;
    ctr_pq_put_list(&x, 1, PQ_TRUE, c->pages);
    for (int i = 0; i < c->pages; i++)
        ctr_pq_put_flag(&x, !c->page[i].bounds.any);
    for (int largest = 0; largest < 2; largest++) {
        ctr_pq_put_list(&x, 2 + largest, PQ_BINARY, c->pages);
        for (int i = 0; i < c->pages; i++) {
            const struct bounds *b = &c->page[i].bounds;
            const struct ctr_str s = b->any ? bound_bytes(l, largest ? &b->max : &b->min, largest, made[0], &exact[0])
                                            : (struct ctr_str){ "", 0 };
            ctr_pq_put_bytes(&x, s.p, s.n);
        }
    }
    ctr_pq_put_i32(&x, 4, 0); /* UNORDERED */
    ctr_pq_put_list(&x, 5, PQ_I64, c->pages);
    for (int i = 0; i < c->pages; i++)
        ctr_pq_put_number(&x, c->page[i].nulls);
    ctr_pq_put_end(&x);
    return x.rc;
}

/* The chunk of a leaf. */
static int encode(const struct ctr_parquet_writer *w, struct leaf *l, struct worker *k, struct ctr_err *err)
{
    const struct ctr_col *c = &w->batch->col[l->column], *v = values_of(l, w->batch);
    const int64_t rows = w->batch->rows, bytes = ctr_col_bytes(c, 0, rows),
                  a_page = CTR_MAX(1, CTR_MIN((int64_t)PAGE_ROWS, PAGE_BYTES / CTR_MAX(1, bytes / rows)));
    l->chunk = (struct chunk){ 0 };
    l->bytes.len = 0;
    int rc = choose_encoding(w, l, v, k, &l->chunk.encoding, err);
    if (!rc && l->chunk.encoding == E_DICT)
        rc = put_dictionary(w, l, v, k, err);
    for (int64_t at = 0; !rc && at < rows; at += a_page)
        rc = put_page(w, l, v, at, CTR_MIN(at + a_page, rows), k, err);
    l->chunk.bytes = (int64_t)l->bytes.len;
    return rc ? rc : put_statistics(w, l, err);
}

/* ---- row groups ---- */

static void encode_leaf(void *ctx, int64_t task, int worker)
{
    struct ctr_parquet_writer *w = ctx;
    struct leaf *l = &w->leaf[task];
    l->err = (struct ctr_err){ 0 };
    l->rc = encode(w, l, &w->worker[worker], &l->err);
}

static void chunk_free(struct chunk *c)
{
    ctr_buf_free(&c->statistics);
    ctr_buf_free(&c->column_index);
    free(c->page);
}

static int end_group(struct ctr_parquet_writer *w, struct ctr_err *err)
{
    w->batch = ctr_batchbuf_view(&w->rows);
    int rc = ctr_array_grow(&w->group, w->groups, &w->cap, sizeof *w->group, err);
    if (rc)
        return rc;
    struct group *g = &w->group[w->groups];
    *g = (struct group){ .rows = w->leaves ? w->batch->rows : w->total,
                         .chunk = calloc((size_t)w->leaves + 1, sizeof *g->chunk) };
    if (!g->chunk)
        return ctr_fail_nomem(err, (size_t)w->leaves * sizeof *g->chunk);
    w->groups++;
    if (w->pool)
        ctr_pool_run(w->pool, w->leaves, encode_leaf, w);
    for (int i = 0; i < w->leaves; i++) {
        struct leaf *l = &w->leaf[i];
        if (!w->pool)
            encode_leaf(w, i, 0);
        g->chunk[i] = l->chunk;
        l->chunk = (struct chunk){ 0 };
        g->chunk[i].start = ctr_out_tell(w->out);
        if (!rc && l->rc) {
            *err = l->err;
            ctr_err_add(err, " (column %s)", w->schema.f[l->column].name);
            rc = l->rc;
        }
        if (!rc)
            rc = ctr_out_write(w->out, l->bytes.data, l->bytes.len, err);
        ctr_buf_free(&l->bytes); /* as large as the column */
    }
    ctr_batchbuf_clear(&w->rows);
    w->bytes = 0;
    return rc;
}

int ctr_parquet_writer_batch(struct ctr_parquet_writer *w, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0, n; !rc && at < b->rows; at += n) {
        n = CTR_MIN(b->rows - at, STEP - w->total % STEP);
        rc = ctr_batchbuf_range(&w->rows, b, at, n, err);
        for (int i = 0; i < b->schema->n; i++)
            w->bytes += ctr_col_bytes(&b->col[i], at, n);
        w->total += n;
        if (!rc && w->total % STEP == 0 && (ctr_batchbuf_rows(&w->rows) >= GROUP_ROWS || w->bytes >= w->limit))
            rc = end_group(w, err);
    }
    return rc;
}

int ctr_parquet_writer_finish(struct ctr_parquet_writer *w, struct ctr_err *err)
{
    int rc = ctr_batchbuf_rows(&w->rows) || (!w->leaves && w->total) ? end_group(w, err) : 0;
    return rc ? rc : ctr_parquet_write_end(w, err);
}

/* ---- opening ---- */

static int physical_of(enum ctr_type t)
{
    if (t == CTR_BOOL)
        return PQ_BOOLEAN;
    if (t == CTR_UTF8)
        return PQ_BYTES;
    if (ctr_types[t].floating)
        return t == CTR_F16 ? PQ_FIXED : t == CTR_F32 ? PQ_FLOAT : PQ_REAL64;
    return ctr_types[t].width == 8 ? PQ_INT64 : PQ_INT32;
}

static void add_leaf(struct ctr_parquet_writer *w, int column, enum part part, enum ctr_type type)
{
    w->leaf[w->leaves++] = (struct leaf){ .column = column,
                                          .part = part,
                                          .type = type,
                                          .physical = physical_of(type),
                                          .max_def = part == WHOLE  ? 1
                                                     : part == ITEM ? 3
                                                                    : 2 };
}

static int make_leaves(struct ctr_parquet_writer *w, struct ctr_err *err)
{
    if (!(w->leaf = calloc(2 * (size_t)w->schema.n + 1, sizeof *w->leaf)))
        return ctr_fail_nomem(err, (size_t)w->schema.n * sizeof *w->leaf);
    for (int i = 0; i < w->schema.n; i++) {
        const struct ctr_field *f = &w->schema.f[i];
        if (!ctr_type_list(f->type))
            add_leaf(w, i, WHOLE, f->type);
        else if (f->item != CTR_WKEY)
            add_leaf(w, i, ITEM, f->item);
        else {
            add_leaf(w, i, KEY, CTR_U64);
            add_leaf(w, i, WEIGHT, CTR_F32);
        }
    }
    return 0;
}

static int open_writer(struct ctr_parquet_writer *w, const struct ctr_schema *s, struct ctr_err *err)
{
    w->codec = ctr_pq_codec_find(w->o.codec ? w->o.codec : "zstd", err);
    int rc = w->codec < 0 ? w->codec : ctr_schema_copy(&w->schema, s, err);
    for (int i = 0; !rc && i < w->schema.n; i++)
        w->schema.f[i].dict = false;
    if (!rc)
        rc = ctr_batchbuf_init(&w->rows, &w->schema, err);
    if (!rc)
        rc = make_leaves(w, err);
    w->workers = CTR_MAX(1, w->o.threads);
    w->limit = CTR_MAX(1, CTR_MIN((int64_t)128 << 20, w->o.memory_bytes ? w->o.memory_bytes / 4 : INT64_MAX));
    if (!rc && !(w->worker = calloc((size_t)w->workers, sizeof *w->worker)))
        rc = ctr_fail_nomem(err, (size_t)w->workers * sizeof *w->worker);
    if (!rc && w->workers > 1)
        rc = ctr_pool_new(&w->pool, w->workers, CTR_FLOAT_IEEE, err);
    return rc ? rc : ctr_out_write(w->out, "PAR1", 4, err);
}

int ctr_parquet_writer_open(struct ctr_parquet_writer **to, const struct ctr_schema *s,
                            const struct ctr_parquet_writer_opts *o, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_parquet_writer *w = *to = NULL;
    if (!(w = calloc(1, sizeof *w)))
        return ctr_fail_nomem(err, sizeof *w);
    w->o = *o;
    w->out = out;
    const int rc = open_writer(w, s, err);
    if (rc)
        ctr_parquet_writer_free(w);
    else
        *to = w;
    return rc;
}

int64_t ctr_parquet_writer_rows(const struct ctr_parquet_writer *w)
{
    return w->total;
}

void ctr_parquet_writer_free(struct ctr_parquet_writer *w)
{
    if (!w)
        return;
    ctr_pool_free(w->pool);
    for (int i = 0; i < w->leaves; i++) {
        ctr_buf_free(&w->leaf[i].bytes);
        chunk_free(&w->leaf[i].chunk);
    }
    for (int g = 0; g < w->groups; g++) {
        for (int i = 0; i < w->leaves; i++)
            chunk_free(&w->group[g].chunk[i]);
        free(w->group[g].chunk);
    }
    for (int i = 0; w->worker && i < w->workers; i++) {
        struct worker *k = &w->worker[i];
        ctr_pq_pack_free(k->state);
        ctr_values_free(&k->values);
        struct ctr_buf *const b[] = { &k->def,  &k->rep,    &k->index, &k->numbers,
                                      &k->body, &k->packed, &k->seen,  &k->entries };
        for (size_t j = 0; j < CTR_COUNT(b); j++)
            ctr_buf_free(b[j]);
    }
    ctr_batchbuf_free(&w->rows);
    ctr_schema_free(&w->schema);
    free(w->leaf);
    free(w->worker);
    free(w->group);
    free(w);
}
