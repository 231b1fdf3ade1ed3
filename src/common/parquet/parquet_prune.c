/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_prune: what the statistics and bloom filters of a row group say about a condition (parquet.thrift, Statistics
 * and ColumnOrder; BloomFilter.md). Invariant: bounds that are missing, damaged or of an order that is not known bound
 * nothing. */
#include "common/parquet/parquet_impl.h"

enum { DAY_MS = 86400000, BLOCK_BYTES = 32, HEAD_BYTES = 256 };

/* ---- bounds ---- */

static int64_t floor_by(int64_t v, int64_t by)
{
    return v / by - (v % by < 0);
}

/* A number in PLAIN as values of the column become; false: none that orders them. */
static bool number(const struct pq_leaf *l, struct ctr_str s, long double *out)
{
    const bool is_signed = l->native.type == CTR_TIME || ctr_types[l->native.type].is_signed;
    int64_t v = 0;
    float f;
    double d;
    if (s.n != (size_t)(l->type == PQ_BOOLEAN ? 1 : l->width))
        return false;
    switch (l->type) {
    case PQ_BOOLEAN: *out = *s.p != 0; return true;
    case PQ_FLOAT: memcpy(&f, s.p, sizeof f); return (*out = f) == f;
    case PQ_REAL64: memcpy(&d, s.p, sizeof d); return (*out = d) == d;
    case PQ_INT32:
    case PQ_INT64: memcpy(&v, s.p, s.n); break;
    default: return false;
    }
    if (l->type == PQ_INT32 && is_signed)
        v = (int32_t)v;
    if (l->kind == PQ_K_S && __builtin_mul_overflow(v, (int64_t)1000, &v))
        return false;
    v = l->kind == PQ_K_DAY  ? v * DAY_MS
        : l->kind == PQ_K_US ? floor_by(v, 1000)
        : l->kind == PQ_K_NS ? floor_by(v, 1000000)
                             : v;
    *out = is_signed ? (long double)v : (long double)(uint64_t)v;
    return true;
}

static bool is_comparable(const struct pq_leaf *l)
{
    return !l->max_rep && (l->kind == PQ_K_BITS || l->kind == PQ_K_SAME || l->kind == PQ_K_NARROW ||
                           l->kind == PQ_K_DAY || l->kind == PQ_K_US || l->kind == PQ_K_NS || l->kind == PQ_K_S ||
                           l->kind == PQ_K_MS32 || l->kind == PQ_K_TEXT);
}

static enum ctr_bound_kind kind_of(enum ctr_type t)
{
    return t == CTR_UTF8   ? CTR_BOUND_TEXT
           : t == CTR_TIME ? CTR_BOUND_TIME
           : t == CTR_BOOL ? CTR_BOUND_BOOL
                           : CTR_BOUND_NUMBER;
}

/* Deprecated bounds are in the order of signed values, so that they bound what is ordered so. */
static bool in_order(const struct pq_leaf *l, const struct pq_footer *f, const struct pq_statistics *s)
{
    if (!s->old)
        return f->ordered && f->ordered[l->column];
    return l->type == PQ_BOOLEAN || l->type == PQ_FLOAT || l->type == PQ_REAL64 ||
           ((l->type == PQ_INT32 || l->type == PQ_INT64) &&
            (l->native.type == CTR_TIME || ctr_types[l->native.type].is_signed));
}

