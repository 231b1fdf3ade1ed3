/* SPDX-License-Identifier: Apache-2.0
 *
 * op_key: keys of features, and the operators that make keys: cross, hash. A key is XXH3-64 of the canonical text of a
 * value; the text of an integer is generated in registers or its key cached. Invariant: ctr_op_keys(seed) of a value
 * equals ctr_feature_key(seed, ctr_col_text(value)) for every type and encoding. */
#include "common/base/isa.h"
#include "common/op/body_hash.h"
#include "common/op/loop_key.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t __attribute__((noinline)) long_key(const uint8_t *p, uint64_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(p, n, seed);
}
CTR_BODY uint64_t text_key(const void *p, uint64_t n, uint64_t seed)
{
    return n <= OPV_HASH_SHORT ? opv_hash_short(p, n, seed) : long_key(p, n, seed);
}

uint64_t ctr_text_key(const uint8_t *p, int64_t n, uint64_t seed)
{
    return text_key(p, (uint64_t)n, seed);
}

uint64_t ctr_missing_key(uint64_t seed)
{
    return text_key("(missing)", 9, seed);
}

/* ---- scalars ---- */

/* Keys of small integers are cached. */
#define MEMO 1024
struct memo {
    uint64_t seed;
    uint64_t key[MEMO];
    uint8_t known[MEMO];
};

/* The cache in b, initially empty, for one seed. */
static int open_memo(struct ctr_buf *b, uint64_t seed, struct memo **m, struct ctr_err *err)
{
    int rc = b->len ? 0 : ctr_buf_reserve(b, sizeof **m, err);
    if (rc)
        return rc;
    *m = (struct memo *)(void *)b->data;
    if (!b->len || (*m)->seed != seed)
        **m = (struct memo){ .seed = seed };
    b->len = sizeof **m;
    return 0;
}

static uint64_t i64_key(int64_t v, uint64_t seed)
{
    char text[CTR_NUM_MAX];
    size_t n = ctr_fmt_i64(text, v);

    return text_key(text, n, seed);
}

static void i64_keys(const int64_t *v, int64_t n, struct memo *m, uint64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = (uint64_t)v[i];
        if (u >= MEMO) {
            out[i] = i64_key(v[i], m->seed);
            continue;
        }
        if (!m->known[u]) {
            m->key[u] = i64_key(v[i], m->seed);
            m->known[u] = 1;
        }
        out[i] = m->key[u];
    }
}

static void str_keys(const struct opv_str *v, const uint8_t *ok, int64_t n, uint64_t seed, uint64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = ok[i] ? text_key(v[i].p, (uint64_t)v[i].n, seed) : 0;
}

/* Nulls, which are randomly distributed, take the same path as texts of eight bytes: a mispredicted branch costs more
 * than the hash. */
static void utf8_tile(const uint8_t *p, const int32_t *off, const uint8_t *ok, int64_t n, uint64_t seed,
                      uint64_t missing, uint64_t *out)
{
    static const uint8_t pad[8];

    for (int64_t i = 0; !ok && i < n; i++)
        out[i] = text_key(p + off[i], (uint64_t)(off[i + 1] - off[i]), seed);
    for (int64_t i = 0; ok && i < n; i++) {
        uint64_t mask = 0 - (uint64_t)ok[i], len = (uint64_t)(off[i + 1] - off[i]);
        const uint8_t *at = (const uint8_t *)(((uintptr_t)(p + off[i]) & mask) | ((uintptr_t)pad & ~mask));
        out[i] = (text_key(at, (len & mask) | (8 & ~mask), seed) & mask) | (missing & ~mask);
    }
}

