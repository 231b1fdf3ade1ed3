/* SPDX-License-Identifier: Apache-2.0
 *
 * normalise: converts Arrow arrays of any supported layout to the column types that stages see. Data in our layout are
 * borrowed in place; the rest is converted into the buffers of its leaf. Invariants of the result: offsets are monotone
 * and within their data, text is UTF-8, indices are within their dictionary, counts of nulls are right.
 */
#include "common/stream/arrow.h"
#include "common/base/isa.h"
#include "common/base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

struct where { /* context of a decoding */
    struct arrow_leaf *l;
    struct arrow_data *d;
    struct arrow_store *st;
    bool encoded; /* the result may stay dictionary-encoded */
    int view;     /* number of views before the field */
    bool entries; /* a value is that of all rows with an entry, or of a run */
};

/* A leaf is the path of nested Arrow fields from a column to its values; decode_at follows it from field i to i + 1.
 * Rows are level 0, the items of lists level 1; a struct adds no level. A struct's child `id` in a list `items`,
 * encoded by a dictionary, is the leaf `items.id`:
 *
 *     path[0] list     decode_list     offsets 0 2 2 3 are borrowed; its items are level 1
 *     path[1] struct   decode_struct   rows where the struct is null become null: its validity is ANDed to the child's
 *     path[2] utf8     decode_indices  indices 0 1 0 of dictionary "a", "b": here they are texts "a", "b", "a", as only
 *                                      level 0 may stay encoded (unfold)
 *
 * The column is then [a, b], [], [a], whose offsets are those of the message, and whose items are in lv[1].gathered.
 * What cannot be borrowed is made in the buffers of its level: narrowed offsets and indices, views, times of another
 * unit, decimals, rows of runs. */

/* ---- pieces ---- */

static int fail_column(const struct arrow_leaf *l, struct ctr_err *err)
{
    char what[sizeof err->what];
    memcpy(what, err->what, sizeof what);
    return err->code == CTR_ENOMEM ? err->code /* it is about the whole batch */
                                   : ctr_fail(err, err->code, "column '%s': %s", l->field.name, what);
}

/* Vectorised, which -O2 would not do. */
CTR_FAST static int check_offsets(const int32_t *off, int64_t rows, struct ctr_err *err)
{
    int bad = off[0] < 0;
    for (int64_t i = 0; i < rows; i++)
        bad |= off[i + 1] < off[i];
    return bad ? ctr_fail(err, CTR_EDATA, "the offsets of a list or text are damaged") : 0;
}

/* int32 offsets of `rows` rows, checked to be monotone; 64-bit ones are narrowed. */
static int get_offsets(struct where *w, int buffer, int64_t rows, bool large, struct arrow_level *lv,
                       const int32_t **out, struct ctr_err *err)
{
    const uint8_t *p;
    int64_t n;
    int rc = ctr_data_buffer(w->d, buffer, rows ? (rows + 1) * (large ? 8 : 4) : 0, &p, &n, err);
    if (rc < 0)
        return rc;
    if (!large || n == 0) { /* without rows there may be no offset at all */
        *out = (const int32_t *)p;
        return check_offsets(*out, rows, err);
    }
    rc = ctr_buf_reserve(&lv->offsets, ((size_t)rows + 1) * 4, err);
    if (rc < 0)
        return rc;
    const int64_t *from = (const int64_t *)p;
    int32_t *to = (int32_t *)lv->offsets.data;
    bool bad = from[0] < 0;
    for (int64_t i = 0; i < rows; i++)
        bad |= from[i + 1] < from[i];
    if (bad)
        return ctr_fail(err, CTR_EDATA, "the offsets of a list or text are damaged");
    if (from[rows] > INT32_MAX)
        return ctr_fail(err, CTR_EKIND, "a batch holds more than 2^31-1 bytes or items: write smaller batches");
    for (int64_t i = 0; i <= rows; i++)
        to[i] = (int32_t)from[i];
    *out = to;
    return 0;
}

/* Check that every text is UTF-8 by itself; bytes of null slots are ignored. */
static int check_text(const struct ctr_col *c, struct ctr_err *err)
{
    const int32_t *off = c->offsets;
    const uint8_t *p = c->data;
    int32_t end = off[c->rows];
    if (ctr_ascii(p + off[0], (size_t)(end - off[0])))
        return 0;
    if (ctr_utf8_valid(p + off[0], (size_t)(end - off[0]))) {
        bool split = false; /* a boundary within a character */
        for (int64_t i = 1; i < c->rows; i++)
            split |= off[i] < end && (p[off[i]] & 0xc0) == 0x80;
        if (!split)
            return 0;
    }
    for (int64_t i = 0; i < c->rows; i++)
        if (!ctr_col_null(c, i) && !ctr_utf8_valid(p + off[i], (size_t)(off[i + 1] - off[i])))
            return ctr_fail(err, CTR_EDATA, "row %lld of the batch is no UTF-8 text: re-encode it, or cast it to text",
                            (long long)i + 1);
    return 0;
}