static int compare_texts(struct ctr_str a, struct ctr_str b)
{
    const int c = memcmp(a.p, b.p, CTR_MIN(a.n, b.n));
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static void chunk_bounds(const struct pq_leaf *l, const struct pq_footer *f, const struct pq_chunk *chunk, int64_t rows,
                         struct ctr_bounds *b)
{
    const struct pq_statistics *s = &chunk->statistics;
    const enum ctr_bound_kind kind = kind_of(l->native.type);
    b->nan = ctr_types[l->native.type].floating;
    b->nulls = !l->max_def ? 0 : s->nulls >= 0 && s->nulls <= rows ? s->nulls : -1;
    b->min.kind = b->max.kind = kind;
    if (!s->min.p || !s->max.p || !in_order(l, f, s))
        return;
    if (kind == CTR_BOUND_TEXT) {
        b->min.text = s->min;
        b->max.text = s->max;
        b->ranged = compare_texts(s->min, s->max) <= 0;
    } else {
        b->ranged =
            number(l, s->min, &b->min.number) && number(l, s->max, &b->max.number) && b->min.number <= b->max.number;
    }
}

/* The one value of a path. */
static void constant_bounds(const struct pq_column *c, struct ctr_bounds *b)
{
    const struct ctr_colbuf *v = &c->converted;
    struct ctr_col one = {
        .type = v->type, .rows = 1, .data = v->data.data, .offsets = (const int32_t *)(const void *)v->offsets.data
    };
    const enum ctr_bound_kind kind = kind_of(v->type);
    *b = (struct ctr_bounds){ .ranged = true, .min = { .kind = kind } };
    if (kind == CTR_BOUND_TEXT)
        b->min.text = ctr_col_str(&one, 0);
    else if (ctr_types[v->type].floating)
        b->min.number = ctr_col_f64(&one, 0);
    else if (v->type == CTR_U64)
        b->min.number = (long double)(uint64_t)ctr_col_i64(&one, 0);
    else
        b->min.number = (long double)ctr_col_i64(&one, 0);
    b->ranged = b->min.number == b->min.number; /* not NaN */
    b->max = b->min;
}

struct about {
    const struct pq_column *column;
    const struct ctr_schema *schema;
    const struct pq_footer *footer;
    const struct pq_group *group; /* NULL: of the file as a whole */
    int fd;
    int64_t size, *bytes_read;
};

static const struct pq_column *column_of(const struct about *a, const char *name)
{
    const int i = ctr_schema_find(a->schema, name);
    return i < 0 ? NULL : &a->column[i];
}

static bool bounds(void *ctx, const char *name, struct ctr_bounds *out)
{
    const struct about *a = ctx;
    const struct pq_column *c = column_of(a, name);
    if (!c)
        return false;
    if (c->from == PQ_FROM_PATH) {
        constant_bounds(c, out);
        return true;
    }
    out->nulls = c->from == PQ_FROM_NOWHERE ? a->group->rows : -1;
    if (c->from == PQ_FROM_NOWHERE)
        return true;
    if (c->converts || !is_comparable(c->leaf))
        return false;
    chunk_bounds(c->leaf, a->footer, &a->group->chunk[c->leaf->column], a->group->rows, out);
    return true;
}

/* ---- bloom filters ---- */

struct filter {
    int64_t blocks, start; /* start: of the blocks, in the bytes read; 0 blocks: of a kind that is not known */
};

static int only_choice(struct pq_thrift *t, int wire)
{
    struct pq_field f = { 0 };
    int id = 0;
    if (wire != PQ_STRUCT)
        t->bad = true;
    while (!t->bad && ctr_pq_field(t, &f)) {
        id = f.id;
        ctr_pq_skip(t, f.wire);
    }
    return id;
}

static struct filter read_filter_head(const uint8_t *p, size_t n)
{
    struct pq_thrift t = { p, p + n, 0, false };
    struct pq_field f = { 0 };
    int64_t bytes = 0;
    int known = 0;
    while (ctr_pq_field(&t, &f))
        if (f.id == 1)
            bytes = ctr_pq_int(&t, f.wire);
        else if (f.id >= 2 && f.id <= 4) /* split blocks, xxHash, uncompressed */
            known += only_choice(&t, f.wire) == 1;
        else
            ctr_pq_skip(&t, f.wire);
    if (t.bad || known != 3 || bytes < BLOCK_BYTES || bytes % BLOCK_BYTES)
        return (struct filter){ 0 };
    return (struct filter){ bytes / BLOCK_BYTES, t.p - p };
}

static bool block_has(const uint8_t *block, uint32_t key)
{
    static const uint32_t salt[8] = { 0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                      0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31 };
    for (int i = 0; i < 8; i++) {
        uint32_t word;
        memcpy(&word, block + 4 * i, sizeof word);
        if (!(word >> (key * salt[i] >> 27) & 1))
            return false;
    }
    return true;
}

/* May the chunk have a value with these bytes? */
static bool filter_has(struct about *a, const struct pq_chunk *chunk, const void *value, size_t n)
{
    uint8_t head[HEAD_BYTES], block[BLOCK_BYTES];
    struct ctr_err none = { 0 };
    const uint64_t hash = ctr_xxh64(value, n);
    const int64_t left = a->size - chunk->bloom_at;
    if (chunk->bloom_at < 4 || left <= BLOCK_BYTES)
        return true;
    const size_t most = (size_t)CTR_MIN(left, (int64_t)sizeof head);
    if (ctr_pread_full(a->fd, head, most, chunk->bloom_at, &none))
        return true;
    *a->bytes_read += (int64_t)most;
    const struct filter f = read_filter_head(head, most);
    if (!f.blocks || f.start > left || f.blocks > (left - f.start) / BLOCK_BYTES)
        return true;
    const int64_t at = f.start + (int64_t)((hash >> 32) * (uint64_t)f.blocks >> 32) * BLOCK_BYTES;
    if (ctr_pread_full(a->fd, block, sizeof block, chunk->bloom_at + at, &none))
        return true;
    *a->bytes_read += (int64_t)sizeof block;
    return block_has(block, (uint32_t)hash);
}

/* An integer of the column: its bytes. False: other values may become this number, or it has no such bytes. */
static bool integer_bytes(const struct pq_leaf *l, long double v, int64_t *out)
{
    if (l->kind == PQ_K_DAY)
        v /= DAY_MS;
    else if (l->kind != PQ_K_SAME && l->kind != PQ_K_NARROW)
        return false;
    if (!(v >= -9223372036854775808.0L && v < 18446744073709551616.0L))
        return false;
    *out = v < 0 ? (int64_t)v : (int64_t)(uint64_t)v;
    const long double back = v < 0 ? (long double)*out : (long double)(uint64_t)*out;
    if (back != v)
        return false;
    const bool is_signed = l->native.type == CTR_TIME || ctr_types[l->native.type].is_signed;
    if (l->type == PQ_INT32)
        return is_signed ? *out == (int32_t)*out && (v < 0) == (*out < 0) : *out == (int64_t)(uint32_t)*out;
    return is_signed ? (v < 0) == (*out < 0) : v >= 0;
}

static bool may_have(void *ctx, const char *name, const struct ctr_bound *value)
{
    struct about *a = ctx;
    const struct pq_column *c = column_of(a, name);
    if (!c || c->from != PQ_FROM_FILE)
        return true;
    const struct pq_leaf *l = c->leaf;
    const struct pq_chunk *chunk = &a->group->chunk[l->column];
    const float f = (float)value->number;
    const double d = (double)value->number;
    int64_t v;
    if (chunk->bloom_at <= 0 || value->kind != kind_of(l->native.type))
        return true;
    switch (l->type) {
    case PQ_BYTES: return l->kind != PQ_K_TEXT || filter_has(a, chunk, value->text.p, value->text.n);
    case PQ_INT32:
    case PQ_INT64: return !integer_bytes(l, value->number, &v) || filter_has(a, chunk, &v, l->type == PQ_INT32 ? 4 : 8);
    case PQ_FLOAT: return f == 0 || (long double)f != value->number || filter_has(a, chunk, &f, sizeof f);
    case PQ_REAL64: return d == 0 || (long double)d != value->number || filter_has(a, chunk, &d, sizeof d);
    default: return true;
    }
}

bool ctr_pq_may_hold(const struct ctr_conditions *where, const struct pq_column *columns,
                     const struct ctr_schema *schema, const struct pq_footer *footer, const struct pq_group *group,
                     int fd, int64_t size, int64_t *bytes_read)
{
    struct about a = { columns, schema, footer, group, fd, size, bytes_read };
    const struct ctr_bounds_of known = { bounds, may_have, &a };
    return !where || ctr_conditions_may_hold(where, &known, group->rows);
}