/* Plain text columns need no lane. */
static void utf8_keys(const struct ctr_col *c, int64_t from, int64_t n, uint64_t seed, uint64_t missing, uint64_t *out)
{
    const bool vectorised = ctr_cpu_has(CTR_CPU_AVX2);
    uint8_t bytes[CTR_OP_TILE], *ok = c->valid ? bytes : NULL;

    for (int64_t done = 0; done < n; done += CTR_OP_TILE) {
        const int32_t *off = c->offsets + from + done;
        int64_t k = CTR_MIN(n - done, CTR_OP_TILE);
        if (ok)
            ctr_lane_valid(c->valid, from + done, k, ok);
        int64_t first = vectorised ? ctr_keys_x8(c->data, off, ok, k, seed, missing, out + done) : 0;
        utf8_tile(c->data, off + first, ok ? ok + first : NULL, k - first, seed, missing, out + done + first);
    }
}

struct key_work {
    uint64_t seed;
    struct memo *memo;
    struct ctr_buf text;
    uint8_t ok[CTR_OP_TILE];
    struct opv_str lane[CTR_OP_TILE];
};

static bool has_i64_text(const struct ctr_col *c)
{
    enum ctr_type t = c->dict ? c->dict->type : c->type;

    return ctr_types[t].integer && t != CTR_U64;
}

static int keys_tile(bool key, const struct ctr_col *c, int64_t from, int64_t n, struct key_work *w, uint64_t *out,
                     struct ctr_err *err)
{
    enum ctr_lane lane = key ? CTR_LANE_U64 : has_i64_text(c) ? CTR_LANE_I64 : CTR_LANE_TEXT;
    const void *v;
    int rc = ctr_lane_load(lane, key, 0, c, from, n, w->lane, w->ok, &w->text, &v, err);

    if (rc)
        return rc;
    if (key)
        for (int64_t i = 0; i < n; i++)
            out[i] = ctr_mix64(((const uint64_t *)v)[i] ^ w->seed);
    else if (lane == CTR_LANE_I64)
        i64_keys(v, n, w->memo, out);
    else
        str_keys(v, w->ok, n, w->seed, out);
    return 0;
}

int ctr_keys_scalar(bool key, const struct ctr_col *c, int64_t from, int64_t n, uint64_t seed, struct ctr_buf *memo,
                    uint64_t *out, struct ctr_err *err)
{
    struct ctr_buf own = { 0 };
    struct key_work *w;
    int rc = 0;

    if (!key && !c->dict && c->type == CTR_UTF8) {
        utf8_keys(c, from, n, seed, ctr_missing_key(seed), out);
        return 0;
    }
    w = malloc(sizeof *w);
    if (!w)
        return ctr_fail_nomem(err, sizeof *w);
    w->text = (struct ctr_buf){ 0 };
    w->seed = seed;
    if (!key && has_i64_text(c))
        rc = open_memo(memo ? memo : &own, seed, &w->memo, err);
    for (int64_t done = 0; !rc && done < n; done += CTR_OP_TILE)
        rc = keys_tile(key, c, from + done, CTR_MIN(n - done, CTR_OP_TILE), w, out + done, err);
    ctr_buf_free(&w->text);
    free(w);
    ctr_buf_free(&own);
    return rc;
}

/* ---- features ---- */

static void patch_missing(const uint8_t *ok, int64_t n, uint64_t missing, uint64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t mask = 0 - (uint64_t)ok[i];
        out[i] = (out[i] & mask) | (missing & ~mask);
    }
}

static int scalar_keys(bool key, const struct ctr_col *c, int64_t rows, uint64_t seed, struct ctr_buf *memo,
                       struct ctr_colbuf *out, struct ctr_err *err)
{
    uint64_t *k, missing = ctr_missing_key(seed);
    uint8_t ok[CTR_OP_TILE];
    int rc = ctr_buf_reserve(&out->data, (size_t)rows * 8, err);

    if (rc)
        return rc;
    k = (uint64_t *)(out->data.data + out->data.len);
    if ((rc = ctr_keys_scalar(key, c, 0, rows, seed, memo, k, err)))
        return rc;
    bool patched = !key && c->type == CTR_UTF8;
    for (int64_t done = 0; c->valid && !patched && done < rows; done += CTR_OP_TILE) {
        int64_t n = CTR_MIN(rows - done, CTR_OP_TILE);
        ctr_lane_valid(c->valid, done, n, ok);
        patch_missing(ok, n, missing, k + done);
    }
    out->data.len += (size_t)rows * 8;
    out->rows += rows;
    return 0;
}