/* ---- scalars: one function a layout ---- */

/* `c` has type, rows, nulls and valid set; the function adds the values. `b` is the first buffer of the field. */
typedef int decode_fn(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err);

static int decode_fixed(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv,
                        struct ctr_err *err)
{
    const uint8_t *p;
    int width = f->kind == ARROW_BOOL ? 0 : ctr_types[lv->col.type].width;
    int rc = ctr_data_values(w->d, b + 1, width ? lv->col.rows * width : (lv->col.rows + 7) / 8, &p, err);
    lv->col.data = p;
    return rc;
}

static int decode_text(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err)
{
    struct ctr_col *c = &lv->col;
    const uint8_t *p;
    bool large = f->kind == ARROW_LARGE_UTF8 || f->kind == ARROW_LARGE_BINARY;
    int rc = get_offsets(w, b + 1, c->rows, large, lv, &c->offsets, err);
    if (rc >= 0)
        rc = ctr_data_values(w->d, b + 2, c->offsets[c->rows], &p, err);
    if (rc < 0)
        return rc;
    c->data = p;
    return f->bytes ? 0 : check_text(c, err);
}

struct view {
    int32_t length;
    char prefix[4]; /* or the text itself, if at most 12 bytes */
    int32_t buffer, offset;
};

/* The bytes of a view, in one of `count` buffers from `first` on. */
static int view_bytes(struct where *w, const struct view *v, int first, int64_t count, const uint8_t **p,
                      struct ctr_err *err)
{
    int64_t n;
    if (v->length <= 12) {
        *p = (const uint8_t *)v->prefix;
        return 0;
    }
    if (v->buffer < 0 || v->buffer >= count || v->offset < 0)
        return ctr_fail(err, CTR_EDATA, "a view of text is damaged");
    int rc = ctr_data_buffer(w->d, first + v->buffer, (int64_t)v->offset + v->length, p, &n, err);
    if (rc >= 0)
        *p += v->offset;
    return rc;
}

/* The number of data buffers of the views before number `k`, and of that view. */
static int variadic(struct where *w, int k, int64_t *before, int64_t *own, struct ctr_err *err)
{
    const struct arrow_message *m = w->d->m;
    *before = 0;
    if ((size_t)k >= m->nvariadic)
        return ctr_fail(err, CTR_EDATA, "a batch does not tell the buffers of its views");
    for (int i = 0; i <= k; i++) {
        *own = ctr_fb_load64(m->variadic + 8 * (size_t)i);
        if (*own < 0 || *own > (int64_t)m->nbuffers)
            return ctr_fail(err, CTR_EDATA, "a batch claims %lld buffers for a column", (long long)*own);
        *before += i < k ? *own : 0;
    }
    return 0;
}

/* May texts or lists be written out that take `bytes` more? Few bytes may say that many repeat. */
static int may_write_out(const struct where *w, int64_t bytes, struct ctr_err *err)
{
    struct arrow_data *d = w->d;
    d->written = bytes > INT64_MAX - d->written ? INT64_MAX : d->written + bytes;
    if (!w->l->most_written || d->written <= w->l->most_written)
        return 0;
    return ctr_fail(err, CTR_ELARGE, "rows of more than %s, with each text and list written out, are not taken (%s)",
                    ctr_size_text((uint64_t)w->l->most_written).s, w->l->written_option);
}

/* Views may share bytes many times: check their total size before copying. */
static int view_total(const struct where *w, const struct ctr_col *c, const uint8_t *p, struct ctr_err *err)
{
    int64_t total = 0;
    for (int64_t i = 0; i < c->rows; i++) {
        struct view v;
        memcpy(&v, p + sizeof v * (size_t)i, sizeof v);
        if (ctr_col_null(c, i))
            continue;
        if (v.length < 0)
            return ctr_fail(err, CTR_EDATA, "a view of text is damaged");
        if ((total += v.length) > INT32_MAX)
            return ctr_fail(err, CTR_EKIND, "a batch holds more than 2^31-1 bytes of text: write smaller batches");
    }
    return total > ctr_memory_batch() ? ctr_memory_fail("a batch", total, err) : may_write_out(w, total, err);
}

static int decode_view(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err)
{
    struct ctr_col *c = &lv->col;
    const uint8_t *p, *bytes;
    int64_t before, own;
    int rc = variadic(w, w->view, &before, &own, err);
    if (rc >= 0)
        rc = ctr_data_buffer(w->d, b + 1, c->rows * (int64_t)sizeof(struct view), &p, NULL, err);
    if (rc >= 0)
        rc = view_total(w, c, p, err);
    if (rc >= 0)
        rc = ctr_buf_reserve(&lv->offsets, ((size_t)c->rows + 1) * 4, err);
    lv->data.len = 0;
    for (int64_t i = 0; rc >= 0 && i < c->rows; i++) {
        struct view v;
        ((int32_t *)lv->offsets.data)[i] = (int32_t)lv->data.len;
        memcpy(&v, p + sizeof v * (size_t)i, sizeof v);
        if (ctr_col_null(c, i))
            continue;
        rc = view_bytes(w, &v, b + 2, own, &bytes, err);
        if (rc >= 0)
            rc = ctr_buf_append(&lv->data, bytes, (size_t)v.length, err);
    }
    if (rc >= 0)
        rc = ctr_buf_reserve(&lv->data, 1, err);
    if (rc < 0)
        return rc;
    ((int32_t *)lv->offsets.data)[c->rows] = (int32_t)lv->data.len;
    c->offsets = (const int32_t *)lv->offsets.data;
    c->data = lv->data.data;
    return f->bytes ? 0 : check_text(c, err);
}

