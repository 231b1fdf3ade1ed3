/* SPDX-License-Identifier: Apache-2.0
 *
 * roworder: keys, normalised prefixes, comparison, and the in-memory sort. Invariant: prefix(a) < prefix(b) implies a <
 * b, and `exact` means that equal prefixes imply equality. It has its own radix sort, which moves prefixes of 16 bytes
 * with row pointers, and resolves ties by the whole keys. */
#include "common/rows/roworder.h"
#include "common/rows/relkey.h"

#include <math.h>
#include <stdlib.h>

/* ---- keys ---- */

static int add_key(struct ctr_roworder *o, const struct ctr_schema *s, char *name, struct ctr_err *err)
{
    char *colon = strrchr(name, ':');
    struct ctr_rowkey *k = realloc(o->key, ((size_t)o->n + 1) * sizeof *k);

    if (!k)
        return ctr_fail_nomem(err, ((size_t)o->n + 1) * sizeof *k);
    o->key = k;
    k += o->n;
    *k = (struct ctr_rowkey){ 0 };
    if (colon && (!strcmp(colon, ":desc") || !strcmp(colon, ":asc"))) {
        k->descending = colon[1] == 'd';
        *colon = 0;
    }
    k->col = ctr_schema_need(s, name, err);
    if (k->col < 0)
        return k->col;
    for (int i = 0; i < o->n; i++)
        if (o->key[i].col == k->col)
            return ctr_fail(err, CTR_EUSAGE, "%s is named twice", name);
    o->n++;
    return ctr_key_check(&s->f[k->col], err);
}

static bool is_exact(const struct ctr_roworder *o)
{
    int bytes = 0;

    for (int i = 0; i < o->n; i++) {
        const struct ctr_rowcol *c = &o->format->col[o->key[i].col];
        if (!c->width)
            return false;
        bytes += 1 + (c->type == CTR_F16 ? 4 : c->width);
    }
    return bytes <= 16;
}

int ctr_roworder_init(struct ctr_roworder *o, const struct ctr_rowformat *f, const struct ctr_schema *s,
                      const struct ctr_strs *keys, struct ctr_err *err)
{
    struct ctr_strs names = { 0 };
    int rc = 0;

    *o = (struct ctr_roworder){ .format = f };
    for (int i = 0; !rc && i < keys->n; i++)
        rc = ctr_names_split(&names, keys->s[i], ',', err);
    for (int i = 0; !rc && i < names.n; i++)
        rc = add_key(o, s, names.s[i], err);
    ctr_strs_free(&names);
    o->exact = is_exact(o);
    return rc;
}

void ctr_roworder_free(struct ctr_roworder *o)
{
    free(o->key);
    *o = (struct ctr_roworder){ 0 };
}

/* ---- prefixes ---- */

enum { FLAG_VALUE, FLAG_NAN, FLAG_NULL }; /* a byte before each value: NaN and null sort last in both directions */

static uint64_t ordered_f64(double d)
{
    uint64_t u;

    d += 0.0; /* -0 is 0 */
    memcpy(&u, &d, 8);
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

static uint32_t ordered_f32(float d)
{
    uint32_t u;

    d += 0.0f;
    memcpy(&u, &d, 4);
    return u >> 31 ? ~u : u | (uint32_t)1 << 31;
}

/* A number whose lowest bytes sort like the values; returns their number. For NaN it sets *flag. */
static int normal_value(const struct ctr_rowformat *f, const uint8_t *row, int col, uint8_t *flag, uint64_t *v)
{
    const struct ctr_rowcol *c = &f->col[col];

    if (c->type == CTR_F64 || c->type == CTR_F32 || c->type == CTR_F16) {
        double d = ctr_row_f64(f, row, col);
        if (isnan(d)) {
            *flag = FLAG_NAN;
            *v = 0;
        } else {
            *v = c->type == CTR_F64 ? ordered_f64(d) : ordered_f32((float)d);
        }
        return c->type == CTR_F64 ? 8 : 4;
    }
    *v = (uint64_t)ctr_row_i64(f, row, col);
    if (ctr_types[c->type].is_signed || c->type == CTR_TIME)
        *v ^= (uint64_t)1 << (8 * c->width - 1);
    *v = *v << (64 - 8 * c->width) >> (64 - 8 * c->width);
    return c->width;
}

void ctr_rowref_set(const struct ctr_roworder *o, struct ctr_rowref *r, const uint8_t *row)
{
    uint8_t b[40] = { 0 };
    int at = 0;

    r->row = row;
    if (o->by_tag) {
        r->hi = ctr_row_tag(row);
        r->lo = 0;
        return;
    }
    for (int i = 0; i < o->n && at < 16; i++) {
        const struct ctr_rowkey *k = &o->key[i];
        uint8_t flag = FLAG_VALUE, flip = k->descending ? 0xff : 0;
        uint64_t v = 0;
        int w = o->format->col[k->col].width;
        if (ctr_row_null(o->format, row, k->col)) {
            b[at] = FLAG_NULL;
            at += 1 + (o->format->col[k->col].type == CTR_F16 ? 4 : w);
            if (!w)
                break;
        } else if (!w) {
            struct ctr_str s = ctr_row_str(o->format, row, k->col);
            int room = 15 - at;
            for (int j = 0; j < room; j++)
                b[at + 1 + j] = (size_t)j < s.n ? (uint8_t)s.p[j] ^ flip : flip;
            break; /* after a text of variable length, the position of further keys is unknown */
        } else {
            w = normal_value(o->format, row, k->col, &flag, &v);
            b[at] = flag;
            if (flip && flag == FLAG_VALUE)
                v = ~v;
            v = __builtin_bswap64(v << (64 - 8 * w));
            memcpy(b + at + 1, &v, 8);
            at += 1 + w;
            memset(b + at, 0, 8);
        }
    }
    memcpy(&r->hi, b, 8);
    memcpy(&r->lo, b + 8, 8);
    r->hi = __builtin_bswap64(r->hi);
    r->lo = __builtin_bswap64(r->lo);
}

/* ---- comparison ---- */

static int compare_key(const struct ctr_roworder *o, const struct ctr_rowkey *k, const uint8_t *a, const uint8_t *b)
{
    const struct ctr_rowformat *f = o->format;
    uint8_t fa = FLAG_VALUE, fb = FLAG_VALUE;
    uint64_t va = 0, vb = 0;
    bool na = ctr_row_null(f, a, k->col), nb = ctr_row_null(f, b, k->col);
    int c;

    if (na || nb)
        return na - nb;
    if (!f->col[k->col].width) {
        struct ctr_str s = ctr_row_str(f, a, k->col), t = ctr_row_str(f, b, k->col);
        c = memcmp(s.p, t.p, CTR_MIN(s.n, t.n));
        c = c ? c : (s.n > t.n) - (s.n < t.n);
        return k->descending ? -c : c;
    }
    normal_value(f, a, k->col, &fa, &va);
    normal_value(f, b, k->col, &fb, &vb);
    if (fa != fb)
        return fa - fb;
    c = (va > vb) - (va < vb);
    return k->descending ? -c : c;
}

int ctr_row_compare(const struct ctr_roworder *o, const uint8_t *a, const uint8_t *b)
{
    for (int i = 0; i < o->n; i++) {
        int c = compare_key(o, &o->key[i], a, b);
        if (c)
            return c;
    }
    return 0;
}

/* ---- sorting ---- */

static void insertion_sort(const struct ctr_roworder *o, struct ctr_rowref *r, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct ctr_rowref x = r[i];
        int64_t j = i;
        for (; j > 0 && ctr_rowref_compare(o, &x, &r[j - 1]) < 0; j--)
            r[j] = r[j - 1];
        r[j] = x;
    }
}

