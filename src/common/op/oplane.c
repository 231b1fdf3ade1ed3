/* SPDX-License-Identifier: Apache-2.0
 *
 * oplane: converts columns of any type to lanes, the few array types that operators' loops read, and results to
 * columns. Invariant: a lane holds a defined value for every row, also for nulls, whatever index or bytes the column
 * has there. */
#include "common/base/isa.h"
#include "common/op/opint.h"

/* Rows loaded together: their dictionary indices fit on the stack. */
struct piece {
    const struct ctr_col *c; /* plain values */
    const int32_t *idx;      /* NULL: rows from… */
    int64_t from, n;
};

#define EACH(expr)                                                                                                     \
    do {                                                                                                               \
        if (s->idx)                                                                                                    \
            for (int64_t i = 0; i < s->n; i++) {                                                                       \
                const int64_t j = s->idx[i];                                                                           \
                o[i] = (expr);                                                                                         \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < s->n; i++) {                                                                       \
                const int64_t j = s->from + i;                                                                         \
                o[i] = (expr);                                                                                         \
            }                                                                                                          \
    } while (0)
#define WIDEN(S)                                                                                                       \
    do {                                                                                                               \
        const S *v = s->c->data;                                                                                       \
        EACH(v[j]);                                                                                                    \
    } while (0)

static void load_bool(const struct piece *s, uint8_t *o)
{
    EACH(ctr_bit(s->c->data, j));
}

static void load_i64(const struct piece *s, int64_t *o, uint8_t *ok)
{
    switch (s->c->type) {
    case CTR_BOOL: EACH(ctr_bit(s->c->data, j)); break;
    case CTR_I8: WIDEN(int8_t); break;
    case CTR_I16: WIDEN(int16_t); break;
    case CTR_I32: WIDEN(int32_t); break;
    case CTR_U8: WIDEN(uint8_t); break;
    case CTR_U16: WIDEN(uint16_t); break;
    case CTR_U32: WIDEN(uint32_t); break;
    default: WIDEN(int64_t); break;
    }
    if (s->c->type == CTR_U64)
        for (int64_t i = 0; i < s->n; i++)
            ok[i] &= o[i] >= 0;
}

static void load_f64(const struct piece *s, double *o)
{
    switch (s->c->type) {
    case CTR_I8: EACH((double)((const int8_t *)s->c->data)[j]); break;
    case CTR_I16: EACH((double)((const int16_t *)s->c->data)[j]); break;
    case CTR_I32: EACH((double)((const int32_t *)s->c->data)[j]); break;
    case CTR_I64: EACH((double)((const int64_t *)s->c->data)[j]); break;
    case CTR_U8: EACH((double)((const uint8_t *)s->c->data)[j]); break;
    case CTR_U16: EACH((double)((const uint16_t *)s->c->data)[j]); break;
    case CTR_U32: EACH((double)((const uint32_t *)s->c->data)[j]); break;
    case CTR_U64: EACH((double)((const uint64_t *)s->c->data)[j]); break;
    case CTR_F16: EACH(opv_number((double)ctr_f16_to_f32(((const uint16_t *)s->c->data)[j]))); break;
    case CTR_F32: EACH(opv_number((double)((const float *)s->c->data)[j])); break;
    default: WIDEN(double); break;
    }
}

static void load_u64(const struct piece *s, uint64_t *o)
{
    WIDEN(uint64_t);
}

static void load_str(const struct piece *s, struct opv_str *o)
{
    const int32_t *off = s->c->offsets;
    const uint8_t *p = s->c->data;

    for (int64_t i = 0; i < s->n; i++) {
        int64_t j = s->idx ? s->idx[i] : s->from + i;
        o[i].p = p + off[j];
        o[i].n = off[j + 1] - off[j];
    }
}

#define SCALAR_TEXT_MAX 64