static int64_t floor_div(int64_t v, int64_t by)
{
    return v / by - (v % by < 0);
}

static int decode_time(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err)
{
    static const int64_t mul[] = { 1000, 1, 1, 1 }, div[] = { 1, 1, 1000, 1000000 };
    struct ctr_col *c = &lv->col;
    bool days = f->kind == ARROW_DATE && f->unit == 0;
    const uint8_t *p;
    int rc = ctr_data_values(w->d, b + 1, c->rows * (days ? 4 : 8), &p, err);
    c->data = p;
    if (rc < 0 || (!days && f->unit == 1))
        return rc;
    rc = ctr_buf_reserve(&lv->data, (size_t)c->rows * 8 + 8, err);
    if (rc < 0)
        return rc;
    int64_t *to = (int64_t *)lv->data.data;
    int64_t m = days ? 86400000 : mul[f->unit], q = days ? 1 : div[f->unit], cut = 0;
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t v = days ? ((const int32_t *)p)[i] : ((const int64_t *)p)[i];
        if (ctr_col_null(c, i))
            v = 0;
        if (m != 1 && __builtin_mul_overflow(v, m, &v))
            return ctr_fail(err, CTR_EKIND, "row %lld of the batch is a time out of range", (long long)i + 1);
        to[i] = q == 1 ? v : floor_div(v, q);
        cut += (uint64_t)v != (uint64_t)to[i] * (uint64_t)q;
    }
    ctr_reader_count_cut(w->d->stats, w->l->field.name, cut, w->entries);
    c->data = to;
    return 0;
}

/* A column of type null: text, all null. It has no bytes, so its length is limited by the body's. */
static int decode_null(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err)
{
    struct ctr_col *c = &lv->col;
    size_t bits = (size_t)(c->rows + 7) / 8, bytes = ((size_t)c->rows + 1) * 4;
    (void)f, (void)b;
    if (c->rows > 8 * w->d->m->body_length + (4 << 20))
        return ctr_fail(err, CTR_EDATA, "a batch without data claims %lld rows", (long long)c->rows);
    int rc = ctr_buf_reserve(&lv->valid, bits + 1, err);
    if (rc >= 0)
        rc = ctr_buf_reserve(&lv->offsets, bytes, err);
    if (rc < 0)
        return rc;
    memset(lv->valid.data, 0, bits);
    memset(lv->offsets.data, 0, bytes);
    c->nulls = c->rows;
    c->valid = c->rows ? lv->valid.data : NULL;
    c->offsets = (const int32_t *)lv->offsets.data;
    c->data = lv->offsets.data;
    return 0;
}

/* Texts that were made in lv. */
static int place_texts(struct arrow_level *lv, int rc)
{
    lv->col.offsets = (const int32_t *)(void *)lv->offsets.data;
    lv->col.data = lv->data.data;
    return rc;
}

static int decode_decimal(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv,
                          struct ctr_err *err)
{
    const uint8_t *p;
    int64_t *rounded = w->l->decimal ? &w->l->decimal->rounded : NULL;
    int rc = ctr_data_values(w->d, b + 1, lv->col.rows * (f->bits / 8), &p, err);
    if (rc >= 0 && lv->col.type == CTR_UTF8)
        return place_texts(lv, ctr_decimal_texts(&lv->col, p, f->bits, f->scale, lv, err));
    if (rc >= 0)
        rc = ctr_buf_reserve(&lv->data, (size_t)lv->col.rows * 8 + 8, err);
    lv->col.data = lv->data.data;
    if (rc >= 0 && (rc = ctr_decimal_values(&lv->col, p, f->bits, f->scale, lv->data.data, rounded, err)) < 0)
        ctr_err_add(err,
                    ": cast the column to float64, or to utf8 to keep every digit, as ctr-select --columns "
                    "'*,%s:utf8' does",
                    w->l->field.name);
    return rc;
}

static int decode_span(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err)
{
    const uint8_t *p;
    int rc = ctr_data_values(w->d, b + 1, lv->col.rows * (f->bits / 8), &p, err);
    if (rc >= 0)
        rc = ctr_buf_reserve(&lv->data, (size_t)lv->col.rows * 8 + 8, err);
    lv->col.data = lv->data.data;
    return rc < 0 ? rc : ctr_span_values(&lv->col, p, f->bits, f->unit, (int64_t *)(void *)lv->data.data, err);
}

