/* SPDX-License-Identifier: Apache-2.0
 *
 * csvcell: converts a column of cells to values. One loop per class of types, over the rows of a tile: no call,
 * allocation or type dispatch per cell on the common path. Numbers are parsed in place; what the short paths do not
 * handle goes to the exact readers of base.h.
 */
#include "common/base/isa.h"
#include "common/text/csv.h"
#include "common/text/shortnumber.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct ctr_str ctr_csv_raw(const struct csv_tile *t, const struct csv_dialect *d, uint32_t row_start, uint32_t first,
                           int c)
{
    uint32_t s = c ? t->end[first + (uint32_t)c - 1] + d->delimiter_n : row_start, e = t->end[first + (uint32_t)c];
    return (struct ctr_str){ t->p + s, e - s };
}

/* The members of a tile that a loop over a column needs, kept in registers, because nothing that the loop writes can
 * alias them. */
struct cells {
    const char *p;
    const uint32_t *first, *end, *row_start;
    uint32_t delimiter_n, c;
};

static inline struct cells cells_of(const struct csv_tile *t, const struct csv_dialect *d, int c)
{
    return (struct cells){ t->p, t->first, t->end + c, t->row_start, d->delimiter_n, (uint32_t)c };
}

static inline struct ctr_str cell_at(struct cells l, int i)
{
    const uint32_t *e = l.end + l.first[i];
    uint32_t s = l.c ? e[-1] + l.delimiter_n : l.row_start[i];
    return (struct ctr_str){ l.p + s, *e - s };
}

/* ---- validity ---- */

/* Append the bitmap t->present for t->rows rows, `nulls` of which are null, and count the rows. */
static int finish_rows(struct csv_tile *t, struct ctr_colbuf *b, int64_t nulls, struct ctr_err *err)
{
    int64_t rows = t->rows, words = (rows + 63) / 64;
    if (nulls || b->valid.len) {
        bool fresh = !b->valid.len;
        int rc = ctr_buf_reserve(&b->valid, (size_t)(b->rows + rows) / 8 + 32, err);
        if (rc)
            return rc;
        size_t need = (size_t)(b->rows + rows + 7) / 8, have = (size_t)(b->rows + 7) / 8;
        memset(b->valid.data + (fresh ? 0 : have), 0, need + 16 - (fresh ? 0 : have));
        if (fresh) {
            memset(b->valid.data, 0xff, (size_t)b->rows / 8);
            if (b->rows & 7)
                b->valid.data[b->rows / 8] = (uint8_t)((1 << (b->rows & 7)) - 1);
        }
        for (int64_t w = 0; w < words; w++) {
            uint64_t bits = t->present[w], low;
            int64_t at = b->rows + 64 * w;
            if (rows - 64 * w < 64)
                bits &= (1ull << (rows - 64 * w)) - 1;
            uint8_t *to = b->valid.data + at / 8;
            memcpy(&low, to, 8);
            low |= bits << (at & 7);
            memcpy(to, &low, 8);
            if (at & 7)
                to[8] = (uint8_t)(bits >> (64 - (at & 7)));
        }
        b->valid.len = need;
    }
    b->rows += rows;
    b->nulls += nulls;
    return 0;
}

static inline void misfit(struct csv_tile *t, int i, int c)
{
    int32_t *status = &t->status[t->record[i]];
    if (!*status)
        *status = c + 1;
}

/* A loop over the rows of a tile that sets a bit per row: BODY computes `ok` for row i. Counts `nulls`. */
#define EACH_ROW(BODY)                                                                                                 \
    for (int w_ = 0, rows_ = t->rows; w_ < rows_; w_ += 64) {                                                          \
        uint64_t bits_ = 0;                                                                                            \
        int to_ = CTR_MIN(w_ + 64, rows_);                                                                             \
        for (int i = w_; i < to_; i++) {                                                                               \
            bool ok;                                                                                                   \
            BODY;                                                                                                      \
            bits_ |= (uint64_t)ok << (i & 63);                                                                         \
        }                                                                                                              \
        t->present[w_ / 64] = bits_;                                                                                   \
        nulls += to_ - w_ - __builtin_popcountll(bits_);                                                               \
    }

