/* SPDX-License-Identifier: Apache-2.0
 *
 * opint: internal to the operators on the host. An operator is a row of a table (struct ctr_op) with variants by
 * argument types; each variant names the lanes of its loop. The driver (op.c) divides rows into tiles, loads each
 * argument of a tile into a lane (oplane.c: one array type for all column types, dictionaries resolved, nulls as
 * bytes), calls the loop, and appends result and nulls to the output column. So a loop reads plain arrays of at most
 * CTR_OP_TILE values.
 */
#ifndef CTR_OPINT_H
#define CTR_OPINT_H

#include "common/op/op.h"
#include "common/op/body.h"
#include "common/op/body_text.h"

#define CTR_OP_TILE 1024

enum ctr_lane {
    CTR_LANE_NONE, /* only presence */
    CTR_LANE_BOOL, /* uint8_t 0 or 1 */
    CTR_LANE_I64,  /* integers, times, durations, bools */
    CTR_LANE_U64,
    CTR_LANE_F64,
    CTR_LANE_STR,  /* struct opv_str of a text */
    CTR_LANE_TEXT, /* struct opv_str: the canonical text of any scalar */
    CTR_LANE_HASH, /* uint64_t: hash of the canonical text; a key is its own hash */
};

struct ctr_lane_kind {
    enum ctr_lane lane;
    bool list; /* spans over a lane of items */
};

/* One argument of a tile. */
struct ctr_op_in {
    const void *v;               /* lane; NULL for lists */
    const uint8_t *ok;           /* one byte per row: 1 present */
    const struct opv_span *span; /* lists */
    const void *item;            /* lists: lane of the items */
    const uint8_t *item_ok;
};

struct ctr_op_tile {
    int n, nargs;
    const struct ctr_op_in *in;
    void *out;              /* fixed: lane of the result */
    uint8_t *ok;            /* of the result; initially 1 where all arguments are present (all 1 with CTR_OP_NULLS) */
    const void *param;      /* of the call */
    int64_t limit_bytes;    /* of the call */
    struct ctr_colbuf *buf; /* variable size: the loop appends values and offsets, the driver rows and nulls */
};

/* A loop over a tile, and its device version (loop.h). */
struct ctr_op_loop {
    int (*run)(struct ctr_op_tile *t, struct ctr_err *err);
    const char *name;      /* of the loop in device source */
    const char *file;      /* file that defines it */
    const char *host_only; /* reason why it has no device version, or NULL */
    enum ctr_loop_kind kind;
};

/* args is a letter an argument, '>' and the result:
 *   b bool  B bool as integer  i integer  j integer as float  u uint64 not a key  f number  F float  t text  T time  d
 * duration  k key x any scalar as text  h any scalar as hash  v anything (nulls only); [ before a letter: list of; !
 * after: a literal
 *   * after the last: any number more of it. As result also 0: the type of argument 0 where all numbers are float32. */
struct ctr_op_variant {
    const char *args;
    const struct ctr_op_loop *loop;
};

enum {
    CTR_OP_NULLS = 1, /* sees nulls: its loop sets ok */
    CTR_OP_LIFT = 2,  /* with a list as first argument, applied item by item; the result must not be a list */
    CTR_OP_FITTED = 4,
    CTR_OP_NULL_ARG = 8, /* the literal null is an argument */
    CTR_OP_COLUMN = 16,  /* `column` runs whole columns (lookup) */
};

struct ctr_op_state;

struct ctr_op {
    const char *name, *signature, *help;
    unsigned flags;
    const struct ctr_op_variant *variants; /* ends with args NULL */
    const char *named; /* names of literal arguments after the positional ones, in order: "min,max" */
    /* Called after the variant is chosen: computes parameters from literals (state->named, call->arg). NULL: none. */
    int (*prepare)(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err);
    int (*column)(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                  struct ctr_colbuf *out, struct ctr_err *err);
    const char *identity; /* see ctr_op_identity; NULL: the name */
};

#define CTR_OP_NAMED 4
struct ctr_op_state {
    const struct ctr_op *op;
    const struct ctr_op_loop *loop;
    int nargs;                /* number of positional arguments */
    struct ctr_lane_kind *in; /* nargs of them */
    bool lift;
    struct ctr_vtype inner;                      /* result type of the loop: of the items when lifted */
    const struct ctr_value *named[CTR_OP_NAMED]; /* literals of named arguments, or NULL */
    void *param;
    void (*param_free)(void *param);
    size_t param_bytes;                                 /* of *param, which is copied to devices; 0: no parameter */
    struct opv_str *(*param_texts)(void *param, int k); /* the k-th text that *param points to; NULL: past the last */
    bool needs_fit;                                     /* not yet fitted or loaded */
};