static int decode_uuid(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv, struct ctr_err *err)
{
    const uint8_t *p;
    int rc = ctr_data_values(w->d, b + 1, lv->col.rows * f->width, &p, err);
    return rc < 0 ? rc : place_texts(lv, ctr_uuid_values(&lv->col, p, lv, err));
}

static decode_fn *const decoders[ARROW_NKINDS] = {
    [ARROW_NULL] = decode_null,         [ARROW_INT] = decode_fixed,        [ARROW_FLOAT] = decode_fixed,
    [ARROW_BINARY] = decode_text,       [ARROW_UTF8] = decode_text,        [ARROW_BOOL] = decode_fixed,
    [ARROW_DATE] = decode_time,         [ARROW_TIMESTAMP] = decode_time,   [ARROW_LARGE_BINARY] = decode_text,
    [ARROW_LARGE_UTF8] = decode_text,   [ARROW_BINARY_VIEW] = decode_view, [ARROW_UTF8_VIEW] = decode_view,
    [ARROW_DECIMAL] = decode_decimal,   [ARROW_TIME] = decode_span,        [ARROW_DURATION] = decode_span,
    [ARROW_FIXED_BINARY] = decode_uuid,
};

/* ---- nesting ---- */

static int decode_at(struct where *w, int i, bool root, int64_t rows, int level, struct ctr_err *err);

/* A null parent makes the child null. */
static int and_valid(struct arrow_level *lv, const uint8_t *parent, struct ctr_err *err)
{
    struct ctr_col *c = &lv->col;
    size_t bytes = (size_t)(c->rows + 7) / 8;
    if (!parent)
        return 0;
    int rc = ctr_buf_reserve(&lv->valid, bytes + 8, err);
    if (rc < 0)
        return rc;
    for (size_t k = 0; k < bytes; k++)
        lv->valid.data[k] = (uint8_t)(parent[k] & (c->valid ? c->valid[k] : 0xff));
    c->valid = lv->valid.data;
    c->nulls = c->rows - ctr_bits_count(c->valid, 0, c->rows);
    return 0;
}

static int decode_weighted(struct where *w, const struct arrow_field *f, int b, struct arrow_level *lv,
                           struct ctr_err *err)
{
    const uint8_t *p[2], *valid;
    for (int k = 0; k < 2; k++) {
        int cb = f->child[k].buffer + (b - f->buffer);
        int64_t rows, nulls;
        int rc = ctr_data_node(w->d, f->child[k].node, &rows, &nulls, err);
        if (rc >= 0 && rows != lv->col.rows)
            rc = ctr_fail(err, CTR_EDATA, "a struct of %lld rows has a child of %lld", (long long)lv->col.rows,
                          (long long)rows);
        if (rc >= 0)
            rc = ctr_data_valid(w->d, cb, rows, nulls, &valid, err);
        if (rc >= 0)
            rc = and_valid(lv, valid, err);
        if (rc >= 0)
            rc = ctr_data_values(w->d, cb + 1, rows * (k ? 4 : 8), &p[k], err);
        if (rc < 0)
            return rc;
    }
    lv->col.data = p[0];
    lv->col.weight = (const float *)p[1];
    return 0;
}

static int decode_struct(struct where *w, int i, int b, int64_t rows, int level, struct ctr_err *err)
{
    struct arrow_level *lv = &w->st->lv[level];
    const uint8_t *valid = lv->col.valid;
    if (i + 1 == w->l->depth)
        return decode_weighted(w, w->l->path[i], b, lv, err);
    int rc = decode_at(w, i + 1, false, rows, level, err);
    return rc < 0 ? rc : and_valid(lv, valid, err);
}

static int decode_list(struct where *w, int i, int b, int level, struct ctr_err *err)
{
    const struct arrow_field *f = w->l->path[i];
    struct arrow_level *lv = &w->st->lv[level];
    struct ctr_col *c = &lv->col;
    int64_t rows = -1;
    int rc = 0;
    if (f->kind == ARROW_FIXED_LIST)
        rows = c->rows * f->width;
    else
        rc = get_offsets(w, b + 1, c->rows, f->kind == ARROW_LARGE_LIST, lv, &c->offsets, err);
    if (rc >= 0)
        rc = decode_at(w, i + 1, false, rows, level + 1, err);
    if (rc < 0)
        return rc;
    c->item = &w->st->lv[level + 1].col;
    if (c->offsets && c->offsets[c->rows] > c->item->rows)
        return ctr_fail(err, CTR_EDATA, "a list goes beyond its items");
    return 0;
}

/* ---- values that repeat ---- */

/* The type of the values at a level of a leaf. */
static struct ctr_field value_field(const struct arrow_leaf *l, int level)
{
    struct ctr_field f = { .type = l->field.type, .item = l->field.item, .width = l->field.width };
    return level ? (struct ctr_field){ .type = f.item } : f;
}