/* The cells 42, -7, an empty one and 1234567890 of an int64 column, in the rows of a tile:
 *
 *     load_ints    value: 8 bytes from the start of each cell, with what lies behind it; length 2 2 0 10
 *     ints         value 42 -7 0 ?; null 0100 (bit 2); rest 1000: more than eight digits
 *     rare_int     the cell of bit 3 once more, by parse_long: 1234567890
 *     finish_rows  present 1011 goes behind the bits of the rows before
 *
 * A cell that is no integer, such as x, ends in rare_int, too: misfit gives its record the number of the column. */

/* ---- integers ---- */

#define NO_NUMBER 99 /* a length that no number has */

/* Integers other than one to eight digits. */
static __attribute__((noinline)) bool parse_long(const char *p, size_t n, bool is_u64, int64_t *v)
{
    uint64_t x;
    const bool digits = ctr_digits19(p, n, &x) && (is_u64 || x <= INT64_MAX);
    if (!digits && !is_u64)
        return ctr_parse_i64(p, n, v);
    const bool good = digits || ctr_parse_u64(p, n, &x);
    *v = (int64_t)x;
    return good;
}

/* Load the first eight bytes of each cell into t->value, and its length (0 for null) into t->length. */
CTR_BODY void load_ints(struct csv_tile *t, const struct csv_dialect *d, int c, bool empty_null)
{
    const struct cells l = cells_of(t, d, c);
    int64_t *value = t->value;
    uint32_t *length = t->length;
    for (int i = 0, rows = t->rows; i < rows; i++) {
        struct ctr_str s = cell_at(l, i);
        memcpy(&value[i], s.p, 8);
        length[i] = (uint32_t)s.n;
        if (!empty_null && ctr_csv_null(d, s))
            length[i] = 0;
        else if (!empty_null && !s.n)
            length[i] = NO_NUMBER;
    }
}

/* Convert up to 64 rows loaded by load_ints to numbers, 0 for null; sets a bit per null in *null. Returns a bit for
 * each row that needs parse_long. */
typedef uint64_t ints_fn(int64_t *value, const uint32_t *length, int rows, bool is_u64, bool strict, uint64_t *null);

static uint64_t ints_plain(int64_t *value, const uint32_t *length, int rows, bool is_u64, bool strict, uint64_t *null)
{
    uint64_t rest = 0;
    *null = 0;
    for (int i = 0; i < rows; i++) {
        uint64_t x = (uint64_t)value[i], v;
        int64_t neg = -(int64_t)(!is_u64 & ((x & 0xff) == '-'));
        uint64_t n = length[i] + (uint64_t)neg;
        bool good = ctr_digits8(x >> (neg & 8), n, &v), none = !length[i];
        good &= !(strict & ((x >> (neg & 8) & 0xff) == '0') & (length[i] > 1));
        value[i] = (((int64_t)v ^ neg) - neg) & -(int64_t)!none;
        *null |= (uint64_t)none << i;
        rest |= (uint64_t) !(good | none) << i;
    }
    return rest;
}

