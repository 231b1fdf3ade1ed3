/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_device: the loops of operators as code of a device thread, and the rest of a layer's kernel: columns to lanes,
 * the memory pool, compaction of variable-size results ("FeatureBox", section 5). A thread's tile has one row. The
 * generator (common/op) combines OPD_FIXED, OPD_TEXT, … of a layer's operators into one kernel.
 *
 * On the host the same text runs in blocks of fibres (src/cuda/onhost_blocks.h). */
#ifndef CTR_LOOP_DEVICE_H
#define CTR_LOOP_DEVICE_H

#include "common/op/body.h"
#include "common/op/body_hash.h"
#include "common/op/body_list.h"
#include "common/op/body_text.h"
#include "common/op/oplayer.h"

#ifdef __CUDACC_RTC__
#define OPD_FN     static __device__ __noinline__
#define OPD_INLINE static __device__ __forceinline__
#define OPD_SHARED(type, name)                                                                                         \
    extern __shared__ __align__(16) unsigned char opd_shared_[];                                                       \
    type *name = (type *)(void *)opd_shared_
/* Four blocks a processor: at most 64 registers a thread. */
#define OPD_KERNEL(name) extern "C" __global__ void __launch_bounds__(OPD_THREADS, 4) name(const struct opd_layer L)
/* x stays in a register; else the compiler makes it again in each round of a loop. */
#define OPD_KEEP(x) asm("" : "+r"(x))
#else
#define OPD_FN                 static __attribute__((unused, noinline))
#define OPD_INLINE             static inline __attribute__((unused))
#define OPD_SHARED(type, name) type *name = (type *)onhost_here().shared
#define OPD_KERNEL(name)       extern "C" void name(const struct opd_layer L)
#define OPD_KEEP(x)            (void)(x)
#endif

/* What nearly all rows are goes straight on. */
#define OPD_LIKELY(x) __builtin_expect(!!(x), 1)
#define OPD_SELDOM(x) __builtin_expect(!!(x), 0)

/* Barrier k of opd_prefix. tests/gpu.t leaves out one at a time, to show that blocks on the host notice. */
#ifdef OPD_WITHOUT_BARRIER
#define OPD_BARRIER(k) ((k) == OPD_WITHOUT_BARRIER ? (void)0 : __syncthreads())
#else
#define OPD_BARRIER(k) __syncthreads()
#endif

/* As in opint.h, for a tile of one row. */
struct ctr_op_in {
    const void *v;
    const uint8_t *ok;
    const struct opv_span *span;
    const void *item;
    const uint8_t *item_ok;
};
struct ctr_op_tile {
    int n, nargs;
    const struct ctr_op_in *in;
    void *out;
    uint8_t *ok;
    const void *param;
    int64_t *at; /* scratch memory for the item numbers of in[0] */
};

/* ---- columns to lanes ---- */

OPV_FN uint8_t opd_bit(const uint8_t *bits, int64_t i)
{
    return bits[i >> 3] >> (i & 7) & 1;
}
OPD_FN float opd_half(uint16_t h)
{
    union {
        uint32_t u;
        float f;
    } b;
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31;
    uint32_t fraction = h & 0x3ff;
    if (exponent == 0) { /* fraction * 2^-24, exact */
        b.f = (float)fraction * 0x1p-24f;
        b.u |= sign;
    } else {
        b.u = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    }
    return b.f;
}
OPD_FN int64_t opd_i64(const struct opd_col *c, int64_t j)
{
    switch (c->type) {
    case OPD_BOOL: return opd_bit((const uint8_t *)c->data, j);
    case OPD_BYTE: return ((const uint8_t *)c->data)[j];
    case OPD_I8: return ((const int8_t *)c->data)[j];
    case OPD_I16: return ((const int16_t *)c->data)[j];
    case OPD_I32: return ((const int32_t *)c->data)[j];
    case OPD_U8: return ((const uint8_t *)c->data)[j];
    case OPD_U16: return ((const uint16_t *)c->data)[j];
    case OPD_U32: return ((const uint32_t *)c->data)[j];
    default: return ((const int64_t *)c->data)[j];
    }
}
OPD_FN double opd_f64(const struct opd_col *c, int64_t j)
{
    switch (c->type) {
    case OPD_U64: return (double)((const uint64_t *)c->data)[j];
    case OPD_F16: return opv_number((double)opd_half(((const uint16_t *)c->data)[j]));
    case OPD_F32: return opv_number((double)((const float *)c->data)[j]);
    case OPD_F64: return ((const double *)c->data)[j];
    default: return (double)opd_i64(c, j);
    }
}
template <typename T> OPD_INLINE struct opv_str opd_str(const void *data, const T *offsets, int64_t j)
{
    const struct opv_str s = { (const uint8_t *)data + offsets[j], offsets[j + 1] - offsets[j] };
    return s;
}
/* The canonical text of an integer, at most 20 bytes and a sign. */
OPD_FN int64_t opd_integer(uint8_t *to, uint64_t v, int negative)
{
    uint8_t digits[20];
    int64_t n = 0, k = 0;
    do {
        digits[n++] = (uint8_t)('0' + v % 10);
        v /= 10;
    } while (v);
    if (negative)
        to[k++] = '-';
    while (n)
        to[k++] = digits[--n];
    return k;
}
/* The canonical text of a scalar; `room` has OPD_NUMBER bytes. */
OPD_FN struct opv_str opd_text(const struct opd_col *c, int64_t j, uint8_t *room)
{
    struct opv_str s = { room, 0 };
    if (c->type == OPD_UTF8)
        return c->at ? opd_str(c->data, c->at, j) : opd_str(c->data, c->offsets, j);
    if (c->type == OPD_BOOL || c->type == OPD_BYTE) {
        const int yes = (int)opd_i64(c, j);
        const char *word = yes ? "true" : "false";
        for (s.n = 0; word[s.n]; s.n++)
            room[s.n] = (uint8_t)word[s.n];
    } else {
        const int64_t v = opd_i64(c, j);
        const int negative = c->type != OPD_U64 && v < 0;
        s.n = opd_integer(room, negative ? 0 - (uint64_t)v : (uint64_t)v, negative);
    }
    return s;
}
OPV_FN uint8_t opd_ok(const uint8_t *bytes, const uint8_t *bits, int64_t i)
{
    return (uint8_t)(bytes ? bytes[i] : bits ? opd_bit(bits, i) : 1);
}