static int spread_begin(const struct where *w, int level, struct ctr_err *err)
{
    struct arrow_level *lv = &w->st->lv[level];
    const struct ctr_field as = value_field(w->l, level);
    int rc = lv->spread_set ? 0 : ctr_colbuf_init(&lv->spread, &as, err);
    lv->spread_set |= rc >= 0;
    if (rc >= 0)
        ctr_colbuf_clear(&lv->spread);
    return rc;
}

/* May n more values of `bytes` in all be appended? */
static int spread_room(const struct where *w, const struct arrow_level *lv, int64_t n, int64_t bytes,
                       struct ctr_err *err)
{
    const struct ctr_colbuf *item = lv->spread.item;
    const int64_t all = (int64_t)(lv->spread.data.len + lv->spread.offsets.len) + bytes +
                        (item ? (int64_t)(item->data.len + item->offsets.len) : 0);
    if (lv->spread.rows > INT32_MAX - n || all > INT32_MAX)
        return ctr_fail(err, CTR_EKIND, "a batch holds more than 2^31-1 bytes or items: write smaller batches");
    return all > ctr_memory_batch() ? ctr_memory_fail("a batch", all, err) : may_write_out(w, bytes, err);
}

/* Append value k n times. */
static int spread_run(const struct where *w, struct arrow_level *lv, const struct ctr_col *c, int64_t k, int64_t n,
                      struct ctr_err *err)
{
    int64_t idx[512];
    const int64_t bytes = CTR_MAX(ctr_col_bytes(c, k, 1), 1);
    int rc = spread_room(w, lv, n, bytes > INT64_MAX / n ? INT64_MAX / 2 : n * bytes, err);
    for (int64_t i = 0; i < CTR_MIN(n, (int64_t)CTR_COUNT(idx)); i++)
        idx[i] = k;
    for (int64_t left = n, m; rc >= 0 && left > 0; left -= m) {
        m = CTR_MIN(left, (int64_t)CTR_COUNT(idx));
        rc = ctr_colbuf_gather(&lv->spread, c, idx, m, err);
    }
    return rc;
}

static int64_t run_end(const uint8_t *p, int bits, int64_t k)
{
    return bits == 16   ? ((const int16_t *)(const void *)p)[k]
           : bits == 32 ? ((const int32_t *)(const void *)p)[k]
                        : ((const int64_t *)(const void *)p)[k];
}

/* Runs: value k stands in all rows before its end, from the end before it on. */
static int decode_runs(struct where *w, int i, int b, int64_t rows, int level, struct ctr_err *err)
{
    const struct arrow_field *f = w->l->path[i], *ends = &f->child[0];
    struct arrow_level *lv = &w->st->lv[level];
    const bool encoded = w->encoded, entries = w->entries;
    const uint8_t *p = NULL;
    int64_t runs, nulls, at = 0;
    int rc = ctr_data_node(w->d, ends->node, &runs, &nulls, err);
    if (rc >= 0 && nulls)
        rc = ctr_fail(err, CTR_EDATA, "the end of a run is null");
    if (rc >= 0)
        rc = ctr_data_buffer(w->d, ends->buffer + (b - f->buffer) + 1, runs * (ends->bits / 8), &p, NULL, err);
    w->encoded = false;
    w->entries = true;
    if (rc >= 0)
        rc = decode_at(w, i + 1, false, runs, level, err);
    w->encoded = encoded;
    w->entries = entries;
    if (rc >= 0)
        rc = spread_begin(w, level, err);
    const struct ctr_col values = lv->col;
    for (int64_t k = 0; rc >= 0 && k < runs && at < rows; k++) {
        const int64_t end = CTR_MIN(run_end(p, ends->bits, k), rows);
        if (end <= at)
            rc = ctr_fail(err, CTR_EDATA, "the ends of runs do not rise");
        else
            rc = spread_run(w, lv, &values, k, end - at, err);
        at = end;
    }
    if (rc >= 0 && at < rows)
        rc = ctr_fail(err, CTR_EDATA, "runs end at row %lld of %lld", (long long)at, (long long)rows);
    if (rc >= 0)
        lv->col = *ctr_colbuf_view(&lv->spread);
    return rc;
}

