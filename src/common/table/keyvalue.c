/* SPDX-License-Identifier: Apache-2.0
 *
 * keyvalue: distinct values by number (keyvalue.h). */
#include "common/table/keyvalue.h"

#include <math.h>
#include <stdlib.h>

/* ---- the values of rows ---- */

uint64_t ctr_keyvalue_bits(const struct ctr_col *c, int64_t i)
{
    c = ctr_col_plain(c, &i);
    if (!ctr_types[c->type].floating)
        return (uint64_t)ctr_col_i64(c, i);
    double d = ctr_col_f64(c, i);
    uint64_t bits;
    d = isnan(d) ? (double)NAN : d == 0 ? 0 : d;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static void read_numbers(struct ctr_keyvalue *row, const struct ctr_col *c)
{
    for (int64_t i = 0; i < c->rows; i++) {
        const bool null = ctr_col_missing(c, i);
        row[i] = (struct ctr_keyvalue){ .key = null ? 0 : ctr_mix64(ctr_keyvalue_bits(c, i)), .null = null };
    }
}

/* The hash of a dictionary's entry is made for its first row; the rows before it in the batch have it. */
static int read_texts(struct ctr_keyvalue *row, const struct ctr_col *c, struct ctr_buf *entries, struct ctr_err *err)
{
    const bool once = c->dict && c->dict->rows < c->rows;
    int rc = once ? ctr_buf_room(entries, c->dict->rows, sizeof(int64_t), err) : 0;
    int64_t *seen = (int64_t *)(void *)entries->data; /* by entry: 1 + a row that has it */
    if (!rc && once && c->dict->rows)
        memset(seen, 0, (size_t)c->dict->rows * sizeof *seen);
    for (int64_t i = 0; !rc && i < c->rows; i++) {
        int64_t *of = once && !ctr_col_null(c, i) ? &seen[((const int32_t *)c->data)[i]] : NULL;
        if (of && *of)
            row[i] = row[*of - 1];
        else if (ctr_col_missing(c, i))
            row[i] = (struct ctr_keyvalue){ .p = "", .null = true };
        else
            row[i] = ctr_keyvalue_text(ctr_col_str(c, i));
        if (of && !*of)
            *of = i + 1;
    }
    return rc;
}

/* Each column: 0 for null; else 1 and 8 bytes of a number, or the length and bytes of a text. No row's bytes are those
 * of another. */
static int append_part(struct ctr_buf *to, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    const uint8_t there = !ctr_col_missing(c, i);
    int rc = ctr_buf_append(to, &there, 1, err);
    if (rc || !there)
        return rc;
    c = ctr_col_plain(c, &i);
    if (c->type != CTR_UTF8) {
        const uint64_t bits = ctr_keyvalue_bits(c, i);
        return ctr_buf_append(to, &bits, sizeof bits, err);
    }
    const struct ctr_str s = ctr_col_str(c, i);
    const uint32_t n = (uint32_t)s.n;
    rc = ctr_buf_append(to, &n, sizeof n, err);
    return rc ? rc : ctr_buf_append(to, s.p, s.n, err);
}

static int read_several(struct ctr_keyvalue_rows *r, const struct ctr_batch *b, const int *cols, int n,
                        struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&r->bytes);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const size_t from = r->bytes.len;
        for (int k = 0; !rc && k < n; k++)
            rc = append_part(&r->bytes, &b->col[cols[k]], i, err);
        if (!rc && r->bytes.len - from > UINT32_MAX)
            rc = ctr_fail(err, CTR_EDATA, "row %lld: a key of more than 4 GiB", (long long)(b->first_row + i + 1));
        r->row[i].n = (uint32_t)(r->bytes.len - from);
    }
    const char *p = (const char *)r->bytes.data;
    for (int64_t i = 0; !rc && i < b->rows; p += r->row[i++].n)
        r->row[i] = ctr_keyvalue_text((struct ctr_str){ p, r->row[i].n });
    return rc;
}