/* The canonical text of a scalar other than text: ctr_col_text without its buffer. */
static size_t scalar_text(const struct ctr_col *c, int64_t j, char *o)
{
    switch (c->type) {
    case CTR_BOOL: return ctr_bit(c->data, j) ? (memcpy(o, "true", 4), 4) : (memcpy(o, "false", 5), 5);
    case CTR_TIME: return ctr_time_iso(o, ((const int64_t *)c->data)[j]);
    case CTR_F16: return ctr_fmt_f32(o, ctr_f16_to_f32(((const uint16_t *)c->data)[j]));
    case CTR_F32: return ctr_fmt_f32(o, ((const float *)c->data)[j]);
    case CTR_F64: return ctr_fmt_f64(o, ((const double *)c->data)[j]);
    case CTR_U64: return ctr_fmt_u64(o, ((const uint64_t *)c->data)[j]);
    default: return ctr_fmt_i64(o, ctr_col_i64(c, j));
    }
}

static int load_text(const struct piece *s, struct opv_str *o, const uint8_t *ok, struct ctr_buf *text)
{
    for (int64_t i = 0; i < s->n; i++) {
        char *to = (char *)text->data + text->len;
        o[i].p = (const uint8_t *)to;
        o[i].n = 0;
        if (!ok[i])
            continue;
        o[i].n = (int64_t)scalar_text(s->c, s->idx ? s->idx[i] : s->from + i, to);
        text->len += (size_t)o[i].n;
    }
    return 0;
}

static size_t lane_width(enum ctr_lane lane)
{
    static const uint8_t width[] = { 0, 1, 8, 8, 8, sizeof(struct opv_str), sizeof(struct opv_str), 8 };

    return width[lane];
}

static void load_piece(enum ctr_lane lane, const struct piece *s, void *to, uint8_t *ok, struct ctr_buf *text)
{
    switch (lane) {
    case CTR_LANE_BOOL: load_bool(s, to); break;
    case CTR_LANE_I64: load_i64(s, to, ok); break;
    case CTR_LANE_U64: load_u64(s, to); break;
    case CTR_LANE_F64: load_f64(s, to); break;
    case CTR_LANE_STR: load_str(s, to); break;
    case CTR_LANE_TEXT:
        if (s->c->type == CTR_UTF8)
            load_str(s, to);
        else
            load_text(s, to, ok, text);
        break;
    default: break;
    }
}

/* Can the lane point into the column directly? */
static bool lane_is_column(enum ctr_lane lane, const struct ctr_col *c)
{
    if (c->dict)
        return false;
    return (lane == CTR_LANE_I64 && (c->type == CTR_I64 || c->type == CTR_TIME)) ||
           (lane == CTR_LANE_F64 && c->type == CTR_F64) || (lane == CTR_LANE_U64 && c->type == CTR_U64);
}

/* Indices of part of an encoded column; nulls refer to entry 0. False: the dictionary is empty, so all are null. */
static bool piece_index(const struct ctr_col *c, int64_t from, int64_t n, int32_t *idx, uint8_t *ok)
{
    const int32_t *v = (const int32_t *)c->data + from;

    if (c->dict->rows == 0)
        return false;
    for (int64_t i = 0; i < n; i++)
        idx[i] = ok[i] ? v[i] : 0;
    if (c->dict->valid)
        for (int64_t i = 0; i < n; i++)
            ok[i] &= ctr_bit(c->dict->valid, idx[i]);
    return true;
}

int ctr_lane_load(enum ctr_lane lane, bool key, uint64_t hash_seed, const struct ctr_col *c, int64_t from, int64_t n,
                  void *to, uint8_t *ok, struct ctr_buf *text, const void **v, struct ctr_err *err)
{
    int32_t idx[CTR_OP_TILE];
    size_t width = lane_width(lane);
    const struct ctr_col *plain = c->dict ? c->dict : c;
    int rc;

    *v = to;
    if (lane == CTR_LANE_HASH && key)
        lane = CTR_LANE_U64;
    ctr_lane_valid(c->valid, from, n, ok);
    if (lane_is_column(lane, c)) {
        *v = (const uint64_t *)c->data + from;
        return 0;
    }
    if (lane == CTR_LANE_TEXT && plain->type != CTR_UTF8) {
        text->len = 0;
        if ((rc = ctr_buf_reserve(text, (size_t)n * SCALAR_TEXT_MAX, err)))
            return rc;
    }
    for (int64_t done = 0; done < n; done += CTR_OP_TILE) {
        struct piece s = { plain, NULL, from + done, CTR_MIN(n - done, CTR_OP_TILE) };
        uint8_t *at = (uint8_t *)to + (size_t)done * width;
        if (c->dict) {
            s.idx = idx;
            if (!piece_index(c, s.from, s.n, idx, ok + done)) {
                memset(at, 0, (size_t)s.n * width);
                memset(ok + done, 0, (size_t)s.n);
                continue;
            }
        }
        load_piece(lane, &s, at, ok + done, text);
    }
    return lane == CTR_LANE_HASH ? ctr_keys_scalar(key, c, from, n, hash_seed, NULL, to, err) : 0;
}

