/* SPDX-License-Identifier: Apache-2.0
 *
 * export_npy: numeric columns as one NumPy array (format 1.0, little-endian, C order): one scalar column gives a
 * vector; several, or a fixed_size_list, a matrix of one type. The header contains the number of rows: if it is
 * unknown, the rows go to a temporary file first.
 */
#include "tools/ctr-export/export_format.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct npy {
    int *column, n; /* columns to write */
    int64_t width;  /* values per row */
    bool vector;
    enum ctr_type type; /* of the array */
};

static const char *const dtype[CTR_NTYPES] = {
    [CTR_BOOL] = "|b1", [CTR_I8] = "|i1",  [CTR_I16] = "<i2",      [CTR_I32] = "<i4", [CTR_I64] = "<i8",
    [CTR_U8] = "|u1",   [CTR_U16] = "<u2", [CTR_U32] = "<u4",      [CTR_U64] = "<u8", [CTR_F16] = "<f2",
    [CTR_F32] = "<f4",  [CTR_F64] = "<f8", [CTR_TIME] = "<M8[ms]",
};

static size_t size_of(enum ctr_type t)
{
    return t == CTR_BOOL ? 1 : (size_t)ctr_types[t].width;
}

/* The type that represents the values of both, like NumPy's promotion; float64 for 64-bit integers is checked per
 * value. */
static enum ctr_type promote(enum ctr_type a, enum ctr_type b)
{
    const struct ctr_type_info *x = &ctr_types[a], *y = &ctr_types[b];
    static const enum ctr_type by_log[2][4] = { { CTR_U8, CTR_U16, CTR_U32, CTR_U64 },
                                                { CTR_I8, CTR_I16, CTR_I32, CTR_I64 } };
    int bits;

    if (a == b || b == CTR_BOOL)
        return a;
    if (a == CTR_BOOL)
        return b;
    if (x->floating && y->floating)
        return x->width > y->width ? a : b;
    if (x->floating || y->floating) {
        const struct ctr_type_info *f = x->floating ? x : y, *i = x->floating ? y : x;
        bits = CTR_MAX(f->width, i->width < 8 ? 2 * i->width : 8);
        return bits <= 2 ? CTR_F16 : bits <= 4 ? CTR_F32 : CTR_F64;
    }
    if (x->is_signed == y->is_signed)
        return x->width > y->width ? a : b;
    bits = CTR_MAX(x->is_signed ? x->width : 2 * x->width, y->is_signed ? y->width : 2 * y->width);
    return bits > 8 ? CTR_F64 : by_log[1][__builtin_ctz((unsigned)bits)];
}

static int put_head(const struct npy *y, int64_t rows, struct ctr_buf *head, struct ctr_err *err)
{
    static const uint8_t magic[8] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0 };
    char shape[64], text[192];
    uint8_t len[2];
    int n, pad, rc;

    snprintf(shape, sizeof(shape), y->vector ? "(%lld,)" : "(%lld, %lld)", (long long)rows, (long long)y->width);
    n = snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype[y->type], shape);
    pad = 64 - (10 + n + 1) % 64; /* the data is aligned to 64 bytes */
    len[0] = (uint8_t)(n + pad + 1);
    len[1] = (uint8_t)((n + pad + 1) >> 8);
    if ((rc = ctr_put(head, magic, 8, err)) < 0 || (rc = ctr_put(head, len, 2, err)) < 0 ||
        (rc = ctr_put(head, text, (size_t)n, err)) < 0)
        return rc;
    return ctr_buf_printf(head, err, "%*s\n", pad, "");
}

static bool fits(const struct ctr_field *f)
{
    enum ctr_type t = f->type == CTR_FIXED ? f->item : f->type;
    return dtype[t]; /* lists have none */
}

static int start(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    struct npy *y = calloc(1, sizeof(*y));
    int rc;

    e->state = y;
    if (y)
        y->column = calloc((size_t)e->schema.n + 1, sizeof(*y->column));
    if (!y || !y->column)
        return ctr_fail_nomem(err, sizeof(*y));
    for (int k = 0; k < e->schema.n; k++) {
        const struct ctr_field *f = &e->schema.f[k];
        enum ctr_type t = f->type == CTR_FIXED ? f->item : f->type;
        if (!fits(f) || (t == CTR_TIME && e->schema.n > 1)) {
            if ((rc = ctr_export_leave_out(e, k, err)) < 0)
                return rc;
            continue;
        }
        y->type = y->n ? promote(y->type, t) : t;
        y->column[y->n++] = k;
        y->width += f->type == CTR_FIXED ? f->width : 1;
    }
    if (!y->n)
        return ctr_fail(err, CTR_EUSAGE,
                        "no numeric column: npy holds numbers, fixed_size_lists of them, or one timestamp");
    y->vector = y->n == 1 && e->schema.f[y->column[0]].type != CTR_FIXED;
    if (e->opts.total_rows >= 0)
        return put_head(y, e->opts.total_rows, head, err);
    e->spill = ctr_tmpfile(err);
    return e->spill < 0 ? e->spill : 0;
}