#if defined(__x86_64__)
/* Four at a time; reads and writes up to three extra rows. */
__attribute__((target("avx2"))) static uint64_t ints_avx2(int64_t *value, const uint32_t *length, int rows, bool is_u64,
                                                          bool strict, uint64_t *null)
{
    const __m256i zero = _mm256_setzero_si256(), minus = _mm256_set1_epi64x(is_u64 ? -1 : '-');
    const __m256i pad = _mm256_set1_epi64x(strict ? '0' : -1), low = _mm256_set1_epi64x(0xff);
    uint64_t done = 0, all = ~0ull >> (64 - rows);
    *null = 0;
    for (int i = 0; i < rows; i += 4) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(value + i));
        __m256i n = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(length + i)));
        __m256i none = _mm256_cmpeq_epi64(n, zero);
        __m256i neg = _mm256_cmpeq_epi64(_mm256_and_si256(x, low), minus);
        __m256i several = _mm256_cmpgt_epi64(n, _mm256_set1_epi64x(1));
        x = _mm256_srlv_epi64(x, _mm256_and_si256(neg, _mm256_set1_epi64x(8)));
        n = _mm256_add_epi64(n, neg);
        __m256i shift = _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(n, 3));
        __m256i beyond = _mm256_or_si256(shift, _mm256_sub_epi64(_mm256_set1_epi64x(56), shift)); /* its sign */
        __m256i digit = _mm256_sllv_epi64(_mm256_sub_epi8(x, _mm256_set1_epi8('0')), shift);
        __m256i digits = _mm256_cmpeq_epi64(_mm256_subs_epu8(digit, _mm256_set1_epi8(9)), zero);
        __m256i padded = _mm256_and_si256(_mm256_cmpeq_epi64(_mm256_and_si256(x, low), pad), several);
        digits = _mm256_andnot_si256(padded, digits);
        __m256i twos = _mm256_maddubs_epi16(digit, _mm256_set1_epi16(0x010a));
        __m256i fours = _mm256_madd_epi16(twos, _mm256_set1_epi32(0x00010064));
        __m256i v = _mm256_add_epi64(_mm256_mul_epu32(fours, _mm256_set1_epi64x(10000)), _mm256_srli_epi64(fours, 32));
        v = _mm256_sub_epi64(_mm256_xor_si256(v, neg), neg);
        _mm256_storeu_si256((__m256i *)(value + i), _mm256_andnot_si256(none, v));
        done |= (uint64_t)(unsigned)_mm256_movemask_pd((__m256d)_mm256_andnot_si256(beyond, digits)) << i;
        *null |= (uint64_t)(unsigned)_mm256_movemask_pd((__m256d)none) << i;
    }
    *null &= all;
    return all & ~(done | *null);
}

static ints_fn *choose_ints(void)
{
    return ctr_cpu_has(CTR_CPU_AVX2) ? ints_avx2 : ints_plain;
}
#else
static ints_fn *choose_ints(void)
{
    return ints_plain;
}
#endif

/* An integer with another number of digits, padded, or -0. */
static bool rare_int(struct csv_tile *t, const struct ctr_text_column *column, struct ctr_str s, bool is_u64,
                     int64_t *v)
{
    if (!s.n || (column->inferred && !ctr_cell_inferable(column->type.type, s.p, s.n)) ||
        !parse_long(s.p, s.n, is_u64, v))
        return false;
    if (column->like)
        ctr_job_value(t->job, column, column->type.type, s.p, s.n);
    return true;
}

/* Store the values of all rows in t->value, 0 for null, and mark misfits. Returns the number of nulls. */
static int64_t parse_ints(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_column *column, int c,
                          bool is_u64)
{
    ints_fn *ints = choose_ints();
    const bool strict = column->inferred || column->like;
    int64_t nulls = 0;
    if (d->nulls)
        load_ints(t, d, c, false);
    else
        load_ints(t, d, c, true);
    for (int w = 0; w < t->rows; w += 64) {
        int rows = CTR_MIN(64, t->rows - w);
        uint64_t null, rest = ints(t->value + w, t->length + w, rows, is_u64, strict, &null);
        for (; rest; rest &= rest - 1) {
            int i = w + __builtin_ctzll(rest);
            struct ctr_str s = cell_at(cells_of(t, d, c), i);
            if (rare_int(t, column, s, is_u64, &t->value[i]))
                continue;
            misfit(t, i, c);
            t->value[i] = 0;
            null |= rest & -rest;
        }
        t->present[w / 64] = ~null;
        nulls += __builtin_popcountll(null);
    }
    return nulls;
}

/* Narrow the values to type T and mark those outside its range. */
#define NARROW(T, LOW, HIGH)                                                                                           \
    do {                                                                                                               \
        T *to_ = (T *)(b->data.data + b->data.len);                                                                    \
        const int64_t *v_ = t->value;                                                                                  \
        bool bad_ = false;                                                                                             \
        for (int i = 0, rows_ = t->rows; i < rows_; i++) {                                                             \
            bad_ |= v_[i] < (LOW) || v_[i] > (HIGH);                                                                   \
            to_[i] = (T)v_[i];                                                                                         \
        }                                                                                                              \
        for (int i = 0; bad_ && i < t->rows; i++)                                                                      \
            if (v_[i] < (LOW) || v_[i] > (HIGH))                                                                       \
                misfit(t, i, c);                                                                                       \
    } while (0)