/* Lists of views: each has an offset and a size, in any order. */
static int decode_views(struct where *w, int i, int b, int level, struct ctr_err *err)
{
    const bool large = w->l->path[i]->kind == ARROW_LARGE_LIST_VIEW;
    struct arrow_level *lv = &w->st->lv[level], *below = &w->st->lv[level + 1];
    struct ctr_col *c = &lv->col;
    const int width = large ? 8 : 4;
    const uint8_t *from, *sizes;
    int rc = ctr_data_buffer(w->d, b + 1, c->rows * width, &from, NULL, err);
    if (rc >= 0)
        rc = ctr_data_buffer(w->d, b + 2, c->rows * width, &sizes, NULL, err);
    if (rc >= 0)
        rc = ctr_buf_reserve(&lv->offsets, ((size_t)c->rows + 1) * 4, err);
    if (rc >= 0)
        rc = decode_at(w, i + 1, false, -1, level + 1, err);
    if (rc >= 0)
        rc = spread_begin(w, level + 1, err);
    if (rc < 0)
        return rc;
    const struct ctr_col items = below->col;
    int32_t *offset = (int32_t *)(void *)lv->offsets.data;
    offset[0] = 0;
    for (int64_t k = 0; rc >= 0 && k < c->rows; k++) {
        const int64_t at = run_end(from, 8 * width, k), n = ctr_col_null(c, k) ? 0 : run_end(sizes, 8 * width, k);
        if (n && (at < 0 || n < 0 || at > items.rows || n > items.rows - at))
            rc = ctr_fail(err, CTR_EDATA, "a list goes beyond its items");
        else if (n && (rc = spread_room(w, below, n, ctr_col_bytes(&items, at, n), err)) >= 0)
            rc = ctr_colbuf_range(&below->spread, &items, at, n, err);
        offset[k + 1] = (int32_t)below->spread.rows;
    }
    below->col = *ctr_colbuf_view(&below->spread);
    c->offsets = offset;
    c->item = &below->col;
    return rc;
}

/* ---- dictionaries ---- */

#define NARROW(T)                                                                                                      \
    for (int64_t k = 0; k < rows; k++) {                                                                               \
        int64_t v = (int64_t)((const T *)p)[k];                                                                        \
        to[k] = ctr_col_null(c, k) ? 0 : (uint64_t)v < (uint64_t)n ? (int32_t)v : -1;                                  \
    }

/* Convert indices of any width to int32; all that are not null must be in [0, n). */
static int narrow(const struct arrow_field *f, const uint8_t *p, int64_t n, struct arrow_level *lv, struct ctr_err *err)
{
    struct ctr_col *c = &lv->col;
    int64_t rows = c->rows;
    if (f->index_bits == 32) {
        bool bad = false;
        for (int64_t k = 0; k < rows; k++)
            bad |= (uint64_t)((const uint32_t *)p)[k] >= (uint64_t)n;
        c->data = p;
        if (!bad)
            return 0;
    }
    int rc = ctr_buf_reserve(&lv->data, (size_t)rows * 4 + 4, err);
    if (rc < 0)
        return rc;
    int32_t *to = (int32_t *)lv->data.data, low = 0;
    switch (f->index_bits * 2 + f->index_signed) {
    case 16: NARROW(uint8_t); break;
    case 17: NARROW(int8_t); break;
    case 32: NARROW(uint16_t); break;
    case 33: NARROW(int16_t); break;
    case 64: NARROW(uint32_t); break;
    case 65: NARROW(int32_t); break;
    case 128: NARROW(uint64_t); break;
    default: NARROW(int64_t); break;
    }
    for (int64_t k = 0; k < rows; k++)
        low = CTR_MIN(low, to[k]);
    c->data = to;
    return low < 0 ? ctr_fail(err, CTR_EDATA, "an index points outside the dictionary") : 0;
}

/* The same column, decoded. */
static int unfold(struct arrow_level *lv, const struct ctr_field *as, struct ctr_err *err)
{
    struct ctr_col c = lv->col;
    int rc = 0;
    if (!lv->gathered_set)
        rc = ctr_colbuf_init(&lv->gathered, as, err);
    lv->gathered_set = true;
    if (rc < 0)
        return rc;
    ctr_colbuf_clear(&lv->gathered);
    rc = ctr_colbuf_range(&lv->gathered, &c, 0, c.rows, err);
    lv->col = *ctr_colbuf_view(&lv->gathered);
    return rc;
}

/* A dictionary grown by deltas may have many more entries than a batch has rows, and every batch would pass on all of
 * them: so it gets only those that its rows use, in order of appearance. */
static bool is_much(const struct arrow_dict *d, int64_t rows)
{
    enum { TIMES = 4, MORE = 1024 };
    return d->grown_set && d->grown.rows && d->col.rows > TIMES * rows + MORE;
}

static int few_entries(struct arrow_level *lv, struct arrow_dict *d, const struct ctr_field *as, struct ctr_err *err)
{
    const int64_t rows = lv->col.rows, entries = d->col.rows;
    const size_t had = d->place.len;
    int64_t n = 0;
    int rc = had < (size_t)entries * 4 ? ctr_buf_reserve(&d->place, (size_t)entries * 4 - had, err) : 0;
    if (rc >= 0)
        rc = ctr_buf_room(&d->chosen, rows, sizeof(int64_t), err);
    if (rc >= 0 && lv->col.data != lv->data.data)
        rc = ctr_buf_room(&lv->data, rows + 1, 4, err);
    if (rc >= 0 && !lv->few_set)
        rc = ctr_colbuf_init(&lv->few, as, err);
    if (rc < 0)
        return rc;
    lv->few_set = true;
    if (had < (size_t)entries * 4) {
        memset(d->place.data + had, 0, (size_t)entries * 4 - had);
        d->place.len = (size_t)entries * 4;
    }
    const int32_t *from = lv->col.data;
    int32_t *to = (int32_t *)(void *)lv->data.data;
    uint32_t *place = (uint32_t *)(void *)d->place.data;
    int64_t *chosen = (int64_t *)(void *)d->chosen.data;
    for (int64_t k = 0; k < rows; k++) {
        if (ctr_col_null(&lv->col, k)) {
            to[k] = 0;
            continue;
        }
        uint32_t *p = &place[from[k]];
        if (!*p) {
            chosen[n++] = from[k];
            *p = (uint32_t)n;
        }
        to[k] = (int32_t)*p - 1;
    }
    for (int64_t k = 0; k < n; k++)
        place[chosen[k]] = 0;
    ctr_colbuf_clear(&lv->few);
    rc = ctr_colbuf_gather(&lv->few, &d->col, chosen, n, err);
    lv->col.data = to;
    lv->col.dict = ctr_colbuf_view(&lv->few);
    return rc;
}