/* ---- nulls ---- */

void ctr_lane_valid(const uint8_t *valid, int64_t from, int64_t n, uint8_t *ok)
{
    int64_t i = 0;

    if (!valid) {
        memset(ok, 1, (size_t)n);
        return;
    }
    for (; i < n && ((from + i) & 7); i++)
        ok[i] = ctr_bit(valid, from + i);
    for (; i + 8 <= n; i += 8) { /* spread the bits of a byte over eight bytes, each 0 or 1 */
        uint64_t x = valid[(from + i) >> 3] * 0x0101010101010101u & 0x8040201008040201u;
        x = (x + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
        memcpy(ok + i, &x, 8);
    }
    for (; i < n; i++)
        ok[i] = ctr_bit(valid, from + i);
}

/* Pack n bytes of 0 or 1 into bits; returns the number of ones. */
static int64_t pack_bits(const uint8_t *v, int64_t n, uint8_t *bits)
{
    int64_t i = 0, ones = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t x;
        memcpy(&x, v + i, 8);
        bits[i >> 3] = (uint8_t)ctr_bool_bits(x);
        ones += __builtin_popcountll(x);
    }
    if (i < n)
        bits[i >> 3] = 0;
    for (; i < n; i++) {
        bits[i >> 3] |= (uint8_t)(v[i] << (i & 7));
        ones += v[i];
    }
    return ones;
}

int ctr_lane_append_valid(struct ctr_colbuf *b, const uint8_t *ok, int64_t n, struct ctr_err *err)
{
    size_t before = (size_t)b->rows / 8, more = (size_t)(n + 7) / 8;
    int rc;

    if (b->valid.len || memchr(ok, 0, (size_t)n)) {
        if ((rc = ctr_buf_reserve(&b->valid, before + more - b->valid.len, err)))
            return rc;
        memset(b->valid.data + b->valid.len, 0xff, before - b->valid.len);
        b->nulls += n - pack_bits(ok, n, b->valid.data + before);
        b->valid.len = before + more;
    }
    b->rows += n;
    return 0;
}

/* ---- room for results ---- */

int ctr_op_too_large(int64_t bytes, int64_t limit, struct ctr_err *err)
{
    return ctr_fail(err, CTR_ELARGE, "the result takes %s, and %s is what one may take",
                    ctr_size_text_beyond((uint64_t)bytes, (uint64_t)limit).s, ctr_size_text((uint64_t)limit).s);
}

int ctr_op_reserve_text(struct ctr_colbuf *b, int64_t n, int64_t bytes, int64_t limit, struct ctr_err *err)
{
    int rc;

    if (limit && bytes > limit - (int64_t)b->data.len)
        return ctr_op_too_large(bytes + (int64_t)b->data.len, limit, err);
    if (bytes < 0 || bytes > INT32_MAX - (int64_t)b->data.len)
        return ctr_fail_too_long(err);
    if ((rc = ctr_buf_reserve(&b->data, (size_t)bytes + 8, err)))
        return rc;
    return ctr_colbuf_reserve_offsets(b, n, err);
}

int ctr_op_reserve_items(struct ctr_colbuf *b, int64_t n, int64_t items, int64_t limit, struct ctr_err *err)
{
    const int64_t width = b->item->type == CTR_UTF8 ? 4 : 8;

    if (limit && items > limit / width - b->item->rows)
        return ctr_op_too_large((items + b->item->rows) * width, limit, err);
    if (items < 0 || items > INT32_MAX - b->item->rows)
        return ctr_fail_too_long(err);
    return ctr_colbuf_reserve_offsets(b, n, err);
}