static int column_ints(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_column *column, int c,
                       struct ctr_colbuf *b, struct ctr_err *err)
{
    size_t bytes = (size_t)t->rows * (size_t)ctr_types[b->type].width;
    int rc = ctr_buf_reserve(&b->data, bytes, err);
    if (rc)
        return rc;
    int64_t nulls = parse_ints(t, d, column, c, b->type == CTR_U64);
    switch (b->type) {
    case CTR_I8: NARROW(int8_t, INT8_MIN, INT8_MAX); break;
    case CTR_I16: NARROW(int16_t, INT16_MIN, INT16_MAX); break;
    case CTR_I32: NARROW(int32_t, INT32_MIN, INT32_MAX); break;
    case CTR_U8: NARROW(uint8_t, 0, UINT8_MAX); break;
    case CTR_U16: NARROW(uint16_t, 0, UINT16_MAX); break;
    case CTR_U32: NARROW(uint32_t, 0, (int64_t)UINT32_MAX); break;
    default: memcpy(b->data.data + b->data.len, t->value, bytes); break;
    }
    b->data.len += bytes;
    return finish_rows(t, b, nulls, err);
}

/* ---- floats ---- */

/* Is the cell a float64 valid for the column? */
static inline bool float64_cell(struct csv_tile *t, const struct ctr_text_column *column, struct ctr_str s, double *v)
{
    const bool strict = column->inferred || column->like;
    if (!s.n)
        return false;
    if (ctr_short_decimal(s.p, s.n, v) && !(strict && ctr_cell_padded(s.p, s.n)))
        return true;
    if ((column->inferred && !ctr_cell_inferable(CTR_F64, s.p, s.n)) || !ctr_parse_f64(s.p, s.n, v))
        return false;
    if (!column->inferred)
        ctr_job_value(t->job, column, CTR_F64, s.p, s.n);
    return true;
}

/* The same for float32 or float16, which are never inferred. Integers up to 2^11 are exact in both types. */
static inline bool float32_cell(struct csv_tile *t, const struct ctr_text_column *column, struct ctr_str s, float *v)
{
    const enum ctr_type type = column->type.type;
    if (!s.n || !ctr_parse_f32(s.p, s.n, v) || (type == CTR_F16 && !ctr_fits_f16(*v)))
        return false;
    if (*v >= 0x1p11f || *v <= -0x1p11f || column->like)
        ctr_job_value(t->job, column, type, s.p, s.n);
    return true;
}

static int column_floats(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_column *column, int c,
                         struct ctr_colbuf *b, struct ctr_err *err)
{
    size_t width = (size_t)ctr_types[b->type].width, bytes = (size_t)t->rows * width;
    int rc = ctr_buf_reserve(&b->data, bytes, err);
    if (rc)
        return rc;
    uint8_t *to = b->data.data + b->data.len;
    int64_t nulls = 0;
    const struct cells l = cells_of(t, d, c);
    if (b->type == CTR_F64) {
        EACH_ROW({
            struct ctr_str s = cell_at(l, i);
            double v = 0;
            ok = !ctr_csv_null(d, s);
            if (ok && !float64_cell(t, column, s, &v)) {
                misfit(t, i, c);
                ok = false;
                v = 0;
            }
            ((double *)to)[i] = v;
        })
    } else {
        EACH_ROW({
            struct ctr_str s = cell_at(l, i);
            float v = 0;
            ok = !ctr_csv_null(d, s);
            if (ok && !float32_cell(t, column, s, &v)) {
                misfit(t, i, c);
                ok = false;
                v = 0;
            }
            if (width == 4)
                ((float *)to)[i] = v;
            else
                ((uint16_t *)to)[i] = ctr_f32_to_f16(v);
        })
    }
    b->data.len += bytes;
    return finish_rows(t, b, nulls, err);
}

/* ---- text ---- */