static int decode_indices(struct where *w, int i, int b, int level, struct ctr_err *err)
{
    const struct arrow_field *f = w->l->path[i];
    struct arrow_dict *dict = w->l->dict[i];
    struct arrow_level *lv = &w->st->lv[level];
    const uint8_t *p;
    int64_t n = dict ? dict->col.rows : 0; /* a dictionary that failed ends reading */
    int rc = ctr_data_buffer(w->d, b + 1, lv->col.rows * (f->index_bits / 8), &p, NULL, err);
    if (rc >= 0 && lv->col.rows > lv->col.nulls && !dict)
        rc = ctr_fail(err, CTR_EDATA, "its dictionary has not come");
    if (rc >= 0)
        rc = narrow(f, p, n, lv, err);
    if (rc < 0)
        return rc;
    struct ctr_field as = value_field(w->l, level);
    if (!dict) { /* no rows, or only nulls */
        const struct ctr_col c = lv->col;
        lv->col.dict = NULL;
        if (!lv->gathered_set)
            rc = ctr_colbuf_init(&lv->gathered, &as, err);
        lv->gathered_set = true;
        if (rc >= 0)
            ctr_colbuf_clear(&lv->gathered);
        for (int64_t k = 0; rc >= 0 && k < c.rows; k++)
            rc = ctr_colbuf_null(&lv->gathered, err);
        lv->col = *ctr_colbuf_view(&lv->gathered);
        return rc;
    }
    lv->col.type = dict->col.type;
    lv->col.dict = &dict->col;
    if (!w->encoded || level > 0) {
        rc = w->l->most_written ? may_write_out(w, ctr_col_bytes(&lv->col, 0, lv->col.rows), err) : 0;
        return rc < 0 ? rc : unfold(lv, &as, err);
    }
    return is_much(dict, lv->col.rows) ? few_entries(lv, dict, &as, err) : 0;
}

/* ---- a field ---- */

static int decode_at(struct where *w, int i, bool root, int64_t rows, int level, struct ctr_err *err)
{
    const struct arrow_field *f = w->l->path[i];
    struct arrow_level *lv = &w->st->lv[level];
    int node = root ? 0 : f->node, b = root ? 0 : f->buffer, rc;
    int64_t have, nulls;
    const uint8_t *valid = NULL;

    rc = ctr_data_node(w->d, node, &have, &nulls, err);
    if (rc < 0)
        return rc;
    if ((rows >= 0 && have != rows) || have > (int64_t)INT32_MAX * 256)
        return ctr_fail(err, CTR_EDATA, "a column has %lld rows where %lld are due", (long long)have, (long long)rows);
    w->view = root ? 0 : f->variadic;
    if (w->view > 0) { /* the schema's numbers do not include the data buffers of preceding views */
        int64_t before, own;
        rc = variadic(w, w->view - 1, &before, &own, err);
        if (rc < 0)
            return rc;
        b += (int)CTR_MIN(before + own, (int64_t)w->d->m->nbuffers);
    }
    bool encoded = f->dict && !root;
    if (encoded || (f->kind != ARROW_NULL && f->kind != ARROW_RUN_END))
        rc = ctr_data_valid(w->d, b, have, nulls, &valid, err);
    if (rc < 0)
        return rc;
    lv->col = (struct ctr_col){ .rows = have, .nulls = nulls, .valid = valid };
    lv->col.type = level ? w->l->field.item : w->l->field.type;
    if (encoded)
        return decode_indices(w, i, b, level, err);
    if (f->kind == ARROW_STRUCT)
        return decode_struct(w, i, b, have, level, err);
    if (f->kind == ARROW_RUN_END)
        return decode_runs(w, i, b, have, level, err);
    if (f->kind == ARROW_LIST_VIEW || f->kind == ARROW_LARGE_LIST_VIEW)
        return decode_views(w, i, b, level, err);
    if (ctr_arrow_list(f))
        return decode_list(w, i, b, level, err);
    return decoders[f->kind](w, f, b, lv, err);
}