/* Compute once per entry of the dictionary, then gather. */
static int entry_keys(bool key, const struct ctr_col *c, int64_t rows, uint64_t seed, struct ctr_buf *memo,
                      struct ctr_colbuf *out, struct ctr_err *err)
{
    const int32_t *idx = c->data;
    struct ctr_colbuf b;
    struct ctr_field f = { .type = CTR_U64 };
    uint8_t ok[CTR_OP_TILE];
    uint64_t *to;
    const uint64_t *from;
    uint64_t missing = ctr_missing_key(seed);
    int rc = ctr_colbuf_init(&b, &f, err);

    if (!rc)
        rc = scalar_keys(key, c->dict, c->dict->rows, seed, memo, &b, err);
    if (!rc)
        rc = ctr_buf_reserve(&out->data, (size_t)rows * 8, err);
    if (!rc) {
        to = (uint64_t *)(out->data.data + out->data.len);
        from = (const uint64_t *)b.data.data;
        for (int64_t done = 0; done < rows; done += CTR_OP_TILE) {
            int64_t n = CTR_MIN(rows - done, CTR_OP_TILE);
            ctr_lane_valid(c->valid, done, n, ok);
            for (int64_t i = 0; i < n; i++)
                to[done + i] = ok[i] ? from[idx[done + i]] : missing;
        }
        out->data.len += (size_t)rows * 8;
        out->rows += rows;
    }
    ctr_colbuf_free(&b);
    return rc;
}

static int dict_keys(bool key, const struct ctr_col *c, int64_t rows, uint64_t seed, struct ctr_buf *memo,
                     struct ctr_colbuf *out, struct ctr_err *err)
{
    struct ctr_field f = { .type = c->dict->type };
    struct ctr_colbuf b;
    int rc;

    if (c->dict->rows <= rows)
        return entry_keys(key, c, rows, seed, memo, out, err);
    if ((rc = ctr_colbuf_init(&b, &f, err))) /* when there are fewer rows than entries */
        return rc;
    rc = ctr_colbuf_range(&b, c, 0, rows, err);
    if (!rc)
        rc = scalar_keys(key, ctr_colbuf_view(&b), rows, seed, memo, out, err);
    ctr_colbuf_free(&b);
    return rc;
}

/* A null list has the single key "(missing)", a null item none, or that key in an aligned list. */
static int list_keys(const struct ctr_vtype *type, const struct ctr_col *c, int64_t rows, uint64_t seed,
                     struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err)
{
    int64_t from = c->offsets ? c->offsets[0] : 0;
    int64_t n = c->offsets ? c->offsets[rows] - from : rows * type->width;
    uint64_t missing = ctr_missing_key(seed);
    struct ctr_colbuf *b = out->item;
    uint64_t *all = malloc((size_t)n * 8 + 8), *to;
    int rc = all ? 0 : ctr_fail_nomem(err, (size_t)n * 8);

    if (!rc)
        rc = ctr_keys_scalar(type->key, c->item, from, n, seed, memo, all, err);
    if (!rc)
        rc = ctr_op_reserve_items(out, rows, n + rows, 0, err);
    if (!rc)
        rc = ctr_buf_reserve(&b->data, (size_t)(n + rows) * 8, err);
    if (rc) {
        free(all);
        return rc;
    }
    to = (uint64_t *)b->data.data;
    int32_t *end = (int32_t *)(out->offsets.data + out->offsets.len);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = c->offsets ? c->offsets[i] : i * type->width;
        int64_t stop = c->offsets ? c->offsets[i + 1] : at + type->width;
        if (ctr_col_null(c, i))
            to[b->rows++] = missing;
        else
            for (; at < stop; at++) {
                const bool null = ctr_col_missing(c->item, at);
                to[b->rows] = null ? missing : all[at - from];
                b->rows += !null || type->aligned;
            }
        end[i] = (int32_t)b->rows;
    }
    b->data.len = (size_t)b->rows * 8;
    out->offsets.len += (size_t)rows * sizeof *end;
    out->rows += rows;
    free(all);
    return 0;
}