/* Groups of the table; each ends with name NULL. */
extern const struct ctr_op ctr_ops_infix[], ctr_ops_number[], ctr_ops_text[], ctr_ops_json[], ctr_ops_key[],
    ctr_ops_time[], ctr_ops_fit[], ctr_ops_lookup[], ctr_ops_list[], ctr_ops_url[], ctr_ops_regex[], ctr_ops_unicode[],
    ctr_op_old_quotient;

/* ---- driver: op.c, oplane.c ---- */

/* Call fn for each tile of the rows [from, from+rows) of the columns. For a lifted call pass the item columns. */
int ctr_op_tiles(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t from, int64_t rows,
                 int (*fn)(void *ctx, struct ctr_op_tile *t, struct ctr_err *err), void *ctx,
                 struct ctr_err *err) CTR_MUST;
/* Load values [from, from+n) of a scalar column as a lane into `to` (16 bytes a value suffice); returns the lane, which
 * may be the column's own memory. ok: presence; cleared where the lane cannot represent the value. `text` receives
 * generated texts. */
int ctr_lane_load(enum ctr_lane lane, bool key, uint64_t hash_seed, const struct ctr_col *c, int64_t from, int64_t n,
                  void *to, uint8_t *ok, struct ctr_buf *text, const void **v, struct ctr_err *err) CTR_MUST;
/* Presence bytes from a bitmap (NULL: all present), and back. The latter appends bits to b for rows b->rows…, a
 * multiple of 8, and advances rows and nulls by n. */
void ctr_lane_valid(const uint8_t *valid, int64_t from, int64_t n, uint8_t *ok);
int ctr_lane_append_valid(struct ctr_colbuf *b, const uint8_t *ok, int64_t n, struct ctr_err *err) CTR_MUST;
/* Fill n elements of a lane with a literal; returns whether it is present. `text` (64 bytes) holds the text of a
 * number. */
bool ctr_lane_literal(enum ctr_lane lane, uint64_t hash_seed, const struct ctr_value *v, char *text, void *to, int n);

/* For loops that append: check the limits of a column and of the call (0: none), then reserve n offsets and bytes (or
 * items). */
int ctr_op_reserve_text(struct ctr_colbuf *b, int64_t n, int64_t bytes, int64_t limit, struct ctr_err *err) CTR_MUST;
int ctr_op_reserve_items(struct ctr_colbuf *b, int64_t n, int64_t items, int64_t limit, struct ctr_err *err) CTR_MUST;
/* Is a loop's bound of its bytes or items so high that it should count first? */
static inline bool ctr_op_counts_first(const struct ctr_op_tile *t, int64_t max)
{
    return max > (16 << 20) || (t->limit_bytes && max > t->limit_bytes / 8);
}

/* Keys of scalars: key[i] = key of value from+i, op_key.c. Undefined for nulls. `memo`: see ctr_op_keys. */
int ctr_keys_scalar(bool key, const struct ctr_col *c, int64_t from, int64_t n, uint64_t seed, struct ctr_buf *memo,
                    uint64_t *out, struct ctr_err *err) CTR_MUST;
/* Keys of the first of n texts, while they have eight bytes or are null (!ok[i]; ok NULL: no nulls); returns how many,
 * a multiple of four. Requires AVX2. */
int64_t ctr_keys_x8(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed, uint64_t missing,
                    uint64_t *out);
uint64_t ctr_text_key(const uint8_t *p, int64_t n, uint64_t seed);
uint64_t ctr_missing_key(uint64_t seed); /* of a null of any type */

/* Run a bound call for keys: vocab has a shortcut (op_fit.c); returns false for other calls. */
bool ctr_vocab_has_keys(const struct ctr_op_call *call);
/* As ctr_op_device, of an operator that reads a keyed file: op_lookup.c. */
const char *ctr_op_device_lookup(const struct ctr_op_call *call, struct ctr_op_device *d);
/* Its set of keys with that seed, as loop_feature.h reads it; false: no memory. */
struct ctr_vocab_set {
    const uint64_t *slot; /* 4 * (mask + 1) */
    uint64_t mask, shift, secret, other;
    int64_t has_zero;
};
bool ctr_vocab_set(const struct ctr_op_call *call, uint64_t seed, struct ctr_vocab_set *set, uint64_t *id);
/* The identity of a table for devices, which keep copies: each call gives another one, never 0. An address is none,
 * because a table that is freed leaves it to the next. */