int ctr_leaf_decode(struct arrow_leaf *l, int at, struct arrow_data *d, const struct ctr_col **out, struct ctr_err *err)
{
    struct where w = { .l = l, .d = d, .st = &l->out[at].store, .encoded = true };
    int rc = l->foreign ? ctr_leaf_refuse(l, err) : decode_at(&w, 0, false, d->m->rows, 0, err);
    if (rc < 0)
        return fail_column(l, err);
    *out = &w.st->lv[0].col;
    return 0;
}

int ctr_leaf_conform(struct arrow_leaf *l, int at, bool dict, const struct ctr_col **c, struct ctr_err *err)
{
    struct arrow_decoded *out = &l->out[at];
    struct arrow_level *lv = &out->store.lv[0];
    int64_t rows = (*c)->rows;
    int rc;
    if (dict == !!(*c)->dict)
        return 0;
    if (!dict) {
        struct ctr_field as = value_field(l, 0);
        rc = unfold(lv, &as, err);
        *c = &lv->col;
        return rc;
    }
    /* Make every value an entry of its own. */
    rc = ctr_buf_reserve(&out->index, (size_t)rows * 4 + 4, err);
    if (rc < 0)
        return rc;
    for (int64_t i = 0; i < rows; i++)
        ((int32_t *)out->index.data)[i] = (int32_t)i;
    out->conformed = (struct ctr_col){ .type = (*c)->type,
                                       .rows = rows,
                                       .nulls = (*c)->nulls,
                                       .valid = (*c)->valid,
                                       .data = out->index.data,
                                       .dict = *c };
    *c = &out->conformed;
    return 0;
}

/* ---- dictionary messages ---- */

static int dictionary_grow(struct arrow_leaf *l, struct arrow_dict *d, int level, const struct ctr_col *more,
                           struct ctr_err *err)
{
    struct ctr_field as = value_field(l, level);
    int rc = 0;
    if (!d->grown_set) {
        rc = ctr_colbuf_init(&d->grown, &as, err);
        d->grown_set = rc >= 0;
    }
    if (rc >= 0)
        rc = ctr_colbuf_range(&d->grown, more, 0, more->rows, err);
    return rc;
}

static int dictionary_decode(struct arrow_leaf *l, int i, int level, struct arrow_dict *d, struct ctr_err *err)
{
    struct where w = { .l = l, .d = &d->data, .st = &d->store, .entries = true };
    const struct ctr_col *c = &d->store.lv[level].col;
    int rc = decode_at(&w, i, true, d->m.rows, level, err);
    if (rc < 0)
        return rc;
    if (!d->m.delta) {
        d->col = *c;
        return 0;
    }
    rc = dictionary_grow(l, d, level, c, err);
    if (rc >= 0)
        d->col = *ctr_colbuf_view(&d->grown);
    return rc;
}

/* Keep the bytes of a dictionary message. Before a delta overwrites those of its base, the base is copied. */
static int dictionary_take(struct arrow_leaf *l, int level, struct arrow_dict *d, const struct arrow_message *m,
                           const uint8_t *body, struct ctr_reader_stats *st, struct ctr_err *err)
{
    struct ctr_buf scratch = { 0 };
    int rc = 0;
    if (!m->delta && d->grown_set)
        ctr_colbuf_clear(&d->grown);
    else if (m->delta && d->ready && !(d->grown_set && d->grown.rows))
        rc = dictionary_grow(l, d, level, &d->col, err);
    d->meta.len = d->body.len = 0;
    if (rc >= 0)
        rc = ctr_buf_append(&d->meta, m->fb.p - 8, m->fb.n + 8, err);
    if (rc >= 0)
        rc = ctr_buf_append(&d->body, body, (size_t)m->body_length, err);
    if (rc >= 0)
        rc = ctr_message_parse(&d->m, d->meta.data, d->meta.len, &scratch, err);
    if (rc >= 0)
        rc = ctr_data_set(&d->data, &d->m, d->body.data, st, err);
    ctr_buf_free(&scratch);
    return rc;
}

static _Atomic uint64_t ids; /* given so far: of dictionaries of all readers */

int ctr_leaf_dictionary(struct arrow_leaf *l, const struct arrow_message *m, const uint8_t *body,
                        struct ctr_reader_stats *st, struct ctr_err *err)
{
    int level = 0;
    for (int i = 0; i < l->depth && !l->foreign; i++) {
        const struct arrow_field *f = l->path[i];
        if (f->dict && f->dict_id == m->dict_id) {
            if (!l->dict[i] && !(l->dict[i] = calloc(1, sizeof **l->dict)))
                return ctr_fail_nomem(err, sizeof **l->dict);
            struct arrow_dict *d = l->dict[i];
            int rc = dictionary_take(l, level, d, m, body, st, err);
            if (rc >= 0)
                rc = dictionary_decode(l, i, level, d, err);
            d->ready = rc >= 0;
            d->col.id = atomic_fetch_add(&ids, 1) + 1;
            if (rc < 0)
                return fail_column(l, err);
        }
        level |= ctr_arrow_list(f);
    }
    return 0;
}