/* Copy the cells to `to`, in steps of 16 bytes for short ones; returns the number of nulls. */
CTR_BODY int64_t copy_cells(struct csv_tile *t, const struct csv_dialect *d, int c, uint8_t **data, int32_t at,
                            int32_t *offset, bool check, bool empty_null)
{
    uint8_t *to = *data;
    int64_t nulls = 0;
    const struct cells l = cells_of(t, d, c);
    EACH_ROW({
        struct ctr_str s = cell_at(l, i);
        ok = empty_null ? s.n != 0 : !ctr_csv_null(d, s);
        if (check && ok && !ctr_utf8_valid((const uint8_t *)s.p, s.n)) {
            misfit(t, i, c);
            ok = false;
        }
        if ((check || !empty_null) && !ok)
            s.n = 0;
        memcpy(to, s.p, 16);
        if (__builtin_expect(s.n > 16, 0))
            memcpy(to + 16, s.p + 16, s.n - 16);
        to += s.n;
        at += (int32_t)s.n;
        offset[i] = at;
    })
    *data = to;
    return nulls;
}

static int column_text(struct csv_tile *t, const struct csv_dialect *d, int c, bool check, struct ctr_colbuf *b,
                       struct ctr_err *err)
{
    size_t room = t->to - t->from;
    if (b->data.len + room > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "a text column holds more than 2^31-1 bytes in one block");
    int rc = ctr_buf_reserve(&b->data, room + 32, err);
    if (!rc)
        rc = ctr_buf_reserve(&b->offsets, ((size_t)t->rows + 1) * 4, err);
    if (rc)
        return rc;
    if (!b->offsets.len) {
        memset(b->offsets.data, 0, 4);
        b->offsets.len = 4;
    }
    int32_t *offset = (int32_t *)(b->offsets.data + b->offsets.len), at = (int32_t)b->data.len;
    uint8_t *to = b->data.data + b->data.len;
    int64_t nulls;
    if (!check && !d->nulls)
        nulls = copy_cells(t, d, c, &to, at, offset, false, true);
    else
        nulls = copy_cells(t, d, c, &to, at, offset, check, false);
    b->data.len = (size_t)(to - b->data.data);
    b->offsets.len += (size_t)t->rows * 4;
    return finish_rows(t, b, nulls, err);
}

/* ---- everything else: quoted cells, bools, times, lists, texts of columns without values in the first rows ---- */

static int column_any(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_column *column, int c,
                      struct ctr_colbuf *b, struct ctr_err *err)
{
    const bool numbers = (d->decimal || d->thousands) && (ctr_types[b->type].integer || ctr_types[b->type].floating);
    for (int i = 0; i < t->rows; i++) {
        struct ctr_str s = cell_at(cells_of(t, d, c), i);
        bool quoted, null;
        int rc = ctr_csv_cell(t, d, &s, &quoted, &null, err);
        if (rc)
            return rc;
        null &= !(quoted && b->type == CTR_UTF8); /* "" is an empty text, an empty cell is null */
        struct csv_number x;
        if (!null && numbers && !ctr_csv_number(d, s, &x)) {
            misfit(t, i, c);
            null = true;
        } else if (!null && numbers) {
            s = (struct ctr_str){ x.text, x.n };
        }
        rc = null ? 0 : ctr_cell_append(b, column, s.p, s.n, t->job, err);
        if (rc < 0)
            return rc;
        if (rc && ctr_text_late(column) && ctr_parse_f64(s.p, s.n, &(double){ 0 }))
            ctr_job_loss(t->job, column, CTR_LOSS_LATE, s.p, s.n);
        if (rc)
            continue;
        if (!null)
            misfit(t, i, c);
        if ((rc = ctr_colbuf_null(b, err)))
            return rc;
    }
    return 0;
}

int ctr_csv_column(struct csv_tile *t, const struct csv_dialect *d, const struct ctr_text_column *column, int c,
                   struct ctr_colbuf *b, struct ctr_err *err)
{
    const struct ctr_type_info *type = &ctr_types[b->type];
    if (t->special[c] || ctr_text_late(column))
        return column_any(t, d, column, c, b, err);
    if (b->type == CTR_UTF8)
        return column_text(t, d, c, !t->job->block.utf8, b, err);
    if (type->integer)
        return column_ints(t, d, column, c, b, err);
    if (type->floating)
        return column_floats(t, d, column, c, b, err);
    return column_any(t, d, column, c, b, err);
}