/* Convert value k of c to the array's type; false: impossible. */
static bool store(enum ctr_type type, const struct ctr_col *c, int64_t k, uint8_t *to)
{
    int64_t i;

    if (type == c->type && type != CTR_BOOL) {
        memcpy(to, (const uint8_t *)c->data + (size_t)k * size_of(type), size_of(type));
        return true;
    }
    if (!ctr_types[type].floating) { /* promote guarantees that it fits */
        i = ctr_col_i64(c, k);
        memcpy(to, &i, size_of(type)); /* little-endian */
        return true;
    }
    double f = ctr_col_f64(c, k);
    if (c->type == CTR_I64 && (f >= 0x1p63 || (int64_t)f != ((const int64_t *)c->data)[k]))
        return false;
    if (c->type == CTR_U64 && (f >= 0x1p64 || (uint64_t)f != ((const uint64_t *)c->data)[k]))
        return false;
    if (type == CTR_F64) {
        memcpy(to, &f, 8);
    } else if (type == CTR_F32) {
        float s = (float)f;
        memcpy(to, &s, 4);
    } else {
        uint16_t h = ctr_f32_to_f16((float)f);
        memcpy(to, &h, 2);
    }
    return true;
}

static bool store_null(enum ctr_type type, uint8_t *to)
{
    const double f = (double)NAN;
    const float s = NAN;
    const uint16_t h = 0x7e00;
    const int64_t nat = INT64_MIN;

    switch (type) {
    case CTR_F64: memcpy(to, &f, 8); return true;
    case CTR_F32: memcpy(to, &s, 4); return true;
    case CTR_F16: memcpy(to, &h, 2); return true;
    case CTR_TIME: memcpy(to, &nat, 8); return true;
    default: return false;
    }
}

/* Write one column of the tile: values `width` apart, `count` per row. */
static int put_column(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to, int column,
                      uint8_t *data, size_t row_bytes, struct ctr_err *err)
{
    const struct npy *y = e->state;
    const struct ctr_col *c = &b->col[column];
    int64_t count = c->type == CTR_FIXED ? e->schema.f[column].width : 1;
    size_t size = size_of(y->type);

    for (int64_t i = from; i < to; i++, data += row_bytes) {
        const struct ctr_col *v = c;
        int64_t k = i, end;
        bool null = ctr_col_missing(c, i);
        if (!null && c->type == CTR_FIXED)
            v = ctr_col_items(c, ctr_col_width(c), i, &k, &end);
        for (int64_t d = 0; d < count; d++) {
            bool none = null || ctr_col_missing(v, k + d);
            const struct ctr_col *w = !none && v->dict ? v->dict : v;
            int64_t at = !none && v->dict ? ((const int32_t *)v->data)[k + d] : k + d;
            if (none && !store_null(y->type, data + (size_t)d * size))
                return ctr_export_bad(e, i, column,
                                      "an array of integers has no null; fill it (ctr-select --add "
                                      "'x=fill(…)') or write float64",
                                      err);
            if (!none && !store(y->type, w, at, data + (size_t)d * size))
                return ctr_export_bad(e, i, column, "this integer has no exact float64; export its column alone", err);
        }
    }
    return 0;
}

static int rows(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                struct ctr_export_tile *t, struct ctr_err *err)
{
    const struct npy *y = e->state;
    size_t size = size_of(y->type), row_bytes = (size_t)y->width * size, at = 0;
    char *p = ctr_put_room(&t->text, row_bytes * (size_t)(to - from), err);
    int rc = 0;

    if (!p)
        return CTR_ENOMEM;
    for (int k = 0; k < y->n && rc == 0; k++) {
        const struct ctr_field *f = &e->schema.f[y->column[k]];
        rc = put_column(e, b, from, to, y->column[k], (uint8_t *)p + at, row_bytes, err);
        at += (f->type == CTR_FIXED ? (size_t)f->width : 1) * size;
    }
    t->text.len += row_bytes * (size_t)(to - from);
    return rc;
}

static int copy_spill(struct ctr_export *e, int64_t bytes, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = ctr_buf_reserve(&b, 1 << 20, err);

    for (int64_t at = 0; at < bytes && rc == 0;) {
        size_t n = (size_t)CTR_MIN(bytes - at, (int64_t)1 << 20);
        if ((rc = ctr_pread_full(e->spill, b.data, n, at, err)) == 0)
            rc = ctr_out_write(e->out, b.data, n, err);
        at += (int64_t)n;
    }
    ctr_buf_free(&b);
    return rc;
}

static int finish(struct ctr_export *e, struct ctr_err *err)
{
    const struct npy *y = e->state;
    struct ctr_buf head = { 0 };

    if (e->spill < 0)
        return e->rows == e->opts.total_rows ? 0
                                             : ctr_fail(err, CTR_EDATA, "%lld rows came where the file announced %lld",
                                                        (long long)e->rows, (long long)e->opts.total_rows);
    int rc = put_head(y, e->rows, &head, err);
    if (rc == 0)
        rc = ctr_out_write(e->out, head.data, head.len, err);
    if (rc == 0)
        rc = copy_spill(e, e->rows * y->width * (int64_t)size_of(y->type), err);
    ctr_buf_free(&head);
    return rc;
}

static void stop(struct ctr_export *e)
{
    struct npy *y = e->state;

    if (!y)
        return;
    free(y->column);
    free(y);
}

const struct ctr_export_format ctr_export_npy = { "npy", 0, true, start, rows, finish, stop };