uint64_t ctr_op_table_id(void);
int ctr_vocab_keys(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, uint64_t seed,
                   struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err) CTR_MUST;

/* The literal's number, or false. */
bool ctr_value_number(const struct ctr_value *v, double *d);

#define CTR_VARIANTS(...)                                                                                              \
    (const struct ctr_op_variant[])                                                                                    \
    {                                                                                                                  \
        __VA_ARGS__,                                                                                                   \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }

/* ---- loops made from bodies ---- */

/* Entries of the operator tables: an array of one, so that its name is a pointer. */
#define CTR_LOOP_ROW(name_, kind_)                                                                                     \
    __attribute__((unused)) static const struct ctr_op_loop name_[1] = {                                               \
        { .run = name_##_run, .name = #name_, .file = __FILE__, .kind = kind_ }                                        \
    };
/* A loop written by hand, without a device version. */
#define CTR_LOOP_HOST(name_, run_, why_)                                                                               \
    __attribute__((                                                                                                    \
        unused)) static const struct ctr_op_loop name_[1] = { { .run = run_, .name = #name_, .host_only = why_ } };

#define CTR_ARG(T, k) const T *a##k = (const T *)t->in[k].v

/* r[i] = expr for a fixed result, after these declarations; _OK bodies can clear ok. */
#define CTR_LOOP_OVER(name, TR, expr, ...)                                                                             \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
        TR *r = t->out;                                                                                                \
        uint8_t *ok = t->ok;                                                                                           \
        (void)err;                                                                                                     \
        (void)ok;                                                                                                      \
        for (int i = 0; i < t->n; i++)                                                                                 \
            r[i] = (TR)(expr);                                                                                         \
        return 0;                                                                                                      \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_FIXED)
#define CTR_LOOP1(name, TA, TR, expr)     CTR_LOOP_OVER(name, TR, expr, CTR_ARG(TA, 0))
#define CTR_LOOP2(name, TA, TB, TR, expr) CTR_LOOP_OVER(name, TR, expr, CTR_ARG(TA, 0); CTR_ARG(TB, 1))
#define CTR_LOOP3(name, TA, TB, TC, TR, expr)                                                                          \
    CTR_LOOP_OVER(name, TR, expr, CTR_ARG(TA, 0); CTR_ARG(TB, 1); CTR_ARG(TC, 2))
/* expr over in[k]. */
#define CTR_LOOP0(name, TR, expr)             CTR_LOOP_OVER(name, TR, expr, const struct ctr_op_in *in = t->in; (void)in)
#define CTR_LOOP_PARAM(name, TA, P, TR, expr) CTR_LOOP_OVER(name, TR, expr, CTR_ARG(TA, 0); const P *p = t->param)
/* WRITE(t, i) writes the vector of row i. */
#define CTR_LOOP_VECTOR(name, WRITE)                                                                                   \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        for (int i = 0; i < t->n; i++)                                                                                 \
            WRITE(t, i);                                                                                               \
        return 0;                                                                                                      \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_FIXED)
/* r[i] = body(r[i], a[i]) over all arguments, starting with 0. */
#define CTR_LOOP_FOLD(name, T, body)                                                                                   \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        T *r = t->out;                                                                                                 \
        (void)err;                                                                                                     \
        memset(r, 0, (size_t)t->n * sizeof *r);                                                                        \
        for (int k = 0; k < t->nargs; k++) {                                                                           \
            const T *a = t->in[k].v;                                                                                   \
            for (int i = 0; i < t->n; i++)                                                                             \
                r[i] = body(r[i], a[i]);                                                                               \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_FIXED)
/* Lists of keys: MAX(t, i) bounds their number, WRITE(t, i, to) writes them and returns it. */
#define CTR_LOOP_KEYS(name, MAX, WRITE)                                                                                \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        struct ctr_colbuf *b = t->buf->item;                                                                           \
        int64_t items = 0;                                                                                             \
        int32_t *end;                                                                                                  \
        int rc;                                                                                                        \
        for (int i = 0; i < t->n; i++)                                                                                 \
            items = CTR_MIN(items + MAX(t, i), INT64_C(1) << 53);                                                      \
        if ((rc = ctr_op_reserve_items(t->buf, t->n, items, t->limit_bytes, err)) ||                                   \
            (rc = ctr_buf_reserve(&b->data, (size_t)(items + 1) * 8, err)))                                            \
            return rc;                                                                                                 \
        end = (int32_t *)(t->buf->offsets.data + t->buf->offsets.len);                                                 \
        for (int i = 0; i < t->n; i++) {                                                                               \
            if (MAX(t, i))                                                                                             \
                b->rows += WRITE(t, i, (uint64_t *)b->data.data + b->rows);                                            \
            end[i] = (int32_t)b->rows;                                                                                 \
        }                                                                                                              \
        b->data.len = (size_t)b->rows * 8;                                                                             \
        t->buf->offsets.len += (size_t)t->n * sizeof *end;                                                             \
        return 0;                                                                                                      \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_KEYS)