/* Stable merge sort that skips sorted parts: equal texts of a small vocabulary cost one pass. */
static void merge_sort(const struct ctr_roworder *o, struct ctr_rowref *r, struct ctr_rowref *tmp, int64_t n)
{
    int64_t half = n / 2, i = 0, j = half, k = 0;

    if (n <= 12) {
        insertion_sort(o, r, n);
        return;
    }
    merge_sort(o, r, tmp, half);
    merge_sort(o, r + half, tmp, n - half);
    if (ctr_rowref_compare(o, &r[half - 1], &r[half]) <= 0)
        return;
    memcpy(tmp, r, (size_t)half * sizeof *r);
    while (i < half && j < n)
        r[k++] = ctr_rowref_compare(o, &tmp[i], &r[j]) <= 0 ? tmp[i++] : r[j++];
    memcpy(r + k, tmp + i, (size_t)(half - i) * sizeof *r);
}

static inline unsigned digit(const struct ctr_rowref *r, int byte) /* 0: least significant */
{
    return (unsigned)((byte < 8 ? r->lo >> (8 * byte) : r->hi >> (8 * (byte - 8))) & 255);
}

/* Least significant digit first, over the bytes that vary. The result is in *refs. */
static void radix_sort(struct ctr_rowref **refs, struct ctr_rowref **tmp, int64_t n, uint64_t vary_hi, uint64_t vary_lo)
{
    for (int byte = 0; byte < 16; byte++) {
        struct ctr_rowref *from = *refs, *to = *tmp;
        int64_t at[256] = { 0 }, sum = 0;
        uint64_t vary = byte < 8 ? vary_lo >> (8 * byte) : vary_hi >> (8 * (byte - 8));
        if (!(vary & 255))
            continue;
        for (int64_t i = 0; i < n; i++)
            at[digit(&from[i], byte)]++;
        for (int d = 0; d < 256; d++) {
            int64_t c = at[d];
            at[d] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++)
            to[at[digit(&from[i], byte)]++] = from[i];
        *refs = to;
        *tmp = from;
    }
}

/* Sort rows with equal prefixes by their whole keys. */
static void settle_ties(const struct ctr_roworder *o, struct ctr_rowref *r, struct ctr_rowref *tmp, int64_t n)
{
    for (int64_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && r[j].hi == r[i].hi && r[j].lo == r[i].lo; j++)
            ;
        if (j - i > 1)
            merge_sort(o, r + i, tmp, j - i);
    }
}

void ctr_rowrefs_sort(const struct ctr_roworder *o, struct ctr_rowref **refs, struct ctr_rowref **tmp, int64_t n)
{
    uint64_t hi = 0, lo = 0;
    bool ordered = true;

    for (int64_t i = 1; i < n; i++) {
        const struct ctr_rowref *a = &(*refs)[i - 1], *b = &(*refs)[i];
        hi |= a->hi ^ b->hi;
        lo |= a->lo ^ b->lo;
        ordered &= a->hi < b->hi || (a->hi == b->hi && a->lo <= b->lo);
    }
    if (n < 512) {
        merge_sort(o, *refs, *tmp, n);
        return;
    }
    if (!ordered)
        radix_sort(refs, tmp, n, hi, lo);
    if (!o->exact)
        settle_ties(o, *refs, *tmp, n);
}