int ctr_keyvalue_read(struct ctr_keyvalue_rows *r, const struct ctr_batch *b, const int *cols, int n,
                      struct ctr_err *err)
{
    if (b->rows > r->cap) {
        free(r->row);
        r->cap = 0;
        if (!(r->row = malloc((size_t)b->rows * sizeof *r->row)))
            return ctr_fail_nomem(err, (size_t)b->rows * sizeof *r->row);
        r->cap = b->rows;
    }
    if (n > 1)
        return read_several(r, b, cols, n, err);
    const struct ctr_col *c = &b->col[cols[0]];
    if (c->type == CTR_UTF8)
        return read_texts(r->row, c, &r->bytes, err);
    read_numbers(r->row, c);
    return 0;
}

void ctr_keyvalue_rows_free(struct ctr_keyvalue_rows *r)
{
    free(r->row);
    ctr_buf_free(&r->bytes);
    *r = (struct ctr_keyvalue_rows){ 0 };
}

/* ---- numbers of values ---- */

void ctr_keyvalue_set_init(struct ctr_keyvalue_set *x)
{
    *x = (struct ctr_keyvalue_set){ .n = 0 };
}

void ctr_keyvalue_set_free(struct ctr_keyvalue_set *x)
{
    ctr_keyindex_free(&x->index);
    ctr_buf_free(&x->bytes);
    ctr_buf_free(&x->start);
}

int64_t ctr_keyvalue_set_bytes(const struct ctr_keyvalue_set *x)
{
    return (int64_t)(ctr_keyindex_bytes(&x->index) + x->bytes.cap + x->start.cap);
}

int64_t ctr_keyvalue_set_bytes_after(const struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id)
{
    const size_t n = id->p ? id->n + CTR_PAD : 0;
    return (int64_t)ctr_keyindex_bytes_after(&x->index, 1) +
           (int64_t)(x->bytes.cap < x->bytes.len + n ? 2 * (x->bytes.len + n) : x->bytes.cap) +
           (int64_t)(id->p && x->start.cap < x->start.len + 16 ? 2 * x->start.len : x->start.cap);
}

struct ctr_str ctr_keyvalue_set_text(const struct ctr_keyvalue_set *x, uint64_t number)
{
    const int64_t *start = (const int64_t *)(const void *)x->start.data + number;
    return (struct ctr_str){ (const char *)x->bytes.data + start[0], (size_t)(start[1] - start[0]) };
}

/* The next key for bytes whose key other bytes have. */
static uint64_t after(uint64_t key)
{
    return ctr_mix64(key + 1);
}

int64_t ctr_keyvalue_set_find(const struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id)
{
    if (id->null)
        return (int64_t)x->null - 1;
    for (uint64_t key = id->key;; key = after(key)) {
        const uint32_t *found = ctr_keyindex_find(&x->index, key), number = found ? *found : 0;
        if (!number || !id->p || ctr_keyvalue_same(id, ctr_keyvalue_set_text(x, number - 1)))
            return (int64_t)number - 1;
    }
}

static int keep_bytes(struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id, struct ctr_err *err)
{
    const int64_t none = 0;
    int rc = x->start.len ? 0 : ctr_buf_append(&x->start, &none, sizeof none, err);
    if (!rc && !id->null)
        rc = ctr_buf_append(&x->bytes, id->p, id->n, err);
    const int64_t end = (int64_t)x->bytes.len;
    return rc ? rc : ctr_buf_append(&x->start, &end, sizeof end, err);
}

int ctr_keyvalue_set_add(struct ctr_keyvalue_set *x, const struct ctr_keyvalue *id, uint32_t *number,
                         struct ctr_err *err)
{
    const int64_t found = ctr_keyvalue_set_find(x, id);
    *number = found < 0 ? x->n : (uint32_t)found;
    if (found >= 0)
        return 0;
    if (x->n >= UINT32_MAX - 1)
        return ctr_fail(err, CTR_ENOMEM, "more than %u values", UINT32_MAX - 1);
    int rc = ctr_keyindex_reserve(&x->index, 1, err);
    if (!rc && id->p)
        rc = keep_bytes(x, id, err);
    if (rc)
        return rc;
    const uint32_t stored = ++x->n;
    if (id->null) {
        x->null = stored;
        return 0;
    }
    uint64_t key = id->key;
    uint32_t *to = ctr_keyindex_get(&x->index, key);
    while (*to) /* only free places are entered, so that no room is needed for more than one */
        to = ctr_keyindex_get(&x->index, key = after(key));
    *to = stored;
    return 0;
}