/* ---- hashes ---- */

/* The n bytes at p, at most 8, in a register; what is beyond them is not defined. */
OPD_INLINE uint64_t opd_word(const uint8_t *p, uint64_t n)
{
#ifdef __CUDACC_RTC__ /* whole words of 8 bytes: a buffer starts and ends at one */
    const uint64_t *at = (const uint64_t *)((uint64_t)p & ~(uint64_t)7);
    const unsigned shift = ((unsigned)(uint64_t)p & 7) * 8;
    uint64_t x = at[0] >> shift;
    if (shift + 8 * n > 64)
        x |= at[1] << (64 - shift);
    return x;
#else
    uint64_t x = 0;
    for (uint64_t i = 0; i < n; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
#endif
}
/* The four bytes at p + 4 * k. */
OPD_INLINE uint32_t opd_four(const uint8_t *p, int k)
{
#ifdef __CUDACC_RTC__ /* of two words; up to four bytes behind these are read */
    const uint32_t *at = (const uint32_t *)((uint64_t)p & ~(uint64_t)3) + k;
    return __funnelshift_r(at[0], at[1], (unsigned)(uint64_t)p * 8);
#else
    return (uint32_t)opd_word(p + 4 * k, 4);
#endif
}
/* Of any length: one copy in a kernel. */
OPD_FN uint64_t opd_hash_other(const uint8_t *p, uint64_t n, uint64_t seed)
{
    if (n > OPV_HASH_SHORT)
        return opv_hash_long(p, n, seed);
    return opv_hash_words(n ? opd_word(p, n < 8 ? n : 8) : 0, n > 8 ? opd_word(p + n - 8, 8) : 0, n, seed);
}
OPD_INLINE uint64_t opd_hash(struct opv_str s, uint64_t seed, uint64_t secret)
{
    const uint64_t n = (uint64_t)s.n;
    if (OPD_LIKELY(n - 4 <= 4))
        return opv_hash_8_by(opd_four(s.p + n, -1) | (uint64_t)opd_four(s.p, 0) << 32, n, secret);
    return opd_hash_other(s.p, n, seed);
}
/* Of the canonical text of a number: written first, or, of up to seven digits, made in a register. */
OPD_FN uint64_t opd_hash_number(const struct opd_col *c, int64_t j, uint64_t seed)
{
    uint8_t room[OPD_NUMBER];
    const struct opv_str s = opd_text(c, j, room);
    return opd_hash_other(s.p, (uint64_t)s.n, seed);
}
enum { OPD_SEVEN_DIGITS = 10000000 };
OPD_INLINE uint64_t opd_hash_integer(int32_t v, uint64_t seed, uint64_t secret)
{
    uint32_t u = v < 0 ? 0 - (uint32_t)v : (uint32_t)v, n = 0;
    uint64_t text = 0;
    if (OPD_LIKELY((uint32_t)v < 10)) /* a digit is the first, the middle and the last byte */
        return opv_hash_3(('0' + (uint32_t)v) * 0x01010001u + (1 << 8), seed);
    do { /* the last digit first: each pushes those before it towards the end */
        text = text << 8 | ('0' + u % 10);
        u /= 10;
        n++;
    } while (u);
    if (v < 0) {
        text = text << 8 | '-';
        n++;
    }
    return opv_hash_word(text, n, seed, secret);
}

/* ---- values ---- */

/* Where the value of a row lies, or -1: it is null. */
OPD_INLINE int64_t opd_place(const struct opd_col *c, int64_t row)
{
    if (!opd_ok(c->ok, c->valid, row))
        return -1;
    if (!c->index)
        return row;
    if (c->entries == 0)
        return -1;
    row = c->index[row];
    return opd_ok(c->entry_ok, c->entry_valid, row) ? row : -1;
}
/* What an argument's values are read with, once read itself. */
struct opd_source {
    const struct opd_arg *arg; /* for what is rare */
    const void *data;
    const int32_t *offsets;
    const int64_t *at;
    uint64_t seed, secret;
    int reads;
};
OPD_INLINE struct opd_source opd_source_of(const struct opd_arg *a, int reads)
{
    const struct opd_source s = { a, a->col.data, a->col.offsets, a->col.at, a->hash_seed, a->hash_secret, reads };
    return s;
}
OPD_INLINE int64_t opd_integer_at(const struct opd_source *s, int64_t j)
{
    return s->reads == OPD_READS_I64 ? ((const int64_t *)s->data)[j] : ((const int32_t *)s->data)[j];
}

/* The value at that place, of the lane that the operator wants. Returns whether it is in range. */
OPD_INLINE uint8_t opd_value(const struct opd_source *s, int64_t j, int64_t *v, uint8_t *text)
{
    (void)text;
    if (s->reads != OPD_BY_TYPE) {
        *v = opd_integer_at(s, j);
        return 1;
    }
    *v = opd_i64(&s->arg->col, j);
    return s->arg->col.type != OPD_U64 || *v >= 0;
}
OPD_INLINE uint8_t opd_value(const struct opd_source *s, int64_t j, double *v, uint8_t *text)
{
    (void)text;
    if (s->reads == OPD_READS_I64 || s->reads == OPD_READS_I32)
        *v = (double)opd_integer_at(s, j);
    else if (s->reads == OPD_READS_F64)
        *v = ((const double *)s->data)[j];
    else
        *v = s->reads == OPD_READS_F32 ? opv_number((double)((const float *)s->data)[j]) : opd_f64(&s->arg->col, j);
    return 1;
}
OPD_INLINE uint8_t opd_value(const struct opd_source *s, int64_t j, uint8_t *v, uint8_t *text)
{
    (void)text;
    *v = (uint8_t)opd_i64(&s->arg->col, j);
    return 1;
}
OPD_INLINE uint8_t opd_value(const struct opd_source *s, int64_t j, struct opv_str *v, uint8_t *text)
{
    *v = s->reads == OPD_READS_TEXT     ? opd_str(s->data, s->offsets, j)
         : s->reads == OPD_READS_RESULT ? opd_str(s->data, s->at, j)
                                        : opd_text(&s->arg->col, j, text);
    return 1;
}
OPD_INLINE uint8_t opd_value(const struct opd_source *s, int64_t j, uint64_t *v, uint8_t *text)
{
    (void)text;
    if (s->reads == OPD_READS_TEXT || s->reads == OPD_READS_RESULT) {
        *v = opd_hash(s->reads == OPD_READS_TEXT ? opd_str(s->data, s->offsets, j) : opd_str(s->data, s->at, j),
                      s->seed, s->secret);
        return 1;
    }
    if (s->reads == OPD_READS_KEY) {
        *v = ((const uint64_t *)s->data)[j];
        return 1;
    }
    if (s->reads != OPD_BY_TYPE) {
        const int64_t i = opd_integer_at(s, j);
        if (OPD_LIKELY(i > -OPD_SEVEN_DIGITS && i < OPD_SEVEN_DIGITS)) {
            *v = opd_hash_integer((int32_t)i, s->seed, s->secret);
            return 1;
        }
    }
    *v = opd_hash_number(&s->arg->col, j, s->seed);
    return 1;
}
/* What the host stores for a null; nothing reads it. */
template <typename T> OPD_INLINE void opd_null(T *v, uint8_t *)
{
    *v = 0;
}
OPD_INLINE void opd_null(struct opv_str *v, uint8_t *text)
{
    v->p = text;
    v->n = 0;
}

/* An argument of a row, and whether it is present; a null has a defined value. text: OPD_NUMBER bytes, for the text of
 * a number. A kernel has one copy of the code. */
template <typename T> struct opd_got {
    T v;
    uint8_t ok;
};
template <typename T> OPD_FN struct opd_got<T> opd_get_copy(const struct opd_arg *a, int64_t row, uint8_t *text) {
    struct opd_got<T> r;
    if (a->literal) {
        r.v = *(const T *)a->col.data;
        r.ok = (uint8_t)a->literal_ok;
        return r;
    }
    const int64_t j = opd_place(&a->col, row + a->first);
    const struct opd_source s = opd_source_of(a, (int)a->reads);
    r.ok = 0;
    if (j < 0)
        opd_null(&r.v, text);
    else
        r.ok = opd_value(&s, j, &r.v, text);
    return r;
}
/* Only texts have a use for the memory of the thread's row. */
template <typename T>
OPD_INLINE uint8_t *opd_room(uint8_t *, T *)
{
    return 0;
}
OPD_INLINE uint8_t *opd_room(uint8_t *text, struct opv_str *)
{
    return text;
}
template <typename T> OPD_INLINE uint8_t opd_get(const struct opd_arg *a, int64_t row, T *v, uint8_t *text)
{
    const struct opd_got<T> r = opd_get_copy<T>(a, row, opd_room(text, v));
    *v = r.v;
    return r.ok;
}

/* A call of a tile of rows: what its rows share is read once, and stays in registers. */
struct opd_unit {
    const struct opd_call *call;
    const void *param;
    void *out;
    uint8_t *ok;
    /* argument 0 */
    const uint8_t *present;
    int by, plain;
    unsigned bit; /* of the thread's rows, which are a multiple of 8 apart */
};
OPD_INLINE struct opd_unit opd_unit_of(const struct opd_call *c, unsigned row)
{
    const struct opd_arg *a = &c->arg[0];
    unsigned bit = 1u << (row & (unsigned)a->low);
    OPD_KEEP(bit);
    const struct opd_unit u = { c, c->param, c->out, c->ok, a->present, a->by, (int)a->plain, bit };
    return u;
}
/* Is argument 0, which is plain, null? */
#define OPD_NULL(u, row) ((u)->present && OPD_SELDOM(!((u)->present[(row) >> (u)->by] & (u)->bit)))
/* The rows of a thread: a block has a multiple of 8 threads, as gpu_run.c checks. */
#define OPD_ROWS(row, to) _Pragma("unroll 1") for (; (row) < (to); (row) += blockDim.x)
/* A value of fixed size; that of a null is 0. */
template <typename T> OPD_INLINE void opd_put(const struct opd_unit *u, int64_t row, T v, uint8_t ok)
{
    ((T *)u->out)[row] = ok ? v : 0;
    u->ok[row] = ok;
}

/* Call each(row, key, v, ok) for argument 0, which is plain. */
template <typename F>
OPD_INLINE void opd_hashes_of(const struct opd_unit *u, int reads, int64_t key, int64_t row, int64_t to, F each)
{
    const struct opd_source in = opd_source_of(&u->call->arg[0], reads);
    OPD_ROWS(row, to)
    {
        uint64_t v;
        if (OPD_NULL(u, row)) {
            each(row, 0, 0, 0);
            continue;
        }
        (void)opd_value(&in, row, &v, 0);
        each(row, key, v, 1);
    }
}
/* The hashes, or keys, of argument 0, with a loop for each of the common types. key: they are keys. */
template <typename F>
OPD_INLINE void opd_hashes(const struct opd_unit *u, int64_t row, int64_t to, uint8_t *text, F each)
{
    const struct opd_arg *a = &u->call->arg[0];
    uint64_t v;
    if (u->plain == OPD_READS_TEXT)
        opd_hashes_of(u, OPD_READS_TEXT, 0, row, to, each);
    else if (u->plain == OPD_READS_I64)
        opd_hashes_of(u, OPD_READS_I64, 0, row, to, each);
    else if (u->plain != OPD_BY_TYPE)
        opd_hashes_of(u, u->plain, a->key, row, to, each);
    else
        OPD_ROWS(row, to)
        {
            const uint8_t ok = opd_get(a, row, &v, text);
            each(row, a->key, v, ok);
        }
}

/* The same by the lane of the argument, for loops of any. */
template <typename T> OPD_INLINE uint8_t opd_lane_of(const struct opd_arg *a, int64_t j, void *to, uint8_t *text)
{
    const struct opd_source s = opd_source_of(a, (int)a->reads);
    if (j >= 0)
        return opd_value(&s, j, (T *)to, text);
    opd_null((T *)to, text);
    return 0;
}
OPD_FN uint8_t opd_lane(const struct opd_arg *a, int64_t row, void *to, uint8_t *text)
{
    const int64_t j = opd_place(&a->col, row);
    switch (a->lane) {
    case OPD_LANE_BOOL: return opd_lane_of<uint8_t>(a, j, to, text);
    case OPD_LANE_I64: return opd_lane_of<int64_t>(a, j, to, text);
    case OPD_LANE_F64: return opd_lane_of<double>(a, j, to, text);
    case OPD_LANE_U64:
    case OPD_HASH: return opd_lane_of<uint64_t>(a, j, to, text);
    case OPD_STR:
    case OPD_TEXT: return opd_lane_of<struct opv_str>(a, j, to, text);
    default: return j >= 0;
    }
}

/* ---- the row of a thread, for loops that read it as a tile ---- */

struct opd_row {
    struct ctr_op_in in[OPD_ARGS];
    struct opv_str lane[OPD_ARGS];
    struct opv_span span[OPD_ARGS];
    uint8_t text[OPD_ARGS][OPD_NUMBER], arg_ok[OPD_ARGS], ok;
    uint64_t out;
    struct ctr_op_tile tile;
};

OPV_FN int64_t opd_lane_bytes(int64_t lane)
{
    return lane == OPD_LANE_BOOL ? 1 : lane == OPD_STR || lane == OPD_TEXT ? (int64_t)sizeof(struct opv_str) : 8;
}

/* Items of a list belong to one row, so the row's thread may fill their lane. */
OPD_FN void opd_open_list(const struct opd_arg *a, int64_t row, struct opd_row *w, int k)
{
    const int64_t bytes = opd_lane_bytes(a->lane);
    int64_t from = a->at ? a->at[row] : a->offsets ? a->offsets[row] : row * a->width;
    int64_t to = a->at ? a->at[row + 1] : a->offsets ? a->offsets[row + 1] : from + a->width;
    w->arg_ok[k] = opd_ok(a->ok, a->valid, row);
    w->span[k].from = from - a->first;
    w->span[k].to = to - a->first;
    w->in[k].span = &w->span[k];
    for (int64_t j = from; a->lane != OPD_NONE && j < to; j++) {
        const int64_t at = j - a->first;
        a->item_ok[at] = opd_lane(a, j, (uint8_t *)a->item + at * bytes,
                                  a->item_text ? a->item_text + at * OPD_NUMBER : (uint8_t *)a->item);
    }
    w->in[k].item = a->item;
    w->in[k].item_ok = a->item_ok;
}

OPD_FN void opd_open(const struct opd_call *c, int64_t row, struct opd_row *w)
{
    struct ctr_op_tile *t = &w->tile;
    w->ok = 1;
    w->out = 0;
    for (int k = 0; k < (int)c->nargs; k++) {
        const struct opd_arg *a = &c->arg[k];
        w->in[k].v = &w->lane[k];
        w->span[k].from = w->span[k].to = 0;
        w->in[k].span = 0;
        w->in[k].item = 0;
        w->in[k].item_ok = 0;
        w->in[k].ok = &w->arg_ok[k];
        if (a->literal) {
            w->in[k].v = a->col.data;
            w->arg_ok[k] = (uint8_t)a->literal_ok;
        } else if (a->list)
            opd_open_list(a, row, w, k);
        else
            w->arg_ok[k] = opd_lane(a, row + a->first, &w->lane[k], w->text[k]);
        if (!c->nulls)
            w->ok &= w->arg_ok[k];
    }
    t->n = 1;
    t->nargs = (int)c->nargs;
    t->in = w->in;
    t->out = c->vector ? (void *)((uint8_t *)c->out + row * c->bytes) : (void *)&w->out;
    t->ok = &w->ok;
    t->param = c->param;
    t->at = c->at ? c->at + w->span[0].from : 0;
}

/* Results that are vectors the loop has written. */
OPV_FN void opd_store(const struct opd_unit *u, int64_t row, const struct opd_row *w)
{
    if (u->call->vector)
        u->ok[row] = w->ok;
    else if (u->call->bytes == 1)
        opd_put(u, row, (uint8_t)(w->out & 1), w->ok);
    else
        opd_put(u, row, w->out, w->ok);
}

/* ---- the macros of loop.h ---- */

/* A loop of results of fixed size becomes a function of a call and the rows of a thread. Those of scalars read their
 * arguments into registers, the others, by way of opd_open, into the thread's row. */
#define CTR_LOOP_FIXED(name) OPD_INLINE void name(const struct opd_unit *u, int64_t row, int64_t to, struct opd_row *w)
#define CTR_LOOP_TILE(name)                                                                                            \
    OPV_FN void name##_tile(struct ctr_op_tile *t);                                                                    \
    CTR_LOOP_FIXED(name)                                                                                               \
    {                                                                                                                  \
        OPD_ROWS(row, to)                                                                                              \
        {                                                                                                              \
            opd_open(u->call, row, w);                                                                                 \
            name##_tile(&w->tile);                                                                                     \
            opd_store(u, row, w);                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    OPV_FN void name##_tile(struct ctr_op_tile *t)
#define CTR_LOOP0(name, TR, expr)                                                                                      \
    CTR_LOOP_TILE(name)                                                                                                \
    {                                                                                                                  \
        const int i = 0;                                                                                               \
        const struct ctr_op_in *in = t->in;                                                                            \
        uint8_t *ok = t->ok;                                                                                           \
        (void)ok;                                                                                                      \
        (void)in;                                                                                                      \
        *(TR *)t->out = (TR)(expr);                                                                                    \
    }
#define CTR_LOOP_VECTOR(name, WRITE)                                                                                   \
    CTR_LOOP_TILE(name)                                                                                                \
    {                                                                                                                  \
        WRITE(t, 0);                                                                                                   \
    }
/* Argument 0 in place, where it is most of an operator's work. */
#define CTR_ARG_HERE(T, TR)                                                                                            \
    T a0[1];                                                                                                           \
    if (u->plain == OPD_BY_TYPE) {                                                                                     \
        ok[0] = opd_get(in.arg, row, a0, w->text[0]);                                                                  \
    } else if (OPD_NULL(u, row)) {                                                                                     \
        opd_put(u, row, (TR)0, 0);                                                                                     \
        continue;                                                                                                      \
    } else                                                                                                             \
        ok[0] = opd_value(&in, row, a0, 0);
#define CTR_ARG_ROW(T, k)                                                                                              \
    T a##k[1];                                                                                                         \
    ok[0] &= opd_get(&u->call->arg[k], row, a##k, w->text[k]);
#define CTR_LOOP_SCALARS(name, TR, args, expr)                                                                         \
    CTR_LOOP_FIXED(name)                                                                                               \
    {                                                                                                                  \
        const struct opd_source in = opd_source_of(&u->call->arg[0], u->plain);                                        \
        (void)in;                                                                                                      \
        OPD_ROWS(row, to)                                                                                              \
        {                                                                                                              \
            const int i = 0;                                                                                           \
            uint8_t ok[1] = { 1 };                                                                                     \
            args TR r = 0;                                                                                             \
            if (ok[0])                                                                                                 \
                r = (TR)(expr);                                                                                        \
            (void)w;                                                                                                   \
            opd_put(u, row, r, ok[0]);                                                                                 \
        }                                                                                                              \
    }
#define CTR_LOOP1(name, TA, TR, expr)     CTR_LOOP_SCALARS(name, TR, CTR_ARG_HERE(TA, TR), expr)
#define CTR_LOOP2(name, TA, TB, TR, expr) CTR_LOOP_SCALARS(name, TR, CTR_ARG_ROW(TA, 0) CTR_ARG_ROW(TB, 1), expr)
#define CTR_LOOP3(name, TA, TB, TC, TR, expr)                                                                          \
    CTR_LOOP_SCALARS(name, TR, CTR_ARG_ROW(TA, 0) CTR_ARG_ROW(TB, 1) CTR_ARG_ROW(TC, 2), expr)
#define CTR_LOOP_PARAM(name, TA, P, TR, expr)                                                                          \
    CTR_LOOP_SCALARS(name, TR, CTR_ARG_HERE(TA, TR) const P *p = (const P *)u->param;, expr)
#define CTR_LOOP_FOLD(name, T, body)                                                                                   \
    CTR_LOOP_FIXED(name)                                                                                               \
    {                                                                                                                  \
        OPD_ROWS(row, to)                                                                                              \
        {                                                                                                              \
            uint8_t ok = 1;                                                                                            \
            T r = 0, a;                                                                                                \
            for (int k = 0; k < (int)u->call->nargs; k++) {                                                            \
                ok &= opd_get(&u->call->arg[k], row, &a, w->text[k]);                                                  \
                r = body(r, a);                                                                                        \
            }                                                                                                          \
            opd_put(u, row, r, ok);                                                                                    \
        }                                                                                                              \
    }

/* Variable-size results go to a sink, which only counts if it has no memory. */
#define CTR_LOOP_TEXT(name, MAX, WRITE)                                                                                \
    OPV_FN void name(struct ctr_op_tile *t, struct opv_sink *s)                                                        \
    {                                                                                                                  \
        WRITE(t, 0, s);                                                                                                \
    }
#define CTR_LOOP_TEXTS(name, MAX, ITEMS, WRITE) CTR_LOOP_TEXT(name, MAX, WRITE)
#define CTR_LOOP_KEYS(name, MAX, WRITE)                                                                                \
    OPV_FN void name(struct ctr_op_tile *t, struct opv_sink *s)                                                        \
    {                                                                                                                  \
        const int64_t most = MAX(t, 0);                                                                                \
        s->items = s->key && most ? WRITE(t, 0, s->key) : most;                                                        \
    }
#define CTR_LOOP_LIST(t, kind)                                                                                         \
    const struct opv_items l = { kind, (const int64_t *)(t)->in[0].item, (const double *)(t)->in[0].item,              \
                                 (const struct opv_str *)(t)->in[0].item, (t)->in[0].item_ok };
#define CTR_LOOP_CHOSEN(name, kind, fn)                                                                                \
    OPV_FN void name(struct ctr_op_tile *t, struct opv_sink *s)                                                        \
    {                                                                                                                  \
        CTR_LOOP_LIST(t, kind)                                                                                         \
        const int64_t k = t->nargs > 1 ? *(const int64_t *)t->in[1].v : 0;                                             \
        opd_put_items(&l, t->at, fn(&l, t->in[0].span[0], k, t->at), s);                                               \
    }
#define CTR_LOOP_FOUND(name, kind, fn)                                                                                 \
    CTR_LOOP_TILE(name)                                                                                                \
    {                                                                                                                  \
        CTR_LOOP_LIST(t, kind)                                                                                         \
        const int64_t found = t->ok[0] ? fn(&l, t->in[0].span[0], t->at) : -1;                                         \
        t->ok[0] &= found >= 0;                                                                                        \
        *(int64_t *)t->out = found >= 0 ? l.i[found] : 0;                                                              \
    }
#define CTR_LOOP_FOUND_TEXT(name, fn)                                                                                  \
    OPV_FN void name(struct ctr_op_tile *t, struct opv_sink *s)                                                        \
    {                                                                                                                  \
        CTR_LOOP_LIST(t, OPV_ITEM_STR)                                                                                 \
        const int64_t found = fn(&l, t->in[0].span[0], t->at);                                                         \
        t->ok[0] &= found >= 0;                                                                                        \
        if (found >= 0)                                                                                                \
            opv_put(s, l.s[found].p, l.s[found].n);                                                                    \
    }

OPV_FN void opd_put_items(const struct opv_items *l, const int64_t *at, int64_t n, struct opv_sink *s)
{
    for (int64_t i = 0; i < n; i++)
        if (l->kind == OPV_ITEM_STR) {
            opv_put(s, l->s[at[i]].p, l->s[at[i]].n);
            opv_end_item(s);
        } else {
            if (s->key)
                s->key[s->items] = (uint64_t)l->i[at[i]]; /* the bits of floats too */
            s->items++;
        }
}

/* A kernel for lower(text), of the rows "AB", null and "CDEFGHIJK" in one block; pool.head is 128, of 1024 bytes:
 *
 *     count     each thread runs the loop with a sink without memory: 2, 0 and 9 bytes, which need 8, 0 and 16
 *     opd_take  exclusive sums 0 8 8, all 24; thread 0 adds 128, which is 24 rounded up, to head: at = 128, head = 256
 *     write     each thread runs the loop again, into data + 128 and data + 136
 *     view      start = 128 136 136, row_bytes = 2 0 9, ok = 1 0 1
 *     places    row_bytes = 0 2 2 11: where each row goes; total: 11 bytes for the host to make room for
 *     compact   "abcdefghijk" in row order, by the kernel that the host starts next
 *
 * If at + all were more than 1024, the block would write nothing; head says in the end how large the pool must be, and
 * the host starts the kernel again (gpu_run.c). */

/* ---- the pool ---- */

/* Shared by a block: one number per thread, the sums of OPD_PARTS runs of them, the total, and its position. */
enum { OPD_PARTS = 16, OPD_SUM = OPD_PARTS, OPD_AT };

/* The sum over the previous threads of the block, and *all: over all threads. One thread sums each run; the first
 * thread sums the runs, takes that much of the pool (NULL: no pool), rounded up, and sets *at. All threads of the block
 * must call it. */
OPD_FN int64_t opd_prefix(int64_t v, struct opd_pool *pool, int64_t *all, int64_t *at)
{
    OPD_SHARED(int64_t, sum);
    const unsigned me = threadIdx.x, n = blockDim.x, run = (n + OPD_PARTS - 1) / OPD_PARTS;
    int64_t *part = sum + n, before;
    sum[me] = v;
    OPD_BARRIER(1);
    if (me < OPD_PARTS) {
        int64_t s = 0;
        for (unsigned k = me * run; k < (me + 1) * run && k < n; k++) {
            const int64_t x = sum[k];
            sum[k] = s;
            s += x;
        }
        part[me] = s;
    }
    OPD_BARRIER(2);
    if (me == 0) {
        int64_t s = 0;
        for (unsigned k = 0; k < OPD_PARTS; k++) {
            const int64_t x = k < n ? part[k] : 0;
            part[k] = s;
            s += x;
        }
        part[OPD_SUM] = s;
        s = (s + OPD_ROUND - 1) / OPD_ROUND * OPD_ROUND;
        part[OPD_AT] = pool ? (int64_t)atomicAdd(&pool->head, (uint64_t)s) : 0;
    }
    OPD_BARRIER(3);
    *all = part[OPD_SUM];
    *at = part[OPD_AT];
    before = part[me / run] + sum[me];
    __syncthreads();
    return before;
}

/* Algorithm 1 of the paper: sizes by thread, a prefix sum in the block, one atomicAdd a block. Line 4 in the paper,
 * address + prefix_i - prefix_1, overlaps for an inclusive sum and checks no bound; here the sum is exclusive, and -1
 * means that the block's part does not fit. */
OPV_FN int64_t opd_take(struct opd_pool *pool, int64_t bytes)
{
    int64_t all, at, before = opd_prefix((bytes + 7) / 8 * 8, pool, &all, &at);
    return (uint64_t)(at + all) <= pool->size ? at + before : -1;
}

/* ---- a loop over the calls of an operator; a kernel begins with one row for all of its loops ---- */

/* unit_: the block's next tile; it has each gridDim.x-th of the layer's. */
#define OPD_ROW(group)                                                                                                 \
    struct opd_row w_;                                                                                                 \
    unsigned unit_ = (group) ? opd_unit_from((unsigned)L.first[group].tile) : blockIdx.x;                              \
    (void)unit_;
#define OPD_EACH(group, j) for (int j = L.first[group].call; j < L.first[(group) + 1].call; j++)

/* The tiles of all calls are shared out among the blocks: few rows of many features keep a whole device busy, and a
 * thread has several rows of a call, whose parameters it reads once. */
#define OPD_FIXED(group, fn)                                                                                           \
    for (const unsigned end_ = (unsigned)L.first[(group) + 1].tile; unit_ < end_; unit_ += gridDim.x) {                \
        const struct opd_tile at_ = L.tile[unit_];                                                                     \
        const struct opd_call *c_ = L.call + at_.call;                                                                 \
        const int64_t from_ = (int64_t)at_.at * OPD_TILE;                                                              \
        const int64_t to_ = from_ + OPD_TILE < c_->rows ? from_ + OPD_TILE : c_->rows;                                 \
        const struct opd_unit u_ = opd_unit_of(c_, threadIdx.x);                                                       \
        fn(&u_, from_ + threadIdx.x, to_, &w_);                                                                        \
    }
/* The block's first tile from that one on. */
OPD_INLINE unsigned opd_unit_from(unsigned from)
{
    return from + (blockIdx.x + gridDim.x - from % gridDim.x) % gridDim.x;
}

/* Two passes: the first counts, the second writes into the pool. keys: 8 bytes per item. */
#define OPD_VARIABLE(group, fn, has_ends, is_keys)                                                                     \
    OPD_EACH(group, j_)                                                                                                \
    {                                                                                                                  \
        const struct opd_call *c_ = L.call + j_;                                                                       \
        for (int64_t base_ = (int64_t)blockIdx.x * blockDim.x; base_ < c_->rows;                                       \
             base_ += (int64_t)gridDim.x * blockDim.x) {                                                               \
            const int64_t row_ = base_ + threadIdx.x;                                                                  \
            struct opv_sink s_ = { 0, 0, 0, 0, 0 };                                                                    \
            int64_t need_ = 0, at_;                                                                                    \
            w_.ok = 0;                                                                                                 \
            if (row_ < c_->rows) {                                                                                     \
                opd_open(c_, row_, &w_);                                                                               \
                if (w_.ok)                                                                                             \
                    fn(&w_.tile, &s_);                                                                                 \
                need_ = opd_need(&s_, has_ends, is_keys);                                                              \
            }                                                                                                          \
            at_ = opd_take(L.pool, need_);                                                                             \
            if (row_ < c_->rows) {                                                                                     \
                if (at_ >= 0 && w_.ok) {                                                                               \
                    s_ = opd_sink(L.pool->data + at_, s_.n, is_keys, has_ends);                                        \
                    fn(&w_.tile, &s_);                                                                                 \
                } else if (at_ < 0)                                                                                    \
                    s_.n = s_.items = 0;                                                                               \
                opd_store_view(c_, row_, w_.ok, at_, &s_, is_keys);                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }
#define OPD_TEXT_(group, fn)  OPD_VARIABLE(group, fn, 0, 0)
#define OPD_TEXTS_(group, fn) OPD_VARIABLE(group, fn, 1, 0)
#define OPD_KEYS_(group, fn)  OPD_VARIABLE(group, fn, 0, 1)

/* Bytes of texts, then where each item ends. */
OPV_FN int64_t opd_need(const struct opv_sink *s, int items, int keys)
{
    return keys ? s->items * 8 : (s->n + 7) / 8 * 8 + (items ? s->items * 4 : 0);
}
OPV_FN struct opv_sink opd_sink(uint8_t *p, int64_t bytes, int keys, int items)
{
    struct opv_sink s = { keys ? 0 : p, 0, items && !keys ? (int32_t *)(void *)(p + (bytes + 7) / 8 * 8) : 0,
                          keys ? (uint64_t *)(void *)p : 0, 0 };
    return s;
}
OPV_FN void opd_store_view(const struct opd_call *c, int64_t row, uint8_t ok, int64_t at, const struct opv_sink *s,
                           int keys)
{
    c->ok[row] = ok;
    c->start[row] = at;
    c->row_bytes[row] = ok ? (keys ? s->items * 8 : s->n) : 0;
    c->row_items[row] = ok ? s->items : 0;
}

/* ---- compaction, in row order ---- */

#ifndef OPD_FIXED_ONLY

/* Turn the sizes of rows [row, end) into positions from `at` on, in place, by one block. Returns where they end. */
OPV_FN int64_t opd_places(int64_t *v, int64_t row, int64_t end, int64_t at)
{
    int64_t all, none;
    for (row += threadIdx.x; row - threadIdx.x < end; row += blockDim.x) {
        const int64_t before = opd_prefix(row < end ? v[row] : 0, 0, &all, &none);
        if (row < end)
            v[row] = at + before;
        at += all;
    }
    return at;
}

/* The sum of every step-th of v, from element k up to `end`, by one block. */
OPV_FN int64_t opd_sum(const int64_t *v, int64_t step, int64_t k, int64_t end)
{
    int64_t sum = 0, all, none;
    for (k += threadIdx.x; k < end; k += blockDim.x)
        sum += v[k * step];
    (void)opd_prefix(sum, 0, &all, &none);
    return all;
}

/* A tile of a call, for each block. */
struct opd_part {
    const struct opd_call *c;
    int64_t *sum; /* of the call */
    int64_t tile, row, end;
};
OPV_FN struct opd_part opd_part_of(const struct opd_layer *L)
{
    const int64_t j = blockIdx.x / L->tiles, tile = blockIdx.x % L->tiles;
    const struct opd_call *c = L->call + L->variable[j];
    const int64_t row = tile * OPD_TILE < c->rows ? tile * OPD_TILE : c->rows;
    const struct opd_part p = { c, L->sum + 2 * j * L->tiles, tile, row,
                                row + OPD_TILE < c->rows ? row + OPD_TILE : c->rows };
    return p;
}

/* For ctr_places, which adds up the sums of the tiles before its own. */
OPD_KERNEL(ctr_sums)
{
    const struct opd_part p = opd_part_of(&L);
    const int64_t bytes = opd_sum(p.c->row_bytes, 1, p.row, p.end), items = opd_sum(p.c->row_items, 1, p.row, p.end);
    if (threadIdx.x == 0) {
        p.sum[2 * p.tile] = bytes;
        p.sum[2 * p.tile + 1] = items;
    }
}

/* The last tile of a call tells its totals; the first one where there are no rows (a call over the items of a list). */
OPD_KERNEL(ctr_places)
{
    const struct opd_part p = opd_part_of(&L);
    const int64_t before = opd_sum(p.sum, 2, 0, p.tile), items_before = opd_sum(p.sum + 1, 2, 0, p.tile);
    const int64_t bytes = opd_places(p.c->row_bytes, p.row, p.end, before);
    const int64_t items = opd_places(p.c->row_items, p.row, p.end, items_before);
    if (threadIdx.x == 0 && p.end == p.c->rows && (p.row < p.end || p.tile == 0)) {
        int64_t *total = L.total + 2 * (blockIdx.x / L.tiles);
        total[0] = p.c->row_bytes[p.end] = bytes;
        total[1] = p.c->row_items[p.end] = items;
    }
}

/* One of `lanes` threads that copy n bytes together: words of 8 bytes, at multiples of 8 of `to`. */
OPV_FN void opd_copy(uint8_t *to, const uint8_t *from, int64_t n, int64_t lane, int64_t lanes)
{
    const int64_t before = (int64_t)(-(uint64_t)to & 7), head = before < n ? before : n, words = (n - head) / 8;
    uint64_t *out = (uint64_t *)(void *)(to + head);
    for (int64_t k = lane; k < head; k += lanes)
        to[k] = from[k];
    for (int64_t k = lane; k < words; k += lanes)
        out[k] = opd_word(from + head + 8 * k, 8);
    for (int64_t k = head + words * 8 + lane; k < n; k += lanes)
        to[k] = from[k];
}

/* Copy each row's bytes and the ends of its items, counted from the column's start. */
OPV_FN void opd_compact_row(const struct opd_layer *L, const struct opd_call *c, const struct opd_place *p, int64_t row,
                            int64_t lane, int64_t lanes)
{
    const int64_t to = c->row_bytes[row], n = c->row_bytes[row + 1] - to;
    const int64_t item = c->row_items[row], items = c->row_items[row + 1] - item;
    const uint8_t *from = L->pool->data + c->start[row];
    const int32_t *end = (const int32_t *)(const void *)(from + (n + 7) / 8 * 8);
    opd_copy(p->bytes + to, from, n, lane, lanes);
    for (int64_t k = lane; p->ends && k < items; k += lanes)
        p->ends[item + k] = (int32_t)(to + end[k]);
    if (p->ends && row == 0 && lane == 0)
        p->ends[-1] = 0;
}

/* Eight threads a row: most rows have some words. */
OPD_KERNEL(ctr_compact)
{
    const int64_t lanes = blockDim.x % 8 ? 1 : 8, lane = threadIdx.x % lanes;
    for (int64_t j = 0; j < L.nvariable; j++) {
        const struct opd_call *c = L.call + L.variable[j];
        for (int64_t row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes; row < c->rows;
             row += (int64_t)gridDim.x * blockDim.x / lanes)
            opd_compact_row(&L, c, L.place + j, row, lane, lanes);
    }
}

#endif

#endif