int ctr_op_keys(const struct ctr_vtype *type, const struct ctr_col *col, int64_t rows, uint64_t table_seed,
                struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err)
{
    bool list = type->type == CTR_LIST || type->type == CTR_FIXED;
    struct ctr_field f = ctr_vtype_field(type);
    struct ctr_colbuf b;
    int rc;

    if ((list ? type->item : type->type) == CTR_WKEY)
        return ctr_fail(err, CTR_EUSAGE, "weighted keys are features already");
    if (!list)
        return col->dict ? dict_keys(type->key, col, rows, table_seed, memo, out, err)
                         : scalar_keys(type->key, col, rows, table_seed, memo, out, err);
    if (rows == 0 || !col->dict)
        return rows == 0 ? 0 : list_keys(type, col, rows, table_seed, memo, out, err);
    if ((rc = ctr_colbuf_init(&b, &f, err)))
        return rc;
    rc = ctr_colbuf_range(&b, col, 0, rows, err);
    if (!rc)
        rc = list_keys(type, ctr_colbuf_view(&b), rows, table_seed, memo, out, err);
    ctr_colbuf_free(&b);
    return rc;
}

/* ---- cross and hash ---- */

static int prepare_hash_bits(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    int64_t bits = call->arg[1].literal->i;

    (void)s;
    if (bits < 1 || bits > 63)
        return ctr_fail(err, CTR_EUSAGE, "hash_bits wants 1 to 63 bits");
    return 0;
}

/* Only scalars match the pattern; if any argument is a list, its lane becomes a list of hashes. */
static int prepare_cross(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    bool any = false;

    if (s->nargs < 2)
        return ctr_fail(err, CTR_EUSAGE, "cross wants two or more arguments: %s", call->op->signature);
    for (int k = 0; k < s->nargs; k++) {
        enum ctr_type t = call->arg[k].type.type;
        bool list = !call->arg[k].literal && (t == CTR_LIST || t == CTR_FIXED);
        enum ctr_type scalar = list ? call->arg[k].type.item : t;
        if (call->arg[k].literal && call->arg[k].literal->kind == CTR_V_LIST)
            return ctr_fail(err, CTR_EUSAGE, "cross wants scalars or columns of lists, got a literal list");
        if (!call->arg[k].literal && scalar == CTR_WKEY)
            return ctr_fail(err, CTR_EUSAGE, "cross cannot take weighted keys");
        s->in[k] = (struct ctr_lane_kind){ CTR_LANE_HASH, list };
        any |= list;
    }
    if (any) {
        s->loop = loop_cross_lists;
        s->inner = call->result = (struct ctr_vtype){ .type = CTR_LIST, .item = CTR_U64, .key = true };
    }
    return 0;
}

const struct ctr_op ctr_ops_key[] = {
    { "cross", "cross(scalar or list, scalar or list, ...) -> key or list of key",
      "a key of the combination; of lists one of each: length(cross(split(\"a b\", \" \"), split(\"x y\", \" \"))) is "
      "4",
      0, CTR_VARIANTS({ "v*>k", loop_cross }), NULL, prepare_cross },
    { "hash", "hash(scalar) -> key", "the 64-bit hash of the text of x: hash(\"a\") is 16629034431890738719",
      CTR_OP_LIFT, CTR_VARIANTS({ "h>k", loop_hash }) },
    { "hash_bits", "hash_bits(scalar, bits: int) -> int",
      "the hash of x in 2^bits values, collisions by design: hash_bits(\"a\", 10) is 923", CTR_OP_LIFT,
      CTR_VARIANTS({ "hi!>i", loop_hash_bits }), NULL, prepare_hash_bits },
    { NULL },
};