/* Text: MAX(t, i) bounds the bytes of row i, WRITE(t, i, s) writes it. Null rows write nothing. */
#define CTR_LOOP_TEXT(name, MAX, WRITE)                                                                                \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        struct opv_sink s = { 0 };                                                                                     \
        int64_t max = 0;                                                                                               \
        int32_t *end;                                                                                                  \
        int rc;                                                                                                        \
        for (int i = 0; i < t->n; i++)                                                                                 \
            max += t->ok[i] ? (MAX(t, i)) : 0;                                                                         \
        if (ctr_op_counts_first(t, max)) {                                                                             \
            for (int i = 0; i < t->n; i++)                                                                             \
                if (t->ok[i])                                                                                          \
                    WRITE(t, i, &s);                                                                                   \
            max = s.n;                                                                                                 \
        }                                                                                                              \
        if ((rc = ctr_op_reserve_text(t->buf, t->n, max, t->limit_bytes, err)))                                        \
            return rc;                                                                                                 \
        s.p = t->buf->data.data;                                                                                       \
        s.n = (int64_t)t->buf->data.len;                                                                               \
        end = (int32_t *)(t->buf->offsets.data + t->buf->offsets.len);                                                 \
        for (int i = 0; i < t->n; i++) {                                                                               \
            if (t->ok[i])                                                                                              \
                WRITE(t, i, &s);                                                                                       \
            end[i] = (int32_t)s.n;                                                                                     \
        }                                                                                                              \
        t->buf->data.len = (size_t)s.n;                                                                                \
        t->buf->offsets.len += (size_t)t->n * sizeof *end;                                                             \
        return 0;                                                                                                      \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_TEXT)

/* Lists of text: MAX bounds the bytes, ITEMS the items of row i. */
#define CTR_LOOP_TEXTS(name, MAX, ITEMS, WRITE)                                                                        \
    static int name##_run(struct ctr_op_tile *t, struct ctr_err *err)                                                  \
    {                                                                                                                  \
        struct ctr_colbuf *b = t->buf->item;                                                                           \
        struct opv_sink s = { 0 };                                                                                     \
        int64_t max = 0, items = 0;                                                                                    \
        int32_t *end;                                                                                                  \
        int rc;                                                                                                        \
        for (int i = 0; i < t->n; i++) {                                                                               \
            max += t->ok[i] ? (MAX(t, i)) : 0;                                                                         \
            items += t->ok[i] ? (ITEMS(t, i)) : 0;                                                                     \
        }                                                                                                              \
        if (ctr_op_counts_first(t, max) || ctr_op_counts_first(t, items)) {                                            \
            for (int i = 0; i < t->n; i++)                                                                             \
                if (t->ok[i])                                                                                          \
                    WRITE(t, i, &s);                                                                                   \
            max = s.n;                                                                                                 \
            items = s.items;                                                                                           \
        }                                                                                                              \
        if ((rc = ctr_op_reserve_items(t->buf, t->n, items, t->limit_bytes, err)) ||                                   \
            (rc = ctr_op_reserve_text(b, items, max, t->limit_bytes, err)))                                            \
            return rc;                                                                                                 \
        s.p = b->data.data;                                                                                            \
        s.n = (int64_t)b->data.len;                                                                                    \
        s.end = (int32_t *)b->offsets.data + 1;                                                                        \
        s.items = b->rows;                                                                                             \
        end = (int32_t *)(t->buf->offsets.data + t->buf->offsets.len);                                                 \
        for (int i = 0; i < t->n; i++) {                                                                               \
            if (t->ok[i])                                                                                              \
                WRITE(t, i, &s);                                                                                       \
            end[i] = (int32_t)s.items;                                                                                 \
        }                                                                                                              \
        b->data.len = (size_t)s.n;                                                                                     \
        b->offsets.len = (size_t)(s.items + 1) * sizeof *end;                                                          \
        b->rows = s.items;                                                                                             \
        t->buf->offsets.len += (size_t)t->n * sizeof *end;                                                             \
        return 0;                                                                                                      \
    }                                                                                                                  \
    CTR_LOOP_ROW(name, CTR_LOOP_OF_TEXTS)

#endif
